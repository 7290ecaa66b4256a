"""Tables and arrays as named columns with named dimensions, and their binding to a model.

:class:`Dataset` is what was read: columns, each with the names of its axes. :class:`Data` is a
dataset bound to a model: levels of every dimension, factors as positions in them, computed
columns, and the values of data-only reductions (``mean(height)``), which stay those of the fit
when the model later predicts new data.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any
from unicodedata import normalize

import numpy as np

from bayeslab.errors import DataError, ModelError, hint, listed
from bayeslab.language.expressions import Evaluator, Expression, Term, labels_are_numbers, parse
from bayeslab.language.spec import RESERVED, DataSource, Model, plain_name

__all__ = [
    "LARGEST_EXACT",
    "MISSING_WORDS",
    "WORDS_APART",
    "Cells",
    "Column",
    "Data",
    "Dataset",
    "Memory",
    "bind",
    "check_exact",
    "frame_columns",
    "frame_series",
    "number_in",
    "slip_of",
    "whole_numbers",
]

# Between the words of a cell that was given as a list of words (U+001F, the unit separator).
WORDS_APART = "\x1f"
# Bytes of a column of text.
MOST_TEXT = 4 << 30
# Up to here every whole number is a number of 64 bits with a point.
LARGEST_EXACT = 2**53


# Cells that are missing, in columns of numbers and of text alike.
MISSING_WORDS = frozenset(("", "NA", "NaN", "nan", "N/A", "null"))
# Above this share of numbers a column of text is taken for one of numbers with a slip.
_MOSTLY = 0.5
# A number with marks of thousands, a decimal comma, a percent sign or a currency.
_MARKED = re.compile(
    r"[+\u2212-]?[$\u20ac\u00a3\u00a5]?[+\u2212-]?"
    r"(\d{1,3}([,.'\u2019 \u00a0\u202f]\d{3})+([.,]\d+)?|\d+([.,]\d+)?)\s?[%\u2030$\u20ac\u00a3\u00a5]?"
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d\S*)?")


@dataclass(frozen=True, slots=True)
class Cells:
    """How cells are read.

    Attributes
    ----------
    words : mapping of str to float or None
        Words that stand for a missing cell, besides :data:`MISSING_WORDS`, and the number that each reads as, for which
        it stands in columns of numbers.
    text : frozenset of str
        Columns that hold names, whatever their cells look like.
    levels : mapping of str to frozenset of str
        Levels the model declares: such a word is one, and not missing.
    met : set of str
        Those of the words that a column has held; filled while columns are read.
    """

    words: Mapping[str, float | None] = field(default_factory=dict)
    text: frozenset[str] = frozenset()
    levels: Mapping[str, frozenset[str]] = field(default_factory=dict)
    met: set[str] = field(default_factory=set, compare=False)

    @classmethod
    def of(cls, source: DataSource, levels: Mapping[str, frozenset[str]] | None = None) -> Cells:
        """As a model's data section says."""
        old = {name: plain_name(given) for name, given in source.rename.items()}
        # Data may have a column by its new name already, unless that is the old name of another.
        kept = {name for name in (*source.text, *(levels or {})) if name not in old.values()}
        text = {*kept.intersection(source.text), *(old[name] for name in source.text if name in old)}
        known = {name: words for name, words in (levels or {}).items() if name in kept}
        known |= {old[name]: words for name, words in (levels or {}).items() if name in old}
        words = [entry.strip() if isinstance(entry, str) else _words(np.array([entry]))[0] for entry in source.missing]
        return cls({str(word): number_in(word) for word in words}, frozenset(text), known)

    def is_text(self, name: str) -> bool:
        return plain_name(name) in self.text

    def missing(self, name: str) -> frozenset[str]:
        """Words that stand for a missing cell of a column."""
        standard = frozenset(("",)) if self.is_text(name) else MISSING_WORDS
        return (standard | self.words.keys()) - self._levels(name)

    def numbers(self, name: str) -> dict[str, float]:
        """Numbers that stand for a missing cell of a column of numbers, by the word for each."""
        known = {number_in(level) for level in self._levels(name)}
        return {word: x for word, x in self.words.items() if x is not None and x == x and x not in known}

    def note(self, cells: np.ndarray) -> None:
        """Remember the words that stood for missing cells."""
        self.met.update(self.words.keys() & set(np.unique(cells).tolist()))

    def unused(self, columns: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """What of the data section fits no column, once all are read: (key, what is odd about it)."""
        names = {plain_name(name): name for name in columns}
        out = [
            ("missing", f"'{word}' of data.missing stands for no cell: no column holds it, unless as a declared level")
            for word in self.words
            if word not in self.met | MISSING_WORDS
        ]
        for name in sorted(self.text - names.keys()):
            out.append(("text", f"'{name}' of data.text is no column{hint(name, names)}"))
        return tuple(out)

    def _levels(self, name: str) -> frozenset[str]:
        return self.levels.get(name, self.levels.get(plain_name(name), frozenset()))


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One column of a table, or one array.

    Attributes
    ----------
    values : ndarray
        Numbers (missing cells are NaN) or text (dtype ``U``).
    dims : tuple of str or None
        Names of its axes; None when they are not known (using it then is an error).
    missing : ndarray of bool, or None
        Missing cells of a text column.
    order : tuple of str or None
        Levels of a text column in their order, where the data give one (ordered categories of a dataframe).
    """

    values: np.ndarray
    dims: tuple[str, ...] | None
    missing: np.ndarray | None = None
    order: tuple[str, ...] | None = None

    @property
    def text(self) -> bool:
        return self.values.dtype.kind == "U"

    def absent(self) -> np.ndarray:
        """Which cells are missing."""
        if self.missing is not None:
            return self.missing
        return np.isnan(self.values) if self.values.dtype.kind == "f" else np.zeros(self.values.shape, bool)

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
        Names of a table's rows, where it has a column called like the dimension of its rows.
    left_out : mapping of str to str
        Columns that hold neither numbers nor text, such as dates, and the message for a model that uses one.
    notes : tuple of str
        What reading the files took for granted.
    unused : tuple of (str, str)
        Entries of the data section that fit no column: the key, and what is odd about it.
    """

    columns: Mapping[str, Column] = field(default_factory=dict)
    rows: str = "obs_id"
    levels: Mapping[str, np.ndarray] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unused: tuple[tuple[str, str], ...] = ()

    def digests(self) -> dict[str, str]:
        """SHA-256 of each column, and of the names of rows."""
        own = {name: Column(values, (name,)) for name, values in self.levels.items()}
        return {name: column.digest() for name, column in sorted((dict(self.columns) | own).items())}

    def over(self, base: Dataset) -> Dataset:
        """These columns, and from ``base`` those of dimensions that are not here (group tables)."""
        own = {dim for column in self.columns.values() for dim in column.dims or ()}
        kept = {
            name: column
            for name, column in base.columns.items()
            if name not in self.columns and column.dims is not None and not set(column.dims) & (own | {base.rows})
        }
        levels = {dim: names for dim, names in base.levels.items() if dim not in own and dim != base.rows}
        return replace(self, columns=kept | dict(self.columns), levels=levels | dict(self.levels))

    def plain(self) -> Dataset:
        """Columns by their plain names; one whose plain name another has keeps its own."""
        taken = Counter(map(plain_name, self.columns))
        named = {name if taken[plain_name(name)] > 1 else plain_name(name): c for name, c in self.columns.items()}
        left_out = {plain_name(name): reason for name, reason in self.left_out.items()}
        return self if named.keys() == self.columns.keys() else replace(self, columns=named, left_out=left_out)

    def renamed(self, names: Mapping[str, str], *, complete: bool = False) -> Dataset:
        """Columns by other names, ``{new: old}``; ``complete`` refuses an old name that is not there."""
        rest, left_out = dict(self.columns), dict(self.left_out)
        moved, moved_out = dict[str, Column](), dict[str, str]()
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

    def emptied(self, name: str) -> Dataset:
        """The same with every cell of a column missing; a column that is not here stays away."""
        column = self.columns.get(name)
        if column is None:
            return self
        shape = column.values.shape
        empty = np.full(shape, "") if column.text else np.full(shape, np.nan)
        gone = Column(empty, column.dims, np.ones(shape, bool) if column.text else None, column.order)
        return replace(self, columns={**self.columns, name: gone})

    def take(self, rows: np.ndarray, dim: str | None = None) -> Dataset:
        """Only these rows of the main table, or of that of another dimension, by position."""
        along = self.rows if dim is None else dim

        def shorter(array: Any, dims: tuple[str, ...] | None) -> Any:
            if array is None or not dims or along not in dims:
                return array
            return np.take(array, rows, axis=dims.index(along))

        columns = {
            name: Column(shorter(c.values, c.dims), c.dims, shorter(c.missing, c.dims), c.order)
            for name, c in self.columns.items()
        }
        levels = {name: shorter(names, (name,)) for name, names in self.levels.items()}
        return replace(self, columns=columns, levels=levels)

    def complete(self, wanted: Container[str] | None = None) -> Dataset:
        """The dataset, where every column could be read, or every one of those that are wanted.

        Raises
        ------
        DataError
            A column holds neither numbers nor text.
        """
        for name, reason in self.left_out.items():
            if wanted is None or name in wanted:
                raise DataError(reason, code="odd-cell")
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
        )

    @classmethod
    def from_table(
        cls,
        raw: Mapping[str, Any],
        rows: str,
        *,
        what: str = "data",
        notes: tuple[str, ...] = (),
        cells: Cells = Cells(),
    ) -> Dataset:
        """One table: columns of equal length along the dimension ``rows``."""
        columns, levels, left_out = dict[str, Column](), dict[str, np.ndarray](), dict[str, str]()
        # The column that names the rows is written like their dimension, or has it for its plain name.
        alike = [name for name in raw if plain_name(name) == rows]
        key = rows if rows in raw or len(alike) != 1 else alike[0]
        for name, value in raw.items():
            try:
                values, missing = _read_values(name, value, f"{what}: column '{name}'", cells)
            except UnusableColumn as error:
                left_out[name] = error.message
                continue
            if values.ndim != 1:
                raise DataError(f"{what}: column '{name}' does not hold one value a row", code="not-a-column")
            if name == key:
                levels[rows] = _row_names(rows, Column(values, (rows,), missing), what)
            else:
                columns[name] = Column(values, (rows,), missing, _order(value))
        lengths = {len(c.values) for c in columns.values()} | {len(v) for v in levels.values()}
        if not lengths and left_out:
            raise DataError(next(iter(left_out.values())), code="odd-cell")
        if not lengths:
            raise DataError(f"{what}: the table has no columns", code="no-columns")
        if lengths == {0}:
            raise DataError(f"{what}: the table has no rows", code="no-rows")
        _check_lengths(columns, what)
        return cls(columns, rows, levels, left_out, notes)

    @classmethod
    def from_columns(
        cls, raw: Mapping[str, Any], source: DataSource, *, what: str = "data", cells: Cells = Cells()
    ) -> Dataset:
        """From a mapping of names to numbers, nested lists, arrays or (for group tables) dataframes."""
        columns: dict[str, Column] = {}
        left_out: dict[str, str] = {}
        tables = cls()
        pending: dict[str, tuple[np.ndarray, np.ndarray | None]] = {}
        for name, value in raw.items():
            if not isinstance(name, str):
                raise DataError(f"{what}: names of columns are text, not {name!r}", code="bad-name")
            if _is_frame(value):
                tables = tables.joined(
                    cls.from_table(frame_columns(value), name, what=f"{what}['{name}']", cells=cells)
                )
                continue
            try:
                values, missing = _read_values(name, value, f"{what}: '{name}'", cells)
            except UnusableColumn as error:
                left_out[name] = error.message
                continue
            if values.ndim == 0 or name in source.dims:
                dims = tuple(source.dims.get(name, ()))
                if len(dims) != values.ndim:
                    raise DataError(
                        f"{what}: '{name}' has {values.ndim} dimensions, data.dims names {len(dims)}",
                        code="bad-dimensions",
                    )
                columns[name] = Column(values, dims, missing, _order(value))
            else:
                pending[name] = (values, missing)
        _check_indexes({name: raw[name] for name, (values, _) in pending.items() if values.ndim == 1}, what)
        lengths = Counter(len(values) for values, _ in pending.values() if values.ndim == 1)
        declared = {len(c.values) for c in columns.values() if c.dims == (source.rows,)}
        length = next(iter(declared)) if declared else lengths.most_common(1)[0][0] if lengths else None
        for name, (values, missing) in pending.items():
            fits = values.ndim == 1 and len(values) == length
            columns[name] = Column(values, (source.rows,) if fits else None, missing, _order(raw[name]))
        # A column that runs along the dimension it is called like has the names of its places.
        named = [name for name, column in columns.items() if column.dims == (name,)]
        levels = {name: _row_names(name, columns.pop(name), what) for name in named}
        _check_lengths(columns, what)
        return tables.joined(cls(columns, source.rows, levels, left_out))


