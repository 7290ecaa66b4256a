"""Approximations of Gaussian processes through the family: densities, predictions, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.exact.prior_quantiles import quantiles
from bayeslab.families.gaussian_process import approximations, predictions
from bayeslab.families.gaussian_process import model as gaussian_process_model
from bayeslab.latents.gaussian_process.gp_likelihoods import Bernoulli
from bayeslab.latents.gaussian_process.laplace_gp import LaplaceRegression
from tests.refusals import refused


def model(**spec):
    given = {"family": "gaussian_process", "target": "y", "kernel": "Matern52(x)"} | spec
    return bl.Model.model_validate({"bayeslab": 1, "name": "process", "model": given})


def table(n=60, likelihood="gaussian"):
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0, 10, n))
    f = np.sin(x)
    if likelihood == "bernoulli":
        return pd.DataFrame({"x": x, "y": rng.binomial(1, 1 / (1 + np.exp(-2 * f)))})
    return pd.DataFrame({"x": x, "y": f + 0.2 * rng.normal(size=n)})


@pytest.fixture(scope="module")
def exact():
    return bl.fit(model(), data=table(), method="map", restarts=2, seed=1, runs=None, progress=False)


def mode(fit):
    """Values of what is inferred, by name."""
    return {str(name): values.to_numpy()[0, 0] for name, values in fit.posterior.to_dataset().data_vars.items()}


@pytest.mark.slow(why="large")
@pytest.mark.parametrize(
    ("spec", "tolerance"),
    [
        ({"approximation": "state_space"}, 1e-7),
        ({"approximation": "sparse", "inducing": 60}, 1e-3),
        ({"approximation": "fitc", "inducing": 60}, 1e-3),
        ({"approximation": "hsgp", "functions": 80}, 0.1),
    ],
)
def test_evidence_and_predictions_near_the_exact_ones(exact, spec, tolerance):
    values = mode(exact)
    whole = gaussian_process_model.resolved(exact.model, exact.data)
    seen = replace(whole, spec=model(**spec).model)
    expected, found = predictions.function_at(whole, values), predictions.function_at(seen, values)
    vector = approximations.vector_of(seen, values)
    assert approximations.regression_of(seen).log_marginal(vector)[0] == pytest.approx(
        expected.log_evidence, abs=tolerance
    )
    inside = np.linspace(1, 9, 9)[:, None]
    for ours, theirs in zip(found.predict(inside), expected.predict(inside), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=0.02 if spec["approximation"] == "hsgp" else 1e-4)
    rows = {name: np.asarray(value)[None] for name, value in values.items()}
    np.testing.assert_allclose(
        predictions.row_log_likelihoods(seen, rows),
        predictions.row_log_likelihoods(whole, rows),
        atol=max(tolerance, 1e-4),
    )


def test_the_state_space_mode_is_the_exact_one_and_the_verdict_names_it(exact):
    given = model(approximation="state_space")
    fit = bl.fit(given, table(), method="map", restarts=1, seed=1, runs=None, progress=False)
    for name, value in mode(exact).items():
        np.testing.assert_allclose(mode(fit)[name], value, rtol=1e-3)
    new = pd.DataFrame({"x": [1.5, 5.0, 12.0]})
    for column in ("mean", "sd"):
        np.testing.assert_allclose(fit.predict(new)[column], exact.predict(new)[column], rtol=1e-3)
    assert "approximation: state_space" in str(fit.diagnose())


@pytest.mark.slow(why="compiles")
def test_laplace_probabilities_are_those_of_nuts():
    """gp-classification: Laplace probabilities within 0.05 of MCMC on a small problem."""
    frame = table(40, "bernoulli")
    fixed = {"Matern52_lengthscale": 1.5, "Matern52_scale": 2.0}
    given = model(likelihood="bernoulli", mean="0", priors=fixed)
    fit = bl.fit(given, data=frame, method="nuts", draws=400, tune=400, chains=2, seed=1, runs=None, progress=False)
    grid = pd.DataFrame({"x": np.linspace(0.2, 9.8, 12)})
    sampled = fit.predict(grid, kind="draws")["y"].to_numpy().mean(axis=(0, 1))
    regression = LaplaceRegression(
        gaussian_process_model.resolved(fit.model, fit.data).kernel,
        frame[["x"]].to_numpy(),
        Bernoulli(frame["y"].to_numpy(float)),
        np.zeros((40, 0)),
    )
    ours = regression.posterior(np.array([1.5, 2.0])).predict_mean(grid[["x"]].to_numpy(), np.zeros(12))
    # Monte Carlo: 800 draws of zeros and ones have a standard error of at most 0.018.
    assert np.abs(sampled - ours).max() < 0.05 + 2 * 0.018
    assert ours.min() < 0.25 and ours.max() > 0.7
    mode = bl.fit(
        model(likelihood="bernoulli", approximation="laplace"),
        data=frame,
        method="map",
        restarts=1,
        seed=1,
        runs=None,
        progress=False,
    )
    found = mode.predict(grid, kind="draws")["y"].to_numpy()
    assert np.corrcoef(found.mean(axis=(0, 1)), ours)[0, 1] > 0.9


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize(
    ("likelihood", "y", "scale", "status"),
    [
        ("poisson", [0, 0, 1], 3.0, "warn"),
        ("bernoulli", [1, 1, 1], 8.0, "warn"),
        ("poisson", [40, 55, 61], 0.5, "pass"),
    ],
)
def test_a_skew_posterior_of_the_function_is_a_finding(likelihood, y, scale, status):
    """E[y] at the first row by quadrature over the function: 0.17 where Laplace's approximation has 0.54."""
    spec = {"family": "gaussian_process", "target": "y", "kernel": f"ExpQuad(x, 1.5, {scale})", "mean": "1"}
    spec |= {"likelihood": likelihood, "priors": {"Intercept": "Normal(0, 2)"}, "approximation": "laplace"}
    data = {"x": [0.0, 1.0, 2.5], "y": y}
    fit = bl.fit(bl.Model(model=spec), data, "grid", seed=1, runs=None, progress=False)
    assert fit.verdict.status == status
    rough = [finding for finding in fit.verdict.findings if finding.check == "approximation"]
    assert len(rough) == (status == "warn") and all("method nuts" in finding.advice for finding in rough)


