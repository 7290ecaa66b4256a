"""Nets with feedback: still, swinging, chaotic, and with a memory."""

from __future__ import annotations

import numpy as np
import pytest

from bayeslab.theory.recurrent import Recurrent, doubling
from tests.refusals import refused


def test_fixed_point():
    """recurrent: a contraction settles at one point, wherever it starts."""
    net = Recurrent(np.array([[0.3, -0.2], [0.1, 0.4]]), np.array([0.5, -0.3]))
    ends = [net.run(start, 200)[-1] for start in ([0, 0], [1, -1], [-5, 7])]
    np.testing.assert_allclose(ends, np.tile(ends[0], (3, 1)), atol=1e-12)
    np.testing.assert_allclose(net.step(ends[0]), ends[0], atol=1e-12)
    assert net.period([0.2, 0.9]) == 1
    assert net.lyapunov([0.2, 0.9]) < -0.5


def test_two_cycle():
    """recurrent: a unit that inhibits itself strongly swings between two states."""
    for net in (
        Recurrent(np.array([[-3.0]]), np.zeros(1)),
        Recurrent(np.array([[-2.0]]), np.array([1.0]), "threshold"),
    ):
        assert net.period([0.7]) == 2


def test_way_to_chaos():
    """recurrent: cycles of 1, 2, 4 steps, then chaos, where runs from nearly the same start part."""
    assert [doubling(s).period([0.4, 0.6]) for s in (0.5, 1.5, 2.25)] == [1, 2, 4]
    assert all(doubling(s).lyapunov([0.4, 0.6]) < 0 for s in (0.5, 1.5, 2.25))
    net = doubling(4.0)
    assert net.period([0.4, 0.6]) is None
    runs = [net.run([0.4, y], 60) for y in (0.6, 0.6 + 1e-9)]
    apart = np.abs(runs[0] - runs[1]).max(axis=1)
    assert apart.max() > 0.05
    # On a line the exponent is the mean logarithm of the slope of the difference of the two units, u -> g(20 u) ...
    u, total = 0.2, 0.0
    g = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
    for t in range(21_000):
        if t >= 1000:
            total += np.log(abs(100 * g(100 * u) * g(-100 * u) - 20 * g(20 * u) * g(-20 * u)))
        u = g(100 * u) - g(20 * u)
    assert net.lyapunov([0.4, 0.6], 20_000) == pytest.approx(total / 20_000, abs=0.05)
    assert total > 0


def test_memory():
    """recurrent: two units that hold each other remember a pulse that is long gone; the state depends on the start."""
    net = Recurrent(np.array([[0.0, 2.0], [2.0, 0.0]]), np.zeros(2))
    pulse = np.zeros((30, 2))
    pulse[0] = 1.0
    up, down = net.run([0.0, 0.0], 30, pulse)[-1], net.run([0.0, 0.0], 30, -pulse)[-1]
    assert up.max() > 0.9
    assert down.min() < -0.9
    np.testing.assert_array_equal(net.run([0.0, 0.0], 30)[-1], 0)


def test_no_slope():
    with refused("option.not-applicable", "threshold"):
        Recurrent(np.eye(1), np.zeros(1), "threshold").lyapunov([0.0])


def test_refused():
    with refused("option.unknown-word", "'relu'"):
        Recurrent(np.zeros((1, 1)), np.zeros(1), "relu")
    with refused("option.wrong-shape", r"\(2, 2\).*\(1, 2\)"):
        Recurrent(np.zeros((1, 2)), np.zeros(2))
