"""Gibbs draws from the posterior of a mixture with conjugate components.

No gradient is needed; latent classes, known labels, missing cells and reported labels (a categorical column) need no
additional computation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bayeslab.distributions.emissions import ConjugateEmission
from bayeslab.errors import OptionError
from bayeslab.posterior.latent_gibbs import LatentSampler
from bayeslab.posterior.mixtures.problem import MixtureProblem

__all__ = ["mixture_sampler"]


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
