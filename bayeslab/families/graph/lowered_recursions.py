"""Recursions along a dimension in programs of the density machine."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from bayeslab.distributions import DISTRIBUTIONS
from bayeslab.families.graph.recursion import Split, scalar_distribution
from bayeslab.language.algebra import Term
from bayeslab.language.evaluator import Evaluator
from bayeslab.language.nodes import Node, bound_arguments
from bayeslab.posterior.machine.arrays import NotLowered, Var
from bayeslab.posterior.machine.functions import moveaxis, stack
from bayeslab.posterior.machine.laws import Law
from bayeslab.posterior.machine.program import Builder
from bayeslab.posterior.machine.transforms import Interval, Transform

__all__ = ["RowsInTurn", "computed_rows", "sampled_rows"]

# Largest number of rows that are computed without a loop.
_MOST_ROWS = 2_000


class Reader(Protocol):
    """The methods of a model's lowering that recursions use."""

    builder: Builder
    evaluator: Evaluator
    labels: dict[str, Any]

    def lengths(self, dims: tuple[str, ...]) -> tuple[int, ...]:
        """The lengths of dimensions."""
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

    def variable(self, word: str, parameters: dict[str, Any], dims: tuple[str, ...]) -> Law:
        """A distribution with the given parameters."""
        ...

    def parameter_of(self, shape: tuple[int, ...], transform: Transform | None) -> tuple[Var, Var]:
        """The coordinates and the value of a parameter of a shape."""
        ...

    def sampled(
        self,
        name: str,
        law: Law,
        dims: tuple[str, ...],
        transform: Transform | None,
        coordinates: Var,
        value: Var,
        start: Var,
    ) -> None:
        """Add a parameter, given its coordinates and its value."""
        ...


@dataclass(frozen=True, eq=False)
class RowsInTurn(Law):
    """The conditional distribution of each row of a series given the rows before it, at one value of the series."""

    law: Law
    mapped: Transform | None
    first: Var

    def log_density(self, x: Var) -> Var:
        return self.law.log_density(x)

    def transform(self) -> Transform | None:
        return self.mapped

    def start(self) -> Var:
        return self.first


@dataclass(frozen=True, eq=False)
class _Series:
    """A node that is computed row by row.

    Attributes
    ----------
    split : Split
    order : int
        The longest lag of the node in any node of its group, in rows, and at least 1.
    start : array or Var
        Its value before the first row.
    late : int
        Number of first rows that its definition leaves undefined; there it equals ``start``.
    shape : tuple of int
        Shape of a row.
    """

    split: Split
    order: int
    start: Any
    late: int
    shape: tuple[int, ...]

    @property
    def node(self) -> Node:
        return self.split.node

    @property
    def batch(self) -> tuple[str, ...]:
        """The dimensions of a row."""
        return self.node.dims[:-1]


def _start(reader: Reader, splits: Sequence[Split], node: Node) -> Any:
    """The value of a node before its first row: the start of its shortest lag.

    A lag with another start keeps this start as a separate part, which holds in the rows in which the lag reaches back
    before the first row.
    """
    calls = [(k, split, back) for split in splits for back, (n, k) in split.backs.items() if n == node.name]
    if any(back not in split.starts for _, split, back in calls):
        raise NotLowered(node.name, "a lag without a start")
    _, split, back = min(calls, key=lambda call: call[0])
    source, start = split.starts[back]
    for _, other, name in calls:
        if other.starts[name][0] != source:
            other.apart[name] = f"__part_{len(other.parts)}"
            other.parts[other.apart[name]] = other.starts[name][1]
    (value,), _, _ = reader.evaluator.align([start], onto=node.dims[:-1])
    return value


def _group(reader: Reader, nodes: Sequence[Node]) -> list[_Series]:
    """Nodes that depend on each other's past, in the order in which the values of a row are computed."""
    names = frozenset(node.name for node in nodes)
    if len({node.dims[-1:] for node in nodes}) != 1:
        raise NotLowered(nodes[0].name, "nodes that depend on each other's past along several dimensions")
    splits = [Split(node, reader.evaluator, names) for node in nodes]
    late: dict[str, int] = {}
    for split in splits:
        late[split.node.name] = max([split.undefined, *(late[n] for n in split.nows)])
    orders = {node.name: max(split.order(node.name) for split in splits) for node in nodes}
    starts = {node.name: _start(reader, splits, node) if orders[node.name] else 0.0 for node in nodes}
    for split in splits:
        if late[split.node.name] and not orders[split.node.name]:
            raise NotLowered(split.node.name, "rows before the first without a start")
    return [
        _Series(split, max(1, orders[name]), starts[name], late[name], reader.lengths(split.node.dims[:-1]))
        for name, split in zip(orders, splits, strict=True)
    ]


