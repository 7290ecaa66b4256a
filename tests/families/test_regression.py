"""Regressions: the graph, the arrays and the closed form say the same; bad input is named."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import bayeslab as bl
from bayeslab.families.regression.lowering import lower
from bayeslab.fitting import check
from bayeslab.results.predict import pointwise_graph
from tests.refusals import refused

N = 60


def table(seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, z = rng.normal(10, 2, N), rng.normal(size=N)
    g = rng.choice(["a", "b", "c"], N)
    eta = 0.4 * (x - 10) - 0.5 * z + (g == "b") * 0.7
    n = rng.integers(3, 9, N)
    p = 1 / (1 + np.exp(-eta))
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "g": g,
            "h": rng.choice(["u", "v"], N),
            "w": rng.uniform(0.5, 2, N),
            "n": n,
            "gaussian": eta + rng.normal(0, 0.5, N),
            "bernoulli": (rng.random(N) < p).astype(int),
            "binomial": rng.binomial(n, p),
            "categorical": rng.choice(["red", "green", "blue"], N),
            "ordered": np.digitize(eta + rng.logistic(size=N), [-1, 0.5]),
            "poisson": rng.poisson(np.exp(eta)),
            "negative_binomial": rng.negative_binomial(2, 2 / (2 + np.exp(eta))),
            "beta": rng.beta(5 * p, 5 * (1 - p)),
            "gamma": rng.gamma(3, np.exp(eta) / 3),
            "status": rng.choice(["none", "right", "left"], N, p=[0.7, 0.2, 0.1]),
        }
    )


LINKS = [
    ("gaussian", "identity"),
    ("gaussian", "log"),
    ("student_t", "identity"),
    ("bernoulli", "logit"),
    ("bernoulli", "probit"),
    ("bernoulli", "cloglog"),
    ("binomial", "logit"),
    ("binomial", "probit"),
    ("categorical", "logit"),
    ("ordered", "logit"),
    ("ordered", "probit"),
    ("poisson", "log"),
    ("negative_binomial", "log"),
    ("beta", "logit"),
    ("beta", "probit"),
    ("gamma", "log"),
]


def regression(likelihood: str, link: str | None = None, right: str = "x * z + g", **more: object) -> bl.Model:
    column = "gaussian" if likelihood == "student_t" else likelihood
    left = "p(binomial, n)" if likelihood == "binomial" else column
    return bl.Model(model=bl.Regression(formula=f"{left} ~ {right}", likelihood=likelihood, link=link, **more))


def by_graph(model: bl.Model, data: pd.DataFrame, seed: int = 0) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Log likelihood of each row in the graph at a random point, and the point on the natural scale."""
    import pytensor

    from bayeslab import registry

    family = registry.load("families", "regression")
    graph = pointwise_graph(family.compile(model, check(model, data)))
    rng = np.random.default_rng(seed)
    point = {name: value + rng.uniform(-0.3, 0.3, np.shape(value)) for name, value in graph.initial_point().items()}
    (term,) = graph.logp(vars=graph.observed_RVs, sum=False)
    wanted = graph.unobserved_value_vars
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function = pytensor.function(graph.value_vars, [term, *wanted], mode="FAST_COMPILE", on_unused_input="ignore")
        out = function(**point)
    return out[0], {v.name: value for v, value in zip(wanted, out[1:], strict=True)}


# A link of each likelihood is compared at once, the others in the slow tier.
FIRST = [*dict(reversed(LINKS)).items()]


@pytest.mark.parametrize(
    ("likelihood", "link"),
    [pytest.param(*pair, marks=() if pair in FIRST else pytest.mark.slow(why="compiles")) for pair in LINKS],
)
def test_arrays_and_graph_have_the_same_likelihood(likelihood, link):
    from bayeslab import registry

    data, model = table(), regression(likelihood, link)
    rows, values = by_graph(model, data)
    family = registry.load("families", "regression")
    draws = {name: np.asarray(value)[None] for name, value in values.items()}
    ((_, ours),) = family.compile(model, check(model, data)).log_likelihoods(draws).values()
    # PyMC takes differences of Phi where ours keeps the digits of the tail.
    tolerance = 1e-6 if (likelihood, link) == ("ordered", "probit") else 1e-9
    np.testing.assert_allclose(ours[0], rows, rtol=tolerance, atol=1e-9)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(("likelihood", "link"), LINKS)
