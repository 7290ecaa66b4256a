r"""Columns of any distribution of single numbers: the M-step is a search, since nothing closed is known in general.

Given the state the columns are independent; each has parameters of its own in every state. Log density and slopes are
those of :mod:`bayeslab.distributions`. The M-step climbs

    Σ_n r_nk log p(y_n | θ_k) + log p(θ_k)

in coordinates that may be any number, by Newton steps from the parameters of the step before, and never ends
lower than it began: with such steps EM stays monotone [1]_.

Weak priors are about the distribution that fits all rows alike, θ_0: a positive parameter is LogNormal(log θ_0, 2), a
probability Beta(1, 1), an angle uniform, and any other number Normal(θ_0, 2 u), where u is what one row tells of it
(1 / √ of the mean squared slope, the other parameters held: a unit-information prior [2]_, twice as wide).

References
----------
.. [1] Dempster, Laird, Rubin (1977). Maximum likelihood from incomplete data via the EM algorithm. J. Royal Statistical
   Society B 39, 1-38 (generalised EM).
.. [2] Kass, Wasserman (1995). A reference Bayesian test for nested hypotheses and its relationship to the Schwarz
   criterion. J. American Statistical Association 90, 928-934.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from inspect import signature
from itertools import product
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize

from bayeslab.distributions import DISTRIBUTIONS, Distribution, Maths, maths
from bayeslab.errors import ModelError, hint
from bayeslab.exact.emissions.cells import check_numbers, check_shape, observed, renumbered, scaled
from bayeslab.exact.emissions.protocol import Emission, Parameters, Statistics

__all__ = ["AnyDistribution", "Law", "allowed", "interval", "never_learned", "usable"]

# Positive parameters stay within e^±16 of those that fit all rows.
_REACH = 16.0
# First guesses are compared on so many quantiles, and the best few improved.
_QUANTILES, _TRIED = 50, 2
_WIDTH = 2.0
# The greatest slope, of a mean log density, at the end of a search that follows slopes.
_FLAT = 1e-5
# Newton steps at most, their greatest length, the step of differences, and the gain that ends the search.
_STEPS, _LONGEST, _DIFFERENCE, _GAIN = 60, 4.0, 1e-4, 1e-15


@dataclass(frozen=True, eq=False)
class Law:
    """A prior: one distribution for all elements of a parameter, whose numbers may differ from element to element.

    Attributes
    ----------
    name : str
        PyMC's.
    given : mapping of str to ndarray
        Its parameters by PyMC's names, in shapes that broadcast to (K, d).
    """

    name: str
    given: Mapping[str, np.ndarray]

    @cached_property
    def _parameters(self) -> tuple[Any, ...]:
        return _maths(self.name).canonical(**self.given)

    @cached_property
    def ends(self) -> tuple[Any, Any]:
        """The least and the greatest value; an angle goes round and round."""
        if DISTRIBUTIONS[self.name].angles:
            return -np.inf, np.inf
        values = DISTRIBUTIONS[self.name].domain.values
        bound = dict(zip(_names(self.name), self._parameters, strict=True))
        low, high = (bound[end] if isinstance(end, str) else end for end in (values.low, values.high))
        return low, high

    def log_density(self, value: np.ndarray) -> np.ndarray:
        """Of every element; -inf outside the support."""
        low, high = self.ends
        inside = (value >= low) & (value <= high)
        with np.errstate(all="ignore"):
            out = _maths(self.name).log_density(np.where(inside, value, np.nan), *self._parameters)
        return np.where(inside, out, -np.inf)

    def slope(self, value: np.ndarray) -> np.ndarray:
        """The derivative of :meth:`log_density`."""
        with np.errstate(all="ignore"):
            return np.broadcast_to(np.asarray(_maths(self.name).slopes(value, *self._parameters)[0]), np.shape(value))


@cache
def _maths(name: str) -> Maths:
    functions = maths(name)
    assert functions is not None
    return functions


@cache
def _names(name: str) -> tuple[str, ...]:
    """The parameters of a distribution's log density."""
    return tuple(word for word in signature(_maths(name).log_density).parameters if word != "x")


