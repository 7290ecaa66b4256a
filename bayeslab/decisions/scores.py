"""Evaluation of predicted probabilities: proper scores and calibration.

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

from bayeslab.arrays import count, distributions, number, positions, real, truths
from bayeslab.errors import OptionError

__all__ = ["CalibrationBins", "brier_score", "calibration_bins", "class_bins", "log_score"]

Array = NDArray[np.float64]


def brier_score(probabilities: Array, outcomes: NDArray[np.int64]) -> float:
    """Return the Brier score, the mean squared distance of probabilities from outcomes [1]_: 0 is perfect, 2 the worst.

    Parameters
    ----------
    probabilities
        Shape (case, state).
    outcomes
        Index of the observed state of each case.

    Raises
    ------
    OptionError
        Probabilities do not sum to one, or outcomes are not indices of states.
    """
    given, at = _cases(probabilities, outcomes)
    happened = np.eye(given.shape[1])[at]
    return float(((given - happened) ** 2).sum(axis=1).mean())


def log_score(probabilities: Array, outcomes: NDArray[np.int64]) -> float:
    """Return the mean log probability of the outcomes [2]_: 0 is perfect, −∞ if one had probability 0."""
    given, at = _cases(probabilities, outcomes)
    with np.errstate(divide="ignore"):
        return float(np.log(given[np.arange(len(at)), at]).mean())


def _cases(probabilities: Any, outcomes: Any) -> tuple[Array, NDArray[np.int64]]:
    """Return checked probabilities (case, state) and outcome indices."""
    given = distributions(probabilities, "probabilities", ndim=2)
    at = positions(outcomes, "outcomes", given.shape[1])
    if at.shape != given.shape[:1]:
        raise OptionError(
            f"outcomes are one a case: {len(given)} cases of probabilities, outcomes of shape {at.shape}",
            code="wrong-shape",
        )
    return given, at


@dataclass(frozen=True, slots=True)
class CalibrationBins:
    """Binned predicted probabilities, and the frequency of the event in each bin.

    Attributes
    ----------
    predicted : ndarray
        Mean predicted probability in the bin.
    observed : ndarray
        Share of cases in which the event happened.
    lower, upper : ndarray
        Interval for the share.
    count : ndarray
        Number of cases in the bin, or the sum of their weights.
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
    """Return calibration bins of equal counts (ties stay together), with Jeffreys intervals [4]_ (section 4.3).

    Parameters
    ----------
    probabilities
        Predicted probability of the event for each case.
    happened
        Whether the event happened: truth values, or 1 and 0.
    weights
        Weight of each case; None: 1. Use smaller weights if several cases come from one row and are not independent.

    Raises
    ------
    OptionError
        Probabilities are outside 0 to 1, outcomes are not truth values, weights are not above 0, or lengths differ.
    """
    from scipy.stats import beta

    count(n_bins, "n_bins", 1, 1_000_000)
    number(ci_prob, "ci_prob", 0, 1, above=True, below=True)
    probabilities, hit = real(probabilities, "probabilities", ndim=1), truths(happened, "happened")
    if (probabilities < 0).any() or (probabilities > 1).any():
        wrong = float(probabilities[(probabilities < 0) | (probabilities > 1)][0])
        raise OptionError(f"probabilities lie between 0 and 1; given: {wrong:g}", code="out-of-range")
    each: Any = np.ones(len(probabilities), np.int64)
    if weights is not None and not ((each := real(weights, "weights")) > 0).all():
        raise OptionError(f"weights of cases are above 0; given: {each.min():g}", code="out-of-range")
    if {probabilities.shape, hit.shape, each.shape} != {probabilities.shape}:
        raise OptionError(
            f"a probability, an outcome and a weight for each case; given the shapes {probabilities.shape}, {hit.shape}"
            f" and {each.shape}",
            code="wrong-shape",
        )
    edges = np.unique(np.quantile(probabilities, np.arange(1, n_bins) / n_bins, method="inverted_cdf"))
    places = np.searchsorted(edges, probabilities, side="left")
    used = np.unique(places)
    total = np.array([each[places == b].sum() for b in used])
    hits = np.array([each[(places == b) & hit].sum() for b in used])
    predicted = np.array([np.average(probabilities[places == b], weights=each[places == b]) for b in used])
    tail = (1 - ci_prob) / 2
    lower = np.where(hits == 0, 0.0, beta.ppf(tail, hits + 0.5, total - hits + 0.5))
    upper = np.where(hits == total, 1.0, beta.ppf(1 - tail, hits + 0.5, total - hits + 0.5))
    return CalibrationBins(predicted, hits / total, lower, upper, total)


def class_bins(
    probabilities: Array,
    outcomes: NDArray[np.int64],
    classes: Sequence[str],
    n_bins: int = 10,
    ci_prob: float = 0.89,
    weights: Array | None = None,
) -> tuple[str, CalibrationBins]:
    """Return one curve for all classes: that of the second of two; else every case counts once per class (``any``)."""
    given, at = _cases(probabilities, outcomes)
    if given.shape[1] != len(classes):
        raise OptionError(
            f"{len(classes)} classes have as many columns of probabilities, not {given.shape[1]}", code="wrong-length"
        )
    if len(classes) == 2:
        return classes[1], calibration_bins(given[:, 1], at == 1, n_bins, ci_prob, weights)
    happened = at[:, None] == np.arange(len(classes))
    repeated = None if weights is None else np.repeat(weights, len(classes))
    return "any", calibration_bins(given.ravel(), happened.ravel(), n_bins, ci_prob, repeated)
