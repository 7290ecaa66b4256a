"""A model's directed graph as one SVG string, without Graphviz."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import hypot, nan
from typing import Any

import networkx as nx

from bayeslab.plots import placement
from bayeslab.plots.placement import MARGIN, Layout, Plate, sized
from bayeslab.plots.svg import (
    INK,
    LINE,
    PAPER,
    SHADE,
    SOFT,
    Box,
    Waypoint,
    arrow,
    curve,
    fmt,
    rectangle,
    shorten,
    tag,
    text,
    text_width,
    xml,
)

__all__ = ["layout", "model_svg", "node_size"]

# Lengths are CSS pixels.
NAME_SIZE, TEXT_SIZE, TITLE_SIZE = 13.0, 10.5, 15.0
LONGEST_NAME, LONGEST_TEXT, LONGEST_TITLE = 24, 32, 80  # characters; tooltips have the whole
SQUARE = 13.0

LOOKS: dict[str, dict[str, Any]] = {
    "random": {"fill": PAPER, "stroke": LINE},
    "observed": {"fill": SHADE, "stroke": LINE},
    "discrete": {"fill": PAPER, "stroke": LINE, "rx": 1.5},
    "deterministic": {"fill": PAPER, "stroke": LINE, "rx": 9, "stroke_dasharray": "4 2.5"},
    "data": {"fill": SHADE, "stroke": "#8791a1", "rx": 1.5},
    "potential": {"fill": INK, "stroke": INK, "rx": 1.5},
}
ROUND = ("random", "observed")


def model_svg(graph: nx.DiGraph, *, title: str | None = None) -> str:
    """Draw a probabilistic model as a self-contained SVG.

    Ellipses are random variables, shaded when observed; rectangles are discrete variables; dashed rounded
    boxes are deterministic; small shaded rectangles are data; small squares are potentials. Rounded
    frames are plates: their content is repeated along their dimensions. A plate lies inside another one if
    it has all of its dimensions and more; its label then names only the additional dimensions.

    Parameters
    ----------
    graph
        Edges go from parent to child; keys are the names. Node attributes, all optional: ``kind``
        (``"random"``, the default, ``"observed"``, ``"discrete"``, ``"deterministic"``, ``"data"`` or
        ``"potential"``), ``text`` (a second line, such as the distribution) and ``dims`` (names of
        dimensions). ``graph.graph["dims"]`` maps a dimension to its length or None.
    title
        A heading, which is also the accessible name of the image.

    Returns
    -------
    str
        An ``<svg>`` element without ids or style sheets, so that several fit on one page. The same graph
        gives the same text. Nodes have ``data-node``, edges ``data-from`` and ``data-to``, plates
        ``data-plate``.

    Raises
    ------
    ValueError
        If the graph has a cycle, or a node an unknown kind.
    """
    plan = layout(graph)
    heading = shorten(title or "", LONGEST_TITLE)
    width = max(plan.width, text_width(heading, TITLE_SIZE) + 2 * MARGIN)
    head = 28.0 if heading else 0.0
    picture = [
        *(_draw_plate(plan, plate) for plate in plan.plates),
        *(_draw_edge(graph, plan, edge) for edge in plan.routes),
        *(_draw_label(plan, plate) for plate in plan.plates),
        *(_draw_node(graph, name, box) for name, box in plan.nodes.items()),
    ]
    return tag(
        "svg",
        tag("title", xml(title or "Graph of the model")),
        tag("desc", xml(_description(graph))),
        tag("rect", width="100%", height="100%", rx=6, fill=PAPER),
        text(heading, TITLE_SIZE, width / 2, 26, INK),
        tag("g", *picture, transform=f"translate({fmt((width - plan.width) / 2)} {fmt(head)})"),
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        viewBox=f"0 0 {fmt(width)} {fmt(plan.height + head)}",
        width=width,
        height=plan.height + head,
        style="max-width:100%",  # CairoSVG shows nothing with height:auto
        font_family="Helvetica, Arial, sans-serif",
        text_anchor="middle",
    )


def layout(graph: nx.DiGraph, sizes: Mapping[str, tuple[float, float]] | None = None) -> Layout:
    """Place the nodes, plates and edges of a directed acyclic graph.

    Parameters
    ----------
    graph
        As in :func:`model_svg`.
    sizes
        Width and height of every node; default: fitted to its text.

    Raises
    ------
    ValueError
        If the graph has a cycle.
    """
    needed = sizes or {name: node_size(name, attributes) for name, attributes in graph.nodes(data=True)}
    return placement.layout(graph, needed)


def node_size(name: str, attributes: Mapping[str, Any]) -> tuple[float, float]:
    """Return the width and height of a node's shape that fit its text."""
    kind, lines = _kind(name, attributes), _lines(name, attributes)
    width, more = max(text_width(*line) for line in lines), 13.0 * (len(lines) - 1)
    if kind == "potential":  # the square is in the middle, its name below
        return max(SQUARE, width), SQUARE + 2 * (NAME_SIZE + 4)
    if kind in ROUND:
        return max(62.0, 1.2 * width + 18), 34 + more
    return max(34.0, width + 18), (24 if kind == "data" else 30) + more


