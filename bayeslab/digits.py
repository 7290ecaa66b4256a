"""Floating-point digits: computations without loss on numbers that are far from zero relative to their spread.

A double has 53 bits. Numbers of size M with spread s keep log2(s / (M eps)) bits for their variation, and a sum of
squares loses twice as many bits. So data are centred before anything is squared, and where the centre matters to the
last bit, products and sums carry their rounding errors along [1]_.

References
----------
.. [1] Ogita, Rump, Oishi (2005). Accurate sum and dot product. SIAM Journal on Scientific Computing 26.
.. [2] Welford (1962). Note on a method for calculating corrected sums of squares and products. Technometrics 4.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bayeslab import special
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
_LARGE = 1e5  # from this multiple of b on, the series of log_rising has full precision
_CHUNK = 4096
# Squares of numbers beyond these limits overflow or underflow.
_SMALLEST, _LARGEST = 1e-152, 1e152
#: A column with fewer distinct doubles per standard deviation is refused.
FEWEST_STEPS = 100
#: A column with fewer distinct doubles per standard deviation causes a warning.
FEW_STEPS = 10_000


def power_of_two(size: np.ndarray | float) -> np.ndarray:
    """The largest powers of two at or below the sizes, one for zero. Multiplying by them is exact."""
    size = np.asarray(size, float)
    good = np.isfinite(size) & (size > 0)
    exponent = np.frexp(np.where(good, size, 1.0))[1] - 1
    return np.ldexp(1.0, np.clip(exponent, -1000, 1000))


def constant(values: np.ndarray) -> bool:
    """Whether all numbers are equal up to rounding errors."""
    low, high = float(np.min(values)), float(np.max(values))
    return high - low <= 8 * _EPS * max(abs(low), abs(high))


def spread_of(values: np.ndarray, counts: np.ndarray | None = None) -> float:
    """The scale of default priors: the standard deviation; for a constant its absolute value, or 1 if it is zero.

    Parameters
    ----------
    values : ndarray (n,)
    counts : ndarray (n,), optional
        How often each value occurs; None: once.
    """
    if counts is not None:
        return _counted_spread(values, counts)
    if len(values) > 1:
        with np.errstate(over="ignore", invalid="ignore"):
            spread = float(np.std(values, ddof=1))
        # One pass suffices for ordinary numbers.
        if 1e-100 < spread < 1e100 and spread > 1e-6 * abs(float(values[0])):
            return spread
    largest = float(np.max(np.abs(values)))
    if len(values) < 2 or constant(values):
        return largest or 1.0
    if 1e-100 < largest < 1e100:
        return float(np.std(values, ddof=1))
    unit = float(power_of_two(largest))
    return unit * float(np.std(values / unit, ddof=1))


def _counted_spread(values: np.ndarray, counts: np.ndarray) -> float:
    largest, total = float(np.max(np.abs(values))), float(counts.sum())
    if total < 2 or constant(values):
        return largest or 1.0
    unit = float(power_of_two(largest))
    centred = values / unit
    centred = centred - np.average(centred, weights=counts)
    return unit * math.sqrt(float(np.average(centred**2, weights=counts)) * total / (total - 1))


def levelled(values: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Centred and scaled numbers, and the level and the scale (a power of two) that were removed."""
    level, size = float(np.mean(values)), float(power_of_two(spread_of(values)))
    return (values - level) / size, level, size


def located(value: float, spread: float) -> str:
    """A location as text, with six digits, and more where it is large relative to the spread."""
    far_off = abs(value) / spread if spread > 0 else 0.0
    digits = 6 + (max(0, math.ceil(math.log10(far_off))) if far_off > 0 else 0)
    return repr(float(f"{value:.{min(digits, 17)}g}"))


def steps(values: np.ndarray) -> float:
    """The number of distinct doubles within one standard deviation; infinite for constants."""
    values = np.asarray(values, float)
    if len(values) < 2 or constant(values):
        return np.inf
    low, high = float(np.min(values)), float(np.max(values))
    size = max(abs(low), abs(high))
    return float(np.std(values / size)) / _EPS


