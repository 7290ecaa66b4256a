r"""Randomized weighted majority: follow K experts with few more mistakes than the best of them.

In each step an expert is drawn with probability proportional to its weight and followed; the weights of experts that
were wrong are multiplied by :math:`\beta`. For any sequence the expected number of mistakes M satisfies [1]_

.. math:: M < \frac{M^* \ln(1/\beta) + \ln K}{1 - \beta},

where :math:`M^*` is the number of mistakes of the best expert. If :math:`\beta` approaches one at the right rate, the
average regret vanishes.

References
----------
.. [1] Littlestone, Warmuth (1994). The weighted majority algorithm. Information and Computation 108, 212-261.
.. [2] Arora, Hazan, Kale (2012). The multiplicative weights update method. Theory of Computing 8, 121-164, thm 2.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.arrays import comparable, count, number
from bayeslab.errors import OptionError

__all__ = ["Followed", "best_beta", "follow", "mistake_bound"]


@dataclass(frozen=True, eq=False)
class Followed:
    """Result of following the experts.

    Attributes
    ----------
    mistakes : int
        Mistakes of the experts drawn.
    expected_mistakes : float
        Expected mistakes over the random draws.
    best_mistakes : int
        Mistakes of the best expert.
    weights : ndarray, shape (steps + 1, experts)
        Normalised weights before each step and at the end.
    """

    mistakes: int
    expected_mistakes: float
    best_mistakes: int
    weights: np.ndarray


def follow(advice: Any, outcomes: Any, beta: float, rng: np.random.Generator) -> Followed:
    """Follow experts through a sequence.

    Parameters
    ----------
    advice
        Prediction of each expert at each step, shape (steps, experts).
    outcomes
        Correct outcomes, shape (steps,).
    beta
        Factor for the weight of an expert that was wrong, between 0 and 1.
    """
    predictions, truth = comparable(advice, outcomes, ("advice", "outcomes"))
    if predictions.ndim != 2 or predictions.shape[:1] != truth.shape or not predictions.size:
        raise OptionError(
            f"advice has the shape (steps, experts); given {predictions.shape} for {truth.shape} outcomes",
            code="wrong-shape",
        )
    _check(beta)
    wrong = predictions != truth[:, None]
    # Weights are powers of beta, kept as exponents so that long sequences cannot underflow.
    before = np.vstack([np.zeros(predictions.shape[1]), np.cumsum(wrong, axis=0)])
    log_weights = (before - before.min(axis=1, keepdims=True)) * math.log(beta)
    weights = np.exp(log_weights)
    weights /= weights.sum(axis=1, keepdims=True)
    blamed = (weights[:-1] * wrong).sum(axis=1)
    drawn = np.minimum(
        (rng.random((len(truth), 1)) > np.cumsum(weights[:-1], axis=1)).sum(axis=1), predictions.shape[1] - 1
    )
    mistakes = int(wrong[np.arange(len(truth)), drawn].sum())
    return Followed(mistakes, float(blamed.sum()), int(wrong.sum(axis=0).min()), weights)


def mistake_bound(best_mistakes: float, n_experts: int, beta: float) -> float:
    """Return the upper bound on the expected number of mistakes."""
    _check(beta)
    number(best_mistakes, "best_mistakes", 0)
    count(n_experts, "n_experts", 1)
    return (best_mistakes * math.log(1 / beta) + math.log(n_experts)) / (1 - beta)


def best_beta(n_steps: int, n_experts: int) -> float:
    """Return the factor for a sequence of known length whose regret is of the order of its square root [2]_."""
    count(n_steps, "n_steps", 1)
    count(n_experts, "n_experts", 2)
    return 1 - min(0.5, math.sqrt(math.log(n_experts) / n_steps))


def _check(beta: float) -> None:
    number(beta, "beta", 0, 1, above=True, below=True)
