"""Threads of BLAS and LAPACK."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]

# The number of threads that OpenBLAS takes when it is loaded.
_THREADS = "OPENBLAS_NUM_THREADS"


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Context: products and factorisations of matrices use one thread.

    On small matrices several threads mostly wait for each other, on busy cores for milliseconds a call. How sums are
    split among threads also changes the last digits of a result.

    Examples
    --------
    >>> import numpy as np
    >>> with one_blas_thread():
    ...     float(np.linalg.det(np.eye(3)))
    1.0
    """
    if _all_loaded():
        with _libraries(True).limit(limits=1, user_api="blas"):
            yield
        return
    # SciPy has a BLAS of its own, which takes long to load; if that happens within the context, it starts with one
    # thread, and has as many as NumPy's afterwards.
    before, threads = os.environ.get(_THREADS), max(_threads(_libraries(False)), default=1)
    os.environ[_THREADS] = "1"
    try:
        with _libraries(False).limit(limits=1, user_api="blas"):
            yield
    finally:
        if before is None:
            del os.environ[_THREADS]
        else:
            os.environ[_THREADS] = before
        if _all_loaded():
            _libraries(True).select(user_api="blas").limit(limits=threads)


def _all_loaded() -> bool:
    """Whether the process has loaded the BLAS of SciPy."""
    return "scipy.linalg" in sys.modules


@cache
def _libraries(everything: bool) -> ThreadpoolController:
    """The libraries of the process, before or after that of SciPy is loaded."""
    del everything
    return ThreadpoolController()


def _threads(libraries: ThreadpoolController) -> list[int]:
    return [library["num_threads"] for library in libraries.info() if library["user_api"] == "blas"]
