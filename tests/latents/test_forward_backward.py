"""Forward-backward against enumeration of all paths, the umbrella world, belief propagation and PyTensor's gradient."""

from __future__ import annotations

from itertools import pairwise as pairs_of

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from bayeslab.latents.chains.forward_backward import (
    Edges,
    HiddenChain,
    diagonal_gaussian_rows,
    filter_states,
    pairwise,
    predict_states,
    predicted_states,
    smooth,
    symbol_counts,
    weighted_moments,
)
from bayeslab.latents.networks.belief_propagation import max_product, sum_product
from bayeslab.latents.networks.factors import FactorGraph
from tests.latents._paths import enumerate_paths, random_case, random_rows, truth, umbrella
from tests.refusals import refused


@pytest.mark.slow(why="large")
def test_hmm_brute():
    """Evidence, smoothed and pairwise probabilities, expected counts: dense, sparse, varying with time, ragged."""
    rng = np.random.default_rng(1)
    impossible = 0
    for _ in range(600):
        chain, log_emission, offsets = random_case(rng)
        found, true = smooth(chain, log_emission, offsets), truth(chain, log_emission, offsets)
        np.testing.assert_allclose(found.log_evidence, true["log_evidence"], rtol=1e-12, atol=1e-11)
        np.testing.assert_allclose(found.posterior, true["posterior"], atol=1e-9)
        bad = true["log_evidence"] == -np.inf
        impossible += bad.any()
        np.testing.assert_array_equal(found.impossible >= 0, bad)
        pairs = true["pairs"] if chain.edges is None else chain.edges.take(true["pairs"])
        pairs = pairs if chain.varying else pairs.sum(0)
        np.testing.assert_allclose(found.transition_counts, pairs, atol=1e-9)
        starts = true["starts"] if chain.log_start.ndim == 2 else true["starts"].sum(0)
        np.testing.assert_allclose(found.start_counts, starts, atol=1e-9)
        if not bad.any():
            each = pairwise(chain, log_emission, offsets)
            each = each if chain.edges is None else chain.edges.dense(each)
            np.testing.assert_allclose(each, true["pairs"], atol=1e-9)
    assert 100 < impossible < 400


@pytest.mark.slow(why="statistical")
def test_filtered_is_smoothed_with_the_rows_so_far():
    rng = np.random.default_rng(2)
    checked = 0
    for _ in range(200):
        chain, log_emission, offsets = random_case(rng)
        if (truth(chain, log_emission, offsets)["log_evidence"] == -np.inf).any():
            with refused("evidence.probability-zero"):
                filter_states(chain, log_emission, offsets)
            continue
        found, both = filter_states(chain, log_emission, offsets), smooth(chain, log_emission, offsets)
        np.testing.assert_allclose(np.exp(found.log_filtered), both.filtered, atol=1e-12)
        np.testing.assert_allclose(found.log_evidence, both.log_evidence, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(found.log_predictive, both.log_predictive, rtol=1e-13, atol=1e-13)
        for s in range(len(offsets) - 1):
            begin, before = offsets[s], 0.0
            for end in range(begin + 1, offsets[s + 1] + 1):
                checked += 1
                paths, scores = enumerate_paths(chain, log_emission, [*offsets[:s], begin, end], s)
                total = logsumexp(scores)
                last = np.bincount(paths[:, -1], np.exp(scores - total), chain.n_states)
                np.testing.assert_allclose(both.filtered[end - 1], last, atol=1e-9)
                assert both.log_predictive[end - 1] == pytest.approx(total - before, rel=1e-9, abs=1e-9)
                before = total
    assert checked > 300


# P(rain) by observations: filtered, smoothed, smoothed on day 0, P(data), worked out by hand to six digits.
UMBRELLA = [
    ("u", [0.861386], [0.861386], 0.797030, 0.606),
    ("uu", [0.861386, 0.890832], [0.912726, 0.890832], 0.814733, 0.39462),
    ("uuuu", [0.861386, 0.890832, 0.895769, 0.896585], [0.922757, 0.938948, 0.935330, 0.896585], 0.818192, 0.17196092),
    (
        "uunuu",
        [0.861386, 0.890832, 0.192718, 0.731480, 0.867470],
        [0.900286, 0.831156, 0.310307, 0.820933, 0.867470],
        0.810443,
        0.03833605,
    ),
]


@pytest.mark.parametrize(("seen", "filtered", "smoothed", "before", "p"), UMBRELLA)
def test_umbrella_hmm(seen, filtered, smoothed, before, p):
    chain, rows = umbrella(seen)
    found = smooth(chain, rows)
    assert found.filtered[1:, 0] == pytest.approx(filtered, abs=5e-7)
    assert found.posterior[:, 0] == pytest.approx([before, *smoothed], abs=5e-7)
    assert np.exp(found.log_evidence[0]) == pytest.approx(p, abs=5e-9)


def test_umbrella_with_an_even_prior():
    chain, rows = umbrella("uu", 0.5)
    assert smooth(chain, rows).filtered[1:, 0] == pytest.approx([0.818182, 0.883357], abs=5e-7)


def test_hmm_filter():
    chain, rows = umbrella("uu")
    assert np.exp(filter_states(chain, rows).log_filtered[1:, 0]) == pytest.approx([0.861386, 0.890832], abs=5e-7)


def test_hmm_smooth():
    rng = np.random.default_rng(3)
    chain = HiddenChain.of(rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4), 4))
    found = smooth(chain, rng.normal(size=(500, 4)))
    np.testing.assert_allclose(found.posterior.sum(1), 1, atol=1e-12)
    # The last row has no future, the first has.
    np.testing.assert_allclose(found.posterior[-1], found.filtered[-1], atol=1e-14)
    assert abs(found.posterior[0] - found.filtered[0]).max() > 0.01


