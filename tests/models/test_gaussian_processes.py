"""The shipped Gaussian processes against scikit-learn at the same hyperparameters, and against importance sampling."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

import bayeslab as bl
from tests.models.shipped import MODELS, fitted, table

CO2 = table("co2")


def is_at_a_mode_and_predicts_what_scikit_learn_does(fit: bl.Fit, rows: pd.DataFrame) -> None:
    assert fit.method == "map"
    at = {str(name): values.item() for name, values in fit.posterior.data_vars.items()}
    laws = {}
    for name, text in fit.bound_model.priors().items():
        word, numbers = re.match(r"(\w+)\((.*)\)", text).groups()
        a, *b = map(float, numbers.split(","))
        laws[name] = {
            "LogNormal": lambda a, b=None: stats.lognorm(b, scale=np.exp(a)),
            "InverseGamma": lambda a, b=None: stats.invgamma(a, scale=b),
            "HalfNormal": lambda a: stats.halfnorm(scale=a),
            "Gamma": lambda a, b=None: stats.gamma(a, scale=1 / b),
            "Normal": lambda a, b=None: stats.norm(a, b),
        }[word](a, *b)

    def peer(v):
        trend = v["ExpQuad_scale"] ** 2 * sk.RBF(v["rise"])
        season = v["Periodic_scale"] ** 2 * sk.ExpSineSquared(v["Periodic_lengthscale"], 1.0) * sk.RBF(v["drift"])
        rest = sk.RationalQuadratic(v["RationalQuadratic_lengthscale"], v["RationalQuadratic_alpha"])
        kernel = trend + season + v["RationalQuadratic_scale"] ** 2 * rest
        regressor = GaussianProcessRegressor(kernel, alpha=v["sigma"] ** 2, optimizer=None)
        return regressor.fit(rows[["year"]], rows["co2"] - v["Intercept"])

    def joint(v):
        return peer(v).log_marginal_likelihood_value_ + sum(law.logpdf(v[name]) for name, law in laws.items())

    top = joint(at)
    for name, value in at.items():
        for step in (0.98, 1.02) if name != "Intercept" else (0.998, 1.002):
            assert joint(at | {name: step * value}) < top, name
    new = pd.DataFrame({"year": [1990.5, 1998.0, 2005.0]})
    mean, sd = peer(at).predict(new, return_std=True)
    found = fit.predict(new)
    np.testing.assert_allclose(found["mean"], mean + at["Intercept"], atol=1e-4)
    np.testing.assert_allclose(found["sd"], np.hypot(sd, at["sigma"]), rtol=1e-4)


def test_ten_years_of_co2():
    """The model of all years, of the last 120 months."""
    rows = CO2.tail(120)
    is_at_a_mode_and_predicts_what_scikit_learn_does(fitted("co2", restarts=1, data=rows), rows)


@pytest.mark.slow(why="large")
def test_co2():
    fit = fitted("co2", restarts=1)
    is_at_a_mode_and_predicts_what_scikit_learn_does(fit, CO2)
    parts = fit.predict(CO2[["year"]], "components").set_index("component")
    season = parts.loc["Periodic(year, 1) * ExpQuad(year, drift)", "mean"].to_numpy().reshape(39, 12)
    assert (season.argmax(axis=1) == 4).all()  # May, every year
    assert (season[-1].max() - season[-1].min()) > 1.05 * (season[0].max() - season[0].min())  # Keeling et al. (1996)


@pytest.mark.slow(why="statistical")
def test_orings_by_importance_sampling():
    """Draws of hyperparameters and function from their priors, weighted by the likelihood."""
    fit = fitted("orings")
    assert fit.verdict.status == "pass", str(fit.verdict)
    table = pd.read_csv(MODELS / "data" / "orings.csv")
    cold = np.array([31.0, 55.0, 65.0])
    places = np.concatenate([np.unique(table["temperature"]), cold])
    at = np.searchsorted(places[: -len(cold)], table["temperature"])
    rng, n = np.random.default_rng(0), 200_000
    length, scale = stats.invgamma(5, scale=60).rvs(n, random_state=rng), np.abs(rng.normal(0, 3, n))
    gap = (places[:, None] - places) ** 2
    eta, weight = np.empty((n, len(places))), np.empty(n)
    for start in range(0, n, 20_000):
        some = slice(start, start + 20_000)
        k = np.exp(-0.5 * gap / length[some, None, None] ** 2) + 1e-8 * np.eye(len(places))
        f = np.einsum("nij,nj->ni", np.linalg.cholesky(k), rng.standard_normal((20_000, len(places))))
        eta[some] = rng.normal(0, 5, (20_000, 1)) + scale[some, None] * f
        sign = np.where(table["distress"] == "yes", 1, -1)
        weight[some] = np.exp(-np.log1p(np.exp(-sign * eta[some][:, at])).sum(axis=1))
    weight /= weight.sum()
    p = 1 / (1 + np.exp(-eta[:, -3:]))
    want = weight @ p
    error = np.sqrt((weight**2) @ (p - want) ** 2)
    assert 1 / (weight**2).sum() > 2000
    found = fit.predict(pd.DataFrame({"temperature": cold}), "probabilities")["P(distress=yes)"].to_numpy()
    assert (np.abs(found - want) < 4.5 * np.hypot(error, np.sqrt(want * (1 - want) / 1000))).all(), (found, want)
    for name, values in (("lengthscale", length), ("ExpQuad_scale", scale)):
        row, mean = fit.summary().loc[name], weight @ values
        wrong = np.hypot(row["mcse_mean"], np.sqrt((weight**2) @ (values - mean) ** 2))
        assert abs(row["mean"] - mean) < 4.5 * wrong, name
