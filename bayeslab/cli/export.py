"""``bayeslab export``: a model as a script of another library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeslab.cli.toolbox.shared import DataOption, FileArgument, ForceOption, check_output, output
from bayeslab.errors import OptionError


def command(
    file: FileArgument,
    to: Annotated[str, typer.Option("--to", metavar="LIBRARY", help="The library of the script: pymc.")] = "pymc",
    data: DataOption = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write here; default: standard output.")] = None,
    force: ForceOption = False,
) -> None:
    """Write a model as a Python script that needs no bayeslab.

    The script reads the same tables and builds the same model in plain PyMC, one line per node. Run as a program, it
    samples the model and prints a summary. A model of a short family is expanded first. A model that plain PyMC cannot
    express is refused.
    """
    from bayeslab.exporting import export

    check_output(out, file, data, force=force)
    if out is not None and out.suffix.lower() != ".py":
        raise OptionError(f"{out}: the script is Python; let the name end in .py", code="unknown-format")
    output(out, export(file, data, to=to, folder=file.parent if out is None else out.parent))
    if out is not None:
        print(f"written {out}")
