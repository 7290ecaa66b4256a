"""All DAGs, looked at one by one: the slow truth about sums, samplers and searches; random ones; constraints on them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np

from bayeslab.structure.jobs import Chain
from bayeslab.structure.score_table import ScoreTable


def table_of(
    n: int,
    scores: Callable[[int, np.ndarray], np.ndarray],
    allowed: Callable[[int, int], bool] = lambda child, mask: True,
    max_parents: int | None = None,
) -> ScoreTable:
    """A table of all parent sets, as bit masks, with scores of one's own."""
    pointer, sets, values = [0], [], []
    for v in range(n):
        masks = np.array(
            [
                m
                for m in range(1 << n)
                if not m >> v & 1 and m.bit_count() <= (n if max_parents is None else max_parents) and allowed(v, m)
            ]
        )
        own = np.asarray(scores(v, masks), dtype=float)
        best = np.argsort(-own, kind="stable")
        sets += masks[best].tolist()
        values += own[best].tolist()
        pointer.append(len(sets))
    return ScoreTable(
        tuple(f"v{i}" for i in range(n)), np.array(pointer), np.array(sets, np.uint64)[:, None], np.array(values), "own"
    )


def flat(child, masks):
    return np.zeros(len(masks))


def random_scores(seed: int, sd: float, shift: float = 0.0):
    rng = np.random.default_rng(seed)
    return lambda child, masks: shift + rng.normal(0, sd, len(masks))


@dataclass(frozen=True)
class Everything:
    """Each DAG of a table: numbers of its parent sets, adjacency, reachability, score, number of orders."""

    choices: np.ndarray
    adjacency: np.ndarray
    reachable: np.ndarray
    scores: np.ndarray
    n_orders: np.ndarray

    @classmethod
    def of(cls, table: ScoreTable) -> Everything:
        n = table.n
        parts = [range(table.pointer[v], table.pointer[v + 1]) for v in range(n)]
        choices = np.array(list(itertools.product(*parts)))
        bits = (table.sets[:, :1] >> np.arange(n, dtype=np.uint64) & np.uint64(1)).astype(np.int64)
        adjacency = bits[choices].transpose(0, 2, 1)
        reach = adjacency.copy()
        for _ in range(n):
            reach = ((reach + reach @ adjacency) > 0).astype(np.int64)
        acyclic = np.trace(reach, axis1=1, axis2=2) == 0
        choices, adjacency, reach = choices[acyclic], adjacency[acyclic], reach[acyclic]
        orders = np.zeros(len(choices), dtype=np.int64)
        for order in itertools.permutations(range(n)):
            place = np.argsort(order)
            orders += np.all((adjacency == 0) | (place[:, None] < place[None, :]), axis=(1, 2))
        return cls(choices, adjacency, reach, table.scores[choices].sum(axis=1), orders)

    def weights(self, by_orders: bool = False) -> np.ndarray:
        """Posterior probability of each DAG."""
        log_weight = self.scores + (np.log(self.n_orders) if by_orders else 0.0)
        weight = np.exp(log_weight - log_weight.max())
        return weight / weight.sum()

    def mean(self, what: np.ndarray, by_orders: bool = False) -> np.ndarray:
        return np.tensordot(self.weights(by_orders), what, axes=1)

    def log_sum(self, by_orders: bool = False) -> float:
        log_weight = self.scores + (np.log(self.n_orders) if by_orders else 0.0)
        return float(np.log(np.sum(np.exp(log_weight - log_weight.max()))) + log_weight.max())


def all_dags[Node](names: Sequence[Node]) -> Iterator[nx.DiGraph]:
    """Every DAG over these nodes."""
    pairs = list(itertools.combinations(names, 2))
    for arrows in itertools.product((None, 1, -1), repeat=len(pairs)):
        graph = nx.DiGraph()
        graph.add_nodes_from(names)
        graph.add_edges_from((a, b)[::way] for (a, b), way in zip(pairs, arrows, strict=True) if way)
        if nx.is_directed_acyclic_graph(graph):
            yield graph


def random_dag(rng: np.random.Generator, n: int, density: float = 0.3) -> nx.DiGraph:
    """A DAG over v0, v1, ... in a random order, with each edge along it as probable as ``density``."""
    order = [f"v{i}" for i in rng.permutation(n)]
    graph = nx.DiGraph()
    graph.add_nodes_from(f"v{i}" for i in range(n))
    graph.add_edges_from((order[i], order[j]) for i in range(n) for j in range(i + 1, n) if rng.random() < density)
    return graph


def not_from_last(child: int, mask: int) -> bool:
    """Allows no edge from node 3."""
    return not mask >> 3 & 1


def needs_first(child: int, mask: int) -> bool:
    """Asks for the edge from node 0 to node 2."""
    return child != 2 or bool(mask & 1)


def drawn(chains: Sequence[Chain]) -> np.ndarray:
    """The DAGs of the chains of a job, shape (chains, draws, variables)."""
    return np.stack([np.concatenate(chain.draws) for chain in chains])
