"""Family gaussian_process: against scikit-learn, grids, quadrature and closed forms; what is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import minimize
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

import bayeslab as bl
from bayeslab.errors import DataError, ModelError
from bayeslab.families import gaussian_process as family
from bayeslab.families.gaussian_process import predictions
from bayeslab.families.gaussian_process.hyperpriors import tails
from bayeslab.families.gaussian_process.model import resolved
from bayeslab.latents.gaussian_process.covariance import Kernel
from bayeslab.latents.gaussian_process.gaussian_process import GaussianProcess as Process
from bayeslab.results.verdict import Finding, Verdict
from bayeslab.running import with_advice
from tests.refusals import refused

RNG = np.random.default_rng(2)
N = 25
X = np.sort(RNG.uniform(0, 10, N))
TABLE = pd.DataFrame({"x": X, "y": np.sin(X) + 0.3 * RNG.normal(size=N)})
NEW = pd.DataFrame({"x": [-3.0, 2.5, 7.1, 12.0]})


def model(kernel="Matern52(x)", **more):
    return bl.Model(name="gp", model={"family": "gaussian_process", "kernel": kernel, **more})


def fitted(made, data=TABLE, method=None, **options):
    return bl.fit(made, data, method, seed=3, runs=None, progress=False, **options)


# ------------------------------------------------------------------- all hyperparameters are fixed

FIXED = {"priors": {"sigma": 0.3, "Intercept": "Normal(0.5, 2)"}, "target": "y"}


@pytest.fixture(scope="module")
def closed():
    return fitted(model("Matern52(x, 1.5, 1) + White(0.2)", **FIXED), draws=2000, chains=2)


@pytest.mark.slow(why="statistical")
def test_fixed_hyperparameters_are_solved_exactly(closed):
    """The intercept with its normal prior is a constant term of the kernel, 4 for its variance."""
    assert closed.method == "exact" and closed.verdict.status == "pass"
    kernel = sk.Matern(1.5, nu=2.5) + sk.ConstantKernel(4.0)
    peer = GaussianProcessRegressor(kernel, alpha=0.09 + 0.04, optimizer=None).fit(X[:, None], TABLE["y"] - 0.5)
    mean, sd = peer.predict(NEW[["x"]].to_numpy(), return_std=True)
    inside, inside_sd = peer.predict(X[:, None], return_std=True)
    exact = closed.data_tree["exact_posterior"].to_dataset()
    assert exact.attrs["log_evidence"] == pytest.approx(peer.log_marginal_likelihood_value_, abs=1e-8)
    np.testing.assert_allclose(exact["f"].sel(statistic="mean"), inside + 0.5, atol=1e-9)
    np.testing.assert_allclose(exact["f"].sel(statistic="sd"), inside_sd, atol=1e-8)
    table = closed.predict(NEW)
    # Draws of the intercept, 4,000 of them, are what is left of sampling error.
    error = 4 * closed.summary().loc["Intercept", "sd"] / np.sqrt(4000)
    np.testing.assert_allclose(table["mean"], mean + 0.5, atol=error)
    np.testing.assert_allclose(table["sd"], np.sqrt(sd**2 + 0.13), rtol=0.05)
    f = closed.posterior["f"].to_numpy().reshape(4000, N)
    assert (np.abs(f.mean(axis=0) - inside - 0.5) < 4.5 * inside_sd / np.sqrt(4000)).all()
    np.testing.assert_allclose(f.std(axis=0), inside_sd, rtol=0.06)


@pytest.mark.slow(why="statistical")
def test_predictive_draws_have_the_moments_of_the_table(closed):
    table, drawn = closed.predict(NEW), closed.predict(NEW, "draws")["y"]
    mean, sd = drawn.mean(("chain", "draw")).to_numpy(), drawn.std(("chain", "draw")).to_numpy()
    assert (np.abs(mean - table["mean"]) < 4.5 * table["sd"] / np.sqrt(4000)).all()
    np.testing.assert_allclose(sd, table["sd"], rtol=0.06)
    assert list(table.columns) == ["obs_id", "mean", "sd", "eti89_lb", "eti89_ub"]
    within = ((drawn >= table["eti89_lb"].to_numpy()) & (drawn <= table["eti89_ub"].to_numpy())).mean().item()
    assert within == pytest.approx(0.89, abs=0.015)


@pytest.mark.slow(why="statistical")
def test_components_of_the_function():
    fit = fitted(model("Matern52(x, 1.5, 1) + Linear(x, 0.1)", mean="0", priors={"sigma": 0.3}), draws=10, chains=1)
    parts = fit.predict(NEW, "components").set_index("component")
    assert list(dict.fromkeys(parts.index)) == ["Matern52(x, 1.5, 1)", "Linear(x, 0.1)", "function"]
    kernel = Kernel.parse("Matern52(x, 1.5, 1) + Linear(x, 0.1)")
    process = Process(kernel, np.zeros(0), X[:, None], TABLE["y"].to_numpy(), np.full(N, 0.09))
    for name, (mean, variance) in process.components(NEW.to_numpy()).items():
        np.testing.assert_allclose(parts.loc[name, "mean"], mean, atol=1e-9)
        np.testing.assert_allclose(parts.loc[name, "sd"], np.sqrt(variance), atol=1e-9)
    whole = sum(parts.loc[n, "mean"].to_numpy() for n in kernel.components())
    np.testing.assert_allclose(parts.loc["function", "mean"], whole, atol=1e-9)


def test_known_errors_and_a_linear_mean():
    """A mean 1 + x with normal priors is a linear model: generalised least squares with a prior, in closed form."""
    table = TABLE.assign(e=RNG.uniform(0.1, 0.5, N))
    priors = {"sigma": 0, "Intercept": "Normal(0, 3)", "b": "Normal(0, [2.0])"}
    fit = fitted(model("ExpQuad(x, 1, 0.5)", target="y", errors="e", mean="1 + x", priors=priors), table, draws=10)
    h = np.column_stack([np.ones(N), X])
    c = Kernel.parse("ExpQuad(x, 1, 0.5)").matrix(np.zeros(0), X[:, None]) + np.diag(table["e"] ** 2)
    precision = np.diag([1 / 9, 1 / 4]) + h.T @ np.linalg.solve(c, h)
    want = np.linalg.solve(precision, h.T @ np.linalg.solve(c, table["y"].to_numpy()))
    summary = fit.summary(["Intercept", "b"])
    np.testing.assert_allclose(summary["mean"], want, atol=1e-3)  # shown to three digits
    np.testing.assert_allclose(summary["sd"], np.sqrt(np.diagonal(np.linalg.inv(precision))), atol=1e-3)


def test_several_outputs_share_what_they_know():
    """Coregion: an output measured elsewhere only is predicted by its twin; the matrix is a product of two."""
    t = np.tile(np.linspace(0, 6, 12), 2)
    which = np.repeat(["a", "b"], 12)
    table = pd.DataFrame({"t": t, "which": which, "y": np.where(which == "a", np.sin(t), 2 * np.sin(t))})
    table = table[(table["which"] == "a") | (table["t"] < 3)]
    text = "Coregion(which, 1, [1, 2], [0.01, 0.01]) * ExpQuad(t, 1.3)"
    fit = fitted(model(text, mean="0", priors={"sigma": 0.05}), table, draws=10, chains=1)
    found = fit.predict(pd.DataFrame({"t": [5.0, 5.0], "which": ["b", "a"]}))
    assert found["mean"].to_numpy() == pytest.approx([2 * np.sin(5), np.sin(5)], abs=0.25)


def test_rows_without_an_outcome_are_left_out_and_told():
    table = TABLE.copy()
    table.loc[[3, 7], "y"] = np.nan
    fit = fitted(model("Matern52(x, 1.5, 1)", **FIXED), table, draws=10, chains=1)
    assert "2 of 25 rows have no y" in str(fit.verdict)
    assert fit.posterior.sizes["obs_id"] == 23 and 3 not in fit.posterior["obs_id"]
    assert len(fit.predict(table[["x"]])) == 25


def test_jitter_is_never_silent():
    """A very smooth function without noise has a covariance that is singular to rounding: the verdict says so."""
    table = pd.DataFrame({"x": np.linspace(0, 1, 40), "y": np.linspace(0, 1, 40) ** 2})
    fit = fitted(model("ExpQuad(x, 1, 1)", mean="0", priors={"sigma": 0}), table, draws=10, chains=1)
    assert fit.verdict.status == "warn"
    assert re.search("WARN  jitter .*only with up to .* added to its diagonal", str(fit.verdict))
    given = fitted(model("ExpQuad(x, 1, 1)", mean="0", jitter=1e-6, priors={"sigma": 0}), table, draws=10, chains=1)
    assert given.verdict.status == "pass"  # the model says it


def test_a_covariance_that_is_nearly_singular_is_told():
    """Noise of 1e-7 beside a scale of one: a Cholesky factor exists, and few digits of it are right."""
    table = pd.DataFrame({"x": np.linspace(0, 1, 40), "y": np.linspace(0, 1, 40) ** 2})
    for sigma, status in ((3e-7, "warn"), (1e-3, "pass")):
        fit = fitted(model("ExpQuad(x, 1, 1)", mean="0", priors={"sigma": sigma}), table, draws=10, chains=1)
        assert fit.verdict.status == status, str(fit.verdict)
    kernel = Kernel.parse("ExpQuad(x, 1, 1)")
    process = Process(kernel, np.zeros(0), table[["x"]].to_numpy(), table["y"].to_numpy(), np.full(40, 1e-6))
    exact = np.linalg.cond(kernel.matrix(np.zeros(0), process.x) + 1e-6 * np.eye(40), 1)
    assert 0.2 * exact < process.condition < 20 * exact


# -------------------------------------------------------------------- hyperparameters are inferred

FREE = model("ExpQuad(x, l, 1)", mean="0", target="y", priors={"l": "InverseGamma(3, 4)", "sigma": "HalfNormal(1)"})


@pytest.fixture(scope="module")
def sampled():
    fit = fitted(FREE, method="nuts", draws=1000, tune=500, chains=2, target_accept=0.9)
    assert fit.verdict.status == "pass", str(fit.verdict)
    return fit


def log_joint(length, sd, prior=True):
    k = Kernel.parse("ExpQuad(x, l, 1)", hyperparameters=["l"]).matrix(np.array([length]), X[:, None])
    out = stats.multivariate_normal(np.zeros(N), k + sd**2 * np.eye(N)).logpdf(TABLE["y"].to_numpy())
    return out + (stats.invgamma(3, scale=4).logpdf(length) + stats.halfnorm().logpdf(sd) if prior else 0.0)


def log_joints(length, sds):
    """The same at several standard deviations of the noise, by the eigenvalues of the covariance."""
    gap = (X[:, None] - X) / length
    values, vectors = np.linalg.eigh(np.exp(-0.5 * gap**2))
    variances = values[:, None] + sds**2
    squares = (vectors.T @ TABLE["y"].to_numpy())[:, None] ** 2
    likelihood = -0.5 * (squares / variances + np.log(2 * np.pi * variances)).sum(axis=0)
    return likelihood + stats.invgamma(3, scale=4).logpdf(length) + stats.halfnorm().logpdf(sds)


IN_TIME = {
    "Matern52(x)": True,
    "Matern12(x) + Matern32(x, 0.7, s) + White()": True,
    "Matern52(x) * Matern32(x)": False,
    "Matern52(x) + Linear(x)": False,
}


@pytest.mark.parametrize("kernel", IN_TIME)
@pytest.mark.slow(why="compiles")
def test_matern_processes_of_time_have_the_evidence_of_the_dense_process(kernel):
    """The graph's evidence in n steps is that of the Cholesky factor; rows in any order, some twice."""
    from bayeslab.families.gaussian_process.density import in_time

    rng = np.random.default_rng(8)
    x = np.append(rng.uniform(0, 10, 147), [3.0, 3.0, 3.0])
    table = pd.DataFrame(
        {"x": x, "t": rng.normal(size=150), "e": rng.uniform(0.1, 0.3, 150), "y": rng.normal(size=150)}
    )
    made = model(kernel, target="y", mean="1 + t", errors="e", priors={"s": "HalfNormal(1)"} if "s)" in kernel else {})
    seen = resolved(made, bl.check(made, table))
    assert in_time(seen) == IN_TIME[kernel]
    assert not in_time(replace(seen, y=seen.y[:20], x=seen.x[:20]))
    built = bl.to_pymc(made, table)
    point = {v.name: rng.normal(size=np.shape(built.initial_point()[v.name])) for v in built.value_vars}
    potential = built.compile_logp(vars=built.potentials, mode="FAST_COMPILE")(point)
    values = {
        n: float(np.exp(v)) for n, v in ((k.removesuffix("_log__"), v) for k, v in point.items()) if np.ndim(v) == 0
    }
    values |= {"Intercept_centred": float(point["Intercept_centred"]), "b": point["b"]}
    (raw,) = built.replace_rvs_by_values([built["Intercept"]])
    at_zero = built.compile_fn(raw, inputs=built.value_vars, on_unused_input="ignore", mode="FAST_COMPILE")
    assert float(at_zero(point)) == pytest.approx(point["Intercept_centred"] - table["t"].mean() * point["b"][0])
    dense = Process(
        seen.kernel, seen.theta(values), seen.x, seen.y - seen.design @ seen.coefficients(values),
        seen.known + values["sigma"] ** 2,
    )  # fmt: skip
    assert float(potential) == pytest.approx(dense.log_evidence, rel=1e-10)


