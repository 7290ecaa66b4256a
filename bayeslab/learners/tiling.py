r"""Learner ``tiling``: a net of threshold units grown unit by unit and layer by layer until it makes no training error.

The first unit of a layer, its master, is trained by the pocket algorithm [2]_ to predict the class. While rows of both
classes have the same outputs on all units of the layer, a further unit is trained on such a group of rows. Once no two
classes share a pattern of outputs, the next layer is built on this one. Its master makes fewer errors than the master
before, so that growth ends without training errors [1]_. Identical rows of different classes can never be separated;
then, or after ``max_layers``, errors remain. With more than two classes there is one net per class, against the rest.

References
----------
.. [1] Mézard, Nadal (1989). Learning in feedforward layered networks: the tiling algorithm. Journal of Physics A 22.
.. [2] Gallant (1990). Perceptron-based learning algorithms. IEEE Transactions on Neural Networks 1.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.latents.networks.triangulation import available_bytes
from bayeslab.learners.toolbox.estimator import MANY, Estimator, LearnerOptions, ParameterError, warn_unless
from bayeslab.learners.toolbox.tiling_kernels import pocket

__all__ = ["CATEGORIES", "MISSING", "SCALE", "TASKS", "Options", "Tiling", "build", "examples", "reported"]

Array = NDArray[np.float64]

TASKS = ("classification",)
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = True
MISSING = False


class Options(LearnerOptions):
    """Options of tiling."""

    max_iter: int = Field(200, ge=1, le=10_000_000, description="Number of passes over the rows for each unit.")
    max_layers: int = Field(20, ge=1, le=10_000, description="Maximum number of layers.")
    max_units: int = Field(200, ge=1, le=MANY, description="Maximum number of units in a layer.")


class Tiling(ClassifierMixin, Estimator, options=Options):
    """The tiling algorithm: threshold units added for the remaining errors.

    Parameters
    ----------
    max_iter, max_layers, max_units : int
    random_state : int or None

    Attributes
    ----------
    layers_ : list of list of ndarray
        For each net the weights of its layers, (1 + inputs, units) with the bias first; the first unit is the master.
    errors_ : list of list of int
        Number of rows misclassified by the master of each layer.
    converged_ : bool
        Whether every row that can be classified correctly is.
    """

    def __init__(
        self, max_iter: int = 200, max_layers: int = 20, max_units: int = 200, random_state: Any = None
    ) -> None:
        self.max_iter, self.max_layers, self.max_units = max_iter, max_layers, max_units
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Grow the nets."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"Tiling needs rows of two classes; there is one class, {self.classes_[0]!r}")
        rng = check_random_state(self.random_state)
        positives = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        nets = [self._grow(X, np.where(y == c, 1.0, -1.0), rng) for c in positives]
        self.layers_, self.errors_ = [n[0] for n in nets], [n[1] for n in nets]
        self.n_iter_ = max(len(n) for n in self.layers_)
        # Among identical rows of several classes only one class can be predicted correctly.
        _, group = np.unique(X, axis=0, return_inverse=True)
        tables = [np.bincount(2 * group.ravel() + (y == c), minlength=2 * group.max() + 2) for c in positives]
        hopeless = [int(table.reshape(-1, 2).min(axis=1).sum()) for table in tables]
        self.converged_ = all(n[1][-1] <= least for n, least in zip(nets, hopeless, strict=True))
        text = "rows are still wrong that can be right: allow more passes (max_iter), layers or units"
        warn_unless(self.converged_, self, text)
        return self

    def _grow(self, X: Array, side: Array, rng: Any) -> tuple[list[Array], list[int]]:
        layers: list[Array] = []
        errors: list[int] = []
        inputs = X
        while len(layers) < self.max_layers:
            rows = np.column_stack([np.ones(len(inputs)), inputs])
            start = _one_more_right(rows, side) if layers else np.zeros(rows.shape[1])
            units = [self._unit(rows, side, rng, start)]
            wrong = int(np.sum(_says(rows @ units[0]) != side))
            if layers and wrong >= errors[-1]:
                break
            while wrong and len(units) < self.max_units:
                mixed = _mixed(_says(rows @ np.array(units).T), side)
                if mixed is None or len(np.unique(rows[mixed], axis=0)) == 1:
                    break
                units.append(self._unit(rows[mixed], side[mixed], rng, np.zeros(rows.shape[1])))
            layers.append(np.array(units).T)
            errors.append(wrong)
            if wrong == 0:
                break
            inputs = _says(rows @ layers[-1])
        return layers, errors

    def _unit(self, rows: Array, side: Array, rng: Any, start: Array) -> Array:
        if 8 * self.max_iter * len(rows) > available_bytes():
            raise ParameterError(
                f"{self.max_iter} orders of {len(rows)} rows do not fit into memory: take a smaller max_iter",
                code="too-costly",
            )
        orders = np.array([rng.permutation(len(rows)) for _ in range(self.max_iter)])
        best, wrong = pocket(rows, side, orders, start.copy())
        if wrong and np.all(_says(rows @ best) == _says(rows @ best)[0]) and np.ptp(rows, axis=0).any():
            # A unit with the same output for all rows separates nothing; cut off one row by its distance instead.
            return _cut_off(rows)
        return np.asarray(best)

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return np.column_stack([_master(X, layers) for layers in self.layers_])

    def decision_function(self, X: Any) -> np.ndarray:
        """Weighted sum of the last master over the norm of its weights; with several classes one column per net."""
        scores = self._scores(X)
        return np.asarray(scores[:, 0] if len(self.classes_) == 2 else scores)

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row."""
        scores = self._scores(X)
        at = (scores[:, 0] >= 0).astype(int) if len(self.classes_) == 2 else scores.argmax(axis=1)
        return np.asarray(self.classes_[at])


