r"""Learner ``multiple_kernel``: a support vector machine that learns a weighted sum of kernels.

The kernel is :math:`\sum_m \beta_m K_m` with non-negative weights that sum to one. Weights and machine jointly minimise
:math:`\tfrac12 \sum_m \lVert f_m \rVert^2 / \beta_m + C \sum \text{errors}`, which is jointly convex [1]_. For a fixed
machine the optimal weights are :math:`\beta_m \propto \lVert f_m \rVert`, where
:math:`\lVert f_m \rVert^2 = \beta_m^2 \sum_{ij} \alpha_i \alpha_j y_i y_j K_m(x_i, x_j)` [2]_; machine and weights are
updated in turn until the duality gap is small. Most weights go to zero. Each kernel is divided by the variance of the
training rows in its feature space, so that the weights are comparable. With more than two classes each class is
separated from the rest, with the same kernel weights.

References
----------
.. [1] Rakotomamonjy, Bach, Canu, Grandvalet (2008). SimpleMKL. JMLR 9, 2491-2521.
.. [2] Xu, Jin, Yang, King, Lyu (2010). Simple and efficient multiple kernel learning by group lasso. ICML 27.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.learners.toolbox.estimator import Applies, Estimator, LearnerOptions, NonNegative, Positive, warn_unless
from bayeslab.learners.toolbox.gram import SOLVER_STEPS, check_gram, threads_for

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "MultipleKernelClassifier",
    "MultipleKernelRegressor",
    "Options",
    "build",
    "examples",
    "reported",
]

Array = NDArray[np.float64]
Kind = Literal["linear", "poly", "rbf", "laplacian"]

TASKS = ("classification", "regression")
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = True
MISSING = False
_SOFT = 1e-12


class Options(LearnerOptions):
    """Options of multiple kernel learning."""

    applies: ClassVar[Applies] = {
        "epsilon": {"task": ("regression",)},
    }
    kernels: list[Kind] = Field(["linear", "poly", "rbf"], min_length=1, description="The kinds of kernel to combine.")
    gammas: list[Positive] = Field(
        [0.1, 1.0, 10.0],
        min_length=1,
        description="Scales of rbf and laplacian, one kernel each, in units of one over the number of columns.",
    )
    degree: int = Field(2, ge=1, le=100, description="Of poly: (x·z / columns + 1) to this power.")
    each_input: bool = Field(False, description="Add each kernel on each single column, which weights the inputs.")
    C: float = Field(1.0, gt=0, description="Cost of margin violations; large values give a hard margin.")
    epsilon: float = Field(0.1, ge=0, description="Regression: errors up to this are free, in standard deviations.")
    max_iter: int = Field(100, ge=1, le=10_000_000, description="Maximum number of rounds of machine and weights.")


class _Combined(Estimator, options=Options):
    """Code that both tasks share: the kernels, and the alternating updates of machine and weights."""

    kernels: Any
    gammas: Any
    degree: int
    each_input: bool
    C: float
    max_iter: int
    tol: float

    def _named(self, n_columns: int) -> list[tuple[str, Any, float, Any]]:
        """Name, kind, gamma and columns of each kernel."""
        sets: list[tuple[str, Any]] = [("", slice(None))]
        if self.each_input and n_columns > 1:
            sets += [(f" of {j}", slice(j, j + 1)) for j in range(n_columns)]
        out: list[tuple[str, Any, float, Any]] = []
        for suffix, columns in sets:
            unit = 1.0 / (n_columns if columns == slice(None) else 1)
            for kind in self.kernels:
                if callable(kind):
                    out.append((getattr(kind, "__name__", type(kind).__name__) + suffix, kind, 1.0, columns))
                elif kind in ("rbf", "laplacian"):
                    out += [(f"{kind}({g:g}){suffix}", kind, g * unit, columns) for g in self.gammas]
                else:
                    out.append((f"{kind}{suffix}", kind, unit, columns))
        return out

    def _values(self, one: tuple[str, Any, float, Any], X: Array, Z: Array) -> Array:
        _, kind, gamma, columns = one
        a, b = X[:, columns], Z[:, columns]
        if callable(kind):
            return np.asarray(kind(a, b), float)
        given = {"gamma": gamma, "degree": self.degree, "coef0": 1.0}
        return np.asarray(pairwise_kernels(a, b, metric=kind, filter_params=True, **given), float)

    def _learn(self, X: Array, sides: Sequence[Array]) -> None:
        """Fit one machine for each of ``sides``, and the kernel weights that they share."""
        with threads_for(len(X)):
            self._alternate(X, sides)

    def _alternate(self, X: Array, sides: Sequence[Array]) -> None:
        self._kernels = self._named(X.shape[1])
        grams = np.empty((len(self._kernels), len(X), len(X)))
        for m, one in enumerate(self._kernels):
            grams[m] = check_gram(self._values(one, X, X), one[0])
        spread = np.trace(grams, axis1=1, axis2=2) / len(X) - grams.mean(axis=(1, 2))
        # A kernel without variance over the rows is not scaled.
        self.scales_ = np.where(spread > 1e-12, 1 / np.maximum(spread, 1e-12), 1.0)
        grams *= self.scales_[:, None, None]
        weights = np.full(len(grams), 1 / len(grams))
        self.objectives_: list[float] = []
        for _ in range(self.max_iter):
            self._machines = [self._solved(np.tensordot(weights, grams, 1), side) for side in sides]
            # For each kernel the sum over machines of α' K α, with signed α.
            curves = np.zeros(len(grams))
            for machine in self._machines:
                at, c = machine.support_, machine.dual_coef_[0]
                curves += np.array([c @ gram[np.ix_(at, at)] @ c for gram in grams])
            curves = np.maximum(curves, 0.0)
            mean = float(weights @ curves)
            self.objectives_.append(self._dual(sides) - 0.5 * mean)
            self.gap_ = float(curves.max() - mean) / max(mean, _SOFT)
            self.weights_ = weights
            # If no kernel contributes, the machines are constant and any weights are optimal.
            if self.gap_ < self.tol or mean <= _SOFT:
                break
            # The weights of a machine that is not solved mean nothing, and each further round takes as long.
            if not self._all_solved():
                break
            norms = weights * np.sqrt(curves)
            weights = norms / norms.sum()
            weights = np.where(weights < 1e-8, 0.0, weights)
            weights = weights / weights.sum()
        self.n_iter_ = len(self.objectives_)
        self.converged_ = (self.gap_ < self.tol or mean <= _SOFT) and self._all_solved()
        text = f"the gap is {self.gap_:.2g} after max_iter = {self.max_iter} rounds: allow more (max_iter)"
        if not self._all_solved():
            text = (
                f"the machine is not solved after {SOLVER_STEPS:,} steps, and the kernel weights are those of round"
                f" {self.n_iter_}: take a smaller C than {self.C:g}"
            )
        warn_unless(self.converged_, self, text)
        self.kernel_names_ = [one[0] for one in self._kernels]
        self.support_ = np.unique(np.concatenate([machine.support_ for machine in self._machines]))
        self._rows, self._n = X[self.support_], len(X)

    def _solved(self, gram: Array, side: Array) -> Any:
        """The machine on a matrix; that it stopped early is said once, after all rounds."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return self._solver().fit(gram, side)

    def _all_solved(self) -> bool:
        return all(machine.fit_status_ == 0 for machine in self._machines)

    def _solver(self) -> Any:
        raise NotImplementedError

    def _dual(self, sides: Sequence[Array]) -> float:
        """The linear part of the dual objective."""
        raise NotImplementedError

    def _scores(self, X: Any) -> Array:
        """Score of each machine, shape (rows, machines)."""
        check_is_fitted(self)
        X = np.asarray(validate_data(self, X, reset=False, dtype=np.float64))
        wide = np.zeros((len(X), self._n))
        for weight, scale, one in zip(self.weights_, self.scales_, self._kernels, strict=True):
            # Constant outcomes have no support vectors.
            if weight > 0 and len(self.support_):
                wide[:, self.support_] += weight * scale * self._values(one, X, self._rows)
        answers = "decision_function" if hasattr(self._machines[0], "decision_function") else "predict"
        return np.column_stack([getattr(machine, answers)(wide) for machine in self._machines])


