"""Variational EM for mixtures with conjugate components: a posterior, and a bound on the evidence.

The joint posterior of parameters and components is approximated by a product, q(z) q(θ). Each factor
in turn is set to its optimum given the other: responsibilities from *expected* log densities, and
conjugate posteriors from responsibilities [1]_. The evidence lower bound (ELBO) never decreases and
is at most the log evidence; superfluous components lose their rows.

As there are K! labellings of equal posterior mass, and q covers one of them, ELBO + log K! is the
usual estimate of the log evidence of K components [1]_.

A gate on inputs has no conjugate prior. Its coefficients get a normal q, by Böhning's bound [2]_:
log Σ exp lies below a quadratic with the curvature A = (I - 11'/K) / 2 for every point of tangency.
So the covariance of q is constant, and the ELBO is still monotone and a lower bound. With regressions
as components this is a Bayesian mixture of experts [3]_.

References
----------
.. [1] Bishop (2006). Pattern Recognition and Machine Learning, section 10.2.
.. [2] Böhning (1992). Multinomial logistic regression algorithm. Annals of the Institute of Statistical
   Mathematics 44, 197-200.
.. [3] Waterhouse, MacKay, Robinson (1996). Bayesian methods for mixtures of experts. NIPS 8, 351-357.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln

from bayeslab.distributions.emissions import ConjugateEmission, Statistics
from bayeslab.distributions.emissions.components import normalise
from bayeslab.distributions.toolbox.logarithms import log_sum
from bayeslab.errors import OptionError
from bayeslab.posterior.mixtures.problem import MixtureProblem
from bayeslab.posterior.mixtures.starts import Start, starting_labels

__all__ = ["VariationalFit", "climb", "fit_variational", "prepared"]


@dataclass(frozen=True, eq=False)
class _Gate:
    """A normal posterior of the gate's free coefficients, (K - 1, q), and the point of tangency of its bound."""

    mean: np.ndarray
    covariance: np.ndarray
    point: np.ndarray

    @classmethod
    def prior(cls, inputs: np.ndarray, weights: np.ndarray, n_components: int, precision: float) -> _Gate:
        m, q = n_components - 1, inputs.shape[1]
        gram = (inputs * weights[:, None]).T @ inputs
        inverse = np.kron(_curvature(n_components), gram) + precision * np.eye(m * q)
        return cls(np.zeros((m, q)), np.linalg.inv(inverse), np.zeros((len(inputs), m)))

    def update(self, inputs: np.ndarray, weights: np.ndarray, responsibilities: np.ndarray) -> _Gate:
        """The optimal normal posterior for these responsibilities, then the optimal point of tangency."""
        n_components = responsibilities.shape[1]
        slope = np.exp(self.point - _log_total(self.point)[:, None])
        target = responsibilities[:, 1:] - slope + self.point @ _curvature(n_components)
        mean = (self.covariance @ ((target * weights[:, None]).T @ inputs).ravel()).reshape(self.mean.shape)
        return replace(self, mean=mean, point=inputs @ mean.T)

    def expected_log(self, inputs: np.ndarray) -> np.ndarray:
        """A lower bound of E log w, (N, K)."""
        m, q = self.mean.shape
        blocks = self.covariance.reshape(m, q, m, q)
        spread = np.einsum("ij,iajb->ab", _curvature(m + 1), blocks)
        slack = 0.5 * np.einsum("na,ab,nb->n", inputs, spread, inputs, optimize=True)
        eta = np.column_stack([np.zeros(len(inputs)), inputs @ self.mean.T])
        return eta - (_log_total(eta[:, 1:]) + slack)[:, None]

    def coefficients(self, free: np.ndarray | None = None) -> np.ndarray:
        """Coefficients (K, q) from the mean or from ``free`` ones, with zeros for the first component."""
        free = self.mean if free is None else free
        return np.vstack([np.zeros((1, free.shape[1])), free])

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        lower = np.linalg.cholesky(self.covariance)
        return self.coefficients(self.mean + (lower @ rng.standard_normal(self.mean.size)).reshape(self.mean.shape))

    def log_ratio(self, coefficients: np.ndarray, precision: float) -> float:
        """Log density of the prior minus that of this posterior."""
        free = coefficients[1:].ravel()
        apart = free - self.mean.ravel()
        squares = precision * free @ free - apart @ np.linalg.solve(self.covariance, apart)
        return float(0.5 * (free.size * np.log(precision) + np.linalg.slogdet(self.covariance)[1] - squares))

    def divergence(self, precision: float) -> float:
        """Kullback-Leibler divergence from the prior."""
        size = self.mean.size
        inside = precision * (np.trace(self.covariance) + np.sum(self.mean**2)) - size - size * np.log(precision)
        return float(0.5 * (inside - np.linalg.slogdet(self.covariance)[1]))


