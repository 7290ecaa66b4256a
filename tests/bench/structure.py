"""Structure learning against pyAgrum, pgmpy, sumu and plain NumPy, in one run.

``make bench`` prints ratios. Rates of the peers are of random families, the same ones for each; ours are of all families
at once, as a score table has them, compiled code being loaded before the clock starts. Answers are compared before
times are (pyAgrum's BDeu differs from the formula and is only timed).

A case is a function that prints its lines; further ones go into ``CASES``. The picture of the last one goes to
``runs/bench/``.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(os.environ.get("BAYESLAB_TABLES", Path(__file__).parents[3] / "shared" / "data" / "tables"))

NETWORKS = Path(os.environ.get("BAYESLAB_NETWORKS", FOLDER.parent / "networks"))


def table(name: str, n_rows: int) -> dict[str, list[str]]:
    """The first rows of a table, cells as words."""
    with (FOLDER / f"{name}.csv").open(newline="") as stream:
        rows = [row for row, _ in zip(csv.DictReader(stream), range(n_rows), strict=False)]
    return {v: [row[v] for row in rows] for v in rows[0]}


def seconds(work: Callable[[], Any], times: int = 3) -> float:
    """Median time of a call."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken))


def line(what: str, ours: float, theirs: float, peer: str, unit: str) -> None:
    """Rates, large is good."""
    print(f"{what:<46}{ours:>14,.0f}{theirs:>14,.0f}{ours / theirs:>10.1f}   {unit}, {peer}", flush=True)


def random_families(n: int, how_many: int) -> list[tuple[int, tuple[int, ...]]]:
    """Families of three parents, which nearly all families of up to three have."""
    rng = np.random.default_rng(0)
    chosen = [rng.choice(n, 4, replace=False).tolist() for _ in range(how_many)]
    return [(v, tuple(sorted(parents))) for v, *parents in chosen]


# The peers: a function from a family (child, parents) to a score.


def numpy_bdeu(data: dict[str, list[str]], ess: float = 10.0) -> Callable[[int, tuple[int, ...]], float]:
    from scipy.special import gammaln

    pairs = [np.unique(column, return_inverse=True) for column in data.values()]
    codes, cards = [codes for _, codes in pairs], [len(words) for words, _ in pairs]

    def local(child: int, parents: tuple[int, ...]) -> float:
        place, q = np.zeros(len(codes[0]), np.int64), 1
        for u in parents:
            place, q = place * cards[u] + codes[u], q * cards[u]
        r = cards[child]
        n = np.bincount(place * r + codes[child], minlength=q * r).reshape(q, r)
        cells = gammaln(n + ess / (q * r)).sum() - q * r * gammaln(ess / (q * r))
        return float(cells - gammaln(n.sum(1) + ess / q).sum() + q * gammaln(ess / q))

    return local


def pgmpy_bdeu(data: dict[str, list[str]], ess: float = 10.0) -> Callable[[int, tuple[int, ...]], float]:
    import pandas as pd
    from pgmpy.structure_score import BDeu

    score, names = BDeu(pd.DataFrame(data), equivalent_sample_size=ess), list(data)
    return lambda child, parents: float(score.local_score(names[child], tuple(names[u] for u in parents)))


def agrum_bdeu(data: dict[str, list[str]], threads: int) -> Callable[[int, tuple[int, ...]], float]:
    import pandas as pd
    import pyagrum as gum

    learner, names = gum.BNLearner(pd.DataFrame(data)), list(data)
    learner.useScoreBDeu()
    learner.setNumberOfThreads(threads)
    return lambda child, parents: float(learner.score(names[child], [names[u] for u in parents]))


def rate(local: Callable[[int, tuple[int, ...]], float], families: list[tuple[int, tuple[int, ...]]]) -> float:
    local(*families[-1])
    start = time.perf_counter()
    for child, parents in families:
        local(child, parents)
    return len(families) / (time.perf_counter() - start)


# The cases.


