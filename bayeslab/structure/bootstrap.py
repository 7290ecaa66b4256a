"""Bootstrap confidence in edges: learn from resampled rows and count how often each edge is found.

Each sample draws as many rows as there are, with replacement; the confidence in an edge is the share of samples in
which it is found [1]_. The confidence measures the stability of a search and is not a posterior probability: an edge
that the search wrongly finds every time has confidence 1.

References
----------
.. [1] Friedman, Goldszmidt, Wyner (1999). Data analysis with Bayesian networks: a bootstrap approach. UAI 15, 196-205.
.. [2] Scutari, Nagarajan (2013). Identifying significant edges in graphical models of molecular networks.
   Artificial Intelligence in Medicine 57, 207-217 (the threshold).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from bayeslab.arrays import count
from bayeslab.errors import OptionError
from bayeslab.structure.cpdag import cpdag
from bayeslab.structure.data import Observations
from bayeslab.workers import check_jobs, each

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["EdgeConfidence", "bootstrap"]


# Default number of samples: the resolution of a confidence is then 0.0005.
_MOST = 1_000_000


@dataclass(frozen=True, eq=False)
class EdgeConfidence:
    """Confidence in edges, as shares of bootstrap samples.

    Attributes
    ----------
    names : tuple of str
    directed : ndarray, shape (n, n)
        At [from, to], the share of samples with the edge in that direction; an edge without a direction in the
        equivalence class counts half for each direction.
    n_samples : int
    """

    names: tuple[str, ...]
    directed: NDArray[np.float64]
    n_samples: int

    @cached_property
    def joined(self) -> NDArray[np.float64]:
        """Share of samples in which two variables are adjacent, shape (n, n)."""
        return np.asarray(self.directed + self.directed.T)

    @property
    def threshold(self) -> float:
        """The threshold that separates high from low confidences.

        It minimises the distance between the cumulative distribution of the confidences and that of a graph whose edges
        all have confidence 1 and whose other pairs have confidence 0 [2]_.
        """
        values = np.sort(self.joined[np.triu_indices(len(self.names), 1)])
        if not values.size:
            return 0.5
        points = np.concatenate([[0.0], values, [1.0]])
        below = np.arange(len(points) - 1) / len(values)
        widths = np.diff(points)
        # A graph with a share t of non-adjacent pairs has the distribution function t on [0, 1).
        away = [float(np.sum(np.abs(below - t) * widths)) for t in below]
        cut = int(np.argmin(away))
        return float(values[cut]) if cut < len(values) else float(np.nextafter(values[-1], 2))

    def graph(self, threshold: float | None = None) -> nx.DiGraph:
        """Edges with at least the threshold confidence, in their more frequent direction; there may be cycles.

        Both directions are present if they are equally frequent. Edges have ``confidence`` and ``direction``, the share
        of that direction among the samples with the edge.
        """
        limit = self.threshold if threshold is None else threshold
        out = nx.DiGraph()
        out.add_nodes_from(self.names)
        for u, v in np.argwhere(self.joined >= max(limit, 1e-12)).tolist():
            share = float(self.directed[u, v] / self.joined[u, v])
            if u != v and share >= 0.5:
                confidence = float(self.joined[u, v])
                out.add_edge(self.names[u], self.names[v], confidence=confidence, direction=share)
        return out

    def table(self) -> pd.DataFrame:
        """Edges found at least once, highest confidence first.

        Returns
        -------
        pandas.DataFrame
            ``from``, ``to``, ``joined`` (share of samples with the edge) and ``directed`` (share in this direction).
        """
        import pandas as pd

        edges = sorted((-self.joined[u, v], -self.directed[u, v], u, v) for u, v in np.argwhere(self.directed).tolist())
        rows = [(self.names[u], self.names[v], float(-both), float(-one)) for both, one, u, v in edges]
        return pd.DataFrame(rows, columns=["from", "to", "joined", "directed"])


def bootstrap(
    data: Observations,
    learn: Callable[[Observations], nx.DiGraph],
    *,
    rng: np.random.Generator,
    samples: int = 200,
    jobs: int = 1,
    scheduler: str | None = None,
) -> EdgeConfidence:
    """Learn from many samples of the rows.

    Parameters
    ----------
    data
        Rows (:meth:`bayeslab.structure.data.Observations.of`); their weights are whole numbers.
    learn
        Function from rows to a DAG, for example ``lambda rows: tabu.search(load("bdeu", rows)).graph``.
    rng
        Draws the samples.
    samples
        Number of samples. The standard error of a confidence is at most 0.5 / sqrt(samples).
    jobs, scheduler
        Number of processes that learn in parallel, or the address of a Dask scheduler whose workers do. The
        confidences do not depend on them.
    """
    samples = count(samples, "samples", 1, _MOST)
    check_jobs(jobs)
    if data.weights.dtype.kind not in "iu":
        raise OptionError(
            "the bootstrap draws rows, so that their weights are whole numbers; expected counts are not",
            code="not-applicable",
        )
    n_rows, share = int(data.n_rows), data.weights / data.weights.sum()
    drawn = (rng.multinomial(n_rows, share) for _ in range(samples))
    # Halves are added without rounding, so their order does not matter.
    directed = np.zeros((data.n, data.n))
    for edges in each(_edges, (data, learn), drawn, jobs=jobs, scheduler=scheduler):
        directed += edges
    return EdgeConfidence(data.names, directed / samples, samples)


def _edges(
    shared: tuple[Observations, Callable[[Observations], nx.DiGraph]], counts: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Edges learned from the rows drawn so often: 1 at [from, to], or 1/2 in both directions."""
    data, learn = shared
    kept = np.flatnonzero(counts)
    states = dict(zip(data.names, data.states, strict=True))
    values = data.values[kept] if len(data.values) else None
    rows = Observations.of_codes(data.codes[kept], states, weights=counts[kept], values=values)
    number = {v: i for i, v in enumerate(data.names)}
    directed = np.zeros((data.n, data.n))
    pattern = cpdag(learn(rows))
    for u, v in pattern.directed:
        directed[number[u], number[v]] += 1
    for u, v in map(sorted, pattern.undirected):
        directed[number[u], number[v]] += 0.5
        directed[number[v], number[u]] += 0.5
    return directed
