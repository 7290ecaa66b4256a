"""How sure edges are, by the bootstrap: learn from rows drawn again and count what comes back.

Each sample draws as many rows as there are, with replacement; the confidence in an edge is how often it was found [1]_.
It measures how stable a search is, which is no posterior probability: what a search finds wrongly every time is sure.

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

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["EdgeConfidence", "bootstrap"]


# Samples: a confidence is then known to 0.0005.
_MOST = 1_000_000


@dataclass(frozen=True, eq=False)
class EdgeConfidence:
    """Shares of bootstrap samples.

    Attributes
    ----------
    names : tuple of str
    directed : ndarray, shape (n, n)
        At [from, to], how often the edge was found in that direction; an edge that the equivalence class leaves open
        counts half for each.
    n_samples : int
    """

    names: tuple[str, ...]
    directed: NDArray[np.float64]
    n_samples: int

    @cached_property
    def joined(self) -> NDArray[np.float64]:
        """How often two variables were joined, shape (n, n)."""
        return np.asarray(self.directed + self.directed.T)

    @property
    def threshold(self) -> float:
        """Where the confidences fall apart into high and low.

        That of the cuts for which the confidences are nearest to those of a graph whose edges are sure and whose
        other pairs are never found, in the distance between cumulative distributions [2]_.
        """
        values = np.sort(self.joined[np.triu_indices(len(self.names), 1)])
        if not values.size:
            return 0.5
        points = np.concatenate([[0.0], values, [1.0]])
        below = np.arange(len(points) - 1) / len(values)
        widths = np.diff(points)
        # A graph with a share t of pairs not joined has the distribution function t on [0, 1).
        away = [float(np.sum(np.abs(below - t) * widths)) for t in below]
        cut = int(np.argmin(away))
        return float(values[cut]) if cut < len(values) else float(np.nextafter(values[-1], 2))

    def graph(self, threshold: float | None = None) -> nx.DiGraph:
        """Edges at least as sure as the threshold, in their more frequent direction; it may have circles.

        Both directions if they are equally frequent. Edges carry ``confidence`` and ``direction``, the share of that
        direction among the samples with the edge.
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
        """Edges found at least once, the surest first.

        Returns
        -------
        pandas.DataFrame
            ``from``, ``to``, ``joined`` (how often the two were joined) and ``directed`` (how often in this direction).
        """
        import pandas as pd

        edges = sorted((-self.joined[u, v], -self.directed[u, v], u, v) for u, v in np.argwhere(self.directed).tolist())
        rows = [(self.names[u], self.names[v], float(-both), float(-one)) for both, one, u, v in edges]
        return pd.DataFrame(rows, columns=["from", "to", "joined", "directed"])


def bootstrap(
    data: Observations, learn: Callable[[Observations], nx.DiGraph], *, rng: np.random.Generator, samples: int = 200
) -> EdgeConfidence:
    """Learn from many samples of the rows.

    Parameters
    ----------
    data
        Rows as scores read them (:meth:`bayeslab.structure.data.Observations.of`); their weights are whole numbers.
    learn
        From rows to a DAG: ``lambda rows: tabu.search(load("bdeu", rows)).graph``, for one.
    rng
        Draws the samples.
    samples
        Number of samples. The standard error of a confidence is at most 0.5 / sqrt(samples).
    """
    samples = count(samples, "samples", 1, _MOST)
    if data.weights.dtype.kind not in "iu":
        raise OptionError(
            "the bootstrap draws rows, so that their weights are whole numbers; expected counts are not",
            code="not-applicable",
        )
    n_rows, share = int(data.n_rows), data.weights / data.weights.sum()
    directed = np.zeros((data.n, data.n))
    number = {v: i for i, v in enumerate(data.names)}
    for _ in range(samples):
        counts = rng.multinomial(n_rows, share)
        kept = np.flatnonzero(counts)
        states = dict(zip(data.names, data.states, strict=True))
        values = data.values[kept] if len(data.values) else None
        rows = Observations.of_codes(data.codes[kept], states, weights=counts[kept], values=values)
        pattern = cpdag(learn(rows))
        for u, v in pattern.directed:
            directed[number[u], number[v]] += 1
        for u, v in map(sorted, pattern.undirected):
            directed[number[u], number[v]] += 0.5
            directed[number[v], number[u]] += 0.5
    return EdgeConfidence(data.names, directed / samples, samples)
