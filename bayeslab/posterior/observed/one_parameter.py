"""Columns with one parameter each: Bernoulli and binomial (``probability``), Poisson and exponential (``rate``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.data.weak_priors import shown
from bayeslab.exact.emissions.cells import safe_log
from bayeslab.posterior.observed.given_priors import CellwisePart
from bayeslab.posterior.observed.prior import PARAMETERS
from bayeslab.posterior.observed.prior_variables import across

__all__ = ["OneParameter"]


@dataclass(frozen=True, eq=False, kw_only=True)
class OneParameter(CellwisePart):
    """Counts, proportions, waiting times; see :class:`bayeslab.posterior.observed.part.StatePart`.

    The numbers of trials of a binomial column are one number, or a column beside it.
    """

    @property
    def parameters(self) -> tuple[str, ...]:
        return PARAMETERS[self.word]

    @property
    def is_rate(self) -> bool:
        return self.parameters == ("rate",)

    @property
    def discrete(self) -> bool:
        return self.word != "exponential"

    def sample(
        self, rng: np.random.Generator, theta: Mapping[str, Any], states: np.ndarray, given: np.ndarray
    ) -> np.ndarray:
        if self.given_at:
            return rng.binomial(given.astype(int), theta["probability"][states]).astype(float)
        return super().sample(rng, theta, states, given)

    # ------------------------------------------------------------------ EM

    def expected_cells(self, statistics: Mapping[str, np.ndarray], theta: Mapping[str, np.ndarray]) -> np.ndarray:
        (value,) = theta.values()
        second = -value if self.is_rate else safe_log(1 - value)
        return np.asarray(statistics["won"] * safe_log(value) + statistics["base"] * second)

    def default_log_density(self, name: str, values: Mapping[str, np.ndarray]) -> np.ndarray:
        value = values[name]
        a, b = (across(p, value.shape, last=True) for p in self.emission.prior)
        second = -b * value if self.is_rate else (b - 1) * safe_log(1 - value)
        return np.asarray((a - 1) * safe_log(value) + second)

    # ------------------------------------------------------------------ PyMC

    def default_prior(self, name: str) -> str:
        if name in self.priors:
            return self.priors[name].text
        a, b = self.emission.prior
        return f"{'Gamma' if self.is_rate else 'Beta'}({shown(a)}, {shown(b)})"

    def default_variable(self, name: str, made: Mapping[str, Any]) -> Any:
        import pymc as pm

        shape, start = self.shape(name), self.start.get(name)
        a, b = (across(p, shape, last=True) for p in self.emission.prior)
        if self.is_rate:
            begin = None if start is None else np.maximum(start, 1e-3 * a / b)
            return pm.Gamma(name, a, b, dims=self.dims(name), initval=begin)
        begin = None if start is None else np.clip(start, 0.01, 0.99)
        return pm.Beta(name, a, b, dims=self.dims(name), initval=begin)

    def density(self, values: Mapping[str, Any], rows: np.ndarray) -> Any:
        import pytensor.tensor as pt

        rows = rows[:, list(self.at)]
        won, base = self.emission.counted(rows)
        theta = values[self.names[0]]
        theta = theta.T if theta.ndim == 2 else theta[None, :]
        second = -theta if self.is_rate else pt.log1p(-theta)
        return pt.dot(won, pt.log(theta)) + pt.dot(base, second) + self.emission.log_base(rows)[:, None]

    def drawn_column(self, theta: Mapping[str, Any], rows: np.ndarray) -> Any:
        import pymc as pm

        (value,) = theta.values()
        match self.word:
            case "poisson":
                return pm.Poisson.dist(value, shape=len(rows))
            case "exponential":
                return pm.Exponential.dist(value, shape=len(rows))
            case "bernoulli":
                return pm.Bernoulli.dist(p=value, shape=len(rows))
        trials = rows[:, self.given_at[0]].astype(int) if self.given_at else self.emission.trials
        return pm.Binomial.dist(trials, value, shape=len(rows))