def test_replications_have_the_mean_of_the_likelihood(likelihood, link):
    """The frequencies of 4,000 replications at one point, against the density on arrays, integrated."""
    from bayeslab import registry
    from bayeslab.families.regression.arrays import constants_of, parts_of
    from bayeslab.families.regression.likelihoods import LIKELIHOODS

    data, model = table().head(8), regression(likelihood, link, right="x")
    data = data.assign(categorical=["red", "green", "blue", "red"] * 2, ordered=[0, 1, 2, 0] * 2)
    _, values = by_graph(model, data)
    values |= {name: np.float64(20) for name in ("phi", "shape") if name in values}  # densities quadrature can do
    many = {name: np.repeat(np.asarray(value)[None], 4000, axis=0) for name, value in values.items()}
    bound = check(model, data)
    family = registry.load("families", "regression")
    ((_, drawn),) = family.compile(model, bound).predictive(many, np.random.default_rng(1)).values()
    one = {name: np.asarray(value)[None] for name, value in values.items()}
    lowered = lower(model, bound)
    ((mean, auxiliary),) = parts_of(lowered, one)
    density = LIKELIHOODS[likelihood].log_density
    if LIKELIHOODS[likelihood].discrete:
        support = np.arange(3000 if likelihood.endswith(("poisson", "binomial")) else 3)
        support = support[: 2 if likelihood == "bernoulli" else None]
        for row in range(8):
            constants = {name: value[row : row + 1] for name, value in constants_of(lowered).items()}
            inside = support[support <= constants["trials"][0]] if constants else support
            mass = np.exp([density(np.array([k]), mean[:, row : row + 1], auxiliary, constants)[0, 0] for k in inside])
            assert mass.sum() == pytest.approx(1, abs=1e-6)
            expected, spread = mass @ inside, np.sqrt(mass @ inside**2 - (mass @ inside) ** 2)
            assert abs(drawn[:, row].mean() - expected) < 4 * spread / np.sqrt(4000) + 1e-12
        return
    low, high = {"beta": (0, 1), "gamma": (0, np.inf)}.get(likelihood, (-np.inf, np.inf))
    for row in range(8):

        def value(y: float, power: int, row: int = row) -> float:
            return y**power * float(np.exp(density(np.array([y]), mean[:, row : row + 1], auxiliary, {})[0, 0]))

        middle = float(np.median(drawn[:, row]))
        total, first = (
            sum(integrate.quad(value, *part, args=(k,), limit=200)[0] for part in ((low, middle), (middle, high)))
            for k in (0, 1)
        )
        assert total == pytest.approx(1, abs=1e-5)
        assert abs(drawn[:, row].mean() - first) < 4.5 * drawn[:, row].std() / np.sqrt(4000)


@pytest.mark.slow(why="compiles")
def test_sufficient_statistics_are_the_rows():
    """The density of the summed-up graph equals that of the row-by-row graph, up to rounding."""
    from pytensor.compile.mode import Mode

    from bayeslab import registry

    family, evaluated = registry.load("families", "regression"), Mode("py", "fast_compile")
    data = pd.concat([table(s) for s in range(40)], ignore_index=True)
    for model in (
        regression("gaussian", right="x * z + (1 | g)"),
        regression("gaussian", right="x + offset(z) + (1 + z | g)"),
        regression("gaussian", right="0 + x + h"),
        regression("gaussian", right="x + (0 + x | g)"),
    ):
        bound = check(model, data)
        graphs = family.compile(model, bound).graph(), pointwise_graph(family.compile(model, bound))
        assert "gaussian_rows" in [p.name for p in graphs[0].potentials]
        values, slopes = (
            [getattr(graph, word)(mode=evaluated) for graph in graphs] for word in ("compile_logp", "compile_dlogp")
        )
        rng = np.random.default_rng(0)
        for _ in range(3):
            point = {name: 0.5 * rng.normal(size=np.shape(x)) for name, x in graphs[0].initial_point().items()}
            summed, rows = (float(value(point)) for value in values)
            assert summed == pytest.approx(rows, rel=1e-10)
            a, b = (slope(point) for slope in slopes)
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-6 * np.abs(b).max())


