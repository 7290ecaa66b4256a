"""Gibbs draws from the posterior of a mixture with conjugate components.

In turns: each row's component given the parameters, then weights and parameters given the components. It needs
no gradient; latent classes, known labels, missing cells and reported labels (a categorical column) cost nothing extra.

References
----------
.. [1] Diebolt, Robert (1994). Estimation of finite mixture distributions through Bayesian sampling. JRSS B 56, 363-375.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayeslab.errors import OptionError
from bayeslab.exact.emissions import ConjugateEmission
from bayeslab.exact.hidden_gibbs import completed
from bayeslab.exact.mixture import MixtureProblem

__all__ = ["GibbsDraws", "gibbs"]


@dataclass(frozen=True, eq=False)
class GibbsDraws:
    """Draws of one chain.

    Attributes
    ----------
    problem : MixtureProblem
    parameters : dict of ndarray
        Draws first; ``weights`` (S, K) and the emission's.
    labels : ndarray (S, N) of int
    log_likelihood : ndarray (S,)
        Of the rows, the labels summed out.
    """

    problem: MixtureProblem
    parameters: dict[str, np.ndarray]
    labels: np.ndarray
    log_likelihood: np.ndarray


def gibbs(
    problem: MixtureProblem,
    start: Mapping[str, Any],
    *,
    draws: int,
    tune: int,
    rng: np.random.Generator,
    swaps: bool = False,
) -> GibbsDraws:
    """A chain from ``start`` (such as a fit's parameters).

    ``swaps``: two components may trade places after every sweep, by a Metropolis step. It is for components that differ
    in nothing but the prior of their weights: Gibbs steps alone stay with one numbering, whatever its probability.
    """
    if problem.inputs is not None or problem.row_weights is not None:
        raise OptionError(
            "Gibbs draws are for mixtures without gate and row weights; use method: em or nuts", code="not-suited"
        )
    if not isinstance(problem.emission, ConjugateEmission):
        raise OptionError(
            f"{type(problem.emission).__name__} has no conjugate prior; use method: nuts", code="not-conjugate"
        )
    if not problem.emission.has_prior:
        problem = replace(problem, emission=problem.emission.with_prior(problem.rows, problem.n_components))
    problem.check()
    k, theta = problem.n_components, dict(start)
    kept: list[dict[str, np.ndarray]] = []
    labels = np.empty((draws, len(problem.rows)), int)
    log_likelihood = np.empty(draws)
    for sweep in range(tune + draws):
        evidence, r = problem.responsibilities(theta)
        cumulated = np.cumsum(r, axis=1)
        z = (rng.random((len(r), 1)) * cumulated[:, -1:] >= cumulated).sum(axis=1)
        if sweep >= tune:
            kept.append(theta)
            labels[sweep - tune], log_likelihood[sweep - tune] = z, evidence.sum()
        whole = replace(problem, rows=completed(rng, problem.emission, problem.rows, z, theta))
        statistics = whole.statistics(np.eye(k)[z], theta)
        weights = problem.fixed_weights
        if weights is None:
            weights = rng.dirichlet(np.asarray(problem.concentration) + statistics["component"])
        theta = {"weights": np.asarray(weights, float), **problem.emission.draw(rng, statistics)}
        if swaps:
            theta = _swapped(problem, theta, statistics["component"], rng)
    stacked = {name: np.stack([draw[name] for draw in kept]) for name in theta}
    return GibbsDraws(problem, stacked, labels, log_likelihood)


def _swapped(
    problem: MixtureProblem, theta: dict[str, np.ndarray], counts: np.ndarray, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Parameters with two components in each other's place, if that is accepted."""
    i, j = rng.choice(problem.n_components, size=2, replace=False)
    weights = np.log(np.maximum(theta["weights"], 1e-300))
    if problem.fixed_weights is not None:
        # The weights stay, and the rows move.
        gain = (counts[i] - counts[j]) * (weights[j] - weights[i])
    else:
        prior = np.broadcast_to(np.asarray(problem.concentration, float), weights.shape)
        gain = (prior[i] - prior[j]) * (weights[j] - weights[i])
    if np.log(rng.random()) >= gain:
        return theta
    order = np.arange(problem.n_components)
    order[[i, j]] = j, i
    stay = ("weights",) if problem.fixed_weights is not None else ()
    return {name: value if name in stay else value[order] for name, value in theta.items()}
