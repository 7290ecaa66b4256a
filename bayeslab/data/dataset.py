"""Tables and arrays as read: named columns, each with the names of its axes."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unicodedata import normalize

import numpy as np

from bayeslab.data.cells import (
    LARGEST_INTEGER,
    WORDS_APART,
    Cells,
    UnusableColumn,
    as_truth_words,
    as_values,
    as_words,
    is_truth,
    number_in,
    truth_numbers,
    without_sentinels,
)
from bayeslab.data.frames import categories_as_words, category_order, check_indexes, frame_columns, is_frame
from bayeslab.errors import DataError, Reason, hint
from bayeslab.language.spec import DataSource, plain_name

__all__ = ["Column", "Dataset", "check_lengths", "label_array", "row_names", "slip_of"]

# A text column with a larger share of numbers is treated as numeric with stray words.
_MOSTLY = 0.5
# A number with thousands separators, a decimal comma, a percent sign or a currency.
_MARKED = re.compile(
    r"[+\u2212-]?[$\u20ac\u00a3\u00a5]?[+\u2212-]?"
    r"(\d{1,3}([,.'\u2019 \u00a0\u202f]\d{3})+([.,]\d+)?|\d+([.,]\d+)?)\s?[%\u2030$\u20ac\u00a3\u00a5]?"
)
# Rules for reading cells without a model.
_AS_THEY_COME = Cells()
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d\S*)?")


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One column of a table, or one array.

    Attributes
    ----------
    values : ndarray
        Numbers (missing cells are NaN) or text (dtype ``U``).
    dims : tuple of str or None
        Names of the axes; None if they are unknown, in which case using the column is an error.
    missing : ndarray of bool, or None
        Missing cells of a text column.
    order : tuple of str or None
        Ordered levels of a text column, if the data have an order (ordered categories of a dataframe).
    truth : bool
        Whether the numbers are truth values of a dataframe, of Python or of a typed file.
    """

    values: np.ndarray
    dims: tuple[str, ...] | None
    missing: np.ndarray | None = None
    order: tuple[str, ...] | None = None
    truth: bool = False

    @property
    def text(self) -> bool:
        return self.values.dtype.kind == "U"

    def absent(self) -> np.ndarray:
        """A mask of the missing cells."""
        if self.missing is not None:
            return self.missing
        return np.isnan(self.values) if self.values.dtype.kind == "f" else np.zeros(self.values.shape, bool)

    def with_truth_words(self) -> Column:
        """The column with truth values as the words False and True, as a text file has them; others unchanged."""
        if not self.truth:
            return self
        absent = self.absent()
        words = np.where(absent, "", np.where(self.values == 1, "True", "False"))
        return Column(words, self.dims, absent if np.any(absent) else None)

    def digest(self) -> str:
        shown = np.ascontiguousarray(self.values)
        content = f"{shown.dtype.str}{shown.shape}{self.dims}".encode() + shown.tobytes()
        return hashlib.sha256(content + (self.missing.tobytes() if self.missing is not None else b"")).hexdigest()


