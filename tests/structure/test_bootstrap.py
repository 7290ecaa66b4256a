"""Bootstrap confidences against exact shares and a planted net."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from bayeslab.structure.bootstrap import EdgeConfidence, bootstrap
from bayeslab.structure.data import Observations
from bayeslab.structure.scores import load
from bayeslab.structure.searches import hill_climbing
from tests.refusals import refused


def climb(rows):
    return hill_climbing.search(load("bdeu", rows)).graph


def test_sure_edges_are_found_every_time_and_the_rest_rarely():
    rng = np.random.default_rng(0)
    a, b, d = rng.integers(0, 2, (3, 800))
    c = np.where(rng.random(800) < 0.1, rng.integers(0, 2, 800), a | b)
    data = Observations.of({"a": a, "b": b, "c": c, "d": d})
    found = bootstrap(data, climb, rng=np.random.default_rng(1), samples=40)
    i = {v: k for k, v in enumerate(data.names)}
    assert found.directed[i["a"], i["c"]] > 0.9 and found.directed[i["b"], i["c"]] > 0.9
    assert found.joined[i["d"]].max() < 0.5
    assert set(found.graph().edges) == {("a", "c"), ("b", "c")}
    assert set(zip(found.table()["from"][:2], found.table()["to"][:2], strict=True)) == {("a", "c"), ("b", "c")}
    assert found.graph().edges["a", "c"]["confidence"] == pytest.approx(found.joined[i["a"], i["c"]])


def test_samples_draw_each_row_as_often_as_it_is_there():
    """Rows as one with a weight, or apart: the numbers drawn have the multinomial mean and variance."""
    seen = []

    def learn(rows):
        seen.append(float(rows.weights[rows.codes[:, 0] == 1].sum()))
        assert rows.n_rows == 100
        return nx.empty_graph(rows.names, create_using=nx.DiGraph)

    data = Observations.of_codes(np.array([[0], [1]]), {"x": ("n", "y")}, weights=np.array([70, 30]))
    found = bootstrap(data, learn, rng=np.random.default_rng(2), samples=2000)
    assert abs(np.mean(seen) - 30) < 4 * np.sqrt(21 / 2000)
    assert abs(np.var(seen) / 21 - 1) < 4 * np.sqrt(2 / 2000)
    assert not found.joined.any() and found.table().empty and not found.graph(0.0).edges


def test_an_open_direction_counts_half_for_each():
    data = Observations.of_codes(np.array([[0, 0], [1, 1]]), {"x": "ab", "y": "ab"}, weights=np.array([9, 9]))
    found = bootstrap(data, lambda rows: nx.DiGraph([("x", "y")]), rng=np.random.default_rng(0), samples=3)
    assert np.allclose(found.directed, [[0, 0.5], [0.5, 0]])
    assert set(found.graph().edges) == {("x", "y"), ("y", "x")}


def test_threshold_separates_two_groups():
    directed = np.zeros((4, 4))
    directed[0, 1], directed[1, 2], directed[2, 3], directed[0, 3] = 0.95, 0.9, 0.1, 0.05
    found = EdgeConfidence(tuple("abcd"), directed, 100)
    assert 0.1 < found.threshold <= 0.9
    assert set(found.graph().edges) == {("a", "b"), ("b", "c")}
    directed[np.triu_indices(4, 1)] = 0.3
    assert not EdgeConfidence(tuple("abcd"), directed, 100).graph().edges


def test_what_cannot_be_is_said():
    data = Observations.of_codes(np.array([[0], [1]]), {"x": ("n", "y")}, weights=np.array([0.5, 1.2]))
    with refused("option.not-applicable", "bootstrap.*weights"):
        bootstrap(data, climb, rng=np.random.default_rng(0))
    with refused("option.out-of-range", "samples"):
        bootstrap(data, climb, rng=np.random.default_rng(0), samples=0)
