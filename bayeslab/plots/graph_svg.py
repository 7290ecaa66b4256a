"""A model's directed graph as one SVG string, without Graphviz.

The layout is Sugiyama's [1]_: every node gets a row, edges over several rows get *bends* in the rows
between, rows are ordered to have few crossings, and then x is chosen to make edges short and straight.
Plates complicate the last two steps. A plate is one rectangle, so it must hold the same place among its
neighbours in all the rows it covers. This holds when every row is read off one global order in which each
plate is a contiguous run: a tree whose leaves are nodes and bends and whose branches are plates. Given
such an order, all demands on x ("a ends before b begins", where a and b may be sides of plates) point the
same way, so they can be met together, and the shortest edges that meet them solve a quadratic programme.

References
----------
.. [1] Sugiyama, K., Tagawa, S., Toda, M. (1981). Methods for visual understanding of hierarchical system
   structures. IEEE Transactions on Systems, Man, and Cybernetics 11(2), 109-125.
.. [2] Gansner, E. R., Koutsofios, E., North, S. C., Vo, K.-P. (1993). A technique for drawing directed
   graphs. IEEE Transactions on Software Engineering 19(3), 214-230.
.. [3] Boyd, S., Parikh, N., Chu, E., Peleato, B., Eckstein, J. (2011). Distributed optimization and
   statistical learning via the alternating direction method of multipliers. Foundations and Trends in
   Machine Learning 3(1), 1-122.
.. [4] Fritsch, F. N., Butland, J. (1984). A method for constructing local monotone piecewise cubic
   interpolants. SIAM Journal on Scientific and Statistical Computing 5(2), 300-304.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import copysign, hypot, inf, isqrt, nan
from statistics import fmean
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import networkx as nx
import numpy as np

__all__ = ["Box", "Layout", "layout", "model_svg", "node_size"]

type Plate = tuple[str, ...]  # its dimensions
type Unit = Any  # a node: str; a bend: (number of the edge, row); a plate
type Spot = Any  # a node, a bend or a side of a plate: (plate, "left" or "right")
type Sizes = Mapping[Any, tuple[float, float]]
type Waypoint = tuple[float, float, float]  # x, y, dx/dy

# Lengths are CSS pixels.
MARGIN, ROW_GAP = 14.0, 42.0
NODE_ROOM, SIDE_ROOM, BEND_ROOM = 11.0, 9.0, 6.0  # kept free at either side
PLATE_PAD, PLATE_FOOT = 12.0, 22.0  # inside a plate: left, right and above; below, where its label is
NAME_SIZE, TEXT_SIZE, TITLE_SIZE = 13.0, 10.5, 15.0
LONGEST_NAME, LONGEST_TEXT, LONGEST_TITLE = 24, 32, 80  # characters; tooltips have the whole
ARROW, SQUARE = 7.5, 13.0
STEEPEST = 2.5  # |dx/dy| of an edge within a row
SWEEPS, PASSES, STEPS = 16, 6, 1500
RELAXATION, PENALTY = 1.6, 20.0  # of the solver for x; chosen by its speed on graphs of 10 to 60 nodes

INK, SOFT, LINE, SHADE, PAPER = "#1d2433", "#566071", "#3d4757", "#d6dce5", "#ffffff"
LOOKS: dict[str, dict[str, Any]] = {
    "random": {"fill": PAPER, "stroke": LINE},
    "observed": {"fill": SHADE, "stroke": LINE},
    "discrete": {"fill": PAPER, "stroke": LINE, "rx": 1.5},
    "deterministic": {"fill": PAPER, "stroke": LINE, "rx": 9, "stroke_dasharray": "4 2.5"},
    "data": {"fill": SHADE, "stroke": "#8791a1", "rx": 1.5},
    "potential": {"fill": INK, "stroke": INK, "rx": 1.5},
}
ROUND = ("random", "observed")


@dataclass(frozen=True)
class Box:
    """A rectangle; y grows downwards."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height

    @property
    def middle(self) -> tuple[float, float]:
        return self.left + self.width / 2, self.top + self.height / 2


