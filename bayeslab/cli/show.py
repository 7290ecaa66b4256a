"""``bayeslab show``: the posterior and the verdict of an earlier run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from bayeslab.cli.fit import show
from bayeslab.cli.toolbox.shared import ForceOption, JsonOption, RunArgument, check_output, print_json, unscreened
from bayeslab.errors import printable


def command(
    run: RunArgument,
    all_rows: Annotated[bool, typer.Option("--all", help="Show every row of the table.")] = False,
    topics: Annotated[
        bool, typer.Option("--topics", help="Show the topics of a topic model: shares and words.")
    ] = False,
    words: Annotated[int, typer.Option(min=1, help="With --topics: number of words per topic.")] = 10,
    relevance: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="With --topics: 1 ranks words by probability; smaller values favour words specific to a topic.",
        ),
    ] = 1.0,
    held_out: Annotated[
        Path | None,
        typer.Option("--held-out", metavar="TABLE", help="With --topics: held-out documents to evaluate the fit on."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="With --topics: write an HTML page that shows them.")
    ] = None,
    clusters: Annotated[
        bool, typer.Option("--clusters", help="List the clusters of the point estimate of the partition.")
    ] = False,
    force: ForceOption = False,
    json: JsonOption = False,
) -> int:
    """Show the posterior and the verdict of an earlier run."""
    from bayeslab import fitting

    if not topics and (held_out is not None or html is not None):
        raise typer.BadParameter("--held-out and --html need --topics")
    check_output(html, run, held_out, force=force)
    result = fitting.open_run(run)
    if topics:
        _show_topics(result, words, relevance, held_out, html, json)
    elif clusters:
        _show_clusters(result, json)
    else:
        show(result, json=json, all_rows=all_rows)
    return 3 if result.verdict.status == "fail" else 0


def _show_clusters(result: Any, json: bool) -> None:
    from bayeslab.results.clusters import listing

    frame = listing(result)
    if json:
        print_json(frame.to_dict("records"))
    else:
        print(frame.to_string(index=False, float_format=lambda x: f"{x:.4g}"))


def _show_topics(
    result: Any, n_words: int, relevance: float, held_out: Path | None, html: Path | None, json: bool
) -> None:
    topics = result.topics
    table = topics.table(n_words, relevance=relevance)
    score = topics.held_out(held_out) if held_out is not None or result.has_group("held_out") else None
    if html is not None:
        topics.save_html(html)
    if json:
        content: dict[str, Any] = {"topics": table.reset_index().to_dict("records")}
        if score is not None:
            content["held_out"] = {
                "log_probability": score.log_probability,
                "mcse": score.mcse,
                "perplexity": score.perplexity,
                "n_documents": score.n_documents,
                "n_words": score.n_words,
                "n_unknown": score.n_unknown,
            }
        print_json(content)
        return
    from rich.console import Console
    from rich.text import Text

    from bayeslab.results.topics import rich_table

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160, file=unscreened())
    console.print(Text.assemble((printable(result.model.name), "bold"), f"  {printable(topics.title)}"), soft_wrap=True)
    console.print()
    console.print(rich_table(table))
    if score is not None:
        console.print(f"\nheld out    {score}", soft_wrap=True)
    for finding in result.verdict.findings:
        if finding.check == "topics" and finding.status != "pass":
            console.print(Text(f"\nnote        {finding.message}"), soft_wrap=True)
    if html is not None:
        console.print(Text(f"written {printable(str(html))}"), soft_wrap=True)
