"""EM and its accelerations: the candy bags' published iterates, and properties on random problems."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import binom

import bayeslab as bl
from bayeslab.latents.expectation_maximisation import VARIANTS, maximise, restarted, standard_errors
from bayeslab.latents.networks.learning import TableProblem, maximum_likelihood
from bayeslab.latents.networks.local_models import FreeTable, NoisyOr
from bayeslab.latents.networks.network import DiscreteNetwork
from tests.refusals import refused

# Russell and Norvig (2003), section 20.3: 1,000 candies, the bag not recorded.
CANDIES = np.array([273.0, 93, 104, 90, 79, 100, 94, 167])
ROWS = np.array([[-1, f, w, h] for f in (0, 1) for w in (0, 1) for h in (0, 1)])
SATURATED = -1979.360127
INDEPENDENT = -2063.160309
# iteration: log likelihood, then theta, F1, W1, H1, F2, W2, H2
ITERATES = {
    0: (-2044.260365, 0.6, 0.6, 0.6, 0.6, 0.4, 0.4, 0.4),
    1: (-2021.026239, 0.612431, 0.668408, 0.648312, 0.655848, 0.388695, 0.381748, 0.382741),
    2: (-2003.025050, 0.606155, 0.703582, 0.677245, 0.687990, 0.339017, 0.341466, 0.337624),
    3: (-1990.967733, 0.599072, 0.735150, 0.701727, 0.716208, 0.298288, 0.310815, 0.301649),
    5: (-1983.806634, 0.586030, 0.774042, 0.726225, 0.748220, 0.256994, 0.288452, 0.269393),
    9: (-1982.220456, 0.564659, 0.801995, 0.735636, 0.765699, 0.246120, 0.297736, 0.270228),
    10: (-1982.017785, 0.559853, 0.806031, 0.737062, 0.767898, 0.247057, 0.300704, 0.272840),
    20: (-1980.698817, 0.520039, 0.832397, 0.752796, 0.785562, 0.264858, 0.319852, 0.294768),
    120: (-1979.363198, 0.424313, 0.890036, 0.795324, 0.833966, 0.316745, 0.360497, 0.340701),
}
LIMIT = (0.419424, 0.893377, 0.797449, 0.836496, 0.319159, 0.362624, 0.343027)
EXACT = [name for name in VARIANTS if name != "stochastic"]


def candy_network():
    states = {
        "Bag": ("1", "2"),
        "Flavor": ("cherry", "lime"),
        "Wrapper": ("red", "green"),
        "Hole": ("yes", "no"),
    }
    parents = dict.fromkeys(("Flavor", "Wrapper", "Hole"), ("Bag",))
    return DiscreteNetwork(states, parents, candy_tables(0.5, 0.8, 0.8, 0.8, 0.3, 0.3, 0.3))


def candy_tables(theta, f1, w1, h1, f2, w2, h2):
    out = {"Bag": np.array([theta, 1 - theta])}
    for name, a, b in (("Flavor", f1, f2), ("Wrapper", w1, w2), ("Hole", h1, h2)):
        out[name] = np.array([[a, 1 - a], [b, 1 - b]])
    return out


def seven(theta):
    first = [theta["Bag"][0]]
    return first + [theta[v][bag, 0] for bag in (0, 1) for v in ("Flavor", "Wrapper", "Hole")]


@pytest.fixture(scope="module")
def candy():
    return TableProblem.of(candy_network(), ROWS, weights=CANDIES)


@pytest.mark.slow(why="compiles")
def test_bn_em_all_published_iterates(candy):
    seen = {}
    result = maximise(
        candy, candy_tables(*ITERATES[0][1:]), tolerance=0.0, max_iterations=120,
        progress=lambda i, theta, value: seen.update({i: (value, *seven(theta))}),
    )  # fmt: skip
    for i, want in ITERATES.items():
        np.testing.assert_allclose(seen[i], want, atol=6e-7)
    assert result.iterations == 120 and not result.converged and result.reason == "stopped after 120 iterations"
    np.testing.assert_allclose(result.trace, [seen[i][0] for i in range(121)])


def test_bn_em_locality():
    """Family posteriors are enough: the same iterates as completing every row with its full joint posterior."""
    problem = random_problem(3)
    names = list(problem.network.states)
    local = {v: FreeTable(t) for v, t in problem.network.tables.items()}
    problem = TableProblem.of(problem.network, problem.codes, local)
    theta = problem.start(np.random.default_rng(0))
    by_family = maximise(problem, theta, tolerance=0.0, max_iterations=4)
    for _ in range(4):
        whole = np.zeros([len(problem.network.states[v]) for v in names])
        axes = {v: [names.index(p) for p in (*problem.network.parents[v], v)] for v in names}
        joint = np.ones(whole.shape)
        for v in names:
            order = np.argsort(axes[v])
            joint = joint * np.transpose(theta[v], order).reshape(
                [whole.shape[i] if i in axes[v] else 1 for i in range(len(names))]
            )
        for row in problem.codes:
            at = tuple(slice(None) if c < 0 else slice(c, c + 1) for c in row)
            whole[at] += joint[at] / joint[at].sum()
        theta = {}
        for v in names:
            counts = whole.sum(axis=tuple(i for i in range(len(names)) if i not in axes[v]))
            counts = np.transpose(counts, np.argsort(np.argsort(axes[v])))
            theta[v] = counts / counts.sum(axis=-1, keepdims=True)
    for v in names:
        np.testing.assert_allclose(by_family.parameters[v], theta[v], atol=1e-12)


def test_responsibilities_of_the_candies(candy):
    """P(bag 1 | a candy) at the start, for each kind of candy; the first adds 0.22797 to theta."""
    want = [0.835052, 0.692308, 0.692308, 0.5, 0.692308, 0.5, 0.5, 0.307692]
    tables = candy_tables(*ITERATES[0][1:])
    for row, p in zip(ROWS, want, strict=True):
        one = TableProblem.of(candy_network(), row[None])
        assert one.expect(tables)[1]["Bag"][0] == pytest.approx(p, abs=6e-7)
    assert CANDIES[0] * want[0] / 1000 == pytest.approx(0.227969, abs=6e-7)


def test_the_true_parameters_are_passed_by_the_tenth_iteration(candy):
    truth = candy.expect(candy.network.tables)[0]
    assert truth == pytest.approx(-1982.213774, abs=6e-7)
    trace = maximise(candy, candy_tables(*ITERATES[0][1:]), tolerance=0.0, max_iterations=10).trace
    assert trace[9] < truth < trace[10]


def test_the_limit_is_the_saturated_fit(candy):
    """Seven parameters for seven free cells: no run can exceed the cell frequencies."""
    saturated = float(CANDIES @ np.log(CANDIES / 1000))
    assert saturated == pytest.approx(SATURATED, abs=6e-7)
    result = maximise(candy, candy_tables(*ITERATES[0][1:]), variant="newton", tolerance=1e-9)
    assert result.log_likelihood == pytest.approx(saturated, abs=1e-7) and result.log_likelihood <= saturated + 1e-9
    np.testing.assert_allclose(seven(result.parameters), LIMIT, atol=1e-4)


# A step along the gradient moves the bags by their shares, and so parts them where these differ.
@pytest.mark.parametrize(("variant", "p"), [(v, p) for v in EXACT for p in (0.5, 0.6) if (v, p) != ("gradient", 0.6)])
def test_a_symmetric_start_stays_on_the_saddle(candy, variant, p):
    result = maximise(candy, candy_tables(*[p] * 7), variant=variant)
    assert result.trace[0] == pytest.approx({0.5: -2079.441542, 0.6: -2077.827442}[p], abs=6e-7)
    assert result.log_likelihood == pytest.approx(INDEPENDENT, abs=1e-6) and result.converged
    if variant == "em":
        np.testing.assert_allclose(seven(result.parameters), [p, 0.56, 0.545, 0.55, 0.56, 0.545, 0.55], atol=1e-12)


@pytest.mark.parametrize(("p", "curve"), [(0.5, 994.81), (0.6, 929.55)])
def test_the_symmetric_point_is_a_saddle(candy, p, curve):
    """Gradient zero; the Hessian in the seven probabilities has one positive eigenvalue, of the published size."""
    x0 = np.array([p, 0.56, 0.545, 0.55, 0.56, 0.545, 0.55])

    def slope(x):
        g = candy.slope(theta := candy_tables(*x), candy.expect(theta)[1])
        first = [g["Bag"][0] - g["Bag"][1]]
        return np.array(first + [g[v][bag, 0] - g[v][bag, 1] for bag in (0, 1) for v in ("Flavor", "Wrapper", "Hole")])

    np.testing.assert_allclose(slope(x0), 0, atol=1e-9)
    h = 1e-5
    hessian = np.array([(slope(x0 + h * e) - slope(x0 - h * e)) / (2 * h) for e in np.eye(7)])
    values = np.linalg.eigvalsh((hessian + hessian.T) / 2)
    assert (values > 1).sum() == 1
    assert values[-1] == pytest.approx(curve, abs=0.01)


@pytest.mark.parametrize("variant", EXACT)
def test_random_restarts_reach_the_maximum(candy, variant):
    found = restarted(
        candy, candy.start, restarts=5, rng=np.random.default_rng(3), variant=variant, max_iterations=5000
    )
    assert found.best.log_likelihood == pytest.approx(SATURATED, abs=1e-4)
    assert len(found.ends) == 5 and found.reaching(0.01) >= 1
    assert found.best.log_posterior == max(end.log_posterior for end in found.ends)


def test_restarts_do_not_depend_on_the_number_of_cores(candy):
    ends = [
        restarted(candy, candy.start, restarts=4, rng=np.random.default_rng(5), cores=cores, variant="accelerated").ends
        for cores in (1, 3)
    ]
    for one, other in zip(*ends, strict=True):
        np.testing.assert_array_equal(one.trace, other.trace)


def random_problem(seed, prior=False):
    """A chain with a hidden root and a fifth of the cells missing; one family is a noisy-OR."""
    rng = np.random.default_rng(seed)
    states = dict.fromkeys("abcde", ("0", "1")) | {"h": ("x", "y", "z")}
    parents = {"a": ("h",), "b": ("h", "a"), "c": ("h",), "d": ("a", "c"), "e": ("a", "b", "d")}
    network = DiscreteNetwork(
        states,
        parents,
        {
            v: rng.dirichlet(np.ones(len(own)), size=tuple(len(states[p]) for p in parents.get(v, ())))
            for v, own in states.items()
        },
    )
    codes = np.stack([rng.integers(0, len(s), 60) for s in states.values()], axis=1)
    codes[rng.random(codes.shape) < 0.2] = -1
    codes[:, 5] = -1
    local = {v: FreeTable(t, 1.5 if prior else 1.0) for v, t in network.tables.items() if v not in "ce"}
    local["e"] = NoisyOr.of((2, 2, 2, 2), leak=True, prior=np.full((2, 4), 1.5) if prior else None)
    return TableProblem.of(network, codes, local)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("variant", EXACT)
def test_no_step_lowers_the_log_posterior(variant, prior):
    for seed in range(3):
        problem = random_problem(seed, prior)
        start = problem.start(np.random.default_rng(seed))
        result = maximise(problem, start, variant=variant, max_iterations=300)
        assert (np.diff(result.posterior_trace) >= 0).all() and result.posterior_trace[-1] > result.posterior_trace[0]
        assert result.log_posterior == result.posterior_trace[-1]
        assert result.trace[-1] == pytest.approx(problem.expect(result.parameters)[0], rel=1e-12)
        assert problem.log_prior(result.parameters) == pytest.approx(result.log_posterior - result.log_likelihood)
        np.testing.assert_array_equal(problem.network_at(result.parameters).tables["c"], problem.network.tables["c"])


@pytest.mark.parametrize("prior", [False, True])
def test_bn_gradient_is_that_of_finite_differences(prior):
    problem = random_problem(7, prior)
    theta = problem.start(np.random.default_rng(0))
    x, h = problem.flatten(theta), 1e-5
    found = problem.gradient(theta, problem.expect(theta)[1])

    def value(x):
        there = problem.unflatten(x)
        return problem.expect(there)[0] + problem.log_prior(there)

    for i in range(x.size):
        step = h * np.eye(x.size)[i]
        assert found[i] == pytest.approx((value(x + step) - value(x - step)) / (2 * h), rel=1e-5, abs=1e-5)
    slope = problem.slope(theta, problem.expect(theta)[1])
    raw = dict(theta)
    for v in ("a", "e"):
        for index in np.ndindex(theta[v].shape):
            sides = []
            for s in (h, -h):
                raw[v] = theta[v].copy()
                raw[v][index] += s
                sides.append(problem.rows.expected_counts(problem.tables(raw))[0] + problem.log_prior(raw))
                raw[v] = theta[v]
            if v == "e" or not prior:  # off the simplex a Dirichlet density is not defined
                assert slope[v][index] == pytest.approx((sides[0] - sides[1]) / (2 * h), rel=1e-4, abs=1e-4)


def test_bn_gradient_ascent_has_the_optimum_of_em(candy):
    start = candy_tables(*ITERATES[0][1:])
    climbed = maximise(candy, start, variant="gradient", tolerance=1e-8, max_iterations=5000)
    other = maximise(candy, start, tolerance=1e-8, max_iterations=5000)
    assert climbed.converged and climbed.log_likelihood == pytest.approx(other.log_likelihood, abs=1e-6)
    np.testing.assert_allclose(seven(climbed.parameters), seven(other.parameters), atol=2e-3)
    assert (np.diff(climbed.trace) >= 0).all()


def test_dividing_by_the_sum_is_no_ascent():
    """Why we project: w + eta n / w, divided by its sum, rests where w is as the square roots of the counts."""
    n, w = np.array([90.0, 10]), np.array([0.5, 0.5])
    for _ in range(20_000):
        w = w + 1e-4 * n / w
        w = w / w.sum()
    np.testing.assert_allclose(w, np.sqrt(n) / np.sqrt(n).sum(), atol=1e-6)
    table = FreeTable(np.zeros(2))
    w = np.array([0.5, 0.5])
    for _ in range(2000):
        w = table.project(w + 1e-4 * table.slope(w, n))
    np.testing.assert_allclose(w, n / n.sum(), atol=1e-9)


def test_bn_em_gradient_hybrid_needs_fewer_passes(candy):
    start = candy_tables(*ITERATES[0][1:])
    plain, hybrid, fast = (
        maximise(candy, start, variant=v, tolerance=1e-6, max_iterations=5000) for v in ("em", "newton", "accelerated")
    )
    for result in (plain, hybrid, fast):
        assert result.converged and result.log_likelihood == pytest.approx(SATURATED, abs=2e-6)
    assert hybrid.evaluations < plain.evaluations / 3
    assert fast.evaluations < plain.evaluations / 2


def test_bn_em_missing_with_nothing_missing_is_counting():
    rng = np.random.default_rng(9)
    problem = random_problem(9)
    codes = np.stack([rng.integers(0, len(s), 500) for s in problem.network.states.values()], axis=1)
    whole = TableProblem.of(problem.network, codes)
    step = whole.update(whole.expect(whole.start(rng))[1], whole.start(rng))
    want = maximum_likelihood(codes, problem.network.states, problem.network.parents)
    for v, table in want.network.tables.items():
        np.testing.assert_allclose(step[v], table, atol=1e-12)
    result = maximise(whole, whole.start(rng))
    assert result.converged and result.iterations <= 3
    assert result.log_likelihood == pytest.approx(want.log_likelihood, rel=1e-12)


def test_bn_em_missing_is_the_maximum_of_the_observed_likelihood():
    """Against scipy on the log likelihood written out by hand: A -> B, cells of either missing."""
    rows = {(0, 0): 30, (0, 1): 10, (1, 0): 5, (1, 1): 25, (0, -1): 12, (1, -1): 7, (-1, 0): 20, (-1, 1): 9}
    network = DiscreteNetwork(
        {"a": ("0", "1"), "b": ("0", "1")}, {"b": ("a",)}, {"a": np.full(2, 0.5), "b": np.full((2, 2), 0.5)}
    )
    problem = TableProblem.of(network, np.array(list(rows)), weights=np.array(list(rows.values()), dtype=float))
    result = maximise(problem, problem.start(np.random.default_rng(0)), tolerance=1e-10)

    def falling(x):
        p, q0, q1 = expit(x)
        joint = {(0, 0): (1 - p) * (1 - q0), (0, 1): (1 - p) * q0, (1, 0): p * (1 - q1), (1, 1): p * q1}
        total = 0.0
        for (a, b), n in rows.items():
            total += n * np.log(sum(v for k, v in joint.items() if a in (k[0], -1) and b in (k[1], -1)))
        return -total

    want = minimize(falling, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    assert result.log_likelihood == pytest.approx(-want.fun, abs=1e-8)
    p, q0, q1 = expit(want.x)
    assert result.parameters["a"][1] == pytest.approx(p, abs=1e-4)
    np.testing.assert_allclose(result.parameters["b"][:, 1], [q0, q1], atol=1e-4)


def test_map_em_with_complete_data_is_the_mode_of_the_posterior():
    """(n + alpha - 1) over its sum, after one step."""
    network = DiscreteNetwork({"a": ("0", "1", "2")}, {}, {"a": np.full(3, 1 / 3)})
    problem = TableProblem.of(
        network, np.array([[0], [2], [2]]), {"a": FreeTable(np.zeros(3), np.array([2.0, 3, 1.5]))}
    )
    result = maximise(problem, problem.start(np.random.default_rng(0)))
    np.testing.assert_allclose(result.parameters["a"], np.array([2, 2, 2.5]) / 6.5, rtol=1e-12)


def test_stochastic_em_ends_near_the_maximum(candy):
    """Gibbs draws of the bags; near in log likelihood: the draws' noise is averaged out."""
    result = maximise(
        candy, candy_tables(*ITERATES[0][1:]), variant="stochastic", max_iterations=400, rng=np.random.default_rng(1)
    )
    assert result.log_likelihood > SATURATED - 1.0 and result.converged
    with refused("option.incomplete", "variant.*stochastic"):
        maximise(candy, candy_tables(*ITERATES[0][1:]), variant="stochastic")


