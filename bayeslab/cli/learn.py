"""``bayeslab learn``: the structure of a Bayes net from a table."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayeslab.cli.toolbox.shared import (
    ForceOption,
    JobsOption,
    JsonOption,
    SchedulerOption,
    assignments,
    check_output,
    output,
    print_json,
)

if TYPE_CHECKING:
    from bayeslab.structure.bootstrap import EdgeConfidence
    from bayeslab.structure.partial_graph import PartialGraph
    from bayeslab.structures import Learned

_ARROWS = {"→": "->", "—": "-", "↔": "<->", "o→": "o->", "—o": "-o", "o—": "o-"}

_CAPTION = (
    "precision and recall of edges without direction, then of the arrows that a whole class shares; SHD: pairs of\n"
    "variables that are joined otherwise than in the known network, of the graphs and of their classes"
)


def command(
    table: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE",
            help="Data (.csv .tsv .parquet .json), or a model file (.yaml) of a net of unknown structure, which then"
            " sets the defaults of the options.",
            show_default=False,
        ),
    ],
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            "-m",
            help="Search by score: exact, order_search, tabu, hill_climbing, annealing, a_star, ges, mmhc,"
            " greedy_parents, chow_liu, tan. By independence tests: pc, fci. With missing cells: structural_em."
            " Default: the best score search that takes seconds. Repeat the option to compare several methods.",
        ),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(
            help="bdeu, bds, k2, bic, aic, mdl, log_likelihood, noisy_or_bic; bge, gaussian_bic; mixed_bic."
            " Default: chosen by the type of the columns."
        ),
    ] = None,
    score_options: Annotated[
        list[str] | None,
        typer.Option("--score-option", metavar="KEY=VALUE", help="Such as equivalent_sample_size=1."),
    ] = None,
    max_parents: Annotated[int | None, typer.Option(min=0, help="Maximum number of parents of a variable.")] = None,
    candidates: Annotated[
        int | None,
        typer.Option(
            min=0, help="Number of candidate parents per variable: those that improve its score most as single parents."
        ),
    ] = None,
    required: Annotated[
        list[str] | None, typer.Option("--require", metavar="FROM,TO", help="An edge that the graph must have.")
    ] = None,
    forbidden: Annotated[
        list[str] | None, typer.Option("--forbid", metavar="FROM,TO", help="An edge that the graph must not have.")
    ] = None,
    tiers: Annotated[
        list[str] | None,
        typer.Option(
            "--tier",
            metavar="A,B,...",
            help="Variables of one tier, earliest tier first; no edge leads to an earlier tier.",
        ),
    ] = None,
    restarts: Annotated[int | None, typer.Option(min=0, help="Restarts of hill_climbing.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any option of the search.")
    ] = None,
    counts: Annotated[
        str,
        typer.Option(
            metavar="memory|duckdb",
            help="Where rows are counted: duckdb for a .csv or .parquet file larger than memory.",
        ),
    ] = "memory",
    bootstrap: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Assess stability: relearn from N bootstrap samples of the rows."),
    ] = None,
    jobs: JobsOption = None,
    scheduler: SchedulerOption = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of searches that draw random numbers, and of the bootstrap.")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(metavar="NETWORK", help="Compare the result with this known network.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write the network here: .bif .xmlbif .xdsl .net .uai, or .yaml."),
    ] = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Learn a structure and its tables from data: one search, or several side by side."""

    from bayeslab.structures import learn

    given: dict[str, Any] = {
        "max_parents": max_parents,
        "candidates": candidates,
        "required": [_edge(word, "--require") for word in required or []],
        "forbidden": [_edge(word, "--forbid") for word in forbidden or []],
        "tiers": [[v.strip() for v in word.split(",")] for word in tiers or []],
        "score_options": assignments(score_options or [], option="--score-option") or None,
        "seed": seed,
    }
    if restarts is not None:
        given["restarts"] = restarts
    options = {"required": "--require", "forbidden": "--forbid", "tiers": "--tier", "score_options": "--score-option"}
    elsewhere = {
        key: options.get(key, f"--{key.replace('_', '-')}") for key, value in given.items() if value not in (None, [])
    }
    given |= assignments(set_ or [], elsewhere | {"data": "FILE", "method": "--method", "score": "--score"})
    if bootstrap is not None and len(methods or []) > 1:
        raise typer.BadParameter("--bootstrap needs a single method")
    if bootstrap is None and (jobs, scheduler) != (None, None):
        raise typer.BadParameter("--jobs and --scheduler are for the samples of --bootstrap")
    check_output(out, table, compare, force=force)
    rows_of = _counted(table, counts)
    chosen, seconds = [], []
    wanted: list[str | None] = [*methods] if methods else [None]
    for method in wanted:
        begun = time.perf_counter()
        chosen.append(learn(rows_of, method, score, **given))
        seconds.append(time.perf_counter() - begun)
    sure = None
    if bootstrap is not None:
        sure = chosen[0].bootstrap(bootstrap, seed=seed or 0, jobs=jobs or 1, scheduler=scheduler)
    best = max(chosen, key=lambda one: float("-inf") if one.method == "fci" else one.score)
    rows = _rows(chosen, seconds, compare)
    notes = _written(best, out) if out is not None else []
    if json:
        content = _content(chosen, rows, out)
        print_json(
            content
            if sure is None
            else content | {"bootstrap": {"samples": bootstrap, "edges": sure.table().to_dict("records")}}
        )
        return
    parts = [_single(chosen[0])] if len(chosen) == 1 else [f"{best.criterion}, best first"]
    if len(chosen) > 1 or compare:
        parts.append(_table(rows))
    if compare:
        parts.append(_CAPTION)
    if sure is not None:
        parts.append(_stability(sure))
    output(None, "\n\n".join(parts))
    for note in notes:
        print(note)