@pytest.mark.slow(why="compiles")
def test_nuts_agrees_with_a_grid(sampled):
    length, sd = np.linspace(0.3, 6, 60), np.linspace(0.12, 1.1, 50)
    logs = np.array([log_joints(a, sd) for a in length])
    assert logs[20, 10] == pytest.approx(log_joint(length[20], sd[10]), abs=1e-8)
    p = np.exp(logs - logs.max())
    p /= p.sum()
    for name, axis, values in (("l", 1, length), ("sigma", 0, sd)):
        own = p.sum(axis=axis)
        mean = own @ values
        row = sampled.summary().loc[name]
        assert abs(row["mean"] - mean) < 4 * row["mcse_mean"] + 1e-3, name
        assert row["sd"] == pytest.approx(np.sqrt(own @ values**2 - mean**2), rel=0.1)


@pytest.mark.slow(why="compiles")
def test_maximum_of_posterior_and_of_marginal_likelihood(sampled):
    """Level-II maximum likelihood is scikit-learn's."""
    found = fitted(FREE, method="map", restarts=2).posterior
    best = minimize(lambda u: -log_joint(*np.exp(u)), np.log([1.5, 0.3]), method="Nelder-Mead", options={"xatol": 1e-8})
    assert [found["l"].item(), found["sigma"].item()] == pytest.approx(np.exp(best.x), rel=1e-3)
    fit = fitted(FREE, method="map", restarts=2, prior="ignore")
    kernel = sk.RBF() + sk.WhiteKernel(0.1)
    peer = GaussianProcessRegressor(kernel).fit(X[:, None], TABLE["y"])
    want = [peer.kernel_.k1.length_scale, np.sqrt(peer.kernel_.k2.noise_level)]
    assert [fit.posterior["l"].item(), fit.posterior["sigma"].item()] == pytest.approx(want, rel=1e-3)
    assert "priors are left out" in str(fit.verdict)
    table = fit.predict(NEW)
    mean, sd = peer.predict(NEW.to_numpy(), return_std=True)
    np.testing.assert_allclose(table["mean"], mean, atol=1e-3)
    np.testing.assert_allclose(table["sd"], sd, rtol=1e-3)


