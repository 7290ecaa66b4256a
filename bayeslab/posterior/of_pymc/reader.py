"""Reads PyTensor graphs into programs of the machine, operation by operation.

What depends on data alone is computed by PyTensor's operations themselves, in Python. The shapes of all arrays are
known, so that operations that only move numbers, such as indexing, are read by applying them to positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import toposort
from pytensor.scalar import ScalarType
from pytensor.scan.op import Scan
from pytensor.tensor.basic import AllocEmpty
from pytensor.tensor.random.op import RNGConsumerOp
from pytensor.tensor.random.type import RandomType

from bayeslab.posterior.machine.arrays import NotLowered, Var
from bayeslab.posterior.machine.program import Builder

__all__ = ["UNREAD", "Gap", "Handler", "Reader"]

#: Reads one operation: ``(reader, op, values of the inputs, types of the outputs) -> value, or list of values``.
type Handler = Callable[["Reader", Any, Sequence[Any], Sequence[Any]], Any]


class _Unread:
    """The value of a variable that depends on an operation that the machine does not know."""

    def __repr__(self) -> str:
        return "<not read>"


UNREAD = _Unread()


@dataclass(frozen=True, order=True)
class Gap:
    """An operation that the machine does not know.

    Attributes
    ----------
    node : str
        The variable of the model that needs it.
    operation : str
    reason : str
    """

    node: str
    operation: str
    reason: str


class Reader:
    """Values of the variables of PyTensor graphs: arrays of a program, or arrays of NumPy for what is constant.

    Parameters
    ----------
    builder
    handlers
        What reads an operation, by its class.
    known
        Values of variables at which graphs begin.

    Attributes
    ----------
    gaps : set of Gap
        Operations that could not be read so far.
    node : str
        The variable of the model that is being read, for :attr:`gaps`.
    """

    def __init__(
        self, builder: Builder, handlers: Mapping[type, Handler], known: Mapping[Variable, Any] | None = None
    ) -> None:
        self.builder, self.handlers = builder, handlers
        self.known: dict[Variable, Any] = dict(known or {})
        self.gaps: set[Gap] = set()
        self.node = ""

    def inside(self, known: Mapping[Variable, Any]) -> Reader:
        """A reader of a graph inside an operation, with the same program and gaps."""
        out = Reader(self.builder, self.handlers, known)
        out.gaps, out.node = self.gaps, self.node
        return out

    def values(self, variables: Iterable[Variable]) -> list[Any]:
        """Values of variables; :data:`UNREAD` for those that depend on unknown operations."""
        wanted = list(variables)
        for node in toposort(wanted, self.known):
            self._read(node)
        return [self._of(variable) for variable in wanted]

    def value(self, variable: Variable) -> Any:
        """The value of one variable."""
        return self.values([variable])[0]

    def var(self, variable: Variable) -> Var:
        """The array of a variable.

        Raises
        ------
        NotLowered
            It depends on an operation that the machine does not know.
        """
        value = self.value(variable)
        if value is UNREAD:
            raise NotLowered(self.node, "depends on an unknown operation")
        return self.builder.as_var(value)

    def numbers(self, variable: Variable) -> np.ndarray | None:
        """The value of a variable that is constant; None if it is not."""
        value = self.value(variable)
        if isinstance(value, Var):
            return value.value if value.constant else None
        return None if value is UNREAD else np.asarray(value)

    def _of(self, variable: Variable) -> Any:
        if variable not in self.known:
            if isinstance(variable, Constant):
                self.known[variable] = variable.data
            elif isinstance(variable.type, RandomType):
                self.known[variable] = None
            elif isinstance(variable, SharedVariable):
                self.known[variable] = variable.get_value(borrow=True)
            else:
                self._gap(str(variable), "an input without a value")
                self.known[variable] = UNREAD
        return self.known[variable]

    def _gap(self, operation: str, reason: str) -> None:
        self.gaps.add(Gap(self.node, operation, reason))

    def _read(self, node: Apply) -> None:
        args = [self._of(variable) for variable in node.inputs]
        if any(arg is UNREAD for arg in args):
            out: Any = [UNREAD] * len(node.outputs)
        else:
            try:
                out = self.applied(node.op, args, [v.type for v in node.outputs], node)
            except NotLowered as error:
                self._gap(_name(node.op), error.reason if error.node in (_name(node.op), "") else str(error))
                out = [UNREAD] * len(node.outputs)
        self.known.update((v, _typed(value, v.type)) for v, value in zip(node.outputs, out, strict=True))

    def applied(self, op: Any, args: Sequence[Any], types: Sequence[Any], node: Apply | None = None) -> list[Any]:
        """Values of the outputs of an operation.

        Raises
        ------
        NotLowered
            The machine does not know it.
        """
        if isinstance(op, RNGConsumerOp):
            raise NotLowered(_name(op), "random numbers that are not a variable of the model")
        handler = next((self.handlers[kind] for kind in type(op).__mro__ if kind in self.handlers), None)
        constant = not any(isinstance(arg, Var) and not arg.constant for arg in args)
        if constant and isinstance(op, OpFromGraph):
            return self.opened(op, args)  # which PyTensor would compile
        if constant and node is not None and not isinstance(op, Scan):
            return _performed(node, [arg.value if isinstance(arg, Var) else arg for arg in args])
        if handler is None:
            raise NotLowered(_name(op), "an operation that the machine does not know")
        out = handler(self, op, args, types)
        return list(out) if isinstance(out, list | tuple) else [out]

    def opened(self, op: Any, args: Sequence[Any]) -> list[Any]:
        """Values of the outputs of an operation that is a graph of others."""
        return self.inside(dict(zip(op.inner_inputs, args, strict=True))).values(op.inner_outputs)


def _typed(value: Any, type_: Any) -> Any:
    """A value that is known to be whole numbers or Booleans where PyTensor knows it."""
    kind = np.dtype(getattr(type_, "dtype", float)).kind
    if not isinstance(value, Var) or kind == "f" or value.dtype.kind != "f":
        return value
    out = Var(value.builder, value.buffer, value.shape, value.strides, value.offset, value.advance)
    out.dtype, out.made = np.dtype(bool if kind == "b" else np.int64), value.made
    return out


def _name(op: Any) -> str:
    op = getattr(op, "core_op", op)
    return str(getattr(op, "scalar_op", op)).partition("{")[0]


def _performed(node: Apply, args: Sequence[Any]) -> list[Any]:
    """The outputs of an operation on constants, by PyTensor in Python."""
    if isinstance(node.op, AllocEmpty):
        return [np.zeros([int(n) for n in args], dtype=node.op.dtype)]
    storage: list[list[Any]] = [[None] for _ in node.outputs]
    cast = [_as(variable.type, arg) for variable, arg in zip(node.inputs, args, strict=True)]
    node.op.prepare_node(node, None, None, "py")
    with np.errstate(all="ignore"):
        node.op.perform(node, cast, storage)
    return [cell for (cell,) in storage]


def _as(type_: Any, value: Any) -> Any:
    """A value in the type that an operation expects."""
    if value is None or not hasattr(type_, "dtype"):
        return value
    array = np.asarray(value, dtype=type_.dtype)
    return array[()] if isinstance(type_, ScalarType) else array
