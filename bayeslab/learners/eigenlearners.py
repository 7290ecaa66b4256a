"""Learner ``eigenlearners``: logistic regression on the principal components of the members' probabilities.

Similar members share a component, so that the combiner has fewer inputs, which are uncorrelated.

References
----------
.. [1] Merz, Pazzani (1999). A principal components approach to combining regression estimates. Machine Learning 36,
   9-32.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from bayeslab.learners.toolbox.estimator import MANY, Applies
from bayeslab.learners.toolbox.members import EnsembleClassifier, MemberOptions, built_all

__all__ = ["CATEGORIES", "MISSING", "SCALE", "TASKS", "Eigenlearners", "Options", "build", "examples", "reported"]

Array = NDArray[np.float64]

TASKS = ("classification",)
CATEGORIES: Literal["codes", "indicators"] = "codes"
SCALE = False
MISSING = False


class Options(MemberOptions):
    """Options of eigenlearners."""

    applies: ClassVar[Applies] = {
        "share": {"n_components": (None,)},
    }
    n_components: int | None = Field(
        None, ge=1, le=MANY, description="Number of components; default: as many as reach the share of variance."
    )
    share: float = Field(0.95, gt=0, lt=1, description="Share of the variance that the kept components explain.")


class Eigenlearners(EnsembleClassifier, options=Options):
    """Logistic regression on principal components of the probabilities of members.

    Parameters
    ----------
    estimators : list of estimators or None
        Members; None: a tree, naive Bayes and nearest neighbours.
    n_components : int or None
        None: as many as explain the share of variance.
    share : float
    cv : int
    random_state : int or None

    Attributes
    ----------
    estimators_ : list
    pca_ : PCA
    components_ : ndarray, shape (rows, components)
        Out-of-fold components of the training rows.
    combiner_ : LogisticRegression
    """

    def __init__(
        self,
        estimators: Any = None,
        n_components: int | None = None,
        share: float = 0.95,
        cv: int = 5,
        random_state: Any = None,
    ) -> None:
        self.estimators, self.n_components, self.share = estimators, n_components, share
        self.cv, self.random_state = cv, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit components and combiner on out-of-fold probabilities; then train the members on all rows."""
        X, codes = self._rows(X, y)
        rng = self._rng()
        table = _flat(self._left_out(X, codes, rng))
        n = self.n_components
        wanted: Any = self.share if n is None else min(n, *table.shape)
        self.pca_ = PCA(wanted, svd_solver="full").fit(table)
        self.components_ = self.pca_.transform(table)
        self._scaler = StandardScaler().fit(self.components_)
        self.combiner_ = LogisticRegression(max_iter=1000).fit(self._scaler.transform(self.components_), codes)
        self._train(self._members(), X, codes, rng)
        return self

    def components(self, X: Any) -> Array:
        """Components of rows."""
        given = self._outputs(self._new(X))
        return np.asarray(self.pca_.transform(_flat(given)))

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities from the combiner."""
        at = self.components(X)
        return np.asarray(self.combiner_.predict_proba(self._scaler.transform(at)))


def _flat(given: Array) -> Array:
    return np.asarray(np.moveaxis(given, 0, 1).reshape(given.shape[1], -1))


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The members and their components."""
    members = built_all(options.learners, task, categorical)
    return Eigenlearners(members, options.n_components, options.share, options.cv)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Share of variance of the components kept."""
    return {"variance_share": (("component",), estimator.pca_.explained_variance_ratio_)}


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [Eigenlearners(cv=2)]
