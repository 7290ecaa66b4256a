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


def _gaussian(y: np.ndarray, mu: np.ndarray, a: Arrays, d: Arrays) -> np.ndarray:
    return -0.5 * ((y - mu) / a["sigma"]) ** 2 - np.log(a["sigma"]) - 0.5 * np.log(2 * np.pi)


def _student_t(y: np.ndarray, mu: np.ndarray, a: Arrays, d: Arrays) -> np.ndarray:
    nu, sigma = a["nu"], a["sigma"]
    constant = special.gammaln((nu + 1) / 2) - special.gammaln(nu / 2) - 0.5 * np.log(np.pi * nu) - np.log(sigma)
    return np.asarray(constant - (nu + 1) / 2 * np.log1p(((y - mu) / sigma) ** 2 / nu))


def _bernoulli(y: np.ndarray, mu: np.ndarray, a: Arrays, d: Arrays) -> np.ndarray:
    return np.asarray(special.xlogy(y, mu) + special.xlog1py(1 - y, -mu))


def _binomial(y: np.ndarray, mu: np.ndarray, a: Arrays, d: Arrays) -> np.ndarray:
    n = d["trials"]
    choose = special.gammaln(n + 1) - special.gammaln(y + 1) - special.gammaln(n - y + 1)
    return np.asarray(choose + special.xlogy(y, mu) + special.xlog1py(n - y, -mu))


def _categories(probability: np.ndarray, y: np.ndarray) -> np.ndarray:
    index = np.broadcast_to(y.astype(int), probability.shape[:-1])[..., None]
    with np.errstate(divide="ignore"):
        return np.log(np.take_along_axis(probability, index, axis=-1)[..., 0])


def _categorical(y: np.ndarray, mu: np.ndarray, a: Arrays, d: Arrays) -> np.ndarray:
    return _categories(mu, y)


def _draw_category(rng: np.random.Generator, mu: np.ndarray, a: Arrays, d: Arrays) -> np.ndarray:
    return (rng.random(mu.shape[:-1])[..., None] > np.cumsum(mu[..., :-1], axis=-1)).sum(axis=-1)


def _poisson(y: np.ndarray, mu: np.ndarray, a: Arrays, d: Arrays) -> np.ndarray:
    return np.asarray(special.xlogy(y, mu) - mu - special.gammaln(y + 1))


def _negative_binomial(y: np.ndarray, mu: np.ndarray, a: Arrays, d: Arrays) -> np.ndarray:
    alpha = a["alpha"]
    choose = special.gammaln(y + alpha) - special.gammaln(alpha) - special.gammaln(y + 1)
    return np.asarray(choose + special.xlogy(y, mu / (mu + alpha)) + alpha * np.log(alpha / (mu + alpha)))


def _beta(y: np.ndarray, mu: np.ndarray, a: Arrays, d: Arrays) -> np.ndarray:
    first, second = mu * a["phi"], (1 - mu) * a["phi"]
    return np.asarray(special.xlogy(first - 1, y) + special.xlog1py(second - 1, -y) - special.betaln(first, second))


def _gamma(y: np.ndarray, mu: np.ndarray, a: Arrays, d: Arrays) -> np.ndarray:
    shape = a["shape"]
    rate = shape / mu
    return np.asarray(special.xlogy(shape, rate) - special.gammaln(shape) + (shape - 1) * np.log(y) - rate * y)


LIKELIHOODS: dict[str, Likelihood] = {
    "gaussian": Likelihood(
        ("identity", "log"),
        "Normal({mu}, sigma)",
        {"sigma": "Exponential({rate})"},
        _gaussian,
        lambda rng, mu, a, d: rng.normal(mu, a["sigma"]),
        "numbers",
    ),
    "student_t": Likelihood(
        ("identity", "log"),
        "StudentT(nu, {mu}, sigma)",
        {"sigma": "Exponential({rate})", "nu": "Gamma(2, 0.1)"},
        _student_t,
        lambda rng, mu, a, d: mu + a["sigma"] * rng.standard_t(np.broadcast_to(a["nu"], mu.shape)),
        "numbers",
    ),
    "bernoulli": Likelihood(
        ("logit", "probit", "cloglog"),
        "Bernoulli({mu})",
        {},
        _bernoulli,
        lambda rng, mu, a, d: (rng.random(mu.shape) < mu).astype(np.int64),
        "0 or 1, or text of two levels",
        discrete=True,
        special={"logit": "Bernoulli(logit_p={eta})"},
    ),
    "binomial": Likelihood(
        ("logit", "probit", "cloglog"),
        "Binomial({trials}, {mu})",
        {},
        _binomial,
        lambda rng, mu, a, d: rng.binomial(np.broadcast_to(d["trials"].astype(int), mu.shape), mu),
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
        ("log",), "Poisson({mu})", {}, _poisson, lambda rng, mu, a, d: rng.poisson(mu), "counts", discrete=True
    ),
    "negative_binomial": Likelihood(
        ("log",),
        "NegativeBinomial({mu}, alpha)",
        {"alpha": "InverseGamma(0.4, 0.3)"},
        _negative_binomial,
        lambda rng, mu, a, d: rng.poisson(rng.gamma(np.broadcast_to(a["alpha"], mu.shape), mu / a["alpha"])),
        "counts",
        discrete=True,
    ),
    "beta": Likelihood(
        ("logit", "probit", "cloglog"),
        "Beta(mu={mu}, nu=phi)",
        {"phi": "InverseGamma(0.4, 0.3)"},
        _beta,
        lambda rng, mu, a, d: rng.beta(mu * a["phi"], (1 - mu) * a["phi"]),
        "numbers strictly between 0 and 1",
    ),
    "gamma": Likelihood(
        ("log",),
        "Gamma(shape, shape / {mu})",
        {"shape": "InverseGamma(0.4, 0.3)"},
        _gamma,
        lambda rng, mu, a, d: rng.gamma(np.broadcast_to(a["shape"], mu.shape), mu / a["shape"]),
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