def usable(name: str, known: Mapping[str, Any]) -> tuple[str, ...]:
    """The parameters of a distribution that columns can have, given all that are known.

    Raises
    ------
    ModelError
        See :func:`allowed`; a parameter that has to be known, since the likelihood has no slope along it.
    """
    names = allowed(name, known)
    for word in names:
        if word not in known and word in never_learned(name) and word not in _defaults(name):
            raise ModelError(
                f"{name} needs its '{word}' as a number, {name}({word}=...): it is a whole number or an end of the"
                " values, and the likelihood has no slope along it",
                code="incomplete",
            )
    return names


def allowed(name: str, known: Mapping[str, Any]) -> tuple[str, ...]:
    """The parameters of a distribution that columns can have, given some that are known.

    Raises
    ------
    ModelError
        A distribution whose log density is not known here, or that is none of single numbers; a parameter that it does
        not have, or a number that this cannot be.
    """
    if name not in DISTRIBUTIONS:
        raise ModelError(f"unknown distribution '{name}'{hint(name, DISTRIBUTIONS)}", code="not-a-distribution")
    entry = DISTRIBUTIONS[name]
    if entry.support or not entry.proper or maths(name) is None or not _names(name):
        raise ModelError(
            f"{name} is no distribution of a column: one of single numbers is meant, such as Gamma, Beta, Weibull or"
            " NegativeBinomial",
            code="not-a-distribution",
        )
    names = _names(name)
    for word in known:
        if word not in names:
            raise ModelError(
                f"{name} has no parameter '{word}' here{hint(word, names)}; its parameters are {', '.join(names)}",
                code="unknown-parameter",
            )
        _check_known(name, word, np.asarray(known[word], float))
    return names


def _check_known(name: str, word: str, value: np.ndarray) -> None:
    """Refuse a known number that the parameter cannot have."""
    own = DISTRIBUTIONS[name].domain.parameters.get(word)
    if own is not None:
        outside = own.outside(value, *interval(name, word))
        if outside.any():
            raise ModelError(
                f"{name}'s {word} is {own.words(*interval(name, word))}, not {value[outside].ravel()[0]:g}",
                code="out-of-range",
            )
    if word in _whole(name) and (value != np.floor(value)).any():
        broken = value[value != np.floor(value)].ravel()[0]
        raise ModelError(f"{name}'s {word} is a whole number, not {broken:g}", code="out-of-range")


@cache
def _whole(name: str) -> frozenset[str]:
    """Parameters that are whole numbers."""
    domain, names = DISTRIBUTIONS[name].domain, _names(name)
    rising = {word: float(i) for i, word in enumerate(domain.increasing)}
    point = [rising.get(word, 0.5 if domain.parameters.get(word) is not None else 0.0) for word in names]
    with np.errstate(all="ignore"):
        slopes = _maths(name).slopes(np.float64(0.5), *map(np.float64, point))[1:]
    return frozenset(word for word, slope in zip(names, slopes, strict=True) if slope is None)


@cache
def never_learned(name: str) -> frozenset[str]:
    """Ends of the values and what lies between them, and whole numbers: the likelihood has no slope along these."""
    domain = DISTRIBUTIONS[name].domain
    ends = {end for end in (domain.values.low, domain.values.high) if isinstance(end, str)}
    return frozenset(ends | set(domain.increasing) | _whole(name))


@cache
def _defaults(name: str) -> dict[str, float]:
    """Of what is never learned, where it need not be given."""
    given = {word: one.default for word, one in signature(_maths(name).canonical).parameters.items()}
    return {word: given[word] for word in never_learned(name) if isinstance(given[word], float | int)}


