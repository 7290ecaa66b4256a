r"""Learner ``svm``: support vector machines; the widest street between classes in the feature space of a kernel.

The dual problem is the maximum of :math:`\sum_i \alpha_i - \tfrac12 \sum_{ij} \alpha_i \alpha_j y_i y_j K(x_i, x_j)`
over :math:`0 \le \alpha_i \le C`, :math:`\sum_i \alpha_i y_i = 0` [1]_; the decision is the sign of
:math:`\sum_i \alpha_i y_i K(x, x_i) + b`, where only support vectors have :math:`\alpha_i > 0`. With the linear kernel
:math:`w = \sum_i \alpha_i y_i x_i` (with the :math:`y_i`, which a printed form leaves out). The street is
:math:`2/\lVert w \rVert` wide. A finite C lets rows into it at a price (soft margin). Numbers are learned with a tube
of :math:`\epsilon` around the function in which errors cost nothing. libsvm solves [2]_; several classes are told
apart pair by pair.

Any kernel may be given, also one on objects that are no numbers; its matrix of the training rows is tested, since
without Mercer's condition the dual problem has no meaning.

References
----------
.. [1] Cortes, Vapnik (1995). Support-vector networks. Machine Learning 20, 273-297.
.. [2] Chang, Lin (2011). LIBSVM: a library for support vector machines. ACM TIST 2(3).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
from sklearn.compose import TransformedTargetRegressor
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils import _safe_indexing, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.learners.toolbox.estimator import Applies, Estimator, LearnerOptions, Positive
from bayeslab.learners.toolbox.gram import check_gram

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "Options",
    "SVMClassifier",
    "SVMRegressor",
    "build",
    "examples",
    "reported",
]

Array = NDArray[np.float64]

TASKS = ("classification", "regression")
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = True
MISSING = False
# Kernels that libsvm evaluates itself, all of Mercer's kind (poly with coef0 of zero or more).
_OWN = ("linear", "poly", "rbf")
# Where libsvm stops in models. Which of the answers within its tolerance it ends at depends on the last bits of the
# data, so on their units too; its kernel values have 24 bits, which is what limits answers beyond this.
_TOLERANCE = 1e-6


class Options(LearnerOptions):
    """Options of support vector machines."""

    applies: ClassVar[Applies] = {
        "gamma": {"kernel": ("poly", "rbf", "laplacian")},
        "degree": {"kernel": ("poly",)},
        "coef0": {"kernel": ("poly",)},
        "epsilon": {"task": ("regression",)},
        "class_weight": {"task": ("classification",)},
    }
    kernel: Literal["linear", "poly", "rbf", "laplacian"] = Field("rbf", description="The kernel.")
    C: float = Field(1.0, gt=0, description="Price of a row in the street; large: a hard margin.")
    gamma: Positive | Literal["scale", "auto"] = Field(
        "scale", description="Of poly, rbf and laplacian; scale: one over columns times variance, auto: over columns."
    )
    degree: int = Field(3, ge=1, le=100, description="Of poly: (gamma x·z + coef0) to this power.")
    coef0: float = Field(1.0, ge=0, description="Of poly.")
    epsilon: float = Field(0.1, ge=0, description="Of a regression: errors that cost nothing, in standard deviations.")
    class_weight: Literal["balanced"] | None = Field(
        None,
        description="balanced: errors in rare classes cost more; probabilities are as of equally frequent ones.",
    )


# Kernels of scikit-learn that only Python has.
_MORE = ("precomputed", "cosine", "sigmoid", "chi2", "additive_chi2")


class _Machine(Estimator, options=Options, words={"kernel": _MORE}):
    """What both tasks share: libsvm, kernels of any kind, and the width of the street."""

    kernel: Any
    C: float
    gamma: Any
    degree: int
    coef0: float

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _solver(self, kernel: str, gamma: float) -> Any:
        raise NotImplementedError

    def _gamma(self, X: Array) -> float:
        if self.gamma == "auto":
            return 1 / X.shape[1]
        if self.gamma == "scale":
            spread = float(X.var())
            return 1 / (X.shape[1] * spread) if spread > 0 else 1.0
        return float(self.gamma)

    def _between(self, X: Any, Z: Any) -> Array:
        """Kernel values, shape (rows of X, rows of Z)."""
        if callable(self.kernel):
            return np.asarray(self.kernel(X, Z), float)
        given = {"gamma": self.gamma_, "degree": self.degree, "coef0": self.coef0}
        return np.asarray(pairwise_kernels(X, Z, metric=self.kernel, filter_params=True, **given), float)

    def _checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Rows as numbers; a kernel that is a function has its own idea of rows."""
        numeric = is_regressor(self)
        if callable(self.kernel):
            check_consistent_length(X, y)
            return X, np.asarray(column_or_1d(y, dtype=np.float64 if numeric else None))
        checked: tuple[Any, Any] = validate_data(self, X, y, dtype=np.float64, y_numeric=numeric)
        return checked

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Solve the dual problem; a kernel that libsvm does not know is first tested on the rows.

        ``X`` may hold anything where the kernel is a function of two sets of rows.
        """
        X, y = self._checked(X, y)
        self.gamma_ = 1.0 if callable(self.kernel) or self.kernel == "precomputed" else self._gamma(X)
        if self.kernel in _OWN:
            gram, solver = None, self._solver(self.kernel, self.gamma_).fit(X, y, sample_weight)
        else:
            name = getattr(self.kernel, "__name__", "kernel") if callable(self.kernel) else f"{self.kernel} kernel"
            gram = check_gram(X if self.kernel == "precomputed" else self._between(X, X), name)
            solver = self._solver("precomputed", 1.0).fit(gram, y, sample_weight)
        self.solver_, self._n_rows = solver, len(y)
        self.support_, self.dual_coef_, self.intercept_ = solver.support_, solver.dual_coef_, solver.intercept_
        self.n_iter_ = solver.n_iter_
        self._support_gram = None if gram is None else gram[np.ix_(self.support_, self.support_)]
        if self.kernel != "precomputed":
            self.support_vectors_ = _safe_indexing(X, self.support_)
        if self.kernel == "linear":
            self.coef_ = solver.coef_
        return self

    def _solver_input(self, X: Any) -> Any:
        """Rows as the solver takes them: numbers, or kernel values with the training rows."""
        check_is_fitted(self)
        if not callable(self.kernel):
            X = validate_data(self, X, reset=False, dtype=np.float64)
        if self.kernel in _OWN or self.kernel == "precomputed":
            return X
        # Of the training rows only the support vectors are asked for.
        values = self._between(X, self.support_vectors_)
        wide = np.zeros((len(values), self._n_rows))
        wide[:, self.support_] = values
        return wide

    def predict(self, X: Any) -> np.ndarray:
        """The class or number of each row."""
        solver_input = self._solver_input(X)
        return np.asarray(self.solver_.predict(solver_input))

    @property
    def dual_variables_(self) -> Array:
        r"""The :math:`\alpha` of support vectors, shape (machines of a row, support vectors)."""
        return np.asarray(np.abs(self.dual_coef_))

    def _norms(self) -> Array:
        """Squared norm of w of each machine."""
        check_is_fitted(self)
        gram = self._support_gram
        if gram is None:
            gram = self._between(self.support_vectors_, self.support_vectors_)
        return np.array([c @ gram @ c for c in self._coefficients()])

    def _coefficients(self) -> Iterator[Array]:
        yield np.asarray(self.dual_coef_[0])


class SVMClassifier(ClassifierMixin, _Machine):
    r"""Support vector machine: a class.

    Parameters
    ----------
    C : float
        Price of a row in the street.
    kernel : str or callable
        ``linear``, ``poly``, ``rbf``; any other that :func:`sklearn.metrics.pairwise.pairwise_kernels` knows; or
        ``precomputed``, for X the kernel's matrix; or a function of two sets of rows of any kind, which returns it.
    gamma : float or {"scale", "auto"}
    degree, coef0 : number
        Of ``poly``: (gamma x·z + coef0) to the power.
    class_weight : dict or "balanced" or None

    Attributes
    ----------
    support_ : ndarray of int
        Rows that are support vectors.
    support_vectors_ : array or list
    dual_coef_ : ndarray, shape (n_classes - 1, n_support)
        :math:`\alpha_i y_i`; of several classes those of each pair, in libsvm's order.
    dual_variables_ : ndarray
        :math:`\alpha_i`.
    intercept_ : ndarray
        b, which is added.
    coef_ : ndarray
        w, with the linear kernel.
    """

    def __init__(
        self,
        C: float = 1.0,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        class_weight: Any = None,
        tol: Positive = 1e-3,
        cache_size: Positive = 200,
    ) -> None:
        self.C, self.kernel, self.gamma, self.degree, self.coef0 = C, kernel, gamma, degree, coef0
        self.class_weight, self.tol, self.cache_size = class_weight, tol, cache_size

    def _solver(self, kernel: str, gamma: float) -> Any:
        return SVC(
            C=self.C,
            kernel=kernel,
            gamma=gamma,
            degree=self.degree,
            coef0=self.coef0,
            class_weight=self.class_weight,
            tol=self.tol,
            cache_size=self.cache_size,
        )

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Solve the dual problem; a kernel that libsvm does not know is first tested on the rows.

        ``X`` may hold anything where the kernel is a function of two sets of rows.
        """
        check_classification_targets(y)
        super().fit(X, y, sample_weight)
        self.classes_, self.n_support_ = self.solver_.classes_, self.solver_.n_support_
        return self

    def decision_function(self, X: Any) -> Array:
        """Scores: of two classes above zero for the second, else one column a class, from the pairs' votes."""
        solver_input = self._solver_input(X)
        return np.asarray(self.solver_.decision_function(solver_input))

    def _coefficients(self) -> Iterator[Array]:
        ends = np.concatenate([[0], np.cumsum(self.n_support_)])
        for p, q in itertools.combinations(range(len(self.classes_)), 2):
            out = np.zeros(len(self.support_))
            of_p, of_q = slice(ends[p], ends[p + 1]), slice(ends[q], ends[q + 1])
            out[of_p], out[of_q] = self.dual_coef_[q - 1, of_p], self.dual_coef_[p, of_q]
            yield out

    def street_widths(self) -> Array:
        r"""Width of the street, :math:`2/\lVert w \rVert` in feature space, of each pair of classes."""
        with np.errstate(divide="ignore"):
            return np.asarray(2 / np.sqrt(self._norms()))

    def dual_objective(self) -> float:
        r"""The maximum :math:`\sum_i \alpha_i - \tfrac12 \lVert w \rVert^2`, summed over pairs of classes."""
        return float(self.dual_variables_.sum() - 0.5 * self._norms().sum())

    def slacks(self, X: Any, y: Any) -> Array:
        r"""How far, in units of half the street, each row is on the wrong side of its border; of two classes.

        The price of a row in the street is C times this; :math:`\max(0, 1 - y f(x))`.
        """
        scores = self.decision_function(X)
        if len(self.classes_) != 2:
            raise ValueError(f"a street has two sides; there are {len(self.classes_)} classes")
        return np.maximum(0.0, 1 - np.where(np.asarray(y) == self.classes_[1], scores, -scores))