def test_gibbs_draws_have_the_expected_counts(candy):
    """Means of the chain's counts against exact expectations, in standard errors (batch means)."""
    theta = candy.network.tables
    chain = candy.chain(theta, np.random.default_rng(2))
    draws = np.array([chain(theta)["Bag"][0] for _ in range(400)])
    exact = candy.expect(theta)[1]["Bag"][0]
    assert abs(draws.mean() - exact) < 4 * draws.std() / np.sqrt(len(draws))
    # The bags of different candies are independent: the variance of one sweep's count is known, two are averaged.
    p = [TableProblem.of(candy.network, row[None]).expect(theta)[1]["Bag"][0] for row in ROWS]
    variance = sum(binom(n, q).var() for n, q in zip(CANDIES, p, strict=True)) / 2
    assert draws.var() == pytest.approx(variance, rel=4 * np.sqrt(2 / len(draws)))


def test_standard_errors_of_complete_data_are_binomial():
    codes = np.repeat([[0], [1]], [30, 70], axis=0)
    network = DiscreteNetwork({"a": ("0", "1")}, {}, {"a": np.full(2, 0.5)})
    problem = TableProblem.of(network, codes)
    found = standard_errors(problem, maximise(problem, problem.start(np.random.default_rng(0))).parameters)
    np.testing.assert_allclose(found["a"], np.sqrt(0.3 * 0.7 / 100), rtol=1e-5)


