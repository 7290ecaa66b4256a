"""Terms of rows, (N, n_terms), from a compiled kernel as one differentiable PyTensor node.

Like :class:`bayeslab.evidence.EvidenceOp`, for kernels whose value is a matrix: a second kernel computes the
vector-Jacobian product. The graph stays small, whatever the number of patterns of missing cells.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib import import_module
from inspect import getsource
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_and_cache_key

__all__ = ["RowSlopeOp", "RowTermsOp", "normal_terms"]

_NORMAL = "bayeslab.latents.partitions.normal_kernels:normal_terms"


class _KernelOp(Op):
    """Base of both operations: a numba function given as ``module:name``."""

    __props__: tuple[str, ...] = ("kernel",)

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel

    @property
    def function(self) -> Any:
        module, _, name = self.kernel.partition(":")
        return getattr(import_module(module), name)

    def perform(self, node: Apply, inputs: Sequence[Any], outputs: Any) -> None:
        outputs[0][0] = self.function(*(np.ascontiguousarray(i) for i in inputs))


class RowTermsOp(_KernelOp):
    """Terms (N, n_terms) of parameters (a flat vector) and arrays that describe the rows.

    Parameters
    ----------
    kernel : str
        ``module:function`` of a numba function ``(parameters, *arrays) -> terms``; the same name with ``_slope`` is
        ``(cotangent, parameters, *arrays) -> gradient``.
    n_rows, n_terms : int
    """

    __props__ = ("kernel", "n_rows", "n_terms")

    def __init__(self, kernel: str, n_rows: int, n_terms: int) -> None:
        super().__init__(kernel)
        self.n_rows, self.n_terms = n_rows, n_terms

    def make_node(self, parameters: Any, *arrays: Any) -> Apply:
        inputs = [pt.as_tensor_variable(parameters, dtype="float64"), *(pt.as_tensor_variable(a) for a in arrays)]
        return Apply(self, inputs, [pt.dmatrix(shape=(self.n_rows, self.n_terms))])

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        return [[True], *([False] for _ in node.inputs[1:])]

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        return [(pt.as_tensor_variable(self.n_rows), pt.as_tensor_variable(self.n_terms))]

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]
    ) -> list[Variable]:
        slope = RowSlopeOp(f"{self.kernel}_slope")(cotangents[0], *inputs)
        return [slope, *(disconnected_type() for _ in inputs[1:])]


class RowSlopeOp(_KernelOp):
    """The vector-Jacobian product of the terms with respect to the parameters."""

    def make_node(self, cotangent: Any, parameters: Any, *arrays: Any) -> Apply:
        inputs = [pt.as_tensor_variable(i) for i in (cotangent, parameters, *arrays)]
        return Apply(self, inputs, [pt.dvector(shape=inputs[1].type.shape)])

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        return [shapes[1]]


@register_funcify_and_cache_key(RowTermsOp)
@register_funcify_and_cache_key(RowSlopeOp)
def _compiled(op: _KernelOp, node: Any, **_: Any) -> tuple[Any, str]:
    kernel = op.function

    @numba_njit
    def terms(*inputs):  # type: ignore[no-untyped-def]
        return kernel(*inputs)

    # Kernels call functions of their own module only, so its source is all their code.
    text = getsource(import_module(op.kernel.partition(":")[0]))
    return terms, hashlib.sha256(f"terms 1 {op.kernel} {text}".encode()).hexdigest()


def normal_terms(at: Any, packed: Any, rows: np.ndarray, centre: np.ndarray, root: np.ndarray) -> tuple[Any, Any]:
    """Squared distances and halves of log determinants of precisions, (N, K) each, over observed cells.

    Parameters
    ----------
    at, packed : TensorVariable (K, d), (K, d (d + 1) / 2)
        Means and factors in the coordinates L^-1 (x - c).
    rows : ndarray (N, d)
        NaN for missing cells.
    centre, root : ndarray
        c and L.
    """
    rows = np.ascontiguousarray(rows, dtype=float)
    kinds, kind = np.unique(~np.isnan(rows), axis=0, return_inverse=True)
    order = np.argsort(kind.ravel(), kind="stable")
    offsets = np.append(0, np.cumsum(np.bincount(kind.ravel(), minlength=len(kinds))))
    white = np.ascontiguousarray(np.linalg.solve(root, (rows - centre).T).T)
    k = int(at.type.shape[0])
    terms = RowTermsOp(_NORMAL, len(rows), 2 * k)(
        pt.concatenate([at.ravel(), packed.ravel()]), rows, white, order.astype(np.int64), offsets.astype(np.int64),
        kinds.astype(np.int64), np.ascontiguousarray(centre, dtype=float), np.ascontiguousarray(root, dtype=float),
    )  # fmt: skip
    return terms[:, :k], terms[:, k:]
