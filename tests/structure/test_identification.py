"""The ID algorithm: what it finds is what surgery gives, and what it refuses two models tell apart."""

from __future__ import annotations

from itertools import combinations, permutations, product

import networkx as nx
import numpy as np
import pytest

from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.structure import causal
from bayeslab.structure.identification import general_formula
from tests.refusals import refused


def mixed(arrows: str, shared: str = "") -> nx.DiGraph:
    """``ab bc`` are arrows, ``ac`` under ``shared`` an unobserved common cause."""
    graph = nx.DiGraph([tuple(pair) for pair in arrows.split()])
    graph.add_edges_from((f"u{pair}", v) for pair in shared.split() for v in pair)
    return graph


def random_tables(graph: nx.DiGraph, rng: np.random.Generator, n_states: int = 2) -> DiscreteNetwork:
    states = dict.fromkeys(graph, tuple("pqr"[:n_states]))
    parents = {v: tuple(graph.predecessors(v)) for v in graph}
    tables = {v: 0.9 * rng.dirichlet(np.ones(n_states), (n_states,) * len(parents[v])) + 0.1 / n_states for v in graph}
    return DiscreteNetwork(states, parents, tables)


def observed_in(graph: nx.DiGraph) -> set[str]:
    return {v for v in graph if not v.startswith("u")}


# x on y: arrows, then common causes that are not observed (Pearl 2009, figures 3.7 to 3.9; Shpitser and Pearl 2006).
IDENTIFIABLE = {
    "napkin": ("wz zx xy", "wx wy"),
    "a confounder that is itself confounded": ("zx zy xy", "xz"),
    "front door": ("xz zy", "xy"),
    "front door with a covariate": ("xz zy wx wz wy", "xy wy"),
    "two steps": ("xa ay yb ab", "xy"),
}
NOT_IDENTIFIABLE = {
    "bow": ("xy", "xy"),
    "instrument": ("zx xy", "xy"),
    "confounded cause of the mediator": ("xz zy", "xz"),
    "confounded effect of the mediator": ("xz zy", "xy zy"),
    "a collider that is a confounder": ("xy zy", "xz zy"),
}


@pytest.mark.parametrize("name", IDENTIFIABLE)
def test_identifiable(name):
    graph = mixed(*IDENTIFIABLE[name])
    rng = np.random.default_rng(1)
    formula = general_formula(graph, "x", "y", observed_in(graph))
    for _ in range(3):
        network = random_tables(graph, rng, 3)
        truth = causal.interventional(network, "x", "y")
        assert formula.evaluate(network) == pytest.approx(truth, abs=1e-9)
        assert np.abs(causal.observational(network, "x", "y") - truth).max() > 1e-3


@pytest.mark.parametrize("name", NOT_IDENTIFIABLE)
def test_not_identifiable(name):
    graph = mixed(*NOT_IDENTIFIABLE[name])
    assert general_formula(graph, "x", "y", observed_in(graph)) is None
    how = causal.identify(graph, "x", "y", observed_in(graph))
    assert how.criterion == "none" and "is not identifiable" in str(how)


def test_the_napkin_takes_the_long_way():
    graph = mixed(*IDENTIFIABLE["napkin"])
    how = causal.identify(graph, "x", "y", ["w", "z"])
    assert how.criterion == "do-calculus" and how.names == {"w", "z"}
    assert how.formula == (
        "P(y | do(x)) = {Σ_{w} P(w) P(x | w, z) P(y | w, z, x)} / {Σ_{w, y} P(w) P(x | w, z) P(y | w, z, x)}"
    )
    network = random_tables(graph, np.random.default_rng(2))
    assert how.estimate(network) == pytest.approx(causal.interventional(network, "x", "y"), abs=1e-10)


def effects_and_observations(tables: list[np.ndarray], scopes: list[list[int]], observed: list[int], x: int, y: int):
    """P(observed), and P(y | do(x)), for tables that may be complex: a step into the imaginary gives the derivative."""
    seen = np.einsum(*(part for pair in zip(tables, scopes, strict=True) for part in pair), observed).ravel()
    rest = [pair for pair in zip(tables, scopes, strict=True) if pair[1][-1] != x]
    done = np.einsum(*(part for pair in rest for part in pair), [x, y]).ravel() if rest else np.zeros(0)
    return seen, done


