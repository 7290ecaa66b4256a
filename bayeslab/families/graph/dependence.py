"""Dependence of each cell of a result on the cells of discrete variables, read from a PyTensor graph.

Every variable of the graph has an incidence matrix, with a row for each of its cells and a column for each discrete
cell. Operations that only move cells (indexing, transposing, repeating) are applied to cell numbers; elementwise
operations take the union of rows; every result of an unknown operation depends on all of its inputs. Dependences may
therefore be overestimated, which makes sums larger than necessary, but none is missed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Constant
from pytensor.graph.replace import clone_replace, graph_replace
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.scalar.basic import Second
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor
from scipy.sparse import csr_array, vstack

__all__ = ["scopes_of"]

_MOVING = (DimShuffle, Reshape, Alloc, SpecifyShape, ScalarFromTensor, TensorFromScalar)
_INDEXING = (Subtensor, AdvancedSubtensor)


def scopes_of(
    output: Any, cells: Mapping[Any, np.ndarray], number: int, standing: Mapping[Any, Any]
) -> list[np.ndarray]:
    """The discrete cells that each cell of a variable depends on.

    Parameters
    ----------
    output : TensorVariable
    cells
        The discrete variables, each with the numbers of its cells in its shape.
    number : int
        Number of discrete cells.
    standing
        Placeholder values of variables without a value (parameters), used only for shapes and indices.

    Returns
    -------
    list of ndarray of int
        One for each cell of the output, in C order, sorted.
    """
    (output,) = _inlined([output])
    graph = _Graph(output, cells, number, standing)
    matrix = graph.matrix(output)
    size = int(np.prod(graph.shape(output)))
    if matrix is None:
        return [np.empty(0, np.int64)] * size
    matrix.sum_duplicates()
    return [matrix.indices[a:b].astype(np.int64) for a, b in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)]


def _inlined(outputs: list[Any]) -> list[Any]:
    """The graph with operations that contain graphs (softmax and the like) expanded."""
    while True:
        inner = [v for v in ancestors(outputs) if v.owner is not None and isinstance(v.owner.op, OpFromGraph)]
        if not inner:
            return outputs
        node = inner[0].owner
        made = node.op.fgraph.bind(dict(zip(node.op.fgraph.inputs, node.inputs, strict=True)))
        changes = dict(zip(node.outputs, made, strict=True))
        outputs = [changes.get(v, v) for v in outputs]
        rest = {k: v for k, v in changes.items() if k in set(ancestors(outputs))}
        outputs = list(graph_replace(outputs, rest, strict=False)) if rest else outputs


class _Graph:
    """The incidence matrices of one graph's variables."""

    def __init__(self, output: Any, cells: Mapping[Any, np.ndarray], number: int, standing: Mapping[Any, Any]) -> None:
        self.number = number
        self._matrices: dict[Any, Any] = {
            symbol: csr_array(
                (np.ones(at.size, bool), (np.arange(at.size), at.ravel())), shape=(at.size, number), dtype=bool
            )
            for symbol, at in cells.items()
        }
        order = list(io_toposort([], [output]))
        moving, unsure = set(cells), set(standing)
        self._nodes = []
        for node in order:
            if isinstance(node.op, Shape | Shape_i):
                continue
            if any(i in moving for i in node.inputs):
                moving.update(node.outputs)
                self._nodes.append(node)
            if any(i in unsure for i in node.inputs):
                unsure.update(node.outputs)
        self._unsure = unsure | moving
        self._values = self._evaluated(output, cells, standing)
        for node in self._nodes:
            if not any(i in self._matrices for i in node.inputs):
                continue  # depends only on the shape of a variable
            for out, matrix in zip(node.outputs, self._of(node), strict=True):
                if matrix is not None:
                    self._matrices[out] = matrix

    def matrix(self, variable: Any) -> Any:
        """The variable's matrix, or None if it depends on no discrete cell."""
        return self._matrices.get(variable)

    def shape(self, variable: Any) -> tuple[int, ...]:
        static = getattr(variable.type, "shape", ())
        if None not in static:
            return tuple(static)
        return tuple(int(n) for n in self._shapes[variable])

    def _evaluated(self, output: Any, cells: Mapping[Any, np.ndarray], standing: Mapping[Any, Any]) -> dict[Any, Any]:
        """Values of what is neither discrete nor a parameter beside what moves; shapes that are not known."""
        beside = {
            i
            for node in self._nodes
            for i in node.inputs
            if i not in self._unsure and not isinstance(i, Constant) and hasattr(i.type, "dtype")
        }
        around = {v for node in self._nodes for v in (*node.inputs, *node.outputs)} | {output}
        open_shapes = [v for v in around if None in getattr(v.type, "shape", ())]
        wanted = [*beside, *(v.shape for v in open_shapes)]
        given = {symbol: pt.constant(np.zeros(at.shape, symbol.dtype)) for symbol, at in cells.items()} | dict(standing)
        values: list[Any] = []
        if wanted:
            mode = pytensor.compile.mode.Mode("py", None)
            function = pytensor.function([], clone_replace(wanted, given, rebuild_strict=False), mode=mode)
            values = function()
        self._shapes = dict(zip(open_shapes, values[len(beside) :], strict=True))
        return dict(zip(beside, values, strict=False))

    def _value(self, variable: Any) -> Any:
        return variable.data if isinstance(variable, Constant) else self._values[variable]

    # -- rules

    def _of(self, node: Any) -> list[Any]:
        op = node.op
        if isinstance(op, Elemwise):
            inputs = node.inputs[1:] if isinstance(op.scalar_op, Second) else node.inputs
            return [self._elementwise(inputs, self.shape(node.outputs[0]))]
        if isinstance(op, _INDEXING) and not self._sure(node.inputs[1:]):
            return [self._uncertain_index(node)]
        if isinstance(op, (*_MOVING, *_INDEXING)):
            if node.inputs[0] in self._matrices and self._sure(node.inputs[1:]):
                return [self._moved(node, {0: self._numbers(node.inputs[0])}, self._matrices[node.inputs[0]])]
        elif isinstance(op, Join | MakeVector):
            return [self._joined(node)]
        elif isinstance(op, CAReduce | CumOp):
            axis = op.axis if not isinstance(op, CumOp) else None if op.axis is None else (op.axis,)
            return [self._along(node, axis, keep=isinstance(op, CumOp))]
        elif isinstance(op, Blockwise):
            return self._blockwise(node)
        return self._everything(node)

    def _sure(self, variables: Sequence[Any]) -> bool:
        return not any(v in self._unsure for v in variables)

    def _numbers(self, variable: Any) -> np.ndarray:
        shape = self.shape(variable)
        return np.arange(int(np.prod(shape))).reshape(shape)

    def _elementwise(self, inputs: Sequence[Any], shape: tuple[int, ...]) -> Any:
        out = None
        for variable in inputs:
            matrix = self._matrices.get(variable)
            if matrix is not None:
                rows = np.broadcast_to(self._numbers(variable), shape).ravel()
                part = matrix[rows]
                out = part if out is None else out + part
        return out

    def _moved(self, node: Any, numbers: Mapping[int, np.ndarray], matrix: Any) -> Any:
        """Apply an operation that moves cells to their numbers."""
        storage: list[list[Any]] = [[None]]
        arguments = [numbers[k] if k in numbers else self._value(v) for k, v in enumerate(node.inputs)]
        if isinstance(node.op, ScalarFromTensor | TensorFromScalar):
            return matrix
        node.op.perform(node, arguments, storage)
        return matrix[np.asarray(storage[0][0]).ravel().astype(np.int64)]

    def _joined(self, node: Any) -> Any:
        numbers, matrices, at = {}, [], 0
        for k, variable in enumerate(node.inputs):
            here = self._numbers(variable)
            numbers[k] = here + at
            at += here.size
            matrix = self._matrices.get(variable)
            matrices.append(csr_array((here.size, self.number), dtype=bool) if matrix is None else matrix)
        return self._moved(node, numbers, vstack(matrices, format="csr"))

    def _along(self, node: Any, axis: Any, *, keep: bool) -> Any:
        """Every result along an axis depends on all cells along it."""
        variable = node.inputs[0]
        shape = self.shape(variable)
        axes = tuple(range(len(shape))) if axis is None else tuple(a % len(shape) for a in axis)
        kept = tuple(1 if k in axes else n for k, n in enumerate(shape))
        groups = np.broadcast_to(np.arange(int(np.prod(kept))).reshape(kept), shape).ravel()
        joined = self._gathered(self._matrices[variable], groups, int(np.prod(kept)))
        return joined[groups] if keep else joined

    def _gathered(self, matrix: Any, groups: np.ndarray, number: int) -> Any:
        mix = csr_array((np.ones(groups.size, bool), (groups, np.arange(groups.size))), shape=(number, groups.size))
        return (mix.astype(np.int32) @ matrix.astype(np.int32)).astype(bool)

    def _uncertain_index(self, node: Any) -> Any:
        """Indexing by discrete cells or parameters: the result may be any cell along the axis."""
        base, indices = node.inputs[0], node.inputs[1:]
        shape = self.shape(node.outputs[0])
        vectors = all(getattr(i.type, "ndim", None) is not None and i.type.dtype != "bool" for i in indices)
        if not (isinstance(node.op, AdvancedSubtensor) and vectors and self._leading(node)):
            return self._everything(node)[0]
        drawn = np.broadcast_shapes(*(self.shape(i) for i in indices))
        rest = shape[len(drawn) :]
        places = np.broadcast_to(np.arange(int(np.prod(drawn))).reshape(drawn + (1,) * len(rest)), shape).ravel()
        out = None
        for index in indices:
            matrix = self._matrices.get(index)
            if matrix is not None:
                part = matrix[np.broadcast_to(self._numbers(index), drawn).ravel()][places]
                out = part if out is None else out + part
        if base in self._matrices:
            whole = self.shape(base)
            free = [k for k, index in enumerate(indices) if not self._sure([index])]
            kept = tuple(1 if k in free else n for k, n in enumerate(whole))
            groups = np.broadcast_to(np.arange(int(np.prod(kept))).reshape(kept), whole)
            joined = self._gathered(self._matrices[base], groups.ravel(), int(np.prod(kept)))
            at = tuple(
                np.zeros((), np.int64) if k in free else np.asarray(self._value(i)) for k, i in enumerate(indices)
            )
            taken = np.broadcast_to(groups[np.broadcast_arrays(*at, np.empty(drawn))[: len(at)]], shape)
            out = joined[taken.ravel()] if out is None else out + joined[taken.ravel()]
        return out

    def _leading(self, node: Any) -> bool:
        """Whether the indices are arrays for the first axes, in their order, and nothing else."""
        places, count = node.op.idx_list, len(node.inputs) - 1
        return list(places[:count]) == list(range(count)) and all(p == slice(None) for p in places[count:])

    def _blockwise(self, node: Any) -> list[Any]:
        """Within a batch every result depends on everything; batches are independent."""
        lead = node.op.batch_ndim(node)
        batch = self.shape(node.outputs[0])[:lead]
        joined = None
        for variable in node.inputs:
            matrix = self._matrices.get(variable)
            if matrix is None:
                continue
            shape = self.shape(variable)
            lead_shape, core = shape[:lead], int(np.prod(shape[lead:]))
            each = self._gathered(
                matrix, np.repeat(np.arange(int(np.prod(lead_shape))), core), int(np.prod(lead_shape))
            )
            part = each[np.broadcast_to(np.arange(int(np.prod(lead_shape))).reshape(lead_shape), batch).ravel()]
            joined = part if joined is None else joined + part
        outs = []
        for out in node.outputs:
            core = int(np.prod(self.shape(out)[lead:]))
            outs.append(None if joined is None else joined[np.repeat(np.arange(int(np.prod(batch))), core)])
        return outs

    def _everything(self, node: Any) -> list[Any]:
        """Each result depends on all inputs."""
        matrices = [self._matrices[v] for v in node.inputs if v in self._matrices]
        used = np.unique(np.concatenate([m.indices for m in matrices])) if matrices else np.empty(0, np.int64)
        outs = []
        for out in node.outputs:
            size = int(np.prod(self.shape(out))) if hasattr(out.type, "shape") else 1
            rows = np.repeat(np.arange(size), used.size)
            columns = np.tile(used, size)
            outs.append(csr_array((np.ones(rows.size, bool), (rows, columns)), shape=(size, self.number), dtype=bool))
        return outs
