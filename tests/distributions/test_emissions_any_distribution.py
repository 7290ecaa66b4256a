"""Columns of any distribution: the M-step is a maximum, with known parameters, priors and missing cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, stats

from bayeslab.distributions import Law, maths
from bayeslab.distributions.emissions import AnyDistribution
from tests.refusals import refused

# What the draws come from; parameters that are never learned are given to the emission.
TRUTHS = {
    "AsymmetricLaplace": {"kappa": 1.5, "mu": 2, "b": 0.7},
    "Beta": {"alpha": 2, "beta": 5},
    "BetaBinomial": {"alpha": 2, "beta": 3, "n": 10},
    "Cauchy": {"alpha": 3, "beta": 2},
    "ChiSquared": {"nu": 4},
    "DiscreteWeibull": {"q": 0.7, "beta": 1.3},
    "ExGaussian": {"mu": 5, "sigma": 1, "nu": 2},
    "Gamma": {"alpha": 3, "beta": 0.5},
    "Geometric": {"p": 0.3},
    "Gumbel": {"mu": 10, "beta": 3},
    "HalfStudentT": {"nu": 4, "sigma": 3},
    "HurdleGamma": {"psi": 0.7, "alpha": 3, "beta": 0.5},
    "HurdleLogNormal": {"psi": 0.6, "mu": 1, "sigma": 0.5},
    "HurdleNegativeBinomial": {"psi": 0.7, "mu": 5, "alpha": 2},
    "InverseGamma": {"alpha": 3, "beta": 4},
    "Kumaraswamy": {"a": 2, "b": 3},
    "Laplace": {"mu": 2, "b": 3},
    "LogNormal": {"mu": 3, "sigma": 0.4},
    "Logistic": {"mu": -5, "s": 2},
    "LogitNormal": {"mu": 1, "sigma": 0.7},
    "Moyal": {"mu": 3, "sigma": 2},
    "NegativeBinomial": {"mu": 8, "alpha": 2},
    "Normal": {"mu": 1e4, "sigma": 2},
    "Pareto": {"alpha": 3, "m": 2},
    "Rice": {"nu": 4, "sigma": 1},
    "SkewNormal": {"alpha": 3, "mu": 1, "sigma": 2},
    "SkewStudentT": {"a": 4, "b": 3, "mu": 2, "sigma": 1},
    "StudentT": {"nu": 5, "mu": 3, "sigma": 2},
    "TruncatedNormal": {"mu": 1, "sigma": 2, "lower": 0.0},
    "VonMises": {"mu": 3.0, "kappa": 2},
    "Wald": {"mu": 3, "lam": 5},
    "Weibull": {"alpha": 2, "beta": 4},
    "ZeroInflatedBinomial": {"psi": 0.7, "n": 8, "p": 0.4},
    "ZeroInflatedNegativeBinomial": {"psi": 0.6, "mu": 9, "alpha": 3},
    "ZeroInflatedPoisson": {"psi": 0.7, "mu": 4},
}
KNOWN = {"n", "m", "lower"}


def made(name, n=600, seed=1):
    """An emission, a column of its distribution and the truth."""
    truth = TRUTHS[name]
    emission = AnyDistribution(name, 1, {w: np.asarray(v, float) for w, v in truth.items() if w in KNOWN})
    theta = {w: np.array([[float(truth.get(w, np.max(emission.known.get(w, 0.0))))]]) for w in emission.parameters}
    return emission, emission.sample(np.random.default_rng(seed), theta, np.zeros(n, int)), theta


QUICK = {"BetaBinomial", "ExGaussian", "Gamma", "Gumbel", "HurdleGamma", "NegativeBinomial", "Normal", "Pareto", "StudentT",
         "TruncatedNormal", "VonMises", "ZeroInflatedPoisson"}  # fmt: skip


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow(why="large")) for name in sorted(TRUTHS)],
)
def test_the_m_step_is_a_maximum_near_the_truth(name):
    emission, rows, truth = made(name)
    emission.check(rows)
    rng = np.random.default_rng(2)
    # Weights of two states that share the rows unequally.
    share = rng.uniform(0.2, 0.8, (len(rows), 1))
    statistics = emission.statistics(rows, np.hstack([share, 1 - share]))
    best = emission.maximise(statistics)
    height = emission.expected_log_likelihood(statistics, best)
    two = {w: np.repeat(v, 2, axis=0) for w, v in truth.items()}
    # Twice the gain is about chi-squared, with weights of a half a row.
    gain = height - emission.expected_log_likelihood(statistics, two)
    assert 0 <= gain < stats.chi2.isf(1e-6, 2 * len(emission.learned))
    for word in emission.learned:
        for k in range(2):
            for size in (0.99, 0.999, 1.001, 1.01):
                moved = {w: v.copy() for w, v in best.items()}
                moved[word][k, 0] *= size
                assert emission.expected_log_likelihood(statistics, moved) <= height + 1e-7


@pytest.mark.parametrize(
    ("name", "fitted"),
    [
        ("Gamma", lambda x: dict(zip(("alpha", "beta"), (lambda a, _, s: (a, 1 / s))(*stats.gamma.fit(x, floc=0)), strict=True))),
        ("Weibull", lambda x: dict(zip(("alpha", "beta"), (lambda c, _, s: (c, s))(*stats.weibull_min.fit(x, floc=0)), strict=True))),
        ("LogNormal", lambda x: {"mu": np.log(x).mean(), "sigma": np.log(x).std()}),
        ("Laplace", lambda x: {"mu": np.median(x), "b": np.abs(x - np.median(x)).mean()}),
        ("Beta", lambda x: dict(zip(("alpha", "beta"), stats.beta.fit(x, floc=0, fscale=1)[:2], strict=True))),
    ],
)  # fmt: skip
def test_maximum_likelihood_is_scipys(name, fitted):
    emission, rows, _ = made(name)
    best = emission.maximise(emission.statistics(rows, np.ones((len(rows), 1))))
    for word, value in fitted(rows[:, 0]).items():
        assert best[word][0, 0] == pytest.approx(value, rel=3e-3)


def test_a_start_never_ends_lower():
    emission, rows, truth = made("SkewNormal")
    statistics = emission.statistics(rows, np.ones((len(rows), 1)))
    start = {w: v * 1.5 for w, v in truth.items()}
    end = emission.maximise(statistics, start)
    assert emission.expected_log_likelihood(statistics, end) > emission.expected_log_likelihood(statistics, start)
    assert emission.maximise(statistics, end)["alpha"] == pytest.approx(end["alpha"], rel=1e-4)


@pytest.mark.parametrize("name", ["Gamma", "NegativeBinomial", "VonMises"])
def test_missing_cells_say_nothing(name):
    emission, rows, truth = made(name, 60)
    gaps = rows.copy()
    gaps[::3] = np.nan
    ones = np.ones((60, 1))
    assert np.all(emission.log_density(truth, gaps)[::3] == 0)
    with_gaps = emission.maximise(emission.statistics(gaps, ones))
    without = emission.maximise(emission.statistics(rows[~np.isnan(gaps[:, 0])], ones[:40]))
    for word in emission.learned:
        assert with_gaps[word] == pytest.approx(without[word], rel=1e-6)


def test_known_parameters_stay():
    emission = AnyDistribution("Gamma", 1, {"alpha": np.array([[1.0], [3.0]])})
    rows = np.random.default_rng(1).gamma(3.0, 1 / 2.0, (50, 1))
    best = emission.maximise(emission.statistics(rows, np.ones((50, 2))))
    assert best["alpha"][:, 0].tolist() == [1.0, 3.0]
    assert best["beta"][:, 0] == pytest.approx(best["alpha"][:, 0] / rows.mean(), rel=1e-6)  # the closed form


def test_a_prior_moves_the_mode_where_it_is_by_hand():
    # One count of 7, Gamma(3, 2) on its mean: the mode of Gamma(10, 3).
    prior = {"mu": Law("Gamma", {"alpha": np.array(3.0), "beta": np.array(2.0)})}
    emission = AnyDistribution("Poisson", 1, prior=prior)
    statistics = emission.statistics(np.array([[7.0]]), np.ones((1, 1)))
    assert emission.maximise(statistics)["mu"][0, 0] == pytest.approx(3.0, rel=1e-6)
    at = {"mu": np.array([[3.0]])}
    assert emission.log_prior(at) == pytest.approx(stats.gamma.logpdf(3.0, 3, scale=0.5))


def test_a_prior_with_ends_keeps_its_parameter_inside():
    prior = {"mu": Law("Uniform", {"lower": np.array(0.0), "upper": np.array(2.0)})}
    emission = AnyDistribution("Poisson", 1, prior=prior)
    best = emission.maximise(emission.statistics(np.full((20, 1), 7.0), np.ones((20, 1))))
    assert best["mu"][0, 0] == pytest.approx(2.0, rel=1e-6)
    assert best["mu"][0, 0] <= 2.0


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("name", ["Normal", "Gumbel", "StudentT", "Logistic"])
@pytest.mark.parametrize(("shift", "size"), [(1e6, 1.0), (0.0, 1e-9), (-3e3, 1e3)])
def test_weak_priors_follow_the_units(name, shift, size):
    emission, rows, _ = made(name, 200)
    rows = rows - rows.mean()
    before, after = emission.with_prior(rows, 2), emission.with_prior(shift + size * rows, 2)
    (mu, unit), (mu2, unit2) = before.typical["mu"], after.typical["mu"]
    assert mu2 == pytest.approx(shift + size * mu, rel=1e-6, abs=1e-3 * size)
    assert unit2 == pytest.approx(size * unit, rel=1e-2)


def test_draws_have_the_density():
    emission, _, _ = made("ZeroInflatedPoisson")
    theta = {"psi": np.array([[0.2], [0.9]]), "mu": np.array([[3.0], [6.0]])}
    states = np.repeat([0, 1], 4000)
    rows = emission.sample(np.random.default_rng(3), theta, states)
    for k in range(2):
        values = np.arange(0.0, 40.0)[:, None]
        p = np.exp(emission.log_density(theta, values))[:, k]
        assert p.sum() == pytest.approx(1, abs=1e-9)
        own = rows[states == k, 0]
        assert own.mean() == pytest.approx(p @ values[:, 0], abs=4 * own.std() / 4000**0.5)


@pytest.mark.parametrize(
    ("name", "known", "code"),
    [
        ("Gama", {}, "not-a-distribution"),
        ("MvNormal", {}, "not-a-distribution"),
        ("Flat", {}, "not-a-distribution"),
        ("Binomial", {}, "incomplete"),
        ("Pareto", {}, "incomplete"),
        ("Gamma", {"mu": 1.0}, "unknown-parameter"),
    ],
)
def test_what_cannot_be_a_column_is_refused(name, known, code):
    with refused(f"model.{code}", name):
        AnyDistribution(name, 1, known)


@pytest.mark.parametrize(
    ("name", "known", "value"),
    [("Gamma", {}, 0.0), ("Beta", {}, 1.0), ("NegativeBinomial", {}, 1.5), ("Pareto", {"m": 2.0}, 1.0), ("VonMises", {}, 4.0)],
)  # fmt: skip
def test_values_that_cannot_be_are_refused(name, known, value):
    with refused("data.impossible-value", f"row 0, column 0 is {value:g};.*{name}"):
        AnyDistribution(name, 1, known).check(np.array([[value]]))


def test_every_distribution_of_single_numbers_has_a_truth_here_or_is_a_special_case():
    from bayeslab.distributions import DISTRIBUTIONS

    # One parameter, and nothing of its own; special cases of others; nothing to learn.
    simple = {
        "Bernoulli",
        "Binomial",
        "Exponential",
        "HalfCauchy",
        "HalfNormal",
        "HurdlePoisson",
        "Poisson",
        "Lognormal",
    }
    fixed = {"DiscreteUniform", "HyperGeometric", "Triangular", "Uniform", "Flat", "HalfFlat"}
    scalar = {name for name in DISTRIBUTIONS if not DISTRIBUTIONS[name].support and maths(name) is not None}
    assert scalar == set(TRUTHS) | simple | fixed


def test_priors_and_known_numbers_are_those_of_their_column():
    """With columns on unlike scales the M-step under weak priors is a maximum, and known numbers are each column's."""
    rng = np.random.default_rng(4)
    rows = rng.gamma(3.0, 1.0, (80, 2)) * [1.0, 1e4]
    emission = AnyDistribution("Gamma", 2).with_prior(rows, 2)
    statistics = emission.statistics(rows, rng.dirichlet(np.full(2, 0.5), 80))
    best = emission.maximise(statistics)

    def height(at):
        return emission.expected_log_likelihood(statistics, at) + emission.log_prior(at)

    for word in emission.learned:
        for k, j, size in ((0, 0, 1.01), (0, 1, 0.99), (1, 1, 1.01)):
            moved = {w: v.copy() for w, v in best.items()}
            moved[word][k, j] *= size
            assert height(moved) < height(best)
    one = AnyDistribution("Binomial", 2, {"n": np.array([5.0, 9.0])})
    counts = np.array([[5.0, 9.0], [1.0, 3.0]])
    one.check(counts)
    assert one.maximise(one.statistics(counts, np.ones((2, 1))))["p"][0] == pytest.approx([0.6, 12 / 18], rel=1e-5)
    with refused("data.impossible-value", "row 1, column 0 is 6; .*0.*5"):
        one.check(np.array([[5.0, 9.0], [6.0, 3.0]]))


