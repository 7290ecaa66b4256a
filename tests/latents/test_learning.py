"""Tables from complete data: closed forms, published numbers, brute force."""

from __future__ import annotations

from itertools import product
from math import lgamma

import numpy as np
import pytest
from scipy import integrate
from scipy.optimize import minimize, minimize_scalar
from scipy.special import xlogy
from scipy.stats import beta, dirichlet

from bayeslab.latents.networks.learning import (
    equivalent_sample,
    laplace,
    m_estimate,
    maximum_likelihood,
    posterior_counts,
)
from bayeslab.latents.networks.network import DiscreteNetwork
from tests.refusals import refused

COIN = {"flavor": ("cherry", "lime")}


def candies(cherries, limes):
    return np.repeat([[0], [1]], [cherries, limes], axis=0)


def beta_of(a, b, cherries=0, limes=0):
    return posterior_counts(candies(cherries, limes), COIN, {}, {"flavor": np.array([a, b])})


def wrapped(r_c, g_c, r_l, g_l):
    """Flavor -> Wrapper."""
    states = COIN | {"wrapper": ("red", "green")}
    codes = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [r_c, g_c, r_l, g_l], axis=0)
    return codes, states, {"wrapper": ("flavor",)}


# Maximum likelihood


def test_ml_bernoulli():
    """theta = c / N, where the derivative of c log theta + l log(1 - theta) is zero; one cherry gives 1."""
    for c, n_l in ((1, 0), (3, 7), (60, 40)):
        theta = maximum_likelihood(candies(c, n_l), COIN, {}).network.tables["flavor"][0]
        assert theta == pytest.approx(c / (c + n_l))
        best = minimize_scalar(
            lambda t, c=c, n_l=n_l: -xlogy(c, t) - xlogy(n_l, 1 - t), bounds=(0, 1), method="bounded"
        )
        assert theta == pytest.approx(best.x, abs=1e-4)


def test_ml_wrapper_net():
    """Three parameters: c/N, r_c/(r_c + g_c), r_l/(r_l + g_l); the log likelihood has one term for each."""
    r_c, g_c, r_l, g_l = 30, 12, 5, 53
    found = maximum_likelihood(*wrapped(r_c, g_c, r_l, g_l))
    c, n_l = r_c + g_c, r_l + g_l
    theta, (t1, t2) = found.network.tables["flavor"][0], found.network.tables["wrapper"][:, 0]
    np.testing.assert_allclose([theta, t1, t2], [c / (c + n_l), r_c / c, r_l / n_l])
    assert found.network.n_parameters == 3
    terms = [a * np.log(p) + b * np.log(1 - p) for a, b, p in ((c, n_l, theta), (r_c, g_c, t1), (r_l, g_l, t2))]
    assert found.log_likelihood == pytest.approx(sum(terms), rel=1e-12)
    assert found.terms == pytest.approx({"flavor": terms[0], "wrapper": terms[1] + terms[2]})
    cell = found.network.tables["flavor"][0] * found.network.tables["wrapper"][0, 1]
    assert cell == pytest.approx(theta * (1 - t1))


def test_ml_decomposition():
    """No change of any table, others as they are, raises the likelihood of the whole."""
    rng = np.random.default_rng(0)
    states = dict.fromkeys("abc", ("0", "1", "2"))
    parents = {"b": ("a",), "c": ("a", "b")}
    codes = rng.integers(0, 3, (200, 3))
    best = maximum_likelihood(codes, states, parents)
    want = sum(
        np.log(best.network.tables["a"][a] * best.network.tables["b"][a, b] * best.network.tables["c"][a, b, c])
        for a, b, c in codes
    )
    assert best.log_likelihood == pytest.approx(want, rel=1e-12)
    for v in states:
        for _ in range(20):
            table = best.network.tables[v] * rng.gamma(50, size=best.network.tables[v].shape)
            table /= table.sum(axis=-1, keepdims=True)
            assert xlogy(best.counts[v], table).sum() < best.terms[v]


