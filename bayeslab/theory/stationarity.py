r"""Whether examples come from one distribution, each on its own, as guarantees of learning assume.

Rows that arrive in an order can be asked two things. Does the level move? The partial sums
:math:`S_k = \sum_{i \le k} (x_i - \bar x) / (s \sqrt n)` of independent rows with one mean look like a Brownian bridge,
whose greatest distance from zero has the distribution of Kolmogorov; a drift or a jump shows as a peak [1]_. Does a row
depend on the one before? Rows above and below the median change sides as often as chance has it, or there are too few
runs (rows like those before) or too many (rows that swing) [2]_.

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
    """What the sums of a stream say of its level.

    Attributes
    ----------
    statistic : float
        The greatest absolute partial sum.
    p_value : float
        Chance of one as great from independent rows with one mean.
    at : int
        Rows before the likeliest place of a jump.
    """

    statistic: float
    p_value: float
    at: int


@dataclass(frozen=True)
class Runs:
    """How often a stream changes sides.

    Attributes
    ----------
    runs : int
        Stretches of rows on one side of the median.
    statistic : float
        Their number in standard deviations from what is expected; below 0: too few.
    p_value : float
        Chance of a number as far off, either way, from independent rows.
    """

    runs: int
    statistic: float
    p_value: float


def _stream(values: Any) -> Array:
    out = real(values, "the stream", error=DataError)
    if out.ndim != 1 or len(out) < 10:
        raise DataError(f"a stream of ten numbers or more is wanted, not the shape {out.shape}", code="wrong-shape")
    return out


def drift_test(values: Any) -> Drift:
    """Whether the mean of a stream moves: of inputs, or of 0 and 1 where a learner is right and wrong.

    Rows that depend on their neighbours let the sums wander as well.
    """
    from scipy.stats import kstwobign

    x = _stream(values)
    # Equal values may have a standard deviation of rounding errors.
    if np.ptp(x) == 0:
        return Drift(0.0, 1.0, len(x))
    # In units of the range, whose square neither vanishes nor overflows.
    x = (x - x.mean()) / np.ptp(x)
    sums = np.cumsum(x) / (float(x.std(ddof=1)) * np.sqrt(len(x)))
    at = int(np.abs(sums).argmax())
    greatest = float(np.abs(sums[at]))
    return Drift(greatest, float(kstwobign.sf(greatest)), at + 1)


def runs_test(values: Any) -> Runs:
    """Whether rows of a stream are on the same side of the median as the row before more or less often than by chance.

    Rows on the median are left out, unless they are the smaller values of a stream of two values.
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
