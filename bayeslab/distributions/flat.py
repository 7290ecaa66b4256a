"""Flat: every number has density 1, which does not integrate to one."""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import Array, Fused, Slopes, Values, declared

DECLARATION = declared("Flat", "", proper=False)


def canonical() -> Values:
    """There are no parameters."""
    return ()


def log_density(x: Array) -> Array:
    """Log density of each number."""
    return 0.0 * x


def slopes(x: Array) -> Slopes:
    """Derivatives of the log density: by x, then by each parameter."""
    return (0.0 * x,)


def fused(x: float) -> Fused:
    """Log density of one number, and its derivative."""
    return 0.0, 0.0
