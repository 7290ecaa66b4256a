"""Folders of calibrations: their identity, and each replication, stored as soon as it is finished.

::

    runs/radon-calibration/
      calibration.json      format, identity (model, data, seed, engine, options)
      replications/         one file each
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bayeslab.errors import RunError
from bayeslab.files import read_npz, write_npz, write_text

__all__ = ["CalibrationFolder"]

FORMAT = 1


class CalibrationFolder:
    """The store of finished replications.

    Attributes
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, runs: str | os.PathLike[str], name: str, identity: Mapping[str, Any]) -> CalibrationFolder:
        """The existing folder of this calibration, else a new one ``name-calibration``, ``...-2``."""
        base = Path(runs)
        for number in range(1, 100_000):
            path = base / (f"{name}-calibration" if number == 1 else f"{name}-calibration-{number}")
            if not path.exists():
                return cls._new(path, identity)
            if _identity(path) == dict(identity):
                return cls(path)
        raise RunError("too many calibrations of this name", where=str(base), code="too-large")

    @classmethod
    def _new(cls, path: Path, identity: Mapping[str, Any]) -> CalibrationFolder:
        try:
            (path / "replications").mkdir(parents=True)
        except OSError as error:
            raise RunError(
                f"the folder cannot be made: {error.strerror}", where=str(path), code="cannot-write"
            ) from None
        content = {"format": FORMAT, "identity": dict(identity)}
        write_text(path / "calibration.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        return cls(path)

    def finished(self) -> list[int]:
        """Numbers of the complete replications."""
        return sorted(int(p.stem.removeprefix("r")) for p in (self.path / "replications").glob("r*.npz"))

    def read(self, number: int) -> dict[str, np.ndarray]:
        return read_npz(self.path / "replications" / f"r{number:06}.npz")

    def write(self, number: int, arrays: Mapping[str, np.ndarray]) -> None:
        write_npz(self.path / "replications" / f"r{number:06}.npz", arrays)


def _identity(path: Path) -> dict[str, Any] | None:
    """The identity of a folder's calibration; None if it is not a calibration, or has another format."""
    try:
        content = json.loads((path / "calibration.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content.get("identity") if isinstance(content, dict) and content.get("format") == FORMAT else None