def test_hmm_forward():
    """Probabilities of all strings of three symbols of one length sum to one."""
    rng = np.random.default_rng(4)
    chain, emit = HiddenChain.of(rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), 3)), rng.dirichlet(np.ones(3), 3)
    strings = np.stack(np.meshgrid(*[range(3)] * 5), -1).reshape(-1, 5)
    found = smooth(chain, np.log(emit.T)[strings.ravel()], np.arange(0, strings.size + 1, 5))
    assert np.exp(found.log_evidence).sum() == pytest.approx(1, abs=1e-12)


def backward(chain, rows):
    """The classic unscaled recursion, on logs: Rabiner (1989), equations 24 and 25."""
    beta = np.zeros_like(rows)
    for t in range(len(rows) - 2, -1, -1):
        beta[t] = logsumexp(chain.log_transition + rows[t + 1] + beta[t + 1], axis=1)
    return beta


def forward(chain, rows):
    """Rabiner (1989), equations 19 and 20, on logs."""
    alpha = np.empty_like(rows)
    alpha[0] = chain.log_start + rows[0]
    for t in range(1, len(rows)):
        alpha[t] = logsumexp(alpha[t - 1][:, None] + chain.log_transition, axis=0) + rows[t]
    return alpha


def test_hmm_backward():
    rng = np.random.default_rng(5)
    chain = HiddenChain.of(rng.dirichlet(np.ones(3)), random_rows(rng, 3, 3, 0.3))
    rows = rng.normal(size=(40, 3))
    alpha, beta, found = forward(chain, rows), backward(chain, rows), smooth(chain, rows)
    assert logsumexp(chain.log_start + rows[0] + beta[0]) == pytest.approx(found.log_evidence[0], abs=1e-11)
    np.testing.assert_allclose(logsumexp(alpha + beta, axis=1), found.log_evidence[0], atol=1e-11)
    np.testing.assert_allclose(found.posterior, np.exp(alpha + beta - found.log_evidence[0]), atol=1e-11)


@pytest.mark.slow(why="statistical")
def test_hmm_scaling():
    """10,000 rows, far beyond the smallest number: equal to the recursion on logs."""
    rng = np.random.default_rng(6)
    chain = HiddenChain.of(rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), 3))
    rows = rng.normal(-5, 2, size=(10_000, 3))
    found, alpha = smooth(chain, rows), forward(chain, rows)
    assert found.log_evidence[0] == pytest.approx(logsumexp(alpha[-1]), rel=1e-12)
    assert found.log_evidence[0] < -40_000
    assert found.log_predictive.sum() == pytest.approx(found.log_evidence[0], rel=1e-13)
    posterior = np.exp(alpha + backward(chain, rows) - found.log_evidence[0])
    np.testing.assert_allclose(found.posterior, posterior, atol=1e-7)


def test_hmm_xi():
    rng = np.random.default_rng(7)
    chain = HiddenChain.of(rng.dirichlet(np.ones(4)), random_rows(rng, 4, 4, 0.2))
    rows = rng.normal(size=(60, 4))
    xi, found = pairwise(chain, rows), smooth(chain, rows)
    np.testing.assert_allclose(xi[1:].sum((1, 2)), 1, atol=1e-12)
    np.testing.assert_allclose(xi[1:].sum(2), found.posterior[:-1], atol=1e-12)
    np.testing.assert_allclose(xi[1:].sum(1), found.posterior[1:], atol=1e-12)
    np.testing.assert_allclose(xi.sum(0), found.transition_counts, atol=1e-11)
    assert np.all(xi[0] == 0)


