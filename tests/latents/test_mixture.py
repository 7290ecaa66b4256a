"""Mixtures: EM and its variants, starts, repair, choice of K, experts, known and misreported labels."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from bayeslab.distributions.emissions import (
    Categorical,
    NormalPrior,
    OneParameter,
    Product,
    Regression,
    StudentT,
    gaussian,
)
from bayeslab.distributions.emissions.components import log_evidence
from bayeslab.errors import OptionError
from bayeslab.latents.expectation_maximisation import maximise, standard_errors
from bayeslab.latents.labels.clusters import adjusted_rand_index
from bayeslab.latents.labels.k_means import k_means, leader_clusters, seeds
from bayeslab.latents.sampler import run
from bayeslab.posterior.mixtures.choice import choose_components
from bayeslab.posterior.mixtures.gibbs import mixture_sampler
from bayeslab.posterior.mixtures.problem import MixtureProblem
from bayeslab.posterior.mixtures.search import MixtureOptions, fit_mixture, merging
from bayeslab.posterior.mixtures.starts import start_from_labels
from bayeslab.posterior.mixtures.variational import fit_variational
from tests.refusals import refused

# --------------------------------------------------------------------------------- planted data

WEIGHTS = np.array([0.2, 0.3, 0.5])
MEANS = np.array([[-4.0, 0.0], [0.0, 3.0], [4.0, -1.0]])
COVARIANCES = np.array([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.6], [0.6, 1.0]], [[0.5, -0.3], [-0.3, 0.8]]])
TRUTH = {"weights": WEIGHTS, "mean": MEANS, "covariance": COVARIANCES}


def planted(seed: int = 0, n: int = 500) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, n, p=WEIGHTS)
    return gaussian(2).sample(rng, TRUTH, labels), labels


@pytest.fixture(scope="module")
def fitted():
    rows, labels = planted()
    fit = fit_mixture(MixtureProblem.of(gaussian(2), rows, 3), rng=np.random.default_rng(1))
    return rows, labels, fit


CELLS = [
    (0, 0, 0, 273),
    (0, 0, 1, 93),
    (0, 1, 0, 104),
    (0, 1, 1, 90),
    (1, 0, 0, 79),
    (1, 0, 1, 100),
    (1, 1, 0, 94),
    (1, 1, 1, 167),
]
CANDY = np.array([[1 - f, 1 - w, 1 - h] for f, w, h, _ in CELLS], float)
COUNTS = np.array([c[-1] for c in CELLS], float)


def candy() -> MixtureProblem:
    return MixtureProblem.of(OneParameter("Bernoulli", 3), CANDY, 2, row_weights=COUNTS)


def bags(theta: float, first: list[float], second: list[float]) -> dict[str, np.ndarray]:
    return {"weights": np.array([theta, 1 - theta]), "probability": np.array([first, second])}


START = bags(0.6, [0.6] * 3, [0.4] * 3)


def flat(theta) -> list[float]:
    return [theta["weights"][0], *theta["probability"].ravel()]


# --------------------------------------------------------------------------------- candy


def test_em_candy():
    """Every printed iterate and log likelihood, and that the true model is passed at iteration 10."""
    table = {
        0: (-2044.260365, [0.6, 0.6, 0.6, 0.6, 0.4, 0.4, 0.4]),
        1: (-2021.026239, [0.612431, 0.668408, 0.648312, 0.655848, 0.388695, 0.381748, 0.382741]),
        2: (-2003.025050, [0.606155, 0.703582, 0.677245, 0.687990, 0.339017, 0.341466, 0.337624]),
        3: (-1990.967733, [0.599072, 0.735150, 0.701727, 0.716208, 0.298288, 0.310815, 0.301649]),
        5: (-1983.806634, [0.586030, 0.774042, 0.726225, 0.748220, 0.256994, 0.288452, 0.269393]),
        9: (-1982.220456, [0.564659, 0.801995, 0.735636, 0.765699, 0.246120, 0.297736, 0.270228]),
        10: (-1982.017785, [0.559853, 0.806031, 0.737062, 0.767898, 0.247057, 0.300704, 0.272840]),
        20: (-1980.698817, [0.520039, 0.832397, 0.752796, 0.785562, 0.264858, 0.319852, 0.294768]),
        120: (-1979.363198, [0.424313, 0.890036, 0.795324, 0.833966, 0.316745, 0.360497, 0.340701]),
    }
    seen = []
    end = maximise(candy(), START, tolerance=0, max_iterations=120, progress=lambda i, theta, value: seen.append(theta))
    for iteration, (value, parameters) in table.items():
        assert end.trace[iteration] == pytest.approx(value, abs=5e-7)
        np.testing.assert_allclose(flat(seen[iteration]), parameters, atol=5e-7)
    true = candy().expect(bags(0.5, [0.8] * 3, [0.3] * 3))[0]
    assert true == pytest.approx(-1982.213774, abs=5e-7)
    assert end.trace[9] < true < end.trace[10]
    assert np.all(np.diff(end.trace) > 0)


def test_em_candy_hand():
    r = candy().responsibilities(START)[1][:, 0]
    np.testing.assert_allclose(r, [0.835052, 0.692308, 0.692308, 0.5, 0.692308, 0.5, 0.5, 0.307692], atol=5e-7)
    assert r[0] * COUNTS[0] / 1000 == pytest.approx(0.227969, abs=5e-7)


def test_em_candy_symmetric():
    """All parameters equal: one step, then a saddle."""
    for p, value, curvature in ((0.5, -2079.441542, 994.81), (0.6, -2077.827442, 929.55)):
        problem = candy()
        end = maximise(problem, bags(p, [p] * 3, [p] * 3), tolerance=1e-12, max_iterations=50)
        assert end.trace[0] == pytest.approx(value, abs=5e-7)
        np.testing.assert_allclose(flat(end.parameters), [p, 0.56, 0.545, 0.55, 0.56, 0.545, 0.55], atol=1e-12)
        assert end.log_likelihood == pytest.approx(-2063.160309, abs=5e-7)
        x = np.array(flat(end.parameters))

        def height(x, problem=problem):
            return problem.expect(bags(x[0], list(x[1:4]), list(x[4:])))[0]

        steps = 1e-4 * np.eye(7)
        slope = [(height(x + s) - height(x - s)) / 2e-4 for s in steps]
        np.testing.assert_allclose(slope, 0, atol=1e-4)
        hessian = [
            [(height(x + a + b) - height(x + a - b) - height(x - a + b) + height(x - a - b)) / 4e-8 for b in steps]
            for a in steps
        ]
        values = np.linalg.eigvalsh(hessian)
        assert np.sum(values > 1) == 1 and values[-1] == pytest.approx(curvature, rel=1e-3)


test_em_no_step_size = test_em_candy_symmetric


def test_em_candy_two_attr():
    """Five parameters for three free cells: the Jacobian has rank 3, and EM ends anywhere on a ridge."""

    def cells(x):
        theta = {"weights": np.array([x[0], 1 - x[0]]), "probability": np.array([x[1:3], x[3:5]])}
        rows = np.array(list(itertools.product((0.0, 1.0), repeat=2)))
        return np.exp(MixtureProblem.of(OneParameter("Bernoulli", 2), rows, 2).responsibilities(theta)[0])

    x = np.array([0.55, 0.7, 0.8, 0.35, 0.25])
    jacobian = [(cells(x + s) - cells(x - s)) / 2e-6 for s in 1e-6 * np.eye(5)]
    assert np.linalg.matrix_rank(np.array(jacobian), tol=1e-6) == 3
    problem = MixtureProblem.of(OneParameter("Bernoulli", 2), CANDY[:, :2], 2, row_weights=COUNTS)
    rng = np.random.default_rng(0)
    ends = [maximise(problem, bags_two(rng), tolerance=1e-10, max_iterations=5000) for _ in range(4)]
    values = [end.log_likelihood for end in ends]
    np.testing.assert_allclose(values, values[0], atol=1e-5)
    assert np.ptp([end.parameters["weights"].max() for end in ends]) > 0.01


def bags_two(rng):
    return {"weights": rng.dirichlet([3, 3]), "probability": rng.uniform(0.2, 0.8, (2, 2))}


def test_em_random_restart():
    """The best of several searches reaches the saturated value, which nothing can exceed."""
    options = MixtureOptions(start="random", restarts=6, variant="accelerated", tolerance=1e-9, max_iterations=20_000)
    fit = fit_mixture(candy(), options, rng=np.random.default_rng(0))
    saturated = float(COUNTS @ np.log(COUNTS / 1000))
    assert saturated == pytest.approx(-1979.360127, abs=5e-7)
    assert fit.log_likelihood == pytest.approx(saturated, abs=1e-5)
    assert fit.log_likelihood <= saturated + 1e-9


def test_em_mcmc():
    """Stochastic EM, its average over the long run, ends where EM ends."""
    rows, _ = planted(3, 300)
    problem = MixtureProblem.of(gaussian(2), rows, 3)
    start = fit_mixture(problem, rng=np.random.default_rng(0)).parameters
    end = maximise(problem, start, variant="stochastic", max_iterations=300, rng=np.random.default_rng(1))
    assert end.log_likelihood == pytest.approx(problem.expect(start)[0], abs=0.05)
    np.testing.assert_allclose(end.parameters["mean"], start["mean"], atol=0.03)


# --------------------------------------------------------------------------------- EM in general


def rows_for(name, rng):
    return {
        "normal": rng.normal(size=(60, 2)) + 3.0 * rng.integers(0, 2, (60, 1)),
        "counts": rng.poisson(rng.choice([2.0, 9.0], (60, 1)), (60, 2)).astype(float),
        "binary": (rng.random((60, 4)) < rng.choice([0.2, 0.8], (60, 1))).astype(float),
        "codes": np.minimum(rng.integers(0, 3, (60, 3)), rng.integers(0, 3, (60, 1))).astype(float),
        "times": rng.exponential(rng.choice([1.0, 8.0], (60, 1)), (60, 2)),
        "wins": rng.binomial(12, rng.choice([0.2, 0.8], (60, 1)), (60, 2)).astype(float),
    }[name]


FAMILIES = {
    "full": (lambda: gaussian(2), "normal"),
    "tied": (lambda: gaussian(2, "tied"), "normal"),
    "diagonal": (lambda: gaussian(2, "diagonal"), "normal"),
    "spherical": (lambda: gaussian(2, "spherical"), "normal"),
    "known": (lambda: gaussian(2, "known", known=1.5), "normal"),
    "student": (lambda: StudentT(2), "normal"),
    "student, 4": (lambda: StudentT(2, 4.0), "normal"),
    "poisson": (lambda: OneParameter("Poisson", 2), "counts"),
    "bernoulli": (lambda: OneParameter("Bernoulli", 4), "binary"),
    "categorical": (lambda: Categorical((3, 3, 3)), "codes"),
    "exponential": (lambda: OneParameter("Exponential", 2), "times"),
    "binomial": (lambda: OneParameter("Binomial", 2, known={"n": 12}), "wins"),
    "mixed": (lambda: Product({"a": ((0,), gaussian(1)), "b": ((1,), gaussian(1, "diagonal"))}), "normal"),
}


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("name", FAMILIES)
def test_em_general(name):
    """No step lowers log likelihood (EM) or log posterior (MAP-EM), with missing cells and row weights too."""
    make, kind = FAMILIES[name]
    for seed in range(8):
        rng = np.random.default_rng(seed)
        rows = rows_for(kind, rng)
        rows[(rng.random(rows.shape) < 0.15) & (np.arange(rows.shape[1]) > 0)] = np.nan
        weights = rng.integers(1, 4, len(rows)).astype(float) if seed % 2 else None
        emission = make() if seed < 4 else make().with_prior(rows, 2)
        problem = MixtureProblem.of(emission, rows, 2, row_weights=weights, concentration=1.0 if seed < 4 else 2.0)
        start = start_from_labels(problem, rng.dirichlet([1, 1], len(rows)))
        theta, values = start, []
        for _ in range(25):
            value, statistics = problem.expect(theta)
            values.append(value + problem.log_prior(theta))
            theta = problem.update(statistics, theta)
        assert np.all(np.diff(values) > -1e-9 * abs(values[0])), name


@pytest.mark.parametrize("name", FAMILIES)
def test_the_slope_by_fishers_identity_is_that_of_the_observed_log_posterior(name):
    """In every coordinate, by finite differences; with missing cells, and with priors too."""
    make, kind = FAMILIES[name]
    for seed in range(2):
        rng = np.random.default_rng(seed)
        rows = rows_for(kind, rng)
        rows[(rng.random(rows.shape) < 0.15) & (np.arange(rows.shape[1]) > 0)] = np.nan
        emission = make().with_prior(rows, 2) if seed else make()
        problem = MixtureProblem.of(emission, rows, 2, concentration=2.0 if seed else 1.0)
        theta = start_from_labels(problem, rng.dirichlet([1, 1], len(rows)))
        x = problem.flatten(theta) + rng.normal(0, 0.1, len(problem.flatten(theta)))
        theta = problem.unflatten(x)
        found = problem.gradient(theta, problem.expect(theta)[1])

        def height(x, problem=problem):
            theta = problem.unflatten(x)
            return problem.expect(theta)[0] + problem.log_prior(theta)

        slope = [(height(x + s) - height(x - s)) / 2e-5 for s in 1e-5 * np.eye(len(x))]
        np.testing.assert_allclose(found, slope, rtol=1e-4, atol=2e-3)


def test_what_is_fixed_has_no_coordinates():
    rows = planted(3, 50)[0]
    problem = MixtureProblem.of(StudentT(2, 4.0), rows, 2, fixed_weights=np.array([0.3, 0.7]))
    theta = start_from_labels(problem, np.arange(50) % 2)
    again = problem.unflatten(problem.flatten(theta))
    assert len(problem.flatten(theta)) == 4 + 8
    for name in theta:
        np.testing.assert_allclose(again[name], theta[name], rtol=1e-12)


@pytest.mark.slow(why="statistical")
def test_newton_and_standard_errors():
    """The quasi-Newton variant ends where EM ends; errors of one normal's mean and variance are the textbook's."""
    rows, _ = planted(3, 200)
    problem = MixtureProblem.of(gaussian(2), rows, 3)
    start = start_from_labels(problem, np.argmin([np.sum((rows - m) ** 2, axis=1) for m in MEANS], axis=0))
    em = maximise(problem, start, tolerance=1e-10, max_iterations=5000)
    newton = maximise(problem, start, variant="newton", tolerance=1e-10)
    assert newton.log_likelihood == pytest.approx(em.log_likelihood, abs=1e-6)
    one = MixtureProblem.of(gaussian(1, "diagonal"), rows[:, :1], 1)
    theta = one.update(one.statistics(np.ones((200, 1))))
    errors = standard_errors(one, theta)
    variance = theta["variance"][0, 0]
    assert errors["mean"][0, 0] == pytest.approx(np.sqrt(variance / 200), rel=1e-4)
    assert errors["variance"][0, 0] == pytest.approx(variance * np.sqrt(2 / 200), rel=1e-4)


@pytest.mark.parametrize("name", ["full", "tied", "diagonal", "poisson", "bernoulli", "student, 4"])
def test_the_fixed_point_of_em_is_the_direct_optimum(name):
    make, kind = FAMILIES[name]
    rng = np.random.default_rng(5)
    problem = MixtureProblem.of(make(), rows_for(kind, rng), 2)
    fit = fit_mixture(problem, MixtureOptions(tolerance=1e-10, max_iterations=5000, restarts=5), rng=rng)
    x = problem.flatten(fit.parameters)

    def falling(x):
        return -problem.expect(problem.unflatten(x))[0]

    direct = minimize(
        falling, x + rng.normal(0, 0.02, len(x)), method="L-BFGS-B", options={"maxiter": 2000, "maxfun": 10**6}
    )
    assert fit.log_likelihood == pytest.approx(-direct.fun, abs=1e-3)
    assert fit.log_likelihood >= -direct.fun - 1e-5


def test_weights_of_rows_are_repeated_rows_and_missing_cells_are_summed_out():
    rows, _ = planted(1, 80)
    counts = np.random.default_rng(0).integers(1, 4, 80)
    start = {"weights": np.array([0.4, 0.6]), "mean": rows[:2], "covariance": np.stack([np.eye(2)] * 2)}
    few = MixtureProblem.of(gaussian(2), rows, 2, row_weights=counts.astype(float))
    many = MixtureProblem.of(gaussian(2), np.repeat(rows, counts, axis=0), 2)
    a, b = (maximise(p, start, max_iterations=20, tolerance=0) for p in (few, many))
    np.testing.assert_allclose(a.trace, b.trace, rtol=1e-10)
    np.testing.assert_allclose(a.parameters["covariance"], b.parameters["covariance"], rtol=1e-8)
    # Columns always missing together: EM on rows split in two groups equals maximising their marginals.
    rows[::2, 1] = np.nan
    problem = MixtureProblem.of(gaussian(2), rows, 1)
    fit = fit_mixture(
        problem, MixtureOptions(restarts=1, tolerance=1e-12, max_iterations=10_000), rng=np.random.default_rng(0)
    )
    x, y = rows[:, 0], rows[1::2, 1]
    # Little and Rubin (2002), section 7.2.1: regression of y on x in the complete rows, moments of x in all.
    slope, intercept = np.polyfit(rows[1::2, 0], y, 1)
    residual = np.mean((y - intercept - slope * rows[1::2, 0]) ** 2)
    mean, cov = fit.parameters["mean"][0], fit.parameters["covariance"][0]
    np.testing.assert_allclose(mean, [x.mean(), intercept + slope * x.mean()], atol=1e-5)
    np.testing.assert_allclose(cov[1, 1], residual + slope**2 * x.var(), atol=1e-4)


def test_loglik_trace(fitted):
    """The trace rises and crosses the true model's line."""
    _, _, fit = fitted
    true = fit.problem.expect(TRUTH)[0]
    problem = fit.problem
    trace = maximise(problem, start_from_labels(problem, np.arange(500) % 3), max_iterations=500).trace
    assert np.all(np.diff(trace) >= -1e-9 * abs(trace[0]))
    assert trace[0] < true < trace[-1]


