"""Conversion of cells from files, dataframes and lists to arrays of numbers or text.

Integers keep every digit or are refused; surrounding spaces of text are removed; words for missing cells are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from types import NoneType
from typing import Any

import numpy as np

from bayeslab.errors import DataError, hint
from bayeslab.language.spec import DataSource, plain_name

__all__ = [
    "LARGEST_EXACT",
    "LARGEST_INTEGER",
    "MISSING_WORDS",
    "MOST_TEXT",
    "WORDS_APART",
    "Cells",
    "UnusableColumn",
    "as_text",
    "as_truth_words",
    "as_values",
    "as_words",
    "check_exact",
    "is_truth",
    "number_in",
    "truth_numbers",
    "whole_numbers",
    "without_sentinels",
]

# Separator of words in a cell given as a list of words (U+001F, the unit separator).
WORDS_APART = "\x1f"
# Maximum size of a text column in bytes.
MOST_TEXT = 4 << 30
# Up to this number every integer is exact as a 64-bit float.
LARGEST_EXACT = 2**53
# Words for missing cells, in numeric and text columns alike.
MISSING_WORDS = frozenset(("", "NA", "NaN", "nan", "N/A", "null"))


@dataclass(frozen=True, slots=True)
class Cells:
    """Rules for reading cells.

    Attributes
    ----------
    words : mapping of str to float or None
        Words for missing cells, besides :data:`MISSING_WORDS`, each with its numeric value, which is missing in numeric
        columns.
    text : frozenset of str
        Columns that hold names, whatever their cells look like.
    levels : mapping of str to frozenset of str
        Levels that the model declares; such a word is a level, not missing.
    met : set of str
        The words of ``words`` that occurred in a column; filled while columns are read.
    named : mapping of str to tuple of str
        Columns that have labels and units, by the key of the data section.
    """

    words: Mapping[str, float | None] = field(default_factory=dict)
    text: frozenset[str] = frozenset()
    levels: Mapping[str, frozenset[str]] = field(default_factory=dict)
    met: set[str] = field(default_factory=set, compare=False)
    named: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, source: DataSource, levels: Mapping[str, frozenset[str]] | None = None) -> Cells:
        """The rules of a model's data section."""
        old = {name: plain_name(given) for name, given in source.rename.items()}
        # Data may already use a column's new name, unless it is the old name of another column.
        kept = {name for name in (*source.text, *(levels or {})) if name not in old.values()}
        text = {*kept.intersection(source.text), *(old[name] for name in source.text if name in old)}
        known = {name: words for name, words in (levels or {}).items() if name in kept}
        known |= {old[name]: words for name, words in (levels or {}).items() if name in old}
        words = [
            entry.strip() if isinstance(entry, str) else as_words(np.array([entry]))[0] for entry in source.missing
        ]
        named = {key: tuple(given) for key, given in (("labels", source.labels), ("units", source.units))}
        derived = {*source.derive, *source.rename}
        named = {key: tuple(name for name in given if name not in derived) for key, given in named.items()}
        return cls({str(word): number_in(word) for word in words}, frozenset(text), known, named=named)

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

    def tells_words_apart(self, name: str) -> bool:
        """Whether two declared levels are the same number and differ only as text, such as 1.1 and 1.10."""
        numbers = [x for level in self._levels(name) if (x := number_in(level)) is not None]
        return len(set(numbers)) < len(numbers)

    def note(self, cells: np.ndarray) -> None:
        """Remember the words that stood for missing cells."""
        self.met.update(self.words.keys() & set(np.unique(cells).tolist()))

    def unused(self, columns: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """Entries of the data section without a matching column, after all columns are read: (key, remark)."""
        names = {plain_name(name): name for name in columns}
        out = [
            ("missing", f"'{word}' of data.missing stands for no cell: no column holds it, unless as a declared level")
            for word in self.words
            if word not in self.met | MISSING_WORDS
        ]
        for name in sorted(self.text - names.keys()):
            out.append(("text", f"'{name}' of data.text is not a column{hint(name, names)}"))
        for key, given in self.named.items():
            out += [
                (f"column {key}", f"'{name}' of data.{key} is not a column{hint(name, names)}")
                for name in given
                if name not in names
            ]
        return tuple(out)

    def _levels(self, name: str) -> frozenset[str]:
        return self.levels.get(name, self.levels.get(plain_name(name), frozenset()))


class UnusableColumn(DataError):
    """A column that no model can use, such as dates; it is an error only for models that use it."""


def is_truth(value: Any) -> bool:
    """Whether a column holds truth values and possibly empty cells; they are read as 1 and 0 but are not numbers."""
    kind = getattr(value, "dtype", None)
    if kind == np.bool_ or getattr(kind, "name", "") == "boolean":  # the second is pandas' type with empty cells
        return True
    if not isinstance(value, list | tuple) and kind != np.object_:
        return False
    cells = value.ravel() if isinstance(value, np.ndarray) else value
    kinds = {kind for kind in set(map(type, cells)) if kind is not NoneType and kind.__name__ != "NAType"}
    if kinds & {bool, np.bool_} and all(cell != cell for cell in cells if isinstance(cell, float)):
        kinds -= {float}  # NaN for an empty cell
    return bool(kinds) and kinds <= {bool, np.bool_}


def as_truth_words(values: np.ndarray, words: np.ndarray) -> np.ndarray | None:
    """1 and 0 as the two truth words of another column, such as TRUE and FALSE; None if it has other words."""
    spelt = {str(word).casefold(): str(word) for word in np.unique(words)}
    there = values[~np.isnan(values.astype(float))]
    if not spelt or not spelt.keys() <= {"true", "false"} or not np.isin(there, (0, 1)).all():
        return None
    other = next(iter(spelt.values()))
    true, false = (spelt.get(word, _capitalised_as(other, word)) for word in ("true", "false"))
    return np.where(values == 1, true, np.where(values == 0, false, ""))


def _capitalised_as(model: str, word: str) -> str:
    return word.upper() if model.isupper() else word.lower() if model.islower() else word.capitalize()


def truth_numbers(values: np.ndarray, gone: np.ndarray) -> np.ndarray | None:
    """1.0 for true, 0.0 for false and NaN for missing cells; None if other words occur."""
    words = np.char.lower(values)
    if gone.all() or not np.isin(words[~gone], ("true", "false")).all():
        return None
    return np.where(gone, np.nan, (words == "true").astype(float))


def without_sentinels(values: np.ndarray, what: str, cells: Cells, numbers: Mapping[str, float]) -> np.ndarray:
    """A numeric column with NaN for the numbers that stand for missing cells."""
    gone = np.zeros(values.shape, dtype=bool)
    for word, number in numbers.items():
        # Also the value rounded to 32 bits, for columns of this type.
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
    """Numbers (NaN for missing cells), or text with a mask of missing cells, from any kind of input.

    Surrounding spaces of text are removed; the words in ``missing``, including the empty one, are missing cells.
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
            array = np.asarray(value, dtype=object)  # NumPy would convert numbers among text to text
    except ValueError:
        raise DataError(f"{what} is ragged: its rows have different lengths", code="wrong-shape") from None
    if isinstance(value, list | tuple):
        _check_truth(value, what)
    if array.dtype.kind == "b":
        return array.astype(np.int64), None
    if array.dtype.kind == "u" and array.size and array.max() > LARGEST_INTEGER:
        whole_numbers(array.ravel().tolist(), what)
    if array.dtype.kind in "iu":
        return array.astype(np.int64), None
    if array.dtype.kind == "f":
        if isinstance(value, list | tuple) and np.any(np.abs(array) >= LARGEST_EXACT):
            # NumPy has rounded integers among them.
            cells = np.asarray(value, dtype=object).ravel().tolist()
            (whole_numbers if all(isinstance(cell, int | np.integer) for cell in cells) else check_exact)(cells, what)
        return array.astype(np.float64), None
    if array.dtype.kind in "UTSO":
        return _from_objects(array, what)
    raise UnusableColumn(
        f"{what} holds {array.dtype}; numbers and text can be used (turn dates into numbers)", code="odd-cell"
    )


LARGEST_INTEGER = 2**63 - 1
_LARGEST_SINGLE = 3e38


def _unmasked(values: Any) -> np.ndarray:
    """A masked array as a plain one, with None for masked cells of text or integers, else NaN."""
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
    UnusableColumn
        A number exceeds 64 bits; rounding could make different numbers equal.
    """
    try:
        return np.array(cells, dtype=np.int64) if not isinstance(cells[0], str) else np.array(cells).astype(np.int64)
    except (OverflowError, ValueError):
        for row, cell in enumerate(cells, start=1):
            if not -LARGEST_INTEGER - 1 <= _whole(cell) <= LARGEST_INTEGER:
                raise UnusableColumn(
                    f"{what}, row {row}: {_brief(cell)} is beyond 64 bits, the largest whole number is 2⁶³ − 1; write a"
                    " measurement with an exponent or a point, and a name with a letter before the digits",
                    code="too-large",
                ) from None
        raise


def check_exact(cells: Iterable[Any], what: str) -> None:
    """Refuse integers, or their digits, that floats cannot represent exactly.

    A column of integers with missing cells becomes a column of floats, which must not round any of them. In a column
    with fractions, integers are measurements: they may be rounded, but must be finite.

    Raises
    ------
    UnusableColumn
        A number is not exact, or not finite; the message has the row.
    """
    rows = [(row, cell) for row, cell in enumerate(cells, start=1) if cell is not None and cell == cell]
    exact = all(isinstance(cell, _WHOLE) for _, cell in rows)
    for row, cell in rows:
        if not isinstance(cell, _WHOLE):
            continue
        number = _whole(cell)
        if abs(number) > 1 << 1000 or (exact and int(float(number)) != number):
            raise UnusableColumn(
                f"{what}, row {row}: {_brief(cell)} has more digits than a number beside missing cells or a decimal"
                " point can keep (2⁵³); write a measurement with an exponent, a name with a letter before the digits",
                code="too-many-digits",
            )


_WHOLE = (str, int, np.integer)


def _whole(cell: Any) -> int:
    """An integer from a number or its digits; a value beyond all limits if there are too many digits."""
    return int(cell) if not isinstance(cell, str) or len(cell) <= 400 else 1 << 2000


def _brief(cell: Any) -> str:
    if isinstance(cell, int) and abs(cell) > 1 << 1000:
        return "a whole number of hundreds of digits"
    text = str(cell)
    return text if len(text) <= 40 else f"{text[:20]}… ({len(text):,} digits)"


def _lists_of_words(value: Any) -> bool:
    """Whether each cell is a list of words, that is, a tokenised document."""
    if isinstance(value, np.ndarray):
        value = value.tolist() if value.dtype.kind == "O" and value.ndim == 1 else None
    if not isinstance(value, list | tuple):
        return False
    cells = [cell for cell in value if cell is not None]
    lists = all(isinstance(cell, list | tuple | np.ndarray) for cell in cells)
    return lists and any(len(cell) for cell in cells) and all(isinstance(word, str) for cell in cells for word in cell)


_LONGEST_WHOLE = 30
_NUMBER = bool | int | float | np.integer | np.floating | np.bool_


def _from_objects(array: np.ndarray, what: str) -> tuple[np.ndarray, np.ndarray | None]:
    flat = array.astype(object).ravel()
    if Decimal in set(map(type, flat)):
        flat = np.array([_plain(cell) for cell in flat] + [None], dtype=object)[:-1]
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
        if odd is None:  # numbers mixed with text: the rarer type is reported
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


def _plain(cell: Any) -> Any:
    """A decimal number as an integer, if it is one, else as a float; other cells are unchanged."""
    if not isinstance(cell, Decimal):
        return cell
    if not cell.is_finite():
        return None if cell.is_nan() else float(cell)
    # A power of ten may have more digits than memory: it is a measurement.
    return int(cell) if cell.adjusted() <= _LONGEST_WHOLE and cell == cell.to_integral_value() else float(cell)


def as_text(cells: Any, what: str) -> np.ndarray:
    """Text cells as an array of fixed width, that of the longest."""
    longest = max(map(len, cells), default=0)
    if (size := 4 * longest * len(cells)) > MOST_TEXT:
        raise DataError(
            f"{what}: {len(cells):,} cells with room for the longest, {longest:,} letters, would take"
            f" {size / 2**30:.1f} GiB, more than {MOST_TEXT / 2**30:.0f}; cut the longest, or give documents as counts"
            " of words (a row for each document and word)",
            code="too-costly",
        )
    out = np.array(cells, dtype=str)
    # NumPy removes trailing NUL characters from text.
    if any("\0" in cell for cell in cells):
        row = next(i for i, cell in enumerate(cells) if "\0" in cell)
        raise DataError(f"{what}, row {row + 1}: the cell holds a NUL character; remove it", code="not-text")
    return out


def as_words(values: np.ndarray) -> np.ndarray:
    """Numbers as the words a person would write: 1, not 1.0."""
    numbers = values.astype(float)
    whole = np.isfinite(numbers) & (numbers == np.floor(numbers))
    return np.array([str(int(v)) if w else str(v) for v, w in zip(values.ravel(), whole.ravel(), strict=True)]).reshape(
        values.shape
    )


def number_in(word: str) -> float | None:
    """The number in a text cell (digits, decimal point, exponent, ASCII or typographical minus), or None.

    >>> [number_in(word) for word in ("1.5", "\u22123", "1e3", "1_000", "0x10", "?")]
    [1.5, -3.0, 1000.0, None, None, None]
    """
    if "_" in word:
        return None
    try:
        return float(word.replace("\u2212", "-"))
    except ValueError:
        return None
