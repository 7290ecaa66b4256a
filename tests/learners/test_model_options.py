"""What a model file can ask of linear learners, trees, kernel machines and nets: each is fitted, and learns."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_digits, load_iris

import bayeslab as bl
from tests.learners.restaurant import NAMES, sample


def irises():
    x, y = load_iris(return_X_y=True)
    kept = np.random.default_rng(0).permutation(np.flatnonzero(y < 2))[:60]
    # Two kinds that the first two columns tell apart, but for noise.
    return {"length": x[kept, 0], "width": x[kept, 1], "kind": np.array(["setosa", "versicolor"])[y[kept]].tolist()}


def diabetes():
    x, y = load_diabetes(return_X_y=True)
    return {f"x{j}": x[:120, j] for j in (2, 3, 8)} | {"y": y[:120]}


def restaurant():
    x, y = sample(np.random.default_rng(1), 120)
    return {name: np.char.add("v", x[:, j].astype(int).astype(str)).tolist() for j, name in enumerate(NAMES)} | {
        "wait": y.tolist()
    }


def digits():
    x, y = load_digits(return_X_y=True)
    at = np.flatnonzero(y < 3)[:100]
    return {f"p{j}": x[at, j] / 16 for j in range(64)} | {"digit": np.char.add("d", y[at].astype(str)).tolist()}


CASES = {
    "kind": (irises, [
        {"learner": "perceptron", "rate": 0.5},
        {"learner": "perceptron", "decay": 1000, "use": "pocket"},
        {"learner": "perceptron", "use": "voted", "max_iter": 20},
        {"learner": "kernel_perceptron", "kernel": "poly", "degree": 2},
        {"learner": "logistic"},
        {"learner": "logistic", "solver": "batch", "loss": "squared", "max_iter": 300},
        {"learner": "logistic", "solver": "stochastic", "decay": 500, "max_iter": 50},
        {"learner": "svm", "kernel": "linear", "C": 100},
        {"learner": "svm", "kernel": "laplacian"},
        {"learner": "multiple_kernel", "kernels": ["linear", "rbf"], "gammas": [0.5]},
        {"learner": "neural_network", "hidden_layer_sizes": [5, 4], "activation": "logistic", "solver": "sgd",
         "batch_size": 1, "max_iter": 60, "learning_rate_init": 0.1},
        {"learner": "neural_network", "hidden_layer_sizes": [12], "activation": "tanh", "prune": "weights",
         "max_iter": 60, "learning_rate_init": 0.02, "validation_fraction": 0.3},
        {"learner": "neural_network", "hidden_layer_sizes": [12], "prune": "units", "max_iter": 60,
         "learning_rate_init": 0.02, "validation_fraction": 0.3},
        {"learner": "tiling", "max_iter": 50},
        {"learner": "rbf_network", "centres": "mixture", "n_centres": 4},
    ]),
    "y": (diabetes, [
        {"learner": "linear", "solver": "batch"},
        {"learner": "linear", "solver": "stochastic", "decay": 500, "max_iter": 200},
        {"learner": "linear", "penalty": "ridge", "alpha": 3.0},
        {"learner": "linear", "penalty": "lasso", "tune": {"alpha": [0.1, 1.0, 10.0]}},
        {"learner": "regression_tree", "leaves": "linear", "min_rows": 30},
        {"learner": "svm", "kernel": "rbf", "C": 1.0},
        {"learner": "recursive_least_squares"},
    ]),
    "wait": (restaurant, [
        {"learner": "decision_tree", "criterion": "gain_ratio", "significance": None},
        {"learner": "decision_tree", "pruning": "bits"},
        {"learner": "decision_tree", "max_nodes": 12, "equality": True},
        {"learner": "decision_list", "k": 2},
        {"learner": "version_space", "noise": 0.2, "inputs": ["Pat", "Hun", "Est", "Fri"]},
    ]),
    "digit": (digits, [
        {"learner": "convolutional", "max_iter": 6, "shift": 1, "angle": 5, "scale": 0.05, "learning_rate_init": 0.01},
        {"learner": "virtual_svm", "kernel": "local", "rotation": 5},
        {"learner": "shape_context", "n_points": 25, "n_iter": 1, "n_candidates": 6},
    ]),
}  # fmt: skip


@pytest.mark.slow(why="large")
@pytest.mark.parametrize(
    ("target", "options"),
    [(target, one) for target, (_, several) in CASES.items() for one in several],
    ids=lambda v: v if isinstance(v, str) else "-".join(str(x) for x in v.values() if isinstance(x, str)),
)
def test_learns(target, options):
    table = CASES[target][0]()
    model = bl.Model(model={"family": "learner", "target": target, **options}, inference={"folds": 3})
    fit = bl.fit(model, table, runs=None, progress=False, seed=1)
    score = fit.data_tree["cross_validation"]["score"]
    if target == "y":
        assert float(score.sel(measure="r2")) > 0.2
    else:
        common = max(np.unique(table[target], return_counts=True)[1]) / len(table[target])
        assert float(score.sel(measure="accuracy")) > common + 0.1


def test_weak_trees_in_small_units():
    """A boosted tree sees a column of small numbers; of a pipeline the weights reach the tree."""
    table = irises()
    small = table | {"length": 1e-9 * table["length"], "width": 1e-9 * table["width"]}
    given = {
        "family": "learner",
        "learner": "adaboost",
        "target": "kind",
        "weak": "tree",
        "n_estimators": 5,
        "max_depth": 1,
    }
    model = bl.Model(model=given, inference={"folds": 0})
    fits = [bl.fit(model, t, runs=None, progress=False, seed=1) for t in (table, small)]
    said = [fit.predict(t)["P(kind=setosa)"] for fit, t in zip(fits, (table, small), strict=True)]
    np.testing.assert_allclose(said[1], said[0], atol=1e-9)
    assert not fits[0].learner.learner.resample
    assert fits[0].learner.learner.errors_[0] > 0


@pytest.mark.parametrize(
    "options",
    [
        {"learner": "boosted_regression", "n_estimators": 20},
        {"learner": "regression_tree"},
        {"learner": "svm"},
    ],
    ids=lambda v: v["learner"],
)
def test_units_do_not_matter(options):
    """Columns in other units and from another origin give the same predictions; trees of scikit-learn alone do not."""
    table = diabetes()
    moved = table | {"x2": 1e-6 * table["x2"], "x3": 1e6 * table["x3"], "x8": table["x8"] + 5000}
    model = bl.Model(model={"family": "learner", "target": "y", **options}, inference={"folds": 0})
    said = [bl.fit(model, t, runs=None, progress=False, seed=1).predict(t)["mean"] for t in (table, moved)]
    np.testing.assert_allclose(said[1], said[0], rtol=1e-3)