def test_rows_never_seen_are_uniform_and_listed():
    codes, states, parents = wrapped(3, 1, 0, 0)
    found = maximum_likelihood(codes, states, parents)
    np.testing.assert_allclose(found.network.tables["wrapper"], [[0.75, 0.25], [0.5, 0.5]])
    assert found.unseen == {"wrapper": [("lime",)]}
    assert found.skipped == {"flavor": 0, "wrapper": 0}


def test_rows_with_missing_cells_are_left_out_of_their_families():
    _, states, parents = wrapped(1, 1, 1, 1)
    codes = np.array([[0, 0], [0, -1], [-1, 1], [1, 1]])
    found = maximum_likelihood(codes, states, parents, np.array([1.0, 2, 4, 8]))
    np.testing.assert_allclose(found.network.tables["flavor"], [3 / 11, 8 / 11])
    np.testing.assert_allclose(found.network.tables["wrapper"], [[1, 0], [0, 1]])
    assert found.skipped == {"flavor": 4, "wrapper": 6}


# Beta and Dirichlet posteriors


def test_beta_update():
    """One cherry adds 1 to a; a beta[a, b] prior is beta[1, 1] after a - 1 cherries and b - 1 limes."""
    np.testing.assert_allclose(beta_of(2, 5, 1, 0).concentration["flavor"], [3, 5])
    np.testing.assert_allclose(beta_of(1, 1, 5, 3).concentration["flavor"], [6, 4])


@pytest.mark.parametrize(
    ("a", "b", "mean", "variance", "mode"),
    [
        (3, 1, 0.75, 0.0375, 1),
        (6, 2, 0.75, 0.020833, 0.833333),
        (30, 10, 0.75, 0.004573, 0.763158),
        (20, 30, 0.4, 0.004706, 0.395833),
    ],
)
def test_beta_prior(a, b, mean, variance, mode):
    found = beta_of(a, b)
    assert found.mean().tables["flavor"][0] == pytest.approx(mean, abs=5e-7)
    assert found.sd()["flavor"][0] ** 2 == pytest.approx(variance, abs=5e-7)
    assert found.mode().tables["flavor"][0] == pytest.approx(mode, abs=5e-7)


def test_beta_limit():
    """75 % cherries: beta[3, 1] -> [6, 2] -> [30, 10]; the mean stays, the variance falls, ML is met in the end."""
    steps = [beta_of(1, 1, 2, 0), beta_of(1, 1, 5, 1), beta_of(1, 1, 29, 9)]
    np.testing.assert_allclose([s.concentration["flavor"] for s in steps], [[3, 1], [6, 2], [30, 10]])
    sds = [s.sd()["flavor"][0] for s in steps]
    np.testing.assert_allclose(np.square(sds), [0.0375, 0.020833, 0.004573], atol=5e-7)
    many = beta_of(3, 1, 30_000, 10_000)
    assert many.mean().tables["flavor"][0] == pytest.approx(0.75, abs=1e-4)


def test_ml_small_sample():
    """One cherry: ML says 1, the mean under a uniform prior 2/3; over the prior ML errs more."""
    assert maximum_likelihood(candies(1, 0), COIN, {}).network.tables["flavor"][0] == 1.0
    assert beta_of(1, 1, 1, 0).mean().tables["flavor"][0] == pytest.approx(2 / 3)
    # Expected squared errors with theta uniform and n = 4 candies, in closed form by quadrature over theta.
    error = {"ml": 0.0, "mean": 0.0}
    for c in range(5):
        for name, estimate in (("ml", c / 4), ("mean", (c + 1) / 6)):
            mass = integrate.quad(lambda t, c=c, e=estimate: beta(c + 1, 5 - c).pdf(t) / 5 * (t - e) ** 2, 0, 1)[0]
            error[name] += mass
    assert (
        error["ml"] == pytest.approx(1 / 24) and error["mean"] == pytest.approx(1 / 36) and error["ml"] > error["mean"]
    )


def test_zero_count_guard():
    """Counts that start from 1: an event never seen has a positive probability."""
    np.testing.assert_allclose(laplace(np.array([1.0, 0])), [2 / 3, 1 / 3])
    assert (laplace(np.array([[5.0, 0, 0], [0, 0, 0]])) > 0).all()


