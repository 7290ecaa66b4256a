"""M-steps without a closed form: priors of the model file, and Student's t columns with known parameters.

Given the expected statistics, every cell (state, column) is a separate problem. Its parameters are maximised one at a
time with the others fixed; each conditional maximisation raises the expected log posterior, so EM stays monotone [1]_.
The density is that of the named parameters, and of the variance if a standard deviation has its default prior, so the
mode is that of method map.

References
----------
.. [1] Meng, Rubin (1993). Maximum likelihood estimation via the ECM algorithm: a general framework. Biometrika 80,
   267-278.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.distributions import log_densities
from bayeslab.distributions.emissions.student_t import DOF_ENDS
from bayeslab.posterior.observed.part import SPREADS
from bayeslab.posterior.observed.prior import across
from bayeslab.posterior.observed.standard import StandardPart

__all__ = ["CellwisePart", "climb", "climbed", "log_prior"]

type Values = Mapping[str, np.ndarray]

# Number of sweeps over the parameters in an M-step, and of steps of each search.
_SWEEPS, _STEPS = 2, 14


@dataclass(frozen=True, eq=False, kw_only=True)
class CellwisePart(StandardPart):
    """A part whose expected log posterior is a sum over states and columns."""

    def log_prior(self, values: Mapping[str, Any]) -> float:
        return log_prior(self, values) if self.known or self.priors else super().log_prior(values)

    @property
    def needs_search(self) -> bool:
        """Whether the M-step has no closed form, whatever the priors."""
        return False

    def maximised(self, statistics: Mapping[str, Any], values: Mapping[str, Any], prior: bool) -> dict[str, np.ndarray]:
        written = prior and any(name in self.priors for name in self.learned)
        if self.needs_search or written:
            return climbed(self, statistics, values, prior=prior)
        return super().maximised(statistics, values, prior)

    @abstractmethod
    def expected_cells(self, statistics: Mapping[str, np.ndarray], theta: Values) -> np.ndarray:
        """Expected complete-data log likelihood of each cell (n_states, n_columns).

        Parameters
        ----------
        theta
            Parameters (n_states, n_columns) by the names of this kind of column.
        """

    @abstractmethod
    def default_log_density(self, name: str, values: Values) -> np.ndarray:
        """Log density of the default prior of every element of a parameter, up to a constant."""


def climbed(
    part: CellwisePart, statistics: Mapping[str, np.ndarray], theta: Values, *, prior: bool
) -> dict[str, np.ndarray]:
    """Parameters, including known ones, with at least the expected log posterior of the previous ones."""
    values = {name: np.asarray({**theta, **part.known}[name], float) for name in part.names}
    for _ in range(_SWEEPS):
        for name in part.learned:
            values[name] = _best(part, name, statistics, values, prior)
    return values


def log_prior(part: CellwisePart, values: Values) -> float:
    """Log prior density of the part's unknown parameters."""
    every = {name: np.asarray({**values, **part.known}[name], float) for name in part.names}
    return float(sum(np.sum(_log_density(part, name, every)) for name in part.learned))


# --------------------------------------------------------------------------------- one number in each cell


def climb(objective: Callable[[np.ndarray], np.ndarray], x: np.ndarray, step: float = 0.5) -> np.ndarray:
    """Maximise each cell of ``x`` separately by parabolas through three points; only improvements are accepted.

    Parameters
    ----------
    objective : callable
        Values in the shape of ``x``, each a function of its cell only; -inf outside the support.
    x : ndarray
        The starting point.
    """
    x, size = np.array(x, float), np.full(np.shape(x), step)
    top = objective(x)
    for _ in range(_STEPS):
        left, right = objective(x - size), objective(x + size)
        with np.errstate(invalid="ignore", divide="ignore"):
            bend = left - 2 * top + right
            vertex = np.where(bend < 0, 0.5 * size * (left - right) / bend, 0.0)
        curved = np.isfinite(vertex) & (bend < 0)
        vertex = np.where(curved, np.clip(vertex, -size, size), 0.0)
        middle = objective(x + vertex)
        each = np.stack([top, middle, left, right])
        which = np.argmax(np.where(np.isnan(each), -np.inf, each), axis=0)
        move = np.choose(which, [np.zeros_like(x), vertex, -size, size])
        x, top = x + move, np.take_along_axis(each, which[None], axis=0)[0]
        # The last vertex estimates the distance to the maximum.
        size = np.where(
            np.abs(move) >= size,
            2 * size,
            np.clip(2 * np.abs(vertex), np.where(curved, 1e-3, 0.25) * size, 0.25 * size),
        )
        size = np.maximum(size, 1e-7)
    return x


