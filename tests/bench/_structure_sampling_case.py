"""Chains over structures: how fast they step, how soon they agree, and how both grow; lines of JSON, one a case.

``python _structure_sampling_case.py rates NET ...``
    Steps a second of the structure chain: single edges, edge reversals; and Gibby's schedule of both.
``python _structure_sampling_case.py posterior NET SECONDS`` and ``... sumu NET SECONDS``
    Four chains for so many seconds, score table included: until when the largest R-hat of an edge is below 1.05, and
    how many draws of the edges they are worth. sumu's Gadget has the same rows, score, prior and number of parents.
``python _structure_sampling_case.py scaling``
    Time of a step of each chain against the numbers of variables and rows.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from structure import FOLDER, NETWORKS, table

N_ROWS = 1_000
MAX_PARENTS = 3
CHAINS = 4
R_HAT = 1.05
# From draw to draw, for each variable; and at sumu, altogether.
STEPS, _GADGET_THIN = 20, 1
# Edges that are neither nearly always there nor nearly never: those that draws have something to say about.
UNCERTAIN = 0.05, 0.95
# Gibby: 220 rounds of 10,000 single edges, 200 reversals, 100 resamplings; up to four parents, pruned sums.
GIBBY_ROUNDS, GIBBY_EDGES, GIBBY_REVERSALS, GIBBY_BLANKETS, GIBBY_PARENTS = 220, 10_000, 200, 100, 4
SIZES, LENGTHS = (20, 37, 60, 100), (1_000, 10_000)


def rows_of(name: str, n_rows: int = N_ROWS) -> dict[str, list[str]]:
    """The first rows of a table; of a net that has none, drawn from it."""
    if (FOLDER / f"{name}.csv").exists():
        return table(name, n_rows)
    from bayeslab.formats.network_files import read_network
    from bayeslab.latents.networks.sampling import forward_sample

    network = read_network(str(NETWORKS / f"{name}.bif"))
    codes = forward_sample(network, n_rows, np.random.default_rng(1))
    return {v: [f"s{x}" for x in column] for v, column in zip(network.states, codes.T, strict=True)}


def seconds(work: Callable[[], Any]) -> float:
    """Of the processor: chains run on one thread, and others who use the machine do not count."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


# --------------------------------------------------------------------------------- steps


def rates(name: str) -> dict[str, float]:
    """With Gibby's settings: equivalent sample size 1, its prior, its number of parents, sums pruned."""
    from bayeslab.structure.chains import structure
    from bayeslab.structure.score_table import ScoreTable
    from bayeslab.structure.scores import load

    score = load("bdeu", rows_of(name), equivalent_sample_size=1.0)
    ScoreTable.build(score, max_parents=1)
    begun = time.perf_counter()
    built = ScoreTable.build(score, max_parents=GIBBY_PARENTS, prior="sparse", prune=15.0)
    out = {"table": time.perf_counter() - begun}
    state, _, _ = structure.run(built, structure.init(built, np.random.default_rng(1)), 300_000, 1_000)
    best = {"edge": (5_000_000, 0.0), "reversal": (50_000, 1.0)}
    for kind, (steps, share) in best.items():
        taken = [
            seconds(lambda: structure.run(built, state, steps, 1 << 40, reversal=share, renewal=0.0))  # noqa: B023
            for _ in range(3)
        ]
        out[kind] = steps / min(taken)
    every = GIBBY_EDGES + GIBBY_REVERSALS + GIBBY_BLANKETS
    begun = time.perf_counter()
    _, draws, _ = structure.run(
        built,
        state,
        GIBBY_ROUNDS * every,
        every,
        reversal=GIBBY_REVERSALS / every,
        renewal=GIBBY_BLANKETS / every,
    )
    out["schedule"] = time.perf_counter() - begun
    effective = edge_sizes(members(built, draws[None]))
    return out | {"ess": effective["median"], "ess least": effective["least"], "uncertain": effective["edges"]}


