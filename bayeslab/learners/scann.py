r"""Learner ``scann``: correspondence analysis of the members' predicted classes, then the nearest class mean.

Out-of-fold predictions are coded as indicators, one column for each member and class. Their correspondence analysis
(the singular value decomposition of the standardised residuals of the table) gives coordinates that are uncorrelated,
however similar the members are. A row is assigned to the class with the nearest mean [1]_.

References
----------
.. [1] Merz (1999). Using correspondence analysis to combine classifiers. Machine Learning 36, 33-58.
.. [2] Greenacre (2017). Correspondence analysis in practice. 3rd ed., Chapman & Hall/CRC.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator

from bayeslab.learners.toolbox.estimator import MANY
from bayeslab.learners.toolbox.members import EnsembleClassifier, MemberOptions, built_all

__all__ = ["CATEGORIES", "MISSING", "SCALE", "TASKS", "Options", "Scann", "build", "examples", "reported"]

Array = NDArray[np.float64]

TASKS = ("classification",)
CATEGORIES: Literal["codes", "indicators"] = "codes"
SCALE = False
MISSING = False


class Options(MemberOptions):
    """Options of SCANN."""

    n_components: int | None = Field(None, ge=1, le=MANY, description="Number of dimensions; default: all.")


class Scann(EnsembleClassifier, options=Options):
    """Nearest class mean in the correspondence analysis of the members' predictions.

    Parameters
    ----------
    estimators : list of estimators or None
        Members; None: a tree, naive Bayes and nearest neighbours.
    n_components : int or None
    cv : int
    random_state : int or None

    Attributes
    ----------
    estimators_ : list
    inertias_ : ndarray
        Squared singular values of the kept dimensions.
    coordinates_ : ndarray, shape (rows, dimensions)
        Coordinates of the training rows.
    means_ : ndarray, shape (classes, dimensions)
    """

    def __init__(
        self, estimators: Any = None, n_components: int | None = None, cv: int = 5, random_state: Any = None
    ) -> None:
        self.estimators, self.n_components, self.cv, self.random_state = estimators, n_components, cv, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Analyse out-of-fold predictions and compute class means; then train the members on all rows."""
        X, codes = self._rows(X, y)
        rng, members, k = self._rng(), self._members(), len(self.classes_)
        table = _indicators(self._left_out(X, codes, rng))
        mass = table.mean(axis=0) / len(members)
        used = mass > 0
        # All rows have the same mass, 1/N, because every member predicts one class.
        residuals = (table[:, used] / len(members) - mass[used]) / np.sqrt(mass[used]) / np.sqrt(len(X))
        _, singular, right = np.linalg.svd(residuals, full_matrices=False)
        n = int(np.sum(singular > 1e-9 * max(float(singular.max(initial=0)), 1e-9)))
        n = max(1, min(n, self.n_components or n))
        self.inertias_ = singular[:n] ** 2
        self._mass = mass
        self._axes = np.zeros((n, len(mass)))
        self._axes[:, used] = right[:n] / np.sqrt(mass[used])
        self.coordinates_ = self._placed(table)
        self.means_ = np.array([self.coordinates_[codes == c].mean(axis=0) for c in range(k)])
        self._train(members, X, codes, rng)
        return self

    def _placed(self, table: Array) -> Array:
        """Coordinates of rows, analysed or new, from their profiles."""
        n_members = len(self._mass) // len(self.classes_)
        return np.asarray((table / n_members - self._mass) @ self._axes.T)

    def coordinates(self, X: Any) -> Array:
        """Coordinates of rows, (rows, dimensions)."""
        return self._placed(_indicators(self._outputs(self._new(X))))

    def decision_function(self, X: Any) -> Array:
        """Minus the squared distance to each class mean; for two classes the second minus the first."""
        at = self.coordinates(X)
        scores = -((at[:, None, :] - self.means_) ** 2).sum(axis=2)
        return np.asarray(scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores)

    def predict(self, X: Any) -> np.ndarray:
        """The class of the nearest mean."""
        scores = self.decision_function(X)
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[best])


def _indicators(given: Array) -> Array:
    """Predicted classes as indicators, shape (rows, members × classes)."""
    crisp = np.eye(given.shape[2])[given.argmax(axis=2)]
    return np.asarray(np.moveaxis(crisp, 0, 1).reshape(given.shape[1], -1))


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The members and the analysis."""
    return Scann(built_all(options.learners, task, categorical), options.n_components, options.cv)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the inertia of the kept dimensions."""
    return {"inertia": (("dimension",), estimator.inertias_)}


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [Scann(cv=2)]
