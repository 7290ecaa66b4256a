"""What tests of families share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def double_precision() -> Iterator[None]:
    """PyTensor takes a Python number such as 5.0 for single precision; then log(5.0) has 7 digits."""
    from pytensor.scalar.basic import autocast_float_as  # heavy: only where it is asked for

    with autocast_float_as("float64"):
        yield
