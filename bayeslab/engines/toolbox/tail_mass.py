r"""The posterior mass beyond the draws, by integration along one parameter.

If steps are too long for a tail, all chains stop short of it and agree with each other. The only sign in the draws is a
few rejected steps, which valid chains have, too. The density decides: with the other parameters integrated out, it
gives the posterior mass beyond the draws.

At several values of the parameter, the other parameters are integrated out by Laplace's method [1]_, corrected by
importance sampling from a Student t distribution with the mode and curvature of the conditional density. The values
range from the 70 % quantile of the draws to far beyond the last draw. The share of draws between the 70 and the 90 %
quantiles sets the scale, so no normalising constant is needed. The mass beyond a quantile is then compared with the
share of draws there, whose distribution is that of the tail's effective sample size.

There is no result if the integration may be wrong: the conditional density has no mode, the importance weights are
unequal, or the draws are more dispersed than the conditional density (several modes).

References
----------
.. [1] Tierney, Kadane (1986). Accurate approximations for posterior moments and marginal densities. Journal of the
   American Statistical Association 81(393), 82-86: section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import exp, lgamma, log

import numpy as np
from numpy.typing import NDArray

from bayeslab.engines.toolbox.target import Array, Target
from bayeslab.results.tails import rejecting, stays

__all__ = ["Missing", "missing_mass"]

# Quantiles of the draws, besides the last draw, at which the density is integrated. The first three set the scale.
_QUANTILES = (0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
_SCALE_SHARE = 0.2
# Values beyond the last draw, in units of the distance from the 95 % quantile to the last draw.
_BEYOND = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
# Maximum number of tails to examine.
_MAX_TAILS = 6
# Maximum numbers of Newton steps and of step halvings; the gain in log density at which a search ends (weights correct
# the remainder).
_NEWTON_STEPS, _HALVINGS, _GAIN = 8, 8, 0.02
# Minimum number of importance draws, number per parameter, number of doublings, and minimum effective sample size.
_MIN_DRAWS, _DRAWS_PER_PARAMETER, _DOUBLINGS, _MIN_ESS = 64, 8, 1, 16.0
# Maximum mean squared distance of draws from the conditional mode, per parameter; it is 1 for a normal density.
_MAX_DISPERSION = 2.0
# Missing mass is reported if the mass exceeds this multiple of the share of draws, and so few draws have at most this
# probability (our choice).
_MIN_RATIO, _MAX_PROBABILITY = 2.0, 1e-3


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
        Share of the draws in the tail; 0 if the tail begins at the last draw.
    """

    number: int
    upper: bool
    mass: float
    drawn: float


def missing_mass(
    target: Target, points: Array, acceptance: Array, rng: np.random.Generator, evaluations: int
) -> Missing | None:
    """The tail with the largest missing mass; None if the draws reach all examined tails.

    Tails in which steps are rejected more often than elsewhere are examined.

    Parameters
    ----------
    points
        Draws, shape (chain, draw, n_dim).
    acceptance
        Mean acceptance probability of the transition to each draw, shape (chain, draw).
    evaluations
        Maximum number of density evaluations.
    """
    draws = np.moveaxis(points, -1, 0)
    worst: Missing | None = None
    for number, upper in rejecting(draws, acceptance, _MAX_TAILS):
        tail = _Tail(target, points, number, upper, rng)
        missing = tail.missing(evaluations)
        evaluations -= tail.cost
        if missing is not None and (worst is None or missing.mass - missing.drawn > worst.mass - worst.drawn):
            worst = missing
        if evaluations <= 0:
            break
    return worst


def _at_most(count: int, mean: float) -> float:
    """The probability of at most ``count`` draws in a tail, a Poisson variable."""
    if not mean > 0:
        return 1.0
    return sum(exp(k * log(mean) - mean - lgamma(k + 1)) for k in range(count + 1))


@dataclass(frozen=True, eq=False)
class _Conditional:
    """The conditional density of the other parameters given one: mode, square root of the covariance, log integral."""

    point: Array
    root: Array
    log_integral: float