@pytest.mark.slow(why="compiles")
def test_hmm_as_graph():
    """The chain as a factor graph: sum-product gives the smoothed probabilities, max-product Viterbi's path."""
    from bayeslab.latents.chains.decoding import viterbi

    rng = np.random.default_rng(8)
    for n_rows in (1, 2, 9):
        start, move = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), 3)
        rows = rng.normal(size=(n_rows, 3))
        names = [f"z{t}" for t in range(n_rows)]
        scopes = [("z0",), *pairs_of(names), *((z,) for z in names)]
        tables = [start, *[move] * (n_rows - 1), *np.exp(rows)]
        graph = FactorGraph(dict.fromkeys(names, ("0", "1", "2")), tuple(scopes), tuple(tables))
        chain, beliefs, best = HiddenChain.of(start, move), sum_product(graph), max_product(graph)
        found, path = smooth(chain, rows), viterbi(chain, rows)
        np.testing.assert_allclose(found.posterior, list(beliefs.marginals.values()), atol=1e-12)
        assert found.log_evidence[0] == pytest.approx(beliefs.log_evidence, abs=1e-12)
        assert [*map(str, path.states)] == list(best.assignment.values())
        assert path.log_probability[0] == pytest.approx(best.log_score, abs=1e-12)


# ------------------------------------------------------------------------------------------ extremes


def test_likelihoods_that_underflow_in_every_state():
    chain, rows = umbrella("uunuu")
    low, high = smooth(chain, rows - 1e5), smooth(chain, rows)
    np.testing.assert_allclose(low.posterior, high.posterior, atol=1e-9)
    assert low.log_evidence[0] == pytest.approx(high.log_evidence[0] - 6e5, rel=1e-14)


def test_the_fitting_state_is_unreachable():
    """Left to right: state 1 fits row 0 by far, but only state 0 can be there."""
    chain = HiddenChain.of([1, 0], [[0.5, 0.5], [0, 1]])
    found = smooth(chain, [[-5000.0, 0.0], [0.0, -3000.0], [-7000.0, 0.0]])
    assert found.log_evidence[0] == pytest.approx(-5000 + 2 * np.log(0.5), rel=1e-15)
    np.testing.assert_allclose(found.posterior, [[1, 0], [1, 0], [0, 1]])


@pytest.mark.slow(why="statistical")
def test_a_state_given_up_that_wins_in_the_end():
    """Two chains that never meet; the one with far less weight at first fits all rows after better."""
    chain = HiddenChain.of([0.5, 0.5], np.eye(2))
    rows = np.tile([-1.0, 0.0], (3000, 1))
    rows[0] = [0.0, -2000.0]
    found = smooth(chain, rows)
    assert found.log_evidence[0] == pytest.approx(-2000 + np.log(0.5), abs=1e-9)
    assert found.posterior[:, 1] == pytest.approx(np.ones(3000))
    # And where states mix a little.
    chain = HiddenChain.of([0.5, 0.5], [[1 - 1e-9, 1e-9], [1e-9, 1 - 1e-9]])
    alpha = forward(chain, rows)
    found = smooth(chain, rows)
    assert found.log_evidence[0] == pytest.approx(logsumexp(alpha[-1]), abs=1e-9)
    np.testing.assert_allclose(found.posterior, np.exp(alpha + backward(chain, rows) - logsumexp(alpha[-1])), atol=1e-9)


def test_transitions_beyond_the_smallest_number():
    chain = HiddenChain([0.0, -np.inf], [[0.0, -900.0], [-np.inf, 0.0]])
    found = smooth(chain, [[0.0, -np.inf], [-np.inf, 0.0]])
    assert found.log_evidence[0] == -900
    np.testing.assert_allclose(found.transition_counts, [[0, 1], [0, 0]])


def test_an_impossible_row_is_named():
    chain = HiddenChain.of([1, 0], [[1, 0], [0, 1]])
    rows = np.zeros((7, 2))
    rows[4, 0] = -np.inf
    found = smooth(chain, rows, [0, 2, 7])
    assert found.log_evidence.tolist() == [0, -np.inf]
    assert found.impossible.tolist() == [-1, 4]
    assert np.isnan(found.posterior[2:]).all() and not np.isnan(found.posterior[:2]).any()
    assert found.start_counts.tolist() == [1, 0] and found.transition_counts.tolist() == [[1, 0], [0, 0]]
    with refused("evidence.probability-zero", "row 4.*sequence 1"):
        found.possible()


