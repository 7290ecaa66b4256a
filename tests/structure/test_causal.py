"""Acting against seeing: criteria against their definitions on every small graph, formulas against surgery."""

from __future__ import annotations

from itertools import chain, combinations, permutations, product

import networkx as nx
import numpy as np
import pytest

import bayeslab as bl
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.latents.networks.variable_elimination import eliminate
from bayeslab.structure import causal
from tests.refusals import refused
from tests.structure._dags import all_dags

NO_YES = ("no", "yes")


def subsets(names):
    return (frozenset(s) for s in chain.from_iterable(combinations(sorted(names), k) for k in range(len(names) + 1)))


def blocked(graph: nx.DiGraph, path: list[str], given: frozenset[str]) -> bool:
    for a, v, b in zip(path, path[1:], path[2:], strict=False):
        collider = graph.has_edge(a, v) and graph.has_edge(b, v)
        if (not ({v} | nx.descendants(graph, v)) & given) if collider else (v in given):
            return True
    return False


def back_paths(graph: nx.DiGraph, x: str, y: str) -> list[list[str]]:
    return [p for p in nx.all_simple_paths(graph.to_undirected(), x, y) if graph.has_edge(p[1], x)]


def back_door(graph: nx.DiGraph, x: str, y: str, z: frozenset[str]) -> bool:
    return not z & nx.descendants(graph, x) and all(blocked(graph, p, z) for p in back_paths(graph, x, y))


def front_door(graph: nx.DiGraph, x: str, y: str, z: frozenset[str]) -> bool:
    """Paths from Z to the outcome are those that do not begin with an arrow out of Z, nor pass along one later."""
    cut = graph.copy()
    cut.remove_edges_from(list(graph.out_edges(z)))
    return (
        all(set(p) & z for p in nx.all_simple_paths(graph, x, y))
        and all(blocked(graph, p, frozenset()) for v in z for p in back_paths(graph, x, v))
        and all(blocked(cut, p, frozenset({x})) for v in z for p in nx.all_simple_paths(cut.to_undirected(), v, y))
    )


def minimal(sets):
    sets = list(sets)
    return {s for s in sets if not any(t < s for t in sets)}


@pytest.mark.slow(why="large")
@pytest.mark.parametrize(
    ("definition", "is_set", "all_sets"),
    [
        (back_door, causal.is_back_door_set, causal.back_door_sets),
        (front_door, causal.is_front_door_set, causal.front_door_sets),
    ],
    ids=["back", "front"],
)
def test_criteria_on_every_graph_of_four_nodes(definition, is_set, all_sets):
    found = 0
    for graph in all_dags("abcd"):
        for x, y in permutations(graph, 2):
            others = set(graph) - {x, y}
            right = {z for z in subsets(others) if definition(graph, x, y, z)}
            assert {z for z in subsets(others) if is_set(graph, x, y, z)} == right
            listed = list(all_sets(graph, x, y))
            assert len(listed) == len(set(listed))
            assert set(listed) == minimal(right)
            found += len(listed)
            hidden = min(others)
            assert set(all_sets(graph, x, y, others - {hidden})) == minimal(z for z in right if hidden not in z)
    assert found > 1000


def random_network(rng: np.random.Generator, n: int, density: float = 0.5, n_states=(2, 3)) -> DiscreteNetwork:
    names = [f"v{i}" for i in range(n)]
    order = rng.permutation(names).tolist()
    parents = {v: tuple(u for u in order[:i] if rng.random() < density) for i, v in enumerate(order)}
    states = {v: tuple("xyz"[: rng.choice(n_states)]) for v in names}
    tables = {
        v: rng.dirichlet(np.ones(len(states[v])), tuple(len(states[p]) for p in parents[v])) * 0.98
        + 0.02 / len(states[v])
        for v in names
    }
    return DiscreteNetwork(states, parents, tables)


