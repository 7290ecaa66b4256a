"""Closed forms recognised in graph models: against conjugate updates, brute-force integrals, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import logsumexp

import bayeslab as bl
from bayeslab.data.binding import bind
from bayeslab.data.tables import read_dataset
from bayeslab.engines import auto
from bayeslab.exact.conjugate import (
    BetaBinomial,
    DirichletMultinomial,
    GammaExponential,
    GammaPoisson,
    NormalGamma,
    NormalInverseGamma,
    NormalKnownVariance,
)
from bayeslab.families import graph
from bayeslab.posterior.answer import Plan

RNG = np.random.default_rng(11)
Y = RNG.normal(1.0, 2.0, 14)
GROUP = np.array(list("abcabcaabbccab"))
CODES = np.unique(GROUP, return_inverse=True)[1]


def plan(nodes, columns, **more):
    model = bl.Model(model=bl.Graph(nodes=nodes), **more)
    bound = bind(model, read_dataset(model.data, None, columns), model.factors())
    graph.check(model, bound.names())
    return graph.compile(model, bound).exact_plan


def solved(nodes, columns, **more):
    found = plan(nodes, columns, **more)
    assert isinstance(found, Plan), found
    answer = found.solve()
    drawn = answer.draws(np.random.default_rng(1), 20_000)
    mean, sd = answer.mean(), answer.sd()
    for name, values in mean.items():
        error = drawn[name].std(axis=0) / np.sqrt(20_000)
        assert np.all(np.abs(drawn[name].mean(axis=0) - values) <= 4.5 * error + 1e-12), name
        np.testing.assert_allclose(drawn[name].std(axis=0), sd[name], rtol=0.15, atol=1e-12)
        for probability in (0.1, 0.5, 0.9):
            share = np.mean(drawn[name] <= answer.quantile(probability)[name], axis=0)
            assert np.all(np.abs(share - probability) < 5 * np.sqrt(probability * (1 - probability) / 20_000)), name
    assert set(drawn) == set(answer.dims)
    return answer


# ------------------------------------------------------------------------------------- pairs


def test_bernoulli_and_binomial_share_a_proportion():
    flips, wins, n = np.array([1, 0, 1, 1]), np.array([3, 5, 0, 2]), np.array([6, 9, 2, 2])
    nodes = {"theta": "Beta(2, 3)", "y[obs_id]": "Bernoulli(theta)", "k[obs_id]": "Binomial(n, theta)"}
    answer = solved(nodes, {"y": flips, "k": wins, "n": n})
    prior = BetaBinomial(2.0, 3.0)
    after = prior.update(flips).update(wins, n)
    assert answer.mean()["theta"] == pytest.approx(after.mean())
    assert answer.quantile(0.3)["theta"] == pytest.approx(after.quantile(0.3))
    assert answer.log_evidence == pytest.approx(prior.log_evidence(flips) + prior.update(flips).log_evidence(wins, n))


def test_a_proportion_for_each_group():
    y = (Y > 1).astype(int)
    nodes = {
        "theta[g]": "Beta(mu=0.4, nu=5)",
        "p[obs_id]": "theta[g]",
        "y[obs_id]": "Bernoulli(p)",
        "gap": 'theta["a"] - theta["b"]',
    }
    answer = solved(nodes, {"y": y, "g": GROUP})
    after = BetaBinomial(np.full(3, 2.0), np.full(3, 3.0)).update(y, 1, at=CODES)
    np.testing.assert_allclose(answer.mean()["theta"], after.mean())
    # Nodes computed from the parameters have draws.
    drawn = answer.draws(np.random.default_rng(2), 10)
    np.testing.assert_allclose(drawn["p"], drawn["theta"][:, CODES])
    np.testing.assert_allclose(drawn["gap"], drawn["theta"][:, 0] - drawn["theta"][:, 1])


def test_geometric():
    tries = np.array([1, 4, 2])
    answer = solved({"p": "Beta(2, 3)", "k[obs_id]": "Geometric(p)"}, {"k": tries})
    total = integrate.quad(lambda t: stats.beta(2, 3).pdf(t) * np.prod(stats.geom(t).pmf(tries)), 0, 1)[0]
    assert answer.log_evidence == pytest.approx(np.log(total))
    assert answer.mean()["p"] == pytest.approx(5 / 12)


def test_categorical_by_state():
    """Rows of a transition matrix: a Dirichlet for each level of a factor."""
    outcome = np.array([0, 2, 1, 1, 0, 2, 2, 2, 0, 1, 1, 1, 0, 0])
    nodes = {"p[g, k]": "Dirichlet([1, 2, 3])", "y[obs_id]": "Categorical(p[g])"}
    answer = solved(nodes, {"y": outcome, "g": GROUP}, dims={"k": 3})
    for g in range(3):
        after = DirichletMultinomial.of([1, 2, 3]).update(np.bincount(outcome[g == CODES], minlength=3))
        np.testing.assert_allclose(answer.mean()["p"][g], after.mean())
    each = [
        DirichletMultinomial.of([1, 2, 3]).log_evidence(np.bincount(outcome[g == CODES], minlength=3)) for g in range(3)
    ]
    assert answer.log_evidence == pytest.approx(sum(each))


def test_multinomial():
    counts = np.array([[3, 1, 0], [2, 2, 5]])
    answer = solved(
        {"p[k]": "Dirichlet(2)", "y[obs_id, k]": "Multinomial(n, p)"},
        {"y": counts, "n": counts.sum(axis=1)},
        dims={"k": 3},
        data={"dims": {"y": ["obs_id", "k"]}},
    )
    np.testing.assert_allclose(answer.mean()["p"], (2 + counts.sum(axis=0)) / (6 + counts.sum()))
    single = stats.dirichlet_multinomial([2, 2, 2], 4).logpmf(counts[0]) + stats.dirichlet_multinomial(
        [5, 3, 2], 9
    ).logpmf(counts[1])
    assert answer.log_evidence == pytest.approx(single)


def test_poisson_with_exposure_and_exponential():
    counts, hours = np.array([4, 0, 7]), np.array([1.0, 0.5, 2.0])
    answer = solved({"lam": "Gamma(2, 3)", "y[obs_id]": "Poisson(lam * hours / 2)"}, {"y": counts, "hours": hours})
    prior = GammaPoisson(2.0, 3.0)
    assert answer.log_evidence == pytest.approx(prior.log_evidence(counts, hours / 2))
    assert answer.mean()["lam"] == pytest.approx(prior.update(counts, hours / 2).mean())
    waits = np.array([0.2, 1.9, 0.7])
    answer = solved({"lam": "Gamma(mu=1, sigma=0.5)", "y[obs_id]": "Exponential(2 * lam)"}, {"y": waits})
    assert answer.log_evidence == pytest.approx(GammaExponential(4.0, 4.0).log_evidence(waits, 2.0))


def test_independent_pieces_are_a_product():
    nodes = {
        "theta": "Beta(1, 1)",
        "k[obs_id]": "Bernoulli(theta)",
        "mu": "Normal(0, 3)",
        "y[obs_id]": "Normal(mu, 2)",
        "odd": "theta * exp(mu)",
    }
    k = (GROUP == "a").astype(int)
    answer = solved(nodes, {"k": k, "y": Y})
    whole = BetaBinomial().log_evidence(k) + NormalKnownVariance(0.0, 3.0, 2.0).log_evidence(Y)
    assert answer.log_evidence == pytest.approx(whole)
    assert list(answer.dims) == ["theta", "mu", "odd"]
    assert "odd" not in answer.mean()
    drawn = answer.draws(np.random.default_rng(3), 50)
    np.testing.assert_allclose(drawn["odd"], drawn["theta"] * np.exp(drawn["mu"]))


# ------------------------------------------------------------------------------------- Gaussian


def test_normal_gamma():
    nodes = {
        "tau": "Gamma(3, 4)",
        "mu": "Normal(0.5, tau=2 * tau)",
        "y[obs_id]": "Normal(mu, tau=tau)",
        "sd": "1 / sqrt(tau)",
    }
    answer = solved(nodes, {"y": Y})
    prior = NormalGamma(0.5, 2.0, 3.0, 4.0)
    after = prior.update(Y)
    assert answer.log_evidence == pytest.approx(prior.log_evidence(Y), abs=1e-7)
    assert (answer.mean()["mu"], answer.mean()["tau"]) == pytest.approx(after.mean(), rel=1e-7)
    # A monotone function of a scale: moments on the grid, quantiles of the inverse gamma.
    root = integrate.quad(lambda v: np.sqrt(v) * after.variance().pdf(v), 0, np.inf)[0]
    assert answer.mean()["sd"] == pytest.approx(root, rel=1e-6)
    assert answer.quantile(0.2)["sd"] == pytest.approx(np.sqrt(after.variance().ppf(0.2)), rel=1e-6)


def test_inverse_gamma_on_the_variance():
    nodes = {
        "v": "InverseGamma(3, 4)",
        "sigma": "sqrt(v)",
        "mu": "Normal(0.5, sigma / sqrt(2))",
        "y[obs_id]": "Normal(mu, sigma)",
    }
    answer = solved(nodes, {"y": Y})
    assert answer.log_evidence == pytest.approx(NormalGamma(0.5, 2.0, 3.0, 4.0).log_evidence(Y), abs=1e-7)


def test_precision_of_known_means():
    answer = solved({"tau": "Gamma(3, 4)", "y[obs_id]": "Normal(x, tau=tau)"}, {"y": Y, "x": Y - 1.0})
    assert answer.mean()["tau"] == pytest.approx((3 + 7) / (4 + 7), rel=1e-8)


X = RNG.normal(3.0, 1.0, (14, 2))


@pytest.mark.parametrize(
    "nodes",
    [
        {"b[k]": "Normal(0, 2)", "a": "Normal(1, 3)", "y[obs_id]": "Normal(a + X @ b, 0.7)"},
        {"b[k]": "Normal(0, 2)", "a": "Normal(1, 3)", "y[obs_id]": "Normal(a + sum(X * b, k), 0.7)"},
        {"b[k]": "Normal(0, 2)", "a": "Normal(1, 3)", "y[obs_id]": "Normal(a + b[0] * u + b[1] * v, tau=1 / 0.49)"},
        {
            "z[k]": "Normal(0, 1)",
            "b[k]": "2 * z",
            "a": "Normal(1, 3)",
            "m[obs_id]": "a + dot(X, b)",
            "y[obs_id]": "Normal(m, 0.7)",
        },
    ],
    ids=["matmul", "sum", "columns", "scaled"],
)
def test_linear_regression_however_it_is_written(nodes):
    data = {"y": Y, "X": X, "u": X[:, 0], "v": X[:, 1]}
    answer = solved(nodes, data, dims={"k": 2}, data={"dims": {"X": ["obs_id", "k"]}})
    design = np.column_stack([np.ones(14), X])
    cov = design @ np.diag([9.0, 4.0, 4.0]) @ design.T + 0.49 * np.eye(14)
    assert answer.log_evidence == pytest.approx(stats.multivariate_normal(np.ones(14), cov).logpdf(Y), abs=1e-8)
    precision = design.T @ design / 0.49 + np.diag([1 / 9, 1 / 4, 1 / 4])
    mean = np.linalg.solve(precision, design.T @ Y / 0.49 + np.array([1 / 9, 0, 0]))
    np.testing.assert_allclose(np.r_[answer.mean()["a"], answer.mean()["b"]], mean, rtol=1e-9)
    np.testing.assert_allclose(answer.sd()["b"], np.sqrt(np.diag(np.linalg.inv(precision)))[1:], rtol=1e-9)


def test_flat_priors_give_least_squares():
    nodes = {"a": "Flat()", "b": "Flat()", "sigma": "HalfFlat()", "y[obs_id]": "Normal(a + b * x, sigma * w)"}
    w = RNG.uniform(0.5, 2.0, 14)
    answer = solved(nodes, {"y": Y, "x": X[:, 0], "w": w})
    design = np.column_stack([np.ones(14), X[:, 0]])
    truth = NormalInverseGamma.flat(2, uniform="sigma").update(design, Y, 1 / w**2)
    np.testing.assert_allclose([answer.mean()["a"], answer.mean()["b"]], truth.mean()[0], rtol=1e-8)
    np.testing.assert_allclose([answer.sd()["a"], answer.sd()["b"]], truth.sd()[0], rtol=1e-7)
    assert np.isnan(answer.log_evidence)


SE = np.array([0.5, 1.0, 0.8, 1.2, 0.4, 0.9])
EFFECT = np.array([1.0, -0.5, 2.2, 0.1, 0.8, 1.9])
CENTRED = {
    "mu": "Normal(0, 2)",
    "tau": "HalfCauchy(1)",
    "theta[obs_id]": "Normal(mu, tau)",
    "y[obs_id]": "Normal(theta, se)",
}
APART = {
    "mu": "Normal(0, 2)",
    "tau": "HalfCauchy(1)",
    "z[obs_id]": "Normal(0, 1)",
    "theta[obs_id]": "mu + tau * z",
    "y[obs_id]": "Normal(theta, se)",
}
SUMMED = {"mu": "Normal(0, 2)", "tau": "HalfCauchy(1)", "y[obs_id]": "Normal(mu, sqrt(se ** 2 + tau ** 2))"}


def hierarchy():
    """Evidence, mean of mu, tau, theta and mean and variance of z by integrating over tau."""

    def given(tau):
        cov = np.diag(SE**2 + tau**2) + 4.0
        weight = np.exp(stats.multivariate_normal(np.zeros(6), cov).logpdf(EFFECT)) * stats.halfcauchy.pdf(tau)
        inverse = np.linalg.inv(cov)
        theta_cov = 4.0 + tau**2 * np.eye(6)
        z = tau * inverse @ EFFECT
        z2 = 1 - tau**2 * np.diag(inverse) + z**2
        return weight * np.r_[1.0, 4.0 * np.ones(6) @ inverse @ EFFECT, tau, theta_cov @ inverse @ EFFECT, z, z2]

    u = np.linspace(-30, 12, 4001)
    total = np.trapezoid([given(np.exp(a)) * np.exp(a) for a in u], u, axis=0)
    return np.log(total[0]), total[1:] / total[0]


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("nodes", [CENTRED, APART, SUMMED], ids=["centred", "non-centred", "summed out"])
def test_hierarchy_however_it_is_written(nodes):
    answer = solved(nodes, {"y": EFFECT, "se": SE})
    evidence, truth = hierarchy()
    mean = answer.mean()
    assert answer.log_evidence == pytest.approx(evidence, abs=1e-6)
    assert (mean["mu"], mean["tau"]) == pytest.approx((truth[0], truth[1]), rel=1e-5)
    if "theta" in mean:
        np.testing.assert_allclose(mean["theta"], truth[2:8], rtol=1e-6)
    if "z" in mean:
        np.testing.assert_allclose(mean["z"], truth[8:14], rtol=1e-6)
        np.testing.assert_allclose(answer.sd()["z"], np.sqrt(truth[14:] - truth[8:14] ** 2), rtol=1e-6)


@pytest.mark.slow(why="large")
def test_two_scales_in_both_forms():
    base = {"mu": "Normal(0, 2)", "tau": "HalfNormal(1)", "sigma": "HalfNormal(2)"}
    centred = base | {"a[g]": "Normal(mu, tau)", "y[obs_id]": "Normal(a[g], sigma)"}
    apart = base | {"z[g]": "Normal(0, 1)", "y[obs_id]": "Normal(mu + tau * z[g], sigma)"}
    first, second = (solved(nodes, {"y": Y, "g": GROUP}) for nodes in (centred, apart))
    assert first.log_evidence == pytest.approx(second.log_evidence, abs=1e-6)
    for name in ("mu", "tau", "sigma"):
        assert first.mean()[name] == pytest.approx(second.mean()[name], rel=1e-6)
    same = (CODES[:, None] == CODES).astype(float)
    u, w = np.linspace(-12, 3, 101), np.linspace(-1.5, 3, 101)
    height = np.array(
        [
            [
                stats.multivariate_normal(np.zeros(14), 4 + np.exp(2 * a) * same + np.exp(2 * b) * np.eye(14)).logpdf(Y)
                for b in w
            ]
            for a in u
        ]
    )
    height += (stats.halfnorm.logpdf(np.exp(u)) + u)[:, None] + stats.halfnorm(scale=2).logpdf(np.exp(w)) + w
    assert first.log_evidence == pytest.approx(logsumexp(height) + np.log((u[1] - u[0]) * (w[1] - w[0])), abs=1e-4)


def test_a_scale_for_each_of_two_groups():
    half = np.where(GROUP == "a", "a", "b")
    nodes = {"mu[h]": "Normal(0, 2)", "sigma[h]": "HalfNormal(3)", "y[obs_id]": "Normal(mu[h], sigma[h])"}
    answer = solved(nodes, {"y": Y, "h": half})
    for i, level in enumerate("ab"):
        alone = solved(
            {"mu": "Normal(0, 2)", "sigma": "HalfNormal(3)", "y[obs_id]": "Normal(mu, sigma)"}, {"y": Y[half == level]}
        )
        assert answer.mean()["mu"][i] == pytest.approx(alone.mean()["mu"], rel=1e-6)
        assert answer.mean()["sigma"][i] == pytest.approx(alone.mean()["sigma"], rel=1e-5)


def test_log_scale_and_log_normal_data():
    data = np.exp(Y / 4)
    nodes = {"mu": "Normal(0, 1)", "s": "Normal(0, 1)", "y[obs_id]": "LogNormal(mu, exp(s))"}
    answer = solved(nodes, {"y": data})
    u = np.linspace(-6, 4, 2001)
    height = [
        stats.multivariate_normal(np.zeros(14), 1 + np.exp(2 * a) * np.eye(14)).logpdf(Y / 4) for a in u
    ] + stats.norm.logpdf(u)
    truth = logsumexp(height) + np.log(u[1] - u[0]) - (Y / 4).sum()
    assert answer.log_evidence == pytest.approx(truth, abs=1e-6)


def test_multivariate_mean_with_known_covariance():
    cov = np.array([[2.0, 0.6], [0.6, 1.0]])
    nodes = {"mu[k]": "MvNormal(0, cov=P)", "y[obs_id, k]": "MvNormal(mu, cov=S)"}
    answer = solved(
        nodes,
        {"y": X, "S": cov, "P": 4 * np.eye(2)},
        dims={"k": 2, "k2": "k"},
        data={"dims": {"y": ["obs_id", "k"], "S": ["k", "k2"], "P": ["k", "k2"]}},
    )
    precision = 14 * np.linalg.inv(cov) + np.eye(2) / 4
    np.testing.assert_allclose(
        answer.mean()["mu"], np.linalg.solve(precision, np.linalg.inv(cov) @ X.sum(axis=0)), rtol=1e-9
    )
    whole = np.kron(np.eye(14), cov) + 4 * np.kron(np.ones((14, 14)), np.eye(2))
    assert answer.log_evidence == pytest.approx(
        stats.multivariate_normal(np.zeros(28), whole).logpdf(X.ravel()), abs=1e-8
    )


def test_autoregression_conditions_on_its_first_rows():
    nodes = {"phi": "Normal(0, 1)", "y[obs_id]": "Normal(phi * lag(y, 1), 0.8)"}
    answer = solved(nodes, {"y": Y})
    precision = (Y[:-1] ** 2).sum() / 0.64 + 1
    assert answer.mean()["phi"] == pytest.approx((Y[:-1] * Y[1:]).sum() / 0.64 / precision)


# ------------------------------------------------------------------------------------- refusals

COUNTS = np.array([0, 3, 1, 4, 1, 0, 2, 2, 5, 0, 1, 1, 3, 2])

REFUSED = [
    ({"b": "Laplace(0, 1)", "y[obs_id]": "Normal(b * x, 1)"}, "'b' is a Laplace"),
    ({"b": "Normal(0, 1)", "y[obs_id]": "StudentT(4, b, 1)"}, "StudentT"),
    ({"a": "Normal(0, 1)", "b": "Normal(0, 1)", "y[obs_id]": "Normal(a * b, 1)"}, "not linear in 'a', 'b'"),
    ({"a": "Normal(0, 1)", "y[obs_id]": "Normal(a ** 2, 1)"}, "not Gaussian"),
    ({"a": "Normal(0, 1)", "y[obs_id]": "Normal(sin(a), 1)"}, "not linear in 'a'"),
    ({"s[obs_id]": "HalfNormal(1)", "y[obs_id]": "Normal(0, s)"}, "14 parameters are not Gaussian"),
    ({"t": "HalfNormal(1)", "s": "HalfNormal(t)", "y[obs_id]": "Normal(0, s)"}, "parameters of its own"),
    ({"s": "HalfNormal(1)", "m": "Normal(2, 1)", "y[obs_id]": "Normal(s * m, s)"}, "prior mean is not zero"),
    ({"s": "HalfNormal(1)", "m": "Normal(0, 1)", "y[obs_id]": "Normal(m + s * m, s)"}, "'m' is multiplied by"),
    ({"s": "HalfNormal(1)", "y[obs_id]": "Normal(s, 1)"}, "not Gaussian"),
    ({"b": "Beta(1, 1)", "n[obs_id]": "Poisson(b)"}, "'n' is a Poisson"),
    ({"lam": "Gamma(2, 1)", "n[obs_id]": "Poisson(lam + 1)"}, "times data"),
    ({"lam": "Gamma(2, 1)", "n[obs_id]": "Poisson(lam * lam)"}, "times data"),
    ({"p": "Beta(1, 1)", "n[obs_id]": "Binomial(9, p ** 2)"}, "more than select"),
    ({"p": "Beta(1, 1)", "n[obs_id]": "Bernoulli(p)"}, "outside the support"),
    ({"k": "Bernoulli(0.5)", "m": "Normal(0, 1)", "y[obs_id]": "Normal(k + m, 1)"}, "discrete"),
    ({"a": "Normal(0, 1)", "extra": "Potential(-a)", "y[obs_id]": "Normal(a, 1)"}, "Potential"),
    ({"a": "Normal(0, 1)", "gone[obs_id]": "Normal(a, 1)"}, "missing"),
    ({"a": "Normal(0, 1)", "y[obs_id]": "Normal(a, x - 100)"}, "not positive"),
    ({"h[obs_id]": "Normal(0.5 * previous(h, 1, start=0), 1)", "y[obs_id]": "Normal(h, 1)"}, "own past"),
]


@pytest.mark.parametrize(("nodes", "said"), REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_what_is_refused_and_why(nodes, said):
    gone = Y.copy()
    gone[3] = np.nan
    found = plan(nodes, {"y": Y, "x": X[:, 0], "n": COUNTS, "gone": gone})
    assert isinstance(found, str)
    assert said in found, found
    assert "\n" not in found


def test_too_many_coefficients():
    found = plan({"b[k]": "Normal(0, 1)", "y[obs_id]": "Normal(sum(b), 1)"}, {"y": Y}, dims={"k": 2_001})
    assert isinstance(found, str)
    assert "2,001 coefficients" in found


# ------------------------------------------------------------------------------------- the whole way


@pytest.mark.slow(why="compiles")
def test_auto_says_that_it_is_exact():
    model = bl.Model(model=bl.Graph(nodes=APART))
    fit = bl.fit(model, {"y": EFFECT, "se": SE}, runs=None, progress=False, seed=3)
    assert fit.method == "exact"
    assert fit.reason == "exact: mu, z Gaussian given tau, integrated by quadrature"
    assert fit.verdict.status == "pass"
    summary = fit.summary()
    _, truth = hierarchy()
    assert summary.loc["mu", "mean"] == pytest.approx(truth[0], rel=1e-5)
    assert set(fit.posterior.data_vars) == {"mu", "tau", "z", "theta"}
    assert fit.data_tree["exact_posterior"].attrs["log_evidence"] == pytest.approx(hierarchy()[0], abs=1e-6)


def test_auto_says_why_it_is_not():
    model = bl.Model(model=bl.Graph(nodes={"b": "Laplace(0, 1)", "y[obs_id]": "StudentT(4, b, 1)"}))
    bound = bind(model, read_dataset(model.data, None, {"y": Y}), model.factors())
    method, reason = auto.choose(graph.compile(model, bound))
    assert method == "nuts"
    assert "not exact: 'y' is a StudentT" in reason


# ------------------------------------------------------------------------------------- the graph's own density

PAIRS = {
    "theta[g]": "Beta(2, 3)",
    "k[obs_id]": "Binomial(n, theta[g])",
    "share[j]": "Dirichlet([1, 2, 3])",
    "which[obs_id]": "Categorical(share)",
    "rate": "Gamma(2, 3)",
    "count[obs_id]": "Poisson(rate * w)",
}
NESTED = {
    "base": "Normal(1, 2)",
    "per_x": "Normal(0, 1)",
    "tau": "HalfNormal(1)",
    "z[g]": "Normal(0, 1)",
    "a[g]": "base + tau * z",
    "s": "Normal(0, 0.5)",
    "y[obs_id]": "Normal(a[g] + per_x * w - mean(w), exp(s) * w)",
}
CENTRED_GROUPS = {
    "mu": "Normal(0, 2)",
    "lam": "Gamma(2, 2)",
    "sigma": "Uniform(0.1, 8)",
    "a[g]": "Normal(mu, tau=lam)",
    "y[obs_id]": "Normal(a[g], sigma)",
}


@pytest.mark.parametrize("nodes", [PAIRS, NESTED, CENTRED_GROUPS], ids=["pairs", "nested", "centred"])
@pytest.mark.slow(why="compiles")
def test_draws_satisfy_steins_identity_for_the_graph(nodes):
    """Under the posterior, E[∇ log p(u)] = 0 and E[(u - m) ∇ log p(u)] = -1: a check by PyMC's own density."""
    from bayeslab.posterior.density import Density
    from bayeslab.posterior.transforms import unconstrained

    rng = np.random.default_rng(4)
    data = {"y": Y, "g": GROUP, "w": rng.uniform(0.5, 2, 14), "n": np.full(14, 5), "k": rng.integers(0, 6, 14)}
    data |= {"which": rng.integers(0, 3, 14), "count": rng.integers(0, 4, 14)}
    model = bl.Model(model=bl.Graph(nodes=nodes), dims={"j": 3})
    bound = bind(model, read_dataset(model.data, None, data), model.factors())
    found = graph.compile(model, bound).exact_plan
    assert isinstance(found, Plan), found
    built = graph.compile(model, bound).graph()
    density = Density.of(built)
    raw = unconstrained(built, found.solve().draws(np.random.default_rng(5), 3000))
    points = np.stack([density.flat({name: v[i] for name, v in raw.items()}) for i in range(3000)])
    slopes = np.array([density(point)[1] for point in points])
    assert np.all(np.abs(slopes.mean(axis=0)) < 4.5 * slopes.std(axis=0) / np.sqrt(3000))
    products = (points - points.mean(axis=0)) * slopes
    assert np.all(np.abs(products.mean(axis=0) + 1) < 4.5 * products.std(axis=0) / np.sqrt(3000))


def test_nodes_without_exact_statistics_are_summarised_by_their_draws():
    model = bl.Model(model=bl.Graph(nodes={"mu": "Normal(0, 3)", "up": "exp(mu)", "y[obs_id]": "Normal(mu, 2)"}))
    fit = bl.fit(model, {"y": Y}, runs=None, progress=False, seed=1)
    after = NormalKnownVariance(0.0, 3.0, 2.0).update(Y)
    table = fit.summary()
    assert list(table.index) == ["mu", "up"]
    assert table.loc["mu", "mean"] == pytest.approx(after.mean())
    truth = stats.lognorm(after.sd(), scale=np.exp(after.mean()))
    assert abs(table.loc["up", "mean"] - truth.mean()) < 4 * truth.std() / np.sqrt(4000)
    assert list(fit.summary("up").index) == ["up"]
    assert "up" not in fit.data_tree["exact_posterior"]
