"""Rows of a table as sequences: their boundaries, gaps inside them, and trees of rows that name their parents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.dataset import Column
from bayeslab.errors import DataError, hint

__all__ = ["Sequences", "parent_rows", "row_name", "sequence_starts", "sequences_of", "spread"]

# Limits for filling gaps: total number of rows, and growth factor.
_MOST, _TIMES = 20_000_000, 200


@dataclass(frozen=True, eq=False)
class Sequences:
    """The times of one or several sequences, gaps filled.

    Attributes
    ----------
    offsets : ndarray (n_sequences + 1,)
        Sequence s has the times ``offsets[s]`` to ``offsets[s + 1]``.
    names : ndarray (n_sequences,)
        Labels of the sequences in their column.
    times : ndarray (n_times,)
    at : ndarray (n_rows,)
        The time of each row of the table.
    """

    offsets: np.ndarray
    names: np.ndarray
    times: np.ndarray
    at: np.ndarray

    @property
    def n_times(self) -> int:
        return int(self.offsets[-1])

    @property
    def n_sequences(self) -> int:
        return len(self.names)

    @property
    def sequence(self) -> np.ndarray:
        """Index of the sequence of each time."""
        return np.repeat(np.arange(self.n_sequences), np.diff(self.offsets))

    def some(self, which: np.ndarray) -> Sequences:
        """Some of the sequences, in this order."""
        lengths = np.diff(self.offsets)[which]
        times = np.concatenate([np.arange(self.offsets[s], self.offsets[s + 1]) for s in which])
        place = np.full(self.n_times, -1)
        place[times] = np.arange(len(times))
        at = place[self.at]
        return Sequences(np.append(0, np.cumsum(lengths)), self.names[which], self.times[times], at[at >= 0])

    def prefix(self, most: int) -> Sequences:
        """The first ``most`` times."""
        offsets = np.minimum(self.offsets, most)
        kept = int(np.searchsorted(self.offsets[:-1], most, side="left"))
        kept = max(kept, 1)
        offsets = offsets[: kept + 1]
        inside = self.at < offsets[-1]
        return Sequences(offsets, self.names[:kept], self.times[: offsets[-1]], self.at[inside])


def sequences_of(data: Data, sequence: str | None, time: str | None) -> Sequences:
    """The sequences in a table.

    Parameters
    ----------
    sequence : str or None
        The column that identifies sequences; None: a single sequence.
    time : str or None
        The column of integer times; None: rows are consecutive.

    Raises
    ------
    DataError
        A sequence is not contiguous, or times are not increasing integers.
    """
    n_rows = len(data.labels.get(data.dataset.rows, ()))
    names, offsets = _pieces(data, sequence, n_rows)
    if time is None:
        return Sequences(offsets, names, np.concatenate([np.arange(n) for n in np.diff(offsets)] or [np.arange(0)]),
                         np.arange(n_rows))  # fmt: skip
    times = _times(data, time, n_rows)
    inner = np.ones(n_rows, bool)
    inner[offsets[:-1]] = False
    step = np.diff(times, prepend=0)
    wrong = np.flatnonzero(inner & (step <= 0))
    if len(wrong):
        row = int(wrong[0])
        which = "is there twice" if step[row] == 0 else f"comes after {times[row - 1]}"
        whose = f" of '{_named(names, offsets, row)}'" if sequence else ""
        raise DataError(
            f"column '{time}', row {row + 1}: {times[row]}{whose} {which}; sort the rows by {time}, each once",
            code="not-in-order",
        )
    first = np.repeat(times[offsets[:-1]], np.diff(offsets))
    lengths = times[offsets[1:] - 1] - times[offsets[:-1]] + 1
    total = int(lengths.sum())
    if total > max(10_000, min(_MOST, _TIMES * n_rows)):
        widest = int(np.where(inner, step, 0).max())
        raise DataError(
            f"column '{time}': {n_rows:,} rows span {total:,} times, with a gap of {widest:,}; the chain moves once a"
            " unit of time: change the unit (data.derive), or leave `time` out",
            code="too-costly",
        )
    filled = np.append(0, np.cumsum(lengths))
    at = np.repeat(filled[:-1], np.diff(offsets)) + times - first
    every = np.concatenate([np.arange(a, a + n) for a, n in zip(times[offsets[:-1]], lengths, strict=True)])
    return Sequences(filled, names, every, at)


def _pieces(data: Data, sequence: str | None, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Names and offsets of runs of equal names."""
    if n_rows == 0:
        raise DataError("the data have no rows", code="no-rows")
    if sequence is None:
        return np.array(["all"]), np.array([0, n_rows])
    if sequence not in data.dataset.columns:
        raise DataError(f"the data have no column '{sequence}', which tells sequences apart", code="unknown-column")
    column = data.column(sequence)
    if np.any(column.absent()):
        raise DataError(
            f"column '{sequence}', row {int(np.flatnonzero(column.absent())[0]) + 1}: the cell is missing",
            code="missing",
        )
    begins = sequence_starts(sequence, column.values)
    return column.values[begins], np.append(begins, n_rows)


