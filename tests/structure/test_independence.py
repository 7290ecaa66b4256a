"""Tests of independence against scipy.stats, regression, enumeration and their null distribution."""

from __future__ import annotations

from itertools import product
from math import comb, exp, factorial, log, prod

import networkx as nx
import numpy as np
import pytest
from scipy import stats

from bayeslab.structure.data import Observations
from bayeslab.structure.independence import (
    CorrelationTest,
    Oracle,
    TableTest,
    chi_squared,
    contingency,
    fisher_z,
    g_squared,
    independence_test,
    mutual_information,
    partial_correlation,
    permutation_p_value,
)
from tests.refusals import refused


def observations(codes: np.ndarray, cards: list[int], **more) -> Observations:
    return Observations.of_codes(codes, {f"v{i}": tuple(map(str, range(c))) for i, c in enumerate(cards)}, **more)


def random_codes(rng: np.random.Generator, n_rows: int, cards: list[int]) -> np.ndarray:
    return np.column_stack([rng.integers(c, size=n_rows) for c in cards])


def numbers(values: np.ndarray) -> Observations:
    return Observations.of({f"v{i}": column for i, column in enumerate(values.T)}, kind="continuous")


@pytest.mark.parametrize(("test", "lambda_"), [(g_squared, "log-likelihood"), (chi_squared, "pearson")])
def test_one_table_against_scipy(test, lambda_):
    rng = np.random.default_rng(1)
    for _ in range(50):
        table = rng.integers(1, 30, size=rng.integers(2, 6, size=2))
        expected = stats.chi2_contingency(table, correction=False, lambda_=lambda_)
        found = test(table)
        assert found.statistic == pytest.approx(expected.statistic, rel=1e-10)
        assert found.dof == expected.dof
        assert found.p_value == pytest.approx(expected.pvalue, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize(("test", "lambda_"), [(g_squared, "log-likelihood"), (chi_squared, "pearson")])
def test_strata_with_empty_rows_and_columns(test, lambda_):
    """Each stratum counts as the table left when its empty rows and columns are taken out."""
    rng = np.random.default_rng(2)
    n_empty = 0
    for _ in range(30):
        tables = rng.poisson(0.8, size=(6, 3, 4)).astype(float)
        statistic = dof = 0.0
        for table in tables:
            kept = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
            n_empty += kept.shape != table.shape
            if min(kept.shape) > 1:
                one = stats.chi2_contingency(kept, correction=False, lambda_=lambda_)
                statistic, dof = statistic + one.statistic, dof + one.dof
        found = test(tables)
        assert found.statistic == pytest.approx(statistic, rel=1e-10, abs=1e-10)
        assert found.dof == dof
        assert found.p_value == pytest.approx(stats.chi2.sf(statistic, dof), rel=1e-9)
    assert n_empty > 50


def test_ci_test_structure_restaurant():
    """Friday or Saturday against bar given waiting, in the twelve restaurant rows."""
    rows = "NNY NNN NYY YNY YNN NYY NYN NNY YYN YYN NNN YYY"  # Fri, Bar, Wait
    codes = np.array([["NY".index(c) for c in row] for row in rows.split()])
    data = observations(codes, [2, 2, 2])
    counts = contingency(data, 0, 1, (2,))
    assert counts[1][::-1, ::-1].tolist() == [[1, 1], [2, 2]]
    assert counts[0][::-1, ::-1].tolist() == [[2, 1], [1, 2]]
    found = independence_test("chi2", data)(0, 1, (2,))
    assert found.statistic == pytest.approx(2 / 3, rel=1e-12)
    assert found.dof == 2
    assert found.p_value == pytest.approx(exp(-1 / 3), rel=1e-12)  # 0.716531, the tail of χ² with two degrees


def test_counts_against_a_loop():
    """Also with weights, and where too many strata would be possible to number them all."""
    rng = np.random.default_rng(3)
    cards = [2, 3, 4, 2, 5, *[20] * 5]
    codes = random_codes(rng, 300, cards)
    weights = rng.integers(1, 5, size=300)
    data = observations(codes, cards, weights=weights)
    for x, y, given in [(0, 1, ()), (4, 2, (1,)), (1, 0, (2, 3)), (0, 2, (4, 3, 1)), (0, 1, (5, 6, 7, 8, 9))]:
        slow: dict = {}
        for row, weight in zip(codes.tolist(), weights.tolist(), strict=True):
            stratum = slow.setdefault(tuple(row[v] for v in given), np.zeros((cards[x], cards[y])))
            stratum[row[x], row[y]] += weight
        counts = contingency(data, x, y, given)
        assert counts.shape[1:] == (cards[x], cards[y])
        found = sorted(table.ravel().tolist() for table in counts if table.any())
        assert found == sorted(table.ravel().tolist() for table in slow.values())
        assert counts.sum() == weights.sum()


@pytest.mark.slow(why="large")
def test_counts_by_bits_are_those_by_rows():
    """Rows of weight one are counted 64 at a time; also where rows do not fill the last word, and states do not occur."""
    rng = np.random.default_rng(20)
    for n_rows in (63, 64, 65, 700):
        cards = [3, 2, 4, 2, 5]
        codes = random_codes(rng, n_rows, [3, 2, 2, 2, 5])
        data = observations(np.column_stack([codes, np.arange(n_rows)]), [*cards, n_rows])  # no two rows are equal
        test = TableTest(data)
        for x, y, given in [(0, 1, ()), (2, 0, (1,)), (1, 3, (2, 0)), (3, 2, (1, 0))]:
            assert test._counts(x, y, given).tolist() == contingency(data, x, y, given).tolist()
        assert (len(test._bits[0]) > 0) and len(data.codes) == n_rows


def test_weights_stand_for_rows():
    rng = np.random.default_rng(4)
    cards = [2, 3, 2]
    codes, weights = random_codes(rng, 40, cards), rng.integers(1, 4, size=40)
    weighted = observations(codes, cards, weights=weights)
    repeated = observations(np.repeat(codes, weights, axis=0), cards)
    for statistic in ("g2", "chi2", "mi"):
        one, other = (TableTest(data, statistic)(0, 1, (2,)) for data in (weighted, repeated))
        assert one.statistic == pytest.approx(other.statistic, rel=1e-12)
        assert one.p_value == pytest.approx(other.p_value, rel=1e-12)
    half = weighted.reweighted(weighted.weights / 2)
    assert TableTest(half)(0, 1, (2,)).statistic == pytest.approx(TableTest(weighted)(0, 1, (2,)).statistic / 2)


def test_mutual_information_from_its_definition():
    rng = np.random.default_rng(5)
    counts = rng.integers(0, 9, size=(3, 2, 4))
    p = counts / counts.sum()
    expected = sum(
        p[k, i, j] * log(p[k, i, j] * p[k].sum() / (p[k, i].sum() * p[k, :, j].sum()))
        for k, i, j in product(range(3), range(2), range(4))
        if p[k, i, j] > 0
    )
    assert mutual_information(counts) == pytest.approx(expected, rel=1e-12)
    assert mutual_information(np.zeros((2, 2))) == 0
    codes = np.repeat(np.argwhere(np.ones(counts.shape)), counts.ravel(), axis=0)
    found = TableTest(observations(codes, [3, 2, 4]), "mi")(1, 2, (0,))
    assert found.statistic == pytest.approx(expected, rel=1e-12)
    assert found.p_value == pytest.approx(g_squared(counts).p_value)


@pytest.mark.parametrize("statistic", ["g2", "chi2"])
def test_ci_test_structure_p_values_are_uniform_under_independence(statistic):
    """x and y depend on z only; 1,000 tables of 500 rows. Kolmogorov distance at the 0.1 % level."""
    rng = np.random.default_rng(6)
    p_values = []
    for _ in range(1000):
        z = rng.integers(3, size=500)
        x = (rng.random(500) < np.array([0.3, 0.5, 0.7])[z]).astype(int)
        y = (rng.random((500, 1)) > np.array([[0.2, 0.6], [0.4, 0.7], [0.5, 0.8]])[z]).sum(axis=1)
        p_values.append(TableTest(observations(np.column_stack([x, y, z]), [2, 3, 3]), statistic)(0, 1, (2,)).p_value)
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("statistic", ["fisher_z", "t"])
def test_p_values_of_partial_correlations_are_uniform_under_independence(statistic):
    rng = np.random.default_rng(7)
    p_values = []
    for _ in range(1000):
        z = rng.normal(size=(40, 2))
        values = np.column_stack([z @ [1, 2] + rng.normal(size=40), z @ [-1, 1] + rng.normal(size=40), z])
        p_values.append(CorrelationTest(numbers(values), statistic)(0, 1, (2, 3)).p_value)
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3


def test_dependence_is_found():
    rng = np.random.default_rng(8)
    z = rng.integers(2, size=400)
    x = rng.integers(2, size=400)
    y = np.where(rng.random(400) < 0.9, x ^ z, 1 - (x ^ z))
    test = TableTest(observations(np.column_stack([x, y, z]), [2, 2, 2]))
    assert test(0, 1).p_value > 0.01  # exclusive or: nothing without z, all with it
    assert test(0, 1, (2,)).p_value < 1e-20


def test_partial_correlation_is_that_of_residuals():
    rng = np.random.default_rng(9)
    values = rng.normal(size=(50, 6)) @ rng.normal(size=(6, 6)) + 3
    test = CorrelationTest(numbers(values))
    for given in [(), (2,), (3, 5), (2, 3, 4, 5)]:
        design = np.column_stack([np.ones(50), values[:, list(given)]])
        residuals = values[:, :2] - design @ np.linalg.lstsq(design, values[:, :2], rcond=None)[0]
        r = np.corrcoef(residuals.T)[0, 1]
        assert partial_correlation(np.cov(values.T), 0, 1, given) == pytest.approx(r, abs=1e-10)
        z = np.sqrt(50 - len(given) - 3) * np.arctanh(r)
        found = test(0, 1, given)
        assert found.statistic == pytest.approx(z, abs=1e-8)
        assert found.p_value == pytest.approx(2 * stats.norm.sf(abs(z)), rel=1e-7)
    without = CorrelationTest(numbers(values), "t")(0, 1)
    assert without.p_value == pytest.approx(stats.pearsonr(values[:, 0], values[:, 1]).pvalue, rel=1e-8)


def test_weighted_correlation():
    rng = np.random.default_rng(10)
    values, weights = rng.normal(size=(30, 3)), rng.integers(1, 4, size=30)
    data = numbers(values).reweighted(weights)
    repeated = numbers(np.repeat(values, weights, axis=0))
    one, other = (CorrelationTest(d)(0, 1, (2,)) for d in (data, repeated))
    assert one.p_value == pytest.approx(other.p_value, rel=1e-9)
    assert one.dof == other.dof == weights.sum() - 4


def test_variables_that_others_determine_say_nothing():
    rng = np.random.default_rng(11)
    a, b = rng.normal(size=(2, 50))
    test = CorrelationTest(numbers(np.column_stack([a, b, a + b, np.full(50, 0.1), 2 * a])))
    assert test(0, 1, (2,)).p_value < 1e-6
    assert test(2, 0, (4, 1)).p_value == 1  # a is 2 a halved
    assert test(3, 0).p_value == 1  # constant
    assert test(0, 1, (2, 4)).p_value == 1  # singular
    assert CorrelationTest(numbers(np.column_stack([a, 3 * a])))(0, 1).p_value == 0
    assert fisher_z(0.9, 4, 1).p_value == 1  # no rows left
    codes = np.column_stack([np.arange(40) % 2, np.arange(40) % 3, np.arange(40) % 2])
    assert TableTest(observations(codes, [2, 3, 2]))(0, 1, (2,)) == TableTest(observations(codes, [2, 3, 2]))(
        1, 0, (2,)
    )
    assert TableTest(observations(codes, [2, 3, 2]))(0, 1, (2,)).p_value == 1


def tables_with_margins(rows: tuple[int, ...], columns: tuple[int, ...]):
    """Every table of counts with these margins."""
    if len(rows) == 1:
        yield (columns,)
        return
    for first in product(*(range(min(rows[0], c) + 1) for c in columns)):
        if sum(first) == rows[0]:
            left = tuple(c - f for c, f in zip(columns, first, strict=True))
            yield from ((first, *rest) for rest in tables_with_margins(rows[1:], left))


@pytest.mark.parametrize(("pearson", "test"), [(False, g_squared), (True, chi_squared)])
def test_permutation_p_value_against_all_tables(pearson, test):
    """The exact p-value by enumeration of all tables with the margins, and their hypergeometric weights."""
    seen = np.array([[4, 1, 0], [1, 3, 2], [0, 1, 3]])
    rows, columns = tuple(seen.sum(axis=1).tolist()), tuple(seen.sum(axis=0).tolist())
    total = exact = 0.0
    for table in tables_with_margins(rows, columns):
        weight = 1 / prod(factorial(c) for row in table for c in row)
        total += weight
        exact += weight * (test(np.array(table)).statistic >= test(seen).statistic - 1e-9)
    exact /= total
    draws = 20_000
    found = permutation_p_value(seen, np.random.default_rng(12), draws=draws, pearson=pearson)
    assert 0.005 < exact < 0.2
    assert abs(found - exact) < 4 * np.sqrt(exact * (1 - exact) / draws) + 1 / draws


def test_permutation_of_two_by_two_is_fisher_exact():
    """In each stratum on its own; strata that cannot vary change nothing."""
    table = np.array([[7, 2], [1, 6]])
    one_sided = [comb(9, k) * comb(7, 8 - k) / comb(16, 8) for k in range(1, 9)]
    exact = sum(w for w in one_sided if w <= one_sided[6] * (1 + 1e-9))
    assert exact == pytest.approx(stats.fisher_exact(table).pvalue)
    still = np.array([[3, 4], [0, 0]])
    draws = 20_000
    # χ² orders these tables as their probabilities do.
    found = permutation_p_value(
        np.stack([table, still, still * 0]), np.random.default_rng(13), draws=draws, pearson=True
    )
    assert abs(found - exact) < 4 * np.sqrt(exact * (1 - exact) / draws) + 1 / draws


def test_permutation_test_of_variables():
    """The same however variables are named first; uniform where χ² is not, with two rows a stratum."""
    rng = np.random.default_rng(14)
    codes = random_codes(rng, 60, [3, 2, 30])
    test = independence_test("mi", observations(codes, [3, 2, 30]), permutations=200)
    assert test(0, 1, (2,)) == test(0, 1, (2,))
    assert test(0, 1, (2,)).p_value == test(1, 0, (2,)).p_value
    p_values = []
    for seed in range(300):
        data = observations(random_codes(rng, 60, [3, 2, 20]), [3, 2, 20])
        p_values.append(TableTest(data, "g2", permutations=99, seed=seed)(0, 1, (2,)).p_value)
    # Ties make the test conservative, never the other way.
    for level in (0.05, 0.1, 0.3):
        assert np.mean(np.array(p_values) <= level) < level + 3 * np.sqrt(level * (1 - level) / 300)
    assert np.mean(np.array(p_values) <= 0.5) > 0.4


def test_oracle():
    dag = nx.DiGraph([("a", "v"), ("b", "v"), ("h", "a"), ("h", "c"), ("v", "s")])
    oracle = Oracle(dag, hidden=("h",), selected=("s",))
    assert oracle.names == ("a", "v", "b", "c")
    place = {v: i for i, v in enumerate(oracle.names)}
    assert oracle(place["a"], place["b"]).p_value == 0  # selection opens the collider
    assert oracle(place["a"], place["c"]).p_value == 0
    assert oracle(place["c"], place["b"], (place["a"],)).p_value == 1
    assert Oracle(dag)(0, 2).p_value == 1
    with refused("model.unknown-variable", "'q'"):
        Oracle(dag, hidden=("q",))


def test_bad_input():
    states = observations(np.array([[0, 1], [1, 0]]), [2, 2])
    values = numbers(np.random.default_rng(15).normal(size=(5, 2)))
    with refused("option.unknown-word", "'chi2'"):
        independence_test("chi", states)
    with refused("option.not-applicable", "'fisher_z'.*'g2'"):
        independence_test("fisher_z", values, permutations=10)
    with refused("option.out-of-range", "permutations"):
        TableTest(states, permutations=-1)
    with refused("data.not-states", "fisher_z"):
        TableTest(values)
    with refused("data.not-numbers", "'v0'.*'fisher_z'"):
        CorrelationTest(states)
    with refused("data.not-whole", "'g2'.*'chi2'"):
        permutation_p_value(np.array([[0.5, 1], [1, 2]]), np.random.default_rng(1))


def test_correlations_do_not_depend_on_units():
    """Squares of large numbers would be infinite, and those of small ones 0, as of a constant."""
    values = np.random.default_rng(6).normal(size=(40, 3)) + 1.5
    values[:, 1] += values[:, 0]
    plain = CorrelationTest(numbers(values)).correlation
    moved = CorrelationTest(numbers(values * [1e200, 1e-200, 3.0])).correlation
    np.testing.assert_allclose(moved, plain, atol=1e-12)
