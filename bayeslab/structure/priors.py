"""Priors over structures that are products over variables: log p(G) = sum over v of log p(parents of v) + constant.

``uniform``
    All DAGs are equally probable.
``sparse``
    p(parents) = 1 / C(n - 1, k) for k parents: all numbers of parents are equally probable [1]_.
``edges``
    Each edge has its own probability, independent of the others except for acyclicity.

These are priors over DAGs. Samplers of and sums over *orders* of the variables additionally weight each DAG by the
number of orders consistent with it (an order-modular prior [2]_).

References
----------
.. [1] Heckerman, Geiger, Chickering (1995). Learning Bayesian networks. Machine Learning 20, 197-243;
   Friedman, Koller (2003). Being Bayesian about network structure. Machine Learning 50, 95-125.
.. [2] Koivisto, Sood (2004). Exact Bayesian structure discovery in Bayesian networks. JMLR 5, 549-573.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import OptionError, hint
from bayeslab.structure.constraints import edge_of

__all__ = ["DEFAULT", "EdgePrior", "Sparse", "StructurePrior", "Uniform", "structure_prior"]

Sets = NDArray[np.uint64]

# Probability of unnamed edges in a prior over single edges.
DEFAULT = "default"


class StructurePrior(Protocol):
    """A log weight of each parent set of a variable."""

    @property
    def name(self) -> str:
        """Name of the prior."""

    def log_weights(self, child: int, sets: Sets, n: int) -> NDArray[np.float64]:
        """Log weights of parent sets given as bit masks, shape (n_sets, n_words), among n variables."""


@dataclass(frozen=True)
class Uniform:
    """All DAGs are equally probable."""

    name: str = "uniform"

    def log_weights(self, child: int, sets: Sets, n: int) -> NDArray[np.float64]:
        return np.zeros(len(sets))


@dataclass(frozen=True)
class Sparse:
    """All numbers of parents are equally probable, and all sets of the same size."""

    name: str = "sparse"

    def log_weights(self, child: int, sets: Sets, n: int) -> NDArray[np.float64]:
        from scipy.special import gammaln

        k = np.arange(n)
        log_choose = gammaln(n) - gammaln(k + 1) - gammaln(n - k)
        return -log_choose[np.bitwise_count(sets).sum(axis=1)]


@dataclass(frozen=True, eq=False)
class EdgePrior:
    """Probabilities of single edges.

    Attributes
    ----------
    probability : ndarray, shape (n, n)
        Probability of the edge from u to v at [u, v], strictly between 0 and 1; use constraints to forbid or require
        edges.
    """

    probability: NDArray[np.float64]
    name: str = "edges"

    def __post_init__(self) -> None:
        p = np.asarray(self.probability, dtype=float)
        off = ~np.eye(len(p), dtype=bool)
        if p.ndim != 2 or p.shape[0] != p.shape[1] or not np.all((p[off] > 0) & (p[off] < 1)):
            raise OptionError(
                "probabilities of edges are a square table [from, to] strictly between 0 and 1; required and forbidden"
                " edges are constraints",
                code="out-of-range",
            )
        object.__setattr__(self, "probability", p)

    @classmethod
    def of(cls, names: Sequence[str], given: Mapping[tuple[str, str], float], rest: float = 0.5) -> EdgePrior:
        """Create from the probabilities of some edges (from, to), and one probability for all others."""
        number = {v: i for i, v in enumerate(names)}
        p = np.full((len(names), len(names)), rest)
        for edge, value in given.items():
            for v in edge:
                if v not in number:
                    raise OptionError(
                        f"the edge {edge[0]} -> {edge[1]} of the prior: '{v}' is not a variable{hint(v, number)}",
                        code="unknown-variable",
                    )
            p[number[edge[0]], number[edge[1]]] = value
        return cls(p)

    @classmethod
    def of_words(cls, names: Sequence[str], given: Mapping[str, float]) -> EdgePrior:
        """Create from the form of files, ``{"a -> b": 0.9, "default": 0.2}``; the default for unnamed edges is 0.5."""
        for word, p in given.items():
            if isinstance(p, bool) or not isinstance(p, int | float) or not 0 < p < 1:
                raise OptionError(
                    f"prior: '{word}' has the probability {p!r}: it lies between 0 and 1; what must or cannot be goes"
                    " into `required` and `forbidden`",
                    code="out-of-range",
                )
        edges = {edge_of(word): float(p) for word, p in given.items() if word != DEFAULT}
        return cls.of(names, edges, float(given.get(DEFAULT, 0.5)))

    def log_weights(self, child: int, sets: Sets, n: int) -> NDArray[np.float64]:
        if len(self.probability) != n:
            raise OptionError(
                f"the prior has probabilities for {len(self.probability)} variables; there are {n}", code="wrong-length"
            )
        others = [u for u in range(n) if u != child]
        p = self.probability[:, child]
        out = np.full(len(sets), np.log1p(-p[others]).sum())
        for u in others:
            inside = (sets[:, u // 64] >> np.uint64(u % 64)) & np.uint64(1)
            out += (np.log(p[u]) - np.log1p(-p[u])) * inside
        return out


def structure_prior(given: str | StructurePrior | NDArray[np.float64]) -> StructurePrior:
    """Return a prior from its name, or from a table of edge probabilities."""
    if isinstance(given, np.ndarray):
        return EdgePrior(given)
    if not isinstance(given, str):
        if not hasattr(given, "log_weights"):
            raise OptionError(
                f"a prior over structures is uniform, sparse, or {{'a -> b': 0.9}}; given {given!r}", code="wrong-type"
            )
        return given
    known: dict[str, StructurePrior] = {"uniform": Uniform(), "sparse": Sparse()}
    if given not in known:
        raise OptionError(f"unknown prior over structures '{given}'{hint(given, known)}", code="unknown-word")
    return known[given]
