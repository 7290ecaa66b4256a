"""``bayeslab learn``: the structure of a Bayes net from a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeslab.cli._shared import JsonOption, output, print_json


def command(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="Data: .csv .tsv .parquet .json.", show_default=False)],
    method: Annotated[
        str,
        typer.Option(
            "--method", "-m", help="tabu, hill_climbing, order_search, annealing, greedy_parents or chow_liu."
        ),
    ] = "tabu",
    score: Annotated[
        str, typer.Option(help="bdeu, bds, k2, bic, aic, mdl, log_likelihood; bge, gaussian_bic; mixed_bic.")
    ] = "bdeu",
    max_parents: Annotated[int | None, typer.Option(min=0, help="At most so many parents.")] = None,
    required: Annotated[
        list[str] | None, typer.Option("--require", metavar="FROM,TO", help="An edge that must be there.")
    ] = None,
    forbidden: Annotated[
        list[str] | None, typer.Option("--forbid", metavar="FROM,TO", help="An edge that must not be there.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of searches that draw random numbers.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write the network here: .bif .xmlbif .xdsl .net .uai, or .yaml."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Learn a structure and its tables: the search with the highest score, and the network that follows."""
    import sys

    from bayeslab.structures import learn

    found = learn(
        table,
        method,
        score,
        max_parents=max_parents,
        required=[_edge(word, "--require") for word in required or []],
        forbidden=[_edge(word, "--forbid") for word in forbidden or []],
        seed=seed,
    )
    if out is not None:
        net = found.network()
        if out.suffix in (".yaml", ".yml"):
            net.save(out)
        else:
            for remark in net.write(out):
                print(f"note: {remark}", file=sys.stderr)
    if json:
        edges = [{"from": a, "to": b, "compelled": (a, b) in found.compelled} for a, b in found.graph.edges]
        print_json({"method": method, "score": {score: found.score}, "edges": edges, "written": out})
        return
    lines = [f"{score} {found.score:,.3f}, {len(found.graph.edges)} edges ({method})", ""]
    wide = max((len(a) for a, _ in found.graph.edges), default=0)
    lines += [f"{a:<{wide}} -> {b}" + ("" if (a, b) in found.compelled else "  ~") for a, b in found.graph.edges]
    if len(found.compelled) < len(found.graph.edges):
        lines += ["", "~ could be the other way round: the data say nothing about its direction"]
    output(None, "\n".join(lines))
    if out is not None:
        print(f"\nwritten {out}")


def _edge(word: str, option: str) -> tuple[str, str]:
    first, comma, second = word.partition(",")
    if not comma:
        raise typer.BadParameter(f"{option} takes FROM,TO, not '{word}'")
    return first.strip(), second.strip()
