"""Shared code of the Bayes net formats: files, nodes, and the construction of networks from nodes.

A reader turns a file into :class:`Node` objects; :func:`network_of` checks their consistency and reports
the line of any error. Most files contain rounded probabilities: rows are divided by their sums, with a
warning if the deviation is larger than rounding.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bayeslab.errors import ModelError, hint
from bayeslab.files import ordinary_size, shown
from bayeslab.latents.networks.network import DiscreteNetwork

__all__ = [
    "File",
    "Node",
    "Notes",
    "Renaming",
    "as_numbers",
    "decimal",
    "identifiers",
    "is_number",
    "network_of",
    "numbers",
    "pairs",
    "position_of",
    "quoted",
    "renamed",
    "storable",
    "table_shape",
    "whole",
]

# With a larger deviation a row is not a rounded distribution.
ROUNDED = 1e-3

# 1 GiB of float64: a larger declared table is a mistake or too large for exact methods.
MAX_ENTRIES = 2**27

# The largest networks in use have a few megabytes.
MAX_BYTES = 2**29

# Sums of larger entries would overflow; no program writes such probabilities.
_MAX_ENTRY = 1e100

_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1f]")

type Notes = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class File:
    """The bytes of a file, and its name in messages."""

    shown: str
    raw: bytes

    @classmethod
    def at(cls, path: Path) -> File:
        """Return the file at a path; any reason why it cannot be read is a one-line error."""
        where = shown(path)
        if ordinary_size(path, ModelError) > MAX_BYTES:
            raise ModelError(
                f"has more than {MAX_BYTES // 2**20} MiB, too many for a network", where=where, code="too-costly"
            )
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise ModelError(f"cannot be read: {error.strerror}", where=where, code="unreadable") from None
        if not raw.strip():
            raise ModelError("the file is empty", where=where, code="malformed")
        return cls(where, raw)

    def error(self, message: str, line: int | None = None, column: int | None = None, *, code: str) -> ModelError:
        place = ":".join(str(part) for part in (self.shown, line, column) if part is not None)
        return ModelError(message, where=place, code=code)

    @cached_property
    def text(self) -> str:
        """The decoded text: UTF-8 or UTF-16 by byte order mark, else UTF-8, else Latin-1 with a warning."""
        raw = self.raw
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            try:
                return raw.decode("utf-16")
            except UnicodeDecodeError:
                raise self.error("not UTF-16, which the first two bytes say it is", code="not-text") from None
        raw = raw.rstrip(b"\x1a")  # end-of-file mark of DOS
        if _BINARY.search(raw):
            raise self.error("binary, not the text of a network", code="not-text")
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            byte = raw[error.start]
            warnings.warn(
                f"{self.shown}:{line}: byte 0x{byte:02x} is not UTF-8; the file is read as Latin-1", stacklevel=2
            )
            return raw.decode("latin-1")


@dataclass(frozen=True)
class Node:
    """A variable of a file.

    Parameters
    ----------
    name : str
    states : tuple of str
    parents : tuple of str
    values : sequence of float or None
        The table with the variable's own state changing fastest, then the last parent; None if the
        file has none.
    line : int
        Line of the table, or of the variable.
    """

    name: str
    states: tuple[str, ...]
    parents: tuple[str, ...] = ()
    values: Sequence[float] | np.ndarray | None = None
    line: int | None = None


def network_of(file: File, nodes: Sequence[Node], name: str = "", notes: Notes | None = None) -> DiscreteNetwork:
    """Return the network of a file's nodes, checked and with normalised rows."""
    states = states_of(file, nodes)
    slips: list[tuple[float, str]] = []
    tables = {node.name: _table(file, node, states, slips) for node in nodes}
    if slips:
        _, worst = max(slips)
        more = f" (and {len(slips) - 1} more such tables)" if len(slips) > 1 else ""
        warnings.warn(f"{worst}{more}; rows are divided by their sums", stacklevel=2)
    parents = {node.name: node.parents for node in nodes}
    kept = {kind: dict(entries) for kind, entries in (notes or {}).items() if entries}
    try:
        return DiscreteNetwork(states, parents, tables, name or "network", kept)
    except ModelError as error:
        raise error.located(file.shown) from None


