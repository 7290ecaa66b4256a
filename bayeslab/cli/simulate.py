"""``bayeslab simulate``: draws of parameters and data from the prior."""

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


def command(
    file: FileArgument,
    data: DataOption = None,
    draws: Annotated[int, typer.Option(min=1, help="Number of draws.")] = 500,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write all draws to this NetCDF file (.nc).")] = None,
    force: ForceOption = False,
    seed: SeedOption = None,
    json: JsonOption = False,
) -> None:
    """Draw parameters and data from the prior, and summarise them."""
    from bayeslab.data.tables import write_netcdf
    from bayeslab.results.predict import simulate
    from bayeslab.results.render import prior_table

    if out is not None and out.suffix != ".nc":
        raise OptionError(f"draws go into a NetCDF file (.nc), not '{out.suffix}'", code="unknown-format")
    check_output(out, file, data, force=force)
    tree = simulate(file, data, draws, seed=seed)
    if out is not None:
        write_netcdf(tree, out)
    table = prior_table(tree)
    if json:
        print_json(table.to_dict("index"))
    else:
        print(table.to_string(float_format=lambda x: f"{x:.4g}"))
    if out is not None and not json:
        print(f"written {out}")
