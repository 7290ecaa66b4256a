"""Conjunctions of attributes, as tuples of words in which None stands for any word."""

from __future__ import annotations

import numpy as np


def covers(conjunction, rows) -> np.ndarray:
    return np.array([all(c is None or c == v for c, v in zip(conjunction, row, strict=True)) for row in rows])
