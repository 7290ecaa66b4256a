"""Where references are that others computed; without them tests are skipped, and fail where nothing may be left out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

SHARED = Path(__file__).parents[3] / "shared"
POSTERIORDB = SHARED / "conformance" / "posteriordb"


def require(folder: Path, what: str) -> None:
    if folder.is_dir():
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"the {what} are missing: {folder}")
    pytest.skip(f"the {what} are not on this machine")


def agrees(name: str, table: pd.DataFrame, ours: Callable[[str], str]) -> set[str]:
    """A summary is that of a reference posterior: means within 4 Monte Carlo standard errors of both, sds within 10 %.

    Parameters
    ----------
    name
        Of the posterior in posteriordb.
    ours
        The row of the summary, from a name of the reference.

    Returns
    -------
    set of str
        The names of the reference.
    """
    reference = json.loads((POSTERIORDB / "reference" / f"{name}.json").read_text())["parameters"]
    for parameter, want in reference.items():
        row = table.loc[ours(parameter)]
        error = np.hypot(row["mcse_mean"], want["mcse_mean"])
        assert abs(row["mean"] - want["mean"]) < 4 * error, parameter
        assert row["sd"] == pytest.approx(want["sd"], rel=0.1), parameter
    return set(reference)
