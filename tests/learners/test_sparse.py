"""Sparse rows: the answers are those of the same rows as an array; learners that need all cells refuse them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier

from bayeslab.learners.decision_tree import MultiwayTree
from bayeslab.learners.knn import KNNClassifier, KNNRegressor
from bayeslab.learners.linear import GradientLinear
from bayeslab.learners.logistic import GradientLogistic
from bayeslab.learners.perceptron import Perceptron
from bayeslab.learners.svm import SVMClassifier, SVMRegressor

LEARNERS = [
    GradientLinear(max_iter=50), GradientLinear("stochastic", ridge=3.0, decay=50.0, max_iter=5, random_state=0),
    GradientLogistic(max_iter=50), GradientLogistic("squared", "stochastic", C=0.1, max_iter=5, random_state=0),
    GradientLogistic(solver="stochastic", C=0.01, max_iter=3, random_state=0),
    *(Perceptron(use=use, max_iter=5, random_state=0) for use in ("last", "pocket", "averaged", "voted")),
    KNNClassifier(3), KNNClassifier(3, p=1),
    KNNClassifier("leave_one_out", metric="kernel"), KNNRegressor(3, "distance"), KNNRegressor(3, combine="median"),
    SVMClassifier(), SVMClassifier(kernel="linear"), SVMClassifier(kernel="laplacian"), SVMRegressor(kernel="poly"),
]  # fmt: skip


@pytest.fixture
def data():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(80, 5)) * (rng.random((80, 5)) < 0.4)
    x[:, 0] += 0.01 * rng.normal(size=80)  # no two rows are the same, and tied as neighbours
    score = x @ [1.0, -2.0, 0.5, 1.0, 3.0] + 0.1 * rng.normal(size=80)
    return x, score, np.digitize(score, [-0.5, 0.5])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_matrix])
def test_sparse_is_dense(learner, form, data):
    x, score, classes = data
    y = classes if is_classifier(learner) else score
    ask = "decision_function" if hasattr(learner, "decision_function") else "predict"
    dense, thin = clone(learner).fit(x, y), clone(learner).fit(form(x), y)
    # libsvm works in single precision, and kernels of it in another order.
    exact = 1e-9 if not isinstance(learner, SVMClassifier | SVMRegressor) else 2e-3
    for one in (dense, thin):
        for rows in (x, form(x)):
            if one is dense and isinstance(learner, SVMClassifier | SVMRegressor) and rows is not x:
                continue  # libsvm predicts in the form that it was trained in
            np.testing.assert_allclose(getattr(one, ask)(rows), getattr(dense, ask)(x), rtol=exact, atol=exact)


@pytest.mark.parametrize("learner", [one for one in LEARNERS if hasattr(one, "partial_fit")], ids=repr)
def test_sparse_parts_are_dense_parts(learner, data):
    x, score, classes = data
    y = classes if is_classifier(learner) else score
    dense, thin = clone(learner), clone(learner)
    for part in (slice(0, 30), slice(30, 60), slice(60, 80)):
        options = {"classes": [0, 1, 2]} if is_classifier(learner) else {}
        dense.partial_fit(x[part], y[part], **options)
        thin.partial_fit(sparse.csr_array(x[part]), y[part], **options)
    ask = "decision_function" if hasattr(learner, "decision_function") else "predict"
    np.testing.assert_allclose(getattr(thin, ask)(x), getattr(dense, ask)(x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "learner",
    [
        MultiwayTree(),
        KNNClassifier(metric="hamming"),
        KNNClassifier(p=3),
        KNNRegressor(combine="linear"),
        KNNClassifier(categorical=(0,)),
    ],
    ids=repr,
)
def test_a_learner_that_needs_all_cells_refuses(learner, data):
    x, score, classes = data
    with pytest.raises((TypeError, ValueError), match=r"toarray\(\)"):
        learner.fit(sparse.csr_array(x), classes if is_classifier(learner) else score)
