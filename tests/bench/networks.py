"""Bayes nets against pyAgrum and pgmpy: posteriors, batches of evidence and memory, in one run.

``make bench`` prints ratios. All posteriors are asked given random evidence on a tenth of the variables, the same sets for
every engine, and the time is the median over the sets; every engine runs in a process of its own with the network
loaded and the engine built before the clock starts, and the fastest of a library's engines is the one
compared. Answers are compared before times are. Memory is what a process needs at its peak beyond what it
needed before the first query.

A case is a function that prints its line; further ones go into ``CASES``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(os.environ.get("BAYESLAB_NETWORKS", Path(__file__).parents[3] / "shared" / "data" / "networks"))
SMALL = ["alarm", "hailfinder", "win95pts", "hepar2"]
MIDDLE = ["pigs", "andes"]
LARGE = ["link", "munin1", "water"]
PYAGRUM = ["LazyPropagation", "ShaferShenoyInference", "VariableElimination"]
PATIENCE = 60  # seconds after which an engine is given up
N_SETS = {**dict.fromkeys(SMALL, 15), **dict.fromkeys(MIDDLE, 9), **dict.fromkeys(LARGE, 3)}


# Networks and evidence, the same in every process.


def network(name: str) -> Any:
    from bayeslab.formats.network_files import read_network

    return read_network(FOLDER / f"{name}.bif")


def draws(model: Any, n: int, rng: np.random.Generator) -> np.ndarray:
    """Forward samples, one row each, in the order of the variables."""
    import networkx as nx

    number = {v: i for i, v in enumerate(model.states)}
    out = np.empty((n, len(number)), np.int64)
    for v in nx.topological_sort(model.graph):
        rows = model.tables[v][tuple(out[:, number[p]] for p in model.parents[v])]
        rows = np.broadcast_to(rows, (n, rows.shape[-1]))
        out[:, number[v]] = (rng.random((n, 1)) > np.cumsum(rows, axis=1)[:, :-1]).sum(axis=1)
    return out


def evidence_rows(model: Any, n: int, seed: int = 7) -> np.ndarray:
    """Possible evidence on a tenth of the variables, other ones in each row; -1 elsewhere."""
    rng = np.random.default_rng(seed)
    full = draws(model, n, rng)
    hidden = np.argsort(rng.random(full.shape), axis=1) >= max(1, full.shape[1] // 10)
    return np.where(hidden, -1, full)


def mappings(model: Any, rows: np.ndarray) -> list[dict[str, str]]:
    return [{v: s[c] for (v, s), c in zip(model.states.items(), row, strict=True) if c >= 0} for row in rows]


# One side on one network: a function from evidence to something, and the posterior of the first variable for comparison.


def ours(model: Any) -> tuple[Callable[[dict[str, str]], Any], Callable[[Any, str], np.ndarray]]:
    from bayeslab.latents.networks.junction_tree import JunctionTree

    tree = JunctionTree.of(model)
    return tree.query, lambda answer, v: answer.marginals[v]


def agrum(model: Any, engine: str) -> tuple[Callable[[dict[str, str]], Any], Callable[[Any, str], np.ndarray]]:
    import pyagrum as gum

    net = gum.BayesNet()
    for v, own in model.states.items():
        net.add(gum.LabelizedVariable(v, "", list(own)))
    for v in model.states:
        # Its tables run fastest along the variable, then along the parent added first: ours, read backwards.
        for parent in reversed(model.parents[v]):
            net.addArc(parent, v)
        net.cpt(v).fillWith(model.tables[v].ravel().tolist())
    inference = getattr(gum, engine)(net)

    def query(given: dict[str, str]) -> Any:
        inference.setEvidence(given)
        inference.makeInference()
        return {v: inference.posterior(v) for v in model.states}

    return query, lambda answer, v: answer[v].toarray()


def pgmpy(model: Any, engine: str) -> tuple[Callable[[dict[str, str]], Any], Callable[[Any, str], np.ndarray]]:
    from pgmpy.factors.discrete import TabularCPD
    from pgmpy.inference import BeliefPropagation, VariableElimination
    from pgmpy.models import DiscreteBayesianNetwork

    net = DiscreteBayesianNetwork([(p, v) for v in model.states for p in model.parents[v]])
    net.add_nodes_from(model.states)
    for v, own in model.states.items():
        above = model.parents[v]
        net.add_cpds(
            TabularCPD(
                v,
                len(own),
                model.tables[v].reshape(-1, len(own)).T,
                list(above),
                [len(model.states[p]) for p in above],
                state_names={u: list(model.states[u]) for u in (v, *above)},
            )
        )
    inference = {"VariableElimination": VariableElimination, "BeliefPropagation": BeliefPropagation}[engine](net)

    def query(given: dict[str, str]) -> Any:
        free = [v for v in model.states if v not in given]
        return {v: inference.query([v], evidence=given, show_progress=False) for v in free}

    def values(answer: Any, v: str) -> np.ndarray:
        return np.array([answer[v].get_value(**{v: s}) for s in model.states[v]])

    return query, values


SIDES: dict[str, Callable[..., Any]] = {"ours": ours, "pyagrum": agrum, "pgmpy": pgmpy}


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def worker(side: str, engine: str, name: str) -> dict[str, Any]:
    model = network(name)
    sets = mappings(model, evidence_rows(model, N_SETS[name]))
    start = time.perf_counter()
    query, values = SIDES[side](model, engine) if engine else SIDES[side](model)
    built = time.perf_counter() - start
    if side == "ours":
        query(sets[0])  # loads the compiled kernels
    before, seconds, check = peak_mb(), [], []
    for given in sets:
        start = time.perf_counter()
        answer = query(given)
        seconds.append(time.perf_counter() - start)
        free = [v for v in model.states if v not in given][:5]
        check.append([float(values(answer, v)[0]) for v in free])
    return {"seconds": float(np.median(seconds)), "built": built, "memory": peak_mb() - before, "check": check}


def batch_worker(side: str, engine: str, n: int) -> dict[str, Any]:
    """All posteriors of alarm for many rows of evidence."""
    model = network("alarm")
    rows = evidence_rows(model, n)
    if side == "ours":
        from bayeslab.latents.networks.junction_tree import JunctionTree

        tree = JunctionTree.of(model)
        tree.query_many(rows[:1])
        start = time.perf_counter()
        many = tree.query_many(rows)
        seconds = time.perf_counter() - start
        first = many.marginals[next(iter(model.states))][:, 0].tolist()
        return {"seconds": seconds, "check": first}
    query, values = SIDES[side](model, engine)
    sets, found = mappings(model, rows), []
    start = time.perf_counter()
    for given in sets:
        found.append(query(given))
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "check": [float(values(a, next(iter(model.states)))[0]) for a in found]}


def expectation_worker(side: str, n: int) -> dict[str, Any]:
    """Expected counts of all families of alarm with one variable hidden; pyAgrum's in one iteration of its EM."""
    model = network("alarm")
    names, hidden = list(model.states), "LVFAILURE"
    rows = draws(model, n, np.random.default_rng(3))
    rows[:, names.index(hidden)] = -1
    if side == "ours":
        from bayeslab.latents.networks.junction_tree import JunctionTree

        tree = JunctionTree.of(model)
        tree.expected_counts(rows[:3])
        start = time.perf_counter()
        log_evidence, _ = tree.expected_counts(rows)
        return {"seconds": time.perf_counter() - start, "check": [bool(np.isfinite(log_evidence).all())]}
    import pandas as pd
    import pyagrum as gum

    table = pd.DataFrame(
        {v: [s[c] if c >= 0 else "?" for c in rows[:, i]] for i, (v, s) in enumerate(model.states.items())}
    )
    net = gum.BayesNet()
    for v, own in model.states.items():
        net.add(gum.LabelizedVariable(v, "", list(own)))
    for v in names:
        for parent in model.parents[v]:
            net.addArc(parent, v)
    learner = gum.BNLearner(table, net, ["?"])
    learner.useEM(1e-3)
    learner.useSmoothingPrior(1e-3)
    learner.EMsetMaxIter(1)
    start = time.perf_counter()
    learner.learnParameters(net.dag())
    return {"seconds": time.perf_counter() - start, "check": [True]}