def _best(
    part: CellwisePart, name: str, statistics: Mapping[str, np.ndarray], values: dict[str, np.ndarray], prior: bool
) -> np.ndarray:
    to_real, to_value = _coordinate(part, name)

    def objective(x: np.ndarray) -> np.ndarray:
        moved = {**values, name: to_value(x)}
        out = _summed(_expected(part, statistics, moved), x.shape)
        if not prior:
            return out
        affected = [other for other in part.learned if other == name or _is_scaled_by(part, other, name)]
        return out + sum(_summed(_log_density(part, other, moved), x.shape) for other in affected)

    return to_value(climb(objective, to_real(values[name])))


def _summed(cells: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Cells (n_states, n_columns) in the shape of a parameter."""
    return cells if cells.shape == shape else cells.reshape(*shape, -1).sum(axis=-1)


def _coordinate(
    part: CellwisePart, name: str
) -> tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]:
    """The map of a parameter to an unconstrained coordinate of order one, and its inverse."""
    match part.parameter(name):
        case "sd" | "scale":
            # Without a lower limit a scale could fall until its square underflows.
            least = np.maximum(part.narrowest(name), 1e-150)
            return lambda v: np.log(np.maximum(v, least)), lambda x: np.maximum(np.exp(np.clip(x, -690, 690)), least)
        case "rate":
            return lambda v: np.log(np.maximum(v, 1e-300)), lambda x: np.exp(np.clip(x, -690.0, 690.0))
        case "dof":
            return np.log, lambda x: np.clip(np.exp(x), *DOF_ENDS)
        case "probability":
            return (
                lambda p: np.log(np.clip(p, 1e-12, 1.0)) - np.log(np.clip(1 - p, 1e-12, 1.0)),
                lambda x: 1 / (1 + np.exp(-np.clip(x, -30.0, 30.0))),
            )
    wide = len(part.shape(name)) == 2
    unit = np.maximum(part.spread if wide else part.spread[0], 1e-300)
    return lambda v: v / unit, lambda x: x * unit


def _expected(part: CellwisePart, statistics: Mapping[str, np.ndarray], values: Values) -> np.ndarray:
    """Expected complete log likelihood of each cell (n_states, n_columns)."""
    theta = {part.parameter(name): np.asarray(value).reshape(part.n_states, -1) for name, value in values.items()}
    return part.expected_cells(statistics, theta)


# --------------------------------------------------------------------------------- priors


def _is_scaled_by(part: CellwisePart, name: str, spread: str) -> bool:
    """Whether the prior of a parameter depends on a scale parameter, as the default prior of means does."""
    return (
        name not in part.priors and part.parameter(name) in ("mean", "location") and part.parameter(spread) in SPREADS
    )


def _log_density(part: CellwisePart, name: str, values: Values) -> np.ndarray:
    """Log prior density of every element of a parameter, up to a constant."""
    if name in part.priors:
        prior, value = part.priors[name], values[name]
        return log_densities(prior.word, {a: across(v, value.shape) for a, v in prior.arguments.items()}, value)
    with np.errstate(divide="ignore", invalid="ignore"):
        return part.default_log_density(name, values)
