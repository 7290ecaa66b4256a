"""Segments of sampled structures in a run folder, and the progress of a running job.

::

    runs/sachs/
      scores.npz                    the score table
      chains/chain-0/000000.npz     segments, as soon as they are computed
      progress.json                 progress of the job
      stop                          asks it to stop after the running segments
      log.txt                       output of a detached job
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import RunError
from bayeslab.files import read_npz, write_npz, write_text
from bayeslab.run_folder.lock import alive, this_process

if TYPE_CHECKING:
    from bayeslab.structure.score_table import ScoreTable

__all__ = ["SegmentStore"]


class SegmentStore:
    """The part of a run folder that a job of segments uses (:class:`bayeslab.structure.jobs.Segments`)."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def table(self, build: Callable[[], ScoreTable]) -> ScoreTable:
        """The stored score table; it is built and stored if it is missing or damaged."""
        from bayeslab.structure.score_table import ScoreTable

        file = self.path / "scores.npz"
        if file.exists():
            try:
                return ScoreTable.load(file)
            except RunError:
                file.unlink(missing_ok=True)
        table = build()
        table.save(file)
        return table

    # -- segments

    def _file(self, chain: int, number: int) -> Path:
        return self.path / "chains" / f"chain-{chain}" / f"{number:06d}.npz"

    def read(self, chain: int) -> list[dict[str, NDArray[Any]]]:
        """The complete segments of a chain, in order, up to the first missing or damaged one."""
        out: list[dict[str, NDArray[Any]]] = []
        while (file := self._file(chain, len(out))).exists():
            try:
                out.append(read_npz(file))
            except RunError:
                break
        return out

    def write(self, chain: int, number: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write a segment, completely or not at all."""
        file = self._file(chain, number)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot be made: {error.strerror}", where=str(file.parent), code="cannot-write") from None
        write_npz(file, {name: np.asarray(array) for name, array in arrays.items()})

    # -- a running job

    def stopping(self) -> bool:
        """Whether somebody has asked the job to stop."""
        return (self.path / "stop").exists()

    def ask_to_stop(self) -> None:
        """Ask the job to stop after its running segments."""
        self._text("stop", "")

    def begin(self) -> None:
        """Start a job in this process; an earlier request to stop, and half-written segments, are removed."""
        (self.path / "stop").unlink(missing_ok=True)
        for unfinished in (self.path / "chains").glob("chain-*/.*.npz"):
            unfinished.unlink(missing_ok=True)
        self.tell({"chains": []})

    def tell(self, content: Mapping[str, Any]) -> None:
        """Write the progress of the job that runs in this process."""
        content = this_process() | {"updated": time.time()} | dict(content)
        self._text("progress.json", json.dumps(content, indent=1) + "\n")

    def progress(self) -> dict[str, Any] | None:
        """The progress of the job; None before its first report."""
        try:
            content = json.loads((self.path / "progress.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return content if isinstance(content, dict) else None

    def standing(self, status: str) -> dict[str, Any]:
        """The progress of the job, with its state under ``state``.

        Parameters
        ----------
        status
            The status in ``run.json``. A job that should be running but is not was killed.
        """
        progress = self.progress() or {"chains": []}
        state = status
        if status == "running" and "pid" not in progress:
            state = "starting"
        elif status == "running" and not alive(progress):
            state = "killed"
        return {"state": state, **progress}

    def opened_log(self) -> IO[bytes]:
        """The log file of a detached job, opened for appending."""
        try:
            return (self.path / "log.txt").open("ab")
        except OSError as error:
            raise RunError(
                f"cannot be written: {error.strerror}", where=str(self.path / "log.txt"), code="cannot-write"
            ) from None

    def _text(self, name: str, text: str) -> None:
        try:
            write_text(self.path / name, text)
        except OSError as error:
            raise RunError(
                f"cannot be written: {error.strerror}", where=str(self.path / name), code="cannot-write"
            ) from None
