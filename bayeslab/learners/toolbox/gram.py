"""Gram matrices: the test of Mercer's condition on the given rows, and its error."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.blas import one_blas_thread

__all__ = ["SOLVER_STEPS", "check_gram", "smallest_eigenvalue", "threads_for"]

Array = NDArray[np.float64]

# Steps of libsvm after which it stops and warns; a large C with classes that overlap needs any number of them.
SOLVER_STEPS = 200_000
# With more rows a principal submatrix is tested, because eigenvalues cost the cube of the number of rows.
_MOST_ROWS = 3000
# With fewer rows several threads gain nothing, and on busy cores lose a factor of hundreds by waiting for each other.
_FEW_ROWS = 1000


def threads_for(n_rows: int) -> AbstractContextManager[None]:
    """A context for linear algebra with matrices of so many rows: one thread if they are small."""
    return one_blas_thread() if n_rows <= _FEW_ROWS else nullcontext()


def smallest_eigenvalue(gram: Any) -> float:
    """Smallest eigenvalue of a symmetric matrix; Gram matrices of a kernel have no negative eigenvalue."""
    return float(np.linalg.eigvalsh(np.asarray(gram, float))[0])


def check_gram(gram: Any, name: str = "kernel") -> Array:
    """Check that a Gram matrix is symmetric and positive semi-definite, and return it as an array.

    Parameters
    ----------
    gram
        Shape (rows, rows). For more than 3,000 rows, a principal submatrix of 3,000 evenly spaced rows is tested.
    name
        Name of the kernel in the error.

    Raises
    ------
    ValueError
        The matrix is not square, not symmetric, or has a negative eigenvalue beyond rounding: no feature space has
        these inner products, and the dual problem has no maximum.
    """
    values = np.asarray(gram, float)
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise ValueError(f"the {name} of training rows is a square matrix, not one of the shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"the {name} matrix holds NaN or infinity")
    at = np.unique(np.linspace(0, len(values) - 1, min(len(values), _MOST_ROWS)).astype(int))
    tested = values[np.ix_(at, at)]
    skew = float(np.abs(tested - tested.T).max())
    if skew > 1e-8 * max(float(np.abs(tested).max()), 1e-300):
        raise ValueError(f"the {name} matrix is not symmetric: K(x, z) and K(z, x) differ by up to {skew:.3g}")
    rounding = 1e-10 * float(np.abs(np.diagonal(tested)).sum())
    try:
        # Much cheaper than eigenvalues; it succeeds if all of them are above minus the rounding error.
        with threads_for(len(tested)):
            np.linalg.cholesky(tested + rounding * np.eye(len(tested)))
    except np.linalg.LinAlgError:
        least = smallest_eigenvalue(tested)
        if least < -rounding:
            raise ValueError(
                f"the {name} is not a Mercer kernel: its matrix of {len(tested)} rows has the eigenvalue {least:.4g}"
                " and is not positive semi-definite; take another kernel, or add its negative to the diagonal"
            ) from None
    return values