def test_a_million_rows():
    """Stable to the end, in less than a gigabyte; a two-state chain whose smoothed share is known."""
    import tracemalloc

    rng = np.random.default_rng(9)
    n = 1_000_000
    chain = HiddenChain.of(np.ones(3) / 3, np.full((3, 3), 0.05) + 0.85 * np.eye(3))
    rows = rng.normal(size=(n, 3))
    smooth(chain, rows[:10])
    tracemalloc.start()
    found = smooth(chain, rows)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.4 * 2**30
    assert abs(found.posterior.sum(1) - 1).max() < 1e-9
    assert found.transition_counts.sum() == pytest.approx(n - 1, rel=1e-9)
    # The end of the series does not know its beginning.
    np.testing.assert_allclose(found.filtered[-1], smooth(chain, rows[-2000:]).filtered[-1], atol=1e-12)
    np.testing.assert_allclose(
        found.posterior[500_000], smooth(chain, rows[499_000:501_000]).posterior[1000], atol=1e-12
    )


# ------------------------------------------------------------------------------- sparse and left to right


@pytest.mark.slow(why="compiles")
def test_hmm_sparse_cost():
    """Banded transitions: the same answers for N N̄ T products in place of N² T."""
    rng = np.random.default_rng(10)
    n_states, n_rows = 30, 400
    band = np.abs(np.subtract.outer(np.arange(n_states), np.arange(n_states))) <= 1
    move = np.where(band, rng.random((n_states, n_states)), 0)
    move /= move.sum(1, keepdims=True)
    rows, edges = rng.normal(size=(n_rows, n_states)), Edges.of(band)
    dense = HiddenChain.of(np.ones(n_states) / n_states, move)
    sparse = HiddenChain.of(np.ones(n_states) / n_states, edges.take(move), edges)
    one, other = smooth(dense, rows), smooth(sparse, rows)
    np.testing.assert_allclose(one.filtered, other.filtered, atol=1e-12)
    np.testing.assert_allclose(one.posterior, other.posterior, atol=1e-12)
    np.testing.assert_allclose(one.transition_counts, edges.dense(other.transition_counts), atol=1e-10)
    assert one.log_evidence == pytest.approx(other.log_evidence, rel=1e-13)
    assert one.n_products == n_states**2 * (n_rows - 1)
    assert other.n_products == band.sum() * (n_rows - 1)


def test_hmm_left_right():
    """a_ij = 0 for j < i and j > i + 2: the zeros stay zero under Baum-Welch, and the likelihood never falls."""
    rng = np.random.default_rng(11)
    n_states = 5
    mask = np.triu(np.ones((n_states, n_states), bool)) & ~np.triu(np.ones((n_states, n_states), bool), 3)
    move = np.where(mask, 1.0, 0)
    move /= move.sum(1, keepdims=True)
    start, emit = np.eye(n_states)[0], rng.dirichlet(np.ones(4), n_states)
    symbols, offsets = rng.integers(0, 4, 240), np.arange(0, 241, 20)
    before = -np.inf
    for _ in range(15):
        found = smooth(HiddenChain.of(start, move), np.log(emit.T)[symbols], offsets)
        assert found.log_evidence.sum() >= before - 1e-9
        before = found.log_evidence.sum()
        counts = found.transition_counts
        assert np.all(counts[~mask] == 0)
        move = np.divide(counts, counts.sum(1, keepdims=True), out=move, where=counts.sum(1, keepdims=True) > 0)
        emit = symbol_counts(found.posterior, symbols, 4) + 1e-300
        emit /= emit.sum(1, keepdims=True)
        assert found.start_counts.tolist() == pytest.approx([12, 0, 0, 0, 0])


# ------------------------------------------------------------------------------------------- learning


def baum_welch(symbols, offsets, n_states, n_symbols, rng, n_steps, shares="posterior"):
    start, move, emit = (
        rng.dirichlet(np.ones(n), k) for n, k in ((n_states, 1), (n_states, n_states), (n_symbols, n_states))
    )
    start, trace = start[0], []
    for _ in range(n_steps):
        chain, rows = HiddenChain.of(start, move), np.log(emit.T)[symbols]
        found = smooth(chain, rows, offsets)
        trace.append(found.log_evidence.sum())
        share = getattr(found, shares)
        counts = found.transition_counts
        if shares == "filtered":
            inner = np.setdiff1d(np.arange(1, len(rows)), offsets)
            counts = share[inner - 1].T @ share[inner]
        start = found.start_counts / found.start_counts.sum()
        move = counts / counts.sum(1, keepdims=True)
        emit = symbol_counts(share, symbols, n_symbols)
        emit /= emit.sum(1, keepdims=True)
    return np.array(trace)