def do_by_the_product(network: DiscreteNetwork, x: str, y: str) -> np.ndarray:
    """P(y | do(x)) from the truncated product of all tables but that of x."""
    names = list(network.states)
    out = np.zeros((len(network.states[x]), len(network.states[y])))
    for codes in product(*(range(len(s)) for s in network.states.values())):
        at = dict(zip(names, codes, strict=True))
        rows = ((network.tables[v], (*(at[p] for p in network.parents[v]), at[v])) for v in names if v != x)
        out[at[x], at[y]] += np.prod([table[row] for table, row in rows])
    return out


def test_surgery_is_the_truncated_product():
    rng = np.random.default_rng(1)
    for _ in range(60):
        network = random_network(rng, 5)
        x, y = rng.choice(list(network.states), 2, replace=False).tolist()
        assert causal.interventional(network, x, y) == pytest.approx(do_by_the_product(network, x, y), abs=1e-12)


@pytest.mark.slow(why="large")
def test_both_formulas_are_surgery():
    """On random nets, for every minimal set of either kind, whatever is hidden."""
    rng = np.random.default_rng(2)
    nets = {"back": 0, "front": 0}
    for _ in range(900):
        network = random_network(rng, 6, 0.4)
        x, y = rng.choice(list(network.states), 2, replace=False).tolist()
        truth = causal.interventional(network, x, y)
        back, front = causal.back_door_sets(network.graph, x, y), causal.front_door_sets(network.graph, x, y)
        for z in back:
            nets["back"] += 1
            assert causal.back_door_adjusted(network, x, y, z) == pytest.approx(truth, abs=1e-10)
        for z in front:
            nets["front"] += len(z) > 0
            assert causal.front_door_adjusted(network, x, y, z) == pytest.approx(truth, abs=1e-10)
        hidden = rng.choice(list(set(network.states) - {x, y}), 2, replace=False)
        how = causal.identify(network.graph, x, y, set(network.states) - {x, y, *hidden.tolist()})
        if how.criterion != "none":
            assert not how.names & set(hidden)
            assert how.estimate(network) == pytest.approx(truth, abs=1e-10)
    assert nets["back"] > 200 and nets["front"] > 40


def confounded(strength: float) -> DiscreteNetwork:
    """Health leads to both exercise and a long life; ``strength`` says how much to exercise."""
    tables = {
        "health": np.array([0.5, 0.5]),
        "exercise": np.array([[0.5 + strength, 0.5 - strength], [0.5 - strength, 0.5 + strength]]),
        "life": np.array([[[0.8, 0.2], [0.7, 0.3]], [[0.3, 0.7], [0.2, 0.8]]]),
    }
    parents = {"exercise": ("health",), "life": ("health", "exercise")}
    return DiscreteNetwork(dict.fromkeys(tables, NO_YES), parents, tables)


def test_seeing_is_not_doing_under_confounding():
    network = confounded(0.4)
    seen, done = causal.observational(network, "exercise", "life"), causal.interventional(network, "exercise", "life")
    assert done[:, 1] == pytest.approx([0.45, 0.55])
    assert seen[:, 1] == pytest.approx([0.9 * 0.2 + 0.1 * 0.7, 0.1 * 0.3 + 0.9 * 0.8])
    assert causal.average_effect(network, "exercise", "life") == pytest.approx(0.1)
    assert causal.back_door_adjusted(network, "exercise", "life", ()) == pytest.approx(seen)


def test_seeing_is_doing_without():
    network = confounded(0)
    seen, done = causal.observational(network, "exercise", "life"), causal.interventional(network, "exercise", "life")
    assert seen == pytest.approx(done, abs=1e-12)
    # Health does not confound where it has no arrow into exercise, and the graph says so.
    cut = causal.intervene(network, {"exercise": {"no": 0.5, "yes": 0.5}})
    assert list(causal.back_door_sets(cut.graph, "exercise", "life")) == [frozenset()]
    assert list(causal.back_door_sets(network.graph, "exercise", "life")) == [{"health"}]


