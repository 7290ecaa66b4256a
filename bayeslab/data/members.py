"""Groups of which a row has several: effects of multiple membership.

The linear predictor of a row has the weighted mean of the effects of its groups (Browne, Goldstein and Rasbash 2001,
Multiple membership multiple classification (MMMC) models, Statistical Modelling 1(2), 103-124). Weights of a row are
divided by their sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.errors import DataError, listed
from bayeslab.language.indexing import is_whole_number, labels_are_numbers
from bayeslab.language.terms import MemberTerm

__all__ = ["Members", "members_of"]


@dataclass(frozen=True, eq=False)
class Members:
    """Effects of several groups at rows: ``sum over k of weights[k] * u[codes[k]]``.

    Attributes
    ----------
    name : str
        The term, and the dimension of its groups, such as ``mm_g1_g2``.
    title : str
        The term as text.
    factors, columns : tuple of str
        The columns of groups, and of weights.
    codes : ndarray of int (n, m)
        The groups of each row.
    labels : ndarray (J,)
        The levels of all columns together.
    weights : ndarray (n, m)
    """

    name: str
    title: str
    factors: tuple[str, ...]
    columns: tuple[str, ...]
    codes: np.ndarray
    labels: np.ndarray
    weights: np.ndarray

    @property
    def numbered(self) -> bool:
        """Whether levels are numbers other than their positions, so that an index by a number is one by level."""
        return labels_are_numbers(self.labels)

    def places(self, labels: np.ndarray) -> np.ndarray:
        """The positions of levels of one column."""
        place = {str(label): k for k, label in enumerate(self.labels.tolist())}
        return np.array([place[str(label)] for label in labels.tolist()], np.int64)


def members_of(term: MemberTerm, data: Data, complete: np.ndarray) -> Members:
    """The groups of the complete rows, and their weights.

    Raises
    ------
    DataError
        A column of groups has no levels, or weights are negative or all zero.
    """
    n = len(data.labels[data.dataset.rows])
    levels = [data.labels[name] for name in term.factors]
    labels = np.unique(
        np.concatenate(levels if len({each.dtype.kind for each in levels}) == 1 else [*map(_words, levels)])
    )
    if labels.dtype.kind not in "iu":
        _check_words(term, dict(zip(term.factors, levels, strict=True)))
    empty = Members(term.name, term.title, term.factors, term.weights, np.zeros((0, 0)), labels, np.zeros((0, 0)))
    codes = []
    for name in term.factors:
        part = data.term(name, missing=True).codes
        if part is None:
            raise DataError(f"'{name}' is not a grouping factor: it has no levels", code="not-states")
        codes.append(empty.places(data.labels[name])[np.broadcast_to(np.asarray(part), n)[complete]])
    weights = np.ones((len(complete), len(term.factors)))
    for k, name in enumerate(term.weights):
        if data.term(name, missing=True).codes is not None and data.labels[name].dtype.kind not in "iuf":
            raise _bad(f"{term.title}: the weights '{name}' hold text, and are to hold numbers", code="not-numbers")
        weights[:, k] = np.broadcast_to(np.asarray(data.term(name, missing=True).value, float), n)[complete]
        bad = ~((weights[:, k] >= 0) & np.isfinite(weights[:, k]))
        if np.any(bad):
            row = int(np.flatnonzero(bad)[0])
            raise _bad(
                f"{term.title}: the weight '{name}' is {weights[row, k]:g} in row {complete[row] + 1}",
                code="out-of-range",
            )
    totals = weights.sum(axis=1, keepdims=True)
    if np.any(totals == 0):
        row = complete[int(np.flatnonzero(totals == 0)[0])]
        raise _bad(f"{term.title}: all weights are 0 in row {row + 1}", code="out-of-range")
    return Members(term.name, term.title, term.factors, term.weights, np.column_stack(codes), labels, weights / totals)


def _check_words(term: MemberTerm, levels: Mapping[str, np.ndarray]) -> None:
    """Refuse levels that are words and look like numbers: an index by one would be a position."""
    for name, labels in levels.items():
        number = next((str(label) for label in labels.tolist() if is_whole_number(str(label))), None)
        if number is None:
            continue
        others = [other for other, each in levels.items() if each.dtype.kind not in "iu"]
        if labels.dtype.kind in "iu":
            message = (
                f"the levels of '{name}' are numbers, and those of {listed(others)} are names: give all of them names"
            )
        else:
            message = (
                f"the levels of '{name}' are names that look like numbers, such as '{number}': make numbers of all"
                " columns of groups (categories and text are names), or give the levels other names"
            )
        raise DataError(f"{term.title}: {message}", path=("model", "formula"), code="not-states")


def _words(labels: np.ndarray) -> np.ndarray:
    return np.array([str(label) for label in labels.tolist()])


def _bad(message: str, *, code: str) -> DataError:
    return DataError(message, path=("model", "formula"), code=code)
