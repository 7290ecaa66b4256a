"""A network with the marginal distribution of each variable, as one SVG string.

Every variable is a box with a row for each state: its name, its probability and a bar. Observed
variables are shaded and marked; continuous variables show their density. Large networks are reduced to
names over a strip of probabilities, and very large networks to a summary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor, inf, isfinite, log10
from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol

import networkx as nx
import numpy as np

from bayeslab.decisions.influence import under_policy
from bayeslab.latents.networks.junction_tree import JunctionTree
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.plots.placement import Layout, folded_rows, layout, node_rows
from bayeslab.plots.svg import (
    ARROW,
    INK,
    PAPER,
    SOFT,
    Box,
    Waypoint,
    arrow,
    curve,
    fmt,
    rectangle,
    shorten,
    tag,
    text_width,
    xml,
)

if TYPE_CHECKING:
    from bayeslab.decisions.influence import InfluenceDiagram, Policy

__all__ = ["influence_svg", "network_svg", "percent"]

# With more variables only names are drawn, and with still more no picture.
MOST_BOXES, MOST_NODES = 60, 400
MOST_STATES, MOST_DETAILED = 8, 30

# Lengths are CSS pixels.
PAD, HEAD, ROW, FOOT = 9.0, 23.0, 15.0, 6.0
BAR, BAR_HEIGHT, NUMBER, COLUMN_GAP, CURVE = 58.0, 8.0, 38.0, 7.0, 38.0
STRIP = 3.5
NAME_SIZE, STATE_SIZE, TAG_SIZE = 12.0, 10.5, 9.0
LONGEST_NAME, LONGEST_STATE, LONGEST_LINE = 26, 15, 110  # characters; tooltips have the whole
PORT_GAP, STEEPEST = 16.0, 1.2
PAGE, SMALLEST = 1100.0, 0.55  # page width; smallest scale, below which the page scrolls

EDGE, FRAME, TRACK, FILL, BARS, STRONG = "#7b8696", "#aeb7c4", "#eceff4", "#e2e7ee", "#6c8ebf", "#3d4757"
UNSURE, UNSURE_FILL, CHOICE, CHOICE_FILL, WORTH_FILL = "#b7791f", "#fdf7ea", "#3f7d5f", "#eef6f1", "#f6f0f8"
WORTH, REST = "#7d5a94", "#b9c6da"
STRIPS = ("#4f74ab", "#8eabd3", "#c3d2e8", "#dfe7f3")

type Likelihood = Mapping[str, float]


class Density(Protocol):
    """The distribution of a continuous variable."""

    @property
    def mean(self) -> float: ...
    @property
    def sd(self) -> float: ...
    def density(self, x: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class _Row:
    """One line of a box; without a probability it is only text."""

    label: str
    probability: float | None = None
    likelihood: float | None = None  # relative to the largest
    marked: bool = False
    rest: bool = False  # several states combined
    whole: str = ""


@dataclass(frozen=True)
class _Node:
    """The box drawn for a variable.

    ``look`` is one of chance, observed, uncertain, decision and utility.
    """

    name: str
    look: str = "chance"
    rows: tuple[_Row, ...] = ()
    density: Density | None = None
    labels: tuple[str, ...] = ()  # of all states, shown or not
    caption: str = ""  # instead of the strip
    compact: bool = False
    strip: tuple[float, ...] = ()

    @property
    def size(self) -> tuple[float, float]:
        """Width and height; independent of the evidence, so that nothing moves when evidence is entered."""
        width = text_width(self.title, NAME_SIZE) + 2 * PAD
        if self.look == "utility":
            width += 24
        if self.compact:
            return max(44.0, width), 22.0 + (STRIP + 3 if self.strip or self.caption else 0.0)
        if self.rows and self.look != "utility":
            width += text_width("uncertain", TAG_SIZE) + COLUMN_GAP
        if not self.rows and self.density is None:
            return max(56.0, width), HEAD + 4
        if any(row.probability is not None for row in self.rows):
            width = max(width, 2 * PAD + self.label_width + NUMBER + BAR + 2 * COLUMN_GAP)
        else:
            width = max(width, 2 * PAD + self.label_width)
        if self.density is not None:
            return max(width, 2 * PAD + 112), HEAD + CURVE + 2 * FOOT + ROW * len(self.rows)
        return width, HEAD + ROW * len(self.rows) + FOOT

    @property
    def title(self) -> str:
        return shorten(self.name, LONGEST_NAME) or "(no name)"

    @property
    def note(self) -> str:
        """Text at the right of the title."""
        return {"observed": "observed", "uncertain": "uncertain", "decision": "decision"}.get(self.look, "")

    @property
    def label_width(self) -> float:
        labels = (*self.labels, *(row.label for row in self.rows))
        return max((text_width(label, STATE_SIZE) for label in labels), default=0.0)

    @property
    def tooltip(self) -> str:
        lines = [f"{row.whole or row.label}" for row in self.rows]
        return "\n".join([self.name + (f" ({self.note})" if self.note else ""), *lines])


def network_svg(
    graph: nx.DiGraph | nx.Graph,
    marginals: Mapping[str, Mapping[str, float]],
    evidence: Mapping[str, Any] | None = None,
    continuous: Mapping[str, Density] | None = None,
) -> str:
    """Draw a network with the probabilities of its states in the nodes.

    Parameters
    ----------
    graph
        The structure: arrows from parent to child, or lines if it is undirected.
    marginals
        ``{variable: {state: probability}}``; missing variables are drawn as names only.
    evidence
        Evidence: variable to its state, to its value, or to ``{state: likelihood}``. Observed states are
        marked; likelihoods are ticks on the bars, relative to the largest.
    continuous
        Distributions of continuous variables, with ``mean``, ``sd`` and ``density(x)``; point masses and
        narrow peaks are drawn correctly if there is also ``cdf(x)``.

    Returns
    -------
    str
        An ``<svg>`` element without ids, scripts or style sheets. The same input gives the same text.
        Nodes have ``data-node``, edges ``data-from`` and ``data-to``, bars ``data-state``.
    """
    given, curves = dict(evidence or {}), dict(continuous or {})
    known = [v for v in graph if v in marginals or v in curves]
    detailed = set(known) if len(graph) <= MOST_BOXES or len(known) <= MOST_DETAILED else set()
    if len(graph) > MOST_NODES:
        return _summary(graph, {v: marginals[v] for v in known if v in marginals}, given, detailed, curves)
    compact = len(graph) > MOST_BOXES
    nodes = {
        v: _node(v, marginals.get(v), v in given, given.get(v), curves.get(v), compact=compact and v not in detailed)
        for v in graph
    }
    return _picture(graph, nodes, _headline(graph, given), _description(nodes))


def influence_svg(diagram: InfluenceDiagram, policy: Policy | None = None) -> str:
    """Draw an influence diagram: chance nodes as rounded boxes, decisions as rectangles, utilities as hexagons.

    Parameters
    ----------
    diagram
        The diagram; dashed arrows into a decision come from what is known by then.
    policy
        If given, boxes show the probability of each state and option under the policy, and hexagons the
        expected utility.
    """
    graph = diagram.graph
    marginals: dict[str, dict[str, float]] = {}
    worth: dict[str, float] = {}
    if policy is not None:
        marginals, worth = _followed(diagram, policy)
    nodes = {}
    for name, kind in graph.nodes(data="kind"):
        if kind == "utility":
            worthy = (_words(f"expected {_number(worth[name])}"),) if name in worth else ()
            nodes[name] = _Node(name, kind, worthy)
        else:
            marginal = marginals.get(name)
            nodes[name] = _Node(name, kind, _rows(marginal) if marginal else _listed(diagram.states[name]))
    headline = f"Influence diagram {diagram.name}"
    if policy is not None:
        headline += f": expected utility {_number(policy.expected_utility)} when the policy is followed"
    return _picture(graph, nodes, headline, _description(nodes))


def _followed(diagram: InfluenceDiagram, policy: Policy) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Return the probabilities of states and options, and the expected utilities, under the policy."""

    plain = under_policy(diagram, policy.rules)
    tree = JunctionTree.of(DiscreteNetwork(plain.states, {v: plain.parents[v] for v in plain.states}, plain.tables))
    posterior = tree.query().marginals
    marginals = {v: dict(zip(s, map(float, posterior[v]), strict=True)) for v, s in plain.states.items()}
    worth = {
        v: float(np.sum(tree.joint(list(plain.parents[v])) * table)) if plain.parents[v] else float(table)
        for v, table in plain.utilities.items()
    }
    return marginals, worth