@pytest.mark.parametrize(("epsilon", "mean"), [(0.1, 0.916667), (0.01, 0.990196), (0.001, 0.999002)])
def test_ex20_8d(epsilon, mean):
    assert beta_of(epsilon, epsilon, 1, 0).mean().tables["flavor"][0] == pytest.approx(mean, abs=5e-7)
    with refused("model.no-mode"):
        beta_of(epsilon, epsilon).mode()


@pytest.mark.parametrize(
    ("a", "b", "constant"), [(3, 1, 3), (6, 2, 42), (30, 10, 6_357_453_960), (20, 30, 5.655505e14)]
)
def test_ex20_8a(a, b, constant):
    """The normaliser G(a + b) / (G(a) G(b)): the evidence of a - 1 cherries and b - 1 limes is its inverse."""
    assert np.exp(-beta_of(1, 1, a - 1, b - 1).log_evidence) == pytest.approx(constant, rel=1e-6)
    assert constant * integrate.quad(lambda t: t ** (a - 1) * (1 - t) ** (b - 1), 0, 1)[0] == pytest.approx(1, rel=1e-6)


def test_ex20_8bc():
    """Mean a / (a + b), mode (a - 1) / (a + b - 2), against the density itself."""
    for a, b in ((6, 2), (2.5, 4)):
        found, density = beta_of(a, b), beta(a, b).pdf
        mean = integrate.quad(lambda t, f=density: t * f(t), 0, 1)[0]
        mode = minimize_scalar(lambda t, f=density: -f(t), bounds=(0, 1), method="bounded", options={"xatol": 1e-10}).x
        assert found.mean().tables["flavor"][0] == pytest.approx(mean) == a / (a + b)
        assert found.mode().tables["flavor"][0] == pytest.approx(mode, abs=1e-6) == pytest.approx((a - 1) / (a + b - 2))


def test_spam_beta():
    """x of n mails are spam, uniform prior: beta(1 + x, 1 + n - x)."""
    np.testing.assert_allclose(beta_of(1, 1, 7, 13).concentration["flavor"], [1 + 7, 1 + 20 - 7])


def test_ml_recipe():
    """Write the log likelihood, set its derivative to zero numerically: the closed forms."""
    codes, states, parents = wrapped(30, 12, 5, 53)
    want = maximum_likelihood(codes, states, parents)

    def falling(x):
        theta, t1, t2 = 1 / (1 + np.exp(-x))
        cells = [theta * t1, theta * (1 - t1), (1 - theta) * t2, (1 - theta) * (1 - t2)]
        return -(np.array([30, 12, 5, 53]) * np.log(cells)).sum()

    found = minimize(falling, np.zeros(3), method="BFGS", options={"gtol": 1e-8})
    assert -found.fun == pytest.approx(want.log_likelihood, abs=1e-8)
    tables = want.network.tables
    closed = [tables["flavor"][0], tables["wrapper"][0, 0], tables["wrapper"][1, 0]]
    np.testing.assert_allclose(1 / (1 + np.exp(-found.x)), closed, atol=1e-6)


def test_prior_strength():
    """60 of 100 against 6 of 10."""
    assert beta_of(60, 40).sd()["flavor"][0] == pytest.approx(0.048747, abs=5e-7)
    assert beta_of(6, 4).sd()["flavor"][0] == pytest.approx(0.147710, abs=5e-7)


@pytest.mark.slow(why="statistical")
def test_dirichlet_multinomial():
    """Predictive (alpha + N) / (alpha0 + N0); evidence is the integral of the likelihood over the prior."""
    states = {"x": ("a", "b", "c")}
    alpha, codes = np.array([0.5, 2.0, 1.5]), np.array([[0], [2], [2], [1]])
    found = posterior_counts(codes, states, {}, {"x": alpha})
    np.testing.assert_allclose(found.mean().tables["x"], (alpha + np.array([1, 1, 2])) / 8)

    def integrand(q, p):
        return dirichlet(alpha).pdf([p, q, 1 - p - q]) * p * q * (1 - p - q) ** 2

    evidence = integrate.dblquad(integrand, 0, 1, 0, lambda p: 1 - p, epsabs=1e-9)[0]
    assert found.log_evidence == pytest.approx(np.log(evidence), abs=1e-5)
    # The chain rule: each case predicted from those before.
    steps = [
        posterior_counts(codes[:i], states, {}, {"x": alpha}).mean().tables["x"][codes[i, 0]] for i in range(len(codes))
    ]
    assert found.log_evidence == pytest.approx(np.log(steps).sum(), rel=1e-12)


