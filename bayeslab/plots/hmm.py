"""A sequence with the probabilities of its hidden states, and the chain as a diagram."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.errors import ModelError, OptionError
from bayeslab.plots._figure import figure
from bayeslab.results.decode import decode, source_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_states", "plot_transitions", "state_colors"]

# Okabe and Ito's colours, told apart by everyone.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#777777")
# Transitions less likely than this are not drawn.
_LEAST = 0.02


def state_colors(n_states: int) -> list[str]:
    """A colour for each state."""
    return [_COLORS[k % len(_COLORS)] for k in range(n_states)]


def plot_states(
    source: Any, data: Any = None, *, sequence: str | None = None, column: str | None = None, axes: Any = None
) -> Figure:
    """The series coloured by its most likely path, over a ribbon of the states' probabilities.

    Parameters
    ----------
    source, data, sequence
        As for :func:`bayeslab.results.decode.decode`. Of several sequences the first, unless one is named.
    column
        The column to draw; the first if left out.
    axes
        Two matplotlib axes, of the series and of the ribbon.

    Returns
    -------
    matplotlib.figure.Figure
    """
    model, bound, _ = source_of(source, data)
    spec: Any = model.model
    if spec.family != "hmm":
        raise ModelError(f"states over time are drawn for the family hmm, not {spec.family}")
    column = column or spec.columns[0]
    if column not in spec.columns:
        raise OptionError(f"'{column}' is not among the columns {', '.join(spec.columns)}")
    from bayeslab.families._hmm import hidden_of

    hidden = hidden_of(model, bound)
    sequence = sequence if sequence is not None or spec.sequence is None else str(hidden.sequences.names[0])
    smoothed = decode(source, data, "smooth", sequence=sequence)
    path = decode(source, data, "viterbi", sequence=sequence)
    time_name = spec.time or model.data.rows
    times = _numbers(smoothed[time_name].to_numpy())
    first = 0 if sequence is None else _first(hidden, sequence)
    series = hidden.rows[first : first + len(times), [c for p in hidden.parts for c in p.columns].index(column)]
    if axes is None:
        drawing = figure(9, 4.2)[0]
        drawing.clear()
        top, bottom = drawing.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    else:
        top, bottom = axes
        drawing = top.figure
    names = [str(s) for s in hidden.states]
    codes = np.array([names.index(str(s)) for s in path["state"]])
    colors = state_colors(len(names))
    _series(top, times, series, codes, names, colors, column, hidden)
    chances = np.stack([smoothed[f"P(state={s})"].to_numpy() for s in hidden.states])
    _ribbon(bottom, times, chances, colors, time_name)
    title = f"{sequence}: " if sequence is not None else ""
    top.set_title(f"{title}{column}, most likely path and P(state | all rows)", fontsize=10, loc="left")
    return drawing


def _first(hidden: Any, sequence: str) -> int:
    return int(hidden.sequences.offsets[hidden.sequences.names.astype(str).tolist().index(sequence)])


def _numbers(values: np.ndarray) -> np.ndarray:
    return values.astype(float) if values.dtype.kind in "iuf" else np.arange(len(values), dtype=float)


def _series(
    ax: Axes,
    times: np.ndarray,
    series: np.ndarray,
    codes: np.ndarray,
    names: list[str],
    colors: list[str],
    column: str,
    hidden: Any,
) -> None:
    ax.plot(times, series, color="#bbbbbb", lw=0.8, zorder=1)
    for k, name in enumerate(names):
        own = codes == k
        ax.scatter(times[own], series[own], s=12, color=colors[k], label=f"state {name}", zorder=2, lw=0)
    part = next(p for p in hidden.parts if column in p.columns)
    if part.word == "categorical":
        ax.set_yticks(range(len(part.levels)), [str(level) for level in part.levels])
    ax.set_ylabel(column)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)


def _ribbon(ax: Axes, times: np.ndarray, chances: np.ndarray, colors: list[str], label: str) -> None:
    step = float(np.median(np.diff(times))) if len(times) > 1 else 1.0
    edges = np.concatenate([[times[0] - step / 2], times + step / 2])
    floor = np.zeros(len(times))
    for k, own in enumerate(chances):
        ax.stairs(floor + own, edges, baseline=floor, fill=True, color=colors[k], lw=0)
        floor = floor + own
    ax.set_ylim(0, 1)
    ax.set_yticks([0, 1])
    ax.set_ylabel("P(state)")
    ax.set_xlabel(label)
    ax.spines[["top", "right"]].set_visible(False)


def plot_transitions(source: Any, data: Any = None) -> Figure:
    """The chain as a diagram: states on a circle, arrows as wide as transitions are likely.

    Parameters
    ----------
    source, data
        As for :func:`bayeslab.results.decode.decode`; of a fit the posterior means are drawn.
    """
    from bayeslab.families._hmm import hidden_of
    from bayeslab.families._hmm_decode import posterior_mean

    model, bound, draws = source_of(source, data)
    if model.model.family != "hmm":
        raise ModelError(f"transitions are drawn for the family hmm, not {model.model.family}")
    hidden = hidden_of(model, bound)
    if hidden.chain.order != 1:
        raise ModelError("transitions are drawn for chains of order 1")
    own = hidden.chain.complete(posterior_mean(hidden, draws))
    drawing, ax = figure(4.8, 4.6)
    _diagram(ax, own, [str(s) for s in hidden.states])
    return drawing


def _diagram(ax: Axes, own: Mapping[str, np.ndarray], names: list[str]) -> None:
    from matplotlib.patches import Circle, FancyArrowPatch

    k = len(names)
    angle = np.pi / 2 - 2 * np.pi * np.arange(k) / k
    at = np.stack([np.cos(angle), np.sin(angle)], axis=1) if k > 1 else np.zeros((1, 2))
    radius, colors = min(0.28, 1.6 / max(k, 1)), state_colors(k)
    for i in range(k):
        ax.add_patch(Circle((at[i, 0], at[i, 1]), radius, facecolor=colors[i], edgecolor="none", alpha=0.9, zorder=3))
        ax.text(at[i, 0], at[i, 1], names[i], ha="center", va="center", color="white", fontsize=10, zorder=4)
        for j in range(k):
            p = float(own["transition"][i, j])
            if p < _LEAST:
                continue
            if i == j:
                out = at[i] / (np.linalg.norm(at[i]) or 1.0) if k > 1 else np.array([0.0, 1.0])
                middle = at[i] + out * radius * 1.45
                ax.add_patch(
                    Circle((middle[0], middle[1]), radius * 0.72, fill=False, edgecolor=colors[i], lw=0.5 + 4 * p)
                )
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
                where = at[i] + 0.36 * (at[j] - at[i]) + side * radius * 0.85
            ax.text(where[0], where[1], f"{p:.2f}", ha="center", va="center", fontsize=8, color="#333333", zorder=5)
    reach = 1.0 + 3.1 * radius
    ax.set_xlim(-reach, reach)
    ax.set_ylim(-reach, reach)
    ax.set_aspect("equal")
    ax.axis("off")
