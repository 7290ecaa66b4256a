"""Values of linear-Gaussian states in the graph that is being built, made of standard normals."""

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

from bayeslab.families.graph.parameter_reader import ParameterReader
from bayeslab.families.graph.state_components import Component, component_of
from bayeslab.families.graph.states import Cells, times_of
from bayeslab.language.nodes import Node
from bayeslab.latents.linear_gaussian import structural_component_kernels as kernels

__all__ = ["normals_of", "state_values"]


# ------------------------------------------------------------------------------------------- values


class ComponentValues(Op):
    """The values of a component at all times, from its parameters and standard normals.

    Further inputs are where series begin, where the normals of a time begin, its set of parameters, the entries of T,
    and the lengths of state and noise.
    """

    __props__ = ()

    def make_node(self, parameters: Any, normals: Any, *arrays: Any) -> Apply:
        inputs = [pt.as_tensor_variable(i, dtype="float64") for i in (parameters, normals)]
        fixed = [pt.as_tensor_variable(array) for array in arrays]
        return Apply(self, [*inputs, *fixed], [pt.dvector(shape=(fixed[0].type.shape[0],))])

    def perform(self, node: Apply, inputs: Sequence[Any], outputs: Any) -> None:
        outputs[0][0] = kernels.component_values(*(np.ascontiguousarray(i) for i in inputs))

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        return [[True], [True], *([False] for _ in node.inputs[2:])]

    def infer_shape(self, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        return [shapes[2]]

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]
    ) -> list[Variable]:
        parameters, normals, *arrays = inputs
        if isinstance(cotangents[0].type, DisconnectedType):
            return [disconnected_type() for _ in inputs]
        both = _ValuesGradient()(parameters, normals, cotangents[0], *arrays)
        count = parameters.size
        return [both[:count].reshape(parameters.shape), both[count:], *(disconnected_type() for _ in arrays)]


class _ValuesGradient(Op):
    """Derivatives by parameters and normals, one after the other."""

    __props__ = ()

    def make_node(self, parameters: Any, normals: Any, to_values: Any, *arrays: Any) -> Apply:
        inputs = [pt.as_tensor_variable(i, dtype="float64") for i in (parameters, normals, to_values)]
        return Apply(self, [*inputs, *map(pt.as_tensor_variable, arrays)], [pt.dvector()])

    def perform(self, node: Apply, inputs: Sequence[Any], outputs: Any) -> None:
        outputs[0][0] = kernels.component_gradient(*(np.ascontiguousarray(i) for i in inputs))


@register_funcify_and_cache_key(ComponentValues)
def _compiled(op: ComponentValues, node: Any, **_: Any) -> tuple[Any, str]:
    kernel = kernels.component_values

    @numba_njit
    def values(parameters, normals, *arrays):  # type: ignore[no-untyped-def]
        return kernel(np.ascontiguousarray(parameters), np.ascontiguousarray(normals), *arrays)

    return values, _key("values")


@register_funcify_and_cache_key(_ValuesGradient)
def _compiled_gradient(op: _ValuesGradient, node: Any, **_: Any) -> tuple[Any, str]:
    kernel = kernels.component_gradient

    @numba_njit
    def gradient(parameters, normals, to_values, *arrays):  # type: ignore[no-untyped-def]
        return kernel(
            np.ascontiguousarray(parameters), np.ascontiguousarray(normals), np.ascontiguousarray(to_values), *arrays
        )

    return gradient, _key("gradient")


def _key(word: str) -> str:
    return hashlib.sha256(f"states 1 {word} {getsource(kernels)}".encode()).hexdigest()


def normals_of(reader: ParameterReader, node: Node, count: int, *, later: bool = False) -> tuple[str, str]:
    """The names of a node's normals and of their dimension, which the model then knows."""
    word = "new" if later else "z"
    dim = f"{node.name}_{'later_' if later else ''}normals"
    reader.model.add_coord(dim, range(count))
    return f"_{node.name}_{word}", dim


def state_values(reader: ParameterReader, node: Node) -> tuple[Any, ...]:
    """The values of a node of states, and of a local trend its slopes.

    They are made of standard normals ``_level_z``; at times after those of the fit, given what was learnt there, also
    of ``_level_new``.
    """
    import pymc as pm

    component = component_of(reader, node)
    cells, places, count, later = times_of(node, reader.data, component.d, component.q)
    name, dim = normals_of(reader, node, count)
    normals = pm.Normal(name, 0.0, 1.0, dims=dim)
    if later:
        name, dim = normals_of(reader, node, later, later=True)
        normals = pt.concatenate([normals, pm.Normal(name, 0.0, 1.0, dims=dim)])
    lengths, arrays = reader.lengths(node.dims), _arrays(component, cells, places)

    def read(parameters: Any) -> Any:
        values = ComponentValues()(parameters, normals, *arrays)[pt.constant(cells.place)]
        return pt.specify_shape(values.reshape(lengths), lengths)

    if node.distribution != "LocalTrend":
        return (read(component.parameters),)
    slope = pt.set_subtensor(component.parameters[:, -2:], np.array([0.0, 1.0]))
    return read(component.parameters), read(slope)


def _arrays(component: Component, cells: Cells, places: np.ndarray) -> list[Any]:
    sets = cells.batch if component.sets > 1 else np.zeros(len(cells.starts), np.int64)
    sizes = np.array([component.d, component.q])
    fixed = (cells.starts, places.astype(np.int64), sets.astype(np.int64), component.moves.astype(np.int64), sizes)
    return [pt.constant(np.ascontiguousarray(array)) for array in fixed]
