"""Integrals over one to three dimensions by the trapezoid rule on the whole line.

For a smooth function that vanishes at both ends the trapezoid rule converges faster than any power of the step [1]_:
halving the step roughly doubles the number of correct digits. The density is followed until it has fallen by about
e^-36 on every side (:func:`box`), and the steps are halved until the integral no longer changes (:func:`converged`).

References
----------
.. [1] Trefethen, Weideman (2014). The exponentially convergent trapezoidal rule. SIAM Review 56.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bayeslab.errors import ModelError

__all__ = ["box", "converged", "fine", "grid_draws", "inverse", "marginal", "quantile"]

#: Log density on a grid: takes one array for each axis, returns an array with the axes' lengths as its shape.
type LogDensity = Callable[..., np.ndarray]

_MOST_POINTS = 500_000
# Densities below e^-60 of the maximum are negligible; splines need finite values.
_FLOOR = 60.0


def box(
    log_density: LogDensity,
    start: Sequence[tuple[float, float]],
    names: Sequence[str],
    *,
    n: int = 33,
    depth: float = 36.0,
    nowhere: str = "the density is zero or undefined everywhere",
    peaks: np.ndarray | None = None,
    widest: float = 400.0,
    endless: str = "the posterior is improper: the density of '{name}' does not die out; give it a proper prior",
) -> list[tuple[float, float]]:
    """The region where the density is within e^-depth of its maximum, found by widening and narrowing.

    Parameters
    ----------
    start
        Initial ends.
    names
        Names of the axes, for errors.
    n
        Number of points along each axis.
    depth
        Depth of the region below the maximum; e^-36 is 2e-16.
    nowhere
        Message if the density is nowhere finite.
    peaks
        Points (n, axes) of known high density, however narrow; the search does not miss them.
    widest, endless
        Largest width of an axis, and the message for an axis ``{name}`` that would exceed it.

    Raises
    ------
    ModelError
        The density does not vanish, so that the integral is infinite.
    """
    ends = list(start)
    for _ in range(60):
        even = [np.linspace(low, high, n) for low, high in ends]
        axes = even if peaks is None else [np.union1d(a, peaks[:, d]) for d, a in enumerate(even)]
        height = log_density(*axes)
        if not np.isfinite(height.max()):
            raise ModelError(nowhere, code="no-start")
        above = height >= height.max() - depth
        new = []
        for d, axis in enumerate(axes):
            other = tuple(e for e in range(len(axes)) if e != d)
            inside = np.flatnonzero(above.any(axis=other))
            step, width = even[d][1] - even[d][0], axis[-1] - axis[0]
            low = axis[inside[0]] - step if inside[0] else axis[0] - width / 2
            high = axis[inside[-1]] + step if inside[-1] < len(axis) - 1 else axis[-1] + width / 2
            if high - low > widest:
                raise ModelError(endless.format(name=names[d]), code="improper")
            new.append((low, high))
        settled = all(
            abs(a[0] - b[0]) + abs(a[1] - b[1]) < 0.25 * (a[1] - a[0]) for a, b in zip(new, ends, strict=True)
        )
        ends = new
        if settled:
            break
    return ends


def converged(
    log_density: LogDensity,
    ends: Sequence[tuple[float, float]],
    *,
    n: int | Sequence[int] = 33,
    tolerance: float = 1e-8,
) -> tuple[list[np.ndarray], np.ndarray]:
    """Halve the steps, one axis after the other, until the log integral no longer changes.

    Parameters
    ----------
    n
        Initial number of points, for all axes or for each.

    Returns
    -------
    axes : list of ndarray
    log_mass : ndarray
        Log of the density times the cell's volume; its log-sum-exp is the log integral.

    Raises
    ------
    ModelError
        Half a million points are not enough.
    """
    sizes = [n] * len(ends) if isinstance(n, int) else n
    if np.prod([float(size) for size in sizes]) > _MOST_POINTS:
        raise ModelError(
            "the posterior's modes are too narrow for their distance: no grid holds them; use method smc",
            code="degenerate",
        )
    axes = [np.linspace(low, high, size) for (low, high), size in zip(ends, sizes, strict=True)]
    height = log_density(*axes)
    total = _log_integral(axes, height)
    # Sums of the log densities of many rows are large numbers: less than their rounding is no change.
    tolerance = max(tolerance, 16 * float(np.finfo(float).eps) * abs(total))
    for d in range(len(axes)):
        while True:
            finer, more = _halved(log_density, axes, height, d)
            change, total = abs(_log_integral(finer, more) - total), _log_integral(finer, more)
            if len(axes) == 1 or change >= tolerance:
                # In several dimensions the coarser of two agreeing grids suffices.
                axes, height = finer, more
            if change < tolerance:
                break
            if height.size > _MOST_POINTS:
                raise ModelError("the integral over the grid does not settle; use method nuts", code="not-converged")
        total = _log_integral(axes, height)
    return axes, height + sum(np.log(a[1] - a[0]) for a in axes)


def _log_integral(axes: Sequence[np.ndarray], height: np.ndarray) -> float:
    return float(np.logaddexp.reduce(height, axis=None) + sum(np.log(a[1] - a[0]) for a in axes))


def _halved(
    log_density: LogDensity, axes: Sequence[np.ndarray], height: np.ndarray, d: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """Grid and heights with a midpoint added in every interval of one axis; only the new points are evaluated."""
    between = (axes[d][1:] + axes[d][:-1]) / 2
    new = log_density(*(between if e == d else a for e, a in enumerate(axes)))
    axis = np.insert(axes[d], np.arange(1, len(axes[d])), between)
    joined = np.insert(height, np.arange(1, len(axes[d])), new, axis=d)
    return [axis if e == d else a for e, a in enumerate(axes)], joined


def marginal(log_mass: np.ndarray, d: int) -> np.ndarray:
    """Log mass along one axis, summed over the others."""
    other = tuple(e for e in range(log_mass.ndim) if e != d)
    return np.asarray(np.logaddexp.reduce(log_mass, axis=other)) if other else log_mass


def fine(u: np.ndarray, log_density: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A density on a grid eight times as fine, by a cubic spline of its logarithm."""
    from scipy.interpolate import CubicSpline

    log_density = np.maximum(log_density, log_density.max() - _FLOOR)
    finer = np.linspace(u[0], u[-1], 8 * len(u) - 7)
    return finer, np.exp(CubicSpline(u, log_density)(finer) - log_density.max())


