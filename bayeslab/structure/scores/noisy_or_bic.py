r"""BIC of noisy-OR families, which have k + 1 parameters for k parents instead of the 2^k of a table.

Every variable has two states, the second of which is *on* (``yes`` after ``no``, ``True`` after ``False``). A variable
stays off if every parent that is on, and the leak, fail to turn it on:

.. math:: P(\text{off} \mid x) = \exp(-\theta_0 - \sum_u x_u \theta_u), \quad \theta \ge 0

The score is the maximised log likelihood minus :math:`\frac{1}{2} \log N \cdot (k + 1)` for k parents. The log
likelihood is concave in theta; the maximum is found by Newton's method on the non-zero parameters.

References
----------
.. [1] Pearl (1988). Probabilistic Reasoning in Intelligent Systems, section 4.3.2.
.. [2] Friedman, Goldszmidt (1996). Learning Bayesian networks with local structure. UAI 12, 252-262 (compact local
   distributions let a score admit more parents).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import DataError
from bayeslab.structure.constraints import members_of
from bayeslab.structure.data import Observations
from bayeslab.structure.scores import Work
from bayeslab.structure.scores.toolbox.families import Found, one_by_one

__all__ = ["NoisyOrScore", "noisy_or_fit", "score"]

# exp(-50) is negligible: a cause that never failed.
_LARGEST = 50.0


def noisy_or_fit(
    on: NDArray[np.float64], n_off: NDArray[np.float64], n_on: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Return the maximum of the log likelihood and its location.

    Parameters
    ----------
    on : ndarray, shape (n_configurations, n_parameters)
        Which parameters are active in each configuration of the parents; the first column is 1 for the leak.
    n_off, n_on : ndarray, shape (n_configurations,)
        How often the child is off and on in each configuration.
    """
    theta = np.full(on.shape[1], 0.5 / on.shape[1])
    value, tolerance = _log_likelihood(theta, on, n_off, n_on), 1e-9 * max(1.0, float((n_off + n_on).sum()))
    for _ in range(200):
        # Where the child is never on, its odds do not matter and eta may be zero.
        odds = 1 / np.expm1(np.where(n_on > 0, np.minimum(on @ theta, 700.0), 1.0))
        slope = on.T @ (n_on * odds - n_off)
        free = ~((theta <= 0) & (slope <= 0)) & ~((theta >= _LARGEST) & (slope >= 0))
        if not free.any() or np.abs(slope[free]).max() < tolerance * 1e-3:
            break
        curvature = (on[:, free] * (n_on * odds * (1 + odds))[:, None]).T @ on[:, free]
        ridge = 1e-12 * (np.trace(curvature) + 1e-12) * np.eye(int(free.sum()))
        step = np.zeros(len(theta))
        step[free] = np.linalg.solve(curvature + ridge, slope[free])
        theta, gained, value = _climbed(theta, step, slope * free, value, on, n_off, n_on)
        if gained < 1e-13 * abs(value):
            break
    return value, theta


def _log_likelihood(
    theta: NDArray[np.float64], on: NDArray[np.float64], n_off: NDArray[np.float64], n_on: NDArray[np.float64]
) -> float:
    eta = on @ theta
    if np.any((eta <= 0) & (n_on > 0)):
        return -math.inf
    logs = np.log(-np.expm1(-np.where(n_on > 0, eta, 1.0)))
    return float(n_on @ logs - n_off @ eta)


def _climbed(
    theta: NDArray[np.float64],
    step: NDArray[np.float64],
    slope: NDArray[np.float64],
    value: float,
    *data: NDArray[np.float64],
) -> tuple[NDArray[np.float64], float, float]:
    """Take a step that does not lower the likelihood, along Newton's direction or, near bounds, the gradient."""
    for direction in (step, slope / max(1e-300, float(np.abs(slope).max()))):
        size = 1.0
        while size > 1e-9:
            trial = np.clip(theta + size * direction, 0.0, _LARGEST)
            trial_value = _log_likelihood(trial, *data)
            if trial_value > value:
                return trial, trial_value - value, trial_value
            size /= 2
    return theta, 0.0, value


@dataclass(frozen=True, eq=False)
class NoisyOrScore:
    """The noisy-OR BIC score of a data set."""

    data: Observations
    score: str = "noisy_or_bic"

    @property
    def names(self) -> tuple[str, ...]:
        return self.data.names

    def local(self, child: int, parents: tuple[int, ...]) -> float:
        """Local score of a variable given its parents."""
        in_order = sorted(parents)
        rows, weights = self.data.codes, self.data.weights.astype(np.float64)
        place = np.zeros(len(rows), np.int64)
        for u in in_order:
            place = 2 * place + rows[:, u]
        configurations, place = np.unique(place, return_inverse=True)
        counts = np.bincount(2 * place + rows[:, child], weights, 2 * len(configurations)).reshape(-1, 2)
        causes = configurations[:, None] >> np.arange(len(in_order))[::-1] & 1
        on = np.column_stack([np.ones(len(configurations)), causes]).astype(np.float64)
        fit, _ = noisy_or_fit(on, counts[:, 0], counts[:, 1])
        return fit - 0.5 * math.log(weights.sum()) * (len(in_order) + 1)

    def many(self, child: int, sets: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Local scores of parent sets given as bits, shape (n_sets, n_words)."""
        return np.array([self.local(child, members_of(mask)) for mask in sets])

    def all_sets(
        self,
        children: NDArray[np.int64],
        limits: NDArray[np.int64],
        allowed: NDArray[np.bool_],
        work: Work = Work(),  # noqa: B008 - frozen
    ) -> list[Found]:
        """Local scores of all sets of allowed parents, small sets first."""
        return one_by_one(self.local, children, limits, allowed, work)

    def seconds(self, n_sets: int) -> float:
        """Return the estimated time in seconds for this many sets on one core."""
        return n_sets * (1e-3 + 5e-8 * len(self.data.weights))


def score(data: Any, *, states: Mapping[str, Sequence[Any]] | None = None) -> NoisyOrScore:
    """Return the noisy-OR BIC score of a table of variables with two states.

    Parameters
    ----------
    data
        A table (:meth:`bayeslab.structure.data.Observations.of`).
    states
        States of variables, off before on, if sorting does not give that order.
    """
    observations = Observations.of(data, kind="discrete", states=states)
    observations.require("discrete", "noisy_or_bic")
    for name, levels in zip(observations.names, observations.states, strict=True):
        if len(levels) != 2:
            raise DataError(
                f"'{name}' has {len(levels)} states; a noisy-OR is of variables with two, off and on",
                code="not-applicable",
            )
    return NoisyOrScore(observations)
