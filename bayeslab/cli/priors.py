"""``bayeslab priors``: the priors of a model, and the data that they imply."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeslab.cli.toolbox.shared import (
    DataOption,
    FileArgument,
    ForceOption,
    JsonOption,
    SeedOption,
    check_output,
    print_json,
)
from bayeslab.errors import OptionError

_FORMATS = (".png", ".svg", ".pdf")


def command(
    file: FileArgument,
    data: DataOption = None,
    draws: Annotated[int, typer.Option(min=1, help="Number of draws.")] = 1_000,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Draw the densities into this file: .png .svg .pdf.")
    ] = None,
    force: ForceOption = False,
    seed: SeedOption = None,
    json: JsonOption = False,
) -> None:
    """Show each prior of a model, with its shape, and what the priors imply for the outcome, beside the data."""
    from bayeslab.files import write_picture
    from bayeslab.results.priors import priors

    if out is not None and out.suffix not in _FORMATS:
        raise OptionError(f"{out}: pictures are written as {', '.join(_FORMATS)}", code="unknown-format")
    check_output(out, file, data, force=force)
    shown = priors(file, data, draws, seed=seed)
    if out is not None:
        write_picture(shown.plot(), out)
    if json:
        outcomes = shown.outcomes
        print_json(
            {
                "priors": shown.frame.to_dict("index"),
                "outcomes": {
                    str(name): outcomes.loc[name].to_dict("index") for name in outcomes.index.unique("outcome")
                },
                "improper": list(shown.improper),
            }
        )
        return
    print(shown)
    if out is not None:
        print(f"written {out}")