def _counted(table: Path, counts: str) -> Any:
    """The path of the table, or observations that DuckDB counts."""
    if counts not in ("memory", "duckdb"):
        raise typer.BadParameter(f"--counts is memory or duckdb, not '{counts}'")
    if counts == "memory":
        return table
    if table.suffix not in (".csv", ".parquet"):
        raise typer.BadParameter(f"duckdb counts the rows of .csv and .parquet files, not of {table.name}")
    from bayeslab.structure import duckdb_counts

    return duckdb_counts.observations(table)


def _stability(sure: EdgeConfidence) -> str:
    """The bootstrap frequencies of edges of at least 0.05; each pair in its more frequent direction."""
    shown: dict[frozenset[str], list[str]] = {}
    for row in sure.table().to_dict("records"):
        a, b = str(row["from"]), str(row["to"])
        if float(row["joined"]) >= 0.05:
            shown.setdefault(frozenset((a, b)), [a, b, f"{row['joined']:.2f}", f"{row['directed']:.2f}"])
    lines = [["from", "to", "joined", "this way"], *shown.values()]
    wide = [max(len(line[k]) for line in lines) for k in range(4)]
    body = [f"{a:<{wide[0]}}    {b:<{wide[1]}}  {c:>6}  {d:>8}" for a, b, c, d in lines[:1]]
    body += [f"{a:<{wide[0]}} -> {b:<{wide[1]}}  {c:>6}  {d:>8}" for a, b, c, d in lines[1:]]
    head = f"bootstrap: share of {sure.n_samples:,} samples of the rows in which two are joined, and in this direction"
    return "\n".join([head, "", *body, "", f"sure and unsure edges fall apart at {sure.threshold:.2f}"])


def _rows(chosen: Sequence[Learned], seconds: Sequence[float], compare: Path | None) -> list[dict[str, Any]]:
    from bayeslab.networks import network
    from bayeslab.structures import comparison

    truth = None if compare is None else network(compare).graph
    took = {one.method: s for one, s in zip(chosen, seconds, strict=True)}
    return [row | {"seconds": took[row["method"]]} for row in comparison(chosen, truth).to_dict("records")]


def _written(best: Learned, out: Path) -> list[str]:
    """Write the network; return the notes to print."""

    net = best.network()
    notes = [f"\nwritten {out}"]
    if best.method == "pc":
        notes = [f"\nwritten {out}: of the class one net, the lines without arrowheads turned one way"]
    if out.suffix in (".yaml", ".yml"):
        net.save(out)
        return notes
    for remark in net.write(out):
        print(f"note: {remark}", file=sys.stderr)
    return notes


