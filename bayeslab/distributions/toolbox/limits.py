"""Parameters at a limit: the likelihood stays as it is while they grow without end, or go to their lower end.

A negative binomial whose rows vary as Poisson counts do has no best ``alpha``: the more, the better, and beyond some
thousands no row can tell. A search ends somewhere on that plain, and the number it ends at means nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["at_limit", "just_allowed", "ridge_at_limit"]

# A log likelihood that falls by less at ten times, or a tenth of, a parameter does not tell the two apart.
_LEVEL = 1e-3
# What is less likely by so many log units than the best is just allowed: two standard errors, were it a parabola.
_ALLOWED = 2.0
# Powers of ten: searches stay within seven of what is typical.
_FARTHEST = 10
# Along a ridge a hundred times will do: farther out sums of large terms lose digits.
_FOLLOWED = 3


def at_limit(height: Callable[[float], float], value: float) -> int:
    """The direction in which a log likelihood stays as it is: 1 as the parameter grows, -1 as it goes to its end.

    Parameters
    ----------
    height
        The log likelihood by the parameter's distance from its lower end.
    value
        Where a search ended.

    Returns
    -------
    int
        0 where the likelihood falls on both sides, or is the same everywhere.
    """
    best = height(value)
    falls = {
        way: any(not best - height(value * 10.0 ** (way * power)) <= _LEVEL for power in range(1, _FARTHEST))
        for way in (1, -1)
    }
    return 0 if falls[1] == falls[-1] else -1 if falls[1] else 1


def ridge_at_limit(highest: Callable[[float], float], best: float) -> bool:
    """Whether a log likelihood stays as it is one way, and falls the other, while a parameter moves and others follow.

    Parameters
    ----------
    highest
        The highest log likelihood at the parameter times a factor, whatever the others are.
    best
        That where a search ended.
    """

    def falls(way: int, farthest: int) -> bool:
        return any(not best - highest(10.0 ** (way * power)) <= _LEVEL for power in range(1, farthest))

    return any(not falls(way, _FOLLOWED) and falls(-way, _FARTHEST) for way in (1, -1))


def just_allowed(height: Callable[[float], float], value: float, way: int) -> float:
    """Coming from a limit, where the likelihood has fallen as far as it may for a value that is not yet unlikely."""
    best, low, high = height(value), 0.0, float(_FARTHEST)
    for _ in range(40):
        middle = 0.5 * (low + high)
        fall = best - height(value * 10.0 ** (-way * middle))
        low, high = (middle, high) if fall < _ALLOWED else (low, middle)
    return float(value * 10.0 ** (-way * np.float64(low)))
