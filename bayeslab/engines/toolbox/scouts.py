"""Scouts: short optimisations from all over the prior, so that searches do not all start in one place.

Agreement of searches that start around the centres of the priors may only show that they started near each other.
Several modes are found if starts are overdispersed with respect to the posterior, as draws from the prior are. Most
such starts are poor, so scouts climb in two rounds: a few steps each, and then more steps for the best quarter.

References
----------
Gelman, Rubin (1992). Inference from iterative simulation using multiple sequences. Statistical Science 7(4), 457-472:
sections 2.1 and 2.2, on the search for modes and on overdispersed starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.engines.toolbox.climbs import climbs
from bayeslab.engines.toolbox.starts import middle, near
from bayeslab.engines.toolbox.target import Array, Target
from bayeslab.posterior.log_density import LogDensity

__all__ = ["Scout", "climbed", "distinct", "number", "scattered", "scouts", "starts"]

# The number of scouts, within bounds, follows from this count of data values that all together process per step.
_NUMBERS, _LEAST, _MOST = 1_000_000, 4, 32
# Evaluations of the first round, of the second, and n for the best 1/n of scouts that enter the second round.
_SHORT, _LONG, _SHARE = 15, 60, 4
# Ends closer to each other, in log density and relative to the size of the coordinates, are the same mode.
_SAME_VALUE, _SAME_PLACE = 0.1, 0.05
# A mode this far below the best one has a negligible mass; the limit grows with the number of parameters.
NEGLIGIBLE = 20.0


@dataclass(frozen=True, eq=False)
class Scout:
    """One climb of a scout.

    Attributes
    ----------
    start, end : ndarray (n_dim,)
    value : float
        Log density at the end; -inf if no point of the climb was in the support.
    cost : int
        Number of evaluations of the density.
    """

    start: Array
    end: Array
    value: float
    cost: int


def number(density: LogDensity) -> int:
    """The number of scouts for a density, by the cost of its evaluation."""
    return int(np.clip(_NUMBERS // max(density.n_numbers, 1), _LEAST, _MOST))


def scattered(density: LogDensity, rng: np.random.Generator, n: int, at: Array) -> list[Array]:
    """Draws from the prior, shape (n_dim,) each; if there are none, points at growing distances from ``at``."""
    drawn = density.prior_points(int(rng.integers(2**31)), n)
    wider = [at + 2.0 ** (k % 5) * rng.standard_normal(at.size) for k in range(n - len(drawn))]
    return [*drawn, *wider]


def climbed(target: Target, starts: list[Array], most: int, enough: float = np.inf) -> list[Scout]:
    """Climbs towards modes, of at most ``most`` evaluations each, or up to the log density ``enough``."""
    if not starts:
        return []
    ends = climbs(target, np.stack(starts), most, enough)
    return [
        Scout(start, end, float(value), int(cost))
        for start, end, value, cost in zip(starts, ends.points, ends.values, ends.costs, strict=True)
    ]


def scouts(target: Target, rng: np.random.Generator, at: Array) -> list[Scout]:
    """The climbs from all over the prior, highest end first, with each mode once."""
    short = climbed(target, scattered(target.density, rng, number(target.density), at), _SHORT)
    short = sorted((scout for scout in short if scout.value > -np.inf), key=lambda scout: -scout.value)
    best = short[: max(_LEAST, len(short) // _SHARE)]
    more = climbed(target, [scout.end for scout in best], _LONG)
    further = sorted(
        (
            Scout(scout.start, after.end, after.value, scout.cost + after.cost)
            for scout, after in zip(best, more, strict=True)
        ),
        key=lambda scout: -scout.value,
    )
    least = further[0].value - max(NEGLIGIBLE, target.n_dim) if further else -np.inf
    return distinct([scout for scout in further if scout.value >= least])


def distinct(scouts: list[Scout]) -> list[Scout]:
    """The scouts that did not end where an earlier one did."""
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
    at_end: bool = True,
    more: int = 0,
) -> list[Array]:
    """Starting points of searches: one half around the centres of the priors, the other from all over the priors.

    Points around the centres are jittered by U(-jitter, jitter) on the unconstrained scale. The others are the best of
    many draws from the prior, one per mode that they lead to, so they can be fewer. With given starting values, or a
    single start, all points are around the starting values or the centre.

    Parameters
    ----------
    at_end
        Whether the second half are the end points of scouts, or their starts.
    more
        Number of modes found by scouts that are added to ``n`` starts around the centres or the given values.
    """
    at = middle(target.density, initvals)
    around = [near(target.density, at, rng, jitter) for _ in range(n)]
    wanted = 0 if initvals else n // 2
    if not wanted + more:
        return around
    far = scouts(target, rng.spawn(1)[0], at)[: more or wanted]
    return [*around[: n if more else n - len(far)], *(scout.end if at_end else scout.start for scout in far)]
