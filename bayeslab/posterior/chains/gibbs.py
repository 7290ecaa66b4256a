"""Gibbs sampling of hidden Markov models: state paths, then the parameters of the chain and the emissions.

The priors are those of every other engine, so that the draws have the same target as NUTS. Parts without a conjugate
prior are refused, except a stationary first state: transition rows are then proposed from their posterior without the
first states, and accepted with the ratio of the stationary probabilities of the first states.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.errors import EvidenceError, NothingToFit
from bayeslab.latents.expectation_maximisation import maximise
from bayeslab.posterior.answer import GibbsPlan
from bayeslab.posterior.chains.hidden import Hidden
from bayeslab.posterior.latent_gibbs import LatentSampler
from bayeslab.posterior.latent_modes import ModeStarts
from bayeslab.posterior.latent_plans import gibbs_plan

__all__ = ["by_gibbs", "refusal"]

type Values = Mapping[str, np.ndarray]

# Largest number of steps of a search for modes.
_STEPS = 40


def refusal(hidden: Hidden) -> str | None:
    """The reason why Gibbs sampling does not apply, or None."""
    if hidden.observed:
        return "the states are observed: counts have a closed form; use exact"
    return hidden.chain.no_gibbs or next(
        (part.no_gibbs for part in hidden.parts if part.learned and part.no_gibbs), None
    )


def by_gibbs(hidden: Hidden) -> GibbsPlan | str:
    """Plan of Gibbs sampling of paths and parameters, or the reason why it does not apply."""
    if (why := refusal(hidden)) is not None:
        return why
    if not hidden.learned:
        raise NothingToFit(
            "every parameter is given: there is nothing to fit; `bayeslab decode` finds the states",
            code="nothing-to-fit",
        )
    hidden.check_possible(hidden.guess(None))
    starts = ModeStarts(hidden.problem(), lambda k, rng: _end(hidden, k, rng), hidden.exchangeable)
    n, several = hidden.sequences.n_times, hidden.sequences.n_sequences
    what = f"the path of {n:,} times" if several == 1 else f"the paths of {several:,} sequences ({n:,} times)"
    how = f"{what} and the parameters of {hidden.n_states} states in turns"
    permuted = hidden.permuted if _several_modes(hidden) else None
    sampler = LatentSampler(hidden.problem(), starts, permuted)
    return gibbs_plan(sampler, starts, how, hidden.dims, hidden.labels)


def _several_modes(hidden: Hidden) -> bool:
    """Whether only given probabilities of the chain tell states apart, so that each numbering has a mode of its
    own.
    """
    chain: Any = hidden.chain
    alike = all(part.symmetric for part in hidden.parts)
    return hidden.n_states > 1 and not hidden.exchangeable and alike and bool(np.all(chain.mask))


def _end(hidden: Hidden, k: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The end of the k-th search by EM; every second search starts from random states."""
    start = hidden.scattered(rng) if k % 2 else hidden.guess(rng)
    fit = maximise(hidden.problem(), start, max_iterations=_STEPS, tolerance=1e-4)
    values = {name: np.asarray(v, float) for name, v in fit.parameters.items()}
    try:
        hidden.law(values).draw(np.random.default_rng(0))
    except EvidenceError:  # with concentrations below one the modes lie at zeros
        return hidden.guess(rng)
    return values
