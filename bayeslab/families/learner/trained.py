"""Training of a learner: the matrix of inputs, fitting, and predictions."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bayeslab import registry
from bayeslab.data.bound import Data
from bayeslab.digits import check_size
from bayeslab.errors import DataError, ModelError, hint, listed, unknown_column
from bayeslab.language.spec import Model
from bayeslab.streams import derived
from bayeslab.training_warnings import convergence_warnings

__all__ = ["Learned", "Prepared", "prepared", "train"]

Array = NDArray[np.float64]

# Number of rows in a block of the input matrix.
_PIECE = 2048


@dataclass(frozen=True, eq=False)
class Prepared:
    """The learning problem: inputs, target and task.

    Attributes
    ----------
    names : tuple of str
        The inputs.
    levels : tuple of int
        Number of levels of each input; 0 for a number column.
    classes : ndarray or None
        The target's levels; None in a regression.
    """

    model: Model
    names: tuple[str, ...]
    levels: tuple[int, ...]
    classes: np.ndarray | None

    @property
    def spec(self) -> Any:
        return self.model.model

    @property
    def task(self) -> str:
        return "regression" if self.classes is None else "classification"

    @property
    def _texts(self) -> bool:
        """Whether the learner takes texts as they are."""
        return bool(self.spec.module.CATEGORIES == "texts")

    def matrix(self, data: Data) -> Array:
        """Inputs, shape (rows, inputs): numbers, and codes of names; NaN where a cell is missing; read-only.

        For learners of texts, an array of objects.
        """
        if data not in self._matrices:
            self._matrices[data] = self._matrix(data)
        return self._matrices[data]

    @cached_property
    def _matrices(self) -> WeakKeyDictionary[Data, Array]:
        """Matrices of the data that are in use."""
        return WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        """The state without matrices, which are read again."""
        return {name: value for name, value in self.__dict__.items() if name != "_matrices"}

    def _matrix(self, data: Data) -> Array:
        if self._texts:
            out = np.column_stack([self._text(data, name) for name in self.names])
            out.setflags(write=False)
            return out
        shown = [self._input(data, name, n_levels) for name, n_levels in zip(self.names, self.levels, strict=True)]
        out = np.empty((_n_rows(self.model, data), len(shown)))
        # Copy columns to rows in blocks that fit the processor's cache.
        for a in range(0, len(out), _PIECE):
            np.stack([values[a : a + _PIECE] for values in shown], axis=1, out=out[a : a + _PIECE])
        out.setflags(write=False)
        return out

    def _text(self, data: Data, name: str) -> NDArray[Any]:
        column = data.dataset.columns.get(name)
        if column is None or not column.text:
            raise DataError(
                f"'{name}' is not a column of text, and {self.spec.learner} learns from texts: name one in inputs",
                code="not-states",
            )
        gone = np.flatnonzero(column.absent())
        if len(gone):
            raise DataError(
                f"column '{name}' has {len(gone)} missing texts (row {int(gone[0]) + 1}): drop the rows", code="missing"
            )
        return column.values.astype(object)

    def _input(self, data: Data, name: str, n_levels: int) -> Array:
        if not data.has(name):
            raise DataError(
                f"the data have no column '{name}', which the learner uses{hint(name, data.names())}",
                code="unknown-column",
            )
        term = data.term(name, missing=True)
        if (term.value is None) != (n_levels > 0):
            raise _other_kind(data, name, n_levels)
        values = np.asarray(term.codes if n_levels else term.value, float)
        if n_levels:
            values = np.where(values < 0, np.nan, values)
        elif data.origin is None:
            check_size(values, f"column '{name}'")
        if np.isfinite(values.sum()):
            return values
        endless = np.flatnonzero(np.isinf(values))
        if len(endless):
            raise DataError(
                f"column '{name}' holds {values[endless[0]]:g} (row {int(endless[0]) + 1}), and learners take finite"
                f" numbers: drop the row{'s' * (len(endless) > 1)}, or leave the column out",
                code="not-finite",
            )
        gone = np.flatnonzero(np.isnan(values))
        if self.spec.takes_gaps() or not len(gone):
            return values
        raise DataError(
            f"column '{name}' has {len(gone)} missing cell{'s' * (len(gone) > 1)} (row {int(gone[0]) + 1}), and"
            f" {self.spec.learner} does not understand them: write impute: mean, drop the rows, leave the column out,"
            f" or take {listed(sorted(_understanding(self.task)))}",
            code="missing",
        )

    def columns(self, data: Data) -> list[str]:
        """Names of the learner's input columns; a column of names has one for each level."""
        if self.spec.module.CATEGORIES != "indicators":
            return list(self.names)
        out = []
        for name, n_levels in zip(self.names, self.levels, strict=True):
            words = [str(x) for x in data.labels[name]] if n_levels else []
            out += [f"{name}={w}" for w in (words[1:] if n_levels == 2 else words)] or [name]
        return out

    def outcome(self, data: Data) -> NDArray[Any]:
        """The target: codes of classes, or numbers."""
        name = self.spec.target
        if not data.has(name):
            raise DataError(
                f"the data have no column '{name}', the target{hint(name, data.names())}", code="unknown-column"
            )
        term = data.term(name, missing=True)
        values = np.asarray(term.value if self.classes is None else term.codes, float)
        gone = np.flatnonzero(~np.isfinite(values) | ((values < 0) if self.classes is not None else False))
        if len(gone):
            raise DataError(
                f"the target '{name}' is missing or infinite in {len(gone)} row{'s' * (len(gone) > 1)}"
                f" (row {int(gone[0]) + 1}): drop what has no outcome",
                code="missing",
            )
        if self.classes is not None:
            return values.astype(np.int64)
        if data.origin is None:
            check_size(values, f"the target '{name}'")
        return values

    def weights(self, data: Data) -> Array | None:
        """Weights of the rows; None without weights.

        Raises
        ------
        ModelError, DataError
            The column does not exist or is not numeric; a weight is missing or negative; or no weight is positive.
        """
        name = self.spec.sample_weight
        if name is None:
            return None
        if not data.has(name):
            raise unknown_column(name, data.names(), ("model", "sample_weight"))
        term = data.term(name, missing=True)
        if term.value is None or term.dims != (self.model.data.rows,):
            raise DataError(f"the weights '{name}' are one number for each row", code="not-numbers")
        values = np.asarray(term.value, float)
        odd = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
        if len(odd):
            raise DataError(
                f"the weight '{name}' is {values[odd[0]]:g} in row {int(odd[0]) + 1}: weights are 0 or more",
                code="out-of-range",
            )
        if not values.any():
            raise DataError(f"all weights '{name}' are 0: there is nothing to learn from", code="constant")
        return values

    def learner(self, chosen: Mapping[str, Any]) -> Any:
        """The untrained learner with these values of the tuned options."""
        module = self.spec.module
        categorical = tuple(j for j, n in enumerate(self.levels) if n) if module.CATEGORIES == "codes" else ()
        return module.build(module.Options.model_validate(self.spec.options | dict(chosen)), self.task, categorical)

    def estimator(self, seed: int) -> Any:
        """The untrained pipeline from the matrix to predictions."""
        from sklearn.pipeline import Pipeline

        from bayeslab.families.learner.columns import Columns

        module = self.spec.module
        learner = self.learner({k: v[0] for k, v in self.spec.tune.items()})
        scale = module.SCALE if self.spec.standardise is None else self.spec.standardise
        columns = "passthrough" if self._texts else Columns(self.levels, module.CATEGORIES, scale, self.spec.impute)
        whole = Pipeline([("columns", columns), ("learner", learner)])
        return _seeded(whole, seed)


