"""Kernels of perceptrons and of stochastic gradient descent.

Dense rows have a leading 1 for the bias. Sparse rows have none: they are the ``values``, ``columns`` and ``starts`` of
a CSR matrix, and column j belongs to weight j + 1. A sparse pass has the result of the dense one, at a cost in
proportion to the entries that are not zero.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner, kernel

__all__ = [
    "LIKELIHOOD",
    "LINEAR",
    "SQUARED",
    "kernel_perceptron",
    "perceptron",
    "perceptron_sparse",
    "stochastic",
    "stochastic_sparse",
]

# Output function of a unit, and the loss of its gradient.
LINEAR, LIKELIHOOD, SQUARED = 0, 1, 2
# The common factor of the weights is multiplied out when it is smaller.
_SMALLEST = 1e-9


@inner
def _score(weights: np.ndarray, row: np.ndarray) -> float:
    total = 0.0
    for j in range(weights.shape[0]):
        total += weights[j] * row[j]
    return total


@kernel
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


@kernel
def perceptron_sparse(
    values: np.ndarray,
    columns: np.ndarray,
    starts: np.ndarray,
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
    """One pass of :func:`perceptron` over sparse rows."""
    changes, kept = 0, 0
    n = order.shape[0]
    # Sum of the changes of the weights, each times the number of rows before it.
    late = np.zeros(weights.shape[0])
    for i in range(n):
        at = order[i]
        score = weights[0]
        for k in range(starts[at], starts[at + 1]):
            score += weights[columns[k] + 1] * values[k]
        predicted = 1 if (score > 0.0 or (at_zero and score == 0.0)) else 0
        if predicted != labels[at]:
            if kept < votes.shape[0]:
                votes[kept] = weights
                kept += 1
                if kept < survived.shape[0]:
                    survived[kept] = 1
            step = (rate * decay / (decay + steps) if decay > 0.0 else rate) * (labels[at] - predicted)
            weights[0] += step
            late[0] += i * step
            for k in range(starts[at], starts[at + 1]):
                weights[columns[k] + 1] += step * values[k]
                late[columns[k] + 1] += i * step * values[k]
            changes += 1
        elif kept < survived.shape[0]:
            survived[kept] += 1
        steps += 1
    for j in range(weights.shape[0]):
        total[j] += n * weights[j] - late[j]
    return steps, changes


@kernel
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


@inner
def _error(target: float, score: float, kind: int) -> float:
    """The negative slope of the loss by the score."""
    if kind == LINEAR:
        return target - score
    output = 1.0 / (1.0 + math.exp(-score)) if score >= 0 else math.exp(score) / (1.0 + math.exp(score))
    error = target - output
    return error * output * (1.0 - output) if kind == SQUARED else error


@kernel
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
        slope = _error(targets[at], _score(weights, row), kind)
        step = rate * decay / (decay + steps) if decay > 0.0 else rate
        for j in range(weights.shape[0]):
            pull = shrink * weights[j] if j > 0 else 0.0
            weights[j] += step * (sample_weight[at] * slope * row[j] - pull)
        steps += 1
    return steps


@kernel
def stochastic_sparse(
    values: np.ndarray,
    columns: np.ndarray,
    starts: np.ndarray,
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
    """One pass of :func:`stochastic` over sparse rows; a common factor of the weights takes the penalty."""
    factor = 1.0
    for i in range(order.shape[0]):
        at = order[i]
        score = 0.0
        for k in range(starts[at], starts[at + 1]):
            score += weights[columns[k] + 1] * values[k]
        slope = _error(targets[at], factor * score + weights[0], kind)
        step = rate * decay / (decay + steps) if decay > 0.0 else rate
        factor *= 1.0 - step * shrink
        if abs(factor) < _SMALLEST:
            weights[1:] *= factor
            factor = 1.0
        change = step * sample_weight[at] * slope
        weights[0] += change
        for k in range(starts[at], starts[at + 1]):
            weights[columns[k] + 1] += change * values[k] / factor
        steps += 1
    weights[1:] *= factor
    return steps
