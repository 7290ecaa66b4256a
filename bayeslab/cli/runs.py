"""``bayeslab runs``: the runs in a folder, with their verdicts."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from bayeslab.cli.toolbox.shared import JsonOption, print_json
from bayeslab.errors import RunError


def command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder of runs.")] = Path("runs"),
    json: JsonOption = False,
) -> None:
    """List the runs in a folder with their verdicts, the newest last."""
    from bayeslab.run_folder.folder import RunFolder

    try:
        files = sorted((_changed(file), file.parent.name, file) for file in folder.glob("*/run.json"))
    except OSError as error:
        raise RunError(f"cannot be read: {error.strerror}", where=str(folder), code="unreadable") from None
    if not files and not folder.is_dir():
        raise RunError("there is no such folder; `bayeslab fit` makes it", where=str(folder), code="no-such-file")
    rows = [_described(RunFolder(file.parent), time) for time, _, file in files]
    if json:
        print_json(rows)
        return
    if not rows:
        print(f"There are no runs in {folder}.")
        return
    shown = [("run", "model", "method", "status", "verdict", "date"), *(tuple(map(str, row.values())) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for line in shown:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _changed(file: Path) -> float:
    """The time of the last change of a file, or of a link that leads nowhere; zero if it has just been removed."""
    for follow in (True, False):
        with suppress(OSError):
            return file.stat(follow_symlinks=follow).st_mtime
    return 0.0


def _described(run: Any, time: float) -> dict[str, str]:
    """A row of the list; a damaged run is listed too."""
    date = datetime.fromtimestamp(time).strftime("%Y-%m-%d %H:%M")
    try:
        info = run.info()
    except RunError:
        return {"run": str(run.path), "model": "", "method": "", "status": "damaged", "verdict": "", "date": date}
    verdict = info["verdict"]
    return {
        "run": str(run.path),
        "model": info["name"],
        "method": info["method"],
        "status": run.status(info),
        "verdict": verdict["status"] if verdict else "",
        "date": date,
    }
