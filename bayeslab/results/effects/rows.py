"""Rows at which effects are evaluated: the sample of a fit, new data, or a grid of values."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.data.dataset import Column, Dataset
from bayeslab.errors import DataError, OptionError, hint, listed
from bayeslab.memory import require_memory
from bayeslab.posterior.expectation import Expectation, Scale
from bayeslab.results.effects.predictors import bases_of, expectation_of, predictor
from bayeslab.results.fitted import Fitted, bound_dataset, read_for

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Rows", "Situation", "chosen_rows", "grid", "sample"]

# Trials of rows that lack their number.
_TRIALS = (1 << 31) - 1


@dataclass(frozen=True, eq=False)
class Situation:
    """Rows with values of the predictors, at which the expected outcome is evaluated.

    Attributes
    ----------
    expectation : Expectation
    typical : frozenset of str
        Grouping columns whose group effects are set to zero.
    """

    expectation: Expectation
    typical: frozenset[str]

    def values(self, draws: Mapping[str, np.ndarray], scale: Scale) -> np.ndarray:
        """The expected outcome at each draw, shape (draws, rows) or (draws, rows, levels)."""
        return self.expectation.values(draws, scale, self.typical)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows at which expected outcomes are evaluated.

    Attributes
    ----------
    fit : Fitted
    dataset : Dataset
        Their columns, in the format of the fit's data.
    weights : ndarray (n,) or None
        Weights of the rows in averages.
    typical : frozenset of str
        Grouping columns that the rows lack: their group effects are set to zero.
    about : str
        A description of the rows.
    whole : bool
        Whether the rows are the sample, over which effects are averaged by default.
    like : Any
        A dataframe; tables of results are of the same kind.
    varied : tuple of str or None
        The columns that vary between the rows of a grid; None for other rows.
    positions : ndarray of int or None
        Positions of the sample's rows in the data of the fit; None for other rows.
    """

    fit: Fitted
    dataset: Dataset
    weights: np.ndarray | None
    typical: frozenset[str]
    about: str
    whole: bool
    like: Any = None
    varied: tuple[str, ...] | None = None
    positions: np.ndarray | None = None

    @property
    def n(self) -> int:
        return next(len(c.values) for c in self.dataset.columns.values() if c.dims == (self.dataset.rows,))

    def at(self, changes: Mapping[str, Any]) -> Situation:
        """These rows with some columns set to other values: one value for all rows, or one for each."""
        columns = dict(self.dataset.columns)
        for name, given in changes.items():
            values = np.broadcast_to(np.asarray(given), self.n).copy()
            old = columns.get(name)
            columns[name] = Column(values, (self.dataset.rows,), None, None if old is None else old.order)
        bound = bound_dataset(self.fit, replace(self.dataset, columns=columns))
        made = self.fit.bound_model.on(bound).expectation()
        assert made is not None
        return Situation(made, self.typical - changes.keys())

    def values(self, name: str) -> np.ndarray:
        """A column of these rows, given or computed: numbers or names of levels.

        Raises
        ------
        OptionError
            There is no such column with one value for each row.
        """
        columns, derived = self.dataset.columns, self.fit.data.derive
        if name in columns and columns[name].dims == (self.dataset.rows,):
            column = columns[name]
            return np.where(column.absent(), "", column.values) if column.text else column.values
        known = [n for n, c in columns.items() if c.dims == (self.dataset.rows,)]
        if name in derived and not derived[name].names - {*columns, *derived}:
            term = bound_dataset(self.fit, self.dataset).term(name, missing=True)
            if term.value is not None and term.dims in ((self.dataset.rows,), ()):
                return np.broadcast_to(np.asarray(term.value), self.n)
        raise OptionError(
            f"by: the rows have no column '{name}'{hint(name, [*known, *derived])}", code="unknown-column"
        )


