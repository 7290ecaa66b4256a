"""Plots of predictive checks: data and replications, a test statistic, LOO-PIT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayeslab.plots.figure import ACCENT, BAND, MUTED, OTHER, figure, plain
from bayeslab.plots.kernel_density import bounds, kernel_density, limits

__all__ = ["calibration_curve", "density_overlay", "pit_ecdf", "residuals", "statistic"]

# Largest number of values with a tick each, of the span of values with a bar each, and points of a density.
_TICKS, _SPAN, _GRID = 12, 60, 200


def density_overlay(
    observed: np.ndarray,
    replicated: np.ndarray,
    name: str,
    *,
    discrete: bool,
    levels: Sequence[object] | np.ndarray | None = None,
    n_lines: int = 50,
) -> Any:
    """Plot the data over replications: densities of continuous outcomes, frequencies of discrete ones.

    Frequencies of counts have a square-root axis, a rootogram [1]_, so that rare values are visible. Whole numbers that
    span more than 60 have densities.

    Parameters
    ----------
    observed
        Shape (cell,).
    replicated
        Shape (draw, cell).
    discrete
        Whether all values are whole numbers.
    levels
        Names of the levels 0, 1, ..., if the values are categories.
    n_lines
        Number of replications whose densities are drawn.

    References
    ----------
    .. [1] Kleiber, Zeileis (2016). Visualizing count data regressions using rootograms. The American Statistician
       70(3), 296-303.
    """
    made, axes = figure()
    finite = replicated[np.isfinite(replicated)]
    if discrete:
        low, high = min(observed.min(), finite.min()), max(observed.max(), finite.max())
        if high - low <= _SPAN:
            _frequencies(axes, observed, replicated, np.arange(low, high + 1), name, levels)
            return made
    rows = replicated[np.linspace(0, len(replicated) - 1, min(n_lines, len(replicated))).astype(int)]
    rows = [row[np.isfinite(row)] for row in rows]
    both = np.concatenate([observed, *rows])
    within = bounds(both)
    low = min(float(observed.min()), float(np.quantile(both, 0.002)))
    high = max(float(observed.max()), float(np.quantile(both, 0.998)))
    low, high = limits(low, high, 0.08, within)
    for number, row in enumerate([row for row in rows if len(row) > 1]):
        x, height = kernel_density(row, low, high, _GRID, within)
        label = None if number else "replications"
        axes.plot(x, height / (high - low), color=MUTED, alpha=0.25, linewidth=0.8, label=label)
    x, height = kernel_density(observed, low, high, _GRID, within)
    axes.plot(x, height / (high - low), color=ACCENT, linewidth=2.2, label="data")
    axes.set(xlabel=name, ylabel="density", xlim=(low, high), ylim=(0, None))
    for line in axes.legend(frameon=False).get_lines():
        line.set_alpha(1.0)
    plain(axes)
    return made


def _frequencies(
    axes: Any,
    observed: np.ndarray,
    replicated: np.ndarray,
    values: np.ndarray,
    name: str,
    levels: Sequence[object] | np.ndarray | None,
) -> None:
    """Draw bars for the frequencies of values in the data, and intervals of those in replications."""
    share = levels is not None or len(values) <= 2
    unit = len(observed) if share else 1
    counts = np.array([(replicated == value).sum(axis=1) for value in values]) / unit
    real = np.array([(observed == value).sum() for value in values]) / unit
    low, middle, high = np.quantile(counts, [0.055, 0.5, 0.945], axis=1)
    axes.bar(values, real, width=0.8, color=ACCENT, alpha=0.45, label="data")
    axes.vlines(values, low, high, color=OTHER, linewidth=1.6)
    axes.plot(values, middle, "o", color=OTHER, markersize=4.5, label="replications, 89 %")
    axes.set(xlabel=name, ylabel="share" if share else "frequency (square-root scale)", ylim=(0, None))
    if not share:
        axes.set_yscale("function", functions=(_root, np.square))
        axes.set_ylim(0, None)
    if len(values) <= _TICKS or levels is not None:
        shown = values[:: -(-len(values) // _TICKS)].astype(int)
        axes.set_xticks(shown, [str(value if levels is None else levels[value]) for value in shown])
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    plain(axes)


def _root(values: np.ndarray) -> np.ndarray:
    """Square roots, and 0 of numbers below 0, which matplotlib tries for margins."""
    return np.sqrt(np.maximum(values, 0.0))


def statistic(observed: float, replicated: np.ndarray, name: str, p_value: float) -> Any:
    """Plot the histogram of a test statistic over replications, and its value in the data, with the p-value."""
    made, axes = figure()
    finite = replicated[np.isfinite(replicated)]
    axes.hist(finite, bins=40, color=MUTED, alpha=0.6, label="replications")
    axes.axvline(observed, color=ACCENT, linewidth=2, label="data")
    axes.set(xlabel=name, yticks=[])
    p = "p-value below 0.001" if p_value < 0.001 else f"p-value {p_value:.3f}"
    axes.legend(frameon=False, title=p)
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


def residuals(predicted: np.ndarray, values: np.ndarray, name: str) -> Any:
    """Plot randomised quantile residuals over predicted means, with the 95 % interval of a calibrated model.

    Parameters
    ----------
    predicted, values
        Shape (cell,).
    """
    made, axes = figure()
    axes.axhspan(-1.96, 1.96, color=BAND, linewidth=0, label="95 % of residuals if calibrated")
    axes.axhline(0, color=MUTED, linewidth=0.8)
    axes.plot(predicted, values, "o", color=ACCENT, alpha=0.6, markersize=4, markeredgewidth=0)
    axes.set(xlabel=f"predicted mean of {name}", ylabel="quantile residual")
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1))
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
