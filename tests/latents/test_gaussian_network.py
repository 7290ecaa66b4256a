"""Linear-Gaussian nets as a multivariate normal: against path tracing, block formulas and simulation."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from scipy import stats

from bayeslab.latents.networks.gaussian_network import MultivariateNormal, joint
from bayeslab.latents.networks.mixed_network import LinearGaussian, MixedNetwork, draws
from tests.refusals import refused


def random_network(rng, n, density=0.5):
    nodes = {}
    for i in range(n):
        above = tuple(f"x{k}" for k in range(i) if rng.random() < density)
        nodes[f"x{i}"] = LinearGaussian(above, rng.normal(), rng.normal(size=len(above)), rng.gamma(2, 0.5))
    return MixedNetwork({}, {}, {}, nodes)


def by_paths(network):
    """Wright's rule: x_i is the sum over ancestors k of (products of slopes along all paths k -> i) noise_k."""
    names = list(network.continuous)
    effect = np.eye(len(names))
    for i, target in enumerate(names):
        for k, source in enumerate(names):
            if i == k:
                continue
            for path in nx.all_simple_paths(network.graph, source, target):
                product = 1.0
                for a, b in itertools.pairwise(path):
                    node = network.continuous[b]
                    product *= node.slopes[node.parents.index(a)]
                effect[i, k] += product
    intercept = np.array([float(n.intercept) for n in network.continuous.values()])
    noise = np.array([float(n.sd) for n in network.continuous.values()])
    return effect @ intercept, effect @ np.diag(noise**2) @ effect.T


