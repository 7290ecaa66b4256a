r"""Learner ``multiple_kernel``: a support vector machine that chooses among kernels.

Its kernel is :math:`\sum_m \beta_m K_m` with weights of zero or more that add up to one, learned with the machine:
the least of :math:`\tfrac12 \sum_m \lVert f_m \rVert^2 / \beta_m + C \sum \text{errors}`, which is convex in all of it
[1]_. With the machine fixed the best weights are :math:`\beta_m \propto \lVert f_m \rVert`, where
:math:`\lVert f_m \rVert^2 = \beta_m^2 \sum_{ij} \alpha_i \alpha_j y_i y_j K_m(x_i, x_j)` [2]_; machine and weights are
improved in turn until the duality gap is small. Most weights go to zero. Kernels are divided by the variance of the
training rows in their feature space, so that weights can be compared. Of several classes each is told from the rest,
with the same weights.

References
----------
.. [1] Rakotomamonjy, Bach, Canu, Grandvalet (2008). SimpleMKL. JMLR 9, 2491-2521.
.. [2] Xu, Jin, Yang, King, Lyu (2010). Simple and efficient multiple kernel learning by group lasso. ICML 27.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.learners.toolbox.estimator import Applies, Estimator, LearnerOptions, NonNegative, Positive, warn_unless
from bayeslab.learners.toolbox.gram import check_gram

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
    kernels: list[Kind] = Field(["linear", "poly", "rbf"], min_length=1, description="Kinds of kernels.")
    gammas: list[Positive] = Field(
        [0.1, 1.0, 10.0],
        min_length=1,
        description="Of rbf and laplacian, one kernel each, in units of one over the number of columns.",
    )
    degree: int = Field(2, ge=1, le=100, description="Of poly: (x·z / columns + 1) to this power.")
    each_input: bool = Field(False, description="Each kernel also for each column alone, which weighs the inputs.")
    C: float = Field(1.0, gt=0, description="Price of a row in the street; large: a hard margin.")
    epsilon: float = Field(0.1, ge=0, description="Of a regression: errors that cost nothing, in standard deviations.")
    max_iter: int = Field(100, ge=1, le=10_000_000, description="Rounds of machine and weights at most.")


class _Combined(Estimator, options=Options):
    """What both tasks share: the kernels, and rounds of machine and weights."""

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
        """Machines, one for each of ``sides``, and the weights that serve them all."""
        self._kernels = self._named(X.shape[1])
        grams = np.empty((len(self._kernels), len(X), len(X)))
        for m, one in enumerate(self._kernels):
            grams[m] = check_gram(self._values(one, X, X), one[0])
        spread = np.trace(grams, axis1=1, axis2=2) / len(X) - grams.mean(axis=(1, 2))
        # A kernel that says the same of all rows stays as it is.
        self.scales_ = np.where(spread > 1e-12, 1 / np.maximum(spread, 1e-12), 1.0)
        grams *= self.scales_[:, None, None]
        weights = np.full(len(grams), 1 / len(grams))
        self.objectives_: list[float] = []
        for _ in range(self.max_iter):
            self._machines = [self._solver().fit(np.tensordot(weights, grams, 1), side) for side in sides]
            # Of each kernel the sum over machines of α' K α, α with its signs.
            curves = np.zeros(len(grams))
            for machine in self._machines:
                at, c = machine.support_, machine.dual_coef_[0]
                curves += np.array([c @ gram[np.ix_(at, at)] @ c for gram in grams])
            curves = np.maximum(curves, 0.0)
            mean = float(weights @ curves)
            self.objectives_.append(self._dual(sides) - 0.5 * mean)
            self.gap_ = float(curves.max() - mean) / max(mean, _SOFT)
            self.weights_ = weights
            # Where no kernel has a curve the machines are constant, and any weights are best.
            if self.gap_ < self.tol or mean <= _SOFT:
                break
            norms = weights * np.sqrt(curves)
            weights = norms / norms.sum()
            weights = np.where(weights < 1e-8, 0.0, weights)
            weights = weights / weights.sum()
        self.n_iter_ = len(self.objectives_)
        self.converged_ = self.gap_ < self.tol or mean <= _SOFT
        text = f"the gap is {self.gap_:.2g} after max_iter = {self.max_iter} rounds: allow more (max_iter)"
        warn_unless(self.converged_, self, text)
        self.kernel_names_ = [one[0] for one in self._kernels]
        self.support_ = np.unique(np.concatenate([machine.support_ for machine in self._machines]))
        self._rows, self._n = X[self.support_], len(X)

    def _solver(self) -> Any:
        raise NotImplementedError

    def _dual(self, sides: Sequence[Array]) -> float:
        """The linear part of the dual objective."""
        raise NotImplementedError

    def _scores(self, X: Any) -> Array:
        """Of each machine, shape (rows, machines)."""
        check_is_fitted(self)
        X = np.asarray(validate_data(self, X, reset=False, dtype=np.float64))
        wide = np.zeros((len(X), self._n))
        for weight, scale, one in zip(self.weights_, self.scales_, self._kernels, strict=True):
            # Of outcomes that do not vary there are no support vectors.
            if weight > 0 and len(self.support_):
                wide[:, self.support_] += weight * scale * self._values(one, X, self._rows)
        answers = "decision_function" if hasattr(self._machines[0], "decision_function") else "predict"
        return np.column_stack([getattr(machine, answers)(wide) for machine in self._machines])


class MultipleKernelClassifier(ClassifierMixin, _Combined):
    """A support vector machine on a weighted sum of kernels: a class.

    Parameters
    ----------
    kernels : sequence of str or callable
        ``linear``, ``poly``, ``rbf``, ``laplacian`` or functions of two sets of rows.
    gammas : sequence of float
        Of ``rbf`` and ``laplacian``, in units of one over the number of columns.
    degree : int
        Of ``poly``.
    each_input : bool
        Also one of each for each column alone.
    C : float
    max_iter : int
    tol : float
        Relative duality gap of the weights.

    Attributes
    ----------
    weights_ : ndarray
        Of the kernels; zero or more, of sum one.
    kernel_names_ : list of str
    gap_ : float
        Relative duality gap at the end.
    objectives_ : list of float
        Value of the dual problem round by round; never rises.
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
        return SVC(C=self.C, kernel="precomputed", tol=1e-5)

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
        """Scores: of two classes above zero for the second, else each class against the rest."""
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row."""
        scores = self.decision_function(X)
        at = (scores > 0).astype(int) if len(self.classes_) == 2 else scores.argmax(axis=1)
        return np.asarray(self.classes_[at])


class MultipleKernelRegressor(RegressorMixin, _Combined):
    """A support vector machine on a weighted sum of kernels: a number.

    Parameters
    ----------
    kernels, gammas, degree, each_input, C, max_iter, tol
        As of :class:`MultipleKernelClassifier`.
    epsilon : float
        Errors that cost nothing.

    Attributes
    ----------
    weights_, kernel_names_, gap_, objectives_
        As of :class:`MultipleKernelClassifier`.
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
        return SVR(C=self.C, epsilon=self.epsilon, kernel="precomputed", tol=1e-5)

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
    """A machine on several kernels; numbers to predict are standardised, so that C and epsilon have no unit."""
    given = options.model_dump()
    epsilon = given.pop("epsilon")
    if task == "classification":
        return MultipleKernelClassifier(**given)
    return TransformedTargetRegressor(MultipleKernelRegressor(epsilon=epsilon, **given), transformer=StandardScaler())


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Kernels in use and their weights, and support vectors."""
    machine = getattr(estimator, "regressor_", estimator)
    used = np.flatnonzero(machine.weights_ > 0.01)
    out: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        f"weight of {machine.kernel_names_[m]}": ((), np.array(machine.weights_[m])) for m in used
    }
    return out | {"n_support": ((), np.array(float(len(machine.support_))))}


def examples() -> list[BaseEstimator]:
    """For scikit-learn's checks."""
    return [MultipleKernelClassifier(max_iter=5), MultipleKernelRegressor(max_iter=5)]
