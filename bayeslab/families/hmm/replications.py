"""Draws of rows given the observations: posterior predictive draws, missing cells, and autoregressive windows.

States are drawn given all rows, and rows given the states. With a ``window`` of w, a row has a distribution only if the
w values before it are known:

- an observed value without a complete past is conditioned on and kept;
- a missing cell is drawn given the values before it, of which missing ones are drawn first: draws of consecutive
  missing cells are joint draws given the past. Later values without a complete past are conditioned on, and carry no
  information about it;
- a missing cell without a past, in the first rows of a sequence, has no distribution: NaN.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.errors import DataError
from bayeslab.families import ATOM, DENSITY, GIVEN, PROBABILITY
from bayeslab.families.hmm import linear
from bayeslab.families.hmm.given_parameters import is_whole
from bayeslab.families.hmm.hidden import Hidden, draws_of
from bayeslab.families.hmm.sequences import read_columns, spread
from bayeslab.families.hmm.spec import HMM, layout_of
from bayeslab.language.spec import Model
from bayeslab.posterior.open_cells import Drawn, row_by_row

__all__ = ["completed", "drawn", "events", "position"]


def position(resolved: Any, column: str) -> int:
    """Position of a column in the rows of a resolved model."""
    if isinstance(resolved, Hidden):
        return next(part.position(column) for part in resolved.parts if column in part.columns)
    return int(resolved.columns.index(column))


def _spec(model: Model) -> HMM:
    assert isinstance(model.model, HMM)
    return model.model


# --------------------------------------------------------------------------------- a window on the past


@dataclass(frozen=True, eq=False)
class _Windowed:
    """Values of a column at all times, and the values they depend on.

    Attributes
    ----------
    values : ndarray (n_times,)
        NaN where a cell is missing.
    before : ndarray (n_times, window)
        The times of the values that each depends on; -1 before the first of a sequence.
    """

    values: np.ndarray
    before: np.ndarray

    @property
    def conditioned(self) -> np.ndarray:
        """The times of observed values without a complete past."""
        return ~np.isnan(self.values) & np.isnan(self.past(self.values)).any(axis=1)

    def past(self, values: np.ndarray) -> np.ndarray:
        """The values (n_times, window) before each time, NaN where unknown."""
        return np.where(self.before < 0, np.nan, values[self.before])

    def rounds(self) -> list[np.ndarray]:
        """Times of missing cells in rounds: each round depends only on observed values and earlier rounds."""
        rank = np.where(np.isnan(self.values), np.inf, 0.0)
        for time in np.flatnonzero(np.isnan(self.values)):
            before = self.before[time]
            rank[time] = np.inf if (before < 0).any() else 1 + rank[before].max()
        last = int(np.max(rank, where=np.isfinite(rank), initial=0))
        return [np.flatnonzero(rank == n) for n in range(1, last + 1)]


def _windowed(spec: HMM, data: Data, hidden: Hidden) -> _Windowed:
    sequences = hidden.sequences
    values = spread(sequences, read_columns(data, spec.columns[:1], frozenset(), len(sequences.at)))[:, 0]
    first = np.repeat(sequences.offsets[:-1], np.diff(sequences.offsets))
    before = np.arange(sequences.n_times)[:, None] - np.arange(1, spec.window + 1)
    return _Windowed(values, np.where(before < first[:, None], -1, before))


def _replicated_in_turn(
    rng: np.random.Generator,
    hidden: Hidden,
    windowed: _Windowed,
    rounds: list[np.ndarray],
    values: Mapping[str, np.ndarray],
    states: np.ndarray,
) -> np.ndarray:
    """The column (n_times,) given the states: missing cells in turn, then new draws of the rows that have a past."""
    (part,) = hidden.parts
    theta, n = part.to_emission(values), windowed.before.shape[1]
    known = hidden.rows[:, list(part.at[:-1])][:, :-n]

    def at(times: np.ndarray, filled: np.ndarray) -> np.ndarray:
        inputs = np.column_stack([known[times], filled[windowed.before[times]]])
        return part.sample(rng, theta, states[times], inputs)[:, 0]

    filled = windowed.values.copy()
    for times in rounds:
        filled[times] = at(times, filled)
    anew = np.flatnonzero(~np.isnan(windowed.values) & ~windowed.conditioned)
    out = filled.copy()
    out[anew] = at(anew, windowed.values)
    return out


# --------------------------------------------------------------------------------- the contract


def events(spec: HMM, data: Data, hidden: Hidden) -> dict[str, np.ndarray]:
    """Kind of likelihood of each value of a column."""
    at = hidden.sequences.at
    out = {}
    for part in hidden.parts:
        for column in part.columns:
            cells = hidden.rows[at][:, part.position(column)]
            kind = np.full(len(at), PROBABILITY if part.discrete else DENSITY)
            kind[np.isin(cells, part.atoms)] = ATOM
            out[column] = kind
    if spec.window:
        out[spec.columns[0]][_windowed(spec, data, hidden).conditioned[at]] = GIVEN
    return out


def completed(model: Model, data: Data, chain: Any, draws: Mapping[str, np.ndarray], rng: np.random.Generator) -> Drawn:
    """Draws of the missing cells given all observations; posterior predictive draws of complete rows."""
    spec = _spec(model)
    rows = chain.rows[chain.sequences.at]
    given = {column: rows[:, position(chain, column)] for column in spec.columns}
    if spec.window:
        given = {spec.columns[0]: _windowed(spec, data, chain).values[chain.sequences.at]}
    lacking = {column: np.isnan(cells) for column, cells in given.items()}

    def complete() -> Drawn:
        made = drawn(model, data, chain, draws, rng, rows)
        for column, cells in given.items():
            there = ~lacking[column]
            made[column][1][:, there] = cells[there].astype(made[column][1].dtype)
        return made

    completions = row_by_row(lacking, complete, lambda: drawn(model, data, chain, draws, rng, np.nan))
    if spec.window:
        _say_what_has_no_past(spec, completions)
    return completions


def _say_what_has_no_past(spec: HMM, completions: Drawn) -> None:
    column = spec.columns[0]
    lost = np.isnan(completions[column][1]).any(axis=0)
    needed = (
        f"with window: {spec.window} the {spec.window} values before it" if spec.window > 1 else "the value before it"
    )
    if lost.all():
        raise DataError(
            f"no row has a distribution of '{column}': {needed} must be known; give the values that come before",
            code="nothing-to-predict",
        )
    if lost.any():
        warnings.warn(
            f"'{column}', row {int(np.argmax(lost)) + 1}, has no distribution and is NaN: {needed} must be known"
            f" ({int(lost.sum())} such rows)",
            UserWarning,
            stacklevel=2,
        )


def drawn(
    model: Model,
    data: Data,
    hidden: Any,
    draws: Mapping[str, np.ndarray],
    rng: np.random.Generator,
    rows: np.ndarray | float,
) -> Drawn:
    """Rows in states drawn given all observations, and given their own observed cells in ``rows`` (NaN: none)."""
    spec = _spec(model)
    if spec.states == "continuous":
        return linear.predictive(model, hidden, draws, rng)
    made: dict[str, list[np.ndarray]] = {c: [] for c in spec.columns}
    at = hidden.sequences.at
    cells_there = np.broadcast_to(rows, (len(at), hidden.rows.shape[1]))
    windowed = _windowed(spec, data, hidden) if spec.window else None
    rounds = [] if windowed is None else windowed.rounds()
    for _, values in draws_of(hidden, draws):
        states = hidden.law(values).sample(rng)
        if windowed is not None:
            made[spec.columns[0]].append(_replicated_in_turn(rng, hidden, windowed, rounds, values, states)[at])
            continue
        for column, cells in _replicated(rng, hidden, values, states[at], cells_there).items():
            made[column].append(cells)
    whole = {c for _, word, columns in layout_of(spec) if is_whole(word) for c in columns}
    return {c: ((model.data.rows,), _as_whole(np.stack(v)) if c in whole else np.stack(v)) for c, v in made.items()}


def _as_whole(values: np.ndarray) -> np.ndarray:
    """Convert whole numbers to integers, unless some are missing."""
    return values if np.isnan(values).any() else values.astype(np.int64)


def _replicated(
    rng: np.random.Generator,
    hidden: Hidden,
    values: Mapping[str, np.ndarray],
    states: np.ndarray,
    cells_there: np.ndarray,
) -> dict[str, np.ndarray]:
    """The columns (n_rows,) given the rows' states and their observed cells."""
    out: dict[str, np.ndarray] = {}
    for part in hidden.parts:
        rows = part.replicated(rng, values, states, hidden.rows[hidden.sequences.at], cells_there)
        for j, column in enumerate(part.columns):
            # With a switch, a column has one part for each chain.
            out[column] = np.where(part.emits(states), rows[:, j], out[column]) if column in out else rows[:, j]
    return out
