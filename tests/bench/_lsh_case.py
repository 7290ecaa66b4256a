"""Near points among a million: hashing against brute force, the recall measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.neighbors import NearestNeighbors

from bayeslab.learners.toolbox.lsh import LSHIndex, typical_radius

__all__ = ["Measured", "clustered", "measured", "planted"]

Case = tuple[str, np.ndarray, np.ndarray, float, int]


@dataclass(frozen=True)
class Measured:
    """Seconds of the processor a query, and what was found."""

    ours: float
    brute: float
    recall: float
    examined: float
    built: float
    tables: int


def planted(n: int, n_queries: int, rng: np.random.Generator) -> Case:
    """Gaussian points without any structure; each query lies near one of them: is that one found?"""
    x = rng.standard_normal((n, 64), np.float32)
    queries = x[rng.integers(0, n, n_queries)] + np.float32(0.25) * rng.standard_normal((n_queries, 64), np.float32)
    return "planted, 1 nearest", x, queries, 2.3, 1


def clustered(n: int, n_queries: int, rng: np.random.Generator) -> Case:
    """A thousand clusters, each a cloud of eight dimensions; queries are points like the others: their ten nearest."""
    centres = rng.standard_normal((1000, 64), np.float32)
    planes = np.float32(0.15) * rng.standard_normal((16, 8, 64), np.float32)

    def drawn(m: int) -> np.ndarray:
        group = rng.integers(0, 1000, m)
        out = centres[group]
        for plane in range(16):
            own = group % 16 == plane
            out[own] += rng.standard_normal((int(own.sum()), 8), np.float32) @ planes[plane]
        return out

    x, queries = drawn(n), drawn(n_queries)
    return "clusters, 10 nearest", x, queries, typical_radius(x - x.mean(axis=0), 10, rng), 10


def measured(case: Case, rng: np.random.Generator, repeats: int = 3) -> Measured:
    """Both sides in one process; the best of some repeats, and of two ways of brute force (products, scikit-learn)."""
    _, x, queries, radius, k = case
    start = time.process_time()
    index = LSHIndex(x, radius, 0.9, rng=rng)
    built = time.process_time() - start
    found = index.query(queries, k)
    truth, brute = _best(lambda: _brute(x, queries, k), 1)
    peer = NearestNeighbors(algorithm="brute").fit(x)
    _, other = _best(lambda: peer.kneighbors(queries, k), 1)
    brute = min(brute, other)
    _, ours = _best(lambda: index.query(queries, k), repeats)
    hits = sum(len(np.intersect1d(a, b)) for a, b in zip(truth, found.rows, strict=True))
    return Measured(
        ours / len(queries),
        brute / len(queries),
        hits / truth.size,
        float(found.examined.mean()),
        built,
        index.plan.tables,
    )


def _best[T](work: Callable[[], T], repeats: int) -> tuple[T, float]:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        out = work()
        times.append(time.process_time() - start)
    return out, min(times)


def _brute(x: np.ndarray, queries: np.ndarray, k: int) -> np.ndarray:
    """All distances by one product of matrices a block, in single precision."""
    own, found = (x**2).sum(axis=1), []
    for a in range(0, len(queries), 50):
        gap = queries[a : a + 50] @ x.T
        gap *= -2
        gap += own
        found.append(np.argpartition(gap, k - 1, axis=1)[:, :k])
    return np.concatenate(found)
