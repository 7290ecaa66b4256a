"""A model as a program of the density machine is the model of its PyMC graph: names, density, gradient, quantities."""

from __future__ import annotations

import warnings

import numpy as np
import pytensor
import pytest
from pymc.logprob.utils import ParameterValueError
from pytensor.compile.mode import Mode
from pytensor.graph.rewriting.utils import rewrite_graph

import bayeslab as bl
from bayeslab.posterior import graph_model
from bayeslab.posterior.machine.arrays import PARTS, NotLowered
from bayeslab.posterior.machine.density import MachineDensity
from bayeslab.posterior.transforms import constrained
from bayeslab.preparation import Source
from tests.models.shipped import MODELS
from tests.posterior.machine.checks import differences

KINDS = ("graph", "regression", "regressions")
QUICK = ("eight_schools", "stackloss", "women_1")
SLOW = (
    "absences", "airline", "airquality", "airquality_path", "birth_weight", "births", "braking", "crime", "diabetes", "faithful",
    "faithful_net", "gasoline", "housing", "insect_sprays", "insurance", "longley", "nile", "orange", "phones", "radon",
    "radon_formula", "radon_map", "radon_slopes", "sleep", "sunspots", "trees", "women_2", "women_3",
)  # fmt: skip
#: Models with discrete nodes that are summed out.
SUMS = (
    "absences_kinds", "anaesthetists", "cervix", "coal", "coal_steps", "coal_trend", "cows", "dipper", "feeders", "gnp",
    "polio", "ponds", "weeds",
)  # fmt: skip
#: Models of short forms, whose latents are summed or integrated out by kernels.
SHORT = (
    "candy_hidden", "co2", "coal_rates", "coal_regimes", "crime_factors", "galaxies", "geyser_clusters",
    "geyser_process", "geyser_runs", "heart_disease", "meter", "nile_level", "orings", "ozone_regimes", "play_tennis",
    "role_conflict", "timber_net",
)  # fmt: skip
#: Distances of the points from the start. Near its end points a Beta of a mean, or counts of a huge mean, have no digits
#: in PyMC's formulas.
SPREADS = (
    {"gasoline": (0.0, 0.01, 0.05), "absences": (0.0, 0.3, 1.0, 3.0)}
    | dict.fromkeys(("coal_trend", "cows", "gnp", "ponds"), (0.0, 0.3, 1.0))
    | {"geyser_process": (0.1, 0.3, 1.0, 3.0)}
)  # PyMC loses the slope of a Beta in a parameter that is one, as at the start


#: Models whose log densities differ by a constant, since PyMC keeps short constants in single precision, and so the
#: logarithm of the mass between the ends of a truncated distribution, or of a standard deviation.
SHORT_CONSTANT = {"t of states": 4e-7, "transitions by a column": 1.1e-7}
#: Models of which PyMC's graph has no digits far from the start, or takes different numbers for equal ones: shares
#: near one, cutpoints very close to each other, variances below the smallest number, stationary distributions of states
#: that are hardly left.
LOST = {
    "housing",
    "gasoline",
    "inhaler",
    "ponds",
    "coal_trend",
    "cows",
    "gnp",
    "second order, stationary",
    "stationary",
}


def far_from_the_start(density, function, at, name):
    """30 from zero, in all coordinates or in one: what is finite in the graph is finite, and 0 is 0."""
    rng, points = np.random.default_rng(7), []
    for _ in range(2):
        points += [rng.uniform(-30, 30, at.size), rng.choice([-30.0, 30.0], at.size)]
    for i in rng.choice(at.size, min(at.size, 4), replace=False):
        points += [np.where(np.arange(at.size) == i, side, at) for side in (-30.0, 30.0)]
    for point in points:
        mine, gradient = density(point)
        try:
            value, *slopes = function(*density.split(point).values())
        except (ParameterValueError, np.linalg.LinAlgError):  # as of a probability that was rounded to one
            continue
        except ValueError:  # PyTensor's solution of a singular system has another shape
            assert name in LOST
            continue
        if np.isfinite(value) and all(np.isfinite(slope).all() for slope in slopes):
            assert np.isfinite(mine)
            assert np.isfinite(gradient).all()
        if value == -np.inf and name not in LOST:
            assert not np.isfinite(mine)


def posterior(name):
    source = Source(MODELS / f"{name}.yaml")
    return source.posterior(source.bound(None).dataset)


