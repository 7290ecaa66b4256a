"""How kernels are compiled."""

from __future__ import annotations

import pytest

from bayeslab.compiled import inner, kernel


@inner(error_model="numpy")
def half(x: float) -> float:
    return x / 2


@kernel
def quarter(x: float) -> float:
    return half(half(x))


def test_inner_kernels_are_called_from_kernels_only():
    assert quarter(3.0) == 0.75
    # Without the wrapper for Python such a call would end the process.
    with pytest.raises(TypeError, match="half is called from kernels only"):
        half(3.0)
    assert half.py_func(3.0) == 1.5
