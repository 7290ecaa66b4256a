"""Checks of programs: values by the slow evaluation, gradients by its finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from bayeslab.posterior.machine.arrays import Var
from bayeslab.posterior.machine.program import Builder, Program

__all__ = ["check", "differences", "weighted"]

STEP = 6e-6


def differences(program: Program, point: np.ndarray) -> np.ndarray:
    """The gradient of the slow evaluation."""
    eye = np.eye(program.n_dim)
    return np.array([(program.value(point + STEP * e) - program.value(point - STEP * e)) / (2 * STEP) for e in eye])


def check(program: Program, point: np.ndarray) -> None:
    value, gradient = program.value_and_gradient(point)
    assert value == pytest.approx(program.value(point), rel=1e-11, abs=1e-11)
    np.testing.assert_allclose(gradient, differences(program, point), rtol=2e-6, atol=2e-6)
    for name, slow in program.slow_outputs(point[None]).items():
        np.testing.assert_allclose(program.outputs(point[None])[name], slow, rtol=1e-12, atol=1e-13)


def weighted(builder: Builder, out: Var) -> Program:
    """A total in which every value has another weight, so that no mistake cancels."""
    weights = 0.5 + np.arange(out.size).reshape(out.shape) / 7.0
    builder.add(builder.elementwise("multiply", out, weights))
    builder.add(builder.elementwise("square", out), 0.3)
    builder.output("out", out)
    return builder.finish()
