"""Functions integrated out of normal rows: the density of jointly normal rows, and functions given the data."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.posterior.forward import forward
from bayeslab.posterior.transforms import tables_at
from bayeslab.preparation import Source
from bayeslab.registry import load
from bayeslab.results.fitted import bound_to
from tests.densities import Density

GRAPH = load("families", "graph")
RNG = np.random.default_rng(3)
N = 24
X = np.round(RNG.uniform(0, 6, N), 1)  # some of them twice
X[5], X[6] = X[4], X[4]
DATA: dict[str, Any] = {
    "x": X, "w": RNG.normal(size=N), "on": (np.arange(N) % 3 > 0).astype(float), "z": RNG.normal(size=N),
    "g": np.array(["u", "v", "w"])[np.arange(N) % 3], "y": np.sin(X) + 0.4 * RNG.normal(size=N),
}  # fmt: skip
PRIORS = {
    "ell": "InverseGamma(5, 5)", "s": "HalfNormal(1)", "a": "Normal(0, 2)", "b": "Normal(1, 1)",
    "sigma": "HalfNormal(1)", "of[g]": "Normal(0, 1)",
}  # fmt: skip


def model(nodes: dict[str, str], rows: str, **spec: Any) -> bl.Model:
    whole = PRIORS | nodes | {"y[row]": rows}
    return bl.Model(data={"rows": "row"}, model={"family": "graph", "nodes": whole}, **spec)


def matern(x: np.ndarray, ell: float, s: float) -> np.ndarray:
    u = np.sqrt(5) * np.abs(x[:, None] - x) / ell
    return s**2 * (1 + u + u**2 / 3) * np.exp(-u)


def expquad(x: np.ndarray, ell: float, s: float) -> np.ndarray:
    return s**2 * np.exp(-0.5 * ((x[:, None] - x) / ell) ** 2)


F = {"f[row]": "GaussianProcess(Matern52(x, ell, s))"}
H = {"h[row]": "GaussianProcess(ExpQuad(z, 0.7, s))"}
PEOPLE = {"f[g, row]": "GaussianProcess(Matern52(x, ell, s))"}
CODES = np.arange(N) % 3
SAME = CODES[:, None] == CODES


def _of(p: dict[str, Any]) -> np.ndarray:
    return np.asarray(p["of"])[CODES]


#: Nodes, the rows, and their mean, covariance of functions and standard deviations by parameters.
CASES: dict[str, tuple[dict[str, str], str, Any]] = {
    "alone": (F, "Normal(f, sigma)", lambda p: (0 * X, matern(X, p["ell"], p["s"]), p["sigma"])),
    "beside": (
        F, "Normal(a + of[g] + f + b * w, sigma * exp(0.1 * w))",
        lambda p: (p["a"] + _of(p) + p["b"] * DATA["w"], matern(X, p["ell"], p["s"]), p["sigma"] * np.exp(0.1 * DATA["w"])),
    ),
    "scaled by a parameter": (
        F, "Normal(a - b * f / 2, sigma)", lambda p: (p["a"], 0.25 * p["b"] ** 2 * matern(X, p["ell"], p["s"]), p["sigma"]),
    ),
    "scaled by data": (
        F, "Normal(a + on * f, sigma)",
        lambda p: (p["a"], np.outer(DATA["on"], DATA["on"]) * matern(X, p["ell"], p["s"]), p["sigma"]),
    ),
    "scaled by effects": (
        F, "Normal(a + of[g] * f, sigma)", lambda p: (p["a"], np.outer(_of(p), _of(p)) * matern(X, p["ell"], p["s"]), p["sigma"]),
    ),
    "two functions": (
        F | H, "Normal(a + f + h, sigma)",
        lambda p: (p["a"], matern(X, p["ell"], p["s"]) + expquad(DATA["z"], 0.7, p["s"]), p["sigma"]),
    ),
    "two functions that are scaled": (
        F | H, "Normal(a + of[g] * f - b * h + on * h, sigma)",
        lambda p: (
            p["a"],
            np.outer(_of(p), _of(p)) * matern(X, p["ell"], p["s"])
            + np.outer(DATA["on"] - p["b"], DATA["on"] - p["b"]) * expquad(DATA["z"], 0.7, p["s"]),
            p["sigma"],
        ),
    ),
    "through a computed node": (
        F | {"mean[row]": "a + f", "twice[row]": "2 * mean"}, "Normal(twice, sigma)",
        lambda p: (2 * p["a"], 4 * matern(X, p["ell"], p["s"]), p["sigma"]),
    ),
}  # fmt: skip


def point_of(built: Any, seed: int = 2) -> dict[str, np.ndarray]:
    return Density.of(built).points(np.random.default_rng(seed), 1)[0]


def prior(p: dict[str, Any]) -> float:
    total = stats.invgamma.logpdf(p["ell"], 5, scale=5) + stats.halfnorm.logpdf(p["s"])
    total += stats.norm.logpdf(p["a"], 0, 2) + stats.norm.logpdf(p["b"], 1, 1) + stats.halfnorm.logpdf(p["sigma"])
    return float(total + stats.norm.logpdf(p["of"]).sum())


def rows_density(case: str, p: dict[str, Any], there: np.ndarray) -> float:
    mean, covariance, sd = CASES[case][2](p)
    mean = np.broadcast_to(mean, N)[there]
    whole = covariance + np.diag(np.broadcast_to(sd, N) ** 2)
    return float(stats.multivariate_normal.logpdf(DATA["y"][there], mean, whole[np.ix_(there, there)]))


def agrees(case: str, data: dict[str, Any]) -> None:
    """Values against SciPy's, gradients against differences of them."""
    nodes, rows, _ = CASES[case]
    built = bl.to_pymc(model(nodes, rows), data=data)
    assert not {rv.name for rv in built.free_RVs} & {"_f_z", "_h_z"}
    there = np.flatnonzero(~np.isnan(data["y"]))
    density = Density.of(built)
    for point in density.points(np.random.default_rng(2), 2):
        value, slopes = density.at(point)
        assert value == pytest.approx(prior(point) + rows_density(case, point, there), rel=1e-8)
        for name, slope in slopes.items():
            for k in range(np.size(point[name])):
                step = np.zeros(np.size(point[name]))
                step[k] = 1e-5

                def at(sign: float, name: str = name, step: np.ndarray = step, point: dict[str, Any] = point) -> float:
                    moved = point | {name: point[name] + sign * step.reshape(np.shape(point[name]))}
                    return prior(moved) + rows_density(case, moved, there)

                wanted = (at(1) - at(-1)) / 2e-5
                assert np.ravel(slope)[k] == pytest.approx(wanted, rel=1e-5, abs=1e-5), (name, k)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("case", ["alone", "beside"])
