"""Which prior is conjugate to which parameter: the terms of a log density, and the posteriors they make."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

import bayeslab as bl
from bayeslab.distributions import DISTRIBUTIONS, conjugate
from bayeslab.posterior.answer import Plan
from bayeslab.posterior.contract import posterior_of
from bayeslab.preparation import bound

# Values, the other parameters, and SciPy's distribution at a value of the conjugate parameter.
CASES = {
    "Bernoulli": ([0.0, 1.0], {}, lambda t: stats.bernoulli(t)),
    "Binomial": ([0.0, 3.0, 7.0], {"n": 7}, lambda t: stats.binom(7, t)),
    "Geometric": ([1.0, 4.0], {}, lambda t: stats.geom(t)),
    "NegativeBinomial": ([0.0, 2.0, 9.0], {"n": 2.5}, lambda t: stats.nbinom(2.5, t)),
    "Poisson": ([0.0, 2.0, 9.0], {}, lambda t: stats.poisson(t)),
    "Exponential": ([0.1, 2.0], {}, lambda t: stats.expon(scale=1 / t)),
    "Gamma": ([0.1, 2.0], {"alpha": 1.7}, lambda t: stats.gamma(1.7, scale=1 / t)),
    "InverseGamma": ([0.1, 2.0], {"alpha": 1.7}, lambda t: stats.invgamma(1.7, scale=t)),
    "Pareto": ([1.5, 6.0], {"m": 1.2}, lambda t: stats.pareto(t, scale=1.2)),
}


def scipy_log(law: object, x: np.ndarray, *, discrete: bool) -> np.ndarray:
    return law.logpmf(x) if discrete else law.logpdf(x)


def test_every_conjugate_parameter_is_tested():
    declared = {name for name in DISTRIBUTIONS if conjugate(name) is not None and conjugate(name).counts is not None}
    assert declared == set(CASES)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("theta", [0.2, 0.7])
def test_terms_are_the_log_density(name, theta):
    values, others, law = CASES[name]
    x, pair = np.array(values), conjugate(name)
    (a, b), c = pair.counts(x, **others), pair.rest(x, **others)
    second = np.log1p(-theta) if pair.prior == "Beta" else -theta
    truth = scipy_log(law(theta), x, discrete=DISTRIBUTIONS[name].discrete)
    np.testing.assert_allclose(a * np.log(theta) + b * second + c, truth, rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_the_posterior_of_a_graph_is_that_of_quadrature(name):
    values, others, law = CASES[name]
    pair = conjugate(name)
    prior = stats.beta(2, 3) if pair.prior == "Beta" else stats.gamma(2, scale=1 / 3)
    given = ", ".join([f"{pair.parameter}=theta", *(f"{word}={value}" for word, value in others.items())])
    nodes = {"theta": f"{pair.prior}(2, 3)", "y[obs_id]": f"{name}({given})"}
    model = bl.Model(model=bl.Graph(nodes=nodes))
    found = posterior_of(model, bound(model, {"y": np.array(values)})).exact_plan
    assert isinstance(found, Plan), found
    answer, discrete = found.solve(), DISTRIBUTIONS[name].discrete

    def joint(t: float, power: int) -> float:
        return t**power * prior.pdf(t) * np.exp(scipy_log(law(t), np.array(values), discrete=discrete).sum())

    top = 1.0 if pair.prior == "Beta" else 30.0
    mass, first = (quad(joint, 0, top, args=(power,), limit=200, epsabs=1e-14)[0] for power in (0, 1))
    assert answer.log_evidence == pytest.approx(np.log(mass), abs=1e-7)
    assert answer.mean()["theta"] == pytest.approx(first / mass, rel=1e-7)


def test_a_rate_times_data_is_conjugate_too():
    """Gamma times of unlike units: the factors are data."""
    y, w = np.array([0.3, 1.2, 2.0]), np.array([1.0, 2.0, 0.5])
    model = bl.Model(model=bl.Graph(nodes={"rate": "Gamma(2, 3)", "y[obs_id]": "Gamma(1.7, rate * w)"}))
    answer = posterior_of(model, bound(model, {"y": y, "w": w})).exact_plan.solve()

    def joint(t: float) -> float:
        return stats.gamma(2, scale=1 / 3).pdf(t) * np.exp(stats.gamma(1.7, scale=1 / (t * w)).logpdf(y).sum())

    assert answer.log_evidence == pytest.approx(np.log(quad(joint, 0, 30, limit=200)[0]), abs=1e-7)


@pytest.mark.parametrize(
    ("node", "y"),
    [("Pareto(theta, 2)", [1.5]), ("Gamma(1.7, theta)", [0.0]), ("NegativeBinomial(p=theta, n=0)", [1.0])],
)
def test_values_and_parameters_out_of_range_have_no_closed_form(node, y):
    prior = "Beta" if "p=" in node else "Gamma"
    model = bl.Model(model=bl.Graph(nodes={"theta": f"{prior}(2, 3)", "y[obs_id]": node}))
    assert isinstance(posterior_of(model, bound(model, {"y": np.array(y)})).exact_plan, str)
