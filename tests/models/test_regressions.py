"""The shipped regressions: closed forms integrated again, exact against NUTS, and estimates others printed.

Printed estimates are those of maximum likelihood; under the weak default priors posterior means lie
within a fraction of a standard error of them.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special, stats

import bayeslab as bl
from tests.models.shipped import MODELS, table

FILES = sorted(file for file in MODELS.glob("*.yaml") if "family: regression\n" in file.read_text())
NAMES = [file.stem for file in FILES]


def near(fit: bl.Fit, printed: dict[str, tuple[float, float]], within: float = 0.25, spread: float = 0.1) -> None:
    """Posterior means within a fraction of the standard error, and sds within a share of it."""
    rows = fit.summary()
    for name, (estimate, error) in printed.items():
        assert abs(rows.loc[name, "mean"] - estimate) < within * error, (name, rows.loc[name, "mean"], estimate)
        assert rows.loc[name, "sd"] == pytest.approx(error, rel=spread), name


def indicators(data: pd.DataFrame, levels: dict[str, list[str]]) -> pd.DataFrame:
    return pd.DataFrame({f"b[{c}[{k}]]": (data[c] == k).astype(float) for c, ks in levels.items() for k in ks})


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", NAMES)
def test_fits_and_can_be_trusted(name, fits):
    fit = fits(name)
    assert fit.verdict.status == "pass", str(fit.verdict)
    gaussian = name in {"trees", "longley", "radon_formula", "women_1", "women_2", "women_3"}
    assert fit.method == ("exact" if gaussian else "nuts")


# ----------------------------------------------------------------------------- linear, in closed form


def marginal(x: np.ndarray, y: np.ndarray, scales: np.ndarray, location: np.ndarray):
    """Log density of y with the coefficients integrated out, as a function of sigma, and their mean."""
    fitted, spread = x @ location, (x * scales**2) @ x.T

    def at(sigma: float) -> tuple[float, np.ndarray]:
        whole = spread + sigma**2 * np.eye(len(y))
        chol = np.linalg.cholesky(whole)
        z = np.linalg.solve(chol, y - fitted)
        log_density = -0.5 * z @ z - np.log(np.diag(chol)).sum() - 0.5 * len(y) * np.log(2 * np.pi)
        return log_density, location + (x * scales**2).T @ np.linalg.solve(chol.T, z)

    return at


def by_quadrature(x: np.ndarray, y: np.ndarray, grid: np.ndarray) -> tuple[float, np.ndarray, float]:
    """Log evidence, coefficients and sigma under the documented default priors."""
    centred, s = x - x.mean(axis=0), np.std(y, ddof=1)
    scales = np.concatenate([[2.5 * s], 2.5 * s / np.std(x, axis=0, ddof=1)])
    location = np.concatenate([[y.mean()], np.zeros(x.shape[1])])
    at = marginal(np.column_stack([np.ones(len(y)), centred]), y, scales, location)
    values, means = zip(*(at(sigma) for sigma in grid), strict=True)
    log_post = np.array(values) + stats.expon.logpdf(grid, scale=s) + np.log(grid)
    step = np.log(grid[1] / grid[0])
    weights = np.exp(log_post - special.logsumexp(log_post))
    return special.logsumexp(log_post) + np.log(step), weights @ np.array(means), weights @ grid


def orthonormal(x: np.ndarray, degree: int) -> np.ndarray:
    q, r = np.linalg.qr(np.vander(x - x.mean(), degree + 1, increasing=True))
    return (q * np.sign(np.diag(r)))[:, 1:]


@pytest.mark.parametrize("name", ["trees", "women_1", "women_2", "women_3"])
def test_closed_form_by_quadrature(name, fits):
    if name == "trees":
        data = np.log(table("trees"))
        x, y = data[["girth", "height"]].to_numpy(), data["volume"].to_numpy()
    else:
        degree, data = int(name[-1]), table("women")
        height, y = data["height"].to_numpy(float), data["weight"].to_numpy(float)
        x = height[:, None] if degree == 1 else orthonormal(height, degree)
    evidence, mean, sigma = by_quadrature(x, y, np.exp(np.linspace(-6, 5, 1500)))
    fit = fits(name)
    group = fit.data_tree["exact_posterior"]
    # The default scales are written to six digits.
    assert group.attrs["log_evidence"] == pytest.approx(evidence, abs=1e-4)
    found = group["b"].sel(statistic="mean").to_numpy()
    np.testing.assert_allclose(found, mean[1:], rtol=1e-4, atol=1e-5)
    assert float(group["sigma"].sel(statistic="mean")) == pytest.approx(sigma, rel=1e-5)
    least_squares = np.linalg.lstsq(np.column_stack([np.ones(len(y)), x]), y)[0]
    sds = group["b"].sel(statistic="sd").to_numpy()
    assert np.all(np.abs(found - least_squares[1:]) < 0.15 * sds)


def test_the_parabola_has_the_evidence(fits):
    """A cubic term improves the fit by less than its prior costs."""
    evidence = [fits(f"women_{k}").data_tree["exact_posterior"].attrs["log_evidence"] for k in (1, 2, 3)]
    assert np.argmax(evidence) == 1
    assert evidence[1] - evidence[0] > 5


@pytest.mark.slow(why="statistical")
def test_longley_by_quadrature_over_two_scales(fits):
    data = table("longley")
    y, x = data.pop("employed").to_numpy(), data.to_numpy(float)
    s, sds = np.std(y, ddof=1), np.std(x, axis=0, ddof=1)
    design = np.column_stack([np.ones(len(y)), x - x.mean(axis=0)])
    location = np.concatenate([[y.mean()], np.zeros(6)])
    sigmas, taus = np.exp(np.linspace(-3.5, 2, 70)), np.exp(np.linspace(-5, 5, 90))
    log_post, means = [], []
    for tau in taus:
        at = marginal(design, y, np.concatenate([[2.5 * s], tau * s / sds]), location)
        for sigma in sigmas:
            value, mean = at(sigma)
            prior = stats.expon.logpdf(sigma, scale=s) + stats.halfcauchy.logpdf(tau) + np.log(sigma * tau)
            log_post.append(value + prior)
            means.append(mean)
    weights = np.exp(np.array(log_post) - special.logsumexp(log_post))
    group = fits("longley").data_tree["exact_posterior"]
    found, sd = (group["b"].sel(statistic=word).to_numpy() for word in ("mean", "sd"))
    assert np.all(np.abs(found - (weights @ np.array(means))[1:]) < 1e-3 * sd)
    expected = weights @ np.repeat(taus, len(sigmas))
    assert float(group["tau"].sel(statistic="mean")) == pytest.approx(expected, rel=1e-3)
    cell = np.log(sigmas[1] / sigmas[0]) * np.log(taus[1] / taus[0])
    assert group.attrs["log_evidence"] == pytest.approx(special.logsumexp(log_post) + np.log(cell), abs=1e-3)


@pytest.mark.slow(why="statistical")
def test_braking_by_quadrature_over_sigma_and_its_slope(fits):
    """Coefficients integrated out in closed form; the value of sigma at the mean of log(speed), and its slope, on a grid."""
    data = table("braking")
    speed, y = data["speed"].to_numpy(float), data["distance"].to_numpy(float)
    x, z = np.column_stack([speed, speed**2]), np.log(speed)
    s, scales = np.std(y, ddof=1), 2.5 * np.std(y, ddof=1) / np.std(x, axis=0, ddof=1)
    centres, slopes = np.exp(np.linspace(1.5, 4.0, 81)), np.linspace(-1.0, 3.0, 81)
    log_post, means = [], []
    for centre in centres:
        for slope in slopes:
            # Rows in units of their sigma: then sigma is 1 for all.
            sigma = centre * np.exp(slope * (z - z.mean()))
            value, mean = marginal(x / sigma[:, None], y / sigma, scales, np.zeros(2))(1.0)
            prior = stats.expon.logpdf(centre, scale=s) + np.log(centre)
            prior += stats.norm.logpdf(slope, 0, 1 / np.std(z, ddof=1))
            log_post.append(value - np.log(sigma).sum() + prior)
            means.append(mean)
    weights = np.exp(np.array(log_post) - special.logsumexp(log_post))
    at, along = np.repeat(centres, len(slopes)), np.tile(slopes, len(centres))
    expected = dict(zip(("b[speed]", "b[I(speed ** 2)]"), weights @ np.array(means), strict=True))
    expected |= {"sigma_centred": weights @ at, "b_sigma[log(speed)]": weights @ along}
    expected |= {"Intercept_sigma": weights @ (np.log(at) - along * z.mean())}
    rows = fits("braking").summary()
    for name, value in expected.items():
        assert abs(rows.loc[name, "mean"] - value) < 4 * rows.loc[name, "mcse_mean"], name
    sd = np.sqrt(weights @ along**2 - (weights @ along) ** 2)
    assert rows.loc["b_sigma[log(speed)]", "sd"] == pytest.approx(sd, rel=0.06)
    assert weights @ (along > 0) > 0.99


@pytest.mark.slow(why="compiles")
def test_orange_is_that_of_lme4(fits):
    """Printed by lme4's nlmer for the same model: estimates and standard errors."""
    printed = {"Intercept_limit": (192.05, 15.58), "middle": (727.90, 34.44), "pace": (348.07, 26.31)}
    near(fits("orange"), printed, spread=0.2)
    assert fits("orange").summary().loc["sigma", "mean"] == pytest.approx(7.84, rel=0.1)


