r"""Posterior draws of Dirichlet concentrations, given the topics of the words.

Each concentration has a gamma prior. Given the counts :math:`n_{dk}` of topics in documents,

.. math:: p(\alpha_k \mid n) \propto p(\alpha_k) \prod_d \frac{\Gamma(A)}{\Gamma(A + N_d)}
   \frac{\Gamma(\alpha_k + n_{dk})}{\Gamma(\alpha_k)}, \qquad A = \textstyle\sum_k \alpha_k,

and likewise for the concentration of words in topics. The logarithms of concentrations are drawn by slice sampling
[1]_. Unequal :math:`\alpha_k` allow common and rare topics [2]_.

References
----------
.. [1] Neal (2003). Slice sampling. Annals of Statistics 31, 705-767; stepping out and shrinkage.
.. [2] Wallach, Mimno, McCallum (2009). Rethinking LDA: why priors matter. NIPS 22.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

__all__ = ["ALPHA_PRIOR", "BETA_PRIOR", "GammaPrior", "draw_alpha", "draw_beta", "slice_sample"]

_MOST_STEPS = 50


@dataclass(frozen=True, slots=True)
class GammaPrior:
    """A gamma distribution, given by its shape and mean."""

    shape: float
    mean: float

    @property
    def rate(self) -> float:
        return self.shape / self.mean

    def log_density_of_log(self, log_value: float) -> float:
        """Log density of the logarithm, up to a constant."""
        return self.shape * log_value - self.rate * math.exp(log_value)


# Exponential priors: with mean 1 for the sum over topics (each topic has an equal share), with mean 0.1 for a word.
ALPHA_PRIOR = GammaPrior(1.0, 1.0)
BETA_PRIOR = GammaPrior(1.0, 0.1)


def slice_sample(
    log_density: Callable[[float], float], at: float, rng: np.random.Generator, *, width: float = 1.0
) -> float:
    """One slice sampling step from ``at``; it leaves the density invariant [1]_."""
    height = log_density(at) - rng.exponential()
    low = at - width * rng.random()
    high = low + width
    for _ in range(_MOST_STEPS):
        if log_density(low) <= height:
            break
        low -= width
    for _ in range(_MOST_STEPS):
        if log_density(high) <= height:
            break
        high += width
    while True:
        point = rng.uniform(low, high)
        if log_density(point) > height:
            return float(point)
        if point < at:
            low = point
        else:
            high = point
        if high - low < 1e-12:
            return at


def _histogram(counts: NDArray[np.integer]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The distinct positive counts and their frequencies."""
    many = np.bincount(counts[counts > 0]) if counts.size else np.zeros(1, np.int64)
    distinct = np.flatnonzero(many)
    return distinct.astype(float), many[distinct].astype(float)


def draw_alpha(
    alpha: NDArray[np.float64], by_document: NDArray[np.integer], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw the concentrations of topics one after another, given the counts ``by_document`` (n_documents, n_topics)."""
    out = alpha.copy()
    prior = GammaPrior(ALPHA_PRIOR.shape, ALPHA_PRIOR.mean / len(alpha))
    lengths, n_lengths = _histogram(by_document.sum(axis=1))
    for k in range(len(out)):
        values, many = _histogram(by_document[:, k])
        others = out.sum() - out[k]

        def log_density(
            log_value: float,
            values: NDArray[np.float64] = values,
            many: NDArray[np.float64] = many,
            others: float = others,
        ) -> float:
            value = math.exp(min(log_value, 700.0))
            log_numerator = many @ gammaln(values + value) - many.sum() * gammaln(value)
            whole = n_lengths @ gammaln(lengths + value + others) - n_lengths.sum() * gammaln(value + others)
            return float(log_numerator - whole) + prior.log_density_of_log(min(log_value, 700.0))

        out[k] = math.exp(slice_sample(log_density, math.log(out[k]), rng))
    return out


def draw_beta(beta: float, by_word: NDArray[np.integer], rng: np.random.Generator) -> float:
    """Draw the concentration of words in topics, given the counts ``by_word`` (n_words, n_topics)."""
    n_words = len(by_word)
    values, many = _histogram(by_word.ravel())
    sizes, n_sizes = _histogram(by_word.sum(axis=0))

    def log_density(log_value: float) -> float:
        value = math.exp(min(log_value, 700.0))
        log_numerator = many @ gammaln(values + value) - many.sum() * gammaln(value)
        whole = n_sizes @ gammaln(sizes + n_words * value) - n_sizes.sum() * gammaln(n_words * value)
        return float(log_numerator - whole) + BETA_PRIOR.log_density_of_log(min(log_value, 700.0))

    return math.exp(slice_sample(log_density, math.log(beta), rng))
