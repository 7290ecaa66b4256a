"""Parametric local distributions: their tables, and the parameters that fit expected counts best.

A local model maps parameters to a table P(variable | parents). Given expected counts n of the table's entries, the
M-step maximises ``sum n log table`` plus the log prior. Free tables have a closed form. The objective is concave in
``-log(1 - strength)`` of noisy-OR and in the weights of logistic and softmax models; Newton's method maximises it.
Noisy-MAX has an inner EM over the effects of its causes.

References
----------
.. [1] Russell, Norvig (2003). Artificial Intelligence: A Modern Approach, section 20.2 and exercise 20.7.
.. [2] Pearl (1988). Probabilistic Reasoning in Intelligent Systems, section 4.3.2 (noisy-OR).
.. [3] Diez (1993). Parameter adjustment in Bayes networks: the generalized noisy OR-gate. UAI 9, 99-105.
.. [4] Böhning (1992). Multinomial logistic regression algorithm. Annals of the Institute of Statistical
   Mathematics 44, 197-200.
.. [5] Bertsekas (1982). Projected Newton methods for optimization problems with simple constraints. SIAM
   Journal on Control and Optimization 20, 221-246.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from bayeslab.constants import LOG_2PI
from bayeslab.errors import ModelError

__all__ = ["FreeTable", "LocalModel", "NoisyMax", "NoisyOr", "Softmax"]

Array = NDArray[np.float64]

# Probabilities are raised to at least this, so that their logarithms are finite.
_TINY = 1e-300
# The square of the inverse of this number is finite.
_NEAR_ZERO = 1e-100
# -log(1 - strength) for the largest strength below 1.
_CERTAIN = 36.0
_STEPS, _EM_STEPS = 200, 20


class LocalModel(Protocol):
    """A model of one family, with an array of parameters, which has unconstrained coordinates."""

    def table(self, theta: Array) -> Array:
        """P(variable | parents), axes (parents..., variable)."""
        ...

    def fit(self, counts: Array, theta: Array) -> Array:
        """Parameters that maximise the objective for expected counts, never worse than ``theta``."""
        ...

    def log_prior(self, theta: Array) -> float: ...
    def flatten(self, theta: Array) -> Array: ...
    def unflatten(self, x: Array) -> Array: ...
    def gradient(self, theta: Array, counts: Array) -> Array:
        """Gradient of ``sum counts log table`` plus log prior in the coordinates."""
        ...

    def slope(self, theta: Array, counts: Array) -> Array:
        """The gradient of the same in the parameters, without regard to constraints."""
        ...

    def project(self, theta: Array) -> Array:
        """The nearest valid parameters."""
        ...

    def start(self, rng: np.random.Generator) -> Array:
        """Random parameters."""
        ...


# --------------------------------------------------------------------------------- tables


@dataclass(frozen=True, eq=False)
class FreeTable:
    """A table with free probabilities in each row and Dirichlet priors.

    Parameters
    ----------
    base : ndarray, shape (parents..., variable)
        The known rows; the values of other rows are ignored.
    concentration : ndarray
        Concentration of the Dirichlet prior of each row, broadcast to the table: at least 1, because a density with
        smaller ones has no mode. 1 gives maximum likelihood.
    free : ndarray of bool, shape (parents...), optional
        Rows to be estimated; all if left out.
    """

    base: Array
    concentration: Array | float = 1.0
    free: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        base = np.asarray(self.base, dtype=float)
        concentration = np.broadcast_to(np.asarray(self.concentration, dtype=float), base.shape)
        free = np.ones(base.shape[:-1], dtype=bool) if self.free is None else np.asarray(self.free, dtype=bool)
        if np.any(concentration[free] < 1):
            raise ModelError(
                f"a Dirichlet prior with a concentration of {concentration[free].min():g}, below 1, has no mode: its"
                " density is infinite at zero; use at least 1",
                code="no-mode",
            )
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "concentration", concentration)
        object.__setattr__(self, "free", free)

    def table(self, theta: Array) -> Array:
        return theta

    def fit(self, counts: Array, theta: Array) -> Array:
        raised = counts + self._extra
        total = raised.sum(axis=-1, keepdims=True)
        table = np.where(total > 0, raised / np.where(total > 0, total, 1.0), 1.0 / raised.shape[-1])
        return self._with_known(table)

    def log_prior(self, theta: Array) -> float:
        rows, alpha = theta[self._rows], np.asarray(self.concentration)[self._rows]
        if np.all(alpha == 1):
            return 0.0
        constant = gammaln(alpha.sum(axis=-1)).sum() - gammaln(alpha).sum()
        return float(constant + xlogy(alpha - 1, rows).sum())

    def flatten(self, theta: Array) -> Array:
        return np.log(np.maximum(theta[self._rows], _TINY)).ravel()

    def unflatten(self, x: Array) -> Array:
        rows = x.reshape(-1, self.base.shape[-1])
        odds = np.exp(rows - rows.max(axis=-1, keepdims=True))
        out = self.base.copy()
        out[self._rows] = odds / odds.sum(axis=-1, keepdims=True)
        return out

    def gradient(self, theta: Array, counts: Array) -> Array:
        raised, rows = (counts + self._extra)[self._rows], theta[self._rows]
        return (raised - raised.sum(axis=-1, keepdims=True) * rows).ravel()

    def slope(self, theta: Array, counts: Array) -> Array:
        raised = counts + self._extra
        return np.where(np.asarray(self.free)[..., None], raised / np.maximum(theta, _FLOOR), 0.0)

    def project(self, theta: Array) -> Array:
        return self._with_known(_onto_simplex(theta))

    def start(self, rng: np.random.Generator) -> Array:
        # Away from 0, which EM leaves slowly, and not all equal.
        drawn = rng.dirichlet(np.full(self.base.shape[-1], 2.0), size=self.base.shape[:-1])
        return self._with_known(drawn)

    @property
    def _rows(self) -> NDArray[np.bool_]:
        return np.asarray(self.free)

    @property
    def _extra(self) -> Array:
        return np.asarray(self.concentration) - 1.0

    def _with_known(self, table: Array) -> Array:
        return np.where(np.asarray(self.free)[..., None], table, self.base)


# Projections stay above zero, where the derivative n / w is undefined.
_FLOOR = 1e-10


def _onto_simplex(values: Array) -> Array:
    """The nearest rows with sum one and entries of at least ``_FLOOR`` (Held, Wolfe, Crowder 1974)."""
    n = values.shape[-1]
    room = 1.0 - n * _FLOOR
    ordered = -np.sort(-values, axis=-1)
    excess = (np.cumsum(ordered, axis=-1) - room) / np.arange(1, n + 1)
    last = (ordered > excess).sum(axis=-1, keepdims=True) - 1
    return np.maximum(values - np.take_along_axis(excess, last, axis=-1), 0.0) + _FLOOR


# --------------------------------------------------------------------------------- noisy-OR


@dataclass(frozen=True, eq=False)
class NoisyOr:
    """Noisy-OR: each present cause independently produces the effect, P(absent | u) = prod over causes (1 - strength).

    Parameters
    ----------
    shape : tuple of int
        Shape of the table; the variable has two states.
    causes : ndarray, shape (rows of the table, n_parameters)
        1 where a cause is present; a leak is a column of ones.
    present : int
        Index of the state that the causes produce.
    fixed : ndarray, shape (rows of the table,), optional
        Probability that causes of known strength do not produce the effect; 1 if left out.
    prior : ndarray, shape (2, n_parameters), optional
        Both parameters of the Beta prior of each strength, at least 1.
    """

    shape: tuple[int, ...]
    causes: Array
    present: int = 1
    fixed: Array | None = None
    prior: Array | None = None

    @classmethod
    def of(cls, shape: tuple[int, ...], *, leak: bool, prior: Array | None = None) -> NoisyOr:
        """A model with a strength for each parent, whose second state is "present", and with a leak if ``leak``."""
        rows = np.indices(shape[:-1]).reshape(len(shape) - 1, -1).T.astype(float)
        return cls(shape, np.hstack([rows, np.ones((len(rows), 1))]) if leak else rows, prior=prior)

    def __post_init__(self) -> None:
        if self.shape[-1] != 2:
            raise ModelError(
                f"noisy-OR needs a variable with two states; this one has {self.shape[-1]}", code="not-applicable"
            )
        if self.prior is not None and np.any(np.asarray(self.prior) < 1):
            raise ModelError("a Beta prior with a parameter below 1 has no mode; use at least 1", code="no-mode")

    def table(self, theta: Array) -> Array:
        absent = np.exp(-self._total(_weights(theta)))
        present = -np.expm1(-self._total(_weights(theta)))
        pair = (absent, present) if self.present == 1 else (present, absent)
        return np.stack(pair, axis=-1).reshape(self.shape)

    def fit(self, counts: Array, theta: Array) -> Array:
        absent, present = self._split_counts(counts)
        w = _weights(np.clip(theta, 1e-6, 1 - 1e-6))
        estimate = -np.expm1(-_newton_above_zero(lambda w: self._value(w, absent, present), w))
        at = [self._value(_weights(t), absent, present)[0] for t in (estimate, theta)]
        return estimate if at[0] >= at[1] else theta

    def log_prior(self, theta: Array) -> float:
        if self.prior is None:
            return 0.0
        a, b = self.prior
        constant = (gammaln(a + b) - gammaln(a) - gammaln(b)).sum()
        return float(constant + xlogy(a - 1, theta).sum() + xlogy(b - 1, 1 - theta).sum())

    def flatten(self, theta: Array) -> Array:
        return np.log(np.maximum(theta, _TINY)) - np.log(np.maximum(1 - theta, 1e-16))

    def unflatten(self, x: Array) -> Array:
        return 1 / (1 + np.exp(-np.clip(x, -690.0, 40.0)))

    def gradient(self, theta: Array, counts: Array) -> Array:
        # d/dx = d/dw · dw/ds · ds/dx with w = -log(1 - s) and ds/dx = s (1 - s).
        return self._value(_weights(theta), *self._split_counts(counts))[1] * theta

    def slope(self, theta: Array, counts: Array) -> Array:
        out: Array = self._value(_weights(theta), *self._split_counts(counts))[1] / np.maximum(1 - theta, _FLOOR)
        return out

    def project(self, theta: Array) -> Array:
        return np.clip(theta, _FLOOR, 1 - _FLOOR)

    def start(self, rng: np.random.Generator) -> Array:
        return rng.uniform(0.1, 0.9, (self.causes.shape[1],))

    def _total(self, w: Array) -> Array:
        fixed = 0.0 if self.fixed is None else -np.log(np.maximum(self.fixed, _TINY))
        out: Array = self.causes @ w + fixed
        return out

    def _split_counts(self, counts: Array) -> tuple[Array, Array]:
        rows = np.asarray(counts, dtype=float).reshape(-1, 2)
        return rows[:, 1 - self.present], rows[:, self.present]

    def _value(self, w: Array, absent: Array, present: Array) -> tuple[float, Array, Array]:
        """The objective, its gradient and minus its Hessian in w = -log(1 - strength), in which it is concave."""
        t = self._total(w)
        possible = present > 0
        safe = np.where(possible, np.maximum(t, _NEAR_ZERO), 1.0)
        there = -np.expm1(-safe)
        value = -float(absent @ t) + float(present[possible] @ np.log(there[possible]))
        if np.any(possible & (t <= 0)):
            value = -math.inf
        pull = np.where(possible, present / np.expm1(np.minimum(safe, 700.0)), 0.0)
        slope = self.causes.T @ (pull - absent)
        curvature = self.causes.T @ (self.causes * (pull / there)[:, None])
        if self.prior is not None:
            a, b = self.prior
            s = np.maximum(-np.expm1(-w), _NEAR_ZERO)
            value += float(xlogy(a - 1, s).sum() - ((b - 1) * w).sum())
            each = (a - 1) / np.expm1(np.clip(w, _NEAR_ZERO, 700.0))
            slope = slope + each - (b - 1)
            curvature = curvature + np.diag(each / s)
        return value, slope, curvature


def _weights(strengths: Array) -> Array:
    return np.minimum(-np.log1p(-np.minimum(strengths, 1 - 1e-16)), _CERTAIN)


type Concave = Callable[[Array], tuple[float, Array, Array]]


def _newton_above_zero(function: Concave, w: Array) -> Array:
    """The maximum of a concave function over 0 ≤ w ≤ _CERTAIN by projected Newton steps [5]_.

    ``function`` returns value, gradient and minus the Hessian. Parameters near a bound to which the gradient points
    take separate gradient steps; the others take a Newton step. This makes every short projected step an ascent step.
    """
    value, slope, curvature = function(w)
    for _ in range(_STEPS):
        near = min(1e-2, float(np.abs(w - np.clip(w + slope, 0.0, _CERTAIN)).max(initial=0.0)))
        bound = ((w <= near) & (slope < 0)) | ((w >= _CERTAIN - near) & (slope > 0))
        move = np.flatnonzero(~bound)
        step = slope / np.maximum(np.diag(curvature), _TINY)
        block = curvature[np.ix_(move, move)]
        ridge = 1e-12 * max(_TINY, float(np.trace(block)))
        step[move] = np.linalg.lstsq(block + ridge * np.eye(move.size), slope[move], rcond=None)[0]
        length, after, terms = 1.0, w, (value, slope, curvature)
        while length > 1e-12:
            trial = np.clip(w + length * step, 0.0, _CERTAIN)
            result = function(trial)
            if result[0] >= value:
                after, terms = trial, result
                break
            length /= 3
        moved, gain = float(np.abs(after - w).max(initial=0.0)), terms[0] - value
        w, (value, slope, curvature) = after, terms
        if moved < 1e-10 or (gain <= 1e-14 * abs(value) and moved < 1e-6):
            break
    return w


# --------------------------------------------------------------------------------- noisy-MAX


@dataclass(frozen=True, eq=False)
class NoisyMax:
    """Noisy-MAX: each present cause has an independent effect, and the variable is their maximum [3]_.

    Parameters
    ----------
    shape : tuple of int
        Shape of the table.
    causes : ndarray, shape (rows of the table, n_causes)
        1 where a cause is present; a leak is a column of ones.
    order : ndarray of int
        The variable's states in ascending order; the first is "absent".
    concentration : ndarray, shape (n_causes, n_states), optional
        Concentration of the Dirichlet prior of each effect, states in ascending order; at least 1.
    known : ndarray, shape (n_causes, n_states), optional
        Known distributions of effects; NaN in rows to be estimated.

    Notes
    -----
    Parameters are the distributions of the effects, shape (n_causes, n_states), states in ascending order.
    """

    shape: tuple[int, ...]
    causes: Array
    order: NDArray[np.intp]
    concentration: Array | float = 1.0
    known: Array | None = None

    @property
    def _rows(self) -> FreeTable:
        n = (self.causes.shape[1], self.shape[-1])
        if self.known is None:
            return FreeTable(np.full(n, 1 / n[1]), self.concentration)
        return FreeTable(np.nan_to_num(self.known), self.concentration, np.isnan(self.known).any(axis=1))

    def table(self, theta: Array) -> Array:
        below = self._below(theta).prod(axis=1)
        rows = np.maximum(np.diff(below, axis=1, prepend=0.0), 0.0)
        return rows[:, np.argsort(self.order)].reshape(self.shape)

    def fit(self, counts: Array, theta: Array) -> Array:
        # First some EM steps, then BFGS, which converges faster.
        from scipy.optimize import minimize

        local = self._rows
        for _ in range(_EM_STEPS):
            theta = local.fit(self._effects(theta, counts), theta)

        def falling(x: Array) -> tuple[float, Array]:
            there = self.unflatten(x)
            return -self._fit_of(there, counts), -self.gradient(there, counts)

        estimate = self.unflatten(minimize(falling, self.flatten(theta), jac=True, method="BFGS").x)
        return estimate if self._fit_of(estimate, counts) >= self._fit_of(theta, counts) else theta

    def log_prior(self, theta: Array) -> float:
        return self._rows.log_prior(theta)

    def flatten(self, theta: Array) -> Array:
        return self._rows.flatten(theta)

    def unflatten(self, x: Array) -> Array:
        return self._rows.unflatten(x)

    def gradient(self, theta: Array, counts: Array) -> Array:
        # Fisher's identity: the effects are latent, and their expected counts give the gradient.
        return self._rows.gradient(theta, self._effects(theta, counts))

    def slope(self, theta: Array, counts: Array) -> Array:
        return self._rows.slope(theta, self._effects(theta, counts))

    def project(self, theta: Array) -> Array:
        return self._rows.project(theta)

    def start(self, rng: np.random.Generator) -> Array:
        return self._rows.start(rng)

    def _below(self, theta: Array) -> Array:
        """P(effect of cause ≤ x) in each row: (rows, causes, ascending states); 1 where the cause is absent."""
        return np.where(self.causes[:, :, None] > 0, np.cumsum(theta, axis=1)[None], 1.0)

    def _fit_of(self, theta: Array, counts: Array) -> float:
        return float(xlogy(counts, self.table(theta)).sum()) + self.log_prior(theta)

    def _effects(self, theta: Array, counts: Array) -> Array:
        """Expected counts of the effects of each cause, given counts of their maximum."""
        observed = np.asarray(counts, dtype=float).reshape(-1, self.shape[-1])[:, self.order]
        below = self._below(theta)
        lower = np.concatenate([np.zeros_like(below[..., :1]), below[..., :-1]], axis=2)
        n_causes = self.causes.shape[1]
        rest = np.stack([np.delete(below, i, axis=1).prod(axis=1) for i in range(n_causes)], axis=1)
        rest_lower = np.stack([np.delete(lower, i, axis=1).prod(axis=1) for i in range(n_causes)], axis=1)
        largest = np.diff(below.prod(axis=1), axis=1, prepend=0.0)
        ratio = np.where(largest > 0, observed / np.where(largest > 0, largest, 1.0), 0.0)
        out = np.zeros_like(theta)
        for i in range(n_causes):
            there = self.causes[:, i] > 0
            # The effect of the cause is x and all others are at most x; or it is below x and another one is x.
            at = ratio[there] * rest[there, i]
            above = ratio[there] * (rest[there, i] - rest_lower[there, i])
            strictly = np.cumsum(above[:, ::-1], axis=1)[:, ::-1] - above
            out[i] = theta[i] * (at + strictly).sum(axis=0)
        return out


# --------------------------------------------------------------------------------- softmax


@dataclass(frozen=True, eq=False)
class Softmax:
    """Softmax regression: log odds against a reference state are linear in features of the parents' states.

    Parameters
    ----------
    shape : tuple of int
        Shape of the table.
    design : ndarray, shape (rows of the table, n_features)
        Features of each combination of the parents' states; a column of ones for the intercepts.
    reference : int
        Index of the state whose score is 0. With two states this is logistic regression.
    prior : tuple of ndarray, optional
        Means and sds of independent normal priors, broadcast to (n_states - 1, n_features); an sd of inf is no prior.
    known : ndarray, shape (n_states - 1, n_features), optional
        Known weights; NaN for those to be estimated.

    Notes
    -----
    Parameters have the shape (n_states - 1, n_features). If features separate the states and there is no prior, the
    weights grow until the fit is perfect up to rounding.
    """

    shape: tuple[int, ...]
    design: Array
    reference: int = 0
    prior: tuple[Array | float, Array | float] | None = None
    known: Array | None = None

    def table(self, theta: Array) -> Array:
        return self._probabilities(theta).reshape(self.shape)

    def fit(self, counts: Array, theta: Array) -> Array:
        rows = np.asarray(counts, dtype=float).reshape(-1, self.shape[-1])
        theta = self._filled(theta)
        value = self._value(theta, rows)
        free = self._free.ravel()
        for _ in range(_STEPS):
            slope, curvature = self._slope(theta, rows).ravel()[free], self._curvature(theta, rows)[np.ix_(free, free)]
            ridge = 1e-10 * max(1e-300, float(np.trace(curvature)))
            step = np.zeros(theta.size)
            step[free] = np.linalg.lstsq(curvature + ridge * np.eye(slope.size), slope, rcond=None)[0]
            length, after, value_after = 1.0, theta, value
            while length > 1e-10:
                after = theta + length * step.reshape(theta.shape)
                value_after = self._value(after, rows)
                if value_after >= value:
                    break
                length /= 4
            if not value_after >= value:
                break
            gain, theta, value = value_after - value, after, value_after
            if gain <= 1e-13 * max(1.0, abs(value)):
                break
        return theta

    def log_prior(self, theta: Array) -> float:
        mean, sd = self._normal(theta)
        proper = np.isfinite(sd) & self._free
        z = ((theta - mean) / sd)[proper]
        return float(-0.5 * (z @ z) - np.log(sd[proper]).sum() - 0.5 * z.size * LOG_2PI)

    def flatten(self, theta: Array) -> Array:
        return theta[self._free]

    def unflatten(self, x: Array) -> Array:
        out = self._filled(np.zeros(self._free.shape))
        out[self._free] = x
        return out

    def gradient(self, theta: Array, counts: Array) -> Array:
        return self._slope(theta, np.asarray(counts, dtype=float).reshape(-1, self.shape[-1]))[self._free]

    def slope(self, theta: Array, counts: Array) -> Array:
        gradient = self._slope(theta, np.asarray(counts, dtype=float).reshape(-1, self.shape[-1]))
        return np.where(self._free, gradient, 0.0)

    def project(self, theta: Array) -> Array:
        return theta

    def start(self, rng: np.random.Generator) -> Array:
        return self._filled(rng.normal(size=self._free.shape))

    @property
    def _free(self) -> NDArray[np.bool_]:
        shape = (self.shape[-1] - 1, self.design.shape[1])
        return np.ones(shape, dtype=bool) if self.known is None else np.isnan(self.known)

    @property
    def _targets(self) -> NDArray[np.intp]:
        return np.flatnonzero(np.arange(self.shape[-1]) != self.reference)

    def _filled(self, theta: Array) -> Array:
        return np.array(theta) if self.known is None else np.where(np.isnan(self.known), theta, self.known)

    def _normal(self, theta: Array) -> tuple[Array, Array]:
        mean, sd = (0.0, np.inf) if self.prior is None else self.prior
        return np.broadcast_to(mean, theta.shape).astype(float), np.broadcast_to(sd, theta.shape).astype(float)

    def _log_probabilities(self, theta: Array) -> Array:
        scores = np.insert(self.design @ theta.T, self.reference, 0.0, axis=1)
        top = scores.max(axis=1, keepdims=True)
        out: Array = scores - top - np.log(np.exp(scores - top).sum(axis=1, keepdims=True))
        return out

    def _probabilities(self, theta: Array) -> Array:
        return np.exp(self._log_probabilities(theta))

    def _value(self, theta: Array, rows: Array) -> float:
        return float((rows * self._log_probabilities(theta)).sum()) + self.log_prior(theta)

    def _slope(self, theta: Array, rows: Array) -> Array:
        p = self._probabilities(theta)
        error = (rows - rows.sum(axis=1, keepdims=True) * p)[:, self._targets]
        mean, sd = self._normal(theta)
        out: Array = error.T @ self.design - (theta - mean) / sd**2
        return out

    def _curvature(self, theta: Array, rows: Array) -> Array:
        p = self._probabilities(theta)[:, self._targets]
        n, size = rows.sum(axis=1), theta.size
        spread = n[:, None, None] * (np.einsum("rj,jk->rjk", p, np.eye(p.shape[1])) - np.einsum("rj,rk->rjk", p, p))
        out: Array = np.einsum("rjk,ra,rb->jakb", spread, self.design, self.design).reshape(size, size)
        return out + np.diag(self._normal(theta)[1].ravel() ** -2.0)
