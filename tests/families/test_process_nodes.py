"""Functions as nodes, ``f[row]: GaussianProcess(kernel)``: densities, predictions, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.families.graph.process_nodes import AtNewInputs
from bayeslab.latents.gaussian_process.covariance import Kernel
from bayeslab.posterior.forward import forward
from bayeslab.preparation import Source
from bayeslab.registry import load
from bayeslab.results.fitted import bound_to
from tests.densities import Density
from tests.refusals import refused

RNG = np.random.default_rng(7)
X = np.sort(RNG.uniform(0, 10, 25))
X[4] = X[3]  # two rows with the same input
DISTINCT, PLACE = np.unique(X, return_inverse=True)
DATA = {"x": X, "w": RNG.uniform(-1, 1, 25), "y": RNG.poisson(np.exp(1 + np.sin(X))).astype(float)}
PRIORS = {"ell": "InverseGamma(5, 5)", "s": "HalfNormal(1)", "a": "Normal(0, 2)"}


def model(f: str, y: str = "Poisson(exp(a + f))", more: dict[str, str] | None = None, **spec) -> bl.Model:
    nodes = PRIORS | (more or {}) | {"f[row]": f, "y[row]": y}
    return bl.Model(data={"rows": "row"}, model={"family": "graph", "nodes": nodes}, **spec)


def same_density(mine: pm.Model, theirs: pm.Model, names: dict[str, str], rtol: float = 1e-6) -> None:
    """Differences of log densities, and gradients, at random points; ``names`` of ours by those of theirs."""
    ours, other = Density.of(mine), Density.of(theirs)
    gaps = []
    for point in ours.points(np.random.default_rng(2), 3):
        value, slopes = ours.at(point)
        moved = {name: point[names.get(name, name)] for name in other.names}
        moved = {name: np.reshape(v, theirs[name].type.shape) for name, v in moved.items()}
        expected, theirs_slopes = other.at(moved)
        gaps.append(value - expected)
        for name, slope in theirs_slopes.items():
            size = max(1.0, float(np.abs(slope).max()))
            got = np.reshape(slopes[names.get(name, name)], np.shape(slope))
            np.testing.assert_allclose(got, slope, rtol=rtol, atol=rtol * size, err_msg=name)
    np.testing.assert_allclose(gaps, gaps[0], atol=rtol)


# ------------------------------------------------------------------------------------- densities


@pytest.mark.slow(why="compiles")
def test_density_of_a_latent_process_in_pymc():
    """``pm.gp.Latent`` at the distinct inputs; the jitter is a share of the variance here, and absolute there."""
    with pm.Model() as theirs:
        ell, s, a = pm.InverseGamma("ell", 5, 5), pm.HalfNormal("s", 1), pm.Normal("a", 0, 2)
        gp = pm.gp.Latent(cov_func=pm.gp.cov.Matern52(1, ell))
        f = s * gp.prior("f", DISTINCT[:, None], jitter=1e-8)
        pm.Poisson("y", pm.math.exp(a + f[PLACE]), observed=DATA["y"])
    mine = bl.to_pymc(model("GaussianProcess(Matern52(x, ell, s))"), data=DATA)
    assert {rv.name for rv in mine.free_RVs} == {"ell", "s", "a", "_f_z"}
    same_density(mine, theirs, {"f_rotated_": "_f_z"}, rtol=1e-5)


@pytest.mark.slow(why="compiles")
def test_sums_and_products_of_several_columns_in_pymc():
    with pm.Model() as theirs:
        ell, s, a = pm.InverseGamma("ell", 5, 5), pm.HalfNormal("s", 1), pm.Normal("a", 0, 2)
        wide = pm.HalfNormal("wide", 2)
        both = pm.gp.cov.ExpQuad(2, [ell, wide])
        waves = pm.gp.cov.Periodic(2, 3.0, ls=wide, active_dims=[0]) * pm.gp.cov.Matern32(2, ell, active_dims=[0])
        gp = pm.gp.Latent(cov_func=s**2 * both + 0.25 * waves)
        rows, place = np.unique(np.column_stack([X, DATA["w"]]), axis=0, return_inverse=True)
        f = gp.prior("f", rows, jitter=0.0)
        pm.Poisson("y", pm.math.exp(a + f[place.ravel()]), observed=DATA["y"])
    # PyMC's periodic function has sin²(π d / p) / (2 ℓ²) where ours has 2 sin²(π d / p) / ℓ².
    kernel = "ExpQuad(x, w, [ell, wide], s) + 0.25 * Periodic(x, 3, double) * Matern32(x, ell)"
    mine = model(f"GaussianProcess({kernel})", more={"wide": "HalfNormal(2)", "double": "2 * wide"})
    same_density(bl.to_pymc(mine, data=DATA), theirs, {"f_rotated_": "_f_z"}, rtol=1e-4)


@pytest.mark.slow(why="compiles")
def test_density_of_a_hilbert_space_process_in_pymc():
    """``pm.gp.HSGP`` with as many sines on the same box, which is as wide as the rule says."""
    law = stats.invgamma(5, scale=5)
    low, high = DISTINCT.min(), DISTINCT.max()
    half = 0.5 * (high - low) * 1.1  # inputs and 5 % on either side
    width = max(1.2 * half, half + 1.86 * law.ppf(0.95))
    with pm.Model() as theirs:
        ell, s, a = pm.InverseGamma("ell", 5, 5), pm.HalfNormal("s", 1), pm.Normal("a", 0, 2)
        gp = pm.gp.HSGP(m=[18], L=[width], cov_func=s**2 * pm.gp.cov.ExpQuad(1, ell))
        f = gp.prior("f", X[:, None])
        pm.Poisson("y", pm.math.exp(a + f), observed=DATA["y"])
    mine = bl.to_pymc(model("GaussianProcess(ExpQuad(x, ell, s), approximation=hsgp, functions=18)"), data=DATA)
    # Our width comes from a quantile that is summed up on a grid.
    same_density(mine, theirs, {"f_hsgp_coeffs": "_f_z"}, rtol=2e-3)


def values_of(built: pm.Model, point: dict[str, np.ndarray]) -> np.ndarray:
    """The function at given parameters, on their own scales."""
    return forward(built, {name: np.asarray(v)[None] for name, v in point.items()}, ["f"], 0, 1)["f"][0]


@pytest.mark.slow(why="compiles")
def test_values_are_a_factor_times_normals():
    built = bl.to_pymc(model("GaussianProcess(ExpQuad(x, ell, s) + Constant(2))"), data=DATA)
    z = RNG.normal(size=len(DISTINCT))
    got = values_of(built, {"ell": 1.5, "s": 0.7, "a": 0.0, "_f_z": z})
    k = 0.49 * np.exp(-0.5 * ((DISTINCT[:, None] - DISTINCT) / 1.5) ** 2) + 4
    lower = np.linalg.cholesky(k + 1e-8 * np.mean(np.diag(k)) * np.eye(len(k)))
    np.testing.assert_allclose(got, (lower @ z)[PLACE], atol=1e-6)


@pytest.mark.parametrize(
    ("kernel", "covariance"),
    [
        ("ExpQuad(x, ell, s)", lambda d: 0.49 * np.exp(-0.5 * (d / 1.5) ** 2)),
        ("Matern52(x, ell, s)", lambda d: 0.49 * (1 + (u := np.sqrt(5) * abs(d) / 1.5) + u**2 / 3) * np.exp(-u)),
        ("Periodic(x, 4, ell, s)", lambda d: 0.49 * np.exp(-2 * np.sin(np.pi * d / 4) ** 2 / 1.5**2)),
        ("Constant(s) + ExpQuad(x, ell, 1)", lambda d: 0.49 + np.exp(-0.5 * (d / 1.5) ** 2)),
    ],
)
def test_sines_have_the_covariance_of_the_kernel(kernel, covariance):
    built = bl.to_pymc(model(f"GaussianProcess({kernel}, approximation=hsgp)", y="StudentT(4, f, a ** 2)"), data=DATA)
    count = len(built.coords["f_functions"])
    given = {"ell": np.full(count, 1.5), "s": np.full(count, 0.7), "a": np.ones(count), "_f_z": np.eye(count)}
    given = {name: v for name, v in given.items() if name in built.named_vars}
    features = forward(built, given, ["f"], 0, count)["f"]
    np.testing.assert_allclose(features.T @ features, covariance(X[:, None] - X), atol=0.01)


def test_functions_of_people_and_of_levels():
    """One function for each person at the same times; a function of two columns one of which holds names."""
    data = {"day": np.arange(6.0), "y": RNG.normal(size=(2, 6))}
    nodes = PRIORS | {
        "t[day]": "index(day) / 2",
        "f[person, day]": "GaussianProcess(ExpQuad(t, ell, s))",
        "y[person, day]": "StudentT(4, f, 1)",
    }
    spec = bl.Model(
        data={"rows": "day", "dims": {"y": ["person", "day"]}},
        dims={"person": ["a", "b"], "day": 6},
        model={"family": "graph", "nodes": nodes},
    )
    built = bl.to_pymc(spec, data={"y": data["y"]})
    z = RNG.normal(size=(2, 6))
    got = values_of(built, {"ell": 1.5, "s": 0.7, "a": 0.0, "_f_z": z})
    t = np.arange(6) / 2
    k = 0.49 * np.exp(-0.5 * ((t[:, None] - t) / 1.5) ** 2)
    np.testing.assert_allclose(got, z @ np.linalg.cholesky(k + 0.49e-8 * np.eye(6)).T, atol=1e-6)
    names = np.where(np.arange(25) % 2, "u", "v")
    kernel = "Coregion(kind, 1, [1, 2], [0.5, 0.5]) * ExpQuad(x, ell)"
    built = bl.to_pymc(model(f"GaussianProcess({kernel})"), data=DATA | {"kind": names})
    assert built["f"].type.shape == (25,)


def test_labels_that_are_numbers_are_inputs():
    """Of the node's dimension: the years that rows are called, and the places of a length."""
    nodes = {"f[year]": "GaussianProcess(ExpQuad(year, 2.0, 0.5))", "y[year]": "StudentT(4, f, 1)"}
    spec = bl.Model(data={"rows": "year"}, model={"family": "graph", "nodes": nodes})
    years, z = np.array([1851, 1853, 1854, 1860]), RNG.normal(size=4)
    got = values_of(bl.to_pymc(spec, data={"year": years, "y": np.zeros(4)}), {"_f_z": z})
    k = 0.25 * np.exp(-0.5 * ((years[:, None] - years) / 2.0) ** 2)
    np.testing.assert_allclose(got, np.linalg.cholesky(k + 0.25e-8 * np.eye(4)) @ z, atol=1e-9)
    spec = bl.Model(data={"rows": "year"}, dims={"year": 4}, model={"family": "graph", "nodes": nodes})
    got = values_of(bl.to_pymc(spec, data={"y": np.zeros(4)}), {"_f_z": z})
    k = 0.25 * np.exp(-0.5 * ((np.arange(4)[:, None] - np.arange(4)) / 2.0) ** 2)
    np.testing.assert_allclose(got, np.linalg.cholesky(k + 0.25e-8 * np.eye(4)) @ z, atol=1e-9)