def reference(model):
    """PyMC's log density and gradient, with the rewrites that the compiled density has, but not compiled."""
    logp = rewrite_graph(model.logp(), include=("stabilize",))
    logp = rewrite_graph(logp, include=("canonicalize", "stabilize"))
    outputs = [logp, *pytensor.grad(logp, model.value_vars)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mode = Mode("py", "fast_compile")
        function = pytensor.function(model.value_vars, outputs, mode=mode, on_unused_input="ignore")

    def quiet(*values):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return function(*values)

    return quiet


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(n, marks=pytest.mark.slow(why="compiles")) for n in (*SLOW, *SUMS, *SHORT))]
)
def test_a_lowered_model_is_its_graph(name):
    same_as_its_graph(posterior(name), name)


def same_as_its_graph(model, name):
    machine, graph = model.machine_model(), model.graph()
    density = MachineDensity(machine, lambda: graph)
    assert density.names == tuple(v.name for v in graph.value_vars)
    assert density.parameters == tuple(rv.name for rv in graph.free_RVs)
    start = graph.initial_point()
    assert density.shapes == tuple(np.shape(start[n]) for n in density.names)
    at = density.flat(start)
    if not density.ordered:  # their start is the median of random draws
        np.testing.assert_allclose(density.centre(), at, rtol=1e-12, atol=1e-12)
    assert density.improper == graph_model.improper(graph)
    assert density.ordered == graph_model.ordered(graph)
    if name in SHORT:
        assert density.dims == graph_model.dims_of(graph)
    assert density.centred == graph_model.centred(graph)
    rng, function = np.random.default_rng(1), reference(graph)
    values = []
    for spread in SPREADS.get(name, (0.0, 0.3, 1.0, 3.0, 10.0)):
        point = at + spread * rng.standard_normal(at.size)
        value, *slopes = function(*density.split(point).values())
        mine, gradient = density(point)
        assert np.isfinite(mine) == np.isfinite(value)
        if name in SHORT_CONSTANT:
            constant = density(at)[0] - function(*density.split(at).values())[0]
            assert abs(constant) < SHORT_CONSTANT[name]
            value = value + constant
        if np.isfinite(value):
            slope = np.concatenate([np.ravel(s) for s in slopes])
            size = max(1.0, abs(float(value)))
            assert abs(mine - value) <= 1e-9 * size, (spread, mine, float(value))
            assert spread > 1.0 or abs(machine.program.value(point) - mine) <= 1e-9 * size
            assert np.abs(gradient - slope).max() <= 1e-9 * max(1.0, np.abs(slope).max()), spread
        values.append(point)
    far_from_the_start(density, function, at, name)
    points = density.split(np.stack(values[:3]))
    theirs, ours = constrained(graph, points), density.constrained(points)
    assert ours.keys() == theirs.keys()
    assert density.intermediate == graph_model.intermediate(graph) & ours.keys()
    for key, value in theirs.items():
        np.testing.assert_allclose(ours[key], value, rtol=1e-9, atol=1e-9, err_msg=key)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", SUMS)
def test_discrete_nodes_are_summed_out_as_in_the_graph(name):
    """At 20 points, and by NumPy; the adjoints by finite differences of NumPy's values."""
    model = posterior(name)
    graph, program = model.graph(), model.machine_model().program
    density, function = MachineDensity(model.machine_model(), lambda: graph), reference(graph)
    at, rng = density.flat(graph.initial_point()), np.random.default_rng(4)
    for spread in np.repeat([0.1, 0.5, 1.0, 1.0 if name in LOST else 2.0], 5):
        point = at + spread * rng.standard_normal(at.size)
        value, *slopes = function(*density.split(point).values())
        mine, gradient = density(point)
        slope = np.concatenate([np.ravel(s) for s in slopes])
        assert mine == pytest.approx(float(value), rel=1e-9)
        assert program.value(point) == pytest.approx(mine, rel=1e-11)
        assert np.abs(gradient - slope).max() <= 1e-9 * max(1.0, np.abs(slope).max())
    for spread in (0.3, 1.0, 2.0):
        point = at + spread * rng.standard_normal(at.size)
        _, gradient = program.value_and_gradient(point)
        size = max(1.0, np.abs(gradient).max())
        np.testing.assert_allclose(gradient / size, differences(program, point) / size, rtol=1e-5, atol=1e-6)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", ["sleep", "radon_slopes", "airquality", "women_1"])
