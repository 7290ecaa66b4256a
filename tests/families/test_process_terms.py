"""Gaussian processes in formulas: gp(x) and gp(x, by=g), in the sines of a Hilbert space.

The truth is the squared exponential covariance itself, and densities written with NumPy and SciPy.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.posterior.machine.density import MachineDensity
from bayeslab.preparation import Source
from tests.densities import agree
from tests.refusals import refused


def table(n: int = 80) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    x = rng.uniform(0, 10, n)
    return pd.DataFrame(
        {
            "x": x,
            "z": rng.normal(size=n),
            "g": np.array(["a", "b"])[np.arange(n) % 2],
            "one": 3.0,
            "year": np.arange(n) % 3,
            "y": np.sin(x) + 0.5 * rng.normal(size=n),
            "count": rng.poisson(np.exp(0.5 + np.sin(x))),
        }
    )


def regression(formula: object, likelihood: str = "gaussian", **more: object) -> bl.Model:
    return bl.Model(data={"rows": "row"}, model=bl.Regression(formula=formula, likelihood=likelihood, **more))


def centred(x: np.ndarray, rows: np.ndarray, length: float) -> np.ndarray:
    """Covariance of f(x) less the mean of f over the rows, f with a squared exponential covariance of variance 1."""
    both = np.concatenate([x, rows])
    whole = np.exp(-0.5 * ((both[:, None] - both) / length) ** 2)
    n = len(x)
    move = np.hstack([np.eye(n), np.full((n, len(rows)), -1 / len(rows))])
    return move @ whole @ move.T


@pytest.mark.parametrize("length", [0.6, 1.5, 3.5])
def test_the_covariance_is_the_squared_exponential_one(length):
    """Of lengths that the sines serve, by the rule of their paper; at rows, between them, and near them."""
    data = table()
    (curve,) = Source(regression("y ~ gp(x)")).posterior(data).lowered.design.curves
    least, largest = curve.basis.served
    assert least < length < largest
    x = np.linspace(-1, 11, 25)
    spectral = np.sqrt(2 * np.pi) * length * np.exp(-0.5 * (length * curve.basis.frequencies) ** 2)
    ours = curve.basis.waves(x) * spectral @ curve.basis.waves(x).T
    np.testing.assert_allclose(ours, centred(x, data["x"].to_numpy(), length), atol=2e-3)


def test_the_density_is_that_of_scipy_also_where_sines_are_nearly_alike_over_the_rows():
    """Rows enter through sums. No least-squares point of fifty sines is near anything."""
    data = table(200)
    priors = {"Intercept": "Normal(0, 2)", "sigma": "Exponential(1)", "sd_gp_x": "HalfNormal(2)"}
    posterior = Source(regression("y ~ gp(x)", priors=priors)).posterior(data)
    assert posterior.lowered.summable
    (curve,) = posterior.lowered.design.curves
    density = MachineDensity(posterior.machine_model(), lambda: None)
    y, rng = data["y"].to_numpy(), np.random.default_rng(1)
    extent = np.ptp(data["x"].to_numpy())
    scale = float(f"{0.5 * extent:.6g}")
    for _ in range(3):
        at = {name: 0.5 * rng.normal(size=shape) for name, shape in zip(density.names, density.shapes, strict=True)}
        sd, length, sigma = (np.exp(at[f"{name}_log__"]) for name in ("sd_gp_x", "length_gp_x", "sigma"))
        spectral = np.sqrt(2 * np.pi) * length * np.exp(-0.5 * (length * curve.basis.frequencies) ** 2)
        mean = at["Intercept"] + curve.waves @ (sd * np.sqrt(spectral) * at["_raw_gp_x"])
        expected = stats.norm(mean, sigma).logpdf(y).sum() + stats.norm(0, 2).logpdf(at["Intercept"])
        expected += stats.norm.logpdf(at["_raw_gp_x"]).sum() + stats.expon.logpdf(sigma)
        expected += stats.halfnorm(scale=2).logpdf(sd) + stats.invgamma(3, scale=scale).logpdf(length)
        expected += sum(at[f"{name}_log__"] for name in ("sd_gp_x", "length_gp_x", "sigma"))
        assert density(density.flat(at))[0] == pytest.approx(float(expected), rel=1e-9)


def test_sums_over_rows_are_precise_where_a_level_has_fewer_rows_than_functions():
    """Of a smooth, too: two rows of a level do not determine eight functions."""
    data = table(200).assign(h=np.where(np.arange(200) < 198, "a", "b"))
    posterior = Source(regression("y ~ h + s(x, by=h)")).posterior(data)
    assert posterior.lowered.summable
    density = MachineDensity(posterior.machine_model(), lambda: None)
    graph = MachineDensity(
        Source(bl.expand(regression("y ~ h + s(x, by=h)"), data)).posterior(data).machine_model(), lambda: None
    )
    rng, offsets = np.random.default_rng(2), []
    for _ in range(3):
        at = {name: 0.5 * rng.normal(size=shape) for name, shape in zip(density.names, density.shapes, strict=True)}
        offsets.append(density(density.flat(at))[0] - graph(graph.flat(at))[0])
    np.testing.assert_allclose(offsets, offsets[0], rtol=0, atol=1e-6)


WRITTEN = {
    "one": ("y ~ gp(x, k=12) + z", "gaussian"),
    "by": ("count ~ g + gp(log(x), k=8, c=3, by=g)", "poisson"),
    "sigma": ({"mu": "y ~ gp(x, k=6) + s(x, k=4)", "sigma": "~ gp(z, k=5) + (1 | g)"}, "student_t"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "one" else pytest.mark.slow(why="compiles")) for n in WRITTEN]
)
def test_the_density_is_that_of_the_model_written_out(name):
    formula, likelihood = WRITTEN[name]
    model = regression(formula, likelihood)
    agree(bl.to_pymc(model, table()), bl.to_pymc(bl.expand(model, table()), table()), rtol=1e-9)


@pytest.fixture(scope="module")
def fit() -> bl.Fit:
    return bl.fit(regression("count ~ g + gp(x, k=10, by=g)", "poisson"), table(), seed=1, runs=None, progress=False,
                  draws=300)  # fmt: skip


def curve_at(fit: bl.Fit, x: np.ndarray, levels: list[str]) -> np.ndarray:
    """The linear predictor at each draw, put together from its definition, (draws, rows)."""
    basis = Source(regression("count ~ g + gp(x, k=10, by=g)", "poisson")).posterior(table()).lowered.design.curves[0]
    flat = {name: (v := fit.posterior[name].to_numpy()).reshape(-1, *v.shape[2:])
            for name in ("Intercept", "b", "_raw_gp_x_g", "sd_gp_x_g", "length_gp_x_g")}  # fmt: skip
    waves, frequency = basis.basis.waves(x), basis.basis.frequencies
    out = flat["Intercept"][:, None] + flat["b"] * np.array([level == "b" for level in levels])
    for k, level in enumerate(levels):
        at = "ab".index(level)
        length = flat["length_gp_x_g"][:, [at]]
        root = (2 * np.pi) ** 0.25 * np.sqrt(length) * np.exp(-((length * frequency) ** 2) / 4)
        out[:, k] += flat["sd_gp_x_g"][:, at] * ((flat["_raw_gp_x_g"][:, at] * root) @ waves[k])
    return out


@pytest.mark.slow(why="compiles")
def test_predictions_and_slopes_are_those_of_the_definition(fit):
    new = pd.DataFrame({"x": [-1.0, 4.0, 12.0], "g": ["a", "b", "b"]})
    truth = np.exp(curve_at(fit, new["x"].to_numpy(), list(new["g"])))
    np.testing.assert_allclose(np.asarray(fit.predictions(new).draws).reshape(truth.shape), truth, rtol=1e-8)
    data, step = table(), 1e-4
    up, down = (np.exp(curve_at(fit, data["x"].to_numpy() + h, list(data["g"]))) for h in (step, -step))
    slopes = ((up - down) / (2 * step)).mean(axis=1)
    np.testing.assert_allclose(np.ravel(fit.slopes("x").draws), slopes, rtol=1e-3, atol=1e-3)
    assert not any(name.startswith(("u_gp", "_u_gp")) for name in fit.summary().index)


def test_values_beyond_the_domain_are_refused(fit):
    with refused("data.out-of-range", "99 is beyond the domain .* larger c"):
        fit.predict(pd.DataFrame({"x": [99.0], "g": ["a"]}))


@pytest.mark.parametrize(
    ("formula", "code", "match"),
    [
        ("y ~ gp(w)", "model.unknown-column", "'w'"),
        ("y ~ gp(one)", "data.constant", "constant"),
        ("y ~ gp(g)", "data.not-numbers", "'g' holds names"),
        ("y ~ gp(x, by=year)", "data.not-states", "'year' holds numbers"),
        ("y ~ gp(x, c=0.5)", "model.wrong-arguments", "above 0.5"),
        ("y ~ gp(x, c='a')", "model.wrong-arguments", "c is a number"),
        ("y ~ gp(x, k=1)", "model.wrong-arguments", "from 3"),
        ("y ~ z:gp(x)", "model.misplaced", r"by=g"),
        ("y ~ (gp(x) | g)", "model.misplaced", r"by=g"),
        ("y ~ log(gp(x))", "model.misplaced", "a separate term"),
        ("y ~ gp(x) + gp(x, k=5)", "model.duplicate", r"'gp\(x\)'"),
        ("g ~ gp(x)", "model.unsupported", "categorical"),
    ],
)
def test_wrong_processes_are_refused_in_one_line_with_their_place(formula, code, match):
    likelihood = "categorical" if formula.startswith("g") else "gaussian"
    with refused(code, match, where="model.formula"):
        bl.check(regression(formula, likelihood), table())


def test_priors_of_a_process_are_by_its_names():
    model = regression("y ~ gp(x)", priors={"sd_gp_x": "HalfNormal(1)", "length_gp_x": "LogNormal(0, 1)"})
    priors = Source(model).posterior(table()).priors()
    assert (priors["sd_gp_x"], priors["length_gp_x"]) == ("HalfNormal(1)", "LogNormal(0, 1)")
    with refused("model.out-of-range", "'length_gp_x'"):
        bl.check(regression("y ~ gp(x)", priors={"length_gp_x": -1}), table())
    assert "depends on its length" in Source(model).posterior(table()).exact_plan


def test_the_check_says_how_a_process_is_approximated_and_the_verdict_where_that_does_not_suffice():
    """Of lengths that are too short for ten sines, and too long for their domain."""
    data = table(200)
    priors = Source(regression("y ~ gp(x)")).posterior(data).priors()
    assert priors["gp(x)"].startswith("Gaussian process in 50 sines, for lengths from")
    posterior = Source(regression("y ~ gp(x, k=10)")).posterior(data)
    basis = posterior.lowered.design.curves[0].basis
    least, largest = basis.served
    rng = np.random.default_rng(1)
    (short,) = posterior.posterior_findings({"length_gp_x": least * rng.uniform(0.5, 1.5, 1000)})
    assert short[:2] == ("functions", "length_gp_x")
    assert "k=19 in gp(x)" in short[4] or "k=18 in gp(x)" in short[4]
    (wide,) = posterior.posterior_findings({"length_gp_x": largest * rng.uniform(1, 5, 1000)})
    assert wide[:2] == ("box", "length_gp_x")
    assert posterior.posterior_findings({"length_gp_x": np.full(100, 0.5 * (least + largest))}) == ()
    by = Source(regression("count ~ g + gp(x, k=10, by=g)", "poisson")).posterior(data)
    lengths = np.column_stack(
        [np.full(100, 1.0 * np.mean(by.lowered.design.curves[0].basis.served)), np.full(100, 1e-3)]
    )
    assert [finding[1] for finding in by.posterior_findings({"length_gp_x_g": lengths})] == ["length_gp_x_g[b]"]