def _check_indexes(series: Mapping[str, Any], what: str) -> None:
    """Refuse pandas series of one length whose rows have different names: by position they would be mixed up."""
    first: dict[int, tuple[str, Any]] = {}
    for name, value in series.items():
        index: Any = getattr(value, "index", None)
        if not hasattr(index, "equals"):
            continue
        other, known = first.setdefault(len(value), (name, index))
        if not index.equals(known):
            raise DataError(
                f"{what}: the series '{other}' and '{name}' have different indexes: put them into one dataframe, which"
                " aligns their rows, or give arrays, whose rows go together as they come",
                code="bad-dimensions",
            )


class UnusableColumn(DataError):
    """A column that no model can use, such as one of dates; it stops only a model that names it."""


def _is_frame(value: Any) -> bool:
    return hasattr(value, "columns") and hasattr(value, "shape") and not isinstance(value, np.ndarray)


def frame_series(frame: Any) -> dict[str, Any]:
    """Columns of a pandas, polars or pyarrow table as narwhals series.

    Raises
    ------
    DataError
        It is no such table, or two columns have one name.
    """
    import narwhals as nw

    try:
        native = nw.from_native(frame, eager_only=True)
        names = [str(name) for name in native.columns]
    except nw.exceptions.DuplicateError:
        doubled = [name for name, count in Counter(map(str, frame.columns)).items() if count > 1]
        raise DataError(f"the column '{listed(doubled)[1:-1]}' is there twice", code="duplicate") from None
    except TypeError:
        raise DataError(
            f"{type(frame).__name__} is not a table bayeslab can read (pandas, polars, pyarrow)", code="wrong-type"
        ) from None
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        raise DataError(f"the column '{doubled[0]}' is there twice", code="duplicate")
    return dict(zip(names, native.iter_columns(), strict=True))


