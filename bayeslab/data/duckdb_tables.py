"""CSV and Parquet files larger than memory, read by DuckDB, which moves to disk what memory does not hold.

Needs the extra ``bayeslab[duckdb]``.
"""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from bayeslab.data.cells import MISSING_WORDS
from bayeslab.data.tables import header_of
from bayeslab.errors import DataError, listed
from bayeslab.files import memory_size

__all__ = ["DuckTable", "quoted"]

# Memory of DuckDB in bytes; it keeps the rest of its work in a temporary folder. More saves little time.
_MEMORY = 2 << 30
_TEXT_FILES = (".csv", ".tsv", ".txt")


def quoted(name: str) -> str:
    """A name of a column in SQL.

    >>> quoted('a "b"')
    '"a ""b\"""'
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in SQL.

    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, eq=False)
class DuckTable:
    """One table in files, which stay on disk.

    Attributes
    ----------
    where : str
        The path or the pattern of paths.
    connection : duckdb.DuckDBPyConnection
    rows : str
        The rows in SQL, to stand after FROM.
    types : dict of str to str
        DuckDB's types of the columns; VARCHAR for all columns of text files.
    files : tuple of str
    """

    where: str
    connection: Any
    rows: str
    types: dict[str, str]
    files: tuple[str, ...]

    @classmethod
    def open(cls, source: str | os.PathLike[str], *, missing_words: bool = True) -> DuckTable:
        """Open files; of Parquet files no rows are read, of text files the headers.

        Parameters
        ----------
        source
            A CSV or Parquet file, or a pattern such as ``data/*.parquet``.
        missing_words
            Whether DuckDB reads words such as NA in text files as missing cells; otherwise they are words.

        Raises
        ------
        DataError
            DuckDB is not installed, no file has this name, or files do not have the same columns.
        """
        try:
            import duckdb
        except ImportError:
            raise DataError(
                "tables larger than memory are read by DuckDB: pip install 'bayeslab[duckdb]'", code="not-installed"
            ) from None
        where = os.fspath(source)
        files = tuple(sorted(glob.glob(where))) or ((where,) if Path(where).exists() else ())
        if not files:
            pattern = "no file has a name of this pattern" if glob.has_magic(where) else "no such file"
            folder = Path(where).parent
            near = sorted(p.name for p in folder.glob("*")) if folder.is_dir() else []
            raise DataError(
                f"{pattern}{'; there are ' + ', '.join(near[:6]) if near else ''}", where=where, code="no-such-file"
            )
        kinds = {Path(file).suffix.lower() for file in files}
        if len(kinds) > 1 or not kinds <= {".parquet", *_TEXT_FILES}:
            raise DataError(
                f"DuckDB reads .parquet, or .csv and .tsv files, all of one kind; given: {listed(sorted(kinds))}",
                where=where,
                code="unknown-format",
            )
        # DuckDB makes this folder when memory is short, and removes it.
        spill = os.path.join(tempfile.gettempdir(), f"bayeslab-{uuid4().hex}")
        limit = min(_MEMORY, memory_size() // 2) >> 20
        connection = duckdb.connect(
            config={"temp_directory": spill, "memory_limit": f"{limit}MiB", "preserve_insertion_order": "false"}
        )
        paths = ", ".join(map(literal, files))
        if kinds == {".parquet"}:
            rows = f"read_parquet([{paths}], union_by_name = true)"
        else:
            rows = f"read_csv([{paths}]{_text_options(files, where, missing_words)})"
        table = cls(where, connection, rows, {}, files)
        with table.errors():
            for name, kind, *_ in connection.execute(f"DESCRIBE SELECT * FROM {rows}").fetchall():
                table.types[name] = kind
            if len(files) > 1 and kinds == {".parquet"}:
                table._check_alike(paths)
        return table

    @contextmanager
    def errors(self) -> Iterator[None]:
        """A context in which DuckDB's errors become those of the data."""
        import duckdb

        try:
            yield
        except duckdb.Error as error:
            why = str(error).splitlines()[0]
            if "sniffing" in why:
                why = "the rows do not all have as many cells as the header, or quotes are not closed"
            raise DataError(f"DuckDB cannot read it: {why}", where=self.where, code="unreadable") from None

    def _check_alike(self, paths: str) -> None:
        """Refuse Parquet files with other columns than the first one has, or with text where it has numbers."""
        query = f"SELECT file_name, name, type, num_children, converted_type FROM parquet_schema([{paths}])"
        kinds: dict[str, dict[str, str]] = {file: {} for file in self.files}
        for file, name, kind, children, _ in self.connection.execute(query).fetchall():
            if not children and kind is not None:
                kinds[file][name] = "text" if kind == "BYTE_ARRAY" else "numbers"
        first = self.files[0]
        for file in self.files[1:]:
            for name in {**kinds[first], **kinds[file]}:
                here, there = kinds[file].get(name), kinds[first].get(name)
                if here is None or there is None:
                    with_it, without = (file, first) if there is None else (first, file)
                    raise DataError(
                        f"{Path(without).name} has no column '{name}', which {Path(with_it).name} has: files of one"
                        " table have the same columns",
                        where=self.where,
                        code="unknown-column",
                    )
                if here != there:
                    raise DataError(
                        f"column '{name}' holds {there} in {Path(first).name} and {here} in {Path(file).name}: make"
                        " them one kind",
                        where=self.where,
                        code="other-kind",
                    )

    def fetch(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query's result."""
        with self.errors():
            rows: list[tuple[Any, ...]] = self.connection.execute(query).fetchall()
        return rows

    def count(self) -> int:
        """The number of rows."""
        return int(self.fetch(f"SELECT COUNT(*) FROM {self.rows}")[0][0])


def _text_options(files: Sequence[str], where: str, missing_words: bool) -> str:
    """How to read text files: as other tables are read, since DuckDB's guess may leave out lines or join columns.

    Raises
    ------
    DataError
        A header is not that of a table, or not that of the first file.
    """
    separator, names = header_of(Path(files[0]))
    for file in files[1:]:
        if header_of(Path(file)) != (separator, names):
            raise DataError(
                f"{Path(file).name} does not have the header of {Path(files[0]).name}: files of one table have the"
                " same columns in the same order",
                where=where,
                code="unknown-column",
            )
    words = ", ".join(map(literal, sorted({"", *(MISSING_WORDS if missing_words else ())})))
    return (
        f", all_varchar = true, header = true, delim = '{separator}', quote = '\"', escape = '\"', comment = ''"
        f", nullstr = [{words}], skip = 0, strict_mode = true, null_padding = false"
    )
