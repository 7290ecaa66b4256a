"""The log density of latent features, with those of all rows integrated or summed out."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeslab.errors import ModelError
from bayeslab.families.latent_features.gibbs_sampling import prior_of
from bayeslab.families.latent_features.model import Resolved, Written, refused_patterns
from bayeslab.language.writer import Writer
from bayeslab.latents.features.binary_features import sample
from bayeslab.latents.features.factor_analysis import Patterns, pivots, principal_components, triangular
from bayeslab.latents.features.feature_matching import permutations
from bayeslab.posterior.machine.model import MachineModel
from bayeslab.posterior.machine.writer import ProgramWriter

__all__ = [
    "axes_of",
    "coordinates",
    "first_values",
    "machine_model",
    "write_evidence",
    "write_mean",
    "write_noise",
    "write_scale",
]

# Number of Gibbs sweeps to find start values of chains of binary features.
_SWEEPS = 300


def machine_model(resolved: Resolved) -> MachineModel:
    """Parameters, and log p(rows | parameters), as a program."""
    writer = ProgramWriter(coordinates(resolved))
    write_evidence(writer, resolved)
    return writer.finish()


def coordinates(resolved: Resolved) -> dict[str, list[Any]]:
    """Labels of the dimensions of parameters."""
    return {dim: labels.tolist() for dim, labels in resolved.labels.items()}


def write_evidence(writer: Writer, resolved: Resolved) -> None:
    """Write the parameters, and log p(rows | parameters)."""
    if resolved.binary and (why := refused_patterns(resolved)) is not None:
        raise ModelError(f"{why}; use method gibbs", path=("model", "features"), code=why.code)
    writer.add("evidence", _binary(writer, resolved) if resolved.binary else _gaussian(writer, resolved))


def _gaussian(writer: Writer, resolved: Resolved) -> Any:
    assert resolved.features is not None
    start = first_values(resolved)
    loading = writer.computed("loading", _triangle(writer, resolved, start), ("column", "feature"))
    noise, mean = write_noise(writer, resolved, start["noise"]), write_mean(writer, resolved, start["mean"])
    d = len(resolved.columns)
    flat = [mean, loading, writer.ops.broadcast_to(noise, (d,))]
    kernel = "bayeslab.latents.features.factor_kernels:factor_evidence"
    return writer.evidence(kernel, flat, np.array([d, resolved.features]), *Patterns.of(resolved.rows).arrays)


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


def _triangle(writer: Writer, resolved: Resolved, start: dict[str, np.ndarray]) -> Any:
    """Lower triangular loadings in an order of the columns that suits the data, with Bartlett's prior.

    In any order, W W' has the same distribution as for independent loadings N(0, scale²). The square of the last
    diagonal element has one degree of freedom, so that the element is normal up to its sign, on which W W' does not
    depend. The sign is left free: a positivity constraint would trap chains at zero when the other loadings of the
    column have the wrong sign, an artificial mode.

    Without means, the loadings of a level far from zero are nearly equal across columns, so that the original
    coordinates are badly scaled. Independent normal loadings are invariant to rotation: the triangle then refers to the
    principal axes of the start values, the first of which is the level.
    """
    assert resolved.features is not None
    k, d = resolved.features, len(resolved.columns)
    scale = write_scale(writer, resolved)
    axes = axes_of(resolved, start)
    begin = triangular(axes.T @ _white(resolved, start))
    low = np.tril_indices(d, -1, k)
    first = np.diag(begin[:k])
    standard = {"mu": 0.0, "sigma": 1.0}
    last = writer.random("_last", "Normal", standard, (1,), start=first[-1:])
    diagonal = last
    if k > 1:
        dof = np.arange(k, 1, -1).astype(float)
        squares = writer.random(
            "_squares", "ChiSquared", {"nu": dof}, (k - 1,), start=np.maximum(first[:-1] ** 2, 1e-2)
        )
        diagonal = writer.joined([writer.sqrt(squares), last])
    n_below = len(low[0])
    below = writer.random("_below", "Normal", standard, (n_below,), start=begin[low]) if n_below else np.zeros(0)
    at = tuple(np.concatenate([np.arange(k), each]) for each in low)
    unit_triangle = writer.placed((d, k), at, writer.joined([diagonal, below]))
    turned = unit_triangle[np.argmax(axes, axis=1)] if resolved.offset else writer.dot(axes, unit_triangle)
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


def write_scale(writer: Writer, resolved: Resolved) -> Any:
    """Sd of the loadings: one, or one for each column."""
    first = resolved.scale[0]
    if isinstance(first, Written):
        start = np.array(np.sqrt(np.mean(resolved.size**2)))
        return writer.random("scale", first.word, first.arguments, start=start)
    values = np.array(resolved.scale, float)
    return writer.constant(values if len(values) > 1 else values[0])


def write_noise(writer: Writer, resolved: Resolved, start: np.ndarray | None) -> Any:
    """Sd of the noise (1,) or (D,)."""
    first = resolved.noise[0]
    if isinstance(first, float):
        return writer.constant(np.full(len(resolved.noise), first))
    if len(resolved.noise) == 1:
        one = None if start is None else np.array(start[0])
        return writer.random("noise", first.word, first.arguments, start=one)[None]
    each = [w.arguments for w in resolved.noise if isinstance(w, Written)]
    arguments = {name: np.array([a[name] for a in each]) for name in first.arguments}
    return writer.random("noise", first.word, arguments, (len(each),), dims=("column",), start=start)


def write_mean(writer: Writer, resolved: Resolved, start: np.ndarray | None) -> Any:
    """Means of the columns (D,)."""
    if not resolved.offset:
        return writer.constant(np.zeros(len(resolved.columns)))
    scale = np.where(resolved.offset_scale > 0, resolved.offset_scale, 1.0)
    given = {"mu": resolved.centre, "sigma": scale}
    return writer.random("mean", "Normal", given, scale.shape, dims=("column",), start=start)


def _binary(writer: Writer, resolved: Resolved) -> Any:
    assert resolved.features is not None
    start = _drawn(resolved)
    d, k = len(resolved.columns), resolved.features
    given = dict(zip(("alpha", "beta"), resolved.probability, strict=True))
    probability = writer.random("probability", "Beta", given, (k,), dims=("feature",), start=start["probability"])
    given = {"mu": 0.0, "sigma": write_scale(writer, resolved)}
    loading = writer.random("loading", "Normal", given, (d, k), dims=("column", "feature"), start=start["loading"])
    noise, mean = write_noise(writer, resolved, start["noise"]), write_mean(writer, resolved, start["mean"])
    flat = [probability, loading.T, mean, noise]
    kernel = "bayeslab.latents.features.feature_kernels:binary_evidence"
    return writer.evidence(kernel, flat, np.ascontiguousarray(resolved.rows), np.array([resolved.features]))


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
