"""Any distribution of single numbers as a regression's likelihood, against SciPy and formulas of the literature."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special, stats

import bayeslab as bl
from bayeslab import registry
from bayeslab.families.regression.likelihoods import accepted, inverse_link, likelihood
from bayeslab.families.regression.lowering import lower
from bayeslab.fitting import check
from bayeslab.results.predict import pointwise_graph
from tests.refusals import refused

N = 40


# ------------------------------------------------------------------------ distributions that SciPy has not


@dataclass
class WithZeros:
    """A number of ``base`` with probability psi, else 0; the numbers of a hurdle are not 0."""

    base: Any
    psi: Any
    hurdle: bool

    def logpmf(self, y):
        return np.log(self._mass(y, self.base.pmf(y)))

    def logpdf(self, y):
        # Of a continuous base; the density at 0 is the probability of 0.
        return np.where(y == 0, np.log(1 - self.psi), np.log(self.psi) + self.base.logpdf(np.where(y == 0, 1.0, y)))

    def _mass(self, y, base):
        if self.hurdle:
            return np.where(y == 0, 1 - self.psi, self.psi * base / (1 - self.base.pmf(0)))
        return np.where(y == 0, 1 - self.psi, 0.0) + self.psi * base


@dataclass
class LogitNormal:
    """A number in (0, 1) whose logit is normal (Atchison and Shen 1980, Biometrika 67)."""

    mu: Any
    sigma: Any

    def logpdf(self, y):
        return stats.norm.logpdf(special.logit(y), self.mu, self.sigma) - np.log(y) - np.log1p(-y)

    def cdf(self, y):
        return stats.norm.cdf(special.logit(y), self.mu, self.sigma)


@dataclass
class DiscreteWeibull:
    """P(Y ≥ y) = q^(y^beta) (Nakagawa and Osaki 1975, IEEE Transactions on Reliability 24)."""

    q: Any
    beta: Any

    def logpmf(self, y):
        return np.log(self.q ** (y**self.beta) - self.q ** ((y + 1.0) ** self.beta))


@dataclass
class HalfT:
    """The absolute value of a Student t number."""

    nu: Any
    scale: Any

    def logpdf(self, y):
        return np.log(2) + stats.t.logpdf(y, self.nu, 0, self.scale)

    def cdf(self, y):
        return 2 * stats.t.cdf(y, self.nu, 0, self.scale) - 1


def negative_binomial(mu, alpha):
    return stats.nbinom(alpha, alpha / (alpha + mu))


def inverse_gamma(mu, sigma):
    alpha = 2 + (mu / sigma) ** 2
    return stats.invgamma(alpha, scale=mu * (alpha - 1))


def asymmetric_laplace(mu, rate, q):
    return stats.laplace_asymmetric(np.sqrt(q / (1 - q)), mu, 1 / rate)


def truncated(mu, sigma):
    return stats.truncnorm(-mu / sigma, np.inf, mu, sigma)


# What the linear predictor is, m, and the other parameters, p, to the distribution; n trials.
SCIPY: dict[str, Callable[[Any, dict[str, Any], Any], Any]] = {
    "Normal": lambda m, p, n: stats.norm(m, p["sigma"]),
    "StudentT": lambda m, p, n: stats.t(p["nu"], m, p["sigma"]),
    "Laplace": lambda m, p, n: stats.laplace(m, p["scale"]),
    "Logistic": lambda m, p, n: stats.logistic(m, p["s"]),
    "Cauchy": lambda m, p, n: stats.cauchy(m, p["beta"]),
    "Gumbel": lambda m, p, n: stats.gumbel_r(m, p["beta"]),
    "Moyal": lambda m, p, n: stats.moyal(m, p["sigma"]),
    "SkewNormal": lambda m, p, n: stats.skewnorm(p["alpha"], m, p["sigma"]),
    "SkewStudentT": lambda m, p, n: stats.jf_skew_t(p["shape_a"], p["shape_b"], m, p["sigma"]),
    "ExGaussian": lambda m, p, n: stats.exponnorm(p["nu"] / p["sigma"], m, p["sigma"]),
    "AsymmetricLaplace": lambda m, p, n: asymmetric_laplace(m, p["rate"], p["q"]),
    "AsymmetricLaplace(q=0.9)": lambda m, p, n: asymmetric_laplace(m, p["rate"], 0.9),
    "VonMises": lambda m, p, n: stats.vonmises(p["kappa"], m),
    "TruncatedNormal": lambda m, p, n: stats.norm(m, p["sigma"]),
    "TruncatedNormal(lower=0)": lambda m, p, n: truncated(m, p["sigma"]),
    "Exponential": lambda m, p, n: stats.expon(scale=m),
    "Gamma": lambda m, p, n: stats.gamma(p["alpha"], scale=m / p["alpha"]),
    "InverseGamma": lambda m, p, n: inverse_gamma(m, p["sigma"]),
    "Weibull": lambda m, p, n: stats.weibull_min(p["alpha"], scale=m),
    "LogNormal": lambda m, p, n: stats.lognorm(p["sigma"], scale=np.exp(m)),
    "LogitNormal": lambda m, p, n: LogitNormal(m, p["sigma"]),
    "Wald": lambda m, p, n: stats.invgauss(m / p["lam"], scale=p["lam"]),
    "HalfNormal": lambda m, p, n: stats.halfnorm(scale=m),
    "HalfCauchy": lambda m, p, n: stats.halfcauchy(scale=m),
    "HalfStudentT": lambda m, p, n: HalfT(p["nu"], m),
    "ChiSquared": lambda m, p, n: stats.chi2(m),
    "Pareto(m=0.05)": lambda m, p, n: stats.pareto(m, scale=0.05),
    "Rice": lambda m, p, n: stats.rice(m / p["sigma"], scale=p["sigma"]),
    "Beta": lambda m, p, n: stats.beta(m * p["nu"], (1 - m) * p["nu"]),
    "Bernoulli": lambda m, p, n: stats.bernoulli(m),
    "Binomial": lambda m, p, n: stats.binom(n, m),
    "BetaBinomial": lambda m, p, n: stats.betabinom(n, m * p["phi"], (1 - m) * p["phi"]),
    "Poisson": lambda m, p, n: stats.poisson(m),
    "NegativeBinomial": lambda m, p, n: negative_binomial(m, p["alpha"]),
    "Geometric": lambda m, p, n: stats.geom(m),
    "DiscreteWeibull": lambda m, p, n: DiscreteWeibull(m, p["beta"]),
    "ZeroInflatedPoisson": lambda m, p, n: WithZeros(stats.poisson(m), p["psi"], False),
    "ZeroInflatedNegativeBinomial": lambda m, p, n: WithZeros(negative_binomial(m, p["alpha"]), p["psi"], False),
    "ZeroInflatedBinomial": lambda m, p, n: WithZeros(stats.binom(n, m), p["psi"], False),
    "HurdlePoisson": lambda m, p, n: WithZeros(stats.poisson(m), p["psi"], True),
    "HurdleNegativeBinomial": lambda m, p, n: WithZeros(negative_binomial(m, p["alpha"]), p["psi"], True),
    "HurdleGamma": lambda m, p, n: WithZeros(stats.gamma(p["alpha"], scale=m / p["alpha"]), p["psi"], True),
    "HurdleLogNormal": lambda m, p, n: WithZeros(stats.lognorm(p["sigma"], scale=np.exp(m)), p["psi"], True),
}


# Of levels: tests/families/test_regression.py.
OF_LEVELS = {"Categorical", "OrderedLogistic", "OrderedProbit"}
# Default priors, given the sd of the response (of its logarithm or logit).
UNIT = lambda s: stats.expon(scale=s)  # noqa: E731
PRIORS = {
    "sigma": UNIT, "scale": UNIT, "s": UNIT, "beta": UNIT,
    "rate": lambda s: stats.invgamma(1, scale=1 / s),
    "q": lambda s: stats.uniform(),
    "psi": lambda s: stats.uniform(),
    "kappa": lambda s: stats.gamma(2, scale=100),
    "lam": lambda s: stats.invgamma(0.4, scale=0.3 * s),
    "shape_a": lambda s: stats.gamma(2, scale=10),
    "shape_b": lambda s: stats.gamma(2, scale=10),
    "phi": lambda s: stats.invgamma(0.4, scale=0.3),
    "alpha": lambda s: stats.invgamma(0.4, scale=0.3),
    "nu": lambda s: stats.gamma(2, scale=10),
}  # fmt: skip
OTHER_PRIORS = {
    ("ExGaussian", "nu"): UNIT,
    ("SkewNormal", "alpha"): lambda s: stats.norm(0, 4),
    ("Beta", "nu"): lambda s: stats.invgamma(0.4, scale=0.3),
    ("DiscreteWeibull", "beta"): lambda s: stats.invgamma(0.4, scale=0.3),
}
# Where the linear predictor is in the unit of the response, or of its logarithm or logit.
LOCATED = {
    "Normal", "StudentT", "Laplace", "Logistic", "Cauchy", "Gumbel", "Moyal", "SkewNormal", "SkewStudentT",
    "ExGaussian", "AsymmetricLaplace", "TruncatedNormal", "LogNormal", "LogitNormal", "HurdleLogNormal",
}  # fmt: skip


def table(text: str, seed: int = 5) -> pd.DataFrame:
    """A response that the likelihood can have, and a predictor."""
    name, rng = text.partition("(")[0], np.random.default_rng(seed)
    x, n = rng.normal(3, 2, N), rng.integers(3, 9, N)
    values = {
        "VonMises": rng.vonmises(0.4, 2, N),
        "Beta": rng.beta(2, 3, N),
        "LogitNormal": rng.beta(2, 3, N),
        "Bernoulli": rng.integers(0, 2, N),
        "Binomial": rng.binomial(n, 0.4),
        "BetaBinomial": rng.binomial(n, 0.4),
        "ZeroInflatedBinomial": rng.binomial(n, 0.4) * rng.integers(0, 2, N),
        "Geometric": rng.geometric(0.4, N),
        "HurdleGamma": rng.gamma(2, 1, N) * rng.integers(0, 2, N),
        "HurdleLogNormal": rng.gamma(2, 1, N) * rng.integers(0, 2, N),
    }
    if name in values:
        y = values[name]
    elif likelihood(text).discrete:
        y = rng.poisson(2, N)
    else:
        y = rng.normal(20, 4, N) if name in LOCATED and text[-1] != ")" and name != "LogNormal" else rng.gamma(2, 1, N)
        y = y + 0.06
    return pd.DataFrame({"x": x, "n": n, "y": y})


def model(text: str, right: str = "x", **more: object) -> bl.Model:
    left = "p(y, n)" if likelihood(text).counts_trials else "y"
    return bl.Model(model=bl.Regression(formula=f"{left} ~ {right}", likelihood=text, **more))


def at_random(made: bl.Model, data: pd.DataFrame) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The terms of the graph's log density at a random point, by node, and the point on the natural scale."""
    import pytensor

    graph = pointwise_graph(registry.load("families", "regression").compile(made, check(made, data)))
    rng = np.random.default_rng(7)
    point = {name: value + rng.uniform(-0.2, 0.2, np.shape(value)) for name, value in graph.initial_point().items()}
    variables = graph.basic_RVs
    terms = graph.logp(vars=variables, sum=False, jacobian=False)
    wanted = graph.unobserved_value_vars
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = [*terms, *wanted]
        function = pytensor.function(graph.value_vars, outputs, mode="FAST_COMPILE", on_unused_input="ignore")
        out = function(**point)
    by_name = {rv.name: value for rv, value in zip(variables, out, strict=False)}
    return by_name, {v.name: np.asarray(value) for v, value in zip(wanted, out[len(variables) :], strict=True)}


