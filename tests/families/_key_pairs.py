"""Combinations of the keys of a model, every pair of them at least, smallest and at random.

A design is a mapping of factors to levels, each level a patch of what a model says; a factor that is not drawn keeps
its default. Pairs that are refused would hide what they stand beside, so that every pair is tried by itself and once
among random others.
"""

from __future__ import annotations

import itertools


def pairs(factors):
    """Every pair of levels of two factors, and every level alone: as {factor: level}."""
    singles = [{factor: level} for factor, levels in factors.items() for level in levels]
    both = [
        {f: a, g: b}
        for (f, first), (g, second) in itertools.combinations(factors.items(), 2)
        for a in first
        for b in second
    ]
    return [{}, *singles, *both]


def among_others(choice, factors, rng, n, accepted):
    """The choice with levels of up to ``n`` further factors, drawn at random among those that are not refused.

    Parameters
    ----------
    accepted : callable
        Whether a choice is no contradiction.
    """
    rest = [factor for factor in factors if factor not in choice]
    for k in rng.permutation(len(rest))[: 5 * n]:
        level = list(factors[rest[k]])[rng.integers(len(factors[rest[k]]))]
        if accepted(choice | {rest[k]: level}):
            choice, n = choice | {rest[k]: level}, n - 1
        if not n:
            break
    return choice


def patched(base, patches):
    """A dict with patches of dicts laid over it; those of a value that is a dict itself are joined."""
    out = dict(base)
    for patch in patches:
        for key, value in patch.items():
            both = isinstance(value, dict) and isinstance(out.get(key), dict)
            out[key] = out[key] | value if both else value
    return out
