"""The plan of Gibbs sampling of latent states and observed parts, with chains that start in every mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bayeslab.latents.sampler import Arrays, recorded, stacked
from bayeslab.posterior.answer import GibbsDraws, GibbsPlan
from bayeslab.posterior.latent_gibbs import LatentSampler
from bayeslab.posterior.latent_modes import ModeStarts

__all__ = ["gibbs_plan"]

type Values = Mapping[str, Any]


def gibbs_plan(
    sampler: LatentSampler,
    starts: ModeStarts,
    how: str,
    dims: Mapping[str, tuple[str, ...]],
    labels: Mapping[str, np.ndarray],
    values: Callable[[Values], Mapping[str, np.ndarray]] | None = None,
) -> GibbsPlan:
    """The plan of a sampler's chains; modes that they hardly visit are reported.

    Parameters
    ----------
    starts
        The starts of the sampler's chains.
    how, dims, labels
        See :class:`bayeslab.posterior.answer.GibbsPlan`.
    values : callable, optional
        Maps the parameters of one draw to quantities by their names in the posterior; default: they have these names.
    """
    kinds = starts.problem.kinds()

    def finish(kept: Mapping[int, Arrays], n_draws: int) -> GibbsDraws:
        drawn = {name: stacked(kept, name, n_draws) for name in next(iter(kept.values()))}
        stats = {"log_likelihood": drawn.pop("log_likelihood")}
        flat = {name: drawn[name].reshape(-1, *drawn[name].shape[2:]) for name in kinds}
        notes = () if starts.exchangeable else starts.unseen(flat)
        if values is None:
            return GibbsDraws({name: drawn[name] for name in dims}, stats, notes=notes)
        shape = stats["log_likelihood"].shape
        each = [values({name: v[at] for name, v in drawn.items()}) for at in np.ndindex(shape)]
        arrays = {name: np.stack([one[name] for one in each]) for name in dims}
        return GibbsDraws({n: v.reshape(*shape, *v.shape[1:]) for n, v in arrays.items()}, stats, notes=notes)

    return GibbsPlan(how, recorded(sampler, finish), dims, labels)
