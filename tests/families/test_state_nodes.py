"""Linear-Gaussian states as nodes: densities, smoothed states, forecasts, and what is refused."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.posterior.forward import forward
from bayeslab.posterior.transforms import tables_at
from bayeslab.preparation import Source
from bayeslab.registry import load
from bayeslab.results.fitted import bound_to
from tests.densities import Density
from tests.families import _state_oracle as oracle
from tests.refusals import refused

GRAPH = load("families", "graph")
RNG = np.random.default_rng(11)
N = 14
PRICE = RNG.normal(size=N)
Y = np.cumsum(RNG.normal(size=N)) + PRICE + RNG.normal(size=N)
Y[[3, 4, 9]] = np.nan
SEQUENCE = np.repeat(["a", "b"], [8, 6])
DATA = {"y": Y, "price": PRICE, "run": SEQUENCE}
PRIORS = {"sl": "HalfNormal(1)", "ss": "HalfNormal(1)", "s": "HalfNormal(1)", "b": "Normal(0, 1)"}


def model(nodes: dict[str, str], dims: dict | None = None, **data) -> bl.Model:
    return bl.Model(data={"rows": "month"} | data, dims=dims or {}, model={"family": "graph", "nodes": nodes}, seed=1)


def bound(spec: bl.Model, data: dict) -> tuple[bl.Model, object]:
    source = Source(spec)
    return source.model, source.bound(data)


def prior(point: dict[str, np.ndarray]) -> float:
    """Of PRIORS, on the parameters' scale."""
    halves = sum(float(np.sum(stats.halfnorm.logpdf(point[n]))) for n in ("sl", "ss", "s") if n in point)
    return halves + (float(stats.norm.logpdf(point["b"])) if "b" in point else 0.0)


def slopes_by_difference(function, point: dict[str, np.ndarray], name: str) -> float:
    h = 1e-4
    values = [function(point | {name: point[name] + k * h}) for k in (-2, -1, 1, 2)]
    return (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)


PROGRAMS = {
    "level": (
        {"level[month]": "LocalLevel(sl, initial=Normal(1, 2))"},
        "level",
        lambda p: [(oracle.level(p["sl"], 1, 2), 1.0)],
    ),
    "trend and seasonal": (
        {
            "trend[month]": "LocalTrend(sl, ss / 5, initial=Normal(b, 2), initial_slope=Normal(0, 0.5))",
            "season[month]": "Seasonal(4, ss, initial=ZeroSumNormal(1.5))",
            "mu[month]": "trend + b * price + season",
        },
        "mu",
        lambda p: [
            (oracle.trend(p["sl"], p["ss"] / 5, p["b"], 2, 0, 0.5), 1.0), (oracle.seasonal(4, p["ss"], 1.5), 1.0),
        ],
    ),
    "three, with coefficients": (
        {
            "level[month]": "LocalLevel(sl, initial=Normal(0, 2))",
            "season[month]": "Seasonal(3, ss, initial=ZeroSumNormal(1))",
            "x[month]": "LinearGaussian([[b, 0.3], [0, 0.5]], [[1, 0], [0, 0]], [1, ss], [0, 1], [[2, 1], [1, 2]])",
        },
        "b * price + level - price * x / 2 + (1 + ss) * season",
        lambda p: [
            (oracle.level(p["sl"], 0, 2), 1.0),
            (oracle.seasonal(3, p["ss"], 1), 1 + p["ss"]),
            (oracle.general([[p["b"], 0.3], [0, 0.5]], [[1, 0], [0, 0]], [1, p["ss"]], [0, 1], [[2, 1], [1, 2]]),
             -PRICE / 2),
        ],
    ),
    "a number is a matrix of one": (
        {"x[month]": "LinearGaussian(b, sl ** 2, 1, 0.5, 4)"},
        "x + b * price",
        lambda p: [(oracle.general([[p["b"]]], [[p["sl"] ** 2]], [1], [0.5], [[4]]), 1.0)],
    ),
}  # fmt: skip