@pytest.mark.slow(why="statistical")
def test_orange_by_quadrature(fits):
    """Limits integrated out: trees have the same ages, so that each is one number along the curve, and a rest."""
    data = table("orange")
    y = data.pivot(index="tree", columns="age", values="circumference").to_numpy(float)
    ages, n = data["age"].unique(), y.size
    sigmas, sds = np.exp(np.linspace(1.5, 3.0, 41)), np.exp(np.linspace(0, 5.6, 81))
    middles, paces = np.linspace(560, 960, 41), np.linspace(230, 520, 41)
    log_post = np.empty((len(middles), len(paces), len(sigmas), len(sds)))
    limits = np.empty_like(log_post)
    for i, middle in enumerate(middles):
        for j, pace in enumerate(paces):
            curve = special.expit((ages - middle) / pace)
            size = curve @ curve
            along = y @ curve / np.sqrt(size)
            rest = (y**2).sum() - along @ along
            # A tree's number along the curve has mean limit * sqrt(size), and this variance given the limit.
            one = sigmas[:, None] ** 2 + sds**2 * size
            precision = 5 * size / one + 1 / 50**2
            limits[i, j] = (along.sum() * np.sqrt(size) / one + 200 / 50**2) / precision
            square = (along @ along) / one + 200**2 / 50**2 - precision * limits[i, j] ** 2
            log_post[i, j] = -0.5 * (square + np.log(precision) + 5 * np.log(one))
            log_post[i, j] -= 0.5 * rest / sigmas[:, None] ** 2 + (n - 5) * np.log(sigmas[:, None])
    log_post += stats.norm(700, 200).logpdf(middles)[:, None, None, None]
    log_post += stats.lognorm(0.3, scale=np.exp(5.8)).logpdf(paces)[:, None, None]
    log_post += (stats.expon(scale=np.std(y.ravel(), ddof=1)).logpdf(sigmas) + np.log(sigmas))[:, None]
    log_post += stats.halfnorm(scale=50).logpdf(sds) + np.log(sds)
    weights = np.exp(log_post - special.logsumexp(log_post))
    expected = {
        "middle": weights.sum((1, 2, 3)) @ middles, "pace": weights.sum((0, 2, 3)) @ paces,
        "sigma": weights.sum((0, 1, 3)) @ sigmas, "sd_limit_tree": weights.sum((0, 1, 2)) @ sds,
        "Intercept_limit": (weights * limits).sum(),
    }  # fmt: skip
    rows = fits("orange").summary()
    for name, value in expected.items():
        assert abs(rows.loc[name, "mean"] - value) < 4 * rows.loc[name, "mcse_mean"], name


