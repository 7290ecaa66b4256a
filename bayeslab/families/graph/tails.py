"""Log distribution functions and log survival functions that stay accurate far into the tails.

Censored and truncated densities need both. Under a vague prior a chain may start so far out that ``log(1 - cdf)`` is
-inf and has no gradient; then it cannot move. This module has both tails of every distribution that can be censored or
truncated. PyMC has the log survival function of only two of them, and its ``logcdf`` of Wald confuses the shape
parameter with its inverse.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from inspect import getsource
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.censored import CensoredRV
from pymc.distributions.dist_math import normal_lccdf, normal_lcdf
from pymc.distributions.distribution import Discrete, SymbolicRandomVariable
from pymc.distributions.mixture import _BaseMixtureRV
from pymc.distributions.shape_utils import _change_dist_size, rv_size_is_none
from pymc.distributions.transforms import _default_transform
from pymc.distributions.truncated import TruncatedRV, change_truncated_size, truncated_default_transform
from pymc.logprob.abstract import _logprob, _logprob_helper
from pymc.pytensorf import normalize_rng_param
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.scalar import register_scalar_funcify
from pytensor.scalar.basic import ScalarOp, exp, log, upgrade_to_float_no_complex
from pytensor.scalar.math import gammaln
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.utils import normalize_size_param
from pytensor.tensor.special import Softmax

from bayeslab.constants import HALF_LOG_2PI, LOG_2
from bayeslab.families.graph import tail_kernels

__all__ = ["LogCategorical", "censored", "log_cumulative", "log_survival", "ordered", "softmax_input", "truncated"]

type Pair = tuple[Any, Any]
ROOT_2 = float(np.sqrt(2.0))


# ------------------------------------------------------------------------------- special functions


class _Kernel(ScalarOp):
    """A numba function of scalars; ``slopes`` are its partial derivatives, one for each argument."""

    kernel: str
    slopes: tuple[Callable[..., Any] | None, ...] = ()

    def impl(self, *values: float) -> float:
        return float(getattr(tail_kernels, self.kernel)(*(float(v) for v in values)))

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        if not self.slopes:
            raise NotImplementedError(f"{self.kernel} has no second derivative")
        zero = inputs[0].zeros_like()
        return [cotangents[0] * slope(*inputs, outputs[0]) if slope else zero for slope in self.slopes]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


@register_scalar_funcify(_Kernel)
def _compiled(op: _Kernel, node: Any, **_: Any) -> tuple[Any, str]:
    kernel = getattr(tail_kernels, op.kernel)

    @numba_njit
    def tail(*values):  # type: ignore[no-untyped-def]
        return kernel(*values)

    return tail, hashlib.sha256(f"tail 1 {op.kernel} {getsource(tail_kernels)}".encode()).hexdigest()


def _scalar_op(name: str, nin: int, slopes: tuple[Callable[..., Any] | None, ...] = ()) -> Any:
    kind = type(name, (_Kernel,), {"kernel": name, "nin": nin, "nout": 1, "slopes": slopes})
    return kind(upgrade_to_float_no_complex, name=name)


def _gamma_density(k: Any, x: Any, out: Any) -> Any:
    """Derivative of log P(k, x) with respect to x, where ``out`` is log P."""
    return exp((k - 1.0) * log(x) - x - gammaln(k) - out)


def _beta_density(a: Any, b: Any, x: Any, y: Any, out: Any) -> Any:
    """Derivative of log I_x(a, b) with respect to x, where ``out`` is log I."""
    return exp(gammaln(a + b) - gammaln(a) - gammaln(b) + (a - 1.0) * log(x) + (b - 1.0) * log(y) - out)


_log_gamma_p_slope, _log_gamma_q_slope = _scalar_op("log_gamma_p_shape", 2), _scalar_op("log_gamma_q_shape", 2)
_log_beta_slope_a, _log_beta_slope_b = _scalar_op("log_beta_first", 4), _scalar_op("log_beta_second", 4)
_log_gamma_p = Elemwise(_scalar_op("log_gamma_p", 2, (lambda k, x, out: _log_gamma_p_slope(k, x), _gamma_density)))
_log_gamma_q = Elemwise(
    _scalar_op(
        "log_gamma_q", 2, (lambda k, x, out: _log_gamma_q_slope(k, x), lambda k, x, out: -_gamma_density(k, x, out))
    )
)
# y = 1 - x is an argument only for accuracy; the derivative with respect to x includes that through y.
_log_beta_i = Elemwise(
    _scalar_op(
        "log_beta_i",
        4,
        (
            lambda a, b, x, y, out: _log_beta_slope_a(a, b, x, y),
            lambda a, b, x, y, out: _log_beta_slope_b(a, b, x, y),
            _beta_density,
            None,
        ),
    )
)


def _log1mexp(x: Any) -> Any:
    """log(1 - exp(x)), x ≤ 0; its gradient is finite also where exp(x) underflows."""
    low = x < -LOG_2
    return pt.switch(low, pt.log1p(-pt.exp(pt.switch(low, x, -1.0))), pt.log(-pt.expm1(pt.switch(low, -0.5, x))))


def _below(first: Any, value: Any, inside: Any) -> Pair:
    """Both log tails of a distribution whose support begins at ``first``."""
    under = pt.lt(value, first)
    return pt.switch(under, -np.inf, inside[0]), pt.switch(under, 0.0, inside[1])


def _within(lower: Any, upper: Any, value: Any, inside: Pair) -> Pair:
    """Both log tails of a distribution whose support is bounded on both sides."""
    low, high = _below(lower, value, inside)
    over = pt.ge(value, upper)
    return pt.switch(over, 0.0, low), pt.switch(over, -np.inf, high)


def _safe(value: Any, allowed: Any, instead: Any) -> Any:
    """``value`` where it is allowed, else ``instead``: the untaken branch of a switch needs a finite gradient, too."""
    return pt.switch(allowed, value, instead)


# ----------------------------------------------------------------------------------- distributions
# Each function returns (log P(X ≤ x), log P(X > x)), given x and the parameters of PyMC's op.


def _uniform(x: Any, lower: Any, upper: Any) -> Pair:
    inside = pt.and_(pt.gt(x, lower), pt.lt(x, upper))
    at, width = _safe(x, inside, 0.5 * (lower + upper)), pt.log(upper - lower)
    return _within(lower, upper, x, (pt.log(at - lower) - width, pt.log(upper - at) - width))


def _normal(x: Any, mu: Any, sigma: Any) -> Pair:
    return normal_lcdf(mu, sigma, x), normal_lccdf(mu, sigma, x)


def _half_normal(x: Any, loc: Any, sigma: Any) -> Pair:
    z = _safe((x - loc) / sigma, pt.gt(x, loc), 1.0)
    high = LOG_2 + normal_lccdf(0.0, 1.0, z)
    return _below(loc, x, (pt.switch(z < 1.0, pt.log(pt.erf(z / ROOT_2)), _log1mexp(high)), high))


def _log_normal(x: Any, mu: Any, sigma: Any) -> Pair:
    return _below(0.0, x, _normal(pt.log(_safe(x, pt.gt(x, 0.0), 1.0)), mu, sigma))


def _mills_ratio(u: Any) -> Any:
    """Φ(-u) / φ(u)."""
    return pt.sqrt(np.pi / 2.0) * pt.erfcx(u / ROOT_2)


def _log_phi(z: Any) -> Any:
    return -0.5 * z**2 - HALF_LOG_2PI


def _wald(x: Any, mu: Any, lam: Any, alpha: Any) -> Pair:
    # Shuster (1968), On the inverse Gaussian distribution function, JASA 63. Mills ratios avoid cancellation.
    t = _safe(x - alpha, pt.gt(x, alpha), mu)
    root = pt.sqrt(lam / t)
    a, b = root * (t / mu - 1.0), root * (t / mu + 1.0)
    low = pt.logaddexp(normal_lcdf(0.0, 1.0, a), _log_phi(a) + pt.log(_mills_ratio(b)))
    late = pt.gt(a, 0.0)
    u, v = _safe(a, late, 1.0), _safe(b, late, 2.0)
    high = pt.switch(
        late, _log_phi(u) + pt.log(_mills_ratio(u) - _mills_ratio(v)), _log1mexp(_safe(low, pt.invert(late), -1.0))
    )
    return _below(alpha, x, (low, high))


def _beta(x: Any, alpha: Any, beta: Any) -> Pair:
    at = _safe(x, pt.and_(pt.gt(x, 0.0), pt.lt(x, 1.0)), 0.5)
    inside = _log_beta_i(alpha, beta, at, 1.0 - at), _log_beta_i(beta, alpha, 1.0 - at, at)
    return _within(0.0, 1.0, x, inside)


def _kumaraswamy(x: Any, a: Any, b: Any) -> Pair:
    at = _safe(x, pt.and_(pt.gt(x, 0.0), pt.lt(x, 1.0)), 0.5)
    high = b * _log1mexp(a * pt.log(at))
    return _within(0.0, 1.0, x, (_log1mexp(high), high))


def _exponential(x: Any, mu: Any) -> Pair:
    t = _safe(x / mu, pt.gt(x, 0.0), 1.0)
    return _below(0.0, x, (pt.switch(pt.gt(x, 0.0), _log1mexp(-t), -np.inf), pt.switch(pt.gt(x, 0.0), -t, 0.0)))


def _laplace(x: Any, mu: Any, b: Any) -> Pair:
    z = (x - mu) / b
    tail = -LOG_2 - pt.abs(z)
    rest = pt.log1p(-pt.exp(tail))
    return pt.switch(z < 0, tail, rest), pt.switch(z < 0, rest, tail)


def _student_t(x: Any, nu: Any, mu: Any, sigma: Any) -> Pair:
    z = (x - mu) / sigma
    outer, inner = nu / (nu + z**2), z**2 / (nu + z**2)
    far = z**2 > nu
    # Near the centre the fraction is close to one; there its complement is accurate.
    tail = -LOG_2 + pt.switch(
        far,
        _log_beta_i(nu / 2.0, 0.5, _safe(outer, far, 0.5), _safe(inner, far, 0.5)),
        _log1mexp(_log_beta_i(0.5, nu / 2.0, _safe(inner, pt.invert(far), 0.5), _safe(outer, pt.invert(far), 0.5))),
    )
    tail = pt.switch(pt.eq(z, 0.0), -LOG_2, tail)
    rest = pt.log1p(-pt.exp(tail))
    return pt.switch(z < 0, tail, rest), pt.switch(z < 0, rest, tail)


def _skew_student_t(x: Any, a: Any, b: Any, mu: Any, sigma: Any) -> Pair:
    z = (x - mu) / sigma
    root = pt.sqrt(a + b + z**2)
    # (1 - z / root) / 2 without cancellation.
    small = (a + b) / (2.0 * root * (root + pt.abs(z)))
    low, high = pt.switch(z < 0, small, 1.0 - small), pt.switch(z < 0, 1.0 - small, small)
    return _log_beta_i(a, b, low, high), _log_beta_i(b, a, high, low)


def _pareto(x: Any, alpha: Any, m: Any) -> Pair:
    high = alpha * pt.log(m / _safe(x, pt.gt(x, m), 2.0 * m))
    inside = pt.switch(pt.gt(x, m), _log1mexp(high), -np.inf), pt.switch(pt.gt(x, m), high, 0.0)
    return _below(m, x, inside)


def _cauchy(x: Any, alpha: Any, beta: Any) -> Pair:
    z = (x - alpha) / beta
    return pt.log(pt.arctan2(1.0, -z) / np.pi), pt.log(pt.arctan2(1.0, z) / np.pi)


def _half_cauchy(x: Any, beta: Any) -> Pair:
    z = _safe(x / beta, pt.gt(x, 0.0), 1.0)
    inside = pt.log(2.0 * pt.arctan(z) / np.pi), pt.log(2.0 * pt.arctan2(1.0, z) / np.pi)
    low, high = _below(0.0, x, inside)
    return pt.switch(pt.eq(x, 0.0), -np.inf, low), pt.switch(pt.eq(x, 0.0), 0.0, high)


def _gamma(x: Any, alpha: Any, scale: Any) -> Pair:
    at = _safe(x / scale, pt.gt(x, 0.0), 1.0)
    low, high = _below(0.0, x, (_log_gamma_p(alpha, at), _log_gamma_q(alpha, at)))
    return pt.switch(pt.eq(x, 0.0), -np.inf, low), pt.switch(pt.eq(x, 0.0), 0.0, high)


def _inverse_gamma(x: Any, alpha: Any, beta: Any) -> Pair:
    high, low = _gamma(pt.switch(pt.gt(x, 0.0), beta / _safe(x, pt.gt(x, 0.0), 1.0), np.inf), alpha, 1.0)
    return low, high


def _weibull(x: Any, alpha: Any, beta: Any) -> Pair:
    high = -((_safe(x, pt.gt(x, 0.0), beta) / beta) ** alpha)
    inside = pt.switch(pt.gt(x, 0.0), _log1mexp(high), -np.inf), pt.switch(pt.gt(x, 0.0), high, 0.0)
    return _below(0.0, x, inside)


def _ex_gaussian(x: Any, mu: Any, sigma: Any, nu: Any) -> Pair:
    z, ratio = (x - mu) / sigma, sigma / nu
    # The share of the exponential is log φ(z) + log R(ratio - z), R the Mills ratio. Each form is used where no term
    # overflows.
    share = pt.switch(
        z < ratio,
        _log_phi(z) + pt.log(_mills_ratio(_safe(ratio - z, z < ratio, 1.0))),
        0.5 * ratio**2 - z * ratio + normal_lcdf(0.0, 1.0, _safe(z - ratio, z >= ratio, 1.0)),
    )
    high = pt.logaddexp(normal_lccdf(0.0, 1.0, z), share)
    early = z < 0
    u = _safe(-z, early, 1.0)
    low = pt.switch(
        early, _log_phi(z) + pt.log(_mills_ratio(u) - _mills_ratio(u + ratio)), _log1mexp(_safe(high, z >= 0, -1.0))
    )
    return low, high


def _triangular(x: Any, lower: Any, c: Any, upper: Any) -> Pair:
    inside = pt.and_(pt.gt(x, lower), pt.lt(x, upper))
    at = _safe(x, inside, 0.5 * (lower + upper))
    rising = at <= c
    up, down = _safe(at - lower, rising, 0.5 * (c - lower)), _safe(upper - at, pt.invert(rising), 0.5 * (upper - c))
    first = 2.0 * pt.log(up) - pt.log(upper - lower) - pt.log(c - lower)
    last = 2.0 * pt.log(down) - pt.log(upper - lower) - pt.log(upper - c)
    return _within(
        lower,
        upper,
        x,
        (pt.switch(rising, first, pt.log1p(-pt.exp(last))), pt.switch(rising, pt.log1p(-pt.exp(first)), last)),
    )


def _gumbel(x: Any, mu: Any, beta: Any) -> Pair:
    z = (x - mu) / beta
    far = z > 30.0  # 1 + exp(-z) rounds to 1
    low = -pt.exp(-z)
    return low, pt.switch(far, -z, _log1mexp(-pt.exp(-_safe(z, pt.invert(far), 0.0))))


def _logistic(x: Any, mu: Any, s: Any) -> Pair:
    z = (x - mu) / s
    return -pt.softplus(-z), -pt.softplus(z)


def _moyal(x: Any, mu: Any, sigma: Any) -> Pair:
    root = -0.5 * (x - mu) / sigma
    t = pt.exp(root)
    far = root < -15.0  # erf(t / √2) equals √(2/π) t in double precision
    high = pt.switch(far, root + 0.5 * np.log(2.0 / np.pi), pt.log(pt.erf(_safe(t, pt.invert(far), 1.0) / ROOT_2)))
    return LOG_2 + normal_lccdf(0.0, 1.0, t), high


def _binomial(x: Any, n: Any, p: Any) -> Pair:
    inside = pt.and_(pt.ge(x, 0), pt.lt(x, n))
    k, most = _safe(pt.floor(x), inside, 0.0), _safe(n, inside, 1.0)
    pair = _log_beta_i(most - k, k + 1.0, 1.0 - p, p), _log_beta_i(k + 1.0, most - k, p, 1.0 - p)
    return _within(0, n, x, pair)


def _poisson(x: Any, mu: Any) -> Pair:
    k = _safe(pt.floor(x), pt.ge(x, 0), 0.0)
    return _below(0, x, (_log_gamma_q(k + 1.0, mu), _log_gamma_p(k + 1.0, mu)))


def _negative_binomial(x: Any, n: Any, p: Any) -> Pair:
    k = _safe(pt.floor(x), pt.ge(x, 0), 0.0)
    return _below(0, x, (_log_beta_i(n, k + 1.0, p, 1.0 - p), _log_beta_i(k + 1.0, n, 1.0 - p, p)))


def _geometric(x: Any, p: Any) -> Pair:
    k = _safe(pt.floor(x), pt.ge(x, 1), 1.0)
    high = k * pt.log1p(-p)
    return _below(1, x, (_log1mexp(high), high))


def _discrete_weibull(x: Any, q: Any, beta: Any) -> Pair:
    high = (_safe(pt.floor(x), pt.ge(x, 0), 0.0) + 1.0) ** beta * pt.log(q)
    return _below(0, x, (_log1mexp(high), high))


def _discrete_uniform(x: Any, lower: Any, upper: Any) -> Pair:
    k = _safe(pt.floor(x), pt.and_(pt.ge(x, lower), pt.lt(x, upper)), lower)
    number = pt.log(upper - lower + 1.0)
    safe = pt.maximum(upper - k, 1.0)
    return _within(lower, upper, x, (pt.log(k - lower + 1.0) - number, pt.log(safe) - number))


#: Tails by the name of PyMC's op.
_TAILS: dict[str, Callable[..., Pair]] = {
    "UniformRV": _uniform,
    "NormalRV": _normal,
    "HalfNormalRV": _half_normal,
    "LogNormalRV": _log_normal,
    "WaldRV": _wald,
    "BetaRV": _beta,
    "BetaClippedRV": _beta,
    "KumaraswamyRV": _kumaraswamy,
    "ExponentialRV": _exponential,
    "LaplaceRV": _laplace,
    "StudentTRV": _student_t,
    "SkewStudentTRV": _skew_student_t,
    "ParetoRV": _pareto,
    "CauchyRV": _cauchy,
    "HalfCauchyRV": _half_cauchy,
    "GammaRV": _gamma,
    "InvGammaRV": _inverse_gamma,
    "WeibullBetaRV": _weibull,
    "ExGaussianRV": _ex_gaussian,
    "TriangularRV": _triangular,
    "GumbelRV": _gumbel,
    "LogisticRV": _logistic,
    "MoyalRV": _moyal,
    "BinomialRV": _binomial,
    "PoissonRV": _poisson,
    "NegBinomialRV": _negative_binomial,
    "GeometricRV": _geometric,
    "DiscreteWeibullRV": _discrete_weibull,
    "DiscreteUniformRV": _discrete_uniform,
}


def _parameters(rv: Any) -> list[Any]:
    """The parameters of a random variable, without its generator and size."""
    return list(rv.owner.op.dist_params(rv.owner))


def _log_tails(rv: Any, value: Any) -> Pair:
    """(log P(X ≤ value), log P(X > value)) of an unnamed random variable."""
    tails = _TAILS.get(type(rv.owner.op).__name__)
    if tails is not None:
        return tails(pt.as_tensor_variable(value), *_parameters(rv))
    if isinstance(rv.owner.op, _BaseMixtureRV) and rv.owner.op.ndim_supp == 0:
        return _mixture_tails(rv, value)
    low = pm.logcdf(rv, value, warn_rvs=False)
    return low, _log1mexp(low)


def _mixture_tails(rv: Any, value: Any) -> Pair:
    weights, *components = rv.owner.inputs[1:]
    if len(components) == 1:
        each = _log_tails(components[0], pt.shape_padright(pt.as_tensor_variable(value)))
    else:
        pairs = [_log_tails(component, value) for component in components]
        each = tuple(pt.stack([pair[k] for pair in pairs], axis=-1) for k in (0, 1))
    low, high = (pt.logsumexp(pt.log(weights) + part, axis=-1) for part in each)
    return low, high


def log_cumulative(rv: Any, value: Any) -> Any:
    """log P(X ≤ value) of an unnamed random variable, broadcast."""
    return _log_tails(rv, value)[0]


def log_survival(rv: Any, value: Any) -> Any:
    """log P(X > value) of an unnamed random variable, broadcast."""
    return _log_tails(rv, value)[1]


def _log_between(rv: Any, lower: Any, upper: Any) -> Any:
    """log P(lower < X ≤ upper), from the tail in which the interval lies."""
    (low, above), (below, high) = _log_tails(rv, lower), _log_tails(rv, upper)
    # The difference of the two smaller probabilities loses no accuracy.
    left = below < above
    big, small = pt.switch(left, below, above), pt.switch(left, low, high)
    none = pt.isinf(small)
    return pt.switch(none, big, big + _log1mexp(pt.switch(none, -1.0, small - big)))


# ------------------------------------------------------------------------- censored and truncated


class _Censored(CensoredRV):
    """PyMC's op, with a density from the tails above."""

    inline_logprob = False


