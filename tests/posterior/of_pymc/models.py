"""Plain PyMC models, as users write them, on small data."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

__all__ = ["MODELS"]

MODELS = {}


def model(make):
    """Register a function whose body is the content of a model."""

    def made():
        rng = np.random.default_rng(3)
        # PyMC keeps short constants in single precision, and so their logarithms.
        with pytensor.config.change_flags(cast_policy="numpy+floatX"), pm.Model() as out:
            make(rng)
        return out

    MODELS[make.__name__] = made
    return made


@model
def hierarchical_logistic(rng):
    x, group = rng.normal(size=60), rng.integers(0, 6, 60)
    mu, tau = pm.Normal("mu", 0.0, 1.5), pm.HalfNormal("tau", 1.0)
    a = pm.Normal("a", mu, tau, shape=6)
    b = pm.Normal("b", 0.0, 1.0)
    pm.Bernoulli("y", logit_p=a[group] + b * x, observed=rng.integers(0, 2, 60))


@model
def not_centred(rng):
    group = rng.integers(0, 5, 40)
    mu, tau = pm.Normal("mu", 0.0, 1.5), pm.HalfCauchy("tau", 1.0)
    z = pm.Normal("z", 0.0, 1.0, shape=5)
    theta = pm.Deterministic("theta", mu + tau * z)
    pm.StudentT("y", 4.0, theta[group], sigma=pm.Exponential("sigma", 2.0), observed=rng.normal(size=40))


@model
def ordinal(rng):
    x = rng.normal(size=50)
    transform = pm.distributions.transforms.ordered
    cut = pm.Normal("cut", 0.0, 2.0, shape=3, transform=transform, initval=[-1.0, 0.0, 1.0])
    b = pm.Normal("b", 0.0, 1.0)
    pm.OrderedLogistic("y", b * x, cut, observed=rng.integers(0, 4, 50))


@model
def ordinal_probit(rng):
    x = rng.normal(size=50)
    transform = pm.distributions.transforms.ordered
    cut = pm.Normal("cut", 0.0, 2.0, shape=2, transform=transform, initval=[-0.5, 0.5])
    pm.OrderedProbit("y", pm.Normal("b", 0.0, 1.0) * x, cut, observed=rng.integers(0, 3, 50))


@model
def zero_inflated_poisson(rng):
    x = rng.normal(size=80)
    psi, b = pm.Beta("psi", 2.0, 2.0), pm.Normal("b", 0.0, 1.0, shape=2)
    pm.ZeroInflatedPoisson("y", psi, pt.exp(b[0] + b[1] * x), observed=rng.poisson(2.0, 80) * rng.integers(0, 2, 80))


@model
def zero_inflated_negative_binomial(rng):
    y = rng.negative_binomial(2, 0.3, 80) * rng.integers(0, 2, 80)
    pm.ZeroInflatedNegativeBinomial(
        "y", pm.Beta("psi", 2.0, 2.0), mu=pm.Gamma("mu", 2.0, 0.5), alpha=pm.Exponential("alpha", 1.0), observed=y
    )


@model
def zero_inflated_binomial(rng):
    y = rng.binomial(9, 0.4, 50) * rng.integers(0, 2, 50)
    pm.ZeroInflatedBinomial("y", pm.Beta("psi", 2.0, 2.0), 9, pm.Beta("p", 1.5, 1.5), observed=y)


@model
def hurdle_poisson(rng):
    y = rng.poisson(2.0, 60) * rng.integers(0, 2, 60)
    pm.HurdlePoisson("y", pm.Beta("psi", 2.0, 2.0), pm.Gamma("mu", 2.0, 1.0), observed=y)


@model
def gaussian_process(rng):
    x = np.linspace(0.0, 3.0, 12)[:, None]
    ell, eta = pm.InverseGamma("ell", 3.0, 2.0), pm.HalfNormal("eta", 1.5)
    gp = pm.gp.Marginal(cov_func=eta**2 * pm.gp.cov.ExpQuad(1, ls=ell))
    gp.marginal_likelihood("y", X=x, y=np.sin(x[:, 0]) + 0.1 * rng.normal(size=12), sigma=pm.HalfNormal("s", 1.0))


@model
def latent_gaussian_process(rng):
    x = np.linspace(0.0, 3.0, 8)[:, None]
    gp = pm.gp.Latent(cov_func=pm.HalfNormal("eta", 1.5) ** 2 * pm.gp.cov.Matern52(1, ls=pm.Gamma("ell", 2.0, 1.0)))
    f = gp.prior("f", X=x)
    pm.Poisson("y", pt.exp(f), observed=rng.poisson(2.0, 8))


@model
def approximate_gaussian_process(rng):
    x = np.linspace(0.0, 3.0, 30)[:, None]
    gp = pm.gp.HSGP(m=[6], c=1.5, cov_func=pm.gp.cov.ExpQuad(1, ls=pm.Gamma("ell", 2.0, 1.0)))
    pm.Normal("y", gp.prior("f", X=x), pm.HalfNormal("s", 1.0), observed=rng.normal(size=30))


@model
def correlated_effects(rng):
    group, x = rng.integers(0, 7, 70), rng.normal(size=70)
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.5), compute_corr=True)
    z = pm.Normal("z", 0.0, 1.0, shape=(7, 2))
    effects = pm.Deterministic("effects", pt.dot(z, chol.T))
    mu = effects[group, 0] + effects[group, 1] * x
    pm.Normal("y", mu, pm.HalfNormal("s", 1.0), observed=rng.normal(size=70))


@model
def centred_correlated_effects(rng):
    group, x = rng.integers(0, 7, 70), rng.normal(size=70)
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.HalfNormal.dist(1.5, shape=2), compute_corr=True)
    ab = pm.MvNormal("ab", pm.Normal("mu", 0.0, 2.0, shape=2), chol=chol, shape=(7, 2))
    pm.Normal("y", ab[group, 0] + ab[group, 1] * x, pm.HalfNormal("s", 1.0), observed=rng.normal(size=70))


@model
def correlations(rng):
    corr = pm.LKJCorr("corr", n=3, eta=1.5)
    sd = pm.HalfNormal("sd", 1.0, shape=3)
    cov = pm.Deterministic("cov", corr * sd[:, None] * sd[None, :])
    pm.MvNormal("y", np.zeros(3), cov=cov, observed=rng.normal(size=(20, 3)))


@model
def truncated(rng):
    mu, sigma = pm.Normal("mu", 1.0, 1.0), pm.HalfNormal("sigma", 1.0)
    pm.Truncated("y", pm.Normal.dist(mu, sigma), lower=0.0, upper=4.0, observed=rng.uniform(0.1, 3.9, 30))
    pm.Truncated("g", pm.Gamma.dist(2.0, pm.Exponential("rate", 1.0)), upper=3.0, observed=rng.uniform(0.1, 2.9, 20))


@model
def censored(rng):
    alpha, beta = pm.HalfNormal("alpha", 2.0), pm.HalfNormal("beta", 2.0)
    times = np.minimum(rng.weibull(1.5, 40), 1.2)
    pm.Censored("t", pm.Weibull.dist(alpha, beta), lower=None, upper=1.2, observed=times)
    mu = pm.Normal("mu", 0.0, 1.0)
    pm.Censored("y", pm.Normal.dist(mu, 1.0), lower=-0.5, upper=0.5, observed=np.clip(rng.normal(size=30), -0.5, 0.5))


@model
def weibull_survival(rng):
    x, event = rng.normal(size=40), rng.integers(0, 2, 40).astype(bool)
    t = rng.weibull(1.3, 40)
    alpha, b = pm.Gamma("alpha", 2.0, 1.0), pm.Normal("b", 0.0, 1.0, shape=2)
    scale = pt.exp(b[0] + b[1] * x)
    pm.Weibull("t", alpha, scale[event], observed=t[event])
    pm.Potential("still_alive", -((t[~event] / scale[~event]) ** alpha))


@model
def potential(rng):
    a = pm.Normal("a", 0.0, 1.0, shape=4)
    pm.Potential("smooth", -3.0 * pt.sum((a[1:] - a[:-1]) ** 2))
    pm.Potential("soft", pm.logp(pm.StudentT.dist(3.0, mu=0.0, sigma=1.0), a.sum()))
    pm.Normal("y", a, 1.0, observed=rng.normal(size=4))


@model
def data_containers(rng):
    x, y = pm.Data("x", rng.normal(size=25)), pm.Data("y_data", rng.normal(size=25))
    a, b = pm.Normal("a", 0.0, 1.0), pm.Laplace("b", 0.0, 1.0)
    mu = pm.Deterministic("mu", a + b * x)
    pm.Normal("y", mu, pm.HalfNormal("s", 1.0), observed=y)


@model
def multivariate_normal(rng):
    mu = pm.Normal("mu", 0.0, 2.0, shape=3)
    pm.MvNormal(
        "y", mu, cov=np.array([[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 1.5]]), observed=rng.normal(size=(9, 3))
    )
    pm.MvNormal("z", mu, tau=pt.eye(3) * pm.Gamma("tau", 2.0, 1.0), observed=rng.normal(size=(5, 3)))


@model
def multivariate_student(rng):
    pm.MvStudentT("y", nu=5.0, mu=pm.Normal("mu", 0.0, 2.0, shape=2), scale=np.eye(2), observed=rng.normal(size=(9, 2)))


@model
def shares(rng):
    p = pm.Dirichlet("p", np.array([1.0, 2.0, 3.0]))
    pm.Multinomial("n", 20, p, observed=np.array([4, 6, 10]))
    pm.Categorical("k", p, observed=rng.integers(0, 3, 15))
    q = pm.Dirichlet("q", pm.Exponential("a", 1.0) * np.ones(3), shape=(2, 3))
    pm.Multinomial("m", 10, q, observed=np.array([[3, 3, 4], [1, 8, 1]]))
    pm.DirichletMultinomial("d", 10, pm.HalfNormal("conc", 2.0, shape=3), observed=np.array([[3, 3, 4], [1, 8, 1]]))


@model
def softmax_regression(rng):
    x = rng.normal(size=(40, 2))
    b = pm.Normal("b", 0.0, 1.0, shape=(2, 3))
    pm.Categorical("y", p=pm.math.softmax(x @ b, axis=-1), observed=rng.integers(0, 3, 40))
    pm.Categorical("z", logit_p=x @ b, observed=rng.integers(0, 3, 40))


@model
def beta_binomial(rng):
    pm.BetaBinomial(
        "y", alpha=pm.HalfCauchy("a", 2.0), beta=pm.HalfCauchy("b", 2.0), n=12, observed=rng.binomial(12, 0.3, 30)
    )
    p = pm.Deterministic("p", pm.math.invlogit(pm.Normal("l", 0.0, 1.0)))
    pm.Binomial("z", n=np.arange(10, 20), p=p, observed=rng.binomial(np.arange(10, 20), 0.5))


@model
def robust_shrinkage(rng):
    x = rng.normal(size=(30, 5))
    tau, lam = pm.HalfCauchy("tau", 0.5), pm.HalfStudentT("lam", 3.0, 1.0, shape=5)
    beta = pm.Deterministic("beta", pm.Normal("z", 0.0, 1.0, shape=5) * lam * tau)
    pm.Normal("y", x @ beta, pm.HalfNormal("s", 1.0), observed=rng.normal(size=30))


@model
def uniform_bounds(rng):
    low = pm.Uniform("low", -3.0, -1.0)
    high = pm.Uniform("high", 1.0, 4.0)
    a = pm.Uniform("a", low, high, shape=3)
    pm.Normal("y", a, 1.0, observed=rng.normal(size=3))
    pm.TruncatedNormal("t", 0.0, 1.0, lower=-1.0, shape=2)
    pm.Triangular("g", 0.0, 1.0, 0.3)
    pm.VonMises("v", 0.3, 2.0)
    pm.Pareto("w", 2.0, 1.5)


@model
def continuous_priors(rng):
    pm.AsymmetricLaplace("a", kappa=0.8, mu=0.1, b=1.2)
    pm.Cauchy("b", 0.0, 2.0)
    pm.ChiSquared("c", 3.0)
    pm.ExGaussian("d", 0.1, 1.0, nu=0.7)
    pm.Gumbel("e", 0.1, 1.3)
    pm.InverseGamma("f", mu=2.0, sigma=1.0)
    pm.Kumaraswamy("g", 2.0, 3.0)
    u, v = pm.Flat("u"), pm.HalfFlat("v")
    pm.Normal("y", u, v, observed=rng.normal(size=4))


@model
def more_priors(rng):
    pm.LogNormal("h", 0.1, 0.7)
    pm.Logistic("i", 0.1, 0.7)
    pm.LogitNormal("j", 0.1, 0.7)
    pm.Moyal("k", 0.1, 0.7)
    pm.Rice("l", nu=1.1, sigma=0.7)
    pm.SkewNormal("m", mu=0.2, sigma=0.9, alpha=1.5)
    pm.SkewStudentT("n", a=1.5, b=1.2, mu=0.2, sigma=0.9)
    pm.Wald("o", mu=1.0, lam=2.0)
    pm.HalfNormal("p", tau=pm.Gamma("q", mu=2.0, sigma=1.0))
    pm.StudentT("r", nu=pm.Exponential("s", 0.5), mu=0.3, lam=1.5)
    pm.Interpolated("t", np.linspace(0.0, 4.0, 30), np.exp(-np.linspace(0.0, 4.0, 30)))


@model
def discrete_likelihoods(rng):
    p = pm.Beta("p", 2.0, 2.0)
    pm.Geometric("a", p, observed=rng.geometric(0.4, 20))
    pm.DiscreteWeibull("b", p, 1.3, observed=rng.poisson(1.0, 20))
    pm.NegativeBinomial("c", n=pm.Exponential("n", 0.5), p=p, observed=rng.poisson(3.0, 20))
    pm.NegativeBinomial("d", mu=pm.HalfNormal("mu", 3.0), alpha=2.0, observed=rng.poisson(3.0, 20))
    pm.HyperGeometric("e", N=50, k=20, n=10, observed=rng.hypergeometric(20, 30, 10, 5))
    pm.DiscreteUniform("f", 0, 9, observed=rng.integers(0, 10, 5))
    pm.Bernoulli("g", p, observed=rng.integers(0, 2, 8))


@model
def mixtures(rng):
    w = pm.Dirichlet("w", np.ones(3))
    pm.NormalMixture(
        "y", w, pm.Normal("mu", 0.0, 3.0, shape=3), pm.HalfNormal("s", 1.0, shape=3), observed=rng.normal(size=30)
    )
    parts = [pm.Normal.dist(pm.Normal("c", 0.0, 1.0), 1.0), pm.StudentT.dist(3.0, mu=0.0, sigma=2.0)]
    pm.Mixture("z", [0.3, 0.7], parts, observed=rng.normal(size=20))
    counts = pm.Poisson.dist(pm.Gamma("rate", 2.0, 1.0, shape=3), shape=(12, 3))
    pm.Mixture("k", w, counts, observed=rng.poisson(2.0, 12))


@model
def series(rng):
    pm.GaussianRandomWalk("walk", mu=0.1, sigma=pm.HalfNormal("s", 1.0), init_dist=pm.Normal.dist(0.0, 2.0), steps=9)
    pm.AR(
        "ar",
        rho=pm.Normal("rho", 0.0, 0.5, shape=2),
        sigma=1.2,
        init_dist=pm.Normal.dist(0.0, 1.0),
        observed=rng.normal(size=15),
    )
    omega, alpha, beta = pm.HalfNormal("omega", 1.0), pm.Beta("alpha", 2.0, 3.0), pm.Beta("beta", 2.0, 3.0)
    pm.GARCH11("g", omega, alpha, beta, initial_vol=1.0, observed=rng.normal(size=12))


@model
def scans(rng):
    y = rng.normal(size=14)
    a, b = pm.Normal("a", 0.0, 0.5), pm.Normal("b", 0.0, 0.5)

    def step(y, before, again, a, b):
        new = a * before + b * again + 0.1 * y
        return new, pt.tanh(new) ** 2

    level, size = pytensor.scan(
        step,
        sequences=[pt.as_tensor(y)],
        outputs_info=[{"initial": pt.stack([pt.zeros(()), a]), "taps": [-1, -2]}, None],
        non_sequences=[a, b],
        return_updates=False,
    )
    pm.Normal("y", level, pt.sqrt(1.0 + size), observed=y)


@model
def spatial(rng):
    w = np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1)
    phi = pm.ICAR("phi", W=w)
    pm.CAR("car", mu=np.zeros(6), W=w, alpha=pm.Beta("alpha", 2.0, 2.0), tau=pm.Gamma("tau", 2.0, 1.0))
    pm.Poisson("y", pt.exp(pm.Normal("a", 0.0, 1.0) + phi), observed=rng.poisson(2.0, 6))


@model
def zero_sum(rng):
    a = pm.ZeroSumNormal("a", sigma=pm.HalfNormal("s", 1.0), shape=5)
    pm.Normal("y", a, 1.0, observed=rng.normal(size=5))
    w = pm.StickBreakingWeights("w", alpha=pm.Exponential("alpha", 1.0), K=4)
    pm.Categorical("k", w, observed=rng.integers(0, 4, 20))


@model
def missing_cells(rng):
    y = np.ma.masked_array(rng.normal(size=12), rng.random(12) < 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pm.exceptions.ImputationWarning)
        pm.Normal("y", pm.Normal("mu", 0.0, 1.0), pm.HalfNormal("s", 1.0), observed=y)


@model
def arithmetic(rng):
    x = pm.Normal("x", 0.0, 1.0, shape=(3, 4))
    s = pm.HalfNormal("s", 1.0, shape=4)
    y = pt.set_subtensor(x[1, :], s)
    y = pt.inc_subtensor(y[:, 2], s[:3])
    z = pt.concatenate([y, x[::-1]], axis=0).reshape((4, 6)).T
    z = pt.switch(pt.gt(z, 0.2), pt.log1p(z**2), pt.expm1(pt.minimum(z, 0.5)))
    z = z + pt.max(x, axis=0)[None, 0] - pt.prod(s) + pt.mean(x) + pt.cumsum(s)[-1] + pt.diff(s).sum() + pt.var(x)
    z = (
        z
        + pt.logsumexp(x, axis=None)
        + pt.erf(s[0])
        + pt.arctan(x[0, 0])
        + pt.linalg.norm(s)
        + pt.clip(x[0, 1], -1.0, 1.0)
    )
    m = pt.eye(4) * 3.0 + pt.outer(s, s)
    z = z + pt.linalg.det(m) + pt.linalg.inv(m)[0, 1] + pt.linalg.solve(m, s)[1] + pt.trace(m) + pt.diag(s)[2, 2]
    z = z + pt.tril(m)[3, 0] + pt.tile(s, 2)[5] + pt.repeat(s, 2)[3]
    pm.Deterministic("z", z)
    pm.Normal("obs", z.sum() / 10.0, 1.0, observed=0.3)


@model
def custom(rng):
    def logp(value, mu):
        return -((value - mu) ** 2) - pt.log(2.0)

    mu = pm.Normal("mu", 0.0, 1.0)
    pm.CustomDist("y", mu, logp=logp, observed=rng.normal(size=6))
    pm.CustomDist("z", mu, dist=lambda mu, size: pm.Normal.dist(mu, 1.0, size=size) ** 3, observed=rng.normal(size=6))


def with_coords():
    """A model with named dimensions and labels."""
    rng = np.random.default_rng(5)
    coords = {"county": ["Anoka", "Clay", "Mower"], "house": np.arange(10)}
    with pm.Model(coords=coords) as out:
        place = pm.Data("place", rng.integers(0, 3, 10), dims="house")
        mu = pm.Normal("mu", 0.0, 2.0)
        a = pm.Normal("a", mu, pm.HalfNormal("tau", 1.0), dims="county")
        expected = pm.Deterministic("expected", a[place], dims="house")
        pm.Normal("y", expected, pm.HalfNormal("s", 1.0), observed=rng.normal(size=10), dims="house")
    return out


MODELS["with_coords"] = with_coords
