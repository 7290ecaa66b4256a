"""Sampled structures: edges, graphs, equivalence classes, features of graphs, and the network of any draw.

All results are averages over the draws with Monte Carlo errors; after the engine ``exact``, probabilities of edges and
paths are exact. Each distinct graph is processed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import ModelError, OptionError, hint
from bayeslab.networks import Network
from bayeslab.plots import structure as plots
from bayeslab.results.structure_checks import EdgeDiagnostics, edge_diagnostics, indicators, mean_error
from bayeslab.streams import stream
from bayeslab.structure.cpdag import compelled_parents, cpdag
from bayeslab.structure.orders import log_orders
from bayeslab.structure.parameters import Parameters
from bayeslab.structure.partial_graph import PartialGraph

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from bayeslab.structure.parameters import Family, Incomplete

__all__ = ["PICTURES", "Drawn", "Estimate", "StructureDraws"]

PICTURES = ("edges", "consensus", "trace", "r_hat", "agreement")
_CELLS = 1 << 23


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over sampled structures.

    Attributes
    ----------
    mean : float
    mcse : float
        Monte Carlo standard error of the mean.
    ess : float
        Effective sample size; NaN if all draws are equal.
    """

    mean: float
    mcse: float
    ess: float

    def __str__(self) -> str:
        return f"{self.mean:.4g} ± {self.mcse:.2g} (Monte Carlo error)"


@dataclass(frozen=True, eq=False)
class Drawn:
    """A graph, or an equivalence class of graphs, with its posterior probability.

    Attributes
    ----------
    graph : networkx.DiGraph or PartialGraph
    probability : float
        Share of the draws; for a graph after the engine ``exact``, its exact probability.
    mcse : float
        Monte Carlo standard error of the probability.
    score : float
        Score of the graph, or the highest score of the class's graphs.
    n_graphs : int
        Number of distinct graphs of the class that were drawn.
    """

    graph: Any
    probability: float
    mcse: float
    score: float
    n_graphs: int = 1

    def __repr__(self) -> str:
        if isinstance(self.graph, PartialGraph):
            arrows = [f"{a} → {b}" for a, b in sorted(self.graph.directed)]
            arrows += [" — ".join(sorted(pair)) for pair in sorted(self.graph.undirected, key=sorted)]
        else:
            arrows = [f"{a} → {b}" for a, b in self.graph.edges]
        return f"<{self.probability:.3g} ± {self.mcse:.2g}, score {self.score:,.3f}: {', '.join(arrows) or 'no edges'}>"


