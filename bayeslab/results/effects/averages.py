"""Draws of quantities at rows, and of their averages over groups of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.errors import OptionError
from bayeslab.memory import require_memory
from bayeslab.posterior.expectation import Scale
from bayeslab.results.effects.rows import Rows, Situation

__all__ = ["Groups", "averaged", "groups_of"]

_BATCH = 4_000_000  # cells (draws × rows × levels) evaluated at once

type Combine = Callable[[list[np.ndarray]], np.ndarray]


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of rows over which quantities are averaged.

    Attributes
    ----------
    columns : dict of str to ndarray (G,)
        The values that define each group; empty if there is one group.
    average : sparse array (n, G) or None
        Weights of the rows in the average of each group; None if every row is a group.
    n : int
        Number of groups.
    """

    columns: dict[str, np.ndarray]
    average: Any
    n: int

    def sizes(self) -> np.ndarray:
        """The number of rows in each group."""
        return np.ones(self.n) if self.average is None else np.bincount(self.average.tocoo().col, minlength=self.n)

    def of(self, values: np.ndarray) -> np.ndarray:
        """Averages over the groups, shape (draws, G[, levels]), of values of shape (draws, rows[, levels])."""
        if self.average is None:
            return values
        swapped = np.moveaxis(values, 1, -1)
        out = swapped.reshape(-1, swapped.shape[-1]) @ self.average
        return np.moveaxis(np.asarray(out).reshape(*swapped.shape[:-1], self.n), -1, 1)


def groups_of(rows: Rows, by: str | Sequence[str] | bool | None) -> Groups:
    """The groups defined by the argument ``by``.

    Parameters
    ----------
    by
        Columns: a group for each combination of their values. True: one group. False: a group for each row. None: one
        group if the rows are the sample, else a group for each row.

    Raises
    ------
    OptionError
        The rows have no such column.
    """
    if by is None:
        by = rows.whole
    if by is False:
        return Groups({}, None, rows.n)
    weights = np.ones(rows.n) if rows.weights is None else rows.weights
    if by is True:
        return Groups({}, _matrix(np.zeros(rows.n, int), weights, 1), 1)
    names = [by] if isinstance(by, str) else list(by)
    if not names or len(set(names)) < len(names):
        raise OptionError("by takes one or more different columns", code="duplicate" if names else "wrong-length")
    ordered = [_ordered(rows, name) for name in names]
    index = np.zeros(rows.n, int)
    for values, codes in ordered:
        index = index * len(values) + codes
    present, index = np.unique(index, return_inverse=True)
    columns: dict[str, np.ndarray] = {}
    for name, (values, _) in reversed(list(zip(names, ordered, strict=True))):
        columns[name] = values[present % len(values)]
        present = present // len(values)
    n = len(next(iter(columns.values())))
    totals = np.bincount(index, weights, n)
    if not np.all(totals > 0):
        empty = {name: values[totals == 0][0] for name, values in columns.items()}
        shown = ", ".join(f"{name} = {value}" for name, value in reversed(empty.items()))
        raise OptionError(f"by: the rows of {shown} all have the weight 0", code="out-of-range")
    return Groups({name: columns[name] for name in names}, _matrix(index, weights, n), n)


def _ordered(rows: Rows, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The values of a column in order (of the levels, if it is a factor), and their positions by row."""
    cells = rows.values(name)
    values, codes = np.unique(cells, return_inverse=True)
    known = rows.fit.data.labels.get(name)
    if known is not None and cells.dtype.kind == "U":
        place = {str(level): k for k, level in enumerate(known.tolist())}
        order = np.argsort([place.get(str(v), len(place)) for v in values], kind="stable")
        return values[order], np.argsort(order)[codes]
    return values, codes


def _matrix(index: np.ndarray, weights: np.ndarray, n: int) -> Any:
    from scipy.sparse import csc_array

    shares = weights / np.bincount(index, weights, n)[index]
    return csc_array((shares, (np.arange(len(index)), index)), shape=(len(index), n))


def averaged(
    situations: Sequence[Situation],
    groups: Groups,
    draws: Mapping[str, np.ndarray],
    scale: Scale,
    rows: Rows,
    *,
    unit: Combine | None = None,
    combine: Combine,
) -> np.ndarray:
    """Draws of the average of a quantity, a function of the same rows' expected outcomes in several situations.

    Parameters
    ----------
    unit
        A function of the expected outcomes of rows, applied before averaging; None: they are averaged one by one.
    combine
        A function of the averages (or of the one that ``unit`` gives).

    Returns
    -------
    ndarray
        Shape (draws, groups, levels), with one level for an outcome that is a number.
    """
    n_draws = len(next(iter(draws.values())))
    width = max(len(situations[0].expectation.levels), 1)
    require_memory(
        2 * 8 * n_draws * groups.n * width,
        f"{n_draws:,} draws of {groups.n * width:,} estimates",
        "average over rows (by), or give fewer rows (newdata)",
    )
    step, parts = max(1, _BATCH // max(rows.n * width, 1)), []
    for start in range(0, n_draws, step):
        batch = {name: value[start : start + step] for name, value in draws.items()}
        each = [situation.values(batch, scale) for situation in situations]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            averages = [groups.of(values) for values in ([unit(each)] if unit else each)]
            made = combine(averages)
        parts.append(made if made.ndim == 3 else made[..., None])
    return np.concatenate(parts)