@pytest.mark.parametrize(
    ("name", "known", "match"), [("Gamma", {"alpha": -1.0}, "alpha.*-1"), ("Binomial", {"n": 2.5}, r"n .*2\.5")]
)
def test_known_numbers_that_a_parameter_cannot_have_are_refused(name, known, match):
    with refused("model.out-of-range", match):
        AnyDistribution(name, 1, known)


def test_angles_near_the_cut_are_found_with_a_prior_too():
    rng = np.random.default_rng(5)
    rows = np.concatenate([rng.vonmises(3.1, 4.0, 300), rng.vonmises(-1.0, 2.0, 300)])[:, None]
    emission = AnyDistribution("VonMises", 1).with_prior(rows, 2)
    best = emission.maximise(emission.statistics(rows, np.repeat(np.eye(2), 300, axis=0)))
    direction = np.angle(np.exp(1j * rows[:300]).sum())  # the closed form
    assert np.cos(best["mu"][0, 0] - direction) == pytest.approx(1, abs=1e-8)
    assert -np.pi <= best["mu"][0, 0] <= np.pi
    assert np.isfinite(emission.log_prior(best))


def test_angles_on_both_sides_of_the_cut_are_near_each_other():
    """Searches start from distances between rows: π - 0.05 and -π + 0.05 are nearer than 2.5."""
    points = AnyDistribution("VonMises", 1).features(
        np.array([[np.pi - 0.05], [0.05 - np.pi], [2.5], [-1.0], [np.nan]])
    )
    apart = np.linalg.norm(points[1:3] - points[0], axis=1)
    assert apart[0] < apart[1]
    assert np.isfinite(points).all()


