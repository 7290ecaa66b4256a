"""How kernels are compiled: functions of numbers and arrays, by Numba, kept in the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core.registry import CPUDispatcher

__all__ = ["inner", "kernel"]

_njit: Any = numba.njit  # whose published types know not all of its options


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function for calls from Python and from other kernels.

    It runs without the interpreter's lock, and cannot be passed to C code: that wrapper is not compiled.

    Parameters
    ----------
    function
        The function; None to give options first, as in ``@kernel(error_model="numpy")``.
    **options
        Further options of :func:`numba.njit`.
    """
    decorate = _njit(cache=True, nogil=True, no_cfunc_wrapper=True, **options)
    return decorate if function is None else decorate(function)


def inner(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function that only other kernels call, in three quarters of the time: it has no wrapper for Python.

    Parameters
    ----------
    function
        The function; None to give options first, as in ``@inner(error_model="numpy")``.
    **options
        Further options of :func:`numba.njit`.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        made = _njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function)
        made.__class__ = _Inner
        return made

    return decorate if function is None else decorate(function)


class _Inner(CPUDispatcher):
    """A call from Python would end the process: there is no wrapper that reads Python's arguments."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self.py_func.__name__} is called from kernels only; {self.py_func.__name__}.py_func runs it")
