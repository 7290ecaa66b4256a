"""Choosing the next input, and rows to do without."""

from __future__ import annotations

import numpy as np

from bayeslab.latents.gaussian_process.active_learning import informative_rows, most_uncertain
from bayeslab.latents.gaussian_process.covariance import Kernel
from bayeslab.latents.gaussian_process.gaussian_process import GaussianProcess
from tests.refusals import refused

KERNEL, THETA = Kernel.parse("ExpQuad(x)"), np.array([0.8, 1.0])


def process(x, y, noise=0.01):
    return GaussianProcess(KERNEL, THETA, x, y, np.full(len(y), noise))


def test_largest_variance_within_bounds_is_that_of_a_fine_grid():
    x = np.array([[0.5], [1.0], [4.0], [7.5], [8.0]])
    found, top = most_uncertain(lambda z: process(x, x[:, 0]).predict(z)[1], [0.0], [8.0], np.random.default_rng(1))
    grid = np.linspace(0, 8, 8001)[:, None]
    variance = process(x, x[:, 0]).predict(grid)[1]
    assert top >= variance.max() - 1e-9
    assert 0 <= found[0] <= 8 and abs(found[0] - grid[np.argmax(variance), 0]) < 0.02


def test_chosen_queries_reduce_the_largest_variance_faster_than_random_ones():
    """gp-active: max variance falls faster than random."""
    grid = np.linspace(0, 10, 400)[:, None]

    def after(choose, n=10):
        x = np.array([[5.0]])
        for _ in range(n):
            x = np.vstack([x, choose(x)])
        return process(x, np.zeros(len(x))).predict(grid)[1].max()

    rng = np.random.default_rng(2)
    chosen = after(
        lambda x: most_uncertain(lambda z: process(x, np.zeros(len(x))).predict(z)[1], [0.0], [10.0], rng, 128)[0][None]
    )
    random = [after(lambda x: rng.uniform(0, 10, (1, 1))) for _ in range(20)]
    assert chosen < 0.25 * np.median(random)
    assert chosen < min(random)


def test_fewer_points_predict_nearly_as_well():
    """gp-sparse-filter: RMSE close to full with fewer points."""
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(0, 10, 150))[:, None]
    y = np.sin(x[:, 0]) + 0.2 * rng.normal(size=150)
    noise = np.full(150, 0.04)
    kept = informative_rows(KERNEL.matrix(THETA, x) + np.diag(noise), y, noise)
    assert len(kept) < 75
    grid = np.linspace(0.2, 9.8, 200)[:, None]
    truth = np.sin(grid[:, 0])

    def error(rows):
        return np.sqrt(np.mean((process(x[rows], y[rows], 0.04).predict(grid)[0] - truth) ** 2))

    full, fewer = error(np.arange(150)), error(kept)
    chance = [error(rng.choice(150, len(kept), replace=False)) for _ in range(20)]
    assert fewer < full + 0.05
    assert fewer < np.median(chance)


def test_every_dropped_row_was_predicted_by_those_kept_then():
    """Slow twin: leave-one-out by fitting again at every step."""
    rng = np.random.default_rng(4)
    x = rng.uniform(0, 6, (25, 1))
    y, noise = np.sin(x[:, 0]) + 0.3 * rng.normal(size=25), rng.uniform(0.05, 0.15, 25)
    covariance = KERNEL.matrix(THETA, x) + np.diag(noise)
    kept = list(range(25))
    while len(kept) > 2:
        scores = {}
        for row in kept:
            rest = [i for i in kept if i != row]
            mean, variance = GaussianProcess(KERNEL, THETA, x[rest], y[rest], noise[rest]).predict(x[row : row + 1])
            if abs(y[row] - mean[0]) <= 1.959964 * np.sqrt(variance[0] + noise[row]) and variance[0] <= noise[row]:
                scores[row] = variance[0] / noise[row]
        if not scores:
            break
        kept.remove(min(scores, key=scores.get))
    np.testing.assert_array_equal(informative_rows(covariance, y, noise, share=1.0), kept)
    assert len(kept) < 25


def test_bounds_and_probability_are_checked():
    with refused("option.out-of-range", "bounds"):
        most_uncertain(lambda z: z[:, 0], [1.0], [1.0], np.random.default_rng(0))
    with refused("option.out-of-range", "probability"):
        informative_rows(np.eye(3), np.zeros(3), np.ones(3), probability=1.0)