# ------------------------------------------------------------------------------------ predictions


@pytest.mark.slow(why="compiles")
def test_weights_and_spread_at_new_inputs():
    """With f = L z at the old inputs: A L⁻¹ = K(new, old) K(old, old)⁻¹, and C C' is the covariance that is left."""
    x, new = np.array([[0.0], [1.0], [2.5]]), np.array([[0.3], [4.0]])
    kernel = Kernel.parse("ExpQuad(x, ell, s)", ["x"], ["ell", "s"])
    weights, spread = (part.eval() for part in AtNewInputs(kernel, x, new)(np.array([1.5, 0.7])))

    def covariance(p, q):
        return 0.49 * np.exp(-0.5 * ((p - q.T) / 1.5) ** 2)

    old = covariance(x, x) + 0.49e-8 * np.eye(3)
    gain = covariance(new, x) @ np.linalg.inv(old)
    np.testing.assert_allclose(weights, gain @ np.linalg.cholesky(old), atol=1e-9)
    np.testing.assert_allclose(spread @ spread.T, covariance(new, new) - gain @ covariance(x, new), atol=1e-9)


@pytest.mark.slow(why="compiles")
def test_new_inputs_are_normal_given_the_old():
    """Mean K(new, old) K(old, old)⁻¹ f and the covariance that is left; known inputs have the value they had."""
    spec = model("GaussianProcess(Matern52(x, ell, s))")
    fitted = load("families", "graph")
    bound = bl.fit(spec, data=DATA, method="map", runs=None, progress=False)
    new = np.array([X[7], 2.25, 12.0])
    built = fitted.compile(spec, bound_to(bound, pd.DataFrame({"x": new}))).graph(purpose="predict", targets=("y",))
    count, z = 4_000, RNG.normal(size=len(DISTINCT))
    given = {"ell": 1.5, "s": 0.7, "a": 0.0, "_f_z": z}
    drawn = forward(built, {n: np.broadcast_to(v, (count, *np.shape(v))) for n, v in given.items()}, ["f"], 1, count)[
        "f"
    ]

    def covariance(p, q):
        u = np.sqrt(5) * np.abs(p[:, None] - q) / 1.5
        return 0.49 * (1 + u + u**2 / 3) * np.exp(-u)

    old = covariance(DISTINCT, DISTINCT) + 0.49e-8 * np.eye(len(DISTINCT))
    f = np.linalg.cholesky(old) @ z
    across = covariance(new, DISTINCT)
    mean = across @ np.linalg.solve(old, f)
    rest = covariance(new, new) - across @ np.linalg.solve(old, across.T)
    assert np.all(drawn[:, 0] == drawn[0, 0])
    assert drawn[0, 0] == pytest.approx(f[PLACE[7]], abs=1e-6)
    for k in (1, 2):
        error = np.sqrt(rest[k, k] / count)
        assert abs(drawn[:, k].mean() - mean[k]) < 4 * error
        assert drawn[:, k].var() == pytest.approx(rest[k, k], rel=5 * np.sqrt(2 / count))


