"""Evaluates expressions on NumPy or a backend.

As long as only data are involved the arithmetic is NumPy's; as soon as a random quantity enters it becomes the
backend's: a PyTensor graph, or a program of the density machine. Values are :class:`~bayeslab.language.algebra.Term` s.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from bayeslab.errors import ModelError, hint
from bayeslab.language.algebra import Algebra, Term
from bayeslab.language.axes import AXIS_FUNCTIONS, vector
from bayeslab.language.backends import PYTENSOR, Backend
from bayeslab.language.expressions import BINARY, COMPARE, Expression, offset_of
from bayeslab.language.functions import ALONG, ELEMENTWISE, FUNCTIONS, REDUCTIONS, check_call
from bayeslab.language.indexing import indexed
from bayeslab.language.matrices import MATRIX_FUNCTIONS, matmul
from bayeslab.language.reductions import along, reduced

__all__ = ["Defined", "Evaluator"]

_AXES_AND_MATRICES = AXIS_FUNCTIONS | MATRIX_FUNCTIONS


class Evaluator(Algebra):
    """Evaluates expressions in an environment of terms.

    Parameters
    ----------
    lookup
        ``lookup(name) -> Term``; raises for an unknown name.
    labels, frozen, symbol, rows, backend
        As for :class:`~bayeslab.language.algebra.Algebra`.
    special
        Functions by name that replace the built-in ones (``previous`` in a recursion).
    past
        Like ``lookup``, for names inside ``lag``.
    cells
        ``cells(name) -> Term``: a column of data with its missing cells, for ``isnan``.
    """

    def __init__(
        self,
        lookup: Callable[[str], Term],
        labels: Mapping[str, np.ndarray],
        frozen: dict[str, Any] | None = None,
        symbol: Callable[[Term], Any] | None = None,
        special: Mapping[str, Callable[[ast.Call], Term]] | None = None,
        past: Callable[[str], Term] | None = None,
        rows: str | None = None,
        cells: Callable[[str], Term] | None = None,
        backend: Backend = PYTENSOR,
    ) -> None:
        super().__init__(labels, frozen, symbol, rows, backend)
        self.lookup, self.past = lookup, past or lookup
        self.cells = cells
        # Columns whose missing cells are allowed, because where(isnan(x), ...) replaces them.
        self._filled: frozenset[str] = frozenset()
        self.special = special or {}

    def term(self, expression: Expression) -> Term:
        """The value of an expression."""
        return self.eval(expression.tree)

    def eval(self, node: ast.expr) -> Term:
        """The value of a node of an expression's tree."""
        try:
            return self._eval(node)
        except ModelError as error:
            if error.offset or error.path:
                raise
            raise ModelError(error.message, offset=offset_of(node), code=error.code) from None

    def _eval(self, node: ast.expr) -> Term:
        match node:
            case ast.Constant(value=str() as text):
                raise ModelError(
                    f"the label '{text}' stands alone; compare a factor with it or index by it", code="misplaced"
                )
            case ast.Constant(value=None):
                raise ModelError("None is not a value here", code="misplaced")
            case ast.Constant(value=int() | float() as number):
                return Term(int(number) if isinstance(number, bool) else number)
            case ast.Name(id=name):
                return self._without_gaps(name) if name in self._filled else self.lookup(name)
            case ast.BinOp(op=ast.MatMult()):
                return matmul(self, self.eval(node.left), self.eval(node.right))
            case ast.BinOp():
                return self.apply(BINARY[type(node.op)], self.eval(node.left), self.eval(node.right))
            case ast.UnaryOp(op=ast.USub()):
                return self.apply("negative", self.eval(node.operand))
            case ast.UnaryOp(op=ast.Not()):
                return self.apply("logical_not", self.eval(node.operand))
            case ast.UnaryOp():
                return self.eval(node.operand)
            case ast.BoolOp():
                name = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
                out = self.eval(node.values[0])
                for value in node.values[1:]:
                    out = self.apply(name, out, self.eval(value))
                return out
            case ast.Compare():
                return self._compare(node)
            case ast.List() | ast.Tuple():
                return vector(self, [self.eval(item) for item in node.elts])
            case ast.Subscript():
                return indexed(self, node)
            case ast.Call(func=ast.Name(id=name)):
                return self._call(name, node)
        raise ModelError(f"'{ast.unparse(node)}' is not part of the expression language", code="syntax")

    def _call(self, name: str, node: ast.Call) -> Term:
        if name in self.special:
            return self.special[name](node)
        if name not in FUNCTIONS:
            raise ModelError(
                f"'{name}(...)' cannot stand inside an expression: it is not a function"
                f"{hint(name, FUNCTIONS)} (a distribution needs a node of its own)",
                code="unknown-function",
            )
        check_call(node)
        if name == "where":
            return self._where(node)
        if name in ELEMENTWISE:
            return self.apply(name, *(self.eval(argument) for argument in node.args))
        if name in REDUCTIONS:
            return self.reduce(name, node)
        if name in ALONG:
            return along(self, name, node)
        if name in _AXES_AND_MATRICES:
            return _AXES_AND_MATRICES[name](self, node)
        return {"isnan": self._isnan, "lag": self._lag, "previous": self._previous}[name](node)

    def reduce(self, name: str, node: ast.Call) -> Term:
        """A reduction, such as ``sum(x)`` or ``mean(x, dim)``."""
        return reduced(self, name, node)

    def _where(self, node: ast.Call) -> Term:
        """Evaluate ``where``; in the branch for observed cells, the column in ``isnan`` may have missing cells."""
        parts = []
        for place, argument in enumerate(node.args):
            with self.branch(node, place):
                parts.append(self.eval(argument))
        return self.apply("where", *parts)

    @contextmanager
    def branch(self, node: ast.Call, place: int) -> Iterator[None]:
        """A context to evaluate one argument of a call; in the branch of ``where(isnan(x), ...)`` with x observed."""
        now = self._filled
        if isinstance(node.func, ast.Name) and node.func.id == "where" and node.args:
            condition, whole = node.args[0], 2
            if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
                condition, whole = condition.operand, 1
            named = isinstance(condition, ast.Call) and isinstance(condition.func, ast.Name)
            if place == whole and named and condition.func.id == "isnan":  # type: ignore[attr-defined]
                self._filled = now | {self._column_of(condition)}  # type: ignore[arg-type]
        try:
            yield
        finally:
            self._filled = now

    def _column_of(self, call: ast.Call) -> str:
        check_call(call)
        (argument,) = call.args
        if not isinstance(argument, ast.Name) or self.cells is None:
            raise ModelError(
                f"isnan() takes the name of a column of the data, not '{ast.unparse(argument)}'",
                code="wrong-arguments",
            )
        return argument.id

    def _given(self, name: str) -> tuple[Term, np.ndarray]:
        """A data column, and a mask of its missing cells."""
        assert self.cells is not None
        term = self.cells(name)
        gone = term.codes < 0 if term.codes is not None else np.isnan(np.asarray(term.value, dtype=float))
        return term, np.asarray(gone)

    def _without_gaps(self, name: str) -> Term:
        term, gone = self._given(name)
        value, codes = term.value, term.codes
        if value is not None and np.any(gone):
            value = np.where(gone, np.mean(value, where=~gone) if not np.all(gone) else 0.0, value)
        if codes is not None:
            codes = np.where(gone, 0, codes)
        return replace(term, value=value, codes=codes, column=None)

    def _isnan(self, node: ast.Call) -> Term:
        term, gone = self._given(self._column_of(node))
        return Term(gone.astype(np.int64), term.dims)

    def _compare(self, node: ast.Compare) -> Term:
        name, sides = COMPARE[type(node.ops[0])], (node.left, node.comparators[0])
        for this, other in (sides, sides[::-1]):
            if isinstance(other, ast.Constant) and isinstance(other.value, str):
                factor = self.eval(this)
                if factor.factor is None:
                    raise ModelError(
                        f"'{ast.unparse(this)}' is not a factor; it cannot equal the label '{other.value}'",
                        code="not-states",
                    )
                if name not in ("equal", "not_equal"):
                    raise ModelError("labels can only be compared with == and !=", code="misplaced")
                code = self.position(factor.factor, other.value)
                return self.apply(name, self.codes_of(factor), Term(code))
        left, right = self.eval(sides[0]), self.eval(sides[1])
        if left.value is None and right.value is None and name in ("equal", "not_equal"):
            first, second = (self.labels[str(side.factor)] for side in (left, right))
            if not np.array_equal(first, second):
                raise ModelError(
                    f"'{left.factor}' and '{right.factor}' have different levels; they cannot be compared",
                    code="bad-dimensions",
                )
            left, right = self.codes_of(left), self.codes_of(right)
        return self.apply(name, left, right)

    def codes_of(self, factor: Term) -> Term:
        """The positions of a factor's cells in its levels."""
        return Term(factor.codes, factor.dims)

    def _lag(self, node: ast.Call) -> Term:
        start = next((self.eval(k.value) for k in node.keywords if k.arg == "start"), None)
        now, self.lookup = self.lookup, self.past
        try:
            term = self.eval(node.args[0])
        finally:
            self.lookup = now
        return self.lagged(term, node.args[1].value, start)  # type: ignore[attr-defined]

    def lagged(self, term: Term, steps: int, start: Term | None) -> Term:
        """A term shifted ``steps`` rows along its last dimension."""
        if not term.dims:
            raise ModelError("lag() needs a vector along a dimension; this is a single number", code="bad-dimensions")
        if term.value is None:
            raise ModelError(f"lag(): '{term.column}' is text", code="not-numbers")
        dim = str(term.dims[-1])
        if (self.length(dim) or steps + 1) <= steps:
            raise ModelError(
                f"lag of {steps} steps along '{dim}', which has only {self.length(dim)} rows", code="out-of-range"
            )
        symbolic = term.random or (start is not None and start.random)
        value = self.symbolic(term) if symbolic else np.asarray(term.value)
        head, undefined = value[..., :steps], dict(term.undefined)
        if start is None:
            # The first rows hold an arbitrary finite value, which is never used.
            undefined[dim] = undefined.get(dim, 0) + steps
        else:
            (first,), _, _ = self.align([start], onto=term.dims[:-1])
            first = self.symbolic(Term(first, start.dims)) if symbolic else np.asarray(first)
            zeros = self.backend.zeros_like(head) if symbolic else np.zeros(head.shape)
            head = (first[..., None] if first.ndim else first) + zeros
        joined: Any = (self.backend if symbolic else np).concatenate([head, value[..., :-steps]], axis=-1)
        return Term(joined, term.dims, undefined=undefined)

    def _previous(self, node: ast.Call) -> Term:
        raise ModelError("previous(h, k, start=s) is allowed only in the definition of h", code="misplaced")