def test_simpsons_paradox():
    """Kidney stones (Charig and others 1986): treatment A is better for small and for large stones, B overall."""
    cured = np.array([[81 / 87, 234 / 270], [192 / 263, 55 / 80]])
    tables = {
        "stone": np.array([357, 343]) / 700,
        "treatment": np.array([[87 / 357, 270 / 357], [263 / 343, 80 / 343]]),
        "cured": np.stack([1 - cured, cured], axis=-1),
    }
    states = {"stone": ("small", "large"), "treatment": ("A", "B"), "cured": NO_YES}
    network = DiscreteNetwork(states, {"treatment": ("stone",), "cured": ("stone", "treatment")}, tables)
    assert causal.observational(network, "treatment", "cured")[:, 1] == pytest.approx([273 / 350, 289 / 350])
    how = causal.identify(network.graph, "treatment", "cured")
    assert how.names == {"stone"}
    assert how.estimate(network)[:, 1] == pytest.approx([0.832546, 0.778875], abs=1e-6)
    assert causal.average_effect(network, "treatment", "cured") == pytest.approx(0.778875 - 0.832546, abs=1e-6)
    assert causal.average_effect(network, "treatment", "cured", contrast=("B", "A")) > 0


def test_smoking_tar_and_cancer():
    """Pearl (2009), table 3.1: P(cancer | do(smoking)) 0.4525, without smoking 0.4975; no genotype needed."""
    graph = nx.DiGraph([("gene", "smoking"), ("gene", "cancer"), ("smoking", "tar"), ("tar", "cancer")])
    how = causal.identify(graph, "smoking", "cancer", ["tar"])
    assert (how.criterion, how.names) == ("front-door", {"tar"})
    expected = "P(cancer | do(smoking)) = Σ_{tar} P(tar | smoking) Σ_{smoking'} P(smoking') P(cancer | smoking', tar)"
    assert how.formula == expected and str(how) == f"{expected}  (front-door: tar)"
    cancer = np.array([[0.10, 0.05], [0.90, 0.85]])  # smoking, tar
    seen = DiscreteNetwork(
        dict.fromkeys(("smoking", "tar", "cancer"), NO_YES),
        {"tar": ("smoking",), "cancer": ("smoking", "tar")},
        {
            "smoking": np.array([0.5, 0.5]),
            "tar": np.array([[0.95, 0.05], [0.05, 0.95]]),
            "cancer": np.stack([1 - cancer, cancer], axis=-1),
        },
    )
    assert how.estimate(seen)[:, 1] == pytest.approx([0.4975, 0.4525])
    assert causal.observational(seen, "smoking", "cancer")[:, 1] == pytest.approx([0.0975, 0.8525])


def test_what_neither_criterion_gives():
    graph = nx.DiGraph([("u", "x"), ("u", "y"), ("x", "y")])
    how = causal.identify(graph, "x", "y", [])
    assert how.criterion == "none" and str(how).endswith("is not identifiable from observations of these two alone")
    with refused("model.not-identified", "'x'.*'y'"):
        how.estimate(confounded(0.1))
    backwards = causal.identify(graph, "y", "x", [])
    assert backwards.criterion == "no effect" and backwards.formula == "P(x | do(y)) = P(x)"


def test_m_bias():
    """Adjusting for a common effect of two hidden causes opens a path that was closed."""
    graph = nx.DiGraph([("a", "x"), ("a", "m"), ("b", "m"), ("b", "y"), ("x", "y")])
    assert list(causal.back_door_sets(graph, "x", "y", ["m"])) == [frozenset()]
    assert not causal.is_back_door_set(graph, "x", "y", ["m"])
    assert causal.is_back_door_set(graph, "x", "y", ["m", "a"])


