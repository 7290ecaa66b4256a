"""Climbs from many points at once: L-BFGS in which all climbs take each step together.

A step of an optimiser written for one point costs many times the evaluation of a small density. Here the arithmetic of
a step is done for all points in one array operation. Steps fulfil Armijo's condition by backtracking. Where the
density is not concave, steps grow along the gradient.

References
----------
Nocedal, Wright (2006). Numerical Optimization, 2nd edition: algorithms 3.1 (backtracking), 7.4 and 7.5 (L-BFGS).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayeslab.engines.toolbox.target import Array, Target

__all__ = ["Climbs", "climbs"]

# Number of steps from which the curvature is estimated.
_MEMORY = 5
# Least share of the increase that the gradient predicts; bounds of the factor by which a step is shortened; factor by
# which steps grow where the density is not concave.
_ARMIJO, _SHORTEST, _LONGEST, _GROWTH = 1e-4, 0.1, 0.5, 4.0
# A climb ends at an increase, and at a step, below this share of the log density and of the point.
_LEAST_GAIN, _LEAST_STEP = 2e-9, 1e-12
# Least curvature along a step, relative to the squared change of the gradient, that enters the estimate.
_CURVED = 1e-10


@dataclass(frozen=True, eq=False)
class Climbs:
    """The ends of climbs.

    Attributes
    ----------
    points : ndarray (n, n_dim)
    values : ndarray (n,)
        Log density at the ends; -inf for a start outside the support, which is then also the end.
    costs : ndarray of int (n,)
        Number of evaluations of the density.
    """

    points: Array
    values: Array
    costs: NDArray[np.intp]


def climbs(target: Target, starts: Array, most: int, enough: float = np.inf) -> Climbs:
    """Climb from each start towards a mode, with at most ``most`` evaluations each.

    Parameters
    ----------
    starts
        Shape (n, n_dim).
    enough
        A climb ends at this log density.
    """
    with np.errstate(all="ignore"):  # steps can go far beyond the support
        return _climbed(target, starts, most, enough)


def _climbed(target: Target, starts: Array, most: int, enough: float) -> Climbs:
    x = np.array(starts, dtype=np.float64)
    n, n_dim = x.shape
    value, slope = _evaluated(target, x)
    costs = np.ones(n, np.intp)
    memory = _Memory(n, n_dim)
    direction, length = np.zeros((n, n_dim)), np.zeros(n)
    steep = np.sqrt((slope**2).sum(axis=1))
    climbing = np.isfinite(steep) & (value > -np.inf) & (value < enough) & (steep > 0) & (costs < most)
    direction[climbing] = slope[climbing] / steep[climbing, None]
    length[climbing] = np.minimum(1.0, steep[climbing])
    while (rows := np.flatnonzero(climbing)).size:
        step = length[rows, None] * direction[rows]
        there, its_slope = _evaluated(target, x[rows] + step)
        costs[rows] += 1
        predicted = (slope[rows] * step).sum(axis=1)
        taken = there >= value[rows] + _ARMIJO * predicted
        short = ~taken
        length[rows[short]] *= _shortening(value[rows[short]], predicted[short], there[short])
        size = np.abs(x[rows]).max(axis=1, initial=1.0)
        climbing[rows[short]] = np.abs(step[short]).max(axis=1, initial=0.0) > _LEAST_STEP * size[short]
        done, step = rows[taken], step[taken]
        gain = there[taken] - value[done]
        concave = memory.add(done, step, slope[done] - its_slope[taken])
        x[done], value[done], slope[done] = x[done] + step, there[taken], its_slope[taken]
        direction[done], length[done] = memory.product(done, slope[done]), 1.0
        # Along the gradient, by steps that grow, where no curvature is known.
        uphill = (direction[done] * slope[done]).sum(axis=1) > 0
        straight = done[~(concave & uphill)]
        norm = np.sqrt((slope[straight] ** 2).sum(axis=1))
        direction[straight] = slope[straight] / np.where(norm > 0, norm, 1.0)[:, None]
        length[straight] = _GROWTH * np.sqrt((step[~(concave & uphill)] ** 2).sum(axis=1))
        memory.clear(straight)
        climbing[done] = (gain > _LEAST_GAIN * np.maximum(1.0, np.abs(value[done]))) & (value[done] < enough)
        climbing &= costs < most
    return Climbs(x, value, costs)


def _evaluated(target: Target, points: Array) -> tuple[Array, Array]:
    """Values and gradients; -inf and 0 where one of them is not finite."""
    values, slopes = target.many(points)
    valid = np.isfinite(values) & np.isfinite(slopes).all(axis=1)
    return np.where(valid, values, -np.inf), np.where(valid[:, None], slopes, 0.0)


def _shortening(value: Array, predicted: Array, there: Array) -> Array:
    """Factors for the lengths of steps that were too long: to the maximum of a parabola, within bounds."""
    factor = 0.5 * predicted / (value + predicted - there)
    return np.clip(np.where(np.isfinite(factor), factor, 0.0), _SHORTEST, _LONGEST)


class _Memory:
    """The last steps of each climb and the changes of its gradient, from which the inverse curvature follows."""

    def __init__(self, n: int, n_dim: int) -> None:
        self._steps, self._changes = np.zeros((_MEMORY, n, n_dim)), np.zeros((_MEMORY, n, n_dim))
        # Inverse of step @ change; 0 for a place without a step.
        self._weights = np.zeros((_MEMORY, n))
        self._newest = np.zeros(n, np.intp)
        self._scale = np.ones(n)

    def add(self, rows: NDArray[np.intp], steps: Array, changes: Array) -> NDArray[np.bool_]:
        """Add steps with the decrease of the gradient along them; False where the density is not concave."""
        along, squared = (steps * changes).sum(axis=1), (changes**2).sum(axis=1)
        concave: NDArray[np.bool_] = along > _CURVED * squared
        rows, steps, changes = rows[concave], steps[concave], changes[concave]
        self._newest[rows] = (self._newest[rows] + 1) % _MEMORY
        at = self._newest[rows], rows
        self._steps[at], self._changes[at], self._weights[at] = steps, changes, 1.0 / along[concave]
        self._scale[rows] = along[concave] / squared[concave]
        return concave

    def clear(self, rows: NDArray[np.intp]) -> None:
        """Forget the steps of climbs."""
        self._weights[:, rows] = 0.0

    def product(self, rows: NDArray[np.intp], slopes: Array) -> Array:
        """The product of the inverse curvature and the gradient, by the recursion in two loops."""
        out, shares = slopes.copy(), np.zeros((_MEMORY, rows.size))
        places = [((self._newest[rows] - k) % _MEMORY, rows) for k in range(_MEMORY)]
        for k, at in enumerate(places):
            shares[k] = self._weights[at] * (self._steps[at] * out).sum(axis=1)
            out -= shares[k][:, None] * self._changes[at]
        out *= self._scale[rows, None]
        for k, at in reversed([*enumerate(places)]):
            back = self._weights[at] * (self._changes[at] * out).sum(axis=1)
            out += (shares[k] - back)[:, None] * self._steps[at]
        return out
