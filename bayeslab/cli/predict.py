"""``bayeslab predict``: what a fitted model says of new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeslab.cli._shared import DataOption, JsonOption, RunArgument, SeedOption, output, print_json


def command(
    run: RunArgument,
    data: DataOption = None,
    kind: Annotated[
        str | None, typer.Option(help="mean, probabilities, draws or components; default: what suits the outcome.")
    ] = None,
    ci_prob: Annotated[float, typer.Option(help="Probability of the interval.")] = 0.89,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write here: .csv .tsv .parquet .json, or .nc for draws."),
    ] = None,
    seed: SeedOption = None,
    json: JsonOption = False,
) -> None:
    """Predict the outcomes for new data, or for the data of the fit."""
    from bayeslab import fitting
    from bayeslab.errors import OptionError
    from bayeslab.io.tables import write_netcdf, write_table
    from bayeslab.results.predict import suited

    fit = fitting.open_run(run)
    kind = kind or suited(fit)
    if kind == "draws" and (out is None or out.suffix != ".nc"):
        raise OptionError("draws go into a NetCDF file: --out draws.nc")
    result = fit.predict(data, kind, ci_prob=ci_prob, seed=seed)  # type: ignore[arg-type]
    if kind == "draws":
        assert out is not None
        write_netcdf(result, out)
    elif out is not None:
        write_table({name: result[name].to_numpy() for name in result.columns}, out)
    elif json:
        print_json(result.to_dict("records"))
    else:
        output(None, result.to_string(index=False, float_format=lambda x: f"{x:.4g}"))
    if out is not None:
        print(f"written {out}")
