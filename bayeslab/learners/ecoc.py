r"""Learner ``ecoc``: error-correcting output codes: many classes by binary learners, one per column of a code matrix.

An entry +1 or −1 assigns a class to one side of a binary problem; 0 omits its rows. The predicted class is the one
whose row of the matrix agrees best with the binary predictions, :math:`\sum_j w_{ij} d_j`. With crisp predictions
:math:`d_j = \pm 1` it is the nearest row by Hamming distance, so that :math:`\lfloor (D - 1)/2 \rfloor` errors are
corrected if the rows differ in at least D places [1]_; with probabilities :math:`d_j = 2 p_j - 1` (soft votes). The
code is one against all, all pairs, exhaustive, random, optimised for distance, or learned: columns are added one at a
time, each separating the two classes that are most often confused on held-out rows [2]_.

References
----------
.. [1] Dietterich, Bakiri (1995). Solving multiclass learning problems via error-correcting output codes. JAIR 2,
   263-286.
.. [2] Pujol, Escalera, Radeva (2008). An incremental node embedding technique for error correcting output codes.
   Pattern Recognition 41, 713-725.
.. [3] Allwein, Schapire, Singer (2000). Reducing multiclass to binary. JMLR 1, 113-141 (entries 0).
"""

from __future__ import annotations

import itertools
import math
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator
from sklearn.tree import DecisionTreeClassifier

from bayeslab.arrays import count
from bayeslab.learners.toolbox.estimator import MANY, Applies, Count, LearnerOptions
from bayeslab.learners.toolbox.members import EnsembleClassifier, Member, built, out_of_fold, shares, trained

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "Options",
    "OutputCodes",
    "build",
    "column_distance",
    "decoded",
    "examples",
    "exhaustive",
    "one_against_all",
    "optimised",
    "pairwise",
    "random_code",
    "reported",
    "row_distance",
]

Array = NDArray[np.float64]
Code = NDArray[np.int64]

TASKS = ("classification",)
CATEGORIES: Literal["codes", "indicators"] = "codes"
SCALE = False
MISSING = False
# Largest number of classes for which all columns are listed.
_ALL = 12


class Options(LearnerOptions):
    """Options of output codes."""

    applies: ClassVar[Applies] = {
        "n_learners": {"code": ("random", "optimised", "learned")},
    }
    estimator: Member | None = Field(
        None, description="Binary learner, {learner: WORD, ...its options}; default: logistic."
    )
    code: Literal["one_against_all", "pairwise", "exhaustive", "random", "optimised", "learned"] = Field(
        "pairwise", description="The code matrix."
    )
    n_learners: int | None = Field(
        None,
        ge=1,
        le=MANY,
        description="Columns of a random, optimised or learned code; default: 10 log2 of the number of classes.",
    )
    decode: Literal["soft", "hamming"] = Field(
        "soft", description="Decode probabilities (soft) or crisp predictions (hamming)."
    )


def one_against_all(n_classes: int) -> Code:
    """Code with +1 on the diagonal and −1 elsewhere."""
    return 2 * np.eye(n_classes, dtype=np.int64) - 1


def pairwise(n_classes: int) -> Code:
    """Code with a column for each pair (12, 13, ..., 23, ...): +1 for the first class, −1 for the second, else 0."""
    pairs = list(itertools.combinations(range(n_classes), 2))
    out = np.zeros((n_classes, len(pairs)), np.int64)
    for j, (a, b) in enumerate(pairs):
        out[a, j], out[b, j] = 1, -1
    return out


def exhaustive(n_classes: int) -> Code:
    """Code of all 2^(K−1) − 1 ways to split the classes in two; the first class is always +1."""
    if n_classes > _ALL:
        raise ValueError(f"{n_classes} classes have {2 ** (n_classes - 1) - 1} columns: take code random or optimised")
    rest = np.array(list(itertools.product((1, -1), repeat=n_classes - 1)), np.int64)[1:]
    return np.column_stack([np.ones(len(rest), np.int64), rest]).T


def random_code(n_classes: int, n_columns: int, rng: np.random.RandomState) -> Code:
    """Code of distinct random columns of ±1; none is constant or the negative of another."""
    if n_classes <= _ALL:
        every = exhaustive(n_classes)
        chosen = every[:, rng.permutation(every.shape[1])[:n_columns]]
        return np.asarray(chosen * rng.choice([-1, 1], size=chosen.shape[1]))
    columns: dict[tuple[int, ...], None] = {}
    while len(columns) < n_columns:
        column = rng.choice([-1, 1], size=n_classes)
        column = column * column[0]
        if column.min() < 0:
            columns[tuple(column)] = None
    return np.array(list(columns), np.int64).T


