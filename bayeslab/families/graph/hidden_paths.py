"""Nodes ``MarkovChain``, ``MarkovTree`` and ``SemiMarkovChain``: their law and probabilities."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.sequences import parent_rows, sequence_starts
from bayeslab.errors import DataError, ModelError, hint
from bayeslab.families.graph.markov_law import MarkovLaw
from bayeslab.families.graph.path_laws import HiddenPath, PathLaw
from bayeslab.families.graph.probability_tables import LogTable, log_table, uniform
from bayeslab.families.graph.scope import Scope
from bayeslab.families.graph.segment_law import SegmentLaw
from bayeslab.families.graph.tree_law import TreeLaw
from bayeslab.language.nodes import Node, bound_arguments
from bayeslab.latents.chains import hidden_tree
from bayeslab.latents.chains.markov_chain import classes

__all__ = ["hidden_path", "sequence_changes"]


def hidden_path(scope: Scope, node: Node) -> HiddenPath:
    """The node's law and its probabilities.

    Raises
    ------
    ModelError, DataError
        The node's dimensions, probabilities or columns are invalid.
    """
    tree = node.expression.tree
    assert isinstance(tree, ast.Call)
    word, given = str(node.distribution), bound_arguments(tree, str(node.distribution))
    if not node.dims:
        raise ModelError(f"{word} runs along a dimension: {node.name}[time]: {word}(...)", code="bad-dimensions")
    order = _order(given)
    moves = log_table(scope, given["P"], node.dims, order + 1, word, "P")
    n = moves.sizes[0]
    if set(moves.sizes) != {n}:
        raise ModelError(
            f"{word}: P is square, from states to states; it is {' × '.join(map(str, moves.sizes))}", code="wrong-shape"
        )
    start = _start(scope, node, given.get("initial"), moves, order)
    if start.sizes[-1] != n:
        raise ModelError(f"{word}: initial has {start.sizes[-1]} probabilities, and P {n} states", code="wrong-length")
    named = [dim for dim in (*moves.states, *start.states) if dim is not None]
    state = named[0] if named else _state_of_length(scope, n)
    match word:
        case "MarkovChain":
            law, logs = _chain(scope, node, given, start, moves, order)
        case "MarkovTree":
            law, logs = _tree(scope, node, given, start, moves)
        case _:
            law, logs = _segments(scope, node, given, start, moves)
    column = given.get("sequence")
    return HiddenPath(law, logs, node.dims, state, node.path, column.id if isinstance(column, ast.Name) else None)


def _state_of_length(scope: Scope, n: int) -> str | None:
    """The only dimension with a twin whose number of levels equals the number of states in a list."""
    fitting = {base for base in scope.twins.values() if len(scope.labels.get(base, ())) == n}
    return fitting.pop() if len(fitting) == 1 else None


def _order(given: Mapping[str, ast.expr]) -> int:
    tree = given.get("order", ast.Constant(1))
    if not isinstance(tree, ast.Constant) or tree.value not in (1, 2) or isinstance(tree.value, bool):
        raise ModelError(
            f"MarkovChain: order is 1 or 2, not '{ast.unparse(tree)}'", offset=tree.col_offset, code="out-of-range"
        )
    return 1 if tree.value == 1 else 2


# -------------------------------------------------------------------------------- first states


def _start(scope: Scope, node: Node, tree: ast.expr | None, moves: LogTable, order: int) -> LogTable:
    """Log probabilities of the first state; for order 2 possibly those of the first two states jointly."""
    n = moves.sizes[0]
    word = tree.id if isinstance(tree, ast.Name) else None
    if tree is None or word == "uniform":
        return uniform(n)
    if word == "stationary":
        return _stationary(scope, node, moves, order)
    axes = 1
    if order == 2 and _depth(scope, tree, node.dims) == 2:
        axes = 2
    initial = log_table(scope, tree, node.dims, axes, str(node.distribution), "initial", joint=axes == 2)
    if node.dims[-1] in initial.batch:
        raise ModelError(
            f"{node.distribution}: initial is the distribution of the first state and cannot vary along"
            f" '{node.dims[-1]}'",
            code="bad-dimensions",
        )
    return initial


def _depth(scope: Scope, tree: ast.expr, dims: tuple[str, ...]) -> int:
    """Number of state axes of an expression."""
    if isinstance(tree, ast.List | ast.Tuple):
        return 2 if isinstance(tree.elts[0], ast.List | ast.Tuple) else 1
    return len([dim for dim in scope.evaluator.eval(tree).dims if dim not in dims])


def _stationary(scope: Scope, node: Node, moves: LogTable, order: int) -> LogTable:
    """The stationary distribution π, with π P = π and Σ π = 1: the solution of π (I - P + 1) = 1 if π is unique.

    For order 2, the stationary distribution of pairs. Transient states have probability zero and are left out.
    """
    import pytensor.tensor as pt

    if node.dims[-1] in moves.batch:
        raise ModelError(
            f"initial=stationary: P varies along '{node.dims[-1]}', so it has no stationary distribution; give initial",
            code="not-applicable",
        )
    n, batch = moves.sizes[0], scope.lengths(moves.batch)
    probabilities, possible = moves.probabilities, moves.possible
    if order == 2:
        # Transitions from the pair (i, j) to the pairs (j, k).
        eye = np.eye(n)
        probabilities = (probabilities[..., None, :] * eye[None, :, :, None]).reshape((*batch, n * n, n * n))
        possible = (possible[..., None, :] & (eye[None, :, :, None] > 0)).reshape(n * n, n * n)
    communicating_classes = classes(possible)
    closed = [
        states for states, shut in zip(communicating_classes.members, communicating_classes.closed, strict=True) if shut
    ]
    if len(closed) > 1:
        raise ModelError(
            f"initial=stationary: P has {len(closed)} groups of states that are never left, so it has more than one"
            f" stationary distribution; give initial",
            code="not-identified",
        )
    members = np.array(sorted(closed[0]))
    inner = probabilities[..., members[:, None], members]
    matrix = pt.swapaxes(pt.eye(len(members)) - inner + 1.0, -1, -2)
    ones = pt.ones((*batch, len(members), 1))
    solved = pt.linalg.solve(matrix, ones)[..., 0]
    size = n**order
    if len(members) == size:
        logs = pt.log(solved)
    else:
        logs = pt.set_subtensor(pt.as_tensor_variable(np.full((*batch, size), -np.inf))[..., members], pt.log(solved))
    possible_at = np.zeros(size, bool)
    possible_at[members] = True
    if order == 2:
        shape = (n, n)
        return LogTable(logs.reshape((*batch, n, n)), moves.batch, moves.states[:2], shape, possible_at.reshape(n, n))
    return LogTable(logs, moves.batch, moves.states[:1], (n,), possible_at)


# -------------------------------------------------------------------------------------- layouts


def _offsets(scope: Scope, node: Node, given: Mapping[str, ast.expr]) -> np.ndarray:
    """Start of each chain among the cells, in C order, and the number of chains."""
    *outer, length = scope.lengths(node.dims)
    begins = np.zeros(length, bool)
    begins[0] = True
    if "sequence" in given:
        column = given["sequence"]
        assert isinstance(column, ast.Name)
        begins |= sequence_changes(scope.data, column.id, node.dims[-1])
    starts = np.flatnonzero(begins)
    pieces = (np.arange(int(np.prod(outer, dtype=int)))[:, None] * length + starts).ravel()
    return np.append(pieces, int(np.prod(outer, dtype=int)) * length)


def sequence_changes(data: Data, column: str, dim: str) -> np.ndarray:
    """Whether a row's sequence differs from that of the previous row."""
    term = _column(data, column, "sequence", dim)
    values = np.asarray(term.codes if term.codes is not None else term.value)
    gone = values < 0 if term.codes is not None else np.isnan(values.astype(float))
    if gone.any():
        raise DataError(f"column '{column}', row {int(np.argmax(gone)) + 1}: the cell is missing", code="missing")
    names = values if term.codes is None else np.asarray(data.labels[str(term.factor)])[values]
    out = np.zeros(len(values), bool)
    out[sequence_starts(column, names)] = True
    return out


