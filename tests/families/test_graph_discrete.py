"""Graphs in which all that is unknown is discrete are solved exactly: against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab import registry
from tests.refusals import refused

CLINIC = {
    "asia": "Bernoulli(0.5)",
    "smoking": "Bernoulli(0.5)",
    "tuberculosis": "Bernoulli(where(asia, 0.05, 0.01))",
    "lung_cancer": "Bernoulli(where(smoking, 0.1, 0.01))",
    "bronchitis": "Bernoulli(where(smoking, 0.6, 0.3))",
    "either": "tuberculosis or lung_cancer",
    "dyspnoea": "Bernoulli(where(either, where(bronchitis, 0.9, 0.7), where(bronchitis, 0.8, 0.1)))",
}


def solved(nodes, data, columns=None, method="auto", **rest):
    model = bl.Model(model={"family": "graph", "nodes": nodes}, data={"dims": columns or {}}, **rest)
    return bl.fit(model, data, method, seed=1, progress=False, runs=None)


def evidence_of(fit):
    return fit.data_tree["exact_posterior"].attrs["log_evidence"]


def bernoulli(value, p):
    return p if value else 1 - p


def test_a_clinic_of_known_tables():
    fit = solved(CLINIC, {"asia": 1, "dyspnoea": 1}, {"asia": [], "dyspnoea": []})
    assert fit.method == "exact"
    total, means = 0.0, np.zeros(4)
    for smoking, tuberculosis, cancer, bronchitis in itertools.product((0, 1), repeat=4):
        breath = ((0.1, 0.8), (0.7, 0.9))[tuberculosis or cancer][bronchitis]
        p = 0.5 * 0.5 * bernoulli(tuberculosis, 0.05) * bernoulli(cancer, (0.01, 0.1)[smoking])
        p *= bernoulli(bronchitis, (0.3, 0.6)[smoking]) * breath
        total += p
        means += p * np.array([smoking, tuberculosis, cancer, bronchitis])
    names = ["smoking", "tuberculosis", "lung_cancer", "bronchitis"]
    assert fit.summary().loc[names, "mean"].to_numpy() == pytest.approx(means / total, rel=1e-12)
    assert evidence_of(fit) == pytest.approx(np.log(total), rel=1e-12)
    draws = fit.posterior
    assert np.array_equal(
        draws["either"], draws["tuberculosis"].values.astype(bool) | draws["lung_cancer"].values.astype(bool)
    )
    for name, mean in zip(names, means / total, strict=True):
        assert float(draws[name].mean()) == pytest.approx(mean, abs=4 * np.sqrt(mean * (1 - mean) / 4000))


def test_labels_of_rows_with_known_components():
    """Means, sds and quantiles of a number of three values for each row, and rows that meet no label."""
    y, other = np.array([-1.0, 0.3, 2.5, 0.9]), np.array([0.2, -0.4, 1.0, 2.0])
    prior, places = np.array([0.2, 0.5, 0.3]), np.array([-1.0, 0.0, 2.0])
    nodes = {
        "z[obs_id]": "Categorical([0.2, 0.5, 0.3])",
        "y[obs_id]": "Normal(where(z == 0, -1, where(z == 1, 0, 2)), 0.8)",
        "other[obs_id]": "Normal(0.1, 1.5)",
    }
    fit = solved(nodes, {"y": y, "other": other})
    joint = prior * stats.norm.pdf(y[:, None], places, 0.8)
    p = joint / joint.sum(axis=1, keepdims=True)
    table = fit.summary()
    mean = p @ np.arange(3)
    assert table["mean"].to_numpy() == pytest.approx(mean, rel=1e-12)
    assert table["sd"].to_numpy() == pytest.approx(np.sqrt(p @ np.arange(3) ** 2 - mean**2), rel=1e-10)
    evidence = np.log(joint.sum(axis=1)).sum() + stats.norm.logpdf(other, 0.1, 1.5).sum()
    assert evidence_of(fit) == pytest.approx(evidence, rel=1e-12)
    low = fit.data_tree["exact_posterior"]["z"].sel(statistic="q5.5").values
    assert low.tolist() == [int(np.argmax(np.cumsum(row) >= 0.055)) for row in p]


def test_a_hidden_path_of_known_parameters():
    y = np.array([0.1, 1.9, 2.2, -0.3, np.nan, 1.1])
    nodes = {
        "z[t]": "MarkovChain([[0.8, 0.2], [0.3, 0.7]], initial=[0.6, 0.4])",
        "y[t]": "Normal(where(z == 0, 0, 2), 1)",
    }
    fit = solved(nodes, {"y": y}, {"y": ["t"]}, dims={"state": 2})
    P, total, mean = np.array([[0.8, 0.2], [0.3, 0.7]]), 0.0, np.zeros(6)
    for path in itertools.product((0, 1), repeat=6):
        p = (0.6, 0.4)[path[0]] * np.prod([P[a, b] for a, b in itertools.pairwise(path)])
        p *= np.prod([1.0 if np.isnan(v) else stats.norm.pdf(v, 2 * s, 1) for v, s in zip(y, path, strict=True)])
        total, mean = total + p, mean + p * np.array(path)
    assert fit.method == "exact"
    assert evidence_of(fit) == pytest.approx(np.log(total), rel=1e-10)
    assert fit.summary()["mean"].to_numpy() == pytest.approx(mean / total, rel=1e-10)


def test_data_that_no_values_explain_are_refused():
    with refused("evidence.probability-zero", "whatever the discrete nodes are"):
        solved({"a": "Bernoulli(0.5)", "b": "Bernoulli(where(a, 0, 0))"}, {"b": 1}, {"b": []})


@pytest.mark.slow(why="statistical")
def test_rows_that_meet_different_nodes_have_tables_of_their_own():
    """Twelve genotypes in one density by `stack`: 36 numbers, not the half a million of one table for all."""
    names = [f"g{k}" for k in range(12)]
    nodes = dict.fromkeys(names, "Categorical([0.5, 0.3, 0.2])")
    nodes["ill[pig]"] = f"stack([{', '.join(f'{name} == 2' for name in names)}], pig)"
    nodes["seen[pig]"] = "Bernoulli(where(ill, 0.9, 0.2))"
    seen = np.arange(12) % 2
    model = bl.Model(model={"family": "graph", "nodes": nodes}, data={"dims": {"seen": ["pig"]}}, dims={"pig": 12})
    fit = bl.fit(model, {"seen": seen}, seed=1, progress=False, runs=None)
    likelihood = np.where(seen[:, None] == 1, [0.2, 0.2, 0.9], [0.8, 0.8, 0.1])
    joint = np.array([0.5, 0.3, 0.2]) * likelihood
    p = joint / joint.sum(axis=1, keepdims=True)
    assert fit.summary().loc[names, "mean"].to_numpy() == pytest.approx(p @ np.arange(3), rel=1e-12)
    assert evidence_of(fit) == pytest.approx(np.log(joint.sum(axis=1)).sum(), rel=1e-12)
    family = registry.load("families", "graph")
    _, sums = family.compile(fit.model, fit.data).elimination()
    assert sums.tables.type.shape[0] == 12 * 3 + 12 * 3


def test_potentials_weigh_the_values():
    fit = solved(
        {"a": "Bernoulli(0.3)", "b": "Bernoulli(0.4)", "p": "Potential(-1.5 * (a - b) ** 2)", "y": "Normal(a + b, 1)"},
        {"y": 1.2},
        {"y": []},
    )
    weights = {
        (a, b): bernoulli(a, 0.3) * bernoulli(b, 0.4) * np.exp(-1.5 * (a - b) ** 2) * stats.norm(a + b, 1).pdf(1.2)
        for a, b in itertools.product((0, 1), repeat=2)
    }
    total = sum(weights.values())
    assert evidence_of(fit) == pytest.approx(np.log(total), rel=1e-12)
    assert fit.summary().loc["a", "mean"] == pytest.approx((weights[1, 0] + weights[1, 1]) / total, rel=1e-12)
    assert set(fit.posterior) == {"a", "b"}


def test_a_list_of_which_one_entry_alone_depends_on_the_node():
    x = np.array([0.1, 0.2, 0.3])
    fit = solved(
        {"a": "Bernoulli(0.3)", "y[obs_id]": "Categorical([0.2 * a, 0.5 - 0.2 * a + 0 * x, 0.5])"},
        {"x": x, "y": [1, 2, 1]},
    )
    given = [bernoulli(a, 0.3) * (0.5 - 0.2 * a) ** 2 * 0.5 for a in (0, 1)]
    assert evidence_of(fit) == pytest.approx(np.log(sum(given)), rel=1e-12)
    assert fit.summary().loc["a", "mean"] == pytest.approx(given[1] / sum(given), rel=1e-12)


def test_a_missing_measurement_says_nothing():
    """Its row is left out; where something depends on the cell it is sampled instead."""
    nodes = {"a": "Bernoulli(0.3)", "y[obs_id]": "Normal(a, 1)"}
    fit = solved(nodes, {"y": np.array([1.0, np.nan, 2.0])})
    given = [bernoulli(a, 0.3) * stats.norm(a, 1).pdf([1.0, 2.0]).prod() for a in (0, 1)]
    assert evidence_of(fit) == pytest.approx(np.log(sum(given)), rel=1e-12)
    assert fit.summary().loc["a", "mean"] == pytest.approx(given[1] / sum(given), rel=1e-12)
    with refused("engine.refused.no-closed-form"):
        more = nodes | {"w[obs_id]": "Normal(y, 1)"}
        solved(more, {"y": np.array([1.0, np.nan, 2.0]), "w": np.array([1.0, 0.5, 2.0])}, method="exact")


def test_draws_of_many_rows_take_the_memory_of_the_draws():
    """2,000 rows that share a node of 101 values: the table of 200,000 numbers is not copied for each draw."""
    import tracemalloc

    y = np.random.default_rng(0).normal(15, 4, 2000)
    nodes = {"a": "DiscreteUniform(0, 100)", "y[obs_id]": "Normal(a, 10)"}
    tracemalloc.start()
    fit = solved(nodes, {"y": y})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    logs = stats.norm(np.arange(101)[:, None], 10).logpdf(y).sum(axis=1)
    weights = np.exp(logs - logs.max())
    assert fit.summary().loc["a", "mean"] == pytest.approx(weights @ np.arange(101) / weights.sum(), rel=1e-10)
    assert peak < 5e8
