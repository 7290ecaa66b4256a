"""Moments of numbers far from zero, against NumPy's two passes."""

from __future__ import annotations

import numpy as np

from bayeslab.digits import Moments


def test_moments_of_numbers_far_from_zero():
    rng = np.random.default_rng(0)
    rows = 1e9 + rng.normal(size=(200, 3, 2))
    moments = Moments((3, 2))
    for row in rows:
        moments.add(row)
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0), rtol=2e-14)
    np.testing.assert_allclose(moments.sd, (rows - 1e9).std(axis=0), rtol=1e-7)


def test_moments_of_some_of_the_elements():
    rows, moments = np.arange(12.0).reshape(6, 2) ** 2, Moments((4, 2))
    for row in rows:
        moments.add(row[None], np.array([2]))
    np.testing.assert_allclose(moments.sd[2], rows.std(axis=0))
    np.testing.assert_array_equal(moments.count[:, 0], [0, 0, 6, 0])
    np.testing.assert_array_equal(moments.sd[[0, 1, 3]], 0)
