"""Dirichlet and Pitman-Yor processes: the restaurant, the stick, and chains over partitions against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln, logsumexp
from scipy.stats import gamma, multivariate_t

from bayeslab.compiled import kernel
from bayeslab.distributions.emissions import Categorical, OneParameter, Product, StudentT, gaussian
from bayeslab.latents.labels.clusters import adjusted_rand_index, canonical
from bayeslab.latents.partitions import dirichlet_process_kernels as kernels
from bayeslab.latents.partitions.dirichlet_process import (
    Moves,
    ProcessPrior,
    ProcessProblem,
    advance,
    empirical_concentration,
    expected_tables,
    log_partition_probability,
    restaurant,
    seated,
    start,
    stick_breaking,
    table_probabilities,
    truncation_bound,
)
from bayeslab.latents.sampler import frozen, thawed
from tests.latents._enumeration import partitions
from tests.refusals import refused


def one_by_one(labels, alpha, discount):
    """The probability of a seating plan, guest by guest."""
    p, sizes = 1.0, []
    for i, table in enumerate(labels):
        if table == len(sizes):
            p *= (alpha + discount * len(sizes)) / (alpha + i) if i else 1.0
            sizes.append(1)
        else:
            p *= (sizes[table] - discount) / (alpha + i)
            sizes[table] += 1
    return p


def small(name: str, n: int = 6):
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(n, 2)) * 3
    holes = normal.copy()
    holes[[1, 4], [0, 1]] = np.nan
    counts = np.array([[2.0], [2], [9], [12], [3], [1], [10], [4]])[:n]
    codes = np.column_stack([rng.integers(0, 3, n), rng.integers(0, 2, n)]).astype(float)
    mixed = Product(
        {"x": ((0,), gaussian(1)), "c": ((2, 3), Categorical((3, 2))), "n": ((1,), OneParameter("Poisson", 1))}
    )
    both = Product({"x": ((0, 1), gaussian(2)), "c": ((2, 3), Categorical((3, 2)))})
    return {
        "one normal": (gaussian(1, "diagonal"), normal[:, :1]),
        "full": (gaussian(2), normal),
        "full, three columns": (gaussian(3), np.column_stack([normal, rng.normal(size=n)])),
        "diagonal": (gaussian(2, "diagonal"), normal),
        "diagonal, missing": (gaussian(2, "diagonal"), holes),
        "known": (gaussian(2, "known", known=np.array([[1, 0.3], [0.3, 2.0]])), normal),
        "categorical": (Categorical((3, 2)), codes),
        "categorical, missing": (Categorical((3, 2)), np.where(np.isnan(holes), np.nan, codes)),
        "bernoulli": (OneParameter("Bernoulli", 3), rng.integers(0, 2, (n, 3)).astype(float)),
        "poisson": (OneParameter("Poisson", 1), counts),
        "exponential": (OneParameter("Exponential", 1), counts / 3),
        "binomial": (OneParameter("Binomial", 1, known={"n": 12}), counts),
        "mixed": (mixed, np.column_stack([normal[:, 0], counts, codes])),
        "normal and categorical": (both, np.column_stack([normal, codes])),
    }[name]


CASES = [
    "one normal", "full", "full, three columns", "diagonal", "diagonal, missing", "known", "categorical",
    "categorical, missing", "bernoulli", "poisson", "exponential", "binomial", "mixed", "normal and categorical",
]  # fmt: skip


def problem_of(name: str, prior: ProcessPrior, n: int = 6) -> ProcessProblem:
    emission, rows = small(name, n)
    return ProcessProblem(emission.with_prior(rows, 1), rows, prior)


def log_evidence(emission, rows, labels) -> float:
    """By the emission's own closed form, which the kernels do not use."""
    member = np.eye(labels.max() + 1)[labels]
    return float(emission.log_marginal(emission.statistics(rows, member)).sum() + emission.log_base(rows).sum())


def enumerated(problem: ProcessProblem, log_prior):
    """All partitions, and their posterior probabilities."""
    every = list(partitions(len(problem.rows)))
    logs = np.array([log_evidence(problem.emission, problem.rows, z) + log_prior(np.bincount(z)) for z in every])
    return every, np.exp(logs - logsumexp(logs)), float(logsumexp(logs))


def shares(every, drawn):
    """Relative frequencies of partitions in (S, N) draws."""
    number = {tuple(z): i for i, z in enumerate(every)}
    return np.bincount([number[tuple(z)] for z in drawn], minlength=len(every)) / len(drawn)


