"""Which dimension ``A @ B`` contracts: one rule for every reader of expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bayeslab.errors import ModelError, listed

__all__ = ["COLUMNS", "contracted", "is_matrix_product"]

type Dims = Sequence[str | None]

#: Temporary name of the column dimension of the second of two multiplied matrices over the same dimensions.
COLUMNS = "columns of the product"


def is_matrix_product(left: Dims, right: Dims, labels: Mapping[str, np.ndarray]) -> bool:
    """Whether both are square matrices over the same two dimensions, which have the same labels.

    Then ``@`` is the matrix product, with the dimensions of the first matrix.
    """
    if len(left) != 2 or set(left) != set(right):
        return False
    first, second = (labels.get(str(dim), np.empty(0)) for dim in left)
    return np.array_equal(first, second)


def contracted(left: Dims, right: Dims) -> str | None:
    """The shared dimension to contract; of several the last, if the others precede it in both.

    Raises
    ------
    ModelError
        There is no shared dimension, or the choice is ambiguous.
    """
    shared = [dim for dim in left if dim in right]
    if not shared:
        raise ModelError(
            f"'@' needs a dimension both sides have: ({', '.join(map(str, left))}) and ({', '.join(map(str, right))})",
            code="bad-dimensions",
        )
    places = [list(right).index(dim) for dim in shared]
    if places[-1] < max(places):
        raise ModelError(
            f"'@' contracts the one dimension both sides have; here they share {listed(map(str, shared))}; name it:"
            " dot(a, b, dim)",
            code="bad-dimensions",
        )
    return shared[-1]
