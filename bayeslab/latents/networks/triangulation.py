"""Elimination orders and their cost, before memory is allocated.

Eliminating a variable joins its neighbours. The sets of an eliminated variable and its neighbours are the cliques of a
chordal graph that contains the Markov graph, and the work of exact inference is the sum of their table sizes. Finding
the best order is NP-hard, but greedy orders are good: min-fill (fewest new edges), weighted min-fill (a new edge weighs
the product of its ends' numbers of states) and min-weight (smallest table). The order with the lowest predicted cost is
used. If all are costly, min-fill is repeated with ties broken at random, with a fixed seed.

References
----------
.. [1] Kjaerulff (1990). Triangulation of graphs: algorithms giving small total state space.
   Technical report R 90-09, Aalborg University.
.. [2] Koller and Friedman (2009). Probabilistic Graphical Models, section 9.4.3. MIT Press.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.errors import EngineRefusal
from bayeslab.latents.networks.factors import FactorGraph
from bayeslab.latents.networks.network import DiscreteNetwork

__all__ = ["Forecast", "Triangulation", "available_bytes", "forecast", "triangulate"]

# Measured on one core: the fixed time of a clique, and the total time of an entry of its table.
_SECONDS_A_CLIQUE = 4e-7
_SECONDS_AN_ENTRY = 1.5e-8

# The search for orders continues if the first one has more entries than this.
SMALL = 20_000
RESTARTS = 10


@dataclass(frozen=True)
class Forecast:
    """The cost of exact inference without evidence, which only reduces it.

    Parameters
    ----------
    n_cliques : int
    largest : tuple of str
        The variables of the largest clique.
    largest_entries, total_entries : float
        Number of entries of its table, and of all tables.
    bytes : float
        Memory during the computation.
    seconds : float
        Estimated time for all marginals.
    """

    n_cliques: int
    largest: tuple[str, ...]
    largest_entries: float
    total_entries: float
    bytes: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.n_cliques} cliques, the largest of {len(self.largest)} variables and {self.largest_entries:.3g} "
            f"entries; {self.total_entries:.3g} entries in all: {_size(self.bytes)}, about {self.seconds:.2g} s"
        )

    def refuse_beyond(self, limit: float) -> None:
        """Check the memory.

        Raises
        ------
        EngineRefusal
            More than ``limit`` bytes are needed.
        """
        if self.bytes > limit:
            raise EngineRefusal(
                f"exact inference needs {_size(self.bytes)} and {_size(limit)} are free: {self}; "
                "ask for few targets by variable elimination, give more evidence, or approximate by "
                "likelihood weighting, Gibbs sampling or loopy belief propagation",
                code="too-costly",
            )


@dataclass(frozen=True)
class Triangulation:
    """An elimination order and the maximal cliques it makes.

    Parameters
    ----------
    order : tuple of str
    cliques : tuple of tuple of str
        Cliques in reverse running-intersection order: the intersection of a clique with the union of the later ones is
        in its parent.
    parents : tuple of int
        The parent of each clique in the tree, -1 at the root of each connected part.
    separators : tuple of tuple of str
        Variables that a clique shares with its parent.
    """

    order: tuple[str, ...]
    cliques: tuple[tuple[str, ...], ...]
    parents: tuple[int, ...]
    separators: tuple[tuple[str, ...], ...]


def triangulate(model: DiscreteNetwork | FactorGraph) -> Triangulation:
    """The triangulation of the best elimination order, as a tree of cliques."""
    from bayeslab.latents.networks import tree_kernels as kernels

    factors = model if isinstance(model, FactorGraph) else FactorGraph.of(model)
    names = tuple(factors.states)
    order, sets, _ = elimination(scopes_of(factors), np.array([len(s) for s in factors.states.values()], np.int64))
    _, pointer, variables, n_separator, parent, _ = kernels.build_cliques(order, sets)
    cliques = [tuple(names[v] for v in variables[pointer[c] : pointer[c + 1]]) for c in range(parent.size)]
    return Triangulation(
        tuple(names[v] for v in order),
        tuple(cliques),
        tuple(int(p) for p in parent),
        tuple(clique[len(clique) - int(k) :] for clique, k in zip(cliques, n_separator, strict=True)),
    )


def forecast(model: DiscreteNetwork | FactorGraph) -> Forecast:
    """The cost of exact inference, without allocating its memory."""
    factors = model if isinstance(model, FactorGraph) else FactorGraph.of(model)
    cards = np.array([len(s) for s in factors.states.values()], np.int64)
    order, sets, _ = elimination(scopes_of(factors), cards)
    return forecast_of(tuple(factors.states), cards, order, sets)


def forecast_of(names: Sequence[str], cards: np.ndarray, order: np.ndarray, sets: np.ndarray) -> Forecast:
    """The cost of an elimination order."""
    from bayeslab.latents.networks import tree_kernels as kernels

    _, pointer, variables, n_separator, parent, _ = kernels.build_cliques(order, sets)
    # A network may have more entries than an integer can represent.
    sizes = cards.astype(float)[variables]
    with np.errstate(over="ignore"):
        entries = np.array([np.prod(sizes[pointer[c] : pointer[c + 1]]) for c in range(parent.size)])
        shared = [np.prod(sizes[pointer[c + 1] - n_separator[c] : pointer[c + 1]]) for c in range(parent.size)]
    largest = int(np.argmax(entries)) if entries.size else -1
    total = float(entries.sum())
    return Forecast(
        n_cliques=int(parent.size),
        largest=tuple(names[v] for v in variables[pointer[largest] : pointer[largest + 1]]) if entries.size else (),
        largest_entries=float(entries[largest]) if entries.size else 0.0,
        total_entries=total,
        bytes=8 * (total + float(np.sum(shared))),
        seconds=_SECONDS_A_CLIQUE * parent.size + _SECONDS_AN_ENTRY * total,
    )


def scopes_of(factors: FactorGraph) -> list[np.ndarray]:
    """The variable indices of each factor."""
    number = {v: i for i, v in enumerate(factors.states)}
    return [np.array([number[v] for v in scope], np.int64) for scope in factors.scopes]


def elimination(scopes: Sequence[np.ndarray], cards: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The best elimination order, the clique at each step as a bit set, and the sum of the clique sizes."""
    from bayeslab.latents.networks import tree_kernels as kernels

    out: Any = kernels.best_order(_adjacency(scopes, len(cards)), np.log(cards.astype(float)), float(SMALL), RESTARTS)
    return out


def _adjacency(scopes: Sequence[np.ndarray], n: int) -> np.ndarray:
    near = np.zeros((n, 64 * ((n + 63) // 64)), np.uint8)
    for scope in scopes:
        near[np.ix_(scope, scope)] = 1
    near[np.arange(n), np.arange(n)] = 0
    return np.packbits(near, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def available_bytes() -> float:
    """Memory that a computation may use: four fifths of the free memory."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            free = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        # Other systems do not report free memory in this way: half of the total memory.
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 if hasattr(os, "sysconf") else 2**32
    return 0.8 * free


def _size(n_bytes: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} PB"