def _other_kind(data: Data, name: str, n_levels: int) -> DataError:
    """The error for a column of names that was numeric in the fit, or the reverse."""
    if n_levels:
        return DataError(
            f"column '{name}' holds numbers, and names in the fit: it is another column, or coded otherwise",
            code="other-kind",
        )
    words = data.dataset.columns[name].values.ravel() if name in data.dataset.columns else np.array([])
    odd = next((i for i, word in enumerate(words.tolist()) if not _number(word)), None)
    where = "" if odd is None else f", row {odd + 1}: '{words[odd]}' is not a number"
    return DataError(
        f"column '{name}'{where}; the fit had numbers there: mend the cell, or leave it empty", code="other-kind"
    )


def _number(word: Any) -> bool:
    try:
        float(word)
    except ValueError:
        return not word
    return True


def _understanding(task: str) -> Iterator[str]:

    modules = ((word, registry.load("learners", word)) for word in registry.names("learners"))
    return (word for word, module in modules if module.MISSING and task in module.TASKS)


def _n_rows(model: Model, data: Data) -> int:
    return len(data.labels[model.data.rows])


def _seeded(estimator: Any, seed: int) -> Any:
    """The estimator with all random states set from the seed."""
    wanted = [n for n in estimator.get_params(deep=True) if n == "random_state" or n.endswith("__random_state")]
    return estimator.set_params(**dict.fromkeys(wanted, seed % (1 << 32)))


