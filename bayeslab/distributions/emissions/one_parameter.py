"""Columns with one unknown parameter that has a conjugate prior: counts, proportions, waiting times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from bayeslab.distributions import DISTRIBUTIONS, Conjugate, Distribution, conjugate, maths
from bayeslab.distributions.emissions.cells import (
    check_beside,
    check_numbers,
    check_shape,
    prior_of,
    scaled,
    sums_by_state,
)
from bayeslab.distributions.emissions.protocol import ConjugateEmission, Parameters, Statistics
from bayeslab.distributions.toolbox.conjugate_pairs import PAIRS, Pair
from bayeslab.distributions.toolbox.logarithms import impossible, ratio
from bayeslab.errors import OptionError

__all__ = ["OneParameter"]

type Prior = tuple[np.ndarray | float, np.ndarray | float]


@dataclass(frozen=True, eq=False)
class OneParameter(ConjugateEmission):
    """Columns that are independent given the state, with one unknown parameter each.

    The parameter, (K, d), is a ``probability`` with a Beta(a, b) prior or a ``rate`` with a Gamma(a, b) prior, as the
    distribution declares. Each cell has the counts ``won`` and ``base``, which the posterior adds to a and b.

    Parameters
    ----------
    distribution : str
        PyMC's name of a distribution with a conjugate parameter: Bernoulli, Binomial, Poisson, Exponential, Geometric.
    n_outcomes : int
        Number of outcome columns, d.
    prior : tuple of (float or ndarray), optional
        (a, b), in shapes that broadcast to (K, d).
    known : mapping of str to (float or ndarray)
        The distribution's other parameters by PyMC's names, in shapes that broadcast to (N, d). Each parameter left out
        is given by d further columns of the rows.
    """

    distribution: str
    n_outcomes: int
    prior: Prior | None = None
    known: Mapping[str, np.ndarray | float] = field(default_factory=dict)

    @cached_property
    def declaration(self) -> Distribution:
        return DISTRIBUTIONS[self.distribution]

    @cached_property
    def conjugate(self) -> Conjugate:
        """The conjugate parameter, and the contribution of each cell to its posterior."""
        declared = conjugate(self.distribution)
        assert declared is not None
        return declared

    @property
    def pair(self) -> Pair:
        """The closed forms of the prior."""
        return PAIRS[self.conjugate.prior]

    @property
    def name(self) -> str:
        """``probability`` or ``rate``."""
        return self.pair.parameter

    @property
    def kinds(self) -> dict[str, str]:
        return {self.name: self.pair.kind}

    @cached_property
    def beside(self) -> tuple[str, ...]:
        """Other parameters that are columns of the rows."""
        return tuple(word for word in self.conjugate.needed if word not in self.known)

    @property
    def n_columns(self) -> int:
        return self.n_outcomes * (1 + len(self.beside))

    def _others(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """The distribution's other parameters, by PyMC's names."""
        d = self.n_outcomes
        known = {word: np.asarray(value, float) for word, value in self.known.items()}
        return known | {word: rows[:, (i + 1) * d : (i + 2) * d] for i, word in enumerate(self.beside)}

    def _cells(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Outcomes, indicators of observed ones, and the other parameters; missing outcomes get some possible
        value.
        """
        outcomes, others = rows[:, : self.n_outcomes], self._others(rows)
        present = ~np.isnan(outcomes)
        for word in self.beside:
            present &= ~np.isnan(others[word])
        if not present.all():
            values = self.declaration.domain.values
            some = 0.0 if values.low == 0 and not values.open_low else 1.0
            outcomes = np.where(present, outcomes, some)
            others |= {word: np.where(present, others[word], some) for word in self.beside}
        return outcomes, present, others

    def check(self, rows: np.ndarray) -> None:
        check_shape(rows, self.n_columns)
        outcomes, others = rows[:, : self.n_outcomes], self._others(rows)
        for i, word in enumerate(self.beside):
            check_beside(word, outcomes, others[word], (i + 1) * self.n_outcomes)
        check_numbers(self.declaration, outcomes, others)

    def counted(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Contribution of each cell to the prior's parameters, (N, d) and (N, d)."""
        return self._counts(*self._cells(rows))

    def _counts(
        self, outcomes: np.ndarray, present: np.ndarray, others: Mapping[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        assert self.conjugate.counts is not None
        won, base = (np.broadcast_to(each, outcomes.shape) for each in self.conjugate.counts(outcomes, **others))
        return (won, base) if present.all() else (np.where(present, won, 0.0), np.where(present, base, 0.0))

    def log_base(self, rows: np.ndarray) -> np.ndarray:
        return self._rest(*self._cells(rows))

    def _rest(self, outcomes: np.ndarray, present: np.ndarray, others: Mapping[str, np.ndarray]) -> np.ndarray:
        assert self.conjugate.rest is not None
        rest = self.conjugate.rest(outcomes, **others)
        if np.ndim(rest) == 0 and rest == 0:
            return np.zeros(len(outcomes))
        return np.asarray((rest if present.all() else np.where(present, rest, 0.0)).sum(axis=1))

    def log_density(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray:
        return impossible(self._weighted(rows, *self.pair.logs(parameters[self.name])))

    def _weighted(self, rows: np.ndarray, f: np.ndarray, g: np.ndarray) -> np.ndarray:
        """Log densities of rows, (N, K), from f(θ) and g(θ), (K, d)."""
        cells = self._cells(rows)
        won, base = self._counts(*cells)
        return np.asarray(won @ f.T + base @ g.T + self._rest(*cells)[:, None])

    def statistics(
        self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Parameters | None = None
    ) -> Statistics:
        won, base = self.counted(rows)
        return {"won": responsibilities.T @ won, "base": responsibilities.T @ base}

    def statistics_of_states(self, rows: np.ndarray, states: np.ndarray, n_states: int) -> Statistics:
        won, base = self.counted(rows)
        return {"won": sums_by_state(won, states, n_states), "base": sums_by_state(base, states, n_states)}

    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        won, base = statistics["won"], statistics["base"]
        if self.prior is None:
            return {self.name: self.pair.most_likely(won, base)}
        return {self.name: self.pair.mode(self.prior[0] + won, self.prior[1] + base)}

    def expected_log_likelihood(self, statistics: Statistics, parameters: Parameters) -> float:
        f, g = self.pair.logs(parameters[self.name])
        return float(np.sum(statistics["won"] * f + statistics["base"] * g))

    def log_prior(self, parameters: Parameters) -> float:
        if self.prior is None:
            return 0.0
        return float(np.sum(self.pair.log_density(parameters[self.name], *self.prior)))

    def n_free(self, n_states: int) -> int:
        return n_states * self.n_outcomes

    def with_prior(self, rows: np.ndarray, n_states: int) -> Self:
        """The emission with a uniform prior of probabilities, or an exponential prior of rates around the fit of
        all rows.
        """
        if self.pair.uniform is not None:
            return replace(self, prior=self.pair.uniform)
        won, base = (total.sum(axis=0) for total in self.counted(rows))
        rate = ratio(won, base, 0.0)
        return replace(self, prior=(1.0, 1 / np.where(rate > 0, rate, 1.0)))

    def degenerate(self, parameters: Parameters, variances: np.ndarray) -> np.ndarray:
        """States with an infinite parameter, or with times that are all zero relative to the columns' spread."""
        value = parameters[self.name]
        if self.declaration.discrete:
            return ~np.isfinite(value).all(axis=1)
        return ~(1e9 / np.sqrt(np.maximum(variances[: self.n_outcomes], 1e-300)) > value).all(axis=1)

    def sample(self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray) -> np.ndarray:
        if self.beside:
            raise OptionError(
                f"{self.distribution} columns can only be simulated with fixed {', '.join(self.beside)}: give the"
                " numbers (`trials`)",
                code="incomplete",
            )
        return self.sample_given(rng, parameters, states, {})

    def sample_given(
        self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray, others: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Outcomes drawn from given states, given the parameters that are columns of the rows."""
        functions = maths(self.distribution)
        assert functions is not None
        theta = parameters[self.name][states]
        given = functions.canonical(**{self.conjugate.parameter: theta}, **self.known, **others)
        return np.asarray(functions.draw(rng, theta.shape, *given), dtype=float)

    def features(self, rows: np.ndarray) -> np.ndarray:
        if self.declaration.discrete:
            return scaled(rows)
        with np.errstate(divide="ignore"):
            logs = np.log(rows)
        return scaled(np.where(np.isfinite(logs), logs, np.nan))

    # ------------------------------------------------------------------ conjugate

    def posterior(self, statistics: Statistics) -> tuple[np.ndarray, np.ndarray]:
        """a and b of each state."""
        prior = prior_of(self)
        return prior[0] + statistics["won"], prior[1] + statistics["base"]

    def draw(self, rng: np.random.Generator, statistics: Statistics) -> Parameters:
        return {self.name: self.pair.draw(rng, *self.posterior(statistics))}

    def expected_log_density(self, statistics: Statistics, rows: np.ndarray) -> np.ndarray:
        return self._weighted(rows, *self.pair.expected_logs(*self.posterior(statistics)))

    def log_marginal(self, statistics: Statistics) -> np.ndarray:
        a, b = self.posterior(statistics)
        before = (np.broadcast_to(p, a.shape) for p in prior_of(self))
        return np.asarray((self.pair.log_normaliser(a, b) - self.pair.log_normaliser(*before)).sum(axis=1))
