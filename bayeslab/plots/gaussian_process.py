"""Plots of Gaussian processes: the function with its band, additive terms, leave-one-out predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.plots.figure import ACCENT, BAND, MUTED, figure, grid, plain

__all__ = ["components", "function", "leave_one_out"]

type Band = tuple[np.ndarray, np.ndarray, np.ndarray]


def function(
    at: np.ndarray,
    band: Band,
    points: tuple[np.ndarray, np.ndarray] | None,
    xlabel: str,
    ylabel: str,
    ci_prob: float,
) -> Any:
    """Plot the mean of the function and its credible interval over one column.

    Parameters
    ----------
    at : ndarray (m,)
    band : (ndarray, ndarray, ndarray)
        Mean, lower and upper end of the interval.
    points : (ndarray, ndarray) or None
        The data, if they are on the scale of the function.
    ci_prob : float
        Probability of the credible interval, for the legend.
    """
    made, axes = figure(7.0, 3.8)
    if points is not None:
        axes.plot(*points, ".", color=MUTED, markersize=max(2.0, 7.0 - np.log10(len(points[0]) + 1)), label="data")
    _band(axes, at, band, ci_prob)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.legend(frameon=False, fontsize=8)
    plain(axes)
    return made


def components(at: np.ndarray, bands: Mapping[str, Band], xlabel: str, ci_prob: float) -> Any:
    """Plot each term of the kernel over one column, one below the other."""
    made, rows = grid(len(bands), 7.0, 1.0 + 1.6 * len(bands))
    for axes, (name, band) in zip(rows, bands.items(), strict=True):
        _band(axes, at, band, ci_prob)
        axes.set_title(name, fontsize=9, loc="left")
        plain(axes)
    rows[0].legend(frameon=False, fontsize=8)
    rows[-1].set(xlabel=xlabel)
    return made


def leave_one_out(mean: np.ndarray, sd: np.ndarray, outcome: np.ndarray) -> Any:
    """Plot outcomes against leave-one-out predictions; rows outside three standard deviations are highlighted."""
    made, axes = figure(4.8, 4.4)
    low, high = float(min(mean.min(), outcome.min())), float(max(mean.max(), outcome.max()))
    axes.plot([low, high], [low, high], color=MUTED, linewidth=1.0)
    far = np.abs(outcome - mean) > 3.0 * sd
    axes.errorbar(mean[~far], outcome[~far], xerr=sd[~far], fmt=".", color=ACCENT, ecolor=BAND, markersize=4)
    if far.any():
        axes.errorbar(mean[far], outcome[far], xerr=sd[far], fmt="s", color="black", ecolor=MUTED, markersize=5)
    axes.set(xlabel="predicted from all other rows (± 1 sd)", ylabel="outcome")
    plain(axes)
    return made


def _band(axes: Any, at: np.ndarray, band: Band, ci_prob: float) -> None:
    mean, low, high = band
    label = f"{100 * ci_prob:g} % credible interval"
    axes.fill_between(at, low, high, color=BAND, linewidth=0, label=label)
    axes.plot(at, mean, color=ACCENT, linewidth=1.8, label="mean")