class MultipleKernelClassifier(ClassifierMixin, _Combined):
    """Support vector classification with a weighted sum of kernels.

    Parameters
    ----------
    kernels : sequence of str or callable
        ``linear``, ``poly``, ``rbf``, ``laplacian`` or functions of two sets of rows.
    gammas : sequence of float
        Scales of ``rbf`` and ``laplacian``, in units of one over the number of columns.
    degree : int
        Of ``poly``.
    each_input : bool
        Add each kernel on each single column.
    C : float
    max_iter : int
    tol : float
        Relative duality gap of the weights.

    Attributes
    ----------
    weights_ : ndarray
        Kernel weights, non-negative and summing to one.
    kernel_names_ : list of str
    gap_ : float
        Relative duality gap at the end.
    objectives_ : list of float
        Dual objective after each round; it never increases.
    """

    def __init__(
        self,
        kernels: Any = ("linear", "poly", "rbf"),
        gammas: Any = (0.1, 1.0, 10.0),
        degree: int = 2,
        each_input: bool = False,
        C: float = 1.0,
        max_iter: int = 100,
        tol: NonNegative = 0.01,
    ) -> None:
        self.kernels, self.gammas, self.degree, self.each_input = kernels, gammas, degree, each_input
        self.C, self.max_iter, self.tol = C, max_iter, tol

    def _solver(self) -> Any:
        return SVC(C=self.C, kernel="precomputed", tol=1e-5, max_iter=SOLVER_STEPS)

    def _dual(self, sides: Sequence[Array]) -> float:
        return float(sum(np.abs(machine.dual_coef_).sum() for machine in self._machines))

    def fit(self, X: Any, y: Any) -> Self:
        """Learn machines and weights."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"A machine needs rows of two classes; there is one class, {self.classes_[0]!r}")
        positives = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        self._learn(X, [np.where(y == c, 1.0, -1.0) for c in positives])
        return self

    def decision_function(self, X: Any) -> Array:
        """Scores: for two classes positive for the second class, else one column per class against the rest."""
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row."""
        scores = self.decision_function(X)
        at = (scores > 0).astype(int) if len(self.classes_) == 2 else scores.argmax(axis=1)
        return np.asarray(self.classes_[at])


