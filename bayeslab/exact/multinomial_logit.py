"""Multinomial logits with soft targets: how weights, or transitions, depend on inputs.

References
----------
.. [1] Jordan, Jacobs (1994). Hierarchical mixtures of experts and the EM algorithm. Neural Computation 6, 181-214.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

__all__ = ["fit_gate"]


def fit_gate(inputs: np.ndarray, targets: np.ndarray, start: np.ndarray, precision: float) -> np.ndarray:
    """Multinomial logit with soft targets (N, K), by damped Newton steps; the first row stays zero.

    It never ends below where it starts, so that an EM step that uses it cannot lower the likelihood.
    """
    q, k = inputs.shape[1], targets.shape[1]
    total = targets.sum(axis=1)

    def objective(gate: np.ndarray) -> float:
        eta = inputs @ gate.T
        return float(np.sum(targets * eta) - total @ logsumexp(eta, axis=1) - 0.5 * precision * np.sum(gate**2))

    gate, value = start.copy(), objective(start)
    for _ in range(25 if k > 1 else 0):
        eta = inputs @ gate.T
        p = np.exp(eta - logsumexp(eta, axis=1, keepdims=True))[:, 1:]
        gradient = ((targets[:, 1:] - total[:, None] * p).T @ inputs - precision * gate[1:]).ravel()
        spread = total[:, None, None] * (p[:, :, None] * np.eye(k - 1) - p[:, :, None] * p[:, None, :])
        hessian = np.einsum("nij,na,nb->iajb", spread, inputs, inputs, optimize=True).reshape(2 * ((k - 1) * q,))
        step = np.linalg.solve(hessian + (precision + 1e-10) * np.eye(len(gradient)), gradient).reshape(k - 1, q)
        size, gain = 1.0, -1.0
        while size > 1e-6:
            moved = gate.copy()
            moved[1:] += size * step
            gain = objective(moved) - value
            if gain >= 0:
                break
            size *= 0.5
        if gain < 0:
            break
        gate, value = moved, value + gain
        if gain <= 1e-12 * (1 + abs(value)):
            break
    return gate
