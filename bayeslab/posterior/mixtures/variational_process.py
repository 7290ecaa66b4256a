r"""Coordinate ascent for mixtures of a Dirichlet or Pitman-Yor process, with stick breaking truncated at K pieces.

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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import betaln, digamma, gammaln

from bayeslab.distributions.emissions import Statistics
from bayeslab.distributions.emissions.components import normalise
from bayeslab.errors import OptionError
from bayeslab.latents.partitions.dirichlet_process import ENDS, ProcessPrior
from bayeslab.posterior.mixtures.problem import MixtureProblem

__all__ = ["StickFit", "climb_sticks"]


@dataclass(frozen=True, eq=False)
class StickFit:
    """A variational posterior of a truncated process.

    Attributes
    ----------
    problem : MixtureProblem
    prior : ProcessPrior
    sticks : (ndarray (K - 1,), ndarray (K - 1,))
        Parameters of the Beta posteriors.
    alpha : (float, float) or float
        Shape and rate of α's Gamma posterior, or its value.
    statistics : dict
    responsibilities : ndarray (N, K)
    trace : ndarray
        The bound by iteration.
    converged : bool
    """

    problem: MixtureProblem
    prior: ProcessPrior
    sticks: tuple[np.ndarray, np.ndarray]
    alpha: tuple[float, float] | float
    statistics: Statistics
    responsibilities: np.ndarray
    trace: np.ndarray
    converged: bool

    @property
    def counts(self) -> np.ndarray:
        """Expected number of rows of each component, shape (K,)."""
        return np.asarray(self.responsibilities.sum(axis=0))

    @property
    def remainder(self) -> float:
        """Expected weight of the last component, the remainder of the stick."""
        a, b = self.sticks
        return float(np.prod(b / (a + b)))

    def draw(self, rng: np.random.Generator) -> dict[str, Any]:
        """α, weights and parameters of components."""
        alpha = self.alpha if isinstance(self.alpha, float) else rng.gamma(self.alpha[0]) / self.alpha[1]
        v = np.clip(rng.beta(*self.sticks), 1e-300, 1 - 1e-16)
        left = np.concatenate([[1.0], np.cumprod(1 - v)])
        weights = np.append(v, 1.0) * left
        parameters = self.problem.emission.draw(rng, self.statistics)
        return {"alpha": float(alpha), "sticks": v, "weights": weights, **parameters}

    def log_ratio(self, theta: Mapping[str, Any]) -> float:
        """log p(rows, θ) - log q(θ) with the rows' components summed out."""
        problem = self.problem
        parameters = {name: value for name, value in theta.items() if name not in ("weights", "alpha", "sticks")}
        log_density = problem.emission.log_density(parameters, problem.rows)
        evidence, _ = normalise(np.log(np.maximum(theta["weights"], 1e-300)), log_density)
        value = float(evidence.sum()) - float(np.sum(self.responsibilities * log_density))
        value += float(problem.emission.log_base(problem.rows).sum())
        value += float(problem.emission.log_marginal(self.statistics).sum())
        (a, b), v, alpha = self.sticks, theta["sticks"], theta["alpha"]
        c, d = _before(self.prior, alpha, len(v))
        value += float(np.sum((c - a) * np.log(v) + (d - b) * np.log1p(-v) + betaln(a, b) - betaln(c, d)))
        if not isinstance(self.alpha, float):
            value += _log_gamma(alpha, *self.prior.gamma) - _log_gamma(alpha, *self.alpha)
        return value


