"""Optimiser steps on a vector of weights, in one pass and in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeslab.compiled import kernel

__all__ = ["adam", "add_penalty", "momentum"]


@kernel(fastmath={"contract", "arcp", "nsz", "reassoc"})
def adam(values: Any, gradient: Any, first: Any, second: Any, rate: float, step: int) -> None:
    """A step of Adam (Kingma and Ba, 2015) with its default constants."""
    b1, b2, epsilon = 0.9, 0.999, 1e-8
    size = rate * np.sqrt(1 - b2**step) / (1 - b1**step)
    for i in range(len(values)):
        g = gradient[i]
        first[i] = b1 * first[i] + (1 - b1) * g
        second[i] = b2 * second[i] + (1 - b2) * g * g
        values[i] -= size * first[i] / (np.sqrt(second[i]) + epsilon)


@kernel
def momentum(values: Any, gradient: Any, velocity: Any, rate: float, share: float) -> None:
    """A step of gradient descent with momentum."""
    for i in range(len(values)):
        velocity[i] = share * velocity[i] - rate * gradient[i]
        values[i] += velocity[i]


@kernel
def add_penalty(gradient: Any, values: Any, strength: Any) -> None:
    """Add the gradient of half the strengths times squared values."""
    for i in range(len(values)):
        gradient[i] += strength[i] * values[i]
