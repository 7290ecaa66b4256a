"""Rows that name their parents: against enumeration, a chain, planted numbers; and what is wrong with a tree."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.families import hmm
from bayeslab.families.hmm.model import hidden_of
from bayeslab.latents.chains import hidden_tree
from bayeslab.latents.chains.forward_backward import HiddenChain
from bayeslab.latents.chains.hidden_tree import Forest
from bayeslab.results.decode import decode
from tests.families._climb import climbed
from tests.families._interpreted import Interpreted
from tests.latents.test_hidden_tree import every
from tests.refusals import refused


def model(**content):
    own = {"family": "hmm", "columns": ["y"], "states": 2, "parent": "mother"}
    return bl.Model(name="m", data={"rows": "cell"}, model=own | content)


# Two trees, rows in no order: d → (b → (a, e), c), and g → f.
TABLE = {
    "cell": ["a", "b", "c", "d", "e", "f", "g"],
    "mother": ["b", "d", "d", None, "b", "g", None],
    "y": [0.5, -1.0, 2.0, 1.5, np.nan, -0.7, 1.2],
}
PARENTS = np.array([1, 3, 3, -1, 1, 6, -1])  # by row


def by_hand(initial, transition, rows):
    """Log evidence of the trees of d and of g, and P(state) of every row, by enumeration; ``rows`` by row."""
    out, posterior = [], np.empty(rows.shape)
    for order in (np.array([3, 1, 2, 0, 4]), np.array([6, 5])):
        place = {int(r): i for i, r in enumerate(order)}
        forest = Forest([place[int(PARENTS[r])] if PARENTS[r] >= 0 else -1 for r in order])
        states, scores = every(forest, HiddenChain.of(initial, transition), rows[order])
        out.append(np.logaddexp.reduce(scores))
        weights = np.exp(scores - out[-1])
        for i, r in enumerate(order):
            posterior[r] = np.bincount(states[:, i], weights, rows.shape[1])
    return np.array(out), posterior


@pytest.fixture(scope="module")
def small():
    declared = model()
    data = bl.check(declared, pd.DataFrame(TABLE))
    graph = hmm.compile(declared, data).graph()
    return declared, data, graph


def test_trees_are_read_and_summed_as_enumeration_does(small):
    declared, data, _ = small
    hidden = hidden_of(declared, data)
    assert sorted(hidden.sequences.names.tolist()) == ["d", "g"]
    values = hidden.guess(np.random.default_rng(0))
    y = np.array(TABLE["y"])[:, None]
    rows = np.where(np.isnan(y), 0.0, stats.norm.logpdf(y, values["mean"], values["sd"]))
    want, posterior = by_hand(values["initial"], values["transition"], rows)
    draws = {n: v[None] for n, v in values.items()}
    found = hmm.compile(declared, data).log_likelihoods(draws)["sequence"][1][0]
    np.testing.assert_allclose(found[np.argsort(hidden.sequences.names)], want, rtol=1e-11)
    table, about = hmm.compile(declared, data).decoded(draws, "smooth", 1, None)
    assert table["cell"].tolist() == TABLE["cell"]
    np.testing.assert_allclose(table["P(state=2)"], posterior[:, 1], atol=1e-10)
    assert "smooth" in about["about"]
    one = hmm.compile(declared, data).decoded(draws, "viterbi", 1, "g")[0]
    assert one["cell"].tolist() == ["f", "g"]


@pytest.mark.slow(why="compiles")
def test_density_is_that_of_enumeration_and_its_slope_is_right(small):
    declared, data, graph = small
    density = Interpreted(graph)
    point = density.near(np.random.default_rng(1))
    found = density.parameters(point)
    prior = hidden_of(declared, data).parts[0].emission.prior
    y = np.array(TABLE["y"])[:, None]
    rows = np.where(np.isnan(y), 0.0, stats.norm.logpdf(y, found["mean"], found["sd"]))
    want = by_hand(found["initial"], found["transition"], rows)[0].sum()
    want += stats.norm.logpdf(found["mean"], prior.mean, found["sd"] / np.sqrt(prior.kappa)).sum()
    want += stats.invgamma.logpdf(found["sd"] ** 2, prior.nu / 2, scale=prior.scale / 2).sum()
    assert density.value(point) == pytest.approx(want, rel=1e-8)
    np.testing.assert_allclose(density.slope(point), density.differences(point), rtol=1e-5, atol=1e-6)


@pytest.mark.slow(why="compiles")
def test_zeros_of_a_pattern_have_a_slope_too():
    declared = model(states=3, topology="left_right")
    data = bl.check(declared, pd.DataFrame(TABLE))
    graph = hmm.compile(declared, data).graph()
    density = Interpreted(graph)
    point = density.near(np.random.default_rng(2), 0.3)
    np.testing.assert_allclose(density.slope(point), density.differences(point), rtol=1e-5, atol=1e-6)


def test_each_mother_with_one_daughter_is_a_chain():
    """Numbers as labels, too."""
    rng = np.random.default_rng(3)
    y = rng.normal(size=30)
    plain = bl.Model(name="p", model={"family": "hmm", "columns": ["y"], "states": 2})
    tree = bl.Model(name="t", model={"family": "hmm", "columns": ["y"], "states": 2, "parent": "before"})
    table = {"y": y, "before": np.append(np.nan, np.arange(29.0))}
    one, other = hidden_of(tree, bl.check(tree, table)), hidden_of(plain, bl.check(plain, {"y": y}))
    values = one.guess(np.random.default_rng(0))
    mine, theirs = one.law(values), other.law(values)
    np.testing.assert_allclose(mine.expected().log_evidence, theirs.expected().log_evidence, rtol=1e-12)
    np.testing.assert_allclose(mine.expected().posterior, theirs.expected().posterior, atol=1e-10)
    np.testing.assert_array_equal(mine.mode(1)[0], theirs.mode(1)[0])
    # Of one tree every row is left out given all others: the ratio of two evidences.
    whole = theirs.expected().log_evidence.sum()
    rows = other.log_emission(values)
    for t in (0, 7, 29):
        without = rows.copy()
        without[t] = 0.0
        rest = other.law(values, without).expected().log_evidence.sum()
        assert mine.log_likelihoods(False)[t] == pytest.approx(whole - rest, abs=1e-10)


@pytest.fixture(scope="module")
def planted():
    """Twenty lineages of thirty cells; mothers of state 2 have daughters of state 1 in one of five."""
    rng = np.random.default_rng(4)
    n = 600
    parents = np.array([-1 if t % 30 == 0 else rng.integers(t // 30 * 30, t) for t in range(n)])
    z = hidden_tree.simulate(Forest(parents), HiddenChain.of([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]), rng.random(n))
    names = np.array([f"c{i}" for i in range(n)])
    mixed = rng.permutation(n)
    y = np.array([-1.5, 1.5])[z] + rng.standard_normal(n)
    y[rng.random(n) < 0.1] = np.nan
    table = pd.DataFrame({"cell": names, "mother": [None if p < 0 else names[p] for p in parents], "y": y})
    return z[mixed], table.iloc[mixed].reset_index(drop=True)


@pytest.mark.slow(why="statistical")
def test_em_never_falls_and_finds_what_was_planted(planted):
    z, table = planted
    declared = model()
    plan = hmm.compile(declared, bl.check(declared, table)).em_plan
    for prior in (True, False):
        problem, theta = plan.problem(prior), plan.start(np.random.default_rng(1))
        climbed(problem, theta, 60, rtol=0, atol=1e-8)
    fit = bl.fit(declared, table, method="em", seed=1, runs=None, progress=False)
    found = np.asarray(fit.posterior["transition"])[0, 0]
    n = np.bincount(z, minlength=2)
    assert abs(found[0, 1] - 0.1) < 4 * np.sqrt(0.1 * 0.9 / n[0])
    assert abs(found[1, 0] - 0.2) < 4 * np.sqrt(0.2 * 0.8 / n[1])
    path = fit.decode()
    assert path["cell"].tolist() == table["cell"].tolist()
    assert np.mean(path["state"].to_numpy() == z + 1) > 0.9
    with refused("option.not-applicable", "filter"):
        fit.decode(method="filter")
    with refused("option.not-applicable", "best"):
        fit.decode(best=3)


@pytest.mark.slow(why="compiles")
def test_sampling_and_predicting(planted):
    """One NUTS run, with missing cells and lineages in pieces; its mean is where EM's mode is."""
    _, table = planted
    declared = model()
    mode = bl.fit(declared, table, method="em", seed=1, runs=None, progress=False)
    fit = bl.fit(declared, table, method="nuts", draws=200, tune=200, chains=2, seed=2, runs=None, progress=False)
    for name in ("transition", "mean", "sd"):
        draws, height = np.asarray(fit.posterior[name]), np.asarray(mode.posterior[name])[0, 0]
        assert np.all(np.abs(draws.mean(axis=(0, 1)) - height) < 0.7 * draws.std(axis=(0, 1)))
    own = {n: np.asarray(fit.posterior[n])[0] for n in hidden_of(declared, fit.data).learned}
    assert hmm.compile(declared, fit.data).log_likelihoods(own)["sequence"][1].shape == (200, 20)
    made = hmm.compile(declared, fit.data).predictive(own, np.random.default_rng(0))["y"][1]
    seen = ~np.isnan(table["y"].to_numpy())
    assert np.corrcoef(made.mean(axis=0)[seen], table["y"].to_numpy()[seen])[0, 1] > 0.8


