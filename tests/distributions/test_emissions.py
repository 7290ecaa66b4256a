"""Emissions against SciPy, enumeration of missing cells, numeric optima and conjugate pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from bayeslab.distributions.emissions import (
    Categorical,
    NormalPrior,
    OneParameter,
    Product,
    Regression,
    StudentT,
    column_variances,
    gaussian,
)
from bayeslab.exact.conjugate import (
    BetaBinomial,
    DirichletMultinomial,
    GammaPoisson,
    NormalKnownVariance,
    NormalWishart,
)
from bayeslab.posterior.mixtures.problem import MixtureProblem
from tests.refusals import refused

K, N = 2, 60


def mixed() -> Product:
    parts = {
        "size": ((0, 2), gaussian(2)),
        "kind": ((1,), Categorical((3,))),
        "count": ((3,), OneParameter("Poisson", 1)),
    }
    return Product(parts)


def data(name: str, rng: np.random.Generator) -> np.ndarray:
    normal = rng.normal(size=(N, 3)) * [1.0, 2.0, 0.5] + [0.0, 5.0, -1.0]
    if name in ("regression", "logistic", "poisson regression"):
        x = np.column_stack([np.ones(N), rng.normal(size=N)])
        eta = x @ [0.3, 0.8]
        y = {
            "regression": eta + rng.normal(size=N),
            "logistic": (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(float),
            "poisson regression": rng.poisson(np.exp(eta)).astype(float),
        }
        return np.column_stack([x, y[name]])
    return {
        "categorical": np.column_stack([rng.integers(0, n, N) for n in (3, 2)]).astype(float),
        "bernoulli": rng.integers(0, 2, (N, 3)).astype(float),
        "binomial": rng.integers(0, 8, (N, 2)).astype(float),
        "poisson": rng.poisson(3.0, (N, 2)).astype(float),
        "exponential": rng.exponential(2.0, (N, 2)),
        "mixed": np.column_stack([normal[:, 0], rng.integers(0, 3, N), normal[:, 1], rng.poisson(2.0, N)]),
    }.get(name, normal)


EMISSIONS = {
    "full": lambda: gaussian(3),
    "tied": lambda: gaussian(3, "tied"),
    "diagonal": lambda: gaussian(3, "diagonal"),
    "spherical": lambda: gaussian(3, "spherical"),
    "known": lambda: gaussian(3, "known", known=np.array([[1.0, 0.2, 0], [0.2, 2, 0], [0, 0, 0.7]])),
    "student": lambda: StudentT(3),
    "categorical": lambda: Categorical((3, 2)),
    "bernoulli": lambda: OneParameter("Bernoulli", 3),
    "binomial": lambda: OneParameter("Binomial", 2, known={"n": (9, 8)}),
    "poisson": lambda: OneParameter("Poisson", 2),
    "exponential": lambda: OneParameter("Exponential", 2),
    "mixed": mixed,
    "regression": lambda: Regression(2),
    "logistic": lambda: Regression(2, "bernoulli"),
    "poisson regression": lambda: Regression(2, "poisson"),
}
CONJUGATE = [n for n in EMISSIONS if n not in ("tied", "student", "logistic", "poisson regression")]


def setting(name: str, seed: int = 0):
    rng = np.random.default_rng(seed)
    emission, rows = EMISSIONS[name](), data(name, rng)
    responsibilities = rng.dirichlet(np.ones(K), N)
    return rng, emission, rows, responsibilities, emission.maximise(emission.statistics(rows, responsibilities))


# --------------------------------------------------------------------------------- densities


def test_open_cells_of_a_product_are_drawn_given_the_others_of_their_part():
    """Two columns that are nearly one: what is open is nearly what is there; the column of another part is not."""
    parts = {"pair": ((0, 2), gaussian(2)), "count": ((1,), OneParameter("Poisson", 1))}
    emission = Product(parts)
    covariance = np.array([[[1.0, 1.0], [1.0, 1.0 + 1e-12]]])
    theta = {"pair.mean": np.zeros((1, 2)), "pair.covariance": covariance, "count.rate": np.array([[3.0]])}
    rows = np.column_stack([np.linspace(-2, 2, 50), np.full(50, 4.0), np.full(50, np.nan)])
    filled = emission.complete(np.random.default_rng(0), theta, np.zeros(50, int), rows)
    np.testing.assert_allclose(filled[:, 2], rows[:, 0], atol=1e-4)
    np.testing.assert_array_equal(filled[:, 1], 4.0)


@pytest.mark.parametrize("name", ["full", "tied", "diagonal", "spherical", "known", "student"])
def test_density_of_rows_with_missing_cells_is_the_marginal(name):
    rng, emission, rows, _, p = setting(name)
    rows[rng.random(rows.shape) < 0.3] = np.nan
    found = emission.log_density(p, rows)
    for k in range(K):
        if name == "student":
            whole = p["scale"][k]
        elif name in ("full", "tied", "known"):
            whole = emission.covariances(p)[k]
        else:
            whole = np.diag(emission.variances(p)[k])
        for n, row in enumerate(rows):
            seen = np.flatnonzero(~np.isnan(row))
            mean, part = p["mean"][k, seen], whole[np.ix_(seen, seen)]
            if len(seen) == 0:
                expected = 0.0
            elif name == "student":
                expected = stats.multivariate_t(mean, part, df=p["dof"][k]).logpdf(row[seen])
            else:
                expected = stats.multivariate_normal(mean, part).logpdf(row[seen])
            assert found[n, k] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_discrete_densities():
    for name in ("categorical", "bernoulli", "binomial", "poisson", "exponential"):
        _, emission, rows, _, p = setting(name)
        rows[::3, 0] = np.nan
        found = emission.log_density(p, rows)
        for n in range(0, N, 4):
            for k in range(K):
                expected = 0.0
                for j, x in enumerate(rows[n]):
                    if np.isnan(x):
                        continue
                    if name == "categorical":
                        expected += np.log(p["probability"][k, j, int(x)])
                    elif name == "bernoulli":
                        expected += stats.bernoulli(p["probability"][k, j]).logpmf(x)
                    elif name == "binomial":
                        expected += stats.binom((9, 8)[j], p["probability"][k, j]).logpmf(x)
                    elif name == "poisson":
                        expected += stats.poisson(p["rate"][k, j]).logpmf(x)
                    else:
                        expected += stats.expon(scale=1 / p["rate"][k, j]).logpdf(x)
                assert found[n, k] == pytest.approx(expected, rel=1e-10)


def test_impossible_values_have_density_zero_and_zero_times_log_zero_is_zero():
    p = {"probability": np.array([[0.0, 1.0], [0.5, 0.5]])}
    found = OneParameter("Bernoulli", 2).log_density(p, np.array([[0.0, 1.0], [1.0, 1.0]]))
    assert found[0, 0] == 0.0 and np.isneginf(found[1, 0])
    np.testing.assert_allclose(found[:, 1], np.log(0.25))


def test_a_product_is_the_sum_of_its_parts():
    _, emission, rows, _, p = setting("mixed")
    size = gaussian(2).log_density({"mean": p["size.mean"], "covariance": p["size.covariance"]}, rows[:, [0, 2]])
    kind = Categorical((3,)).log_density({"probability": p["kind.probability"]}, rows[:, [1]])
    count = OneParameter("Poisson", 1).log_density({"rate": p["count.rate"]}, rows[:, [3]])
    np.testing.assert_allclose(emission.log_density(p, rows), size + kind + count)
    assert emission.n_free(2) == 2 * (5 + 2 + 1)


# --------------------------------------------------------------------------------- M-steps


@pytest.mark.parametrize("prior", [False, True], ids=["likelihood", "posterior"])
@pytest.mark.parametrize("name", [n for n in EMISSIONS if n != "student"])
def test_the_m_step_is_the_highest_point(name, prior):
    """No step in any direction leads higher, and the slope is zero."""
    rng, emission, rows, r, p = setting(name)
    if prior:
        emission = emission.with_prior(rows, K)
        if name in ("categorical", "bernoulli", "binomial"):
            emission = replace(emission, prior=2.5 if name == "categorical" else (2.5, 1.5))
        if name in ("poisson", "exponential"):
            emission = replace(emission, prior=(3.0, 2.0))
        p = emission.maximise(emission.statistics(rows, r), p)
    problem = MixtureProblem.of(emission, rows, K)
    weights = np.array([0.4, 0.6])

    def height(x: np.ndarray) -> float:
        theta = dict(problem.unflatten(x))
        del theta["weights"]
        return float(np.sum(r * emission.log_density(theta, rows)) + emission.log_prior(theta))

    x = problem.flatten({"weights": weights, **p})
    top = height(x)
    free = len(weights)
    for i in range(free, len(x)):
        step = 1e-4 * np.eye(len(x))[i]
        up, down = height(x + step), height(x - step)
        assert max(up, down) <= top + 1e-7
        assert (up - down) / 2e-4 == pytest.approx(0, abs=2e-3)
    for _ in range(20):
        moved = x.copy()
        moved[free:] += rng.normal(0, 0.05, len(x) - free)
        assert height(moved) <= top + 1e-9


@pytest.mark.parametrize("name", ["full", "tied", "diagonal", "spherical"])
def test_uniform_priors_give_the_plain_m_step(name):
    """The limit of priors worth no rows at all."""
    _, emission, rows, r, p = setting(name)
    d = 3
    nu = {"full": -(d + 2.0), "tied": -(K + d + 1.0), "diagonal": -3.0, "spherical": -(d + 2.0)}[name]
    scale = np.zeros((d, d)) if name in ("full", "tied") else np.zeros(d)
    flat = replace(emission, prior=NormalPrior(np.zeros(d), 0.0, nu, scale))
    found = flat.maximise(flat.statistics(rows, r))
    for key, value in p.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-12)


def test_statistics_keep_their_digits_far_from_zero():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(500, 2))
    for covariance, key in (("full", "covariance"), ("diagonal", "variance")):
        emission, r = gaussian(2, covariance), np.ones((500, 1))
        near = emission.maximise(emission.statistics(rows, r))[key]
        far = emission.maximise(emission.statistics(rows + 1e7, r))[key]
        np.testing.assert_allclose(near, far, rtol=1e-6, atol=1e-8)


# --------------------------------------------------------------------------------- conjugate


def test_evidence_of_clusters_is_that_of_the_conjugate_pairs():
    rng = np.random.default_rng(2)
    labels = rng.integers(0, K, N)
    r = np.eye(K)[labels]

    def found(emission, rows):
        return emission.log_marginal(emission.statistics(rows, r)) + r.T @ emission.log_base(rows)

    rows = data("full", rng)
    prior = NormalPrior(np.array([0.5, 4.0, 0.0]), 0.3, 5.0, np.diag([1.0, 2.0, 0.5]) + 0.1)
    expected = [
        NormalWishart(prior.mean, 0.3, 5.0, np.linalg.inv(prior.scale)).log_evidence(rows[labels == k])
        for k in range(K)
    ]
    np.testing.assert_allclose(found(gaussian(3, prior=prior), rows), expected)
    own = NormalPrior(prior.mean, 0.3, 5.0, np.array([1.0, 2.0, 0.5]))
    expected = [
        sum(
            NormalWishart(own.mean[[j]], 0.3, 5.0, np.array([[1 / own.scale[j]]])).log_evidence(
                rows[labels == k][:, [j]]
            )
            for j in range(3)
        )
        for k in range(K)
    ]
    np.testing.assert_allclose(found(gaussian(3, "diagonal", prior=own), rows), expected)
    one = rows[:, [0]]
    known = gaussian(1, "known", known=2.0, prior=NormalPrior(np.array([0.5]), 0.4, 1.0, np.eye(1)))
    pair = NormalKnownVariance(0.5, np.sqrt(2.0 / 0.4), np.sqrt(2.0))
    np.testing.assert_allclose(found(known, one), [pair.log_evidence(one[labels == k, 0]) for k in range(K)])
    counts = rng.poisson(3.0, (N, 1)).astype(float)
    expected = [GammaPoisson(2.0, 0.5).log_evidence(counts[labels == k, 0]) for k in range(K)]
    np.testing.assert_allclose(found(OneParameter("Poisson", 1, (2.0, 0.5)), counts), expected)
    won = rng.integers(0, 6, (N, 1)).astype(float)
    expected = [BetaBinomial(2.0, 0.5).log_evidence(won[labels == k, 0], 6) for k in range(K)]
    np.testing.assert_allclose(found(OneParameter("Binomial", 1, (2.0, 0.5), {"n": 6}), won), expected)
    codes = rng.integers(0, 3, (N, 1)).astype(float)
    expected = [
        DirichletMultinomial.of([0.7] * 3).log_evidence(np.bincount(codes[labels == k, 0].astype(int), minlength=3))
        for k in range(K)
    ]
    found_here = found(Categorical((3,), 0.7), codes)
    np.testing.assert_allclose(found_here, expected)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", CONJUGATE)
def test_draws_have_the_expected_log_density(name):
    rng, emission, rows, r, _ = setting(name)
    emission = emission.with_prior(rows, K)
    statistics = emission.statistics(rows, r)
    few = rows[:5]
    draws = np.stack([emission.log_density(emission.draw(rng, statistics), few) for _ in range(4000)])
    expected = emission.expected_log_density(statistics, few)
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - expected) < 4.5 * error + 1e-12)


@pytest.mark.parametrize("name", [n for n in EMISSIONS if "regression" not in n and n != "logistic"])
def test_samples_have_the_density_they_come_from(name):
    """E log p(x) under p is the same on two independent samples' sides: the fit to a sample recovers the parameters."""
    rng, emission, _, _, p = setting(name)
    states = np.repeat(np.arange(K), 20_000)
    rows = emission.sample(rng, p, states)
    again = emission.maximise(emission.statistics(rows, np.eye(K)[states], p), p)
    for key, value in p.items():
        if key != "dof":
            np.testing.assert_allclose(again[key], value, atol=0.06 * np.abs(value).max())