@dataclass(frozen=True, slots=True)
class Dataset:
    """Named columns, as read: nothing here depends on a model.

    Attributes
    ----------
    columns : mapping of str to Column
    rows : str
        Dimension of the main table's rows.
    levels : mapping of str to ndarray
        Labels of a table's rows, if it has a column with the name of the rows' dimension.
    left_out : mapping of str to Reason
        Columns that no model can use, such as dates, with the error for a model that uses one.
    notes : tuple of str
        Assumptions made when the files were read.
    unused : tuple of (str, str)
        Entries of the data section without a matching column: the key and a remark.
    doubts : mapping of str to str
        Columns of a text table whose numbers may mean others, with a remark.
    counts : ndarray or None
        How many rows of a larger table each row stands for (:mod:`bayeslab.data.folding`); None: itself.
    """

    columns: Mapping[str, Column] = field(default_factory=dict)
    rows: str = "obs_id"
    levels: Mapping[str, np.ndarray] = field(default_factory=dict)
    left_out: Mapping[str, Reason] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unused: tuple[tuple[str, str], ...] = ()
    doubts: Mapping[str, str] = field(default_factory=dict)
    counts: np.ndarray | None = None

    def digests(self) -> dict[str, str]:
        """SHA-256 of each column, and of the names of rows."""
        labels = {name: Column(values, (name,)) for name, values in self.levels.items()}
        if self.counts is not None:
            labels[f"counts of {self.rows}"] = Column(self.counts, (self.rows,))
        return {name: column.digest() for name, column in sorted((dict(self.columns) | labels).items())}

    def over(self, base: Dataset) -> Dataset:
        """These columns, with columns from ``base`` for dimensions that are missing here (group tables)."""
        dims = {dim for column in self.columns.values() for dim in column.dims or ()}
        kept = {
            name: column
            for name, column in base.columns.items()
            if name not in self.columns and column.dims is not None and not set(column.dims) & (dims | {base.rows})
        }
        levels = {dim: names for dim, names in base.levels.items() if dim not in dims and dim != base.rows}
        return replace(self, columns=kept | dict(self.columns), levels=levels | dict(self.levels))

    def with_truths_of(self, base: Dataset) -> Dataset:
        """Truth values in the form of ``base``: a text file has words, where a dataframe may have 1 and 0."""
        changed = {}
        for name in self.columns.keys() & base.columns.keys():
            column, there = self.columns[name], base.columns[name]
            if not column.text and not there.text:
                continue
            gone = column.absent()
            numbers = truth_numbers(column.values, gone) if column.text else column.values
            if numbers is None:
                continue
            if not there.text:
                changed[name] = Column(numbers, column.dims)
            elif (words := as_truth_words(numbers, there.values[~there.absent()])) is not None:
                changed[name] = Column(words, column.dims, gone)
        return replace(self, columns={**self.columns, **changed})

    def plain(self) -> Dataset:
        """Columns by their plain names; columns that share a plain name keep their original names."""
        taken = Counter(map(plain_name, self.columns))
        named = {name if taken[plain_name(name)] > 1 else plain_name(name): c for name, c in self.columns.items()}
        left_out = {plain_name(name): reason for name, reason in self.left_out.items()}
        return self if named.keys() == self.columns.keys() else replace(self, columns=named, left_out=left_out)

    def alike(self) -> dict[str, list[str]]:
        """Columns with the same plain name, by this name: expressions cannot distinguish them."""
        out: dict[str, list[str]] = {}
        for name in (*self.columns, *self.left_out):
            out.setdefault(plain_name(name), []).append(name)
        return {plain: names for plain, names in out.items() if len(names) > 1}

    def renamed(self, names: Mapping[str, str], *, complete: bool = False) -> Dataset:
        """Columns renamed by ``{new: old}``; with ``complete`` a missing old name is refused."""
        rest, left_out = dict(self.columns), dict(self.left_out)
        moved, moved_out = dict[str, Column](), dict[str, Reason]()
        composed = {normalize("NFC", name): name for name in (*rest, *left_out)}
        for new, given in names.items():
            old = composed.get(normalize("NFC", given), given)
            if old in left_out:
                moved_out[new] = left_out.pop(old)
            elif old in rest:
                moved[new] = rest.pop(old)
            elif complete and new not in self.columns.keys() | self.levels.keys():
                raise DataError(
                    f"the data have no column '{old}'{hint(old, rest)}",
                    path=("data", "rename", new),
                    code="unknown-column",
                )
        for new in moved:
            if new in rest.keys() | self.levels.keys():
                raise DataError(
                    f"the data have '{names[new]}' and also '{new}', its new name",
                    path=("data", "rename", new),
                    code="name-clash",
                )
        return replace(self, columns=rest | moved, left_out=left_out | moved_out)

    def emptied(self, name: str, cell: int | None = None) -> Dataset:
        """The same dataset with all cells of a column missing, or only the cell at a flat position.

        A column that does not exist is ignored.
        """
        column = self.columns.get(name)
        if column is None:
            return self
        where = np.ones(column.values.shape, bool)
        if cell is not None:
            where = (np.arange(where.size) == cell).reshape(where.shape)
        values = np.where(where, "", column.values) if column.text else np.where(where, np.nan, column.values)
        gone = Column(values, column.dims, column.absent() | where if column.text else None, column.order, column.truth)
        return replace(self, columns={**self.columns, name: gone})

    def take(self, rows: np.ndarray, dim: str | None = None) -> Dataset:
        """A subset of rows, by position, of the main table or of the table of another dimension."""
        along = self.rows if dim is None else dim

        def shorter(array: Any, dims: tuple[str, ...] | None) -> Any:
            if array is None or not dims or along not in dims:
                return array
            return np.take(array, rows, axis=dims.index(along))

        columns = {
            name: Column(shorter(c.values, c.dims), c.dims, shorter(c.missing, c.dims), c.order, c.truth)
            for name, c in self.columns.items()
        }
        levels = {name: shorter(names, (name,)) for name, names in self.levels.items()}
        counts = shorter(self.counts, (self.rows,))
        return replace(self, columns=columns, levels=levels, counts=counts)

    def complete(self, wanted: Container[str] | None = None) -> Dataset:
        """The dataset, after a check that all columns, or all wanted ones, could be read.

        Raises
        ------
        DataError
            A column holds neither numbers nor text.
        """
        for name, reason in self.left_out.items():
            if wanted is None or name in wanted:
                raise DataError(reason, code=reason.code)
        return self

    def joined(self, other: Dataset) -> Dataset:
        """These columns and those of another table; ``other`` gives the row dimension."""
        for name in self.columns.keys() & other.columns.keys():
            raise DataError(f"two tables have a column '{name}'; rename one", code="duplicate")
        return Dataset(
            dict(self.columns) | dict(other.columns),
            other.rows,
            dict(self.levels) | dict(other.levels),
            dict(self.left_out) | dict(other.left_out),
            self.notes + other.notes,
            self.unused + other.unused,
            dict(self.doubts) | dict(other.doubts),
            other.counts if self.counts is None else self.counts,
        )

    @classmethod
    def from_table(
        cls,
        raw: Mapping[str, Any],
        rows: str,
        *,
        what: str = "data",
        notes: tuple[str, ...] = (),
        cells: Cells = _AS_THEY_COME,
    ) -> Dataset:
        """One table: columns of equal length along the dimension ``rows``."""
        columns, levels, left_out = dict[str, Column](), dict[str, np.ndarray](), dict[str, Reason]()
        # The column with the labels of the rows has the name, or the plain name, of their dimension.
        alike = [name for name in raw if plain_name(name) == rows]
        key = rows if rows in raw or len(alike) != 1 else alike[0]
        for name, value in raw.items():
            try:
                values, missing = _read_values(name, value, f"{what}: column '{name}'", cells)
            except UnusableColumn as error:
                if name == key and error.code != "data.odd-cell":
                    raise
                left_out[name] = Reason(error.message, code=error.code)
                continue
            if values.ndim != 1:
                raise DataError(f"{what}: column '{name}' does not hold one value a row", code="not-a-column")
            if name == key:
                levels[rows] = row_names(rows, Column(values, (rows,), missing), what)
            else:
                columns[name] = Column(values, (rows,), missing, category_order(value), is_truth(value))
        lengths = {len(c.values) for c in columns.values()} | {len(v) for v in levels.values()}
        if not lengths and left_out:
            reason = next(iter(left_out.values()))
            raise DataError(reason, code=reason.code)
        if not lengths:
            raise DataError(f"{what}: the table has no columns", code="no-columns")
        if lengths == {0}:
            raise DataError(f"{what}: the table has no rows", code="no-rows")
        check_lengths(columns, what)
        return cls(columns, rows, levels, left_out, notes)

    @classmethod
    def from_columns(
        cls, raw: Mapping[str, Any], source: DataSource, *, what: str = "data", cells: Cells = _AS_THEY_COME
    ) -> Dataset:
        """From a mapping of names to numbers, nested lists, arrays or (for group tables) dataframes."""
        columns: dict[str, Column] = {}
        left_out: dict[str, Reason] = {}
        tables = cls()
        pending: dict[str, tuple[np.ndarray, np.ndarray | None]] = {}
        for name, value in raw.items():
            if not isinstance(name, str):
                raise DataError(f"{what}: names of columns are text, not {name!r}", code="bad-name")
            if is_frame(value):
                tables = tables.joined(
                    cls.from_table(frame_columns(value), name, what=f"{what}['{name}']", cells=cells)
                )
                continue
            try:
                values, missing = _read_values(name, value, f"{what}: '{name}'", cells)
            except UnusableColumn as error:
                left_out[name] = Reason(error.message, code=error.code)
                continue
            if values.ndim == 0 or name in source.dims:
                dims = tuple(source.dims.get(name, ()))
                if len(dims) != values.ndim:
                    raise DataError(
                        f"{what}: '{name}' has {values.ndim} dimensions, data.dims names {len(dims)}",
                        code="bad-dimensions",
                    )
                columns[name] = Column(values, dims, missing, category_order(value), is_truth(value))
            else:
                pending[name] = (values, missing)
        check_indexes({name: raw[name] for name, (values, _) in pending.items() if values.ndim == 1}, what)
        lengths = Counter(len(values) for values, _ in pending.values() if values.ndim == 1)
        declared = {len(c.values) for c in columns.values() if c.dims == (source.rows,)}
        length = next(iter(declared)) if declared else lengths.most_common(1)[0][0] if lengths else None
        for name, (values, missing) in pending.items():
            fits = values.ndim == 1 and len(values) == length
            along = (source.rows,) if fits else None
            columns[name] = Column(values, along, missing, category_order(raw[name]), is_truth(raw[name]))
        # A column along the dimension of the same name holds the labels of that dimension.
        named = [name for name, column in columns.items() if column.dims == (name,)]
        levels = {name: row_names(name, columns.pop(name), what) for name in named}
        check_lengths(columns, what)
        return tables.joined(cls(columns, source.rows, levels, left_out))


