"""How good predicted probabilities are: proper scores and calibration.

References
----------
.. [1] Brier (1950). Verification of forecasts expressed in terms of probability. Monthly Weather
   Review 78(1), 1-3.
.. [2] Good (1952). Rational decisions. Journal of the Royal Statistical Society B 14(1), 107-114.
.. [3] Gneiting, Raftery (2007). Strictly proper scoring rules, prediction, and estimation. Journal
   of the American Statistical Association 102, 359-378.
.. [4] Brown, Cai, DasGupta (2001). Interval estimation for a binomial proportion. Statistical
   Science 16(2), 101-133.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import OptionError

__all__ = ["CalibrationBins", "brier_score", "calibration_bins", "class_bins", "log_score"]

Array = NDArray[np.float64]


def brier_score(probabilities: Array, outcomes: NDArray[np.int64]) -> float:
    """Mean squared distance of the probabilities from what happened [1]_: 0 is perfect, 2 the worst.

    Parameters
    ----------
    probabilities
        Shape (case, state).
    outcomes
        The state of each case, by position.
    """
    happened = np.eye(probabilities.shape[1])[outcomes]
    return float(((probabilities - happened) ** 2).sum(axis=1).mean())


def log_score(probabilities: Array, outcomes: NDArray[np.int64]) -> float:
    """Mean log probability of what happened [2]_: 0 is perfect, −∞ if the impossible happened."""
    with np.errstate(divide="ignore"):
        return float(np.log(probabilities[np.arange(len(outcomes)), outcomes]).mean())


@dataclass(frozen=True, slots=True)
class CalibrationBins:
    """Predicted probabilities in bins, and how often the event happened in each.

    Attributes
    ----------
    predicted : ndarray
        Mean probability in the bin.
    observed : ndarray
        Share of cases in which the event happened.
    lower, upper : ndarray
        Interval of the share.
    count : ndarray
        Cases in the bin, or the sum of their weights.
    """

    predicted: Array
    observed: Array
    lower: Array
    upper: Array
    count: NDArray[Any]


def calibration_bins(
    probabilities: Array,
    happened: NDArray[np.bool_],
    n_bins: int = 10,
    ci_prob: float = 0.89,
    weights: Array | None = None,
) -> CalibrationBins:
    """Cases sorted into bins of equally many (ties stay together), with Jeffreys intervals [4]_ (section 4.3).

    Parameters
    ----------
    probabilities
        Predicted probability of the event, one a case.
    happened
        Whether it happened.
    weights
        What each case counts; None: 1. Less where several are of one row, and say no more of it than one.
    """
    from scipy.stats import beta

    if n_bins < 1:
        raise OptionError(f"bins is a whole number ≥ 1, not {n_bins!r}")
    edges = np.unique(np.quantile(probabilities, np.arange(1, n_bins) / n_bins, method="inverted_cdf"))
    places = np.searchsorted(edges, probabilities, side="left")
    used = np.unique(places)
    each = np.ones(len(places), np.int64) if weights is None else weights
    count = np.array([each[places == b].sum() for b in used])
    hits = np.array([each[(places == b) & happened].sum() for b in used])
    predicted = np.array([np.average(probabilities[places == b], weights=each[places == b]) for b in used])
    tail = (1 - ci_prob) / 2
    lower = np.where(hits == 0, 0.0, beta.ppf(tail, hits + 0.5, count - hits + 0.5))
    upper = np.where(hits == count, 1.0, beta.ppf(1 - tail, hits + 0.5, count - hits + 0.5))
    return CalibrationBins(predicted, hits / count, lower, upper, count)


def class_bins(
    probabilities: Array,
    outcomes: NDArray[np.int64],
    classes: Sequence[str],
    n_bins: int = 10,
    ci_prob: float = 0.89,
    weights: Array | None = None,
) -> tuple[str, CalibrationBins]:
    """One curve for all classes: of two that of the second; of more every case counts once for each (``any``)."""
    if len(classes) == 2:
        return classes[1], calibration_bins(probabilities[:, 1], outcomes == 1, n_bins, ci_prob, weights)
    happened = outcomes[:, None] == np.arange(len(classes))
    repeated = None if weights is None else np.repeat(weights, len(classes))
    return "any", calibration_bins(probabilities.ravel(), happened.ravel(), n_bins, ci_prob, repeated)