def sample(fit: Fitted, weights: str | bool | None = None) -> Rows:
    """The rows of the fit without missing predictors."""
    expectation, rows_name = expectation_of(fit), fit.data.dataset.rows
    fit.data.refuse_folded("averages over the rows of the fit")
    rows = expectation.rows
    for name in expectation.predictors:
        column = fit.data.dataset.columns.get(name)
        if column is not None and column.dims == (rows_name,):
            rows = rows[~column.absent()[rows]]
    if not len(rows):
        raise DataError("no row of the fit has all predictors", code="no-rows")
    dataset = replace(fit.data.dataset.take(rows), levels=_without_rows(fit.data.dataset))
    used, about = _weights(expectation, dataset, weights), f"{len(rows):,} rows"
    return Rows(fit, dataset, used, frozenset(), about, True, positions=rows)


def _without_rows(dataset: Dataset) -> dict[str, np.ndarray]:
    """The row labels of the other tables; those of the main table are not needed, and may have repeats."""
    return {dim: names for dim, names in dataset.levels.items() if dim != dataset.rows}


def _weights(expectation: Expectation, dataset: Dataset, weights: str | bool | None) -> np.ndarray | None:
    """The weights of rows from a column; by default the weights of the model, if the rows have them."""
    if weights is False:
        return None
    if weights is None or weights is True:
        name = expectation.weights
        if name is None or name not in dataset.columns:
            return None
    else:
        name = weights
    column = dataset.columns.get(name)
    if column is None or column.dims != (dataset.rows,):
        raise OptionError(
            f"weights: the rows have no column '{name}'{hint(name, dataset.columns)}", code="unknown-column"
        )
    if column.text or np.any(column.absent()) or np.any(column.values < 0) or not np.any(column.values > 0):
        raise OptionError(f"weights: '{name}' must hold numbers of 0 or more, not all 0", code="out-of-range")
    return column.values.astype(float)


def chosen_rows(fit: Fitted, newdata: Any, at: Any, weights: str | bool | None) -> Rows:
    """The rows that the arguments ``newdata`` and ``at`` define.

    Parameters
    ----------
    newdata
        A table, or the path of one. None: the sample.
    at
        ``"mean"``: a typical row. A mapping: a grid of these values, other predictors at their typical values.
    """
    if at is not None and newdata is not None:
        raise OptionError("newdata and at both define the rows: leave one of them out", code="conflict")
    if at is not None:
        if isinstance(at, str):
            if at != "mean":
                raise OptionError(f"at is 'mean' or values by predictor, not '{at}'", code="unknown-word")
            at = {}
        if not isinstance(at, Mapping):
            raise OptionError(f"at is 'mean' or values by predictor, not {at!r}", code="wrong-type")
        named = ", ".join(f"{name} = {_shown(value)}" for name, value in at.items())
        about = f"a grid of {named}, other predictors typical" if at else "a typical row"
        return _of_table(fit, grid(fit, at), weights, about, varied=tuple(map(str, at)))
    if newdata is None:
        return sample(fit, weights)
    return _of_table(fit, newdata, weights, getattr(newdata, "attrs", {}).get("rows", ""), like=newdata)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _shown(value: Any) -> str:
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray):
        return str(value)
    return ", ".join(map(str, value))


