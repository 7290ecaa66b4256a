"""Regressions with a formula for each parameter of the likelihood: sigma, nu, psi and others vary by row.

The truth is the model written out by hand in the model language, the likelihood and the priors written with SciPy, and
the posterior of a random walk written here with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special, stats

import bayeslab as bl
from bayeslab.errors import BayeslabError
from bayeslab.families.regression.likelihoods import LIKELIHOODS, likelihood
from bayeslab.posterior.machine.density import MachineDensity
from bayeslab.preparation import Source
from bayeslab.results.predict import pointwise_graph
from tests.densities import agree, machines_agree
from tests.refusals import refused

N = 40


def table(n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    x, z, g = rng.normal(3, 2, n), rng.normal(size=n), np.array(["a", "b", "c", "d"])[np.arange(n) % 4]
    mean = np.exp(0.3 * (x - 3) + 0.5)
    share = special.expit(0.4 * (x - 3))
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "g": g,
            "h": np.array(["u", "v"])[np.arange(n) // 7 % 2],
            "exposure": rng.uniform(1, 4, n),
            "w": rng.uniform(0.5, 2, n),
            "y": 1 + 0.5 * x + rng.normal(size=n) * np.exp(0.2 * x - 0.5),
            "count": rng.poisson(mean) * (rng.random(n) < 0.7),
            "share": rng.beta(6 * share, 6 * (1 - share)),
            "size": rng.gamma(2, mean / 2),
        }
    )


def regression(formula: object, likelihood: str = "gaussian", **more: object) -> bl.Model:
    return bl.Model(data={"rows": "row"}, model=bl.Regression(formula=formula, likelihood=likelihood, **more))


def graph(nodes: dict[str, str], derive: dict[str, str] | None = None, **dims: list[str]) -> bl.Model:
    data = {"rows": "row", "derive": derive or {}}
    return bl.Model(data=data, dims=dims, model=bl.Graph(nodes=nodes))


# ------------------------------------------------------------- the same density as the model written out

LINED = {"mu": "y ~ x", "sigma": "~ x"}
#: Priors of the predicted quantity, and its nodes.
MU = {"Intercept": "Normal(0, 2)", "x": "Normal(0, 1)"}
LINE = {"Intercept": "Normal(0, 2)", "b[predictor]": "Normal(0, 1)", "eta[row]": "Intercept + x * b['x']"}
#: A further parameter along x, with a default prior of its value at the mean of x; and along x and z, with priors.
ALONG = "log({0}_centred) + (x - mean(x)) * b_{0}['x']"
NAMED = "Intercept_{0} + x * b_{0}['x'] + z * b_{0}['z']"
PRIORS = {"Intercept": "Normal(0.5, 1)", "b": "Normal(0, 0.3)"}


def sd(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1))


def slope(scale: float, values: np.ndarray) -> str:
    return f"Normal(0, {float(f'{scale / sd(values):.6g}')!r})"


#: By name: the regression, and the nodes and dimensions of the model written out.
WRITTEN: dict[str, Callable[[pd.DataFrame], tuple[bl.Model, bl.Model]]] = {
    "normal": lambda d: (
        regression({"mu": "y ~ x", "sigma": "~ x"}, priors=MU),
        graph(
            LINE
            | {
                "sigma_centred": f"Exponential({float(f'{1 / sd(d["y"]):.6g}')!r})",
                "b_sigma[predictor_sigma]": slope(1, d["x"]),
                "y[row]": f"Normal(eta, exp({ALONG.format('sigma')}))",
            },
            predictor=["x"], predictor_sigma=["x"],
        ),
    ),
    "t": lambda d: (
        regression({"mu": "y ~ x", "sigma": "~ x + z", "nu": "~ x"}, "student_t", priors=MU | {"sigma": PRIORS}),
        graph(
            LINE
            | {
                "Intercept_sigma": "Normal(0.5, 1)",
                "b_sigma[predictor_sigma]": "Normal(0, 0.3)",
                "nu_centred": "Gamma(2, 0.1)",
                "b_nu[predictor_nu]": slope(1, d["x"]),
                "y[row]": f"StudentT(exp({ALONG.format('nu')}), eta, exp({NAMED.format('sigma')}))",
            },
            predictor=["x"], predictor_sigma=["x", "z"], predictor_nu=["x"],
        ),
    ),
    "groups": lambda d: (
        regression(
            {"mu": "y ~ x + (1 | g)", "sigma": "~ (1 | g)"}, priors=MU | {"sd": "HalfNormal(2)"},
        ),
        graph(
            LINE
            | {
                "sd_g": "HalfNormal(2)", "_raw_g[g]": "Normal(0, 1)",
                "sigma_centred": f"Exponential({float(f'{1 / sd(d["y"]):.6g}')!r})",
                "sd_sigma_g": "HalfStudentT(3, 1)", "_raw_sigma_g[g]": "Normal(0, 1)",
                "y[row]": (
                    "Normal(eta + sd_g * _raw_g[g], sigma_centred * exp(sd_sigma_g * _raw_sigma_g[g]))"
                ),
            },
            predictor=["x"], g=["a", "b", "c", "d"],
        ),
    ),
    "counts": lambda d: (
        regression({"mu": "count ~ x", "alpha": "~ x"}, "negative_binomial", priors=MU),
        graph(
            LINE
            | {
                "alpha_centred": "InverseGamma(0.4, 0.3)",
                "b_alpha[predictor_alpha]": slope(1, d["x"]),
                "count[row]": f"NegativeBinomial(exp(eta), exp({ALONG.format('alpha')}))",
            },
            predictor=["x"], predictor_alpha=["x"],
        ),
    ),
    "zeros": lambda d: (
        regression({"mu": "count ~ x", "psi": "~ z"}, "ZeroInflatedPoisson", priors=MU),
        graph(
            LINE
            | {
                "psi_centred": "Beta(1, 1)",
                "b_psi[predictor_psi]": slope(2.5, d["z"]),
                "count[row]": "ZeroInflatedPoisson(sigmoid(logit(psi_centred) + (z - mean(z)) * b_psi['z']), exp(eta))",
            },
            predictor=["x"], predictor_psi=["z"],
        ),
    ),
    "shares": lambda d: (
        regression({"mu": "share ~ x", "phi": "~ x + z"}, "beta", priors=MU | {"phi": PRIORS}),
        graph(
            LINE
            | {
                "Intercept_phi": "Normal(0.5, 1)",
                "b_phi[predictor_phi]": "Normal(0, 0.3)",
                "share[row]": f"Beta(mu=sigmoid(eta), nu=exp({NAMED.format('phi')}))",
            },
            predictor=["x"], predictor_phi=["x", "z"],
        ),
    ),
    "sizes": lambda d: (
        regression({"mu": "size ~ x", "shape": "~ offset(log(exposure))"}, "gamma", priors=MU),
        graph(
            LINE
            | {
                "shape_centred": "InverseGamma(0.4, 0.3)",
                "size[row]": "Gamma(shape_centred * exposure, shape_centred * exposure / exp(eta))",
            },
            predictor=["x"],
        ),
    ),
    "skewed": lambda d: (
        regression({"mu": "y ~ x", "alpha": "~ z"}, "SkewNormal", priors=MU | {"sigma": "HalfNormal(1)"}),
        graph(
            LINE
            | {
                "sigma": "HalfNormal(1)",
                "alpha_centred": "Normal(0, 4)",
                "b_alpha[predictor_alpha]": slope(2.5, d["z"]),
                "y[row]": "SkewNormal(alpha=alpha_centred + (z - mean(z)) * b_alpha['z'], mu=eta, sigma=sigma)",
            },
            predictor=["x"], predictor_alpha=["z"],
        ),
    ),
}  # fmt: skip
QUICK = ("normal", "zeros")
CASES = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.slow(why="compiles")) for name in sorted(WRITTEN)
]


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", CASES)
def test_the_density_is_that_of_the_model_written_out(name):
    data = table()
    short, whole = WRITTEN[name](data)
    agree(bl.to_pymc(short, data), bl.to_pymc(whole, data), rtol=1e-9, constant=1e-9)


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_the_machine_has_the_density_and_gradient_of_the_model_written_out(name):
    data = table()
    machines_agree(*WRITTEN[name](data), data, constant=1e-9, rtol=1e-9, spread=0.5)


def test_the_density_is_that_of_scipy():
    """Likelihood and priors of a normal response, written from the documentation."""
    data = table()
    model = regression({"mu": "y ~ x", "sigma": "~ x + z"}, priors={"x": "Normal(0, 1)"})
    machine = Source(model).posterior(data).machine_model()
    density = MachineDensity(machine, lambda: None)
    rng = np.random.default_rng(2)
    x, z, y = (data[name].to_numpy() for name in ("x", "z", "y"))
    s = sd(y)
    for _ in range(3):
        at = rng.normal(size=5) * 0.5
        point = dict(zip(("Intercept_centred", "b", "log_sigma", "bx", "bz"), at, strict=True))
        named = {"Intercept_centred": at[0], "b": at[1:2], "sigma_centred_log__": at[2], "b_sigma": at[3:]}
        value, _ = density(density.flat({name: np.asarray(named[name]) for name in density.names}))
        log_sigma = point["log_sigma"] + point["bx"] * (x - x.mean()) + point["bz"] * (z - z.mean())
        mu = point["Intercept_centred"] + point["b"] * (x - x.mean())
        expected = stats.norm(mu, np.exp(log_sigma)).logpdf(y).sum()
        expected += stats.norm(y.mean(), 2.5 * s).logpdf(point["Intercept_centred"]) + stats.norm.logpdf(point["b"])
        expected += stats.expon(scale=s).logpdf(np.exp(point["log_sigma"])) + point["log_sigma"]
        expected += stats.norm(0, 1 / sd(x)).logpdf(point["bx"]) + stats.norm(0, 1 / sd(z)).logpdf(point["bz"])
        assert value == pytest.approx(expected, rel=1e-5)  # numbers of default priors have six digits


@pytest.mark.parametrize("name", sorted(set(LIKELIHOODS) | {"Laplace", "AsymmetricLaplace", "LogNormal", "Weibull"}))
def test_every_parameter_takes_a_formula(name):
    """No name of a parameter is that of another part of the model, such as the scale of a prior."""
    outcomes = ["y", "count", "share", "size", "p(hits, 9)"]
    given = table().assign(hits=lambda t: np.minimum(t["count"], 9), count=lambda t: t["count"] + 1)
    for parameter in likelihood(name).auxiliary:
        refusals = []
        for outcome in outcomes:
            try:
                bl.check(regression({"mu": f"{outcome} ~ x", parameter: "~ z + (1 | g)"}, name), given)
            except BayeslabError as error:  # an outcome of another kind
                refusals.append(str(error))
        assert len(refusals) < len(outcomes), refusals


def test_a_scale_that_is_called_scale_varies_by_row():
    nodes = {"mu": "y ~ x", "scale": "~ z"}
    model = regression(nodes, "Laplace", priors={"x": 0.5, "Intercept": 1, "scale": {"Intercept": "Normal(0, 1)"}})
    fit = bl.fit(model, table(), method="map", runs=None, seed=1)
    y, x, z = (table()[name].to_numpy() for name in ("y", "x", "z"))

    def minus(at):
        likely = stats.laplace.logpdf(y, 1 + 0.5 * x, np.exp(at[0] + at[1] * z)).sum()
        return -likely - stats.norm.logpdf(at[0]) - stats.norm.logpdf(at[1], 0, 1 / z.std(ddof=1))

    best = optimize.minimize(minus, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-9}).x
    mode = [float(fit.posterior[name].to_numpy().ravel()[0]) for name in ("Intercept_scale", "b_scale")]
    np.testing.assert_allclose(mode, best, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_arrays_and_graph_have_the_same_likelihood(name):
    """Row by row, and for new rows that are the old ones: the coding is that of the fit."""
    import pytensor

    data = table()
    model, _ = WRITTEN[name](data)
    posterior = Source(model).posterior(data)
    built = pointwise_graph(posterior)
    rng = np.random.default_rng(0)
    point = {key: value + rng.uniform(-0.3, 0.3, np.shape(value)) for key, value in built.initial_point().items()}
    (term,) = built.logp(vars=built.observed_RVs, sum=False)
    wanted = built.unobserved_value_vars
    function = pytensor.function(built.value_vars, [term, *wanted], mode="FAST_COMPILE", on_unused_input="ignore")
    rows, *values = function(**point)
    draws = {v.name: np.asarray(value)[None] for v, value in zip(wanted, values, strict=True)}
    ((_, ours),) = posterior.log_likelihoods(draws).values()
    # PyMC's normal distribution function has the root of two in 32 bits.
    tolerance = 1e-7 if name == "skewed" else 1e-9
    np.testing.assert_allclose(ours[0], rows, rtol=tolerance, atol=1e-9)


# ----------------------------------------------------------------------------- a formula without predictors


def test_a_formula_without_predictors_is_the_plain_model():
    data = table()
    plain, same = regression("y ~ x"), regression({"mu": "y ~ x", "sigma": "~ 1"})
    one, two = (bl.fit(model, data, seed=1, runs=None, progress=False) for model in (plain, same))
    assert one.method == two.method == "exact"
    pd.testing.assert_frame_equal(one.summary(), two.summary())
    assert one.log_evidence == two.log_evidence


def test_only_the_predicted_quantity_has_a_formula():
    data = table()
    one, two = (Source(regression(f)).posterior(data) for f in ("y ~ x", {"mu": "y ~ x"}))
    assert one.lowered.nodes == two.lowered.nodes
    assert one.priors() == two.priors()


def test_an_intercept_with_a_prior_is_the_logarithm_of_the_parameter():
    """Normal(0.5, 1) of log sigma is LogNormal(0.5, 1) of sigma: the same posterior."""
    data = table()
    same = regression({"mu": "y ~ x", "sigma": "~ 1"}, priors=MU | {"sigma": {"Intercept": "Normal(0.5, 1)"}})
    plain = regression("y ~ x", priors=MU | {"sigma": "LogNormal(0.5, 1)"})
    one, two = (MachineDensity(Source(model).posterior(data).machine_model(), lambda: None) for model in (same, plain))
    renamed = {"Intercept_sigma": "sigma_log__"}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        point = {key: rng.standard_normal(shape) for key, shape in zip(one.names, one.shapes, strict=True)}
        (a, _), (b, _) = (
            one(one.flat(point)),
            two(two.flat({renamed.get(key, key): value for key, value in point.items()})),
        )
        assert a == pytest.approx(b, rel=1e-12)


# ---------------------------------------------------------------------------------- units and posteriors


def test_units_do_not_matter():
    """The response in thousandths and a predictor in tens: the same density, moved by the logarithm of the unit."""
    data = table()
    other = data.assign(y=1000 * data["y"], x=data["x"] / 10)
    model = regression(LINED)
    one, two = (MachineDensity(Source(model).posterior(d).machine_model(), lambda: None) for d in (data, other))
    rng, offsets = np.random.default_rng(6), []
    for _ in range(4):
        point = {key: 0.5 * rng.standard_normal(shape) for key, shape in zip(one.names, one.shapes, strict=True)}
        moved = {
            "Intercept_centred": 1000 * point["Intercept_centred"],
            "b": 10_000 * point["b"],
            "sigma_centred_log__": point["sigma_centred_log__"] + np.log(1000),
            "b_sigma": 10 * point["b_sigma"],
        }
        offsets.append(one(one.flat(point))[0] - two(two.flat(moved))[0])
    np.testing.assert_allclose(offsets, offsets[0], rtol=1e-9)


@pytest.mark.slow(why="statistical")
def test_nuts_has_the_posterior_of_a_random_walk():
    """Counts whose overdispersion varies with x and by group, against Metropolis written here."""
    rng = np.random.default_rng(8)
    n = 160
    x, g = rng.normal(size=n), np.arange(n) % 4
    alpha = np.exp(0.7 + 0.6 * x + np.array([-0.6, 0.0, 0.2, 0.5])[g])
    mean = np.exp(1.5 + 0.3 * x)
    data = pd.DataFrame(
        {"x": x, "g": np.array(list("abcd"))[g], "y": rng.negative_binomial(alpha, alpha / (alpha + mean))}
    )
    priors = {"Intercept": "Normal(1, 1)", "b": "Normal(0, 1)"}
    priors |= {"alpha": {"Intercept": "Normal(0.5, 1)", "b": "Normal(0, 0.5)", "sd": "HalfNormal(0.5)"}}
    model = regression({"mu": "y ~ x", "alpha": "~ x + (1 | g)"}, "negative_binomial", priors=priors)
    fit = bl.fit(model, data, seed=1, runs=None, progress=False, target_accept=0.95)
    names = ("Intercept", "b", "Intercept_alpha", "b_alpha", "sd_alpha_g", "u_alpha_g")
    draws = np.concatenate(list(named(fit, *names).values()), axis=1)
    y = data["y"].to_numpy()

    def log_density(at: np.ndarray) -> float:
        sd_g = np.exp(at[4])
        u = sd_g * at[5:]
        a, m = np.exp(at[2] + at[3] * x + u[g]), np.exp(at[0] + at[1] * x)
        rows = special.gammaln(y + a) - special.gammaln(a) + a * np.log(a / (a + m)) + y * np.log(m / (a + m))
        squares = (at[0] - 1) ** 2 + at[1] ** 2 + (at[2] - 0.5) ** 2 + (at[3] / 0.5) ** 2 + (sd_g / 0.5) ** 2
        return float(rows.sum() - 0.5 * (squares + at[5:] @ at[5:]) + at[4])

    # Steps as wide as the posterior; whether they are good ones, only the time it takes depends on.
    rough = np.column_stack([draws[:, :4], np.log(draws[:, 4]), draws[:, 5:] / draws[:, 4:5]])
    factor = np.linalg.cholesky(np.cov(rough.T)) * 2.38 / np.sqrt(rough.shape[1])
    here = rough.mean(axis=0)
    height, kept = log_density(here), []
    for step in range(120_000):
        there = here + factor @ rng.standard_normal(len(here))
        proposed = log_density(there)
        if np.log(rng.random()) < proposed - height:
            here, height = there, proposed
        if step >= 5_000 and step % 20 == 0:
            kept.append(here)
    walk = np.array(kept)
    walk = np.column_stack([walk[:, :4], np.exp(walk[:, 4]), walk[:, 5:] * np.exp(walk[:, 4:5])])
    batches = walk[: len(walk) // 50 * 50].reshape(50, -1, walk.shape[1]).mean(axis=1)
    error = np.hypot(batches.std(axis=0, ddof=1) / np.sqrt(50), draws.std(axis=0) / np.sqrt(800))
    np.testing.assert_array_less(np.abs(walk.mean(axis=0) - draws.mean(axis=0)), 4 * error)
    np.testing.assert_allclose(draws.std(axis=0), walk.std(axis=0), rtol=0.15)


# -------------------------------------------------------------------------------------- end to end


@pytest.fixture(scope="module")
def fitted() -> bl.Fit:
    model = regression({"mu": "y ~ x", "sigma": "~ x + (1 | g)"})
    return bl.fit(model, table(120), seed=1, runs=None, progress=False, draws=500)


def named(fit: bl.Fit, *names: str) -> dict[str, np.ndarray]:
    """Draws, chains joined, with one axis beside that of draws."""
    return {name: (values := fit.posterior[name].to_numpy()).reshape(values.shape[0] * values.shape[1], -1)
            for name in names}  # fmt: skip


def test_the_table_has_the_coefficients_by_name(fitted):
    names = set(fitted.summary().index)
    assert {"Intercept", "b[x]", "sigma_centred", "Intercept_sigma", "b_sigma[x]", "sd_sigma_g"} <= names
    assert "u_sigma_g[a]" in names
    assert not any(name.startswith("_") for name in names)


def test_predictions_spread_as_the_formula_of_sigma(fitted):
    """The sd of a prediction against draws of the parameters, put together here."""
    new = pd.DataFrame({"x": [0.0, 3.0, 8.0], "g": ["a", "d", "b"]})
    out = fitted.predict(new)
    at = named(fitted, "Intercept", "b", "Intercept_sigma", "b_sigma", "u_sigma_g")
    levels = [list("abcd").index(level) for level in new["g"]]
    x = new["x"].to_numpy()
    sigma = np.exp(at["Intercept_sigma"] + at["b_sigma"] * x + at["u_sigma_g"][:, levels])
    mu = at["Intercept"] + at["b"] * x
    expected = np.sqrt((sigma**2).mean(axis=0) + mu.var(axis=0))
    np.testing.assert_allclose(out["sd"], expected, rtol=0.1)
    np.testing.assert_allclose(out["mean"], mu.mean(axis=0), atol=0.15 * expected.max())
    assert out["sd"].iloc[2] > 2 * out["sd"].iloc[0]


def test_r2_has_the_variance_of_each_row(fitted):
    data = table(120)
    x, levels = data["x"].to_numpy(), np.arange(120) % 4
    at = named(fitted, "Intercept", "b", "Intercept_sigma", "b_sigma", "u_sigma_g")
    mean = at["Intercept"] + at["b"] * x
    variance = np.exp(at["Intercept_sigma"] + at["b_sigma"] * x + at["u_sigma_g"][:, levels]) ** 2
    explained = mean.var(axis=1, ddof=1)
    expected = explained / (explained + variance.mean(axis=1))
    np.testing.assert_allclose(fitted.r2().draws.to_numpy().ravel(), expected)


def test_leave_one_out_prefers_the_spread_that_varies(fitted):
    plain = bl.fit(regression("y ~ x"), table(120), seed=1, runs=None, progress=False)
    result = bl.compare({"varies": fitted, "alike": plain})
    assert result.table.loc["varies", "elpd"] > result.table.loc["alike", "elpd"] + 5


def test_replications_and_simulations(fitted):
    checks = fitted.check()
    assert (checks["p_value"] > 0.01).all()
    simulated = bl.simulate(regression({"mu": "y ~ x", "sigma": "~ x"}), table(), draws=20, seed=1)
    assert np.isfinite(simulated["prior_predictive"]["y"]).all()


@pytest.mark.parametrize("method", ["map", "laplace"])
def test_modes_are_near_the_posterior(method, fitted):
    model = regression({"mu": "y ~ x", "sigma": "~ x"})
    data = table(120)
    whole = bl.fit(model, data, seed=1, runs=None, progress=False, draws=500).summary()
    rows = bl.fit(model, data, method, seed=1, runs=None, progress=False).summary()
    column = "value" if method == "map" else "mean"
    for name in ("b[x]", "b_sigma[x]", "Intercept"):
        assert abs(rows.loc[name, column] - whole.loc[name, "mean"]) < 0.5 * whole.loc[name, "sd"]


def test_effects_take_the_columns_of_every_formula():
    """The mean of a count whose zeros depend on z changes with z, though the mean of its Poisson part does not."""
    data = table(100)
    model = regression({"mu": "count ~ x", "psi": "~ z"}, "ZeroInflatedPoisson")
    fit = bl.fit(model, data, seed=1, runs=None, progress=False, draws=100, tune=300, chains=2)
    at = named(fit, "Intercept", "b", "Intercept_psi", "b_psi")
    x, z = data["x"].to_numpy(), data["z"].to_numpy()

    def mean(moved: float) -> np.ndarray:
        psi = special.expit(at["Intercept_psi"] + at["b_psi"] * (z + moved))
        return (psi * np.exp(at["Intercept"] + at["b"] * x)).mean(axis=1)

    got = fit.comparisons("z").draws.to_numpy().ravel()
    np.testing.assert_allclose(got, mean(1.0) - mean(0.0), atol=1e-9)
    assert np.abs(fit.comparisons("z", scale="parameter").draws.to_numpy()).max() < 1e-9


# ---------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("spec", "code", "match", "where"),
    [
        ({"formula": {"sigma": "~ x"}}, "missing-key", "'mu'", "model.formula"),
        ({"formula": LINED | {"sigma": "y ~ x"}}, "syntax", "'sigma' begins with ~", "model.formula.sigma"),
        ({"formula": LINED | {"sigma": "x"}}, "syntax", "'sigma'", "model.formula.sigma"),
        ({"formula": LINED | {"sigma": "~ q(x)"}}, "unknown-function", "'q'", "model.formula.sigma"),
        ({"formula": LINED | {"sigma": None}}, "wrong-type", "~ 1", "model.formula.sigma"),
        ({"formula": LINED | {"sigma": 3}}, "wrong-type", "'sigma'", "model.formula.sigma"),
        ({"formula": LINED | {"sigma": "~ nope"}}, "unknown-column", "'nope'", "model.formula.sigma"),
        ({"formula": LINED | {"sigma": "~ y"}}, "self-reference", "'y'", "model.formula.sigma"),
        ({"formula": {"mu": "nope ~ x", "sigma": "~ q +"}}, "syntax", "", "model.formula.sigma"),
        ({"formula": LINED | {"nu": "~ x"}}, "unknown-parameter", "'nu' is no parameter", "model.formula.nu"),
        ({"formula": {"mu": "count ~ x", "zi": "~ x"}, "likelihood": "ZeroInflatedPoisson"},
         "unknown-parameter", "'psi' is", "model.formula.zi"),
        ({"formula": LINED | {"nu": "~ x"}, "likelihood": "StudentT(nu=4)"}, "conflict", "'nu' is 4", "model.formula"),
        ({"formula": LINED, "priors": {"sigma": "HalfNormal(1)"}}, "conflict", "'sigma'", "model.priors.sigma"),
        ({"formula": LINED, "priors": {"precision": "Gamma(1, 1)"}}, "conflict", "'precision'", "model.priors"),
        ({"formula": "y ~ x", "priors": {"sigma": {"b": 1}}}, "conflict", "'sigma'", "model.priors.sigma"),
        ({"formula": LINED, "priors": {"sigma": {"z": 1}}}, "unknown-parameter", "'z'", "model.priors.sigma.z"),
        ({"formula": LINED, "priors": {"sigma": {"x": "Normal(0,"}}}, "syntax", "", "model.priors.sigma.x"),
        ({"formula": LINED, "priors": {"sigma": {"x": "Normal(0, q)"}}}, "unknown-name", "'q'", "model.priors.sigma.x"),
        ({"formula": LINED, "priors": {"b": "Normal(0, sigma)"}}, "conflict", "'sigma'", "model.priors.b"),
        ({"formula": LINED | {"sigma": "~ 0 + g"}}, "incomplete", "without an intercept", "model.formula.sigma"),
        ({"formula": LINED | {"sigma": "~ 0 + (1 | g)"}}, "incomplete", "sd_g", "model.formula.sigma"),
        ({"formula": LINED | {"sigma": "~ (1 | g)"}, "priors": {"sigma": {"sd_g": -1}}},
         "out-of-range", "'sd_g'", "model.priors.sigma.sd_g"),
        ({"formula": {"mu": "y ~ x", "sigma": "~ z"}, "missing": {"z": "Normal(0, 1)"}}, "unsupported", "'z'",
         "model.formula.sigma"),
        ({"formula": {"mu": "y ~ x + (1 | sigma_g)", "sigma": "~ (1 | g)"}}, "name-clash", "sigma_g", "model.formula"),
        ({"formula": LINED, "shrinkage": "horseshoe", "priors": {"sigma": {"Intercept": "Normal(0, 1)"}}},
         "incomplete", "tau", "model.shrinkage"),
    ],
)  # fmt: skip
def test_what_a_formula_cannot_say_is_refused(spec, code, match, where):
    data = table().assign(sigma_g=table()["g"])
    with refused(f"model.{code}", match, where=where):
        Source(bl.Model(model={"family": "regression"} | spec)).posterior(data).lowered  # noqa: B018


def test_a_file_has_the_place_of_the_formula_and_is_read_back(tmp_path):
    file = tmp_path / "model.yaml"
    bl.save(regression(LINED, priors={"sigma": {"x": "Normal(0, 1)", "Intercept": 0}}), file)
    assert bl.load(file).model.formula == LINED
    assert bl.load(file).model.priors == {"sigma": {"x": "Normal(0, 1)", "Intercept": 0}}
    text = file.read_text().replace("sigma: ~ x", "sigma: ~ x +")
    file.write_text(text)
    line = next(k for k, each in enumerate(text.splitlines(), 1) if "~ x +" in each)
    with refused("model.syntax", where=f"{file}:{line}"):
        bl.load(file)


def test_exact_inference_is_refused_for_a_spread_that_varies():
    with refused("engine.refused.no-closed-form", "'sigma' has a formula"):
        bl.fit(regression(LINED), table(), "exact", runs=None, progress=False)


def test_rows_with_a_gap_in_any_formula_are_dropped():
    data = table()
    data.loc[[3, 8], "z"] = np.nan
    posterior = Source(regression({"mu": "y ~ x", "sigma": "~ z"})).posterior(data)
    assert posterior.lowered.design.n == N - 2
    assert "z 2" in posterior.data_findings()[0][3]


def test_columns_of_any_formula_are_remarked_upon():
    data = table().assign(one=1.0)
    remarks = Source(regression({"mu": "y ~ x", "sigma": "~ x + one"})).posterior(data).data_findings()
    assert ("constant", "b_sigma[one]") in {remark[:2] for remark in remarks}


def test_new_rows_need_the_columns_of_every_formula(fitted):
    with refused("data.unknown-column", "'g'"):
        fitted.predict(pd.DataFrame({"x": [1.0]}))