def test_every_distribution_that_is_accepted_is_tested():
    assert {text.partition("(")[0] for text in SCIPY} | OF_LEVELS == set(accepted())


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("text", SCIPY)
def test_graph_arrays_and_scipy_have_the_same_density(text):
    """The rows on arrays, in the graph and by SciPy; the graph's priors are the documented ones."""
    data, made = table(text), model(text)
    terms, values = at_random(made, data)
    name, family = text.partition("(")[0], registry.load("families", "regression")
    eta = values["Intercept"] + data["x"].to_numpy() * values["b"][0]
    truth = SCIPY[text](inverse_link(likelihood(text).links[0], eta), values, data["n"].to_numpy())
    rows = truth.logpmf(data["y"]) if likelihood(text).discrete else truth.logpdf(data["y"].to_numpy())
    # Of the skewed t PyMC keeps 7 digits of the constant.
    digits = 1e-6 if name == "SkewStudentT" else 1e-8
    np.testing.assert_allclose(terms["y"], rows, rtol=digits, atol=digits)
    draws = {key: value[None] for key, value in values.items()}
    ((_, ours),) = family.compile(made, check(made, data)).log_likelihoods(draws).values()
    np.testing.assert_allclose(ours[0], rows, rtol=1e-8, atol=1e-8)
    y = data["y"].to_numpy(float)
    working = np.log(y[y > 0]) if name in ("LogNormal", "HurdleLogNormal") else y
    working = special.logit(y) if name == "LogitNormal" else working
    s = working.std(ddof=1)
    for word in likelihood(text).auxiliary:
        if word not in likelihood(text).fixed:
            law = OTHER_PRIORS.get((name, word), PRIORS[word])(s)
            np.testing.assert_allclose(terms[word], law.logpdf(values[word]), rtol=1e-4, atol=1e-4)
    slope = stats.norm(0, 2.5 * (s if name in LOCATED else 1) / data["x"].std())
    np.testing.assert_allclose(terms["b"], slope.logpdf(values["b"]), rtol=1e-4)