@pytest.mark.slow(why="compiles")
def test_pointwise_log_likelihood_is_leave_one_out(sampled):
    found = family.compile(FREE, sampled.data).log_likelihoods(
        {n: sampled.posterior[n].to_numpy()[0, :3] for n in ("l", "sigma")}
    )
    dims, values = found["row"]
    assert dims == ("obs_id",) and values.shape == (3, N)
    at = {n: sampled.posterior[n].to_numpy()[0, 2] for n in ("l", "sigma")}
    k = Kernel.parse("ExpQuad(x, l, 1)", hyperparameters=["l"])
    c = k.matrix(np.array([at["l"]]), X[:, None]) + at["sigma"] ** 2 * np.eye(N)
    y = TABLE["y"].to_numpy()
    whole = stats.multivariate_normal(np.zeros(N), c).logpdf(y)
    for i in (0, 12):  # p(row | rest) = p(all) / p(rest)
        rest = np.delete(np.arange(N), i)
        others = stats.multivariate_normal(np.zeros(N - 1), c[np.ix_(rest, rest)]).logpdf(y[rest])
        assert values[2, i] == pytest.approx(whole - others, abs=1e-8)


@pytest.mark.slow(why="compiles")
def test_other_outcomes_against_quadrature():
    """Two 0/1 outcomes at two places, hyperparameters fixed: a two-dimensional integral."""
    table = pd.DataFrame({"x": [0.0, 1.0, 1.0], "k": ["no", "yes", "yes"]})
    made = model("ExpQuad(x, 1.5, 2)", likelihood="bernoulli", target="k", mean="0")
    fit = fitted(made, table, "nuts", draws=2000, tune=500, chains=2)
    assert fit.verdict.status == "pass", str(fit.verdict)
    found = fit.predict(pd.DataFrame({"x": [0.0, 1.0]}), "probabilities")["P(k=yes)"].to_numpy()
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    kernel = Kernel.parse("ExpQuad(x, 1.5, 2)").matrix(np.zeros(0), np.array([[0.0], [1.0]]))
    lower = np.linalg.cholesky(kernel)
    a, b = np.meshgrid(nodes, nodes, indexing="ij")
    f, g = lower[0, 0] * a, lower[1, 0] * a + lower[1, 1] * b
    p, q = 1 / (1 + np.exp(-f)), 1 / (1 + np.exp(-g))
    mass = np.outer(weights, weights) * (1 - p) * q**2
    want = np.array([(mass * p).sum(), (mass * q).sum()]) / mass.sum()
    error = 4.5 * np.sqrt(want * (1 - want) / 4000)  # what counting draws of the outcome would err by, more than this
    assert (np.abs(found - want) < error).all(), (found, want)
    assert list(fit.predict(pd.DataFrame({"x": [0.0]})).columns) == ["obs_id", "P(k=no)", "P(k=yes)"]
    drawn = fit.predict(pd.DataFrame({"x": [0.0, 1.0]}), "draws")["k"].to_numpy().mean(axis=(0, 1))
    assert (np.abs(drawn - want) < error).all(), (drawn, want)
    axes = fit.process.plot().axes[0]
    assert axes.get_ylabel() == "P(k=yes)" and axes.lines[1].get_ydata()[[19, 380]] == pytest.approx(want, abs=0.05)
    rows = predictions.row_log_likelihoods(resolved(made, fit.data), {"_z": fit.posterior["_z"].to_numpy()[0, :2]})
    z = fit.posterior["_z"].to_numpy()[0, 1]
    f = (np.linalg.cholesky(kernel + 4e-8 * np.eye(2)) @ z)[[0, 1, 1]]
    np.testing.assert_allclose(rows[1], -np.log1p(np.exp(np.array([1, -1, -1]) * f)), atol=1e-7)


