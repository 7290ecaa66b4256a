"""The models that come with the package, and their tables."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest

import bayeslab as bl

MODELS = Path(__file__).parents[2] / "models"


def table(name: str) -> pd.DataFrame:
    return pd.read_csv(MODELS / "data" / f"{name}.csv")


def words(name: str) -> pd.DataFrame:
    """A table in which an empty cell, or the word None, is a word."""
    return pd.read_csv(MODELS / "data" / f"{name}.csv", keep_default_na=False)


def fitted(name: str, method: str | None = None, **options) -> bl.Fit:
    return bl.fit(MODELS / f"{name}.yaml", method=method, runs=None, progress=False, **options)


def shared_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which all test processes keep fits of shipped models."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "fits"


def made_once(name: str, shared: Path) -> Path:
    """The run folder of a shipped model, fitted here if no test has fitted it."""
    with _alone(name, shared) as runs:
        return _run_in(runs) or bl.fit(MODELS / f"{name}.yaml", runs=runs, progress=False).folder


def keep(name: str, folder: Path, shared: Path) -> None:
    """Keep the run of a shipped model as its file says, for tests that need the same fit later."""
    with _alone(name, shared) as runs:
        if _run_in(runs) is None:
            shutil.copytree(folder, runs / folder.name)


@contextmanager
def _alone(name: str, shared: Path) -> Iterator[Path]:
    """The folder of a model's runs, for one process at a time."""
    runs = shared / name
    runs.mkdir(parents=True, exist_ok=True)
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield runs


def _run_in(runs: Path) -> Path | None:
    return next((path for path in runs.iterdir() if (path / "run.json").exists()), None)
