"""Search for modes of the posterior that no chain has visited.

Chains that start around the centres of the priors can all end in a minor mode, agree, and pass every check: R-hat
detects modes only if chains start in them. So, after the chains, scouts climb from all over the prior
(:mod:`bayeslab.engines.toolbox.scouts`) to the average log density of the chains' draws. From a scout that ends far
outside the draws a short chain starts. If the chain reaches the draws, it was the same mode, however curved (a funnel,
a ridge). If it stays away, the volumes and heights of both modes estimate the share of the posterior in the other one.

Both steps are cheap: evaluations are limited to a share of those of the chains, and short chains run only where a scout
ended far outside. Nothing depends on time, and random numbers follow from the run's seed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayeslab.constants import LOG_2PI
from bayeslab.engines.toolbox.optimiser import Peak, newton
from bayeslab.engines.toolbox.scouts import Scout, climbed, number, scattered
from bayeslab.engines.toolbox.target import Array, Target
from bayeslab.posterior import latent_modes
from bayeslab.posterior.latent_modes import FULL
from bayeslab.results.verdict import Finding

__all__ = [
    "DRAWS",
    "EVALUATIONS",
    "SHARE",
    "Draws",
    "apart",
    "elsewhere",
    "finding",
    "left_out",
    "log_mass",
    "outside",
    "suspects",
]

# For approximations: number of draws that another mode is compared with; evaluations of which the search may use a
# share.
DRAWS, EVALUATIONS = 500, 40_000
# Mass of another mode, relative to the reported mode, from which on it counts.
SHARE = 0.1

# Evaluations of one scout, and of all scouts as a share of those of the chains.
_CLIMB, _SHARE = 60, 0.05
# A point is far outside if its distance from the mean exceeds this multiple of the farthest draw's.
_FAR = 1.4
# Maximum number of short chains.
_SUSPECTS = 3
# Maximum number of evaluations per parameter for the curvature of a mode.
_NEWTON = 40
# Shares of the posterior from which on a mode is reported, and from which on the draws must not be used.
_WARN, _FAIL = 0.005, 0.1
# Two modes are separate if these central parts of their draws do not overlap.
_CENTRAL = 0.98


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of one mode, shape (n, n_dim), their log densities (n,), and the number of evaluations used."""

    points: Array
    heights: Array
    cost: int = 0

    @cached_property
    def mean(self) -> Array:
        out: Array = self.points.mean(axis=0)
        return out

    @cached_property
    def sd(self) -> Array:
        out: Array = np.maximum(self.points.std(axis=0), 1e-12 * (1.0 + np.abs(self.mean)))
        return out

    @cached_property
    def central(self) -> Array:
        """Both ends of the central part of the draws in each coordinate, shape (2, n_dim)."""
        return _central(self.points)

    @cached_property
    def _farthest(self) -> Array:
        """Distance of the farthest draw from the mean in each coordinate, in sds."""
        out: Array = np.maximum(np.abs((self.points - self.mean) / self.sd).max(axis=0), 1.0)
        return out

    @cached_property
    def _whitening(self) -> tuple[Array, float] | None:
        """A root of the correlation matrix and the farthest draw's length; None if there are too few draws."""
        n, d = self.points.shape
        if n < FULL * d:
            return None
        z = ((self.points - self.mean) / self.sd).T
        root = np.linalg.cholesky(np.cov(z).reshape(d, d) + 1e-9 * np.eye(d))
        return root, float(np.sqrt((np.linalg.solve(root, z) ** 2).sum(axis=0).max()))

    def far(self, point: Array) -> float:
        """Distance of a point relative to the farthest draw: the largest over coordinates and Mahalanobis distance."""
        z = (point - self.mean) / self.sd
        one = float(np.max(np.abs(z) / self._farthest))
        if self._whitening is None:
            return one
        root, longest = self._whitening
        return max(one, float(np.sqrt((np.linalg.solve(root, z) ** 2).sum())) / longest)

    def discriminant(self, point: Array) -> Array:
        """Fisher's linear discriminant between the draws and draws around a point."""
        z = (point - self.mean) / self.sd
        if self._whitening is not None:
            root = self._whitening[0]
            z = np.linalg.solve(root.T, np.linalg.solve(root, z))
        out: Array = z / self.sd
        return out

    def log_mass(self, *, full: bool) -> float:
        """Log of the mode's mass up to a constant, by a normal approximation."""
        return latent_modes.log_mass(self.points, self.heights, full=full)


