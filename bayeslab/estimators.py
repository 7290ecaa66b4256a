"""Models as scikit-learn estimators: ``bl.estimator("model.yaml")``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import assert_all_finite, check_array, check_consistent_length, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, has_fit_parameter, validate_data

from bayeslab.data.cells import Cells, as_values
from bayeslab.data.frames import frame_columns
from bayeslab.errors import DataError, ModelError, hint, listed
from bayeslab.families.learner import matrices
from bayeslab.families.learner.trained import answers
from bayeslab.fitting import fit
from bayeslab.language.spec import Model
from bayeslab.learners.toolbox.parts import classes_of_parts
from bayeslab.preparation import Source, seed_of
from bayeslab.results.fit import Fit

__all__ = ["BayesClassifier", "BayesRegressor", "WeightedClassifier", "WeightedRegressor", "estimator"]

type Task = Literal["classification", "regression"]

# Distributions and likelihoods whose values are classes.
_CLASSIFYING = frozenset(
    ("Bernoulli", "Categorical", "OrderedLogistic", "OrderedProbit", "bernoulli", "categorical", "ordered")
)
# Keys of a learner's model file that the estimator sets itself.
_FIXED = frozenset(("family", "target", "task", "options"))


def estimator(
    model: Model | str | os.PathLike[str],
    *,
    target: str | None = None,
    task: Task | None = None,
    method: str | None = None,
    seed: int | None = None,
    **options: Any,
) -> BayesClassifier | BayesRegressor:
    """A model with a target as a scikit-learn estimator.

    Parameters
    ----------
    model
        A model or the path of a model file.
    target
        The outcome to predict, if the model has several.
    task
        Classification or regression, for a learner that can do both, if the model has neither ``task:`` nor data.
    method, seed, **options
        As for :func:`bayeslab.fit`.

    Returns
    -------
    BayesClassifier or BayesRegressor
        With ``fit(X, y)``, ``predict``, ``score``, and for classes ``predict_proba`` and ``classes_``; ``X`` is a table
        with the model's columns, or an array whose columns are the model's inputs in order. After ``fit``, ``fit_`` is
        the :class:`~bayeslab.results.fit.Fit`. The model's keys are parameters, such as ``model__n_neighbors``.

        For learners, ``X`` may be a sparse matrix of SciPy where the learner can use it. Learners that learn in parts
        have ``partial_fit(X, y)``. With sparse rows and after ``partial_fit``, ``learner_`` is the trained pipeline of
        scikit-learn, and there is no ``fit_``.

    Raises
    ------
    ModelError
        The model has no target, or several and ``target`` is not given; or the task is not known.
    """
    source = Source(model)
    read = source.model
    if target is None:
        target = read.model.chosen_outcome()
    outcomes = _outcomes(read)
    if target is None:
        if len(outcomes) != 1:
            what = f"several outcomes ({listed(outcomes)})" if outcomes else "no outcome that is known without data"
            raise ModelError(
                f"the model has {what}, and an estimator predicts one: choose it with target=", code="incomplete"
            )
        (target,) = outcomes
    if outcomes and target not in outcomes:
        raise ModelError(f"the model does not predict '{target}'{hint(target, outcomes)}", code="unknown-variable")
    if read.model.is_learner:
        chosen = _task(source, task)
        read = _changed(read, {"task": chosen})
    else:
        chosen = "classification" if _classifies(read, target) else "regression"
        if task not in (None, chosen):
            raise ModelError(f"the model's outcome '{target}' makes it a {chosen}, not a {task}", code="not-applicable")
    weighted = read.model.is_learner and _takes_weights(read, chosen)
    if chosen == "classification":
        return (WeightedClassifier if weighted else BayesClassifier)(read, target, method, seed, options or None)
    return (WeightedRegressor if weighted else BayesRegressor)(read, target, method, seed, options or None)


def _takes_weights(model: Model, task: str) -> bool:
    """Whether a learner takes weights of rows."""
    spec: Any = model.model
    options = spec.module.Options.model_validate(spec.options | {name: values[0] for name, values in spec.tune.items()})
    return bool(has_fit_parameter(spec.module.build(options, task, ()), "sample_weight"))


def _outcomes(model: Model) -> tuple[str, ...]:
    if model.model.is_language:
        return ()  # which nodes are observed is only known with data
    try:
        return model.outcomes(set())
    except (ModelError, DataError, AttributeError):
        return ()


def _task(source: Any, asked: str | None) -> str:
    """The task of a learner: the model's, else the one asked for, else the one that suits the data the model names."""
    spec: Any = source.model.model
    declared = spec.task or (spec.module.TASKS[0] if len(spec.module.TASKS) == 1 else None)
    if declared is not None and asked not in (None, declared):
        raise ModelError(f"the model's task is {declared}, not {asked}", path=("model", "task"), code="not-applicable")
    if (declared or asked) is not None:
        return str(declared or asked)
    if source.model.data.table is not None:
        with source.located():
            return "classification" if spec.target in source.bound(None).labels else "regression"
    raise ModelError(
        f"{spec.learner} does classification and regression, and there are no data to choose by: write 'task:"
        " classification' or 'task: regression' in the model, or give task=",
        path=("model", "task"),
        code="incomplete",
    )