def _of_table(
    fit: Fitted,
    given: Any,
    weights: str | bool | None,
    about: str,
    *,
    like: Any = None,
    varied: tuple[str, ...] | None = None,
) -> Rows:
    expectation = expectation_of(fit)
    dataset = read_for(fit, given)
    rows = dataset.rows
    lengths = {len(c.values) for c in dataset.columns.values() if c.dims == (rows,)}
    if not lengths or lengths == {0}:
        raise DataError("newdata has no rows", code="no-rows")
    n = lengths.pop()
    typical = frozenset(name for name in expectation.grouping if name not in dataset.columns)
    # The level is arbitrary, because the effects of these groups are set to zero.
    filler = {
        name: Column(np.repeat(np.asarray(fit.data.labels[name])[:1], n), (rows,))
        for name in typical
        if name in fit.data.labels
    }
    if (trials := expectation.trials) is not None and trials not in dataset.columns:
        derived = fit.data.derive.get(trials)
        if derived is None or derived.names - dataset.columns.keys():
            # Any number has the same expected share; this one is above all successes that the rows may have.
            filler[trials] = Column(np.full(n, _TRIALS), (rows,))
    dataset = replace(dataset, columns={**dataset.columns, **filler}, levels=_without_rows(dataset))
    for name in expectation.predictors:
        column = dataset.columns.get(name)
        if column is not None and np.any(gone := column.absent()):
            raise DataError(
                f"column '{name}' of the new data has a missing cell (row {int(np.flatnonzero(gone)[0]) + 1})",
                code="missing",
            )
    about = about or f"{n:,} rows of new data"
    if typical:
        about += f"; effects of {listed(sorted(typical))} zero"
    return Rows(fit, dataset, _weights(expectation, dataset, weights), typical, about, False, like, varied)


def grid(
    fit: Fitted, columns: Mapping[str, Any] | None = None, *, counterfactual: bool = False, **named: Any
) -> pd.DataFrame:
    """See :meth:`bayeslab.results.fit.Fit.grid`."""
    import pandas as pd

    expectation, given = expectation_of(fit), {**(columns or {}), **named}
    values: dict[str, list[Any]] = {}
    rows = sample(fit)
    for name, wanted in given.items():
        one = predictor(fit, expectation, name, rows.weights)
        if wanted is None:
            values[name] = one.representative()
        elif isinstance(wanted, str) and (one.levels is None or wanted not in set(map(str, one.levels.tolist()))):
            values[name] = one.summary(wanted)
        elif callable(wanted):
            values[name] = [one.checked(v) for v in np.atleast_1d(wanted(one.values)).tolist()]
        else:
            listed_values = [wanted] if isinstance(wanted, str) else np.atleast_1d(np.asarray(wanted, object)).tolist()
            values[name] = [one.checked(value) for value in listed_values]
        if not values[name]:
            raise OptionError(f"'{name}' has no value in the grid", code="wrong-length")
    size = int(np.prod([len(v) for v in values.values()], dtype=float)) if values else 1
    copies = rows.n if counterfactual else 1
    require_memory(
        8 * size * copies * (len(expectation.predictors) + len(values)),
        f"a grid of {size * copies:,} rows",
        "give fewer values",
    )
    combined = list(itertools.product(*values.values()))
    if counterfactual:
        kept = {
            name: np.tile(rows.values(name), size)
            for name, column in rows.dataset.columns.items()
            if column.dims == (rows.dataset.rows,) and name not in values and name != expectation.outcome
        }
        varied = {
            name: np.repeat(np.asarray(v), copies) for name, v in zip(values, zip(*combined, strict=True), strict=True)
        }
        made = pd.DataFrame({**varied, **kept})
        shown = ", ".join(f"{name} = {_shown(list(map(_text, v)))}" for name, v in values.items())
        made.attrs["rows"] = f"{rows.n:,} rows with each of {shown}" if values else f"{rows.n:,} rows"
        return made
    varied = {name: np.asarray(v) for name, v in zip(values, zip(*combined, strict=True), strict=True)}
    bases = bases_of(fit, expectation.predictors)
    rest: dict[str, Any] = {}
    for name in expectation.predictors:
        if name in values or name in expectation.grouping:
            continue
        computed = name not in fit.data.dataset.columns
        sources = [base for base, uses in bases.items() if name in uses]
        # A column computed from one that varies, or from a predictor, is computed again.
        if computed and any(base in values or base in expectation.predictors for base in sources):
            rest |= {
                base: predictor(fit, expectation, base, rows.weights).typical()
                for base in sources
                if base not in values and base not in expectation.predictors
            }
            continue
        rest[name] = predictor(fit, expectation, name, rows.weights).typical()
    return pd.DataFrame({**varied, **{name: np.repeat(np.asarray([v]), size) for name, v in rest.items()}})