def test_radon_is_gelman_and_hills(fits):
    """Printed in section 12.4: 1.46 (0.05) and -0.69 (0.07); sds 0.33 and 0.76."""
    fit = fits("radon_formula")
    rows = fit.summary()
    near(fit, {"Intercept": (1.46, 0.05), "b[floor]": (-0.69, 0.07)}, within=0.15)
    assert rows.loc["sd_county", "mean"] == pytest.approx(0.33, abs=0.01)
    assert rows.loc["sigma", "mean"] == pytest.approx(0.76, abs=0.006)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", ["trees", "radon_formula"])
def test_nuts_agrees_with_the_closed_form(name, fits):
    exact = fits(name).summary()
    drawn = bl.fit(MODELS / f"{name}.yaml", method="nuts", progress=False, runs=None).summary()
    rows = [row for row in exact.index if not row.startswith("u_")]
    error = (drawn["mean"] - exact["mean"])[rows] / drawn.loc[rows, "mcse_mean"]
    assert np.all(np.abs(error) < 4), error
    assert np.all(np.abs(drawn.loc[rows, "sd"] / exact.loc[rows, "sd"] - 1) < 0.15)


# ------------------------------------------------------------------ estimates that others have printed


def test_trees_are_between_cone_and_cylinder(fits):
    rows = fits("trees").summary()
    assert rows.loc["b[log(girth)]", "eti89_lb"] < 2 < rows.loc["b[log(girth)]", "eti89_ub"]
    assert rows.loc["b[log(height)]", "eti89_lb"] < 1 < rows.loc["b[log(height)]", "eti89_ub"]


