"""Two views of the same objects: early, late and intermediate integration, and shared factors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.decomposition import FactorAnalysis
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from bayeslab.learners.stacking import StackedClassifier
from bayeslab.learners.voting import VotingClassifier

FIRST, SECOND = slice(0, 5), slice(5, 10)


def only(columns: slice, learner):
    """A learner that sees one view."""
    return make_pipeline(FunctionTransformer(_view, kw_args={"columns": columns}), learner)


def _view(X, columns):
    return X[:, columns]


def latent(rng: np.random.Generator, n: int):
    """A shared factor that carries the class, seen through two noisy views of five columns each."""
    y = rng.integers(2, size=n)
    factor = (2 * y - 1) * 1.0 + rng.normal(0, 0.4, n)
    loadings = np.array([1.0, 0.8, -0.9, 1.1, -0.7, 0.9, 1.0, -1.1, 0.8, 0.7])
    return factor[:, None] * loadings + rng.normal(0, 1.6, (n, 10)), y


def test_sensor_fusion():
    """sensor-fusion (F36: views of about 5 % error each, 3 % together): two independent views with normal noise."""
    rng = np.random.default_rng(0)
    n = 6000
    y = rng.integers(2, size=n)
    size = stats.norm.isf(0.05)  # one view errs on 5 %
    x = (2 * y - 1)[:, None] * size + rng.normal(size=(n, 2))
    views = [only(slice(0, 1), LogisticRegression()), only(slice(1, 2), LogisticRegression())]
    each = [1 - one.fit(x[:2000], y[:2000]).score(x[2000:], y[2000:]) for one in views]
    error = 1 - VotingClassifier(views, rule="product").fit(x[:2000], y[:2000]).score(x[2000:], y[2000:])
    se = np.sqrt(0.05 * 0.95 / 4000)
    assert each == pytest.approx([0.05, 0.05], abs=4 * se)
    truth = stats.norm.sf(size * np.sqrt(2))
    assert truth < 0.03
    assert abs(error - truth) < 4 * np.sqrt(truth * (1 - truth) / 4000) + 0.003


def test_integration_modes():
    """integration-modes: early, late and intermediate on the same two views; late integration is a vote of views."""
    rng = np.random.default_rng(1)
    (x, y), (fresh, truth) = latent(rng, 600), latent(rng, 3000)
    views = [only(FIRST, LinearDiscriminantAnalysis()), only(SECOND, LinearDiscriminantAnalysis())]
    each = [one.fit(x, y).score(fresh, truth) for one in views]
    early = LinearDiscriminantAnalysis().fit(x, y)
    late = VotingClassifier(views).fit(x, y)
    learned = StackedClassifier(views, "linear", random_state=0).fit(x, y)
    # Intermediate: each view made one factor, and one classifier on the factors of both.
    factors = [FactorAnalysis(1, random_state=0).fit(x[:, v]) for v in (FIRST, SECOND)]

    def represented(table):
        return np.column_stack([f.transform(table[:, v]) for f, v in zip(factors, (FIRST, SECOND), strict=True)])

    between = LogisticRegression().fit(represented(x), y)
    for score in (early.score(fresh, truth), late.score(fresh, truth), learned.score(fresh, truth)):
        assert score > max(each)
    assert between.score(represented(fresh), truth) > max(each)
    mean = np.mean([one.fit(x, y).predict_proba(fresh) for one in views], axis=0)
    np.testing.assert_allclose(late.predict_proba(fresh), mean)


def test_multi_view_latent():
    """multi-view-latent: classes from the shared factor, inferred from both views, beat each view."""
    rng = np.random.default_rng(2)
    (x, y), (fresh, truth) = latent(rng, 500), latent(rng, 3000)
    each = [only(v, GaussianNB()).fit(x, y).score(fresh, truth) for v in (FIRST, SECOND)]
    shared = FactorAnalysis(1, random_state=0).fit(x)
    found = LogisticRegression().fit(shared.transform(x), y)
    assert found.score(shared.transform(fresh), truth) > max(each) + 0.01
