"""Tails without a mean are told from modes that are far out and rare."""

from __future__ import annotations

import numpy as np
import pytest

from bayeslab.results.tails import heavy

RNG = np.random.default_rng(3)
SHAPE = (100, 4, 500)


@pytest.mark.parametrize(("share", "distance"), [(0.01, 6), (0.02, 6), (0.02, 30), (0.05, 30), (0.2, 30)])
def test_a_rare_mode_far_out_has_a_mean(share, distance):
    draws = np.where(RNG.random(SHAPE) < share, distance, 0) + RNG.normal(size=SHAPE)
    assert np.isnan(heavy(draws)).mean() > 0.9
    assert np.isnan(heavy(-draws)).mean() > 0.9


@pytest.mark.parametrize(
    "draws", [RNG.standard_cauchy(SHAPE), np.abs(RNG.standard_cauchy(SHAPE)), RNG.pareto(1, SHAPE)]
)
def test_tails_without_a_mean_are_found(draws):
    assert np.isnan(heavy(draws)).mean() < 0.15


@pytest.mark.parametrize("draws", [RNG.normal(size=SHAPE), RNG.standard_t(3, SHAPE), RNG.lognormal(0, 1, SHAPE)])
def test_tails_with_a_variance_pass(draws):
    assert np.isnan(heavy(draws)).mean() > 0.95
