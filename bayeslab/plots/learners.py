"""Plots of learners: decision regions, margins, training curves, regularisation paths, confusion tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.arrays import positions, real
from bayeslab.errors import DataError
from bayeslab.plots.figure import ACCENT, MUTED, OTHER, entry, figure, grid, plain

__all__ = ["Axis", "Regions", "confusion", "curves", "margins", "path", "regions", "staged"]

# Okabe and Ito (2008), without black, which is used for lines.
_COLOURS = (ACCENT, "#E69F00", "#009E73", "#CC79A7", "#56B4E9", OTHER, "#F0E442")
_MARKS = ("o", "^", "s", "D", "v", "P", "X", "*", "<", ">")
_DASHES = ("-", "--", "-.", ":")


@dataclass(frozen=True, eq=False)
class Axis:
    """One input of a plot of decision regions.

    Attributes
    ----------
    name : str
    at : ndarray
        Grid at which predictions were made; positions for categories.
    points : ndarray
        Values of the rows.
    levels : tuple of str
        Names of the levels; empty for numbers.
    """

    name: str
    at: np.ndarray
    points: np.ndarray
    levels: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Regions:
    """Predictions over one or two inputs, and the training rows.

    Attributes
    ----------
    axes : tuple of Axis
    predicted : ndarray
        Shape (len(second), len(first), classes); without the last axis for numbers, without the first for one input.
    outcome : ndarray
        Outcomes of the rows: class codes or numbers.
    target : str
    classes : tuple of str
        Class names; empty for numbers.
    marked : ndarray of int
        Rows to mark, such as support vectors.
    street : ndarray or None
        Scores, shaped as ``predicted`` without classes, whose contours at -1, 0 and 1 are drawn.
    note : str
        Note on the values of the other inputs.
    """

    axes: tuple[Axis, ...]
    predicted: np.ndarray
    outcome: np.ndarray
    target: str
    classes: tuple[str, ...]
    marked: np.ndarray
    street: np.ndarray | None
    note: str


def regions(pictures: Mapping[str, Regions], columns: int = 3) -> Any:
    """Plot decision regions of one or several models side by side.

    A region has the colour of its most probable class, paler for smaller probabilities; numbers are shown as shades.
    Points are rows, circles mark support vectors, dashed lines the margin of a support vector machine.
    """
    n = len(pictures)
    if not n:
        raise DataError("there are no pictures to draw", code="no-data")
    for title, one in pictures.items():
        n_rows = len(one.outcome)
        positions(one.marked, f"marked rows of '{title}'", n_rows, error=DataError)
        if one.classes:
            positions(one.outcome, f"outcome of '{title}'", len(one.classes), error=DataError)
        if any(len(axis.points) != n_rows for axis in one.axes):
            raise DataError(
                f"the inputs of '{title}' have as many points as it has outcomes, {n_rows}", code="wrong-length"
            )
    columns = min(columns, n)
    rows = -(-n // columns)
    size = (5.6, 4.6) if n == 1 else (4.0 * columns + 0.6, 3.7 * rows)
    made, axes = grid(n, *size, columns)
    shown = None
    for place, (title, one) in zip(axes, pictures.items(), strict=True):
        if len(one.axes) == 1:
            _line(place, one)
        else:
            shown = _plane(place, one)
        if title:
            place.set_title(title, fontsize=10, loc="left")
        plain(place)
    first = next(iter(pictures.values()))
    if first.note:
        made.supxlabel(first.note, fontsize=8, color="#555555", x=0.01, ha="left")
    if first.classes and len(first.axes) == 2:
        _legend(made, axes, first.target)
    elif shown is not None:
        made.colorbar(shown, ax=axes, label=first.target, shrink=0.85, aspect=30)
    return made


def _legend(made: Any, axes: Sequence[Any], target: str) -> None:
    """Draw one legend for all panels: beside a single panel with few classes, else above."""
    shown = {label: handle for place in axes for handle, label in zip(*place.get_legend_handles_labels(), strict=True)}
    style = {"frameon": False, "fontsize": 8, "title": target, "title_fontsize": 8}
    if len(axes) == 1 and len(shown) <= 6:
        axes[0].legend(shown.values(), shown, loc="upper left", bbox_to_anchor=(1, 1), **style)
    else:
        made.legend(shown.values(), shown, loc="outside upper center", ncols=min(len(shown), 10), **style)


def _colours(n: int) -> np.ndarray:
    from matplotlib.colors import to_rgb

    return np.array([to_rgb(_COLOURS[k % len(_COLOURS)]) for k in range(n)])


def shades(predicted: np.ndarray) -> np.ndarray:
    """Return colours (..., 3) for probabilities (..., classes): the most probable class, white if all are equal."""
    n = predicted.shape[-1]
    best = predicted.max(axis=-1)
    sure = np.clip((best - 1 / n) / (1 - 1 / n), 0, 1)[..., None]
    depth = 0.08 + 0.42 * sure
    return np.asarray(1 - depth * (1 - _colours(n)[predicted.argmax(axis=-1)]))


def _plane(axes: Any, one: Regions) -> Any:
    """Draw predictions over two inputs; return the shaded image of numbers."""
    x, y = one.axes
    shown = None
    if one.classes:
        axes.pcolormesh(x.at, y.at, shades(one.predicted), shading="nearest", rasterized=True)
        _borders(axes, one)
        _classes(axes, one)
    else:
        spread = (float(one.outcome.min()), float(one.outcome.max()))
        style = {"cmap": "cividis", "vmin": spread[0], "vmax": spread[1]}
        shown = axes.pcolormesh(x.at, y.at, one.predicted, shading="nearest", rasterized=True, **style)
        axes.scatter(_spread(x), _spread(y), c=one.outcome, s=16, edgecolors="white", linewidths=0.5, **style)
    if len(one.marked):
        at = one.marked
        axes.plot(
            _spread(x)[at], _spread(y)[at], "o", mfc="none", mec="black", mew=0.8, markersize=9, label="support vector"
        )
    for axis, ticks in ((x, axes.set_xticks), (y, axes.set_yticks)):
        if axis.levels:
            ticks(range(len(axis.levels)), axis.levels)
    axes.set(xlabel=x.name, ylabel=y.name)
    return shown


def _borders(axes: Any, one: Regions) -> None:
    """Draw class boundaries and the margin of a support vector machine; not along categories, where cells show them."""
    x, y = one.axes
    if x.levels or y.levels:
        return
    best = one.predicted.argmax(axis=-1)
    for k in np.unique(best)[:-1] if len(one.classes) == 2 else np.unique(best):
        lead = one.predicted[..., k] - np.delete(one.predicted, k, axis=-1).max(axis=-1)
        if lead.min() < 0 < lead.max():
            axes.contour(x.at, y.at, lead, levels=[0.0], colors="#333333", linewidths=1.0)
    if one.street is not None:
        axes.contour(x.at, y.at, one.street, levels=[-1.0, 1.0], colors="#333333", linewidths=0.9, linestyles="--")
        axes.contour(x.at, y.at, one.street, levels=[0.0], colors="#333333", linewidths=0.9, linestyles=":")
        axes.plot([], [], "--", color="#333333", linewidth=0.9, label="street: score ±1")
        axes.plot([], [], ":", color="#333333", linewidth=0.9, label="score 0")


def _classes(axes: Any, one: Regions) -> None:
    x, y = (_spread(axis) for axis in one.axes)
    size = 26 if len(x) <= 400 else 12
    # Darker than their regions, so that they are visible.
    for k, (word, colour) in enumerate(zip(one.classes, 0.75 * _colours(len(one.classes)), strict=True)):
        members = one.outcome == k
        style = {"marker": _MARKS[k % len(_MARKS)], "color": [colour], "s": size}
        axes.scatter(x[members], y[members], edgecolors="white", linewidths=0.5, label=entry(word), **style)


def _spread(axis: Axis) -> np.ndarray:
    """Return the positions of the rows; positions of categories are spread by fixed offsets."""
    if not axis.levels:
        return axis.points
    jitter = np.random.default_rng(len(axis.name)).uniform(-0.28, 0.28, len(axis.points))
    return np.asarray(axis.points + jitter)


def _line(axes: Any, one: Regions) -> None:
    (x,) = one.axes
    # There are no values between categories.
    style: dict[str, Any] = {"marker": "o", "linestyle": "none"} if x.levels else {}
    if one.classes:
        for k, word in enumerate(one.classes):
            colour = _COLOURS[k % len(_COLOURS)]
            axes.plot(
                x.at, one.predicted[:, k], color=colour, label=entry(word), **({"linestyle": _DASHES[k % 4]} | style)
            )
            points = _spread(x)[one.outcome == k]
            axes.plot(points, np.full(len(points), -0.03 - 0.035 * k), "|", color=colour, markersize=6, alpha=0.7)
        axes.set(xlabel=x.name, ylabel=f"probability of {one.target}", ylim=(-0.03 - 0.035 * len(one.classes), 1.02))
        axes.legend(frameon=False, fontsize=8)
    else:
        axes.plot(_spread(x), one.outcome, ".", color=MUTED, markersize=4, label="rows")
        axes.plot(x.at, one.predicted, color=ACCENT, label="prediction", **style)
        axes.set(xlabel=x.name, ylabel=one.target)
        axes.legend(frameon=False, fontsize=8)
    if x.levels:
        axes.set_xticks(range(len(x.levels)), x.levels)


def margins(parts: Mapping[str, np.ndarray], xlabel: str, street: bool = False) -> Any:
    """Plot the cumulative distributions of margins; negative margins are errors.

    Parameters
    ----------
    parts
        Margins by label, in order.
    street
        Whether to mark the margin of a support vector machine.
    """
    parts = {name: real(values, f"margins of '{name}'", ndim=1, error=DataError) for name, values in parts.items()}
    if not parts:
        raise DataError("there are no margins to draw", code="no-data")
    made, axes = figure(6.0, 3.8)
    axes.axvline(0, color=MUTED, linewidth=0.8)
    if street:
        axes.axvline(1, color=MUTED, linewidth=0.8, linestyle="--")
    from matplotlib import colormaps

    # Rounds are ordered from pale to dark.
    shade = colormaps["Blues"](np.linspace(0.35, 1.0, len(parts))) if len(parts) > 2 else [ACCENT, OTHER]
    for i, (name, values) in enumerate(parts.items()):
        at = np.sort(values)
        look = {"color": shade[i], "linestyle": "-" if i == len(parts) - 1 else _DASHES[1 + i % 3]}
        axes.step(np.r_[at[0], at], np.arange(len(at) + 1) / len(at), where="post", label=entry(name), **look)
    axes.set(xlabel=xlabel, ylabel="share of rows up to it", ylim=(0, 1.02))
    if len(parts) > 1:
        axes.legend(frameon=False, fontsize=8)
    plain(axes)
    return made


def curves(parts: Sequence[tuple[str, Mapping[str, np.ndarray]]], xlabel: str) -> Any:
    """Plot loss or errors by pass: one panel per quantity, one line per unit.

    Parameters
    ----------
    parts
        Name of each quantity, and its values by unit.
    """
    made, every = grid(len(parts), 6.4, 1.0 + 2.6 * len(parts))
    for axes, (name, units) in zip(every, parts, strict=True):
        for i, (unit, values) in enumerate(units.items()):
            known = ~np.isnan(values)
            at = np.flatnonzero(known) + 1
            mark = {"marker": "o", "markersize": 3} if len(at) <= 30 else {}
            axes.plot(
                at,
                values[known],
                _DASHES[i % 4],
                color=_COLOURS[i % len(_COLOURS)],
                label=entry(unit),
                linewidth=1.3,
                **mark,
            )
        every_value = np.concatenate([v[~np.isnan(v)] for v in units.values()])
        if every_value.min() > 0 and every_value.max() > 50 * every_value.min():
            axes.set_yscale("log")
        elif every_value.min() >= 0:
            axes.set_ylim(0, None)
        axes.set(ylabel=name)
        if len(units) > 1:
            axes.legend(frameon=False, fontsize=8)
        axes.xaxis.get_major_locator().set_params(integer=True)
        plain(axes)
    every[-1].set(xlabel=xlabel)
    return made


def staged(training: np.ndarray, left_out: np.ndarray, measure: str) -> Any:
    """Plot the error by round on training rows and held-out rows, with bands of one standard error over folds.

    Parameters
    ----------
    training, left_out : ndarray (folds, rounds)
    """
    made, axes = figure(6.2, 3.8)
    at = np.arange(training.shape[1]) + 1
    lines = (training, "training rows", ACCENT, "--"), (left_out, "held-out rows", OTHER, "-")
    for values, name, colour, line in lines:
        mean = values.mean(axis=0)
        if len(values) > 1:
            error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
            axes.fill_between(at, np.maximum(mean - error, 0), mean + error, color=colour, alpha=0.15, linewidth=0)
        axes.plot(at, mean, line, color=colour, label=name)
    axes.set(xlabel="round", ylabel=measure, ylim=(0, None), xlim=(1, max(len(at), 2)))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False, fontsize=8)
    plain(axes)
    return made


def path(alphas: np.ndarray, coefficients: np.ndarray, names: Sequence[str], chosen: float | None, penalty: str) -> Any:
    """Plot the regularisation path, weights from strong to weak penalty, with names at the ends of the lines."""
    made, axes = figure(6.8, 4.2)
    for j, name in enumerate(names):
        axes.plot(
            alphas,
            coefficients[:, j],
            _DASHES[j // len(_COLOURS) % 4],
            color=_COLOURS[j % len(_COLOURS)],
            linewidth=1.4,
            label=entry(name),
        )
    axes.set_xscale("log")
    axes.invert_xaxis()
    axes.axhline(0, color=MUTED, linewidth=0.6)
    if chosen is not None:
        axes.axvline(chosen, color="black", linewidth=0.9, linestyle=":")
        axes.annotate(
            f"alpha = {chosen:g}",
            (chosen, 1),
            xycoords=("data", "axes fraction"),
            xytext=(4, -3),
            textcoords="offset points",
            fontsize=8,
            va="top",
        )
    axes.set(xlabel=f"alpha of the {penalty}", ylabel="weight of the standardised column")
    if len(names) <= 24:
        axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    plain(axes)
    return made


def confusion(table: np.ndarray, classes: Sequence[str], target: str) -> Any:
    """Plot the confusion table of held-out rows; shades are shares of the true class."""
    n = len(classes)
    if real(table, "a table of confusions", ndim=2, error=DataError).shape != (n, n):
        raise DataError(
            f"a table of confusions of {n} classes is {n} × {n}, not of the shape {np.shape(table)}", code="wrong-shape"
        )
    made, every = grid(1, max(3.6, 0.42 * n + 1.6), max(3.2, 0.42 * n + 1.2))
    axes = every[0]
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for i, j in np.ndindex(table.shape):
        if table[i, j]:
            axes.text(
                j,
                i,
                f"{table[i, j]:,}",
                ha="center",
                va="center",
                fontsize=8,
                color="white" if shares[i, j] > 0.55 else "black",
            )
    turned = {"rotation": 45, "ha": "right"} if max(map(len, classes)) > 5 else {}
    axes.set_xticks(range(n), classes, **turned)
    axes.set_yticks(range(n), classes)
    axes.set(xlabel="predicted for held-out rows", ylabel=target)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return made
