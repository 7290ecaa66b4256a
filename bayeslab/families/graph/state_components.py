"""Linear-Gaussian states as systems of matrices, in the variables of a backend, and what their filter takes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.families.graph.parameter_reader import ParameterReader
from bayeslab.families.graph.states import Cells, arguments, seasonal_start, square_root
from bayeslab.language.backends import Backend
from bayeslab.language.nodes import Node, bound_arguments

__all__ = ["KERNEL", "Component", "StateNode", "component_of", "filter_inputs"]

KERNEL = "bayeslab.latents.linear_gaussian.structural_kernels:log_evidence_and_gradient"


@dataclass(frozen=True, eq=False)
class Component:
    """The system of one node: x[1] = a + A z, x[t] = T x[t-1] + R z, value h' x.

    Attributes
    ----------
    parameters : variable (sets, size)
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
    """The system that a node declares, in variables of the reader's backend."""
    backend = reader.evaluator.backend
    given, batch = arguments(node), node.dims[:-1]

    def number(tree: ast.expr, name: str) -> Any:
        term = reader.evaluator.eval(tree)
        value = reader.parameter(term, batch, (), 0, name)
        if term.random and name.startswith("sigma"):  # a negative one has no density
            value = backend.function("where")(value >= 0.0, value, np.nan)
        if not term.dims:
            return value.reshape((1, 1))
        lengths = reader.lengths(batch)
        return backend.broadcast_to(value, lengths).reshape((int(np.prod(lengths)), 1))

    def row(*values: float) -> Any:
        return backend.constant(np.array([values], dtype=float))

    match str(node.distribution):
        case "LocalLevel":
            mean, deviation = _normal(given["initial"], number)
            return _joined(
                backend, [mean, deviation, row(1.0), number(given["sigma"], "sigma"), row(1.0)], 1, 1, np.ones(1)
            )
        case "LocalTrend":
            (mean, deviation), (slope, spread) = (_normal(given[n], number) for n in ("initial", "initial_slope"))
            zero, move = row(0.0), np.array([1.0, 1.0, 0.0, 1.0])
            noise = [number(given["sigma_level"], "sigma_level"), zero, zero]
            noise += [number(given["sigma_slope"], "sigma_slope")]
            begins = [mean, slope, deviation, zero, zero, spread]
            return _joined(backend, [*begins, row(*move), *noise, row(1.0, 0.0)], 2, 2, move)
        case "Seasonal":
            period = given["period"]
            assert isinstance(period, ast.Constant)
            return _seasonal(backend, int(str(period.value)), given, number, row)
        case _:
            return _general(reader, node)


def _normal(tree: ast.expr, number: Callable[[ast.expr, str], Any]) -> tuple[Any, Any]:
    """Mean and standard deviation of where a state begins."""
    assert isinstance(tree, ast.Call)
    inner = bound_arguments(tree, "Normal")
    return number(inner.get("mu", ast.Constant(0.0)), "mu"), number(inner["sigma"], "sigma")


def _joined(backend: Backend, blocks: Sequence[Any], d: int, q: int, move: np.ndarray) -> Component:
    """Blocks (sets or 1, ...) side by side."""
    shapes = [backend.shape(block) for block in blocks]
    sets = max(int(shape[0] or 0) for shape in shapes)
    whole = [
        block if shape[0] == sets else backend.broadcast_to(block, (sets, int(shape[1] or 0)))
        for block, shape in zip(blocks, shapes, strict=True)
    ]
    return Component(backend.concatenate(whole, axis=1), sets, d, q, np.argwhere(move.reshape(d, d) != 0.0))


