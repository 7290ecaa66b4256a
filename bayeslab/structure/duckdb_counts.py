"""Counting with DuckDB, for CSV and Parquet files that are larger than memory.

The files are read once into a DuckDB table of state numbers, in which identical rows are merged into weighted rows;
DuckDB moves the table to disk when memory is short. A small table becomes ordinary :class:`Observations`; otherwise
sets of variables are counted in DuckDB by ``GROUP BY GROUPING SETS``, many sets in one pass. The scores are the same.

Needs the extra ``bayeslab[duckdb]``.
"""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from bayeslab.data.cells import MISSING_WORDS, number_in
from bayeslab.data.dataset import Column, slip_of
from bayeslab.data.duckdb_tables import DuckTable, quoted
from bayeslab.errors import DataError, hint
from bayeslab.structure.constraints import members_of
from bayeslab.structure.counts import CellSums, SetIndex
from bayeslab.structure.data import Observations

__all__ = ["DuckCounter", "DuckRows", "observations"]

# GROUPING() distinguishes sets by at most 63 columns; more sets than this in one pass gain little.
_COLUMNS, _SETS = 60, 48


def observations(
    source: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    states: Mapping[str, Sequence[Any]] | None = None,
    fetch: int = 50_000_000,
) -> Observations:
    """Read rows from files, for scores of discrete variables.

    Parameters
    ----------
    source
        A CSV or Parquet file, or a pattern such as ``data/*.parquet``.
    columns
        Columns to use; default: all.
    states
        States of a variable in order; default: the states that occur, sorted.
    fetch
        Rows are fetched if the distinct rows have at most this many cells; otherwise they stay in DuckDB.

    Raises
    ------
    DataError
        DuckDB is not installed, a file cannot be read, cells are missing, a value is not a state.
    """
    table = DuckTable.open(source)
    where, there, connection = table.where, list(table.types), table.connection
    names = list(columns) if columns is not None else there
    for name in names:
        if name not in there:
            raise DataError(f"there is no column '{name}'{hint(name, there)}", where=where, code="unknown-column")
    with table.errors():
        levels = _states(table, names, dict(states or {}))
        rows = _encoded(table, levels)
    if rows.n_distinct * len(names) > fetch:
        none = np.zeros((0, len(names)))
        weights = np.zeros(0, np.int64)
        return Observations(tuple(levels), tuple(levels.values()), none.astype(np.int16), none, weights, rows)
    held = connection.execute("SELECT * FROM held").fetchnumpy()
    codes = np.column_stack([np.asarray(held[f"c{i}"]) for i in range(len(names))])
    return Observations.of_codes(codes, levels, weights=np.asarray(held["w"], dtype=np.int64))


def _states(table: DuckTable, names: Sequence[str], states: dict[str, Sequence[Any]]) -> dict[str, tuple[str, ...]]:
    """States of each column: the given states, or those that occur; numbers are sorted numerically."""
    connection, given, where = table.connection, table.rows, table.where
    out: dict[str, tuple[str, ...]] = {}
    text = given.startswith("read_csv")
    gone = ", ".join(f"COUNT(*) - COUNT({quoted(name)})" for name in names)
    missing = connection.execute(f"SELECT {gone} FROM {given}").fetchone()
    for name, lost in zip(names, missing, strict=True):
        if lost:
            raise DataError(
                f"column '{name}' has {lost:,} missing cell{'s' if lost > 1 else ''} and scores need complete rows:"
                " drop rows or the column",
                where=where,
                code="missing",
            )
        # The word of each state in the file, with a placeholder for its number.
        place = f"s{len(out)}"
        connection.execute(
            f"CREATE TABLE {place} AS SELECT DISTINCT {quoted(name)} AS v, NULL::SMALLINT AS c FROM {given}"
        )
        words = _sorted([row[0] for row in connection.execute(f"SELECT v FROM {place}").fetchall()])
        occurring = [_shown(word) for word in words]
        if text:
            column = quoted(name)
            often = dict(connection.execute(f"SELECT {column}, COUNT(*) FROM {given} GROUP BY 1").fetchall())
            occurring = _as_read(name, [(word, often[word]) for word in words], name in states, where)
        levels = tuple(map(str, states.get(name, _sorted([*set(occurring)]) if text else occurring)))
        odd = set(occurring) - set(levels)
        if odd:
            word = min(odd)
            raise DataError(
                f"column '{name}': '{word}' is not a state of '{name}'{hint(word, levels)}",
                where=where,
                code="unknown-state",
            )
        if not words:
            raise DataError("the table has no rows", where=where, code="no-rows")
        pairs = [[levels.index(shown), word] for word, shown in zip(words, occurring, strict=True)]
        connection.executemany(f"UPDATE {place} SET c = ? WHERE v = ?", pairs)
        out[name] = levels
    return out


