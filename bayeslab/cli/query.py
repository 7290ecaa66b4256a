"""``bayeslab query``: posterior probabilities of a Bayes net."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from bayeslab.cli.toolbox.shared import (
    ForceOption,
    JsonOption,
    SeedOption,
    check_output,
    evidence,
    output,
    print_json,
)

if TYPE_CHECKING:
    from bayeslab.networks import Network, Query
    from bayeslab.results.structures import Structures


def command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="NETWORK",
            help="A network file (.bif .xmlbif .xdsl .net .dsc .uai), a model file of a bayes_net, or a run folder;"
            " over sampled structures, answers are averaged.",
            show_default=False,
        ),
    ],
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--given",
            "-g",
            metavar="VARIABLE=STATE",
            help="Evidence; VARIABLE={STATE: LIKELIHOOD, ...} for virtual evidence.",
        ),
    ] = None,
    do: Annotated[
        list[str] | None,
        typer.Option(
            "--do", metavar="VARIABLE=STATE", help="An intervention, which cuts the edges from the variable's parents."
        ),
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option("--target", "-t", metavar="VARIABLE", help="A variable to report; default: all.")
    ] = None,
    most_probable: Annotated[
        int | None, typer.Option("--most-probable", min=1, help="Number of most probable joint states to list.")
    ] = None,
    batch: Annotated[
        Path | None, typer.Option(help="A table with one case of evidence per row; empty cells are unknown.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the answer to --batch here.")] = None,
    approximate: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD", help="likelihood_weighting, gibbs or loopy, where exact inference is too costly."
        ),
    ] = None,
    draws: Annotated[int, typer.Option(min=100, help="Draws of --approximate.")] = 100_000,
    force: ForceOption = False,
    seed: SeedOption = None,
    json: JsonOption = False,
) -> None:
    """Posterior probabilities of the variables of a network, exact unless --approximate is given."""
    from bayeslab.networks import network

    if batch is not None and given:
        raise typer.BadParameter("--batch brings its own evidence; leave --given out")
    if most_probable is not None and (batch is not None or target):
        raise typer.BadParameter("--most-probable is for all variables together; leave --batch and --target out")
    if approximate is not None and (batch is not None or most_probable is not None):
        raise typer.BadParameter("--approximate is for marginals of one query; leave --batch and --most-probable out")
    if out is not None and batch is None:
        raise typer.BadParameter("--out is for --batch")
    check_output(out, file, batch, force=force)
    source = _opened(file)
    if hasattr(source, "data_tree") and source.has_group("parent_sets"):
        if most_probable is not None or approximate is not None:
            raise typer.BadParameter("the run has many structures, whose answers are averaged: ask for marginals")
        _averaged(source.structures, given or [], do or [], target, batch, out, seed, json=json)
        return
    asked = network(source)
    if do:
        asked = asked.do(evidence(do, asked.variables, asked.states, "--do"))
    known = evidence(given or [], asked.variables, asked.states)
    if batch is not None:
        _batch(asked, batch, target, out, json=json)
    elif most_probable is not None:
        _explain(asked, known, most_probable, json=json)
    else:
        answer = (
            asked.query(known, target)
            if approximate is None
            else asked.approximate(known, target, method=cast(Any, approximate), draws=draws, seed=seed)
        )
        if json:
            print_json(answer.to_dict())
        else:
            _show(answer)
            if approximate == "loopy":
                output(None, "\nbeliefs of loopy propagation: exact without loops, else of unknown error")


def _opened(file: Path) -> Any:
    """The fit of a run folder; any other path unchanged."""
    from bayeslab.fitting import open_run

    return open_run(file) if (file / "run.json").exists() else file


def _averaged(
    asked: Structures,
    given: list[str],
    do: list[str],
    target: list[str] | None,
    batch: Path | None,
    out: Path | None,
    seed: int | None,
    *,
    json: bool,
) -> None:
    """Print answers averaged over sampled structures."""
    acts = evidence(do, asked.variables, asked.states, "--do")
    if batch is not None:
        if acts:
            raise typer.BadParameter("--batch has observations only; use --do row by row")
        _batch(asked, batch, target, out, json=json)
        return
    answer = asked.query(evidence(given, asked.variables, asked.states), target, do=acts, seed=seed)
    if json:
        print_json(answer.to_dict())
    else:
        _show(answer)


def _show(answer: Query) -> None:
    known = answer.evidence and answer.log_evidence == answer.log_evidence
    lines = [f"log evidence  {answer.log_evidence:.6g}", ""] if known else []
    spans = getattr(answer, "intervals", {})
    wide = max((len(v) for v in (*answer.marginals, *answer.continuous)), default=0)
    for variable, distribution in answer.marginals.items():
        mark = "*" if variable in answer.evidence else " "
        lines.append(
            f"{variable:<{wide}} {mark} "
            + "  ".join(f"{state} {p:.4g}{_span(spans, variable, state)}" for state, p in distribution.items())
        )
    for variable, m in answer.continuous.items():
        mark = "*" if variable in answer.evidence else " "
        lines.append(f"{variable:<{wide}} {mark} mean {m.mean:.5g}{_span(spans, variable, 'mean')}  sd {m.sd:.4g}")
    if answer.errors:
        worst = max(e for errors in answer.errors.values() for e in errors.values())
        lines += ["", f"estimates; largest standard error {worst:.2g}"]
    if spans:
        lines += ["", f"averaged over structures and parameters; in brackets {100 * answer.ci_prob:g}% intervals"]  # type: ignore[attr-defined]
    if answer.evidence:
        lines += ["", "* given"]
    output(None, "\n".join(lines))


def _span(spans: Mapping[str, Mapping[str, tuple[float, float]]], variable: str, state: str) -> str:
    if variable not in spans:
        return ""
    low, high = spans[variable][state]
    return f" [{low:.3g}, {high:.3g}]" if low < high else ""


def _explain(asked: Network, given: dict[str, Any], k: int, *, json: bool) -> None:
    explanations = asked.most_probable(given, k)
    if json:
        print_json([{"log_probability": e.log_probability, "assignment": dict(e.assignment)} for e in explanations])
        return
    # A variable with virtual evidence is not known.
    free = [v for v in asked.states if not isinstance(given.get(v), str)]
    wide = max((len(v) for v in free), default=0)
    lines = ["log probability  " + "  ".join(f"{e.log_probability:.6g}" for e in explanations), ""]
    lines += [f"{v:<{wide}}  " + "  ".join(e.assignment[v] for e in explanations) for v in free]
    output(None, "\n".join(lines))


def _batch(asked: Network | Structures, batch: Path, target: list[str] | None, out: Path | None, *, json: bool) -> None:
    from bayeslab.data.tables import write_table

    frame = asked.query_many(batch, target)
    if out is not None:
        write_table({name: frame[name].to_numpy() for name in frame.columns}, out)
        print(f"written {out}")
    elif json:
        print_json(frame.to_dict("records"))
    else:
        output(None, frame.to_string(float_format=lambda x: f"{x:.4g}"))
