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
def _call(context: Any, address: Any, n: Any, parameters: Any, results: Any) -> Any:
    """``void (*)(int64 n, double *parameters, double *results)`` at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [word, word, word])
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64), generate


_at_address: Any = _call


@kernel
def log_evidence_and_gradient(parameters, address):  # type: ignore[no-untyped-def]
    """Value and gradient; NaN parameters are not passed on."""
    results = np.zeros(len(parameters) + 1)
    if not np.all(np.isfinite(parameters)):
        return -math.inf, results[1:]
    point = np.ascontiguousarray(parameters).copy()
    _at_address(address[0], len(point), point.ctypes.data, results.ctypes.data)
    # Numba frees an array after its last use, and an address is none: this one comes after the call.
    return (results[0] if point[0] == point[0] else math.nan), results[1:]