# Values of the further parameters at which draws are compared.
AT = {
    "sigma": 0.7, "scale": 0.7, "s": 0.7, "beta": 1.3, "rate": 1.4, "q": 0.3, "psi": 0.6, "kappa": 2.0, "lam": 3.0,
    "shape_a": 3.0, "shape_b": 5.0, "phi": 4.0, "alpha": 2.5, "nu": 6.0,
}  # fmt: skip


@pytest.mark.parametrize("text", SCIPY)
def test_draws_are_of_the_distribution(text):
    """4,000 draws: Kolmogorov and Smirnov's test, or a chi-square of whole numbers, at a level of 1e-4."""
    chosen, rng = likelihood(text), np.random.default_rng(11)
    parameters = {word: np.asarray(AT[word]) for word in chosen.auxiliary if word not in chosen.fixed}
    driven = np.full((4000, 1), float(inverse_link(chosen.links[0], np.asarray(0.3))))
    drawn = chosen.draw(rng, driven, parameters, {"trials": np.array([7])})[:, 0]
    truth = SCIPY[text](driven[0, 0], parameters, 7)
    assert not chosen.impossible(drawn.astype(float), np.full(4000, 7)).any()
    if chosen.discrete:
        assert chi_square(drawn, truth) > 1e-4
        return
    if isinstance(truth, WithZeros):
        assert stats.binomtest(int((drawn > 0).sum()), 4000, truth.psi).pvalue > 1e-4
        drawn, truth = drawn[drawn > 0], truth.base
    assert stats.kstest(drawn, truth.cdf).pvalue > 1e-4