def _seasonal(
    backend: Backend,
    period: int,
    given: dict[str, ast.expr],
    number: Callable[[ast.expr, str], Any],
    row: Callable[..., Any],
) -> Component:
    """The last period - 1 effects, the newest first."""
    n = period - 1
    start, tree = seasonal_start(period), given["initial"]
    assert isinstance(tree, ast.Call)
    deviation = number(bound_arguments(tree, "ZeroSumNormal")["sigma"], "sigma")
    move = np.zeros((n, n))
    move[0], move[1:, :-1] = -1.0, np.eye(n - 1)
    first = np.eye(n)[0]
    noise = number(given["sigma"], "sigma") * row(*first)
    blocks = [row(*np.zeros(n)), deviation * row(*start.ravel()), row(*move.ravel()), noise, row(*first)]
    return _joined(backend, blocks, n, 1, move)


def _general(reader: ParameterReader, node: Node) -> Component:
    backend, given = reader.evaluator.backend, arguments(node)
    terms = {name: reader.evaluator.eval(given[name]) for name in given if name != "sequence"}
    values = {name: reader.evaluator.symbolic(term) for name, term in terms.items()}
    d = int(backend.shape(values["H"])[0] or 0) if values["H"].ndim else 1

    def root(name: str) -> Any:
        if terms[name].random:
            return backend.function("cholesky")(values[name].reshape((d, d)))
        return backend.constant(square_root(np.asarray(terms[name].value, dtype=float).reshape(d, d)))

    moving = terms["F"].random
    move = np.ones((d, d)) if moving else np.asarray(terms["F"].value, dtype=float).reshape(d, d)
    blocks = [values["initial_mean"], root("initial_covariance"), values["F"], root("Q"), values["H"]]
    one = backend.constant(np.ones(()))  # whole numbers become real
    flat = backend.concatenate([block.reshape((1, -1)) * one for block in blocks], axis=1)
    return Component(flat, 1, d, d, np.argwhere(move != 0.0), moving, terms["H"].random)


# ------------------------------------------------------------------------------------- the filter


@dataclass(frozen=True, eq=False)
class StateNode:
    """A node of states that is summed out.

    Attributes
    ----------
    name, normals : str
        Its name, and that of the standard normals that it is made of.
    symbol : variable
        Stands for its values.
    dims : tuple of str
    """

    name: str
    normals: str
    symbol: Any
    dims: tuple[str, ...]
    component: Component
    cells: Cells


def filter_inputs(
    backend: Backend,
    states: Sequence[StateNode],
    y: np.ndarray,
    cells: np.ndarray,
    by_row: Sequence[Any],
    varying: bool,
) -> tuple[Any, tuple[np.ndarray, ...]]:
    """The flat vector and the arrays of the filter.

    Parameters
    ----------
    y, cells : ndarray (rows,)
        Data, and their times, in the order of time.
    by_row : list of variable (1,) or (rows,)
        Coefficient of each node, offset and sigma.
    varying : bool
        Whether coefficients depend on parameters.
    """
    sets, blocks = max(node.component.sets for node in states), []
    for node in states:
        parameters, d, q = node.component.parameters, node.component.d, node.component.q
        if node.component.sets < sets:
            parameters = backend.broadcast_to(parameters, (sets, 2 * d + 2 * d * d + d * q))
        blocks.append(parameters.reshape((-1,)))
    starts, first = states[0].cells.starts, np.cumsum([0, *(node.component.d for node in states)])
    moves = np.concatenate([node.component.moves + at for node, at in zip(states, first, strict=False)])
    lengths = [1 if backend.shape(value) == (1,) else len(y) for value in by_row]
    flags = [any(node.component.free_moves for node in states),
             varying or any(node.component.free_read for node in states)]  # fmt: skip
    arrays = (
        y,
        cells.astype(np.int64),
        starts,
        states[0].cells.batch.astype(np.int64) if sets > 1 else np.zeros(len(starts), np.int64),
        np.ascontiguousarray(moves, np.int64),
        np.array([(node.component.d, node.component.q) for node in states], np.int64),
        np.array([sets, *lengths, *flags], np.int64),
    )
    return backend.concatenate([*blocks, *by_row]), arrays