def _curvature(n_components: int) -> np.ndarray:
    m = n_components - 1
    return 0.5 * (np.eye(m) - 1.0 / n_components)


def _log_total(eta: np.ndarray) -> np.ndarray:
    """log(1 + Σ exp)."""
    return np.logaddexp(0.0, log_sum(eta, axis=1)) if eta.shape[1] else np.zeros(len(eta))


@dataclass(frozen=True, eq=False)
class VariationalFit:
    """A variational posterior.

    Attributes
    ----------
    problem : MixtureProblem
    concentration : ndarray (K,)
        Concentration of the Dirichlet posterior of the weights, if there is no gate.
    statistics : dict
        Expected sufficient statistics; the emission's ``draw`` and ``expected_log_density`` use them.
    responsibilities : ndarray (N, K)
        The responsibilities from which the posterior of the parameters was computed.
    trace : ndarray
        ELBO by iteration.
    converged : bool
    """

    problem: MixtureProblem
    concentration: np.ndarray
    statistics: Statistics
    responsibilities: np.ndarray
    trace: np.ndarray
    converged: bool
    gate: _Gate | None = None

    @property
    def elbo(self) -> float:
        return float(self.trace[-1])

    @property
    def labels(self) -> np.ndarray:
        return self.responsibilities.argmax(axis=1)

    @property
    def log_evidence(self) -> float:
        """ELBO + log K!, the estimate of the log evidence."""
        return self.elbo + float(gammaln(self.problem.n_components + 1))

    @property
    def counts(self) -> np.ndarray:
        """Expected number of rows of each component, shape (K,)."""
        return np.asarray(self.statistics["weights"])

    def mode(self) -> dict[str, Any]:
        """Parameters at their mode given the responsibilities, with weights at their mean."""
        parameters = dict(self.problem.emission.maximise(self.statistics))
        if self.gate is not None:
            return {"gate": self.gate.coefficients(), **parameters}
        return {"weights": self.concentration / self.concentration.sum(), **parameters}

    def draw(self, rng: np.random.Generator) -> dict[str, Any]:
        """Parameters from the variational posterior."""
        parameters = self.problem.emission.draw(rng, self.statistics)
        if self.gate is not None:
            return {"gate": self.gate.draw(rng), **parameters}
        return {"weights": rng.dirichlet(self.concentration), **parameters}

    def log_ratio(self, theta: Mapping[str, Any]) -> float:
        """log p(rows, θ) - log q(θ) with the components summed out: the log importance ratio of a draw.

        By Bayes' rule q(θ) is the prior times the likelihood of the rows weighted by the responsibilities, divided by
        the corresponding evidence; so the prior cancels.
        """
        problem = self.problem
        log_density = problem.log_density(theta)
        log_weights = problem.latent.log_weights(theta)
        evidence, _ = normalise(log_weights, log_density)
        weights = _row_weights(problem)
        held = self.responsibilities * weights[:, None]
        share = float(np.sum(held * log_density))
        value = float(weights @ evidence) - share + float(weights @ problem.emission.log_base(problem.rows))
        value += float(problem.emission.log_marginal(self.statistics).sum())
        if self.gate is not None:
            return value + self.gate.log_ratio(theta["gate"], problem.latent.gate_precision)
        before = self.concentration - self.counts
        value += _log_normaliser(self.concentration) - _log_normaliser(before)
        return value - float(self.counts @ np.log(np.maximum(theta["weights"], 1e-300)))


