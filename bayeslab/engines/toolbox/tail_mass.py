r"""The posterior mass beyond the draws, by integration along one parameter.

Chains whose steps are too long for a tail agree with each other, wherever they stop. A few refused steps are the only
sign of it in the draws, and sound chains have these too. The density decides: with the other parameters integrated out,
it shows how much of the posterior lies beyond the draws.

At several values of the parameter, the others are integrated out by Laplace's method [1]_, corrected by importance
sampling from a Student t distribution with the mode and the curvature of the conditional density. The values reach from
the draws' 70 % quantile to far beyond the last draw. Draws between the 70 and the 90 % quantiles set the scale, so no
normalising constant is needed. Then the mass beyond a quantile is compared with the share of draws there, which is
binomial with the effective sample size of the tail.

The integration is left undecided where it may be wrong: no conditional mode, unequal importance weights, or draws that
are more dispersed than the conditional density (several modes).

References
----------
.. [1] Tierney, Kadane (1986). Accurate approximations for posterior moments and marginal densities. Journal of the
   American Statistical Association 81(393), 82-86: section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, gammaln

from bayeslab.engines.toolbox.target import Array, Target
from bayeslab.results.tails import rejecting, stays

__all__ = ["Missing", "missing_mass"]

# Levels of the draws at which the density is integrated (the last draw is another one). The first three set the scale.
_LEVELS = (0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
_SCALE = 0.2
# Values beyond the last draw, in distances from the 95 % quantile to the last draw.
_BEYOND = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
# Maximum number of tails.
_TAILS = 6
# Steps of a search and of its line search; the gain in log density at which a search ends (weights correct the rest).
_NEWTON, _HALVINGS, _GAIN = 8, 8, 0.02
# Importance draws (at least, and per parameter), their doublings, and the number that they must be worth.
_DRAWS, _PER, _DOUBLINGS, _WORTH = 64, 8, 1, 16.0
# Mean squared distance of draws from the conditional mode per parameter: 1 for a normal density.
_DISPERSED = 2.0
# The mass beyond must exceed this multiple of the share of the draws, with this probability of so few draws (ours).
_TIMES, _CHANCE = 2.0, 1e-3


@dataclass(frozen=True)
class Missing:
    """A tail that the draws do not reach.

    Attributes
    ----------
    number : int
        Index of the parameter in the flat vector.
    upper : bool
        Whether it is the upper tail.
    mass : float
        Share of the posterior in the tail.
    drawn : float
        Share of the draws in the tail; 0 if it begins at the last draw.
    """

    number: int
    upper: bool
    mass: float
    drawn: float


def missing_mass(
    target: Target, points: Array, acceptance: Array, rng: np.random.Generator, evaluations: int
) -> Missing | None:
    """The tail in which most of the posterior's mass is missing; None if draws reach all tails that are examined.

    Tails in which steps are refused more often than elsewhere are examined.

    Parameters
    ----------
    points
        Draws, shape (chain, draw, n_dim).
    acceptance
        Mean acceptance of the transition that ended at each draw, shape (chain, draw).
    evaluations
        Maximum number of evaluations of the density.
    """
    draws = np.moveaxis(points, -1, 0)
    worst: Missing | None = None
    for number, upper in rejecting(draws, acceptance, _TAILS):
        tail = _Tail(target, points, number, upper, rng)
        missing = tail.missing(evaluations)
        evaluations -= tail.cost
        if missing is not None and (worst is None or missing.mass - missing.drawn > worst.mass - worst.drawn):
            worst = missing
        if evaluations <= 0:
            break
    return worst


@dataclass(frozen=True, eq=False)
class _Conditional:
    """Where the other parameters are, given one: the mode, a root of the covariance, and the log of the integral."""

    point: Array
    root: Array
    log_integral: float


class _Tail:
    """One tail of one parameter, turned so that it is the upper one."""

    def __init__(self, target: Target, points: Array, number: int, upper: bool, rng: np.random.Generator) -> None:
        self.target, self.number, self.upper, self.rng = target, number, upper, rng
        self.flat = points.reshape(-1, points.shape[-1])
        self.sign = 1.0 if upper else -1.0
        self.values = self.sign * self.flat[:, number]
        self.others = np.delete(np.arange(self.flat.shape[1]), number)
        self.worth = float(stays(-self.sign * points[None, :, :, number])[0, 0])
        self.cost = 0

    def missing(self, evaluations: int) -> Missing | None:
        """What is missing in this tail; None if nothing is or if the integration is undecided."""
        at = np.append(np.quantile(self.values, _LEVELS), self.values.max())
        at = np.append(at, at[-1] + np.array(_BEYOND) * (at[-1] - at[3]))
        inside = len(_LEVELS) + 1
        if not (np.diff(at) > 0).all():
            return None
        conditionals = self._conditionals(at, inside, evaluations)
        if len(conditionals) < inside or self._dispersed(at, conditionals[:3]):
            return None
        mass = np.zeros(len(at) - 1)
        mass[: len(conditionals) - 1] = _integrals(at, np.array([c.log_integral for c in conditionals]))
        beyond = _SCALE * mass[::-1].cumsum()[::-1][2:inside] / mass[:2].sum()
        drawn = 1.0 - np.append(_LEVELS[2:], 1.0)
        worth = self.worth * len(self.values)
        # The probability of at most the observed number of draws, if their number is Poisson with the given mass.
        chance = gammaincc(worth * drawn + 1.0, worth * beyond)
        short = (beyond > _TIMES * drawn) & (chance < _CHANCE)
        if not short.any():
            return None
        k = int(np.argmax(np.where(short, beyond - drawn, -np.inf)))
        return Missing(self.number, self.upper, float(min(beyond[k], 1.0)), float(drawn[k]))

    def _conditionals(self, at: Array, inside: int, evaluations: int) -> list[_Conditional]:
        """The conditional densities at the values, as far as they can be integrated."""
        near = np.argsort(np.abs(self.values - at[0]))[: max(20, len(self.values) // 50)]
        point = self.flat[near].mean(axis=0)
        scale = np.maximum(self.flat.std(axis=0), 1e-12 * (1.0 + np.abs(point)))[self.others]
        out: list[_Conditional] = []
        for k, value in enumerate(at):
            starts = [point.copy()]
            if k > 1:
                slope = (out[-1].point - out[-2].point) / (at[k - 1] - at[k - 2])
                starts.append(out[-1].point + slope * (value - at[k - 1]))
            for start in starts:
                start[self.number] = self.sign * value
            heights = self.target.many(np.stack(starts))[0]
            self.cost += len(starts)
            conditional = self._conditional(starts[int(np.argmax(heights))], scale)
            if conditional is None or self.cost > evaluations:
                break
            out.append(conditional)
            point, scale = conditional.point, np.sqrt((conditional.root**2).sum(axis=1))
            if k >= inside and conditional.log_integral < max(c.log_integral for c in out) - 30.0:
                break
        return out

    def _conditional(self, start: Array, scale: Array) -> _Conditional | None:
        """The conditional density at one value of the parameter; None if it cannot be integrated."""
        if not self.others.size:
            return _Conditional(start, np.zeros((0, 0)), self.target.one(start)[0])
        peak = self._peak(start, scale)
        if peak is None:
            return None
        point, values, vectors = peak
        root = scale[:, None] * vectors / np.sqrt(values)
        m = len(self.others)
        log_size = np.log(scale).sum() - 0.5 * np.log(values).sum()
        degrees = max(5.0, float(m))
        constant = gammaln((degrees + m) / 2) - gammaln(degrees / 2) - m / 2 * np.log(degrees * np.pi) - log_size
        log_weights = np.zeros(0)
        n = max(_DRAWS, _PER * m)
        for _ in range(_DOUBLINGS + 1):
            z = self.rng.standard_normal((n // 2, m)) / np.sqrt(self.rng.chisquare(degrees, (n // 2, 1)) / degrees)
            z = np.concatenate((z, -z))
            around = np.repeat(point[None], len(z), axis=0)
            around[:, self.others] += z @ root.T
            heights = self.target.many(around)[0]
            self.cost += len(z)
            new = heights - (constant - (degrees + m) / 2 * np.log1p((z**2).sum(axis=1) / degrees))
            log_weights = np.concatenate((log_weights, new))
            top = log_weights.max()
            if not np.isfinite(top):
                return None
            weights = np.exp(log_weights - top)
            if weights.sum() ** 2 / (weights**2).sum() >= _WORTH:
                return _Conditional(point, root, float(top + np.log(weights.mean())))
            n = len(log_weights)
        return None

    def _peak(self, point: Array, scale: Array) -> tuple[Array, Array, Array] | None:
        """The mode, with eigenvalues and eigenvectors of minus the curvature in units of the scale; None if none."""
        height, slope = self.target.one(point)
        self.cost += 1
        for _ in range(_NEWTON):
            curvature = self._curvature(point, scale)
            if not np.isfinite(curvature).all():
                return None
            values, vectors = np.linalg.eigh(-curvature)
            size = np.maximum(np.abs(values), 1e-6)
            descent = slope[self.others] * scale
            step = vectors @ ((vectors.T @ descent) / size)
            if values[0] > 1e-8 and 0.5 * float(step @ descent) < _GAIN:
                return point, values, vectors
            for _ in range(_HALVINGS):
                there = point.copy()
                there[self.others] += scale * step
                new_height, new_slope = self.target.one(there)
                self.cost += 1
                if new_height > height and np.isfinite(new_slope).all():
                    break
                step = step / 4.0
            else:
                return None
            point, height, slope = there, new_height, new_slope
        return None

    def _curvature(self, point: Array, scale: Array) -> Array:
        """Second derivatives in the other parameters, in units of the scale, by central differences."""
        m, h = len(self.others), 1e-3
        around = np.repeat(point[None], 2 * m, axis=0)
        around[np.arange(m), self.others] += h * scale
        around[m + np.arange(m), self.others] -= h * scale
        slopes = self.target.many(around)[1][:, self.others] * scale
        self.cost += 2 * m
        out: Array = (slopes[:m] - slopes[m:]) / (2 * h)
        return (out + out.T) / 2

    def _dispersed(self, at: Array, conditionals: list[_Conditional]) -> bool:
        """Whether draws that set the scale are farther from the conditional modes than these densities allow."""
        if not self.others.size:
            return False
        squares = []
        for (low, high), (here, there) in zip(pairwise(at[:3]), pairwise(conditionals), strict=True):
            inside = (self.values >= low) & (self.values <= high)
            way = ((self.values[inside] - low) / (high - low))[:, None]
            centre = (1 - way) * here.point[self.others] + way * there.point[self.others]
            z = np.linalg.solve(here.root, (self.flat[inside][:, self.others] - centre).T)
            squares.append(float((z**2).mean()))
        return max(squares) > _DISPERSED


def _integrals(at: Array, log_density: Array) -> NDArray[np.float64]:
    """Integrals between neighbouring values, up to a common factor, of a density that is log-linear in between."""
    at = at[: len(log_density)]
    log_density = log_density - log_density.max()
    change = np.diff(log_density)
    flat = np.abs(change) < 1e-9
    mean = np.where(flat, 1.0, np.expm1(change) / np.where(flat, 1.0, change))
    out: NDArray[np.float64] = np.diff(at) * np.exp(log_density[:-1]) * mean
    return out
