"""Penalised smooths in formulas: s(x) and s(x, by=g).

The truth is SciPy's smoothing spline, which minimises the squared residuals and the integral of the squared second
derivative, the model written with NumPy and SciPy, and closed forms of normal distributions written here.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import interpolate, linalg, stats

import bayeslab as bl
from bayeslab.posterior.machine.density import MachineDensity
from bayeslab.preparation import Source
from tests.densities import agree, machines_agree
from tests.refusals import refused


def table(n: int = 36) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    x, g = rng.uniform(0, 6, n), np.array(["a", "b", "c"])[np.arange(n) % 3]
    return pd.DataFrame(
        {
            "x": x,
            "z": rng.normal(size=n),
            "g": g,
            "year": 2000 + np.arange(n) % 4,
            "y": np.sin(1.5 * x) + 0.3 * x + (g == "b") * np.cos(x) + 0.2 * rng.normal(size=n),
            "count": rng.poisson(np.exp(0.5 + np.sin(x))),
            "few": np.arange(n) % 5,
            "gap": np.where(np.arange(n) % 9, x, np.nan),
        }
    )


def regression(formula: object, likelihood: str = "gaussian", **more: object) -> bl.Model:
    return bl.Model(data={"rows": "row"}, model=bl.Regression(formula=formula, likelihood=likelihood, **more))


def fitted(model: bl.Model, data: pd.DataFrame, **options: object) -> bl.Fit:
    return bl.fit(model, data, runs=None, seed=1, progress=False, **options)


FLAT = {"Intercept": "Flat()", "b": "Flat()"}


def bending(curve: object) -> np.ndarray:
    """Integral of the product of the second derivatives of each two functions, exact for natural splines."""
    knots = curve.basis.middle[0] + curve.basis.unit * curve.basis.knots
    spline = interpolate.CubicSpline(knots, curve.basis.waves(knots), bc_type="natural")
    second = spline(knots, 2)  # linear between the knots
    out = np.zeros((second.shape[1], second.shape[1]))
    for width, left, right in zip(np.diff(knots), second[:-1], second[1:], strict=True):
        middle = (left + right) / 2
        out += width / 6 * (np.outer(left, left) + 4 * np.outer(middle, middle) + np.outer(right, right))
    return out


# ------------------------------------------------------------------------------ the curve of least squares


@pytest.mark.parametrize("weights", [None, "w"])
def test_the_posterior_mean_is_the_smoothing_spline_of_scipy(weights):
    """With a function for each value, known scales and flat priors of the straight part."""
    data = table(24).assign(w=np.random.default_rng(2).uniform(0.5, 2, 24))
    model = regression(f"y ~ s(x, k={len(data)})", priors=FLAT | {"sigma": 0.3, "sd_s_x": 1.7}, weights=weights)
    (curve,) = Source(model).posterior(data).lowered.design.curves
    each = bending(curve)
    np.testing.assert_allclose(each, each[0, 0] * np.eye(len(each)), atol=1e-8 * each[0, 0])
    order = np.argsort(data["x"].to_numpy())
    x, y = data["x"].to_numpy()[order], data["y"].to_numpy()[order]
    w = data["w"].to_numpy()[order] if weights else None
    spline = interpolate.make_smoothing_spline(x, y, w, lam=0.3**2 / 1.7**2 / each[0, 0])
    new = np.array([*np.linspace(x[0], x[-1], 9), x[3]])
    np.testing.assert_allclose(exact_curve(model, data, new), spline(new), rtol=1e-7)
    # Straight lines beyond the values.
    far = np.array([1.0, 50.0])
    above, below = spline(x[-1]) + spline(x[-1], 1) * far, spline(x[0]) - spline(x[0], 1) * far
    np.testing.assert_allclose(exact_curve(model, data, x[-1] + far), above, rtol=1e-6)
    np.testing.assert_allclose(exact_curve(model, data, x[0] - far), below, rtol=1e-6)


def exact_curve(model: bl.Model, data: pd.DataFrame, new: np.ndarray) -> np.ndarray:
    """The curve at the exact posterior mean of the coefficients."""
    posterior = Source(model).posterior(data)
    mean = posterior.exact_plan.solve().mean()
    (curve,) = posterior.lowered.design.curves
    return mean["Intercept"] + mean["b"][0] * curve.basis.line(new) + curve.basis.waves(new) @ mean["u_s_x"]


def penalised(data: pd.DataFrame, k: int, ratio: float, new: np.ndarray) -> np.ndarray:
    """The curve of least squares in the space of Wood (2003): the k radial functions of largest eigenvalues.

    ``ratio`` is the smoothing parameter over the penalty of a curve whose mean square over the rows is one a priori.
    """
    x, y = data["x"].to_numpy(), data["y"].to_numpy()
    knots = np.unique(x)
    radial = np.abs(knots[:, None] - knots) ** 3 / 12
    values, vectors = linalg.eigh(radial)
    vectors = vectors[:, np.argsort(-np.abs(values))[:k]]
    free = vectors @ linalg.null_space(np.vstack([np.ones_like(knots), knots]) @ vectors)
    bent = np.abs(x[:, None] - knots) ** 3 / 12 @ free
    middle = bent.mean(axis=0)
    penalty = free.T @ radial @ free  # the integral of the squared second derivative
    size = np.mean(np.sum((bent - middle) @ linalg.inv(penalty) * (bent - middle), axis=1))
    columns = np.column_stack([np.ones_like(x), x, bent - middle])
    whole = linalg.block_diag(np.zeros((2, 2)), ratio * size * penalty)
    best = linalg.solve(columns.T @ columns + whole, columns.T @ y)
    return best[0] + best[1] * new + (np.abs(new[:, None] - knots) ** 3 / 12 @ free - middle) @ best[2:]


@pytest.mark.parametrize("k", [3, 6, 12])
def test_a_small_basis_is_that_of_penalised_least_squares_written_out(k):
    data = table(40)
    model = regression(f"y ~ s(x, k={k})", priors=FLAT | {"sigma": 0.3, "sd_s_x": 1.7})
    new = np.linspace(-2, 9, 23)
    expected = penalised(data, k, 0.3**2 / 1.7**2, new)
    np.testing.assert_allclose(exact_curve(model, data, new), expected, rtol=1e-6, atol=1e-8)


def test_many_values_have_the_functions_of_all_eigenvectors():
    """Lanczos' method, from 300 values, against all eigenvectors."""
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"x": rng.normal(size=420)}).assign(y=lambda d: np.sin(2 * d["x"]) + rng.normal(size=420))
    model = regression("y ~ s(x)", priors=FLAT | {"sigma": 1.0, "sd_s_x": 2.0})
    new = np.linspace(-3, 3, 13)
    np.testing.assert_allclose(exact_curve(model, data, new), penalised(data, 10, 0.25, new), rtol=1e-6, atol=1e-7)


