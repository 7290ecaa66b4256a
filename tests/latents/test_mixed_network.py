"""Conditional linear-Gaussian nets against enumeration of all discrete configurations."""

from __future__ import annotations

from itertools import product

import networkx as nx
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from bayeslab.latents.networks.gaussian_network import joint
from bayeslab.latents.networks.mixed_network import LinearGaussian, MixedNetwork, draws, log_density
from bayeslab.latents.networks.strong_junction_tree import MixedMarginals, NormalMixture, forecast, query, query_joint
from tests.refusals import refused


def random_network(rng, n_discrete=4, n_continuous=5, zeros=0.15, constant=0.0):
    """Any conditional linear-Gaussian net; some tables with zeros, some variables functions of their parents."""
    states = {f"d{i}": tuple("abc"[: rng.integers(2, 4)]) for i in range(n_discrete)}
    parents, tables, continuous = {}, {}, {}
    for i, v in enumerate(states):
        parents[v] = tuple(rng.permutation([p for p in list(states)[:i] if rng.random() < 0.4])[:2])
        shape = tuple(len(states[p]) for p in parents[v])
        table = rng.dirichlet(np.ones(len(states[v])), size=shape) * (rng.random((*shape, len(states[v]))) > zeros)
        table[..., 0] += 0.01
        tables[v] = table / table.sum(axis=-1, keepdims=True)
    for i in range(n_continuous):
        above = [p for p in states if rng.random() < 0.35][:2] + [f"x{k}" for k in range(i) if rng.random() < 0.45]
        above = tuple(rng.permutation(above)) if above else ()
        shape = tuple(len(states[p]) for p in above if p in states)
        n_slopes = sum(p not in states for p in above)
        sd = 0.0 if rng.random() < constant else rng.gamma(2.0, 0.5, size=shape)
        continuous[f"x{i}"] = LinearGaussian(
            above, rng.normal(size=shape), rng.normal(size=(*shape, n_slopes)), np.broadcast_to(sd, shape)
        )
    return MixedNetwork(states, parents, tables, continuous)


def random_evidence(rng, network):
    codes, values = draws(network, rng, 1)
    given = {}
    for k, v in enumerate(network.states):
        kind = rng.random()
        if kind < 0.25:
            given[v] = network.states[v][codes[0, k]]
        elif kind < 0.4:
            given[v] = dict(zip(network.states[v], rng.random(len(network.states[v])), strict=True))
    for k, v in enumerate(network.continuous):
        kind = rng.random()
        if kind < 0.35:
            given[v] = values[0, k]
        elif kind < 0.5:
            given[v] = {"value": values[0, k] + 0.3, "sd": 0.5}
    return given


def moments(network, config):
    """Mean and covariance of the continuous variables given all discrete ones: x = a + B x + e."""
    names = list(network.continuous)
    n = len(names)
    a, slopes, variance = np.zeros(n), np.zeros((n, n)), np.zeros(n)
    for i, v in enumerate(names):
        node = network.continuous[v]
        at = tuple(config[p] for p in node.parents if p in network.states)
        a[i], variance[i] = node.intercept[at], node.sd[at] ** 2
        for k, p in enumerate(p for p in node.parents if p in network.continuous):
            slopes[i, names.index(p)] = node.slopes[at][k]
    paths = np.linalg.inv(np.eye(n) - slopes)
    return paths @ a, paths @ np.diag(variance) @ paths.T


