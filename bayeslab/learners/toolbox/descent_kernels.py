"""Kernels of perceptrons and of gradient descent one row at a time; rows carry a leading 1 for the bias."""

from __future__ import annotations

import math

import numba
import numpy as np

__all__ = ["LIKELIHOOD", "LINEAR", "SQUARED", "kernel_perceptron", "perceptron", "stochastic"]

# What the output of a unit is and which loss its gradient is of.
LINEAR, LIKELIHOOD, SQUARED = 0, 1, 2


@numba.njit(cache=True)
def _score(weights: np.ndarray, row: np.ndarray) -> float:
    total = 0.0
    for j in range(weights.shape[0]):
        total += weights[j] * row[j]
    return total


@numba.njit(cache=True)
def perceptron(
    rows: np.ndarray,
    labels: np.ndarray,
    order: np.ndarray,
    weights: np.ndarray,
    rate: float,
    decay: float,
    at_zero: bool,
    steps: int,
    total: np.ndarray,
    votes: np.ndarray,
    survived: np.ndarray,
) -> tuple[int, int]:
    """One pass in the given order.

    Changes the weights; adds them to ``total`` after every row; keeps the weights before each change in ``votes`` with
    the number of rows that they survived, as far as there is room. Returns the numbers of steps and of changes.

    The rate of step t is ``rate * decay / (decay + t)``, or ``rate`` where ``decay`` is 0.
    """
    changes, kept = 0, 0
    for i in range(order.shape[0]):
        row, label = rows[order[i]], labels[order[i]]
        score = _score(weights, row)
        predicted = 1 if (score > 0.0 or (at_zero and score == 0.0)) else 0
        if predicted != label:
            if kept < votes.shape[0]:
                votes[kept] = weights
                kept += 1
                if kept < survived.shape[0]:
                    survived[kept] = 1
            step = rate * decay / (decay + steps) if decay > 0.0 else rate
            for j in range(weights.shape[0]):
                weights[j] += step * (label - predicted) * row[j]
            changes += 1
        elif kept < survived.shape[0]:
            survived[kept] += 1
        for j in range(weights.shape[0]):
            total[j] += weights[j]
        steps += 1
    return steps, changes


@numba.njit(cache=True)
def kernel_perceptron(
    gram: np.ndarray, labels: np.ndarray, order: np.ndarray, counts: np.ndarray, summed: np.ndarray, scores: np.ndarray
) -> int:
    """One pass of a perceptron in its dual form; labels are -1 and 1.

    ``counts`` (how often each row was wrong) and ``scores`` (of all rows under them) are changed; ``summed`` has the
    counts added up over all steps. A wrong row costs one row of the Gram matrix, a right one nothing.
    """
    changes = 0
    n = order.shape[0]
    for i in range(n):
        at = order[i]
        if labels[at] * scores[at] <= 0.0:
            counts[at] += 1
            for j in range(gram.shape[0]):
                scores[j] += labels[at] * gram[at, j]
            # Present after this step and all later ones of the pass.
            summed[at] += n - i
            changes += 1
    return changes


@numba.njit(cache=True)
def stochastic(
    rows: np.ndarray,
    targets: np.ndarray,
    sample_weight: np.ndarray,
    order: np.ndarray,
    weights: np.ndarray,
    kind: int,
    rate: float,
    decay: float,
    steps: int,
    shrink: float,
) -> int:
    """One pass of gradient descent row by row; ``shrink`` is the penalty of squared weights (not of the bias)."""
    for i in range(order.shape[0]):
        at = order[i]
        row = rows[at]
        score = _score(weights, row)
        if kind == LINEAR:
            slope = targets[at] - score
        else:
            output = 1.0 / (1.0 + math.exp(-score)) if score >= 0 else math.exp(score) / (1.0 + math.exp(score))
            slope = targets[at] - output
            if kind == SQUARED:
                slope *= output * (1.0 - output)
        step = rate * decay / (decay + steps) if decay > 0.0 else rate
        for j in range(weights.shape[0]):
            pull = shrink * weights[j] if j > 0 else 0.0
            weights[j] += step * (sample_weight[at] * slope * row[j] - pull)
        steps += 1
    return steps
