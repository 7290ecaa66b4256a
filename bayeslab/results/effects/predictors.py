"""The predictors of a fit: numbers, binary numbers and factors, with their values in the sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.errors import OptionError, hint, listed
from bayeslab.posterior.expectation import Expectation, Scale
from bayeslab.results.fitted import Fitted

__all__ = ["SUMMARIES", "Predictor", "expectation_of", "predictor"]

# Names of summaries of a predictor's values, for a grid.
SUMMARIES = ("mean", "median", "mode", "min", "max", "minmax", "quartiles", "levels")
# Maximum number of distinct numbers that are all representative values.
_FEW = 4
# Maximum number of distinct values of "levels".
_MOST_LEVELS = 1_000


def expectation_of(fit: Fitted) -> Expectation:
    """The expected outcome of a fit as a function of its predictors.

    Raises
    ------
    OptionError
        The model has no expected outcome as a function of columns of a table.
    """
    made = fit.bound_model.expectation()
    outcomes = fit.bound_model.outcomes()
    if made is None and len(outcomes) > 1 and fit.bound_model.of_outcome(outcomes[0]) is not None:
        raise OptionError(
            f"effects are on one response, and this model has {listed(outcomes)}: take that of one,"
            f" fit.outcome('{outcomes[-1]}')",
            code="incomplete",
        )
    if made is None:
        raise OptionError(
            f"the family {fit.model.model.family} has no expected outcome as a function of the columns of a table;"
            " regression has: fit.predict gives the predictions of any model",
            code="other-family",
        )
    if names := fit.bound_model.computed_in_order():
        raise OptionError(
            f"effects are of rows by themselves, and the computed column '{names[0]}' depends on the order of the rows:"
            " compute it in the table instead",
            code="not-applicable",
        )
    return made


def quantity_of(fit: Fitted, expectation: Expectation, scale: Scale) -> str:
    """A description of the expected outcome with the label and the unit of the outcome."""
    source, name = fit.model.data, expectation.outcome
    return expectation.quantity(scale, source.title(name) if name in source.labels or name in source.units else "")


@dataclass(frozen=True, eq=False)
class Predictor:
    """A predictor and its values in the sample.

    Attributes
    ----------
    name : str
    values : ndarray (n,)
        Numbers or names of levels.
    levels : ndarray or None
        The ordered levels of a factor; None for numbers.
    weights : ndarray (n,) or None
        The weights of the rows.
    """

    name: str
    values: np.ndarray
    levels: np.ndarray | None
    weights: np.ndarray | None

    @cached_property
    def binary(self) -> bool:
        """Whether the values are the numbers 0 and 1."""
        return self.levels is None and set(np.unique(self.values).tolist()) == {0.0, 1.0}

    def checked(self, given: Any) -> Any:
        """A value in the type of the column: a level, or a finite number.

        Raises
        ------
        OptionError
            The value is not a level, or not a finite number.
        """
        if self.levels is not None:
            known = {str(level): level for level in self.levels.tolist()}
            word = f"{given:g}" if isinstance(given, float) and f"{given:g}" in known else str(given)
            if word not in known:
                raise OptionError(f"'{self.name}' has no level '{given}'{hint(word, known)}", code="unknown-level")
            return known[word]
        try:
            value = float(given)
        except (TypeError, ValueError):
            raise OptionError(f"'{self.name}' takes numbers, not {given!r}", code="wrong-type") from None
        if not np.isfinite(value):
            raise OptionError(f"'{self.name}' takes finite numbers, not {given!r}", code="not-finite")
        return value

    def typical(self) -> Any:
        """The mean of numbers; the most frequent value of a factor or of 0 and 1."""
        return self.summary("mode" if self.levels is not None or self.binary else "mean")[0]

    def representative(self) -> list[Any]:
        """All values of a factor, and of numbers with few; else the quartiles."""
        few = self.levels is not None or len(np.unique(self.values)) <= _FEW
        return self.summary("levels" if few else "quartiles")

    def summary(self, word: str) -> list[Any]:
        """The values of one of :data:`SUMMARIES`."""
        if word not in SUMMARIES:
            raise OptionError(
                f"'{self.name}': values are a number, a level, a list, or one of {listed(SUMMARIES)}; not"
                f" '{word}'{hint(word, SUMMARIES)}",
                code="unknown-word",
            )
        if word == "levels":
            out = self.levels if self.levels is not None else np.unique(self.values)
            if len(out) > _MOST_LEVELS:
                raise OptionError(
                    f"'{self.name}' has {len(out):,} different values: give a list, or quartiles", code="too-large"
                )
            return list(out.tolist())
        if word == "mode":
            values, index = np.unique(self.values, return_inverse=True)
            return [values[np.bincount(index, self.weights).argmax()].item()]
        if self.levels is not None:
            raise OptionError(
                f"'{self.name}' is a factor and has no {word}: take levels, mode or a list of levels",
                code="not-applicable",
            )
        match word:
            case "mean":
                return [float(np.average(self.values, weights=self.weights))]
            case "minmax":
                return [float(self.values.min()), float(self.values.max())]
            case "quartiles":
                return [float(q) for q in np.quantile(self.values, [0.25, 0.5, 0.75])]
            case _:
                return [float(getattr(np, word)(self.values))]


def predictor(fit: Fitted, expectation: Expectation, name: str, weights: np.ndarray | None = None) -> Predictor:
    """A predictor by its name.

    Raises
    ------
    OptionError
        The model has no such predictor; the message suggests the nearest name.
    """
    known = expectation.predictors
    bases = bases_of(fit, known)
    if name not in known and name not in bases:
        raise OptionError(
            f"'{name}' is not a predictor of '{expectation.outcome}'{hint(name, [*known, *bases])}; the predictors are"
            f" {listed(known)}",
            code="unknown-column",
        )
    term, rows = fit.data.term(name, missing=True), expectation.rows
    n = len(fit.data.labels[fit.data.dataset.rows])
    if term.codes is not None:
        levels = np.asarray(fit.data.labels[name])
        return Predictor(name, levels[np.broadcast_to(np.asarray(term.codes), n)[rows]], levels, weights)
    values = np.broadcast_to(np.asarray(term.value, float), n)[rows]
    if name in expectation.factors:
        column = fit.data.dataset.columns.get(name)
        exact = values if column is None or column.values.dtype.kind not in "iu" else column.values[rows]
        return Predictor(name, exact, np.unique(exact), weights)
    return Predictor(name, values, None, weights)


def bases_of(fit: Fitted, names: Sequence[str]) -> dict[str, list[str]]:
    """The data columns from which computed columns among ``names`` are computed, each with these computed columns."""
    out: dict[str, list[str]] = {}
    for name in names:
        wanted, met = [name], set[str]()
        while wanted:
            one = wanted.pop()
            if one in met or (one in fit.data.dataset.columns and one == name):
                continue
            met.add(one)
            if one in fit.data.dataset.columns:
                out.setdefault(one, []).append(name)
            elif one in fit.data.derive:
                wanted += sorted(fit.data.derive[one].names)
    return out
