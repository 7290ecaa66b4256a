"""What is linear in states and functions, in the language, for a plain PyMC script that integrates them out."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from bayeslab.language.nodes import Node

__all__ = ["Linear", "NotSplit", "Part", "names_in", "split"]


def names_in(tree: ast.expr) -> set[str]:
    """Names in an expression."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


class NotSplit(Exception):
    """An expression is not written as a sum of terms with at most one of the integrated nodes."""


@dataclass(frozen=True)
class Part:
    """A term with an integrated node: a factor, or None for 1, and the index of the node's cell, or None."""

    factor: ast.expr | None = None
    index: ast.expr | None = None


@dataclass(frozen=True)
class Linear:
    """An offset, or None for 0, and a part for each integrated node."""

    offset: ast.expr | None
    parts: Mapping[str, Part] = field(default_factory=dict)


def split(
    tree: ast.expr,
    nodes: Mapping[str, Node],
    integrated: Collection[str],
    tied: Collection[str],
    named: Callable[[str, ast.expr], ast.expr],
) -> Linear:
    """An expression of the language as a linear function of integrated nodes.

    Parameters
    ----------
    integrated
        Names of the nodes that are integrated out.
    tied
        These, and all nodes that are computed from them.
    named
        ``named(node, tree)`` gives a name to an expression with the dimensions of a computed node.

    Raises
    ------
    NotSplit
    """

    def again(part: ast.expr) -> Linear:
        return split(part, nodes, integrated, tied, named)

    if not names_in(tree) & set(tied):
        return Linear(tree)
    match tree:
        case ast.Name(id=name) if name in integrated:
            return Linear(None, {name: Part()})
        case ast.Name(id=name) if name in nodes and nodes[name].kind == "deterministic":
            return again(nodes[name].expression.tree)
        case ast.Subscript(value=ast.Name(id=name), slice=index) if name in integrated:
            return Linear(None, {name: Part(index=index)})
        case ast.Subscript(value=ast.Name(id=name), slice=index) if name in nodes:
            return _indexed(again(ast.Name(name)), name, index, named)
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            return _added(again(tree.left), again(tree.right), tree.op)
        case ast.UnaryOp(op=ast.USub()):
            return _scaled(again(tree.operand), lambda value: ast.UnaryOp(ast.USub(), value))
        case ast.BinOp(op=ast.Mult()):
            left, right = again(tree.left), again(tree.right)
            one, other = (left, tree.right) if left.parts else (right, tree.left)
            if left.parts and right.parts:
                raise NotSplit
            return _scaled(one, lambda value: ast.BinOp(value, ast.Mult(), other), other)
        case ast.BinOp(op=ast.Div()) if not names_in(tree.right) & set(tied):
            return _scaled(again(tree.left), lambda value: ast.BinOp(value, ast.Div(), tree.right))
    raise NotSplit


def _added(left: Linear, right: Linear, sign: ast.operator) -> Linear:
    if left.parts.keys() & right.parts.keys():
        raise NotSplit
    minus = isinstance(sign, ast.Sub)
    if minus and right.parts:
        right = _scaled(right, lambda value: ast.UnaryOp(ast.USub(), value))
        minus = False
    offset = left.offset if right.offset is None else right.offset
    if left.offset is not None and right.offset is not None:
        offset = ast.BinOp(left.offset, ast.Sub() if minus else ast.Add(), right.offset)
    elif minus and right.offset is not None:
        offset = ast.UnaryOp(ast.USub(), right.offset)
    return Linear(offset, {**left.parts, **right.parts})


def _scaled(form: Linear, by: Callable[[ast.expr], ast.expr], one: ast.expr | None = None) -> Linear:
    """The form times a value; ``one`` is the value itself, where a factor is 1."""
    parts = {}
    for name, part in form.parts.items():
        factor = by(ast.Constant(1)) if part.factor is None and one is None else one
        parts[name] = Part(factor if part.factor is None else by(part.factor), part.index)
    return Linear(None if form.offset is None else by(form.offset), parts)


def _indexed(form: Linear, name: str, index: ast.expr, named: Callable[[str, ast.expr], ast.expr]) -> Linear:
    """A form with the dimensions of a node, at an index."""
    if any(part.factor is not None or part.index is not None for part in form.parts.values()):
        raise NotSplit
    offset = None if form.offset is None else ast.Subscript(named(name, form.offset), index)
    return Linear(offset, {inner: Part(index=index) for inner in form.parts})
