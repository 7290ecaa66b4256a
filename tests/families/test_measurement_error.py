"""Predictors measured with error, me(x, sd).

The truth is the joint density of the model as it is stated, y given true values, measurements given true values, and true
values, written with NumPy and SciPy; and regression calibration, which is exact in a linear normal model.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.posterior.machine.density import MachineDensity
from bayeslab.preparation import Source
from tests.densities import agree, machines_agree
from tests.refusals import refused


def table(n: int = 80) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    true, error = rng.normal(1, 1, n), rng.uniform(0.3, 0.9, n)
    return pd.DataFrame(
        {
            "x": true + error * rng.normal(size=n),
            "e": error,
            "less": -error,
            "z": rng.normal(size=n),
            "g": np.array(["a", "b"])[np.arange(n) % 2],
            "h": np.array(["u", "v", "w"])[np.arange(n) % 3],
            "k": np.arange(n) % 4,
            "y": 1 + 2 * true + 0.5 * rng.normal(size=n),
            "win": rng.integers(0, 2, n),
            "count": rng.poisson(np.exp(0.3 * true)),
        }
    )


def regression(formula: object, likelihood: str = "gaussian", **more: object) -> bl.Model:
    return bl.Model(data={"rows": "row"}, model=bl.Regression(formula=formula, likelihood=likelihood, **more))


PRIORS = {
    "Intercept": "Normal(0, 2)", "b": "Normal(0, 1)", "mean_me_x": "Normal(0, 3)", "sd_me_x": "HalfNormal(2)",
    "sigma": "Exponential(1)",
}  # fmt: skip


def test_the_density_is_the_joint_one_of_the_model_as_it_is_stated():
    """The sampler's coordinates are true values less their mean given the measurements, over their sd."""
    data = table()
    posterior = Source(regression("y ~ me(x, e) * z", priors=PRIORS)).posterior(data)
    assert posterior.lowered.design.names == ["me(x, e)", "z", "me(x, e):z"]
    density = MachineDensity(posterior.machine_model(), lambda: None)
    x, e, z, y = (data[name].to_numpy() for name in ("x", "e", "z", "y"))
    rng = np.random.default_rng(1)
    for _ in range(2):
        at = {name: 0.5 * rng.normal(size=shape) for name, shape in zip(density.names, density.shapes, strict=True)}
        sigma, sd, mean, b = np.exp(at["sigma_log__"]), np.exp(at["sd_me_x_log__"]), at["mean_me_x"], at["b"]
        spread = 1 / np.sqrt(1 / e**2 + 1 / sd**2)
        true = spread**2 * (x / e**2 + mean / sd**2) + spread * at["_raw_me_x"]
        eta = at["Intercept"] + b[0] * true + b[1] * z + b[2] * true * z
        rows = stats.norm(eta, sigma).logpdf(y)
        expected = rows.sum() + stats.norm(true, e).logpdf(x).sum() + stats.norm(mean, sd).logpdf(true).sum()
        expected += np.log(spread).sum() + stats.norm(0, 2).logpdf(at["Intercept"]) + stats.norm.logpdf(b).sum()
        expected += stats.norm(0, 3).logpdf(mean) + stats.halfnorm(scale=2).logpdf(sd) + stats.expon.logpdf(sigma)
        assert density(density.flat(at))[0] == pytest.approx(float(expected + np.log(sigma * sd)), rel=1e-9)
        draws = {"Intercept": at["Intercept"], "b": b, "sigma": sigma, "true_me_x": true}
        draws = {name: np.asarray(value)[None] for name, value in draws.items()}
        ((_, each),) = posterior.log_likelihoods(draws).values()
        np.testing.assert_allclose(each[0], rows, rtol=1e-9)


WRITTEN = {
    "one": ("y ~ me(x, e) + z", "gaussian"),
    "by factor": ("count ~ 0 + me(x, 0.4):h + (1 | g)", "poisson"),
    "sigma": ({"mu": "y ~ me(x, e) * g", "sigma": "~ me(x, e)"}, "student_t"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "one" else pytest.mark.slow(why="compiles")) for n in WRITTEN]
)
def test_the_density_is_that_of_the_model_written_out(name):
    formula, likelihood = WRITTEN[name]
    model = regression(formula, likelihood)
    agree(bl.to_pymc(model, table()), bl.to_pymc(bl.expand(model, table()), table()), rtol=1e-9)


@pytest.mark.parametrize("name", WRITTEN)
def test_the_machine_has_the_density_of_the_model_written_out(name):
    formula, likelihood = WRITTEN[name]
    model = regression(formula, likelihood)
    machines_agree(model, bl.expand(model, table()), table())


# --------------------------------------------------------------------------------- new rows, and effects


@pytest.fixture(scope="module")
def fit() -> bl.Fit:
    return bl.fit(regression("y ~ me(x, e)"), table(), seed=1, runs=None, progress=False)


def flat(fit: bl.Fit, name: str) -> np.ndarray:
    values = fit.posterior[name].to_numpy()
    return values.reshape(-1, *values.shape[2:])


def test_effects_are_those_of_true_values(fit):
    new = pd.DataFrame({"x": [0.0, 2.0], "e": [0.5, 0.0]})
    intercept, slope = flat(fit, "Intercept")[:, None], flat(fit, "b")
    truth = intercept + slope * new["x"].to_numpy()
    np.testing.assert_allclose(np.asarray(fit.predictions(new).draws).reshape(truth.shape), truth, rtol=1e-9)
    np.testing.assert_allclose(np.asarray(fit.slopes("x").draws).ravel(), slope[:, 0], rtol=1e-6)