# --------------------------------------------------------------------------------- bad input


def test_wrong_data_and_options_are_refused_in_one_line():
    rows = np.random.default_rng(0).normal(size=(10, 2))
    constant = np.column_stack([rows[:, 0], np.full(10, 3.0)])
    cases = [
        (gaussian(2), constant, "data.constant", "column 1"),
        (gaussian(2, "diagonal"), constant, "data.constant", "column 1"),
        (StudentT(2), constant, "data.constant", "column 1"),
        (gaussian(3), rows, "data.wrong-shape", r"\(10, 2\).*3"),
        (gaussian(2), np.where(rows > 1, np.inf, rows), "data.not-finite", "column 0"),
        (Categorical((2, 2)), np.full((3, 2), 2.0), "data.impossible-value", "row 0, column 0 is 2;"),
        (OneParameter("Bernoulli", 2), rows, "data.impossible-value", r"row 0, column 0 is 0\.12573;"),
        (OneParameter("Poisson", 2), -np.ones((3, 2)), "data.impossible-value", "row 0, column 0 is -1;"),
        (
            OneParameter("Binomial", 2, known={"n": 3}),
            np.full((3, 2), 4.0),
            "data.impossible-value",
            "row 0, column 0 is 4;",
        ),
        (OneParameter("Exponential", 2), -np.ones((3, 2)), "data.impossible-value", "row 0, column 0 is -1;"),
        (Regression(1), np.array([[np.nan, 1.0], [1.0, 2.0]]), "data.missing", "row 0, input column 0"),
    ]
    for emission, bad, code, match in cases:
        with refused(code, match):
            emission.check(bad)
    with refused("option.unknown-word", "'ful'.*'full'"):
        gaussian(2, "ful")
    with refused("option.incomplete", "'known'"):
        gaussian(2, "known")
    with refused("option.incomplete", "'known'"):
        gaussian(2, known=1.0)
    with refused("option.not-a-covariance"):
        gaussian(2, "known", known=np.array([[1.0, 2], [2, 1]]))