def frame_columns(frame: Any) -> dict[str, Any]:
    """Columns of a pandas, polars or pyarrow table."""
    columns = {}
    for name, series in frame_series(frame).items():
        native = series.to_native()
        if type(getattr(native, "type", None)).__name__ == "DictionaryType":  # categories of pyarrow
            native = native.to_pandas()
        if _order(native) is not None:
            columns[name] = native
        else:
            columns[name] = series.to_list() if _nullable(series) else series.to_numpy()
    return columns


def _order(values: Any) -> tuple[str, ...] | None:
    """The categories of a categorical column in their order, where they have one: ordered words, or numbers."""
    kind = getattr(values, "dtype", None)
    if (numbers := _numeric_categories(kind)) is not None:
        return tuple(_words(numbers).tolist())
    named = type(kind).__name__ == "CategoricalDtype" and _words_of_numbers(kind.categories)  # type: ignore[union-attr]
    if getattr(kind, "ordered", False) is not True and type(kind).__name__ != "Enum" and not named:
        return None
    words = list(kind.categories)  # type: ignore[union-attr]
    return tuple(words) if all(isinstance(word, str) for word in words) else None


def _words_of_numbers(categories: Any) -> bool:
    """Whether categories are words that read as numbers: levels all the same, since they are categories."""
    words = [] if categories is None else list(categories)
    return bool(words) and all(isinstance(word, str) and number_in(word) is not None for word in words)


def _numeric_categories(kind: Any) -> np.ndarray | None:
    """The categories of a categorical type of pandas, if they are numbers."""
    if type(kind).__name__ != "CategoricalDtype" or kind.categories is None or not len(kind.categories):
        return None
    categories = np.asarray(kind.categories.infer_objects())
    return categories if categories.dtype.kind in "iuf" else None


def _with_words(values: Any) -> Any:
    """A categorical column of numbers as one of words: its cells are levels, and no quantities."""
    numbers = _numeric_categories(getattr(values, "dtype", None))
    if numbers is None:
        return values
    codes = np.asarray(getattr(values, "cat", values).codes)
    words = np.array([*_words(numbers).tolist(), None], dtype=object)
    return words[codes]  # the code of a missing cell is -1


def _nullable(series: Any) -> bool:
    return not series.dtype.is_numeric() or series.null_count() > 0


def _read_values(name: str, value: Any, what: str, cells: Cells) -> tuple[np.ndarray, np.ndarray | None]:
    """One column as the model's data section wants it read."""
    values, missing = as_values(_with_words(value), what, cells.missing(name))
    if values.dtype.kind != "U" and not _truth(value):
        values = _without_sentinels(values, what, cells, cells.numbers(name))
    if values.dtype.kind == "U":
        if missing is not None:
            cells.note(values[missing])
        return values, missing
    if not cells.is_text(name):
        return values, missing
    gone = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    return _words(np.where(gone, 0, values)), gone if np.any(gone) else None


def _truth(value: Any) -> bool:
    """Whether a column holds truth values, which are read as 1 and 0 and are no numbers."""
    kind = getattr(value, "dtype", None)
    return kind == np.bool_ or (isinstance(value, list | tuple) and {type(cell) for cell in value} <= {bool, np.bool_})


