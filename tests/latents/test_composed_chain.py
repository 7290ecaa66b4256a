"""Composed chains against sums over alternatives, boundaries and sentences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bayeslab.latents.chains.composed_chain import Piece, parallel, phone, series, with_language_model
from tests.refusals import refused

PHONES = ("ah", "ey", "k", "t")


def by_paths(piece, emission):
    """p(rows) of a piece that is left after the last row: the sum over all paths; ``emission`` by phone."""
    own = emission[:, [PHONES.index(name) for name in piece.emits]]
    total = 0.0
    for path in itertools.product(range(piece.n_states), repeat=len(own)):
        p = piece.enter[path[0]] * own[0, path[0]]
        for t in range(1, len(path)):
            p *= piece.move[path[t - 1], path[t]] * own[t, path[t]]
        total += p * piece.leave[path[-1]]
    return total


def found(piece, emission):
    return float(np.exp(piece.log_evidence(np.log(emission), PHONES)[0]))


def random_piece(rng, n):
    rows = rng.dirichlet(np.ones(n + 1), n)
    rows[rng.random((n, n + 1)) < 0.2] = 0
    rows[:, -1] += 0.1
    rows /= rows.sum(axis=1, keepdims=True)
    return Piece(rng.dirichlet(np.ones(n)), rows[:, :-1], rows[:, -1], tuple(rng.choice(PHONES, n)))


def splits(n_rows, n_parts):
    """All ways to cut rows into so many stretches of at least one row."""
    for cuts in itertools.combinations(range(1, n_rows), n_parts - 1):
        yield list(itertools.pairwise((0, *cuts, n_rows)))


@pytest.mark.parametrize("seed", range(6))
def test_a_piece_is_the_sum_over_its_paths(seed):
    rng = np.random.default_rng(seed)
    piece, emission = random_piece(rng, rng.integers(1, 4)), rng.uniform(0.1, 1, (rng.integers(1, 6), 4))
    assert found(piece, emission) == pytest.approx(by_paths(piece, emission), rel=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_alternatives_are_weighted_by_their_entry(seed):
    rng = np.random.default_rng(seed)
    pieces = [random_piece(rng, n) for n in rng.integers(1, 4, 3)]
    entry, emission = rng.dirichlet(np.ones(3)), rng.uniform(0.1, 1, (5, 4))
    want = sum(w * by_paths(piece, emission) for w, piece in zip(entry, pieces, strict=True))
    assert found(parallel(pieces, entry), emission) == pytest.approx(want, rel=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_a_series_is_the_sum_over_boundaries(seed):
    rng = np.random.default_rng(seed)
    pieces = [random_piece(rng, n) for n in rng.integers(1, 3, 3)]
    emission = rng.uniform(0.1, 1, (6, 4))
    want = sum(
        np.prod([by_paths(piece, emission[a:b]) for piece, (a, b) in zip(pieces, cut, strict=True)])
        for cut in splits(6, 3)
    )
    assert found(series(pieces), emission) == pytest.approx(want, rel=1e-10)


def test_a_phone_that_may_be_left_out():
    """As the sum of both words."""
    rng = np.random.default_rng(0)
    emission = rng.uniform(0.1, 1, (5, 4))
    k, ah, t = (phone(name, stay=0.4) for name in ("k", "ah", "t"))
    word = series([k, parallel([ah], [0.7, 0.3]), t])
    want = 0.7 * by_paths(series([k, ah, t]), emission) + 0.3 * by_paths(series([k, t]), emission)
    assert found(word, emission) == pytest.approx(want, rel=1e-10)
    assert parallel([ah], [0.7, 0.3]).skip == pytest.approx(0.3)


def sentences(words, first, follow, stop, emission):
    """p(rows) as the sum over sentences of any length and over where their words end."""
    total, n = 0.0, len(emission)
    pieces = list(words)
    for length in range(1, n + 1):
        for sentence in itertools.product(range(len(pieces)), repeat=length):
            p = first[sentence[0]] * stop[sentence[-1]]
            p *= np.prod([follow[a, b] for a, b in itertools.pairwise(sentence)])
            for cut in splits(n, length):
                total += p * np.prod(
                    [by_paths(pieces[w], emission[a:b]) for w, (a, b) in zip(sentence, cut, strict=True)]
                )
    return total


def test_flat_is_what_the_hierarchy_says():
    """Phones, words with two ways to say them, sentences: 9 states against sums over sentences and boundaries."""
    rng = np.random.default_rng(1)
    k, ah, ey, t = (phone(name, stay=s) for name, s in zip(("k", "ah", "ey", "t"), (0.3, 0.5, 0.2, 0.4), strict=True))
    words = {
        "cat": series([k, parallel([ah, ey], [0.8, 0.2]), t]),
        "a": parallel([ah, ey], [0.6, 0.4]),
        "at": series([ah, t]),
    }
    first, stop = np.array([0.2, 0.5, 0.3]), np.array([0.5, 0.1, 0.3])
    follow = rng.dirichlet(np.ones(3), 3) * (1 - stop)[:, None]
    emission = rng.uniform(0.1, 1, (5, 4))
    model = with_language_model(words, first, follow, stop)
    assert model.n_states == 8
    assert model.names[:3] == ("cat.k", "cat.ah", "cat.ey")
    want = sentences(words.values(), first, follow, stop, emission)
    assert found(model, emission) == pytest.approx(want, rel=1e-10)
    # A word in the middle of a larger piece is the same piece.
    both = series([model, phone("t", stay=0.1)])
    want = sum(
        sentences(words.values(), first, follow, stop, emission[:cut]) * by_paths(phone("t", stay=0.1), emission[cut:])
        for cut in range(1, 5)
    )
    assert found(both, emission) == pytest.approx(want, rel=1e-10)


def test_lengths_add_up():
    """Something is said in the end: sum over lengths of P(length) is 1."""
    rng = np.random.default_rng(2)
    words = {"x": random_piece(rng, 2), "y": random_piece(rng, 3)}
    model = with_language_model(words, [0.4, 0.6], [[0.2, 0.3], [0.4, 0.1]], [0.5, 0.5])
    ahead, total = model.enter, 0.0
    for _ in range(2000):
        total += ahead @ model.leave
        ahead = ahead @ model.move
    assert total == pytest.approx(1.0, abs=1e-10)
    ones = np.zeros((3, 4))
    want = [model.enter @ np.linalg.matrix_power(model.move, n - 1) @ model.leave for n in (1, 2, 3)]
    assert np.exp(model.log_evidence(ones, PHONES)[0]) == pytest.approx(want[2])
    three = np.exp(model.log_evidence(np.zeros((6, 4)), PHONES, [0, 1, 3, 6]))
    np.testing.assert_allclose(three, want, rtol=1e-10)
    assert np.exp(model.log_evidence(ones, PHONES, ends=False)[0]) == pytest.approx(
        (model.enter @ np.linalg.matrix_power(model.move, 2)).sum()
    )


def test_expected_moves_of_an_alternative_are_its_posterior():
    """Expected starts of each way to say a word = P(way | rows), what entry probabilities are learned from."""
    rng = np.random.default_rng(3)
    ways, entry = [random_piece(rng, 2), random_piece(rng, 3)], np.array([0.3, 0.7])
    emission = rng.uniform(0.1, 1, (5, 4))
    counts = parallel(ways, entry).smooth(np.log(emission), PHONES).start_counts
    each = entry * [by_paths(way, emission) for way in ways]
    np.testing.assert_allclose([counts[:2].sum(), counts[2:].sum()], each / each.sum(), rtol=1e-9)


def test_the_most_likely_states_tell_the_words():
    words = {"yes": series([phone("k", stay=0.5), phone("ey", stay=0.5)]), "no": phone("t", stay=0.5)}
    model = with_language_model(words, [0.5, 0.5], [[0.25, 0.25], [0.25, 0.25]], [0.5, 0.5])
    said = [2, 1, 1, 3, 3, 2, 1]
    emission = np.full((7, 4), 0.02)
    emission[np.arange(7), said] = 0.94
    path = model.path(np.log(emission), PHONES)
    assert path == ["yes.k", "yes.ey", "yes.ey", "no.t", "no.t", "yes.k", "yes.ey"]


@pytest.mark.parametrize(
    ("build", "code", "match"),
    [
        (lambda: Piece(np.ones(1), np.eye(1), np.ones(1), ("k",)), "model.not-probabilities", "'k'.*2"),
        (lambda: Piece(np.ones(2), np.eye(2), np.zeros(2), ("k", "t")), "model.not-probabilities", "enter.*2"),
        (lambda: Piece(np.ones(1), np.eye(2), np.zeros(2), ("k", "t")), "model.wrong-shape", r"\(1,\).*\(2,\)"),
        (lambda: Piece(np.ones(1), -np.eye(1), 2 * np.ones(1), ("k",)), "model.not-probabilities", "of a piece"),
        (lambda: phone("k", stay=1.0), "model.out-of-range", "phone"),
        (lambda: parallel([phone("k", stay=0.5)], [0.5]), "model.not-probabilities", r"entry.*0\.5"),
        (lambda: parallel([phone("k", stay=0.5)], [0.5, 0.25, 0.25]), "model.wrong-length", r"pieces.*\(3,\)"),
        (lambda: series([]), "model.too-few", ""),
        (
            lambda: with_language_model({"a": phone("k", stay=0.5)}, [1], [[0.5]], [0.4]),
            "model.not-probabilities",
            "'a'",
        ),
        (
            lambda: with_language_model({"a": phone("k", stay=0.5)}, [0.9], [[0.5]], [0.5]),
            "model.not-probabilities",
            r"first words.*0\.9",
        ),
        (
            lambda: with_language_model({"a": phone("k", stay=0.5)}, [1, 0], [[0.5]], [0.5]),
            "model.wrong-shape",
            r"words.*\(2,\)",
        ),
        (
            lambda: with_language_model({"a": parallel([phone("k", stay=0.5)], [0.5, 0.5])}, [1], [[0.5]], [0.5]),
            "model.not-allowed",
            "'a'",
        ),
    ],
)
def test_what_is_no_piece_is_refused(build, code, match):
    with refused(code, match):
        build()


def test_rows_that_do_not_fit_are_refused():
    piece = phone("k", stay=0.5)
    with refused("data.incomplete", "'k'"):
        piece.log_evidence(np.zeros((2, 1)), ["kk"])
    with refused("data.wrong-shape", "n_rows.*2"):
        piece.log_evidence(np.zeros((2, 1)), ["k", "t"])
    with refused("data.no-rows"):
        piece.log_evidence(np.zeros((2, 1)), ["k"], [0, 0, 2])
