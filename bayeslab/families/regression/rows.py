"""Response and complete rows of a regression."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.dataset import Column, Dataset
from bayeslab.data.trials import check_trials
from bayeslab.digits import check_digits, check_size, constant
from bayeslab.errors import DataError, ModelError, hint, listed
from bayeslab.families.regression.formulas import Formulas
from bayeslab.families.regression.likelihoods import likelihood
from bayeslab.families.regression.spec import Regression
from bayeslab.language.expressions import parse
from bayeslab.language.formula import Formula
from bayeslab.language.functions import MOST_COUNTED

if TYPE_CHECKING:
    from bayeslab.families.regression.lowered import Lowered

__all__ = ["Rows", "complete_rows", "filled", "without_response"]


@dataclass(frozen=True, slots=True)
class Rows:
    """All quantities with a value for each complete row."""

    complete: np.ndarray
    y: np.ndarray | None
    levels: tuple[str, ...]
    trials: np.ndarray | None
    weights: np.ndarray | None
    limits: tuple[np.ndarray, np.ndarray] | None
    dropped: str
    total: float
    counts: np.ndarray | None = None

    @property
    def present(self) -> np.ndarray:
        """Which rows have a response."""
        return np.zeros(len(self.complete), bool) if self.y is None else ~np.isnan(self.y)

    @property
    def responses(self) -> np.ndarray | None:
        """The responses that are there; None if the data have no response."""
        return None if self.y is None else self.y[self.present]

    @property
    def response_counts(self) -> np.ndarray | None:
        """How many rows each response stands for; None if one."""
        return None if self.counts is None else self.counts[self.present]


def complete_rows(
    spec: Regression, formulas: Formulas, data: Data, base: Lowered | None, *, gaps: bool = False
) -> Rows:
    """Response and complete rows: those without a missing cell in a column that any formula reads.

    Parameters
    ----------
    gaps
        Whether rows of the fit without a response are kept.
    """
    formula = formulas.mean
    n = len(data.labels[data.dataset.rows]) if data.dataset.rows in data.labels else 0
    if not n:
        raise DataError(
            "a regression needs a table with at least one row; one row is lists of one value: {'x': [2.5]}",
            code="no-rows",
        )
    _present(formulas, data, base)
    y, levels = _response(spec, formula, data, base)
    if not data.fitted and y is not None and np.isnan(y).any():
        y = None  # unknown for new rows, and not needed for predictions
    trials = (
        _trials(formula, data) if formula.trials and (formula.trials.isdigit() or data.has(formula.trials)) else None
    )
    # Weights apply to rows of the fit; predictions of new rows do not use them.
    weights = _numbers(data, spec.weights) if spec.weights and data.fitted and data.has(spec.weights) else None
    gone: dict[str, np.ndarray] = {}
    for name in sorted(formulas.predictor_columns() - set(spec.missing)):
        term = data.term(name, missing=True)
        gone[name] = term.codes < 0 if term.codes is not None else np.isnan(np.asarray(term.value, float))
    for role, values in ((formula.response, y), (spec.weights, weights), (formula.trials, trials)):
        if values is not None and role is not None and data.fitted and not (gaps and role == formula.response):
            gone[role] = np.isnan(values)
    if spec.censored and data.fitted and data.has(spec.censored):
        term = data.term(spec.censored, missing=True)
        gone[spec.censored] = np.zeros(n, bool) if term.codes is None else np.broadcast_to(term.codes, n) < 0
    absent = np.any([np.broadcast_to(g, n) for g in gone.values()], axis=0) if gone else np.zeros(n, bool)
    if not data.fitted and absent.any():
        name = next(name for name, g in gone.items() if np.any(g))
        raise DataError(
            f"column '{name}' of the new data has a missing cell (row {int(np.flatnonzero(gone[name])[0]) + 1})",
            code="missing",
        )
    if formula.trials is not None and trials is None:
        raise DataError(
            f"the data have no column '{formula.trials}', the number of trials{hint(formula.trials, data.names())}",
            code="unknown-column",
        )
    if trials is not None and formula.trials is not None:
        # All new rows need it; rows of the fit without it were dropped.
        check_trials(formula.trials, trials, needed=np.full(n, not data.fitted))
    complete = np.flatnonzero(~absent)
    if not len(complete):
        raise DataError("no row is complete: every row has a missing cell", code="no-rows")
    counts, total = data.dataset.counts, float(n)
    times = np.ones(n) if counts is None else counts
    if counts is not None:
        total, counts = float(counts.sum()), counts[complete]
    worst = ", ".join(f"{name} {times @ np.broadcast_to(g, n):.0f}" for name, g in gone.items() if np.any(g))
    dropped = f"{times @ absent:.0f} of {total:.0f} rows have missing cells and were dropped ({worst})"
    dropped = dropped if absent.any() else ""
    y = None if y is None else y[complete]
    weights = None if weights is None else weights[complete]
    trials = None if trials is None else trials[complete]
    if weights is not None and np.any(weights < 0):
        raise DataError(f"column '{spec.weights}' holds weights and has a negative one", code="out-of-range")
    if weights is not None and np.any(np.isinf(weights)):
        raise DataError(f"column '{spec.weights}' holds weights and has an infinite one", code="not-finite")
    if weights is not None and not np.any(weights):
        raise DataError(
            f"column '{spec.weights}' holds weights and all are zero: no row counts; give some a weight",
            code="nothing-observed",
        )
    if counts is not None:
        weights = counts if weights is None else weights * counts
    if y is not None:
        y = _checked_response(spec, formula, y, trials)
        there = y[~np.isnan(y)]
        if not len(there):
            raise DataError(f"every cell of the response '{formula.response}' is missing", code="nothing-observed")
        if base is None and likelihood(spec.likelihood).located and not constant(there):
            check_digits(formula.response, there)
    limits = None
    if spec.censored and data.has(spec.censored) and y is not None:
        limits = _limits(data, spec.censored, complete, y)
    elif base is not None and base.limits is not None:
        # New responses are predicted without censoring.
        limits = np.full(len(complete), -np.inf), np.full(len(complete), np.inf)
    return Rows(complete, y, levels, trials, weights, limits, dropped, total, counts)


def without_response(formula: Formula, data: Data) -> str:
    """The error for data without the response."""
    return f"the data have no column '{formula.response}', the response{hint(formula.response, data.names())}"


def _present(formulas: Formulas, data: Data, base: Lowered | None) -> None:
    """Check that every predictor is a column, of the same kind as in the fit."""
    for name in sorted(formulas.predictor_columns()):
        if not data.has(name):
            raise DataError(
                f"the data have no column '{name}', a predictor{hint(name, data.names())}", code="unknown-column"
            )
        if base is None or data.origin is None:
            continue
        now, then = (data.term(name, missing=True).codes is None, data.origin.term(name, missing=True).codes is None)
        if then and not now:
            raise DataError(f"column '{name}' holds text; in the data of the fit it holds numbers", code="other-kind")
        if now and not then:
            levels = listed(data.origin.labels[name])
            raise DataError(
                f"column '{name}' holds numbers; in the data of the fit it has the levels {levels}", code="other-kind"
            )


def _numbers(data: Data, name: str) -> np.ndarray:
    term = data.term(name, missing=True)
    if term.codes is not None and data.labels[name].dtype.kind == "U":
        raise DataError(f"column '{name}' holds text where numbers are needed", code="not-numbers")
    values = data.labels[name][term.codes] if term.codes is not None else np.asarray(term.value)
    return np.broadcast_to(values.astype(float), len(data.labels[data.dataset.rows]))


def _trials(formula: Formula, data: Data) -> np.ndarray:
    assert formula.trials is not None
    if formula.trials.isdigit():
        return np.full(len(data.labels[data.dataset.rows]), float(formula.trials))
    return _numbers(data, formula.trials)


def _response(
    spec: Regression, formula: Formula, data: Data, base: Lowered | None
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """The response as numbers, NaN where missing, and the levels of its codes."""
    if not all(data.has(name) for name in formula.response_columns() - {formula.trials}):
        return None, base.levels if base else ()
    chosen = likelihood(spec.likelihood)
    if not formula.column:
        columns = formula.response_columns() - {formula.trials}
        gone = np.any([np.isnan(_numbers(data, name)) for name in columns], axis=0)
        with np.errstate(all="ignore"):
            value = np.asarray(filled(columns, data).evaluator.term(parse(formula.response)).value, float)
        if value.shape not in ((), gone.shape):
            raise ModelError(
                f"the response '{formula.response}' is not one number for each row",
                path=("model", "formula"),
                code="wrong-shape",
            )
        value = np.broadcast_to(value, gone.shape)
        undefined = ~np.isfinite(value) & ~gone
        if np.any(undefined):
            row = int(np.flatnonzero(undefined)[0])
            cells = " and ".join(f"{name} is {_numbers(data, name)[row]:g}" for name in sorted(columns))
            raise DataError(
                f"the response '{formula.response}' is {value[row]:g} in row {row + 1}, where {cells}: no row is"
                " dropped for that; correct the cell, or leave the row out",
                code="not-finite",
            )
        return np.where(gone, np.nan, value), ()
    term = data.term(formula.response, missing=True)
    if term.codes is not None and (chosen.coded or data.labels[formula.response].dtype.kind == "U"):
        if not chosen.coded:
            raise DataError(
                f"the response '{formula.response}' is text; with likelihood {spec.likelihood} it is numbers",
                code="not-numbers",
            )
        if chosen.levels is None and len(data.labels[formula.response]) > 2:
            words = listed([str(x) for x in data.labels[formula.response]])
            raise DataError(
                f"the response '{formula.response}' has the levels {words}; a bernoulli response has two",
                code="impossible-value",
            )
        if chosen.levels == "ordered":
            data.check_order(formula.response, f"likelihood: {spec.likelihood}")
        return np.where(term.codes < 0, np.nan, term.codes), tuple(str(x) for x in data.labels[formula.response])
    values = _numbers(data, formula.response)
    if chosen.levels is None:
        return values, ()
    levels = base.levels if base else tuple(f"{x:g}" for x in np.unique(values[~np.isnan(values)]))
    if np.isnan(values).all():
        return values, levels
    try:
        numbers = np.array([float(level) for level in levels])
    except ValueError:
        raise DataError(
            f"the response '{formula.response}' is numbers here; those of the fit are the levels {listed(levels)}",
            code="unknown-level",
        ) from None
    codes = np.searchsorted(numbers, values).clip(0, len(numbers) - 1).astype(float)
    strange = ~np.isnan(values) & (numbers[codes.astype(np.int64)] != values)
    # The levels are printed with six digits.
    strange &= ~np.isin([f"{value:g}" for value in values], levels)
    if strange.any():
        row = int(np.flatnonzero(strange)[0])
        raise DataError(
            f"column '{formula.response}', row {row + 1}: {values[row]:g} is not a level of the response; the data of"
            f" the fit have {listed(levels)}",
            code="unknown-level",
        )
    return np.where(np.isnan(values), np.nan, codes), levels


def _checked_response(spec: Regression, formula: Formula, y: np.ndarray, trials: np.ndarray | None) -> np.ndarray:
    chosen = likelihood(spec.likelihood)
    bad = chosen.impossible(y, trials) & ~np.isnan(y)
    if np.any(bad):
        row = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"the response '{formula.response}' is {y[row]:g} in row {row + 1}; with likelihood {spec.likelihood} it is"
            f" {chosen.support}",
            code="impossible-value",
        )
    if not chosen.discrete:
        check_size(y, f"the response '{formula.response}'")
        return y
    if np.any(y > MOST_COUNTED) or (trials is not None and np.any(trials > MOST_COUNTED)):
        raise DataError(
            f"the response '{formula.response}' has counts beyond {MOST_COUNTED:,}, which floats do not hold",
            code="too-large",
        )
    return y if np.isnan(y).any() else y.astype(np.int64)


def _limits(data: Data, name: str, complete: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Observation bounds of each response; at a bound it is censored."""
    term = data.term(name, missing=True)
    words = {"none", "left", "right"}
    if term.codes is None or not set(map(str, data.labels[name])) <= words:
        raise DataError(
            f"column '{name}' says which rows are censored: its values are none, left and right", code="unknown-level"
        )
    status = np.array([str(x) for x in data.labels[name]])[np.asarray(term.codes)[complete]]
    return np.where(status == "left", y, -np.inf), np.where(status == "right", y, np.inf)


def filled(names: Collection[str], data: Data) -> Data:
    """The data with missing cells of some columns filled, for evaluation."""
    columns = dict(data.dataset.columns)
    names = [name for name in names if name in columns and columns[name].values.dtype.kind == "f"]
    if not names:
        return data
    for name in names:
        values = columns[name].values.astype(float)
        columns[name] = Column(np.where(np.isnan(values), np.nanmean(values), values), columns[name].dims)
    dataset = Dataset(columns, data.dataset.rows, data.dataset.levels)
    out = Data(dataset, data.labels, data.derive, data.factors, data.frozen)
    out.origin, out.part = data.origin, data.part
    return out