def planted_symbols(rng, n_rows=400):
    state, symbols = 0, np.empty(n_rows, int)
    for t in range(n_rows):
        state = state if rng.random() < 0.85 else 1 - state
        symbols[t] = rng.choice(3, p=[[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]][state])
    return symbols


def test_baum_welch():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        trace = baum_welch(planted_symbols(rng), np.array([0, 150, 400]), 3, 3, rng, 40)
        assert np.all(np.diff(trace) >= -1e-9) and trace[-1] > trace[0] + 1


def test_hmm_transition_em_needs_smoothed_probabilities():
    """With filtered in place of smoothed probabilities the likelihood falls on the way."""
    falls = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        trace = baum_welch(planted_symbols(rng), np.array([0, 150, 400]), 3, 3, rng, 40, "filtered")
        falls += np.any(np.diff(trace) < -1e-6)
    assert falls >= 2


def test_baum_welch_of_observable_states_counts():
    rng = np.random.default_rng(12)
    states, offsets = rng.integers(0, 3, 100), np.array([0, 30, 100])
    with np.errstate(divide="ignore"):
        rows = np.log(np.eye(3)[states])
    found = smooth(HiddenChain.of(rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), 3)), rows, offsets)
    counts = np.zeros((3, 3))
    for t in range(1, 100):
        counts[states[t - 1], states[t]] += t != 30
    np.testing.assert_allclose(found.transition_counts, counts, atol=1e-12)
    np.testing.assert_allclose(found.start_counts, np.eye(3)[states[[0, 30]]].sum(0), atol=1e-12)


def test_counts_do_not_depend_on_how_work_is_spread(monkeypatch):
    from bayeslab.latents.chains import forward_backward

    rng = np.random.default_rng(13)
    chain = HiddenChain.of(rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6), 6))
    rows, offsets = rng.normal(size=(60_000, 6)), np.append(0, np.sort(rng.choice(60_000, 40)))
    offsets = np.append(offsets, 60_000)
    assert len(forward_backward.blocks_of(offsets, 36)) > 5
    threads = smooth(chain, rows, offsets)
    monkeypatch.setattr(forward_backward.os, "cpu_count", lambda: 1)
    alone = smooth(chain, rows, offsets)
    np.testing.assert_array_equal(threads.transition_counts, alone.transition_counts)
    np.testing.assert_array_equal(threads.posterior, alone.posterior)
    each = sum(smooth(chain, rows[a:b]).transition_counts for a, b in pairs_of(offsets))
    np.testing.assert_allclose(threads.transition_counts, each, rtol=1e-11)


# -------------------------------------------------------------------------------------------- gradient


def gradient_case(rng, varying, sparse, several):
    n_states, offsets = 3, np.array([0, 4, 5, 9])
    edges = Edges.of([[1, 1, 0], [0, 1, 1], [1, 0, 1]]) if sparse else None
    n = 6 if sparse else 9
    log_transition = rng.normal(size=(9, n) if varying else n)
    log_transition = log_transition if sparse else log_transition.reshape(*log_transition.shape[:-1], 3, 3)
    log_start = rng.normal(size=(3, n_states) if several else n_states)
    return HiddenChain(log_start, log_transition, edges), rng.normal(size=(9, n_states)), offsets


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize(("varying", "sparse", "several"), [(0, 0, 0), (1, 0, 1), (0, 1, 0), (1, 1, 1)])
def test_gradient_of_the_kernel_equals_differences(varying, sparse, several):
    from bayeslab.latents.chains.markov_kernels import log_evidence_and_gradient, log_evidence_and_gradient_sparse

    chain, rows, offsets = gradient_case(np.random.default_rng(14), varying, sparse, several)
    parameters, sizes = chain.flat(rows)

    def evidence(x):
        if sparse:
            return log_evidence_and_gradient_sparse(x, offsets, sizes, chain.edges.starts, chain.edges.targets)
        return log_evidence_and_gradient(x, offsets, sizes)

    value, gradient = evidence(parameters)
    assert value == pytest.approx(truth(chain, rows, offsets)["log_evidence"].sum(), abs=1e-11)
    step = 1e-5 * np.eye(len(parameters))
    differences = [(evidence(parameters + e)[0] - evidence(parameters - e)[0]) / 2e-5 for e in step]
    np.testing.assert_allclose(gradient, differences, atol=1e-8)
    found = smooth(chain, rows, offsets)
    parts = [found.start_counts, found.transition_counts, found.posterior]
    np.testing.assert_allclose(gradient, np.concatenate([p.ravel() for p in parts]), atol=1e-12)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize(("varying", "several"), [(0, 0), (1, 1)])