# -------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("f", "code", "match"),
    [
        ("GaussianProcess()", "model.wrong-arguments", "covariance"),
        ("GaussianProcess(Matern52(x, ell))", "model.incomplete", "scale"),
        ("GaussianProcess(Matern52(x))", "model.incomplete", "lengthscale"),
        ("GaussianProcess(Matern53(x, ell, s))", "model.unknown-function", "Matern52"),
        ("GaussianProcess(Matern52(xx, ell, s))", "model.unknown-name", "xx"),
        ("GaussianProcess(Matern52(x, b, s))", "model.unsupported", "b"),
        ("GaussianProcess(Matern52(x, a, s))", "model.out-of-range", "a"),
        ("GaussianProcess(Matern52(x, -1, s))", "model.out-of-range", "lengthscale"),
        ("GaussianProcess(Matern52(x, ell, s) + White(s))", "model.unsupported", "White"),
        ("GaussianProcess(Matern52(x, ell, s) - Constant(1))", "model.syntax", "difference"),
        ("GaussianProcess(Matern52(x, ell, s), approximation=sparse)", "model.unknown-word", "sparse"),
        ("GaussianProcess(Constant(s))", "model.incomplete", "column"),
        ("GaussianProcess(Matern12(x, ell, s), approximation=hsgp)", "model.unsupported", "Matern12"),
        ("GaussianProcess(Matern52(x, ell, s), functions=20)", "model.conflict", "functions"),
        ("GaussianProcess(Matern52(x, ell, s), approximation=hsgp, functions=0)", "model.out-of-range", "functions"),
        ("GaussianProcess(Matern52(x, ell, s), approximation=hsgp, domain=[3, 1])", "model.out-of-range", "domain"),
        ("GaussianProcess(Matern52(x, ell, s), approximation=hsgp, domain=[3, 4])", "model.out-of-range", "domain"),
        ("GaussianProcess(Matern52(x, ell, s), length=2)", "model.unknown-parameter", "length"),
        ("GaussianProcess(Matern52(name, ell, s))", "model.not-numbers", "name"),
        ("GaussianProcess(Matern52(gap, ell, s))", "data.missing", "row 3"),
        ("GaussianProcess(Matern52(beyond, ell, s))", "data.not-finite", "'beyond', row 3"),
        ("GaussianProcess(Matern52(same, ell, s))", "data.constant", "same"),
        ("GaussianProcess(Matern52(f, ell, s))", "model.self-reference", "f"),
        ("2 * GaussianProcess(Matern52(x, ell, s))", "model.misplaced", "GaussianProcess"),
    ],
)
def test_what_no_function_is(f, code, match):
    gap, beyond = X.copy(), X.copy()
    gap[2], beyond[2] = np.nan, np.inf
    data = DATA | {"name": np.where(X > 3, "u", "v"), "gap": gap, "beyond": beyond, "same": np.ones(25)}
    with refused(code, match, where="model.nodes.f[row]"):
        bl.to_pymc(model(f, more={"b[row]": "Normal(0, 1)"}), data=data)