def test_standard_errors_of_the_candies_are_those_of_the_observed_information(candy):
    """Against the Hessian of the log likelihood in the seven probabilities, from values alone."""
    best = maximise(candy, candy_tables(*ITERATES[0][1:]), variant="newton", tolerance=1e-10)
    found = standard_errors(candy, best.parameters)
    x, h = np.array(seven(best.parameters)), 1e-3

    def value(x):
        return candy.expect(candy_tables(*x))[0]

    hessian = np.empty((7, 7))
    for i in range(7):
        for j in range(7):
            a, b = h * np.eye(7)[i], h * np.eye(7)[j]
            hessian[i, j] = (value(x + a + b) - value(x + a - b) - value(x - a + b) + value(x - a - b)) / (4 * h * h)
    want = np.sqrt(np.diag(np.linalg.inv(-hessian)))
    np.testing.assert_allclose(seven(found), want, rtol=2e-2)


def test_there_are_no_standard_errors_at_a_saddle(candy):
    assert np.isnan(standard_errors(candy, candy_tables(0.5, *[0.56, 0.545, 0.55] * 2))["Bag"]).all()


def test_interrupting_keeps_what_there_is(candy):
    def stop(i, theta, value):
        if i == 5:
            raise KeyboardInterrupt

    for variant in EXACT:
        result = maximise(candy, candy_tables(*ITERATES[0][1:]), variant=variant, progress=stop)
        assert result.reason == "interrupted" and result.iterations == 5 and not result.converged
    found = restarted(
        candy, candy.start, restarts=3, rng=np.random.default_rng(0), progress=lambda k, *rest: stop(5 * k, *rest[1:])
    )
    assert found.interrupted and len(found.ends) == 2


