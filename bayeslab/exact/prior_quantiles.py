"""Quantiles of a prior with numeric parameters."""

from __future__ import annotations

import numpy as np

from bayeslab.distributions import SCALARS, log_density, log_size
from bayeslab.language.numeric_priors import has_numbers, read_prior

__all__ = ["ABOVE", "BELOW", "quantiles"]

# Tail probabilities of a lengthscale's prior, below and above, that basis functions need not cover.
BELOW, ABOVE = 0.1, 0.05


def quantiles(text: str) -> tuple[float, float, float] | None:
    """Quantiles of a prior with numeric parameters, by summing its density over a grid; None for other priors."""
    word, arguments = read_prior(text)
    if word not in SCALARS or not has_numbers(arguments):
        return None
    density, lower, upper, proper = log_density(str(word), arguments)
    if not proper:
        return None
    middle = log_size(density, lower)
    if lower >= 0.0:
        grid = np.exp(middle + np.linspace(-40.0, 40.0, 40_001))
    else:
        half = np.exp(middle + np.linspace(-20.0, 20.0, 20_001))
        grid = np.concatenate([-half[::-1], half])
    grid = grid[(grid > lower) & (grid < upper)]
    with np.errstate(all="ignore"):
        heights = np.nan_to_num(np.exp(density(grid) + middle), posinf=0.0)
    widths = np.diff(grid * np.exp(-middle))
    steps = np.concatenate([[0.0], np.cumsum(0.5 * (heights[1:] + heights[:-1]) * widths)])
    low, middle, high = np.interp(np.array([BELOW, 0.5, 1 - ABOVE]) * steps[-1], steps, grid)
    return float(low), float(middle), float(high)