def suspects(target: Target, draws: Draws, rng: np.random.Generator, at: Array) -> list[Array]:
    """End points of scouts that are far from all draws and high enough to matter."""
    enough, allowed = float(draws.heights.mean()), int(_SHARE * draws.cost)
    reached: list[Scout] = []
    below: list[Scout] = []
    points = scattered(target.density, rng, number(target.density), at)
    while points and allowed > 0 and len(reached) < _SUSPECTS:
        together = max(1, allowed // _CLIMB)
        some, points = points[:together], points[together:]
        for scout in climbed(target, some, min(_CLIMB, allowed), enough):
            allowed -= scout.cost
            known = [*reached, *below]
            if scout.value == -np.inf or draws.far(scout.end) < _FAR or any(_near(scout, other) for other in known):
                continue
            if scout.value < enough:
                below.append(scout)
            elif len(reached) < _SUSPECTS:
                reached.append(scout)
    # A broad mode can have a lower density than the draws of a narrow one, and still more mass.
    broad = []
    n_dim = target.n_dim
    for scout in sorted(below, key=lambda scout: -scout.value)[: _SUSPECTS - len(reached)]:
        if allowed < _NEWTON * n_dim or scout.value < enough - 10.0 - n_dim:
            break
        peak = newton(target, scout.end)
        allowed -= _NEWTON * n_dim
        sign, curved = np.linalg.slogdet(-peak.curvature) if np.isfinite(peak.curvature).all() else (0.0, 0.0)
        mass = peak.value + 0.5 * n_dim * LOG_2PI - 0.5 * float(curved)
        if sign > 0 and mass > draws.log_mass(full=len(draws.points) >= FULL * n_dim) + np.log(_WARN):
            broad.append(scout)
    return [scout.end for scout in [*reached, *broad]]


def _near(scout: Scout, other: Scout) -> bool:
    return bool(np.max(np.abs(scout.end - other.end) / (1.0 + np.abs(other.end))) < 0.05)


def outside(draws: Draws, other: Draws) -> bool:
    """Whether the second half of a short chain is outside the draws, along a coordinate or between the means."""
    late = other.points[len(other.points) // 2 :]
    if (_gaps(draws.central, _central(late)) > 0).any():
        return True
    way = draws.discriminant(late.mean(axis=0))
    return bool(_gaps(_central(draws.points @ way), _central(late @ way)) > 0)


def _central(points: Array) -> Array:
    """Both ends of the central part of the points, in each coordinate."""
    tail = (1 - _CENTRAL) / 2
    return np.quantile(points, [tail, 1 - tail], axis=0)


def _gaps(one: Array, other: Array) -> Array:
    """Distances between the central parts of two samples; negative where they overlap."""
    return np.maximum(other[0] - one[1], one[0] - other[1])


def finding(draws: Draws, others: list[Draws], where: Callable[[Draws], str]) -> list[Finding]:
    """The findings about short chains that stayed outside the draws.

    Parameters
    ----------
    where
        Describes the place of another mode: a quantity with its values there and in the draws.
    """
    if not others:
        return []
    full = min(len(other.points) for other in others) >= FULL * draws.points.shape[1]
    odds = [float(np.exp(min(other.log_mass(full=full) - draws.log_mass(full=full), 50.0))) for other in others]
    k = int(np.argmax(odds))
    share = odds[k] / (1 + odds[k])
    if share < _WARN:
        return []
    about = "most" if share > 0.5 else f"about {share:.0%}"
    text = f"another mode, with {about} of the posterior, was reached by no chain: {where(others[k])}"
    advice = "take method smc, start chains there with initvals, or give stronger priors"
    return [Finding("fail" if share > _FAIL else "warn", "modes", "", share, text, advice)]


def apart(mode: Peak, point: Array) -> bool:
    """Whether a point is more than one standard deviation of the Gaussian at a mode away from it."""
    gap = point - mode.point
    return float(-gap @ mode.curvature @ gap) > 1.0


def log_mass(mode: Peak) -> float:
    """Log of a mode's part of the evidence, by a normal approximation; NaN if the mode is not a strict maximum."""
    if not np.isfinite(mode.curvature).all():
        return float("nan")
    sign, curved = np.linalg.slogdet(-mode.curvature)
    convex = sign > 0 and np.linalg.eigvalsh(-mode.curvature)[0] > 0
    return mode.value + 0.5 * len(mode.point) * LOG_2PI - 0.5 * float(curved) if convex else float("nan")


def elsewhere(target: Target, draws: Draws, log_evidence: float, rng: np.random.Generator) -> tuple[Finding, ...]:
    """Findings about modes far outside an approximation's draws with a substantial part of the posterior.

    Parameters
    ----------
    log_evidence
        Log evidence of the region that the approximation covers.
    """
    highest = draws.points[int(np.argmax(draws.heights))]
    modes: list[Peak] = []
    for point in suspects(target, draws, rng, highest):
        mode = newton(target, point)
        new = draws.far(mode.point) > _FAR and all(apart(other, mode.point) for other in modes)
        if new and log_mass(mode) > log_evidence + np.log(SHARE):
            modes.append(mode)
    return left_out(target, modes, log_evidence, draws.mean, 1 / draws.sd)


def left_out(
    target: Target, modes: list[Peak], log_here: float, centre: Array, precision: Array
) -> tuple[Finding, ...]:
    """Findings about modes other than one with the given log mass, centre and precision (1 / sd)."""
    if not modes:
        return ()
    odds = float(sum(np.exp(min(log_mass(mode) - log_here, 50.0)) for mode in modes))
    share = odds / (1 + odds)
    gap = np.abs(modes[0].point - centre) * precision
    # Without the suffix of the transform, as in tau_log__.
    name = re.sub(r"_[^_]+__", "", target.density.parameter_names()[int(np.argmax(gap))])
    how_many = "another mode" if len(modes) == 1 else f"{len(modes)} other modes"
    text = (
        f"the approximation leaves out {how_many}, with about {share:.0%} of the posterior, in which '{name}' is far"
        " from its estimate"
    )
    advice = "sample with method smc, or give priors that select a mode"
    return (Finding("fail", "modes", name, share, text, advice),)
