r"""Tests of whether examples are independent and identically distributed, as learning guarantees assume.

For rows that arrive in an order there are two questions. Does the level change? The partial sums
:math:`S_k = \sum_{i \le k} (x_i - \bar x) / (s \sqrt n)` of independent rows with a constant mean approach a Brownian
bridge, whose maximum absolute value has the Kolmogorov distribution; a drift or a jump shows as a peak [1]_. Does a row
depend on the row before? The number of runs above and below the median is compared with its distribution under
independence: too few runs indicate positive dependence, too many indicate alternation [2]_.

References
----------
.. [1] Ploberger, Krämer (1992). The CUSUM test with OLS residuals. Econometrica 60, 271-285.
.. [2] Wald, Wolfowitz (1940). On a test whether two samples are from the same population. Annals of Mathematical
   Statistics 11, 147-162.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.arrays import real
from bayeslab.errors import DataError

__all__ = ["Drift", "Runs", "drift_test", "runs_test"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Drift:
    """Result of the test for a change of level.

    Attributes
    ----------
    statistic : float
        Largest absolute partial sum.
    p_value : float
        Probability of a value at least as large for independent rows with a constant mean.
    at : int
        Number of rows before the likeliest position of a jump.
    """

    statistic: float
    p_value: float
    at: int


@dataclass(frozen=True)
class Runs:
    """Result of the runs test.

    Attributes
    ----------
    runs : int
        Number of runs of rows on one side of the median.
    statistic : float
        Standardised number of runs; below 0: fewer than expected.
    p_value : float
        Two-sided p-value for independent rows.
    """

    runs: int
    statistic: float
    p_value: float


def _stream(values: Any) -> Array:
    out = real(values, "the stream", error=DataError)
    if out.ndim != 1 or len(out) < 10:
        raise DataError(f"a stream of at least ten numbers is needed, not the shape {out.shape}", code="wrong-shape")
    return out


def drift_test(values: Any) -> Drift:
    """Test whether the mean of a stream changes, for instance of an input or of a learner's errors (0 and 1).

    Dependence between neighbouring rows also leads to large partial sums.
    """
    from scipy.stats import kstwobign

    x = _stream(values)
    # The standard deviation of identical values may be a rounding error.
    if np.ptp(x) == 0:
        return Drift(0.0, 1.0, len(x))
    # In units of the range, so that squares neither underflow nor overflow.
    x = (x - x.mean()) / np.ptp(x)
    sums = np.cumsum(x) / (float(x.std(ddof=1)) * np.sqrt(len(x)))
    at = int(np.abs(sums).argmax())
    greatest = float(np.abs(sums[at]))
    return Drift(greatest, float(kstwobign.sf(greatest)), at + 1)


def runs_test(values: Any) -> Runs:
    """Test whether successive rows are on the same side of the median more or less often than by chance.

    Rows equal to the median are dropped, unless they are the smaller of only two values.
    """
    from scipy.stats import norm

    x = _stream(values)
    middle = np.median(x)
    if middle in (x.min(), x.max()):
        above = x > x.min() if middle == x.min() else x == x.max()
    else:
        above = x[x != middle] > middle
    n, up = len(above), int(above.sum())
    if up in (0, n):
        raise DataError("all values are equal: there are no two sides", code="constant")
    both = 2 * up * (n - up)
    if both <= n:
        raise DataError(f"only {n} rows are off the median: too few to see runs", code="too-few")
    runs = 1 + int(np.sum(above[1:] != above[:-1]))
    z = (runs - both / n - 1) / np.sqrt(both * (both - n) / (n**2 * (n - 1)))
    return Runs(runs, float(z), float(2 * norm.sf(abs(z))))
