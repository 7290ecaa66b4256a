"""The correlated t-test against its formula and against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bayeslab.decisions.paired import correlated_t
from tests.refusals import refused


def test_formula():
    d = np.array([0.02, 0.01, 0.03, -0.01, 0.04, 0.02, 0.0, 0.01, 0.03, 0.02])
    found = correlated_t(d, 0.1, 0.01)
    posterior = stats.t(9, d.mean(), np.sqrt((0.1 + 0.1 / 0.9) * d.var(ddof=1)))
    assert found.better == pytest.approx(posterior.sf(0.01))
    assert found.worse == pytest.approx(posterior.cdf(-0.01))
    assert found.better + found.same + found.worse == pytest.approx(1)
    assert found.interval(0.9) == pytest.approx(posterior.interval(0.9))


def test_independent_differences_are_covered():
    """Without correlation the posterior is the usual one: its 89 % interval covers the truth 89 % of the time."""
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(2000):
        low, high = correlated_t(0.3 + rng.normal(size=8), 0.0).interval(0.89)
        hits += low < 0.3 < high
    assert abs(hits / 2000 - 0.89) < 4 * np.sqrt(0.89 * 0.11 / 2000)


def test_edges():
    # Differences that coincide, but for rounding, say nothing of how they vary.
    for each in (np.full(5, 0.02), np.zeros(5), np.array([0.9 - 0.8, 0.8 - 0.7, 0.7 - 0.6])):
        same = correlated_t(each, 0.2, 0.01)
        assert same.mean == pytest.approx(each[0])
        assert np.isnan([same.better, same.same, same.worse, *same.interval()]).all()
    with refused("option.too-few"):
        correlated_t(np.array([0.1]), 0.1)
    with refused("option.not-finite", "infinite"):
        correlated_t(np.array([0.1, np.inf]), 0.1)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_comparisons_have_no_unit(unit):
    each = np.array([1.0, 2.0, 5.0])
    plain, scaled = correlated_t(each, 0.2), correlated_t(unit * each, 0.2)
    assert scaled.scale / unit == pytest.approx(plain.scale)
    assert scaled.better == pytest.approx(plain.better)
