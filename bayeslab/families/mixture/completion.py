"""Open cells of rows given the rest: a component by what the row shows, then the cells given it and the row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.families.mixture.model import Resolved
from bayeslab.families.mixture.parts import Gaussian, Part, StudentT

__all__ = ["completed"]


def completed(seen: Resolved, draws: Mapping[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The columns with open cells, (draws, rows), complete: what is given stays.

    Parameters
    ----------
    seen
        The mixture on the rows, NaN where a cell is open.
    draws
        Of its parameters, by their names in results.
    """
    names = list(seen.dims)
    n_draws, n_rows = len(draws[names[0]]), len(seen.rows)
    columns = [c for part in seen.parts.values() for c in part.columns]
    at = [seen.columns.index(c) for c in columns]
    out = np.repeat(seen.rows[None][:, :, at], n_draws, axis=0)
    for i in range(n_draws):
        theta = seen.theta({name: draws[name][i] for name in names})
        cumulated = np.cumsum(seen.problem.responsibilities(theta)[1], axis=1)
        labels = (rng.random((n_rows, 1)) * cumulated[:, -1:] >= cumulated).sum(axis=1)
        first = 0
        for name, part in seen.parts.items():
            place = slice(first, first + len(part.columns))
            first = place.stop
            lacking = np.isnan(out[i, :, place])
            if lacking.any():
                given = seen.rows[:, [seen.columns.index(c) for c in part.given]]
                made = _drawn(part, seen.own(name, theta), labels, out[i, :, place], given, rng)
                out[i, :, place] = np.where(lacking, made, out[i, :, place])
    open_ = np.isnan(seen.rows[:, at]).any(axis=0)
    return {c: out[..., j] for j, c in enumerate(columns) if open_[j]}


def _drawn(
    part: Part,
    theta: Mapping[str, Any],
    labels: np.ndarray,
    rows: np.ndarray,
    given: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Rows of a part in given components; columns that depend on each other given those that are there."""
    made = np.array(part.sample(rng, theta, labels, given), float)
    if isinstance(part, StudentT):
        matrices, dof = np.asarray(theta["scale"]), np.asarray(theta["dof"])
    elif isinstance(part, Gaussian) and part.covariance in ("full", "tied", "known"):
        matrices, dof = part.emission.covariances(theta), None
    else:
        return made
    lacking = np.isnan(rows)
    some = lacking.any(axis=1) & ~lacking.all(axis=1)
    for pattern in np.unique(lacking[some], axis=0):
        alike = (lacking == pattern).all(axis=1)
        for k in np.unique(labels[alike]):
            here = np.flatnonzero(alike & (labels == k))
            own = None if dof is None else float(dof[k])
            made[np.ix_(here, pattern)] = _given_the_rest(theta["mean"][k], matrices[k], own, rows[here], pattern, rng)
    return made


def _given_the_rest(
    mean: np.ndarray,
    matrix: np.ndarray,
    dof: float | None,
    rows: np.ndarray,
    open_: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draws of some columns of a normal, or of Student's t, given the others."""
    there = ~open_
    inner = np.linalg.solve(matrix[np.ix_(there, there)], matrix[np.ix_(there, open_)])
    apart = rows[:, there] - mean[there]
    left = matrix[np.ix_(open_, open_)] - matrix[np.ix_(open_, there)] @ inner
    values, vectors = np.linalg.eigh(left)
    noise = rng.standard_normal((len(rows), int(open_.sum()))) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    if dof is not None:
        # Student's t given a part of it is Student's t again (Ding 2016, The American Statistician 70, 293-295).
        distance = np.sum(apart * np.linalg.solve(matrix[np.ix_(there, there)], apart.T).T, axis=1)
        freedom = dof + there.sum()
        noise *= np.sqrt((dof + distance) / rng.chisquare(freedom, len(rows)))[:, None]
    return mean[open_] + apart @ inner + noise
