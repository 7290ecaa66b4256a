"""Arrays with named axes as values of expressions: NumPy arrays if only data are involved, else backend variables."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bayeslab.errors import ModelError, hint, listed
from bayeslab.language.backends import PYTENSOR, Backend
from bayeslab.language.functions import ARITHMETIC, as_float, function_of, is_whole

__all__ = ["Algebra", "Term", "merged", "moved"]


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """The value of an expression: an array with named axes.

    Attributes
    ----------
    value
        A NumPy array or number (data), or a variable of the backend (random). Text columns have None.
    dims
        Name of each axis; None for an axis without a name (a literal list).
    codes, factor
        For a factor: positions in the levels of the dimension ``factor``.
    undefined
        Number of rows at the start of a dimension that have no value because of a ``lag``.
    column
        Name of the data column, if the term is an unchanged column; such terms become ``pm.Data``.
    given
        Whether the term holds the cells of a column, which are labels when used as an index, and not computed values.
    """

    value: Any
    dims: tuple[str | None, ...] = ()
    codes: Any = None
    factor: str | None = None
    undefined: Mapping[str, int] = field(default_factory=dict)
    column: str | None = None
    given: bool = False

    @property
    def random(self) -> bool:
        """Whether the value is a variable of a backend."""
        return self.value is not None and not isinstance(self.value, np.ndarray | np.generic | int | float)


def merged(terms: Iterable[Term]) -> dict[str, int]:
    """Number of rows at the start of each dimension for which one of the terms has no value."""
    out: dict[str, int] = {}
    for term in terms:
        for dim, rows in term.undefined.items():
            out[dim] = max(out.get(dim, 0), rows)
    return out


class Algebra(ABC):
    """Operations on terms, whose axes are aligned by name, never by position.

    Parameters
    ----------
    labels
        Levels of each dimension; their number is the dimension's length.
    frozen
        Values of data-only reductions, by text; existing ones are used, new ones are added.
    symbol
        ``symbol(term) -> variable``: a data column as a variable.
    rows
        Dimension of the main table's rows. Values along this dimension are not frozen.
    backend
        Operations on random quantities.
    """

    #: An additional axis of terms that does not belong to the model and cannot be indexed, such as draws.
    batch: str | None = None

    def __init__(
        self,
        labels: Mapping[str, np.ndarray],
        frozen: dict[str, Any] | None = None,
        symbol: Callable[[Term], Any] | None = None,
        rows: str | None = None,
        backend: Backend = PYTENSOR,
    ) -> None:
        self.labels, self.rows, self.backend = labels, rows, backend
        self.frozen = {} if frozen is None else frozen
        self._symbol = symbol

    @abstractmethod
    def eval(self, node: ast.expr) -> Term:
        """The value of a node of an expression's tree."""

    def length(self, dim: str | None) -> int | None:
        """Number of levels of a dimension, or None."""
        return len(self.labels[dim]) if dim is not None and dim in self.labels else None

    def shape(self, term: Term) -> tuple[int | None, ...]:
        """The lengths of a term's axes, None where they are not known."""
        return self.backend.shape(term.value) if term.random else np.shape(term.value)

    def symbolic(self, term: Term) -> Any:
        """The value as a variable."""
        if term.random:
            return term.value
        if term.value is None:
            raise ModelError(
                f"'{term.column}' holds levels, not numbers: index with it or compare it with a label",
                code="not-numbers",
            )
        if term.column is not None and self._symbol is not None and not term.undefined:
            return self._symbol(term)
        return self.backend.constant(np.asarray(term.value))

    def apply(self, name: str, *terms: Term) -> Term:
        """Apply an elementwise function to terms, broadcast by name, in floating-point arithmetic."""
        values, dims, symbolic = self.align(terms)
        if name in ARITHMETIC and all(map(is_whole, values)):
            values = [as_float(value) for value in values]
        with np.errstate(all="ignore"):
            value = (self.backend.function(name) if symbolic else function_of(name))(*values)
        if getattr(value, "dtype", None) == "bool":
            value = value.astype("int64")  # comparisons give 0 and 1, which can be added
        return Term(value, dims, undefined=merged(terms))

    def align(
        self, terms: Sequence[Term], onto: tuple[str | None, ...] | None = None
    ) -> tuple[list[Any], tuple[str | None, ...], bool]:
        """Values transposed and expanded to common dims.

        ``onto`` gives the dims to align to (a term with others is an error); by default the union
        in order of appearance.
        """
        symbolic = any(term.random for term in terms)
        terms = self._named(terms, onto)
        dims: list[str | None] = list(onto) if onto is not None else []
        if onto is None:
            for term in sorted(terms, key=lambda t: -len(t.dims)):
                dims += [dim for dim in term.dims if dim not in dims]
            if dims.count(None) or any(None in term.dims for term in terms):
                dims = [None] * max(len(term.dims) for term in terms)
        values = []
        for term in terms:
            value = self.symbolic(term) if symbolic else term.value
            if value is None:
                raise ModelError(
                    f"'{term.column}' holds levels, not numbers: index with it or compare it with a label",
                    code="not-numbers",
                )
            values.append(expanded(value, term.dims, tuple(dims)))
        return values, tuple(dims), symbolic

    def _named(self, terms: Sequence[Term], onto: tuple[str | None, ...] | None) -> list[Term]:
        """Name unnamed axes after the only dimension of the same length."""
        known = {dim for term in terms for dim in term.dims if dim} if onto is None else {d for d in onto if d}
        if not known or all(None not in term.dims for term in terms):
            return list(terms)
        out = []
        for term in terms:
            if None in term.dims:
                shape = self.shape(term)
                fitting = [d for d in (onto or sorted(known)) if d and self.length(d) == shape[0]]
                if len(term.dims) != 1 or len(fitting) != 1:
                    raise ModelError(
                        f"a list of {shape[0]} values does not say which dimension it runs along:"
                        f" {listed(known)} {'fit' if fitting else 'have other lengths'}; give it a node with dims",
                        code="bad-dimensions",
                    )
                term = replace(term, dims=(fitting[0],))
            out.append(term)
        return out

    def position(self, dim: str, label: object) -> int:
        """Position of a label in a dimension."""
        words = [str(word) for word in self.labels[dim]]
        if str(label) not in words:
            raise ModelError(f"dimension '{dim}' has no level '{label}'{hint(label, words)}", code="unknown-level")
        return words.index(str(label))

    def dims_of(self, node: ast.Call, at: int, term: Term) -> str | None:
        """The dimension named by an argument, or None when it is not given."""
        if len(node.args) <= at:
            return None
        name = self.dim_name(node.args[at])
        if name not in term.dims:
            have = ", ".join(str(d) for d in term.dims if d != self.batch) or "none"
            raise ModelError(
                f"'{ast.unparse(node.args[0])}' has no dimension '{name}' (it has {have})", code="unknown-dimension"
            )
        return name

    def dim_name(self, node: ast.expr) -> str:
        """The dimension that an argument names."""
        if not isinstance(node, ast.Name) or node.id not in self.labels:
            raise ModelError(
                f"'{ast.unparse(node)}' is not a dimension"
                f"{hint(ast.unparse(node), [dim for dim in self.labels if dim != self.batch])}",
                code="unknown-dimension",
            )
        return node.id


def expanded(value: Any, dims: tuple[str | None, ...], onto: tuple[str | None, ...]) -> Any:
    """A value with axes ``dims`` expanded to axes ``onto``; added axes have length one."""
    if dims == onto or not dims:
        return value
    if None in dims:
        return value
    missing = [d for d in dims if d not in onto]
    if missing:
        have = ", ".join(str(d) for d in onto) or "no dimensions"
        raise ModelError(
            f"a value along '{missing[0]}' where the result has {have}: add '{missing[0]}' to the node's dims,"
            f" index it, or sum over it",
            code="bad-dimensions",
        )
    order = [dims.index(d) for d in onto if d in dims]
    array = np.asarray(value) if isinstance(value, np.ndarray | np.generic) else value
    array = array.transpose(*order) if order != sorted(order) else array
    return array[tuple(slice(None) if d in dims else None for d in onto)]


def moved(algebra: Algebra, array: Any, source: int, to: int) -> Any:
    """An array or variable with one of its axes moved to another position."""
    if isinstance(array, np.ndarray):
        return np.moveaxis(array, source, to)
    return algebra.backend.moveaxis(array, source, to)
