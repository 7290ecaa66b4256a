r"""The variational factor of a Dirichlet or Pitman-Yor process, with stick breaking truncated at K pieces.

The posterior of sticks, components, rows' components and α is approximated by a product [1]_: each v_k is
Beta(1 - σ + N_k, α̃ + k σ + Σ_{l>k} N_l) with N_k the expected rows of component k and α̃ = E α, components are as in
:mod:`bayeslab.posterior.mixtures.variational`, and α is Gamma(a + K - 1, b - Σ E log(1 - v)) where its prior is
Gamma(a, b). Components sorted by size fit the stick-breaking prior best [2]_. The lower bound never falls.

References
----------
.. [1] Blei, Jordan (2006). Variational inference for Dirichlet process mixtures. Bayesian Analysis 1, 121-144.
.. [2] Kurihara, Welling, Teh (2007). Collapsed variational Dirichlet process mixture models. IJCAI, 2796-2801.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import betaln, digamma, gammaln

from bayeslab.errors import OptionError
from bayeslab.latents.partitions.dirichlet_process import ENDS, ProcessPrior
from bayeslab.posterior.mixtures.variational_weights import WeightsFactor

__all__ = ["StickFactor"]


@dataclass(frozen=True, eq=False)
class StickFactor(WeightsFactor):
    """The variational factor of the pieces of a stick and of the concentration.

    Attributes
    ----------
    prior : ProcessPrior
    sticks : (ndarray (K - 1,), ndarray (K - 1,))
        Parameters of the Beta posteriors.
    alpha : (float, float) or float
        Shape and rate of α's Gamma posterior, or its value.
    """

    prior: ProcessPrior
    sticks: tuple[np.ndarray, np.ndarray]
    alpha: tuple[float, float] | float

    names = ("alpha", "sticks", "weights")

    @classmethod
    def of(cls, prior: ProcessPrior, n_components: int) -> StickFactor:
        """The factor at its prior.

        Raises
        ------
        OptionError
            There is both a discount and a prior of α, for which there is no closed form.
        """
        if prior.discount and isinstance(prior.alpha, tuple):
            raise OptionError(
                "with a discount the concentration has no closed form here; give a number", code="no-closed-form"
            )
        alpha = prior.alpha_prior if isinstance(prior.alpha, tuple) else prior.begin
        return cls(prior, _before(prior, _mean(alpha), n_components - 1), alpha)

    @cached_property
    def _logs(self) -> tuple[np.ndarray, np.ndarray]:
        """E log v and E log(1 - v)."""
        a, b = self.sticks
        both = digamma(a + b)
        return digamma(a) - both, digamma(b) - both

    @property
    def remainder(self) -> float:
        """Expected weight of the last component, the remainder of the stick."""
        a, b = self.sticks
        return float(np.prod(b / (a + b)))

    def arranged(self, responsibilities: np.ndarray) -> np.ndarray:
        """Components sorted by size, if that makes the sticks more probable."""
        counts = responsibilities.sum(axis=0)
        order = np.argsort(-counts, kind="stable")
        c, d = _before(self.prior, _mean(self.alpha), len(counts) - 1)

        def height(sizes: np.ndarray) -> float:
            return float(betaln(c + sizes[:-1], d + _above(sizes)).sum())

        return responsibilities[:, order] if height(counts[order]) > height(counts) else responsibilities

    def updated(self, responsibilities: np.ndarray, counts: np.ndarray) -> StickFactor:
        """The best sticks given α's factor, then α's factor given these, or the α that maximises the bound."""
        c, d = _before(self.prior, _mean(self.alpha), len(counts) - 1)
        after = replace(self, sticks=(c + counts[:-1], d + _above(counts)))
        return replace(after, alpha=after._best_alpha())

    def _best_alpha(self) -> tuple[float, float] | float:
        prior, alpha, log_left = self.prior, self.alpha, self._logs[1]
        if isinstance(prior.alpha, tuple):
            return prior.alpha[0] + len(log_left), prior.alpha[1] - float(log_left.sum())
        if prior.alpha != "empirical_bayes":
            return alpha

        def loss(log_alpha: float) -> float:
            c, d = _before(prior, np.exp(log_alpha), len(log_left))
            return float(-np.sum(d * log_left - betaln(c, d)))

        optimum = minimize_scalar(loss, bounds=tuple(np.log(ENDS)), method="bounded", options={"xatol": 1e-8})
        new = float(np.exp(optimum.x))
        # A bounded search that ends slightly worse than its start must not lower the bound.
        return new if loss(np.log(new)) < loss(np.log(_mean(alpha))) else alpha

    def expected_log(self) -> np.ndarray:
        log_v, log_left = self._logs
        return np.append(log_v, 0.0) + np.concatenate([[0.0], np.cumsum(log_left)])

    def divergence(self) -> float:
        (a, b), (log_v, log_left), alpha = self.sticks, self._logs, self.alpha
        c, d = _before(self.prior, _mean(alpha), len(log_v))
        value = np.sum((a - c) * log_v + (b - d) * log_left - betaln(a, b))
        if isinstance(alpha, float):
            return float(value + betaln(c, d).sum())
        # Without a discount log B(1, α) is - log α.
        shape, rate = alpha
        log_alpha = digamma(shape) - np.log(rate)
        before, slope = self.prior.alpha_prior
        value -= len(log_v) * log_alpha
        value += (shape - before) * digamma(shape) - gammaln(shape) + gammaln(before)
        value += before * (np.log(rate) - np.log(slope)) + shape * (slope - rate) / rate
        return float(value)

    def mean(self) -> dict[str, Any]:
        a, b = self.sticks
        return {"alpha": _mean(self.alpha)} | self._broken(a / (a + b))

    def draw(self, rng: np.random.Generator) -> dict[str, Any]:
        """α, the shares broken off the rest of the stick, and the weights."""
        alpha = self.alpha if isinstance(self.alpha, float) else rng.gamma(self.alpha[0]) / self.alpha[1]
        return {"alpha": float(alpha)} | self._broken(np.clip(rng.beta(*self.sticks), 1e-300, 1 - 1e-16))

    @staticmethod
    def _broken(v: np.ndarray) -> dict[str, Any]:
        """Shares broken off, and the weights that they give."""
        return {"sticks": v, "weights": np.append(v, 1.0) * np.concatenate([[1.0], np.cumprod(1 - v)])}

    def log_ratio(self, theta: Mapping[str, Any]) -> float:
        (a, b), v, alpha = self.sticks, theta["sticks"], theta["alpha"]
        c, d = _before(self.prior, alpha, len(v))
        value = float(np.sum((c - a) * np.log(v) + (d - b) * np.log1p(-v) + betaln(a, b) - betaln(c, d)))
        if not isinstance(self.alpha, float):
            value += _log_gamma(alpha, *self.prior.alpha_prior) - _log_gamma(alpha, *self.alpha)
        return value


def _before(prior: ProcessPrior, alpha: float, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Parameters of the sticks' priors."""
    return np.full(n, 1 - prior.discount), alpha + prior.discount * np.arange(1, n + 1)


def _mean(alpha: tuple[float, float] | float) -> float:
    return alpha if isinstance(alpha, float) else alpha[0] / alpha[1]


def _above(counts: np.ndarray) -> np.ndarray:
    """Expected number of rows of all later components, for all components but the last."""
    return np.cumsum(counts[::-1])[::-1][1:]


def _log_gamma(x: float, shape: float, rate: float) -> float:
    return float(shape * np.log(rate) - gammaln(shape) + (shape - 1) * np.log(x) - rate * x)
