"""Every option of every learner: what a file refuses a class refuses, with the same words, and nothing is coerced."""

from __future__ import annotations

import inspect
from typing import Literal, get_args, get_origin

import numpy as np
import pytest

import bayeslab as bl
from bayeslab import registry
from bayeslab.errors import BayeslabError
from bayeslab.learners.ecoc import OutputCodes
from bayeslab.learners.neural_network import NeuralNetworkClassifier
from bayeslab.learners.svm import SVMClassifier
from bayeslab.learners.toolbox.estimator import Estimator, ParameterError, check
from bayeslab.learners.voting import VotingClassifier
from tests.refusals import refused

ROWS = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5], [1.0, 1.0]])
CLASSES = np.array([0, 1, 0, 1])
# A number, a fraction, a sign, a word: none is right for all options, and none is quietly made another.
TRIED = ("Foo-bar", "1", -1, -0.5, 0, 1, 2.5, float("nan"), float("inf"), True, 10**30, 1e300, [], [-1], [float("nan")])


def classes(word):
    """The classes of a learner's module that users can make."""
    module = registry.load("learners", word)
    found = inspect.getmembers(module, inspect.isclass)
    return [c for n, c in found if issubclass(c, Estimator) and c.__module__ == module.__name__ and n[0] != "_"]


OPTIONS = [
    (word, name) for word in registry.names("learners") for name in registry.load("learners", word).Options.model_fields
]


def refused_by_file(word, name, value):
    """The error of a model file, or None."""
    given = {"learner": "linear"} if name == "learners" else value
    module = registry.load("learners", word)
    # Beside options that give it an effect.
    others = {other: values[0] for other, values in module.Options.applies.get(name, {}).items()}
    beside = {"task": module.TASKS[0]} | {other: value for other, value in others.items() if value is not None}
    try:
        bl.Model(model={"family": "learner", "learner": word, "target": "y"} | beside | {name: given})
    except BayeslabError as error:
        return error.message
    return None


def refused_by_class(kind, name, value):
    try:
        check(kind(**{name: value}), ROWS)
    except ParameterError as error:
        return error.message.removeprefix(f"{kind.__name__}: ")
    return None


@pytest.mark.parametrize(("word", "name"), OPTIONS)
def test_file_and_class_agree(word, name):
    """Value by value; of what only Python takes (estimators in place of members) nothing is asked."""
    if name in ("learners", "estimator", "weak"):
        pytest.skip("members, which have options of their own")
    for value in TRIED:
        by_file = refused_by_file(word, name, value)
        assert by_file is None or "\n" not in by_file
        for kind in classes(word):
            if name not in inspect.signature(kind.__init__).parameters:
                continue
            by_class = refused_by_class(kind, name, value)
            if name == "hidden_layer_sizes" and value == 1:
                continue  # One layer of units may be given as a number in Python.
            assert by_class == by_file, (kind, value)


APPLIES = [
    (word, name, other, values)
    for word in registry.names("learners")
    for name, conditions in registry.load("learners", word).Options.applies.items()
    for other, values in conditions.items()
]


@pytest.mark.parametrize(("word", "name", "other", "values"), APPLIES)
def test_conditions_name_options_and_their_words(word, name, other, values):
    module = registry.load("learners", word)
    fields = module.Options.model_fields
    assert name in fields
    if other == "task":
        assert set(values) < set(module.TASKS)
        return
    words = get_args(fields[other].annotation)
    assert values == (None,) or set(values) < set(words)


def wrong(field):
    """Values that are wrong whatever the bounds are."""
    text = str(field.annotation)
    if get_origin(field.annotation) is Literal:
        word = str(get_args(field.annotation)[0])
        return [word.capitalize() if word.capitalize() != word else word.lower() + "x", 1, True, [word]]
    if field.annotation is bool:
        return [1, 0, "yes", 0.0]
    if "list" in text:
        return [[float("nan")], [True], ["a"], "a"]
    out = [float("nan"), True, "1"] if "int" in text or "float" in text else []
    if "int" in text and "float" not in text:
        out += [2.5, 1.0, -1, 10**30]
    return out