def percent(probability: float) -> str:
    """Format a probability as a percentage with one decimal; 0 % and 100 % only for exactly 0 and 1."""
    if probability <= 0:
        return "0%"
    if probability >= 1 - 1e-12:
        return "100%"
    if probability < 0.0005:
        return "<0.1%"
    return ">99.9%" if probability >= 0.9995 else f"{100 * probability:.1f}%"


def _node(
    name: str,
    marginal: Mapping[str, float] | None,
    observed: bool,
    given: Any,
    density: Density | None,
    *,
    compact: bool,
) -> _Node:
    look = ("uncertain" if isinstance(given, Mapping) else "observed") if observed else "chance"
    state = _number(given) if isinstance(given, Real) else str(given)
    caption = f"= {state}" if compact and look == "observed" else ""
    if marginal is not None:
        likelihood = {str(s): float(w) for s, w in given.items()} if look == "uncertain" else {}
        hard = str(given) if look == "observed" else None
        rows = _rows({str(s): float(p) for s, p in marginal.items()}, hard, likelihood)
        strip = tuple(map(float, marginal.values())) if compact and hard is None else ()
        labels = tuple(shorten(str(s), LONGEST_STATE) for s in marginal)
        return _Node(name, look, rows, labels=labels, caption=caption, compact=compact, strip=strip)
    if look == "observed":
        return _Node(name, look, (_words(f"= {state}"),), caption=caption, compact=compact)
    if density is None:
        return _Node(name, look, compact=compact)
    mean, sd = float(density.mean), float(density.sd)
    words = _plus_minus(mean, sd)
    return _Node(name, look, (_words(words),), density if 0 < sd < inf and not compact else None, compact=compact)


