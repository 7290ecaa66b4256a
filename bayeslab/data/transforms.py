"""Transforms of formulas that learn from the data of a fit: centres, scales, polynomials, splines.

Each is called with the rows of the fit first, and codes new rows as it coded those. All of them measure from a point
within the data, so that numbers far from zero keep the digits of what varies.

References
----------
.. [1] Brubeck, Nakatsukasa, Trefethen (2021). Vandermonde with Arnoldi. SIAM Review 63.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from formulae.transforms import BSpline

from bayeslab.digits import power_of_two, spread_of, two_means
from bayeslab.errors import DataError

__all__ = ["TRANSFORMS"]


@dataclass(eq=False)
class _Center:
    """Numbers about their mean, which is kept as the sum of two doubles."""

    middle: tuple[float, float] | None = None

    def __call__(self, x: np.ndarray) -> np.ndarray:
        if self.middle is None:
            high, low = two_means(x[:, None])
            self.middle = float(high[0]), float(low[0])
        return np.asarray((x - self.middle[0]) - self.middle[1])


@dataclass(eq=False)
class _Scale:
    """Numbers about their mean, over their standard deviation (that of all rows: of n, not n - 1)."""

    center: _Center = field(default_factory=_Center)
    sd: float | None = None

    def __call__(self, x: np.ndarray) -> np.ndarray:
        centred = self.center(x)
        if self.sd is None:
            unit = float(power_of_two(spread_of(centred)))
            self.sd = unit * float(np.std(centred / unit))
        return centred / self.sd


@dataclass(eq=False)
class _Polynomial:
    """Orthonormal polynomials at the rows of the fit, or powers as they are (``raw``).

    Arnoldi's process [1]_ on centred numbers of size one: columns are orthogonal to rounding whatever the degree, and
    its recurrence, ``z q[k] = sum of steps[j, k] q[j]``, gives the same polynomials at new rows.
    """

    center: _Center = field(default_factory=_Center)
    unit: float = 1.0
    rows: int = 0
    steps: np.ndarray | None = None

    def __call__(self, x: np.ndarray, degree: int = 1, raw: bool = False) -> np.ndarray:
        if raw:
            return np.column_stack([np.power(x, k) for k in range(1, degree + 1)])
        centred = self.center(x)
        if self.steps is None:
            self.unit, self.rows = float(power_of_two(spread_of(centred))), len(x)
            return self._learnt(centred / self.unit, degree)
        return self._continued(centred / self.unit)

    def _learnt(self, z: np.ndarray, degree: int) -> np.ndarray:
        columns, steps = np.empty((len(z), degree + 1)), np.zeros((degree + 1, degree))
        columns[:, 0] = 1.0 / np.sqrt(len(z))
        for k in range(degree):
            column = z * columns[:, k]
            size = np.linalg.norm(column)
            for _ in range(2):  # twice is enough
                part = columns[:, : k + 1].T @ column
                column -= columns[:, : k + 1] @ part
                steps[: k + 1, k] += part
            steps[k + 1, k] = np.linalg.norm(column)
            if steps[k + 1, k] <= 1e-12 * size:
                raise DataError(
                    f"poly() of degree {degree}: the values are too near each other to tell its powers apart; a degree"
                    f" of {k} is the highest",
                    code="not-identified",
                )
            columns[:, k + 1] = column / steps[k + 1, k]
        self.steps = steps
        return columns[:, 1:]

    def _continued(self, z: np.ndarray) -> np.ndarray:
        steps = self.steps
        assert steps is not None
        columns = np.empty((len(z), len(steps)))
        columns[:, 0] = 1.0 / np.sqrt(self.rows)
        for k in range(steps.shape[1]):
            column = z * columns[:, k] - columns[:, : k + 1] @ steps[: k + 1, k]
            columns[:, k + 1] = column / steps[k + 1, k]
        return columns[:, 1:]


@dataclass(eq=False)
class _Spline:
    """B-splines of numbers measured from one of them."""

    origin: float | None = None
    basis: BSpline = field(default_factory=BSpline)

    def __call__(self, x: np.ndarray, **options: Any) -> np.ndarray:
        if self.origin is None:
            self.origin = float(x.flat[0])
        for bound in ("lower_bound", "upper_bound"):
            if options.get(bound) is not None:
                options[bound] = options[bound] - self.origin
        return np.asarray(self.basis(x - self.origin, **options))

    @property
    def knots(self) -> np.ndarray:
        """All knots, in order, measured from :attr:`origin`."""
        return np.asarray(self.basis._knots, float)

    @property
    def degree(self) -> int:
        return int(self.basis._degree or 0)

    @property
    def first(self) -> int:
        """The first B-spline that is a column: 0, or 1 beside an intercept."""
        return 0 if self.basis._intercept else 1


TRANSFORMS: dict[str, type] = {
    "center": _Center, "scale": _Scale, "standardize": _Scale, "poly": _Polynomial, "bs": _Spline,
}  # fmt: skip