def enumeration(network, given):
    """The slow twin: every configuration of the discrete variables, block formulas for the continuous ones."""
    names, discrete = list(network.continuous), list(network.states)
    rows, readings = [], []
    for v, g in given.items():
        if v in network.continuous:
            rows.append((names.index(v), g["value"] if isinstance(g, dict) else g))
            readings.append(g["sd"] ** 2 if isinstance(g, dict) else 0.0)
    at, y = [i for i, _ in rows], np.array([value for _, value in rows])
    logs, means, covariances, configs, full = [], [], [], [], []
    for codes in product(*(range(len(network.states[v])) for v in discrete)):
        config = dict(zip(discrete, codes, strict=True))
        p = 1.0
        for v in discrete:
            p *= network.tables[v][(*(config[u] for u in network.parents[v]), config[v])]
            g = given.get(v)
            state = network.states[v][config[v]]
            p *= 1.0 if g is None else g[state] if isinstance(g, dict) else float(g == state)
        if p == 0:
            continue
        mean, covariance = moments(network, config)
        log = np.log(p)
        if at:
            noise = covariance[np.ix_(at, at)] + np.diag(readings)
            gain = np.linalg.solve(noise, covariance[at]).T
            log += stats.multivariate_normal(mean[at], noise).logpdf(y)
            mean, covariance = mean + gain @ (y - mean[at]), covariance - gain @ covariance[at]
        logs.append(log)
        means.append(mean)
        covariances.append(np.diagonal(covariance))
        configs.append(codes)
        full.append(covariance)
    total = logsumexp(logs)
    return total, np.exp(np.array(logs) - total), np.array(means), np.array(covariances), np.array(configs), full


def compare(network, given, tolerance=1e-8):
    found = query(network, given)
    total, weights, means, variances, configs, _ = enumeration(network, given)
    assert found.log_evidence == pytest.approx(total, abs=1e-7)
    for k, v in enumerate(network.states):
        truth = np.bincount(configs[:, k], weights, minlength=len(network.states[v]))
        np.testing.assert_allclose(found.discrete[v], truth, atol=tolerance)
    for k, v in enumerate(network.continuous):
        mixture, mean = found.continuous[v], weights @ means[:, k]
        assert mixture.mean == pytest.approx(mean, abs=tolerance * 10)
        sd = np.sqrt(max(weights @ (variances[:, k] + (means[:, k] - mean) ** 2), 0))
        assert mixture.sd == pytest.approx(sd, abs=1e-6)
        if variances[:, k].min() > 1e-8:
            points = mean + sd * np.array([-1.5, -0.2, 0.7])
            parts = stats.norm(means[:, k], np.sqrt(variances[:, k]))
            np.testing.assert_allclose(mixture.cdf(points), [weights @ parts.cdf(x) for x in points], atol=1e-7)
            np.testing.assert_allclose(mixture.density(points), [weights @ parts.pdf(x) for x in points], rtol=1e-6)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("block", range(10))
def test_equals_enumeration(block):
    rng = np.random.default_rng(block)
    for _ in range(30):
        network = random_network(rng, rng.integers(0, 5), rng.integers(1, 7))
        compare(network, random_evidence(rng, network))


def test_joint_distributions_equal_enumeration():
    rng = np.random.default_rng(77)
    for _ in range(60):
        network = random_network(rng, 4, 5)
        given = random_evidence(rng, network)
        names = [*rng.permutation(list(network.states))[:2], *rng.permutation(list(network.continuous))[:3]]
        found = query_joint(network, list(rng.permutation(names)), given)
        _, weights, means, _, configs, covariances = enumeration(network, given)
        at = [list(network.continuous).index(v) for v in found.continuous]
        columns = [list(network.states).index(v) for v in found.discrete]
        mean = weights @ means[:, at]
        apart = means[:, at] - mean
        inner = np.array([c[np.ix_(at, at)] for c in covariances])
        truth = np.einsum("k,kij->ij", weights, inner + apart[:, :, None] * apart[:, None, :])
        np.testing.assert_allclose(found.mean, mean, atol=1e-7)
        np.testing.assert_allclose(found.covariance, truth, atol=1e-7)
        for codes in np.unique(configs[:, columns], axis=0):
            these, those = np.all(found.codes == codes, axis=1), np.all(configs[:, columns] == codes, axis=1)
            assert found.weights[these].sum() == pytest.approx(weights[those].sum(), abs=1e-8)
            np.testing.assert_allclose(
                found.weights[these] @ found.means[these], weights[those] @ means[those][:, at], atol=1e-7
            )


