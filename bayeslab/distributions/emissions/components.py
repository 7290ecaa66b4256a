"""Rows from one of K components, with the component summed out.

For one row log p(x) = log Σ_k w_k p_k(x), and the responsibilities r_k = w_k p_k(x) / p(x) are the
posterior of its component. By Fisher's identity they are the gradient: d log p / d log w_k = r_k and
d log p / d log p_k(x) = r_k. Therefore one kernel serves as the E-step of EM, as value and gradient for NUTS, and for
clustering and the pointwise log likelihood.

The names in capitals are kernels for `evidence.EvidenceOp`, each a function of one flat vector:

=================  ======================================================================  ==============
name               vector                                                                  further arrays
=================  ======================================================================  ==============
ANY                log weights (K), log component densities (N · K, row by row)            [K]
FULL_GAUSSIAN      log weights (K), means (K · d), inverse Cholesky factors (K triangles)  rows (N, d)
DIAGONAL_GAUSSIAN  log weights (K), means (K · d), log standard deviations (K · d)         rows (N, d)
=================  ======================================================================  ==============

A triangle is the lower triangle of W, row by row, with Σ^-1 = W'W.

References
----------
.. [1] Dempster, Laird, Rubin (1977). Maximum likelihood from incomplete data via the EM algorithm. JRSS B 39, 1-38.
.. [2] McLachlan, Peel (2000). Finite Mixture Models, chapter 2.
"""

from __future__ import annotations

import numpy as np

__all__ = [
    "ANY",
    "DIAGONAL_GAUSSIAN",
    "FULL_GAUSSIAN",
    "inverse_cholesky",
    "log_evidence",
    "normalise",
    "packed_triangles",
]

ANY = "bayeslab.distributions.emissions.component_kernels:log_evidence_and_gradient"
FULL_GAUSSIAN = "bayeslab.distributions.emissions.component_kernels:full_gaussian_evidence"
DIAGONAL_GAUSSIAN = "bayeslab.distributions.emissions.component_kernels:diagonal_gaussian_evidence"


def normalise(log_weights: np.ndarray, log_components: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log evidence of each row (N,) and responsibilities (N, K).

    Parameters
    ----------
    log_weights : ndarray (K,) or (N, K)
        Common to all rows, or for each row (a gate on inputs, known labels).
    log_components : ndarray (N, K)

    Notes
    -----
    A row with zero density under every component has evidence -inf and responsibilities zero.
    """
    from bayeslab.distributions.emissions.component_kernels import normalise_rows

    weights = np.atleast_2d(np.asarray(log_weights, float))
    return normalise_rows(np.ascontiguousarray(weights), np.ascontiguousarray(log_components, float))


def log_evidence(log_weights: np.ndarray, log_components: np.ndarray) -> np.ndarray:
    """Log evidence of each row, (N,): the pointwise log likelihood."""
    return normalise(log_weights, log_components)[0]


def inverse_cholesky(covariances: np.ndarray) -> np.ndarray:
    """W = L^-1 with Σ = L L', for covariances of shape (K, d, d).

    Raises
    ------
    numpy.linalg.LinAlgError
        If a covariance is not positive definite.
    """
    lower = np.linalg.cholesky(covariances)
    return np.tril(np.linalg.solve(lower, np.broadcast_to(np.eye(lower.shape[-1]), lower.shape)))


def packed_triangles(factors: np.ndarray) -> np.ndarray:
    """Lower triangles of (K, d, d) row by row, as one vector."""
    i, j = np.tril_indices(factors.shape[-1])
    return np.ascontiguousarray(factors[:, i, j]).ravel()
