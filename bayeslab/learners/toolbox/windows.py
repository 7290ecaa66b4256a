r"""Windows: how the weight of an example falls with its distance from the query.

Each is a function of the distance that is symmetric, largest at zero, where it is one, and of finite area. ``width``
is the standard deviation of the Gaussian, and for the others the whole width of the interval where the window is
positive: the quadratic one is :math:`K(d) = \max(0, 1 - (2|d|/k)^2)`.

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
        No such window, or a width that is not positive.
    """
    if name not in WINDOWS:
        raise ValueError(f"kernel is one of {', '.join(WINDOWS)}, not {name!r}")
    if not width > 0:
        raise ValueError(f"width is positive, not {width!r}")
    return WINDOWS[name](np.asarray(distance, float), width)


def log_window(name: str, distance: Array, width: float) -> Array:
    """Their logarithms; those of the Gaussian do not run out of numbers far from the query."""
    if name == "gaussian" and width > 0:
        with np.errstate(over="ignore"):
            return -0.5 * (np.asarray(distance, float) / width) ** 2
    with np.errstate(divide="ignore"):
        return np.log(window(name, distance, width))
