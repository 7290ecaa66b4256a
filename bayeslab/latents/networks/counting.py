"""Family counts of a net: how often each combination of states of a variable and its parents occurs.

For complete data the counts are sufficient statistics for the tables of a discrete net: the likelihood is the product
over families of ``theta_xjk ** n_xjk``. A family skips rows in which one of its cells is missing; expectation
maximisation uses these rows, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import DataError

__all__ = [
    "Families",
    "check_codes",
    "checked_weights",
    "family_counts",
    "skipped_weight",
]

Array = NDArray[np.float64]
Codes = NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class Families:
    """The families of a net as flat index arrays, for compiled loops.

    Parameters
    ----------
    cards : ndarray of int
        Number of states of each variable.
    families : sequence of sequence of int
        The variables of each family, in the order of its table's axes: parents, then the variable itself.
    """

    cards: NDArray[np.int64]
    families: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, states: Mapping[str, tuple[str, ...]], parents: Mapping[str, tuple[str, ...]]) -> Families:
        """One family for each variable, in the order of ``states``."""
        number = {v: i for i, v in enumerate(states)}
        families = tuple((*(number[p] for p in parents.get(v, ())), number[v]) for v in states)
        return cls(np.array([len(s) for s in states.values()], dtype=np.int64), families)

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        return [tuple(int(self.cards[v]) for v in family) for family in self.families]

    @cached_property
    def sizes(self) -> list[int]:
        return [int(np.prod(shape, dtype=np.int64)) for shape in self.shapes]

    def arrays(self) -> tuple[NDArray[np.int64], ...]:
        """``starts``, ``members``, ``strides``: the variables of each family, their strides; ``offsets`` of tables."""
        return self._arrays

    @cached_property
    def _arrays(self) -> tuple[NDArray[np.int64], ...]:
        starts = np.cumsum([0, *(len(f) for f in self.families)], dtype=np.int64)
        members = np.array([v for f in self.families for v in f], dtype=np.int64)
        steps = [np.prod(shape[j + 1 :], dtype=np.int64) for shape in self.shapes for j in range(len(shape))]
        strides = np.array(steps, dtype=np.int64)
        return starts, members, strides, np.cumsum([0, *self.sizes], dtype=np.int64)

    def dense(self) -> NDArray[np.int64]:
        """Stride of each variable in the table of each family, shape (n_families, n_variables); 0 if absent."""
        out = np.zeros((len(self.families), len(self.cards)), dtype=np.int64)
        starts, members, strides, _ = self.arrays()
        for f in range(len(out)):
            out[f, members[starts[f] : starts[f + 1]]] = strides[starts[f] : starts[f + 1]]
        return out

    def split(self, flat: Array) -> list[Array]:
        """Views of a flat array: one table for each family."""
        ends = np.cumsum([0, *self.sizes])
        return [flat[ends[f] : ends[f + 1]].reshape(shape) for f, shape in enumerate(self.shapes)]


def family_counts(
    codes: Codes,
    cards: Sequence[int] | NDArray[np.int64],
    families: Sequence[Sequence[int]],
    weights: Array | None = None,
) -> list[Array]:
    """Weighted counts of every family.

    Parameters
    ----------
    codes : ndarray of int, shape (n_rows, n_variables)
        State indices; -1 where a cell is missing. Small integers stored by column (``order="F"``) are not copied; other
        arrays are.
    cards : sequence of int
        Number of states of each variable.
    families : sequence of sequence of int
        The variables of each family, in the order of its table's axes.
    weights : ndarray, optional
        Weight of each row; 1 if left out.

    Returns
    -------
    list of ndarray
        One table for each family, without the rows in which one of its cells is missing (their weight is
        :func:`skipped_weight`).
    """
    return _counted(codes, cards, families, weights)[0]


def skipped_weight(
    codes: Codes,
    cards: Sequence[int] | NDArray[np.int64],
    families: Sequence[Sequence[int]],
    weights: Array | None = None,
) -> Array:
    """For each family, the weight of the rows in which one of its cells is missing."""
    return _counted(codes, cards, families, weights)[1]


def _counted(
    codes: Codes, cards: Sequence[int] | NDArray[np.int64], families: Sequence[Sequence[int]], weights: Array | None
) -> tuple[list[Array], Array]:
    from bayeslab.latents.networks.counting_kernels import count_families

    index = Families(np.asarray(cards, dtype=np.int64), tuple(tuple(map(int, f)) for f in families))
    columns = packed(codes, index.cards)
    starts, members, strides, offsets = index.arrays()
    flat = np.zeros(offsets[-1])
    if offsets[-1] >= np.iinfo(np.int32).max:
        raise DataError(
            f"the tables have {offsets[-1]:,} entries together; counting allows at most 2 ** 31 - 1", code="too-costly"
        )
    skipped = count_families(columns, starts, members, strides, offsets, checked_weights(weights, len(codes)), flat)
    return index.split(flat), skipped


def check_codes(codes: Codes, cards: NDArray[np.int64]) -> Codes:
    """The codes as an array, checked against the number of states of each variable.

    Raises
    ------
    DataError
        The codes have the wrong shape, are not integers, or are out of range.
    """
    codes = np.asarray(codes)
    if codes.ndim != 2 or codes.shape[1] != len(cards):
        raise DataError(
            f"codes of shape {codes.shape} for {len(cards)} variables; give a row for each case and a column for each"
            " variable",
            code="wrong-shape",
        )
    if not np.issubdtype(codes.dtype, np.integer):
        raise DataError(f"codes must be integers, -1 for a missing cell; given {codes.dtype}", code="wrong-type")
    if codes.size:
        columns = codes.T if codes.flags.f_contiguous else codes
        axis = 1 if codes.flags.f_contiguous else 0
        low, high = columns.min(axis=axis), columns.max(axis=axis)
        wrong = np.flatnonzero((low < -1) | (high >= cards))
        if wrong.size:
            v = int(wrong[0])
            raise DataError(
                f"column {v} has codes from {low[v]} to {high[v]}; allowed are 0 to {cards[v] - 1}, and -1 for a"
                " missing cell",
                code="out-of-range",
            )
    return codes


def packed(codes: Codes, cards: NDArray[np.int64]) -> Codes:
    """The codes by column, as the smallest integers that hold them, checked against the number of states."""
    codes = check_codes(codes, cards)
    kind = np.int8 if max(cards, default=0) <= 127 else np.int16 if max(cards) <= 32767 else np.int32
    if codes.flags.f_contiguous:
        return np.ascontiguousarray(codes.T, dtype=kind)
    from bayeslab.latents.networks.counting_kernels import pack

    out = np.empty(codes.shape[::-1], dtype=kind)
    pack(np.ascontiguousarray(codes), out)
    return out


def checked_weights(weights: Array | None, n_rows: int) -> Array:
    """Weights of rows for compiled loops; None becomes an empty array."""
    if weights is None:
        return np.empty(0)
    weights = np.ascontiguousarray(weights, dtype=np.float64)
    if weights.shape != (n_rows,):
        raise DataError(f"{weights.size} weights for {n_rows} rows", code="wrong-length")
    return weights
