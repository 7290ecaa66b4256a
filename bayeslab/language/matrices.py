"""Matrices in expressions: products and linear algebra along named dimensions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bayeslab.errors import ModelError, listed
from bayeslab.language.algebra import Algebra, Term, merged, moved
from bayeslab.language.functions import as_float, function_of
from bayeslab.language.products import COLUMNS, contracted, is_matrix_product

__all__ = ["MATRIX_FUNCTIONS", "matmul"]


def matmul(algebra: Algebra, left: Term, right: Term) -> Term:
    """``left @ right``: the product along the shared dimension, or the matrix product of square matrices over twins."""
    if None in left.dims or None in right.dims:
        left, right = _name_by_partner(algebra, left, right), _name_by_partner(algebra, right, left)
    if is_matrix_product(left.dims, right.dims, algebra.labels):
        first, second = left.dims
        product = _contract(algebra, left, replace(right, dims=(second, COLUMNS)), second)
        return replace(product, dims=(first, second))
    return _contract(algebra, left, right, contracted(left.dims, right.dims))


def _name_by_partner(algebra: Algebra, term: Term, partner: Term) -> Term:
    if term.dims != (None,):
        return term
    size = algebra.shape(term)[0]
    fitting = [d for d in partner.dims if d and algebra.length(d) == size]
    return replace(term, dims=(fitting[0],)) if len(fitting) == 1 else term


def dot(algebra: Algebra, node: ast.Call) -> Term:
    left, right = algebra.eval(node.args[0]), algebra.eval(node.args[1])
    left, right = _name_by_partner(algebra, left, right), _name_by_partner(algebra, right, left)
    if len(node.args) == 3:
        return _contract(algebra, left, right, algebra.dims_of(node, 2, left))
    shared = [dim for dim in left.dims if dim in right.dims]
    if len(shared) != 1:
        raise ModelError(
            f"dot() contracts the one dimension both have; here they share {listed(shared) if shared else 'none'}"
            + ("; name it: dot(a, b, dim)" if shared else ""),
            code="bad-dimensions",
        )
    return _contract(algebra, left, right, shared[0])


def _contract(algebra: Algebra, left: Term, right: Term, dim: str | None) -> Term:
    for side in (left, right):
        if side.value is None:
            raise ModelError(f"'{side.column}' is text; a product needs numbers", code="not-numbers")
    symbolic = left.random or right.random
    a, b = (as_float(algebra.symbolic(t) if symbolic else t.value) for t in (left, right))
    undefined = {d: k for d, k in merged([left, right]).items() if d != dim}
    rest_a = tuple(d for d in left.dims if d != dim)
    rest_b = tuple(d for d in right.dims if d != dim)
    i, j = left.dims.index(dim), right.dims.index(dim)
    if not set(rest_a) & set(rest_b):
        if symbolic:
            value = algebra.backend.contract(moved(algebra, a, i, -1), moved(algebra, b, j, 0))
        else:
            value = np.tensordot(a, b, axes=(i, j))
        return Term(value, rest_a + rest_b, undefined=undefined)
    product = algebra.apply("multiply", replace(left, column=None) if not symbolic else left, right)
    axis = product.dims.index(dim)
    return Term(product.value.sum(axis=axis), tuple(d for d in product.dims if d != dim), undefined=undefined)


def _square(algebra: Algebra, node: ast.expr, name: str) -> Term:
    term = algebra.eval(node)
    if term.value is None:
        raise ModelError(f"'{ast.unparse(node)}' is text; {name}() needs numbers", code="not-numbers")
    if len(term.dims) != 2:
        raise ModelError(
            f"{name}() needs a matrix; '{ast.unparse(node)}' has {len(term.dims)} dimensions", code="bad-dimensions"
        )
    a, b = (algebra.length(d) for d in term.dims)
    if a is not None and b is not None and a != b:
        raise ModelError(f"{name}() needs a square matrix; '{ast.unparse(node)}' is {a} × {b}", code="bad-dimensions")
    return term


def _linalg(algebra: Algebra, name: str, node: ast.Call) -> Term:
    term = _square(algebra, node.args[0], name)
    try:
        function = algebra.backend.function(name) if term.random else function_of(name)
        value = function(term.value)
    except np.linalg.LinAlgError as error:
        raise ModelError(f"{name}({ast.unparse(node.args[0])}): {error}", code="not-a-covariance") from None
    dims: tuple[str | None, ...] = {"inv": term.dims[::-1], "cholesky": term.dims}.get(name, ())
    return Term(value, dims)


def inv(algebra: Algebra, node: ast.Call) -> Term:
    return _linalg(algebra, "inv", node)


def det(algebra: Algebra, node: ast.Call) -> Term:
    return _linalg(algebra, "det", node)


def logdet(algebra: Algebra, node: ast.Call) -> Term:
    return _linalg(algebra, "logdet", node)


def cholesky(algebra: Algebra, node: ast.Call) -> Term:
    return _linalg(algebra, "cholesky", node)


def _solve(algebra: Algebra, node: ast.Call, triangular: bool) -> Term:
    matrix, right = _square(algebra, node.args[0], "solve"), algebra.eval(node.args[1])
    if matrix.dims[0] not in right.dims:
        raise ModelError(f"solve(A, b): b needs the first dimension of A, '{matrix.dims[0]}'", code="bad-dimensions")
    rest = tuple(d for d in right.dims if d != matrix.dims[0])
    symbolic = matrix.random or right.random
    a, b = (algebra.symbolic(t) if symbolic else np.asarray(t.value) for t in (matrix, right))
    b = moved(algebra, b, right.dims.index(matrix.dims[0]), 0)
    if triangular and symbolic:
        value = algebra.backend.solve_lower(a, b)
    elif triangular:
        from scipy.linalg import solve_triangular

        value = solve_triangular(a, b, lower=True)
    else:
        value = (algebra.backend.function("solve") if symbolic else function_of("solve"))(a, b)
    return Term(value, (matrix.dims[1], *rest))


def solve(algebra: Algebra, node: ast.Call) -> Term:
    return _solve(algebra, node, triangular=False)


def solve_lower(algebra: Algebra, node: ast.Call) -> Term:
    return _solve(algebra, node, triangular=True)


def transpose(algebra: Algebra, node: ast.Call) -> Term:
    term = algebra.eval(node.args[0])
    value = term.value.T if term.dims else term.value
    return Term(value, term.dims[::-1], undefined=term.undefined)


def trace(algebra: Algebra, node: ast.Call) -> Term:
    term = diagonal(algebra, node)
    return Term(as_float(term.value).sum(), ())


def diagonal(algebra: Algebra, node: ast.Call) -> Term:
    term = _square(algebra, node.args[0], "diagonal")
    if term.random:
        return Term(algebra.backend.diagonal(term.value), term.dims[:1])
    return Term(np.diagonal(term.value).copy(), term.dims[:1])


def diag(algebra: Algebra, node: ast.Call) -> Term:
    term, dim = algebra.eval(node.args[0]), algebra.dim_name(node.args[1])
    if len(term.dims) != 1:
        raise ModelError("diag(v, dim2) needs a vector with a dimension", code="bad-dimensions")
    if not term.random:
        return Term(np.diag(np.asarray(term.value)), (*term.dims, dim))
    return Term(algebra.backend.diag(term.value), (*term.dims, dim))


def eye(algebra: Algebra, node: ast.Call) -> Term:
    first, second = (algebra.dim_name(argument) for argument in node.args)
    return Term(np.eye(len(algebra.labels[first]), len(algebra.labels[second])), (first, second))


MATRIX_FUNCTIONS: dict[str, Callable[[Algebra, ast.Call], Term]] = {
    "dot": dot,
    "inv": inv,
    "det": det,
    "logdet": logdet,
    "cholesky": cholesky,
    "solve": solve,
    "solve_lower": solve_lower,
    "transpose": transpose,
    "trace": trace,
    "diagonal": diagonal,
    "diag": diag,
    "eye": eye,
}
