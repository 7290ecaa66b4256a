"""The conjugate prior of means and covariance matrices, or of means and variances.

References
----------
.. [1] Fraley, Raftery (2007). Bayesian regularization for normal mixture estimation. J. Classification 24, 155-181.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayeslab.distributions.emissions.cells import column_means, column_variances

__all__ = ["NormalPrior", "inverse_wishart"]


@dataclass(frozen=True, eq=False)
class NormalPrior:
    """Normal-inverse-Wishart: Σ ~ IW(ν, Ψ) and mean | Σ ~ Normal(m, Σ / κ).

    Variances (diagonal, spherical) have the one-dimensional form: σ² ~ InverseGamma(ν / 2, ψ / 2).
    """

    mean: np.ndarray
    kappa: float
    nu: float
    scale: np.ndarray

    @classmethod
    def weak(cls, rows: np.ndarray, n_states: int, *, diagonal: bool) -> NormalPrior:
        """Fraley and Raftery's default [1]_: the mean counts as 0.01 rows, the scale is a K-th of the data's volume."""
        d = rows.shape[1]
        variance = column_variances(rows)
        variance = np.where(variance > 0, variance, 1.0)
        if diagonal:
            return cls(column_means(rows), 0.01, 3.0, variance / n_states**2)
        complete = rows[~np.isnan(rows).any(axis=1)]
        scale = np.diag(variance)
        if len(complete) > d + 1:
            covariance = np.cov(complete.T, bias=True).reshape(d, d)
            # A small multiple of the diagonal keeps it proper when columns are linearly dependent.
            scale = covariance + 1e-6 * np.diag(variance)
        return cls(column_means(rows), 0.01, d + 2.0, scale / n_states ** (2 / d))

    def centres(self, n: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Posterior means (K, d) given counts, (K,) or (K, d), and means (K, d) of rows."""
        n = n[:, None] if n.ndim == 1 else n
        return np.asarray(self.mean + (mean - self.mean) * (n / (self.kappa + n)))

    def between(self, n: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """The term of the scatter from the distance between the rows' means and the prior's.

        Matrices (K, d, d) for a prior of covariance matrices and counts (K,); otherwise (K, d), for counts (K, d).
        """
        apart, shrink = mean - self.mean, self.kappa * n / (self.kappa + n)
        if n.ndim == 2:
            return np.asarray(shrink * apart**2)
        return np.asarray(shrink[:, None, None] * apart[:, :, None] * apart[:, None, :])


def inverse_wishart(rng: np.random.Generator, nu: float | np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Draw by Bartlett's decomposition of the Wishart precision, for each leading index of ``scale`` (..., d, d)."""
    d = scale.shape[-1]
    bartlett = np.tril(rng.standard_normal(scale.shape), -1)
    bartlett[..., range(d), range(d)] = np.sqrt(rng.chisquare(np.asarray(nu)[..., None] - np.arange(d)))
    # Λ = C A A' C' with C C' = Ψ^-1, so Σ = L A^-T A^-1 L' with L L' = Ψ and C = L^-T.
    half = np.linalg.solve(bartlett, np.swapaxes(np.linalg.cholesky(scale), -1, -2))
    return np.asarray(np.swapaxes(half, -1, -2) @ half)
