"""Reading tables and arrays into a :class:`~bayeslab.data.dataset.Dataset`.

A text file has no types, so cells are read as text; a column is numeric if every observed cell is a number, else text.
Missing are empty cells, ``NA``, ``N/A``, ``NaN`` and ``null``, and the words that the data section adds, except words
that the model declares as levels. Codes with leading zeros are text.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from bayeslab.data.cells import (
    LARGEST_EXACT,
    MISSING_WORDS,
    Cells,
    UnusableColumn,
    as_text,
    check_exact,
    number_in,
    whole_numbers,
)
from bayeslab.data.dataset import Dataset
from bayeslab.data.frames import frame_columns
from bayeslab.errors import DataError, listed, printable
from bayeslab.files import is_there, memory_size, ordinary_size, replacing, shown
from bayeslab.language.spec import DataSource

__all__ = ["cells_if_usable", "header_of", "read_dataset", "write_netcdf", "write_table"]

_TABLES = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
# Possible separators of cells, and the number of lines from which the separator is detected.
_SEPARATORS = {",": "','", ";": "';'", "\t": "tabs"}
_SNIFFED = 20
# A number with a decimal point or comma.
_NUMBER = re.compile(r"[+\u2212-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+\u2212-]?[1-9]\d{0,2}\.\d{3}")
# Control characters other than tabs and line ends: text arrays would drop a NUL, terminals would interpret others.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
# Peak memory in bytes per byte of a text with short cells.
_SWELLS = 20
# Maximum length of a line; maximum number of digits of an integer, whose conversion takes quadratic time.
_MOST_LINE, _MOST_DIGITS = 1 << 26, 400


def read_dataset(
    source: DataSource,
    folder: Path | None,
    given: Any = None,
    levels: Mapping[str, frozenset[str]] | None = None,
) -> Dataset:
    """The data of a model: those given, else those its file names.

    Parameters
    ----------
    source
        The model's ``data`` section.
    folder
        The folder that relative paths start from; None: the working directory.
    given
        A dataframe, a mapping of arrays (or of dataframes, one per dimension), a path, or a Dataset.
    levels
        Levels that the model declares, by column (:meth:`~bayeslab.language.spec.Model.declared`).
    """
    if isinstance(given, Dataset):
        return given
    base, cells = folder or Path(), Cells.of(source, levels)
    dataset = Dataset(rows=source.rows)
    if not (isinstance(given, Mapping) and all(dim in given for dim in source.tables)):
        for dim, path in source.tables.items():
            if given is None or is_there(base / path):
                dataset = dataset.joined(_table(base / path, dim, path, cells))
    if given is not None:
        return _read(dataset.joined(_read_given(given, source, cells)).renamed(source.rename), cells)
    if source.table is not None:
        dataset = dataset.joined(_table(base / source.table, source.rows, source.table, cells))
    if source.arrays is not None:
        dataset = dataset.joined(_read_arrays(base / source.arrays, source, cells))
    whole = source.table is not None or source.arrays is not None
    return _read(replace(dataset, rows=source.rows).renamed(source.rename, complete=whole), cells)


def _read(dataset: Dataset, cells: Cells) -> Dataset:
    """The dataset, with the entries of the data section that match none of its columns."""
    names = dataset.columns.keys() | dataset.levels.keys() | dataset.left_out.keys()
    return replace(dataset, unused=cells.unused(names)) if names else dataset


def _table(path: Path, rows: str, what: str, cells: Cells) -> Dataset:
    columns, notes, doubts = _read_table(path, cells)
    noted = tuple(f"{what}: {note}" for note in notes)
    read = Dataset.from_table(columns, rows, what=what, notes=noted, cells=cells)
    return replace(read, doubts={name: f"{what}: {doubt}" for name, doubt in doubts.items()})


def _read_given(given: Any, source: DataSource, cells: Cells) -> Dataset:
    if isinstance(given, str | os.PathLike):
        path = Path(given)
        if path.suffix.lower() == ".json":
            return _read_arrays(path, source, cells)
        return _table(path, source.rows, str(given), cells)
    if isinstance(given, Mapping):
        return Dataset.from_columns(given, source, cells=cells)
    return Dataset.from_table(frame_columns(given), source.rows, cells=cells)


def _read_table(path: Path, cells: Cells) -> tuple[dict[str, Any], tuple[str, ...], dict[str, str]]:
    """The columns of a table, notes on assumptions made in reading them, and columns that may mean other numbers."""
    suffix = path.suffix.lower()
    if os.path.isdir(path):
        raise DataError("this is a folder, not a table", where=shown(path), code="not-a-file")
    try:
        size = ordinary_size(path)
    except DataError:
        if os.path.lexists(path) or not os.path.isdir(path.parent) or len(path.name) > 255:
            raise
        near = sorted(p.name for p in path.parent.glob("*"))
        raise DataError(
            f"no such file{'; there are ' + ', '.join(near[:6]) if near else ''}", where=str(path), code="no-such-file"
        ) from None
    if suffix in (*_TABLES, ".json"):
        _fits(size, path)
    if suffix == ".parquet":
        return _read_parquet(path), (), {}
    if suffix == ".json":
        return _read_records(path), (), {}
    if suffix not in _TABLES:
        raise DataError(
            f"unknown kind of table '{suffix}'; there are .csv .tsv .parquet .json",
            where=str(path),
            code="unknown-format",
        )
    return _read_csv(path, _TABLES[suffix], cells)


def _fits(size: int, path: Path) -> None:
    """Refuse a text file whose cells, as objects and arrays, would not fit into memory."""
    if (need := _SWELLS * size) > memory_size():
        raise DataError(
            f"the file has {size / 2**30:.3g} GiB, and reading it would take about {need / 2**30:.3g} GiB of memory,"
            " more than there is; take a part of it, or make a .parquet of the columns you need",
            where=shown(path),
            code="too-costly",
        )


def _lines(stream: TextIO, where: str) -> Iterator[str]:
    """Yield the lines of a text, refusing lines above the maximum length."""
    number = 0
    while line := stream.readline(_MOST_LINE):
        number += 1
        if control := _CONTROL.search(line):
            raise DataError(
                f"a control character, {printable(control[0])} is not allowed in a table; remove it",
                where=f"{where}:{number}:{control.start() + 1}",
                code="not-text",
            )
        if len(line) == _MOST_LINE and not line.endswith("\n"):
            raise DataError(
                f"the line has more than {_MOST_LINE:,} letters; is this a table?",
                where=f"{where}:{number}:1",
                code="malformed",
            )
        yield line


def header_of(path: Path) -> tuple[str, list[str]]:
    """The separator of cells and the names of columns of a CSV or TSV file, of which the first lines alone are read.

    Raises
    ------
    DataError
        There is no header, it names a column twice, or the file is not text.
    """
    where, usual = shown(path), _TABLES.get(path.suffix.lower(), ",")
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            separator = _separator(stream, usual, where)
            stream.seek(0)
            reader = csv.reader(_lines(stream, where), delimiter=separator, strict=True)
            header = [name.strip() for name in next((row for row in reader if any(map(str.strip, row))), [])]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"cannot be read: {error}", where=where, code="unreadable") from None
    if not header:
        raise DataError("the table is empty; its first line names the columns", where=f"{where}:1:1", code="no-rows")
    doubled = [name for name, count in Counter(header).items() if count > 1]
    if doubled:
        raise DataError(f"the column '{doubled[0]}' occurs twice", where=f"{where}:1:1", code="duplicate")
    return separator, header


def _separator(stream: TextIO, usual: str, where: str) -> str:
    """The separator of cells: the usual one, unless the first lines form a table only with another one."""
    lines = [line for line in itertools.islice(_lines(stream, where), _SNIFFED) if line.strip()]
    fitting = [letter for letter in _SEPARATORS if _columns(lines, letter) > 1]
    if not fitting and (other := _other_separator(lines)):
        raise DataError(
            f"the cells seem to be separated by {other}; a table has ',', ';' or tabs between them",
            where=f"{where}:1:1",
            code="malformed",
        )
    return fitting[0] if len(fitting) == 1 else usual


def _other_separator(lines: list[str]) -> str | None:
    """Another separator with which these lines form a table, or None."""
    if _columns(lines, "|") > 1:
        return "'|'"
    rows = [line.split() for line in lines]
    apart = len(rows) > 1 and len(rows[0]) > 1 and {len(row) for row in rows} == {len(rows[0])}
    numbers = all(number_in(word) is not None or word in MISSING_WORDS for row in rows[1:] for word in row)
    return "blanks" if apart and numbers else None


def _columns(lines: list[str], separator: str) -> int:
    """The number of columns of lines with a separator; 0 if lines have different numbers of cells."""
    try:
        lengths = {len(row) for row in csv.reader(lines, delimiter=separator, strict=True)}
    except csv.Error:  # such as quotes that are not closed within these lines
        return 0
    return lengths.pop() if len(lengths) == 1 else 0


def _read_csv(path: Path, usual: str, cells: Cells) -> tuple[dict[str, Any], tuple[str, ...], dict[str, str]]:
    where = shown(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            separator = _separator(stream, usual, where)
            stream.seek(0)
            reader = csv.reader(_lines(stream, where), delimiter=separator, strict=True)
            first = next((row for row in reader if len(row) > 1 or any(map(str.strip, row))), [])
            header = [name.strip() for name in first]
            if not any(header):
                raise DataError(
                    "the table is empty; its first line names the columns", where=f"{where}:1:1", code="no-rows"
                )
            top = reader.line_num
            doubled = [name for name, count in Counter(header).items() if count > 1]
            if doubled:
                raise DataError(f"the column '{doubled[0]}' occurs twice", where=f"{where}:{top}:1", code="duplicate")
            rows: list[list[str]] = []
            blank = 0
            for row in reader:
                if not row and len(header) == 1:
                    blank += 1  # a missing cell, if another row comes
                    continue
                rows += [[""]] * blank
                blank = 0
                if len(row) != len(header):
                    if not row:
                        continue
                    more = "more" if len(row) > len(header) else "fewer"
                    raise DataError(
                        f"the row has {len(row)} cells, {more} than the header's {len(header)}",
                        where=f"{where}:{reader.line_num}:1",
                        code="malformed",
                    )
                rows.append(row)
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise DataError(
            f"byte 0x{byte:02x} is not UTF-8; save the table as UTF-8", where=where, code="not-text"
        ) from None
    except csv.Error as error:
        raise DataError(f"not a table: {error}", where=where, code="malformed") from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", where=where, code="unreadable") from None
    if not rows:
        raise DataError("the table has no rows", where=f"{where}:{top}:1", code="no-rows")
    texts = {
        name: as_text(column, f"{where}: column '{name}'")
        for name, column in zip(header, zip(*rows, strict=True), strict=True)
        if name
    }
    commas = _decimal_commas(texts, where, cells) if separator == ";" else set[str]()
    doubts = _thousands(texts, cells) if separator == ";" else {}
    note = "" if separator == usual else f"read with {_SEPARATORS[separator]} between the cells"
    nameless = "the column without a name is left out" if "" in header else ""
    if commas:
        note += f" and decimal commas, in {listed(commas)}"
    return (
        {
            name: cells_if_usable(name, column, f"{where}: column '{name}'", cells, commas=name in commas)
            for name, column in texts.items()
        },
        tuple(filter(None, (note, nameless))),
        doubts,
    )


def _decimal_commas(texts: Mapping[str, np.ndarray], where: str, cells: Cells) -> set[str]:
    """Numeric columns with decimal commas.

    Raises
    ------
    DataError
        Other numbers have a decimal point, so one of the two marks must be a thousands separator.
    """
    present = {
        name: [word for word in np.char.strip(column).tolist() if word not in cells.missing(name)]
        for name, column in texts.items()
        if not cells.is_text(name)
    }
    numbers = {name for name, words in present.items() if words and all(map(_NUMBER.fullmatch, words))}
    commas = {name for name in numbers if any("," in cell for cell in present[name])}
    for name in sorted(numbers) if commas else ():
        for row, cell in enumerate(texts[name].tolist(), start=1):
            if "." in cell and cell.strip() not in cells.missing(name):
                raise DataError(
                    f"{where}: column '{name}', row {row}: '{cell.strip()}' has a point, and column '{min(commas)}'"
                    " commas within numbers; write every number with the same decimal mark, and thousands without one",
                    code="odd-cell",
                )
    return commas


def _thousands(texts: Mapping[str, np.ndarray], cells: Cells) -> dict[str, str]:
    """Columns whose points may separate thousands, as spreadsheets of countries with decimal commas write them: all
    numbers with a point have three digits after it, and none begins with a zero.
    """
    out = {}
    for name, column in texts.items():
        words = [] if cells.is_text(name) else [word for word in np.char.strip(column).tolist() if "." in word]
        if words and all(map(_THOUSANDS.fullmatch, words)):
            read, other = float(words[0].replace("\u2212", "-")), words[0].replace(".", "")
            out[name] = f"column '{name}': {words[0]} is read as {read:g}, not {other}"
    return out


def cells_if_usable(name: str, given: np.ndarray, what: str, cells: Cells, *, commas: bool) -> Any:
    """The values of text cells, or why no model can use them."""
    try:
        return _cells(name, given, what, cells, commas=commas)
    except UnusableColumn as error:
        return error


def _cells(name: str, given: np.ndarray, what: str, cells: Cells, *, commas: bool) -> Any:
    """Text cells as numbers if all are numbers, else as stripped text."""
    stripped = np.char.strip(given)
    if cells.is_text(name):
        return stripped
    absent = np.isin(stripped, list(cells.missing(name)))
    rest = stripped[~absent]
    # NumPy cannot replace in an empty array of text.
    if rest.size:
        rest = np.char.replace(rest, "\u2212", "-")
        rest = np.char.replace(rest, ",", ".") if commas else rest
    try:
        numbers = rest.astype(np.float64)
    except ValueError:
        return stripped
    words = rest.tolist()
    if any("_" in word for word in words) or _codes(words) or cells.tells_words_apart(name):
        return stripped
    cells.note(stripped[absent])
    if not rest.size:
        return np.full(given.shape, np.nan)
    if not any(any(c in cell for c in ".eEnN") for cell in words):
        if not absent.any():
            return whole_numbers(words, what)
        if np.any(np.abs(numbers) >= LARGEST_EXACT):
            present = iter(words)
            check_exact([None if gone else next(present) for gone in absent.tolist()], what)
    for row, cell in zip(np.flatnonzero(~absent)[np.isinf(numbers)] + 1, rest[np.isinf(numbers)], strict=True):
        if "inf" not in cell.lower():
            raise UnusableColumn(
                f"{what}, row {row}: {cell[:40]} is beyond the largest number, 1.8e308", code="too-large"
            )
    out = np.full(given.shape, np.nan)
    out[~absent] = numbers
    return out


def _codes(words: list[str]) -> bool:
    """Whether cells are codes: digits only, some with a leading zero, so that 01 and 1 are different."""
    return any(word[0] == "0" and len(word) > 1 for word in words) and all(word.isdigit() for word in words)


def _read_parquet(path: Path) -> dict[str, Any]:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise DataError(
            "reading .parquet needs pyarrow: pip install pyarrow", where=str(path), code="not-installed"
        ) from None
    try:
        head = parquet.read_metadata(path)
        # Repeated values are stored once, so a small file can hold more cells than fit into memory.
        if (need := 8 * head.num_rows * head.num_columns) > memory_size():
            raise DataError(
                f"the table has {head.num_rows:,} rows and {head.num_columns:,} columns, which take"
                f" {need / 2**30:.3g} GiB, more memory than there is",
                where=shown(path),
                code="too-costly",
            )
        doubled = [name for name, count in Counter(head.schema.to_arrow_schema().names).items() if count > 1]
        if doubled:
            raise DataError(f"the column '{doubled[0]}' occurs twice", where=shown(path), code="duplicate")
        return _with_categories(parquet.read_table(path))
    except (OSError, ValueError) as error:
        raise DataError(
            f"not a Parquet file: {(str(error) or 'damaged').splitlines()[0]}", where=shown(path), code="malformed"
        ) from None


def _with_categories(table: Any) -> dict[str, Any]:
    """Columns of a Parquet file; numeric categories of pandas, which are stored as numbers, become categories again."""
    import pandas as pd
    from pyarrow import types

    columns = frame_columns(table)
    for entry in (table.schema.pandas_metadata or {}).get("columns", ()):
        name = entry.get("name")
        if name not in columns or entry.get("pandas_type") != "categorical":
            continue
        stored = table.column(name)
        if types.is_integer(stored.type) or types.is_floating(stored.type):
            columns[name] = pd.Series(pd.Categorical(stored.to_pandas(integer_object_nulls=True)))
    return columns


def _read_json(path: Path) -> Any:
    where = shown(path)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        doubled = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
        if doubled:
            raise DataError(f"the name '{doubled[0]}' occurs twice", where=where, code="duplicate")
        return dict(pairs)

    def whole(digits: str) -> int:
        if len(digits) > _MOST_DIGITS:
            raise DataError(
                f"a whole number of {len(digits):,} digits; write it with an exponent", where=where, code="too-large"
            )
        return int(digits)

    def decimal(text: str) -> float:
        if math.isinf(number := float(text)):
            raise DataError(f"{text[:40]} is beyond the largest number, 1.8e308", where=where, code="too-large")
        return number

    _fits(ordinary_size(path), path)
    try:
        with path.open("rb") as stream:
            if b"\0" in stream.read(4096):
                raise DataError(
                    "not valid JSON: it holds zero bytes; this is not text", where=f"{where}:1:1", code="not-text"
                )
        return json.loads(
            path.read_text(encoding="utf-8-sig"), object_pairs_hook=once, parse_int=whole, parse_float=decimal
        )
    except UnicodeDecodeError as error:
        raise DataError(f"byte 0x{error.object[error.start]:02x} is not UTF-8", where=where, code="not-text") from None
    except json.JSONDecodeError as error:
        raise DataError(
            f"not valid JSON: {error.msg}", where=f"{where}:{error.lineno}:{error.colno}", code="malformed"
        ) from None
    except RecursionError:
        raise DataError("not valid JSON: nested too deeply", where=where, code="malformed") from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", where=where, code="unreadable") from None


def _read_records(path: Path) -> dict[str, Any]:
    content = _read_json(path)
    if not isinstance(content, list) or not content or not all(isinstance(row, dict) for row in content):
        raise DataError("a table in JSON is a list of rows, each {column: value}", where=str(path), code="malformed")
    names = list(dict.fromkeys(name for row in content for name in row))
    return {name: [row.get(name) for row in content] for name in names}


def _read_arrays(path: Path, source: DataSource, cells: Cells) -> Dataset:
    content = _read_json(path)
    if isinstance(content, list):
        return Dataset.from_table(_read_records(path), source.rows, what=str(path), cells=cells)
    if not isinstance(content, dict) or not content:
        raise DataError("arrays in JSON are {name: number or nested lists}", where=str(path), code="malformed")
    return Dataset.from_columns(content, source, what=str(path), cells=cells)


def write_table(columns: Mapping[str, Any], path: Path) -> None:
    """Write columns of equal length as .csv, .tsv, .parquet or .json, completely or not at all."""
    import pandas as pd

    frame = pd.DataFrame(dict(columns))
    writers: dict[str, Callable[[Path], Any]] = {
        ".csv": lambda file: frame.to_csv(file, index=False),
        ".tsv": lambda file: frame.to_csv(file, index=False, sep="\t"),
        ".parquet": lambda file: frame.to_parquet(file),
        ".json": lambda file: frame.to_json(file, orient="records"),
    }
    if path.suffix.lower() not in writers:
        raise DataError(
            f"unknown kind of table '{path.suffix}'; there are {' '.join(writers)}",
            where=str(path),
            code="unknown-format",
        )
    try:
        with replacing(path) as temporary:
            writers[path.suffix.lower()](temporary)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", where=str(path), code="cannot-write") from None


def write_netcdf(content: Any, path: Path) -> None:
    """Write a Dataset or DataTree as NetCDF, completely or not at all."""
    try:
        with replacing(path) as temporary:
            content.to_netcdf(temporary, engine="h5netcdf")
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", where=str(path), code="cannot-write") from None