# --------------------------------------------------------------------------------- gaussian mixtures


def test_gmm_em(fitted):
    _, labels, fit = fitted
    true = fit.problem.expect(TRUTH)[0]
    order = np.argsort(fit.parameters["mean"][:, 0])
    np.testing.assert_allclose(fit.parameters["weights"][order], WEIGHTS, atol=0.07)
    np.testing.assert_allclose(fit.parameters["mean"][order], MEANS, atol=0.35)
    # Half a chi-squared with 17 degrees of freedom is what fitting gains: 8.5, sd 2.9.
    assert 0 < fit.log_likelihood - true < 8.5 + 4 * 2.9
    assert fit.converged and not fit.repaired and not fit.warnings
    assert adjusted_rand_index(fit.labels, labels) > 0.95


@pytest.mark.parametrize(
    ("ours", "theirs"), [("full", "full"), ("tied", "tied"), ("diagonal", "diag"), ("spherical", "spherical")]
)
def test_scikit_learn_has_the_same_likelihood_at_its_own_optimum(fitted, ours, theirs):
    mixture = pytest.importorskip("sklearn.mixture")
    rows = fitted[0]
    other = mixture.GaussianMixture(
        3, covariance_type=theirs, tol=1e-10, reg_covar=0, max_iter=2000, n_init=3, random_state=0
    ).fit(rows)
    key = "covariance" if ours in ("full", "tied") else "variance"
    theta = {"weights": other.weights_, "mean": other.means_, key: other.covariances_}
    problem = MixtureProblem.of(gaussian(2, ours), rows, 3)
    assert problem.expect(theta)[0] == pytest.approx(other.score(rows) * len(rows), rel=1e-10)
    fit = fit_mixture(problem, MixtureOptions(tolerance=1e-9), rng=np.random.default_rng(0))
    assert fit.log_likelihood == pytest.approx(other.score(rows) * len(rows), abs=1e-3)
    assert problem.n_free == other._n_parameters()