def _says(scores: Array) -> Array:
    return np.where(scores >= 0, 1.0, -1.0)


def _one_more_right(rows: Array, side: Array) -> Array:
    """Weights that repeat the master of the layer below except on one pattern that it misclassifies.

    Each of the N units besides the master (including the bias) has the weight 1/(N - 1) times the class times its value
    in this pattern; together they outvote the master on this pattern and nowhere else.
    """
    patterns, group = np.unique(rows, axis=0, return_inverse=True)
    lost = np.bincount(group.ravel(), side * rows[:, 1], minlength=len(patterns))
    worst = lost.argmin()
    out = -patterns[worst] * patterns[worst, 1] / max(rows.shape[1] - 2, 1)
    out[1] = 1.0
    return np.asarray(out)


def _mixed(codes: Array, side: Array) -> NDArray[np.int64] | None:
    """Rows of the largest group with equal outputs on all units but both classes."""
    _, group = np.unique(codes, axis=0, return_inverse=True)
    group = group.ravel()
    total, positive = np.bincount(group), np.bincount(group, side > 0)
    both = np.where((positive > 0) & (positive < total), total, 0)
    return None if both.max() == 0 else np.flatnonzero(group == both.argmax())


def _cut_off(rows: Array) -> Array:
    """Plane that cuts off the row farthest from the centre."""
    inputs = rows[:, 1:]
    middle = inputs.mean(axis=0)
    far = inputs[((inputs - middle) ** 2).sum(axis=1).argmax()] - middle
    along = np.unique((inputs - middle) @ far)
    return np.concatenate([[-(along[-1] + along[-2]) / 2 - middle @ far], far])


def _master(X: Array, layers: list[Array]) -> Array:
    inputs = X
    for w in layers[:-1]:
        inputs = _says(w[0] + inputs @ w[1:])
    last = layers[-1][:, 0]
    return np.asarray((last[0] + inputs @ last[1:]) / max(float(np.linalg.norm(last)), 1e-300))


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """Tiling."""
    return Tiling(**options.model_dump())


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the numbers of layers, units and remaining errors over all nets."""
    return {
        "layers": ((), np.array(float(sum(len(n) for n in estimator.layers_)))),
        "units": ((), np.array(float(sum(w.shape[1] for n in estimator.layers_ for w in n)))),
        "errors": ((), np.array(float(sum(e[-1] for e in estimator.errors_)))),
    }


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [Tiling(max_iter=50)]
