"""Plots of scores of learners and models: scores by split, calibration, learning curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.plots.figure import ACCENT, COLOURS, MUTED, OTHER, entry, figure, plain

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["calibration_plot", "learning_curve_plot", "scores_plot", "validation_curve_plot"]

# Okabe and Ito (2008).
_MARKS = ("o", "s", "^", "D", "v", "P", "X")


def _style(i: int) -> dict[str, Any]:
    return {"color": COLOURS[i % len(COLOURS)], "marker": _MARKS[i % len(_MARKS)], "markersize": 4}


def scores_plot(scores: pd.DataFrame, measure: str, means: Mapping[str, float]) -> Any:
    """Plot the score of each split as a dot and the overall score as a line, one row per model."""
    made, axes = figure(6.4, 1.2 + 0.5 * len(means))
    rng = np.random.default_rng(0)
    for place, (name, mean) in enumerate(means.items()):
        values = scores.loc[scores["model"] == name, measure].to_numpy()
        axes.plot(values, place + rng.uniform(-0.15, 0.15, len(values)), "o", color=ACCENT, alpha=0.45, markersize=4)
        axes.plot([mean] * 2, [place - 0.3, place + 0.3], color=OTHER, linewidth=2)
    axes.set_yticks(range(len(means)), list(means))
    axes.set(xlabel=f"{measure} of held-out rows", ylim=(len(means) - 0.4, -0.6))
    plain(axes)
    return made


def calibration_plot(curves: Mapping[str, pd.DataFrame], event: str) -> Any:
    """Plot the frequency of an event against its predicted probability."""
    made, axes = figure(5.2, 4.6)
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8)
    for i, (name, table) in enumerate(curves.items()):
        low, high = (c for c in table.columns if c.startswith("eti"))
        gaps = np.abs(table[[low, high]].to_numpy().T - table["observed"].to_numpy())
        axes.errorbar(table["predicted"], table["observed"], yerr=gaps, label=entry(name), linewidth=1, **_style(i))
    axes.set(xlabel=f"predicted probability of {event}", ylabel="how often it was so", xlim=(0, 1), ylim=(0, 1))
    axes.legend(frameon=False, fontsize="small")
    plain(axes)
    return made


def learning_curve_plot(table: pd.DataFrame, target: str) -> Any:
    """Plot the mean score by the number of training rows, with bands over repeats."""
    made, axes = figure()
    measure = table.columns[2]
    low, high = table.columns[3:5]
    for i, (name, rows) in enumerate(table.groupby("model", sort=False)):
        axes.fill_between(rows["size"], rows[low], rows[high], color=COLOURS[i % len(COLOURS)], alpha=0.15, linewidth=0)
        axes.plot(rows["size"], rows[measure], label=entry(name), **_style(i))
    axes.set(xlabel="training rows", ylabel=f"{measure} of '{target}' on other rows")
    axes.legend(frameon=False, fontsize="small")
    plain(axes)
    return made


def validation_curve_plot(table: pd.DataFrame, what: str, best: int) -> Any:
    """Plot scores on training rows and held-out rows by the value of an option; the best value is marked."""
    made, axes = figure()
    option = table.columns[0]
    at = np.arange(len(table))
    axes.axvline(best, color=MUTED, linewidth=0.8)
    axes.plot(at, table["training"], label="training rows", **_style(0))
    axes.errorbar(at, table["left_out"], yerr=table["sd"], label="held-out rows ± sd", capsize=2, **_style(1))
    axes.set_xticks(at, [str(x) for x in table[option]])
    axes.set(xlabel=str(option), ylabel=what)
    axes.legend(frameon=False, fontsize="small")
    plain(axes)
    return made
