"""Gibbs draws from the posterior of a mixture with conjugate components.

In turns: each row's component given the parameters, then weights and parameters given the components. It needs
no gradient; latent classes, known labels, missing cells and reported labels (a categorical column) cost nothing extra.

References
----------
.. [1] Diebolt, Robert (1994). Estimation of finite mixture distributions through Bayesian sampling. JRSS B 56, 363-375.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.errors import OptionError
from bayeslab.exact.emissions import ConjugateEmission
from bayeslab.exact.hidden_gibbs import completed
from bayeslab.exact.sampler import Arrays, Sampler
from bayeslab.posterior.mixtures.problem import MixtureProblem

__all__ = ["MixtureSampler"]


@dataclass(frozen=True, eq=False)
class MixtureSampler(Sampler):
    """Gibbs steps of a mixture: the state is its parameters.

    What is kept of a draw are the parameters (``weights`` (K,) and the emission's), the ``labels`` (N,) drawn given
    them, and ``log_likelihood`` of the rows, the labels summed out.

    Attributes
    ----------
    given : MixtureProblem
        Without priors of its components it gets weak ones.
    start : callable
        Parameters where a chain begins, from its generator.
    swaps : bool
        Whether two components may trade places after every sweep, by a Metropolis step. It is for components that
        differ in nothing but the prior of their weights: Gibbs steps alone stay with one numbering, whatever its
        probability.

    Raises
    ------
    OptionError
        There are no conjugate steps for the mixture.
    """

    given: MixtureProblem
    start: Callable[[np.random.Generator], Mapping[str, Any]]
    swaps: bool = False

    @cached_property
    def problem(self) -> MixtureProblem:
        problem = self.given
        if problem.latent.inputs is not None or problem.latent.row_weights is not None:
            raise OptionError(
                "Gibbs draws are for mixtures without gate and row weights; use method: em or nuts", code="not-suited"
            )
        if not isinstance(problem.emission, ConjugateEmission):
            raise OptionError(
                f"{type(problem.emission).__name__} has no conjugate prior; use method: nuts", code="not-conjugate"
            )
        problem = problem.with_weak_prior()
        problem.check()
        return problem

    def init(self, rng: np.random.Generator, tune: int) -> Arrays:
        return dict(self.start(rng))

    def step(self, rng: np.random.Generator, state: Arrays) -> tuple[Arrays, Arrays]:
        problem = self.problem
        law = problem.law(state)
        evidence, z = law.log_likelihoods(True), law.sample(rng)
        whole = replace(problem, rows=completed(rng, problem.emission, problem.rows, z, state))
        statistics = whole.statistics(np.eye(problem.n_components)[z], state)
        weights = problem.latent.fixed_weights
        if weights is None:
            weights = rng.dirichlet(problem.latent.prior_counts + statistics["weights"])
        theta = {"weights": np.asarray(weights, float), **problem.emission.draw(rng, statistics)}
        if self.swaps:
            theta = _swapped(problem, theta, statistics["weights"], rng)
        return theta, {**state, "labels": z, "log_likelihood": evidence.sum()}


def _swapped(
    problem: MixtureProblem, theta: dict[str, np.ndarray], counts: np.ndarray, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Parameters with two components in each other's place, if that is accepted."""
    i, j = rng.choice(problem.n_components, size=2, replace=False)
    weights = np.log(np.maximum(theta["weights"], 1e-300))
    if problem.latent.fixed_weights is not None:
        # The weights stay, and the rows move.
        gain = (counts[i] - counts[j]) * (weights[j] - weights[i])
    else:
        prior = problem.latent.prior_counts
        gain = (prior[i] - prior[j]) * (weights[j] - weights[i])
    if np.log(rng.random()) >= gain:
        return theta
    order = np.arange(problem.n_components)
    order[[i, j]] = j, i
    stay = ("weights",) if problem.latent.fixed_weights is not None else ()
    return {name: value if name in stay else value[order] for name, value in theta.items()}
