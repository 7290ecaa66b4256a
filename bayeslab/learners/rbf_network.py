r"""Learner ``rbf_network``: a radial basis function network: a linear function of Gaussian basis functions.

:math:`\hat f(x) = w_0 + \sum_u w_u \exp(-\|x - c_u\|^2/2\sigma_u^2)`, trained in two stages [1]_: first the centres and
widths, from the inputs alone; then the weights, by least squares. With a basis function on every row the network
interpolates the training values. Fewer centres are placed by clustering (k-means, or a mixture of Gaussians, which also
gives the widths), or one after the other on the row farthest from the centres so far, so that the centres are nested.

References
----------
.. [1] Moody, Darken (1989). Fast learning in networks of locally-tuned processing units. Neural Computation 1, 281-294.
.. [2] Powell (1987). Radial basis functions for multivariable interpolation. In: Algorithms for Approximation.
.. [3] Gonzalez (1985). Clustering to minimize the maximum intercluster distance. TCS 38, 293-306 (farthest first).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances
from sklearn.mixture import GaussianMixture
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.learners.toolbox.estimator import MANY, Applies, Estimator, LearnerOptions

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "Options",
    "RBFClassifier",
    "RBFRegressor",
    "build",
    "examples",
    "reported",
]

Array = NDArray[np.float64]

TASKS = ("classification", "regression")
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = True
MISSING = False


class Options(LearnerOptions):
    """Options of radial basis functions."""

    applies: ClassVar[Applies] = {
        "n_centres": {"centres": ("kmeans", "mixture", "farthest")},
    }
    centres: Literal["all", "kmeans", "mixture", "farthest"] = Field(
        "kmeans", description="Placement of the centres: all rows, clusters, or farthest-first rows."
    )
    n_centres: int = Field(
        20, ge=1, le=MANY, description="Number of basis functions; all distinct rows if there are fewer."
    )
    width: float | None = Field(
        None, gt=0, description="Standard deviation; default: from the spacing of the centres, or the mixture."
    )
    alpha: float = Field(1e-6, ge=0, description="Penalty on the squared weights; 0: least squares.")


class _Bumps(Estimator, options=Options):
    """Placement of the basis functions, and least squares on them."""

    def __init__(
        self,
        centres: str = "kmeans",
        n_centres: int = 20,
        width: float | None = None,
        alpha: float = 1e-6,
        random_state: Any = None,
    ) -> None:
        self.centres, self.n_centres, self.width = centres, n_centres, width
        self.alpha, self.random_state = alpha, random_state

    def _place(self, X: Array) -> None:
        rng = check_random_state(self.random_state)
        distinct = np.unique(X, axis=0)
        k, widths = min(self.n_centres, len(distinct)), None
        if self.centres == "all":
            self.centres_ = distinct
        elif self.centres == "farthest":
            self.centres_ = farthest_first(X, k)
        elif self.centres == "kmeans":
            self.centres_ = KMeans(k, n_init=3, random_state=rng).fit(X).cluster_centers_
        else:
            mixture = GaussianMixture(
                k, covariance_type="spherical", reg_covar=1e-4, max_iter=1000, random_state=rng
            ).fit(X)
            # Neighbours must overlap: twice the deviation, and at least twice the distance to the next centre.
            self.centres_ = mixture.means_
            widths = 2 * np.maximum(np.sqrt(mixture.covariances_), _to_next(mixture.means_))
        if self.width is not None:
            widths = np.full(len(self.centres_), float(self.width))
        if widths is None:  # twice the mean distance of a centre to the nearest other centre
            widths = np.full(len(self.centres_), 2 * float(_to_next(self.centres_).mean()) or 1.0)
        self.widths_ = widths

    def _bumps(self, X: Array) -> Array:
        gap = pairwise_distances(X, self.centres_) / self.widths_
        return np.exp(-0.5 * gap**2)

    def _solve(self, X: Array, target: Array) -> None:
        """Solve the least squares problem; the intercept is not penalised."""
        bumps = self._bumps(X)
        centre, level = bumps.mean(axis=0), target.mean(axis=0)
        rows, wanted = bumps - centre, target - level
        if self.alpha > 0:
            ridge = np.sqrt(self.alpha) * np.eye(rows.shape[1])
            rows, wanted = np.vstack([rows, ridge]), np.concatenate([wanted, np.zeros((len(ridge), *wanted.shape[1:]))])
        self.coef_ = np.linalg.lstsq(rows, wanted, rcond=None)[0]
        self.intercept_ = level - centre @ self.coef_

    def _value(self, X: Any) -> Array:
        check_is_fitted(self)
        X = np.asarray(validate_data(self, X, reset=False, dtype=np.float64))
        return np.asarray(self._bumps(X) @ self.coef_ + self.intercept_)


def farthest_first(X: Array, k: int) -> Array:
    """Return k rows: the row nearest to the mean, then repeatedly the row farthest from those chosen."""
    chosen = [int(np.argmin(np.linalg.norm(X - X.mean(axis=0), axis=1)))]
    gap = np.linalg.norm(X - X[chosen[0]], axis=1)
    while len(chosen) < k:
        chosen.append(int(np.argmax(gap)))
        gap = np.minimum(gap, np.linalg.norm(X - X[chosen[-1]], axis=1))
    return np.asarray(X[chosen])


def _to_next(centres: Array) -> Array:
    """Distance of each centre to the nearest other centre; zero for a single centre."""
    if len(centres) < 2:
        return np.zeros(len(centres))
    gap = pairwise_distances(centres)
    np.fill_diagonal(gap, np.inf)
    return np.asarray(gap.min(axis=1))


class RBFRegressor(RegressorMixin, _Bumps):
    """Regression on Gaussian basis functions.

    Parameters
    ----------
    centres : {"all", "kmeans", "mixture", "farthest"}
    n_centres : int
        All distinct rows are centres if there are fewer.
    width : float or None
        None: twice the mean distance between neighbouring centres; with ``mixture`` the width of each component.
    alpha : float
        Penalty on the squared weights.
    random_state : int or None

    Attributes
    ----------
    centres_, widths_ : ndarray
    coef_ : ndarray
    intercept_ : float
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Place the basis functions, then solve for the weights."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self._place(X)
        self._solve(X, np.asarray(y, float))
        return self

    def predict(self, X: Any) -> Array:
        """The number."""
        return self._value(X)