def states_of(file: File, nodes: Sequence[Node]) -> dict[str, tuple[str, ...]]:
    """Return the states of each variable, in the order of the file."""
    if not nodes:
        raise file.error("there is no variable in this file", code="malformed")
    nameless = next((node for node in nodes if not node.name), None)
    if nameless is not None:
        raise file.error("a variable needs a name", nameless.line, code="malformed")
    states: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        if node.name in states:
            raise file.error(f"variable '{node.name}' occurs twice", node.line, code="duplicate")
        if not node.states:
            raise file.error(f"variable '{node.name}' has no states", node.line, code="incomplete")
        if len(set(node.states)) < len(node.states):
            twice = next(s for s, n in Counter(node.states).items() if n > 1)
            raise file.error(f"variable '{node.name}' has the state '{twice}' twice", node.line, code="duplicate")
        states[node.name] = node.states
    return states


def table_shape(file: File, node: Node, states: Mapping[str, tuple[str, ...]]) -> tuple[int, ...]:
    """Return the shape of a node's table: its parents in order, then the node itself."""
    for i, parent in enumerate(node.parents):
        if parent not in states:
            raise file.error(
                f"'{parent}', a parent of '{node.name}', is not a variable{hint(parent, states)}",
                node.line,
                code="unknown-variable",
            )
        if parent == node.name or parent in node.parents[:i]:
            itself = parent == node.name
            reason = "itself" if itself else f"'{parent}' twice"
            code = "self-reference" if itself else "duplicate"
            raise file.error(f"variable '{node.name}' has {reason} as a parent", node.line, code=code)
    shape = (*(len(states[p]) for p in node.parents), len(node.states))
    if math.prod(shape) > MAX_ENTRIES:
        raise file.error(
            f"the table of '{node.name}' would have {math.prod(shape):.3g} entries: too many",
            node.line,
            code="too-costly",
        )
    return shape


