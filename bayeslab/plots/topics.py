"""Plots of topics: words, shares, proportions in documents, and distances between topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.plots.figure import ACCENT, COLOURS, MUTED, figure, grid, plain

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["days", "proportions", "shares", "topic_map", "words"]

# Largest number of documents whose names are legible along an axis.
_READABLE = 60


def words(each: Sequence[pd.DataFrame]) -> Any:
    """Plot the words of each topic: bars of probabilities, with error bars of two standard deviations.

    Parameters
    ----------
    each
        Tables with ``word``, ``probability`` and ``sd``.
    """
    columns = min(4, len(each))
    rows = -(-len(each) // columns)
    n = max(len(table) for table in each)
    made, axes = grid(len(each), 2.6 * columns, (0.5 + 0.21 * n) * rows + 0.2, columns)
    for k, (table, one) in enumerate(zip(each, axes, strict=True), 1):
        place = np.arange(len(table))
        p, sd = table["probability"].to_numpy(), table["sd"].to_numpy()
        one.barh(place, p, color=ACCENT, alpha=0.75, height=0.7)
        one.hlines(place, np.maximum(p - 2 * sd, 0), p + 2 * sd, color="black", linewidth=0.8)
        one.set_yticks(place, table["word"], fontsize=8)
        one.invert_yaxis()
        one.tick_params(axis="x", labelsize=7)
        one.locator_params(axis="x", nbins=4)
        one.set_title(f"topic {k}", fontsize=9, loc="left")
        plain(one)
    made.supxlabel("probability of the word (lines: two posterior sd)", fontsize=8)
    return made


def shares(table: pd.DataFrame) -> Any:
    """Plot the share of each topic among all words, with its credible interval."""
    made, axes = figure(5.6, 0.6 + 0.28 * len(table))
    place, share = np.arange(len(table)), table["share"].to_numpy()
    axes.barh(place, share, color=ACCENT, alpha=0.75, height=0.7)
    ends = [name for name in table if str(name).startswith("eti")]
    if ends:
        axes.hlines(place, table[ends[0]], table[ends[1]], color="black", linewidth=1)
    axes.set_yticks(place, [f"{k}" for k in table.index], fontsize=8)
    room = float(table[ends[1]].max() if ends else share.max())
    texts = table[next(name for name in table if str(name).startswith("words"))]
    for at, text in zip(place, texts, strict=True):
        axes.text(1.03 * room, at, " ".join(text.split()[:5]), va="center", fontsize=8, color="#444444")
    axes.set(xlim=(0, 1.9 * room), ylabel="topic", xlabel="share of all words")
    axes.set_xticks([x for x in axes.get_xticks() if 0 <= x <= room])
    axes.invert_yaxis()
    plain(axes)
    return made


def proportions(theta: np.ndarray, names: Sequence[str]) -> Any:
    """Plot the topic proportions of documents as a heat map, with documents ordered by their main topic."""
    main = theta.argmax(axis=1)
    order = np.lexsort((-theta.max(axis=1), main))
    readable = len(names) <= _READABLE
    made, axes = figure(2.2 + 0.32 * theta.shape[1], min(9.0, 1.0 + 0.16 * len(names)) if readable else 6.0)
    image = axes.imshow(theta[order], aspect="auto", cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    axes.set_xticks(np.arange(theta.shape[1]), [str(k + 1) for k in range(theta.shape[1])], fontsize=8)
    if readable:
        axes.set_yticks(np.arange(len(names)), [names[i] for i in order], fontsize=6)
    else:
        axes.set_yticks([])
    axes.set(xlabel="topic", ylabel="document")
    made.colorbar(image, ax=axes, shrink=0.6).set_label("proportion", fontsize=8)
    return made


def topic_map(points: np.ndarray, share: np.ndarray, names: Sequence[str]) -> Any:
    """Plot topics in the plane, similar topics near each other; areas are shares of all words."""
    made, axes = figure(6.0, 5.0)
    axes.axhline(0, color=MUTED, linewidth=0.5)
    axes.axvline(0, color=MUTED, linewidth=0.5)
    axes.scatter(*points.T, s=6_000 * share, color=ACCENT, alpha=0.35, linewidths=0)
    # Words alternate below and above circles, so that those of near topics do not overlap.
    for rank, k in enumerate(np.argsort(points[:, 0])):
        down = -1 if rank % 2 else 1
        away = down * (np.sqrt(6_000 * share[k]) / 2 + 7)
        axes.annotate(f"{k + 1}", points[k], ha="center", va="center", fontsize=9)
        axes.annotate(
            names[k], points[k], xytext=(0, away), textcoords="offset points", ha="center", va="center", fontsize=8
        )  # fmt: skip
    axes.set(xlabel="first axis of Jensen–Shannon distances", ylabel="second axis", xticks=[], yticks=[])
    axes.margins(0.25)
    plain(axes)
    return made


def days(table: pd.DataFrame) -> Any:
    """Plot shares of topics by day, with bands of two standard deviations.

    Parameters
    ----------
    table
        ``day``, ``topic``, ``share`` and ``sd``.
    """
    made, axes = figure(6.6, 3.8)
    for k, (topic, rows) in enumerate(table.groupby("topic")):
        colour = COLOURS[k % len(COLOURS)]
        share, sd = rows["share"].to_numpy(), rows["sd"].to_numpy()
        low, high = np.maximum(share - 2 * sd, 0), share + 2 * sd
        axes.fill_between(rows["day"], low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(rows["day"], share, color=colour, label=f"{topic}")
    axes.set(xlabel="day", ylabel="share of the topic", ylim=(0, None))
    axes.legend(title="topic", frameon=False, fontsize=8, ncols=2)
    plain(axes)
    return made