def test_normal_rows_inside_the_kernel(varying, several):
    """Value: the normal log densities as rows; slope: differences. A cell and a row are missing."""
    from bayeslab.latents.chains.markov_kernels import gaussian_log_evidence_and_gradient

    rng = np.random.default_rng(15)
    chain, _, offsets = gradient_case(rng, varying, 0, several)
    values = rng.normal(size=(9, 2))
    values[2, 1], values[6] = np.nan, np.nan
    mean, deviation = rng.normal(size=(3, 2)), rng.uniform(0.5, 2, (3, 2))
    cells = stats.norm.logpdf(values[:, None, :], mean, deviation)
    rows = np.where(np.isnan(cells), 0.0, cells).sum(axis=2)
    head, sizes = chain.flat(rows)
    parameters = np.concatenate([head[: -rows.size], mean.ravel(), deviation.ravel()])

    def evidence(x):
        return gaussian_log_evidence_and_gradient(x, offsets, sizes, values)

    value, gradient = evidence(parameters)
    assert value == pytest.approx(truth(chain, rows, offsets)["log_evidence"].sum(), abs=1e-11)
    step = 1e-5 * np.eye(len(parameters))
    differences = [(evidence(parameters + e)[0] - evidence(parameters - e)[0]) / 2e-5 for e in step]
    np.testing.assert_allclose(gradient, differences, atol=1e-7)


def test_gradient_of_impossible_data_is_zero():
    from bayeslab.latents.chains.markov_kernels import log_evidence_and_gradient

    chain = HiddenChain.of([1, 0], np.eye(2))
    parameters, sizes = chain.flat(np.array([[0, 0], [-np.inf, 0]]))
    value, gradient = log_evidence_and_gradient(parameters, np.array([0, 2]), sizes)
    assert value == -np.inf and not gradient.any()


@pytest.mark.slow(why="compiles")
def test_gradient_in_a_graph_equals_that_of_the_model_written_out():
    """Through EvidenceOp, in a PyMC model: value and gradient equal those of the recursion spelled out in PyTensor."""
    import pymc as pm
    import pytensor
    import pytensor.tensor as pt

    from bayeslab.evidence import log_evidence
    from bayeslab.latents.chains.forward_backward import KERNEL

    rng = np.random.default_rng(15)
    y = rng.normal(size=7)
    with pm.Model() as model:
        start = pm.Dirichlet("start", np.ones(2))
        move = pm.Dirichlet("move", np.ones((2, 2)))
        mean = pm.Normal("mean", 0, 1, shape=2)
        rows = -0.5 * (y[:, None] - mean) ** 2 - 0.5 * np.log(2 * np.pi)
        flat = pt.concatenate([pt.log(start), pt.log(move).ravel(), rows.ravel()])
        pm.Potential("evidence", log_evidence(KERNEL, flat, np.array([0, 7]), np.array([2, 1, 1])))
    with pm.Model() as written:
        start = pm.Dirichlet("start", np.ones(2))
        move = pm.Dirichlet("move", np.ones((2, 2)))
        mean = pm.Normal("mean", 0, 1, shape=2)
        rows = -0.5 * (y[:, None] - mean) ** 2 - 0.5 * np.log(2 * np.pi)
        alpha = start * pt.exp(rows[0])
        for t in range(1, 7):
            alpha = (alpha @ move) * pt.exp(rows[t])
        pm.Potential("evidence", pt.log(alpha.sum()))
    point = {k: v + 0.3 * rng.normal(size=np.shape(v)) for k, v in model.initial_point().items()}
    python = pytensor.compile.mode.Mode("py", "fast_compile")
    ours, theirs = (
        m.compile_fn([m.logp(), m.dlogp()], mode=python, inputs=m.value_vars)(point) for m in (model, written)
    )
    assert ours[0] == pytest.approx(theirs[0], abs=1e-11)
    np.testing.assert_allclose(ours[1], theirs[1], atol=1e-10)


@pytest.mark.slow(why="compiles")
def test_gradient_compiled_by_pytensor():
    import pytensor
    import pytensor.tensor as pt

    from bayeslab.evidence import log_evidence
    from bayeslab.latents.chains.forward_backward import SPARSE_KERNEL

    chain, rows, offsets = gradient_case(np.random.default_rng(20), varying=False, sparse=True, several=False)
    parameters, sizes = chain.flat(rows)
    x = pt.dvector("x")
    value = log_evidence(SPARSE_KERNEL, x, offsets, sizes, chain.edges.starts, chain.edges.targets)
    evidence = pytensor.function([x], [value, pt.grad(value, x)], mode=pytensor.compile.mode.Mode("numba", None))
    found = smooth(chain, rows, offsets)
    parts = [found.start_counts, found.transition_counts, found.posterior.ravel()]
    assert evidence(parameters)[0] == pytest.approx(found.log_evidence.sum(), abs=1e-12)
    np.testing.assert_allclose(evidence(parameters)[1], np.concatenate(parts), atol=1e-12)


