"""EvidenceOp: a kernel of a latent variable as a differentiable PyTensor node.

A kernel sums out discrete latent variables. Its arguments are the parameters as a flat vector and arrays that describe
structure and data. It returns log p(data | parameters) and its gradient, which by Fisher's identity consists of
expected counts divided by parameters. One pass gives value and gradient, and the compiled graph is small.

References
----------
.. [1] Dempster, Laird, Rubin (1977). Maximum likelihood from incomplete data via the EM algorithm. JRSS B 39, 1-38
   (the identity, attributed to Fisher, in the discussion of section 2).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from importlib import import_module
from inspect import getsource
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba.core.dispatcher import Dispatcher
from pytensor.gradient import DisconnectedType, disconnected_type
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_and_cache_key

from bayeslab.python_evidence import KERNEL, PythonEvidence

__all__ = ["EvidenceOp", "RowSlopeOp", "RowTermsOp", "log_evidence", "python_evidence", "row_terms"]


class _KernelOp(Op):
    """A numba function given as ``module:name``."""

    __props__: tuple[str, ...] = ("kernel",)

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel

    @property
    def function(self) -> Any:
        """The kernel."""
        module, _, name = self.kernel.partition(":")
        return getattr(import_module(module), name)


class EvidenceOp(_KernelOp):
    """Log evidence (0) and its gradient (1) with respect to the first input.

    Parameters
    ----------
    kernel : str
        ``module:function`` of a numba function ``(parameters, *arrays) -> (value, gradient)``,
        with parameters and gradient float64 vectors.
    """

    def make_node(self, parameters: Any, *arrays: Any) -> Apply:
        vector = pt.as_tensor_variable(parameters, dtype="float64")
        if vector.type.ndim != 1:
            raise TypeError("the parameters must be a flat vector")
        inputs = [vector, *(pt.as_tensor_variable(a) for a in arrays)]
        return Apply(self, inputs, [pt.dscalar(), pt.dvector(shape=vector.type.shape)])

    def perform(self, node: Apply, inputs: Sequence[Any], outputs: Any) -> None:
        value, gradient = self.function(*(np.ascontiguousarray(i) for i in inputs))
        outputs[0][0], outputs[1][0] = np.asarray(value, dtype=np.float64), gradient

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        return [[True, False], *([False, False] for _ in node.inputs[1:])]

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        return [(), shapes[0]]

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]
    ) -> list[Variable]:
        value, second = cotangents
        if not isinstance(second.type, DisconnectedType):
            raise NotImplementedError("the Hessian of an evidence kernel is not implemented; use finite differences")
        return [value * outputs[1], *(disconnected_type() for _ in inputs[1:])]


@register_funcify_and_cache_key(EvidenceOp)
def _compiled(op: EvidenceOp, node: Any, **_: Any) -> tuple[Any, str]:
    kernel = op.function

    @numba_njit
    def evidence(*inputs):  # type: ignore[no-untyped-def]
        value, gradient = kernel(*inputs)
        return np.asarray(value), gradient

    # Kernels call functions of their own module and of the modules it imports; the source of these is all their code.
    module = import_module(op.kernel.partition(":")[0])
    names = {value.__module__ for value in vars(module).values() if isinstance(value, Dispatcher)}
    text = "".join(getsource(import_module(name)) for name in sorted({module.__name__, *names}))
    return evidence, hashlib.sha256(f"evidence 1 {op.kernel} {text}".encode()).hexdigest()


def log_evidence(kernel: str, parameters: Any, *arrays: Any) -> Any:
    """log p(data | parameters) as a PyTensor scalar whose gradient is the kernel's."""
    return EvidenceOp(kernel)(parameters, *arrays)[0]


def python_evidence(function: Callable[[np.ndarray], tuple[float, np.ndarray]], parameters: Any) -> Any:
    """log p(data | parameters) as a PyTensor scalar, from a Python function that returns value and gradient.

    The graph holds the function's address as data, so it is valid in this process only; the compiled code is the same
    for all functions.
    """
    called = PythonEvidence(function)
    address = pt.as_tensor_variable(called.address)
    address.tag.called = called  # lives as long as the graph
    return log_evidence(KERNEL, parameters, address)


# --------------------------------------------------------------------------------------------- terms of rows


class _RowKernelOp(_KernelOp):
    """An operation whose only output is what the function returns."""

    def perform(self, node: Apply, inputs: Sequence[Any], outputs: Any) -> None:
        outputs[0][0] = self.function(*(np.ascontiguousarray(i) for i in inputs))


class RowTermsOp(_RowKernelOp):
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


class RowSlopeOp(_RowKernelOp):
    """The vector-Jacobian product of the terms with respect to the parameters."""

    def make_node(self, cotangent: Any, parameters: Any, *arrays: Any) -> Apply:
        inputs = [pt.as_tensor_variable(i) for i in (cotangent, parameters, *arrays)]
        return Apply(self, inputs, [pt.dvector(shape=inputs[1].type.shape)])

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        return [shapes[1]]


@register_funcify_and_cache_key(RowTermsOp)
@register_funcify_and_cache_key(RowSlopeOp)
def _compiled_terms(op: _KernelOp, node: Any, **_: Any) -> tuple[Any, str]:
    kernel = op.function

    @numba_njit
    def terms(*inputs):  # type: ignore[no-untyped-def]
        return kernel(*inputs)

    # Kernels call functions of their own module only, so its source is all their code.
    text = getsource(import_module(op.kernel.partition(":")[0]))
    return terms, hashlib.sha256(f"terms 1 {op.kernel} {text}".encode()).hexdigest()


def row_terms(kernel: str, parameters: Any, shape: tuple[int, int], *arrays: Any) -> Any:
    """Terms of rows, a matrix that a kernel computes, as a differentiable PyTensor node.

    A second kernel computes the vector-Jacobian product: the graph stays small, whatever the number of patterns of
    missing cells.
    """
    return RowTermsOp(kernel, *shape)(parameters, *arrays)
