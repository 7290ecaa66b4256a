"""What tests of shipped models share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

import bayeslab as bl
from tests.models.shipped import made_once, shared_runs


@pytest.fixture(scope="session")
def fits(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bl.Fit]:
    """Fits by name, as the shipped file says: each made once by whichever test process asks first, and opened by all."""
    shared = shared_runs(tmp_path_factory)

    @cache
    def fit(name: str) -> bl.Fit:
        return bl.open(made_once(name, shared))

    return fit
