"""The grid engine against closed forms and integrals done another way."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

import bayeslab as bl
from bayeslab.exact.conjugate import BetaBinomial, NormalGamma, NormalInverseGamma
from bayeslab.exact.quadrature import box, converged, grid_draws, quantile
from tests.refusals import refused

RNG = np.random.default_rng(21)
Y = RNG.normal(1.0, 2.0, 12)
X = RNG.normal(50.0, 1.0, 12)  # far from zero: intercept and slope are correlated by 0.9998
HITS = (RNG.uniform(size=12) < 1 / (1 + np.exp(-(X - 50)))).astype(int)


def fit(nodes, data, **options):
    return bl.fit(bl.Model(model=bl.Graph(nodes=nodes)), data, "grid", seed=5, runs=None, progress=False, **options)


def statistics(found, name):
    group = found.data_tree["exact_posterior"].to_dataset()
    return {str(s): group[name].sel(statistic=s).to_numpy() for s in group["statistic"].to_numpy()}


@pytest.fixture(scope="module")
def proportion():
    """29 cherries and 9 limes after a uniform prior: beta[30, 10]."""
    return fit({"theta": "Beta(1, 1)", "k": "Binomial(38, theta)"}, {"k": 29})


def test_beta(proportion):
    """Figures of the beta[30, 10]: mean 0.75, variance 0.004573, 95 % from 0.6067 to 0.8696."""
    found = statistics(proportion, "theta")
    assert found["mean"] == pytest.approx(0.75, abs=1e-7)
    assert found["sd"] ** 2 == pytest.approx(0.004573, abs=5e-7)
    assert found["q2.5"] == pytest.approx(0.6067, abs=5e-5)
    assert found["q97.5"] == pytest.approx(0.8696, abs=5e-5)
    truth = BetaBinomial(30, 10)
    assert found["q25"] == pytest.approx(truth.quantile(0.25), rel=1e-6)


def test_evidence_of_the_beta(proportion):
    evidence = proportion.data_tree["exact_posterior"].attrs["log_evidence"]
    assert evidence == pytest.approx(BetaBinomial().log_evidence(29, 38), abs=1e-7)
    assert evidence == pytest.approx(np.log(1 / 39))  # a uniform prior makes every count equally likely
    assert proportion.verdict.status == "pass"


def test_draws_and_summary(proportion):
    theta = proportion.posterior["theta"].to_numpy().ravel()
    assert theta.shape == (4000,)
    assert abs(theta.mean() - 0.75) < 4 * theta.std() / np.sqrt(4000)
    assert stats.kstest(theta, stats.beta(30, 10).cdf).pvalue > 1e-3
    assert proportion.summary().loc["theta", "mean"] == pytest.approx(0.75)
    assert proportion.summary(ci_prob=0.8).loc["theta"].iloc[2] == pytest.approx(
        BetaBinomial(30, 10).quantile(0.1), abs=0.01
    )
    assert "unconstrained_posterior" in proportion.data_tree.children


@pytest.mark.slow(why="statistical")
def test_normal_gamma():
    nodes = {"tau": "Gamma(3, 4)", "mu": "Normal(0.5, tau=2 * tau)", "y[obs_id]": "Normal(mu, tau=tau)"}
    found = fit(nodes, {"y": Y})
    prior = NormalGamma(0.5, 2.0, 3.0, 4.0)
    after = prior.update(Y)
    assert found.data_tree["exact_posterior"].attrs["log_evidence"] == pytest.approx(prior.log_evidence(Y), abs=1e-6)
    for i, name in enumerate(("mu", "tau")):
        got = statistics(found, name)
        assert got["mean"] == pytest.approx(after.mean()[i], rel=1e-6)
        assert got["sd"] == pytest.approx(after.sd()[i], rel=1e-5)
        assert got["q5.5"] == pytest.approx(after.quantile(0.055)[i], rel=1e-4)
    drawn = found.posterior.to_dataset()
    gap = (drawn["mu"] - after.mu).to_numpy().ravel() * np.sqrt(after.kappa * drawn["tau"].to_numpy().ravel())
    assert stats.kstest(gap, stats.norm.cdf).pvalue > 1e-3  # jointly: given tau, mu is normal


@pytest.mark.slow(why="large")
def test_three_parameters_nearly_collinear():
    nodes = {"a": "Flat()", "b": "Flat()", "sigma": "HalfFlat()", "y[obs_id]": "Normal(a + b * x, sigma)"}
    found = fit(nodes, {"y": Y, "x": X})
    truth = NormalInverseGamma.flat(2, uniform="sigma").update(np.column_stack([np.ones(12), X]), Y)
    for i, name in enumerate(("a", "b")):
        got = statistics(found, name)
        sd = truth.sd()[0][i]
        assert got["mean"] == pytest.approx(truth.mean()[0][i], abs=1e-4 * sd)
        assert got["sd"] == pytest.approx(sd, rel=1e-3)
        assert got["q97.5"] == pytest.approx(truth.quantile(0.975)[0][i], abs=1e-3 * sd)
        drawn = found.posterior[name].to_numpy().ravel()
        assert abs(drawn.mean() - truth.mean()[0][i]) < 4 * sd / np.sqrt(4000)
    # sigma² is inverse-gamma; flat priors have no evidence.
    from scipy.special import gammaln

    root = np.exp(gammaln(truth.alpha - 0.5) - gammaln(truth.alpha)) * np.sqrt(truth.beta)
    assert statistics(found, "sigma")["mean"] == pytest.approx(root, rel=1e-4)
    assert "log_evidence" not in found.data_tree["exact_posterior"].attrs


@pytest.mark.slow(why="large")
def test_logistic_regression_has_no_closed_form():
    found = fit(
        {"a": "Normal(0, 2)", "b": "Normal(0, 1)", "y[obs_id]": "Bernoulli(logit_p=a + b * (x - 50))"},
        {"y": HITS, "x": X},
    )

    def density(b, a):
        eta = a + b * (X - 50)
        return np.exp(stats.norm.logpdf(a, 0, 2) + stats.norm.logpdf(b) + np.sum(HITS * eta - np.logaddexp(0, eta)))

    total = integrate.dblquad(density, -12, 12, -7, 7, epsrel=1e-9)[0]
    first = integrate.dblquad(lambda b, a: b * density(b, a), -12, 12, -7, 7, epsrel=1e-9)[0]
    assert found.data_tree["exact_posterior"].attrs["log_evidence"] == pytest.approx(np.log(total), abs=1e-5)
    assert statistics(found, "b")["mean"] == pytest.approx(first / total, rel=1e-4)


def test_refusals():
    nodes = {"b[k]": "Normal(0, 1)", "y[obs_id]": "Normal(sum(b), 1)"}
    with refused("engine.refused.too-costly", "grid.*4"):
        bl.fit(bl.Model(model=bl.Graph(nodes=nodes), dims={"k": 4}), {"y": Y}, "grid", runs=None, progress=False)
    with refused("engine.refused.improper", "'a'"):
        fit({"a": "Flat()", "b": "Flat()", "y[obs_id]": "Normal(a + b, 1)"}, {"y": Y})


# ------------------------------------------------------------------------------------- on plain arrays


def test_integral_of_two_far_bumps():
    density = lambda x: np.logaddexp(stats.norm.logpdf(x, -9, 0.3), np.log(2) + stats.norm.logpdf(x, 12, 1.5))  # noqa: E731
    axes, mass = converged(density, box(density, [(-20.0, 20.0)], ["x"]))
    assert np.logaddexp.reduce(mass) == pytest.approx(np.log(3), abs=1e-8)
    assert quantile(axes[0], mass, 0.2) == pytest.approx(-9 + 0.3 * stats.norm.ppf(0.6), rel=1e-4)


def test_draws_from_a_bent_density():
    """x normal, y given x normal about x²."""
    density = lambda x, y: stats.norm.logpdf(x)[:, None] + stats.norm.logpdf(y, x[:, None] ** 2 / 2, 0.5)  # noqa: E731
    axes, mass = converged(density, box(density, [(-9.0, 9.0), (-9.0, 40.0)], ["x", "y"]))
    assert np.logaddexp.reduce(mass, axis=None) == pytest.approx(0, abs=1e-7)
    drawn = grid_draws(axes, mass, np.random.default_rng(1), 10_000)
    assert stats.kstest(drawn[:, 0], stats.norm.cdf).pvalue > 1e-3
    assert stats.kstest((drawn[:, 1] - drawn[:, 0] ** 2 / 2) / 0.5, stats.norm.cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    ("alpha", "given"),
    [
        pytest.param(0.5, (False, False), marks=pytest.mark.slow(why="large")),
        (1.5, (True, False)),
        pytest.param(3.5, (True, True), marks=pytest.mark.slow(why="large")),
    ],
)
def test_moments_that_are_infinite_are_not_given(alpha, given):
    """InverseGamma(alpha + 1/2, 5.5) has a mean above shape 1 and a variance above shape 2."""
    nodes = {"v": f"InverseGamma({alpha}, 1)", "y[obs]": "Normal(0, sqrt(v))"}
    model = bl.Model(data={"rows": "obs"}, model={"family": "graph", "nodes": nodes})
    fit = bl.fit(model, {"y": [3.0]}, "grid", runs=None, progress=False, seed=1, draws=50)
    found, shape = fit.summary(), alpha + 0.5
    assert tuple(found.loc["v", ["mean", "sd"]].notna()) == given
    if given[1]:
        assert found["mean"]["v"] == pytest.approx(5.5 / (shape - 1), rel=1e-6)
        assert found["sd"]["v"] == pytest.approx(5.5 / (shape - 1) / np.sqrt(shape - 2), rel=1e-4)
    else:
        assert "moments" in {finding.check for finding in fit.verdict.findings}
