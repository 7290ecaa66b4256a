"""Probabilities of outcomes are averaged over the draws: shares of drawn outcomes would miss what is rare."""

import numpy as np
import pytest
from scipy import stats

import bayeslab as bl


def _fit(nodes, data, **options):
    model = bl.Model(name="rows", data={"rows": "row"}, model=bl.Graph(nodes=nodes))
    return bl.fit(model, data, seed=1, runs=None, **options)


@pytest.fixture(scope="module")
def rare():
    """2 of 3,000: p is Beta(3, 5997) given the rows."""
    happened = np.zeros(3000, int)
    happened[[5, 7]] = 1
    return _fit({"p": "Beta(1, 2999)", "y[row]": "Bernoulli(p)"}, {"y": happened})


@pytest.mark.slow(why="statistical")
def test_rare_outcomes_have_their_probability(rare):
    made = rare.predict({"y": [0, 0, 1]}, kind="probabilities")
    # The error is that of the mean of 4,000 draws of p.
    error = stats.beta(3, 5997).std() / np.sqrt(4000)
    assert made["P(y=1)"].to_numpy() == pytest.approx(3 / 6000, abs=5 * error)


@pytest.mark.slow(why="large")
def test_rows_that_are_alike_are_decided_alike(rare):
    made = rare.decide(loss={"treat": {0: 4, 1: 0}, "wait": {0: 0, 1: 10_000}})
    assert set(made["action"]) == {"treat"}
    assert made["E[wait]"].to_numpy() == pytest.approx(np.full(3000, 5.0), rel=0.05)


def test_counts_have_the_probabilities_of_their_law():
    counts = np.array([2, 0, 1, 3, 1, 0, 2])
    fit = _fit({"m": "Gamma(2, 1)", "y[row]": "Poisson(m)"}, {"y": counts})
    made = fit.predict({"y": [0]}, kind="probabilities")
    exact = stats.nbinom(2 + counts.sum(), 8 / 9)
    for k in (0, 1, 4):
        assert made[f"P(y={k})"][0] == pytest.approx(exact.pmf(k), abs=0.004)


@pytest.mark.slow(why="statistical")
def test_words_that_were_never_drawn_have_a_probability():
    model = bl.Model(
        name="rows", data={"rows": "row"}, dims={"kind": ["a", "b", "never"]},
        model=bl.Graph(nodes={"p[kind]": "Dirichlet([2000, 2000, 0.001])", "y[row]": "Categorical(p)"}),
    )  # fmt: skip
    fit = bl.fit(model, {"y": ["a", "b", "b"]}, seed=1, runs=None)
    made = fit.predict({"y": ["a"]}, kind="probabilities")
    assert {"P(y=a)", "P(y=b)", "P(y=never)"} <= set(made)
    assert made["P(y=never)"][0] < 1e-4


@pytest.mark.slow(why="statistical")
def test_probabilities_of_counts_leave_no_value_out():
    """A gamma and Poisson pair: the predictive is negative binomial, each value between the extremes has a column."""
    table = {"y": np.array([3, 0, 5, 1]), "e": [1.0, 0.5, 2.0, 1.0]}
    fit = _fit({"r": "Gamma(2, 1)", "y[row]": "Poisson(r * e)"}, table)
    new = {"y": [0, 0], "e": [1.0, 30.0]}
    made = fit.predict(new, kind="probabilities")
    shares = made.filter(like="P(")
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-12)
    counts = [name for name in shares if "other" not in name]
    values = [int(name.removeprefix("P(y=").removesuffix(")")) for name in counts]
    assert values == list(range(values[0], values[-1] + 1))
    # r is Gamma(2 + 9, 1 + 4.5) given the rows.
    for row, e in enumerate(new["e"]):
        exact = stats.nbinom(11, 5.5 / (5.5 + e)).pmf(values)
        np.testing.assert_allclose(shares[counts].to_numpy()[row], exact, atol=5 * exact.max() / np.sqrt(4000))
    decided = fit.decide(new, "zero_one")
    mode = shares[counts].to_numpy().argmax(axis=1)
    assert decided["action"].tolist() == np.array(values)[mode].tolist()
    np.testing.assert_allclose(decided["expected_loss"], 1 - shares[counts].to_numpy().max(axis=1), atol=1e-12)
