"""Hyperparameters of a Gaussian process by maximum marginal likelihood (type-II maximum likelihood).

The search uses logarithms of positive parameters, and units of their width for the others. It ends where a Newton step,
with a measured curvature rather than the quasi-Newton estimate, promises a negligible gain. With many rows a subset
comes first: the maximum of its likelihood is a good start, and the curvature there, scaled in proportion to the rows,
is the first estimate of the full curvature. Then few evaluations with all rows remain.

References
----------
.. [1] Rasmussen, Williams (2006). Gaussian Processes for Machine Learning. MIT Press. Section 5.4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

__all__ = ["Maximum", "maximise"]

# Tolerated gap of the log likelihood to the maximum.
_GAIN = 1e-3
# Step of the finite differences of gradients for the curvature, in logarithms or widths.
_STEP = 1e-4


class Regression(Protocol):
    """Data as a function of a vector of hyperparameters, such as `StateSpaceRegression`."""

    def log_marginal(self, parameters: np.ndarray) -> tuple[float, np.ndarray]: ...


@dataclass(frozen=True, eq=False)
class Maximum:
    """Result of a search.

    Attributes
    ----------
    parameters : ndarray
    log_evidence : float
    converged : bool
        Whether a Newton step promises a gain of less than a thousandth of log likelihood.
    evaluations : int
        Number of evaluations with all rows.
    """

    parameters: np.ndarray
    log_evidence: float
    converged: bool
    evaluations: int


def maximise(
    regression: Regression,
    start: np.ndarray,
    positive: np.ndarray,
    *,
    part: Regression | None = None,
    share: float = 1.0,
    fixed: np.ndarray | None = None,
    width: np.ndarray | None = None,
) -> Maximum:
    """The maximum of the marginal likelihood near a start.

    Parameters
    ----------
    regression : Regression
    start : array of shape (p,)
        Start on natural scales.
    positive : array of bool of shape (p,)
        Which parameters are searched for by their logarithms.
    part : Regression, optional
        The problem with a subset of the rows, searched first.
    share : float
        Rows of ``part`` over all rows.
    fixed : array of bool of shape (p,), optional
        Which parameters stay at their start.
    width : array of shape (p,), optional
        Typical scale, such as a prior's width, of parameters that are not positive; default 1.
    """
    start, positive = np.asarray(start, float), np.asarray(positive, bool)
    free = np.ones(len(start), bool) if fixed is None else ~np.asarray(fixed, bool)
    unit = np.ones(len(start)) if width is None else np.where(np.asarray(width) > 0, width, 1.0)
    calls = [0]

    def natural(u: np.ndarray) -> np.ndarray:
        out = start.copy()
        with np.errstate(over="ignore"):  # of parameters that are not positive, where the other branch holds
            out[free] = np.where(positive[free], np.exp(np.minimum(u, 700.0)), u * unit[free])
        return out

    def falling(of: Regression, scale: float) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        def objective(u: np.ndarray) -> tuple[float, np.ndarray]:
            calls[0] += 1
            at = natural(u)
            value, slope = of.log_marginal(at)
            if not np.isfinite(value):
                return 1e300, np.zeros(len(u))
            return -value / scale, -(slope * np.where(positive, at, unit))[free] / scale

        return objective

    u = np.where(positive, np.log(np.where(positive, start, 1.0)), start / unit)[free]
    inverse = None
    if part is not None:
        first = _search(falling(part, 1.0), u, None, positive[free])
        u, inverse, calls[0] = first[0], share * first[1], 0
    u, inverse, value, slope = _search(falling(regression, 1.0), u, inverse, positive[free])
    gain = float(0.5 * slope @ inverse @ slope)
    return Maximum(natural(u), -value, bool(value < 1e299 and gain < _GAIN), calls[0])


def _search(
    objective: Callable[[np.ndarray], tuple[float, np.ndarray]],
    u: np.ndarray,
    inverse: np.ndarray | None,
    logarithms: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
    """Quasi-Newton steps with backtracking, until the next step promises a negligible gain.

    The quasi-Newton curvature may be wrong in directions not yet explored, in which a gradient then seems to promise no
    gain. Therefore it is measured before the search ends, unless the initial one was measured.
    """
    identity = np.eye(len(u))
    value, slope = objective(u)
    h = identity / max(1.0, float(np.abs(slope).max())) if inverse is None else inverse
    measured = inverse is not None
    for k in range(200):
        step = -h @ slope
        promise = float(-0.5 * slope @ step)
        if promise < 0.1 * _GAIN and not measured:
            h, measured = _inverse_curvature(objective, u, slope), True
            step = -h @ slope
            promise = float(-0.5 * slope @ step)
        if promise < 0.1 * _GAIN:
            break
        step *= 2.0 / max(2.0, float(np.abs(step[logarithms]).max(initial=0.0)))  # at most a factor of e² at once
        along, share = float(slope @ step), 1.0
        while True:
            new_value, new_slope = objective(u + share * step)
            if new_value <= value + 1e-4 * share * along or share < 1e-8:
                break
            share *= 0.3
        if not new_value < value:
            break
        measured = inverse is not None
        moved, turned = share * step, new_slope - slope
        u, value, slope = u + moved, new_value, new_slope
        inner = float(moved @ turned)
        if inner > 1e-12 * float(np.linalg.norm(moved) * np.linalg.norm(turned)):
            if k == 0 and inverse is None:
                h = identity * inner / float(turned @ turned)
            left = identity - np.outer(moved, turned) / inner
            h = left @ h @ left.T + np.outer(moved, moved) / inner
    return u, h, value, slope


def _inverse_curvature(
    objective: Callable[[np.ndarray], tuple[float, np.ndarray]], u: np.ndarray, slope: np.ndarray
) -> np.ndarray:
    """The inverse Hessian by finite differences of gradients; negative curvature is reflected."""
    turned = np.array([objective(u + _STEP * axis)[1] - slope for axis in np.eye(len(u))]) / _STEP
    size = np.sqrt(np.abs(np.diag(turned)))
    size[size == 0] = 1.0
    values, vectors = np.linalg.eigh(0.5 * (turned + turned.T) / np.outer(size, size))
    bent = np.maximum(np.abs(values), 1e-10)
    return (vectors / bent) @ vectors.T / np.outer(size, size)