def measured(*arguments: str) -> dict[str, Any] | None:
    """A worker's answer; None when it ran out of patience."""
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", __file__, "--worker", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)}: {(done.stderr.strip().splitlines() or ['killed'])[-1]}")
    out: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return out


def fastest(side: str, engines: list[str], *arguments: str) -> tuple[str, dict[str, Any]] | None:
    results = {e: r for e in engines if (r := measured(side, e, *arguments)) is not None}
    return min(results.items(), key=lambda item: item[1]["seconds"]) if results else None


def line(what: str, mine: dict[str, Any], theirs: tuple[str, dict[str, Any]] | None, library: str) -> None:
    if theirs is None:
        print(f"{what:28}{mine['seconds'] * 1e3:12.3f}   {library} gave up after {PATIENCE} s", flush=True)
        return
    engine, other = theirs
    if not np.allclose(np.concatenate(mine["check"], axis=None), np.concatenate(other["check"], axis=None), atol=1e-8):
        raise SystemExit(f"{what}: {library} and bayeslab disagree")
    memory = f"{mine['memory']:8.1f}{other['memory']:9.1f}" if "memory" in mine else f"{'':17}"
    ratio = other["seconds"] / mine["seconds"]
    times = f"{mine['seconds'] * 1e3:12.3f}{other['seconds'] * 1e3:12.2f}{ratio:10.1f}"
    print(f"{what:28}{times}  {memory}   {library} {engine}", flush=True)