@pytest.mark.parametrize("prior", [None, (2.0, 3.0)], ids=["likelihood", "posterior"])
@pytest.mark.parametrize(
    ("name", "scipy", "known", "conjugate"),
    [
        ("Geometric", stats.geom, {}, stats.beta),
        ("Binomial", lambda t: stats.binom(7, t), {"n": 7.0}, stats.beta),
        ("Poisson", stats.poisson, {}, stats.gamma),
        ("Gamma", lambda t: stats.gamma(1.7, scale=1 / t), {"alpha": 1.7}, stats.gamma),
        ("Pareto", stats.pareto, {"m": 1.0}, stats.gamma),
    ],
)
def test_one_unknown_parameter_with_a_conjugate_prior_is_the_mode(name, scipy, known, conjugate, prior):
    rng = np.random.default_rng(3)
    x = scipy(0.4).rvs(200, random_state=rng).astype(float)
    weights = rng.random((200, 1))
    emission = AnyDistribution(name, 1, {word: np.asarray(value) for word, value in known.items()})
    (word,) = emission.learned
    if prior is not None:
        law = Law("Beta" if conjugate is stats.beta else "Gamma", dict(zip(("alpha", "beta"), prior, strict=True)))
        emission = replace(emission, prior={word: law})

    def height(t: float) -> float:
        law = scipy(t)
        log = law.logpmf(x) if emission.declaration.discrete else law.logpdf(x)
        before = conjugate(2, 3) if conjugate is stats.beta else conjugate(2, scale=1 / 3)
        return float(weights[:, 0] @ log) + (0.0 if prior is None else float(before.logpdf(t)))

    top = optimize.minimize_scalar(lambda t: -height(t), bounds=(0.01, 0.99), options={"xatol": 1e-10}).x
    found = emission.maximise(emission.statistics(x[:, None], weights))[word]
    assert found[0, 0] == pytest.approx(top, rel=1e-6)
