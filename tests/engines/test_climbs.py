"""Climbs from many points at once: known maxima, and the ends that SciPy's optimiser reaches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
import pytest
from scipy.optimize import minimize

from bayeslab.engines.toolbox.climbs import climbs
from bayeslab.engines.toolbox.target import Array, Target

type Density = Callable[[Array], tuple[float, Array]]


@dataclass
class _Plain:
    """A target that is a function of one point; it counts the evaluations."""

    density: Density
    count: int = 0

    def many(self, points: Array) -> tuple[Array, Array]:
        self.count += len(points)
        values = [self.density(point) for point in points]
        return np.array([value for value, _ in values]), np.array([slope for _, slope in values])


def target(density: Density) -> Target:
    return cast(Target, _Plain(density))


def rosenbrock(x: Array) -> tuple[float, Array]:
    a, b = x
    value = -((1 - a) ** 2) - 100 * (b - a * a) ** 2
    return value, np.array([2 * (1 - a) + 400 * a * (b - a * a), -200 * (b - a * a)])


def cauchy(x: Array) -> tuple[float, Array]:
    """Not concave far out, where the slope is nearly zero."""
    size = 1 + x @ x
    return -np.log(size), -2 * x / size


def gamma(x: Array) -> tuple[float, Array]:
    """The logarithm of a gamma variable: a wall on one side."""
    with np.errstate(over="ignore"):
        return float((3 * x - np.exp(x)).sum()), 3 - np.exp(x)


def half(x: Array) -> tuple[float, Array]:
    """No density beyond zero."""
    if (x <= 0).any():
        return -np.inf, np.full_like(x, np.nan)
    return float((2 * np.log(x) - x).sum()), 2 / x - 1


@pytest.mark.parametrize(
    ("density", "mode", "spread"),
    [
        (rosenbrock, np.ones(2), 3.0),
        (cauchy, np.zeros(3), 1000.0),
        (gamma, np.full(4, np.log(3.0)), 8.0),
    ],
    ids=["rosenbrock", "cauchy", "gamma"],
)
def test_climbs_end_at_the_mode(density: Density, mode: Array, spread: float) -> None:
    starts = spread * np.random.default_rng(1).normal(size=(12, mode.size))
    ends = climbs(target(density), starts, 300)
    np.testing.assert_allclose(ends.values, density(mode)[0], atol=1e-6)
    np.testing.assert_allclose(ends.points, np.broadcast_to(mode, starts.shape), atol=3e-3)
    # As many evaluations as SciPy needs, within a factor of two.
    theirs = [
        minimize(lambda x: tuple(-np.asarray(v) for v in density(x)), start, jac=True, method="L-BFGS-B").nfev
        for start in starts
    ]
    assert ends.costs.mean() < 2 * np.mean(theirs)


def test_a_start_outside_the_support_stays_there() -> None:
    ends = climbs(target(half), np.array([[-1.0], [5.0]]), 100)
    assert ends.values[0] == -np.inf and ends.points[0] == -1.0 and ends.costs[0] == 1
    assert ends.points[1] == pytest.approx(2.0, abs=1e-3)


def test_limits() -> None:
    """The evaluations are counted, and a climb ends when it is high enough."""
    starts = 100 * np.random.default_rng(2).normal(size=(5, 3))
    plain = _Plain(cauchy)
    few = climbs(cast(Target, plain), starts, 7)
    assert plain.count == few.costs.sum() and few.costs.max() <= 7
    enough = climbs(target(cauchy), starts, 100, enough=-3.0)
    assert (enough.values >= -3.0).all()
    assert (enough.costs < climbs(target(cauchy), starts, 100).costs).all()


def test_climbs_do_not_depend_on_each_other() -> None:
    starts = np.random.default_rng(3).normal(size=(6, 2))
    together = climbs(target(rosenbrock), starts, 50)
    for k, start in enumerate(starts):
        alone = climbs(target(rosenbrock), start[None], 50)
        np.testing.assert_allclose(alone.points[0], together.points[k], rtol=1e-9)
