"""The mass beyond draws by integration: the truth is a funnel, in which the marginal density of the neck is normal."""

import numpy as np
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab import fitting
from bayeslab.engines.toolbox.tail_mass import missing_mass
from bayeslab.engines.toolbox.target import Target
from bayeslab.posterior.contract import posterior_of
from bayeslab.posterior.machine.density import MachineDensity

# One row with y = 1: the posterior of mu is Normal(1/2, sqrt(1/2)), whatever z is.
MARGINAL = stats.norm(0.5, np.sqrt(0.5))
FUNNEL = {"mu": "Normal(0, 1)", "z[leaf]": "Normal(0, exp(mu))", "y": "Normal(mu, 1)"}
# z² is near 4: the density of z, given mu, has two modes.
TWO = {"mu": "Normal(0, 1)", "z": "Normal(0, 3)", "y": "Normal(mu, 1)", "square": "Normal(z**2, 0.1)"}
MANY = 1_000_000


def target(nodes, data, dims):
    model = bl.Model(model=bl.Graph(nodes=nodes), dims=dims)
    program = posterior_of(model, fitting.check(model, data)).machine_model()
    return Target(MachineDensity(program, lambda: pytest.fail("the machine knows this model")))


@pytest.fixture(scope="module")
def funnel():
    return target(FUNNEL, {"y": 1.0}, {"leaf": ["one", "two", "three"]})


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def chains(rng, low=0.0, high=1.0):
    """Independent draws of the funnel, with mu between two quantiles, and steps refused most often in both tails."""
    mu = MARGINAL.ppf(rng.uniform(low, high, (4, 1000)))
    z = np.exp(mu)[:, :, None] * rng.standard_normal((4, 1000, 3))
    points = np.concatenate((mu[:, :, None], z), axis=2)
    share = MARGINAL.cdf(np.roll(mu, 1, axis=1))  # of the draw from which a step begins
    refused = 0.2 + 0.4 * ((share < low + 0.02) | (share > high - 0.02))
    return points, 1 - refused * rng.uniform(0.5, 1.0, mu.shape)


@pytest.mark.parametrize("upper", [True, False])
def test_mass_beyond_truncated_draws_is_that_of_the_marginal_density(funnel, rng, upper):
    points, acceptance = chains(rng, high=0.98) if upper else chains(rng, low=0.02)
    missing = missing_mass(funnel, points, acceptance, rng, MANY)
    assert (missing.number, missing.upper) == (0, upper)
    assert missing.mass - missing.drawn == pytest.approx(0.02, rel=0.2)


def test_complete_draws_have_no_missing_mass(funnel, rng):
    for _ in range(8):
        assert missing_mass(funnel, *chains(rng), rng, MANY) is None


def test_a_tail_without_refused_steps_is_not_examined(funnel, rng):
    points, acceptance = chains(rng, high=0.98)
    assert missing_mass(funnel, points, np.full_like(acceptance, 0.8), rng, MANY) is None
    assert missing_mass(funnel, points, np.ones_like(acceptance), rng, MANY) is None


def test_evaluations_are_limited(funnel, rng):
    points, acceptance = chains(rng, high=0.98)
    assert missing_mass(funnel, points, acceptance, rng, 500) is None


def test_several_modes_of_the_others_leave_it_undecided(rng):
    points, acceptance = chains(rng, high=0.9)
    z = rng.choice([-2.0, 2.0], (4, 1000, 1)) + 0.025 * rng.standard_normal((4, 1000, 1))
    points = np.concatenate((points[:, :, :1], z), axis=2)
    assert missing_mass(target(TWO, {"y": 1.0, "square": 4.0}, {}), points, acceptance, rng, MANY) is None


def test_one_parameter_needs_no_integration(rng):
    points, acceptance = chains(rng, high=0.98)
    alone = target({"mu": "Normal(0, 1)", "y": "Normal(mu, 1)"}, {"y": 1.0}, {})
    missing = missing_mass(alone, points[:, :, :1], acceptance, rng, MANY)
    assert missing.mass - missing.drawn == pytest.approx(0.02, rel=0.2)
