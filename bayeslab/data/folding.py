"""Rows of a table larger than memory, folded to rows with counts.

A model that sees rows only through sums of their log likelihoods needs of identical rows one, and how many there are:
DuckDB groups them. The likelihood of a linear model with normal errors needs even less of a column that enters it
linearly: means and covariances, within each combination of the other columns. There a few rows with equal counts stand
for all rows, k + 1 for k columns: the corners of a simplex about the means, which has exactly these covariances. So
every formula, prior and engine works on the folded rows as on any others, and gives the posterior of all rows.

Covariances are those of numbers measured from their approximate means, and are updated row by row [1]_, so that no
digits are lost where numbers are large relative to their spread.

References
----------
.. [1] Chan, Golub, LeVeque (1983). Algorithms for computing the sample variance. The American Statistician 37.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np

from bayeslab.data.binding import bind
from bayeslab.data.cells import Cells
from bayeslab.data.dataset import Dataset
from bayeslab.data.duckdb_tables import DuckTable, literal, quoted
from bayeslab.data.frames import frame_columns
from bayeslab.data.tables import cells_if_usable, read_dataset
from bayeslab.errors import BayeslabError, DataError, ModelError, hint, listed
from bayeslab.language.expressions import parse
from bayeslab.language.spec import Folding, Model, plain_name

__all__ = ["read_model_data"]

# Folded rows beyond which memory would no longer be small.
_MOST_ROWS = 4_000_000
# Rows in a sample.
_SAMPLE = 20_000
# Rows in a batch whose computed columns are evaluated.
_BATCH = 1 << 17
# DuckDB's types of numbers; decimals are DECIMAL(p, s).
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL")


def read_model_data(model: Model, folder: Path | None, given: Any = None) -> Dataset:
    """The data of a model; with ``streamed`` those of a table in files are folded to rows with counts.

    Parameters
    ----------
    model, folder, given
        As for :func:`bayeslab.data.tables.read_dataset`.

    Raises
    ------
    DataError
        The model needs every row, or its rows fold to too many.
    """
    source, levels = model.data, model.declared()
    path = given if isinstance(given, str | os.PathLike) else source.table if given is None else None
    if not source.streamed or path is None:
        return read_dataset(source, folder, given, levels)
    rest = source.model_copy(update={"table": None, "rename": {}})
    folded = _Fold(model, (folder or Path()) / path if given is None else Path(path)).dataset()
    return read_dataset(rest, folder, None, levels).joined(folded) if source.tables or source.arrays else folded


@dataclass(frozen=True, eq=False)
class _Fold:
    """The columns of a table that a model uses, by the names that the model has for them."""

    model: Model
    path: Path

    @cached_property
    def table(self) -> DuckTable:
        return DuckTable.open(self.path, missing_words=False)

    @cached_property
    def cells(self) -> Cells:
        return Cells.of(self.model.data, self.model.declared())

    @cached_property
    def text_files(self) -> bool:
        return not self.table.files[0].lower().endswith(".parquet")

    @cached_property
    def columns(self) -> dict[str, str]:
        """The name of each column in the files, by its name in the model."""
        composed = {normalize("NFC", name): name for name in self.table.types}
        renamed = dict[str, str]()
        for new, given in self.model.data.rename.items():
            old = composed.get(normalize("NFC", given))
            if old is None:
                raise DataError(
                    f"the data have no column '{given}'{hint(given, self.table.types)}",
                    path=("data", "rename", new),
                    code="unknown-column",
                )
            renamed[new] = old
        out = dict[str, str]()
        for raw in self.table.types:
            if raw in renamed.values():
                continue
            name = raw if self.model.model.any_names else plain_name(raw)
            if name in out or name in renamed:
                raise DataError(
                    f"the columns '{out.get(name, renamed.get(name))}' and '{raw}' are both called '{name}': give one"
                    " another name under data.rename",
                    where=self.table.where,
                    code="duplicate",
                )
            out[name] = raw
        return out | renamed

    @cached_property
    def derived(self) -> dict[str, set[str]]:
        """The columns of the files that each computed column uses."""
        direct = {}
        for name, text in self.model.data.derive.items():
            try:
                direct[name] = set(parse(text).names)
            except ModelError as error:
                place = ("data", "derive", name)
                raise ModelError(error.message, path=place, offset=error.offset, code=error.code) from None

        def base(name: str, above: tuple[str, ...] = ()) -> set[str]:
            if name in self.columns or name not in direct or name in above:
                return {name} & self.columns.keys()
            return {column for each in direct[name] for column in base(each, (*above, name))}

        return {name: base(name) for name in direct if name not in self.columns}

    def dataset(self) -> Dataset:
        """The folded rows."""
        columns = self.columns.keys() | self.derived.keys()
        with self.table.errors():
            numbers = self._numbers(columns)
            folding = self._folding(numbers)
            for name in sorted((folding.distinct | folding.summed | folding.sampled) - columns):
                raise DataError(
                    f"the table has no column '{name}'{hint(name, columns)}",
                    where=self.table.where,
                    code="unknown-column",
                )
            distinct = {column for name in folding.distinct for column in self.derived.get(name, {name})}
            groups, summed = sorted(distinct), sorted(folding.summed)
            if folding.sampled:
                return self._sampled(sorted(folding.sampled), numbers)
            if folding.chain and distinct == folding.distinct:
                made = self._chained(folding)
            else:
                self._check_number(groups, len(summed), folding)
                made = self._moments(groups, summed, numbers) if summed else self._counted(groups)
        return self._assembled(groups, *made)

    def _folding(self, numbers: set[str]) -> Folding:
        folding = self.model.model.folding(self.columns.keys() | self.derived.keys(), numbers)
        if isinstance(folding, Folding):
            return folding
        n_rows = self.table.count()
        raise DataError(
            f"{folding}, of which the table has {n_rows:,}: without data.streamed they are read into memory, about"
            f" {8 * n_rows * len(self.columns) / 2**30:.2g} GiB for all {len(self.columns)} columns",
            path=("data", "streamed"),
            code=folding.code,
        )

    def _numbers(self, columns: set[str]) -> set[str]:
        """The columns of numbers, computed ones too."""
        numbers = {
            name
            for name, raw in self.columns.items()
            if not self.cells.is_text(raw) and (self.text_files or self.table.types[raw].startswith(_NUMBERS))
        }
        numbers |= columns - self.columns.keys()
        if not self.text_files:
            return numbers
        # A column of a text file is one of numbers if all of its cells are.
        wanted = self._folding(numbers)
        named = wanted.summed | wanted.distinct | wanted.sampled
        used = {c for name in named for c in self.derived.get(name, {name})}
        asked = sorted(used & numbers & self.columns.keys())
        if not asked:
            return numbers
        counts = ", ".join(f"COUNT(*) FILTER (WHERE {self._is_word(self.columns[name])})" for name in asked)
        words = self.table.fetch(f"SELECT {counts} FROM {self.table.rows}")[0]
        return numbers - {name for name, count in zip(asked, words, strict=True) if count}

    def _is_word(self, raw: str) -> str:
        """Whether a cell of a text file is neither missing nor a number, in SQL."""
        cell = f"trim({quoted(raw)})"
        missing = ", ".join(map(literal, sorted(self.cells.missing(raw))))
        code = rf"regexp_full_match({cell}, '0\d+|.*_.*')"
        return f"{cell} NOT IN ({missing}) AND (TRY_CAST({cell} AS DOUBLE) IS NULL OR {code})"

    def _number(self, raw: str) -> str:
        """A column as doubles, NULL where missing, in SQL."""
        cell = f"TRY_CAST({quoted(raw)} AS DOUBLE)"
        out = {number for x in self.cells.numbers(raw).values() for number in (x, float(np.float32(x)))}
        sentinels = f" OR {cell} IN ({', '.join(map(_sql, sorted(out)))})" if out else ""
        return f"CASE WHEN isnan({cell}){sentinels} THEN NULL ELSE {cell} END"

    def _check_number(self, groups: Sequence[str], n_summed: int, folding: Folding, condition: str = "TRUE") -> None:
        """Refuse rows that fold to too many, before the work."""
        if not groups or self.table.count() * (n_summed + 1) <= _MOST_ROWS:
            return
        names, rows = ", ".join(quoted(self.columns[name]) for name in groups), f"{self.table.rows} WHERE {condition}"
        about = int(self.table.fetch(f"SELECT approx_count_distinct(hash({names})) FROM {rows}")[0][0])
        if about * (n_summed + 1) > 1.1 * _MOST_ROWS:
            each = [f"{quoted(self.columns[name])}" for name in groups]
            counts = self.table.fetch(
                f"SELECT {', '.join(f'approx_count_distinct({name})' for name in each)} FROM {rows}"
            )[0]
            most = groups[int(np.argmax(counts))]
            raise DataError(
                f"the rows have about {about:,} different values of {listed(groups)}, '{most}' alone about"
                f" {max(counts):,}, and at most {_MOST_ROWS // (n_summed + 1):,} are held in memory: {folding.advice}",
                path=("data", "streamed"),
                code="too-costly",
            )

    def _counted(self, groups: Sequence[str], condition: str = "TRUE") -> tuple[Any, dict[str, np.ndarray], np.ndarray]:
        """The distinct rows as an Arrow table, no further columns, and counts."""
        names = "".join(f"{quoted(self.columns[name])} AS c{i}, " for i, name in enumerate(groups))
        grouped_rows = self.table.connection.sql(
            f"SELECT {names}COUNT(*)::DOUBLE AS n FROM {self.table.rows} WHERE {condition} GROUP BY ALL ORDER BY ALL"
        ).to_arrow_table()
        return self._named(grouped_rows, groups), {}, grouped_rows.column("n").to_numpy()

    def _chained(self, folding: Folding) -> tuple[Any, dict[str, np.ndarray], np.ndarray]:
        """Complete rows with the counts of the folding's chain, and the distinct incomplete rows."""
        import pyarrow as pa

        groups = sorted(folding.distinct)
        gone = " OR ".join(f"({self._lacking(self.columns[name])})" for name in groups)
        incomplete = f"coalesce({gone}, TRUE)"
        n_gone = int(self.table.fetch(f"SELECT COUNT(*) FROM {self.table.rows} WHERE {incomplete}")[0][0])
        levels: dict[str, dict[Any, int]] = {name: {} for name in groups}
        codes, counts = dict[str, np.ndarray](), np.array([self.table.count() - n_gone], dtype=np.int64)
        complete = f"NOT {incomplete}" if n_gone else "TRUE"
        for name, before in folding.chain:
            grouped_rows, _, n = self._counted([*before, name], complete)
            more = {}
            for each in (*before, name):
                known = levels[each]
                cells = grouped_rows.column(self.columns[each]).to_pylist()
                more[each] = np.array([known.setdefault(cell, len(known)) for cell in cells], dtype=np.int64)
            codes, counts = _divided(codes, counts, more, n.astype(np.int64), before, name)
        types = {field.name: field.type for field in self._schema(groups)}
        values = {name: pa.array(list(levels[name]), types[self.columns[name]]) for name in groups}
        kept = pa.table({self.columns[name]: values[name].take(pa.array(codes[name])) for name in groups})
        if n_gone:
            self._check_number(groups, 0, folding, incomplete)
            rest, _, n = self._counted(groups, incomplete)
            return pa.concat_tables([kept, rest]), {}, np.concatenate([counts, n])
        return kept, {}, counts.astype(float)

    def _schema(self, groups: Sequence[str]) -> Any:
        """The Arrow types of columns."""
        return self._counted(groups, "FALSE")[0].schema

    def _lacking(self, raw: str) -> str:
        """Whether a cell is missing, in SQL."""
        kind, empty = self.table.types[raw], f"{quoted(raw)} IS NULL"
        if kind.startswith(_NUMBERS) and not self.cells.is_text(raw):
            # Most columns of states are whole numbers, which need no conversion to find no missing one.
            whole = "INT" in kind and not self.cells.numbers(raw)
            return empty if whole else f"({self._number(raw)}) IS NULL"
        words = ", ".join(map(literal, sorted(self.cells.missing(raw))))
        return f"{empty} OR trim({quoted(raw)}::VARCHAR) IN ({words})"

    def _named(self, grouped_rows: Any, groups: Sequence[str]) -> Any:
        """The columns c0, c1, ... of an Arrow table, by their names in the files."""
        kept = grouped_rows.select([f"c{i}" for i in range(len(groups))])
        return kept.rename_columns([self.columns[name] for name in groups])

    def _moments(
        self, groups: Sequence[str], summed: Sequence[str], numbers: set[str]
    ) -> tuple[Any, dict[str, np.ndarray], np.ndarray]:
        """The distinct groups as an Arrow table, the summed columns, and counts, one for each folded row."""
        k, connection = len(summed), self.table.connection
        each, cells = [f"s{i}" for i in range(k)], "".join(f"c{i}, " for i in range(len(groups)))
        view = self._view(groups, summed, numbers)
        with view() as rows:
            total = ", ".join(f"AVG({s}), MIN({s}), MAX({s})" for s in each)
            (first,) = connection.execute(f"SELECT {total} FROM {rows}").fetchall()
        shifts = []
        for name, (mean, low, high) in zip(summed, np.array(first, dtype=object).reshape(k, 3), strict=True):
            if low is not None and not (np.isfinite(low) and np.isfinite(high)):
                raise DataError(f"column '{name}' has an infinite cell", where=self.table.where, code="not-finite")
            shifts.append(0.0 if mean is None or not np.isfinite(mean) else float(mean))
        moved = [f"({s} - {_sql(shift)})" for s, shift in zip(each, shifts, strict=True)]
        pairs = list(combinations_with_replacement(range(k), 2))
        sums = [f"favg({x}) AS m{i}" for i, x in enumerate(moved)]
        sums += [f"covar_pop({moved[i]}, {moved[j]}) AS v{i}_{j}" for i, j in pairs]
        complete = " AND ".join(f"{s} IS NOT NULL" for s in each)
        grouped = "GROUP BY ALL ORDER BY ALL" if groups else "HAVING COUNT(*) > 0"
        with view() as rows:
            grouped_rows = connection.sql(
                f"SELECT {cells}COUNT(*)::DOUBLE AS n, {', '.join(sums)} FROM {rows} WHERE {complete} {grouped}"
            ).to_arrow_table()
        with view() as rows:
            gone = ", ".join(f"({s} IS NULL) AS g{i}" for i, s in enumerate(each))
            lacking = connection.execute(
                f"SELECT {gone}, COUNT(*)::DOUBLE FROM {rows} WHERE NOT ({complete}) GROUP BY ALL ORDER BY ALL"
            ).fetchall()
        counts = grouped_rows.column("n").to_numpy()
        means = np.array([grouped_rows.column(f"m{i}").to_numpy() for i in range(k)]).T.reshape(-1, k)
        covariances = np.zeros((len(counts), k, k))
        for i, j in pairs:
            covariances[:, i, j] = covariances[:, j, i] = grouped_rows.column(f"v{i}_{j}").to_numpy()
        at, points, shares = _corners(counts, means, covariances)
        points += np.array(shifts)
        if lacking:
            # Rows without a cell stand for themselves, so that the model sees how many it loses, and to which column.
            missing = np.array([row[:k] for row in lacking], bool)
            points = np.concatenate([points, np.where(missing, np.nan, np.array(shifts))])
            shares = np.concatenate([shares, [row[k] for row in lacking]])
            at = np.concatenate([at, np.full(len(lacking), self._complete_group(groups, grouped_rows))])
        kept = self._named(grouped_rows, groups)
        if groups and len(counts):
            kept = kept.take(at)
        return kept, dict(zip(summed, points.T, strict=True)), shares

    def _complete_group(self, groups: Sequence[str], grouped_rows: Any) -> int:
        """The first group without a missing cell; 0 if there is none."""
        gone = []
        for name in groups:
            raw = self.columns[name]
            gone.append({None, *self.cells.missing(raw), *self.cells.numbers(raw).values()})
        cells = zip(*(grouped_rows.column(f"c{i}").to_pylist() for i in range(len(groups))), strict=True)
        return next((i for i, row in enumerate(cells) if not any(map(operator.contains, gone, row))), 0)

    def _sampled(self, names: Sequence[str], numbers: set[str]) -> Dataset:
        """A sample of rows, each of which stands for equally many, and all rows as a stream."""
        for name in names:
            if name not in numbers or name not in self.columns:
                raise DataError(
                    f"column '{name}' is {'computed' if name in self.derived else 'text'}, and rows that are read in"
                    " batches have columns of numbers: write it into the table",
                    where=self.table.where,
                    code="unsupported",
                )
        taken = ", ".join(f"{self._number(self.columns[name])} AS s{i}" for i, name in enumerate(names))
        there = " OR ".join(f"s{i} IS NOT NULL" for i in range(len(names)))
        query = f"(SELECT {taken} FROM {self.table.rows})"
        total = self.table.fetch(f"SELECT COUNT(*) FROM {query} WHERE {there}")[0][0]
        # With several threads the sample would depend on which is first.
        self.table.connection.execute("SET threads = 1")
        grouped_rows = self.table.connection.sql(
            f"SELECT * FROM (SELECT * FROM {query} WHERE {there}) USING SAMPLE reservoir({_SAMPLE} ROWS) REPEATABLE (1)"
        ).to_arrow_table()
        columns = {name: grouped_rows.column(f"s{i}").to_numpy() for i, name in enumerate(names)}
        held = self._assembled([], None, columns, np.full(len(grouped_rows), total / max(len(grouped_rows), 1)))
        stream = FileRows(self.table.where, f"SELECT * FROM {query} WHERE {there}", tuple(names))
        return replace(held, stream=stream)

    def _view(self, groups: Sequence[str], summed: Sequence[str], numbers: set[str]) -> Callable[[], _Rows]:
        """The rows in SQL: the groups are c0, c1, ..., the summed columns are s0, s1, ... ."""
        if set(summed) & self.derived.keys():
            return lambda: self._batches(groups, summed, numbers)
        taken = [f"{quoted(self.columns[name])} AS c{i}" for i, name in enumerate(groups)]
        taken += [f"{self._number(self.columns[name])} AS s{i}" for i, name in enumerate(summed)]
        query = f"(SELECT {', '.join(taken)} FROM {self.table.rows})"
        return lambda: _Rows(self.table.connection, query)

    def _batches(self, groups: Sequence[str], summed: Sequence[str], numbers: set[str]) -> _Rows:
        """The rows as Arrow batches in which computed columns are evaluated."""
        import pyarrow as pa

        base = sorted({c for name in summed for c in self.derived.get(name, {name})})
        taken = [f"{quoted(self.columns[name])} AS c{i}" for i, name in enumerate(groups)]
        for i, name in enumerate(base):
            raw = self.columns[name]
            taken.append(f"{self._number(raw) if name in numbers else quoted(raw)} AS b{i}")
        cursor = self.table.connection.cursor()
        reader = cursor.sql(f"SELECT {', '.join(taken)} FROM {self.table.rows}").to_arrow_reader(_BATCH)
        kept = [reader.schema.field(f"c{i}") for i in range(len(groups))]
        schema = pa.schema([*kept, *(pa.field(f"s{i}", pa.float64()) for i in range(len(summed)))])

        failures = list[BayeslabError]()

        def batches() -> Iterator[Any]:
            for batch in reader:
                whole = pa.Table.from_batches([batch]).select([f"b{i}" for i in range(len(base))])
                given = frame_columns(whole.rename_columns([self.columns[name] for name in base]))
                try:
                    values = self._evaluated(given, summed, len(batch)) if len(batch) else [np.zeros(0)] * len(summed)
                except BayeslabError as error:
                    failures.append(error)
                    raise
                computed = [pa.array(v, pa.float64(), from_pandas=True) for v in values]
                yield pa.RecordBatch.from_arrays([*batch.columns[: len(groups)], *computed], schema=schema)

        registered = pa.RecordBatchReader.from_batches(schema, batches())
        return _Rows(self.table.connection, "computed_rows", registered, failures)

    def _evaluated(self, given: Mapping[str, Any], names: Sequence[str], n: int) -> list[np.ndarray]:
        """Columns of a batch, given and computed, NaN where a cell is missing."""
        read = Dataset.from_table(given, self.model.data.rows, what=self.table.where, cells=self.cells)
        data = bind(self.model, read.renamed(self._renamed(given)), ())
        out = []
        for name in names:
            term = data.term(name, missing=True)
            if term.value is None:
                raise DataError(f"column '{name}' holds text where numbers are needed", code="not-numbers")
            out.append(np.broadcast_to(np.asarray(term.value, float), n))
        if data.frozen:
            raise DataError(
                f"data.derive has {listed(sorted(data.frozen))}, of all rows, and rows are streamed: write the number,"
                " or leave out data.streamed",
                path=("data", "derive"),
                code="unsupported",
            )
        return out

    def _renamed(self, raws: Iterable[str]) -> dict[str, str]:
        there = set(raws)
        return {new: self.columns[new] for new in self.model.data.rename if self.columns[new] in there}

    def _assembled(
        self, groups: Sequence[str], kept: Any, numbers: Mapping[str, np.ndarray], counts: np.ndarray
    ) -> Dataset:
        """The dataset of the folded rows."""
        if not len(counts):
            raise DataError("the table has no rows", where=self.table.where, code="no-rows")
        raws = [self.columns[name] for name in groups]
        columns: dict[str, Any] = {}
        if self.text_files:
            for raw in raws:
                cells = np.array(["" if cell is None else cell for cell in kept.column(raw).to_pylist()])
                what = f"{self.table.where}: column '{raw}'"
                columns[raw] = cells_if_usable(raw, cells, what, self.cells, commas=False)
        elif raws:
            columns = frame_columns(kept) | _categories(self.table, kept, raws)
        columns |= {self.columns.get(name, name): values for name, values in numbers.items()}
        source = self.model.data
        read = Dataset.from_table(columns, source.rows, what=self.table.where, cells=self.cells)
        return replace(read.renamed(self._renamed(columns)), rows=source.rows, counts=counts)