def chi_square(drawn: np.ndarray, truth: Any) -> float:
    """The p-value of counts of whole numbers; rare ones are taken together."""
    values = np.arange(int(drawn.max()) + 1)
    with np.errstate(divide="ignore"):
        expected = len(drawn) * np.exp(truth.logpmf(values))
    counts = np.bincount(drawn.astype(int), minlength=len(values))
    often = expected >= 5
    expected = np.append(expected[often], len(drawn) - expected[often].sum())
    counts = np.append(counts[often], len(drawn) - counts[often].sum())
    keep = expected > 1e-9
    return float(stats.chisquare(counts[keep], expected[keep], sum_check=False).pvalue)


IMPOSSIBLE = {
    "Normal": np.inf, "Weibull": 0.0, "LogNormal": 0.0, "Gamma": -1.0, "Beta": 1.0, "VonMises": 4.0, "Geometric": 0,
    "Pareto(m=0.05)": 0.01, "TruncatedNormal(lower=0)": -0.1, "Poisson": 1.5, "Bernoulli": 2, "BetaBinomial": 99,
    "HurdleGamma": -1.0, "ZeroInflatedPoisson": -1, "HalfNormal": -0.1, "Wald": 0.0, "DiscreteWeibull": 0.5,
}  # fmt: skip


