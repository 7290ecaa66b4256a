"""What tests of shipped models share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

import bayeslab as bl
from tests.models.shipped import fitted


@pytest.fixture(scope="module")
def fits() -> Callable[[str], bl.Fit]:
    """Fits by name, as the shipped file says, each made once."""
    return cache(fitted)