class _Truncated(TruncatedRV):
    """PyMC's op, with a density from the tails above."""


def censored(rv: Any) -> Any:
    """``pm.Censored.dist(...)`` with a density that is accurate in the tails."""
    return _as_op(_Censored, rv)


def truncated(rv: Any) -> Any:
    """``pm.Truncated.dist(...)`` with a density that is accurate in the tails."""
    op = rv.owner.op
    if not isinstance(op, TruncatedRV):
        return rv  # PyMC built a special distribution, such as TruncatedNormal
    if _TAILS.get(type(op.base_rv_op).__name__) is None:
        return rv
    return _as_op(_Truncated, rv, base_rv_op=op.base_rv_op, ndim_supp=0, max_n_steps=op.max_n_steps)


def _as_op(kind: type, rv: Any, **options: Any) -> Any:
    """The graph of a random variable, as an op of class ``kind``."""
    inner = rv.owner.op.fgraph.unfreeze()
    return kind(inputs=list(inner.inputs), outputs=list(inner.outputs), **options)(*rv.owner.inputs)


def _is_bounded(bound: Any, sign: float) -> bool:
    data = getattr(bound, "data", None)
    return not (data is not None and np.all(np.asarray(data) == sign * np.inf))


@_logprob.register(_Censored)
def _censored_logprob(op: Any, values: Any, rv: Any, lower: Any, upper: Any, **_: Any) -> Any:
    (value,) = values
    out = _logprob_helper(rv, value)
    inside = out
    # The bounds of uncensored rows may be infinite, and tails have no gradient at infinity.
    at_upper, at_lower = pt.eq(value, upper), pt.eq(value, lower)
    if _is_bounded(upper, 1):
        high = log_survival(rv, _safe(upper, at_upper, value))
        # A discrete variable that equals the bound is censored, too.
        high = pt.logaddexp(high, inside) if rv.dtype.startswith("int") else high
        out = pt.switch(at_upper, high, pt.switch(pt.gt(value, upper), -np.inf, out))
    if _is_bounded(lower, -1):
        low = log_cumulative(rv, _safe(lower, at_lower, value))
        out = pt.switch(at_lower, low, pt.switch(pt.lt(value, lower), -np.inf, out))
    return out


