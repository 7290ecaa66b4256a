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

import errno
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, model_validator

from bayeslab.errors import RunError
from bayeslab.files import ordinary_size, read_npz, write_npz, write_text
from bayeslab.run_folder.lock import alive, this_process

if TYPE_CHECKING:
    from bayeslab.structure.score_table import ScoreTable

__all__ = ["SegmentStore"]

# Bytes of ``progress.json``; a job of a thousand chains has some hundred thousand.
_MOST_PROGRESS = 1 << 26


class _ChainProgress(BaseModel):
    done: int
    acceptance: dict[str, float]
    score: float = math.nan
    seconds: float = math.nan


class _Progress(BaseModel):
    """The content of ``progress.json``; what is not there is left out."""

    pid: int = 0
    host: str = ""
    began: int | None = None
    updated: float = math.nan
    seconds: float = math.nan
    seconds_left: float = math.nan
    draws: int = 0
    tune: int = 0
    steps_per_draw: int = 0
    r_hat_score: float | str = ""
    r_hat_edges: float | str = ""
    chains: list[_ChainProgress]

    @model_validator(mode="after")
    def _counted(self) -> _Progress:
        if self.chains and not {"draws", "tune"} <= self.model_fields_set:
            raise ValueError("chains without their numbers of draws")
        return self


class SegmentStore:
    """The part of a run folder that a job of segments uses (:class:`bayeslab.structure.jobs.Segments`).

    Parameters
    ----------
    path
        The run folder.
    origin
        A digest of the run's model and data: a stored score table of another origin is not used.
    """

    def __init__(self, path: Path, origin: Callable[[], str] = str) -> None:
        self.path, self._origin = path, origin

    def table(self, build: Callable[[], ScoreTable]) -> ScoreTable:
        """The stored score table; it is built and stored if it is missing, damaged, or that of another run."""
        from bayeslab.structure.score_table import ScoreTable

        file, origin = self.path / "scores.npz", self._origin()
        if file.exists():
            try:
                return ScoreTable.load(file, origin)
            except RunError:
                file.unlink(missing_ok=True)
        table = build()
        table.save(file, origin)
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
        """The progress of the job; None before its first report, or if the file is damaged."""
        path = self.path / "progress.json"
        try:
            if ordinary_size(path, RunError) > _MOST_PROGRESS:
                return None
            return _Progress.model_validate_json(path.read_bytes()).model_dump(exclude_unset=True)
        except (OSError, ValueError, RunError):
            return None

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
        return progress | {"state": state}

    def opened_log(self) -> IO[bytes]:
        """The log file of a detached job, opened for appending."""
        # Not through a link: a folder by somebody else could have one to any file of the user's.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            return os.fdopen(os.open(self.path / "log.txt", flags, 0o644), "ab")
        except OSError as error:
            why = "it is a link to elsewhere; remove it" if error.errno == errno.ELOOP else error.strerror
            raise RunError(f"cannot be written: {why}", where=str(self.path / "log.txt"), code="cannot-write") from None

    def _text(self, name: str, text: str) -> None:
        try:
            write_text(self.path / name, text)
        except OSError as error:
            raise RunError(
                f"cannot be written: {error.strerror}", where=str(self.path / name), code="cannot-write"
            ) from None