@dataclass(frozen=True)
class Layout:
    """Where everything goes.

    Plates are keyed by their dimensions, outer ones before those inside them. A route leads from the
    middle of the parent to the middle of the child by waypoints (x, y, dx/dy) of increasing y, to be
    joined by cubic curves.
    """

    nodes: dict[str, Box]
    plates: dict[Plate, Box]
    labels: dict[Plate, str]
    routes: dict[tuple[str, str], list[Waypoint]]
    width: float
    height: float


def model_svg(graph: nx.DiGraph, *, title: str | None = None) -> str:
    """Draw a probabilistic model as a self-contained SVG.

    Ellipses are random variables, shaded when observed; rectangles are discrete variables; dashed rounded
    boxes are deterministic; small shaded rectangles are data; small squares are potentials. Rounded
    frames are plates: what they hold is repeated along their dimensions. A plate lies inside another one
    if it has all of its dimensions and more; its label then names the others only.

    Parameters
    ----------
    graph
        Edges go from parent to child; keys are the names. Node attributes, all optional: ``kind``
        (``"random"``, the default, ``"observed"``, ``"discrete"``, ``"deterministic"``, ``"data"`` or
        ``"potential"``), ``text`` (a second line, such as the distribution) and ``dims`` (names of
        dimensions). ``graph.graph["dims"]`` maps a dimension to its length or None.
    title
        A heading, which is also the accessible name of the picture.

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
    heading = _shorten(title or "", LONGEST_TITLE)
    width = max(plan.width, _text_width(heading, TITLE_SIZE) + 2 * MARGIN)
    head = 28.0 if heading else 0.0
    picture = [
        *(_draw_plate(plan, plate) for plate in plan.plates),
        *(_draw_edge(graph, plan, edge) for edge in plan.routes),
        *(_draw_label(plan, plate) for plate in plan.plates),
        *(_draw_node(graph, name, box) for name, box in plan.nodes.items()),
    ]
    return _tag(
        "svg",
        _tag("title", _xml(title or "Graph of the model")),
        _tag("desc", _xml(_description(graph))),
        _tag("rect", width="100%", height="100%", rx=6, fill=PAPER),
        _text(heading, TITLE_SIZE, width / 2, 26, INK),
        _tag("g", *picture, transform=f"translate({_n((width - plan.width) / 2)} {_n(head)})"),
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        viewBox=f"0 0 {_n(width)} {_n(plan.height + head)}",
        width=width,
        height=plan.height + head,
        style="max-width:100%",  # with height:auto, CairoSVG shows nothing
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
        Width and height of every node; by default what its text needs.

    Raises
    ------
    ValueError
        If the graph has a cycle.
    """
    sizes = sizes or {name: node_size(name, attributes) for name, attributes in graph.nodes(data=True)}
    rows = _Rows(graph)
    rows.reduce_crossings()
    labels = {
        plate: _sized(graph, [dim for dim in plate if dim not in (rows.parent[plate] or ())]) for plate in rows.plates
    }
    x = _abscissas(rows, sizes, labels)
    middles, heights = _ordinates(rows, sizes, x)
    boxes: dict[Unit, Box] = {}
    for name, (width, height) in sizes.items():
        boxes[name] = Box(x[name] - width / 2, middles[rows.row[name]] - height / 2, width, height)
    for plate in reversed(rows.plates):
        inside = [boxes[unit] for unit in rows.tree[plate] if unit in boxes]
        top, left = min(box.top for box in inside) - PLATE_PAD, x[plate, "left"]
        bottom = max(box.bottom for box in inside) + PLATE_FOOT
        boxes[plate] = Box(left, top, x[plate, "right"] - left, bottom - top)
    return Layout(
        nodes={name: boxes[name] for name in graph},
        plates={plate: boxes[plate] for plate in rows.plates},
        labels=labels,
        routes=_routes(rows, sizes, x, middles, heights),
        width=max([*x.values(), *(box.right for box in boxes.values())], default=0.0) + MARGIN,
        height=max((box.bottom for box in boxes.values()), default=0.0) + MARGIN,
    )


def node_size(name: str, attributes: Mapping[str, Any]) -> tuple[float, float]:
    """Width and height that a node's shape needs to hold its text."""
    kind, lines = _kind(name, attributes), _lines(name, attributes)
    width, more = max(_text_width(*line) for line in lines), 13.0 * (len(lines) - 1)
    if kind == "potential":  # the square is in the middle, its name below
        return max(SQUARE, width), SQUARE + 2 * (NAME_SIZE + 4)
    if kind in ROUND:
        return max(62.0, 1.2 * width + 18), 34 + more
    return max(34.0, width + 18), (24 if kind == "data" else 30) + more