def _rows(
    marginal: Mapping[str, float], hard: str | None = None, likelihood: Mapping[str, float] | None = None
) -> tuple[_Row, ...]:
    """Return the rows of the states in order; if there are many, only the most probable ones."""
    largest = max((likelihood or {}).values(), default=0.0) or 1.0
    rows = []
    for state, p in marginal.items():
        part = likelihood.get(state, 0.0) / largest if likelihood else None
        whole = f"{state}: {100 * p:.6g}%" + (f", likelihood {likelihood.get(state, 0.0):.4g}" if likelihood else "")
        label = shorten(state, LONGEST_STATE) or "(empty)"
        rows.append(_Row(label, p, part, marked=state == hard, whole=whole))
    if len(rows) <= MOST_STATES:
        return tuple(rows)
    order = sorted(range(len(rows)), key=lambda k: (not rows[k].marked, -(rows[k].probability or 0.0), k))
    kept = sorted(order[: MOST_STATES - 1])
    left = sum(row.probability or 0.0 for k, row in enumerate(rows) if k not in kept)
    return (*(rows[k] for k in kept), _Row(f"… {len(rows) - len(kept)} more", left, rest=True))


def _listed(states: Sequence[str]) -> tuple[_Row, ...]:
    rows = tuple(_words(state) for state in states)
    return rows if len(rows) <= MOST_STATES else (*rows[: MOST_STATES - 1], _words(f"… {len(rows) - 7} more"))


def _words(words: str) -> _Row:
    return _Row(shorten(words, LONGEST_NAME), whole=words)


def _number(value: Any) -> str:
    return _signed(f"{float(value):.4g}")


def _plus_minus(mean: float, sd: float) -> str:
    """Format mean and standard deviation with as many decimals as the standard deviation supports."""
    if not (isfinite(mean) and isfinite(sd)) or sd <= 0:
        return _number(mean)
    decimals = max(0, 1 - floor(log10(sd)))
    form = ".4g" if decimals > 4 or abs(mean) >= 1e6 or sd >= 1e6 else f".{decimals}f"
    return _signed(f"{mean:{form}} ± {sd:{form}}")


