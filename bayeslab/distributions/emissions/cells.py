"""Shared functions of emissions: missing cells, and checks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from bayeslab.distributions import DISTRIBUTIONS, Distribution
from bayeslab.errors import DataError, OptionError

__all__ = [
    "check_beside",
    "check_numbers",
    "check_shape",
    "check_values",
    "column_means",
    "column_variances",
    "dependent_columns",
    "observed",
    "prior_of",
    "refuse_constant",
    "refuse_dependent",
    "renumbered",
    "scaled",
    "sums_by_state",
    "with_names",
]


def observed(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values with zeros for missing cells, and 1 where a cell is observed."""
    present = ~np.isnan(rows)
    return np.where(present, rows, 0.0), present.astype(float)


def sums_by_state(values: np.ndarray, states: np.ndarray, n_states: int) -> np.ndarray:
    """Sums of columns by state, (n_states, n_columns)."""
    return np.stack([np.bincount(states, column, n_states) for column in values.T], axis=1)


def column_means(rows: np.ndarray) -> np.ndarray:
    """Means of the columns over their observed cells."""
    filled, present = observed(rows)
    return np.asarray(filled.sum(axis=0) / np.maximum(present.sum(axis=0), 1))


def column_variances(rows: np.ndarray) -> np.ndarray:
    """Variances of the columns over their observed cells."""
    return column_means((rows - column_means(rows)) ** 2)


def scaled(rows: np.ndarray) -> np.ndarray:
    """Columns with mean 0 and sd 1, missing cells at the mean: for distances."""
    apart = rows - column_means(rows)
    sd = np.sqrt(column_means(apart**2))
    return np.where(np.isnan(apart), 0.0, apart) / np.where(sd > 0, sd, 1.0)


def check_shape(rows: np.ndarray, n_columns: int) -> None:
    if rows.ndim != 2 or rows.shape[1] != n_columns:
        raise DataError(f"rows have shape {rows.shape}; this emission has {n_columns} columns", code="wrong-shape")
    if np.isinf(rows).any():
        raise DataError(
            f"column {int(np.argwhere(np.isinf(rows))[0, 1])} holds an infinite value; remove it", code="not-finite"
        )


def check_values(rows: np.ndarray, good: np.ndarray, what: str) -> None:
    bad = ~(good | np.isnan(rows))
    if bad.any():
        n, j = np.argwhere(bad)[0]
        raise DataError(f"row {n}, column {j} is {rows[n, j]:g}; {what}", code="impossible-value")


def check_numbers(
    distribution: Distribution, rows: np.ndarray, parameters: Mapping[str, Any], *, excluded: np.ndarray | bool = False
) -> None:
    """Refuse values that a distribution does not have.

    Parameters
    ----------
    parameters
        Parameters that are ends of the support, by name; NaN where unknown.
    excluded : ndarray of bool
        Values at ends of the support where the density is zero or infinite.
    """
    domain, what = distribution.domain, "whole numbers" if distribution.discrete else "numbers"
    values = domain.values
    low, high = (np.asarray(parameters[e] if isinstance(e, str) else e, float) for e in (values.low, values.high))
    good = ~values.outside(rows, low, high)
    if distribution.discrete:
        good &= rows == np.floor(rows)
    ends = (float(np.fmin.reduce(low, axis=None)), float(np.fmax.reduce(high, axis=None)))
    where = values.words(*ends)
    if domain.bounded_by:
        where = "strictly between {:g} and {:g}".format(*ends) if np.isfinite(ends[1]) else f"above {ends[0]:g}"
    what = f"the values of {distribution.name} are {what} {where}"
    hurdle = f"Hurdle{distribution.name}"
    if hurdle in DISTRIBUTIONS and (excluded & (rows == 0)).any() and (good | np.isnan(rows)).all():
        what += f"; {hurdle} gives 0 a probability of its own"
    check_values(rows, good & ~np.asarray(excluded), what)


def check_beside(name: str, outcomes: np.ndarray, beside: np.ndarray, first: int) -> None:
    """Refuse outcomes whose parameter, given in a column, is missing: their rows would carry no information.

    Parameters
    ----------
    name : str
        The parameter.
    outcomes, beside : ndarray (n_rows, d)
    first : int
        Index of the first column of ``beside``.
    """
    lacking = np.argwhere(np.isnan(beside) & ~np.isnan(outcomes))
    if len(lacking):
        n, j = lacking[0]
        raise DataError(
            f"row {n}, column {first + j}: the '{name}' of the outcome {outcomes[n, j]:g} is missing; give the number,"
            " or leave the outcome out",
            code="missing",
        )


@contextmanager
def renumbered(columns: Sequence[int]) -> Iterator[None]:
    """Errors of a part, which numbers its own columns, with the numbers that these have in the whole."""
    try:
        yield
    except DataError as error:
        text = re.sub(r"\bcolumn (\d+)", lambda match: f"column {columns[int(match[1])]}", error.message)
        raise DataError(text, where=error.where, path=error.path, code=error.code) from None


@contextmanager
def with_names(columns: Sequence[str]) -> Iterator[None]:
    """Errors of an emission, with the names of its columns, and rows counted from one."""

    def named(match: re.Match[str]) -> str:
        row, cell, column, other_row = match.groups()
        if row is not None:
            return f"column '{columns[int(cell)].strip()}', row {int(row) + 1}: "
        return f"row {int(other_row) + 1}" if column is None else f"column '{columns[int(column)].strip()}'"

    try:
        yield
    except DataError as error:
        text = re.sub(r"\brow (\d+), column (\d+) is |\bcolumn (\d+)|\brow (\d+)", named, error.message)
        raise DataError(text, where=error.where, path=error.path, code=error.code) from None


def refuse_constant(rows: np.ndarray, why: str) -> None:
    """Refuse columns without spread."""
    for j in np.flatnonzero(np.isnan(rows).all(axis=0)):
        raise DataError(f"column {j} has no observed cell; drop the column", code="no-values")
    scale = np.abs(column_means(rows)) + 1e-300
    for j in np.flatnonzero(np.sqrt(column_variances(rows)) <= 1e-12 * scale):
        raise DataError(
            f"column {j} is constant: {why}; drop the column, or give the components a prior (method: map)",
            code="constant",
        )


def dependent_columns(rows: np.ndarray) -> tuple[int, ...]:
    """Columns one of which follows linearly from the others in the complete rows; none where they are independent."""
    complete = rows[~np.isnan(rows).any(axis=1)]
    if len(complete) <= rows.shape[1]:
        return ()
    values = scaled(complete)
    lowest, vectors = np.linalg.eigh(values.T @ values / len(values))
    columns = tuple(np.flatnonzero(np.abs(vectors[:, 0]) > 1e-3).tolist())
    # A single column is constant, which is checked elsewhere.
    return columns if lowest[0] < 1e-12 and len(columns) > 1 else ()


def refuse_dependent(
    rows: np.ndarray,
    names: Sequence[str] | None = None,
    remedy: str = "drop one of them, or give the components a prior (method: map)",
) -> None:
    """Refuse columns that follow from others: no covariance of theirs can be inverted, nor a prior on their scale."""
    if dependent := dependent_columns(rows):
        columns = ", ".join(str(j if names is None else names[j]) for j in dependent)
        raise DataError(
            f"columns {columns} depend on each other linearly: every covariance would be singular; {remedy}",
            code="dependent-columns",
        )


def prior_of(emission: Any) -> Any:
    if emission.prior is None:
        raise OptionError("this needs a prior for the components: use `with_prior`, or give one", code="incomplete")
    return emission.prior