# ------------------------------------------------------------------------- the density and the exact posterior


def test_the_density_is_that_of_scipy():
    data = table()
    model = regression("y ~ s(x, k=6) + z", priors={"Intercept": "Normal(0, 2)", "b": "Normal(0, 1)"})
    posterior = Source(model).posterior(data)
    (curve,) = posterior.lowered.design.curves
    density = MachineDensity(posterior.machine_model(), lambda: None)
    x, z, y = (data[name].to_numpy() for name in ("x", "z", "y"))
    rng = np.random.default_rng(1)
    for _ in range(3):
        at = {name: 0.5 * rng.normal(size=shape) for name, shape in zip(density.names, density.shapes, strict=True)}
        sd, sigma = np.exp(at["sd_s_x_log__"]), np.exp(at["sigma_log__"])
        mean = at["Intercept"] + at["b"][0] * (x - x.mean()) + at["b"][1] * z + sd * curve.waves @ at["_raw_s_x"]
        spread = float(f"{2.5 * y.std(ddof=1):.6g}")
        expected = stats.norm(mean, sigma).logpdf(y).sum() + stats.norm(0, 2).logpdf(at["Intercept"])
        expected += stats.norm.logpdf(at["b"]).sum() + stats.norm.logpdf(at["_raw_s_x"]).sum()
        expected += np.log(2) + stats.t(3, scale=spread).logpdf(sd) + at["sd_s_x_log__"]
        rate = float(f"{1 / y.std(ddof=1):.6g}")
        expected += stats.expon(scale=1 / rate).logpdf(sigma) + at["sigma_log__"]
        assert density(density.flat(at))[0] == pytest.approx(float(expected), rel=1e-9)


