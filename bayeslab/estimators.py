"""Models as scikit-learn estimators: ``bl.estimator("model.yaml")``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bayeslab import registry
from bayeslab.errors import DataError, ModelError, OptionError, hint, listed
from bayeslab.spec import Model

if TYPE_CHECKING:
    from bayeslab.results.fit import Fit

__all__ = ["estimator"]


def estimator(
    model: Model | str | os.PathLike[str],
    *,
    target: str | None = None,
    method: str | None = None,
    seed: int | None = None,
    **options: Any,
) -> Any:
    """A model with a target as a scikit-learn estimator.

    Parameters
    ----------
    model
        A model or the path of a model file.
    target
        The column to predict, where the model has several outcomes.
    method, seed, **options
        As for :func:`bayeslab.fit`.

    Returns
    -------
    object
        With ``fit(X, y)``, ``predict``, ``score``, and for classes ``predict_proba`` and ``classes_``; ``X`` is a table
        with the model's columns, or an array whose columns are the model's inputs in order. After ``fit``, ``fit_`` is
        the :class:`~bayeslab.results.fit.Fit`.

    Raises
    ------
    ModelError
        The model has no target, or several and none is chosen.
    """
    from bayeslab.fitting import _Source

    read = _Source(model).model
    if target is None:
        target = getattr(read.model, "target", None)
    family = registry.load("families", read.model.family)
    outcomes = _outcomes(family, read)
    if target is None:
        if len(outcomes) != 1:
            what = f"several outcomes ({listed(outcomes)})" if outcomes else "no outcome that is known without data"
            raise ModelError(f"the model has {what}, and an estimator predicts one: choose it with target=")
        (target,) = outcomes
    if outcomes and target not in outcomes:
        raise ModelError(f"the model does not predict '{target}'{hint(target, outcomes)}")
    kind = _classes()
    made = kind["classifier"] if _classifies(family, read, target) else kind["regressor"]
    return made(read, target, method, seed, options or None)


def _outcomes(family: Any, model: Model) -> tuple[str, ...]:
    if model.model.family == "graph":
        return ()  # which nodes are observed is only known with data
    try:
        return tuple(family.outcomes(model, set()))
    except (ModelError, DataError, AttributeError):
        return ()


def _classifies(family: Any, model: Model, target: str) -> bool:
    spec: Any = model.model
    if model.model.family == "learner":
        if spec.task is not None:
            return bool(spec.task == "classification")
        # Of a learner that does both the target decides, which is not known yet: names are classes by saying so.
        return "classification" in spec.module.TASKS
    if target in model.dims or target in model.model.levels():
        return True
    return getattr(spec, "likelihood", None) in ("bernoulli", "categorical", "ordinal", "cumulative")


_MADE: dict[str, Any] = {}


def _classes() -> dict[str, Any]:
    """The two classes, made when scikit-learn is first needed."""
    if _MADE:
        return _MADE
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.validation import check_is_fitted

    class _Estimator(BaseEstimator):
        """What both kinds share."""

        def __init__(
            self,
            model: Any,
            target: str = "y",
            method: str | None = None,
            seed: int | None = None,
            options: dict[str, Any] | None = None,
        ) -> None:
            self.model, self.target, self.method, self.seed, self.options = model, target, method, seed, options

        def _table(self, X: Any) -> dict[str, Any]:
            if hasattr(X, "columns"):
                from bayeslab.dataset import frame_columns

                return {name: values for name, values in frame_columns(X).items() if name != self.target}
            array = np.asarray(X)
            if array.ndim != 2:
                raise OptionError(f"X is a table, or an array (rows, columns), not of shape {array.shape}")
            names = getattr(self, "inputs_", None) or list(getattr(self.model.model, "inputs", ()))
            if not names:
                names = [f"x{j + 1}" for j in range(array.shape[1])]
            if len(names) != array.shape[1]:
                raise DataError(f"X has {array.shape[1]} columns; the model's inputs are {listed(names)}")
            return {name: array[:, j] for j, name in enumerate(names)}

        def _fit(self, X: Any, y: Any) -> Fit:
            from bayeslab.fitting import fit

            table = self._table(X)
            self.inputs_ = list(table)
            self.n_features_in_ = len(table)
            whole = table | {self.target: np.asarray(y)}
            # Whoever takes an estimator judges it on rows of their own; a learner need not leave any out for that.
            options = {"folds": 0} if self.model.model.family == "learner" else {}
            found: Fit = fit(
                self.model, whole, self.method, seed=self.seed, progress=False, runs=None,
                **options | (self.options or {}),
            )  # fmt: skip
            return found

        @property
        def _known(self) -> Fit:
            check_is_fitted(self, "fit_")
            found: Fit = self.fit_
            return found

        def __sklearn_is_fitted__(self) -> bool:
            return hasattr(self, "fit_")

    class BayesClassifier(ClassifierMixin, _Estimator):
        """A model whose target is one of several classes."""

        def fit(self, X: Any, y: Any) -> Self:
            """Fit the model to the columns of X and the classes y."""
            self.classes_ = np.unique(np.asarray(y))
            self.fit_ = self._fit(X, y)
            return self

        def predict_proba(self, X: Any) -> np.ndarray:
            """Posterior predictive probabilities, shape (rows, classes)."""
            frame = self._known.predict(self._table(X), "probabilities")
            n = len(frame)
            out = np.column_stack(
                [np.asarray(frame.get(f"P({self.target}={c})", np.zeros(n)), float) for c in self.classes_]
            )
            total = out.sum(axis=1, keepdims=True)
            if not np.all(total > 0):
                known = [c for c in frame.columns if c.startswith("P(")]
                raise DataError(f"the model predicts {listed(known)}{hint(str(self.classes_[0]), known)}")
            return np.asarray(out / total)

        def predict(self, X: Any) -> np.ndarray:
            """The most probable class of each row."""
            return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    class BayesRegressor(RegressorMixin, _Estimator):
        """A model whose target is a number."""

        def fit(self, X: Any, y: Any) -> Self:
            """Fit the model to the columns of X and the numbers y."""
            self.fit_ = self._fit(X, y)
            return self

        def predict(self, X: Any) -> np.ndarray:
            """The mean of each row's predictive distribution."""
            return np.asarray(self._known.predict(self._table(X), "mean")["mean"], float)

    # pickle looks classes up by module and name.
    for name, made in (("BayesClassifier", BayesClassifier), ("BayesRegressor", BayesRegressor)):
        made.__qualname__ = name
        globals()[name] = made
    _MADE.update(classifier=BayesClassifier, regressor=BayesRegressor)
    return _MADE