def _column(data: Data, column: str, name: str, dim: str) -> Any:
    if not data.has(column):
        raise ModelError(
            f"{name}={column}: the data have no column '{column}'{hint(column, data.names())}",
            code="unknown-column",
        )
    term = data.term(column, missing=True)
    if term.dims != (dim,):
        have = ", ".join(map(str, term.dims))
        raise ModelError(
            f"{name}={column}: the column has one cell for each '{dim}', the dimension that the path runs along; it has"
            f" ({have})",
            code="bad-dimensions",
        )
    return term


# ----------------------------------------------------------------------------------------- laws


def _chain(
    scope: Scope, node: Node, given: Mapping[str, ast.expr], start: LogTable, moves: LogTable, order: int
) -> tuple[PathLaw, Any]:
    import pytensor.tensor as pt

    offsets = _offsets(scope, node, given)
    outer, lengths = node.dims[:-1], scope.lengths(node.dims)
    n, cells = moves.sizes[0], int(np.prod(lengths))
    pieces = (len(offsets) - 1) // max(int(np.prod(lengths[:-1], dtype=int)), 1)
    whole = moves.over(node.dims, lengths).reshape((cells, *moves.sizes)) if moves.batch else moves.over((), ())[None]
    second = None
    if order == 2:
        # The state before the first is taken to be the same; for a joint pair of first states, the second given the
        # first.
        same = np.arange(n)
        second = whole[:, same, same, :]
        if len(start.sizes) == 2:
            joint, start = start, _margin(start)
            given_first = (
                joint.over(joint.batch, scope.lengths(joint.batch)) - pt.as_tensor_variable(start.value)[..., None]
            )
            given_first = pt.switch(pt.isnan(given_first), -np.inf, given_first)
            if joint.batch:
                spread = LogTable(given_first, joint.batch, joint.states, joint.sizes, joint.possible)
                second = spread.over(node.dims, lengths).reshape((cells, n, n))
                whole = moves.over(node.dims, lengths).reshape((cells, *moves.sizes))
            else:
                second = pt.broadcast_to(given_first[None], (whole.type.shape[0] or 1, n, n))
    n_starts, n_steps = 1, cells if moves.batch or (second is not None and second.type.shape[0] == cells) else 1
    if start.batch:
        n_starts = len(offsets) - 1
        first = start.over(outer, lengths[:-1]).reshape((-1, n))
        first = pt.repeat(first, pieces, axis=0) if pieces > 1 else first
    else:
        first = pt.as_tensor_variable(start.value)
    if n_starts == 1 and len(offsets) == 2:
        first = first.reshape((n,))
    flat = whole.reshape((n_steps, -1))
    if second is not None:
        flat = pt.concatenate([second.reshape((n_steps, -1)), flat], axis=1)
    return MarkovLaw(n, offsets, n_starts, n_steps, order), pt.concatenate([first.ravel(), flat.ravel()])