def check_digits(name: str, values: np.ndarray) -> None:
    """Refuse numbers so far from zero that doubles hardly resolve their variation.

    Raises
    ------
    DataError
        There are fewer than a hundred distinct doubles within one standard deviation.
    """
    if (kept := steps(values)) < FEWEST_STEPS:
        raise DataError(f"{_few(name, values, kept)}; {remedy(values)}", code="too-many-digits")


def check_size(
    values: np.ndarray, what: str, *, smallest: float = _SMALLEST, largest: float = _LARGEST, by: str = ""
) -> None:
    """Refuse numbers whose squares cannot be summed; missing values, infinities and zeros are ignored.

    Parameters
    ----------
    values : ndarray
    what : str
        Name of the numbers, for the message.
    smallest, largest : float
        Limits of the largest absolute value.
    by : str
        The method with these limits, for the message, where other methods have wider ones.

    Raises
    ------
    DataError
        The largest absolute value is outside the limits.
    """
    size = float(np.max(np.abs(values[np.isfinite(values)]), initial=0.0))
    if size > largest or 0 < size < smallest:
        raise DataError(
            f"{what} is as {'large' if size > 1 else 'small'} as {size:.3g}; sizes from {smallest:g} to {largest:g} can"
            f" be computed with{f' by {by}' if by else ''}: measure it in another unit, in data.derive",
            code="too-large",
        )


def far(name: str, values: np.ndarray) -> str | None:
    """A warning in one line if doubles resolve the variation of the numbers with few digits, else None."""
    kept = steps(values)
    return f"{_few(name, values, kept)}" if kept < FEW_STEPS else None


def remedy(values: np.ndarray) -> str:
    """The advice that goes with :func:`far` and :func:`check_digits`."""
    return f"subtract a reference value such as {float(values[0]):.17g} before the data are stored as floats"


def _few(name: str, values: np.ndarray, kept: float) -> str:
    spread, size = float(np.std(values)), float(np.max(np.abs(values)))
    return (
        f"'{name}' varies by {spread:.2g} around {size:.3g}, and doubles of that size hold only {kept:.0f} different"
        f" numbers within one standard deviation"
    )


class Moments:
    """Means and standard deviations, element by element, of arrays that come one after the other [2]_.

    Deviations are summed from the current mean: E[x²] − E[x]² would cancel where a mean is large relative to the sd.

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
        """Add one array of values, for all elements or for those at the distinct positions ``at``."""
        self.count[at] += 1
        gap = values - self.mean[at]
        self.mean[at] += gap / self.count[at]
        self._squares[at] += gap * (values - self.mean[at])

    @property
    def variance(self) -> np.ndarray:
        """The variance with denominator ``count``; 0 where there are no values."""
        return np.asarray(self._squares / np.maximum(self.count, 1))

    @property
    def sd(self) -> np.ndarray:
        """The standard deviation: the square root of :meth:`variance`."""
        return np.sqrt(self.variance)


def two_means(matrix: np.ndarray, counts: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Column means as unevaluated sums of two doubles, shape (p,) each: the second holds the first's rounding error.

    Parameters
    ----------
    matrix : ndarray (n, p)
    counts : ndarray (n,), optional
        How often each row occurs; None: once.
    """
    high = np.average(matrix, axis=0, weights=counts)
    # The mean of the residuals is exact where it matters: numbers near each other subtract without rounding.
    return high, np.average(matrix - high, axis=0, weights=counts)


def remainders(design: Any, target: np.ndarray, point: np.ndarray) -> np.ndarray:
    """``target - design @ point``, computed with doubled precision and then rounded.

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
    r""":math:`\log\Gamma(a+b) - \log\Gamma(a)` for a > 0 and b ≥ 0, without loss where a is large.

    For a near 1e14 the difference of the two log gamma functions is lost to rounding. There it is computed as
    :math:`b\log a + b(b-1)/2a - b(b-1)(2b-1)/12a^2` (Tricomi, Erdélyi 1951, Pacific Journal of Mathematics 1).
    """
    a, b = np.broadcast_arrays(np.asarray(a, float), np.asarray(b, float))
    with np.errstate(all="ignore"):
        series = b * np.log(a) + b * (b - 1) / (2 * a) - b * (b - 1) * (2 * b - 1) / (12 * a) / a
        return np.where(a > _LARGE * np.maximum(b, 1.0), series, special.gammaln(a + b) - special.gammaln(a))
