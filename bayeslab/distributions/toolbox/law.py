"""A prior of the elements of a parameter: a distribution with numeric parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.distributions.toolbox.parameters import interval
from bayeslab.distributions.toolbox.table import DISTRIBUTIONS, ends, functions

__all__ = ["Law", "weak_law"]

# Width of weak priors, in standard errors from one row.
_WIDTH = 2.0


@dataclass(frozen=True, eq=False)
class Law:
    """A prior: one distribution for all elements of a parameter, with numbers that may differ between elements.

    Attributes
    ----------
    name : str
        PyMC's name of the distribution.
    given : mapping of str to ndarray
        Parameters of the prior by PyMC's names, in shapes that broadcast to (K, d).
    """

    name: str
    given: Mapping[str, np.ndarray]

    @cached_property
    def _parameters(self) -> tuple[Any, ...]:
        return functions(self.name).canonical(**self.given)

    @cached_property
    def ends(self) -> tuple[Any, Any]:
        """The lower and the upper end of the support; infinite for an angle, which is periodic."""
        if DISTRIBUTIONS[self.name].angles:
            return -np.inf, np.inf
        return ends(self.name, self._parameters)

    def log_density(self, value: np.ndarray) -> np.ndarray:
        """Log density of every element; -inf outside the support."""
        low, high = self.ends
        inside = ~DISTRIBUTIONS[self.name].domain.values.outside(value, low, high) & ~np.isnan(value)
        with np.errstate(all="ignore"):
            out = functions(self.name).log_density(np.where(inside, value, np.nan), *self._parameters)
        return np.where(inside, out, -np.inf)

    def slope(self, value: np.ndarray) -> np.ndarray:
        """The derivative of :meth:`log_density`."""
        with np.errstate(all="ignore"):
            return np.broadcast_to(
                np.asarray(functions(self.name).slopes(value, *self._parameters)[0]), np.shape(value)
            )


def weak_law(name: str, word: str, centre: np.ndarray, unit: np.ndarray) -> Law:
    """A weak prior of a distribution's parameter, centred at the value that fits all rows jointly.

    A positive parameter is LogNormal(log θ_0, 2), a probability Beta(1, 1), an angle uniform, and any other number
    Normal(θ_0, 2 u), where u is the standard error from one row: 1 / √(mean squared slope), other parameters fixed.

    Parameters
    ----------
    centre, unit : ndarray
        θ_0 and u of each column.
    """
    low, high = interval(name, word)
    if word in DISTRIBUTIONS[name].angles:
        return Law("VonMises", {"mu": np.zeros_like(centre), "kappa": np.full_like(centre, 1e-6)})
    if np.isinf(low) and np.isinf(high):
        return Law("Normal", {"mu": centre, "sigma": _WIDTH * unit})
    if np.isinf(high):
        return Law("LogNormal", {"mu": np.log(centre), "sigma": np.full_like(centre, _WIDTH)})
    return Law("Beta", {"alpha": np.ones_like(centre), "beta": np.ones_like(centre)})
