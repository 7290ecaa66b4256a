"""The R2-D2 prior of slopes: its density by SciPy, and a posterior by quadrature."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.preparation import Source
from tests.densities import Density, machines_agree
from tests.refusals import refused

RNG = np.random.default_rng(5)
N = 30
TABLE = pd.DataFrame({"x": RNG.normal(size=N), "z": 3 * RNG.normal(size=N), "w": RNG.uniform(size=N)})
TABLE["y"] = 1 + TABLE["x"] + RNG.normal(size=N)
TABLE["hit"] = (TABLE["y"] > 1).astype(int)


def model(formula: str = "y ~ x + z + w", **more: object) -> bl.Model:
    return bl.Model(model={"family": "regression", "formula": formula, "shrinkage": "r2d2"} | more)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("outcome", ["y", "hit"])
def test_the_density_is_that_of_the_formula(outcome):
    """Rows, R2, the shares and the scaled slopes, written out by SciPy."""
    binary = outcome == "hit"
    more = {"likelihood": "bernoulli"} if binary else {}
    source = Source(model(f"{outcome} ~ x + z + w", priors={"R2": "Beta(2, 5)"}, **more)).posterior(TABLE)
    density = Density.of(source.graph())
    x = TABLE[["x", "z", "w"]].to_numpy()
    spread, centred = x.std(axis=0, ddof=1), x - x.mean(axis=0)
    constants = []
    for point in density.points(np.random.default_rng(1), 4):
        noise = 2.0 if binary else float(point["sigma"])
        tau = noise * np.sqrt(point["R2"] / (1 - point["R2"]))
        b = tau * np.sqrt(point["_share"]) * point["_raw"] / spread
        mu = point["Intercept_centred"] + centred @ b
        rows = (
            stats.bernoulli(1 / (1 + np.exp(-mu))).logpmf(TABLE["hit"])
            if binary
            else stats.norm(mu, noise).logpdf(TABLE["y"])
        )
        total = rows.sum() + stats.beta(2, 5).logpdf(point["R2"]) + stats.norm.logpdf(point["_raw"]).sum()
        total += stats.dirichlet([0.5] * 3).logpdf(point["_share"])
        if binary:
            total += stats.norm(0, 2.5).logpdf(point["Intercept_centred"])
        else:
            s, m = TABLE["y"].std(ddof=1), TABLE["y"].mean()
            total += stats.norm(m, 2.5 * s).logpdf(point["Intercept_centred"]) + stats.expon(scale=s).logpdf(noise)
        constants.append(density.at(point)[0] - total)
    # Default priors have their numbers to six digits.
    np.testing.assert_allclose(constants, 0.0, atol=1e-4)


@pytest.mark.slow(why="statistical")
def test_the_posterior_is_that_of_quadrature():
    """One slope and a known sd: over R2 on a grid, the slope in closed form."""
    x, y, sigma = TABLE["x"].to_numpy(), TABLE["y"].to_numpy(), 1.5
    known = model("y ~ 0 + x", priors={"sigma": sigma, "R2": "Beta(1, 2)"})
    fit = bl.fit(known, TABLE, "nuts", progress=False, runs=None, seed=3)
    share = (np.arange(20_000) + 0.5) / 20_000
    prior_sd = sigma * np.sqrt(share / (1 - share)) / x.std(ddof=1)
    precision = x @ x / sigma**2 + prior_sd**-2.0
    mean = x @ y / sigma**2 / precision
    log_weight = stats.beta(1, 2).logpdf(share) - np.log(prior_sd) - 0.5 * np.log(precision) + 0.5 * mean**2 * precision
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    for name, values, squares in (("b", mean, mean**2 + 1 / precision), ("R2", share, share**2)):
        exact = weight @ values
        sd = np.sqrt(weight @ squares - exact**2)
        draws = fit.posterior[name].to_numpy().ravel()
        row = fit.summary().loc["b[x]" if name == "b" else name]
        assert abs(draws.mean() - exact) < 4 * sd / np.sqrt(row["ess_bulk"])
        assert abs(draws.std() / sd - 1) < 0.1


def test_short_form_and_program_agree():
    machines_agree(model(), bl.expand(model(), TABLE), TABLE)


def test_priors_that_do_not_go_together_are_refused():
    with refused("model.conflict", "priors"):
        bl.fit(model(priors={"x": "Normal(0, 1)"}), TABLE, progress=False, runs=None)
    with refused("model.unknown-parameter", "tau"):
        bl.fit(model(priors={"tau": "HalfNormal(1)"}), TABLE, progress=False, runs=None)
    with refused("model.conflict", "shrinkage"):
        bl.fit(
            model({"mu": "y ~ x", "sigma": "~ z"}, priors={"sigma": {"Intercept": "Normal(0, 1)"}}),
            TABLE,
            progress=False,
            runs=None,
        )
