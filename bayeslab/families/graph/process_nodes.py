"""Functions as nodes of a PyMC graph, computed from standard normals at inputs of the fit and new ones."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from inspect import getsource
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType, disconnected_type
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_and_cache_key
from scipy.linalg import solve_triangular

from bayeslab.latents.gaussian_process import covariance_kernels as kernels
from bayeslab.latents.gaussian_process.covariance import Argument, Kernel
from bayeslab.latents.gaussian_process.gaussian_process import factor
from bayeslab.latents.gaussian_process.hilbert_gp import HilbertBasis

__all__ = ["JITTER", "AtNewInputs", "Coloured", "at_inputs", "roots_of_spectrum"]

# Jitter on the diagonal of a covariance, as a share of the mean variance.
JITTER = 1e-8


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
        lower, _ = factor(self.kernel, theta, self.x, np.zeros(len(self.x)), nugget=JITTER)
        across = self.kernel.matrix(theta, self.new, self.x)
        weights = solve_triangular(lower, across.T, lower=True).T
        rest = self.kernel.matrix(theta, self.new) - weights @ weights.T
        values, vectors = np.linalg.eigh(0.5 * (rest + rest.T))
        outputs[0][0], outputs[1][0] = weights, vectors * np.sqrt(np.maximum(values, 0.0))


# ------------------------------------------------------------------------------------------- sines


def roots_of_spectrum(basis: HilbertBasis, values: Mapping[str, Any]) -> Any:
    """√S of each function of a basis, from hyperparameters by name: see :meth:`HilbertBasis.variances`."""

    def of(argument: Argument) -> Any:
        return values[argument.name] if argument.name else float(argument.value or 0.0)

    parts = []
    for term, size in zip(basis.terms, basis.sizes, strict=True):
        variance: Any = 1.0
        for argument, power in term.scales:
            variance = variance * of(argument) ** power
        if term.spectral:
            shape = _density(basis, term, of)
        elif term.other is not None and term.other.word == "Periodic":
            shape = _series(of(term.other.arguments["lengthscale"][0]), basis.harmonics)
        else:
            shape = np.ones(size)
        parts.append(pt.sqrt(variance * shape) * np.ones(size))
    return pt.concatenate(parts)


def _density(basis: HilbertBasis, term: Any, of: Any) -> Any:
    """Spectral density at the frequencies of the sines, of the product of the term's functions."""
    frequency, shape = basis.frequencies(term), 1.0
    for part in term.spectral:
        lengths = [of(argument) for argument in part.arguments["lengthscale"]]
        total: Any = 0.0
        volume: Any = 1.0
        for column, length in zip(part.columns, lengths, strict=True):
            total = total + length**2 * frequency[column] ** 2
            volume = volume * length
        d, nu = len(part.columns), basis.order(part)
        if math.isinf(nu):
            shape = shape * (2.0 * np.pi) ** (d / 2) * volume * pt.exp(-0.5 * total)
        else:
            constant = 2.0**d * np.pi ** (d / 2) * math.gamma(nu + d / 2) * (2 * nu) ** nu / math.gamma(nu)
            shape = shape * constant * volume * (2 * nu + total) ** -(nu + d / 2)
    return shape


# Terms of the recurrence beyond the harmonics.
_BEYOND = 60


def _series(length: Any, harmonics: int) -> Any:
    """Variances of a constant, cosines and sines: 2 I_j(ℓ⁻²) exp(-ℓ⁻²), of the constant half of that.

    Ratios I_j / I_(j-1) = 1 / (2 j / x + I_(j+1) / I_j) are a continued fraction, and the variances add up to 1
    (Abramowitz and Stegun 1964, 9.6.26 and 9.6.37).
    """
    x = pt.as_tensor_variable(length) ** -2.0
    ratio: Any = pt.zeros_like(x)
    ratios = []
    for j in range(harmonics + _BEYOND, 0, -1):
        ratio = 1.0 / (2.0 * j / x + ratio)
        ratios.append(ratio)
    relative = pt.cumprod(pt.stack(ratios[::-1]))
    whole = 1.0 + 2.0 * pt.sum(relative)
    waves = 2.0 * relative[:harmonics] / whole
    return pt.concatenate([pt.stack([1.0 / whole]), waves, waves])