@pytest.mark.parametrize(("word", "name"), OPTIONS)
def test_always_wrong(word, name):
    """Words in capitals, fractions and truth values for whole numbers, NaN, numbers as texts."""
    field = registry.load("learners", word).Options.model_fields[name]
    for value in wrong(field):
        assert refused_by_file(word, name, value), value
        for kind in classes(word):
            if name in inspect.signature(kind.__init__).parameters and name not in ("estimator",):
                with pytest.raises(ParameterError, match=name):
                    kind(**{name: value}).fit(ROWS, CLASSES)


@pytest.mark.parametrize("word", registry.names("learners"))
def test_counts_have_an_end(word):
    """A number that would take days and all of memory is refused before any work."""
    for name, field in registry.load("learners", word).Options.model_fields.items():
        if "int" in str(field.annotation) and get_origin(field.annotation) is not Literal:
            assert refused_by_file(word, name, 10**12) or "Literal" in str(field.annotation), name


EXTRA = [
    (kind, name)
    for word in registry.names("learners")
    for kind in classes(word)
    for name in inspect.signature(kind.__init__).parameters
    if name not in registry.load("learners", word).Options.model_fields
    and name not in ("self", "args", "kwargs", "estimator", "estimators", "random_state", "categorical")
]


@pytest.mark.parametrize(("kind", "name"), EXTRA)
def test_parameters_that_only_python_has(kind, name):
    for value in ("Foo", float("nan"), [1], -3):
        if (value, name) == (-3, "coef0") or (name == "cv" and kind is OutputCodes):
            continue  # scikit-learn's own checks set cv to splits.
        with pytest.raises(ParameterError, match=f"{kind.__name__}: '{name}'"):
            kind(**{name: value}).fit(ROWS, CLASSES)


@pytest.mark.parametrize("kind", [c for word in registry.names("learners") for c in classes(word)])
def test_seeds_and_columns(kind):
    given = inspect.signature(kind.__init__).parameters
    if "random_state" in given:
        for seed in (-1, 1.5, True, "1", 1 << 32):
            with refused("option.out-of-range", "random_state", kind=ParameterError):
                kind(random_state=seed).fit(ROWS, CLASSES)
    if "categorical" in given:
        for columns in ((-1,), (2,), (0.5,), (True,)):
            with refused("option.out-of-range", "categorical", kind=ParameterError):
                kind(categorical=columns).fit(ROWS, CLASSES)


def test_what_python_takes_beyond_a_file():
    """NumPy's numbers, tuples, one layer as a number, matrices and functions as kernels, codes as arrays."""
    NeuralNetworkClassifier(np.int64(3), max_iter=np.int32(2), alpha=np.float32(0.1), random_state=0).fit(ROWS, CLASSES)
    NeuralNetworkClassifier((2, 3), max_iter=1, random_state=np.random.RandomState(0)).fit(ROWS, CLASSES)
    SVMClassifier(kernel="precomputed").fit(ROWS @ ROWS.T + np.eye(4), CLASSES)
    SVMClassifier(kernel=lambda a, b: a @ b.T).fit(ROWS, CLASSES)
    code = np.array([[1, -1], [-1, 1]])
    OutputCodes(code=code, random_state=0).fit(np.tile(ROWS, (5, 1)), np.tile(CLASSES, 5))
    VotingClassifier(rule="weighted", weights=(np.float64(1), 2, 1), random_state=0).fit(ROWS, CLASSES)


def test_forest_features():
    """A share or a number of columns; 0 was quietly the default."""
    for value in (0, 0.0, 1.5, -1, True):
        assert refused_by_file("random_forest", "max_features", value)
    assert refused_by_file("random_forest", "max_features", 0.5) is None
    assert refused_by_file("random_forest", "max_features", 2) is None