@pytest.mark.slow(why="compiles")
def test_heavy_tails_of_the_function_are_a_finding():
    """Student's t with four degrees of freedom: the peak of the posterior is much sharper than its sd suggests.

    Rows are nearly independent. For each, the sd by quadrature is 1.5 times that of the curvature at the mode, while
    mean and mode agree.
    """
    spec = {"family": "gaussian_process", "target": "y", "kernel": "ExpQuad(x, 0.3, scale)", "mean": "0"}
    spec |= {"likelihood": "student_t", "approximation": "laplace"}
    spec |= {"priors": {"scale": "LogNormal(1.4, 0.01)", "sigma": 0.3, "nu": 4}}
    data = {"x": [0.0, 1.0, 2.0, 3.0], "y": [0.5, -0.4, 0.2, -0.1]}
    fit = bl.fit(bl.Model(model=spec), data, "map", seed=1, runs=None, progress=False)
    assert fit.verdict.status == "warn"
    (rough,) = (finding for finding in fit.verdict.findings if finding.check == "approximation")
    assert rough.value < 0.75


def test_prior_quantiles_are_those_of_the_distributions():
    from scipy.stats import gamma, halfnorm, invgamma, lognorm, norm

    for text, law in (
        ("InverseGamma(3, 2)", invgamma(3, scale=2)),
        ("HalfNormal(2)", halfnorm(scale=2)),
        ("LogNormal(1, 0.5)", lognorm(0.5, scale=np.e)),
        ("Gamma(2, 0.1)", gamma(2, scale=10)),
        ("Normal(-3, 2)", norm(-3, 2)),
    ):
        np.testing.assert_allclose(quantiles(text), law.ppf([0.1, 0.5, 0.95]), rtol=2e-3)
    assert quantiles("HalfNormal(tau)") is None
    assert quantiles("HalfFlat()") is None