def test_bn_complete_bayes():
    """Per row of a table (alpha + n) / (alpha0 + n0); with alpha going to zero, the counts."""
    rng = np.random.default_rng(1)
    states, parents = {"a": ("0", "1"), "b": ("0", "1", "2")}, {"b": ("a",)}
    codes = np.stack([rng.integers(0, 2, 50), rng.integers(0, 3, 50)], axis=1)
    found = posterior_counts(codes, states, parents, 2.0)
    for a in (0, 1):
        n = np.bincount(codes[codes[:, 0] == a, 1], minlength=3)
        np.testing.assert_allclose(found.mean().tables["b"][a], (2 + n) / (6 + n.sum()))
    near = posterior_counts(codes, states, parents, 1e-9).mean()
    np.testing.assert_allclose(
        near.tables["b"], maximum_likelihood(codes, states, parents).network.tables["b"], atol=1e-8
    )
    rows = [
        lgamma(6) - lgamma(6 + n.sum()) + sum(lgamma(2 + k) - lgamma(2) for k in n)
        for n in found.counts["b"]
    ]  # fmt: skip
    assert found.log_evidence_terms["b"] == pytest.approx(sum(rows))
    assert found.log_evidence == pytest.approx(sum(found.log_evidence_terms.values()))


def test_sequential_update():
    rng = np.random.default_rng(2)
    states, parents = {"a": ("0", "1"), "b": ("0", "1", "2")}, {"b": ("a",)}
    codes = np.stack([rng.integers(0, 2, 40), rng.integers(0, 3, 40)], axis=1)
    whole = posterior_counts(codes, states, parents, 0.7)
    order = rng.permutation(40)
    after = posterior_counts(codes[order[:13]], states, parents, 0.7)
    for i in order[13:]:
        after = after.updated(codes[i : i + 1])
    for v in states:
        np.testing.assert_allclose(after.concentration[v], whole.concentration[v], rtol=1e-13)
    assert after.log_evidence == pytest.approx(whole.log_evidence)


def test_param_independence():
    """The joint posterior of theta, theta1, theta2 on a grid is the product of three betas."""
    found = posterior_counts(*wrapped(3, 1, 2, 4))
    grid = np.linspace(0.005, 0.995, 100)
    t, t1, t2 = np.meshgrid(grid, grid, grid, indexing="ij")
    joint = t**4 * (1 - t) ** 6 * t1**3 * (1 - t1) * t2**2 * (1 - t2) ** 4
    joint /= joint.sum()
    a, b = found.concentration["flavor"], found.concentration["wrapper"]
    parts = [beta(*p).pdf(grid) for p in (a, b[0], b[1])]
    product_of = np.einsum("i,j,k->ijk", *(p / p.sum() for p in parts))
    np.testing.assert_allclose(joint, product_of, rtol=1e-9, atol=1e-300)


def test_plate_net_learning():
    """Learning as inference in one net: a parameter node with a fine grid, one copy of the variable a case."""
    from bayeslab.latents.networks.junction_tree import JunctionTree

    grid = (np.arange(200) + 0.5) / 200
    density = beta(2, 3).pdf(grid)
    copies = [f"flavor{i}" for i in range(6)]
    states = {"theta": tuple(f"t{i}" for i in range(200))} | dict.fromkeys(copies, ("cherry", "lime"))
    tables = {"theta": density / density.sum()} | {c: np.stack([grid, 1 - grid], axis=1) for c in copies}
    network = DiscreteNetwork(states, dict.fromkeys(copies, ("theta",)), tables)
    seen = dict(zip(copies, ["cherry", "cherry", "lime", "cherry", "cherry"], strict=False))
    found = JunctionTree.of(network).query(seen)
    want = beta_of(2, 3, 4, 1)
    assert found.marginals[copies[5]][0] == pytest.approx(want.mean().tables["flavor"][0], abs=1e-4)
    assert found.log_evidence == pytest.approx(want.log_evidence, abs=1e-3)


