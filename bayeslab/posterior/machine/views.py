"""Strides of views: reshaping without a copy, and positions of values in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["affine", "flat_positions", "free_loops", "merged_loops", "permuted", "reshaped_strides", "row_major"]


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of an array whose last axis is contiguous."""
    out, step = [], 1
    for n in reversed(shape):
        out.append(step)
        step *= max(n, 1)
    return tuple(reversed(out))


def flat_positions(shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """Position of each value relative to the first, an array of the view's shape."""
    out = np.zeros((), np.int64)
    for n, step in zip(shape, strides, strict=True):
        out = out[..., None] + step * np.arange(n)
    return out


def affine(positions: np.ndarray) -> tuple[int, ...] | None:
    """Strides that give these positions, or None if there are none."""
    first = positions[(0,) * positions.ndim]
    strides = []
    for axis, n in enumerate(positions.shape):
        second = tuple(int(i == axis) for i in range(positions.ndim))
        strides.append(int(positions[second] - first) if n > 1 else 0)
    exact = np.array_equal(flat_positions(positions.shape, strides) + first, positions)
    return tuple(strides) if exact else None


def merged_loops(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> list[tuple[int, tuple[int, ...]]]:
    """Nested loops over a shape, outermost first, as few as the operands' strides allow.

    Parameters
    ----------
    shape
        Lengths of the axes.
    strides
        Strides of each operand.

    Returns
    -------
    list of (length, stride of each operand)
    """
    out: list[tuple[int, tuple[int, ...]]] = []
    for axis in reversed(range(len(shape))):
        n, steps = shape[axis], tuple(s[axis] for s in strides)
        if n == 1:
            continue
        if out and all(inner * out[-1][0] == outer for inner, outer in zip(out[-1][1], steps, strict=True)):
            out[-1] = (out[-1][0] * n, out[-1][1])
        else:
            out.append((n, steps))
    return out[::-1]


def free_loops(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> list[tuple[int, tuple[int, ...]]]:
    """As :func:`merged_loops`, in any order of the axes: the loop over the closest values is the innermost."""
    order = sorted(range(len(shape)), key=lambda axis: [-abs(s[axis]) for s in strides])
    return merged_loops([shape[axis] for axis in order], [[s[axis] for axis in order] for s in strides])


def permuted(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Strides of an array whose axes lie in memory in an order, the last one contiguous."""
    out = [0] * len(shape)
    for axis, step in zip(order, row_major([shape[axis] for axis in order]), strict=True):
        out[axis] = step
    return tuple(out)


def reshaped_strides(shape: Sequence[int], strides: Sequence[int], new: Sequence[int]) -> tuple[int, ...] | None:
    """Strides of the same values in another shape, or None if they must be copied."""
    if 0 in new:
        return row_major(new)
    runs = merged_loops(shape, [strides])
    out = [0] * len(new)
    axis = len(new) - 1
    for n, (step,) in reversed(runs):
        left = n
        while left > 1:
            while axis >= 0 and new[axis] == 1:
                axis -= 1
            if axis < 0 or left % new[axis]:
                return None
            out[axis] = step
            step *= new[axis]
            left //= new[axis]
            axis -= 1
    return tuple(out)