def test_gmm_means_known_var():
    problem = MixtureProblem.of(
        gaussian(1, "known", known=1.0), np.array([[1.0]]), 2, fixed_weights=np.array([0.5, 0.5])
    )
    theta = {"weights": np.array([0.5, 0.5]), "mean": np.array([[0.0], [3.0]])}
    assert problem.responsibilities(theta)[1][0, 0] == pytest.approx(0.817574, abs=5e-7)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 1)) + rng.choice([0.0, 4.0], (300, 1))
    fit = fit_mixture(replace(problem, rows=rows), rng=rng)
    r = np.exp(-0.5 * (rows - fit.parameters["mean"].T) ** 2)
    np.testing.assert_allclose(fit.responsibilities, r / r.sum(axis=1, keepdims=True), atol=1e-9)
    np.testing.assert_allclose(fit.parameters["weights"], 0.5)
    np.testing.assert_allclose(np.sort(fit.parameters["mean"].ravel()), [0, 4], atol=0.3)


def test_gmm_complete():
    """With all labels known, one step is each class's own fit."""
    rows, labels = planted(2, 200)
    problem = MixtureProblem.of(gaussian(2), rows, 3, allowed=np.eye(3, dtype=bool)[labels])
    fit = fit_mixture(problem, MixtureOptions(restarts=1), rng=np.random.default_rng(0))
    for k in range(3):
        own = rows[labels == k]
        np.testing.assert_allclose(fit.parameters["mean"][k], own.mean(axis=0))
        np.testing.assert_allclose(fit.parameters["covariance"][k], np.cov(own.T, bias=True))
        assert fit.parameters["weights"][k] == pytest.approx(len(own) / 200)
    expected = sum(
        multivariate_normal(*(fit.parameters[n][z] for n in ("mean", "covariance"))).logpdf(x)
        for x, z in zip(rows, labels, strict=True)
    )
    counts = np.bincount(labels)
    assert fit.log_likelihood == pytest.approx(expected + counts @ np.log(counts / 200))


