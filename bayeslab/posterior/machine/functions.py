"""Functions of the expression language on arrays of the machine, and array functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bayeslab.posterior.machine.arrays import NotLowered, Recorder, Var
from bayeslab.posterior.machine.operations import ELEMENTWISE, OTHERS

__all__ = [
    "broadcast_to",
    "cholesky",
    "concatenate",
    "function_of",
    "log_det",
    "matmul",
    "moveaxis",
    "reduction_of",
    "solve_triangular",
    "stack",
    "stationary",
    "take",
    "tensordot",
    "zeros_like",
]


def _builder(*values: Any) -> Recorder:
    for value in values:
        if isinstance(value, Var):
            return value.builder
    raise TypeError("no argument belongs to a program")


# ------------------------------------------------------------------------------- arrays of arrays


def concatenate(parts: Sequence[Any], axis: int = 0) -> Var:
    """Arrays joined along an axis."""
    return _builder(*parts).concatenate(parts, axis)


def stack(parts: Sequence[Any], axis: int = 0) -> Var:
    """Arrays of one shape joined along a new axis."""
    builder = _builder(*parts)
    vars_ = [builder.as_var(part) for part in parts]
    axis %= vars_[0].ndim + 1
    key = (slice(None),) * axis + (None,)
    return builder.concatenate([var[key] for var in vars_], axis)


def broadcast_to(value: Any, shape: Sequence[int]) -> Any:
    """An array repeated to a shape."""
    return value.broadcast_to(shape) if isinstance(value, Var) else np.broadcast_to(value, tuple(shape))


def take(value: Var, indices: Any, axis: int = 0) -> Var:
    """Rows of an axis by their positions."""
    return value[(slice(None),) * (axis % value.ndim) + (indices,)]


def moveaxis(value: Var, source: int, to: int) -> Var:
    """The array with an axis at another position."""
    order = [i for i in range(value.ndim) if i != source % value.ndim]
    order.insert(to % value.ndim, source % value.ndim)
    return value.transpose(*order)


def zeros_like(value: Any) -> np.ndarray:
    """Zeros of the same shape."""
    return np.zeros(np.shape(value) if not isinstance(value, Var) else value.shape)


# ------------------------------------------------------------------------------------- matrices


def matmul(left: Any, right: Any) -> Var:
    """The product of vectors and matrices, as NumPy's ``@`` of one or two axes."""
    return _builder(left, right).matmul(left, right)


def tensordot(left: Any, right: Any) -> Var:
    """Sum over the last axis of one and the first of the other."""
    builder = _builder(left, right)
    a, b = builder.as_var(left), builder.as_var(right)
    n = a.shape[-1]
    product = matmul(a.reshape(-1, n) if a.ndim > 2 else a, b.reshape(n, -1) if b.ndim > 2 else b)
    return product.reshape(*a.shape[:-1], *b.shape[1:])


def _square(value: Any, name: str) -> Var:
    if value.ndim != 2 or value.shape[0] != value.shape[1]:
        raise NotLowered(name, f"an array of shape {value.shape}")
    return value


def _matrix(name: str, value: Any, shape: Callable[[int], tuple[int, ...]], scratch: Callable[[int], int]) -> Var:
    var = _square(value, name)
    if var.constant:
        return var.builder.constant(OTHERS[name](var.value))
    n = var.shape[0]
    return var.builder.emit(name, [var.builder.contiguous(var)], shape(n), scratch=scratch(n))


def cholesky(value: Any) -> Var:
    """The lower Cholesky factor; not a number where the matrix is not positive definite."""
    return _matrix("cholesky", value, lambda n: (n, n), lambda n: n * n)


def inv(value: Any) -> Var:
    """The inverse of a matrix."""
    return _matrix("inv", value, lambda n: (n, n), lambda n: n * n)


def log_det(value: Any) -> Var:
    """Logarithm of the absolute determinant."""
    made = value.made if isinstance(value, Var) else None
    if made is not None and made.op == "cholesky":
        return builder_sum_log_diagonal(value)
    return _matrix("log_abs_det", value, lambda n: (), lambda n: 2 * n * n)


def builder_sum_log_diagonal(lower: Var) -> Var:
    """Logarithm of the determinant of a triangular matrix with a positive diagonal."""
    return lower.builder.elementwise("log", diagonal(lower)).sum()


def det(value: Any) -> Var:
    """Determinant."""
    return _matrix("det", value, lambda n: (), lambda n: 2 * n * n)


def solve_triangular(lower: Any, right: Any, *, transposed: bool = False) -> Var:
    """``x`` with ``L x = b``, or ``L' x = b`` if ``transposed``; ``b`` is a vector or a matrix of columns."""
    builder = _builder(lower, right)
    matrix, b = _square(builder.as_var(lower), "solve_lower"), builder.as_var(right)
    columns = b if b.ndim == 2 else b[:, None]
    if matrix.constant and b.constant:
        return builder.constant(OTHERS["solve_lower"](matrix.value, b.value, transposed=transposed))
    args = [builder.contiguous(matrix), builder.contiguous(columns)]
    n, m = columns.shape
    out = builder.emit("solve_lower", args, (n, m), scratch=n * m, transposed=transposed)
    return out if b.ndim == 2 else out[:, 0]


def solve(matrix: Any, right: Any) -> Var:
    """``x`` with ``A x = b``; ``b`` is a vector or a matrix of columns."""
    builder = _builder(matrix, right)
    return matmul(inv(builder.as_var(matrix)), builder.as_var(right))