@pytest.mark.slow(why="statistical")
def test_phones_are_robust(fits):
    """Venables and Ripley, section 6.5: MM estimate 1.10; least squares 5.04."""
    rows = fits("phones").summary()
    assert rows.loc["b[year]", "mean"] == pytest.approx(1.10, abs=rows.loc["b[year]", "sd"])
    assert rows.loc["nu", "eti89_ub"] < 1


@pytest.mark.slow(why="statistical")
def test_birth_weight_by_maximum_likelihood(fits):
    data = table("birth_weight")
    x = pd.DataFrame(
        {
            "Intercept": 1.0,
            "b[age]": data["age"],
            "b[weight]": data["weight"],
            "b[race[black]]": data["race"] == "black",
            "b[race[other]]": data["race"] == "other",
            "b[smoker]": data["smoker"],
            "b[premature_before]": data["premature"] > 0,
            "b[hypertension]": data["hypertension"],
            "b[irritability]": data["irritability"],
        }
    ).astype(float)
    y = data["low"].to_numpy()
    beta = np.zeros(x.shape[1])
    for _ in range(30):
        p = special.expit(x.to_numpy() @ beta)
        information = (x.T * (p * (1 - p))) @ x.to_numpy()
        beta = beta + np.linalg.solve(information, x.T @ (y - p))
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    near(fits("birth_weight"), dict(zip(x.columns, zip(beta, errors, strict=True), strict=True)))


@pytest.mark.slow(why="statistical")
def test_insurance_by_maximum_likelihood(fits):
    data = table("insurance")
    parts = {"district": ["d2", "d3", "d4"], "engine": ["1-1.5l", "1.5-2l", ">2l"], "age": ["25-29", "30-35", ">35"]}
    x = indicators(data, parts).assign(Intercept=1.0)
    y, beta = data["claims"].to_numpy(), np.array([0.0] * 9 + [-2.0])
    for _ in range(30):
        mu = data["holders"].to_numpy() * np.exp(x.to_numpy() @ beta)
        information = (x.T * mu) @ x.to_numpy()
        beta = beta + np.linalg.solve(information, x.T @ (y - mu))
    # R's help page of the data: residual deviance 51.42 on 54 degrees of freedom.
    assert 2 * (special.xlogy(y, y / mu) - y + mu).sum() == pytest.approx(51.42, abs=0.005)
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    near(fits("insurance"), dict(zip(x.columns, zip(beta, errors, strict=True), strict=True)))


def maximum_likelihood(minus_log_likelihood, start) -> tuple[np.ndarray, np.ndarray]:
    """Estimates and standard errors, the information by central differences of the gradient."""
    found = optimize.minimize(minus_log_likelihood, start, method="BFGS", options={"gtol": 1e-5})
    step = 1e-4
    gradient = [
        (optimize.approx_fprime(found.x + move, minus_log_likelihood) - found.jac) / step
        for move in step * np.eye(len(found.x))
    ]
    information = (np.array(gradient) + np.array(gradient).T) / 2
    return found.x, np.sqrt(np.diag(np.linalg.inv(information)))


