"""Expressions of draws, hypotheses and R² equal their definitions in NumPy on the same draws."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import bayeslab as bl
from tests.refusals import refused

N = 40


def table() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"x": rng.normal(0, 1, N), "g": rng.choice(["a", "b"], N), "u": rng.choice(list("pqrst"), N)})
    frame["y"] = 1 + frame["x"] + 0.1 * (frame["g"] == "b") + rng.normal(0, 1, N)
    frame["yes"] = (rng.random(N) < special.expit(frame["x"])).astype(int)
    frame["count"] = rng.poisson(np.exp(0.3 * frame["x"]))
    frame["tries"] = rng.integers(2, 6, N)
    frame["won"] = rng.binomial(frame["tries"], 0.5)
    return frame


DATA = table()
FITS: dict[tuple[str, str], bl.Fit] = {}


def fit_of(formula: str, likelihood: str = "gaussian") -> bl.Fit:
    if (formula, likelihood) not in FITS:
        model = bl.Model(dims={"u": list("pqrst")}, model=bl.Regression(formula=formula, likelihood=likelihood))
        FITS[formula, likelihood] = bl.fit(
            model, DATA, method="nuts", seed=1, runs=None, progress=False, draws=40, tune=60, chains=2
        )
    return FITS[formula, likelihood]


def draws(fit: bl.Fit, name: str, **labels) -> np.ndarray:
    values = fit.posterior[name].sel(labels) if labels else fit.posterior[name]
    return values.stack(sample=("chain", "draw")).transpose("sample", ...).to_numpy()


def got(effects) -> np.ndarray:
    return effects.draws.stack(sample=("chain", "draw")).transpose("sample", "estimate").to_numpy()


def grouped() -> bl.Fit:
    return fit_of("y ~ log(2 + x * x) + x * g + (1 + x | u)")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("b[x] / sigma", lambda b, f: b["x"] / draws(f, "sigma")),
        ("b[log(2 + x * x)] * 2", lambda b, _: 2 * b["log(2 + x * x)"]),
        ("exp(b[x:g[b]]) - b[g[b]]", lambda b, _: np.exp(b["x:g[b]"]) - b["g[b]"]),
        ("sum(b)", lambda b, _: sum(b.values())),
        ("max(b) - min(b, predictor)", lambda b, _: np.ptp(list(b.values()), axis=0)),
        ("u_u[q, x] - u_u[p, x]", lambda _, f: draws(f, "u_u")[:, 1, 1] - draws(f, "u_u")[:, 0, 1]),
        ("mean(u_u[u, 1], u)", lambda _, f: draws(f, "u_u")[:, :, 0].mean(axis=1)),
        ("corr_u[1, x]", lambda _, f: draws(f, "corr_u")[:, 0, 1]),
        ("sd_u[1] ** 2 / (sd_u[1] ** 2 + sigma ** 2)", lambda _, f: _icc(f)),
        ("where(sigma > 1, 1, 0)", lambda _, f: (draws(f, "sigma") > 1).astype(float)),
        ("3", lambda _, f: np.full(80, 3.0)),
    ],
)
def test_expressions_are_taken_at_each_draw(text, wanted):
    fit = grouped()
    names = fit.posterior["predictor"].to_numpy().tolist()
    b = {str(name): draws(fit, "b", predictor=name) for name in names}
    effects = fit.derive(text)
    np.testing.assert_allclose(got(effects)[:, 0], wanted(b, fit), rtol=1e-12)
    assert effects.table["term"].tolist() == [text]


def _icc(fit: bl.Fit) -> np.ndarray:
    between = draws(fit, "sd_u")[:, 0] ** 2
    return between / (between + draws(fit, "sigma") ** 2)


def test_expressions_with_dimensions_have_an_estimate_for_each_label():
    fit = grouped()
    effects = fit.derive({"level": "u_u[u, 1] + Intercept", "slope": "b[x]"})
    assert effects.table["u"].tolist() == [*"pqrst", ""]
    wanted = draws(fit, "u_u")[:, :, 0] + draws(fit, "Intercept")[:, None]
    np.testing.assert_allclose(got(effects)[:, :5], wanted)
    rows = fit.derive("b[x] * x")
    np.testing.assert_allclose(got(rows), draws(fit, "b", predictor="x")[:, None] * DATA["x"].to_numpy())


def test_ratios_without_a_mean_have_a_median():
    fit = fit_of("y ~ g")
    ratio = fit.derive("1 / (b[g[b]] * 0)").table
    assert np.isnan(ratio["mean"][0])
    assert "median" in ratio


def test_hypotheses_have_the_share_of_draws():
    fit = grouped()
    x, g = draws(fit, "b", predictor="x"), draws(fit, "b", predictor="g[b]")
    made = fit.hypothesis(["b[g[b]] > 0", "b[g[b]] > 0 and b[x] < 1", "abs(b[g[b]]) < 0.3", "not b[x] > 1"])
    wanted = [(g > 0).mean(), ((g > 0) & (x < 1)).mean(), (np.abs(g) < 0.3).mean(), (x <= 1).mean()]
    assert made["probability"].tolist() == pytest.approx(wanted)
    assert made["odds"].tolist() == pytest.approx([p / (1 - p) for p in wanted])
    assert 0.3 < made["mcse"][0] / np.sqrt(wanted[0] * (1 - wanted[0]) / g.size) < 4
    each = fit.hypothesis({"positive": "b > 0"})
    assert each["predictor"].tolist() == fit.posterior["predictor"].to_numpy().tolist()
    assert set(each["hypothesis"]) == {"positive"}


def test_a_bayes_factor_is_the_change_of_odds():
    fit = bl.fit(
        bl.Model(model=bl.Regression(formula="y ~ x", priors={"b": "Normal(0.5, 1)"})), DATA, seed=1, runs=None
    )
    row = fit.hypothesis("b[x] > 1", prior=True).iloc[0]
    before = stats.norm.sf(0.5)
    assert abs(row["prior_probability"] - before) < 4 * np.sqrt(before * (1 - before) / 4000)
    odds = row["prior_probability"] / (1 - row["prior_probability"])
    assert row["bayes_factor"] == pytest.approx(row["odds"] / odds)


@pytest.mark.parametrize(
    ("text", "code", "named"),
    [
        ("b[xx] > 0", "model.unknown-level", "'x'"),
        ("sgma > 0", "model.unknown-name", "'sigma'"),
        ("b[x] == 0", "option.not-applicable", "probability 0"),
        ("b[x]", "option.wrong-type", "compares"),
        ("b[x] >", "model.syntax", ""),
        ("Normal(0, 1) > b[x]", "model.unknown-function", "Normal"),
        (3, "option.wrong-type", "text"),
        ([], "option.incomplete", "hypothesis"),
    ],
)
def test_wrong_statements_are_named(text, code, named):
    with refused(code, named):
        grouped().hypothesis(text)


def test_r2_of_a_gaussian_model():
    fit = fit_of("y ~ x")
    mean = draws(fit, "Intercept")[:, None] + draws(fit, "b", predictor="x")[:, None] * DATA["x"].to_numpy()
    explained = mean.var(axis=1, ddof=1)
    wanted = explained / (explained + draws(fit, "sigma") ** 2)
    np.testing.assert_allclose(got(fit.r2())[:, 0], wanted)
    inside = (DATA["g"] == "b").to_numpy()
    explained = mean[:, inside].var(axis=1, ddof=1)
    np.testing.assert_allclose(got(fit.r2(by="g"))[:, 1], explained / (explained + draws(fit, "sigma") ** 2))


@pytest.mark.parametrize(
    ("formula", "likelihood", "inverse", "variance"),
    [
        ("yes ~ x", "bernoulli", special.expit, lambda p: p * (1 - p)),
        ("count ~ x", "poisson", np.exp, lambda mu: mu),
        ("p(won, tries) ~ x", "binomial", special.expit, lambda p: p * (1 - p) / DATA["tries"].to_numpy()),
    ],
)
def test_r2_of_other_likelihoods_has_the_average_variance_of_the_outcome(formula, likelihood, inverse, variance):
    fit = fit_of(formula, likelihood)
    mean = inverse(draws(fit, "Intercept")[:, None] + draws(fit, "b", predictor="x")[:, None] * DATA["x"].to_numpy())
    explained = mean.var(axis=1, ddof=1)
    wanted = explained / (explained + variance(mean).mean(axis=1))
    np.testing.assert_allclose(got(fit.r2())[:, 0], wanted)


def test_levels_have_no_r2():
    with refused("option.not-applicable"):
        fit_of("g ~ x", "categorical").r2()
