"""Operations on random quantities, by the program that computes them.

Expressions are evaluated once for each backend: a graph of PyTensor, or a program of the density machine. Whatever
depends on data only is computed by NumPy, in both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

__all__ = ["PYTENSOR", "Backend", "PyTensor"]


class Backend(ABC):
    """Operations on variables: arrays that depend on random quantities."""

    @abstractmethod
    def constant(self, array: np.ndarray) -> Any:
        """An array as a variable."""

    @abstractmethod
    def shape(self, variable: Any) -> tuple[int | None, ...]:
        """The lengths of the axes, None where they are not known."""

    @abstractmethod
    def function(self, name: str) -> Callable[..., Any]:
        """The elementwise function or matrix function of this name."""

    @abstractmethod
    def reduction(self, name: str, value: Any, axis: tuple[int, ...]) -> Any:
        """A reduction, such as ``sum`` or ``sd``, over some axes."""

    @abstractmethod
    def along(self, name: str, value: Any, axis: int) -> Any:
        """A function along an axis, such as ``softmax`` or ``cumsum``."""

    @abstractmethod
    def concatenate(self, values: Sequence[Any], axis: int = 0) -> Any:
        """Variables joined along an axis."""

    @abstractmethod
    def stack(self, values: Sequence[Any], axis: int = 0) -> Any:
        """Variables stacked along a new axis."""

    @abstractmethod
    def broadcast(self, values: Sequence[Any]) -> list[Any]:
        """Variables broadcast to one shape."""

    @abstractmethod
    def broadcast_to(self, value: Any, shape: tuple[int, ...]) -> Any:
        """A variable of exactly this shape."""

    @abstractmethod
    def zeros_like(self, value: Any) -> Any:
        """Real zeros of the shape of a variable."""

    @abstractmethod
    def moveaxis(self, value: Any, source: int, to: int) -> Any:
        """A variable with one axis moved."""

    @abstractmethod
    def contract(self, left: Any, right: Any) -> Any:
        """The sum of products over the last axis of ``left`` and the first of ``right``."""

    @abstractmethod
    def solve_lower(self, matrix: Any, right: Any) -> Any:
        """The solution of a lower triangular system; ``right`` is a vector or a matrix."""

    @abstractmethod
    def diagonal(self, matrix: Any) -> Any:
        """The diagonal of a matrix."""

    @abstractmethod
    def diag(self, vector: Any) -> Any:
        """The diagonal matrix of a vector."""

    def take(self, variable: Any, indices: Sequence[Any]) -> Any:
        """``variable[indices]``, for indices of the first axes."""
        return variable[tuple(indices)]


class PyTensor(Backend):
    """Graphs of PyTensor, which is imported at the first operation."""

    def constant(self, array: np.ndarray) -> Any:
        import pytensor.tensor as pt

        return pt.as_tensor_variable(np.asarray(array))

    def shape(self, variable: Any) -> tuple[int | None, ...]:
        shape: tuple[int | None, ...] = variable.type.shape
        return shape

    def function(self, name: str) -> Callable[..., Any]:
        import pytensor.tensor as pt

        table = _functions()
        return table[name] if name in table else getattr(pt, name)

    def reduction(self, name: str, value: Any, axis: tuple[int, ...]) -> Any:
        import pytensor.tensor as pt

        if name in ("sd", "var"):
            variance = pt.var(value, axis=axis, ddof=1)
            return pt.sqrt(variance) if name == "sd" else variance
        return getattr(pt, name)(value, axis=axis)

    def along(self, name: str, value: Any, axis: int) -> Any:
        import pytensor.tensor as pt

        function = getattr(pt.special, name, None) or getattr(pt, name)
        return function(value, axis=axis)

    def concatenate(self, values: Sequence[Any], axis: int = 0) -> Any:
        import pytensor.tensor as pt

        return pt.concatenate(values, axis=axis)

    def stack(self, values: Sequence[Any], axis: int = 0) -> Any:
        import pytensor.tensor as pt

        return pt.stack(values, axis=axis)

    def broadcast(self, values: Sequence[Any]) -> list[Any]:
        import pytensor.tensor as pt

        return list(pt.broadcast_arrays(*values))

    def broadcast_to(self, value: Any, shape: tuple[int, ...]) -> Any:
        import pytensor.tensor as pt

        value = pt.as_tensor_variable(value)
        return value if value.type.shape == shape else pt.broadcast_to(value, shape)

    def zeros_like(self, value: Any) -> Any:
        import pytensor.tensor as pt

        return pt.zeros_like(value, dtype="float64")

    def moveaxis(self, value: Any, source: int, to: int) -> Any:
        import pytensor.tensor as pt

        return value if value.ndim == 1 or source % value.ndim == to % value.ndim else pt.moveaxis(value, source, to)

    def contract(self, left: Any, right: Any) -> Any:
        import pytensor.tensor as pt

        return left @ right if left.ndim <= 2 and right.ndim <= 2 else pt.tensordot(left, right, axes=1)

    def solve_lower(self, matrix: Any, right: Any) -> Any:
        import pytensor.tensor as pt

        return pt.linalg.solve_triangular(matrix, right, lower=True, b_ndim=right.ndim)

    def diagonal(self, matrix: Any) -> Any:
        import pytensor.tensor as pt

        return pt.diagonal(matrix)

    def diag(self, vector: Any) -> Any:
        import pytensor.tensor as pt

        return pt.diag(vector)

    def take(self, variable: Any, indices: Sequence[Any]) -> Any:
        # PyTensor 3.3 makes a diagonal of two ranges, whose axes are in the wrong order after other simplifications if
        # the variable has more axes (its rewrites local_adv_idx_to_diagonal and local_extract_diag_lift).
        if len(indices) < 2 or variable.ndim == 2 or sum(map(_is_range, indices)) < 2:
            return variable[tuple(indices)]
        lengths = [n or variable.shape[axis] for axis, n in enumerate(variable.type.shape[: len(indices)])]
        flat, index = variable.reshape((-1, *variable.shape[len(indices) :])), np.int64(0)
        for place, n in zip(indices, lengths, strict=True):
            index = index * n + place
        return flat[index]


def _is_range(index: Any) -> bool:
    """Whether an index is known to be whole numbers that follow each other."""
    values = index if isinstance(index, np.ndarray) else getattr(index, "data", None)
    return isinstance(values, np.ndarray) and values.ndim == 1 and bool(np.all(np.diff(values) == 1))


@cache
def _functions() -> dict[str, Callable[..., Any]]:
    import pytensor.tensor as pt

    return {
        "invlogit": pt.sigmoid,
        "logit": lambda p: pt.log(p) - pt.log1p(-p),
        "Phi": lambda x: 0.5 * pt.erfc(-x / np.sqrt(2.0)),
        "invprobit": lambda x: 0.5 * pt.erfc(-x / np.sqrt(2.0)),
        "probit": lambda p: -np.sqrt(2.0) * pt.erfcinv(2.0 * p),
        "outer": pt.mul,
        "add": pt.add,
        "subtract": pt.sub,
        "multiply": pt.mul,
        "divide": pt.true_div,
        "power": pt.pow,
        "floor_divide": pt.int_div,
        "mod": pt.mod,
        "equal": pt.eq,
        "not_equal": pt.neq,
        "less": pt.lt,
        "less_equal": pt.le,
        "greater": pt.gt,
        "greater_equal": pt.ge,
        "negative": pt.neg,
        "logical_and": lambda a, b: pt.and_(pt.neq(a, 0), pt.neq(b, 0)),
        "logical_or": lambda a, b: pt.or_(pt.neq(a, 0), pt.neq(b, 0)),
        "logical_not": lambda a: pt.eq(a, 0),
        "where": lambda c, a, b: pt.switch(c, a, b),
        "digamma": pt.psi,
        "inv": pt.linalg.inv,
        "det": pt.linalg.det,
        "logdet": lambda a: pt.linalg.slogdet(a)[1],
        "cholesky": lambda a: pt.linalg.cholesky(a, lower=True),
        "solve": lambda a, b: pt.linalg.solve(a, b, b_ndim=1 if b.ndim == 1 else 2),
    }


#: The backend of the graph for PyMC.
PYTENSOR = PyTensor()
