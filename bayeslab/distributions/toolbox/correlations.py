"""Distributions of correlation matrices: normalising constants."""

from __future__ import annotations

import numpy as np

from bayeslab import special

__all__ = ["log_constant"]


def log_constant(eta: float, n: int) -> float:
    """log c of the density c det(R)^(eta - 1) of n x n correlation matrices R.

    It is a product over the partial correlations of a C-vine, each a Beta on (-1, 1): Lewandowski, Kurowicka and Joe
    (2009), J. Multivariate Analysis 100, section 2.4.
    """
    before = np.tril_indices(n, -1)[1]
    alpha = eta + (n - 2 - before) / 2.0
    return -float(np.sum(special.betaln(alpha, alpha) + (2.0 * alpha - 1.0) * np.log(2.0)))
