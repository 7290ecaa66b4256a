"""Recursions along a dimension in programs of the density machine."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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

__all__ = ["computed_rows", "sampled_rows"]


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
class _Rows(Law):
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


def _history(reader: Reader, split: Split, node: Node) -> list[Any]:
    """The values of the rows before the first, oldest first."""
    if split.starts.keys() != split.backs.keys() or len({text for text, _ in split.starts.values()}) > 1:
        raise NotLowered(node.name, "lags with different start values")
    _, start = next(iter(split.starts.values()))
    batch = node.dims[:-1]
    (value,), _, _ = reader.evaluator.align([start], onto=batch)
    return [value] * split.order(node.name)


def _check(split: Split, node: Node) -> None:
    for term in split.parts.values():
        if term.factor is not None or term.value is None:
            raise NotLowered(node.name, "a recursion with factors")
    if split.undefined:
        raise NotLowered(node.name, "a recursion with lag() of another vector")


def computed_rows(reader: Reader, node: Node) -> Term:
    """A deterministic node that depends on its past, computed row by row."""
    split = Split(node, reader.evaluator, frozenset([node.name]))
    _check(split, node)
    dim, batch = node.dims[-1], node.dims[:-1]
    length, shape, order = len(reader.labels[dim]), reader.lengths(batch), split.order(node.name)
    history = _history(reader, split, node)
    along = [name for name, term in split.parts.items() if dim in term.dims]

    def row(past: Callable[[int], Any], now: Mapping[str, Any], random: bool) -> Any:
        def lookup(name: str) -> Term:
            if name in split.backs:
                return Term(past(split.backs[name][1]), batch)
            term = split.parts[name]
            return Term(now.get(name, term.value), tuple(d for d in term.dims if d != dim))

        inner = Evaluator(lookup, reader.labels, backend=reader.evaluator.backend)
        (value,), _, _ = inner.align([inner.eval(split.tree)], onto=batch)
        return reader.builder.as_var(value).broadcast_to(shape) if random else np.broadcast_to(value, shape)

    terms = [*split.parts.values(), *(start for _, start in split.starts.values())]
    if not any(term.random for term in terms):
        out = [np.broadcast_to(np.asarray(value, float), shape) for value in history]
        values = {name: np.moveaxis(np.asarray(split.parts[name].value), _axis(split, name, dim), 0) for name in along}
        for i in range(length):
            out.append(np.asarray(row(lambda k: out[-k], {n: v[i] for n, v in values.items()}, False), float))
        return Term(np.moveaxis(np.stack(out[order:]), 0, -1), node.dims)
    first = stack([reader.builder.as_var(value).broadcast_to(shape) for value in history], 0)
    sequences = []
    for name in along:
        value = reader.builder.as_var(split.parts[name].value)
        sequences.append(moveaxis(value, _axis(split, name, dim), 0))

    def body(past: list[Var], rows: list[Var]) -> list[Any]:
        return [row(lambda k: past[0][order - k], dict(zip(along, rows, strict=True)), True)]

    (series,) = reader.builder.loop(length, body, [first], sequences)
    return Term(moveaxis(series, 0, -1), node.dims)


def _axis(split: Split, name: str, dim: str) -> int:
    return split.parts[name].dims.index(dim)


def sampled_rows(reader: Reader, node: Node) -> Term:
    """A random node without data that depends on its past; its log density is evaluated for all rows at once."""
    word = scalar_distribution(node)
    if node.discrete:
        raise NotLowered(node.name, "a discrete node that depends on its past")
    split = Split(node, reader.evaluator, frozenset([node.name]))
    _check(split, node)
    dim, batch = node.dims[-1], node.dims[:-1]
    length, shape, order = len(reader.labels[dim]), reader.lengths(batch), split.order(node.name)
    history = [reader.builder.as_var(value).broadcast_to(shape) for value in _history(reader, split, node)]

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
            return Term(history[order - split.backs[name][1]], batch)
        term = split.parts[name]
        if dim not in term.dims:
            return term
        value = reader.evaluator.symbolic(term)
        return Term(value[(slice(None),) * term.dims.index(dim) + (0,)], tuple(d for d in term.dims if d != dim))

    mapped = law(in_first, batch).transform()
    if isinstance(mapped, Interval):
        raise NotLowered(node.name, "a support that depends on the row")
    whole_shape = (*shape, length)
    coordinates = reader.builder.parameter(int(np.prod(whole_shape))).reshape(whole_shape)
    value = coordinates if mapped is None else mapped.backward(coordinates)
    whole = reader.builder.concatenate([moveaxis(stack(history, 0), 0, -1), value], -1)

    def in_all(name: str) -> Term:
        if name in split.backs:
            back = split.backs[name][1]
            return Term(whole[..., order - back : order - back + length], node.dims)
        return split.parts[name]

    first = history[-1][..., None].broadcast_to(whole_shape)
    rows = _Rows(reader.builder, whole_shape, law(in_all, node.dims), mapped, first)
    reader.sampled(node.name, rows, node.dims, mapped, coordinates, value, first)
    return Term(value, node.dims)
