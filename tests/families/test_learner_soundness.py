"""What a learner cannot learn, does not finish or does not use is said: in an error with a code, or in the verdict."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab import registry
from tests.refusals import refused

RNG = np.random.default_rng(0)
N = 40
INPUTS = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.normal(size=N)})
CLASSES = np.where(INPUTS.a > 0, "u", "v")
RANDOM = np.where(RNG.uniform(size=N) > 0.5, "u", "v")


def verdict(data, **options):
    model = bl.Model(model=bl.Learner(target="y", **options), seed=1)
    return bl.fit(model, data, runs=None, progress=False).verdict


def findings(data, check, **options):
    return [one for one in verdict(data, **options).findings if one.check == check and one.status != "pass"]


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize(
    "solver", [{"solver": "adam", "learning_rate_init": 1e30}, {"solver": "sgd", "learning_rate_init": 1e3}]
)
def test_a_net_that_diverges_has_a_finding_or_is_refused(task, solver):
    data = INPUTS.assign(y=CLASSES if task == "classification" else 2 * INPUTS.a)
    options = {"learner": "neural_network", "hidden_layer_sizes": [5]} | solver
    try:
        # The classes are learned at a huge rate by chance: what counts is whether the loss rose.
        found = findings(data, "convergence", **options)
    except bl.BayeslabError as error:
        assert "diverged" in str(error)
        return
    if task == "regression" or solver["solver"] == "sgd":
        assert "training diverged: the loss is" in found[0].message


def test_a_net_that_learns_is_no_divergence():
    data = INPUTS.assign(y=2 * INPUTS.a)
    found = findings(data, "convergence", learner="neural_network", hidden_layer_sizes=[5], max_iter=20)
    assert all("still falls" in one.message for one in found)


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("learner", ["virtual_svm", "svm"])
def test_a_machine_of_hard_margins_between_classes_that_overlap_ends_and_says_so(learner):
    rows = INPUTS.round(0) if learner == "svm" else INPUTS
    gamma = {} if learner == "virtual_svm" else {"kernel": "linear"}
    assert "early" in findings(rows.assign(y=RANDOM), "convergence", learner=learner, C=1e9, **gamma)[0].message


def test_a_column_of_dates_that_is_no_input_is_a_finding_and_a_note():
    data = INPUTS.assign(day=pd.date_range("2020-01-01", periods=N), y=CLASSES)
    (one,) = findings(data, "data", learner="knn")
    assert "'day' is no input" in one.message
    assert not findings(data, "data", learner="knn", inputs=["a", "b"])


@pytest.mark.parametrize("learner", sorted(registry.names("learners")))
def test_one_class_and_one_row_are_refused_in_one_line(learner):
    tasks = registry.load("learners", learner).TASKS
    cells: MappingProxyType[str, object] = MappingProxyType({"a": ["some words", "other words"] * 5})
    inputs = pd.DataFrame(cells) if registry.load("learners", learner).CATEGORIES == "texts" else INPUTS[:10]
    if "classification" in tasks:
        model = bl.Model(model=bl.Learner(learner=learner, target="y", task="classification"))
        for n in (10, 1):
            with refused("data.constant", "'y'"):
                bl.check(model, inputs[:n].assign(y="u"))
    if "regression" in tasks:
        model = bl.Model(model=bl.Learner(learner=learner, target="y", task="regression"), seed=1)
        with pytest.raises(bl.BayeslabError) as caught:
            bl.fit(model, inputs[:1].assign(y=3.0), runs=None, progress=False)
        assert "\n" not in str(caught.value)
        assert caught.value.code
