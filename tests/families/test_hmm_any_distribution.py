"""States that emit any distribution of single numbers: evidence by enumeration, EM, priors, predictions, refusals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.distributions import DISTRIBUTIONS
from bayeslab.families import hmm
from bayeslab.families.hmm.model import hidden_of
from bayeslab.posterior.chains.decoding import posterior_mean
from bayeslab.posterior.density import Density
from tests.families._climb import climbed
from tests.families._models import two_states as model
from tests.refusals import refused

MOVES = np.array([[0.8, 0.2], [0.3, 0.7]])
CHAIN = {"transition": MOVES.tolist(), "initial": [0.6, 0.4]}


def by_paths(log_emission):
    """log p of a sequence by the sum over all paths of two states."""
    terms = []
    for path in itertools.product(range(2), repeat=len(log_emission)):
        log_p = np.log(CHAIN["initial"][path[0]]) + sum(np.log(MOVES[a, b]) for a, b in itertools.pairwise(path))
        terms.append(log_p + sum(log_emission[t, z] for t, z in enumerate(path)))
    return np.logaddexp.reduce(terms)


def inflated(x, psi, mu):
    return np.log((x == 0) * (1 - psi) + psi * stats.poisson.pmf(x, mu))


def hurdle(x, psi, alpha, beta):
    return np.log(1 - psi) if x == 0 else np.log(psi) + stats.gamma.logpdf(x, alpha, scale=1 / beta)


# Word, parameters of two states, cells, and SciPy's log density of a cell.
CASES = [
    ("Gamma", {"alpha": [2, 5], "beta": [1, 0.5]}, [0.5, 3, 9, 1.5, 12],
     lambda x, alpha, beta: stats.gamma.logpdf(x, alpha, scale=1 / beta)),
    ("Weibull", {"alpha": [1.5, 3], "beta": [2, 8]}, [0.5, 3, 9, 1.5, 12],
     lambda x, alpha, beta: stats.weibull_min.logpdf(x, alpha, scale=beta)),
    ("NegativeBinomial", {"mu": [2, 9], "alpha": [1, 4]}, [0, 3, 14, 1, 5],
     lambda x, mu, alpha: stats.nbinom.logpmf(x, alpha, alpha / (alpha + mu))),
    ("ZeroInflatedPoisson", {"psi": [0.4, 0.9], "mu": [2, 9]}, [0, 3, 14, 0, 5], inflated),
    ("HurdleGamma", {"psi": [0.4, 0.9], "alpha": [2, 5], "beta": [1, 0.5]}, [0, 3, 14, 0, 5.5], hurdle),
    ("VonMises", {"mu": [3, 0.5], "kappa": [2, 4]}, [-3, 3.1, 0.4, 0.6, -0.1],
     lambda x, mu, kappa: stats.vonmises.logpdf(x, kappa, loc=mu)),
    ("Binomial(n=9)", {"p": [0.2, 0.7]}, [0, 3, 9, 1, 5], lambda x, p: stats.binom.logpmf(x, 9, p)),
    ("Pareto(m=0.5)", {"alpha": [1, 4]}, [0.5, 3, 0.6, 1, 5], lambda x, alpha: stats.pareto.logpdf(x, alpha, scale=0.5)),
    ("Pareto", {"alpha": [1, 4], "m": [0.5, 2]}, [0.6, 3, 1.9, 4, 5],
     lambda x, alpha, m: stats.pareto.logpdf(x, alpha, scale=m)),
    ("Geometric", {"p": [0.2, 0.7]}, [1, 3, 1, 1, 5], lambda x, p: stats.geom.logpmf(x, p)),
]  # fmt: skip


@pytest.mark.parametrize(("word", "parameters", "cells", "density"), CASES, ids=[case[0] for case in CASES])
def test_evidence_is_that_of_all_paths(word, parameters, cells, density):
    cells = np.array([*cells[:3], np.nan, *cells[3:]], float)
    declared = model(emission=word, parameters=parameters, **CHAIN)
    hidden = hidden_of(declared, bl.check(declared, {"y": cells}))
    assert not hidden.learned
    by_state = [{name: v[k] for name, v in parameters.items()} for k in range(2)]
    table = np.array([[0.0 if np.isnan(x) else density(x, **own) for own in by_state] for x in cells])
    assert hidden.law({}).log_likelihoods(True).sum() == pytest.approx(by_paths(table), rel=1e-9)


def test_a_word_for_each_column_multiplies_their_densities():
    wait, angle, size = np.array([0.5, np.nan, 9.0, 2.0]), np.array([3.0, -3.0, np.nan, 0.2]), np.array([0, 1.0, 2, -1])
    declared = model(
        columns=["wait", "angle", "size"],
        emission={"wait": "Gamma", "angle": "VonMises", "size": "gaussian"},
        parameters={
            "wait_alpha": [2, 5], "wait_beta": 1, "angle_mu": [3, 0.5], "angle_kappa": [2, 4],
            "size_mean": [0, 1], "size_sd": [1, 2],
        },
        **CHAIN,
    )  # fmt: skip
    hidden = hidden_of(declared, bl.check(declared, {"wait": wait, "angle": angle, "size": size}))
    table = np.nan_to_num(stats.gamma.logpdf(wait[:, None], [2, 5]))
    table += np.nan_to_num(stats.vonmises.logpdf(angle[:, None], [2, 4], loc=[3, 0.5]))
    table += stats.norm.logpdf(size[:, None], [0, 1], [1, 2])
    assert hidden.law({}).log_likelihoods(True).sum() == pytest.approx(by_paths(table), rel=1e-9)


# --------------------------------------------------------------------------------- expectation maximisation


def planted(word, parameters, n=400, seed=0):
    """States that stay for ten rows on average, and what they emit, by PyMC's own draws."""
    from bayeslab.distributions.emissions import AnyDistribution
    from bayeslab.language.column_distributions import column_distribution

    rng = np.random.default_rng(seed)
    states = np.cumsum(rng.random(n) < 0.1) % 2
    name, known = column_distribution(word)
    emission = AnyDistribution(name, 1, {w: np.asarray(v) for w, v in known.items()})
    theta = {w: np.asarray(v, float)[:, None] for w, v in parameters.items()}
    theta |= {w: np.full((2, 1), float(v)) for w, v in emission.known.items()}
    return states, emission.sample(rng, theta, states)[:, 0]


