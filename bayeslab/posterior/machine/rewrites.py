"""Rewrites of operations into equal ones that are more accurate or cheaper, as PyTensor makes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayeslab.posterior.machine.arrays import Recorder, Var

__all__ = ["simplified"]


def _maker(var: Var, op: str) -> Var | None:
    """The operand, if the array was made by this operation of one operand."""
    made = var.made
    return made.inputs[0] if made is not None and made.op == op else None


def _scalar(var: Var) -> float | None:
    """The value of a constant that is one number."""
    return float(var.value.reshape(-1)[0]) if var.constant and var.size == 1 else None


def _one_minus(var: Var) -> Var | None:
    """``x`` of an array made as ``1 - x``."""
    made = var.made
    if made is None or made.op != "subtract" or not made.inputs[0].constant:
        return None
    return made.inputs[1] if np.all(made.inputs[0].value == 1.0) else None


def _one_plus(var: Var) -> Var | None:
    """``x`` of an array made as ``1 + x``."""
    made = var.made
    if made is None or made.op != "add":
        return None
    for one, other in (made.inputs, made.inputs[::-1]):
        if one.constant and np.all(one.value == 1.0):
            return other
    return None


def _log(builder: Recorder, x: Var) -> Var | None:
    inner = _maker(x, "exp")
    if inner is not None:
        return inner
    inner = _maker(x, "sigmoid")
    if inner is not None:
        return -builder.elementwise("softplus", -inner)
    inner = _maker(x, "normal_cdf")
    if inner is not None:
        return builder.elementwise("log_normal_cdf", inner)
    inner = _one_minus(x)
    if inner is not None:
        return builder.elementwise("log1p", -inner)
    inner = _one_plus(x)
    if inner is not None:
        return builder.elementwise("log1p", inner)
    made = x.made
    if made is not None and made.op == "softmax":
        return made.inputs[0] - expanded_last(builder.reduce("logsumexp", made.inputs[0], -1))
    if made is not None and made.op == "sum":
        # log sum exp
        inner = _maker(made.inputs[0], "exp") if made.inputs[0].made is not None else None
        if inner is not None:
            axes = list(range(made.inputs[0].ndim - made.options["reduced"], made.inputs[0].ndim))
            return builder.reduce("logsumexp", inner, axes)
    return None


def expanded_last(var: Var) -> Var:
    """The array with a new last axis of length one."""
    return var[(..., None)]


def _log1p(builder: Recorder, x: Var) -> Var | None:
    inner = _maker(x, "exp")
    if inner is not None:
        return builder.elementwise("softplus", inner)
    inner = _maker(x, "negative")
    if inner is not None:
        logits = _maker(inner, "sigmoid")
        if logits is not None:
            return -builder.elementwise("softplus", logits)
        exponent = _maker(inner, "exp")
        if exponent is not None:
            return builder.elementwise("log1mexp", exponent)
        argument = _maker(inner, "normal_cdf")
        if argument is not None:
            return builder.elementwise("log_normal_cdf", -argument)
    return None


def _power(builder: Recorder, x: Var, y: Var) -> Var | None:
    exponent = _scalar(y)
    if exponent is None:
        return None
    if exponent == 1.0 and x.ndim >= y.ndim:
        return x
    op = {2.0: "square", 0.5: "sqrt", -1.0: "reciprocal"}.get(exponent)
    return builder.elementwise(op, x.broadcast_to(np.broadcast_shapes(x.shape, y.shape))) if op else None


def simplified(builder: Recorder, op: str, args: Sequence[Var]) -> Var | None:
    """An equal array that is more accurate or cheaper, or None. PyTensor makes the same rewrites."""
    if op == "log":
        return _log(builder, args[0])
    if op == "log1p":
        return _log1p(builder, args[0])
    if op == "negative":
        return _maker(args[0], "negative")
    if op == "exp":
        return _maker(args[0], "log")
    if op == "logit":
        return _maker(args[0], "sigmoid")
    if op == "power":
        return _power(builder, args[0], args[1])
    if op in ("add", "subtract", "multiply", "divide"):
        return _with_number(op, *args)
    return None


def _with_number(op: str, x: Var, y: Var) -> Var | None:
    """``x + 0``, ``x * 1`` and the like."""
    if op == "subtract" and _scalar(x) == 1.0 and (inner := _maker(y, "sigmoid")) is not None and y.ndim >= x.ndim:
        return y.builder.elementwise("sigmoid", -inner)  # 1 - p has no digits where p is near one
    neutral = 0.0 if op in ("add", "subtract") else 1.0
    if _scalar(y) == neutral and x.ndim >= y.ndim and x.dtype.kind == "f":
        return x
    if op in ("add", "multiply") and _scalar(x) == neutral and y.ndim >= x.ndim and y.dtype.kind == "f":
        return y
    return None