def prepared(model: Model, data: Data) -> Prepared:
    """Prepare the learning problem, with all checks of the columns.

    Raises
    ------
    ModelError, DataError
        A column does not exist or does not have one value for each row; there is only one class; or the learner does
        not support the task.
    """
    spec: Any = model.model
    if not data.has(spec.target):
        names = data.names()
        raise unknown_column(spec.target, names, ("model", "target"))
    aside = (spec.target, spec.sample_weight)
    used = spec.inputs or [n for n in [*data.dataset.columns, *data.derive] if n not in aside]
    for reason in () if spec.inputs else data.dataset.left_out.values():
        if not reason.code.endswith("odd-cell"):  # numbers, which an input could hold, unlike dates
            raise DataError(f"{reason}; or list the inputs without it", code=reason.code)
    _refuse_target_among_inputs(spec, data, used)
    levels = []
    for name in used:
        term = data.term(name, missing=True)
        if term.dims != (model.data.rows,):
            raise DataError(f"'{name}' is not a column of the table: an input has one value a row", code="not-a-column")
        levels.append(len(data.labels[name]) if term.value is None else 0)
    if not used:
        raise DataError(f"there is no column to predict '{spec.target}' from", code="no-columns")
    target = data.term(spec.target, missing=True)
    if target.dims != (model.data.rows,):
        raise DataError(f"the target '{spec.target}' does not have one value a row", code="not-a-column")
    classifies = target.codes is not None and spec.task != "regression"
    if target.value is None and not classifies:
        raise DataError(f"the target '{spec.target}' holds names; there is no regression of names", code="not-numbers")
    if not classifies and spec.task is None and "classification" in spec.module.TASKS:
        _unambiguous(spec.target, np.asarray(target.value, float))
    task = "classification" if classifies else "regression"
    if task not in spec.module.TASKS:
        what = "names" if classifies else "numbers"
        raise ModelError(
            f"{spec.learner} does {listed(spec.module.TASKS)}, and '{spec.target}' holds {what}",
            path=("model", "learner"),
            code="unsupported",
        )
    preparation = Prepared(model, tuple(used), tuple(levels), data.labels[spec.target] if classifies else None)
    outcome = preparation.outcome(data)
    if classifies and len(np.unique(outcome)) < 2:
        raise DataError(
            f"{'the row has' if len(outcome) == 1 else f'all {len(outcome)} rows have'} one '{spec.target}': there"
            " is nothing to learn; give rows of another",
            code="constant",
        )
    preparation.matrix(data)
    _weighable(preparation, data, outcome)
    _trainable(preparation, data, outcome)
    return preparation


