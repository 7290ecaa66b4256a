r"""Kernel windows: the weight of a row as a function of its distance from the query.

Each window is a symmetric function of the distance with maximum one at zero and finite area. ``width`` is the standard
deviation of the Gaussian; for the others it is the full width of the interval on which the window is positive. The
quadratic window, for example, is :math:`K(d) = \max(0, 1 - (2|d|/k)^2)` with width k.

References
----------
.. [1] Epanechnikov (1969). Non-parametric estimation of a multivariate probability density. Theory of Probability and
   its Applications 14, 153-158 (the quadratic window).
.. [2] Cleveland (1979). Robust locally weighted regression. JASA 74, 829-836 (tricube).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["WINDOWS", "Window", "log_window", "window"]

Array = NDArray[np.float64]
Window = Literal["gaussian", "quadratic", "triangular", "tricube", "uniform"]


def _inside(distance: Array, width: float) -> Array:
    return np.abs(distance) * (2 / width)


def _gaussian(distance: Array, width: float) -> Array:
    return np.exp(-0.5 * (distance / width) ** 2)


def _quadratic(distance: Array, width: float) -> Array:
    return np.maximum(0.0, 1 - _inside(distance, width) ** 2)


def _triangular(distance: Array, width: float) -> Array:
    return np.maximum(0.0, 1 - _inside(distance, width))


def _tricube(distance: Array, width: float) -> Array:
    return np.maximum(0.0, 1 - _inside(distance, width) ** 3) ** 3


def _uniform(distance: Array, width: float) -> Array:
    return (_inside(distance, width) <= 1).astype(float)


WINDOWS: dict[str, Callable[[Array, float], Array]] = {
    "gaussian": _gaussian,
    "quadratic": _quadratic,
    "triangular": _triangular,
    "tricube": _tricube,
    "uniform": _uniform,
}


def window(name: str, distance: Array, width: float) -> Array:
    """Weights at these distances.

    Raises
    ------
    ValueError
        The window is unknown, or the width is not positive.
    """
    if name not in WINDOWS:
        raise ValueError(f"kernel is one of {', '.join(WINDOWS)}, not {name!r}")
    if not width > 0:
        raise ValueError(f"width is positive, not {width!r}")
    return WINDOWS[name](np.asarray(distance, float), width)


def log_window(name: str, distance: Array, width: float) -> Array:
    """Logarithms of the weights; the Gaussian does not underflow far from the query."""
    if name == "gaussian" and width > 0:
        with np.errstate(over="ignore"):
            return -0.5 * (np.asarray(distance, float) / width) ** 2
    with np.errstate(divide="ignore"):
        return np.log(window(name, distance, width))
