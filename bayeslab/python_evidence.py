"""Log evidence that a Python function computes, as compiled code calls it.

For evidence that is not one kernel and is so expensive that calling the interpreter costs little in comparison.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress

import numpy as np

__all__ = ["KERNEL", "PythonEvidence", "value_at"]

#: The kernel that calls the function at an address; its arguments are the parameters and the address.
KERNEL = "bayeslab.latents.gaussian_process.callback_kernels:log_evidence_and_gradient"

# The number of parameters, their address, and that of the log evidence, behind which its gradient is written.
_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
_REALS = ctypes.POINTER(ctypes.c_double)


class PythonEvidence:
    """A Python function at an address, which is valid in this process and as long as this object lives.

    Parameters
    ----------
    function
        From a vector of parameters to the log evidence and its gradient. If it raises an error, the log evidence is
        NaN, as it is with kernels; an error that is not arithmetic is printed.

    Attributes
    ----------
    address : ndarray of int64, shape (1,)
    """

    def __init__(self, function: Callable[[np.ndarray], tuple[float, np.ndarray]]) -> None:
        def call(n: int, point: int, results: int) -> None:
            values = np.ctypeslib.as_array(ctypes.cast(point, _REALS), (n,)).copy()
            out = np.ctypeslib.as_array(ctypes.cast(results, _REALS), (n + 1,))
            out[0] = np.nan
            with np.errstate(all="ignore"), suppress(ArithmeticError, np.linalg.LinAlgError):
                out[0], out[1:] = function(values)

        self._called = _SIGNATURE(call)
        self.address = np.array([ctypes.cast(self._called, ctypes.c_void_p).value], dtype=np.int64)


def value_at(address: np.ndarray, parameters: np.ndarray) -> float:
    """The log evidence by the function at an address."""
    point, results = np.array(parameters, dtype=np.float64), np.empty(len(parameters) + 1)
    _SIGNATURE(int(address[0]))(len(point), point.ctypes.data, results.ctypes.data)
    return float(results[0])
