"""Floating-point digits: numbers far from zero against their spread, without loss.

A double has 53 bits. Numbers of size M that vary by s keep log2(s / (M eps)) of them for what varies, and a sum of
their squares keeps twice as many too few. So data are measured from a point near them before anything is squared, and
where that point matters to the last bit, products and sums carry their rounding errors along [1]_.

References
----------
.. [1] Ogita, Rump, Oishi (2005). Accurate sum and dot product. SIAM Journal on Scientific Computing 26.
.. [2] Welford (1962). Note on a method for calculating corrected sums of squares and products. Technometrics 4.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import gammaln

from bayeslab.errors import DataError

__all__ = [
    "FEW_STEPS",
    "Moments",
    "check_digits",
    "check_size",
    "constant",
    "far",
    "levelled",
    "located",
    "log_rising",
    "power_of_two",
    "remainders",
    "remedy",
    "spread_of",
    "steps",
    "two_means",
]

_EPS = float(np.finfo(float).eps)
_SPLIT = 134217729.0  # 2^27 + 1
_LARGE = 1e5  # as a multiple of b, from which on the series of log_rising has all digits
_CHUNK = 4096
# Squares of numbers beyond these leave the range of floats.
_SMALLEST, _LARGEST = 1e-152, 1e152
#: Distinct numbers within an sd, below which a column is refused.
FEWEST_STEPS = 100
#: Below which the user is told.
FEW_STEPS = 10_000


def power_of_two(size: np.ndarray | float) -> np.ndarray:
    """The power of two at or below sizes: multiplying by it rounds nothing. One for zero."""
    size = np.asarray(size, float)
    good = np.isfinite(size) & (size > 0)
    exponent = np.frexp(np.where(good, size, 1.0))[1] - 1
    return np.ldexp(1.0, np.clip(exponent, -1000, 1000))


def constant(values: np.ndarray) -> bool:
    """Whether numbers are all the same, but for the last bits of arithmetic on them."""
    low, high = float(np.min(values)), float(np.max(values))
    return high - low <= 8 * _EPS * max(abs(low), abs(high))


def spread_of(values: np.ndarray) -> float:
    """The sd, or for a constant its size, or 1: what default priors are scaled by."""
    if len(values) > 1:
        with np.errstate(over="ignore", invalid="ignore"):
            spread = float(np.std(values, ddof=1))
        # In one pass where nothing is odd about them.
        if 1e-100 < spread < 1e100 and spread > 1e-6 * abs(float(values[0])):
            return spread
    largest = float(np.max(np.abs(values)))
    if len(values) < 2 or constant(values):
        return largest or 1.0
    if 1e-100 < largest < 1e100:
        return float(np.std(values, ddof=1))
    unit = float(power_of_two(largest))
    return unit * float(np.std(values / unit, ddof=1))


def levelled(values: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Numbers about zero and of size one, and the level and size (a power of two) that were taken from them."""
    level, size = float(np.mean(values)), float(power_of_two(spread_of(values)))
    return (values - level) / size, level, size


def located(value: float, spread: float) -> str:
    """A location as text, rounded against a spread: six digits, and more where it is far from zero."""
    far_off = abs(value) / spread if spread > 0 else 0.0
    digits = 6 + (max(0, math.ceil(math.log10(far_off))) if far_off > 0 else 0)
    return repr(float(f"{value:.{min(digits, 17)}g}"))


def steps(values: np.ndarray) -> float:
    """How many different doubles there are within a standard deviation of numbers; infinite for constants."""
    values = np.asarray(values, float)
    if len(values) < 2 or constant(values):
        return np.inf
    low, high = float(np.min(values)), float(np.max(values))
    size = max(abs(low), abs(high))
    return float(np.std(values / size)) / _EPS


def check_digits(name: str, values: np.ndarray) -> None:
    """Refuse numbers that are so far from zero that next to nothing of their variation is stored.

    Raises
    ------
    DataError
        Fewer than a hundred different numbers fit in a standard deviation.
    """
    if (kept := steps(values)) < FEWEST_STEPS:
        raise DataError(f"{_few(name, values, kept)}; {remedy(values)}", code="too-many-digits")


def check_size(
    values: np.ndarray, what: str, *, smallest: float = _SMALLEST, largest: float = _LARGEST, by: str = ""
) -> None:
    """Refuse numbers whose squares cannot be summed; missing and infinite ones and zeros have no size.

    Parameters
    ----------
    values : ndarray
    what : str
        Which numbers they are, in the message.
    smallest, largest : float
        The sizes that can be computed with.
    by : str
        What computes with them, in the message, where others have wider limits.

    Raises
    ------
    DataError
        The largest is beyond what can be computed with.
    """
    size = float(np.max(np.abs(values[np.isfinite(values)]), initial=0.0))
    if size > largest or 0 < size < smallest:
        raise DataError(
            f"{what} is as {'large' if size > 1 else 'small'} as {size:.3g}; sizes from {smallest:g} to {largest:g} can"
            f" be computed with{f' by {by}' if by else ''}: measure it in another unit, in data.derive",
            code="too-large",
        )


