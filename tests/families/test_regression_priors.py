"""Priors of a regression have the range of their parameter, and are continuous."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.families.regression.prior_ranges import range_of
from bayeslab.preparation import Source
from tests.refusals import refused


def bound(formula: object, priors: dict[str, object], likelihood: str = "gaussian") -> object:
    rng = np.random.default_rng(3)
    groups = np.array(list("uvwxz"))[rng.integers(0, 5, 40)]
    data = pd.DataFrame({"y": rng.normal(size=40), "k": rng.poisson(2, 40), "x": rng.normal(size=40), "g": groups})
    model = bl.Model(data={"rows": "row"}, model=bl.Regression(formula=formula, priors=priors, likelihood=likelihood))
    posterior = Source(model).posterior({"row": data, "W": pd.DataFrame({"one": list("uvwx"), "other": list("vwxz")})})
    assert posterior.lowered
    return posterior


BAD = [
    ("y ~ bym2(W, g)", {"rho_bym2_g": "Normal(0, 1)"}),
    ("y ~ bym2(W, g)", {"rho_bym2_g": "HalfNormal(1)"}),
    ("y ~ bym2(W, g)", {"rho_bym2_g": "Uniform(0, 2)"}),
    ("y ~ car(W, g)", {"alpha_car_g": "Uniform(-1, 1)"}),
    ("y ~ icar(W, g)", {"sd_icar_g": "Normal(0, 1)"}),
    ("y ~ x + (1 | g)", {"sd_g": "Normal(0, 1)"}),
    ("y ~ x + (1 | g)", {"sd": "StudentT(3, 0, 1)"}),
    ("y ~ x + (1 + x | g)", {"sd_g": "Uniform(-1, 1)"}),
    ("y ~ x", {"sigma": "Truncated(Normal(0, 1), lower=-1)"}),
    ("y ~ gp(x, k=5)", {"length_gp_x": "Normal(1, 1)"}),
    ("y ~ me(x, 0.1)", {"sd_me_x": "Normal(0, 1)"}),
    ("y ~ x + (1 | gr(g, dist='student'))", {"nu_g": "Normal(4, 1)"}),
]


@pytest.mark.parametrize(("formula", "priors"), BAD)
def test_a_prior_wider_than_its_parameter_is_refused(formula, priors):
    (name,) = priors
    with refused("model.out-of-range", f"'{name}'.*Truncated", where=f"model.priors.{name}"):
        bound(formula, priors)


@pytest.mark.parametrize(
    ("formula", "priors"),
    [
        ("y ~ bym2(W, g)", {"rho_bym2_g": "Truncated(Normal(0, 1), lower=0, upper=1)", "sd_bym2_g": "LogNormal(0, 1)"}),
        ("y ~ bym2(W, g)", {"rho_bym2_g": "share", "share": "Beta(2, 2)"}),
        ("y ~ x + (1 | g)", {"sd_g": "Uniform(0, width)", "width": "Exponential(1)", "Intercept": "Normal(0, 1)"}),
        ("y ~ me(x, 0.1)", {"mean_me_x": "Normal(0, 1)", "sd_me_x": "HalfNormal(1)"}),
        ({"mu": "y ~ x", "sigma": "~ x"}, {"sigma": {"Intercept": "Normal(0, 1)", "x": "Normal(0, 1)"}}),
    ],
)
def test_a_prior_of_the_parameters_range_is_taken(formula, priors):
    bound(formula, priors)


def test_ranges_are_those_of_the_numbers_in_the_text():
    assert range_of("Normal(m, 1)") == (-math.inf, math.inf)
    assert range_of("Uniform(-1, 1)") == (-1.0, 1.0)
    assert range_of("Truncated(Normal(0, 1), lower=0)") == (0.0, math.inf)
    assert range_of("Beta(1, 1)") == (0.0, 1.0)
    assert all(map(math.isnan, range_of("exp(h)")))


@pytest.mark.parametrize(
    "priors", [{"b": "Bernoulli(0.5)"}, {"x": "Poisson(1)"}, {"b": "Normal(0, h)", "h": "DiscreteUniform(1, 3)"}]
)
def test_discrete_priors_are_refused(priors):
    with refused("model.unsupported", "discrete", where="model.priors"):
        bound("y ~ x", priors)


def test_the_number_of_correlations_is_a_number():
    with refused("model.out-of-range", "'corr_g' is a number", where="model.priors.corr_g"):
        bound("y ~ x + (1 + x | g)", {"corr_g": "eta", "eta": "Gamma(2, 1)"})
