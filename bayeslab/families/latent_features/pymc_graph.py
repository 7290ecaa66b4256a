"""Latent features as a PyMC graph: with the features of all rows integrated or summed out, or written out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.distributions import pymc_class
from bayeslab.errors import ModelError
from bayeslab.exact.binary_features import sample
from bayeslab.exact.factor_analysis import Patterns, pivots, principal_components, triangular
from bayeslab.exact.feature_matching import permutations
from bayeslab.families.latent_features.gibbs_sampling import prior_of
from bayeslab.families.latent_features.model import Resolved, Written, refused_patterns
from bayeslab.language.spec import Model

if TYPE_CHECKING:
    import pymc

__all__ = ["axes_of", "first_values", "with_evidence", "written_out"]

# Sweeps of Gibbs steps that find where chains of binary features start.
_SWEEPS = 300
# Sticks of a buffet that is simulated: with α = 5 a feature beyond has a chance below 1e-5.
STICKS = 64


def with_evidence(model: Model, seen: Resolved) -> pymc.Model:
    """Parameters, and log p(rows | parameters)."""
    import pymc as pm

    if seen.binary and (why := refused_patterns(seen)) is not None:
        raise ModelError(f"{why}; use method gibbs", path=("model", "features"), code=why.code)
    built = pm.Model(coords={dim: labels.tolist() for dim, labels in seen.labels.items()})
    with built:
        pm.Potential("evidence", _binary(seen) if seen.binary else _gaussian(seen))
    return built


def _gaussian(seen: Resolved) -> Any:
    import pymc as pm
    import pytensor.tensor as pt

    from bayeslab.evidence import log_evidence

    assert seen.features is not None
    start = first_values(seen)
    loading = pm.Deterministic("loading", _triangle(seen, start), dims=("column", "feature"))
    noise, mean = _noise(seen, start["noise"]), _mean(seen, start["mean"])
    d = len(seen.columns)
    flat = pt.concatenate([mean, loading.ravel(), pt.broadcast_to(noise, (d,))])
    kernel = "bayeslab.exact.factor_kernels:factor_evidence"
    return log_evidence(kernel, flat, np.array([d, seen.features]), *Patterns.of(seen.rows).arrays)


def first_values(seen: Resolved) -> dict[str, np.ndarray]:
    """Principal components of the standardised columns, missing cells at their means: where chains start.

    Without means columns are measured from zero, and a component is their level.
    """
    assert seen.features is not None
    size = np.where(seen.size > 0, seen.size, 1.0)
    origin = seen.centre if seen.offset else np.zeros(len(size))
    filled = (np.where(np.isnan(seen.rows), seen.centre, seen.rows) - origin) / size
    k = min(seen.features, len(seen.columns) - 1)
    found = principal_components(filled, k, with_mean=seen.offset)
    loading = np.zeros((len(seen.columns), seen.features))
    loading[:, :k] = found["loading"] * size[:, None]
    loading[loading == 0] = 1e-2 * seen.pooled
    noise = np.maximum(float(found["noise"][0]) * size, 0.05 * np.where(seen.spread > 0, seen.spread, 1.0))
    if len(seen.noise) == 1:
        noise = np.array([np.sqrt(np.mean(noise**2))])
    return {"mean": seen.centre, "loading": loading, "noise": noise}


def _triangle(seen: Resolved, start: dict[str, np.ndarray]) -> Any:
    """Loadings that are lower triangular in an order of the columns that suits the data, with Bartlett's prior.

    W W' has the distribution it has if all loadings are independent N(0, scale²), whatever the order. The square of the
    last element of the diagonal has one degree of freedom, so that the element is normal up to its sign, and W W' does
    not depend on the sign. It is left free: kept positive, it holds chains in which the other loadings of its column
    have the wrong sign at zero, a mode that is none of the model's.

    Without means the loadings of a level far from zero differ by little among columns, and along coordinates of their
    own no step would be right for both. Independent normal loadings are that about any axes: there the triangle is one
    of the principal axes of where chains start, the first of which is the level.
    """
    import pymc as pm
    import pytensor.tensor as pt

    assert seen.features is not None
    k, d = seen.features, len(seen.columns)
    scale = _scale(seen)
    axes = axes_of(seen, start)
    begin = triangular(axes.T @ _white(seen, start))
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
    turned = unit_triangle[np.argmax(axes, axis=1)] if seen.offset else pt.dot(axes, unit_triangle)
    return turned * (scale if scale.ndim == 0 else scale[:, None])


def axes_of(seen: Resolved, start: dict[str, np.ndarray]) -> np.ndarray:
    """The axes (columns, columns) in which loadings are lower triangular: of the columns in some order, or turned."""
    if seen.offset:
        return np.eye(len(seen.columns))[:, pivots(start["loading"], seen.size)]
    return np.asarray(np.linalg.svd(_white(seen, start), full_matrices=True)[0])


def _white(seen: Resolved, start: dict[str, np.ndarray]) -> np.ndarray:
    """Loadings in standard deviations of their prior."""
    unit = np.array([s for s in seen.scale if isinstance(s, float)] or [np.sqrt(np.mean(seen.size**2))])
    return np.asarray(start["loading"] / np.broadcast_to(unit, (len(seen.columns),))[:, None])


def _scale(seen: Resolved) -> Any:
    """Sd of the loadings: one, or one for each column."""
    import pytensor.tensor as pt

    if isinstance(seen.scale[0], Written):
        return seen.scale[0].node("scale", initval=float(np.sqrt(np.mean(seen.size**2))))
    values = np.array(seen.scale, float)
    return pt.as_tensor_variable(values if len(values) > 1 else values[0])


def _noise(seen: Resolved, start: np.ndarray | None) -> Any:
    """Sd of the noise (1,) or (D,)."""
    import pytensor.tensor as pt

    first = seen.noise[0]
    if isinstance(first, float):
        return pt.as_tensor_variable(np.full(len(seen.noise), first))
    if len(seen.noise) == 1:
        return first.node("noise", initval=None if start is None else float(start[0]))[None]
    each = [w.arguments for w in seen.noise if isinstance(w, Written)]
    arguments = {name: np.array([a[name] for a in each]) for name in first.arguments}
    return pymc_class(first.word)("noise", **arguments, dims="column", initval=start)


def _mean(seen: Resolved, start: np.ndarray | None) -> Any:
    import pymc as pm
    import pytensor.tensor as pt

    if not seen.offset:
        return pt.zeros(len(seen.columns))
    return pm.Normal("mean", seen.centre, np.where(seen.offset_scale > 0, seen.offset_scale, 1.0), dims="column",
                     initval=start)  # fmt: skip


def _binary(seen: Resolved) -> Any:
    import pymc as pm
    import pytensor.tensor as pt

    from bayeslab.evidence import log_evidence

    assert seen.features is not None
    start = _drawn(seen)
    probability = pm.Beta("probability", *seen.probability, dims="feature", initval=start["probability"])
    loading = pm.Normal("loading", 0.0, _scale(seen), dims=("column", "feature"), initval=start["loading"])
    noise, mean = _noise(seen, start["noise"]), _mean(seen, start["mean"])
    flat = pt.concatenate([probability, loading.T.ravel(), mean, noise])
    kernel = "bayeslab.exact.feature_kernels:binary_evidence"
    return log_evidence(kernel, flat, np.ascontiguousarray(seen.rows), np.array([seen.features]))


def _drawn(seen: Resolved) -> dict[str, np.ndarray]:
    """The best of some Gibbs sweeps: where chains start."""
    best: Any = None
    for own in np.random.default_rng(0).spawn(3):
        one = sample(seen.rows, prior_of(seen), draws=_SWEEPS // 3, tune=_SWEEPS, rng=own)
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


def written_out(model: Model, seen: Resolved, data: Data) -> pymc.Model:
    """Parameters, ``z`` for each row, and a node for each column."""
    import pymc as pm
    import pytensor.tensor as pt

    rows = model.data.rows
    named = rows in data.labels
    n_rows = len(data.labels[rows]) if named else 1
    k = seen.features or STICKS
    labels = seen.labels | {"feature": np.arange(1, k + 1)}
    built = pm.Model(coords={dim: own.tolist() for dim, own in labels.items()})
    with built:
        if named:
            built.add_coord(rows, data.labels[rows].tolist())
        along = rows if named else None
        scale = _scale(seen)
        loading = pm.Normal(
            "loading", 0.0, scale if scale.ndim == 0 else scale[:, None], shape=(len(seen.columns), k),
            dims=("column", "feature"),
        )  # fmt: skip
        noise, mean = _noise(seen, None), _mean(seen, None)
        if seen.binary:
            probability = _probability(seen, k)
            z: Any = pm.Bernoulli("z", pt.broadcast_to(probability, (n_rows, k)), dims=(along, "feature"))
        else:
            z = pm.Normal("z", shape=(n_rows, k), dims=(along, "feature"))
        where = mean + pt.dot(z.astype("float64"), loading.T)
        values = pm.Normal("_rows", where, pt.broadcast_to(noise, where.shape))
        for j, column in enumerate(seen.columns):
            pm.Deterministic(column, values[:, j], dims=along)
    return built


def _probability(seen: Resolved, k: int) -> Any:
    """Of each feature: Beta, or the sticks of a buffet, each a share of the last (Teh, Görür, Ghahramani 2007)."""
    import pymc as pm
    import pytensor.tensor as pt

    if seen.features is not None:
        return pm.Beta("probability", *seen.probability, dims="feature")
    alpha = pm.Gamma("alpha", *seen.alpha) if isinstance(seen.alpha, tuple) else seen.alpha
    sticks = pm.Beta("_sticks", alpha, 1.0, shape=k)
    return pm.Deterministic("probability", pt.cumprod(sticks), dims="feature")
