"""Arrays and numbers that a caller passes in, checked where they enter; each error is one line and names the argument.

NumPy accepts much that callers do not intend: every string is true, a whole number used as a mask selects rows, a
negative position counts from the end. These functions accept only what the caller of a function can mean.
"""

from __future__ import annotations

import math
import numbers as kinds
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import BayeslabError, OptionError

__all__ = [
    "comparable",
    "count",
    "distributions",
    "lengths",
    "number",
    "positions",
    "real",
    "same_length",
    "truths",
    "two_sides",
]

Array = NDArray[np.float64]

_SUM = 1e-6


def number(
    given: Any,
    name: str,
    low: float = -np.inf,
    high: float = np.inf,
    *,
    above: bool = False,
    below: bool = False,
    finite: bool = True,
    error: type[BayeslabError] = OptionError,
) -> float:
    """A number within bounds; booleans, strings and NaN are refused.

    Parameters
    ----------
    low, high
        Inclusive bounds, unless ``above`` or ``below`` is set.
    above, below
        Whether the lower and the upper bound are excluded.
    finite
        Whether infinity is refused.
    """
    real_number = isinstance(given, kinds.Real) and not isinstance(given, (bool, np.bool_))
    try:
        value = float(given) if real_number else math.nan
    except OverflowError:
        value = math.nan  # a whole number beyond the largest float
    if (
        not low <= value <= high
        or (above and value == low)
        or (below and value == high)
        or (finite and not math.isfinite(value))
    ):
        raise error(
            f"{name} is a number{_range(low, high, above, below)}; given: {given!r:.60}",
            code="out-of-range" if real_number else "wrong-type",
        )
    return value


def count(
    given: Any, name: str, at_least: int = 0, at_most: int | None = None, *, error: type[BayeslabError] = OptionError
) -> int:
    """A whole number within bounds; booleans and fractions are refused."""
    whole = isinstance(given, kinds.Integral) and not isinstance(given, (bool, np.bool_))
    if not whole or given < at_least or (at_most is not None and given > at_most):
        top = np.inf if at_most is None else at_most
        raise error(
            f"{name} is a whole number{_range(at_least, top, False, False)}; given: {given!r}",
            code="out-of-range" if whole else "wrong-type",
        )
    return int(given)


def _range(low: float, high: float, above: bool, below: bool) -> str:
    if np.isfinite(low) and np.isfinite(high):
        word = "between" if above and below else "from"
        joint = "and" if above and below else "to"
        edges = [] if above and below else [f"above {low:g}"] * above + [f"below {high:g}"] * below
        return f" {word} {low:g} {joint} {high:g}" + "".join(f", {edge}" for edge in edges)
    if np.isfinite(low):
        return f" above {low:g}" if above else f" ≥ {low:g}"
    if np.isfinite(high):
        return f" below {high:g}" if below else f" ≤ {high:g}"
    return ""


def real(
    given: Any,
    name: str,
    *,
    ndim: int | tuple[int, ...] | None = None,
    finite: bool = True,
    empty: bool = False,
    error: type[BayeslabError] = OptionError,
) -> Array:
    """Real numbers as an array of floats.

    Parameters
    ----------
    ndim
        The numbers of dimensions that are allowed; None: any.
    finite
        Whether missing numbers and infinity are refused.
    empty
        Whether an array without numbers is allowed.

    Raises
    ------
    BayeslabError
        Of the class ``error``: not numbers, ragged, complex, of another number of dimensions, empty, or not finite.
    """
    out = np.asarray(_array(given, name, error))
    if out.dtype.kind == "O":
        # Decimals, fractions and None arrive as objects; this conversion fails for anything but numbers.
        try:
            out = out.astype(float)
        except (TypeError, ValueError, OverflowError):
            raise error(f"{name} holds numbers; given: {_shown(given)}", code="wrong-type") from None
    if out.dtype.kind not in "biuf":
        raise error(f"{name} holds numbers; given: {_shown(given)}", code="wrong-type")
    allowed = (ndim,) if isinstance(ndim, int) else ndim
    if allowed is not None and out.ndim not in allowed:
        raise error(
            f"{name} has {' or '.join(map(str, allowed))} dimensions, not the shape {out.shape}", code="wrong-shape"
        )
    if not out.size and not empty:
        raise error(f"{name} is empty", code="no-values")
    out = out.astype(float)
    if finite and not np.isfinite(out).all():
        raise error(f"{name} holds missing numbers or infinity: leave these out", code="not-finite")
    return out


def truths(given: Any, name: str, *, error: type[BayeslabError] = OptionError) -> NDArray[np.bool_]:
    """Truth values, as booleans or as the numbers 0 and 1.

    Raises
    ------
    BayeslabError
        Any other value.
    """
    out = _array(given, name, error)
    if out.dtype.kind == "b" or (out.dtype.kind == "O" and all(isinstance(v, (bool, np.bool_)) for v in out.flat)):
        return out.astype(bool)
    if out.dtype.kind in "iuf" and np.isin(out, (0, 1)).all():
        return np.asarray(out == 1)
    raise error(f"{name} holds truth values (True and False, or 1 and 0); given: {_shown(given)}", code="wrong-type")