def test_gmm_as_bn():
    """The candy mixture as a net with a hidden root: inference by enumeration of the net gives the responsibilities."""
    from bayeslab.latents.networks.factors import FactorGraph
    from bayeslab.latents.networks.network import DiscreteNetwork

    theta = bags(0.55, [0.7, 0.6, 0.9], [0.3, 0.2, 0.4])
    states = {"bag": ("one", "two")} | dict.fromkeys("fwh", ("no", "yes"))
    tables = {"bag": theta["weights"]}
    for j, name in enumerate("fwh"):
        p = theta["probability"][:, j]
        tables[name] = np.stack([1 - p, p], axis=1)
    network = DiscreteNetwork(states, {"bag": (), "f": ("bag",), "w": ("bag",), "h": ("bag",)}, tables)
    graph = FactorGraph.of(network)
    r = candy().responsibilities(theta)[1]
    for row, expected in zip(CANDY.astype(int), r, strict=True):
        joint = np.ones(2)
        for scope, table in zip(graph.scopes, graph.tables, strict=True):
            index = tuple(slice(None) if name == "bag" else row["fwh".index(name)] for name in scope)
            joint = joint * table[index]
        np.testing.assert_allclose(joint / joint.sum(), expected)


def degenerate_data() -> np.ndarray:
    rows = planted(4, 200)[0]
    rows[:15] = [9.0, 9.0]
    return rows


def test_gmm_degenerate(fitted):
    """Both detectors fire where trouble is planted, and neither on good data."""
    from bayeslab.posterior.mixtures.problem import Collapse

    rows = degenerate_data()
    problem = MixtureProblem.of(gaussian(2), rows, 3)
    near = np.where(np.arange(200) < 15, 0, 1 + (rows[:, 0] > 0))
    start = start_from_labels(problem, near)
    with pytest.raises(Collapse) as caught:
        maximise(problem, start)
    assert caught.value.components.tolist() == [0]
    good, _, fit = fitted
    twin = {name: np.concatenate([value, value[:1]]) for name, value in fit.parameters.items()}
    twin["weights"][[0, 3]] = fit.parameters["weights"][0] / 2
    assert merging(MixtureProblem.of(gaussian(2), good, 4), twin) == [(0, 3)]
    assert merging(fit.problem, fit.parameters) == [] and fit.repaired == () and fit.warnings == ()
    assert not fit.problem.emission.degenerate(fit.parameters, fit.problem.variances).any()


def test_gmm_restart(fitted):
    """From merged and from collapsed components the repaired search finds the better optimum."""
    _, _, fit = fitted
    theta = {name: value.copy() for name, value in fit.parameters.items()}
    far = int(np.argmax(theta["mean"][:, 0]))
    near = (far + 1) % 3
    for name in ("mean", "covariance"):
        theta[name][near] = theta[name][far]
    options = MixtureOptions(restarts=1, repairs=0)
    left = fit_mixture(fit.problem, options, rng=np.random.default_rng(0), start=theta)
    assert left.warnings and left.log_likelihood < fit.log_likelihood - 20
    repaired = fit_mixture(fit.problem, replace(options, repairs=5), rng=np.random.default_rng(0), start=theta)
    assert repaired.log_likelihood == pytest.approx(fit.log_likelihood, abs=1e-3)
    assert "merged" in repaired.repaired[0] and not repaired.warnings
    rows = degenerate_data()
    problem = MixtureProblem.of(gaussian(2), rows, 3)
    start = start_from_labels(problem, np.where(np.arange(200) < 15, 0, 1 + (rows[:, 0] > 0)))
    end = fit_mixture(problem, replace(options, repairs=5), rng=np.random.default_rng(0), start=start)
    assert "collapsed" in end.repaired[0] and np.isfinite(end.log_likelihood)
    with refused("data.degenerate"):
        fit_mixture(problem, options, rng=np.random.default_rng(0), start=start)