def computed_rows(reader: Reader, nodes: Sequence[Node]) -> dict[str, Term]:
    """Deterministic nodes that depend on their past, or on each other's, computed row by row.

    Parameters
    ----------
    nodes
        In an order in which each comes after those whose value in the same row it needs.

    Raises
    ------
    NotLowered
        A part of the recursion is not known.
    """
    group, dim = _group(reader, nodes), nodes[0].dims[-1]
    length, first = len(reader.labels[dim]), min(series.late for series in group)
    splits = {series.node.name: series.split for series in group}
    along = [(name, part) for name, split in splits.items() for part, term in split.parts.items() if dim in term.dims]
    later = {series.node.name: np.arange(first, length) < series.late for series in group if series.late > first}
    backs = sorted({split.backs[back][1] for split in splits.values() for back in split.apart})
    # Rows in which a lag reaches back before the first row.
    before = {f"{k} back": np.arange(first, length) < k for k in backs}

    def row(
        past: Callable[[str, int], Any], parts: Mapping[tuple[str, str], Term], flags: Callable[[str], Any]
    ) -> dict[str, Any]:
        """The values of one row, given those of the rows before and parts that change from row to row."""
        now: dict[str, Any] = {}
        for series in group:
            split, batch = series.split, series.batch

            def part(name: str, split: Split = split) -> Term:
                return parts.get((split.node.name, name)) or replace(split.parts[name], column=None)

            def lookup(name: str, split: Split = split, part: Callable[[str], Term] = part) -> Term:
                if name in split.backs:
                    other, back = split.backs[name]
                    dims, value = splits[other].node.dims[:-1], past(other, back)
                    if name in split.apart:
                        (start,), _, _ = reader.evaluator.align([part(split.apart[name])], onto=dims)
                        value = _chosen(reader, flags(f"{back} back"), start, value, reader.lengths(dims))
                    return Term(value, dims)
                if name.startswith("__now_"):
                    other = name.removeprefix("__now_")
                    return Term(now[other], splits[other].node.dims[:-1])
                return part(name)

            inner = Evaluator(lookup, reader.labels, backend=reader.evaluator.backend)
            (value,), _, _ = inner.align([inner.eval(split.tree)], onto=batch)
            if series.node.name in later:
                value = _chosen(reader, flags(series.node.name), series.start, value, series.shape)
            now[series.node.name] = value
        return now

    flags = {**later, **before}
    factors = any(splits[name].parts[part].factor is not None for name, part in along)
    if factors or not _random(group):
        if _random(group) and length > _MOST_ROWS:
            raise NotLowered(nodes[0].name, f"{length:,} rows with factors that change from row to row")
        return _in_turn(reader, group, along, first, length, row, flags)
    initial = []
    for series in group:
        start = reader.builder.as_var(series.start).broadcast_to(series.shape)
        initial.append(stack([start] * series.order, 0))
    sequences = [reader.builder.constant(values) for values in flags.values()]
    for name, part in along:
        value = reader.builder.as_var(splits[name].parts[part].value)
        sequences.append(moveaxis(value, splits[name].parts[part].dims.index(dim), 0)[first:])

    def body(windows: list[Var], rows: list[Var]) -> list[Any]:
        places = {series.node.name: (window, series.order) for series, window in zip(group, windows, strict=True)}

        def past(name: str, back: int) -> Var:
            window, order = places[name]
            return window[order - back]

        marks = dict(zip(flags, rows, strict=False))
        parts = {}
        for (name, part), value in zip(along, rows[len(flags) :], strict=True):
            parts[name, part] = Term(value, _without(dim, splits[name].parts[part].dims))
        now = row(past, parts, marks.__getitem__)
        return [reader.builder.as_var(now[series.node.name]).broadcast_to(series.shape) for series in group]

    out = {}
    for series, rows in zip(group, reader.builder.loop(length - first, body, initial, sequences), strict=True):
        if first:
            start = reader.builder.as_var(series.start).broadcast_to((first, *series.shape))
            rows = reader.builder.concatenate([start, rows], 0)
        out[series.node.name] = Term(moveaxis(rows, 0, -1), series.node.dims)
    return out


def _random(group: Sequence[_Series]) -> bool:
    """Whether a series depends on parameters."""
    splits = [series.split for series in group]
    terms = [term for s in splits for term in (*s.parts.values(), *(start for _, start in s.starts.values()))]
    return any(term.random for term in terms)


