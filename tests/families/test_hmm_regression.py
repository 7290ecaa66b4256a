"""States that emit regressions: of inputs, of the past; against plain computations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.families import hmm
from bayeslab.families.hmm.model import hidden_of
from bayeslab.latents.chains.forward_backward import HiddenChain, simulate_states, smooth
from bayeslab.posterior.transforms import unconstrained
from tests.families._climb import climbed
from tests.families._interpreted import Interpreted
from tests.refusals import refused


def model(**content):
    return bl.Model(name="m", model={"family": "hmm", "columns": ["y"], "states": 2, "inputs": ["x"]} | content)


def planted(n=600, seed=0, outcome="gaussian"):
    rng = np.random.default_rng(seed)
    z = simulate_states(HiddenChain.of([0.5, 0.5], [[0.95, 0.05], [0.1, 0.9]]), [0, n], rng)
    x = rng.normal(10.0, 3.0, n)
    eta = np.array([5.0, 60.0])[z] + np.array([2.0, -3.0])[z] * x
    if outcome == "poisson":
        eta = np.array([-1.0, 4.0])[z] + np.array([0.2, -0.2])[z] * x
        return z, {"x": x, "y": rng.poisson(np.exp(eta)).astype(float)}
    return z, {"x": x, "y": eta + np.array([1.0, 2.0])[z] * rng.standard_normal(n)}


@pytest.mark.slow(why="statistical")
def test_planted_regressions_are_recovered():
    z, table = planted()
    table["y"][50:60] = np.nan
    fit = bl.fit(model(), table, method="em", seed=1, runs=None, progress=False, restarts=8)
    p = fit.posterior.to_dataset().isel(chain=0, draw=0)
    # Standard errors: sd / sqrt(rows of the state) for the level at the middle, over 3 for the slope.
    np.testing.assert_allclose(p["slope"].to_numpy()[:, 0], [2.0, -3.0], atol=4 * 2 / np.sqrt(200) / 3)
    np.testing.assert_allclose(p["intercept"].to_numpy(), [5.0, 60.0], atol=4 * 2 / np.sqrt(200) * 10 / 3)
    np.testing.assert_allclose(p["sd"].to_numpy(), [1.0, 2.0], rtol=0.25)
    path = fit.decode()["state"].to_numpy()
    assert np.mean(path == z + 1) > 0.95


@pytest.mark.slow(why="statistical")
def test_counts_with_inputs():
    _, table = planted(outcome="poisson")
    fit = bl.fit(model(emission="poisson"), table, method="em", seed=1, runs=None, progress=False, restarts=8)
    slopes = fit.posterior["slope"].to_numpy()[0, 0, :, 0]
    np.testing.assert_allclose(slopes, [0.2, -0.2], atol=0.05)


@pytest.mark.slow(why="compiles")
def test_density_is_that_of_the_forward_pass_and_its_slope_is_right():
    """Log posterior by scipy and forward-backward; the same in EM; slope by differences."""
    _, table = planted(30)
    table["y"][4] = np.nan
    declared = model()
    data = bl.check(declared, table)
    graph = hmm.compile(declared, data).graph()
    density = Interpreted(graph)
    point = density.near(np.random.default_rng(1), 0.3)
    value, slope = density(point)
    own = density.parameters(point)
    x, y = table["x"], table["y"]
    log_emission = stats.norm.logpdf(y[:, None], own["intercept"] + x[:, None] * own["slope"][:, 0], own["sd"])
    log_emission[4] = 0.0
    want = smooth(HiddenChain.of(own["initial"], own["transition"]), log_emission).log_evidence.sum()
    seen = np.delete(np.arange(30), 4)
    mx, sx, my, sy = x[seen].mean(), x[seen].std(), y[seen].mean(), y[seen].std()
    b1 = own["slope"][:, 0] * sx / sy
    b0 = (own["intercept"] + own["slope"][:, 0] * mx - my) / sy
    sigma = own["sd"] / sy
    want += stats.invgamma.logpdf(sigma**2, 1, scale=0.01).sum()
    want += stats.norm.logpdf(b0, 0, sigma * 10).sum() + stats.norm.logpdf(b1, 0, sigma * 10).sum()
    assert value == pytest.approx(want, rel=1e-8)
    np.testing.assert_allclose(slope, density.differences(point), rtol=1e-5, atol=1e-5)
    problem = hmm.compile(declared, data).em_plan.problem(True)
    theta = {n: own[n] for n in hidden_of(declared, data).learned}
    moved = theta | {"slope": theta["slope"] * 1.1}
    gap = problem.expect(moved)[0] + problem.log_prior(moved) - problem.expect(theta)[0] - problem.log_prior(theta)
    exact = hidden_of(declared, data).parts[0].to_emission(moved)
    free = {rv.name: own[rv.name][None] for rv in graph.free_RVs} | {"_coefficients": exact["coefficients"][None]}
    other = density.flat({n: v[0] for n, v in unconstrained(graph, free).items()})
    assert density(other)[0] - value == pytest.approx(gap, abs=1e-6)


@pytest.mark.parametrize("content", [{}, {"window": 2}, {"inputs": [], "window": 1}, {"emission": "poisson"}])
@pytest.mark.parametrize("prior", [True, False])
def test_em_never_falls(content, prior):
    _, table = planted(80, outcome=content.get("emission", "gaussian"))
    table["y"][20:22] = np.nan
    declared = model(**content)
    plan = hmm.compile(declared, bl.check(declared, table)).em_plan
    problem, theta = plan.problem(prior), plan.start(np.random.default_rng(1))
    climbed(problem, theta, 20, rtol=1e-8)


def test_window_is_an_autoregression_of_each_state():
    """At given parameters: the density of an autoregression by enumeration of what each row is told."""
    y = np.array([0.3, 1.0, 0.2, -0.5, 0.9, 0.1, 0.4, 1.5])
    declared = model(inputs=[], window=1)
    data = bl.check(declared, {"y": y})
    values = {
        "initial": np.array([0.4, 0.6]),
        "transition": np.array([[0.8, 0.2], [0.3, 0.7]]),
        "intercept": np.array([0.1, 0.5]),
        "slope": np.array([[0.9], [-0.4]]),
        "sd": np.array([0.5, 1.0]),
    }
    log_emission = np.zeros((8, 2))
    log_emission[1:] = stats.norm.logpdf(
        y[1:, None], values["intercept"] + y[:-1, None] * values["slope"][:, 0], values["sd"]
    )
    want = smooth(HiddenChain.of(values["initial"], values["transition"]), log_emission).log_evidence.sum()
    _, found = hmm.compile(declared, data).log_likelihoods({n: v[None] for n, v in values.items()})["row"]
    assert found.sum() == pytest.approx(want, rel=1e-12)


@pytest.mark.slow(why="statistical")
def test_predictions_use_the_inputs_of_new_rows():
    _, table = planted(300)
    fit = bl.fit(model(), table, method="em", seed=1, runs=None, progress=False, restarts=8)
    state = int(fit.decode()["state"].iloc[-1]) - 1
    new = {"x": np.append(table["x"], 10.0), "y": np.append(table["y"], np.nan)}
    p = fit.posterior.to_dataset().isel(chain=0, draw=0)
    want = p["intercept"].to_numpy() + 10.0 * p["slope"].to_numpy()[:, 0]
    drawn = fit.predict(new, kind="draws", seed=2)["y"].to_numpy().ravel()[-1]
    assert np.min(np.abs(drawn - want)) < 5 * p["sd"].to_numpy().max()
    assert state in (0, 1)


@pytest.mark.parametrize(
    ("content", "table", "code", "where", "match"),
    [
        ({"inputs": ["z"]}, {"x": [1.0, 2, 3], "y": [1.0, 2, 3]}, "model.unknown-column", "model.inputs", "'z'"),
        ({}, {"x": [1.0, np.nan, 3], "y": [1.0, 2, 3]}, "data.missing", "", "'x'.*row 2"),
        ({}, {"x": [1.0, 2, 3], "y": [1.0, 2, 3]}, "data.too-few", "", "3 rows.*2"),
        ({}, {"x": [1.0] * 9, "y": np.arange(9.0)}, "data.constant", "", "'x'"),
        ({}, {"x": np.arange(9.0), "y": np.ones(9)}, "data.constant", "", "'y'"),
        (
            {"emission": "student_t"},
            {"x": np.arange(9.0), "y": np.arange(9.0)},
            "model.unsupported",
            "model.emission",
            "gaussian",
        ),
    ],
)
def test_errors_are_one_line(content, table, code, where, match):
    declared = model(**content)
    with refused(code, match, where=where):
        hidden_of(declared, bl.check(declared, table))
