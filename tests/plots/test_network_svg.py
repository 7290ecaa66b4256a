"""The picture of a network: probabilities and bars say the same, evidence shows, nothing overlaps."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from statistics import NormalDist
from types import SimpleNamespace
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayeslab as bl
from bayeslab.decisions.influence import InfluenceDiagram, solve
from bayeslab.latents.networks.strong_junction_tree import NormalMixture
from bayeslab.plots.network_svg import MOST_BOXES, MOST_NODES, influence_svg, network_svg, percent
from bayeslab.plots.placement import folded_rows

SVG = "{http://www.w3.org/2000/svg}"
FOLDER = Path(__file__).parents[2].parent / "shared" / "data" / "networks"

type Rectangle = tuple[float, float, float, float]  # left, top, right, bottom


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def groups(svg: str) -> dict[str, ElementTree.Element]:
    return {g.attrib["data-node"]: g for g in parsed(svg).iter(f"{SVG}g") if "data-node" in g.attrib}


def words(group: ElementTree.Element) -> list[str]:
    return [t.text or "" for t in group.iter(f"{SVG}text")]


def bars(group: ElementTree.Element) -> dict[str, float]:
    found = (r for r in group.iter(f"{SVG}rect") if "data-state" in r.attrib)
    return {r.attrib["data-state"]: float(r.attrib["width"]) for r in found}


def frame(group: ElementTree.Element) -> Rectangle:
    shape = group[1]
    if shape.tag == f"{SVG}polygon":
        x, y = np.array(re.findall(r"-?[\d.]+", shape.attrib["points"]), dtype=float).reshape(-1, 2).T
        return float(x.min()), float(y.min()), float(x.max()), float(y.max())
    left, top, width, height = (float(shape.attrib[key]) for key in ("x", "y", "width", "height"))
    return left, top, left + width, top + height


def overlap(a: Rectangle, b: Rectangle) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def drawn_edges(svg: str) -> dict[tuple[str, str], np.ndarray]:
    """Points along every edge as drawn: its Bézier pieces, evaluated."""
    t = np.linspace(0, 1, 25)[:, None]
    edges = {}
    for group in parsed(svg).iter(f"{SVG}g"):
        if "data-from" not in group.attrib:
            continue
        xy = np.array(re.findall(r"-?[\d.]+", group[0].attrib["d"]), dtype=float).reshape(-1, 2)
        pieces = [xy[k : k + 4] for k in range(0, len(xy) - 1, 3)]
        curve = [
            (1 - t) ** 3 * p[0] + 3 * t * (1 - t) ** 2 * p[1] + 3 * t**2 * (1 - t) * p[2] + t**3 * p[3] for p in pieces
        ]
        edges[group.attrib["data-from"], group.attrib["data-to"]] = np.concatenate(curve)
    return edges


def crossed(points: np.ndarray, box: Rectangle) -> bool:
    x, y = points.T
    return bool(np.any((x > box[0]) & (x < box[2]) & (y > box[1]) & (y < box[3])))


def check_picture(svg: str, graph: nx.DiGraph | nx.Graph) -> None:
    """Every variable and edge once, no box over another one, every edge from box to box and round the others."""
    nodes, edges = groups(svg), drawn_edges(svg)
    assert list(nodes) == list(graph)
    assert sorted(map(sorted, edges)) == sorted(map(sorted, graph.edges))
    boxes = {name: frame(group) for name, group in nodes.items()}
    assert not any(overlap(a, b) for a, b in combinations(boxes.values(), 2))
    _, _, width, height = map(float, parsed(svg).attrib["viewBox"].split())
    assert all(min(b) >= 0 and b[2] <= width and b[3] <= height for b in boxes.values())
    for (a, b), points in edges.items():
        (x, y), tip = points[0], points[-1]
        assert boxes[a][0] <= x <= boxes[a][2]
        assert y == pytest.approx(boxes[a][3], abs=0.2)
        assert boxes[b][0] - 9 <= tip[0] <= boxes[b][2] + 9
        assert boxes[b][1] - 10 <= tip[1] <= boxes[b][1]
        assert not any(crossed(points, box) for name, box in boxes.items() if name not in (a, b)), (a, b)


def chain() -> tuple[nx.DiGraph, dict[str, dict[str, float]]]:
    graph = nx.DiGraph([("a", "b")], name="chain")
    return graph, {"a": {"yes": 0.25, "no": 0.75}, "b": {"low": 0.125, "middle": 0.0, "high": 0.875}}


def test_percentages_and_bars_correspond():
    graph, marginals = chain()
    nodes = groups(network_svg(graph, marginals))
    assert words(nodes["a"]) == ["a", "yes", "25.0%", "no", "75.0%"]
    assert words(nodes["b"]) == ["b", "low", "12.5%", "middle", "0%", "high", "87.5%"]
    a, b = bars(nodes["a"]), bars(nodes["b"])
    assert a["no"] == pytest.approx(3 * a["yes"], abs=0.2)
    assert b["high"] == pytest.approx(7 * b["low"], abs=0.4)
    assert "middle" not in b
    assert a["no"] / 0.75 == pytest.approx(b["high"] / 0.875, rel=0.01)


@pytest.mark.parametrize(
    ("probability", "said"),
    [
        (0.0, "0%"),
        (1.2e-5, "<0.1%"),
        (0.00049, "<0.1%"),
        (0.0005, "0.1%"),
        (0.55, "55.0%"),
        (0.9994, "99.9%"),
        (0.9996, ">99.9%"),
        (1 - 1e-9, ">99.9%"),
        (1 - 2**-53, "100%"),
        (1.0, "100%"),
    ],
)
def test_percent(probability, said):
    assert percent(probability) == said


@given(st.floats(1e-300, 1 - 1e-9))
def test_what_is_possible_is_never_0_and_what_is_uncertain_never_100(p):
    assert percent(p) not in ("0%", "0.0%", "100%", "100.0%")


def test_small_probabilities_are_whole_in_the_tooltip_and_still_have_a_bar():
    graph = nx.DiGraph()
    graph.add_node("x")
    (group,) = groups(network_svg(graph, {"x": {"rare": 1.2e-5, "else": 1 - 1.2e-5}})).values()
    assert "rare: 0.0012%" in (group[0].text or "")
    assert bars(group)["rare"] > 0


def test_evidence_is_marked():
    graph, marginals = chain()
    marginals["a"] = {"yes": 1.0, "no": 0.0}
    plain = groups(network_svg(graph, marginals))
    nodes = groups(network_svg(graph, marginals, {"a": "yes", "b": {"low": 0.2, "middle": 0.1, "high": 0.4}}))
    marks = [e.attrib["data-observed"] for e in nodes["a"].iter() if "data-observed" in e.attrib]
    assert marks == ["yes"]
    assert "100%" in words(nodes["a"])
    assert [nodes[v].attrib["data-look"] for v in "ab"] == ["observed", "uncertain"]
    looks = {(g[1].attrib["fill"], g[1].get("stroke-dasharray")) for g in (plain["a"], nodes["a"], nodes["b"])}
    assert len(looks) == 3
    assert not any("data-observed" in e.attrib for e in nodes["b"].iter())
    ticks = {
        e.attrib["data-likelihood"]: float(e.attrib["x"]) for e in nodes["b"].iter() if "data-likelihood" in e.attrib
    }
    start = min(float(r.attrib["x"]) for r in nodes["b"].iter(f"{SVG}rect") if "data-state" in r.attrib) - 1
    assert (ticks["low"] - start) / (ticks["high"] - start) == pytest.approx(0.5, abs=0.01)
    assert (ticks["middle"] - start) / (ticks["high"] - start) == pytest.approx(0.25, abs=0.01)


def test_evidence_changes_the_picture_of_a_network():
    from bayeslab.latents.networks.network import DiscreteNetwork

    net = bl.network(
        DiscreteNetwork(
            {"smoke": ("yes", "no"), "lung": ("yes", "no")},
            {"smoke": (), "lung": ("smoke",)},
            {"smoke": np.array([0.5, 0.5]), "lung": np.array([[0.1, 0.9], [0.01, 0.99]])},
        )
    )
    assert words(groups(net.query().svg())["lung"]) == ["lung", "yes", "5.5%", "no", "94.5%"]
    shown = groups(net.query({"smoke": "yes"}).svg())
    assert words(shown["lung"]) == ["lung", "yes", "10.0%", "no", "90.0%"]
    assert shown["smoke"].attrib["data-look"] == "observed"


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("n", [30, MOST_BOXES + 5])
def test_nothing_moves_when_evidence_comes_in(n):
    graph, marginals = random_dag(n, 11)
    before = groups(network_svg(graph, marginals))
    a, b, c = list(graph)[:3]
    changed = {
        v: dict(zip(own, np.random.default_rng(n).dirichlet(np.ones(len(own))), strict=True))
        for v, own in marginals.items()
    }
    changed[a] = {s: float(s == "1") for s in changed[a]}
    after = groups(network_svg(graph, changed, {a: "1", b: {"0": 0.3, "1": 0.1}, c: "0"}))
    assert {v: frame(g) for v, g in before.items()} == {v: frame(g) for v, g in after.items()}


def test_without_marginals_there_are_names_and_what_was_given():
    graph, marginals = chain()
    nodes = groups(network_svg(graph, {"b": marginals["b"]}, {"a": "yes"}))
    assert words(nodes["a"]) == ["a", "observed", "= yes"]
    assert words(groups(network_svg(graph, {}))["a"]) == ["a"]


def test_of_many_states_the_most_probable_are_shown():
    graph = nx.DiGraph()
    graph.add_node("x")
    weights = np.array([3, 1, 8, 1, 9, 7, 6, 1, 5, 4, 1, 1], dtype=float)
    own = {f"s{k}": w for k, w in enumerate(weights / weights.sum())}
    (group,) = groups(network_svg(graph, {"x": own})).values()
    assert words(group)[1::2] == ["s0", "s2", "s4", "s5", "s6", "s8", "s9", "… 5 more"]
    assert words(group)[-1] == percent(5 / weights.sum())
    observed = {s: float(s == "s11") for s in own}
    (group,) = groups(network_svg(graph, {"x": observed}, {"x": "s11"})).values()
    assert "s11" in words(group)


def normal(mean: float, sd: float) -> SimpleNamespace:
    return SimpleNamespace(mean=mean, sd=sd, density=np.vectorize(NormalDist(mean, sd).pdf))


@pytest.mark.parametrize(
    ("mean", "sd", "said"),
    [(12.3456, 0.789, "12.35 ± 0.79"), (-3.0, 20.0, "−3 ± 20"), (1e9, 2e8, "1e+09 ± 2e+08"), (2.0, 1e-9, "2 ± 1e-09")],
)
def test_a_continuous_variable_is_a_curve_with_mean_and_sd(mean, sd, said):
    graph = nx.DiGraph([("u", "y")])
    (_, group) = groups(network_svg(graph, {"u": {"a": 1.0}}, None, {"y": normal(mean, sd)})).values()
    assert words(group) == ["y", said]
    line = next(p.attrib["d"] for p in group.iter(f"{SVG}path") if p.get("fill") == "none")
    x, y = np.array(re.findall(r"-?[\d.]+", line), dtype=float).reshape(-1, 2).T
    height = (y.max() - y) / (y.max() - y.min())
    z = (x - (x[0] + x[-1]) / 2) / (x[-1] - x[0]) * 8 * (len(x) - 1) / len(x)
    np.testing.assert_allclose(height, np.exp(-0.5 * z**2), atol=0.01)


def test_continuous_evidence_and_points():
    graph = nx.DiGraph([("x", "y")])
    nodes = groups(network_svg(graph, {}, {"x": -2.5}, {"y": normal(1.0, 1.0)}))
    assert words(nodes["x"]) == ["x", "observed", "= −2.5"]
    point = SimpleNamespace(mean=3.0, sd=0.0, density=lambda x: np.where(x == 3, np.inf, 0.0))
    assert words(groups(network_svg(graph, {}, None, {"y": point}))["y"]) == ["y", "3"]


@pytest.mark.parametrize("sd", [1e-6, 0.0])
def test_a_point_or_a_narrow_peak_is_not_lost(sd):
    mixed = NormalMixture(np.array([0.5, 0.5]), np.array([0.0, 1.0]), np.array([1.0, sd]))
    graph = nx.DiGraph()
    graph.add_node("x")
    (group,) = groups(network_svg(graph, {}, None, {"x": mixed})).values()
    line = next(p.attrib["d"] for p in group.iter(f"{SVG}path") if p.get("fill") == "none")
    x, y = np.array(re.findall(r"-?[\d.]+", line), dtype=float).reshape(-1, 2).T
    peak = (1.0 - mixed.mean) / mixed.sd
    assert (x[y.argmin()] - x[0]) / (x[-1] - x[0]) == pytest.approx((peak + 4) / 8, abs=0.01)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.text(max_size=40), min_size=2, max_size=4, unique=True))
def test_any_name_is_escaped(names):
    graph = nx.DiGraph([(names[0], other) for other in names[1:]], name=names[0])
    marginals = {v: {names[0]: 0.25, names[1]: 0.75} for v in names}
    svg = network_svg(graph, marginals, {names[0]: names[1], names[-1]: {names[0]: 1.0}})
    assert len(groups(svg)) == len(names)


def test_names_come_back_as_they_were_and_long_ones_in_the_tooltip():
    names = ['<a> & "b"', "it's 漢字 &amp; ]]>", "Zustand der Brücke, eine sehr lange Beschreibung"]
    svg = network_svg(nx.DiGraph([names[:2], names[1:]]), {names[0]: {"<&>": 1.0}})
    nodes = groups(svg)
    assert list(nodes) == names
    assert words(nodes[names[0]])[:2] == [names[0], "<&>"]
    (short,) = words(nodes[names[2]])
    assert short.endswith("…")
    assert names[2].startswith(short[:-1])
    assert nodes[names[2]][0].text == names[2]


def test_self_contained_accessible_and_the_same_every_time():
    graph, marginals = chain()
    svg = network_svg(graph, marginals, {"a": "yes"})
    assert svg == network_svg(graph, marginals, {"a": "yes"})
    root = parsed(svg)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == "Network chain: 2 variables, 1 arrow; given a = yes"
    assert root[0].tag.endswith("title") and root[0].text == root.attrib["aria-label"]
    assert root[1].tag.endswith("desc") and "b: low 12.5%" in (root[1].text or "")
    assert not {e.tag.removeprefix(SVG) for e in root.iter()} & {"script", "style", "image", "use", "foreignObject"}
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg\")|\bid=|url\(", svg)


def random_dag(n: int, seed: int) -> tuple[nx.DiGraph, dict[str, dict[str, float]]]:
    rng = np.random.default_rng(seed)
    graph = nx.DiGraph()
    graph.add_nodes_from(f"variable {k}" for k in range(n))
    pairs = combinations(graph, 2)
    graph.add_edges_from(pair for pair in pairs if rng.random() < 2.5 / n)
    sizes = rng.integers(2, 11, n)
    return graph, {
        v: dict(zip(map(str, range(k)), rng.dirichlet(np.ones(k)), strict=True))
        for v, k in zip(graph, sizes, strict=True)
    }


@pytest.mark.slow(why="large")
@pytest.mark.parametrize(
    ("n", "seed"), [(0, 0), (1, 0), (5, 1), (12, 2), (30, 3), (MOST_BOXES, 4), (MOST_BOXES + 20, 5)]
)
def test_boxes_do_not_overlap_and_edges_avoid_them(n, seed):
    graph, marginals = random_dag(n, seed)
    check_picture(network_svg(graph, marginals), graph)


def test_an_undirected_graph_has_no_arrows():
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4))
    graph = nx.relabel_nodes(graph, str)
    svg = network_svg(graph, {v: {"0": 0.5, "1": 0.5} for v in graph})
    check_picture(svg, graph)
    assert "polygon" not in svg


@pytest.mark.slow(why="large")
def test_large_networks_are_compact():
    graph, marginals = random_dag(MOST_BOXES + 1, 6)
    some = "variable 3"
    svg = network_svg(graph, marginals, {some: "1"})
    nodes = groups(svg)
    assert not any("%" in word for group in nodes.values() for word in words(group))
    assert words(nodes[some]) == [some, "= 1"]
    assert "0: " in (nodes["variable 0"][0].text or "")
    few = groups(network_svg(graph, {some: marginals[some]}))
    assert sum("%" in "".join(words(group)) for group in few.values()) == 1


def test_very_large_networks_are_summarised():
    graph = nx.DiGraph([(f"x{k}", f"x{k + 1}") for k in range(MOST_NODES)])
    svg = network_svg(graph, {"x7": {"a": 0.25, "b": 0.75}}, {"x9": "a"})
    assert len(svg) < 8000
    said = " ".join(t.text or "" for t in parsed(svg).iter(f"{SVG}text"))
    assert f"{MOST_NODES + 1} variables" in said
    assert "x9 = a" in said
    assert "25.0%" in said
    assert parsed(network_svg(graph, {v: {"a": 1.0} for v in graph})).tag == f"{SVG}svg"


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 25), st.integers(0, 10**6), st.floats(60, 1500))
def test_folded_rows_are_below_their_parents_and_no_wider_than_asked(n, seed, width):
    graph, _ = random_dag(n, seed)
    sizes = {v: (60.0 + 10 * (k % 4), 30.0) for k, v in enumerate(graph)}
    row = folded_rows(graph, sizes, width)
    assert set(row) == set(graph)
    assert all(row[a] < row[b] for a, b in graph.edges)
    for k in range(max(row.values()) + 1):
        own = [sizes[v][0] + 22 for v in graph if row[v] == k]
        assert sum(own) <= width or len(own) == 1


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("name", ["asia", "cancer", "sachs", "child", "insurance", "alarm", "hailfinder", "win95pts"])
def test_known_networks(name):
    file = FOLDER / f"{name}.bif"
    if not file.exists():
        pytest.skip(f"{file.name} is not here")
    net = bl.network(file)
    first = next(iter(net.states))
    query = net.query({first: net.states[first][0]})
    svg = query.svg()
    check_picture(svg, net.graph)
    if len(net.graph) > MOST_BOXES:
        return
    for v, group in groups(svg).items():
        numbers = [word for word in words(group) if word.endswith("%")]
        shown = sorted(query.marginals[v].values(), reverse=True)
        assert set(numbers) >= {percent(p) for p in shown[:7]}


def wildcatter() -> InfluenceDiagram:
    seismic = np.array([[[1, 0], [0.2, 0.8]], [[1, 0], [0.7, 0.3]]])
    return InfluenceDiagram(
        {"oil": ("dry", "wet"), "test": ("no", "yes"), "result": ("bad", "good"), "drill": ("yes", "no")},
        {"result": ("oil", "test"), "drill": ("test", "result"), "profit": ("oil", "drill"), "cost": ("test",)},
        {"oil": np.array([0.5, 0.5]), "result": seismic[::-1]},
        {"profit": np.array([[-100.0, 0], [120, 0]]), "cost": np.array([0.0, -5])},
        ("test", "drill"),
        "wildcatter",
    )


@pytest.mark.slow(why="compiles")
def test_an_influence_diagram_before_and_after_it_is_solved():
    """With the test, P(good | dry) = 0.3 and P(good | wet) = 0.8: drilling if good is worth -15 + 48 before its cost."""
    diagram = wildcatter()
    svg = influence_svg(diagram)
    check_picture(svg, diagram.graph)
    nodes = groups(svg)
    assert [nodes[v].attrib["data-look"] for v in ("oil", "drill", "profit")] == ["chance", "decision", "utility"]
    assert words(nodes["drill"]) == ["drill", "decision", "yes", "no"]
    assert words(nodes["cost"]) == ["cost"]
    assert nodes["profit"][1].tag == f"{SVG}polygon"
    dashed = {
        (g.attrib["data-from"], g.attrib["data-to"])
        for g in parsed(svg).iter(f"{SVG}g")
        if "data-from" in g.attrib and g[0].get("stroke-dasharray")
    }
    assert dashed == {("test", "drill"), ("result", "drill")}

    solved = influence_svg(diagram, solve(diagram))
    nodes = groups(solved)
    assert words(nodes["test"]) == ["test", "decision", "no", "0%", "yes", "100%"]
    assert words(nodes["drill"]) == ["drill", "decision", "yes", "55.0%", "no", "45.0%"]
    assert words(nodes["profit"]) == ["profit", "expected 33"]
    assert words(nodes["cost"]) == ["cost", "expected −5"]
    assert "expected utility 28" in parsed(solved).attrib["aria-label"]
