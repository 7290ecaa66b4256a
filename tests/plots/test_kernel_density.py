"""Densities of quantities with bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from bayeslab.plots.kernel_density import bounds, kernel_density, limits


@pytest.mark.parametrize(
    ("values", "within"),
    [
        ([0.0, 0.4], (0, 1)),
        ([0.0, 4], (0, math.inf)),
        ([-3.0, -1], (-math.inf, 0)),
        ([-3.0, 0.5], (-math.inf, math.inf)),
    ],
)
def test_bounds(values, within):
    assert bounds(np.array(values)) == within
    low, high = limits(min(values), max(values), 0.5, within)
    assert within[0] <= low <= min(values) and max(values) <= high <= within[1]


@pytest.mark.parametrize(
    "law", [stats.expon(), stats.uniform(), stats.beta(1, 3), stats.halfnorm(scale=1e-3), stats.norm(-50, 4)]
)
def test_the_curve_is_the_density_up_to_its_bounds(law):
    """At quantiles of the law there is no sampling error: what differs is the bias of the kernel.

    Its width is at most 0.9 sd n^(-1/5), which is 0.11 sd, and the slope of these densities at most their maximum for
    each sd, so that a reflected curve is off by at most sqrt(2 / pi) 0.11 = 0.088 of the maximum; without reflection,
    by a half of it.
    """
    values = law.ppf((np.arange(40_000) + 0.5) / 40_000)
    within = bounds(values)
    low, high = limits(*map(float, np.quantile(values, [0.003, 0.997])), 0.06, within)
    x, height = kernel_density(values, low, high, 200, within)
    true = law.pdf(x) * (high - low)
    assert height == pytest.approx(true, abs=0.088 * true.max())
    # All of the mass of the range is drawn: none of it beyond a bound.
    inside = law.cdf(high) - law.cdf(low)
    assert height.mean() == pytest.approx(inside, abs=0.01)


def test_without_a_bound_nothing_is_reflected():
    values = stats.expon.ppf((np.arange(4000) + 0.5) / 4000)
    _, plain = kernel_density(values, 0.0, 6.0, 200)
    _, reflected = kernel_density(values, 0.0, 6.0, 200, (0.0, math.inf))
    assert plain[0] == pytest.approx(0.5 * reflected[0], rel=0.1)
    np.testing.assert_array_equal(plain[100:], reflected[100:])