def test_interventions_at_random_mix_those_at_fixed_states():
    rng = np.random.default_rng(3)
    network = random_network(rng, 4, 0.8, (3,))
    mix = {"x": 0.2, "z": 0.8}
    done = causal.interventional(network, "v0", "v1")
    mixed = eliminate(causal.intervene(network, {"v0": mix}), ["v1"])
    assert mixed == pytest.approx(0.2 * done[0] + 0.8 * done[2])
    both = causal.intervene(network, {"v0": "y", "v2": mix})
    assert both.parents["v0"] == both.parents["v2"] == ()
    assert eliminate(both, ["v0"]) == pytest.approx([0, 1, 0])


def test_values_of_the_outcome():
    network = random_network(np.random.default_rng(4), 3, 0.9, (3,))
    done = causal.interventional(network, "v0", "v1")
    effect = causal.average_effect(network, "v0", "v1", values={"x": 1, "y": 2, "z": 5}, contrast=("z", "x"))
    assert effect == pytest.approx((done[0] - done[2]) @ [1, 2, 5])
    share = causal.average_effect(network, "v0", "v1", values="y", contrast=("x", "y"))
    assert share == pytest.approx(done[1, 1] - done[0, 1])
    for options, code, match in [
        ({"contrast": ("x", "y")}, "option.incomplete", "'v1'"),
        ({"values": "y"}, "option.incomplete", "'v0'"),
        ({"values": "w", "contrast": ("x", "y")}, "option.unknown-state", "'w'.*'v1'"),
        ({"values": {"x": 1}, "contrast": ("x", "y")}, "option.wrong-length", "values.*'v1'"),
    ]:
        with refused(code, match):
            causal.average_effect(network, "v0", "v1", **options)


def test_many_ways_to_close_many_paths():
    """Six back-door paths with two variables each: any choice of one from each."""
    graph = nx.DiGraph([("x", "y")])
    for i in range(6):
        graph.add_edges_from([(f"a{i}", "x"), (f"a{i}", f"b{i}"), (f"b{i}", "y")])
    found = list(causal.back_door_sets(graph, "x", "y"))
    assert len(found) == 2**6
    assert all(sum(f"{s}{i}" in z for s in "ab") == 1 for z in found for i in range(6))


def test_errors():
    network = confounded(0.5)
    with refused("model.probability-zero"):
        causal.back_door_adjusted(network, "exercise", "life", "health")
    with refused("model.probability-zero"):
        causal.front_door_adjusted(network, "exercise", "life", "health")
    with refused("model.conflict", "'life'"):
        causal.is_back_door_set(network.graph, "exercise", "life", {"life"})
    with refused("model.self-reference"):
        causal.interventional(network, "life", "life")
    with refused("model.unknown-variable", "'exercize'.*'exercise'"):
        causal.identify(network.graph, "exercize", "life")
    with refused("model.cycle"):
        causal.identify(nx.DiGraph([("a", "b"), ("b", "a")]), "a", "b")
    with refused("evidence.not-probabilities"):
        causal.intervene(network, {"life": {"yes": 0.5}})
    with refused("evidence.unknown-state", "'maybe'"):
        causal.intervene(network, {"life": "maybe"})


def test_what_cannot_be_compared_is_refused():
    network = bl.network("models/asia.yaml")
    for contrast in (("yes",), ("yes", "no", "yes"), "yes", 3, ({"yes": 1}, "no")):
        with refused("option.wrong-type", "contrast"):
            network.average_effect("smoking", "xray", contrast=contrast)
    for values in ({"yes": "a", "no": 1}, {"yes": float("nan"), "no": 1}):
        with refused("option." + ("wrong-type" if values["yes"] == "a" else "out-of-range"), "'xray=yes'"):
            network.average_effect("smoking", "xray", values=values)
    with refused("option.wrong-type", "'xray'"):
        network.average_effect("smoking", "xray", values=3)
    with refused("model.unknown-variable"):
        network.average_effect(["smoking"], "xray")
