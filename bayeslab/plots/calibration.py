"""Simulation-based calibration: rank histograms, and ECDFs with simultaneous bands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.arrays import count, positions
from bayeslab.errors import DataError
from bayeslab.plots.figure import ACCENT, BAND, MUTED, grid, plain

__all__ = ["rank_ecdfs", "rank_histograms"]


def rank_histograms(ranks: Mapping[str, np.ndarray], n_levels: int) -> Any:
    """Plot a rank histogram for each quantity; the band contains each bar with probability 95 % for uniform ranks."""
    from scipy.stats import binom

    count(n_levels, "n_levels", 1)
    n = _checked(ranks, n_levels)
    n_bins = max(b for b in range(1, 21) if n_levels % b == 0 and (b <= n // 5 or b <= 4))
    low, high = binom.ppf([0.025, 0.975], n, 1 / n_bins)
    edges = np.linspace(0, n_levels, n_bins + 1)
    made, all_axes = _panels(ranks)
    for axes, (name, values) in zip(all_axes, ranks.items(), strict=True):
        axes.axhspan(low, high, color=BAND)
        axes.axhline(n / n_bins, color=MUTED, linewidth=0.8)
        axes.stairs(np.histogram(values + 0.5, edges)[0], edges, fill=True, color=ACCENT, alpha=0.75)
        axes.set(title=name, xlabel="rank of the truth", yticks=[], xlim=(0, n_levels))
        plain(axes)
        axes.spines["left"].set_visible(False)
    return made


def rank_ecdfs(ranks: Mapping[str, np.ndarray], points: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> Any:
    """Plot the ECDF of the ranks minus the uniform ECDF, with a simultaneous band."""
    n = _checked(ranks, len(points) + 1)
    made, all_axes = _panels(ranks)
    for axes, (name, values) in zip(all_axes, ranks.items(), strict=True):
        counts = np.bincount(values, minlength=len(points) + 1).cumsum()[:-1]
        axes.fill_between(points, lower / n - points, upper / n - points, step="mid", color=BAND)
        axes.step(points, counts / n - points, where="mid", color=ACCENT)
        axes.axhline(0, color=MUTED, linewidth=0.8)
        axes.set(title=name, xlabel="rank / number of levels", ylabel="ECDF − uniform", xlim=(0, 1))
        plain(axes)
    return made


def _checked(ranks: Mapping[str, np.ndarray], n_levels: int) -> int:
    """Return the number of ranks of each quantity, after checking that they are from 0 to n_levels - 1."""
    lengths = {
        len(positions(values, f"ranks of '{name}'", n_levels, error=DataError)) for name, values in ranks.items()
    }
    if len(lengths) != 1 or 0 in lengths:
        raise DataError("there are ranks of one quantity at least, and as many of each", code="wrong-length")
    return lengths.pop()


def _panels(ranks: Mapping[str, np.ndarray]) -> tuple[Any, list[Any]]:
    columns = min(3, len(ranks))
    rows = -(-len(ranks) // columns)
    return grid(len(ranks), 3.2 * columns, 2.4 * rows, columns)