def inverse(u: np.ndarray, density: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Map uniform numbers through the inverse distribution function of a density."""
    cumulative = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return np.interp(uniform * cumulative[-1], cumulative, u)


def _inverses(u: np.ndarray, density: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """The same for one density and one number in each row."""
    cumulative = np.cumsum((density[:, 1:] + density[:, :-1]) / 2, axis=1)
    wanted = uniform * cumulative[:, -1]
    cell = (cumulative < wanted[:, None]).sum(axis=1).clip(0, len(u) - 2)
    row = np.arange(len(density))
    before = np.where(cell > 0, cumulative[row, cell - 1], 0.0)
    mass = np.maximum(cumulative[row, cell] - before, 1e-300)
    return u[cell] + (u[1] - u[0]) * ((wanted - before) / mass).clip(0, 1)


def quantile(u: np.ndarray, log_density: np.ndarray, probability: float) -> float:
    """Quantile of a density on a line."""
    from scipy.interpolate import CubicSpline
    from scipy.optimize import brentq

    finer, density = fine(u, log_density)
    cumulative = CubicSpline(finer, density).antiderivative()
    wanted = probability * cumulative(finer[-1])
    return float(brentq(lambda x: cumulative(x) - wanted, finer[0], finer[-1], xtol=1e-12))


def grid_draws(axes: Sequence[np.ndarray], log_mass: np.ndarray, rng: np.random.Generator, n: int) -> np.ndarray:
    """Independent draws, shape (n, axes), one coordinate at a time given the preceding ones.

    Between the grid points the log density is a cubic spline.
    """
    from scipy.interpolate import CubicSpline
    from scipy.ndimage import map_coordinates

    out, places = np.empty((n, len(axes))), np.empty((0, n))
    for d, axis in enumerate(axes):
        later = tuple(range(d + 1, len(axes)))
        height = np.logaddexp.reduce(log_mass, axis=later) if later else log_mass
        height = np.maximum(height, height.max() - _FLOOR)
        if d == 0:
            out[:, 0] = inverse(*fine(axis, height), rng.random(n))
        else:
            finer = np.linspace(axis[0], axis[-1], 8 * len(axis) - 7)
            uniform = rng.random(n)
            for part in np.array_split(np.arange(n), max(1, n * len(finer) // 2_000_000)):
                if d == 1:
                    across = np.maximum(CubicSpline(axes[0], height)(out[part, 0]), height.max() - _FLOOR)
                    rows = CubicSpline(axis, across, axis=1)(finer)
                else:
                    steps = np.linspace(0.0, len(axis) - 1.0, len(finer))
                    at = [np.repeat(place[part], len(finer)) for place in places] + [np.tile(steps, len(part))]
                    rows = map_coordinates(height, at, order=3, mode="nearest").reshape(len(part), -1)
                out[part, d] = _inverses(finer, np.exp(rows - rows.max(axis=1, keepdims=True)), uniform[part])
        places = np.vstack([places, (out[:, d] - axis[0]) / (axis[1] - axis[0])])
    return out
