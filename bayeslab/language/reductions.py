"""Reductions of terms, such as ``sum(x)`` or ``mean(x, dim)``, and functions along one dimension."""

from __future__ import annotations

import ast

import numpy as np

from bayeslab.errors import DataError, ModelError
from bayeslab.language.algebra import Algebra, Term
from bayeslab.language.functions import SUMS, as_float, function_of, numpy_reduction

__all__ = ["along", "reduced"]


def reduced(algebra: Algebra, name: str, node: ast.Call) -> Term:
    """A reduction over all dimensions of a term or the one that the second argument names."""
    key = ast.unparse(node)
    term = algebra.eval(node.args[0])
    dim = algebra.dims_of(node, 1, term)
    if term.value is None:
        raise ModelError(f"'{ast.unparse(node.args[0])}' is text; {name}() needs numbers", code="not-numbers")
    reduced = term.dims if dim is None else (dim,)
    kept = tuple(d for d in term.dims if d not in reduced)
    freezes = not term.random and algebra.rows not in kept
    if freezes and key in algebra.frozen:
        stored = algebra.frozen[key]
        return Term(np.asarray(stored, dtype=float) if isinstance(stored, list) else float(stored), kept)
    value = term.value
    for d, rows in term.undefined.items():
        if d in reduced and d in term.dims:
            value = value[(slice(None),) * term.dims.index(d) + (slice(rows, None),)]
    axis = tuple(i for i, d in enumerate(term.dims) if d in reduced)
    if name in SUMS:
        value = as_float(value)
    if term.random:
        out = algebra.backend.reduction(name, value, axis)
    else:
        out = numpy_reduction(name, np.asarray(value), axis)
        if not np.all(np.isfinite(out)):
            raise DataError(
                f"{key} is not a finite number: the column has missing or infinite cells", code="not-finite"
            )
        if freezes:
            algebra.frozen[key] = out.tolist() if isinstance(out, np.ndarray) else float(out)
    return Term(out, kept, undefined={d: k for d, k in term.undefined.items() if d not in reduced})


def along(algebra: Algebra, name: str, node: ast.Call) -> Term:
    """A function along one dimension: the last, or the one that the second argument names."""
    term = algebra.eval(node.args[0])
    if term.value is None:
        raise ModelError(f"'{ast.unparse(node.args[0])}' is text; {name}() needs numbers", code="not-numbers")
    if not term.dims:
        raise ModelError(
            f"{name}() needs a vector; '{ast.unparse(node.args[0])}' is a single number", code="bad-dimensions"
        )
    axis = term.dims.index(algebra.dims_of(node, 1, term)) if len(node.args) > 1 else len(term.dims) - 1
    value = as_float(term.value)
    out = algebra.backend.along(name, value, axis) if term.random else function_of(name)(value, axis=axis)
    dims = term.dims if name != "logsumexp" else (*term.dims[:axis], *term.dims[axis + 1 :])
    return Term(out, dims, undefined=term.undefined)
