r"""BIC of conditional linear Gaussian networks: discrete and continuous variables in one net.

A discrete variable has discrete parents and a table. A continuous variable has, for each configuration of its discrete
parents, a linear regression on its continuous parents with its own variance. All are fitted by maximum likelihood, and
every free parameter costs :math:`\frac{1}{2} \log N`: q (r - 1) for a table, q (k + 2) for the regressions on k
parents.

A discrete variable cannot have a continuous parent: the score is -inf. It is also -inf for a regression with so few
rows in a configuration that the fit is perfect, because its likelihood would be unbounded.

References
----------
.. [1] Lauritzen, Wermuth (1989). Graphical models for associations between variables, some of which are qualitative and
   some quantitative. Annals of Statistics 17, 31-57.
.. [2] Bøttcher (2001). Learning Bayesian networks with mixed variables. AISTATS 8.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import DataError
from bayeslab.structure.constraints import members_of
from bayeslab.structure.data import Observations
from bayeslab.structure.scores import Work
from bayeslab.structure.scores.toolbox.families import Found, one_by_one

__all__ = ["MixedScore", "score"]

# A residual variance below this share of the variable's variance is a perfect fit.
_PERFECT = 1e-10


@dataclass(frozen=True, eq=False)
class MixedScore:
    """The conditional Gaussian BIC score of a data set."""

    data: Observations
    score: str = "mixed_bic"

    @property
    def names(self) -> tuple[str, ...]:
        return self.data.names

    @cached_property
    def _weights(self) -> NDArray[np.float64]:
        return self.data.weights.astype(np.float64)

    @cached_property
    def _values(self) -> NDArray[np.float64]:
        """Standardised continuous columns; scores are transformed back to the original scale."""
        if not len(self.data.values):
            return np.zeros(self.data.codes.shape)
        values, exponents = self.data.in_range
        mean = self._weights @ values / self._weights.sum()
        return np.asarray((values - mean) / np.ldexp(self._scales, -exponents))

    @cached_property
    def _scales(self) -> NDArray[np.float64]:
        if not len(self.data.values):
            return np.ones(self.data.n)
        values, exponents = self.data.in_range
        return np.where(self.data.continuous, np.ldexp(values.std(axis=0), exponents), 1.0)

    def local(self, child: int, parents: tuple[int, ...]) -> float:
        """Local score of a variable given its parents."""
        continuous = self.data.continuous
        numbers, states = [u for u in parents if continuous[u]], [u for u in parents if not continuous[u]]
        price = 0.5 * math.log(self._weights.sum())
        q = float(np.prod(self.data.cards[states], dtype=float))
        if not continuous[child]:
            if numbers:
                return -math.inf
            return self._table(child, states) - price * q * float(self.data.cards[child] - 1)
        return self._regressions(child, states, numbers) - price * q * (len(numbers) + 2)

    def _cells(self, states: Sequence[int]) -> NDArray[np.int64]:
        """Number of the configuration of some discrete variables in each row; only occurring ones are numbered."""
        cell = np.zeros(len(self._weights), np.int64)
        for u in states:
            cell = np.unique(cell * self.data.cards[u] + self.data.codes[:, u], return_inverse=True)[1]
        return cell

    def _table(self, child: int, states: Sequence[int]) -> float:
        from scipy.special import xlogy

        above = self._cells(states)
        both = above * self.data.cards[child] + self.data.codes[:, child]
        n, n_both = np.bincount(above, self._weights), np.bincount(both, self._weights)
        return float(xlogy(n_both, n_both).sum() - xlogy(n, n).sum())

    def _regressions(self, child: int, states: Sequence[int], numbers: Sequence[int]) -> float:
        """Total log likelihood of the regressions, one for each occurring configuration."""
        cell, w = self._cells(states), self._weights
        design = np.column_stack([np.ones(len(w)), *(self._values[:, u] for u in numbers), self._values[:, child]])
        k, n_cells = design.shape[1], int(cell.max(initial=0)) + 1
        # Sums of products of all columns in each configuration.
        moments = np.empty((n_cells, k, k))
        for i in range(k):
            for j in range(i + 1):
                moments[:, i, j] = moments[:, j, i] = np.bincount(cell, w * design[:, i] * design[:, j], n_cells)
        n = moments[:, 0, 0]
        rows, total = np.bincount(cell, w > 0, n_cells), 0.0
        for c in np.flatnonzero(n > 0):
            if rows[c] < k:
                return -math.inf
            gram, cross = moments[c, :-1, :-1], moments[c, :-1, -1]
            left = moments[c, -1, -1] - cross @ np.linalg.lstsq(gram, cross, rcond=None)[0]
            if left < _PERFECT * n[c]:
                return -math.inf
            total -= n[c] / 2 * (math.log(2 * math.pi * left / n[c]) + 1)
        return total - float(w.sum() * math.log(self._scales[child]))

    def many(self, child: int, sets: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Local scores of parent sets given as bits, shape (n_sets, n_words)."""
        return np.array([self.local(child, members_of(mask)) for mask in sets])

    def all_sets(
        self,
        children: NDArray[np.int64],
        limits: NDArray[np.int64],
        allowed: NDArray[np.bool_],
        work: Work = Work(),  # noqa: B008 - frozen
    ) -> list[Found]:
        """Local scores of all sets of allowed parents, small sets first."""
        discrete = ~self.data.continuous
        possible = allowed & (discrete[None, :] | ~discrete[children][:, None])
        return one_by_one(self.local, children, limits, possible, work)

    def seconds(self, n_sets: int) -> float:
        """Return the estimated time in seconds for this many sets on one core."""
        return n_sets * (1e-4 + 1e-7 * len(self._weights))


def score(data: Any, *, states: Mapping[str, Sequence[Any]] | None = None) -> MixedScore:
    """Return the conditional Gaussian BIC score of a table.

    Parameters
    ----------
    data
        A table; columns of text and truth values, and those named in ``states``, are discrete.
    states
        States of discrete variables in order, if they are numbers or not all of them occur.
    """
    observations = Observations.of(data, kind="mixed", states=states)
    observations.require("mixed", "mixed_bic")
    for v in np.flatnonzero(observations.continuous):
        if np.ptp(observations.values[:, v]) == 0:
            raise DataError(
                f"column '{observations.names[v]}' is constant: it has no variance to explain; leave it out",
                code="constant",
            )
    return MixedScore(observations)
