"""Latent variables summed or integrated out by the kernels of their package, as instructions of a program.

The kernels are those that PyMC graphs use, with numba's run-time functions for memory. They are compiled once on a
computer, as the machine's kernels are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bayeslab.posterior.machine.arrays import Var
from bayeslab.python_evidence import KERNEL, PythonEvidence

__all__ = ["arrays_of", "called", "log_evidence", "python_evidence"]

_TYPES = {"f": np.float64, "i": np.int64, "b": np.bool_}


def log_evidence(kernel: str, parameters: Var, *arrays: np.ndarray) -> Var:
    """log p(data | parameters) as a number of the program.

    Parameters
    ----------
    kernel
        ``module:function`` of a numba function ``(parameters, *arrays) -> (value, gradient)``, with an evaluation by
        NumPy in :mod:`bayeslab.posterior.machine.evidence_slowly`.
    parameters
        A flat vector.
    arrays
        Structure and data: real, whole or logical numbers.
    """
    return _emitted(kernel, parameters, arrays)


def python_evidence(function: Callable[[np.ndarray], tuple[float, np.ndarray]], parameters: Var) -> Var:
    """log p(data | parameters) as a number of the program, by a Python function that returns value and gradient.

    The instruction keeps the function; a program of it can be run in this process only.
    """
    called = PythonEvidence(function)
    return _emitted(KERNEL, parameters, [called.address], kept=called)


def _emitted(kernel: str, parameters: Var, arrays: Sequence[np.ndarray], **kept: Any) -> Var:
    kinds, index = _plan(arrays)
    vector = parameters.builder.contiguous(parameters)
    options = {"kernel": kernel, "kinds": kinds, "index": index, **kept}
    return vector.builder.emit("evidence", [vector], (), scratch=vector.size, **options)


def called(kernel: str, gradient: str, first: Var, second: Var, shape: tuple[int, ...], *arrays: np.ndarray) -> Var:
    """The array that a numba function computes from two others.

    Parameters
    ----------
    kernel
        ``module:function`` of a numba function ``(first, second, *arrays) -> values``, with an evaluation by NumPy in
        :mod:`bayeslab.posterior.machine.evidence_slowly`.
    gradient
        A function of the same module ``(first, second, to_values, *arrays)``: the derivatives by ``first`` and
        ``second``, one after the other, of what has the derivatives ``to_values`` by the values.
    shape
        Of the values.
    """
    builder = first.builder
    inputs = [builder.contiguous(first), builder.contiguous(second)]
    shapes = [*(var.shape for var in inputs), shape]
    kinds, plan = _plan(arrays, [n for each in shapes for n in each])
    head = ".".join(f"f{len(each)}" for each in shapes)
    return builder.emit("called", inputs, shape, kernel=kernel, gradient=gradient, head=head, kinds=kinds, index=plan)


def _plan(arrays: Sequence[np.ndarray], lengths: Sequence[int] = ()) -> tuple[str, np.ndarray]:
    """The kinds of arrays, and the arrays in one behind some lengths."""
    given: list[np.ndarray] = [np.ascontiguousarray(array, _TYPES[_letter(array)]) for array in arrays]
    kinds = ".".join(f"{_letter(array)}{array.ndim}" for array in given)
    head, parts = list(lengths), list[np.ndarray]()
    at = len(head) + sum(1 + array.ndim for array in given)
    for array in given:
        head += [at, *array.shape]
        memory = np.zeros(-(-array.nbytes // 8), np.int64)
        memory.view(np.uint8)[: array.nbytes] = array.reshape(-1).view(np.uint8)
        parts.append(memory)
        at += memory.size
    return kinds, np.concatenate([np.array(head, np.int64), *parts])


def _letter(array: np.ndarray) -> str:
    return "b" if array.dtype.kind == "b" else "i" if array.dtype.kind in "iu" else "f"


def arrays_of(kinds: str, plan: np.ndarray, at: int = 0) -> Sequence[np.ndarray]:
    """The arrays of a plan, whose places begin at a position."""
    out = []
    for kind in kinds.split(".") if kinds else []:
        ndim = int(kind[1:])
        first, *shape = (int(n) for n in plan[at : at + 1 + ndim])
        count, dtype = int(np.prod(shape, dtype=int)), np.dtype(_TYPES[kind[0]])
        memory = plan[first : first - (-count * dtype.itemsize // 8)]
        out.append(memory.view(np.uint8)[: count * dtype.itemsize].view(dtype).reshape(shape))
        at += 1 + ndim
    return out
