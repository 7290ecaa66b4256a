"""Shared code of ensembles: members from a model file, seeds, row weights, outputs, and out-of-fold outputs.

Row weights are passed to members that accept them; other members are trained on rows resampled by weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, ValidationError
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, has_fit_parameter, validate_data

from bayeslab import registry
from bayeslab.errors import hint, listed
from bayeslab.language.wording import parameter_sentence
from bayeslab.learners.toolbox.estimator import MANY, Estimator, LearnerOptions

__all__ = [
    "Ensemble",
    "EnsembleClassifier",
    "EnsembleRegressor",
    "Member",
    "MemberOptions",
    "built",
    "built_all",
    "drawn",
    "out_of_fold",
    "outputs",
    "seeded",
    "shares",
    "splits",
    "trained",
    "weight_name",
]

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

_USUAL: dict[str, list[dict[str, Any]]] = {
    "classification": [
        {"learner": "logistic"},
        {"learner": "decision_tree"},
        {"learner": "random_forest", "n_estimators": 100},
    ],
    "regression": [
        {"learner": "linear"},
        {"learner": "regression_tree"},
        {"learner": "random_forest", "n_estimators": 100},
    ],
}


def _known(given: dict[str, Any]) -> dict[str, Any]:
    words = registry.names("learners")
    word = given.get("learner")
    if word not in words:
        raise ValueError(f"a member is {{learner: WORD, ...options}}; unknown learner {word!r}{hint(str(word), words)}")
    known, options = registry.load("learners", word).Options, {k: v for k, v in given.items() if k != "learner"}
    for name in options:
        if name not in known.model_fields:
            raise ValueError(f"the learner {word} has no option '{name}'{hint(name, known.model_fields)}")
    try:
        known.model_validate(options)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        name = str(errors[0]["loc"][0]) if errors[0]["loc"] else ""
        same = [e for e in errors if e["loc"][:1] == errors[0]["loc"][:1]]
        raise ValueError(f"{word}: {parameter_sentence(same, options.get(name), name)}") from None
    idle = known.without_effect(options, {}, None)
    if idle is not None:
        raise ValueError(f"{word}: {idle[1]}")
    return given


Member = Annotated[dict[str, Any], AfterValidator(_known)]


class MemberOptions(LearnerOptions):
    """Options of all ensembles of several members."""

    learners: list[Member] = Field(
        default_factory=list,
        description="Members, each {learner: WORD, ...its options}; default: a linear one, a tree and a forest.",
    )
    cv: int = Field(5, ge=2, le=MANY, description="Number of cross-validation folds.")


def built(given: Mapping[str, Any], task: str, categorical: tuple[int, ...] = ()) -> Any:
    """Return the estimator of one member, with its columns encoded and scaled as its module requires."""
    word = given["learner"]
    module = registry.load("learners", word)
    if task not in module.TASKS:
        raise ValueError(f"{word} does {listed(module.TASKS)}, not {task}")
    if module.CATEGORIES == "texts":
        raise ValueError(f"{word} learns from texts, which members of an ensemble do not see")
    idle = module.Options.without_effect(given, {}, task)
    if idle is not None:
        raise ValueError(f"{word}: {idle[1]}")
    options = module.Options.model_validate({k: v for k, v in given.items() if k != "learner"})
    codes = module.CATEGORIES == "codes"
    if not module.SCALE and (codes or not categorical):
        return module.build(options, task, categorical)
    names = "passthrough" if codes else OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    numbers = StandardScaler() if module.SCALE else "passthrough"
    # Columns of codes come first.
    made = module.build(options, task, tuple(range(len(categorical))) if codes else ())
    if not categorical:
        return Pipeline([("columns", numbers), ("learner", made)])
    columns = ColumnTransformer([("names", names, list(categorical))], remainder=numbers)
    return Pipeline([("columns", columns), ("learner", made)])


def built_all(members: Sequence[Mapping[str, Any]], task: str, categorical: tuple[int, ...] = ()) -> list[Any]:
    """Return the estimators of all members; by default a linear one, a tree and a forest."""
    return [built(one, task, categorical) for one in members or _USUAL[task]]


def seeded(estimator: Any, rng: np.random.RandomState) -> Any:
    """Return an unfitted copy whose random numbers all come from ``rng``."""
    made = clone(estimator)
    wanted = [n for n in made.get_params(deep=True) if n == "random_state" or n.endswith("__random_state")]
    return made.set_params(**{name: int(rng.randint(np.iinfo(np.int32).max)) for name in sorted(wanted)})


def weight_name(estimator: Any) -> str | None:
    """Return the keyword of ``fit`` for row weights (for a pipeline, of its last step); None if there is none."""
    prefix = ""
    while isinstance(estimator, Pipeline):
        name, estimator = estimator.steps[-1]
        prefix += f"{name}__"
    return f"{prefix}sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def drawn(target: Any, weights: Array, rng: np.random.RandomState) -> NDArray[np.int64]:
    """Draw as many rows as there are, by weight; for codes with more than one class if possible."""
    several = len(np.unique(target)) > 1 and np.asarray(target).dtype.kind == "i"
    for _ in range(100):
        at = rng.choice(len(target), len(target), p=weights / weights.sum())
        if not several or len(np.unique(target[at])) > 1:
            return np.asarray(at)
    return np.arange(len(target))


def trained(estimator: Any, X: Array, target: Any, rng: np.random.RandomState, weights: Array | None = None) -> Any:
    """Return a fitted copy; for codes of a single class a classifier that always predicts it."""
    if np.asarray(target).dtype.kind == "i" and len(np.unique(target)) == 1:
        return DummyClassifier(strategy="most_frequent").fit(X, target)
    made = seeded(estimator, rng)
    if weights is None:
        return made.fit(X, target)
    if name := weight_name(made):
        return made.fit(X, target, **{name: weights})
    at = drawn(target, weights, rng)
    return made.fit(X[at], target[at])


def shares(estimator: Any, X: Array, n_classes: int) -> Array:
    """Class probabilities, shape (rows, classes); 0 and 1 for a learner that only predicts the class."""
    out = np.zeros((len(X), n_classes))
    if hasattr(estimator, "predict_proba"):
        out[:, np.asarray(estimator.classes_, int)] = estimator.predict_proba(X)
    else:
        out[np.arange(len(X)), np.asarray(estimator.predict(X), int)] = 1
    return out


def outputs(estimators: Sequence[Any], X: Array, n_classes: int) -> Array:
    """Outputs of the members: probabilities (members, rows, classes), or without classes numbers (members, rows)."""
    if not n_classes:
        return np.array([np.ravel(one.predict(X)) for one in estimators], float)
    return np.array([shares(one, X, n_classes) for one in estimators])


def enough(n_rows: int, n_folds: int) -> None:
    """Raise :class:`ValueError` if there are fewer rows than folds."""
    if n_rows < n_folds:
        raise ValueError(f"{n_folds} folds need {n_folds} rows; there is n_samples = {n_rows}: take fewer folds (cv)")


def splits(target: Any, n_folds: int, rng: np.random.RandomState) -> Iterator[tuple[Any, Any]]:
    """Yield training and test rows of the folds; for codes stratified if every class has enough rows."""
    enough(len(target), n_folds)
    seed = int(rng.randint(np.iinfo(np.int32).max))
    counts = np.bincount(target) if np.asarray(target).dtype.kind == "i" else np.zeros(1, int)
    kind = StratifiedKFold if counts[counts > 0].min(initial=len(target)) >= n_folds and counts.any() else KFold
    yield from kind(n_folds, shuffle=True, random_state=seed).split(np.zeros(len(target)), target)


def out_of_fold(
    estimators: Sequence[Any],
    X: Array,
    target: Any,
    n_classes: int,
    n_folds: int,
    rng: np.random.RandomState,
    weights: Array | None = None,
) -> Array:
    """Out-of-fold outputs: as :func:`outputs`, but each row is predicted by members not trained on it."""
    shape = (len(estimators), len(X), n_classes) if n_classes else (len(estimators), len(X))
    out = np.zeros(shape)
    for inside, outside in splits(target, n_folds, rng):
        known = None if weights is None else weights[inside]
        fold = [trained(one, X[inside], target[inside], rng, known) for one in estimators]
        out[:, outside] = outputs(fold, X[outside], n_classes)
    return out


class Ensemble(Estimator):
    """Base class of ensembles for both tasks."""

    estimators: Any
    cv: int
    random_state: Any
    estimators_: list[Any]

    def _rows(self, X: Any, y: Any) -> tuple[Array, Any]:
        """Rows as numbers, and the target as class codes or numbers."""
        raise NotImplementedError

    def suits(self, n_rows: int, n_columns: int, n_classes: int) -> None:
        """Check that there are rows for all folds."""
        enough(n_rows, getattr(self, "cv", 1))

    def _usual(self) -> list[Any]:
        raise NotImplementedError

    def _weighted_rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[Array, Any, Array | None]:
        """Rows and their weights; rows of weight 0 are dropped."""
        if sample_weight is None:
            return *self._rows(X, y), None
        X, y = validate_data(self, X, y, dtype=None, ensure_all_finite=False)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        there = weights > 0
        return *self._rows(X[there], y[there]), weights[there]

    @property
    def _n_classes(self) -> int:
        return len(getattr(self, "classes_", ()))

    def _members(self) -> list[Any]:
        return self._usual() if self.estimators is None else list(self.estimators)

    def _rng(self) -> np.random.RandomState:
        rng: np.random.RandomState = check_random_state(self.random_state)
        return rng

    def _new(self, X: Any) -> Array:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False, dtype=np.float64))

    def _left_out(self, X: Array, target: Any, rng: np.random.RandomState, weights: Array | None = None) -> Array:
        """Out-of-fold outputs of the members."""
        return out_of_fold(self._members(), X, target, self._n_classes, self.cv, rng, weights)

    def _train(
        self, members: Sequence[Any], X: Array, target: Any, rng: np.random.RandomState, weights: Array | None = None
    ) -> None:
        self.estimators_ = [trained(one, X, target, rng, weights) for one in members]

    def _outputs(self, X: Array) -> Array:
        return outputs(self.estimators_, X, self._n_classes)


class EnsembleClassifier(ClassifierMixin, Ensemble):
    """Base class of ensemble classifiers: checks rows, encodes classes, predicts from ``predict_proba``."""

    def _rows(self, X: Any, y: Any) -> tuple[Array, Codes]:
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"Classification needs rows of two classes; there is one class, {self.classes_[0]!r}")
        return X, codes.astype(np.int64)

    def _usual(self) -> list[Any]:
        return [DecisionTreeClassifier(max_depth=5), GaussianNB(), KNeighborsClassifier()]

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class."""
        best = cast(Any, self).predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])


class EnsembleRegressor(RegressorMixin, Ensemble):
    """Base class of ensemble regressors."""

    def _rows(self, X: Any, y: Any) -> tuple[Array, Array]:
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        return X, np.asarray(y, float)

    def _usual(self) -> list[Any]:
        return [LinearRegression(), DecisionTreeRegressor(max_depth=6), KNeighborsRegressor(1)]