def test_density_of_rows(case):
    agrees(case, DATA)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("case", sorted(CASES.keys() - {"alone", "beside"}))
def test_density_of_any_rows(case):
    agrees(case, DATA)


def test_rows_without_data_are_left_out():
    y = DATA["y"].copy()
    y[[2, 9]] = np.nan
    agrees("beside", DATA | {"y": y})


def test_functions_of_people_are_independent():
    """Each of three people has a function at the same times; a row is of one of them."""
    nodes = {"t[day]": "index(day) / 2", "f[person, day]": "GaussianProcess(ExpQuad(t, ell, s))"} | PRIORS
    del nodes["of[g]"]
    y = RNG.normal(size=(3, 7))
    y[1, 2] = np.nan
    spec = bl.Model(
        data={"rows": "day", "dims": {"y": ["person", "day"]}}, dims={"person": ["a", "b", "c"], "day": 7},
        model={"family": "graph", "nodes": nodes | {"y[person, day]": "Normal(a + b * f, sigma)"}},
    )  # fmt: skip
    built = bl.to_pymc(spec, data={"y": y})
    assert "_f_z" not in {rv.name for rv in built.free_RVs}
    p = point_of(built)
    cov = p["b"] ** 2 * expquad(np.arange(7) / 2, p["ell"], p["s"]) + p["sigma"] ** 2 * np.eye(7)
    wanted = prior(p | {"of": np.zeros(0)})
    for own in y:
        k = np.flatnonzero(~np.isnan(own))
        wanted += stats.multivariate_normal.logpdf(own[k], np.full(len(k), p["a"]), cov[np.ix_(k, k)])
    assert Density.of(built).at(p)[0] == pytest.approx(wanted, rel=1e-8)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("case", ["one", "two", "scaled"])
