"""Recursions that are linear in the value before, y[t] = a[t] + b[t] y[t-1], which one kernel computes for all t."""

from __future__ import annotations

from typing import Any

from bayeslab.posterior.machine.arrays import Recorder, Var

__all__ = ["linear_terms"]


def linear_terms(builder: Recorder, new: Var, before: Var) -> tuple[Any, Any] | None:
    """The terms a and b of a loop's body that computes ``a + b * y`` from the value y before.

    Parameters
    ----------
    builder
        Its loop is being recorded. Operations on a and b are done for all iterations at once.
    new
        The next value.
    before
        The value before.

    Returns
    -------
    tuple of Var or float, or None
        None if the body is not linear, or not a recursion.
    """
    terms = _terms(builder, new, before)
    return None if terms is None or _is(terms[1], 0.0) else terms


def _terms(builder: Recorder, var: Var, before: Var) -> tuple[Any, Any] | None:
    if var.buffer is before.buffer:
        return (0.0, 1.0) if var.key == before.key else None
    if var.buffer.loop is None:
        return var, 0.0
    made = var.made
    if made is None or made.op not in _LINEAR or var.shape != before.shape:
        return None
    sides = [_terms(builder, each, before) for each in made.inputs]
    left, right = sides[0], sides[-1]
    if left is None or right is None:
        return None
    (a, b), (c, d) = left, right
    match made.op:
        case "negative":
            return _product(builder, -1.0, a), _product(builder, -1.0, b)
        case "add":
            return _sum(builder, a, c), _sum(builder, b, d)
        case "subtract":
            return _sum(builder, a, _product(builder, -1.0, c)), _sum(builder, b, _product(builder, -1.0, d))
        case "divide":
            if not _is(d, 0.0):
                return None
            return _quotient(builder, a, c), _quotient(builder, b, c)
    if not _is(d, 0.0):
        (a, b), (c, d) = (c, d), (a, b)
    return (_product(builder, a, c), _product(builder, b, c)) if _is(d, 0.0) else None


_LINEAR = frozenset(("add", "subtract", "multiply", "divide", "negative"))


def _is(term: Any, number: float) -> bool:
    return isinstance(term, float) and term == number


def _sum(builder: Recorder, x: Any, y: Any) -> Any:
    if _is(x, 0.0):
        return y
    return x if _is(y, 0.0) else _computed(builder, "add", x, y)


def _product(builder: Recorder, x: Any, y: Any) -> Any:
    if _is(x, 0.0) or _is(y, 0.0):
        return 0.0
    if _is(x, 1.0):
        return y
    return x if _is(y, 1.0) else _computed(builder, "multiply", x, y)


def _quotient(builder: Recorder, x: Any, y: Any) -> Any:
    return 0.0 if _is(x, 0.0) else _computed(builder, "divide", x, y)


def _computed(builder: Recorder, op: str, x: Any, y: Any) -> Any:
    if isinstance(x, float) and isinstance(y, float):
        return {"add": x + y, "multiply": x * y, "divide": x / y if y else float("nan")}[op]
    return builder.elementwise(op, x, y)
