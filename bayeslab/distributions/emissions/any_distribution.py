r"""Columns of any univariate distribution, with parameters for each state.

Log density and derivatives come from :mod:`bayeslab.distributions`. The M-step has a closed form if the one unknown
parameter has a conjugate prior; otherwise it is a search (:mod:`bayeslab.distributions.toolbox.parameter_search`) that
never ends below its start, which keeps EM monotone [1]_. Weak priors are centred at the distribution that fits all rows
(:func:`bayeslab.distributions.toolbox.law.weak_law`): unit-information priors [2]_, twice as wide.

References
----------
.. [1] Dempster, Laird, Rubin (1977). Maximum likelihood from incomplete data via the EM algorithm. J. Royal Statistical
   Society B 39, 1-38 (generalised EM).
.. [2] Kass, Wasserman (1995). A reference Bayesian test for nested hypotheses and its relationship to the Schwarz
   criterion. J. American Statistical Association 90, 928-934.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from bayeslab.distributions import DISTRIBUTIONS, Distribution, Law
from bayeslab.distributions.emissions.cells import (
    check_numbers,
    check_shape,
    column_means,
    observed,
    renumbered,
    scaled,
)
from bayeslab.distributions.emissions.protocol import Emission, Parameters, Statistics
from bayeslab.distributions.toolbox.law import weak_law
from bayeslab.distributions.toolbox.parameter_search import REACH, ParameterSearch, counted_values
from bayeslab.distributions.toolbox.parameters import interval, never_learned_defaults, somewhere, usable
from bayeslab.distributions.toolbox.table import density_parameters, ends, functions

__all__ = ["AnyDistribution"]

_KINDS = {(0.0, np.inf): "positive", (0.0, 1.0): "unit"}


@dataclass(frozen=True, eq=False)
class AnyDistribution(Emission):
    """Columns that are independent given the state, all with the same distribution.

    Parameters are those of the distribution's log density, by PyMC's names, (K, d) each.

    Parameters
    ----------
    name : str
        PyMC's name.
    n_columns : int
    known : mapping of str to ndarray
        Parameters that are known, in shapes that broadcast to (K, d).
    prior : mapping of str to Law, optional
        Prior of every other parameter.
    typical : mapping of str to (ndarray (d,), ndarray (d,))
        For every other parameter the value that fits all rows, and its standard error from one row.

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
        defaults = never_learned_defaults(self.name)
        known = {word: np.asarray(defaults[word]) for word in names if word in defaults and word not in self.known}
        object.__setattr__(self, "known", known | {k: np.asarray(v, float) for k, v in self.known.items()})

    @property
    def declaration(self) -> Distribution:
        return DISTRIBUTIONS[self.name]

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Names of all parameters."""
        return density_parameters(self.name)

    @cached_property
    def learned(self) -> tuple[str, ...]:
        """Names of the parameters that are not known."""
        return tuple(word for word in self.parameters if word not in self.known)

    @property
    def fixed_parameters(self) -> tuple[str, ...]:
        """Names of the known parameters."""
        return tuple(self.known)

    @cached_property
    def kinds(self) -> dict[str, str]:
        kinds = {word: _KINDS.get(interval(self.name, word)) for word in self.learned}
        return {word: kind for word, kind in kinds.items() if kind is not None}

    # ------------------------------------------------------------------ rows

    def check(self, rows: np.ndarray) -> None:
        check_shape(rows, self.n_columns)
        domain = self.declaration.domain
        for j in range(self.n_columns):
            x, ends = rows[:, [j]], {"low": domain.values.low, "high": domain.values.high}
            # If the ends differ between states, use the widest support.
            widest = {"low": np.min, "high": np.max}
            known = {word: widest[end](self._column(word, j)) for end, word in ends.items() if isinstance(word, str)}
            # At such an end the density is zero or infinite.
            at = {end: known[word] if isinstance(word, str) else word for end, word in ends.items()}
            lost = [x == at[end] for end, (word, _) in domain.bounded_by.items() if word in self.learned]
            with renumbered([j]):
                check_numbers(self.declaration, x, known, excluded=np.any(lost, axis=0))

    def features(self, rows: np.ndarray) -> np.ndarray:
        if self.declaration.angles:
            # The two ends of the circle are the same point.
            return scaled(np.hstack([np.cos(rows), np.sin(rows)]))
        values = self.declaration.domain.values
        if values.low == 0 and values.high == np.inf:
            middle = column_means(rows)
            return scaled(np.log1p(rows / np.where(middle > 0, middle, 1.0)))
        return scaled(rows)

    def log_density(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray:
        filled, present = observed(rows)
        out: Any = 0.0
        values = self.declaration.domain.values
        for j in range(self.n_columns):
            # Replace missing values by any value in the support; they contribute nothing.
            x = np.where(present[:, j] > 0, filled[:, j], np.nan)
            with np.errstate(all="ignore"):
                given = [np.broadcast_to(parameters[word], self._shape(parameters))[:, j] for word in self.parameters]
                terms = functions(self.name).log_density(x[:, None], *given)
            # The ends may differ between states.
            terms = np.where(values.outside(x[:, None], *ends(self.name, given)), -np.inf, terms)
            out = out + np.where(present[:, j, None] > 0, terms, 0.0)
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
            x, weights = counted_values(rows[:, j], belonging, discrete=self.declaration.discrete)
            for k in range(shape[0]):
                cell = self._cell(k, j)
                start = None if parameters is None else np.array([parameters[word][k, j] for word in self.learned])
                for word, value in zip(self.learned, cell.best(x, weights[:, k], start), strict=True):
                    turned = self._turns(word) and abs(value) > np.pi
                    out[word][k, j] = (value + np.pi) % (2 * np.pi) - np.pi if turned else value
        return out

    def _turns(self, word: str) -> bool:
        """Whether a parameter is periodic, together with its prior."""
        law = self.prior[word] if self.prior is not None else None
        return word in self.declaration.angles and (law is None or bool(DISTRIBUTIONS[law.name].angles))

    def _cell(self, k: int, j: int) -> ParameterSearch:
        """The problem of one column in one state."""

        laws = {}
        if self.prior is not None:
            for word in self.learned:
                law = self.prior[word]
                laws[word] = Law(law.name, {name: _one(value, k, j) for name, value in law.given.items()})
        typical = {word: (float(c[j]), float(u[j])) for word, (c, u) in self.typical.items()}
        return ParameterSearch(self.name, self.learned, self._known(k, j), laws, typical)

    def _known(self, k: int, j: int) -> dict[str, float]:
        return {word: float(_one(value, k, j)) for word, value in self.known.items()}

    def limits(self, statistics: Statistics, parameters: Parameters) -> dict[str, np.ndarray]:
        """Whether each element of a parameter, (K, d), is at a limit along a ridge: see `ParameterSearch.on_ridge`."""
        rows, belonging = statistics["rows"], statistics["belonging"]
        shape = (belonging.shape[1], self.n_columns)
        out = {word: np.zeros(shape, bool) for word in self.learned}
        for j in range(self.n_columns):
            x, weights = counted_values(rows[:, j], belonging, discrete=self.declaration.discrete)
            for k in range(shape[0]):
                cell, theta = self._cell(k, j), np.array([parameters[word][k, j] for word in self.learned])
                for i, word in enumerate(self.learned):
                    out[word][k, j] = cell.on_ridge(x, weights[:, k], theta, i)
        return out

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
        """The emission with weak priors centred at the fit of all rows; existing priors are kept."""
        typical: dict[str, tuple[np.ndarray, np.ndarray]] = {
            word: (np.empty(self.n_columns), np.empty(self.n_columns)) for word in self.learned
        }
        for j in range(self.n_columns if self.learned else 0):
            x, weights = counted_values(rows[:, j], np.ones((len(rows), 1)), discrete=self.declaration.discrete)
            if not len(x):
                # Without data or a scale, only existing priors apply to such a column.
                for word in self.learned:
                    typical[word][0][j], typical[word][1][j] = somewhere(self.name, word), 1.0
                continue
            cell = self._pooled(j)
            centre = cell.allowed(x, weights[:, 0], cell.best(x, weights[:, 0], None))
            for word, value, unit in zip(self.learned, centre, cell.units(x, weights[:, 0], centre), strict=True):
                typical[word][0][j], typical[word][1][j] = value, unit
        laws = {word: weak_law(self.name, word, *typical[word]) for word in self.learned}
        return replace(self, prior=laws | dict(self.prior or {}), typical=typical)

    def _column(self, word: str, j: int) -> np.ndarray:
        """What is known of a parameter in a column, of one state or of each."""
        value = np.atleast_2d(self.known[word])
        return np.asarray(value[:, _place(value, 1, j)])

    def _pooled(self, j: int) -> ParameterSearch:
        # If known values differ between states, use their middle.
        known = {word: float(np.mean(self._column(word, j))) for word in self.known}
        return ParameterSearch(self.name, self.learned, known, {}, {})

    def degenerate(self, parameters: Parameters, variances: np.ndarray) -> np.ndarray:
        """States with an unbounded likelihood: equal rows under a density."""
        k = self._shape(parameters)[0]
        out = np.zeros(k, bool)
        for word in self.learned:
            out |= ~np.isfinite(parameters[word]).all(axis=1)
            if not self.declaration.discrete and interval(self.name, word) == (0.0, np.inf) and word in self.typical:
                apart = np.abs(np.log(parameters[word]) - np.log(self.typical[word][0]))
                out |= (apart > 0.99 * REACH).any(axis=1)
        return out

    def sample(self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray) -> np.ndarray:
        given = [np.broadcast_to(parameters[word], self._shape(parameters))[states] for word in self.parameters]
        size = (len(states), self.n_columns)
        return np.asarray(functions(self.name).draw(rng, size, *given), float)


def _place(value: np.ndarray, axis: int, at: int) -> int:
    """Where an element is of an array that broadcasts to (K, d)."""
    return min(at, np.atleast_2d(value).shape[axis] - 1)


def _one(value: np.ndarray, k: int, j: int) -> np.ndarray:
    """One element of an array that broadcasts to (K, d)."""
    return np.asarray(np.atleast_2d(value)[_place(value, 0, k), _place(value, 1, j)])