def test_simulated_daughters_resemble_their_mothers():
    import pymc as pm

    n = 400
    parents = (np.arange(n) - 1) // 2  # a binary tree
    table = pd.DataFrame({"y": np.arange(float(n)), "mother": np.where(np.arange(n) == 0, np.nan, parents)})
    declared = bl.Model(
        name="m",
        model={
            "family": "hmm", "columns": ["y"], "states": 2, "parent": "mother", "initial": [1.0, 0.0],
            "transition": [[0.5, 0.5], [0.0, 1.0]], "parameters": {"mean": [-9.0, 9.0]},
        },
    )  # fmt: skip
    graph = hmm.compile(declared, bl.check(declared, table)).graph(purpose="simulate")
    fixed = pm.do(graph, {"_variance": np.array([0.01, 0.01])})
    path, y = pm.draw([fixed["path"], fixed["y"]], random_seed=1, mode="FAST_COMPILE")
    np.testing.assert_array_equal(y > 0, path == 1)
    above = path[parents[1:]]
    assert path[0] == 0
    assert np.all(path[1:][above == 1] == 1)
    first = path[1:][above == 0]
    assert abs(np.mean(first) - 0.5) < 4.5 * np.sqrt(0.25 / len(first))


def changed(**columns):
    return pd.DataFrame(TABLE | columns)


