"""Both tails of every distribution that can be censored or truncated: SciPy, closed forms, finite differences."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from scipy import stats
from scipy.special import logsumexp

import bayeslab as bl
from bayeslab.families.graph import tail_kernels as kernels
from bayeslab.families.graph import tails

pytestmark = pytest.mark.usefixtures("double_precision")

PYTHON = Mode("py", "fast_compile")


# PyMC's variable, SciPy's, values far into both tails.
CASES = {
    "uniform": (lambda: pm.Uniform.dist(1, 3.0), stats.uniform(1, 2), [1.2, 2.9]),
    "half normal": (lambda: pm.HalfNormal.dist(2.0), stats.halfnorm(scale=2), [1e-6, 0.1, 3, 70]),
    "normal": (lambda: pm.Normal.dist(1.0, 2.0), stats.norm(1, 2), [-70, 0, 90]),
    "log-normal": (lambda: pm.LogNormal.dist(0.3, 0.7), stats.lognorm(0.7, scale=np.exp(0.3)), [1e-9, 1, 1e6]),
    "wald": (lambda: pm.Wald.dist(mu=2.0, lam=3.0), stats.invgauss(2 / 3, scale=3), [0.02, 0.5, 2, 5, 90]),
    "beta": (lambda: pm.Beta.dist(2.0, 3.0), stats.beta(2, 3), [1e-9, 0.3, 0.99999]),
    "exponential": (lambda: pm.Exponential.dist(2.0), stats.expon(scale=0.5), [1e-12, 0.3, 2000]),
    "laplace": (lambda: pm.Laplace.dist(1.0, 2.0), stats.laplace(1, 2), [-900, 0, 1, 2, 999]),
    "student": (lambda: pm.StudentT.dist(4, mu=1.0, sigma=2.0), stats.t(4, 1, 2), [-1e7, -5, 1, 1.1, 30]),
    "pareto": (lambda: pm.Pareto.dist(2.0, 1.5), stats.pareto(2, scale=1.5), [1.6, 1e7]),
    "gamma": (lambda: pm.Gamma.dist(2.5, 3.0), stats.gamma(2.5, scale=1 / 3), [1e-9, 0.5, 3, 60]),
    "inverse gamma": (lambda: pm.InverseGamma.dist(2.5, 3.0), stats.invgamma(2.5, scale=3), [0.01, 1, 1e5]),
    "weibull": (lambda: pm.Weibull.dist(1.7, 3.0), stats.weibull_min(1.7, scale=3), [1e-9, 2, 60]),
    "ex-gaussian": (lambda: pm.ExGaussian.dist(1.0, 2.0, nu=0.5), stats.exponnorm(0.25, 1, 2), [-20, -5, 1, 8, 20]),
    "triangular": (lambda: pm.Triangular.dist(lower=0.0, upper=4.0, c=1.0), stats.triang(0.25, 0, 4), [0.1, 2, 3.9]),
    "gumbel": (lambda: pm.Gumbel.dist(1.0, 2.0), stats.gumbel_r(1, 2), [-9, 0, 1, 50]),
    "logistic": (lambda: pm.Logistic.dist(1.0, 2.0), stats.logistic(1, 2), [-2e3, 1, 3e3]),
    "moyal": (lambda: pm.Moyal.dist(1.0, 2.0), stats.moyal(1, 2), [-4, 1, 9, 30]),
    "skew student": (
        lambda: pm.SkewStudentT.dist(2.0, 3.0, mu=1.0, sigma=2.0), stats.jf_skew_t(2, 3, 1, 2), [-1e3, 0, 9, 1e3]
    ),
    "cauchy": (lambda: pm.Cauchy.dist(1.0, 2.0), stats.cauchy(1, 2), [-90, 0, 90]),
    "half cauchy": (lambda: pm.HalfCauchy.dist(2.0), stats.halfcauchy(scale=2), [0.01, 1, 90]),
    "binomial": (lambda: pm.Binomial.dist(20, 0.3), stats.binom(20, 0.3), [0, 5, 15]),
    "poisson": (lambda: pm.Poisson.dist(4.0), stats.poisson(4), [0, 3, 12]),
    "negative binomial": (lambda: pm.NegativeBinomial.dist(n=3.0, p=0.3), stats.nbinom(3, 0.3), [0, 5, 60]),
    "geometric": (lambda: pm.Geometric.dist(0.3), stats.geom(0.3), [1, 5, 60]),
    "discrete uniform": (lambda: pm.DiscreteUniform.dist(2, 7), stats.randint(2, 8), [2, 5, 6]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_both_tails_equal_scipys(name):
    make, reference, values = CASES[name]
    rv, at = make(), np.array(values, dtype=float)
    low, high = pytensor.function([], [tails.log_cumulative(rv, at), tails.log_survival(rv, at)], mode=PYTHON)()
    # What is near zero has the digits of one minus a probability.
    np.testing.assert_allclose(low, reference.logcdf(at), rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(high, reference.logsf(at), rtol=1e-9, atol=1e-14)


def test_where_scipy_ends():
    """Far out, from closed forms: sums of Poisson and binomial probabilities in 60 digits."""
    with localcontext() as context:
        context.prec = 60
        x, term, total = Decimal(5000), Decimal(1), Decimal(1)
        for k in range(1, 3):
            term = term * x / k
            total += term
        expected = float(-x + total.ln())
    assert kernels.log_gamma_q(3.0, 5000.0) == pytest.approx(expected, rel=1e-13)  # e^-4983
    assert kernels.log_gamma_p(3.0, 1e-200) == pytest.approx(3 * np.log(1e-200) - np.log(6), rel=1e-13)
    assert kernels.log_beta_i(2.0, 3.0, 1e-250, 1.0) == pytest.approx(np.log(6) + 2 * np.log(1e-250), rel=1e-13)
    high = pytensor.function([], tails.log_survival(pm.Gumbel.dist(0.0, 1.0), 2_000.0), mode=PYTHON)()
    assert high == pytest.approx(-2_000.0, rel=1e-14)


@pytest.mark.parametrize(("a", "x"), [(0.3, 0.2), (2.7, 0.1), (2.7, 60.0), (900.0, 800.0), (900.0, 1500.0)])
def test_slopes_of_the_incomplete_gamma_function(a, x):
    for value, slope in (
        (kernels.log_gamma_p, kernels.log_gamma_p_shape),
        (kernels.log_gamma_q, kernels.log_gamma_q_shape),
    ):
        step = 1e-5 * a
        assert slope(a, x) == pytest.approx((value(a + step, x) - value(a - step, x)) / (2 * step), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize(("a", "b", "x"), [(0.3, 2.0, 0.1), (2.0, 70.0, 0.9), (50.0, 3.0, 0.2)])
def test_slopes_of_the_incomplete_beta_function(a, b, x):
    value = kernels.log_beta_i
    for slope, da, db in ((kernels.log_beta_first, 1e-5 * a, 0.0), (kernels.log_beta_second, 0.0, 1e-5 * b)):
        found = (value(a + da, b + db, x, 1 - x) - value(a - da, b - db, x, 1 - x)) / (2 * (da + db))
        assert slope(a, b, x, 1 - x) == pytest.approx(found, rel=1e-4, abs=1e-9)


def test_a_mixture_has_the_mixture_of_tails():
    parts = [pm.Normal.dist(0.0, 1.0), pm.Normal.dist(5.0, 2.0)]
    rv = pm.Mixture.dist(w=[0.3, 0.7], comp_dists=parts)
    high = pytensor.function([], tails.log_survival(rv, 60.0), mode=PYTHON)()
    expected = logsumexp([np.log(0.3) + stats.norm.logsf(60, 0, 1), np.log(0.7) + stats.norm.logsf(60, 5, 2)])
    assert high == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow(why="statistical")
def test_densities_of_censored_and_truncated_nodes_hold_in_the_tails():
    nodes = {
        "m": "Normal(0, 1)",
        "life[obs_id]": "Censored(Weibull(5, exp(m)), upper=limit)",
        "late[obs_id]": "Truncated(Gamma(2.5, exp(m)), lower=900)",
        "both[obs_id]": "Truncated(Gamma(2.5, exp(m)), lower=900, upper=950)",
    }
    data = {"life": [40.0, 55.0], "limit": [40.0, 90.0], "late": [901.0, 920.0], "both": [901.0, 920.0]}
    built = bl.to_pymc(bl.Model(model={"family": "graph", "nodes": nodes}), {k: np.array(v) for k, v in data.items()})
    value, slope = built.compile_logp(mode=PYTHON), built.compile_dlogp(mode=PYTHON)

    def expected(m):
        rate = np.exp(m)
        out = stats.norm.logpdf(m) - (40 / rate) ** 5 + stats.weibull_min.logpdf(55, 5, scale=rate)
        for last in (np.inf, 950.0):
            # The mass behind 900 relative to the density there, by quadrature.
            grid = np.linspace(900.0, min(last, 900 + 80 / rate), 200_001)
            density = stats.gamma.logpdf(grid, 2.5, scale=1 / rate)
            mass = density[0] + np.log(np.trapezoid(np.exp(density - density[0]), grid))
            out += sum(stats.gamma.logpdf(y, 2.5, scale=1 / rate) - mass for y in (901.0, 920.0))
        return out

    for m in (0.4, 1.5):
        assert value({"m": np.array(m)}) == pytest.approx(expected(m), rel=1e-7)
        numeric = (value({"m": np.array(m + 1e-6)}) - value({"m": np.array(m - 1e-6)})) / 2e-6
        assert slope({"m": np.array(m)})[0] == pytest.approx(numeric, rel=1e-5)


def test_ordered_and_categorical_probabilities_that_underflow():
    cut, eta = np.array([-800.0, 0.0, 900.0]), np.array([1000.0, -1500.0])
    for word, law in (("OrderedLogistic", stats.logistic), ("OrderedProbit", stats.norm)):
        found = pytensor.function([], tails.ordered(word, pt.constant(eta), pt.constant(cut)), mode=PYTHON)()
        at = cut - eta[:, None]
        np.testing.assert_allclose(found[:, 0], law.logcdf(at[:, 0]), rtol=1e-12, atol=1e-300)
        np.testing.assert_allclose(found[:, -1], law.logsf(at[:, -1]), rtol=1e-12, atol=1e-300)
        # Between two bounds far above, the mass is that above the lower one.
        np.testing.assert_allclose(found[1, 1:3], law.logsf(at[1, :2]), rtol=1e-12)
    nodes = {"b": "Normal(0, 1)", "y[obs_id]": "Categorical(logit_p=eta)", "eta[obs_id, k]": "b * index(k)"}
    built = bl.to_pymc(bl.Model(dims={"k": 2}, model={"family": "graph", "nodes": nodes}), {"y": np.array([0, 1])})
    value = built.compile_logp(mode=PYTHON)
    assert value({"b": np.array(900.0)}) == pytest.approx(stats.norm.logpdf(900) - 900, rel=1e-12)