class MultipleKernelRegressor(RegressorMixin, _Combined):
    """Support vector regression with a weighted sum of kernels.

    Parameters
    ----------
    kernels, gammas, degree, each_input, C, max_iter, tol
        As in :class:`MultipleKernelClassifier`.
    epsilon : float
        Errors up to this size have no cost.

    Attributes
    ----------
    weights_, kernel_names_, gap_, objectives_
        As in :class:`MultipleKernelClassifier`.
    """

    def __init__(
        self,
        kernels: Any = ("linear", "poly", "rbf"),
        gammas: Any = (0.1, 1.0, 10.0),
        degree: int = 2,
        each_input: bool = False,
        C: float = 1.0,
        epsilon: float = 0.1,
        max_iter: int = 100,
        tol: NonNegative = 0.01,
    ) -> None:
        self.kernels, self.gammas, self.degree, self.each_input = kernels, gammas, degree, each_input
        self.C, self.epsilon, self.max_iter, self.tol = C, epsilon, max_iter, tol

    def _solver(self) -> Any:
        return SVR(C=self.C, epsilon=self.epsilon, kernel="precomputed", tol=1e-5, max_iter=SOLVER_STEPS)

    def _dual(self, sides: Sequence[Array]) -> float:
        machine, y = self._machines[0], sides[0]
        c = machine.dual_coef_[0]
        return float(c @ y[machine.support_] - self.epsilon * np.abs(c).sum())

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the machine and the weights."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self._learn(X, [np.asarray(y, float)])
        return self

    def predict(self, X: Any) -> Array:
        """The number of each row."""
        return self._scores(X)[:, 0]


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """Return the machine; numeric targets are standardised, so that C and epsilon have no unit."""
    given = options.model_dump()
    epsilon = given.pop("epsilon")
    if task == "classification":
        return MultipleKernelClassifier(**given)
    return TransformedTargetRegressor(MultipleKernelRegressor(epsilon=epsilon, **given), transformer=StandardScaler())


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the kernels with positive weight, their weights, and the number of support vectors."""
    machine = getattr(estimator, "regressor_", estimator)
    used = np.flatnonzero(machine.weights_ > 0.01)
    out: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        f"weight of {machine.kernel_names_[m]}": ((), np.array(machine.weights_[m])) for m in used
    }
    return out | {"n_support": ((), np.array(float(len(machine.support_))))}


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [MultipleKernelClassifier(max_iter=5), MultipleKernelRegressor(max_iter=5)]
