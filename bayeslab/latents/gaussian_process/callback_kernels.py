"""Calls of a Python function from compiled code through its address, which is passed as data.

Compiled code therefore does not depend on the function, and every process finds it in the cache.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from bayeslab.compiled import kernel

__all__ = ["log_evidence_and_gradient"]


@intrinsic
def _call(context: Any, address: Any, n: Any, parameters: Any, gradient: Any) -> Any:
    """``double (*)(int64 n, double *parameters, double *gradient)`` at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(ir.DoubleType(), [word, word, word])
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])

    return types.float64(types.int64, types.int64, types.int64, types.int64), generate


_at_address: Any = _call


@kernel
def log_evidence_and_gradient(parameters, address):  # type: ignore[no-untyped-def]
    """Value and gradient; NaN parameters are not passed on."""
    gradient = np.zeros(len(parameters))
    if not np.all(np.isfinite(parameters)):
        return -math.inf, gradient
    point = np.ascontiguousarray(parameters).copy()
    here, there = point.ctypes.data, gradient.ctypes.data
    value = _at_address(address[0], len(point), here, there)
    # Numba frees an array after its last use, and an address is none: this one comes after the call.
    return (value if point[0] == point[0] else math.nan), gradient