def _before(prior: ProcessPrior, alpha: float, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Parameters of the sticks' priors."""
    return np.full(n, 1 - prior.discount), alpha + prior.discount * np.arange(1, n + 1)


def _log_gamma(x: float, shape: float, rate: float) -> float:
    return float(shape * np.log(rate) - gammaln(shape) + (shape - 1) * np.log(x) - rate * x)


def _above(counts: np.ndarray) -> np.ndarray:
    """Expected number of rows of all later components, for all components but the last."""
    return np.cumsum(counts[::-1])[::-1][1:]


def climb_sticks(
    problem: MixtureProblem,
    prior: ProcessPrior,
    responsibilities: np.ndarray,
    *,
    tolerance: float = 1e-6,
    max_iterations: int = 2000,
    progress: Callable[[int, float], None] | None = None,
) -> StickFit:
    """One search, from a guess of the rows' components (N, K), of a problem whose components have conjugate priors.

    Raises
    ------
    OptionError
        There is both a discount and a prior of α, for which there is no closed form.
    """
    if prior.discount and isinstance(prior.alpha, tuple):
        raise OptionError(
            "with a discount the concentration has no closed form here; give a number", code="no-closed-form"
        )
    emission, base = problem.emission, float(problem.emission.log_base(problem.rows).sum())
    alpha: tuple[float, float] | float = prior.gamma if isinstance(prior.alpha, tuple) else prior.begin
    trace: list[float] = []
    converged, better = False, responsibilities
    for iteration in range(max_iterations):
        responsibilities = _sorted(better, prior, _mean(alpha))
        counts = responsibilities.sum(axis=0)
        c, d = _before(prior, _mean(alpha), problem.n_components - 1)
        sticks = c + counts[:-1], d + _above(counts)
        log_v, log_left = _expected(*sticks)
        alpha = _updated(prior, alpha, log_left)
        statistics = problem.statistics(responsibilities)
        expected = emission.expected_log_density(statistics, problem.rows)
        divergence = float(np.sum(responsibilities * expected)) - base - float(emission.log_marginal(statistics).sum())
        divergence += _divergence(prior, sticks, alpha, log_v, log_left)
        log_weights = np.append(log_v, 0.0) + np.concatenate([[0.0], np.cumsum(log_left)])
        evidence, better = normalise(log_weights, expected)
        trace.append(float(evidence.sum()) - divergence)
        if progress is not None:
            progress(iteration + 1, trace[-1])
        if len(trace) > 2 and trace[-1] - trace[-2] < tolerance:
            converged = True
            break
    return StickFit(problem, prior, sticks, alpha, statistics, responsibilities, np.array(trace), converged)


def _mean(alpha: tuple[float, float] | float) -> float:
    return alpha if isinstance(alpha, float) else alpha[0] / alpha[1]


def _expected(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E log v and E log(1 - v)."""
    both = digamma(a + b)
    return digamma(a) - both, digamma(b) - both


def _sorted(responsibilities: np.ndarray, prior: ProcessPrior, alpha: float) -> np.ndarray:
    """Components sorted by size, if that makes the sticks more probable."""
    counts = responsibilities.sum(axis=0)
    order = np.argsort(-counts, kind="stable")
    c, d = _before(prior, alpha, len(counts) - 1)

    def height(sizes: np.ndarray) -> float:
        return float(betaln(c + sizes[:-1], d + _above(sizes)).sum())

    return responsibilities[:, order] if height(counts[order]) > height(counts) else responsibilities


def _updated(
    prior: ProcessPrior, alpha: tuple[float, float] | float, log_left: np.ndarray
) -> tuple[float, float] | float:
    """α's factor given the sticks' factors, or the α that maximises the bound."""
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


def _divergence(
    prior: ProcessPrior,
    sticks: tuple[np.ndarray, np.ndarray],
    alpha: tuple[float, float] | float,
    log_v: np.ndarray,
    log_left: np.ndarray,
) -> float:
    """Kullback-Leibler divergence of sticks and α from their priors."""
    a, b = sticks
    c, d = _before(prior, _mean(alpha), len(log_v))
    value = np.sum((a - c) * log_v + (b - d) * log_left - betaln(a, b))
    if isinstance(alpha, float):
        return float(value + betaln(c, d).sum())
    # Without a discount log B(1, α) is - log α.
    shape, rate = alpha
    log_alpha = digamma(shape) - np.log(rate)
    before, slope = prior.gamma
    value -= len(log_v) * log_alpha
    value += (shape - before) * digamma(shape) - gammaln(shape) + gammaln(before)
    value += before * (np.log(rate) - np.log(slope)) + shape * (slope - rate) / rate
    return float(value)