def _signed(number: str) -> str:
    return f"−{number[1:]}" if number.startswith("-") else number


# -- the picture


def _picture(graph: nx.DiGraph | nx.Graph, nodes: Mapping[str, _Node], headline: str, description: str) -> str:
    directed = graph if graph.is_directed() else _oriented(graph)
    plan = _place(directed, {name: node.size for name, node in nodes.items()})
    ways = _routes(plan)
    kinds = dict(graph.nodes(data="kind"))
    edges = [
        _draw_edge(edge, way, arrows=graph.is_directed(), dashed=kinds[edge[1]] == "decision")
        for edge, way in ways.items()
    ]
    drawn = [_draw_node(node, plan.nodes[name]) for name, node in nodes.items()]
    return _svg(plan.width, plan.height, headline, description, *edges, *drawn)


def _svg(width: float, height: float, headline: str, description: str, *inside: str) -> str:
    style = "max-width:100%;height:auto"
    if width > PAGE / SMALLEST:
        style += f";min-width:{fmt(SMALLEST * width)}px"
    return tag(
        "svg",
        tag("title", xml(headline)),
        tag("desc", xml(description)),
        tag("rect", width="100%", height="100%", rx=6, fill=PAPER),
        *inside,
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        aria_label=headline,
        viewBox=f"0 0 {fmt(width)} {fmt(height)}",
        width=width,
        style=style,
        font_family="Helvetica, Arial, sans-serif",
    )


def _oriented(graph: nx.Graph) -> nx.DiGraph:
    """Direct the edges away from an outer node of each connected component."""
    order: dict[str, int] = {}
    for start in graph:
        if start in order:
            continue
        *_, outer = nx.bfs_tree(graph, start)
        for name in nx.bfs_tree(graph, outer):
            order[name] = len(order)
    out = nx.DiGraph()
    out.add_nodes_from(graph)
    out.add_edges_from(sorted((sorted(edge, key=order.__getitem__) for edge in graph.edges), key=lambda e: order[e[0]]))
    return out


def _place(graph: nx.DiGraph, sizes: Mapping[str, tuple[float, float]]) -> Layout:
    """Return the layout with the largest scale among several widths of rows."""
    area = sum((width + 22) * (height + 50) for width, height in sizes.values())
    factors = (0.8, 1.0, 1.25, 1.6, 2.0) if len(graph) <= 2 * MOST_BOXES else (1.0,)
    rows = [node_rows(graph)] if len(graph) <= 2 * MOST_BOXES else []
    for factor in factors:
        turned = folded_rows(graph.reverse(), sizes, factor * area**0.5)
        last = max(turned.values(), default=0)
        rows += [folded_rows(graph, sizes, factor * area**0.5), {name: last - row for name, row in turned.items()}]
    distinct = [row for k, row in enumerate(rows) if row not in rows[:k]]
    return min((layout(graph, sizes, row) for row in distinct), key=_cost)


def _cost(plan: Layout) -> float:
    """Cost of a layout: the scale needed to fit the page, and the length of the edges."""
    scale = max(plan.width / PAGE, plan.height / PAGE, 1.0)
    length = sum(abs(b[0] - a[0]) + abs(b[1] - a[1]) for way in plan.routes.values() for a, b in pairwise(way))
    return scale + length / max(1, len(plan.routes)) / PAGE


def _routes(plan: Layout) -> dict[tuple[str, str], list[Waypoint]]:
    """Return the routes; edges leave and enter a box side by side, in the order of their other ends."""
    ways = {edge: list(way) for edge, way in plan.routes.items()}
    for end, side in ((0, 2), (1, -3)):
        ends: dict[str, list[tuple[str, str]]] = {}
        for edge in ways:
            ends.setdefault(edge[end], []).append(edge)
        for name, edges in ends.items():
            box = plan.nodes[name]
            gap = min(PORT_GAP, (box.width - 16) / len(edges))
            edges.sort(key=lambda edge: (plan.routes[edge][side][0] - box.middle[0]) / _drop(plan.routes[edge], side))
            for k, edge in enumerate(edges):
                _dock(ways[edge], box, (k - (len(edges) - 1) / 2) * gap, last=bool(end))
    return ways