@pytest.mark.parametrize(
    ("spec", "code", "match"),
    [
        (
            {"approximation": "state_space", "likelihood": "poisson"},
            "model.unsupported",
            r"^model\.approximation.*state_space.*poisson",
        ),
        ({"approximation": "laplace"}, "model.unsupported", r"^model\.approximation.*gaussian.*state_space"),
        (
            {"approximation": "state_space", "kernel": "RationalQuadratic(x)"},
            "model.unsupported",
            r"^model\.approximation.*RationalQuadratic.*ExpQuad",
        ),
        ({"approximation": "hsgp", "kernel": "Matern12(x)"}, "model.unsupported", r"^model\.approximation.*Matern12"),
    ],
)
def test_combinations_that_cannot_be_are_named(spec, code, match):
    with refused(code, match):
        bl.fit(model(**spec), data=table(), method="map", runs=None, progress=False)


@pytest.mark.parametrize("word", ["state_space", "sparse", "fitc", "hsgp"])
def test_with_nothing_to_infer_there_is_nothing_to_approximate(word):
    numbers = {"kernel": "Matern52(x, 1, 2)", "priors": {"sigma": 0.3, "Intercept": 0}}
    with refused("model.nothing-to-fit", f"approximation: {word}"):
        bl.fit(model(approximation=word, **numbers), data=table(), runs=None, progress=False)


def test_a_constant_outcome_fails_in_the_verdict_and_warns_of_nothing_else():
    fit = bl.fit(model(), data=table().assign(y=3.0), method="map", seed=1, runs=None, progress=False)
    assert fit.verdict.status == "fail"


def test_functions_of_hsgp_say_what_they_serve():
    """By themselves they serve the posterior; too few are told with how many would do, and the domain is theirs."""
    options = {"method": "map", "restarts": 1, "seed": 1, "runs": None, "progress": False}
    fit = bl.fit(model(approximation="hsgp"), table(), **options)
    assert fit.verdict.status == "pass", str(fit.verdict)
    fit.process.plot("function")  # a margin of the data's range belongs to the domain
    with refused("data.out-of-range", "'x'.*row 2.*14"):
        fit.predict(pd.DataFrame({"x": [1.0, 14.0]}))
    wide = bl.fit(model(approximation="hsgp", domain={"x": (0, 14)}), table(), **options)
    exact = bl.fit(model(), table(), **options)
    found, wanted = (f.predict(pd.DataFrame({"x": [9.0, 12.0, 14.0]})) for f in (wide, exact))
    np.testing.assert_allclose(found["sd"], wanted["sd"], rtol=0.05)
    few = bl.fit(model(approximation="hsgp", functions=5), table(), **options)
    told = re.search(r"WARN  functions .*5 sines of x serve from .*\n.*`functions: (\d+)`", str(few.verdict))
    assert told, str(few.verdict)
    assert bl.fit(model(approximation="hsgp", functions=int(told[1])), table(), **options).verdict.status == "pass"


def test_functions_are_too_few_for_a_lengthscale_that_is_a_number():
    """There is no posterior of it to look at."""
    options = {"method": "map", "restarts": 1, "seed": 1, "runs": None, "progress": False}
    for given in ({"priors": {"Matern52_lengthscale": 0.3}}, {"kernel": "Matern52(x, 0.3)"}):
        few = bl.fit(model(approximation="hsgp", functions=10, **given), table(), **options)
        assert [f.value for f in few.verdict.findings if f.check == "functions"] == [0.3]
        enough = bl.fit(model(approximation="hsgp", **given), table(), **options)
        assert not [f for f in enough.verdict.findings if f.check in ("functions", "approximation")]


@pytest.mark.parametrize(
    ("spec", "gap"),
    [({"approximation": "sparse", "inducing": 6}, True), ({"approximation": "fitc", "inducing": 6}, False)],
)
def test_too_few_inducing_points_are_told(spec, gap):
    """Beside the covariance of all rows: of the bound, the gap is that of SciPy's log density at the same place."""
    options = {"method": "map", "restarts": 2, "seed": 1, "runs": None, "progress": False}
    rows = table()
    fit = bl.fit(model(**spec), rows, **options)
    (found,) = [f for f in fit.verdict.findings if f.check == "approximation"]
    assert (found.status, found.where) == ("warn", spec["approximation"])
    values = mode(fit)
    apart = np.sqrt(5.0) * np.abs(np.subtract.outer(*2 * [rows["x"].to_numpy()])) / values["Matern52_lengthscale"]
    covariance = values["Matern52_scale"] ** 2 * (1 + apart + apart**2 / 3) * np.exp(-apart)
    covariance += values["sigma"] ** 2 * np.eye(len(rows))
    exact = stats.multivariate_normal(np.full(len(rows), values["Intercept"]), covariance).logpdf(rows["y"])
    seen = gaussian_process_model.resolved(fit.model, fit.data)
    vector = approximations.vector_of(seen, values)
    assert found.value == pytest.approx(exact - approximations.regression_of(seen).log_marginal(vector)[0], abs=1e-6)
    assert (found.value > 1.0) or not gap
    enough = bl.fit(model(**spec | {"inducing": 30}), rows, **options)
    assert enough.verdict.status == "pass", str(enough.verdict)


