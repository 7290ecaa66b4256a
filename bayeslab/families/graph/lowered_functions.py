"""Functions ``f[row]: GaussianProcess(kernel)`` and sampled states in programs of the density machine."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.errors import DataError
from bayeslab.families.graph.function_layout import FunctionNode
from bayeslab.families.graph.processes import JITTER, Process, basis_of, functions_refused, inputs_of, process_of
from bayeslab.families.graph.spectra import roots_of_spectrum
from bayeslab.families.graph.state_components import component_of
from bayeslab.families.graph.states import times_of
from bayeslab.language.algebra import Term
from bayeslab.language.evaluator import Evaluator
from bayeslab.language.nodes import Node
from bayeslab.posterior.machine.arrays import Var
from bayeslab.posterior.machine.evidence import called
from bayeslab.posterior.machine.program import Builder

__all__ = ["integrated_function", "sampled_function", "sampled_states"]

COLOURED = "bayeslab.latents.gaussian_process.covariance_kernels:coloured"
COLOURED_GRADIENT = "coloured_gradient"
COMPONENT = "bayeslab.latents.linear_gaussian.structural_component_kernels:component_values"
COMPONENT_GRADIENT = "component_gradient"


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

    def parameter(
        self,
        term: Term,
        batch: tuple[str, ...],
        core_dims: tuple[str, ...],
        core: int,
        name: str,
        apart: bool = False,
    ) -> Any:
        """A parameter, its batch dimensions first, then its core dimensions."""
        ...

    def normals(self, node: Node, along: str, outer: tuple[str, ...], count: int, suffix: str = "z") -> Var:
        """Standard normals behind a node: ``count`` for each cell of the outer dimensions."""
        ...

    def at_new_inputs(self, node: Node, process: Process, theta: Var, z: Var, x: np.ndarray, new: np.ndarray) -> Var:
        """Values (functions, new inputs) of a function, given those at inputs x, made of z (functions, inputs)."""
        ...


def sampled_function(reader: Reader, node: Node) -> Var:
    """Values of a function at its inputs, linear in standard normals ``_f_z``.

    There is one for each distinct input of the fit, or for each basis function of an approximation.
    """
    data = reader.data
    fitted = data if data.origin is None or data.fitted else data.origin
    process = process_of(node, reader.nodes, fitted)
    inputs = inputs_of(process, node, reader.nodes, fitted)
    rows = inputs if fitted is data else inputs_of(process, node, reader.nodes, data, fitted=False)
    values, backend = hyperparameters(reader, process), reader.evaluator.backend
    if not process.approximate:
        x, place = inputs.distinct
        z = reader.normals(node, "inputs", node.dims[:-1], len(x)).reshape(-1, len(x))
        arrays = (*process.kernel.program, np.ascontiguousarray(x.T), np.array([JITTER]))
        theta = _vector(reader, process, values)
        f = called(COLOURED, COLOURED_GRADIENT, theta, z, z.shape, *arrays)
        if rows is not inputs:
            distinct, where = rows.distinct
            place = inputs.places(distinct)
            unknown = np.flatnonzero(place < 0)
            if len(unknown):
                new = reader.at_new_inputs(node, process, theta, z, x, distinct[unknown])
                f = reader.builder.concatenate([f, new], 1)
                place[unknown] = len(x) + np.arange(len(unknown))
            place = place[where]
        return f[:, place].reshape(reader.lengths(node.dims))
    basis = basis_of(process, inputs, node, reader.nodes)
    z = reader.normals(node, "functions", node.dims[:-1], basis.n_functions).reshape(-1, basis.n_functions)
    weights = z * roots_of_spectrum(backend, basis, values)
    try:
        features = np.ascontiguousarray(basis.features(rows.x), dtype=np.float64)
    except DataError as error:
        raise functions_refused(error, node) from None
    series = [reader.builder.matmul(features, weights[k]) for k in range(len(weights))]
    return reader.builder.concatenate(series).reshape(reader.lengths(node.dims))


def sampled_states(reader: Reader, node: Node) -> tuple[Var, ...]:
    """The values of a node of states, and of a local trend its slopes, made of standard normals ``_level_z``."""
    component = component_of(reader, node)  # type: ignore[arg-type]
    cells, begins, count, later = times_of(node, reader.data, component.d, component.q)
    z, lengths = reader.normals(node, "normals", (), count), reader.lengths(node.dims)
    if later:
        z = reader.builder.concatenate([z, reader.normals(node, "later_normals", (), later, "new")])
    sets = cells.batch if component.sets > 1 else np.zeros(len(cells.starts), np.int64)
    arrays = (cells.starts, begins, sets, component.moves, np.array([component.d, component.q]))

    def read(parameters: Var) -> Var:
        out = called(COMPONENT, COMPONENT_GRADIENT, parameters, z, (len(cells.starts),), *arrays)
        return out[cells.place].reshape(lengths)

    if node.distribution != "LocalTrend":
        return (read(component.parameters),)
    other = np.tile([0.0, 1.0], (component.sets, 1))
    return (
        read(component.parameters),
        read(reader.builder.concatenate([component.parameters[:, :-2], other], axis=1)),
    )


def integrated_function(reader: Reader, node: Node) -> FunctionNode:
    """A function that is integrated out, with a stand-in for its values."""
    process = process_of(node, reader.nodes, reader.data)
    inputs = inputs_of(process, node, reader.nodes, reader.data)
    values, backend = hyperparameters(reader, process), reader.evaluator.backend
    theta = _vector(reader, process, values)
    basis = basis_of(process, inputs, node, reader.nodes) if process.approximate else None
    roots = None if basis is None else roots_of_spectrum(backend, basis, values)
    shape = reader.lengths(node.dims)
    symbol = reader.builder.hidden(shape)
    return FunctionNode(node.name, f"_{node.name}_z", symbol, process, inputs, shape, theta, basis, roots)


def _vector(reader: Reader, process: Process, values: dict[str, Any]) -> Var:
    """Hyperparameters in the order of the kernel."""
    given = [values[name].reshape(1) for name in process.kernel.names]
    return reader.builder.concatenate(given) if given else reader.builder.constant(np.zeros(0))


def hyperparameters(reader: Reader, process: Process) -> dict[str, Any]:
    """Hyperparameters of a kernel by name."""
    return {name: reader.evaluator.symbolic(reader.lookup(name)) for name in process.kernel.names}
