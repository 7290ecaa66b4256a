"""Closed forms against numbers from the textbooks, SciPy, and integrals over grids."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import logsumexp

from bayeslab.exact.conjugate import (
    BetaBinomial,
    DirichletMultinomial,
    GammaExponential,
    GammaPoisson,
    GammaPrecision,
    NormalGamma,
    NormalInverseGamma,
    NormalKnownVariance,
    NormalWishart,
    empirical_bayes,
)
from tests.refusals import refused

RNG = np.random.default_rng(1)
DATA = RNG.normal(1.5, 2.0, 12)


def chained(log_evidence_of, prior, parts):
    """Log evidence of parts one after the other, each given those before."""
    total = 0.0
    for part in parts:
        total += log_evidence_of(prior, part)
        prior = prior.update(part)
    return total


# ------------------------------------------------------------------------------------- beta

# Russell and Norvig (2003), section 20.2 and figure 20.5; Alpaydın (2014), figure 16.2:
# alpha, beta, mean, variance, mode, 95 % interval, 1 / B(alpha, beta).
BETAS = [
    (1, 1, 0.5, 0.083333, np.nan, 0.0250, 0.9750, 1),
    (3, 1, 0.75, 0.0375, 1, 0.2924, 0.9916, 3),
    (6, 2, 0.75, 0.020833, 0.833333, 0.4213, 0.9633, 42),
    (30, 10, 0.75, 0.004573, 0.763158, 0.6067, 0.8696, 6_357_453_960),
    (20, 30, 0.4, 0.004706, 0.395833, 0.2700, 0.5376, 5.655505e14),
]


@pytest.mark.parametrize(("alpha", "beta", "mean", "variance", "mode", "low", "high", "constant"), BETAS)
def test_beta_shapes(alpha, beta, mean, variance, mode, low, high, constant):
    theta = BetaBinomial(alpha, beta)
    assert theta.mean() == pytest.approx(mean)
    assert theta.sd() ** 2 == pytest.approx(variance, abs=5e-7)
    assert theta.mode() == pytest.approx(mode, abs=5e-7, nan_ok=True)
    assert theta.quantile(0.025) == pytest.approx(low, abs=5e-5)
    assert theta.quantile(0.975) == pytest.approx(high, abs=5e-5)
    assert theta.cdf(theta.quantile(0.3)) == pytest.approx(0.3)
    # The normaliser: one success with probability alpha / (alpha + beta), and the density's height.
    total = integrate.quad(lambda t: constant * t ** (alpha - 1) * (1 - t) ** (beta - 1), 0, 1)[0]
    assert total == pytest.approx(1, rel=1e-6)


def test_beta_update_counts():
    assert BetaBinomial(2, 3).update(1).alpha == 3
    assert BetaBinomial(2, 3).update(0).beta == 4
    # A beta[a, b] prior is beta[1, 1] after a - 1 cherries and b - 1 limes.
    virtual = BetaBinomial().update(np.array([1] * 5 + [0] * 2))
    assert (virtual.alpha, virtual.beta) == (6, 3)


def test_one_cherry():
    """Maximum likelihood says 1; the uniform prior 2/3, and no outcome is impossible."""
    seen = BetaBinomial().update(1)
    assert seen.mean() == pytest.approx(2 / 3)
    assert seen.predictive().pmf(0) == pytest.approx(1 / 3)


@pytest.mark.parametrize(("epsilon", "mean"), [(0.1, 0.916667), (0.01, 0.990196), (0.001, 0.999002)])
def test_tiny_beta_collapses_after_one_datum(epsilon, mean):
    assert BetaBinomial(epsilon, epsilon).update(1).mean() == pytest.approx(mean, abs=5e-7)
    assert BetaBinomial(epsilon, epsilon).update(1).mean() == pytest.approx((1 + epsilon) / (1 + 2 * epsilon))


def test_sixty_of_a_hundred_is_surer_than_six_of_ten():
    assert BetaBinomial(60, 40).sd() == pytest.approx(0.048747, abs=5e-7)
    assert BetaBinomial(6, 4).sd() == pytest.approx(0.147710, abs=5e-7)


def test_posterior_is_the_next_prior():
    data = np.array([1, 0, 0, 1, 1])
    whole = BetaBinomial(2, 3).update(data)
    for order in itertools.permutations(data):
        now = BetaBinomial(2, 3)
        for one in order:
            now = now.update(one)
        assert (now.alpha, now.beta) == (whole.alpha, whole.beta)


def test_beta_evidence_by_integration():
    prior = BetaBinomial(2.5, 1.5)
    wins, trials = np.array([3, 7, 0]), np.array([5, 9, 2])
    density = lambda t: stats.beta(2.5, 1.5).pdf(t) * np.prod(stats.binom(trials, t).pmf(wins))  # noqa: E731
    assert np.exp(prior.log_evidence(wins, trials)) == pytest.approx(integrate.quad(density, 0, 1)[0], rel=1e-9)
    assert prior.predictive(4).pmf(np.arange(5)).sum() == pytest.approx(1)
    assert prior.predictive(9).logpmf(7) == pytest.approx(prior.log_evidence(7, 9))


def test_many_proportions_at_once():
    group = np.array([0, 1, 1, 2, 0])
    wins = np.array([1, 0, 1, 1, 1])
    several = BetaBinomial(np.array([1.0, 2, 3]), np.ones(3))
    after = several.update(wins, 1, at=group)
    for g in range(3):
        alone = BetaBinomial(several.alpha[g], 1.0).update(wins[group == g])
        assert (after.alpha[g], after.beta[g]) == (alone.alpha, alone.beta)
    alone = sum(BetaBinomial(several.alpha[g], 1.0).log_evidence(wins[group == g]) for g in range(3))
    assert several.log_evidence(wins, 1, at=group) == pytest.approx(alone)
    with refused("model.wrong-shape", "`at`"):
        several.update(wins)


def test_spam_with_a_normal_prior_and_normal_likelihood():
    """For many messages the beta posterior and the grid with the central limit theorem agree."""
    n, spam = 4000, 1300
    q = np.linspace(0.25, 0.4, 4001)
    log_density = stats.norm.logpdf(q, 0.3, 0.1) + stats.norm.logpdf(spam / n, q, np.sqrt(q * (1 - q) / n))
    weights = np.exp(log_density - logsumexp(log_density))
    exact = stats.norm.logpdf(q, 0.3, 0.1) + stats.binom.logpmf(spam, n, q)
    exact = np.exp(exact - logsumexp(exact))
    assert weights @ q == pytest.approx(exact @ q, abs=2e-4)
    uniform = BetaBinomial().update(spam, n)
    assert (uniform.alpha, uniform.beta) == (1 + spam, 1 + n - spam)
    assert uniform.mean() == pytest.approx(exact @ q, abs=2e-3)


def test_jeffreys_prior_of_a_proportion():
    """The square root of the Fisher information is the density of beta(1/2, 1/2), up to a factor."""
    theta = np.linspace(0.05, 0.95, 19)
    information = np.array(
        [sum(stats.bernoulli(t).pmf(x) * ((x - t) / (t * (1 - t))) ** 2 for x in (0, 1)) for t in theta]
    )
    ratio = np.sqrt(information) / stats.beta(0.5, 0.5).pdf(theta)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)


def test_posterior_mean_beats_maximum_likelihood_on_average():
    """When θ comes from the prior, the mean squared error of the posterior mean is the smallest."""
    rng = np.random.default_rng(2)
    theta = rng.uniform(size=20_000)
    wins = rng.binomial(3, theta)
    shrunk = BetaBinomial(np.ones(len(wins)), np.ones(len(wins))).update(wins, np.full(len(wins), 3)).mean()
    worse = (wins / 3 - theta) ** 2 - (shrunk - theta) ** 2
    assert worse.mean() > 4 * worse.std() / np.sqrt(len(worse))


# ------------------------------------------------------------------------------------- dirichlet


def test_dirichlet_is_the_imaginary_sample():
    prior = DirichletMultinomial.of([2, 3, 5])
    after = prior.update([4, 0, 1])
    np.testing.assert_allclose(after.predictive(), np.array([6, 3, 6]) / 15)
    np.testing.assert_allclose(after.sd(), np.sqrt(stats.dirichlet([6, 3, 6]).var()))
    two = DirichletMultinomial.of([2, 3]).update([1, 4])
    beta = BetaBinomial(2, 3).update(1, 5)
    assert two.mean()[0] == pytest.approx(beta.mean())
    assert two.quantile(0.2)[0] == pytest.approx(beta.quantile(0.2))


def test_dirichlet_evidence_is_the_product_of_predictions():
    outcomes, prior, total = [0, 2, 2, 1, 2], DirichletMultinomial.of([1, 2, 0.5]), 0.0
    now = prior
    for outcome in outcomes:
        total += np.log(now.predictive()[outcome])
        now = now.update(np.eye(3)[outcome])
    assert prior.log_evidence(np.bincount(outcomes)) == pytest.approx(total)
    np.testing.assert_allclose(now.a, prior.update(np.bincount(outcomes)).a)


# ------------------------------------------------------------------------------------- gamma


def test_gamma_poisson():
    prior, counts, exposure = GammaPoisson(2.0, 3.0), np.array([4, 0, 7]), np.array([1.0, 0.5, 2.0])
    density = lambda r: stats.gamma(2, scale=1 / 3).pdf(r) * np.prod(stats.poisson(r * exposure).pmf(counts))  # noqa: E731
    assert np.exp(prior.log_evidence(counts, exposure)) == pytest.approx(integrate.quad(density, 0, 30)[0], rel=1e-8)
    after = prior.update(counts, exposure)
    assert (after.alpha, after.beta) == (13, 6.5)
    assert prior.predictive(2.0).logpmf(7) == pytest.approx(prior.log_evidence(7, 2.0))
    assert after.quantile(0.3) == pytest.approx(stats.gamma(13, scale=1 / 6.5).ppf(0.3))


def test_gamma_exponential():
    prior, times = GammaExponential(2.0, 3.0), np.array([0.5, 1.7, 0.2])
    density = lambda r: stats.gamma(2, scale=1 / 3).pdf(r) * np.prod(stats.expon(scale=1 / r).pdf(times))  # noqa: E731
    assert np.exp(prior.log_evidence(times)) == pytest.approx(integrate.quad(density, 0, 40)[0], rel=1e-8)
    assert prior.predictive().logpdf(1.7) == pytest.approx(prior.log_evidence(1.7))


def test_precision_is_a_weighted_mean_of_variances():
    """a_N = a0 + N/2, b_N = b0 + N s²/2: the variance's estimate weighs s0² and s² by ν0 and N."""
    errors = DATA - 1.0
    prior = GammaPrecision(3.0, 5.0)
    after = prior.update(errors)
    n, s2, nu0, s02 = len(errors), np.mean(errors**2), 6.0, 5.0 / 3.0
    assert (after.alpha, after.beta) == (3 + n / 2, 5 + n * s2 / 2)
    assert after.beta / after.alpha == pytest.approx((nu0 * s02 + n * s2) / (nu0 + n))
    density = lambda lam: stats.gamma(3, scale=0.2).pdf(lam) * np.prod(stats.norm(0, lam**-0.5).pdf(errors))  # noqa: E731
    assert np.exp(prior.log_evidence(errors)) == pytest.approx(integrate.quad(density, 0, 20)[0], rel=1e-7)
    assert prior.predictive().logpdf(0.7) == pytest.approx(prior.log_evidence(0.7))


