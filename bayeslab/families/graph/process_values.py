"""Values of a Gaussian process in the PyMC graph of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt

from bayeslab.errors import DataError
from bayeslab.families.graph.function_layout import FunctionNode
from bayeslab.families.graph.process_nodes import AtNewInputs, at_inputs
from bayeslab.families.graph.processes import Inputs, Process, basis_of, functions_refused, inputs_of, process_of
from bayeslab.families.graph.scope import Scope
from bayeslab.families.graph.spectra import roots_of_spectrum
from bayeslab.language.backends import PYTENSOR
from bayeslab.language.nodes import Node

__all__ = ["function_node", "process_values"]


def process_values(scope: Scope, node: Node) -> Any:
    """Values of the function at its inputs; at new data, conditional on its values at the fitted inputs.

    They are linear in standard normals. ``_f_z`` has one for each distinct input of the fit, or for each basis function
    of an approximation; ``_f_new`` has one for each new input.
    """
    data = scope.data
    fitted = data if data.origin is None or data.fitted else data.origin
    process = process_of(node, scope.nodes, fitted)
    inputs = inputs_of(process, node, scope.nodes, fitted)
    rows = inputs if fitted is data else inputs_of(process, node, scope.nodes, data, fitted=False)
    values = {name: scope.evaluator.symbolic(scope.lookup(name)) for name in process.kernel.names}
    if process.approximate:
        return _from_basis_functions(scope, node, process, inputs, rows, values)
    return _from_covariance(scope, node, process, inputs, rows, values)


def function_node(scope: Scope, node: Node) -> tuple[FunctionNode, tuple[str, ...]]:
    """A function that is integrated out, and the dimensions of its standard normals."""
    process = process_of(node, scope.nodes, scope.data)
    inputs = inputs_of(process, node, scope.nodes, scope.data)
    values = {name: scope.evaluator.symbolic(scope.lookup(name)) for name in process.kernel.names}
    theta = _vector([values[name] for name in process.kernel.names])
    basis = basis_of(process, inputs, node, scope.nodes) if process.approximate else None
    roots = None if basis is None else roots_of_spectrum(PYTENSOR, basis, values)
    symbol = pt.tensor(node.name, dtype="float64", shape=scope.lengths(node.dims))
    along, count = ("inputs", len(inputs.distinct[0])) if basis is None else ("functions", basis.n_functions)
    name, dims = _names(scope, node, "z", along, count)
    return FunctionNode(node.name, name, symbol, process, inputs, scope.lengths(node.dims), theta, basis, roots), dims


def _names(scope: Scope, node: Node, suffix: str, along: str, count: int) -> tuple[str, tuple[str, ...]]:
    """Name and dimensions of a node's standard normals; adds the last dimension to the model."""
    dim = f"{node.name}_{along}"
    scope.model.add_coord(dim, range(count))
    return f"_{node.name}_{suffix}", (*node.dims[:-1], dim)


def _normals(scope: Scope, node: Node, suffix: str, along: str, count: int) -> Any:
    """Standard normals: ``count`` for each cell of the node's other dimensions."""
    import pymc as pm

    name, dims = _names(scope, node, suffix, along, count)
    return pm.Normal(name, 0.0, 1.0, dims=dims)


def _shaped(scope: Scope, node: Node, value: Any) -> Any:
    """``value``, shape (functions, rows), reshaped to the node's dimensions, with static lengths."""
    return pt.specify_shape(value.reshape(scope.lengths(node.dims)), scope.lengths(node.dims))


def _from_basis_functions(
    scope: Scope, node: Node, process: Process, inputs: Inputs, rows: Inputs, values: Mapping[str, Any]
) -> Any:
    basis = basis_of(process, inputs, node, scope.nodes)
    try:
        features = basis.features(rows.x)
    except DataError as error:
        raise functions_refused(error, node) from None
    z = _normals(scope, node, "z", "functions", basis.n_functions).reshape((-1, basis.n_functions))
    return _shaped(scope, node, pt.dot(z * roots_of_spectrum(PYTENSOR, basis, values), features.T))


def _from_covariance(
    scope: Scope, node: Node, process: Process, inputs: Inputs, rows: Inputs, values: Mapping[str, Any]
) -> Any:
    x, place = inputs.distinct
    theta = _vector([values[name] for name in process.kernel.names])
    z = _normals(scope, node, "z", "inputs", len(x)).reshape((-1, len(x)))
    f = at_inputs(process.kernel, theta, z, x)
    if rows is not inputs:
        new, where = rows.distinct
        place = inputs.places(new)
        unknown = np.flatnonzero(place < 0)
        if len(unknown):
            weights, spread = AtNewInputs(process.kernel, x, new[unknown])(theta)
            e = _normals(scope, node, "new", "new_inputs", len(unknown)).reshape((-1, len(unknown)))
            f = pt.concatenate([f, pt.dot(z, weights.T) + pt.dot(e, spread.T)], axis=1)
            place[unknown] = len(x) + np.arange(len(unknown))
        place = place[where]
    return _shaped(scope, node, f[:, place])


def _vector(parts: list[Any]) -> Any:
    return pt.stack([pt.as_tensor_variable(part, dtype="float64") for part in parts]) if parts else pt.zeros(0)
