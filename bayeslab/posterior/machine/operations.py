"""Operations of the machine as NumPy computes them: for constants, and for the independent slow evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["ELEMENTWISE", "OTHERS", "REDUCTIONS", "Elementwise"]

_FLOAT, _BOOL = np.dtype("float64"), np.dtype("bool")


@dataclass(frozen=True, slots=True)
class Elementwise:
    """An elementwise operation.

    Attributes
    ----------
    numpy : callable
        Its values, given arrays.
    arity : int
        Number of operands.
    dtype : numpy.dtype
        Type of its values.
    """

    numpy: Callable[..., Any]
    arity: int = 1
    dtype: np.dtype = _FLOAT


def _special(name: str) -> Callable[..., Any]:
    """A function of SciPy, which is imported when it is first called."""

    def call(*args: Any) -> Any:
        from scipy import special

        return getattr(special, name)(*args)

    return call


def _power(x: Any, y: Any) -> Any:
    return np.power(np.asarray(x, dtype=np.float64), y)


def _logical(function: Callable[..., Any]) -> Elementwise:
    return Elementwise(lambda *args: function(*(np.not_equal(a, 0) for a in args)), 2, _BOOL)


ELEMENTWISE: Mapping[str, Elementwise] = {
    **{
        name: Elementwise(getattr(np, name))
        for name in (
            *("negative", "abs", "sqrt", "exp", "log", "log1p", "expm1", "log2", "log10", "sin", "cos", "tan"),
            *("arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "floor", "ceil", "round", "sign", "square"),
        )
    },
    "reciprocal": Elementwise(lambda x: 1.0 / np.asarray(x, dtype=np.float64)),
    "sigmoid": Elementwise(_special("expit")),
    "logit": Elementwise(_special("logit")),
    "softplus": Elementwise(lambda x: np.logaddexp(0.0, x)),
    "log1mexp": Elementwise(lambda x: np.where(x > -0.6931471805599453, np.log(-np.expm1(x)), np.log1p(-np.exp(x)))),
    "erf": Elementwise(_special("erf")),
    "erfc": Elementwise(_special("erfc")),
    "gammaln": Elementwise(_special("gammaln")),
    "digamma": Elementwise(_special("digamma")),
    "normal_cdf": Elementwise(_special("ndtr")),
    "log_normal_cdf": Elementwise(_special("log_ndtr")),
    "normal_quantile": Elementwise(_special("ndtri")),
    "logical_not": Elementwise(lambda x: np.equal(x, 0), 1, _BOOL),
    **{name: Elementwise(getattr(np, name), 2) for name in ("add", "subtract", "multiply", "minimum", "maximum")},
    **{name: Elementwise(getattr(np, name), 2) for name in ("divide", "arctan2", "floor_divide", "mod", "logaddexp")},
    "power": Elementwise(_power, 2),
    **{
        name: Elementwise(getattr(np, name), 2, _BOOL)
        for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
    },
    "logical_and": _logical(np.logical_and),
    "logical_or": _logical(np.logical_or),
    "where": Elementwise(lambda c, a, b: np.where(np.not_equal(c, 0), a, b), 3),
}


def _logsumexp(x: np.ndarray, axes: tuple[int, ...]) -> Any:
    from scipy import special

    return special.logsumexp(x, axis=axes)


REDUCTIONS: Mapping[str, Callable[[np.ndarray, tuple[int, ...]], Any]] = {
    "sum": lambda x, axes: x.sum(axis=axes),
    "prod": lambda x, axes: x.prod(axis=axes),
    "min": lambda x, axes: x.min(axis=axes),
    "max": lambda x, axes: x.max(axis=axes),
    "logsumexp": _logsumexp,
}


def _softmax(x: np.ndarray) -> Any:
    from scipy import special

    return special.softmax(x, axis=-1)


def _lower_solve(lower: np.ndarray, right: np.ndarray, *, transposed: bool = False) -> np.ndarray:
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(lower, right, lower=True, trans=1 if transposed else 0))


def _cholesky(matrix: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(np.tril(matrix) + np.tril(matrix, -1).T)
    except np.linalg.LinAlgError:
        return np.full(matrix.shape, np.nan)


def _recursion(a: Any, b: Any, start: Any) -> Any:
    """Rows y[t] = a[t] + b[t] y[t-1] after the first."""
    out, row = np.empty(np.shape(a)), start[0]
    for t in range(len(a)):
        row = out[t] = a[t] + b[t] * row
    return out


#: Operations on whole arrays; ``softmax``, ``cumsum`` and ``cumprod`` run along the last axis.
OTHERS: Mapping[str, Callable[..., Any]] = {
    "softmax": _softmax,
    "cumsum": lambda x: np.cumsum(x, axis=-1),
    "cumprod": lambda x: np.cumprod(x, axis=-1),
    "recursion": _recursion,
    "matmul": np.matmul,
    "cholesky": _cholesky,
    "solve_lower": _lower_solve,
    "inv": np.linalg.inv,
    "log_abs_det": lambda a: np.linalg.slogdet(a)[1],
    "det": np.linalg.det,
}