def two_sides(labels: Any, name: str = "labels") -> Array:
    """1 for the label that comes last in order and −1 for the other, shape (rows,).

    Labels are two values of any kind: truth values, −1 and 1, names. Where all labels are equal, the result
    is 1 for names and for a number or truth value above zero, else −1.

    Raises
    ------
    OptionError
        More than two labels, missing labels, or not one label per row.
    """
    given = _array(labels, name, OptionError)
    if given.ndim != 1 or not len(given):
        raise OptionError(f"{name} need one entry for each row, not the shape {given.shape}", code="wrong-shape")
    if any(one is None or one != one for one in given.tolist()):
        raise OptionError(f"{name} are missing in some rows: leave these rows out", code="missing")
    try:
        kinds_of, codes = np.unique(given, return_inverse=True)
    except TypeError:
        raise OptionError(
            f"{name} must all be numbers or all be names; given: {_shown(labels)}", code="odd-cell"
        ) from None
    if len(kinds_of) > 2:
        raise OptionError(f"{name} must have two values; there are {len(kinds_of)}: {_shown(kinds_of)}", code="too-few")
    if len(kinds_of) == 1:
        positive = kinds_of.dtype.kind not in "biuf" or kinds_of[0] > 0
        return np.full(len(given), 1.0 if positive else -1.0)
    return np.where(codes == 1, 1.0, -1.0)


def positions(given: Any, name: str, n: int, *, error: type[BayeslabError] = OptionError) -> NDArray[np.int64]:
    """Positions from 0 to n − 1; negative positions and booleans are refused."""
    out = _array(given, name, error)
    if not out.size:
        return out.astype(np.int64)
    whole = out.dtype.kind in "iu" or (
        out.dtype.kind == "f" and bool((np.isfinite(out) & (out == np.floor(out))).all())
    )
    if not whole:
        raise error(f"{name} holds whole numbers from 0 to {n - 1}; given: {_shown(given)}", code="out-of-range")
    wrong = (out < 0) | (out >= n)
    if wrong.any():
        raise error(f"{name} holds whole numbers from 0 to {n - 1}; given: {out[wrong].flat[0]:g}", code="out-of-range")
    return out.astype(np.int64)


def distributions(
    given: Any, name: str, *, ndim: int | tuple[int, ...] | None = None, error: type[BayeslabError] = OptionError
) -> Array:
    """Probabilities that add up to one along the last axis."""
    out = real(given, name, ndim=ndim, error=error)
    if (out < 0).any():
        raise error(f"{name} holds probabilities, none below 0; given: {out.min():g}", code="not-probabilities")
    total = np.atleast_1d(out.sum(axis=-1))
    worst = float(total.flat[np.abs(total - 1).argmax()])
    if abs(worst - 1) > _SUM:
        raise error(f"{name} holds probabilities that add up to 1, not to {worst:g}", code="not-probabilities")
    return out


def comparable(
    first: Any, second: Any, names: tuple[str, str], *, error: type[BayeslabError] = OptionError
) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays of values that can be equal: both text, or both numbers and truth values.

    NumPy compares ``"1"`` and ``1`` as different without a warning.
    """
    arrays = np.asarray(first), np.asarray(second)
    texts = [_is_text(one, name, error) for one, name in zip(arrays, names, strict=True)]
    if texts[0] != texts[1] and all(one.size for one in arrays):
        text, other = names if texts[0] else names[::-1]
        raise error(f"{text} are text and {other} are not: no value of one equals one of the other", code="wrong-type")
    return arrays


def _is_text(array: np.ndarray, name: str, error: type[BayeslabError]) -> bool:
    if array.dtype.kind == "U" or (array.dtype == object and all(isinstance(cell, str) for cell in array.flat)):
        return True
    numbers = array.dtype.kind in "biuf" or (
        array.dtype == object and all(isinstance(cell, kinds.Real) for cell in array.flat)
    )
    if not numbers or np.isnan(array.astype(float)).any():
        raise error(
            f"{name} are names or numbers, none of them missing", code="wrong-type" if not numbers else "missing"
        )
    return False


def same_length(*, error: type[BayeslabError] = OptionError, **arrays: Any) -> None:
    """Refuse arrays that differ in length.

    Parameters
    ----------
    arrays
        The arrays, by the names that the error shows.
    """
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {n}" for name, n in lengths.items())
        raise error(f"arrays need the same length, one entry for each row; given: {shown}", code="wrong-length")


def _array(given: Any, name: str, error: type[BayeslabError]) -> np.ndarray:
    if hasattr(given, "isna") and bool(np.any(given.isna())):
        raise error(f"{name} holds missing values: leave these rows out", code="missing")
    try:
        return np.asarray(given)
    except ValueError:
        raise error(f"{name} is not an array: its rows differ in length", code="wrong-shape") from None


def _shown(given: Any) -> str:
    """The beginning of a value, for an error message."""
    text = repr(given.tolist() if isinstance(given, np.ndarray) else given)
    return text if len(text) <= 60 else f"{text[:57]}..."


def lengths(rows: Any) -> Array:
    """Euclidean lengths along the last axis, also where squares overflow or underflow.

    Parameters
    ----------
    rows : ndarray (..., n)

    Returns
    -------
    ndarray (...)
    """
    rows = np.asarray(rows, float)
    # Scaling by a power of two is exact.
    unit = np.ldexp(1.0, np.frexp(np.abs(rows).max(axis=-1, initial=0.0))[1] - 1)
    return np.asarray(unit * np.linalg.norm(rows / unit[..., None], axis=-1))