def prepared(problem: MixtureProblem) -> MixtureProblem:
    """The problem with the priors that a posterior needs.

    An emission without a prior gets its weak one; ``gate_precision`` is the gate's (at least 0.01 here: the bound
    needs a proper prior).

    Raises
    ------
    OptionError, DataError
        There is no conjugate prior, or the data cannot be fitted.
    """
    if not isinstance(problem.emission, ConjugateEmission):
        raise OptionError(
            f"{type(problem.emission).__name__} has no conjugate prior; use method: map", code="not-conjugate"
        )
    if problem.latent.fixed_weights is not None:
        raise OptionError("fixed weights have no posterior; use method: em or map", code="not-applicable")
    problem = problem.with_weak_prior()
    if problem.latent.inputs is not None:
        precision = max(problem.latent.gate_precision, 1e-2)
        problem = replace(problem, latent=replace(problem.latent, gate_precision=precision))
    problem.check()
    return problem


def fit_variational(
    problem: MixtureProblem,
    *,
    rng: np.random.Generator,
    restarts: int = 10,
    start: Start = "k_means",
    tolerance: float = 1e-6,
    max_iterations: int = 2000,
) -> VariationalFit:
    """The best of several searches; see :func:`prepared` for the priors."""
    if restarts < 1:
        raise OptionError(f"restarts is at least 1, not {restarts}", code="out-of-range")
    problem = prepared(problem)
    starts = [starting_labels(problem, start, generator) for generator in rng.spawn(restarts)]
    fits = [climb(problem, guess, tolerance=tolerance, max_iterations=max_iterations) for guess in starts]
    return max(fits, key=lambda fit: fit.elbo)


def climb(
    problem: MixtureProblem,
    responsibilities: np.ndarray,
    *,
    tolerance: float = 1e-6,
    max_iterations: int = 2000,
    progress: Callable[[int, float], None] | None = None,
) -> VariationalFit:
    """One search, from a guess of the rows' components (N, K), of a :func:`prepared` problem."""
    k, emission = problem.n_components, problem.emission
    prior = problem.latent.prior_counts
    weights = _row_weights(problem)
    base = float(weights @ emission.log_base(problem.rows))
    gate = (
        None
        if problem.latent.inputs is None
        else _Gate.prior(problem.latent.inputs, weights, k, problem.latent.gate_precision)
    )
    trace: list[float] = []
    converged, better = False, responsibilities
    for iteration in range(max_iterations):
        responsibilities = better
        held = responsibilities * weights[:, None]
        statistics = problem.statistics(responsibilities)
        expected = emission.expected_log_density(statistics, problem.rows)
        # KL(q(θ) || p(θ)): the expected log likelihood of the weighted rows minus their evidence.
        divergence = float(np.sum(held * expected)) - base - float(emission.log_marginal(statistics).sum())
        concentration = prior + held.sum(axis=0)
        if gate is not None and problem.latent.inputs is not None:
            gate = gate.update(problem.latent.inputs, weights, responsibilities)
            log_weights = gate.expected_log(problem.latent.inputs)
            divergence += gate.divergence(problem.latent.gate_precision)
        else:
            log_weights = digamma(concentration) - digamma(concentration.sum())
            divergence += _dirichlet_divergence(concentration, prior)
        if problem.latent.allowed is not None:
            log_weights = np.where(problem.latent.allowed, log_weights, -np.inf)
        evidence, better = normalise(log_weights, expected)
        trace.append(float(weights @ evidence) - divergence)
        if progress is not None:
            progress(iteration + 1, trace[-1])
        if len(trace) > 2 and trace[-1] - trace[-2] < tolerance:
            converged = True
            break
    return VariationalFit(problem, concentration, statistics, responsibilities, np.array(trace), converged, gate)


def _row_weights(problem: MixtureProblem) -> np.ndarray:
    return np.ones(len(problem.rows)) if problem.latent.row_weights is None else problem.latent.row_weights


def _log_normaliser(a: np.ndarray) -> float:
    """Log normalising constant of a Dirichlet distribution."""
    return float(gammaln(a).sum() - gammaln(a.sum()))


def _dirichlet_divergence(after: np.ndarray, before: np.ndarray) -> float:
    logs = digamma(after) - digamma(after.sum())
    return float((after - before) @ logs) - _log_normaliser(after) + _log_normaliser(before)