def dense(program: str, point: dict[str, np.ndarray], lengths: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of y."""
    _, mean_text, parts = PROGRAMS[program]
    mean, covariance = np.zeros(N), np.eye(N) * point["s"] ** 2
    if "price" in mean_text or "mu" in mean_text:
        mean = mean + point["b"] * PRICE
    for series, coefficient in parts(point):
        own_mean, own = series.of(lengths)
        c = np.broadcast_to(coefficient, N)
        mean, covariance = mean + c * own_mean, covariance + c[:, None] * own * c
    return mean, covariance


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("lengths", [[14], [8, 6]], ids=["one series", "two series"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_density_is_that_of_the_dense_normal(program, lengths):
    """Log density and gradient, missing rows left out."""
    nodes, mean, _ = PROGRAMS[program]
    if len(lengths) > 1:
        nodes = {k: v[:-1] + ", sequence=run)" if "(" in v and "[month]" in k and k != "mu[month]" else v
                 for k, v in nodes.items()}  # fmt: skip
    built = bl.to_pymc(model(PRIORS | nodes | {"y[month]": f"Normal({mean}, s)"}), data=DATA)
    assert {rv.name for rv in built.free_RVs} == set(PRIORS)
    density = Density.of(built)

    def expected(point):
        return prior(point) + oracle.log_normal(Y, *dense(program, point, lengths))

    for point in density.points(np.random.default_rng(3), 2):
        value, slopes = density.at(point)
        assert value == pytest.approx(expected(point), abs=1e-8)
        for name, slope in slopes.items():
            assert slope == pytest.approx(slopes_by_difference(expected, point, name), rel=1e-7, abs=1e-7), name


def test_rows_that_point_at_times_and_people():
    """Several rows of one month and none of others; a series for each person, with a standard deviation of its own."""
    month, person = RNG.integers(0, 5, 12), np.array(["u", "v"])[RNG.integers(0, 2, 12)]
    y = RNG.normal(size=12)
    nodes = {
        "sl[person]": "HalfNormal(1)",
        "s": "HalfNormal(1)",
        "level[person, month]": "LocalLevel(sl, initial=Normal(0, 2))",
        "y[row]": "Normal(2 * level[person, month], s)",
    }
    spec = bl.Model(data={"rows": "row"}, dims={"month": 5}, model={"family": "graph", "nodes": nodes})
    built = bl.to_pymc(spec, data={"y": y, "month": month, "person": person})
    assert {rv.name for rv in built.free_RVs} == {"sl", "s"}
    density = Density.of(built)
    for point in density.points(np.random.default_rng(3), 2):
        covariance = np.eye(12) * point["s"] ** 2
        for k, name in enumerate("uv"):
            _, own = oracle.level(point["sl"][k], 0, 2).moments(5)
            mine = person == name
            covariance += 4 * np.outer(mine, mine) * own[np.ix_(month, month)]
        expected = oracle.log_normal(y, np.zeros(12), covariance) + stats.halfnorm.logpdf(point["s"])
        assert density.at(point)[0] == pytest.approx(expected + stats.halfnorm.logpdf(point["sl"]).sum(), abs=1e-8)


def test_a_standard_deviation_for_each_row():
    nodes = PRIORS | {
        "level[month]": "LocalLevel(sl, initial=Normal(0, 2))",
        "y[month]": "Normal(level, s * exp(price))",
    }
    built = bl.to_pymc(model(nodes), data=DATA)
    density = Density.of(built)
    (point,) = density.points(np.random.default_rng(3), 1)
    mean, covariance = oracle.level(point["sl"], 0, 2).moments(N)
    covariance = covariance + np.diag((point["s"] * np.exp(PRICE)) ** 2)
    assert density.at(point)[0] == pytest.approx(prior(point) + oracle.log_normal(Y, mean, covariance), abs=1e-8)


@pytest.mark.parametrize(
    "likelihood",
    [
        {"y[month]": "Normal(exp(level), s)"},
        {"y[month]": "Normal(level * level, s)"},
        {"y[month]": "Normal(level, exp(level))"},
        {"y[month]": "StudentT(4, level, s)"},
        {"y[month]": "Normal(level - mean(level), s)"},
        {"y[month]": "Normal(level + level[first], s)", "first[month]": "0 * index(month)"},
        {"y[month]": "Normal(level, s)", "price[month]": "Normal(level, 1)"},
        {"y[month]": "Normal(level, s)", "p": "Potential(sum(level))"},
        {"y[month]": "Normal(level, s)", "w[month]": "Normal(level, 1)"},
        {"y[month]": "Normal(level[first], s)", "first": "where(s > 1, 1, 0)"},
        {"y[month]": "Normal(level + lag(y, 1, start=0), s)"},
        {"h[month]": "0.5 * previous(h, 1, start=0) + level", "y[month]": "Normal(h, s)"},
        {"z[month]": "Bernoulli(0.3)", "y[month]": "Normal(level + z, s)"},
        {"z[month]": "MarkovChain([[0.9, 0.1], [0.2, 0.8]])", "y[month]": "Normal(level + z, s)"},
    ],
    ids=lambda nodes: ", ".join(nodes.values()),
)
def test_states_that_enter_otherwise_are_sampled(likelihood):
    nodes = PRIORS | {"level[month]": "LocalLevel(sl, initial=Normal(1, 2))"} | likelihood
    nodes = {k: v for k, v in nodes.items() if k not in ("ss", "b")}
    built = bl.to_pymc(model(nodes, dims={"month": N}), data={"y": np.nan_to_num(Y), "price": PRICE})
    names = {rv.name for rv in built.free_RVs}
    assert "_level_z" in names
    assert "level" in {d.name for d in built.deterministics}
    # Values are the recursion written out.
    z, sl = RNG.normal(size=N), 0.7
    got = forward(built, {"sl": np.array([sl]), "_level_z": z[None]}, ["level"], 0, 1)["level"][0]
    np.testing.assert_allclose(got, 1 + 2 * z[0] + np.concatenate([[0], np.cumsum(sl * z[1:])]), atol=1e-12)


@pytest.mark.parametrize(
    "nodes",
    [
        {"level[month]": "LocalLevel(1, initial=Normal(1, 2))", "y[month]": "Normal(level, b)"},
        {"level[month]": "LocalLevel(b, initial=Normal(1, 2))", "y[month]": "Normal(level, 1)"},
        {"level[month]": "LocalLevel(1, initial=Normal(1, b))", "y[month]": "Normal(level, 1)"},
        {"level[month]": "Seasonal(3, 1, initial=ZeroSumNormal(b))", "y[month]": "Normal(level, 1)"},
        {"level[month]": "LocalLevel(b, initial=Normal(1, 2))", "y[month]": "StudentT(4, level, 1)"},
    ],
    ids=lambda nodes: ", ".join(nodes.values()),
)
def test_negative_standard_deviations_have_no_density(nodes):
    """As in nodes without states."""
    density = Density.of(bl.to_pymc(model({"b": "Normal(0, 1)"} | nodes), data={"y": np.nan_to_num(Y)}))
    z = {"_level_z": np.zeros(N)} if "_level_z" in density.names else {}
    assert np.isfinite(density.at({"b": np.array(0.5)} | z)[0])
    assert not np.isfinite(density.at({"b": np.array(-0.5)} | z)[0])


def test_sampled_density_is_that_of_a_random_walk_in_pymc():
    """Of counts: equal up to the transform x = 1 + 2 z[1], x[t] = x[t-1] + sl z[t]."""
    counts = RNG.poisson(3, N).astype(float)
    nodes = {
        "sl": "HalfNormal(1)",
        "level[month]": "LocalLevel(sl, initial=Normal(1, 2))",
        "y[month]": "Poisson(exp(level))",
    }
    mine = Density.of(bl.to_pymc(model(nodes), data={"y": counts}))
    with pm.Model() as theirs:
        sl = pm.HalfNormal("sl", 1)
        x = pm.GaussianRandomWalk("x", mu=0.0, sigma=sl, init_dist=pm.Normal.dist(1, 2), shape=N)
        pm.Poisson("y", pm.math.exp(x), observed=counts)
    other = Density.of(theirs)
    for point in mine.points(np.random.default_rng(2), 3):
        value, slopes = mine.at(point)
        sl, z = float(point["sl"]), point["_level_z"]
        x = 1 + 2 * z[0] + np.concatenate([[0], np.cumsum(sl * z[1:])])
        expected, theirs_slopes = other.at({"sl": point["sl"], "x": x})
        assert value == pytest.approx(expected + np.log(2) + (N - 1) * np.log(sl), abs=1e-8)
        to_x = theirs_slopes["x"]
        back = np.cumsum(to_x[::-1])[::-1]
        np.testing.assert_allclose(slopes["_level_z"], np.concatenate([[2 * back[0]], sl * back[1:]]), atol=1e-8)
        of_sl = theirs_slopes["sl"] + back[1:] @ z[1:] + (N - 1) / sl
        assert slopes["sl"] == pytest.approx(of_sl, abs=1e-8)


# ------------------------------------------------------------------------- smoothed states, forecasts

TRUTH = {"sl": 0.8, "ss": 0.3, "s": 0.9, "b": 0.5}
NODES = PRIORS | {
    "level[month]": "LocalLevel(sl, initial=Normal(1, 2))",
    "season[month]": "Seasonal(4, ss, initial=ZeroSumNormal(1.5))",
    "y[month]": "Normal(level + season + b * price, s)",
}


def joint(n: int, lengths: list[int] | None = None) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    parts = {"level": oracle.level(0.8, 1, 2), "season": oracle.seasonal(4, 0.3, 1.5)}
    return {name: part.of(lengths or [n]) for name, part in parts.items()}


def at_truth(count: int) -> dict[str, np.ndarray]:
    return {name: np.full(count, value) for name, value in TRUTH.items()}


@pytest.mark.slow(why="statistical")
def test_smoothed_states_and_rows_alone():
    """Means and covariances of drawn states, their exact means, and rows given all others, against conditioning."""
    spec, data = bound(model(NODES), DATA)
    built, sums = GRAPH.compile(spec, data).elimination()
    parts = joint(N)
    mean = sum(m for m, _ in parts.values()) + 0.5 * PRICE
    covariance = sum(c for _, c in parts.values()) + 0.81 * np.eye(N)
    count = 4_000
    (tables,) = list(tables_at(built, sums, at_truth(count)))
    drawn = sums.drawn(tables, np.random.default_rng(5))
    whole = GRAPH.compile(spec, data).graph(purpose="predict")
    exact = forward(whole, at_truth(1) | sums.expected(tables[:1]), ["level", "season"], 0, 1)
    some = forward(whole, at_truth(count) | drawn, ["level", "season"], 0, count)
    for name, (own_mean, own) in parts.items():
        expected, left = oracle.conditional(Y, mean, covariance, own_mean, own, own)
        np.testing.assert_allclose(exact[name][0], expected, atol=1e-9)
        sd = np.sqrt(np.diag(left))
        assert np.all(np.abs(some[name].mean(axis=0) - expected) < 5 * sd / np.sqrt(count))
        np.testing.assert_allclose(some[name].std(axis=0), sd, rtol=5 / np.sqrt(2 * count))
        across = np.corrcoef(some[name].T) - left / np.outer(sd, sd)
        assert np.abs(across).max() < 5 / np.sqrt(count)
    terms = sums.terms(tables[:1])["y"][0]
    for r in range(N):
        rest = Y.copy()
        rest[r] = np.nan
        (m,), ((v,),) = oracle.conditional(
            rest, mean, covariance, mean[[r]], covariance[[r]], covariance[np.ix_([r], [r])]
        )
        assert terms[r] == pytest.approx(0.0 if np.isnan(Y[r]) else stats.norm.logpdf(Y[r], m, np.sqrt(v)), abs=1e-9)


@pytest.mark.slow(why="statistical")
def test_forecasts_of_two_series():
    """Later rows go on from the last row of their series; a new series begins anew."""
    nodes = {k: v[:-1] + ", sequence=run)" if k in ("level[month]", "season[month]") else v for k, v in NODES.items()}
    spec, data = bound(model(nodes), DATA | {"run": np.repeat([7, 3], [8, 6])})
    built, sums = GRAPH.compile(spec, data).elimination()
    count = 4_000
    (tables,) = list(tables_at(built, sums, at_truth(count)))
    drawn = sums.drawn(tables, np.random.default_rng(5))
    new = pd.DataFrame({"price": [0.1, 0.2, 0.3, 0.4, 0.5], "run": [7, 7, 3, 3, 5]})
    later = GRAPH.compile(spec, bound_to(SimpleNamespace(model=spec, data=data), new)).graph(
        purpose="predict", targets=("y",)
    )
    got = forward(later, at_truth(count) | drawn, ["y", "level"], 1, count)
    # Rows in the order of their series: 8 + 2 of 7, 6 + 2 of 3, 1 of 5.
    parts = joint(0, [10, 8, 1])
    price = np.concatenate([PRICE[:8], [0.1, 0.2], PRICE[8:], [0.3, 0.4, 0.5]])
    y = np.concatenate([Y[:8], [np.nan] * 2, Y[8:], [np.nan] * 3])
    mean = sum(m for m, _ in parts.values()) + 0.5 * price
    covariance = sum(c for _, c in parts.values()) + 0.81 * np.eye(19)
    rows = [8, 9, 16, 17, 18]
    for name, own_mean, across, own in (
        ("y", mean[rows], covariance[rows], covariance[np.ix_(rows, rows)]),
        ("level", parts["level"][0][rows], parts["level"][1][rows], parts["level"][1][np.ix_(rows, rows)]),
    ):
        expected, left = oracle.conditional(y, mean, covariance, own_mean, across, own)
        sd = np.sqrt(np.diag(left))
        assert np.all(np.abs(got[name].mean(axis=0) - expected) < 5 * sd / np.sqrt(count))
        np.testing.assert_allclose(got[name].std(axis=0), sd, rtol=5 / np.sqrt(2 * count))
        assert np.abs(np.corrcoef(got[name].T) - left / np.outer(sd, sd)).max() < 5 / np.sqrt(count)


def test_rows_with_names_are_found_by_them():
    """Of months of the fit the states as they were, in any order; after the last one step a row."""
    nodes = {
        "sl": "HalfNormal(1)",
        "level[month]": "LocalLevel(sl, initial=Normal(1, 2))",
        "y[month]": "Normal(level, 1)",
    }
    spec, data = bound(model(nodes), {"month": np.arange(2000, 2000 + N), "y": Y})
    new = bound_to(SimpleNamespace(model=spec, data=data), pd.DataFrame({"month": [2014, 2003, 2015, 2000]}))
    later = GRAPH.compile(spec, new).graph(purpose="predict", targets=("y",))
    z, e = RNG.normal(size=N), RNG.normal(size=2)
    given = {"sl": np.array([0.7]), "_level_z": z[None], "_level_new": e[None]}
    got = forward(later, given, ["level"], 0, 1)["level"][0]
    x = 1 + 2 * z[0] + np.concatenate([[0], np.cumsum(0.7 * np.concatenate([z[1:], e]))])
    np.testing.assert_allclose(got, x[[14, 3, 15, 0]], atol=1e-12)


def test_slopes_of_a_trend():
    """The second number of its state, by name; where it is used the states are sampled."""
    nodes = PRIORS | {
        "trend[month]": "LocalTrend(sl, ss, initial=Normal(1, 2), initial_slope=Normal(0.5, 0.1))",
        "y[month]": "Normal(trend, s)",
    }
    spec, data = bound(model(nodes), DATA)
    whole = GRAPH.compile(spec, data).graph(purpose="predict")
    z = RNG.normal(size=2 * N)
    given = {"sl": np.array([0.7]), "ss": np.array([0.2]), "_trend_z": z[None]}
    got = forward(whole, given, ["trend", "trend_slope"], 0, 1)
    slope = 0.5 + np.cumsum(np.concatenate([[0.1], np.full(N - 1, 0.2)]) * z[1::2])
    np.testing.assert_allclose(got["trend_slope"][0], slope, atol=1e-12)
    rises = np.concatenate([[1 + 2 * z[0]], slope[:-1] + 0.7 * z[2::2]])
    np.testing.assert_allclose(got["trend"][0], np.cumsum(rises), atol=1e-12)
    assert {"trend", "trend_slope"} <= set(GRAPH.compile(spec, data).derived_nodes())
    assert GRAPH.compile(spec, data).integrated() == {"trend": "_trend_z"}
    for more in ({"y[month]": "Normal(trend_slope, s)"}, {"y[month]": "Normal(trend + trend_slope, s)"}):
        assert GRAPH.compile(*bound(model(nodes | more), DATA)).integrated() == {}


def test_slopes_of_a_trend_are_part_of_expressions():
    """They have no value before sampling, so nothing is checked of it."""
    nodes = PRIORS | {
        "trend[month]": "LocalTrend(sl, ss, initial=Normal(1, 2), initial_slope=Normal(0.5, 0.1))",
        "rise[month]": "2 * trend_slope + price",
        "most": "max(trend_slope)",
        "y[month]": "Normal(trend, s)",
    }
    assert bl.check(model(nodes), DATA)


@pytest.mark.parametrize("named", [True, False], ids=["months with names", "months by number"])
def test_people_go_on_apart(named):
    """Each person's states after the last month, found by the person's name; the same rows have the states they had."""
    nodes = {
        "sl[person]": "HalfNormal(1)",
        "level[person, month]": "LocalLevel(sl, initial=Normal(1, 2))",
        "y[person, month]": "Normal(level + price, 1)",
    }
    spec = bl.Model(
        data={"rows": "month", "dims": {"y": ["person", "month"]}}, dims={"person": ["u", "v"]},
        model={"family": "graph", "nodes": nodes}, seed=1,
    )  # fmt: skip
    months = {"month": np.arange(4)} if named else {}
    spec, data = bound(spec, months | {"price": np.arange(4.0), "y": RNG.normal(size=(2, 4))})
    z, e, sl = RNG.normal(size=(2, 4)), RNG.normal(size=(2, 2)), np.array([0.5, 2.0])
    steps = np.concatenate([1 + 2 * z[:, :1], sl[:, None] * np.concatenate([z[:, 1:], e], axis=1)], axis=1)
    x = np.cumsum(steps, axis=1)
    given = {"sl": sl[None], "_level_z": z.reshape(1, -1)}
    place = SimpleNamespace(model=spec, data=data)
    new = bound_to(place, ({"month": [4, 5]} if named else {}) | {"price": np.array([7.0, 7.0])})
    later = GRAPH.compile(spec, new).graph(purpose="predict", targets=("y",))
    got = forward(later, given | {"_level_new": e.reshape(1, -1)}, ["level"], 0, 1)["level"][0]
    np.testing.assert_allclose(got, x[:, 4:], atol=1e-12)
    again = GRAPH.compile(spec, bound_to(place, months | {"price": np.arange(4.0)})).graph(
        purpose="predict", targets=("y",)
    )
    assert "_level_new" not in again.named_vars
    np.testing.assert_allclose(forward(again, given, ["level"], 0, 1)["level"][0], x[:, :4], atol=1e-12)


# ----------------------------------------------------------------------------------------- fits


@pytest.mark.slow(why="compiles")
def test_nile():
    """Maximum likelihood of Durbin and Koopman (2012), section 2.10.1, and a posterior whose states go on."""
    flow = pd.read_csv("models/data/nile.csv")
    nodes = {"sl": "HalfFlat()", "s": "HalfFlat()", "level[year]": "LocalLevel(sl, initial=Normal(0, 3e3))",
             "flow[year]": "Normal(level, s)"}  # fmt: skip
    spec = bl.Model(data={"rows": "year"}, model={"family": "graph", "nodes": nodes}, seed=1)
    best = bl.fit(spec, data=flow, method="map", runs=None, progress=False)
    assert best.posterior["s"].item() ** 2 == pytest.approx(15_099, rel=5e-3)
    assert best.posterior["sl"].item() ** 2 == pytest.approx(1_469, rel=2e-2)
    # At the optimum the forecast of 1971 has the filter's mean and variance: their table of one-step predictions.
    dense = oracle.level(best.posterior["sl"].item(), 0, 3e3)
    mean, own = dense.moments(101)
    covariance = own[:100, :100] + best.posterior["s"].item() ** 2 * np.eye(100)
    expected, left = oracle.conditional(
        flow["flow"].to_numpy(float), mean[:100], covariance, mean[100:], own[100:, :100], own[100:, 100:]
    )
    (row,) = best.predict(pd.DataFrame({"year": [1971]})).itertuples()
    sd = np.sqrt(left[0, 0] + best.posterior["s"].item() ** 2)
    assert abs(row.mean - expected[0]) < 5 * sd / np.sqrt(1_000)
    assert row.sd == pytest.approx(sd, rel=5 / np.sqrt(2_000))


@pytest.mark.slow(why="compiles")
def test_a_posterior_has_states_that_go_on():
    """States under narrow priors are those of known scales; predictions and terms of rows are there."""
    nodes = NODES | {"b": "Normal(0.5, 0.01)", "sl": "Gamma(64, 80)", "ss": "Gamma(36, 120)", "s": "Gamma(81, 90)"}
    spec = model(nodes)
    fit = bl.fit(spec, data=DATA, draws=500, runs=None, progress=False)
    assert {"level", "season", "_level_z", "_season_z"} <= set(fit.posterior.data_vars)
    assert fit.posterior["level"].dims == ("chain", "draw", "month")
    assert fit.log_likelihood()["y"].shape == (4, 500, N)
    parts = joint(N)
    mean = sum(m for m, _ in parts.values()) + 0.5 * PRICE
    covariance = sum(c for _, c in parts.values()) + 0.81 * np.eye(N)
    expected, left = oracle.conditional(Y, mean, covariance, *parts["level"], parts["level"][1])
    got = fit.posterior["level"].to_numpy().reshape(-1, N)
    # Priors of the scales are narrow about the truth: a tenth of a standard deviation.
    assert np.all(np.abs(got.mean(axis=0) - expected) < 0.15 * np.sqrt(np.diag(left)))
    later = fit.predict(pd.DataFrame({"price": [0.0, 0.0]}))
    assert len(later) == 2


# -------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("level", "code", "match"),
    [
        ("LocalLevel(sl)", "model.wrong-arguments", "initial"),
        ("LocalLevel(initial=Normal(0, 1))", "model.wrong-arguments", "sigma"),
        ("LocalLevel(sl, initial=StudentT(3, 0, 1))", "model.wrong-arguments", "Normal"),
        ("LocalLevel(sl, initial=Normal(0))", "model.wrong-arguments", "sigma"),
        ("LocalLevel(-1, initial=Normal(0, 1))", "model.out-of-range", "sigma"),
        ("LocalLevel(abs(price), initial=Normal(0, 1))", "model.bad-dimensions", "price"),
        ("LocalLevel(sl, initial=Normal(price, 1))", "model.bad-dimensions", "price"),
        ("LocalLevel(sl, initial=Normal(0, -1))", "model.out-of-range", "sigma"),
        ("LocalLevel(sl, 0, initial=Normal(0, 1))", "model.wrong-arguments", "initial"),
        ("LocalLevel(sl, initial=Normal(0, 1), sequence=2)", "model.wrong-arguments", "sequence"),
        ("LocalLevel(sl, initial=Normal(0, 1), sequence=b)", "model.unknown-column", "b"),
        ("LocalLevel(sl, initial=Normal(0, 1), sequence=mixed)", "data.not-in-order", "mixed"),
        ("LocalTrend(sl, 1, initial=Normal(0, 1))", "model.wrong-arguments", "initial_slope"),
        ("Seasonal(1, sl, initial=ZeroSumNormal(1))", "model.out-of-range", "period"),
        ("Seasonal(s, sl, initial=ZeroSumNormal(1))", "model.out-of-range", "period"),
        ("Seasonal(4, sl, initial=Normal(0, 1))", "model.wrong-arguments", "ZeroSumNormal"),
        ("LinearGaussian([[1, 0]], 1, 1, 0, 1)", "model.wrong-shape", "F"),
        ("LinearGaussian([[1, 0], [0, 1]], 1, [1, 0], [0, 0], [[1, 0], [0, 1]])", "model.wrong-shape", "Q"),
        ("LinearGaussian(1, -1, 1, 0, 1)", "model.out-of-range", "Q"),
        ("LinearGaussian([[1, 0], [0, 1]], [[1, 2], [2, 1]], [1, 0], [0, 0], [[1, 0], [0, 1]])",
         "model.out-of-range", "Q"),
        ("LinearGaussian([[1, 0], [0, 1]], [[1, 0], [0, 1]], [1, 0], [0, 0], [[1, 1], [0, 1]])",
         "model.out-of-range", "initial_covariance"),
        ("LinearGaussian(1, 1, price, 0, 1)", "model.bad-dimensions", "H"),
        ("2 * LocalLevel(sl, initial=Normal(0, 1))", "model.misplaced", "LocalLevel"),
    ],
)  # fmt: skip
def test_refusals(level, code, match):
    nodes = PRIORS | {"level[month]": level, "y[month]": "Normal(level, s)"}
    with refused(code, match, where=None if code.startswith("data") else "model.nodes.level"):
        bl.fit(model(nodes), data=DATA | {"mixed": np.arange(N) % 2}, runs=None, progress=False)


def test_nodes_along_no_dimension_and_with_data_are_refused():
    nodes = PRIORS | {"level": "LocalLevel(sl, initial=Normal(0, 1))", "y[month]": "Normal(level, s)"}
    with refused("model.bad-dimensions", "dimension", where="model.nodes.level"):
        bl.fit(model(nodes), data=DATA, runs=None, progress=False)
    nodes = PRIORS | {"y[month]": "LocalLevel(sl, initial=Normal(0, 1))"}
    with refused("model.misplaced", "y", where="model.nodes.y"):
        bl.fit(model(nodes), data=DATA, runs=None, progress=False)


LEVELS = {
    "level[month]": "LocalLevel(0.7, initial=Normal(10, 3))",
    "b": "Normal(0, 0.1)",
    "y[month]": "Normal(level + b, 1)",
}


def of_months(data):
    spec = bl.Model(name="levels", data={"rows": "month"}, model=bl.Graph(nodes=LEVELS), seed=1)
    return bl.fit(spec, data, "map", progress=False, runs=None)


@pytest.mark.slow(why="compiles")
def test_blank_rows_follow_the_series_however_many_they_are():
    """As many rows as in the fit are forecasts, too: nothing in them says that they are its rows."""
    y = np.array([10.0, 12.0, 14.0, 17.0, 21.0, 25.0])
    fit = of_months({"y": y})
    for n in (5, 6, 7):
        mean = fit.predict(pd.DataFrame({"y": [np.nan] * n}))["mean"].to_numpy()
        assert np.all(np.abs(mean - mean[0]) < 1) and mean[0] > 20


@pytest.mark.slow(why="compiles")
def test_outcomes_of_new_rows_that_inform_no_forecast_give_a_warning():
    """The states of new rows follow those of the fit: a new outcome beside an empty cell moves no state."""
    fit = of_months({"y": np.array([10.0, 12.0, 14.0, 17.0, 21.0, 25.0])})
    with pytest.warns(UserWarning, match="not used"):
        fit.predict(pd.DataFrame({"y": [90.0, np.nan]}))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        fit.predict(pd.DataFrame({"y": [np.nan, np.nan]}))
        fit.predict(pd.DataFrame({"y": [90.0, 90.0]}))


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize(
    "names",
    [([10, 20, 30], [35, 25]), ([10, 20, 30], [25]), (["2020-01", "2020-02"], ["2019-12"])],
)
def test_names_that_are_times_do_not_go_back(names):
    before, later = names
    fit = of_months(pd.DataFrame({"month": before, "y": np.linspace(10, 12, len(before))}))
    with refused("data.not-in-order"):
        fit.predict(pd.DataFrame({"month": later}))
    after = [40, 70] if before[0] == 10 else ["2020-03"]
    assert len(fit.predict(pd.DataFrame({"month": after}))) == len(after)


def test_a_season_has_a_thousand_places_at_most():
    nodes = {"s[t]": "Seasonal(8000, 1, initial=ZeroSumNormal(5))", "y[t]": "Normal(s, 1)"}
    with refused("model.out-of-range", "1,000"):
        bl.check(bl.Model(data={"rows": "t"}, model={"family": "graph", "nodes": nodes}), {"y": np.zeros(20)})


def test_recursions_look_back_a_thousand_steps_at_most():
    nodes = {"a": "Normal(0, 1)", "h[t]": "a * previous(h, 100000000, start=1) + 1", "y[t]": "Normal(h, 1)"}
    with refused("model.out-of-range", "1,000"):
        bl.check(bl.Model(data={"rows": "t"}, model={"family": "graph", "nodes": nodes}), {"y": np.zeros(20)})