def _classifies(model: Model, target: str) -> bool:
    if target in model.dims or target in model.model.levels():
        return True
    written = model.model.distributions(target)
    return bool(written) and written <= _CLASSIFYING


def _two(model: Model, target: str) -> bool:
    """Whether the outcome is binary."""
    return model.model.distributions(target) in ({"Bernoulli"}, {"bernoulli"})


def _settings(model: Model) -> dict[str, Any]:
    """The keys of the model's family and a learner's options, with their values or defaults."""
    spec: Any = model.model
    settings = {name: getattr(spec, name) for name in type(spec).model_fields if name not in _FIXED}
    if not spec.is_learner:
        return settings
    options = spec.module.Options.model_validate(dict(spec.options))
    return {name: getattr(options, name) for name in type(options).model_fields} | settings


def _changed(model: Model, settings: Mapping[str, Any]) -> Model:
    """The model with other settings."""
    content = model.to_dict()
    return Model(**content | {"model": content["model"] | dict(settings)})


@contextmanager
def _as_value_errors() -> Iterator[None]:
    """Raise errors of the data as an error that is also a ValueError, as scikit-learn's tools expect."""
    try:
        yield
    except DataError as error:
        raise _Refused(
            error.message, where=error.where, path=error.path, offset=error.offset, code=error.code
        ) from None


class _Refused(DataError, ValueError):
    """Data that a model cannot be fitted to, or predict from."""


def _outcome(y: Any) -> np.ndarray:
    """The outcomes as a vector of words or of numbers; words and numbers have no common order."""
    cells = y if isinstance(y, list | tuple) else np.asarray(y)
    rows: dict[bool, int] = {}
    for row, cell in enumerate(cells if not isinstance(cells, np.ndarray) or cells.dtype.kind == "O" else ()):
        if cell is None:
            raise ValueError(f"Input y contains NaN: row {row + 1} is empty")
        if isinstance(cell, str | int | float | np.generic) and cell == cell:
            rows.setdefault(isinstance(cell, str), row)
    if len(rows) == 2:
        word, number = rows[True], rows[False]
        raise ValueError(
            f"y mixes words and numbers, such as {cells[word]!r} (row {word + 1}) and {cells[number]!r}"
            f" (row {number + 1}): make all of them words, or all numbers"
        )
    outcome = column_or_1d(y, warn=True)
    assert_all_finite(outcome, input_name="y")
    return np.asarray(outcome)


def _named(X: Any) -> bool:
    """Whether X is a table whose columns have text names; the names of a pandas table may be numbers."""
    return hasattr(X, "columns") and not (hasattr(X, "iloc") and not all(isinstance(c, str) for c in X.columns))


