"""Initial and transition probabilities of a chain as PyTensor nodes, and states drawn from given uniform numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.latents.chains.markov_chain import classes, stationary

__all__ = ["GivenUniforms", "chain_variables"]


def chain_variables(chain: Any, start: Mapping[str, np.ndarray] | None) -> dict[str, Any]:
    """Initial and transition probabilities on PyMC's context stack; learned ones have Dirichlet priors."""
    import pymc as pm
    import pytensor.tensor as pt

    out: dict[str, Any] = {}
    if chain.transition is not None:
        out["transition"] = pt.as_tensor_variable(chain.transition)
    for name in chain.learned:
        a = chain.concentration(name)
        begin = {} if start is None else {"initval": start[name]}
        if (a > 0).all():
            out[name] = pm.Dirichlet(name, a, dims=chain.dims(name), **begin)
        else:
            out[name] = pm.Deterministic(name, _with_zeros(name, a, start), dims=chain.dims(name))
    if isinstance(chain.initial, str):
        if chain.initial == "stationary":
            known = chain.transition is not None
            out["initial"] = stationary(chain.transition) if known else _stationary(out["transition"], chain.mask)
    else:
        out["initial"] = chain.initial
    return out


def _with_zeros(name: str, a: np.ndarray, start: Mapping[str, np.ndarray] | None) -> Any:
    """Rows with structural zeros, Dirichlet elsewhere; rows with equally many free cells are one variable."""
    import pymc as pm
    import pytensor.tensor as pt

    out = pt.zeros(a.shape)
    sizes = (a > 0).sum(axis=1)
    for n in np.unique(sizes):
        rows = np.flatnonzero(sizes == n)
        at = rows[:, None], np.stack([np.flatnonzero(a[row] > 0) for row in rows])
        if n == 1:
            out = pt.set_subtensor(out[at], 1.0)
            continue
        begin = {} if start is None else {"initval": start[name][at]}
        out = pt.set_subtensor(out[at], pm.Dirichlet(f"_{name}_{n}", a[at], shape=a[at].shape, **begin))
    return out


def _stationary(transition: Any, mask: np.ndarray) -> Any:
    """The stationary distribution π, with π A = π and Σ π = 1: the solution of π (I - A + 1) = 1 if π is unique.

    Transient states have probability zero and are left out of the equations: rounding would give them small positive or
    negative values.
    """
    import pytensor.tensor as pt

    communicating_classes = classes(mask)
    members = np.array(
        next(
            states
            for states, closed in zip(communicating_classes.members, communicating_classes.closed, strict=True)
            if closed
        )
    )
    matrix = pt.eye(len(members)) - transition[members[:, None], members] + 1.0
    return pt.set_subtensor(pt.zeros(len(mask))[members], pt.linalg.solve(matrix.T, pt.ones(len(members))))


class GivenUniforms(np.random.Generator):
    """A random generator whose uniform numbers are given."""

    def __init__(self, values: np.ndarray) -> None:
        super().__init__(np.random.PCG64(0))
        self._values = values

    def random(self, n: int) -> np.ndarray:  # type: ignore[override]
        return np.ascontiguousarray(self._values[:n])