def _kind(name: str, attributes: Mapping[str, Any]) -> str:
    kind = attributes.get("kind", "random")
    if kind not in LOOKS:
        raise ValueError(f"node '{name}' has kind '{kind}'; allowed are {', '.join(LOOKS)}")
    return kind


def _lines(name: str, attributes: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return the lines of text in a node, with their font sizes."""
    text = "" if attributes.get("kind") == "potential" else shorten(attributes.get("text") or "", LONGEST_TEXT)
    return [(shorten(name, LONGEST_NAME), NAME_SIZE), (text, TEXT_SIZE)][: 2 if text else 1]


def _draw_node(graph: nx.DiGraph, name: str, box: Box) -> str:
    attributes = graph.nodes[name]
    kind, lines, (x, y) = _kind(name, attributes), _lines(name, attributes), box.middle
    baseline = y + (SQUARE / 2 + NAME_SIZE if kind == "potential" else 4.5 - 6.5 * (len(lines) - 1))
    if kind == "potential":
        box = Box(x - SQUARE / 2, y - SQUARE / 2, SQUARE, SQUARE)
    if kind in ROUND:
        shape = tag("ellipse", cx=x, cy=y, rx=box.width / 2, ry=box.height / 2, **LOOKS[kind])
    else:
        shape = rectangle(box, LOOKS[kind])
    texts = [text(*line, x, baseline + 14 * k, SOFT if k else INK) for k, line in enumerate(lines)]
    return tag("g", tag("title", xml(_tooltip(graph, name))), shape, *texts, data_node=name)


def _draw_plate(plan: Layout, plate: Plate) -> str:
    look = {"rx": 8, "fill": "#64748b", "fill_opacity": "0.06", "stroke": "#94a0b0"}
    return rectangle(plan.plates[plate], look | {"data_plate": ", ".join(plate)})


def _draw_label(plan: Layout, plate: Plate) -> str:
    """Draw the label of a plate at the lower right, or left if fewer edges pass there; edges behind it are faded."""
    box, width = plan.plates[plate], text_width(plan.labels[plate], TEXT_SIZE)
    spots = [Box(left, box.bottom - 19, width, 14) for left in (box.right - 8 - width, box.left + 8)]
    crossed = [sum(_passes(way, spot) for way in plan.routes.values()) for spot in spots]
    spot = spots[crossed[1] < crossed[0]]
    veil = rectangle(spot, {"fill": "#f3f5f8", "fill_opacity": "0.8"}) if min(crossed) else ""
    return veil + text(plan.labels[plate], TEXT_SIZE, spot.middle[0], spot.middle[1] + 4, SOFT)


def _passes(way: list[Waypoint], box: Box) -> bool:
    """Return whether an edge passes through a box."""
    return any(box.left <= _x_at(way, y) <= box.right for y in (box.top, box.middle[1], box.bottom))


def _x_at(way: list[Waypoint], y: float) -> float:
    """Return the x of a route at height y; NaN above and below the route."""
    for (x0, y0, slope0), (x1, y1, slope1) in pairwise(way):
        if y0 <= y <= y1:
            h, t = y1 - y0, (y - y0) / (y1 - y0)
            bend = (1 - t) * (h * slope0 + x0 - x1) - t * (h * slope1 + x0 - x1)
            return (1 - t) * x0 + t * x1 + t * (1 - t) * bend
    return nan


def _draw_edge(graph: nx.DiGraph, plan: Layout, edge: tuple[str, str]) -> str:
    (parent, child), way = edge, list(plan.routes[edge])
    x, y, slope = way[0]
    dy = _reach(graph.nodes[parent], plan.nodes[parent], slope, below=True)
    way[0] = (x + slope * dy, y + dy, slope)
    x, y, slope = way[-1]
    dy = _reach(graph.nodes[child], plan.nodes[child], slope, below=False) + 1 / hypot(slope, 1)
    head, way[-1] = arrow(x - slope * dy, y - dy, slope, LINE)
    line = tag("path", d=curve(way), fill="none", stroke=LINE)
    return tag("g", line, head, data_from=parent, data_to=child)


def _reach(attributes: Mapping[str, Any], box: Box, slope: float, *, below: bool) -> float:
    """Return how far below or above its centre a line with this dx/dy leaves the node."""
    kind = attributes.get("kind", "random")
    if kind in ROUND:
        return 1 / hypot(2 / box.height, 2 * slope / box.width)
    if kind == "potential" and not below:
        return SQUARE / 2 / max(1.0, abs(slope))
    return min(box.height / 2, box.width / 2 / max(abs(slope), 1e-9))


def _tooltip(graph: nx.DiGraph, name: str) -> str:
    attributes = graph.nodes[name]
    dims, text = sized(graph, attributes.get("dims") or ()), attributes.get("text")
    return f"{name}{f'[{dims}]' if dims else ''}{f': {text}' if text else ''} ({_kind(name, attributes)})"


def _description(graph: nx.DiGraph) -> str:
    parents = ((name, ", ".join(other for other in graph if other in graph.pred[name])) for name in graph)
    given = [f"{name} depends on {names}" for name, names in parents if names]
    return "; ".join([f"{len(graph)} nodes, {graph.number_of_edges()} edges", *given])
