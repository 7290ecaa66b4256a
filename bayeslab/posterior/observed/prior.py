"""Priors of the model file for emission parameters, and the parameters of each distribution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.distributions import log_density as scalar_density

__all__ = ["ORDERS", "PARAMETERS", "Prior", "across", "inside", "standard_name"]

# The parameters of each distribution.
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
# Priors that order the states.
ORDERS = ("Ordered", "PositiveOrdered")


@dataclass(frozen=True, eq=False)
class Prior:
    """A PyMC distribution with numeric arguments, one per state if they differ; ``ordered``: it orders the states."""

    word: str
    arguments: Mapping[str, np.ndarray]
    text: str
    ordered: bool = False

    @property
    def support(self) -> tuple[float, float]:
        """Lower and upper bound of the support, for priors in :mod:`bayeslab.distributions`."""
        _, lower, upper, _ = scalar_density(self.word, {a: float(np.ravel(v)[0]) for a, v in self.arguments.items()})
        return lower, upper


def across(value: Any, shape: tuple[int, ...], *, last: bool = False) -> np.ndarray:
    """Numbers per state (or, with ``last``, per column) in the shape of a parameter."""
    value = np.asarray(value, float)
    if value.ndim == 1 and len(shape) == 2 and not last:
        value = value[:, None]
    if value.ndim == 1 and len(shape) == 1 and last:
        value = value[0]
    return np.broadcast_to(value, shape).copy()


def inside(start: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """The start moved strictly inside the support of a prior."""
    low, high = (np.broadcast_to(np.asarray(end, float), np.shape(start)) for end in (low, high))
    both = np.isfinite(low) & np.isfinite(high)
    margin = np.where(both, 0.01 * np.where(both, high - low, 1.0), 1e-3 * np.maximum(np.abs(start), 1e-3))
    return np.asarray(np.clip(start, low + margin, high - margin))


def standard_name(parameter: str, name: str, columns: tuple[str, ...]) -> str:
    """The posterior name of a parameter of a standard distribution."""
    if parameter == "p":
        return f"p_{columns[0]}"
    return f"{name}_{parameter}" if name else parameter
