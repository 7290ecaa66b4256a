"""Parts of densities of data that depend on parameters, where the rest depends on the data alone.

log Γ(x + 1) of observed counts is a constant. Of the negative binomial, log Γ(x + alpha) - log Γ(alpha) is needed once
for each distinct count. Of normal rows with equal parameters, only their number, mean and squares are needed.
"""

from __future__ import annotations

from collections.abc import Callable

from bayeslab.distributions.toolbox.special import exp, gamma_ratio, log, log1p, sigmoid, softplus

__all__ = ["CORES"]


def _poisson(x: float, mu: float) -> tuple[float, ...]:
    if not mu >= 0.0 or (mu == 0.0 and x > 0.0):
        return log(0.0), 0.0, 0.0
    if x == 0.0:
        return -mu, 0.0, -1.0
    return x * log(mu) - mu, 0.0, x / mu - 1.0


def _poisson_log(x: float, log_mu: float) -> tuple[float, ...]:
    mu = exp(log_mu)
    return x * log_mu - mu, 0.0, x - mu


def _binomial_logit(x: float, n: float, logit_p: float) -> tuple[float, ...]:
    value = -x * softplus(-logit_p) - (n - x) * softplus(logit_p)
    return value, 0.0, 0.0, x * sigmoid(-logit_p) - (n - x) * sigmoid(logit_p)


def _negative_binomial(x: float, mu: float, alpha: float) -> tuple[float, ...]:
    decay = log1p(mu / alpha)
    excess = (x - mu) / (mu + alpha)
    value = -alpha * decay - (x * log1p(alpha / mu) if x > 0.0 else 0.0)
    return value, 0.0, (alpha * excess / mu if x > 0.0 else -alpha / (mu + alpha)), -decay - excess


def _negative_binomial_log(x: float, log_mu: float, alpha: float) -> tuple[float, ...]:
    log_alpha = log(alpha)
    odds = log_mu - log_alpha
    decay = softplus(odds)
    p = sigmoid(odds)
    by_log_mu = x - (x + alpha) * p
    return x * (odds - decay) - alpha * decay, 0.0, by_log_mu, -decay - by_log_mu / alpha


def _rising(x: float, weight: float, alpha: float) -> tuple[float, ...]:
    """``weight`` times log Γ(x + alpha) - log Γ(alpha)."""
    if not alpha > 0.0:
        return log(0.0), 0.0, 0.0, 0.0
    value, by_alpha, _ = gamma_ratio(alpha, x)
    return weight * value, 0.0, 0.0, weight * by_alpha


_LOG_2_PI = 1.8378770664093453


def _normal_sums(mean: float, count: float, squares: float, mu: float, sigma: float) -> tuple[float, ...]:
    """The log density of ``count`` numbers, from their mean and their sum of squares about it."""
    if not sigma > 0.0:
        return log(0.0), 0.0, 0.0, 0.0, 0.0, 0.0
    scale = 1.0 / sigma
    z = (mean - mu) * scale
    chi = squares * scale * scale + count * z * z
    value = -0.5 * chi - count * (log(sigma) + 0.5 * _LOG_2_PI)
    return value, 0.0, 0.0, 0.0, count * z * scale, (chi - count) * scale


CORES: dict[str, Callable[..., tuple[float, ...]]] = {
    "poisson.core": _poisson,
    "poisson.log_core": _poisson_log,
    "binomial.logit_core": _binomial_logit,
    "negative_binomial.core": _negative_binomial,
    "negative_binomial.log_core": _negative_binomial_log,
    "rising": _rising,
    "normal.sums": _normal_sums,
}
