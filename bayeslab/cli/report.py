"""``bayeslab report``: an HTML page about one or more runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeslab.cli.toolbox.shared import ForceOption, JsonOption, check_output, print_json
from bayeslab.errors import BayeslabError


def command(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run folders, such as runs/radon.", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="File to write; default RUN/report.html, for several runs report.html."
        ),
    ] = None,
    rope: Annotated[
        list[str] | None,
        typer.Option(
            "--rope",
            metavar="NAME=LOW,HIGH",
            help="Region of practical equivalence of a quantity, such as b[x]=-0.1,0.1; the page has its posterior"
            " probability. Repeatable.",
        ),
    ] = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> int:
    """Write an HTML page about a run, or a comparison of several runs, for any browser.

    For an unfinished, failed or damaged run the page describes its state, and the exit code is 1.
    """
    from bayeslab import fitting
    from bayeslab.report.page import BrokenRun, html_of
    from bayeslab.report.writing import Report
    from bayeslab.run_folder.folder import RunFolder

    regions = _regions(rope or [])
    folders = {str(path): RunFolder.existing(path).path for path in runs}
    path = out or (runs[0] / "report.html" if len(runs) == 1 else Path("report.html"))
    check_output(path, *runs, force=force)
    short = [folder.resolve().name for folder in folders.values()]
    names = short if len(set(short)) == len(short) else list(folders)
    opened: dict[str, fitting.Fit | BrokenRun] = {}
    broken: BayeslabError | None = None
    for name, folder in zip(names, folders.values(), strict=True):
        try:
            opened[name] = fitting.open_run(folder)
        except BayeslabError as error:
            opened[name] = BrokenRun(folder, error)
            broken = broken or error
    page = Report(html_of(opened, regions or None))
    page.save(path, force=True)
    if broken is not None:
        raise broken
    statuses = {name: fit.verdict.status for name, fit in opened.items() if not isinstance(fit, BrokenRun)}
    if json:
        print_json({"file": path, "bytes": len(page.html.encode()), "verdicts": statuses})
    else:
        print(f"written {path}")
    return 3 if "fail" in statuses.values() else 0


def _regions(words: list[str]) -> dict[str, tuple[float, float]]:
    """Regions by quantity: ``NAME=LOW,HIGH``, in which the name may contain ``=``."""
    out = {}
    for word in words:
        name, equals, text = word.rpartition("=")
        try:
            low, high = (float(part) for part in text.split(","))
        except ValueError:
            raise typer.BadParameter(f"--rope takes NAME=LOW,HIGH, such as b[x]=-0.1,0.1, not '{word}'") from None
        if not equals or name.strip() in out:
            raise typer.BadParameter(f"--rope '{word}': " + ("the name is missing" if not equals else "given twice"))
        out[name.strip()] = (low, high)
    return out