# ------------------------------------------------------------------------------ priors and checks


def test_default_priors_keep_lengthscales_inside_the_data():
    made = model("Matern52(x) + Periodic(x, 3) * Linear(x)", target="y")
    found = family.compile(made, bl.check(made, TABLE)).priors()
    shape, scale = map(float, re.match(r"InverseGamma\((.*), (.*)\)", found["Matern52_lengthscale"]).groups())
    law = stats.invgamma(shape, scale=scale)
    assert law.cdf(np.median(np.diff(X))) == pytest.approx(0.01, rel=1e-3)
    assert law.sf(X[-1] - X[0]) == pytest.approx(0.01, rel=1e-3)
    assert found["sigma"] == f"HalfNormal({TABLE['y'].std(ddof=0):.6g})"
    assert set(found) == {
        "Matern52_lengthscale", "Matern52_scale", "Periodic_lengthscale", "Periodic_scale", "sigma", "Intercept",
    }  # fmt: skip
    a, b = tails(0.5, 20.0)
    assert stats.invgamma(a, scale=b).cdf(0.5) == pytest.approx(0.01, rel=1e-6)


def test_simulated_functions_have_the_covariance():
    """gp-prior: draws of the function from the prior have covariance K within Monte Carlo error."""
    x = np.array([0.0, 0.5, 2.0])
    made = model("ExpQuad(x, 1, 1.5)", target="y", mean="0", priors={"sigma": 0.1})
    tree = bl.simulate(made, {"x": x}, draws=2000, seed=4)
    f = tree["prior"]["f"].to_numpy()[0]
    k = Kernel.parse("ExpQuad(x, 1, 1.5)").matrix(np.zeros(0), x[:, None])
    error = np.sqrt((k**2 + np.outer(np.diagonal(k), np.diagonal(k))) / 2000)
    assert (np.abs(f.T @ f / 2000 - k) < 4.5 * error).all()
    noise = tree["prior_predictive"]["y"].to_numpy()[0] - f
    assert noise.std() == pytest.approx(0.1, rel=0.05)