def test_inverse_gamma_variance_is_the_gamma_precision():
    """The same posterior after the change of variable σ² = 1 / λ."""
    errors = DATA - 1.0
    variance = np.linspace(0.5, 15, 20_001)
    log_density = stats.invgamma(3, scale=5).logpdf(variance) + stats.norm.logpdf(
        errors[:, None], 0, np.sqrt(variance)
    ).sum(0)
    weights = np.exp(log_density - logsumexp(log_density))
    after = GammaPrecision(3.0, 5.0).update(errors)
    truth = stats.invgamma(after.alpha, scale=after.beta)
    assert weights @ variance == pytest.approx(truth.mean(), rel=1e-4)
    # scaled-inverse-chi-squared(ν, s²) is inverse-gamma(ν / 2, ν s² / 2).
    assert truth.mean() == pytest.approx(after.beta / (after.alpha - 1))


# ------------------------------------------------------------------------------------- normal


def test_mean_between_prior_and_sample():
    prior = NormalKnownVariance(0.0, 1.0, noise=2.0)
    after, mean = prior.update(DATA), DATA.mean()
    assert 0 < after.mean() < mean
    assert after.sd() < min(1.0, 2.0 / np.sqrt(len(DATA)))
    assert NormalKnownVariance(0.0, 1e8, 2.0).update(DATA).mean() == pytest.approx(mean)
    assert NormalKnownVariance(0.0, 1.0, 2.0).update(np.tile(DATA, 10**4)).mean() == pytest.approx(mean, rel=1e-3)