@_logprob.register(_Truncated)
def _truncated_logprob(op: Any, values: Any, *inputs: Any, **_: Any) -> Any:
    (value,) = values
    *given, lower, upper = inputs
    rv = op.base_rv_op.make_node(*given).default_output()
    first = lower - 1 if rv.dtype.startswith("int") else lower
    is_lower, is_upper = _is_bounded(lower, -1), _is_bounded(upper, 1)
    if is_lower and is_upper:
        mass = _log_between(rv, first, upper)
    else:
        mass = log_survival(rv, first) if is_lower else log_cumulative(rv, upper)
    out = _logprob_helper(rv, value) - mass
    out = pt.switch(pt.lt(value, lower), -np.inf, out) if is_lower else out
    return pt.switch(pt.gt(value, upper), -np.inf, out) if is_upper else out


@_change_dist_size.register(_Censored)
def _resized_censored(op: Any, rv: Any, new_size: Any, expand: bool = False) -> Any:
    base, lower, upper = rv.owner.inputs
    size = (*new_size, *base.shape) if expand else new_size
    return censored(pm.Censored.rv_op(base, lower, upper, size=size))


@_change_dist_size.register(_Truncated)
def _resized_truncated(op: Any, rv: Any, new_size: Any, expand: bool = False) -> Any:
    return truncated(change_truncated_size(op, rv, new_size, expand))


