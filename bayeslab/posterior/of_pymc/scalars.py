"""PyTensor's functions of numbers as elementwise operations of the machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pytensor.scalar as ps
from pytensor.scalar import math as psm

from bayeslab.posterior.machine.arrays import NotLowered, Var
from bayeslab.posterior.machine.functions import function_of
from bayeslab.posterior.machine.program import Builder

__all__ = ["scalar"]

#: Functions that the machine has under a name.
_NAMES: Mapping[type, str] = {
    ps.Sub: "subtract",
    ps.TrueDiv: "divide",
    ps.IntDiv: "floor_divide",
    ps.Mod: "mod",
    ps.Pow: "power",
    ps.Neg: "negative",
    ps.Reciprocal: "reciprocal",
    ps.Abs: "abs",
    ps.Sign: "sign",
    ps.Ceil: "ceil",
    ps.Floor: "floor",
    ps.RoundHalfToEven: "round",
    ps.Log: "log",
    ps.Log1p: "log1p",
    ps.Exp: "exp",
    ps.Expm1: "expm1",
    ps.Sqr: "square",
    ps.Sqrt: "sqrt",
    ps.Cos: "cos",
    ps.Sin: "sin",
    ps.Tan: "tan",
    ps.ArcCos: "arccos",
    ps.ArcSin: "arcsin",
    ps.ArcTan: "arctan",
    ps.ArcTan2: "arctan2",
    ps.Cosh: "cosh",
    ps.Sinh: "sinh",
    ps.Tanh: "tanh",
    ps.EQ: "equal",
    ps.NEQ: "not_equal",
    ps.LT: "less",
    ps.GT: "greater",
    ps.LE: "less_equal",
    ps.GE: "greater_equal",
    psm.Erf: "erf",
    psm.Erfc: "erfc",
    psm.GammaLn: "gammaln",
    psm.Psi: "digamma",
    psm.Sigmoid: "sigmoid",
    psm.Softplus: "softplus",
    psm.Log1mexp: "log1mexp",
}
#: Functions of any number of operands.
_SEVERAL: Mapping[type, str] = {
    ps.Add: "add",
    ps.Mul: "multiply",
    ps.Maximum: "maximum",
    ps.Minimum: "minimum",
}
#: Logical functions, of Booleans only: of integers they work on bits.
_LOGICAL: Mapping[type, str] = {
    ps.AND: "logical_and",
    ps.OR: "logical_or",
    ps.XOR: "not_equal",
    ps.Invert: "logical_not",
}


def _arcsinh(each: Callable[..., Var], x: Var) -> Var:
    size = each("abs", x)
    return each("sign", x) * each("log1p", size + size**2 / (1.0 + each("sqrt", 1.0 + size**2)))


def _erfcx(each: Callable[..., Var], x: Var) -> Var:
    return each("exp", x**2 + math.log(2.0) + each("log_normal_cdf", x * -math.sqrt(2.0)))


def _trunc(each: Callable[..., Var], x: Var) -> Var:
    return each("sign", x) * each("floor", each("abs", x))


#: Functions made of several operations.
_MADE: Mapping[type, Callable[..., Var]] = {
    ps.Log2: lambda each, x: each("log", x) * (1.0 / math.log(2.0)),
    ps.Log10: lambda each, x: each("log", x) * (1.0 / math.log(10.0)),
    ps.Exp2: lambda each, x: each("exp", x * math.log(2.0)),
    ps.IsNan: lambda each, x: each("not_equal", x, x),
    ps.IsInf: lambda each, x: each("equal", each("abs", x), np.inf),
    ps.Trunc: _trunc,
    ps.RoundHalfAwayFromZero: lambda each, x: each("sign", x) * each("floor", each("abs", x) + 0.5),
    ps.ArcSinh: _arcsinh,
    ps.ArcCosh: lambda each, x: each("log", x + each("sqrt", (x - 1.0) * (x + 1.0))),
    ps.ArcTanh: lambda each, x: 0.5 * (each("log1p", x) - each("log1p", -x)),
    psm.Erfcx: _erfcx,
    psm.Erfinv: lambda each, x: each("normal_quantile", (x + 1.0) * 0.5) * math.sqrt(0.5),
    psm.Erfcinv: lambda each, x: each("normal_quantile", x * 0.5) * -math.sqrt(0.5),
}


def scalar(builder: Builder, op: Any, args: Sequence[Any]) -> Any:
    """A function of numbers, applied to arrays that broadcast.

    Parameters
    ----------
    op
        PyTensor's function of numbers.
    args
        Arrays of the program and of NumPy.

    Raises
    ------
    NotLowered
        The machine does not know the function.
    """
    kind, each = type(op), builder.elementwise
    if kind in _NAMES:
        return each(_NAMES[kind], *args)
    if kind in _SEVERAL:
        return reduce(lambda a, b: each(_SEVERAL[kind], a, b), args)
    if kind in _LOGICAL and all(builder.as_var(arg).dtype.kind == "b" for arg in args):
        return reduce(lambda a, b: each(_LOGICAL[kind], a, b), args) if len(args) > 1 else each(_LOGICAL[kind], *args)
    if kind in _MADE:
        return _MADE[kind](each, *map(builder.as_var, args))
    if kind is ps.Switch:
        return function_of("where")(*args)
    if kind is ps.Clip:
        return function_of("clip")(*args)
    if kind is ps.Identity:
        return args[0]
    if kind is ps.Second:
        shape = np.broadcast_shapes(*(np.shape(a) if not isinstance(a, Var) else a.shape for a in args))
        return builder.as_var(args[1]).broadcast_to(shape)
    if kind is ps.Cast:
        return builder.as_var(args[0]).astype(op.o_type.dtype)
    raise NotLowered(str(op), "a function that the machine does not know")