def row_distance(code: Any) -> int:
    """Smallest number of places in which the rows of two classes differ, among places where both are not 0."""
    code = np.asarray(code)
    pairs = itertools.combinations(code, 2)
    return min(int(np.sum(a * b < 0)) for a, b in pairs)


def column_distance(code: Any) -> int:
    """Smallest number of places in which two columns, or one column and the negative of another, differ."""
    columns = np.asarray(code).T
    if len(columns) < 2:
        return len(columns[0])
    return min(min(int(np.sum(a != b)), int(np.sum(a != -b))) for a, b in itertools.combinations(columns, 2))


def optimised(n_classes: int, n_columns: int, rng: np.random.RandomState, n_tries: int = 200) -> Code:
    """Code with the largest row distance and, on a tie, the largest column distance.

    All choices are tried if there are at most 20,000; otherwise random ones are improved by exchanging single columns.
    """
    pool = exhaustive(n_classes) if n_classes <= _ALL else random_code(n_classes, 20 * n_columns, rng)
    n_columns = min(n_columns, pool.shape[1])
    if math.comb(pool.shape[1], n_columns) <= 20_000:
        every = itertools.combinations(range(pool.shape[1]), n_columns)
        return np.asarray(pool[:, list(max(every, key=lambda at: _quality(pool[:, list(at)])))])
    best = list(rng.permutation(pool.shape[1])[:n_columns])
    quality = _quality(pool[:, best])
    for _ in range(n_tries):
        other = list(best)
        other[rng.randint(n_columns)] = rng.choice(np.setdiff1d(np.arange(pool.shape[1]), best))
        candidate = _quality(pool[:, other])
        if candidate >= quality:
            best, quality = other, candidate
    return np.asarray(pool[:, best])


def _quality(code: Code) -> tuple[int, int]:
    return row_distance(code), column_distance(code)


def decoded(code: Any, answers: Any) -> Array:
    """Mean agreement of each row of the code with predictions in [−1, 1] of shape (rows, columns).

    For a pairwise code this is the mean over the pairs that contain the class.
    """
    code = np.asarray(code, float)
    return np.asarray(np.asarray(answers, float) @ code.T / np.abs(code).sum(axis=1))