WRITTEN = {
    "gaussian": ("y ~ s(x, k=5) + z", "gaussian"),
    "by": ("y ~ g + s(x, k=4, by=g)", "gaussian"),
    "both, and groups": ("count ~ s(x, k=4) + s(x, k=3, by=g) + (1 | g)", "poisson"),
    "sigma": ({"mu": "y ~ s(log(x), k=4)", "sigma": "~ s(z, k=3) + s(x, k=3, by=g)"}, "student_t"),
}
QUICK = ("by",)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow(why="compiles")) for n in WRITTEN]
)
def test_the_density_is_that_of_the_model_written_out(name):
    data = table()
    formula, likelihood = WRITTEN[name]
    model = regression(formula, likelihood)
    agree(bl.to_pymc(model, data), bl.to_pymc(bl.expand(model, data), data), rtol=1e-9)


@pytest.mark.parametrize("name", WRITTEN)
def test_the_machine_has_the_density_of_the_model_written_out(name):
    data = table()
    formula, likelihood = WRITTEN[name]
    model = regression(formula, likelihood)
    machines_agree(model, bl.expand(model, data), data)


@pytest.mark.slow(why="large")
def test_the_exact_posterior_is_that_of_a_grid():
    """Evidence, mean of a scale and of the curve, against sums over a grid of the scales, written here."""
    data = table(30)
    priors = {"Intercept": "Normal(0, 2)", "b": "Normal(0, 1)", "sigma": "Exponential(2)", "sd_s_x": "HalfNormal(1.5)"}
    model = regression("y ~ s(x, k=7)", priors=priors)
    posterior = Source(model).posterior(data)
    (curve,) = posterior.lowered.design.curves
    fit = fitted(model, data)
    x, y = data["x"].to_numpy(), data["y"].to_numpy()
    columns = np.column_stack([np.ones_like(x), x - x.mean(), curve.waves])
    grid = [(s, t) for s in np.exp(np.linspace(-2.6, 0.7, 34)) for t in np.exp(np.linspace(-5, 2.2, 61))]
    weights, means = [], []
    for sigma, sd in grid:
        prior = np.diag([4.0, 1.0, *[sd**2] * curve.waves.shape[1]])
        whole = columns @ prior @ columns.T + sigma**2 * np.eye(len(y))
        height = stats.multivariate_normal(np.zeros(len(y)), whole).logpdf(y)
        height += stats.expon(scale=0.5).logpdf(sigma) + stats.halfnorm(scale=1.5).logpdf(sd) + np.log(sigma * sd)
        weights.append(height)
        means.append(columns @ prior @ columns.T @ linalg.solve(whole, y))
    cell = (3.3 / 33) * (7.2 / 60)
    top = max(weights)
    share = np.exp(np.array(weights) - top)
    assert fit.log_evidence == pytest.approx(top + np.log(share.sum() * cell), abs=2e-3)
    mean = posterior.exact_plan.solve().mean()
    assert mean["sd_s_x"] == pytest.approx(share @ np.array([t for _, t in grid]) / share.sum(), rel=2e-3)
    fitted_curve = columns @ np.array([mean["Intercept_centred" if "Intercept_centred" in mean else "Intercept"],
                                       *mean["b"], *mean["u_s_x"]])  # fmt: skip
    np.testing.assert_allclose(fitted_curve, share @ np.array(means) / share.sum(), atol=2e-3)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_units_and_origin_of_the_predictor_do_not_matter(offset):
    data = table()
    other = data.assign(x=1000 * data["x"] + offset)
    one, two = (Source(regression("y ~ s(x)")).posterior(d) for d in (data, other))
    first, second = one.lowered.design.curves[0], two.lowered.design.curves[0]
    np.testing.assert_allclose(first.waves, second.waves, atol=1e-7)
    assert one.exact_plan.solve().log_evidence == pytest.approx(two.exact_plan.solve().log_evidence, abs=1e-4)


