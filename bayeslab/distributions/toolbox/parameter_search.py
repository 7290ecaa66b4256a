"""Posterior modes of a distribution's parameters for weighted values, by a search where no closed form exists.

The search maximises Σ w_n log p(y_n | θ) + log p(θ) in unconstrained coordinates by Newton steps, and never ends below
its start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from scipy.optimize import minimize

from bayeslab.distributions.toolbox.conjugate_pairs import PAIRS
from bayeslab.distributions.toolbox.law import Law
from bayeslab.distributions.toolbox.limits import at_limit, just_allowed, ridge_at_limit
from bayeslab.distributions.toolbox.parameters import interval
from bayeslab.distributions.toolbox.table import DISTRIBUTIONS, conjugate, density_parameters, functions

__all__ = ["REACH", "ParameterSearch", "counted_values"]

# Positive parameters stay within a factor e^±16 of those that fit all rows.
REACH = 16.0
# Along a ridge, other parameters move by these powers of the factor of the first.
_TOGETHER = (0.0, 1.0, 2.0, -1.0)
# Number of quantiles on which first guesses are compared, and number of best guesses that are refined.
_QUANTILES, _TRIED = 50, 2
# Largest derivative of the mean log density at which a gradient search has converged.
_FLAT = 1e-5
# Largest number and length of Newton steps, the step of finite differences, and the gain that ends the search.
_STEPS, _LONGEST, _DIFFERENCE, _GAIN = 60, 4.0, 1e-4, 1e-15


def counted_values(x: np.ndarray, weights: np.ndarray, *, discrete: bool) -> tuple[np.ndarray, np.ndarray]:
    """Observed values and their weights (n, K), with equal integers merged."""
    there = ~np.isnan(x)
    x, weights = x[there], weights[there]
    if not discrete:
        return x, weights
    values, at = np.unique(x, return_inverse=True)
    return values, np.stack([np.bincount(at, w, minlength=len(values)) for w in weights.T], axis=1)


@dataclass(frozen=True, eq=False)
class ParameterSearch:
    """Search for the posterior mode of a distribution's parameters, some of them known, for weighted values.

    Attributes
    ----------
    name : str
        PyMC's name of the distribution.
    learned : tuple of str
    known : mapping of str to float
    laws : mapping of str to Law
        Priors of the learned parameters; empty for maximum likelihood.
    typical : mapping of str to (float, float)
        A start value of each parameter, and its unit of measurement.
    """

    name: str
    learned: tuple[str, ...]
    known: Mapping[str, float]
    laws: Mapping[str, Law]
    typical: Mapping[str, tuple[float, float]]

    def best(self, x: np.ndarray, weights: np.ndarray, start: np.ndarray | None) -> np.ndarray:
        """The best parameters: in closed form; otherwise from a start, from a fit of all rows, or from guesses."""
        if weights.sum() <= 1e-12 and not self.laws:
            return self._typical() if start is None else start
        if (closed := self._closed(x, weights)) is not None:
            return closed
        for begin in (start, self._typical() if self.typical else None):
            if begin is not None and np.isfinite(self.height(x, weights, begin)):
                end = self._climbed(x, weights, begin)
                plain = replace(self, laws={})
                if -1 not in plain.limits(x, weights, end):
                    return end
                # The gradient may vanish there although other points are higher, as at nu = 0 of the Rice distribution.
                other = self._climbed(x, weights, plain.allowed(x, weights, end))
                return max((end, other), key=lambda one: self.height(x, weights, one))
        few = _quantiles(x, weights)
        even = np.ones(len(few))
        ends = [self._climbed(few, even, one, to_the_top=False) for one in self._guesses(few)]
        good = [end for end in ends if np.isfinite(self.height(x, weights, end))] or ends
        best = sorted(good, key=lambda end: -self.height(x, weights, end))[:_TRIED]
        return max((self._climbed(x, weights, one) for one in best), key=lambda end: self.height(x, weights, end))

    def _closed(self, x: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
        """The one unknown parameter in closed form, if its prior is conjugate or absent."""
        declared = conjugate(self.name)
        if declared is None or declared.counts is None or self.learned != (declared.parameter,):
            return None
        a, b = 0.0, 0.0
        if (law := self.laws.get(declared.parameter)) is not None:
            if law.name != declared.prior or law.given.keys() != {"alpha", "beta"}:
                return None
            a, b = (float(law.given[word]) for word in ("alpha", "beta"))
        counts = declared.counts(x, **{word: self.known[word] for word in declared.others if word in self.known})
        won, base = (float(np.sum(weights * count)) for count in counts)
        pair = PAIRS[declared.prior]
        best = float(pair.most_likely(won, base) if law is None else pair.mode(a + won, b + base))
        # Leave a result at an end of the domain to the search, which stays inside.
        low, high = interval(self.name, declared.parameter)
        return np.array([best]) if low < best < high else None

    def limits(self, x: np.ndarray, weights: np.ndarray, theta: np.ndarray) -> list[int]:
        """Whether each parameter is at a limit of its domain; see :func:`at_limit`."""
        return [
            at_limit(height, theta[i] - low) if np.isfinite(low) and np.isinf(high) else 0
            for i, (low, high) in enumerate(interval(self.name, word) for word in self.learned)
            for height in [self._along(x, weights, theta, i)]
        ]

    def allowed(self, x: np.ndarray, weights: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """The parameters, with those at a limit moved as far from it as the data allow."""
        out = theta.copy()
        for i, way in enumerate(self.limits(x, weights, theta)):
            if way:
                low = interval(self.name, self.learned[i])[0]
                out[i] = low + just_allowed(self._along(x, weights, theta, i), theta[i] - low, way)
        return out

    def on_ridge(self, x: np.ndarray, weights: np.ndarray, theta: np.ndarray, i: int) -> bool:
        """Whether a parameter is at a limit along a ridge: a flat direction in which others move with it.

        For example, a normal distribution truncated at 0 becomes exponential as sigma grows and mu falls with its
        square, and a beta-binomial becomes binomial as alpha and beta grow together. The other parameters are moved by
        such powers, each by its own, and optimised from the best of these points.
        """
        low, high = interval(self.name, self.learned[i])
        if not (np.isfinite(low) and np.isinf(high)) or len(theta) == 1:
            return False
        best = self.height(x, weights, theta)
        held = replace(self, learned=tuple(np.delete(self.learned, i)), typical={})

        def highest(times: float) -> float:
            value = low + (theta[i] - low) * times
            search = replace(
                held,
                known={**self.known, self.learned[i]: value},
                laws={word: law for word, law in self.laws.items() if word in held.learned},
            )
            law = self.laws.get(self.learned[i])
            log_prior = 0.0 if law is None else float(law.log_density(np.asarray(value)))
            powers = product(_TOGETHER, repeat=len(theta) - 1)
            starts = [np.delete(theta, i) * times ** np.array(each) for each in powers]
            good = sorted(starts, key=lambda start: -search.height(x, weights, start))[:_TRIED]
            ends = [search._climbed(x, weights, start, to_the_top=False) for start in good]
            return log_prior + max(search.height(x, weights, end) for end in ends)

        return ridge_at_limit(highest, best)

    def _along(self, x: np.ndarray, weights: np.ndarray, theta: np.ndarray, i: int) -> Callable[[float], float]:
        """The objective as a function of one parameter's distance from its lower end."""
        low = interval(self.name, self.learned[i])[0]

        def height(apart: float) -> float:
            return self.height(x, weights, np.concatenate([theta[:i], [low + apart], theta[i + 1 :]]))

        return height

    def height(self, x: np.ndarray, weights: np.ndarray, theta: np.ndarray) -> float:
        """Log likelihood plus log prior."""
        values = {**self.known, **dict(zip(self.learned, theta, strict=True))}
        with np.errstate(all="ignore"):
            terms = self._log_density(x, values)
            value = float(np.sum(np.where(weights > 0, weights * terms, 0.0)))
        value += sum(float(self.laws[word].log_density(np.asarray(values[word]))) for word in self.laws)
        return value if not np.isnan(value) else -np.inf

    def _log_density(self, x: np.ndarray, parameters: Mapping[str, Any]) -> np.ndarray:
        given = (parameters[word] for word in density_parameters(self.name))
        return np.asarray(functions(self.name).log_density(x, *given))

    def _slopes(self, x: np.ndarray, theta: np.ndarray) -> list[np.ndarray]:
        """Derivatives of the log density of each row by each learned parameter."""
        values = {**self.known, **dict(zip(self.learned, theta, strict=True))}
        names = density_parameters(self.name)
        with np.errstate(all="ignore"):
            slopes = functions(self.name).slopes(x, *(values[word] for word in names))[1:]
        return [np.broadcast_to(np.asarray(slopes[names.index(word)]), x.shape) for word in self.learned]

    def _slope(self, x: np.ndarray, weights: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Gradient of :meth:`height`."""
        slopes = self._slopes(x, theta)
        with np.errstate(invalid="ignore"):
            out = np.array([float(np.sum(np.where(weights > 0, weights * terms, 0.0))) for terms in slopes])
        for i, word in enumerate(self.learned if self.laws else ()):
            out[i] += float(self.laws[word].slope(np.asarray(theta[i])))
        return out

    def _climbed(self, x: np.ndarray, weights: np.ndarray, start: np.ndarray, *, to_the_top: bool = True) -> np.ndarray:
        units = np.ones(len(start)) if self.typical else self.units(x, weights, start)
        maps = [self._map(*one) for one in zip(self.learned, start, units, strict=True)]
        size = max(float(weights.sum()), 1.0)

        def theta(u: np.ndarray) -> np.ndarray:
            return np.array([one.value(v) for one, v in zip(maps, u, strict=True)])

        def objective(u: np.ndarray) -> tuple[float, np.ndarray]:
            at = theta(u)
            value = self.height(x, weights, at)
            if not np.isfinite(value):
                return 1e300, np.zeros(len(u))
            steps = np.array([one.slope(v) for one, v in zip(maps, u, strict=True)])
            slope = np.nan_to_num(self._slope(x, weights, at) * steps, posinf=0.0, neginf=0.0)
            return -value / size, -slope / size

        ends = np.array([one.bounds for one in maps])
        begin = np.array([one.place(value) for one, value in zip(maps, start, strict=True)])
        place = _newton(objective, np.clip(begin, *ends.T), ends)
        if to_the_top and np.abs(objective(place)[1]).max() > _FLAT:
            # At a kink there is no gradient to follow.
            options = {"maxiter": 300, "fatol": 1e-12, "xatol": 1e-9}
            place = minimize(lambda u: objective(u)[0], place, method="Nelder-Mead", options=options).x
        end = theta(place)
        return end if self.height(x, weights, end) >= self.height(x, weights, start) else start

    def _map(self, word: str, value: float, unit: float) -> _Map:
        low, high = interval(self.name, word)
        if word in self.laws:
            ends = self.laws[word].ends
            low, high = max(low, float(ends[0])), min(high, float(ends[1]))
        return _Map(low, high, *self.typical.get(word, (float(value), float(unit))))

    def _typical(self) -> np.ndarray:
        out = np.array([self.typical[word][0] if word in self.typical else 1.0 for word in self.learned])
        for i, word in enumerate(self.learned):
            low = float(self.laws[word].ends[0]) if word in self.laws else -np.inf
            if word in DISTRIBUTIONS[self.name].angles and np.isfinite(low):
                out[i] = low + (out[i] - low) % (2 * np.pi)  # the period that the prior allows
        return out

    def _guesses(self, points: np.ndarray) -> list[np.ndarray]:
        """The best start values from a grid of common values of the parameters."""
        grid = [_usual(points, *interval(self.name, word)) for word in self.learned]
        guesses = np.array(list(product(*grid)))
        grid_values: dict[str, Any] = {**self.known, **{word: guesses[:, i] for i, word in enumerate(self.learned)}}
        with np.errstate(all="ignore"):
            density = self._log_density(points[:, None], grid_values)
            total = np.sum(np.broadcast_to(density, (len(points), len(guesses))), axis=0)
        total = np.nan_to_num(total, nan=-np.inf, posinf=-np.inf)
        chosen = {int(np.argmax(total))}
        for i, values in enumerate(grid):
            chosen |= {int(np.argmax(np.where(guesses[:, i] == value, total, -np.inf))) for value in values}
        return [guesses[n] for n in sorted(chosen) if np.isfinite(total[n])] or [guesses[int(np.argmax(total))]]

    def units(self, x: np.ndarray, weights: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Standard error from one row of each parameter: 1 / √(mean squared derivative), other parameters fixed."""
        total = np.maximum(weights.sum(), 1e-300)
        counted = weights > 0
        with np.errstate(over="ignore"):
            squares = np.array(
                [
                    np.sum(weights[counted] * np.nan_to_num(np.broadcast_to(terms, x.shape)[counted]) ** 2) / total
                    for terms in self._slopes(x, theta)
                ]
            )
        good = (squares > 0) & np.isfinite(squares)
        return np.where(good, np.where(good, squares, 1.0) ** -0.5, 1.0)


def _quantiles(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Quantiles that represent all values."""
    order = np.argsort(x, kind="stable")
    before = np.cumsum(weights[order]) / weights.sum()
    places = np.searchsorted(before, (np.arange(_QUANTILES) + 0.5) / _QUANTILES)
    return np.asarray(x[order][np.minimum(places, len(x) - 1)])


def _usual(points: np.ndarray, low: float, high: float) -> list[float]:
    """Common values of a parameter between these ends, for such data."""
    if np.isfinite(high):
        return [low + (high - low) * share for share in (0.1, 0.3, 0.5, 0.7, 0.9)]
    mean, sd = float(points.mean()), float(points.std())
    places, sizes = {mean, float(np.median(points)), mean - sd, mean + sd}, {abs(mean), sd, 0.3 * sd}
    shapes = {0.3, 1.0, 3.0, 10.0, (mean / sd) ** 2 if sd > 0 else 1.0}
    if (points > 0).all():
        logs = np.log(points)
        places, sizes = places | {float(logs.mean())}, sizes | {float(logs.std())}
        if (points < 1).all():
            odds = logs - np.log1p(-points)
            places, sizes = places | {float(odds.mean())}, sizes | {float(odds.std())}
    if np.isinf(low):
        return sorted(places | {0.0})
    sizes = {size for size in sizes if size > 0}
    return sorted({low + v for v in shapes | sizes | {1 / size for size in sizes} if 0 < v < np.inf})


def _newton(objective: Callable[[np.ndarray], tuple[float, np.ndarray]], u: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Minimise by Newton steps, with curvature from finite differences; negative curvature is reflected."""
    value, slope = objective(u)
    for _ in range(_STEPS):
        moved = _DIFFERENCE * np.eye(len(u))
        bends = np.array([objective(u + step)[1] - objective(u - step)[1] for step in moved]) / (2 * _DIFFERENCE)
        values, vectors = np.linalg.eigh(0.5 * (bends + bends.T))
        sizes = np.maximum(np.abs(values), 1e-10 + 1e-8 * np.abs(values).max())
        way = -vectors @ (vectors.T @ slope / sizes)
        if -slope @ way < _GAIN:
            break
        way *= min(1.0, _LONGEST / float(np.linalg.norm(way)))
        share = 1.0
        while share > 1e-8:
            there = np.clip(u + share * way, *ends.T)
            new, steeper = objective(there)
            if new < value:
                break
            share *= 0.25
        else:
            break
        u, value, slope = there, new, steeper
    return u


@dataclass(frozen=True)
class _Map:
    """Map between a parameter's domain and an unconstrained coordinate of order one."""

    low: float
    high: float
    centre: float
    unit: float

    @property
    def bounds(self) -> tuple[float, float]:
        if np.isinf(self.low) and np.isinf(self.high):
            return -np.inf, np.inf
        if np.isinf(self.low) or np.isinf(self.high):
            return -REACH, REACH
        return -30.0, 30.0

    @property
    def _apart(self) -> float:
        """Unit of the distance from a single end."""
        end = self.low if np.isfinite(self.low) else self.high
        return abs(self.centre - end) or 1.0

    def place(self, value: float) -> float:
        if np.isinf(self.low) and np.isinf(self.high):
            return (value - self.centre) / self.unit
        if np.isinf(self.high) or np.isinf(self.low):
            apart = value - self.low if np.isinf(self.high) else self.high - value
            return float(np.clip(np.log(max(apart, 1e-300) / self._apart), -REACH, REACH))
        share = np.clip((value - self.low) / (self.high - self.low), 1e-13, 1 - 1e-13)
        return float(np.log(share) - np.log1p(-share))

    def value(self, u: float) -> float:
        if np.isinf(self.low) and np.isinf(self.high):
            return self.centre + u * self.unit
        if np.isinf(self.high):
            return self.low + float(np.exp(u)) * self._apart
        if np.isinf(self.low):
            return self.high - float(np.exp(u)) * self._apart
        return self.low + (self.high - self.low) / (1 + float(np.exp(-u)))

    def slope(self, u: float) -> float:
        """The derivative of :meth:`value`."""
        if np.isinf(self.low) and np.isinf(self.high):
            return self.unit
        if np.isinf(self.high):
            return float(np.exp(u)) * self._apart
        if np.isinf(self.low):
            return -float(np.exp(u)) * self._apart
        share = 1 / (1 + float(np.exp(-u)))
        return (self.high - self.low) * share * (1 - share)
