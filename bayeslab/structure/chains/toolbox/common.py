"""Code shared by all chains: the score table for compiled loops, starts, random numbers, and thinning."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import ModelError, OptionError
from bayeslab.structure.chains import Info, State
from bayeslab.structure.score_table import ScoreTable

__all__ = ["Ready", "Schedule", "random_start", "ready", "seeds", "share"]

_READY: WeakKeyDictionary[ScoreTable, Ready] = WeakKeyDictionary()


class Arrays(NamedTuple):
    """A score table with the arrays needed for sums over it.

    Attributes
    ----------
    weights : ndarray, shape (n_sets,)
        Exponentials of the scores relative to the best one of the variable.
    candidates : ndarray of uint64, shape (n, n_words)
        The variables in any parent set of each variable.
    first_block : ndarray of int64, shape (n + 1,)
        The sets of variable v, in groups of 64, are the blocks first_block[v] .. first_block[v + 1].
    blocks : ndarray of uint64, shape (n_blocks, n + 1)
        Which sets of a block contain each variable; in the last column, which sets exist.
    """

    pointer: NDArray[np.int64]
    sets: NDArray[np.uint64]
    scores: NDArray[np.float64]
    weights: NDArray[np.float64]
    candidates: NDArray[np.uint64]
    first_block: NDArray[np.int64]
    blocks: NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Ready:
    """A score table with derived arrays.

    Attributes
    ----------
    arrays
        First argument of every kernel.
    empty : ndarray of int64, shape (n,)
        Number of the empty set of each variable; -1 if it is not in the table.
    keys, slots
        Random words of variables, and an open hash table of the parent sets.
    """

    arrays: Arrays
    empty: NDArray[np.int64]
    keys: NDArray[np.uint64]
    slots: NDArray[np.int32]


def ready(table: ScoreTable) -> Ready:
    """Return the table for compiled loops; cached for the lifetime of the table."""
    if table not in _READY:
        _READY[table] = _made(table)
    return _READY[table]


def share(table: ScoreTable, like: ScoreTable) -> None:
    """Declare that a table has the same sets as another one, with other scores in the same order."""
    known = ready(like)
    _READY[table] = replace(known, arrays=known.arrays._replace(scores=table.scores, weights=_weights(table)))


def _weights(table: ScoreTable) -> NDArray[np.float64]:
    best = np.maximum.reduceat(table.scores, table.pointer[:-1])
    weights: NDArray[np.float64] = np.exp(table.scores - np.repeat(best, table.n_sets))
    return weights


def _made(table: ScoreTable) -> Ready:
    from bayeslab.structure.chains.toolbox.kernels import fill_blocks, hash_table

    if np.any(table.n_sets == 0):
        v = table.names[int(np.flatnonzero(table.n_sets == 0)[0])]
        raise ModelError(f"'{v}' has no parent set in the score table, not even the empty one", code="no-acyclic-graph")
    empty = _empty_sets(table)
    candidates = np.bitwise_or.reduceat(table.sets, table.pointer[:-1], axis=0)
    # The choice of random words affects only positions in the hash table.
    keys = np.random.default_rng(0).integers(0, 2**64, (2, table.n), dtype=np.uint64)
    slots = np.full(1 << max(3, int(2 * len(table.sets)).bit_length()), -1, np.int32)
    hash_table(table.pointer, table.sets, keys, slots)
    first_block = np.concatenate([[0], np.cumsum((table.n_sets + 63) // 64)])
    blocks = np.zeros((first_block[-1], table.n + 1), np.uint64)
    fill_blocks(table.pointer, table.sets, first_block, blocks)
    arrays = Arrays(table.pointer, table.sets, table.scores, _weights(table), candidates, first_block, blocks)
    return Ready(arrays, empty, keys, slots)


def _empty_sets(table: ScoreTable) -> NDArray[np.int64]:
    # Small sets usually score well, but the position of the empty set is not known.
    numbers = np.full(table.n, -1, np.int64)
    places = np.flatnonzero(~table.sets.any(axis=1))
    numbers[np.searchsorted(table.pointer, places, side="right") - 1] = places
    return numbers


def seeds(rng: np.random.Generator) -> NDArray[np.uint64]:
    """Return an initial state of the random numbers of a chain."""
    return rng.integers(1, 2**64, 4, dtype=np.uint64)


def random_start(table: ScoreTable, rng: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return a random order allowed by the parent sets, and a DAG drawn from it as numbers of parent sets.

    Raises
    ------
    ModelError
        The parent sets form no acyclic graph.
    """
    from bayeslab.structure.chains.toolbox.kernels import parents_in_order

    known = ready(table)
    placed = np.zeros(table.sets.shape[1], np.uint64)
    left, order = [int(v) for v in rng.permutation(table.n)], []
    while left:
        # A variable that can be placed remains so when more are placed before it: no backtracking is needed.
        for v in left:
            sets = table.sets[table.pointer[v] : table.pointer[v + 1]]
            if not np.all(np.any(sets & ~placed, axis=1)):
                break
        else:
            raise ModelError(
                "no acyclic graph can be made of the parent sets of the score table", code="no-acyclic-graph"
            )
        left.remove(v)
        order.append(v)
        placed[v // 64] |= np.uint64(1) << np.uint64(v % 64)
    out, choice = np.array(order, np.int32), np.empty(table.n, np.int32)
    parents_in_order(known.arrays, out, seeds(rng), choice)
    return out, choice


@dataclass(frozen=True, eq=False)
class Schedule:
    """Numbers of steps and draws of a run, and its position between two draws."""

    n_steps: int
    thin: int
    done: int
    draws: NDArray[np.int32]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, table: ScoreTable, state: State, n_steps: int, thin: int, n_kinds: int) -> Schedule:
        """Create the schedule of a run from a state, with storage for its draws."""
        if n_steps < 0 or thin < 1:
            raise OptionError(
                f"n_steps is 0 or more and thin 1 or more; given {n_steps} and {thin}", code="out-of-range"
            )
        done = int(state["steps"][0])
        n_draws = (done + n_steps) // thin - done // thin
        return cls(n_steps, thin, done, np.empty((n_draws, table.n), np.int32), np.zeros((n_kinds, 2), np.int64))

    @property
    def until_draw(self) -> int:
        """Number of steps to the first draw."""
        return self.thin - self.done % self.thin

    @property
    def steps(self) -> NDArray[np.int64]:
        """Total number of steps of the chain after the run."""
        return np.array([self.done + self.n_steps], np.int64)

    def info(self, table: ScoreTable, kinds: tuple[str, ...]) -> Info:
        """Return the information about the run."""
        proposed, accepted = ({k: int(c) for k, c in zip(kinds, column, strict=True)} for column in self.counts.T)
        return Info(table.scores[self.draws].sum(axis=1), proposed, accepted)