def _without_sentinels(values: np.ndarray, what: str, cells: Cells, numbers: Mapping[str, float]) -> np.ndarray:
    """A column of numbers with NaN for those that stand for a missing cell."""
    gone = np.zeros(values.shape, dtype=bool)
    for word, number in numbers.items():
        # As a column of 32 bits has it, too.
        alike = {number} | ({float(np.float32(number))} if abs(number) < _LARGEST_SINGLE else set())
        held = np.isin(values, list(alike))
        if held.any():
            cells.met.add(word)
            gone |= held
    if not gone.any():
        return values
    if values.dtype.kind in "iu" and np.any(np.abs(values[~gone].astype(float)) >= LARGEST_EXACT):
        check_exact([None if out else x for x, out in zip(values.ravel().tolist(), gone.ravel(), strict=True)], what)
    return np.where(gone, np.nan, values.astype(float))


def as_values(value: Any, what: str, missing: frozenset[str] = MISSING_WORDS) -> tuple[np.ndarray, np.ndarray | None]:
    """Numbers (NaN for missing) or text with a mask, from whatever was given.

    Text is without the spaces around it; the words of ``missing``, the empty one among them, are missing cells.
    """
    values, gone = _as_given(value, what)
    if values.dtype.kind != "U" or any(cell.startswith(WORDS_APART) for cell in values.ravel()[:1000].tolist()):
        return values, gone
    values = np.char.strip(values)
    absent = np.isin(values, list(missing))
    if gone is not None:
        absent |= gone
    return values, absent if np.any(absent) else None


def _as_given(value: Any, what: str) -> tuple[np.ndarray, np.ndarray | None]:
    if _lists_of_words(value):
        value = [None if cell is None else WORDS_APART + WORDS_APART.join(map(str, cell)) for cell in value]
    try:
        array = _unmasked(value) if isinstance(value, np.ma.MaskedArray) else np.asarray(value)
        if array.dtype.kind == "U" and not isinstance(value, np.ndarray):
            array = np.asarray(value, dtype=object)  # NumPy would make text of numbers among text
    except ValueError:
        raise DataError(f"{what} is ragged: its rows have different lengths", code="wrong-shape") from None
    if isinstance(value, list | tuple):
        _check_truth(value, what)
    if array.dtype.kind == "b":
        return array.astype(np.int64), None
    if array.dtype.kind == "u" and array.size and array.max() > _LARGEST:
        whole_numbers(array.ravel().tolist(), what)
    if array.dtype.kind in "iu":
        return array.astype(np.int64), None
    if array.dtype.kind == "f":
        if isinstance(value, list | tuple) and np.any(np.abs(array) >= LARGEST_EXACT):
            # NumPy has rounded whole numbers among them.
            cells = np.asarray(value, dtype=object).ravel().tolist()
            (whole_numbers if all(isinstance(cell, int | np.integer) for cell in cells) else check_exact)(cells, what)
        return array.astype(np.float64), None
    if array.dtype.kind in "UTSO":
        return _from_objects(array, what)
    raise UnusableColumn(
        f"{what} holds {array.dtype}; numbers and text can be used (turn dates into numbers)", code="odd-cell"
    )


_LARGEST = 2**63 - 1
_LARGEST_SINGLE = 3e38


def _unmasked(values: Any) -> np.ndarray:
    """A masked array as a plain one: None where cells of text or whole numbers are masked, else NaN."""
    mask, cells = np.ma.getmaskarray(values), np.asarray(values.data)
    if not mask.any():
        return cells
    if cells.dtype.kind in "USOiu":
        cells = cells.astype(object)
        cells[mask] = None
        return cells
    return np.where(mask, np.nan, cells.astype(float))


def _check_truth(cells: Sequence[Any], what: str) -> None:
    """Refuse truth values among numbers, which would be read as 1 and 0."""
    kinds = set(map(type, cells))
    if not kinds & {bool, np.bool_} or not kinds - {bool, np.bool_, type(None)}:
        return
    truth = [isinstance(cell, bool | np.bool_) for cell in cells]
    if any(
        isinstance(c, int | float | np.number) and c == c
        for c, is_truth in zip(cells, truth, strict=True)
        if not is_truth
    ):
        row = truth.index(True) + 1
        raise UnusableColumn(
            f"{what} mixes numbers and truth values (row {row}: {cells[row - 1]}); make them one or the other",
            code="odd-cell",
        )


def whole_numbers(cells: Sequence[Any], what: str) -> np.ndarray:
    """Whole numbers, or their digits, as int64.

    Raises
    ------
    DataError
        One is beyond 64 bits; rounding it would make equal what differs.
    """
    try:
        return np.array(cells, dtype=np.int64) if not isinstance(cells[0], str) else np.array(cells).astype(np.int64)
    except (OverflowError, ValueError):
        for row, cell in enumerate(cells, start=1):
            if not -_LARGEST - 1 <= _whole(cell) <= _LARGEST:
                raise DataError(
                    f"{what}, row {row}: {_brief(cell)} is beyond 64 bits, the largest whole number is 2⁶³ − 1; write a"
                    " measurement with an exponent or a point, and a name with a letter before the digits",
                    code="too-large",
                ) from None
        raise


def check_exact(cells: Iterable[Any], what: str) -> None:
    """Refuse whole numbers, or their digits, that numbers with a point cannot hold.

    A column of whole numbers with missing cells becomes one of numbers with a point, which must not round one. Among
    fractions whole numbers are measurements: they may be rounded, but have to be finite.

    Raises
    ------
    DataError
        With the row.
    """
    rows = [(row, cell) for row, cell in enumerate(cells, start=1) if cell is not None and cell == cell]
    exact = all(isinstance(cell, _WHOLE) for _, cell in rows)
    for row, cell in rows:
        if not isinstance(cell, _WHOLE):
            continue
        number = _whole(cell)
        if abs(number) > 1 << 1000 or (exact and int(float(number)) != number):
            raise DataError(
                f"{what}, row {row}: {_brief(cell)} has more digits than a number beside missing cells or a decimal"
                " point can keep (2⁵³); write a measurement with an exponent, a name with a letter before the digits",
                code="too-many-digits",
            )