def test_functions_of_their_parents_equal_enumeration():
    """Evidence on other variables; what is determined is only asked for."""
    rng = np.random.default_rng(99)
    for _ in range(60):
        network = random_network(rng, 3, 5, constant=0.4)
        given = random_evidence(rng, network)
        given = {
            v: g
            for v, g in given.items()
            if v in network.states or isinstance(g, dict) or np.all(network.continuous[v].sd > 0)
        }
        compare(network, given)


def test_linear_gaussian_bn_without_discrete_variables_equals_the_multivariate_normal():
    rng = np.random.default_rng(5)
    for _ in range(20):
        network = random_network(rng, 0, 6)
        given = random_evidence(rng, network)
        normal, found = joint(network), query(network, given)
        assert found.log_evidence == pytest.approx(normal.log_density(given), abs=1e-9)
        after = normal.condition(given)
        for name, mean, sd in zip(after.names, after.mean, after.sd, strict=True):
            assert found.continuous[name].mean == pytest.approx(mean, abs=1e-9)
            assert found.continuous[name].sd == pytest.approx(sd, abs=1e-9)


# ------------------------------------------------------------------------ the waste incinerator


def incinerator():
    """Lauritzen (1992), section 6: states and numbers as printed there (logarithms of concentrations)."""

    def node(parents, intercept, slopes, variance):
        intercept = np.array(intercept, float)
        slopes = np.array(slopes, float).reshape((*intercept.shape, -1))
        if not any(p in continuous for p in parents):
            slopes = np.zeros((*intercept.shape, 0))
        return LinearGaussian(parents, intercept, slopes, np.sqrt(np.broadcast_to(np.array(variance), intercept.shape)))

    states = {"B": ("stable", "unstable"), "F": ("intact", "defect"), "W": ("industrial", "household")}
    tables = {"B": np.array([0.85, 0.15]), "F": np.array([0.95, 0.05]), "W": np.array([2 / 7, 5 / 7])}
    continuous = {}
    # filter efficiency, given F and W
    continuous["E"] = node(("F", "W"), [[-3.9, -3.2], [-0.4, -0.5]], [], [[2e-5, 2e-5], [1e-4, 1e-4]])
    # emission of dust, given B, W and E
    continuous["D"] = node(("B", "W", "E"), [[6.5, 6.0], [7.5, 7.0]], np.ones((2, 2, 1)), [[0.03, 0.04], [0.1, 0.1]])
    # carbon dioxide, given B
    continuous["C"] = node(("B",), [-2.0, -1.0], [], [0.1, 0.3])
    # light penetrability, given D
    continuous["L"] = node(("D",), 3.0, [-0.5], 0.25)
    # metal in the waste, given W
    continuous["Min"] = node(("W",), [0.5, -0.5], [], [0.01, 0.005])
    # emission of metal, given Min and D
    continuous["Mout"] = node(("Min", "D"), 0.0, [1.0, 1.0], 0.002)
    return MixedNetwork(states, {}, tables, continuous)


# Lauritzen (1992), table on page 1107; the third digit from Cowell et al. (1999), page 150.
PUBLISHED = {
    "prior": (
        {},
        {"B": 0.85, "F": 0.95, "W": 0.29},
        {"E": -3.25, "D": 3.04, "C": -1.85, "L": 1.48, "Min": -0.214, "Mout": 2.83},
        {"E": 0.709, "D": 0.770, "C": 0.507, "L": 0.631, "Min": 0.459, "Mout": 0.860},
    ),
    "posterior": (
        {"W": "industrial", "L": 1.1, "C": -0.9},
        {"B": 0.0122, "F": 0.9995, "W": 1.0},
        {"E": -3.90, "D": 3.61, "C": -0.9, "L": 1.1, "Min": 0.5, "Mout": 4.11},
        {"E": 0.076, "D": 0.326, "C": 0.0, "L": 0.0, "Min": 0.1, "Mout": 0.344},
    ),
}