@pytest.mark.parametrize("seed", range(10))
def test_linear_gaussian_bn_moments_by_path_tracing(seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng, 7)
    normal = joint(network)
    mean, covariance = by_paths(network)
    np.testing.assert_allclose(normal.mean, mean, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(normal.covariance, covariance, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(normal.sd, np.sqrt(np.diagonal(covariance)), rtol=1e-10)


@pytest.mark.slow(why="statistical")
def test_linear_gaussian_bn_is_multivariate_normal():
    """Simulated parent by parent: moments, skewness and kurtosis of projections are those of the normal."""
    rng = np.random.default_rng(1)
    network = random_network(rng, 5)
    n = 1_000_000
    _, values = draws(network, rng, n)
    mean, covariance = by_paths(network)
    error = np.sqrt(np.diagonal(covariance) / n)
    assert np.all(np.abs(values.mean(axis=0) - mean) < 4.5 * error)
    product = np.sqrt((np.outer(np.diagonal(covariance), np.diagonal(covariance)) + covariance**2) / n)
    assert np.all(np.abs(np.cov(values.T) - covariance) < 4.5 * product)
    for direction in rng.normal(size=(3, 5)):
        z = (values - mean) @ direction / np.sqrt(direction @ covariance @ direction)
        assert abs(np.mean(z**3)) < 4.5 * np.sqrt(15 / n)
        assert abs(np.mean(z**4) - 3) < 4.5 * np.sqrt(96 / n)


def test_linear_gaussian_bn_by_hand():
    """x ~ Normal(1, 2), y ~ Normal(3 + 0.5 x, 1)."""
    nodes = {"x": LinearGaussian((), 1.0, np.zeros(0), 2.0), "y": LinearGaussian(("x",), 3.0, np.array([0.5]), 1.0)}
    normal = joint(MixedNetwork({}, {}, {}, nodes))
    np.testing.assert_allclose(normal.mean, [1.0, 3.5])
    np.testing.assert_allclose(normal.covariance, [[4.0, 2.0], [2.0, 2.0]])
    after = normal.condition({"y": 4.5})
    assert after.names == ("x",)
    assert after.mean[0] == pytest.approx(1.0 + 2.0 / 2.0 * 1.0) and after.sd[0] == pytest.approx(np.sqrt(2.0))
    np.testing.assert_allclose(after.quantile(0.975), 2.0 + 1.959963984540054 * np.sqrt(2.0))


@pytest.mark.parametrize("seed", range(20))
def test_conditioning_equals_the_block_formula(seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng, 8)
    normal = joint(network)
    mean, covariance = by_paths(network)
    given = rng.choice(8, size=3, replace=False)
    y = normal.draws(rng, 1)[0, given]
    # The last one is read with an error.
    noise = np.diag([0.0, 0.0, 0.7**2])
    inner = covariance[np.ix_(given, given)] + noise
    gain = np.linalg.solve(inner, covariance[given]).T
    values = {f"x{i}": v for i, v in zip(given[:2], y[:2], strict=True)}
    values[f"x{given[2]}"] = {"value": y[2], "sd": 0.7}
    rest = [i for i in range(8) if i not in given[:2]]
    after = normal.condition(values)
    assert after.names == tuple(f"x{i}" for i in rest)
    np.testing.assert_allclose(after.mean, (mean + gain @ (y - mean[given]))[rest], atol=1e-9)
    np.testing.assert_allclose(after.covariance, (covariance - gain @ covariance[given])[np.ix_(rest, rest)], atol=1e-9)
    log_density = stats.multivariate_normal(mean[given], inner).logpdf(y)
    assert normal.log_density(values) == pytest.approx(log_density, abs=1e-9)


def test_conditioning_keeps_digits_when_nearly_everything_is_known():
    """A precise reading of a vague variable: sd 1e-7 out of 1e5, which a difference of variances would lose."""
    normal = MultivariateNormal(("x",), np.zeros(1), np.array([[1e5]]))
    after = normal.condition({"x": {"value": 3.0, "sd": 1e-7}})
    assert after.mean[0] == pytest.approx(3.0, rel=1e-9)
    assert after.sd[0] == pytest.approx(1e-7, rel=1e-3)


def test_many_readings_of_one_variable():
    """The precision adds up: against the conjugate formula."""
    nodes = {"x": LinearGaussian((), 0.0, np.zeros(0), 10.0)}
    nodes |= {f"y{k}": LinearGaussian(("x",), 0.0, np.ones(1), 0.01 * (k + 1)) for k in range(30)}
    y = 5 + 0.01 * np.random.default_rng(0).standard_normal(30)
    after = joint(MixedNetwork({}, {}, {}, nodes)).condition({f"y{k}": y[k] for k in range(30)})
    weights = (0.01 * np.arange(1, 31)) ** -2.0
    precision = 0.01 + weights.sum()
    assert after.mean[0] == pytest.approx(weights @ y / precision, rel=1e-12)
    assert after.sd[0] == pytest.approx(precision**-0.5, rel=1e-9)


def test_variables_that_are_functions_of_others():
    """total = a + b exactly: given the total and a, b is known; contradictions have density zero."""
    nodes = {
        "a": LinearGaussian((), 1.0, np.zeros(0), 1.0),
        "b": LinearGaussian((), 2.0, np.zeros(0), 2.0),
        "total": LinearGaussian(("a", "b"), 0.0, np.ones(2), 0.0),
    }
    normal = joint(MixedNetwork({}, {}, {}, nodes))
    after = normal.condition({"total": 6.0})
    np.testing.assert_allclose(after.mean, [1 + 3 * 1 / 5, 2 + 3 * 4 / 5])
    np.testing.assert_allclose(after.covariance, np.array([[1, -1], [-1, 1]]) * 4 / 5, atol=1e-12)
    known = normal.condition({"total": 6.0, "a": 0.1})
    assert known.mean[0] == pytest.approx(5.9) and known.sd[0] == pytest.approx(0.0, abs=1e-12)
    agree = {"a": 0.1, "b": 0.2, "total": 0.1 + 0.2}
    truth = stats.norm.logpdf(0.1, 1, 1) + stats.norm.logpdf(0.2, 2, 2)
    assert normal.log_density(agree) == pytest.approx(truth, rel=1e-12)
    assert normal.log_density({**agree, "total": 0.4}) == -np.inf
    with refused("evidence.contradiction"):
        normal.condition({**agree, "total": 0.4})


def test_rows_with_missing_cells():
    rng = np.random.default_rng(3)
    network = random_network(rng, 5)
    normal = joint(network)
    mean, covariance = by_paths(network)
    values = normal.draws(rng, 200)
    values[rng.random(values.shape) < 0.4] = np.nan
    found = normal.log_densities(values)
    for row, log_density in zip(values, found, strict=True):
        seen = ~np.isnan(row)
        truth = (
            stats.multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).logpdf(row[seen]) if seen.any() else 0
        )
        assert log_density == pytest.approx(truth, abs=1e-9)


def test_marginals_and_draws():
    rng = np.random.default_rng(4)
    normal = joint(random_network(rng, 5))
    part = normal.marginal(["x4", "x1"])
    np.testing.assert_array_equal(part.covariance, normal.covariance[np.ix_([4, 1], [4, 1])])
    sample = part.draws(rng, 200_000)
    assert np.all(np.abs(sample.mean(axis=0) - part.mean) < 4.5 * part.sd / np.sqrt(200_000))
    assert np.corrcoef(sample.T)[0, 1] == pytest.approx(part.covariance[0, 1] / part.sd.prod(), abs=0.01)


def test_from_a_covariance():
    covariance = np.array([[2.0, 1.0, 3.0], [1.0, 2.0, 3.0], [3.0, 3.0, 6.0]])
    normal = MultivariateNormal.of(("a", "b", "c"), np.zeros(3), covariance)
    np.testing.assert_allclose(normal.covariance, covariance, atol=1e-12)
    after = normal.condition({"a": 1.0})
    np.testing.assert_allclose(after.mean, [0.5, 1.5])
    np.testing.assert_allclose(after.covariance, [[1.5, 1.5], [1.5, 1.5]], atol=1e-12)
    assert np.isfinite(normal.log_density({"a": 1.0, "b": 1.0, "c": 2.0}))
    assert normal.log_density({"a": 1.0, "b": 1.0, "c": 2.1}) == -np.inf
    with refused("model.not-a-covariance"):
        MultivariateNormal.of(("a", "b"), np.zeros(2), np.array([[1.0, 2.0], [2.0, 1.0]]))
    with refused("model.not-a-covariance"):
        MultivariateNormal.of(("a", "b"), np.zeros(2), np.array([[1.0, 0.5], [0.0, 1.0]]))


def test_what_is_not_a_multivariate_normal():
    node = LinearGaussian(("c",), np.zeros(2), np.zeros((2, 0)), np.ones(2))
    network = MixedNetwork({"c": ("a", "b")}, {}, {"c": np.array([0.5, 0.5])}, {"x": node})
    with refused("model.unsupported", "'c'"):
        joint(network)
    normal = joint(random_network(np.random.default_rng(0), 3))
    with refused("evidence.unknown-variable", "'z'"):
        normal.condition({"z": 1.0})
    with refused("evidence.unknown-variable", "'z'"):
        normal.marginal(["z"])
