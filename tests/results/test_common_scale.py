"""Log likelihoods are compared only where they are on one scale."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import bayeslab as bl
from bayeslab.posterior.event_kinds import ATOM
from bayeslab.preparation import Source
from bayeslab.results.common_scale import kinds, same_events
from bayeslab.results.predict import log_likelihood
from tests.refusals import refused

RNG = np.random.default_rng(3)
N = 40
X = RNG.normal(size=N)
PRIORS = {"Intercept": "Normal(0, 3)", "b": "Normal(0, 3)", "sigma": "HalfNormal(3)"}
WEIGHED = {"x": X, "y": 1 + X + 0.05 * RNG.normal(size=N), "w": RNG.integers(5, 9, N).astype(float)}
WHOLE = 1 + X + 0.5 * RNG.normal(size=N)
CUT = {"x": X, "y": np.minimum(WHOLE, 1.5), "cut": np.where(WHOLE > 1.5, "right", "none")}


def regression(**more) -> bl.Model:
    return bl.Model(name="line", model=bl.Regression(formula="y ~ x", priors=PRIORS, **more), seed=3)


def fitted(data, **more):
    options = {} if "weights" in more or not more else {"draws": 300, "tune": 300, "chains": 2}
    return bl.fit(regression(**more), data, runs=None, progress=False, **options)


def test_models_of_unlike_weights_are_not_compared():
    fits = {"plain": fitted(WEIGHED), "weighed": fitted(WEIGHED, weights="w")}
    with refused("data.different-data", "'plain'.*'weighed'.*'y'"):
        bl.compare(fits, progress=False)
    same = {"one": fits["weighed"], "two": fitted(WEIGHED, weights="w")}
    assert abs(bl.compare(same, progress=False).table["elpd_diff"]).max() < 1e-9


def test_scores_of_rows_left_out_are_of_single_rows():
    """By hand: the mean over draws of the density of a row, its logarithm, the mean over rows."""
    data = {name: values[:30] for name, values in WEIGHED.items()}
    found = bl.cross_validate(
        {"plain": regression(), "weighed": regression(weights="w")}, data, folds=3, seed=1, progress=False
    )
    assert abs(found.table.loc["plain", "log_score"] - found.table.loc["weighed", "log_score"]) < 0.3
    fit = fitted(WEIGHED, weights="w")
    p = fit.posterior
    mean = p["Intercept"].values[..., None] + p["b"].values * X
    density = norm.logpdf(WEIGHED["y"], mean, p["sigma"].values[..., None])
    np.testing.assert_allclose(log_likelihood(fit, weighted=False)["y"].to_numpy(), density, atol=1e-8)
    np.testing.assert_allclose(log_likelihood(fit)["y"].to_numpy(), density * WEIGHED["w"], atol=1e-7)


@pytest.mark.slow(why="large")
def test_censored_rows_are_not_compared_with_values():
    fits = {"plain": fitted(CUT), "cens": fitted(CUT, censored="cut")}
    first = int(np.argmax(CUT["cut"] == "right")) + 1
    match = f"'y', row {first}, .*'plain'.*right.*'cens'"
    with refused("data.different-data", match):
        bl.compare(fits, progress=False)
    with refused("data.different-data", match):
        bl.cross_validate({"plain": regression(), "cens": regression(censored="cut")}, CUT, folds=2, progress=False)
    with refused("data.not-applicable", "'y'"):
        fits["cens"].check(["mean"])
    found = bl.cross_validate({"cens": regression(censored="cut")}, CUT, folds=2, draws=200, tune=200, progress=False)
    assert np.isfinite(found.table.loc["cens", "log_score"])
    assert "rmse" not in found.table and "the log score alone" in found.notes()[0]
    with refused("option.not-applicable", "'y'.*censored"):
        bl.validation_curve(
            bl.Model(model=bl.Regression(formula="y ~ x", censored="cut")), "likelihood", ["gaussian"], CUT, folds=2,
            draws=100, tune=100, progress=False,
        )  # fmt: skip
    other = CUT | {"cut": np.where(WHOLE > 1.5, "left", "none")}
    with refused("data.different-data", "censored.*'cens'.*left.*'left'"):
        bl.compare({"cens": fits["cens"], "left": fitted(other, censored="cut")}, progress=False)
    # New rows are predicted as they are before anything cuts them off.
    there = fits["cens"].predict({"x": [3.0]})["mean"].iloc[0]
    assert there == pytest.approx(4.0, abs=0.5)


def named(name: str, text: str, data=CUT):
    nodes = {"a": "Normal(0, 3)", "b": "Normal(0, 3)", "s": "HalfNormal(3)", "y[obs_id]": text}
    model = bl.Model(name=name, model=bl.Graph(nodes=nodes), seed=3)
    return name, kinds("y", Source(model).posterior(data))


def test_bounds_of_a_graph_are_values_with_a_probability():
    plain = named("plain", "Normal(a + b * x, s)")
    for bound in ("1.5", "3 / 2", "limit"):
        cens = named("cens", f"Censored(Normal(a + b * x, s), upper={bound})", CUT | {"limit": np.full(N, 1.5)})
        np.testing.assert_array_equal(cens[1] == ATOM, CUT["y"] == 1.5)
        with refused("data.different-data", "'y'"):
            same_events("y", cens, plain)
        same_events("y", cens, cens)
    moving = named("moving", "Censored(Normal(a + b * x, s), upper=a + 10)")
    with refused("data.different-data", "'y', row 1,.*'moving'.*'plain'"):
        same_events("y", moving, plain)


@pytest.mark.slow(why="compiles")
def test_counts_as_numbers_and_as_counts():
    data = {"x": X, "y": RNG.poisson(np.exp(1 + 0.3 * X)).astype(float)}
    models = {
        "numbers": bl.Model(name="numbers", model=bl.Regression(formula="y ~ x"), seed=3),
        "counts": bl.Model(name="counts", model=bl.Regression(formula="y ~ x", likelihood="poisson"), seed=3),
    }
    found = bl.cross_validate(models, data, folds=2, draws=200, tune=200, progress=False)
    assert list(found.measures) == ["rmse", "mae"] and "log scores are left out" in found.notes()[0]
    fits = {
        name: bl.fit(model, data, "nuts", draws=200, tune=200, runs=None, progress=False)
        for name, model in models.items()
    }
    with refused("data.different-data", "'numbers'.*'counts'"):
        bl.compare(fits, progress=False)
