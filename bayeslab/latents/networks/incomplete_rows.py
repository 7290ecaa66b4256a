"""Preprocessing of rows with missing cells, for fast expected counts under any tables.

Given the observed cells of a row, its missing cells form independent groups: two cells belong to one group when they
share a family. Most groups are small even where the net as a whole is intractable, and the same group with the same
observed neighbours occurs in many rows. The data reduce to (1) the counts of families without a missing cell;
(2) distinct groups with weights, each summed out by enumeration of its completions if they are few, else by variable
elimination; (3) rows with a group too large for elimination, for the junction tree. The first two cost microseconds a
row; a calibration of the whole net costs tens of microseconds, or thousands in a large net.

References
----------
.. [1] Lauritzen (1995). The EM algorithm for graphical association models with missing data.
   Computational Statistics & Data Analysis 19, 191-201.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayeslab.latents.networks.counting import Array, Codes, Families, checked_weights, packed
from bayeslab.latents.networks.junction_tree import JunctionTree
from bayeslab.latents.networks.network import DiscreteNetwork

__all__ = ["IncompleteRows"]

# With more completions than this, variable elimination is faster than enumeration.
_COMPLETIONS = 32
# A row that needs more operations goes to the junction tree, whose order and memory are prepared.
_BUDGET = 1e6


@dataclass(frozen=True, eq=False)
class IncompleteRows:
    """Rows of a discrete net, prepared for expected counts; make it with :meth:`of`.

    Attributes
    ----------
    observed : ndarray
        Counts of the families without a missing cell, all tables concatenated.
    groups, begins, weights : ndarray
        Distinct groups of missing cells as sequences of integers, the start of each, and its weight.
    wide, wide_weights : ndarray
        Rows for the junction tree.
    completions : int
        Groups with more completions are summed out variable by variable.
    distinct, inverse, is_wide : ndarray
        The distinct rows, the index of each row among them, and whether a distinct row is for the junction tree.
    owners, kinds : ndarray
        Pairs of a distinct row and a group in it.
    """

    states: Mapping[str, tuple[str, ...]]
    parents: Mapping[str, tuple[str, ...]]
    families: Families
    observed: Array
    groups: NDArray[np.int32]
    begins: NDArray[np.int64]
    weights: Array
    wide: Codes
    wide_weights: Array
    completions: int
    distinct: Codes
    inverse: NDArray[np.int64]
    is_wide: NDArray[np.bool_]
    owners: NDArray[np.int64]
    kinds: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        states: Mapping[str, tuple[str, ...]],
        parents: Mapping[str, tuple[str, ...]],
        codes: Codes,
        weights: Array | None = None,
        completions: int = _COMPLETIONS,
        budget: float = _BUDGET,
    ) -> IncompleteRows:
        """Group the missing cells of the rows.

        Parameters
        ----------
        codes : ndarray of int, shape (n_rows, n_variables)
            In the order of ``states``; -1 where missing.
        weights : ndarray, optional
            Weight of each row; 1 if left out.
        completions : int
            In groups of missing cells with more completions, variables are summed out one by one.
        budget : float
            Maximum cost of that, in entries of tables; costlier rows go to the junction tree.
        """
        from bayeslab.latents.networks.counting_kernels import components_of_rows, count_families, first_of_each

        families = Families.of(states, parents)
        starts, members, strides, offsets = families.arrays()
        rows = np.ascontiguousarray(packed(codes, families.cards).T)
        inverse, first_rows = first_of_each(rows.ravel(), np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1])
        given = None if weights is None else checked_weights(weights, len(codes))
        weight = np.bincount(inverse, given, minlength=len(first_rows)).astype(np.float64)
        rows = rows[first_rows]
        values, ends, owners, wide = components_of_rows(
            rows, families.cards, starts, members, strides, families.dense(), float(completions), float(budget)
        )
        bounds = np.concatenate(([0], ends)).astype(np.int64)
        kinds, firsts = first_of_each(values, bounds)
        observed = np.zeros(offsets[-1])
        narrow = np.asfortranarray(rows[~wide])
        count_families(narrow.T, starts, members, strides, offsets, weight[~wide], observed)
        lengths = (bounds[1:] - bounds[:-1])[firsts]
        places = np.arange(lengths.sum()) + np.repeat(bounds[firsts] - np.cumsum(lengths) + lengths, lengths)
        begins = np.cumsum([0, *lengths], dtype=np.int64)[:-1]
        group_weights = np.bincount(kinds, weights=weight[owners], minlength=len(firsts)).astype(np.float64)
        return cls(
            dict(states), {v: tuple(parents.get(v, ())) for v in states}, families, observed, values[places], begins,
            group_weights, rows[wide].astype(np.int64), weight[wide], completions, rows, inverse, wide, owners, kinds,
        )  # fmt: skip

    def expected_counts(self, tables: Sequence[Array]) -> tuple[float, list[Array]]:
        """Log probability of the data, and the expected count of each entry of each table.

        Parameters
        ----------
        tables : sequence of ndarray
            In the order of the variables, axes (parents..., own).

        Returns
        -------
        log_likelihood : float
            -inf if a row is impossible.
        counts : list of ndarray
            In the shapes of the tables; impossible rows count nothing.
        """
        from bayeslab.latents.networks.counting_kernels import expected_components

        flat = np.concatenate([np.ravel(table) for table in tables])
        counts, logs = self.observed.copy(), np.empty(len(self.begins))
        expected_components(
            self.groups, self.begins, self.weights, self.families.cards, self.strides, self._offsets, self._completions,
            flat, counts, logs,
        )  # fmt: skip
        positive = self.observed > 0
        with np.errstate(divide="ignore"):
            total = float(self.observed[positive] @ np.log(flat[positive]))
        total += float(self.weights @ logs)
        out = self.families.split(counts)
        if len(self.wide):
            evidence, more = self._by_tree(tables)
            total += evidence
            for total_counts, other in zip(out, more, strict=True):
                total_counts += other
        return total, out

    def log_evidence(self, tables: Sequence[Array]) -> Array:
        """Log probability of each row, shape (n_rows,); -inf where it is impossible."""
        from bayeslab.latents.networks.counting_kernels import add_observed_families, expected_components

        starts, members, strides, offsets = self.families.arrays()
        flat = np.concatenate([np.ravel(table) for table in tables])
        logs, out = np.empty(len(self.begins)), np.zeros(len(self.distinct))
        expected_components(
            self.groups, self.begins, self.weights, self.families.cards, self.strides, offsets, self._completions,
            flat, np.zeros(flat.size), logs,
        )  # fmt: skip
        with np.errstate(divide="ignore"):
            add_observed_families(self.distinct, starts, members, strides, offsets, np.log(flat), out)
        out += np.bincount(self.owners, logs[self.kinds], minlength=len(out))
        if len(self.wide):
            out[self.is_wide] = self._tree.with_tables(tables).log_evidence_of(self.wide)
        return np.asarray(out[self.inverse])

    @property
    def kernel_arrays(self) -> tuple[np.ndarray, ...]:
        """Arguments of :func:`bayeslab.latents.networks.counting_kernels.evidence_of_tables` after the flat tables.

        That kernel computes the rows that are not ``wide``.
        """
        groups = self.groups, self.begins, self.weights
        return self.observed, *groups, self.families.cards, self.strides, self._offsets, self._completions

    @cached_property
    def _completions(self) -> Array:
        return np.array([float(self.completions)])

    @cached_property
    def strides(self) -> NDArray[np.int64]:
        """Stride of each variable in the table of each family; 0 if it is not there."""
        return self.families.dense()

    @cached_property
    def _offsets(self) -> NDArray[np.int64]:
        return self.families.arrays()[3]

    @cached_property
    def _tree(self) -> JunctionTree:

        uniform = {v: np.full(s, 1 / s[-1]) for v, s in zip(self.states, self.families.shapes, strict=True)}
        return JunctionTree.of(DiscreteNetwork(self.states, self.parents, uniform))

    def _by_tree(self, tables: Sequence[Array]) -> tuple[float, list[Array]]:
        log_evidence, counts = self._tree.with_tables(tables).expected_counts(self.wide, self.wide_weights)
        return float(self.wide_weights @ log_evidence), counts
