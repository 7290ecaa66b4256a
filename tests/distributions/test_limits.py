"""Parameters at a limit: where the likelihood is level, and searches that begin there."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

import bayeslab as bl
from bayeslab.distributions.emissions import AnyDistribution
from bayeslab.distributions.toolbox.limits import at_limit, just_allowed


@pytest.mark.parametrize(
    ("height", "value", "want"),
    [
        (lambda v: -(np.log(v) ** 2), 1.0, 0),
        (lambda v: -50 / v, 1e7, 1),
        (lambda v: -50 * v, 1e-7, -1),
        (lambda v: -((v - 1) ** 2) * (v > 1), 1e-2, -1),
        (lambda v: 3.0, 1.0, 0),
        (lambda v: -np.inf if v > 1 else 0.0, 1.0, -1),
    ],
)
def test_a_limit_is_where_the_likelihood_is_level(height, value, want):
    assert at_limit(height, value) == want


def test_the_value_just_allowed_is_two_log_units_down():
    assert just_allowed(lambda v: -50 / v, 1e9, 1) == pytest.approx(25, rel=1e-6)
    assert just_allowed(lambda v: -50 * v, 1e-9, -1) == pytest.approx(0.04, rel=1e-6)


@pytest.mark.parametrize("nu", [1e-7, 0.05])
def test_a_search_leaves_the_saddle_of_a_rice(nu):
    """At nu = 0 the density is even in nu and has no slope; SciPy's maximum is elsewhere."""
    near, far = stats.rice.rvs(1, size=35, random_state=1), stats.rice.rvs(5, scale=2, size=25, random_state=3)

    def height(nu, sigma):
        return stats.rice.logpdf(far, nu / sigma, scale=sigma).sum()

    best = minimize(lambda u: -height(*np.exp(u)), [2.3, 0.7], tol=1e-10)
    rows, belonging = np.r_[near, far][:, None], np.repeat([0.0, 1.0], [35, 25])[:, None]
    start = {"nu": np.array([[nu]]), "sigma": np.array([[7.2]])}
    law = AnyDistribution("Rice", 1).with_prior(rows, 2)
    found = law.maximise({"rows": rows, "belonging": belonging}, start)
    # The prior takes little; at nu = 0 there are 11 less.
    assert height(found["nu"][0, 0], found["sigma"][0, 0]) > -best.fun - 0.5


def test_weak_priors_are_not_about_a_limit():
    """Rows together vary less than Poisson counts: alpha's prior is about the least value that they allow."""
    x = stats.binom.rvs(9, 0.4, size=80, random_state=1).astype(float)
    law = AnyDistribution("NegativeBinomial", 1).with_prior(x[:, None], 2).prior["alpha"]
    alpha = float(np.exp(law.given["mu"][0]))
    mean = x.mean()
    fall = stats.poisson.logpmf(x, mean).sum() - stats.nbinom.logpmf(x, alpha, alpha / (alpha + mean)).sum()
    assert abs(fall - 2) < 0.2


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("family", ["mixture", "hmm"])
def test_an_estimate_at_a_limit_is_no_pass(family):
    rng = np.random.default_rng(7)
    y = np.r_[rng.binomial(10, 0.3, 30), rng.negative_binomial(8, 0.2, 30)]
    spec = (
        bl.Mixture(columns=["y"], components=2, component="NegativeBinomial")
        if family == "mixture"
        else bl.HMM(columns=["y"], states=2, emission="NegativeBinomial")
    )
    fit = bl.fit(
        bl.Model(model=spec), {"y": y}, method="em", prior="ignore", restarts=2, seed=1, runs=None, progress=False
    )
    alpha = np.sort(fit.posterior["alpha"].to_numpy().ravel())
    assert alpha[1] > 1e4 > alpha[0]  # binomial counts vary less than Poisson ones
    (finding,) = [one for one in fit.verdict.findings if one.check == "boundary" and one.where == "alpha"]
    assert finding.status == "warn" and finding.value == 1
