r"""Transition probabilities of a chain that starts in its stationary distribution, from expected counts.

    Q(A) = sum_ij n_ij log A_ij + sum_i s_i log pi_i(A),    pi A = pi.

Without the second sum the best rows are shares of the counts; with it there is no closed form. Its gradient has one:
with M = I - A + 1 1', pi = 1' M^-1, so that d pi = pi dA M^-1 and the derivative of the second sum by A_kl is pi_k
(M^-1 (s / pi))_l. A quasi-Newton method maximises Q over logits of the rows and never ends below its start: a
generalised M-step [1]_.

References
----------
.. [1] Dempster, Laird, Rubin (1977). Maximum likelihood from incomplete data via the EM algorithm. JRSS B 39, 1-38.
"""

from __future__ import annotations

import numpy as np

from bayeslab.blas import one_blas_thread
from bayeslab.latents.chains.markov_chain import stationary

__all__ = ["best_transition", "expected_log_density"]

# Probabilities in a search are at least this, so that logits are finite.
_LEAST = 1e-14


def expected_log_density(transition: np.ndarray, moves: np.ndarray, starts: np.ndarray) -> float:
    """Q; -inf where something that was counted has probability zero."""
    pi = stationary(transition)
    with np.errstate(divide="ignore"):
        terms = moves[moves > 0] @ np.log(transition[moves > 0]) + starts[starts > 0] @ np.log(pi[starts > 0])
    return float(terms)


def best_transition(moves: np.ndarray, starts: np.ndarray, mask: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The maximum of Q near ``before`` or near the shares of the counts.

    Parameters
    ----------
    moves : ndarray (n_states, n_states)
        Expected numbers of transitions, those of a prior included.
    starts : ndarray (n_states,)
    mask : ndarray (n_states, n_states) of bool
        Possible transitions.
    before : ndarray (n_states, n_states)
        The transition matrix that gave the counts.
    """
    from scipy.optimize import minimize

    n = len(starts)

    def rows(x: np.ndarray) -> np.ndarray:
        logits = np.full(mask.shape, -np.inf)
        logits[mask] = x
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def falling(x: np.ndarray) -> tuple[float, np.ndarray]:
        a = rows(np.clip(x, -700.0, 700.0))
        pi = stationary(a)
        positive = starts > 0
        adjoint = np.linalg.solve(np.eye(n) - a + 1.0, np.where(positive, starts, 0.0) / np.where(positive, pi, 1.0))
        slope = np.where(mask, moves + a * pi[:, None] * adjoint, 0.0)
        slope = slope - a * slope.sum(axis=1, keepdims=True)
        return -expected_log_density(a, moves, starts), -slope[mask]

    sums = moves.sum(axis=1, keepdims=True)
    shares = np.where(sums > 0, moves / np.where(sums > 0, sums, 1.0), before)
    tried = [_inside(a, mask) for a in (before, shares)]
    start = max(tried, key=lambda a: expected_log_density(a, moves, starts))
    with one_blas_thread():
        best = rows(minimize(falling, np.log(start[mask]), jac=True, method="L-BFGS-B", options={"maxiter": 100}).x)
    return max((before, best), key=lambda a: expected_log_density(a, moves, starts))


def _inside(a: np.ndarray, mask: np.ndarray) -> np.ndarray:
    a = np.where(mask, np.maximum(a, _LEAST), 0.0)
    return np.asarray(a / a.sum(axis=1, keepdims=True))