def _content(chosen: Sequence[Learned], rows: list[dict[str, Any]], out: Path | None) -> dict[str, Any]:
    if len(chosen) > 1:
        return {"methods": rows, "results": {one.method: _content([one], [], None) for one in chosen}, "written": out}
    (one,) = chosen
    by_tests = one.method in ("pc", "fci")
    edges: list[dict[str, Any]] = (
        [{"edge": _plain(word)} for word in one.pattern.edges()]
        if by_tests
        else [{"from": a, "to": b, "compelled": (a, b) in one.compelled} for a, b in one.graph.edges]
    )
    score = None if one.method == "fci" else one.score
    content = {"method": one.method, "score": {one.criterion: score}, "edges": edges, "written": out}
    return content | ({"remark": one.remark} if one.remark else {}) | ({"comparison": rows[0]} if len(rows) else {})


def _single(one: Learned) -> str:
    """One structure as text."""
    if one.method in ("pc", "fci"):
        lines = [f"{_edges(one.pattern.n_edges)} ({one.method}, {one.found.tests} tests)", "", *_drawn(one.pattern)]  # type: ignore[union-attr]
        legend = {
            " - ": "a - b   the data say nothing about the direction",
            " <-> ": "a <-> b something hidden is behind both",
            "o": "o       either end is possible",
        }
        body = "\n".join(lines[2:])
        marks = [text for sign, text in legend.items() if (sign.strip() == "o" and " o-" in body) or sign in body]
        lines += ["", *marks] if marks and one.method == "fci" else ["", *marks[:1]] if marks else []
    else:
        edges = list(one.graph.edges)
        wide = max((len(a) for a, _ in edges), default=0)
        lines = [f"{one.criterion} {one.score:,.3f}, {_edges(len(edges))} ({one.method})", ""]
        lines += [f"{a:<{wide}} -> {b}" + ("" if (a, b) in one.compelled else "  ~") for a, b in edges]
        if len(one.compelled) < len(edges):
            lines += ["", "~ could be the other way round: the data say nothing about its direction"]
    return "\n".join([*lines, *(["", one.remark] if one.remark else [])])


def _drawn(pattern: PartialGraph) -> list[str]:
    """Edges with their marks, one per line, aligned."""
    parts = [word.rsplit(" ", 2) for word in pattern.edges()]
    parts = [[a, _ARROWS.get(mark, mark), b] for a, mark, b in parts]
    first, middle = (max((len(part[k]) for part in parts), default=0) for k in (0, 1))
    return [f"{a:<{first}} {mark:<{middle}} {b}" for a, mark, b in sorted(parts)]


def _edges(n: int) -> str:
    return "1 edge" if n == 1 else f"{n} edges"


def _plain(word: str) -> str:
    a, mark, b = word.rsplit(" ", 2)
    return f"{a} {_ARROWS.get(mark, mark)} {b}"


def _table(rows: list[dict[str, Any]]) -> str:
    """The comparison of methods as a text table."""
    heads = {
        "method": "method",
        "score": "score",
        "edges": "edges",
        "precision": "precision",
        "recall": "recall",
        "arrow_precision": "arrow prec.",
        "arrow_recall": "arrow rec.",
        "shd": "SHD",
        "shd_class": "class SHD",
        "seconds": "seconds",
    }
    shapes = {"score": ",.3f", "seconds": ".2f"}
    columns = [key for key in heads if key in rows[0]]
    cells = [[heads[key] for key in columns]]
    for row in rows:
        cells.append([_cell(row[key], shapes.get(key, ".2f")) for key in columns])
    wide = [max(len(line[k]) for line in cells) for k in range(len(columns))]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if k == 0 else cell.rjust(w) for k, (cell, w) in enumerate(zip(line, wide, strict=True))
        )
        for line in cells
    )


def _cell(value: Any, shape: str) -> str:
    if isinstance(value, float):
        return "" if value != value else format(value, shape)
    return "" if value is None else str(value)


def _edge(word: str, option: str) -> tuple[str, str]:
    first, comma, second = word.partition(",")
    if not comma:
        raise typer.BadParameter(f"{option} takes FROM,TO, not '{word}'")
    return first.strip(), second.strip()