def test_gmm_map_em():
    """A prior keeps a component off duplicated points; uniform priors give plain EM."""
    rows = degenerate_data()
    problem = MixtureProblem.of(gaussian(2), rows, 3)
    with_prior = replace(problem, emission=gaussian(2).with_prior(rows, 3))
    start = start_from_labels(with_prior, np.where(np.arange(200) < 15, 0, 1 + (rows[:, 0] > 0)))
    end = maximise(with_prior, start, tolerance=1e-9)
    np.testing.assert_allclose(end.parameters["mean"][0], [9, 9], atol=0.1)
    assert np.linalg.eigvalsh(end.parameters["covariance"][0])[0] > 1e-3
    assert np.all(np.diff(end.posterior_trace) >= -1e-8)
    rows, _ = planted(5, 150)
    flat_prior = NormalPrior(np.zeros(2), 0.0, -4.0, np.zeros((2, 2)))
    plain, uniform = (MixtureProblem.of(gaussian(2, prior=p), rows, 3, concentration=1.0) for p in (None, flat_prior))
    start = start_from_labels(plain, np.arange(150) % 3)
    a, b = (maximise(p, start, max_iterations=60, tolerance=0) for p in (plain, uniform))
    n = min(len(a.trace), len(b.trace))
    np.testing.assert_allclose(a.trace[:n], b.trace[:n], rtol=1e-10)


def test_gmm_init():
    """Starts from k-means need no more iterations than random ones, on average."""
    iterations = {}
    for start in ("k_means", "random"):
        total = 0
        for seed in range(6):
            problem = MixtureProblem.of(gaussian(2), planted(seed, 200)[0], 3)
            total += fit_mixture(
                problem,
                MixtureOptions(method="map", start=start, restarts=1, repairs=0),
                rng=np.random.default_rng(seed),
            ).iterations
        iterations[start] = total
    assert iterations["k_means"] < iterations["random"]


def test_gmm_bayes():
    """The posterior of weights and means concentrates on the planted mixture, up to the numbering."""
    rows, _ = planted(6, 600)
    problem = MixtureProblem.of(gaussian(2), rows, 3)
    start = fit_mixture(problem, MixtureOptions(restarts=3), rng=np.random.default_rng(0)).parameters
    draws = run(mixture_sampler(problem, lambda _: start), np.random.default_rng(1), 400, 100)
    order = np.argsort(draws["mean"][:, :, 0], axis=1)
    means = np.take_along_axis(draws["mean"], order[:, :, None], axis=1)
    weights = np.take_along_axis(draws["weights"], order, axis=1)
    assert np.all(np.abs(means.mean(axis=0) - MEANS) < 4 * means.std(axis=0))
    assert np.all(np.abs(weights.mean(axis=0) - WEIGHTS) < 4 * weights.std(axis=0))
    assert means.std(axis=0).max() < 0.15 and weights.std(axis=0).max() < 0.04


@pytest.mark.slow(why="statistical")
def test_gibbs_equals_the_posterior_by_enumeration():
    """Which rows belong together, summed over all labelings of a small case."""
    rng = np.random.default_rng(0)
    rows = np.array([[0.0], [0.4], [1.5], [3.0], [3.3]])
    emission = gaussian(1, prior=NormalPrior(np.array([1.5]), 0.2, 4.0, np.array([[1.0]])))
    together, total = np.zeros((5, 5)), -np.inf
    values = []
    for labels in itertools.product(range(2), repeat=5):
        r = np.eye(2)[list(labels)]
        counts = r.sum(axis=0)
        # Dirichlet(1, 1) integrated out.
        weight = np.log(np.array([np.prod(np.arange(1, c + 1)) for c in counts])).sum()
        values.append(weight + emission.log_marginal(emission.statistics(rows, r)).sum())
    total = logsumexp(values)
    for labels, value in zip(itertools.product(range(2), repeat=5), values, strict=True):
        together += np.exp(value - total) * np.equal.outer(labels, labels)
    problem = MixtureProblem.of(emission, rows, 2)
    start = {"weights": np.array([0.5, 0.5]), "mean": np.array([[0.0], [3.0]]), "covariance": np.ones((2, 1, 1))}
    draws = run(mixture_sampler(problem, lambda _: start, keeps_states=True), rng, 8000, 100)
    same = draws["states"][:, :, None] == draws["states"][:, None, :]
    batches = same.reshape(50, 160, 5, 5).mean(axis=1)
    error = batches.std(axis=0) / np.sqrt(50) + 1e-12
    assert np.all(np.abs(same.mean(axis=0) - together) < 4.5 * error)


# --------------------------------------------------------------------------------- variational


@pytest.mark.parametrize("name", [n for n in FAMILIES if not n.startswith(("tied", "student"))])
def test_em_variational(name):
    """The bound never decreases."""
    make, kind = FAMILIES[name]
    for seed in range(4):
        rows = rows_for(kind, np.random.default_rng(seed))
        problem = MixtureProblem.of(make(), rows, 3, row_weights=np.full(60, 2.0) if seed == 3 else None)
        fit = fit_variational(problem, rng=np.random.default_rng(seed), restarts=1, start="random", tolerance=1e-8)
        assert np.all(np.diff(fit.trace) > -1e-8 * abs(fit.elbo)), name


