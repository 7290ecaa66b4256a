"""Kernels of latent variables that are summed or integrated out, as instructions.

A kernel of :mod:`bayeslab.latents` takes a flat vector of parameters and arrays that describe structure and data, and
returns the log evidence and its gradient. The instruction stores both; the backward pass multiplies the gradient by the
adjoint of the evidence. The arrays lie one after another in one array of whole numbers, the *plan*; see
:func:`bayeslab.posterior.machine.evidence.log_evidence`.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numba
import numpy as np

from bayeslab.posterior.machine.kernels.memory import add, load, pointer, store, word

__all__ = ["called_kernels", "evidence", "evidence_kernel"]

_OUT, _A, _B, _EXTRA = 4, 8, 12, 28
_TYPES = {"type_f": np.float64, "type_i": np.int64, "type_b": np.bool_}


def evidence_kernel(function: Any, kinds: str) -> Any:
    """The kernel of an instruction that calls a numba function ``(parameters, *arrays) -> (value, gradient)``.

    Parameters
    ----------
    kinds
        Of each array a letter, ``f``, ``i`` or ``b``, and the number of its axes, as ``f1.i2``.
    """
    lines = [
        "def kernel(row):",
        f"    out, plan, n = word(row, {_OUT}), word(row, {_EXTRA}), word(row, 2)",
        "    store(out, 0, nan)",  # what stays if the function raises an error
    ]
    arguments = [f"carray(pointer(word(row, {_A})), (n,), type_f)", *_arrays(kinds, 0)]
    lines += [
        f"    value, slopes = function({', '.join(arguments)})",
        "    store(out, 0, value)",
        "    for i in range(n):",
        "        store(out, 1 + i, slopes[i])",
        "    return 0.0",
    ]
    return _defined(lines, function)


def called_kernels(function: Any, gradient: Any, head: str, kinds: str) -> dict[str, Any]:
    """The kernels of an instruction that calls a numba function of two arrays.

    Parameters
    ----------
    head
        Kinds of the two arrays and of the values, whose lengths begin the plan.
    """
    ndims = [int(kind[1:]) for kind in head.split(".")]
    ends = [0, ndims[0], ndims[0] + ndims[1], sum(ndims)]
    shapes = ["".join(f"word(plan, {k})," for k in range(a, b)) for a, b in pairwise(ends)]
    a, b, to_values = (
        f"carray(pointer(word(row, {at})), ({shape}), type_f)"
        for at, shape in zip((_A, _B, _OUT + 1), shapes, strict=True)
    )
    arrays = _arrays(kinds, ends[-1])
    start = ["def kernel(row):", f"    plan = word(row, {_EXTRA})"]
    forward = [
        *start,
        f"    out, n = word(row, {_OUT}), word(row, {_EXTRA + 1})",
        "    for i in range(n):",
        "        store(out, i, nan)",
        f"    values = function({', '.join([a, b, *arrays])}).ravel()",
        "    for i in range(n):",
        "        store(out, i, values[i])",
        "    return 0.0",
    ]
    backward = [
        *start,
        f"    first, second, n, m = word(row, {_A + 1}), word(row, {_B + 1}), word(row, 1), word(row, 2)",
        f"    slopes = function({', '.join([a, b, to_values, *arrays])})",
        "    for i in range(n):",
        "        add(first, i, slopes[i])",
        "    for i in range(m):",
        "        add(second, i, slopes[n + i])",
        "    return 0.0",
    ]
    return {"forward": _defined(forward, function), "backward": _defined(backward, gradient)}


def _arrays(kinds: str, at: int) -> list[str]:
    """The arrays of a plan as they are written in a kernel."""
    out = []
    for kind in kinds.split(".") if kinds else []:
        shape = "".join(f"word(plan, {at + 1 + k})," for k in range(int(kind[1:])))
        out.append(f"carray(pointer(plan + 8 * word(plan, {at})), ({shape}), type_{kind[0]})")
        at += 1 + int(kind[1:])
    return out


def _defined(lines: list[str], function: Any) -> Any:
    names: dict[str, Any] = {
        "add": add, "carray": numba.carray, "function": function, "nan": math.nan, "pointer": pointer, "store": store,
        "word": word,
    } | _TYPES  # fmt: skip
    exec("\n".join(lines), names)
    return names["kernel"]


def evidence_backward(row: int) -> float:
    """The gradient that the forward pass left behind the evidence, times its adjoint."""
    slope, gradient, to = load(word(row, _OUT + 1), 0), word(row, _OUT), word(row, _A + 1)
    for i in range(word(row, 2)):
        add(to, i, slope * load(gradient, 1 + i))
    return 0.0


def evidence() -> dict[str, Any]:
    """Kernels by name."""
    return {"evidence_backward": evidence_backward}
