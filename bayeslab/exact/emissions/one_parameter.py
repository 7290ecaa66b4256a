"""Columns with one parameter each: Bernoulli, binomial, Poisson, exponential."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import ClassVar, Self

import numpy as np
from scipy.special import betaln, digamma, gammaln

from bayeslab.distributions import bernoulli, binomial, exponential, poisson
from bayeslab.errors import OptionError
from bayeslab.exact.emissions.cells import (
    check_shape,
    check_values,
    column_means,
    impossible,
    observed,
    prior_of,
    ratio,
    safe_log,
    scaled,
)
from bayeslab.exact.emissions.protocol import ConjugateEmission, Parameters, Statistics

__all__ = ["Bernoulli", "Binomial", "Exponential", "Poisson"]


class _OneParameter(ConjugateEmission):
    """Columns that are independent with one parameter each and a conjugate prior (a, b).

    A cell counts with ``won`` and ``base``: log p = won · f(θ) + base · g(θ) + h(x). What columns can be, and draws,
    are those of :mod:`bayeslab.distributions`.
    """

    distribution: ClassVar[ModuleType]
    values: ClassVar[str]

    n_columns: int
    prior: tuple[np.ndarray | float, np.ndarray | float] | None
    name: str

    def check(self, rows: np.ndarray) -> None:
        check_shape(rows, self.n_columns)
        declaration = self.distribution.DECLARATION
        interval = declaration.domain.values
        good = ~interval.outside(rows, float(interval.low), float(interval.high))
        whole = rows == np.floor(rows) if declaration.discrete else True
        check_values(rows, good & whole, self.values)

    def counted(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def _logs(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """f(θ) and g(θ)."""
        raise NotImplementedError

    def _expected_logs(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def _log_normaliser(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _ml(self, won: np.ndarray, base: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _mode(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _draw(self, rng: np.random.Generator, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def log_base(self, rows: np.ndarray) -> np.ndarray:
        return np.zeros(len(rows))

    def log_density(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray:
        won, base = self.counted(rows)
        f, g = self._logs(parameters[self.name])
        return impossible(won @ f.T + base @ g.T + self.log_base(rows)[:, None])

    def statistics(
        self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Parameters | None = None
    ) -> Statistics:
        won, base = self.counted(rows)
        return {"won": responsibilities.T @ won, "base": responsibilities.T @ base}

    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        won, base = statistics["won"], statistics["base"]
        if self.prior is None:
            return {self.name: self._ml(won, base)}
        return {self.name: self._mode(self.prior[0] + won, self.prior[1] + base)}

    def expected_log_likelihood(self, statistics: Statistics, parameters: Parameters) -> float:
        f, g = self._logs(parameters[self.name])
        return float(np.sum(statistics["won"] * f + statistics["base"] * g))

    def log_prior(self, parameters: Parameters) -> float:
        if self.prior is None:
            return 0.0
        f, g = self._logs(parameters[self.name])
        a, b = self._exponents()
        # 0 · log 0 is 0 here because the logarithm of zero is finite.
        return float(np.sum(a * f + b * g))

    def _exponents(self) -> tuple[np.ndarray | float, np.ndarray | float]:
        assert self.prior is not None
        return np.asarray(self.prior[0]) - 1, np.asarray(self.prior[1])

    def n_free(self, n_states: int) -> int:
        return n_states * self.n_columns

    def sample(self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray) -> np.ndarray:
        theta = parameters[self.name][states]
        return np.asarray(self.distribution.draw(rng, theta.shape, theta), dtype=float)

    def degenerate(self, parameters: Parameters, variances: np.ndarray) -> np.ndarray:
        return ~np.isfinite(parameters[self.name]).all(axis=1)

    def features(self, rows: np.ndarray) -> np.ndarray:
        return scaled(rows)

    def posterior(self, statistics: Statistics) -> tuple[np.ndarray, np.ndarray]:
        prior = prior_of(self)
        return prior[0] + statistics["won"], prior[1] + statistics["base"]

    def draw(self, rng: np.random.Generator, statistics: Statistics) -> Parameters:
        return {self.name: self._draw(rng, *self.posterior(statistics))}

    def expected_log_density(self, statistics: Statistics, rows: np.ndarray) -> np.ndarray:
        won, base = self.counted(rows)
        f, g = self._expected_logs(*self.posterior(statistics))
        return won @ f.T + base @ g.T + self.log_base(rows)[:, None]

    def log_marginal(self, statistics: Statistics) -> np.ndarray:
        a, b = self.posterior(statistics)
        before = (np.broadcast_to(p, a.shape) for p in prior_of(self))
        return (self._log_normaliser(a, b) - self._log_normaliser(*before)).sum(axis=1)


class _Proportion(_OneParameter):
    """Probabilities with Beta(a, b) priors; ``won`` successes, ``base`` failures."""

    name = "probability"

    def _logs(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return safe_log(theta), safe_log(1 - theta)

    def _expected_logs(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)

    def _log_normaliser(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return betaln(a, b)

    def _ml(self, won: np.ndarray, base: np.ndarray) -> np.ndarray:
        return ratio(won, won + base, 0.5)

    def _mode(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self._ml(np.maximum(a - 1, 0.0), np.maximum(b - 1, 0.0))

    def _exponents(self) -> tuple[np.ndarray | float, np.ndarray | float]:
        assert self.prior is not None
        return np.asarray(self.prior[0]) - 1, np.asarray(self.prior[1]) - 1

    def _draw(self, rng: np.random.Generator, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return rng.beta(a, b)


class _Rate(_OneParameter):
    """Rates with Gamma(a, b) priors; log p = won · log θ - base · θ + h(x)."""

    name = "rate"

    def _logs(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return safe_log(theta), -theta

    def _expected_logs(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return digamma(a) - np.log(b), -a / b

    def _log_normaliser(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return gammaln(a) - a * np.log(b)

    def _ml(self, won: np.ndarray, base: np.ndarray) -> np.ndarray:
        return ratio(won, base, 1.0)

    def _mode(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.maximum(a - 1, 0.0) / b

    def _draw(self, rng: np.random.Generator, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return rng.gamma(a) / b


@dataclass(frozen=True, eq=False)
class Bernoulli(_Proportion):
    """Columns of 0 and 1. Parameter ``probability`` (K, d); prior Beta (a, b)."""

    n_columns: int
    prior: tuple[np.ndarray | float, np.ndarray | float] | None = None

    distribution: ClassVar[ModuleType] = bernoulli
    values = "Bernoulli columns hold 0 and 1"

    def counted(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        filled, seen = observed(rows)
        return filled, seen - filled

    def with_prior(self, rows: np.ndarray, n_states: int) -> Self:
        return replace(self, prior=(1.0, 1.0))


@dataclass(frozen=True, eq=False)
class Binomial(_Proportion):
    """Columns of successes in so many ``trials`` each. Parameter ``probability`` (K, d); prior Beta (a, b).

    With ``trials`` None the rows have 2 d columns: d of successes, then their d numbers of trials.
    """

    distribution: ClassVar[ModuleType] = binomial
    values = "successes are whole numbers from 0 to the number of trials"

    n_outcomes: int
    trials: int | tuple[int, ...] | None
    prior: tuple[np.ndarray | float, np.ndarray | float] | None = None

    @property
    def n_columns(self) -> int:  # type: ignore[override]
        return self.n_outcomes * (2 if self.trials is None else 1)

    def _cells(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        won = rows[:, : self.n_outcomes]
        trials = rows[:, self.n_outcomes :] if self.trials is None else np.asarray(self.trials, float)
        return won, np.broadcast_to(trials, won.shape)

    def check(self, rows: np.ndarray) -> None:
        check_shape(rows, self.n_columns)
        won, trials = self._cells(rows)
        good = (won >= 0) & (won <= trials) & (won == np.floor(won))
        check_values(won, good, self.values)

    def counted(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        won, trials = self._cells(rows)
        seen = ~(np.isnan(won) | np.isnan(trials))
        return np.where(seen, won, 0.0), np.where(seen, trials - won, 0.0)

    def log_base(self, rows: np.ndarray) -> np.ndarray:
        won, lost = self.counted(rows)
        return (gammaln(won + lost + 1) - gammaln(won + 1) - gammaln(lost + 1)).sum(axis=1)

    def n_free(self, n_states: int) -> int:
        return n_states * self.n_outcomes

    def with_prior(self, rows: np.ndarray, n_states: int) -> Self:
        return replace(self, prior=(1.0, 1.0))

    def sample(self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray) -> np.ndarray:
        if self.trials is None:
            raise OptionError("successes can only be simulated with fixed trials; give `trials`", code="incomplete")
        p = parameters["probability"][states]
        return np.asarray(binomial.draw(rng, p.shape, np.asarray(self.trials), p), dtype=float)


@dataclass(frozen=True, eq=False)
class Poisson(_Rate):
    """Columns of counts. Parameter ``rate`` (K, d); prior Gamma (shape, rate)."""

    n_columns: int
    prior: tuple[np.ndarray | float, np.ndarray | float] | None = None

    distribution: ClassVar[ModuleType] = poisson
    values = "counts are whole numbers from 0"

    def counted(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return observed(rows)

    def log_base(self, rows: np.ndarray) -> np.ndarray:
        return -gammaln(observed(rows)[0] + 1).sum(axis=1)

    def with_prior(self, rows: np.ndarray, n_states: int) -> Self:
        mean = column_means(rows)
        return replace(self, prior=(1.0, 1 / np.where(mean > 0, mean, 1.0)))


@dataclass(frozen=True, eq=False)
class Exponential(_Rate):
    """Columns of positive times. Parameter ``rate`` (K, d); prior Gamma (shape, rate)."""

    n_columns: int
    prior: tuple[np.ndarray | float, np.ndarray | float] | None = None

    distribution: ClassVar[ModuleType] = exponential
    values = "times are not negative"

    def counted(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        filled, seen = observed(rows)
        return seen, filled

    def degenerate(self, parameters: Parameters, variances: np.ndarray) -> np.ndarray:
        """A component on zeros alone has an infinite rate."""
        return ~(1e9 / np.sqrt(np.maximum(variances, 1e-300)) > parameters["rate"]).all(axis=1)

    def _ml(self, won: np.ndarray, base: np.ndarray) -> np.ndarray:
        return np.where(won > 0, ratio(won, base, np.inf), 1.0)

    def with_prior(self, rows: np.ndarray, n_states: int) -> Self:
        mean = column_means(rows)
        return replace(self, prior=(1.0, np.where(mean > 0, mean, 1.0)))

    def features(self, rows: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            logs = np.log(rows)
        return scaled(np.where(np.isfinite(logs), logs, np.nan))
