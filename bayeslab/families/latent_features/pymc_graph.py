"""Latent features as a PyMC graph: with the features of all rows integrated or summed out, or as nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.distributions import pymc_class
from bayeslab.errors import ModelError
from bayeslab.families.latent_features.gibbs_sampling import prior_of
from bayeslab.families.latent_features.model import Resolved, Written, refused_patterns
from bayeslab.language.spec import Model
from bayeslab.latents.features.binary_features import sample
from bayeslab.latents.features.factor_analysis import Patterns, pivots, principal_components, triangular
from bayeslab.latents.features.feature_matching import permutations

if TYPE_CHECKING:
    import pymc

__all__ = ["axes_of", "first_values", "with_evidence", "written_out"]

# Number of Gibbs sweeps to find start values of chains of binary features.
_SWEEPS = 300
# Truncation of a simulated Indian buffet process: for α = 5 a further feature has a probability below 1e-5.
STICKS = 64


def with_evidence(model: Model, resolved: Resolved) -> pymc.Model:
    """Parameters, and log p(rows | parameters)."""
    import pymc as pm

    if resolved.binary and (why := refused_patterns(resolved)) is not None:
        raise ModelError(f"{why}; use method gibbs", path=("model", "features"), code=why.code)
    built = pm.Model(coords={dim: labels.tolist() for dim, labels in resolved.labels.items()})
    with built:
        pm.Potential("evidence", _binary(resolved) if resolved.binary else _gaussian(resolved))
    return built


def _gaussian(resolved: Resolved) -> Any:
    import pymc as pm
    import pytensor.tensor as pt

    from bayeslab.evidence import log_evidence

    assert resolved.features is not None
    start = first_values(resolved)
    loading = pm.Deterministic("loading", _triangle(resolved, start), dims=("column", "feature"))
    noise, mean = _noise(resolved, start["noise"]), _mean(resolved, start["mean"])
    d = len(resolved.columns)
    flat = pt.concatenate([mean, loading.ravel(), pt.broadcast_to(noise, (d,))])
    kernel = "bayeslab.latents.features.factor_kernels:factor_evidence"
    return log_evidence(kernel, flat, np.array([d, resolved.features]), *Patterns.of(resolved.rows).arrays)


def first_values(resolved: Resolved) -> dict[str, np.ndarray]:
    """Start values: principal components of the standardised columns, with missing cells at their means.

    Without means, columns are not centred, and one component is their level.
    """
    assert resolved.features is not None
    size = np.where(resolved.size > 0, resolved.size, 1.0)
    origin = resolved.centre if resolved.offset else np.zeros(len(size))
    filled = (np.where(np.isnan(resolved.rows), resolved.centre, resolved.rows) - origin) / size
    k = min(resolved.features, len(resolved.columns) - 1)
    start = principal_components(filled, k, with_mean=resolved.offset)
    loading = np.zeros((len(resolved.columns), resolved.features))
    loading[:, :k] = start["loading"] * size[:, None]
    loading[loading == 0] = 1e-2 * resolved.pooled
    noise = np.maximum(float(start["noise"][0]) * size, 0.05 * np.where(resolved.spread > 0, resolved.spread, 1.0))
    if len(resolved.noise) == 1:
        noise = np.array([np.sqrt(np.mean(noise**2))])
    return {"mean": resolved.centre, "loading": loading, "noise": noise}


def _triangle(resolved: Resolved, start: dict[str, np.ndarray]) -> Any:
    """Lower triangular loadings in an order of the columns that suits the data, with Bartlett's prior.

    In any order, W W' has the same distribution as for independent loadings N(0, scale²). The square of the last
    diagonal element has one degree of freedom, so that the element is normal up to its sign, on which W W' does not
    depend. The sign is left free: a positivity constraint would trap chains at zero when the other loadings of the
    column have the wrong sign, an artificial mode.

    Without means, the loadings of a level far from zero are nearly equal across columns, so that the original
    coordinates are badly scaled. Independent normal loadings are invariant to rotation: the triangle then refers to the
    principal axes of the start values, the first of which is the level.
    """
    import pymc as pm
    import pytensor.tensor as pt

    assert resolved.features is not None
    k, d = resolved.features, len(resolved.columns)
    scale = _scale(resolved)
    axes = axes_of(resolved, start)
    begin = triangular(axes.T @ _white(resolved, start))
    low = np.tril_indices(d, -1, k)
    first = np.diag(begin[:k])
    last = pm.Normal("_last", shape=1, initval=first[-1:])
    diagonal = last
    if k > 1:
        dof = np.arange(k, 1, -1).astype(float)
        squares = pm.ChiSquared("_squares", dof, shape=k - 1, initval=np.maximum(first[:-1] ** 2, 1e-2))
        diagonal = pt.concatenate([pt.sqrt(squares), last])
    below = pm.Normal("_below", shape=len(low[0]), initval=begin[low]) if len(low[0]) else pt.zeros(0)
    unit_triangle = pt.zeros((d, k))
    unit_triangle = pt.set_subtensor(unit_triangle[np.arange(k), np.arange(k)], diagonal)
    unit_triangle = pt.set_subtensor(unit_triangle[low], below)
    turned = unit_triangle[np.argmax(axes, axis=1)] if resolved.offset else pt.dot(axes, unit_triangle)
    return turned * (scale if scale.ndim == 0 else scale[:, None])


def axes_of(resolved: Resolved, start: dict[str, np.ndarray]) -> np.ndarray:
    """The axes (columns, columns) in which loadings are lower triangular: permuted columns, or a rotation."""
    if resolved.offset:
        return np.eye(len(resolved.columns))[:, pivots(start["loading"], resolved.size)]
    return np.asarray(np.linalg.svd(_white(resolved, start), full_matrices=True)[0])


def _white(resolved: Resolved, start: dict[str, np.ndarray]) -> np.ndarray:
    """Loadings in units of their prior standard deviation."""
    unit = np.array([s for s in resolved.scale if isinstance(s, float)] or [np.sqrt(np.mean(resolved.size**2))])
    return np.asarray(start["loading"] / np.broadcast_to(unit, (len(resolved.columns),))[:, None])


def _scale(resolved: Resolved) -> Any:
    """Sd of the loadings: one, or one for each column."""
    import pytensor.tensor as pt

    if isinstance(resolved.scale[0], Written):
        return resolved.scale[0].node("scale", initval=float(np.sqrt(np.mean(resolved.size**2))))
    values = np.array(resolved.scale, float)
    return pt.as_tensor_variable(values if len(values) > 1 else values[0])


def _noise(resolved: Resolved, start: np.ndarray | None) -> Any:
    """Sd of the noise (1,) or (D,)."""
    import pytensor.tensor as pt

    first = resolved.noise[0]
    if isinstance(first, float):
        return pt.as_tensor_variable(np.full(len(resolved.noise), first))
    if len(resolved.noise) == 1:
        return first.node("noise", initval=None if start is None else float(start[0]))[None]
    each = [w.arguments for w in resolved.noise if isinstance(w, Written)]
    arguments = {name: np.array([a[name] for a in each]) for name in first.arguments}
    return pymc_class(first.word)("noise", **arguments, dims="column", initval=start)


def _mean(resolved: Resolved, start: np.ndarray | None) -> Any:
    import pymc as pm
    import pytensor.tensor as pt

    if not resolved.offset:
        return pt.zeros(len(resolved.columns))
    scale = np.where(resolved.offset_scale > 0, resolved.offset_scale, 1.0)
    return pm.Normal("mean", resolved.centre, scale, dims="column", initval=start)


def _binary(resolved: Resolved) -> Any:
    import pymc as pm
    import pytensor.tensor as pt

    from bayeslab.evidence import log_evidence

    assert resolved.features is not None
    start = _drawn(resolved)
    probability = pm.Beta("probability", *resolved.probability, dims="feature", initval=start["probability"])
    loading = pm.Normal("loading", 0.0, _scale(resolved), dims=("column", "feature"), initval=start["loading"])
    noise, mean = _noise(resolved, start["noise"]), _mean(resolved, start["mean"])
    flat = pt.concatenate([probability, loading.T.ravel(), mean, noise])
    kernel = "bayeslab.latents.features.feature_kernels:binary_evidence"
    return log_evidence(kernel, flat, np.ascontiguousarray(resolved.rows), np.array([resolved.features]))


def _drawn(resolved: Resolved) -> dict[str, np.ndarray]:
    """Start values: the best state of some Gibbs sweeps."""
    best: Any = None
    for chain_rng in np.random.default_rng(0).spawn(3):
        one = sample(resolved.rows, prior_of(resolved), draws=_SWEEPS // 3, tune=_SWEEPS, rng=chain_rng)
        if best is None or one.log_joint.max() > best.log_joint.max():
            best = one
    at = int(best.log_joint.argmax())
    order = permutations(best.loading[at].T[None])[0][0]
    return {
        "probability": np.clip(best.probability[at][order], 0.01, 0.99),
        "loading": best.loading[at][order].T,
        "mean": best.offset[at],
        "noise": best.noise[at : at + 1],
    }


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
        scale = _scale(resolved)
        loading = pm.Normal(
            "loading", 0.0, scale if scale.ndim == 0 else scale[:, None], shape=(len(resolved.columns), k),
            dims=("column", "feature"),
        )  # fmt: skip
        noise, mean = _noise(resolved, None), _mean(resolved, None)
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
