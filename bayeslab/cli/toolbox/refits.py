"""Fitting again whenever a model file or its data are saved, with what changed in the posterior."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayeslab.cli.toolbox.shared import unscreened
from bayeslab.errors import BayeslabError, printable
from bayeslab.language import model_file

if TYPE_CHECKING:
    from bayeslab.results.fit import Fit
    from bayeslab.results.render import Table

__all__ = ["changes", "keep_fitting"]

# Seconds between two looks at the files, and after a change, since editors write in several steps.
_EVERY, _SETTLED = 0.25, 0.1
# A change of a mean is reported beyond this many Monte Carlo errors, or this share of its sd if there are none.
_ERRORS, _SHARE = 4.0, 1e-6
_MOST = 12


def keep_fitting(file: Path, data: Path | None, fit: Callable[[], Fit], show: Callable[[Fit], None]) -> int:
    """Fit and show a model, and again after each change of its files, until Ctrl-C; the exit status of the last fit.

    Parameters
    ----------
    file, data
        The model file, and the data if given apart from it.
    """
    last, status = None, 1
    while True:
        written = _times(file, data)
        try:
            made = fit()
        except BayeslabError as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            status = 2
        else:
            show(made)
            table = made.summary_table()
            if last is not None:
                print("\n".join(["", *changes(last, table)]), file=unscreened(), flush=True)
            last, status = table, 3 if made.verdict.status == "fail" else 0
        print(f"\nwatching {printable(str(file))} and its data; Ctrl-C ends", file=sys.stderr, flush=True)
        try:
            while _times(file, data) == written:
                time.sleep(_EVERY)
            time.sleep(_SETTLED)
        except KeyboardInterrupt:
            return status


def _times(file: Path, data: Path | None) -> dict[Path, float]:
    """When the files were last written; 0 for one that is missing."""
    files = [file, *([data] if data is not None else [])]
    try:
        source = model_file.read(file)
    except (BayeslabError, OSError):
        pass
    else:
        given = source.model.data
        names = [given.table, given.arrays, *given.tables.values()]
        files += [source.folder / name for name in names if name is not None]
    return {path: path.stat().st_mtime if path.exists() else 0.0 for path in files}


def changes(before: Table, after: Table) -> list[str]:
    """What differs between two summaries beyond Monte Carlo error, largest changes first, in lines of text."""
    moved = [text for _, text in sorted(_moved(before, after), reverse=True)]
    there = set(after.index), set(before.index)
    named = {
        "new": [label for label in after.index if label not in there[1]],
        "gone": [label for label in before.index if label not in there[0]],
    }
    if not moved and not any(named.values()):
        return ["nothing changed beyond Monte Carlo error"]
    more = [f"  … and {len(moved) - _MOST:,} more"] if len(moved) > _MOST else []
    for word, labels in named.items():
        if labels:
            rest = f" and {len(labels) - _MOST:,} more" if len(labels) > _MOST else ""
            more.append(f"  {word}: {', '.join(map(printable, labels[:_MOST]))}{rest}")
    return ["changed", *moved[:_MOST], *more]


def _moved(before: Table, after: Table) -> Iterator[tuple[float, str]]:
    """The size of the change of each mean, in standard deviations, and a line about it."""
    places = {label: i for i, label in enumerate(before.index)}
    for i, label in enumerate(after.index):
        if label not in places:
            continue
        old, new = before.row(places[label]), after.row(i)
        column = "mean" if "mean" in old and "mean" in new else "value"
        if column not in old or column not in new:
            continue
        shift, scale = new[column] - old[column], old.get("sd") or abs(old[column]) or 1.0
        error = float(np.hypot(old.get("mcse_mean", 0.0), new.get("mcse_mean", 0.0)))
        if not abs(shift) > max(_ERRORS * error, _SHARE * scale):
            continue
        widths = f", sd {old['sd']:.3g} → {new['sd']:.3g}" if "sd" in old and "sd" in new else ""
        size = f" ({shift / scale:+.2g} sd)" if "sd" in old else ""
        yield abs(shift) / scale, f"  {printable(label)}  {old[column]:.4g} → {new[column]:.4g}{size}{widths}"
