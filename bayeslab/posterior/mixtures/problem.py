"""Mixtures as problems for EM: components that may collapse, and classification EM.

A row belongs to component k with probability w_k, and then has the emission's distribution with the k-th set of
parameters. EM computes the responsibilities of the components and maximises the parameters given them; no step lowers
the likelihood [1]_. All variants of `expectation_maximisation.maximise` apply. If a component has lost its rows or its
variance, the likelihood of a Gaussian is unbounded, and the M-step raises :class:`Collapse`.

References
----------
.. [1] Dempster, Laird, Rubin (1977). Maximum likelihood from incomplete data via the EM algorithm. JRSS B 39, 1-38.
.. [2] Celeux, Govaert (1992). A classification EM algorithm for clustering and two stochastic versions.
   Computational Statistics & Data Analysis 14, 315-332 (hard EM).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.distributions.emissions import Parameters, Statistics, column_variances
from bayeslab.distributions.emissions.normal_moments import merged
from bayeslab.errors import DataError, OptionError
from bayeslab.latents.labels.labels import Labels
from bayeslab.posterior.latent_problem import LatentProblem
from bayeslab.posterior.observed.emitted import EmittedRows

__all__ = ["Collapse", "HardProblem", "MixtureProblem", "StreamedMixtureProblem"]


class Collapse(Exception):
    """Raised when components lose their rows or their variance in an M-step."""

    def __init__(self, components: np.ndarray, theta: Parameters) -> None:
        super().__init__(f"components {components.tolist()} collapsed")
        self.components, self.theta = components, theta


@dataclass(frozen=True, eq=False)
class MixtureProblem(LatentProblem):
    """A mixture and its data, as a problem for EM.

    Parameters ("theta") are those of the labels, ``weights`` or ``gate``, and of the emission. An emission without a
    prior is fitted by maximum likelihood.

    Attributes
    ----------
    emission : Emission
    rows : ndarray (N, D)
        NaN marks a missing cell.
    latent : Labels
    """

    emission: Any
    rows: np.ndarray
    latent: Labels

    prior = True
    order_of_differences = 2

    @classmethod
    def of(
        cls, emission: Any, rows: np.ndarray, n_components: int, concentration: float | np.ndarray = 1.0, **labels: Any
    ) -> MixtureProblem:
        """A mixture of ``n_components``; ``labels`` are further attributes of the labels."""
        return cls(emission, rows, Labels(n_components, concentration, **labels))

    def at(self, rows: np.ndarray) -> MixtureProblem:
        """The same mixture on a subset of the rows, by index or by mask."""
        return replace(self, rows=self.rows[rows], latent=self.latent.at(rows))

    def sized(self, n_components: int) -> MixtureProblem:
        """The same mixture with another number of components."""
        return replace(self, latent=replace(self.latent, n_states=n_components))

    def with_weak_prior(self) -> MixtureProblem:
        """The same mixture; an emission without a prior gets a weak one on the scale of the rows."""
        if self.emission.prior is not None:
            return self
        return replace(self, emission=self.emission.with_prior(self.rows, max(self.n_components, 1)))

    def without_prior(self) -> MixtureProblem:
        """The same mixture with flat priors, whose posterior is the likelihood."""
        labels = replace(self.latent, dirichlet=1.0, gate_precision=1e-6)
        return replace(self, emission=self.emission.without_prior(), latent=labels)

    def check(self) -> None:
        """Refuse problems that cannot be fitted.

        Raises
        ------
        OptionError, DataError
        """
        n_rows, k = len(self.rows), self.n_components
        if k < 1:
            raise OptionError(f"a mixture has at least 1 component, not {k}", code="out-of-range")
        if n_rows == 0:
            raise DataError("there are no rows; give at least as many as components", code="no-rows")
        if n_rows < k:
            raise DataError(
                f"{n_rows} rows cannot support {k} components; use at most {n_rows} components", code="too-few"
            )
        if self.rows.ndim == 2 and self.rows.shape[1] and (lost := np.isnan(self.rows).all(axis=1)).any():
            raise DataError(f"row {int(np.argmax(lost))} is missing in every column; remove it", code="missing")
        self.emission.check(self.rows)
        self.latent.check(n_rows)

    # ------------------------------------------------------------------ sizes

    @property
    def n_components(self) -> int:
        return self.latent.n_states

    @cached_property
    def parts(self) -> tuple[EmittedRows]:
        return (EmittedRows(self.emission, self.rows, self.n_components, ("weights", "gate")),)

    @cached_property
    def offsets(self) -> np.ndarray:
        """Offsets of sequences; every row is its own sequence."""
        return np.arange(len(self.rows) + 1)

    @cached_property
    def variances(self) -> np.ndarray:
        return column_variances(self.rows)

    @property
    def n_effective(self) -> float:
        """Number of rows, counted with their weights."""
        weights = self.latent.row_weights
        return float(len(self.rows) if weights is None else weights.sum())

    @property
    def n_free(self) -> int:
        """Number of free parameters."""
        return self.latent.n_free + int(self.emission.n_free(self.n_components))

    # ------------------------------------------------------------------ EM

    def responsibilities(self, theta: Parameters) -> tuple[np.ndarray, np.ndarray]:
        """Log evidence of each row (N,) and posterior of its component (N, K)."""
        law = self.law(theta)
        return law.log_likelihoods(True), law.filter("filter")

    def statistics(self, responsibilities: np.ndarray, theta: Parameters | None = None) -> Statistics:
        """The sufficient statistics for the M-step, from responsibilities (N, K)."""
        return self.latent.counts(responsibilities) | self.totals(responsibilities, theta)

    def update(self, statistics: Mapping[str, Any], theta: Parameters | None = None) -> dict[str, Any]:
        """The best parameters for these totals.

        Raises
        ------
        Collapse
            A component has lost its rows or its variance.
        """
        if "responsibilities" in statistics:
            statistics = self.statistics(statistics["responsibilities"], theta)
        fitted = super().update(statistics, theta)
        flags = self.emission.degenerate(self.parts[0].to_emission(fitted), self.variances)
        if self.emission.prior is None:
            flags = flags | (statistics["weights"] < 1e-10 * self.n_effective)
        if flags.any():
            raise Collapse(np.flatnonzero(flags), fitted)
        return fitted

    def chain(self, theta: Parameters, rng: np.random.Generator) -> Callable[[Parameters], Statistics]:
        """A sampler of components for stochastic EM; statistics are averaged as responsibilities."""
        return lambda at: {"responsibilities": np.eye(self.n_components)[self.law(at).sample(rng)]}


@dataclass(frozen=True, eq=False)
class StreamedMixtureProblem(MixtureProblem):
    """A Gaussian mixture whose rows are read in batches at each step; those held are a sample.

    Log likelihoods and expected statistics are sums over rows, and so over batches.

    Attributes
    ----------
    batches : callable
        Iterates over arrays of rows.
    """

    batches: Callable[[], Iterable[np.ndarray]] = tuple

    @classmethod
    def of_sample(cls, problem: MixtureProblem, batches: Callable[[], Iterable[np.ndarray]]) -> StreamedMixtureProblem:
        """The mixture of a sample, on all rows."""
        return cls(problem.emission, problem.rows, problem.latent, batches)

    def expect(self, theta: Parameters) -> tuple[float, dict[str, Any]]:
        """Log likelihood and expected sufficient statistics of all rows."""
        total, sums = 0.0, dict[str, Any]()
        for rows in self.batches():
            part = MixtureProblem(self.emission, rows, self.latent.on(None, None))
            value, statistics = part.expect(theta)
            if not np.isfinite(value):
                return -np.inf, {}
            total += value
            weights = statistics["weights"]
            sums = merged(sums, statistics) | {"weights": sums["weights"] + weights} if sums else statistics
        return total, sums


@dataclass(frozen=True, eq=False)
class HardProblem:
    """Classification EM [2]_: each row is assigned entirely to its best component.

    The joint log likelihood of rows and labels replaces the log likelihood, and never falls.
    """

    problem: MixtureProblem

    def expect(self, theta: Parameters) -> tuple[float, Statistics]:
        law = self.problem.law(theta)
        labels, heights = (values[0] for values in law.mode(1))
        weights = np.ones(len(labels)) if self.problem.latent.row_weights is None else self.problem.latent.row_weights
        counted = weights > 0
        value = float(weights[counted] @ heights[counted])
        return value, self.problem.statistics(np.eye(self.problem.n_components)[labels], theta)

    def update(self, statistics: Mapping[str, Any], theta: Parameters) -> Parameters:
        return self.problem.update(statistics, theta)

    def log_prior(self, theta: Parameters) -> float:
        return self.problem.log_prior(theta)