def test_a_function_is_not_observed_and_has_a_dimension():
    nodes = PRIORS | {"y[row]": "GaussianProcess(Matern52(x, ell, s))"}
    spec = bl.Model(data={"rows": "row"}, model={"family": "graph", "nodes": nodes})
    with refused("model.misplaced", "noise", where="model.nodes.y[row]"):
        bl.to_pymc(spec, data=DATA)
    nodes = PRIORS | {"f": "GaussianProcess(Matern52(x, ell, s))", "y[row]": "Normal(f, 1)"}
    spec = bl.Model(data={"rows": "row"}, model={"family": "graph", "nodes": nodes})
    with refused("model.bad-dimensions", "dimension", where="model.nodes.f"):
        bl.to_pymc(spec, data=DATA)


@pytest.mark.slow(why="compiles")
def test_new_inputs_beyond_the_sines():
    spec = model("GaussianProcess(Matern52(x, ell, s), approximation=hsgp)")
    fit = bl.fit(spec, data=DATA, method="map", runs=None, progress=False)
    with refused("data.out-of-range", "domain", where="model.nodes.f[row]"):
        fit.predict(pd.DataFrame({"x": [30.0]}))


def test_lengthscales_that_the_sines_do_not_serve():
    """Forty sines are too slow for a lengthscale of 0.1, and the box is too narrow for one of 50."""
    spec = model("GaussianProcess(Matern52(x, ell, s), approximation=hsgp, functions=40)")
    family, data = load("families", "graph"), Source(spec).bound(DATA)
    short = family.compile(spec, data).posterior_findings({"ell": np.full(100, 0.1)})
    assert [finding[:2] for finding in short] == [("functions", "ell")]
    assert family.compile(spec, data).posterior_findings({"ell": np.full(100, 2.0)}) == ()
    assert [finding[:2] for finding in family.compile(spec, data).posterior_findings({"ell": np.full(100, 50.0)})] == [
        ("box", "ell")
    ]


