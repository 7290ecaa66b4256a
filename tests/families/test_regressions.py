"""Regressions of several responses as one model.

The truth is the density written with SciPy, that of the regressions one by one where they share nothing, and the models
that the machine has for the expanded form and for PyMC's graph.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.posterior.machine.density import MachineDensity
from bayeslab.preparation import Source
from tests.cli.calls import call
from tests.cli.calls import refused as cli_refused
from tests.densities import machines_agree, value_at
from tests.laws.test_expand import GENERATED
from tests.laws.test_expand import table as generated
from tests.laws.test_machine_models import same_as_its_graph
from tests.refusals import refused

LEVELS = ["a", "b", "c", "d", "e", "f"]


def table(n: int = 48) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    g, x, z = np.arange(n) % 6, rng.normal(size=n), rng.normal(size=n)
    effects = rng.multivariate_normal([0, 0], [[0.5, 0.3], [0.3, 0.5]], size=6)
    noise = rng.multivariate_normal([0, 0, 0], [[1, 0.6, 0.2], [0.6, 1, -0.3], [0.2, -0.3, 1]], size=n)
    y1 = 1 + 0.5 * x + effects[g, 0] + noise[:, 0]
    y2 = -z + 0.5 * y1 + 2 * noise[:, 1]
    k = rng.poisson(np.exp(0.5 + 0.3 * x + effects[g, 1]))
    return pd.DataFrame(
        {"x": x, "z": z, "g": np.array(LEVELS)[g], "y1": y1, "y2": y2, "y3": 0.5 * noise[:, 2], "k": k,
         "w": rng.uniform(0.5, 2, n), "word": np.array(["no", "yes"])[k % 2],
         "seen": np.array(["none", "right"])[(k > 3).astype(int)]}
    )  # fmt: skip


DATA = table()


def regressions(responses: Any, **more: Any) -> bl.Model:
    return bl.Model(data={"rows": "row"}, model=bl.Regressions(responses=responses, **more))


def alone(content: dict[str, Any]) -> bl.Model:
    return bl.Model(data={"rows": "row"}, model=bl.Regression(**content))


def density(model: bl.Model, data: pd.DataFrame = DATA) -> MachineDensity:
    return MachineDensity(Source(model).posterior(data).machine_model(), lambda: None)


def pair(rng: np.random.Generator, eta: float) -> tuple[np.ndarray, float, float]:
    """A factor of two by its triangle, its correlation, and its log density.

    LKJ(eta) of one correlation is Beta(eta, eta) on (-1, 1); the lengths are LogNormal(0, 0.1). The factor's second row
    is its length times (rho, sqrt(1 - rho^2)).
    """
    lengths, rho = np.exp(0.1 * rng.normal(size=2)), rng.uniform(-0.8, 0.8)
    density = stats.beta(eta, eta, loc=-1, scale=2).logpdf(rho) + stats.lognorm(0.1).logpdf(lengths).sum()
    density += 0.5 * np.log1p(-(rho**2)) - np.log(lengths[1])
    triangle = np.array([lengths[0], lengths[1] * rho, lengths[1] * np.sqrt(1 - rho**2)])
    return triangle, float(rho), float(density)


# --------------------------------------------------------------------------------- nothing is shared

INDEPENDENT: dict[str, dict[str, dict[str, Any]]] = {
    "likelihoods and further formulas": {
        "y1": {"formula": {"mu": "y1 ~ x * z + (1 + x | g)", "sigma": "~ z"}, "likelihood": "student_t"},
        "k": {"formula": "k ~ x + (1 | g)", "likelihood": "negative_binomial", "priors": {"x": "Normal(0, tau)",
              "tau": "HalfNormal(1)"}},
        "word": {"formula": "word ~ s(x) + z", "likelihood": "bernoulli", "link": "probit"},
    },
    "weights, censoring and computed responses": {
        "y1": {"formula": "y1 ~ x", "weights": "w"},
        "y3": {"formula": "y3 ~ x", "censored": "seen"},
        "exp_y2": {"formula": "exp(y2) ~ poly(z, 2)", "likelihood": "gamma"},
        "k": {"formula": "k ~ poly(x, 2)", "likelihood": "poisson", "shrinkage": "ridge"},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(INDEPENDENT))
def test_without_anything_shared_the_density_is_the_product_of_those_of_the_regressions(name):
    responses = INDEPENDENT[name]
    whole = density(regressions(responses))
    parts = {response: density(alone(content)) for response, content in responses.items()}
    rng = np.random.default_rng(1)
    for _ in range(3):
        point = {n: 0.3 * rng.normal(size=shape) for n, shape in zip(whole.names, whole.shapes, strict=True)}
        value, slopes = whole(whole.flat(point))
        total, used = 0.0, 0
        for response, part in parts.items():
            named = {n: f"_{response}{n}" if n.startswith("_") else f"{response}_{n}" for n in part.names}
            each, gradient = part(part.flat({n: point[new] for n, new in named.items()}))
            total, used, size = total + each, used + len(named), abs(gradient).max()
            for n, slope in part.split(gradient).items():
                np.testing.assert_allclose(whole.split(slopes)[named[n]], slope, rtol=1e-9, atol=1e-9 * size)
        assert used == len(whole.names)
        assert value == pytest.approx(total, rel=1e-9)


MORE: dict[str, dict[str, Any]] = {
    "monotonic": {"formula": "y ~ mo(digit) * k"},
    "measured": {"formula": "y ~ me(x, w) + z"},
    "smooth by a factor": {"formula": "y ~ s(x, by=k) + gp(z)"},
    "several groups": {"formula": "y ~ (1 | mm(g, k))"},
    "a curve": {"formula": {"mu": "y ~ a * exp(-c * x)", "a": "~ z + (1 | g)", "c": "~ 1"},
                "priors": {"a": {"Intercept": "Normal(0, 1)"}, "c": {"Intercept": "Normal(0, 1)"}}},
    "Student t effects": {"formula": "y ~ (1 + x | gr(g, dist='student'))"},
}  # fmt: skip


@pytest.mark.parametrize("name", sorted({*GENERATED, *MORE}))
def test_any_regression_is_itself_beside_another_response(name):
    content, data = {**GENERATED, **MORE}[name], generated().assign(other=lambda d: d["x"] - d["z"] ** 2)
    content, other = {"family": "regression", **content}, {"formula": "other ~ z"}
    single = bl.Model(data={"rows": "row"}, model=content)
    response = single.outcomes(frozenset())[0]
    pair = bl.Model(data={"rows": "row"}, model=bl.Regressions(responses={response: single.model, "other": other}))
    # Written out, since a regression alone may hold its rows in sums, and the effects of groups in other coordinates.
    first, second = (density(bl.expand(each, data), data) for each in (single, alone(other)))
    whole, rng = density(pair, data), np.random.default_rng(1)
    columns = {f"{column}_unobserved" for column in data}
    named = {
        n: n if n in columns else f"_{response}{n}" if n.startswith("_") else f"{response}_{n}" for n in first.names
    }
    beside = {n: f"other_{n}" for n in second.names}
    assert sorted(whole.names) == sorted([*named.values(), *beside.values()])
    for _ in range(2):
        point = {n: 0.3 * rng.normal(size=shape) for n, shape in zip(whole.names, whole.shapes, strict=True)}
        value, slopes = whole(whole.flat(point))
        mine, gradient = first(first.flat({n: point[new] for n, new in named.items()}))
        rest, _ = second(second.flat({n: point[new] for n, new in beside.items()}))
        assert value == pytest.approx(mine + rest, rel=1e-9)
        for n, slope in first.split(gradient).items():
            size = abs(gradient).max()
            np.testing.assert_allclose(whole.split(slopes)[named[n]], slope, rtol=1e-9, atol=1e-9 * size)


# ------------------------------------------------------------------------------- what they share

EFFECTS: dict[str, dict[str, Any]] = {
    "y1": {"formula": {"mu": "y1 ~ x", "sigma": "~ (1 | p | g)"},
           "priors": {"Intercept": "Normal(0, 2)", "b": "Normal(0, 1)",
                      "sigma": {"Intercept": "Normal(0, 1)", "sd_g": "Exponential(2)"}}},
    "k": {"formula": "k ~ z + y1 + (1 | p | g)", "likelihood": "poisson",
          "priors": {"Intercept": "Normal(0, 1)", "b": "Normal(0, 0.5)", "sd_g": "HalfNormal(1)"}},
}  # fmt: skip


def test_the_density_with_shared_effects_and_a_path_is_that_of_scipy():
    whole = density(regressions(EFFECTS, priors={"corr_g_p": 3}))
    x, z, y1, k = (DATA[name].to_numpy() for name in ("x", "z", "y1", "k"))
    g, rng = np.searchsorted(LEVELS, DATA["g"]), np.random.default_rng(1)
    for _ in range(3):
        a, b, c, s = rng.normal(size=4) * 0.5
        slopes, raw, sds = 0.3 * rng.normal(size=2), rng.normal(size=(6, 2)), np.exp(0.3 * rng.normal(size=2))
        triangle, rho, expected = pair(rng, 3)
        u = raw @ (sds[:, None] * np.array([[1, 0], [rho, np.sqrt(1 - rho**2)]])).T
        # In the order of the responses: the effects of y1 on sigma, and those of k.
        point = {
            "y1_Intercept": a, "y1_b": b, "y1_Intercept_sigma": s, "y1_sd_sigma_g": sds[0], "k_Intercept": c,
            "k_b": slopes, "k_sd_g": sds[1], "_chol_g_p": triangle, "_raw_g_p": raw,
        }  # fmt: skip
        expected += stats.norm(a + b * x, np.exp(s + u[g, 0])).logpdf(y1).sum() + stats.norm.logpdf(raw).sum()
        expected += stats.poisson(np.exp(c + slopes[0] * z + slopes[1] * y1 + u[g, 1])).logpmf(k).sum()
        expected += stats.norm(0, 2).logpdf(a) + stats.norm.logpdf([b, s, c]).sum()
        expected += stats.norm(0, 0.5).logpdf(slopes).sum()
        expected += stats.expon(scale=0.5).logpdf(sds[0]) + stats.halfnorm.logpdf(sds[1])
        assert value_at(whole, point) == pytest.approx(expected, rel=1e-9)


def residual(likelihood: str, names: tuple[str, ...] = ("y1", "y2"), **more: Any) -> bl.Model:
    priors = {"Intercept": "Normal(0, 2)", "b": "Normal(0, 1)", "sigma": "HalfNormal(2)"}
    responses: dict[str, Any] = {
        "y2": {"formula": {"mu": "y2 ~ z", "sigma": "~ x"},
               "priors": {**priors, "sigma": {"Intercept": "Normal(0, 1)", "b": "Normal(0, 1)"}}},
        "y1": {"formula": "y1 ~ x", "priors": priors},
        "y3": {"formula": "y3 ~ 1 + y1", "priors": priors},
    }  # fmt: skip
    chosen = {name: {**responses[name], "likelihood": likelihood} for name in responses if name in names}
    return regressions(chosen, residuals=list(names), **more)


@pytest.mark.parametrize("likelihood", ["gaussian", "student_t"])
def test_the_density_of_two_correlated_residuals_is_that_of_scipy(likelihood):
    whole = density(residual(likelihood, priors={"corr_residuals": 2}))
    x, z, y = (DATA[name].to_numpy() for name in ("x", "z", ["y1", "y2"]))
    rng = np.random.default_rng(2)
    for _ in range(3):
        a, b, c, d, s, t = 0.5 * rng.normal(size=6)
        sigma, nu = np.exp(0.3 * rng.normal()), 3 + rng.gamma(2)
        triangle, rho, expected = pair(rng, 2)
        point = {
            "y1_Intercept": a, "y1_b": b, "y1_sigma": sigma, "y2_Intercept": c, "y2_b": d, "y2_Intercept_sigma": s,
            "y2_b_sigma": t, "_chol_residuals": triangle, "nu_residuals": nu,
        }  # fmt: skip
        for row, mean_1, mean_2, second in zip(y, a + b * x, c + d * z, np.exp(s + t * x), strict=True):
            scale = np.array([sigma, second])
            shape = np.outer(scale, scale) * np.array([[1, rho], [rho, 1]])
            law = stats.multivariate_normal if likelihood == "gaussian" else stats.multivariate_t
            more = {} if likelihood == "gaussian" else {"df": nu}
            expected += law([mean_1, mean_2], shape, **more).logpdf(row)
        expected += stats.norm(0, 2).logpdf([a, c]).sum() + stats.norm.logpdf([b, d, s, t]).sum()
        expected += stats.halfnorm(scale=2).logpdf(sigma)
        expected += stats.gamma(2, scale=10).logpdf(nu) if likelihood == "student_t" else 0.0
        assert value_at(whole, point) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("likelihood", ["gaussian", "student_t"])
def test_three_correlated_residuals_have_differences_of_densities_of_scipy(likelihood):
    """At the same correlations, so that their prior falls out; y1 is a predictor of y3 besides."""
    whole = density(residual(likelihood, ("y3", "y1", "y2")))
    x, z, y = (DATA[name].to_numpy() for name in ("x", "z", ["y1", "y2", "y3"]))
    rng = np.random.default_rng(3)
    raw = rng.normal(size=(3, 3))
    factor = np.linalg.cholesky(raw @ raw.T + np.eye(3))
    lower = factor / np.linalg.norm(factor, axis=1)[:, None]
    axes = bl.expand(residual(likelihood, ("y3", "y1", "y2")), DATA).dims["residual"]
    place = [axes.index(name) for name in ("y1", "y2", "y3")]
    shape = (lower @ lower.T)[np.ix_(place, place)]
    offsets = []
    for _ in range(3):
        a, b, c, d, e, f, s, t = 0.5 * rng.normal(size=8)
        sigma, nu = np.exp(0.3 * rng.normal(size=2)), 3 + rng.gamma(2)
        point = {
            "y1_Intercept": a, "y1_b": b, "y1_sigma": sigma[0], "y2_Intercept": c, "y2_b": d, "y2_Intercept_sigma": s,
            "y2_b_sigma": t, "y3_Intercept": e, "y3_b": f, "y3_sigma": sigma[1],
            "_chol_residuals": factor[np.tril_indices(3)], "nu_residuals": nu,
        }  # fmt: skip
        means = np.column_stack([a + b * x, c + d * z, e + f * y[:, 0]])
        expected = stats.norm(0, 2).logpdf([a, c, e]).sum() + stats.norm.logpdf([b, d, f, s, t]).sum()
        expected += stats.halfnorm(scale=2).logpdf(sigma).sum()
        expected += stats.gamma(2, scale=10).logpdf(nu) if likelihood == "student_t" else 0.0
        for row, mean, second in zip(y, means, np.exp(s + t * x), strict=True):
            scale = np.array([sigma[0], second, sigma[1]])
            law = stats.multivariate_normal if likelihood == "gaussian" else stats.multivariate_t
            more = {} if likelihood == "gaussian" else {"df": nu}
            expected += law(mean, np.outer(scale, scale) * shape, **more).logpdf(row)
        offsets.append(value_at(whole, point) - expected)
    np.testing.assert_allclose(offsets, offsets[0], rtol=0, atol=1e-8)


WRITTEN: dict[str, bl.Model] = {
    "shared effects and a path": regressions(EFFECTS),
    "slopes": regressions(
        {"y1": {"formula": "y1 ~ x + (1 + x | p | g)"}, "y2": {"formula": "y2 ~ I(y1 ** 2) * x + (0 + y1 | word)"},
         "k": {"formula": "k ~ (0 + z | p | g)", "likelihood": "poisson"}}
    ),
    "residuals": residual("student_t", ("y1", "y2", "y3")),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_the_expanded_model_has_the_same_density_and_gradient(name):
    machines_agree(WRITTEN[name], bl.expand(WRITTEN[name], DATA), DATA, constant=1e-9, rtol=1e-9)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_the_graph_of_pymc_has_the_density_and_gradient_of_the_machine(name):
    same_as_its_graph(Source(WRITTEN[name]).posterior(DATA), name)


# ------------------------------------------------------------------------------------ predictions


@pytest.fixture(scope="module")
def path() -> bl.Fit:
    """A count that a normal response drives."""
    model = regressions({"y1": {"formula": "y1 ~ x"}, "k": {"formula": "k ~ y1", "likelihood": "poisson"}})
    data = DATA.assign(k=np.random.default_rng(1).poisson(np.exp(0.2 + 0.5 * DATA["y1"])))
    return bl.fit(model, data, "laplace", runs=None, seed=1, progress=False)


def test_predictions_use_a_response_that_is_given_and_draw_it_otherwise(path):
    p = {name: path.posterior[name].to_numpy().reshape(-1, *path.posterior[name].shape[2:]) for name in path.posterior}
    given = path.predict(pd.DataFrame({"x": [0.0, 0.0], "y1": [-1.0, 2.0]}), kind="draws")
    means = np.exp(p["k_Intercept"][:, None] + p["k_b"] * np.array([-1.0, 2.0]))
    n = len(means)
    got = given["k"].to_numpy().reshape(n, 2)
    error = np.sqrt((means.mean(0) + means.var(0)) / n)
    assert np.all(abs(got.mean(0) - means.mean(0)) < 5 * error)
    assert abs(given["y1"].to_numpy().reshape(n, 2).mean(0) - p["y1_Intercept"].mean()).max() < 5 * 1.2 / np.sqrt(n) * 2
    drawn = path.predict(pd.DataFrame({"x": [1.0]}), kind="draws")
    y1, k = (drawn[name].to_numpy().ravel() for name in ("y1", "k"))
    # The count follows the response of its row.
    assert np.corrcoef(y1, k)[0, 1] > 0.2
    centre = p["y1_Intercept"] + p["y1_b"][:, 0]
    expected = np.exp(p["k_Intercept"] + p["k_b"][:, 0] * centre + 0.5 * (p["k_b"][:, 0] * p["y1_sigma"]) ** 2)
    assert abs(k.mean() - expected.mean()) < 5 * k.std() / np.sqrt(n)


def test_one_response_has_the_methods_of_a_regression_given_its_predictors(path):
    p = {name: path.posterior[name].to_numpy().reshape(-1, *path.posterior[name].shape[2:]) for name in path.posterior}
    one = path.outcome("k")
    assert list(one.summary().index) == ["b[y1]", "Intercept"]
    means = np.asarray(one.predictions(pd.DataFrame({"y1": [-1.0, 2.0]})).draws).reshape(-1, 2)
    np.testing.assert_allclose(means, np.exp(p["k_Intercept"][:, None] + p["k_b"] * [-1.0, 2.0]), rtol=1e-9)
    assert path.outcome("y1").comparisons("x").table["mean"][0] == pytest.approx(p["y1_b"].mean(), rel=1e-9)
    with refused("option.incomplete", "fit.outcome\\('k'\\)"):
        path.comparisons("x")
    with refused("option.unknown-variable", "'y2' is no outcome"):
        path.outcome("y2")
    page = path.report().html
    assert page.index(">y1</h3>") < page.index(">k</h3>")


def test_one_response_of_several_with_correlated_residuals_has_its_marginal_law():
    model = residual("student_t", ("y1", "y2", "y3"))
    fit = bl.fit(model, DATA, "map", runs=None, seed=1, progress=False)
    one = fit.outcome("y2")
    assert float(one.posterior["nu"].squeeze()) == float(fit.posterior["nu_residuals"].squeeze())
    sigma = np.exp(float(fit.posterior["y2_Intercept_sigma"].squeeze())
                   + float(fit.posterior["y2_b_sigma"].squeeze()) * DATA["x"].to_numpy())  # fmt: skip
    mean = (float(fit.posterior["y2_Intercept"].squeeze())
            + float(fit.posterior["y2_b"].squeeze()) * DATA["z"].to_numpy())  # fmt: skip
    expected = stats.t(float(one.posterior["nu"].squeeze()), mean, sigma).logpdf(DATA["y2"])
    np.testing.assert_allclose(one.log_likelihood["y2"].to_numpy().squeeze(), expected, rtol=1e-9)


def test_simulations_pass_a_response_on(path):
    model = regressions(
        {"y1": {"formula": "y1 ~ 1", "priors": {"Intercept": 0, "sigma": 1}},
         "y2": {"formula": "y2 ~ 0 + y1", "priors": {"y1": 3, "sigma": 0.1}}}
    )  # fmt: skip
    drawn = bl.simulate(model, DATA, draws=50, seed=1)["prior_predictive"]
    np.testing.assert_allclose(drawn["y2"].to_numpy(), 3 * drawn["y1"].to_numpy(), atol=0.6)


def test_residuals_are_drawn_together():
    model = regressions(
        {name: {"formula": f"{name} ~ 1", "priors": {"Intercept": 0, "sigma": s}} for name, s in (("y1", 1), ("y2", 2))},
        residuals=["y1", "y2"], priors={"corr_residuals": 1},
    )  # fmt: skip
    tree = bl.simulate(model, pd.concat([DATA] * 20, ignore_index=True), draws=3, seed=1)
    for draw in range(3):
        y1, y2 = (tree["prior_predictive"][name].to_numpy()[0, draw] for name in ("y1", "y2"))
        rho = float(tree["prior"]["corr_residuals"].to_numpy()[0, draw, 0, 1])
        assert abs(np.arctanh(np.corrcoef(y1, y2)[0, 1]) - np.arctanh(rho)) < 5 / np.sqrt(len(y1))
        assert np.std(y2) == pytest.approx(2, rel=5 / np.sqrt(2 * len(y1)))


# -------------------------------------------------------------------------------------- missing cells


def test_rows_without_a_predictor_are_dropped_and_computed_columns_are_those_of_all_rows():
    data = DATA.assign(z=DATA["z"].where(DATA.index != 3), x=DATA["x"].where(DATA.index != 7))
    source = bl.Model(
        data={"rows": "row", "derive": {"far": "w - mean(w)"}},
        model=bl.Regressions(responses={"y1": {"formula": "y1 ~ x + far"}, "k": {"formula": "k ~ z + far",
                                                                                "likelihood": "poisson"}}),
    )  # fmt: skip
    posterior = Source(source).posterior(data)
    kept = DATA.drop(index=[3, 7]).assign(far=(DATA["w"] - DATA["w"].mean()).drop(index=[3, 7]))
    other = bl.Model(data={"rows": "row"}, model=source.model)
    first = MachineDensity(posterior.machine_model(), lambda: None)
    second = density(other, kept.reset_index(drop=True))
    point = {n: 0.3 * np.ones(shape) for n, shape in zip(first.names, first.shapes, strict=True)}
    assert first(first.flat(point))[0] == pytest.approx(second(second.flat(point))[0], rel=1e-12)
    assert ("x 1, z 1" in posterior.data_findings()[0][3]) and posterior.data_findings()[0][2] == pytest.approx(2 / 48)
    with refused("model.unsupported", "2 of 48 rows"):
        bl.expand(source, data)


def test_an_imputed_predictor_has_the_density_of_the_model_written_out():
    data = DATA.assign(y1=DATA["y1"].where(~DATA.index.isin([2, 11])), y2=DATA["y2"].where(DATA.index != 5))
    priors = {"Intercept": "Normal(0, 2)", "b": "Normal(0, 1)", "sigma": "HalfNormal(2)"}
    short = regressions(
        {"y2": {"formula": "y2 ~ mi(y1) * x", "priors": priors}, "y1": {"formula": "y1 ~ z", "priors": priors}}
    )  # fmt: skip
    nodes = {
        "y1_Intercept": "Normal(0, 2)", "y1_b[p]": "Normal(0, 1)", "y1_sigma": "HalfNormal(2)",
        "y2_Intercept": "Normal(0, 2)", "y2_b[q]": "Normal(0, 1)", "y2_sigma": "HalfNormal(2)",
        "y1[row]": "Normal(y1_Intercept + z * y1_b['z'], y1_sigma)",
        "y2[row]": "Normal(y2_Intercept + y1 * y2_b['y1'] + x * y2_b['x'] + y1 * x * y2_b['y1:x'], y2_sigma)",
    }  # fmt: skip
    dims = {"p": ["z"], "q": ["y1", "x", "y1:x"]}
    whole = bl.Model(data={"rows": "row"}, dims=dims, model=bl.Graph(nodes=nodes))
    machines_agree(short, whole, data, constant=1e-9, rtol=1e-9)
    assert "y1_unobserved" in density(short, data).names


@pytest.mark.slow(why="statistical")
def test_without_anything_shared_the_posterior_is_that_of_separate_fits():
    parts = {"y1": {"formula": "y1 ~ x + (1 | g)"}, "k": {"formula": "k ~ x", "likelihood": "poisson"}}
    options = {"runs": None, "seed": 1, "progress": False}
    whole = bl.fit(regressions(parts), DATA, "nuts", **options).summary()
    for response, content in parts.items():
        each = bl.fit(alone(content), DATA, "nuts", **options).summary()
        mine = whole.loc[[f"{response}_{name}" for name in each.index]]
        error = np.hypot(each["mcse_mean"].to_numpy(float), mine["mcse_mean"].to_numpy(float))
        assert np.all(abs(each["mean"].to_numpy() - mine["mean"].to_numpy()) < 5 * error)


# ------------------------------------------------------------------------------------------ refusals

Y, Z = {"formula": "y1 ~ x"}, {"formula": "y2 ~ z"}
REFUSED: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "another response": ({"responses": {"y1": Y, "y3": Z}}, "model.unknown-name", "'y3'.*'y2'", "model.responses.y3"),
    "an unknown column": ({"responses": {"y1": Y, "y2": {"formula": "y2 ~ u"}}}, "model.unknown-column", "'u'",
                          "model.responses.y2.formula"),
    "a cycle": ({"responses": {"y1": {"formula": "y1 ~ y2"}, "y2": {"formula": "y2 ~ mi(y1)"}}}, "model.cycle",
                "-> y", "model.responses.y"),
    "itself": ({"responses": {"y1": {"formula": "y1 ~ mi(y1)"}, "y2": Z}}, "model.cycle", "y1", "model.responses.y1"),
    "an unknown residual": ({"responses": {"y1": Y, "y2": Z}, "residuals": ["y1", "y4"]}, "model.unknown-name", "'y4'",
                            "model.residuals.1"),
    "one residual": ({"responses": {"y1": Y, "y2": Z}, "residuals": ["y1"]}, "model.incomplete", "'y1'",
                     "model.residuals"),
    "one residual twice": ({"responses": {"y1": Y, "y2": Z}, "residuals": ["y1", "y1"]}, "model.duplicate", "'y1'",
                           "model.residuals.1"),
    "residuals of counts": ({"responses": {"y1": Y, "k": {"formula": "k ~ x", "likelihood": "poisson"}},
                             "residuals": ["y1", "k"]}, "model.unsupported", "'k' is poisson", "model.residuals.1"),
    "residuals of two kinds": ({"responses": {"y1": Y, "y2": {**Z, "likelihood": "student_t"}},
                                "residuals": ["y1", "y2"]}, "model.conflict", "same likelihood", "model.residuals"),
    "residuals and weights": ({"responses": {"y1": {**Y, "weights": "w"}, "y2": Z}, "residuals": ["y1", "y2"]},
                              "model.unsupported", "weights", "model.responses.y1.weights"),
    "degrees of freedom of one": ({"responses": {name: {"formula": f"{name} ~ x", "likelihood": "student_t",
                                                        "priors": {"nu": 4}} for name in ("y1", "y2")},
                                   "residuals": ["y1", "y2"]}, "model.conflict", "nu_residuals", "model.responses.y1"),
    "an id alone": ({"responses": {"y1": {"formula": "y1 ~ (1 | p | g)"}, "y2": {"formula": "y2 ~ (1 | q | g)"}}},
                    "model.incomplete", "'p'", "model.responses.y1.formula"),
    "an id of two groups": ({"responses": {"y1": {"formula": "y1 ~ (1 | p | g)"}, "y2": {"formula":
                             "y2 ~ (1 | p | word)"}}}, "model.incomplete", "'p'", "model.responses"),
    "a shared prior in one": ({"responses": {"y1": {"formula": "y1 ~ (1 | p | g)", "priors": {"corr_g_p": 1}},
                               "y2": {"formula": "y2 ~ (1 | p | g)"}}}, "model.misplaced", "corr_g_p",
                              "model.responses.y1.priors"),
    "a shared prior of nothing": ({"responses": {"y1": Y, "y2": Z}, "priors": {"corr_g_p": 1}},
                                  "model.unknown-parameter", "corr_g_p", "model.priors.corr_g_p"),
    "what is imputed is no response": ({"responses": {"y1": {"formula": "y1 ~ mi(x)"}, "y2": Z}}, "model.unknown-name",
                                       "'x'", "model.responses.y1.formula"),
    "a curve of a response": ({"responses": {"y1": {"formula": "y1 ~ s(y2)"}, "y2": Z}}, "model.unsupported",
                              r"s\(y2\)", "model.responses.y1.formula"),
    "groups of a response": ({"responses": {"y1": {"formula": "y1 ~ (1 | k)"}, "k": {"formula": "k ~ x"}}},
                             "model.unsupported", "'k'", "model.responses.y1.formula"),
    "words as a predictor": ({"responses": {"y1": {"formula": "y1 ~ word"}, "word": {"formula": "word ~ x",
                              "likelihood": "bernoulli"}}}, "model.not-numbers", "'word'",
                             "model.responses.y1.formula"),
    "the source of a response": ({"responses": {"y1": {"formula": "y1 ~ y2"}, "exp_y2": {"formula": "exp(y2) ~ x"}}},
                                 "model.unsupported", "'y2'", "model.responses.y1.formula"),
    "levels as a predictor": ({"responses": {"y1": {"formula": "y1 ~ k"}, "k": {"formula": "k ~ x",
                               "likelihood": "ordered"}}}, "model.unsupported", "'k' is ordered",
                              "model.responses.y1.formula"),
    "a column like a part": ({"responses": {"y1": {"formula": "y1 ~ x"}, "y1_b": {"formula": "y1_b ~ x"}}},
                             "model.name-clash", "'y1_b'", "model.responses"),
    "a prior of no parameter": ({"responses": {"y1": {**Y, "priors": {"tau": "Normal(0, 1)"}}, "y2": Z}},
                                "model.unknown-parameter", "'tau'", "model.responses.y1.priors.tau"),
    "a key": ({"responses": {"y1": {**Y, "priorz": {}}, "y2": Z}}, "model.unknown-key", "priorz.*priors",
              "model.responses.y1"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refusals(name):
    content, code, match, where = REFUSED[name]
    with refused(code, match, where=where):
        Source(bl.Model(data={"rows": "row"}, model={"family": "regressions", **content})).posterior(
            DATA.assign(y1_b=DATA["y3"])
        ).bound_data()


def test_missing_counts_that_a_response_depends_on_are_refused():
    data = DATA.assign(k=DATA["k"].where(DATA.index != 4))
    model = regressions({"y1": {"formula": "y1 ~ mi(k)"}, "k": {"formula": "k ~ x", "likelihood": "poisson"}})
    with refused("data.missing", "'k', row 5 is missing", where="model.responses.k"):
        bl.check(model, data, "nuts")


@pytest.mark.parametrize(("key", "column"), [("weights", "w"), ("censored", "seen")])
def test_missing_responses_beside_what_says_nothing_about_them_are_refused(key, column):
    data = DATA.assign(y1=DATA["y1"].where(DATA.index != 4))
    model = regressions({"y1": {"formula": "y1 ~ x", key: column}, "y2": Z})
    with refused("model.unsupported", "'y1' has missing cells", where=f"model.responses.y1.{key}"):
        Source(model).posterior(data).bound_data()


def test_effects_of_one_response_are_printed(path, tmp_path, capsys):
    fit = bl.fit(path.model, DATA, "laplace", runs=tmp_path, seed=1, progress=False)
    status, printed, _ = call(capsys, "effects", fit.folder, "--outcome", "k", "--of", "y1")
    assert status == 0 and "mean of k" in printed
    cli_refused(capsys, "option.incomplete", "'y1'", "effects", fit.folder)


def test_responses_of_other_rows_are_refused():
    data = {"x": [1.0, 2.0, 3.0], "y1": [1.0, 2.0, 4.0], "y2": np.ones((3, 2))}
    model = bl.Model(
        data={"rows": "row", "dims": {"y2": ["row", "column"]}},
        model=bl.Regressions(responses={"y1": {"formula": "y1 ~ x"}, "y2": {"formula": "y2 ~ x"}}),
    )
    with refused("data.not-a-column", "'y2'"):
        Source(model).posterior(data).bound_data()
