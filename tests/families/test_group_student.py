"""Student t effects of groups, ``(1 | gr(g, dist='student'))``.

The truth is the density written with SciPy, and the posterior by quadrature.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import bayeslab as bl
from bayeslab.posterior.machine.density import MachineDensity
from bayeslab.preparation import Source
from tests.densities import agree
from tests.refusals import refused

LEVELS = ["a", "b", "c", "d", "e", "f", "h", "i"]


def table(n: int = 48) -> pd.DataFrame:
    """Eight groups, the last of which lies far out."""
    rng = np.random.default_rng(3)
    g = np.arange(n) % 8
    level = np.append(0.5 * rng.normal(size=7), 6.0)
    x = rng.normal(size=n)
    return pd.DataFrame({"x": x, "g": np.array(LEVELS)[g], "y": 1 + level[g] + 0.4 * x + 0.8 * rng.normal(size=n)})


def regression(formula: object, **priors: object) -> bl.Model:
    return bl.Model(data={"rows": "row"}, model=bl.Regression(formula=formula, priors=priors))


PRIORS = {"Intercept": "Normal(0, 2)", "sigma": "HalfNormal(1)"}
ONE = regression("y ~ 1 + (1 | gr(g, dist='student'))", sd_g="HalfNormal(1)", **PRIORS)


def test_the_density_of_one_effect_is_that_of_scipy():
    data = table()
    machine = MachineDensity(Source(ONE).posterior(data).machine_model(), lambda: None)
    rng, g = np.random.default_rng(1), np.searchsorted(LEVELS, data["g"])
    for _ in range(4):
        intercept, log_sigma, log_sd, log_nu = 0.5 * rng.normal(size=4)
        raw = rng.normal(size=8)
        point = {
            "Intercept": intercept,
            "sigma_log__": log_sigma,
            "sd_g_log__": log_sd,
            "nu_g_log__": log_nu,
            "_raw_g": raw,
        }
        value, _ = machine(machine.flat({name: np.asarray(point[name], float) for name in machine.names}))
        sd, sigma, nu = np.exp([log_sd, log_sigma, log_nu])
        expected = stats.norm(intercept + sd * raw[g], sigma).logpdf(data["y"]).sum() + stats.t(nu).logpdf(raw).sum()
        expected += stats.norm(0, 2).logpdf(intercept) + stats.halfnorm.logpdf(sigma) + stats.halfnorm.logpdf(sd)
        expected += stats.gamma(2, scale=10).logpdf(nu) + log_sd + log_sigma + log_nu
        assert value == pytest.approx(expected, rel=1e-9)


def test_the_density_of_several_effects_is_that_of_scipy():
    """Independent effects (1 + x || g) share the scale of their group."""
    data = table()
    model = regression("y ~ 1 + (1 + x || gr(g, dist='student'))", sd_g="HalfNormal(1)", nu_g=5, **PRIORS)
    machine = MachineDensity(Source(model).posterior(data).machine_model(), lambda: None)
    rng, g, x = np.random.default_rng(1), np.searchsorted(LEVELS, data["g"]), data["x"].to_numpy()
    for _ in range(4):
        intercept, log_sigma = 0.5 * rng.normal(size=2)
        log_sd, raw, log_mix = 0.5 * rng.normal(size=2), rng.normal(size=(8, 2)), 0.5 * rng.normal(size=8)
        point = {
            "Intercept": intercept,
            "sigma_log__": log_sigma,
            "sd_g_log__": log_sd,
            "_raw_g": raw,
            "_mix_g_log__": log_mix,
        }
        value, _ = machine(machine.flat({name: np.asarray(point[name], float) for name in machine.names}))
        u = np.exp(0.5 * log_mix)[:, None] * np.exp(log_sd) * raw
        sigma = np.exp(log_sigma)
        expected = stats.norm(intercept + u[g, 0] + u[g, 1] * x, sigma).logpdf(data["y"]).sum()
        expected += stats.norm.logpdf(raw).sum() + (stats.halfnorm.logpdf(np.exp(log_sd)) + log_sd).sum()
        expected += (stats.invgamma(2.5, scale=2.5).logpdf(np.exp(log_mix)) + log_mix).sum()
        expected += stats.norm(0, 2).logpdf(intercept) + stats.halfnorm.logpdf(sigma) + log_sigma
        assert value == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize(
    "formula",
    [
        "y ~ x + (1 | gr(g, dist='student'))",
        "y ~ x + (1 + x | gr(g, dist='student'))",
        {"mu": "y ~ x", "sigma": "~ (1 | gr(g, dist='student'))"},
    ],
)
def test_short_form_and_expansion_have_one_density(formula):
    data, model = table(), regression(formula)
    agree(bl.to_pymc(model, data), bl.to_pymc(bl.expand(model, data), data), constant=1e-9)


@pytest.mark.slow(why="statistical")
def test_nuts_has_the_posterior_by_quadrature():
    """Effects integrated out one by one on a grid; sigma, the scale and the degrees of freedom are known."""
    data = table()
    model = regression(
        "y ~ 1 + (1 | gr(g, dist='student'))", Intercept="Normal(0, 2)", sigma=0.8, sd_g=0.5, nu_g=3,
    )  # fmt: skip
    fit = bl.fit(model, data, seed=1, runs=None, progress=False, draws=4000, target_accept=0.95)
    means, count = data.groupby("g")["y"].mean().to_numpy(), 6
    intercepts, effects = np.linspace(-1.5, 4, 221), np.linspace(-10, 14, 2401)
    rows = stats.norm(intercepts[:, None, None] + effects, 0.8 / np.sqrt(count)).logpdf(means[:, None])
    joint = rows + stats.t(3, scale=0.5).logpdf(effects)
    inner = special.logsumexp(joint, axis=2)
    weights = special.softmax(inner.sum(axis=1) + stats.norm(0, 2).logpdf(intercepts))
    conditional = (np.exp(joint - inner[..., None]) * effects).sum(axis=2)
    expected = {"Intercept": weights @ intercepts}
    expected |= {f"u_g[{level}]": weights @ conditional[:, k] for k, level in enumerate(LEVELS)}
    found = fit.summary()
    for name, value in expected.items():
        assert abs(found.loc[name, "mean"] - value) < 4 * found.loc[name, "mcse_mean"], name


@pytest.mark.slow(why="statistical")
def test_a_group_far_out_is_shrunk_less():
    far = {}
    for formula in ("y ~ 1 + (1 | gr(g, dist='student'))", "y ~ 1 + (1 | gr(g, dist='gaussian'))"):
        fit = bl.fit(regression(formula, sd_g="HalfNormal(0.5)", **PRIORS), table(), "nuts", seed=1, runs=None,
                     progress=False, target_accept=0.95)  # fmt: skip
        far[formula] = (fit.posterior["Intercept"] + fit.posterior["u_g"].sel(g="i")).mean()
    student, normal = far.values()
    assert student > normal + 0.05


def test_normal_effects_are_the_default():
    plain, written = (
        Source(regression(f"y ~ 1 + (1 | {g})")).posterior(table()) for g in ("g", "gr(g, dist='gaussian')")
    )
    assert plain.lowered.nodes == written.lowered.nodes
    assert Source(regression("y ~ 1 + (1 | gr(g))")).posterior(table()).lowered.nodes == plain.lowered.nodes


def test_exact_inference_is_refused():
    with refused("engine.refused.no-closed-form", "effects of g are Student t"):
        bl.fit(ONE, table(), "exact", runs=None, progress=False)


def test_predictions_take_the_effects():
    fit = bl.fit(ONE, table(), seed=1, runs=None, progress=False, draws=200, chains=2)
    out = fit.predict(pd.DataFrame({"g": ["a", "i"]}))
    at = fit.posterior["Intercept"] + fit.posterior["u_g"].sel(g=["a", "i"])
    np.testing.assert_allclose(out["mean"], at.mean(["chain", "draw"]), atol=0.25)
    assert "nu_g" in fit.summary().index


@pytest.mark.parametrize(
    ("formula", "code", "match"),
    [
        ("y ~ x + (1 | gr(g, dist='cauchy'))", "unknown-word", "'cauchy'"),
        ("y ~ x + (1 | gr(g, dist='studnet'))", "unknown-word", "did you mean 'student'"),
        ("y ~ x + (1 | gr(g, dits='student'))", "wrong-arguments", "did you mean 'dist'"),
        ("y ~ x + (1 | gr(g, dist=student))", "wrong-arguments", "dist='student'"),
        ("y ~ x + (1 | gr(g, x))", "wrong-arguments", "gr"),
        ("y ~ x + (1 | gr())", "syntax", ""),
        ("y ~ x + (1 | group(g))", "syntax", "'group"),
        ({"mu": "y ~ (1 | p | gr(g, dist='student'))", "sigma": "~ (1 | p | g)"}, "conflict", "'p'"),
    ],
)
def test_what_gr_cannot_say_is_refused(formula, code, match):
    with refused(f"model.{code}", match):
        bl.check(regression(formula), table())


def test_priors_of_the_degrees_of_freedom():
    with refused("model.unknown-parameter", "'nu_g'", where="model.priors.nu_g"):
        bl.check(regression("y ~ 1 + (1 | g)", nu_g=4), table())
    with refused("model.out-of-range", "'nu_g'", where="model.priors.nu_g"):
        bl.check(regression("y ~ 1 + (1 | gr(g, dist='student'))", nu_g=-4), table())
    posterior = Source(regression("y ~ 1 + (1 | gr(g, dist='student'))", nu_g="Gamma(4, 1)")).posterior(table())
    assert posterior.priors()["nu_g"] == "Gamma(4, 1)"
