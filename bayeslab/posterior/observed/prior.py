"""Priors that a model writes for parameters of states, and the parameters of each kind of distribution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayeslab.distributions import log_density as scalar_density

__all__ = ["ORDERS", "PARAMETERS", "Prior", "standard_name"]

# The parameters of each word.
PARAMETERS = {
    "gaussian": ("mean", "sd"),
    "gaussian_mixture": ("weight", "mean", "sd"),
    "scores": ("prior",),
    "student_t": ("location", "scale", "dof"),
    "categorical": ("p",),
    "bernoulli": ("probability",),
    "binomial": ("probability",),
    "poisson": ("rate",),
    "exponential": ("rate",),
}
# Priors that put states in order.
ORDERS = ("Ordered", "PositiveOrdered")


@dataclass(frozen=True, eq=False)
class Prior:
    """A distribution of PyMC with numbers, one for each state where they differ; ``ordered``: states in its order."""

    word: str
    arguments: Mapping[str, np.ndarray]
    text: str
    ordered: bool = False

    @property
    def support(self) -> tuple[float, float]:
        """The least and the greatest value, of priors that :mod:`bayeslab.distributions` knows."""
        _, lower, upper, _ = scalar_density(self.word, {a: float(np.ravel(v)[0]) for a, v in self.arguments.items()})
        return lower, upper


def standard_name(parameter: str, name: str, columns: tuple[str, ...]) -> str:
    """The posterior's name of a parameter of one of the standard words."""
    if parameter == "p":
        return f"p_{columns[0]}"
    return f"{name}_{parameter}" if name else parameter
