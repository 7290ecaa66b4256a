"""Laws of everything that is summed out: evidence, posterior, modes, draws and slopes against enumeration.

Every latent says how probable a path of states is, here in a few lines of its own; all else follows by adding up paths.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln

from bayeslab.latents.chains.chain import Chain
from bayeslab.latents.chains.classes import ClassChain
from bayeslab.latents.chains.driven import DrivenChain
from bayeslab.latents.chains.durations import DurationChain
from bayeslab.latents.chains.product import ProductChain
from bayeslab.latents.chains.tree import TreeChain
from bayeslab.latents.chains.urn_draws import UrnDraws
from bayeslab.latents.chains.urns import UrnChain
from bayeslab.latents.labels.labels import Labels
from bayeslab.latents.latent import Latent
from bayeslab.latents.sampler import run
from bayeslab.posterior.latent_gibbs import LatentSampler
from bayeslab.posterior.latent_problem import LatentModel
from bayeslab.posterior.observed.emitted import Emitted
from tests.refusals import refused

type Values = dict[str, np.ndarray]
N, OFFSETS = 5, np.array([0, 3, 5])


@dataclass(frozen=True, eq=False)
class Known(Emitted):
    """Log densities that are given, of which nothing is learned."""

    table: np.ndarray

    has_one_pass = False

    @property
    def learned(self):
        return ()

    def shape(self, name):
        raise KeyError(name)

    def kind(self, name):
        raise KeyError(name)

    def called(self, parameter):
        raise KeyError(parameter)

    def select(self, rows):
        return rows

    def to_emission(self, values):
        return {}

    def fitted(self, statistics, values, *, prior):
        return {}

    def log_prior(self, values):
        return 0.0

    def draw_given(self, rng, rows, states, values):
        return {}

    def log_density(self, values, rows):
        return self.table


@dataclass(frozen=True, eq=False)
class Case:
    """A latent, and the probability of a path, (n_rows,) whole numbers, at values of its parameters."""

    latent: Latent
    probability: Callable[[Values, tuple[int, ...]], float]
    emits: bool = True


def sequences(path):
    return [path[a:b] for a, b in itertools.pairwise(OFFSETS)]


def labels(weights):
    return lambda v, path: float(np.prod([weights(v, n)[k] for n, k in enumerate(path)]))


def chain(v, path):
    out = 1.0
    for z in sequences(path):
        out *= v["initial"][z[0]] * np.prod([v["transition"][i, j] for i, j in itertools.pairwise(z)])
    return float(out)


def stationary(v, path):
    values, vectors = np.linalg.eig(v["transition"].T)
    first = np.real(vectors[:, np.argmax(np.real(values))])
    return chain(v | {"initial": first / first.sum()}, path)


def second_order(v, path):
    out = 1.0
    for z in sequences(path):
        out *= v["initial"][z[0]] * v["second_transition"][z[0], z[1]]
        out *= np.prod([v["transition"][z[t - 2], z[t - 1], z[t]] for t in range(2, len(z))])
    return float(out)


def driven(v, path):
    out, t = 1.0, 0
    for z in sequences(path):
        out *= v["initial"][z[0]]
        for i, j in itertools.pairwise(z):
            t += 1
            eta = v["log_odds"][i] + v["log_odds_slope"][i] @ INPUTS[t]
            out *= np.exp(eta[j]) / np.exp(eta).sum()
        t += 1
    return float(out)


def segments(durations):
    """The sum over all ways to cut a path into segments; the last one may go on."""

    def summed(v, z):
        d, n = durations(v), len(z)

        def rest(t, before):
            if t == n:
                return 1.0
            k = z[t]
            share = v["initial"][k] if before is None else v["transition"][before, k]
            total = 0.0
            for length in range(1, d.shape[1] + 1):
                if t + length <= n and all(z[t + s] == k for s in range(length)):
                    ends = d[k, length - 1 :].sum() if t + length == n else d[k, length - 1]
                    total += share * ends * (1.0 if t + length == n else rest(t + length, k))
            return total

        return rest(0, None)

    return lambda v, path: float(np.prod([summed(v, z) for z in sequences(path)]))


def poisson(v):
    d = np.arange(4)
    p = v["duration_mu"][:, None] ** d / np.array([1, 1, 2, 6])
    return p / p.sum(axis=1, keepdims=True)


def tree(v, path):
    return float(
        np.prod([v["initial"][k] if p < 0 else v["transition"][path[p], k] for p, k in zip(PARENTS, path, strict=True)])
    )


def urns(v, path):
    out = chain(v, path)
    for s, z in enumerate(sequences(path)):
        left = BALLS.astype(float)
        for t, k in enumerate(z):
            colour = COLOURS[OFFSETS[s] + t]
            out *= left[k, colour] / left[k].sum()
            left[k, colour] -= 1
    return float(out)


def factorial(v, path):
    out = 1.0
    for z in sequences(path):
        a, b = np.array(z) // 2, np.array(z) % 2
        for c, each in (("a", a), ("b", b)):
            out *= v[f"initial_{c}"][each[0]]
            out *= np.prod([v[f"transition_{c}"][i, j] for i, j in itertools.pairwise(each)])
    return float(out)


def coupled(v, path):
    out = 1.0
    for z in sequences(path):
        both = [(k // 2, k % 2) for k in z]
        out *= v["initial_a"][both[0][0]] * v["initial_b"][both[0][1]]
        for (i, j), (a, b) in itertools.pairwise(both):
            out *= v["transition_a"][i, j, a] * v["transition_b"][i, j, b]
    return float(out)


def classes(v, path):
    """The class of the first sequence is known to be the second."""
    out = 1.0
    for s, z in enumerate(sequences(path)):
        c = z[0] // 2
        if s == 0 and c == 0:
            return 0.0
        out *= v["class_probability"][c] * v["initial"][c, z[0]]
        out *= np.prod([v["transition"][i, j] for i, j in itertools.pairwise(z)])
    return float(out)


RNG = np.random.default_rng(8)
INPUTS = RNG.normal(1, 2, (N, 1))
PARENTS = np.array([-1, 0, 0, -1, 3])
BALLS, COLOURS = np.array([[5, 4], [3, 6]]), np.array([0, 1, 1, 0, 1])
GATE = np.column_stack([np.ones(N), RNG.normal(size=N)])
ALLOWED = np.array([[True, True], [True, False], [True, True], [False, True], [True, True]])
FULL = np.ones((2, 2), bool)


def markov(mask=FULL, order=1, initial: Any = "free", prior=1.5):
    k = len(mask)
    return Chain(k, mask, order, initial, None, np.full((k, k), prior), np.full(k, prior))


def softmax(eta):
    return np.exp(eta) / np.exp(eta).sum()


BLOCKS = np.kron(np.eye(2), np.ones((2, 2))) > 0
NO_STAY = np.array([[False, True], [True, False]])
FACTORS = (("a", "b"), (np.arange(2), np.arange(2)))
CASES = {
    "labels": Case(Labels(2, np.array([1.5, 3.0])), labels(lambda v, n: v["weights"])),
    "known labels": Case(
        Labels(2, allowed=ALLOWED), labels(lambda v, n: v["weights"] * ALLOWED[n])
    ),
    "gate": Case(
        Labels(2, inputs=GATE, gate_precision=0.3), labels(lambda v, n: softmax(v["gate"] @ GATE[n]))
    ),
    "chain": Case(markov(), chain),
    "left right": Case(markov(np.triu(np.ones((3, 3))) > 0), chain),
    "stationary": Case(markov(initial="stationary"), stationary),
    "second order": Case(markov(order=2), second_order),
    "driven": Case(DrivenChain(markov(), ("x",), INPUTS, np.ones(1), np.full(1, 2.0)), driven),
    "durations": Case(DurationChain(markov(NO_STAY), 3, "table", 1.5), segments(lambda v: v["duration"])),
    "poisson": Case(DurationChain(markov(NO_STAY), 4, "poisson", 1.0), segments(poisson)),
    "tree": Case(TreeChain(markov(), PARENTS), tree),
    "urns": Case(UrnChain(markov(), UrnDraws.of(BALLS, COLOURS, OFFSETS)), urns, emits=False),
    "factorial": Case(ProductChain(*FACTORS, "factorial", {}, 1.5, 0.5), factorial),
    "coupled": Case(ProductChain(*FACTORS, "coupled", {}, 1.5, 0.5), coupled),
    "classes": Case(
        ClassChain(
            markov(BLOCKS), np.array(["k", "l"]), np.array(["k.1", "k.2", "l.1", "l.2"]), np.repeat([0, 1], 2),
            np.array([1, -1]), None, None,
        ),
        classes,
    ),
}  # fmt: skip


# What is known of labels and classes, and the colours of balls, are part of the latent.
WITHOUT_DATA = [name for name in CASES if name not in ("known labels", "classes", "urns")]


def of(name):
    """The latent, values, log densities, and all paths with their joint probabilities."""
    case, rng = CASES[name], np.random.default_rng(3)
    values = case.latent.draw(rng, 3.0)
    table = rng.normal(0, 1.0, (N, case.latent.n_states)) if case.emits else np.zeros((N, case.latent.n_states))
    paths = list(itertools.product(range(case.latent.n_states), repeat=N))
    density = np.exp([sum(table[n, k] for n, k in enumerate(path)) for path in paths])
    joint = density * [case.probability(values, path) for path in paths]
    return case.latent, values, table, np.array(paths), joint


@pytest.mark.parametrize("name", CASES)
def test_evidence_and_posterior_add_up_all_paths(name):
    latent, values, table, paths, joint = of(name)
    expected = latent.law(values, table, OFFSETS).expected()
    assert expected.log_evidence.sum() == pytest.approx(np.log(joint.sum()), rel=1e-10)
    posterior = [[joint[paths[:, n] == k].sum() for k in range(latent.n_states)] for n in range(N)]
    np.testing.assert_allclose(expected.posterior, np.array(posterior) / joint.sum(), atol=1e-10)


@pytest.mark.parametrize("name", WITHOUT_DATA)
def test_prior_probabilities_of_paths_add_up_to_one(name):
    case = CASES[name]
    values = case.latent.draw(np.random.default_rng(4), 3.0)
    paths = itertools.product(range(case.latent.n_states), repeat=N)
    assert sum(case.probability(values, path) for path in paths) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("durations", "poisson")])
def test_the_mode_is_the_most_likely_path(name):
    """Of semi-Markov chains it is the most likely segmentation, and several of these are one path."""
    latent, values, table, paths, joint = of(name)
    path, height = latent.law(values, table, OFFSETS).mode(1)
    np.testing.assert_array_equal(path[0], paths[np.argmax(joint)])
    assert height.sum() == pytest.approx(np.log(joint.max()), rel=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_draws_of_states_have_their_posterior(name):
    latent, values, table, paths, joint = of(name)
    law, rng, n = latent.law(values, table, OFFSETS), np.random.default_rng(0), 600
    drawn = np.stack([law.sample(rng) for _ in range(n)])
    code = latent.n_states ** np.arange(N)[::-1]
    counts = np.bincount(drawn @ code, minlength=len(paths))
    p = joint / joint.sum()
    assert not counts[p == 0].any()
    assert np.abs(counts / n - p).max() < 5 * np.sqrt((p * (1 - p)).max() / n)
    common = p > 0.01
    assert np.all(np.abs(counts / n - p)[common] < 5 * np.sqrt((p * (1 - p))[common] / n))


@pytest.mark.parametrize("name", WITHOUT_DATA)
def test_simulated_states_have_their_prior(name):
    latent, values, _, paths, _ = of(name)
    rng, n = np.random.default_rng(1), 250
    drawn = np.stack([latent.simulate(values, rng.random(N), OFFSETS) for _ in range(n)])
    p = np.array([CASES[name].probability(values, tuple(path)) for path in paths])
    counts = np.bincount(drawn @ latent.n_states ** np.arange(N)[::-1], minlength=len(paths))
    assert np.abs(counts / n - p).max() < 5 * np.sqrt((p * (1 - p)).max() / n)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.emits])
def test_posterior_is_the_slope_of_the_evidence_by_log_densities(name):
    """Fisher's identity: ∂ log p(rows) / ∂ log p(row | state) = P(state | rows)."""
    latent, values, table, _, _ = of(name)
    posterior = latent.law(values, table, OFFSETS).expected().posterior
    for n, k in itertools.product(range(N), range(latent.n_states)):
        moved = np.zeros_like(table)
        moved[n, k] = 1e-5
        up, down = (latent.law(values, table + s * moved, OFFSETS).expected().log_evidence.sum() for s in (1, -1))
        assert posterior[n, k] == pytest.approx((up - down) / 2e-5, abs=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_expected_counts_are_the_slope_of_the_evidence_by_parameters(name):
    latent, values, table, _, _ = of(name)
    problem = LatentModel(latent, (Known(table),), np.zeros((N, 1)), OFFSETS)
    x = problem.flatten(values)

    def height(at):
        there = problem.unflatten(at)
        return problem.expect(there)[0] + problem.log_prior(there)

    steps = 1e-4 * np.eye(len(x))
    want = np.array([(height(x + s) - height(x - s)) / 2e-4 for s in steps])
    np.testing.assert_allclose(problem.gradient(values, problem.expect(values)[1]), want, rtol=1e-5, atol=1e-6)
    assert np.abs(want).max() > 1e-3


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("prior", [False, True])
def test_no_step_of_em_falls(name, prior):
    latent, values, table, _, _ = of(name)
    problem = LatentModel(latent, (Known(table),), np.zeros((N, 1)), OFFSETS, prior)
    heights = []
    for _ in range(6):
        value, statistics = problem.expect(values)
        heights.append(value + problem.log_prior(values))
        values = problem.update(statistics, values)
    assert np.all(np.diff(heights) > -1e-9)
    assert heights[-1] > heights[0]


@pytest.mark.parametrize("name", CASES)
def test_coordinates_come_back(name):
    latent, values, table, _, _ = of(name)
    problem = LatentModel(latent, (Known(table),), np.zeros((N, 1)), OFFSETS)
    back = problem.unflatten(problem.flatten(values))
    for name_, value in values.items():
        np.testing.assert_allclose(back[name_], value, atol=1e-12)


def counted(name, path):
    """How often each probability of a path of labels or of a chain is used."""
    if name.endswith("labels"):
        return {"weights": np.bincount(path, minlength=2)}
    out = {"initial": np.zeros(len(path)), "transition": np.zeros((len(path), len(path)))}
    for z in sequences(path):
        out["initial"][z[0]] += 1
        for i, j in itertools.pairwise(z):
            out["transition"][i, j] += 1
    k = CASES[name].latent.n_states
    return {"initial": out["initial"][:k], "transition": out["transition"][:k, :k]}


@pytest.mark.parametrize("name", CASES)
def test_drawn_states_are_counted_or_gibbs_steps_refused(name):
    latent, values, table, _, joint = of(name)
    law = latent.law(values, table, OFFSETS)
    if latent.no_gibbs:
        if name not in ("gate", "driven", "factorial", "coupled", "classes"):  # laws that others share
            with refused("option.not-suited"):
                law.draw(np.random.default_rng(0))
        return
    drawn = law.draw(np.random.default_rng(0))
    assert drawn.log_evidence == pytest.approx(np.log(joint.sum()), rel=1e-10)
    if name in ("labels", "known labels", "chain", "left right", "stationary"):
        for counts, exact in zip(drawn.counts.values(), counted(name, drawn.states).values(), strict=True):
            np.testing.assert_array_equal(counts, exact)
    with refused("evidence.probability-zero"):
        latent.law(values, np.where(np.arange(N)[:, None] == 1, -np.inf, table), OFFSETS).draw(np.random.default_rng(0))


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("name", ["labels", "chain", "left right"])
def test_gibbs_draws_have_the_posterior_of_parameters(name):
    """Given a path parameters are Dirichlet, so that paths weighted by their evidence give the exact means."""
    latent, values, table, paths, _ = of(name)
    prior = {n: latent.concentration(n) for n in latent.learned}
    log_joint, means = [], []
    for path in paths:
        counts = counted(name, path)
        after = {n: np.where(a > 0, a + counts[n], 0.0) for n, a in prior.items()}
        impossible = any(np.any(counts[n][a == 0] > 0) for n, a in prior.items())
        log_p = sum(_log_dirichlet(after[n]) - _log_dirichlet(a) for n, a in prior.items())
        log_joint.append(-np.inf if impossible else log_p + sum(table[n, k] for n, k in enumerate(path)))
        means.append({n: a / a.sum(axis=-1, keepdims=True) for n, a in after.items()})
    share = np.exp(log_joint - np.logaddexp.reduce(log_joint))
    problem = LatentModel(latent, (Known(table),), np.zeros((N, 1)), OFFSETS)
    draws = run(LatentSampler(problem, lambda _: values), np.random.default_rng(2), 6000, 200)
    for n in latent.learned:
        exact = sum(p * mean[n] for p, mean in zip(share, means, strict=True))
        batches = draws[n].reshape(50, 120, *exact.shape).mean(axis=1)
        error = batches.std(axis=0, ddof=1) / np.sqrt(50)
        assert np.all(np.abs(batches.mean(axis=0) - exact) < 4.5 * error + 1e-12)


def _log_dirichlet(a):
    """The normalising constants of rows of Dirichlet distributions."""
    used = a > 0
    return float(gammaln(a[used]).sum() - gammaln(np.atleast_2d(a).sum(axis=-1)).sum())
