r"""BDs: BDeu with the imaginary rows spread only over the parent configurations that occur in the data.

.. math:: a_{ijk} = \frac{a}{\tilde q_i r_i} \text{ where } N_{ij} > 0, \text{ else } 0

If all configurations occur, BDs equals BDeu; if few occur, BDeu spreads its prior over empty cells and BDs does not.
Equivalent structures need not have equal scores.

References
----------
.. [1] Scutari (2016). An empirical-Bayes score for discrete Bayesian networks. PGM 8, JMLR W&CP 52, 438-448.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import OptionError
from bayeslab.structure.constraints import mask_of, members_of
from bayeslab.structure.counts import CellSums, CliqueCounter, SetIndex, in_threads
from bayeslab.structure.data import Observations
from bayeslab.structure.scores import Work
from bayeslab.structure.scores.toolbox.families import parent_sets

__all__ = ["SparseDirichlet", "score"]


@dataclass(frozen=True, eq=False)
class SparseDirichlet:
    """The BDs score of a data set."""

    data: Observations
    equivalent_sample_size: float
    score: str = "bds"

    @property
    def names(self) -> tuple[str, ...]:
        return self.data.names

    @cached_property
    def _counter(self) -> CliqueCounter:
        return CliqueCounter(self.data, CellSums("entropy"))

    def _of_sets(self, child: int, candidates: NDArray[np.int64], limit: int) -> NDArray[np.float64]:
        """Local scores of all sets of at most ``limit`` candidates, in the order of their numbers."""
        index = SetIndex(len(candidates), limit)
        out = np.zeros(index.size)
        self._counter.sparse_families(child, candidates, index, float(self.equivalent_sample_size), out)
        return out

    def local(self, child: int, parents: tuple[int, ...]) -> float:
        """Local score of a variable given its parents."""
        return float(self.many(child, mask_of(parents, self.data.n)[None])[0])

    def many(self, child: int, sets: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Local scores of parent sets given as bits, shape (n_sets, n_words)."""
        parent_sets = [np.array(members_of(mask), dtype=np.int64) for mask in sets]
        # The set of all candidates has the last number.
        return np.array([self._of_sets(child, parents, len(parents))[-1] for parents in parent_sets])

    def all_sets(
        self,
        children: NDArray[np.int64],
        limits: NDArray[np.int64],
        allowed: NDArray[np.bool_],
        work: Work = Work(),  # noqa: B008 - frozen
    ) -> list[tuple[NDArray[np.uint64], NDArray[np.float64]]]:
        """Local scores of all sets of allowed parents, small sets first."""
        nothing = (np.zeros((0, 0), np.uint64), np.zeros(0))
        out = [nothing] * len(children)
        self._counter.prepare()

        def write(i: int) -> None:
            child = int(children[i])
            candidates = np.flatnonzero(allowed[i] & (np.arange(self.data.n) != child)).astype(np.int64)
            limit = min(int(limits[i]), len(candidates))
            out[i] = parent_sets(child, allowed[i], limit), self._of_sets(child, candidates, limit)

        in_threads(write, range(len(children)), work.threads, work.tick)
        return out

    def seconds(self, n_sets: int) -> float:
        """Return the estimated time in seconds for this many sets on one core."""
        return n_sets * (1e-6 + 2e-9 * len(self.data.weights))


def score(
    data: Any, *, equivalent_sample_size: float = 10.0, states: Mapping[str, Sequence[Any]] | None = None
) -> SparseDirichlet:
    """Return the BDs score of a table.

    Parameters
    ----------
    data
        A table (:meth:`bayeslab.structure.data.Observations.of`).
    equivalent_sample_size
        The number of imaginary rows, spread evenly over the cells of occurring parent configurations.
    states
        States of variables in order, if not all of them occur in the data.
    """
    if not equivalent_sample_size > 0:
        raise OptionError(
            f"equivalent_sample_size is a number above 0; given {equivalent_sample_size}", code="out-of-range"
        )
    observations = Observations.of(data, kind="discrete", states=states)
    observations.require("discrete", "bds")
    return SparseDirichlet(observations, float(equivalent_sample_size))