@pytest.mark.parametrize(("text", "value"), IMPOSSIBLE.items())
def test_a_response_outside_the_support_is_refused_with_its_row(text, value):
    data = table(text).astype({"y": float})
    data.loc[2, "y"] = value
    with refused("data.impossible-value", "row 3"):
        lower(model(text), check(model(text), data))


WRONG = [
    ("weibull", "model.unknown-word", "'Weibull'"),
    ("Weibul", "model.unknown-word", "'Weibull'"),
    ("guassian", "model.unknown-word", "'gaussian'"),
    ("Uniform", "model.unsupported", "Uniform"),
    ("MvNormal", "model.unsupported", "MvNormal"),
    ("Pareto", "model.incomplete", "'m'"),
    ("AsymmetricLaplace(q=2)", "model.out-of-range", "q"),
    ("AsymmetricLaplace(q=x)", "model.not-a-number", "'x'"),
    ("AsymmetricLaplace(mu=1)", "model.unknown-parameter", "'mu'"),
    ("AsymmetricLaplace(r=1)", "model.unknown-parameter", "'r'"),
    ("Weibull(", "model.unknown-word", r"Weibull"),
]


@pytest.mark.parametrize(("text", "code", "match"), WRONG)
def test_a_likelihood_that_cannot_be_is_refused(text, code, match):
    spec = {"family": "regression", "formula": "y ~ x", "likelihood": text}
    with refused(code, match, where="model.likelihood"):
        bl.Model(model=spec)


@pytest.mark.parametrize(
    ("text", "more", "code"),
    [
        ("Weibull", {"link": "identity"}, "model.unknown-word"),
        ("SkewNormal", {"censored": "status"}, "model.unsupported"),
        ("AsymmetricLaplace(q=0.9)", {"priors": {"q": "Beta(2, 2)"}}, "model.conflict"),
        ("AsymmetricLaplace", {"priors": {"q": 1.5}}, "model.out-of-range"),
        ("Weibull", {"priors": {"beta": 1}}, "model.unknown-parameter"),
    ],
)
def test_what_does_not_go_with_a_likelihood_is_refused(text, more, code):
    data = table(text).assign(status="none")
    with refused(code):
        check(model(text, **more), data)


def test_a_parameter_that_may_be_negative_can_be_fixed_there():
    made = model("SkewNormal", priors={"alpha": -2})
    lowered = lower(made, check(made, table("SkewNormal")))
    assert float(lowered.fixed["alpha"]) == -2


def test_default_priors_follow_the_unit_of_the_response():
    family = registry.load("families", "regression")
    for text in ("Laplace", "ExGaussian", "AsymmetricLaplace", "Wald"):
        data = table(text)
        one, two = (
            family.compile(model(text), check(model(text), d)).priors() for d in (data, data.assign(y=16 * data["y"]))
        )
        s = data["y"].std()
        for word, prior in likelihood(text).auxiliary.items():
            expected = [prior.format(rate=f"{1 / (k * s):.6g}", sd=f"{k * s:.6g}") for k in (1, 16)]
            assert [one[word], two[word]] == expected


def test_words_and_distributions_are_one_mechanism():
    """The word gamma and the distribution Gamma differ in the name of the shape alone."""
    data = table("Gamma")
    word, distribution = (lower(m, check(m, data)) for m in (model("gamma"), model("Gamma")))
    renamed = {key.replace("shape", "alpha"): text.replace("shape", "alpha") for key, text in word.nodes.items()}
    assert renamed == distribution.nodes


def test_a_normal_likelihood_is_exact_under_both_names():
    data = table("Normal")
    fits = [bl.fit(model(text), data, runs=None, seed=1, progress=False) for text in ("gaussian", "Normal")]
    assert [fit.method for fit in fits] == ["exact", "exact"]
    pd.testing.assert_frame_equal(fits[0].summary(), fits[1].summary())


