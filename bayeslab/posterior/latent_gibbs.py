"""Gibbs sampling of latent states and observed parts: the states, the latent's parameters, and each part's, in turn.

Gibbs steps rarely change the labelling of the states, whatever its probability. If states differ only in the latent's
parameters, two of them may swap labels by a Metropolis step with the states summed out.

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
    """A Gibbs sampler whose state is the parameters.

    A draw consists of the parameters and the ``log_likelihood`` of the rows with the states summed out.

    Attributes
    ----------
    problem : LatentProblem
        The problem, with conjugate priors.
    start : callable
        Maps a chain's generator to its initial parameters.
    permuted : callable, optional
        Maps parameters and an order to the parameters with state ``order[k]`` as the new state k. If given, two states
        may swap labels in every sweep.
    all_learned : bool
        Whether all parameters that distinguish states are learned, and so permuted with them: then every labelling has
        the same likelihood, and only priors matter.
    keeps_states : bool
        Whether the drawn ``states`` are stored too.
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
        """States given the parameters, after a Metropolis step that may swap the labels of two states."""
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
    """Draws of the emission parameters given the state of each row."""
    out: dict[str, np.ndarray] = {}
    for part in parts:
        if part.has_learned:
            out |= part.draw_given(rng, rows, states, values)
    return out