BAD = [
    ({"kernel": "Matern52(z)", "target": "y"}, ModelError, "model.unknown-column", r"^model\.kernel.*Matern52.*'z'"),
    ({"kernel": "ExpQuad(x) - Matern52(x)"}, ModelError, "model.syntax", r"^model\.kernel"),
    ({"target": "w"}, DataError, "data.unknown-column", "'w'"),
    ({"target": "x"}, ModelError, "model.self-reference", r"^model\.target.*'x'"),
    ({"kernel": "ExpQuad(x, ls)"}, ModelError, "model.unknown-name", r"^model\.kernel.*'ls'"),
    # A prior for the slope of a column is no reason to drop the column from the kernel.
    (
        {"kernel": "Matern52(x, below)", "mean": "1 + below", "priors": {"below": "HalfNormal(1)"}},
        ModelError,
        "model.name-clash",
        r"^model\.kernel.*'below' is a column.*lengthscale=below",
    ),
    (
        {"kernel": "Matern52(x)", "priors": {"x": "HalfNormal(1)"}},
        ModelError,
        "model.wrong-arguments",
        r"^model\.kernel: Matern52 needs a column first, and 'x' is a hyperparameter here",
    ),
    ({"priors": {"sgma": "HalfNormal(1)"}}, ModelError, "model.unknown-parameter", r"^model\.priors\.sgma.*'sigma'"),
    ({"priors": {"sigma": "Normal(0, 1)"}}, ModelError, "model.bad-prior", r"^model\.priors\.sigma"),
    (
        {"priors": {"Matern52_scale": "Uniform(-1, 1)"}},
        ModelError,
        "model.bad-prior",
        r"^model\.priors\.Matern52_scale.*Matern52",
    ),
    ({"priors": {"sigma": -1}}, ModelError, "model.out-of-range", r"^model\.priors\.sigma.*-1"),
    ({"priors": {"sigma": "HalfNormal("}}, ModelError, "model.syntax", r"'\('"),
    ({"likelihood": "poisson"}, DataError, "data.impossible-value", "'y'.*poisson"),
    ({"likelihood": "bernoulli"}, DataError, "data.impossible-value", "'y'.*bernoulli"),
    ({"likelihood": "binomial"}, ModelError, "model.incomplete", "likelihood.*binomial"),
    ({"likelihood": "poisson", "link": "logit"}, ModelError, "model.unknown-word", "link.*logit"),
    ({"mean": "1 + w"}, ModelError, "model.unknown-column", r"^model\.mean.*'w'"),
    ({"mean": "1 + (1 | x)"}, ModelError, "model.unsupported", r"^model\.mean"),
    ({"kernel": "Brownian(x)", "mean": "1"}, DataError, "data.impossible-value", r"^model\.kernel.*'x'"),
    ({"kernel": "Matern52(word)"}, DataError, "data.not-numbers", r"^model\.inputs.*'word'"),
    ({"errors": "below"}, DataError, "data.impossible-value", r"^model\.errors.*'below'.*row 2.*-0\.5"),
]


