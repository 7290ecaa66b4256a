"""The C callback of a density in whitened coordinates: x = centre + scale z, and the gradient with respect to z."""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["callback"]

_NUMBERS = types.CPointer(types.double)


def _call(context: Any, address: Any, n: Any, x: Any, gradient: Any, logp: Any, arguments: Any) -> Any:
    """``int64 (*)(uint64 n, double *x, double *gradient, double *logp, void *arguments)`` at an address."""

    def generate(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [word] * 5)
        return builder.call(builder.inttoptr(given[0], kind.as_pointer()), given[1:])

    word = types.int64
    return word(types.uint64, types.uint64, word, word, word, types.uint64), generate


_called: Any = intrinsic(_call)


def _density(dim: Any, z_: Any, gradient_: Any, logp_: Any, arguments_: Any) -> Any:
    n: Any = np.int64(dim)
    z, gradient, logp = numba.carray(z_, (n,)), numba.carray(gradient_, (n,)), numba.carray(logp_, (1,))
    address = numba.carray(arguments_, (2,), np.uint64)
    numbers = numba.carray(arguments_, (2 + n + n * n,), np.float64)
    x, slope = np.empty(n), np.empty(n)
    for i in range(n):
        x[i] = numbers[2 + i]
        for j in range(n):
            x[i] += numbers[2 + n + i * n + j] * z[j]
    status = _called(address[0], dim, x.ctypes.data, slope.ctypes.data, logp.ctypes.data, address[1])
    for j in range(n):
        gradient[j] = 0.0
        for i in range(n):
            gradient[j] += numbers[2 + n + i * n + j] * slope[i]
    # Numba frees an array after its last use, and an address is none: this one comes after the call.
    return status if x[0] == x[0] else 3


@cache
def callback() -> Any:
    """The callback; its last argument points to the addresses of a density and its arguments, the centre and the scale.

    Examples
    --------
    >>> callback().address > 0
    True
    """
    signature = types.int64(types.uint64, _NUMBERS, _NUMBERS, _NUMBERS, types.voidptr)
    return numba.cfunc(signature, cache=True)(_density)
