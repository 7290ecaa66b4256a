"""Latent features as a PyMC graph: with the features of all rows integrated or summed out, or as nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.families.latent_features.density import (
    coordinates,
    write_evidence,
    write_mean,
    write_noise,
    write_scale,
)
from bayeslab.families.latent_features.model import Resolved
from bayeslab.language.spec import Model
from bayeslab.language.writer import PYMC

if TYPE_CHECKING:
    import pymc

__all__ = ["with_evidence", "written_out"]

# Truncation of a simulated Indian buffet process: for α = 5 a further feature has a probability below 1e-5.
STICKS = 64


def with_evidence(resolved: Resolved) -> pymc.Model:
    """Parameters, and log p(rows | parameters)."""
    import pymc as pm

    with pm.Model(coords=coordinates(resolved)) as built:
        write_evidence(PYMC, resolved)
    return built


# --------------------------------------------------------------------------------- written out


def written_out(model: Model, resolved: Resolved, data: Data) -> pymc.Model:
    """Parameters, ``z`` for each row, and a node for each column."""
    import pymc as pm
    import pytensor.tensor as pt

    rows = model.data.rows
    named = rows in data.labels
    n_rows = len(data.labels[rows]) if named else 1
    k = resolved.features or STICKS
    labels = resolved.labels | {"feature": np.arange(1, k + 1)}
    built = pm.Model(coords={dim: levels.tolist() for dim, levels in labels.items()})
    with built:
        if named:
            built.add_coord(rows, data.labels[rows].tolist())
        along = rows if named else None
        scale = write_scale(PYMC, resolved)
        loading = pm.Normal(
            "loading", 0.0, scale if scale.ndim == 0 else scale[:, None], shape=(len(resolved.columns), k),
            dims=("column", "feature"),
        )  # fmt: skip
        noise, mean = write_noise(PYMC, resolved, None), write_mean(PYMC, resolved, None)
        if resolved.binary:
            probability = _probability(resolved, k)
            z: Any = pm.Bernoulli("z", pt.broadcast_to(probability, (n_rows, k)), dims=(along, "feature"))
        else:
            z = pm.Normal("z", shape=(n_rows, k), dims=(along, "feature"))
        where = mean + pt.dot(z.astype("float64"), loading.T)
        values = pm.Normal("_rows", where, pt.broadcast_to(noise, where.shape))
        for j, column in enumerate(resolved.columns):
            pm.Deterministic(column, values[:, j], dims=along)
    return built


def _probability(resolved: Resolved, k: int) -> Any:
    """Probability of each feature: Beta, or stick-breaking for an Indian buffet (Teh, Görür, Ghahramani 2007)."""
    import pymc as pm
    import pytensor.tensor as pt

    if resolved.features is not None:
        return pm.Beta("probability", *resolved.probability, dims="feature")
    alpha = pm.Gamma("alpha", *resolved.alpha) if isinstance(resolved.alpha, tuple) else resolved.alpha
    sticks = pm.Beta("_sticks", alpha, 1.0, shape=k)
    return pm.Deterministic("probability", pt.cumprod(sticks), dims="feature")
