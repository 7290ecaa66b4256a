"""``bayeslab export``: a model as a script of another library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeslab.cli.toolbox.shared import DataOption, FileArgument, ForceOption, check_output, output
from bayeslab.errors import OptionError


def command(
    file: FileArgument,
    to: Annotated[str, typer.Option("--to", metavar="LIBRARY", help="What the script is written for: pymc.")] = "pymc",
    data: DataOption = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write here; default: standard output.")] = None,
    force: ForceOption = False,
) -> None:
    """Write a model as a Python script that needs no bayeslab.

    The script reads the same tables, builds the same model in plain PyMC, a line for each node, and, run as a program,
    samples it and prints a summary. A model of a short family is expanded first. What has no plain PyMC is refused.
    """
    from bayeslab.exporting import export

    check_output(out, file, data, force=force)
    if out is not None and out.suffix.lower() != ".py":
        raise OptionError(f"{out}: the script is Python; let the name end in .py", code="unknown-format")
    output(out, export(file, data, to=to, folder=file.parent if out is None else out.parent))
    if out is not None:
        print(f"written {out}")
