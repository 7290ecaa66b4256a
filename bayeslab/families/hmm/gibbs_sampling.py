"""Hidden Markov models by Gibbs steps: paths of the states, then the chain and what the states emit.

The priors are those of every other engine, so that the draws have the same target as NUTS. What is not conjugate is
refused, save a stationary first state: the chain's rows are then proposed from their posterior without the first states
and accepted by the ratio of the stationary probabilities of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.errors import EvidenceError, NothingToFit
from bayeslab.exact.answer import GibbsDraws, GibbsPlan
from bayeslab.exact.expectation_maximisation import restarted
from bayeslab.exact.hidden_gibbs import DrawnPath, draw_path, draw_probabilities, statistics_of
from bayeslab.exact.markov_chain import stationary
from bayeslab.exact.sampler import Arrays, Sampler, recorded, stacked
from bayeslab.families.hmm.hidden import Hidden
from bayeslab.latents.chains.chain import Chain
from bayeslab.latents.chains.product import ProductChain

__all__ = ["PathSampler", "by_gibbs", "draw_emissions", "refusal"]

type Values = Mapping[str, np.ndarray]

# Each chain begins at the better of so many searches by EM, of at most so many steps.
_SEARCHES, _STEPS = 2, 40


def refusal(hidden: Hidden) -> str | None:
    """Why Gibbs steps do not apply, or None."""
    if hidden.observed:
        return "the states are observed: counts have a closed form; use exact"
    if isinstance(hidden.chain, ProductChain):
        return "several chains are not drawn by Gibbs steps; use nuts, map or em"
    if type(hidden.chain) is not Chain:
        return "these transitions have no conjugate prior; use nuts, map or em"
    return next((part.no_gibbs for part in hidden.parts if part.learned and part.no_gibbs), None)


def by_gibbs(hidden: Hidden) -> GibbsPlan | str:
    """Paths and parameters in turns, or why not."""
    if (why := refusal(hidden)) is not None:
        return why
    if not hidden.learned:
        raise NothingToFit(
            "every parameter is given: there is nothing to fit; `bayeslab decode` finds the states",
            code="nothing-to-fit",
        )
    hidden.check_possible(hidden.guess(None))

    def finish(kept: Mapping[int, Arrays], n_draws: int) -> GibbsDraws:
        arrays = {name: stacked(kept, name, n_draws) for name in hidden.learned}
        return GibbsDraws(arrays, {"log_likelihood": stacked(kept, "log_likelihood", n_draws)})

    n, several = hidden.sequences.n_times, hidden.sequences.n_sequences
    what = f"the path of {n:,} times" if several == 1 else f"the paths of {several:,} sequences ({n:,} times)"
    how = f"{what} and the parameters of {hidden.n_states} states in turns"
    return GibbsPlan(how, recorded(PathSampler(hidden), finish), hidden.dims, hidden.labels)


@dataclass(frozen=True, eq=False)
class PathSampler(Sampler):
    """Gibbs steps of a hidden Markov model: the state is its parameters.

    What is kept of a draw are the parameters that are learned, and ``log_likelihood`` of the rows, the paths summed
    out.
    """

    hidden: Hidden

    @cached_property
    def swaps(self) -> bool:
        return _several_modes(self.hidden)

    def init(self, rng: np.random.Generator, tune: int) -> Arrays:
        return _start(self.hidden, rng)

    def step(self, rng: np.random.Generator, state: Arrays) -> tuple[Arrays, Arrays]:
        hidden, values = self.hidden, dict(state)
        path = drawn_path(hidden, values, rng)
        if self.swaps:
            values, path = _swapped(hidden, values, path, rng)
        kept = {name: values[name] for name in hidden.learned} | {"log_likelihood": np.asarray(path.log_evidence)}
        states = hidden.chain.last[path.states]
        return draw_chain(hidden, path, values, rng) | draw_emissions(hidden, states, values, rng), kept


def _several_modes(hidden: Hidden) -> bool:
    """Whether states differ in given probabilities of the chain only, so that each numbering has a mode of its own."""
    chain: Any = hidden.chain
    alike = all(part.symmetric for part in hidden.parts)
    return hidden.n_states > 1 and not hidden.exchangeable and alike and bool(np.all(chain.mask))


def _swapped(
    hidden: Hidden, values: dict[str, np.ndarray], path: DrawnPath, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], DrawnPath]:
    """Parameters with two states in each other's place and their path, if a Metropolis step accepts them.

    Gibbs steps alone stay with one numbering, whatever its probability. The paths are summed out of the ratio, and
    drawn anew.
    """
    order = np.arange(hidden.n_states)
    i, j = rng.choice(hidden.n_states, size=2, replace=False)
    order[[i, j]] = j, i
    other = hidden.permuted(values, order)
    try:
        new = drawn_path(hidden, other, rng)
    except EvidenceError:
        return values, path
    gain = new.log_evidence - path.log_evidence + hidden.chain.log_prior(other) - hidden.chain.log_prior(values)
    return (other, new) if np.log(1 - rng.random()) < gain else (values, path)


def _start(hidden: Hidden, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Parameters that a search by EM ends near: Gibbs steps leave a lower mode only slowly."""
    found = restarted(
        hidden.problem(), hidden.guess, restarts=_SEARCHES, rng=rng, max_iterations=_STEPS, tolerance=1e-4
    )
    values = {name: np.asarray(v, float) for name, v in found.best.parameters.items()}
    try:
        drawn_path(hidden, values, np.random.default_rng(0))
    except EvidenceError:  # modes of concentrations below one lie at zeros
        return hidden.guess(rng)
    return values


def drawn_path(hidden: Hidden, values: Values, rng: np.random.Generator) -> DrawnPath:
    """The paths of the chain that is computed with."""
    law: Any = hidden.law(values)
    return draw_path(law.chain, law.log_density, rng, law.offsets)


def draw_chain(hidden: Hidden, path: DrawnPath, values: Values, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Initial and transition probabilities given the path."""
    chain: Any = hidden.chain
    edges = chain.edges
    counts = chain.counts(path.starts, path.moves if edges is None else edges.take(path.moves))
    out = {}
    for name in chain.learned:
        prior = chain.concentration(name)
        out[name] = draw_probabilities(rng, np.where(prior > 0, prior + counts[name], 0.0))
    if isinstance(chain.initial, str) and chain.initial == "stationary" and "transition" in out:
        with np.errstate(divide="ignore", invalid="ignore"):
            new, old = np.log(stationary(out["transition"])), np.log(stationary(values["transition"]))
            log_ratio = np.sum(np.where(path.starts > 0, path.starts * (new - old), 0.0))
        if not np.log(1 - rng.random()) < log_ratio:
            out["transition"] = values["transition"]
    return out


def draw_emissions(
    hidden: Hidden, states: np.ndarray, values: Values, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """What the states emit given which state each time is in."""
    out: dict[str, np.ndarray] = {}
    for part in hidden.parts:
        if part.learned:
            rows = part.imputed(rng, hidden.rows[:, list(part.at)], states, values)
            out |= part.draw(rng, statistics_of(part.emission, rows, states, part.n_states))
    return out