def test_a_number_in_the_likelihood_is_one_under_priors():
    data = table("Normal")
    fits = [
        bl.fit(made, data, runs=None, seed=1, progress=False)
        for made in (model("gaussian", priors={"sigma": 2}), model("Normal(sigma=2)"))
    ]
    assert [fit.method for fit in fits] == ["exact", "exact"]
    pd.testing.assert_frame_equal(fits[0].summary(), fits[1].summary())
    student = lower(model("StudentT(nu=4)"), check(model("StudentT(nu=4)"), data))
    assert student.nodes["nu"] == "4.0"
    assert student.nodes["y[obs_id]"].startswith("StudentT(nu, ")


def test_the_schema_knows_the_distributions():
    schema = bl.Regression.model_json_schema()["properties"]["likelihood"]["anyOf"]
    assert {"gaussian", "Weibull", "AsymmetricLaplace"} <= set(schema[0]["enum"])
    assert "Pareto" in schema[1]["pattern"]


def test_zeros_of_a_continuous_hurdle_have_probabilities_and_the_rest_densities():
    family, data = registry.load("families", "regression"), table("HurdleGamma")
    events = family.compile(model("HurdleGamma"), check(model("HurdleGamma"), data)).event_kinds()["y"]
    assert len(set(events[data["y"] == 0])) == 1
    assert len(set(events[data["y"] > 0])) == 1
    assert len(set(events)) == 2


