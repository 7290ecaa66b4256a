"""The log density as engines evaluate it: at many points at once, and negated for searches."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.posterior.log_density import LogDensity

__all__ = ["WALL", "Array", "Target"]

Array = NDArray[np.float64]
# The value for a search outside the support.
WALL = 1e300


@dataclass(frozen=True, eq=False)
class Target:
    """The log density, optimised for very many calls.

    Most of the time of a call of ``Density`` is spent on preparing addresses; here they are prepared once.
    """

    density: LogDensity
    _function: Any = field(init=False)
    _data: int = field(init=False)

    def __post_init__(self) -> None:
        pointers = [ctypes.c_uint64, *[ctypes.c_void_p] * 4]
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *pointers)
        object.__setattr__(self, "_function", kind(self.density.address))
        object.__setattr__(self, "_data", self.density.arguments)

    @property
    def n_dim(self) -> int:
        return self.density.n_dim

    def many(self, points: Array) -> tuple[Array, Array]:
        """Values (n,) and gradients (n, n_dim) at points (n, n_dim).

        Outside the support the value is -inf; an undefined gradient is NaN.
        """
        points = np.ascontiguousarray(points, dtype=np.float64)
        n, d = points.shape
        values, gradients = np.full(n, -np.inf), np.full((n, d), np.nan)
        x, g, v = points.ctypes.data, gradients.ctypes.data, values.ctypes.data
        call, data = self._function, self._data
        for i in range(n):
            call(d, x + 8 * d * i, g + 8 * d * i, v + 8 * i, data)
        values[np.isnan(values)] = -np.inf
        return values, gradients

    def one(self, point: Array) -> tuple[float, Array]:
        values, gradients = self.many(point[None])
        return float(values[0]), gradients[0]

    def falling(self, point: Array) -> tuple[float, Array]:
        """Minus the log density and its gradient, for a minimiser; a very large value outside the support."""
        value, gradient = self.one(point)
        if not (math.isfinite(value) and np.isfinite(gradient).all()):
            return WALL, np.zeros_like(point)
        return -value, -gradient
