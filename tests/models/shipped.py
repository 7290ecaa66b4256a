"""The models that come with the package, and their tables."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

import bayeslab as bl

MODELS = Path(__file__).parents[2] / "models"


def table(name: str) -> pd.DataFrame:
    return pd.read_csv(MODELS / "data" / f"{name}.csv")


def words(name: str) -> pd.DataFrame:
    """A table in which an empty cell, or the word None, is a word."""
    return pd.read_csv(MODELS / "data" / f"{name}.csv", keep_default_na=False)


def fitted(name: str, method: str | None = None, **options) -> bl.Fit:
    return bl.fit(MODELS / f"{name}.yaml", method=method, runs=None, progress=False, **options)
