"""Random combinations of keys that cover all pairs of their levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np


def all_pairs(factors: Mapping[str, Sequence[Any]], seed: int) -> list[dict[str, Any]]:
    """Combinations such that any two levels of two factors meet in one: each the best of some random ones."""
    rng = np.random.default_rng(seed)
    names = list(factors)
    missing = {
        (a, i, b, j) for a, b in combinations(names, 2) for i in range(len(factors[a])) for j in range(len(factors[b]))
    }
    out = []
    while missing:
        # One missing pair is put in, so that it ends.
        a, i, b, j = min(missing)
        tried = []
        for _ in range(30):
            one = {name: int(rng.integers(len(levels))) for name, levels in factors.items()} | {a: i, b: j}
            met = {(p, one[p], q, one[q]) for p, q in combinations(names, 2)} & missing
            tried.append((len(met), one, met))
        _, best, met = max(tried, key=lambda t: t[0])
        missing -= met
        out.append({name: factors[name][k] for name, k in best.items()})
    return out
