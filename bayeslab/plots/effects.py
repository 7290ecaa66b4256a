"""Plots of effects: estimates with intervals, and expected outcomes against a predictor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.plots.figure import ACCENT, COLOURS, MUTED, entry, figure, grid, plain

__all__ = ["Panel", "Series", "curves", "intervals"]

# Maximum number of panels in a row.
_ACROSS = 3
# Vertical jitter of binary observations, as a share of the height.
_APART = 0.04


@dataclass(frozen=True, eq=False)
class Series:
    """Estimates over the values of one predictor.

    Attributes
    ----------
    label : str
        Empty if there is one series.
    x : ndarray
        Numbers, or names of levels.
    center, low, high : ndarray
    """

    label: str
    x: np.ndarray
    center: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes.

    Attributes
    ----------
    xlabel, title : str
    series : sequence of Series
    data : tuple of ndarray or None
        Observations: x, y, and the index of their series (-1: none).
    """

    xlabel: str
    title: str
    series: Sequence[Series]
    data: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None


def intervals(
    labels: Sequence[str], center: np.ndarray, low: np.ndarray, high: np.ndarray, title: str, null: float | None
) -> Any:
    """Plot estimates with their intervals, one line each, the first on top.

    Parameters
    ----------
    labels
        Labels of the estimates.
    center, low, high
        Shape (estimate,).
    null
        The value of no effect, marked by a line; None: no line.
    """
    made, axes = figure(7.0, max(1.6, 0.9 + 0.28 * len(labels)))
    at = np.arange(len(labels))
    if null is not None:
        axes.axvline(null, color=MUTED, linewidth=0.8)
    axes.hlines(at, low, high, color=ACCENT, linewidth=1.6)
    axes.plot(center, at, "o", color=ACCENT, markersize=5)
    axes.set_yticks(at, list(labels))
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_xlabel(title)
    plain(axes)
    return made


def curves(panels: Sequence[Panel], ylabel: str, legend: str = "", null: float | None = None) -> Any:
    """Plot curves with bands for numeric predictors, points with intervals for levels, and the observations.

    Parameters
    ----------
    panels
        Panels with a common vertical axis.
    legend
        Title of the legend of the series.
    null
        The value of no effect, marked by a line; None: no line.
    """
    across = min(len(panels), _ACROSS)
    down = -(-len(panels) // across)
    made, all_axes = grid(
        len(panels), 6.4 if across == 1 else 1.2 + 3.2 * across, 4.0 if down == 1 else 2.9 * down, across
    )
    for number, (axes, panel) in enumerate(zip(all_axes, panels, strict=True)):
        if number:
            axes.sharey(all_axes[0])
        if null is not None:
            axes.axhline(null, color=MUTED, linewidth=0.8)
        _draw(axes, panel)
        axes.set_xlabel(panel.xlabel)
        if panel.title:
            axes.set_title(panel.title, fontsize=10)
        if number % across == 0:
            axes.set_ylabel(ylabel)
        plain(axes)
    if any(series.label for series in panels[0].series):
        handles, labels = all_axes[0].get_legend_handles_labels()
        where, place = (all_axes[0], "best") if len(panels) == 1 else (made, "outside right upper")
        where.legend(handles, labels, loc=place, frameon=False, title=legend or None, fontsize=9)
    return made


def _draw(axes: Any, panel: Panel) -> None:
    numbers = panel.series[0].x.dtype.kind in "fiu"
    levels = list(dict.fromkeys(str(x) for series in panel.series for x in series.x.tolist()))
    place = {level: k for k, level in enumerate(levels)}

    def at(x: np.ndarray) -> np.ndarray:
        return x.astype(float) if numbers else np.array([place.get(str(v), -1) for v in x.tolist()], float)

    if panel.data is not None:
        _cells(axes, at(panel.data[0]), panel.data[1], panel.data[2], apart=not numbers)
    many = len(panel.series)
    for number, series in enumerate(panel.series):
        colour, label = COLOURS[number % len(COLOURS)], entry(series.label)
        x = at(series.x)
        if numbers:
            axes.fill_between(x, series.low, series.high, color=colour, alpha=0.2, linewidth=0)
            axes.plot(x, series.center, color=colour, linewidth=1.7, label=label)
            continue
        x = x + (number - (many - 1) / 2) * min(0.12, 0.6 / many)
        axes.vlines(x, series.low, series.high, color=colour, linewidth=1.7)
        axes.plot(x, series.center, "o", color=colour, markersize=6, label=label)
    if not numbers:
        axes.set_xticks(range(len(levels)), levels, rotation=0 if sum(map(len, levels)) < 40 else 90)
        axes.set_xlim(-0.5, len(levels) - 0.5)


def _cells(axes: Any, x: np.ndarray, y: np.ndarray, group: np.ndarray, *, apart: bool) -> None:
    """Plot observations, with jitter where they would cover each other."""
    rng = np.random.default_rng(0)
    if set(np.unique(y).tolist()) <= {0.0, 1.0}:
        y = y + rng.uniform(0, _APART, len(y)) * np.where(y > 0, -1, 1)
    if apart:
        x = x + rng.uniform(-0.28, 0.28, len(x))
    for number in np.unique(group):
        colour = MUTED if number < 0 else COLOURS[int(number) % len(COLOURS)]
        chosen = group == number
        axes.plot(x[chosen], y[chosen], "o", color=colour, alpha=0.35, markersize=3.5, markeredgewidth=0, zorder=1)
