"""What has not converged says so: by a warning in Python, by a finding in the verdict, in one line."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge

import bayeslab as bl
from bayeslab.learners.convolutional import Convolutional
from bayeslab.learners.kernel_perceptron import KernelPerceptron
from bayeslab.learners.linear import GradientLinear
from bayeslab.learners.locally_weighted import LocallyWeighted
from bayeslab.learners.logistic import GradientLogistic
from bayeslab.learners.mixture_of_experts import ExpertClassifier, ExpertRegressor
from bayeslab.learners.multiple_kernel import MultipleKernelClassifier, MultipleKernelRegressor
from bayeslab.learners.neural_network import NeuralNetworkClassifier, NeuralNetworkRegressor
from bayeslab.learners.perceptron import Perceptron
from bayeslab.learners.tiling import Tiling
from bayeslab.learners.voting import VotingClassifier
from tests.refusals import refused

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 2))
NUMBERS = X @ [1.0, -2.0] + 0.1 * RNG.normal(size=60) + 5
SIDES = (X @ [1.0, -2.0] > 0).astype(int)
CROSS = (X[:, 0] * X[:, 1] > 0).astype(int)
TABLE = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "number": NUMBERS, "cross": np.where(CROSS, "u", "v")})

EARLY = [
    (NeuralNetworkClassifier(max_iter=3, random_state=0), CROSS),
    (NeuralNetworkRegressor(max_iter=3, random_state=0), NUMBERS),
    (GradientLogistic(max_iter=2), SIDES),
    (GradientLogistic(solver="stochastic", max_iter=1, random_state=0), SIDES),
    (GradientLinear(max_iter=2), NUMBERS),
    (GradientLinear("stochastic", max_iter=1, random_state=0), NUMBERS),
    (Perceptron(max_iter=5, random_state=0), CROSS),
    (Perceptron(max_iter=5, use="averaged", random_state=0), CROSS),
    (KernelPerceptron("linear", max_iter=3, random_state=0), CROSS),
    (Convolutional(max_iter=2, random_state=0), CROSS),
    (Tiling(max_iter=2, max_layers=1, random_state=0), CROSS),
    (ExpertClassifier(2, max_iter=2, n_init=1, random_state=0), CROSS),
    (ExpertRegressor(2, max_iter=2, n_init=1, random_state=0), NUMBERS),
    (MultipleKernelClassifier(max_iter=1, tol=1e-9), CROSS),
    (MultipleKernelRegressor(max_iter=1, tol=1e-9), NUMBERS),
]


@pytest.mark.parametrize(("learner", "target"), EARLY, ids=lambda one: type(one).__name__)
def test_few_steps(learner, target):
    with pytest.warns(ConvergenceWarning, match=type(learner).__name__) as caught:
        learner.fit(X, target)
    assert len(caught) == 1
    assert not learner.converged_


ENOUGH = [
    (Convolutional(max_iter=16, learning_rate_init=0.01, shift=0, angle=0, scale=0, random_state=0), SIDES),
    (NeuralNetworkClassifier((5,), max_iter=2000, learning_rate_init=0.01, random_state=0), SIDES),
    (NeuralNetworkRegressor((5,), max_iter=2000, learning_rate_init=0.01, random_state=0), NUMBERS),
    (GradientLogistic(), SIDES),
    (GradientLinear(), NUMBERS),
    (GradientLinear("stochastic", decay=50.0, max_iter=2000, random_state=0), NUMBERS),
    (Perceptron(random_state=0), SIDES),
    (KernelPerceptron("rbf", max_iter=1000, random_state=0), CROSS),
    (Tiling(random_state=0), SIDES),
    (ExpertRegressor(2, n_init=1, random_state=0), NUMBERS),
    (MultipleKernelClassifier(), SIDES),
    (LocallyWeighted(solver="gradient", n_neighbors=20), NUMBERS),
]


@pytest.mark.parametrize(("learner", "target"), ENOUGH, ids=lambda one: type(one).__name__)
def test_enough_steps(learner, target):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner.fit(X, target).predict(X[:5])
    assert getattr(learner, "converged_", True)


def test_converged_is_near_the_optimum():
    """What passes has the answer of the solvers without steps: the criterion is not only a word."""
    exact = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(X, CROSS)
    found = GradientLogistic().fit(X, CROSS)
    assert found.converged_
    np.testing.assert_allclose(found.coef_, exact.coef_, atol=1e-2)
    line = GradientLinear(ridge=1.0).fit(X, 1e6 * NUMBERS)
    assert line.converged_
    np.testing.assert_allclose(line.coef_, Ridge(1.0).fit(X, 1e6 * NUMBERS).coef_, rtol=1e-3)


def test_descents_around_queries():
    """They are taken when asked, so that it is ``predict`` that warns, once."""
    learner = LocallyWeighted(solver="gradient", n_neighbors=20, max_steps=2).fit(X, NUMBERS)
    with pytest.warns(ConvergenceWarning, match="around 60 of 60 queries") as caught:
        learner.predict(X)
    assert len(caught) == 1


def test_ensembles_say_it_once():
    members = [Perceptron(max_iter=2), NeuralNetworkClassifier(max_iter=2), LogisticRegression(max_iter=1)]
    with pytest.warns(ConvergenceWarning) as caught:
        VotingClassifier(members, rule="weighted", random_state=0).fit(X, CROSS)
    assert len(caught) == 1
    assert "inner fits did not converge" in str(caught[0].message)


def fitted(target, folds=3, **learner):
    model = bl.Model(model={"family": "learner", "target": target, "inputs": ["a", "b"], **learner})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return bl.fit(model, data=TABLE, folds=folds, progress=False, seed=1)


@pytest.mark.parametrize(
    "learner",
    [
        {"learner": "perceptron", "max_iter": 5},
        {"learner": "neural_network", "max_iter": 2},
        {"learner": "logistic", "max_iter": 1},
        {"learner": "bagging", "estimator": {"learner": "perceptron", "max_iter": 2}, "n_estimators": 5},
        {"learner": "random_subspace", "estimator": {"learner": "perceptron", "max_iter": 2}, "n_estimators": 5},
        {"learner": "adaboost", "weak": {"learner": "perceptron", "max_iter": 2}, "n_estimators": 3},
        {"learner": "stacking", "learners": [{"learner": "perceptron", "max_iter": 2}, {"learner": "knn"}], "cv": 2},
        {"learner": "neural_network", "tune": {"max_iter": [1, 2]}},
    ],
    ids=lambda one: one["learner"],
)
def test_verdict_of_classes(learner):
    """One finding, with how many folds; nothing else is printed."""
    if learner["learner"] == "adaboost":
        learner = {"learner": "adaboost", "estimator": learner["weak"], "n_estimators": 3}
    verdict = fitted("cross", **learner).verdict
    (finding,) = [f for f in verdict.findings if f.check == "convergence"]
    assert verdict.status != "pass"
    assert finding.status == "warn"
    assert "the learner itself and 3 of 3 folds" in finding.message
    assert "\n" not in finding.message


def test_verdict_of_numbers():
    """Descents around queries, the path of the lasso, and a learner without rows left out."""
    found = fitted("number", learner="linear", solver="batch", max_iter=1)
    assert any(f.check == "convergence" for f in found.verdict.findings)
    alone = fitted("number", folds=0, learner="linear", solver="batch", max_iter=1)
    (finding,) = [f for f in alone.verdict.findings if f.check == "convergence"]
    assert "(the learner itself)" in finding.message
    converged = fitted("number", learner="linear", solver="batch")
    assert not any(f.check == "convergence" for f in converged.verdict.findings)


def test_folds_are_refused_before_training(monkeypatch):
    monkeypatch.setattr("bayeslab.families.learner.posterior.train", lambda *_: pytest.fail("it was trained"))
    with refused("data.too-few", "1000000000.*folds.*60"):
        fitted("cross", folds=10**9, learner="perceptron")
    section = {"family": "learner", "target": "cross", "learner": "perceptron"}
    model = bl.Model(model=section, inference={"method": "train", "folds": 10**9})
    with refused("data.too-few", "1000000000.*60"):
        bl.check(model, TABLE)
    tuned = bl.Model(model=section | {"tune": {"max_iter": [1, 2]}, "tune_folds": 61})
    with refused("data.too-few", "61.*60"):
        bl.check(tuned, TABLE)


def test_cross_validation_says_it_in_a_line():
    model = bl.Model(model={"family": "learner", "target": "cross", "learner": "perceptron", "max_iter": 3})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = bl.cross_validate({"perceptron": model}, TABLE.drop(columns="number"), folds=3, progress=False)
    (note,) = [n for n in found.notes() if "in doubt" in n]
    assert note.startswith("perceptron: 3 fits in 3 splits are in doubt")
    assert note in str(found)
