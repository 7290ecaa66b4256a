"""Which dimension ``A @ B`` contracts: one rule for every reader of expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bayeslab.errors import ModelError, listed

__all__ = ["COLUMNS", "contracted", "is_matrix_product"]

type Dims = Sequence[str | None]

#: Stands for the columns of the second of two matrices over the same dimensions while they are multiplied.
COLUMNS = "columns of the product"


def is_matrix_product(left: Dims, right: Dims, labels: Mapping[str, np.ndarray]) -> bool:
    """Whether both are square matrices over the same two dimensions, which have the same labels.

    Then rows of the first meet columns of the second, and the product has the dimensions of the first.
    """
    if len(left) != 2 or set(left) != set(right):
        return False
    first, second = (labels.get(str(dim), np.empty(0)) for dim in left)
    return np.array_equal(first, second)


def contracted(left: Dims, right: Dims) -> str | None:
    """The dimension that both have; of several the last, where the others come before it in both.

    Raises
    ------
    ModelError
        They have none, or it could be another one.
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
