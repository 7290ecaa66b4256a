"""``bayeslab compare``: which of several fitted models to trust more."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bayeslab.cli._shared import JsonOption, print_json


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.", show_default=False)],
    criterion: Annotated[str, typer.Option("--criterion", "-c", help="loo, evidence, bic or aic.")] = "loo",
    refit: Annotated[bool, typer.Option(help="Fit again without observations of high Pareto k.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    json: JsonOption = False,
) -> int:
    """Compare models fitted to the same data."""
    from bayeslab import fitting
    from bayeslab.results.compare import compare

    names = [path.name or str(path) for path in runs]
    if len(set(names)) < len(names):
        names = [str(path) for path in runs]
    fits = {name: fitting.open_run(path) for name, path in zip(names, runs, strict=True)}
    found = compare(fits, criterion, refit=refit, progress=not quiet)  # type: ignore[arg-type]
    if json:
        table = {str(row): dict(values) for row, values in found.table.to_dict("index").items()}
        print_json({"criterion": criterion, "models": table, "verdict": found.verdict.to_dict()})
    else:
        from rich.console import Console

        from bayeslab.results.render import plain_table, print_verdict

        print(plain_table(found.table).T.to_string())
        print()
        print_verdict(Console(highlight=False, width=None if sys.stdout.isatty() else 200), found.verdict)
    return 3 if found.verdict.status == "fail" else 0
