"""PyTensor's scans as loops of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayeslab.posterior.machine.arrays import NotLowered, Var
from bayeslab.posterior.machine.program import Builder
from bayeslab.posterior.of_pymc.reader import UNREAD, Reader

__all__ = ["scanned"]


def scanned(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> list[Any]:
    """The arrays that a scan computes, whose first rows are its initial values."""
    info, builder = op.info, reader.builder
    if info.as_while or info.mit_mot_in_slices or info.n_untraced_sit_sot:
        raise NotLowered("", "a scan with a stopping condition, random numbers or rows that it changes")
    (steps,) = np.ravel(args[0]).tolist()
    taps = [*info.mit_sot_in_slices, *((-1,) for _ in range(info.n_sit_sot))]
    if any(tap >= 0 for each in taps for tap in each):
        raise NotLowered("", "a scan over rows that follow")
    starts = [*op.outer_mitsot(args), *op.outer_sitsot(args)]
    lags = [-min(each) for each in taps]
    initial = [builder.as_var(start)[:lag] for start, lag in zip(starts, lags, strict=True)]
    rows = [builder.as_var(row)[:steps] for row in op.outer_seqs(args)]
    fixed = dict(zip(op.inner_non_seqs(op.inner_inputs), op.outer_non_seqs(args), strict=True))
    heads = [*op.inner_mitsot_grouped(op.inner_inputs), *([v] for v in op.inner_sitsot(op.inner_inputs))]

    def body(inside: Reader, past: Sequence[Any], current: Sequence[Any], others: dict[Any, Any]) -> list[Any]:
        known = dict(zip(op.inner_seqs(op.inner_inputs), current, strict=True))
        for variables, each, lag, window in zip(heads, taps, lags, past, strict=False):
            known |= {variable: window[lag + tap] for variable, tap in zip(variables, each, strict=True)}
        out = inside.inside(known | others).values(op.inner_outputs)
        if any(value is UNREAD for value in out):
            raise NotLowered("", "its rows have an unknown operation")
        return out

    new = _new_rows(reader, op, body, initial, rows, fixed)
    out = builder.loop(steps, lambda past, current: body(reader, past, current, fixed), [*initial, *new], rows)
    # A scan gives back its initial values, too: they lie before the rows that are computed.
    whole = [_with_initial(each, start) for each, start in zip(out, initial, strict=False)]
    return [*whole, *out[len(initial) :]]


def _with_initial(rows: Var, initial: Var) -> Var:
    """The rows of a recursion and its initial values, which lie before them in memory."""
    lag = initial.shape[0]
    if rows.buffer is initial.buffer:  # there are no steps
        return initial
    return Var(rows.builder, rows.buffer, (lag + rows.shape[0], *rows.shape[1:]))


def _new_rows(
    reader: Reader, op: Any, body: Any, initial: Sequence[Var], rows: Sequence[Var], fixed: dict[Any, Any]
) -> list[np.ndarray]:
    """For rows on which no others depend: their past, which is empty, in their shape."""
    if not op.info.n_nit_sot:
        return []
    shapes = [variable.type.shape for variable in op.inner_nitsot_outs(op.inner_outputs)]
    if any(None in shape for shape in shapes):
        # In a program that is thrown away.
        builder = Builder()
        dry = Reader(builder, reader.handlers)

        def alike(value: Any) -> Any:
            if not isinstance(value, Var) or value.constant:
                return value.value if isinstance(value, Var) else value
            return builder.parameter(value.size).reshape(value.shape)

        others = {variable: alike(value) for variable, value in fixed.items()}
        values = body(dry, [alike(start) for start in initial], [alike(row[0]) for row in rows], others)
        shapes = [np.shape(v) if not isinstance(v, Var) else v.shape for v in op.inner_nitsot_outs(values)]
    return [np.zeros((0, *shape)) for shape in shapes]
