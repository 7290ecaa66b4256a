"""A dataset bound to a model: the data behind every name of the model.

:class:`Data` has the levels of every dimension, factors as positions in these levels, computed columns, and the values
of data-only reductions (``mean(height)``), which stay those of the fit when the model later predicts new data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from unicodedata import normalize

import numpy as np

from bayeslab.data.cells import as_truth_words, as_words
from bayeslab.data.dataset import Column, Dataset
from bayeslab.errors import DataError, ModelError, hint, listed
from bayeslab.language.algebra import Term
from bayeslab.language.evaluator import Defined, Evaluator
from bayeslab.language.expressions import Expression
from bayeslab.language.functions import word_of_order

__all__ = ["Data", "Memory"]


@dataclass(frozen=True, slots=True)
class Memory:
    """Properties of the data of a fit that are needed to read new data in the same way.

    Attributes
    ----------
    levels : mapping
        Levels of every dimension that is not the rows of the main table.
    frozen : mapping
        Values of data-only reductions by their text.
    """

    levels: Mapping[str, list[Any]] = field(default_factory=dict)
    frozen: Mapping[str, Any] = field(default_factory=dict)


class Data:
    """A dataset bound to a model.

    Attributes
    ----------
    dataset : Dataset
    labels : dict of str to ndarray
        Levels of every known dimension; their number is its length.
    frozen : dict
        Values of data-only reductions used so far.
    replicate : bool
        Whether the rows are those of the origin with other outcomes, so that a time series starts again instead of
        continuing.
    origin : Data or None
        The data of the fit, if these are new data for predictions.
    part : bool
        Whether the rows are a subset of those of the origin, to be fitted again.
    slips : mapping of str to str
        Columns that cannot be used, each with the reason.
    alike : mapping of str to str
        Plain names that several columns share, each with the error for its use.
    alphabetical : frozenset of str
        Text columns whose levels are in alphabetical order because no other order is given.
    digits : frozenset of str
        Text columns whose cells are all numbers and that are not declared as names.
    used : set of str
        Columns that the model has used.
    dimension_of : dict of str to str
        Columns whose cells are labels of another dimension, and that dimension.
    coded : frozenset of str
        Integer columns that are labels, not quantities.
    of_rows : bool
        Whether the model uses the rows of one table only, so that columns of other tables are refused.
    """

    def __init__(
        self,
        dataset: Dataset,
        labels: dict[str, np.ndarray],
        derive: Mapping[str, Expression],
        factors: Iterable[str],
        frozen: Mapping[str, Any],
    ) -> None:
        self.dataset, self.labels, self.derive = dataset, labels, derive
        self.factors = frozenset(factors)
        self.frozen: dict[str, Any] = dict(frozen)
        self.origin: Data | None = None
        self.replicate = False
        self.part = False
        self.slips: Mapping[str, str] = {}
        self.alike: Mapping[str, str] = {}
        self.alphabetical: frozenset[str] = frozenset()
        self.digits: frozenset[str] = frozenset()
        self.used: set[str] = set()
        self.dimension_of: dict[str, str] = {}
        self.coded: frozenset[str] = frozenset()
        self.of_rows = False
        self._terms: dict[str, Term] = {}

    def __repr__(self) -> str:
        """The tables of the data: how many rows each has, and its columns."""
        tables: dict[str, list[str]] = {}
        for name, column in self.dataset.columns.items():
            tables.setdefault(" × ".join(column.dims or ()) or "no dimension", []).append(name)
        lengths = {dim: len(labels) for dim, labels in self.labels.items()}
        parts = [
            f"{dim} ({lengths[dim]:,}): {listed(n)}" if dim in lengths else f"{dim}: {listed(n)}"
            for dim, n in tables.items()
        ]
        return f"<bayeslab.Data {'; '.join(parts) or 'without columns'}>"

    @property
    def fitted(self) -> bool:
        """Whether a model is fitted to these rows, rather than used to predict them."""
        return self.origin is None or self.part

    @cached_property
    def evaluator(self) -> Evaluator:
        """Evaluates expressions that involve data only."""
        return Evaluator(self.term, self.labels, self.frozen, rows=self.dataset.rows, cells=self.cells)

    @property
    def n_rows(self) -> int:
        """The number of rows of the main table, those that folded rows stand for; 0 without one."""
        if self.dataset.counts is not None:
            return round(float(self.dataset.counts.sum()))
        return len(self.labels.get(self.dataset.rows, ()))

    def forget(self) -> None:
        """Discard columns that were read before their levels were known."""
        self._terms.clear()
        self.used.clear()

    def cells(self, name: str) -> Term:
        """A column, missing cells allowed."""
        return self.term(name, missing=True)

    def has(self, name: str) -> bool:
        """Whether there is a column, given or computed, with this name."""
        if name in self.dataset.columns or name in self.alike:
            return True
        wanted, visited = [name], set[str]()
        while wanted:
            one = wanted.pop()
            if one in visited or one in self.dataset.columns or (one in self.labels and one != name):
                continue
            if one not in self.derive:
                return False
            visited.add(one)
            wanted += self.derive[one].names
        return True

    def placed(self, name: str) -> bool:
        """Whether the dimensions of a column are known."""
        return name not in self.dataset.columns or self.dataset.columns[name].dims is not None

    def present(self, name: str) -> bool:
        """Whether a column has at least one observed cell."""
        self._refuse_alike(name)
        if name in self.dataset.columns:
            return not np.all(self.dataset.columns[name].absent())
        return not np.all(_missing(self._of_any_table(name)))

    def complete(self, name: str) -> bool:
        """Whether a numeric column has no missing cells; a factor counts as complete."""
        term = self.term(name, missing=True)
        return term.value is None or not np.any(np.isnan(np.asarray(term.value, dtype=float)))

    def names(self) -> set[str]:
        """Names of all columns, given and computed, including ambiguous ones, whose use is an error."""
        return set(self.dataset.columns) | self.alike.keys() | {name for name in self.derive if self.has(name)}

    def term(self, name: str, *, missing: bool = False, role: str | None = None) -> Term:
        """A column as a term; ``missing`` allows missing cells (for observed nodes).

        ``role`` describes the column in the error for missing cells; default: a predictor in a graph.

        Raises
        ------
        ModelError, DataError
            There is no such column, its dimensions are unknown, cells are missing, a value is not a level, or the
            column is in another table than the model's.
        """
        term = self._of_any_table(name)
        if self.of_rows:
            self._check_table(name, term.dims)
        if not missing:
            self._complete(name, term, role)
        return term

    def column(self, name: str) -> Column:
        """A column of the data as given, even if it holds dates, or numbers mixed with text.

        Raises
        ------
        DataError
            The column is in another table than the model's, or another column has the same plain name.
        """
        self._refuse_alike(name)
        column = self.dataset.columns[name]
        if self.of_rows and column.dims is not None:
            self._check_table(name, column.dims)
        return column

    def _of_any_table(self, name: str) -> Term:
        if name not in self._terms:
            self.look_at(name)
            self._terms[name] = self._named(name)
        return self._terms[name]

    def _check_table(self, name: str, dims: tuple[str | None, ...]) -> None:
        """Refuse a column without one value per row: by position it would be matched to the wrong rows."""
        rows = self.dataset.rows
        if dims in ((rows,), ()):
            return
        known = " × ".join(f"'{dim}'" for dim in dims)
        remedy = f"; bring it to the rows in data.derive, {name}_of_row: {name}[{dims[0]}]" if self._joins(dims) else ""
        raise DataError(
            f"'{name}' is not a column of the table of '{rows}', one value a row: it runs along {known}{remedy}",
            code="not-a-column",
        )

    def _joins(self, dims: tuple[str | None, ...]) -> bool:
        """Whether the rows have a column that refers to the rows of another table."""
        column = self.dataset.columns.get(str(dims[0]))
        return len(dims) == 1 and column is not None and column.dims == (self.dataset.rows,)

    def refuse_folded(self, what: str) -> None:
        """Refuse what needs each row if the rows of a table were folded when they were read.

        Raises
        ------
        DataError
            Rows of the dataset stand for several rows of the table.
        """
        if (counts := self.dataset.counts) is not None:
            raise DataError(
                f"{what} need each row, and the {self.n_rows:,} rows of the table were folded to {len(counts):,}"
                " when they were read: pass rows, such as a sample of the table, or fit a sample without data.streamed",
                code="not-applicable",
            )

    def look_at(self, name: str) -> None:
        """Note that a column is used.

        Raises
        ------
        DataError
            The column is text although nearly all cells are numbers, or another column has the same plain name.
        """
        self.used.add(name)
        self._refuse_alike(name)
        if name in self.slips:
            raise DataError(self.slips[name], code="odd-cell")

    def _refuse_alike(self, name: str) -> None:
        if name in self.alike:
            raise DataError(self.alike[name], code="duplicate")

    def check_order(self, name: str, what: str) -> None:
        """Refuse alphabetical text levels where the order of levels matters.

        Raises
        ------
        DataError
            The levels are in alphabetical order only; the message lists them and says how to give the order.
        """
        if name in self.alphabetical:
            words = ", ".join(map(str, self.labels[name].tolist()[:8]))
            raise DataError(
                f"'{name}' is text, and {what} needs the order of its levels, which is not that of the alphabet: give"
                f" it under dims, {name}: [{words}] in the order from low to high, or as ordered categories, or as"
                " numbers",
                code="no-level-order",
            )

    def remarks(self) -> list[tuple[str, str, float | None, str, str]]:
        """Remarks about the used columns and the data section.

        They concern levels that differ only in case or spaces, numbers as text, and entries of the data section without
        a matching column.
        """
        out: list[tuple[str, str, float | None, str, str]] = [
            (key, "", None, message, "correct it, or take it out") for key, message in self.dataset.unused
        ]
        for name, message in self.dataset.doubts.items():
            if name in self.used or name not in self.dataset.columns:  # it may have been renamed
                out.append(("thousands", name, None, message, "write thousands without a mark, and decimals as 1.5"))
        for name in sorted(self.used & self.digits):
            message = f"'{name}' is text, and all of its cells are numbers: they are names here, not quantities"
            out.append(("text", name, None, message, f"make numbers of it, or say text: [{name}] in the data section"))
        for name in sorted(self.used & self.dataset.columns.keys() & self.labels.keys()):
            alike: dict[str, list[str]] = {}
            if self.dataset.columns[name].text:
                for word in map(str, self.labels[name].tolist()):
                    alike.setdefault("".join(normalize("NFC", word).casefold().split()), []).append(word)
            for words in alike.values():
                if len(words) > 1:
                    composed = len({normalize("NFC", word) for word in words}) < len(words)
                    only = "composed and decomposed letters" if composed else "capitals or spaces"
                    message = f"'{name}': the levels {listed(words)} differ only in {only}"
                    out.append(("levels", name, None, message, "make them one in the data if they are one"))
        return out

    def _named(self, name: str) -> Term:
        if name in self.dataset.columns:
            return self._given(name)
        if name in self.derive:
            return self._derived(name)
        there = self.origin.dataset.columns.get(name) if self.origin is not None else None
        if name in self.labels and there is not None and there.dims == (self.dataset.rows,):
            raise DataError(
                f"the data have no column '{name}', which holds the level of each row"
                f" ({len(self.labels[name])} levels in the fit){hint(name, self.names())}",
                code="unknown-column",
            )
        if name in self.labels:
            # The name of a dimension stands for the factor of its levels.
            return Term(None, (name,), np.arange(len(self.labels[name])), name, column=name)
        if name in self.dataset.left_out:
            reason = self.dataset.left_out[name]
            raise DataError(reason, code=reason.code)
        known = self.names() | self.labels.keys()
        raise ModelError(
            f"'{name}' is neither a node, a column of the data, nor a dimension{hint(name, known)}", code="unknown-name"
        )

    def _complete(self, name: str, term: Term, role: str | None) -> None:
        gone = _missing(term)
        if np.any(gone):
            rows = np.unique(np.nonzero(np.atleast_1d(gone))[0]) + 1
            shown = ", ".join(str(row) for row in rows[:5]) + (" ..." if len(rows) > 5 else "")
            many = f"column '{name}' has {(n := np.sum(gone))} missing cell{'s' * bool(n > 1)} (row {shown})"
            if role is not None:
                raise DataError(
                    f"{many} and is {role}, known in every row: drop the rows, or say what holds there in a"
                    f" column of data.derive, where(isnan({name}), ..., {name})",
                    code="missing",
                )
            raise DataError(
                f"{many} and is used as a predictor: drop"
                f" the rows; or give it a node, such as {name}[{', '.join(map(str, term.dims))}]: Normal(m, s), so that"
                f" missing cells become parameters; or say what holds there, where(isnan({name}), ..., {name})",
                code="missing",
            )

    def _given(self, name: str) -> Term:
        column = self.dataset.columns[name]
        rows = self.dataset.rows
        if column.dims is None and column.values.ndim == 1 and rows in self.labels:
            other = next((n for n, c in self.dataset.columns.items() if c.dims == (rows,)), None)
            length = f"'{rows}' has {len(self.labels[rows])}" + (f", as '{other}' does" if other else "")
            raise DataError(
                f"the array '{name}' has {len(column.values)} values, and {length}: give as many, or name its dimension"
                " in data.dims if it runs along another",
                code="wrong-length",
            )
        if column.dims is None:
            shape = " × ".join(str(n) for n in column.values.shape)
            raise DataError(
                f"the array '{name}' ({shape}) has no dimension names; name them in data.dims", code="bad-dimensions"
            )
        if column.values.dtype.kind == "f":
            _check_magnitude(name, column.values)
        codes = factor = None
        if name in self.factors:
            factor, codes = name, self._codes(name, column)
        value = None if column.text or name in self.coded else column.values
        return Term(value, column.dims, codes, factor, column=name, given=True)

    def _codes(self, name: str, column: Column) -> np.ndarray:
        levels = self.labels[name]
        absent = column.absent()
        if column.text or levels.dtype.kind == "U":
            truths = as_truth_words(column.values, levels) if column.truth else None
            words = column.values if column.text else as_words(column.values) if truths is None else truths
            known: dict[Any, int] = {str(level): i for i, level in enumerate(levels)}
        else:
            words, known = column.values, {level: i for i, level in enumerate(levels.tolist())}
        distinct, inverse = np.unique(words, return_inverse=True)
        lookup = np.array([known.get(word, -2) for word in distinct.tolist()], dtype=np.int64)
        codes = np.where(absent, -1, lookup[inverse].reshape(column.values.shape))
        if np.any(codes == -2):
            row = int(np.nonzero((codes == -2).ravel())[0][0])
            value = words.ravel()[row]
            dim = self.dimension_of.get(name, name)
            raise DataError(
                f"column '{name}', row {row + 1}: '{value}' is not a level of the dimension '{dim}'{hint(value, known)}"
                f"; nothing is known of others: leave the row out, or the cell empty where a model understands missing"
                f" cells",
                code="unknown-level",
            )
        return codes

    def _derived(self, name: str) -> Term:
        expression = self.derive[name]
        read = self._of_any_table
        evaluator = Defined(read, self.labels, self.frozen, rows=self.dataset.rows, cells=read)
        try:
            term = evaluator.term(expression)
        except ModelError as error:
            raise type(error)(
                error.message, path=error.path or ("data", "derive", name), offset=error.offset, code=error.code
            ) from None
        except DataError as error:
            raise (
                error if error.where else DataError(error.message, path=("data", "derive", name), code=error.code)
            ) from None
        value = np.asarray(term.value)
        if value.dtype.kind == "f" and not np.all(np.isfinite(value)):
            absent = np.zeros(value.shape, bool)
            for used in expression.names & self.names():
                other = self._of_any_table(used)
                if other.dims == term.dims:
                    absent |= _missing(other)
            wrong = ~np.isfinite(value) & ~absent
            if np.any(wrong):
                row = int(np.nonzero(np.atleast_1d(wrong))[0][0])
                raise DataError(
                    f"'{name}: {expression.text}' is not a finite number in row {row + 1}",
                    path=("data", "derive", name),
                    code="not-finite",
                )
        if term.undefined:
            raise ModelError(
                "lag() without start cannot be used in a computed column",
                path=("data", "derive", name),
                code="bad-start",
            )
        if self.of_rows and term.factor is not None:
            self.labels.setdefault(name, self.labels[term.factor])  # a factor of the rows under a name of its own
        return replace(term, column=name, given=True)

    def of_order(self, texts: Iterable[str]) -> list[str]:
        """Computed columns with a value for each row that depends on the order of the rows.

        Parameters
        ----------
        texts
            What the model says: only columns that it names, or that these are computed from, count.
        """
        named = {word for text in texts for word in re.findall(r"\w+", text)}
        wanted, out = [name for name in self.derive if name in named and name not in self.dataset.columns], list[str]()
        while wanted:
            name = wanted.pop()
            if name in out or not self.has(name):
                continue
            wanted += self.derive[name].names & self.derive.keys() - self.dataset.columns.keys()
            rows = self.dataset.rows
            if word_of_order(self.derive[name].tree, rows) and rows in self.term(name, missing=True).dims:
                out.append(name)
        return out

    def settled(self, names: Iterable[str]) -> Dataset:
        """The dataset with some computed columns as given ones, so that they do not change when rows are left out."""
        columns = dict(self.dataset.columns)
        for name in names:
            term = self.term(name, missing=True)
            columns[name] = Column(np.array(term.value, dtype=float), tuple(map(str, term.dims)))
        return replace(self.dataset, columns=columns)

    def memory(self) -> Memory:
        """The memory that predictions for new data need."""
        kept = {d: levels.tolist() for d, levels in self.labels.items() if d != self.dataset.rows}
        return Memory(kept, dict(self.frozen))


def _missing(term: Term) -> np.ndarray:
    """A mask of the missing cells of a column."""
    gone = term.codes < 0 if term.codes is not None else np.isnan(np.asarray(term.value, dtype=float))
    return np.asarray(gone)


# Squares of larger numbers overflow.
MOST_MAGNITUDE = 1e153


def _check_magnitude(name: str, values: np.ndarray) -> None:
    large = np.isfinite(values) & (np.abs(values) > MOST_MAGNITUDE)
    if np.any(large):
        at = int(np.flatnonzero(large)[0])
        raise DataError(
            f"column '{name}', row {at + 1}: {values.ravel()[at]:g} is too large to compute with (at most"
            f" {MOST_MAGNITUDE:g}): divide the column by a unit",
            code="too-large",
        )
