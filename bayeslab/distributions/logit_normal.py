"""Logit-normal: shares whose log odds are normal.

With z = (log(x / (1 - x)) - mu) / sigma, density exp(-z² / 2) / (x (1 - x) sigma √(2π)) for 0 < x < 1. Aitchison, Shen
(1980), Biometrika 67, 261-272.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bayeslab import special
from bayeslab.constants import HALF_LOG_2PI
from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared, deviation
from bayeslab.distributions.toolbox.response import UNIT, driven
from bayeslab.distributions.toolbox.special import log, log1p

DECLARATION = declared(
    "LogitNormal",
    "mu sigma tau",
    "sigma tau",
    "(0, 1)",
    response=driven("mean of the logit", "real", "LogitNormal({mu}, sigma)", working="logit", sigma=UNIT),
)


def canonical(mu: Array = 0.0, sigma: Array | None = None, tau: Array | None = None) -> Values:
    """The parameters of :func:`log_density`."""
    return mu, deviation(sigma, tau)


def log_density(x: Array, mu: Array, sigma: Array) -> Array:
    """Log density of each number."""
    odds = np.log(x) - np.log1p(-x)
    return -0.5 * ((odds - mu) / sigma) ** 2 - np.log(sigma) - HALF_LOG_2PI - np.log(x) - np.log1p(-x)


def slopes(x: Array, mu: Array, sigma: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    z = (np.log(x) - np.log1p(-x) - mu) / sigma
    return 1 / (1 - x) - 1 / x - z / (sigma * x * (1 - x)), z / sigma, (z**2 - 1) / sigma


def fused(x: float, mu: float, sigma: float) -> Fused:
    """Log density of one number, and its derivatives."""
    if not (0.0 < x < 1.0 and sigma > 0.0):
        return -math.inf, 0.0, 0.0, 0.0
    rate, log_x, log_rest = 1.0 / sigma, log(x), log1p(-x)
    z = (log_x - log_rest - mu) * rate
    pull = z * rate
    value = -0.5 * z * z - log(sigma) - HALF_LOG_2PI - log_x - log_rest
    return value, (2.0 * x - 1.0 - pull) / (x * (1.0 - x)), pull, (z * z - 1.0) * rate


def draw(rng: np.random.Generator, size: tuple[int, ...], mu: Array, sigma: Array) -> Array:
    """Independent draws."""
    return np.asarray(special.expit(rng.normal(mu, sigma, size)))


def pymc_class() -> Any:
    """PyMC's distribution, sampled on the log-odds scale: PyMC 6.3 has no transform that keeps it in (0, 1)."""
    import pymc as pm
    from pymc.distributions.transforms import _default_transform, logodds

    class LogitNormal(pm.LogitNormal):
        def __new__(cls, name: str, *args: Any, **kwargs: Any) -> Any:
            return super().__new__(cls, name, *args, **{"default_transform": logodds} | kwargs)

        @classmethod
        def dist(cls, *args: Any, **kwargs: Any) -> Any:
            drawn = super().dist(*args, **kwargs)
            # Each variable has a new operation type, so that the transform applies to this distribution only.
            _default_transform.register(type(drawn.owner.op), lambda op, rv: logodds)
            return drawn

    return LogitNormal
