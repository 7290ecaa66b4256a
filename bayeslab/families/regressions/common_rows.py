"""The table of regressions of several responses: its computed columns, and the rows that all regressions use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.dataset import Column, Dataset
from bayeslab.errors import DataError
from bayeslab.families.regressions.spec import Regressions
from bayeslab.language.expressions import parse
from bayeslab.language.spec import DataSource

__all__ = ["complete", "given_columns", "with_computed", "without_computed"]


def given_columns(spec: Regressions) -> Iterator[str]:
    """Columns that have to be known in a row: predictors and what belongs to responses, but not these themselves."""
    for each in spec.regressions().values():
        trials = each.formulas.mean.trials
        wanted = each.formulas.predictor_columns() | {each.weights, each.censored, trials}
        yield from sorted(name for name in wanted - each.missing.keys() if name and not name.isdigit())


def _used(spec: Regressions) -> set[str]:
    """All columns that the model uses."""
    out = {*given_columns(spec)}
    for each in spec.regressions().values():
        out |= each.formulas.mean.response_columns() | each.missing.keys()
        out |= {name for text in each.missing.values() for name in parse(text).names}
    return out


def complete(spec: Regressions, data: Data) -> tuple[np.ndarray, str]:
    """Positions of the rows without missing cells, and how many were dropped and why."""
    total = len(data.labels.get(data.dataset.rows, ()))
    if not total:
        raise DataError("regressions need a table with at least one row", code="no-rows")
    gone: dict[str, np.ndarray] = {}
    for name in sorted({*given_columns(spec)}):
        if data.has(name):
            term = data.term(name, missing=True)
            absent = term.codes < 0 if term.codes is not None else np.isnan(np.asarray(term.value, float))
            gone[name] = np.broadcast_to(absent, total)
    lost = np.any(list(gone.values()), axis=0) if gone else np.zeros(total, bool)
    if lost.all():
        raise DataError("no row is complete: every row has a missing cell", code="no-rows")
    cells = ", ".join(f"{name} {int(each.sum())}" for name, each in gone.items() if each.any())
    text = f"{int(lost.sum())} of {total} rows have missing cells and were dropped ({cells})" if lost.any() else ""
    return np.flatnonzero(~lost), text


def with_computed(spec: Regressions, data: Data) -> Dataset:
    """The columns of the table that the model uses, with computed ones, which are those of all rows."""
    used, rows = _used(spec), data.dataset.rows
    columns = {name: column for name, column in data.dataset.columns.items() if name in used or column.dims != (rows,)}
    for name in sorted(used & data.derive.keys()):
        if not data.has(name):
            continue
        term = data.term(name, missing=True)
        if term.codes is None:
            values = np.broadcast_to(np.asarray(term.value, float), len(data.labels[rows]))
            columns[name] = Column(values, (rows,))
        else:
            labels, absent = data.labels[str(term.factor)].astype(str), np.asarray(term.codes) < 0
            columns[name] = Column(labels[np.where(absent, 0, term.codes)], (rows,), absent)
    return replace(data.dataset, columns=columns)


def without_computed(source: DataSource, dataset: Dataset) -> DataSource:
    """The data section without computed columns that the table has."""
    derive = {name: text for name, text in source.derive.items() if name not in dataset.columns}
    return source.model_copy(update={"derive": derive})