def test_parts_of_the_density_are_those_of_the_graph(name):
    model = posterior(name)
    graph = model.graph()
    machine, at, start = model.machine_model(), [], graph.initial_point()
    densities = {parts: MachineDensity(machine, lambda: graph, parts) for parts in (*((p,) for p in PARTS), PARTS)}
    rng = np.random.default_rng(3)
    for spread in (0.0, 0.5, 1.0):
        at.append(densities[PARTS].flat(start) + spread * rng.standard_normal(machine.program.n_dim))
    data = [*graph.observed_RVs, *graph.potentials]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function = pytensor.function(
            graph.value_vars,
            [graph.logp(vars=graph.free_RVs, jacobian=False), graph.logp(), graph.logp(vars=data)],
            mode=Mode("py", "fast_compile"),
            on_unused_input="ignore",
        )
    for point in at:
        prior, whole, likelihood = map(float, function(*densities[PARTS].split(point).values()))
        parts = {p: densities[(p,)](point)[0] for p in PARTS}
        assert parts["prior"] == pytest.approx(prior, rel=1e-9)
        assert parts["likelihood"] == pytest.approx(likelihood, rel=1e-9)
        assert sum(parts.values()) == pytest.approx(whole, rel=1e-9)
        slopes = sum(densities[(p,)](point)[1] for p in PARTS)
        np.testing.assert_allclose(slopes, densities[PARTS](point)[1], rtol=1e-9, atol=1e-9 * np.abs(slopes).max())


@pytest.mark.parametrize("gaps", [(-30.0, -30.0), (-9.0, 2.0), (0.3, 5.0), (3.0, -25.0)])
def test_slopes_of_ordered_categories_keep_their_digits(gaps):
    """By the logistic distribution's formulas in extended precision, with the distances between cutpoints as given."""
    x, grade = np.linspace(-2, 2, 9), np.array([0, 1, 2, 3, 1, 2, 1, 3, 2])
    nodes = {"b": "Flat()", "c[cut]": "Ordered(Flat())", "grade[obs_id]": "OrderedLogistic(eta=b * x, cutpoints=c)"}
    source = Source(bl.Model(model={"family": "graph", "nodes": nodes}, dims={"cut": 3}))
    model = source.posterior(source.bound({"x": x, "grade": grade}).dataset).machine_model()
    point = np.array([-0.7, 0.4, *gaps])

    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    b, first, *logs = point.astype(np.longdouble)
    width = [np.longdouble(0), *np.exp(np.array(logs))]
    value, slope = sum(logs), np.array([0, 0, 1, 1], dtype=np.longdouble)
    for eta, k, move in zip(b * x, grade, x, strict=True):
        at = first - eta + np.cumsum(width)
        if k in (0, 3):
            side = 1 if k == 0 else -1
            value += np.log(sigmoid(side * at[k - (k == 3)]))
            shift = side * sigmoid(-side * at[k - (k == 3)])
            by_width = [shift * (k == 3)] * 2
        else:
            low, high, w = at[k - 1], at[k], width[k]
            value += np.log(-np.expm1(-w)) + np.log(sigmoid(-low)) + np.log(sigmoid(high))
            shift = sigmoid(-high) - sigmoid(low)
            by_width = [sigmoid(-high) + 1 / np.expm1(w), 0] if k == 1 else [shift, sigmoid(-high) + 1 / np.expm1(w)]
        slope += [-shift * move, shift, *(d * w for d, w in zip(by_width, width[1:], strict=True))]
    mine, gradient = model.program.value_and_gradient(point)
    assert mine == pytest.approx(float(value), rel=1e-12)
    np.testing.assert_allclose(gradient, slope.astype(float), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0, 10.0])
def test_a_product_of_a_label_and_a_chance_keeps_its_digits(spread):
    """By the formula of occupancy in extended precision, also where the chance of a detection is nearly one."""
    model = posterior("ponds")
    columns = {n: np.asarray(model.data.term(n).value) for n in ("reeds", "degrees", "heard")}
    night, program = np.asarray(model.data.term("pond").codes), model.machine_model().program
    rng = np.random.default_rng(3)
    for _ in range(5):
        point = spread * rng.standard_normal(4)
        a, b, c, d = point.astype(np.longdouble)
        there, call = a + b * columns["reeds"], c + d * columns["degrees"]
        total = sum(
            -(x**2) / (2 * s**2) - np.log(s * np.sqrt(2 * np.longdouble(np.pi)))
            for x, s in zip((a, b, c, d), map(np.longdouble, (1.5, 3, 1.5, 0.5)), strict=True)
        )
        for pond in range(len(there)):
            heard, eta = columns["heard"][night == pond], call[night == pond]
            inside = -np.logaddexp(0, -there[pond]) - np.logaddexp(0, np.where(heard == 1, -eta, eta)).sum()
            outside = -np.logaddexp(0, there[pond]) if not heard.any() else -np.inf
            total += np.logaddexp(inside, outside)
        mine, gradient = program.value_and_gradient(point)
        assert mine == pytest.approx(float(total), rel=1e-12)
        step = 1e-5 * max(spread, 1.0)
        slopes = [(program.value(point + step * e) - program.value(point - step * e)) / (2 * step) for e in np.eye(4)]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-6 * np.abs(gradient).max())


