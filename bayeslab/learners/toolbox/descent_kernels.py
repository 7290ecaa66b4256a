"""Kernels of perceptrons and of stochastic gradient descent; rows have a leading 1 for the bias."""

from __future__ import annotations

import math

import numba
import numpy as np

__all__ = ["LIKELIHOOD", "LINEAR", "SQUARED", "kernel_perceptron", "perceptron", "stochastic"]

# Output function of a unit, and the loss of its gradient.
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
    """One pass of the perceptron in the given order.

    Updates the weights in place, adds them to ``total`` after every row, and stores the weights before each update in
    ``votes`` with the number of rows that they survived, as far as there is room. Returns the numbers of steps and of
    updates.

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

    Updates ``counts`` (number of mistakes on each row) and ``scores`` (of all rows) in place; ``summed`` accumulates
    the counts over all steps. A misclassified row costs one row of the Gram matrix, a correctly classified row nothing.
    """
    changes = 0
    n = order.shape[0]
    for i in range(n):
        at = order[i]
        if labels[at] * scores[at] <= 0.0:
            counts[at] += 1
            for j in range(gram.shape[0]):
                scores[j] += labels[at] * gram[at, j]
            # It counts after this step and all later steps of the pass.
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
    """One pass of stochastic gradient descent; ``shrink`` is the penalty on squared weights, without the bias."""
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
