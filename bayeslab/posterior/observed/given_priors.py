"""M-steps without a closed form: priors that a file writes, and Student's t columns of which something is known.

Given the expected totals every cell (state, column) is a problem of its own, of one number at a time with the others
held: conditional maximisations, each of which raises the expected log posterior, so that EM stays monotone [1]_. The
density that is climbed is that of the parameters as they are named, and of the variance where a standard deviation has
its default prior: the mode is the one of method map.

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

# Sweeps over the parameters in an M-step, and steps of each search.
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
        """Expected complete log likelihood of each cell (n_states, n_columns).

        Parameters
        ----------
        theta
            Parameters (n_states, n_columns) by the kind's own names.
        """

    @abstractmethod
    def default_log_density(self, name: str, values: Values) -> np.ndarray:
        """Log density of the default prior of every element of a parameter, up to a constant."""


def climbed(
    part: CellwisePart, statistics: Mapping[str, np.ndarray], theta: Values, *, prior: bool
) -> dict[str, np.ndarray]:
    """Parameters (what is known included) at least as good for these totals as those they come from."""
    values = {name: np.asarray({**theta, **part.known}[name], float) for name in part.names}
    for _ in range(_SWEEPS):
        for name in part.learned:
            values[name] = _best(part, name, statistics, values, prior)
    return values


def log_prior(part: CellwisePart, values: Values) -> float:
    """Log density of what the part learns."""
    every = {name: np.asarray({**values, **part.known}[name], float) for name in part.names}
    return float(sum(np.sum(_log_density(part, name, every)) for name in part.learned))


# --------------------------------------------------------------------------------- one number in each cell


def climb(objective: Callable[[np.ndarray], np.ndarray], x: np.ndarray, step: float = 0.5) -> np.ndarray:
    """Every cell of ``x`` uphill by itself: parabolas through three points, taken only where they are higher.

    Parameters
    ----------
    objective : callable
        Values of the shape of ``x``, each a function of its own cell; -inf where there is none.
    x : ndarray
        Any numbers.
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
        # The last vertex says how far away the top still is.
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
    """Any real number of order one, and back."""
    match part.parameter(name):
        case "sd" | "scale":
            # A spread with nothing to keep it up would fall until its square is zero.
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
    """Whether the prior of a parameter has another one in it: default means have a multiple of the spread."""
    return (
        name not in part.priors and part.parameter(name) in ("mean", "location") and part.parameter(spread) in SPREADS
    )


def _log_density(part: CellwisePart, name: str, values: Values) -> np.ndarray:
    """Of every element of a parameter, up to a constant."""
    if name in part.priors:
        prior, value = part.priors[name], values[name]
        return log_densities(prior.word, {a: across(v, value.shape) for a, v in prior.arguments.items()}, value)
    with np.errstate(divide="ignore", invalid="ignore"):
        return part.default_log_density(name, values)
