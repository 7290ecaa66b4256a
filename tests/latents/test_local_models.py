"""Local models against general-purpose optimisers, finite differences and planted values."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, xlogy
from scipy.stats import beta, dirichlet, norm

from bayeslab.latents.networks.local_models import FreeTable, NoisyMax, NoisyOr, Softmax
from tests.refusals import refused

BOOLEAN = (2, 2, 2, 2)
# Two causes (the second of three states) and a leak; states of the effect upwards are 2, 0, 1.
MAX_CAUSES = np.array([[a, b == 1, b == 2, 1] for a, b in product((0, 1), (0, 1, 2))], dtype=float)


def models():
    rng = np.random.default_rng(0)
    design = np.hstack([np.ones((6, 1)), rng.normal(size=(6, 2))])
    return {
        "table": FreeTable(np.zeros((2, 3, 3))),
        "table, Dirichlet": FreeTable(np.zeros((2, 3, 3)), 1 + rng.gamma(1.0, size=(2, 3, 3))),
        "table, some rows known": FreeTable(
            np.tile([0.2, 0.3, 0.5], (2, 2, 1)), 1.5, np.array([[True, False], [True, True]])
        ),
        "noisy-OR": NoisyOr.of(BOOLEAN, leak=True),
        "noisy-OR, Beta": NoisyOr.of(BOOLEAN, leak=True, prior=np.array([[2.0, 1, 3, 1.5], [3.0, 1, 1.5, 4]])),
        "noisy-OR, one strength known, turned round": NoisyOr(
            (2, 2, 2), np.array([[0.0], [0], [1], [1]]), present=0, fixed=np.array([0.7, 0.2, 0.7, 0.2])
        ),
        "noisy-MAX": NoisyMax((2, 3, 3), MAX_CAUSES, np.array([2, 0, 1])),
        "noisy-MAX, Dirichlet, one effect known": NoisyMax(
            (2, 3, 3), MAX_CAUSES, np.array([2, 0, 1]), 1.5, np.array([[np.nan] * 3] * 3 + [[0.8, 0.1, 0.1]])
        ),
        "logistic": Softmax((2, 3, 2), design),
        "softmax": Softmax((2, 3, 3), design, reference=1),
        "softmax, normal prior, one weight known": Softmax(
            (2, 3, 3), design, prior=(0.5, 2.0), known=np.array([[np.nan, np.nan, 0.3], [np.nan] * 3])
        ),
    }


@pytest.fixture(params=list(models()))
def model(request):
    return models()[request.param]


def counts_for(model, rng, n=20.0):
    return rng.gamma(n, size=model.table(model.start(rng)).shape)


def objective(model, theta, counts):
    return float(xlogy(counts, model.table(theta)).sum()) + model.log_prior(theta)


def test_tables_are_conditional_distributions(model):
    rng = np.random.default_rng(1)
    table = model.table(model.start(rng))
    assert (table >= 0).all()
    np.testing.assert_allclose(table.sum(axis=-1), 1.0)


def test_coordinates_invert(model):
    theta = model.start(np.random.default_rng(2))
    np.testing.assert_allclose(model.unflatten(model.flatten(theta)), theta, rtol=1e-10)


def test_gradient_is_that_of_finite_differences(model):
    rng = np.random.default_rng(3)
    counts, theta = counts_for(model, rng), model.start(rng)
    x, h = model.flatten(theta), 1e-5
    for i, found in enumerate(model.gradient(theta, counts)):
        sides = [objective(model, model.unflatten(x + s * h * np.eye(x.size)[i]), counts) for s in (1, -1)]
        assert found == pytest.approx((sides[0] - sides[1]) / (2 * h), rel=1e-5, abs=1e-4)


def test_the_best_fit_is_that_of_a_general_optimiser(model):
    rng = np.random.default_rng(4)
    counts, theta = counts_for(model, rng), model.start(rng)
    found = model.fit(counts, theta)
    searched = minimize(
        lambda x: -objective(model, model.unflatten(x), counts),
        model.flatten(theta),
        jac=lambda x: -model.gradient(model.unflatten(x), counts),
        method="BFGS",
        options={"gtol": 1e-9},
    )
    assert objective(model, found, counts) > -searched.fun - 1e-6
    if isinstance(model, NoisyMax):  # not concave: the optimiser may end lower
        np.testing.assert_allclose(model.gradient(found, counts), 0, atol=1e-3)
        return
    assert objective(model, found, counts) == pytest.approx(-searched.fun, abs=1e-5)
    np.testing.assert_allclose(model.table(found), model.table(model.unflatten(searched.x)), atol=1e-4)


def test_a_fit_is_never_worse_than_its_start(model):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        theta, counts = model.start(rng), counts_for(model, rng, 0.3)
        assert objective(model, model.fit(counts, theta), counts) >= objective(model, theta, counts) - 1e-9


def test_log_priors_are_the_densities():
    rng = np.random.default_rng(5)
    alpha = 1 + rng.gamma(1.0, size=(4, 3))
    table = FreeTable(np.zeros((4, 3)), alpha)
    theta = table.start(rng)
    assert table.log_prior(theta) == pytest.approx(
        sum(dirichlet(a).logpdf(row) for a, row in zip(alpha, theta, strict=True))
    )
    pair = np.array([[2.0, 3, 1.5], [1.0, 4, 2]])
    strengths = rng.uniform(size=3)
    assert NoisyOr.of((2, 2, 2), leak=True, prior=pair).log_prior(strengths) == pytest.approx(
        beta(*pair).logpdf(strengths).sum()
    )
    weights = rng.normal(size=(1, 2))
    own = Softmax((2, 2), np.eye(2), prior=(1.0, np.array([2.0, 3.0])))
    assert own.log_prior(weights) == pytest.approx(norm(1.0, [2.0, 3.0]).logpdf(weights).sum())


def test_priors_without_a_mode_are_refused():
    with refused("model.no-mode"):
        FreeTable(np.zeros((2, 2)), 0.5)
    with refused("model.no-mode"):
        NoisyOr.of((2, 2), leak=True, prior=np.array([[0.5, 1], [1, 1]]))


# Noisy-OR


def test_noisy_or_of_the_wet_grass():
    """Inhibition 0.1 for rain and for the sprinkler: one cause 0.9, both 0.99."""
    table = NoisyOr.of((2, 2, 2), leak=False).table(np.array([0.9, 0.9]))
    np.testing.assert_allclose(table[..., 1], [[0, 0.9], [0.9, 0.99]], rtol=1e-14)


def test_ml_noisy_or_recovers_planted_strengths():
    """20,000 complete rows; the sd of a strength follows from the curvature of the fit."""
    rng = np.random.default_rng(6)
    model = NoisyOr.of((2, 2, 2, 2, 2), leak=True)
    planted = np.array([0.9, 0.5, 0.2, 0.7, 0.1])
    rows = model.table(planted).reshape(-1, 2)
    n = rng.multinomial(20_000, np.full(16, 1 / 16))
    counts = np.stack([n - (present := rng.binomial(n, rows[:, 1])), present], axis=1).reshape(model.shape)
    found = model.fit(counts, model.start(rng))
    h = 1e-4
    slopes = [(model.slope(found + h * e, counts) - model.slope(found - h * e, counts)) / (2 * h) for e in np.eye(5)]
    sd = np.sqrt(np.diag(np.linalg.inv(-np.array(slopes))))
    assert (np.abs(found - planted) < 4 * sd).all() and sd.max() < 0.05
    np.testing.assert_allclose(model.slope(found, counts), 0, atol=1e-4)


def test_ml_noisy_or_gradient_is_that_of_finite_differences():
    """Exercise 20.7: the derivative of the log likelihood in each strength, from complete rows."""
    rng = np.random.default_rng(7)
    model = NoisyOr.of(BOOLEAN, leak=True)
    counts, theta, h = rng.integers(0, 30, BOOLEAN).astype(float), rng.uniform(0.2, 0.8, 4), 1e-6
    for i, found in enumerate(model.slope(theta, counts)):
        up, down = (xlogy(counts, model.table(theta + s * h * np.eye(4)[i])).sum() for s in (1, -1))
        assert found == pytest.approx((up - down) / (2 * h), rel=1e-6)


def test_noisy_or_has_as_many_parameters_as_parents():
    """k parents: k strengths instead of 2^k rows."""
    for k in (1, 3, 6):
        shape = (2,) * (k + 1)
        assert NoisyOr.of(shape, leak=False).start(np.random.default_rng(0)).size == k
        assert FreeTable(np.zeros(shape)).base.size // 2 == 2**k


def test_noisy_or_at_the_boundary():
    """A cause that never fails has strength 1; one that never works, 0."""
    model = NoisyOr.of((2, 2, 2), leak=True)
    counts = np.array([[[50.0, 50], [50, 50]], [[0, 80], [0, 90]]])
    found = model.fit(counts, np.array([0.5, 0.5, 0.5]))
    np.testing.assert_allclose(found, [1.0, 0.0, 0.5], atol=1e-6)


def test_noisy_max_of_two_states_is_noisy_or():
    rng = np.random.default_rng(8)
    other = NoisyOr.of(BOOLEAN, leak=True)
    own = NoisyMax(BOOLEAN, other.causes, np.array([0, 1]))
    strengths = rng.uniform(size=4)
    np.testing.assert_allclose(
        own.table(np.stack([1 - strengths, strengths], axis=1)), other.table(strengths), atol=1e-14
    )


def test_noisy_max_is_the_distribution_of_the_largest_effect():
    """Every combination of effects written out."""
    rng = np.random.default_rng(9)
    model = NoisyMax((2, 3, 3), MAX_CAUSES, np.array([2, 0, 1]))
    theta = model.start(rng)
    for row, there in zip(model.table(theta).reshape(-1, 3), MAX_CAUSES, strict=True):
        want = np.zeros(3)
        for effects in product(range(3), repeat=4):
            acting = [e if c else 0 for e, c in zip(effects, there, strict=True)]
            want[model.order[max(acting)]] += np.prod([theta[i, e] for i, e in enumerate(effects)])
        np.testing.assert_allclose(row, want, atol=1e-14)


# Sigmoid and softmax


def test_ml_prob_gradient_is_error_times_input():
    """d/dw sum d ln h + (1 - d) ln(1 - h) = sum (d - h) x for a sigmoid h."""
    rng = np.random.default_rng(10)
    x, w = rng.normal(size=(8, 3)), rng.normal(size=(1, 3))
    d = rng.integers(0, 2, 8)
    model, counts = Softmax((8, 2), x), np.eye(2)[d]
    np.testing.assert_allclose(model.gradient(w, counts), (d - expit(x @ w[0])) @ x, rtol=1e-12)
    h = 1e-6
    for i in range(3):
        sides = [
            (d * np.log(expit(x @ v)) + (1 - d) * np.log(expit(-x @ v))).sum()
            for v in (w[0] + h * np.eye(3)[i], w[0] - h * np.eye(3)[i])
        ]
        assert model.gradient(w, counts)[i] == pytest.approx((sides[0] - sides[1]) / (2 * h), rel=1e-6)


def test_ml_probabilities_of_a_tabular_hypothesis_are_the_frequencies():
    """argmax of G(h, D) over tables; a sigmoid with one weight a row does the same."""
    counts = np.array([[3.0, 7], [9, 1], [4, 4]])
    want = counts / counts.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(FreeTable(np.zeros((3, 2))).fit(counts, np.full((3, 2), 0.5)), want)
    sigmoid = Softmax((3, 2), np.eye(3))
    np.testing.assert_allclose(sigmoid.table(sigmoid.fit(counts, np.zeros((1, 3)))), want, rtol=1e-8)


@pytest.mark.parametrize("slug", ["sigmoid_cpd", "softmax_cpd"])
def test_weights_recover_planted_values(slug):
    rng = np.random.default_rng(11)
    n_states = 2 if slug == "sigmoid_cpd" else 4
    design = np.hstack([np.ones((8, 1)), np.array(list(product((0.0, 1.0), repeat=3)))])
    model = Softmax((2, 2, 2, n_states), design)
    planted = rng.normal(size=(n_states - 1, 4))
    rows = model.table(planted).reshape(8, n_states)
    counts = np.stack([rng.multinomial(4000, p) for p in rows]).astype(float)
    found = model.fit(counts, np.zeros_like(planted))
    np.testing.assert_allclose(model.gradient(found, counts), 0, atol=1e-6)
    h, size = 1e-4, planted.size
    slopes = [
        (model.gradient(found + h * e.reshape(planted.shape), counts)
         - model.gradient(found - h * e.reshape(planted.shape), counts)) / (2 * h)
        for e in np.eye(size)
    ]  # fmt: skip
    sd = np.sqrt(np.diag(np.linalg.inv(-np.array(slopes)))).reshape(planted.shape)
    assert (np.abs(found - planted) < 4 * sd).all() and sd.max() < 0.15


def test_separable_data_end_with_a_finite_perfect_fit():
    model = Softmax((2, 2), np.array([[1.0, 0], [1, 1]]))
    found = model.fit(np.array([[50.0, 0], [0, 50]]), np.zeros((1, 2)))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(model.table(found), np.eye(2), atol=1e-4)
