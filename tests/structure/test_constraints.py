"""Constraints on structures: what they allow, and contradictions named in full."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest

from bayeslab.structure.constraints import Constraints, mask_of, members_of
from tests.refusals import refused

NAMES = ("a", "b", "c", "d", "e")


def test_without_constraints_everything_but_itself():
    free = Constraints.of(NAMES)
    assert np.array_equal(free.allowed, ~np.eye(5, dtype=bool))
    assert free.limits.tolist() == [4] * 5 and not free.needed.any()
    assert free.allows(0, (1, 2, 3, 4)) and not free.allows(0, (0,))


def test_each_kind_of_constraint():
    known = Constraints.of(
        NAMES,
        required=[("a", "b")],
        forbidden=[("a", "c")],
        tiers=[("a", "b"), ("c",)],
        max_parents={"d": 1},
        candidates={"e": ["a", "d"]},
    )
    assert known.allows(1, (0,)) and not known.allows(1, ())  # required
    assert not known.allows(0, (1,))  # its reverse would be a circle
    assert not known.allows(2, (0,)) and known.allows(2, (1,))  # forbidden
    assert not known.allows(0, (2,)) and not known.allows(1, (0, 2))  # tiers
    assert known.allows(2, (1, 3, 4)) and known.allows(0, (3, 4))  # no tier, free
    assert known.allows(3, (2,)) and not known.allows(3, (1, 2))  # limit
    assert known.allows(4, (0, 3)) and not known.allows(4, (1,))  # candidates


def test_masks_say_the_same():
    known = Constraints.of(NAMES, required=[("a", "b")], forbidden=[("c", "b")], max_parents=2)
    for v in range(5):
        sets = [p for k in range(6) for p in itertools.combinations(range(5), k)]
        masks = np.array([mask_of(p, 5) for p in sets])
        assert known.allowed_sets(v, masks).tolist() == [known.allows(v, p) for p in sets]
        assert members_of(known.allowed_masks[v]) == tuple(np.flatnonzero(known.allowed[v]))
        assert members_of(known.needed_masks[v]) == tuple(np.flatnonzero(known.needed[v]))


@pytest.mark.parametrize("n", [1, 5, 63, 64, 65, 130])
def test_sets_as_bits(n):
    rng = np.random.default_rng(n)
    for _ in range(20):
        own = tuple(np.flatnonzero(rng.random(n) < 0.3).tolist())
        mask = mask_of(own, n)
        assert mask.shape == (max(1, -(-n // 64)),) and members_of(mask) == own
        assert all(bool(mask[u // 64] >> np.uint64(u % 64) & np.uint64(1)) == (u in own) for u in range(n))


@pytest.mark.parametrize(
    ("given", "code", "match"),
    [
        ({"required": [("a", "b")], "forbidden": [("a", "b")]}, "model.contradiction", "a -> b.*required.*forbidden"),
        (
            {"required": [("c", "a")], "tiers": [("a",), ("c",)]},
            "model.contradiction",
            "required.*c -> a.*tiers.*'c'",
        ),
        ({"required": [("a", "b"), ("b", "c"), ("c", "a")]}, "model.cycle", "required.*a -> b.*b -> c.*c -> a"),
        ({"required": [("a", "b"), ("b", "a")]}, "model.cycle", "required.*a -> b.*b -> a"),
        (
            {"required": [("a", "c"), ("b", "c")], "max_parents": 1},
            "model.contradiction",
            "'c'.*max_parents.*2.*required",
        ),
        (
            {"required": [("a", "c")], "max_parents": {"c": 0}},
            "model.contradiction",
            "'c'.*max_parents.*required.*a -> c",
        ),
        ({"required": [("a", "c")], "candidates": {"c": ["b"]}}, "model.contradiction", "a -> c.*candidates.*'c'"),
        ({"required": [("a", "a")]}, "model.self-reference", "required.*a -> a"),
        ({"required": [("a", "bb")]}, "model.unknown-variable", "'bb'.*'b'"),
        ({"forbidden": [("x", "a")]}, "model.unknown-variable", "forbidden.*'x'"),
        ({"tiers": [("a",), ("f",)]}, "model.unknown-variable", "tiers.*'f'"),
        ({"tiers": [("a", "b"), ("a",)]}, "model.duplicate", "'a'.*tiers"),
        ({"max_parents": {"z": 1}}, "model.unknown-variable", "max_parents.*'z'"),
        ({"max_parents": -1}, "model.out-of-range", "max_parents.*-1"),
        ({"candidates": {"a": ["q"]}}, "model.unknown-variable", "candidates.*'q'"),
        ({"required": ["ab"]}, "model.syntax", "required.*`from -> to`.*'ab'"),
        ({"forbidden": [("a", "b", "c")]}, "model.wrong-type", "forbidden"),
    ],
)
def test_contradictions_and_mistakes(given, code, match):
    with refused(code, match):
        Constraints.of(NAMES, **given)


def test_graphs_are_checked():
    known = Constraints.of(NAMES, required=[("a", "b")], forbidden=[("c", "d")], max_parents={"e": 1})
    known.check(nx.DiGraph([("a", "b"), ("a", "e")]))
    with refused("model.missing-edge", "a -> b"):
        known.check(nx.DiGraph([("a", "c")]))
    with refused("model.forbidden-edge", "c -> d"):
        known.check(nx.DiGraph([("a", "b"), ("c", "d")]))
    with refused("model.contradiction", "'e'.*2.*1"):
        known.check(nx.DiGraph([("a", "b"), ("a", "e"), ("b", "e")]))
