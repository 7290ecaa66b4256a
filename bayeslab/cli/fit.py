"""``bayeslab fit``: fit a model to data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from bayeslab import registry
from bayeslab.cli.toolbox.shared import (
    DataOption,
    JsonOption,
    SeedOption,
    assignments,
    elsewhere,
    print_json,
    unscreened,
)
from bayeslab.errors import printable

if TYPE_CHECKING:
    from bayeslab.results.fit import Fit
    from bayeslab.results.render import Table


def command(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A model file (not with --resume).", show_default=False),
    ] = None,
    data: DataOption = None,
    method: Annotated[
        str | None, typer.Option("--method", "-m", help=f"One of {', '.join(registry.names('engines'))}.")
    ] = None,
    draws: Annotated[
        str | None, typer.Option(metavar="N", help="Draws per chain; with --resume, +N adds N draws.")
    ] = None,
    tune: Annotated[int | None, typer.Option(help="Warm-up draws per chain.")] = None,
    chains: Annotated[int | None, typer.Option(help="Number of chains.")] = None,
    cores: Annotated[
        int | None, typer.Option(help="Number of chains run in parallel; it does not change the draws.")
    ] = None,
    target_accept: Annotated[
        float | None, typer.Option(help="Target mean acceptance probability for the step size.")
    ] = None,
    backend: Annotated[
        str | None, typer.Option(metavar="WORD", help="What evaluates the density: machine, pytensor or auto.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any option of the method.")
    ] = None,
    seed: SeedOption = None,
    name: Annotated[str | None, typer.Option(help="Name of the run folder.")] = None,
    runs: Annotated[Path, typer.Option(help="Folder in which run folders are created.")] = Path("runs"),
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Complete an interrupted run; with --data, add rows to a run.", show_default=False
        ),
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A Dask scheduler whose workers run the chains.")
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Run in the background; see `bayeslab watch`.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Fit again whenever the file or its data are saved; no run folder is kept.")
    ] = False,
    log_to: Annotated[
        str | None, typer.Option(metavar="WORD", help="Also write the run to a store of experiments: mlflow.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    all_rows: Annotated[bool, typer.Option("--all", help="Show every row of the table.")] = False,
    json: JsonOption = False,
) -> int:
    """Fit a model to data, print the posterior and the verdict, and keep a run folder."""
    from bayeslab import fitting

    if (file is None) == (resume is None):
        raise typer.BadParameter("give a model FILE, or --resume RUN")
    if resume is not None:
        written = {"--method": method, "--chains": chains, "--target-accept": target_accept, "--set": set_}
        written |= {"--backend": backend}
        written |= {"--tune": tune, "--seed": seed, "--name": name} if data is None else {"--scheduler": scheduler}
        written |= {"--watch": watch or None, "--log-to": log_to}
        if ignored := [option for option, value in written.items() if value is not None and value != []]:
            raise typer.BadParameter(f"{ignored[0]} is for a new fit; a resumed run keeps its settings")
    if resume is not None and data is not None:
        result = _updated(resume, data, draws, tune, seed, name, cores, quiet)
        show(result, json=json, all_rows=all_rows)
        return 3 if result.verdict.status == "fail" else 0
    if resume is not None and detach:
        return _detached(resume, draws, cores, scheduler)
    if resume is not None:
        result = fitting.resume(resume, draws=draws, progress=not quiet, cores=cores, scheduler=scheduler)
    else:
        assert file is not None
        options: dict[str, Any] = {
            "draws": _number(draws), "tune": tune, "chains": chains, "cores": cores, "target_accept": target_accept,
            "backend": backend, "scheduler": scheduler,
        }  # fmt: skip
        given = {key: f"--{key.replace('_', '-')}" for key, value in options.items() if value is not None}
        options |= assignments(set_ or [], elsewhere(fitting.fit) | given)
        if watch and detach:
            raise typer.BadParameter("--watch shows each fit, and --detach none: give one of them")
        if log_to is not None and (watch or detach):
            other = "--watch" if watch else "--detach"
            raise typer.BadParameter(f"--log-to is for a fit in the foreground, without {other}")
        if watch:
            from bayeslab.cli.toolbox.refits import keep_fitting

            return keep_fitting(
                file,
                Path(data) if isinstance(data, str | Path) else None,
                lambda: fitting.fit(file, data, method, seed=seed, progress=not quiet, runs=None, **options),
                lambda result: show(result, json=json, all_rows=all_rows),
            )
        if detach:
            folder = fitting.prepare(file, data, method, seed=seed, runs=runs, name=name, **options)
            return _detached(folder, None, cores, scheduler)
        tracker = cast(Literal["mlflow"] | None, log_to)  # `fit` checks the name
        result = fitting.fit(
            file, data, method, seed=seed, progress=not quiet, runs=runs, name=name, log_to=tracker, **options
        )
    show(result, json=json, all_rows=all_rows)
    return 3 if result.verdict.status == "fail" else 0


def _updated(
    run: Path,
    data: Any,
    draws: str | None,
    tune: int | None,
    seed: int | None,
    name: str | None,
    cores: int | None,
    quiet: bool,
) -> Any:
    """Fit the model of a run to its rows and additional rows."""
    from bayeslab.results.fit import Fit
    from bayeslab.results.update import updated

    many = _number(draws)
    made = updated(run, data, draws=many, tune=tune, seed=seed, name=name, cores=cores, progress=not quiet)
    return Fit.of(made)


def _number(draws: str | None) -> int | None:
    if draws is None or (draws.isdecimal() and len(draws) <= 30):
        return None if draws is None else int(draws)
    raise typer.BadParameter(f"--draws takes a number (+N only with --resume), not '{draws:.40}'")


def _detached(run: Path, draws: str | None, cores: int | None, scheduler: str | None) -> int:
    """Start the work of a run folder in a separate process, which continues after this one and its terminal end."""

    from bayeslab.run_folder.folder import RunFolder

    folder = RunFolder.existing(run)
    given = {"--draws": draws, "--cores": cores, "--scheduler": scheduler}
    words = [word for option, value in given.items() if value is not None for word in (option, str(value))]
    with folder.segments().opened_log() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "bayeslab.cli", "fit", "--resume", str(folder.path.resolve()), *words],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    print(f"run folder  {folder.path}\npid         {process.pid}")
    print(f"watch it with `bayeslab watch {folder.path}`, stop it with `bayeslab stop {folder.path}`")
    return 0


def _rows(result: Fit, table: Table) -> int:
    """Number of table rows to show; for sampled structures, edges of probability at most 0.05 are left out."""
    if not result.has_group("parent_sets"):
        return 25
    probable = zip(table.index, table.columns["mean"] > 0.05, strict=True)
    return min(60, sum(bool(many) or not label.startswith("edge[") for label, many in probable))


def show(result: Fit, *, json: bool, all_rows: bool) -> None:
    """Print the posterior table, the verdict and the folder."""
    table = result.summary_table()
    if json:
        print_json(
            {
                "name": result.model.name,
                "method": result.method,
                "reason": result.reason,
                "seed": result.seed,
                "folder": result.folder,
                "timings": result.timings,
                "verdict": result.verdict.to_dict(),
                "summary": {label: table.row(i) for i, label in enumerate(table.index)},
            }
        )
        return
    from rich.console import Console
    from rich.text import Text

    from bayeslab.results.render import print_summary, print_verdict

    # Lines in a file or a pipe are as long as they need to be.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 200, file=unscreened())
    console.print(
        Text.assemble((printable(result.model.name), "bold"), f"  {printable(result.reason)}"), soft_wrap=True
    )
    if result.model.about:
        console.print(Text(printable(result.model.about), style="dim"), soft_wrap=True)
    console.print()
    print_summary(console, table, None if all_rows else _rows(result, table))
    console.print()
    print_verdict(console, result.verdict)
    meaning = {"pass": "trust it", "warn": "usable with care: see above", "fail": "do not use it: see above"}
    console.print(f"\nverdict     {result.verdict.status}: {meaning[result.verdict.status]}")
    if result.folder:
        console.print(Text(f"run folder  {printable(str(result.folder))}"), soft_wrap=True)
