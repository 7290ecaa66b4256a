"""``bayeslab plot``: a picture of a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from bayeslab.cli.toolbox.shared import ForceOption, RunArgument, check_output
from bayeslab.errors import OptionError

_FORMATS = (".png", ".svg", ".pdf")


def command(
    run: RunArgument,
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]",
            help="trace, rank, autocorrelation, posterior, prior, forest, pairs, energy, ppc, loo_pit, residuals,"
            " effects, a statistic such as max, or a picture of the family such as components or path; a wrong name"
            " lists those of the run. Default: the family's first.",
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns on the axes, for pictures that have a choice.")
    ] = None,
    quantities: Annotated[
        str | None,
        typer.Option("--vars", metavar="A,B", help="Quantities, for pictures of draws, as the table prints them."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write here: .png .svg .pdf; default RUN/KIND.png.")
    ] = None,
    dpi: Annotated[int, typer.Option(min=20, max=1200, help="Dots per inch of a .png.")] = 150,
    force: ForceOption = False,
) -> None:
    """Draw a picture of a run: its draws, predictive checks, effects, or what its family has."""
    from bayeslab import fitting
    from bayeslab.files import write_picture
    from bayeslab.results import pictures

    if out is not None and out.suffix not in _FORMATS:
        raise OptionError(f"{out}: pictures are written as {', '.join(_FORMATS)}", code="unknown-format")
    check_output(out, run, force=force)
    fit = fitting.open_run(run)
    wanted = what or pictures.first(fit)
    path = out or run / f"{wanted}.png"
    drawn = fit.plot(wanted, columns=_listed(columns), var_names=_listed(quantities))
    write_picture(drawn, path, dpi=dpi)
    print(f"written {path}")


def _listed(text: str | None) -> list[str] | None:
    """Names separated by commas; those inside brackets do not separate."""
    return [name.strip() for name in re.split(r",(?![^\[]*\])", text)] if text else None