def test_degenerate_says_which():
    rows = np.random.default_rng(0).normal(size=(50, 2))
    v = column_variances(rows)
    mean = np.zeros((2, 2))
    assert gaussian(2).degenerate({"mean": mean, "covariance": np.stack([np.eye(2), np.ones((2, 2))])}, v).tolist() == [
        False,
        True,
    ]
    assert gaussian(2, "diagonal").degenerate({"mean": mean, "variance": np.array([[1, 1], [1, 0.0]])}, v).tolist() == [
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("emission", "scipy", "values"),
    [
        (OneParameter("Binomial", 2, known={"n": 9}), lambda t: stats.binom(9, t), [0.0, 4.0, 9.0]),
        (OneParameter("Geometric", 2), stats.geom, [1.0, 2.0, 7.0]),
        (OneParameter("NegativeBinomial", 2, known={"n": 2.5}), lambda t: stats.nbinom(2.5, t), [0.0, 2.0, 9.0]),
        (OneParameter("Exponential", 2), lambda t: stats.expon(scale=1 / t), [0.0, 0.4, 3.0]),
        (OneParameter("Gamma", 2, known={"alpha": 1.7}), lambda t: stats.gamma(1.7, scale=1 / t), [0.3, 1.0, 4.0]),
        (OneParameter("InverseGamma", 2, known={"alpha": 1.7}), lambda t: stats.invgamma(1.7, scale=t), [0.3, 1.0, 4]),
        (OneParameter("Pareto", 2, known={"m": 0.2}), lambda t: stats.pareto(t, scale=0.2), [0.3, 1.0, 4.0]),
    ],
)
def test_any_distribution_with_a_conjugate_parameter_is_one_of_columns(emission, scipy, values):
    """Densities, the M-step, and cells that are missing, which say nothing."""
    rows = np.array([[values[0], np.nan], [values[1], values[2]], [np.nan, np.nan]])
    emission.check(rows)
    theta = np.array([[0.2, 0.3], [0.8, 0.4]])
    density = emission.log_density({emission.name: theta}, rows)
    for n, row in enumerate(rows):
        for k in range(2):
            laws = [scipy(t) for t in theta[k]]
            log = [law.logpmf if emission.declaration.discrete else law.logpdf for law in laws]
            expected = sum(float(log[j](x)) for j, x in enumerate(row) if not np.isnan(x))
            assert density[n, k] == pytest.approx(expected, rel=1e-12, abs=1e-12)
    best = emission.maximise(emission.statistics(rows, np.ones((3, 1))))[emission.name]
    top = emission.log_density({emission.name: best}, rows).sum()
    for factor in (0.99, 1.01):
        assert emission.log_density({emission.name: np.minimum(best * factor, 1.0)}, rows).sum() <= top + 1e-12


def test_trials_beside_successes():
    """The numbers of trials are columns; a row without successes says nothing, one without trials is refused."""
    emission = OneParameter("Binomial", 1)
    rows = np.array([[3.0, 9.0], [np.nan, np.nan], [np.nan, 4.0], [2.0, 2.0]])
    emission.check(rows)
    density = emission.log_density({"probability": np.array([[0.4]])}, rows)[:, 0]
    np.testing.assert_allclose(density, [stats.binom(9, 0.4).logpmf(3), 0.0, 0.0, 2 * np.log(0.4)], rtol=1e-12)
    with refused("data.missing", "row 1, column 1:"):
        emission.check(np.array([[3.0, 9.0], [3.0, np.nan]]))
    with refused("data.missing", "row 0, column 3:"):
        OneParameter("Binomial", 2).check(np.array([[3.0, 2.0, 9.0, np.nan]]))
    with refused("data.impossible-value", "row 0, column 0 is 3;"):
        emission.check(np.array([[3.0, 2.0]]))