def test_density_of_sums_of_sines(case):
    """The covariance is that of the sines, which the sampled form has made of independent normals."""
    word = ", approximation=hsgp, functions=12)"
    nodes = {"f[row]": f"GaussianProcess(Matern52(x, ell, s){word}"}
    if case != "one":
        nodes["h[row]"] = f"GaussianProcess(ExpQuad(z, 2, s){word}"
    rows = {"one": "a + f", "two": "a + f + h", "scaled": "a + of[g] * f - b * h"}[case]
    spec = model(nodes, f"Normal({rows}, sigma)")
    built = bl.to_pymc(spec, data=DATA)
    assert not {rv.name for rv in built.free_RVs} & {"_f_z", "_h_z"}
    density, data = Density.of(built), Source(spec).bound(DATA)
    whole = GRAPH.compile(spec, data).graph(purpose="predict")

    def at(p: dict[str, Any]) -> float:
        covariance = np.zeros((N, N))
        for name, scale in (("f", _of(p) if case == "scaled" else 1.0), ("h", -p["b"] if case == "scaled" else 1.0)):
            if f"{name}[row]" in nodes:
                given = {key: np.broadcast_to(v, (12, *np.shape(v))) for key, v in p.items()}
                others = {f"_{key[0]}_z": np.zeros((12, 12)) for key in nodes}
                features = forward(whole, given | others | {f"_{name}_z": np.eye(12)}, [name], 0, 12)[name]
                covariance += np.outer(np.broadcast_to(scale, N), np.broadcast_to(scale, N)) * (features.T @ features)
        return prior(p) + float(
            stats.multivariate_normal.logpdf(DATA["y"], np.full(N, p["a"]), covariance + p["sigma"] ** 2 * np.eye(N))
        )

    point = point_of(built)
    value, slopes = density.at(point)
    assert value == pytest.approx(at(point), rel=1e-8)
    for name in ("ell", "s", "b", "sigma", "a"):
        wanted = (at(point | {name: point[name] + 1e-5}) - at(point | {name: point[name] - 1e-5})) / 2e-5
        assert slopes[name] == pytest.approx(wanted, rel=1e-5, abs=1e-5), name


# ------------------------------------------------------------------------------ given the data


TRUTH = {
    "ell": np.array(1.3), "s": np.array(0.8), "a": np.array(0.2), "b": np.array(1.4), "sigma": np.array(0.5),
    "of": np.array([0.5, 1.0, -0.7]),
}  # fmt: skip


def repeated(count: int) -> dict[str, np.ndarray]:
    return {name: np.broadcast_to(v, (count, *v.shape)).copy() for name, v in TRUTH.items()}


def given_data(case: str, count: int) -> tuple[Any, Any, Any, np.ndarray]:
    nodes, rows, _ = CASES[case]
    spec = model(nodes, rows)
    data = Source(spec).bound(DATA)
    built, sums = GRAPH.compile(spec, data).elimination()
    (tables,) = list(tables_at(built, sums, repeated(count)))
    return spec, data, sums, tables


@pytest.mark.parametrize("case", ["alone", "beside", "scaled by effects", "two functions that are scaled"])
def test_each_row_given_all_others(case):
    _, _, sums, tables = given_data(case, 1)
    mean, covariance, sd = CASES[case][2](TRUTH)
    whole = covariance + np.diag(np.broadcast_to(sd, N) ** 2)
    mean = np.broadcast_to(mean, N)
    for r, term in enumerate(sums.terms(tables)["y"][0]):
        rest = np.arange(N) != r
        gain = np.linalg.solve(whole[np.ix_(rest, rest)], whole[rest, r])
        m, v = mean[r] + gain @ (DATA["y"] - mean)[rest], whole[r, r] - gain @ whole[rest, r]
        assert term == pytest.approx(stats.norm.logpdf(DATA["y"][r], m, np.sqrt(v)), abs=1e-8)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("case", ["beside", "scaled by effects", "two functions that are scaled"])