def check_sizes(file: File, nodes: Iterable[Node], states: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse tables that together are too large, before any is made: a default fills a table of any size.

    Raises
    ------
    BayeslabError
        The tables have too many entries, or a node's parents are wrong.
    """
    total = 0
    for node in nodes:
        total += math.prod(table_shape(file, node, states))
        if total > MAX_ENTRIES:
            raise file.error(
                f"the tables up to that of '{node.name}' would have {total:.3g} entries: too many",
                node.line,
                code="too-costly",
            )


def _table(file: File, node: Node, states: Mapping[str, tuple[str, ...]], slips: list[tuple[float, str]]) -> np.ndarray:
    if node.values is None:
        raise file.error(f"variable '{node.name}' has no table", node.line, code="incomplete")
    shape = table_shape(file, node, states)
    table = np.array(node.values, dtype=float)
    if table.size != math.prod(shape):
        made = " × ".join(map(str, shape))
        raise file.error(
            f"the table of '{node.name}' has {table.size} numbers; its parents and states make "
            f"{made}{f' = {math.prod(shape)}' if len(shape) > 1 else ''}",
            node.line,
            code="wrong-shape",
        )
    table = table.reshape(shape)
    bad = ~((table >= 0) & (table < _MAX_ENTRY))
    if np.any(bad):
        at = np.unravel_index(int(np.argmax(bad)), shape)
        raise file.error(
            f"the table of '{node.name}' has {float(table[at]):g}{_given(node, states, at[:-1])}; "
            "probabilities are finite and not negative",
            node.line,
            code="not-probabilities",
        )
    total = table.sum(axis=-1, keepdims=True)
    row = np.unravel_index(int(np.argmax(np.abs(total - 1))), shape[:-1]) if node.parents else ()
    if np.any(total == 0):
        row = np.unravel_index(int(np.argmax(total == 0)), total.shape)[:-1]
        raise file.error(
            f"the table of '{node.name}' sums to zero{_given(node, states, row)}", node.line, code="not-probabilities"
        )
    off = abs(float(total[(*row, 0)]) - 1)
    if off > ROUNDED:
        place = ":".join(str(part) for part in (file.shown, node.line) if part is not None)
        given = _given(node, states, row)
        slips.append((off, f"{place}: the table of '{node.name}' sums to {float(total[(*row, 0)]):.6g}{given}"))
    return table / np.where(np.abs(total - 1) > len(node.states) * np.finfo(float).eps, total, 1.0)


def _given(node: Node, states: Mapping[str, tuple[str, ...]], row: Iterable[Any]) -> str:
    shown = ", ".join(f"{p}={states[p][int(i)]}" for p, i in zip(node.parents, row, strict=True))
    return f" given {shown}" if shown else ""


# -- reading pieces


def numbers(file: File, words: Iterable[str], what: str, line: int | None = None) -> list[float]:
    """Convert words to numbers; the error shows the word that is not a number."""
    words = list(words)
    try:
        return as_numbers(words)
    except ValueError:
        bad = next(word for word in words if not is_number(word))
        raise file.error(f"'{bad[:40]}', in {what}, is not a number", line, code="not-a-number") from None


def as_numbers(words: list[str]) -> list[float]:
    """Convert words to numbers, without Python's extensions such as 0_3 and digits of other scripts."""
    text = " ".join(words)
    if "_" in text or not text.isascii():
        raise ValueError(text[:40])
    return list(map(float, words))


def is_number(word: str) -> bool:
    """Return whether a word is a number."""
    try:
        as_numbers([word])
    except ValueError:
        return False
    return True


def whole(word: str) -> int | None:
    """Return the whole number that a word of digits is; None for other words, and for more digits than any size has."""
    return int(word) if word.isascii() and word.isdecimal() and len(word) < 10 else None


_POSITION = re.compile(r"position\s*=\s*\(\s*(-?[\d.]+)\s*[,\s]\s*(-?[\d.]+)\s*\)")


def position_of(text: str) -> tuple[float, float] | None:
    """Return the position in a drawing from a property ``position = (x, y)``."""
    match = _POSITION.fullmatch(text.strip())
    if not match:
        return None
    try:
        place = float(match[1]), float(match[2])
    except ValueError:
        return None
    return place if all(map(math.isfinite, place)) else None


# -- writing pieces


def decimal(values: Iterable[float]) -> list[str]:
    """Return the shortest decimals that are read back as the same floats."""
    return list(map(repr, np.asarray(values, dtype=float).ravel().tolist()))


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quoted(text: str) -> str:
    """Return a string in double quotes that the scanner reads back."""
    escaped = (_ESCAPES.get(c) or (f"\\u{ord(c):04x}" if c < " " or c == "\x7f" else c) for c in text)
    return f'"{"".join(escaped)}"'


def storable(text: str) -> str:
    """Return the text without lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode("utf-8")


_LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def identifiers(names: Sequence[str], reserved: Collection[str] = (), letter_first: bool = False) -> dict[str, str]:
    """Return a legal, unique identifier for each name; legal names are unchanged.

    Parameters
    ----------
    names : sequence of str
    reserved : collection of str
        Reserved words of the format.
    letter_first : bool
        Whether identifiers must not begin with an underscore.
    """

    def legal(text: str) -> bool:
        return bool(_LEGAL.fullmatch(text)) and text not in reserved and not (letter_first and text[0] == "_")

    out = {name: name for name in names if legal(name)}
    taken = set(out)
    for name in names:
        if name in out:
            continue
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
        base = re.sub(r"[^A-Za-z0-9]+", "_", plain).strip("_") or "x"
        base = base if legal(base) else f"x_{base}"
        trial, count = base, 1
        while trial in taken:
            count += 1
            trial = f"{base}_{count}"
        taken.add(trial)
        out[name] = trial
    return out


def pairs(mapping: Mapping[str, str], limit: int = 6) -> str:
    """Return names and their replacements for a remark: ``'a b' as a_b``."""
    changed = [(name, word) for name, word in mapping.items() if name != word]
    shown = ", ".join(f"{json.dumps(name, ensure_ascii=False)} as {word}" for name, word in changed[:limit])
    return shown + (f" and {len(changed) - limit} more" if len(changed) > limit else "")


@dataclass(frozen=True)
class Renaming:
    """Replacement names that a format can represent."""

    variables: Mapping[str, str]
    states: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def renamed(network: DiscreteNetwork, names: Renaming) -> DiscreteNetwork:
    """Return the network and its notes under other names."""
    v, s = names.variables, names.states
    return DiscreteNetwork(
        {v[x]: tuple(s.get(x, {}).get(state, state) for state in levels) for x, levels in network.states.items()},
        {v[x]: tuple(v[p] for p in above) for x, above in network.parents.items()},
        {v[x]: table for x, table in network.tables.items()},
        network.name,
        {kind: {v.get(x, x): note for x, note in entries.items()} for kind, entries in network.notes.items()},
    )
