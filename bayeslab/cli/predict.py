"""``bayeslab predict``: predictions of a fitted model for new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeslab.cli.toolbox.shared import (
    DataOption,
    ForceOption,
    JsonOption,
    LossOption,
    RunArgument,
    SeedOption,
    check_output,
    output,
    print_json,
    read_loss,
)
from bayeslab.errors import OptionError


def command(
    run: RunArgument,
    data: DataOption = None,
    kind: Annotated[
        str | None, typer.Option(help="mean, probabilities, draws or components; default: suited to the outcome.")
    ] = None,
    ci_prob: Annotated[float, typer.Option(help="Probability of the credible interval.")] = 0.89,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write here: .csv .tsv .parquet .json, or .nc for draws."),
    ] = None,
    loss: LossOption = None,
    force: ForceOption = False,
    seed: SeedOption = None,
    json: JsonOption = False,
) -> None:
    """Predict the outcomes of new data, or of the data of the fit; with --loss, also the best action for each row."""
    from bayeslab import fitting
    from bayeslab.data.tables import write_netcdf, write_table

    check_output(out, run, data, None if loss is None else Path(loss), force=force)
    fit = fitting.open_run(run)
    if loss is not None and kind is not None:
        raise OptionError(
            f"--loss asks for actions, --kind {kind} for predictions: leave one of them out", code="conflict"
        )
    kind = kind or fit.bound_model.suited_prediction()
    if loss is None and kind == "draws" and (out is None or out.suffix != ".nc"):
        raise OptionError("draws go into a NetCDF file: --out draws.nc", code="unknown-format")
    if loss is not None:
        kind, result = "actions", fit.decide(data, read_loss(loss), seed=seed)
    else:
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
