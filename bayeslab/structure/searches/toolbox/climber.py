"""The current graph of a climb: its moves, their gains, and which of them keep it acyclic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.structure.searches.toolbox.scorer import Scorer, bits

__all__ = ["Climber", "Move"]


_WORD = (1 << 64) - 1


def _key_of_edge(number: int) -> int:
    """Return 64 random-looking bits for an edge; graphs are distinguished by the exclusive or of their edges' keys.

    The mixing function is SplitMix64 (Steele, Lea and Flood 2014); two of 10^6 graphs share a key with probability
    3e-8.
    """
    z = (number + 1) * 0x9E3779B97F4A7C15 & _WORD
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _WORD
    return z ^ z >> 31


@dataclass(frozen=True)
class Move:
    """Add or delete the edge from u to v, whichever is possible, or reverse it."""

    u: int
    v: int
    reverse: bool

    def state_after(self, state: int, n: int) -> int:
        """Return the key of the graph after the move."""
        state ^= _key_of_edge(self.u * n + self.v)
        return state ^ _key_of_edge(self.v * n + self.u) if self.reverse else state


class Climber:
    """A graph under moves; after a move only the variables whose parents changed are rescored.

    Attributes
    ----------
    parents : list of int
        Parents of each variable, as bits.
    edges : ndarray of bool, shape (n, n)
        At [from, to].
    state : int
        A key of 64 bits that distinguishes graphs.
    score : float
    """

    def __init__(self, scorer: Scorer, parents: Sequence[int]) -> None:
        self.scorer = scorer
        self.parents = list(parents)
        n = scorer.n
        self.edges = np.zeros((n, n), dtype=bool)
        self._gains = np.empty((n, n))
        self._local = np.empty(n)
        self.state = 0
        for v, mask in enumerate(self.parents):
            for u in bits(mask):
                self.state ^= _key_of_edge(u * n + v)
            self._look_up(v)
        self._above = np.empty((n, n), dtype=bool)
        self._kernels.ancestors(self.edges, self._above)

    @property
    def _kernels(self) -> Any:
        from bayeslab.structure.searches.toolbox import climb_kernels

        return climb_kernels

    def _look_up(self, v: int) -> None:
        mask = self.parents[v]
        self.edges[:, v] = False
        for u in bits(mask):
            self.edges[u, v] = True
        self._gains[:, v] = self.scorer.gains(v, mask)
        self._local[v] = self.scorer.local(v, mask)

    @property
    def score(self) -> float:
        return float(self._local.sum())

    def gains(self) -> NDArray[np.float64]:
        """Return the gain of each move, shape (n, n, 2): [from, to, 0] adds or deletes, [from, to, 1] reverses.

        The gain is -inf if a move would close a cycle or violate a constraint.
        """
        out = np.empty((*self.edges.shape, 2))
        self._kernels.move_gains(self._gains, self.edges, self._above, self.scorer.needed, out)
        return out

    def best(self, gains: NDArray[np.float64], taboo: set[int] | None = None) -> tuple[Move, float] | None:
        """Return the best move that leads to no taboo graph, the first by name on a tie; None if there is none.

        The gains of taboo moves are set to -inf in place.
        """
        flat = gains.reshape(-1)
        while True:
            at = int(self._kernels.best_place(flat, self.scorer.tolerance))
            if at < 0:
                return None
            move = self.move_at(at)
            if not taboo or move.state_after(self.state, self.scorer.n) not in taboo:
                return move, float(flat[at])
            flat[at] = -np.inf

    def move_at(self, number: int) -> Move:
        """Return the move at a position in the flattened gains."""
        pair, reverse = divmod(number, 2)
        u, v = divmod(pair, self.scorer.n)
        return Move(u, v, bool(reverse))

    def apply(self, move: Move) -> None:
        u, v = move.u, move.v
        added = not self.parents[v] >> u & 1
        self.state = move.state_after(self.state, self.scorer.n)
        self.parents[v] ^= 1 << u
        self._look_up(v)
        if move.reverse:
            self.parents[u] ^= 1 << v
            self._look_up(u)
        if added:
            self._kernels.join(self._above, u, v)
        else:
            self._kernels.ancestors(self.edges, self._above)
