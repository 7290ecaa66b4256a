"""Kernel of recursive least squares."""

from __future__ import annotations

import numpy as np

from bayeslab.compiled import kernel

__all__ = ["update"]


@kernel
def update(inverse: np.ndarray, weights: np.ndarray, rows: np.ndarray, targets: np.ndarray, forgetting: float) -> None:
    """Process the rows in order; ``inverse`` (P) and ``weights`` are updated in place."""
    n = weights.shape[0]
    gain, product = np.empty(n), np.empty(n)
    for i in range(rows.shape[0]):
        x = rows[i]
        total, error = forgetting, targets[i]
        for a in range(n):
            product[a] = 0.0
            for b in range(n):
                product[a] += inverse[a, b] * x[b]
        for a in range(n):
            total += x[a] * product[a]
            error -= x[a] * weights[a]
        for a in range(n):
            gain[a] = product[a] / total
            weights[a] += gain[a] * error
        for a in range(n):
            # Keep P exactly symmetric, otherwise rounding errors grow.
            for b in range(a + 1):
                value = (inverse[a, b] - gain[a] * product[b]) / forgetting
                inverse[a, b] = value
                inverse[b, a] = value
