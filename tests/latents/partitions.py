"""Partitions of several chains, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.latents.partitions.component_number import NumberPrior, number_posterior
from bayeslab.latents.partitions.dirichlet_process import Moves, ProcessProblem, advance, start

__all__ = ["sample_component_number"]


@dataclass(frozen=True, eq=False)
class NumberDraws:
    """Draws of partitions (chains, draws), and the posterior of the number of components and of clusters."""

    probability: np.ndarray
    clusters: np.ndarray
    n_clusters: np.ndarray
    labels: np.ndarray
    log_density: np.ndarray

    @property
    def mode(self) -> int:
        return int(self.probability.argmax()) + 1


def sample_component_number(
    emission: Any,
    rows: np.ndarray,
    *,
    rng: np.random.Generator,
    prior: NumberPrior | None = None,
    draws: int = 1000,
    tune: int = 500,
    chains: int = 2,
    proposals: int = 5,
    sweeps: int = 4,
) -> NumberDraws:
    """The posterior of the number of components."""
    prior = prior or NumberPrior.uniform(min(20, max(len(rows), 1)))
    emission = emission if emission.prior is not None or not len(rows) else emission.with_prior(rows, 1)
    problem, moves = ProcessProblem(emission, rows, prior), Moves(sweeps, proposals)
    each = []
    for k, source in enumerate(rng.spawn(chains)):
        state, _ = advance(problem, start(problem, k, source), np.zeros(tune, bool), moves)
        each.append(advance(problem, state, np.ones(draws, bool), moves)[1])
    number, labels, density = (np.stack([one[n] for one in each]) for n in ("n_clusters", "labels", "log_joint"))
    number = number.astype(np.int64)
    return NumberDraws(*number_posterior(prior, len(rows), number), number, labels, density)
