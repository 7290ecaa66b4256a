"""Data for structure learning: complete rows of discrete states, numbers, or both.

Identical rows of discrete data are merged into one weighted row where that saves work, so that the cost
of counting depends on the number of distinct rows.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bayeslab.data.cells import as_truth_words, as_values, is_truth, number_in
from bayeslab.data.dataset import Column, Dataset
from bayeslab.data.frames import frame_series
from bayeslab.errors import DataError, hint

__all__ = ["MOST_STATES", "Kind", "Observations", "measured"]

type Kind = Literal["discrete", "continuous", "mixed"]

# A column of whole numbers with more distinct values than this holds measurements, not states.
MOST_STATES = 20


def measured(values: NDArray[Any]) -> bool:
    """Whether the non-missing numbers of a column are measurements rather than states.

    They are measurements if some are not whole, or if they have more than :data:`MOST_STATES` distinct values, unless
    they number the rows and are therefore row names.
    """
    if values.dtype.kind == "f" and np.any(values != np.floor(values)):
        return True
    distinct = np.unique(values)
    if len(distinct) <= MOST_STATES:
        return False
    counted = len(distinct) == len(values) and float(distinct[-1]) - float(distinct[0]) == len(distinct) - 1
    return not counted


@dataclass(frozen=True, eq=False)
class Observations:
    """Complete rows, in the form that scores use.

    Attributes
    ----------
    names : tuple of str
    states : tuple of tuple of str
        States of each discrete variable; empty for a continuous one.
    codes : ndarray of int8 or int16, shape (n_distinct, n), by column
        Numbers of the states; 0 for continuous variables.
    values : ndarray of float, shape (n_distinct, n), by column
        Values of continuous variables, 0 elsewhere; of shape (0, n) if all are discrete.
    weights : ndarray, shape (n_distinct,)
        Number of occurrences of each row: integers, or any numbers >= 0 for expected counts.
    elsewhere : object, optional
        Rows stored in DuckDB instead of here (:mod:`bayeslab.structure.duckdb_counts`). Scores that are sums over cells
        get their counts from it.
    """

    names: tuple[str, ...]
    states: tuple[tuple[str, ...], ...]
    codes: NDArray[np.integer]
    values: NDArray[np.float64]
    weights: NDArray[Any]
    elsewhere: Any = None

    @property
    def n(self) -> int:
        """Number of variables."""
        return len(self.names)

    @property
    def n_rows(self) -> float:
        """Number of rows; the sum of the weights."""
        if self.elsewhere is not None:
            return float(self.elsewhere.n_rows)
        return float(self.weights.sum())

    @cached_property
    def cards(self) -> NDArray[np.int64]:
        """Number of states of each variable; 0 for a continuous one."""
        return np.array([len(levels) for levels in self.states], dtype=np.int64)

    @property
    def continuous(self) -> NDArray[np.bool_]:
        """Which variables are continuous."""
        return self.cards == 0

    @cached_property
    def in_range(self) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """Values divided by powers of two so that their squares neither overflow nor underflow, and the exponents.

        The division is exact: ``np.ldexp(*in_range)`` gives the values.
        """
        exponents = np.frexp(np.abs(self.values).max(axis=0, initial=0.0))[1]
        return np.ldexp(self.values, -exponents), exponents

    def digest(self) -> str:
        """SHA-256 of all contents."""
        sha = hashlib.sha256(repr((self.names, self.states)).encode())
        if self.elsewhere is not None:
            sha.update(self.elsewhere.digest().encode())
        for part in (self.codes, self.values, self.weights):
            sha.update(f"{part.dtype.str}{part.shape}".encode() + np.ascontiguousarray(part.T).tobytes())
        return sha.hexdigest()

    def require(self, kind: Kind, score: str) -> None:
        """Raise a DataError unless every variable is of this kind."""
        if self.elsewhere is not None and score in ("bds", "noisy_or_bic", "mixed_bic"):
            raise DataError(
                f"'{score}' needs the rows in memory; they are in DuckDB: raise 'fetch', or take 'bdeu' or 'bic'",
                code="unsupported",
            )
        wrong = np.flatnonzero({"discrete": self.continuous, "continuous": ~self.continuous}.get(kind, np.zeros(0)))
        if wrong.size:
            name = self.names[wrong[0]]
            held, other = ("numbers", "mixed_bic") if kind == "discrete" else ("states", "mixed_bic")
            raise DataError(
                f"'{name}' holds {held} and the score '{score}' is for {kind} variables: leave the column out, or take"
                f" '{other}'" + (", or sort its values into classes" if kind == "discrete" else ""),
                code="not-suited",
            )

    @classmethod
    def of(
        cls, data: Any, *, kind: Kind = "discrete", states: Mapping[str, Sequence[Any]] | None = None
    ) -> Observations:
        """Read a table.

        Parameters
        ----------
        data
            A dataframe (pandas, polars, pyarrow), a mapping of columns, a Dataset, or Observations, which are returned
            unchanged.
        kind
            ``discrete``: every column holds states. ``continuous``: every column holds numbers. ``mixed``: columns of
            text and truth values, and those named in ``states``, hold states; the others hold numbers.
        states
            States of a variable in order; default: the states that occur, sorted.

        Raises
        ------
        DataError
            Missing cells, values that are not states, or numbers that are not finite.
        """
        if isinstance(data, cls):
            return data
        columns = columns_of(data)
        given = dict(states or {})
        for name in given:
            if name not in columns:
                raise DataError(
                    f"states are given for '{name}', which is not a column{hint(name, columns)}", code="unknown-column"
                )
        n_rows = {len(column.values) if isinstance(column, Column) else len(column) for column in columns.values()}
        if len(n_rows) != 1 or n_rows == {0}:
            raise DataError(
                "the table has no rows" if len(n_rows) < 2 else "the columns differ in length",
                code="no-rows" if len(n_rows) < 2 else "wrong-length",
            )
        coded = {v: _read(v, column, kind, given.get(v)) for v, column in columns.items()}
        discrete = [levels for levels, _ in coded.values()]
        _warn_of_odd_columns(coded, n_rows.pop())
        numbers = [values if levels is None else np.zeros(len(values)) for levels, values in coded.values()]
        return cls.of_codes(
            np.array([np.zeros(len(c), np.int64) if levels is None else c for levels, c in coded.values()]).T,
            {v: levels or () for v, levels in zip(coded, discrete, strict=True)},
            values=np.column_stack(numbers) if None in discrete else None,
        )

    @classmethod
    def of_codes(
        cls,
        codes: NDArray[Any],
        states: Mapping[str, Sequence[str]],
        *,
        weights: NDArray[Any] | None = None,
        values: NDArray[np.float64] | None = None,
    ) -> Observations:
        """Create from state numbers, shape (n_rows, n), in the order of ``states``.

        Parameters
        ----------
        weights
            Weight of each row; integers, or numbers >= 0.
        values
            Values of the continuous variables (those without states), shape (n_rows, n).
        """
        names, levels = tuple(states), tuple(tuple(map(str, s)) for s in states.values())
        cards = np.array([max(1, len(s)) for s in levels])
        codes = np.asarray(codes)
        if codes.ndim != 2 or codes.shape[1] != len(names):
            raise DataError(
                f"codes of shape {codes.shape} for {len(names)} variables; give one row a case", code="wrong-shape"
            )
        low, high = codes.min(axis=0, initial=0), codes.max(axis=0, initial=0)
        wrong = np.flatnonzero((low < 0) | (high >= cards))
        if wrong.size:
            v = int(wrong[0])
            if low[v] < 0:
                raise _missing(names[v], codes[:, v] < 0)
            raise DataError(
                f"'{names[v]}' has codes up to {high[v]} and the states 0 to {cards[v] - 1}", code="out-of-range"
            )
        if weights is not None and (len(weights) != len(codes) or np.any(np.asarray(weights) < 0)):
            raise DataError(
                f"{len(weights)} weights for {len(codes)} rows; give one number >= 0 a row", code="wrong-length"
            )
        if max(cards, default=0) > np.iinfo(np.int16).max:
            raise DataError(
                f"'{names[int(np.argmax(cards))]}' has {max(cards):,} states; at most 32,767 can be handled",
                code="too-large",
            )
        packed: NDArray[Any] = np.asfortranarray(codes, dtype=np.int8 if max(cards, default=0) <= 127 else np.int16)
        w = np.ones(len(codes), np.int64) if weights is None else np.asarray(weights)
        if w.dtype.kind == "f" and np.all(w == np.floor(w)):
            w = w.astype(np.int64)
        if values is None:
            packed, w = _compressed(packed, w)
            numbers = np.zeros((0, len(names)))
        else:
            numbers = np.asfortranarray(values, dtype=np.float64)
        return cls(names, levels, packed, numbers, w)

    def take(self, rows: NDArray[np.integer]) -> Observations:
        """Return some of the distinct rows by number, with repetition for a bootstrap."""
        values = self.values[rows] if len(self.values) else None
        states = dict(zip(self.names, self.states, strict=True))
        return Observations.of_codes(self.codes[rows], states, weights=self.weights[rows], values=values)

    def reweighted(self, weights: NDArray[Any]) -> Observations:
        """The same rows with other weights."""
        if weights.shape != self.weights.shape:
            raise DataError(f"{weights.size} weights for {self.weights.size} rows", code="wrong-length")
        return Observations(self.names, self.states, self.codes, self.values, weights)


def columns_of(data: Any) -> dict[str, Any]:
    """Columns as Column objects or plain sequences."""
    if isinstance(data, Dataset):
        return {name: column for name, column in data.complete().columns.items() if column.values.ndim == 1}
    if isinstance(data, Mapping):
        return {str(name): _one_a_row(str(name), column) for name, column in data.items()}
    plain = {}
    for name, series in frame_series(data).items():
        numbers = series.dtype.is_numeric() and not series.null_count()
        plain[name] = series.to_numpy() if numbers else _one_a_row(name, _coded(series))
    return plain


def _one_a_row(name: str, column: Any) -> Any:
    """Return the column after checking that each row has one value."""
    if isinstance(column, Column | CodedColumn):
        return column
    if isinstance(column, str | bytes) or not hasattr(column, "__len__") or getattr(column, "ndim", 1) != 1:
        raise DataError(f"column '{name}' does not hold one value a row", code="not-a-column")
    if isinstance(column, np.ndarray) and column.dtype.kind != "O":
        return column
    if any(kind.__hash__ is None or issubclass(kind, tuple) for kind in set(map(type, column))):
        values, missing = as_values(column, f"column '{name}'")  # raises for most of them
        if values.ndim != 1:
            raise DataError(f"column '{name}' does not hold one value a row", code="not-a-column")
        return Column(values, None, missing)
    return column


@dataclass(frozen=True, eq=False)
class CodedColumn:
    """A column as its distinct words, and the index of each cell's word; -1 for a missing cell."""

    words: list[Any]
    codes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.codes)

    def read(self, missing: Collection[str]) -> CodedColumn:
        """Return the column as read from a file: words stripped of spaces, and words for missing cells removed."""
        words = [str(word).strip() for word in self.words]
        if words == self.words and not any(word in missing for word in words):
            return self
        kept = list(dict.fromkeys(word for word in words if word not in missing))
        place = {word: k for k, word in enumerate(kept)}
        return CodedColumn(kept, np.array([*(place.get(word, -1) for word in words), -1])[self.codes])


