"""Certified searches: all DAGs looked at one by one, dynamic programming and A* agree; refusals say what to do."""

from __future__ import annotations

import numpy as np
import pytest

from bayeslab.structure.constraints import Constraints
from bayeslab.structure.exact_posterior import best_graph
from bayeslab.structure.score_table import ScoreTable
from bayeslab.structure.scores import load as load_score
from bayeslab.structure.searches import a_star, exact
from tests.refusals import refused
from tests.structure._dags import Everything, random_scores, table_of
from tests.structure.test_searches import tangled

SEARCHES = [exact.search, a_star.search]


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_better_among_all_dags(search, seed):
    table = table_of(4, random_scores(seed, 3.0))
    best = Everything.of(table).scores.max()
    found = search(table)
    assert found.score == pytest.approx(best, rel=1e-11)
    assert table.of_graph(found.graph) == pytest.approx(best, rel=1e-11)


@pytest.mark.parametrize("group", [1, 2, 5, 20])
@pytest.mark.parametrize("seed", range(3))
def test_a_star_is_dynamic_programming(seed, group):
    """However loose its bound is: groups of one are the simple bound."""
    table = table_of(10, random_scores(seed, 3.0), max_parents=3)
    found = a_star.search(table, group=group)
    assert found.score == pytest.approx(best_graph(table).graph["score"], rel=1e-11)
    assert table.of_graph(found.graph) == pytest.approx(found.score, rel=1e-11)


def test_sets_are_carried_over_to_larger_tables(monkeypatch):
    """Scores of noise with a loose bound: far more sets than the first table and heap hold."""
    monkeypatch.setattr(a_star, "FIRST", 64)
    table = table_of(16, random_scores(5, 1.0), max_parents=2)
    assert a_star.search(table, group=1).score == pytest.approx(best_graph(table).graph["score"], rel=1e-11)


@pytest.mark.parametrize("search", SEARCHES)
def test_constraints_and_columns(search):
    columns = tangled(n=7, seed=3)
    score = load_score("bdeu", columns)
    limits = Constraints.of(score.names, required=[("x6", "x0")], forbidden=[("x1", "x2"), ("x2", "x1")])
    found = search(score, constraints=limits, max_parents=2)
    limits.check(found.graph)
    assert max(dict(found.graph.in_degree).values()) <= 2
    table = ScoreTable.build(score, max_parents=2, constraints=limits)
    assert found.score == pytest.approx(best_graph(table).graph["score"], rel=1e-11)
    order = list(columns)[::-1]
    turned = load_score("bdeu", {v: columns[v] for v in order})
    again = search(turned, constraints=Constraints.of(order, required=limits.required, forbidden=limits.forbidden),
                   max_parents=2)  # fmt: skip
    assert set(again.graph.edges) == set(found.graph.edges)
    assert list(again.graph) == order


def test_a_small_net_may_have_any_number_of_parents():
    rng = np.random.default_rng(0)
    causes = rng.integers(0, 2, (3000, 5))
    columns = {f"c{k}": causes[:, k] for k in range(5)} | {"e": causes.sum(axis=1) % 2}
    graph = exact.search(load_score("bdeu", columns)).graph  # of an odd sum any of the six is the child
    assert max(dict(graph.in_degree).values()) == 5


def test_parts_that_cannot_form_circles_are_placed_apart():
    """Two nets side by side with tiers: the parts are small, and what is found is still the best."""
    columns = tangled(n=8, seed=1)
    score = load_score("bdeu", columns)
    limits = Constraints.of(score.names, tiers=[[f"x{i}" for i in range(4)], [f"x{i}" for i in range(4, 8)]])
    table = exact.table_of(score, limits, "uniform", None, None)
    assert max(len(part.variables) for part in a_star.parts(table)) <= 4
    assert a_star.search(score, constraints=limits).score == exact.search(score, constraints=limits).score


def test_what_is_too_large_is_refused_with_what_to_do(monkeypatch):
    monkeypatch.setattr(a_star, "FIRST", 64)
    wide = {f"v{i}": np.arange(40) % 2 for i in range(26)}
    with refused("engine.refused.too-costly", r"26.*0\.5.*a_star"):
        exact.search(load_score("bdeu", wide))
    table = table_of(16, random_scores(5, 1.0), max_parents=2)
    with refused("engine.refused.too-costly", "16.*order_search"):
        a_star.search(table, group=1, memory=0.02)


def test_a_table_holds_what_is_known():
    table = table_of(3, random_scores(0, 1.0))
    with refused("model.conflict", "constraints.*prior"):
        exact.search(table, max_parents=2)
