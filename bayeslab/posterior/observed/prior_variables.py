"""Emission parameters as variables: known ones, those with given priors, and ordered ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bayeslab.language.writer import Rising, Writer
from bayeslab.posterior.observed.part import StatePart
from bayeslab.posterior.observed.prior import Prior, across

__all__ = ["named_variables"]


def named_variables(
    part: StatePart, writer: Writer, default: Callable[[Writer, str, Mapping[str, Any]], Any]
) -> dict[str, Any]:
    """All parameters of a part.

    Parameters
    ----------
    default : callable (writer, name, variables so far)
        Creates a parameter without a given prior.
    """
    out: dict[str, Any] = {}
    for name in reversed(part.names):  # a mean's prior depends on the sd
        if name in part.known:
            out[name] = writer.constant(part.known[name])
        elif name in part.priors:
            out[name] = _with_written_prior(part, writer, name)
        else:
            out[name] = default(writer, name, out)
    return out


def _with_written_prior(part: StatePart, writer: Writer, name: str) -> Any:
    prior, shape, dims = part.priors[name], part.shape(name), part.dims(name)
    if prior.ordered:
        return _ordered(writer, prior, name, shape, dims, part.start.get(name))
    arguments = {a: across(v, shape) for a, v in prior.arguments.items()}
    return writer.random(name, prior.word, arguments, shape, dims=dims)


def _ordered(
    writer: Writer, prior: Prior, name: str, shape: tuple[int, ...], dims: tuple[str, ...], start: np.ndarray | None
) -> Any:
    """A parameter that increases with the state; without a start (for simulation), sorted draws."""
    if start is None:
        free = writer.random(f"_{name}_unordered", prior.word, prior.arguments, shape)
        writer.only_pymc("ordered parameters without a start")
        return writer.computed(name, free.sort(), dims)
    lower, upper = prior.support
    begin = _rising(start, lower, upper)
    return writer.random(
        name, prior.word, prior.arguments, shape, dims=dims, start=begin, coordinates=Rising(lower, upper)
    )


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