# The cases.


def posteriors(names: list[str]) -> None:
    for name in names:
        mine = measured("ours", "", name)
        assert mine is not None
        line(f"{name}, all posteriors", mine, fastest("pyagrum", PYAGRUM, name), "pyAgrum")


def against_pgmpy() -> None:
    for name in SMALL:
        mine = measured("ours", "", name)
        assert mine is not None
        line(f"{name}, all posteriors", mine, fastest("pgmpy", ["VariableElimination"], name), "pgmpy")


def batch() -> None:
    mine = measured("ours", "", "batch")
    assert mine is not None
    line("alarm, 1,000 evidence rows", mine, fastest("pyagrum", PYAGRUM, "batch"), "pyAgrum")


def expectation() -> None:
    mine = measured("ours", "", "expectation")
    assert mine is not None
    line("alarm, E-step, 2,000 rows", mine, fastest("pyagrum", ["BNLearner"], "expectation"), "pyAgrum")


def sampling() -> None:
    """A million rows of alarm by forward sampling."""
    from _sampling_case import forward_sampling

    ours, theirs = forward_sampling(FOLDER / "alarm.bif")
    plain("alarm, 1,000,000 rows sampled", ours, theirs, "pyAgrum")


def learning() -> None:
    """Tables from complete rows, and EM with a hidden variable."""
    from _learning_case import main as measure

    for what, seconds in measure(str(FOLDER / "alarm.bif")).items():
        ways = ("", " from codes", " from names")
        own = {name: seconds[f"bayeslab{name}"] for name in ways if f"bayeslab{name}" in seconds}
        for name, mine in own.items():
            for peer in ("pgmpy", "pyAgrum"):
                if peer in seconds:
                    plain(f"alarm, {what}{name}", mine, seconds[peer], peer)


def plain(what: str, ours: float, theirs: float, engine: str) -> None:
    print(f"{what:<50}{1e3 * ours:>10.3f}{1e3 * theirs:>12.2f}{theirs / ours:>10.1f}   {engine}", flush=True)


CASES: dict[str, Callable[[], None]] = {
    "small": lambda: posteriors(SMALL),
    "middle": lambda: posteriors(MIDDLE),
    "large": lambda: posteriors(LARGE),
    "batch": batch,
    "expectation": expectation,
    "pgmpy": against_pgmpy,
    "sampling": sampling,
    "learning": learning,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES), help="comma-separated")
    parser.add_argument("--worker", nargs=3, metavar=("SIDE", "ENGINE", "NETWORK"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    if chosen.worker:
        side, engine, name = chosen.worker
        if name == "batch":
            answer = batch_worker(side, engine, 1000)
        elif name == "expectation":
            answer = expectation_worker(side, 2000)
        else:
            answer = worker(side, engine, name)
        print(json.dumps(answer))
        return
    if not FOLDER.is_dir():
        raise SystemExit(f"no networks in {FOLDER}: set BAYESLAB_NETWORKS to a folder with alarm.bif and the others")
    print(f"{'':28}{'ours, ms':>12}{'theirs, ms':>12}{'ratio':>10}  {'ours, MB':>8}{'theirs':>9}   fastest engine")
    for case in chosen.cases.split(","):
        CASES[case]()
    print("ratios are theirs / ours: large is good")


if __name__ == "__main__":
    main()