def test_weight_of_the_sample_moves_as_it_should():
    def weight(n=10, noise=2.0, sigma=1.0):
        return float(NormalKnownVariance(0.0, sigma, noise).update(np.ones(n)).mean())

    assert weight(n=5) < weight(n=10) < weight(n=20)
    assert weight(sigma=0.5) < weight(sigma=1.0) < weight(sigma=2.0)
    assert weight(noise=3.0) < weight(noise=2.0) < weight(noise=1.0)


def test_normal_predictive_adds_variances():
    after = NormalKnownVariance(0.0, 1.0, noise=2.0).update(DATA)
    assert after.predictive().var() == pytest.approx(after.sd() ** 2 + 4)
    rng = np.random.default_rng(3)
    drawn = rng.normal(after.draws(rng, 40_000), 2.0)
    assert abs(drawn.mean() - after.predictive().mean()) < 4 * drawn.std() / 200
    assert drawn.var() == pytest.approx(after.predictive().var(), rel=4 * np.sqrt(2 / 40_000))
    parts = [DATA[:3], DATA[3:4], DATA[4:]]
    evidence = chained(lambda p, d: p.log_evidence(d), NormalKnownVariance(0.0, 1.0, 2.0), parts)
    cov = 4 * np.eye(12) + 1.0
    assert evidence == pytest.approx(stats.multivariate_normal(np.zeros(12), cov).logpdf(DATA))


