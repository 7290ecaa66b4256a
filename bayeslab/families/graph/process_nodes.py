"""Functions as nodes of a PyMC graph, computed from standard normals at inputs of the fit and new ones."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from inspect import getsource
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType, disconnected_type
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_and_cache_key

from bayeslab.families.graph.processes import JITTER
from bayeslab.latents.gaussian_process import covariance_kernels as kernels
from bayeslab.latents.gaussian_process.covariance import Kernel
from bayeslab.latents.gaussian_process.gaussian_process import at_new_inputs

__all__ = ["AtNewInputs", "Coloured", "at_inputs"]


class Coloured(Op):
    """L z of each row of z, with L the Cholesky factor of a covariance at hyperparameters θ.

    Inputs are θ, z (functions, inputs), the program of the covariance function (four), the inputs by column, and the
    share of the mean variance that is added to the diagonal.
    """

    __props__ = ()

    def make_node(self, theta: Any, z: Any, *arrays: Any) -> Apply:
        z = pt.as_tensor_variable(z, dtype="float64")
        return Apply(self, [pt.as_tensor_variable(theta, dtype="float64"), z, *map(pt.as_tensor_variable, arrays)],
                     [z.type()])  # fmt: skip

    def perform(self, node: Apply, inputs: Sequence[Any], outputs: Any) -> None:
        outputs[0][0] = kernels.coloured(*(np.ascontiguousarray(i) for i in inputs))

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        return [[True], [True], *([False] for _ in node.inputs[2:])]

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        return [shapes[1]]

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]
    ) -> list[Variable]:
        theta, z, *arrays = inputs
        if isinstance(cotangents[0].type, DisconnectedType):
            return [disconnected_type() for _ in inputs]
        both = _ColouredGradient()(theta, z, cotangents[0], *arrays)
        count = theta.shape[0]
        return [both[:count], both[count:].reshape(z.shape), *(disconnected_type() for _ in arrays)]


class _ColouredGradient(Op):
    """Derivatives by θ and z, concatenated."""

    __props__ = ()

    def make_node(self, theta: Any, z: Any, to_f: Any, *arrays: Any) -> Apply:
        inputs = [pt.as_tensor_variable(i, dtype="float64") for i in (theta, z, to_f)]
        return Apply(self, [*inputs, *map(pt.as_tensor_variable, arrays)], [pt.dvector()])

    def perform(self, node: Apply, inputs: Sequence[Any], outputs: Any) -> None:
        outputs[0][0] = kernels.coloured_gradient(*(np.ascontiguousarray(i) for i in inputs))


@register_funcify_and_cache_key(Coloured)
def _compiled(op: Coloured, node: Any, **_: Any) -> tuple[Any, str]:
    kernel = kernels.coloured

    @numba_njit
    def coloured(theta, z, *arrays):  # type: ignore[no-untyped-def]
        return kernel(np.ascontiguousarray(theta), np.ascontiguousarray(z), *arrays)

    return coloured, _key("coloured")


@register_funcify_and_cache_key(_ColouredGradient)
def _compiled_gradient(op: _ColouredGradient, node: Any, **_: Any) -> tuple[Any, str]:
    kernel = kernels.coloured_gradient

    @numba_njit
    def gradient(theta, z, to_f, *arrays):  # type: ignore[no-untyped-def]
        return kernel(np.ascontiguousarray(theta), np.ascontiguousarray(z), np.ascontiguousarray(to_f), *arrays)

    return gradient, _key("gradient")


def _key(word: str) -> str:
    return hashlib.sha256(f"function 1 {word} {getsource(kernels)}".encode()).hexdigest()


def at_inputs(kernel: Kernel, theta: Any, z: Any, x: np.ndarray) -> Any:
    """The values of functions at distinct inputs, from standard normals (functions, inputs)."""
    arrays = (*kernel.program, np.ascontiguousarray(x.T), np.array([JITTER]))
    return Coloured()(theta, z, *(pt.constant(array) for array in arrays))


class AtNewInputs(Op):
    """Conditional distribution of functions at new inputs, given θ: A and C with f(new) = A z + C e, e standard normal.

    It has no gradient; it serves forward sampling.
    """

    def __init__(self, kernel: Kernel, x: np.ndarray, new: np.ndarray) -> None:
        self.kernel, self.x, self.new = kernel, x, new

    def make_node(self, theta: Any) -> Apply:
        m, n = len(self.x), len(self.new)
        outputs = [pt.dmatrix(shape=(n, m)), pt.dmatrix(shape=(n, n))]
        return Apply(self, [pt.as_tensor_variable(theta, dtype="float64")], outputs)

    def perform(self, node: Apply, inputs: Sequence[Any], outputs: Any) -> None:
        (theta,) = inputs
        outputs[0][0], outputs[1][0] = at_new_inputs(self.kernel, theta, self.x, self.new, nugget=JITTER)