class _Tail:
    """A tail of a parameter, with the sign changed for a lower tail."""

    def __init__(self, target: Target, points: Array, number: int, upper: bool, rng: np.random.Generator) -> None:
        self.target, self.number, self.upper, self.rng = target, number, upper, rng
        self.flat = points.reshape(-1, points.shape[-1])
        self.sign = 1.0 if upper else -1.0
        self.values = self.sign * self.flat[:, number]
        self.others = np.delete(np.arange(self.flat.shape[1]), number)
        self.worth = float(stays(-self.sign * points[None, :, :, number])[0, 0])
        self.cost = 0

    def missing(self, evaluations: int) -> Missing | None:
        """The missing mass of this tail; None if there is none or the integration has no result."""
        at = np.append(np.quantile(self.values, _QUANTILES), self.values.max())
        at = np.append(at, at[-1] + np.array(_BEYOND) * (at[-1] - at[3]))
        inside = len(_QUANTILES) + 1
        if not (np.diff(at) > 0).all():
            return None
        conditionals = self._conditionals(at, inside, evaluations)
        if len(conditionals) < inside or self._dispersed(at, conditionals[:3]):
            return None
        mass = np.zeros(len(at) - 1)
        mass[: len(conditionals) - 1] = _integrals(at, np.array([c.log_integral for c in conditionals]))
        beyond = _SCALE_SHARE * mass[::-1].cumsum()[::-1][2:inside] / mass[:2].sum()
        drawn = 1.0 - np.append(_QUANTILES[2:], 1.0)
        worth = self.worth * len(self.values)
        short = beyond > _MIN_RATIO * drawn
        if short.any():
            chances = [_at_most(round(worth * there), worth * mass) for there, mass in zip(drawn, beyond, strict=True)]
            short &= np.array(chances) < _MAX_PROBABILITY
        if not short.any():
            return None
        k = int(np.argmax(np.where(short, beyond - drawn, -np.inf)))
        return Missing(self.number, self.upper, float(min(beyond[k], 1.0)), float(drawn[k]))

    def _conditionals(self, at: Array, inside: int, evaluations: int) -> list[_Conditional]:
        """The conditional densities at the values, up to the first that cannot be integrated."""
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
        constant = lgamma((degrees + m) / 2) - lgamma(degrees / 2) - m / 2 * np.log(degrees * np.pi) - log_size
        log_weights = np.zeros(0)
        n = max(_MIN_DRAWS, _DRAWS_PER_PARAMETER * m)
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
            if weights.sum() ** 2 / (weights**2).sum() >= _MIN_ESS:
                return _Conditional(point, root, float(top + np.log(weights.mean())))
            n = len(log_weights)
        return None

    def _peak(self, point: Array, scale: Array) -> tuple[Array, Array, Array] | None:
        """The mode, and eigenvalues and eigenvectors of minus the scaled Hessian; None if there is no mode."""
        height, slope = self.target.one(point)
        self.cost += 1
        for _ in range(_NEWTON_STEPS):
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
        """The Hessian in the other parameters, in units of the scale, by central differences."""
        m, h = len(self.others), 1e-3
        around = np.repeat(point[None], 2 * m, axis=0)
        around[np.arange(m), self.others] += h * scale
        around[m + np.arange(m), self.others] -= h * scale
        slopes = self.target.many(around)[1][:, self.others] * scale
        self.cost += 2 * m
        out: Array = (slopes[:m] - slopes[m:]) / (2 * h)
        return (out + out.T) / 2

    def _dispersed(self, at: Array, conditionals: list[_Conditional]) -> bool:
        """Whether the draws that set the scale are more dispersed around the conditional modes than these densities."""
        if not self.others.size:
            return False
        squares = []
        for (low, high), (here, there) in zip(pairwise(at[:3]), pairwise(conditionals), strict=True):
            inside = (self.values >= low) & (self.values <= high)
            way = ((self.values[inside] - low) / (high - low))[:, None]
            centre = (1 - way) * here.point[self.others] + way * there.point[self.others]
            z = np.linalg.solve(here.root, (self.flat[inside][:, self.others] - centre).T)
            squares.append(float((z**2).mean()))
        return max(squares) > _MAX_DISPERSION


def _integrals(at: Array, log_density: Array) -> NDArray[np.float64]:
    """Integrals of a piecewise log-linear density between neighbouring values, up to a common factor."""
    at = at[: len(log_density)]
    log_density = log_density - log_density.max()
    change = np.diff(log_density)
    flat = np.abs(change) < 1e-9
    mean = np.where(flat, 1.0, np.expm1(change) / np.where(flat, 1.0, change))
    out: NDArray[np.float64] = np.diff(at) * np.exp(log_density[:-1]) * mean
    return out
