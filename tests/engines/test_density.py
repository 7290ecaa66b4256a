"""The compiled log density: finite gradients where probabilities are 0 or 1 to rounding."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy.special import expit

from bayeslab.posterior.density import Density


def test_gradients_of_logits_far_out():
    """Against the closed form, where the sigmoid is 1 to rounding: an optimiser starts there, with columns of pounds."""
    x, y = np.array([1.0, 2.0, 3.0]), np.array([1, 0, 1])
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 10.0)
        pm.Bernoulli("y", logit_p=b * x, observed=y)
    density = Density.of(model)
    for at in (-400.0, -50.0, 0.3, 50.0, 400.0):
        value, gradient = density(np.array([at]))
        likelihood = -np.logaddexp(0.0, np.where(y == 1, -at * x, at * x)).sum()
        prior = -0.5 * (at / 10) ** 2 - np.log(10 * np.sqrt(2 * np.pi))
        assert value == pytest.approx(likelihood + prior)
        assert gradient[0] == pytest.approx(x @ (y - expit(at * x)) - at / 100)