@pytest.mark.parametrize(
    ("content", "table", "code", "where", "match"),
    [
        ({}, changed(mother=["b", "d", "d", "a", "b", "g", None]), "data.cycle", "", "'mother'.*row 1"),
        ({}, changed(mother=["b", "d", "d", "d", "b", "g", None]), "data.cycle", "", "'mother'.*row 4"),
        ({}, changed(mother=["b", "d", "x", None, "b", "g", None]), "data.unknown-level", "", "row 3.*'x'.*'cell'"),
        ({"parent": "father"}, changed(), "model.unknown-column", "model.parent", "'father'"),
        ({"time": "t"}, changed(t=np.arange(7)), "model.conflict", "model", "time.*parent"),
        ({"order": 2}, changed(), "model.conflict", "model", "order"),
        ({"durations": 4}, changed(), "model.conflict", "model", "durations"),
        ({"columns": ["y", "mother"]}, changed(), "model.conflict", "model", "'mother'"),
        ({"emission": "observed"}, changed(), "model.unsupported", "model", "observed"),
    ],
)
def test_errors_are_one_line(content, table, code, where, match):
    with refused(code, match, where=where):
        resolved(content, table)


def resolved(content, table):
    declared = model(**content)
    return hidden_of(declared, bl.check(declared, table))


def test_a_parent_that_is_there_twice_is_an_error():
    with refused("data.duplicate", "'b'"):
        resolved({}, changed(cell=["a", "b", "b", "d", "e", "f", "g"]))


def test_rows_that_cannot_be_are_named():
    declared = model(
        emission="bernoulli", parameters={"probability": [0.0, 1.0]}, transition=[[1, 0], [0, 1]], initial="uniform"
    )
    with refused("data.probability-zero", "row 4.*'d'"):
        decode(declared, changed(y=[1, 1, 0, 1, 1, 0, 0]))
