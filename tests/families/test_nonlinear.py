"""Regressions whose formula is an expression of columns and of parameters, each with a linear formula of its own.

The truth is the density written with SciPy, the model written out by hand in the model language, the posterior on a
grid, and estimates that others printed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import bayeslab as bl
from bayeslab.posterior.machine.density import MachineDensity
from bayeslab.preparation import Source
from bayeslab.results.predict import pointwise_graph
from tests.densities import agree, machines_agree
from tests.refusals import refused

LEVELS = ["a", "b", "c", "d", "e"]


def table(n: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(11)
    x, z, g = rng.uniform(0.5, 6, n), rng.normal(size=n), np.arange(n) % 5
    curve = (4 + 0.5 * z + rng.normal(0, 0.7, 5)[g]) * (1 - np.exp(-0.6 * x))
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "g": np.array(LEVELS)[g],
            "h": np.array(["u", "v"])[np.arange(n) // 7 % 2],
            "y": curve + rng.normal(0, 0.3, n),
            "count": rng.poisson(curve.clip(0.1)),
            "rank": np.array([0, 1, 2])[np.digitize(curve, [2, 3.5])],
        }
    )


def regression(formula: object, likelihood: str = "gaussian", **more: object) -> bl.Model:
    return bl.Model(data={"rows": "row"}, model=bl.Regression(formula=formula, likelihood=likelihood, **more))


def graph(nodes: dict[str, str], derive: dict[str, str] | None = None, **dims: list[str]) -> bl.Model:
    data = {"rows": "row", "derive": derive or {}}
    return bl.Model(data=data, dims=dims, model=bl.Graph(nodes=nodes))


CURVE = {"mu": "y ~ a * (1 - exp(-exp(k) * x))", "a": "~ z + (1 | g)", "k": "~ 1"}
PRIORS = {
    "a": {"Intercept": "Normal(4, 1)", "z": "Normal(0, 0.5)", "sd_g": "HalfNormal(1)"},
    "k": {"Intercept": "Normal(0, 0.5)"},
    "sigma": "HalfNormal(1)",
}


def density(model: bl.Model, data: pd.DataFrame) -> MachineDensity:
    return MachineDensity(Source(model).posterior(data).machine_model(), lambda: None)


# -------------------------------------------------------------------------------------------- the density


def test_the_density_is_that_of_scipy():
    data = table()
    machine, rng = density(regression(CURVE, priors=PRIORS), data), np.random.default_rng(1)
    x, z, y, g = (data[name].to_numpy() for name in ("x", "z", "y", "g"))
    for _ in range(4):
        a, b, k, log_sd, log_sigma = 0.5 * rng.normal(size=5)
        raw = rng.normal(size=5)
        point = {
            "Intercept_a": a,
            "b_a": [b],
            "k": k,
            "sd_a_g_log__": log_sd,
            "sigma_log__": log_sigma,
            "_raw_a_g": raw,
        }
        value, _ = machine(machine.flat({name: np.asarray(point[name], float) for name in machine.names}))
        sd, sigma = np.exp(log_sd), np.exp(log_sigma)
        height = a + b * z + sd * raw[np.searchsorted(LEVELS, g)]
        expected = stats.norm(height * (1 - np.exp(-np.exp(k) * x)), sigma).logpdf(y).sum()
        expected += stats.norm(4, 1).logpdf(a) + stats.norm(0, 0.5).logpdf(b) + stats.norm(0, 0.5).logpdf(k)
        expected += stats.halfnorm.logpdf(sd) + log_sd + stats.halfnorm.logpdf(sigma) + log_sigma
        expected += stats.norm.logpdf(raw).sum()
        assert value == pytest.approx(expected, rel=1e-9)


def spread(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1))


def six(value: float) -> str:
    return repr(float(f"{value:.6g}"))


#: By name: the regression, and the model written out by hand.
WRITTEN: dict[str, Callable[[pd.DataFrame], tuple[bl.Model, bl.Model]]] = {
    # A parameter that occurs twice; default priors in units of the sd of the intercept's prior.
    "Michaelis and Menten": lambda d: (
        regression(
            {"mu": "y ~ top * x / (x + half) + 0.1 * top", "top": "~ h", "half": "~ 1 + (1 | g)"},
            priors={"top": {"Intercept": "Normal(5, 2)"}, "half": {"Intercept": "Gamma(4, 2)"}, "sigma": "HalfNormal(1)"},
        ),
        graph(
            {
                "Intercept_top": "Normal(5, 2)",
                "b_top[predictor_top]": f"Normal(0, {six(2 / spread(d['h'] == 'v'))})",
                "Intercept_half": "Gamma(4, 2)",
                "sd_half_g": "HalfStudentT(3, 1)", "_raw_half_g[g]": "Normal(0, 1)",
                "sigma": "HalfNormal(1)",
                "top[row]": "Intercept_top + b_top['h[v]'] * (h == 'v')",
                "y[row]": "Normal(top * x / (x + Intercept_half + sd_half_g * _raw_half_g[g]) + 0.1 * top, sigma)",
            },
            predictor_top=["h[v]"], g=LEVELS,
        ),
    ),
    # A link, the formula of a further parameter, an offset, and a parameter called like the slopes of other regressions.
    "counts": lambda d: (
        regression(
            {"mu": "count ~ b + c * log(x)", "b": "~ z + offset(0.1 * x)", "c": "~ 1", "alpha": "~ z"},
            "negative_binomial",
            priors={"b": {"Intercept": "Normal(1, 1)", "b": "Normal(0, 0.5)"}, "c": {"Intercept": "Normal(0, 1)"}},
        ),
        graph(
            {
                "Intercept_b": "Normal(1, 1)", "b_b[predictor_b]": "Normal(0, 0.5)", "c": "Normal(0, 1)",
                "alpha_centred": "InverseGamma(0.4, 0.3)",
                "b_alpha[predictor_alpha]": f"Normal(0, {six(1 / spread(d['z']))})",
                "eta[row]": "Intercept_b + b_b['z'] * z + 0.1 * x + c * log(x)",
                "alpha[row]": "alpha_centred * exp(b_alpha['z'] * (z - mean(z)))",
                "count[row]": "NegativeBinomial(exp(eta), alpha)",
            },
            predictor_b=["z"], predictor_alpha=["z"],
        ),
    ),
    # Levels and slopes by group, correlated; another parameter without an intercept; where().
    "a kink": lambda d: (
        regression(
            {"mu": "y ~ low + up * where(x > knot, x - knot, 0)", "low": "~ 1 + (1 + z | g)", "up": "~ 0 + h", "knot": "~ 1"},
            priors={
                "low": {"Intercept": "Normal(0, 2)", "sd_g": "HalfNormal(1)"}, "up": {"b": "Normal(0, 2)"},
                "knot": {"Intercept": "Uniform(0, 6)"}, "sigma": "HalfNormal(1)",
            },
        ),
        graph(
            {
                "Intercept_low": "Normal(0, 2)",
                "_chol_low_g[e, e2]": "LKJCholeskyCov(eta=2, sd_dist=HalfNormal(1))",
                "_raw_low_g[g, e2]": "Normal(0, 1)",
                "u[g, e]": "dot(_raw_low_g, _chol_low_g, e2)",
                "b_up[predictor_up]": "Normal(0, 2)", "knot": "Uniform(0, 6)", "sigma": "HalfNormal(1)",
                "slope[row]": "where(h == 'u', b_up['h[u]'], b_up['h[v]'])",
                "low[row]": "Intercept_low + u[g, 'one'] + u[g, 'z'] * z",
                "y[row]": "Normal(low + slope * maximum(x - knot, 0), sigma)",
            },
            predictor_up=["h[u]", "h[v]"], g=LEVELS, e=["one", "z"], e2="e",
        ),
    ),
    # Levels in order have cutpoints in place of an intercept.
    "levels": lambda d: (
        regression(
            {"mu": "rank ~ top * tanh(x / 3)", "top": "~ z"}, "ordered",
            priors={"top": {"Intercept": "Normal(2, 1)", "z": 0.5}},
        ),
        graph(
            {
                "cutpoints[cutpoint]": "Ordered(Normal(0, 2.5))", "Intercept_top": "Normal(2, 1)",
                "rank[row]": "OrderedLogistic((Intercept_top + 0.5 * z) * tanh(x / 3), cutpoints)",
            },
            cutpoint=["0|1", "1|2"],
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_the_machine_has_the_density_and_gradient_of_the_model_written_out(name):
    data = table()
    machines_agree(*WRITTEN[name](data), data, constant=1e-9, rtol=1e-9, spread=0.5)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_short_form_expansion_and_model_written_out_have_one_density_in_pymc(name):
    data = table()
    short, whole = WRITTEN[name](data)
    built = bl.to_pymc(short, data)
    names = {"_chol_low_g": "_chol_low_g"}
    agree(built, bl.to_pymc(whole, data), constant=1e-9, names=names)
    agree(built, bl.to_pymc(bl.expand(short, data), data), constant=1e-9)


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_arrays_and_graph_have_the_same_likelihood(name):
    import pytensor

    data = table()
    posterior = Source(WRITTEN[name](data)[0]).posterior(data)
    built = pointwise_graph(posterior)
    rng = np.random.default_rng(0)
    point = {key: value + rng.uniform(-0.3, 0.3, np.shape(value)) for key, value in built.initial_point().items()}
    (term,) = built.logp(vars=built.observed_RVs, sum=False)
    wanted = built.unobserved_value_vars
    function = pytensor.function(built.value_vars, [term, *wanted], mode="FAST_COMPILE", on_unused_input="ignore")
    rows, *values = function(**point)
    draws = {v.name: np.asarray(value)[None] for v, value in zip(wanted, values, strict=True)}
    ((_, ours),) = posterior.log_likelihoods(draws).values()
    np.testing.assert_allclose(ours[0], rows, rtol=1e-9, atol=1e-9)


def test_a_curve_in_the_formula_of_a_parameter_is_that_of_a_plain_regression():
    """y ~ a with a ~ s(x) is y ~ s(x), but for the priors, which are given here."""
    data = table()
    given = {"Intercept": "Normal(2, 1)", "b": "Normal(0, 1)", "sd_s_x": "HalfNormal(1)"}
    plain = regression("y ~ s(x, k=6)", priors=given | {"sigma": "HalfNormal(1)"})
    inner = regression({"mu": "y ~ 1 * a", "a": "~ s(x, k=6)"}, priors={"a": given, "sigma": "HalfNormal(1)"})
    one, other = density(plain, data), density(inner, data)
    names = {"Intercept": "Intercept_a", "b": "b_a", "sd_s_x_log__": "sd_a_s_x_log__", "_raw_s_x": "_raw_a_s_x"}
    rng = np.random.default_rng(3)
    for _ in range(3):
        point = {key: rng.standard_normal(shape) for key, shape in zip(one.names, one.shapes, strict=True)}
        moved = {names.get(key, key): value for key, value in point.items()}
        assert other(other.flat(moved))[0] == pytest.approx(one(one.flat(point))[0], rel=1e-9)


# ------------------------------------------------------------------------------------------ the posterior


@pytest.mark.slow(why="statistical")
def test_nuts_has_the_posterior_on_a_grid():
    """Exponential growth to a limit, three parameters by the trapezoid rule; sigma is known."""
    data = table(30)
    x, y = data["x"].to_numpy(), data["y"].to_numpy()
    model = regression(
        {"mu": "y ~ a * (1 - exp(-b * x)) + c", "a": "~ 1", "b": "~ 1", "c": "~ 1"},
        priors={"a": {"Intercept": "Normal(4, 1)"}, "b": {"Intercept": "Gamma(4, 8)"}, "c": {"Intercept": "Normal(0, 0.5)"},
                "sigma": 0.8},
    )  # fmt: skip
    fit = bl.fit(model, data, seed=1, runs=None, progress=False, draws=2000)
    a, b, c = np.linspace(-0.5, 8.5, 91), np.exp(np.linspace(-6, 2, 161)), np.linspace(-2.5, 2.5, 81)
    rise = 1 - np.exp(-b[:, None] * x)
    # Sums over rows of the squares of y - a rise - c, term by term.
    square = (y @ y) - 2 * a[:, None, None] * (rise @ y)[:, None] - 2 * c * y.sum() + len(y) * c**2
    square = (
        square + a[:, None, None] ** 2 * (rise**2).sum(1)[:, None] + 2 * a[:, None, None] * c * rise.sum(1)[:, None]
    )
    log_density = -0.5 * square / 0.8**2 + stats.norm(4, 1).logpdf(a)[:, None, None] + stats.norm(0, 0.5).logpdf(c)
    log_density += (stats.gamma(4, scale=1 / 8).logpdf(b) + np.log(b))[:, None]
    weights = np.exp(log_density - special.logsumexp(log_density))
    rows = fit.summary()
    for name, values, axes in (("a", a, (1, 2)), ("b", b, (0, 2)), ("c", c, (0, 1))):
        marginal = weights.sum(axis=axes)
        mean = marginal @ values
        assert abs(rows.loc[name, "mean"] - mean) < 4 * rows.loc[name, "mcse_mean"], name
        assert rows.loc[name, "sd"] == pytest.approx(np.sqrt(marginal @ values**2 - mean**2), rel=0.07), name


@pytest.fixture(scope="module")
def fitted() -> bl.Fit:
    return bl.fit(regression(CURVE, priors=PRIORS), table(), seed=1, runs=None, progress=False, draws=300, chains=2)


def curve(fit: bl.Fit, rows: pd.DataFrame) -> np.ndarray:
    """The expected response at each draw, put together here."""
    at = {name: np.asarray(fit.posterior[name]) for name in ("Intercept_a", "b_a", "u_a_g", "k")}
    at = {name: value.reshape(-1, *value.shape[2:]) for name, value in at.items()}
    x, z, g = (rows[name].to_numpy() for name in ("x", "z", "g"))
    height = at["Intercept_a"][:, None] + at["b_a"] * z + at["u_a_g"][:, np.searchsorted(LEVELS, g)]
    return height * (1 - np.exp(-np.exp(at["k"])[:, None] * x))


def test_the_table_has_the_parameters_by_name(fitted):
    assert {"Intercept_a", "b_a[z]", "sd_a_g", "u_a_g[e]", "k", "sigma"} == {
        name for name in fitted.summary().index if name not in {f"u_a_g[{level}]" for level in "abcd"}
    }


def test_predictions_at_new_rows_are_the_curve(fitted):
    new = pd.DataFrame({"x": [0.0, 1.5, 30.0], "z": [0.5, -1.0, 0.0], "g": ["b", "e", "a"]})
    expected = curve(fitted, new)
    values = fitted.predict(new)
    sigma = float(np.sqrt((np.asarray(fitted.posterior["sigma"]) ** 2).mean()))
    np.testing.assert_allclose(values["mean"], expected.mean(axis=0), atol=0.1)
    np.testing.assert_allclose(values["sd"], np.hypot(expected.std(axis=0), sigma), rtol=0.15)
    with refused("data.unknown-column", "'x'"):
        fitted.predict(new.drop(columns="x"))
    with refused("data.unknown-level", "'q'"):
        fitted.predict(new.assign(g="q"))


def test_effects_are_differences_and_slopes_of_the_curve(fitted):
    data = table()

    def draws(table):
        return table.draws.to_numpy().reshape(-1)

    np.testing.assert_allclose(draws(fitted.predictions()), curve(fitted, data).mean(axis=1), atol=1e-9)
    moved = curve(fitted, data.assign(x=data["x"] + 1)) - curve(fitted, data)
    np.testing.assert_allclose(draws(fitted.comparisons("x")), moved.mean(axis=1), atol=1e-9)
    k, h = np.asarray(fitted.posterior["k"]).reshape(-1), 1e-5
    steep = (curve(fitted, data.assign(x=data["x"] + h)) - curve(fitted, data.assign(x=data["x"] - h))) / (2 * h)
    np.testing.assert_allclose(draws(fitted.slopes("x")), steep.mean(axis=1), rtol=1e-4)
    assert len(k) == 600


@pytest.mark.slow(why="compiles")
def test_replications_simulations_and_leaving_out_one_row(fitted):
    assert (fitted.check()["p_value"] > 0.005).all()
    simulated = bl.simulate(regression(CURVE, priors=PRIORS), table(), draws=20, seed=1)
    assert np.isfinite(simulated["prior_predictive"]["y"]).all()
    line = bl.fit(regression("y ~ z + (1 | g)"), table(), seed=1, runs=None, progress=False)
    result = bl.compare({"curve": fitted, "line": line})
    assert result.table.loc["curve", "elpd"] > result.table.loc["line", "elpd"] + 10


def test_a_parameter_may_be_known_and_rows_may_have_weights():
    """Fixed parameters are in no draw; weights multiply the log likelihoods, in the expansion too."""
    data = table().assign(w=np.arange(40) % 3)
    formula = {"mu": "y ~ b * (1 - exp(-k * x))", "b": "~ 1", "k": "~ 1"}
    priors = {"b": {"Intercept": "Normal(4, 1)"}, "k": {"Intercept": 0.6}, "sigma": 0.5}
    model = regression(formula, priors=priors, weights="w")
    machine = density(model, data)
    assert list(machine.names) == ["b"]
    rise = 1 - np.exp(-0.6 * data["x"])
    for b in (3.0, 4.5):
        expected = (data["w"] * stats.norm(b * rise, 0.5).logpdf(data["y"])).sum() + stats.norm(4, 1).logpdf(b)
        assert machine(machine.flat({"b": np.asarray(b)}))[0] == pytest.approx(expected, rel=1e-9)
    whole = density(bl.expand(model, data), data)
    point = {"b": np.asarray(3.7)}
    assert whole(whole.flat(point))[0] == pytest.approx(machine(machine.flat(point))[0], rel=1e-9)
    fit = bl.fit(model, data, seed=1, runs=None, progress=False, draws=300, chains=2)
    weight, total = (data["w"] * rise**2).sum() / 0.25 + 1, (data["w"] * rise * data["y"]).sum() / 0.25 + 4
    row = fit.summary().loc["b"]
    assert abs(row["mean"] - total / weight) < 4 * row["mcse_mean"]
    values = fit.predict(pd.DataFrame({"x": [2.0]}))
    np.testing.assert_allclose(values["mean"], total / weight * (1 - np.exp(-1.2)), atol=0.15)


def test_exact_inference_is_refused():
    with refused("engine.refused.no-closed-form", "not linear in its parameters"):
        bl.fit(regression(CURVE, priors=PRIORS), table(), "exact", runs=None, progress=False)


def test_rows_with_a_gap_in_any_formula_are_dropped():
    data = table()
    data.loc[[3, 8], "x"] = np.nan
    data.loc[5, "z"] = np.nan
    posterior = Source(regression(CURVE, priors=PRIORS)).posterior(data)
    assert posterior.lowered.design.n == len(data) - 3
    assert "x 2" in posterior.data_findings()[0][3]


def test_priors_are_shown_by_name():
    posterior = Source(regression(CURVE, priors=PRIORS | {"a": {"Intercept": "Normal(4, 1)"}})).posterior(table())
    slope = f"Normal(0, {six(1 / spread(table()['z']))})"
    expected = {"Intercept_a": "Normal(4, 1)", "b_a[z]": slope, "sd_a_g": "HalfStudentT(3, 1.0)"}
    assert posterior.priors().items() >= expected.items()
    renamed = {"mu": "y ~ b * x", "b": "~ 1"}
    plain = Source(regression(renamed, priors={"b": {"Intercept": "Normal(0, 3)"}})).posterior(table())
    assert plain.priors()["b"] == "Normal(0, 3)"


@pytest.mark.parametrize(
    ("prior", "sd"),
    [("Normal(3, 2)", 2.0), ("Uniform(0, 6)", np.sqrt(3)), ("Gamma(4, 2)", 1.0), ("StudentT(2, 0, 1)", None),
     ("Cauchy(0, 1)", None), ("InverseGamma(1, 1)", None), ("Flat()", None), ("Normal(m, 1)", None), ("3", None)],
)  # fmt: skip
def test_the_unit_of_a_parameter_is_the_sd_of_its_prior(prior, sd):
    """A slope of a column with sd 1 has this sd; without one it needs a prior."""
    data = table().assign(z=lambda t: t["z"] / spread(t["z"]))
    priors = (
        {"a": {"Intercept": prior}, "m": "Normal(0, 1)"} if "m" in prior.split("(")[-1] else {"a": {"Intercept": prior}}
    )
    model = regression({"mu": "y ~ a * x", "a": "~ z"}, priors=priors)
    if sd is None:
        with refused("model.incomplete", r"\{a: \{b", where="model.formula.a"):
            bl.check(model, data)
    else:
        text = Source(model).posterior(data).priors()["b_a[z]"]
        assert float(text.partition(", ")[2].rstrip(")")) == pytest.approx(sd, rel=1e-5)


# ------------------------------------------------------------------------------------------------ refusals

K = {"Intercept": "Normal(0, 1)"}
ONE = {"mu": "y ~ a * exp(-k * x)", "a": "~ 1", "k": "~ 1"}
GIVEN = {"a": K, "k": K}


@pytest.mark.parametrize(
    ("spec", "code", "match", "where"),
    [
        ({"formula": ONE, "priors": {"a": K}}, "incomplete", r"'k'.*priors: \{k: \{Intercept", "model.formula.k"),
        ({"formula": ONE, "priors": GIVEN | {"a": "Normal(0, 1)"}}, "conflict", "'a'", "model.priors.a"),
        ({"formula": ONE | {"kk": "~ 1"}, "priors": GIVEN}, "unknown-parameter", "'kk'.*does not use it",
         "model.formula.kk"),
        ({"formula": ONE | {"sigm": "~ 1"}, "priors": GIVEN}, "unknown-parameter", "'sigm'.*'sigma'",
         "model.formula.sigm"),
        ({"formula": {"mu": "y ~ a * exp(-k * x)", "a": "~ 1"}, "priors": {"a": K}}, "unknown-column", "'k'.*k: ~ 1",
         "model.formula.mu"),
        ({"formula": ONE | {"mu": "y ~ a * exp(-k * xx)"}, "priors": GIVEN}, "unknown-column", "'xx'.*'x'",
         "model.formula.mu"),
        ({"formula": ONE | {"mu": "y ~ a * exq(-k * x)"}}, "unknown-function", "'exq.*'exp'", "model.formula.mu"),
        ({"formula": ONE | {"mu": "y ~ a * mean(k * x)"}}, "unknown-function", "row by row", "model.formula.mu"),
        ({"formula": ONE | {"mu": "y ~ a * exp(-k * x"}}, "syntax", "", "model.formula.mu"),
        ({"formula": ONE | {"mu": "y ~ a ^ k * x"}}, "syntax", r"\*\*", "model.formula.mu"),
        ({"formula": ONE | {"mu": "y ~ a * x + (1 | g)"}}, "syntax", "'y'.*a: ~", "model.formula.mu"),
        ({"formula": ONE | {"mu": "y ~ a[g] * exp(k * x)"}}, "unsupported", r"'a\[g\]'", "model.formula.mu"),
        ({"formula": ONE | {"mu": "y ~ where(h == 'u', a, k * x)"}}, "unsupported", "'u'", "model.formula.mu"),
        ({"formula": ONE | {"mu": "y ~ a * exp(-k * h)"}, "priors": GIVEN}, "not-numbers", "'h'", "model.formula.mu"),
        ({"formula": ONE | {"mu": "y ~ a * exp(-k * y)"}, "priors": GIVEN}, "self-reference", "'y'", "model.formula.mu"),
        ({"formula": ONE | {"mu": "a * exp(-k * x)"}}, "syntax", "~", "model.formula.mu"),
        ({"formula": ONE | {"a": "y ~ 1"}}, "syntax", "'a' begins with ~", "model.formula.a"),
        ({"formula": ONE | {"a": "~ nope"}, "priors": GIVEN}, "unknown-column", "'nope'", "model.formula.a"),
        ({"formula": {"mu": "y ~ x * z", "z": "~ 1"}, "priors": {"z": K}}, "name-clash", "'z'", "model.formula.z"),
        ({"formula": {"mu": "y ~ x * exp", "exp": "~ 1"}, "priors": {"exp": K}}, "reserved-name", "'exp'",
         "model.formula.exp"),
        ({"formula": {"mu": "y ~ x * offset", "Intercept": "~ 1", "offset": "~ 1"}}, "unknown-parameter", "'Intercept'",
         "model.formula.Intercept"),
        ({"formula": {"mu": "y ~ x * predictor", "predictor": "~ 1"}, "priors": {"predictor": K}}, "name-clash",
         "'predictor'", "model.formula.predictor"),
        ({"formula": ONE | {"mu": "y ~ a * exp(-k * x) + sigma"}, "priors": GIVEN}, "name-clash", "'sigma'",
         "model.formula.mu"),
        ({"formula": ONE | {"a": "~ 0 + h"}, "priors": {"k": K}}, "incomplete", r"priors: \{a: \{b", "model.formula.a"),
        ({"formula": ONE | {"a": "~ z"}, "priors": {"k": K, "a": {"Intercept": "Cauchy(0, 1)"}}}, "incomplete",
         r"Cauchy.*\{a: \{b", "model.formula.a"),
        ({"formula": ONE | {"a": "~ (1 | g)"}, "priors": {"k": K, "a": {"Intercept": 3}}}, "incomplete", "sd_g",
         "model.formula.a"),
        ({"formula": ONE, "priors": GIVEN | {"a": {"Intercept": "Normal(0, q)"}}}, "unknown-name", "'q'",
         "model.priors.a.Intercept"),
        ({"formula": ONE, "priors": GIVEN | {"b": "Normal(0, 1)"}}, "unknown-parameter", "'b'", "model.priors.b"),
        ({"formula": ONE, "priors": GIVEN, "shrinkage": "lasso"}, "not-applicable", "shrinkage", "model.shrinkage"),
        ({"formula": ONE, "priors": GIVEN, "missing": {"x": "Normal(0, 1)"}}, "unsupported", "'x'", "model.missing.x"),
        ({"formula": ONE | {"mu": "h ~ a * exp(-k * x)"}, "priors": GIVEN, "likelihood": "categorical"}, "unsupported",
         "categorical", "model.formula.mu"),
    ],
)  # fmt: skip
def test_what_a_formula_cannot_say_is_refused(spec, code, match, where):
    data = table()
    with refused(f"model.{code}", match, where=where):
        model = bl.Model(model={"family": "regression"} | spec)
        bl.check(model, data)


def test_a_file_is_read_back_with_the_place_of_a_mistake(tmp_path):
    file = tmp_path / "model.yaml"
    bl.save(regression(ONE, priors=GIVEN), file)
    assert bl.load(file).model.formula == ONE
    text = file.read_text().replace("exp(-k", "exq(-k")
    file.write_text(text)
    line = next(k for k, each in enumerate(text.splitlines(), 1) if "exq" in each)
    with refused("model.unknown-function", where=f"{file}:{line}"):
        bl.load(file)
