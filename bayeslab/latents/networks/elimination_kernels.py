"""Variable elimination for discrete variables, on the log scale.

All tables are in one flat vector; the plan has the offsets and strides of each step's factors. A step multiplies the
factors of one variable and sums it out. The result is a table over the variable's neighbours, which is appended to the
vector; without neighbours it is a number, a term of the total. The gradient runs through the steps in reverse.

A plan is eight arrays of integers:

``step_inputs``  (steps + 1)  where the inputs of each step begin
``step_vars``    (steps + 1)  where the variables of each step begin; the last of them is the one summed out
``var_sizes``    (variables)  number of values of each
``var_cells``    (variables)  which cell it is
``out``          (steps)      where the step's table begins in the vector; -1: its sum is a number of the total
``offsets``      (inputs)     where an input's table begins
``strides``      (inputs, most)  of the step's variables in that table; 0 where it does not have one
``constants``                 entries that belong to no variable
"""

from __future__ import annotations

import math

import numpy as np

from bayeslab.compiled import inner, kernel

__all__ = ["draw", "log_sum", "parts"]

_NEVER = -math.inf


@inner
def _sum_of(work, first, last, places, shift, offsets):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(first, last):
        total += work[offsets[i] + places[i - first] + shift[i - first]]
    return total


@inner
def _forward(work, first, last, sizes, strides, offsets, out):  # type: ignore[no-untyped-def]
    """One step: write its table from ``out`` on, or, if ``out`` is -1, return its sum."""
    r = sizes.size - 1
    k = sizes[r]
    n = last - first
    digits = np.zeros(r, np.int64)
    places = np.zeros(n, np.int64)
    shift = np.zeros(n, np.int64)
    configurations = 1
    for j in range(r):
        configurations *= sizes[j]
    single = 0.0
    for c in range(configurations):
        high = _NEVER
        total = 0.0
        for i in range(n):
            shift[i] = 0
        for _ in range(k):
            value = _sum_of(work, first, last, places, shift, offsets)
            if value != value:
                high = value
                break
            if value > high:
                total = total * math.exp(high - value) + 1.0 if high > _NEVER else 1.0
                high = value
            elif value > _NEVER:
                total += math.exp(value - high)
            for i in range(n):
                shift[i] += strides[first + i, r]
        log_sum = high + math.log(total) if high > _NEVER else high
        if out >= 0:
            work[out + c] = log_sum
        else:
            single = log_sum
        for j in range(r - 1, -1, -1):
            digits[j] += 1
            if digits[j] < sizes[j]:
                for i in range(n):
                    places[i] += strides[first + i, j]
                break
            for i in range(n):
                places[i] -= strides[first + i, j] * (sizes[j] - 1)
            digits[j] = 0
    return single


@inner
def _backward(work, slopes, log_sum, first, last, sizes, strides, offsets, out):  # type: ignore[no-untyped-def]
    """Add the derivatives of a step's table to those of its inputs."""
    r = sizes.size - 1
    k = sizes[r]
    n = last - first
    digits = np.zeros(r, np.int64)
    places = np.zeros(n, np.int64)
    shift = np.zeros(n, np.int64)
    configurations = 1
    for j in range(r):
        configurations *= sizes[j]
    for c in range(configurations):
        slope = slopes[out + c] if out >= 0 else 1.0
        value = work[out + c] if out >= 0 else log_sum
        if slope != 0.0 and value > _NEVER:
            for i in range(n):
                shift[i] = 0
            for _ in range(k):
                share = slope * math.exp(_sum_of(work, first, last, places, shift, offsets) - value)
                for i in range(n):
                    slopes[offsets[first + i] + places[i] + shift[i]] += share
                    shift[i] += strides[first + i, r]
        for j in range(r - 1, -1, -1):
            digits[j] += 1
            if digits[j] < sizes[j]:
                for i in range(n):
                    places[i] += strides[first + i, j]
                break
            for i in range(n):
                places[i] -= strides[first + i, j] * (sizes[j] - 1)
            digits[j] = 0


