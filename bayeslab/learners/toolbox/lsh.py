r"""Locality-sensitive hashing: an index for near points.

Near points fall into the same bucket of a random hash function more often than distant points. For the Hamming distance
the hash functions are single bits [1]_, which agree with probability :math:`1 - d/n`; for the Euclidean distance they
are the cells of width w of random projections [2]_, with

.. math:: p(d) = 1 - 2\Phi(-w/d) - \frac{2}{\sqrt{2\pi}\,w/d}\left(1 - e^{-w^2/2d^2}\right).

A table combines k hash functions, and L tables are searched: a point within the radius is missed with probability at
most :math:`(1 - p^k)^L`. The cells next to the cell of the query are probed too, the nearest first [3]_, which needs
fewer tables; the hit probability of the probes is simulated, and its lower confidence bound is used.

References
----------
.. [1] Indyk, Motwani (1998). Approximate nearest neighbors: towards removing the curse of dimensionality. STOC 30.
.. [2] Datar, Immorlica, Indyk, Mirrokni (2004). Locality-sensitive hashing scheme based on p-stable distributions.
   SCG 20, 253-262.
.. [3] Lv, Josephson, Wang, Charikar, Li (2007). Multi-probe LSH: efficient indexing for high-dimensional similarity
   search. VLDB 33, 950-961.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from bayeslab.learners.toolbox.lsh_kernels import buckets, first_near, hit_ranks, nearest, sorted_buckets

__all__ = ["Candidates", "LSHIndex", "Plan", "collision", "typical_radius"]

Array = NDArray[np.float64]

# Rough costs in nanoseconds, for the choice of k, L and w.
_PROJECT, _PROBE, _CANDIDATE = 8.0, 150.0, 120.0
_WIDTHS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0)
_LENGTHS = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28)
_PROBES = (1, 4, 8, 16, 32, 64)
_SIMULATED = 1000
# With fewer points further tables are cheap, but simulations are not.
_FEW = 5000


def collision(distance: Any, width: float) -> Array:
    """Probability that two points at this distance share the cell of a random projection."""
    ratio = width / np.maximum(np.asarray(distance, float), 1e-300)
    with np.errstate(over="ignore"):
        tail = 2 / (math.sqrt(2 * math.pi) * ratio) * -np.expm1(-0.5 * ratio**2)
    return np.asarray(1 - 2 * ndtr(-ratio) - tail)


@dataclass(frozen=True)
class Plan:
    """Sizes of an index.

    Attributes
    ----------
    width : float
        Width of the cells, in units of the radius; zero for bits.
    length : int
        Number k of hash functions per table.
    tables : int
        Number L of tables.
    probes : int
        Number of cells probed in each table.
    hit : float
        Lower bound on the probability that a table returns a point at the radius.
    """

    width: float
    length: int
    tables: int
    probes: int
    hit: float

    @property
    def recall(self) -> float:
        """Lower bound on the probability that a point within the radius is among the candidates."""
        return 1 - (1 - self.hit) ** self.tables


@dataclass(frozen=True, eq=False)
class Candidates:
    """The result of a query.

    Attributes
    ----------
    distances : ndarray, shape (queries, k)
        Distances, nearest first; infinite if there are fewer candidates.
    rows : ndarray, shape (queries, k)
        Rows of the candidates; -1 if there are fewer.
    examined : ndarray, shape (queries,)
        Number of candidates whose distance was computed.
    """

    distances: Array
    rows: NDArray[np.int64]
    examined: NDArray[np.int64]


def typical_radius(points: NDArray[Any], k: int, rng: np.random.Generator, share: float = 0.9) -> float:
    """Distance within which this share of the points (of a sample) has its k-th neighbour."""
    asked = rng.choice(len(points), min(len(points), 64), replace=False)
    k = min(k, len(points) - 1)
    if k < 1:
        return 1.0
    squared = (points.astype(np.float32) ** 2).sum(axis=1)
    radii = []
    for i in asked:
        gap = np.maximum(squared - 2 * (points @ points[i]) + squared[i], 0.0)
        gap[i] = 0.0
        radii.append(math.sqrt(float(np.partition(gap, k)[k])))
    radius = float(np.quantile(radii, share))
    return radius if radius > 0 else 1e-6 + 1e-3 * float(np.sqrt(squared.max()))


class LSHIndex:
    """Hash tables over points.

    Parameters
    ----------
    points : ndarray, shape (points, dimensions)
        Zeros and ones for the Hamming distance.
    radius : float
        Search radius.
    recall : float
        Minimum probability of finding each point within the radius.
    metric : {"euclidean", "hamming"}
    max_tables : int
    rng : numpy.random.Generator
        Random generator for the hash functions.

    Attributes
    ----------
    plan : Plan
    """

    def __init__(
        self,
        points: Any,
        radius: float,
        recall: float = 0.9,
        metric: Literal["euclidean", "hamming"] = "euclidean",
        max_tables: int = 48,
        rng: np.random.Generator | None = None,
    ) -> None:
        table = np.asarray(points)
        if table.ndim != 2 or not table.size or not np.isfinite(table).all():
            raise ValueError("points are a table of finite numbers with a row and a column at least")
        if not (radius > 0 and 0 < recall < 1 and max_tables >= 1):
            raise ValueError(f"radius > 0, 0 < recall < 1 and max_tables ≥ 1: {radius!r}, {recall!r}, {max_tables!r}")
        if metric not in ("euclidean", "hamming"):
            raise ValueError(f"metric is euclidean or hamming, not {metric!r}")
        if metric == "hamming" and not np.isin(table, (0, 1)).all():
            raise ValueError("the hash functions of Hamming's distance pick bits: points hold zeros and ones")
        rng = rng or np.random.default_rng(0)
        self.metric, self.radius, self.recall = metric, float(radius), recall
        # Numbers, but not bits, are centred, so that single precision is enough.
        self._centre = table.mean(axis=0) if metric == "euclidean" else np.zeros(table.shape[1])
        self.points = np.ascontiguousarray(table - self._centre, np.float32)
        self.plan = self._planned(max_tables, rng)
        self._hash(rng)

    def _planned(self, max_tables: int, rng: np.random.Generator) -> Plan:
        """Return the cheapest plan that has the recall, from the distances between a sample of points."""
        n, d = self.points.shape
        left = self.points[rng.integers(0, n, 64)]
        right = self.points[rng.integers(0, n, min(n, 2000))]
        squared = ((left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2 * left @ right.T).clip(0)
        sample = squared.ravel() if self.metric == "hamming" else np.sqrt(squared).ravel()
        best: tuple[float, Plan] | None = None
        for plan, share in self._plans(sample, d, rng):
            if plan.tables > max_tables:
                continue
            work = plan.length * d * _PROJECT / 64 + plan.probes * (_PROBE + n * share * _CANDIDATE)
            if best is None or work * plan.tables < best[0]:
                best = work * plan.tables, plan
        if best is None:
            raise ValueError(
                f"no index of up to {max_tables} tables finds points within {self.radius:g} with probability"
                f" {self.recall:g}: take a smaller radius or more tables"
            )
        return best[1]

    def _plans(self, sample: Array, d: int, rng: np.random.Generator) -> Any:
        """Yield plans, and the share of points that a bucket returns."""
        if self.metric == "hamming":
            near = 1 - self.radius / d
            for length in _LENGTHS:
                if near > 0:
                    yield self._plan(0.0, length, 1, near**length), float(np.mean((1 - sample / d) ** length))
            return
        fraction = rng.uniform(size=(_SIMULATED, max(_LENGTHS)))
        normal = rng.normal(size=(_SIMULATED, max(_LENGTHS)))
        factors = _factors(rng, 1, max(_LENGTHS))[0]
        for width in _WIDTHS:
            near, far = float(collision(1.0, width)), collision(sample / self.radius, width)
            offset = np.floor(fraction + normal / width).astype(np.int64)
            for length in _LENGTHS:
                share = float(np.mean(far**length))
                yield self._plan(width, length, 1, near**length), share
                if len(self.points) < _FEW:
                    continue
                inside, aside = fraction[:, :length].copy(), offset[:, :length].copy()
                ranks = hit_ranks(inside, aside, factors[:length].copy(), max(_PROBES))
                for probes in _PROBES[1:]:
                    hit = float(np.mean(ranks < probes))
                    low = hit - 2 * math.sqrt(hit * (1 - hit) / _SIMULATED + 1e-9)
                    if low > 0:
                        yield self._plan(width, length, probes, low), share

    def _plan(self, width: float, length: int, probes: int, hit: float) -> Plan:
        hit = min(hit, 1 - 1e-9)
        tables = math.log(1 - self.recall) / math.log1p(-hit) if hit > 1e-9 else math.inf
        return Plan(width, length, max(1, math.ceil(min(tables, 1e9))), probes, hit)

    def _hash(self, rng: np.random.Generator) -> None:
        n, d = self.points.shape
        plan = self.plan
        size = plan.tables * plan.length
        if self.metric == "hamming":
            self._directions = np.zeros((d, size), np.float32)
            self._directions[rng.integers(0, d, size), np.arange(size)] = 1
            self._shift = np.full(size, 0.5, np.float32)
        else:
            self._directions = (rng.normal(size=(d, size)) / (plan.width * self.radius)).astype(np.float32)
            self._shift = rng.uniform(size=size).astype(np.float32)
        self._factors = _factors(rng, plan.tables, plan.length)
        self._bits = max(1, min(22, math.ceil(math.log2(n + 1))))
        starts = np.empty((plan.tables, (1 << self._bits) + 1), np.int32)
        rows = np.empty((plan.tables, n), np.int32)
        bucket = np.empty((plan.tables, n), np.int32)
        step = max(1, 8_000_000 // size)
        for a in range(0, n, step):
            bucket[:, a : a + step] = buckets(self._projected(self.points[a : a + step]), self._factors, self._bits)
        for t in range(plan.tables):
            starts[t], rows[t] = sorted_buckets(bucket[t], self._bits)
        self._starts, self._rows = starts, rows

    def _projected(self, points: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(points @ self._directions + self._shift)

    def _asked(self, queries: Any) -> NDArray[np.float32]:
        asked = np.atleast_2d(np.asarray(queries))
        if asked.shape[1] != self.points.shape[1]:
            raise ValueError(f"queries have {asked.shape[1]} columns, points {self.points.shape[1]}")
        return np.ascontiguousarray(asked - self._centre, np.float32)

    def query(self, queries: Any, k: int = 1) -> Candidates:
        """Return the k nearest candidates of each query."""
        asked = self._asked(queries)
        if not 1 <= k <= len(self.points):
            raise ValueError(f"k is {k!r}, and there are {len(self.points)} points")
        squared, rows, examined = nearest(
            self.points,
            asked,
            self._projected(asked),
            self._factors,
            self._starts,
            self._rows,
            self._bits,
            self.plan.probes,
            k,
        )
        wide = squared.astype(float)
        return Candidates(wide if self.metric == "hamming" else np.sqrt(wide), rows, examined)

    def near(self, queries: Any, factor: float = 2.0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return a point within ``factor`` times the radius of each query (or -1), and the number of points examined.

        If there is a point within the radius, a point within ``factor`` times the radius is returned with probability
        at least ``recall``; no point farther away is ever returned.
        """
        if not factor >= 1:
            raise ValueError(f"factor is at least 1, not {factor!r}")
        asked, reach = self._asked(queries), factor * self.radius
        limit = float(reach if self.metric == "hamming" else reach**2)
        return first_near(
            self.points,
            asked,
            self._projected(asked),
            self._factors,
            self._starts,
            self._rows,
            self._bits,
            self.plan.probes,
            limit,
        )

    def measured_recall(self, queries: Any, k: int = 1) -> float:
        """Share of the true k nearest points, found by brute force, that the index returns."""
        asked = self._asked(queries)
        mine = self.query(queries, k).rows
        hits = 0
        norms = (self.points**2).sum(axis=1)
        for i, query in enumerate(asked):
            gap = norms - 2 * (self.points @ query)
            hits += len(np.intersect1d(np.argpartition(gap, k - 1)[:k], mine[i]))
        return hits / (len(asked) * k)


def _factors(rng: np.random.Generator, tables: int, length: int) -> NDArray[np.int64]:
    """Odd random factors; the key of a table is the sum of its cells times the factors."""
    return rng.integers(-(2**62), 2**62, (tables, length)) | 1
