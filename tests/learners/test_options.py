"""Every word that a model file may give for an option of a learner: it trains and predicts, or says why it does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest

import bayeslab as bl
from bayeslab import registry
from tests.refusals import refused

# What does not go with two numbers and a name as inputs, or with the task: the words of the error.
REFUSED = {
    ("knn", "combine", "interpolate"): "interpolate.*3",
    ("knn", "metric", "local", "regression"): "metric local",
    ("voting", "rule", "product", "regression"): "product",
    ("voting", "rule", "plurality", "regression"): "plurality",
    ("logistic", "loss", "squared"): "solver",
    ("neural_network", "loss", "log", "regression"): "'log'",
    ("version_space", "prior", "uniform"): "3 classes",
    ("naive_bayes", "kind", "multinomial"): "kind multinomial: counts are 0 or more",
}
SHORT: dict[str, Any] = {
    "n_estimators": 5,
    "max_iter": 60,
    "cv": 2,
    "n_init": 1,
    "noise": 0.2,
    "hidden_layer_sizes": [4],
}


def words_of(annotation: Any) -> Iterator[str]:
    if get_origin(annotation) is Literal:
        yield from (word for word in get_args(annotation) if isinstance(word, str))
    else:
        for part in get_args(annotation):
            yield from words_of(part)


def cases() -> Iterator[Any]:
    for word in registry.names("learners"):
        module = registry.load("learners", word)
        if module.CATEGORIES == "texts":
            continue
        for task in module.TASKS:
            for name, field in module.Options.model_fields.items():
                if get_origin(field.annotation) is list:
                    continue
                for value in words_of(field.annotation):
                    yield pytest.param(word, task, name, value, id=f"{word}-{task}-{name}-{value}")


def table(task: str, classes: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=40), rng.normal(size=40), rng.choice(["r", "g", "b"], 40)
    score = a - b + (c == "r") + 0.3 * rng.normal(size=40)
    cuts = [-0.7, 1.0] if classes == 3 else [0.2]
    return {"a": a, "b": b, "c": c, "y": score if task == "regression" else np.digitize(score, cuts).astype(str)}


@pytest.mark.slow(why="large")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("word", "task", "name", "value"), list(cases()))
def test_every_word(word, task, name, value):
    options = registry.load("learners", word).Options
    known, conditions = options.model_fields, options.applies.get(name, {})
    quick = {option: given for option, given in SHORT.items() if option in known}
    # Beside options that give the word an effect.
    quick |= {other: values[0] for other, values in conditions.items() if other != "task" and values[0] is not None}
    idle = task not in conditions.get("task", (task,)) and value != known[name].default
    if "learners" in known:
        line, tree = ("logistic", "decision_tree") if task == "classification" else ("linear", "regression_tree")
        quick["learners"] = [{"learner": line}, {"learner": tree}]
    model = bl.Model(model={"family": "learner", "learner": word, "target": "y"} | quick | {name: value})
    data = table(task, 2 if word == "version_space" and value != "uniform" else 3)
    said = REFUSED.get((word, name, value)) or REFUSED.get((word, name, value, task))
    said = f"'{name}'" if idle else said
    if said is not None:
        with refused("model.not-applicable" if idle else "data.failed", said):
            bl.fit(model, data, folds=0, seed=1, progress=False, runs=None)
        return
    fit = bl.fit(model, data, folds=0, seed=1, progress=False, runs=None)
    if task == "regression":
        assert np.isfinite(fit.predict(data, "mean")["mean"]).all()
        return
    p = fit.predict(data, "probabilities")[[f"P(y={k})" for k in np.unique(data["y"])]].to_numpy()
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert np.mean(p.argmax(axis=1).astype(str) == data["y"]) > 0.35
