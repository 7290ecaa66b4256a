"""Rows of states with missing cells and hidden variables, and their completions with weights.

Given a net, the missing cells of a row have a distribution over the completions of the row. All completions of all
rows, weighted by their probabilities, are complete rows, from which every score can take the expected counts of any
family.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.data.dataset import Column
from bayeslab.errors import DataError, EngineRefusal, ModelError, hint
from bayeslab.structure.data import (
    CodedColumn,
    Observations,
    _lookup,
    _states_of_numbers,
    as_states,
    columns_of,
    read_column,
)

__all__ = ["Completions", "Incomplete"]

Codes = NDArray[np.int16]
Array = NDArray[np.float64]

# Largest number of completions of all rows together, and of one row.
_MOST, _MOST_OF_A_ROW = 4_000_000, 65_536


@dataclass(frozen=True, eq=False)
class Incomplete:
    """Rows with missing cells.

    Attributes
    ----------
    states : mapping of str to tuple of str
        Of each variable, hidden ones last.
    codes : ndarray of int16, shape (n_rows, n)
        State numbers; -1 for a missing cell, and in the whole column of a hidden variable.
    weights : ndarray, shape (n_rows,)
    hidden : tuple of str
    """

    states: Mapping[str, tuple[str, ...]]
    codes: Codes
    weights: Array
    hidden: tuple[str, ...] = ()

    @classmethod
    def of(cls, data: Any, *, states: Mapping[str, Sequence[Any]] | None = None) -> Incomplete:
        """Read a table of states.

        Parameters
        ----------
        data
            A dataframe, a mapping of columns, a Dataset, Observations, or Incomplete, which is returned unchanged.
        states
            States of a variable in order; default: the states that occur, sorted.
        """
        if isinstance(data, cls):
            return data
        if isinstance(data, Observations):
            data.require("discrete", "structural EM")
            known = dict(zip(data.names, data.states, strict=True))
            return cls.of_codes(data.codes, known, weights=np.asarray(data.weights, dtype=float))
        columns = columns_of(data)
        for name in states or {}:
            if name not in columns:
                raise DataError(
                    f"states are given for '{name}', which is not a column{hint(name, columns)}", code="unknown-column"
                )
        coded = {v: _read(v, column, (states or {}).get(v)) for v, column in columns.items()}
        if len({len(codes) for _, codes in coded.values()}) != 1:
            raise DataError("the columns differ in length", code="wrong-length")
        return cls.of_codes(
            np.column_stack([codes for _, codes in coded.values()]), {v: s for v, (s, _) in coded.items()}
        )

    @classmethod
    def of_codes(
        cls, codes: NDArray[Any], states: Mapping[str, Sequence[str]], *, weights: Array | None = None
    ) -> Incomplete:
        """Create from state numbers, -1 for a missing cell; identical rows are merged into weighted rows."""
        codes = np.ascontiguousarray(codes, dtype=np.int16)
        if codes.ndim != 2 or codes.shape[1] != len(states) or not len(codes):
            raise DataError(
                f"codes of shape {codes.shape} for {len(states)} variables; give one row a case", code="wrong-shape"
            )
        for k, (v, levels) in enumerate(states.items()):
            if codes[:, k].max() >= len(levels) or codes[:, k].min() < -1:
                raise DataError(f"'{v}' has codes from {codes[:, k].min()} to {codes[:, k].max()}; its states are"
                                f" 0 to {len(levels) - 1}, -1 is a missing cell", code="out-of-range")  # fmt: skip
        w = np.ones(len(codes)) if weights is None else np.asarray(weights, dtype=float)
        rows, of_row = np.unique(codes, axis=0, return_inverse=True)
        return cls({v: tuple(map(str, s)) for v, s in states.items()}, rows, np.bincount(of_row.ravel(), w, len(rows)))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.states)

    @property
    def n_rows(self) -> float:
        return float(self.weights.sum())

    @cached_property
    def cards(self) -> NDArray[np.int64]:
        return np.array([len(levels) for levels in self.states.values()], dtype=np.int64)

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return bool(self.codes.min(initial=0) >= 0)

    def whole_rows(self) -> Observations | None:
        """Return the complete rows of the variables that are not hidden; None if there are none."""
        observed = [k for k, v in enumerate(self.states) if v not in self.hidden]
        rows = np.all(self.codes[:, observed] >= 0, axis=1)
        if not rows.any():
            return None
        observed_states = {v: s for v, s in self.states.items() if v not in self.hidden}
        return Observations.of_codes(self.codes[rows][:, observed], observed_states, weights=self.weights[rows])

    def with_hidden(self, hidden: Mapping[str, int]) -> Incomplete:
        """Return the rows with these hidden variables (name to number of states) in place of the current ones."""
        observed = [k for k, v in enumerate(self.states) if v not in self.hidden]
        states = {v: s for v, s in self.states.items() if v not in self.hidden}
        for name, card in hidden.items():
            if name in states:
                raise ModelError(
                    f"'{name}' is a column, and cannot be a hidden variable; take another name", code="name-clash"
                )
            if card < 2:
                raise ModelError(
                    f"the hidden variable '{name}' has {card} states; it takes two at least", code="out-of-range"
                )
            states[name] = tuple(f"{name}_{i + 1}" for i in range(card))
        unknown = np.full((len(self.codes), len(hidden)), -1, np.int16)
        codes = np.concatenate([self.codes[:, observed], unknown], axis=1)
        return Incomplete(states, codes, self.weights, tuple(hidden))

    @cached_property
    def completions(self) -> Completions:
        """Return all completions of all rows.

        Raises
        ------
        EngineRefusal
            There are too many completions.
        """
        return Completions.of(self)


@dataclass(frozen=True, eq=False)
class Completions:
    """Return all completions of all rows.

    Attributes
    ----------
    data : Incomplete
    codes : ndarray of int16, shape (n_completions, n)
        Completions, grouped by row.
    begins : ndarray of int, shape (n_rows,)
        Number of the first completion of each row.
    distinct : ndarray of int16, shape (n_distinct, n)
        The distinct completions.
    kind : ndarray of int, shape (n_completions,)
        Index of each completion among the distinct ones.
    """

    data: Incomplete
    codes: Codes
    begins: NDArray[np.int64]
    distinct: Codes
    kind: NDArray[np.int64]

    @classmethod
    def of(cls, data: Incomplete) -> Completions:
        gone = data.codes < 0
        many = np.prod(np.where(gone, data.cards, 1), axis=1, dtype=float)
        if many.max() > _MOST_OF_A_ROW or many.sum() > _MOST:
            row = int(np.argmax(many))
            raise EngineRefusal(
                f"rows with missing cells have {many.sum():,.0f} completions together, and one that lacks"
                f" {int(gone[row].sum())} cells {many[row]:,.0f} alone; at most"
                f" {_MOST:,} and {_MOST_OF_A_ROW:,} are enumerated. Leave out the rows that lack most, or draw missing"
                f" cells in the chain (method structure)",
                code="too-costly",
            )
        pieces = []
        for codes, lacking in zip(data.codes, gone, strict=True):
            where = np.flatnonzero(lacking)
            filled = np.indices(tuple(data.cards[where])).reshape(len(where), int(np.prod(data.cards[where]))).T
            block = np.repeat(codes[None], len(filled), axis=0)
            block[:, where] = filled
            pieces.append(block)
        codes = np.concatenate(pieces)
        begins = np.cumsum([0, *map(len, pieces)], dtype=np.int64)[:-1]
        distinct, kind = np.unique(codes, axis=0, return_inverse=True)
        return cls(data, codes, begins, distinct, kind.ravel())

    def weighted(self, log_joint: Array) -> tuple[float, Array]:
        """Return the log likelihood and the expected count of each distinct row, from log joint probabilities."""
        logs = log_joint[self.kind]
        lengths = np.diff(np.append(self.begins, len(logs)))
        top = np.repeat(np.maximum.reduceat(logs, self.begins), lengths)
        share = np.exp(logs - np.where(np.isfinite(top), top, 0.0))
        total = np.add.reduceat(share, self.begins)
        with np.errstate(divide="ignore", invalid="ignore"):
            evidence = np.log(total) + top[self.begins]
            posterior = share * np.repeat(self.data.weights / total, lengths)
        log_likelihood = float(self.data.weights @ evidence)
        return log_likelihood, np.bincount(self.kind, np.nan_to_num(posterior), len(self.distinct))

    def observations(self, expected: Array) -> Observations:
        """Return the distinct completions with these weights, as Observations."""
        kept = expected > 0
        states = dict(self.data.states)
        return Observations.of_codes(self.distinct[kept], states, weights=expected[kept])


def _read(name: str, column: Any, states: Sequence[Any] | None) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return states and codes of a column; -1 for a missing cell."""
    if isinstance(column, CodedColumn):
        levels = tuple(sorted(column.words)) if states is None else tuple(map(str, states))
        of_word = np.append(_lookup(name, column.words, {word: i for i, word in enumerate(levels)}), -1)
        return levels, of_word[column.codes]
    column = as_states(read_column(name, column), states)
    absent = column.absent()
    present = column.values[~absent]
    if not len(present):
        raise DataError(
            f"column '{name}' has no cell that is not missing; leave it out, or give it as hidden", code="no-values"
        )
    levels, codes = _states_of_numbers(name, Column(present, column.dims), states)
    out = np.full(len(absent), -1, np.int64)
    out[~absent] = codes
    return levels, out
