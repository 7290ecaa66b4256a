"""Latent variables summed or integrated out by the kernels of their package, as instructions of a program.

The kernels are those that PyMC graphs use, with numba's run-time functions for memory. They are compiled once on a
computer, as the machine's kernels are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayeslab.posterior.machine.arrays import Var

__all__ = ["arrays_of", "log_evidence"]

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
    given: list[np.ndarray] = [np.ascontiguousarray(array, _TYPES[_letter(array)]) for array in arrays]
    kinds = ".".join(f"{_letter(array)}{array.ndim}" for array in given)
    head, parts, at = list[int](), list[np.ndarray](), sum(1 + array.ndim for array in given)
    for array in given:
        head += [at, *array.shape]
        memory = np.zeros(-(-array.nbytes // 8), np.int64)
        memory.view(np.uint8)[: array.nbytes] = array.reshape(-1).view(np.uint8)
        parts.append(memory)
        at += memory.size
    plan = np.concatenate([np.array(head, np.int64), *parts])
    vector = parameters.builder.contiguous(parameters)
    scratch = vector.size
    return vector.builder.emit("evidence", [vector], (), scratch=scratch, kernel=kernel, kinds=kinds, index=plan)


def _letter(array: np.ndarray) -> str:
    return "b" if array.dtype.kind == "b" else "i" if array.dtype.kind in "iu" else "f"


def arrays_of(kinds: str, plan: np.ndarray) -> Sequence[np.ndarray]:
    """The arrays of a plan."""
    out, at = [], 0
    for kind in kinds.split(".") if kinds else []:
        ndim = int(kind[1:])
        first, *shape = (int(n) for n in plan[at : at + 1 + ndim])
        count, dtype = int(np.prod(shape, dtype=int)), np.dtype(_TYPES[kind[0]])
        memory = plan[first : first - (-count * dtype.itemsize // 8)]
        out.append(memory.view(np.uint8)[: count * dtype.itemsize].view(dtype).reshape(shape))
        at += 1 + ndim
    return out
