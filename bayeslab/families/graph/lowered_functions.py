"""Functions ``f[row]: GaussianProcess(kernel)`` in programs of the density machine."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.families.graph.function_layout import FunctionNode
from bayeslab.families.graph.processes import Process, basis_of, inputs_of, process_of
from bayeslab.families.graph.spectra import roots_of_spectrum
from bayeslab.language.algebra import Term
from bayeslab.language.evaluator import Evaluator
from bayeslab.language.nodes import Node
from bayeslab.posterior.machine.arrays import NotLowered, Var
from bayeslab.posterior.machine.program import Builder

__all__ = ["integrated_function", "sampled_function"]


class Reader(Protocol):
    """The methods of a model's lowering that functions use."""

    builder: Builder
    evaluator: Evaluator
    nodes: dict[str, Node]
    data: Data

    def lengths(self, dims: tuple[str, ...]) -> tuple[int, ...]:
        """The lengths of dimensions."""
        ...

    def lookup(self, name: str) -> Term:
        """What a name stands for."""
        ...

    def normals(self, node: Node, suffix: str, along: str, count: int) -> Var:
        """Standard normals behind a node: ``count`` for each cell of its dimensions but the last."""
        ...


def sampled_function(reader: Reader, node: Node) -> Var:
    """Values of a function at its inputs, linear in standard normals ``_f_z``: one for each of its basis functions."""
    process = process_of(node, reader.nodes, reader.data)
    if not process.approximate:
        raise NotLowered(node.name, "a function of full covariance that is not integrated out")
    inputs = inputs_of(process, node, reader.nodes, reader.data)
    basis = basis_of(process, inputs, node, reader.nodes)
    z = reader.normals(node, "z", "functions", basis.n_functions).reshape(-1, basis.n_functions)
    roots = roots_of_spectrum(reader.evaluator.backend, basis, hyperparameters(reader, process))
    weights, features = z * roots, np.ascontiguousarray(basis.features(inputs.x), dtype=np.float64)
    values = [reader.builder.matmul(features, weights[k]) for k in range(len(weights))]
    return reader.builder.concatenate(values).reshape(reader.lengths(node.dims))


def integrated_function(reader: Reader, node: Node) -> FunctionNode:
    """A function that is integrated out, with a stand-in for its values."""
    process = process_of(node, reader.nodes, reader.data)
    inputs = inputs_of(process, node, reader.nodes, reader.data)
    values, backend = hyperparameters(reader, process), reader.evaluator.backend
    given = [values[name].reshape(1) for name in process.kernel.names]
    theta = backend.concatenate(given) if given else backend.constant(np.zeros(0))
    basis = basis_of(process, inputs, node, reader.nodes) if process.approximate else None
    roots = None if basis is None else roots_of_spectrum(backend, basis, values)
    shape = reader.lengths(node.dims)
    symbol = reader.builder.hidden(shape)
    return FunctionNode(node.name, f"_{node.name}_z", symbol, process, inputs, shape, theta, basis, roots)


def hyperparameters(reader: Reader, process: Process) -> dict[str, Any]:
    """Hyperparameters of a kernel by name."""
    return {name: reader.evaluator.symbolic(reader.lookup(name)) for name in process.kernel.names}
