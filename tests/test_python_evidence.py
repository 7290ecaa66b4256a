"""A Python function as evidence: in a graph, its gradient, and compiled for samplers."""

from __future__ import annotations

import gc

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from bayeslab.evidence import python_evidence
from bayeslab.posterior.density import Density


def model(scale):
    def function(x):
        return -float(np.sum(scale * (x - 1) ** 2)), -2 * scale * (x - 1)

    with pm.Model() as built:
        a, b = pm.Normal("a"), pm.Normal("b")
        pm.Potential("evidence", python_evidence(function, pt.stack([a, 2 * b])))
    return built


@pytest.mark.slow(why="compiles")
def test_value_and_gradient_of_two_graphs_with_one_compiled_function():
    for scale in (1.0, 3.0):
        density = Density.of(model(scale))
        gc.collect()  # the function lives on in the graph
        value, gradient = density(np.array([0.3, -0.4]))
        prior = -0.5 * (0.3**2 + 0.4**2) - np.log(2 * np.pi)
        assert value == pytest.approx(prior - scale * (0.7**2 + 1.8**2))
        np.testing.assert_allclose(gradient, [-0.3 + 2 * scale * 0.7, 0.4 + 4 * scale * 1.8])


@pytest.mark.slow(why="compiles")
def test_samplers_call_it_from_their_own_threads():
    nutpie = pytest.importorskip("nutpie")
    compiled = nutpie.compile_pymc_model(model(0.5))
    found = nutpie.sample(compiled, draws=300, tune=300, chains=2, cores=2, seed=1, progress_bar=False)
    # N(0, 1) times exp(-(a - 1)² / 2) is N(1/2, 1/2); likewise 2 b.
    draws = found["posterior"]["a"].values
    assert abs(draws.mean() - 0.5) < 0.15
