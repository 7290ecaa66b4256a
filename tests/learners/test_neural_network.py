"""Feed-forward nets: gradients by finite differences, small nets by hand, pruning, and what the sources state."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_diabetes

import bayeslab as bl
from bayeslab.learners.neural_network import (
    NeuralNetworkClassifier,
    NeuralNetworkRegressor,
    contributions,
    saliency,
)
from bayeslab.learners.toolbox.layers import Layers, curvature, forward, gradient, loss, n_weights
from bayeslab.learners.toolbox.layers_kernels import adam, add_penalty, momentum
from bayeslab.theory.pac import weights_rule_of_thumb
from tests.learners.restaurant import rows as twelve
from tests.learners.restaurant import sample
from tests.refusals import refused

BITS = np.array(list(itertools.product([0.0, 1.0], repeat=2)))


def test_unit():
    """unit (M17): and, or, not by one threshold; a bias input of -1 has the weight of the other sign."""
    for weights, bias, table in (
        ([1, 1], -1.5, [0, 0, 0, 1]),
        ([1, 1], -0.5, [0, 1, 1, 1]),
        ([-1, 0], 0.5, [1, 1, 0, 0]),
    ):
        net = Layers.of([(np.array(weights)[:, None], [bias])], "threshold", "threshold")
        np.testing.assert_array_equal(forward(net, BITS)[-1][:, 0], table)
        other = np.column_stack([-np.ones(4), BITS]) @ np.array([-bias, *weights])
        np.testing.assert_array_equal(other >= 0, table)


def test_structure():
    """nn-structure: two inputs, two hidden units, one output, evaluated by hand."""
    net = Layers.of([([[0.1, -0.2], [0.3, 0.4]], [0.5, -0.6]), ([[0.7], [0.8]], [-0.9])], "logistic", "sigmoid")
    a3, a4 = expit(0.1 * 1 + 0.3 * 2 + 0.5), expit(-0.2 * 1 + 0.4 * 2 - 0.6)
    by_hand = expit(0.7 * a3 + 0.8 * a4 - 0.9)
    np.testing.assert_allclose(forward(net, np.array([[1.0, 2.0]]))[-1], [[by_hand]])


def test_linear_collapse():
    """nn-linear-collapse: linear units of any depth are one layer, the product of the matrices."""
    rng = np.random.default_rng(0)
    for depth in (1, 3, 6):
        net = Layers.random((4,) * depth + (2,), "identity", "identity", rng)
        x = rng.normal(size=(5, 4))
        product = np.linalg.multi_dot([np.eye(4), np.eye(4), *(w for w, _ in net.weights)])
        np.testing.assert_allclose(forward(net, x)[-1], x @ product, atol=1e-12)


def test_xor_net():
    """xor-net: (x1 or x2) and not (x1 and x2)."""
    net = Layers.of([([[1, 1], [1, 1]], [-0.5, -1.5]), ([[1], [-1]], [-0.5])], "threshold", "threshold")
    np.testing.assert_array_equal(forward(net, BITS)[-1][:, 0], [0, 1, 1, 0])
    with pytest.raises(ValueError, match="threshold has no slope"):
        gradient(net, BITS, np.zeros((4, 1)))


@pytest.mark.parametrize("activation", ["tanh", "relu", "logistic", "identity"])
@pytest.mark.parametrize(
    ("output", "kind"),
    [("softmax", "log"), ("softmax", "squared"), ("sigmoid", "log"), ("sigmoid", "squared"), ("identity", "squared")],
)
def test_backprop(activation, output, kind):
    """backprop (M4, M5): the gradient is that of finite differences."""
    rng = np.random.default_rng(1)
    net = Layers.random((3, 5, 4, 3), activation, output, rng)
    net.values[:] += 0.1 * rng.normal(size=len(net.values))
    x, weights = rng.normal(size=(7, 3)), rng.uniform(0.5, 2, 7)
    t = rng.dirichlet(np.ones(3), 7)
    found = gradient(net, x, t, kind, weights)[1]
    by_differences = np.empty_like(found)
    for i in range(len(found)):
        sides = []
        for h in (1e-6, -1e-6):
            moved = Layers(net.sizes, net.activation, net.output, net.values.copy())
            moved.values[i] += h
            sides.append(loss(moved, x, t, kind, weights))
        by_differences[i] = (sides[0] - sides[1]) / 2e-6
    np.testing.assert_allclose(found, by_differences, atol=1e-8)


def test_deltas_by_hand():
    """backprop: the rule of the source, one example, written out unit by unit."""
    rng = np.random.default_rng(2)
    net = Layers.random((3, 4, 2), "logistic", "sigmoid", rng)
    (w1, b1), (w2, b2) = net.weights
    x, y = rng.normal(size=3), np.array([1.0, 0.0])
    hidden = expit(x @ w1 + b1)
    out = expit(hidden @ w2 + b2)
    delta_out = out * (1 - out) * (out - y)
    delta_hidden = [hidden[j] * (1 - hidden[j]) * sum(w2[j, k] * delta_out[k] for k in range(2)) for j in range(4)]
    expected = [np.outer(x, delta_hidden), delta_hidden, np.outer(hidden, delta_out), delta_out]
    found = gradient(net, x[None], y[None], "squared")[1]
    np.testing.assert_allclose(found, np.concatenate([np.ravel(e) for e in expected]))


def test_vector_output():
    """backprop-vector-output: the gradient of the summed loss is the sum of the gradients of each output."""
    rng = np.random.default_rng(3)
    net = Layers.random((3, 4, 2), "tanh", "identity", rng)
    x, t = rng.normal(size=(6, 3)), rng.normal(size=(6, 2))
    out = forward(net, x)[-1]
    whole = gradient(net, x, t, "squared")[1]
    parts = [gradient(net, x, np.where(np.arange(2) == k, t, out), "squared")[1] for k in range(2)]
    np.testing.assert_allclose(whole, sum(parts), atol=1e-12)


def test_ridge_and_bump():
    """ridge-bump: two facing sigmoids make a ridge, four a bump that is closed."""
    ridge = Layers.of(
        [([[100.0, -100.0], [0.0, 0.0]], [200.0, 200.0]), ([[1.0], [1.0]], [-1.5])], "logistic", "threshold"
    )
    side = np.linspace(-5, 5, 40)
    grid = np.array(list(itertools.product(side, side)))
    high = forward(ridge, grid)[-1][:, 0] > 0
    np.testing.assert_array_equal(high, np.abs(grid[:, 0]) < 2)
    first = [[100.0, -100.0, 0.0, 0.0], [0.0, 0.0, 100.0, -100.0]]
    bump = Layers.of([(first, [200.0] * 4), ([[1.0]] * 4, [-3.5])], "logistic", "threshold")
    high = forward(bump, grid)[-1][:, 0] > 0
    np.testing.assert_array_equal(high, np.abs(grid).max(axis=1) < 2)


def test_universal_approximation():
    """universal-approx: the greatest error on a smooth function falls as hidden units grow."""
    x = np.linspace(-1, 1, 100)[:, None]
    y = np.sin(6 * x[:, 0])
    worst = []
    for n in (1, 3, 30):
        net = NeuralNetworkRegressor(
            (n,), activation="tanh", max_iter=1500, learning_rate_init=0.03, batch_size=200, alpha=0, tol=0,
            n_iter_no_change=2000, random_state=0,
        )  # fmt: skip
        worst.append(np.abs(net.fit(x, y).predict(x) - y).max())
    assert worst[0] > 2 * worst[1] > 2 * worst[2]
    assert worst[2] < 0.2


def indicators(table: np.ndarray) -> np.ndarray:
    """The ten inputs of the textbook's net: one number each."""
    return (table - table.mean(axis=0)) / np.maximum(table.std(axis=0), 1e-9)


