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
from bayeslab.language.backends import Backend
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
    if node.dims[-1] in moves.batch:
        raise ModelError(
            f"initial=stationary: P varies along '{node.dims[-1]}', so it has no stationary distribution; give initial",
            code="not-applicable",
        )
    backend, n, batch = scope.evaluator.backend, moves.sizes[0], scope.lengths(moves.batch)
    probabilities, possible = backend.function("exp")(moves.logs(backend)), moves.possible
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
    logs = backend.function("log")(scope.stationary(inner))
    size = n**order
    possible_at = np.zeros(size, bool)
    possible_at[members] = True
    if len(members) < size:
        place = np.full(size, len(members))
        place[members] = np.arange(len(members))
        never = backend.constant(np.full((*batch, 1), -np.inf))
        logs = backend.concatenate([logs, never], axis=-1)[..., place]
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
    backend, offsets = scope.evaluator.backend, _offsets(scope, node, given)
    outer, lengths = node.dims[:-1], scope.lengths(node.dims)
    n, cells = moves.sizes[0], int(np.prod(lengths))
    pieces = (len(offsets) - 1) // max(int(np.prod(lengths[:-1], dtype=int)), 1)
    whole = _by_cell(backend, moves, node.dims, lengths)
    second, n_steps = None, cells if moves.batch else 1
    if order == 2:
        # The state before the first is taken to be the same; for a joint pair of first states, the second given the
        # first.
        same = np.arange(n)
        second = whole.reshape((n_steps, n * n, n))[:, same * (n + 1), :]
        if len(start.sizes) == 2:
            joint, start = start, _margin(scope, start)
            second = _second(scope, joint, start)
            if joint.batch:
                spread = LogTable(second, joint.batch, joint.states, joint.sizes, joint.possible)
                second, n_steps = spread.over(backend, node.dims, lengths).reshape((cells, n, n)), cells
                whole = moves.over(backend, node.dims, lengths).reshape((cells, *moves.sizes))
            else:
                second = backend.broadcast_to(second[None], (n_steps, n, n))
    n_starts = 1
    if start.batch:
        n_starts = len(offsets) - 1
        first = start.over(backend, outer, lengths[:-1]).reshape((-1, n))
        first = first[np.repeat(np.arange(n_starts // pieces), pieces)] if pieces > 1 else first
    else:
        first = start.logs(backend)
    flat = whole.reshape((n_steps, -1))
    if second is not None:
        flat = backend.concatenate([second.reshape((n_steps, -1)), flat], axis=1)
    logs = backend.concatenate([first.reshape((-1,)), flat.reshape((-1,))])
    return MarkovLaw(n, offsets, n_starts, n_steps, order), logs


def _by_cell(backend: Backend, table: LogTable, dims: tuple[str, ...], lengths: tuple[int, ...]) -> Any:
    """A table for each cell of a node, or one for all."""
    if not table.batch:
        return table.over(backend, (), ())[None]
    return table.over(backend, dims, lengths).reshape((int(np.prod(lengths)), *table.sizes))


def _margin(scope: Scope, joint: LogTable) -> LogTable:
    """Log probabilities of the first state of a pair."""
    backend = scope.evaluator.backend
    with np.errstate(divide="ignore"):
        shares = backend.function("exp")(joint.logs(backend))
        value = backend.function("log")(backend.reduction("sum", shares, (-1,)))
    return LogTable(value, joint.batch, joint.states[:1], joint.sizes[:1], joint.possible.any(axis=1))


def _second(scope: Scope, joint: LogTable, first: LogTable) -> Any:
    """Log probabilities of the second state of a pair given the first; -inf where the first is impossible."""
    backend = scope.evaluator.backend
    difference = joint.logs(backend) - first.logs(backend)[..., None]
    never = backend.function("equal")(first.logs(backend)[..., None], -np.inf)
    return backend.function("where")(never, -np.inf, difference)


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
    _alike("MarkovTree", initial=start, P=moves)
    column = given["parent"]
    assert isinstance(column, ast.Name)
    rows = _parents(scope, column.id, node.dims[-1])
    outer = int(np.prod(scope.lengths(node.dims[:-1]), dtype=int))
    shift = np.arange(outer)[:, None] * len(rows)
    parents = np.where(rows >= 0, rows + shift, -1).ravel()
    backend = scope.evaluator.backend
    logs = [table.logs(backend).reshape((-1,)) for table in (start, moves)]
    return TreeLaw(moves.sizes[0], parents), backend.concatenate(logs)


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
    n, backend = moves.sizes[0], scope.evaluator.backend
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
    logs = [table.logs(backend).reshape((-1,)) for table in (start, moves, durations)]
    return SegmentLaw(n, _offsets(scope, node, given), durations.sizes[1]), backend.concatenate(logs)