FAR = [
    ("Weibull", {"alpha": [1.5, 4], "beta": [1, 8]}),
    ("HurdleGamma", {"psi": [0.4, 0.9], "alpha": [4, 20], "beta": [4, 2]}),
    ("ZeroInflatedPoisson", {"psi": [0.6, 0.9], "mu": [2, 15]}),
    ("VonMises", {"mu": [0.5, 3.1], "kappa": [6, 9]}),
    ("Binomial(n=20)", {"p": [0.2, 0.7]}),
]


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(("word", "truth"), FAR, ids=[case[0] for case in FAR])
@pytest.mark.parametrize("prior", [False, True])
def test_em_climbs_to_a_maximum_near_the_truth(word, truth, prior):
    states, y = planted(word, truth)
    declared = model(emission=word)
    hidden = hidden_of(declared, bl.check(declared, {"y": y}))
    problem, theta = hidden.problem(prior), hidden.guess(None)
    theta, _ = climbed(problem, theta, 25, rtol=0, atol=1e-7)
    top = problem.expect(theta)[0] + problem.log_prior(theta)
    for name in hidden.parts[0].learned:
        for k, size in itertools.product(range(2), (-0.05, 0.05)):
            moved = {n: v.copy() for n, v in theta.items()}
            moved[name][k] *= 1 + size
            assert problem.expect(moved)[0] + problem.log_prior(moved) < top + 1e-4
    part = hidden.parts[0]
    order = np.argsort(part.location(theta)) if word != "VonMises" else np.argsort(np.abs(theta["mu"]))
    n = np.bincount(states)
    at = part.to_emission({name: v[order] for name, v in theta.items() if name in part.learned})
    for name, value in truth.items():
        # Of so many rows a state: a generous multiple of the relative error of a shape.
        gap = np.abs(at[name][:, 0] - value)
        gap = np.minimum(gap, 2 * np.pi - gap) if (word, name) == ("VonMises", "mu") else gap
        assert np.all(gap <= 6 * np.maximum(np.abs(value), 0.3) / np.sqrt(n.min()))
    path = hidden.law(theta).expected().posterior.argmax(axis=1)
    assert np.mean(order.argsort()[path] == states) > 0.9


