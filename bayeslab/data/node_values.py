"""Evaluation of node expressions on NumPy arrays, at many values of the parameters at once.

The values of a parameter at many points are an array with an additional first axis, :data:`POINTS`.
The expression language broadcasts by name, so elementwise arithmetic, indexing, sums and products with
data work unchanged; the few functions that use "all" or "the last" of the axes exclude this one.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.errors import ModelError
from bayeslab.language.algebra import Term
from bayeslab.language.evaluator import Evaluator
from bayeslab.language.nodes import Node, byproducts

__all__ = ["POINTS", "Environment", "NotExact"]

#: The axis of the points, with a name that model files cannot use.
POINTS = "__points__"


class NotExact(Exception):
    """The reason why a closed form does not apply."""


class _Evaluator(Evaluator):
    """An evaluator that excludes the axis of points from the model's, and does not freeze sums over parameters."""

    parameters: frozenset[str] = frozenset()
    batch = POINTS

    def _eval(self, node: ast.expr) -> Term:
        term = super()._eval(node)
        if POINTS not in term.dims or term.dims[0] == POINTS or term.value is None:
            return term
        at = term.dims.index(POINTS)
        dims = (POINTS, *term.dims[:at], *term.dims[at + 1 :])
        return replace(term, value=np.moveaxis(np.asarray(term.value), at, 0), dims=dims)

    def reduce(self, name: str, node: ast.Call) -> Term:
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        if not names & self.parameters:
            return super().reduce(name, node)
        term = self.eval(node.args[0])
        if term.value is None or (name in ("min", "max", "prod") and term.undefined):
            raise ModelError(f"{name}() cannot be evaluated here", code="misplaced")
        dim = self.dims_of(node, 1, term)
        reduced = tuple(d for d in term.dims if d != POINTS) if dim is None else (dim,)
        value = np.asarray(term.value, float) if name not in ("min", "max") else np.asarray(term.value)
        for d, rows in term.undefined.items():
            if d in reduced and d in term.dims:
                value = value[(slice(None),) * term.dims.index(d) + (slice(rows, None),)]
        axis = tuple(i for i, d in enumerate(term.dims) if d in reduced)
        extra = {"ddof": 1} if name in ("sd", "var") else {}
        out = getattr(value, "std" if name == "sd" else name)(axis=axis, **extra) if axis else value
        kept = tuple(d for d in term.dims if d not in reduced)
        return Term(out, kept, undefined={d: k for d, k in term.undefined.items() if d not in reduced})


def _unknown(nodes: Mapping[str, Node], columns: set[str]) -> frozenset[str]:
    """Nodes that depend on parameters: random nodes without data, and nodes computed from them.

    Nodes computed from data alone are data: their sums keep the values of the fit when there are new rows.
    """
    out = {name for name, node in nodes.items() if name not in columns and node.kind != "deterministic"}
    out |= byproducts(nodes).keys()
    while more := {name for name, node in nodes.items() if name not in out | columns and node.parents & out}:
        out |= more
    return frozenset(out)