def _as_read(name: str, counted: list[tuple[str, int]], declared: bool, where: str) -> list[str]:
    """The states of the words of a text file, as a table in memory has them: ``1`` of ``1``, ``1.0`` and `` 1``.

    Raises
    ------
    DataError
        Words are missing cells once spaces are removed, or are no states: dates, numbers with marks, fractions, a
        stray word among numbers.
    """
    words = [word.strip() for word, _ in counted]
    place = f"column '{name}'"
    if lost := sum(n for word, (_, n) in zip(words, counted, strict=True) if word in {"", *MISSING_WORDS}):
        raise DataError(f"{place} has {lost:,} missing cell{'s' * (lost > 1)}", where=where, code="missing")
    numbers = [number for word in words if (number := number_in(word)) is not None]
    codes = any(word[0] == "0" and len(word) > 1 for word in words) and all(word.isdigit() for word in words)
    if len(numbers) == len(words) and not codes:
        if fraction := next((word for word, x in zip(words, numbers, strict=True) if not x.is_integer()), None):
            raise DataError(
                f"{place} holds numbers that are not whole ({fraction}), and DuckDB counts states: sort them into"
                " classes, or count in memory",
                where=where,
                code="not-states",
            )
        return [str(int(number)) for number in numbers]
    if not declared:
        most = max(n for _, n in counted)
        cells = np.repeat(words, [max(1, round(1000 * n / most)) for _, n in counted])
        if slip := slip_of(name, Column(cells, None)):
            # Neither rows nor counts are those of the file.
            message = re.sub(r", row \d+| in row \d+|(?<=\()row \d+: |, and \d+ of \d+ cells are", "", slip)
            raise DataError(message, where=where, code="odd-cell")
    return words


def _sorted(words: list[Any]) -> list[Any]:
    """Sort words; if all words of a text file are numbers, sort them numerically; ``01`` is before ``1``."""
    try:
        return sorted(words, key=lambda word: (float(word), word))
    except ValueError:
        return sorted(words)


def _shown(word: Any) -> str:
    """The name of a state: truth values and whole numbers as whole numbers."""
    if isinstance(word, bool):
        return str(int(word))
    return f"{word:g}" if isinstance(word, float) else str(word)


def _encoded(table: DuckTable, levels: Mapping[str, tuple[str, ...]]) -> DuckRows:
    """Replace words by state numbers and merge identical rows into weighted rows."""
    connection, given = table.connection, table.rows
    numbers = ", ".join(f"s{i}.c AS c{i}" for i in range(len(levels)))
    joins = " ".join(f"JOIN s{i} ON t.{quoted(name)} = s{i}.v" for i, name in enumerate(levels))
    connection.execute(
        f"CREATE TABLE held AS SELECT {numbers}, COUNT(*)::BIGINT AS w FROM {given} t {joins} GROUP BY ALL ORDER BY ALL"
    )
    n_distinct, n_rows = connection.execute("SELECT COUNT(*), SUM(w) FROM held").fetchone()
    return DuckRows(table, int(n_distinct), float(n_rows))


