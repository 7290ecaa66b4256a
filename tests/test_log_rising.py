"""Ratios of gamma functions against products, which have all digits."""

from __future__ import annotations

import numpy as np
import pytest

from bayeslab.digits import log_rising


@pytest.mark.parametrize("a", [0.3, 7.0, 1e3, 1e5, 1e6, 1e8, 1e12, 1e15])
@pytest.mark.parametrize("b", [0, 1, 2, 5, 30])
def test_ratios_of_gamma_functions(a, b):
    assert log_rising(a, b) == pytest.approx(np.log(a + np.arange(b)).sum(), rel=1e-10, abs=1e-10)


def test_half_steps_meet_at_the_join():
    a = np.geomspace(1, 1e9, 400)
    both = log_rising(a, 0.5) + log_rising(a + 0.5, 0.5)
    np.testing.assert_allclose(both, np.log(a), rtol=1e-9, atol=1e-9)
