"""Level-II maximum likelihood: the top of a grid, and with a part of the rows first the same top."""

from __future__ import annotations

import numpy as np
import pytest

from bayeslab.latents.gaussian_process.covariance import Kernel
from bayeslab.latents.gaussian_process.gp_hyperparameters import maximise
from bayeslab.latents.gaussian_process.linear_sde import matern
from bayeslab.latents.gaussian_process.state_space import StateSpaceRegression, draw


def regression(n, rows=None):
    rng = np.random.default_rng(3)
    x = np.arange(n) * 0.05
    f = draw(matern(1.5, 1.5), np.zeros(0), np.zeros(0), 1.0, x, rng, 1)[0]
    y = (f + 0.4 * rng.normal(size=n))[:rows]
    return StateSpaceRegression(Kernel.parse("Matern32(t)"), x[:rows, None], y, np.zeros((len(y), 0)), np.zeros(len(y)))


@pytest.mark.slow(why="large")
def test_the_top_of_the_grid_is_reached():
    """gp-hyper: the optimiser reaches the grid maximum of the log marginal likelihood."""
    model = regression(400)
    found = maximise(model, np.ones(3), np.ones(3, bool), fixed=np.array([False, False, True]))
    grid = np.exp(np.linspace(-2, 2, 41))
    values = [[model.log_marginal(np.array([a, b, 1.0]))[0] for a in grid] for b in grid]
    assert found.converged
    assert np.max(values) <= found.log_evidence < np.max(values) + 0.2
    assert found.parameters[2] == 1.0


def test_a_part_first_leads_to_the_same_top_with_fewer_evaluations():
    model, part = regression(20_000), regression(20_000, 4_000)
    whole = maximise(model, np.ones(3), np.ones(3, bool))
    staged = maximise(model, np.ones(3), np.ones(3, bool), part=part, share=0.2)
    assert whole.converged and staged.converged
    assert abs(whole.log_evidence - staged.log_evidence) < 2e-3
    assert staged.evaluations < 0.6 * whole.evaluations
    np.testing.assert_allclose(staged.parameters, [1.5, 1.0, 0.4], rtol=0.15)


class Bowl:
    """A log likelihood whose scales differ by ten orders of magnitude, with its top known."""

    top = np.array([2.0, 900.0, -3e-4])
    width = np.array([0.1, 70.0, 1e-7])

    def log_marginal(self, parameters):
        at = np.array([np.log(parameters[0]), *parameters[1:]])
        far = (at - np.array([np.log(2.0), *self.top[1:]])) / self.width
        slope = -far / self.width
        slope[0] /= parameters[0]
        return float(-0.5 * far @ far), slope


@pytest.mark.parametrize("width", [None, np.array([1.0, 300.0, 1e-6])])
def test_searches_end_at_the_top_on_any_scale(width):
    """Where one direction is steep, steps say nothing of the others: a slope that looks small is no end."""
    for start in ([1.0, 1170.0, 0.0], [9.0, 500.0, 1e-3]):
        found = maximise(Bowl(), np.array(start), np.array([True, False, False]), width=width)
        assert found.converged
        assert found.log_evidence > -1e-3
