"""Coordinates for a linear model in which sums of squares keep full precision.

Sums of squares and products need twice the digits of their terms, and a column far from zero relative to its spread has
spent them on its mean. Therefore rows ``t = B β + f ε`` are written in coordinates ``β = point + unit * transform γ``
before they are reduced to sums: residuals at ``point`` have the size of the noise, a column that is nearly a
combination of others is replaced by its residual, and magnitudes are near one. Residuals and replaced columns are
computed in twice the precision (:func:`bayeslab.digits.remainders`), so that the change of coordinates itself loses
none.

References
----------
.. [1] Golub, Van Loan (2013). Matrix Computations, 4th ed., chapter 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.digits import power_of_two, remainders

__all__ = ["Coordinates", "Observations", "coordinates", "independent_columns"]

# Residual share of a column's sum of squares after regression on others: below the first limit the residual replaces
# the column; below the second only rounding is left, so that the column is a combination of the others.
_NEARLY, _WHOLLY = 1e-6, 1e-27
# Smallest eigenvalue, for columns of unit norm, above which sums of squares suffice.
_SEPARATE = 1e-7
_MOST_MIXED = 200  # largest number of columns that are orthogonalised
_FEW = 20  # up to this many coefficients all are treated alike
_MOST_ENTRIES = 50_000_000
# Relative size of residuals below which they are computed in twice the precision.
_NEAR = 1e-3
# Reduction of residuals for which the point leaves a prior's location.
_FAR = 1e-8


@dataclass(frozen=True, eq=False)
class Observations:
    """Rows ``target = design β + f factors ε`` of data or of a prior, before reduction to sums.

    Attributes
    ----------
    design : ndarray (n, P) or scipy sparse array
    target : ndarray (n,)
    factors : ndarray (n,) or None
        Known factors of the scale; infinite for rows without weight.
    count : float
        Number of rows that they count as.
    log_factors : float
        Sum of the logs of the factors.
    prior : bool
        Whether the rows are a prior of coefficients, not data.
    """

    design: Any
    target: np.ndarray
    factors: np.ndarray | None = None
    count: float = 0.0
    log_factors: float = 0.0
    prior: bool = False

    @classmethod
    def of(cls, design: Any, target: np.ndarray, factors: np.ndarray | float = 1.0) -> Observations:
        """Rows of data."""
        factors = np.broadcast_to(np.asarray(factors, float), np.shape(target))
        plain = bool(np.all(factors == 1.0))
        return cls(design, target, None if plain else factors, len(target), float(np.log(factors).sum()))

    @classmethod
    def weighted(cls, design: Any, target: np.ndarray, weights: np.ndarray | None) -> Observations:
        """Rows with weights of their log likelihoods."""
        if weights is None:
            return cls.of(design, target)
        with np.errstate(divide="ignore"):
            return cls(design, target, 1 / np.sqrt(weights), float(weights.sum()), 0.0)

    @classmethod
    def normal(cls, at: np.ndarray, location: np.ndarray, factors: np.ndarray, size: int) -> Observations:
        """Normal priors of the coefficients ``at``."""
        from scipy.sparse import csr_array

        n = len(at)
        picked = csr_array((np.ones(n), (np.arange(n), at)), shape=(n, size))
        return cls(
            picked, np.asarray(location, float), np.asarray(factors, float), n, float(np.log(factors).sum()), True
        )

    @cached_property
    def divided(self) -> Any:
        """The design with each row divided by its factor."""
        if self.factors is None:
            return self.design
        if isinstance(self.design, np.ndarray):
            return self.design / self.factors[:, None]
        return _diagonal(1 / self.factors) @ self.design

    @cached_property
    def gram(self) -> Any:
        """B'WB with W = 1 / factors^2; sparse if the design is sparse (hundreds of priors have few entries each)."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return self.divided.T @ self.divided

    def scaled(self, columns: np.ndarray, unit: float) -> Observations:
        """The rows in other units: powers of two, so that nothing is rounded."""
        if np.all(columns == 1.0) and unit == 1.0:
            return self
        design = self.design * columns if isinstance(self.design, np.ndarray) else (self.design @ _diagonal(columns))
        return Observations(design, self.target / unit, self.factors, self.count, self.log_factors, self.prior)

    def changed(self, transform: Any, mixed: np.ndarray) -> Observations:
        """The rows with transformed columns; only the columns in ``mixed`` are new."""
        if not len(mixed):
            return self
        return Observations(
            _changed(self.design, transform, mixed, self.prior),
            self.target, self.factors, self.count, self.log_factors, self.prior,
        )  # fmt: skip

    def sums(self, residual: np.ndarray) -> tuple[np.ndarray, float]:
        """B'Wr and r'Wr."""
        once = _over(residual, self.factors)
        return np.asarray(self.divided.T @ once), float(once @ once)

    def residual(self, point: np.ndarray) -> np.ndarray:
        """``target - design @ point``, in twice the precision where needed."""
        if not point.any() or not len(self.target):
            return self.target
        rest = self.target - self.design @ point
        size = max(float(np.max(np.abs(self.target), initial=0.0)), float(self._root_mean_squares @ np.abs(point)))
        if np.sqrt(np.mean(rest**2)) > _NEAR * size:
            return np.asarray(rest)
        return remainders(self.design, self.target, point)

    @property
    def _root_mean_squares(self) -> np.ndarray:
        """Root mean squares of the columns."""
        if self.factors is None:
            return np.asarray(np.sqrt(self.gram.diagonal() / max(len(self.target), 1)))
        squares = self.design**2 if isinstance(self.design, np.ndarray) else self.design.power(2)
        return np.sqrt(np.asarray(squares.mean(axis=0)).ravel())


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The change of coordinates ``β = point + unit * transform γ``.

    Attributes
    ----------
    point : ndarray (P,)
    transform : scipy sparse array (P, P)
        Triangular up to a permutation of the coefficients, with a positive diagonal.
    unit : float
        Unit of targets and scales.
    precisions : ndarray (classes,)
        A plausible 1 / f^2 of each class, in that unit.
    """

    point: np.ndarray
    transform: Any
    unit: float
    precisions: np.ndarray

    @cached_property
    def log_volume(self) -> float:
        """Log of the determinant of the change from γ to β."""
        return float(np.log(self.transform.diagonal()).sum() + len(self.point) * np.log(self.unit))

    @cached_property
    def plain(self) -> bool:
        """Whether coefficients are only scaled and shifted."""
        return bool(self.transform.nnz == len(self.point))

    @cached_property
    def inverse(self) -> np.ndarray:
        """The matrix that maps β - point to γ, shape (P, P)."""
        if self.plain:
            return np.diag(1 / (self.unit * self.transform.diagonal()))
        return np.linalg.inv(self.unit * self.transform.toarray())

    def combinations(self, wanted: np.ndarray) -> np.ndarray:
        """Combinations of β as combinations of γ, shape (R, P)."""
        if self.plain:
            return wanted * (self.unit * self.transform.diagonal())
        return np.stack([-remainders(wanted, np.zeros(len(wanted)), c) for c in self.transform.toarray().T], axis=1) * (
            self.unit
        )


type Statistics = tuple[np.ndarray, np.ndarray, float]


def coordinates(
    classes: Sequence[Sequence[Observations]], factors: np.ndarray, varies: np.ndarray
) -> tuple[Coordinates, list[Statistics]]:
    """Choose coordinates for the rows of a model; B'WB, B'Wt and t'Wt of each class in them.

    Parameters
    ----------
    classes
        Rows grouped by their common scale.
    factors : ndarray (classes,)
        A plausible value of each scale.
    varies : ndarray of bool (classes,)
        Whether the scale is unknown.
    """
    flat = [(m, rows) for m, part in enumerate(classes) for rows in part]
    columns, unit = _sizes([rows for _, rows in flat])
    likely = np.where(np.isfinite(factors) & (factors > 0), factors, 1.0)
    precisions = (unit / likely) ** 2
    work = [(rows.scaled(columns, unit), float(precisions[m]), m) for m, rows in flat]
    # Coefficients with a prior at zero of unknown scale stay centred at zero: with another origin only rounding would
    # be left when that scale is tiny.
    held = np.zeros(len(columns), bool)
    for m, part in enumerate(classes):
        if varies[m] and not any(np.any(rows.target) for rows in part):
            held |= np.any([rows.gram.diagonal() > 0 for rows in part], axis=0)
    transform, mixed = _separated([(rows, by) for rows, by, _ in work], held)
    before = [rows for rows, _, _ in work]
    work = [(rows.changed(transform, mixed), by, m) for rows, by, m in work]
    point, rests = _nearest([(rows, by) for rows, by, _ in work], before, transform, held)
    sums: list[Statistics] = []
    for m in range(len(classes)):
        parts = [rows.sums(rest) for (rows, _, k), rest in zip(work, rests, strict=True) if k == m]
        cross, square = (sum(part[i] for part in parts) for i in range(2))
        gram = _added([(1.0, rows.gram) for rows, _, k in work if k == m], len(columns))
        sums.append((gram, np.asarray(cross), float(square)))
    return Coordinates(point * columns * unit, _diagonal(columns) @ transform, unit, precisions), sums


def _sizes(rows: Sequence[Observations]) -> tuple[np.ndarray, float]:
    """Powers of two that bring columns and targets near one if they are far from it."""
    size = rows[0].design.shape[1]
    data = [part for part in rows if not part.prior]
    diagonals = [part.gram.diagonal() for part in data]
    largest, target = np.zeros(size), 0.0
    extreme = any(np.any(~np.isfinite(d) | (d > 1e100) | ((d > 0) & (d < 1e-100))) for d in diagonals)
    for part in data:
        target = max(target, float(np.max(np.abs(part.target), initial=0.0)))
        if extreme:
            sizes = abs(part.design).max(axis=0)
            largest = np.maximum(largest, sizes if isinstance(sizes, np.ndarray) else sizes.toarray().ravel())
    columns = 1 / power_of_two(largest) if extreme else np.ones(size)
    return columns, float(power_of_two(target)) if target > 1e50 or 0 < target < 1e-50 else 1.0


def _added(parts: Sequence[tuple[float, Any]], size: int) -> np.ndarray:
    """A weighted sum of square matrices; sparse ones cost only their entries."""
    out = np.zeros((size, size))
    entries = []
    for by, part in parts:
        if isinstance(part, np.ndarray):
            out += by * part
        else:
            at = part.tocoo()
            entries.append((by * at.data, *at.coords))
    if entries:
        values, rows, columns = (np.concatenate(each) for each in zip(*entries, strict=True))
        np.add.at(out, (rows, columns), values)
    return out


def _separated(work: Sequence[tuple[Observations, float]], held: np.ndarray) -> tuple[Any, np.ndarray]:
    """A transform after which no column is nearly a combination of others, and the columns that it changes."""
    size = len(held)
    total = _added([(by, rows.gram) for rows, by in work], size)
    data_gram = _added([(by, rows.gram) for rows, by in work if not rows.prior], size)
    transform = np.eye(size)
    diagonal = np.diagonal(total)
    if np.any(diagonal <= 0):
        return _identity(size), np.zeros(0, int)
    apart = independent_columns(_added([(1.0, abs(rows.gram)) for rows, _ in work], size) > 0)
    pivots = apart[(np.diagonal(data_gram)[apart] > 0) & ~held[apart]]
    others = np.setdiff1d(np.arange(size), pivots)
    mine = np.diagonal(data_gram)[pivots]
    shares = data_gram[np.ix_(pivots, others)] / mine[:, None]
    left = np.diagonal(total)[others] - np.einsum("ij,ij,i->j", shares, shares, mine)
    near = (left < _NEARLY * np.diagonal(total)[others]) & np.any(shares != 0, axis=0)
    changes: dict[int, np.ndarray] = {}
    if near.any():
        for k in np.flatnonzero(near):
            column = np.zeros(size)
            column[others[k]], column[pivots] = 1.0, -shares[:, k]
            new = [(_combined(rows.design, column), rows, by) for rows, by in work if not rows.prior]
            square = sum(by * float(np.sum(_over(c, r.factors) ** 2)) for c, r, by in new)
            if square > _WHOLLY * np.diagonal(data_gram)[others[k]]:
                changes[int(others[k])] = column
        for j, column in changes.items():
            transform[:, j] = column
    dense = others[~held[others]]
    # Pivots come first, so that the transform is triangular in this order.
    dense = np.concatenate([pivots, dense]) if len(dense) + len(pivots) <= _FEW else dense
    if 1 < len(dense) <= _MOST_MIXED:
        _orthogonalise(work, changes, dense, transform, total)
    mixed = np.array(sorted(changes), int)
    if not len(mixed):
        return _identity(size), mixed
    from scipy.sparse import csr_array

    return csr_array(transform), mixed


def _orthogonalise(
    work: Sequence[tuple[Observations, float]],
    changes: dict[int, np.ndarray],
    dense: np.ndarray,
    transform: np.ndarray,
    total: np.ndarray,
) -> None:
    """Orthogonalise nearly collinear columns; repeat if the first pass was inaccurate."""
    for _ in range(3):
        gram = _current(work, changes, dense, transform, total)
        scale = np.sqrt(np.maximum(np.diagonal(gram), 1e-300))
        if np.linalg.eigvalsh(gram / np.outer(scale, scale))[0] >= _SEPARATE:
            return
        current = transform[:, dense]
        stacked = _stacked(work, current)
        if stacked is None:
            return
        sizes = np.sqrt((stacked**2).sum(axis=0))
        sizes[sizes == 0] = 1.0
        transform[:, dense] = (current / sizes) @ _inverse(np.linalg.qr(stacked / sizes, mode="r"))
        changes |= {int(j): transform[:, j] for j in dense}


def _inverse(triangle: np.ndarray) -> np.ndarray:
    """Inverse of a triangular matrix of columns of unit norm; collinear columns stay unchanged."""
    signs = np.where(np.diagonal(triangle) < 0, -1.0, 1.0)
    triangle = triangle * signs[:, None]
    whole = np.abs(np.diagonal(triangle)) < 1e-13
    triangle = np.where(whole[None, :], np.eye(len(triangle)), triangle)
    return np.linalg.solve(triangle, np.eye(len(triangle)))


def _current(
    work: Sequence[tuple[Observations, float]],
    changes: dict[int, np.ndarray],
    dense: np.ndarray,
    transform: np.ndarray,
    total: np.ndarray,
) -> np.ndarray:
    """Sums of squares of some columns after their transformation."""
    if not any(int(j) in changes for j in dense):
        return total[np.ix_(dense, dense)]
    out = np.zeros((len(dense), len(dense)))
    for rows, by in work:
        columns = np.stack([_over(_combined(rows.design, transform[:, j]), rows.factors) for j in dense], axis=1)
        out += by * columns.T @ columns
    return out


def _stacked(work: Sequence[tuple[Observations, float]], columns: np.ndarray) -> np.ndarray | None:
    """The weighted columns of all rows, stacked; None if that is too large."""
    n = sum(rows.design.shape[0] for rows, _ in work)
    if n * columns.shape[1] > _MOST_ENTRIES:
        return None
    parts = [
        np.sqrt(by) * np.stack([_over(_combined(r.design, c), r.factors) for c in columns.T], axis=1) for r, by in work
    ]
    return np.concatenate(parts)


def _nearest(
    work: Sequence[tuple[Observations, float]],
    before: Sequence[Observations],
    transform: Any,
    held: np.ndarray,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """A point near the solution, and the residuals there."""
    gram = _added([(by, rows.gram) for rows, by in work], len(held))
    scale = np.sqrt(np.maximum(np.diagonal(gram), 1e-300))
    gram = gram / np.outer(scale, scale)
    free = np.flatnonzero(~held)
    # The point need only be near, so a small ridge does no harm.
    root = _root(gram[np.ix_(free, free)]) if len(free) else None

    def moved(point: np.ndarray, rests: list[np.ndarray], freely: bool) -> tuple[np.ndarray, list[np.ndarray], float]:
        cross = sum(by * rows.sums(rest)[0] for (rows, by), rest in zip(work, rests, strict=True)) / scale
        move = np.zeros(len(held))
        if not freely:
            move[held] = cross[held]
        elif root is not None:
            move[free] = _solved(root, cross[free])
        new = point + transform @ (move / scale)
        left = [rows.residual(new) for rows in before]
        return new, left, _height(work, left)

    point, rests = np.zeros(len(held)), [rows.target for rows in before]
    height = _height(work, rests)
    start = height
    for _ in range(6):
        new, left, lower = moved(point, rests, True)
        if not lower < height:
            break
        enough = lower > _NEAR**2 * start
        point, rests, height, previous = new, left, lower, height
        if enough or lower > 0.5 * previous:
            break
    # Leave priors at zero only if the data are far from all other points.
    if held.any() and (first := moved(point, rests, False))[2] < _FAR * height:
        point, rests, height = first
        for freely in (True, False) * 6:
            new, left, lower = moved(point, rests, freely)
            if lower < height:
                point, rests, height = new, left, lower
    return point, rests


def _height(work: Sequence[tuple[Observations, float]], rests: Sequence[np.ndarray]) -> float:
    return float(sum(by * np.sum(_over(rest, rows.factors) ** 2) for (rows, by), rest in zip(work, rests, strict=True)))


def _root(gram: np.ndarray) -> Any:
    from scipy.linalg import cho_factor

    return cho_factor(gram + 1e-9 * np.eye(len(gram)))


def _solved(root: Any, right: np.ndarray) -> np.ndarray:
    from scipy.linalg import cho_solve

    return np.asarray(cho_solve(root, right))


def independent_columns(linked: np.ndarray) -> np.ndarray:
    """Coefficients of which no two share a row, found greedily, those with the fewest links first."""
    free = np.ones(len(linked), bool)
    chosen = []
    for j in np.argsort(linked.sum(axis=0), kind="stable"):
        if free[j]:
            chosen.append(j)
            free[linked[j]] = False
    return np.sort(np.array(chosen, dtype=np.int64))


def _combined(design: Any, column: np.ndarray) -> np.ndarray:
    """A combination of columns, in twice the precision."""
    return -remainders(design, np.zeros(design.shape[0]), column)


def _changed(design: Any, transform: Any, mixed: np.ndarray, prior: bool) -> Any:
    if prior:
        return design @ transform
    new = np.stack([_combined(design, transform[:, [j]].toarray().ravel()) for j in mixed], axis=1)
    if isinstance(design, np.ndarray):
        out = design.copy()
        out[:, mixed] = new
        return out
    from scipy.sparse import csc_array, hstack

    rest = np.setdiff1d(np.arange(design.shape[1]), mixed)
    order = np.argsort(np.concatenate([rest, mixed]))
    return hstack([csc_array(design)[:, rest], csc_array(new)], format="csc")[:, order].tocsr()


def _over(values: np.ndarray, factors: np.ndarray | None) -> np.ndarray:
    return values if factors is None else values / factors


def _diagonal(values: np.ndarray) -> Any:
    from scipy.sparse import dia_array

    n = len(values)
    return dia_array((np.asarray(values, float)[None], [0]), shape=(n, n)).tocsr()


def _identity(size: int) -> Any:
    return _diagonal(np.ones(size))