def local_scores() -> None:
    """BDeu of all families of alarm with up to three parents, 10,000 rows; equal to two other programs' values."""
    from bayeslab.structure.score_table import ScoreTable
    from bayeslab.structure.scores import load

    data = table("alarm", 10_000)
    score = load("bdeu", data)
    built = ScoreTable.build(score, max_parents=3, threads=1)
    plain, theirs = numpy_bdeu(data), pgmpy_bdeu(data)
    for child, parents in random_families(37, 30):
        for other in (plain, theirs):
            if abs(built.local(child, parents) - other(child, parents)) > 1e-8:
                raise SystemExit(f"BDeu of {child} given {parents} differs")
    n, cores = len(built.scores), os.cpu_count() or 1
    one = n / seconds(lambda: ScoreTable.build(score, max_parents=3, threads=1))
    every = n / seconds(lambda: ScoreTable.build(score, max_parents=3))
    families = random_families(37, 1500)
    sides = {
        "pyAgrum, 1 thread": rate(agrum_bdeu(data, 1), families),
        f"pyAgrum, {cores} threads": rate(agrum_bdeu(data, cores), families),
        "NumPy": rate(plain, families[:500]),
        "pgmpy": rate(theirs, families[:100]),
    }
    for peer, speed in sides.items():
        mine, threads = (every, cores) if peer.endswith("threads") else (one, 1)
        line(f"alarm, {n:,} BDeu scores, {threads} thread(s)", mine, speed, peer, "scores/s")
    sets = built.sets[built.pointer[3] : built.pointer[3] + 2000]
    some = len(sets) / seconds(lambda: score.many(3, sets))
    line("alarm, BDeu scores of single families", some, max(sides.values()), "the fastest of these", "scores/s")


def every_score() -> None:
    """All scores on the same table, so that none falls behind unnoticed."""
    from bayeslab.structure.score_table import ScoreTable
    from bayeslab.structure.scores import load

    data = table("alarm", 10_000)
    for name in ("bdeu", "bic", "k2", "mdl", "bds"):
        score = load(name, data)
        ScoreTable.build(score, max_parents=1, threads=1)
        taken = seconds(lambda score=score: ScoreTable.build(score, max_parents=3, threads=1), 1)
        print(f"{f'alarm, 288,859 scores, {name}':<46}{288_859 / taken:>14,.0f}   scores/s", flush=True)
    x = np.random.default_rng(0).normal(size=(10_000, 37))
    for name in ("bge", "gaussian_bic"):
        score = load(name, {f"x{i}": column for i, column in enumerate(x.T)})
        ScoreTable.build(score, max_parents=1, threads=1)
        taken = seconds(lambda score=score: ScoreTable.build(score, max_parents=3, threads=1), 1)
        print(f"{f'37 normal columns, 288,859 scores, {name}':<46}{288_859 / taken:>14,.0f}   scores/s", flush=True)


def table_growth() -> None:
    """Seconds for a table of up to three parents against the numbers of variables and rows."""
    from bayeslab.structure.score_table import ScoreTable
    from bayeslab.structure.scores import load

    whole = table("hailfinder", 20_000)
    sizes, lengths = (10, 20, 40, 56), (1_000, 5_000, 20_000)
    print(f"{'hailfinder, s for all sets of <= 3 parents':<46}" + "".join(f"{f'N = {r:,}':>14}" for r in lengths))
    for n in sizes:
        row = []
        for n_rows in lengths:
            score = load("bdeu", {v: column[:n_rows] for v, column in list(whole.items())[:n]})
            row.append(seconds(lambda score=score: ScoreTable.build(score, max_parents=3), 1))
        print(f"{f'  n = {n}':<46}" + "".join(f"{t:>14.3f}" for t in row), flush=True)


def constraint_search() -> None:
    """PC with G² tests at 0.01, alarm, 20,000 rows; from a table of words, reading it included."""
    import pandas as pd
    import pyagrum as gum
    from pgmpy.causal_discovery import PC

    from bayeslab.structure.searches import pc

    data = table("alarm", 20_000)
    frame = pd.DataFrame(data)
    # pgmpy takes numbers only; turning words into them is not in its time.
    codes = frame.apply(lambda column: column.astype("category").cat.codes)
    learner = gum.BNLearner(frame)
    learner.usePC()
    learner.useG2Test()
    pc.search({v: column[:100] for v, column in data.items()})
    ours = seconds(lambda: pc.search(data))
    sides = {
        "pgmpy": lambda: PC(variant="stable", ci_test="g_sq", significance_level=0.01, show_progress=False).fit(codes),
        "pyAgrum": learner.learnPDAG,
    }
    for peer, work in sides.items():
        theirs = seconds(work, 1)
        print(
            f"{'alarm, PC, 20,000 rows':<46}{ours:>14.3f}{theirs:>14.3f}{theirs / ours:>10.1f}   s, {peer}", flush=True
        )