@pytest.mark.slow(why="compiles")
def test_a_wave_that_inducing_points_take_for_noise_is_told():
    """At what was found both agree that there is nothing but noise; the process has a better place."""
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0, 10, 60))
    rows = pd.DataFrame({"x": x, "y": np.sin(5 * x) + 0.2 * rng.normal(size=60)})
    options = {"method": "nuts", "draws": 200, "tune": 200, "chains": 2, "seed": 1, "runs": None, "progress": False}
    fit = bl.fit(model(approximation="sparse", inducing=6), rows, **options)
    assert float(fit.posterior["sigma"].mean()) > 0.5  # 0.2
    (found,) = [f for f in fit.verdict.findings if f.check == "approximation"]
    assert found.status == "warn" and found.value > 20


def test_options_go_with_their_approximation():
    with refused("model.conflict", "`inducing`", where="model"):
        model(inducing=10)
    with refused("model.conflict", "`domain`", where="model"):
        model(domain={"x": (0, 1)})
    for given, code, match in (
        ({"z": (0, 1)}, "model.unknown-column", r"^model\.domain\.z"),
        ({"x": (2, 3)}, "model.out-of-range", r"^model\.domain\.x"),
    ):
        with refused(code, match):
            bl.fit(model(approximation="hsgp", domain=given), table(), method="map", runs=None, progress=False)
    with refused("model.conflict", "`functions`.*approximation", where="model"):
        model(functions=10, approximation="sparse")


def test_next_points_lie_in_the_bounds_and_apart(exact):
    found = exact.process.next_points({"x": (0.0, 20.0)}, n=3, seed=2)
    assert list(found.columns) == ["x", "sd"]
    assert found["x"].between(0, 20).all() and found["x"].max() == pytest.approx(20.0)
    assert found["sd"].is_monotonic_decreasing
    gaps = np.abs(found["x"].to_numpy()[:, None] - found["x"].to_numpy())[np.triu_indices(3, 1)]
    assert gaps.min() > 1.0
    with refused("option.unknown-column", "'z'"):
        exact.process.next_points({"z": (0.0, 1.0)})


def test_informative_rows_and_leave_one_out(exact):
    kept = exact.process.informative_rows()
    assert 3 < len(kept) < 45 and np.all(np.diff(kept) > 0)
    left = exact.process.leave_one_out()
    assert len(left) == 60 and 0.5 < left["z"].std() < 1.5


@pytest.mark.slow(why="statistical")
def test_pictures(exact):
    for what in ("function", "components", "leave_one_out"):
        made = exact.process.plot(what)
        assert made._repr_png_().startswith(b"\x89PNG")
    with refused("option.unknown-word", "'functions'.*'function'"):
        exact.process.plot("functions")
    which = table().assign(which=np.tile(["a", "b"], 30))
    both = bl.fit(
        model(kernel="Coregion(which) * Matern52(x)"), which, "map", restarts=1, seed=1, runs=None, progress=False
    )
    assert both.process.plot().axes[0].get_xlabel() == "x"  # names are no axis
    with refused("option.unknown-column", "'which'"):
        both.process.plot(column="which")


@pytest.mark.parametrize("given", [{}, {"approximation": "hsgp"}])
def test_no_mode_of_function_and_hyperparameters_together(given):
    """It would be far from any estimate of either: refused, with what to do; the Laplace approximation has one."""
    counted = table(20, "bernoulli")
    with refused("engine.refused.no-mode", "map.*bernoulli"):
        bl.fit(model(likelihood="bernoulli", **given), counted, method="map", runs=None, progress=False)