def test_the_bound_is_below_the_evidence():
    """Of small cases, by enumeration; with one component it is the evidence."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = rng.normal(0, 2, (5, 1))
        emission = gaussian(1, "diagonal").with_prior(rows, 2)
        for k in (1, 2):
            values = []
            for labels in itertools.product(range(k), repeat=5):
                r = np.eye(k)[list(labels)]
                log_factorials = sum(np.log(np.arange(1, c + 1)).sum() for c in r.sum(axis=0))
                prior = (
                    log_factorials
                    - (0 if k == 1 else np.log(np.arange(2, 7)).sum())
                    - (np.log(np.arange(1, 6)).sum() if k == 1 else 0)
                )
                values.append(prior + emission.log_marginal(emission.statistics(rows, r)).sum())
            exact = logsumexp(values)
            fit = fit_variational(MixtureProblem.of(emission, rows, k), rng=rng, restarts=3)
            assert fit.elbo <= exact + 1e-9
            if k == 1:
                assert fit.elbo == pytest.approx(exact, abs=1e-9)


@pytest.mark.slow(why="large")
def test_autoclass():
    """The evidence picks the planted number of components; so do BIC, ICL and held-out rows."""
    rows, labels = planted(7, 400)
    problem = MixtureProblem.of(gaussian(2), rows, 1)
    options = MixtureOptions(restarts=3)
    for criterion in ("evidence", "bic", "icl"):
        choice, fit = choose_components(
            problem, range(1, 6), criterion=criterion, rng=np.random.default_rng(0), options=options
        )
        assert choice.best == 3, criterion
        assert adjusted_rand_index(fit.labels, labels) > 0.95
    choice, _ = choose_components(
        problem, range(1, 5), criterion="held_out", rng=np.random.default_rng(0), options=options, folds=5
    )
    assert choice.simplest == 3 and choice.scores[2] > choice.scores[1] + 2 * choice.standard_errors[1]
    aic, fit = choose_components(problem, (1, 3), criterion="aic", rng=np.random.default_rng(0), options=options)
    assert aic.scores[1] == pytest.approx(fit.log_likelihood - 17)


def test_numbers_of_components_that_collapse_are_not_chosen():
    rows = np.random.default_rng(0).normal(size=(12, 2))
    for criterion in ("bic", "held_out"):
        choice, _ = choose_components(
            MixtureProblem.of(gaussian(2), rows, 1),
            (1, 6),
            criterion=criterion,
            rng=np.random.default_rng(0),
            options=MixtureOptions(restarts=2),
            folds=3,
        )
        assert choice.best == 1 and np.isneginf(choice.scores[1])
    with refused("data.degenerate"):
        choose_components(MixtureProblem.of(gaussian(2), rows, 1), [6], rng=np.random.default_rng(0))


def test_candy_scores():
    """Three parameters against seven: the source data's BIC and AIC."""
    for k, expected_bic, expected_aic in ((1, -2073.521942, -2066.160309), (2, -2003.537271, -1986.360127)):
        options = MixtureOptions(
            restarts=4, start="random", variant="accelerated", tolerance=1e-9, max_iterations=20_000
        )
        for criterion, expected in (("bic", expected_bic), ("aic", expected_aic)):
            choice, _ = choose_components(
                candy(), [k], criterion=criterion, rng=np.random.default_rng(0), options=options
            )
            assert choice.scores[0] == pytest.approx(expected, abs=2e-5)


# --------------------------------------------------------------------------------- hard clusters


