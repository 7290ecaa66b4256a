"""The shipped models of latent features: planted shapes found, factors of a real table as scikit-learn has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl

MODELS = Path(__file__).parents[2] / "models"

SHAPES = np.array(
    [
        [[0, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0], *[[0] * 6] * 3],
        [[0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 0, 1], [0, 0, 0, 1, 1, 1], *[[0] * 6] * 3],
        [*[[0] * 6] * 3, [1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0]],
        [*[[0] * 6] * 3, [0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 1, 0]],
    ]
).reshape(4, 36)


def simulated_shapes():
    """The table ``models/data/shapes.csv``, and which shapes are in which image."""
    rng = np.random.default_rng(2005)
    z = (rng.random((100, 4)) < 0.5).astype(int)
    values = np.round(z @ SHAPES + 0.5 * rng.standard_normal((100, 36)), 2)
    return pd.DataFrame(values, columns=[f"r{i + 1}c{j + 1}" for i in range(6) for j in range(6)]), z
