"""A Python function called from compiled code through its address, which enters as data.

So what is compiled does not depend on the function, and is found in the cache by every process.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

__all__ = ["log_evidence_and_gradient"]


@intrinsic
def _call(context: Any, address: Any, n: Any, parameters: Any, gradient: Any) -> Any:
    """``double (*)(int64 n, double *parameters, double *gradient)`` at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(ir.DoubleType(), [word, word, word])
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])

    return types.float64(types.int64, types.int64, types.int64, types.int64), generate


@numba.njit(cache=True)
def log_evidence_and_gradient(parameters, address):  # type: ignore[no-untyped-def]
    """Value and gradient; NaN parameters are not passed on."""
    gradient = np.zeros(len(parameters))
    if not np.all(np.isfinite(parameters)):
        return -math.inf, gradient
    point = np.ascontiguousarray(parameters).copy()
    here, there = point.ctypes.data, gradient.ctypes.data
    return _call(address[0], len(point), here, there), gradient  # type: ignore[call-arg]
