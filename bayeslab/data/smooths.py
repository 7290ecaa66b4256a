"""Penalised smooths of one predictor: thin-plate regression splines in mixed-model form.

The curve is ``slope (x - mean) + sum of u[j] w[j](x)`` with ``u`` of a common variance. The functions w span the k - 2
curves that the eigenvectors of largest eigenvalues of the radial basis ``|x - x'|^3 / 12`` make [1]_. They are chosen
so that the integral of the squared second derivative of their sum is proportional to ``sum u^2``: the posterior mode
given the variances is the curve of penalised least squares [2]_. Each w is a natural cubic spline with a knot at each
distinct value of the predictor, so it continues as a straight line beyond them; its mean over the rows of the fit is
zero. Their common scale is such that the prior variance of their sum, averaged over these rows, is that of u.

References
----------
.. [1] Wood (2003). Thin plate regression splines. JRSS B 65(1), 95-114.
.. [2] Wood (2017). Generalized Additive Models: an Introduction with R, 2nd ed., sections 5.5 and 5.8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.digits import power_of_two, spread_of, two_means
from bayeslab.errors import DataError

__all__ = ["DEFAULT_SIZE", "LEAST_SIZE", "MOST_KNOTS", "Smooth"]

#: Size of the basis with the constant and the straight line; the smallest size; most knots.
DEFAULT_SIZE, LEAST_SIZE, MOST_KNOTS = 10, 3, 2_000
# Up to this number of knots all eigenvectors are computed.
_FEW = 300


@dataclass(eq=False)
class Smooth:
    """The basis of a smooth, learnt from the rows of a fit.

    Attributes
    ----------
    middle : tuple of float
        Mean of the predictor, as the sum of two doubles.
    unit : float
        Unit in which the knots are measured from there.
    knots : ndarray (m,)
    weights : ndarray (m, k - 2)
        The functions as combinations of ``|z - knots|^3``; columns sum to zero, also times the knots.
    means : ndarray (k - 2,)
        Means of these combinations over the rows of the fit.
    """

    middle: tuple[float, float] | None = None
    unit: float = 1.0
    knots: np.ndarray | None = None
    weights: np.ndarray | None = None
    means: np.ndarray | None = None
    _spline: Any = None

    def line(self, x: np.ndarray) -> np.ndarray:
        """The straight part: the predictor minus its mean."""
        if self.middle is None:
            high, low = two_means(x[:, None])
            self.middle = float(high[0]), float(low[0])
        return np.asarray((x - self.middle[0]) - self.middle[1])

    def learn(self, x: np.ndarray, size: int, name: str) -> None:
        """Learn the basis from the rows of a fit.

        Parameters
        ----------
        x : ndarray (n,)
        size : int
            Size of the basis, k.
        name : str
            The term, for errors.

        Raises
        ------
        DataError
            There are fewer distinct values than functions.
        """
        distinct = len(np.unique(x))
        if distinct < size:
            can = f"use k={distinct} or less" if distinct >= LEAST_SIZE else "too few for a curve"
            raise DataError(
                f"{name}: a basis of k={size} needs at least {size} different values; there are {distinct}: {can}",
                path=("model", "formula"),
                code="too-few",
            )
        centred = self.line(x)
        self.unit = float(power_of_two(spread_of(centred)))
        z = centred / self.unit
        knots = np.unique(z)
        if len(knots) > MOST_KNOTS:
            knots = knots[np.round(np.linspace(0, len(knots) - 1, MOST_KNOTS)).astype(np.int64)]
        values, vectors = _leading(np.abs(knots[:, None] - knots) ** 3, size)
        # Combinations without a part that grows like a constant or a line: natural splines.
        poly = np.column_stack([np.ones(len(knots)), knots])
        free = np.linalg.qr(vectors.T @ poly, mode="complete")[0][:, 2:]
        penalty = free.T @ (values[:, None] * free)
        sizes, axes = np.linalg.eigh(penalty)
        if sizes[0] <= 1e-13 * sizes[-1]:
            raise DataError(
                f"{name}: the values are too near each other to tell {size} functions apart: use a smaller k",
                path=("model", "formula"),
                code="not-identified",
            )
        # Rough curves, which have small eigenvalues, come last.
        weights = vectors @ (free @ (axes / np.sqrt(sizes))[:, ::-1])
        weights *= np.where(weights[np.argmax(np.abs(weights), axis=0), np.arange(size - 2)] < 0, -1.0, 1.0)
        self.knots, self.weights, self.means = knots, weights, np.zeros(size - 2)
        columns = self._columns(z)
        self.means = columns.mean(axis=0)
        scale = float(np.sqrt(np.mean(np.sum((columns - self.means) ** 2, axis=1))))
        self.weights, self.means, self._spline = weights / scale, self.means / scale, None

    def waves(self, x: np.ndarray) -> np.ndarray:
        """The functions w at rows, shape (n, k - 2)."""
        assert self.means is not None
        return self._columns(self.line(x) / self.unit) - self.means

    def _columns(self, z: np.ndarray) -> np.ndarray:
        from scipy.interpolate import CubicSpline

        assert self.knots is not None
        assert self.weights is not None
        knots = self.knots
        if self._spline is None:
            heights = np.abs(knots[:, None] - knots) ** 3 @ self.weights
            self._spline = CubicSpline(knots, heights, bc_type="natural")
        inside = np.clip(z, knots[0], knots[-1])
        values = self._spline(inside)
        if np.any(beyond := z != inside):
            # Beyond the knots the slopes are those at the ends, one the opposite of the other.
            values[beyond] += np.abs(z - inside)[beyond, None] * self.ends
        return np.asarray(values)

    @property
    def ends(self) -> np.ndarray:
        """Slope of each function beyond the last knot; before the first it is the opposite, shape (k - 2,)."""
        assert self.knots is not None
        return np.asarray(3 * (self.knots[-1] - self.knots) ** 2 @ self.weights)


def _leading(matrix: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of largest magnitude, and their vectors."""
    if len(matrix) <= max(_FEW, 3 * size):
        values, vectors = np.linalg.eigh(matrix)
        order = np.argsort(-np.abs(values), kind="stable")[:size]
        return values[order], vectors[:, order]
    from scipy.sparse.linalg import eigsh

    start = np.cos(np.arange(len(matrix)) ** 2.0)  # any fixed vector that is orthogonal to none
    values, vectors = eigsh(matrix, k=size, which="LM", v0=start)
    return values, vectors
