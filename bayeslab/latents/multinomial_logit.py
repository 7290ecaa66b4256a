"""Multinomial logits with soft targets: weights, or transitions, that depend on inputs.

References
----------
.. [1] Jordan, Jacobs (1994). Hierarchical mixtures of experts and the EM algorithm. Neural Computation 6, 181-214.
"""

from __future__ import annotations

import numpy as np

from bayeslab.distributions.toolbox.logarithms import log_sum

__all__ = ["fit_gate"]


def fit_gate(inputs: np.ndarray, targets: np.ndarray, start: np.ndarray, precision: float) -> np.ndarray:
    """Multinomial logit with soft targets (N, K), by damped Newton steps; the first row stays zero.

    It never ends below where it starts, so that an EM step that uses it cannot lower the likelihood.
    """
    q, k = inputs.shape[1], targets.shape[1]
    total = targets.sum(axis=1)

    def log_shares(gate: np.ndarray) -> np.ndarray:
        eta = inputs @ gate.T
        return eta - log_sum(eta, axis=1, keepdims=True)

    def objective(gate: np.ndarray, logs: np.ndarray) -> float:
        return float(np.sum(targets * logs) - 0.5 * precision * np.sum(gate**2))

    gate, logs = start.copy(), log_shares(start)
    value = objective(gate, logs)
    for _ in range(25 if k > 1 else 0):
        p = np.exp(logs[:, 1:])
        gradient = ((targets[:, 1:] - total[:, None] * p).T @ inputs - precision * gate[1:]).ravel()
        step = np.linalg.solve(_curvature(inputs, p, total, precision + 1e-10), gradient).reshape(k - 1, q)
        size, gain = 1.0, -1.0
        while size > 1e-6:
            moved = gate.copy()
            moved[1:] += size * step
            logs = log_shares(moved)
            gain = objective(moved, logs) - value
            if gain >= 0:
                break
            size *= 0.5
        if gain < 0:
            break
        gate, value = moved, value + gain
        if gain <= 1e-12 * (1 + abs(value)):
            break
    return gate


def _curvature(inputs: np.ndarray, p: np.ndarray, total: np.ndarray, ridge: float) -> np.ndarray:
    """Minus the Hessian, ((K - 1) Q, (K - 1) Q)."""
    (n, q), m = inputs.shape, p.shape[1]
    weighted = (total[:, None, None] * p[:, :, None] * inputs[:, None, :]).reshape(n, m * q)
    out = -(weighted.T @ (p[:, :, None] * inputs[:, None, :]).reshape(n, m * q))
    blocks = (weighted.T @ inputs).reshape(m, q, q)
    for i in range(m):
        out[i * q : (i + 1) * q, i * q : (i + 1) * q] += blocks[i]
    out[np.diag_indices_from(out)] += ridge
    return out