def test_new_rows_are_predicted_from_their_measurements(fit):
    """The mean and variance of y given x, written with the attenuation sd^2 / (sd^2 + e^2)."""
    new = pd.DataFrame({"x": [3.0, 3.0], "e": [0.9, 0.0]})
    draws = np.asarray(fit.predict(new, kind="draws")["y"]).reshape(-1, 2)
    a, b, sigma, mean, sd = (flat(fit, name) for name in ("Intercept", "b", "sigma", "mean_me_x", "sd_me_x"))
    for column, e in zip(draws.T, new["e"], strict=True):
        reliability = sd**2 / (sd**2 + e**2)
        middle = a + b[:, 0] * (mean + reliability * (3 - mean))
        variance = sigma**2 + b[:, 0] ** 2 * sd**2 * (1 - reliability)
        z = (column - middle) / np.sqrt(variance)
        assert stats.kstest(z, "norm").pvalue > 1e-3


@pytest.mark.slow(why="statistical")
def test_the_slope_is_not_attenuated(fit):
    """In a linear normal model the slope on x is that on true values, times their reliability."""
    data = table(4_000).assign(e=0.8)
    rng = np.random.default_rng(1)
    true = rng.normal(1, 1, 4_000)
    data["x"], data["y"] = true + 0.8 * rng.normal(size=4_000), 2 * true + 0.5 * rng.normal(size=4_000)
    naive = np.polyfit(data["x"], data["y"], 1)[0]
    fitted = bl.fit(regression("y ~ me(x, 0.8)"), data[:300], seed=1, runs=None, progress=False)
    slope = flat(fitted, "b")[:, 0]
    assert naive == pytest.approx(2 / (1 + 0.64), abs=0.05)
    assert abs(slope.mean() - 2) < 3 * slope.std()
    assert slope.mean() - 3 * slope.std() > naive


def test_probabilities_of_measured_rows_are_refused():
    model = regression("win ~ me(x, e)", "bernoulli")
    fitted = bl.fit(model, table(40), seed=1, runs=None, progress=False, draws=100, tune=200)
    with refused("option.unsupported", "me.x, e.: the true values"):
        fitted.predict(table(3), kind="probabilities")


# ----------------------------------------------------------------------------------------- wrong terms


@pytest.mark.parametrize(
    ("formula", "code", "match"),
    [
        ("y ~ me(q, e)", "model.unknown-column", "'q'"),
        ("y ~ me(x)", "model.wrong-arguments", "'sd'"),
        ("y ~ me(x, 0)", "model.wrong-arguments", "positive number; given: 0"),
        ("y ~ me(log(x), e)", "model.wrong-arguments", "takes a column"),
        ("y ~ me(x, less)", "data.out-of-range", "'less' .* in row 1"),
        ("y ~ me(g, e)", "data.not-numbers", "'g' holds names"),
        ("y ~ log(me(x, e))", "model.misplaced", "a separate term"),
        ("y ~ (me(x, e) | g)", "model.misplaced", "outside of the brackets"),
        ("y ~ me(x, e):me(z, e)", "model.misplaced", "no interaction with another"),
        ("y ~ me(x, e):mo(k)", "model.misplaced", "no interaction with another"),
        ("y ~ me(x, e) + me(x, 1)", "model.conflict", "different errors"),
        ("h ~ me(x, e)", "model.unsupported", "categorical"),
    ],
)
def test_wrong_terms_are_refused_in_one_line_with_their_place(formula, code, match):
    likelihood = "categorical" if formula.startswith("h") else "gaussian"
    with refused(code, match, where="model.formula"):
        bl.check(regression(formula, likelihood), table())


def test_all_formulas_have_the_same_errors_of_a_measurement():
    model = regression({"mu": "y ~ me(x, e)", "sigma": "~ me(x, 1)"})
    with refused("model.conflict", "different errors", where="model.formula.sigma"):
        bl.check(model, table())


def test_a_group_that_would_share_the_sd_of_true_values_is_refused():
    with refused("model.name-clash", "'sd_me_x'", where="model.formula"):
        bl.check(regression("y ~ me(x, e) + (1 | me_x)"), table().assign(me_x=table()["h"]))


def test_priors_are_by_name():
    named = Source(
        regression("y ~ me(x, e)", priors={"mean_me_x": "Normal(0, 9)", "me(x, e)": "Normal(0, 1)"})
    ).posterior(table())
    assert named.priors()["mean_me_x"] == "Normal(0, 9)"
    assert named.priors()["b[me(x, e)]"] == "Normal(0, 1)"
    assert "x[row]" not in named.priors()
    with refused("model.out-of-range", "'sd_me_x'", where="model.priors.sd_me_x"):
        bl.check(regression("y ~ me(x, e)", priors={"sd_me_x": -1}), table())
    with refused("model.unknown-parameter", "'mean_me_z'", where="model.priors.mean_me_z"):
        bl.check(regression("y ~ me(x, e)", priors={"mean_me_z": "Normal(0, 1)"}), table())


def test_weights_would_count_a_true_value_once_and_its_response_often():
    with refused("model.unsupported", "me.x, e.", where="model.weights"):
        bl.check(regression("y ~ me(x, e)", weights="k"), table())


def test_a_predictor_with_a_separate_model_is_not_measured_as_well():
    model = regression("y ~ me(x, e)", missing={"x": "Normal(0, 1)"})
    with refused("model.unsupported", "me.x, e.", where="model.missing.x"):
        bl.check(model, table())
