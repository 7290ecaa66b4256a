"""Likelihoods of a regression: each written once in the model language and once on arrays.

The words build the graph; the arrays give pointwise log likelihoods and predictive draws without
compiling anything. That the two agree is tested for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from bayeslab.distributions import bernoulli, beta, binomial, gamma, negative_binomial, normal, poisson, student_t

__all__ = ["INVERSE_LINKS", "LIKELIHOODS", "Likelihood", "inverse_link"]

type Arrays = Mapping[str, np.ndarray]

# In the model language; on arrays see inverse_link.
INVERSE_LINKS = {
    "identity": "{eta}",
    "log": "exp({eta})",
    "logit": "sigmoid({eta})",
    "probit": "Phi({eta})",
    "cloglog": "1 - exp(-exp({eta}))",
}


def inverse_link(link: str, eta: np.ndarray) -> np.ndarray:
    """Means of linear predictors."""
    match link:
        case "log":
            return np.exp(eta)
        case "logit":
            return np.asarray(special.expit(eta))
        case "probit":
            return np.asarray(special.ndtr(eta))
        case "cloglog":
            return -np.expm1(-np.exp(eta))
        case _:
            return eta


@dataclass(frozen=True, slots=True)
class Likelihood:
    """A distribution of the response given its linear predictor.

    Attributes
    ----------
    links : tuple of str
        The first is the default.
    text : str
        The distribution in the model language: ``{mu}`` the mean, ``{eta}`` the linear predictor.
    auxiliary : dict of str to str
        Further parameters and their default priors; ``{sd}`` stands for the sd of the response.
    log_density : callable
        (y, mean, auxiliary parameters, data) to log densities; draws lead, rows trail.
    draw : callable
        (rng, mean, auxiliary parameters, data) to replications.
    support : str
        What the response must be.
    """

    links: tuple[str, ...]
    text: str
    auxiliary: dict[str, str]
    log_density: Callable[[np.ndarray, np.ndarray, Arrays, Arrays], np.ndarray]
    draw: Callable[[np.random.Generator, np.ndarray, Arrays, Arrays], np.ndarray]
    support: str
    discrete: bool = False
    special: dict[str, str] | None = None


def _categories(probability: np.ndarray, y: np.ndarray) -> np.ndarray:
    index = np.broadcast_to(y.astype(int), probability.shape[:-1])[..., None]
    with np.errstate(divide="ignore"):
        return np.log(np.take_along_axis(probability, index, axis=-1)[..., 0])


def _categorical(y: np.ndarray, mu: np.ndarray, a: Arrays, d: Arrays) -> np.ndarray:
    return _categories(mu, y)


def _draw_category(rng: np.random.Generator, mu: np.ndarray, a: Arrays, d: Arrays) -> np.ndarray:
    return (rng.random(mu.shape[:-1])[..., None] > np.cumsum(mu[..., :-1], axis=-1)).sum(axis=-1)


LIKELIHOODS: dict[str, Likelihood] = {
    "gaussian": Likelihood(
        ("identity", "log"),
        "Normal({mu}, sigma)",
        {"sigma": "Exponential({rate})"},
        lambda y, mu, a, d: normal.log_density(y, mu, a["sigma"]),
        lambda rng, mu, a, d: normal.draw(rng, mu.shape, mu, a["sigma"]),
        "numbers",
    ),
    "student_t": Likelihood(
        ("identity", "log"),
        "StudentT(nu, {mu}, sigma)",
        {"sigma": "Exponential({rate})", "nu": "Gamma(2, 0.1)"},
        lambda y, mu, a, d: student_t.log_density(y, a["nu"], mu, a["sigma"]),
        lambda rng, mu, a, d: student_t.draw(rng, mu.shape, a["nu"], mu, a["sigma"]),
        "numbers",
    ),
    "bernoulli": Likelihood(
        ("logit", "probit", "cloglog"),
        "Bernoulli({mu})",
        {},
        lambda y, mu, a, d: bernoulli.log_density(y, mu),
        lambda rng, mu, a, d: bernoulli.draw(rng, mu.shape, mu),
        "0 or 1, or text of two levels",
        discrete=True,
        special={"logit": "Bernoulli(logit_p={eta})"},
    ),
    "binomial": Likelihood(
        ("logit", "probit", "cloglog"),
        "Binomial({trials}, {mu})",
        {},
        lambda y, mu, a, d: binomial.log_density(y, d["trials"], mu),
        lambda rng, mu, a, d: binomial.draw(rng, mu.shape, d["trials"], mu),
        "counts between 0 and the number of trials",
        discrete=True,
        special={"logit": "Binomial({trials}, logit_p={eta})"},
    ),
    "categorical": Likelihood(
        ("logit",),
        "Categorical(logit_p={eta})",
        {},
        _categorical,
        _draw_category,
        "text or whole numbers",
        discrete=True,
    ),
    "ordered": Likelihood(
        ("logit", "probit"),
        "OrderedLogistic({eta}, cutpoints)",
        {},
        _categorical,
        _draw_category,
        "text or whole numbers",
        discrete=True,
        special={"probit": "OrderedProbit({eta}, cutpoints)"},
    ),
    "poisson": Likelihood(
        ("log",),
        "Poisson({mu})",
        {},
        lambda y, mu, a, d: poisson.log_density(y, mu),
        lambda rng, mu, a, d: poisson.draw(rng, mu.shape, mu),
        "counts",
        discrete=True,
    ),
    "negative_binomial": Likelihood(
        ("log",),
        "NegativeBinomial({mu}, alpha)",
        {"alpha": "InverseGamma(0.4, 0.3)"},
        lambda y, mu, a, d: negative_binomial.log_density(y, mu, a["alpha"]),
        lambda rng, mu, a, d: negative_binomial.draw(rng, mu.shape, mu, a["alpha"]),
        "counts",
        discrete=True,
    ),
    "beta": Likelihood(
        ("logit", "probit", "cloglog"),
        "Beta(mu={mu}, nu=phi)",
        {"phi": "InverseGamma(0.4, 0.3)"},
        lambda y, mu, a, d: beta.log_density(y, mu * a["phi"], (1 - mu) * a["phi"]),
        lambda rng, mu, a, d: beta.draw(rng, mu.shape, mu * a["phi"], (1 - mu) * a["phi"]),
        "numbers strictly between 0 and 1",
    ),
    "gamma": Likelihood(
        ("log",),
        "Gamma(shape, shape / {mu})",
        {"shape": "InverseGamma(0.4, 0.3)"},
        lambda y, mu, a, d: gamma.log_density(y, a["shape"], a["shape"] / mu),
        lambda rng, mu, a, d: gamma.draw(rng, mu.shape, a["shape"], a["shape"] / mu),
        "positive numbers",
    ),
}


def category_probabilities(likelihood: str, link: str, eta: np.ndarray, cutpoints: Any = None) -> np.ndarray:
    """Probabilities of the categories, on a new last axis (for ``categorical`` eta has it already)."""
    if likelihood == "categorical":
        return np.asarray(special.softmax(eta, axis=-1))
    inner = cutpoints[..., None, :] - eta[..., None]
    ends = np.full((*inner.shape[:-1], 1), np.inf)
    low, high = np.concatenate([-ends, inner], axis=-1), np.concatenate([inner, ends], axis=-1)
    # Both links are symmetric: a difference far out on the right is taken on the left, where digits are.
    flip = low > 0
    first, second = np.where(flip, -high, low), np.where(flip, -low, high)
    return inverse_link(link, second) - inverse_link(link, first)
