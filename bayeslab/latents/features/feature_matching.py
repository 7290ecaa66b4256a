"""Matching of features across draws: permutations of binary features, rotations of continuous ones.

References
----------
.. [1] Kuhn (1955). The Hungarian method for the assignment problem. Naval Research Logistics Quarterly 2, 83-97.
.. [2] Stephens (2000). Dealing with label switching in mixture models. JRSS B 62, 795-809 (draws and mean in turns).
.. [3] Schönemann (1966). A generalized solution of the orthogonal Procrustes problem. Psychometrika 31, 1-10.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from bayeslab.latents.assignment import best_assignments

__all__ = ["match_columns", "permutations", "principal_axes", "rotated", "turned"]


def match_columns(reference: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """For each column of a binary matrix the column of the reference that it is, -1 if it is none of them.

    The pairs are those with the fewest differing entries in all, where a column without partner differs from zeros.
    """
    k, n_known = columns.shape[1], reference.shape[1]
    ours, theirs = columns.astype(float), reference.astype(float)
    differing = ours.sum(axis=0)[:, None] + theirs.sum(axis=0) - 2 * ours.T @ theirs
    alone = np.where(np.eye(k, dtype=bool), ours.sum(axis=0)[:, None], np.inf)
    cost = np.hstack([differing - theirs.sum(axis=0), alone])
    mine, matched = linear_sum_assignment(cost)
    out = np.full(k, -1)
    out[mine] = np.where(matched < n_known, matched, -1)
    return out


def permutations(loadings: np.ndarray, *, turning: bool = False, passes: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Which feature of each draw is the first, second, ... (S, K): those nearest to the mean of the draws.

    Parameters
    ----------
    loadings : ndarray (S, D, K)
    turning : bool
        Features may be turned round, so that loadings change their sign.

    Returns
    -------
    moves, signs : ndarray (S, K)
        Signs of the features in their new places.
    """
    n_draws, _, k = loadings.shape
    moves, signs = np.tile(np.arange(k), (n_draws, 1)), np.ones((n_draws, k))
    mean, squares = loadings[-1], (loadings**2).sum(axis=1)[:, None, :]
    for _ in range(passes):
        before = moves, signs
        inner = np.einsum("dk,sdj->skj", mean, loadings)
        facing = np.where(inner < 0, -1.0, 1.0) if turning else np.ones(inner.shape)
        apart = (mean**2).sum(axis=0)[:, None] - 2 * facing * inner + squares
        moves = best_assignments(apart)
        signs = np.take_along_axis(facing, moves[:, :, None], axis=2)[..., 0]
        mean = (np.take_along_axis(loadings, moves[:, None, :], axis=2) * signs[:, None, :]).mean(axis=0)
        if np.array_equal(moves, before[0]) and np.array_equal(signs, before[1]):
            break
    order = np.argsort(-(mean**2).sum(axis=0), kind="stable")
    return moves[:, order], signs[:, order]


def turned(
    signs: np.ndarray, loading: np.ndarray, probability: np.ndarray, mean: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features with a negative sign as features of the rows that have them not: the rows have the same law.

    Parameters
    ----------
    signs, probability : ndarray (S, K)
    loading : ndarray (S, D, K)
    mean : ndarray (S, D)
    """
    back = signs < 0
    moved = mean + np.sum(loading * back[:, None, :], axis=2)
    return loading * signs[:, None, :], np.where(back, 1 - probability, probability), moved


def principal_axes(loading: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """The rotation of the loadings W (D, K) in which W' Ψ⁻¹ W is diagonal and falls, each axis with a positive sum."""
    left, values, _ = np.linalg.svd(loading / noise[:, None], full_matrices=False)
    turned = noise[:, None] * left * values
    return np.asarray(turned * np.where(turned.sum(axis=0) < 0, -1.0, 1.0))


def rotated(loadings: np.ndarray, noises: np.ndarray) -> np.ndarray:
    """Draws of loadings turned to the principal axes of their mean: W W' of every draw stays as it is.

    The axes are those of the mean of W W' over the draws, which no rotation changes; every draw is turned to them as
    near as a rotation brings it.

    Parameters
    ----------
    loadings : ndarray (S, D, K)
    noises : ndarray (S, D)
        Sds.
    """
    k, noise = loadings.shape[2], np.sqrt(np.mean(noises**2, axis=0))
    white = loadings / noise[:, None]
    values, vectors = np.linalg.eigh(np.einsum("sdk,sek->de", white, white) / len(white))
    axes = vectors[:, ::-1][:, :k] * np.sqrt(np.maximum(values[::-1][:k], 0))
    axes = axes * np.where((noise[:, None] * axes).sum(axis=0) < 0, -1.0, 1.0)
    left, _, right = np.linalg.svd(np.einsum("sdk,dj->skj", white, axes))
    return np.asarray(loadings @ (left @ right))
