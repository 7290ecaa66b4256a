"""Effects of groups of which a row has several, (1 | mm(g1, g2)).

The truth is the density written with NumPy and SciPy, and posteriors of linear Gaussian models in closed form.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.posterior.machine.density import MachineDensity
from bayeslab.preparation import Source
from tests.densities import agree, machines_agree
from tests.refusals import refused

GROUPS = list("abcdef")


def table(n: int = 80) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    first, second = rng.integers(0, 4, n), rng.integers(1, 6, n)
    return pd.DataFrame(
        {
            "g": np.array(GROUPS)[first],
            "h": np.array(GROUPS)[second],
            "i": 10 + first,
            "j": 10 + second,
            "code": np.array(["7", "b"])[np.arange(n) % 2],
            "w": rng.uniform(1, 3, n),
            "v": rng.uniform(1, 3, n),
            "none": 0.0,
            "less": -1.0,
            "x": rng.normal(size=n),
            "y": rng.normal(size=n),
            "count": rng.poisson(3, n),
        }
    )


def regression(formula: object, likelihood: str = "gaussian", **more: object) -> bl.Model:
    return bl.Model(data={"rows": "row"}, model=bl.Regression(formula=formula, likelihood=likelihood, **more))


def design(data: pd.DataFrame, *, weighted: bool = True) -> np.ndarray:
    """The share of each group in each row."""
    out, weights = np.zeros((len(data), 6)), data[["w", "v"]].to_numpy() if weighted else np.ones((len(data), 2))
    for row, (pair, share) in enumerate(zip(data[["g", "h"]].to_numpy(), weights, strict=True)):
        for group, weight in zip(pair, share, strict=True):
            out[row, GROUPS.index(group)] += weight / share.sum()
    return out


WEIGHTED = "(1 | mm(g, h, weights=[w, v]))"


@pytest.mark.parametrize(("term", "weighted"), [("(1 | mm(g, h))", False), (WEIGHTED, True)])
def test_the_density_is_that_of_scipy(term, weighted):
    """Rows of a normal response enter through sums."""
    data = table()
    priors = {"Intercept": "Normal(0, 2)", "b": "Normal(0, 1)", "sd": "HalfNormal(1)", "sigma": "Exponential(1)"}
    posterior = Source(regression(f"y ~ x + {term}", priors=priors)).posterior(data)
    assert posterior.lowered.summable
    density, rng = MachineDensity(posterior.machine_model(), lambda: None), np.random.default_rng(1)
    at = {name: 0.5 * rng.normal(size=shape) for name, shape in zip(density.names, density.shapes, strict=True)}
    sd, sigma, raw = np.exp(at["sd_mm_g_h_log__"]), np.exp(at["sigma_log__"]), at["_raw_mm_g_h"]
    mean = at["Intercept"] + at["b"][0] * data["x"] + design(data, weighted=weighted) @ (sd * raw)
    rows = stats.norm(mean, sigma).logpdf(data["y"])
    expected = rows.sum() + stats.norm(0, 2).logpdf(at["Intercept"]) + stats.norm.logpdf(at["b"]).sum()
    expected += (
        stats.norm.logpdf(raw).sum() + stats.halfnorm.logpdf(sd) + stats.expon.logpdf(sigma) + np.log(sd * sigma)
    )
    assert density(density.flat(at))[0] == pytest.approx(float(expected), rel=1e-9)
    draws = {"Intercept": at["Intercept"], "b": at["b"], "sigma": sigma, "u_mm_g_h": sd * raw}
    ((_, each),) = posterior.log_likelihoods({n: np.asarray(value)[None] for n, value in draws.items()}).values()
    np.testing.assert_allclose(each[0], rows, rtol=1e-10)


WRITTEN = {
    "one": (f"y ~ x + {WEIGHTED}", "gaussian"),
    "numbers": ("count ~ 0 + x + (1 | mm(i, j)) + (1 | i)", "poisson"),
    "sigma": ({"mu": "y ~ (1 | g)", "sigma": f"~ x + {WEIGHTED}"}, "student_t"),
    "both": ({"mu": "y ~ (1 | mm(g, h))", "sigma": f"~ {WEIGHTED}"}, "gaussian"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "one" else pytest.mark.slow(why="compiles")) for n in WRITTEN]
)
def test_the_density_is_that_of_the_model_written_out(name):
    formula, likelihood = WRITTEN[name]
    model = regression(formula, likelihood)
    agree(bl.to_pymc(model, table()), bl.to_pymc(bl.expand(model, table()), table()), rtol=1e-9)


@pytest.mark.parametrize("name", WRITTEN)
def test_the_machine_has_the_density_of_the_model_written_out(name):
    formula, likelihood = WRITTEN[name]
    model = regression(formula, likelihood)
    machines_agree(model, bl.expand(model, table()), table())


def test_two_formulas_have_separate_effects_of_the_same_groups():
    data, rng = table(), np.random.default_rng(2)
    u, s = rng.normal(size=6), 0.5 * rng.normal(size=6)
    posterior = Source(regression(*WRITTEN["both"])).posterior(data)
    draws = {"Intercept": 0.3, "u_mm_g_h": u, "Intercept_sigma": -0.2, "u_sigma_mm_g_h": s}
    ((_, each),) = posterior.log_likelihoods({n: np.asarray(value)[None] for n, value in draws.items()}).values()
    law = stats.norm(0.3 + design(data, weighted=False) @ u, np.exp(-0.2 + design(data) @ s))
    np.testing.assert_allclose(each[0], law.logpdf(data["y"]), rtol=1e-10)


def test_numbers_are_levels_as_names_are():
    ours, theirs = (
        Source(regression(f"y ~ (1 | mm({pair}))")).posterior(table()).lowered.design.members[0]
        for pair in ("g, h", "i, j")
    )
    np.testing.assert_array_equal(ours.codes, theirs.codes)
    np.testing.assert_array_equal(theirs.labels, np.arange(10, 16))


# --------------------------------------------------------------------------------- posteriors, new rows


@pytest.fixture(scope="module")
def fit() -> bl.Fit:
    priors = {"Intercept": "Normal(0, 2)", "sd": "0.8", "sigma": "0.5"}
    return bl.fit(regression(f"y ~ {WEIGHTED}", priors=priors), table(), "nuts", seed=1, runs=None, progress=False)


def flat(fit: bl.Fit) -> np.ndarray:
    intercept, effects = (fit.posterior[name].to_numpy() for name in ("Intercept", "u_mm_g_h"))
    return np.column_stack([intercept.ravel(), effects.reshape(-1, 6)])


def test_the_posterior_of_a_normal_response_is_the_closed_form(fit):
    data, draws = table(), flat(fit)
    matrix = np.column_stack([np.ones(80), design(data)])
    precision = matrix.T @ matrix / 0.25 + np.diag([1 / 4, *[1 / 0.64] * 6])
    mean = np.linalg.solve(precision, matrix.T @ data["y"] / 0.25)
    sd = np.sqrt(np.diag(np.linalg.inv(precision)))
    size = len(draws) / 4
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4 * sd / np.sqrt(size))
    assert np.all(np.abs(draws.std(axis=0) / sd - 1) < 4 / np.sqrt(2 * size))


def test_new_rows_have_the_weighted_mean_of_the_effects_of_their_groups(fit):
    new = pd.DataFrame({"g": ["a", "b"], "h": ["f", "b"], "w": [1.0, 2.0], "v": [3.0, 0.0]})
    truth = flat(fit) @ np.column_stack([np.ones(2), design(new)]).T
    np.testing.assert_allclose(np.asarray(fit.predictions(new).draws).reshape(truth.shape), truth, rtol=1e-9)
    with refused("data.unknown-level", "'f' is not a level"):
        fit.predict(new.assign(g=["f", "a"]))


# ----------------------------------------------------------------------------------------- wrong terms


@pytest.mark.parametrize(
    ("formula", "code", "match"),
    [
        ("y ~ (1 | mm(g, q))", "model.unknown-column", "'q'"),
        ("y ~ (1 | mm(g))", "model.wrong-arguments", "mm.g1, g2"),
        ("y ~ (1 | mm(g, g))", "model.wrong-arguments", "mm.g1, g2"),
        ("y ~ (1 | mm(g, log(h)))", "model.wrong-arguments", "mm.g1, g2"),
        ("y ~ (1 | mm(g, h, weights=[w]))", "model.wrong-arguments", "a column of weights for each"),
        ("y ~ (1 | mm(g, h, weights=w))", "model.wrong-arguments", "a column of weights for each"),
        ("y ~ (1 | mm(g, h) + g)", "model.syntax", "mm.g1, g2"),
        ("y ~ (x | mm(g, h))", "model.unsupported", "no slopes"),
        ("y ~ mm(g, h)", "model.unknown-function", "'mm'"),
        ("y ~ (1 | mm(g, h)) + (1 | mm(g, h))", "model.duplicate", "leave out one"),
        ("y ~ (1 | mm(g, h, weights=[w, less]))", "data.out-of-range", "'less' is -1 in row 1"),
        ("y ~ (1 | mm(g, h, weights=[w, g]))", "data.not-numbers", "'g'"),
        ("y ~ (1 | mm(g, h, weights=[none, none]))", "data.out-of-range", "all weights are 0 in row 1"),
        ("y ~ (1 | mm(g, code))", "data.not-states", "'7'"),
        ("h ~ (1 | mm(i, j))", "model.unsupported", "categorical"),
    ],
)
def test_wrong_terms_are_refused_in_one_line_with_their_place(formula, code, match):
    likelihood = "categorical" if formula.startswith("h") else "gaussian"

    with refused(code, match, where="model.formula"):
        bl.check(regression(formula, likelihood), table())


def test_priors_are_by_name():
    named = Source(regression("y ~ (1 | mm(g, h))", priors={"sd_mm_g_h": "HalfNormal(3)"})).posterior(table())
    assert named.priors()["sd_mm_g_h"] == "HalfNormal(3)"
    with refused("model.unknown-parameter", "'sd_mm_g'", where="model.priors.sd_mm_g"):
        bl.check(regression("y ~ (1 | mm(g, h))", priors={"sd_mm_g": "HalfNormal(3)"}), table())
