"""``bayeslab calibrate``: does the inference recover parameters drawn from the prior?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from bayeslab.cli.toolbox.shared import (
    DataOption,
    FileArgument,
    ForceOption,
    JobsOption,
    JsonOption,
    SchedulerOption,
    SeedOption,
    assignments,
    check_output,
    elsewhere,
    print_json,
    unscreened,
)


def command(
    file: FileArgument,
    n: Annotated[int, typer.Option("-n", help="Number of replications.")] = 100,
    data: DataOption = None,
    method: Annotated[str | None, typer.Option("--method", "-m", help="As for fit.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any option of the method.")
    ] = None,
    jobs: JobsOption = None,
    scheduler: SchedulerOption = None,
    seed: SeedOption = None,
    runs: Annotated[Path, typer.Option(help="Folder in which the calibration's folder is created.")] = Path("runs"),
    plot: Annotated[
        Path | None, typer.Option(metavar="PREFIX", help="Write PREFIX-histogram.png and PREFIX-ecdf.png.")
    ] = None,
    force: ForceOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    json: JsonOption = False,
) -> int:
    """Simulation-based calibration. After an interruption, the same command with the same seed continues it."""
    from bayeslab.files import write_picture
    from bayeslab.results.calibrate import calibrate

    options = assignments(set_ or [], elsewhere(calibrate))
    kinds: tuple[Literal["histogram", "ecdf"], ...] = ("histogram", "ecdf")
    pictures = {} if plot is None else {kind: plot.with_name(f"{plot.name}-{kind}.png") for kind in kinds}
    for picture in pictures.values():
        check_output(picture, file, data, force=force)
    where: dict[str, Any] = {"jobs": jobs, "scheduler": scheduler, "runs": runs}
    calibration = calibrate(file, n, data, method, seed=seed, progress=not quiet, **where, **options)
    for kind, picture in pictures.items():
        write_picture(calibration.plot(kind), picture)
    if json:
        print_json(
            {
                "name": calibration.name,
                "reason": calibration.reason,
                "seed": calibration.seed,
                "replications": len(calibration.statuses),
                "folder": calibration.folder,
                "quantities": calibration.table.to_dict("index"),
                "verdict": calibration.verdict.to_dict(),
            }
        )
    else:
        from rich.console import Console

        from bayeslab.results.render import plain_table, print_verdict

        print(plain_table(calibration.table).to_string())
        print()
        print_verdict(
            Console(highlight=False, width=None if sys.stdout.isatty() else 200, file=unscreened()), calibration.verdict
        )
        print(f"\nfolder  {calibration.folder}")
    return 3 if calibration.verdict.status == "fail" else 0