@pytest.mark.parametrize("term", ["s(x, k=5)", "(1 | g)"])
def test_the_prior_density_at_draws_of_an_exact_fit(term):
    """Its draws are the effects themselves, and the prior that of effects over their standard deviation."""
    name = "s_x" if term.startswith("s") else "g"
    fit = fitted(regression(f"y ~ z + {term}", priors={f"sd_{name}": "HalfNormal(2)"}), table(), method="exact")
    logs = fit.log_prior.to_dataset() if hasattr(fit.log_prior, "to_dataset") else fit.log_prior
    u, sd = fit.posterior[f"u_{name}"].to_numpy(), fit.posterior[f"sd_{name}"].to_numpy()
    expected = stats.norm.logpdf(u / sd[..., None])
    np.testing.assert_allclose(logs[f"_raw_{name}"].to_numpy(), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(logs[f"sd_{name}"].to_numpy(), stats.halfnorm.logpdf(sd, scale=2), rtol=1e-9)


def test_two_smooths_have_three_scales_and_are_sampled():
    reason = Source(regression("y ~ s(x) + s(z)")).posterior(table()).exact_plan
    assert "3 scales (sigma, sd_s_x, sd_s_z)" in reason
    fixed = regression("y ~ s(x) + s(z)", priors={"sd_s_z": 0.5})
    assert "sigma and sd_s_x" in Source(fixed).posterior(table()).exact_plan.how
    reason = Source(regression("y ~ s(x, by=g)")).posterior(table()).exact_plan
    assert "a scale for each level of g" in reason


# ------------------------------------------------------------------------------------ new rows, and effects


@pytest.fixture(scope="module")
def by() -> bl.Fit:
    return fitted(regression("y ~ g + s(x, k=6, by=g)"), table(90), draws=300)


def curve_at(fit: bl.Fit, x: np.ndarray, levels: list[str]) -> np.ndarray:
    """The linear predictor of ``by`` at each draw, put together from its definition, (draws, rows)."""
    post, data = fit.posterior, table(90)
    basis = Source(regression("y ~ g + s(x, k=6, by=g)")).posterior(data).lowered.design.curves[0].basis
    flat = {name: (v := post[name].to_numpy()).reshape(-1, *v.shape[2:]) for name in ("Intercept", "b", "u_s_x_g")}
    names = [str(label) for label in post["b"].coords["predictor"].to_numpy()]
    out = []
    for value, level in zip(x, levels, strict=True):
        row = flat["Intercept"] + flat["b"][:, names.index(f"s(x):g[{level}]")] * (value - data["x"].mean())
        row = row + (flat["b"][:, names.index(f"g[{level}]")] if level != "a" else 0)
        out.append(row + flat["u_s_x_g"][:, "abc".index(level)] @ basis.waves(np.array([value]))[0])
    return np.array(out).T


@pytest.mark.slow(why="compiles")
def test_predictions_at_new_rows_are_those_of_the_definition(by):
    new = pd.DataFrame({"x": [-1.0, 2.0, 5.5, 9.0], "g": ["a", "b", "c", "b"]})
    expected = curve_at(by, new["x"].to_numpy(), list(new["g"]))
    np.testing.assert_allclose(np.asarray(by.predictions(new).draws).reshape(expected.shape), expected, rtol=1e-8)
    predicted = by.predict(new)
    noise = expected.std(axis=0) + 0.3
    assert np.all(np.abs(predicted["mean"] - expected.mean(axis=0)) < 5 * noise / np.sqrt(len(expected)))


def test_slopes_and_comparisons_go_through_a_smooth(by):
    data = table(90)
    step = 1e-4
    up, down = (curve_at(by, data["x"].to_numpy() + h, list(data["g"])) for h in (step, -step))
    slopes = ((up - down) / (2 * step)).mean(axis=1)
    np.testing.assert_allclose(np.ravel(by.slopes("x").draws), slopes, rtol=1e-3, atol=1e-3)
    a, b = (curve_at(by, data["x"].to_numpy(), [level] * len(data)) for level in "ab")
    compared = by.comparisons("g")
    difference = (b - a).mean(axis=1)
    draws = np.asarray(compared.draws).reshape(len(difference), -1)
    assert np.min(np.abs(draws - difference[:, None]).max(axis=0)) < 1e-8


def test_an_unknown_level_of_a_new_row_is_refused(by):
    with refused("data.unknown-level", "'d'"):
        by.predict(pd.DataFrame({"x": [1.0], "g": ["d"]}))


# -------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("formula", "code", "match"),
    [
        ("y ~ s(w)", "model.unknown-column", "'w'"),
        ("y ~ s(x, by=w)", "model.unknown-column", "'w'"),
        ("y ~ s(few)", "data.too-few", "k=10 .* there are 5: use k=5"),
        ("y ~ s(g)", "data.not-numbers", "'g' holds names"),
        ("y ~ s(x, by=year)", "data.not-states", "'year' holds numbers"),
        ("y ~ s(x, by=2)", "model.wrong-arguments", "takes a column"),
        ("y ~ s(x, k=2)", "model.wrong-arguments", "from 3 to 1,000, not 2"),
        ("y ~ s(x, k=2.5)", "model.wrong-arguments", "from 3 to 1,000"),
        ("y ~ s(x, df=5)", "model.unknown-option", "'df'"),
        ("y ~ s()", "model.wrong-arguments", "'x'"),
        ("y ~ s(x, z)", "model.wrong-arguments", "k is a whole number"),
        ("y ~ z:s(x)", "model.misplaced", r"s\(x, by=g\)"),
        ("y ~ z * s(x)", "model.misplaced", r"s\(x, by=g\)"),
        ("y ~ (s(x) | g)", "model.misplaced", r"s\(x, by=g\)"),
        ("y ~ log(s(x))", "model.misplaced", "a separate term"),
        ("y ~ s(x) + s(x, k=5)", "model.duplicate", r"'s\(x\)'"),
        ("y ~ s(x) + (1 | s_x)", "model.name-clash", "'sd_s_x'|'u_s_x'"),
        ("g ~ s(x)", "model.unsupported", "categorical"),
    ],
)
def test_wrong_smooths_are_refused_in_one_line_with_their_place(formula, code, match):
    data = table().assign(s_x=lambda d: d["g"])
    likelihood = "categorical" if formula.startswith("g") else "gaussian"
    with refused(code, match, where="model.formula"):
        bl.check(regression(formula, likelihood), data)


