"""Threads of BLAS and LAPACK."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


def one_blas_thread() -> AbstractContextManager[Any]:
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
    limit: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return limit


@cache
def _libraries() -> ThreadpoolController:
    """Every BLAS of the process; SciPy's is loaded first, since libraries that are loaded later are not limited."""
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()
