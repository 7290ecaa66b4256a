"""Searches for modes: quasi-Newton search, modes from several starts, and Newton steps with curvature."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.engines.toolbox.target import WALL, Array, Target
from bayeslab.errors import ModelError

__all__ = ["End", "Optimum", "Peak", "hessian", "maxima", "newton", "search"]

# Maximum steps of the search for a parameter's scale, each by at most a factor of a thousand; a scale within this
# factor of 1 needs no rescaling.
_SEARCH, _ORDINARY, _AGAIN = 60, 1e3, 5
_EQUAL = 1e-7  # relative difference of log densities due to rounding


@dataclass(frozen=True, eq=False)
class End:
    """The end of a search.

    Attributes
    ----------
    value : float
        The log density at the end.
    slope : ndarray
        Gradient of minus the log density.
    inverse : ndarray
        The search's approximation of the inverse Hessian.
    inside : bool
        Whether the point is in the support.
    """

    point: Array
    value: float
    slope: Array
    inverse: Any
    message: str

    @property
    def inside(self) -> bool:
        return -self.value < 0.1 * WALL

    @property
    def gain(self) -> float:
        """The estimated gain of another quasi-Newton step in log density.

        Convergence is assessed by this gain, since the size of a slope has meaning only relative to the curvature.
        """
        inverse = self.inverse if isinstance(self.inverse, np.ndarray) else self.inverse.todense()
        return float(0.5 * self.slope @ inverse @ self.slope)


def search(
    falling: Callable[[Array], tuple[float, Array]],
    start: Array,
    limits: Mapping[str, Any],
    *,
    method: str = "L-BFGS-B",
    bounds: Sequence[tuple[float | None, float | None]] | None = None,
    step: Callable[[Array], object] | None = None,
) -> End:
    """Minimise minus the log density by a quasi-Newton method; all engines share this search.

    Parameters
    ----------
    falling
        Maps a point to minus its log density and the gradient.
    limits
        SciPy's options of the method.
    bounds
        Lower and upper bound of each element.
    step
        Called with every accepted point.
    """
    from scipy.optimize import minimize

    optimum = minimize(falling, start, jac=True, method=method, bounds=bounds, callback=step, options=dict(limits))
    slope = optimum.jac.copy()
    if bounds is not None:
        # At a bound only a slope that points inwards counts.
        held = np.array([low == 0 and x == 0 for (low, _), x in zip(bounds, optimum.x, strict=True)])
        slope[held] = np.minimum(slope[held], 0.0)
    return End(np.asarray(optimum.x), -float(optimum.fun), slope, optimum.hess_inv, str(optimum.message))


@dataclass(frozen=True, eq=False)
class Optimum:
    """The end point of an optimisation."""

    point: Array
    value: float
    message: str


def maxima(target: Target, points: list[Array], maxeval: int, note: Callable[[str], None]) -> list[Optimum]:
    """Local maxima of the density, highest first; equally high ones (mirror images) in the order of discovery.

    Heights are compared up to rounding, since the last digits of mirror images depend on the machine.
    """
    limits: dict[str, Any] = {"maxfun": maxeval, "maxiter": maxeval, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 20}
    optima = []
    for k, start in enumerate(points):
        best = _climbed(target, start, limits)
        if best is not None:
            optima.append(best)
            note(f"start {k + 1} of {len(points)}: log density {optima[-1].value:.6g}")
    if not optima:
        raise ModelError(
            "the density is zero or undefined wherever the optimiser looked; check data, bounds and priors",
            code="no-start",
        )
    highest = max(optimum.value for optimum in optima)
    equal = highest - _EQUAL * max(1.0, abs(highest))
    return sorted(optima, key=lambda optimum: -highest if optimum.value >= equal else -optimum.value)


def _climbed(target: Target, start: Array, limits: dict[str, Any]) -> Optimum | None:
    """A local maximum from one start; None if the search leaves the support.

    Scales far from the mode are those of the tail. If parameters need rescaling, the search continues from its end with
    the scales found there.
    """
    best: Optimum | None = None
    for _ in range(_AGAIN):
        unit = _units(target, start)

        def falling(z: Array, unit: Array = unit) -> tuple[float, Array]:
            value, slope = target.falling(z * unit)
            return value, slope * unit

        end = search(falling, start / unit, limits)
        if not end.inside:
            break
        start = end.point * unit
        gain = math.inf if best is None else end.value - best.value
        if gain >= 0:
            best = Optimum(start, end.value, end.message)
        if gain < 1e-9 or np.all(unit == 1):
            break
    return best


def _units(target: Target, start: Array) -> Array:
    """The units of parameters for the search: 1, except for parameters of a very different scale."""
    reach = _reaches(target, start, np.arange(start.size))
    return np.where((reach < 1 / _ORDINARY) | (reach > _ORDINARY), reach, 1.0)


def hessian(target: Target, point: Array, free: NDArray[np.intp] | None = None) -> Array:
    """Second derivatives of the log density: gradients differenced, with one Richardson extrapolation.

    The step is a thousandth of each element's scale, whatever its unit. The error of differencing is of
    fourth order, about 1e-12 of the curvature, and the rounding error is of the same size.

    Parameters
    ----------
    free
        The elements to differentiate; the others are held fixed. None: all.
    """
    free = np.arange(point.size) if free is None else free
    steps = 1e-3 * _reaches(target, point, free)
    with np.errstate(all="ignore"):  # not finite at an edge of the support, or where a slope overflows
        fine, coarse = (_differences(target, point, free, h) for h in (steps / 2, steps))
        result = (4 * fine - coarse) / 3
        return (result + result.T) / 2


def _reaches(target: Target, point: Array, free: NDArray[np.intp]) -> Array:
    """The scale of each element: the distance from a point at which the log density changes by about one half.

    In the units of the parameters; 1 for elements without curvature.
    """
    out, open_ = np.ones(free.size), np.ones(free.size, bool)
    here = target.one(point)[0]
    noise = 1e-12 * max(1.0, abs(here))
    for _ in range(_SEARCH):
        at = np.flatnonzero(open_)
        around = np.repeat(point[None], 2 * at.size, axis=0)
        around[np.arange(at.size), free[at]] += out[at]
        around[at.size + np.arange(at.size), free[at]] -= out[at]
        heights = target.many(around)[0]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            bend = np.abs(heights[: at.size] + heights[at.size :] - 2 * here) / 2
            # The distance at which a parabola changes by one half, in limited steps that stay in the support.
            by = np.where(bend > noise, np.sqrt(0.5 / bend), 1e3)
        out[at] *= np.where(np.isfinite(bend), np.clip(by, 1e-3, 1e3), 1e-3)
        open_[at] = ~((bend > 0.05) & (bend < 5.0))
        if not open_.any():
            break
    return np.where(open_, 1.0, out)


def _differences(target: Target, point: Array, free: NDArray[np.intp], steps: Array) -> Array:
    out = np.empty((free.size, free.size))
    for i, (element, step) in enumerate(zip(free, steps, strict=True)):
        around = np.stack((point, point))
        around[:, element] += [step, -step]
        slopes = target.many(around)[1]
        out[i] = (slopes[0, free] - slopes[1, free]) / (around[0, element] - around[1, element])
    return out


@dataclass(frozen=True, eq=False)
class Peak:
    """A maximum after Newton steps.

    Attributes
    ----------
    curvature : ndarray
        Hessian of the log density at the maximum, for the free elements.
    gain : float
        Gain of one more Newton step in log density; NaN if the Hessian is not negative definite.
    """

    point: Array
    value: float
    curvature: Array
    gain: float


def newton(target: Target, point: Array, free: NDArray[np.intp] | None = None) -> Peak:
    """Refine a maximum to rounding error by a few Newton steps that do not decrease the density."""
    free = np.arange(point.size) if free is None else free
    value, slope = target.one(point)
    curvature = hessian(target, point, free)
    gain = math.nan
    for _ in range(5):
        step, gain = _newton_step(curvature, slope[free])
        there = point.copy()
        there[free] += step
        height, new_slope = target.one(there)
        if not (gain > 0 and height >= value - 1e-12 * max(1.0, abs(value))):
            break
        smaller = np.abs(new_slope[free]).max() < np.abs(slope[free]).max()
        if not (height > value or smaller):
            break
        point, value, slope = there, height, new_slope
        curvature = hessian(target, point, free)
        gain = _newton_step(curvature, slope[free])[1]
        if gain < 1e-20:
            break
    return Peak(point, value, curvature, gain)


def _newton_step(curvature: Array, slope: Array) -> tuple[Array, float]:
    """The Newton step and its gain; no step if the Hessian is not negative definite."""
    try:
        factor = np.linalg.cholesky(-curvature) if np.isfinite(curvature).all() else None
    except np.linalg.LinAlgError:
        factor = None
    if factor is None:
        return np.zeros_like(slope), math.nan
    from scipy.linalg import cho_solve

    step: Array = cho_solve((factor, True), slope)
    return step, 0.5 * float(step @ slope)
