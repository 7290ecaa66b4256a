r"""Learner ``kernel_density``: Bayes' rule with a Gaussian kernel density estimate for each class.

.. math:: \hat p(x) = \frac{1}{N} \sum_i \frac{1}{(w\sqrt{2\pi})^d} \exp\left(-\frac{\|x - x_i\|^2}{2w^2}\right)

The normaliser is :math:`(w\sqrt{2\pi})^d`; the :math:`(w^2\sqrt{2\pi})^d` found in print makes the density integrate to
:math:`w^{-d}`. The width maximises the leave-one-out likelihood. The k-nearest-neighbour density :math:`k/(N V_k)`,
with the volume :math:`V_k` of the ball that contains the k nearest rows, adapts to the local density of the rows
instead [2]_. A joint density and a marginal density give the conditional density :math:`p(y|x) = p(x, y)/p(x)`.

References
----------
.. [1] Parzen (1962). On estimation of a probability density function and mode. Annals of Mathematical Statistics 33.
.. [2] Loftsgaarden, Quesenberry (1965). A nonparametric estimate of a multivariate density function. AMS 36, 1049-1051.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import gammaln, logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin, DensityMixin
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import KernelDensity as Tree
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.constants import LOG_PI
from bayeslab.learners.toolbox.estimator import Count, Estimator, LearnerOptions
from bayeslab.learners.toolbox.lazy import Lazy

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "KernelDensity",
    "KernelDensityClassifier",
    "NeighborDensity",
    "Options",
    "build",
    "conditional_density",
    "examples",
    "left_out_log_density",
    "reported",
]

Array = NDArray[np.float64]

TASKS = ("classification",)
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = True
MISSING = False

_BLOCK = 4_000_000


class Options(LearnerOptions):
    """Options of kernel densities."""

    width: float | None = Field(
        None, gt=0, description="Standard deviation of the windows; default: chosen for each class by leaving one out."
    )


def left_out_log_density(X: Array, widths: Array) -> Array:
    """Return the mean leave-one-out log density for each width."""
    n, d = X.shape
    total = np.zeros(len(widths))
    step = max(1, _BLOCK // n)
    for a in range(0, n, step):
        # Differences, not products, so that identical rows are at distance exactly zero.
        squared = pairwise_distances(X[a : a + step], X, metric="euclidean") ** 2
        squared[np.arange(len(squared)), np.arange(a, a + len(squared))] = np.inf
        total += [logsumexp(-0.5 * squared / w**2, axis=1).sum() for w in widths]
    return np.asarray(total / n - np.log(n - 1) - d * np.log(widths * np.sqrt(2 * np.pi)))


def _chosen(X: Array) -> float:
    """Return the width with the largest leave-one-out likelihood, on a grid around the rule of thumb."""
    n, d = X.shape
    spread = float(np.sqrt(X.var(axis=0).mean()))
    if n < 2 or spread == 0:
        return 1.0
    thumb = spread * (4 / (d + 2)) ** (1 / (d + 4)) * n ** (-1 / (d + 4))
    # With duplicated rows the likelihood has no maximum above width zero; the grid bounds it.
    widths = thumb * np.geomspace(0.1, 4, 25)
    return float(widths[int(np.argmax(left_out_log_density(X, widths)))])


class KernelDensity(DensityMixin, Estimator, options=Options):
    """Gaussian kernel density estimate.

    Parameters
    ----------
    width : float or None
        None: the one with the largest leave-one-out likelihood.

    Attributes
    ----------
    width_ : float
    """

    def __init__(self, width: float | None = None) -> None:
        self.width = width

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store the rows; choose the width."""
        X = np.asarray(validate_data(self, X, dtype=np.float64))
        self.width_ = float(self.width or _chosen(X))
        self._tree = Tree(bandwidth=self.width_).fit(X)
        return self

    def score_samples(self, X: Any) -> Array:
        """Log density of each row."""
        check_is_fitted(self)
        return np.asarray(self._tree.score_samples(validate_data(self, X, reset=False, dtype=np.float64)))

    def score(self, X: Any, y: Any = None) -> float:
        """Sum of the log densities."""
        return float(self.score_samples(X).sum())


class NeighborDensity(DensityMixin, Estimator, options=Options):
    """Nearest-neighbour density: k/(N V), with the volume V of the smallest ball that contains the k nearest rows.

    Parameters
    ----------
    n_neighbors : int
    """

    def __init__(self, n_neighbors: Count = 10) -> None:
        self.n_neighbors = n_neighbors

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store the rows."""
        X = validate_data(self, X, dtype=np.float64)
        if not 1 <= self.n_neighbors <= len(X):
            raise ValueError(f"n_neighbors is {self.n_neighbors!r}, and there are n_samples = {len(X)} rows")
        self._index = NearestNeighbors(algorithm="kd_tree").fit(X)
        self.n_samples_ = len(X)
        return self

    def score_samples(self, X: Any) -> Array:
        """Log density of each row; infinite where k training rows are identical to it."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        radius, d = self._index.kneighbors(X, self.n_neighbors)[0][:, -1], X.shape[1]
        ball = 0.5 * d * LOG_PI - gammaln(0.5 * d + 1)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.n_neighbors / self.n_samples_) - ball - d * np.log(radius))

    def score(self, X: Any, y: Any = None) -> float:
        """Sum of the log densities."""
        return float(self.score_samples(X).sum())


def conditional_density(joint: Any, x: Any, values: Any) -> Array:
    """Conditional density of the last column at these values, given the others: p(y|x) = p(x, y)/p(x).

    Parameters
    ----------
    joint
        A fitted density, with ``score_samples``, of the columns x and y.
    x
        Given values of all columns but the last.
    values
        Equally spaced values of y that cover its range; p(x) is the sum of the joint density over them.
    """
    at = np.asarray(values, float)
    rows = np.column_stack([np.broadcast_to(np.asarray(x, float), (len(at), np.size(x))), at])
    log = joint.score_samples(rows)
    return np.asarray(np.exp(log - logsumexp(log)) / (at[1] - at[0]))


class KernelDensityClassifier(ClassifierMixin, Lazy, Estimator, options=Options):
    """Bayes' rule with a density of each class.

    Parameters
    ----------
    width : float or None
        None: chosen for each class by leaving one out.

    Attributes
    ----------
    widths_ : ndarray
        Width for each class.
    """

    def __init__(self, width: float | None = None) -> None:
        self.width = width

    def fit(self, X: Any, y: Any) -> Self:
        """A density for each class."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        self._rows = X, y
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self._log_prior = np.log(np.bincount(codes) / len(codes))
        self._densities = [KernelDensity(self.width).fit(X[codes == c]) for c in range(len(self.classes_))]
        self.widths_ = np.array([density.width_ for density in self._densities])
        return self

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        joint = np.stack([density.score_samples(X) for density in self._densities], axis=1) + self._log_prior
        return np.asarray(joint - logsumexp(joint, axis=1, keepdims=True))

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class."""
        best = self.predict_log_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The classifier."""
    return KernelDensityClassifier(options.width)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Widths of the classes."""
    return {"width": (("class",), estimator.widths_)}


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [KernelDensityClassifier(), KernelDensity(), NeighborDensity(5)]