# ----------------------------------------------------------------------- emissions of several kinds


def test_hmm_two_alphabets():
    """Two streams given the state equal one with the product alphabet, and each trains on its own stream."""
    rng = np.random.default_rng(16)
    chain = HiddenChain.of(rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), 3))
    one, two = rng.dirichlet(np.ones(2), 3), rng.dirichlet(np.ones(4), 3)
    a, b = rng.integers(0, 2, 50), rng.integers(0, 4, 50)
    streams = smooth(chain, np.log(one.T)[a] + np.log(two.T)[b])
    joint = (one[:, :, None] * two[:, None, :]).reshape(3, 8)
    product = smooth(chain, np.log(joint.T)[a * 4 + b])
    assert streams.log_evidence == pytest.approx(product.log_evidence, abs=1e-12)
    together = symbol_counts(product.posterior, a * 4 + b, 8).reshape(3, 2, 4)
    np.testing.assert_allclose(symbol_counts(streams.posterior, a, 2), together.sum(2), atol=1e-11)
    np.testing.assert_allclose(symbol_counts(streams.posterior, b, 4), together.sum(1), atol=1e-11)


def test_hmm_no_replacement():
    """Balls drawn without replacement: what an urn still holds depends on what was drawn, so the rows are
    likelihoods that change over time; here each urn keeps one count for all draws, as when every
    urn is told to give up the ball that was drawn."""
    urns, seen = np.array([[3, 2, 1], [1, 2, 3]]), [0, 2, 1, 0, 2]
    rows, left = [], urns.astype(float)
    for ball in seen:
        rows.append(left[:, ball] / left.sum(1))
        left[:, ball] -= 1
    chain = HiddenChain.of([0.4, 0.6], [[0.8, 0.2], [0.3, 0.7]])
    with np.errstate(divide="ignore"):
        rows = np.log(rows)
    paths, scores = enumerate_paths(chain, rows, [0, 5], 0)
    assert len(paths) == 32
    assert smooth(chain, rows).log_evidence[0] == pytest.approx(logsumexp(scores), abs=1e-12)


def test_hmm_window_input():
    """Emissions that look back one row: an autoregressive chain, by enumeration over paths."""
    rng = np.random.default_rng(17)
    y, weight = rng.normal(size=7), np.array([0.9, -0.5])
    chain = HiddenChain.of([0.3, 0.7], [[0.9, 0.1], [0.2, 0.8]])
    rows = -0.5 * (y[1:, None] - weight * y[:-1, None]) ** 2 - 0.5 * np.log(2 * np.pi)
    total = 0.0
    for path in np.ndindex(*[2] * 6):
        p = np.exp(chain.log_start[path[0]])
        for t in range(6):
            p *= np.exp(chain.log_transition[path[t - 1], path[t]]) if t else 1
            p *= np.exp(-0.5 * (y[t + 1] - weight[path[t]] * y[t]) ** 2) / np.sqrt(2 * np.pi)
        total += p
    assert np.exp(smooth(chain, rows).log_evidence[0]) == pytest.approx(total, rel=1e-11)


def test_hmm_input_transition():
    """Transitions by inputs; where they forget the state before, rows are a mixture of experts each."""
    rng = np.random.default_rng(18)
    gate = rng.dirichlet(np.ones(3), 30)
    rows = rng.normal(size=(30, 3))
    chain = HiddenChain(np.log(gate[0]), np.log(np.repeat(gate[:, None], 3, 1)))
    found = smooth(chain, rows)
    share = gate * np.exp(rows)
    assert found.log_evidence[0] == pytest.approx(np.log(share.sum(1)).sum(), abs=1e-11)
    np.testing.assert_allclose(found.posterior, share / share.sum(1, keepdims=True), atol=1e-12)


