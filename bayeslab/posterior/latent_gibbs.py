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
from bayeslab.latents.latent import Drawn
from bayeslab.latents.sampler import Arrays, Sampler
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
    all_learned : bool
        Whether all that tells states apart is learned, and so trades places with them: every numbering has the same
        evidence, and priors alone choose.
    keeps_states : bool
        Whether the ``states`` drawn at the parameters are kept, too.
    """

    problem: LatentProblem
    start: Callable[[np.random.Generator], Values]
    permuted: Callable[[Values, np.ndarray], Values] | None = None
    all_learned: bool = False
    keeps_states: bool = False

    def init(self, rng: np.random.Generator, tune: int) -> Arrays:
        return dict(self.start(rng))

    def step(self, rng: np.random.Generator, state: Arrays) -> tuple[Arrays, Arrays]:
        values, drawn = self._drawn(state, rng)
        kept = dict(values) | {"log_likelihood": np.asarray(drawn.log_evidence)}
        if self.keeps_states:
            kept["states"] = drawn.states
        return drawn_parameters(self.problem, drawn, values, rng), kept

    def _drawn(self, values: Values, rng: np.random.Generator) -> tuple[Values, Drawn]:
        """States given the parameters, in which two states trade places if a Metropolis step accepts it."""
        law, latent = self.problem.law, self.problem.latent
        if self.permuted is None:
            return values, law(values).draw(rng)
        order = np.arange(latent.n_states)
        i, j = rng.choice(latent.n_states, size=2, replace=False)
        order[[i, j]] = j, i
        other = self.permuted(values, order)
        gain = latent.log_prior(other) - latent.log_prior(values)
        threshold = np.log(1 - rng.random())
        if self.all_learned:
            values = other if threshold < gain else values
            return values, law(values).draw(rng)
        drawn = law(values).draw(rng)
        try:
            again = law(other).draw(rng)
        except EvidenceError:
            return values, drawn
        accepted = threshold < gain + again.log_evidence - drawn.log_evidence
        return (other, again) if accepted else (values, drawn)


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
