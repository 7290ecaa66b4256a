"""Layout of the nodes, plates and edges of a directed graph.

The layout is Sugiyama's [1]_: every node gets a row, edges over several rows get *bends* in the rows
between, rows are ordered to have few crossings, and then x is chosen to make edges short and straight.
Plates complicate the last two steps. A plate is one rectangle, so it must have the same position among its
neighbours in all the rows it covers. This is ensured if every row is read from one global order in which
each plate is contiguous: a tree whose leaves are nodes and bends and whose branches are plates. Given such
an order, all constraints on x ("a ends before b begins", where a and b may be sides of plates) have the same
direction and can be satisfied together; the shortest edges that satisfy them solve a quadratic programme.

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
.. [5] Coffman, E. G., Graham, R. L. (1972). Optimal scheduling for two-processor systems. Acta
   Informatica 1, 200-213.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import copysign, inf, isqrt
from statistics import fmean
from typing import Any

import networkx as nx
import numpy as np

from bayeslab.plots.svg import ARROW, Box, Waypoint, text_width

__all__ = ["MARGIN", "PLATE_PAD", "Layout", "Plate", "folded_rows", "layout", "node_rows", "sized"]

type Plate = tuple[str, ...]  # its dimensions
type Unit = Any  # a node: str; a bend: (number of the edge, row); a plate
type Spot = Any  # a node, a bend or a side of a plate: (plate, "left" or "right")
type Sizes = Mapping[Any, tuple[float, float]]

# Lengths are CSS pixels.
MARGIN, ROW_GAP = 14.0, 42.0
NODE_ROOM, SIDE_ROOM, BEND_ROOM = 11.0, 9.0, 6.0  # free space on either side
PLATE_PAD, PLATE_FOOT = 12.0, 22.0  # inside a plate: left, right and above; below, where its label is
TEXT_SIZE = 10.5  # of the labels of plates
STEEPEST = 2.5  # |dx/dy| of an edge within a row
SWEEPS, PASSES, STEPS = 16, 6, 1500
RELAXATION, PENALTY = 1.6, 20.0  # of the solver for x; chosen by its speed on graphs of 10 to 60 nodes
DENSE = 40_000  # entries of a matrix below which sparse ones are slower


@dataclass(frozen=True)
class Layout:
    """Positions of nodes, plates and edges.

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


