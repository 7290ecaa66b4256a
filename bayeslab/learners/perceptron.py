r"""Learner ``perceptron``: a threshold unit whose weights are updated by every misclassified row.

.. math:: w \leftarrow w + \alpha\,(y - h_w(x))\,x, \qquad h_w(x) = [w \cdot x \ge 0].

If a plane separates the rows with a margin :math:`\gamma`, and all rows are within a distance R of the origin, the
number of updates is at most :math:`(R/\gamma)^2`, in any order of the rows [2]_. On inseparable rows the perceptron
never converges at a constant rate; at a rate that decreases like 1/t it settles. The final classifier uses the last
weights, the best weights of all passes (``pocket``), their average, or a vote of all intermediate weights, each with as
many votes as the number of rows it survived [3]_.

With more than two classes each class is separated from the rest.

References
----------
.. [1] Rosenblatt (1958). The perceptron. Psychological Review 65, 386-408.
.. [2] Novikoff (1962). On convergence proofs for perceptrons. Symposium on the Mathematical Theory of Automata 12.
.. [3] Freund, Schapire (1999). Large margin classification using the perceptron algorithm. Machine Learning 37.
.. [4] Gallant (1990). Perceptron-based learning algorithms. IEEE Transactions on Neural Networks 1.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.arrays import number, real, two_sides
from bayeslab.errors import OptionError
from bayeslab.learners.toolbox.curves import by_pass
from bayeslab.learners.toolbox.descent import DenseRows, Rows, rows_of
from bayeslab.learners.toolbox.estimator import Estimator, LearnerOptions, guarded, warn_unless
from bayeslab.learners.toolbox.parts import classes_of_parts

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "Options",
    "Perceptron",
    "build",
    "curves",
    "examples",
    "novikoff_bound",
    "reported",
]

Array = NDArray[np.float64]

TASKS = ("classification",)
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = True
MISSING = False


class Options(LearnerOptions):
    """Options of the perceptron."""

    rate: float = Field(1.0, gt=0, description="Learning rate of the first step.")
    decay: float = Field(0.0, ge=0, description="The rate of step t is rate · decay / (decay + t); 0: constant.")
    use: Literal["last", "pocket", "averaged", "voted"] = Field(
        "averaged", description="Weights to use: the last, the best of all passes, their average, or a vote of all."
    )
    max_iter: int = Field(1000, ge=1, le=10_000_000, description="Maximum number of passes over the rows.")
    shuffle: bool = Field(True, description="Visit the rows in a new random order in every pass.")


class Perceptron(ClassifierMixin, Estimator, options=Options):
    """A perceptron; with more than two classes one for each class against the rest.

    Parameters
    ----------
    rate, decay : float
        The rate of step t is ``rate * decay / (decay + t)``; constant for ``decay=0``.
    use : {"last", "pocket", "averaged", "voted"}
    max_iter : int
        Maximum number of passes over the rows; training stops after a pass without an update.
    shuffle : bool
        Visit the rows in a new random order in every pass instead of the given order.
    at_zero : {0, 1}
        The class (0 or 1) predicted for a score of exactly 0.
    random_state : int or None

    Attributes
    ----------
    coef_ : ndarray, shape (n_units, n_features)
        One unit for two classes (positive for the second), else one per class.
    intercept_ : ndarray, shape (n_units,)
    errors_ : list of ndarray
        For each unit the number of misclassified rows after each pass: the training curve.
    n_iter_, n_updates_ : ndarray of int
        Number of passes and of weight updates for each unit.
    converged_ : bool
        Whether each unit had a pass without an update.
    update_bounds_ : ndarray
        For each unit an upper bound on the number of updates in any order of the rows, from the margin of its last
        weights; NaN if it did not converge, or did not start from zero weights with a constant rate.
    """

    def __init__(
        self,
        rate: float = 1.0,
        decay: float = 0.0,
        use: str = "last",
        max_iter: int = 1000,
        shuffle: bool = True,
        at_zero: Literal[0, 1] = 1,
        random_state: Any = None,
    ) -> None:
        self.rate, self.decay, self.use, self.max_iter = rate, decay, use, max_iter
        self.shuffle, self.at_zero, self.random_state = shuffle, at_zero, random_state

    def fit(self, X: Any, y: Any, coef_init: Any = None, intercept_init: Any = None) -> Self:
        """Pass over the rows until a pass makes no mistake.

        Parameters
        ----------
        coef_init, intercept_init
            Initial weights; default zero.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, accept_sparse="csr")
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"A perceptron needs rows of two classes; there is one class, {self.classes_[0]!r}")
        rows = rows_of(X)
        positives = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        start = np.zeros((len(positives), rows.shape[1]))
        if intercept_init is not None:
            start[:, 0] = intercept_init
        if coef_init is not None:
            start[:, 1:] = coef_init
        rng = check_random_state(self.random_state)
        units = [
            self._unit(rows, (y == c).astype(np.int64), w.copy(), rng) for c, w in zip(positives, start, strict=True)
        ]
        weights = np.array([unit["weights"] for unit in units])
        self.intercept_, self.coef_ = weights[:, 0], weights[:, 1:]
        self.errors_ = [unit["errors"] for unit in units]
        self.n_iter_ = np.array([len(unit["errors"]) for unit in units])
        self.n_updates_ = np.array([unit["changes"] for unit in units])
        self.converged_ = all(unit["converged"] for unit in units)
        text = (
            f"no pass without a change in max_iter = {self.max_iter} passes: no plane separates the rows, or they need"
            " more passes; give a decay, or take logistic"
        )
        warn_unless(all(unit["settled"] for unit in units), self, text)
        bounded = self.decay == 0 and not start.any()
        self.update_bounds_ = np.array([unit["bound"] if bounded else np.nan for unit in units])
        self._votes = [(unit["votes"], unit["survived"]) for unit in units] if self.use == "voted" else None
        self._last = np.array([unit["last"] for unit in units])
        self._total = np.array([unit["total"] for unit in units])
        self._steps = [unit["steps"] for unit in units]
        return self

    @available_if(lambda self: self.use != "pocket")
    @guarded
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Pass over more rows once, from the present weights; the first call starts at zero weights.

        Not available for ``use="pocket"``, which needs all rows to compare weights. The average and the vote are over
        the rows of all parts. ``update_bounds_`` is NaN, and ``converged_`` is about the last part.

        Parameters
        ----------
        X : array or sparse matrix, shape (rows, columns)
        y : array, shape (rows,)
        classes : array, optional
            All classes of all parts; needed in the first call if the first part lacks some.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, accept_sparse="csr", reset=not hasattr(self, "classes_"))
        check_classification_targets(y)
        first = not hasattr(self, "classes_")
        self.classes_ = classes_of_parts(self, y, classes)
        rows, positives = rows_of(X), self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        n, n_units = rows.shape[0], len(positives)
        if first:
            self._last, self._total = np.zeros((n_units, rows.shape[1])), np.zeros((n_units, rows.shape[1]))
            self._steps, self.errors_ = [0] * n_units, [np.zeros(0, int) for _ in positives]
            self.n_iter_, self.n_updates_ = np.zeros(n_units, int), np.zeros(n_units, int)
            self._votes = [(np.zeros((0, rows.shape[1])), np.zeros(0)) for _ in positives]
            self._votes = self._votes if self.use == "voted" else None
        rng, used = check_random_state(self.random_state), np.empty_like(self._last)
        changes = np.zeros(n_units, int)
        for u, c in enumerate(positives):
            labels, weights = (y == c).astype(np.int64), self._last[u]
            order = rng.permutation(n) if self.shuffle else np.arange(n)
            room = n if self._votes is not None else 0
            votes, survived = np.empty((room, rows.shape[1])), np.zeros(room + 1 if room else 0, np.int64)
            self._steps[u], changes[u] = self._pass(
                rows, labels, order, weights, self._steps[u], self._total[u], votes, survived
            )
            if self._votes is not None:
                before, lived = self._votes[u]
                self._votes[u] = (
                    np.vstack([before, votes[: changes[u]], weights]),
                    np.concatenate([lived, survived[: changes[u] + 1]]),
                )
            wrong = np.sum(self._says(rows.scores(weights)) != labels)
            self.errors_[u] = np.append(self.errors_[u], wrong)
            used[u] = self._total[u] / self._steps[u] if self.use == "averaged" else weights
        self.n_iter_, self.n_updates_ = self.n_iter_ + 1, self.n_updates_ + changes
        self.intercept_, self.coef_ = used[:, 0].copy(), used[:, 1:].copy()
        self.converged_, self.update_bounds_ = not changes.any(), np.full(n_units, np.nan)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _pass(
        self, rows: Rows, labels: Any, order: Any, weights: Array, steps: int, total: Array, votes: Array, survived: Any
    ) -> tuple[int, int]:
        """One pass over the rows: the number of steps so far, and of updates in the pass."""
        rates = float(self.rate), float(self.decay), bool(self.at_zero)
        return rows.correct(labels, order, weights, *rates, steps, total, votes, survived)

    def _unit(self, rows: Rows, labels: NDArray[np.int64], weights: Array, rng: Any) -> dict[str, Any]:
        n = rows.shape[0]
        votes, survived = [], []
        total, best, fewest = np.zeros_like(weights), weights.copy(), n + 1
        errors: list[int] = []
        steps, changes, converged, before = 0, 0, False, weights.copy()
        room = n if self.use == "voted" else 0
        while len(errors) < self.max_iter and not converged:
            before = weights.copy()
            order = rng.permutation(n) if self.shuffle else np.arange(n)
            kept, lived = np.empty((room, rows.shape[1])), np.zeros(room + 1 if room else 0, np.int64)
            steps, changed = self._pass(rows, labels, order, weights, steps, total, kept, lived)
            wrong = int(np.sum(self._says(rows.scores(weights)) != labels))
            errors.append(wrong)
            changes += changed
            converged = changed == 0
            if wrong < fewest:
                best, fewest = weights.copy(), wrong
            if room:
                votes += [*kept[:changed], weights.copy()]
                survived += lived[: changed + 1].tolist()
        bound = _changes_at_most(rows, np.asarray(2 * labels - 1, float), weights) if converged else np.nan
        used = {"pocket": best, "averaged": total / max(steps, 1)}.get(self.use, weights)
        return {
            "weights": used, "errors": np.array(errors), "changes": changes, "converged": converged,
            "settled": converged or self._settled(weights, before), "bound": bound,
            "votes": np.array(votes), "survived": np.array(survived, float),
            "last": weights, "total": total, "steps": steps,
        }  # fmt: skip

    def _settled(self, weights: Array, before: Array) -> bool:
        """Whether the last pass, at a decreasing rate, changed the weights by less than a thousandth."""
        return self.decay > 0 and bool(np.linalg.norm(weights - before) <= 1e-3 * np.linalg.norm(weights))

    def _says(self, scores: Array) -> NDArray[np.bool_]:
        return scores >= 0 if self.at_zero else scores > 0

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores, shape (rows,) for two classes, else (rows, classes); for a vote its majority."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64, accept_sparse="csr")
        if self._votes is None:
            scores = X @ self.coef_.T + self.intercept_
        else:
            rows = rows_of(X)
            scores = np.column_stack(
                [
                    np.where(self._says(rows.scores(votes.T)), 1.0, -1.0) @ lived / lived.sum()
                    for votes, lived in self._votes
                ]
            )
        return np.asarray(scores[:, 0] if len(self.classes_) == 2 else scores)

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row."""
        scores = self.decision_function(X)
        if len(self.classes_) == 2:
            return np.asarray(self.classes_[self._says(scores).astype(int)])
        return np.asarray(self.classes_[scores.argmax(axis=1)])


def novikoff_bound(X: Any, y: Any, coef: Any, intercept: float = 0.0) -> float:
    """Novikoff's bound (R/γ)² on the number of updates, from a separating plane; the bias counts as an input.

    Parameters
    ----------
    y
        Two values of any kind, such as truth values or -1 and 1; the value that is last in order is on the positive
        side of the plane.
    coef, intercept
        The plane.

    Raises
    ------
    OptionError
        The plane does not separate the rows, or the shapes of labels, rows and coefficients do not match.
    """
    points, weights = real(X, "X", ndim=2), real(coef, "coef").ravel()
    side = two_sides(y, "y")
    if len(side) != len(points) or len(weights) != points.shape[1]:
        raise OptionError(
            f"rows of {points.shape[1]} columns have as many coefficients, and each row a label; given {len(weights)}"
            f" coefficients, {len(points)} rows and {len(side)} labels",
            code="wrong-shape",
        )
    rows = DenseRows(points)
    bound = _changes_at_most(rows, side, np.array([number(intercept, "intercept"), *weights]))
    if np.isnan(bound):
        raise OptionError("the plane does not separate the rows: there is no bound", code="not-applicable")
    return bound


def _changes_at_most(rows: Rows, side: Array, weights: Array) -> float:
    """Return (R/γ)² for rows on the sides 1 and -1; NaN if a row is on the plane or on the wrong side."""
    margin = float((side * rows.scores(weights)).min()) / max(float(np.linalg.norm(weights)), 1e-300)
    return float(rows.squared_lengths().max() / margin**2) if margin > 0 else np.nan


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The perceptron."""
    return Perceptron(**options.model_dump())


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the weights of the standardised columns, the number of updates, and its bound."""
    unit = () if len(estimator.coef_) == 1 else ("class",)
    weights = estimator.coef_[0] if not unit else estimator.coef_
    out = {
        "weight": ((*unit, "column"), weights),
        "bias": (unit, estimator.intercept_[0] if not unit else estimator.intercept_),
        "updates": (unit, np.asarray(estimator.n_updates_[0] if not unit else estimator.n_updates_, float)),
        "converged": ((), np.array(float(estimator.converged_))),
    }
    if np.all(np.isfinite(estimator.update_bounds_)):
        # Overlapping classes have no bound.
        out["most_updates"] = (unit, estimator.update_bounds_[0] if not unit else estimator.update_bounds_)
    return out


def curves(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Number of misclassified training rows after each pass."""
    return by_pass("errors", estimator.errors_)


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [Perceptron(max_iter=50), Perceptron(max_iter=20, use="voted"), Perceptron(max_iter=50, use="averaged")]
