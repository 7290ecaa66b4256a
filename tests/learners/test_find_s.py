"""Find-S against the enumeration of all conjunctions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bayeslab.learners.find_s import FindS
from tests.learners.conjunctions import covers


def test_most_specific():
    """find-s, inductive-bias-as-prior: most probable when specific conjunctions are more probable beforehand."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        concept = [rng.choice([None, 0, 1, 2]) for _ in range(4)]
        rows = rng.integers(3, size=(25, 4))
        y = covers(concept, rows)
        if y.all() or not y.any():
            continue
        found = FindS().fit(rows, y)
        assert found.consistent_
        all_of_them = list(itertools.product([None, 0, 1, 2], repeat=4))
        consistent = [h for h in all_of_them if (covers(h, rows) == y).all()]
        prior = {h: 2.0 ** -sum(c is None for c in h) for h in consistent}
        best = max(prior, key=lambda h: prior[h])
        learned = tuple(None if np.isnan(v) else int(v) for v in found.hypothesis_)
        assert learned == best
        np.testing.assert_array_equal(found.predict(rows), y)


def test_not_a_conjunction():
    found = FindS().fit([[0, 0], [1, 1], [0, 1]], ["yes", "yes", "no"])
    assert not found.consistent_
    assert FindS(positive=0).fit([[0, 0], [1, 1]], ["a", "b"]).hypothesis_.tolist() == [0, 0]
    with pytest.raises(ValueError, match="positive is 0 or 1"):
        FindS(positive=2).fit([[0, 0], [1, 1]], ["a", "b"])