def test_known_numbers_and_written_priors_shape_the_mode():
    """One state: a Gamma prior on a Poisson mean has its mode in closed form."""
    y = np.array([3.0, 5, 8, 2, 7])
    declared = model(states=1, emission="Poisson", parameters={"mu": "Gamma(3, 2)"})
    fit = bl.fit(declared, {"y": y}, method="em", prior="use", seed=1, progress=False, runs=None)
    assert float(np.ravel(fit.posterior["mu"])[0]) == pytest.approx((3 + y.sum() - 1) / (2 + len(y)), rel=1e-5)
    declared = model(states=1, emission="Gamma", parameters={"alpha": 2})
    fit = bl.fit(declared, {"y": y}, method="em", prior="ignore", seed=1, progress=False, runs=None)
    assert float(np.ravel(fit.posterior["beta"])[0]) == pytest.approx(2 / y.mean(), rel=1e-5)


def test_a_prior_of_an_angle_that_does_not_go_round_keeps_it_where_it_is():
    y = (np.random.default_rng(1).vonmises(-2.6, 4, 60) + np.pi) % (2 * np.pi) - np.pi
    declared = model(states=1, emission="VonMises", parameters={"mu": "Uniform(0, 6.28)"})
    fit = bl.fit(declared, {"y": y}, method="em", progress=False, runs=None)
    middle = np.arctan2(np.sin(y).mean(), np.cos(y).mean())
    assert float(np.ravel(fit.posterior["mu"])[0]) == pytest.approx(middle + 2 * np.pi, abs=1e-4)


@pytest.mark.slow(why="statistical")
def test_an_order_puts_states_in_it():
    _, y = planted("Gamma", {"alpha": [16, 4], "beta": [8, 0.5]})
    declared = model(emission="Gamma", parameters={"alpha": "PositiveOrdered(LogNormal(1, 2))"})
    fit = bl.fit(declared, {"y": y}, method="em", prior="use", seed=1, progress=False, runs=None)
    alpha, beta = (np.ravel(fit.posterior[name]) for name in ("alpha", "beta"))
    assert alpha[0] < alpha[1]
    assert beta[0] < beta[1]
    # Without an order the state with the lower mean comes first.
    free = bl.fit(model(emission="Gamma"), {"y": y}, method="em", seed=1, progress=False, runs=None)
    assert np.diff(np.ravel(free.posterior["alpha"]) / np.ravel(free.posterior["beta"]))[0] > 0
    assert np.ravel(free.posterior["alpha"])[0] > np.ravel(free.posterior["alpha"])[1]


@pytest.mark.slow(why="statistical")
def test_the_number_of_states_is_chosen_by_bic():
    _, y = planted("Weibull", {"alpha": [1.5, 4], "beta": [1, 8]}, n=100)
    declared = model(states={"from": 1, "to": 2}, emission="Weibull")
    data = bl.check(declared, {"y": y})
    assert hidden_of(declared, data).n_states == 2
    # Two parameters of each of two states; a free row of transitions each, and the first state.
    assert hidden_of(declared, data).n_free == 2 * 2 + 2 + 1


# --------------------------------------------------------------------------------- the graph