class OutputCodes(EnsembleClassifier, options=Options):
    """Binary learners combined by an output code.

    Parameters
    ----------
    estimator : estimator or None
        The binary learner; None: a tree of depth 5.
    code : str or array of -1, 0, 1, shape (classes, columns)
    n_learners : int or None
        Columns of a random, optimised or learned code; None: 10 log2 of the number of classes, at most all columns.
    decode : {"soft", "hamming"}
    cv : int
        Folds of a learned code.
    n_candidates : int
        Candidates tried for each learned column.
    random_state : int or None

    Attributes
    ----------
    code_ : ndarray of int, shape (classes, columns)
    estimators_ : list
    """

    def __init__(
        self,
        estimator: Any = None,
        code: Any = "pairwise",
        n_learners: int | None = None,
        decode: str = "soft",
        cv: Any = 3,
        n_candidates: Count = 5,
        random_state: Any = None,
    ) -> None:
        self.estimator, self.code, self.n_learners, self.decode = estimator, code, n_learners, decode
        self.cv, self.n_candidates, self.random_state = cv, n_candidates, random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Construct or learn the code, and train a learner for each column."""
        X, codes, weights = self._weighted_rows(X, y, sample_weight)
        rng = self._rng()
        one = DecisionTreeClassifier(max_depth=5) if self.estimator is None else self.estimator
        self.code_ = self._code(X, codes, weights, one, rng)
        self.estimators_ = []
        for column in self.code_.T:
            side = column[codes]
            used = side != 0
            column_weights = None if weights is None else weights[used]
            self.estimators_.append(trained(one, X[used], (side[used] > 0).astype(np.int64), rng, column_weights))
        return self

    def _code(self, X: Array, codes: Code, weights: Array | None, one: Any, rng: Any) -> Code:
        k = len(self.classes_)
        if not isinstance(self.code, str):
            return _checked_code(self.code, k)
        n = self.n_learners or int(np.ceil(10 * np.log2(k)))
        n = min(n, 2 ** (k - 1) - 1) if k <= _ALL else n
        if self.code in ("one_against_all", "pairwise", "exhaustive"):
            return {"one_against_all": one_against_all, "pairwise": pairwise, "exhaustive": exhaustive}[self.code](k)
        if self.code == "random":
            return random_code(k, n, rng)
        if self.code == "optimised":
            return optimised(k, n, rng)
        if self.code == "learned":
            return self._learned(X, codes, weights, one, n, rng)
        raise ValueError(f"no code {self.code!r}")

    def _learned(self, X: Array, codes: Code, weights: Array | None, one: Any, n_columns: int, rng: Any) -> Code:
        """Learn the code: add the column that separates the two most confused classes with the least held-out error."""
        k = len(self.classes_)
        pool = exhaustive(k) if k <= _ALL else random_code(k, 50 * n_columns, rng)
        left = list(rng.permutation(pool.shape[1]))
        chosen: list[int] = []
        answers = np.zeros((len(X), 0))
        confused = np.ones((k, k)) - np.eye(k)
        while left and len(chosen) < n_columns:
            a, b = np.unravel_index(np.argmax(confused + confused.T), confused.shape)
            dividing = [j for j in left if pool[a, j] != pool[b, j]] or left
            best: tuple[float, int, Array] | None = None
            for j in dividing[: self.n_candidates]:
                side = (pool[codes, j] > 0).astype(np.int64)
                new_answers = self._answer(
                    out_of_fold([one], X, side, 2, count(self.cv, "cv", 2, MANY), rng, weights)[0][:, 1]
                )
                whole = np.column_stack([answers, new_answers])
                missed = decoded(pool[:, [*chosen, j]], whole).argmax(axis=1) != codes
                wrong = float(np.average(missed, weights=weights))
                if best is None or wrong < best[0]:
                    best = wrong, j, whole
            assert best is not None
            _, j, answers = best
            chosen.append(j)
            left.remove(j)
            decoded_class = decoded(pool[:, chosen], answers).argmax(axis=1)
            confused = np.zeros((k, k))
            np.add.at(confused, (codes, decoded_class), 1 if weights is None else weights)
            np.fill_diagonal(confused, 0)
        return np.asarray(pool[:, chosen])

    def _answer(self, p: Array) -> Array:
        if self.decode == "hamming":
            return np.where(p > 0.5, 1.0, -1.0)
        return 2 * p - 1

    def answers(self, X: Any) -> Array:
        """Predictions of the binary learners, from −1 to 1, shape (rows, columns)."""
        X = self._new(X)
        return np.column_stack([self._answer(shares(one, X, 2)[:, 1]) for one in self.estimators_])

    def decision_function(self, X: Any) -> Array:
        """Agreement with the rows of the code; for two classes the second minus the first."""
        answers = self.answers(X)
        agreement = decoded(self.code_, answers)
        return np.asarray(agreement[:, 1] - agreement[:, 0] if len(self.classes_) == 2 else agreement)

    def predict(self, X: Any) -> np.ndarray:
        """The class whose row agrees best."""
        answers = self.answers(X)
        best = decoded(self.code_, answers).argmax(axis=1)
        return np.asarray(self.classes_[best])


def _checked_code(given: Any, n_classes: int) -> Code:
    code = np.asarray(given)
    if code.ndim != 2 or len(code) != n_classes or not np.isin(code, (-1, 0, 1)).all():
        raise ValueError(f"a code has a row for each of {n_classes} classes and entries -1, 0, 1; given: {code.shape}")
    if np.any(code.max(axis=0) < 1) or np.any(code.min(axis=0) > -1):
        raise ValueError("every column of a code has a class on each side")
    return code.astype(np.int64)


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """Return the output-code classifier."""
    one = built(options.estimator or {"learner": "logistic"}, task, categorical)
    return OutputCodes(one, options.code, options.n_learners, options.decode)


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the number of learners and the row distance of the code."""
    distance = row_distance(estimator.code_)
    return {
        "learners": ((), np.array(float(estimator.code_.shape[1]))),
        "row_distance": ((), np.array(float(distance))),
    }


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [OutputCodes(), OutputCodes(code="learned", n_learners=3, cv=2, n_candidates=2)]