def _margin(joint: LogTable) -> LogTable:
    """Log probabilities of the first state of a pair."""
    import pytensor.tensor as pt

    with np.errstate(divide="ignore"):
        value = pt.log(pt.sum(pt.exp(pt.as_tensor_variable(joint.value)), axis=-1))
    return LogTable(value, joint.batch, joint.states[:1], joint.sizes[:1], joint.possible.any(axis=1))


def _alike(word: str, **tables: LogTable) -> None:
    for name, table in tables.items():
        if table.batch:
            raise ModelError(
                f"{word}: {name} must be constant and cannot vary along '{table.batch[0]}'",
                code="unsupported",
            )


def _tree(
    scope: Scope, node: Node, given: Mapping[str, ast.expr], start: LogTable, moves: LogTable
) -> tuple[PathLaw, Any]:
    import pytensor.tensor as pt

    _alike("MarkovTree", initial=start, P=moves)
    column = given["parent"]
    assert isinstance(column, ast.Name)
    rows = _parents(scope, column.id, node.dims[-1])
    outer = int(np.prod(scope.lengths(node.dims[:-1]), dtype=int))
    shift = np.arange(outer)[:, None] * len(rows)
    parents = np.where(rows >= 0, rows + shift, -1).ravel()
    logs = [pt.as_tensor_variable(start.value).ravel(), pt.as_tensor_variable(moves.value).ravel()]
    return TreeLaw(moves.sizes[0], parents), pt.concatenate(logs)


def _parents(scope: Scope, column: str, dim: str) -> np.ndarray:
    """The row of each row's parent, -1 for roots: by row labels or, without labels, by number."""
    if not scope.data.has(column):
        _column(scope.data, column, "parent", dim)
    cells = scope.data.column(column)
    if cells.values.shape != (len(scope.labels[dim]),):
        _column(scope.data, column, "parent", dim)
    out = parent_rows(column, cells, scope.labels[dim], dim)
    try:
        hidden_tree.parents_first(out)
    except DataError as error:
        raise DataError(f"column '{column}', {error.message}", code=error.code) from None
    return out


def _segments(
    scope: Scope, node: Node, given: Mapping[str, ast.expr], start: LogTable, moves: LogTable
) -> tuple[PathLaw, Any]:
    import pytensor.tensor as pt

    n = moves.sizes[0]
    durations = log_table(scope, given["durations"], node.dims, 2, "SemiMarkovChain", "durations", of=moves.states[0])
    _alike("SemiMarkovChain", initial=start, P=moves, durations=durations)
    if durations.sizes[0] != n:
        raise ModelError(
            f"SemiMarkovChain: durations are {n} states × the longest duration; they are"
            f" {' × '.join(map(str, durations.sizes))}",
            code="wrong-shape",
        )
    stays = np.flatnonzero(np.diagonal(moves.possible) & (moves.possible.sum(axis=1) > 1))
    if len(stays):
        raise ModelError(
            f"SemiMarkovChain: P must be zero from a state to itself, because durations determine how long a state"
            f" lasts; it is not for state {stays[0]}",
            code="not-probabilities",
        )
    logs = [pt.as_tensor_variable(table.value).ravel() for table in (start, moves, durations)]
    return SegmentLaw(n, _offsets(scope, node, given), durations.sizes[1]), pt.concatenate(logs)
