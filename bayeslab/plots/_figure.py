"""Figures, and a clear word where matplotlib is missing."""

from __future__ import annotations

from functools import partial
from io import BytesIO
from typing import Any

from bayeslab.errors import BayeslabError

__all__ = ["ACCENT", "BAND", "MUTED", "OTHER", "figure", "grid", "plain"]

# Distinguishable without red and green (Okabe and Ito 2008).
ACCENT, OTHER, MUTED, BAND = "#0072B2", "#D55E00", "#8a8a8a", "#cfe3f1"


def figure(width: float = 6.4, height: float = 4.0) -> tuple[Any, Any]:
    """A figure with one pair of axes, outside pyplot's register, so that nothing is left open."""
    figures, axes = grid(1, width, height)
    return figures, axes[0]


def grid(n: int, width: float, height: float, columns: int = 1) -> tuple[Any, list[Any]]:
    """A figure with ``n`` pairs of axes.

    Raises
    ------
    BayeslabError
        matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise BayeslabError("plots need matplotlib: pip install 'bayeslab[notebook]'") from None
    rows = -(-n // columns)
    made = Figure(figsize=(width, height), layout="constrained")
    # Jupyter shows figures by itself only once pyplot has drawn one.
    made._repr_png_ = partial(_png, made)  # type: ignore[attr-defined]
    axes = made.subplots(rows, columns, squeeze=False).ravel().tolist()
    for spare in axes[n:]:
        spare.set_axis_off()
    return made, axes[:n]


def _png(made: Any) -> bytes:
    file = BytesIO()
    made.savefig(file, format="png", dpi=100)
    return file.getvalue()


def plain(axes: Any) -> None:
    """Only the two lines that carry numbers."""
    axes.spines[["top", "right"]].set_visible(False)