def sequence_starts(column: str, names: np.ndarray) -> np.ndarray:
    """The first row of each sequence, given the name of the sequence of every row.

    Raises
    ------
    DataError
        A sequence is not contiguous.
    """
    begins = np.append(0, np.flatnonzero(names[1:] != names[:-1]) + 1)
    first = np.unique(names[begins], return_index=True)[1]
    if len(first) < len(begins):
        row = int(begins[np.setdiff1d(np.arange(len(begins)), first)[0]])
        raise DataError(
            f"column '{column}': '{row_name(names[row])}' begins again in row {row + 1}; sort the rows by {column}",
            code="not-in-order",
        )
    return begins


def _times(data: Data, time: str, n_rows: int) -> np.ndarray:
    if time == data.dataset.rows:
        values, absent = data.labels[time], np.zeros(n_rows, bool)
    elif time in data.dataset.columns:
        column = data.column(time)
        values, absent = column.values, column.absent()
    else:
        values = np.asarray(data.term(time, missing=True).value)
        absent = np.isnan(values.astype(float))
    if values.dtype.kind == "U":
        raise DataError(
            f"column '{time}' holds text such as '{values[0]}'; times are whole numbers", code="not-numbers"
        )
    if np.any(absent):
        raise DataError(
            f"column '{time}', row {int(np.flatnonzero(absent)[0]) + 1}: the cell is missing", code="missing"
        )
    if len(infinite := np.flatnonzero(np.isinf(values.astype(float)))):
        raise DataError(
            f"column '{time}', row {int(infinite[0]) + 1}: {values[infinite[0]]:g}; times are whole numbers",
            code="not-finite",
        )
    odd = np.flatnonzero(values != np.floor(values))
    if len(odd):
        raise DataError(
            f"column '{time}', row {int(odd[0]) + 1}: {values[odd[0]]:g}; times are whole numbers", code="not-whole"
        )
    return values.astype(np.int64)


def _named(names: np.ndarray, offsets: np.ndarray, row: int) -> str:
    return str(names[int(np.searchsorted(offsets, row, side="right")) - 1])


def row_name(value: Any) -> str:
    """The name of a row as text; 3 and 3.0 are equal."""
    return f"{value:.15g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def parent_rows(column: str, cells: Column, names: np.ndarray, rows: str) -> np.ndarray:
    """The row of each row's parent, -1 for roots.

    Parameters
    ----------
    column : str
        Name of the column of parents.
    cells : Column
        The name of each row's parent, empty for roots.
    names : ndarray (n_rows,)
        Distinct names of the rows.
    rows : str
        Name of the rows, for messages.

    Raises
    ------
    DataError
        A parent does not exist.
    """
    place = {row_name(name): row for row, name in enumerate(names.tolist())}
    out = np.full(len(names), -1, np.int64)
    for row, (value, absent) in enumerate(zip(cells.values.tolist(), cells.absent().tolist(), strict=True)):
        if absent:
            continue
        name = row_name(value)
        if name not in place:
            near = hint(name, list(place)[:1000])
            raise DataError(
                f"column '{column}', row {row + 1}: the parent '{name}' is not one of the rows of '{rows}'{near}",
                code="unknown-level",
            )
        out[row] = place[name]
    return out


def spread(rows: Sequences, values: np.ndarray) -> np.ndarray:
    """Values of the table's rows (n_rows, ...) at all times, NaN where there is no row."""
    out = np.full((rows.n_times, *values.shape[1:]), np.nan)
    out[rows.at] = values
    return out
