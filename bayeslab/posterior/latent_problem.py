"""Latent states times observed parts, as EM sees them: mixtures, hidden Markov models, trees, urns.

The E-step sums the states out; by Fisher's identity its expected sufficient statistics give the gradient as well. The
M-step combines those of the latent and of each part. This module implements the full interface that
:func:`bayeslab.latents.expectation_maximisation.maximise` needs of a problem.

References
----------
.. [1] Dempster, Laird, Rubin (1977). Maximum likelihood from incomplete data via the EM algorithm. JRSS B 39, 1-38.
.. [2] Baum, Petrie, Soules, Weiss (1970). A maximization technique occurring in the statistical analysis of
   probabilistic functions of Markov chains. Annals of Mathematical Statistics 41, 164-171.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.errors import ModelError
from bayeslab.latents.latent import Latent, Law
from bayeslab.posterior.bijectors import BIJECTORS
from bayeslab.posterior.observed.emitted import Emitted

__all__ = ["LatentModel", "LatentProblem"]

type Values = Mapping[str, Any]


# Step, points and weights of central differences of order two, and of order four with a wider step.
_DIFFERENCES = {
    2: (1e-5, ((-1, -1 / 2), (1, 1 / 2))),
    4: (1e-3, ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12))),
}


class LatentProblem:
    """A latent variable, its observed parts, and rows. Parameters have the names of the latent and the parts.

    Attributes
    ----------
    latent : Latent
    parts : sequence of Emitted
    rows : ndarray (n_rows, n_columns)
        NaN for missing cells.
    offsets : ndarray (n_sequences + 1,)
    prior : bool
        Whether to include priors; otherwise only the likelihood is used.
    """

    if TYPE_CHECKING:  # fields of some subclasses, properties of others

        @property
        def latent(self) -> Latent: ...
        @property
        def parts(self) -> Sequence[Emitted]: ...
        @property
        def rows(self) -> np.ndarray: ...
        @property
        def offsets(self) -> np.ndarray: ...
        @property
        def prior(self) -> bool: ...

    # Order four keeps truncation and rounding errors small; order two costs half as much.
    order_of_differences = 4

    # ------------------------------------------------------------------ E-step

    def log_density(self, theta: Values) -> np.ndarray:
        """log p(row | state), (n_rows, n_states)."""
        first, *others = self.parts
        out = first.log_density(theta, self.rows)
        for part in others:
            out = out + part.log_density(theta, self.rows)
        return out

    def law(self, theta: Values) -> Law:
        """The states at these parameters, given the rows."""
        return self.latent.law(theta, self.log_density(theta), self.offsets)

    def expect(self, theta: Values) -> tuple[float, dict[str, Any]]:
        """Log likelihood and expected sufficient statistics; -inf and no statistics if the likelihood is zero.

        A trial point of an accelerated search may be outside the support, or make a chain impossible.
        """
        try:
            fused = self._one_pass(theta)
            if fused is not None:
                return fused
            log_density = self.log_density(theta)
            if np.isnan(np.min(log_density, initial=0.0)):
                return -np.inf, {}
            expected = self.latent.law(theta, log_density, self.offsets).expected()
        except (np.linalg.LinAlgError, ModelError):
            return -np.inf, {}
        value = self._summed(expected.log_evidence)
        if not np.isfinite(value):
            return -np.inf, {}
        return value, dict(expected.counts) | self.totals(expected.posterior, theta)

    @cached_property
    def _contiguous(self) -> np.ndarray | None:
        """The rows in the layout of a fused kernel; None if they have missing cells."""
        return None if np.isnan(self.rows).any() else np.ascontiguousarray(self.rows, float)

    def _one_pass(self, theta: Values) -> tuple[float, dict[str, Any]] | None:
        if len(self.parts) > 1 or not self.parts[0].has_one_pass or (rows := self._contiguous) is None:
            return None
        part = self.parts[0]
        return self.latent.one_pass(theta, part.emission, part.to_emission(theta), part.select(rows))

    def _summed(self, log_evidence: np.ndarray) -> float:
        weights = self.latent.row_weights
        if weights is None:
            return float(log_evidence.sum())
        counted = weights > 0
        return float(weights[counted] @ log_evidence[counted])

    def totals(self, posterior: np.ndarray, theta: Values | None = None) -> dict[str, Any]:
        """Expected sufficient statistics of all parts, from P(state | rows), shape (n_rows, n_states)."""
        weights = self.latent.row_weights
        posterior = posterior if weights is None else posterior * weights[:, None]
        out: dict[str, Any] = {}
        for k, part in enumerate(self.parts):
            if part.has_learned:
                totals = part.totals(self.rows, posterior, theta)
                out |= {f"{self._prefix(k)}{name}": total for name, total in totals.items()}
        return out

    def _prefix(self, k: int) -> str:
        """The prefix of the names of part k's statistics, if there are several parts."""
        return f"{k}." if len(self.parts) > 1 else ""

    def _of_part(self, statistics: Mapping[str, Any], k: int) -> Mapping[str, Any]:
        """The statistics of part k."""
        prefix = self._prefix(k)
        if not prefix:
            return statistics
        return {name.removeprefix(prefix): v for name, v in statistics.items() if name.startswith(prefix)}

    # ------------------------------------------------------------------ M-step

    def update(self, statistics: Mapping[str, Any], theta: Values | None = None) -> dict[str, Any]:
        """The best parameters for these totals; ``theta`` is where they come from."""
        out: dict[str, Any] = dict(self.latent.maximise(statistics, prior=self.prior, start=theta))
        for k, part in enumerate(self.parts):
            if part.has_learned:
                out |= part.fitted(self._of_part(statistics, k), theta or {}, prior=self.prior)
        return out

    def log_prior(self, theta: Values) -> float:
        """Log density of the prior, up to a constant; 0 if priors are not included."""
        if not self.prior:
            return 0.0
        return self.latent.log_prior(theta) + sum(part.log_prior(theta) for part in self.parts if part.has_learned)

    # ------------------------------------------------------------------ slopes

    def gradient(self, theta: Values, statistics: Mapping[str, Any]) -> np.ndarray:
        """Gradient of log likelihood plus log prior in the coordinates of :meth:`flatten`.

        By Fisher's identity it is the gradient of the expected complete-data log likelihood, which depends on the data
        only through the statistics: its central differences need no pass over the data.
        """
        x = self.flatten(theta)
        width, rule = _DIFFERENCES[self.order_of_differences]
        step = width * np.maximum(1.0, np.abs(x) / 10)
        out = np.empty(len(x))
        for i in range(len(x)):
            total = 0.0
            for place, weight in rule:
                moved = x.copy()
                moved[i] += place * step[i]
                total += weight * self._complete(self.unflatten(moved), statistics)
            out[i] = total / step[i]
        return out

    def _complete(self, theta: Values, statistics: Mapping[str, Any]) -> float:
        """Expected complete-data log density, plus the log prior, given the statistics."""
        value = self.latent.expected_log_density(statistics, theta) + self.log_prior(theta)
        for k, part in enumerate(self.parts):
            if part.has_learned:
                value += part.expected_log_density(self._of_part(statistics, k), theta)
        return value

    def at_limits(self, theta: Values) -> dict[str, int]:
        """By name, the number of positive emission parameters that are at a limit (zero or infinity).

        The criterion is the expected complete-data log likelihood, which falls at least as far as the likelihood
        itself; see :mod:`bayeslab.distributions.toolbox.limits`.
        """
        value, statistics = self.expect(theta)
        out: dict[str, int] = {}
        for k, part in enumerate(self.parts if np.isfinite(value) else ()):
            out |= part.at_limits(self._of_part(statistics, k), theta, prior=self.prior)
        return out

    # ------------------------------------------------------------------ coordinates

    @cached_property
    def _parameters(self) -> tuple[tuple[str, tuple[int, ...], str, Any], ...]:
        """Name, shape, kind of coordinates and unit of all learned parameters."""
        latent = self.latent
        out = [(name, latent.shape(name), latent.kind(name), 1.0) for name in latent.learned]
        for part in self.parts:
            out += [(name, part.shape(name), part.coordinates(name), part.unit(name)) for name in part.learned]
        return tuple(out)

    @cached_property
    def _constants(self) -> dict[str, np.ndarray]:
        out = dict(self.latent.constants)
        for part in self.parts:
            out |= part.constants
        return out

    def kinds(self) -> dict[str, str]:
        """The support of each parameter."""
        out = {name: self.latent.kind(name) for name in self.latent.learned}
        return out | {name: part.kind(name) for part in self.parts for name in part.learned}

    def flatten(self, theta: Values) -> np.ndarray:
        """Unconstrained coordinates of the learned parameters, for EM variants that extrapolate or use gradients."""
        return np.concatenate(
            [BIJECTORS[kind].to_real(theta[name] / unit).ravel() for name, _, kind, unit in self._parameters]
        )

    def unflatten(self, x: np.ndarray) -> dict[str, Any]:
        """The inverse of :meth:`flatten`."""
        out: dict[str, Any] = dict(self._constants)
        at = 0
        for name, shape, kind, unit in self._parameters:
            size = int(np.prod(shape))
            out[name] = BIJECTORS[kind].from_real(x[at : at + size].reshape(shape)) * unit
            at += size
        out |= self.latent.constrained(out)
        for part in self.parts:
            out |= part.constrained(out)
        return out


@dataclass(frozen=True, eq=False)
class LatentModel(LatentProblem):
    """A latent and observed parts on their rows; see :class:`LatentProblem`."""

    latent: Latent
    parts: Sequence[Emitted]
    rows: np.ndarray
    offsets: np.ndarray
    prior: bool = True
