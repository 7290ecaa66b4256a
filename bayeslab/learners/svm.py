r"""Learner ``svm``: support vector machines: the maximum margin between classes in the feature space of a kernel.

The dual problem is the maximum of :math:`\sum_i \alpha_i - \tfrac12 \sum_{ij} \alpha_i \alpha_j y_i y_j K(x_i, x_j)`
over :math:`0 \le \alpha_i \le C`, :math:`\sum_i \alpha_i y_i = 0` [1]_; the decision is the sign of
:math:`\sum_i \alpha_i y_i K(x, x_i) + b`, where only support vectors have :math:`\alpha_i > 0`. With the linear kernel
:math:`w = \sum_i \alpha_i y_i x_i` (with the :math:`y_i`, which one printed form omits). The street between the classes
is :math:`2/\lVert w \rVert` wide. A finite C allows rows inside the street at a cost (soft margin). Regression uses a
tube of half-width :math:`\epsilon` around the function, inside which errors have no cost. The solver is libsvm [2]_;
more than two classes are separated pair by pair.

Any kernel may be given, also on objects that are not numbers. Its Gram matrix on the training rows is tested, because
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
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
from sklearn.compose import TransformedTargetRegressor
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils import _safe_indexing, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.learners.toolbox.estimator import Applies, Estimator, LearnerOptions, Positive
from bayeslab.learners.toolbox.gram import SOLVER_STEPS, check_gram

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
# Kernels that libsvm evaluates itself; all are Mercer kernels (poly for coef0 of zero or more).
_OWN = ("linear", "poly", "rbf")
# libsvm's stopping tolerance in models. Which solution within its tolerance libsvm returns depends on the last bits of
# the data, hence on their units; its kernel values have 24 bits, which limits the accuracy beyond this.
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
    C: float = Field(1.0, gt=0, description="Cost of margin violations; large values give a hard margin.")
    gamma: Positive | Literal["scale", "auto"] = Field(
        "scale", description="Scale of poly, rbf, laplacian; scale: 1/(columns × variance); auto: 1/columns."
    )
    degree: int = Field(3, ge=1, le=100, description="Degree of poly, (gamma x·z + coef0)^degree.")
    coef0: float = Field(1.0, ge=0, description="Constant term of poly.")
    epsilon: float = Field(0.1, ge=0, description="Regression: errors up to this are free, in standard deviations.")
    class_weight: Literal["balanced"] | None = Field(
        None,
        description="balanced: errors in rare classes cost more; probabilities assume equal class frequencies.",
    )


# scikit-learn kernels that are available from Python only.
_MORE = ("precomputed", "cosine", "sigmoid", "chi2", "additive_chi2")


class _Machine(Estimator, options=Options, words={"kernel": _MORE}):
    """Code that both tasks share: libsvm, kernels of any kind, and the width of the street."""

    kernel: Any
    C: float
    gamma: Any
    degree: int
    coef0: float

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = not tags.input_tags.pairwise
        return tags

    def _solver(self, kernel: str, gamma: float) -> Any:
        raise NotImplementedError

    def _gamma(self, X: Any) -> float:
        if self.gamma == "auto":
            return 1 / X.shape[1]
        if self.gamma == "scale":
            spread = float(np.mean(X.power(2)) - np.mean(X) ** 2) if sparse.issparse(X) else float(X.var())
            return 1 / (X.shape[1] * spread) if spread > 0 else 1.0
        return float(self.gamma)

    def _between(self, X: Any, Z: Any) -> Array:
        """Kernel values, shape (rows of X, rows of Z)."""
        if callable(self.kernel):
            return np.asarray(self.kernel(X, Z), float)
        given = {"gamma": self.gamma_, "degree": self.degree, "coef0": self.coef0}
        return np.asarray(pairwise_kernels(X, Z, metric=self.kernel, filter_params=True, **given), float)

    def _checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Rows as numbers; a kernel function may take rows of any kind."""
        numeric = is_regressor(self)
        if callable(self.kernel):
            check_consistent_length(X, y)
            return X, np.asarray(column_or_1d(y, dtype=np.float64 if numeric else None))
        formats = False if self.kernel == "precomputed" else "csr"
        checked: tuple[Any, Any] = validate_data(
            self, X, y, dtype=np.float64, accept_sparse=formats, accept_large_sparse=False, y_numeric=numeric
        )
        return checked

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Solve the dual problem; a kernel that libsvm does not know is first tested on the rows.

        ``X`` may hold objects of any kind if the kernel is a function of two sets of rows.
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
        self.support_, self.intercept_ = solver.support_, solver.intercept_
        # With sparse rows libsvm's interface returns sparse coefficients.
        self.dual_coef_ = _dense(solver.dual_coef_)
        self.n_iter_ = solver.n_iter_
        self._support_gram = None if gram is None else gram[np.ix_(self.support_, self.support_)]
        if self.kernel != "precomputed":
            self.support_vectors_ = _safe_indexing(X, self.support_)
        if self.kernel == "linear":
            self.coef_ = _dense(solver.coef_)
        return self

    def _solver_input(self, X: Any) -> Any:
        """Input of the solver: the rows as numbers, or their kernel values with the training rows."""
        check_is_fitted(self)
        if not callable(self.kernel):
            formats = False if self.kernel == "precomputed" else "csr"
            X = validate_data(self, X, reset=False, dtype=np.float64, accept_sparse=formats, accept_large_sparse=False)
        if self.kernel in _OWN or self.kernel == "precomputed":
            return X
        # Only kernel values with the support vectors are needed.
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
        r"""The :math:`\alpha` of the support vectors, shape (n_classes - 1, n_support)."""
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
    r"""Support vector classification.

    Parameters
    ----------
    C : float
        Cost of margin violations.
    kernel : str or callable
        ``linear``, ``poly``, ``rbf``; any other kernel of :func:`sklearn.metrics.pairwise.pairwise_kernels`;
        ``precomputed`` if X is the kernel matrix; or a function of two sets of rows of any kind that returns the
        matrix.
    gamma : float or {"scale", "auto"}
    degree, coef0 : number
        Parameters of ``poly``, (gamma x·z + coef0)^degree.
    class_weight : dict or "balanced" or None

    Attributes
    ----------
    support_ : ndarray of int
        Positions of the support vectors.
    support_vectors_ : array or list
    dual_coef_ : ndarray, shape (n_classes - 1, n_support)
        :math:`\alpha_i y_i`; with more than two classes those of each pair, in libsvm's order.
    dual_variables_ : ndarray
        :math:`\alpha_i`.
    intercept_ : ndarray
        The constant b.
    coef_ : ndarray
        The weights w, for the linear kernel only.
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
            max_iter=SOLVER_STEPS,
        )

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Solve the dual problem; a kernel that libsvm does not know is first tested on the rows.

        ``X`` may hold objects of any kind if the kernel is a function of two sets of rows.
        """
        check_classification_targets(y)
        super().fit(X, y, sample_weight)
        self.classes_, self.n_support_ = self.solver_.classes_, self.solver_.n_support_
        return self

    def decision_function(self, X: Any) -> Array:
        """Scores: for two classes positive for the second, else one column per class, from the votes of the pairs."""
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
        r"""Slacks :math:`\max(0, 1 - y f(x))` for two classes: the margin violation of each row, in half street widths.

        The cost of a margin violation is C times the slack.
        """
        scores = self.decision_function(X)
        if len(self.classes_) != 2:
            raise ValueError(f"a street has two sides; there are {len(self.classes_)} classes")
        return np.maximum(0.0, 1 - np.where(np.asarray(y) == self.classes_[1], scores, -scores))