def test_classes_with_uncertain_means():
    """Predictive densities of Gaussian classes give the plug-in rule as the sample grows."""
    rng = np.random.default_rng(4)
    x = 0.7
    for n, tolerance in ((5, 0.5), (50_000, 0.01)):
        samples = [rng.normal(-1, 1, n), rng.normal(1, 1, n)]
        bayes = [NormalKnownVariance(0.0, 3.0, 1.0).update(s).predictive().pdf(x) for s in samples]
        plug_in = [stats.norm(s.mean(), 1).pdf(x) for s in samples]
        assert bayes[1] / sum(bayes) == pytest.approx(plug_in[1] / sum(plug_in), abs=tolerance)


@pytest.mark.slow(why="large")
def test_normal_gamma_on_a_grid():
    prior = NormalGamma(0.5, 2.0, 3.0, 4.0)
    after = prior.update(DATA)
    assert after.kappa == 14
    assert after.mu == pytest.approx((2 * 0.5 + DATA.sum()) / 14)
    mu, lam = np.meshgrid(np.linspace(-4, 6, 801), np.linspace(0.01, 4.01, 1601), indexing="ij")
    log_density = stats.gamma(3, scale=0.25).logpdf(lam) + stats.norm.logpdf(mu, 0.5, (2 * lam) ** -0.5)
    log_density += stats.norm.logpdf(DATA[:, None, None], mu, lam**-0.5).sum(axis=0)
    cell = (10 / 800) * (4.0 / 1600)
    assert after.update(DATA[:1]).alpha == after.alpha + 0.5
    assert prior.log_evidence(DATA) == pytest.approx(logsumexp(log_density) + np.log(cell), abs=1e-4)
    weights = np.exp(log_density - logsumexp(log_density))
    assert (weights * mu).sum() == pytest.approx(after.mean()[0], abs=1e-4)
    assert (weights * lam).sum() == pytest.approx(after.mean()[1], abs=1e-4)
    assert np.sqrt((weights * (mu - after.mu) ** 2).sum()) == pytest.approx(after.sd()[0], abs=1e-4)


def test_predictive_t_is_wider_than_the_normal():
    after = NormalGamma(0.0, 1.0, 2.0, 3.0).update(DATA)
    predictive = after.predictive()
    assert predictive.args[0] == 2 * after.alpha
    assert predictive.logpdf(2.2) == pytest.approx(after.log_evidence(2.2))
    normal = NormalKnownVariance(
        after.mu, 1 / np.sqrt(after.kappa * after.alpha / after.beta), np.sqrt(after.beta / after.alpha)
    )
    assert predictive.sf(12.0) > normal.predictive().sf(12.0)
    assert after.variance().mean() == pytest.approx(after.beta / (after.alpha - 1))


def test_normal_wishart_in_one_dimension_is_normal_gamma():
    one = NormalGamma(0.5, 2.0, 3.0, 4.0)
    many = NormalWishart(np.array([0.5]), 2.0, 6.0, np.array([[1 / 8.0]]))
    a, b = one.update(DATA), many.update(DATA[:, None])
    assert b.nu == 2 * a.alpha
    assert b.V[0, 0] == pytest.approx(1 / (2 * a.beta))
    assert many.log_evidence(DATA[:, None]) == pytest.approx(one.log_evidence(DATA))
    assert b.predictive().df == 2 * a.alpha
    assert b.predictive().logpdf([2.0]) == pytest.approx(a.predictive().logpdf(2.0))
    assert b.mean()[1][0, 0] == pytest.approx(a.mean()[1])


