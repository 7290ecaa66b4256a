"""Hidden chains with as many states as the data ask for: the weak limit against all paths, its steps against the prior."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import gammaln

from bayeslab.distributions import emissions
from bayeslab.latents.chains.forward_backward import HiddenChain, simulate_states
from bayeslab.latents.chains.hidden_gibbs import draw_path
from bayeslab.latents.chains.infinite_hidden import (
    Limit,
    LimitState,
    draw_limit,
    draw_tables,
    log_path_probability,
    prior_state,
)


def counted(path, offsets, most):
    starts, moves = np.zeros(most), np.zeros((most, most))
    for begin, end in itertools.pairwise(offsets):
        starts[path[begin]] += 1
        np.add.at(moves, (path[begin : end - 1], path[begin + 1 : end]), 1)
    return starts, moves


# --------------------------------------------------------------------------------- against all paths


def simplex(n):
    """Gauss nodes and weights on the shares of three, exact for polynomials."""
    x, w = np.polynomial.legendre.leggauss(n)
    x, w = (x + 1) / 2, w / 2
    a, b = np.meshgrid(x, x, indexing="ij")
    weights = np.outer(w, w) * (1 - a)
    return np.stack([a, (1 - a) * b, (1 - a) * (1 - b)], axis=-1).reshape(-1, 3), weights.ravel()


def rising(base, n):
    """base (base + 1) ... (base + n - 1)."""
    return np.prod([base + i for i in range(n)], axis=0) if n else np.ones_like(base)


def exact_paths(y, offsets, alpha, gamma, kappa):
    """Probabilities of all paths of three states given symbols of two kinds; β by quadrature, the rest summed out."""
    beta, weights = simplex(14)
    # The density of Dirichlet(γ / 3, ...) is a polynomial where γ / 3 is a whole number.
    weights = weights * np.exp(gammaln(gamma) - 3 * gammaln(gamma / 3)) * np.prod(beta ** (gamma / 3 - 1), axis=1)
    assert weights.sum() == pytest.approx(1)
    paths = np.array(list(itertools.product(range(3), repeat=len(y))))
    out = np.empty(len(paths))
    for number, path in enumerate(paths):
        starts, moves = counted(path, offsets, 3)
        p = np.ones(len(beta))
        for j in range(3):
            for k in range(3):
                p = p * rising(alpha * beta[:, k] + kappa * (j == k), int(moves[j, k]))
            p = p / rising(np.array(alpha + kappa), int(moves[j].sum()))
            p = p * rising(alpha * beta[:, j], int(starts[j]))
        p = p / rising(np.array(alpha), int(starts.sum()))
        seen = np.stack([np.bincount(path[y == symbol], minlength=3) for symbol in range(2)])
        own = np.sum(gammaln(seen + 1).sum(axis=0) - gammaln(seen.sum(axis=0) + 2))
        out[number] = (weights @ p) * np.exp(own)
    return paths, out / out.sum()


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(("alpha", "gamma", "kappa"), [(1.5, 3.0, 0.0), (0.7, 6.0, 0.0), (1.0, 3.0, 2.0)])
def test_partitions_have_their_exact_posterior(alpha, gamma, kappa):
    """How many states are in use, and which times share one, in two short sequences."""
    rng = np.random.default_rng(1)
    y, offsets = np.array([0, 0, 1, 1, 1, 0]), np.array([0, 4, 6])
    paths, probability = exact_paths(y, offsets, alpha, gamma, kappa)
    limit, emission = Limit(3, alpha, gamma, kappa), emissions.Categorical((2,), 1.0)
    state, p = prior_state(limit, rng), np.full((3, 1, 2), 0.5)
    drawn = np.empty((15_000, len(y)), int)
    for draw in drawn:
        chain = HiddenChain.of(state.initial, state.transition)
        path = draw_path(chain, emission.log_density({"probability": p}, y[:, None]), rng, offsets)
        draw[:] = path.states
        state = draw_limit(limit, state, path.starts, path.moves, rng)
        p = emission.draw(rng, emission.statistics_of_states(y[:, None] * 1.0, path.states, 3))["probability"]

    def told(z):
        number = np.array([len(set(row)) for row in z])
        same = z[:, :, None] == z[:, None]
        pairs = [same[:, i, j] for i, j in itertools.combinations(range(len(y)), 2)]
        return np.stack([number == 1, number == 2, number == 3, *pairs], axis=1).astype(float)

    want = probability @ told(paths)
    batches = told(drawn).reshape(50, -1, len(want)).mean(axis=1)
    z = (batches.mean(axis=0) - want) / (batches.std(axis=0) / np.sqrt(len(batches)))
    assert np.max(np.abs(z)) < 4, np.round(z, 1)


def test_the_law_of_a_path_does_not_depend_on_names():
    rng = np.random.default_rng(0)
    limit = Limit(4, 1.5, 2.0, 0.5)
    path, offsets = rng.integers(0, 4, 30), np.array([0, 12, 30])
    beta, order = rng.dirichlet(np.ones(4)), np.array([2, 0, 3, 1])
    state = LimitState(1.5, 2.0, 0.5, beta, beta, np.tile(beta, (4, 1)))
    moved = LimitState(1.5, 2.0, 0.5, beta[np.argsort(order)], beta, np.tile(beta, (4, 1)))
    one = log_path_probability(limit, state, *counted(path, offsets, 4))
    two = log_path_probability(limit, moved, *counted(order[path], offsets, 4))
    assert one == pytest.approx(two, rel=1e-12)
    # By the chain rule, step by step.
    counts, total = np.zeros((5, 4)), 0.0
    for begin, end in itertools.pairwise(offsets):
        for t in range(begin, end):
            row = 4 if t == begin else path[t - 1]
            weight = 1.5 * beta + (0.5 * (np.arange(4) == row) if row < 4 else 0.0) + counts[row]
            total += np.log(weight[path[t]] / weight.sum())
            counts[row, path[t]] += 1
    assert one == pytest.approx(total, rel=1e-12)


# --------------------------------------------------------------------------------- the steps


def test_tables_are_those_of_the_restaurant():
    """P(m tables | n, c) = c^m s(n, m) Γ(c) / Γ(c + n), Stirling numbers of the first kind for n = 4: 6, 11, 6, 1."""
    rng, c = np.random.default_rng(0), 1.7
    counts = np.full((2_000, 10), 4)
    tables = draw_tables(rng, counts, np.full((2_000, 10), c))
    want = np.array([6, 11, 6, 1]) * c ** np.arange(1, 5)
    want /= want.sum()
    found = np.bincount(tables.ravel(), minlength=5)[1:] / tables.size
    assert np.all(np.abs(found - want) < 5 * np.sqrt(want / tables.size))
    np.testing.assert_array_equal(draw_tables(rng, np.array([0, 1]), np.array([2.0, 1e-12])), [0, 1])


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("kappa", [(2.0, 1.0), 0.0, 1.5])
def test_steps_keep_the_prior(kappa):
    """A path drawn from the rows, then everything from the path, again and again: concentrations keep their Gammas."""
    rng = np.random.default_rng(3)
    limit = Limit(5, (3.0, 2.0), (4.0, 2.0), kappa)
    state, offsets = prior_state(limit, rng), np.array([0, 8, 25])
    out = []
    for _ in range(10_000):
        path = simulate_states(HiddenChain.of(state.initial, state.transition), offsets, rng)
        state = draw_limit(limit, state, *counted(path, offsets, 5), rng)
        numbers = np.array([state.alpha, state.gamma, state.kappa])
        squares = [np.sum(state.beta**2), np.trace(state.transition), np.sum(state.initial**2)]
        out.append([*numbers, *numbers**2, *squares])
    moments = {"alpha": (1.5, 3.0), "gamma": (2.0, 5.0), "kappa": (2.0, 6.0) if kappa == (2.0, 1.0) else (kappa,) * 2}
    more = [prior_state(limit, rng) for _ in range(5_000)]
    some = np.array([[np.sum(s.beta**2), np.trace(s.transition), np.sum(s.initial**2)] for s in more])
    want = np.array([*(moments[n][0] for n in moments), *(moments[n][1] for n in moments), *some.mean(axis=0)])
    if not isinstance(kappa, tuple):
        want[5] = kappa**2
    batches = np.stack(out).reshape(40, -1, len(want)).mean(axis=1)
    error = np.hypot(batches.std(axis=0) / np.sqrt(40), np.append(np.zeros(6), some.std(axis=0) / np.sqrt(5_000)))
    apart = np.abs(batches.mean(axis=0) - want)
    assert np.all(apart <= 4 * error + 1e-12), np.round(apart / np.maximum(error, 1e-12), 1)
