"""Gibbs steps of latent states times observed parts: the states, the latent's parameters, and each part's, in turns.

Steps leave one numbering of the states only slowly, whatever its probability. Where states differ in nothing but what
the latent has of them, two may trade places by a Metropolis step in which the states are summed out.

References
----------
.. [1] Diebolt, Robert (1994). Estimation of finite mixture distributions through Bayesian sampling. JRSS B 56, 363-375.
.. [2] Scott (2002). Bayesian methods for hidden Markov models. JASA 97, 337-351.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.errors import EvidenceError
from bayeslab.exact.sampler import Arrays, Sampler
from bayeslab.latents.latent import Drawn
from bayeslab.posterior.latent_problem import LatentProblem
from bayeslab.posterior.observed.emitted import Emitted

__all__ = ["LatentSampler", "drawn_parameters", "drawn_parts"]

type Values = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class LatentSampler(Sampler):
    """Gibbs steps: the state is the parameters.

    What is kept of a draw are the parameters and ``log_likelihood`` of the rows, the states summed out.

    Attributes
    ----------
    problem : LatentProblem
        With conjugate priors.
    start : callable
        Parameters where a chain begins, from its generator.
    permuted : callable, optional
        Parameters with state ``order[k]`` as the new state k. With it two states may trade places in every sweep.
    keeps_states : bool
        Whether the ``states`` drawn at the parameters are kept, too.
    """

    problem: LatentProblem
    start: Callable[[np.random.Generator], Values]
    permuted: Callable[[Values, np.ndarray], Values] | None = None
    keeps_states: bool = False

    def init(self, rng: np.random.Generator, tune: int) -> Arrays:
        return dict(self.start(rng))

    def step(self, rng: np.random.Generator, state: Arrays) -> tuple[Arrays, Arrays]:
        values: Values = dict(state)
        drawn = self.problem.law(values).draw(rng)
        if self.permuted is not None:
            values, drawn = self._swapped(self.permuted, values, drawn, rng)
        kept = dict(values) | {"log_likelihood": np.asarray(drawn.log_evidence)}
        if self.keeps_states:
            kept["states"] = drawn.states
        return drawn_parameters(self.problem, drawn, values, rng), kept

    def _swapped(
        self, permuted: Callable[[Values, np.ndarray], Values], values: Values, drawn: Drawn, rng: np.random.Generator
    ) -> tuple[Values, Drawn]:
        """Parameters with two states in each other's place and states drawn anew, if a Metropolis step accepts them."""
        latent = self.problem.latent
        order = np.arange(latent.n_states)
        i, j = rng.choice(latent.n_states, size=2, replace=False)
        order[[i, j]] = j, i
        other = permuted(values, order)
        try:
            again = self.problem.law(other).draw(rng)
        except EvidenceError:
            return values, drawn
        gain = again.log_evidence - drawn.log_evidence + latent.log_prior(other) - latent.log_prior(values)
        return (other, again) if np.log(1 - rng.random()) < gain else (values, drawn)


def drawn_parameters(
    problem: LatentProblem, drawn: Drawn, values: Values, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Parameters from their conjugate posterior given the states and the rows."""
    out = problem.latent.draw_given(rng, drawn.counts, values)
    return out | drawn_parts(problem.parts, problem.rows, drawn.states, values, rng)


def drawn_parts(
    parts: Iterable[Emitted], rows: np.ndarray, states: np.ndarray, values: Values, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """What the states emit given which state each row is in."""
    out: dict[str, np.ndarray] = {}
    for part in parts:
        if part.has_learned:
            out |= part.draw_given(rng, rows, states, values)
    return out