def test_normal_wishart_predictive_and_order():
    rows = RNG.normal(size=(9, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0.3], [0, 0, 2]])
    prior = NormalWishart(np.zeros(3), 0.7, 5.0, np.diag([1.0, 0.5, 2.0]))
    after = prior.update(rows)
    now = prior
    for row in rows[::-1]:
        now = now.update(row)
    np.testing.assert_allclose(now.V, after.V)
    np.testing.assert_allclose(now.mu, after.mu)
    assert after.predictive().df == after.nu - 3 + 1
    assert after.predictive().logpdf(np.ones(3)) == pytest.approx(after.log_evidence(np.ones((1, 3))))
    assert chained(lambda p, d: p.log_evidence(d), prior, list(rows)) == pytest.approx(prior.log_evidence(rows))
    rng = np.random.default_rng(5)
    means, precisions = after.draws(rng, 20_000)
    error = means.std(axis=0) / np.sqrt(20_000)
    assert np.all(np.abs(means.mean(axis=0) - after.mu) < 4 * error)
    error = precisions.std(axis=0) / np.sqrt(20_000)
    assert np.all(np.abs(precisions.mean(axis=0) - after.mean()[1]) < 4.5 * error)
    inverse = np.linalg.inv(precisions)
    assert np.all(np.abs(inverse.mean(axis=0) - after.covariance()) < 5 * inverse.std(axis=0) / np.sqrt(20_000))


def test_prior_that_says_between_one_and_three():
    """ "Near 2, between 1 and 3" is a normal with 95 % in [1, 3]."""
    belief = NormalKnownVariance(2.0, 0.5, 1.0)
    inside = stats.norm(belief.mu, belief.sigma)
    assert inside.cdf(3) - inside.cdf(1) == pytest.approx(0.9545, abs=5e-5)


# ------------------------------------------------------------------------------------- regression

X = np.column_stack([np.ones(20), RNG.normal(size=(20, 2))])
Y = X @ [1.0, 2.0, -1.0] + RNG.normal(0, 0.7, 20)


def test_flat_regression_is_least_squares():
    after = NormalInverseGamma.flat(3).update(X, Y)
    coefficients, rss, *_ = np.linalg.lstsq(X, Y, rcond=None)
    np.testing.assert_allclose(after.mu, coefficients)
    assert 2 * after.alpha == 17
    assert after.beta / after.alpha == pytest.approx(rss[0] / 17)
    classical = coefficients + stats.t(17).ppf(0.975) * np.sqrt(rss[0] / 17 * np.diag(np.linalg.inv(X.T @ X)))
    np.testing.assert_allclose(after.quantile(0.975)[0], classical)
    assert 2 * NormalInverseGamma.flat(3, uniform="sigma").update(X, Y).alpha == 16
    assert np.isnan(NormalInverseGamma.flat(3).log_evidence(X, Y))


def test_regression_evidence_is_a_multivariate_t():
    prior = NormalInverseGamma(np.array([0.5, 0.0, 1.0]), np.diag([1.0, 2.0, 0.5]), 3.0, 2.0)
    weights = RNG.uniform(0.5, 2, 20)
    shape = (np.diag(1 / weights) + X @ np.linalg.inv(prior.precision) @ X.T) * prior.beta / prior.alpha
    truth = stats.multivariate_t(X @ prior.mu, shape, 2 * prior.alpha).logpdf(Y)
    assert prior.log_evidence(X, Y, weights) == pytest.approx(truth)
    first, second = prior.update(X[:8], Y[:8], weights[:8]), prior.update(X, Y, weights)
    again = first.update(X[8:], Y[8:], weights[8:])
    np.testing.assert_allclose(again.mu, second.mu)
    assert again.beta == pytest.approx(second.beta)
    new = np.array([[1.0, 0.3, -2.0]])
    assert second.predictive(new).logpdf(0.4)[0] == pytest.approx(second.log_evidence(new, np.array([0.4])))