def _drop(way: list[Waypoint], side: int) -> float:
    """Return the vertical distance from the box to the next waypoint."""
    return abs(way[side][1] - way[0 if side > 0 else -1][1]) or 1.0


def _dock(way: list[Waypoint], box: Box, offset: float, *, last: bool) -> None:
    """Make a route end at the border of its box, ``offset`` from the centre."""
    place, before, beyond = (-1, -2, -3) if last else (0, 1, 2)
    x, y = box.middle[0] + offset, box.top - 1 if last else box.bottom
    run = max(way[before][1] - y, 0.0) if not last else max(y - way[before][1], ARROW)
    beside = y - run if last else y + run
    secant = (way[beyond][0] - x) / (way[beyond][1] - beside or 1.0)
    # While it passes the row of the box it must stay below or above its own box.
    steepest = min(STEEPEST, (box.width / 2 - abs(offset)) / max(run, 1.0))
    slope = max(-steepest, min(steepest, 0.7 * secant))
    way[place], way[before] = (x, y, slope), (x + slope * (beside - y), beside, slope)


def _draw_edge(edge: tuple[str, str], way: list[Waypoint], *, arrows: bool, dashed: bool) -> str:
    head, base = arrow(*way[-1], EDGE)
    if arrows:
        way = [*way[:-1], base]
    dash = {"stroke_dasharray": "4 3"} if dashed else {}
    line = tag("path", d=curve(way), fill="none", stroke=EDGE, stroke_width="1.2", **dash)
    return tag("g", line, *([head] if arrows else []), data_from=edge[0], data_to=edge[1])


FRAMES: dict[str, dict[str, Any]] = {
    "chance": {"fill": PAPER, "stroke": FRAME, "rx": 5},
    "observed": {"fill": FILL, "stroke": STRONG, "rx": 5},
    "uncertain": {"fill": UNSURE_FILL, "stroke": UNSURE, "rx": 5, "stroke_dasharray": "4 2.5"},
    "decision": {"fill": CHOICE_FILL, "stroke": CHOICE, "stroke_width": "1.6"},
    "utility": {"fill": WORTH_FILL, "stroke": WORTH, "stroke_width": "1.2"},
}


def _draw_node(node: _Node, box: Box) -> str:
    parts = [tag("title", xml(node.tooltip)), _frame(node, box)]
    if node.compact:
        parts += _compact(node, box)
    elif node.look == "utility" or (not node.rows and node.density is None):
        words = [node.title, *(row.label for row in node.rows)]
        for k, line in enumerate(words):
            y = box.middle[1] + 4 + ROW * (k - (len(words) - 1) / 2)
            parts.append(_word(line, NAME_SIZE if k == 0 else STATE_SIZE, box.middle[0], y, "middle", bold=k == 0))
    else:
        parts += _head(node, box)
        top = box.top + HEAD
        if node.density is not None:
            parts.append(_draw_density(node.density, Box(box.left + PAD, top, box.width - 2 * PAD, CURVE)))
            top += CURVE + FOOT
        for k, row in enumerate(node.rows):
            parts += _draw_row(node, row, Box(box.left + PAD, top + k * ROW, box.width - 2 * PAD, ROW))
    return tag("g", *parts, data_node=node.name, data_look=node.look)


def _frame(node: _Node, box: Box) -> str:
    look = FRAMES[node.look]
    if node.look != "utility":
        return rectangle(box, look)
    x0, x1, y0, y1 = box.left, box.right, box.top, box.bottom
    corners = [(x0 + 12, y0), (x1 - 12, y0), (x1, box.middle[1]), (x1 - 12, y1), (x0 + 12, y1), (x0, box.middle[1])]
    return tag("polygon", points=" ".join(f"{fmt(x)},{fmt(y)}" for x, y in corners), **look)


