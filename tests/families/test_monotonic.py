"""Monotonic effects of levels in order, mo(x) (Bürkner and Charpentier 2020).

The truth is the density written with NumPy and SciPy, and the definition of the effect put together from draws.
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

ORDER = ["low", "mid", "high"]


def table(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    k = rng.integers(1, 5, n)
    return pd.DataFrame(
        {
            "k": k,
            "w": np.array(ORDER)[rng.integers(0, 3, n)],
            "v": np.array(ORDER)[rng.integers(0, 3, n)],
            "g": np.array(["a", "b", "c"])[np.arange(n) % 3],
            "z": rng.normal(size=n),
            "half": k / 2,
            "two": k % 2,
            "many": np.arange(n) * 4,
            "gap": np.where(np.arange(n) % 9, rng.normal(size=n), np.nan),
            "y": np.array([0, 0, 2, 2.5, 3])[k] + 0.3 * rng.normal(size=n),
            "count": rng.poisson(k),
        }
    )


def regression(formula: object, likelihood: str = "gaussian", **more: object) -> bl.Model:
    spec = bl.Regression(formula=formula, likelihood=likelihood, **more)
    return bl.Model(data={"rows": "row"}, dims={"w": ORDER}, model=spec)


def test_the_density_is_that_of_scipy():
    """An effect, and one for each level but the first of a factor, each with separate steps."""
    data = table()
    priors = {"Intercept": "Normal(0, 2)", "b": "Normal(0, 1)", "sigma": "Exponential(1)", "simplex": "Dirichlet(2)"}
    posterior = Source(regression("y ~ mo(k) + z + mo(w):z", priors=priors)).posterior(data)
    assert posterior.lowered.design.names == ["mo(k)", "z", "mo(w):z"]
    density = MachineDensity(posterior.machine_model(), lambda: None)
    k, z, y = (data[name].to_numpy() for name in ("k", "z", "y"))
    w = np.array([ORDER.index(level) for level in data["w"]])
    rng = np.random.default_rng(1)
    b, shares, other = rng.normal(size=3), rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(2))
    mean = 0.3 + 3 * b[0] * np.append(0, shares.cumsum())[k - 1] + b[1] * z
    mean = mean + 2 * b[2] * z * np.append(0, other.cumsum())[w]
    draws = {"Intercept": np.array([0.3]), "b": b[None], "sigma": np.array([0.7]), "simplex_mo_k": shares[None]}
    draws["simplex_mo_w_z"] = other[None]
    ((_, rows),) = posterior.log_likelihoods(draws).values()
    np.testing.assert_allclose(rows[0], stats.norm(mean, 0.7).logpdf(y), rtol=1e-12)
    whole = stats.norm(mean, 0.7).logpdf(y).sum() + stats.norm(0, 2).logpdf(0.3) + stats.norm.logpdf(b).sum() - 0.7
    whole += stats.dirichlet([2, 2, 2]).logpdf(shares) + stats.dirichlet([2, 2]).logpdf(other)

    def free(share: np.ndarray) -> np.ndarray:
        """PyMC's coordinates of a simplex: centred logarithms but the last."""
        logs = np.log(share)
        return (logs - logs.mean())[:-1]

    jacobian = np.log(0.7) + sum(np.log(s).sum() + np.log(len(s)) for s in (shares, other))
    at = {
        "Intercept": 0.3, "b": b, "sigma_log__": np.log(0.7), "simplex_mo_k_simplex__": free(shares),
        "simplex_mo_w_z_simplex__": free(other),
    }  # fmt: skip
    point = {name: np.asarray(at[name]) for name in density.names}
    assert density(density.flat(point))[0] == pytest.approx(float(whole + jacobian), rel=1e-9)


WRITTEN = {
    "one": ("y ~ mo(k)", "gaussian"),
    "by factor": ("y ~ mo(k) * g + mo(w):z", "gaussian"),
    "without intercept": ("count ~ 0 + mo(k):g + (1 | g)", "poisson"),
    "sigma": ({"mu": "y ~ mo(w)", "sigma": "~ mo(k) + mo(w)"}, "student_t"),
}


@pytest.mark.slow(why="compiles")
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


# --------------------------------------------------------------------------------- new rows, and effects


@pytest.fixture(scope="module")
def fit() -> bl.Fit:
    return bl.fit(regression("y ~ mo(k) + mo(w):z"), table(), seed=1, runs=None, progress=False, draws=300)


