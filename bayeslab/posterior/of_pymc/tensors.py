"""PyTensor's operations on arrays as operations of the machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pytensor.scalar as ps
import pytensor.tensor.basic as ptb
import pytensor.tensor.linalg.decomposition.cholesky as ptc
import pytensor.tensor.linalg.inverse as pti
import pytensor.tensor.linalg.solvers.general as ptg
import pytensor.tensor.linalg.solvers.psd as ptp
import pytensor.tensor.linalg.solvers.triangular as ptt
import pytensor.tensor.linalg.summary as pts
import pytensor.tensor.math as ptm
import pytensor.tensor.special as special
import pytensor.tensor.subtensor as sub
from pymc.logprob.utils import CheckParameterValue
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.ops import DeepCopyOp, TypeCastingOp
from pytensor.conditional.op import IfElse
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import ScalarOp
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp, Repeat
from pytensor.tensor.reshape import JoinDims, SplitDims
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape

from bayeslab.posterior.machine.arrays import NotLowered, Var
from bayeslab.posterior.machine.functions import (
    cholesky,
    cumprod,
    cumsum,
    det,
    inv,
    log_det,
    logsumexp,
    softmax,
    solve,
    solve_triangular,
    stack,
)
from bayeslab.posterior.of_pymc.reader import Handler, Reader
from bayeslab.posterior.of_pymc.scalars import scalar

__all__ = ["HANDLERS"]

#: The largest number of matrices that are handled one by one.
_MATRICES = 100
_REDUCTIONS: Mapping[type, str] = {
    ps.Add: "sum",
    ps.Mul: "prod",
    ps.Maximum: "max",
    ps.Minimum: "min",
    ps.AND: "min",
    ps.OR: "max",
}


def _whole(value: Any) -> tuple[int, ...]:
    """Whole numbers that are constant, as of a shape."""
    if isinstance(value, Var):
        value = value.value
    return tuple(int(n) for n in np.ravel(value))


def _shape(value: Any) -> tuple[int, ...]:
    return value.shape if isinstance(value, Var) else np.shape(value)


def _fixed(args: Sequence[Any], what: str) -> list[Any]:
    """Arguments that must not depend on parameters."""
    if any(isinstance(arg, Var) and not arg.constant for arg in args):
        raise NotLowered("", f"{what} that depend on parameters")
    return [arg.value if isinstance(arg, Var) else arg for arg in args]


# -------------------------------------------------------------------------------------- elements


def _elementwise(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    return _of_numbers(reader, op.scalar_op, args, types)


def _of_numbers(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    if isinstance(op, ps.Composite):
        return reader.opened(op, args)
    return scalar(reader.builder, op, args)


def _same(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    return args[0]


# -------------------------------------------------------------------------------- moved elements


def _positions(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(math.prod(shape)).reshape(shape)


def _taken(var: Var, positions: np.ndarray) -> Var:
    """The elements at positions in the order of rows."""
    return var.reshape(-1)[positions]


def moves(function: Callable[..., np.ndarray], what: str = "positions") -> Handler:
    """A handler of an operation that only moves elements of its first input.

    Parameters
    ----------
    function
        ``function(op, array, *others) -> array``
    """

    def handler(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
        var = reader.builder.as_var(args[0])
        return _taken(var, np.asarray(function(op, _positions(var.shape), *_fixed(args[1:], what))))

    return handler


def _key(op: Any, indices: Sequence[Any]) -> tuple[Any, ...]:
    """The index of an operation, with numbers and arrays in place of their positions among the inputs."""

    def of(entry: Any) -> Any:
        if isinstance(entry, slice):
            return slice(*(None if e is None else int(indices[e]) for e in (entry.start, entry.stop, entry.step)))
        index = np.asarray(indices[entry])
        return int(index) if index.ndim == 0 and index.dtype.kind != "b" else index

    return tuple(of(entry) for entry in op.idx_list)


def _indexed(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    return reader.builder.as_var(args[0])[_key(op, _fixed(args[1:], "positions"))]


def _dim_shuffle(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    var, order = args[0], op.new_order
    dropped = [axis for axis in range(var.ndim) if axis not in order]
    kept = [axis for axis in order if axis != "x"]
    moved = var.transpose(*kept, *dropped)[(slice(None),) * len(kept) + (0,) * len(dropped)]
    return moved[tuple(None if axis == "x" else slice(None) for axis in order)]


def _set(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    """An array with other values at some positions, or with values added there."""
    builder = reader.builder
    base, new = builder.as_var(args[0]), builder.as_var(args[1])
    at = _positions(base.shape)[_key(op, _fixed(args[2:], "positions"))]
    new = new.broadcast_to(at.shape)
    if not op.set_instead_of_inc:
        if len(np.unique(at)) < at.size:
            raise NotLowered("", "sums of several values at one position")
        new = _taken(base, at) + new
    flat, first = base.reshape(-1), int(at.min(initial=0))
    if np.array_equal(at.ravel(), first + np.arange(at.size)):
        parts = [flat[:first], new.reshape(-1), flat[first + at.size :]]
        return builder.concatenate([part for part in parts if part.size] or [flat]).reshape(base.shape)
    place = np.arange(base.size)
    place[at.ravel()] = base.size + np.arange(at.size)
    return builder.concatenate([flat, new.reshape(-1)])[place].reshape(base.shape)


def _alloc(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    return reader.builder.as_var(args[0]).broadcast_to([int(n) for n in _fixed(args[1:], "lengths")])


def _join(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    return reader.builder.concatenate(args, op.axis)


def _vector(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    return stack([reader.builder.as_var(arg) for arg in args])


def _split(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    var = reader.builder.as_var(args[0])
    ends = np.cumsum(_whole(_fixed(args[1:], "lengths")[0]))
    lead = (slice(None),) * op.axis
    return [var[(*lead, slice(a, b))] for a, b in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)]


def _size(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    lengths = np.array(_shape(args[0]), dtype=np.int64)
    return lengths[op.i] if isinstance(op, Shape_i) else lengths


# ------------------------------------------------------------------------------------ reductions


def _reduced(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    kind = type(op.scalar_op)
    if kind not in _REDUCTIONS:
        raise NotLowered("", "a reduction that the machine does not know")
    if not args[0].ndim:
        return args[0]
    return reader.builder.reduce(_REDUCTIONS[kind], args[0], op.axis)


def _cumulated(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    function = cumsum if op.mode == "add" else cumprod
    return function(args[0].reshape(-1), -1) if op.axis is None else function(args[0], op.axis)


def _kept(shape: tuple[int, ...], axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def _axes(op: Any, ndim: int) -> tuple[int, ...]:
    axis = range(ndim) if op.axis is None else op.axis
    return tuple(int(a) % ndim for a in ([axis] if isinstance(axis, int) else axis))


def _softmax(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    axes = _axes(op, args[0].ndim)
    if len(axes) == 1:
        return softmax(args[0], axes[0])
    return _map(reader, "exp", _log_softmax(reader, op, args, types))


def _log_softmax(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    (x,), axes = args, _axes(op, args[0].ndim)
    return x - logsumexp(x, axes).reshape(_kept(x.shape, axes))


def _log_sum_exp(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    return logsumexp(args[0], _axes(op, args[0].ndim))


def _log_add_exp(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    return reduce(lambda a, b: _map(reader, "logaddexp", a, b), args)


def _map(reader: Reader, op: str, *args: Any) -> Var:
    return reader.builder.elementwise(op, *args)


def _times_log(function: str) -> Handler:
    """``x log y``, or ``x log(1 + y)``, which is 0 where x is."""

    def handler(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
        x, y = map(reader.builder.as_var, args)
        product = x * _map(reader, function, y)
        if x.constant and np.all(x.value):
            return product
        return _map(reader, "where", _map(reader, "equal", x, 0.0), 0.0, product)

    return handler


# -------------------------------------------------------------------------------------- matrices


def _product(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    return reader.builder.matmul(*args)


def _products(reader: Reader, left: Var, right: Var) -> Var:
    """Products of several matrices, the last two axes of each array."""
    if right.size == math.prod(right.shape[-2:]):
        rows = left.reshape(-1, left.shape[-1])
        return reader.builder.matmul(rows, right.reshape(right.shape[-2:])).reshape(
            *np.broadcast_shapes(left.shape[:-2], right.shape[:-2]), left.shape[-2], right.shape[-1]
        )
    return (left[..., None] * right[..., None, :, :]).sum(-2)


def _blockwise(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    """An operation on the last axes of arrays."""
    core, builder = op.core_op, reader.builder
    args = [builder.as_var(arg) for arg in args]
    lead = args[0].ndim - len(op.inputs_sig[0])
    batch = np.broadcast_shapes(*(arg.shape[:lead] for arg in args))
    if isinstance(core, ptm.Dot) and math.prod(batch) > 1:
        return _products(reader, *args)
    if math.prod(batch) > _MATRICES:
        raise NotLowered("", f"{math.prod(batch):,} matrices")
    args = [arg.broadcast_to((*batch, *arg.shape[lead:])) for arg in args]
    out = [reader.applied(core, [arg[at] for arg in args], types) for at in np.ndindex(batch)]
    if len(out) == 1:
        return [builder.as_var(v)[(None,) * len(batch)] for v in out[0]]
    whole = [stack([builder.as_var(each[k]) for each in out]) for k in range(len(out[0]))]
    return [v.reshape(*batch, *v.shape[1:]) for v in whole]


def _cholesky(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    lower = cholesky(reader.builder.as_var(args[0]))
    return lower if op.lower else lower.T


def _solve_triangular(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    if op.unit_diagonal:
        raise NotLowered("", "a diagonal of ones that is not read")
    matrix, right = map(reader.builder.as_var, args)
    return solve_triangular(matrix, right) if op.lower else solve_triangular(matrix.T, right, transposed=True)


def _solve_cholesky(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    factor, right = map(reader.builder.as_var, args)
    lower = factor if op.lower else factor.T
    return solve_triangular(lower, solve_triangular(lower, right), transposed=True)


def _solve(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    matrix, right = map(reader.builder.as_var, args)
    if op.assume_a in ("pos", "positive definite"):
        lower = cholesky(matrix if op.lower else matrix.T)
        return solve_triangular(lower, solve_triangular(lower, right), transposed=True)
    if op.assume_a not in ("gen", "general"):
        raise NotLowered("", f"a matrix of the kind {op.assume_a}")
    return solve(matrix, right)


def _inverse(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    return inv(reader.builder.as_var(args[0]))


def _det(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    return det(reader.builder.as_var(args[0]))


def _sign_and_log_det(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    matrix = reader.builder.as_var(args[0])
    return [_map(reader, "sign", det(matrix)), log_det(matrix)]


# ------------------------------------------------------------------------------------ conditions


def _check(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    """A value under conditions: of a density, it is minus infinity where they do not hold."""
    value, *conditions = args
    builder = reader.builder
    conditions = [c for c in map(builder.as_var, conditions) if not (c.constant and bool(np.all(c.value)))]
    if not conditions:
        return value
    if not (isinstance(op, CheckParameterValue) and op.can_be_replaced_by_ninf):
        raise NotLowered("", "a condition on parameters")
    valid = reduce(lambda a, b: _map(reader, "logical_and", a, b), conditions)
    value = builder.as_var(value)
    return _map(reader, "where", valid.broadcast_to(np.broadcast_shapes(valid.shape, value.shape)), value, -np.inf)


def _if_else(reader: Reader, op: Any, args: Sequence[Any], types: Sequence[Any]) -> Any:
    (condition,) = _fixed(args[:1], "branches")
    half = (len(args) - 1) // 2
    return list(args[1 : 1 + half] if np.all(condition) else args[1 + half :])


_MOVED: Mapping[type, Callable[..., np.ndarray]] = {
    Reshape: lambda op, x, shape: x.reshape([int(n) for n in shape]),
    JoinDims: lambda op, x: x.reshape(
        *x.shape[: op.start_axis],
        math.prod(x.shape[op.start_axis : op.start_axis + op.n_axes]),
        *x.shape[op.start_axis + op.n_axes :],
    ),
    SplitDims: lambda op, x, shape: x.reshape(*x.shape[: op.axis], *(int(n) for n in shape), *x.shape[op.axis + 1 :]),
    ptb.ExtractDiag: lambda op, x: np.diagonal(x, op.offset, op.axis1, op.axis2),
    Repeat: lambda op, x, counts: np.repeat(x, counts, axis=op.axis),
}


def _shaped(kind: type) -> Handler:
    return moves(_MOVED[kind], "lengths")


#: How operations are read, by their class.
HANDLERS: dict[type, Handler] = {
    Elemwise: _elementwise,
    ScalarOp: _of_numbers,
    OpFromGraph: lambda reader, op, args, types: reader.opened(op, args),
    TypeCastingOp: _same,
    DeepCopyOp: _same,
    SpecifyShape: _same,
    ptb.TensorFromScalar: _same,
    ptb.ScalarFromTensor: _same,
    DimShuffle: _dim_shuffle,
    sub.Subtensor: _indexed,
    sub.AdvancedSubtensor: _indexed,
    sub.IncSubtensor: _set,
    sub.AdvancedIncSubtensor: _set,
    **{kind: _shaped(kind) for kind in _MOVED},
    ptb.Alloc: _alloc,
    ptb.Join: _join,
    ptb.MakeVector: _vector,
    ptb.Split: _split,
    Shape: _size,
    Shape_i: _size,
    CAReduce: _reduced,
    CumOp: _cumulated,
    special.Softmax: _softmax,
    special.LogSoftmax: _log_softmax,
    special.LogSumExp: _log_sum_exp,
    special.LogAddExp: _log_add_exp,
    special.XLogY: _times_log("log"),
    special.XLog1PY: _times_log("log1p"),
    ptm.Dot: _product,
    Blockwise: _blockwise,
    ptc.Cholesky: _cholesky,
    ptt.SolveTriangular: _solve_triangular,
    ptp.CholeskySolve: _solve_cholesky,
    ptg.Solve: _solve,
    pti.MatrixInverse: _inverse,
    pts.Det: _det,
    pts.SLogDet: _sign_and_log_det,
    CheckAndRaise: _check,
    IfElse: _if_else,
}
