"""Parameters at a limit: where the likelihood is level, and searches that begin there."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

import bayeslab as bl
from bayeslab.distributions.emissions import AnyDistribution
from bayeslab.distributions.toolbox.limits import at_limit, just_allowed
from bayeslab.distributions.toolbox.parameter_search import ParameterSearch


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


@pytest.mark.slow(why="statistical")
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


def cell(name, learned, **known):
    return ParameterSearch(name, learned, known, {}, {})


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(
    ("name", "rows", "known", "theta", "want"),
    [
        # Varies more than half a normal may: the likelihood rises towards that of an exponential distribution.
        (
            "TruncatedNormal",
            stats.expon.rvs(size=150, random_state=1),
            {"lower": 0.0, "upper": np.inf},
            {"mu": -1600.0, "sigma": 41.0},
            [False, True],
        ),
        # A binomial of probability 0.3, as alpha and beta grow together.
        (
            "BetaBinomial",
            stats.binom.rvs(20, 0.3, size=150, random_state=2).astype(float),
            {"n": 20.0},
            {"alpha": 3e6, "beta": 7e6},
            [True, True],
        ),
        # One exponential tail: kappa falls as b grows.
        (
            "AsymmetricLaplace",
            stats.expon.rvs(size=100, random_state=3),
            {},
            {"kappa": 1e-5, "mu": 0.0, "b": 1e5},
            [True, False, True],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_limit_along_a_ridge_is_one(name, rows, known, theta, want):
    """Each parameter by itself falls on both sides; with the others following, one side is level."""
    one, ones = cell(name, tuple(theta), **known), np.ones(len(rows))
    if name == "AsymmetricLaplace":
        theta = theta | {"mu": float(rows.min())}
    place = np.array(list(theta.values()))
    assert one.limits(rows, ones, place) == [0] * len(theta)
    assert [one.on_ridge(rows, ones, place, i) for i in range(len(theta))] == want


@pytest.mark.parametrize(
    ("name", "rows", "known", "theta"),
    [
        (
            "TruncatedNormal",
            stats.truncnorm.rvs(-1, np.inf, loc=1, size=150, random_state=1),
            {"lower": 0.0, "upper": np.inf},
            {"mu": 1.0, "sigma": 1.0},
        ),
        (
            "BetaBinomial",
            stats.betabinom.rvs(20, 2, 3, size=150, random_state=1).astype(float),
            {"n": 20.0},
            {"alpha": 2.0, "beta": 3.0},
        ),
        ("Gamma", stats.gamma.rvs(2, size=100, random_state=1), {}, {"alpha": 2.0, "beta": 1.0}),
        ("StudentT", stats.t.rvs(3, size=100, random_state=1), {}, {"nu": 3.0, "mu": 0.0, "sigma": 1.0}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_maximum_is_on_no_ridge(name, rows, known, theta):
    one, ones = cell(name, tuple(theta), **known), np.ones(len(rows))
    best = one.best(rows, ones, np.array(list(theta.values())))
    assert not any(one.on_ridge(rows, ones, best, i) for i in range(len(theta)))


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(
    ("component", "draw", "names"),
    [
        # Vary less than binomial counts.
        ("BetaBinomial(n=20)", lambda rng: 1 + rng.binomial(5, 0.6, 60), ("alpha", "beta")),
        # No tails at all: the degrees of freedom end at their upper end, 200.
        ("student_t", lambda rng: rng.uniform(-1, 1, 60), ("dof",)),
    ],
)
def test_ridges_and_ends_are_no_pass(component, draw, names):
    rng = np.random.default_rng(5)
    y = draw(rng).astype(float)
    other = rng.binomial(20, rng.beta(6, 1.5, 60)) if component != "student_t" else 50 + 5 * rng.standard_t(2, 60)
    model = bl.Model(model=bl.Mixture(columns=["y"], components=2, component=component))
    fit = bl.fit(
        model, {"y": np.r_[y, other]}, method="em", prior="ignore", restarts=2, seed=1, runs=None, progress=False
    )
    found = {one.where: one for one in fit.verdict.findings if one.check == "boundary"}
    assert found.keys() >= set(names)
    assert all(found[name].status == "warn" and found[name].value == 1 for name in names)