_WHOLE = (str, int, np.integer)


def _whole(cell: Any) -> int:
    """A whole number, or its digits; beyond all bounds where there are too many to read."""
    return int(cell) if not isinstance(cell, str) or len(cell) <= 400 else 1 << 2000


def _brief(cell: Any) -> str:
    if isinstance(cell, int) and abs(cell) > 1 << 1000:
        return "a whole number of hundreds of digits"
    text = str(cell)
    return text if len(text) <= 40 else f"{text[:20]}… ({len(text):,} digits)"


def _lists_of_words(value: Any) -> bool:
    """Whether each cell is a list of words: a document that is cut into words already."""
    if isinstance(value, np.ndarray):
        value = value.tolist() if value.dtype.kind == "O" and value.ndim == 1 else None
    if not isinstance(value, list | tuple):
        return False
    cells = [cell for cell in value if cell is not None]
    lists = all(isinstance(cell, list | tuple | np.ndarray) for cell in cells)
    return lists and any(len(cell) for cell in cells) and all(isinstance(word, str) for cell in cells for word in cell)


_NUMBER = bool | int | float | np.integer | np.floating | np.bool_


def _from_objects(array: np.ndarray, what: str) -> tuple[np.ndarray, np.ndarray | None]:
    flat = array.astype(object).ravel()
    _check_truth(flat.tolist(), what)
    if set(map(type, flat)) <= {str, float, type(None)}:  # the common case, without a loop over cells
        gone = np.equal(flat, np.array(None, dtype=object)).astype(bool) | (flat != flat).astype(bool)
        if set(map(type, flat[~gone])) == {str}:
            text = as_text(np.where(gone, "", flat), what)
            return text.reshape(array.shape), gone.reshape(array.shape) if gone.any() else None
    missing = np.array([cell is None or type(cell).__name__ == "NAType" or cell != cell for cell in flat])
    kinds = {str if isinstance(cell, str) else type(cell) for cell, gone in zip(flat, missing, strict=True) if not gone}
    if all(issubclass(kind, _NUMBER) for kind in kinds):
        cells = [None if gone else cell for cell, gone in zip(flat, missing, strict=True)]
        if kinds and all(issubclass(kind, bool | int | np.integer | np.bool_) for kind in kinds) and not missing.any():
            return whole_numbers(cells, what).reshape(array.shape), None
        check_exact(cells, what)
        numbers = np.array([np.nan if cell is None else float(cell) for cell in cells])
        return numbers.reshape(array.shape), None
    if kinds - {str}:
        present = [i for i, gone in enumerate(missing) if not gone]
        odd = next((i for i in present if not isinstance(flat[i], str | _NUMBER)), None)
        if odd is None:  # numbers among text, or text among numbers: the rarer is the odd one
            texts = [i for i in present if isinstance(flat[i], str)]
            others = [i for i in present if not isinstance(flat[i], str)]
            odd, kind = min(others, texts, key=len)[0], type(flat[others[0]]).__name__
        else:
            kind = type(flat[odd]).__name__
        if str in kinds:
            cell = ascii(flat[odd][:40]) if isinstance(flat[odd], str) else _brief(flat[odd])
            raise UnusableColumn(
                f"{what} mixes text and {kind} (row {odd + 1}: {cell}); a column is numbers or text", code="odd-cell"
            )
        raise UnusableColumn(
            f"{what} holds {kind} (row {odd + 1}); a column is numbers or text: make numbers of it, say days",
            code="odd-cell",
        )
    text = as_text(["" if gone else cell for cell, gone in zip(flat, missing, strict=True)], what)
    return text.reshape(array.shape), missing.reshape(array.shape) if missing.any() else None


def as_text(cells: Any, what: str) -> np.ndarray:
    """Text cells as an array, whose cells all have room for the longest."""
    longest = max(map(len, cells), default=0)
    if (size := 4 * longest * len(cells)) > MOST_TEXT:
        raise DataError(
            f"{what}: {len(cells):,} cells with room for the longest, {longest:,} letters, would take"
            f" {size / 2**30:.1f} GiB, more than {MOST_TEXT / 2**30:.0f}; cut the longest, or give documents as counts"
            " of words (a row for each document and word)",
            code="too-costly",
        )
    out = np.array(cells, dtype=str)
    # An array of text ends a cell at its last letter that is not NUL.
    if any("\0" in cell for cell in cells):
        row = next(i for i, cell in enumerate(cells) if "\0" in cell)
        raise DataError(f"{what}, row {row + 1}: the cell holds a NUL character; take it out", code="not-text")
    return out


def _check_lengths(columns: Mapping[str, Column], what: str) -> None:
    seen: dict[str, tuple[int, str]] = {}
    for name, column in columns.items():
        for dim, length in zip(column.dims or (), column.values.shape, strict=column.dims is not None):
            first = seen.setdefault(dim, (length, name))
            if first[0] != length:
                raise DataError(
                    f"{what}: along '{dim}', '{name}' has {length} values and '{first[1]}' has {first[0]}",
                    code="wrong-length",
                )


# ------------------------------------------------------------------------------------- binding


