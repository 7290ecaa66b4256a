"""Functions of the expression language: their arguments, and their implementations in NumPy."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from bayeslab import special
from bayeslab.errors import DataError, ModelError
from bayeslab.language.expressions import offset_of

__all__ = [
    "ALONG",
    "ARITHMETIC",
    "DIM_ARGUMENTS",
    "ELEMENTWISE",
    "FUNCTIONS",
    "MOST_COUNTED",
    "REDUCTIONS",
    "SUMS",
    "as_float",
    "check_call",
    "function_of",
    "is_whole",
    "numpy_reduction",
    "word_of_order",
]

# name: (minimum, maximum) number of positional arguments and the allowed keywords.
ELEMENTWISE = dict.fromkeys(
    [
        "abs",
        "sqrt",
        "exp",
        "log",
        "log1p",
        "expm1",
        "log2",
        "log10",
        "sigmoid",
        "invlogit",
        "logit",
        "softplus",
        "sin",
        "cos",
        "tan",
        "arcsin",
        "arccos",
        "arctan",
        "sinh",
        "cosh",
        "tanh",
        "erf",
        "erfc",
        "gammaln",
        "digamma",
        "Phi",
        "invprobit",
        "probit",
        "floor",
        "ceil",
        "round",
        "sign",
    ],
    (1, 1),
) | {
    "minimum": (2, 2),
    "maximum": (2, 2),
    "clip": (3, 3),
    "where": (3, 3),
    "outer": (2, 2),
    "arctan2": (2, 2),
}
REDUCTIONS = dict.fromkeys(["sum", "mean", "prod", "min", "max", "sd", "var"], (1, 2))
ALONG = dict.fromkeys(["softmax", "logsumexp", "cumsum", "cumprod"], (1, 2))
_OTHER = {
    "dot": (2, 3),
    "inv": (1, 1),
    "det": (1, 1),
    "logdet": (1, 1),
    "cholesky": (1, 1),
    "solve": (2, 2),
    "solve_lower": (2, 2),
    "transpose": (1, 1),
    "trace": (1, 1),
    "diag": (2, 2),
    "diagonal": (1, 1),
    "eye": (2, 2),
    "rename": (2, 3),
    "index": (1, 1),
    "size": (1, 1),
    "concat": (2, 2),
    "stack": (2, 2),
    "lag": (2, 2),
    "previous": (2, 2),
    "isnan": (1, 1),
}
FUNCTIONS: dict[str, tuple[int, int]] = ELEMENTWISE | REDUCTIONS | ALONG | _OTHER
# Maximum lag, as a recursion carries this many rows along.
MOST_STEPS = 1_000
_KEYWORDS = {"lag": {"start"}, "previous": {"start"}}
# Positions of arguments that are names of dimensions, not values.
DIM_ARGUMENTS: dict[str, tuple[int, ...]] = (
    dict.fromkeys((*REDUCTIONS, *ALONG), (1,))
    | {"dot": (2,), "diag": (1,), "eye": (0, 1), "rename": (1, 2), "index": (0,), "size": (0,)}
    | {"concat": (1,), "stack": (1,)}
)


def check_call(node: ast.Call) -> None:
    """Check the number of arguments and the keywords of a function call, before evaluation."""
    name = node.func.id  # type: ignore[attr-defined]
    low, high = FUNCTIONS[name]
    if not low <= len(node.args) <= high:
        want = str(low) if low == high else f"{low} or {high}"
        raise ModelError(
            f"{name}() takes {want} arguments, {len(node.args)} given", offset=offset_of(node), code="wrong-arguments"
        )
    for named in node.keywords:
        if named.arg not in _KEYWORDS.get(name, set()):
            raise ModelError(f"{name}() has no argument '{named.arg}'", offset=offset_of(node), code="wrong-arguments")
    if name in ("lag", "previous"):
        steps = node.args[1]
        if not (isinstance(steps, ast.Constant) and isinstance(steps.value, int) and steps.value >= 1):
            raise ModelError(
                f"{name}(): the number of steps is a whole number ≥ 1", offset=offset_of(node), code="wrong-arguments"
            )
        if name == "previous" and steps.value > MOST_STEPS:
            raise ModelError(
                f"previous() looks back {MOST_STEPS:,} steps at most, not {steps.value:,}",
                offset=offset_of(node),
                code="out-of-range",
            )


# Functions of SciPy by their names in the language.
_SPECIAL = {
    "sigmoid": "expit",
    "invlogit": "expit",
    "logit": "logit",
    "erf": "erf",
    "erfc": "erfc",
    "gammaln": "gammaln",
    "digamma": "digamma",
    "Phi": "ndtr",
    "invprobit": "ndtr",
    "probit": "ndtri",
    "logsumexp": "logsumexp",
    "softmax": "softmax",
}


def _special(name: str) -> Callable[..., Any]:
    """A function of SciPy, which is imported when it is called."""
    return lambda *args, **named: getattr(special, name)(*args, **named)


@cache
def _numpy_functions() -> dict[str, Callable[..., Any]]:
    return {
        **{name: _special(function) for name, function in _SPECIAL.items()},
        "softplus": lambda x: np.logaddexp(0.0, x),
        "outer": np.multiply,
        "inv": np.linalg.inv,
        "det": np.linalg.det,
        "logdet": lambda a: np.linalg.slogdet(a)[1],
        "cholesky": np.linalg.cholesky,
        "solve": lambda a, b: np.linalg.solve(a, b),
        "clip": lambda x, low, high: np.clip(x, low, high),
        "divide": lambda a, b: np.divide(a, b),
        "power": lambda a, b: np.power(np.asarray(a, dtype=float), b),
    }


# Functions that could silently overflow 64-bit integers and are therefore computed with floats.
ARITHMETIC = frozenset(
    ("add", "subtract", "multiply", "power", "floor_divide", "mod", "negative", "abs", "outer", "sign")
)
SUMS = frozenset(("sum", "mean", "prod", "sd", "var"))
#: Floats represent every integer up to this one exactly.
MOST_COUNTED = 2**53


def is_whole(value: Any) -> bool:
    """Whether a number, array or variable has an integer type."""
    dtype = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
    return np.dtype(dtype).kind in "iub"


def as_float(value: Any) -> Any:
    """An integer number, array or variable converted to floats; others are unchanged.

    Raises
    ------
    DataError
        A number beyond 2^53 is not exact as a float, so that differences would lose digits.
    """
    if not hasattr(value, "astype"):
        value = np.asarray(value)
    if not is_whole(value):
        return value
    out = value.astype("float64")
    if isinstance(value, np.ndarray | np.generic) and np.size(value) and np.max(np.abs(out)) >= MOST_COUNTED:
        lost = [n for n in np.ravel(value).tolist() if int(float(n)) != n]
        if lost:
            raise DataError(
                f"{lost[0]} is too large for a float, which is exact for whole numbers up to {MOST_COUNTED:,}: subtract"
                " a constant from the column before it is read, or use it as a label",
                code="too-many-digits",
            )
    return out


def function_of(name: str) -> Callable[..., Any]:
    """The implementation of a function for arrays."""
    table = _numpy_functions()
    return table[name] if name in table else getattr(np, name)


def numpy_reduction(name: str, value: np.ndarray, axis: tuple[int, ...]) -> Any:
    """A reduction of an array over some of its axes."""
    if not axis:
        return value
    if name in ("sd", "var"):
        if min(value.shape[i] for i in axis) < 2:
            raise DataError(f"{name}() needs at least two values", code="too-few")
        return value.std(axis=axis, ddof=1) if name == "sd" else value.var(axis=axis, ddof=1)
    if not value.size:
        raise DataError(f"{name}() of no values", code="no-values")
    return getattr(value, name)(axis=axis)


def word_of_order(tree: ast.AST, rows: str) -> str | None:
    """The first function in an expression whose value in a row depends on the order of the rows, or None."""
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            continue
        word, dims = call.func.id, [arg.id for arg in call.args if isinstance(arg, ast.Name)]
        if word in ("lag", "previous") or (word == "index" and dims == [rows]):
            return word
        if word in ("cumsum", "cumprod") and (len(call.args) == 1 or dims[-1:] == [rows]):
            return word
    return None