def expected(fit: bl.Fit, k: np.ndarray, w: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The mean at each draw, (draws, rows)."""
    flat = {name: (v := fit.posterior[name].to_numpy()).reshape(-1, *v.shape[2:])
            for name in ("Intercept", "b", "simplex_mo_k", "simplex_mo_w_z")}  # fmt: skip
    first, second = (np.pad(flat[name].cumsum(axis=1), ((0, 0), (1, 0))) for name in ("simplex_mo_k", "simplex_mo_w_z"))
    b = flat["b"]
    return flat["Intercept"][:, None] + 3 * b[:, :1] * first[:, k - 1] + 2 * b[:, 1:] * z * second[:, w]


def test_predictions_and_comparisons_are_those_of_the_definition(fit):
    new = pd.DataFrame({"k": [1, 4, 2], "w": ["high", "low", "mid"], "z": [1.0, 0.5, -1.0]})
    truth = expected(fit, new["k"].to_numpy(), np.array([2, 0, 1]), new["z"].to_numpy())
    np.testing.assert_allclose(np.asarray(fit.predictions(new).draws).reshape(truth.shape), truth, rtol=1e-9)
    data = table()
    w = np.array([ORDER.index(level) for level in data["w"]])
    low, high = (expected(fit, np.full(len(data), k), w, data["z"].to_numpy()) for k in (1, 3))
    difference = (high - low).mean(axis=1)
    draws = np.asarray(fit.comparisons({"k": [1, 3]}).draws).reshape(len(difference), -1)
    np.testing.assert_allclose(draws[:, 0], difference, rtol=1e-8)
    slopes = np.asarray(fit.slopes("z").draws).ravel()
    up, down = (expected(fit, data["k"].to_numpy(), w, data["z"].to_numpy() + h) for h in (0.5, -0.5))
    np.testing.assert_allclose(slopes, (up - down).mean(axis=1), rtol=1e-5, atol=1e-8)


def test_the_curve_rises_or_falls_at_every_draw(fit):
    new = pd.DataFrame({"k": [1, 2, 3, 4], "w": "low", "z": 0.0})
    draws = np.asarray(fit.predictions(new).draws).reshape(-1, 4)
    steps = np.diff(draws, axis=1)
    assert np.all((steps >= 0).all(axis=1) | (steps <= 0).all(axis=1))


def test_levels_that_floats_cannot_tell_apart_are_refused():
    codes = 2**62 + np.arange(30) % 3
    model = bl.Model(model=bl.Regression(formula="y ~ mo(code)"))
    with refused("data.too-many-digits", "mo.code..*2⁵³"):
        bl.check(model, {"code": codes, "y": np.arange(30.0)})


def test_levels_beyond_those_of_the_fit_are_refused(fit):
    with refused("data.unknown-level", "5 in row 1 .* 1 to 4"):
        fit.predict(pd.DataFrame({"k": [5], "w": ["low"], "z": [0.0]}))
    with refused("data.unknown-level", "'top'"):
        fit.predict(pd.DataFrame({"k": [1], "w": ["top"], "z": [0.0]}))


@pytest.mark.parametrize(
    ("formula", "code", "match"),
    [
        ("y ~ mo(q)", "model.unknown-column", "'q'"),
        ("y ~ mo(half)", "data.not-states", r"one is [01].5: .* s\(half\)"),
        ("y ~ mo(two)", "data.too-few", "'two' has 2 levels"),
        ("y ~ mo(many)", "data.too-large", "more than 100 levels"),
        ("y ~ mo(v)", "data.no-level-order", "'v'"),
        ("y ~ mo(k + 1)", "model.wrong-arguments", "takes a column"),
        ("y ~ mo(k, 2)", "model.wrong-arguments", "at most 1"),
        ("y ~ log(mo(k))", "model.misplaced", "a separate term"),
        ("y ~ (mo(k) | g)", "model.misplaced", "outside of the brackets"),
        ("y ~ mo(k):mo(w)", "model.misplaced", "two monotonic effects"),
        ("g ~ mo(k)", "model.unsupported", "categorical"),
    ],
)
def test_wrong_terms_are_refused_in_one_line_with_their_place(formula, code, match):
    likelihood = "categorical" if formula.startswith("g") else "gaussian"
    with refused(code, match, where="model.formula"):
        bl.check(regression(formula, likelihood), table())


def test_priors_are_by_name():
    priors = {"mo(k)": "Normal(0, 1)", "simplex_mo_k": "Dirichlet(3)"}
    model = regression("y ~ mo(k) + mo(w)", priors=priors)
    named = Source(model).posterior(table()).priors()
    assert named["simplex_mo_k[mo_k_step]"] == "Dirichlet(3)"
    assert named["simplex_mo_w[mo_w_step]"] == "Dirichlet(1)"
    assert named["b[mo(k)]"] == "Normal(0, 1)"
    with refused("model.out-of-range", "'simplex_mo_k'", where="model.priors.simplex_mo_k"):
        bl.check(regression("y ~ mo(k)", priors={"simplex_mo_k": "Normal(0, 1)"}), table())
    with refused("model.unsupported", "'gap'", where="model.missing.gap"):
        bl.check(regression("y ~ mo(k):gap", missing={"gap": "Normal(0, 1)"}), table())


def test_the_reason_against_a_closed_form_is_named():
    assert "monotonic" in Source(regression("y ~ mo(k)")).posterior(table()).exact_plan