def _coded(series: Any) -> Any:
    """Return a text column as CodedColumn if the dataframe can factorise it faster than a loop, else as a list."""
    native = series.to_native()
    if not hasattr(native, "factorize"):  # pandas has it
        return series.to_list()
    try:
        codes, words = native.factorize()
    except TypeError:  # unhashable cells, such as lists
        return series.to_list()
    words = list(words)
    if all(isinstance(word, str) for word in words):
        return CodedColumn(words, np.asarray(codes, dtype=np.int64))
    return series.to_list()


def _read(name: str, column: Any, kind: Kind, states: Sequence[Any] | None) -> tuple[tuple[str, ...] | None, Any]:
    """Return states and codes of a discrete column, or None and the values of a continuous one."""
    if isinstance(column, CodedColumn):
        if np.any(column.codes < 0):
            raise _missing(name, column.codes < 0)
        if kind == "continuous":
            raise _text(name)
        levels = tuple(sorted(column.words)) if states is None else tuple(map(str, states))
        return levels, _lookup(name, column.words, {word: i for i, word in enumerate(levels)})[column.codes]
    if not isinstance(column, Column | np.ndarray):
        distinct = set(column)
        if all(isinstance(word, str) for word in distinct):
            if kind == "continuous":
                raise _text(name)
            levels = tuple(sorted(distinct)) if states is None else tuple(map(str, states))
            return levels, _lookup(name, column, {word: i for i, word in enumerate(levels)})
    column = read_column(name, column)
    if kind != "continuous":
        column = as_states(column, states)
    absent = column.absent()
    if absent.any():
        fractions = not column.text and bool(np.any(column.values[~absent] % 1))
        raise _missing(name, absent, numbers=(kind != "discrete" and not column.text) or fractions)
    if column.values.dtype.kind == "f" and not np.all(np.isfinite(column.values)):
        row = int(np.flatnonzero(~np.isfinite(column.values))[0]) + 1
        raise DataError(f"column '{name}', row {row} is not finite", code="not-finite")
    discrete = kind == "discrete" or (kind == "mixed" and (column.text or states is not None))
    if not discrete:
        if column.text:
            raise _text(name)
        return None, column.values.astype(np.float64)
    return _states_of_numbers(name, column, states)