def layout(graph: nx.DiGraph, sizes: Mapping[str, tuple[float, float]], row: Mapping[str, int] | None = None) -> Layout:
    """Place the nodes, plates and edges of a directed acyclic graph.

    Parameters
    ----------
    graph
        Edges go from parent to child. Node attribute, optional: ``dims`` (names of dimensions).
        ``graph.graph["dims"]`` maps a dimension to its length or None.
    sizes
        Width and height of every node.
    row
        The row of every node, below those of its parents; default: as few rows as possible.

    Raises
    ------
    ValueError
        If the graph has a cycle.
    """
    rows = _Rows(graph, node_rows(graph) if row is None else row)
    rows.reduce_crossings()
    labels = {
        plate: sized(graph, [dim for dim in plate if dim not in (rows.parent[plate] or ())]) for plate in rows.plates
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


class _Rows:
    """Nodes and bends in rows, and the tree of plates from which their order is read.

    ``chains`` are the edges as node, bends, node; ``parent`` is the innermost plate around a unit.
    """

    def __init__(self, graph: nx.DiGraph, row: Mapping[str, int]) -> None:
        self.row: dict[Unit, int] = dict(row)
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
        """Return the plates around a unit, innermost first."""
        plate = self.parent[unit]
        return [plate, *self.around(plate)] if plate else []

    def _chain(self, number: int, parent: str, child: str) -> list[Unit]:
        """Return an edge with its bends, which lie in the innermost plate that contains both ends."""
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
        """Yield nodes, bends and sides of plates in the global order."""
        for unit in self.tree[plate]:
            if unit in self.tree:
                yield from ((unit, "left"), *self.spots(unit), (unit, "right"))
            else:
                yield unit

    def rows(self) -> list[list[Spot]]:
        """Return the content of each row from left to right, with the sides of the plates that cover it."""
        rows: list[list[Spot]] = [[] for _ in range(self.n_rows)]
        for spot in self.spots():
            for row in (self.row[spot],) if spot in self.row else self.extent[spot[0]]:
                rows[row].append(spot)
        return rows

    def slots(self) -> dict[Spot, float]:
        """Return the position of every node and bend in its row, counted from the centre."""
        rows = [(len(row), enumerate(row)) for row in self.rows()]
        return {spot: k - (n - 1) / 2 for n, row in rows for k, spot in row if spot in self.row}

    def cost(self) -> tuple[int, float]:
        """Return the number of crossings and, as a tie-breaker, the total slant of the edges."""
        slot, crossings, lean = self.slots(), 0, 0.0
        for segments in self.segments:
            ends: list[float] = []
            for upper, lower in sorted((slot[upper], slot[lower]) for upper, lower in segments):
                crossings += len(ends) - bisect_right(ends, lower)
                insort(ends, lower)
                lean += abs(upper - lower)
        return crossings, lean

    def reduce_crossings(self) -> None:
        """Reduce crossings by barycentre sweeps down and up [1]_, then by exchanges of neighbours [2]_."""
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
        if not self.plates:
            self._exchange_in_rows()
            return
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

    def _exchange_in_rows(self) -> None:
        """Exchange neighbours; without plates only their own edges need to be checked."""
        rows, slot = self.rows(), self.slots()
        for _ in range(4 * PASSES):
            exchanged = False
            for row in rows:
                for k in range(len(row) - 1):
                    a, b = row[k], row[k + 1]
                    if self._saving(a, b, slot) > (0, 1e-9):
                        row[k], row[k + 1], slot[a], slot[b] = b, a, slot[b], slot[a]
                        exchanged = True
            if not exchanged:
                break
        self.tree[None] = [unit for row in rows for unit in row]

    def _saving(self, a: Unit, b: Unit, slot: Mapping[Unit, float]) -> tuple[int, float]:
        """Return the decrease of the cost when ``a`` and its right neighbour are exchanged."""
        crossings, lean = 0, 0.0
        for beside in (self.above, self.below):
            of_a, of_b = [slot[other] for other in beside[a]], [slot[other] for other in beside[b]]
            crossings += sum((p > q) - (p < q) for p in of_a for q in of_b)
            lean += sum(abs(p - slot[a]) - abs(p - slot[b]) for p in of_a)
            lean += sum(abs(q - slot[b]) - abs(q - slot[a]) for q in of_b)
        return crossings, lean

    def _exchange(self, cost: tuple[int, float], a: Spot, b: Spot) -> tuple[int, float]:
        """Try to move a unit behind its neighbour, then the neighbour before it; keep the cheaper order."""
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


def node_rows(graph: nx.DiGraph) -> dict[str, int]:
    """Return rows by the longest path from a source; nodes with more children than parents move down towards them."""
    if not nx.is_directed_acyclic_graph(graph):
        cycle = [parent for parent, *_ in nx.find_cycle(graph)]
        raise ValueError(f"the graph has a cycle: {' → '.join([*cycle, cycle[0]])}")
    generations = list(nx.topological_generations(graph))
    row: dict[str, int] = {name: k for k, names in enumerate(generations) for name in names}
    for name in reversed(list(nx.topological_sort(graph))):
        if graph.out_degree(name) > graph.in_degree(name):
            row[name] = min(row[child] for child in graph[name]) - 1
    alone = list(nx.isolates(graph))  # otherwise they would form one long line
    n_rows = max(len(generations), isqrt(len(alone)))
    return row | {name: k * n_rows // len(alone) for k, name in enumerate(alone)}


def folded_rows(graph: nx.DiGraph, sizes: Sizes, width: float) -> dict[str, int]:
    """Return rows no wider than ``width`` (unless a node is wider), with as many rows as needed.

    Nodes are sorted by the length of the longest path below them, placed from the bottom up where there is
    room ([5]_), and then moved to shorten their edges.
    """
    depth: dict[str, int] = {}
    for name in nx.topological_sort(graph):
        depth[name] = 1 + max((depth[parent] for parent in graph.pred[name]), default=-1)
    degree = {name: bool(graph.pred[name] or graph[name]) for name in graph}
    room: list[float] = []
    level: dict[str, int] = {}
    waiting = {name: graph.out_degree(name) for name in graph}
    ready = [name for name in graph if not waiting[name]]
    now = 0
    while ready:
        room.append(width)
        placed = []
        for name in sorted(ready, key=lambda name: (degree[name], depth[name]), reverse=True):
            need = sizes[name][0] + 2 * NODE_ROOM
            if need <= room[now] or room[now] == width:
                level[name] = now
                room[now] -= need
                placed.append(name)
        for name in placed:
            ready.remove(name)
            for parent in graph.pred[name]:
                waiting[parent] -= 1
                if not waiting[parent]:
                    ready.append(parent)
        now += 1
    _shorten_edges(graph, sizes, level, room)
    return {name: now - 1 - level[name] for name in graph}


def _shorten_edges(graph: nx.DiGraph, sizes: Sizes, level: dict[str, int], room: list[float]) -> None:
    """Move nodes up or down between their parents and children, into rows that have room."""
    for _ in range(PASSES):
        moved = False
        for name in graph:
            above, below = [level[other] for other in graph.pred[name]], [level[other] for other in graph[name]]
            if len(above) == len(below):
                continue
            lowest, highest = max(below, default=-1) + 1, min(above, default=len(room)) - 1
            need = sizes[name][0] + 2 * NODE_ROOM
            rows = range(highest, level[name], -1) if len(above) > len(below) else range(lowest, level[name])
            better = next((row for row in rows if room[row] >= need), None)
            if better is not None:
                room[level[name]] += need
                room[better] -= need
                level[name], moved = better, True
        if not moved:
            return


def _innermost(plate: Plate, plates: list[Plate]) -> Plate | None:
    """Return the enclosing plate with the most dimensions in common; on a tie, the one with the foremost dimensions."""
    around = [other for other in plates if {*other} < {*plate}]
    return max(around, key=lambda other: (len(other), [-plate.index(dim) for dim in other]), default=None)


def _abscissas(rows: _Rows, sizes: Sizes, labels: Mapping[Plate, str]) -> dict[Spot, float]:
    """Return the x of the centre of every node, of every bend and of both sides of every plate."""
    spots = list(rows.spots())
    index = {spot: k for k, spot in enumerate(spots)}
    gaps: dict[tuple[int, int], float] = defaultdict(float)
    for plate, label in labels.items():
        gaps[index[plate, "left"], index[plate, "right"]] = text_width(label, TEXT_SIZE) + 20
    for a, b in (pair for row in rows.rows() for pair in pairwise(row)):
        within = a[1:] == ("left",) or b[1:] == ("right",)
        gap = PLATE_PAD if within else sum(_room(rows, spot) for spot in (a, b))
        gap += _half(sizes, a) + _half(sizes, b)
        gaps[index[a], index[b]] = max(gap, gaps[index[a], index[b]])
    pulls = []
    for a, b in (pair for segments in rows.segments for pair in segments):
        # Long edges should be straight: weights 1, 2 and 8 in [2]_, section 4.
        pulls.append((index[a], index[b], (8.0, 2.0, 1.0)[(a in sizes) + (b in sizes)]))
    for plate in rows.plates:
        sides = index[plate, "left"], index[plate, "right"]
        pulls += [(index[leaf], side, 5e-3) for leaf in rows.leaves(plate) for side in sides]
    x = shortest(len(spots), pulls, gaps)
    left = min((x[index[spot]] - _half(sizes, spot) for spot in spots), default=0.0)
    return {spot: x[index[spot]] - left + MARGIN for spot in spots}


def _half(sizes: Sizes, spot: Spot) -> float:
    return sizes[spot][0] / 2 if spot in sizes else 0.0


def _room(rows: _Rows, spot: Spot) -> float:
    """Return the free space on either side."""
    return NODE_ROOM if isinstance(spot, str) else BEND_ROOM if spot in rows.row else SIDE_ROOM


def shortest(n: int, pulls: list[tuple[int, int, float]], gaps: Mapping[tuple[int, int], float]) -> list[float]:
    """Minimise the sum of w (x_i - x_j)² over pulls (i, j, w), given x_j - x_i >= gaps[i, j].

    The solver is the alternating direction method of multipliers ([3]_, sections 3.4.3 and 5.2). As i < j
    in every gap, one final pass to the right removes small remaining violations.
    """
    from scipy import sparse
    from scipy.sparse.linalg import splu

    least, k = np.array(list(gaps.values())), np.arange(len(gaps))
    before_after = np.array(list(gaps), dtype=int).reshape(-1, 2)
    signs = np.concatenate([np.full(len(gaps), -1.0), np.ones(len(gaps))])
    difference = sparse.csr_array((signs, (np.tile(k, 2), before_after.T.ravel())), shape=(len(gaps), n))
    i, j, weight = np.array(pulls, dtype=float).reshape(-1, 3).T
    ends = np.concatenate([i, j, i, j]).astype(int), np.concatenate([i, j, j, i]).astype(int)
    # The diagonal attracts components that no edge connects.
    laplacian = sparse.csr_array((np.concatenate([weight, weight, -weight, -weight]), ends), shape=(n, n))
    laplacian = laplacian + 1e-5 * sparse.eye_array(n)
    transposed = difference.T.tocsr()
    system = splu((laplacian / PENALTY + transposed @ difference).tocsc())
    if n * len(gaps) <= DENSE:
        difference = difference.toarray()
        inverse = system.solve(difference.T.copy())
        solve = inverse.__matmul__
    else:

        def solve(right: np.ndarray) -> np.ndarray:
            return system.solve(transposed @ right)

    x, slack, dual = np.zeros(n), least, np.zeros(len(gaps))
    for _ in range(STEPS):
        x = solve(slack - dual)
        relaxed = RELAXATION * (difference @ x) + (1 - RELAXATION) * slack
        before, slack = slack, np.maximum(relaxed + dual, least)
        dual += relaxed - slack
        if np.abs([relaxed - slack, slack - before]).max(initial=0.0) < 1e-6:
            break
    for (left, right), gap in sorted(gaps.items(), key=lambda item: item[0][1]):
        x[right] = max(x[right], x[left] + gap)
    return x.tolist()


def _ordinates(rows: _Rows, sizes: Sizes, x: Mapping[Spot, float]) -> tuple[list[float], list[float]]:
    """Return the centre and the height of every row."""
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
    """Return the routes: straight through rows, slanted as far as the neighbours allow, and curved between rows."""
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
    """Return the harmonic mean, or zero for opposite signs: the slope that prevents a cubic from overshooting [4]_."""
    return 2 * a * b / (a + b) if a * b > 0 else 0.0


def sized(graph: nx.DiGraph, dims: Iterable[str]) -> str:
    lengths = graph.graph.get("dims") or {}
    return ", ".join(dim if lengths.get(dim) is None else f"{dim} × {lengths[dim]}" for dim in dims)