_default_transform.register(_Truncated)(truncated_default_transform)


# -------------------------------------------------------------------------------------- categories


class _LogCategoricalRV(SymbolicRandomVariable):
    """Categorical variables, parametrised by log probabilities."""

    name = "log_categorical"
    extended_signature = "[rng],[size],(p)->[rng],()"
    _print_name = ("Categorical", "\\operatorname{Categorical}")

    @classmethod
    def rv_op(cls, log_p: Any, *, size: Any = None, rng: Any = None) -> Any:
        log_p = pt.as_tensor_variable(log_p)
        rng, size = normalize_rng_param(rng), normalize_size_param(size)
        after, drawn = pt.random.categorical(
            pt.special.softmax(log_p, axis=-1), size=size, rng=rng, return_next_rng=True
        )
        return cls(inputs=[rng, size, log_p], outputs=[after, drawn])(rng, size, log_p)


class LogCategorical(Discrete):
    """``pm.Categorical`` whose log density stays finite where a probability underflows."""

    rv_type = _LogCategoricalRV
    rv_op = _LogCategoricalRV.rv_op

    @classmethod
    def dist(cls, log_p: Any, **kwargs: Any) -> Any:
        """Unnamed variable whose probabilities are the softmax of ``log_p`` over the last axis."""
        return super().dist([pt.special.log_softmax(log_p, axis=-1)], **kwargs)

    def support_point(rv, size: Any, log_p: Any) -> Any:
        mode = pt.argmax(log_p, axis=-1)
        return mode if rv_size_is_none(size) else pt.full(size, mode)

    def logp(value: Any, log_p: Any) -> Any:
        most = log_p.shape[-1] - 1
        lead = max(value.ndim, log_p.ndim - 1)
        value = pt.shape_padleft(value, lead - value.ndim)
        table = pt.shape_padleft(log_p, lead + 1 - log_p.ndim)
        at = pt.clip(value, 0, most).astype("int64")
        log_probability = pt.take_along_axis(table, at[..., None], axis=-1)[..., 0]
        return pt.switch(pt.or_(pt.lt(value, 0), pt.gt(value, most)), -np.inf, log_probability)