@pytest.mark.parametrize(("changed", "error", "code", "match"), BAD)
def test_what_is_refused(changed, error, code, match):
    table = TABLE.assign(x=TABLE["x"] - 1, word="a", below=np.where(np.arange(len(TABLE)) == 1, -0.5, 0.1))

    def build():
        made = model(**{"target": "y", **changed})
        family.compile(made, bl.check(made, table)).graph()

    with refused(code, match) as caught:
        build()
    assert isinstance(caught.value, error)


def test_the_outcome_is_guessed_only_where_it_is_plain():
    assert model().outcomes({"x", "y"}) == ("y",)
    with refused("model.incomplete", "'w'.*'y'", where="model.target"):
        bl.check(model(), TABLE.assign(w=1.0))


def test_doubled_inputs_without_noise_are_refused():
    table = pd.DataFrame({"x": [0.0, 1.0, 1.0], "y": [0.0, 1.0, 2.0]})
    with refused("data.contradiction", "rows 2.*3", where="model.priors.sigma"):
        fitted(model("ExpQuad(x, 1, 1)", priors={"sigma": 0}), table)


def test_an_input_that_never_changes_is_refused_where_it_is_written(tmp_path):
    TABLE.assign(flat=3.0).to_csv(tmp_path / "t.csv", index=False)
    text = """bayeslab: 1
name: flat
data: {table: t.csv}
model:
  family: gaussian_process
  target: y
  kernel: Matern52(x) + ExpQuad(x, flat)
"""
    (tmp_path / "flat.yaml").write_text(text)
    with refused("model.constant", r"flat\.yaml:7:36: .*'flat'.*3.*25.*'ExpQuad_lengthscale_flat'"):
        bl.fit(tmp_path / "flat.yaml", runs=None, progress=False)
    fixed = model("ExpQuad(x, flat, 2, 1)", target="y", priors={"sigma": 0.3})  # nothing is learned of it
    assert fitted(fixed, TABLE.assign(flat=3.0), draws=10, chains=1).method == "exact"


def test_new_rows_have_the_columns_that_the_function_is_of():
    table = TABLE.assign(w=RNG.normal(size=N), which=np.tile(["a", "b", "c", "d", "e"], 5))
    made = model("ExpQuad(x, 1, 1) * Coregion(which, 1, 1, 1)", mean="1 + w", target="y", priors={"sigma": 0.3})
    fit = fitted(made, table, draws=10, chains=1)
    for lacking, said in ((["which"], "'which'"), (["x", "w"], "'w', 'x'")):
        with refused("data.unknown-column", f"{said}.*kernel.*mean"):
            fit.predict(table.drop(columns=[*lacking, "y"]).head(5))


def test_hyperparameters_of_outputs_have_the_names_of_levels():
    which = np.tile(["red wine", "white-wine", "beer", "beer", "beer"], 5)
    made = model("Coregion(which, 2) * ExpQuad(x, 1)", target="y", mean="0", priors={"Coregion_specific_beer": 0.1})
    data = bl.check(made, TABLE.assign(which=which))
    found = family.compile(made, data).priors()
    assert {"Coregion_weight_red_wine_0", "Coregion_weight_white_wine_1", "Coregion_weight_beer_1"} <= set(found)
    assert found["Coregion_specific_beer"] == "0.1 (fixed)"
    twins = np.tile(["a-b", "a b", "c", "c", "c"], 5)  # names that would be the same have numbers instead
    assert (
        "Coregion_weight_2"
        in family.compile(
            made.model_copy(
                update={"model": made.model.model_copy(update={"priors": {}, "kernel": "Coregion(which)"})}
            ),
            bl.check(model("Coregion(which)", target="y"), TABLE.assign(which=twins)),
        ).priors()
    )