def read_column(name: str, column: Any) -> Column:
    """A column of plain cells as a Column; a Column is returned unchanged."""
    if isinstance(column, Column):
        return column
    values, missing = as_values(column, f"column '{name}'")
    return Column(values, None, missing, truth=is_truth(column))


def as_states(column: Column, states: Sequence[Any] | None) -> Column:
    """The column with truth values as words: False and True, or the given states if these are such words."""
    if not column.truth or states is None:
        return column.with_truth_words()
    absent = column.absent()
    words = as_truth_words(column.values, np.array([str(state) for state in states]))
    return column if words is None else Column(words, column.dims, absent if np.any(absent) else None)


def _states_of_numbers(name: str, column: Column, states: Sequence[Any] | None) -> tuple[tuple[str, ...], Any]:
    distinct, inverse = np.unique(column.values, return_inverse=True)
    if column.values.dtype.kind == "f" and np.any(distinct != np.floor(distinct)) and states is None:
        raise DataError(
            f"column '{name}' holds {len(distinct):,} different numbers that are not whole, and the score is for"
            f" states: sort them into classes, or take 'bge', 'gaussian_bic' or 'mixed_bic'",
            code="not-states",
        )
    words = [
        cell if isinstance(cell, str) else f"{cell:g}" if cell != int(cell) else str(int(cell))
        for cell in distinct.tolist()
    ]
    if states is None:
        return tuple(words), inverse
    levels = tuple(map(str, states))
    return levels, _lookup(name, words, {word: i for i, word in enumerate(levels)})[inverse]


