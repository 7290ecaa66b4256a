r"""Curve fitting: the curves that a set of basis functions can represent, and Ockham's razor.

A hypothesis is :math:`h(x) = \sum_j w_j \phi_j(x)`. With as many functions as points some curve passes through all
points, such as a polynomial of degree n - 1 through n points, and says little about values in between. Ockham's razor
prefers the simplest space with a curve that agrees with the data [1]_. Whether the space contains the true function
(whether the problem is realizable) matters more than the number of its functions.

References
----------
.. [1] Russell, Norvig (2010). Artificial Intelligence: A Modern Approach, 3rd ed., section 18.2.
.. [2] Blumer, Ehrenfeucht, Haussler, Warmuth (1987). Occam's razor. Information Processing Letters 24, 377-380.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.arrays import count, number, real, same_length
from bayeslab.errors import DataError, OptionError

__all__ = ["Basis", "Curve", "fit_curve", "polynomial", "simplest"]

Array = NDArray[np.float64]
Basis = Sequence[Callable[[Array], Array]]
# Higher powers overflow for two-digit numbers.
_DEGREE = 150


@dataclass(frozen=True, eq=False)
class Curve:
    """A sum of basis functions.

    Attributes
    ----------
    basis : sequence of functions
    weights : ndarray
        One for each function.
    residual : float
        Largest absolute residual at the fitted points.
    """

    basis: Basis
    weights: Array
    residual: float

    def __call__(self, x: Any) -> Array:
        """Return the values of the curve."""
        return np.asarray(_columns(x, self.basis) @ self.weights)


def polynomial(degree: int) -> Basis:
    """Return the powers of x up to a degree, the constant first."""
    count(degree, "degree", 0, _DEGREE)
    return [partial(_power, k) for k in range(degree + 1)]


def _power(k: int, x: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(x**k)


def _columns(x: Any, basis: Basis) -> Array:
    points = np.asarray(x, float)
    return np.stack([np.broadcast_to(f(points), points.shape) for f in basis], axis=-1)


def fit_curve(x: Any, y: Any, basis: Basis) -> Curve:
    """Return the least squares curve.

    Parameters
    ----------
    x, y
        Points, of equal length.
    basis
        Functions of an array of x; see :func:`polynomial`.
    """
    points, target = real(x, "x", ndim=1, error=DataError), real(y, "y", ndim=1, error=DataError)
    same_length(x=points, y=target, error=DataError)
    if not basis:
        raise OptionError("the basis has no functions: give one at least", code="incomplete")
    columns = _columns(points, basis)
    if not np.isfinite(columns).all():
        raise DataError(
            "a function of the basis is infinite at some point: scale x, or take a lower degree", code="not-finite"
        )
    # Scale, because powers of large x differ by orders of magnitude.
    scale = np.maximum(np.abs(columns).max(axis=0), 1e-300)
    weights = np.linalg.lstsq(columns / scale, target, rcond=None)[0] / scale
    return Curve(basis, weights, float(np.abs(columns @ weights - target).max()))


def simplest(x: Any, y: Any, spaces: Sequence[Basis], tolerance: float = 1e-6) -> tuple[int, Curve]:
    """Return the first space that has a curve through all points; list the simplest space first.

    Parameters
    ----------
    tolerance
        Largest residual, as a share of the spread of y; rounding errors of y are always allowed.

    Returns
    -------
    position : int
        Index of the space.
    curve : Curve

    Raises
    ------
    DataError
        No space has such a curve: the problem is not realizable in any of them.
    """
    number(tolerance, "tolerance", 0)
    target = real(y, "y", ndim=1, error=DataError)
    # Values far from zero have a rounding error.
    allowed = max(tolerance * float(np.std(target)), 64 * np.finfo(float).eps * float(np.abs(target).max()))
    for position, basis in enumerate(spaces):
        curve = fit_curve(x, y, basis)
        if curve.residual <= allowed:
            return position, curve
    raise DataError("no space has a curve that agrees with all points", code="contradiction")