# --------------------------------------------------------------------------------- agreement


def members(built: Any, draws: np.ndarray) -> np.ndarray:
    """Which edges are there, shape (chain, draw, edge), of numbers of parent sets."""
    from bayeslab.engines.toolbox.structure_groups import members_of_sets

    found = members_of_sets(built, draws.reshape(-1))
    return np.asarray(found).reshape(*draws.shape[:2], -1)


def worst_r_hat(edges: np.ndarray) -> float:
    """The largest R-hat of halves of chains, of indicators (chain, draw, edge); infinite: chains that never move."""
    half = edges.shape[1] // 2
    mean = np.stack([edges[:, :half].mean(axis=1), edges[:, -half:].mean(axis=1)]).reshape(-1, edges.shape[2])
    within = (mean * (1 - mean)).mean(axis=0) * half / (half - 1)
    between = mean.var(axis=0, ddof=1)
    moving = (between > 0) | (within > 0)
    with np.errstate(divide="ignore"):
        return float(np.sqrt((half - 1) / half + between[moving] / within[moving]).max(initial=1.0))


def edge_sizes(edges: np.ndarray) -> dict[str, float]:
    """Effective sizes of the indicators of the uncertain edges: the median and the least."""
    from bayeslab.results.structure_checks import indicators

    mean = edges.mean(axis=(0, 1))
    chosen = np.flatnonzero((mean > UNCERTAIN[0]) & (mean < UNCERTAIN[1]))
    if not len(chosen):
        return {"median": float("nan"), "least": float("nan"), "edges": 0}
    size = indicators(np.moveaxis(edges[:, :, chosen], -1, 0))["ess"]
    return {"median": float(np.nanmedian(size)), "least": float(np.nanmin(size)), "edges": len(chosen)}


def best_alone(edges: np.ndarray) -> float:
    """The median effective size had all chains done as well as the one that did best by itself; where they disagree."""
    alone = [edge_sizes(own[None])["median"] for own in edges]
    return float(np.nanmax([*alone, 0.0])) * len(edges)