def _head(node: _Node, box: Box) -> list[str]:
    parts = [_word(node.title, NAME_SIZE, box.left + PAD, box.top + 16, "start", bold=True)]
    if node.note:
        colour = FRAMES[node.look]["stroke"]
        parts.append(_word(node.note, TAG_SIZE, box.right - PAD, box.top + 15.5, "end", colour=colour))
    return parts


def _draw_row(node: _Node, row: _Row, box: Box) -> list[str]:
    baseline = box.top + 11
    faint = node.look == "observed" and not row.marked and row.probability is not None
    colour = "#8791a1" if faint else INK if row.marked or row.probability is None else SOFT
    parts = [_word(row.label, STATE_SIZE, box.left, baseline, "start", colour=colour, bold=row.marked)]
    if row.probability is None:
        return parts
    bar = Box(box.right - BAR, box.top + (ROW - BAR_HEIGHT) / 2, BAR, BAR_HEIGHT)
    number = percent(row.probability)
    colour = colour if faint else INK
    parts.append(_word(number, STATE_SIZE, bar.left - COLUMN_GAP, baseline, "end", colour=colour, bold=row.marked))
    track = TRACK if node.look == "chance" else "#ffffff"
    fill = STRONG if node.look == "observed" else CHOICE if node.look == "decision" else BARS
    parts.append(rectangle(bar, {"fill": track, "rx": 1.5}))
    length = BAR * min(1.0, max(0.0, row.probability))
    if length > 0:
        # A positive probability is always visible.
        shown = Box(bar.left, bar.top, max(0.8, length), bar.height)
        fill = REST if row.rest else fill
        parts.append(rectangle(shown, {"fill": fill, "rx": min(1.5, shown.width / 2), "data_state": row.label}))
    if row.likelihood is not None:
        x = bar.left + row.likelihood * BAR
        parts.append(
            rectangle(Box(x - 1, bar.top - 2, 2, bar.height + 4), {"fill": UNSURE, "data_likelihood": row.label})
        )
    if row.marked:
        y, x = bar.top + bar.height / 2, box.left - 7.5
        points = f"{fmt(x)},{fmt(y - 3)} {fmt(x + 5)},{fmt(y)} {fmt(x)},{fmt(y + 3)}"
        parts.append(tag("polygon", points=points, fill=INK, data_observed=row.label))
    return parts


def _compact(node: _Node, box: Box) -> list[str]:
    parts = [_word(node.title, 11.0, box.middle[0], box.top + (12.5 if node.caption else 15), "middle")]
    x, inner = box.left + 6, box.width - 12
    if node.caption:
        longest = max(3, int(len(node.caption) * inner / text_width(node.caption, TAG_SIZE)))
        parts.append(
            _word(shorten(node.caption, longest), TAG_SIZE, box.middle[0], box.bottom - 5, "middle", colour=STRONG)
        )
    total = sum(node.strip) or 1.0
    for k, p in enumerate(node.strip):
        width = inner * p / total
        if width > 0:
            look = {"fill": STRIPS[min(k, len(STRIPS) - 1)]}
            parts.append(rectangle(Box(x, box.bottom - STRIP - 4, width, STRIP), look))
        x += width
    return parts