class Defined(Evaluator):
    """Evaluates expressions of data in which what is not defined stays NaN.

    A division by zero is not defined, nor is a comparison of NaN or of a missing cell. ``and``, ``or`` and ``where``
    have a value wherever their other arguments determine it (Kleene's three-valued logic), so that
    ``where(b > 0, a / b, 0)`` is defined.
    """

    def codes_of(self, factor: Term) -> Term:
        """The positions of a factor's cells in its levels; NaN for a missing cell."""
        codes = np.asarray(factor.codes)
        return Term(np.where(codes < 0, np.nan, codes) if np.any(codes < 0) else codes, factor.dims)

    def apply(self, name: str, *terms: Term) -> Term:
        """Apply an elementwise function to terms of data."""
        values = [np.asarray(value, dtype=float) for value in self.align(terms)[0]]
        out = super().apply(name, *terms)
        gone = [np.isnan(value) for value in values]
        match name:
            case "divide" | "floor_divide" | "mod":
                unknown = values[1] == 0
            case "power":
                unknown = (values[0] == 0) & (values[1] < 0)
            case "logical_and" | "logical_or":
                decisive = [
                    value == 0 if name == "logical_and" else (value != 0) & ~np.isnan(value) for value in values
                ]
                unknown = (gone[0] | gone[1]) & ~decisive[0] & ~decisive[1]
            case "logical_not" | "where":
                unknown = gone[0]
            case _ if name in COMPARE.values():
                unknown = gone[0] | gone[1]
            case _:
                return out
        return replace(out, value=np.where(unknown, np.nan, out.value)) if np.any(unknown) else out
