"""Linear-Gaussian states in the graph that is being built: parameters by name, and values made of standard normals."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import getsource
from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType, disconnected_type
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_and_cache_key

from bayeslab.families.graph.parameter_reader import ParameterReader
from bayeslab.families.graph.states import (
    Cells,
    arguments,
    cells_of,
    extended,
    seasonal_start,
    series_of,
    square_root,
)
from bayeslab.language.nodes import Node, bound_arguments
from bayeslab.latents.linear_gaussian import structural_component_kernels as kernels

if TYPE_CHECKING:
    pass

__all__ = ["Component", "component_of", "normals_of", "state_values"]


@dataclass(frozen=True, eq=False)
class Component:
    """The system of one node: x[1] = a + A z, x[t] = T x[t-1] + R z, value h' x.

    Attributes
    ----------
    parameters : TensorVariable (sets, size)
        a, A, T, R and h, one after the other, for each place in the node's dimensions other than time, or once.
    sets : int
    d, q : int
        Lengths of x and of z after the first time.
    moves : ndarray of int (entries, 2)
        The entries of T that can differ from zero.
    free_moves, free_read : bool
        Whether T, and h, depend on parameters.
    """

    parameters: Any
    sets: int
    d: int
    q: int
    moves: np.ndarray
    free_moves: bool = False
    free_read: bool = False


def component_of(reader: ParameterReader, node: Node) -> Component:
    """The system that a node declares, in the graph's variables."""
    given, batch = arguments(node), node.dims[:-1]

    def number(tree: ast.expr, name: str) -> Any:
        term = reader.evaluator.eval(tree)
        value = reader.parameter(term, batch, (), 0, name)
        if term.random and name.startswith("sigma"):  # a negative one has no density
            value = pt.switch(value >= 0.0, value, np.nan)
        if not term.dims:
            return value.reshape((1, 1))
        lengths = reader.lengths(batch)
        return pt.broadcast_to(value, lengths).reshape((int(np.prod(lengths)), 1))

    match str(node.distribution):
        case "LocalLevel":
            mean, deviation = _normal(given["initial"], number)
            return _joined([mean, deviation, _row(1.0), number(given["sigma"], "sigma"), _row(1.0)], 1, 1, np.ones(1))
        case "LocalTrend":
            (mean, deviation), (slope, spread) = (_normal(given[n], number) for n in ("initial", "initial_slope"))
            zero, move = _row(0.0), np.array([1.0, 1.0, 0.0, 1.0])
            noise = [number(given["sigma_level"], "sigma_level"), zero, zero]
            noise += [number(given["sigma_slope"], "sigma_slope")]
            begins = [mean, slope, deviation, zero, zero, spread]
            return _joined([*begins, _row(*move), *noise, _row(1.0, 0.0)], 2, 2, move)
        case "Seasonal":
            period = given["period"]
            assert isinstance(period, ast.Constant)
            return _seasonal(int(str(period.value)), given, number)
        case _:
            return _general(reader, node)


def _row(*values: float) -> Any:
    return pt.constant(np.array([values], dtype=float))


def _normal(tree: ast.expr, number: Callable[[ast.expr, str], Any]) -> tuple[Any, Any]:
    """Mean and standard deviation of where a state begins."""
    assert isinstance(tree, ast.Call)
    inner = bound_arguments(tree, "Normal")
    return number(inner.get("mu", ast.Constant(0.0)), "mu"), number(inner["sigma"], "sigma")


def _joined(blocks: Sequence[Any], d: int, q: int, move: np.ndarray) -> Component:
    """Blocks (sets or 1, ...) side by side."""
    sizes = [block.type.shape[0] for block in blocks]
    sets = max(sizes)
    whole = [pt.repeat(block, sets, axis=0) if n < sets else block for block, n in zip(blocks, sizes, strict=True)]
    return Component(pt.concatenate(whole, axis=1), sets, d, q, np.argwhere(move.reshape(d, d) != 0.0))


def _seasonal(period: int, given: dict[str, ast.expr], number: Callable[[ast.expr, str], Any]) -> Component:
    """The last period - 1 effects, the newest first."""
    n = period - 1
    start, tree = seasonal_start(period), given["initial"]
    assert isinstance(tree, ast.Call)
    deviation = number(bound_arguments(tree, "ZeroSumNormal")["sigma"], "sigma")
    move = np.zeros((n, n))
    move[0], move[1:, :-1] = -1.0, np.eye(n - 1)
    first = np.eye(n)[0]
    noise = number(given["sigma"], "sigma") * _row(*first)
    blocks = [_row(*np.zeros(n)), deviation * _row(*start.ravel()), _row(*move.ravel()), noise, _row(*first)]
    return _joined(blocks, n, 1, move)


def _general(reader: ParameterReader, node: Node) -> Component:
    given = arguments(node)
    terms = {name: reader.evaluator.eval(given[name]) for name in given if name != "sequence"}
    values = {name: reader.evaluator.symbolic(term) for name, term in terms.items()}
    d = int(values["H"].type.shape[0]) if values["H"].type.ndim else 1

    def root(name: str) -> Any:
        if terms[name].random:
            return pt.linalg.cholesky(values[name].reshape((d, d)))
        return pt.constant(square_root(np.asarray(terms[name].value, dtype=float).reshape(d, d)))

    moving = terms["F"].random
    move = np.ones((d, d)) if moving else np.asarray(terms["F"].value, dtype=float).reshape(d, d)
    blocks = [values["initial_mean"], root("initial_covariance"), values["F"], root("Q"), values["H"]]
    flat = pt.concatenate([pt.cast(block.reshape((1, -1)), "float64") for block in blocks], axis=1)
    return Component(flat, 1, d, d, np.argwhere(move != 0.0), moving, terms["H"].random)


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

    data = reader.data
    fitted = series_of(data)
    component = component_of(reader, node)
    before = cells_of(node, fitted)
    begins = before.normals(component.d, component.q)
    name, dim = normals_of(reader, node, int(begins[-1]))
    normals = pm.Normal(name, 0.0, 1.0, dims=dim)
    cells, places = before, begins[:-1]
    if fitted is not data:
        cells = extended(node, fitted, data)
        later = cells.known < 0
        widths = np.where(cells.starts, component.d, component.q)[later]
        places = np.where(later, 0, begins[np.maximum(cells.known, 0)])
        if later.any():
            places[later] = begins[-1] + np.cumsum(widths) - widths
            name, dim = normals_of(reader, node, int(widths.sum()), later=True)
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
