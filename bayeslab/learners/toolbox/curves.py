"""Training curves of several units as one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["by_pass"]


def by_pass(
    name: str, curves: Sequence[Any], units: str = "class"
) -> dict[str, tuple[tuple[str, ...], NDArray[np.float64]]]:
    """Return value of a learner module's ``curves``: one row per unit, NaN after its last pass; empty without units."""
    if not len(curves):
        return {}
    out = np.full((len(curves), max(map(len, curves))), np.nan)
    for row, curve in zip(out, curves, strict=True):
        row[: len(curve)] = curve
    return {name: (("pass",), out[0]) if len(out) == 1 else ((units, "pass"), out)}
