"""Hill climbing and tabu search, side by side with pyAgrum and pgmpy: one program, a line of JSON a case.

``python _search_case.py FOLDER [KIND ...]`` prints, for nets read from FOLDER, seconds and scores of each program's graph; scores
are all ours (BDeu with an equivalent sample size of 10, or BIC), since the programs' own differ. Everyone starts from
the same pandas DataFrame of state names, forward-sampled. Times are the best of a few.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

CASES = (("alarm", 20_000), ("insurance", 10_000), ("hailfinder", 10_000), ("asia", 5_000))


def timed(work: Callable[[], Any], times: int) -> tuple[float, Any]:
    """Seconds of the fastest of several runs, and what it returned."""
    seconds, out = float("inf"), None
    for _ in range(times):
        begun = time.perf_counter()
        out = work()
        seconds = min(seconds, time.perf_counter() - begun)
    return seconds, out


def ours(frame: Any, states: dict[str, tuple[str, ...]], kind: str) -> dict[str, tuple[float, nx.DiGraph]]:
    from bayeslab.structure.scores import load
    from bayeslab.structure.searches import hill_climbing, order_search, tabu

    def score() -> Any:
        return load(kind, frame, states=states)

    def by_orders() -> nx.DiGraph:
        return order_search.search(score(), rng=np.random.default_rng(1)).graph

    by_orders()
    return {
        "bayeslab hill climbing": timed(lambda: hill_climbing.search(score()).graph, 3),
        "bayeslab tabu": timed(lambda: tabu.search(score()).graph, 3),
        "bayeslab order search": timed(by_orders, 2),
    }


def pyagrum(frame: Any, states: dict[str, tuple[str, ...]], kind: str) -> dict[str, tuple[float, nx.DiGraph]]:
    try:
        import pyagrum as gum
    except ImportError:
        return {}

    def run(tabu: bool) -> nx.DiGraph:
        template = gum.BayesNet()
        for v, own in states.items():
            template.add(gum.LabelizedVariable(v, v, list(own)))
        learner = gum.BNLearner(frame, template)
        _ = learner.useScoreBDeu() if kind == "bdeu" else learner.useScoreBIC()
        _ = learner.useLocalSearchWithTabuList() if tabu else learner.useGreedyHillClimbing()
        dag = learner.learnDAG()
        names = [learner.nameFromId(i) for i in range(len(states))]
        graph = nx.DiGraph([(names[u], names[v]) for u, v in dag.arcs()])
        graph.add_nodes_from(states)
        return graph

    return {
        "pyAgrum hill climbing": timed(lambda: run(False), 3),
        "pyAgrum tabu": timed(lambda: run(True), 3),
    }


def pgmpy(frame: Any, kind: str) -> dict[str, tuple[float, nx.DiGraph]]:
    try:
        from pgmpy.estimators import BIC, BDeu, HillClimbSearch
    except ImportError:
        return {}

    def run() -> nx.DiGraph:
        score = BDeu(frame, equivalent_sample_size=10) if kind == "bdeu" else BIC(frame)
        found = HillClimbSearch(frame).estimate(scoring_method=score, show_progress=False)
        graph = nx.DiGraph(list(found.edges()))
        graph.add_nodes_from(frame.columns)
        return graph

    return {"pgmpy hill climbing": timed(run, 1)}


def main(folder: str, kinds: tuple[str, ...] = ("bdeu", "bic")) -> Iterator[tuple[str, dict[str, dict[str, float]]]]:
    """Each case as soon as it is done: its name, and for each program seconds, score and structural Hamming distance."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    from _learning_case import frame_of

    from bayeslab.formats.network_files import read_network
    from bayeslab.latents.networks.sampling import forward_sample
    from bayeslab.structure.cpdag import class_distance
    from bayeslab.structure.scores import load

    for name, n_rows in CASES:
        network = read_network(str(Path(folder) / f"{name}.bif"))
        codes = forward_sample(network, n_rows, np.random.default_rng(1))
        # Words that pgmpy and pyAgrum read as they are, states that do not occur left out.
        seen = [np.unique(column) for column in codes.T]
        states = {v: tuple(f"s{x}" for x in own) for v, own in zip(network.states, seen, strict=True)}
        dense = np.array([np.searchsorted(own, column) for own, column in zip(seen, codes.T, strict=True)]).T
        frame = frame_of(dense, states)
        for kind in kinds:
            score = load(kind, frame, states=states)
            number = {v: i for i, v in enumerate(score.names)}

            def total(graph: nx.DiGraph, score: Any = score, number: dict[str, int] = number) -> float:
                return sum(score.local(number[v], tuple(number[u] for u in graph.predecessors(v))) for v in graph)

            found = {**ours(frame, states, kind), **pyagrum(frame, states, kind), **pgmpy(frame, kind)}
            yield (
                f"{name}, {n_rows:,} rows, {kind}",
                {
                    who: {"seconds": seconds, "score": total(graph), "shd": class_distance(graph, network.graph)}
                    for who, (seconds, graph) in {**found, "true net": (0.0, network.graph)}.items()
                },
            )


if __name__ == "__main__":
    for case, results in main(sys.argv[1], tuple(sys.argv[2:]) or ("bdeu", "bic")):
        print(json.dumps({case: results}), flush=True)
