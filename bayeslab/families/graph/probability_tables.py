"""Probabilities of hidden paths, read from expressions as log tables laid out by dimension names.

A table is a name or an expression whose last dimensions are the states, or a list (of lists) whose entries are any
expressions, as in ``[[phi, 1 - phi], [0, 1]]``. Further dimensions of a table are dimensions of the node.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.errors import ModelError, listed
from bayeslab.families.graph.scope import Scope
from bayeslab.language.algebra import Term
from bayeslab.language.backends import Backend

__all__ = ["LogTable", "log_table", "uniform"]

# Tolerance of the sum of a row of probabilities (that of ``numpy.isclose``).
_SUM = 1e-5


@dataclass(frozen=True, eq=False)
class LogTable:
    """Logarithms of probabilities.

    Attributes
    ----------
    value : variable of the scope's backend, or ndarray
        (batch..., states, ...), -inf where zero.
    batch : tuple of str
        Dimensions of the node along which the table varies, in the node's order.
    states : tuple of (str or None)
        Names of the dimensions of the states.
    sizes : tuple of int
        Their lengths.
    possible : ndarray of bool (states, ...)
        Which probabilities can be positive.
    normalised : bool
        Whether rows sum to 1 by construction.
    """

    value: Any
    batch: tuple[str, ...]
    states: tuple[str | None, ...]
    sizes: tuple[int, ...]
    possible: np.ndarray
    normalised: bool = False

    def logs(self, backend: Backend) -> Any:
        """The logarithms as a variable of a backend."""
        return backend.constant(self.value) if isinstance(self.value, np.ndarray) else self.value

    def over(self, backend: Backend, dims: tuple[str, ...], lengths: tuple[int, ...]) -> Any:
        """The logarithms with an axis of full length for each of these dimensions."""
        index = tuple(slice(None) if dim in self.batch else None for dim in dims)
        value = self.logs(backend)[index] if dims else self.logs(backend)
        return backend.broadcast_to(value, (*lengths, *self.sizes))


def uniform(size: int) -> LogTable:
    """Equal probabilities."""
    return LogTable(np.full(size, -np.log(size)), (), (None,), (size,), np.ones(size, bool))


_TWINS = object()


def log_table(
    scope: Scope,
    tree: ast.expr,
    dims: tuple[str, ...],
    core: int,
    word: str,
    name: str,
    *,
    of: Any = _TWINS,
    joint: bool = False,
) -> LogTable:
    """Read the parameter ``name`` of the distribution ``word`` of a node with these dims and ``core`` state axes.

    ``of``: the dimension of its rows, if it is not a table of states by states; ``joint``: all its numbers together sum
    to 1, not each row.

    Raises
    ------
    ModelError
        The dimensions are wrong, or the probabilities do not sum to 1.
    """
    table = _listed(scope, tree, dims, core, name) if isinstance(tree, ast.List | ast.Tuple) else None
    if table is None:
        written = isinstance(tree.value if isinstance(tree, ast.Subscript) else tree, ast.Name)
        table = _named(scope, scope.evaluator.eval(tree), dims, core, word, name, of, written=written)
    _check_sums(scope, table, word, name, joint)
    return table


def _listed(scope: Scope, tree: ast.List | ast.Tuple, dims: tuple[str, ...], core: int, name: str) -> LogTable | None:
    """Read a (nested) list of probabilities entry by entry; None if entries are vectors."""
    entries, sizes = _entries(tree, core, name)
    if entries is None:
        return None
    terms = [scope.evaluator.eval(entry) for entry in entries]
    for term, entry in zip(terms, entries, strict=True):
        extra = [str(dim) for dim in term.dims if dim not in dims]
        if extra:
            raise ModelError(
                f"the entry '{ast.unparse(entry)}' of '{name}' runs along {listed(extra)}, which the node does not"
                f" have: index it, or sum over it",
                offset=entry.col_offset,
                code="bad-dimensions",
            )
        if term.value is None:
            raise ModelError(
                f"the entry '{ast.unparse(entry)}' of '{name}' holds levels, not probabilities",
                offset=entry.col_offset,
                code="not-numbers",
            )
    batch = tuple(dim for dim in dims if any(dim in term.dims for term in terms))
    zero = [not term.random and bool(np.all(np.asarray(term.value) == 0)) for term in terms]
    possible = ~np.array(zero).reshape(sizes)
    states = (None,) * core
    logs, symbolic = [], any(term.random for term in terms)
    for term in terms:
        (value,), _, _ = scope.evaluator.align([term], onto=batch)
        if term.random:
            logs.append(scope.evaluator.backend.function("log")(value))
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                logs.append(np.log(np.asarray(value, dtype=float)))
    shape = scope.lengths(batch)
    if not symbolic:
        whole = np.stack([np.broadcast_to(value, shape) for value in logs], axis=-1)
        return LogTable(whole.reshape(*shape, *sizes), batch, states, sizes, possible)
    backend = scope.evaluator.backend
    parts = [backend.broadcast_to(value, shape) if batch else value for value in logs]
    return LogTable(backend.stack(parts, axis=-1).reshape((*shape, *sizes)), batch, states, sizes, possible)


def _entries(tree: ast.List | ast.Tuple, core: int, name: str) -> tuple[list[ast.expr] | None, tuple[int, ...]]:
    """The entries of nested lists, row by row, and the lengths; None if the lists are less deep."""
    level: list[ast.expr] = [tree]
    sizes: list[int] = []
    for _ in range(core):
        if not all(isinstance(item, ast.List | ast.Tuple) for item in level):
            return None, ()
        lengths = {len(item.elts) for item in level}  # type: ignore[attr-defined]
        if len(lengths) > 1:
            raise ModelError(f"the rows of '{name}' have different lengths", offset=tree.col_offset, code="wrong-shape")
        sizes += lengths
        level = [entry for item in level for entry in item.elts]  # type: ignore[attr-defined]
    return level, tuple(sizes)


def _named(
    scope: Scope, term: Term, dims: tuple[str, ...], core: int, word: str, name: str, of: Any, *, written: bool
) -> LogTable:
    """Read a name or an expression; ``written``: whether its dimensions are in a node's order."""
    if term.value is None:
        raise ModelError(f"the parameter '{name}' of {word} holds levels, not probabilities", code="not-numbers")
    rest = [dim for dim in term.dims if dim is None or dim not in dims]
    if len(rest) != core:
        have = ", ".join(str(dim) for dim in term.dims) or "none"
        raise ModelError(
            f"the parameter '{name}' of {word} has {core} dimension{'s' if core > 1 else ''} of states, besides those"
            f" of the node ({', '.join(dims)}); it has ({have})",
            code="bad-dimensions",
        )
    of_twins = of is _TWINS
    states = tuple(_in_order(scope, rest, name, written) if of_twins else sorted(rest, key=lambda dim: dim != of))
    batch = tuple(dim for dim in dims if dim in term.dims)
    order = [*(term.dims.index(dim) for dim in batch), *_axes(term.dims, rest, states)]
    if term.random:
        value = term.value.transpose(*order) if order != sorted(order) else term.value
        value = value.astype("float64")
        positive = scope.positive(term.value)
        logs = scope.evaluator.backend.function("log")(value) if positive else scope.log_or_nothing(value)
        sizes = tuple(
            int(n) if n is not None else len(scope.labels[str(dim)])
            for n, dim in zip(scope.evaluator.backend.shape(value)[len(batch) :], states, strict=True)
        )
        possible = np.ones(sizes, bool)
        if not positive:
            drawn = scope.drawn(value)
            if drawn is not None:
                possible = (drawn > 0).reshape(-1, *sizes).any(axis=0)
        return LogTable(logs, batch, states, sizes, possible, positive)
    value = np.asarray(term.value, dtype=float).transpose(order)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(value)
    sizes = value.shape[len(batch) :]
    return LogTable(logs, batch, states, sizes, (value > 0).reshape(-1, *sizes).any(axis=0))