@dataclass(frozen=True)
class FileRows:
    """The rows of files, read in batches."""

    where: str
    query: str
    columns: tuple[str, ...]

    def batches(self) -> Iterator[np.ndarray]:
        """Yield arrays (n, columns), NaN where a cell is missing."""
        table = DuckTable.open(self.where, missing_words=False)
        with table.errors():
            for batch in table.connection.sql(self.query).to_arrow_reader(_BATCH):
                if len(batch):
                    yield np.column_stack([column.to_numpy(zero_copy_only=False) for column in batch.columns])


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows in SQL; those that Python computes are registered while they are read, and can be read once.

    DuckDB reports errors of the reader as its own. The context raises those that the reader collects instead.
    """

    connection: Any
    text: str
    reader: Any = None
    failures: Sequence[BayeslabError] = ()

    def __enter__(self) -> str:
        if self.reader is not None:
            self.connection.register(self.text, self.reader)
        return self.text

    def __exit__(self, *error: object) -> None:
        if self.reader is not None:
            self.connection.unregister(self.text)
        if self.failures:
            raise self.failures[0] from None


def _sql(number: float) -> str:
    """A number in SQL, exactly."""
    return f"{float(number)!r}::DOUBLE"


def _divided(
    codes: Mapping[str, np.ndarray],
    counts: np.ndarray,
    more: Mapping[str, np.ndarray],
    n: np.ndarray,
    before: Sequence[str],
    name: str,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Rows divided among the values of one more column, so that it has the right counts with some earlier columns.

    Rows and counts are both sorted by the earlier columns. Within each of their combinations both have the same total,
    and so the cumulative counts of both together are the ends of the divided rows.

    Parameters
    ----------
    codes, counts
        The rows so far.
    more, n
        The earlier columns ``before`` and the column ``name``, with the counts of their combinations.
    """
    rows = np.lexsort([codes[each] for each in before[::-1]]) if before else np.arange(len(counts))
    cells = np.lexsort([more[each] for each in (name, *before[::-1])])
    ends, others = np.cumsum(counts[rows]), np.cumsum(n[cells])
    every = np.union1d(ends, others)
    row, cell = rows[np.searchsorted(ends, every)], cells[np.searchsorted(others, every)]
    divided = {each: values[row] for each, values in codes.items()} | {name: more[name][cell]}
    return divided, np.diff(every, prepend=0)


