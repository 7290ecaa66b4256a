"""Pareto-smoothed importance sampling: leave-one-out predictions from the posterior given all the data.

Omitting observation i changes the posterior by the factor 1 / p(y_i | parameters). These ratios are
importance weights of the posterior draws. Their upper tail, which a few weights can dominate, is
replaced by expected order statistics of a generalised Pareto distribution fitted to it. The fitted
shape k is a diagnostic: up to 0.7 the error of the smoothed estimate is usable; above, the posteriors
with and without the observation differ too much.

Arrays are (observation, draw), so that a tail is contiguous in memory.

References
----------
.. [1] Vehtari, Simpson, Gelman, Yao, Gabry (2024). Pareto smoothed importance sampling. Journal of
   Machine Learning Research 25(72), 1-58. arXiv:1507.02646
.. [2] Zhang, Stephens (2009). A new and efficient estimation method for the generalized Pareto
   distribution. Technometrics 51(3), 316-325.
.. [3] Vehtari, Gelman, Gabry (2017). Practical Bayesian model evaluation using leave-one-out
   cross-validation and WAIC. Statistics and Computing 27, 1413-1432. arXiv:1507.04544
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bayeslab.distributions.toolbox.logarithms import log_sum

__all__ = ["good_k", "leave_one_out", "pareto_fit", "pareto_smoothed", "smoothed_log_weights"]

Array = NDArray[np.float64]

_BATCH = 1 << 20  # numbers processed at a time
# If the relative effective sample size is larger than this, the weights count as equal.
_ALIKE = 0.99


def good_k(n_draws: int) -> float:
    """The largest shape k for which an estimate from ``n_draws`` draws is reliable ([1], section 3.2.4)."""
    return min(1 - 1 / math.log10(max(n_draws, 2)), 0.7)


def leave_one_out(log_likelihood: Array, relative_efficiency: Array | float = 1.0) -> tuple[Array, Array, Array]:
    """Log predictive density of each observation given all others, by importance sampling.

    Parameters
    ----------
    log_likelihood
        Shape (observation, draw).
    relative_efficiency
        Effective sample size over the number of draws, for each observation's likelihood or one value for all.

    Returns
    -------
    elpd, p_loo, pareto_k : ndarray
        Shape (observation,): log predictive density ([3], eq. 10), its difference from the log
        density with the observation included (these differences add up to the effective number of
        parameters), and the shape of the tail.
    """
    n_obs, n_draws = log_likelihood.shape
    efficiency = np.broadcast_to(np.asarray(relative_efficiency, float), (n_obs,))
    elpd, pareto_k = np.empty(n_obs), np.empty(n_obs)
    step = max(1, _BATCH // n_draws)
    for start in range(0, n_obs, step):
        rows = slice(start, start + step)
        log_weights, pareto_k[rows] = smoothed_log_weights(-log_likelihood[rows], efficiency[rows])
        elpd[rows] = log_sum(log_weights + log_likelihood[rows], axis=1)
    together = log_sum(log_likelihood, axis=1) - math.log(n_draws)
    return elpd, together - elpd, pareto_k


def smoothed_log_weights(log_ratios: Array, relative_efficiency: Array | float = 1.0) -> tuple[Array, Array]:
    """Normalised log weights with their upper tails smoothed ([1], algorithm 1), and the tails' shapes.

    Parameters
    ----------
    log_ratios
        Shape (observation, draw).

    Returns
    -------
    log_weights : ndarray
        Shape (observation, draw); each row's weights sum to one.
    pareto_k : ndarray
        Shape (observation,); infinite if the tail is too short to fit or is mostly one value; −inf if the ratios are
        nearly equal.
    """
    n_obs, n_draws = log_ratios.shape
    efficiency = np.broadcast_to(np.asarray(relative_efficiency, float), (n_obs,))
    shifted = log_ratios - log_ratios.max(axis=1, keepdims=True)
    pareto_k = np.full(n_obs, np.inf)
    lengths = np.array([_tail_length(n_draws, r) for r in efficiency])
    for length in np.unique(lengths):
        if length >= 5:
            chosen = np.flatnonzero(lengths == length)
            shifted[chosen], pareto_k[chosen] = _smooth_tails(shifted[chosen], int(length))
    return shifted - log_sum(shifted, axis=1, keepdims=True), pareto_k


def _tail_length(n_draws: int, efficiency: float) -> int:
    """[1], section 3.2: at most a fifth of the draws, and 3 √(effective draws) scaled to the draws."""
    return int(min(n_draws // 5, math.ceil(3 * math.sqrt(n_draws / efficiency))))


def _smooth_tails(shifted: Array, length: int) -> tuple[Array, Array]:
    order = np.argpartition(shifted, -length - 1, axis=1)
    tail_at, cut_at = order[:, -length:], order[:, -length - 1]
    tail = np.take_along_axis(shifted, tail_at, axis=1)
    inner = np.argsort(tail, axis=1)
    tail_at, tail = np.take_along_axis(tail_at, inner, axis=1), np.take_along_axis(tail, inner, axis=1)
    cut = np.exp(np.take_along_axis(shifted, cut_at[:, None], axis=1))
    varies = tail[:, -1] - tail[:, 0] > 1e-12
    shape = np.full(len(shifted), -np.inf)
    rows = np.flatnonzero(varies)
    if not rows.size:
        return shifted, shape
    k, sigma = pareto_fit(np.exp(tail[rows]) - cut[rows])
    probabilities = (np.arange(length) + 0.5) / length
    with np.errstate(divide="ignore", invalid="ignore"):
        quantiles = cut[rows] + _pareto_quantiles(probabilities, k, sigma)
        # Smoothed ratios are truncated at the largest raw ratio.
        smoothed = np.minimum(np.log(quantiles), 0.0)
    usable = np.isfinite(k) & np.all(np.isfinite(smoothed), axis=1)
    # Repeated draws, such as partitions, have no tail to fit; nearly equal weights need no fit.
    weights = np.exp(shifted[rows])
    size = weights.sum(axis=1) ** 2 / (weights**2).sum(axis=1)
    shape[rows] = np.where(np.isfinite(k), k, np.where(size > _ALIKE * shifted.shape[1], -np.inf, np.inf))
    kept = rows[usable]
    shifted[kept[:, None], tail_at[kept]] = smoothed[usable]
    return shifted, shape


def _pareto_quantiles(probabilities: Array, k: Array, sigma: Array) -> Array:
    k, sigma = k[:, None], sigma[:, None]
    flat = -np.log1p(-probabilities)
    safe = np.where(k == 0, 1.0, k)
    return np.asarray(sigma * np.where(k == 0, flat, np.expm1(safe * flat) / safe))


def pareto_fit(exceedances: Array) -> tuple[Array, Array]:
    """Shape and scale of the generalised Pareto distribution fitted to sorted rows of exceedances.

    The estimate is the approximate posterior mean of [2]; the shape is then shrunk towards 0.5 with
    the weight of ten observations ([1], appendix G).

    Parameters
    ----------
    exceedances
        Shape (rows, n), ascending, non-negative.

    Returns
    -------
    shape, scale : ndarray
        NaN where the first quartile equals the minimum.
    """
    step = max(1, _BATCH // (exceedances.shape[1] * (30 + math.isqrt(exceedances.shape[1]))))
    parts = [_pareto_fit(exceedances[i : i + step]) for i in range(0, len(exceedances), step)]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _pareto_fit(x: Array) -> tuple[Array, Array]:
    n = x.shape[1]
    m = 30 + math.isqrt(n)
    quartile = x[:, int(n / 4 + 0.5) - 1]
    with np.errstate(all="ignore"):
        grid = (1 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))) / (3 * quartile[:, None]) + 1 / x[:, -1:]
        k = np.log1p(-grid[:, :, None] * x[:, None, :]).mean(axis=2)
        height = n * (np.log(-grid / k) - k - 1)
        weights = np.exp(height - log_sum(height, axis=1, keepdims=True))
        weights = np.where(weights >= 10 * np.finfo(float).eps, weights, 0.0)
        theta = (grid * weights).sum(axis=1) / weights.sum(axis=1)
        shape = np.log1p(-theta[:, None] * x).mean(axis=1)
        scale = -shape / theta
    shape = (n * shape + 5) / (n + 10)
    proper = (quartile > x[:, 0]) & np.isfinite(shape) & (scale > 0)
    return np.where(proper, shape, np.nan), np.where(proper, scale, np.nan)


def pareto_smoothed(log_ratios: Array) -> tuple[Array, float]:
    """Pareto-smoothed importance weights of one set of ratios.

    Parameters
    ----------
    log_ratios
        Log importance ratios, shape (draw,); -inf for weight zero.

    Returns
    -------
    log_weights : ndarray
        Normalised: their exponentials sum to 1.
    k : float
        Shape of the generalised Pareto distribution of the largest ratios, which have 1/k moments. It
        is 0 if all ratios are equal, and inf if there are too few to fit.
    """
    shifted = np.where(np.isnan(log_ratios), -np.inf, log_ratios)
    if not np.isfinite(shifted.max(initial=-np.inf)):
        return np.full(shifted.size, -math.log(max(shifted.size, 1))), math.inf
    shifted = shifted - shifted.max()
    n_tail = min(shifted.size // 5, math.ceil(3 * math.sqrt(shifted.size)))  # [1], algorithm 1
    order = np.argsort(shifted, kind="stable")
    tail = order[shifted.size - n_tail :]
    cutoff = max(float(shifted[order[shifted.size - n_tail - 1]]), math.log(np.finfo(float).tiny))
    excess = np.exp(shifted[tail]) - math.exp(cutoff)
    if -shifted.min() < 1e-9:
        k = 0.0
    elif n_tail < 5 or not excess[0] > 0:
        k = math.inf
    else:
        shape, scale = pareto_fit(excess[None])
        k = float(shape[0]) if np.isfinite(shape[0]) else math.inf
        if k < math.inf:
            quantiles = _pareto_quantiles((np.arange(n_tail) + 0.5) / n_tail, shape, scale)[0]
            shifted[tail] = np.minimum(np.log(math.exp(cutoff) + quantiles), 0.0)
    return shifted - np.logaddexp.reduce(shifted), k
