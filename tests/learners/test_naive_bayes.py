"""Naive Bayes: scikit-learn's classifiers, Bayes' rule by hand, parts, missing cells, sparse rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB

import bayeslab as bl
from bayeslab.learners.naive_bayes import NaiveBayes

RNG = np.random.default_rng(3)
NORMAL, COUNTS, CODES = RNG.normal(size=(90, 4)), RNG.poisson(0.7, (90, 4)), RNG.integers(0, 3, (90, 4))
Y = np.array(["a", "b", "c"])[np.digitize(NORMAL[:, 0] + 0.5 * COUNTS[:, 1] + CODES[:, 2], [1.0, 2.0])]
WEIGHT = RNG.integers(1, 4, 90).astype(float)
# Ours, scikit-learn's, and the rows.
PAIRS = [
    (NaiveBayes(), GaussianNB(), NORMAL + 1e4),
    (NaiveBayes("multinomial", alpha=0.5), MultinomialNB(alpha=0.5), COUNTS),
    (NaiveBayes("bernoulli", alpha=2.0), BernoulliNB(alpha=2.0), COUNTS),
    (NaiveBayes(categorical=(0, 1, 2, 3)), CategoricalNB(), CODES),
    (NaiveBayes(prior="uniform"), GaussianNB(priors=[1 / 3] * 3), NORMAL),
]


@pytest.mark.parametrize(("ours", "theirs", "rows"), PAIRS, ids=lambda value: repr(value)[:30])
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_scikit_learn_agrees(ours, theirs, rows, weight):
    expected = theirs.fit(rows, Y, sample_weight=weight).predict_proba(rows)
    np.testing.assert_allclose(ours.fit(rows, Y, weight).predict_proba(rows), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("cuts", [(30,), (11, 12, 70)])
@pytest.mark.parametrize(("ours", "theirs", "rows"), PAIRS, ids=lambda value: repr(value)[:30])
def test_parts_are_the_whole(ours, theirs, rows, cuts):
    whole, parts = ours.fit(rows, Y).predict_proba(rows), type(ours)(**ours.get_params())
    for start, end in zip((0, *cuts), (*cuts, 90), strict=True):
        parts.partial_fit(rows[start:end], Y[start:end], classes=["a", "b", "c"])
    np.testing.assert_allclose(parts.predict_proba(rows), whole, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["gaussian", "multinomial", "bernoulli"])
def test_sparse_rows_are_dense_rows(kind):
    dense = NaiveBayes(kind).fit(COUNTS, Y, WEIGHT).predict_proba(COUNTS)
    rows = sparse.csr_array(COUNTS)
    np.testing.assert_allclose(NaiveBayes(kind).fit(rows, Y, WEIGHT).predict_proba(rows), dense, rtol=1e-9)


def test_bayes_rule_with_missing_cells_and_two_kinds_of_columns():
    x = np.array([[0.0, 0], [2.0, 1], [np.nan, 1], [5.0, 0], [7.0, np.nan], [9.0, 0]])
    learner = NaiveBayes(categorical=(1,), floor=0.0).fit(x, [0, 0, 0, 1, 1, 1])
    # Class 0: numbers 0 and 2; codes 0, 1, 1. Class 1: numbers 5, 7, 9; codes 0, 0. One pseudo-count for each code.
    low, high = stats.norm(1, 1).pdf(3.0), stats.norm(7, np.sqrt(8 / 3)).pdf(3.0)
    expected = np.array([low * 3 / 5, high * 1 / 4])
    np.testing.assert_allclose(learner.predict_proba([[3.0, 1]])[0], expected / expected.sum())
    np.testing.assert_allclose(learner.predict_proba([[np.nan, 1]])[0], np.array([0.6, 0.25]) / 0.85)
    np.testing.assert_allclose(learner.predict_proba([[3.0, np.nan]])[0], np.array([low, high]) / (low + high))
    # A code that no training row has says nothing.
    np.testing.assert_allclose(learner.predict_proba([[3.0, 2]]), learner.predict_proba([[3.0, np.nan]]))


@pytest.mark.parametrize(
    ("learner", "rows", "message"),
    [
        (NaiveBayes("multinomial"), [[1.0], [-1.0]], "counts are 0 or more"),
        (NaiveBayes(categorical=(0,)), [[0.0], [0.5]], "codes 0, 1"),
        (NaiveBayes(), sparse.csr_array([[1.0], [np.nan]]), "sparse rows have no missing cells"),
    ],
)
def test_rows_of_another_kind_are_refused(learner, rows, message):
    with pytest.raises(ValueError, match=message):
        learner.fit(rows, [0, 1])


def test_a_class_after_the_first_part_is_refused():
    with pytest.raises(ValueError, match="first call"):
        NaiveBayes().partial_fit([[0.0], [1.0]], [0, 1]).partial_fit([[2.0]], [2])
    with pytest.raises(ValueError, match="give all classes"):
        NaiveBayes().partial_fit([[0.0], [1.0]], [0, 0])


def test_in_a_model_with_missing_cells():
    """Columns of names and numbers in one table; a row without cells has the frequencies of the classes."""
    table = {"x": [0.0, 2.0, None, 5.0, 7.0, 9.0], "c": ["u", "v", "v", "u", None, "u"], "y": ["n"] * 3 + ["p"] * 3}
    model = bl.Model(model=bl.Learner(learner="naive_bayes", target="y"))
    fit = bl.fit(model, table, folds=0, seed=0, progress=False, runs=None)
    out = fit.predict({"x": [3.0, None], "c": ["v", None]}, "probabilities")
    low, high = stats.norm(1, 1).pdf(3.0), stats.norm(7, np.sqrt(8 / 3)).pdf(3.0)
    assert out["P(y=n)"][0] == pytest.approx(low * 0.6 / (low * 0.6 + high * 0.25), rel=1e-6)
    assert out["P(y=n)"][1] == pytest.approx(0.5)