def diagonal(value: Var) -> Var:
    """The diagonal of a matrix."""
    n = min(value.shape)
    return Var(
        value.builder,
        value.buffer,
        (n,),
        (value.strides[0] + value.strides[1],),
        value.offset,
        value.advance,
        value.dtype,
    )


def diag(value: Var) -> Var:
    """The diagonal matrix of a vector."""
    n = len(value)
    return value.builder.elementwise("multiply", value[:, None], np.eye(n))


def stationary(probabilities: Var) -> Var:
    """The stationary distribution of transition probabilities (..., states, states) between recurrent states.

    Elimination of one state after another, without subtractions [1]_: small probabilities keep their digits.

    References
    ----------
    .. [1] Grassmann, Taksar, Heyman (1985). Regenerative analysis and steady state distributions for Markov chains.
       Operations Research 33, 1107-1116.
    """
    n, moves = probabilities.shape[-1], probabilities
    entering: list[Var] = []
    for k in range(n - 1, 0, -1):
        leaving = moves[..., k, :k]
        into = moves[..., :k, k] / leaving.sum(-1)[..., None]
        entering.append(into)
        moves = moves[..., :k, :k] + into[..., :, None] * leaving[..., None, :]
    # Of the first state one, and of each other what enters it from those before.
    weights = [probabilities.builder.constant(np.ones(probabilities.shape[:-2]))]
    for into in reversed(entering):
        weights.append((stack(weights, -1) * into).sum(-1))
    together = stack(weights, -1)
    return together / together.sum(-1)[..., None]


# -------------------------------------------------------------------------------- one dimension


def _along(op: str, value: Any, axis: int) -> Var:
    var = value
    if var.constant:
        moved = np.moveaxis(var.value, axis, -1)
        return var.builder.constant(np.moveaxis(OTHERS[op](moved), -1, axis))
    moved = moveaxis(var, axis, -1)
    return moveaxis(var.builder.emit(op, [var.builder.contiguous(moved)], moved.shape), -1, axis)


def softmax(value: Any, axis: int = -1) -> Var:
    """Exponentials over their sum along an axis."""
    return _along("softmax", value, axis)


def cumsum(value: Any, axis: int = -1) -> Var:
    """Sums of the values up to each along an axis."""
    return _along("cumsum", value, axis)


def cumprod(value: Any, axis: int = -1) -> Var:
    """Products of the values up to each along an axis."""
    return _along("cumprod", value, axis)


def logsumexp(value: Any, axis: int | Sequence[int] | None = None) -> Var:
    """Logarithm of the sum of exponentials over an axis."""
    return value.builder.reduce("logsumexp", value, axis)


def _clip(x: Any, low: Any, high: Any) -> Var:
    builder = _builder(x, low, high)
    return builder.elementwise("minimum", builder.elementwise("maximum", x, low), high)


def _where(condition: Any, first: Any, second: Any) -> Var:
    builder = _builder(condition, first, second)
    chosen = builder.as_var(condition)
    literal = builder.literal and any(isinstance(v, Var) and v.summed for v in (first, second))
    if chosen.constant and not literal:
        truth = chosen.value != 0
        if truth.all() or not truth.any():
            shape = np.broadcast_shapes(
                *(np.shape(v) if not isinstance(v, Var) else v.shape for v in (condition, first, second))
            )
            return builder.as_var(first if truth.all() else second).broadcast_to(shape)
    return builder.elementwise("where", condition, first, second)


_NAMES = {
    "invlogit": "sigmoid",
    "Phi": "normal_cdf",
    "invprobit": "normal_cdf",
    "probit": "normal_quantile",
    "outer": "multiply",
}
_OTHERS: dict[str, Callable[..., Var]] = {
    "clip": _clip,
    "where": _where,
    "cholesky": cholesky,
    "inv": inv,
    "det": det,
    "logdet": log_det,
    "solve": solve,
    "solve_lower": solve_triangular,
    "softmax": softmax,
    "logsumexp": logsumexp,
    "cumsum": cumsum,
    "cumprod": cumprod,
    "log2": lambda x: _builder(x).elementwise("log", x) * (1 / math.log(2)),
    "log10": lambda x: _builder(x).elementwise("log", x) * (1 / math.log(10)),
}


def function_of(name: str) -> Callable[..., Var]:
    """A function of the expression language on arrays of a program.

    Raises
    ------
    NotLowered
        The machine does not know the function.
    """
    if name in _OTHERS:
        return _OTHERS[name]
    op = _NAMES.get(name, name)
    if op not in ELEMENTWISE:
        raise NotLowered(name, "a function that the machine does not know")

    def call(*args: Any) -> Var:
        return _builder(*args).elementwise(op, *args)

    return call


def reduction_of(name: str) -> Callable[[Var, Sequence[int]], Var]:
    """``sum``, ``mean``, ``prod``, ``min``, ``max``, ``sd`` or ``var`` over axes."""

    def call(value: Var, axis: Sequence[int]) -> Var:
        axes = tuple(axis)
        if name == "mean":
            return value.mean(axes)
        if name in ("sd", "var"):
            kept = tuple(1 if i in axes else n for i, n in enumerate(value.shape))
            count = math.prod(value.shape[i] for i in axes)
            centred = value - value.mean(axes).reshape(kept)
            variance = value.builder.elementwise("square", centred).sum(axes) * (1 / (count - 1))
            return variance if name == "var" else value.builder.elementwise("sqrt", variance)
        return value.builder.reduce(name, value, axes)

    return call