def test_priors_of_a_smooth_are_by_its_names():
    model = regression("y ~ s(x)", priors={"s(x)": "Normal(0, 0.5)", "sd_s_x": "HalfNormal(0.7)"})
    priors = Source(model).posterior(table()).priors()
    assert priors["b[s(x)]"] == "Normal(0, 0.5)"
    assert priors["sd_s_x"] == "HalfNormal(0.7)"
    with refused("model.unknown-parameter", "'sd_s_z'"):
        bl.check(regression("y ~ s(x)", priors={"sd_s_z": 1}), table())
    with refused("model.out-of-range", "'sd_s_x'"):
        bl.check(regression("y ~ s(x)", priors={"sd_s_x": -1}), table())


def test_rows_with_a_missing_predictor_or_level_are_dropped():
    data = table()
    data.loc[3, "g"] = None
    posterior = Source(regression("y ~ s(gap, k=4, by=g)")).posterior(data)
    whole = data.dropna(subset=["gap", "g"])
    assert posterior.lowered.design.n == len(whole) < len(data)
    same = Source(regression("y ~ s(gap, k=4, by=g)")).posterior(whole.reset_index(drop=True))
    np.testing.assert_allclose(posterior.lowered.design.curves[0].waves, same.lowered.design.curves[0].waves)


def test_too_many_knots_to_write_out_are_refused():
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"x": rng.normal(size=250), "y": rng.normal(size=250)})
    with refused("model.unsupported", "250 knots"):
        bl.expand(regression("y ~ s(x)"), data)
