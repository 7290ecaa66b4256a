"""Kernel density estimates that stay within the bounds of a quantity."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["bounds", "kernel_density", "limits"]

type Array = NDArray[np.float64]
type Interval = tuple[float, float]

# Number of bins of the histogram for each point of the curve.
_FINE = 4


def bounds(values: Array) -> Interval:
    """The bounds of a quantity as its values suggest them: (0, 1), (0, inf), (-inf, 0) or (-inf, inf).

    A bound is 0 if no value is on its other side, and 1 if all values are probabilities. A quantity whose values have
    one sign although it is unbounded loses nothing: hardly any values are near its bound.

    >>> bounds(np.array([0.2, 0.9])), bounds(np.array([0.2, 3.0])), bounds(np.array([-1.0, 3.0]))
    ((0.0, 1.0), (0.0, inf), (-inf, inf))
    """
    low, high = float(values.min()), float(values.max())
    if low >= 0:
        return 0.0, 1.0 if high <= 1 else math.inf
    return -math.inf, 0.0 if high <= 0 else math.inf


def limits(low: float, high: float, margin: float, within: Interval) -> Interval:
    """A range with a margin on both sides, as a share of its length, cut off at bounds."""
    gap = high - low
    if not gap > 1e-12 * max(abs(low), abs(high)):
        gap = abs(low) or 1.0
    return max(low - margin * gap, within[0]), min(high + margin * gap, within[1])


def kernel_density(
    values: Array, low: float, high: float, n: int, within: Interval = (-math.inf, math.inf)
) -> tuple[Array, Array]:
    """A kernel density estimate on a grid, in units of the range: the density of ``(values - low) / (high - low)``.

    A fine histogram is convolved with a normal kernel of Silverman's bandwidth [1]_. At an end of the range that is a
    bound, the part of the curve beyond it is reflected [2]_.

    Parameters
    ----------
    values
        Shape (value,), finite.
    low, high
        Range of the grid.
    n
        Number of points.
    within
        Bounds of the quantity.

    Returns
    -------
    grid, density : ndarray
        Shape (n,) each. The density of the values is ``density / (high - low)``, which can overflow.

    References
    ----------
    .. [1] Silverman (1986). Density Estimation for Statistics and Data Analysis. Equation 3.31.
    .. [2] The same, section 2.10.
    """
    fine = _FINE * n
    # In units of the range, so that squares of huge numbers do not overflow.
    shares = (values - low) / (high - low)
    counts, edges = np.histogram(shares, fine, (0.0, 1.0))
    q1, q3 = np.quantile(shares, [0.25, 0.75])
    sd = float(shares.std())
    width = max(0.9 * (min(sd, (q3 - q1) / 1.34) or sd) * len(values) ** -0.2, 1 / n)
    reach = min(fine - 1, int(4 * width * fine) + 1)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / (fine * width)) ** 2)
    whole = np.convolve(counts, kernel / kernel.sum(), mode="full") / len(values)
    curve = whole[reach : reach + fine].copy()
    if low <= within[0]:
        curve[:reach] += whole[:reach][::-1]
    if high >= within[1]:
        curve[fine - reach :] += whole[reach + fine :][::-1]
    at = np.linspace(0, fine - 1, n).astype(int)
    return low + (high - low) * (edges[:-1] + 0.5 / fine)[at], fine * curve[at]