def _parts(self: _Estimator) -> bool:
    """Whether the model is a learner that learns in parts."""
    learner = isinstance(self.model, Model) and self.model.model.is_learner
    return learner and matrices.learns_in_parts(self.model, self._task)


class _Estimator(BaseEstimator):
    """Base of the classifier and the regressor."""

    _task: Task

    def __init__(
        self,
        model: Any,
        target: str = "y",
        method: str | None = None,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.model, self.target, self.method, self.seed, self.options = model, target, method, seed, options

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters; with ``deep`` also the model's keys, as ``model__NAME``."""
        out: dict[str, Any] = super().get_params(deep=False)
        if deep and isinstance(self.model, Model):
            out |= {f"model__{name}": value for name, value in _settings(self.model).items()}
        return out

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``model__NAME`` replaces the model by one with this key changed."""
        inside = {k.removeprefix("model__"): v for k, v in params.items() if k.startswith("model__")}
        super().set_params(**{k: v for k, v in params.items() if not k.startswith("model__")})
        if not inside:
            return self
        known = _settings(self.model)
        for name in inside:
            if name not in known:
                raise ValueError(f"Invalid parameter 'model__{name}' of {type(self).__name__}{hint(name, known)}")
        self.model = _changed(self.model, inside)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = True
        tags.input_tags.allow_nan = self._takes_gaps
        tags.input_tags.sparse = self._takes_sparse
        tags.non_deterministic = self.seed is None and (not isinstance(self.model, Model) or self.model.seed is None)
        return tags

    @property
    def _takes_gaps(self) -> bool:
        """Whether cells of an array may be missing: the learner or the model handles them."""
        return isinstance(self.model, Model) and self.model.model.takes_gaps()

    @property
    def _takes_sparse(self) -> bool:
        learner = isinstance(self.model, Model) and self.model.model.is_learner
        return learner and matrices.takes_sparse(self.model, self._task)

    def _table(self, X: Any, *, fitting: bool) -> dict[str, Any]:
        """The columns of X by name; unnamed columns are assigned by position."""
        if hasattr(X, "columns"):
            columns = frame_columns(X)
            if _named(X):
                if self.target in columns:
                    raise _Refused(
                        f"X has a column '{self.target}', which is what the model predicts: leave it out, or rename it"
                        " where it is a feature",
                        code="conflict",
                    )
                return columns
            values = list(columns.values())
        else:
            finite = "allow-nan" if self._takes_gaps else True
            values = list(validate_data(self, X, reset=fitting, dtype=None, ensure_all_finite=finite).T)
        names = self.model.model.named_inputs() if fitting else self.inputs_
        names = names or [name for j in range(len(values) + 1) if (name := f"x{j + 1}") != self.target][: len(values)]
        if len(names) != len(values):
            raise _Refused(f"X has {len(values)} columns; the model's inputs are {listed(names)}", code="wrong-length")
        return dict(zip(names, values, strict=True))

    def _checked(self, X: Any, y: Any) -> tuple[dict[str, Any], np.ndarray]:
        """The columns of X and the outcomes y, checked to have the same number of rows."""
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        table = self._table(X, fitting=True)
        if hasattr(X, "columns"):
            self.n_features_in_ = len(table)
            self.__dict__.pop("feature_names_in_", None)
        if _named(X):
            self.feature_names_in_ = np.array(list(table), dtype=object)
        self.inputs_ = list(table)
        outcome = _outcome(y)
        check_consistent_length(outcome, *table.values())
        return table, outcome

    def _fitted(self, table: dict[str, Any], outcome: np.ndarray, sample_weight: Any) -> Fit:
        model, data = self.model, table | {self.target: outcome}
        if sample_weight is not None:
            free = (f"{word}{k}" for k in ("", *range(2, len(data) + 3)) for word in ("weight", "row_weight"))
            name = model.model.sample_weight or next(word for word in free if word not in data)
            model = _changed(model, {"sample_weight": name})
            data |= {name: _check_sample_weight(sample_weight, outcome)}
        # Users of an estimator evaluate it on their own held-out rows, so a learner holds out none.
        options = {"folds": 0} if model.model.is_learner else {}
        with _as_value_errors():
            return fit(
                model, data, self.method, seed=self.seed, progress=False, runs=None, **options | (self.options or {})
            )

    def _matrix(self, X: Any, *, fitting: bool) -> Any:
        """X as a CSR matrix or an array of numbers."""
        if sparse.issparse(X):
            if not self.model.model.is_learner:
                raise _Refused(
                    "X is sparse, and the model needs a value in every cell: give X.toarray()", code="other-kind"
                )
            return validate_data(self, X, reset=fitting, dtype=np.float64, accept_sparse="csr")
        if _named(X):
            names = list(frame_columns(X)) if fitting else self.inputs_
            table = self._table(X, fitting=fitting)
            for name in names:
                if name not in table:
                    raise _Refused(f"X has no column '{name}'{hint(name, table)}", code="unknown-column")
                if np.asarray(table[name]).dtype.kind not in "biuf":
                    raise _Refused(
                        f"column '{name}' has names, and partial_fit takes numbers: make a column of 0 and 1 for each"
                        " name, or call fit with all rows",
                        code="not-numbers",
                    )
            if fitting:
                self.feature_names_in_, self.n_features_in_ = np.array(names, dtype=object), len(names)
                self.inputs_ = names
            out = np.column_stack([np.asarray(table[name], float) for name in names])
            return check_array(out, ensure_all_finite="allow-nan" if self._takes_gaps else True)
        finite = "allow-nan" if self._takes_gaps else True
        return validate_data(self, X, reset=fitting, dtype=np.float64, ensure_all_finite=finite)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fit_") or hasattr(self, "learner_")

    def _outcomes_of(self, X: Any, y: Any) -> np.ndarray:
        """The outcomes y, checked to be as many as the rows."""
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        outcome = _outcome(y)
        check_consistent_length(outcome, X)
        return np.asarray(outcome)

    def _forget(self) -> None:
        """Discard earlier fits."""
        for name in ("fit_", "learner_", "_parts_so_far", "classes_"):
            self.__dict__.pop(name, None)

    def _from_sparse(self, X: Any, outcome: np.ndarray, classes: np.ndarray | None, sample_weight: Any) -> None:
        """Train the learner on sparse rows."""
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        with _as_value_errors():
            learned = matrices.trained(self.model, X, outcome, classes, seed_of(self.seed, self.model), weights)
        self.learner_ = learned.estimator

    def _add_part(self, X: Any, outcome: np.ndarray, classes: np.ndarray | None, sample_weight: Any) -> None:
        """Train the learner further on these rows."""
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        before: matrices.Parts | None = getattr(self, "_parts_so_far", None)
        with _as_value_errors():
            self._parts_so_far = matrices.with_part(
                self.model, before, X, outcome, classes, seed_of(self.seed, self.model), weights
            )
        self.learner_ = self._parts_so_far.learned.estimator

    def _goes_on(self) -> bool:
        """Whether there were parts before; refused after a fit to all rows."""
        if hasattr(self, "_parts_so_far"):
            return True
        if self.__sklearn_is_fitted__():
            raise _Refused(
                "partial_fit continues partial_fit, and this estimator was fitted by fit: take a clone of it",
                code="conflict",
            )
        return False

    def _predicted(self, X: Any, kind: Literal["mean", "probabilities"]) -> Any:
        if sparse.issparse(X) and hasattr(self, "fit_"):
            raise _Refused("X is sparse, and the model was fitted to an array: give X.toarray()", code="other-kind")
        check_is_fitted(self)
        table = self._table(X, fitting=False)
        with _as_value_errors():
            return self.fit_.predict(table, kind)


class BayesClassifier(ClassifierMixin, _Estimator):
    """A model whose target is one of several classes; :func:`bayeslab.estimator` makes it.

    Attributes
    ----------
    classes_ : ndarray
        The sorted classes of ``y``.
    fit_ : Fit
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Of a table.
    """

    _task = "classification"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = not (isinstance(self.model, Model) and _two(self.model, self.target))
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model to the columns of X and the classes y."""
        return self._fit(X, y, None)

    @available_if(_parts)
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Train the learner further on more rows; see :func:`bayeslab.estimator`.

        Parameters
        ----------
        X : array, data frame or sparse matrix of numbers, shape (rows, columns)
        y : array, shape (rows,)
        classes : array, optional
            All classes of all parts; needed in the first call if the first part lacks some.
        """
        return self._partial_fit(X, y, classes, None)

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Self:
        X = self._matrix(X, fitting=not self._goes_on())
        outcome = self._outcomes_of(X, y)
        check_classification_targets(outcome)
        known = classes_of_parts(self, outcome, classes)
        self._add_part(X, np.searchsorted(known, outcome), known, sample_weight)
        self.classes_ = known
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        self._forget()
        thin = sparse.issparse(X)
        if thin:
            X = self._matrix(X, fitting=True)
            outcome = self._outcomes_of(X, y)
        else:
            table, outcome = self._checked(X, y)
        check_classification_targets(outcome)
        classes, codes = np.unique(outcome, return_inverse=True)
        if len(classes) < 2 and self.model.model.is_learner:
            raise ValueError(f"y has one class, {classes[0]}: there is nothing to learn; give rows of another")
        if thin:
            self._from_sparse(X, codes, classes, sample_weight)
            self.classes_ = classes
            return self
        shown = self._read(self._shown(classes), classes)
        self.fit_ = self._fitted(table, shown[codes], sample_weight)
        self.classes_, self._names = classes, [str(name) for name in shown]
        return self

    def _shown(self, classes: np.ndarray) -> np.ndarray:
        """The classes as the model has them: names unchanged, truth values and whole numbers as integers."""
        levels = self.model.dims.get(self.target) or self.model.model.levels().get(self.target) or ()
        words = [str(c) for c in classes.tolist()]
        if isinstance(levels, list | tuple) and set(words) <= {str(level) for level in levels}:
            return np.array(words)
        if all(isinstance(c, bool | int | float) for c in classes.tolist()):
            # A binary outcome is 0 and 1 in the model, whatever integers y uses: -1 and 1, or 1 and 2.
            either = len(classes) == 2 and not levels and _two(self.model, self.target)
            return np.arange(2) if either else classes.astype(np.int64)
        return np.array(words)

    def _read(self, shown: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """The names of the classes as a table's cells are read; refused where some are one, or a missing cell."""
        if shown.dtype.kind != "U":
            return shown
        words, gone = as_values(shown, "y", Cells.of(self.model.data, self.model.declared()).missing(self.target))
        if gone is not None:
            raise _Refused(
                f"the class {shown[gone][0]!r} of y is a word for a missing cell: give the class another name",
                code="missing",
            )
        distinct, counts = np.unique(words, return_counts=True)
        if len(distinct) < len(words):
            alike = [repr(str(c)) for c in classes[words == distinct[counts > 1][0]]]
            raise _Refused(
                f"the classes {' and '.join(alike)} of y differ in spaces only, which cells are read without: give the"
                " classes other names",
                code="duplicate",
            )
        return words

    def predict_proba(self, X: Any) -> np.ndarray:
        """Posterior predictive probabilities, shape (rows, classes)."""
        check_is_fitted(self)
        if hasattr(self, "learner_"):
            if not hasattr(self.learner_, "predict_proba"):
                raise _Refused(
                    f"{self.model.model.learner} gives classes and no probabilities, which fit calibrates with all"
                    " rows: call predict, or fit",
                    code="not-applicable",
                )
            return answers(self.learner_, self._matrix(X, fitting=False), self.classes_)
        frame = self._predicted(X, "probabilities")
        none = np.zeros(len(frame))
        out = np.column_stack([np.asarray(frame.get(f"P({self.target}={c})", none), float) for c in self._names])
        total = out.sum(axis=1, keepdims=True)
        if not np.all(total > 0):
            known = [c for c in frame.columns if c.startswith("P(")]
            raise DataError(f"the model predicts {listed(known)}{hint(self._names[0], known)}", code="not-applicable")
        return np.asarray(out / total)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        check_is_fitted(self)
        if hasattr(self, "learner_") and not hasattr(self.learner_, "predict_proba"):
            return np.asarray(self.classes_[self.learner_.predict(self._matrix(X, fitting=False))])
        chances = self.predict_proba(X)
        return np.asarray(self.classes_[chances.argmax(axis=1)])


class BayesRegressor(RegressorMixin, _Estimator):
    """A model whose target is a number; :func:`bayeslab.estimator` makes it.

    Attributes
    ----------
    fit_ : Fit
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Of a table.
    """

    _task = "regression"

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model to the columns of X and the numbers y."""
        return self._fit(X, y, None)

    @available_if(_parts)
    def partial_fit(self, X: Any, y: Any) -> Self:
        """Train the learner further on more rows; see :func:`bayeslab.estimator`.

        Parameters
        ----------
        X : array, data frame or sparse matrix of numbers, shape (rows, columns)
        y : array, shape (rows,)
        """
        return self._partial_fit(X, y, None)

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        X = self._matrix(X, fitting=not self._goes_on())
        self._add_part(X, self._outcomes_of(X, y).astype(float), None, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        self._forget()
        if sparse.issparse(X):
            X = self._matrix(X, fitting=True)
            self._from_sparse(X, self._outcomes_of(X, y).astype(float), None, sample_weight)
            return self
        table, outcome = self._checked(X, y)
        numbers = outcome.astype(float) if outcome.dtype.kind == "O" else outcome
        self.fit_ = self._fitted(table, numbers, sample_weight)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The mean of each row's predictive distribution."""
        check_is_fitted(self)
        if hasattr(self, "learner_"):
            return np.asarray(self.learner_.predict(self._matrix(X, fitting=False)), float)
        return np.asarray(self._predicted(X, "mean")["mean"], float)


class WeightedClassifier(BayesClassifier):
    """A classifier whose learner takes weights of rows; :func:`bayeslab.estimator` makes it."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model to the columns of X and the classes y.

        Parameters
        ----------
        sample_weight
            Weights of the rows, 0 or more, (rows,); a row of weight 2 counts as two rows.
        """
        return self._fit(X, y, sample_weight)

    @available_if(_parts)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train the learner further on more rows; see :func:`bayeslab.estimator`.

        Parameters
        ----------
        X : array, data frame or sparse matrix of numbers, shape (rows, columns)
        y : array, shape (rows,)
        classes : array, optional
            All classes of all parts; needed in the first call if the first part lacks some.
        sample_weight : array, shape (rows,), optional
        """
        return self._partial_fit(X, y, classes, sample_weight)


class WeightedRegressor(BayesRegressor):
    """A regressor whose learner takes weights of rows; :func:`bayeslab.estimator` makes it."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model to the columns of X and the numbers y.

        Parameters
        ----------
        sample_weight
            Weights of the rows, 0 or more, (rows,); a row of weight 2 counts as two rows.
        """
        return self._fit(X, y, sample_weight)

    @available_if(_parts)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the learner further on more rows; see :func:`bayeslab.estimator`.

        Parameters
        ----------
        X : array, data frame or sparse matrix of numbers, shape (rows, columns)
        y : array, shape (rows,)
        sample_weight : array, shape (rows,), optional
        """
        return self._partial_fit(X, y, sample_weight)