def agreement(edges: np.ndarray, scores: np.ndarray, marks: list[tuple[float, int]], setup: float) -> dict[str, Any]:
    """When chains agreed, and what their draws are worth; at each mark the first half is thrown away."""
    reached: float | None = None
    last = float("nan")
    for clock, n_draws in marks:
        if n_draws < 20:
            continue
        last = worst_r_hat(edges[:, n_draws // 2 : n_draws])
        # It has to stay below.
        reached = None if last >= R_HAT else (clock if reached is None else reached)
    kept = edges[:, edges.shape[1] // 2 :]
    size = edge_sizes(kept)
    # The second half of the draws took half of the time after the table.
    sampling = (marks[-1][0] - setup) / 2
    return {
        "setup": setup,
        "seconds": marks[-1][0],
        "draws": edges.shape[1],
        "agreed": reached,
        "r_hat": last if np.isfinite(last) else None,
        "ess": size["median"],
        "ess least": size["least"],
        "uncertain": size["edges"],
        "rate": size["median"] / sampling,
        "rate least": size["least"] / sampling,
        "rate alone": best_alone(kept) / sampling,
        "between chains": float(np.ptp(kept.mean(axis=1), axis=0).max()),
        "scores": sorted(scores[:, scores.shape[1] // 2 :].mean(axis=1).tolist()),
        "edges": np.round(kept.mean(axis=(0, 1)), 4).tolist(),
    }


def posterior(name: str, budget: float) -> dict[str, Any]:
    """The engine's sampler with what it takes by default, but for more draws that are closer together.

    Seconds are those of the processor over its cores: others who use the machine do not count.
    """
    from bayeslab.computer import available_cores
    from bayeslab.families.bayes_net.structure_spec import Structure
    from bayeslab.structure.jobs import Chain, MemorySegments, Work, Workers, run
    from bayeslab.structure.score_table import ScoreTable
    from bayeslab.structure.scores import load

    score = load("bdeu", rows_of(name), equivalent_sample_size=10.0)
    sampler = Structure().chain()
    thin = STEPS * len(score.names)
    small = ScoreTable.build(score, max_parents=1, prior="sparse")
    run(small, sampler, Work(2, 0, thin, 1, 2, 0), MemorySegments(), Workers())

    cores = available_cores()
    begun = time.process_time() / cores

    class Until(MemorySegments):
        def stopping(self) -> bool:
            return time.process_time() / cores - begun > budget

    built = ScoreTable.build(score, max_parents=MAX_PARENTS, prior="sparse")
    setup = time.process_time() / cores - begun
    marks: list[tuple[float, int]] = []

    def report(chains: list[Chain], whole: bool) -> None:
        marks.append((time.process_time() / cores - begun, min(sum(map(len, chain.scores)) for chain in chains)))

    work = Work(draws=200_000, tune=0, thin=thin, chains=CHAINS, segment=500, seed=1)
    chains = run(built, sampler, work, Until(), Workers(cores, threads=True), report)
    n_draws = min(sum(map(len, chain.scores)) for chain in chains)
    draws = np.stack([np.concatenate(chain.draws)[:n_draws] for chain in chains])
    scores = np.stack([np.concatenate(chain.scores)[:n_draws] for chain in chains])
    return agreement(members(built, draws), scores, [mark for mark in marks if mark[1] <= n_draws], setup)


# The peer. Gadget is driven through the methods that its ``sample`` calls in a row, to know when each draw was there.


def sumu(name: str, budget: float) -> dict[str, Any] | None:
    """Gadget with 16 temperatures (its own advice), its scores worked out once for all chains."""
    try:
        import sumu as peer
    except ImportError:
        return None
    from multiprocessing import get_context

    from bayeslab.computer import available_cores

    _full = np.full
    # Its release asks NumPy for arrays of shapes that are floats.
    np.full = lambda shape, *more, **options: _full([int(x) for x in np.atleast_1d(shape)], *more, **options)
    codes = [np.unique(column, return_inverse=True)[1] for column in rows_of(name).values()]
    begun = time.process_time()
    gadget = peer.Gadget(
        data=peer.gadget.Data(np.ascontiguousarray(np.array(codes, np.int32).T)),
        scoref="bdeu",
        ess=10,
        max_id=MAX_PARENTS,
        K=10,
        d=MAX_PARENTS,
        cp_algo="greedy-lite",
        mc3_chains=16,
        tolerance=2**-32,
    )
    gadget._find_candidate_parents()
    gadget._precompute_scores_for_all_candidate_psets()
    gadget._precompute_candidate_restricted_scoring()
    gadget._precompute_candidate_complement_scoring()
    setup = time.process_time() - begun
    cores = min(available_cores(), CHAINS)
    _GADGET.append(gadget)
    # Draws of DAGs from partitions come after the walk and take more than half of the time.
    each = 0.4 * budget * cores / CHAINS
    with get_context("fork").Pool(cores, maxtasksperchild=1) as pool:
        found = pool.starmap(_gadget_chain, [(number, each) for number in range(CHAINS)], chunksize=1)
    n_draws = min(len(edges) for edges, _, _ in found)
    edges, scores = (np.stack([own[k][:n_draws] for own in found]) for k in (0, 1))
    # Seconds a draw, walk and DAG, of the slowest chain; so many chains at once as there are cores.
    pace = max(taken / len(own) for own, _, taken in found) * CHAINS / cores
    marks = [(setup + k * pace, k) for k in np.unique(np.linspace(20, n_draws, 60).astype(int)).tolist()]
    return agreement(edges, scores, marks, setup)


_GADGET: list[Any] = []


def _gadget_chain(number: int, budget: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Edges of the draws of one chain, shape (draw, edge), their scores, and the seconds that they took."""
    # Its random numbers are NumPy's global ones.
    np.random.seed(number)  # noqa: NPY002
    gadget = _GADGET[0]
    begun = time.process_time()
    gadget._init_mcmc()
    gadget.Rs = []
    step = 0
    while time.process_time() - begun < budget:
        drawn = gadget.mcmc.sample()[0]
        step += 1
        if step % _GADGET_THIN == 0:
            gadget.Rs.append(drawn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graphs, scores = gadget._sample_dags()
    taken = time.process_time() - begun
    edges = np.zeros((len(graphs), gadget.n, gadget.n), bool)
    for k, graph in enumerate(graphs):
        for family in graph:
            for u in family[1] if len(family) > 1 else ():  # one without parents is alone
                edges[k, family[0], int(u)] = True
    return edges.reshape(len(edges), -1), np.array(scores, dtype=float), taken


# --------------------------------------------------------------------------------- growth


def random_rows(n: int, n_rows: int, rng: np.random.Generator) -> dict[str, list[str]]:
    """Rows of a random net: three states, up to two parents among the ten variables before."""
    codes = np.empty((n_rows, n), np.int64)
    for v in range(n):
        near = np.arange(max(0, v - 10), v)
        above = rng.choice(near, min(len(near), int(rng.integers(0, 3))), replace=False)
        tables = rng.dirichlet(np.full(3, 0.5), 9).cumsum(axis=1)
        place = np.zeros(n_rows, np.int64)
        for u in above:
            place = 3 * place + codes[:, u]
        codes[:, v] = (rng.random((n_rows, 1)) > tables[place, :2]).sum(axis=1)
    return {f"x{v:03}": [f"s{x}" for x in codes[:, v]] for v in range(n)}


def scaling() -> Iterator[dict[str, float]]:
    """The score table of up to three parents, and microseconds of a step of each chain."""
    from bayeslab.structure import chains
    from bayeslab.structure.score_table import ScoreTable
    from bayeslab.structure.scores import load

    kinds: dict[str, tuple[str, int, dict[str, float]]] = {
        "edge": ("structure", 1_000_000, {"reversal": 0.0, "renewal": 0.0}),
        "reversal": ("structure", 2_000, {"reversal": 1.0, "renewal": 0.0}),
        "structure": ("structure", 100_000, {}),
        "order": ("order", 20_000, {}),
        "partition": ("partition", 5_000, {}),
    }
    for n in SIZES:
        for n_rows in LENGTHS:
            score = load("bdeu", random_rows(n, n_rows, np.random.default_rng(n)))
            ScoreTable.build(score, max_parents=1)
            begun = time.perf_counter()
            built = ScoreTable.build(score, max_parents=MAX_PARENTS)
            out: dict[str, float] = {"n": n, "N": n_rows, "sets": len(built.scores)}
            out["table"] = time.perf_counter() - begun
            for kind, (word, steps, options) in kinds.items():
                chain = chains.load(word)
                state = chain.init(built, np.random.default_rng(1))
                state, _, _ = chain.run(built, state, steps // 2, 1 << 40)
                taken = seconds(lambda: chain.run(built, state, steps, 1 << 40, **options))  # noqa: B023
                out[kind] = 1e6 * taken / steps
            out["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            yield out


def main(what: str, *options: str) -> Iterator[dict[str, Any]]:
    """The lines of a case."""
    if what == "rates":
        for name in options:
            yield {name: rates(name)}
    elif what == "posterior":
        yield {options[0]: posterior(options[0], float(options[1]))}
    elif what == "sumu":
        yield {options[0]: sumu(options[0], float(options[1]))}
    else:
        for row in scaling():
            yield {f"{row['n']}, {row['N']}": row}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for told in main(*sys.argv[1:]):
        print(json.dumps(told), flush=True)
