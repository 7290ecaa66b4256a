"""Gibbs draws from the posterior of a mixture with conjugate components, and cluster summaries of draws.

No gradient is needed; latent classes, known labels, missing cells and reported labels (a categorical column) need no
additional computation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from bayeslab.distributions.emissions import ConjugateEmission
from bayeslab.errors import OptionError, Reason
from bayeslab.latents.labels.clusters import MOST_PAIRED
from bayeslab.latents.labels.labels import drawn_labels
from bayeslab.posterior.answer import GibbsPlan
from bayeslab.posterior.contract import Named
from bayeslab.posterior.latent_gibbs import LatentSampler
from bayeslab.posterior.latent_modes import ModeStarts
from bayeslab.posterior.latent_plans import gibbs_plan
from bayeslab.posterior.mixtures.bound_mixture import BoundMixture
from bayeslab.posterior.mixtures.expectation_maximisation import first_guess
from bayeslab.posterior.mixtures.problem import MixtureProblem
from bayeslab.posterior.mixtures.process import summaries
from bayeslab.posterior.mixtures.search import MixtureOptions, fit_mixture
from bayeslab.posterior.mixtures.starts import start_in_turn

__all__ = ["by_gibbs", "cluster_summaries", "mixture_sampler"]

# Number of label draws at each draw of the parameters, for co-clustering probabilities.
_LABELS = 8


def mixture_sampler(
    problem: MixtureProblem,
    start: Callable[[np.random.Generator], Mapping[str, Any]],
    swaps: bool = False,
    keeps_states: bool = False,
) -> LatentSampler:
    """The Gibbs sampler of a mixture; components without a prior get a weak one.

    Parameters
    ----------
    start : callable
        Maps a chain's generator to its initial parameters.
    swaps : bool
        Whether two components may swap labels in every sweep, for components that differ only in the prior of their
        weights.
    keeps_states : bool
        Whether the labels of the rows are stored, as ``states``.

    Raises
    ------
    OptionError
        There are no conjugate steps for the mixture.
    """
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
    constants = problem.latent.constants
    all_learned = not constants and problem.latent.allowed is None

    def permuted(values: Mapping[str, Any], order: np.ndarray) -> dict[str, Any]:
        return {name: value if name in constants else value[order] for name, value in values.items()}

    return LatentSampler(problem, start, permuted if swaps else None, all_learned, keeps_states)


def by_gibbs(mixture: BoundMixture) -> GibbsPlan | str:
    """Plan of Gibbs sampling of labels and parameters, or the reason against it."""
    if mixture.problem.latent.no_gibbs:
        return Reason(mixture.problem.latent.no_gibbs, code="not-conjugate")
    if mixture.no_conjugate_steps is not None:
        return mixture.no_conjugate_steps
    for part in mixture.parts.values():
        if not isinstance(part.emission, ConjugateEmission):
            return Reason(
                f"{type(part.emission).__name__} components have no conjugate prior; use nuts", code="not-conjugate"
            )
    problem = mixture.problem

    def search(k: int, rng: np.random.Generator) -> Mapping[str, Any]:
        options = MixtureOptions(method="map", restarts=1, start=start_in_turn(k), max_iterations=50, repairs=1)
        return fit_mixture(problem, options, rng=rng, start=None if k else first_guess(mixture)).parameters

    exchangeable = problem.latent.allowed is None and "label" not in mixture.parts
    starts = ModeStarts(problem.with_weak_prior(), search, exchangeable)
    # If only the weights' prior distinguishes components, the posterior has several modes.
    swaps = np.ndim(problem.latent.dirichlet) > 0 and exchangeable
    how = f"{len(mixture.rows):,} labels and the parameters of {mixture.n_components} components in turns"
    sampler = mixture_sampler(problem, starts, swaps)
    return gibbs_plan(sampler, starts, how, mixture.dims, mixture.labels, mixture.values)


def cluster_summaries(
    mixture: BoundMixture, responsibilities: Iterable[np.ndarray], rows: str, rng: np.random.Generator
) -> Named:
    """Summaries from the responsibilities at every draw.

    Probabilities depend on component labels and are meaningful after relabelling; the partition and the co-clustering
    probabilities are label-invariant.
    """
    total, labels, n = np.zeros((len(mixture.rows), mixture.n_components)), [], 0
    for r in responsibilities:
        total += r
        n += 1
        labels += [drawn_labels(r, rng.random(len(r))) for _ in range(_LABELS)]
    probability = total / max(n, 1)
    out: Named = {
        "probability": ((rows, "component"), probability),
        "component_of": ((rows,), probability.argmax(axis=1)),
    }
    few = len(mixture.rows) <= MOST_PAIRED
    return out | (summaries(np.stack(labels), rows, ("vi",)) if few else {})
