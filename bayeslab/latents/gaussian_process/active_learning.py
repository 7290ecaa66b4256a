"""Active learning with Gaussian processes: the next inputs to measure, and rows that can be dropped.

The variance of a Gaussian process does not depend on the outcomes, so a whole series of inputs to measure can be
chosen before the first is measured: each where the variance of the function, given those before, is largest [1]_.

A row that the others predict adds little. Rows are dropped one by one: of those whose outcome lies inside its
leave-one-out interval, given the rows still kept, the one at which the others know the function best. Where the
others no longer know it (the standard deviation of the function would exceed a share of that of the noise)
dropping stops: without this, the ever wider intervals of ever fewer rows would let everything go.

References
----------
.. [1] MacKay (1992). Information-based objective functions for active data selection. Neural Computation 4, 590-604.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bayeslab.errors import OptionError

__all__ = ["informative_rows", "most_uncertain"]


def most_uncertain(
    variance: Callable[[np.ndarray], np.ndarray],
    lower: np.ndarray,
    upper: np.ndarray,
    rng: np.random.Generator,
    candidates: int = 512,
) -> tuple[np.ndarray, float]:
    """The point of largest variance in a box, and its variance.

    Parameters
    ----------
    variance : callable
        Of points (m, d).
    lower, upper : array of shape (d,)
        The box.
    rng : numpy.random.Generator
    candidates : int
        Points spread evenly over the box; from the best of them the search goes uphill. Corners are among them.
    """
    from scipy.optimize import minimize
    from scipy.stats import qmc

    lower, upper = np.asarray(lower, float), np.asarray(upper, float)
    d = len(lower)
    if not np.all(lower < upper):
        raise OptionError("bounds are a smaller and a larger number for each column", code="out-of-range")
    spread = qmc.Sobol(d, rng=rng).random_base2(int(np.ceil(np.log2(candidates))))
    corners = np.stack(np.meshgrid(*([[0.0, 1.0]] * min(d, 8)), indexing="ij"), -1).reshape(-1, min(d, 8))
    if d > 8:
        corners = np.pad(corners, ((0, 0), (0, d - 8)), constant_values=0.5)
    points = lower + (upper - lower) * np.vstack([spread, corners])
    variances = variance(points)
    best, top = points[int(np.argmax(variances))], float(variances.max())
    for k in np.argsort(variances)[::-1][:3]:
        ended = minimize(
            lambda x: -float(variance(np.clip(x, lower, upper)[None])[0]),
            points[k],
            method="L-BFGS-B",
            bounds=list(zip(lower, upper, strict=True)),
            options={"maxiter": 50},
        )
        if -ended.fun > top:
            best, top = np.clip(ended.x, lower, upper), float(-ended.fun)
    return best, top


def informative_rows(
    covariance: np.ndarray, residuals: np.ndarray, noise: np.ndarray, probability: float = 0.95, share: float = 0.5
) -> np.ndarray:
    """Indices of the informative rows to keep, in order.

    Parameters
    ----------
    covariance : array of shape (n, n)
        Of the observations, noise included.
    residuals : array of shape (n,)
        Observations minus the mean function.
    noise : array of shape (n,)
        Variances of the noise.
    probability : float
        Of the leave-one-out interval.
    share : float
        A row stays where the standard deviation of the function given the other rows is above this share of that of
        the noise.
    """
    from scipy.special import ndtri

    if not 0.0 < probability < 1.0 or not share > 0.0:
        raise OptionError("probability lies between 0 and 1, and share is positive", code="out-of-range")
    wide = float(ndtri(0.5 + 0.5 * probability))
    precision = np.linalg.inv(covariance)
    kept: Sequence[int] = list(range(len(residuals)))
    while len(kept) > 2:
        at = np.asarray(kept)
        variance = 1.0 / np.diagonal(precision)
        gap = (precision @ residuals[at]) * variance
        function = np.maximum(variance - noise[at], 0.0)
        spare = (np.abs(gap) <= wide * np.sqrt(variance)) & (function <= share**2 * noise[at])
        if not spare.any():
            break
        drop = int(np.flatnonzero(spare)[np.argmin((function / noise[at])[spare])])
        rest = np.arange(len(kept)) != drop
        column = precision[rest, drop]
        precision = precision[np.ix_(rest, rest)] - np.outer(column, column) / precision[drop, drop]
        kept = at[rest].tolist()
    return np.asarray(kept)
