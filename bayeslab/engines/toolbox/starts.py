"""Starting points of searches and chains: points at which the log density and its gradient are finite.

Usually all points around the centres of the priors are valid. Under vague priors, or if data bound a parameter, they
may not be. Then draws from the priors, draws shrunk towards the centre, and points at growing distances from it are
tried, and a search climbs from the best valid one towards the mode.

The centre of an ordered vector has the spread of its prior. Under a vague prior it can be so far from the data that
chains spend their warm-up on the way, or stay where other parameters have become as large. Then a narrower vector is
taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from bayeslab.engines.toolbox.optimiser import search
from bayeslab.engines.toolbox.target import Target
from bayeslab.errors import ModelError, OptionError, hint
from bayeslab.posterior.log_density import LogDensity

__all__ = ["height", "middle", "near"]

# Number of points around the centre, of prior draws, of halvings of these, and of points at each distance.
_AROUND, _DRAWS, _HALVINGS, _FARTHER = 20, 50, 8, 30
# Number of steps of the climb from a start far from the mode.
_CLIMB = 200
# Halvings of the spread of ordered vectors: the least that count and the most; gain in log density per parameter from
# which on they are narrowed.
_LEAST_NARROWED, _MOST_NARROWED, _GAIN = 3, 12, 10.0


def height(density: Callable[[np.ndarray], tuple[float, np.ndarray]], point: np.ndarray) -> float:
    """The log density, or -inf where it or its gradient is not finite."""
    try:
        value, gradient = density(point)
    except ModelError:
        return -np.inf
    return value if np.isfinite(value) and np.all(np.isfinite(gradient)) else -np.inf


def near(density: LogDensity, point: np.ndarray, rng: np.random.Generator, jitter: float = 1.0) -> np.ndarray:
    """A point jittered by U(-jitter, jitter), or by less if that leaves the support."""
    step = rng.uniform(-jitter, jitter, point.size)
    for _ in range(_HALVINGS):
        if height(density, point + step) > -np.inf:
            return point + step
        step = step / 4.0
    return point


def middle(density: LogDensity, initvals: Mapping[str, Any] | None = None) -> np.ndarray:
    """A point around which chains and searches can begin.

    Parameters
    ----------
    initvals
        Starting values by node name; other nodes start at the centres of their priors.

    Returns
    -------
    ndarray (n_dim,)

    Raises
    ------
    OptionError
        A name in ``initvals`` is not a parameter.
    ModelError
        No start was found; the message has the node that excludes all starts, its value, and what to do.
    """
    known = density.parameters
    for name in initvals or {}:
        if name not in known:
            raise OptionError(f"initvals: no parameter '{name}'{hint(name, known)}", code="unknown-parameter")
    usual = density.centre(initvals)
    rng = np.random.default_rng(0)
    around = [usual, *(usual + rng.uniform(-1.0, 1.0, usual.size) for _ in range(_AROUND))]
    if any(height(density, point) > -np.inf for point in around):
        return usual if initvals else _narrowed(density, usual)
    tried = len(around)
    for points in _stages(density, usual, rng):
        heights = [height(density, point) for point in points]
        tried += len(points)
        if max(heights, default=-np.inf) > -np.inf:
            return _climbed(density, points[int(np.argmax(heights))])
    raise ModelError(density.why_no_start(usual, tried), code="no-start")


def _narrowed(density: LogDensity, point: np.ndarray) -> np.ndarray:
    """The point with narrower ordered vectors, around their means or zero, if that makes it far more probable."""
    ordered = [name for name in density.names if name.endswith("_ordered__")]
    if not ordered:
        return point
    narrower = []
    for k in range(_LEAST_NARROWED, _MOST_NARROWED + 1):
        for around_zero in (True, False):
            values = density.split(point.copy())
            for name in ordered:
                # The first element and the logarithms of the gaps.
                first, gaps = values[name][..., :1], values[name][..., 1:]
                to_mean = np.exp(gaps).cumsum(axis=-1).sum(axis=-1, keepdims=True) / (1 + gaps.shape[-1])
                centre = 0.0 if around_zero else first + to_mean
                values[name] = np.concatenate((centre + 0.5**k * (first - centre), gaps - k * np.log(2.0)), axis=-1)
            narrower.append(density.flat(values))
    heights = [height(density, each) for each in narrower]
    best = int(np.argmax(heights))
    return narrower[best] if heights[best] > height(density, point) + _GAIN * point.size else point


def _stages(density: LogDensity, usual: np.ndarray, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
    draws = density.prior_points(int(rng.integers(2**31)), _DRAWS)
    yield draws
    for k in range(1, _HALVINGS + 1):
        yield [usual + (draw - usual) / 2**k for draw in draws]
    for k in range(1, 6):
        yield [usual + 2.0**k * rng.standard_normal(usual.size) for _ in range(_FARTHER)]


def _climbed(density: LogDensity, point: np.ndarray) -> np.ndarray:
    """A few steps towards the mode, because a start far out in a tail may be too steep for a sampler."""
    end = search(Target(density).falling, point, {"maxiter": _CLIMB, "maxfun": 4 * _CLIMB})
    return end.point if height(density, end.point) >= height(density, point) else point