@dataclass(frozen=True, eq=False)
class DuckRows:
    """Rows that stay in DuckDB."""

    files: DuckTable
    n_distinct: int
    n_rows: float
    lock: Any = field(default_factory=threading.Lock)

    def digest(self) -> str:
        """Sum of the hashes of the rows; identical for identical rows and the same version of DuckDB."""
        with self.lock:
            row = self.files.connection.execute("SELECT SUM(hash(held)::HUGEINT)::VARCHAR FROM held").fetchone()
        return str(row[0])

    def table(self, members: Sequence[int], cards: Sequence[int]) -> NDArray[np.float64]:
        """Return the contingency table of some variables, one axis per variable."""
        out = np.zeros([cards[u] for u in members])
        names = [f"c{u}" for u in members]
        with self.lock:
            cells = self.files.connection.execute(
                f"SELECT {', '.join(names)}, SUM(w)::DOUBLE AS n FROM held GROUP BY {', '.join(names)}"
            ).fetchnumpy()
        out[tuple(np.asarray(cells[name], dtype=np.int64) for name in names)] = cells["n"]
        return out

    def counter(self, data: Observations, sums: CellSums) -> DuckCounter:
        """Return the counter for the sums of a score."""
        return DuckCounter(self, data.cards, sums)

    def counts(self, sets: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Yield, for each set of variables, its number and its non-zero counts."""
        for numbers in _batches(sets):
            used = sorted({u for i in numbers for u in sets[i]})
            place = {u: len(used) - 1 - k for k, u in enumerate(used)}
            groups = ", ".join("(" + ", ".join(f"c{u}" for u in sets[i]) + ")" for i in numbers)
            marks = f"GROUPING({', '.join(f'c{u}' for u in used)})" if used else "0"
            query = f"SELECT {marks} AS g, SUM(w)::DOUBLE AS n FROM held GROUP BY GROUPING SETS ({groups})"
            with self.lock:
                cells = self.files.connection.execute(query).fetchnumpy()
            mark, n = np.asarray(cells["g"], dtype=np.int64), np.asarray(cells["n"], dtype=np.float64)
            # A bit of the mark is 0 if the column is in the set.
            every = (1 << len(used)) - 1
            for i in numbers:
                yield i, n[mark == every - sum(1 << place[u] for u in sets[i])]


def _batches(sets: Sequence[tuple[int, ...]]) -> Iterator[list[int]]:
    """Yield batches of set numbers to be counted in one pass."""
    batch: list[int] = []
    used: set[int] = set()
    batched: set[tuple[int, ...]] = set()
    for i, members in enumerate(sets):
        if batch and (len(batch) >= _SETS or len(used | set(members)) > _COLUMNS or members in batched):
            yield batch
            batch, used, batched = [], set(), set()
        batch.append(i)
        used |= set(members)
        batched.add(members)
    if batch:
        yield batch


@dataclass(frozen=True, eq=False)
class DuckCounter:
    """Sums over cells as in :class:`bayeslab.structure.counts.CliqueCounter`, counted by DuckDB."""

    rows: DuckRows
    cards: NDArray[np.int64]
    sums: CellSums

    def prepare(self) -> None:
        """Do nothing: there is no shared state."""

    def _values(self, counts: NDArray[np.float64], members: Sequence[int]) -> NDArray[np.float64]:
        """Sums for one set, one per type."""
        if self.sums.kind == "entropy":
            return np.array([xlogy(counts, counts).sum()])
        cells = float(np.prod(self.cards[list(members)], dtype=float))
        shifts = (self.sums.ess / cells,) if self.sums.ess > 0 else self.sums.shifts
        return np.array([(gammaln(counts + s) - gammaln(s)).sum() for s in shifts])

    def families(self, child: int, sets: NDArray[np.uint64], row: int) -> NDArray[np.float64]:
        """Sums for parent sets (type ``row``) and for the sets with the child (type 0), shape (n_sets, 2)."""
        parents = [members_of(mask) for mask in sets]
        wanted = [*parents, *(tuple(sorted((*parent_set, child))) for parent_set in parents)]
        out = np.zeros((len(wanted), self.sums.n_types))
        for i, counts in self.rows.counts(wanted):
            out[i] = self._values(counts, wanted[i])
        return np.column_stack([out[: len(parents), row], out[len(parents) :, 0]])

    def walk(
        self,
        variables: NDArray[np.int64],
        index: SetIndex,
        limits: NDArray[np.int64],
        parent_limit: int,
        *,
        threads: int = 1,
        tick: Callable[[], None] | None = None,
    ) -> NDArray[np.float64]:
        """Sums for all sets that begin with each variable and have at most limits[variable] members."""
        out = np.zeros((index.size, self.sums.n_types))
        out[0] = self.sums.of_total(self.rows.n_rows)
        for root in range(len(variables)):
            later = range(root + 1, len(variables))
            places = [(root, *s) for k in range(int(limits[root])) for s in itertools.combinations(later, k)]
            members = [tuple(int(variables[p]) for p in positions) for positions in places]
            for i, counts in self.rows.counts(members):
                number = sum(int(index.binomial[p, j + 1]) for j, p in enumerate(places[i]))
                out[int(index.offsets[len(places[i])]) + number] = self._values(counts, members[i])
            if tick:
                tick()
        return out