@pytest.mark.slow(why="compiles")
def test_censored_weibull_times_have_their_survival_function():
    data = table("Weibull").assign(status=["none", "right", "left", "none"] * (N // 4))
    terms, values = at_random(model("Weibull", censored="status"), data)
    scale = np.exp(values["Intercept"] + data["x"].to_numpy() * values["b"][0])
    law = stats.weibull_min(values["alpha"], scale=scale)
    y, status = data["y"].to_numpy(), data["status"].to_numpy()
    truth = np.select([status == "right", status == "left"], [law.logsf(y), law.logcdf(y)], law.logpdf(y))
    np.testing.assert_allclose(terms["y"], truth, rtol=1e-8)


CENSORED = ("student_t", "Laplace", "Gumbel", "Moyal", "Wald", "ExGaussian", "SkewStudentT", "Logistic", "Weibull")


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize(
    "word", [*CENSORED[:1], *(pytest.param(w, marks=pytest.mark.slow(why="compiles")) for w in CENSORED[1:])]
)
def test_slopes_of_censored_responses_are_differences(word):
    """Rows that are not censored have infinite bounds, whose tails have no slope."""
    data = table(word).assign(status=["none", "right", "left", "none"] * (N // 4))
    graph = bl.to_pymc(model(word, censored="status"), data)
    value, slope = (f(mode="FAST_COMPILE") for f in (graph.compile_logp, graph.compile_dlogp))
    point = graph.initial_point()
    flat = np.concatenate([np.ravel(point[v.name]) for v in graph.continuous_value_vars])

    def at(x):
        out, start = {}, 0
        for variable in graph.continuous_value_vars:
            size = np.size(point[variable.name])
            out[variable.name] = x[start : start + size].reshape(np.shape(point[variable.name]))
            start += size
        return out

    steps = 1e-5 * np.eye(len(flat))
    differences = [(value(at(flat + step)) - value(at(flat - step))) / 2e-5 for step in steps]
    np.testing.assert_allclose(slope(at(flat)), differences, rtol=1e-4, atol=1e-4)


@pytest.mark.slow(why="statistical")
def test_rows_without_a_censoring_status_are_dropped():
    data = table("gaussian").assign(status=["none", "right", "left", None] * (N // 4))
    fit = bl.fit(model("gaussian", censored="status"), data, "map", runs=None, progress=False)
    without = bl.fit(model("gaussian", censored="status"), data.dropna(), "map", runs=None, progress=False)
    np.testing.assert_allclose(fit.summary().iloc[:, 0], without.summary().iloc[:, 0], rtol=1e-3)
    assert any(f"{N // 4} of {N} rows" in f.message for f in fit.verdict.findings)


@pytest.mark.slow(why="statistical")
def test_a_log_normal_response_is_a_normal_logarithm():
    """NUTS on y against the closed form on log(y), whose default priors are the same."""
    data = table("LogNormal")
    exact = bl.fit(model("gaussian", "x"), data.assign(y=np.log(data["y"])), runs=None, seed=1, progress=False)
    sampled = bl.fit(model("LogNormal"), data, "nuts", runs=None, seed=1, progress=False, chains=2)
    truth, summary = exact.summary(), sampled.summary()
    assert exact.method == "exact"
    for name in ("Intercept", "b[x]", "sigma"):
        assert abs(summary.loc[name, "mean"] - truth.loc[name, "mean"]) < 4 * summary.loc[name, "mcse_mean"]
        assert abs(summary.loc[name, "sd"] / truth.loc[name, "sd"] - 1) < 0.1
    rows = sampled.predict(data.head(3), kind="draws", seed=2)["y"].to_numpy().reshape(-1, 3)
    inner = {name: sampled.posterior[name].to_numpy().reshape(-1) for name in ("Intercept", "sigma")}
    centre = inner["Intercept"][:, None] + sampled.posterior["b"].to_numpy().reshape(-1, 1) * data["x"].to_numpy()[:3]
    expected = np.exp(centre + inner["sigma"][:, None] ** 2 / 2)  # the mean of a log-normal number
    error = np.std(rows - expected, axis=0, ddof=1) / np.sqrt(len(rows))
    assert np.all(np.abs((rows - expected).mean(axis=0)) < 4 * error)


@pytest.mark.slow(why="compiles")
def test_an_asymmetric_laplace_mode_is_the_regression_quantile():
    """Flat priors and a fixed rate: the mode is that of the linear programme of Koenker and Bassett (1978)."""
    rng = np.random.default_rng(4)
    x = rng.uniform(0, 4, 120)
    data = pd.DataFrame({"x": x, "y": 1 + 2 * x + (0.5 + x) * rng.normal(size=120)})
    priors = {"Intercept": "Flat()", "b": "Flat()", "rate": 40}
    spec = bl.Regression(formula="y ~ x", likelihood="AsymmetricLaplace(q=0.9)", priors=priors)
    fit = bl.fit(bl.Model(model=spec), data, "map", runs=None, seed=1, progress=False)
    ours = np.array([float(fit.posterior["Intercept"].to_numpy().ravel()[0]), *fit.posterior["b"].to_numpy().ravel()])
    design = np.column_stack([np.ones(120), x])
    cost = np.concatenate([np.zeros(4), np.full(120, 0.9), np.full(120, 0.1)])
    equal = np.hstack([design, -design, np.eye(120), -np.eye(120)])
    found = optimize.linprog(cost, A_eq=equal, b_eq=data["y"], method="highs")
    loss = lambda beta: np.sum((data["y"] - design @ beta) * (0.9 - (data["y"] < design @ beta)))  # noqa: E731
    assert loss(ours) == pytest.approx(found.fun, rel=1e-3)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("text", ["Weibull", "ExGaussian", "BetaBinomial", "HurdleGamma", "VonMises", "Rice"])
def test_simulated_responses_are_possible(text):
    """Draws of prior and response: each is one that the likelihood allows."""
    data = table(text)
    priors = {"b": "Normal(0, 0.1)", "Intercept": "Normal(0.5, 0.1)"}
    priors |= {word: AT[word] for word in likelihood(text).auxiliary}
    drawn = bl.simulate(model(text, priors=priors), data, draws=20, seed=1)["prior_predictive"]["y"].to_numpy()
    trials = np.broadcast_to(data["n"].to_numpy(), drawn.shape)
    assert not likelihood(text).impossible(drawn.astype(float), trials).any()


@pytest.mark.parametrize(
    ("text", "rows"),
    [("poisson", [-1e3, 100.0]), ("HurdleNegativeBinomial", [-1e3, 100.0]), ("Geometric", [0.0, -1e3])],
)
def test_a_new_row_too_far_off_to_draw_from_is_named(text, rows):
    y = np.array([1, 2, 1, 3, 4, 2, 5, 3.0])
    table = pd.DataFrame({"y": y, "x": np.linspace(-1, 1, 8)})
    fit = bl.fit(model(text, priors={"x": "Normal(1, 0.01)"}), table, "map", seed=1, progress=False, runs=None)
    with refused(
        "data.impossible-value", r"^no response can be drawn in row 2: .*; look for a predictor in another unit"
    ):
        fit.predict(pd.DataFrame({"x": rows}))
