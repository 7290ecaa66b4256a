"""Stick-breaking weights as random variables of PyMC graphs.

References
----------
.. [1] Ishwaran, James (2001). Gibbs sampling methods for stick-breaking priors. JASA 96, 161-173.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.dist_math import betaln
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.distributions.multivariate import SimplexContinuous
from pymc.distributions.shape_utils import rv_size_is_none
from pymc.pytensorf import normalize_rng_param
from pytensor.tensor.random.utils import normalize_size_param

__all__ = ["StickBreaking"]

_LEAST = np.finfo(float).tiny


class _StickBreakingRV(SymbolicRandomVariable):
    """Stick-breaking weights, by alpha, discount and the indices 1, ..., K - 1 of the breaks."""

    name = "stick_breaking"
    extended_signature = "[rng],[size],(),(),(b)->[rng],(k)"
    _print_name = ("StickBreaking", "\\operatorname{StickBreaking}")

    @classmethod
    def rv_op(cls, alpha: Any, discount: Any, breaks: Any, *, size: Any = None, rng: Any = None) -> Any:
        alpha, discount, breaks = map(pt.as_tensor_variable, (alpha, discount, breaks))
        rng, size = normalize_rng_param(rng), normalize_size_param(size)
        a, b = _betas(alpha, discount, breaks)
        whole = None if rv_size_is_none(size) else pt.concatenate([size, breaks.shape])
        after, v = pt.random.beta(a, b, size=whole, rng=rng, return_next_rng=True)
        drawn = _shares(v)
        return cls(inputs=[rng, size, alpha, discount, breaks], outputs=[after, drawn])(
            rng, size, alpha, discount, breaks
        )


class StickBreaking(SimplexContinuous):
    """Stick-breaking weights: see :mod:`bayeslab.distributions.stick_breaking`.

    The last number of ``shape`` is the number of weights.
    """

    rv_type = _StickBreakingRV
    rv_op = _StickBreakingRV.rv_op

    @classmethod
    def dist(cls, alpha: Any, discount: Any = 0.0, *, shape: Any, **kwargs: Any) -> Any:
        """Create the variable; ``alpha`` and ``discount`` are numbers, or have an axis for each vector of weights."""
        breaks = pt.constant(np.arange(1.0, shape[-1]))
        alpha, discount = (pt.as_tensor_variable(value, dtype="float64") for value in (alpha, discount))
        return super().dist([alpha, discount, breaks], shape=shape, **kwargs)

    def support_point(rv, size: Any, alpha: Any, discount: Any, breaks: Any) -> Any:
        a, b = _betas(alpha, discount, breaks)
        mean = _shares(a / (a + b))
        return mean if rv_size_is_none(size) else pt.full(pt.concatenate([size, mean.shape[-1:]]), mean)

    def logp(value: Any, alpha: Any, discount: Any, breaks: Any) -> Any:
        a, b = _betas(alpha, discount, breaks)
        # Remaining length of the stick before each break; samplers reach weights that underflow.
        left = pt.log(pt.maximum(pt.cumsum(value[..., ::-1], axis=-1)[..., ::-1], _LEAST))
        before, after, shares = left[..., :-1], left[..., 1:], pt.log(pt.maximum(value[..., :-1], _LEAST))
        terms = (a - 1.0) * shares - a * before + (b - 1.0) * (after - before) - betaln(a, b)
        log_p = pt.sum(terms, axis=-1)
        outside = pt.or_(pt.any(pt.lt(value, 0.0), axis=-1), pt.gt(pt.abs(value.sum(axis=-1) - 1.0), 1e-5))
        return pt.switch(outside, -np.inf, log_p)


def _betas(alpha: Any, discount: Any, breaks: Any) -> tuple[Any, Any]:
    """Both parameters of the beta distribution of the fraction that each break takes."""
    alpha, discount = pt.shape_padright(alpha), pt.shape_padright(discount)
    return 1.0 - discount + pt.zeros_like(alpha + breaks), alpha + discount * breaks


def _shares(v: Any) -> Any:
    one = pt.ones_like(v[..., :1]) if v.type.shape[-1] != 0 else pt.ones((*v.shape[:-1], 1))
    left = pt.concatenate([one, pt.cumprod(1.0 - v, axis=-1)], axis=-1)
    return pt.concatenate([left[..., :-1] * v, left[..., -1:]], axis=-1)