def test_kmeans_vq():
    """The error never rises, and k-means is the limit of EM with equal tiny variances."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        points = rng.normal(size=(80, 2))
        found = k_means(points, 5, rng, centres=points[rng.choice(80, 5, replace=False)])
        assert np.all(np.diff(found.trace) <= 1e-9)
        assert found.error == pytest.approx(np.sum((points - found.centres[found.labels]) ** 2))
    points = np.random.default_rng(0).normal(size=(60, 2))
    centres = points[:4]
    found = k_means(points, 4, np.random.default_rng(0), centres=centres)
    for method in ("em", "hard"):
        problem = MixtureProblem.of(gaussian(2, "known", known=1e-5), points, 4, fixed_weights=np.full(4, 0.25))
        start = {"weights": np.full(4, 0.25), "mean": centres}
        fit = fit_mixture(
            problem, MixtureOptions(method=method, restarts=1, repairs=0), rng=np.random.default_rng(0), start=start
        )
        np.testing.assert_allclose(fit.parameters["mean"], found.centres, atol=1e-4)


def test_k_means_matches_scikit_learn():
    cluster = pytest.importorskip("sklearn.cluster")
    points = planted(1, 300)[0]
    centres = points[:4]
    other = cluster.KMeans(4, init=centres, n_init=1, algorithm="lloyd", tol=0).fit(points)
    assert k_means(points, 4, np.random.default_rng(0), centres=centres).error == pytest.approx(other.inertia_)


@pytest.mark.slow(why="statistical")
def test_seeds_follow_squared_distances():
    points = np.array([[0.0], [1.0], [3.0]])
    rng = np.random.default_rng(0)
    drawn = np.array([seeds(points, 2, rng) for _ in range(20_000)])
    second = [np.mean(drawn[drawn[:, 0] == 0][:, 1] == j) for j in range(3)]
    np.testing.assert_allclose(second, [0, 0.1, 0.9], atol=4 * np.sqrt(0.09 / 6000))


def test_leader_cluster():
    """One pass; a row far from all centres founds a cluster. On separated data it is the limit of a mixture whose
    components are equal, spherical and tiny, with a new one cheaper than a distance over the vigilance."""
    rows = np.array([[0.0], [0.2], [5.0], [5.3], [0.1], [9.0]])
    found = leader_clusters(rows, 1.0)
    assert found.labels.tolist() == [0, 0, 1, 1, 0, 2]
    np.testing.assert_allclose(found.centres.ravel(), [0.1, 5.15, 9.0])
    np.testing.assert_allclose(leader_clusters(rows, 1.0, rate=0.5).centres.ravel(), [0.1, 5.15, 9.0])
    assert len(leader_clusters(rows, 100.0).centres) == 1 and len(leader_clusters(rows, 0.05).centres) == 6
    # Hard assignment under the Chinese restaurant process (Kulis, Jordan 2012): variance s², prior of a new mean
    # Normal(0, ρ), concentration α = sqrt(1 + ρ / s²) exp(-λ² / 2 s²). As s goes to zero the most probable choice of
    # each row, one after the other, is the leader's with vigilance λ.
    rng = np.random.default_rng(0)
    for _ in range(20):
        points, vigilance, s = rng.uniform(0, 10, (15, 1)), 2.0, 1e-3
        labels, groups = [], []
        for x in points:
            log_p = [np.log(len(g)) - np.sum((x - np.mean(g, axis=0)) ** 2) / (2 * s**2) for g in groups]
            log_p.append(-(vigilance**2) / (2 * s**2))
            k = int(np.argmax(log_p))
            if k == len(groups):
                groups.append([])
            groups[k].append(x)
            labels.append(k)
        assert leader_clusters(points, vigilance).labels.tolist() == labels


def test_clustering_unsup():
    """Planted clusters are found, up to their names, by every method and by mixed columns with missing cells."""
    rows, labels = planted(8, 400)
    for method in ("em", "map", "hard"):
        fit = fit_mixture(
            MixtureProblem.of(gaussian(2), rows, 3), MixtureOptions(method=method), rng=np.random.default_rng(0)
        )
        assert adjusted_rand_index(fit.labels, labels) > 0.95, method
    rng = np.random.default_rng(9)
    kind = (rng.random(400) < np.array([0.1, 0.5, 0.9])[labels]).astype(float)
    count = rng.poisson(np.array([1.0, 6.0, 20.0])[labels]).astype(float)
    mixed = np.column_stack([rows, kind, count])
    mixed[rng.random(mixed.shape) < 0.1] = np.nan
    mixed = np.where(np.isnan(mixed).all(axis=1, keepdims=True), 0.0, mixed)
    parts = {
        "place": ((0, 1), gaussian(2)),
        "kind": ((2,), OneParameter("Bernoulli", 1)),
        "count": ((3,), OneParameter("Poisson", 1)),
    }
    fit = fit_mixture(MixtureProblem.of(Product(parts), mixed, 3), MixtureOptions(restarts=5), rng=rng)
    assert adjusted_rand_index(fit.labels, labels) > 0.9


# --------------------------------------------------------------------------------- experts


def bent(seed: int = 0, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(-3, 3, n))
    y = np.where(t < 0.5, 1 + 2 * t, 4 - t) + 0.2 * rng.normal(size=n)
    return np.column_stack([np.ones(n), t]), y


@pytest.mark.slow(why="large")
def test_mixture_of_experts_bayes():
    """A piecewise linear function is recovered, with a bound that never falls; EM gives the same pieces."""
    x, y = bent()
    rows = np.column_stack([x, y])
    problem = MixtureProblem.of(Regression(2), rows, 2, inputs=x)
    bayes = fit_variational(problem, rng=np.random.default_rng(0), restarts=4, tolerance=1e-4)
    assert np.all(np.diff(bayes.trace) > -1e-8 * abs(bayes.elbo))
    em = fit_mixture(
        replace(problem, latent=replace(problem.latent, gate_precision=0.01)),
        MixtureOptions(restarts=4),
        rng=np.random.default_rng(0),
    )
    assert np.all(np.diff(em.trace) > -1e-6)
    for theta in (bayes.mode(), em.parameters):
        order = np.argsort(-theta["coefficients"][:, 1])
        np.testing.assert_allclose(theta["coefficients"][order], [[1, 2], [4, -1]], atol=0.15)
        np.testing.assert_allclose(theta["variance"], 0.04, rtol=0.5)
        gate = np.exp(problem.latent.log_weights(theta))
        mean = np.sum(gate * (x @ theta["coefficients"].T), axis=1)
        truth = np.where(x[:, 1] < 0.5, 1 + 2 * x[:, 1], 4 - x[:, 1])
        away = np.abs(x[:, 1] - 0.5) > 0.4
        assert np.abs(mean - truth)[away].max() < 0.25
    # The gate says "first expert" left of the bend.
    first = int(np.argmax(em.parameters["coefficients"][:, 1]))
    assert em.responsibilities[x[:, 1] < 0.2, first].min() > 0.9


def test_the_gate_bound_is_below_the_evidence():
    """One input of ones, one component's evidence known: the bound with a gate stays below the exact evidence of a
    two-component mixture whose log odds of the weights are normal, by quadrature over them and enumeration of labels."""
    rng = np.random.default_rng(1)
    rows = np.column_stack([np.ones(5), rng.normal(0, 2, 5)])
    emission = Regression(1, prior=0.5, spread=10.0)
    problem = MixtureProblem.of(emission, rows, 2, inputs=np.ones((5, 1)), gate_precision=0.5)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    odds = nodes / np.sqrt(0.5)
    log_w = np.stack([-np.logaddexp(0, odds), -np.logaddexp(0, -odds)])
    values = []
    for labels in itertools.product(range(2), repeat=5):
        r = np.eye(2)[list(labels)]
        prior = logsumexp(r.sum(axis=0) @ log_w + np.log(weights / weights.sum()))
        values.append(prior + emission.log_marginal(emission.statistics(rows, r)).sum())
    fit = fit_variational(problem, rng=rng, restarts=5, tolerance=1e-9)
    assert logsumexp(values) - 5 < fit.elbo <= logsumexp(values)


def test_mixture_of_regressions_and_logistic_experts():
    rng = np.random.default_rng(2)
    n = 600
    x = np.column_stack([np.ones(n), rng.uniform(-2, 2, n)])
    z = rng.random(n) < 0.3
    y = np.where(z, 3 - 2 * x[:, 1], -1 + x[:, 1]) + 0.3 * rng.normal(size=n)
    fit = fit_mixture(MixtureProblem.of(Regression(2), np.column_stack([x, y]), 2), rng=rng)
    order = np.argsort(fit.parameters["coefficients"][:, 1])
    np.testing.assert_allclose(fit.parameters["coefficients"][order], [[3, -2], [-1, 1]], atol=0.12)
    np.testing.assert_allclose(fit.parameters["weights"][order], [0.3, 0.7], atol=0.07)
    success = (rng.random(n) < 1 / (1 + np.exp(-np.where(x[:, 1] > 0, 4 * x[:, 1] - 2, -4 * x[:, 1] - 2)))).astype(
        float
    )
    problem = MixtureProblem.of(Regression(2, "bernoulli"), np.column_stack([x, success]), 2, inputs=x)
    experts = fit_mixture(problem, MixtureOptions(restarts=3, max_iterations=200), rng=rng)
    alone = fit_mixture(problem.sized(1), MixtureOptions(restarts=1), rng=rng)
    assert experts.log_likelihood > alone.log_likelihood + 30
    assert np.all(np.diff(experts.trace) > -1e-6)


# --------------------------------------------------------------------------------- labels


def test_semi_supervised():
    """A few labels and many rows without beat the labels alone."""
    wins = 0
    for seed in range(5):
        rows, labels = planted(20 + seed, 300)
        rng = np.random.default_rng(seed)
        rows = rows + 1.2 * rng.normal(size=rows.shape)
        known = np.concatenate([rng.choice(np.flatnonzero(labels == k), 4, replace=False) for k in range(3)])
        allowed = np.ones((300, 3), bool)
        allowed[known] = np.eye(3, dtype=bool)[labels[known]]
        both = fit_mixture(
            MixtureProblem.of(gaussian(2), rows, 3, allowed=allowed), MixtureOptions(restarts=3), rng=rng
        )
        assert np.array_equal(both.labels[known], labels[known])
        only = MixtureProblem.of(gaussian(2).with_prior(rows, 3), rows[known], 3, allowed=allowed[known])
        alone = fit_mixture(only, MixtureOptions(restarts=1), rng=rng)
        other = (
            replace(alone.problem, rows=rows, latent=alone.problem.latent.on())
            .responsibilities(alone.parameters)[1]
            .argmax(axis=1)
        )
        rest = np.setdiff1d(np.arange(300), known)
        wins += np.mean(both.labels[rest] == labels[rest]) > np.mean(other[rest] == labels[rest])
    assert wins >= 4


@pytest.mark.slow(why="statistical")
def test_label_noise():
    """Reported age groups with a known misreporting rate: the posterior covers the rate."""
    rng = np.random.default_rng(3)
    n, rate = 800, 0.25
    adult = rng.random(n) < 0.6
    height = np.where(adult, 172.0, 150.0) + 8 * rng.normal(size=n)
    reported = np.where(adult, 1.0, (rng.random(n) < rate).astype(float))
    prior = np.array([[[4.0, 2.0]], [[2.0, 40.0]]])
    parts = {"height": ((0,), gaussian(1)), "report": ((1,), Categorical((2,), prior))}
    problem = MixtureProblem.of(Product(parts), np.column_stack([height, reported]), 2)
    start = start_from_labels(problem, reported.astype(int))
    fit = fit_mixture(problem, MixtureOptions(restarts=1), rng=rng, start=start)
    confusion = fit.parameters["report.probability"][:, 0]
    assert confusion[0, 1] == pytest.approx(rate, abs=0.1)
    full = replace(problem, emission=problem.emission.with_prior(problem.rows, 2))
    draws = run(mixture_sampler(full, lambda _: fit.parameters), rng, 800, 200)
    low, high = np.quantile(draws["report.probability"][:, 0, 0, 1], [0.025, 0.975])
    assert low < rate < high and high - low < 0.25
    # Taking reports at face value says that nobody misreports; the true labels are found better than that.
    assert np.mean(fit.labels == adult) > np.mean(reported == adult)


def test_label_noise_of_rounded_ages():
    """Ages reported to the nearest ten by some: the exact posterior of their share covers it."""
    rng = np.random.default_rng(4)
    ages, share = np.arange(20, 60), 0.3
    p = np.exp(-0.5 * ((ages - 38) / 12) ** 2)
    p /= p.sum()
    true = rng.choice(ages, 500, p=p)
    reported = np.where(rng.random(500) < share, 10 * ((true + 5) // 10), true)
    rounded = {d: p[10 * ((ages + 5) // 10) == d].sum() for d in range(20, 70, 10)}
    honest = dict(zip(ages, p, strict=True))
    with np.errstate(divide="ignore"):
        logs = np.log([[honest.get(a, 0.0), rounded.get(a, 0.0)] for a in reported])
    grid = np.linspace(0.001, 0.999, 999)
    posterior = np.array([log_evidence(np.log([1 - q, q]), logs).sum() for q in grid])
    posterior = np.exp(posterior - posterior.max())
    cdf = np.cumsum(posterior) / posterior.sum()
    low, high = np.interp([0.025, 0.975], cdf, grid)
    assert low < share < high and high - low < 0.15


# --------------------------------------------------------------------------------- bad input


def test_bad_input_is_refused_in_one_line():
    rows = planted(0, 20)[0]
    missing = rows.copy()
    missing[3] = np.nan
    cases = [
        ("data.too-few", "20.*21", MixtureProblem.of(gaussian(2), rows, 21)),
        ("option.out-of-range", "component.*0", MixtureProblem.of(gaussian(2), rows, 0)),
        ("data.missing", "row 3", MixtureProblem.of(gaussian(2), missing, 2)),
        ("data.constant", "column 1", MixtureProblem.of(gaussian(2), rows * [1, 0], 2)),
        ("data.no-rows", "", MixtureProblem.of(gaussian(2), rows[:0], 2)),
        ("data.dependent-columns", "columns 0, 1", MixtureProblem.of(gaussian(2), rows[:, [0, 0]] * [1, -3], 2)),
        ("data.no-values", "column 1", MixtureProblem.of(gaussian(2), rows * [1, np.nan], 2)),
        ("data.nothing-observed", "weights", MixtureProblem.of(gaussian(2), rows, 2, row_weights=np.zeros(20))),
        ("option.not-probabilities", "2", MixtureProblem.of(gaussian(2), rows, 2, fixed_weights=np.array([0.5]))),
        ("data.wrong-length", "row_weights.*3", MixtureProblem.of(gaussian(2), rows, 2, row_weights=np.ones(3))),
        ("data.out-of-range", "weights", MixtureProblem.of(gaussian(2), rows, 2, row_weights=-np.ones(20))),
        (
            "data.not-allowed",
            "allowed|component",
            MixtureProblem.of(gaussian(2), rows, 2, allowed=np.zeros((20, 2), bool)),
        ),
        ("data.degenerate", "", MixtureProblem.of(gaussian(2), np.repeat(rows[:3], 7, axis=0), 2)),
    ]
    for code, match, problem in cases:
        with refused(code, match):
            fit_mixture(problem, rng=np.random.default_rng(0))
    good = MixtureProblem.of(gaussian(2), rows, 2)
    for options in (MixtureOptions(method="me"), MixtureOptions(start="rondom"), MixtureOptions(restarts=0)):
        with pytest.raises(OptionError):
            fit_mixture(good, options, rng=np.random.default_rng(0))
    with refused("option.not-conjugate"):
        fit_variational(replace(good, emission=StudentT(2)), rng=np.random.default_rng(0))
    with refused("option.unknown-word", "criterion"):
        choose_components(good, [1], criterion="bick", rng=np.random.default_rng(0))
    with refused("option.out-of-range", "vigilance"):
        leader_clusters(rows, 0.0)
    with refused("data.missing"):
        k_means(missing, 2, np.random.default_rng(0))


def test_an_interrupted_fit_keeps_what_it_has():
    rows, _ = planted(0, 100)
    seen = []

    def progress(search, iteration, theta, value):
        seen.append((search, value))
        if search == 1 and iteration == 2:
            raise KeyboardInterrupt

    fit = fit_mixture(MixtureProblem.of(gaussian(2), rows, 3), rng=np.random.default_rng(0), progress=progress)
    assert fit.ends.shape == (2,) and {s for s, _ in seen} == {0, 1}
    assert "interrupted in search 2 of 10" in fit.warnings
    assert fit.log_posterior == max(value for _, value in seen)


def test_two_runs_agree():
    rows, _ = planted(0, 100)
    a, b = (fit_mixture(MixtureProblem.of(gaussian(2), rows, 3), rng=np.random.default_rng(3)) for _ in range(2))
    assert a.log_likelihood == b.log_likelihood and np.array_equal(a.labels, b.labels)