RECURSIONS = {
    "GARCH": {
        "w": "Exponential(1)", "a": "Beta(1, 2)", "b": "Beta(1, 2)",
        "v[t]": "w + a * lag(y, 1, start=0) ** 2 + b * previous(v, 1, start=1)", "y[t]": "Normal(0, sqrt(v))",
    },
    "GARCH whose first row is the start": {
        "mu": "Normal(0, 1)", "w": "HalfNormal(1)", "share[k]": "Dirichlet(1)",
        "h[t]": "w + share[0] * (lag(y, 1) - mu) ** 2 + share[1] * previous(h, 1, start=1)", "y[t]": "Normal(mu, sqrt(h))",
    },
    "GARCH of second order with starts": {
        "a": "Exponential(1)", "b": "Exponential(1)", "w": "HalfNormal(1)", "share[k]": "Dirichlet(1)",
        "h[t]": "w + share[0] * lag(y, 2) ** 2 + share[1] * previous(h, 1, start=a)"
        " + share[2] * where(index(t) == 1, a, previous(h, 2, start=b))",
        "y[t]": "Normal(0, sqrt(h))",
    },
    "moving average": {
        "m": "Normal(0, 1)", "theta": "Normal(0, 0.5)", "s": "HalfNormal(1)",
        "e[t]": "y - m - theta * previous(e, 1, start=0)", "terms": "Potential(-0.5 * sum((e / s) ** 2) - 40 * log(s))",
        "y[t]": "Normal(m, 10)",
    },
    "stochastic volatility": {
        "mu": "Normal(0, 1)", "phi": "Uniform(-1, 1)", "s": "HalfNormal(1)",
        "h[t]": "Normal(mu + phi * (previous(h, 1, start=mu) - mu), s)", "y[t]": "Normal(0, exp(h / 2))",
    },
    "positive rows": {"h[t]": "Gamma(2, 2 / previous(h, 1, start=1))", "y[t]": "Normal(0, h)"},
    "sampled rows with starts": {
        "s": "HalfNormal(1)", "first[k]": "Normal(0, 1)",
        "season[t]": "Normal(-previous(season, 1, start=first[0]) - previous(season, 3, start=first[2]) / 2, s)",
        "y[t]": "Normal(season, 1)",
    },
    "vectors, sampled": {
        "F[k, l]": "Normal(0, 0.3)", "s": "HalfNormal(1)",
        "x[k, t]": "Normal(F @ rename(previous(x, 1, start=0), k, l), s)",
        "level[t]": "sum(x, k)", "error[t]": "y - level", "y[t]": "Normal(level + lag(error, 1, start=0) / 2, 1)",
    },
    "vectors, computed": {
        "F[k, l]": "Normal(0, 0.3)", "a[k]": "Normal(0, 1)", "b[k]": "Normal(0, 1)",
        "x[k, t]": "a * y + F @ rename(previous(x, 1, start=b), k, l) + previous(x, 2, start=a) / 10",
        "z[t]": "Normal(sum(x, k), 1)",
    },
    "two that look back at each other": {
        "a": "Normal(0, 1)", "b": "Normal(0, 1)", "u[t]": "0.3 * lag(v, 1, start=a) + y",
        "v[t]": "u / 2 - 0.2 * lag(v, 2, start=b) + 0.1 * lag(y, 1)", "z[t]": "Normal(u + v, 1)",
    },
    "indices by a factor that changes from row to row": {
        "a": "Normal(0, 1)", "b": "Normal(0, 1)",
        "v[g, t]": "previous(v, 1, start=a) / 2 + b * y * previous(v, 2, start=1)[g] / 3", "z[t]": "Normal(sum(v, g), 1)",
    },
    "GARCH of two series": {
        "w": "HalfNormal(1)", "a": "Beta(1, 2)", "b": "Beta(1, 2)",
        "h[t]": "w + a * lag(y, 1) ** 2 + b * lag(h, 1, start=1) + 0.1 * lag(q, 1, start=w)",
        "q[t]": "w + b * lag(z, 2) ** 2 + 0.1 * lag(q, 1, start=w) + 0.2 * lag(h, 2, start=2)",
        "y[t]": "Normal(0, sqrt(h))", "z[t]": "Normal(0, sqrt(q))",
    },
}  # fmt: skip