def _refuse_target_among_inputs(spec: Any, data: Data, used: Sequence[str]) -> None:
    """Refuse inputs computed from the target, and, unless they are named, columns that the target is computed from."""
    for name in used:
        if spec.target in _sources(name, data):
            raise DataError(
                f"the input '{name}' is computed from the target '{spec.target}', which is unknown where it is to be"
                f" predicted: leave '{name}' out of the inputs",
                path=("model", "inputs"),
                code="self-reference",
            )
    if not spec.inputs and (sources := _sources(spec.target, data) & set(used)):
        raise DataError(
            f"the target '{spec.target}' is computed from {listed(sources)}, which would be among the inputs, as all"
            " other columns are: name the inputs",
            path=("model", "inputs"),
            code="self-reference",
        )


def _sources(name: str, data: Data) -> set[str]:
    """The columns that a computed column is computed from, directly or by way of others."""
    out, remaining = set[str](), [name]
    while remaining:
        expression = data.derive.get(remaining.pop())
        for used in (expression.names if expression is not None else frozenset()) - out:
            out.add(used)
            remaining.append(used)
    return out


def _weighable(ready: Prepared, data: Data, outcome: NDArray[Any]) -> None:
    """Check that the learner supports row weights, and that enough rows have weight."""
    from sklearn.utils.validation import has_fit_parameter

    weights = ready.weights(data)
    if weights is None:
        return
    learner = ready.learner({name: values[0] for name, values in ready.spec.tune.items()})
    if not has_fit_parameter(learner, "sample_weight"):
        raise ModelError(
            f"{ready.spec.learner} takes no weights of rows", path=("model", "sample_weight"), code="unsupported"
        )
    if ready.classes is not None and len(np.unique(outcome[weights > 0])) < 2:
        raise DataError(
            f"all rows with a weight have one class of '{ready.spec.target}': there is nothing to learn",
            code="constant",
        )


def _trainable(ready: Prepared, data: Data, outcome: NDArray[Any]) -> None:
    """Check that the options, and all candidates for tuning, are usable with these rows."""
    spec, module = ready.spec, ready.spec.module
    idle = module.Options.without_effect(spec.options, spec.tune, ready.task)
    if idle is not None:
        raise ModelError(idle[1], path=("model", idle[0]), code="not-applicable")
    if ready.classes is None and spec.calibration is not None:
        raise ModelError(
            "calibration makes probabilities of scores of classes; a regression has none: leave it out",
            path=("model", "calibration"),
            code="not-applicable",
        )
    # Tuning and calibration use the rows without one fold.
    folds = [spec.tune_folds] if spec.tune else []
    fewest = 0 if ready.classes is None else int(np.bincount(outcome)[np.unique(outcome)].min())
    n_classes = 0 if ready.classes is None else len(np.unique(outcome))
    n_columns = len(ready.columns(data))
    try:
        for values in itertools.product(*spec.tune.values()):
            learner = ready.learner(dict(zip(spec.tune, values, strict=True)))
            scores = spec.calibration in ("platt", "isotonic") or not hasattr(learner, "predict_proba")
            more = [min(5, fewest)] if fewest > 1 and scores and spec.calibration != "none" else []
            n_rows = min([len(outcome), *(len(outcome) - math.ceil(len(outcome) / k) for k in (*folds, *more))])
            if hasattr(learner, "suits"):
                learner.suits(n_rows, n_columns, n_classes)
    except ValueError as error:
        raise DataError(f"{spec.learner}: {error}", code="failed") from None
    if ready.classes is not None and spec.calibration == "none" and not hasattr(learner, "predict_proba"):
        raise DataError(f"{spec.learner} has no probabilities of its own: leave calibration out", code="not-applicable")


def _unambiguous(name: str, values: Array) -> None:
    """Refuse a target of two whole numbers without a given task: they are probably classes."""
    distinct = np.unique(values[~np.isnan(values)])
    whole = bool(np.all(distinct == np.floor(distinct)))
    if whole and (len(distinct) == 2 or set(distinct.tolist()) <= {0.0, 1.0}):
        shown = " and ".join(f"{number:g}" for number in distinct)
        raise DataError(
            f"the target '{name}' holds {shown} only: write task: classification if they are classes, task: regression"
            f" if they are numbers",
            code="incomplete",
        )


