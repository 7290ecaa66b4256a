"""The subsequence kernel against the weights of all subsequences, one by one, and machines that learn from texts."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from bayeslab.learners.svm import SVMClassifier
from bayeslab.learners.toolbox.gram import check_gram, smallest_eigenvalue
from bayeslab.learners.toolbox.string_kernel import SubsequenceKernel
from tests.refusals import refused


def weights(text, length, decay):
    """Every subsequence with its weight."""
    out = Counter()
    for places in itertools.combinations(range(len(text)), length):
        out[tuple(text[i] for i in places)] += decay ** (places[-1] - places[0] + 1)
    return out


def by_hand(s, t, length, decay):
    a, b = weights(s, length, decay), weights(t, length, decay)
    return sum(a[u] * b[u] for u in a)


def random_texts(rng, n, letters="abc", longest=9):
    return ["".join(rng.choice(list(letters), rng.integers(0, longest + 1))) for _ in range(n)]


def test_cat_and_car():
    """svm-kernel-strings: the worked example of Lodhi et al.: K(cat, car) = λ⁴, K(car, car) = 2λ⁴ + λ⁶."""
    for decay in (0.3, 0.5, 1.0):
        plain = SubsequenceKernel(2, decay, normalise=False)(["cat", "car"])
        np.testing.assert_allclose(plain[0, 1], decay**4)
        np.testing.assert_allclose(plain[1, 1], 2 * decay**4 + decay**6)
        np.testing.assert_allclose(SubsequenceKernel(2, decay)(["cat"], ["car"])[0, 0], 1 / (2 + decay**2))


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_all_subsequences(length):
    """svm-kernel-strings: as the sum over all subsequences."""
    texts = random_texts(np.random.default_rng(length), 12)
    found = SubsequenceKernel(length, 0.6, normalise=False)(texts)
    expected = [[by_hand(s, t, length, 0.6) for t in texts] for s in texts]
    np.testing.assert_allclose(found, expected, atol=1e-14)
    crossed = SubsequenceKernel(length, 0.6)(texts[:5], texts[5:])
    np.testing.assert_allclose(crossed, SubsequenceKernel(length, 0.6)(texts)[:5, 5:], atol=1e-14)


def test_psd():
    """svm-kernel-strings: Gram matrices have no negative eigenvalue, normalised or not; values lie in [0, 1]."""
    texts = random_texts(np.random.default_rng(0), 60, longest=14)
    for length, normalise in itertools.product((1, 2, 3), (False, True)):
        gram = SubsequenceKernel(length, 0.4, normalise)(texts)
        assert smallest_eigenvalue(gram) > -1e-12 * np.trace(gram)
        check_gram(gram)
    assert gram.min() >= 0 and gram.max() <= 1 + 1e-12
    long = np.array([len(t) >= 3 for t in texts])
    np.testing.assert_allclose(np.diagonal(gram), long)


def test_words_are_symbols():
    rows = [text.split() for text in ("the cat sat here", "the cat was here", "a dog")]
    found = SubsequenceKernel(2, 0.5, normalise=False)(rows)
    assert found[0, 1] == pytest.approx(by_hand(rows[0], rows[1], 2, 0.5))
    assert found[0, 2] == 0


def sentences(rng, n):
    """Texts in two languages with one alphabet: which syllables follow which."""
    words = {"a": ["kalo", "mira", "tonu", "sela"], "b": ["loka", "rami", "nuto", "lase"]}
    y = np.array(["a", "b"])[np.arange(n) % 2]
    return ["".join(rng.choice(words[c], 4)) for c in y], y


def test_svm_on_texts():
    """svm-kernel-strings: a machine on lists of strings; single letters, in both alike, cannot tell them apart."""
    rng = np.random.default_rng(0)
    texts, y = sentences(rng, 60)
    new, truth = sentences(rng, 60)
    found = SVMClassifier(10.0, SubsequenceKernel(2, 0.3)).fit(texts, y)
    assert found.score(new, truth) > 0.95
    assert all(isinstance(text, str) for text in found.support_vectors_)
    assert SVMClassifier(10.0, SubsequenceKernel(1)).fit(texts, y).score(new, truth) < 0.75
    array = np.array(texts, dtype=object)
    np.testing.assert_array_equal(
        SVMClassifier(10.0, SubsequenceKernel(2, 0.3)).fit(array, y).predict(new), found.predict(new)
    )
    # Cloned and cross-validated like any estimator.
    assert cross_val_score(SVMClassifier(10.0, SubsequenceKernel(2, 0.3)), texts, y, cv=3).mean() > 0.9


def test_errors():
    with refused("option.out-of-range", "length"):
        SubsequenceKernel(0)
    with refused("option.out-of-range", "decay"):
        SubsequenceKernel(2, 0.0)
    with refused("option.wrong-type", "text.*'text'"):
        SubsequenceKernel()("text")