def far(name: str, values: np.ndarray) -> str | None:
    """One line where few digits of the variation of numbers are left, or None."""
    kept = steps(values)
    return f"{_few(name, values, kept)}" if kept < FEW_STEPS else None


def remedy(values: np.ndarray) -> str:
    """What to do about it."""
    return f"subtract a reference value such as {float(values[0]):.17g} before the data are stored as floats"


def _few(name: str, values: np.ndarray, kept: float) -> str:
    spread, size = float(np.std(values)), float(np.max(np.abs(values)))
    return (
        f"'{name}' varies by {spread:.2g} around {size:.3g}, and doubles of that size hold only {kept:.0f} different"
        f" numbers within one standard deviation"
    )


class Moments:
    """Means and standard deviations, element by element, of arrays that come one after the other [2]_.

    Deviations are summed from the mean so far: E[x²] − E[x]² would lose them where a mean is large against its spread.

    Parameters
    ----------
    shape : tuple of int

    Attributes
    ----------
    count, mean : ndarray
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.count, self.mean, self._squares = np.zeros(shape), np.zeros(shape), np.zeros(shape)

    def add(self, values: np.ndarray, at: Any = ...) -> None:
        """One more array of values, or of those elements that ``at`` picks, each once."""
        self.count[at] += 1
        gap = values - self.mean[at]
        self.mean[at] += gap / self.count[at]
        self._squares[at] += gap * (values - self.mean[at])

    @property
    def variance(self) -> np.ndarray:
        """With the number of values for a denominator; 0 where there are none."""
        return np.asarray(self._squares / np.maximum(self.count, 1))

    @property
    def sd(self) -> np.ndarray:
        """The root of the variance."""
        return np.sqrt(self.variance)


def two_means(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Column means as unevaluated sums of two doubles, shape (p,) each: the second is what the first rounds away."""
    high = matrix.mean(axis=0)
    # The mean of what is left is exact where it matters: numbers near each other subtract without rounding.
    return high, (matrix - high).mean(axis=0)


def remainders(design: Any, target: np.ndarray, point: np.ndarray) -> np.ndarray:
    """``target - design @ point`` as if computed with twice the digits, and then rounded.

    Parameters
    ----------
    design : ndarray (n, P) or scipy sparse array
    target : ndarray (n,)
    point : ndarray (P,)
    """
    used = np.flatnonzero(point)
    if not isinstance(design, np.ndarray):
        return _sparse_remainders(design, target, point, used)
    out = np.empty(len(target))
    for start in range(0, len(target), _CHUNK):
        part = slice(start, start + _CHUNK)
        high, low = target[part].astype(float), np.zeros(len(target[part]))
        for j in used:
            product, error = _two_product(design[part, j], point[j])
            high, rounded = _two_sum(high, -product)
            low += rounded - error
        out[part] = high + low
    return out


def _sparse_remainders(design: Any, target: np.ndarray, point: np.ndarray, used: np.ndarray) -> np.ndarray:
    from scipy.sparse import csc_array

    columns = csc_array(design)
    high, low = target.astype(float), np.zeros(len(target))
    for j in used:
        part = slice(columns.indptr[j], columns.indptr[j + 1])
        rows = columns.indices[part]
        product, error = _two_product(columns.data[part], point[j])
        high[rows], rounded = _two_sum(high[rows], -product)
        low[rows] += rounded - error
    return high + low


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: np.ndarray, b: float) -> tuple[np.ndarray, np.ndarray]:
    product = a * b
    a_high = _SPLIT * a
    a_high = a_high - (a_high - a)
    b_high = _SPLIT * b
    b_high = b_high - (b_high - b)
    a_low, b_low = a - a_high, b - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def log_rising(a: Any, b: Any) -> np.ndarray:
    r""":math:`\log\Gamma(a+b) - \log\Gamma(a)` for a > 0 and b of zero or more, without loss where a is large.

    Two log gamma functions of 1e14 differ by what is rounded away in each. There the difference is
    :math:`b\log a + b(b-1)/2a - b(b-1)(2b-1)/12a^2` (Tricomi, Erdélyi 1951, Pacific Journal of Mathematics 1).
    """
    a, b = np.broadcast_arrays(np.asarray(a, float), np.asarray(b, float))
    with np.errstate(all="ignore"):
        series = b * np.log(a) + b * (b - 1) / (2 * a) - b * (b - 1) * (2 * b - 1) / (12 * a) / a
        return np.where(a > _LARGE * np.maximum(b, 1.0), series, gammaln(a + b) - gammaln(a))