def test_functions_given_the_data(case):
    """Their moments at the rows, and at new inputs, are those of a normal distribution."""
    count = 4_000
    spec, data, sums, tables = given_data(case, count)
    drawn, middle = sums.drawn(tables, np.random.default_rng(5)), sums.expected(tables[:1])
    new = pd.DataFrame(
        {"x": [X[3], 2.27, 7.5], "w": 0.0, "on": 1.0, "z": [DATA["z"][3], 0.5, 3.0], "g": ["u", "v", "w"]}
    )
    later = GRAPH.compile(spec, bound_to(SimpleNamespace(model=spec, data=data), new)).graph(
        purpose="predict", targets=("y",)
    )
    names = [name for name in ("f", "h") if name in CASES[case][0]]
    got = forward(later, repeated(count) | drawn, names, 1, count)
    mean, covariance, sd = CASES[case][2](TRUTH)
    whole = covariance + np.diag(np.broadcast_to(sd, N) ** 2)
    gap = DATA["y"] - mean
    scales = {"beside": {"f": np.ones(N)}, "scaled by effects": {"f": _of(TRUTH)}}.get(
        case, {"f": _of(TRUTH), "h": DATA["on"] - TRUTH["b"]}
    )
    for name in names:
        column = "x" if name == "f" else "z"
        both = np.concatenate([DATA[column], new[column]])
        k = matern(both, 1.3, 0.8) if name == "f" else expquad(both, 0.7, 0.8)
        across = k[:, :N] * scales[name]
        expected = across @ np.linalg.solve(whole, gap)
        left = k - across @ np.linalg.solve(whole, across.T)
        deviation = np.sqrt(np.maximum(np.diag(left)[N:], 0))
        values = got[name]
        assert np.all(np.abs(values.mean(axis=0) - expected[N:]) < 5 * deviation / np.sqrt(count))
        np.testing.assert_allclose(values.std(axis=0), deviation, rtol=5 / np.sqrt(2 * count))
        z = middle[f"_{name}_z"][0]
        old = np.unique(DATA[column], return_index=True)[1]
        own = k[np.ix_(old, old)]
        lower = np.linalg.cholesky(own + 1e-8 * np.mean(np.diag(own)) * np.eye(len(old)))
        np.testing.assert_allclose(lower @ z, expected[:N][old], atol=1e-5)


@pytest.mark.parametrize(
    ("rows", "more"),
    [
        ("Normal(exp(f), sigma)", {}),
        ("Normal(a, exp(f))", {}),
        ("Normal(f + w * f[0], sigma)", {}),
        ("StudentT(4, f, sigma)", {}),
        ("Normal(f, sigma)", {"w[row]": "Normal(f, 1)"}),
        ("Normal(f, sigma)", {"extra": "Potential(-sum(f ** 2))"}),
    ],
)
def test_functions_that_enter_otherwise_are_sampled(rows, more):
    spec = model(F | more, rows)
    assert GRAPH.compile(spec, Source(spec).bound(DATA)).integrated() == {}
    assert "_f_z" in {rv.name for rv in bl.to_pymc(spec, data=DATA).free_RVs}


def test_one_function_is_integrated_out_beside_another_that_is_not():
    """The logarithm of the noise is a function, too, which is sampled."""
    for rows in ("Normal(f, sigma * exp(h))", "Normal(f + exp(h), sigma)"):
        spec = model(F | H, rows)
        assert GRAPH.compile(spec, Source(spec).bound(DATA)).integrated() == {"f": "_f_z"}
        assert "_h_z" in {rv.name for rv in bl.to_pymc(spec, data=DATA).free_RVs}


