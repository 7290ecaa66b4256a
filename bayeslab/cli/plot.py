"""``bayeslab plot``: a picture of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeslab.cli.toolbox.shared import ForceOption, RunArgument, check_output
from bayeslab.errors import OptionError
from bayeslab.results import pictures

_FORMATS = (".png", ".svg", ".pdf")


def command(
    run: RunArgument,
    what: Annotated[
        str | None,
        typer.Argument(help="Which picture; default: the family's first.", show_default=False),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns on the axes, for pictures that have a choice.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write here: .png .svg .pdf; default RUN/WHAT.png.")
    ] = None,
    force: ForceOption = False,
) -> None:
    """Draw a picture of a run: training curves, components, states, topics, a process, edges, or a predictive check."""
    from bayeslab import fitting
    from bayeslab.files import write_picture

    if out is not None and out.suffix not in _FORMATS:
        raise OptionError(f"{out}: pictures are written as {', '.join(_FORMATS)}", code="unknown-format")
    check_output(out, run, force=force)
    fit = fitting.open_run(run)
    wanted = what or pictures.first(fit)
    path = out or run / f"{wanted}.png"
    write_picture(fit.plot(wanted, columns=columns.split(",") if columns else None), path)
    print(f"written {path}")
