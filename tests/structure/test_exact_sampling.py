"""Independent draws of DAGs against all DAGs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from bayeslab.structure.exact_posterior import dag_posterior, order_posterior
from bayeslab.structure.exact_sampling import sampler
from bayeslab.structure.score_table import ScoreTable
from tests.refusals import refused
from tests.structure._dags import Everything, flat, needs_first, random_scores, table_of

N = 100_000


TABLES = {
    "one variable": table_of(1, flat),
    "all 543 alike": table_of(4, flat),
    "nearly flat, far from zero": table_of(4, random_scores(1, 0.5, -1000.0)),
    "uneven": table_of(4, random_scores(2, 3.0)),
    "one DAG has it all": table_of(4, random_scores(3, 3000.0, 1e5)),
    "two parents": table_of(4, random_scores(4, 2.0), max_parents=2),
    "a required edge": table_of(4, random_scores(6, 2.0), needs_first),
    "all 29,281": table_of(5, random_scores(7, 0.8)),
}


@pytest.fixture(scope="module", params=TABLES)
def case(request):
    table = TABLES[request.param]
    return table, Everything.of(table)


def tail_of_frequencies(draws, every, weights):
    """Chi-square tail probability of the frequencies; DAGs expected fewer than 5 times are put together."""
    place = {tuple(choice): i for i, choice in enumerate(every.choices.tolist())}
    seen = np.bincount([place[tuple(row)] for row in draws.tolist()], minlength=len(weights))
    wanted = weights * len(draws)
    rare = wanted < 5
    seen = np.append(seen[~rare], seen[rare].sum())
    wanted = np.append(wanted[~rare], wanted[rare].sum())
    used = wanted > 1e-9
    assert seen[~used].sum() == 0
    if used.sum() < 2:
        return 1.0
    return stats.chisquare(seen[used], wanted[used] * (seen[used].sum() / wanted[used].sum())).pvalue


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("draws_of", ["dags", "orders"])
def test_frequencies_are_posterior_probabilities(case, draws_of):
    table, every = case
    draws = sampler(table, draws_of).draws(np.random.default_rng(11), N)
    assert tail_of_frequencies(draws, every, every.weights(draws_of == "orders")) > 1e-4


def test_a_wrong_posterior_would_be_noticed():
    """DAGs and orders differ by the number of orders of a DAG: draws of the one do not pass for the other."""
    table = TABLES["uneven"]
    every = Everything.of(table)
    draws = sampler(table, "orders").draws(np.random.default_rng(11), N)
    assert tail_of_frequencies(draws, every, every.weights()) < 1e-10


def log_sum_of(made):
    rest, scale = made._sums[2:]
    return math.log(rest[0]) + scale[0] * math.log(2)


@pytest.mark.slow(why="large")
def test_sums_over_layers_are_sums_over_dags(case):
    """Inclusion and exclusion over sinks, and layers from the sources, are two routes to one sum."""
    table, every = case
    assert log_sum_of(sampler(table)) == pytest.approx(every.log_sum(), rel=1e-12, abs=1e-10)
    assert log_sum_of(sampler(table, "orders")) == pytest.approx(every.log_sum(by_orders=True), rel=1e-12, abs=1e-10)


@pytest.mark.parametrize("sd", [0.3, 4.0, 60.0])
def test_edges_of_ten_variables(sd):
    table = table_of(10, random_scores(5, sd), max_parents=3)
    for draws_of, posterior in (("dags", dag_posterior), ("orders", order_posterior)):
        exact, made = posterior(table), sampler(table, draws_of)
        assert log_sum_of(made) == pytest.approx(exact.log_sum, rel=1e-12)
        sets = table.sets[made.draws(np.random.default_rng(1), 20_000), 0]
        edges = (sets[:, None, :] >> np.arange(10, dtype=np.uint64)[:, None] & np.uint64(1)).mean(axis=0)
        error = np.sqrt(exact.edges * (1 - exact.edges) / 20_000)
        assert np.all(np.abs(edges - exact.edges) < 4.5 * error + 1e-4)


def test_the_same_seed_gives_the_same_draws():
    made = sampler(TABLES["uneven"])
    one, two = (made.draws(np.random.default_rng(5), 50) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_too_many_variables_and_no_dag():
    big = ScoreTable(
        tuple(f"v{i}" for i in range(24)), np.arange(25), np.zeros((24, 1), np.uint64), np.zeros(24), "own"
    )
    with refused("engine.refused.too-costly"):
        sampler(big)
    circle = ScoreTable(("a", "b"), np.array([0, 1, 2]), np.array([[2], [1]], np.uint64), np.zeros(2), "own")
    with refused("model.no-acyclic-graph"):
        sampler(circle)
