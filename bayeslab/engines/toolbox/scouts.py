"""Scouts: short climbs from all over the prior, so that searches do not all begin in one place.

Searches that begin around the centres of the priors and agree have shown one thing: that they began near each other.
A posterior of several modes shows where starts are overdispersed with respect to it, as draws from the prior are. Most
such starts are poor, so they climb in two rounds: a few steps each, and then more for the best quarter.

References
----------
Gelman, Rubin (1992). Inference from iterative simulation using multiple sequences. Statistical Science 7(4), 457-472:
sections 2.1 and 2.2, on the search for modes and on overdispersed starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.engines.toolbox.optimiser import search
from bayeslab.engines.toolbox.starts import middle, near, prior_points
from bayeslab.engines.toolbox.target import WALL, Array, Target
from bayeslab.posterior.density import Density

__all__ = ["Scout", "climb", "distinct", "number", "scattered", "scouts", "starts"]

# As many scouts as together look at about so many numbers of data at each step, within bounds.
_NUMBERS, _LEAST, _MOST = 1_000_000, 4, 32
# Evaluations of the first round, of the second, and the share that goes on to it.
_SHORT, _LONG, _SHARE = 15, 60, 4
# Ends nearer to each other than this, in log density and relative to the size of the coordinates, are one.
_SAME_VALUE, _SAME_PLACE = 0.1, 0.05
# A mode so far below the best one holds nothing of the posterior that shows; more is allowed for each parameter.
NEGLIGIBLE = 20.0


@dataclass(frozen=True, eq=False)
class Scout:
    """One climb.

    Attributes
    ----------
    start, end : ndarray (n_dim,)
    value : float
        Log density at the end; -inf where there was none on the way.
    cost : int
        Evaluations of the density.
    """

    start: Array
    end: Array
    value: float
    cost: int


def number(density: Density) -> int:
    """How many scouts a density can afford."""
    return int(np.clip(_NUMBERS // max(density.n_numbers, 1), _LEAST, _MOST))


def scattered(density: Density, rng: np.random.Generator, n: int, at: Array) -> list[Array]:
    """Points from all over the prior, shape (n_dim,) each; ever farther from ``at`` where it cannot be drawn from."""
    drawn = prior_points(density, int(rng.integers(2**31)), n)
    wider = [at + 2.0 ** (k % 5) * rng.standard_normal(at.size) for k in range(n - len(drawn))]
    return [*drawn, *wider]


class _Enough(Exception):
    """A climb is as high as it has to be."""


def climb(target: Target, start: Array, most: int, enough: float = np.inf) -> Scout:
    """Towards a mode by L-BFGS: ends there, after about ``most`` evaluations, or at a log density of ``enough``."""
    best, cost = Scout(start, start, -np.inf, 0), 0

    def falling(point: Array) -> tuple[float, Array]:
        nonlocal best, cost
        value, slope = target.falling(point)
        cost += 1
        if -value > best.value and value < 0.1 * WALL:
            best = Scout(start, point.copy(), -value, cost)
        if best.value >= enough:
            raise _Enough
        return value, slope

    with suppress(_Enough):
        search(falling, start, {"maxfun": most, "maxiter": most})
    return Scout(start, best.end, best.value, cost)


def scouts(target: Target, rng: np.random.Generator, at: Array) -> list[Scout]:
    """Where climbs from all over the prior ended, the highest first; each mode once."""
    short = [climb(target, point, _SHORT) for point in scattered(target.density, rng, number(target.density), at)]
    short = sorted((scout for scout in short if scout.value > -np.inf), key=lambda scout: -scout.value)
    further = []
    for scout in short[: max(_LEAST, len(short) // _SHARE)]:
        more = climb(target, scout.end, _LONG)
        further.append(Scout(scout.start, more.end, more.value, scout.cost + more.cost))
    further = sorted(further, key=lambda scout: -scout.value)
    least = further[0].value - max(NEGLIGIBLE, target.n_dim) if further else -np.inf
    return distinct([scout for scout in further if scout.value >= least])


def distinct(scouts: list[Scout]) -> list[Scout]:
    """Those that did not end where one before them did."""
    kept: list[Scout] = []
    for scout in scouts:
        if not any(_same(scout, other) for other in kept):
            kept.append(scout)
    return kept


def _same(one: Scout, other: Scout) -> bool:
    apart = np.abs(one.end - other.end) / (1.0 + np.abs(other.end))
    return abs(one.value - other.value) < _SAME_VALUE and bool(apart.max() < _SAME_PLACE)


def starts(
    target: Target,
    rng: np.random.Generator,
    n: int,
    initvals: Mapping[str, Any] | None = None,
    jitter: float = 1.0,
    *,
    climbed: bool = True,
    more: int = 0,
) -> list[Array]:
    """Starting points of searches: one half around the centres of the priors, the other from all over the priors.

    Those around the centres are jittered by U(-jitter, jitter), unconstrained. The others are the best of many draws
    from the prior, one for each mode that they led to, so they can be fewer. Where starting values are given, or one
    start is asked for, all are around them.

    Parameters
    ----------
    climbed
        Whether the second half are where scouts ended, or where they began.
    more
        So many modes that scouts find are starts on top of ``n`` that are around the centres or values given.
    """
    at = middle(target.density, initvals)
    around = [near(target.density, at, rng, jitter) for _ in range(n)]
    wanted = 0 if initvals else n // 2
    if not wanted + more:
        return around
    far = scouts(target, rng.spawn(1)[0], at)[: more or wanted]
    return [*around[: n if more else n - len(far)], *(scout.end if climbed else scout.start for scout in far)]