def searches() -> None:
    """Hill climbing and tabu by BDeu, each against the same of pyAgrum, and against pgmpy's hill climbing."""
    if not NETWORKS.is_dir():
        print(f"searches: no networks in {NETWORKS}: set BAYESLAB_NETWORKS to a folder with alarm.bif and the others")
        return
    for case, found in alone("_search_case.py", str(NETWORKS), "bdeu"):
        for own, peers in SEARCHES.items():
            for peer in peers:
                if peer in found:
                    seconds_line(f"{case}, {own}", found[f"bayeslab {own}"], found[peer], peer)
        best = max((name for name in found if name.startswith("bayeslab")), key=lambda name: found[name]["score"])
        print(f"  best score: {best} {found[best]['score']:,.1f}; the true net {found['true net']['score']:,.1f}")


SEARCHES = {
    "hill climbing": ("pyAgrum hill climbing", "pgmpy hill climbing"),
    "tabu": ("pyAgrum tabu", "pgmpy hill climbing"),
}


def alone(program: str, *options: str) -> Iterator[tuple[str, Any]]:
    """Items of the lines of JSON of a program of its own, as they come."""
    command = [sys.executable, str(Path(__file__).parent / program), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        for told in running.stdout or ():
            yield from json.loads(told).items()
    if running.returncode:
        raise SystemExit(f"{program} {' '.join(options)} failed")


def seconds_line(what: str, ours: dict[str, float], theirs: dict[str, float], peer: str) -> None:
    """Times, large ratios are good; and how much better our score is."""
    better = f"score {ours['score'] - theirs['score']:+,.1f}"
    ratio = theirs["seconds"] / ours["seconds"]
    print(
        f"{what:<46}{ours['seconds']:>14.3f}{theirs['seconds']:>14.3f}{ratio:>10.1f}   s, {peer}; {better}", flush=True
    )


def exact_optimum() -> None:
    """The best of all graphs of 20 variables, score table included: of a real table, and of noise."""
    from bayeslab.structure.exact_posterior import best_graph
    from bayeslab.structure.score_table import ScoreTable
    from bayeslab.structure.scores import load

    real = dict(list(table("insurance", 10_000).items())[:20])
    noise = {f"x{i:02}": column for i, column in enumerate(np.random.default_rng(0).integers(0, 3, (20, 1_000)))}
    for name, data in (("insurance, 20 columns, 10,000 rows", real), ("noise, 20 columns, 1,000 rows", noise)):
        score = load("bdeu", data)
        best_graph(ScoreTable.build(score, max_parents=1, prune=0.0))
        for most in (3, 5):
            taken = seconds(
                lambda score=score, most=most: best_graph(ScoreTable.build(score, max_parents=most, prune=0.0)), 1
            )
            print(f"{f'{name}, exact, <= {most} parents':<46}{taken:>14.2f}{60:>14}{60 / taken:>10.1f}   s, the limit")


# Gibby (C++, no Python package), as measured on another machine: millions of single edges proposed and thousands of
# reversals a second, seconds of its schedule.
GIBBY = {"child": (19.0, 462.0, 0.33), "insurance": (9.3, 212.0, 0.59), "alarm": (5.8, 85.0, 1.07)}


def chain_rates() -> None:
    """Steps of the structure chain; only a ratio to figures from elsewhere, which need not hold on a busy machine."""
    there = "Gibby's figure, other machine"
    for name, own in alone("_structure_sampling_case.py", "rates", *GIBBY):
        edges, reversals, schedule = GIBBY[name]
        line(f"{name}, single edges", own["edge"], edges * 1e6, there, "proposals/s")
        line(f"{name}, edge reversals", own["reversal"], reversals * 1e3, there, "proposals/s")
        ours = own["schedule"]
        print(
            f"{f'{name}, 2.3 million steps of all kinds':<46}{ours:>14.2f}{schedule:>14.2f}{schedule / ours:>10.1f}   s, {there}"
        )
        print(
            f"  {own['ess'] / ours:,.0f} effective draws/s of {own['uncertain']:.0f} uncertain edges (median; the least"
            f" {own['ess least'] / ours:,.0f}); Gibby gives no such figure; table {own['table']:.2f} s"
        )


def structure_posterior() -> None:
    """Four chains over structures against sumu's Gadget: same rows, score, prior and largest number of parents.

    Both draw as often as is worth it: draws far apart would cost the faster chain more of its effective ones.
    """
    for name, (budget, more) in {"insurance": (15, 25), "alarm": (25, 35)}.items():
        ours = dict(alone("_structure_sampling_case.py", "posterior", name, str(budget)))[name]
        theirs = dict(alone("_structure_sampling_case.py", "sumu", name, str(more)))[name]
        print(f"{name}, 1,000 rows, 4 chains")
        told_chains("bayeslab", ours)
        if theirs is None:
            print("  sumu is not installed: pip install sumu (a C++ compiler builds it)", flush=True)
            continue
        told_chains("sumu", theirs)
        apart = float(np.abs(np.subtract(ours["edges"], theirs["edges"])).max())
        print(f"  probabilities of edges differ by {apart:.2f} at most between the programs")
        measures = {"rate": "median of edges", "rate least": "least of edges", "rate alone": "as best chain alone"}
        for key, words in measures.items():
            rates = f"{ours[key]:>14.1f}{theirs[key]:>14.1f}{ours[key] / theirs[key]:>10.1f}"
            print(f"{f'{name}, effective draws, {words}':<46}{rates}   1/s, sumu", flush=True)
        if ours["agreed"]:
            reached = theirs["agreed"] or theirs["seconds"]
            sign = "" if theirs["agreed"] else ">"
            print(
                f"{f'{name}, largest R-hat of an edge below 1.05':<46}{ours['agreed']:>14.1f}{f'{sign}{reached:.1f}':>14}"
                f"{f'{sign}{reached / ours["agreed"]:.1f}':>10}   s, sumu"
            )


def told_chains(program: str, own: dict[str, Any]) -> None:
    """What four chains came to; chains that have not found where the others are have other scores."""
    agreed = "never" if own["agreed"] is None else f"after {own['agreed']:.1f} s"
    lowest, highest = own["scores"][0], own["scores"][-1]
    print(f"  {program}: R-hat of all edges below 1.05 {agreed} of {own['seconds']:.1f} (scores {own['setup']:.1f} s)")
    print(
        f"    {own['draws']} draws a chain, mean scores of chains {lowest:,.1f} to {highest:,.1f}, probabilities"
        f" {own['between chains']:.2f} apart at most; all as the best chain alone: {own['rate alone']:.0f} effective/s",
        flush=True,
    )


STEPS = ("edge", "reversal", "structure", "order", "partition")


def chain_growth(plot: str) -> None:
    """Microseconds of a step against the numbers of variables and rows; up to three parents, no tempering."""
    print(
        f"{'microseconds a step':<28}{'sets':>14}{'table, s':>10}" + "".join(f"{k:>11}" for k in STEPS) + f"{'MiB':>8}"
    )
    rows = []
    for _, row in alone("_structure_sampling_case.py", "scaling"):
        rows.append(row)
        head = f"  n = {row['n']}, N = {row['N']:,}"
        steps = "".join(f"{row[kind]:>11.2f}" for kind in STEPS)
        print(f"{head:<28}{row['sets']:>14,}{row['table']:>10.2f}{steps}{row['peak']:>8,.0f}", flush=True)
    drawn(rows, plot)
    print(f"  drawn in {plot}")


def drawn(rows: list[dict[str, float]], path: str) -> None:
    """The same as a picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for number, kind in enumerate(STEPS):
        for n_rows, style in zip(sorted({row["N"] for row in rows}), ("-", "--", ":"), strict=False):
            own = [row for row in rows if row["N"] == n_rows]
            xs, ys = [row["n"] for row in own], [row[kind] for row in own]
            axes.loglog(xs, ys, style, marker="o", color=f"C{number}", label=f"{kind}, N = {n_rows:,}")
    axes.set(xlabel="variables", ylabel="microseconds a step")
    axes.set_xticks(sorted({row["n"] for row in rows}), labels=[str(n) for n in sorted({row["n"] for row in rows})])
    axes.minorticks_off()
    axes.legend(fontsize="x-small", ncols=2)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


CASES: list[Callable[..., None]] = [
    local_scores,
    every_score,
    table_growth,
    constraint_search,
    searches,
    exact_optimum,
    chain_rates,
    structure_posterior,
    chain_growth,
]


def main() -> None:
    names = [case.__name__ for case in CASES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(names), help=f"comma-separated, of {', '.join(names)}")
    picture = "runs/bench/structure_chains.png"
    parser.add_argument(
        "--plot", metavar="PATH", default=picture, help="picture of the case chain_growth (%(default)s)"
    )
    given = parser.parse_args()
    chosen = given.cases.split(",")
    warnings.simplefilter("ignore")
    if not FOLDER.is_dir():
        raise SystemExit(f"no tables in {FOLDER}: set BAYESLAB_TABLES to a folder with alarm.csv and the others")
    print(f"{'':46}{'ours':>14}{'theirs':>14}{'ratio':>10}")
    for case in CASES:
        if case.__name__ in chosen:
            case(given.plot) if case is chain_growth else case()


if __name__ == "__main__":
    main()