def _axes(dims: Sequence[str | None], rest: Sequence[str | None], states: Sequence[str | None]) -> list[int]:
    """Positions of the state axes."""
    if None in rest:
        return [at for at, dim in enumerate(dims) if dim is None or dim in rest]
    return [dims.index(dim) for dim in states]


def _in_order(scope: Scope, rest: Sequence[str | None], name: str, written: bool) -> Sequence[str | None]:
    """Dimensions of the states, from the earliest to the next state: a dimension and its twins.

    A node's dimensions are in its own order, as in ``P[state, next_state]``. Those of an expression must be in the
    order of their declaration: the sum of ``b[next_state]`` and ``a[state]`` has no order.
    """
    if len(rest) == 1 or None in rest:
        return rest
    base = [dim for dim in rest if dim not in scope.twins]
    twins = [dim for dim in rest if dim in scope.twins]
    first, *others = (str(dim) for dim in rest)
    if len({scope.twins.get(str(dim), str(dim)) for dim in rest}) > 1:
        twin = ", ".join(f"{dim}: {first}" for dim in others)
        raise ModelError(
            f"the dimensions of '{name}', {listed(map(str, rest))}, are the previous and the next state: declare the"
            f" second a twin of the first in dims ({twin})",
            code="bad-dimensions",
        )
    declared = list(scope.twins)
    if written or list(rest) == [*base, *sorted(twins, key=lambda dim: declared.index(str(dim)))]:
        return rest
    raise ModelError(
        f"which of {listed(map(str, rest))} is the next state of '{name}' is not clear: give its expression a node,"
        f" P[...], whose dimensions go from the state that is left to the one that is entered",
        code="bad-dimensions",
    )


def _check_sums(scope: Scope, table: LogTable, word: str, name: str, joint: bool) -> None:
    """Refuse rows that do not sum to 1 for all parameters, or contain numbers that are not probabilities."""
    rows = len(table.sizes) > 1 and not joint
    what = f"{word}: the {'rows' if rows else 'entries'} of '{name}'"
    if isinstance(table.value, np.ndarray):
        values: np.ndarray | None = np.exp(table.value)
    elif table.normalised and not joint:
        return
    else:
        values = scope.drawn(scope.evaluator.backend.function("exp")(table.value))
    if values is None:
        return
    if np.isnan(values).any() or (values > 1 + _SUM).any():
        raise ModelError(f"{what} hold a number that is not a probability", code="not-probabilities")
    total = values.sum(axis=tuple(range(-len(table.sizes), 0)) if joint else -1)
    wrong = np.abs(total - 1.0) > _SUM
    if wrong.any():
        raise ModelError(f"{what} add up to {total[wrong].flat[0]:.6g}, not to 1", code="not-probabilities")
