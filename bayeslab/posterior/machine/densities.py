"""Densities in programs: choice of a kernel, of a form on the link scale, and of the rows that are included."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bayeslab.posterior.machine.arrays import NotLowered, Recorder, Var, memory_order
from bayeslab.posterior.machine.catalogue import arity, core_of, forms
from bayeslab.posterior.machine.equal_rows import at_rows, grouped
from bayeslab.posterior.machine.least_squares import add_least_squares
from bayeslab.posterior.machine.numpy_densities import log_choose, log_factorial, numpy_density
from bayeslab.posterior.machine.views import permuted

__all__ = ["add_density", "elementwise_density"]


def _linked(name: str, args: list[Var]) -> tuple[str, list[Var]]:
    """The form on the scale of the link, if a parameter is the inverse link of an array."""
    for at, (inverse, form) in forms(name).items():
        made = args[at].made
        if made is not None and made.op == inverse:
            return form, [*args[:at], made.inputs[0].broadcast_to(args[at].shape), *args[at + 1 :]]
    return name, args


def _checked(name: str, args: Sequence[Var]) -> tuple[int, ...]:
    known = arity(name)
    if known is None:
        raise NotLowered(name, "a distribution that the machine does not know")
    if known != len(args):
        raise ValueError(f"{name} takes a value and {known - 1} parameters, {len(args) - 1} given")
    return np.broadcast_shapes(*(arg.shape for arg in args))


def add_density(builder: Recorder, name: str, args: list[Var], weight: Any = None, where: Any = None) -> None:
    """See :meth:`Builder.density`."""
    shape = _checked(name, args)
    if where is not None:
        rows = np.flatnonzero(np.broadcast_to(np.asarray(where) != 0, shape))
        if len(rows) < math.prod(shape):
            at = np.unravel_index(rows, shape)
            if len(shape) == 1 and not builder.repeating and not any(arg.summed for arg in args):
                args = [at_rows(builder, arg.broadcast_to(shape), rows) for arg in args]
            else:
                args = [arg.reshape(()) if arg.size == 1 else arg.broadcast_to(shape)[at] for arg in args]
            if weight is not None:
                weight = builder.as_var(weight).broadcast_to(shape)[at]
            shape = (len(rows),)
    if not math.prod(shape):
        return
    if weight is not None:
        builder.add(builder.as_var(weight) * elementwise_density(builder, name, args))
        return
    if all(arg.constant for arg in args) and not builder.repeating:
        builder.offset += float(np.sum(numpy_density(name, [arg.value for arg in args])))
        return
    if name == "normal" and add_least_squares(builder, args):
        return
    name, args = _linked(name, args)
    name, args = _without_data(builder, name, args, shape)
    _root(builder, *grouped(builder, name, args))


def _root(builder: Recorder, name: str, args: Sequence[Var]) -> None:
    shape = np.broadcast_shapes(*(arg.shape for arg in args))
    operands = [arg.broadcast_to(shape) for arg in args]
    # Constants lie in memory as the arrays that they are compared with.
    dense = next((v for v in operands if not v.constant and v.size and 0 not in v.strides), None)
    if dense is not None and sorted(dense.strides) == sorted(
        permuted(shape, np.argsort([-s for s in dense.strides]).tolist())
    ):
        operands = [builder.laid_out(v, dense.strides) for v in operands]
    operands = builder.joined(operands, shape, output=False)
    builder.root(name, operands, density=True)


def _without_data(builder: Recorder, name: str, args: list[Var], shape: tuple[int, ...]) -> tuple[str, list[Var]]:
    """The part of a density of counts that depends on parameters; the rest is added to the constant."""
    core = core_of(name)
    x = args[0]
    if core is None or not x.constant or builder.repeating or (x.value < 0).any() or (x.value % 1 != 0).any():
        return name, args
    counts = np.broadcast_to(x.value.astype(np.float64), shape)
    if name.startswith("binomial"):
        n = args[1]
        if not n.constant or (np.broadcast_to(n.value, shape) < counts).any():
            return name, args
        builder.offset += float(np.sum(log_choose(np.broadcast_to(n.value, shape), counts)))
    elif name.startswith("negative_binomial"):
        alpha = args[2]
        if alpha.size != 1 or alpha.constant:
            return name, args
        builder.offset -= float(np.sum(log_factorial(counts)))
        distinct, many = np.unique(counts, return_counts=True)
        positive = distinct > 0
        if positive.any():
            _root(
                builder,
                "rising",
                [builder.constant(v[positive]) for v in (distinct, many.astype(float))] + [alpha.reshape(())],
            )
    else:
        builder.offset -= float(np.sum(log_factorial(counts)))
    return core, args


def elementwise_density(builder: Recorder, name: str, args: list[Var]) -> Var:
    """See :meth:`Builder.log_density`."""
    shape = _checked(name, args)
    if all(arg.constant for arg in args):
        return builder.constant(np.broadcast_to(numpy_density(name, [arg.value for arg in args]), shape))
    name, args = _linked(name, args)
    operands = [arg.broadcast_to(shape) for arg in args]
    strides = memory_order(operands, shape)
    if strides is None:
        operands = builder.joined(operands, shape)
    else:
        operands = [builder.laid_out(operand, strides) for operand in operands]
    return builder.emit(name, operands, shape, scratch=len(args) * math.prod(shape), strides=strides, density=True)
