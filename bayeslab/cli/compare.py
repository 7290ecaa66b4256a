"""``bayeslab compare``: which of several models to trust more."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from bayeslab.cli.toolbox.shared import (
    DataOption,
    JobsOption,
    JsonOption,
    LossOption,
    SchedulerOption,
    SeedOption,
    print_json,
    read_loss,
    unscreened,
)
from bayeslab.errors import OptionError, hint

_SCORES = ("accuracy", "log_score", "brier", "cost", "rmse", "mae")


def command(
    models: Annotated[
        list[Path], typer.Argument(metavar="RUN|FILE...", help="Run folders, or model files.", show_default=False)
    ],
    criterion: Annotated[
        str | None, typer.Option("--criterion", "-c", help="loo, evidence, bic or aic; default loo.")
    ] = None,
    folds: Annotated[
        str | None,
        typer.Option(metavar="N", help="Cross-validate: N folds, loo, or a share to hold out such as 0.3."),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...", help="Learning curves: fit to subsets of N rows each, score on all other rows."
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of divisions into folds or of hold-out samples (1), or of subsets per size (20)."
        ),
    ] = None,
    loss: LossOption = None,
    target: Annotated[str | None, typer.Option(help="The outcome to predict, if the model has several.")] = None,
    score: Annotated[
        str | None,
        typer.Option(help="Score: accuracy, log_score, brier or cost for classes; rmse, mae or log_score for numbers."),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Differences of scores up to this size count as ties. Default: 0.01; for rmse and mae 1 % of the"
            " target's standard deviation; for cost 1 % of the range of losses.",
        ),
    ] = None,
    method: Annotated[
        str | None, typer.Option("--method", "-m", help="Method that fits the models in each fold.")
    ] = None,
    data: DataOption = None,
    seed: SeedOption = None,
    jobs: JobsOption = None,
    scheduler: SchedulerOption = None,
    refit: Annotated[bool, typer.Option(help="Refit without each observation whose Pareto k is high.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    json: JsonOption = False,
) -> int:
    """Compare models of the same data: runs by their posteriors, or models of any kind by cross-validation."""
    from bayeslab import fitting

    names = _names(models)
    files = [path for path in models if path.is_file()]
    given: dict[str, Any] = {
        name: path if path in files else fitting.open_run(path) for name, path in zip(names, models, strict=True)
    }
    learners = [n for n, g in given.items() if not isinstance(g, Path) and g.model.model.is_learner]
    if score is not None and score not in _SCORES:
        raise OptionError(f"no score '{score}'{hint(score, _SCORES)}", code="unknown-word")
    where: dict[str, Any] = {"jobs": jobs or 1, "scheduler": scheduler}
    if sizes is not None:
        if score is not None or margin is not None:
            raise OptionError("learning curves show every score: leave --score and --margin out", code="conflict")
        if folds is not None or criterion is not None:
            raise OptionError("--sizes asks for learning curves: leave --folds and --criterion out", code="conflict")
        asked = {"repeats": repeats or 20, "target": target, "loss": read_loss(loss), "method": method} | where
        return _learning_curves(given, _sizes(sizes), data, seed or 0, asked, quiet=quiet, json=json)
    if files or learners or folds is not None:
        if criterion is not None:
            why = f"{files[0]} is a model file" if files else f"{learners[0]} is a learner" if learners else "--folds"
            raise OptionError(
                f"criterion {criterion} is for fitted posteriors, and {why}: leave one of them out", code="conflict"
            )
        asked = {"repeats": repeats or 1, "target": target, "loss": read_loss(loss), "method": method} | where
        by = (score, margin)
        return _cross_validated(given, _folds(folds), by, data, seed or 0, asked, quiet=quiet, json=json)
    crossed = {"--loss": loss, "--score": score, "--margin": margin, "--jobs": jobs, "--scheduler": scheduler}
    for word, value in crossed.items():
        if value is not None:
            raise OptionError(f"{word} is for cross-validation: give --folds, or model files", code="conflict")
    return _by_posteriors(given, criterion or "loo", refit=refit, quiet=quiet, json=json)


def _names(paths: list[Path]) -> list[str]:
    names = [path.stem if path.is_file() else path.name or str(path) for path in paths]
    return [str(path) for path in paths] if len(set(names)) < len(names) else names


def _folds(word: str | None) -> Any:
    if word is None or word == "loo":
        return word or 10
    try:
        return float(word) if "." in word else int(word)
    except ValueError:
        raise typer.BadParameter(f"--folds takes a number, loo, or a share such as 0.3, not '{word}'") from None


def _sizes(word: str) -> list[int]:
    try:
        return [int(one) for one in word.split(",")]
    except ValueError:
        raise typer.BadParameter(f"--sizes takes whole numbers, such as 20,50,100, not '{word}'") from None


def _learning_curves(
    given: Any, sizes: list[int], data: Any, seed: int, asked: dict[str, Any], *, quiet: bool, json: bool
) -> int:
    from bayeslab.results.cross_validation import learning_curve

    curves = learning_curve(given, data, sizes=sizes, seed=seed, progress=not quiet, **asked)
    measures = [c for c in curves.scores.columns if c not in ("model", "size", "repeat", "rows")]
    if json:
        print_json({"target": curves.target} | {m: curves.table(m).to_dict("records") for m in measures})
        return 0
    for place, measure in enumerate(measures):
        print(("\n" if place else "") + f"{measure} of '{curves.target}' on all other rows\n")
        print(curves.table(measure).to_string(index=False, float_format=lambda x: f"{x:.4g}"))
    return 0


def _cross_validated(
    given: Any,
    folds: Any,
    by: tuple[str | None, float | None],
    data: Any,
    seed: int,
    asked: dict[str, Any],
    *,
    quiet: bool,
    json: bool,
) -> int:
    from bayeslab.results.cross_validation import cross_validate

    validation = cross_validate(given, data, folds=folds, seed=seed, progress=not quiet, **asked)
    table, notes = validation.table, validation.notes(*by)
    several = len(given) > 1 and validation.scores["split"].nunique() > 1
    apart = validation.differences(*by) if several else None
    if json:
        print_json(
            {
                "target": validation.target,
                "models": {str(row): dict(values) for row, values in table.to_dict("index").items()},
                "differences": {} if apart is None else apart.to_dict("index"),
                "notes": notes,
            }
        )
        return 0
    print(validation._description())
    print()
    print(table.T.to_string(float_format=lambda x: f"{x:.4g}"))
    if apart is not None:
        print(f"\n{validation.question(*by)}\n")
        print(apart.to_string(float_format=lambda x: f"{x:.3g}"))
    for place, note in enumerate(notes):
        print(("" if place else "\n") + f"→ {note}")
    return 0


def _by_posteriors(fits: Any, criterion: str, *, refit: bool, quiet: bool, json: bool) -> int:
    from bayeslab.results.compare import compare

    comparison = compare(fits, criterion, refit=refit, progress=not quiet)  # type: ignore[arg-type]
    if json:
        table = {str(row): dict(values) for row, values in comparison.table.to_dict("index").items()}
        print_json({"criterion": criterion, "models": table, "verdict": comparison.verdict.to_dict()})
    else:
        from rich.console import Console

        from bayeslab.results.render import plain_table, print_verdict

        print(plain_table(comparison.table).T.to_string())
        print()
        print_verdict(
            Console(highlight=False, width=None if sys.stdout.isatty() else 200, file=unscreened()), comparison.verdict
        )
    return 3 if comparison.verdict.status == "fail" else 0