def test_a_function_that_is_all_there_is_to_sample_is_sampled():
    spec = model({"f[row]": "GaussianProcess(Matern52(x, 1, 1))"}, "Normal(f, 0.3)")
    alone = spec.model_copy(update={"model": GRAPH.Graph(nodes={"f[row]": "GaussianProcess(Matern52(x, 1, 1))",
                                                                "y[row]": "Normal(f, 0.3)"})})  # fmt: skip
    assert GRAPH.compile(alone, Source(alone).bound(DATA)).integrated() == {}


@pytest.mark.slow(why="compiles")
def test_functions_and_states_of_different_columns_are_integrated_out_together():
    """A function in one column and a level in another: the density is the product of both."""
    level = {"level[row]": "LocalLevel(s, initial=Normal(0, 1))", "w[row]": "Normal(level, sigma)"}
    one, other = (
        bl.to_pymc(model(F, "Normal(a + f, sigma)"), data=DATA),
        bl.to_pymc(model(level, "Normal(a, 1)"), data=DATA),
    )
    spec = model(F | level, "Normal(a + f, sigma)")
    both = bl.to_pymc(spec, data=DATA)
    assert GRAPH.compile(spec, Source(spec).bound(DATA)).integrated() == {"level": "_level_z", "f": "_f_z"}
    p = point_of(both)
    rest = stats.norm.logpdf(DATA["y"], p["a"], 1).sum()
    parts = [Density.of(built).at(p)[0] for built in (one, other, both)]
    assert parts[2] == pytest.approx(parts[0] + parts[1] - rest - prior(p), rel=1e-9)
    built, sums = GRAPH.compile(spec, Source(spec).bound(DATA)).elimination()
    (tables,) = list(tables_at(built, sums, repeated(3)))
    drawn, terms = sums.drawn(tables, np.random.default_rng(1)), sums.terms(tables)
    assert {name: v.shape for name, v in drawn.items()} == {"_f_z": (3, len(np.unique(X))), "_level_z": (3, N)}
    assert {name: v.shape for name, v in terms.items()} == {"y": (3, N), "w": (3, N)}


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("word", ["", ", approximation=hsgp, functions=20"])
def test_a_fit_gives_the_function_back(word):
    """Known hyperparameters: the posterior of the function, predictions and the terms of rows are in closed form."""
    nodes = {
        "c": "Normal(0, 1)",
        "f[row]": f"GaussianProcess(Matern52(x, 1.3, 0.8){word})",
        "y[row]": "Normal(c + f, 0.5)",
    }
    spec = bl.Model(data={"rows": "row"}, model={"family": "graph", "nodes": nodes})
    fit = bl.fit(spec, data=DATA, method="nuts", seed=1, runs=None, progress=False)
    k = matern(X, 1.3, 0.8)
    whole = k + 1.0 + 0.25 * np.eye(N)
    values = fit.posterior["f"].to_numpy().reshape(-1, N)
    mean = k @ np.linalg.solve(whole, DATA["y"])
    left = np.diag(k - k @ np.linalg.solve(whole, k))
    assert np.abs(values.mean(axis=0) - mean).max() < (0.06 if not word else 0.1)
    np.testing.assert_allclose(values.std(axis=0), np.sqrt(left), rtol=0.1)
    table = fit.predict(pd.DataFrame({"x": [1.05, 4.4]}))
    both = matern(np.concatenate([X, [1.05, 4.4]]), 1.3, 0.8) + 1.0
    np.testing.assert_allclose(table["mean"], both[N:, :N] @ np.linalg.solve(whole, DATA["y"]), atol=0.08)
    precision = np.linalg.inv(whole)
    alone = precision @ DATA["y"]
    variance = 1.0 / np.diag(precision)
    wanted = stats.norm.logpdf(alone * variance, scale=np.sqrt(variance))
    # Given c: one of a thousand numbers is the harmonic mean of what the draws have.
    terms = fit.log_likelihood()["y"].to_numpy().reshape(-1, N)
    assert np.abs(-np.log(np.mean(np.exp(-terms), axis=0)) - wanted).max() < 0.1