@dataclass(frozen=True, eq=False)
class AnyDistribution(Emission):
    """Columns that are independent given the state, all of one distribution.

    Parameters are those of the distribution's log density, by PyMC's names, (K, d) each.

    Parameters
    ----------
    name : str
        PyMC's name.
    n_columns : int
    known : mapping of str to ndarray
        Parameters that are known, in shapes that broadcast to (K, d).
    prior : mapping of str to Law, optional
        Of every other parameter.
    typical : mapping of str to (ndarray (d,), ndarray (d,))
        Of every other parameter the value that fits all rows, and how much one row tells of it.

    Raises
    ------
    ModelError
        See :func:`usable`.
    """

    name: str
    n_columns: int
    known: Mapping[str, np.ndarray] = field(default_factory=dict)
    prior: Mapping[str, Law] | None = None
    typical: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = usable(self.name, self.known)
        defaults = _defaults(self.name)
        known = {word: np.asarray(defaults[word]) for word in names if word in defaults and word not in self.known}
        object.__setattr__(self, "known", known | {k: np.asarray(v, float) for k, v in self.known.items()})

    @property
    def declaration(self) -> Distribution:
        return DISTRIBUTIONS[self.name]

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Names of all parameters."""
        return _names(self.name)

    @cached_property
    def learned(self) -> tuple[str, ...]:
        """Names of those that are not known."""
        return tuple(word for word in self.parameters if word not in self.known)

    @property
    def fixed_parameters(self) -> tuple[str, ...]:
        """Names of those that are known."""
        return tuple(self.known)

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Between which numbers each parameter lies."""
        return {word: interval(self.name, word) for word in self.learned}

    # ------------------------------------------------------------------ rows

    def check(self, rows: np.ndarray) -> None:
        check_shape(rows, self.n_columns)
        domain = self.declaration.domain
        for j in range(self.n_columns):
            x, ends = rows[:, [j]], {"low": domain.values.low, "high": domain.values.high}
            # Of ends that differ from state to state the widest.
            widest = {"low": np.min, "high": np.max}
            known = {word: widest[end](self._column(word, j)) for end, word in ends.items() if isinstance(word, str)}
            # At such an end the density is zero or infinite.
            at = {end: known[word] if isinstance(word, str) else word for end, word in ends.items()}
            lost = [x == at[end] for end, (word, _) in domain.bounded_by.items() if word in self.learned]
            with renumbered([j]):
                check_numbers(self.declaration, x, known, excluded=np.any(lost, axis=0))

    def features(self, rows: np.ndarray) -> np.ndarray:
        if self.declaration.angles:
            # The two ends of the circle are one place.
            return scaled(np.hstack([np.cos(rows), np.sin(rows)]))
        values = self.declaration.domain.values
        if values.low == 0 and values.high == np.inf:
            seen = ~np.isnan(rows)
            middle = np.where(seen, rows, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
            return scaled(np.log1p(rows / np.where(middle > 0, middle, 1.0)))
        return scaled(rows)

    def log_density(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray:
        filled, seen = observed(rows)
        out: Any = 0.0
        values = self.declaration.domain.values
        for j in range(self.n_columns):
            # Any value that can be: what is missing says nothing.
            x = np.where(seen[:, j] > 0, filled[:, j], np.nan)
            with np.errstate(all="ignore"):
                own = [np.broadcast_to(parameters[word], self._shape(parameters))[:, j] for word in self.parameters]
                terms = _maths(self.name).log_density(x[:, None], *own)
            # The ends may differ from state to state.
            bound = dict(zip(self.parameters, own, strict=True))
            low, high = (bound[end] if isinstance(end, str) else end for end in (values.low, values.high))
            terms = np.where(values.outside(x[:, None], low, high), -np.inf, terms)
            out = out + np.where(seen[:, j, None] > 0, terms, 0.0)
        return np.asarray(out)

    def _shape(self, parameters: Parameters) -> tuple[int, int]:
        lengths = [np.shape(parameters[word])[0] for word in self.parameters if np.ndim(parameters[word]) == 2]
        return max(lengths, default=1), self.n_columns

    # ------------------------------------------------------------------ expectation maximisation

    def statistics(
        self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Parameters | None = None
    ) -> Statistics:
        # No sufficient statistic of fixed size exists.
        return {"rows": rows, "belonging": responsibilities}

    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        rows, belonging = statistics["rows"], statistics["belonging"]
        shape = (belonging.shape[1], self.n_columns)
        out = {word: np.array(np.broadcast_to(self.known.get(word, np.nan), shape), float) for word in self.parameters}
        if not self.learned:
            return out
        for j in range(self.n_columns):
            x, weights = _counted(rows[:, j], belonging, discrete=self.declaration.discrete)
            for k in range(shape[0]):
                cell = self._cell(k, j)
                start = None if parameters is None else np.array([parameters[word][k, j] for word in self.learned])
                for word, value in zip(self.learned, cell.best(x, weights[:, k], start), strict=True):
                    turned = self._turns(word) and abs(value) > np.pi
                    out[word][k, j] = (value + np.pi) % (2 * np.pi) - np.pi if turned else value
        return out

    def _turns(self, word: str) -> bool:
        """Whether a turn more of a parameter makes no difference, to its prior neither."""
        law = self.prior[word] if self.prior is not None else None
        return word in self.declaration.angles and (law is None or bool(DISTRIBUTIONS[law.name].angles))

    def _cell(self, k: int, j: int) -> _Cell:
        """The problem of one column in one state."""

        laws = {}
        if self.prior is not None:
            for word in self.learned:
                law = self.prior[word]
                laws[word] = Law(law.name, {name: _one(value, k, j) for name, value in law.given.items()})
        typical = {word: (float(c[j]), float(u[j])) for word, (c, u) in self.typical.items()}
        return _Cell(self.name, self.learned, self._known(k, j), laws, typical)

    def _known(self, k: int, j: int) -> dict[str, float]:
        return {word: float(_one(value, k, j)) for word, value in self.known.items()}

    def expected_log_likelihood(self, statistics: Statistics, parameters: Parameters) -> float:
        belonging = statistics["belonging"]
        density = self.log_density(parameters, statistics["rows"])
        with np.errstate(invalid="ignore"):
            return float(np.sum(np.where(belonging > 0, belonging * density, 0.0)))

    def log_prior(self, parameters: Parameters) -> float:
        if self.prior is None:
            return 0.0
        return float(sum(np.sum(self.prior[word].log_density(parameters[word])) for word in self.learned))

    def n_free(self, n_states: int) -> int:
        return n_states * self.n_columns * len(self.learned)

    def with_prior(self, rows: np.ndarray, n_states: int) -> Self:
        """The emission with weak priors about what fits all rows alike; laws that are there stay."""
        typical: dict[str, tuple[np.ndarray, np.ndarray]] = {
            word: (np.empty(self.n_columns), np.empty(self.n_columns)) for word in self.learned
        }
        for j in range(self.n_columns if self.learned else 0):
            x, weights = _counted(rows[:, j], np.ones((len(rows), 1)), discrete=self.declaration.discrete)
            if not len(x):
                # Nothing to go by; only laws that are there already speak of such a column.
                for word in self.learned:
                    typical[word][0][j], typical[word][1][j] = _somewhere(self.name, word), 1.0
                continue
            cell = self._pooled(j)
            found = cell.best(x, weights[:, 0], None)
            for word, value, unit in zip(self.learned, found, cell.units(x, weights[:, 0], found), strict=True):
                typical[word][0][j], typical[word][1][j] = value, unit
        laws = {word: self._weak(word, *typical[word]) for word in self.learned}
        return replace(self, prior=laws | dict(self.prior or {}), typical=typical)

    def _column(self, word: str, j: int) -> np.ndarray:
        """What is known of a parameter in a column, of one state or of each."""
        value = np.atleast_2d(self.known[word])
        return np.asarray(value[:, _place(value, 1, j)])

    def _pooled(self, j: int) -> _Cell:
        # Where states differ in what is known, their middle stands for all.
        known = {word: float(np.mean(self._column(word, j))) for word in self.known}
        return _Cell(self.name, self.learned, known, {}, {})

    def _weak(self, word: str, centre: np.ndarray, unit: np.ndarray) -> Law:
        low, high = interval(self.name, word)
        if word in self.declaration.angles:
            return Law("VonMises", {"mu": np.zeros_like(centre), "kappa": np.full_like(centre, 1e-6)})
        if np.isinf(low) and np.isinf(high):
            return Law("Normal", {"mu": centre, "sigma": _WIDTH * unit})
        if np.isinf(high):
            return Law("LogNormal", {"mu": np.log(centre), "sigma": np.full_like(centre, _WIDTH)})
        return Law("Beta", {"alpha": np.ones_like(centre), "beta": np.ones_like(centre)})

    def degenerate(self, parameters: Parameters, variances: np.ndarray) -> np.ndarray:
        """States whose likelihood has no bound: equal rows under a density."""
        k = self._shape(parameters)[0]
        out = np.zeros(k, bool)
        for word in self.learned:
            out |= ~np.isfinite(parameters[word]).all(axis=1)
            if not self.declaration.discrete and interval(self.name, word) == (0.0, np.inf) and word in self.typical:
                apart = np.abs(np.log(parameters[word]) - np.log(self.typical[word][0]))
                out |= (apart > 0.99 * _REACH).any(axis=1)
        return out

    def sample(self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray) -> np.ndarray:
        own = [np.broadcast_to(parameters[word], self._shape(parameters))[states] for word in self.parameters]
        size = (len(states), self.n_columns)
        return np.asarray(_maths(self.name).draw(rng, size, *own), float)


def _place(value: np.ndarray, axis: int, at: int) -> int:
    """Where an element is of an array that broadcasts to (K, d)."""
    return min(at, np.atleast_2d(value).shape[axis] - 1)


def _one(value: np.ndarray, k: int, j: int) -> np.ndarray:
    """One element of an array that broadcasts to (K, d)."""
    return np.asarray(np.atleast_2d(value)[_place(value, 0, k), _place(value, 1, j)])


def interval(name: str, word: str) -> tuple[float, float]:
    """The ends of what a parameter can be."""
    own = DISTRIBUTIONS[name].domain.parameters.get(word)
    if own is None:
        return -np.inf, np.inf
    assert not isinstance(own.low, str)
    assert not isinstance(own.high, str)
    return float(own.low), float(own.high)


def _somewhere(name: str, word: str) -> float:
    """A value that a parameter can have."""
    low, high = interval(name, word)
    return 0.0 if np.isinf(low) else low + 1.0 if np.isinf(high) else 0.5 * (low + high)


def _counted(x: np.ndarray, weights: np.ndarray, *, discrete: bool) -> tuple[np.ndarray, np.ndarray]:
    """Observed values and their weights (n, K); equal whole numbers together."""
    seen = ~np.isnan(x)
    x, weights = x[seen], weights[seen]
    if not discrete:
        return x, weights
    values, at = np.unique(x, return_inverse=True)
    return values, np.stack([np.bincount(at, w, minlength=len(values)) for w in weights.T], axis=1)


@dataclass(frozen=True, eq=False)
class _Cell:
    """One column in one state: a distribution of which some parameters are known."""

    name: str
    learned: tuple[str, ...]
    known: Mapping[str, float]
    laws: Mapping[str, Law]
    typical: Mapping[str, tuple[float, float]]

    def best(self, x: np.ndarray, weights: np.ndarray, start: np.ndarray | None) -> np.ndarray:
        """The highest parameters, from a start, from what fits all rows, or from a grid of guesses."""
        if weights.sum() <= 1e-12 and not self.laws:
            return self._typical() if start is None else start
        for begin in (start, self._typical() if self.typical else None):
            if begin is not None and np.isfinite(self.height(x, weights, begin)):
                return self._climbed(x, weights, begin)
        few = _quantiles(x, weights)
        even = np.ones(len(few))
        ends = [self._climbed(few, even, one, to_the_top=False) for one in self._guesses(few)]
        good = [end for end in ends if np.isfinite(self.height(x, weights, end))] or ends
        best = sorted(good, key=lambda end: -self.height(x, weights, end))[:_TRIED]
        return max((self._climbed(x, weights, one) for one in best), key=lambda end: self.height(x, weights, end))

    def height(self, x: np.ndarray, weights: np.ndarray, theta: np.ndarray) -> float:
        """Log likelihood plus log prior."""
        own = {**self.known, **dict(zip(self.learned, theta, strict=True))}
        with np.errstate(all="ignore"):
            terms = np.asarray(_maths(self.name).log_density(x, *(own[word] for word in _names(self.name))))
            value = float(np.sum(np.where(weights > 0, weights * terms, 0.0)))
        value += sum(float(self.laws[word].log_density(np.asarray(own[word]))) for word in self.laws)
        return value if not np.isnan(value) else -np.inf

    def _slopes(self, x: np.ndarray, theta: np.ndarray) -> list[np.ndarray]:
        """Of the log density of each row, by each parameter that is learned."""
        own = {**self.known, **dict(zip(self.learned, theta, strict=True))}
        names = _names(self.name)
        with np.errstate(all="ignore"):
            slopes = _maths(self.name).slopes(x, *(own[word] for word in names))[1:]
        return [np.broadcast_to(np.asarray(slopes[names.index(word)]), x.shape) for word in self.learned]

    def _slope(self, x: np.ndarray, weights: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Of :meth:`height`."""
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
        found = _newton(objective, np.clip(begin, *ends.T), ends)
        if to_the_top and np.abs(objective(found)[1]).max() > _FLAT:
            # At a kink there is no slope to follow.
            options = {"maxiter": 300, "fatol": 1e-12, "xatol": 1e-9}
            found = minimize(lambda u: objective(u)[0], found, method="Nelder-Mead", options=options).x
        end = theta(found)
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
                out[i] = low + (out[i] - low) % (2 * np.pi)  # the turn that the prior allows
        return out

    def _guesses(self, points: np.ndarray) -> list[np.ndarray]:
        """From a grid of numbers that such parameters often are the best with each of these numbers."""
        grid = [_usual(points, *interval(self.name, word)) for word in self.learned]
        guesses = np.array(list(product(*grid)))
        own: dict[str, Any] = {**self.known, **{word: guesses[:, i] for i, word in enumerate(self.learned)}}
        with np.errstate(all="ignore"):
            density = _maths(self.name).log_density(points[:, None], *(own[word] for word in _names(self.name)))
            total = np.sum(np.broadcast_to(density, (len(points), len(guesses))), axis=0)
        total = np.nan_to_num(total, nan=-np.inf, posinf=-np.inf)
        chosen = {int(np.argmax(total))}
        for i, values in enumerate(grid):
            chosen |= {int(np.argmax(np.where(guesses[:, i] == value, total, -np.inf))) for value in values}
        return [guesses[n] for n in sorted(chosen) if np.isfinite(total[n])] or [guesses[int(np.argmax(total))]]

    def units(self, x: np.ndarray, weights: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """1 / √ of what a row tells on average of each parameter, the others held: the mean of its squared slope."""
        total = np.maximum(weights.sum(), 1e-300)
        with np.errstate(over="ignore"):
            squares = np.array(
                [np.sum(weights * np.nan_to_num(terms) ** 2) / total for terms in self._slopes(x, theta)]
            )
        good = (squares > 0) & np.isfinite(squares)
        return np.where(good, np.where(good, squares, 1.0) ** -0.5, 1.0)


def _quantiles(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Some values that stand for all."""
    order = np.argsort(x, kind="stable")
    before = np.cumsum(weights[order]) / weights.sum()
    places = np.searchsorted(before, (np.arange(_QUANTILES) + 0.5) / _QUANTILES)
    return np.asarray(x[order][np.minimum(places, len(x) - 1)])


def _usual(points: np.ndarray, low: float, high: float) -> list[float]:
    """Numbers that a parameter between these ends often is, for such data."""
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
    """Downhill by Newton steps, the curvature from differences of slopes; where it bends the wrong way, mirrored."""
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
    """Between the values of a parameter and any number of order one."""

    low: float
    high: float
    centre: float
    unit: float

    @property
    def bounds(self) -> tuple[float, float]:
        if np.isinf(self.low) and np.isinf(self.high):
            return -np.inf, np.inf
        if np.isinf(self.low) or np.isinf(self.high):
            return -_REACH, _REACH
        return -30.0, 30.0

    @property
    def _apart(self) -> float:
        """What distances from a single end are measured in."""
        end = self.low if np.isfinite(self.low) else self.high
        return abs(self.centre - end) or 1.0

    def place(self, value: float) -> float:
        if np.isinf(self.low) and np.isinf(self.high):
            return (value - self.centre) / self.unit
        if np.isinf(self.high) or np.isinf(self.low):
            apart = value - self.low if np.isinf(self.high) else self.high - value
            return float(np.clip(np.log(max(apart, 1e-300) / self._apart), -_REACH, _REACH))
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