def _lookup(name: str, words: Sequence[str], known: Mapping[str, int]) -> NDArray[np.int64]:
    try:
        return np.fromiter(map(known.__getitem__, words), np.int64, len(words))
    except KeyError as error:
        word = error.args[0]
        raise DataError(
            f"column '{name}': '{word}' is not a state of '{name}'{hint(word, known)}", code="unknown-state"
        ) from None


def _text(name: str) -> DataError:
    return DataError(
        f"column '{name}' holds text and the score is for numbers; leave it out, or take 'mixed_bic'",
        code="not-numbers",
    )


def lacking(absent: NDArray[np.bool_]) -> str:
    """Describe how many cells are missing, and where."""
    rows = np.flatnonzero(absent) + 1
    if len(rows) == 1:
        return f"1 missing cell (row {rows[0]})"
    shown = ", ".join(str(row) for row in rows[:5]) + (" ..." if len(rows) > 5 else "")
    return f"{len(rows):,} missing cells (rows {shown})"


def _missing(name: str, absent: NDArray[np.bool_], *, numbers: bool = False) -> DataError:
    filled = (
        " (cells of states could be filled in: sort the numbers into classes for that)"
        if numbers
        else ", or have them filled in: by structural EM (`structural_em`), or in the chain (`bayeslab fit`)"
    )
    them = "the row" if absent.sum() == 1 else "the rows"
    return DataError(
        f"column '{name}' has {lacking(absent)} and the score needs complete rows: drop {them} or the column{filled}",
        code="missing",
    )


def _warn_of_odd_columns(coded: Mapping[str, tuple[tuple[str, ...] | None, Any]], n_rows: int) -> None:
    for name, (levels, _) in coded.items():
        if levels is not None and len(levels) == 1:
            warnings.warn(
                f"column '{name}' is constant: rows say nothing about how it depends on others; leave it out, or give"
                f" its states",
                stacklevel=3,
            )
        numbers = levels is not None and all(number_in(word) is not None for word in levels)
        if levels is not None and len(levels) > (n_rows if n_rows < 10 else n_rows / 2):
            warnings.warn(
                f"column '{name}' has {len(levels):,} states in {n_rows:,} rows: it looks like a name of rows; leave it"
                f" out, or sort its values into fewer classes{', or take a score of numbers (bge)' * numbers}",
                stacklevel=3,
            )


def _compressed(codes: NDArray[Any], weights: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Merge identical rows if this removes at least half of the rows; the total weight is preserved."""
    cards = codes.max(axis=0, initial=0).astype(np.int64) + 1
    # Check a part of the rows first: most tables with many columns have few identical rows.
    part = codes[: min(len(codes), 1000)]
    if math.prod(map(int, cards)) > len(codes) and len(_unique_rows(part)[0]) > 0.7 * len(part):
        return codes, weights
    first, kinds = _unique_rows(codes)
    if 2 * len(first) > len(codes):
        return codes, weights
    total = np.zeros(len(first), weights.dtype)
    np.add.at(total, kinds, weights)
    return np.asfortranarray(codes[first]), total


def _unique_rows(codes: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first position of each distinct row, sorted by codes, and the index of each row's distinct row."""
    cards = codes.max(axis=0, initial=0).astype(np.int64) + 1
    if math.prod(map(int, cards)) < 2**62:
        keys: NDArray[Any] = np.zeros(len(codes), np.int64)
        for card, column in zip(cards, codes.T, strict=True):
            keys *= card
            keys += column
    else:
        rows = np.ascontiguousarray(codes)
        keys = rows.view([("", np.void, rows.itemsize * rows.shape[1])]).ravel() if rows.size else np.zeros(len(rows))
    _, first, kinds = np.unique(keys, return_index=True, return_inverse=True)
    return first, kinds