def assert_the_same(every, p, drawn):
    """Frequencies of the partitions and their number of clusters, in Monte Carlo errors from batches."""
    number = {tuple(z): i for i, z in enumerate(every)}
    each = np.eye(len(every))[[number[tuple(z)] for z in drawn]]
    batches = each[: len(each) // 40 * 40].reshape(40, -1, len(every)).mean(axis=1)
    error = np.sqrt(batches.var(axis=0, ddof=1) / 40 + p * (1 - p) / len(drawn))
    assert np.max(np.abs(each.mean(axis=0) - p) / (error + 3 / len(drawn))) < 5
    assert 0.5 * np.abs(each.mean(axis=0) - p).sum() < 0.1


# --------------------------------------------------------------------------------- the restaurant and the stick


@pytest.mark.slow(why="statistical")
def test_crp_expected_tables():
    """Row crp of the catalogue; facts F39: expected occupied tables for α = 1 and 2."""
    known = {1: (2.928968, 5.187378, 7.485471), 2: (4.039755, 8.394557, 12.972940)}
    for alpha, values in known.items():
        for n, value in zip((10, 100, 1000), values, strict=True):
            assert expected_tables(n, alpha) == pytest.approx(value, abs=5e-7)
    for discount in (0.0, 0.3):
        p = table_probabilities(40, 1.3, discount)
        assert p.sum() == pytest.approx(1) and p[0] == 0
        assert p @ np.arange(41) == pytest.approx(expected_tables(40, 1.3, discount))
    rng = np.random.default_rng(0)
    drawn = np.array([restaurant(100, 1.0, rng=rng).max() + 1 for _ in range(1500)])
    assert abs(drawn.mean() - 5.187378) < 4 * drawn.std() / np.sqrt(1500)
    drawn = np.array([restaurant(60, 0.7, discount=0.5, rng=rng).max() + 1 for _ in range(1500)])
    assert abs(drawn.mean() - expected_tables(60, 0.7, 0.5)) < 4 * drawn.std() / np.sqrt(1500)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("discount", [0.0, 0.4])
def test_crp_is_exchangeable(discount):
    """Row crp: n_i / (α + n) and α / (α + n) give every order of the guests the same probability."""
    rng = np.random.default_rng(1)
    total = 0.0
    for z in partitions(6):
        p = one_by_one(z, 0.8, discount)
        assert np.exp(log_partition_probability(np.bincount(z), 0.8, discount)) == pytest.approx(p)
        other = z[rng.permutation(6)]
        renamed = np.unique(other, return_index=True, return_inverse=True)
        assert one_by_one(np.argsort(np.argsort(renamed[1]))[renamed[2]], 0.8, discount) == pytest.approx(p)
        total += p
    assert total == pytest.approx(1)
    every = list(partitions(5))
    p = np.array([one_by_one(z, 0.8, discount) for z in every])
    drawn = [restaurant(5, 0.8, discount=discount, rng=rng) for _ in range(20_000)]
    assert np.max(np.abs(shares(every, drawn) - p) / np.sqrt(p * (1 - p) / 20_000)) < 4.5


def test_sticks_are_what_the_restaurant_integrates_out():
    """Guests who pick pieces of a stick sit as in the restaurant; and the rest has its expected size."""
    rng = np.random.default_rng(2)
    for discount in (0.0, 0.3):
        w = stick_breaking(60, 1.0, discount=discount, rng=rng, size=20_000)
        np.testing.assert_allclose(w.sum(axis=1), 1)
        k = np.arange(1, 6)
        left = np.prod((1.0 + discount * k) / (2.0 + discount * (k - 1)))
        rest = w[:, 5:].sum(axis=1)
        assert abs(rest.mean() - left) < 4 * rest.std() / np.sqrt(len(w))
        assert truncation_bound(3, 6, 1.0, discount) == pytest.approx(min(2.0, 12 * left))
        together = (w**2).sum(axis=1)
        assert abs(together.mean() - (1 - discount) / 2) < 4 * together.std() / np.sqrt(len(w)) + 2e-3
    # Close to Ishwaran and James's 4 n exp(-(T - 1) / α) for a large α.
    assert truncation_bound(10, 301, 20.0) == pytest.approx(40 * np.exp(-300 / 20), rel=0.5)


# --------------------------------------------------------------------------------- densities


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", CASES)
def test_evidence_of_a_partition_is_the_emissions(name):
    problem = problem_of(name, ProcessPrior(1.0))
    for z in (np.zeros(6, int), np.arange(6), np.array([0, 1, 0, 2, 1, 1])):
        assert problem.log_evidence(z) == pytest.approx(log_evidence(problem.emission, problem.rows, z), abs=1e-9)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("discount", [0.0, 0.3])
def test_predictions_are_ratios_of_evidences(name, discount):
    """Of a row that is new, and of each given all others."""
    problem = problem_of(name, ProcessPrior(0.9, discount))
    whole, z = problem.rows, np.array([0, 1, 0, 2, 1])
    first = problem.with_rows(whole[:5])
    density, p = first.predict(z, 0.9, whole[5:])
    base = log_evidence(problem.emission, whole[:5], z) + log_partition_probability(np.bincount(z), 0.9, discount)
    joint = []
    for c in range(4):
        longer = np.append(z, c)
        prior = log_partition_probability(np.bincount(longer), 0.9, discount)
        joint.append(log_evidence(problem.emission, whole, longer) + prior - base)
    assert density[0] == pytest.approx(logsumexp(joint), abs=1e-8)
    np.testing.assert_allclose(p[0], np.exp(joint - logsumexp(joint)), atol=1e-8)
    labels = np.array([0, 1, 0, 2, 1, 1])
    for i, found in enumerate(problem.leave_one_out(labels, 0.9)):
        others = np.delete(np.arange(6), i)
        rest = np.unique(labels[others], return_index=True, return_inverse=True)
        named = np.argsort(np.argsort(rest[1]))[rest[2]]
        assert found == pytest.approx(problem.with_rows(whole[others]).predict(named, 0.9, whole[[i]])[0][0], abs=1e-8)


def test_dp_mixture_predictive_is_students_t():
    """Row dp-mixture: restaurant prior times Student's t of each cluster's rows, from scipy."""
    problem = problem_of("full", ProcessPrior(1.5))
    prior = problem.emission.prior
    z, at = np.array([0, 0, 1, 0, 1, 0]), np.array([[0.5, -1.0]])
    value = 0.0
    for rows in (problem.rows[z == 0], problem.rows[z == 1], np.empty((0, 2))):
        n = len(rows)
        mean = rows.mean(axis=0) if n else np.zeros(2)
        kappa, nu = prior.kappa + n, prior.nu + n
        m = (prior.kappa * prior.mean + n * mean) / kappa
        apart = mean - prior.mean
        psi = prior.scale + (rows - mean).T @ (rows - mean) + prior.kappa * n / kappa * np.outer(apart, apart)
        dof = nu - 1
        shape = psi * (kappa + 1) / (kappa * dof)
        value += (n if n else 1.5) / 7.5 * multivariate_t(m, shape, df=dof).pdf(at[0])
    assert problem.predict(z, 1.5, at)[0][0] == pytest.approx(np.log(value), abs=1e-10)


@pytest.mark.parametrize(
    "name", ["one normal", "full", "diagonal", "diagonal, missing", "known", "normal and categorical"]
)
def test_rows_too_far_off_for_a_double(name):
    """A density in the tail of Student's t falls with a power; of what no double holds a new cluster is most probable."""
    problem = problem_of(name, ProcessPrior(1.0))
    far = np.array([[1e100], [1e150], [1e160], [1e200]]) * np.ones(problem.rows.shape[1])
    if "categorical" in name:
        far[:, 2:] = 0.0
    density, p = problem.predict(np.array([0, 0, 1, 0, 1, 2]), 1.0, far)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert not np.isnan(density).any()
    if name == "known":
        assert (p[:, -1] == 1).all()
    else:
        slope = np.diff(density) / np.diff(np.log(far[:, 0]))
        np.testing.assert_allclose(slope, slope[0], rtol=1e-6)
        np.testing.assert_allclose(p, np.tile(p[:1], (4, 1)), atol=1e-6)


# --------------------------------------------------------------------------------- chains


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("moves", [Moves(1, 0), Moves(0, 15)], ids=["gibbs", "split-merge alone"])
@pytest.mark.parametrize("discount", [0.0, 0.4], ids=["dirichlet", "pitman-yor"])
@pytest.mark.parametrize("name", CASES)
def test_dp_mixture_equals_enumeration(name, discount, moves):
    """Frequencies of all 203 partitions of six rows; Gibbs sweeps, and splits and merges without them."""
    problem = problem_of(name, ProcessPrior(0.8, discount))
    every, p, _ = enumerated(problem, lambda sizes: log_partition_probability(sizes, 0.8, discount))
    state, _ = advance(problem, start(problem, 1, np.random.default_rng(3)), np.zeros(50, bool), moves)
    _, found = advance(problem, state, np.ones(6_000, bool), moves)
    assert_the_same(every, p, found["labels"])
    z = found["labels"][7]
    joint = log_evidence(problem.emission, problem.rows, z) + log_partition_probability(np.bincount(z), 0.8, discount)
    assert found["log_joint"][7] == pytest.approx(joint, abs=1e-8)


class Twin:
    """Sweeps as they are written in a textbook, with the kernels' order of choices: nothing passed over or updated."""

    def __init__(self, problem: ProcessProblem, labels: np.ndarray) -> None:
        self.rows, self.prior, self.law = problem.rows, problem.emission.prior, problem.prior
        order = np.argsort(np.unique(labels, return_index=True)[1])
        self.clusters = [set(np.flatnonzero(labels == c)) for c in order]
        self.passed = 0

    def predictive(self, groups, x):
        """Log density of a row in each cluster, Student's t; and that by the bound that a sweep looks at."""
        d, out = len(x), []
        for group in groups:
            own = self.rows[sorted(group)].reshape(-1, d)
            n, mean = len(own), own.mean(axis=0) if len(own) else np.zeros(d)
            kappa, nu = self.prior.kappa + n, self.prior.nu + n
            m = (self.prior.kappa * self.prior.mean + n * mean) / kappa
            apart = mean - self.prior.mean
            psi = (
                self.prior.scale + (own - mean).T @ (own - mean) + self.prior.kappa * n / kappa * np.outer(apart, apart)
            )
            z = (x - m) @ np.linalg.solve(psi, x - m) * kappa / (kappa + 1)
            top = gammaln((nu + 1) / 2) - gammaln((nu + 1 - d) / 2) + d / 2 * np.log(kappa / (kappa + 1) / np.pi)
            top -= 0.5 * np.linalg.slogdet(psi)[1]
            t = z / (2 + z)
            bound = top - (nu + 1) * t * (1 + t**2 / 3 + t**4 / 5 + t**6 / 7)
            out.append((top - 0.5 * (nu + 1) * np.log1p(z), bound if d <= 2 else top - 0.5 * (nu + 1) * np.log1p(z)))
        return np.array(out).reshape(-1, 2)

    def sweep(self, rng) -> None:
        alpha, sigma, clusters = self.law.alpha, self.law.discount, self.clusters
        slack = kernels.PASSED + np.log(len(clusters) + 1)
        for n, x in enumerate(self.rows):
            own = next(c for c, group in enumerate(clusters) if n in group)
            others = [group - {n} for group in clusters]
            alone = len(clusters[own]) == 1
            prior = np.log(np.maximum([len(group) for group in others], 1) - sigma)
            found = self.predictive(others, x)
            new = self.predictive([()], x)[0, 0] + np.log(alpha + sigma * (len(clusters) - alone))
            first = [(new, own)] if alone else [(prior[own] + found[own, 0], own), (new, len(clusters))]
            floor = max(value for value, _ in first) - slack
            rest = [c for c in range(len(clusters)) if c != own]
            seen = [c for c in rest if prior[c] + found[c, 1] > floor]
            after = [c for c in rest if c not in seen]
            choices = first + [(prior[c] + found[c, 0], c) for c in seen + after]
            weights = np.exp([value - choices[0][0] for value, _ in choices])
            chosen = choices[int(np.searchsorted(np.cumsum(weights), rng.random() * weights.sum(), side="right"))][1]
            self.passed += chosen in after
            if chosen == own:
                continue
            if chosen == len(clusters):
                clusters.append(set())
            clusters[chosen].add(n)
            clusters[own].remove(n)
            if not clusters[own]:
                clusters[own] = clusters[-1]
                clusters.pop()

    @property
    def labels(self):
        out = np.empty(len(self.rows), int)
        for c, group in enumerate(self.clusters):
            out[sorted(group)] = c
        return out


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(("d", "discount"), [(1, 0.0), (2, 0.0), (2, 0.3), (3, 0.2)])
def test_a_sweep_is_that_of_its_slow_twin(d, discount):
    """The same uniform numbers choose the same clusters, also those that were passed over at first."""
    rng = np.random.default_rng(9)
    truth = rng.integers(0, 5, 150)
    rows = rng.normal(size=(5, d))[truth] * 3 + rng.normal(size=(150, d))
    problem = ProcessProblem(gaussian(d).with_prior(rows, 1), rows, ProcessPrior(1.5, discount))
    state = start(problem, 1, rng)
    twin, own = Twin(problem, state["labels"]), thawed(state["rng"])
    for _ in range(8 if d > 2 else 25):
        state, _ = advance(problem, state, np.zeros(1, bool), Moves(1, 0))
        before = Twin(problem, twin.labels)
        before.passed = twin.passed
        twin = before
        twin.sweep(own)
        assert np.array_equal(canonical(twin.labels), canonical(state["labels"]))
    assert frozen(own) == state["rng"]


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("discount", [0.0, 0.3])
def test_dp_alpha_with_a_prior_equals_quadrature(discount):
    """Row dp-alpha: partitions, and the mean of α, from all partitions and an integral over α."""
    shape, rate = 2.0, 1.5
    problem = problem_of("full", ProcessPrior((shape, rate), discount), 5)
    every = list(partitions(5))

    def integral(sizes, power):
        def density(a):
            return (
                np.exp(log_partition_probability(sizes, a, discount)) * gamma.pdf(a, shape, scale=1 / rate) * a**power
            )

        return quad(density, 0, np.inf)[0]

    evidence = np.array([log_evidence(problem.emission, problem.rows, z) for z in every])
    weight = np.exp(evidence - evidence.max())
    p = weight * [integral(np.bincount(z), 0) for z in every]
    mean = np.sum(weight * [integral(np.bincount(z), 1) for z in every]) / p.sum()
    p /= p.sum()
    _, found = advance(problem, start(problem, 0, np.random.default_rng(4)), np.ones(8_000, bool), Moves(1, 3))
    assert_the_same(every, p, found["labels"])
    batches = found["alpha"].reshape(50, -1).mean(axis=1)
    assert abs(batches.mean() - mean) < 4 * batches.std(ddof=1) / np.sqrt(50)


@kernel
def shuffled(rng: np.random.Generator, members: np.ndarray) -> None:
    kernels._shuffle(rng, members)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("n", [0, 1, 2, 3, 100, 70_000])
def test_rows_are_shuffled_as_numpy_shuffles_them(n):
    ours, theirs = np.arange(n), np.arange(n)
    one, other = np.random.default_rng(n), np.random.default_rng(n)
    shuffled(one, ours)
    other.shuffle(theirs)
    assert np.array_equal(ours, theirs) and one.random() == other.random()


@pytest.mark.slow(why="compiles")
def test_dp_alpha_is_that_of_the_tables():
    """Row dp-alpha: from tables of a restaurant, with data that tell tables apart; and by empirical Bayes."""
    rng = np.random.default_rng(5)
    grid = np.linspace(1e-3, 40, 40_000)
    for alpha in (0.5, 2.0, 6.0):
        tables = restaurant(400, alpha, rng=rng)
        rows = rng.normal(size=(tables.max() + 1, 2))[tables] * 1000 + rng.normal(size=(400, 2))
        prior = gaussian(2).with_prior(rng.normal(size=(400, 2)) * 1000, 400).prior
        problem = ProcessProblem(gaussian(2, prior=prior), rows, ProcessPrior((1.0, 0.2)))
        _, found = advance(problem, start(problem, 1, rng), np.zeros(300, bool))
        alphas, counts = found["alpha"][50:], found["n_clusters"][50:]
        assert abs(np.median(counts) - (tables.max() + 1)) <= 3  # some tables lie at the same place
        # Clusters say of alpha only how many they are (Escobar and West 1995).
        means, variances = np.empty(counts.shape), np.empty(counts.shape)
        for k in np.unique(counts):
            logs = -0.2 * grid + k * np.log(grid) + gammaln(grid) - gammaln(grid + 400)
            weights = np.exp(logs - logs.max())
            means[counts == k] = mean = np.average(grid, weights=weights)
            variances[counts == k] = np.average((grid - mean) ** 2, weights=weights)
        assert abs(alphas.mean() - means.mean()) < 4 * np.sqrt(variances.mean() / 50)
        best = empirical_concentration(problem, rng, tune=30, draws=60)
        t = int(found["n_clusters"][-1])
        assert expected_tables(400, best) == pytest.approx(t, abs=1.0)


def test_dp_mixture_finds_planted_clusters_from_one():
    """Row dp-mixture: planted clusters recovered from a single cluster; more of them with a larger α."""
    rng = np.random.default_rng(6)
    truth = rng.integers(0, 12, 3000)
    centres = 14.0 * np.array([(i, j) for i in range(4) for j in range(3)])
    rows = centres[truth] + rng.normal(size=(3000, 2))
    problem = ProcessProblem(gaussian(2).with_prior(rows, 1), rows, ProcessPrior(1.0))
    search = np.arange(60) < 40
    state, _ = advance(problem, start(problem, 0, rng), np.zeros(60, bool), search=search)
    assert adjusted_rand_index(state["labels"], truth) > 0.99
    few = ProcessProblem(gaussian(2).with_prior(rows[:150], 1), rows[:150], ProcessPrior(0.1))
    many = ProcessProblem(few.emission, few.rows, ProcessPrior(30.0))
    counts = [advance(p, start(p, 1, rng), np.zeros(200, bool))[1]["n_clusters"][50:].mean() for p in (few, many)]
    assert counts[1] > counts[0] + 0.5


@pytest.mark.slow(why="statistical")
def test_rows_seated_later_are_as_all_rows_at_once():
    """Streaming: partitions of the first rows, the others seated and one sweep made: the posterior of all rows."""
    problem = problem_of("one normal", ProcessPrior(0.8))
    every, p, _ = enumerated(problem, lambda sizes: log_partition_probability(sizes, 0.8))
    first = problem.with_rows(problem.rows[:4])
    state, drawn = start(first, 1, np.random.default_rng(7)), []
    for _ in range(2500):
        state, _ = advance(first, state, np.zeros(2, bool), Moves(1, 2))
        longer = seated(problem, state)
        # What the seating of these two rows leaves out of the others' posterior takes some sweeps to get in.
        longer, found = advance(problem, longer, np.arange(6) == 5, Moves(1, 4))
        state = {**state, "rng": longer["rng"]}
        drawn.append(found["labels"][0])
    assert_the_same(every, p, np.array(drawn))


def test_a_chain_goes_on_exactly():
    """However many draws are made at a time, from a state that was kept."""
    problem = problem_of("mixed", ProcessPrior((1.0, 1.0)), 8)
    begun = start(problem, 1, np.random.default_rng(8))
    whole, told = advance(problem, begun, np.ones(30, bool))
    state, parts = begun, []
    for n in (1, 4, 25):
        state, some = advance(problem, state, np.ones(n, bool))
        parts.append(some)
    for name in told:
        assert np.array_equal(told[name], np.concatenate([part[name] for part in parts]))
    assert all(np.array_equal(whole[name], state[name]) for name in whole)


def test_wrong_input_is_refused_in_one_line():
    rows = np.random.default_rng(0).normal(size=(6, 2))
    full = gaussian(2).with_prior(rows, 1)
    cases = [
        (lambda: ProcessPrior(0.0), "out-of-range", "concentration|alpha"),
        (lambda: ProcessPrior(1.0, 1.0), "out-of-range", "discount"),
        (lambda: ProcessPrior((1.0, -1.0)), "out-of-range", "concentration|alpha"),
        (
            lambda: ProcessProblem(StudentT(2).with_prior(rows, 1), rows, ProcessPrior()).base,
            "not-conjugate",
            "StudentT",
        ),
        (
            lambda: ProcessProblem(full, np.where(rows > 1, np.nan, rows), ProcessPrior()).base,
            "no-closed-form",
            "missing",
        ),
        (
            lambda: ProcessProblem(gaussian(2, "tied").with_prior(rows, 1), rows, ProcessPrior()).base,
            "no-closed-form",
            "covariance",
        ),
    ]
    for call, kind, match in cases:
        with refused(f"option.{kind}", match):
            call()
    with refused("data.no-rows"):
        _ = ProcessProblem(full, rows[:0], ProcessPrior()).base


def test_partition_probabilities_add_up_over_alphas():
    """The rising factorial written out."""
    sizes = np.array([3, 1, 2])
    assert log_partition_probability(sizes, 2.0) == pytest.approx(
        3 * np.log(2) + np.log(2) + gammaln(2) - (gammaln(2 + 6) - gammaln(2))
    )