@pytest.mark.parametrize("case", PUBLISHED)
def test_waste_incinerator_as_published(case):
    given, probabilities, means, sds = PUBLISHED[case]
    found = query(incinerator(), given)
    for v, p in probabilities.items():
        assert found.discrete[v][0] == pytest.approx(p, abs=5e-3 if p == 0.29 else 2e-4)
    for v in means:
        assert found.continuous[v].mean == pytest.approx(means[v], abs=5.1e-3)
        assert found.continuous[v].sd == pytest.approx(sds[v], abs=6e-4)


def test_waste_incinerator():
    """The mixture of four normals by hand; enumeration for the rest."""
    network = incinerator()
    found = query(network).continuous["E"]
    weights, means = np.outer([0.95, 0.05], [2 / 7, 5 / 7]).ravel(), np.array([-3.9, -3.2, -0.4, -0.5])
    order = np.argsort(means)
    np.testing.assert_allclose(found.weights, weights[order], rtol=1e-12)
    np.testing.assert_allclose(found.means, means[order], rtol=1e-12)
    np.testing.assert_allclose(found.sds**2, np.array([2e-5, 2e-5, 1e-4, 1e-4])[order], rtol=1e-12)
    assert len(query(network).continuous["Min"].weights) == 2
    for given in ({}, {"W": "industrial", "L": 1.1, "C": -0.9}, {"B": "stable", "E": -3.9, "Mout": 3.0}):
        compare(network, given)


# --------------------------------------------------------------------------- mixtures of normals


def test_gmm_as_bn_gives_the_responsibilities():
    rng = np.random.default_rng(3)
    weights, means, sds = np.array([0.2, 0.3, 0.5]), rng.normal(size=(3, 2)), rng.gamma(2, 0.5, size=(3, 2))
    nodes = {f"x{j}": LinearGaussian(("C",), means[:, j], np.zeros((3, 0)), sds[:, j]) for j in range(2)}
    network = MixedNetwork({"C": ("1", "2", "3")}, {}, {"C": weights}, nodes)
    for x in rng.normal(size=(20, 2)) * 2:
        found = query(network, {"x0": x[0], "x1": x[1]})
        density = weights * stats.norm(means, sds).pdf(x).prod(axis=1)
        np.testing.assert_allclose(found.discrete["C"], density / density.sum(), rtol=1e-12)
        assert found.log_evidence == pytest.approx(np.log(density.sum()), rel=1e-12)


def test_gmm_as_bn_full_covariance():
    """Two features with correlated components: the second is regressed on the first."""
    rng = np.random.default_rng(8)
    roots = rng.normal(size=(2, 2, 2))
    covariances, means = roots @ roots.transpose(0, 2, 1) + np.eye(2), rng.normal(size=(2, 2)) * 2
    slope = covariances[:, 0, 1] / covariances[:, 0, 0]
    nodes = {
        "a": LinearGaussian(("C",), means[:, 0], np.zeros((2, 0)), np.sqrt(covariances[:, 0, 0])),
        "b": LinearGaussian(
            ("a", "C"),
            means[:, 1] - slope * means[:, 0],
            slope[:, None],
            np.sqrt(covariances[:, 1, 1] - slope * covariances[:, 0, 1]),
        ),
    }
    network = MixedNetwork({"C": ("1", "2")}, {}, {"C": np.array([0.4, 0.6])}, nodes)
    for x in rng.normal(size=(10, 2)) * 3:
        density = [
            w * stats.multivariate_normal(m, c).pdf(x) for w, m, c in zip([0.4, 0.6], means, covariances, strict=True)
        ]
        found = query(network, {"a": x[0], "b": x[1]})
        np.testing.assert_allclose(found.discrete["C"], np.array(density) / np.sum(density), rtol=1e-10)