def _in_turn(
    reader: Reader,
    group: Sequence[_Series],
    along: Sequence[tuple[str, str]],
    first: int,
    length: int,
    row: Callable[..., dict[str, Any]],
    flags: Mapping[str, np.ndarray],
) -> dict[str, Term]:
    """Series whose rows are computed one after another without a loop: of data only, or with factors."""
    splits, random = {series.node.name: series.split for series in group}, _random(group)

    def made(value: Any, shape: tuple[int, ...]) -> Any:
        return (
            reader.builder.as_var(value).broadcast_to(shape)
            if random
            else np.broadcast_to(np.asarray(value, float), shape)
        )

    rows_of: dict[tuple[str, str], Callable[[int], Term]] = {}
    for name, part in along:
        term, dim = splits[name].parts[part], splits[name].node.dims[-1]
        rows_of[name, part] = partial(_row_of, term, dim)
    out: dict[str, list[Any]] = {}
    for series in group:
        out[series.node.name] = [made(series.start, series.shape)] * (series.order + first)
    for i in range(first, length):
        now = row(
            lambda name, back: out[name][-back],
            {key: at(i) for key, at in rows_of.items()},
            lambda flag, i=i: flags[flag][i - first],
        )
        for series in group:
            out[series.node.name].append(made(now[series.node.name], series.shape))
    whole = {}
    for series in group:
        rows = out[series.node.name][series.order :]
        value = moveaxis(stack(rows, 0), 0, -1) if random else np.moveaxis(np.stack(rows), 0, -1)
        whole[series.node.name] = Term(value, series.node.dims)
    return whole


def _without(dim: str, dims: tuple[str | None, ...]) -> tuple[str | None, ...]:
    return tuple(d for d in dims if d != dim)


def _row_of(term: Term, dim: str, i: int) -> Term:
    """A row of a term."""
    place = (slice(None),) * term.dims.index(dim) + (i,)
    value = None if term.value is None else term.value[place]
    codes = None if term.codes is None else term.codes[place]
    return Term(value, _without(dim, term.dims), codes=codes, factor=term.factor)


def _chosen(reader: Reader, flag: Any, start: Any, value: Any, shape: tuple[int, ...]) -> Any:
    """The start where a flag is true, and the value elsewhere."""
    if not any(isinstance(each, Var) for each in (flag, start, value)):
        return np.broadcast_to(start if flag else value, shape)
    builder = reader.builder
    start, value = (builder.as_var(each).broadcast_to(shape) for each in (start, value))
    return builder.elementwise("where", flag, start, value)


def sampled_rows(reader: Reader, node: Node) -> Term:
    """A random node without data that depends on its past; its log density is evaluated for all rows at once."""
    word = scalar_distribution(node)
    if node.discrete:
        raise NotLowered(node.name, "a discrete node that depends on its past")
    (series,) = _group(reader, [node])
    split, shape, order = series.split, series.shape, series.order
    if series.late:
        raise NotLowered(node.name, "first rows without a distribution")
    dim, batch = node.dims[-1], node.dims[:-1]
    length = len(reader.labels[dim])
    before = reader.builder.as_var(series.start).broadcast_to(shape)

    def law(lookup: Callable[[str], Term], dims: tuple[str, ...]) -> Law:
        inner, entry = Evaluator(lookup, reader.labels, backend=reader.evaluator.backend), DISTRIBUTIONS[word]
        assert isinstance(split.tree, ast.Call)
        given = {
            name: reader.parameter(inner.eval(value), dims, (), entry.core.get(name, 0), name, name in entry.apart)
            for name, value in bound_arguments(split.tree, word).items()
        }
        return reader.variable(word, given, dims)

    def in_first(name: str) -> Term:
        if name in split.backs:
            return Term(before, batch)
        term = split.parts[name]
        return _row_of(term, dim, 0) if dim in term.dims else term

    mapped = law(in_first, batch).transform()
    if isinstance(mapped, Interval):
        raise NotLowered(node.name, "a support that depends on the row")
    whole_shape = (*shape, length)
    coordinates, value = reader.parameter_of(whole_shape, mapped)
    whole = reader.builder.concatenate([before[..., None].broadcast_to((*shape, order)), value], -1)

    def in_all(name: str) -> Term:
        if name in split.backs:
            back = split.backs[name][1]
            past = whole[..., order - back : order - back + length]
            if name in split.apart:
                (start,), _, _ = reader.evaluator.align([split.parts[split.apart[name]]], onto=batch)
                start = reader.builder.as_var(start)
                start = start[..., None] if start.ndim else start
                past = _chosen(reader, np.arange(length) < back, start, past, whole_shape)
            return Term(past, node.dims)
        return split.parts[name]

    first = before[..., None].broadcast_to(whole_shape)
    rows = RowsInTurn(reader.builder, whole_shape, law(in_all, node.dims), mapped, first)
    reader.sampled(node.name, rows, node.dims, mapped, coordinates, value, first)
    return Term(value, node.dims)