def is_determined(graph: nx.DiGraph, x: str, y: str, rng: np.random.Generator) -> bool:
    """Whether no small change of the tables moves the effect and leaves the observations as they are.

    By the ranks of the two Jacobians at a random point; common causes have four states.
    """
    names = sorted(graph)
    sizes = {v: 4 if v.startswith("u") else 2 for v in names}
    scopes = [[names.index(u) for u in (*graph.predecessors(v), v)] for v in names]
    tables = [rng.dirichlet(np.ones(sizes[names[s[-1]]]), [sizes[names[i]] for i in s[:-1]]) for s in scopes]
    at = names.index(x), names.index(y)
    observed = [i for i, v in enumerate(names) if not v.startswith("u")]
    columns = []
    for k, table in enumerate(tables):
        for place in np.ndindex((*table.shape[:-1], table.shape[-1] - 1)):
            moved = table.astype(complex)
            moved[place] += 1e-20j
            moved[(*place[:-1], -1)] -= 1e-20j
            changed = [*tables[:k], moved, *tables[k + 1 :]]
            columns.append(np.concatenate(effects_and_observations(changed, scopes, observed, *at)).imag / 1e-20)
    jacobian = np.array(columns).T
    return np.linalg.matrix_rank(jacobian, tol=1e-8) == np.linalg.matrix_rank(jacobian[: 2 ** len(observed)], tol=1e-8)


def test_complete_on_three_variables():
    """On all 64 graphs with three observed variables: a formula where, and only where, observations determine the effect."""
    rng = np.random.default_rng(3)
    counts = {True: 0, False: 0}
    pairs = ["ab", "ac", "bc"]
    for arrows, shared in product(product((0, 1), repeat=3), repeat=2):
        graph = mixed(*(" ".join(p for p, on in zip(pairs, which, strict=True) if on) for which in (arrows, shared)))
        graph.add_nodes_from("abc")
        for x, y in permutations("abc", 2):
            if nx.has_path(graph, x, y):
                found = general_formula(graph, x, y, "abc")
                counts[found is not None] += 1
                assert (found is not None) == is_determined(graph, x, y, rng), (arrows, shared, x, y)
    assert min(counts.values()) > 40


def random_mixed(rng: np.random.Generator, n: int) -> nx.DiGraph:
    names = rng.permutation(list("abcde")[:n]).tolist()
    pairs = [a + b for a, b in combinations(names, 2)]
    arrows, shared = ([p for p in pairs if rng.random() < share] for share in (0.6, 0.3))
    graph = mixed(" ".join(arrows), " ".join(shared))
    graph.add_nodes_from(names)
    return graph


@pytest.mark.slow(why="large")
def test_whatever_is_found_is_surgery():
    """Also where back and front door fail, and hidden variables lie on chains; a formula wherever those succeed."""
    rng = np.random.default_rng(4)
    kinds: dict[str, int] = {}
    for _ in range(2000):
        graph = random_mixed(rng, 5)
        if rng.random() < 0.3:
            graph = nx.relabel_nodes(graph, {rng.choice(list("abcde")).item(): "u"})
        x, y = rng.choice(sorted(observed_in(graph)), 2, replace=False).tolist()
        how = causal.identify(graph, x, y, observed_in(graph))
        formula = general_formula(graph, x, y, observed_in(graph))
        kinds[how.criterion] = kinds.get(how.criterion, 0) + 1
        assert (formula is None) == (how.criterion == "none")
        if formula is not None and kinds[how.criterion] <= 80:
            network = random_tables(graph, rng)
            truth = causal.interventional(network, x, y)
            assert formula.evaluate(network) == pytest.approx(truth, abs=1e-8)
            assert how.estimate(network) == pytest.approx(truth, abs=1e-8)
    assert kinds["do-calculus"] >= 5 and kinds["back-door"] > 20 and kinds["none"] > 20


def test_states_that_were_never_seen_together():
    graph = mixed("zx zy xy")
    network = random_tables(graph, np.random.default_rng(5))
    sure = DiscreteNetwork(network.states, network.parents, {**network.tables, "x": np.eye(2)})
    with refused("model.probability-zero"):
        general_formula(graph, "x", "y", "z").evaluate(sure)
