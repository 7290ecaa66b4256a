"""A variable of a net and its parents, with the reader of what a file declares for them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from bayeslab.errors import ModelError, hint
from bayeslab.memory import require_memory

__all__ = ["Place", "States", "identifier"]

# Names of states that mean "absent", for noisy-OR and noisy-MAX; compared without case.
_ABSENT = frozenset(("no", "false", "absent", "off", "none", "0", "n", "f", "negative", "healthy", "normal"))

type States = Mapping[str, tuple[str, ...]]


def identifier(name: str) -> str:
    """Convert a name to an identifier that expressions can hold."""
    word = re.sub(r"\W", "_", name)
    return word if word[:1].isalpha() or word[:1] == "_" else f"_{word}"


@dataclass(frozen=True)
class Place:
    """A variable and its parents, with the reader of what a file declares for them."""

    variable: str
    variable_states: tuple[str, ...]
    parents: tuple[str, ...]
    states: States
    names: frozenset[str]
    path: tuple[str, ...] = ("model", "variables")
    constants: Mapping[str, float] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(self.states[p]) for p in self.parents)

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.sizes, len(self.variable_states))

    def require_memory(self, row: int, remedy: str = "give it fewer parents", others: int = 0) -> None:
        """Refuse a table whose rows, of this many bytes each, do not fit in memory beside the bytes of others."""
        beside = " and the tables before it" if others else ""
        require_memory(
            others + row * math.prod(self.sizes),
            f"the table of '{self.variable}' with its {len(self.parents)} parents{beside}",
            remedy,
            kind=ModelError,
            path=(*self.path, self.variable, "parents"),
        )

    def rows(self) -> list[tuple[str, ...]]:
        """Every combination of the parents' states, the last parent fastest."""
        return list(product(*(self.states[p] for p in self.parents)))

    def error(self, message: str, *path: Any, code: str) -> ModelError:
        return ModelError(message, path=(*self.path, self.variable, *path), code=code)

    def configurations(self) -> np.ndarray:
        """State numbers of the parents in every row, shape (rows, parents)."""
        rows = math.prod(self.sizes)
        out, repeats = np.empty((len(self.parents), rows), dtype=np.int32), rows
        for k, n in enumerate(self.sizes):
            repeats //= n
            out[k] = np.resize(np.repeat(np.arange(n, dtype=np.int32), repeats), rows)
        return out.T

    def by_row(self, given: Any, *path: Any) -> list[tuple[Any, tuple[Any, ...]]]:
        """Read a value for every row, with its path in the file: nested lists in order, or mappings from states.

        Lists and mappings may be nested in each other; the key ``default`` gives the value of all remaining rows.
        """
        self.require_memory(2 * (56 + 8 * len(self.parents)))  # a tuple for each row, twice
        entries: dict[tuple[str, ...], Any] = {}
        defaults: dict[tuple[str, ...], Any] = {}
        self._collect(given, (), path, entries, defaults)
        out = []
        for row in self.rows():
            covering = [row[:k] for k in range(len(row), -1, -1) if row[:k] in defaults]
            if row not in entries and not covering:
                raise self.error(
                    f"the row '{', '.join(row)}' ({', '.join(self.parents)}) of '{self.variable}' is missing;"
                    f" a row 'default' stands for all that are not there",
                    *path,
                    code="incomplete",
                )
            out.append(entries[row] if row in entries else defaults[covering[0]])
        return out

    def _collect(
        self, given: Any, before: tuple[str, ...], path: tuple[Any, ...],
        entries: dict[Any, Any], defaults: dict[Any, Any],
    ) -> None:  # fmt: skip
        """Collect the rows of a value below the parents' states in ``before``."""
        if len(before) == len(self.parents):
            if before in entries:
                raise self.error(f"the row '{', '.join(before)}' occurs twice", *path, code="duplicate")
            entries[before] = (given, path)
            return
        parent = self.parents[len(before)]
        states = self.states[parent]
        if isinstance(given, Mapping):
            for words, value in given.items():
                if words == "default" and "default" not in states:
                    defaults[before] = (value, (*path, words))
                else:
                    row = (*before, *self._row(str(words), len(before), path))
                    self._collect(value, row, (*path, words), entries, defaults)
        elif isinstance(given, Sequence) and not isinstance(given, str) and len(given) == len(states):
            for i, (state, value) in enumerate(zip(states, given, strict=True)):
                self._collect(value, (*before, state), (*path, i), entries, defaults)
        elif before:
            raise self.error(
                f"'{', '.join(before)}' names {len(before)} of the {len(self.parents)} parents of '{self.variable}'"
                f" ({', '.join(self.parents)}); inside it there is an entry for each of the {len(states)} states of"
                f" '{parent}'",
                *path,
                code="wrong-length",
            )
        else:
            raise self.error(
                f"the rows of '{self.variable}' are {len(states)} entries for the states of '{parent}'"
                f" ({', '.join(states)}), as a list or by name, such as '{', '.join(self.rows()[0])}: ...'",
                *path,
                code="wrong-length",
            )

    def _row(self, words: str, at: int, path: tuple[Any, ...]) -> tuple[str, ...]:
        """Read the states in a key: one, or several separated by commas."""
        match = self._match(words, at)
        if match:
            return match
        parts = tuple(part.strip() for part in words.split(","))
        if at + len(parts) > len(self.parents):
            raise self.error(
                f"'{words}' names more states than '{self.variable}' has parents", *path, words, code="wrong-length"
            )
        parent, state = next((p, s) for p, s in zip(self.parents[at:], parts, strict=False) if s not in self.states[p])
        raise self.error(
            f"'{state}' is not a state of '{parent}'{hint(state, self.states[parent])}",
            *path,
            words,
            code="unknown-state",
        )

    def _match(self, words: str, at: int) -> tuple[str, ...]:
        """Read the states of successive parents from a text; names of states may themselves contain commas."""
        states = self.states[self.parents[at]] if at < len(self.parents) else ()
        if words in states:
            return (words,)
        for state in states:
            rest = words.removeprefix(state).lstrip()
            if words.startswith(state) and rest.startswith(","):
                match = self._match(rest[1:].strip(), at + 1)
                if match:
                    return (state, *match)
        return ()

    def absent(self, variable: str, declared: Mapping[str, str], *, needed: bool) -> int:
        """Position of the state that means "absent"."""
        for word in declared:
            if word not in (*self.parents, self.variable):
                raise self.error(
                    f"'{word}' is neither '{self.variable}' nor one of its parents"
                    f"{hint(word, (*self.parents, self.variable))}",
                    "absent",
                    word,
                    code="unknown-variable",
                )
        states = self.states[variable]
        if variable in declared:
            if declared[variable] not in states:
                raise self.error(
                    f"'{declared[variable]}' is not a state of '{variable}'{hint(declared[variable], states)}",
                    "absent",
                    variable,
                    code="unknown-state",
                )
            return states.index(declared[variable])
        candidates = [i for i, state in enumerate(states) if state.casefold() in _ABSENT]
        if len(candidates) == 1:
            return candidates[0]
        if needed:
            raise self.error(
                f"which state of '{variable}' ({', '.join(states)}) means absent is not clear:"
                f" write absent: {{{variable}: {states[-1]}}}",
                code="incomplete",
            )
        return len(states) - 1

    def number(self, given: Any, path: tuple[Any, ...], low: float = 0.0, high: float = 1.0) -> float:
        fits = isinstance(given, int | float) and not isinstance(given, bool) and low <= given <= high
        if not fits or not np.isfinite(given):
            below, above = np.isfinite(low), np.isfinite(high)
            bounds = f"between {low:g} and {high:g}" if below and above else f"≥ {low:g}" if below else "that is finite"
            raise self.error(f"{given!r} is not a number {bounds}", *path, code="out-of-range")
        return float(given)