def test_draws_have_the_moments_of_the_posterior():
    found = posterior_counts(*wrapped(3, 1, 0, 4), 0.3)
    n = 40_000
    draws = found.draws(np.random.default_rng(3), n)
    for v, mean in found.mean().tables.items():
        sd = found.sd()[v]
        assert draws[v].shape == (n, *mean.shape)
        np.testing.assert_allclose(draws[v].sum(axis=-1), 1.0)
        assert (np.abs(draws[v].mean(axis=0) - mean) < 4.5 * sd / np.sqrt(n)).all()
        np.testing.assert_allclose(draws[v].std(axis=0), sd, rtol=0.05)
    tiny = posterior_counts(np.empty((0, 1), dtype=int), COIN, {}, 1e-6).draws(np.random.default_rng(0), 500)["flavor"]
    assert np.isfinite(tiny).all() and tiny[:, 0].mean() == pytest.approx(0.5, abs=0.1)


def test_equivalent_sample_is_spread_evenly():
    alpha = equivalent_sample({"a": ("0", "1"), "b": ("0", "1", "2")}, {"b": ("a",)}, 12.0)
    np.testing.assert_allclose(alpha["a"], 6.0)
    np.testing.assert_allclose(alpha["b"], 2.0)


def test_missing_cells_have_no_closed_form():
    codes, states, parents = wrapped(1, 1, 1, 1)
    codes[0, 1] = -1
    with refused("data.missing", "'wrapper'"):
        posterior_counts(codes, states, parents)
    with refused("model.out-of-range", "'flavor'"):
        posterior_counts(codes[1:], states, parents, 0.0)


# m-estimate


def test_m_estimate_of_its_example():
    """(n_c + m p) / (n + m); n = 5, n_c = 3; m = 0 is the frequency, a large m the prior."""
    counts = np.array([3.0, 2.0])
    assert m_estimate(counts, 0)[0] == pytest.approx(0.6)
    assert m_estimate(counts, 2)[0] == pytest.approx((3 + 2 * 0.5) / 7)
    assert m_estimate(counts, 3, np.array([0.9, 0.1]))[0] == pytest.approx((3 + 2.7) / 8)
    assert m_estimate(counts, 1e9)[0] == pytest.approx(0.5)
    np.testing.assert_allclose(laplace(counts, 2.0), [5 / 9, 4 / 9])
    with refused("option.out-of-range", "^m .*-1"):
        m_estimate(counts, -1)


def test_m_estimate_is_a_dirichlet_mean():
    counts = np.array([[3.0, 2, 0], [0, 0, 0]])
    want = (counts + 4 / 3) / (counts + 4 / 3).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(m_estimate(counts, 4), want)


# Numbers of parameters


def test_parameter_counts_of_the_heart_disease_net():
    """Seven variables of three states: 78 with the hidden node; 708 when it is removed."""
    three = ("0", "1", "2")
    causes, symptoms = ["smoking", "diet", "exercise"], ["s1", "s2", "s3"]

    def parameters(parents):
        states = dict.fromkeys([*causes, *(["heart"] if "heart" in parents else []), *symptoms], three)
        shape = {v: (3,) * (len(parents.get(v, ())) + 1) for v in states}
        return DiscreteNetwork(states, parents, {v: np.full(s, 1 / 3) for v, s in shape.items()}).n_parameters

    assert parameters({"heart": tuple(causes)} | dict.fromkeys(symptoms, ("heart",))) == 78
    fan = {s: (*causes, *symptoms[:i]) for i, s in enumerate(symptoms)}
    assert parameters(fan) == 708


def test_every_joint_is_a_distribution():
    found = maximum_likelihood(*wrapped(3, 2, 4, 1)).network.tables
    cells = [found["flavor"][f] * found["wrapper"][f, w] for f, w in product((0, 1), repeat=2)]
    np.testing.assert_allclose(cells, [0.3, 0.2, 0.4, 0.1])
