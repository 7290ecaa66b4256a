"""The density of only the observed cells of a random variable; the others sum out to a factor of 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import SymbolicRandomVariable, create_partial_observed_rv
from pymc.logprob.abstract import _logprob
from pymc.logprob.basic import logp
from pytensor.tensor.random.op import RandomVariable

__all__ = ["present"]


class _Present(SymbolicRandomVariable):
    """Some cells of a composite variable (hurdle, zero-inflated, censored, a mixture)."""

    inline_logprob = False
    ndim_supp = 0


def present(rv: Any, observed: np.ma.MaskedArray) -> Any:
    """The observed cells of a random variable.

    Parameters
    ----------
    rv : TensorVariable
        Its cells are independent given its parameters.
    observed : masked array of the variable's shape
        Masked values are in the support: their density is computed and left out.

    Returns
    -------
    TensorVariable
        A vector.
    """
    gone = np.ma.getmaskarray(observed)
    if isinstance(rv.owner.op, RandomVariable):
        (cells, _), _, _ = create_partial_observed_rv(rv, gone)
        return cells
    whole, there = rv.type(), pt.constant(~gone)
    stands = pt.constant(np.ma.getdata(observed).astype(np.float64))
    place, value = there.type(), stands.type()
    made = _Present(inputs=[whole, place, value], outputs=[whole[place]])
    return made(rv, there, stands)


@_logprob.register(_Present)
def _present_logprob(op: Any, values: Any, rv: Any, there: Any, stands: Any, **_: Any) -> Any:
    (value,) = values
    whole = pt.set_subtensor(stands[there], value).astype(rv.dtype)
    return logp(rv, whole, warn_rvs=False)[there]
