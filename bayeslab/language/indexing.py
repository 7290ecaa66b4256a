"""Indexing in expressions: by factors ``x[group]``, by labels ``x["a"]``, by positions ``x[0]``."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayeslab.errors import ModelError, hint, listed
from bayeslab.language.algebra import Algebra, Term, merged

__all__ = ["indexed", "is_counted", "is_whole_number", "labels_are_numbers", "numbers_of"]

_WHOLE_NUMBER = re.compile(r"-?\d+")


def is_whole_number(word: str) -> bool:
    """Whether a label is a whole number."""
    return _WHOLE_NUMBER.fullmatch(word) is not None


def labels_are_numbers(labels: np.ndarray) -> bool:
    """Whether some labels are integers that differ from their positions 0 to n - 1."""
    if labels.dtype.kind in "iu":
        return not np.array_equal(labels, np.arange(len(labels)))
    words = list(map(str, labels.tolist()))
    return any(map(is_whole_number, words)) and words != list(map(str, range(len(words))))


def numbers_of(words: Sequence[str]) -> np.ndarray | None:
    """The numbers that words are, as integers if all are whole; None if some word is no number."""
    try:
        numbers = np.array([float(word) for word in words])
    except ValueError:
        return None
    return numbers.astype(np.int64) if all(map(is_whole_number, words)) else numbers


def is_counted(numbers: np.ndarray) -> bool:
    """Whether numbers are their positions, 0 to n - 1."""
    return bool(np.array_equal(numbers, np.arange(len(numbers))))


def indexed(algebra: Algebra, node: ast.Subscript) -> Term:
    """``x[a, b]``: the elements of a term selected by indices."""
    base = algebra.eval(node.value)
    items = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    free: list[str | None] = list(base.dims)
    named = base.dims if algebra.batch is None else tuple(d for d in base.dims if d != algebra.batch)
    picked: list[tuple[str | None, Term]] = []
    for place, item in enumerate(items):
        if isinstance(item, ast.Constant) and isinstance(item.value, str):
            owners = [d for d in free if d in named and d and item.value in [str(x) for x in algebra.labels[d]]]
            if len(owners) > 1 and len(items) == len(named) and named[place] in owners:
                owners = [str(named[place])]  # twins: one index per dimension, in order
            if len(owners) > 1:
                raise ModelError(
                    f"the label '{item.value}' is in each of {listed(owners)}; index every dimension of"
                    f" '{ast.unparse(node.value)}', in their order",
                    code="bad-dimensions",
                )
            if len(owners) != 1:
                words = [x for d in free if d in named and d for x in algebra.labels[d]]
                raise ModelError(
                    f"'{ast.unparse(node.value)}' has no level '{item.value}'{hint(item.value, words)}",
                    code="unknown-level",
                )
            dim: str | None = owners[0]
            index = Term(algebra.position(owners[0], item.value))
        else:
            index = algebra.eval(item)
            if index.factor in free and index.dims == (index.factor,):
                free.remove(index.factor)  # the dimension itself: all of it
                continue
            dim = _consumed(algebra, node, base.dims, free, index, place, len(items))
            if index.factor is not None:
                index = Term(index.codes, index.dims, undefined=index.undefined)
            elif dim is not None and dim in algebra.labels and labels_are_numbers(algebra.labels[dim]):
                index = _by_label(algebra, index, dim, ast.unparse(item))
            index = _checked(algebra, index, dim, ast.unparse(item), base, place)
        free.remove(dim)
        picked.append((dim, index))
    return _taken(algebra, base, picked)


def _consumed(
    algebra: Algebra,
    node: ast.Subscript,
    dims: tuple[str | None, ...],
    free: list[str | None],
    index: Term,
    place: int,
    count: int,
) -> str | None:
    """The dimension that an index selects from: the one with its levels, or the one at its position."""
    what = ast.unparse(node.value)
    if algebra.batch is not None:
        dims, free = (tuple(d for d in dims if d != algebra.batch), [d for d in free if d != algebra.batch])
    if not dims:
        raise ModelError(f"'{what}' is a single number and cannot be indexed", code="bad-dimensions")
    if index.factor is not None:
        same = [d for d in free if d == index.factor]
        twins = [d for d in free if d and np.array_equal(algebra.labels[d], algebra.labels[index.factor])]
        if index.value is not None and count == len(dims) and not (same and len(twins) == 1):
            return dims[place]  # states of a path, which are numbers too
        if same or len(twins) == 1:
            return (same or twins)[0]
        if index.value is not None and len(free) == 1:
            return free[0]  # states by their numbers
        raise ModelError(
            f"'{what}' has the dimensions ({', '.join(map(str, dims))}), not '{index.factor}'",
            code="bad-dimensions",
        )
    if count == len(dims):
        return dims[place]
    if len(free) == 1:
        return free[0]
    raise ModelError(
        f"'{what}' has {len(dims)} dimensions; index each of them, or by a factor or label",
        code="bad-dimensions",
    )


def _checked(algebra: Algebra, index: Term, dim: str | None, text: str, base: Term, place: int) -> Term:
    if index.random:
        return replace(index, value=index.value.astype("int64"))
    values = np.asarray(index.value)
    if values.dtype.kind == "f" and np.all(values == np.floor(values)):
        values = values.astype(np.int64)
    if values.dtype.kind not in "iu":
        raise ModelError(f"'{text}' is used as an index but is not whole numbers or a factor", code="not-whole")
    length = algebra.length(dim)
    if length is None:
        length = np.shape(base.value)[base.dims.index(dim)] if not base.random else None
    if length is not None and values.size and (values.min() < 0 or values.max() >= length):
        worst = values.min() if values.min() < 0 else values.max()
        raise ModelError(
            f"index {worst} in '{text}' is outside 0..{length - 1} (positions count from 0)", code="out-of-range"
        )
    return replace(index, value=values)


def _by_label(algebra: Algebra, index: Term, dim: str, text: str) -> Term:
    """An index into a dimension with integer labels, as positions; cells of a column are labels.

    Other integers are positions, unless they could all be labels as well.
    """
    if index.random:
        if index.given:
            raise ModelError(
                f"'{text}' is a node with data, and the levels of '{dim}' are whole numbers, which its values are"
                f" not bound to: give '{dim}' a length, or names, in dims",
                code="not-numbers",
            )
        return index
    values = np.asarray(index.value)
    if np.any(values != np.floor(values)):
        return index  # refused below
    words = list(map(str, algebra.labels[dim].tolist()))
    place = {word: at for at, word in enumerate(words)}
    places = np.array([place.get(f"{value:.0f}", -1) for value in values.ravel().tolist()], np.int64)
    places = places.reshape(values.shape)
    if index.given:
        if np.any(places < 0):
            value = values[places < 0].flat[0]
            raise ModelError(
                f"'{text}' is {value:.0f}, which is not a level of '{dim}'{hint(int(value), words)}",
                code="unknown-level",
            )
        return replace(index, value=places, column=None)
    if np.all(places >= 0) and np.any(places != values):
        value = f"{values.flat[0]:.0f}"
        raise ModelError(
            f"'{text}' is {value}, which can be a position in '{dim}' and one of its levels, which are whole"
            f' numbers: index by a column of levels, or by a level in quotes, as in ["{value}"]',
            code="conflict",
        )
    return index


def _taken(algebra: Algebra, base: Term, picked: list[tuple[str | None, Term]]) -> Term:
    if not picked:
        return base
    axes = [base.dims.index(dim) for dim, _ in picked]
    kept = [axis for axis in range(len(base.dims)) if axis not in axes]
    indices, dims, symbolic = algebra.align([term for _, term in picked])
    kept_dims = tuple(base.dims[axis] for axis in kept)
    clash = [d for d in kept_dims if d in dims and d is not None]
    if clash:
        raise ModelError(f"the result would have the dimension '{clash[0]}' twice; rename one", code="bad-dimensions")

    def pick(array: Any, make: Callable[[Any], Any]) -> Any:
        return make(array).transpose(*axes, *kept)[tuple(indices)] if array is not None else None

    value = base.value
    if base.random or symbolic:
        value = algebra.backend.take(algebra.symbolic(base).transpose(*axes, *kept), indices)
        codes = None
    else:
        value, codes = pick(value, np.asarray), pick(base.codes, np.asarray)
    undefined = merged([base, *(term for _, term in picked)])
    return Term(
        value,
        (*dims, *kept_dims),
        codes=codes,
        factor=base.factor if codes is not None else None,
        undefined=undefined,
    )
