"""Plots of mixtures: components over the data, responsibilities, co-clustering, the trace of EM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayeslab.arrays import positions, real
from bayeslab.errors import DataError
from bayeslab.plots.figure import ACCENT, COLOURS, MUTED, OTHER, entry, figure, grid, plain

__all__ = [
    "densities",
    "density_band",
    "ellipses",
    "em_trace",
    "numbers",
    "responsibilities",
    "together",
]

# Okabe and Ito (2008); colours are repeated after these.


def _colours(n: int) -> list[str]:
    return [COLOURS[k % len(COLOURS)] for k in range(n)]


def _mixed(probability: np.ndarray) -> np.ndarray:
    """Return a colour for each row: the colours of the components, mixed by their probabilities."""
    from matplotlib.colors import to_rgb

    base = np.array([to_rgb(c) for c in _colours(probability.shape[1])])
    return np.clip(probability @ base, 0, 1)


def ellipses(
    points: np.ndarray,
    probability: np.ndarray,
    means: np.ndarray,
    covariances: np.ndarray,
    names: Sequence[str],
    axes_names: tuple[str, str],
) -> Any:
    """Plot components over two columns of the data as ellipses of one and two standard deviations.

    Parameters
    ----------
    points : ndarray (N, 2)
    probability : ndarray (N, K)
        Probabilities of the components; rows between components have mixed colours.
    means, covariances : ndarray (K, 2), (K, 2, 2)
    """
    made, axes = figure(5.6, 4.6)
    axes.scatter(points[:, 0], points[:, 1], s=14, c=_mixed(probability), alpha=0.6, linewidths=0)
    circle = np.stack([f(np.linspace(0, 2 * np.pi, 181)) for f in (np.cos, np.sin)])
    for k, colour in enumerate(_colours(len(means))):
        values, vectors = np.linalg.eigh(covariances[k])
        for size in (1, 2):
            x, y = means[k][:, None] + size * vectors @ (np.sqrt(np.maximum(values, 0))[:, None] * circle)
            axes.plot(
                x, y, color=colour, linewidth=1.8 if size == 1 else 1.0, label=entry(names[k]) if size == 1 else None
            )
        axes.plot(*means[k], "+", color="black", markersize=9)
    axes.set(xlabel=axes_names[0], ylabel=axes_names[1])
    _legend(axes, len(means), "ellipses: 1 and 2 sd")
    plain(axes)
    return made


def _legend(axes: Any, n: int, title: str) -> None:
    if n <= 12:
        axes.legend(frameon=False, title=title, fontsize=8, title_fontsize=8)


def densities(
    values: np.ndarray, at: np.ndarray, parts: np.ndarray, names: Sequence[str], name: str, *, discrete: bool
) -> Any:
    """Plot the histogram of one column, the weighted components, and their sum.

    Parameters
    ----------
    values : ndarray (N,)
    at : ndarray (G,)
    parts : ndarray (K, G)
        Densities (probabilities if ``discrete``) times weights.
    """
    made, axes = figure(6.0, 3.8)
    if discrete:
        counts = np.array([(values == v).mean() for v in at])
        axes.bar(at, counts, width=0.8, color="#dcdcdc", label="data")
        style = {"marker": "o", "markersize": 4}
    else:
        axes.hist(values, bins=24, density=True, color="#dcdcdc", label="data")
        style = {}
    for part, colour, word in zip(parts, _colours(len(parts)), names, strict=True):
        axes.plot(at, part, color=colour, label=entry(word), **style)
    axes.plot(at, parts.sum(axis=0), color="black", linewidth=1, linestyle="--", label="mixture")
    axes.set(xlabel=name, ylabel="probability" if discrete else "density", ylim=(0, None))
    axes.legend(frameon=False, fontsize=8)
    plain(axes)
    return made


def density_band(values: np.ndarray, at: np.ndarray, draws: np.ndarray, name: str, *, discrete: bool) -> Any:
    """Plot the predictive density of one column: mean over draws, 89 % band, and the data.

    Parameters
    ----------
    values : ndarray (N,)
    at : ndarray (G,)
    draws : ndarray (S, G)
        Densities (probabilities if ``discrete``) at the points ``at`` for each draw.
    """
    made, axes = figure(6.0, 3.8)
    low, high = np.quantile(draws, [0.055, 0.945], axis=0)
    if discrete:
        axes.bar(at, [(values == v).mean() for v in at], width=0.8, color="#dcdcdc", label="data")
        axes.vlines(at, low, high, color=ACCENT, alpha=0.5, linewidth=3, label="89 % of draws")
        axes.plot(at, draws.mean(axis=0), "o", color=ACCENT, markersize=4, label="prediction")
    else:
        axes.hist(values, bins=max(24, min(60, len(values) // 4)), density=True, color="#dcdcdc", label="data")
        axes.fill_between(at, low, high, color=ACCENT, alpha=0.25, linewidth=0, label="89 % of draws")
        axes.plot(at, draws.mean(axis=0), color=ACCENT, label="prediction")
        if len(values) <= 1000:
            axes.plot(values, np.zeros(len(values)), "|", color="black", markersize=7, alpha=0.5)
    axes.set(xlabel=name, ylabel="probability" if discrete else "density", ylim=(0, None))
    axes.legend(frameon=False, fontsize=8)
    plain(axes)
    return made


def numbers(drawn: np.ndarray, prior: np.ndarray | None) -> Any:
    """Plot the posterior of the number of clusters as bars, and the prior as points.

    Parameters
    ----------
    drawn : ndarray (S,) of int
    prior : ndarray or None
        Probabilities of 0, 1, 2, ... clusters.
    """
    drawn = positions(drawn, "drawn", np.iinfo(np.int32).max, error=DataError)
    if drawn.ndim != 1 or not len(drawn):
        raise DataError(f"numbers of clusters are one a draw, not of the shape {drawn.shape}", code="wrong-shape")
    made, axes = figure(5.6, 3.4)
    p = np.bincount(drawn) / len(drawn)
    most = len(p) - 1
    if prior is not None:
        most = max(most, int(np.searchsorted(np.cumsum(prior), 0.99)))
    axes.bar(np.arange(len(p)), p, width=0.75, color=ACCENT, label="given the data")
    if prior is not None:
        axes.plot(np.arange(len(prior)), prior, "o", color=OTHER, markersize=4, label="before the data")
        axes.legend(frameon=False, fontsize=8)
    axes.set(xlabel="number of clusters", ylabel="probability", xlim=(0.25, most + 0.75), ylim=(0, None))
    axes.xaxis.get_major_locator().set_params(integer=True)
    plain(axes)
    return made


def responsibilities(probability: np.ndarray, names: Sequence[str]) -> Any:
    """Plot the responsibilities of the components for every row, sorted by component and certainty."""
    probability = real(probability, "probability", ndim=2, error=DataError)
    if len(names) != probability.shape[1]:
        raise DataError(f"there are {probability.shape[1]} components and {len(names)} names", code="wrong-length")
    order = np.lexsort((-probability.max(axis=1), probability.argmax(axis=1)))
    made, axes = figure(6.4, 2.6)
    below = np.zeros(len(probability))
    at = np.arange(len(probability) + 1)
    for k, colour in enumerate(_colours(probability.shape[1])):
        above = below + probability[order, k]
        axes.stairs(above, at, baseline=below, fill=True, color=colour, label=entry(names[k]))
        below = above
    axes.set(xlim=(0, len(probability)), ylim=(0, 1), xlabel="rows, sorted", ylabel="probability")
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    plain(axes)
    return made


def together(matrix: np.ndarray, partition: np.ndarray) -> Any:
    """Plot the co-clustering probabilities of rows, sorted by the point partition; lines separate its clusters."""
    order = np.argsort(partition, kind="stable")
    made, axes = grid(1, 4.8, 4.2)
    shown = axes[0].imshow(matrix[np.ix_(order, order)], vmin=0, vmax=1, cmap="Blues", interpolation="nearest")
    for edge in np.flatnonzero(np.diff(partition[order])) + 0.5:
        axes[0].axhline(edge, color=OTHER, linewidth=0.8)
        axes[0].axvline(edge, color=OTHER, linewidth=0.8)
    axes[0].set(xlabel="rows, sorted by cluster", ylabel="", xticks=[], yticks=[])
    made.colorbar(shown, ax=axes[0], label="probability of sharing a component", shrink=0.85)
    return made


def em_trace(traces: np.ndarray, *, reference: float | None = None, ylabel: str = "log likelihood") -> Any:
    """Plot the log likelihood by iteration for each start of EM, and that of reference (true) parameters.

    Parameters
    ----------
    traces : ndarray (R, I)
        NaN after the end of a run.
    """
    traces = real(traces, "traces", ndim=2, finite=False, error=DataError)
    if np.isnan(traces).all(axis=1).any():
        raise DataError("a trace has one log likelihood at least", code="no-data")
    made, axes = figure(6.0, 3.6)
    best = int(np.nanargmax(np.nanmax(traces, axis=1)))
    for number, trace in enumerate(traces):
        kept = trace[~np.isnan(trace)]
        look = (
            {"color": ACCENT, "zorder": 3, "label": "best search"} if number == best else {"color": MUTED, "alpha": 0.6}
        )
        axes.plot(np.arange(len(kept)), kept, marker="o", markersize=3, **look)
    if reference is not None:
        axes.axhline(reference, color=OTHER, linestyle="--", label="reference")
    axes.set(xlabel="iteration", ylabel=ylabel)
    axes.legend(frameon=False, fontsize=8)
    plain(axes)
    return made
