r"""Log density of proportions and topics, with the topics of words summed out, and its gradient, in one pass.

The Dirichlet rows :math:`\theta_d` and :math:`\phi_k` are independent gamma variables divided by their sum. The gamma
variables g have coordinates x whose scale is about one everywhere,

.. math:: \log g(x) = \tfrac{1}{a} \log \sigma(x) + 2 \log \log(1 + e^x) - \log 2,

which resembles the normal quantile transform of Gamma(a) in closed form: near zero g falls
off like a power with exponent 1/a, and for large g the coordinate grows like the square root of g.
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner, kernel

__all__ = ["coordinate", "density", "rows"]

_LOG_2 = math.log(2.0)


@inner
def _at(x, a):  # type: ignore[no-untyped-def]
    """log g, its first two derivatives, -log σ(x) and σ(-x)."""
    if x > 0:
        e = math.exp(-x)
        lower, upper, minus_log = e / (1 + e), 1 / (1 + e), math.log1p(e)
        root = x + minus_log
    else:
        e = math.exp(x)
        lower, upper, root = 1 / (1 + e), e / (1 + e), math.log1p(e)
        minus_log = root - x
    if x < -30:
        log_root, ratio, bend = x, 1.0, 0.0
    else:
        log_root, ratio = math.log(root), upper / root
        bend = ratio * (lower - ratio)
    value = -minus_log / a + 2 * log_root - _LOG_2
    return value, lower / a + 2 * ratio, -upper * lower / a + 2 * bend, minus_log, lower


@inner
def _digamma(a):  # type: ignore[no-untyped-def]
    """Recurrence up to 10, then the asymptotic series (Abramowitz and Stegun 1964, 6.3.18)."""
    out = 0.0
    while a < 10:
        out -= 1 / a
        a += 1
    s = 1 / (a * a)
    return out + math.log(a) - 0.5 / a - s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s / 132))))


@kernel
def rows(x, a):  # type: ignore[no-untyped-def]
    """Rows that sum to 1, from coordinates (n, m) and concentrations (m,)."""
    out = np.empty(x.shape)
    for i in range(x.shape[0]):
        most = -np.inf
        for j in range(x.shape[1]):
            out[i, j] = _at(x[i, j], a[j])[0]
            most = max(most, out[i, j])
        total = 0.0
        for j in range(x.shape[1]):
            out[i, j] = math.exp(out[i, j] - most)
            total += out[i, j]
        out[i] /= total
    return out


@kernel
def coordinate(log_g, a):  # type: ignore[no-untyped-def]
    """The coordinate x for a given log g, by bisection."""
    low, high = -700.0, 700.0
    for _ in range(100):
        middle = (low + high) / 2
        if _at(middle, a)[0] > log_g:
            high = middle
        else:
            low = middle
    return (low + high) / 2


@inner
def _prior(x, a, p, by_p, by_x, by_a):  # type: ignore[no-untyped-def]
    """Log density of coordinates; its gradients are added, and those of a function of p with gradient ``by_p``."""
    total = 0.0
    for j in range(x.shape[1]):
        total -= x.shape[0] * math.lgamma(a[j])
        by_a[j] -= x.shape[0] * _digamma(a[j])
    for i in range(x.shape[0]):
        inner = 0.0
        for j in range(x.shape[1]):
            inner += p[i, j] * by_p[i, j]
        for j in range(x.shape[1]):
            value, slope, bend, minus_log, lower = _at(x[i, j], a[j])
            g = math.exp(value)
            total += a[j] * value - g + math.log(slope)
            by_log = p[i, j] * (by_p[i, j] - inner) + a[j] - g
            by_x[i, j] += by_log * slope + bend / slope
            by_a[j] += value + (by_log * minus_log - lower / slope) / (a[j] * a[j])
    return total


@kernel
def density(parameters, sizes, documents, words, counts):  # type: ignore[no-untyped-def]
    """Log density, including log p(words | θ, φ), and its gradient.

    Parameters
    ----------
    parameters : float64
        Coordinates of θ (n_documents, n_topics), of φ (n_topics, n_words), then α (n_topics,) and β.
    sizes : int64 (3,)
        Numbers of documents, topics and words.
    documents, words, counts : int64
        Pairs of document and word, and the count of each.
    """
    d, k, v = sizes[0], sizes[1], sizes[2]
    gradient = np.zeros(len(parameters))
    x_theta, x_phi = parameters[: d * k].reshape(d, k), parameters[d * k : d * k + k * v].reshape(k, v)
    by_x_theta, by_x_phi = gradient[: d * k].reshape(d, k), gradient[d * k : d * k + k * v].reshape(k, v)
    alpha, by_alpha = parameters[d * k + k * v : -1], gradient[d * k + k * v : -1]
    beta, by_beta = np.full(v, parameters[-1]), np.zeros(v)
    theta, phi = rows(x_theta, alpha), rows(x_phi, beta)
    by_theta, by_phi = np.zeros((d, k)), np.zeros((k, v))
    total = 0.0
    for i in range(len(documents)):
        document, w = documents[i], words[i]
        chance = 0.0
        for j in range(k):
            chance += theta[document, j] * phi[j, w]
        total += counts[i] * math.log(chance)
        share = counts[i] / chance
        for j in range(k):
            by_theta[document, j] += share * phi[j, w]
            by_phi[j, w] += share * theta[document, j]
    total += _prior(x_theta, alpha, theta, by_theta, by_x_theta, by_alpha)
    total += _prior(x_phi, beta, phi, by_phi, by_x_phi, by_beta)
    gradient[-1] = by_beta.sum()
    return total, gradient
