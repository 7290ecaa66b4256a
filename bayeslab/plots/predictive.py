"""Plots of predictive checks: data and replications, a test statistic, LOO-PIT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayeslab.plots.figure import ACCENT, BAND, MUTED, OTHER, figure, plain

__all__ = ["calibration_curve", "density_overlay", "pit_ecdf", "statistic"]

# Largest number of values with a tick each.
_TICKS = 12


def density_overlay(
    observed: np.ndarray,
    replicated: np.ndarray,
    name: str,
    *,
    discrete: bool,
    levels: Sequence[object] | np.ndarray | None = None,
    n_lines: int = 50,
) -> Any:
    """Plot histogram outlines of replications in the background and of the data in front.

    Parameters
    ----------
    observed
        Shape (cell,).
    replicated
        Shape (draw, cell).
    discrete
        Whether all values are whole numbers; each has its own bin if there are few.
    levels
        Names of the levels 0, 1, ..., if the values are categories.
    """
    made, axes = figure()
    chosen = replicated[np.linspace(0, len(replicated) - 1, min(n_lines, len(replicated))).astype(int)]
    edges = _edges(observed, chosen, discrete)
    for number, row in enumerate(chosen):
        heights = np.histogram(row, edges, density=True)[0]
        label = None if number else "replications"
        axes.stairs(heights, edges, color=MUTED, alpha=0.25, linewidth=0.8, label=label)
    axes.stairs(np.histogram(observed, edges, density=True)[0], edges, color=ACCENT, linewidth=2, label="data")
    axes.set(xlabel=name, ylabel="density", ylim=(0, None))
    # Heights are shares and ticks are values only if each value has its own bin.
    if discrete and len(edges) - 1 <= _TICKS and np.allclose(np.diff(edges), 1.0):
        values = (edges[:-1] + 0.5).astype(int)
        axes.set_xticks(values, [str(value if levels is None else levels[value]) for value in values])
        axes.set_ylabel("share")
    for line in axes.legend(frameon=False).get_patches():
        line.set_alpha(1.0)
    plain(axes)
    return made


def _edges(observed: np.ndarray, replicated: np.ndarray, discrete: bool) -> np.ndarray:
    """Return bins over the data and nearly all of the replications."""
    low = min(observed.min(), np.quantile(replicated, 0.002))
    high = max(observed.max(), np.quantile(replicated, 0.998))
    if discrete and high - low <= 100:
        return np.arange(np.floor(low), np.ceil(high) + 2) - 0.5
    n_bins = int(np.clip(2 * len(observed) ** (1 / 3) * (high - low) / max(np.ptp(observed), 1e-300), 10, 60))
    return np.linspace(low, high if high > low else low + 1, n_bins + 1)


def statistic(observed: float, replicated: np.ndarray, name: str) -> Any:
    """Plot the histogram of a test statistic over replications, and its value in the data."""
    made, axes = figure()
    finite = replicated[np.isfinite(replicated)]
    axes.hist(finite, bins=40, color=MUTED, alpha=0.6, label="replications")
    axes.axvline(observed, color=ACCENT, linewidth=2, label="data")
    axes.set(xlabel=name, yticks=[])
    axes.legend(frameon=False)
    plain(axes)
    axes.spines["left"].set_visible(False)
    return made


def pit_ecdf(values: np.ndarray, points: np.ndarray, lower: np.ndarray, upper: np.ndarray, name: str) -> Any:
    """Plot the ECDF of PIT values minus the uniform one, with simultaneous bands.

    Parameters
    ----------
    points, lower, upper
        Points at which the bands are given, and the lower and upper cumulative counts.
    """
    made, axes = figure()
    n, ends = len(values), np.concatenate([[0], points, [1]])
    axes.fill_between(
        ends,
        np.concatenate([[0], lower / n - points, [0]]),
        np.concatenate([[0], upper / n - points, [0]]),
        color=BAND,
        label="95 % simultaneous band",
    )
    x = np.linspace(0, 1, 1001)
    axes.plot(x, np.searchsorted(np.sort(values), x, side="right") / n - x, color=ACCENT, label="data")
    axes.axhline(0, color=MUTED, linewidth=0.8)
    axes.set(xlabel=f"LOO-PIT of {name}", ylabel="ECDF − uniform", xlim=(0, 1))
    axes.margins(y=0.25)
    axes.legend(frameon=False)
    plain(axes)
    return made


def calibration_curve(
    predicted: np.ndarray, observed: np.ndarray, lower: np.ndarray, upper: np.ndarray, name: str
) -> Any:
    """Plot the share of cases against the predicted probability, with intervals."""
    made, axes = figure(4.6, 4.4)
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8)
    axes.errorbar(predicted, observed, [observed - lower, upper - observed], fmt="o-", color=ACCENT, ecolor=OTHER)
    axes.set(xlabel=f"predicted probability of {name}", ylabel="share of cases", xlim=(0, 1), ylim=(0, 1))
    axes.set_aspect("equal")
    plain(axes)
    return made
