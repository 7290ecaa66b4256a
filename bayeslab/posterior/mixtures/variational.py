"""Variational EM for mixtures with conjugate components: a posterior, and a bound on the evidence.

The joint posterior of parameters and components is approximated by a product, q(z) q(θ). Each factor
in turn is set to its optimum given the other: responsibilities from *expected* log densities, and
conjugate posteriors from responsibilities [1]_. The evidence lower bound (ELBO) never decreases and
is at most the log evidence; superfluous components lose their rows.

As there are K! labellings of equal posterior mass, and q covers one of them, ELBO + log K! is the
usual estimate of the log evidence of K components [1]_.

What the weights follow from has a factor of :mod:`bayeslab.posterior.mixtures.variational_weights` or, for the pieces
of a stick, of :mod:`bayeslab.posterior.mixtures.variational_process`; the search is the same.

References
----------
.. [1] Bishop (2006). Pattern Recognition and Machine Learning, section 10.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from bayeslab.distributions.emissions import ConjugateEmission, Statistics
from bayeslab.distributions.emissions.components import normalise
from bayeslab.errors import OptionError
from bayeslab.posterior.mixtures.problem import MixtureProblem
from bayeslab.posterior.mixtures.starts import Start, starting_labels
from bayeslab.posterior.mixtures.variational_weights import WeightsFactor, factor_of

__all__ = ["VariationalFit", "climb", "fit_variational", "prepared"]


@dataclass(frozen=True, eq=False)
class VariationalFit[Factor: WeightsFactor]:
    """A variational posterior.

    Attributes
    ----------
    problem : MixtureProblem
    factor : WeightsFactor
        The factor of what the weights follow from.
    statistics : dict
        Expected sufficient statistics; the emission's ``draw`` and ``expected_log_density`` use them.
    responsibilities : ndarray (N, K)
        The responsibilities from which the posterior of the parameters was computed.
    trace : ndarray
        ELBO by iteration.
    converged : bool
    """

    problem: MixtureProblem
    factor: Factor
    statistics: Statistics
    responsibilities: np.ndarray
    trace: np.ndarray
    converged: bool

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
        return {**self.factor.mean(), **self.problem.emission.maximise(self.statistics)}

    def draw(self, rng: np.random.Generator) -> dict[str, Any]:
        """Parameters from the variational posterior."""
        parameters = self.problem.emission.draw(rng, self.statistics)
        return {**self.factor.draw(rng), **parameters}

    def log_ratio(self, theta: Mapping[str, Any]) -> float:
        """log p(rows, θ) - log q(θ) with the components summed out: the log importance ratio of a draw.

        By Bayes' rule q(θ) is the prior times the likelihood of the rows weighted by the responsibilities, divided by
        the corresponding evidence; so the prior cancels.
        """
        problem, emission = self.problem, self.problem.emission
        parameters = {name: value for name, value in theta.items() if name not in self.factor.names}
        log_density = emission.log_density(parameters, problem.rows)
        evidence, _ = normalise(problem.latent.log_weights(theta), log_density)
        weights = _row_weights(problem)
        held = self.responsibilities * weights[:, None]
        value = float(weights @ evidence) - float(np.sum(held * log_density))
        value += float(weights @ emission.log_base(problem.rows)) + float(emission.log_marginal(self.statistics).sum())
        return value + self.factor.log_ratio(theta)


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
) -> VariationalFit[WeightsFactor]:
    """The best of several searches; see :func:`prepared` for the priors."""
    if restarts < 1:
        raise OptionError(f"restarts is at least 1, not {restarts}", code="out-of-range")
    problem = prepared(problem)
    starts = [starting_labels(problem, start, generator) for generator in rng.spawn(restarts)]
    fits: list[VariationalFit[WeightsFactor]] = [
        climb(problem, guess, tolerance=tolerance, max_iterations=max_iterations) for guess in starts
    ]
    return max(fits, key=lambda fit: fit.elbo)


def climb[Factor: WeightsFactor](
    problem: MixtureProblem,
    responsibilities: np.ndarray,
    factor: Factor | None = None,
    *,
    tolerance: float = 1e-6,
    max_iterations: int = 2000,
    progress: Callable[[int, float], None] | None = None,
) -> VariationalFit[Factor]:
    """One search, from a guess of the rows' components (N, K), of a :func:`prepared` problem.

    Parameters
    ----------
    factor
        The prior of what the weights follow from; by default that of the problem's labels.
    """
    emission, row_weights = problem.emission, _row_weights(problem)
    base = float(row_weights @ emission.log_base(problem.rows))
    at: Any = factor_of(problem.latent, row_weights) if factor is None else factor
    trace: list[float] = []
    converged, better = False, responsibilities
    for iteration in range(max_iterations):
        responsibilities = at.arranged(better)
        held = responsibilities * row_weights[:, None]
        at = at.updated(responsibilities, held.sum(axis=0))
        statistics = problem.statistics(responsibilities)
        expected = emission.expected_log_density(statistics, problem.rows)
        # KL(q(θ) || p(θ)): the expected log likelihood of the weighted rows minus their evidence.
        divergence = float(np.sum(held * expected)) - base - float(emission.log_marginal(statistics).sum())
        divergence += at.divergence()
        log_weights = at.expected_log()
        if problem.latent.allowed is not None:
            log_weights = np.where(problem.latent.allowed, log_weights, -np.inf)
        evidence, better = normalise(log_weights, expected)
        trace.append(float(row_weights @ evidence) - divergence)
        if progress is not None:
            progress(iteration + 1, trace[-1])
        if len(trace) > 2 and trace[-1] - trace[-2] < tolerance:
            converged = True
            break
    return VariationalFit(problem, at, statistics, responsibilities, np.array(trace), converged)


def _row_weights(problem: MixtureProblem) -> np.ndarray:
    return np.ones(len(problem.rows)) if problem.latent.row_weights is None else problem.latent.row_weights
