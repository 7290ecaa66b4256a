"""Initial and transition probabilities of a chain as PyTensor nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.exact.markov_chain import classes, stationary
from bayeslab.families.hmm.chain import Chain

__all__ = ["chain_variables"]


def chain_variables(chain: Any, start: Mapping[str, np.ndarray] | None) -> dict[str, Any]:
    """Initial and transition probabilities, and whatever else the chain has, on PyMC's context stack."""
    import pymc as pm
    import pytensor.tensor as pt

    if hasattr(chain, "variables"):
        return dict(chain.variables(start))
    out: dict[str, Any] = {}
    if chain.transition is not None:
        out["transition"] = pt.as_tensor_variable(chain.transition)
    given = chain.given if isinstance(chain, Chain) else {}
    out |= {name: pt.as_tensor_variable(value) for name, value in given.items()}
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
    """Rows with zeros at some places, Dirichlet elsewhere; rows with as many places left are one variable."""
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
    """π with π A = π and Σ π = 1: of π (I - A + 1) = 1, which is regular where π is unique.

    States that are left for good have nothing, and no part in the equations: rounding would leave them a little, and
    below zero as often as above.
    """
    import pytensor.tensor as pt

    found = classes(mask)
    members = np.array(next(own for own, closed in zip(found.members, found.closed, strict=True) if closed))
    matrix = pt.eye(len(members)) - transition[members[:, None], members] + 1.0
    return pt.set_subtensor(pt.zeros(len(mask))[members], pt.linalg.solve(matrix.T, pt.ones(len(members))))
