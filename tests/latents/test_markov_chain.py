"""Markov chains by counting and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from bayeslab.latents.chains.forward_backward import smooth
from bayeslab.latents.chains.markov_chain import (
    MarkovChain,
    SecondOrderChain,
    banded,
    classes,
    count,
    ergodic,
    left_right,
    stationary,
)
from tests.latents._paths import random_rows
from tests.refusals import refused


def random_chain(rng, n=3, zeros=0.0):
    return MarkovChain(rng.dirichlet(np.ones(n)), random_rows(rng, n, n, zeros))


def random_second(rng, n=3):
    return SecondOrderChain(rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(n), n), rng.dirichlet(np.ones(n), (n, n)))


def test_markov_chain():
    rng = np.random.default_rng(1)
    chain = random_chain(rng)
    np.testing.assert_allclose(chain.transition.sum(1), 1)
    states = np.array([0, 2, 2, 1, 1, 0])
    p = chain.start[0] * chain.transition[0, 2] * chain.transition[2, 2] * chain.transition[2, 1]
    assert np.exp(chain.log_probability(states[:4])) == pytest.approx(p)
    each = chain.log_probability(states, [0, 4, 4, 6])
    assert np.exp(each) == pytest.approx([p, 1, chain.start[1] * chain.transition[1, 0]])
    # A missing state is summed over.
    gap = chain.start[0] * (chain.transition[0] @ chain.transition[:, 1])
    assert np.exp(chain.log_probability(np.array([0, -1, 1]))) == pytest.approx(gap)


def test_markov_urn():
    """Three urns with balls of one colour each: red, red, green, green."""
    start, move = np.array([0.5, 0.2, 0.3]), np.array([[0.4, 0.3, 0.3], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]])
    red, green = 0, 2
    expected = 0.5 * 0.4 * 0.3 * 0.8
    assert np.exp(MarkovChain(start, move).log_probability(np.array([red, red, green, green]))) == pytest.approx(
        expected
    )


def test_counts_by_hand():
    states, offsets = np.array([0, 1, 1, 0, 1, 0, 2]), [0, 4, 4, 7]
    found = count(states, 3, offsets)
    assert found.starts.tolist() == [1, 1, 0]
    assert found.transitions.tolist() == [[0, 1, 1], [2, 1, 0], [0, 0, 0]]
    second = count(states, 3, offsets, order=2)
    assert second.transitions.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert second.triples[0, 1].tolist() == [0, 1, 0] and second.triples[1, 1].tolist() == [1, 0, 0]
    assert second.triples[1, 0].tolist() == [0, 0, 1] and second.triples.sum() == 3
    gaps = count(np.array([0, -1, 1, 1]), 2)
    assert gaps.starts.tolist() == [1, 0] and gaps.transitions.tolist() == [[0, 0], [0, 1]]


def test_markov_ml():
    """Shares of transitions equal the numeric maximum of the likelihood."""
    rng = np.random.default_rng(2)
    states, offsets = random_chain(rng).simulate([20, 30], rng)
    found = MarkovChain.maximum_likelihood(count(states, 3, offsets))

    def rows(x):
        weights = np.exp(np.column_stack([x.reshape(4, 2), np.zeros(4)]))
        return weights / weights.sum(1, keepdims=True)

    def loss(x):
        p = rows(x)
        return -MarkovChain(p[0], p[1:]).log_probability(states, offsets).sum()

    best = rows(minimize(loss, np.zeros(8), method="BFGS", options={"gtol": 1e-7}).x)
    np.testing.assert_allclose(best[0], found.start, atol=1e-4)
    np.testing.assert_allclose(best[1:], found.transition, atol=1e-4)
    assert -loss(np.zeros(8)) < found.log_probability(states, offsets).sum()


def test_a_state_never_left_has_an_even_row():
    found = MarkovChain.maximum_likelihood(count(np.array([0, 1]), 3))
    np.testing.assert_allclose(found.transition, [[0, 1, 0], [1 / 3] * 3, [1 / 3] * 3])


def test_markov_generate():
    """100 sequences of 1,000 states; estimates within four standard errors of the truth."""
    rng = np.random.default_rng(3)
    chain = random_chain(rng)
    states, offsets = chain.simulate([1000] * 100, rng)
    counts = count(states, 3, offsets)
    found = MarkovChain.maximum_likelihood(counts)
    n = counts.transitions.sum(1, keepdims=True)
    error = np.sqrt(chain.transition * (1 - chain.transition) / n)
    assert np.all(np.abs(found.transition - chain.transition) < 4 * error)
    assert np.all(np.abs(found.start - chain.start) < 4 * np.sqrt(chain.start * (1 - chain.start) / 100))
    again, _ = chain.simulate([1000] * 100, np.random.default_rng(4))
    assert not np.array_equal(states, again)


def test_posterior_is_dirichlet():
    counts = count(np.array([0, 0, 1, 0]), 2)
    start, transition = MarkovChain.posterior(counts, 0.5)
    assert start.a.tolist() == [1.5, 0.5]
    assert transition.a.tolist() == [[1.5, 1.5], [1.5, 0.5]]
    np.testing.assert_allclose(transition.mean(), [[0.5, 0.5], [0.75, 0.25]])
    each = SecondOrderChain.posterior(count(np.array([0, 0, 1]), 2, order=2))
    assert each[2].a[0, 0].tolist() == [1, 2] and each[2].a.shape == (2, 2, 2)


def test_markov_second_order():
    """Equal to a chain of first order on pairs; recovered from what it generates; of hidden states, folded back."""
    rng = np.random.default_rng(5)
    chain = random_second(rng)
    states = np.array([0, 2, 1, 1, 0])
    p = chain.start[0] * chain.second[0, 2]
    p *= chain.transition[0, 2, 1] * chain.transition[2, 1, 1] * chain.transition[1, 1, 0]
    assert np.exp(chain.log_probability(states)) == pytest.approx(p)
    assert np.exp(chain.log_probability(states, [0, 2, 2, 5])) == pytest.approx(
        [chain.start[0] * chain.second[0, 2], 1, chain.start[1] * chain.second[1, 1] * chain.transition[1, 1, 0]]
    )
    # Seen states as the evidence of the chain on pairs.
    hidden = chain.hidden()
    with np.errstate(divide="ignore"):
        rows = np.log(chain.last_states == states[:, None])
    found = smooth(hidden, rows)
    assert np.exp(found.log_evidence[0]) == pytest.approx(p)
    second, triples = chain.fold(found.transition_counts)
    counts = count(states, 3, order=2)
    np.testing.assert_allclose(second, counts.transitions, atol=1e-12)
    np.testing.assert_allclose(triples, counts.triples, atol=1e-12)
    np.testing.assert_allclose(hidden.matrix().sum(1), 1)

    states, offsets = chain.simulate([500] * 40, rng)
    counts = count(states, 3, offsets, order=2)
    fitted = SecondOrderChain.maximum_likelihood(counts)
    n = counts.triples.sum(2, keepdims=True)
    assert np.all(
        np.abs(fitted.transition - chain.transition) < 4.5 * np.sqrt(chain.transition * (1 - chain.transition) / n)
    )
    assert fitted.log_probability(states, offsets).sum() > chain.log_probability(states, offsets).sum()


def test_hidden_second_order_equals_enumeration():
    rng = np.random.default_rng(6)
    chain, rows = random_second(rng, 2), rng.normal(size=(6, 2))
    total, posterior = 0.0, np.zeros((6, 2))
    for path in np.ndindex(*[2] * 6):
        p = chain.start[path[0]] * chain.second[path[0], path[1]] * np.exp(rows[np.arange(6), path].sum())
        for t in range(2, 6):
            p *= chain.transition[path[t - 2], path[t - 1], path[t]]
        total += p
        posterior[np.arange(6), path] += p
    found = smooth(chain.hidden(), rows[:, chain.last_states])
    assert np.exp(found.log_evidence[0]) == pytest.approx(total, rel=1e-12)
    last = np.stack([found.posterior[:, chain.last_states == k].sum(1) for k in range(2)], 1)
    np.testing.assert_allclose(last, posterior / total, atol=1e-12)


# ------------------------------------------------------------------------------------ where they settle


def test_stationary_distribution():
    rng = np.random.default_rng(7)
    for n in (1, 2, 5, 40):
        chain = random_chain(rng, n)
        pi = chain.stationary()
        np.testing.assert_allclose(pi @ chain.transition, pi, atol=1e-15)
        np.testing.assert_allclose(pi, np.linalg.matrix_power(chain.transition, 2000)[0], atol=1e-10)
    # Nearly apart: a solver with subtractions loses digits.
    pi = stationary([[1 - 1e-15, 1e-15], [3e-15, 1 - 3e-15]])
    assert pi == pytest.approx([0.75, 0.25], rel=0.1)


def test_transient_states_have_no_share():
    assert stationary([[0.5, 0.5, 0], [0, 0.2, 0.8], [0, 0.4, 0.6]]) == pytest.approx([0, 1 / 3, 2 / 3])


def test_a_periodic_chain_has_shares_of_time():
    cycle = np.roll(np.eye(3), 1, axis=1)
    assert stationary(cycle) == pytest.approx([1 / 3] * 3)
    assert classes(cycle).periods == (3,)
    assert classes([[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]]).periods == (2,)
    assert classes([[0, 1, 0], [0, 0, 1], [0.5, 0.5, 0]]).periods == (1,)


def test_several_final_classes_are_named():
    move = [[0.5, 0.25, 0, 0.25], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
    found = classes(move)
    assert found.members == ((0,), (1,), (2, 3)) and found.closed == (False, True, True) and found.periods == (1, 1, 2)
    with refused("model.not-identified", r"\{1\}, \{2, 3\}"):
        stationary(move)


# ------------------------------------------------------------------------------------------- patterns


def test_patterns_of_transitions():
    assert ergodic(2).all()
    assert left_right(4, 2).astype(int).tolist() == [[1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]]
    assert banded(3).astype(int).tolist() == [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
    with refused("model.out-of-range", "-1"):
        left_right(3, -1)


@pytest.mark.parametrize(
    ("make", "code", "match"),
    [
        (lambda: MarkovChain([0.5, 0.6], np.eye(2)), "model.not-probabilities", "start"),
        (lambda: MarkovChain([0.5, 0.5], np.eye(3)), "model.wrong-shape", "transition.*2"),
        (lambda: MarkovChain([0.5, 0.5], [[np.nan, 1], [0, 1]]), "model.not-probabilities", "transition"),
        (lambda: count(np.array([0, 3]), 3), "data.out-of-range", "3.*row 1.*2"),
        (lambda: count(np.array([0.5]), 3), "data.wrong-shape", "sequences.*float64"),
        (lambda: count(np.array([0, 1]), 3, [0, 1]), "data.not-in-order", "offsets.*2"),
        (lambda: count(np.array([0, 1]), 3, order=3), "model.unsupported", "order.*3"),
        (lambda: SecondOrderChain.maximum_likelihood(count(np.array([0, 1]), 2)), "model.not-applicable", "order.*2"),
    ],
)
def test_bad_input_is_refused(make, code, match):
    with refused(code, match):
        make()