@dataclass(frozen=True, eq=False)
class Learned:
    """A trained learner.

    Attributes
    ----------
    ready : Prepared
    estimator : object
        The trained pipeline from the matrix of inputs to predictions.
    chosen : dict
        The options that tuning chose.
    unconverged : tuple of str
        Parts that did not converge in training, also during tuning.
    """

    ready: Prepared
    estimator: Any
    chosen: dict[str, Any] = field(default_factory=dict)
    unconverged: tuple[str, ...] = ()

    @property
    def classes(self) -> np.ndarray | None:
        return self.ready.classes

    def outcome(self, data: Data) -> NDArray[Any]:
        return self.ready.outcome(data)

    def predicted(self, data: Data) -> Array:
        """Probabilities of all classes, shape (rows, classes), or predicted numbers (rows,)."""
        return answers(self.estimator, self.ready.matrix(data), self.classes)

    @property
    def pipeline(self) -> Any:
        """The pipeline of columns and learner, without calibration."""
        inner = self.estimator
        if hasattr(inner, "calibrated_classifiers_"):
            inner = inner.calibrated_classifiers_[-1].estimator
        return inner

    @property
    def learner(self) -> Any:
        """The trained learner inside the pipeline."""
        return self.pipeline.named_steps["learner"]

    def staged_errors(self, matrix: Array, outcome: NDArray[Any]) -> Array:
        """Error rate, or root mean squared error, after each round; empty if there are no rounds."""
        if not hasattr(self.learner, "staged_predict"):
            return np.zeros(0)
        rows = self.pipeline[:-1].transform(matrix)
        errors = [self._error(prediction, outcome) for prediction in self.learner.staged_predict(rows)]
        # Boosting ends before its first round where no learner lowers the error.
        return np.array(errors or [self._error(self.learner.predict(rows), outcome)])

    def _error(self, prediction: Array, outcome: NDArray[Any]) -> float:
        if self.classes is None:
            return float(np.sqrt(np.mean((prediction - outcome) ** 2)))
        return float(np.mean(prediction != outcome))


def answers(estimator: Any, matrix: Array, classes: np.ndarray | None) -> Array:
    """Probabilities of all classes of the target, also of those absent in training; or predicted numbers."""
    if classes is None:
        return np.asarray(estimator.predict(matrix), float)
    out = np.zeros((matrix.shape[0], len(classes)))
    out[:, np.asarray(estimator.classes_, int)] = estimator.predict_proba(matrix)
    return out


def train(ready: Prepared, data: Data, seed: int) -> Learned:
    """Train on all rows, with tuning and calibration within them."""
    return fitted(ready, ready.matrix(data), ready.outcome(data), seed, ready.weights(data))


def fitted(ready: Prepared, matrix: Array, outcome: NDArray[Any], seed: int, weights: Array | None = None) -> Learned:
    """Train on a matrix of inputs and the outcomes; rows without weight are left out."""
    if weights is not None and not np.all(weights > 0):
        there = weights > 0
        matrix, outcome, weights = matrix[there], outcome[there], weights[there]
    try:
        with convergence_warnings() as texts:
            estimator, chosen = _tuned(ready, ready.estimator(seed), matrix, outcome, seed, weights)
            trained = _with_probabilities(ready, estimator, matrix, outcome, seed, weights)
        return Learned(ready, trained, chosen, tuple(texts))
    except ValueError as error:
        raise DataError(f"{ready.spec.learner}: {error}", code="failed") from None


def _splitter(ready: Prepared, outcome: NDArray[Any], folds: int, seed: int) -> Any:
    from sklearn.model_selection import KFold, StratifiedKFold

    if len(outcome) < folds:
        raise DataError(f"{folds} folds need {folds} rows; there are {len(outcome)}: ask for fewer", code="too-few")
    if ready.classes is None:
        return KFold(folds, shuffle=True, random_state=derived(seed, "folds", 32))
    fewest = int(np.bincount(outcome)[np.unique(outcome)].min())
    kind = StratifiedKFold if fewest >= folds else KFold
    return kind(folds, shuffle=True, random_state=derived(seed, "folds", 32))


