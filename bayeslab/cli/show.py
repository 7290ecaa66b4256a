"""``bayeslab show``: an earlier run again."""

from __future__ import annotations

from typing import Annotated

import typer

from bayeslab.cli._shared import JsonOption, RunArgument


def command(
    run: RunArgument,
    all_rows: Annotated[bool, typer.Option("--all", help="Show every row of the table.")] = False,
    json: JsonOption = False,
) -> int:
    """Show the posterior and the verdict of an earlier run."""
    from bayeslab import fitting
    from bayeslab.cli.fit import show

    result = fitting.open_run(run)
    show(result, json=json, all_rows=all_rows)
    return 3 if result.verdict.status == "fail" else 0
