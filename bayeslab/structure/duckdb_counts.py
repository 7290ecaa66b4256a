"""Counts by DuckDB: for CSV and Parquet files that are larger than memory.

The files are read once, into a table of state numbers that DuckDB keeps (and moves to disk when memory is short), equal
rows as one row with a weight. If that table is small, it becomes ordinary :class:`Observations`; if not, each set
of variables is counted where it lies, by ``GROUP BY GROUPING SETS``, many sets in one pass. Scores are the same.

Needs the extra ``bayeslab[duckdb]``.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from bayeslab.errors import DataError, hint
from bayeslab.structure.constraints import members_of
from bayeslab.structure.counts import CellSums, SetIndex
from bayeslab.structure.data import Observations

__all__ = ["DuckCounter", "DuckRows", "observations"]

# GROUPING() tells sets apart by at most 63 columns; more sets than this in one pass gain little.
_COLUMNS, _SETS = 60, 48


def observations(
    source: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    states: Mapping[str, Sequence[Any]] | None = None,
    fetch: int = 50_000_000,
) -> Observations:
    """Rows of files, for scores of discrete variables.

    Parameters
    ----------
    source
        A CSV or Parquet file, or a pattern such as ``data/*.parquet``.
    columns
        Which columns to use; all if left out.
    states
        States of a variable in order; left out, those that occur, sorted.
    fetch
        Rows are fetched if they, equal ones being one, have at most this many cells; else they stay in DuckDB.

    Raises
    ------
    DataError
        DuckDB is not installed, a file cannot be read, cells are missing, a value is not a state.
    """
    try:
        import duckdb
    except ImportError:
        raise DataError("counting with DuckDB needs it: pip install 'bayeslab[duckdb]'", code="not-installed") from None
    where = os.fspath(source)
    connection = duckdb.connect()
    reader = "read_parquet" if where.endswith(".parquet") else "read_csv"
    text = "" if reader == "read_parquet" else ", all_varchar = true, header = true"
    given = f"{reader}('{where.replace(chr(39), chr(39) * 2)}'{text})"
    try:
        there = [row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {given}").fetchall()]
        names = list(columns) if columns is not None else there
        for name in names:
            if name not in there:
                raise DataError(f"there is no column '{name}'{hint(name, there)}", where=where, code="unknown-column")
        levels = _states(connection, given, names, dict(states or {}), where)
        rows = _encoded(connection, given, levels)
    except duckdb.Error as error:
        raise DataError(
            f"DuckDB cannot read it: {str(error).splitlines()[0]}", where=where, code="unreadable"
        ) from None
    if rows.n_distinct * len(names) > fetch:
        none = np.zeros((0, len(names)))
        weights = np.zeros(0, np.int64)
        return Observations(tuple(levels), tuple(levels.values()), none.astype(np.int16), none, weights, rows)
    held = connection.execute("SELECT * FROM held").fetchnumpy()
    codes = np.column_stack([np.asarray(held[f"c{i}"]) for i in range(len(names))])
    return Observations.of_codes(codes, levels, weights=np.asarray(held["w"], dtype=np.int64))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _states(
    connection: Any, given: str, names: Sequence[str], states: dict[str, Sequence[Any]], where: str
) -> dict[str, tuple[str, ...]]:
    """States of each column: those given, or those that occur; numbers in the order of numbers."""
    out: dict[str, tuple[str, ...]] = {}
    gone = ", ".join(f"COUNT(*) - COUNT({_quoted(name)})" for name in names)
    missing = connection.execute(f"SELECT {gone} FROM {given}").fetchone()
    for name, lost in zip(names, missing, strict=True):
        if lost:
            raise DataError(
                f"column '{name}' has {lost:,} missing cell{'s' if lost > 1 else ''} and scores need complete rows:"
                " drop rows or the column",
                where=where,
                code="missing",
            )
        # What the file calls each state, with a place for the number that replaces it.
        place = f"s{len(out)}"
        connection.execute(
            f"CREATE TABLE {place} AS SELECT DISTINCT {_quoted(name)} AS v, NULL::SMALLINT AS c FROM {given}"
        )
        words = _sorted([row[0] for row in connection.execute(f"SELECT v FROM {place}").fetchall()])
        occurring = [_shown(word) for word in words]
        levels = tuple(map(str, states.get(name, occurring)))
        odd = set(occurring) - set(levels)
        if odd:
            word = min(odd)
            raise DataError(
                f"column '{name}': '{word}' is not a state of '{name}'{hint(word, levels)}",
                where=where,
                code="unknown-state",
            )
        pairs = [[levels.index(shown), word] for word, shown in zip(words, occurring, strict=True)]
        connection.executemany(f"UPDATE {place} SET c = ? WHERE v = ?", pairs)
        out[name] = levels
    return out


def _sorted(words: list[Any]) -> list[Any]:
    """Words in order; those of a text file that are all numbers, in the order of numbers."""
    try:
        return sorted(words, key=float)
    except ValueError:
        return sorted(words)


def _shown(word: Any) -> str:
    """The name of a state: truth values and whole numbers as whole numbers."""
    if isinstance(word, bool):
        return str(int(word))
    return f"{word:g}" if isinstance(word, float) else str(word)


def _encoded(connection: Any, given: str, levels: Mapping[str, tuple[str, ...]]) -> DuckRows:
    """Numbers of states instead of words, equal rows as one with a weight."""
    numbers = ", ".join(f"s{i}.c AS c{i}" for i in range(len(levels)))
    joins = " ".join(f"JOIN s{i} ON t.{_quoted(name)} = s{i}.v" for i, name in enumerate(levels))
    connection.execute(
        f"CREATE TABLE held AS SELECT {numbers}, COUNT(*)::BIGINT AS w FROM {given} t {joins} GROUP BY ALL ORDER BY ALL"
    )
    n_distinct, n_rows = connection.execute("SELECT COUNT(*), SUM(w) FROM held").fetchone()
    return DuckRows(connection, int(n_distinct), float(n_rows))


@dataclass(frozen=True, eq=False)
class DuckRows:
    """Rows that stay in DuckDB."""

    connection: Any
    n_distinct: int
    n_rows: float
    lock: Any = field(default_factory=threading.Lock)

    def digest(self) -> str:
        """A sum over hashes of the rows; the same for the same rows and version of DuckDB."""
        with self.lock:
            row = self.connection.execute("SELECT SUM(hash(held)::HUGEINT)::VARCHAR FROM held").fetchone()
        return str(row[0])

    def table(self, members: Sequence[int], cards: Sequence[int]) -> NDArray[np.float64]:
        """The counts of every cell of some variables, an axis each."""
        out = np.zeros([cards[u] for u in members])
        names = [f"c{u}" for u in members]
        with self.lock:
            cells = self.connection.execute(
                f"SELECT {', '.join(names)}, SUM(w)::DOUBLE AS n FROM held GROUP BY {', '.join(names)}"
            ).fetchnumpy()
        out[tuple(np.asarray(cells[name], dtype=np.int64) for name in names)] = cells["n"]
        return out

    def counter(self, data: Observations, sums: CellSums) -> DuckCounter:
        """What counts them, for the sums of a score."""
        return DuckCounter(self, data.cards, sums)

    def counts(self, sets: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """The counts that are not zero of each of some sets of variables, with the number of the set."""
        for numbers in _batches(sets):
            used = sorted({u for i in numbers for u in sets[i]})
            place = {u: len(used) - 1 - k for k, u in enumerate(used)}
            groups = ", ".join("(" + ", ".join(f"c{u}" for u in sets[i]) + ")" for i in numbers)
            marks = f"GROUPING({', '.join(f'c{u}' for u in used)})" if used else "0"
            query = f"SELECT {marks} AS g, SUM(w)::DOUBLE AS n FROM held GROUP BY GROUPING SETS ({groups})"
            with self.lock:
                cells = self.connection.execute(query).fetchnumpy()
            mark, n = np.asarray(cells["g"], dtype=np.int64), np.asarray(cells["n"], dtype=np.float64)
            # A bit of the mark is 0 where the column is in the set.
            every = (1 << len(used)) - 1
            for i in numbers:
                yield i, n[mark == every - sum(1 << place[u] for u in sets[i])]


def _batches(sets: Sequence[tuple[int, ...]]) -> Iterator[list[int]]:
    """Numbers of different sets to be counted in one pass."""
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
    """Sums over cells as :class:`bayeslab.structure.counts.CliqueCounter` has them, counted by DuckDB."""

    rows: DuckRows
    cards: NDArray[np.int64]
    sums: CellSums

    def prepare(self) -> None:
        """Nothing is shared."""

    def _values(self, counts: NDArray[np.float64], members: Sequence[int]) -> NDArray[np.float64]:
        """Sums of one set, one a type."""
        if self.sums.kind == "entropy":
            return np.array([xlogy(counts, counts).sum()])
        cells = float(np.prod(self.cards[list(members)], dtype=float))
        shifts = (self.sums.ess / cells,) if self.sums.ess > 0 else self.sums.shifts
        return np.array([(gammaln(counts + s) - gammaln(s)).sum() for s in shifts])

    def families(self, child: int, sets: NDArray[np.uint64], row: int) -> NDArray[np.float64]:
        """Sums of some parent sets (type ``row``) and of these with the child (type 0), shape (n_sets, 2)."""
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
        """Sums of all sets that begin with each variable and have at most limits[that variable] members."""
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