@inner
def _filled(tables, step_inputs, step_vars, var_sizes, out, offsets, strides):  # type: ignore[no-untyped-def]
    """The tables followed by those of all steps, and the sums of the steps without neighbours."""
    steps = out.size
    most = tables.size
    for s in range(steps):
        if out[s] >= 0:
            size = 1
            for j in range(step_vars[s], step_vars[s + 1] - 1):
                size *= var_sizes[j]
            most = max(most, out[s] + size)
    work = np.empty(most)
    work[: tables.size] = tables
    singles = np.zeros(steps)
    for s in range(steps):
        sizes = var_sizes[step_vars[s] : step_vars[s + 1]]
        singles[s] = _forward(work, step_inputs[s], step_inputs[s + 1], sizes, strides, offsets, out[s])
    return work, singles


@kernel
def log_sum(tables, step_inputs, step_vars, var_sizes, var_cells, out, offsets, strides, constants):  # type: ignore[no-untyped-def]
    """Log of the sum over all variables of the product of the tables, and its gradient."""
    work, singles = _filled(tables, step_inputs, step_vars, var_sizes, out, offsets, strides)
    slopes = np.zeros(work.size)
    value = singles.sum()
    for i in range(constants.size):
        value += tables[constants[i]]
        slopes[constants[i]] += 1.0
    for s in range(out.size - 1, -1, -1):
        sizes = var_sizes[step_vars[s] : step_vars[s + 1]]
        _backward(work, slopes, singles[s], step_inputs[s], step_inputs[s + 1], sizes, strides, offsets, out[s])
    return value, slopes[: tables.size].copy()


@kernel
def parts(tables, step_inputs, step_vars, var_sizes, var_cells, out, offsets, strides, constants):  # type: ignore[no-untyped-def]
    """The sums of the steps, for many draws; sums of steps without neighbours, and constants, add up to ``log_sum``."""
    sums = np.empty((tables.shape[0], out.size))
    for d in range(tables.shape[0]):
        sums[d] = _filled(tables[d], step_inputs, step_vars, var_sizes, out, offsets, strides)[1]
    return sums


@kernel
def draw(tables, uniform, step_inputs, step_vars, var_sizes, var_cells, out, offsets, strides, constants):  # type: ignore[no-untyped-def]
    """Joint draws of all variables: one row for each row of ``uniform``.

    ``tables`` has one row for each draw, or a single row for all. With a single row, weights that depend on no other
    variable are computed once.
    """
    states = np.zeros(uniform.shape, np.int64)
    work, _ = _filled(tables[0], step_inputs, step_vars, var_sizes, out, offsets, strides)
    begins = np.zeros(out.size + 1, np.int64)
    for s in range(out.size):
        begins[s + 1] = begins[s] + var_sizes[step_vars[s + 1] - 1]
    every = np.zeros(begins[out.size])
    for d in range(uniform.shape[0]):
        if d > 0 and tables.shape[0] > 1:
            work, _ = _filled(tables[d], step_inputs, step_vars, var_sizes, out, offsets, strides)
        for s in range(out.size - 1, -1, -1):
            low, last = step_vars[s], step_vars[s + 1] - 1
            first, end = step_inputs[s], step_inputs[s + 1]
            weights = every[begins[s] : begins[s + 1]]
            if d == 0 or last > low or tables.shape[0] > 1:
                weights[:] = 0.0
                for i in range(first, end):
                    place = offsets[i]
                    for j in range(last - low):
                        place += strides[i, j] * states[d, var_cells[low + j]]
                    for v in range(weights.size):
                        weights[v] += work[place + v * strides[i, last - low]]
                weights[:] = np.exp(weights - weights.max())
            left = uniform[d, var_cells[last]] * weights.sum()
            v = 0
            while v < weights.size - 1 and left >= weights[v]:
                left -= weights[v]
                v += 1
            states[d, var_cells[last]] = v
    return states
