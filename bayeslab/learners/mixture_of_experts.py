r"""Learner ``mixture_of_experts``: linear experts and a gate that weights them for each input.

.. math:: p(y \mid x) = \sum_j g_j(x)\, p(y \mid x, j), \qquad g = \operatorname{softmax}(Vx)

Experts for numbers are linear regressions, each with its own normal noise; experts for classes are softmax regressions.
The mixture is fitted by expectation maximisation [2]_: the E-step computes responsibilities
:math:`h_{nj} \propto g_j(x_n) p(y_n \mid x_n, j)`; the M-step fits weighted regressions, and fits the gate to the
responsibilities by Newton-like steps. Of several random starts the one with the highest likelihood is kept.

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

from bayeslab.blas import one_blas_thread
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
    alpha: float = Field(1.0, ge=0, description="Penalty on squared weights of the gate and of experts for classes.")
    max_iter: int = Field(100, ge=1, le=10_000_000, description="Maximum number of EM iterations.")
    tol: float = Field(1e-4, gt=0, description="EM stops when the mean log likelihood increases by less than this.")
    n_init: int = Field(5, ge=1, le=MANY, description="Number of random starts.")


def _softmax_weights(
    rows: Array, shares: Array, row_weights: Array, alpha: float, start: Array, max_iter: int
) -> Array:
    """Weights (outputs, columns) of the softmax regression on shares, by penalised weighted cross entropy."""

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
    """Code that both mixtures share: random starts, expectation maximisation, the gate."""

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
        # Many thousand products of small matrices: more threads would only slow them down.
        with one_blas_thread():
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
        # Start by assigning each row to the nearest of some random rows, so that every expert starts in a region.
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
        """Gate: weights of the experts, shape (rows, experts)."""
        rows = _with_one(self._new(X))
        return np.asarray(special.softmax(rows @ self.gate_.T, axis=1))


def _with_one(X: Array) -> Array:
    return np.column_stack([X, np.ones(len(X))])


class ExpertRegressor(EnsembleRegressor, _Gated):
    """Mixture of linear regressions with a gate.

    Parameters
    ----------
    n_experts : int
    alpha : float
        Penalty on the squared weights of the gate.
    max_iter : int
    tol : float
    n_init : int
    random_state : int or None

    Attributes
    ----------
    gate_ : ndarray, shape (experts, inputs + 1)
    coef_ : ndarray, shape (experts, inputs + 1)
        The last column is the intercept.
    sigma_ : ndarray
        Noise standard deviation of each expert.
    log_likelihoods_ : ndarray
        Mean log likelihood after each iteration.
    converged_ : bool
        Whether the last iteration increased it by less than ``tol``.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Run expectation maximisation from several starts."""
        X, y = self._rows(X, y)
        if len(X) < 2:
            raise ValueError(f"experts need two rows; there is n_samples = {len(X)}")
        # Squares of very large or small outcomes would lose all digits.
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
        """Prediction of each expert, shape (rows, experts)."""
        return np.asarray(_with_one(self._new(X)) @ self.coef_.T)

    def predict(self, X: Any) -> Array:
        """Mean of the experts, weighted by the gate."""
        return np.asarray((self.gate(X) * self.experts(X)).sum(axis=1))


class ExpertClassifier(EnsembleClassifier, _Gated):
    """Mixture of softmax regressions with a gate; parameters are those of :class:`ExpertRegressor`.

    Attributes
    ----------
    gate_ : ndarray, shape (experts, inputs + 1)
    coef_ : ndarray, shape (experts, classes, inputs + 1)
    log_likelihoods_ : ndarray
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Run expectation maximisation from several starts."""
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
        """Probabilities of the experts, averaged with the weights of the gate."""
        g = self.gate(X)
        p = special.softmax(np.einsum("nd,jkd->njk", _with_one(self._new(X)), self.coef_), axis=2)
        return np.asarray(np.einsum("nj,njk->nk", g, p))


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The mixture."""
    kind = ExpertClassifier if task == "classification" else ExpertRegressor
    return kind(**options.model_dump())


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the weights of the gate and the final log likelihood."""
    return {
        "gate": (("expert", "column"), estimator.gate_[:, :-1]),
        "mean_log_likelihood": ((), np.array(estimator.log_likelihoods_[-1])),
    }


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks."""
    return [ExpertRegressor(2, n_init=1, max_iter=15), ExpertClassifier(2, n_init=1, max_iter=10)]
