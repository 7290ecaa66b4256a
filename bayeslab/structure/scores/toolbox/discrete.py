"""Scores of discrete families that are differences of sums over cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.structure.constraints import mask_of
from bayeslab.structure.counts import CellSums, CliqueCounter
from bayeslab.structure.data import Observations
from bayeslab.structure.scores import Work
from bayeslab.structure.scores.toolbox.families import CliqueFamilies, Found

__all__ = ["DiscreteScore"]


@dataclass(frozen=True, eq=False)
class DiscreteScore:
    """local(v, P) = c_0(P and v) - c_t(P) - penalty * (number of free parameters) - penalty of the number of parents.

    Attributes
    ----------
    score : str
    data : Observations
    sums : CellSums
        The functions summed over cells; if there are several types, those after the first are for parents,
        by child.
    kinds : ndarray of int, shape (n,)
        Type of sum for the parents of each variable.
    per_parameter : float
        Penalty per free parameter.
    by_size : ndarray, shape (n + 1,)
        Penalty by number of parents.
    """

    score: str
    data: Observations
    sums: CellSums
    kinds: NDArray[np.int64]
    per_parameter: float
    by_size: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        score: str,
        data: Observations,
        sums: CellSums,
        *,
        kinds: NDArray[np.int64] | None = None,
        per_parameter: float = 0.0,
        by_size: NDArray[np.float64] | None = None,
    ) -> DiscreteScore:
        data.require("discrete", score)
        same = np.zeros(data.n, np.int64)
        free = np.zeros(data.n + 1)
        return cls(
            score, data, sums, same if kinds is None else kinds, per_parameter, free if by_size is None else by_size
        )

    @property
    def names(self) -> tuple[str, ...]:
        return self.data.names

    @cached_property
    def counter(self) -> Any:
        """The counter of sets of variables: compiled loops over rows in memory, or DuckDB."""
        if self.data.elsewhere is not None:
            return self.data.elsewhere.counter(self.data, self.sums)
        return CliqueCounter(self.data, self.sums)

    def local(self, child: int, parents: tuple[int, ...]) -> float:
        """Local score of a variable given its parents."""
        return float(self.many(child, mask_of(parents, self.data.n)[None])[0])

    def many(self, child: int, sets: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Local scores of parent sets given as bits, shape (n_sets, n_words)."""
        sums = self.counter.families(child, sets, int(self.kinds[child]))
        scores = sums[:, 1] - sums[:, 0]
        if self.per_parameter:
            logs = np.zeros(len(sets))
            for u, card in enumerate(self.data.cards):
                logs += np.log(card) * ((sets[:, u // 64] >> np.uint64(u % 64)) & np.uint64(1))
            scores -= self.per_parameter * np.round(np.exp(logs)) * (self.data.cards[child] - 1)
        return np.asarray(scores - self.by_size[np.bitwise_count(sets).sum(axis=1)])

    def all_sets(
        self,
        children: NDArray[np.int64],
        limits: NDArray[np.int64],
        allowed: NDArray[np.bool_],
        work: Work = Work(),  # noqa: B008 - frozen
    ) -> list[Found]:
        """Local scores of all sets of allowed parents, small sets first."""
        self.counter.prepare()
        walk = self.counter.walk
        families = CliqueFamilies(walk, self.data.cards, self.kinds, self.per_parameter, self.by_size)
        return families.all_sets(children, limits, allowed, work)

    def seconds(self, n_sets: int) -> float:
        """Return the estimated time in seconds for this many sets on one core."""
        return n_sets * (1e-7 + 0.4e-9 * len(self.data.weights))