def of_rows(nodes, **columns):
    spec = bl.Model(model={"family": "graph", "nodes": nodes}, data={"rows": "t"}, dims={"k": 3, "l": "k"})
    source = Source(spec)
    return source.posterior(source.bound(columns).dataset)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", RECURSIONS)
def test_a_lowered_recursion_is_its_scan(name):
    y, z = np.random.default_rng(0).standard_normal((2, 40))
    others = {"z": z} if "z[t]" in RECURSIONS[name] else {}
    if "factor" in name:
        others["g"] = np.random.default_rng(2).choice(["a", "b", "c"], 40)
    model = of_rows(RECURSIONS[name], y=y, **others)
    graph = model.graph()
    density, start = MachineDensity(model.machine_model(), lambda: graph), graph.initial_point()
    assert density.names == tuple(v.name for v in graph.value_vars)
    program, at = density.machine.program, density.flat(start)
    np.testing.assert_allclose(density.centre(), at, atol=1e-12)
    rng, function = np.random.default_rng(1), reference(graph)
    for spread in np.repeat([0.0, 0.3, 0.6, 1.0], 5):
        point = at + spread * rng.standard_normal(at.size)
        value, *slopes = function(*density.split(point).values())
        mine, gradient = density(point)
        assert mine == pytest.approx(float(value), rel=1e-9)
        slope = np.concatenate([np.ravel(s) for s in slopes])
        np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-9 * np.abs(slope).max())
    size = max(1.0, np.abs(gradient).max())
    np.testing.assert_allclose(gradient / size, differences(program, point) / size, rtol=1e-5, atol=1e-6)
    far_from_the_start(density, function, at, name)


def test_the_first_rows_of_a_recursion_are_its_starts():
    """By a loop over the rows: undefined rows are the start, each lag has its start, and nodes look back at each other."""
    nodes = {
        "a": "Normal(0, 1)", "b": "Normal(0, 1)",
        "h[t]": "1 + lag(y, 2) + previous(h, 1, start=a) / 2 + previous(h, 3, start=b) / 4",
        "u[t]": "lag(v, 1, start=a) / 2 + y", "v[t]": "u / 2 - lag(v, 2, start=b) + lag(y, 1)",
        "known[t]": "previous(known, 2, start=3) / 2 + previous(known, 1, start=1) + lag(y, 1)",
        "z[t]": "Normal(h + u + v + known, 1)",
    }  # fmt: skip
    y, z = np.random.default_rng(3).standard_normal((2, 9))
    program = of_rows(nodes, y=y, z=z).machine_model().program
    a, b = 0.7, -1.1
    h, u, v, known = np.zeros((4, 9))
    for t in range(9):
        back = {
            (name, k): rows[t - k]
            for name, rows in (("h", h), ("v", v), ("known", known))
            for k in range(1, min(t, 3) + 1)
        }
        h[t] = a if t < 2 else 1 + y[t - 2] + back["h", 1] / 2 + back.get(("h", 3), b) / 4
        u[t] = back.get(("v", 1), a) / 2 + y[t]
        v[t] = a if t < 1 else u[t] / 2 - back.get(("v", 2), b) + y[t - 1]
        known[t] = 1 if t < 1 else back.get(("known", 2), 3) / 2 + back["known", 1] + y[t - 1]
    out = program.outputs(np.array([[a, b]]))
    for name, rows in (("h", h), ("u", u), ("v", v)):
        np.testing.assert_allclose(out[name][0], rows, rtol=1e-14)
    mean = h + u + v + known
    expected = -0.5 * (a**2 + b**2 + ((z - mean) ** 2).sum()) - 11 * 0.5 * np.log(2 * np.pi)
    assert program.value([a, b]) == pytest.approx(expected, rel=1e-13)
    assert program.value_and_gradient([a, b])[0] == pytest.approx(expected, rel=1e-13)


def test_every_model_file_of_these_families_is_listed():
    listed = {*QUICK, *SLOW, *SUMS}
    files = {path.stem for path in MODELS.glob("*.yaml") if Source(path).model.model.family in KINDS}
    assert files == listed


def test_long_recursions_with_factors_are_named():
    nodes = RECURSIONS["indices by a factor that changes from row to row"]
    y, z = np.random.default_rng(0).standard_normal((2, 2_001))
    with pytest.raises(NotLowered, match="2,001 rows"):
        of_rows(nodes, y=y, z=z, g=np.random.default_rng(2).choice(["a", "b"], 2_001)).machine_model()
