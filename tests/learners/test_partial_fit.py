"""Lazy learners learn in parts: whatever the parts, the answers are those of one fit to all rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone, is_classifier

from bayeslab.learners.kernel_density import KernelDensityClassifier
from bayeslab.learners.kernel_regression import KernelRegression, KernelVote
from bayeslab.learners.knn import KNNClassifier, KNNRegressor
from bayeslab.learners.locally_weighted import LocallyWeighted
from bayeslab.learners.table_lookup import TableLookup, TableLookupRegressor

LEARNERS = [
    KNNClassifier(3), KNNClassifier("leave_one_out"), KNNClassifier(3, metric="mahalanobis"), KNNRegressor(3),
    KNNRegressor(2, combine="linear"), KernelVote(), KernelRegression(), KernelDensityClassifier(), LocallyWeighted(),
    TableLookup(), TableLookupRegressor(),
]  # fmt: skip


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@pytest.mark.parametrize("cuts", [(20,), (30, 31, 55)])
def test_parts_are_the_whole(learner, cuts):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, (60, 2)) + (0.0 if "Table" in repr(learner) else rng.normal(size=(60, 2)))
    y = (x[:, 0] > 2).astype(int) + (np.arange(60) % 7 == 0) if is_classifier(learner) else x[:, 0] - x[:, 1] ** 2
    options = {"classes": np.unique(y)} if is_classifier(learner) else {}
    parts, whole = clone(learner), clone(learner).fit(x, y)
    for start, end in zip((0, *cuts), (*cuts, 60), strict=True):
        parts.partial_fit(x[start:end], y[start:end], **options)
    new = x[:10] + 0.5
    answers = "predict_proba" if is_classifier(learner) else "predict"
    for rows in (new, x):
        np.testing.assert_allclose(getattr(parts, answers)(rows), getattr(whole, answers)(rows), rtol=1e-9, atol=1e-12)
    # A fit starts anew, and a partial fit goes on from it.
    again = parts.fit(x[:40], y[:40]).partial_fit(x[40:], y[40:])
    np.testing.assert_allclose(again.predict(new), whole.predict(new), rtol=1e-9)


def test_a_class_that_was_not_announced_is_refused():
    with pytest.raises(ValueError, match="2"):
        KNNClassifier(1).partial_fit([[0.0], [1.0], [2.0]], [0, 1, 2], classes=[0, 1])


def test_other_columns_are_refused():
    parts = KNNClassifier(1).partial_fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="features"):
        parts.partial_fit([[0.0, 1.0]], [1])
