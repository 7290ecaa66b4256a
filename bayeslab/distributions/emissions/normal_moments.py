"""Densities, distances and moments of normal rows, with missing cells at their expectations.

References
----------
.. [1] Little, Rubin (2002). Statistical Analysis with Missing Data, 2nd ed., section 11.2 (missing cells).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bayeslab.constants import LOG_2PI
from bayeslab.distributions.emissions.cells import column_means, column_variances, observed
from bayeslab.distributions.emissions.components import inverse_cholesky
from bayeslab.distributions.emissions.protocol import Statistics
from bayeslab.distributions.toolbox.logarithms import ratio

__all__ = [
    "about_mean",
    "about_normal",
    "centred",
    "column_moments",
    "mahalanobis",
    "merged",
    "moments_about",
    "normal_log_density",
    "patterns",
    "start_moments",
]


def patterns(rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Groups of rows with the same observed columns: (row numbers, observed columns)."""
    present = ~np.isnan(rows)
    if present.all():
        yield np.arange(len(rows)), np.arange(rows.shape[1])
        return
    # Pack the flags into bytes: sorting short strings is faster than sorting rows of flags.
    packed = np.packbits(present, axis=1)
    _, first, kind = np.unique(packed.view(f"V{packed.shape[1]}").ravel(), return_index=True, return_inverse=True)
    for number, example in enumerate(first):
        yield np.flatnonzero(kind.ravel() == number), np.flatnonzero(present[example])


def normal_log_density(rows: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    from bayeslab.distributions.emissions.component_kernels import full_gaussian_log_density

    if not np.isnan(rows).any():
        return full_gaussian_log_density(
            np.ascontiguousarray(rows), np.ascontiguousarray(means), inverse_cholesky(covariances)
        )
    out = np.zeros((len(rows), len(means)))
    for at, columns in patterns(rows):
        if len(columns):
            part = inverse_cholesky(covariances[:, columns[:, None], columns])
            some = np.ascontiguousarray(rows[np.ix_(at, columns)])
            out[at] = full_gaussian_log_density(some, np.ascontiguousarray(means[:, columns]), part)
    return out


def mahalanobis(rows: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared Mahalanobis distances over observed cells (N, K), and the number of observed cells (N,)."""
    from bayeslab.distributions.emissions.component_kernels import full_gaussian_log_density

    out = np.zeros((len(rows), len(means)))
    for at, columns in patterns(rows):
        if len(columns):
            factors = inverse_cholesky(covariances[:, columns[:, None], columns])
            some = np.ascontiguousarray(rows[np.ix_(at, columns)])
            density = full_gaussian_log_density(some, np.ascontiguousarray(means[:, columns]), factors)
            log_det = np.log(np.einsum("kii->ki", factors)).sum(axis=1)
            out[at] = np.maximum(2 * (log_det - density) - len(columns) * LOG_2PI, 0.0)
    return out, (~np.isnan(rows)).sum(axis=1)


def moments_about(
    rows: np.ndarray, weights: np.ndarray, spread_weights: np.ndarray, means: np.ndarray, covariances: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Σ w (x - m) and Σ w (x - m)(x - m)' + Σ v C with missing cells at their expectation.

    C is the covariance of a row's missing cells given its observed ones, w ``weights`` and v
    ``spread_weights`` (they differ for Student's t).
    """
    n_states, d = means.shape
    first, second = np.zeros((n_states, d)), np.zeros((n_states, d, d))
    for at, columns in patterns(rows):
        lost = np.setdiff1d(np.arange(d), columns)
        for k in range(n_states):
            apart = np.zeros((len(at), d))
            apart[:, columns] = rows[np.ix_(at, columns)] - means[k, columns]
            if len(lost):
                within = covariances[k][np.ix_(lost, lost)]
                if len(columns):
                    slope = np.linalg.solve(
                        covariances[k][np.ix_(columns, columns)], covariances[k][np.ix_(columns, lost)]
                    )
                    apart[:, lost] = apart[:, columns] @ slope
                    within = within - covariances[k][np.ix_(lost, columns)] @ slope
                second[k][np.ix_(lost, lost)] += spread_weights[at, k].sum() * within
            weighted = weights[at, k, None] * apart
            first[k] += weighted.sum(axis=0)
            second[k] += weighted.T @ apart
    return first, second


def about_mean(weight: np.ndarray, first: np.ndarray, second: np.ndarray, about: np.ndarray) -> Statistics:
    """(weight, mean, scatter) of full Gaussians, from sums about some point."""
    shift = ratio(first, weight[:, None], 0.0)
    scatter = second - weight[:, None, None] * shift[:, :, None] * shift[:, None, :]
    return {"weight": weight, "mean": about + shift, "scatter": scatter}


def merged(one: Statistics, other: Statistics) -> Statistics:
    """(weight, mean, scatter) of the rows of both, without loss where means are large relative to the scatter.

    Weights are (K,) with scatters (K, d, d), or (K, d) with scatters (K, d). Chan, Golub, LeVeque (1983), The American
    Statistician 37.
    """
    whole = one["scatter"].ndim == 3
    a, b = (s["weight"][:, None] if whole else s["weight"] for s in (one, other))
    total, apart = a + b, other["mean"] - one["mean"]
    between = ratio(a * b, total, 0.0)
    square = between[..., None] * apart[:, :, None] * apart[:, None, :] if whole else between * apart**2
    return {
        "weight": one["weight"] + other["weight"],
        "mean": one["mean"] + ratio(b, total, 0.0) * apart,
        "scatter": one["scatter"] + other["scatter"] + square,
    }


def about_normal(statistics: Statistics, counts: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> float:
    """Expected normal log likelihood; the determinants have other weights than the squares."""
    factors = inverse_cholesky(covariances)
    d, apart = means.shape[1], statistics["mean"] - means
    square = statistics["scatter"] + statistics["weight"][:, None, None] * apart[:, :, None] * apart[:, None, :]
    trace = np.sum((factors @ square) * factors, axis=(1, 2))
    log_det = 2 * np.log(np.einsum("kii->ki", factors)).sum(axis=1)
    return float(0.5 * np.sum(counts * (log_det - d * LOG_2PI) - trace))


def centred(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Deviations from the columns' means, zero at missing cells; indicators of observed cells; and the means."""
    filled, present = observed(rows)
    about = column_means(rows)
    return (filled - about) * present, present, about


def column_moments(rows: np.ndarray, responsibilities: np.ndarray) -> Statistics:
    """(weight, mean, scatter about it) of each state and column, (K, d), over observed cells."""
    apart, present, about = centred(rows)
    weight = responsibilities.T @ present
    shift = ratio(responsibilities.T @ apart, weight, 0.0)
    scatter = np.stack([responsibilities[:, k] @ ((apart - s) ** 2 * present) for k, s in enumerate(shift)])
    return {"weight": weight, "mean": about + shift, "scatter": scatter}


def start_moments(rows: np.ndarray, responsibilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Initial means and diagonal covariances for completing missing cells before parameters exist."""
    moments, variance = column_moments(rows, responsibilities), column_variances(rows)
    spread = ratio(moments["scatter"], moments["weight"], variance)
    spread = np.where(spread > 0, spread, np.where(variance > 0, variance, 1.0))
    return moments["mean"], np.stack([np.diag(v) for v in spread])
