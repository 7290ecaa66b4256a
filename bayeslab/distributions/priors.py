"""Log densities of single numbers, by PyMC's names and parameters, in NumPy.

Closed forms and quadrature need the prior of a scale or of a parameter at many values and nothing
else; PyMC is not loaded for that. The parameters, their alternatives and their defaults are those of
``pymc.<Name>.dist`` (PyMC 6).

References
----------
Johnson, Kotz, Balakrishnan (1994, 1995). Continuous Univariate Distributions, 2nd ed., volumes 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from scipy.special import betaln, gammaln, log_ndtr, xlog1py, xlogy

from bayeslab.errors import ModelError, hint

__all__ = ["NAMES", "log_density", "log_size"]

type LogDensity = Callable[[np.ndarray], np.ndarray]
type Prior = tuple[LogDensity, float, float, bool]

_LOG_2PI = float(np.log(2 * np.pi))
_REQUIRED = object()


def log_density(name: str, arguments: Mapping[str, float]) -> Prior:
    """A prior's log density, its support, and whether it integrates to one.

    Parameters
    ----------
    name
        PyMC's name, one of :data:`NAMES`.
    arguments
        Parameters by PyMC's names, as numbers.

    Returns
    -------
    function
        Log density at an array of values inside the support.
    lower, upper : float
        The support.
    proper : bool
        False for ``Flat`` and ``HalfFlat``, whose density is 1.

    Raises
    ------
    ModelError
        An unknown distribution or parameter, one that is missing, or one out of range.
    """
    if name not in _PRIORS:
        raise ModelError(f"no log density is known for '{name}'{hint(name, _PRIORS)}")
    known, make = _PRIORS[name]
    given = {key: float(value) for key, value in arguments.items() if value is not None}
    for key in given:
        if key not in known:
            raise ModelError(f"{name} has no parameter '{key}'{hint(key, known)}")
    for key, default in known.items():
        if key not in given and default is _REQUIRED:
            raise ModelError(f"{name} needs its parameter '{key}'")
        if key not in given and isinstance(default, float):
            given[key] = default
    with np.errstate(divide="ignore", invalid="ignore"):
        return make(**given)


def _positive(name: str, **values: float) -> None:
    for key, value in values.items():
        if not value > 0:
            raise ModelError(f"{name} needs {key} > 0, not {value:g}")


def _deviation(name: str, sigma: float | None, precision: float | None, word: str = "tau") -> float:
    """The standard deviation from it or from the precision; 1 when neither is given."""
    if sigma is not None and precision is not None:
        raise ModelError(f"{name} takes sigma or {word}, not both")
    if precision is not None:
        _positive(name, **{word: precision})
        return float(precision**-0.5)
    sigma = 1.0 if sigma is None else sigma
    _positive(name, sigma=sigma)
    return sigma


def _flat() -> Prior:
    return np.zeros_like, -np.inf, np.inf, False


def _half_flat() -> Prior:
    return np.zeros_like, 0.0, np.inf, False


def _uniform(lower: float, upper: float) -> Prior:
    if not lower < upper:
        raise ModelError(f"Uniform needs lower < upper, not {lower:g} and {upper:g}")
    height = -np.log(upper - lower)
    return lambda x: np.full(np.shape(x), height), lower, upper, True


def _normal(mu: float, sigma: float | None = None, tau: float | None = None) -> Prior:
    scale = _deviation("Normal", sigma, tau)
    constant = -0.5 * _LOG_2PI - np.log(scale)
    return lambda x: constant - 0.5 * ((x - mu) / scale) ** 2, -np.inf, np.inf, True


def _half_normal(sigma: float | None = None, tau: float | None = None) -> Prior:
    scale = _deviation("HalfNormal", sigma, tau)
    constant = np.log(2.0) - 0.5 * _LOG_2PI - np.log(scale)
    return lambda x: constant - 0.5 * (x / scale) ** 2, 0.0, np.inf, True


def _truncated_normal(
    mu: float, lower: float, upper: float, sigma: float | None = None, tau: float | None = None
) -> Prior:
    scale = _deviation("TruncatedNormal", sigma, tau)
    if not lower < upper:
        raise ModelError(f"TruncatedNormal needs lower < upper, not {lower:g} and {upper:g}")
    a, b = (lower - mu) / scale, (upper - mu) / scale
    # In the tail that the interval lies in, so that no digits cancel.
    a, b = (-b, -a) if a > 0 else (a, b)
    inside = log_ndtr(b) + np.log1p(-np.exp(log_ndtr(a) - log_ndtr(b)))
    constant = -0.5 * _LOG_2PI - np.log(scale) - inside
    return lambda x: constant - 0.5 * ((x - mu) / scale) ** 2, lower, upper, True


def _t_constant(nu: float, scale: float) -> float:
    return float(gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi) - np.log(scale))


def _student_t(nu: float, mu: float, sigma: float | None = None, lam: float | None = None) -> Prior:
    scale = _deviation("StudentT", sigma, lam, "lam")
    _positive("StudentT", nu=nu)
    constant = _t_constant(nu, scale)
    return lambda x: constant - (nu + 1) / 2 * np.log1p(((x - mu) / scale) ** 2 / nu), -np.inf, np.inf, True


def _half_student_t(nu: float, sigma: float | None = None, lam: float | None = None) -> Prior:
    scale = _deviation("HalfStudentT", sigma, lam, "lam")
    _positive("HalfStudentT", nu=nu)
    constant = np.log(2.0) + _t_constant(nu, scale)
    return lambda x: constant - (nu + 1) / 2 * np.log1p((x / scale) ** 2 / nu), 0.0, np.inf, True


def _cauchy(alpha: float, beta: float) -> Prior:
    _positive("Cauchy", beta=beta)
    constant = -np.log(np.pi * beta)
    return lambda x: constant - np.log1p(((x - alpha) / beta) ** 2), -np.inf, np.inf, True


def _half_cauchy(beta: float) -> Prior:
    _positive("HalfCauchy", beta=beta)
    constant = np.log(2 / (np.pi * beta))
    return lambda x: constant - np.log1p((x / beta) ** 2), 0.0, np.inf, True


def _laplace(mu: float, b: float) -> Prior:
    _positive("Laplace", b=b)
    constant = -np.log(2 * b)
    return lambda x: constant - np.abs(x - mu) / b, -np.inf, np.inf, True


def _logistic(mu: float, s: float) -> Prior:
    _positive("Logistic", s=s)

    def value(x: np.ndarray) -> np.ndarray:
        z = np.abs(x - mu) / s
        return -z - np.log(s) - 2 * np.log1p(np.exp(-z))

    return value, -np.inf, np.inf, True


def _gumbel(mu: float, beta: float) -> Prior:
    _positive("Gumbel", beta=beta)
    return lambda x: -(x - mu) / beta - np.exp(-(x - mu) / beta) - np.log(beta), -np.inf, np.inf, True


def _exponential(lam: float | None = None, scale: float | None = None) -> Prior:
    if lam is not None and scale is not None:
        raise ModelError("Exponential takes lam or scale, not both")
    rate = lam if lam is not None else 1.0 if scale is None else 1 / scale
    _positive("Exponential", lam=rate)
    return lambda x: np.log(rate) - rate * x, 0.0, np.inf, True


def _gamma_density(alpha: float, beta: float) -> LogDensity:
    _positive("Gamma", alpha=alpha, beta=beta)
    constant = alpha * np.log(beta) - gammaln(alpha)
    return lambda x: constant + xlogy(alpha - 1, x) - beta * x


def _gamma(
    alpha: float | None = None, beta: float | None = None, mu: float | None = None, sigma: float | None = None
) -> Prior:
    if alpha is None or beta is None:
        if mu is None or sigma is None:
            raise ModelError("Gamma needs alpha and beta, or mu and sigma")
        _positive("Gamma", mu=mu, sigma=sigma)
        alpha, beta = mu**2 / sigma**2, mu / sigma**2
    return _gamma_density(alpha, beta), 0.0, np.inf, True


def _chi_squared(nu: float) -> Prior:
    return _gamma_density(nu / 2, 0.5), 0.0, np.inf, True


def _inverse_gamma(
    alpha: float | None = None, beta: float | None = None, mu: float | None = None, sigma: float | None = None
) -> Prior:
    if alpha is None:
        if mu is None or sigma is None:
            raise ModelError("InverseGamma needs alpha and beta, or mu and sigma")
        _positive("InverseGamma", mu=mu, sigma=sigma)
        alpha, beta = 2 + mu**2 / sigma**2, mu * (mu**2 + sigma**2) / sigma**2
    rate = 1.0 if beta is None else beta
    _positive("InverseGamma", alpha=alpha, beta=rate)
    constant = alpha * np.log(rate) - gammaln(alpha)
    return lambda x: constant - (alpha + 1) * np.log(x) - rate / x, 0.0, np.inf, True


def _log_normal(mu: float, sigma: float | None = None, tau: float | None = None) -> Prior:
    scale = _deviation("LogNormal", sigma, tau)
    constant = -0.5 * _LOG_2PI - np.log(scale)
    return lambda x: constant - np.log(x) - 0.5 * ((np.log(x) - mu) / scale) ** 2, 0.0, np.inf, True


def _logit_normal(mu: float, sigma: float | None = None, tau: float | None = None) -> Prior:
    scale = _deviation("LogitNormal", sigma, tau)
    constant = -0.5 * _LOG_2PI - np.log(scale)

    def value(x: np.ndarray) -> np.ndarray:
        logit = np.log(x) - np.log1p(-x)
        return constant - np.log(x) - np.log1p(-x) - 0.5 * ((logit - mu) / scale) ** 2

    return value, 0.0, 1.0, True


def _weibull(alpha: float, beta: float) -> Prior:
    _positive("Weibull", alpha=alpha, beta=beta)
    constant = np.log(alpha) - alpha * np.log(beta)
    return lambda x: constant + xlogy(alpha - 1, x) - (x / beta) ** alpha, 0.0, np.inf, True


def _pareto(alpha: float, m: float) -> Prior:
    _positive("Pareto", alpha=alpha, m=m)
    constant = np.log(alpha) + alpha * np.log(m)
    return lambda x: constant - (alpha + 1) * np.log(x), m, np.inf, True


def _beta(
    alpha: float | None = None,
    beta: float | None = None,
    mu: float | None = None,
    sigma: float | None = None,
    nu: float | None = None,
) -> Prior:
    if alpha is None or beta is None:
        if mu is None or (sigma is None) == (nu is None):
            raise ModelError("Beta needs alpha and beta, or mu and one of sigma and nu")
        size = nu if nu is not None else mu * (1 - mu) / float(sigma or 0.0) ** 2 - 1
        alpha, beta = mu * size, (1 - mu) * size
    _positive("Beta", alpha=alpha, beta=beta)
    constant = -betaln(alpha, beta)
    return lambda x: constant + xlogy(alpha - 1, x) + xlog1py(beta - 1, -x), 0.0, 1.0, True


def _kumaraswamy(a: float, b: float) -> Prior:
    _positive("Kumaraswamy", a=a, b=b)
    constant = np.log(a) + np.log(b)
    return lambda x: constant + xlogy(a - 1, x) + xlog1py(b - 1, -(x**a)), 0.0, 1.0, True


# By name: the parameters with their defaults (None: one of several alternatives), and the maker.
_PRIORS: dict[str, tuple[dict[str, object], Callable[..., Prior]]] = {
    "Beta": ({"alpha": None, "beta": None, "mu": None, "sigma": None, "nu": None}, _beta),
    "Cauchy": ({"alpha": _REQUIRED, "beta": _REQUIRED}, _cauchy),
    "ChiSquared": ({"nu": _REQUIRED}, _chi_squared),
    "Exponential": ({"lam": None, "scale": None}, _exponential),
    "Flat": ({}, _flat),
    "Gamma": ({"alpha": None, "beta": None, "mu": None, "sigma": None}, _gamma),
    "Gumbel": ({"mu": _REQUIRED, "beta": _REQUIRED}, _gumbel),
    "HalfCauchy": ({"beta": _REQUIRED}, _half_cauchy),
    "HalfFlat": ({}, _half_flat),
    "HalfNormal": ({"sigma": None, "tau": None}, _half_normal),
    "HalfStudentT": ({"nu": _REQUIRED, "sigma": None, "lam": None}, _half_student_t),
    "InverseGamma": ({"alpha": None, "beta": None, "mu": None, "sigma": None}, _inverse_gamma),
    "Kumaraswamy": ({"a": _REQUIRED, "b": _REQUIRED}, _kumaraswamy),
    "Laplace": ({"mu": _REQUIRED, "b": _REQUIRED}, _laplace),
    "LogNormal": ({"mu": 0.0, "sigma": None, "tau": None}, _log_normal),
    "Logistic": ({"mu": 0.0, "s": 1.0}, _logistic),
    "LogitNormal": ({"mu": 0.0, "sigma": None, "tau": None}, _logit_normal),
    "Lognormal": ({"mu": 0.0, "sigma": None, "tau": None}, _log_normal),
    "Normal": ({"mu": 0.0, "sigma": None, "tau": None}, _normal),
    "Pareto": ({"alpha": _REQUIRED, "m": _REQUIRED}, _pareto),
    "StudentT": ({"nu": _REQUIRED, "mu": 0.0, "sigma": None, "lam": None}, _student_t),
    "TruncatedNormal": ({"mu": 0.0, "sigma": None, "tau": None, "lower": -np.inf, "upper": np.inf}, _truncated_normal),
    "Uniform": ({"lower": 0.0, "upper": 1.0}, _uniform),
    "Weibull": ({"alpha": _REQUIRED, "beta": _REQUIRED}, _weibull),
}  # fmt: skip

#: Distributions whose log density is known here.
NAMES = frozenset(_PRIORS)


def log_size(density: Callable[[np.ndarray], np.ndarray], lower: float = -np.inf) -> float:
    """Log of the size of the numbers that a density is about, from 1e-286 to 1e286; 0 where it is within e^15 of one.

    Parameters
    ----------
    density : callable
        Log density of an array of numbers, up to a constant.
    lower : float
        Where the numbers end below: of positive ones only positive ones are looked at.
    """
    sizes = np.linspace(-660.0, 660.0, 2641)
    ends = np.exp(sizes)
    with np.errstate(all="ignore"):
        logs = density(ends) if lower >= 0.0 else np.maximum(density(ends), density(-ends))
    size = float(sizes[int(np.argmax(np.nan_to_num(logs + sizes, nan=-np.inf, posinf=-np.inf)))])
    return 0.0 if abs(size) < 15.0 else size
