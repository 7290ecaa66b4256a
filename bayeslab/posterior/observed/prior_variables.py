"""Emission parameters as PyMC variables: known ones, those with given priors, and ordered ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bayeslab.distributions import pymc_class
from bayeslab.posterior.observed.part import StatePart
from bayeslab.posterior.observed.prior import Prior, across

__all__ = ["named_variables"]


def named_variables(part: StatePart, default: Callable[[str, Mapping[str, Any]], Any]) -> dict[str, Any]:
    """All parameters of a part on PyMC's context stack.

    Parameters
    ----------
    default : callable (name, variables so far)
        Creates a parameter without a given prior.
    """
    import pytensor.tensor as pt

    out: dict[str, Any] = {}
    for name in reversed(part.names):  # a mean's prior depends on the sd
        if name in part.known:
            out[name] = pt.as_tensor_variable(part.known[name])
        elif name in part.priors:
            out[name] = _with_written_prior(part, name)
        else:
            out[name] = default(name, out)
    return out


def _with_written_prior(part: StatePart, name: str) -> Any:
    prior, shape, dims = part.priors[name], part.shape(name), part.dims(name)
    if prior.ordered:
        return _ordered(prior, name, shape, dims, part.start.get(name))
    arguments = {a: across(v, shape) for a, v in prior.arguments.items()}
    return pymc_class(prior.word)(name, **arguments, dims=dims)


def _ordered(prior: Prior, name: str, shape: tuple[int, ...], dims: tuple[str, ...], start: np.ndarray | None) -> Any:
    """A parameter that increases with the state; without a start (for simulation), sorted draws."""
    import pymc as pm

    distribution = pymc_class(prior.word)
    if start is None:
        free = distribution(f"_{name}_unordered", **prior.arguments, shape=shape)
        return pm.Deterministic(name, free.sort(), dims=dims)
    lower, upper = prior.support
    transforms = pm.distributions.transforms
    if np.isinf(lower) and np.isinf(upper):
        transform: Any = transforms.ordered
    else:
        low, high = (None if np.isinf(bound) else bound for bound in (lower, upper))
        transform = transforms.Chain([transforms.Interval(low, high), transforms.ordered])
    begin = _rising(start, lower, upper)
    return distribution(name, **prior.arguments, dims=dims, initval=begin, transform=transform, default_transform=None)


def _rising(start: np.ndarray, lower: float, upper: float) -> np.ndarray:
    """Strictly increasing numbers near a start, inside the support."""
    out, n = np.sort(np.asarray(start, float)), len(start)
    gap = 1e-3 * (float(np.ptp(out)) or max(1.0, abs(float(out[0]))))
    if np.isfinite(lower) and np.isfinite(upper):
        gap = min(gap, (upper - lower) / (4 * n))
        out = np.clip(out, lower + gap, upper - 2 * n * gap)
    elif np.isfinite(lower):
        out = np.maximum(out, lower + gap)
    elif np.isfinite(upper):
        out = np.minimum(out, upper - 2 * n * gap)
    return np.asarray(np.maximum.accumulate(out) + gap * np.arange(n))
