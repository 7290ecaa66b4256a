"""The backend of expressions for programs of the density machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bayeslab.language.backends import Backend
from bayeslab.posterior.machine import functions
from bayeslab.posterior.machine.program import Builder

__all__ = ["Machine"]


class Machine(Backend):
    """Operations recorded by a builder.

    Parameters
    ----------
    builder : Builder
    """

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    def constant(self, array: np.ndarray) -> Any:
        return self.builder.constant(array)

    def shape(self, variable: Any) -> tuple[int | None, ...]:
        shape: tuple[int | None, ...] = variable.shape
        return shape

    def function(self, name: str) -> Callable[..., Any]:
        return functions.function_of(name)

    def reduction(self, name: str, value: Any, axis: tuple[int, ...]) -> Any:
        return functions.reduction_of(name)(value, axis)

    def along(self, name: str, value: Any, axis: int) -> Any:
        return functions.function_of(name)(value, axis=axis)

    def concatenate(self, values: Sequence[Any], axis: int = 0) -> Any:
        return self.builder.concatenate(values, axis)

    def stack(self, values: Sequence[Any], axis: int = 0) -> Any:
        return functions.stack([self.builder.as_var(value) for value in values], axis)

    def broadcast(self, values: Sequence[Any]) -> list[Any]:
        variables = [self.builder.as_var(value) for value in values]
        shape = np.broadcast_shapes(*(variable.shape for variable in variables))
        return [variable.broadcast_to(shape) for variable in variables]

    def broadcast_to(self, value: Any, shape: tuple[int, ...]) -> Any:
        return self.builder.as_var(value).broadcast_to(shape)

    def zeros_like(self, value: Any) -> Any:
        return self.builder.constant(np.zeros(value.shape))

    def moveaxis(self, value: Any, source: int, to: int) -> Any:
        return functions.moveaxis(value, source, to)

    def contract(self, left: Any, right: Any) -> Any:
        return functions.tensordot(left, right)

    def solve_lower(self, matrix: Any, right: Any) -> Any:
        return functions.solve_triangular(matrix, right)

    def diagonal(self, matrix: Any) -> Any:
        return functions.diagonal(matrix)

    def diag(self, vector: Any) -> Any:
        return functions.diag(vector)