@pytest.mark.slow(why="statistical")
def test_restaurant():
    """nn-restaurant: ten inputs, four hidden units, one hundred examples are fitted without an error left."""
    reached = []
    for seed in range(4):
        x, y = sample(np.random.default_rng(5), 100)
        net = NeuralNetworkClassifier(
            (4,), activation="tanh", loss="squared", max_iter=3000, learning_rate_init=0.03, batch_size=20, alpha=0,
            tol=0, n_iter_no_change=3000, random_state=seed,
        ).fit(indicators(x), y)  # fmt: skip
        reached.append(min(net.loss_curve_))
        assert net.network_.sizes == (10, 4, 1)
        if reached[-1] < 1e-3:
            break
    assert min(reached) < 1e-3


@pytest.mark.slow(why="statistical")
def test_hidden_units_by_cross_validation():
    """nn-hidden-cv: the curve of errors left out over hidden units; the choice is inside, and comes again with the seed."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 2))
    y = (x[:, 0] * x[:, 1] > 0).astype(int)
    table = {"a": x[:, 0], "b": x[:, 1], "y": [f"c{v}" for v in y]}
    given = {
        "family": "learner", "learner": "neural_network", "target": "y", "activation": "tanh", "max_iter": 150,
        "learning_rate_init": 0.03,
    }  # fmt: skip
    sizes = [[1], [2], [8]]
    curve = bl.validation_curve(bl.Model(model=given), "hidden_layer_sizes", sizes, table, folds=3, progress=False)
    errors = 1 - curve.table("accuracy")["left_out"].to_numpy()
    assert errors[0] > errors[2] + 0.1
    assert curve.best("accuracy") == sizes[int(errors.argmin())]
    model = bl.Model(
        model={**given, "tune": {"hidden_layer_sizes": [[1], [8]]}, "tune_folds": 3}, inference={"folds": 0}
    )
    chosen = [bl.fit(model, table, seed=s, runs=None) for s in (1, 1)]
    assert [fit.learner.chosen for fit in chosen] == [{"hidden_layer_sizes": [8]}] * 2
    shares = [fit.predict({"a": [2.0, 2.0], "b": [2.0, -2.0]}) for fit in chosen]
    np.testing.assert_array_equal(np.asarray(shares[0]), np.asarray(shares[1]))


def test_repeated_example():
    """nn-repeated-example (F25): of 100 copies 80 are ones; 0.8 is best, with squared 8.0 and log loss 50.040242."""
    x, y = np.ones((100, 1)), np.repeat([1, 0], [80, 20])
    for kind, least in (("squared", 8.0), ("log", 50.040242)):
        net = NeuralNetworkClassifier(
            (3,), activation="tanh", loss=kind, max_iter=800, batch_size=100, learning_rate_init=0.05, alpha=0, tol=0,
            n_iter_no_change=800, random_state=0,
        ).fit(x, y)  # fmt: skip
        assert net.predict_proba([[1.0]])[0, 1] == pytest.approx(0.8, abs=1e-4)
        assert 100 * loss(net.network_, x, y[:, None].astype(float), kind) == pytest.approx(least, abs=1e-4)


def test_small_weights_are_linear():
    """nn-small-weights: the output of a net with small weights is that of its linearisation."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(50, 3))
    off = []
    for scale in (1.0, 0.1, 0.01):
        net = Layers.random((3, 6, 1), "tanh", "identity", rng)
        net.values[:] *= scale
        (w1, b1), (w2, b2) = net.weights
        linear = x @ (w1 @ w2) + (b1 @ w2 + b2)
        off.append(np.abs(forward(net, x)[-1] - linear).max() / np.abs(linear).max())
    assert off[0] > 0.01
    assert off[1] < 0.1
    assert off[2] < 0.002


