"""A number in place of a prior: the parameter is that number, in every likelihood, engine and prediction."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.families import regression as regressions
from bayeslab.fitting import check

N = 14
RNG = np.random.default_rng(4)
X = RNG.normal(size=N)
DATA = pd.DataFrame(
    {
        "x": X,
        "g": list("ppppqqqqrrrrpq"),
        "y": X + RNG.normal(size=N),
        "count": RNG.poisson(3, N),
        "share": RNG.uniform(0.1, 0.9, N),
        "size": np.exp(RNG.normal(size=N)),
        "grade": RNG.integers(0, 3, N),
    }
)
LIKELIHOODS = {
    "gaussian": ("y", {"sigma": 0.8}),
    "student_t": ("y", {"sigma": 1, "nu": 4}),
    "negative_binomial": ("count", {"alpha": 2}),
    "poisson": ("count", {}),
    "gamma": ("size", {"shape": 2}),
    "beta": ("share", {"phi": 5}),
    "ordered": ("grade", {"cutpoints": (-1, 1)}),
}
CASES = [(word, name) for word, (_, known) in LIKELIHOODS.items() for name in [*known, "Intercept", "x"]]
CASES.remove(("ordered", "Intercept"))


def regression(likelihood: str, formula: str, priors: dict[str, object], **more: object) -> bl.Model:
    dims = {"dims": {"grade": [0, 1, 2]}} if likelihood == "ordered" else {}
    content = {"family": "regression", "formula": formula, "likelihood": likelihood, "priors": priors, **more}
    return bl.Model(name="fixed", data={"rows": "row"}, model=content, **dims)


@pytest.mark.parametrize(("likelihood", "name"), CASES)
def test_arrays_read_a_fixed_parameter(likelihood: str, name: str) -> None:
    """Log likelihoods as SciPy has them, and predictions, of draws in which the parameter is missing."""
    response, auxiliary = LIKELIHOODS[likelihood]
    number = auxiliary.get(name, 0.3)
    model = regression(likelihood, f"{response} ~ x", {name: str(list(number)) if name == "cutpoints" else number})
    data = check(model, DATA)
    rng = np.random.default_rng(1)
    drawn = {known: np.sort(rng.uniform(0.5, 2, (4, *np.shape(value))), axis=-1) for known, value in auxiliary.items()}
    drawn |= {"b": rng.normal(size=(4, 1))} | ({} if likelihood == "ordered" else {"Intercept": rng.normal(size=4)})
    missing = "b" if name == "x" else name
    whole = drawn | {missing: np.broadcast_to(np.asarray(number, float), drawn[missing].shape)}
    del drawn[missing]
    ((_, ours),) = regressions.compile(model, data).log_likelihoods(drawn).values()
    eta = whole.get("Intercept", np.zeros(4))[:, None] + whole["b"] * X
    columns = {key: value if key == "cutpoints" else value[:, None] for key, value in whole.items()}
    np.testing.assert_allclose(ours, TRUTH[likelihood](DATA[response].to_numpy(), eta, columns), atol=1e-8)
    ((_, made),) = regressions.compile(model, data).predictive(drawn, rng).values()
    assert made.shape == (4, N)


def _ordered(y, eta, p):
    below = stats.logistic.cdf(p["cutpoints"][:, None, :] - eta[..., None])
    whole = np.concatenate([np.zeros((*eta.shape, 1)), below, np.ones((*eta.shape, 1))], axis=-1)
    each = np.diff(whole, axis=-1)
    return np.log(np.take_along_axis(each, np.broadcast_to(y, eta.shape)[..., None], axis=-1)[..., 0])


TRUTH = {
    "gaussian": lambda y, eta, p: stats.norm.logpdf(y, eta, p["sigma"]),
    "student_t": lambda y, eta, p: stats.t.logpdf(y, p["nu"], eta, p["sigma"]),
    "negative_binomial": lambda y, eta, p: stats.nbinom.logpmf(y, p["alpha"], p["alpha"] / (p["alpha"] + np.exp(eta))),
    "poisson": lambda y, eta, p: stats.poisson.logpmf(y, np.exp(eta)),
    "gamma": lambda y, eta, p: stats.gamma.logpdf(y, p["shape"], scale=np.exp(eta) / p["shape"]),
    "beta": lambda y, eta, p: stats.beta.logpdf(y, p["phi"] / (1 + np.exp(-eta)), p["phi"] / (1 + np.exp(eta))),
    "ordered": _ordered,
}


@pytest.mark.parametrize(
    ("formula", "priors", "known"),
    [
        ("y ~ x", {"Intercept": 0}, {"Intercept": 0.0}),
        ("y ~ x", {"x": 1}, {"x": 1.0}),
        ("y ~ x + g", {"g": 0, "b": "Normal(0, 1)"}, {"g": 0.0}),
        ("y ~ x + (1 | g)", {"Intercept": 0.5, "x": "1 / 4"}, {"Intercept": 0.5, "x": 0.25}),
    ],
)
def test_known_coefficients_are_an_offset_in_closed_form(formula: str, priors: dict, known: dict) -> None:
    priors = {"sigma": 0.8, "sd_g": 0.7, "Intercept": "Normal(0, 2)", "b": "Normal(0, 1)"} | priors
    groups = "|" in formula
    if not groups:
        del priors["sd_g"]
    fit = bl.fit(regression("gaussian", formula, priors), DATA, seed=1, runs=None)
    assert fit.method == "exact"
    # Everything that is not known is normal with these sds.
    dummies = np.array([[v == w for w in "qr"] for v in DATA["g"]], float)
    effects = np.array([[v == w for w in "pqr"] for v in DATA["g"]], float)
    parts = [("Intercept", np.ones((N, 1)), 2.0), ("x", X[:, None], 1.0)]
    parts += [("u", effects, 0.7)] if groups else [("g", dummies, 1.0)] if "g" in formula else []
    y = DATA["y"].to_numpy() - sum(known[name] * cols.sum(axis=1) for name, cols, _ in parts if name in known)
    cov = 0.64 * np.eye(N) + sum(sd**2 * cols @ cols.T for name, cols, sd in parts if name not in known)
    assert fit.data_tree["exact_posterior"].attrs["log_evidence"] == pytest.approx(
        stats.multivariate_normal.logpdf(y, np.zeros(N), cov), abs=1e-8
    )
    gain = np.linalg.solve(cov, y)
    for name, cols, sd in parts:
        row = {"Intercept": "Intercept", "x": "b[x]", "g": "b[g[q]]", "u": "u_g[p]"}[name]
        mean = known.get(name, sd**2 * cols[:, 0] @ gain)
        assert fit.summary().loc[row, "mean"] == pytest.approx(mean, abs=1e-8)
        assert (fit.summary().loc[row, "sd"] == 0) == (name in known)
    assert len(bl.compare({"one": fit, "two": fit}).table) == 2


@pytest.mark.parametrize(("name", "number"), [("sigma2", 0.64), ("precision", 1.5625)])
def test_a_fixed_square_of_sigma_is_a_fixed_sigma(name: str, number: float) -> None:
    priors = {"Intercept": "Normal(0, 2)", "b": "Normal(0, 1)"}
    one, two = (
        bl.fit(regression("gaussian", "y ~ x", priors | extra), DATA, seed=1, runs=None)
        for extra in ({name: number}, {"sigma": 0.8})
    )
    assert one.method == two.method == "exact"
    np.testing.assert_allclose(one.summary().loc["b[x]", ["mean", "sd"]], two.summary().loc["b[x]", ["mean", "sd"]])


@pytest.mark.slow(why="compiles")
def test_rows_summed_up_read_fixed_coefficients() -> None:
    """Sampled on the graph, a known intercept gives what it gives in closed form."""
    model = regression("gaussian", "y ~ x", {"Intercept": 0.5, "b": "Normal(0, 1)", "sigma": "Exponential(1)"})
    exact = bl.fit(model, DATA, seed=1, runs=None).summary()
    fit = bl.fit(model, DATA, method="grid", draws=100, seed=1, runs=None)
    for row in ("b[x]", "sigma"):
        assert fit.summary().loc[row, "mean"] == pytest.approx(exact.loc[row, "mean"], abs=1e-4)
    assert len(fit.predict(DATA.head(2))) == 2
    assert np.isfinite(fit.log_likelihood()["y"].to_numpy()).all()


@pytest.mark.slow(why="compiles")
def test_known_standard_deviations_of_correlated_effects() -> None:
    """Given the correlation everything is normal; its posterior is an integral over one number."""
    rng = np.random.default_rng(3)
    g = np.repeat(np.arange(8), 4)
    x = rng.normal(size=32)
    effects = rng.multivariate_normal([0, 0], 0.49 * np.array([[1, 0.8], [0.8, 1]]), 8)
    y = 1 + effects[g, 0] + (0.5 + effects[g, 1]) * x + 0.3 * rng.normal(size=32)
    priors = {"Intercept": "Normal(0, 2)", "b": "Normal(0, 1)", "sigma": 0.3, "sd_g": 0.7, "corr_g": 2}
    data = pd.DataFrame({"x": x, "y": y, "g": [f"g{k}" for k in g]})
    model, quiet = regression("gaussian", "y ~ x + (1 + x | g)", priors), {"runs": None, "progress": False}
    fit = bl.fit(model, data, "nuts", draws=3000, seed=1, **quiet)
    assert fit.verdict.status == "pass"
    z = np.eye(8)[g]
    by_intercept, by_slope = z @ z.T, (z @ z.T) * np.outer(x, x)
    between = (z @ z.T) * np.add.outer(x, x)
    rho = np.linspace(-0.9995, 0.9995, 1000)
    rest = 4 + np.outer(x, x) + 0.09 * np.eye(32) + 0.49 * (by_intercept + by_slope)
    log_density = np.array([stats.multivariate_normal.logpdf(y, np.zeros(32), rest + 0.49 * r * between) for r in rho])
    log_density += np.log(1 - rho**2)  # LKJ(2)
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    mean = weight @ rho
    sd = np.sqrt(weight @ rho**2 - mean**2)
    row = fit.summary().loc["corr_g[1, x]"]
    assert row["mean"] == pytest.approx(mean, abs=4.5 * sd / np.sqrt(row["ess_bulk"]))
    assert row["sd"] == pytest.approx(sd, rel=0.15)
    gains = [np.linalg.solve(rest + 0.49 * r * between, y) for r in rho[weight > 1e-6]]
    levels = [0.49 * (z[:, 0] + r * z[:, 0] * x) @ gain for r, gain in zip(rho[weight > 1e-6], gains, strict=True)]
    row = fit.summary().loc["u_g[g0, 1]"]
    expected = weight[weight > 1e-6] @ levels
    assert row["mean"] == pytest.approx(expected, abs=4.5 * row["sd"] / np.sqrt(row["ess_bulk"]))