def _draw_density(density: Density, box: Box) -> str:
    """Draw the density within four standard deviations of the mean, darker within one."""
    mean, sd = float(density.mean), float(density.sd)
    n = int(box.width)
    values = _heights(density, mean + sd * np.linspace(-4, 4, n + 1))
    top = float(values.max()) or 1.0
    across = box.left + (np.arange(n) + 0.5) * box.width / n
    down = box.bottom - values / top * (box.height - 2)

    def area(first: int, last: int) -> str:
        points = [f"L{fmt(a)} {fmt(b)}" for a, b in zip(across[first:last], down[first:last], strict=True)]
        return f"M{fmt(across[first])} {fmt(box.bottom)}{''.join(points)}L{fmt(across[last - 1])} {fmt(box.bottom)}Z"

    middle = box.middle[0]
    line = "M" + "L".join(f"{fmt(a)} {fmt(b)}" for a, b in zip(across, down, strict=True))
    return tag(
        "g",
        tag("path", d=area(0, n), fill="#dfe7f3"),
        tag("path", d=area(3 * n // 8, n - 3 * n // 8), fill="#b9cbe4"),
        tag("path", d=line, fill="none", stroke=BARS, stroke_width="1.3"),
        tag("path", d=f"M{fmt(box.left)} {fmt(box.bottom)}H{fmt(box.right)}", stroke=FRAME),
        tag("path", d=f"M{fmt(middle)} {fmt(box.bottom)}v4", stroke=SOFT),
    )


def _heights(density: Density, ends: np.ndarray) -> np.ndarray:
    """Return the heights of the curve between neighbouring ends."""
    cdf = getattr(density, "cdf", None)
    if cdf is not None:  # correct also for peaks and point masses narrower than a pixel
        return np.diff(np.asarray(cdf(ends), dtype=float)).clip(min=0.0)
    values = np.asarray(density.density((ends[1:] + ends[:-1]) / 2), dtype=float)
    return np.where(np.isfinite(values), values, 0.0)


def _word(line: str, size: float, x: float, y: float, anchor: str, *, colour: str = INK, bold: bool = False) -> str:
    weight = {"font_weight": "600"} if bold else {}
    return tag("text", xml(line), x=x, y=y, font_size=size, fill=colour, text_anchor=anchor, **weight)


# -- in words


def _headline(graph: nx.DiGraph | nx.Graph, given: Mapping[str, Any]) -> str:
    name = "" if graph.name == "unknown" else graph.name  # default name written by exporters
    sizes = [(len(graph), "variable"), (graph.number_of_edges(), "arrow" if graph.is_directed() else "edge")]
    line = f"Network {name}".rstrip() + ": " + ", ".join(f"{n} {thing}{'s' * (n != 1)}" for n, thing in sizes)
    if given:
        evidence = [f"{v} {'uncertain' if isinstance(s, Mapping) else f'= {s}'}" for v, s in given.items()]
        line += f"; given {', '.join(evidence)}"
    return shorten(line, 300)


def _description(nodes: Mapping[str, _Node]) -> str:
    lines = []
    for node in nodes.values():
        states = [f"{r.label} {percent(r.probability)}" if r.probability is not None else r.label for r in node.rows]
        lines.append(f"{node.name}: {', '.join(states)}" if states else node.name)
    return "; ".join(lines)


def _summary(
    graph: nx.DiGraph | nx.Graph,
    marginals: Mapping[str, Mapping[str, float]],
    given: Mapping[str, Any],
    detailed: set[str],
    curves: Mapping[str, Density],
) -> str:
    """Summarise a network too large to draw: its size, the evidence, and the queried variables if they are few."""
    degree = max(graph, key=lambda name: graph.degree[name])
    lines = [
        _headline(graph, {}),
        f"Most neighbours: {degree} ({graph.degree[degree]}).",
        f"Too large to draw: more than {MOST_NODES} variables. Ask for a few targets to see them here.",
    ]
    evidence = [f"{v} uncertain" if isinstance(s, Mapping) else f"{v} = {s}" for v, s in given.items()]
    if evidence:
        more = f", … {len(evidence) - 12} more" if len(evidence) > 12 else ""
        lines.insert(2, f"Given {len(evidence)}: {', '.join(evidence[:12])}{more}")
    shown = nx.DiGraph()
    shown.add_nodes_from(v for v in graph if v in detailed)
    nodes = {v: _node(v, marginals.get(v), v in given, given.get(v), curves.get(v), compact=False) for v in shown}
    plan = _place(shown, {name: node.size for name, node in nodes.items()})
    words = [shorten(line, LONGEST_LINE) for line in lines]
    head = 16 + 19.0 * len(words)
    width = max([plan.width, *(text_width(line, NAME_SIZE) + 32 for line in words)])
    written = [_word(line, NAME_SIZE, 16, 26 + 19 * k, "start", bold=k == 0) for k, line in enumerate(words)]
    drawn = [_draw_node(node, plan.nodes[name]) for name, node in nodes.items()]
    moved = tag("g", *drawn, transform=f"translate(0 {fmt(head)})") if drawn else ""
    return _svg(width, head + (plan.height if drawn else 8.0), " ".join(lines), _description(nodes), *written, moved)
