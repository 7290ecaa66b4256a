"""What tests of shipped models share."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import bayeslab as bl
from tests.models.shipped import MODELS


@pytest.fixture(scope="session")
def fits(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bl.Fit]:
    """Fits by name, as the shipped file says: each made once by whichever test process asks first, and opened by all."""
    base = tmp_path_factory.getbasetemp()
    runs = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "fits"

    @cache
    def fit(name: str) -> bl.Fit:
        return bl.open(_made_once(name, runs / name))

    return fit


def _made_once(name: str, runs: Path) -> Path:
    runs.mkdir(parents=True, exist_ok=True)
    with (runs.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = next((p for p in runs.iterdir() if (p / "run.json").exists()), None)
        return folder or bl.fit(MODELS / f"{name}.yaml", runs=runs, progress=False).folder