def test_what_cannot_be_done_is_said():
    problem = random_problem(0)
    with refused("option.unknown-word", "'squarem'"):
        maximise(problem, problem.start(np.random.default_rng(0)), variant="squarem")

    class Plain:
        expect, update, log_prior = problem.expect, problem.update, problem.log_prior

    with refused("option.not-suited", "variant.*newton"):
        maximise(Plain(), problem.start(np.random.default_rng(0)), variant="newton")
    with refused("model.unknown-variable", "'z'"):
        TableProblem.of(problem.network, problem.codes, {"z": FreeTable(np.zeros(2))})
    impossible = DiscreteNetwork({"a": ("0", "1")}, {}, {"a": np.array([1.0, 0.0])})
    with refused("option.probability-zero"):
        maximise(TableProblem.of(impossible, np.array([[1]]), {}), {})


@pytest.mark.parametrize("variant", ["accelerated", "newton"])
@pytest.mark.slow(why="statistical")
def test_searches_do_not_climb_on_rounding(variant):
    """Counts without excess: the likelihood of negative binomial states rises to that of Poisson ones, never above.

    Differences of log gamma functions of huge numbers are noise, on which a search climbed 0.003.
    """
    rng = np.random.default_rng(5)
    state = np.cumsum(rng.random(150) < 0.1) % 2
    table = {"k": rng.poisson(1 + 4 * state)}
    heights = {}
    for emission in ("poisson", "NegativeBinomial"):
        model = bl.Model(model={"family": "hmm", "columns": ["k"], "states": 2, "emission": emission})
        fit = bl.fit(model, table, "em", prior="ignore", variant=variant, seed=1, runs=None, progress=False)
        heights[emission] = fit.posterior.attrs["log_likelihood"]
    assert heights["NegativeBinomial"] < heights["poisson"] + 1e-5


