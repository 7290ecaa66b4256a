"""Transitions on inputs: against a mixture of experts, a forward pass written here, and planted numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_softmax, softmax

import bayeslab as bl
from bayeslab.families import hmm
from bayeslab.families.hmm.model import hidden_of
from bayeslab.posterior.transforms import unconstrained
from tests.families._climb import climbed
from tests.families._interpreted import Interpreted
from tests.refusals import refused


def model(**content):
    own = {"family": "hmm", "columns": ["y"], "states": 2, "transitions_on": ["x"], "initial": "uniform"}
    return bl.Model(name="m", model=own | content)


def planted(n, seed=0):
    """Moves from 1 to 2 are likely when x is high, back when it is low."""
    rng = np.random.default_rng(seed)
    x = 100 + 10 * rng.standard_normal(n)
    odds = np.stack([-2 + 0.2 * (x - 100), -2 - 0.2 * (x - 100)])
    z = np.zeros(n, int)
    for t in range(1, n):
        z[t] = z[t - 1] ^ int(rng.random() < 1 / (1 + np.exp(-odds[z[t - 1], t])))
    return z, {"x": x, "y": np.array([-3.0, 3.0])[z] + rng.standard_normal(n)}


def test_a_gate_that_forgets_the_state_is_a_mixture_of_experts():
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal(9), rng.standard_normal(9)
    g, h = np.array([0.3, -0.4, 0.9]), np.array([1.0, 0.2, -0.7])
    gate = softmax(g + x[:, None] * h, axis=1)
    declared = model(states=3, parameters={"mean": [-1.0, 0.0, 2.0], "sd": 1.0}, initial=gate[0].tolist())
    data = bl.check(declared, {"x": x, "y": y})
    values = {"log_odds": (g - g[:, None])[None], "log_odds_slope": (h - h[:, None])[None, ..., None]}
    _, found = hmm.compile(declared, data).log_likelihoods(values)["row"]
    want = np.log((gate * stats.norm.pdf(y[:, None], [-1.0, 0.0, 2.0])).sum(axis=1))
    np.testing.assert_allclose(found[0], want, rtol=1e-10)


@pytest.mark.slow(why="compiles")
def test_density_is_that_of_a_forward_pass_and_its_slope_is_right():
    _, table = planted(25)
    table["y"][7] = np.nan
    declared = model(parameters={"mean": [-3.0, 3.0], "sd": 1.0})
    data = bl.check(declared, table)
    graph = hmm.compile(declared, data).graph()
    density = Interpreted(graph)
    point = density.near(np.random.default_rng(1), 0.3)
    found = density.parameters(point)
    x, y = table["x"], table["y"]
    alpha, want = np.full(2, 0.5), 0.0
    for t in range(25):
        moves = np.exp(log_softmax(found["log_odds"] + found["log_odds_slope"][..., 0] * x[t], axis=1))
        alpha = (alpha if t == 0 else alpha @ moves) * (1.0 if np.isnan(y[t]) else stats.norm.pdf(y[t], [-3.0, 3.0]))
        want += np.log(alpha.sum())
        alpha = alpha / alpha.sum()
    off = ~np.eye(2, dtype=bool)
    level = found["log_odds"] + found["log_odds_slope"][..., 0] * x.mean()
    want += stats.norm.logpdf(level[off], 0, 2.5).sum()
    want += stats.norm.logpdf(found["log_odds_slope"][off, 0] * x.std(), 0, 2.5).sum()
    assert density.value(point) == pytest.approx(want, rel=1e-8)
    np.testing.assert_allclose(density.slope(point), density.differences(point), rtol=1e-5, atol=1e-6)
    # EM's log posterior differs from it by a constant.
    problem = hmm.compile(declared, data).em_plan.problem(True)
    theta = {n: found[n] for n in hidden_of(declared, data).learned}
    other = problem.update(problem.expect(theta)[1], theta)
    gap = problem.expect(other)[0] + problem.log_prior(other) - problem.expect(theta)[0] - problem.log_prior(theta)
    assert gap > 0
    gates = hidden_of(declared, data).chain._gates(other)[off]
    there = unconstrained(graph, {"_log_odds": gates[None]})
    moved = density.flat({n: v[0] for n, v in there.items()})
    assert density.value(moved) - density.value(point) == pytest.approx(gap, abs=1e-6)


@pytest.mark.parametrize("prior", [True, False])
def test_em_never_falls_and_recovers_what_was_planted(prior):
    _, table = planted(3000)
    declared = model()
    plan = hmm.compile(declared, bl.check(declared, table)).em_plan
    problem, theta = plan.problem(prior), plan.start(np.random.default_rng(1))
    theta, _ = climbed(problem, theta, 40, rtol=0, atol=1e-7)
    found = plan.values(theta)
    # About 400 moves and 10,000 numbers: standard errors near 0.1 and 0.012.
    np.testing.assert_allclose(found["log_odds_slope"][[0, 1], [1, 0], 0], [0.2, -0.2], atol=0.06)
    level = found["log_odds"] + 100 * found["log_odds_slope"][..., 0]
    np.testing.assert_allclose(level[[0, 1], [1, 0]], [-2.0, -2.0], atol=0.4)
    assert np.all(np.diag(found["log_odds"]) == 0)


@pytest.mark.slow(why="statistical")
def test_the_fit_decodes():
    z, table = planted(300)
    fit = bl.fit(model(), table, method="em", seed=1, runs=None, progress=False)
    assert np.mean(fit.decode()["state"].to_numpy() == z + 1) > 0.95
    filtered = fit.decode(method="predict")
    np.testing.assert_allclose(filtered["P(state=1)"] + filtered["P(state=2)"], 1.0)
    assert set(hmm.compile(fit.model, fit.data).priors()) == {"log_odds", "log_odds_slope", "mean", "sd"}


@pytest.mark.parametrize(
    ("content", "table", "code", "where", "match"),
    [
        (
            {"topology": "left_right"},
            {"x": [1.0, 2, 3], "y": [1.0, 2, 3]},
            "model.unsupported",
            "model.transitions_on",
            "order.*1",
        ),
        (
            {"transitions_on": ["z"]},
            {"x": [1.0, 2, 3], "y": [1.0, 2, 3]},
            "model.unknown-column",
            "model.transitions_on",
            "'z'",
        ),
        ({}, {"x": [1.0, np.nan, 3], "y": [1.0, 2, 3]}, "data.missing", "", "'x'.*2"),
        ({}, {"x": [1.0, 1, 1], "y": [1.0, 2, 3]}, "data.constant", "", "'x'"),
    ],
)
def test_errors_are_one_line(content, table, code, where, match):
    declared = model(**content)
    with refused(code, match, where=where):
        hidden_of(declared, bl.check(declared, table))
