"""Sums over discrete variables as instructions of a program: by group, by elimination, and over Markov chains."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from bayeslab.posterior.machine.arrays import Recorder, Var

__all__ = ["eliminated", "eliminated_slowly", "markov_evidence", "markov_slowly", "summed_by_group"]

_HEAD = 14


def summed_by_group(values: Var, groups: np.ndarray, number: int) -> Var:
    """Sums over the last axis by group: (..., values) as (..., groups).

    Parameters
    ----------
    groups
        The group of each value, a number below ``number``.
    """
    *lead, n = values.shape
    rows = int(np.prod(lead, dtype=int))
    index = (number * np.arange(rows)[:, None] + groups).ravel()
    shape = (*lead, number)
    if values.constant:
        out = np.zeros(rows * number)
        np.add.at(out, index, values.value.ravel())
        return values.builder.constant(out.reshape(shape))
    assert n == len(groups)
    return values.builder.emit("scatter", [values.builder.contiguous(values)], shape, index=index, size=rows * number)


def eliminated(builder: Recorder, tables: Var, arrays: Sequence[np.ndarray]) -> Var:
    """Log of the sum over all variables of the product of tables, whose logarithms are given as a flat vector.

    Parameters
    ----------
    arrays
        The plan; see :mod:`bayeslab.latents.networks.elimination_kernels`.
    """
    step_inputs, step_vars, sizes, _, results, offsets, strides, constants = arrays
    length = tables.size
    most_vars, most_inputs = (int(np.diff(ends).max(initial=0)) for ends in (step_vars, step_inputs))
    for s in np.flatnonzero(results >= 0):
        first, last = step_vars[s], step_vars[s + 1] - 1
        length = max(length, int(results[s]) + int(np.prod(sizes[first:last])))
    parts = [step_inputs, step_vars, sizes, results, offsets, strides.ravel(), constants]
    places = _HEAD + np.cumsum([0, *(part.size for part in parts[:-1])])
    steps, width = len(results), strides.shape[1] if strides.size else 1
    head = [tables.size, steps, width, constants.size, length, most_vars, most_inputs, *places]
    plan = np.concatenate([np.array(head), *parts]).astype(np.int64)
    scratch = steps + 2 * length + most_vars + 2 * most_inputs
    return builder.emit("eliminate", [builder.contiguous(tables)], (), scratch=scratch, index=plan)


def eliminated_slowly(tables: np.ndarray, plan: np.ndarray) -> float:
    """The same by NumPy, table by table."""
    size, steps, width, count, length, _, _, *places = (int(n) for n in plan[:_HEAD])
    ends = [*places[1:], places[-1] + count]
    inputs, first_vars, sizes, results, offsets, strides, constants = (
        plan[a:b] for a, b in zip(places, ends, strict=True)
    )
    work = np.zeros(length)
    work[:size] = tables
    total = float(tables[constants].sum())
    for s in range(steps):
        shape = tuple(sizes[first_vars[s] : first_vars[s + 1]].tolist())
        joint = np.zeros(shape)
        for i in range(inputs[s], inputs[s + 1]):
            steps_of = strides[i * width : i * width + len(shape)]
            joint = joint + work[offsets[i] + np.tensordot(steps_of, np.indices(shape), 1)]
        top = joint.max(axis=-1)
        shift = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            out = shift + np.log(np.exp(joint - shift[..., None]).sum(axis=-1))
        if results[s] < 0:
            total += float(out)
        else:
            work[results[s] : results[s] + out.size] = out.ravel()
    return total


def markov_evidence(logs: Var, log_emission: Var, offsets: np.ndarray, n_starts: int = 1, n_steps: int = 1) -> Var:
    """Log evidence of chains of hidden states.

    Parameters
    ----------
    logs
        Log probabilities of first states (n_starts, states), and behind them of transitions (n_steps, states, states).
    log_emission
        Log density of the data of each cell given its state, (cells, states).
    offsets
        Start of each chain, and the number of cells.
    n_starts, n_steps
        1, or one for each chain; 1, or one for each cell, of which that at the start of a chain is not used.
    """
    builder, (cells, k) = logs.builder, log_emission.shape
    plan = np.array([n_starts, n_steps, len(offsets) - 1, *offsets], np.int64)
    scratch = k * k + 3 * cells * k + 2 * k
    return builder.emit("markov", [builder.contiguous(logs), log_emission], (), scratch=scratch, index=plan)


def markov_slowly(logs: np.ndarray, log_emission: np.ndarray, plan: np.ndarray) -> float:
    """The same by NumPy, in logarithms throughout."""
    n_starts, n_steps, _, *offsets = plan.tolist()
    k = log_emission.shape[1]
    starts = logs[: n_starts * k].reshape(n_starts, k)
    moves, total = logs[n_starts * k :].reshape(n_steps, k, k), 0.0
    for s, (begin, end) in enumerate(pairwise(offsets)):
        if begin == end:
            continue
        state = starts[s if n_starts > 1 else 0] + log_emission[begin]
        for t in range(begin + 1, end):
            state = np.logaddexp.reduce(state[:, None] + moves[t if n_steps > 1 else 0], axis=0) + log_emission[t]
        total += float(np.logaddexp.reduce(state))
    return total
