"""``bayeslab expand``: a model of a short family, written out in the model language."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeslab.cli.toolbox.shared import DataOption, FileArgument, ForceOption, check_output, output


def command(
    file: FileArgument,
    data: DataOption = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write here; default: standard output.")] = None,
    force: ForceOption = False,
) -> None:
    """Write a model of a short family node by node, as a starting point for changes.

    The new file holds the same model in the family graph, with numeric priors, dimensions, computed columns, and
    comments on each part. It has the same log density as the short form and reads the same tables.
    """
    from bayeslab.expanding import expanded

    check_output(out, file, data, force=force)
    output(out, expanded(file, data).text(out))
    if out is not None:
        print(f"written {out}")
