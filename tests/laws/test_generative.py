"""Nodes on their natural scale by the machine: densities of data and draws are those of SciPy and of the PyMC graph."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.errors import DataError, ModelError
from bayeslab.posterior.evaluation import expand
from bayeslab.posterior.generative import GraphGenerative
from bayeslab.posterior.machine.density import MachineDensity
from bayeslab.posterior.machine.generative import MachineGenerative
from bayeslab.posterior.transforms import tables_at
from bayeslab.preparation import Source
from bayeslab.results.fitted import bound_to
from bayeslab.results.predict import pointwise_graph
from tests.laws.test_machine_models import QUICK, SLOW, SUMS
from tests.models.shipped import MODELS

#: Near the end points of a Beta, and of chances near one, PyMC's formulas have no digits.
NEAR = {"gasoline": 0.03, "birth_weight": 0.03}
#: Models whose states or functions are integrated out: each observation has its density given all others.
INTEGRATED = {"airline", "radon_map"}
LATER = (*SLOW, *SUMS)
DIMS = {"k": 3, "t": 6, "l": "k"}


def posterior_of(nodes, dims=DIMS, **columns):
    source = Source(bl.Model(model={"family": "graph", "nodes": nodes}, data={"rows": "row"}, dims=dims))
    return source.posterior(source.bound(columns or None).dataset)


def agree(posterior, values, unconstrained):
    """Log densities of the machine at draws, and of the graph at their unconstrained values."""
    nodes = posterior.generative("predict")
    assert isinstance(nodes, MachineGenerative)
    n = len(next(iter(values.values())))
    mine, graph = nodes.log_densities({name: values[name] for name in nodes.random}, n), pointwise_graph(posterior)
    observed = list(graph.observed_RVs)
    theirs = expand(graph, unconstrained, graph.logp(vars=observed, sum=False, jacobian=False))
    assert mine.keys() == {rv.name.removesuffix("_observed") for rv in observed}
    for rv, terms in zip(observed, theirs, strict=True):
        each = mine[rv.name.removesuffix("_observed")]
        assert each.shape == terms.shape
        np.testing.assert_allclose(each, terms, rtol=1e-9, atol=1e-9)
    return mine


def at_points(posterior, spread):
    machine = posterior.machine_model()
    at = machine.start()
    points = at + spread * np.random.default_rng(1).standard_normal((4, at.size))
    return machine.program.outputs(points), MachineDensity(machine, posterior.graph).split(points)


@pytest.mark.parametrize(
    "name",
    [*QUICK, *(pytest.param(n, marks=pytest.mark.slow(why="compiles")) for n in SLOW if n not in INTEGRATED)],
)
def test_log_densities_of_observations_are_those_of_the_graph(name):
    source = Source(MODELS / f"{name}.yaml")
    posterior = source.posterior(source.bound(None).dataset)
    agree(posterior, *at_points(posterior, NEAR.get(name, 0.3)))


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(n, marks=pytest.mark.slow(why="compiles")) for n in LATER)])
def test_log_priors_are_those_of_the_graph(name):
    source = Source(MODELS / f"{name}.yaml")
    posterior = source.posterior(source.bound(None).dataset)
    machine, graph = posterior.machine_model(), posterior.graph()
    points = machine.start() + 0.3 * np.random.default_rng(1).standard_normal((4, machine.program.n_dim))
    mine, values = machine.log_priors(points), MachineDensity(machine, posterior.graph).split(points)
    theirs = expand(graph, values, graph.logp(vars=graph.free_RVs, sum=False, jacobian=False))
    assert list(mine) == [rv.name for rv in graph.free_RVs]
    for rv, terms in zip(graph.free_RVs, theirs, strict=True):
        # PyMC holds constants such as log(2) in single precision.
        np.testing.assert_allclose(mine[rv.name], terms, rtol=1e-9, atol=5e-9)


def test_log_densities_are_those_of_scipy():
    y, k = np.array([0.3, np.nan, -1.2]), np.array([2.0, 0.0, np.nan])
    posterior = posterior_of({"m": "Normal(0, 1)", "s": "HalfNormal(1)", "y[row]": "Normal(m, s)",
                              "k[row]": "Poisson(exp(m))"}, y=y, k=k)  # fmt: skip
    nodes, rng = posterior.generative("predict"), np.random.default_rng(2)
    assert nodes.random == ("m", "s", "y_unobserved")
    draws = {"m": rng.normal(size=5), "s": rng.uniform(0.5, 2, 5), "y_unobserved": rng.normal(size=(5, 1))}
    logs, m, s = nodes.log_densities(draws), draws["m"][:, None], draws["s"][:, None]
    np.testing.assert_allclose(logs["y"], stats.norm.logpdf(y[[0, 2]], m, s), rtol=1e-13)
    np.testing.assert_allclose(logs["k"], stats.poisson.logpmf(k[:2], np.exp(m)), rtol=1e-13)


@pytest.mark.slow(why="compiles")
def test_log_densities_of_nodes_with_gaps_and_past_are_those_of_the_graph():
    rng = np.random.default_rng(3)
    y = np.where(np.arange(12) % 5 == 2, np.nan, rng.normal(size=12))
    x = rng.normal(size=12)
    nodes = {
        "b": "Normal(0, 1)", "s": "HalfNormal(1)", "z[row]": "Normal(b * lag(z, 1), s)",
        "y[row]": "StudentT(4, b, s)", "w[row]": "Normal(y, s)",
    }  # fmt: skip
    posterior = posterior_of(nodes, y=y, z=x, w=x)
    logs = agree(posterior, *at_points(posterior, 0.3))
    assert {name: values.shape[1] for name, values in logs.items()} == {"z": 11, "y": 10, "w": 12}


#: Distributions of y with parameters that vary from draw to draw, and their distribution functions.
CUMULATIVE = {
    "Normal(m, s)": lambda y, m, s: stats.norm.cdf(y, m, s),
    "Gamma(2, s)": lambda y, m, s: stats.gamma.cdf(y, 2, scale=1 / s),
    "StudentT(4, m, s)": lambda y, m, s: stats.t.cdf(y, 4, m, s),
    "Beta(1 + s, 2)": lambda y, m, s: stats.beta.cdf(y, 1 + s, 2),
    "Truncated(Gumbel(m, s), lower=m, upper=m + s)": lambda y, m, s: (
        (stats.gumbel_r.cdf(y, m, s) - stats.gumbel_r.cdf(m, m, s))
        / (stats.gumbel_r.cdf(m + s, m, s) - stats.gumbel_r.cdf(m, m, s))
    ),
    "Mixture([0.3, 0.7], [Normal(m, s), Gumbel(m, s)])": lambda y, m, s: (
        0.3 * stats.norm.cdf(y, m, s) + 0.7 * stats.gumbel_r.cdf(y, m, s)
    ),
    "Poisson(s)": lambda y, m, s: stats.poisson.cdf(y, s),
    "NegativeBinomial(s, 2)": lambda y, m, s: stats.nbinom.cdf(y, 2, 2 / (2 + s)),
    "Categorical([0.2, 0.3, 0.5])": lambda y, m, s: np.choose(np.clip(y + 1, 0, 3).astype(int), [0.0, 0.2, 0.5, 1.0]),
    "OrderedLogistic(eta=m, cutpoints=[-1, 1])": lambda y, m, s: np.choose(
        np.clip(y + 1, 0, 3).astype(int), [0.0 * m, stats.logistic.cdf(-1 - m), stats.logistic.cdf(1 - m), 1.0 + 0 * m]
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", CUMULATIVE)
def test_draws_have_the_distribution_functions_of_scipy(text):
    """By Kolmogorov and Smirnov; jumps of discrete distributions are filled with uniform numbers."""
    posterior = posterior_of({"m": "Normal(0, 1)", "s": "HalfNormal(1)", "y[t]": text})
    nodes, rng, n = posterior.generative("simulate"), np.random.default_rng(4), 3000
    given = {"m": rng.normal(size=n), "s": rng.uniform(0.5, 2, n)}
    assert isinstance(nodes, MachineGenerative)
    y = nodes.draw(["y"], given, 5)["y"]
    m, s = np.broadcast_arrays(given["m"][:, None], given["s"][:, None], y)[:2]
    u = CUMULATIVE[text](y, m, s)
    if y.dtype.kind == "i":
        below = CUMULATIVE[text](y - 1, m, s)
        u = below + rng.random(y.shape) * (u - below)
    assert stats.kstest(u.ravel(), "uniform").pvalue > 1e-3
    # Rows of a draw are independent given its parameters.
    assert abs(np.corrcoef(u[:, 0], u[:, 1])[0, 1]) < 4 / np.sqrt(n)


#: Models whose draws are compared with those of the graph of PyMC.
DRAWN = {
    "vectors": {"c[k]": "Dirichlet([2, 3, 4])", "y[t, k]": "Multinomial(9, c)", "z[k]": "MvNormal(c, [[2, 1, 0], [1, 2, 0], [0, 0, 1]])"},
    "overdispersed": {"a": "Gamma(3, 1)", "y[t, k]": "DirichletMultinomial(7, [1, 2, a])"},
    "ordered counts": {"m": "Normal(0, 1)", "y[k]": "OrderedMultinomial(m, [-1, 1], 8)"},
    "series": {
        "s": "HalfNormal(1)", "a[t]": "AR([0.5, -0.2], sigma=s, init_dist=Normal(1, 1))", "g[t]": "GaussianRandomWalk(0.1, s, init_dist=Normal(0, 1))",
        "v[t]": "GARCH11(0.5, 0.3, 0.2, 1)", "y[t]": "Normal(a + g + v, s)",
    },
    "rows in turn": {"p": "Uniform(-1, 1)", "h[t]": "Normal(1 + p * previous(h, 1, start=2), 0.5)", "y[t]": "Poisson(exp(h))"},
    "correlations": {"L[k, l]": "LKJCholeskyCov(eta=2, sd_dist=Exponential(1))", "R[k, l]": "LKJCorr(eta=2)", "u[k]": "MvNormal(0, chol=L)"},
    "sticks": {"w[k]": "StickBreaking(2)", "e[k]": "ZeroSumNormal(2)", "y[t]": "Mixture(w, Normal(e, 1))"},
    "censored": {"m": "Normal(0, 1)", "y[t]": "Censored(Normal(m, 1), lower=-1, upper=1)", "x[t]": "Truncated(Poisson(exp(m)), lower=1)"},
    "discrete parents": {"p": "Beta(2, 2)", "z[t]": "Bernoulli(p)", "m[k]": "Normal(0, 1)", "y[t]": "Normal(m[z] + z, 1)"},
    "zeros": {"y[t]": "ZeroInflatedPoisson(0.4, 3)", "x[t]": "HurdleGamma(0.4, 2, 1)", "n[t]": "BetaBinomial(2, 3, 9)", "u[t]": "DiscreteUniform(2, 5)"},
}  # fmt: skip


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", DRAWN)
def test_draws_are_those_of_the_graph(name):
    """Each number by Kolmogorov and Smirnov, and products of neighbouring numbers by their means."""
    posterior, n = posterior_of(DRAWN[name]), 2000
    nodes = posterior.generative("simulate")
    assert isinstance(nodes, MachineGenerative)
    graph = GraphGenerative(posterior.graph(purpose="simulate"))
    wanted = [key.split("[")[0] for key in DRAWN[name] if key.split("[")[0] in {*nodes.random, *nodes.computed}]
    mine, theirs = nodes.draw(wanted, {}, 6, n), graph.draw(wanted, {}, 7, n)
    for key in wanted:
        assert mine[key].shape == theirs[key].shape
        assert mine[key].dtype.kind == theirs[key].dtype.kind
        a, b = mine[key].reshape(n, -1).astype(float), theirs[key].reshape(n, -1).astype(float)
        for i in range(a.shape[1]):
            assert stats.ks_2samp(a[:, i], b[:, i]).pvalue > 1e-4, key
        low, high = np.quantile(b, [0.01, 0.99], axis=0)
        a, b = np.clip(a, low, high), np.clip(b, low, high)
        p, q = a[:, 1:] * a[:, :-1], b[:, 1:] * b[:, :-1]
        error = np.sqrt((p.var(axis=0) + q.var(axis=0)) / n)
        assert np.all(np.abs(p.mean(axis=0) - q.mean(axis=0)) <= 4.5 * error + 1e-12), key


def test_draws_of_neighbours_have_the_covariance_of_their_density():
    """(tau (D - alpha W))⁻¹; the draws of PyMC 6.3 have another one."""
    nodes = {"W[k, l]": "[[0, 1, 1], [1, 0, 1], [1, 1, 0]]", "y[k]": "CAR(mu=1, W=W, alpha=0.5, tau=2)"}
    y = posterior_of(nodes).generative("simulate").draw(["y"], {}, 6, 4000)["y"]
    wanted = np.array([[0.3, 0.1, 0.1], [0.1, 0.3, 0.1], [0.1, 0.1, 0.3]])
    np.testing.assert_allclose(wanted @ (2 * (2 * np.eye(3) - 0.5 * (1 - np.eye(3)))), np.eye(3), atol=1e-12)
    np.testing.assert_allclose(y.mean(axis=0), 1.0, atol=4.5 * np.sqrt(0.3 / 4000))
    np.testing.assert_allclose(np.cov(y.T), wanted, atol=4.5 * np.sqrt(2 / 4000) * 0.3)


@pytest.mark.parametrize("text", ["Poisson(exp(m))", "Categorical([0.2, 0.3, 0.5])", "Binomial(4, invlogit(m))"])
def test_probabilities_of_values_are_averages_over_draws(text):
    posterior = posterior_of({"m": "Normal(0, 1)", "y[t]": text})
    m, levels = np.random.default_rng(8).normal(size=50), np.arange(3)
    total = posterior.generative("simulate").probabilities("y", levels, {"m": m}, 9, 50)
    each = {
        "P": lambda k: stats.poisson.pmf(k, np.exp(m)),
        "C": lambda k: np.full(50, [0.2, 0.3, 0.5][k]),
        "B": lambda k: stats.binom.pmf(k, 4, 1 / (1 + np.exp(-m))),
    }[text[0]]
    np.testing.assert_allclose(total, np.repeat([[each(k).sum()] for k in levels], 6, axis=1), rtol=1e-12)


#: Series and functions that are integrated out, and the covariance of their values without data.
HIDDEN = {
    "level": (
        {"s": "HalfNormal(1)", "r": "HalfNormal(1)", "level[row]": "LocalLevel(s, initial=Normal(1, 2))", "twice[row]": "2 * level",
         "y[row]": "Normal(level, r)"},
        lambda v, x: 4 + v["s"] ** 2 * np.minimum.outer(np.arange(len(x)), np.arange(len(x))), 1.0, "level",
    ),
    "function": (
        {"s": "HalfNormal(1)", "r": "HalfNormal(1)", "f[row]": "GaussianProcess(ExpQuad(x, 1.5, s))", "twice[row]": "2 * f",
         "y[row]": "Normal(f, r)"},
        lambda v, x: v["s"] ** 2 * np.exp(-0.5 * np.subtract.outer(x, x) ** 2 / 1.5**2), 0.0, "f",
    ),
}  # fmt: skip


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("name", HIDDEN)
def test_states_and_functions_have_the_moments_of_normal_conditioning(name):
    """Drawn back given the data at one point, and their means; so has each row given all others."""
    nodes, covariance, mean, hidden = HIDDEN[name]
    x = np.array([0.0, 0.7, 1.1, 2.5, 3.0, 4.2])
    y = np.array([0.2, 1.3, np.nan, 0.4, -0.5, 0.9])
    posterior = posterior_of(nodes, x=x, y=y)
    machine, n = posterior.summing(), 6000
    assert posterior.integrated() == {hidden: f"_{hidden}_z"}
    point = np.log([0.8, 0.5])
    values = {key: np.repeat(v, n, axis=0) for key, v in machine.program.outputs(point[None]).items()}
    normals = machine.recovered(np.tile(point, (n, 1)), np.random.default_rng(3))
    drawn = posterior.generative("predict").draw([hidden, "twice"], values | normals, 4)
    np.testing.assert_array_equal(drawn["twice"], 2 * drawn[hidden])
    there = ~np.isnan(y)
    prior = covariance({"s": 0.8}, x)
    rows = prior[np.ix_(there, there)] + 0.25 * np.eye(there.sum())
    gain = prior[:, there] @ np.linalg.inv(rows)
    expected, spread = mean + gain @ (y[there] - mean), prior - gain @ prior[there]
    error = 5 * np.sqrt(np.diag(spread) / n)
    assert np.all(np.abs(drawn[hidden].mean(axis=0) - expected) < error)
    np.testing.assert_allclose(np.cov(drawn[hidden].T), spread, atol=6 * np.sqrt(2 / n) * spread.max())
    means = machine.expected(point[None])
    one = posterior.generative("predict").draw([hidden], {key: v[:1] for key, v in values.items()} | means, 4)[hidden]
    np.testing.assert_allclose(one[0], expected, rtol=1e-5)
    inverse = np.linalg.inv(rows)
    away = (inverse @ (y[there] - mean)) / np.diag(inverse)
    alone = stats.norm.logpdf(away, 0, 1 / np.sqrt(np.diag(inverse)))
    np.testing.assert_allclose(machine.terms(point[None])["y"][0, there], alone, rtol=1e-6)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", [*HIDDEN, "airline", "radon_map"])
def test_states_and_functions_are_those_of_the_graph(name):
    """Draws from the same random numbers, means, terms, and nodes that depend on them."""
    if name in HIDDEN:
        x, y = np.random.default_rng(0).normal(size=(2, 9))
        posterior = posterior_of(HIDDEN[name][0], x=x, y=y)
    else:
        source = Source(MODELS / f"{name}.yaml")
        posterior = source.posterior(source.bound(None).dataset)
    machine, (model, sums) = posterior.summing(), posterior.elimination()
    points = machine.start() + 0.2 * np.random.default_rng(1).standard_normal((5, machine.program.n_dim))
    values = machine.program.outputs(points)
    (tables,) = tables_at(model, sums, values)
    normals = machine.recovered(points, np.random.default_rng(2))
    pairs = [(normals, sums.drawn(tables, np.random.default_rng(2)))]
    pairs += [(machine.expected(points), sums.expected(tables)), (machine.terms(points), sums.terms(tables))]
    names, nodes = posterior.derived_nodes(), posterior.generative("predict")
    assert isinstance(nodes, MachineGenerative)
    graph = GraphGenerative(posterior.graph(purpose="predict"))
    given = {key: v for key, v in (values | normals).items() if key in nodes.random}
    pairs.append((nodes.draw(names, given, 3), graph.draw(names, given, 3)))
    for mine, theirs in pairs:
        assert mine.keys() == theirs.keys()
        for key, value in theirs.items():
            np.testing.assert_allclose(mine[key], value, rtol=1e-9, atol=1e-9)


def test_no_transition_is_impossible_because_prior_draws_are_zero():
    """Of a very sparse Dirichlet they are zeros and ones, or no numbers at all."""
    posterior = posterior_of(
        {
            "P[k, l]": "Dirichlet(0.0005)",
            "m[k]": "Normal(0, 1)",
            "z[row]": "MarkovChain(P)",
            "y[row]": "Normal(m[z], 1)",
        },
        y=np.zeros(90),
    )
    nodes = posterior.generative("simulate")
    assert isinstance(nodes, MachineGenerative)
    z = nodes.draw(["z"], {"P": np.full((5, 3, 3), 1 / 3), "m": np.zeros((5, 3))}, 1)["z"]
    assert len(np.unique(3 * z[:, :-1] + z[:, 1:])) == 9


def test_ordered_draws_of_different_elements_are_those_that_are_in_order():
    """Two normals with different means, given their order: the distribution of the smaller by quadrature."""
    posterior = posterior_of({"m[k]": "Ordered(Normal([0.5, 0, 3], [1, 1, 1]))", "y[t]": "Normal(m[0], 1)"})
    m = posterior.generative("simulate").draw(["m"], {}, 2, 4000)["m"]
    assert np.all(np.diff(m, axis=1) >= 0)
    grid = np.linspace(-6, 9, 3001)
    last = stats.norm.sf(grid, 3)
    above = np.cumsum((stats.norm.pdf(grid) * last)[::-1])[::-1]  # the second and the third are larger
    density = stats.norm.pdf(grid, 0.5) * above
    cumulative = np.cumsum(density) / density.sum()
    assert stats.kstest(m[:, 0], lambda x: np.interp(x, grid, cumulative)).pvalue > 1e-4


def test_ordered_draws_whose_order_depends_on_other_nodes_are_refused():
    posterior = posterior_of({"a": "Normal(0, 1)", "m[k]": "Ordered(Normal([a, 0, 1], 1))", "y[t]": "Normal(m[0], 1)"})
    with pytest.raises(ModelError, match="same parameters"):
        posterior.generative("simulate")


@pytest.mark.slow(why="statistical")
def test_ordered_draws_that_are_hardly_ever_in_order_are_refused():
    posterior = posterior_of({"m[k]": "Ordered(Normal([9, 0, -9], 0.1))", "y[t]": "Normal(m[0], 1)"})
    with pytest.raises(DataError, match="cannot be drawn"):
        posterior.generative("simulate").draw(["m"], {}, 2, 3)


#: Models of states, and the rows that follow those of their fit.
GOING_ON = {
    "level": ({"level[row]": "LocalLevel(s, initial=Normal(1, 2))"}, {}),
    "trend": (
        {"level[row]": "LocalTrend(s, 0.5, initial=Normal(1, 2), initial_slope=Normal(0, 1))",
         "rise[row]": "level_slope + x"}, {},
    ),
    "season": ({"level[row]": "Seasonal(4, s, initial=ZeroSumNormal(2))"}, {}),
    "runs": (
        {"level[row]": "LocalLevel(s, initial=Normal(1, 2), sequence=run)"},
        {"old": np.repeat([7, 3], [5, 4]), "new": np.array([7, 3, 3, 5])},
    ),
}  # fmt: skip


def later_rows(nodes, old, new):
    """The posterior of a model at new rows."""
    posterior = posterior_of(nodes, **old)
    return posterior.on(bound_to(SimpleNamespace(model=posterior.model, data=posterior.data), pd.DataFrame(new)))


@pytest.mark.parametrize("name", GOING_ON)
def test_states_go_on_as_in_the_graph(name):
    """With the same standard normals, of the rows of the fit and of later ones."""
    more, run = GOING_ON[name]
    rng, nodes = np.random.default_rng(3), {"s": "HalfNormal(1)", **more, "y[row]": "Normal(level, s)"}
    old, new = ({"x": rng.normal(size=n)} | ({"run": run[word]} if run else {}) for n, word in ((9, "old"), (4, "new")))
    later = later_rows(nodes, old | {"y": rng.normal(size=9)}, new)
    mine, graph = later.generative("predict", ("y",)), GraphGenerative(later.graph(purpose="predict", targets=("y",)))
    assert isinstance(mine, MachineGenerative)
    assert mine.random == graph.random
    given = {"s": rng.uniform(0.5, 2, 6)}
    given |= {n: rng.normal(size=(6, *mine._var(n).shape)) for n in mine.random if n.startswith("_")}
    assert {"_level_z", "_level_new"} == given.keys() - {"s"}
    for key, theirs in graph.draw(graph.computed, given, 1).items():
        np.testing.assert_allclose(mine.draw([key], given, 1)[key], theirs, rtol=1e-12, atol=1e-12)
    assert {key: mine.dims.get(key) for key in graph.computed} == {key: graph.dims[key] for key in graph.computed}


@pytest.mark.parametrize("text", ["ExpQuad(x, 1.5, s)", "ExpQuad(x, 1.5, s), approximation=hsgp, domain=[-9, 9]"])
def test_functions_at_new_rows_are_normal_given_those_of_the_fit(text):
    x, new, n = np.array([0.0, 0.7, 1.1, 2.5, 4.2]), np.array([1.1, 1.8, 6.0]), 6000
    later = later_rows(
        {"s": "HalfNormal(1)", "f[row]": f"GaussianProcess({text})", "y[row]": "Normal(f, 1)"},
        {"x": x, "y": np.zeros(5)}, {"x": new},
    )  # fmt: skip
    nodes, rng = later.generative("predict", ("y",)), np.random.default_rng(4)
    assert isinstance(nodes, MachineGenerative)
    z = rng.normal(size=nodes._var("_f_z").shape)
    given = {"s": np.full(n, 0.8), "_f_z": np.tile(z, (n, 1))}
    f = nodes.draw(["f"], given, 5)["f"]
    if "hsgp" in text:  # sums of sines, whose weights are those of the fit
        assert nodes.random == ("s", "_f_z", "y")
        graph = GraphGenerative(later.graph(purpose="predict", targets=("y",)))
        np.testing.assert_allclose(f[:1], graph.draw(["f"], {k: v[:1] for k, v in given.items()}, 1)["f"], rtol=1e-12)
        return

    def covariance(a, b):
        return 0.64 * np.exp(-0.5 * np.subtract.outer(a, b) ** 2 / 1.5**2)

    old = covariance(x, x) + 0.64e-8 * np.eye(5)
    gain = covariance(new, x) @ np.linalg.inv(old)
    expected, left = gain @ np.linalg.cholesky(old) @ z, covariance(new, new) - gain @ covariance(x, new)
    np.testing.assert_allclose(f[:, 0], expected[0], atol=1e-6)
    assert np.all(np.abs(f[:, 1:].mean(axis=0) - expected[1:]) < 5 * np.sqrt(np.diag(left)[1:] / n))
    np.testing.assert_allclose(np.cov(f[:, 1:].T), left[1:, 1:], atol=6 * np.sqrt(2 / n) * left.max())


def check_terms(posterior, spread):
    """Terms of the machine at points near the start, and those of the graph."""
    machine, (model, sums) = posterior.summing(), posterior.elimination()
    points = machine.start() + spread * np.random.default_rng(1).standard_normal((4, machine.program.n_dim))
    values = machine.program.outputs(points)
    given = {rv.name: values[rv.name] for rv in model.free_RVs}
    (tables,) = tables_at(model, sums, given)
    try:
        sums.check_terms()
    except ModelError as error:
        with pytest.raises(ModelError) as refused:
            machine.terms(points)
        assert refused.value.code == error.code == "model.not-applicable"
        return False
    mine, theirs = machine.terms(points), sums.terms(tables)
    assert mine.keys() == theirs.keys()
    for name, terms in theirs.items():
        np.testing.assert_allclose(mine[name], terms.reshape(len(points), -1), rtol=1e-9, atol=1e-9)
    return True


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", SUMS)
def test_log_densities_with_discrete_nodes_summed_out_are_those_of_the_graph(name):
    source = Source(MODELS / f"{name}.yaml")
    check_terms(source.posterior(None), 0.3)


#: Log densities by enumeration: labels, labels shared by rows, a chain, and rows that depend on no label.
LABELS = {
    "labels": {"m[k]": "Normal(0, 2)", "z[row]": "Categorical([0.2, 0.3, 0.5])", "y[row]": "Normal(m[z], 1)", "x[row]": "Normal(m[0], 1)"},
    "some rows": {"m[k]": "Normal(0, 2)", "z[row]": "Bernoulli(0.3)", "y[row]": "Normal(where(x > 0, m[0], m[z]), 1)"},
    "tied": {"m[k]": "Normal(0, 2)", "a[row]": "Bernoulli(0.4)", "b[row]": "Bernoulli(0.2 + 0.5 * a)", "y[row]": "Normal(m[a] + b, 1)"},
    "chain": {"m[k]": "Normal(0, 2)", "z[row]": "MarkovChain(P)", "P[k, l]": "Dirichlet(2)", "y[row]": "Normal(m[z], 1)"},
    "shared": {"m[k]": "Normal(0, 2)", "z[k]": "Bernoulli(0.3)", "y[row]": "Normal(m[z[0]] + m[z[1]], 1)"},
}  # fmt: skip


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", LABELS)
def test_log_densities_of_rows_with_labels_are_those_of_the_graph(name):
    x, y = np.random.default_rng(0).normal(size=(2, 7))
    columns = {"y": np.where(np.arange(7) == 2, np.nan, y)} | ({"x": x} if name in ("labels", "some rows") else {})
    assert check_terms(posterior_of(LABELS[name], **columns), 0.7) == (name != "shared")


def test_log_densities_of_rows_with_labels_are_those_of_enumeration():
    y = np.array([0.3, -1.0, 2.2])
    posterior = posterior_of(LABELS["labels"], y=y, x=y + 1)
    machine = posterior.summing()
    points = np.random.default_rng(5).normal(size=(4, 3))
    m = machine.program.outputs(points)["m"]
    each = np.log([0.2, 0.3, 0.5]) + stats.norm.logpdf(y[:, None], m[:, None, :], 1)
    assert machine.terms(points).keys() == {"y"}
    np.testing.assert_allclose(machine.terms(points)["y"], np.logaddexp.reduce(each, axis=2), rtol=1e-12)


def test_paths_are_drawn_by_their_transitions():
    nodes = {"P[k, l]": "[[0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [0.8, 0.1, 0.1]]", "m[k]": "Normal(0, 1)",
             "z[t]": "MarkovChain(P, initial=[0.5, 0.25, 0.25])", "y[t]": "Normal(m[z], 0.01)"}  # fmt: skip
    drawn, n = posterior_of(nodes).generative("simulate"), 6000
    assert isinstance(drawn, MachineGenerative)
    out = drawn.draw(["z", "y", "m"], {}, 1, n)
    z, P = out["z"], np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [0.8, 0.1, 0.1]])
    chances = np.array([0.5, 0.25, 0.25])
    for t in range(6):
        share = np.bincount(z[:, t], minlength=3) / n
        np.testing.assert_allclose(share, chances, atol=4.5 * np.sqrt(0.25 / n))
        chances = chances @ P
    pairs = np.bincount(z[:, 3] * 3 + z[:, 4], minlength=9).reshape(3, 3) / n
    np.testing.assert_allclose(pairs / pairs.sum(axis=1, keepdims=True), P, atol=4.5 * np.sqrt(0.25 / (0.2 * n)))
    assert np.abs(out["y"] - np.take_along_axis(out["m"], z, axis=1)).max() < 0.06
