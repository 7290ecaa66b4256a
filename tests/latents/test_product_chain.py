"""Factorial, coupled and switching hidden Markov models against enumeration over the paths of all chains."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from bayeslab.latents.chains.forward_backward import HiddenChain, smooth
from bayeslab.latents.chains.product_chain import ProductSpace
from tests.refusals import refused

LENGTH = 4


def enumerate_all(space, start, move, emit):
    """Evidence, posterior (row, *sizes) and transitions, from functions of the states of all chains."""
    joint = list(np.ndindex(*space.sizes))
    total, posterior, moves = 0.0, np.zeros((LENGTH, *space.sizes)), np.zeros((*space.sizes, *space.sizes))
    for path in product(joint, repeat=LENGTH):
        p = start(path[0]) * np.prod([emit(t, z) for t, z in enumerate(path)])
        p *= np.prod([move(a, b) for a, b in pairwise(path)])
        total += p
        for t, z in enumerate(path):
            posterior[t][z] += p
            if t:
                moves[path[t - 1]][z] += p
    return total, posterior / total, moves / total


def parts(rng, sizes):
    return [rng.dirichlet(np.ones(k)) for k in sizes], [rng.dirichlet(np.ones(k), k) for k in sizes]


def test_hmm_factorial():
    rng = np.random.default_rng(1)
    space = ProductSpace((2, 3))
    starts, moves = parts(rng, space.sizes)
    emit = rng.random((LENGTH, 2, 3))
    total, posterior, transitions = enumerate_all(
        space,
        lambda z: starts[0][z[0]] * starts[1][z[1]],
        lambda a, b: moves[0][a[0], b[0]] * moves[1][a[1], b[1]],
        lambda t, z: emit[t][z],
    )
    chain = HiddenChain(space.join([np.log(s) for s in starts]), space.join_transitions([np.log(m) for m in moves]))
    found = smooth(chain, np.log(emit).reshape(LENGTH, 6))
    assert np.exp(found.log_evidence[0]) == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(space.marginal(found.posterior, 0), posterior.sum(2), atol=1e-12)
    np.testing.assert_allclose(space.marginal(found.posterior, 1), posterior.sum(1), atol=1e-12)
    np.testing.assert_allclose(space.fold(found.transition_counts, 0), transitions.sum((1, 3)), atol=1e-12)
    np.testing.assert_allclose(space.fold(found.transition_counts, 1), transitions.sum((0, 2)), atol=1e-12)


def test_hmm_coupled():
    """Two chains, each leading the other, and two outputs."""
    rng = np.random.default_rng(2)
    space = ProductSpace((3, 2))
    starts, _ = parts(rng, space.sizes)
    moves = [rng.dirichlet(np.ones(k), space.sizes) for k in space.sizes]
    emits = [rng.random((LENGTH, k)) for k in space.sizes]
    total, posterior, transitions = enumerate_all(
        space,
        lambda z: starts[0][z[0]] * starts[1][z[1]],
        lambda a, b: moves[0][a][b[0]] * moves[1][a][b[1]],
        lambda t, z: emits[0][t, z[0]] * emits[1][t, z[1]],
    )
    chain = HiddenChain(space.join([np.log(s) for s in starts]), space.join_coupled([np.log(m) for m in moves]))
    found = smooth(chain, space.join([np.log(e) for e in emits]))
    assert np.exp(found.log_evidence[0]) == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(space.marginal(found.posterior, 1), posterior.sum(1), atol=1e-12)
    np.testing.assert_allclose(space.fold_coupled(found.transition_counts, 0), transitions.sum(3), atol=1e-12)
    np.testing.assert_allclose(space.fold_coupled(found.transition_counts, 1), transitions.sum(2), atol=1e-12)


def test_hmm_switching():
    """A switch and two chains; and with one chain, the plain model."""
    rng = np.random.default_rng(3)
    space = ProductSpace((2, 2, 2))
    starts, moves = parts(rng, space.sizes)
    emits = [rng.random((LENGTH, 2)), rng.random((LENGTH, 2))]
    total, posterior, _ = enumerate_all(
        space,
        lambda z: np.prod([s[k] for s, k in zip(starts, z, strict=True)]),
        lambda a, b: np.prod([m[i, j] for m, i, j in zip(moves, a, b, strict=True)]),
        lambda t, z: emits[z[0]][t, z[1 + z[0]]],
    )
    chain = HiddenChain(space.join([np.log(s) for s in starts]), space.join_transitions([np.log(m) for m in moves]))
    found = smooth(chain, space.switched([np.log(e) for e in emits]))
    assert np.exp(found.log_evidence[0]) == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(space.marginal(found.posterior, 0), posterior.sum((2, 3)), atol=1e-12)

    one = ProductSpace((1, 2))
    chain = HiddenChain(one.join([[0.0], np.log(starts[1])]), one.join_transitions([[[0.0]], np.log(moves[1])]))
    plain = smooth(HiddenChain.of(starts[1], moves[1]), np.log(emits[0]))
    assert smooth(chain, one.switched([np.log(emits[0])])).log_evidence == pytest.approx(plain.log_evidence, abs=1e-13)


def test_transitions_may_change_with_time():
    rng = np.random.default_rng(4)
    space = ProductSpace((2, 2))
    each = np.log(rng.dirichlet(np.ones(2), (5, 2)))
    same = np.log(rng.dirichlet(np.ones(2), 2))
    joined = space.join_transitions([each, same])
    assert joined.shape == (5, 4, 4)
    np.testing.assert_allclose(joined[3], np.log(np.kron(np.exp(each[3]), np.exp(same))))


def test_parts_that_do_not_fit_are_refused():
    space = ProductSpace((2, 3))
    with refused("model.wrong-shape", "chain 1.*3"):
        space.join([np.zeros(2), np.zeros(2)])
    with refused("model.wrong-length", "2.*given 1"):
        space.join_transitions([np.zeros((2, 2))])
    with refused("model.wrong-length", r"switch.*\(2, 3\)"):
        space.switched([np.zeros((4, 3)), np.zeros((4, 3))])
    with refused("model.incomplete", r"\(2, 0\)"):
        ProductSpace((2, 0))