@pytest.mark.slow(why="large")
def test_absences_by_maximum_likelihood(fits):
    """``glm.nb(Days ~ Eth + Sex + Age + Lrn)`` of R's MASS prints -0.569 (0.153) for culture, theta 1.275 (0.161)."""
    data = table("absences")
    x = indicators(
        data, {"culture": ["other"], "sex": ["girl"], "form": ["F1", "F2", "F3"], "learner": ["slow"]}
    ).assign(Intercept=1.0)
    y = data["days"].to_numpy()

    def minus_log_likelihood(p):
        alpha, mu = np.exp(p[-1]), np.exp(x.to_numpy() @ p[:-1])
        return -stats.nbinom.logpmf(y, alpha, alpha / (alpha + mu)).sum()

    estimate, error = maximum_likelihood(minus_log_likelihood, np.array([0.0] * 6 + [2.5, 0]))
    assert estimate[0] == pytest.approx(-0.569, abs=0.001)
    assert np.exp(estimate[-1]) == pytest.approx(1.275, abs=0.001)
    near(fits("absences"), dict(zip(x.columns, zip(estimate[:-1], error[:-1], strict=True), strict=True)))
    near(fits("absences"), {"alpha": (1.275, 0.161)}, within=0.5)  # skewed


@pytest.mark.slow(why="statistical")
def test_housing_by_maximum_likelihood(fits):
    """Venables and Ripley, section 7.3, print 0.566 and 1.289 for influence, -0.496 and 0.691 for the cutpoints."""
    data = table("housing")
    levels = {"influence": ["medium", "high"], "type": ["apartment", "atrium", "terrace"], "contact": ["high"]}
    x = indicators(data, levels)
    grade = data["satisfaction"].map({"low": 0, "medium": 1, "high": 2}).to_numpy()

    def minus_log_likelihood(p):
        cut = np.array([-np.inf, p[-2], p[-1], np.inf])
        eta = x.to_numpy() @ p[:-2]
        mass = special.expit(cut[grade + 1] - eta) - special.expit(cut[grade] - eta)
        return -(data["households"] * np.log(mass)).sum()

    estimate, error = maximum_likelihood(minus_log_likelihood, np.array([0.0] * 6 + [-0.5, 0.5]))
    np.testing.assert_allclose(estimate[[0, 1, 6, 7]], [0.566, 1.289, -0.496, 0.691], atol=0.001)
    names = [*x.columns, "cutpoints[low|medium]", "cutpoints[medium|high]"]
    near(fits("housing"), dict(zip(names, zip(estimate, error, strict=True), strict=True)))


@pytest.mark.slow(why="statistical")
def test_sleep_is_lme4s(fits):
    """Bates et al.: 251.4 (6.8), 10.47 (1.55), sds 24.7 and 5.92, correlation 0.07, residual 25.6."""
    rows = fits("sleep").summary()
    assert rows.loc["Intercept", "mean"] == pytest.approx(251.4, abs=0.25 * 6.8)
    assert rows.loc["b[days]", "mean"] == pytest.approx(10.47, abs=0.25 * 1.55)
    for row, printed, error in (("sd_subject[1]", 24.7, 0.5), ("sd_subject[days]", 5.92, 0.5)):
        assert abs(rows.loc[row, "mean"] - printed) < error * rows.loc[row, "sd"], row
    assert rows.loc["corr_subject[1, days]", "eti89_lb"] < 0.07 < rows.loc["corr_subject[1, days]", "eti89_ub"]
    assert rows.loc["sigma", "mean"] == pytest.approx(25.6, abs=0.5)