@pytest.mark.parametrize("variant", ["accelerated", "newton"])
@pytest.mark.slow(why="statistical")
def test_learned_degrees_of_freedom_stay_where_they_are_looked_for(variant):
    rng = np.random.default_rng(5)
    state = np.cumsum(rng.random(150) < 0.1) % 2
    rows = np.column_stack([2 * state + rng.normal(size=150), rng.normal(size=150)])
    model = bl.Model(model={"family": "mixture", "columns": ["y", "x"], "components": 2, "component": "student_t"})
    table = {"y": rows[:, 0], "x": rows[:, 1]}
    fit = bl.fit(model, table, "em", prior="ignore", variant=variant, seed=1, runs=None, progress=False)
    found = {name: fit.posterior[name].to_numpy()[0, 0] for name in ("weights", "location", "scale_matrix", "dof")}
    assert np.all((found["dof"] >= 0.5) & (found["dof"] <= 200))
    each = [
        np.log(w) + stats.multivariate_t.logpdf(rows, m, s, df=d)
        for w, m, s, d in zip(*(found[n] for n in ("weights", "location", "scale_matrix", "dof")), strict=True)
    ]
    assert fit.posterior.attrs["log_likelihood"] == pytest.approx(np.logaddexp(*each).sum(), abs=1e-6)