@dataclass(frozen=True, slots=True)
class Memory:
    """What a fit must remember about its data to read new data the same way.

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
    origin : Data or None
        The data of the fit, where these are new data to predict from.
    memo : dict
        What a family has worked out about these data.
    slips : mapping of str to str
        Columns that cannot be used as they are, each with the reason.
    alphabetical : frozenset of str
        Columns of text whose levels are in the order of the alphabet, because no other is given.
    digits : frozenset of str
        Columns of text whose cells are all numbers, and which nothing else says are names.
    used : set of str
        Columns that the model has looked at.
    dimension_of : dict of str to str
        Columns whose cells are labels of another dimension, and that dimension.
    coded : frozenset of str
        Columns of whole numbers that are labels, and no quantities.
    of_rows : bool
        Whether the model is about the rows of one table, so that columns of others are refused.
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
        self.memo: dict[str, Any] = {}
        self.slips: Mapping[str, str] = {}
        self.alphabetical: frozenset[str] = frozenset()
        self.digits: frozenset[str] = frozenset()
        self.used: set[str] = set()
        self.dimension_of: dict[str, str] = {}
        self.coded: frozenset[str] = frozenset()
        self.of_rows = False
        self._terms: dict[str, Term] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Without what families have worked out: they work it out again."""
        return self.__dict__ | {"memo": {}}

    @cached_property
    def evaluator(self) -> Evaluator:
        """Evaluates expressions that involve data only."""
        return Evaluator(self.term, self.labels, self.frozen, rows=self.dataset.rows, cells=self.cells)

    def forget(self) -> None:
        """Drop what was read of columns before their levels were known."""
        self._terms.clear()
        self.used.clear()

    def cells(self, name: str) -> Term:
        """A column, missing cells allowed."""
        return self.term(name, missing=True)

    def has(self, name: str) -> bool:
        """Whether the data offer a column, given or computed, of this name."""
        if name in self.dataset.columns:
            return True
        wanted, seen = [name], set[str]()
        while wanted:
            one = wanted.pop()
            if one in seen or one in self.dataset.columns or (one in self.labels and one != name):
                continue
            if one not in self.derive:
                return False
            seen.add(one)
            wanted += self.derive[one].names
        return True

    def placed(self, name: str) -> bool:
        """Whether the dimensions of a column are known."""
        return name not in self.dataset.columns or self.dataset.columns[name].dims is not None

    def present(self, name: str) -> bool:
        """Whether a column has a cell that is not missing."""
        if name in self.dataset.columns:
            return not np.all(self.dataset.columns[name].absent())
        return not np.all(_missing(self._of_any_table(name)))

    def names(self) -> set[str]:
        """Names of all columns, given and computed."""
        return set(self.dataset.columns) | {name for name in self.derive if self.has(name)}

    def term(self, name: str, *, missing: bool = False, role: str | None = None) -> Term:
        """A column as a term; ``missing`` allows missing cells (of observed nodes).

        ``role`` says what the column is, for the error of missing cells; a predictor in a graph if it is not given.

        Raises
        ------
        ModelError, DataError
            No such column; its dimensions are unknown; cells are missing; a value is no level; it is of another table
            than the model.
        """
        term = self._of_any_table(name)
        if self.of_rows:
            self._check_table(name, term.dims)
        if not missing:
            self._complete(name, term, role)
        return term

    def column(self, name: str) -> Column:
        """A column of the data as it was given, dates and numbers among text too.

        Raises
        ------
        DataError
            It is of another table than the model.
        """
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
        """Refuse what does not have one value a row: by position it would be bound to other rows."""
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
        """Whether the rows have a column that says which row of another table each belongs to."""
        column = self.dataset.columns.get(str(dims[0]))
        return len(dims) == 1 and column is not None and column.dims == (self.dataset.rows,)

    def look_at(self, name: str) -> None:
        """Note that a column is used.

        Raises
        ------
        DataError
            It is text, and nearly all of its cells are numbers.
        """
        self.used.add(name)
        if name in self.slips:
            raise DataError(self.slips[name], code="odd-cell")

    def check_order(self, name: str, what: str) -> None:
        """Refuse levels of text in the order of the alphabet where their order means something.

        Raises
        ------
        DataError
            With the levels, and how to give the order.
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
        """What is odd about the columns that are used, and about the data section.

        Levels that differ only in capitals or spaces; numbers as text; entries of the data section that fit no column.
        """
        out: list[tuple[str, str, float | None, str, str]] = [
            (key, "", None, message, "correct it, or take it out") for key, message in self.dataset.unused
        ]
        for name in sorted(self.used & self.digits):
            message = f"'{name}' is text, and all of its cells are numbers: they are names here, not quantities"
            out.append(("text", name, None, message, f"make numbers of it, or say text: [{name}] in the data section"))
        for name in sorted(self.used & self.dataset.columns.keys() & self.labels.keys()):
            alike: dict[str, list[str]] = {}
            if self.dataset.columns[name].text:
                for word in map(str, self.labels[name].tolist()):
                    alike.setdefault("".join(word.casefold().split()), []).append(word)
            for words in alike.values():
                if len(words) > 1:
                    message = f"'{name}': the levels {listed(words)} differ only in capitals or spaces"
                    out.append(("levels", name, None, message, "make them one in the data if they are one"))
        return out

    def _named(self, name: str) -> Term:
        if name in self.dataset.columns:
            return self._given(name)
        if name in self.derive:
            return self._derived(name)
        if name in self.labels:
            # A dimension's own name: the factor that tells its levels apart.
            return Term(None, (name,), np.arange(len(self.labels[name])), name, column=name)
        if name in self.dataset.left_out:
            raise DataError(self.dataset.left_out[name], code="odd-cell")
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
            words = column.values if column.text else _words(column.values)
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
        evaluator = Evaluator(read, self.labels, self.frozen, rows=self.dataset.rows, cells=read)
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
                if other.value is not None and other.dims == term.dims:
                    absent |= np.isnan(np.asarray(other.value, dtype=float))
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

    def memory(self) -> Memory:
        """What predictions on new data need."""
        kept = {d: levels.tolist() for d, levels in self.labels.items() if d != self.dataset.rows}
        return Memory(kept, dict(self.frozen))


def _missing(term: Term) -> np.ndarray:
    """Which cells of a column are missing."""
    gone = term.codes < 0 if term.codes is not None else np.isnan(np.asarray(term.value, dtype=float))
    return np.asarray(gone)


# Squares of larger numbers are no numbers any more.
_MOST_MAGNITUDE = 1e153


def _check_magnitude(name: str, values: np.ndarray) -> None:
    large = np.isfinite(values) & (np.abs(values) > _MOST_MAGNITUDE)
    if np.any(large):
        at = int(np.flatnonzero(large)[0])
        raise DataError(
            f"column '{name}', row {at + 1}: {values.ravel()[at]:g} is too large to reckon with (at most"
            f" {_MOST_MAGNITUDE:g}): divide the column by a unit",
            code="too-large",
        )


def _words(values: np.ndarray) -> np.ndarray:
    """Numbers as the words a person would write: 1, not 1.0."""
    numbers = values.astype(float)
    whole = np.isfinite(numbers) & (numbers == np.floor(numbers))
    return np.array([str(int(v)) if w else str(v) for v, w in zip(values.ravel(), whole.ravel(), strict=True)]).reshape(
        values.shape
    )


def bind(model: Model, dataset: Dataset, factors: Iterable[str], memory: Memory | None = None) -> Data:
    """Bind a dataset to a model.

    Parameters
    ----------
    factors
        Dimensions the model indexes by a column of the same name.
    memory
        Of an earlier fit: its levels hold, and its reductions.

    Raises
    ------
    DataError
        Lengths or levels that do not fit.
    """
    memory = memory or Memory()
    if not model.model.any_names:
        dataset = dataset.plain()
    dataset = _in_order(dataset, memory)
    columns = dataset.columns
    _check_lengths(columns, "data")
    single = [name for name, column in columns.items() if column.dims == ()]
    if single and len(single) == len(columns) and not dataset.levels and model.model.family != "graph":
        raise DataError(
            f"'{single[0]}' is a single value, and so is all of the data: give a list, one value for each row",
            code="not-a-column",
        )
    labels: dict[str, np.ndarray] = {}
    lengths = {d: n for c in columns.values() if c.dims for d, n in zip(c.dims, c.values.shape, strict=True)}
    lengths |= {d: len(names) for d, names in dataset.levels.items()}
    for dim, length in lengths.items():
        if dim in RESERVED:
            raise DataError(
                f"the dimension '{dim}' is reserved by the results format; choose another name", code="reserved-name"
            )
        labels[dim] = dataset.levels.get(dim, np.arange(length))
    for dim, entry in model.dims.items():
        if isinstance(entry, str):
            continue
        declared = np.arange(entry) if isinstance(entry, int) else _label_array(entry)
        if isinstance(entry, int) and len(memory.levels.get(dim, ())) == entry:
            declared = _label_array(memory.levels[dim])  # which an outcome of the fit may have named
        if dim in lengths and lengths[dim] != len(declared):
            raise DataError(
                f"dimension '{dim}' has {len(declared)} levels in the model, {lengths[dim]} in the data",
                code="wrong-length",
            )
        if dim in dataset.levels and isinstance(entry, list):
            given, want = [str(x) for x in dataset.levels[dim].tolist()], [str(x) for x in entry]
            for row, (word, level) in enumerate(zip(given, want, strict=True)):
                if word != level:
                    raise DataError(
                        f"column '{dim}', row {row + 1}: '{word}' where the model has the level '{level}'",
                        code="unknown-level",
                    )
        labels[dim] = declared
    # A column with the name of a dimension is an index into it, by the dimension's labels.
    named = {name for name in labels.keys() & columns.keys() if columns[name].dims != (name,)}
    wanted = set(factors) | named | {name for name, column in columns.items() if column.text}
    factor_columns = {name for name in wanted & columns.keys() if columns[name].dims is not None}
    for name, own in model.model.levels().items():
        if name in columns and name not in labels:
            labels[name] = np.array(own)
    for name in sorted(factor_columns):
        if name not in labels:
            labels[name] = _levels(name, columns[name], memory)
    for dim, levels in memory.levels.items():
        labels.setdefault(dim, _label_array(levels))
    for dim, entry in model.dims.items():
        if isinstance(entry, str):
            if entry not in labels:
                raise ModelError(
                    f"twin of '{entry}', which is not a dimension{hint(entry, labels)}",
                    path=("dims", dim),
                    code="unknown-dimension",
                )
            labels[dim] = labels[entry]
    derive = {}
    for name, text in model.data.derive.items():
        try:
            derive[name] = parse(text)
        except ModelError as error:
            raise ModelError(
                error.message, path=("data", "derive", name), offset=error.offset, code=error.code
            ) from None
    try:
        TopologicalSorter({name: e.names & derive.keys() for name, e in derive.items()}).prepare()
    except CycleError as error:
        circle = error.args[1][::-1]
        path = ("data", "derive", circle[0])
        raise ModelError(f"computed columns go in a circle: {' -> '.join(circle)}", path=path, code="cycle") from None
    out = Data(dataset, labels, derive, factor_columns, memory.frozen)
    in_order = {*model.dims, *model.model.levels(), *memory.levels}
    out.alphabetical = frozenset(n for n in factor_columns - in_order if columns[n].text and columns[n].order is None)
    known = {*model.declared(), *memory.levels, *map(plain_name, Cells.of(model.data).text)}
    out.slips = {
        name: slip
        for name, column in columns.items()
        if column.text and plain_name(name) not in known and (slip := slip_of(name, column)) is not None
    }
    if not model.model.any_names:
        free = columns.keys() - set(factors) - known
        out.digits = frozenset(name for name in free if columns[name].order is None and _all_numbers(columns[name]))
    _name_categories(out, model)
    out.of_rows = model.model.of_rows
    return out


def _in_order(dataset: Dataset, memory: Memory) -> Dataset:
    """Tables of groups with their rows in the order of the fit, where they are the same rows."""
    for dim, names in dataset.levels.items():
        known = list(map(str, memory.levels.get(dim, ())))
        place = {str(name): row for row, name in enumerate(names.tolist())}
        if known != list(place) and sorted(known) == sorted(place):
            dataset = dataset.take(np.array([place[word] for word in known]), dim)
    return dataset


def _name_categories(data: Data, model: Model) -> None:
    """Let outcomes whose values are levels have the labels of the dimension that their probabilities lie along.

    A dimension without labels, of which only the length is known, takes the levels of its outcomes.

    Raises
    ------
    DataError
        The levels of outcomes do not fit the length of the dimension.
    """
    columns = data.dataset.columns
    given = {name: dim for name, dim in model.model.categories(data).items() if name in columns}
    found = {name: dim if dim is not None and dim in data.labels else name for name, dim in given.items()}
    coded = set[str]()
    for name, dim in found.items():
        if dim == name and name not in model.dims:
            continue
        foreign = columns[name].text and not _levels_of(name, data) <= set(map(str, data.labels[dim].tolist()))
        if foreign and dim != name and _nameless(dim, data, model):
            _give_names(dim, [other for other in found if found[other] == dim and columns[other].text], data)
        if columns[name].text or labels_are_numbers(data.labels[dim]):
            data.labels[name] = data.labels[dim]
            data.factors |= {name}
            data.dimension_of[name] = dim
            coded |= set() if columns[name].text else {name}
    data.coded = frozenset(coded)
    data.alphabetical -= data.dimension_of.keys()
    data.forget()


def _levels_of(name: str, data: Data) -> set[str]:
    column = data.dataset.columns[name]
    return set(column.values[~column.absent()].tolist())


def _nameless(dim: str, data: Data, model: Model) -> bool:
    """Whether of a dimension only the length is known."""
    entry = model.dims.get(dim)
    while isinstance(entry, str):
        dim, entry = entry, model.dims.get(entry)
    of_data = dim in data.dataset.levels or dim in data.dataset.columns
    return not isinstance(entry, list) and not of_data and data.labels[dim].dtype.kind != "U"


def _give_names(dim: str, names: Sequence[str], data: Data) -> None:
    old = data.labels[dim]
    levels = max((data.labels[name].tolist() for name in names), key=len)
    words = set[str]().union(*(_levels_of(name, data) for name in names))
    if not words <= set(levels):
        levels = sorted(words)
    if len(levels) != len(old):
        shown = ", ".join(map(str, levels[:8])) + ", ..." * (len(levels) < len(old) or len(levels) > 8)
        raise DataError(
            f"column '{names[0]}' has {len(levels)} levels, {listed(levels)}, and '{dim}', along which their"
            f" probabilities lie, has {len(old)}: name them in dims, {dim}: [{shown}]",
            code="wrong-length",
        )
    named = np.array(levels)
    for other, labels in data.labels.items():
        if labels is old:  # the dimension and its twins
            data.labels[other] = named


def number_in(word: str) -> float | None:
    """The number a cell of text is: digits, point, exponent; the minus may be the typographical one.

    >>> [number_in(word) for word in ("1.5", "\u22123", "1e3", "1_000", "0x10", "?")]
    [1.5, -3.0, 1000.0, None, None, None]
    """
    if "_" in word:
        return None
    try:
        return float(word.replace("\u2212", "-"))
    except ValueError:
        return None


def slip_of(name: str, column: Column) -> str | None:
    """Why a column of text cannot be used: nearly all of its cells are numbers, or it is numbers as text."""
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
            f"column '{name}', row {row + 1}: '{cells[row]}' is no number, and {share} of {total} cells are; correct"
            f' it, or say in the data section what it is: missing: ["{cells[row]}"] if the cell is missing, text:'
            f" [{name}] if the column holds names"
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


def _all_numbers(column: Column) -> bool:
    """Whether a column is text, and each of its words a number that is no code such as 01."""
    if not column.text:
        return False
    words = np.unique(column.values[~column.absent()]).tolist()
    return bool(words) and all(word.isdigit() and (word == "0" or word[0] != "0") for word in words)


def _row_names(dim: str, column: Column, what: str) -> np.ndarray:
    if np.any(column.absent()):
        raise DataError(f"{what}: column '{dim}' names the rows but has a missing cell", code="missing")
    names = column.values if column.text else _words(column.values)
    seen, counts = np.unique(names, return_counts=True)
    if len(seen) < len(names):
        raise DataError(
            f"{what}: column '{dim}' names the rows, as the dimension of rows is called, but '{seen[counts > 1][0]}' is"
            f" there twice: rename the column, or call the dimension otherwise in data.rows",
            code="duplicate",
        )
    whole = not column.text and np.all(column.values == np.floor(column.values))
    return _label_array(column.values.astype(np.int64).tolist() if whole else names.tolist())


def _levels(name: str, column: Column, memory: Memory) -> np.ndarray:
    if name in memory.levels:
        return _label_array(memory.levels[name])
    present = column.values[~column.absent()]
    if column.text and column.order is not None:
        there = set(present.ravel().tolist())
        return np.array([word for word in map(str.strip, column.order) if word in there])
    if not column.text:
        if present.dtype.kind == "f" and np.any(present != np.floor(present)):
            odd = present[present != np.floor(present)][0]
            raise DataError(
                f"column '{name}' is to tell groups or classes apart, and holds numbers that are not whole ({odd:g}):"
                f" if these are names, list it in the data section, text: [{name}]; if it is measured, take a model (a"
                " learner, a likelihood, a task) for numbers",
                code="not-states",
            )
        present = present.astype(np.int64)
    if not present.size:
        raise DataError(f"column '{name}' is used as a dimension but has no values", code="no-values")
    return np.unique(present)


def _label_array(values: Sequence[Any]) -> np.ndarray:
    if all(isinstance(v, int | np.integer) and not isinstance(v, bool) and abs(int(v)) <= _LARGEST for v in values):
        return np.asarray(values, dtype=np.int64)
    return np.asarray([str(v) for v in values])


def describe(data: Data) -> str:
    """One line about the data: rows and columns of each table, and arrays."""
    groups: dict[str | None, list[str]] = {}
    for name, column in data.dataset.columns.items():
        groups.setdefault(column.dims[0] if column.dims and len(column.dims) == 1 else None, []).append(name)
    parts = []
    for dim, names in sorted(groups.items(), key=lambda item: (item[0] != data.dataset.rows, item[0] is None)):
        if dim is None:
            parts.append(f"arrays {listed(names)}")
        else:
            of = "" if dim == data.dataset.rows else f" of '{dim}'"
            parts.append(f"{len(data.labels[dim]):,} rows{of}, columns {listed(names)}")
    if data.dataset.left_out:
        parts.append(f"left out, neither numbers nor text: {listed(data.dataset.left_out)}")
    return "; ".join(parts)
