r"""Learner ``mixture_of_experts``: linear experts, and a gate that says how far each is to be asked for an input.

.. math:: p(y \mid x) = \sum_j g_j(x)\, p(y \mid x, j), \qquad g = \operatorname{softmax}(Vx)

Experts of numbers are linear with normal noise of their own, experts of classes softmax. Expectation maximisation [2]_:
shares :math:`h_{nj} \propto g_j(x_n) p(y_n \mid x_n, j)`, then weighted regressions, and the gate towards the shares by
Newton-like steps. Several starts; the one of the highest likelihood is kept.

References
----------
.. [1] Jacobs, Jordan, Nowlan, Hinton (1991). Adaptive mixtures of local experts. Neural Computation 3, 79-87.
.. [2] Jordan, Jacobs (1994). Hierarchical mixtures of experts and the EM algorithm. Neural Computation 6, 181-214.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import special
from scipy.optimize import minimize
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits

from bayeslab.constants import HALF_LOG_2PI
from bayeslab.digits import levelled
from bayeslab.learners.toolbox.estimator import MANY, LearnerOptions, warn_unless
from bayeslab.learners.toolbox.members import Ensemble, EnsembleClassifier, EnsembleRegressor

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "ExpertClassifier",
    "ExpertRegressor",
    "Options",
    "build",
    "examples",
    "reported",
]

Array = NDArray[np.float64]

TASKS = ("classification", "regression")
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = True
MISSING = False


class Options(LearnerOptions):
    """Options of a mixture of experts."""

    n_experts: int = Field(3, ge=1, le=1000, description="Number of experts.")
    alpha: float = Field(1.0, ge=0, description="Penalty on squared weights of the gate and of experts of classes.")
    max_iter: int = Field(100, ge=1, le=10_000_000, description="Most rounds of expectation maximisation.")
    tol: float = Field(1e-4, gt=0, description="Ends when the mean log likelihood rises by less.")
    n_init: int = Field(5, ge=1, le=MANY, description="Starts.")


def _softmax_weights(
    rows: Array, shares: Array, row_weights: Array, alpha: float, start: Array, max_iter: int
) -> Array:
    """Weights (outputs, columns) of the softmax nearest to shares, by weighted cross entropy and a penalty."""

    def loss(flat: Array) -> tuple[float, Array]:
        weights = flat.reshape(start.shape)
        scores = rows @ weights.T
        log_p = scores - special.logsumexp(scores, axis=1, keepdims=True)
        gap = np.exp(log_p) * shares.sum(axis=1, keepdims=True) - shares
        value = -float(np.sum(row_weights * np.sum(shares * log_p, axis=1))) + 0.5 * alpha * float(flat @ flat)
        gradient = (row_weights[:, None] * gap).T @ rows + alpha * weights
        return value, gradient.ravel()

    optimum = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": max_iter})
    return np.asarray(optimum.x.reshape(start.shape))


class _Gated(Ensemble, options=Options):
    """What both mixtures do: starts, expectation maximisation, the gate."""

    gate_: Array
    n_iter_: int
    log_likelihoods_: Array
    converged_: bool

    def __init__(
        self,
        n_experts: int = 3,
        alpha: float = 1.0,
        max_iter: int = 100,
        tol: float = 1e-4,
        n_init: int = 5,
        random_state: Any = None,
    ) -> None:
        self.n_experts, self.alpha, self.max_iter = n_experts, alpha, max_iter
        self.tol, self.n_init, self.random_state = tol, n_init, random_state

    def _start(self, shares: Array, rows: Array, target: Any) -> Any:
        raise NotImplementedError

    def _maximise(self, experts: Any, shares: Array, rows: Array, target: Any) -> Any:
        raise NotImplementedError

    def _densities(self, experts: Any, rows: Array, target: Any) -> Array:
        raise NotImplementedError

    def _run(self, rows: Array, target: Any, rng: Any) -> Any:
        best: tuple[float, Any] | None = None
        # Products of small matrices, many thousand times: threads only wait for each other.
        with threadpool_limits(1, "blas"):
            for _ in range(self.n_init):
                result = self._once(rows, target, rng)
                if best is None or result[1][-1] > best[0]:
                    best = result[1][-1], result
        assert best is not None
        (self.gate_, experts), climbs = best[1]
        self.log_likelihoods_, self.n_iter_ = np.array(climbs), len(climbs)
        self.converged_ = len(climbs) > 1 and abs(climbs[-1] - climbs[-2]) < self.tol
        text = f"the log likelihood still rises after max_iter = {self.max_iter} rounds: allow more, or fewer experts"
        warn_unless(self.converged_, self, text)
        return experts

    def _once(self, rows: Array, target: Any, rng: Any) -> tuple[tuple[Array, Any], list[float]]:
        # Rows belong to the nearest of some rows at first, so that experts start in regions.
        centres = rows[rng.permutation(len(rows))[: self.n_experts]]
        distance = ((rows[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        near = np.zeros((len(rows), self.n_experts))
        near[:, : len(centres)] = special.softmax(-distance / max(float(distance.mean()), 1e-12) * 4, axis=1)
        shares = near
        experts = self._start(shares, rows, target)
        gate = np.zeros((self.n_experts, rows.shape[1]))
        climbs: list[float] = []
        for _ in range(self.max_iter):
            gate = _softmax_weights(rows, shares, np.ones(len(rows)), self.alpha, gate, 20)
            joint = special.log_softmax(rows @ gate.T, axis=1) + self._densities(experts, rows, target)
            total = special.logsumexp(joint, axis=1, keepdims=True)
            shares = np.exp(joint - total)
            climbs.append(float(total.mean()))
            if len(climbs) > 1 and abs(climbs[-1] - climbs[-2]) < self.tol:
                break
            experts = self._maximise(experts, shares, rows, target)
        return (gate, experts), climbs

    def gate(self, X: Any) -> Array:
        """Shares of the experts, (rows, experts)."""
        rows = _with_one(self._new(X))
        return np.asarray(special.softmax(rows @ self.gate_.T, axis=1))


def _with_one(X: Array) -> Array:
    return np.column_stack([X, np.ones(len(X))])


class ExpertRegressor(EnsembleRegressor, _Gated):
    """Linear experts of a number, gated.

    Parameters
    ----------
    n_experts : int
    alpha : float
        Penalty of the gate.
    max_iter : int
    tol : float
    n_init : int
    random_state : int or None

    Attributes
    ----------
    gate_ : ndarray, shape (experts, inputs + 1)
    coef_ : ndarray, shape (experts, inputs + 1)
        The last is the intercept.
    sigma_ : ndarray
        Noise of each expert.
    log_likelihoods_ : ndarray
        Mean log likelihood, round by round.
    converged_ : bool
        Whether the last round raised it by less than ``tol``.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Expectation maximisation from some starts."""
        X, y = self._rows(X, y)
        if len(X) < 2:
            raise ValueError(f"experts need two rows; there is n_samples = {len(X)}")
        # Squares of outcomes far from zero, or of other orders of magnitude, would lose all digits.
        target, level, size = levelled(np.asarray(y, float))
        self._floor = max(1e-6 * float(np.var(target)), 1e-12)
        coef, sigma = self._run(_with_one(X), target, self._rng())
        self.coef_, self.sigma_ = coef * size, sigma * size
        self.coef_[:, -1] += level
        self.log_likelihoods_ = self.log_likelihoods_ - np.log(size)
        return self

    def _start(self, shares: Array, rows: Array, target: Any) -> Any:
        return self._maximise(None, shares, rows, target)

    def _maximise(self, experts: Any, shares: Array, rows: Array, target: Any) -> Any:
        coef = np.zeros((self.n_experts, rows.shape[1]))
        variance = np.full(self.n_experts, max(float(np.var(target)), self._floor))
        ridge = 1e-8 * len(rows) * np.eye(rows.shape[1])
        for j in range(self.n_experts):
            h = shares[:, j]
            if h.sum() < 1e-8:
                continue
            coef[j] = np.linalg.solve((rows.T * h) @ rows + ridge, (rows.T * h) @ target)
            variance[j] = max(float(h @ (target - rows @ coef[j]) ** 2 / h.sum()), self._floor)
        return coef, np.sqrt(variance)

    def _densities(self, experts: Any, rows: Array, target: Any) -> Array:
        coef, sigma = experts
        z = (target[:, None] - rows @ coef.T) / sigma
        return np.asarray(-0.5 * z**2 - np.log(sigma) - HALF_LOG_2PI)

    def experts(self, X: Any) -> Array:
        """What each expert says, (rows, experts)."""
        return np.asarray(_with_one(self._new(X)) @ self.coef_.T)

    def predict(self, X: Any) -> Array:
        """The mean of the experts by their shares."""
        return np.asarray((self.gate(X) * self.experts(X)).sum(axis=1))


class ExpertClassifier(EnsembleClassifier, _Gated):
    """Softmax experts of classes, gated; parameters are those of :class:`ExpertRegressor`.

    Attributes
    ----------
    gate_ : ndarray, shape (experts, inputs + 1)
    coef_ : ndarray, shape (experts, classes, inputs + 1)
    log_likelihoods_ : ndarray
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Expectation maximisation from some starts."""
        X, codes = self._rows(X, y)
        self.coef_ = self._run(_with_one(X), np.eye(len(self.classes_))[codes], self._rng())
        return self

    def _start(self, shares: Array, rows: Array, target: Any) -> Any:
        return self._maximise(np.zeros((self.n_experts, target.shape[1], rows.shape[1])), shares, rows, target)

    def _maximise(self, experts: Any, shares: Array, rows: Array, target: Any) -> Any:
        alpha = max(self.alpha, 1e-8)
        weights = [_softmax_weights(rows, target, h, alpha, w, 20) for h, w in zip(shares.T, experts, strict=True)]
        return np.array(weights)

    def _densities(self, experts: Any, rows: Array, target: Any) -> Array:
        log_p = special.log_softmax(np.einsum("nd,jkd->njk", rows, experts), axis=2)
        return np.asarray(np.einsum("njk,nk->nj", log_p, target))

    def predict_proba(self, X: Any) -> Array:
        """The experts' probabilities by their shares."""
        g = self.gate(X)
        p = special.softmax(np.einsum("nd,jkd->njk", _with_one(self._new(X)), self.coef_), axis=2)
        return np.asarray(np.einsum("nj,njk->nk", g, p))


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The mixture."""
    kind = ExpertClassifier if task == "classification" else ExpertRegressor
    return kind(**options.model_dump())


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The gate's weights of the inputs, and the likelihood reached."""
    return {
        "gate": (("expert", "column"), estimator.gate_[:, :-1]),
        "mean_log_likelihood": ((), np.array(estimator.log_likelihoods_[-1])),
    }


def examples() -> list[BaseEstimator]:
    """For scikit-learn's checks."""
    return [ExpertRegressor(2, n_init=1, max_iter=15), ExpertClassifier(2, n_init=1, max_iter=10)]