def test_the_drawing_has_the_columns_and_hyperparameters():
    spec = model("GaussianProcess(Matern52(x, ell, s))")
    drawn = load("families", "graph").compile(spec, Source(spec).bound(DATA)).network()
    assert set(drawn.predecessors("f")) == {"x", "ell", "s"}
    assert drawn.nodes["f"]["kind"] == "random"
    assert "f" in drawn.predecessors("y")


# --------------------------------------------------------------------------------------- answers


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("approximation", [None, "hsgp"])
def test_the_family_of_processes_has_the_same_posterior(approximation):
    """Counts about the same function with the same priors."""
    word = "" if approximation is None else ", approximation=hsgp"
    mine = model(f"GaussianProcess(Matern52(x, ell, s){word})")
    spec = {
        "family": "gaussian_process",
        "target": "y",
        "likelihood": "poisson",
        "kernel": "Matern52(x, ell, s)",
        "priors": {"ell": PRIORS["ell"], "s": PRIORS["s"], "Intercept": PRIORS["a"]},
    }
    theirs = bl.Model(data={"rows": "row"}, model=spec | ({} if approximation is None else {"approximation": "hsgp"}))
    options = {"method": "nuts", "runs": None, "progress": False, "draws": 800, "target_accept": 0.95}
    first, second = (bl.fit(one, data=DATA, seed=k, **options) for k, one in enumerate((mine, theirs)))
    one, other = first.summary(), second.summary()
    for name, word in (("ell", "ell"), ("s", "s"), ("a", "Intercept")):
        error = np.hypot(one.loc[name, "mcse_mean"], other.loc[word, "mcse_mean"])
        assert abs(one.loc[name, "mean"] - other.loc[word, "mean"]) < 4 * error, name
    new = pd.DataFrame({"x": np.array([0.5, 3.3, 8.0])})
    ours, theirs = first.predict(new), second.predict(new)
    np.testing.assert_allclose(ours["mean"], theirs["mean"], atol=0.25)


@pytest.mark.slow(why="statistical")
def test_a_function_of_normal_observations_is_that_in_closed_form():
    """With known hyperparameters the posterior of the function is normal."""
    y = np.sin(X) + 0.3 * np.random.default_rng(1).normal(size=25)
    nodes = {"f[row]": "GaussianProcess(ExpQuad(x, 1.2, 0.9))", "y[row]": "Normal(f, 0.3)"}
    spec = bl.Model(data={"rows": "row"}, model={"family": "graph", "nodes": nodes})
    fit = bl.fit(spec, data={"x": X, "y": y}, seed=3, runs=None, progress=False, draws=2000)
    k = 0.81 * np.exp(-0.5 * ((X[:, None] - X) / 1.2) ** 2)
    gain = k @ np.linalg.inv(k + 0.09 * np.eye(25))
    mean, sd = gain @ y, np.sqrt(np.diag(k - gain @ k))
    rows = fit.summary(var_names=["f"])
    assert np.all(np.abs(rows["mean"] - mean) < 4.5 * rows["mcse_mean"])
    np.testing.assert_allclose(rows["sd"], sd, rtol=0.1)
