r"""Learner ``kernel_perceptron``: a perceptron in the feature space of a kernel.

The weight vector is a sum over rows, each multiplied by the number of times it was misclassified, so that only inner
products are needed: :math:`f(x) = \sum_i c_i y_i K(x_i, x)`. By default the averages of these sums over all steps are
used, which come close to the vote of all intermediate perceptrons [1]_ (section 5) and generalise like a margin
classifier. With more than two classes each class is separated from the rest.

References
----------
.. [1] Freund, Schapire (1999). Large margin classification using the perceptron algorithm. Machine Learning 37.
.. [2] Aizerman, Braverman, Rozonoer (1964). Theoretical foundations of the potential function method in pattern
   recognition learning. Automation and Remote Control 25.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.learners.toolbox.descent_kernels import kernel_perceptron as one_pass
from bayeslab.learners.toolbox.estimator import Applies, Estimator, LearnerOptions, warn_unless

__all__ = ["CATEGORIES", "MISSING", "SCALE", "TASKS", "KernelPerceptron", "Options", "build", "examples", "reported"]

TASKS = ("classification",)
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = True
MISSING = False


class Options(LearnerOptions):
    """Options of the kernel perceptron."""

    applies: ClassVar[Applies] = {
        "gamma": {"kernel": ("poly", "rbf", "laplacian")},
        "degree": {"kernel": ("poly",)},
    }
    kernel: Literal["linear", "poly", "rbf", "laplacian"] = Field("rbf", description="The kernel.")
    gamma: float | None = Field(None, gt=0, description="Scale of the kernel; default: one over the number of columns.")
    degree: int = Field(2, ge=1, le=100, description="Of poly: (gamma x·z + 1) to this power.")
    max_iter: int = Field(10, ge=1, le=10_000_000, description="Maximum number of passes over the rows.")
    averaged: bool = Field(True, description="Use the average over all steps instead of the last weights.")


# scikit-learn kernels that are available from Python only.
_MORE = ("precomputed", "cosine", "sigmoid", "polynomial", "chi2", "additive_chi2")


class KernelPerceptron(ClassifierMixin, Estimator, options=Options, words={"kernel": _MORE}):
    """A perceptron in its dual form, on kernel values.

    Parameters
    ----------
    kernel : str or callable
        As for :func:`sklearn.metrics.pairwise.pairwise_kernels`.
    gamma : float or None
        None: one over the number of columns.
    degree, coef0 : number
        Of ``poly``.
    max_iter : int
    averaged : bool
    random_state : int or None

    Attributes
    ----------
    dual_coef_ : ndarray, shape (n_units, n_support)
        Signed (averaged) counts for the rows that were ever misclassified.
    support_ : ndarray of int
        Positions of those rows.
    n_updates_ : ndarray of int
    converged_ : bool
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        gamma: float | None = None,
        degree: int = 2,
        coef0: float = 1.0,
        max_iter: int = 10,
        averaged: bool = True,
        random_state: Any = None,
    ) -> None:
        self.kernel, self.gamma, self.degree, self.coef0 = kernel, gamma, degree, coef0
        self.max_iter, self.averaged, self.random_state = max_iter, averaged, random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _kernel(self, X: Any, Z: Any) -> np.ndarray:
        given = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        if self.gamma is None:
            given["gamma"] = 1.0 / X.shape[1]
        return np.asarray(pairwise_kernels(X, Z, metric=self.kernel, filter_params=True, **given), float)

    def fit(self, X: Any, y: Any) -> Self:
        """Pass over the rows until a pass makes no mistake."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"A perceptron needs rows of two classes; there is one class, {self.classes_[0]!r}")
        gram = np.ascontiguousarray(self._kernel(X, X))
        rng = check_random_state(self.random_state)
        positives = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        coefficients, updates, ends, passes = [], [], [], []
        for c in positives:
            side = np.where(y == c, 1.0, -1.0)
            counts, average, scores = np.zeros(len(X)), np.zeros(len(X)), np.zeros(len(X))
            changed, done, total = -1, 0, 0
            while done < self.max_iter and changed != 0:
                before, summed = counts.copy(), np.zeros(len(X))
                changed = one_pass(gram, side, rng.permutation(len(X)), counts, summed, scores)
                average += before * len(X) + summed
                done, total = done + 1, total + changed
            coefficients.append(side * (average / (done * len(X)) if self.averaged else counts))
            updates.append(total)
            ends.append(changed == 0)
            passes.append(done)
        signed = np.array(coefficients)
        self.support_ = np.flatnonzero(np.any(signed != 0, axis=0))
        self.dual_coef_ = signed[:, self.support_]
        self._rows = X[self.support_]
        self.n_updates_, self.n_iter_, self.converged_ = np.array(updates), np.array(passes), all(ends)
        text = f"rows are still wrong after max_iter = {self.max_iter} passes: allow more, or take another kernel"
        warn_unless(self.converged_, self, text)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores, shape (rows,) for two classes, else (rows, classes)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        kernel = X[:, self.support_] if self.kernel == "precomputed" else self._kernel(X, self._rows)
        scores = kernel @ self.dual_coef_.T
        return np.asarray(scores[:, 0] if len(self.classes_) == 2 else scores)

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row."""
        scores = self.decision_function(X)
        at = (scores > 0).astype(int) if len(self.classes_) == 2 else scores.argmax(axis=1)
        return np.asarray(self.classes_[at])


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The kernel perceptron."""
    return KernelPerceptron(**options.model_dump())


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the number of support rows and of updates."""
    return {
        "n_support": ((), np.array(float(len(estimator.support_)))),
        "updates": ((), np.array(float(estimator.n_updates_.sum()))),
        "converged": ((), np.array(float(estimator.converged_))),
    }


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [KernelPerceptron(), KernelPerceptron(kernel="poly", averaged=False)]