class SVMRegressor(RegressorMixin, _Machine):
    """Support vector regression.

    Parameters
    ----------
    C : float
        Cost of errors beyond the tube.
    epsilon : float
        Half the width of the tube.
    kernel, gamma, degree, coef0
        As in :class:`SVMClassifier`.

    Attributes
    ----------
    support_, support_vectors_, dual_coef_, dual_variables_, intercept_, coef_
        As in :class:`SVMClassifier`; support vectors are the rows on the tube or outside it.
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
            max_iter=SOLVER_STEPS,
        )


def _dense(values: Any) -> Array:
    return np.asarray(values.toarray() if sparse.issparse(values) else values)


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """Return the machine; numeric targets are standardised, so that C and epsilon have no unit."""
    given = options.model_dump()
    epsilon, weights = given.pop("epsilon"), given.pop("class_weight")
    if task == "classification":
        return SVMClassifier(class_weight=weights, tol=_TOLERANCE, **given)
    machine = SVMRegressor(epsilon=epsilon, tol=_TOLERANCE, **given)
    return TransformedTargetRegressor(machine, transformer=StandardScaler())


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the numbers of support vectors and of those inside the street, and for two classes its width."""
    machine = getattr(estimator, "regressor_", estimator)
    out: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        "n_support": ((), np.array(float(len(machine.support_)))),
        "at_bound": ((), np.array(float((machine.dual_variables_ >= machine.C * (1 - 1e-9)).any(axis=0).sum()))),
        "gamma": ((), np.array(machine.gamma_)),
    }
    if len(getattr(machine, "classes_", ())) == 2:
        width = machine.street_widths()[0]
        if np.isfinite(width):  # w = 0 separates nothing: there is no street
            out["street_width"] = ((), width)
        out["intercept"] = ((), np.array(machine.intercept_[0]))
    return out


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [SVMClassifier(), SVMClassifier(kernel="laplacian"), SVMRegressor()]
