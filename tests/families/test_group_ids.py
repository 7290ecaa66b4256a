"""Group effects of several formulas that share an id, ``(1 | id | g)``, and so are correlated.

The truth is the density written with SciPy, the model written out by hand in the model language, and the posterior of
the same model with the effects in one formula.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.preparation import Source
from tests.densities import Density, agree, machines_agree
from tests.refusals import refused

LEVELS = ["a", "b", "c", "d", "e", "f"]


def table(n: int = 48) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    g, x = np.arange(n) % 6, rng.normal(size=n)
    effects = rng.normal(size=(6, 2)) @ np.array([[1.0, 0.3], [0.0, 0.3]])
    y = 1 + 0.5 * x + effects[g, 0] + np.exp(-0.3 + effects[g, 1]) * rng.normal(size=n)
    columns = {"x": x, "z": rng.normal(size=n), "g": np.array(LEVELS)[g], "h": np.array(["u", "v"])[g % 2], "y": y}
    return pd.DataFrame(columns)


def regression(formula: object, likelihood: str = "gaussian", **more: object) -> bl.Model:
    return bl.Model(data={"rows": "row"}, model=bl.Regression(formula=formula, likelihood=likelihood, **more))


FORMULAS = {"mu": "y ~ x + (1 | p | g)", "sigma": "~ (1 | p | g)"}
PRIORS = {
    "Intercept": "Normal(0, 2)", "x": "Normal(0, 1)", "sd_g": "HalfNormal(1)", "corr_g_p": 3,
    "sigma": {"Intercept": "Normal(0, 1)", "sd_g": "Exponential(2)"},
}  # fmt: skip


@pytest.mark.slow(why="compiles")
def test_the_density_is_that_of_scipy():
    """The joint normal effects by their standard normals; the factor by its sds and its correlation."""
    data = table()
    density = Density.of(bl.to_pymc(regression(FORMULAS, priors=PRIORS), data))
    x, y, g = data["x"].to_numpy(), data["y"].to_numpy(), np.searchsorted(LEVELS, data["g"])
    rng = np.random.default_rng(1)
    for _ in range(3):
        intercept, slope, log_sigma = 0.5 * rng.normal(size=3)
        sds, lengths, rho = np.exp(0.5 * rng.normal(size=2)), np.exp(0.1 * rng.normal(size=2)), rng.uniform(-0.8, 0.8)
        lower = np.array([[1, 0], [rho, np.sqrt(1 - rho**2)]])
        raw = rng.normal(size=(6, 2))
        point = {
            "Intercept": intercept, "b": [slope], "Intercept_sigma": log_sigma, "sd_g": sds[0], "sd_sigma_g": sds[1],
            "_chol_g_p_packed": (lengths[:, None] * lower)[np.tril_indices(2)], "_raw_g_p": raw,
        }  # fmt: skip
        point = {name: np.asarray(next(v for k, v in point.items() if name.lstrip("_~") == k.lstrip("_")), float)
                 for name in density.names}  # fmt: skip
        effects = raw @ (sds[:, None] * lower).T
        mean, sigma = intercept + slope * x + effects[g, 0], np.exp(log_sigma + effects[g, 1])
        expected = stats.norm(mean, sigma).logpdf(y).sum() + stats.norm.logpdf(raw).sum()
        expected += stats.norm(0, 2).logpdf(intercept) + stats.norm.logpdf(slope) + stats.norm.logpdf(log_sigma)
        expected += stats.halfnorm.logpdf(sds[0]) + stats.expon(scale=0.5).logpdf(sds[1])
        # LKJ(3) of one correlation is a Beta(3, 3) on (-1, 1); the lengths are a device and LogNormal(0, 0.1).
        expected += stats.beta(3, 3, loc=-1, scale=2).logpdf(rho) + stats.lognorm(0.1).logpdf(lengths).sum()
        expected += 0.5 * np.log1p(-(rho**2)) - np.log(lengths[1])  # from sd and correlation to the factor's second row
        assert density.at(point)[0] == pytest.approx(expected, rel=1e-9)


WRITTEN = {
    "a parameter of the likelihood": (
        regression(
            {"mu": "y ~ 0 + x + (1 + z | p | g)", "sigma": "~ (1 | p | g)"},
            priors={"x": "Normal(0, 1)", "sd": "HalfNormal(1)",
                    "sigma": {"Intercept": "Normal(0, 1)", "sd_g": "HalfNormal(0.5)"}},
        ),
        {
            "b[predictor]": "Normal(0, 1)", "Intercept_sigma": "Normal(0, 1)",
            "sd_g[g_effect]": "HalfNormal(1)", "sd_sigma_g": "HalfNormal(0.5)",
            "sds[e]": "stack([sd_g['1'], sd_g['z'], sd_sigma_g], e)",
            "y[row]": "Normal(x * b['x'] + u[g, 'one'] + z * u[g, 'z'], exp(Intercept_sigma + u[g, 'sigma']))",
        },
        {"predictor": ["x"], "g_effect": ["1", "z"], "e": ["one", "z", "sigma"]},
    ),
    "parameters of a curve": (
        regression(
            {"mu": "y ~ a + k * tanh(x)", "a": "~ 1 + (1 | p | g)", "k": "~ 0 + z + (0 + z | p | g)"},
            priors={"a": {"Intercept": "Normal(0, 1)", "sd_g": "HalfNormal(1)"},
                    "k": {"z": "Normal(0, 1)", "sd_g": "Exponential(1)"}, "sigma": "HalfNormal(1)"},
        ),
        {
            "Intercept_a": "Normal(0, 1)", "b_k[predictor_k]": "Normal(0, 1)", "sigma": "HalfNormal(1)",
            "sd_a_g": "HalfNormal(1)", "sd_k_g": "Exponential(1)", "sds[e]": "stack([sd_a_g, sd_k_g], e)",
            "y[row]": "Normal(Intercept_a + u[g, 'a'] + (z * b_k['z'] + u[g, 'k'] * z) * tanh(x), sigma)",
        },
        {"predictor_k": ["z"], "e": ["a", "k"]},
    ),
}  # fmt: skip


def whole(name: str) -> bl.Model:
    """The model written out, with the joint effects ``u``."""
    _, nodes, dims = WRITTEN[name]
    joint = {
        "_chol_g_p[e, e2]": "LKJCholeskyCov(eta=2, sd_dist=LogNormal(0, 0.1))",
        "_raw_g_p[g, e2]": "Normal(0, 1)",
        "u[g, e]": "sds * dot(_raw_g_p, _chol_g_p, e2) / sqrt(sum(_chol_g_p ** 2, e2))",
    }
    dims = {**dims, "g": LEVELS, "e2": "e"}
    return bl.Model(data={"rows": "row"}, dims=dims, model=bl.Graph(nodes={**joint, **nodes}))


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_the_machine_has_the_density_and_gradient_of_the_model_written_out(name):
    data = table()
    machines_agree(WRITTEN[name][0], whole(name), data, constant=1e-9, rtol=1e-9, spread=0.5)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_short_form_expansion_and_model_written_out_have_one_density_in_pymc(name):
    data = table()
    built = bl.to_pymc(WRITTEN[name][0], data)
    agree(built, bl.to_pymc(whole(name), data), constant=1e-9)
    agree(built, bl.to_pymc(bl.expand(WRITTEN[name][0], data), data), constant=1e-9)


@pytest.mark.slow(why="compiles")
def test_the_expansion_has_groups_of_two_columns():
    data = table()
    model = regression({"mu": "y ~ x + (1 | p | g:h)", "sigma": "~ (1 + z | p | g:h)"})
    agree(bl.to_pymc(model, data), bl.to_pymc(bl.expand(model, data), data), constant=1e-9)


@pytest.mark.slow(why="statistical")
def test_nuts_has_the_posterior_of_one_formula_with_the_same_effects():
    """y ~ level + slope * x, whose level and slope vary together, is y ~ x + (1 + x | g)."""
    rng = np.random.default_rng(7)
    g, x = np.repeat(np.arange(15), 8), rng.normal(size=120)
    effects = rng.normal(size=(15, 2)) @ np.array([[1.0, 0.4], [0.0, 0.3]])
    data = pd.DataFrame({"x": x, "g": [f"g{k:02}" for k in g]})
    data["y"] = 2 + 0.5 * x + effects[g, 0] + effects[g, 1] * x + 0.5 * rng.normal(size=120)
    given = {"sigma": "HalfNormal(1)"}
    plain = regression(
        "y ~ x + (1 + x | g)",
        priors=given | {"Intercept": "Normal(0, 3)", "x": "Normal(0, 1)", "sd_g": "HalfNormal(1)", "corr_g": 2},
    )
    inner = {"sd_g": "HalfNormal(1)"}
    joint = regression(
        {"mu": "y ~ level + slope * x", "level": "~ 1 + (1 | p | g)", "slope": "~ 1 + (1 | p | g)"},
        priors=given | {"level": {"Intercept": "Normal(0, 3)"} | inner, "slope": {"Intercept": "Normal(0, 1)"} | inner},
    )
    options = {"seed": 1, "runs": None, "progress": False, "draws": 2000, "target_accept": 0.9}
    one, two = (bl.fit(model, data, **options).summary() for model in (plain, joint))
    names = {
        "Intercept": "Intercept_level", "b[x]": "Intercept_slope", "sigma": "sigma", "sd_g[1]": "sd_level_g",
        "sd_g[x]": "sd_slope_g", "corr_g[1, x]": "corr_g_p[level:1, slope:1]",
        "u_g[g03, 1]": "u_level_g[g03]", "u_g[g11, x]": "u_slope_g[g11]",
    }  # fmt: skip
    for mine, theirs in names.items():
        error = np.hypot(one.loc[mine, "mcse_mean"], two.loc[theirs, "mcse_mean"])
        assert abs(one.loc[mine, "mean"] - two.loc[theirs, "mean"]) < 4 * error, mine
        assert two.loc[theirs, "sd"] == pytest.approx(one.loc[mine, "sd"], rel=0.1), mine


def test_predictions_take_the_effects_of_both_formulas():
    model = regression(FORMULAS, priors=PRIORS)
    fit = bl.fit(model, table(), seed=1, runs=None, progress=False, draws=300, chains=2)
    at = {name: np.asarray(fit.posterior[name]).reshape(600, -1)
          for name in ("Intercept", "b", "u_g", "Intercept_sigma", "u_sigma_g", "corr_g_p", "sd_g", "sd_sigma_g")}  # fmt: skip
    out = fit.predict(pd.DataFrame({"x": [0.0, 1.0], "g": ["b", "f"]}))
    levels = [LEVELS.index("b"), LEVELS.index("f")]
    mean = at["Intercept"] + at["b"] * np.array([0.0, 1.0]) + at["u_g"][:, levels]
    sigma = np.exp(at["Intercept_sigma"] + at["u_sigma_g"][:, levels])
    np.testing.assert_allclose(out["sd"], np.sqrt((sigma**2).mean(axis=0) + mean.var(axis=0)), rtol=0.15)
    np.testing.assert_allclose(out["mean"], mean.mean(axis=0), atol=0.25)
    assert not any(name.startswith("_") for name in fit.summary().index)


def test_priors_are_shown_by_name():
    posterior = Source(regression(FORMULAS, priors=PRIORS)).posterior(table())
    assert posterior.priors().items() >= {"corr_g_p": "LKJ(3)", "sd_g": "HalfNormal(1)"}.items()


@pytest.mark.parametrize(
    ("spec", "code", "match", "where"),
    [
        ({"formula": FORMULAS | {"sigma": "~ (1 | q | g)"}}, "incomplete", "'p'", "model.formula.mu"),
        ({"formula": {"mu": "y ~ x + (1 | group1 | g)", "sigma": "~ (1 | group2 | g)"}}, "incomplete",
         "did you mean 'group2'", "model.formula.mu"),
        ({"formula": "y ~ x + (1 | p | g)"}, "incomplete", r"\(1 \| g\)", "model.formula"),
        ({"formula": FORMULAS | {"sigma": "~ (1 | p | h)"}}, "conflict", "'g' and 'h'", "model.formula.mu"),
        ({"formula": FORMULAS | {"sigma": "~ (1 || p | g)"}}, "syntax", "", "model.formula.sigma"),
        ({"formula": FORMULAS | {"sigma": "~ (1 | p | g | h)"}}, "syntax", "", "model.formula.sigma"),
        ({"formula": FORMULAS | {"sigma": "~ (1 | 2 | g)"}}, "syntax", "", "model.formula.sigma"),
        ({"formula": FORMULAS | {"sigma": "~ (1 | p | g/h)"}}, "unsupported", "'g/h'", "model.formula.sigma"),
        ({"formula": FORMULAS, "priors": {"corr_g": 2}}, "unknown-parameter", "'corr_g'.*'corr_g_p'",
         "model.priors.corr_g"),
        ({"formula": FORMULAS, "priors": {"corr_g_p": -1}}, "out-of-range", "'corr_g_p'", "model.priors.corr_g_p"),
        ({"formula": {"mu": "y ~ x + (1 | p | g) + (1 + x | g_p)", "sigma": "~ (1 | p | g)"}}, "name-clash", "change the id",
         "model.formula"),
    ],
)  # fmt: skip
def test_what_an_id_cannot_join_is_refused(spec, code, match, where):
    data = table().assign(g_p=table()["h"])
    with refused(f"model.{code}", match, where=where):
        bl.check(bl.Model(model={"family": "regression"} | spec), data)