SHAPES = [
    ("Gamma", {}, lambda rng, n: rng.gamma(2, 3, n)),
    ("ZeroInflatedPoisson", {}, lambda rng, n: rng.poisson(2.0, n).astype(float)),
    ("HurdleLogNormal", {}, lambda rng, n: rng.lognormal(1, 1, n) * (rng.random(n) < 0.7)),
    ("VonMises", {"mu": ["Normal(0, 1)", "Normal(1, 2)"]}, lambda rng, n: rng.vonmises(3, 2, n)),
    ("TruncatedNormal(lower=0)", {}, lambda rng, n: rng.gamma(2, 3, n)),
    ("SkewNormal", {"alpha": 2}, lambda rng, n: rng.normal(1e4, 3, n)),
]


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize(("word", "parameters", "draw"), SHAPES, ids=[case[0] for case in SHAPES])
def test_the_graph_has_the_density_of_em(word, parameters, draw):
    """Log posterior of the graph less that of EM is the same everywhere: priors and likelihood are one."""
    y = draw(np.random.default_rng(1), 12)
    y[4] = np.nan
    declared = model(emission=word, parameters=parameters, **CHAIN)
    data = bl.check(declared, {"y": y})
    graph, hidden = hmm.compile(declared, data).graph(), hidden_of(declared, data)
    own = Density.of(graph, jacobian=False)
    value = graph.compile_logp(jacobian=False, mode="FAST_COMPILE")
    problem, rng = hidden.problem(), np.random.default_rng(2)
    start = np.asarray(own.flat(graph.initial_point()))
    for _ in range(3):
        point = own.split(start + 0.2 * rng.standard_normal(own.n_dim))
        theta = natural(graph, point, hidden)
        assert float(value(point)) == pytest.approx(problem.expect(theta)[0] + problem.log_prior(theta), abs=1e-6)


def natural(graph, point, hidden):
    """Parameters at a point of the graph's coordinates."""
    out = {}
    for name in hidden.parts[0].learned:
        rv = graph[name]
        at, transform = graph.rvs_to_values[rv], graph.rvs_to_transforms[rv]
        value = point[at.name]
        out[name] = value if transform is None else evaluated(transform.backward(value, *rv.owner.inputs))
    return out


def evaluated(value):
    return np.asarray(value.eval(mode="FAST_COMPILE") if hasattr(value, "eval") else value)


# --------------------------------------------------------------------------------- predictions


@pytest.fixture(scope="module")
def counted():
    """Waiting times and counts in two states, fitted by EM."""
    states, wait = planted("Weibull", {"alpha": [1.5, 4], "beta": [1, 8]}, n=200)
    rng = np.random.default_rng(4)
    count = np.where(states == 0, rng.poisson(2, 200), rng.poisson(15, 200)) * (rng.random(200) < 0.8)
    table = {"wait": wait, "count": count.astype(float)}
    declared = model(columns=["wait", "count"], emission={"wait": "Weibull", "count": "ZeroInflatedPoisson"})
    return states, declared, table


@pytest.mark.slow(why="statistical")
def test_replications_of_counts_are_whole_numbers(counted):
    _, declared, table = counted
    data = bl.check(declared, table)
    theta = hidden_of(declared, data).guess(None)
    draws = {name: np.stack([value] * 50) for name, value in theta.items()}
    made = hmm.compile(declared, data).predictive(draws, np.random.default_rng(1))
    assert made["count"][1].dtype == np.int64
    assert made["wait"][1].dtype == np.float64
    # The mean of replications is that of the rows, where states are as clear as here.
    own = made["wait"][1].mean(axis=1)
    assert own.mean() == pytest.approx(table["wait"].mean(), abs=5 * own.std())


def test_directions_are_averaged_on_the_circle():
    """Draws on both sides of π have their mean there, not at 0."""
    declared = model(emission="VonMises")
    hidden = hidden_of(declared, bl.check(declared, {"y": np.random.default_rng(1).vonmises(0, 1, 20)}))
    theta = hidden.guess(None)
    draws = {name: np.stack([value] * 2) for name, value in theta.items()}
    draws["mu"] = np.array([[3.1, 0.1], [-3.1, 0.3]])
    mean = posterior_mean(hidden, draws)["mu"]
    assert np.abs(mean[0]) == pytest.approx(np.pi)
    assert mean[1] == pytest.approx(0.2)


