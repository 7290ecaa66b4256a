"""Draws of missing cells in jointly normal or Student's t rows, given the observed cells.

References
----------
.. [1] Ding (2016). On the conditional distribution of the multivariate t distribution. The American Statistician 70,
   293-295.
"""

from __future__ import annotations

import numpy as np

from bayeslab.distributions.emissions.normal_moments import patterns

__all__ = ["fill_normal"]


def fill_normal(
    rows: np.ndarray,
    cluster: np.ndarray,
    centre: np.ndarray,
    matrices: np.ndarray,
    dof: np.ndarray | None,
    rng: np.random.Generator,
) -> None:
    """Draw the missing cells of rows in normal or Student's t clusters given the observed ones, in place."""
    d = rows.shape[1]
    for alike, columns in reversed(list(patterns(rows))):
        lacking = ~np.isin(np.arange(d), columns)
        if not lacking.any():
            continue
        for k in np.unique(cluster[alike]):
            here = alike[cluster[alike] == k]
            freedom = None if dof is None or np.isinf(dof[k]) else float(dof[k])
            rows[np.ix_(here, lacking)] = _given_the_rest(centre[k], matrices[k], freedom, rows[here], lacking, rng)


def _given_the_rest(
    mean: np.ndarray,
    matrix: np.ndarray,
    dof: float | None,
    rows: np.ndarray,
    open_: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draws of some columns of a normal or Student's t vector given the others."""
    there = ~open_
    inner = np.linalg.solve(matrix[np.ix_(there, there)], matrix[np.ix_(there, open_)])
    apart = rows[:, there] - mean[there]
    left = matrix[np.ix_(open_, open_)] - matrix[np.ix_(open_, there)] @ inner
    values, vectors = np.linalg.eigh(left)
    noise = rng.standard_normal((len(rows), int(open_.sum()))) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    if dof is not None:
        # The conditional distributions of Student's t are Student's t [1]_.
        distance = np.sum(apart * np.linalg.solve(matrix[np.ix_(there, there)], apart.T).T, axis=1)
        freedom = dof + there.sum()
        noise *= np.sqrt((dof + distance) / rng.chisquare(freedom, len(rows)))[:, None]
    return mean[open_] + apart @ inner + noise