def test_weights_multiply_the_log_likelihood():
    """Whole weights are the same as repeated rows, exactly and in the graph."""
    data = table().assign(w=np.tile([1, 2, 3], N // 3))
    repeated = data.loc[data.index.repeat(data["w"])]
    priors = {"Intercept": "Normal(0, 3)", "b": "Normal(0, 2)", "sigma": "HalfNormal(2)"}
    one = bl.fit(
        regression("gaussian", right="x + z", weights="w", priors=priors), data, runs=None, seed=1, progress=False
    )
    two = bl.fit(regression("gaussian", right="x + z", priors=priors), repeated, runs=None, seed=1, progress=False)
    np.testing.assert_allclose(one.summary(), two.summary(), rtol=1e-5)
    priors = {"Intercept": "Normal(0, 3)", "b": "Normal(0, 2)"}
    weighted = bl.to_pymc(regression("poisson", right="x + z", weights="w", priors=priors), data)
    plain = bl.to_pymc(regression("poisson", right="x + z", priors=priors), repeated)
    point = plain.initial_point()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a, b = (m.compile_logp(mode="FAST_COMPILE")(point) for m in (weighted, plain))
    assert a == pytest.approx(b, rel=1e-12)


@pytest.mark.slow(why="statistical")
def test_closed_form_against_numerical_integration():
    """Posterior mean, sd and evidence of a line, by brute force over (intercept, slope, sigma)."""
    data = table().head(12)
    x, y = data["x"].to_numpy() - 10, data["gaussian"].to_numpy()
    data = data.assign(x=x)
    priors = {"Intercept": "Normal(0.2, 1)", "x": "Normal(0, 0.5)", "sigma": "HalfNormal(1)"}
    fit = bl.fit(regression("gaussian", right="x", priors=priors), data, runs=None, seed=1, progress=False)
    a, b, s = np.meshgrid(np.linspace(-2, 2, 121), np.linspace(-1, 1.5, 121), np.linspace(0.1, 3, 121), indexing="ij")
    log = stats.norm(0.2, 1).logpdf(a) + stats.norm(0, 0.5).logpdf(b) + stats.halfnorm(scale=1).logpdf(s)
    for xi, yi in zip(x, y, strict=True):
        log += stats.norm.logpdf(yi, a + b * xi, s)
    density = np.exp(log - log.max())
    total = density.sum()
    summary = fit.summary()
    for name, values in (("Intercept", a), ("b[x]", b), ("sigma", s)):
        mean = (density * values).sum() / total
        sd = np.sqrt((density * (values - mean) ** 2).sum() / total)
        assert summary.loc[name, "mean"] == pytest.approx(mean, abs=2e-4)
        assert summary.loc[name, "sd"] == pytest.approx(sd, rel=2e-3)
    cell = (4 / 120) * (2.5 / 120) * (2.9 / 120)
    evidence = fit.data_tree["exact_posterior"].attrs["log_evidence"]
    assert evidence == pytest.approx(np.log(total * cell) + log.max(), abs=1e-3)


@pytest.mark.slow(why="statistical")
def test_exact_draws_have_the_exact_moments():
    fit = bl.fit(
        regression("gaussian", right="x + z + (1 | g)"), table(), runs=None, seed=4, progress=False, draws=5000
    )
    drawn = fit.posterior.to_dataset()
    exact = fit.data_tree["exact_posterior"].to_dataset()
    for name in exact.data_vars:
        values = drawn[name].stack(sample=("chain", "draw"))
        error = exact[name].sel(statistic="sd", drop=True) / np.sqrt(20_000)
        gap = values.mean("sample") - exact[name].sel(statistic="mean", drop=True)
        assert float(np.abs(gap / error).max()) < 4.5, name
        below = (values < exact[name].sel(statistic="q25", drop=True)).mean("sample")
        assert float(np.abs(below - 0.25).max()) < 4.5 * np.sqrt(0.1875 / 20_000), name


def test_priors_by_predictor_term_and_hyperparameter():
    data = table()
    model = regression(
        "gaussian",
        right="x + z + C(g)",
        priors={"x": "Laplace(0, 1)", "C(g)": "Normal(0, tau)", "tau": "HalfNormal(1)", "sigma": "HalfNormal(1)"},
    )
    lowered = lower(model, check(model, data))
    assert lowered.slopes[0] == "Laplace(0, 1)"
    assert lowered.slopes[2] == lowered.slopes[3] == "Normal(0, tau)"
    graph = bl.to_pymc(model, data)
    assert {rv.name for rv in graph.free_RVs} == {"sigma", "tau", "Intercept_centred", "_b_1", "_b_2", "_b_3"}


BAD = [
    ({"formula": "gaussian ~ xx"}, "model.unknown-column", r"^model\.formula.*'xx'.*'x'"),
    ({"formula": "gaussian x"}, "model.syntax", r"^model\.formula.*~.*'gaussian x'"),
    ({"formula": "gaussian ~ lug(x)"}, "model.unknown-function", r"^model\.formula.*'lug'.*'log'"),
    (
        {"formula": "gaussian ~ x", "likelihood": "gausian"},
        "model.unknown-word",
        r"^model\.likelihood.*'gausian'.*'gaussian'",
    ),
    (
        {"formula": "gaussian ~ x", "priors": {"xx": "Normal(0, 1)"}},
        "model.unknown-parameter",
        r"^model\.priors\.xx.*'x'",
    ),
    ({"formula": "gaussian ~ x", "priors": {"x": "Normal(0, 1"}}, "model.syntax", r"^model\.priors\.x.*'\('"),
    ({"formula": "gaussian ~ x", "link": "logit"}, "model.unknown-word", r"^model\.link.*'identity'.*'logit'"),
    ({"formula": "gaussian ~ x", "likelihood": "bernoulli"}, "data.impossible-value", "'gaussian'.*bernoulli"),
    ({"formula": "gaussian ~ x", "likelihood": "poisson"}, "data.impossible-value", "'gaussian'.*poisson"),
    ({"formula": "gaussian ~ x", "likelihood": "beta"}, "data.impossible-value", "'gaussian'.*beta"),
    ({"formula": "gaussian ~ x", "likelihood": "gamma"}, "data.impossible-value", "'gaussian'.*gamma"),
    (
        {"formula": "binomial ~ x", "likelihood": "binomial"},
        "model.conflict",
        r"^model\.formula.*p\(successes, trials\)",
    ),
    ({"formula": "g ~ x"}, "data.not-numbers", "'g'.*gaussian"),
    ({"formula": "gaussian ~ (1 | x)"}, "data.not-states", "'x'"),
    ({"formula": "gaussian ~ x", "weights": "ww"}, "model.unknown-column", "'ww'"),
    ({"formula": "gaussian ~ x", "weights": "nothing"}, "data.nothing-observed", "'nothing'.*weights"),
    ({"formula": "gaussian ~ x", "weights": "endless"}, "data.not-finite", "'endless'.*weights"),
    (
        {"formula": "gaussian ~ x", "priors": {"x": "HurdleGamma(0.5, 2, 1)"}},
        "model.bad-prior",
        r"^model\.priors\.x.*HurdleGamma",
    ),
    (
        {"formula": "gaussian ~ x", "priors": {"x": "Censored(Normal(0, 1), lower=0)"}},
        "model.bad-prior",
        r"^model\.priors\.x.*Censored",
    ),
    ({"formula": "gaussian ~ x", "missing": {"z": "Normal(0, 1)"}}, "model.unknown-column", r"^model\.missing\.z"),
    ({"formula": "gaussian ~ __import__('os').system('true')"}, "model.syntax", r"^model\.formula.*'__import__'"),
    ({"formula": "gaussian ~ bs(x, df=100000000)"}, "model.wrong-arguments", r"^model\.formula.*bs\(\).*df.*100000000"),
    (
        {"formula": "poisson ~ x", "likelihood": "poisson", "censored": "status"},
        "model.unsupported",
        r"^model\.censored.*poisson",
    ),
]


@pytest.mark.parametrize(("spec", "code", "match"), BAD)
def test_bad_input_is_one_line(spec, code, match):
    rows = table().assign(nothing=0.0, endless=np.inf)
    with refused(code, match):
        bl.fit(bl.Model(model={"family": "regression", **spec}), rows, runs=None, progress=False)


def test_sigma_is_on_the_scale_of_the_response_under_any_link():
    data = table().assign(y=lambda d: 700 * d["gamma"])
    model = bl.Model(model=bl.Regression(formula="y ~ x", link="log"))
    told = registry_family().compile(model, check(model, data)).priors()
    assert told["sigma"] == f"Exponential({1 / data['y'].std():.6g})"
    assert told["b[x]"] == f"Normal(0, {2.5 / data['x'].std():.6g})"


def test_rows_without_a_response_are_dropped_whatever_is_done_to_it():
    data = table()
    data.loc[[3, 7], "gamma"] = np.nan
    spec = {"family": "regression", "formula": "log(gamma) ~ x"}
    model = bl.Model(name="gaps", data={"rows": "row"}, model=spec)
    lowered = lower(model, check(model, data))
    np.testing.assert_allclose(lowered.y, np.log(data["gamma"].dropna()))
    assert "2 of 60 rows" in lowered.remarks[0][3]


def test_priors_are_told():
    """Every parameter once, with the numbers the data gave its default."""
    family = registry_family()
    data = table()
    model = regression("gaussian", right="x + h + (1 + x | g)", priors={"x": "Normal(0, 1)"})
    told = family.compile(model, check(model, data)).priors()
    assert list(told) == ["Intercept_centred", "b[x]", "b[h[v]]", "sigma", "sd_g, corr_g"]
    assert told["b[x]"] == "Normal(0, 1)"
    s = data["gaussian"].std()
    assert told["sigma"] == f"Exponential({1 / s:.6g})"
    assert told["b[h[v]]"] == f"Normal(0, {2.5 * s / (data['h'] == 'v').std():.6g})"
    assert "LKJCholeskyCov(eta=2" in told["sd_g, corr_g"]


def registry_family():
    from bayeslab import registry

    return registry.load("families", "regression")


@pytest.mark.slow(why="compiles")
def test_probabilities_are_averaged_not_counted():
    """One draw of the posterior: the probabilities are those of the graph's density, level by level."""
    from bayeslab import registry

    family = registry.load("families", "regression")
    for likelihood in ("bernoulli", "categorical", "ordered"):
        data, model = table(), regression(likelihood, right="x + z")
        _, values = by_graph(model, data)
        draws = {name: np.asarray(value)[None] for name, value in values.items()}
        bound = check(model, data)
        found = pd.DataFrame(family.compile(model, bound).probabilities(draws)).drop(columns="obs_id")
        np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
        ((_, rows),) = family.compile(model, bound).log_likelihoods(draws).values()
        seen = lower(model, bound).y
        np.testing.assert_allclose(found.to_numpy()[np.arange(N), seen], np.exp(rows[0]), rtol=1e-9)


@pytest.mark.slow(why="compiles")
def test_slopes_that_vary_alone_are_exact():
    """(0 + x | g): one scale besides sigma; agrees with NUTS."""
    data = pd.concat([table(s) for s in range(5)], ignore_index=True)
    model = regression("gaussian", right="x + (0 + z | h)")
    exact = bl.fit(model, data, runs=None, seed=1, progress=False)
    assert exact.method == "exact"
    other = bl.fit(model, data, "nuts", runs=None, seed=1, progress=False, target_accept=0.97, chains=2).summary()
    truth = exact.summary()
    for name in ("b[x]", "sigma", "u_h[u]"):
        assert abs(truth.loc[name, "mean"] - other.loc[name, "mean"]) < 5 * other.loc[name, "mcse_mean"], name


def test_new_levels_and_missing_predictors_are_refused():
    data = table()
    fit = bl.fit(regression("gaussian", right="x + (1 | g)"), data, runs=None, seed=1, progress=False, draws=50)
    with refused("data.unknown-level", "'q'"):
        fit.predict(pd.DataFrame({"x": [1.0], "g": ["q"]}))
    with refused("data.unknown-column", "'x'"):
        fit.predict(pd.DataFrame({"g": ["a"]}))
    with refused("data.missing"):
        fit.predict(pd.DataFrame({"x": [np.nan], "g": ["a"]}))


def test_what_the_formula_learnt_is_kept_for_new_rows():
    """Centring, polynomials and splines code a new row as the fit's, whatever rows come with it."""
    data = table()
    model = regression("gaussian", right="center(x) + poly(z, 2) + bs(x, df=4)")
    fit = bl.fit(model, data, runs=None, seed=1, progress=False, draws=200)
    whole = fit.predict(data)
    part = fit.predict(data.iloc[:5])
    bound = check(model, data)
    full = lower(model, bound).design.matrix
    from bayeslab.results.fitted import bound_to

    again = lower(model, bound_to(fit, data.iloc[:5])).design.matrix
    np.testing.assert_allclose(again, full[:5], rtol=1e-12)
    assert len(part) == 5
    assert len(whole) == N


def small() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    other, z, noise = rng.normal(size=(3, 40))
    return pd.DataFrame({"other": other, "z": z, "y": 10 + 2 * z + 3 * other + 0.1 * noise, "g": list("abcd") * 10})


def formula_model(formula: str, **more: object) -> bl.Model:
    return bl.Model(model=bl.Regression(formula=formula, **more))


@pytest.mark.parametrize(
    "formula", ["y ~ Intercept + z", "y ~ z + Intercept", "y ~ `Intercept`", "y ~ z + (Intercept | g)"]
)
def test_a_column_called_intercept_does_not_replace_the_intercept(formula):
    with refused("model.name-clash", "'Intercept'"):
        check(formula_model(formula), small().rename(columns={"other": "Intercept"}))


def test_a_column_of_ones_called_intercept_is_one_without_that_of_the_model():
    data = small().assign(Intercept=1.0)
    ones = bl.fit(formula_model("y ~ 0 + Intercept + z + other"), data, runs=None, progress=False)
    design = np.column_stack([data["Intercept"], data["z"], data["other"]])
    want = np.linalg.lstsq(design, data["y"], rcond=None)[0]
    np.testing.assert_allclose(ones.posterior["b"].mean(("chain", "draw")), want, atol=0.02)


@pytest.mark.parametrize(
    "name", ["design", "design_mean", "predictor", "b", "prior_scale", "pick_1", "sigma", "Intercept_centred", "u_z"]
)
def test_a_grouping_factor_called_like_a_part_of_the_model_is_refused(name):
    data = small().rename(columns={"g": name}).assign(h=["u", "v"] * 20)
    group = "z" if name == "u_z" else "h"
    data = data.assign(z=data["h"]) if name == "u_z" else data
    with refused("model.name-clash", f"group.*'{name}'", where="model.formula"):
        check(formula_model(f"y ~ other + (1 | {name}) + (1 | {group})"), data)


@pytest.mark.parametrize("name", ["u_g", "sd_g", "Intercept_centred", "design_mean", "prior_scale"])
def test_a_response_called_like_a_part_of_the_model_is_refused(name):
    with refused("model.name-clash", f"response.*'{name}'", where="model.formula"):
        check(formula_model(f"{name} ~ z + (1 | g)"), small().rename(columns={"y": name}))


@pytest.mark.parametrize("name", ["sigma", "b"])
def test_a_prior_of_a_predictor_and_a_parameter_of_one_name_is_refused(name):
    data = small().rename(columns={"other": name})
    check(formula_model(f"y ~ {name} + z"), data)
    with refused("model.name-clash", where=f"model.priors.{name}"):
        check(formula_model(f"y ~ {name} + z", priors={name: "Exponential(2)"}), data)


@pytest.mark.parametrize(
    ("formula", "cell", "code", "match"),
    [
        ("log(y) ~ z", -1.0, "data.not-finite", r"'log\(y\)'.*row 3.*-1"),
        ("sqrt(y) ~ z", -4.0, "data.not-finite", r"'sqrt\(y\)'.*row 3.*-4"),
        ("log(y) ~ z", 0.0, "data.not-finite", r"'log\(y\)'.*row 3"),
        ("other / y ~ z", 0.0, "data.not-finite", "row 3"),
    ],
)
def test_a_response_that_cannot_be_transformed_is_no_missing_cell(formula, cell, code, match):
    data = small()
    data.loc[2, "y"] = cell
    data.loc[5, "y"] = np.nan
    with refused(code, match):
        check(formula_model(formula), data)


def test_missing_cells_of_a_transformed_response_are_dropped():
    data = small().assign(y=lambda d: d["y"].abs() + 1)
    data.loc[5, "y"] = np.nan
    lowered = lower(model := formula_model("log(y) ~ z"), check(model, data))
    np.testing.assert_allclose(lowered.y, np.log(data["y"].drop(index=5)))


def test_predictions_have_no_use_for_weights():
    """New rows may have any, or none at all."""
    table = small().assign(w=1.0)
    fit = bl.fit(formula_model("y ~ z", weights="w"), table, runs=None, progress=False)
    new = table[["z"]].iloc[:3]
    want = fit.predict(new)
    pd.testing.assert_frame_equal(fit.predict(new.assign(w=-1.0)), want)


def test_new_rows_may_have_an_empty_response():
    fit = bl.fit(formula_model("y ~ z"), small(), runs=None, progress=False)
    new = small()[["z"]].iloc[:3]
    for cells in (np.nan, [np.nan, 10.0, 11.0]):
        pd.testing.assert_frame_equal(fit.predict(new.assign(y=cells)), fit.predict(new))


@pytest.mark.slow(why="compiles")
def test_new_rows_may_have_an_empty_response_of_levels():
    fit = bl.fit(formula_model("g ~ z", likelihood="categorical"), small(), method="laplace", runs=None, progress=False)
    new = small()[["z"]].iloc[:3]
    pd.testing.assert_frame_equal(fit.predict(new.assign(g=np.nan)), fit.predict(new))
    with refused("data.unknown-level", "'g'"):
        fit.predict(new.assign(g=[1.0, 2.0, 3.0]))


@pytest.mark.parametrize("prior", ["Normal", "10**400", "(-8)**0.5", "0**-1", "Normal(0, 10**400)"])
def test_priors_that_are_no_distribution_of_numbers_are_refused(prior):
    with pytest.raises(bl.BayeslabError) as refusal:
        check(formula_model("y ~ z", priors={"b": prior}), small())
    assert refusal.value.path == ("model", "priors", "b")


@pytest.mark.parametrize(
    ("prior", "said"),
    [
        (
            "Normal(0, g)",
            r"'g' is no parameter of this regression, and a prior uses no column of the data; known: 'Inter",
        ),
        ("Normal(0, sigm)", r"'sigm' is no parameter .*; did you mean 'sigma'\?; if it is a hyperparameter"),
    ],
)
def test_a_prior_that_uses_a_column_is_told_that_it_cannot(prior, said):
    """The message called a column of the table no column, and listed parts that no file names."""
    model = formula_model("y ~ z", priors={"z": prior})
    with refused("model.unknown-name", rf"^model\.priors\.z: {said}"):
        bl.to_pymc(model, small())


@pytest.mark.parametrize("path", ["a" * 5000, "a\0b"])
def test_a_second_table_at_an_impossible_path_is_refused(path):
    declared = bl.Model(data={"tables": {"h": path}}, model=bl.Regression(formula="y ~ z"))
    with pytest.raises(bl.BayeslabError):
        bl.check(declared)
    check(declared, small())  # given data: the file is not asked for


def test_weights_that_are_all_zero_are_refused():
    with refused("data.nothing-observed", "'w'"):
        check(formula_model("y ~ z", weights="w"), small().assign(w=0.0))


def test_a_misspelt_response_is_named_with_the_nearest_column():
    """Also where default priors are scaled to it."""
    data = {"height": [58.0, 59.0, 60.0, 61.0], "weight": [115.0, 117.0, 120.0, 123.0]}
    for call in (bl.check, bl.fit):
        with refused("data.no-data", "'wieght'.*'weight'"):
            call(bl.Model(model=bl.Regression(formula="wieght ~ height")), data)
