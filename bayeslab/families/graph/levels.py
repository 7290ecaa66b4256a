"""Observed nodes whose values are levels, and the dimension that names the levels.

The probabilities of a ``Categorical`` lie along a dimension, and its observed column holds the labels of that
dimension. Cells are matched to probabilities by these labels, never by their order in the data.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.node_values import Environment, NotExact
from bayeslab.errors import BayeslabError
from bayeslab.language.algebra import Term
from bayeslab.language.nodes import Node, bound_arguments, call_name

__all__ = ["categories", "stand_in", "takes_levels"]

_ORDERED = frozenset(("OrderedLogistic", "OrderedProbit"))
_OVER_LEVELS = frozenset(("Bernoulli", "Categorical")) | _ORDERED


def takes_levels(tree: ast.expr) -> bool:
    """Whether the values of a distribution are levels, so that a column of text can be observed."""
    parts = list(_parts(tree))
    return bool(parts) and all(call_name(part) in _OVER_LEVELS for part in parts)


def _parts(tree: ast.expr) -> Iterator[ast.expr]:
    """The distribution itself, or the components of a mixture."""
    if call_name(tree) != "Mixture":
        yield tree
        return
    assert isinstance(tree, ast.Call)
    parts = bound_arguments(tree, "Mixture").get("comp_dists")
    for item in parts.elts if isinstance(parts, ast.List | ast.Tuple) else [parts] if parts is not None else []:
        yield from _parts(item)


def categories(nodes: Mapping[str, Node], data: Data) -> dict[str, str | None]:
    """Random nodes whose values are levels, each with the dimension of its probabilities.

    The dimension is None if it has no name: for a list of probabilities, and for cutpoints.
    """
    out: dict[str, str | None] = {}
    for name, node in nodes.items():
        if node.kind == "random" and takes_levels(node.expression.tree):
            dimensions = _named(node, nodes, data)
            out[name] = dimensions.pop() if len(dimensions) == 1 else None
    return out


def _named(node: Node, nodes: Mapping[str, Node], data: Data) -> set[str | None]:
    """The dimensions of probabilities that neither the node nor the weights of a mixture have."""
    tree = node.expression.tree
    known: set[str | None] = set(node.dims)
    assert isinstance(tree, ast.Call)
    if call_name(tree) == "Mixture":
        known |= set(_dimensions_of(bound_arguments(tree, "Mixture")["w"], nodes, data))
    dimensions: set[str | None] = set()
    for part in _parts(tree):
        assert isinstance(part, ast.Call)
        given = bound_arguments(part, str(call_name(part)))
        for word in ("p", "logit_p") if call_name(part) == "Categorical" else ():
            if word in given:
                dimensions |= set(_dimensions_of(given[word], nodes, data)) - known
    return dimensions


def _dimensions_of(tree: ast.expr, nodes: Mapping[str, Node], data: Data) -> tuple[str | None, ...]:
    """The dimensions of an expression, with or without parameters; unnamed if it cannot be evaluated."""
    term = stand_in(tree, nodes, data)
    return (None,) if term is None else term.dims


def stand_in(tree: ast.expr, nodes: Mapping[str, Node], data: Data) -> Term | None:
    """An expression with zeros for discrete nodes and ones for others: its dimensions and its shape.

    A lagged node has the dimensions of the node.
    """
    values, columns, kept = {}, data.names(), dict(data.frozen)
    try:
        for name, node in nodes.items():
            if node.kind != "random":
                continue
            if name in columns:
                term = data.term(name, missing=True)
                codes = None if term.codes is None else np.zeros_like(term.codes)
                value = None if term.value is None else np.full(np.shape(term.value), 0 if node.discrete else 1.0)
                values[name] = replace(term, value=value, codes=codes, column=None)
            else:
                shape = tuple(len(data.labels.get(dim, ())) for dim in node.dims)
                values[name] = Term(np.broadcast_to(0 if node.discrete else 1.0, shape), node.dims)
        with np.errstate(all="ignore"):
            return Environment(nodes, data, values).eval(_Now().visit(deepcopy(tree)))
    except (BayeslabError, NotExact, ValueError, TypeError, IndexError, np.linalg.LinAlgError, RecursionError):
        return None
    finally:  # sums of placeholder values are not sums of data
        data.frozen.clear()
        data.frozen.update(kept)


class _Now(ast.NodeTransformer):
    """Replaces the past of a node by the node."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        return node.args[0] if call_name(node) in ("previous", "lag") and node.args else node
