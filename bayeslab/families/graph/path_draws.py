"""Hidden paths as random variables: drawn in simulations, with the density of an observed path."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.logprob.abstract import _logprob
from pytensor.tensor.random.op import RandomVariable

from bayeslab.families.graph.path_laws import PathLaw
from bayeslab.language.backends import PYTENSOR

__all__ = ["PathRV", "path_variable"]


class PathRV(RandomVariable):
    """A path over the cells of a node, from its flat log probabilities.

    Parameters
    ----------
    law : PathLaw
    lengths : tuple of int
        The shape of the node.
    """

    name = "hidden_path"
    dtype = "int64"
    __props__ = ("law", "lengths", "dtype", "inplace")
    _print_name = ("HiddenPath", "HiddenPath")

    def __init__(self, law: PathLaw, lengths: tuple[int, ...], dtype: str = "int64", inplace: bool = False) -> None:
        self.law, self.lengths = law, lengths
        cells = ",".join(f"n{i}" for i in range(len(lengths)))
        super().__init__(dtype=dtype, inplace=inplace, signature=f"(m)->({cells})")

    def _supp_shape_from_params(self, dist_params: Any, param_shapes: Any = None) -> tuple[Any, ...]:
        return tuple(pt.constant(n, dtype="int64") for n in self.lengths)

    def rng_fn(self, rng: np.random.Generator, logs: np.ndarray, size: Any = None) -> np.ndarray:
        batch = np.broadcast_shapes(() if size is None else tuple(size), logs.shape[:-1])
        many = np.broadcast_to(logs, (*batch, logs.shape[-1])).reshape(-1, logs.shape[-1])
        states = np.stack([self.law.simulate(np.ascontiguousarray(each), rng) for each in many])
        return states.reshape(*batch, *self.lengths)


def path_variable(law: PathLaw, logs: Any, lengths: tuple[int, ...]) -> Any:
    """The random variable of a path."""
    assert math.prod(lengths) == law.n_cells
    rng = pytensor.shared(np.random.default_rng())
    _, path = PathRV(law, lengths)(logs, rng=rng, return_next_rng=True)
    return path


@_logprob.register(PathRV)
def _path_log_probability(op: PathRV, values: Any, rng: Any, size: Any, logs: Any, **_: Any) -> Any:
    (states,) = values
    return pt.sum(op.law.density(PYTENSOR, logs, states.ravel()))