def test_regression_draws():
    after = NormalInverseGamma.flat(3).update(X, Y)
    rng = np.random.default_rng(6)
    beta, variance = after.draws(rng, 40_000)
    mean, sd = after.mean(), after.sd()
    assert np.all(np.abs(beta.mean(axis=0) - mean[0]) < 4 * beta.std(axis=0) / 200)
    assert abs(variance.mean() - mean[1]) < 4 * variance.std() / 200
    np.testing.assert_allclose(beta.std(axis=0), sd[0], rtol=0.03)
    assert np.mean(variance < after.quantile(0.25)[1]) == pytest.approx(0.25, abs=4 * np.sqrt(0.1875 / 40_000))


def test_ridge_is_the_posterior_mean():
    prior = NormalInverseGamma(np.zeros(3), 2.5 * np.eye(3), 1.0, 1.0)
    np.testing.assert_allclose(prior.update(X, Y).mu, np.linalg.solve(X.T @ X + 2.5 * np.eye(3), X.T @ Y))


def test_columns_that_cannot_be_told_apart():
    with refused("model.dependent-columns"):
        NormalInverseGamma.flat(2).update(np.ones((5, 2)), np.arange(5.0))


# ------------------------------------------------------------------------------------- hyperparameters

# Tumours in groups of rats (Tarone 1982), the first and last of Gelman et al. (2013), table 5.1.
TUMOURS, RATS = np.array([0, 0, 1, 2, 4, 5, 4, 15, 9, 16]), np.array([20, 19, 20, 24, 19, 22, 14, 47, 24, 52])


def test_empirical_bayes_is_the_maximum_of_the_evidence():
    def evidence(h):
        return BetaBinomial(np.full(10, h[0]), np.full(10, h[1])).log_evidence(TUMOURS, RATS)

    best, height = empirical_bayes(evidence, [1.0, 1.0])
    a, b = np.meshgrid(np.geomspace(0.2, 20, 161), np.geomspace(0.5, 80, 161), indexing="ij")
    grid = stats.betabinom.logpmf(TUMOURS, RATS, a[..., None], b[..., None]).sum(-1)
    assert height >= grid.max() - 1e-9
    assert height == pytest.approx(grid.max(), abs=5e-3)
    top = np.unravel_index(grid.argmax(), grid.shape)
    np.testing.assert_allclose(best, [a[top], b[top]], rtol=0.05)
    assert height == pytest.approx(evidence(best))


@pytest.mark.slow(why="statistical")
def test_empirical_bayes_refuses_a_runaway():
    """Groups that differ by less than chance: no spread between them is best, at infinity."""
    with refused("model.no-mode"):
        empirical_bayes(
            lambda h: BetaBinomial(np.full(4, h[0]), np.full(4, h[1])).log_evidence(np.full(4, 5), 10), [1.0, 1.0]
        )


def test_a_prior_on_the_hyperparameter_shrinks_group_means():
    """Integrated over, the hyperparameters pull each group between its own rate and the pooled one."""
    size, centre = np.meshgrid(np.geomspace(0.5, 300, 120), np.linspace(0.02, 0.6, 120), indexing="ij")
    a, b = size * centre, size * (1 - centre)
    evidence = stats.betabinom.logpmf(TUMOURS, RATS, a[..., None], b[..., None]).sum(-1)
    weights = np.exp(evidence - logsumexp(evidence))
    group = BetaBinomial(a[..., None], b[..., None])
    means = (group.alpha + TUMOURS) / (group.alpha + group.beta + RATS)
    shrunk, own, pooled = np.einsum("ij,ijk->k", weights, means), TUMOURS / RATS, TUMOURS.sum() / RATS.sum()
    far = np.abs(own - pooled) > 0.03
    assert np.all((np.minimum(own, pooled) < shrunk)[far] & (shrunk < np.maximum(own, pooled))[far])


def test_heavy_tails_let_data_overrule_an_outlying_prior():
    theta = np.linspace(-5, 30, 7001)
    data = DATA[:3] + 18.0
    likelihood = stats.norm.logpdf(data[:, None], theta, 2.0).sum(axis=0)

    def mean(prior):
        weights = np.exp(likelihood + prior - logsumexp(likelihood + prior))
        return weights @ theta

    normal, cauchy = mean(stats.norm.logpdf(theta, 0, 1)), mean(stats.cauchy.logpdf(theta, 0, 1))
    assert normal == pytest.approx(NormalKnownVariance(0.0, 1.0, 2.0).update(data).mean(), abs=1e-6)
    assert abs(cauchy - data.mean()) < 0.1 * abs(normal - data.mean())
