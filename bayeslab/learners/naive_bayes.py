r"""Learner ``naive_bayes``: Bayes' rule with inputs that are independent given the class.

.. math:: P(c \mid x) \propto P(c) \prod_j p(x_j \mid c).

Within a class, number columns are normal (``gaussian``), counts such as words of a text (``multinomial``), or present
and absent (``bernoulli``, true where a cell is not zero) [1]_. Columns of names are categorical. Probabilities are
smoothed by ``alpha`` pseudo-counts for each value, which is the posterior mean under a symmetric Dirichlet prior.

A fit consists of sums over rows, so a fit in parts (``partial_fit``) is the same as one fit to all rows. A missing cell
is left out of the sums, and out of the product. Sparse rows cost in proportion to the cells that are not zero.

The probabilities are too extreme where inputs depend on each other, but the most probable class is often right [2]_.

References
----------
.. [1] McCallum, Nigam (1998). A comparison of event models for naive Bayes text classification. AAAI workshop.
.. [2] Domingos, Pazzani (1997). On the optimality of the simple Bayesian classifier under zero-one loss. Machine
   Learning 29.
.. [3] Chan, Golub, LeVeque (1983). Algorithms for computing the sample variance. The American Statistician 37.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bayeslab.constants import LOG_2PI
from bayeslab.learners.toolbox.estimator import Applies, Estimator, LearnerOptions, NonNegative
from bayeslab.learners.toolbox.parts import classes_of_parts

__all__ = ["CATEGORIES", "MISSING", "SCALE", "TASKS", "NaiveBayes", "Options", "build", "examples", "reported"]

Array = NDArray[np.float64]

TASKS = ("classification",)
CATEGORIES: Literal["codes", "indicators"] = "codes"
SCALE = False
MISSING = True


class Options(LearnerOptions):
    """Options of naive Bayes."""

    applies: ClassVar[Applies] = {}
    kind: Literal["gaussian", "multinomial", "bernoulli"] = Field(
        "gaussian", description="Distribution of the number columns within a class: normal, counts, or zero or not."
    )
    alpha: float = Field(
        1.0, gt=0, description="Pseudo-count of each value, for columns of names, multinomial and bernoulli."
    )
    prior: Literal["frequencies", "uniform"] = Field(
        "frequencies", description="Probabilities of the classes before the inputs: their frequencies, or equal."
    )


class NaiveBayes(ClassifierMixin, Estimator, options=Options):
    """Naive Bayes with normal, count, binary and categorical columns.

    Parameters
    ----------
    kind : {"gaussian", "multinomial", "bernoulli"}
        Distribution of the number columns.
    alpha : float
        Pseudo-count of each value.
    prior : {"frequencies", "uniform"}
    categorical : tuple of int
        Columns of codes 0, 1, ...; all others are number columns.
    floor : float
        This share of the largest variance of a number column is added to all variances (gaussian).

    Attributes
    ----------
    classes_ : ndarray
    class_count_ : ndarray, shape (classes,)
        Weight of the rows of each class.
    means_, variances_ : ndarray, shape (classes, number columns)
        For ``gaussian``, without and with the floor.
    counts_ : ndarray, shape (classes, number columns)
        For ``multinomial`` and ``bernoulli``: sums of counts, or weights of the rows that are not zero.
    tables_ : list of ndarray
        For each column of codes its weights, shape (classes, codes).

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> words = csr_array([[2, 0, 1], [3, 1, 0], [0, 2, 2], [0, 3, 1]])
    >>> model = NaiveBayes("multinomial").partial_fit(words[:2], ["spam", "spam"], classes=["ham", "spam"])
    >>> model.partial_fit(words[2:], ["ham", "ham"]).predict(csr_array([[1, 0, 0], [0, 1, 0]])).tolist()
    ['spam', 'ham']
    """

    def __init__(
        self,
        kind: str = "gaussian",
        alpha: float = 1.0,
        prior: str = "frequencies",
        categorical: tuple[int, ...] = (),
        floor: NonNegative = 1e-9,
    ) -> None:
        self.kind, self.alpha, self.prior, self.categorical, self.floor = kind, alpha, prior, categorical, floor

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not len(self.categorical)
        tags.input_tags.allow_nan = True
        tags.input_tags.positive_only = self.kind == "multinomial"
        # Counts and truth values: not for the points that the checks draw.
        tags.classifier_tags.poor_score = self.kind != "gaussian"
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Sum over the rows.

        Parameters
        ----------
        X : array or sparse matrix, shape (rows, columns)
            NaN where a cell is missing.
        y : array, shape (rows,)
        sample_weight : array, shape (rows,), optional
        """
        if hasattr(self, "classes_"):
            del self.classes_
        check_classification_targets(y)
        return self._add(X, y, None, sample_weight)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows; the result is that of one fit to all rows so far.

        Parameters
        ----------
        X : array or sparse matrix, shape (rows, columns)
        y : array, shape (rows,)
        classes : array, optional
            All classes of all parts; needed in the first call if the first part lacks some.
        sample_weight : array, shape (rows,), optional

        Raises
        ------
        ValueError
            The columns are not those of the rows before, or a class is not among ``classes``.
        """
        return self._add(X, y, classes, sample_weight)

    def _add(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Self:
        first = not hasattr(self, "classes_")
        X, y = validate_data(
            self, X, y, dtype=np.float64, accept_sparse=self._formats(), ensure_all_finite="allow-nan", reset=first
        )
        X = self._rows(X)
        weight = _check_sample_weight(sample_weight, X)
        known = classes_of_parts(self, y, classes)
        numbers, codes = self._split(X)
        if first:
            self.classes_ = known
            self.class_count_ = np.zeros(len(known))
            self._weights, self.counts_ = np.zeros((2, len(known), numbers.shape[1]))
            self.means_, self._squares = np.zeros((2, len(known), numbers.shape[1]))
            self.tables_ = [np.zeros((len(known), 1)) for _ in range(codes.shape[1])]
        of = np.searchsorted(self.classes_, y)
        self.class_count_ = self.class_count_ + np.bincount(of, weight, len(self.classes_))
        for c in range(len(self.classes_)):
            rows = np.flatnonzero((of == c) & (weight > 0))
            if len(rows):
                self._sum(c, numbers[rows], weight[rows])
        self.tables_ = [_table(before, of, codes[:, j], weight) for j, before in enumerate(self.tables_)]
        self._finish()
        return self

    def _formats(self) -> Any:
        return False if len(self.categorical) else "csr"

    def _rows(self, X: Any) -> Any:
        """Rows, checked to be counts or codes where they have to be; sparse rows have no missing cells."""
        if sparse.issparse(X) and np.isnan(X.data).any():
            raise ValueError("Input X contains NaN; sparse rows have no missing cells: give X.toarray()")
        cells = X.data if sparse.issparse(X) else np.delete(X, list(self.categorical), axis=1)
        if self.kind == "multinomial" and (cells < 0).any():
            raise ValueError("Negative values in data passed to kind multinomial: counts are 0 or more")
        for j in self.categorical:
            some = X[~np.isnan(X[:, j]), j]
            if np.any(some < 0) or np.any(some != np.floor(some)):
                raise ValueError(f"column {j} is one of codes 0, 1, ...")
        return X

    def _split(self, X: Any) -> tuple[Any, Array]:
        """The number columns (binary for ``bernoulli``), and the columns of codes."""
        at = list(self.categorical)
        numbers, codes = (np.delete(X, at, axis=1), X[:, at]) if at else (X, np.zeros((X.shape[0], 0)))
        if self.kind != "bernoulli":
            return numbers, codes
        if sparse.issparse(numbers):
            return (numbers != 0).astype(float), codes
        return np.where(np.isnan(numbers), np.nan, (numbers != 0).astype(float)), codes

    def _sum(self, c: int, X: Any, weight: Array) -> None:
        """Add the rows of one class: weights and sums, or means and sums of squares around them [3]_."""
        if sparse.issparse(X):
            there, total = np.full(X.shape[1], weight.sum()), X.T @ weight
        else:
            shares = np.where(np.isnan(X), 0.0, weight[:, None])
            X = np.nan_to_num(X)
            there, total = shares.sum(axis=0), (shares * X).sum(axis=0)
        before = self._weights[c].copy()
        self._weights[c] += there
        if self.kind != "gaussian":
            self.counts_[c] += total
            return
        mean = np.divide(total, there, out=np.zeros_like(total), where=there > 0)
        if sparse.issparse(X):
            zeros = there - (X != 0).T @ weight
            gaps = X.copy()
            gaps.data = (gaps.data - mean[gaps.indices]) ** 2
            squares = gaps.T @ weight + zeros * mean**2
        else:
            squares = (shares * (X - mean) ** 2).sum(axis=0)
        whole = np.where(self._weights[c] > 0, self._weights[c], 1.0)
        gap = mean - self.means_[c]
        self.means_[c] += np.where(there > 0, gap * there / whole, 0.0)
        self._squares[c] += squares + np.where(there > 0, gap**2 * before * there / whole, 0.0)

    def _finish(self) -> None:
        """Variances within the classes, and the log probabilities of the classes."""
        with np.errstate(divide="ignore"):
            uniform = np.full(len(self.classes_), -np.log(len(self.classes_)))
            shares = np.log(self.class_count_) - np.log(self.class_count_.sum())
        self.class_log_prior_ = uniform if self.prior == "uniform" else shares
        if self.kind != "gaussian" or not self._weights.size:
            return
        n = self._weights.sum(axis=0)
        n = np.where(n > 0, n, 1.0)
        middle = (self._weights * self.means_).sum(axis=0) / n
        around = (self._squares + self._weights * (self.means_ - middle) ** 2).sum(axis=0) / n
        # A column that is constant within a class keeps a variance; a table of constants has any.
        least = self.floor * (float(around.max()) or 1.0)
        pooled = self._squares.sum(axis=0) / n
        within = np.divide(self._squares, self._weights, out=np.broadcast_to(pooled, self._squares.shape).copy(),
                        where=self._weights > 0)  # fmt: skip
        self.variances_ = np.maximum(within + least, 1e-300)

    def _joint(self, X: Any) -> Array:
        """Log of the class probability times the density of the row, shape (rows, classes)."""
        check_is_fitted(self, "class_count_")
        X = validate_data(
            self, X, dtype=np.float64, accept_sparse=self._formats(), ensure_all_finite="allow-nan", reset=False
        )
        numbers, codes = self._split(self._rows(X))
        out = np.tile(self.class_log_prior_, (X.shape[0], 1)) + self._of_numbers(numbers)
        for j, table in enumerate(self.tables_):
            log = np.log(table + self.alpha) - np.log(table.sum(axis=1, keepdims=True) + self.alpha * table.shape[1])
            # Missing codes, and codes that no training row has, say nothing.
            at = np.where(np.isnan(codes[:, j]) | (codes[:, j] >= table.shape[1]), -1, codes[:, j]).astype(int)
            out += np.where(at[:, None] >= 0, log.T[at], 0.0)
        return np.asarray(out)

    def _of_numbers(self, X: Any) -> Array:
        """Log densities of the number columns, shape (rows, classes)."""
        if not X.shape[1]:
            return np.zeros((X.shape[0], len(self.classes_)))
        if sparse.issparse(X):
            return self._of_sparse(X)
        there, X = ~np.isnan(X), np.nan_to_num(X)
        if self.kind == "gaussian":
            out = np.empty((len(X), len(self.classes_)))
            for c, (mean, variance) in enumerate(zip(self.means_, self.variances_, strict=True)):
                each = (X - mean) ** 2 / variance + np.log(variance) + LOG_2PI
                out[:, c] = -0.5 * np.where(there, each, 0.0).sum(axis=1)
            return out
        slopes, fixed = self._linear()
        return np.asarray(X @ slopes.T + there @ fixed.T)

    def _of_sparse(self, X: Any) -> Array:
        if self.kind == "gaussian":
            slopes = self.means_ / self.variances_
            fixed = self.means_**2 / self.variances_ + np.log(self.variances_) + LOG_2PI
            return np.asarray(X @ slopes.T - 0.5 * (X.power(2) @ (1 / self.variances_).T + fixed.sum(axis=1)))
        slopes, fixed = self._linear()
        return np.asarray(X @ slopes.T + fixed.sum(axis=1))

    def _linear(self) -> tuple[Array, Array]:
        """Log probabilities that are linear in the cells: their slopes and constants, shape (classes, columns)."""
        counts = self.counts_ + self.alpha
        if self.kind == "multinomial":
            slopes = np.log(counts) - np.log(counts.sum(axis=1, keepdims=True))
            return slopes, np.zeros_like(slopes)
        whole = self._weights + 2 * self.alpha
        absent = np.log(whole - counts) - np.log(whole)
        return np.log(counts) - np.log(whole) - absent, absent

    def predict_log_proba(self, X: Any) -> Array:
        """Log probabilities of the classes, shape (rows, classes)."""
        joint = self._joint(X)
        return np.asarray(joint - logsumexp(joint, axis=1, keepdims=True))

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, shape (rows, classes)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class; the first on a tie."""
        joint = self._joint(X)
        return np.asarray(self.classes_[joint.argmax(axis=1)])


def _table(before: Array, of: NDArray[np.int64], codes: Array, weight: Array) -> Array:
    """The weights of the codes in each class, with those of more rows; wider if there are new codes."""
    there = ~np.isnan(codes)
    width = max(before.shape[1], int(codes[there].max(initial=0)) + 1)
    out = np.pad(before, ((0, 0), (0, width - before.shape[1])))
    np.add.at(out, (of[there], codes[there].astype(int)), weight[there])
    return out


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """Naive Bayes."""
    return NaiveBayes(**options.model_dump(), categorical=categorical)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The share of the rows in each class."""
    return {"share": (("class",), estimator.class_count_ / estimator.class_count_.sum())}


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [NaiveBayes(), NaiveBayes("multinomial"), NaiveBayes("bernoulli")]
