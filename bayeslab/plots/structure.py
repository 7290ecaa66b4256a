"""Plots of sampled structures: edge probabilities as a map and as a graph, and agreement between chains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np

from bayeslab.plots.figure import ACCENT, BAND, COLOURS, MUTED, OTHER, figure, grid, plain
from bayeslab.plots.network_svg import _place, _routes
from bayeslab.plots.svg import Box, Waypoint, text_width
from bayeslab.structure.partial_graph import PartialGraph

__all__ = ["chain_agreement", "consensus", "edge_map", "edge_r_hat", "pattern", "score_traces"]

# Largest sizes of maps and graphs that show numbers in cells and beside arrows.
_CELLS, _ARROWS = 14, 60
# Largest number of points of a trace: more than a line has pixels.
_POINTS = 2000
_INCH = 96.0
_TEXT = 12.0


def edge_map(probability: np.ndarray, names: Sequence[str]) -> Any:
    """Plot the probability of each edge, from the variable of the row to that of the column.

    Parameters
    ----------
    probability : ndarray (n, n)
    """
    n = len(names)
    size = float(np.clip(0.42 * n, 3.0, 5.0 + 0.12 * n))
    made, (axes,) = grid(1, size + 1.8, size + 0.8)
    shown = np.where(np.eye(n, dtype=bool), np.nan, probability)
    image = axes.imshow(shown, vmin=0, vmax=1, cmap="Blues", interpolation="nearest")
    axes.set_facecolor("#eeeeee")
    small = {"fontsize": 9 if n <= 30 else 6}
    axes.set_xticks(range(n), names, rotation=90 if n > 5 else 0, **small)
    axes.set_yticks(range(n), names, **small)
    axes.set(xlabel="to", ylabel="from")
    axes.tick_params(length=0)
    for u, v in np.argwhere(probability >= 0.005).tolist() if n <= _CELLS else ():
        if u != v:
            p = probability[u, v]
            colour = "white" if p > 0.6 else "black"
            text = "1" if p > 0.995 else f"{p:.2f}".lstrip("0")
            axes.text(v, u, text, ha="center", va="center", fontsize=8, color=colour)
    made.colorbar(image, ax=axes, label="probability of the edge", shrink=0.85)
    return made


def consensus(graph: nx.DiGraph) -> Any:
    """Plot the likely edges; more probable edges are wider, and edges of open direction are dashed.

    Parameters
    ----------
    graph : networkx.DiGraph
        Edges with ``probability``; ``graph.graph["undirected"]`` lists (a, b, probability).
    """
    either = {(a, b): p for a, b, p in graph.graph.get("undirected", ())}
    drawn = nx.DiGraph(dims={})
    drawn.add_nodes_from(graph)
    drawn.add_edges_from(graph.edges)
    turned = {}
    for pair in either:
        # Undirected edges are oriented so that the drawing has no cycle.
        line = pair if not nx.has_path(drawn, pair[1], pair[0]) else pair[::-1]
        drawn.add_edge(*line)
        turned[line] = either[pair]
    sizes = {str(v): (text_width(str(v), _TEXT) + 22.0, 28.0) for v in drawn}
    plan = _place(drawn, sizes)
    made, axes = figure(max(3.0, plan.width / _INCH), max(2.0, plan.height / _INCH))
    axes.set_axis_off()
    axes.set(xlim=(0, plan.width), ylim=(plan.height, 0), aspect="equal")
    numbers: list[tuple[float, float]] = []
    for edge, way in _routes(plan).items():
        known = edge in graph.edges
        p = graph.edges[edge]["probability"] if known else turned[edge]
        curves = list(_within(way, plan.nodes[edge[0]].bottom, plan.nodes[edge[1]].top - (2.0 if known else 0.0)))
        _arrow(axes, curves, p, head=known)
        if len(plan.routes) <= _ARROWS:
            _number(axes, curves, p, numbers)
    for name, box in plan.nodes.items():
        _node(axes, name, box)
    return made


def pattern(graph: PartialGraph) -> Any:
    """Plot a class of graphs: arrows if all members agree, lines if they differ, circles for open marks."""
    drawn = nx.DiGraph(dims={})
    drawn.add_nodes_from(graph.names)
    drawn.add_edges_from(sorted(graph.directed))
    for u, v in graph.skeleton.edges:
        if not drawn.has_edge(u, v) and not drawn.has_edge(v, u):
            # Edges without a direction are oriented so that the drawing has no cycle.
            drawn.add_edge(*((v, u) if nx.has_path(drawn, v, u) else (u, v)))
    sizes = {v: (text_width(v, _TEXT) + 22.0, 28.0) for v in drawn}
    plan = _place(drawn, sizes)
    made, axes = figure(max(3.0, plan.width / _INCH), max(2.0, plan.height / _INCH))
    axes.set_axis_off()
    axes.set(xlim=(0, plan.width), ylim=(plan.height, 0), aspect="equal")
    for (u, v), way in _routes(plan).items():
        ends = graph.mark(v, u), graph.mark(u, v)
        curves = list(_within(way, plan.nodes[u].bottom + 2.0, plan.nodes[v].top - 2.0))
        _marked(axes, curves, ends)
    for name, box in plan.nodes.items():
        _node(axes, name, box)
    return made


def _marked(axes: Any, curves: Sequence[np.ndarray], ends: tuple[str, str]) -> None:
    """Draw a line with a mark at either end: ``tail``, ``arrow`` or ``circle``."""
    from matplotlib.patches import Circle, FancyArrowPatch
    from matplotlib.path import Path

    points = np.concatenate([curves[0][:1], *(c[1:] for c in curves)])
    path = Path(points, [Path.MOVETO, *[Path.CURVE4] * (len(points) - 1)])
    heads = ("<|" if ends[0] == "arrow" else "", "|>" if ends[1] == "arrow" else "")
    colour = ACCENT if "arrow" in ends else MUTED
    axes.add_patch(
        FancyArrowPatch(path=path, arrowstyle="-".join(heads), mutation_scale=12, linewidth=1.4, color=colour, zorder=1)
    )
    for mark, place in zip(ends, (points[0], points[-1]), strict=True):
        if mark == "circle":
            axes.add_patch(Circle(place, 4.0, facecolor="white", edgecolor=colour, linewidth=1.2, zorder=2))


def _node(axes: Any, name: str, box: Box) -> None:
    from matplotlib.patches import FancyBboxPatch

    style = "round,pad=0,rounding_size=9"
    corner = (box.left, box.top)
    axes.add_patch(
        FancyBboxPatch(corner, box.width, box.height, boxstyle=style, facecolor="white", edgecolor="#444444", zorder=3)
    )
    axes.text(box.left + box.width / 2, box.top + box.height / 2, name, ha="center", va="center", fontsize=9, zorder=4)


def _arrow(axes: Any, curves: Sequence[np.ndarray], p: float, *, head: bool) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    points = np.concatenate([curves[0][:1], *(c[1:] for c in curves)])
    path = Path(points, [Path.MOVETO, *[Path.CURVE4] * (len(points) - 1)])
    axes.add_patch(
        FancyArrowPatch(
            path=path, arrowstyle="-|>" if head else "-", mutation_scale=8 + 6 * p, linewidth=0.5 + 3.5 * p,
            linestyle="-" if head else (0, (3, 2)), color=ACCENT if head else MUTED, alpha=0.35 + 0.6 * p,
            joinstyle="miter", zorder=1,
        )
    )  # fmt: skip


def _number(axes: Any, curves: Sequence[np.ndarray], p: float, taken: list[tuple[float, float]]) -> None:
    """Write the probability beside the line, away from other numbers."""

    def room(place: tuple[float, float]) -> float:
        return min((np.hypot(place[0] - x, 1.5 * (place[1] - y)) for x, y in taken), default=np.inf)

    places = [_point(curves, share) for share in (0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74)]
    chosen = next((place for place in places if room(place) > 24), max(places, key=room))
    taken.append(chosen)
    words = "1" if p > 0.995 else f"{p:.2f}".lstrip("0")
    back = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
    axes.text(*chosen, words, fontsize=7, ha="center", va="center", color="#333333", bbox=back, zorder=2)


def _within(way: Sequence[Waypoint], top: float, bottom: float) -> Iterator[np.ndarray]:
    """Yield the cubic curves of a route between two heights, four control points each."""
    for (x0, y0, s0), (x1, y1, s1) in pairwise(way):
        low, high = max(y0, top), min(y1, bottom)
        if high - low < 1e-9:
            continue
        h = y1 - y0
        whole = np.array([(x0, y0), (x0 + s0 * h / 3, y0 + h / 3), (x1 - s1 * h / 3, y1 - h / 3), (x1, y1)])
        yield part(whole, (low - y0) / h, (high - y0) / h)


def part(curve: np.ndarray, begin: float, end: float) -> np.ndarray:
    """Return the part of a cubic curve between two parameters (de Casteljau, by polar forms)."""

    def blossom(a: float, b: float, c: float) -> np.ndarray:
        points = curve
        for t in (a, b, c):
            points = points[:-1] * (1 - t) + points[1:] * t
        return np.asarray(points[0])

    ends = [(begin, begin, begin), (begin, begin, end), (begin, end, end), (end, end, end)]
    return np.stack([blossom(*t) for t in ends])


def _point(curves: Sequence[np.ndarray], share: float) -> tuple[float, float]:
    """Return the point at a given share of the height of a line."""
    lengths = np.array([c[3, 1] - c[0, 1] for c in curves])
    wanted = lengths.sum() * share
    k = int(np.searchsorted(np.cumsum(lengths), wanted))
    t = (wanted - lengths[:k].sum()) / lengths[k]
    x, y = part(curves[k], t, t)[0]
    return float(x), float(y)


def score_traces(scores: np.ndarray, chains: Sequence[str]) -> Any:
    """Plot the scores of the draws of each chain, with their distributions at the side.

    Parameters
    ----------
    scores : ndarray (chain, draw)
    """
    made = figure(8.0, 3.4)[0]
    made.clear()
    left, right = made.subplots(1, 2, sharey=True, width_ratios=(5, 1))
    every = max(1, scores.shape[1] // _POINTS)
    at = np.arange(0, scores.shape[1], every)
    bins = np.linspace(scores.min(), max(scores.max(), scores.min() + 1e-9), 40)
    for k, (trace, name) in enumerate(zip(scores, chains, strict=True)):
        colour = COLOURS[k % len(COLOURS)]
        left.plot(at, trace[at], color=colour, linewidth=0.7, alpha=0.8, label=f"chain {name}")
        share, _ = np.histogram(trace, bins, density=True)
        right.stairs(share, bins, orientation="horizontal", color=colour, linewidth=1.2)
    left.set(xlabel="draw", ylabel="score")
    right.set(xlabel="density", xticks=[])
    if len(chains) <= 8:
        left.legend(frameon=False, fontsize=8, ncols=4, loc="lower right")
    plain(left)
    plain(right)
    return made


def edge_r_hat(values: np.ndarray, n_constant: int) -> Any:
    """Plot a histogram of the R-hat of edges, with lines at the thresholds.

    Parameters
    ----------
    values : ndarray
        R-hat of the edges that vary; infinite values are in the last bar.
    n_constant : int
        Number of edges that never vary and have no R-hat.
    """
    made, axes = figure(6.0, 3.4)
    finite = values[np.isfinite(values)]
    top = max(1.06, float(finite.max(initial=1.0)) * 1.005)
    axes.hist(np.minimum(np.where(np.isfinite(values), values, top), top), np.linspace(0.995, top, 41), color=ACCENT)
    for at, word in ((1.01, "1.01"), (1.05, "1.05")):
        axes.axvline(at, color=OTHER, linestyle="--", linewidth=1)
        axes.text(at, 1.0, f" {word}", transform=axes.get_xaxis_transform(), va="top", fontsize=8, color=OTHER)
    beyond = int(np.sum(~np.isfinite(values)))
    title = f"{len(values):,} edges; {n_constant:,} never vary"
    axes.set_title(title + (f"; {beyond:,} infinite" if beyond else ""), fontsize=9, loc="left")
    axes.set(xlabel="R-hat of the edge", ylabel="edges")
    plain(axes)
    return made


def chain_agreement(by_chain: np.ndarray, mcse: np.ndarray, chains: Sequence[str]) -> Any:
    """Plot the probability of each edge in each chain against that in all other chains.

    Parameters
    ----------
    by_chain : ndarray (chain, n, n)
    mcse : ndarray (n, n)
        Monte Carlo standard errors over all chains, drawn as bars of two standard errors.
    """
    n_chains, n, _ = by_chain.shape
    made, axes = figure(4.8, 4.6)
    off = ~np.eye(n, dtype=bool)
    axes.fill_between([0, 1], [-0.05, 0.95], [0.05, 1.05], color=BAND, linewidth=0, label="± 0.05")
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8)
    # Standard error of a single chain, since all chains have equally many draws.
    error = 2 * np.nan_to_num(mcse[off]) * np.sqrt(n_chains)
    for k, name in enumerate(chains):
        probabilities = by_chain[k][off]
        others = np.delete(by_chain, k, axis=0).mean(axis=0)[off] if n_chains > 1 else probabilities
        colour = COLOURS[k % len(COLOURS)]
        axes.errorbar(
            others, probabilities, yerr=error, fmt="o", markersize=3.5, linewidth=0.6, alpha=0.7, color=colour,
            label=f"chain {name}", markeredgewidth=0,
        )  # fmt: skip
    axes.set(xlabel="probability in the other chains", ylabel="probability in the chain", aspect="equal")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    if n_chains <= 8:
        axes.legend(frameon=False, fontsize=8, loc="upper left")
    plain(axes)
    return made
