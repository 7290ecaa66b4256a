"""Columns of categories: naive Bayes, latent classes, reported labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bayeslab import special
from bayeslab.distributions.emissions.cells import check_shape, check_values, prior_of
from bayeslab.distributions.emissions.protocol import ConjugateEmission, Parameters, Statistics
from bayeslab.distributions.toolbox.logarithms import impossible, ratio, safe_log

__all__ = ["Categorical"]


@dataclass(frozen=True, eq=False)
class Categorical(ConjugateEmission):
    """Columns of level codes 0 … L - 1, independent given the state (naive Bayes, latent class).

    Parameter ``probability`` (K, d, L), with L the largest number of levels; zero beyond a column's levels.
    The prior is one Dirichlet concentration for all levels, or an array (K, d, L) or (d, L).
    """

    levels: tuple[int, ...]
    prior: float | np.ndarray | None = None

    @property
    def n_columns(self) -> int:
        return len(self.levels)

    @property
    def kinds(self) -> dict[str, str]:
        return {"probability": "simplex"}

    def check(self, rows: np.ndarray) -> None:
        check_shape(rows, self.n_columns)
        good = (rows >= 0) & (rows < np.array(self.levels)) & (rows == np.floor(rows))
        check_values(rows, good, "level codes are 0, 1, … below the column's number of levels")

    def _used(self) -> np.ndarray:
        return np.arange(max(self.levels)) < np.array(self.levels)[:, None]

    def _codes(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        present = ~np.isnan(rows)
        return np.where(present, rows, 0.0).astype(np.int64), present

    def _sum(self, table: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Σ over observed cells of table[k, j, x_nj], (N, K)."""
        codes, present = self._codes(rows)
        out = np.zeros((len(rows), len(table)))
        for j in range(self.n_columns):
            out += np.where(present[:, j, None], table[:, j].T[codes[:, j]], 0.0)
        return out

    def log_density(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray:
        return impossible(self._sum(safe_log(parameters["probability"]), rows))

    def statistics(
        self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Parameters | None = None
    ) -> Statistics:
        codes, present = self._codes(rows)
        size, n_states = max(self.levels), responsibilities.shape[1]
        counts = np.zeros((n_states, self.n_columns, size))
        for j in range(self.n_columns):
            at = codes[present[:, j], j]
            for k in range(n_states):
                counts[k, j] = np.bincount(at, responsibilities[present[:, j], k], size)
        return {"counts": counts}

    def statistics_of_states(self, rows: np.ndarray, states: np.ndarray, n_states: int) -> Statistics:
        size = max(self.levels)
        counts = np.empty((n_states, self.n_columns, size))
        for j, column in enumerate(rows.T):
            present = ~np.isnan(column)
            cells = states[present] * size + column[present].astype(np.int64)
            counts[:, j] = np.bincount(cells, minlength=n_states * size).reshape(n_states, size)
        return {"counts": counts}

    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        counts = statistics["counts"]
        if self.prior is not None:
            counts = np.where(self._used(), np.maximum(counts + self.prior - 1, 0.0), 0.0)
        uniform = self._used() / np.array(self.levels)[:, None]
        return {"probability": ratio(counts, counts.sum(axis=-1, keepdims=True), uniform)}

    def expected_log_likelihood(self, statistics: Statistics, parameters: Parameters) -> float:
        return float(np.sum(statistics["counts"] * safe_log(parameters["probability"])))

    def log_prior(self, parameters: Parameters) -> float:
        if self.prior is None:
            return 0.0
        p = parameters["probability"]
        exponent = np.broadcast_to(np.asarray(self.prior, float) - 1, p.shape)
        used = np.broadcast_to(self._used(), p.shape) & (exponent != 0)
        return float(np.sum(exponent[used] * safe_log(p[used])))

    def n_free(self, n_states: int) -> int:
        return n_states * (sum(self.levels) - self.n_columns)

    def with_prior(self, rows: np.ndarray, n_states: int) -> Self:
        return replace(self, prior=1.0)

    def degenerate(self, parameters: Parameters, variances: np.ndarray) -> np.ndarray:
        return np.zeros(len(parameters["probability"]), bool)

    def sample(self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray) -> np.ndarray:
        cumulated = np.cumsum(parameters["probability"], axis=-1)[states]
        point = rng.random((len(states), self.n_columns, 1)) * cumulated[..., -1:]
        return (point >= cumulated).sum(axis=-1).astype(float)

    def features(self, rows: np.ndarray) -> np.ndarray:
        codes, present = self._codes(rows)
        parts = [np.eye(n)[codes[:, j]] * present[:, j, None] for j, n in enumerate(self.levels)]
        return np.concatenate(parts, axis=1)

    # ------------------------------------------------------------------ conjugate

    def concentration(self, statistics: Statistics) -> np.ndarray:
        """Dirichlet concentrations; 1 at unused levels so that gammas there are zero on both sides."""
        return np.where(self._used(), statistics["counts"] + prior_of(self), 1.0)

    def log_base(self, rows: np.ndarray) -> np.ndarray:
        return np.zeros(len(rows))

    def draw(self, rng: np.random.Generator, statistics: Statistics) -> Parameters:
        gammas = np.where(self._used(), rng.standard_gamma(self.concentration(statistics)), 0.0)
        return {"probability": gammas / gammas.sum(axis=-1, keepdims=True)}

    def expected_log_density(self, statistics: Statistics, rows: np.ndarray) -> np.ndarray:
        a = self.concentration(statistics)
        total = np.where(self._used(), a, 0.0).sum(axis=-1, keepdims=True)
        return self._sum(special.digamma(a) - special.digamma(total), rows)

    def log_marginal(self, statistics: Statistics) -> np.ndarray:
        used = self._used()

        def log_beta(a: np.ndarray) -> np.ndarray:
            parts = np.where(used, special.gammaln(a), 0.0).sum(axis=-1) - special.gammaln(
                np.where(used, a, 0.0).sum(axis=-1)
            )
            return parts.sum(axis=-1)

        after = self.concentration(statistics)
        before = np.broadcast_to(np.where(used, prior_of(self), 1.0), after.shape)
        return log_beta(after) - log_beta(before)