@pytest.mark.slow(why="compiles")
def test_the_mode_leaves_the_saddle_of_signs_and_says_which_terms_vanish():
    """Weights of Coregion have a stationary point at zero; a term that the data do not need has its scale there."""
    table = pd.concat([TABLE.assign(which=name, y=TABLE["y"] * sign) for name, sign in (("a", 1), ("b", -1))])
    fit = fitted(model("Coregion(which) * ExpQuad(x)", target="y", mean="0"), table, "map", restarts=2)
    a, b = (fit.posterior[f"Coregion_weight_{name}"].item() for name in "ab")
    assert a * b < -0.1
    fit = fitted(model("ExpQuad(x) + Linear(x)", target="y"), TABLE, "map", restarts=1)
    assert fit.posterior["Linear_scale"].item() < 1e-3
    assert re.search("WARN  zero .*at the mode Linear vanishes", str(fit.verdict)), str(fit.verdict)
    assert "zero" not in str(fitted(FREE, method="map", restarts=1).verdict)


def test_what_helps_where_sampling_is_bad():
    made = model(likelihood="student_t", target="y")
    found = family.compile(made, bl.check(made, TABLE)).advice()
    assert "approximation: laplace with method map" in found
    good, bad = Finding("pass", "chains", "", 4.0, "4 chains"), Finding("warn", "R-hat", "", 1.1, "high", "run longer")
    assert with_advice(Verdict((good, bad)), found).findings == (good, replace(bad, advice=f"run longer; {found}"))
    assert with_advice(Verdict((good,)), found).findings == (good,)
    assert family.compile(model(target="y"), bl.check(model(target="y"), TABLE)).advice() is None


def test_too_many_rows_are_refused_with_what_it_would_cost():
    table = pd.DataFrame({"x": np.arange(30_000.0), "y": np.zeros(30_000)})
    with refused("engine.refused.too-costly", "30,000.*7.*30.*state_space"):
        fitted(model(), table)
    some = table[:2000]
    word, why = family.compile(model(), bl.check(model(), some)).preferred_engine()
    assert word == "map" and "2,000 rows" in why
    told = family.compile(model(), bl.check(model(), some)).forecast()
    assert told["covariance"] == "2,000 × 2,000, 0.032 GB"
    assert family.compile(model(), bl.check(model(), TABLE)).preferred_engine() is None


def test_round_trip_and_drawing():
    made = model("Matern52(x) + Linear(x)", target="y")
    assert bl.Model(**made.to_dict()) == made
    drawn = family.compile(made, bl.check(made, TABLE)).network()
    assert set(drawn.predecessors("f")) == {"x", "Matern52_lengthscale", "Matern52_scale", "Linear_scale", "Intercept"}
    assert set(drawn.predecessors("y")) == {"f", "sigma"}


@pytest.mark.parametrize("ends", [[0, 5], [0.0, 5.0], (0, 5)])
def test_a_domain_is_written_as_a_list_or_a_tuple(ends):
    content = {"family": "gaussian_process", "target": "y", "kernel": "Matern32(x, lengthscale=1.5, scale=1.2)"}
    assert bl.Model(model=content | {"approximation": "hsgp", "domain": {"x": ends}}).model.domain == {"x": (0.0, 5.0)}


@pytest.mark.slow(why="compiles")
def test_leaving_out_single_values_is_refused_where_rows_are_no_terms():
    data = {"x": np.arange(8.0), "u": np.array([0, 1, 0, 1, 1, 0, 1, 1])}
    content = {"family": "gaussian_process", "target": "u", "likelihood": "bernoulli", "kernel": "ExpQuad(x, 1, 1.5)"}
    fit = bl.fit(bl.Model(model=content), data, seed=1, runs=None)
    with refused("option.not-applicable", "loo_pit.*'u'"):
        fit.loo_pit()


# --------------------------------------------------------------------------------- means with coefficients


def _leverage():
    """Rows of which one has a lever: without it the slope is another."""
    rng = np.random.default_rng(0)
    x, z = np.arange(14.0), 0.3 * rng.normal(size=14)
    z[7] = 6.0
    y = 1 + 0.5 * z + 0.3 * np.sin(x) + rng.normal(0, 0.3, 14)
    y[7] = -2.0
    model = bl.Model(
        model=bl.GaussianProcess(
            target="y", kernel="Matern52(x, lengthscale=1.5, scale=0.5)", mean="1 + z",
            priors={"Intercept": "Normal(0, 5)", "b": "Normal(0, 5)", "sigma": 0.3},
        )
    )  # fmt: skip
    noise = Kernel.parse("Matern52(x, 1.5, 0.5)").matrix(np.empty(0), x[:, None]) + 0.09 * np.eye(14)
    return pd.DataFrame({"x": x, "z": z, "y": y}), model, np.column_stack([np.ones(14), z]), noise