class _Rows:
    """Nodes and bends in rows, and the tree of plates from which their order is read.

    ``chains`` are the edges as node, bends, node; ``parent`` is the innermost plate around a unit.
    """

    def __init__(self, graph: nx.DiGraph) -> None:
        self.row = _node_rows(graph)
        self.n_rows = max(self.row.values(), default=-1) + 1
        plates = {frozenset(dims or ()): tuple(dims or ()) for _, dims in graph.nodes(data="dims")}
        self.plates: list[Plate] = sorted(filter(None, plates.values()), key=len)
        self.parent: dict[Unit, Plate | None] = {plate: _innermost(plate, self.plates) for plate in self.plates}
        self.parent |= {name: plates[frozenset(dims or ())] or None for name, dims in graph.nodes(data="dims")}
        edges = [(parent, child) for child in graph for parent in graph if graph.has_edge(parent, child)]
        self.chains = [self._chain(number, *edge) for number, edge in enumerate(edges)]
        self.segments: list[list[tuple[Unit, Unit]]] = [[] for _ in range(self.n_rows)]
        self.above, self.below = defaultdict(list), defaultdict(list)
        for upper, lower in (pair for chain in self.chains for pair in pairwise(chain)):
            self.segments[self.row[upper]].append((upper, lower))
            self.above[lower].append(upper)
            self.below[upper].append(lower)
        self.tree: dict[Plate | None, list[Unit]] = {None: [], **{plate: [] for plate in self.plates}}
        for unit, plate in self.parent.items():
            self.tree[plate].append(unit)
        self.extent = {plate: self._extent(plate) for plate in self.plates}

    def around(self, unit: Unit) -> list[Plate]:
        """The plates around a unit, from the inside."""
        plate = self.parent[unit]
        return [plate, *self.around(plate)] if plate else []

    def _chain(self, number: int, parent: str, child: str) -> list[Unit]:
        """The edge's bends lie in the innermost plate that both its ends lie in."""
        plate = next((plate for plate in self.around(parent) if plate in self.around(child)), None)
        bends = [(number, row) for row in range(self.row[parent] + 1, self.row[child])]
        for bend in bends:
            self.row[bend], self.parent[bend] = bend[1], plate
        return [parent, *bends, child]

    def _extent(self, plate: Plate) -> range:
        rows = [self.row[leaf] for leaf in self.leaves(plate)]
        return range(min(rows), max(rows) + 1)

    def leaves(self, plate: Plate | None) -> Iterator[Unit]:
        for unit in self.tree[plate]:
            yield from self.leaves(unit) if unit in self.tree else (unit,)

    def spots(self, plate: Plate | None = None) -> Iterator[Spot]:
        """Nodes, bends and sides of plates in the global order."""
        for unit in self.tree[plate]:
            if unit in self.tree:
                yield from ((unit, "left"), *self.spots(unit), (unit, "right"))
            else:
                yield unit

    def rows(self) -> list[list[Spot]]:
        """What each row holds from left to right, with the sides of the plates that cover it."""
        rows: list[list[Spot]] = [[] for _ in range(self.n_rows)]
        for spot in self.spots():
            for row in (self.row[spot],) if spot in self.row else self.extent[spot[0]]:
                rows[row].append(spot)
        return rows

    def slots(self) -> dict[Spot, float]:
        """The place of every node and bend in its row, counted from the middle."""
        rows = [(len(row), enumerate(row)) for row in self.rows()]
        return {spot: k - (n - 1) / 2 for n, row in rows for k, spot in row if spot in self.row}

    def cost(self) -> tuple[int, float]:
        """Number of crossings and, among equals, how far edges lean."""
        slot, crossings, lean = self.slots(), 0, 0.0
        for segments in self.segments:
            ends: list[float] = []
            for upper, lower in sorted((slot[upper], slot[lower]) for upper, lower in segments):
                crossings += len(ends) - bisect_right(ends, lower)
                insort(ends, lower)
                lean += abs(upper - lower)
        return crossings, lean

    def reduce_crossings(self) -> None:
        """Barycentre sweeps down and up [1]_, then exchanges of neighbours [2]_."""
        best, tree = self.cost(), self.tree
        for sweep in range(SWEEPS):
            for row in range(self.n_rows):
                if sweep % 2 == 0:
                    self._to_barycentres(row, self.above)
                else:
                    self._to_barycentres(self.n_rows - 1 - row, self.below)
            if self.cost() < best:
                best, tree = self.cost(), self.tree
        self.tree = tree
        for _ in range(PASSES):
            before = best
            for a, b in [pair for row in self.rows() for pair in pairwise(row)]:
                best = self._exchange(best, a, b)
            if best == before:
                break

    def _to_barycentres(self, row: int, beside: Mapping[Unit, list[Unit]]) -> None:
        slot = self.slots()
        moving = (leaf for leaf in beside if self.row[leaf] == row)
        place = slot | {leaf: fmean(slot[other] for other in beside[leaf]) for leaf in moving}
        place |= {plate: fmean(place[leaf] for leaf in self.leaves(plate)) for plate in self.plates}
        self.tree = {plate: sorted(units, key=place.__getitem__) for plate, units in self.tree.items()}

    def _exchange(self, cost: tuple[int, float], a: Spot, b: Spot) -> tuple[int, float]:
        """Try to put a unit behind its neighbour, then the neighbour before it; keep what costs less."""
        a, b = (spot if spot in self.row else spot[0] for spot in (a, b))
        plate = self.parent[a]
        if a == b or self.parent[b] != plate:
            return cost
        kept = self.tree[plate]
        for moved, other, behind in ((a, b, 1), (b, a, 0)):
            units = [unit for unit in kept if unit != moved]
            units.insert(units.index(other) + behind, moved)
            self.tree[plate] = units
            if (new := self.cost()) < cost:
                return new
        self.tree[plate] = kept
        return cost


