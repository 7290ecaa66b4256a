"""Values of PyTensor variables that are known, or can be drawn, before sampling."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.pytensorf import compile as compile_pymc
from pytensor.graph.replace import clone_replace
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.special import Softmax

from bayeslab.families.graph.discrete_layout import Latent

__all__ = ["drawn", "log_or_nothing", "positive", "stationary"]

_DRAWS = 3


def positive(value: Any) -> bool:
    """Whether a variable is a vector of positive probabilities by construction."""
    node = value.owner
    while node is not None and isinstance(node.op, DimShuffle):
        node = node.inputs[0].owner
    return node is not None and (isinstance(node.op, Softmax) or type(node.op).__name__ == "DirichletRV")


def log_or_nothing(value: Any) -> Any:
    """The logarithm; -inf with derivative 0 at zero."""
    gone = pt.eq(value, 0.0)
    return pt.switch(gone, -np.inf, pt.log(pt.switch(gone, 1.0, value)))


def stationary(probabilities: Any) -> Any:
    """The stationary distribution π of transition probabilities (..., states, states): π (I - P + 1) = 1."""
    n = probabilities.type.shape[-1]
    matrix = pt.swapaxes(pt.eye(n) - probabilities + 1.0, -1, -2)
    ones = pt.ones((*probabilities.shape[:-2], n, 1))
    return pt.linalg.solve(matrix, ones)[..., 0]


def drawn(value: Any, latents: Iterable[Latent]) -> np.ndarray | None:
    """A few values of an expression, with parameters drawn from their priors; None if they cannot be drawn.

    Discrete nodes that are summed out have their lowest values.
    """
    first = {one.symbol: pt.constant(np.full(one.shape, one.first, np.int64)) for one in latents}
    try:
        (value,) = clone_replace([value], first, rebuild_strict=False)
        draw = compile_pymc([], value, mode=pytensor.compile.mode.Mode("py", None), random_seed=0)
        return np.stack([np.asarray(draw()) for _ in range(_DRAWS)])
    except (NotImplementedError, ValueError):
        return None