@pytest.mark.slow(why="statistical")
def test_a_row_left_out_has_no_say_in_the_coefficients_of_the_mean():
    table, model, design, noise = _leverage()
    fit = bl.fit(model, table, seed=1, progress=False, runs=None)
    found = fit.process.leave_one_out()
    inverse = np.linalg.inv(noise + 25 * design @ design.T)
    gap = inverse @ table["y"] / np.diag(inverse)
    np.testing.assert_allclose(found["mean"], table["y"] - gap, atol=1e-7)
    np.testing.assert_allclose(found["sd"], np.diag(inverse) ** -0.5, rtol=1e-7)
    others = bl.fit(model, table.drop(index=7), seed=1, progress=False, runs=None)
    drawn = others.predict(table.iloc[[7]], kind="draws")["y"]
    assert float(drawn.mean()) == pytest.approx(found["mean"][7], abs=4 * found["sd"][7] / drawn.size**0.5)


@pytest.mark.parametrize("word", ["state_space", "sparse", "fitc", "hsgp"])
def test_nor_where_the_process_is_approximated(word):
    """With every row an inducing point, and in time, nothing is approximated."""
    table, model, design, _ = _leverage()
    changed = {"kernel": "Matern52(x, lengthscale=1.5, scale=s)", "approximation": word}
    changed |= {"functions": 200, "domain": {"x": (-30.0, 43.0)}} if word == "hsgp" else {}
    changed |= {"inducing": 14} if word in ("sparse", "fitc") else {}
    priors = model.model.priors | {"s": "LogNormal(0, 0.5)"}
    process = model.model.model_copy(update=changed | {"priors": priors})
    fit = bl.fit(model.model_copy(update={"model": process}), table, "map", seed=1, progress=False, runs=None)
    found = fit.process.leave_one_out()
    scale = fit.posterior["s"].item()
    kernel = Kernel.parse("Matern52(x, 1.5, 1)").matrix(np.empty(0), table[["x"]].to_numpy())
    inverse = np.linalg.inv(scale**2 * kernel + 0.09 * np.eye(14) + 25 * design @ design.T)
    near = 1e-3 if word == "hsgp" else 1e-6
    np.testing.assert_allclose(found["mean"], table["y"] - inverse @ table["y"] / np.diag(inverse), atol=near)
    np.testing.assert_allclose(found["sd"], np.diag(inverse) ** -0.5, rtol=near)


def test_criteria_take_the_highest_marginal_likelihood_and_count_what_is_inferred():
    table, model, design, noise = _leverage()
    fit = bl.fit(model, table, seed=1, progress=False, runs=None)
    row = bl.compare({"a": fit}, criterion="bic").table.iloc[0]
    weights = np.linalg.solve(noise, design)
    best = np.linalg.solve(design.T @ weights, weights.T @ table["y"])
    highest = stats.multivariate_normal(design @ best, noise).logpdf(table["y"])
    assert row["max_log_likelihood"] == pytest.approx(highest, abs=1e-5) and row["n_parameters"] == 2
    assert row["bic"] == pytest.approx(2 * np.log(14) - 2 * highest, abs=1e-4)


@pytest.mark.slow(why="compiles")
def test_left_out_rows_with_inferred_hyperparameters_are_those_of_fits_without_them():
    rng = np.random.default_rng(3)
    x = np.linspace(0, 5, 12)
    table = pd.DataFrame({"x": x, "y": np.sin(x) + rng.normal(0, 0.2, 12)})
    priors = {"l": "Gamma(4, 3)", "sigma": 0.2, "Intercept": "Normal(0, 2)"}
    model = bl.Model(
        model=bl.GaussianProcess(target="y", kernel="ExpQuad(x, lengthscale=l, scale=1)", mean="1", priors=priors)
    )
    fit = bl.fit(model, table, "grid", seed=1, progress=False, runs=None)
    found = fit.process.leave_one_out()
    # By quadrature over the lengthscale, the intercept integrated out.
    grid = np.linspace(0.05, 6, 400)
    weight, mean, variance = np.empty(400), np.empty(400), np.empty(400)
    rest, y = np.delete(np.arange(12), 5), table["y"].to_numpy()
    for i, length in enumerate(grid):
        c = np.exp(-0.5 * np.subtract.outer(x, x) ** 2 / length**2) + 0.04 * np.eye(12) + 4.0
        own = c[np.ix_(rest, rest)]
        weight[i] = stats.multivariate_normal(np.zeros(11), own).logpdf(y[rest]) + stats.gamma.logpdf(
            length, 4, scale=1 / 3
        )
        gain = np.linalg.solve(own, c[rest, 5])
        mean[i], variance[i] = gain @ y[rest], c[5, 5] - gain @ c[rest, 5]
    weight = np.exp(weight - weight.max())
    weight /= weight.sum()
    expected = weight @ mean
    assert found["mean"][5] == pytest.approx(expected, abs=0.02)
    assert found["sd"][5] == pytest.approx(np.sqrt(weight @ (variance + (mean - expected) ** 2)), rel=0.05)
    assert found["pareto_k"].max() < 0.7