class RBFClassifier(ClassifierMixin, _Bumps):
    """Classification by regression of the class indicators on Gaussian basis functions.

    Parameters
    ----------
    centres, n_centres, width, alpha, random_state
        As in :class:`RBFRegressor`.

    Attributes
    ----------
    centres_, widths_, coef_, intercept_ : ndarray
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Place the basis functions, then solve for the weights."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"A network needs rows of two classes; there is one class, {self.classes_[0]!r}")
        self._place(X)
        self._solve(X, np.eye(len(self.classes_))[codes])
        return self

    def decision_function(self, X: Any) -> Array:
        """Outputs, one column per class; for two classes the second minus the first."""
        value = self._value(X)
        return np.asarray(value[:, 1] - value[:, 0] if len(self.classes_) == 2 else value)

    def predict(self, X: Any) -> np.ndarray:
        """The class with the largest output."""
        score = self.decision_function(X)
        best = (score > 0).astype(int) if len(self.classes_) == 2 else score.argmax(axis=1)
        return np.asarray(self.classes_[best])


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The network of the task."""
    kind = RBFClassifier if task == "classification" else RBFRegressor
    return kind(options.centres, options.n_centres, options.width, options.alpha)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the number of basis functions and their mean width."""
    return {
        "centres": ((), np.array(float(len(estimator.centres_)))),
        "width": ((), np.array(float(estimator.widths_.mean()))),
    }


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [RBFRegressor(), RBFClassifier(centres="farthest")]
