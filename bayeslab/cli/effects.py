"""``bayeslab effects``: expected outcomes, comparisons and slopes of a fitted model, in the units of the outcome."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bayeslab.cli.toolbox.shared import (
    DataOption,
    ForceOption,
    JsonOption,
    RunArgument,
    check_output,
    output,
    print_json,
)
from bayeslab.errors import OptionError

_FORMATS = (".png", ".svg", ".pdf")


def _named_values(words: list[str], option: str) -> dict[str, Any]:
    """Parse ``NAME`` and ``NAME=VALUE[,VALUE...]``; None stands for no value."""
    from bayeslab.language.model_file import parse_value

    out: dict[str, Any] = {}
    for word in words:
        name, equals, text = (part.strip() for part in word.partition("="))
        if name in out:
            raise typer.BadParameter(f"{option} has '{name}' twice")
        parts = [parse_value(part.strip()) for part in text.split(",")]
        out[name] = None if not equals else parts[0] if len(parts) == 1 else parts
    return out


def _rope(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"--rope takes LOW,HIGH, two numbers, not '{text}'") from None
    return low, high


def command(
    run: RunArgument,
    of: Annotated[
        list[str] | None,
        typer.Option(
            "--of",
            metavar="NAME[=CHANGE]",
            help="Predictor to compare, such as smoker, age=10 (a change), age=20,30 (two values) or race=pairwise;"
            " default: all. With --expected: values of a predictor, such as age=20,30. Repeatable.",
        ),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="A,B", help="Columns that define groups: an average for each.")
    ] = None,
    slope: Annotated[bool, typer.Option("--slope", help="Slopes instead of comparisons.")] = False,
    expected: Annotated[bool, typer.Option("--expected", help="Expected outcomes instead of comparisons.")] = False,
    kind: Annotated[
        str | None,
        typer.Option(help="difference, ratio or odds ratio; with --slope: slope, elasticity or semi-elasticity."),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            "--at",
            metavar="NAME=VALUES",
            help="Values of a predictor instead of the sample, such as age=20,30, age=quartiles or race=levels; other"
            " predictors are at typical values. Repeatable.",
        ),
    ] = None,
    data: DataOption = None,
    scale: Annotated[str, typer.Option(help="response, parameter or link.")] = "response",
    ci_prob: Annotated[float, typer.Option(help="Probability of the credible interval.")] = 0.89,
    outcome: Annotated[
        str | None, typer.Option("--outcome", metavar="NAME", help="The response, if the model has several.")
    ] = None,
    rope: Annotated[
        str | None, typer.Option("--rope", metavar="LOW,HIGH", help="Region of practical equivalence.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write here: .csv .tsv .parquet .json.")] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot", help="Plot expected outcomes (or slopes) against the predictors, to this file: .png .svg .pdf."
        ),
    ] = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Effects of predictors on the expected outcome, in its units: comparisons, slopes and expected outcomes."""
    from bayeslab import fitting
    from bayeslab.data.tables import write_table
    from bayeslab.files import write_picture
    from bayeslab.results.effects.estimates import formatted

    if plot is not None and plot.suffix not in _FORMATS:
        raise OptionError(f"{plot}: a plot is written as {', '.join(_FORMATS)}", code="unknown-format")
    for file in (out, plot):
        check_output(file, run, data, force=force)
    if slope and expected:
        raise OptionError("--slope and --expected exclude each other: leave one of them out", code="conflict")
    focal, places, region = _named_values(of or [], "--of"), _named_values(at or [], "--at"), _rope(rope)
    for name, value in places.items():
        if value is None:
            raise typer.BadParameter(f"--at takes NAME=VALUES, not '{name}'")
    for name, value in focal.items():
        if value is not None and slope:
            raise typer.BadParameter(f"with --slope, --of takes a name without values: write --of {name}")
    fit = fitting.open_run(run)
    fit = fit if outcome is None else fit.outcome(outcome)
    columns = None if by is None else [name.strip() for name in by.split(",")]
    shared: dict[str, Any] = {"at": places or None, "newdata": data, "by": columns, "scale": scale, "ci_prob": ci_prob}
    kinds: dict[str, Any] = {} if kind is None else {"kind": kind}
    if expected:
        if kind is not None or region is not None:
            raise OptionError("--kind and --rope are for comparisons and slopes, not for --expected", code="conflict")
        effects = fit.predictions(**(shared | _counterfactual(focal, places, fit, shared)))
    elif slope:
        effects = fit.slopes(list(focal) or None, rope=region, **shared, **kinds)
    else:
        effects = fit.comparisons(focal or None, rope=region, **shared, **kinds)
    if plot is not None:
        what: Any = "slopes" if slope else "predictions"
        drawn = fit.plot_effects(
            list(focal) or None,
            by=columns,
            what=what,
            kind=kind if slope else None,
            at=places or None,
            scale=scale,  # type: ignore[arg-type]
            ci_prob=ci_prob,
        )
        write_picture(drawn, plot)
    frame = effects.table
    if out is not None:
        write_table({name: frame[name].to_numpy() for name in frame.columns}, out)
    elif json:
        print_json({"title": effects.title, "estimates": frame.to_dict("records"), "left_out": dict(effects.left_out)})
    else:
        output(None, f"{effects.title}\n{formatted(frame)}")
    for file in (out, plot):
        if file is not None and not json:
            print(f"written {file}")


def _counterfactual(focal: dict[str, Any], places: dict[str, Any], fit: Any, shared: dict[str, Any]) -> dict[str, Any]:
    """Arguments for expected outcomes at each value of the predictors of ``--of``, averaged over the sample."""
    if not focal:
        return {}
    if places or shared["newdata"] is not None:
        raise OptionError(
            "with --expected, --of changes predictors in the rows of the sample: leave --at and --data out",
            code="conflict",
        )
    columns = [*focal, *(name for name in shared["by"] or [] if name not in focal)]
    return {"newdata": fit.grid(focal, counterfactual=True), "by": columns}
