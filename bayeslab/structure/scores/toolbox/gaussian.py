"""Scores of Gaussian families that are differences of functions of log determinants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import DataError, OptionError
from bayeslab.structure.constraints import mask_of, members_of
from bayeslab.structure.counts import SetIndex, in_threads
from bayeslab.structure.data import Observations
from bayeslab.structure.scores import Work
from bayeslab.structure.scores.toolbox.families import CliqueFamilies, Found

__all__ = ["GaussianScore", "Moments", "numbers"]


def numbers(data: Any, score: str) -> Observations:
    """Return a table of numbers, after checking that no column is constant."""
    observations = Observations.of(data, kind="continuous")
    observations.require("continuous", score)
    for name, values in zip(observations.names, observations.values.T, strict=True):
        if values.min() == values.max():
            raise DataError(
                f"column '{name}' is constant: it has no variance to explain; leave it out", code="constant"
            )
    return observations


@dataclass(frozen=True, eq=False)
class Moments:
    """Sufficient statistics for Gaussian scores, with each column in its own unit.

    Squares and products are of columns divided by their units, so that very large and very small numbers stay within
    the range of floats, and determinants do not depend on the units of measurement.

    Attributes
    ----------
    n_rows : float
        The sum of the weights.
    mean, scale : ndarray, shape (n,)
        Means and units of the columns, in the units of measurement.
    spread : ndarray, shape (n, n)
        Sums of squares and products of (column - mean) / scale.
    """

    n_rows: float
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    spread: NDArray[np.float64]

    @classmethod
    def of(cls, data: Observations, scale: NDArray[np.float64] | None = None) -> Moments:
        """Compute from weighted rows.

        Parameters
        ----------
        scale
            The unit of each column; default: its sample standard deviation (unweighted if the weighted rows have no two
            distinct values).

        Raises
        ------
        OptionError
            The values of a column are so large relative to its unit that squares overflow.
        """
        weights = data.weights.astype(np.float64)
        total = float(weights.sum())
        values, exponent = data.in_range
        mean = weights @ values / total
        centred = values - mean
        # Correct for the rounding of the mean.
        centred -= weights @ centred / total
        if scale is None:
            variance = weights @ centred**2 / (total - 1) if total > 1 else np.zeros(data.n)
            unit = np.sqrt(np.where(variance > 0, variance, values.var(axis=0, ddof=1)))
            units = np.ldexp(unit, exponent)
        else:
            unit, units = np.ldexp(scale, -exponent), scale
            for name, far in zip(data.names, np.abs(centred).max(axis=0, initial=0.0) > 1e150 * unit, strict=True):
                if far:
                    raise OptionError(
                        f"scale is the unit of each column, and '{name}' is more than 1e150 times as large",
                        code="out-of-range",
                    )
        standard = centred / unit
        return cls(total, np.ldexp(mean, exponent), units, (standard * weights[:, None]).T @ standard)


@dataclass(frozen=True, eq=False)
class GaussianScore:
    """local(v, P) = offset[v] + c(P and v) - c(P), c(S) = constant[|S|] + slope[|S|] * log det matrix[S, S].

    Attributes
    ----------
    score : str
    data : Observations
    matrix : ndarray, shape (n, n)
        Positive definite.
    constant, slope : ndarray, shape (n + 1,)
        By the number of variables.
    offset : ndarray, shape (n,)
        Offset of each variable, independent of its parents.
    """

    score: str
    data: Observations
    matrix: NDArray[np.float64]
    constant: NDArray[np.float64]
    slope: NDArray[np.float64]
    offset: NDArray[np.float64]

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
        """Local scores of parent sets given as bits, shape (n_sets, n_words)."""
        parent_sets = [members_of(mask) for mask in sets]
        return self.offset[child] + np.array(
            [self._of_set([*parents, child]) - self._of_set(parents) for parents in parent_sets]
        )

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
        from bayeslab.structure.score_kernels import clique_log_determinants

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
        scored = families.all_sets(children, limits, allowed, work)
        return [(sets, scores + self.offset[v]) for v, (sets, scores) in zip(children, scored, strict=True)]

    def seconds(self, n_sets: int) -> float:
        """Return the estimated time in seconds for this many sets on one core."""
        return n_sets * 3e-7