def test_mixture_quantiles_invert_the_distribution():
    mixture = NormalMixture(np.array([0.3, 0.5, 0.2]), np.array([-2.0, 1.0, 1.5]), np.array([0.1, 2.0, 0.5]))
    for p in (1e-6, 0.03, 0.3, 0.5, 0.97, 1 - 1e-6):
        assert mixture.cdf(mixture.quantile(p)) == pytest.approx(p, abs=1e-11)
    low, high = mixture.interval(0.9)
    assert mixture.cdf(high) - mixture.cdf(low) == pytest.approx(0.9, abs=1e-11)
    assert mixture.quantile(0.0) == -np.inf and mixture.quantile(1.0) == np.inf
    sample = mixture.draws(np.random.default_rng(1), 200_000)
    assert abs(sample.mean() - mixture.mean) < 4 * mixture.sd / np.sqrt(200_000)


def test_mixture_with_a_point():
    mixture = NormalMixture(np.array([0.4, 0.6]), np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    below = 0.6 * stats.norm.cdf(-1.0)
    assert mixture.cdf(0.0) == pytest.approx(below + 0.4)
    assert mixture.cdf(-1e-9) == pytest.approx(below, abs=1e-8)
    assert mixture.quantile(below + 0.2) == pytest.approx(0.0, abs=1e-9)
    assert mixture.quantile(0.0) == -np.inf
    points = NormalMixture(np.array([0.4, 0.6]), np.array([0.0, 1.0]), np.zeros(2))
    found = [points.quantile(p) for p in (0.0, 0.3, 0.5, 1.0)]
    np.testing.assert_allclose(found, [0, 0, 1, 1], rtol=1e-14, atol=1e-14)
    assert mixture.density(0.0) == np.inf and np.isfinite(mixture.density(0.1))


# --------------------------------------------------------------------- what cannot be, or costs too much


def zero_inflated():
    """Exposure: none (dose exactly 0) or some (dose around 1); a reading of it."""
    nodes = {
        "dose": LinearGaussian(("exposed",), np.array([0.0, 1.0]), np.zeros((2, 0)), np.array([0.0, 1.0])),
        "y": LinearGaussian(("dose",), np.array(0.0), np.ones(1), np.array(1.0)),
    }
    return MixedNetwork({"exposed": ("no", "yes")}, {}, {"exposed": np.array([0.7, 0.3])}, nodes)


def test_a_point_beats_a_density():
    network = zero_inflated()
    np.testing.assert_array_equal(query(network, {"dose": 0.0}).discrete["exposed"], [1.0, 0.0])
    assert query(network, {"dose": 0.0}).log_evidence == pytest.approx(np.log(0.7))
    np.testing.assert_array_equal(query(network, {"dose": 0.5}).discrete["exposed"], [0.0, 1.0])
    np.testing.assert_array_equal(query(network, {"dose": 0.0, "exposed": "yes"}).discrete["exposed"], [0.0, 1.0])
    found = query(network, {"y": 0.4})
    weights = np.array([0.7 * stats.norm.pdf(0.4), 0.3 * stats.norm.pdf(0.4, 1.0, np.sqrt(2))])
    np.testing.assert_allclose(found.discrete["exposed"], weights / weights.sum())
    assert found.continuous["dose"].cdf(0.0) > found.continuous["dose"].cdf(-1e-9) + 0.5


def test_two_kinds_of_points_are_refused():
    nodes = {
        v: LinearGaussian(("c",), np.zeros(2), np.zeros((2, 0)), sd)
        for v, sd in {"x": np.array([0.0, 1.0]), "y": np.array([1.0, 0.0])}.items()
    }
    network = MixedNetwork({"c": ("a", "b")}, {}, {"c": np.array([0.5, 0.5])}, nodes)
    with refused("engine.refused.degenerate", "several"):
        query(network, {"x": 0.0, "y": 0.0})
    np.testing.assert_array_equal(query(network, {"x": 0.0, "y": 0.1}).discrete["c"], [1.0, 0.0])


def test_two_kinds_of_points_in_one_group_are_refused():
    """Both depend on a hidden variable; which of them is a point depends on the state."""
    nodes = {
        "h": LinearGaussian((), 0.0, np.zeros(0), 1.0),
        "x": LinearGaussian(("c", "h"), np.zeros(2), np.array([[0.0], [1.0]]), np.array([0.0, 1.0])),
        "y": LinearGaussian(("c", "h"), np.zeros(2), np.array([[1.0], [0.0]]), np.array([1.0, 0.0])),
    }
    network = MixedNetwork({"c": ("a", "b")}, {}, {"c": np.array([0.5, 0.5])}, nodes)
    with refused("engine.refused.degenerate", "different"):
        query(network, {"x": 0.0, "y": 0.0})
    found = query(network, {"x": 0.0, "y": 0.4})
    np.testing.assert_array_equal(found.discrete["c"], [1.0, 0.0])
    assert found.continuous["h"].mean == pytest.approx(0.2)
    assert found.log_evidence == pytest.approx(np.log(0.5) + stats.norm.logpdf(0.4, 0, np.sqrt(2)))


def test_impossible_evidence():
    network = zero_inflated()
    with refused("evidence.probability-zero"):
        query(network, {"exposed": "no", "dose": 0.1})
    with refused("evidence.probability-zero"):
        query(network.do({"dose": 2.0}), {"dose": 1.0})


def test_evidence_far_out_keeps_what_other_tables_leave_possible():
    """The state that the density favours by thousands of log units is impossible for another reason."""
    nodes = {"x": LinearGaussian(("c",), np.array([0.0, 100.0]), np.zeros((2, 0)), np.array([1.0, 1.0]))}
    tables = {"c": np.array([0.5, 0.5]), "e": np.array([[1.0, 0.0], [0.5, 0.5]])}
    network = MixedNetwork({"c": ("a", "b"), "e": ("u", "v")}, {"e": ("c",)}, tables, nodes)
    found = query(network, {"x": 0.0, "e": "v"})
    np.testing.assert_array_equal(found.discrete["c"], [0.0, 1.0])
    assert found.log_evidence == pytest.approx(np.log(0.25) + stats.norm.logpdf(0, 100), rel=1e-12)


def test_virtual_evidence_equals_an_observed_child():
    rng = np.random.default_rng(11)
    network = random_network(rng, 3, 3)
    states = {**network.states, "seen": ("1", "0")}
    likelihood = np.linspace(0.2, 0.9, len(network.states["d1"]))
    tables = {**network.tables, "seen": np.stack([likelihood, 1 - likelihood], axis=1)}
    wider = MixedNetwork(states, {**network.parents, "seen": ("d1",)}, tables, network.continuous)
    given = {"x1": 0.3}
    one = query(network, {**given, "d1": dict(zip(network.states["d1"], likelihood, strict=True))})
    two = query(wider, {**given, "seen": "1"})
    assert one.log_evidence == pytest.approx(two.log_evidence, abs=1e-12)
    for v in network.continuous:
        assert one.continuous[v].mean == pytest.approx(two.continuous[v].mean, abs=1e-12)


def switching(n, regimes):
    """A random walk whose steps are switched by a Markov chain."""
    rng = np.random.default_rng(0)
    states = {f"d{t}": ("a", "b") for t in range(regimes)}
    parents = {f"d{t}": (f"d{t - 1}",) for t in range(1, regimes)}
    tables = {f"d{t}": rng.dirichlet([1, 1], size=(2,) if t else None) for t in range(regimes)}
    nodes = {}
    for t in range(n):
        above = ((f"d{t}",) if t < regimes else ()) + ((f"x{t - 1}",) if t else ())
        shape = (2,) * (t < regimes)
        slopes = rng.normal(size=(*shape, 1 if t else 0))
        nodes[f"x{t}"] = LinearGaussian(above, rng.normal(size=shape), slopes, rng.gamma(2, 1, size=shape))
    return MixedNetwork(states, parents, tables, nodes)


def test_too_many_configurations_are_refused_with_the_number():
    network = switching(40, 40)
    with refused("engine.refused.too-costly", f"{2**40:,}.*40"):
        query(network, {"x39": 0.0})
    assert forecast(network, {"x39": 0.0}).configurations == 2**40
    # Fewer targets, or what is observed, can make it small.
    assert forecast(network, targets=["x5"]).configurations == 2**6
    assert forecast(network, {f"x{t}": 0.0 for t in range(40)}).configurations == 2
    assert np.isfinite(query(network, {f"x{t}": 0.1 for t in range(40)}).log_evidence)
    assert query(network, targets=["x5"]).continuous.keys() == {"x5"}


def test_observed_values_separate_a_long_chain():
    """Given every value the regimes are a hidden Markov chain: against the forward algorithm."""
    network, rng = switching(30, 30), np.random.default_rng(4)
    _, values = draws(network, rng, 1)
    found = query(network, {f"x{t}": values[0, t] for t in range(30)})
    message, total = None, 0.0
    for t in range(30):
        node = network.continuous[f"x{t}"]
        mean = node.intercept + (node.slopes[:, 0] * values[0, t - 1] if t else 0)
        table = network.tables[f"d{t}"]
        message = (table if t == 0 else message @ table) * stats.norm.pdf(values[0, t], mean, node.sd)
        total += np.log(message.sum())
        message = message / message.sum()
    assert found.log_evidence == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(found.discrete["d29"], message, rtol=1e-10)


# ------------------------------------------------------------------------------ the plain data


def test_what_is_not_conditional_linear_gaussian():
    x = LinearGaussian((), np.array(0.0), np.zeros(0), np.array(1.0))
    with refused("model.unsupported", "'d'.*'x'"):
        MixedNetwork({"d": ("a", "b")}, {"d": ("x",)}, {"d": np.array([0.5, 0.5])}, {"x": x})
    with refused("model.name-clash", "'x'"):
        MixedNetwork({"x": ("a", "b")}, {}, {"x": np.array([0.5, 0.5])}, {"x": x})
    with refused("model.unknown-variable", "'z'.*'y'"):
        MixedNetwork({}, {}, {}, {"y": LinearGaussian(("z",), np.array(0.0), np.ones(1), np.array(1.0))})
    with refused("model.wrong-shape", "'y'.*2.*1"):
        MixedNetwork({}, {}, {}, {"x": x, "y": LinearGaussian(("x",), np.array(0.0), np.ones(2), np.array(1.0))})
    with refused("model.out-of-range", "sd"):
        LinearGaussian((), np.array(0.0), np.zeros(0), np.array(-1.0))
    loop = {a: LinearGaussian((b,), np.array(0.0), np.ones(1), np.array(1.0)) for a, b in ("xy", "yx")}
    with refused("model.cycle"):
        MixedNetwork({}, {}, {}, loop)


def test_evidence_that_cannot_be_read():
    network = zero_inflated()
    with refused("evidence.unknown-variable", "'dose'"):
        query(network, {"dos": 1.0})
    with refused("evidence.not-finite", "'dose'.*'much'"):
        query(network, {"dose": "much"})
    with refused("evidence.wrong-type", "'dose'.*high"):
        query(network, {"dose": {"high": 1.0}})
    with refused("evidence.out-of-range", "'dose'.*value"):
        query(network, {"dose": {"value": 1.0, "sd": 0.0}})
    with refused("evidence.unknown-variable", "'z'"):
        query(network, targets=["z"])


def test_counts_graph_and_draws():
    network = random_network(np.random.default_rng(2), 3, 4)
    tables = sum(t[..., 0].size * (t.shape[-1] - 1) for t in network.tables.values())
    configs = {v: np.prod([len(network.states[p]) for p in network.discrete_parents(v)]) for v in network.continuous}
    assert network.n_parameters == tables + sum(
        k * (2 + len(network.continuous_parents(v))) for v, k in configs.items()
    )
    assert nx.is_isomorphic(network.discrete.graph, network.graph.subgraph(network.states))
    assert set(network.graph.predecessors("x3")) == set(network.continuous["x3"].parents)
    codes, values = draws(network, np.random.default_rng(0), 100_000)
    found = query(network)
    for k, v in enumerate(network.states):
        share = np.bincount(codes[:, k], minlength=len(network.states[v])) / len(codes)
        error = np.sqrt(found.discrete[v] * (1 - found.discrete[v]) / len(codes))
        assert np.all(np.abs(share - found.discrete[v]) < 4 * error + 1e-12)
    for k, v in enumerate(network.continuous):
        assert abs(values[:, k].mean() - found.continuous[v].mean) < 4 * found.continuous[v].sd / np.sqrt(len(codes))


def test_log_density_of_complete_rows():
    rng = np.random.default_rng(6)
    network = random_network(rng, 3, 4)
    codes, values = draws(network, rng, 20)
    logs = log_density(network, codes, values)
    for row in range(20):
        given = {v: network.states[v][codes[row, k]] for k, v in enumerate(network.states)}
        given |= {v: values[row, k] for k, v in enumerate(network.continuous)}
        assert logs[row] == pytest.approx(query(network, given).log_evidence, abs=1e-9)


def test_do_cuts_the_parents():
    """Z causes X and Y, X causes Y: seeing X differs from setting it."""
    nodes = {
        "Z": LinearGaussian((), np.array(0.0), np.zeros(0), np.array(1.0)),
        "X": LinearGaussian(("Z",), np.array(0.0), np.array([2.0]), np.array(1.0)),
        "Y": LinearGaussian(("X", "Z"), np.array(0.0), np.array([0.5, 3.0]), np.array(1.0)),
    }
    network = MixedNetwork({}, {}, {}, nodes)
    assert query(network.do({"X": 2.0})).continuous["Y"].mean == pytest.approx(1.0)
    # E[Z | X = 2] = 2 · 2 / (4 + 1)
    assert query(network, {"X": 2.0}).continuous["Y"].mean == pytest.approx(1.0 + 3 * 0.8)


@pytest.mark.parametrize("c", [1e-300, 1e-160, 1e-150, 1e150, 1e155, 1e300])
def test_units_of_any_size(c: float) -> None:
    """A unit changes means and sds by itself, the log density by its logarithm, and probabilities not at all."""

    def solved(c: float) -> MixedMarginals:
        x = LinearGaussian((), np.array(5 * c), np.zeros(0), np.array(c))
        p = LinearGaussian(("d", "x"), np.array([10 * c, 12 * c]), np.array([[-1.0], [-1.0]]), np.array([0.5 * c, c]))
        net = MixedNetwork({"d": ("y", "n")}, {"d": ()}, {"d": np.array([0.3, 0.7])}, {"x": x, "p": p})
        return query(net, {"p": 5.5 * c})

    one, scaled = solved(1.0), solved(c)
    # By Bayes: p | d is normal about 5 and 7 with variances 1.25 and 2.
    weight = np.array([0.3, 0.7]) * stats.norm([5.0, 7.0], np.sqrt([1.25, 2.0])).pdf(5.5)
    assert one.discrete["d"] == pytest.approx(weight / weight.sum(), rel=1e-12)
    assert scaled.discrete["d"] == pytest.approx(weight / weight.sum(), rel=1e-12)
    assert scaled.log_evidence + np.log(c) == pytest.approx(np.log(weight.sum()), rel=1e-12)
    mean = 5 - np.array([0.5 / 1.25, -1.5 / 2])
    share, sd = weight / weight.sum(), np.sqrt([1 - 1 / 1.25, 1 - 1 / 2])
    for found, unit in ((one.continuous["x"], 1.0), (scaled.continuous["x"], c)):
        assert found.mean / unit == pytest.approx(share @ mean, rel=1e-12)
        assert found.sd / unit == pytest.approx(np.sqrt(share @ (sd**2 + mean**2) - (share @ mean) ** 2), rel=1e-12)
        assert share @ stats.norm.cdf(found.quantile(0.1) / unit, mean, sd) == pytest.approx(0.1, rel=1e-9)