def _node_rows(graph: nx.DiGraph) -> dict[Unit, int]:
    """The longest path from a source; then nodes with more children than parents sink towards them."""
    if not nx.is_directed_acyclic_graph(graph):
        cycle = [parent for parent, *_ in nx.find_cycle(graph)]
        raise ValueError(f"the graph has a cycle: {' → '.join([*cycle, cycle[0]])}")
    generations = list(nx.topological_generations(graph))
    row: dict[Unit, int] = {name: k for k, names in enumerate(generations) for name in names}
    for name in reversed(list(nx.topological_sort(graph))):
        if graph.out_degree(name) > graph.in_degree(name):
            row[name] = min(row[child] for child in graph[name]) - 1
    alone = list(nx.isolates(graph))  # one long line otherwise
    n_rows = max(len(generations), isqrt(len(alone)))
    return row | {name: k * n_rows // len(alone) for k, name in enumerate(alone)}


def _innermost(plate: Plate, plates: list[Plate]) -> Plate | None:
    """The plate around a plate that has most of its dimensions; among equals, the foremost ones."""
    around = [other for other in plates if {*other} < {*plate}]
    return max(around, key=lambda other: (len(other), [-plate.index(dim) for dim in other]), default=None)


def _abscissas(rows: _Rows, sizes: Sizes, labels: Mapping[Plate, str]) -> dict[Spot, float]:
    """The x of the middle of every node, of every bend and of both sides of every plate."""
    spots = list(rows.spots())
    index = {spot: k for k, spot in enumerate(spots)}
    gaps: dict[tuple[int, int], float] = defaultdict(float)
    for plate, label in labels.items():
        gaps[index[plate, "left"], index[plate, "right"]] = _text_width(label, TEXT_SIZE) + 20
    for a, b in (pair for row in rows.rows() for pair in pairwise(row)):
        within = a[1:] == ("left",) or b[1:] == ("right",)
        gap = PLATE_PAD if within else sum(_room(rows, spot) for spot in (a, b))
        gap += _half(sizes, a) + _half(sizes, b)
        gaps[index[a], index[b]] = max(gap, gaps[index[a], index[b]])
    pulls = []
    for a, b in (pair for segments in rows.segments for pair in segments):
        # Long edges are the ones to keep straight: weights 1, 2 and 8 in [2]_, section 4.
        pulls.append((index[a], index[b], (8.0, 2.0, 1.0)[(a in sizes) + (b in sizes)]))
    for plate in rows.plates:
        sides = index[plate, "left"], index[plate, "right"]
        pulls += [(index[leaf], side, 5e-3) for leaf in rows.leaves(plate) for side in sides]
    x = _shortest(len(spots), pulls, gaps)
    left = min((x[index[spot]] - _half(sizes, spot) for spot in spots), default=0.0)
    return {spot: x[index[spot]] - left + MARGIN for spot in spots}


def _half(sizes: Sizes, spot: Spot) -> float:
    return sizes[spot][0] / 2 if spot in sizes else 0.0


def _room(rows: _Rows, spot: Spot) -> float:
    """What is kept free at either side."""
    return NODE_ROOM if isinstance(spot, str) else BEND_ROOM if spot in rows.row else SIDE_ROOM


def _shortest(n: int, pulls: list[tuple[int, int, float]], gaps: Mapping[tuple[int, int], float]) -> list[float]:
    """Minimise the sum of w (x_i - x_j)² over pulls (i, j, w), given x_j - x_i >= gaps[i, j].

    By the alternating direction method of multipliers ([3]_, sections 3.4.3 and 5.2). As i < j in every
    gap, one pass to the right then makes up for what little is left unmet.
    """
    least, difference = np.array(list(gaps.values())), np.zeros((len(gaps), n))
    for k, (i, j) in enumerate(gaps):
        difference[k, i], difference[k, j] = -1.0, 1.0
    laplacian = 1e-5 * np.eye(n)  # draws together what no edge connects
    for i, j, weight in pulls:
        laplacian[[i, j], [i, j]] += weight
        laplacian[[i, j], [j, i]] -= weight
    solve = np.linalg.inv(laplacian / PENALTY + difference.T @ difference) @ difference.T
    x, slack, dual = np.zeros(n), least, np.zeros(len(gaps))
    for _ in range(STEPS):
        x = solve @ (slack - dual)
        relaxed = RELAXATION * (difference @ x) + (1 - RELAXATION) * slack
        before, slack = slack, np.maximum(relaxed + dual, least)
        dual += relaxed - slack
        if np.abs([relaxed - slack, slack - before]).max(initial=0.0) < 1e-6:
            break
    for (i, j), gap in sorted(gaps.items(), key=lambda item: item[0][1]):
        x[j] = max(x[j], x[i] + gap)
    return x.tolist()


def _ordinates(rows: _Rows, sizes: Sizes, x: Mapping[Spot, float]) -> tuple[list[float], list[float]]:
    """The middle of every row and its height."""
    heights, heads, feet = ([0.0] * rows.n_rows for _ in range(3))
    for name, (_, height) in sizes.items():
        heights[rows.row[name]] = max(heights[rows.row[name]], height)
    for plate in rows.plates:
        first, last = rows.extent[plate][0], rows.extent[plate][-1]
        outer = [rows.extent[other] for other in (plate, *rows.around(plate))]
        heads[first] = max(heads[first], PLATE_PAD * sum(extent[0] == first for extent in outer))
        feet[last] = max(feet[last], PLATE_FOOT * sum(extent[-1] == last for extent in outer))
    middles: list[float] = []
    y = MARGIN
    for row, height in enumerate(heights):
        middles.append(y + heads[row] + height / 2)
        lean = max((abs(x[upper] - x[lower]) for upper, lower in rows.segments[row]), default=0.0)
        y += heads[row] + height + feet[row] + ROW_GAP + min(40.0, 0.06 * lean)
    return middles, heights


def _routes(
    rows: _Rows, sizes: Sizes, x: Mapping[Spot, float], middles: list[float], heights: list[float]
) -> dict[tuple[str, str], list[Waypoint]]:
    """Edges run straight through rows, leaning as far as their neighbours there allow, and curve between."""
    limit = {}
    for height, row in zip(heights, rows.rows(), strict=True):
        leaves = [spot for spot in row if spot in rows.row]
        starts = [x[leaf] - _half(sizes, leaf) for leaf in leaves[1:]] + [inf]
        stops = [-inf] + [x[leaf] + _half(sizes, leaf) for leaf in leaves[:-1]]
        for leaf, before, after in zip(leaves, stops, starts, strict=True):
            free = min(x[leaf] - before, after - x[leaf]) - BEND_ROOM / 2
            limit[leaf] = min(STEEPEST, free / (height / 2 + ARROW + 1))
    routes = {}
    for chain in rows.chains:
        points = [(x[leaf], middles[rows.row[leaf]]) for leaf in chain]
        secants = [(b[0] - a[0]) / (b[1] - a[1]) for a, b in pairwise(points)]
        way: list[Waypoint] = []
        for leaf, point, *around in zip(chain, points, secants[:1] + secants, secants + secants[-1:], strict=True):
            lean, half = _harmonic_mean(*around), heights[rows.row[leaf]] / 2
            slope = copysign(min(abs(lean), limit[leaf]), lean)
            way += [(point[0] + slope * dy, point[1] + dy, slope) for dy in (-half - ARROW - 1, half)]
        way[0], way[-1] = (*points[0], way[0][2]), (*points[-1], way[-1][2])
        routes[chain[0], chain[-1]] = way
    return routes


def _harmonic_mean(a: float, b: float) -> float:
    """Zero for opposite signs: the slope that keeps a cubic between its ends from overshooting [4]_."""
    return 2 * a * b / (a + b) if a * b > 0 else 0.0


def _kind(name: str, attributes: Mapping[str, Any]) -> str:
    kind = attributes.get("kind", "random")
    if kind not in LOOKS:
        raise ValueError(f"node '{name}' has kind '{kind}'; allowed are {', '.join(LOOKS)}")
    return kind


def _lines(name: str, attributes: Mapping[str, Any]) -> list[tuple[str, float]]:
    """What is written in a node, with the size of the letters."""
    text = "" if attributes.get("kind") == "potential" else _shorten(attributes.get("text") or "", LONGEST_TEXT)
    return [(_shorten(name, LONGEST_NAME), NAME_SIZE), (text, TEXT_SIZE)][: 2 if text else 1]


def _draw_node(graph: nx.DiGraph, name: str, box: Box) -> str:
    attributes = graph.nodes[name]
    kind, lines, (x, y) = _kind(name, attributes), _lines(name, attributes), box.middle
    baseline = y + (SQUARE / 2 + NAME_SIZE if kind == "potential" else 4.5 - 6.5 * (len(lines) - 1))
    if kind == "potential":
        box = Box(x - SQUARE / 2, y - SQUARE / 2, SQUARE, SQUARE)
    if kind in ROUND:
        shape = _tag("ellipse", cx=x, cy=y, rx=box.width / 2, ry=box.height / 2, **LOOKS[kind])
    else:
        shape = _rectangle(box, LOOKS[kind])
    texts = [_text(*line, x, baseline + 14 * k, SOFT if k else INK) for k, line in enumerate(lines)]
    return _tag("g", _tag("title", _xml(_tooltip(graph, name))), shape, *texts, data_node=name)


def _rectangle(box: Box, look: Mapping[str, Any]) -> str:
    return _tag("rect", x=box.left, y=box.top, width=box.width, height=box.height, **look)


def _draw_plate(plan: Layout, plate: Plate) -> str:
    look = {"rx": 8, "fill": "#64748b", "fill_opacity": "0.06", "stroke": "#94a0b0"}
    return _rectangle(plan.plates[plate], look | {"data_plate": ", ".join(plate)})


def _draw_label(plan: Layout, plate: Plate) -> str:
    """At the lower right, or left if fewer edges pass there; what passes even so is faded."""
    box, width = plan.plates[plate], _text_width(plan.labels[plate], TEXT_SIZE)
    spots = [Box(left, box.bottom - 19, width, 14) for left in (box.right - 8 - width, box.left + 8)]
    crossed = [sum(_passes(way, spot) for way in plan.routes.values()) for spot in spots]
    spot = spots[crossed[1] < crossed[0]]
    veil = _rectangle(spot, {"fill": "#f3f5f8", "fill_opacity": "0.8"}) if min(crossed) else ""
    return veil + _text(plan.labels[plate], TEXT_SIZE, spot.middle[0], spot.middle[1] + 4, SOFT)


def _passes(way: list[Waypoint], box: Box) -> bool:
    """Whether an edge goes through a box."""
    return any(box.left <= _x_at(way, y) <= box.right for y in (box.top, box.middle[1], box.bottom))


def _x_at(way: list[Waypoint], y: float) -> float:
    """The x of a route at some height; NaN above and below it."""
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
    length = hypot(slope, 1)
    dy = _reach(graph.nodes[child], plan.nodes[child], slope, below=False) + 1 / length
    tip_x, tip_y = x - slope * dy, y - dy
    right, down = ARROW * slope / length, ARROW / length
    way[-1] = (tip_x - right, tip_y - down, slope)
    corners = [(tip_x - right + k * down, tip_y - down - k * right) for k in (0.38, -0.38)]
    head = " ".join(f"{_n(x)},{_n(y)}" for x, y in [(tip_x, tip_y), *corners])
    line = _tag("path", d=_curve(way), fill="none", stroke=LINE)
    return _tag("g", line, _tag("polygon", points=head, fill=LINE), data_from=parent, data_to=child)


def _reach(attributes: Mapping[str, Any], box: Box, slope: float, *, below: bool) -> float:
    """How far below or above its middle a line of this dx/dy leaves the node."""
    kind = attributes.get("kind", "random")
    if kind in ROUND:
        return 1 / hypot(2 / box.height, 2 * slope / box.width)
    if kind == "potential" and not below:
        return SQUARE / 2 / max(1.0, abs(slope))
    return min(box.height / 2, box.width / 2 / max(abs(slope), 1e-9))


def _curve(way: list[Waypoint]) -> str:
    """Each cubic Hermite piece as a Bézier curve."""
    parts = [f"M{_n(way[0][0])} {_n(way[0][1])}"]
    for (x0, y0, slope0), (x1, y1, slope1) in pairwise(way):
        third = (y1 - y0) / 3
        controls = (x0 + slope0 * third, y0 + third, x1 - slope1 * third, y1 - third, x1, y1)
        parts.append("C" + " ".join(map(_n, controls)))
    return "".join(parts)


def _sized(graph: nx.DiGraph, dims: Iterable[str]) -> str:
    lengths = graph.graph.get("dims") or {}
    return ", ".join(dim if lengths.get(dim) is None else f"{dim} × {lengths[dim]}" for dim in dims)


def _tooltip(graph: nx.DiGraph, name: str) -> str:
    attributes = graph.nodes[name]
    dims, text = _sized(graph, attributes.get("dims") or ()), attributes.get("text")
    return f"{name}{f'[{dims}]' if dims else ''}{f': {text}' if text else ''} ({_kind(name, attributes)})"


def _description(graph: nx.DiGraph) -> str:
    parents = ((name, ", ".join(other for other in graph if other in graph.pred[name])) for name in graph)
    given = [f"{name} depends on {names}" for name, names in parents if names]
    return "; ".join([f"{len(graph)} nodes, {graph.number_of_edges()} edges", *given])


def _tag(tag: str, *inside: str, **attributes: str | float) -> str:
    listed = "".join(
        f" {key.replace('_', '-')}={quoteattr(_legal(value) if isinstance(value, str) else _n(value))}"
        for key, value in attributes.items()
    )
    return f"<{tag}{listed}>{''.join(inside)}</{tag}>" if inside else f"<{tag}{listed}/>"


def _text(line: str, size: float, x: float, y: float, colour: str) -> str:
    return _tag("text", _xml(line), x=x, y=y, font_size=size, fill=colour) if line else ""


def _text_width(line: str, size: float) -> float:
    """An estimate that errs a little on the wide side of Helvetica."""
    return size * sum(map(_em, line))


def _em(char: str) -> float:
    if unicodedata.combining(char):
        return 0.0
    if unicodedata.east_asian_width(char) in "WF":
        return 1.0
    if char in "ijl'|.,:; !ft()[]r-":
        return 0.36
    return 0.9 if char in "mwMW@%" else 0.74 if char.isupper() else 0.6


def _shorten(text: str, longest: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _n(value: float) -> str:
    return f"{round(value, 1) + 0.0:.7g}"


def _legal(text: str) -> str:
    """With what XML 1.0 forbids replaced."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)


def _xml(text: str) -> str:
    return escape(_legal(text))