class Environment:
    """The nodes of a model with values for some of them.

    Parameters
    ----------
    nodes, data
        The model's nodes and the data bound to it.
    values
        Values of random nodes by name, with the node's dims, after :data:`POINTS` if there are many points.
    trees
        Expressions to use instead of those of deterministic nodes.
    only
        Positions along some dimensions; everything is evaluated at these only.
    """

    def __init__(
        self,
        nodes: Mapping[str, Node],
        data: Data,
        values: Mapping[str, Term],
        trees: Mapping[str, ast.expr] | None = None,
        only: Mapping[str, int] | None = None,
    ) -> None:
        self.only = only or {}
        self.nodes, self.data, self.values, self.trees = nodes, data, dict(values), trees or {}
        self.columns, self._byproducts = data.names(), byproducts(nodes)
        self._known: dict[str, Term] = {}
        labels = dict(data.labels) | {POINTS: np.zeros(0)}
        self._evaluator = _Evaluator(
            self.lookup, labels, data.frozen, past=self.lookup, rows=data.dataset.rows, cells=self._cells
        )
        self._evaluator.parameters = _unknown(nodes, self.columns)

    def lookup(self, name: str) -> Term:
        """The value of a node or of a data column."""
        return self._placed(self._whole(name))

    def _cells(self, name: str) -> Term:
        return self._placed(self.data.cells(name))

    def _placed(self, term: Term) -> Term:
        for dim in self.only.keys() & set(term.dims):
            at = term.dims.index(dim)
            value, codes = (None if a is None else np.take(a, self.only[dim], at) for a in (term.value, term.codes))
            dims = tuple(d for d in term.dims if d != dim)
            term = replace(term, value=value, codes=codes, dims=dims, column=None)
        return term

    def _whole(self, name: str) -> Term:
        if name in self.values:
            return self.values[name]
        node = self.nodes.get(name)
        if name in self._byproducts:
            raise NotExact(f"'{name}' has no value here")
        if node is None or name in self.columns:
            return self.data_of(node) if node is not None else self.data.term(name)
        if node.kind != "deterministic" or node.recursive:
            raise NotExact(f"'{name}' has no value here")
        if name not in self._known:
            self._known[name] = self._laid_out(node)
        return self._known[name]

    def eval(self, tree: ast.expr) -> Term:
        return self._evaluator.eval(tree)

    def shape(self, dims: tuple[str, ...]) -> tuple[int, ...]:
        for dim in dims:
            if dim not in self.data.labels:
                raise NotExact(f"the dimension '{dim}' has no length")
        return tuple(len(self.data.labels[dim]) for dim in dims)

    def data_of(self, node: Node) -> Term:
        """The data of an observed node, its axes in the order of the node's dims."""
        term = self.data.term(node.name)
        if term.value is None or term.dims == node.dims or set(term.dims) != set(node.dims):
            return term
        order = [term.dims.index(d) for d in node.dims]
        return replace(term, value=np.asarray(term.value).transpose(order), dims=node.dims, column=None)

    def on(self, tree: ast.expr, dims: tuple[str, ...]) -> tuple[np.ndarray, dict[str, int]]:
        """An expression as an array over the dims, with points as first axis if there are any; and undefined rows."""
        term = self.eval(tree)
        return self.over(term, dims), dict(term.undefined)

    def over(self, term: Term, dims: tuple[str, ...]) -> np.ndarray:
        """A value as an array over the dims, with points as first axis if there are any."""
        term = self._named(term, dims)
        if term.value is None:
            raise NotExact(f"'{term.column}' is text")
        lead = (POINTS,) if POINTS in term.dims else ()
        (value,), _, _ = self._evaluator.align([replace(term, column=None)], onto=(*lead, *dims))
        value = np.asarray(value, float)
        head, wanted = value.shape[: len(lead)], self.shape(dims)
        try:
            return np.broadcast_to(value, (*head, *wanted))
        except ValueError:
            raise NotExact("a list of another length than its dimension") from None

    def _laid_out(self, node: Node) -> Term:
        tree = self.trees.get(node.name, node.expression.tree)
        term = self.eval(tree)
        if term.value is None:
            return replace(term, column=None)
        value, undefined = self.on(tree, node.dims)
        dims = (POINTS, *node.dims) if value.ndim > len(node.dims) else node.dims
        return Term(value, dims, undefined=undefined)

    def _named(self, term: Term, dims: tuple[str, ...]) -> Term:
        """Name an unnamed axis after the only remaining dimension."""
        axes = tuple(d for d in term.dims if d != POINTS)
        if None not in axes:
            return term
        lacking = [d for d in dims if d not in axes]
        if len(axes) != len(dims) or axes.count(None) != len(lacking):
            raise NotExact("a list whose dimension is not the node's")
        if axes.count(None) > 1 and set(axes) != {None}:
            raise NotExact("a list whose dimensions have no names")
        left = iter(lacking)
        return replace(term, dims=tuple(next(left) if d is None else d for d in term.dims))
