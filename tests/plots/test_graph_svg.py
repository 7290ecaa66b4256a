"""The picture of a model: what must hold for any graph, and what a reader sees for known ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import combinations, pairwise, product
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from bayeslab.plots.graph_svg import LOOKS, layout, model_svg, node_size
from bayeslab.plots.placement import PLATE_PAD, shortest
from bayeslab.plots.svg import Box

SVG = "{http://www.w3.org/2000/svg}"
DIMS = ((), ("county",), ("home",), ("county", "effect"), ("effect", "county", "year"), ("home", "effect"))


@st.composite
def dags(draw: st.DrawFn, max_nodes: int = 14) -> nx.DiGraph:
    n = draw(st.integers(0, max_nodes))
    names = draw(st.permutations([f"node {k}" * (1 + k % 3) for k in range(n)]))
    graph = nx.DiGraph(dims={"county": 85, "home": 919, "effect": None})
    for name in names:
        text = draw(st.sampled_from(["", "Normal", "exp(a + b * x)", "LKJCholeskyCov(2, Exponential(1), x)"]))
        graph.add_node(name, kind=draw(st.sampled_from(list(LOOKS))), text=text, dims=draw(st.sampled_from(DIMS)))
    order = draw(st.permutations(names))
    pairs = list(combinations(order, 2))
    if pairs:
        graph.add_edges_from(draw(st.lists(st.sampled_from(pairs), max_size=2 * n, unique=True)))
    return graph


def random_dag(n_nodes: int, seed: int) -> nx.DiGraph:
    rng = np.random.default_rng(seed)
    graph = nx.DiGraph(dims={"county": 85})
    for k in range(n_nodes):
        graph.add_node(f"x{k}", text="Normal", dims=DIMS[rng.integers(len(DIMS))])
    graph.add_edges_from((f"x{i}", f"x{j}") for i, j in combinations(range(n_nodes), 2) if rng.random() < 0.08)
    return graph


def eight_schools() -> nx.DiGraph:
    graph = nx.DiGraph(dims={"school": 8})
    graph.add_node("mu", kind="random", text="Normal")
    graph.add_node("tau", kind="random", text="HalfNormal")
    graph.add_node("theta", kind="random", text="Normal", dims=("school",))
    graph.add_node("sigma", kind="data", dims=("school",))
    graph.add_node("y", kind="observed", text="Normal", dims=("school",))
    graph.add_edges_from([("mu", "theta"), ("tau", "theta"), ("theta", "y"), ("sigma", "y")])
    return graph


def overlap(a: Box, b: Box) -> bool:
    return a.left < b.right and b.left < a.right and a.top < b.bottom and b.top < a.bottom


def contains(outer: Box, inner: Box) -> bool:
    return (
        outer.left < inner.left and inner.right < outer.right and outer.top < inner.top and inner.bottom < outer.bottom
    )


def elements(svg: str, attribute: str) -> list[ElementTree.Element]:
    return [element for element in ElementTree.fromstring(svg).iter() if attribute in element.attrib]


def drawn_edges(svg: str) -> dict[tuple[str, str], np.ndarray]:
    """Points along every edge as drawn: its Bézier pieces, evaluated."""
    t = np.linspace(0, 1, 25)[:, None]
    edges = {}
    for group in elements(svg, "data-from"):
        path = group.find(f"{SVG}path")
        assert path is not None
        xy = np.array(re.findall(r"-?[\d.]+", path.attrib["d"]), dtype=float).reshape(-1, 2)
        pieces = [xy[k : k + 4] for k in range(0, len(xy) - 1, 3)]
        curve = [
            (1 - t) ** 3 * p[0] + 3 * t * (1 - t) ** 2 * p[1] + 3 * t**2 * (1 - t) * p[2] + t**3 * p[3] for p in pieces
        ]
        edges[group.attrib["data-from"], group.attrib["data-to"]] = np.concatenate(curve)
    return edges


def inside(points: np.ndarray, box: Box, slack: float = 0.0) -> np.ndarray:
    x, y = points.T
    return (x > box.left - slack) & (x < box.right + slack) & (y > box.top - slack) & (y < box.bottom + slack)


any_dag = settings(max_examples=80, deadline=None, derandomize=True)


@pytest.mark.slow(why="large")
@any_dag
@given(dags())
def test_everything_is_drawn_once(graph):
    svg = model_svg(graph)
    assert [element.attrib["data-node"] for element in elements(svg, "data-node")] == list(graph)
    assert sorted(drawn_edges(svg)) == sorted(graph.edges)
    plates = [frozenset(element.attrib["data-plate"].split(", ")) for element in elements(svg, "data-plate")]
    assert sorted(map(sorted, plates)) == sorted(map(sorted, {frozenset(d) for _, d in graph.nodes("dims") if d}))


@pytest.mark.slow(why="large")
@any_dag
@given(dags())
def test_nodes_do_not_overlap_and_children_are_below(graph):
    plan = layout(graph)
    assert not any(overlap(a, b) for a, b in combinations(plan.nodes.values(), 2))
    assert all(plan.nodes[parent].bottom < plan.nodes[child].top for parent, child in graph.edges)
    page = Box(0, 0, plan.width, plan.height)
    assert all(contains(page, box) for box in (*plan.nodes.values(), *plan.plates.values()))


@pytest.mark.slow(why="large")
@any_dag
@given(dags())
def test_a_plate_holds_its_members_and_nothing_else(graph):
    plan = layout(graph)
    nested = {plate: {plate} for plate in plan.plates}
    for a, b in combinations(plan.plates, 2):
        if contains(plan.plates[a], plan.plates[b]):
            assert set(a) < set(b)
            nested[a].add(b)
        else:
            assert not overlap(plan.plates[a], plan.plates[b])
    for (plate, box), name in product(plan.plates.items(), graph):
        member = any(set(graph.nodes[name]["dims"]) == set(inner) for inner in nested[plate])
        assert contains(box, plan.nodes[name]) if member else not overlap(box, plan.nodes[name])


@pytest.mark.slow(why="large")
@any_dag
@given(dags())
def test_edges_join_their_nodes_and_avoid_the_others(graph):
    plan = layout(graph)
    for (parent, child), points in drawn_edges(model_svg(graph)).items():
        assert inside(points[:1], plan.nodes[parent], slack=0.2).all()
        assert inside(points[-1:], plan.nodes[child], slack=10).all()
        others = [box for name, box in plan.nodes.items() if name not in (parent, child)]
        assert not any(inside(points, box).any() for box in others)


@pytest.mark.slow(why="large")
@any_dag
@given(dags(max_nodes=8))
def test_the_same_graph_gives_the_same_text_however_its_edges_were_added(graph):
    again = nx.DiGraph(**graph.graph)
    again.add_nodes_from(graph.nodes(data=True))
    again.add_edges_from(reversed(list(graph.edges)))
    assert model_svg(graph) == model_svg(graph) == model_svg(again)


@pytest.mark.slow(why="large")
def test_the_text_does_not_depend_on_the_process_and_needs_no_heavy_library():
    code = (
        "import sys, networkx as nx; from bayeslab.plots.graph_svg import model_svg\n"
        "g = nx.DiGraph([(f'x{i}', f'x{j}') for j in range(12) for i in range(j) if (3 * i + j) % 4 == 0])\n"
        "[g.nodes[n].update(dims=('a', 'b')[: k % 3]) for k, n in enumerate(g)]\n"
        "print(model_svg(g)); print(sorted({'pymc', 'matplotlib', 'pytensor'} & set(sys.modules)))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert outputs.pop().endswith("[]\n")


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("seed", range(3))
def test_sixty_nodes(seed):
    graph = random_dag(60, seed)
    plan = layout(graph)
    assert not any(overlap(a, b) for a, b in combinations(plan.nodes.values(), 2))
    assert len(elements(model_svg(graph), "data-node")) == 60


def test_no_node_and_one_node():
    assert ElementTree.fromstring(model_svg(nx.DiGraph())).tag == f"{SVG}svg"
    graph = nx.DiGraph()
    graph.add_node("x")
    assert len(elements(model_svg(graph), "data-node")) == 1


def test_unconnected_nodes_fill_a_page_not_a_line():
    graph = nx.DiGraph()
    graph.add_nodes_from(f"x{k}" for k in range(36))
    plan = layout(graph)
    assert 0.5 < plan.width / plan.height < 2


def test_a_crossing_that_can_be_avoided_is_avoided():
    graph = nx.DiGraph()
    graph.add_nodes_from("abcdef")
    graph.add_edges_from(["af", "be", "cd"])
    nodes = layout(graph).nodes
    parents, children = (sorted(names, key=lambda name: nodes[name].left) for names in ("abc", "def"))
    assert [dict(zip("fed", "abc", strict=True))[child] for child in children] == parents


def test_a_chain_is_straight_and_a_parent_is_above_the_middle_of_its_children():
    graph = nx.DiGraph(["ab", "bc", "pq", "pr"])
    plan = layout(graph)
    x = {name: box.middle[0] for name, box in plan.nodes.items()}
    assert x["a"] == pytest.approx(x["b"], abs=0.5)
    assert x["b"] == pytest.approx(x["c"], abs=0.5)
    assert x["p"] == pytest.approx((x["q"] + x["r"]) / 2, abs=0.5)


def test_a_source_is_just_above_its_child():
    graph = nx.DiGraph([("a", "b"), ("b", "c"), ("sigma", "c")])
    nodes = layout(graph).nodes
    assert nodes["sigma"].middle[1] == nodes["b"].middle[1]


def test_given_sizes_are_kept():
    graph = nx.DiGraph(["ab"])
    assert {(b.width, b.height) for b in layout(graph, {"a": (200, 90), "b": (200, 90)}).nodes.values()} == {(200, 90)}


def test_plates_of_eight_schools():
    plan = layout(eight_schools())
    assert plan.labels == {("school",): "school × 8"}
    assert {name for name, box in plan.nodes.items() if contains(plan.plates["school",], box)} == {
        "theta",
        "sigma",
        "y",
    }


def test_a_plate_with_more_dimensions_is_inside_and_names_only_the_new_ones():
    graph = nx.DiGraph(dims={"cafe": 20, "effect": 2, "visit": None})
    graph.add_node("mu", dims=("effect",))
    graph.add_node("a", dims=("cafe",))
    graph.add_node("u", dims=("cafe", "effect"))
    graph.add_node("y", dims=("visit",))
    graph.add_edges_from([("mu", "u"), ("a", "u"), ("u", "y")])
    plan = layout(graph)
    assert contains(plan.plates["cafe",], plan.plates["cafe", "effect"])
    assert plan.labels["cafe", "effect"] == "effect × 2"
    assert plan.labels["visit",] == "visit"
    assert not overlap(plan.plates["effect",], plan.plates["cafe",])


def test_plates_are_no_wider_than_their_content():
    graph = nx.DiGraph()
    graph.add_node("L", text="LKJCholeskyCov(2, Exponential)", dims=("effect", "effect2"))
    graph.add_node("L_corr", dims=("effect", "effect2"))
    graph.add_nodes_from(["mu", "b"], text="Normal(0, 10)", dims=("effect",))
    graph.add_node("y", dims=("visit",))
    graph.add_edges_from([("L", "L_corr"), ("L", "b"), ("mu", "b"), ("b", "y"), ("L", "y")])
    plan = layout(graph)
    nodes, inner, outer = plan.nodes, plan.plates["effect", "effect2"], plan.plates["effect",]
    assert inner.left == pytest.approx(nodes["L"].left - PLATE_PAD, abs=0.5)
    assert inner.right == pytest.approx(nodes["L"].right + PLATE_PAD, abs=0.5)
    content = [inner, nodes["mu"], nodes["b"]]
    assert outer.left == pytest.approx(min(box.left for box in content) - PLATE_PAD, abs=0.5)
    assert outer.right == pytest.approx(max(box.right for box in content) + PLATE_PAD, abs=0.5)


def test_shapes_tell_the_kinds_apart():
    graph = nx.DiGraph()
    for kind in LOOKS:
        graph.add_node(kind, kind=kind)
    looks = {}
    for group in elements(model_svg(graph), "data-node"):
        shape = group[1]
        size = float(shape.get("width") or 2 * float(shape.attrib["rx"])) < 20
        looks[group.attrib["data-node"]] = (shape.tag, shape.get("fill"), shape.get("stroke-dasharray"), size)
    assert len(set(looks.values())) == len(LOOKS)
    assert looks["random"][0] == looks["observed"][0] == f"{SVG}ellipse"
    assert looks["deterministic"][2]


@any_dag
@given(st.lists(st.text(max_size=40), min_size=2, max_size=2, unique=True), st.text())
def test_any_name_and_text_is_escaped(names, text):
    graph = nx.DiGraph([tuple(names)])
    graph.nodes[names[0]]["text"] = text
    root = ElementTree.fromstring(model_svg(graph, title=text))
    assert sum("data-node" in element.attrib for element in root.iter()) == 2


def test_names_come_back_as_they_were():
    names = ['<μ> & "σ"', "it's 漢字 &amp; ]]>"]
    svg = model_svg(nx.DiGraph([tuple(names)]))
    assert [element.attrib["data-node"] for element in elements(svg, "data-node")] == names
    written = [text.text for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert written == names


def test_accessible():
    root = ElementTree.fromstring(model_svg(eight_schools(), title="Eight schools"))
    assert root.attrib["role"] == "img"
    assert (root[0].tag, root[0].text) == (f"{SVG}title", "Eight schools")
    assert "theta depends on mu, tau" in (root[1].text or "")
    assert "Eight schools" in [text.text for text in root.iter(f"{SVG}text")]
    assert model_svg(eight_schools()).count("<title>Graph of the model</title>") == 1


def test_long_text_is_cut_in_the_node_and_whole_in_its_tooltip():
    graph = nx.DiGraph(dims={"home": 919})
    text = "alpha[county] + beta[county] * floor + gamma * log(uranium[county])"
    graph.add_node("mu", kind="deterministic", text=text, dims=("home",))
    (group,) = elements(model_svg(graph), "data-node")
    assert group[0].text == f"mu[home × 919]: {text} (deterministic)"
    written = group[3].text
    assert written is not None
    assert written.endswith("…")
    assert text.startswith(written[:-1])


def test_node_size_grows_with_the_text():
    assert node_size("W" * 10, {})[0] > node_size("i" * 10, {})[0] > 0
    assert node_size("漢字漢字漢字漢字", {})[0] > node_size("abcdefgh", {})[0]
    assert node_size("x", {"text": "Normal"})[1] > node_size("x", {})[1]


@pytest.mark.parametrize(("edges", "cycle"), [(["ab", "bc", "ca", "xa"], "a → b → c → a"), ([("b", "b")], "b → b")])
def test_a_cycle_is_named(edges, cycle):
    with pytest.raises(ValueError, match=f"cycle: {cycle}$"):
        model_svg(nx.DiGraph(edges))


def test_an_unknown_kind_is_named():
    graph = nx.DiGraph()
    graph.add_node("x", kind="latent")
    with pytest.raises(ValueError, match=r"'x' has kind 'latent'; allowed are random, observed"):
        model_svg(graph)


@pytest.mark.parametrize("seed", range(5))
def test_x_is_the_least_squares_solution(seed):
    rng = np.random.default_rng(seed)
    n = 8
    gaps = {pair: 30.0 + 20 * rng.random() for pair in combinations(range(n), 2) if rng.random() < 0.4}
    pulls = [(i, i + 1, 1.0) for i in range(n - 1)]
    pulls += [(i, j, float(rng.choice([1, 2, 8]))) for i, j in combinations(range(n), 2) if rng.random() < 0.3]

    def energy(x):
        return sum(w * (x[i] - x[j]) ** 2 for i, j, w in pulls)

    x = shortest(n, pulls, gaps)
    assert all(x[j] - x[i] >= gap - 1e-6 for (i, j), gap in gaps.items())
    constraints = [{"type": "ineq", "fun": lambda x, i=i, j=j, g=g: x[j] - x[i] - g} for (i, j), g in gaps.items()]
    reference = minimize(energy, 50.0 * np.arange(n), constraints=constraints, method="SLSQP", options={"maxiter": 500})
    assert reference.success
    assert energy(x) == pytest.approx(reference.fun, rel=1e-3)


def test_routes_run_downwards():
    for way in layout(random_dag(30, 0)).routes.values():
        assert all(upper[1] < lower[1] for upper, lower in pairwise(way))