class StructureDraws:
    """Sampled structures.

    Parameters
    ----------
    groups
        The groups ``posterior`` and ``parent_sets``; after the engine ``exact`` also ``exact_posterior``, and with
        missing cells ``completions``.
    parameters
        Posteriors of the parameters (given completions if cells are missing), or a function that computes them; None:
        graphs only.
    seed
        Seed of draws of parameters.

    Attributes
    ----------
    names : tuple of str
        The variables.
    """

    def __init__(
        self,
        groups: Mapping[str, xr.Dataset] | xr.DataTree,
        parameters: Parameters | Incomplete | Callable[[], Parameters | Incomplete] | None = None,
        seed: int = 0,
    ) -> None:
        posterior, sets = groups["posterior"], groups["parent_sets"]
        self.names = tuple(str(v) for v in posterior["target"].to_numpy())
        self.chains = posterior["chain"].to_numpy()
        self.scores: NDArray[np.float64] = posterior["score"].to_numpy()
        self.draws_of = str(posterior.attrs.get("draws_of", "dags"))
        self.seed = seed
        self._parents: NDArray[np.int32] = posterior["parents"].to_numpy()
        self._member: NDArray[np.bool_] = sets["member"].to_numpy()
        self._given = parameters
        self._completions: Any = groups["completions"] if "completions" in groups else None  # noqa: SIM401
        self._exact: Any = groups["exact_posterior"] if "exact_posterior" in groups else None  # noqa: SIM401

    def __repr__(self) -> str:
        chains, draws = self.scores.shape
        return (
            f"<Structures of {len(self.names)} variables: {chains} chains × {draws:,} draws,"
            f" {len(self._distinct):,} different graphs>"
        )

    # -- draws as graphs

    @cached_property
    def _unique(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        rows, of_draw = np.unique(self._parents.reshape(-1, len(self.names)), axis=0, return_inverse=True)
        return rows, of_draw.reshape(self.scores.shape)

    @property
    def _distinct(self) -> NDArray[np.int32]:
        """The distinct graphs as indices of parent sets, shape (n_graphs, n)."""
        return self._unique[0]

    @property
    def of_draw(self) -> NDArray[np.int64]:
        """The index of each draw's graph among the distinct graphs, shape (chain, draw)."""
        return self._unique[1]

    def parents(self, number: int) -> list[tuple[int, ...]]:
        """The parents of each variable in one of the distinct graphs."""
        return [tuple(np.flatnonzero(members).tolist()) for members in self._member[self._distinct[number]]]

    def _graph(self, number: int) -> nx.DiGraph:
        out = nx.DiGraph()
        out.add_nodes_from(self.names)
        for v, parents in enumerate(self.parents(number)):
            out.add_edges_from((self.names[u], self.names[v]) for u in parents)
        return out

    def graph(self, chain: int, draw: int) -> nx.DiGraph:
        """The graph of one draw; chains and draws are numbered from 0."""
        return self._graph(int(self.of_draw[self._place(chain, draw)]))

    def _place(self, chain: int, draw: int) -> tuple[int, int]:
        chains, draws = self.scores.shape
        if not (0 <= chain < chains and 0 <= draw < draws):
            raise OptionError(
                f"chains are 0 to {chains - 1} and draws 0 to {draws - 1}; given chain {chain}, draw {draw}",
                code="out-of-range",
            )
        return chain, draw

    def _blocks(self) -> Iterator[tuple[slice, NDArray[np.bool_]]]:
        """Yield the distinct graphs as adjacency matrices [source, target], in blocks."""
        n = len(self.names)
        width = max(1, _CELLS // (n * n))
        for first in range(0, len(self._distinct), width):
            part = slice(first, first + width)
            yield part, np.swapaxes(self._member[self._distinct[part]], 1, 2)

    # -- edges

    @cached_property
    def diagnostics(self) -> EdgeDiagnostics:
        """Probabilities of edges with errors, R-hat, ESS, and differences between chains."""
        return edge_diagnostics(self.names, self._member, self._parents)

    @property
    def edge_probability(self) -> pd.DataFrame:
        """A matrix of the probabilities of edges from the row's variable to the column's."""
        import pandas as pd

        values = self._edge_probability.copy()
        np.fill_diagonal(values, 0.0)
        return pd.DataFrame(values, index=pd.Index(self.names, name="source"), columns=pd.Index(self.names))

    @property
    def _edge_probability(self) -> NDArray[np.float64]:
        if self._exact is not None:
            return np.asarray(self._exact["edge_probability"].to_numpy())
        return self.diagnostics.probability

    def edges(self, *, least: float = 0.0) -> pd.DataFrame:
        """All edges that were drawn, most probable first.

        Parameters
        ----------
        least
            Smallest probability of the edges in the table.

        Returns
        -------
        pandas.DataFrame
            ``source``, ``target``, ``probability``, ``mcse``, ``ess``, ``r_hat`` (NaN where all draws agree),
            ``reverse`` (probability of the reversed edge) and ``adjacent`` (probability of either direction). After the
            engine ``exact``, probabilities are exact and have no errors.
        """
        p = np.nan_to_num(self._edge_probability)
        columns = {} if self._exact is not None else {n: getattr(self.diagnostics, n) for n in ("mcse", "ess", "r_hat")}
        return self._table(p, columns | {"reverse": p.T, "adjacent": p + p.T}, least)

    def _table(
        self,
        probability: NDArray[np.float64],
        columns: Mapping[str, NDArray[np.float64]],
        least: float,
        ends: tuple[str, str] = ("source", "target"),
    ) -> pd.DataFrame:
        """A table from matrices, one row per pair of variables, most probable first."""
        import pandas as pd

        u, v = np.nonzero((probability > 0) & (probability >= least))
        order = np.lexsort((v, u, -probability[u, v]))
        u, v = u[order], v[order]
        names = np.array(self.names, dtype=object)
        table: dict[str, Any] = {ends[0]: names[u], ends[1]: names[v], "probability": probability[u, v]}
        return pd.DataFrame(table | {name: values[u, v] for name, values in columns.items()})

    def consensus(self, threshold: float = 0.5) -> nx.DiGraph:
        """The graph of all edges with a probability above the threshold.

        Edges have the attributes ``probability`` and ``adjacent``. Edges that would close a cycle are left out, least
        probable first, and listed in ``graph.graph["left_out"]``. Pairs that are adjacent with a probability above the
        threshold, but not in either direction alone, are in ``graph.graph["undirected"]`` as (a, b, probability).
        """
        if not 0 <= threshold < 1:
            raise OptionError(f"the threshold is a probability below 1, not {threshold!r}", code="out-of-range")
        p = np.nan_to_num(self._edge_probability)
        out = nx.DiGraph(threshold=threshold, left_out=[], undirected=[])
        out.add_nodes_from(self.names)
        likely = np.argwhere(p > threshold)
        for u, v in likely[np.argsort(-p[tuple(likely.T)], kind="stable")].tolist():
            a, b = self.names[u], self.names[v]
            if nx.has_path(out, b, a):
                out.graph["left_out"].append((a, b))
            else:
                out.add_edge(a, b, probability=float(p[u, v]), adjacent=float(p[u, v] + p[v, u]))
        for u, v in np.argwhere(np.triu(p + p.T > threshold)).tolist():
            if max(p[u, v], p[v, u]) <= threshold:
                out.graph["undirected"].append((self.names[u], self.names[v], float(p[u, v] + p[v, u])))
        return out

    # -- whole graphs

    def top_graphs(self, k: int = 10) -> list[Drawn]:
        """The ``k`` most frequently drawn graphs; ties are ordered by score."""
        counts = np.bincount(self.of_draw.ravel(), minlength=len(self._distinct))
        scores = self._distinct_scores
        best = np.lexsort((-scores, -counts))[:k]
        series = self.of_draw[None] == best[:, None, None]
        share, (mcse, _) = counts[best] / self.of_draw.size, mean_error(series)
        if self._exact is not None and self.draws_of == "dags":
            share, mcse = np.exp(scores[best] - float(self._exact.attrs["log_sum"])), np.zeros(len(best))
            order = np.argsort(-share, kind="stable")
            best, share = best[order], share[order]
        return [
            Drawn(self._graph(int(i)), float(p), float(e), float(scores[i]))
            for i, p, e in zip(best, share, mcse, strict=True)
        ]

    @cached_property
    def _distinct_scores(self) -> NDArray[np.float64]:
        out = np.empty(len(self._distinct))
        out[self.of_draw.ravel()] = self.scores.ravel()
        return out

    def top_classes(self, k: int = 10) -> list[Drawn]:
        """The ``k`` most frequently drawn equivalence classes, as CPDAGs."""

        of_graph, firsts = self._classes
        of_draw = of_graph[self.of_draw]
        counts = np.bincount(of_draw.ravel(), minlength=len(firsts))
        scores = np.full(len(firsts), -np.inf)
        np.maximum.at(scores, of_graph, self._distinct_scores)
        best = np.lexsort((-scores, -counts))[:k]
        mcse, _ = mean_error(of_draw[None] == best[:, None, None])
        sizes = np.bincount(of_graph, minlength=len(firsts))
        return [
            Drawn(cpdag(self._graph(firsts[i])), counts[i] / of_draw.size, float(e), float(scores[i]), int(sizes[i]))
            for i, e in zip(best.tolist(), mcse, strict=True)
        ]

    @cached_property
    def _classes(self) -> tuple[NDArray[np.int64], list[int]]:
        """The equivalence class of each distinct graph, and the index of a graph of each class."""

        number: dict[tuple[int, ...], int] = {}
        of_graph = np.empty(len(self._distinct), np.int64)
        firsts: list[int] = []
        masks = [sum(1 << int(u) for u in np.flatnonzero(members)) for members in self._member]
        for i, row in enumerate(self._distinct.tolist()):
            parents = [masks[s] for s in row]
            around = list(parents)
            for v, mask in enumerate(parents):
                for u in range(len(parents)):
                    if mask >> u & 1:
                        around[u] |= 1 << v
            key = (*around, *compelled_parents(parents))
            if key not in number:
                number[key] = len(firsts)
                firsts.append(i)
            of_graph[i] = number[key]
        return of_graph, firsts

    # -- features

    def probability(self, feature: Callable[[nx.DiGraph], Any]) -> Estimate:
        """Posterior mean of a function of the graph; for a Boolean function, the probability that it is true.

        Parameters
        ----------
        feature
            The function, such as ``lambda g: nx.has_path(g, "a", "b")``; it is called once per distinct graph.
        """
        values = np.array([float(feature(self._graph(i))) for i in range(len(self._distinct))])
        mcse, size = mean_error(values[self.of_draw])
        return Estimate(float(values[self.of_draw].mean()), float(mcse), float(size))

    def paths(self, *, least: float = 0.0) -> pd.DataFrame:
        """Probabilities of directed paths, in the format of :meth:`edges`: whether one variable affects another."""
        if self._exact is not None and "path_probability" in self._exact:
            return self._table(np.asarray(self._exact["path_probability"].to_numpy()), {}, least)
        return self._pairs(self._reachable, least, ("source", "target"))

    def markov_blankets(self, *, least: float = 0.0) -> pd.DataFrame:
        """Probabilities that ``member`` is in the Markov blanket of ``variable``."""

        def blankets(edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
            spouses = np.matmul(edges.astype(np.float32), np.swapaxes(edges, 1, 2).astype(np.float32)) > 0
            out = edges | np.swapaxes(edges, 1, 2) | spouses
            out[:, np.eye(len(self.names), dtype=bool)] = False
            return out

        return self._pairs(blankets, least, ("variable", "member"))

    def v_structures(self, *, least: float = 0.0) -> pd.DataFrame:
        """Probabilities of v-structures a → v ← b with a and b not adjacent."""
        import pandas as pd

        graphs_of: dict[tuple[int, int, int], list[int]] = {}
        for part, edges in self._blocks():
            joined = edges | np.swapaxes(edges, 1, 2)
            for v in range(len(self.names)):
                both = edges[:, :, v, None] & edges[:, None, :, v] & ~joined
                for i, a, b in np.argwhere(np.triu(both, 1)).tolist():
                    graphs_of.setdefault((a, b, v), []).append(part.start + i)
        rows = []
        for (a, b, v), graphs in graphs_of.items():
            there = np.zeros(len(self._distinct), dtype=bool)
            there[graphs] = True
            mcse, size = mean_error(there[self.of_draw])
            words = {"first": self.names[a], "second": self.names[b], "collider": self.names[v]}
            rows.append(words | {"probability": there[self.of_draw].mean(), "mcse": float(mcse), "ess": float(size)})
        frame = pd.DataFrame(rows, columns=["first", "second", "collider", "probability", "mcse", "ess"])
        frame = frame[frame["probability"] >= least]
        return frame.sort_values("probability", ascending=False, kind="stable", ignore_index=True)

    @staticmethod
    def _reachable(edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
        reach, length = edges, 1
        while length < edges.shape[1]:
            step = reach.astype(np.float32)
            reach, length = reach | (np.matmul(step, step) > 0), 2 * length
        return reach

    def _pairs(
        self, relation: Callable[[NDArray[np.bool_]], NDArray[np.bool_]], least: float, ends: tuple[str, str]
    ) -> pd.DataFrame:
        """A table of probabilities of a relation between two variables; ``relation`` maps blocks of graphs to it."""
        n, of_draw = len(self.names), self.of_draw
        holds = np.concatenate(
            [np.packbits(relation(edges).reshape(len(edges), -1), axis=1) for _, edges in self._blocks()]
        )
        out = {name: np.full((n, n), np.nan) for name in ("probability", "mcse", "ess", "r_hat")}
        width = max(1, _CELLS // of_draw.size)
        for first in range(0, n * n, width):
            cells = np.arange(first, min(n * n, first + width))
            bits = holds[:, cells // 8] >> (7 - cells % 8).astype(np.uint8) & 1
            indicator = indicators(np.ascontiguousarray(np.moveaxis(bits[of_draw], -1, 0)))
            for name, values in out.items():
                values.flat[cells] = indicator[name]
        return self._table(out.pop("probability"), out, least, ends)

    # -- another prior

    def reweighted(self) -> Self:
        """Reweight draws of order sampling to the graph prior.

        A graph drawn through orders has a probability proportional to its posterior times the number of its
        topological orders. Weights of one over that number (Ellis and Wong 2008) correct this. The draws are
        systematically resampled with these weights, in their order, so that Monte Carlo errors remain valid: copies
        are neighbours and count as one effective draw. Draws from other samplers are returned unchanged.

        Raises
        ------
        EngineRefusal
            A graph has too many topological orders to count.
        """
        import xarray as xr

        if self.draws_of == "dags":
            return self
        logs = np.array([-log_orders(self.parents(g)) for g in range(len(self._distinct))])
        known = None if self._completions is None else self._completions["draw"].to_numpy()
        of_draw = self.of_draw if known is None else self.of_draw[:, known]
        share = np.cumsum(np.exp(logs - logs.max())[of_draw].ravel())
        points = (np.arange(of_draw.size) + 0.5) / of_draw.size * share[-1]
        taken = np.searchsorted(share, points).reshape(of_draw.shape)

        def resampled(values: NDArray[Any]) -> NDArray[Any]:
            flat: NDArray[Any] = values.reshape(-1, *values.shape[2:])
            return flat[taken]

        def kept(values: NDArray[Any]) -> NDArray[Any]:
            return resampled(values if known is None else values[:, known])

        coords = {"chain": self.chains, "draw": np.arange(of_draw.shape[1]), "target": np.array(self.names)}
        arrays: dict[str, Any] = {"score": (("chain", "draw"), kept(self.scores))}
        arrays["parents"] = (("chain", "draw", "target"), kept(self._parents))
        groups = {
            "posterior": xr.Dataset(arrays, coords, {"draws_of": "dags"}),
            "parent_sets": xr.Dataset({"member": (("parent_set", "source"), self._member)}),
        }
        if self._completions is not None:
            states = resampled(self._completions["state"].to_numpy())
            groups["completions"] = xr.Dataset({"state": (("chain", "draw", "cell"), states)}, coords)
        return type(self)(groups, self._given, self.seed)

    # -- networks

    @cached_property
    def _learned(self) -> Parameters | Incomplete:
        if self._given is None:
            raise ModelError("these structures came without data: parameters cannot be learned", code="no-data")
        return self._given() if callable(self._given) else self._given

    @property
    def parameters(self) -> Parameters:
        """Posteriors of the parameters of a variable given any parents.

        Raises
        ------
        OptionError
            Cells are missing, so the posteriors differ from draw to draw.
        """
        if not isinstance(self._learned, Parameters):
            raise OptionError(
                "cells are missing, so parameters depend on the imputed cells of a draw: network(chain, draw) has those"
                " of one draw",
                code="not-applicable",
            )
        return self._whole

    @property
    def _whole(self) -> Parameters:
        """Posteriors of the parameters; with missing cells, given the complete rows only."""
        return self._learned if isinstance(self._learned, Parameters) else self._learned.whole

    @cached_property
    def _cases(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Distinct cases: graphs, or with missing cells pairs of a graph and a completion, where these are stored.

        Returns the index of each case's graph, the index of its completion, and the case of each draw.
        """
        if self._completions is None:
            graphs = np.arange(len(self._distinct))
            return graphs, np.zeros_like(graphs), self.of_draw
        states = self._completions["state"].to_numpy()
        graphs = np.ascontiguousarray(self.of_draw[:, self._completions["draw"].to_numpy()]).ravel()
        cells = np.ascontiguousarray(states.reshape(len(graphs), -1)).view(np.uint8)
        both = np.concatenate([graphs[:, None].view(np.uint8), cells], axis=1)
        _, first, of_draw = np.unique(both.view(f"V{both.shape[1]}").ravel(), return_index=True, return_inverse=True)
        return graphs[first], first, of_draw.reshape(states.shape[:2])

    @property
    def of_case(self) -> NDArray[np.int64]:
        """The case of each draw, for averages over parameters; only of draws whose missing cells are stored."""
        return self._cases[2]

    def graph_of(self, case: int) -> int:
        """The index of the graph of a case."""
        return int(self._cases[0][case])

    def learned(self, case: int) -> Parameters:
        """Posteriors of the parameters in a case."""
        if isinstance(self._learned, Parameters):
            return self._learned
        if self._completions is None:
            raise OptionError(
                "cells are missing, and this result does not store the imputed cells of its draws", code="not-kept"
            )
        states = self._completions["state"].to_numpy()
        return self._learned.given(states.reshape(-1, states.shape[-1])[self._cases[1][case]])

    def network(
        self, chain: int, draw: int, *, parameters: Literal["mean", "draw"] = "mean", seed: int | None = None
    ) -> Network:
        """The network of one draw, with parameters at their posterior means or drawn from their posterior."""

        if parameters not in ("mean", "draw"):
            raise OptionError(f"parameters are mean or draw, not {parameters!r}", code="unknown-word")
        parents = self.parents(int(self.of_draw[self._place(chain, draw)]))
        learned = self.learned(int(self.of_case[chain, self._kept(draw)]))
        if parameters == "mean":
            return Network(learned.mean(parents))
        chosen = (self.seed, chain, draw) if seed is None else seed
        return Network(learned.draw(parents, stream(chosen, "network")))

    def _kept(self, draw: int) -> int:
        """The index of a draw among those whose missing cells are stored."""
        if self._completions is None:
            return draw
        draws = self._completions["draw"].to_numpy()
        place = int(np.searchsorted(draws, draw))
        if place == len(draws) or draws[place] != draw:
            near = ", ".join(str(d) for d in draws[max(0, place - 1) : place + 1])
            raise OptionError(
                f"the imputed cells of draw {draw} are not stored, only those of some draws"
                + (f", such as {near}" if near else ""),
                code="not-kept",
            )
        return place

    # -- averages over structures and parameters

    @property
    def variables(self) -> tuple[str, ...]:
        """An alias of ``names``."""
        return self.names

    @property
    def states(self) -> dict[str, tuple[str, ...]]:
        """The states of each discrete variable, in order."""
        return {v: states for v, states in self.states_of.items() if states}

    @property
    def states_of(self) -> dict[str, tuple[str, ...]]:
        """The states of each variable; empty for a continuous one."""
        return dict(zip(self.names, self._whole.observations.states, strict=True))

    @property
    def discrete(self) -> bool:
        """Whether every variable is discrete."""
        return self._whole.discrete

    @property
    def gaussian(self) -> bool:
        """Whether every variable is continuous."""
        return self._whole.gaussian

    def prepare(self, families: Iterable[Family]) -> None:
        """Compute the counts of many families (variable and parents) in one pass over the rows."""
        self._whole.prepare(families)

    def variable(self, name: str) -> int:
        """The index of a variable."""
        if name not in self.names:
            raise ModelError(f"'{name}' is not a variable{hint(name, self.names)}", code="unknown-variable")
        return self.names.index(name)

    # -- pictures

    def plot(self, what: str = "edges", **options: Any) -> Any:
        """Plot the structures; a matplotlib figure.

        Parameters
        ----------
        what
            ``edges`` (a heat map of edge probabilities), ``consensus`` (a graph with arrow widths by probability;
            option ``threshold``), ``trace`` (scores), ``r_hat`` (of edges), ``agreement`` (edge probabilities of each
            chain against the others).
        """

        if what not in PICTURES:
            raise OptionError(f"unknown picture '{what}'{hint(what, PICTURES)}", code="unknown-word")
        if what == "edges":
            return plots.edge_map(np.nan_to_num(self._edge_probability), self.names, **options)
        if what == "consensus":
            return plots.consensus(self.consensus(**options))
        if what == "trace":
            return plots.score_traces(self.scores, [str(c) for c in self.chains])
        diagnostics = self.diagnostics
        if what == "r_hat":
            return plots.edge_r_hat(diagnostics.r_hat[~np.isnan(diagnostics.r_hat)], int(diagnostics.constant.sum()))
        return plots.chain_agreement(diagnostics.by_chain, diagnostics.mcse, [str(c) for c in self.chains])
