"""Hard clusterings: k-means with k-means++ seeds, and one-pass leader clusters.

References
----------
.. [1] Arthur, Vassilvitskii (2007). k-means++: the advantages of careful seeding. SODA, 1027-1035.
.. [2] Alpaydın (2010). Introduction to Machine Learning, 2nd ed., section 12.2 (leader clusters, vigilance).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayeslab.errors import DataError, OptionError

__all__ = ["Clusters", "distances", "k_means", "leader_clusters", "seeds"]


def seeds(points: np.ndarray, n_clusters: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of k-means++ seeds [1]_, each chosen with probability ∝ squared distance to the previous ones."""
    chosen = [int(rng.integers(len(points)))]
    nearest = np.sum((points - points[chosen[0]]) ** 2, axis=1)
    for _ in range(n_clusters - 1):
        total = nearest.sum()
        # All rows may coincide with a seed: then any row will do.
        p = nearest / total if total > 0 else None
        chosen.append(int(rng.choice(len(points), p=p)))
        nearest = np.minimum(nearest, np.sum((points - points[chosen[-1]]) ** 2, axis=1))
    return np.array(chosen)


@dataclass(frozen=True, eq=False)
class Clusters:
    """A hard clustering.

    Attributes
    ----------
    labels : ndarray (N,) of int
    centres : ndarray (K, D)
    trace : ndarray
        Reconstruction error (sum of squared distances to the centres) after each assignment.
    """

    labels: np.ndarray
    centres: np.ndarray
    trace: np.ndarray

    @property
    def error(self) -> float:
        return float(self.trace[-1])


def distances(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Squared distances of points to centres, (N, K)."""
    middle = points.mean(axis=0)
    a, b = points - middle, centres - middle
    return np.maximum(np.sum(a**2, axis=1)[:, None] - 2 * a @ b.T + np.sum(b**2, axis=1), 0.0)


def k_means(
    points: np.ndarray,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    centres: np.ndarray | None = None,
    max_iterations: int = 300,
) -> Clusters:
    """Lloyd's algorithm, the limit of EM with equal weights and one vanishing variance (vector quantisation).

    Starts from ``centres``, or from k-means++ seeds. A cluster left without rows gets the row that is
    farthest from its centre, so the reconstruction error never rises.
    """
    points = np.asarray(points, float)
    if not 1 <= n_clusters <= len(points):
        raise OptionError(
            f"{len(points)} rows can be put into 1 to {len(points)} clusters, not {n_clusters}", code="out-of-range"
        )
    if np.isnan(points).any():
        raise DataError(
            "k-means needs complete rows; fill the missing cells or fit a mixture with method: em", code="missing"
        )
    centres = points[seeds(points, n_clusters, rng)] if centres is None else np.asarray(centres, float)
    labels, trace = np.full(len(points), -1), []
    for _ in range(max_iterations):
        distance = distances(points, centres)
        new = distance.argmin(axis=1)
        nearest = distance[np.arange(len(points)), new]
        trace.append(float(nearest.sum()))
        for k in np.setdiff1d(np.arange(n_clusters), new):
            far = int(nearest.argmax())
            new[far], nearest[far] = k, 0.0
        if np.array_equal(new, labels):
            break
        labels = new
        size = np.bincount(labels, minlength=n_clusters)
        sums = np.stack([np.bincount(labels, column, n_clusters) for column in points.T], axis=1)
        centres = np.where(size[:, None] > 0, sums / np.maximum(size, 1)[:, None], centres)
    return Clusters(labels, centres, np.array(trace))


def leader_clusters(points: np.ndarray, vigilance: float, *, rate: float | None = None) -> Clusters:
    """One pass in the rows' order: a row farther than ``vigilance`` from every centre starts a cluster [2]_.

    Otherwise the nearest centre moves towards it, by ``rate``, or so that it stays its rows' mean.
    """
    if not vigilance > 0:
        raise OptionError(f"vigilance is a positive distance, not {vigilance:g}", code="out-of-range")
    points = np.asarray(points, float)
    centres, sizes = [points[0].copy()], [1]
    labels, error, trace = np.zeros(len(points), int), 0.0, [0.0]
    for n, point in enumerate(points[1:], 1):
        distance = np.linalg.norm(np.array(centres) - point, axis=1)
        k = int(distance.argmin())
        if distance[k] > vigilance:
            k = len(centres)
            centres.append(point.copy())
            sizes.append(1)
        else:
            error += distance[k] ** 2
            sizes[k] += 1
            centres[k] += (point - centres[k]) * (1 / sizes[k] if rate is None else rate)
        labels[n] = k
        trace.append(error)
    return Clusters(labels, np.array(centres), np.array(trace))