# --------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("content", "cells", "code", "where", "match"),
    [
        ({"emission": "Gama"}, [1.0, 2.0], "model.not-a-distribution", "model.emission", "'Gamma'"),
        ({"emission": "Binomial"}, [1.0, 2.0], "model.incomplete", "model.emission", "'n'"),
        ({"emission": "MvNormal"}, [1.0, 2.0], "model.not-a-distribution", "model.emission", "MvNormal"),
        ({"emission": "Gamma(mu=1)"}, [1.0, 2.0], "model.unknown-parameter", "model.emission", "'mu'"),
        ({"emission": "Gamma(alpha=-1)"}, [1.0, 2.0], "model.out-of-range", "model.emission", "alpha.*-1"),
        ({"emission": "Binomial(n=2.5)"}, [1.0, 2.0], "model.out-of-range", "model.emission", r"n .*2\.5"),
        ({"emission": "Gamma(alpha=x)"}, [1.0, 2.0], "model.not-a-number", "model.emission", "alpha.*'x'"),
        ({"emission": "Gamma"}, [1.0, 0.0, 2.0], "data.impossible-value", "", "'y', row 2: 0;.*HurdleGamma"),
        ({"emission": "NegativeBinomial"}, [1.0, 2.5], "data.impossible-value", "", r"'y', row 2: 2\.5"),
        ({"emission": "Binomial(n=3)"}, [1.0, 4.0], "data.impossible-value", "", "'y', row 2: 4"),
        ({"emission": "VonMises"}, [1.0, 180.0], "data.impossible-value", "", "'y', row 2: 180"),
        ({"emission": "Gamma"}, [2.0, 2.0, 2.0], "data.constant", "", "'y'"),
        ({"emission": "Gamma", "parameters": {"alpha": "Normal(0, 1)"}}, [1.0, 2.0], "model.bad-prior", "model.parameters.alpha", "'alpha'"),
        ({"emission": "Gamma", "parameters": {"alpha": [1, 0]}}, [1.0, 2.0], "model.out-of-range", "model.parameters.alpha", "0"),
        ({"emission": "Gamma", "parameters": {"sigma": 1}}, [1.0, 2.0], "model.unknown-parameter", "model.parameters.sigma", "'sigma'"),
        ({"emission": "Pareto(m=1)", "parameters": {"m": 1}}, [1.0, 2.0], "model.unknown-parameter", "model.parameters.m", "'m'"),
        ({"emission": "Pareto", "parameters": {"m": "Gamma(2, 1)"}}, [1.0, 2.0], "model.wrong-type", "model.parameters.m", "Pareto"),
        ({"emission": "Geometric", "parameters": {"p": "Uniform(0, 2)"}}, [1.0, 2.0], "model.bad-prior", "model.parameters.p", "'p'"),
        ({"emission": "Gamma", "states": "infinite"}, [1.0, 2.0], "model.unsupported", "model", "Gamma.*infinite"),
        ({"emission": "Gamma", "window": 1}, [1.0, 2.0], "model.unsupported", "model.emission", "window.*gaussian"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(content, cells, code, where, match):
    with refused(code, match, where=where):
        bl.check(model(**content), {"y": np.array(cells)})


def test_gibbs_names_the_methods_that_work():
    _, y = planted("Gamma", {"alpha": [2, 8], "beta": [2, 1]}, n=40)
    with refused("engine.refused.not-suited", "nuts.*map.*em"):
        bl.fit(model(emission="Gamma"), {"y": y}, method="gibbs", progress=False, runs=None)


def test_every_distribution_of_single_numbers_is_a_word():
    from bayeslab.distributions import maths
    from bayeslab.families.hmm.given_parameters import columns_of, names_of

    for name in DISTRIBUTIONS:
        entry = DISTRIBUTIONS[name]
        if entry.support or not entry.proper or maths(name) is None:
            continue
        ((part, word, columns),) = columns_of(["y"], name)
        assert set(names_of(word, part, columns)) <= set(entry.parameters) | {"mu", "sigma"}
