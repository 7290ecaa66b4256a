"""Associative memories and Boltzmann machines, against enumeration and the numbers of simulations."""

from __future__ import annotations

import numpy as np
import pytest

from bayeslab.theory.associative import CAPACITY, BoltzmannMachine, Hopfield, all_states
from tests.refusals import refused


def patterns(rng: np.random.Generator, load: float, n: int) -> np.ndarray:
    return rng.choice([-1.0, 1.0], (max(int(load * n), 1), n))


def test_hopfield():
    """hopfield: stored patterns are fixed, spoilt ones are completed, and the energy never rises."""
    rng = np.random.default_rng(0)
    stored = patterns(rng, 0.03, 200)
    net = Hopfield.of(stored)
    for pattern in stored:
        found, _, settled = net.recall(pattern, rng)
        assert settled
        np.testing.assert_array_equal(found, pattern)
        spoilt = pattern * np.where(rng.random(200) < 0.15, -1, 1)
        found, energies, _ = net.recall(spoilt, rng)
        np.testing.assert_array_equal(found, pattern)
        assert (np.diff(energies) <= 1e-9).all()
        assert energies[-1] == pytest.approx(net.energy(found)[0])
    found, energies, settled = net.recall(rng.choice([-1.0, 1.0], 200), rng)
    assert settled
    assert (np.diff(energies) <= 1e-9).all()


@pytest.mark.parametrize(
    ("load", "right", "off"),
    [
        (0.05, 1.0, 0.001),
        (0.10, 0.999, 0.002),
        (0.13, 0.997, 0.006),
        (0.138, 0.991, 0.02),
        (0.15, 0.962, 0.05),
        (0.20, 0.700, 0.09),
    ],
)
def test_capacity(load, right, off):
    """hopfield (F34): fraction of bits right when starting from a stored pattern, N = 500; it breaks past 0.138 N."""
    rng = np.random.default_rng(1)
    shares = []
    for _ in range(3):
        stored = patterns(rng, load, 500)
        net = Hopfield.of(stored)
        shares += [np.mean(net.recall(p, rng)[0] == p) for p in stored[:8]]
    assert np.mean(shares) == pytest.approx(right, abs=off)
    assert pytest.approx(13.8) == 100 * CAPACITY


def machine(rng: np.random.Generator, n_visible: int = 3, n_hidden: int = 2) -> BoltzmannMachine:
    made = BoltzmannMachine.random(n_visible, n_hidden, rng, 0.5)
    return BoltzmannMachine(made.weights, rng.normal(0, 0.3, n_visible + n_hidden), n_visible)


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_gibbs_distribution(temperature):
    """boltzmann: units drawn one after the other have the Gibbs distribution, as by enumeration."""
    rng = np.random.default_rng(2)
    net = machine(rng)
    states, p = net.distribution(temperature)
    n = 20_000
    drawn = net.sample(rng, [temperature] * 40, rng.choice([-1.0, 1.0], (n, 5)))
    counts = np.bincount((drawn > 0) @ (1 << np.arange(4, -1, -1)), minlength=32)
    np.testing.assert_array_equal((states > 0) @ (1 << np.arange(4, -1, -1)), np.arange(32))
    assert (np.abs(counts / n - p) < 4.5 * np.sqrt(p * (1 - p) / n)).all()
    by_hand = np.exp(-np.array([-0.5 * s @ net.weights @ s - net.bias @ s for s in states]) / temperature)
    np.testing.assert_allclose(p, by_hand / by_hand.sum())


def test_held_units():
    """boltzmann: with visible units held the hidden ones have their conditional distribution."""
    rng = np.random.default_rng(3)
    net = machine(rng)
    states, p = net.distribution()
    fits = (states[:, :3] == [1, -1, 1]).all(axis=1)
    truth = p[fits] @ states[fits] / p[fits].sum()
    start = np.tile([1.0, -1.0, 1.0, 1.0, 1.0], (20_000, 1))
    found = net.sample(rng, [1.0] * 20, start, held=3)
    assert (found[:, :3] == [1, -1, 1]).all()
    np.testing.assert_allclose(found.mean(axis=0), truth, atol=4.5 / np.sqrt(20_000))


def test_learning_rule():
    """boltzmann: the difference of the two averages is the gradient of the log likelihood, hidden units and all."""
    rng = np.random.default_rng(4)
    net = machine(rng)
    data = rng.choice([-1.0, 1.0], (6, 3))
    held, held_mean, free, free_mean = net.statistics(data)
    for i, j in ((0, 1), (1, 4), (3, 4)):
        change = np.zeros((5, 5))
        change[i, j] = change[j, i] = 1e-5
        sides = [BoltzmannMachine(net.weights + h * change, net.bias, 3).log_likelihood(data) for h in (1, -1)]
        assert (held - free)[i, j] == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-8)
    step = np.eye(5)[3] * 1e-5
    sides = [BoltzmannMachine(net.weights, net.bias + h * step, 3).log_likelihood(data) for h in (1, -1)]
    assert (held_mean - free_mean)[3] == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-8)


@pytest.mark.slow(why="statistical")
def test_learning():
    """boltzmann: likelihood rises; hidden units learn that three signs multiply to 1; by sampling as well."""
    rng = np.random.default_rng(5)
    data = all_states(3)[all_states(3).prod(axis=1) > 0]
    start = BoltzmannMachine.random(3, 2, rng, 0.5)
    _, curve = start.learned(data, rate=0.3, steps=200)
    assert (np.diff(curve) > -1e-9).all()
    assert curve[-1] > np.log(1 / 4) - 0.1, "the best there is"
    assert BoltzmannMachine.random(3, 0, rng).learned(data, steps=50)[1][-1] < np.log(1 / 8) + 0.01, "hidden are needed"
    pairs = rng.choice([-1.0, 1.0], (400, 1)) * [1, 1, -1]
    sampled = BoltzmannMachine.random(3, 1, rng).learned_by_sampling(pairs, rng, steps=100)
    assert sampled.log_likelihood(pairs) > BoltzmannMachine.random(3, 1, rng).log_likelihood(pairs) + 0.8


def test_annealing():
    """boltzmann: slowly cooled machines end where energy is least more often than ones that are cold from the start."""
    rng = np.random.default_rng(6)
    upper = np.triu(rng.normal(size=(12, 12)), 1)
    net = BoltzmannMachine(upper + upper.T, np.zeros(12), 12)
    least = net.energy(all_states(12)).min()
    start = rng.choice([-1.0, 1.0], (300, 12))
    slow = net.sample(rng, np.geomspace(5, 0.05, 60), start)
    cold = net.sample(rng, [0.05] * 60, start)
    shares = [np.mean(net.energy(s) < least + 1e-9) for s in (slow, cold)]
    assert shares[0] > shares[1] + 0.1
    assert shares[0] > 0.5


def test_errors():
    with refused("option.not-a-covariance"):
        Hopfield(np.triu(np.ones((3, 3)), 1))
    with refused("option.wrong-shape", "-1"):
        Hopfield.of([[0.0, 1.0]])
    with refused("option.too-costly"):
        BoltzmannMachine(np.zeros((20, 20)), np.zeros(20), 20).distribution()
    with refused("option.wrong-length", r"\(3,\)"):
        BoltzmannMachine(np.zeros((2, 2)), np.zeros(3), 2)
    machine = BoltzmannMachine(np.zeros((2, 2)), np.zeros(2), 2)
    for cold in (lambda: machine.distribution(0.0), lambda: machine.sample(np.random.default_rng(0), [1, 0], [[1, 1]])):
        with refused("option.out-of-range", "temperature"):
            cold()
