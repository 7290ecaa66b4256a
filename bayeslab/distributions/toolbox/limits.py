"""Parameters at a limit: the likelihood levels off as they grow without bound, or approach their lower end.

For example, a negative binomial for rows that vary like Poisson counts has no best ``alpha``: the likelihood increases
with it, and beyond some thousands it is flat. A search ends somewhere on that plateau, and its result is arbitrary.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["at_limit", "just_allowed", "ridge_at_limit"]

# If the log likelihood falls by less at ten times or a tenth of a parameter, the values are indistinguishable.
_LEVEL = 1e-3
# Drop of the log likelihood that is just allowed: two standard errors, if it were a parabola.
_ALLOWED = 2.0
# Powers of ten: searches stay within seven of the typical value.
_FARTHEST = 10
# Along a ridge a factor of a hundred suffices: farther out, sums of large terms lose digits.
_FOLLOWED = 3


def at_limit(height: Callable[[float], float], value: float) -> int:
    """The direction in which a log likelihood is flat: 1 for growing parameters, -1 towards the lower end.

    Parameters
    ----------
    height
        The log likelihood as a function of the parameter's distance from its lower end.
    value
        The end of a search.

    Returns
    -------
    int
        0 if the likelihood falls on both sides, or is constant.
    """
    best = height(value)
    falls = {
        way: any(not best - height(value * 10.0 ** (way * power)) <= _LEVEL for power in range(1, _FARTHEST))
        for way in (1, -1)
    }
    return 0 if falls[1] == falls[-1] else -1 if falls[1] else 1


def ridge_at_limit(highest: Callable[[float], float], best: float) -> bool:
    """Whether a profile log likelihood is flat in one direction and falls in the other.

    Parameters
    ----------
    highest
        The log likelihood at the parameter times a factor, maximised over the other parameters.
    best
        The log likelihood at the end of a search.
    """

    def falls(way: int, farthest: int) -> bool:
        return any(not best - highest(10.0 ** (way * power)) <= _LEVEL for power in range(1, farthest))

    return any(not falls(way, _FOLLOWED) and falls(-way, _FARTHEST) for way in (1, -1))


def just_allowed(height: Callable[[float], float], value: float, way: int) -> float:
    """The value, coming from the limit, at which the likelihood has dropped as far as is still allowed."""
    best, low, high = height(value), 0.0, float(_FARTHEST)
    for _ in range(40):
        middle = 0.5 * (low + high)
        fall = best - height(value * 10.0 ** (-way * middle))
        low, high = (middle, high) if fall < _ALLOWED else (low, middle)
    return float(value * 10.0 ** (-way * np.float64(low)))
