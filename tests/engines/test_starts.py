"""Starts: found where the centres of the priors have no density, and what is said where there are none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab import fitting
from bayeslab.engines.toolbox.starts import height, middle, near
from bayeslab.posterior.contract import posterior_of
from bayeslab.posterior.density import Density
from bayeslab.posterior.machine.density import MachineDensity
from tests.refusals import refused


def density(nodes, data, **rest):
    built = bl.to_pymc(bl.Model(model={"family": "graph", "nodes": nodes}, **rest), data)
    return Density.of(built)


def test_a_start_that_the_data_exclude_is_searched():
    """All data must lie below b, whose prior is far below them: no point around the centre has a density."""
    found = density({"b": "HalfNormal(1)", "y[obs_id]": "Uniform(0, b)"}, {"y": np.array([3.0, 41.0])})
    assert height(found, found.flat(found.model.initial_point())) == -np.inf
    at = middle(found)
    assert height(found, at) > -np.inf
    assert 41 < np.exp(at[0]) < 1_000
    rng = np.random.default_rng(0)
    assert all(height(found, near(found, at, rng)) > -np.inf for _ in range(20))


def test_data_that_no_start_allows_are_named_with_the_node_its_value_and_initvals():
    found = density({"m": "Normal(0, 1)", "y[obs_id]": "Gamma(2, exp(m))"}, {"y": np.array([1.0, -2.5])})
    with refused("model.no-start", r"'y', element 2 \(value -2\.5\).*m = 0;.*Gamma.*initvals"):
        middle(found)
    with refused("option.unknown-parameter", "'mm'.*'m'"):
        middle(found, {"mm": 1.0})


def cutpoints(sd):
    """Ratings on a scale with cutpoints near -1, 0 and 1, and a prior of the cutpoints."""
    nodes = {
        "a[cut]": f"Ordered(Normal(0, {sd}))",
        "sigma": "HalfNormal(1000)",
        "z[person]": "Normal(0, 1)",
        "rating[person]": "OrderedLogistic(eta=sigma * z, cutpoints=a)",
    }
    scores = stats.logistic.ppf((np.arange(40) + 0.5) / 40)
    rating = np.array(["none", "little", "some", "much"])[np.searchsorted([-1.0, 0.0, 1.0], scores)]
    levels = {"rating": ["none", "little", "some", "much"], "cut": 3}
    model = bl.Model(model={"family": "graph", "nodes": nodes}, data={"rows": "person"}, dims=levels)
    program = posterior_of(model, fitting.check(model, {"rating": rating})).machine_model()
    return MachineDensity(program, lambda: pytest.fail("the machine knows this model"))


def test_ordered_vectors_start_near_the_data_under_vague_priors():
    """At the centre of the prior the outer cutpoints are about 900 away from all ratings."""
    vague = cutpoints(1000)
    usual, narrow = vague.centre(), middle(vague)
    a = vague.constrained({name: v[None] for name, v in vague.split(narrow).items()})["a"][0]
    assert np.all(np.diff(a) > 0)
    assert np.abs(a).max() < 10
    assert height(vague, narrow) > height(vague, usual) + 1_000
    assert all(np.array_equal(vague.split(narrow)[name], vague.split(usual)[name]) for name in vague.names[1:])


def test_ordered_vectors_start_at_the_centres_of_informative_priors():
    usual = cutpoints(2)
    assert np.array_equal(middle(usual), usual.centre())
    given = {"a": np.array([-900.0, 0.0, 900.0])}
    assert np.array_equal(middle(cutpoints(1000), given), cutpoints(1000).centre(given))


@pytest.mark.slow(why="statistical")
def test_a_matrix_that_is_singular_at_the_start_is_named():
    nodes = {
        "m": "Normal(0, 1)",
        "s[k, k2]": "inv(m * ones)",
        "y[row, k]": "MvNormal(0, cov=s)",
        "w[row]": "Uniform(0, 1)",
    }
    model = bl.Model(
        model={"family": "graph", "nodes": nodes},
        data={"dims": {"ones": ["k", "k2"], "y": ["row", "k"], "w": ["row"]}},
        dims={"k": 2, "k2": "k"},
    )
    found = Density.of(bl.to_pymc(model, {"ones": np.ones((2, 2)), "y": np.zeros((3, 2)), "w": -np.ones(3)}))
    with refused("model.no-start", "matrix that 'y' depends on"):
        middle(found)


def test_vague_priors_of_a_survival_model_start():
    """BUGS's mice: at the centre of the priors a survival probability is exp(-1e8)."""
    nodes = {
        "r": "Uniform(0.1, 10)",
        "beta": "Normal(0, 31.62)",
        "weeks[obs_id]": "Censored(Weibull(r, exp(-beta / r)), upper=limit)",
    }
    found = density(nodes, {"weeks": np.array([12.0, 40.0]), "limit": np.array([np.inf, 40.0])})
    start = found.flat(found.model.initial_point())
    value, slope = found(start)
    assert np.isfinite(value) and np.isfinite(slope).all()
    np.testing.assert_array_equal(middle(found), start)
