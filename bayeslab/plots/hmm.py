"""Plots of hidden Markov models: series with state probabilities, and transition diagrams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayeslab.plots.figure import COLOURS, entry, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyArrowPatch

__all__ = ["Drawn", "draw_chains", "draw_diagrams", "draw_level", "draw_states", "draw_transitions", "state_colors"]

# Okabe and Ito's colours, distinguishable with colour blindness.
# Transitions with a smaller probability are not drawn, and states with a smaller one at all times have no entry.
_LEAST = 0.02


def state_colors(n_states: int) -> list[str]:
    """Return a colour for each state."""
    return [COLOURS[k % len(COLOURS)] for k in range(n_states)]


def draw_states(
    times: np.ndarray,
    series: np.ndarray,
    codes: np.ndarray,
    chances: np.ndarray,
    names: list[str],
    labels: tuple[str, str, str],
    levels: list[str],
) -> Figure:
    """Plot the series coloured by its most likely path, above a ribbon of the state probabilities.

    Parameters
    ----------
    times, series : ndarray (n_times,)
    codes : ndarray (n_times,)
        The most likely path.
    chances : ndarray (n_states, n_times)
    names : list of str
        Names of the states.
    labels : tuple of str
        Labels of the series and of the times, and a title.
    levels : list of str
        Names of the levels of a categorical series.
    """
    drawing = figure(9, 4.2)[0]
    drawing.clear()
    top, bottom = drawing.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    colors = state_colors(len(names))
    _series(top, times, series, codes, _visible(names, codes, chances), colors, labels[0], levels)
    _ribbon(bottom, times, chances, colors, labels[1])
    top.set_title(labels[2], fontsize=10, loc="left")
    return drawing


@dataclass(frozen=True, eq=False)
class Drawn:
    """One of several chains to plot over time.

    Attributes
    ----------
    name : str
    codes : ndarray (n_times,)
        Most likely path of the chain.
    chances : ndarray (n_states, n_times)
    states : list of str
    """

    name: str
    codes: np.ndarray
    chances: np.ndarray
    states: list[str]


def draw_chains(
    times: np.ndarray, series: np.ndarray, chains: Sequence[Drawn], labels: tuple[str, str, str], levels: list[str]
) -> Figure:
    """Plot, for each of several chains, the series coloured by its path above a ribbon of state probabilities."""
    drawing = figure(9, 3.4 * len(chains))[0]
    drawing.clear()
    axes = drawing.subplots(2 * len(chains), 1, sharex=True, height_ratios=(3, 1) * len(chains))
    for c, chain in enumerate(chains):
        top, bottom, colors = axes[2 * c], axes[2 * c + 1], state_colors(len(chain.states))
        shown = _visible(chain.states, chain.codes, chain.chances)
        _series(top, times, series, chain.codes, shown, colors, labels[0], levels)
        _ribbon(bottom, times, chain.chances, colors, labels[1] if c == len(chains) - 1 else "")
        top.set_title(f"{labels[2]}: {chain.name}", fontsize=10, loc="left")
    return drawing


def draw_level(
    times: np.ndarray, series: np.ndarray, level: np.ndarray, sd: np.ndarray, labels: tuple[str, str, str]
) -> Figure:
    """Plot a series and its latent level with an 89 % band."""
    drawing, ax = figure(9, 3.6)
    ax.plot(times, series, ".", color="#888888", ms=4, label=entry(labels[0]))
    ax.fill_between(times, level - 1.598 * sd, level + 1.598 * sd, color=COLOURS[0], alpha=0.25, lw=0, label="89 %")
    ax.plot(times, level, color=COLOURS[0], lw=1.5, label="level")
    ax.set_xlabel(labels[1])
    ax.set_ylabel(labels[0])
    ax.set_title(labels[2], fontsize=10, loc="left")
    ax.legend(frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    return drawing


def _visible(names: list[str], codes: np.ndarray, chances: np.ndarray) -> dict[int, str]:
    """The states that the picture shows, by number: those on the path, and those with a visible probability."""
    return {k: name for k, name in enumerate(names) if np.any(codes == k) or np.max(chances[k]) >= _LEAST}


def _series(
    ax: Axes,
    times: np.ndarray,
    series: np.ndarray,
    codes: np.ndarray,
    states: Mapping[int, str],
    colors: list[str],
    column: str,
    levels: list[str],
) -> None:
    ax.plot(times, series, color="#bbbbbb", lw=0.8, zorder=1)
    for k, name in states.items():
        members = codes == k
        ax.scatter(times[members], series[members], s=12, color=colors[k], label=f"state {name}", zorder=2, lw=0)
    if levels:
        ax.set_yticks(range(len(levels)), levels)
    ax.set_ylabel(column)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)


def _ribbon(ax: Axes, times: np.ndarray, chances: np.ndarray, colors: list[str], label: str) -> None:
    step = float(np.median(np.diff(times))) if len(times) > 1 else 1.0
    edges = np.concatenate([[times[0] - step / 2], times + step / 2])
    floor = np.zeros(len(times))
    for k, share in enumerate(chances):
        ax.stairs(floor + share, edges, baseline=floor, fill=True, color=colors[k], lw=0)
        floor = floor + share
    ax.set_ylim(0, 1)
    ax.set_yticks([0, 1])
    ax.set_ylabel("P(state)")
    ax.set_xlabel(label)
    ax.spines[["top", "right"]].set_visible(False)


def draw_transitions(matrix: np.ndarray, names: list[str]) -> Figure:
    """Plot states on a circle, with arrows that are wider for more probable transitions (n_states, n_states)."""
    drawing, ax = figure(4.8, 4.6)
    _diagram(ax, matrix, names)
    return drawing


def draw_diagrams(matrices: Mapping[str, tuple[np.ndarray, list[str]]]) -> Figure:
    """Plot a diagram for each of several chains, given transition matrices and state names."""
    drawing = figure(4.8 * len(matrices), 4.6)[0]
    drawing.clear()
    axes = np.atleast_1d(drawing.subplots(1, len(matrices)))
    for ax, (name, (matrix, states)) in zip(axes, matrices.items(), strict=True):
        _diagram(ax, matrix, states)
        ax.set_title(name, fontsize=10)
    return drawing


def _loop(at: np.ndarray, out: np.ndarray, radius: float, color: str, p: float) -> FancyArrowPatch:
    """Return a self-loop on the side that ``out`` points to; it begins and ends on the circle of the state."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    def turned(angle: float, length: float) -> np.ndarray:
        c, s = np.cos(angle), np.sin(angle)
        return at + length * np.array([c * out[0] - s * out[1], s * out[0] + c * out[1]])

    rim, far = 1.08 * radius, 2.9 * radius
    corners = [turned(0.75, rim), turned(0.72, far), turned(-0.72, far), turned(-0.75, rim)]
    way = Path(corners, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
    return FancyArrowPatch(path=way, arrowstyle="-|>", mutation_scale=10 + 6 * p, color=color, lw=0.5 + 4 * p)


def _diagram(ax: Axes, matrix: np.ndarray, names: list[str]) -> None:
    from matplotlib.patches import Circle, FancyArrowPatch

    k = len(names)
    angle = np.pi / 2 - 2 * np.pi * np.arange(k) / k
    at = np.stack([np.cos(angle), np.sin(angle)], axis=1) if k > 1 else np.zeros((1, 2))
    radius, colors = min(0.28, 1.6 / max(k, 1)), state_colors(k)
    for i in range(k):
        ax.add_patch(Circle((at[i, 0], at[i, 1]), radius, facecolor=colors[i], edgecolor="none", alpha=0.9, zorder=3))
        ax.text(at[i, 0], at[i, 1], names[i], ha="center", va="center", color="white", fontsize=10, zorder=4)
        for j in range(k):
            p = float(matrix[i, j])
            if p < _LEAST:
                continue
            if i == j:
                out = at[i] / (np.linalg.norm(at[i]) or 1.0) if k > 1 else np.array([0.0, 1.0])
                ax.add_patch(_loop(at[i], out, radius, colors[i], p))
                where = at[i] + out * radius * 2.65
            else:
                way = at[j] - at[i]
                way = way / np.linalg.norm(way)
                side = np.array([-way[1], way[0]])
                arrow = FancyArrowPatch(
                    at[i] + way * radius * 1.08 + side * radius * 0.3,
                    at[j] - way * radius * 1.08 + side * radius * 0.3,
                    connectionstyle="arc3,rad=-0.12", arrowstyle="-|>", mutation_scale=10 + 6 * p,
                    color=colors[i], lw=0.5 + 4 * p, shrinkA=0, shrinkB=0,
                )  # fmt: skip
                ax.add_patch(arrow)
                where = at[i] + 0.36 * (at[j] - at[i]) + side * (0.55 * radius + 0.17)
            ax.text(where[0], where[1], f"{p:.2f}", ha="center", va="center", fontsize=8, color="#333333", zorder=5)
    reach = 1.0 + 3.1 * radius
    ax.set_xlim(-reach, reach)
    ax.set_ylim(-reach, reach)
    ax.set_aspect("equal")
    ax.axis("off")
