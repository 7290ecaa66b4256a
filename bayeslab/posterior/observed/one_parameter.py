"""Columns with one parameter each: Bernoulli and binomial (``probability``), Poisson and exponential (``rate``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.data.weak_priors import shown
from bayeslab.distributions import emissions, pymc_class
from bayeslab.language.writer import Writer
from bayeslab.posterior.observed.given_priors import CellwisePart
from bayeslab.posterior.observed.prior import across

__all__ = ["OneParameter"]


@dataclass(frozen=True, eq=False, kw_only=True)
class OneParameter(CellwisePart):
    """Counts, proportions, waiting times; see :class:`bayeslab.posterior.observed.part.StatePart`.

    The number of trials of a binomial column is a constant or another column.
    """

    emission: emissions.OneParameter

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.emission.name,)

    @property
    def discrete(self) -> bool:
        return self.emission.declaration.discrete

    def sample(
        self, rng: np.random.Generator, theta: Mapping[str, Any], states: np.ndarray, given: np.ndarray
    ) -> np.ndarray:
        return self.emission.sample_given(rng, theta, states, dict.fromkeys(self.emission.beside, given))

    # ------------------------------------------------------------------ EM

    def expected_cells(self, statistics: Mapping[str, np.ndarray], theta: Mapping[str, np.ndarray]) -> np.ndarray:
        f, g = self.emission.pair.logs(theta[self.emission.name])
        return np.asarray(statistics["won"] * f + statistics["base"] * g)

    def _prior(self, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        assert self.emission.prior is not None
        a, b = (across(p, shape, last=True) for p in self.emission.prior)
        return a, b

    def default_log_density(self, name: str, values: Mapping[str, np.ndarray]) -> np.ndarray:
        value = values[name]
        return np.asarray(self.emission.pair.log_density(value, *self._prior(value.shape)))

    # ------------------------------------------------------------------ PyMC

    def default_prior(self, name: str) -> str:
        if name in self.priors:
            return self.priors[name].text
        assert self.emission.prior is not None
        a, b = self.emission.prior
        return f"{self.emission.pair.name}({shown(a)}, {shown(b)})"

    def default_variable(self, writer: Writer, name: str, made: Mapping[str, Any]) -> Any:
        start = self.start.get(name)
        a, b = self._prior(self.shape(name))
        if start is not None:
            start = np.maximum(start, 1e-3 * a / b) if self.kind(name) == "positive" else np.clip(start, 0.01, 0.99)
        given = {"alpha": a, "beta": b}
        return writer.random(name, self.emission.pair.name, given, a.shape, dims=self.dims(name), start=start)

    def density(self, writer: Writer, values: Mapping[str, Any], rows: np.ndarray) -> Any:
        rows = rows[:, list(self.at)]
        won, base = self.emission.counted(rows)
        theta = values[self.names[0]]
        theta = theta.T if theta.ndim == 2 else theta[None, :]
        second = -theta if self.kind(self.names[0]) == "positive" else writer.ops.function("log1p")(-theta)
        sums = writer.dot(won, writer.log(theta)) + writer.dot(base, second)
        return sums + self.emission.log_base(rows)[:, None]

    def drawn_column(self, theta: Mapping[str, Any], rows: np.ndarray) -> Any:
        (value,) = theta.values()
        beside = {word: rows[:, at].astype(int) for word, at in zip(self.emission.beside, self.given_at, strict=True)}
        given = {self.emission.conjugate.parameter: value, **self.emission.known, **beside}
        return pymc_class(self.emission.distribution).dist(**given, shape=len(rows))
