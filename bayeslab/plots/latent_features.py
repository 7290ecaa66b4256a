"""Plots of latent features: loadings as bars or images, features by row, and the number of features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayeslab.arrays import positions, real
from bayeslab.errors import DataError
from bayeslab.plots.figure import ACCENT, MUTED, OTHER, figure, grid, plain

__all__ = ["images", "loadings", "number", "rows"]


def loadings(values: np.ndarray, sds: np.ndarray, columns: Sequence[str], label: str = "loading") -> Any:
    """Plot the loadings of each feature as bars, with error bars of two standard deviations.

    Parameters
    ----------
    values, sds : ndarray (D, K)
    """
    d, k = values.shape
    made, axes = grid(k, 1.4 + 1.7 * min(k, 4), (0.9 + 0.26 * d) * -(-k // 4), columns=min(k, 4))
    at = np.arange(d)[::-1]
    reach = 1.05 * float(np.max(np.abs(values) + 2 * sds, initial=1e-12))
    for j, one in enumerate(axes):
        colours = [ACCENT if v >= 0 else OTHER for v in values[:, j]]
        one.barh(at, values[:, j], color=colours, height=0.7)
        one.errorbar(values[:, j], at, xerr=2 * sds[:, j], fmt="none", ecolor="black", elinewidth=0.8)
        one.axvline(0, color=MUTED, linewidth=0.8)
        one.set(xlim=(-reach, reach), title=f"feature {j + 1}", yticks=at, xlabel=label)
        one.set_yticklabels(columns if j % min(k, 4) == 0 else [""] * d, fontsize=8)
        plain(one)
    return made


def images(values: np.ndarray, present: np.ndarray | None = None) -> Any:
    """Plot loadings as grey images on a common scale symmetric about zero.

    Parameters
    ----------
    values : ndarray (K, height, width)
    present : ndarray (K,), optional
        Share of the draws in which the feature is present.
    """
    k = len(values)
    if present is not None and real(present, "present", empty=True, error=DataError).shape != (k,):
        raise DataError(
            f"present has one share for each of {k} features, not the shape {np.shape(present)}", code="wrong-length"
        )
    across = min(k, 6)
    made, axes = grid(max(k, 1), 1.5 * max(across, 1) + 0.9, 1.8 * -(-max(k, 1) // 6), columns=max(across, 1))
    reach = float(np.max(np.abs(values), initial=1e-12))
    shown = None
    for j in range(k):
        shown = axes[j].imshow(values[j], cmap="RdBu_r", vmin=-reach, vmax=reach, interpolation="nearest")
        often = "" if present is None else f"\n{100 * present[j]:.0f} % of draws"
        axes[j].set_title(f"feature {j + 1}{often}", fontsize=8)
        axes[j].set(xticks=[], yticks=[])
    if shown is None:
        axes[0].set_axis_off()
    else:
        made.colorbar(shown, ax=axes[:k], shrink=0.8, label="loading")
    return made


def rows(values: np.ndarray, *, binary: bool) -> Any:
    """Plot the features of each row: probabilities of binary features, scores of others.

    Rows with binary features are sorted by the first feature, then the second, and so on.

    Parameters
    ----------
    values : ndarray (N, K)
    """
    n, k = values.shape
    made, axes = grid(1, 1.6 + 0.45 * max(k, 1), 4.6)
    order = np.lexsort(-np.round(values[:, ::-1].T)) if binary and k else np.arange(n)
    reach = 1.0 if binary else float(np.max(np.abs(values), initial=1e-12))
    how = {"cmap": "Greys", "vmin": 0.0} if binary else {"cmap": "RdBu_r", "vmin": -reach}
    shown = axes[0].imshow(values[order], aspect="auto", interpolation="nearest", vmax=reach, **how)
    axes[0].set(xlabel="feature", ylabel="rows, sorted" if binary else "rows", xticks=np.arange(k), yticks=[])
    axes[0].set_xticklabels([str(j + 1) for j in range(k)])
    made.colorbar(shown, ax=axes[0], label="probability" if binary else "score", shrink=0.8)
    return made


def number(values: np.ndarray) -> Any:
    """Plot the posterior of the number of features present in at least one row."""
    made, axes = figure(4.6, 3.0)
    values = positions(values, "numbers of features", np.iinfo(np.int32).max, error=DataError)
    if values.ndim != 1 or not len(values):
        raise DataError(f"numbers of features are one a draw, not of the shape {values.shape}", code="wrong-shape")
    counts = np.bincount(values)
    at = np.flatnonzero(counts)
    axes.bar(at, counts[at] / counts.sum(), color=ACCENT, width=0.8)
    axes.set(xlabel="number of features", ylabel="probability", xticks=at)
    plain(axes)
    return made
