"""The interpreter: runs the instructions of a program forward and backward."""

from __future__ import annotations

from typing import Any

from numba import int64

from bayeslab.posterior.machine.kernels.memory import call, jit, load, release, store, store_word, take_lock, word

__all__ = ["driver"]

# Words and bytes of an instruction.
_WORDS, _BYTES = 32, 256
# Words of the header of an arena, and of the list of arenas.
_ARENA_WORDS, _LIST_WORDS = 16, 16


@jit(error_model="numpy")
def _advance(row: int, body: int, steps: int) -> None:
    """Move the rows of a loop's body on by a number of steps."""
    for i in range(body):
        now = row + 2 * _BYTES * i
        for w in range(_WORDS):
            store_word(now, w, word(now, w) + steps * word(now, _WORDS + w))


@jit(error_model="numpy")
def _run(code: int, count: int) -> float:
    """Run rows; the sum of what their kernels return.

    A row without a kernel is a loop: it holds the number of steps and of instructions in its body, and whether they
    run backwards; each instruction is followed by the increments of its words from one step to the next. They are
    moved on in place, and back after the last step.
    """
    total, k = 0.0, 0
    while k < count:
        row = code + _BYTES * k
        kernel = word(row, 0)
        if kernel != 0:
            total += call(kernel, row)
            k += 1
            continue
        steps, body, first = word(row, 1), word(row, 2), row + _BYTES
        if word(row, 3):
            _advance(first, body, steps - 1)
            for _ in range(steps):
                for i in range(body):
                    now = first + 2 * _BYTES * i
                    total += call(word(now, 0), now)
                    for w in range(_WORDS):
                        store_word(now, w, word(now, w) - word(now, _WORDS + w))
            _advance(first, body, 1)
        else:
            for _ in range(steps):
                for i in range(body):
                    now = first + 2 * _BYTES * i
                    total += call(word(now, 0), now)
                    for w in range(_WORDS):
                        store_word(now, w, word(now, w) + word(now, _WORDS + w))
            _advance(first, body, -steps)
        k += 1 + 2 * body
    return total


@jit(error_model="numpy")
def _arena(arenas: int) -> int:
    """The address of a free arena, which is locked."""
    count, first, size = word(arenas, 0), word(arenas, 1), word(arenas, 2)
    while True:
        for i in range(count):
            arena = first + i * size
            if word(arena, 0) == 0 and take_lock(arena):
                return arena


def density(n: Any, point: int, gradient: int, value: int, arenas: int) -> int:
    """Log density and gradient: 0, 3 where the gradient and 4 where the density is not finite."""
    arena = _arena(arenas)
    code, forward, backward = word(arena, 1), word(arena, 2), word(arena, 3)
    values, adjoints, size = word(arena, 4), word(arena, 5), word(arena, 6)
    for i in range(size):
        store(adjoints, i, 0.0)
    dimensions = word(arena, 8)
    for i in range(dimensions):
        store(values, i, load(point, i))
    total = load(arena, 9) + _run(code, forward)
    status = 0
    if total - total == 0.0:
        _run(code + _BYTES * forward, backward)
        for i in range(dimensions):
            slope = load(adjoints, i)
            store(gradient, i, slope)
            if slope - slope != 0.0:
                status = 3
    else:
        status = 4
        for i in range(dimensions):
            store(gradient, i, total - total)
    store(value, 0, total)
    release(arena)
    return status


def sweep(count: int, points: int, results: int, arenas: int) -> int:
    """Run a program at many points and copy its results."""
    arena = _arena(arenas)
    code, forward = word(arena, 1), word(arena, 2)
    values, dimensions = word(arena, 4), word(arena, 8)
    source, size = word(arena, 10), word(arena, 11)
    for k in range(count):
        for i in range(dimensions):
            store(values, i, load(points, k * dimensions + i))
        _run(code, forward)
        for i in range(size):
            store(results, k * size + i, load(source, i))
    release(arena)
    return 0


def copy(n: Any, m: Any, source: int, target: int, arenas: int) -> int:
    """Copy a vector: the draws of a sampler as they are."""
    for i in range(int64(n)):
        store(target, i, load(source, i))
    return 0


def driver() -> dict[str, tuple[Any, str]]:
    """Functions by name, with their signatures in C."""
    return {
        "density": (density, "int64(uint64, int64, int64, int64, int64)"),
        "sweep": (sweep, "int64(int64, int64, int64, int64)"),
        "copy": (copy, "int64(uint64, uint64, int64, int64, int64)"),
    }
