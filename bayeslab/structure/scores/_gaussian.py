"""Scores of Gaussian families that are differences of functions of log determinants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import DataError
from bayeslab.structure.constraints import mask_of, members_of
from bayeslab.structure.counts import SetIndex, in_threads
from bayeslab.structure.data import Observations
from bayeslab.structure.scores import Work
from bayeslab.structure.scores._families import CliqueFamilies, Found

__all__ = ["GaussianScore", "numbers", "scatter"]


def numbers(data: Any, score: str) -> Observations:
    """A table of numbers without constant columns."""
    found = Observations.of(data, kind="continuous")
    found.require("continuous", score)
    for name, values in zip(found.names, found.values.T, strict=True):
        if np.ptp(values) == 0:
            raise DataError(f"column '{name}' is constant: it has no variance to explain; leave it out")
    return found


def scatter(data: Observations) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Number of rows, means, and sums of squares and products about the means."""
    weights = data.weights.astype(np.float64)
    total = float(weights.sum())
    mean = weights @ data.values / total
    centred = data.values - mean
    # What rounding of the mean has left.
    centred -= weights @ centred / total
    return total, mean, (centred * weights[:, None]).T @ centred


@dataclass(frozen=True, eq=False)
class GaussianScore:
    """local(v, P) = c(P and v) - c(P) with c(S) = constant[|S|] + slope[|S|] * log det matrix[S, S].

    Attributes
    ----------
    score : str
    data : Observations
    matrix : ndarray, shape (n, n)
        Positive definite.
    constant, slope : ndarray, shape (n + 1,)
        By the number of variables.
    """

    score: str
    data: Observations
    matrix: NDArray[np.float64]
    constant: NDArray[np.float64]
    slope: NDArray[np.float64]

    @property
    def names(self) -> tuple[str, ...]:
        return self.data.names

    def _of_set(self, members: Sequence[int]) -> float:
        k = len(members)
        log_det = np.linalg.slogdet(self.matrix[np.ix_(members, members)])[1] if k else 0.0
        return float(self.constant[k] + self.slope[k] * log_det)

    def local(self, child: int, parents: tuple[int, ...]) -> float:
        """Local score of a variable given its parents."""
        return float(self.many(child, mask_of(parents, self.data.n)[None])[0])

    def many(self, child: int, sets: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Local scores of some parent sets given as bits, shape (n_sets, n_words)."""
        found = [members_of(mask) for mask in sets]
        return np.array([self._of_set([*own, child]) - self._of_set(own) for own in found])

    def _walk(
        self,
        variables: NDArray[np.int64],
        index: SetIndex,
        limits: NDArray[np.int64],
        parent_limit: int,
        *,
        threads: int = 1,
        tick: Callable[[], None] | None = None,
    ) -> NDArray[np.float64]:
        from bayeslab.structure._score_kernels import clique_log_determinants

        matrix = np.ascontiguousarray(self.matrix[np.ix_(variables, variables)])
        out = np.zeros((index.size, 1))
        out[0] = self.constant[0]

        def walk_from(root: int) -> None:
            limit = int(limits[root])
            clique_log_determinants(matrix, root, limit, index.binomial, index.offsets, self.constant, self.slope, out)

        roots = [root for root in range(len(variables)) if limits[root] > 0]
        in_threads(walk_from, roots, threads if index.size > 100_000 else 1, tick)
        return out

    def all_sets(
        self,
        children: NDArray[np.int64],
        limits: NDArray[np.int64],
        allowed: NDArray[np.bool_],
        work: Work = Work(),  # noqa: B008 - frozen
    ) -> list[Found]:
        """Local scores of all sets of allowed parents, small sets first."""
        n = self.data.n
        families = CliqueFamilies(self._walk, np.ones(n, np.int64), np.zeros(n, np.int64), 0.0, np.zeros(n + 1))
        return families.all_sets(children, limits, allowed, work)

    def seconds(self, n_sets: int) -> float:
        """About how long that many sets take on one core."""
        return n_sets * 3e-7