def _read_values(name: str, value: Any, what: str, cells: Cells) -> tuple[np.ndarray, np.ndarray | None]:
    """The values of one column, read by the rules of the model's data section."""
    if isinstance(value, UnusableColumn):
        raise value
    values, missing = as_values(categories_as_words(value), what, cells.missing(name))
    if values.dtype.kind != "U" and not is_truth(value):
        values = without_sentinels(values, what, cells, cells.numbers(name))
    if values.dtype.kind == "U":
        if missing is not None:
            cells.note(values[missing])
        return values, missing
    if not cells.is_text(name):
        return values, missing
    gone = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    return as_words(np.where(gone, 0, values)), gone if np.any(gone) else None


def check_lengths(columns: Mapping[str, Column], what: str) -> None:
    lengths: dict[str, tuple[int, str]] = {}
    for name, column in columns.items():
        for dim, length in zip(column.dims or (), column.values.shape, strict=column.dims is not None):
            first = lengths.setdefault(dim, (length, name))
            if first[0] != length:
                raise DataError(
                    f"{what}: along '{dim}', '{name}' has {length} values and '{first[1]}' has {first[0]}",
                    code="wrong-length",
                )


def slip_of(name: str, column: Column) -> str | None:
    """Why a text column cannot be used: most of its cells are numbers, or numbers with marks, or truth values too."""
    cells = column.values.ravel()
    if cells.size and cells[0].startswith(WORDS_APART):
        return None
    if column.order is not None:  # declared categories, whatever they look like
        return None
    there = ~column.absent().ravel()
    words, inverse, counts = np.unique(cells[there], return_inverse=True, return_counts=True)
    written = words.tolist()
    numbers = np.array([number_in(word) is not None for word in written], dtype=bool)
    total, share = counts.sum(), counts[numbers].sum()
    if not total:
        return None
    names = f"list it under 'text' in the data section, text: [{name}], if these are names"
    if share == total:
        if all(word.isdigit() for word in written):
            return None
        row = int(np.flatnonzero(there)[0])
        return (
            f"column '{name}' holds numbers as text ('{cells[row]}' in row {row + 1}): make numbers of it, or list it"
            " under 'text' in the data section if these are names"
        )
    if share > _MOSTLY * total:
        row = int(np.flatnonzero(there)[np.flatnonzero(~numbers[inverse])[0]])
        return (
            f"column '{name}', row {row + 1}: '{cells[row]}' is not a number, and {share} of {total} cells are; correct"
            f' it, or say in the data section what it is: missing: ["{cells[row]}"] if the cell is missing, text:'
            f" [{name}] if the column holds names"
        )
    truths = np.array([word.casefold() in ("true", "false") for word in written], dtype=bool)
    if share and truths.any() and np.all(truths | numbers):
        row = int(np.flatnonzero(there)[np.flatnonzero(truths[inverse])[0]])
        return (
            f"column '{name}' mixes numbers and truth values (row {row + 1}: '{cells[row]}'); make them one or the"
            f" other, or {names}"
        )
    for pattern, what, remedy in (
        (_MARKED, "a number with marks", "write it with a decimal point, and without thousands, percent and currency"),
        (_DATE, "a date", "make numbers of the dates, say days"),
    ):
        marked = np.array([pattern.fullmatch(word) is not None for word in written], dtype=bool) & ~numbers
        if counts[marked | numbers].sum() > _MOSTLY * total:
            row = int(np.flatnonzero(there)[np.flatnonzero(marked[inverse])[0]])
            return f"column '{name}', row {row + 1}: '{cells[row]}' is {what}, read as text: {remedy}; or {names}"
    return None


def row_names(dim: str, column: Column, what: str) -> np.ndarray:
    """The labels of a dimension of rows, from the column with its name; labels must be distinct."""
    if np.any(column.absent()):
        raise DataError(f"{what}: column '{dim}' names the rows but has a missing cell", code="missing")
    names = column.values if column.text else as_words(column.values)
    distinct, counts = np.unique(names, return_counts=True)
    if len(distinct) < len(names):
        raise DataError(
            f"{what}: column '{dim}' names the rows, as the dimension of rows is called,"
            f" but '{distinct[counts > 1][0]}' occurs twice: rename the column, or call the dimension otherwise in"
            " data.rows",
            code="duplicate",
        )
    whole = not column.text and np.all(column.values == np.floor(column.values))
    return label_array(column.values.astype(np.int64).tolist() if whole else names.tolist())


def label_array(values: Sequence[Any]) -> np.ndarray:
    """Labels as an array, of integers if all labels are integers, else of text."""
    if all(
        isinstance(v, int | np.integer) and not isinstance(v, bool) and abs(int(v)) <= LARGEST_INTEGER for v in values
    ):
        return np.asarray(values, dtype=np.int64)
    return np.asarray([str(v) for v in values])
