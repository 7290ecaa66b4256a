r"""Learner ``version_space``: the posterior distribution over all conjunctions.

A hypothesis requires one value of each input, or allows any value; one further hypothesis covers no row. Numeric
columns are binned at quantiles. With a prior on the hypotheses and a probability :math:`\epsilon` that a row has the
wrong class, Bayes' theorem gives

.. math:: P(h \mid D) \propto P(h)\, \epsilon^{\text{wrong}} (1 - \epsilon)^{\text{right}}.

Without noise and with a uniform prior this is one over the size of the version space for each hypothesis consistent
with all rows, and 0 for the others [1]_. A row is classified by the vote of all hypotheses, weighted by their posterior
probabilities (``bayes``, which has the smallest expected error), or by the most probable hypothesis (``map``). If more
specific conjunctions have a higher prior probability, ``map`` gives the hypothesis of Find-S.

All hypotheses are enumerated. This is cheaper than it seems, because the number of rows that each of them covers is a
sum of entries of a table with one input less, as in a data cube [2]_.

References
----------
.. [1] Mitchell (1997). Machine Learning. McGraw-Hill, sections 2.5 and 6.3.
.. [2] Gray et al. (1997). Data cube: a relational aggregation operator generalizing group-by, cross-tab, and
   sub-totals. Data Mining and Knowledge Discovery 1, 29-53.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.learners.toolbox.estimator import MANY, Estimator, LearnerOptions, one_of_two

__all__ = ["CATEGORIES", "MISSING", "SCALE", "TASKS", "Options", "VersionSpace", "build", "examples", "reported"]

Array = NDArray[np.float64]

TASKS = ("classification",)
CATEGORIES: Literal["codes", "indicators"] = "codes"
SCALE = False
MISSING = False

_MOST = 3_000_000
_PRIORS = {"uniform": 0.0, "specific": -1.0, "general": 1.0}


class Options(LearnerOptions):
    """Options of the version space."""

    prior: Literal["uniform", "specific", "general"] = Field(
        "uniform", description="Prior: uniform, or each required value doubles (halves) the probability."
    )
    noise: float = Field(0.0, ge=0, lt=0.5, description="Probability that a row has the wrong class.")
    use: Literal["bayes", "map"] = Field(
        "bayes", description="Classify by the vote of all hypotheses (bayes) or by the most probable one (map)."
    )
    cuts: int = Field(2, ge=1, le=MANY, description="Number of cuts of a numeric column, at quantiles.")
    positive: int | None = Field(
        None,
        ge=0,
        le=10**9,
        description="Index of the positive class (the concept) in the order of the levels; default: the last.",
    )


class VersionSpace(ClassifierMixin, Estimator, options=Options):
    """The posterior distribution over all conjunctions of values.

    Parameters
    ----------
    categorical : tuple of int
        Columns of codes; all other columns are numeric and are binned at quantiles.
    prior : {"uniform", "specific", "general"}
    noise : float
        Probability that a row has the wrong class, below one half.
    use : {"bayes", "map"}
    cuts : int
        Number of cuts of a numeric column.
    positive : int or None
        Position of the concept in ``classes_``; None: the last.

    Attributes
    ----------
    values_ : list of ndarray
        The codes of each input in the training rows; for a numeric column the indices of its bins.
    edges_ : dict of int to ndarray
        Bin edges of the numeric columns.
    posterior_ : ndarray, shape (values of input 1 + 1, values of input 2 + 1, ...)
        Probability of each conjunction; the last position along an axis allows any value of that input.
    nothing_ : float
        Probability of the hypothesis that covers no row.
    n_consistent_ : int
        Number of hypotheses consistent with all rows: the size of the version space.
    hypothesis_ : ndarray, shape (n_features,)
        The value that the most probable conjunction requires of each input; NaN allows any value. All NaN, with
        ``nothing_`` larger than all other probabilities, if the most probable hypothesis covers no row.
    """

    def __init__(
        self,
        categorical: tuple[int, ...] = (),
        prior: str = "uniform",
        noise: float = 0.0,
        use: str = "bayes",
        cuts: int = 2,
        positive: int | None = None,
    ) -> None:
        self.categorical, self.prior, self.noise, self.use = categorical, prior, noise, use
        self.cuts, self.positive = cuts, positive

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        # Targets that are not a conjunction of a few values cannot be learned.
        tags.classifier_tags.poor_score = True
        return tags

    def suits(self, n_rows: int, n_columns: int, n_classes: int) -> None:
        """Check that there are two classes and that ``positive`` is one of them."""
        one_of_two(n_classes, self.positive)

    def fit(self, X: Any, y: Any) -> Self:
        """Compute the posterior probabilities of all conjunctions."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        self.suits(len(X), X.shape[1], len(self.classes_))
        self.positive_ = len(self.classes_) - 1 if self.positive is None else self.positive
        places = np.linspace(0, 1, self.cuts + 2)[1:-1]
        numbers = [j for j in range(X.shape[1]) if j not in self.categorical]
        self.edges_ = {j: np.unique(np.quantile(X[:, j], places)) for j in numbers}
        coded = self._coded(X)
        self.values_ = [np.unique(column) for column in coded.T]
        if (n := np.prod([len(v) + 1.0 for v in self.values_])) > _MOST:
            raise ValueError(
                f"there are {n:.3g} conjunctions of the values of {X.shape[1]} columns, more than {_MOST:,} to go"
                " through: leave columns out"
            )
        concept = y == self.classes_[self.positive_]
        cells = [np.searchsorted(v, column) for v, column in zip(self.values_, coded.T, strict=True)]
        covered = [_covered(cells, [len(v) for v in self.values_], rows) for rows in (concept, ~concept)]
        wrong = np.append((concept.sum() - covered[0] + covered[1]).ravel(), concept.sum())
        self._weigh(wrong, len(y), covered[0].shape)
        return self

    def _coded(self, X: Array) -> Array:
        """Codes; for numeric columns the bins."""
        out = X.copy()
        for j, edges in self.edges_.items():
            out[:, j] = np.searchsorted(edges, X[:, j], side="left")
        return out

    def _weigh(self, wrong: Array, n: int, shape: tuple[int, ...]) -> None:
        """Set the posterior from the errors of each hypothesis; the last hypothesis covers no row."""
        log_prior = np.zeros(shape)
        for axis, size in enumerate(shape):
            asked = np.ones(size)
            asked[-1] = 0
            along = [1] * len(shape)
            along[axis] = size
            log_prior = log_prior - _PRIORS[self.prior] * np.log(2) * asked.reshape(along)
        # The hypothesis that covers no row is more specific than any other.
        score = np.append(log_prior.ravel(), -_PRIORS[self.prior] * np.log(2) * (len(shape) + 1))
        self.n_consistent_ = int(np.sum(wrong == 0))
        if self.noise > 0:
            score = score + wrong * np.log(self.noise) + (n - wrong) * np.log1p(-self.noise)
        elif self.n_consistent_ == 0:
            raise ValueError("no conjunction agrees with all rows: give noise, the chance of a wrong class")
        else:
            score[wrong > 0] = -np.inf
        p = np.exp(score - logsumexp(score))
        # On a tie the first in the order of the values.
        best = int(np.flatnonzero(p >= p.max() * (1 - 1e-9))[0])
        self.posterior_, self.nothing_, self.map_probability_ = p[:-1].reshape(shape), float(p[-1]), float(p[best])
        self.hypothesis_ = np.full(len(shape), np.nan)
        weights = self.posterior_
        if self.use == "map":
            weights = np.zeros(shape)
        if best < p.size - 1:
            at = np.unravel_index(best, shape)
            for j, values in enumerate(self.values_):
                if at[j] < len(values):
                    self.hypothesis_[j] = values[at[j]]
            if self.use == "map":
                weights[at] = 1.0
        # Total probability of the hypotheses that cover each possible row; the last position is any other value.
        share = weights
        for axis in range(len(shape)):
            by_value, any_value = np.split(share, [shape[axis] - 1], axis=axis)
            share = np.concatenate([by_value + any_value, any_value], axis=axis)
        self._share = share

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities, from the hypotheses that cover the row and the noise."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        at = []
        for values, column in zip(self.values_, self._coded(X).T, strict=True):
            place = np.minimum(np.searchsorted(values, column), len(values) - 1)
            at.append(np.where(values[place] == column, place, len(values)))
        share = np.clip(self._share[tuple(at)], 0.0, 1.0)
        p = share * (1 - self.noise) + (1 - share) * self.noise
        if len(self.classes_) == 1:
            return np.ones((len(p), 1))
        return np.column_stack([1 - p, p] if self.positive_ == 1 else [p, 1 - p])

    def predict(self, X: Any) -> np.ndarray:
        """The more probable class; the concept on a tie."""
        p = self.predict_proba(X)
        if len(self.classes_) == 1:
            return np.repeat(self.classes_, len(p))
        concept = p[:, self.positive_] >= 0.5 - 1e-12
        return np.where(concept, self.classes_[self.positive_], self.classes_[1 - self.positive_])


def _covered(cells: list[NDArray[np.int64]], sizes: list[int], rows: NDArray[np.bool_]) -> Array:
    """Number of rows that each conjunction covers: cell counts, with their sum (any value) appended to each axis."""
    counts = np.zeros(sizes)
    np.add.at(counts, tuple(cell[rows] for cell in cells), 1.0)
    for axis in range(len(sizes)):
        counts = np.concatenate([counts, counts.sum(axis=axis, keepdims=True)], axis=axis)
    return counts


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The version space."""
    return VersionSpace(categorical, **options.model_dump())


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the size of the version space, the most probable conjunction (NaN: any value) and its probability."""
    return {
        "consistent": ((), np.array(float(estimator.n_consistent_))),
        "value": (("input",), estimator.hypothesis_),
        "probability": ((), np.array(estimator.map_probability_)),
    }


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [VersionSpace(noise=0.1)]