class SVMRegressor(RegressorMixin, _Machine):
    """Support vector machine: a number.

    Parameters
    ----------
    C : float
        Price of an error beyond the tube.
    epsilon : float
        Half the width of the tube.
    kernel, gamma, degree, coef0
        As of :class:`SVMClassifier`.

    Attributes
    ----------
    support_, support_vectors_, dual_coef_, dual_variables_, intercept_, coef_
        As of :class:`SVMClassifier`; support vectors are the rows on the tube or outside.
    """

    def __init__(
        self,
        C: float = 1.0,
        epsilon: float = 0.1,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        tol: Positive = 1e-3,
        cache_size: Positive = 200,
    ) -> None:
        self.C, self.epsilon, self.kernel, self.gamma = C, epsilon, kernel, gamma
        self.degree, self.coef0, self.tol, self.cache_size = degree, coef0, tol, cache_size

    def _solver(self, kernel: str, gamma: float) -> Any:
        return SVR(
            C=self.C,
            epsilon=self.epsilon,
            kernel=kernel,
            gamma=gamma,
            degree=self.degree,
            coef0=self.coef0,
            tol=self.tol,
            cache_size=self.cache_size,
        )


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """A support vector machine; numbers to predict are standardised, so that C and epsilon have no unit."""
    given = options.model_dump()
    epsilon, weights = given.pop("epsilon"), given.pop("class_weight")
    if task == "classification":
        return SVMClassifier(class_weight=weights, tol=_TOLERANCE, **given)
    machine = SVMRegressor(epsilon=epsilon, tol=_TOLERANCE, **given)
    return TransformedTargetRegressor(machine, transformer=StandardScaler())


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Support vectors, in the street too (at the price C), and of two classes the street's width."""
    machine = getattr(estimator, "regressor_", estimator)
    out: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        "n_support": ((), np.array(float(len(machine.support_)))),
        "at_bound": ((), np.array(float((machine.dual_variables_ >= machine.C * (1 - 1e-9)).any(axis=0).sum()))),
        "gamma": ((), np.array(machine.gamma_)),
    }
    if len(getattr(machine, "classes_", ())) == 2:
        width = machine.street_widths()[0]
        if np.isfinite(width):  # without a direction that tells the classes apart there is no street
            out["street_width"] = ((), width)
        out["intercept"] = ((), np.array(machine.intercept_[0]))
    return out


def examples() -> list[BaseEstimator]:
    """For scikit-learn's checks."""
    return [SVMClassifier(), SVMClassifier(kernel="laplacian"), SVMRegressor()]
