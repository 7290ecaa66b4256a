"""Kernels of latent variables as instructions: their arrays, errors, gradients, and loading in another process."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from bayeslab.families.graph.function_layout import IN_TIME_KERNEL, SERIES_KERNEL
from bayeslab.families.graph.function_layout import KERNEL as FUNCTIONS
from bayeslab.families.graph.lowered_functions import COLOURED, COLOURED_GRADIENT, COMPONENT, COMPONENT_GRADIENT
from bayeslab.families.graph.state_components import KERNEL as STATES
from bayeslab.latents.chains import duration, hidden_tree
from bayeslab.latents.chains.forward_backward import SPARSE_KERNEL
from bayeslab.posterior.machine.evidence import arrays_of, called, log_evidence
from bayeslab.posterior.machine.program import Builder
from tests.posterior.machine.checks import check, weighted

RNG = np.random.default_rng(2)


def whole(*numbers):
    return np.array(numbers, dtype=np.int64)


OPS = np.array([[2, 0, 2, 0, 1, 0, -1, -1]], dtype=np.int64)  # ExpQuad of one column
MATERN = np.array([[4, 0, 2, 0, 1, 0, -1, -1]], dtype=np.int64)  # Matern32
Y, X = RNG.standard_normal(5), np.sort(RNG.uniform(0, 5, 4))
#: Kernels, the number of their parameters, and their arrays.
KERNELS = {
    "chain of edges": (SPARSE_KERNEL, 2 + 3 + 10, (whole(0, 3, 5), whole(2, 1, 1), whole(0, 2, 3), whole(0, 1, 1))),
    "segments": (duration.KERNEL, 2 + 4 + 6 + 10, (whole(0, 3, 5), whole(2, 3, 1))),
    "trees": (hidden_tree.KERNEL, 2 + 4 + 10, (whole(-1, 0, 0, -1, 3), whole(0, 0, 0, 1, 1), whole(2, 2))),
    "states": (
        STATES, 5 + 3,
        (Y, whole(0, 0, 1, 3, 3), np.array([True, False, False, True]), np.zeros(4, np.int64), whole([0, 0]).reshape(1, 2),
         whole([1, 1]).reshape(1, 2), whole(1, 1, 1, 1, 1, 1)),
    ),
    "functions": (
        FUNCTIONS, 2 + 1 + 3,
        (Y, whole(0, 1, 1, 2, 3), whole(0, 4), whole(1, 1, 1), np.array([False]), whole([1, 1, 2, 1, 2, 1]).reshape(1, 6),
         np.zeros((1, 4), np.int64), OPS, whole(0), whole(0, 1), np.zeros(2), X[None]),
    ),
    "functions in time": (
        IN_TIME_KERNEL, 2 + 1 + 3,
        (Y, whole(0, 1, 1, 2, 3), whole(0, 4), whole(1, 1, 1), whole(2), MATERN, whole(0, 1), np.zeros(2),
         np.diff(X, prepend=X[0])),
    ),
    "sines": (
        SERIES_KERNEL, 3 + 1 + 3,
        (Y, whole(0, 1, 1, 2, 3), whole(1, 1, 1, 1), whole(0, 0, 0), RNG.standard_normal((4, 3)), np.array([1.0, 2, 1, 1]),
         np.zeros((0, 0))),
    ),
}  # fmt: skip


#: Kernels of two arrays, the shapes of these and of the values, and further arrays.
CALLED = {
    "coloured": (COLOURED, COLOURED_GRADIENT, (2,), (3, 4), (3, 4), (OPS, whole(0), whole(0, 1), np.zeros(2), X[None], np.array([1e-8]))),
    "component": (
        COMPONENT, COMPONENT_GRADIENT, (2, 14), (9,), (5,),
        (np.array([True, False, False, True, False]), whole(0, 2, 3, 4, 6), whole(0, 0, 0, 1, 1), whole([0, 0, 0, 1, 1, 0, 1, 1]).reshape(4, 2),
         whole(2, 1)),
    ),
}  # fmt: skip


def program_of(name):
    if name in CALLED:
        kernel, gradient, first, second, shape, arrays = CALLED[name]
        builder = Builder()
        a, b = (builder.parameter(int(np.prod(each))).reshape(each) for each in (first, second))
        if name == "coloured":
            a = builder.elementwise("exp", a / 3.0)
        return weighted(builder, called(kernel, gradient, a, b, shape, *arrays))
    return evidence_of(name)


def evidence_of(name):
    """The evidence at exponentials for scales, so that every point is inside the support."""
    kernel, size, arrays = KERNELS[name]
    builder = Builder()
    x = builder.parameter(size)
    positive = name in ("states", "functions", "functions in time", "sines")
    value = builder.elementwise("exp", x / 3.0) if positive else x
    if name == "functions in time" or name == "functions":
        value = builder.concatenate([value[:2], np.ones(1), value[3:]])
    out = log_evidence(kernel, value, *arrays)
    builder.add(out, 0.7)
    builder.output("evidence", out)
    return builder.finish()


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", [*KERNELS, *CALLED])
def test_values_and_gradients(name):
    program = program_of(name)
    for _ in range(5):
        check(program, RNG.standard_normal(program.n_dim))


def test_arrays_come_back_from_the_plan():
    builder = Builder()
    given = [np.array([True, False, True]), np.arange(6).reshape(2, 3), np.zeros((0, 0)), np.array([0.5])]
    var = log_evidence("module:function", builder.parameter(2), *given)
    options = var.made.options
    for array, back in zip(given, arrays_of(options["kinds"], options["index"]), strict=True):
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)


@pytest.mark.slow(why="compiles")
def test_where_a_kernel_raises_an_error_the_density_is_not_a_number():
    """A matrix that NumPy cannot factorise."""
    kernel, size, arrays = KERNELS["sines"]
    features = np.full((4, 3), 1e160)
    builder = Builder()
    builder.add(log_evidence(kernel, builder.parameter(size), *arrays[:4], features, *arrays[5:]))
    program = builder.finish()
    value, gradient = program.value_and_gradient(np.ones(size))
    assert not np.isfinite(value)
    assert not np.isfinite(gradient).any()
    assert np.isfinite(program_of("sines").value_and_gradient(np.ones(size))[0])


@pytest.mark.slow(why="processes")
@pytest.mark.parametrize("name", [*KERNELS, *CALLED])
def test_a_process_that_compiles_nothing_runs_the_kernels(name):
    """numba's functions for memory are known to a process in which numba has compiled nothing."""
    program = program_of(name)
    value, gradient = program.value_and_gradient(np.zeros(program.n_dim))
    code = f"""
import numpy as np
from bayeslab.posterior.machine import linked
linked._compiled = None
from tests.posterior.machine.test_evidence import program_of
value, gradient = program_of({name!r}).value_and_gradient(np.zeros({program.n_dim}))
print(value.hex(), gradient.tobytes().hex())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [value.hex(), gradient.tobytes().hex()]