def test_curvature():
    """obd: with one layer the second derivatives are exact; deeper they are those of squared slopes."""
    rng = np.random.default_rng(5)
    x, t = rng.normal(size=(20, 3)), rng.integers(0, 2, (20, 1)).astype(float)
    net = Layers.random((3, 1), "tanh", "sigmoid", rng)
    p = forward(net, x)[-1][:, 0]
    hessian = (p * (1 - p)) @ np.column_stack([x**2, np.ones(20)]) / 20
    np.testing.assert_allclose(curvature(net, x, t), hessian)
    np.testing.assert_allclose(saliency(net, x, t), 0.5 * hessian * net.values**2)
    # Where the net fits and has one output, squared first derivatives of the output are all there is.
    deep = Layers.random((3, 4, 1), "tanh", "identity", rng)
    fitted = forward(deep, x)[-1]
    by_rows = np.array([gradient(deep, x[i : i + 1], fitted[i : i + 1] - 1, "squared")[1] for i in range(20)])
    np.testing.assert_allclose(curvature(deep, x, fitted, "squared"), (by_rows**2).mean(axis=0))


def test_optimal_brain_damage():
    """obd: weights from planted irrelevant inputs are pruned first; the score stays."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(400, 6))
    y = (x[:, 0] - x[:, 1] > 0).astype(int)
    options = {
        "hidden_layer_sizes": (6,),
        "activation": "tanh",
        "max_iter": 100,
        "learning_rate_init": 0.02,
        "random_state": 0,
    }
    whole = NeuralNetworkClassifier(**options).fit(x, y)
    cut = NeuralNetworkClassifier(prune="weights", validation_fraction=0.2, **options).fit(x, y)
    into = cut.network_.split(cut.mask_.astype(float))[0][0]
    assert into[2:].sum() < into[:2].sum()
    assert into[2:].mean() < 0.2
    assert cut.mask_.sum() < 0.6 * len(cut.mask_)
    assert np.all(cut.network_.values[~cut.mask_] == 0)
    new = rng.normal(size=(2000, 6))
    truth = (new[:, 0] - new[:, 1] > 0).astype(int)
    assert cut.score(new, truth) > whole.score(new, truth) - 0.02


def test_unit_pruning():
    """unit-pruning: without the units that contribute least the score on other rows stays."""
    x, y = load_breast_cancer(return_X_y=True)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    options = {
        "hidden_layer_sizes": (20,),
        "activation": "tanh",
        "max_iter": 40,
        "learning_rate_init": 0.01,
        "random_state": 1,
    }
    whole = NeuralNetworkClassifier(**options).fit(x[::2], y[::2])
    cut = NeuralNetworkClassifier(prune="units", validation_fraction=0.2, **options).fit(x[::2], y[::2])
    alive = cut.coefs_[0].any(axis=0).sum()
    assert alive < 15
    assert cut.score(x[1::2], y[1::2]) > whole.score(x[1::2], y[1::2]) - 0.02
    least = contributions(whole.network_, x[::2])[0].argmin()
    values = whole.network_.values.copy()
    slim = Layers(whole.network_.sizes, "tanh", "sigmoid", values)
    slim.weights[1][0][least] = 0
    before, after = forward(whole.network_, x)[-1], forward(slim, x)[-1]
    assert np.mean((before > 0.5) == (after > 0.5)) > 0.98


def test_sizes():
    """nn-digits (F25), lenet, sample-complexity-nn (F34): weights of 400-300-10; W log W and 10 W examples."""
    assert n_weights((400, 300, 10), output_bias=False) == 123_300
    assert n_weights((400, 300, 10)) == 123_310
    assert n_weights((400, 300, 10), False, False) == 123_000
    net = NeuralNetworkClassifier((300,), max_iter=1).fit(
        np.random.default_rng(0).random((20, 400)), np.arange(20) % 10
    )
    assert sum(w.size for w in net.coefs_) + net.intercepts_[0].size == 123_300
    w_log_w, ten = weights_rule_of_thumb(123_300)
    assert w_log_w == pytest.approx(123_300 * np.log(123_300))
    assert ten == 1_233_000


def test_steps_against_plain_twins():
    """Adam, momentum and the penalty, written out over vectors."""
    rng = np.random.default_rng(7)
    values, twin = rng.normal(size=(2, 9))
    twin[:] = values
    first, second, m, v = np.zeros((4, 9))
    for t in range(1, 6):
        g = rng.normal(size=9)
        adam(values, g, first, second, 0.1, t)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        twin -= 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8 / np.sqrt(1 - 0.999**t))
    np.testing.assert_allclose(values, twin, rtol=1e-9)
    velocity, speed = np.zeros(9), np.zeros(9)
    for _ in range(3):
        g = rng.normal(size=9)
        momentum(values, g, velocity, 0.1, 0.5)
        speed = 0.5 * speed - 0.1 * g
        twin += speed
    np.testing.assert_allclose(values, twin, rtol=1e-9)
    g, strength = rng.normal(size=9), rng.random(9)
    expected = g + strength * values
    add_penalty(g, values, strength)
    np.testing.assert_allclose(g, expected)


@pytest.mark.parametrize(
    "steps",
    [
        {"solver": "adam", "batch_size": 32},
        {"solver": "sgd", "batch_size": 1, "momentum": 0.0, "learning_rate_init": 0.02},
        {"solver": "sgd", "batch_size": 10**6, "learning_rate_init": 0.3},
    ],
)
def test_descents(steps):
    """Small batches, row by row, and all rows at once arrive; deep nets too."""
    x, y = load_breast_cancer(return_X_y=True)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    net = NeuralNetworkClassifier((8, 5), activation="tanh", max_iter=30, random_state=0, **steps).fit(x[::2], y[::2])
    assert net.loss_curve_[-1] < 0.5 * net.loss_curve_[0]
    assert net.score(x[1::2], y[1::2]) > 0.94


def test_early_stopping():
    """The weights kept are those best on the rows held out."""
    x, y = load_diabetes(return_X_y=True)
    x = x / x.std(axis=0)
    net = NeuralNetworkRegressor(
        (60,), max_iter=200, learning_rate_init=0.02, early_stopping=True, validation_fraction=0.3, random_state=0
    ).fit(x, y)
    curve = net.validation_curve_
    assert len(curve) < 200
    assert np.argmin(curve) < len(curve) - 5
    long = NeuralNetworkRegressor((60,), max_iter=200, learning_rate_init=0.02, tol=0, random_state=0).fit(x, y)
    assert long.score(x, y) > net.score(x, y) > 0.3


def test_outputs():
    """Sigmoids of several classes, each on its own, are shown as shares; classes may be words."""
    x, y = twelve()
    net = NeuralNetworkClassifier((5,), max_iter=100, learning_rate_init=0.05, random_state=0).fit(x, y)
    assert set(net.predict(x)) <= {"N", "Y"}
    three = NeuralNetworkClassifier((5,), output="sigmoid", max_iter=50, random_state=0).fit(x, np.arange(12) % 3)
    np.testing.assert_allclose(three.predict_proba(x).sum(axis=1), 1)
    assert three.network_.output == "sigmoid"


def test_errors():
    x = np.zeros((4, 2))
    with pytest.raises(ValueError, match="one class"):
        NeuralNetworkClassifier().fit(x, np.ones(4))
    with refused("option.unknown-word", "'activation'.*'step'", kind=ValueError):
        NeuralNetworkClassifier(activation="step").fit(x, [0, 1, 0, 1])
    with refused("option.out-of-range", "'hidden_layer_sizes'", kind=ValueError):
        NeuralNetworkClassifier((0,)).fit(x, [0, 1, 0, 1])
    with pytest.raises(ValueError, match="squared"):
        NeuralNetworkRegressor(loss="log").fit(x, np.arange(4.0))
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="diverged"):
        NeuralNetworkRegressor((5,), solver="sgd", learning_rate_init=1e6, activation="identity").fit(
            np.arange(10.0)[:, None], np.arange(10.0)
        )
