"""Kernels of latent variables that are summed or integrated out, as instructions.

A kernel of :mod:`bayeslab.latents` takes a flat vector of parameters and arrays that describe structure and data, and
returns the log evidence and its gradient. The instruction stores both; the backward pass multiplies the gradient by the
adjoint of the evidence. The arrays lie one after another in one array of whole numbers, the *plan*; see
:func:`bayeslab.posterior.machine.evidence.log_evidence`.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from bayeslab.posterior.machine.kernels.memory import add, load, pointer, store, word

__all__ = ["evidence", "evidence_kernel"]

_OUT, _A, _EXTRA = 4, 8, 28
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
    at, arguments = 0, [f"carray(pointer(word(row, {_A})), (n,), type_f)"]
    for kind in kinds.split(".") if kinds else []:
        shape = "".join(f"word(plan, {at + 1 + k})," for k in range(int(kind[1:])))
        arguments.append(f"carray(pointer(plan + 8 * word(plan, {at})), ({shape}), type_{kind[0]})")
        at += 1 + int(kind[1:])
    lines += [
        f"    value, slopes = function({', '.join(arguments)})",
        "    store(out, 0, value)",
        "    for i in range(n):",
        "        store(out, 1 + i, slopes[i])",
        "    return 0.0",
    ]
    names: dict[str, Any] = {
        "carray": numba.carray, "function": function, "nan": math.nan, "pointer": pointer, "store": store, "word": word,
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
