"""Options that can have no effect, or that the rows rule out, are refused by the check of a model, as by its fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.errors import BayeslabError
from bayeslab.fitting import checked
from bayeslab.learners.find_s import FindS
from bayeslab.learners.version_space import VersionSpace
from tests.refusals import refused

N = 12
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "a": RNG.normal(size=N),
        "b": RNG.normal(size=N),
        "two": np.repeat(["no", "yes"], N // 2),
        "three": np.tile(["x", "y", "z"], N // 3),
        "number": RNG.normal(size=N),
    }
)


def model(learner, target, **options):
    given = {"family": "learner", "learner": learner, "target": target, "inputs": ["a", "b"], **options}
    return bl.Model(model=given)


WITHOUT_EFFECT = [
    ("svm", "two", {"kernel": "linear", "gamma": 0.1}, "gamma"),
    ("svm", "two", {"epsilon": 0.2}, "epsilon"),
    ("svm", "number", {"class_weight": "balanced"}, "class_weight"),
    ("knn", "two", {"combine": "median"}, "combine"),
    ("knn", "two", {"metric": "kernel", "p": 1.0}, "p"),
    ("knn", "two", {"metric": "kernel", "kernel": "linear", "gamma": 2.0}, "gamma"),
    ("adaboost", "two", {"max_depth": 3}, "max_depth"),
    ("adaboost", "two", {"weak": "tree", "max_depth": 3, "estimator": {"learner": "logistic"}}, "weak"),
    ("stacking", "two", {"max_depth": 4}, "max_depth"),
    ("voting", "two", {"rule": "median", "weights": [1.0, 2.0, 1.0]}, "weights"),
    ("neural_network", "two", {"momentum": 0.5}, "momentum"),
    ("linear", "number", {"rate": 0.1}, "rate"),
    ("linear", "number", {"tune": {"alpha": [1.0, 2.0]}}, "alpha"),
    ("bagging", "number", {"estimator": {"learner": "linear", "alpha": 2.0}}, "alpha"),
    ("random_forest", "number", {"calibration": "platt"}, "calibration"),
]


@pytest.mark.parametrize(("learner", "target", "options", "name"), WITHOUT_EFFECT)
def test_options_without_effect_are_refused(learner, target, options, name):
    within = "estimator" in options and name not in options and name != "weak"
    with refused(f"model.not-{'allowed' if within else 'applicable'}", rf"\b{name}\b"):
        checked(model(learner, target, **options), FRAME)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(
    ("learner", "target", "options"),
    [
        ("svm", "two", {"kernel": "linear", "gamma": "scale"}),
        ("svm", "two", {"gamma": 0.1, "tune": {"kernel": ["linear", "rbf"]}}),
        ("svm", "two", {"tune": {"kernel": ["linear", "rbf"], "gamma": [0.1, 1.0]}}),
        ("knn", "number", {"combine": "median", "p": 1.0}),
        ("voting", "number", {"rule": "sum", "cv": N + 1}),
    ],
)
def test_options_that_may_have_an_effect_are_not(learner, target, options):
    assert bl.fit(model(learner, target, **options), FRAME, runs=None, progress=False).verdict.status != "fail"


RULED_OUT = [
    ("linear", "number", {"penalty": "lasso", "solver": "batch"}),
    ("logistic", "two", {"loss": "squared"}),
    ("svm", "two", {"calibration": "none"}),
    ("perceptron", "two", {"calibration": "none"}),
    ("find_s", "three", {}),
    ("find_s", "two", {"positive": 5}),
    ("version_space", "two", {"positive": 5}),
    ("knn", "two", {"n_neighbors": N + 1}),
    ("knn", "two", {"tune": {"n_neighbors": [3, N]}}),
    ("knn", "number", {"combine": "interpolate"}),
    ("knn", "number", {"metric": "local"}),
    ("voting", "two", {"rule": "weighted", "weights": [1.0]}),
    ("voting", "number", {"rule": "product"}),
    ("cascade", "two", {"thresholds": [0.9]}),
    ("cascade", "number", {"thresholds": [0.1, 0.2, 0.3]}),
    ("bagging", "two", {"average": "median"}),
    ("neural_network", "number", {"loss": "log"}),
    ("lsh", "number", {"n_neighbors": N + 1}),
    ("stacking", "two", {"cv": N + 1}),
    ("scann", "two", {"cv": N - 1}),
    ("voting", "number", {"rule": "weighted", "cv": N + 1}),
]


@pytest.mark.parametrize(("learner", "target", "options"), RULED_OUT)
def test_check_refuses_what_fit_refuses(learner, target, options):
    with pytest.raises(BayeslabError) as by_check:
        checked(model(learner, target, **options), FRAME)
    with pytest.raises(BayeslabError) as by_fit:
        bl.fit(model(learner, target, **options), FRAME, runs=None, progress=False)
    assert str(by_check.value) == str(by_fit.value)


@pytest.mark.parametrize("kind", [FindS, VersionSpace])
def test_estimators_refuse_in_the_words_of_the_check(kind):
    with pytest.raises(ValueError, match="binary"):
        kind().fit(FRAME[["a", "b"]].to_numpy(), np.tile([0, 1, 2], N // 3))