@pytest.mark.slow(why="statistical")
def test_gasoline_is_ferrari_and_cribari_netos(fits):
    """Maximum likelihood, table 1; batches against the tenth there, against the first here."""
    rows = fits("gasoline").summary()
    first = 1.728
    batches = [1.323, 1.572, 1.060, 1.134, 1.040, 0.544, 0.496, 0.386, 0]
    for k, value in enumerate(batches, 2):
        row = rows.loc[f"b[batch[b{k:02d}]]"]
        assert abs(row["mean"] - (value - first)) < 0.25 * row["sd"]
    assert abs(rows.loc["b[end_point]", "mean"] - 0.01097) < 0.25 * rows.loc["b[end_point]", "sd"]
    # Without maximisation the precision is about (32 - 11) / 32 of 440.
    assert rows.loc["phi", "mean"] == pytest.approx(440 * 21 / 32, rel=0.12)


@pytest.mark.slow(why="statistical")
def test_diabetes_is_park_and_casellas():
    """The Bayesian lasso, JASA 103 (2008), table 1: medians for columns of unit length, and 95 % intervals."""
    printed = {
        "age": (-3.73, -112.02, 103.62),
        "sex": (-214.55, -334.42, -94.24),
        "bmi": (522.62, 393.07, 653.82),
        "pressure": (307.56, 180.26, 436.70),
        "chol": (-173.16, -579.33, 128.54),
        "ldl": (-1.50, -274.62, 341.48),
        "hdl": (-152.12, -381.60, 69.75),
        "chol_hdl": (90.43, -129.48, 349.82),
        "log_triglycerides": (523.26, 332.11, 732.75),
        "glucose": (62.47, -51.22, 188.75),
    }
    fit = bl.fit(MODELS / "diabetes.yaml", draws=4000, runs=None, progress=False)
    data, draws = table("diabetes"), fit.posterior["b"]
    for name, (median, low, high) in printed.items():
        length = np.sqrt(((data[name] - data[name].mean()) ** 2).sum())
        ours = draws.sel(predictor=name).to_numpy() * length
        error = (high - low) / (2 * 1.96)
        # Their prior is scaled by sigma, with the scale at its maximum of the marginal likelihood.
        assert abs(np.median(ours) - median) < 0.25 * error, name
        assert np.std(ours) == pytest.approx(error, rel=0.25), name


@pytest.mark.slow(why="compiles")
def test_the_mode_of_the_lasso_is_scikit_learns(fits):
    from sklearn.linear_model import Lasso

    data = table("diabetes")
    y, tau = data.pop("progression").to_numpy(), 0.03
    spec = bl.load(MODELS / "diabetes.yaml").model.model_dump(exclude_unset=True)
    spec["priors"] = {"tau": tau}
    model = bl.Model(name="mode", data={"rows": "patient"}, model=spec)
    fit = bl.fit(model, data.assign(progression=y), method="map", progress=False, runs=None)
    assert fit.verdict.status == "pass"
    scaled = (data - data.mean()) / data.std()
    sigma, n = float(fit.posterior["sigma"].squeeze()), len(y)
    lasso = Lasso(alpha=sigma**2 / (tau * np.std(y, ddof=1) * n), tol=1e-12, max_iter=100_000).fit(scaled, y)
    ours = fit.posterior["b"].squeeze().to_numpy() * data.std().to_numpy()
    np.testing.assert_allclose(ours, lasso.coef_, atol=1e-4)  # the prior's scales have six digits
    assert 1 <= np.sum(ours == 0) == np.sum(lasso.coef_ == 0)


@pytest.mark.slow(why="statistical")
def test_crime_keeps_what_model_averaging_keeps(fits):
    """Hoeting et al. (1999), section 7: inequality and schooling matter almost surely, the other four hardly."""
    slopes = fits("crime").posterior["b"]
    spread = np.log(table("crime").drop(columns=["south", "crime"])).std()
    size = {}
    for name in ("inequality", "schooling", "labour", "males", "population", "unemployed_young"):
        values = slopes.sel(predictor=f"log({name})").to_numpy().ravel() * spread[name]
        size[name] = abs(np.median(values))
    assert min(size["inequality"], size["schooling"]) > 3 * max(list(size.values())[2:])


def test_robust_and_normal_lines_differ():
    """What the robust line is for: least squares follows the years that were counted wrongly."""
    data = table("phones")
    slope = optimize.minimize(lambda p: ((data["calls"] - p[0] - p[1] * data["year"]) ** 2).sum(), [0, 0]).x[1]
    assert slope == pytest.approx(5.04, abs=0.01)
