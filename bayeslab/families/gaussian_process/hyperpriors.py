"""Default priors of a Gaussian process, on the scale of the data.

A lengthscale below the distance between neighbouring inputs, or above their whole range, is not identified: the
likelihood is flat there, and with a flat prior chains drift. Lengthscales therefore have an inverse gamma prior with
one per cent of its mass below the resolution and one per cent above the range [1]_. Standard deviations are half-normal
on the scale of the outcome.

References
----------
.. [1] Betancourt (2020). Robust Gaussian process modeling. betanalpha.github.io, section 3.
"""

from __future__ import annotations

import ast
from functools import lru_cache

import numpy as np

from bayeslab.digits import located
from bayeslab.errors import ModelError, errors_at
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import bound_arguments, call_name
from bayeslab.latents.gaussian_process.covariance import Parameter

__all__ = ["Scales", "default_prior", "refuse_negative", "tails"]

# Distributions on the whole real line, refused as priors of positive parameters.
_REAL = frozenset(
    (
        "AsymmetricLaplace", "Cauchy", "ExGaussian", "Flat", "Gumbel", "Laplace", "Logistic", "Moyal", "Normal",
        "NormalMixture", "SkewNormal", "SkewStudentT", "StudentT", "VonMises",
    )
)  # fmt: skip
# Prior mass of a lengthscale below the resolution, and above the range.
_TAIL = 0.01


class Scales:
    """Scales of the data that default priors refer to.

    Parameters
    ----------
    x : ndarray (n, columns)
    columns : tuple of str
    spread : float
        Standard deviation of the outcome, on the scale of the function.
    finest : float
        Lower bound of the resolution, as a share of a column's range.
    """

    def __init__(self, x: np.ndarray, columns: tuple[str, ...], spread: float, finest: float = 0.0) -> None:
        self.spread = spread
        self.low: dict[str, float] = {}
        self.high: dict[str, float] = {}
        self.gap: dict[str, float] = {}
        self.size: dict[str, float] = {}
        for name, values in zip(columns, x.T, strict=True):
            distinct = np.unique(values)
            self.low[name], self.high[name] = float(distinct[0]), float(distinct[-1])
            span = self.high[name] - self.low[name]
            gap = float(np.median(np.diff(distinct))) if len(distinct) > 1 else 0.0
            self.gap[name] = max(min(gap, span / 10), finest * span) if span > 0 else 0.1
            self.size[name] = float(np.sqrt(np.mean(values**2))) or 1.0

    def resolution(self, columns: tuple[str, ...]) -> float:
        """Distance between neighbouring inputs: the median of the column where it is smallest."""
        return min((self.gap[c] for c in columns), default=0.1)

    def range(self, columns: tuple[str, ...]) -> float:
        """The largest range of the columns."""
        return max((self.high[c] - self.low[c] or 1.0 for c in columns), default=1.0)


@lru_cache(maxsize=256)
def tails(low: float, high: float, tail: float = _TAIL) -> tuple[float, float]:
    """Shape and scale of the inverse gamma distribution with mass ``tail`` below ``low`` and above ``high``."""
    from scipy.optimize import brentq
    from scipy.stats import invgamma

    ratio = high / low

    def gap(log_shape: float) -> float:
        shape = np.exp(log_shape)
        return float(np.log(invgamma.ppf(1 - tail, shape) / invgamma.ppf(tail, shape)) - np.log(ratio))

    shape = float(np.exp(brentq(gap, np.log(0.2), np.log(1e5))))
    return shape, float(low / invgamma.ppf(tail, shape))


def default_prior(parameter: Parameter, scales: Scales, degree: int) -> str:
    """Default prior of a hyperparameter, in the model language."""
    s, columns = scales.spread, parameter.columns
    low, high = scales.resolution(columns), scales.range(columns)
    size = float(np.sqrt(sum(scales.size[c] ** 2 for c in columns))) if columns else 1.0
    match parameter.role:
        case "lengthscale" if parameter.word == "Periodic":
            return _inverse_gamma(0.2, 5.0)
        case "lengthscale":
            return _inverse_gamma(low, high)
        case "period":
            return f"LogNormal({_number(0.5 * np.log(low * high))}, {_number(np.log(high / low) / 4.65)})"
        case "alpha":
            return "Gamma(2, 1)"
        case "scale":
            return f"HalfNormal({_number(s / _growth(parameter.word, size, scales, columns, degree))})"
        case "variance":
            return f"Exponential({_number(1 / s**2)})"
        case "offset":
            return f"HalfNormal({_number(size**2)})"
        case "center" | "location":
            middle = 0.5 * sum(scales.high[c] + scales.low[c] for c in columns) / max(len(columns), 1)
            return f"Normal({located(middle, high / 4)}, {_number(high / 4)})"
        case "steepness":
            return f"LogNormal({_number(np.log(10 / high))}, 1.0)"
        case "weight":
            return f"Normal(0, {_number(s)})"
        case _:
            return f"Exponential({_number(1 / s**2)})"


def _growth(word: str, size: float, scales: Scales, columns: tuple[str, ...], degree: int) -> float:
    """Size at the inputs of a function with scale one."""
    match word:
        case "Linear":
            return size
        case "Polynomial":
            return (2 * size**2) ** (degree / 2)
        case "Brownian":
            return float(np.sqrt(max(abs(scales.high[columns[0]]), 1e-300)))
        case _:
            return 1.0


def _inverse_gamma(low: float, high: float) -> str:
    shape, scale = tails(float(f"{low:.6g}"), float(f"{max(high, 2 * low):.6g}"))
    return f"InverseGamma({_number(shape)}, {_number(scale)})"


def _number(value: float) -> str:
    return repr(float(f"{value:.6g}"))


def refuse_negative(name: str, what: str, text: str) -> None:
    """Refuse a prior of a positive parameter that has mass below zero.

    Raises
    ------
    ModelError
        The prior has mass below zero; carries the path of the prior.
    """
    path = ("model", "priors", name)
    with errors_at(path):
        tree = parse(text).tree
    word = call_name(tree)
    bad = word in _REAL
    if word in ("Uniform", "TruncatedNormal", "Triangular"):
        given = bound_arguments(tree, word).get("lower")  # type: ignore[arg-type]
        bad = given is None or _below_zero(given)
    if bad:
        raise ModelError(
            f"'{name}' is {what}, which is positive, and {text} is a prior of negative numbers too; take HalfNormal,"
            " Gamma, InverseGamma, LogNormal ...",
            path=path,
            code="bad-prior",
        )


def _below_zero(node: object) -> bool:

    try:
        return bool(ast.literal_eval(node) < 0)  # type: ignore[arg-type]
    except (ValueError, TypeError, SyntaxError):
        return False
