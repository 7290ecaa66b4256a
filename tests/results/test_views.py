"""Results by what is there: evidence, hidden states, functions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import bayeslab as bl
from tests.refusals import refused


@pytest.fixture(scope="module")
def coins():
    """An exact fit: five tosses, a uniform prior."""
    model = bl.Model(name="coins", model=bl.Graph(nodes={"p": "Beta(1, 1)", "heads[obs_id]": "Bernoulli(p)"}))
    return bl.fit(model, {"heads": np.array([1, 1, 0, 1, 0])}, seed=1, progress=False)


def test_log_evidence_is_the_integral(coins):
    """∫ p³ (1 - p)² dp = B(4, 3)."""
    assert coins.log_evidence == pytest.approx(np.log(1 / 60), rel=1e-10)


def test_what_is_not_there_is_refused(coins):
    with refused("option.not-applicable"):
        coins.states  # noqa: B018
    with refused("option.not-applicable"):
        coins.functions  # noqa: B018
    model = bl.Model(name="m", model=bl.Graph(nodes={"m": "Normal(0, 1)", "y[obs_id]": "Normal(m, 1)"}))
    point = bl.fit(model, {"y": np.array([1.0, 2.0])}, method="map", seed=1, progress=False)
    with refused("option.not-applicable", "map"):
        point.log_evidence  # noqa: B018


def test_states_are_those_of_enumeration():
    """Two states, four rows: paths and probabilities by summing over all sixteen."""
    transition, counts = np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([0, 2, 6, 4])
    paths = np.array(list(np.ndindex(2, 2, 2, 2)))
    chain = {"initial": [0.5, 0.5], "transition": transition.tolist()}
    spec = bl.HMM(columns=["n"], states=2, emission="poisson", parameters={"rate": "Gamma(2, 1)"}, **chain)
    fit = bl.fit(bl.Model(name="m", model=spec), {"n": counts}, method="em", seed=1, progress=False)
    rate = fit.posterior["rate"].to_numpy().ravel()
    height = np.log(0.5) + np.log(transition[paths[:, :-1], paths[:, 1:]]).sum(axis=1)
    height += stats.poisson.logpmf(counts, rate[paths]).sum(axis=1)
    weight = np.exp(height - height.max())
    weight /= weight.sum()
    found = fit.states.probabilities()
    states = [c for c in found.columns if c.startswith("P(")]
    for k, column in enumerate(states):
        np.testing.assert_allclose(found[column], (weight[:, None] * (paths == k)).sum(axis=0), atol=1e-8)
    best = paths[np.argmax(weight)]
    names = [column.removeprefix("P(state=").removesuffix(")") for column in states]
    assert fit.states.path()["state"].astype(str).tolist() == [names[k] for k in best]
    with refused("option.unknown-word"):
        fit.states.probabilities(given="nothing")
    assert fit.states.plot().axes[0].get_ylabel() == "n"
    assert set(names) <= {text.get_text() for text in fit.states.plot("transitions").axes[0].texts}


@pytest.mark.slow(why="compiles")
def test_functions_are_the_posterior_of_a_process():
    """Known kernel and noise, so that the posterior of the function is a normal in closed form."""
    x, y = np.linspace(0, 3, 12), np.sin(np.linspace(0, 3, 12))
    nodes = {
        "f[row]": "GaussianProcess(ExpQuad(x, 1, 1))",
        "s": "LogNormal(-2, 0.001)",
        "y[row]": "Normal(f, s)",
    }
    model = bl.Model(name="m", data={"rows": "row"}, model=bl.Graph(nodes=nodes))
    fit = bl.fit(model, {"x": x, "y": y}, seed=1, progress=False, draws=500, tune=500)
    covariance = np.exp(-0.5 * (x[:, None] - x) ** 2)
    gain = covariance @ np.linalg.inv(covariance + np.exp(-4) * np.eye(12))
    sd = np.sqrt(np.diag(covariance - gain @ covariance))
    table = fit.functions.table()
    assert list(table.columns) == ["row", "mean", "sd", "eti89_lb", "eti89_ub"]
    assert np.all(np.abs(table["mean"] - gain @ y) < 5 * sd / np.sqrt(1500))
    assert np.all(np.abs(table["sd"] / sd - 1) < 5 / np.sqrt(2 * 1500))
    assert fit.functions.names == ("f",)
    (line,) = fit.functions.plot(column="x").axes[0].lines
    np.testing.assert_allclose(line.get_xdata(), x)
    np.testing.assert_allclose(line.get_ydata(), table["mean"])
    with refused("option.unknown-variable"):
        fit.functions.table("g")