def _corners(
    counts: np.ndarray, means: np.ndarray, covariances: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows with the means and covariances of each group: their groups, values (rows, k) and counts.

    Parameters
    ----------
    counts : ndarray (G,)
    means : ndarray (G, k)
    covariances : ndarray (G, k, k)
        With denominator n.
    """
    k = means.shape[1]
    sd = np.sqrt(np.maximum(np.diagonal(covariances, axis1=1, axis2=2), 0.0))
    unit = np.where(sd > 0, sd, 1.0)
    values, vectors = np.linalg.eigh(covariances / (unit[:, :, None] * unit[:, None, :]))
    roots = unit[:, :, None] * vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    # Orthonormal columns that sum to zero: the corners of a regular simplex.
    simplex = np.linalg.qr(np.column_stack([np.ones(k + 1), np.eye(k + 1)[:, :k]]))[0][:, 1:]
    apart = np.sqrt(k + 1.0) * np.einsum("gij,cj->gci", roots, simplex)
    several = (sd > 0).any(axis=1)
    repeats = np.where(several, k + 1, 1)
    at = np.repeat(np.arange(len(counts)), repeats)
    corner = np.concatenate([np.arange(r) for r in repeats]) if len(repeats) else np.zeros(0, int)
    points = means[at] + np.where(several[at, None], apart[at, corner], 0.0)
    return at, points, (counts / repeats)[at]


def _categories(table: DuckTable, kept: Any, raws: Sequence[str]) -> dict[str, Any]:
    """Columns that are categories in Parquet files, with the order of their categories."""
    import pandas as pd
    import pyarrow.parquet as parquet
    from pyarrow import types

    schema = parquet.read_schema(table.files[0])
    of_pandas = {e.get("name"): e.get("pandas_type") for e in (schema.pandas_metadata or {}).get("columns", ())}
    out: dict[str, Any] = {}
    for raw in raws:
        kind, cells = schema.field(raw).type, kept.column(raw)
        if types.is_dictionary(kind):
            batch = next(parquet.ParquetFile(table.files[0]).iter_batches(batch_size=1, columns=[raw]), None)
            if batch is None:
                continue
            dtype, words = batch.column(0).to_pandas().dtype, cells.to_pylist()
            strange = set(words) - {None} - set(dtype.categories)
            if strange:
                raise DataError(
                    f"column '{raw}' holds '{min(map(str, strange))}', which is none of the categories of"
                    f" {Path(table.files[0]).name}: give all files the same categories",
                    where=table.where,
                    code="unknown-level",
                )
            out[raw] = pd.Series(pd.Categorical(words, dtype=dtype))
        elif of_pandas.get(raw) == "categorical":
            out[raw] = pd.Series(pd.Categorical(cells.to_pandas(integer_object_nulls=True)))
    return out
