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
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from bayeslab.data.sequences import Sequences
from bayeslab.errors import DataError
from bayeslab.posterior.chains.hidden import Hidden
from bayeslab.posterior.draws import each_draw
from bayeslab.posterior.event_kinds import ATOM, DENSITY, GIVEN, PROBABILITY
from bayeslab.posterior.open_cells import Drawn, row_by_row

__all__ = ["Windowed", "completed", "drawn", "event_kinds", "with_missing"]

# --------------------------------------------------------------------------------- a window on the past


@dataclass(frozen=True, eq=False)
class Windowed:
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

    @staticmethod
    def of(values: np.ndarray, sequences: Sequences, window: int) -> Windowed:
        """The values (n_times,) of a column that depend on the values at so many times before."""
        first = np.repeat(sequences.offsets[:-1], np.diff(sequences.offsets))
        before = np.arange(sequences.n_times)[:, None] - np.arange(1, window + 1)
        return Windowed(values, np.where(before < first[:, None], -1, before))

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


def _replicated_in_turn(
    rng: np.random.Generator,
    hidden: Hidden,
    windowed: Windowed,
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


# --------------------------------------------------------------------------------- predictions


def event_kinds(hidden: Hidden, windowed: Windowed | None) -> dict[str, np.ndarray]:
    """Kind of likelihood of each value of a column."""
    at = hidden.sequences.at
    out = {}
    for part in hidden.parts:
        for column in part.columns:
            cells = hidden.rows[at][:, part.position(column)]
            kind = np.full(len(at), PROBABILITY if part.discrete else DENSITY)
            kind[np.isin(cells, part.atoms)] = ATOM
            if windowed is not None:
                kind[windowed.conditioned[at]] = GIVEN
            out[column] = kind
    return out


def completed(
    hidden: Hidden, draws: Mapping[str, np.ndarray], rng: np.random.Generator, rows: str, windowed: Windowed | None
) -> Drawn:
    """Draws of the missing cells given all observations; posterior predictive draws of complete rows.

    Parameters
    ----------
    rows : str
        Dimension of the rows.
    windowed : Windowed or None
        The values of the only column, if they depend on those before.
    """
    cells = hidden.rows[hidden.sequences.at]
    given = {column: cells[:, part.position(column)] for part in hidden.parts for column in part.columns}
    if windowed is not None:
        given = dict.fromkeys(given, windowed.values[hidden.sequences.at])
    out = with_missing(
        given,
        lambda: drawn(hidden, draws, rng, rows, windowed, cells),
        lambda: drawn(hidden, draws, rng, rows, windowed),
    )
    if windowed is not None:
        _say_what_has_no_past(windowed.before.shape[1], out)
    return out


def with_missing(
    given: Mapping[str, np.ndarray], complete: Callable[[], Drawn], replicate: Callable[[], Drawn]
) -> Drawn:
    """Draws of the missing cells of some columns, and replications of complete rows.

    Parameters
    ----------
    given : mapping of str to ndarray (n_rows,)
        The columns, NaN for missing cells.
    complete
        Draws all columns given all observed cells.
    replicate
        Draws all columns anew.
    """

    def kept() -> Drawn:
        made = complete()
        for column, cells in given.items():
            there = ~np.isnan(cells)
            made[column][1][:, there] = cells[there].astype(made[column][1].dtype)
        return made

    return row_by_row({column: np.isnan(cells) for column, cells in given.items()}, kept, replicate)


def _say_what_has_no_past(window: int, completions: Drawn) -> None:
    column = next(iter(completions))
    lost = np.isnan(completions[column][1]).any(axis=0)
    needed = f"with window: {window} the {window} values before it" if window > 1 else "the value before it"
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
    hidden: Hidden,
    draws: Mapping[str, np.ndarray],
    rng: np.random.Generator,
    rows: str,
    windowed: Windowed | None,
    cells: np.ndarray | float = np.nan,
) -> Drawn:
    """Rows in states drawn given all observations, and given their own observed ``cells`` (NaN: none)."""
    at = hidden.sequences.at
    cells_there = np.broadcast_to(cells, (len(at), hidden.rows.shape[1]))
    rounds = [] if windowed is None else windowed.rounds()
    made: dict[str, list[np.ndarray]] = {}
    for values in each_draw(draws, hidden.learned):
        states = hidden.law(values).sample(rng)
        if windowed is not None:
            column = hidden.parts[0].columns[0]
            new = {column: _replicated_in_turn(rng, hidden, windowed, rounds, values, states)[at]}
        else:
            new = _replicated(rng, hidden, values, states[at], cells_there)
        for column, column_cells in new.items():
            made.setdefault(column, []).append(column_cells)
    whole = {column for part in hidden.parts if part.discrete for column in part.columns}
    stacked = {column: np.stack(v) for column, v in made.items()}
    # Whole numbers become integers, unless some are missing.
    integers = {c: v.astype(np.int64) for c, v in stacked.items() if c in whole and not np.isnan(v).any()}
    return {c: ((rows,), v) for c, v in (stacked | integers).items()}


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