def softmax_input(p: Any) -> Any | None:
    """The argument of the softmax over the last axis that gave ``p``; None if ``p`` is no such softmax."""
    if p.owner is None or not isinstance(p.owner.op, Softmax):
        return None
    return p.owner.inputs[0] if p.owner.op.axis == (p.ndim - 1,) else None


def ordered(word: str, eta: Any, cutpoints: Any, sigma: Any = 1.0) -> Any:
    """Log probabilities of the categories of an ordered logistic or probit model, over the last axis.

    Neither difference of distribution functions underflows. The logistic one is σ(b) - σ(a) = (1 - exp(a - b)) σ(-a)
    σ(b), where a - b is a difference of cutpoints. The normal one, Φ(b) - Φ(a), is computed in the tail in which both
    lie.
    """
    at = cutpoints - pt.shape_padright(eta)
    if word == "OrderedProbit":
        at = at / pt.shape_padright(pt.as_tensor_variable(sigma))
    a, b = at[..., :-1], at[..., 1:]
    if word == "OrderedProbit":
        first, last = normal_lcdf(0.0, 1.0, at[..., :1]), normal_lccdf(0.0, 1.0, at[..., -1:])
        left = a + b < 0
        u, v = pt.switch(left, -b, a), pt.switch(left, -a, b)  # u < v, both moved to the upper tail
        big = normal_lccdf(0.0, 1.0, u)
        between = big + _log1mexp(normal_lccdf(0.0, 1.0, v) - big)
    else:
        first, last = -pt.softplus(-at[..., :1]), -pt.softplus(at[..., -1:])
        between = _log1mexp(cutpoints[..., :-1] - cutpoints[..., 1:]) - pt.softplus(a) - pt.softplus(-b)
    return pt.concatenate([first, between, last], axis=-1)