def _weighting(estimator: Any, weights: Array | None) -> dict[str, Any]:
    """The weights of rows as arguments of the pipeline's ``fit``."""
    if weights is None:
        return {}
    steps = [name for name, step in estimator.steps if step != "passthrough"]
    return {f"{name}__sample_weight": weights for name in steps}


def _tuned(
    ready: Prepared, estimator: Any, matrix: Array, outcome: NDArray[Any], seed: int, weights: Array | None
) -> tuple[Any, dict[str, Any]]:
    """The estimator with the tuned options that have the smallest held-out loss."""
    grid = ready.spec.tune
    if not grid:
        return estimator, {}

    folds = list(_splitter(ready, outcome, ready.spec.tune_folds, seed).split(matrix, outcome))
    best: tuple[float, dict[str, Any]] | None = None
    for values in itertools.product(*grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        one = estimator.set_params(learner=ready.learner(chosen))
        loss = float(np.mean([_loss(_seeded(one, seed), matrix, outcome, weights, *fold) for fold in folds]))
        # Among ties, the first one in the file.
        if best is None or loss < best[0] - 1e-12:
            best = loss, chosen
    assert best is not None
    return _seeded(estimator.set_params(learner=ready.learner(best[1])), seed), best[1]


def _loss(
    estimator: Any, matrix: Array, outcome: NDArray[Any], weights: Array | None, inside: Any, outside: Any
) -> float:
    """Held-out error rate, or mean squared error."""
    from sklearn.base import clone

    share = None if weights is None else weights[inside]
    one = clone(estimator).fit(matrix[inside], outcome[inside], **_weighting(estimator, share))
    gap = one.predict(matrix[outside]) - outcome[outside]
    loss = gap**2 if outcome.dtype.kind == "f" else gap != 0
    return float(np.average(loss, weights=None if weights is None else weights[outside]))


def _with_probabilities(
    ready: Prepared, estimator: Any, matrix: Array, outcome: NDArray[Any], seed: int, weights: Array | None
) -> Any:
    """The trained estimator, calibrated if the learner gives only scores or if calibration is requested."""
    from sklearn.base import clone

    wanted = ready.spec.calibration
    if ready.classes is None or wanted == "none" or (wanted is None and hasattr(estimator, "predict_proba")):
        return clone(estimator).fit(matrix, outcome, **_weighting(estimator, weights))
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.utils.class_weight import compute_sample_weight

    fewest = int(np.bincount(outcome)[np.unique(outcome)].min())
    if fewest < 2:
        raise DataError(
            f"a class with one row among {len(outcome)} leaves nothing to calibrate the probabilities of"
            f" {ready.spec.learner} on: leave the class out, ask for fewer folds, or take a learner with probabilities"
            f" of its own",
            code="too-few",
        )
    method = "isotonic" if wanted == "isotonic" else "sigmoid"
    folds = _splitter(ready, outcome, min(5, fewest), seed)
    # Held-out scores are calibrated; the final learner is trained on all rows.
    calibrated = CalibratedClassifierCV(clone(estimator), method=method, cv=folds, ensemble=False)
    balanced = "balanced" in (v for k, v in estimator.get_params().items() if k.endswith("class_weight"))
    if not balanced and weights is None:
        return calibrated.fit(matrix, outcome)
    share = np.ones(len(outcome)) if weights is None else weights
    if balanced:
        # With balanced classes calibration is weighted too; otherwise it would undo the balance.
        share = share * compute_sample_weight("balanced", outcome)
    with warnings.catch_warnings():
        # The pipeline's steps take weights by their own names, and the learner balances the classes itself.
        warnings.filterwarnings("ignore", message=".*will only be used for the calibration itself")
        return calibrated.fit(matrix, outcome, sample_weight=share, **_weighting(estimator, weights))
