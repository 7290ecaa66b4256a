"""Indices of PyTensor variables: two ranges on neighbouring axes of a variable with more axes."""

from __future__ import annotations

import numpy as np
import pytest

from bayeslab.language.backends import PYTENSOR

VALUES = np.arange(1.0, 28.0).reshape(3, 3, 3)
SAME, PAIR = np.arange(3), np.array([2, 0])


@pytest.mark.parametrize(
    "indices",
    [(SAME, SAME), (SAME[:2], SAME[1:]), (SAME, SAME, SAME), (PAIR, PAIR), (SAME[:, None], SAME), (SAME,)],
    ids=["diagonal", "beside it", "three", "no ranges", "all pairs", "one"],
)
def test_indices_take_what_numpy_takes(indices):
    """Plain PyTensor 3.3 gives ``exp(log(x)[a, a])`` of three axes transposed."""
    import pytensor
    import pytensor.tensor as pt

    x = pt.tensor("x", shape=VALUES.shape)
    out = pt.exp(PYTENSOR.take(pt.log(x), [pt.constant(i) for i in indices]))
    np.testing.assert_allclose(pytensor.function([x], out, mode="NUMBA")(VALUES), VALUES[tuple(indices)])