def test_one_step_and_several_steps_ahead():
    chain, rows = umbrella("uu")
    found = smooth(chain, rows)
    ahead = predicted_states(chain, found.filtered)
    # Day 1 has no row before it but day 0: 0.7 · 0.7 + 0.3 · 0.3.
    assert ahead[0, 0] == pytest.approx(0.7) and ahead[1, 0] == pytest.approx(0.58)
    assert ahead[2, 0] == pytest.approx(0.7 * 0.861386 + 0.3 * 0.138614, abs=1e-6)
    np.testing.assert_allclose(np.log((ahead * np.exp(rows)).sum(1)), found.log_predictive, atol=1e-12)
    steps = predict_states(chain, found.filtered[-1], 200)
    assert steps[0, 0] == pytest.approx(0.7 * 0.890832 + 0.3 * 0.109168, abs=1e-6)
    assert steps[-1] == pytest.approx([0.5, 0.5])
    each = np.repeat(chain.log_transition[None], 3, 0)
    np.testing.assert_allclose(predicted_states(HiddenChain(chain.log_start, each), found.filtered), ahead)


def test_emissions_and_moments_with_missing_cells():
    from scipy.stats import norm

    rng = np.random.default_rng(19)
    values, mean, deviation = rng.normal(size=(50, 2)), rng.normal(size=(3, 2)), rng.uniform(0.5, 2, (3, 2))
    values[::7, 0] = np.nan
    each = norm.logpdf(values[:, None], mean, deviation)
    np.testing.assert_allclose(diagonal_gaussian_rows(values, mean, deviation), np.nansum(each, 2), atol=1e-12)
    posterior = rng.dirichlet(np.ones(3), 50)
    weight, centre, variance = weighted_moments(posterior, values + 1e8)
    for d in range(2):
        seen = ~np.isnan(values[:, d])
        for k in range(3):
            share = posterior[seen, k]
            average = np.average(values[seen, d], weights=share)
            assert weight[k, d] == pytest.approx(share.sum())
            assert centre[k, d] - 1e8 == pytest.approx(average, abs=1e-6)
            assert variance[k, d] == pytest.approx(
                np.average((values[seen, d] - average) ** 2, weights=share), rel=1e-6
            )
    symbols = rng.integers(-1, 4, 50)
    direct = [[posterior[symbols == m, k].sum() for m in range(4)] for k in range(3)]
    np.testing.assert_allclose(symbol_counts(posterior, symbols, 4), direct, atol=1e-12)


# ------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("start", "move", "edges", "code", "match"),
    [
        ([], np.zeros((0, 0)), None, "model.wrong-shape", "log_start.*n_states"),
        ([0, 0], np.zeros((3, 3)), None, "model.wrong-shape", "log_transition.*2"),
        ([0, np.nan], np.zeros((2, 2)), None, "model.not-finite", "log_start.*NaN"),
        ([0, 0], np.full((2, 2), np.inf), None, "model.not-finite", "log_transition.*NaN"),
        ([0, 0, 0], np.zeros(2), Edges.of(np.eye(2)), "model.wrong-length", "log_start.*3.*2"),
    ],
)
def test_a_bad_chain_is_refused(start, move, edges, code, match):
    with refused(code, match):
        HiddenChain(start, move, edges)


@pytest.mark.parametrize(
    ("rows", "offsets", "code", "match"),
    [
        (np.zeros((4, 3)), None, "data.wrong-shape", "n_rows.*2"),
        ([[0, 0], [np.nan, 0]], None, "data.not-finite", "row 1"),
        ([[0, np.inf]], None, "data.not-finite", "row 0"),
        (np.zeros((4, 2)), [0, 3], "data.not-in-order", "offsets.*4.*0 to 3"),
        (np.zeros((4, 2)), [0, 3, 2, 4], "data.not-in-order", "offsets.*4.*0 to 4"),
        (np.zeros((4, 2)), [0.0, 4.0], "data.not-whole", "offsets"),
    ],
)
def test_bad_rows_are_refused(rows, offsets, code, match):
    with refused(code, match):
        smooth(HiddenChain.of([0.5, 0.5], np.full((2, 2), 0.5)), rows, offsets)


def test_edges_are_checked():
    edges = Edges.of([[1, 0], [1, 1]])
    assert (
        edges.starts.tolist() == [0, 1, 3]
        and edges.targets.tolist() == [0, 0, 1]
        and edges.sources.tolist() == [0, 1, 1]
    )
    matrix = np.array([[0.5, 0], [0.2, 0.8]])
    np.testing.assert_array_equal(edges.dense(edges.take(matrix)), matrix)
    for starts, targets, code in (
        ([0, 2], [0, 1], "model.out-of-range"),
        ([0, 1, 3], [0, 1, 0], "model.not-in-order"),
        ([1, 1, 1], [0], "model.not-in-order"),
        ([0, 1, 1], [2], "model.out-of-range"),
    ):
        with refused(code):
            Edges(np.array(starts), np.array(targets))
