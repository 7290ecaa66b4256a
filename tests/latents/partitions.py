"""Partitions of several chains, one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeslab.latents.partitions.component_number import NumberPosterior, NumberPrior, PartitionSampler
from bayeslab.latents.sampler import run

__all__ = ["sample_component_number"]


def sample_component_number(
    emission: Any,
    rows: np.ndarray,
    *,
    rng: np.random.Generator,
    prior: NumberPrior | None = None,
    draws: int = 1000,
    tune: int = 500,
    chains: int = 2,
    **how: int,
) -> NumberPosterior:
    """The posterior of the number of components."""
    sampler = PartitionSampler(emission, rows, prior or NumberPrior.uniform(min(20, max(len(rows), 1))), **how)
    kept = {k: run(sampler, own, draws, tune) for k, own in enumerate(rng.spawn(chains))}
    return sampler.posterior(kept, draws)
