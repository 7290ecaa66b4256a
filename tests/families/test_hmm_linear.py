"""Continuous states: densities against the joint normal, EM against published estimates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.families import hmm
from bayeslab.families.hmm.model import linear_of
from bayeslab.latents.linear_gaussian import kalman
from tests.families._climb import climbed
from tests.refusals import refused

NILE = Path(__file__).parents[2] / "models" / "nile_level.yaml"


def level(**content):
    return bl.Model(name="m", model={"family": "hmm", "columns": ["y"], "states": "continuous"} | content)


@pytest.mark.slow(why="compiles")
def test_nile_has_the_variances_of_durbin_and_koopman():
    """Durbin and Koopman (2012), section 2.10: 15099 and 1469.1, with a diffuse start."""
    fit = bl.fit(NILE, method="em", prior="ignore", tolerance=1e-9, seed=1, runs=None, progress=False)
    assert float(fit.posterior["noise_sd"].squeeze()) ** 2 == pytest.approx(15099, rel=2e-3)
    assert float(fit.posterior["level_sd"].squeeze()) ** 2 == pytest.approx(1469.1, rel=5e-3)


def test_a_dimension_is_left_to_em():
    """Of a given dimension the states can be turned: NUTS refuses, so that it is not what is taken by itself."""
    from bayeslab.engines import auto

    table = {"y": [1.0, 2.0, 1.5, 0.5, 2.5], "z": [0.5, 1.0, 0.0, 1.5, 1.0]}
    declared = level(columns=["y", "z"], dimension=1)
    assert auto.choose(hmm.compile(declared, bl.check(declared, table)))[0] == "em"


def test_density_is_the_joint_normal_one():
    """Two sequences with a gap: log p(y) from the covariance of all levels."""
    table = {"who": ["a"] * 3 + ["b"] * 2, "day": [1, 2, 4, 1, 2], "y": [1.0, 2.5, 0.5, -1.0, 0.0]}
    declared = level(sequence="who", time="day")
    data = bl.check(declared, table)
    own = linear_of(declared, data)
    move, noise = 0.7, 0.4
    _, (_, found) = next(
        iter(
            hmm.compile(declared, data)
            .log_likelihoods({"level_sd": [np.array(move)], "noise_sd": [np.array(noise)]})
            .items()
        )
    )
    times = np.array([1, 2, 4])
    for s, (t, y) in enumerate(((times, table["y"][:3]), (times[:2], table["y"][3:]))):
        covariance = 1e4 * own.variances[0] + move**2 * (np.minimum(t[:, None], t) - 1) + noise**2 * np.eye(len(t))
        want = stats.multivariate_normal.logpdf(y, np.full(len(t), own.centre[0]), covariance)
        assert found[0, s] == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("content", [{}, {"columns": ["y", "z"]}, {"columns": ["y", "z"], "dimension": 1}])
@pytest.mark.parametrize("prior", [True, False])
def test_em_never_falls(content, prior):
    rng = np.random.default_rng(0)
    base = np.cumsum(rng.standard_normal(60))
    table = {"y": base + rng.standard_normal(60), "z": 3 * base + rng.standard_normal(60)}
    table["y"][5:9] = np.nan
    declared = level(**content)
    plan = hmm.compile(declared, bl.check(declared, table)).em_plan
    problem, theta = plan.problem(prior), plan.start(np.random.default_rng(1))
    climbed(problem, theta, 30)


@pytest.mark.slow(why="statistical")
def test_decoded_states_are_those_of_the_smoother_and_missing_ends_are_forecasts():
    rng = np.random.default_rng(2)
    y = np.cumsum(rng.standard_normal(40)) + rng.standard_normal(40)
    fit = bl.fit(level(), {"y": y}, method="em", seed=1, runs=None, progress=False)
    own = linear_of(fit.model, fit.data)
    values = {n: fit.posterior[n].to_numpy()[0, 0] for n in own.learned}
    system = own.system(values)
    want = kalman.smooth(system, y)
    found = fit.decode(method="smooth")
    np.testing.assert_allclose(found["state"], want.mean[:, 0], rtol=1e-9)
    np.testing.assert_allclose(found["sd"], np.sqrt(want.covariance[:, 0, 0]), rtol=1e-6)
    longer = fit.decode({"y": np.append(y, [np.nan, np.nan])}, "smooth")
    mean, covariance, _, _ = kalman.forecast(system, want.mean[-1], want.covariance[-1], 2)
    np.testing.assert_allclose(longer["state"].to_numpy()[-2:], mean[:, 0], rtol=1e-8)
    np.testing.assert_allclose(longer["sd"].to_numpy()[-2:], np.sqrt(covariance[:, 0, 0]), rtol=1e-6)
    assert fit.log_likelihood()["row"].shape == (1, 1, 40)
    assert fit.predict().shape[0] == 40


@pytest.mark.parametrize(
    ("content", "code", "where", "match"),
    [
        ({"states": "continous"}, "model.unknown-word", "model.states", "'continuous'"),
        ({"topology": "banded"}, "model.conflict", "model", "topology"),
        ({"states": 2, "dimension": 2}, "model.conflict", "model", "dimension"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(content, code, where, match):
    with refused(code, match, where=where):
        level(**content)


def test_constant_columns_and_samplers_of_turned_states_are_refused():
    declared = level()
    with refused("data.constant", "'y'"):
        linear_of(declared, bl.check(declared, {"y": [1.0, 1.0, 1.0]}))
    declared = level(columns=["y", "z"], dimension=1)
    with refused("model.not-identified", where="model.dimension"):
        hmm.compile(declared, bl.check(declared, {"y": [1.0, 2.0, 3.0], "z": [1.0, 0.0, 3.0]})).graph()
