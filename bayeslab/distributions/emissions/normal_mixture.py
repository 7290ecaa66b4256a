r"""Rows with a mixture of normals in every state.

    y | z = k, m ~ Normal(mean_km, diag(variance_km)),    P(m | z = k) = weight_km,

with the parts m summed out: the emission of continuous-density hidden Markov models [1]_. Its E-step computes
responsibilities inside a state, r_nkm = P(z = k) P(m | y_n, z = k), and its M-step is that of K · M normal states with
these responsibilities.
A row without an observed cell carries no information about its part and does not count for the weights.

References
----------
.. [1] Juang, Levinson, Sondhi (1986). Maximum likelihood estimation for multivariate mixture observations of Markov
   chains. IEEE Transactions on Information Theory 32, 307-309.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bayeslab.distributions.emissions.cells import check_shape, refuse_constant, scaled
from bayeslab.distributions.emissions.normal import DiagonalGaussian
from bayeslab.distributions.emissions.normal_prior import NormalPrior
from bayeslab.distributions.emissions.protocol import Emission, Parameters, Statistics
from bayeslab.distributions.toolbox.logarithms import log_sum, ratio, safe_log

__all__ = ["GaussianMixture"]

# Parts are initialised as slices of a state's rows, improved by this many EM steps.
_FIRST_STEPS = 10


@dataclass(frozen=True, eq=False)
class GaussianMixture(Emission):
    """A mixture of ``n_parts`` normals with independent columns in every state.

    Parameters ``weight`` (K, M), ``mean`` and ``variance`` (K, M, d).

    Parameters
    ----------
    n_columns, n_parts : int
    prior : NormalPrior, optional
        Prior of every part, as in :class:`DiagonalGaussian`; weights have a uniform Dirichlet prior.
    """

    n_columns: int
    n_parts: int
    prior: NormalPrior | None = None

    @property
    def kinds(self) -> dict[str, str]:
        return {"weight": "simplex", "variance": "positive"}

    @property
    def _normal(self) -> DiagonalGaussian:
        return DiagonalGaussian(self.n_columns, prior=self.prior)

    def _flat(self, parameters: Parameters) -> dict[str, np.ndarray]:
        """All parts of all states, as one set of normals."""
        return {name: parameters[name].reshape(-1, self.n_columns) for name in ("mean", "variance")}

    def check(self, rows: np.ndarray) -> None:
        check_shape(rows, self.n_columns)
        if self.prior is None:
            refuse_constant(rows, "every variance would be zero")

    def log_terms(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray:
        """log P(m | z = k) p(row | k, m), (N, K, M)."""
        log_weight = safe_log(parameters["weight"])
        density = self._normal.log_density(self._flat(parameters), rows)
        return density.reshape(len(rows), *log_weight.shape) + log_weight

    def log_density(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray:
        return log_sum(self.log_terms(parameters, rows), axis=2)

    def inner(self, parameters: Parameters, rows: np.ndarray) -> np.ndarray:
        """P(m | row, z = k), (N, K, M)."""
        terms = self.log_terms(parameters, rows)
        return np.exp(terms - log_sum(terms, axis=2, keepdims=True))

    def statistics(
        self, rows: np.ndarray, responsibilities: np.ndarray, parameters: Parameters | None = None
    ) -> Statistics:
        if parameters is None:
            return self._first(rows, responsibilities)
        return self._totals(rows, responsibilities[:, :, None] * self.inner(parameters, rows))

    def _totals(self, rows: np.ndarray, joint: np.ndarray) -> Statistics:
        """From P(z = k, m), (N, K, M)."""
        present = ~np.isnan(rows).all(axis=1)
        count = joint[present].sum(axis=0)
        normal = self._normal.statistics(rows, joint.reshape(len(rows), -1))
        return {"count": count, **{name: total.reshape(*count.shape, -1) for name, total in normal.items()}}

    def _first(self, rows: np.ndarray, responsibilities: np.ndarray) -> Statistics:
        joint = responsibilities[:, :, None] * np.stack([self._slices(rows, r) for r in responsibilities.T], axis=1)
        out = self._totals(rows, joint)
        for _ in range(_FIRST_STEPS if self.n_parts > 1 else 0):
            guess = self.maximise(out)
            floor = 1e-4 * np.nanvar(rows, axis=0) + 1e-300
            guess = {**guess, "variance": np.maximum(guess["variance"], floor)}
            out = self.statistics(rows, responsibilities, guess)
        return out

    def _slices(self, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Cut a state's rows into equal shares along the direction of largest variance, (N, M)."""
        points = scaled(rows)
        share = weights / max(float(weights.sum()), 1e-300)
        apart = points - share @ points
        direction = np.linalg.eigh((share[:, None] * apart).T @ apart)[1][:, -1]
        order = np.argsort(apart @ direction, kind="stable")
        before = np.empty(len(rows))
        before[order] = np.cumsum(share[order]) - 0.5 * share[order]
        which = np.clip((self.n_parts * before).astype(int), 0, self.n_parts - 1)
        # Soft assignment, so that no part starts empty.
        return np.asarray(0.9 * np.eye(self.n_parts)[which] + 0.1 / self.n_parts)

    def maximise(self, statistics: Statistics, parameters: Parameters | None = None) -> Parameters:
        count = statistics["count"]
        shape = (*count.shape, self.n_columns)
        of_parts = {name: statistics[name].reshape(-1, self.n_columns) for name in ("weight", "mean", "scatter")}
        estimate = self._normal.maximise(of_parts)
        weight = ratio(count, count.sum(axis=1, keepdims=True), 1.0 / self.n_parts)
        return {"weight": weight, **{name: estimate[name].reshape(shape) for name in ("mean", "variance")}}

    def expected_log_likelihood(self, statistics: Statistics, parameters: Parameters) -> float:
        of_parts = {name: statistics[name].reshape(-1, self.n_columns) for name in ("weight", "mean", "scatter")}
        inside = float(np.sum(statistics["count"] * safe_log(parameters["weight"])))
        return inside + self._normal.expected_log_likelihood(of_parts, self._flat(parameters))

    def log_prior(self, parameters: Parameters) -> float:
        return self._normal.log_prior(self._flat(parameters))

    def n_free(self, n_states: int) -> int:
        return n_states * (self.n_parts - 1 + 2 * self.n_parts * self.n_columns)

    def with_prior(self, rows: np.ndarray, n_states: int) -> Self:
        return replace(self, prior=NormalPrior.weak(rows, n_states * self.n_parts, diagonal=True))

    def degenerate(self, parameters: Parameters, variances: np.ndarray) -> np.ndarray:
        flags = self._normal.degenerate(self._flat(parameters), variances)
        return np.asarray(flags.reshape(-1, self.n_parts).any(axis=1))

    def sample(self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray) -> np.ndarray:
        cumulated = np.cumsum(parameters["weight"], axis=1)[states]
        part = (rng.random((len(states), 1)) * cumulated[:, -1:] >= cumulated).sum(axis=1)
        return self._normal.sample(rng, self._flat(parameters), states * self.n_parts + part)

    @property
    def columns_depend(self) -> bool:
        return True

    def complete(
        self, rng: np.random.Generator, parameters: Parameters, states: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        """Rows in given states, with missing cells drawn given the observed ones, which inform the part."""
        flat = self._flat(parameters)
        at = states[:, None] * self.n_parts + np.arange(self.n_parts)
        log_p = np.take_along_axis(self._normal.log_density(flat, rows), at, axis=1)
        with np.errstate(divide="ignore"):
            log_p = log_p + np.log(parameters["weight"])[states]
        # Gumbel-max trick: the largest log probability plus Gumbel noise is a draw by the probabilities.
        part = (log_p + rng.gumbel(size=log_p.shape)).argmax(axis=1)
        made = self._normal.sample(rng, flat, at[np.arange(len(states)), part])
        return np.where(np.isnan(rows), made, rows)

    def features(self, rows: np.ndarray) -> np.ndarray:
        return scaled(rows)
