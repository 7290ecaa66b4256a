"""Axes in expressions: lists, concatenated vectors, and renamed dimensions."""

from __future__ import annotations

import ast
from collections.abc import Callable

import numpy as np

from bayeslab.errors import ModelError
from bayeslab.language.algebra import Algebra, Term, merged

__all__ = ["AXIS_FUNCTIONS", "vector"]


def vector(algebra: Algebra, items: list[Term]) -> Term:
    """A literal list as a term."""
    if any(None in item.dims for item in items):
        return _rows(algebra, items)
    if any(item.dims for item in items):
        return _stacked(algebra, items, None)
    if any(item.random for item in items):
        return Term(algebra.backend.stack([algebra.symbolic(item) for item in items]), (None,))
    return Term(np.array([item.value for item in items]), (None,))


def _rows(algebra: Algebra, items: list[Term]) -> Term:
    """A list of lists as a term: named axes of the entries come first, then rows, then the entries of a row."""
    depth = items[0].dims.count(None)
    inner = {algebra.shape(t)[len(t.dims) - depth :] for t in items}
    if any(item.dims.count(None) != depth for item in items) or len(inner) > 1:
        raise ModelError("the rows of a list of lists have different lengths", code="wrong-shape")
    names = list(dict.fromkeys(dim for item in items for dim in item.dims if dim is not None))
    symbolic, values = any(item.random for item in items), []
    for item in items:
        item_dims = [dim for dim in names if dim in item.dims]
        value = algebra.symbolic(item) if symbolic else np.asarray(item.value)
        order = [*(item.dims.index(dim) for dim in item_dims), *range(len(item_dims), len(item.dims))]
        value = value.transpose(order) if order != sorted(order) else value
        values.append(value[(*(slice(None) if dim in item_dims else None for dim in names), ...)])
    dims = (*names, *(None,) * (depth + 1))
    if symbolic:
        values = algebra.backend.broadcast(values) if names else values
        return Term(algebra.backend.stack(values, axis=len(names)), dims, undefined=merged(items))
    return Term(np.stack(np.broadcast_arrays(*values), axis=len(names)), dims, undefined=merged(items))


def _rename(algebra: Algebra, node: ast.Call) -> Term:
    term = algebra.eval(node.args[0])
    new = algebra.dim_name(node.args[-1])
    if len(node.args) == 3:
        old: str | None = algebra.dims_of(node, 1, term)
    elif len(term.dims) == 1:
        old = term.dims[0]
    else:
        raise ModelError("rename(x, old, new): say which of its dimensions to rename", code="wrong-arguments")
    if algebra.length(old) not in (None, algebra.length(new)):
        raise ModelError(
            f"rename(): '{old}' has length {algebra.length(old)}, '{new}' has {algebra.length(new)}",
            code="wrong-length",
        )
    dims = tuple(new if d == old else d for d in term.dims)
    if len(set(dims)) < len(dims):
        raise ModelError(f"rename(): the dimension '{new}' exists already", code="name-clash")
    undefined = {new if d == old else d: k for d, k in term.undefined.items()}
    if term.value is None:
        return Term(None, dims, term.codes, term.factor, undefined, term.column)
    value = algebra.symbolic(term) if term.random else np.asarray(term.value)
    return Term(value, dims, undefined=undefined)


def _index(algebra: Algebra, node: ast.Call) -> Term:
    dim = algebra.dim_name(node.args[0])
    return Term(np.arange(len(algebra.labels[dim])), (dim,))


def _size(algebra: Algebra, node: ast.Call) -> Term:
    return Term(len(algebra.labels[algebra.dim_name(node.args[0])]))


def _parts(algebra: Algebra, node: ast.Call) -> list[Term]:
    if not isinstance(node.args[0], ast.List | ast.Tuple):
        raise ModelError(f"{ast.unparse(node.func)}([a, b, ...], dim) needs a list first", code="wrong-arguments")
    return [algebra.eval(item) for item in node.args[0].elts]


def _stack(algebra: Algebra, node: ast.Call) -> Term:
    return _stacked(algebra, _parts(algebra, node), algebra.dim_name(node.args[1]))


def _stacked(algebra: Algebra, parts: list[Term], dim: str | None) -> Term:
    if dim is not None and len(parts) != algebra.length(dim):
        raise ModelError(
            f"stack(): {len(parts)} parts for the dimension '{dim}' of length {algebra.length(dim)}",
            code="wrong-length",
        )
    values, dims, symbolic = algebra.align(parts)
    if symbolic:
        values = algebra.backend.broadcast(values) if dims else values
        return Term(algebra.backend.stack(values, axis=-1), (*dims, dim), undefined=merged(parts))
    return Term(np.stack(np.broadcast_arrays(*values), axis=-1), (*dims, dim), undefined=merged(parts))


def _concat(algebra: Algebra, node: ast.Call) -> Term:
    dim, parts = algebra.dim_name(node.args[1]), _parts(algebra, node)
    symbolic = any(part.random for part in parts)
    values = []
    for part in parts:
        if len(part.dims) > 1:
            raise ModelError("concat([...], dim) joins single numbers and vectors", code="bad-dimensions")
        value = algebra.symbolic(part) if symbolic else np.asarray(part.value)
        values.append(value if part.dims else value[None])
    joined = algebra.backend.concatenate(values) if symbolic else np.concatenate(values)
    size = algebra.shape(Term(joined))[0]
    if size is not None and size != algebra.length(dim):
        raise ModelError(
            f"concat(): {size} values for the dimension '{dim}' of length {algebra.length(dim)}", code="wrong-length"
        )
    return Term(joined, (dim,))


AXIS_FUNCTIONS: dict[str, Callable[[Algebra, ast.Call], Term]] = {
    "rename": _rename,
    "index": _index,
    "size": _size,
    "stack": _stack,
    "concat": _concat,
}
