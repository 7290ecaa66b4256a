"""Misprints of the sources: for each the right form is what is computed, and the printed one is something else."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.special import expit
from scipy.stats import chi2, multivariate_normal

from bayeslab.distributions.emissions import gaussian
from bayeslab.exact.conjugate import DirichletMultinomial, NormalInverseGamma, NormalKnownVariance
from bayeslab.latents.networks.learning import TableProblem
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.learners.adaboost import AdaBoost
from bayeslab.learners.decision_tree import deviation
from bayeslab.learners.kernel_density import KernelDensity, NeighborDensity
from bayeslab.learners.kernel_regression import KernelRegression
from bayeslab.learners.knn import KNNRegressor
from bayeslab.learners.locally_weighted import LocallyWeighted
from bayeslab.learners.logistic import gradient as logistic_gradient
from bayeslab.learners.neural_network import NeuralNetworkClassifier
from bayeslab.learners.perceptron import Perceptron
from bayeslab.learners.svm import SVMClassifier
from bayeslab.learners.toolbox.layers import Layers, forward, gradient
from bayeslab.posterior.mixtures.problem import MixtureProblem
from bayeslab.theory.hypothesis_space import boolean_space
from tests.learners.restaurant import DOMAINS, rows


@pytest.fixture(scope="module")
def step() -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Rows, responsibilities, and what one step of EM makes of them."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(3, 1, (40, 2)), rng.normal(-2, 0.7, (60, 2))])
    problem = MixtureProblem.of(gaussian(2), x, 2)
    theta = {
        "weights": np.array([0.5, 0.5]),
        "mean": np.array([[2.0, 2.0], [-1.0, -1.0]]),
        "covariance": np.array([2 * np.eye(2)] * 2),
    }
    share = np.stack([multivariate_normal(m, 2 * np.eye(2)).pdf(x) for m in theta["mean"]], axis=1)
    return x, share / share.sum(axis=1, keepdims=True), problem.update(problem.expect(theta)[1], theta)


def test_m1_covariance_around_the_mean(step):
    """M1: the covariance of a component is around its mean; a printed step leaves the mean out."""
    x, share, after = step
    for k in range(2):
        p = share[:, k]
        mean = p @ x / p.sum()
        np.testing.assert_allclose(after["mean"][k], mean)
        about = (x - mean) * p[:, None]
        np.testing.assert_allclose(after["covariance"][k], about.T @ (x - mean) / p.sum())
        assert np.abs((x * p[:, None]).T @ x / p.sum() - after["covariance"][k]).max() > 1


def test_m2_weights_are_shares(step):
    """M2: the weight of a component is its expected number of rows over their number."""
    _, share, after = step
    np.testing.assert_allclose(after["weights"], share.sum(axis=0) / 100)
    assert after["weights"].sum() == pytest.approx(1)


def test_m3_density_of_ten_neighbours():
    """M3: of three pictures the middle one has k = 10: between the spikes of 3 and the plain of 40."""
    rng = np.random.default_rng(1)
    x = rng.choice([-2.0, 0.0, 2.0], (128, 1)) + 0.3 * rng.normal(size=(128, 1))
    at = np.linspace(-3, 3, 200)[:, None]
    rough = [np.abs(np.diff(np.exp(NeighborDensity(k).fit(x).score_samples(at)))).sum() for k in (3, 10, 40)]
    assert rough[0] > 1.5 * rough[1] > 2 * rough[2]


def test_m4_squared_error_of_a_unit():
    """M4: the error is T - g(in) with g around the weighted sum only, and the input is another thing than the target."""
    rng = np.random.default_rng(2)
    x, t, w = rng.normal(size=(5, 3)), rng.integers(0, 2, 5).astype(float), rng.normal(size=3)
    h = expit(x @ w)
    right = -((t - h) * h * (1 - h)) @ x
    np.testing.assert_allclose(logistic_gradient(w, x, t, "squared"), right)
    g = expit(t - x @ w)
    assert np.abs(-(g * g * (1 - g)) @ x - right).max() > 0.1


def test_m5_weights_are_drawn_once():
    """M5: small random weights before the passes, not in each; with half the squared error no factor of 2 is dropped."""
    x, y = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]]), np.array([0, 1, 1, 0])
    net = NeuralNetworkClassifier(
        (4,), activation="tanh", max_iter=200, batch_size=4, learning_rate_init=0.05, alpha=0, tol=0,
        n_iter_no_change=200, random_state=0,
    ).fit(x, y)  # fmt: skip
    curve = np.array(net.loss_curve_)
    assert np.mean(np.diff(curve) < 0) > 0.95, "drawn anew in every pass it would jump"
    assert curve[-1] < 0.05 * curve[0]
    rng = np.random.default_rng(3)
    one = Layers.random((2, 1), "identity", "identity", rng)
    t = rng.normal(size=(4, 1))
    slope = gradient(one, x, t, "squared")[1][:2]
    np.testing.assert_allclose(slope, (forward(one, x)[-1] - t)[:, 0] @ x / 4)


@pytest.mark.parametrize("d", [1, 2])
def test_m6_windows_integrate_to_one(d):
    """M6: a Gaussian window is divided by (w √(2π))^d; the printed w² leaves an integral of w^-d."""
    w, centre = 0.5, np.zeros((1, d))
    at = np.linspace(-4, 4, 161)
    grid = np.stack(np.meshgrid(*[at] * d, indexing="ij"), axis=-1).reshape(-1, d)
    values = np.exp(KernelDensity(w).fit(centre).score_samples(grid)).reshape([161] * d)
    total = values
    for _ in range(d):
        total = trapezoid(total, at, axis=-1)
    assert total == pytest.approx(1)
    np.testing.assert_allclose(values.max(), (w * math.sqrt(2 * math.pi)) ** -d)
    assert values.max() != pytest.approx((w**2 * math.sqrt(2 * math.pi)) ** -d)


def test_m7_degrees_of_freedom():
    """M7: the χ² test of Type has four values less one; the printed v - 1 of the sample size would be 11."""
    x, y = rows()
    j = list(DOMAINS).index("Type")
    table = [[np.sum((x[:, j] == v) & (y == c)) for c in ("N", "Y")] for v in range(4)]
    assert deviation(table)[1] == 3 != len(y) - 1
    assert chi2.isf(0.05, 3) == pytest.approx(7.814728, abs=1e-6)


def test_m8_weights_of_a_machine():
    """M8: w = Σ α y x, with the y; and the offset is added, in dual and primal form alike."""
    rng = np.random.default_rng(4)
    side = np.where(np.arange(40) % 2, 1, -1)
    x = rng.normal(size=(40, 2)) + 1.5 * side[:, None] + [2.0, 0.0]
    found = SVMClassifier(kernel="linear", C=10.0, tol=1e-8).fit(x, side)
    alpha, at = found.dual_variables_[0], found.support_
    np.testing.assert_allclose((alpha * side[at]) @ x[at], found.coef_[0], atol=1e-9)
    assert np.abs(alpha @ x[at] - found.coef_[0]).max() > 0.1
    b = found.intercept_[0]
    assert abs(b) > 0.1
    np.testing.assert_allclose(found.decision_function(x), x @ found.coef_[0] + b, atol=1e-9)
    np.testing.assert_allclose(found.decision_function(x), (alpha * side[at]) @ (x[at] @ x.T) + b, atol=1e-9)


def test_m9_vote_of_a_round():
    """M9: a hypothesis with the error ε votes with log((1 - ε)/ε); printed is log of (1 - ε), over ε."""
    x, y = rows()
    found = AdaBoost(n_estimators=3, categorical=tuple(range(10))).fit(x, y)
    error = found.errors_
    np.testing.assert_allclose(found.votes_, np.log((1 - error) / error))
    assert (np.log(1 - error) / error < 0).all(), "votes against itself"


def test_m10_posterior_of_a_hypothesis():
    """M10: one over the size of the version space is P(h | D); P(D | h) is 1 or 0."""
    space = boolean_space(2)
    seen = np.array([0, 1])
    truth = space.tables[9]
    posterior, likelihood = space.posterior(seen, truth[seen]), space.consistent(seen, truth[seen]).astype(float)
    assert set(posterior) == {0.0, 0.25}
    assert set(likelihood) == {0.0, 1.0}
    np.testing.assert_allclose(posterior, likelihood / likelihood.sum())


def test_m11_covariance_of_weights():
    """M11: with the noise precision β it is Σ/β, not βΣ; ridge is Σ0 = I/α, not αI."""
    rng = np.random.default_rng(5)
    x, alpha, beta = rng.normal(size=(30, 2)), 2.0, 4.0
    y = x @ [1.0, -2.0] + rng.normal(0, beta**-0.5, 30)
    # A prior that is sure of the variance 1/β; coefficients N(0, I/α).
    sure = 1e9
    after = NormalInverseGamma(np.zeros(2), alpha / beta * np.eye(2), sure, sure / beta).update(x, y)
    inverse = np.linalg.inv(alpha / beta * np.eye(2) + x.T @ x)
    np.testing.assert_allclose(after.sd()[0] ** 2, np.diag(inverse) / beta, rtol=1e-6)
    np.testing.assert_allclose(
        after.sd()[0] ** 2, np.diag(np.linalg.inv(alpha * np.eye(2) + beta * x.T @ x)), rtol=1e-6
    )
    assert np.abs(beta * np.diag(inverse) - after.sd()[0] ** 2).min() > 0.05
    np.testing.assert_allclose(after.mu, np.linalg.solve(alpha / beta * np.eye(2) + x.T @ x, x.T @ y))
    other = np.linalg.solve(np.eye(2) / (alpha * beta) + x.T @ x, x.T @ y)
    assert np.abs(after.mu - other).max() > 1e-3


def test_m12_prior_mean_is_not_squared():
    """M12: the posterior mean is a weighted mean of sample and prior mean."""
    data = np.array([5.0, 7.0, 6.0])
    own = NormalKnownVariance(3.0, 2.0, 1.0).update(data)
    weight = 3 / (3 + 1 / 4)
    assert own.mu == pytest.approx(weight * 6 + (1 - weight) * 3)
    assert own.mu != pytest.approx(weight * 6 + (1 - weight) * 9)
    # A prior mean higher by one moves it by the prior's weight, wherever that is.
    moved = [
        NormalKnownVariance(m + 1, 2.0).update(data).mu - NormalKnownVariance(m, 2.0).update(data).mu for m in (0, 9)
    ]
    np.testing.assert_allclose(moved, 1 - weight)


def test_m13_uniform_dirichlet():
    """M13: uniform is α = 1 for each value, so that all counts of n are equally probable; N_i counts instances."""

    def of_counts(a, counts):
        arrangements = math.factorial(sum(counts)) / math.prod(map(math.factorial, counts))
        return arrangements * math.exp(DirichletMultinomial.of(a).log_evidence(counts))

    every = [(i, j, 4 - i - j) for i in range(5) for j in range(5 - i)]
    np.testing.assert_allclose([of_counts(np.ones(3), c) for c in every], 1 / math.comb(6, 2))
    assert np.ptp([of_counts(np.full(3, 1 / 3), c) for c in every]) > 0.1
    instances = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(DirichletMultinomial.of(np.ones(3)).update(instances).a, [4, 2, 1])


def test_m14_attributes_of_the_restaurant():
    """M14: six of the ten attributes are Boolean and four have more values: 9,216 inputs, not 1,024."""
    sizes = [len(d) for d in DOMAINS.values()]
    assert sorted(sizes) == [2] * 6 + [3, 3, 4, 4]
    assert math.prod(sizes) == 9216
    with open(Path(__file__).parents[2] / "models" / "data" / "restaurant.csv", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    boolean = [name for name in table[0] if {row[name] for row in table} <= {"No", "Yes", "no", "yes", "N", "Y"}]
    assert len(boolean) == 6 + 1, "and the answer"


def test_m15_picture_of_the_locally_weighted_line():
    """M15: the picture meant is the one of the quadratic kernel of width 10: it has no jumps, unlike 3 neighbours."""
    x = np.array([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])[:, None]
    y = np.array([2.0, 3, 3, 4, 3, 8, 4, 5, 6, 5, 7, 6])
    at = np.linspace(0, 14, 1401)[:, None]
    jumps = [
        np.abs(np.diff(m.fit(x, y).predict(at))).max()
        for m in (KNNRegressor(3), LocallyWeighted("E2", kernel="quadratic", width=10.0))
    ]
    assert jumps[0] > 0.5
    assert jumps[1] < 0.05
    gaps = np.array([[0.0], [2.5], [5.0], [-5.0]])
    shares = KernelRegression("quadratic", 10.0).fit(gaps, np.zeros(4)).weights([[0.0]])[0]
    np.testing.assert_allclose(shares / shares[0], [1, 0.75, 0, 0], atol=1e-9)


def test_m16_gradient_of_a_table():
    """M16: the one term left is that of the entry itself: Σ_d P(y, u | d) / w, as finite differences have it."""
    rng = np.random.default_rng(6)
    tables = {"U": rng.dirichlet(np.ones(2)), "Y": rng.dirichlet(np.ones(3), 2), "Z": rng.dirichlet(np.ones(2), 3)}
    net = DiscreteNetwork(
        {"U": ("a", "b"), "Y": ("p", "q", "r"), "Z": ("0", "1")}, {"U": (), "Y": ("U",), "Z": ("Y",)}, tables
    )
    codes = np.column_stack([rng.integers(-1, 2, 40), np.full(40, -1), rng.integers(0, 2, 40)])
    problem = TableProblem.of(net, codes)
    counts = problem.expect(tables)[1]
    slope = problem.slope(tables, counts)["Y"]
    np.testing.assert_allclose(slope, counts["Y"] / tables["Y"])
    for u, y in np.ndindex(2, 3):
        sides = []
        for h in (1e-6, -1e-6):
            changed = {v: t.copy() for v, t in tables.items()}
            changed["Y"][u, y] += h
            sides.append(problem.expect(changed)[0])
        assert slope[u, y] == pytest.approx((sides[0] - sides[1]) / 2e-6, rel=1e-5)


def test_m17_sign_of_the_bias():
    """M17: the bias input is +1 here; one of -1 has the same unit with the other sign of its weight."""
    x, y = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]]), np.array([0, 0, 0, 1])
    found = Perceptron(shuffle=False).fit(x, y)
    assert found.intercept_[0] < 0
    minus_one = np.column_stack([-np.ones(4), x]) @ np.array([-found.intercept_[0], *found.coef_[0]])
    np.testing.assert_array_equal(minus_one >= 0, y)
    np.testing.assert_allclose(found.decision_function(x), minus_one)
