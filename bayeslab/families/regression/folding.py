"""What a regression needs of the rows of a table that is larger than memory."""

from __future__ import annotations

from collections.abc import Iterator, Set

from bayeslab.errors import Reason, listed
from bayeslab.families.regression.formulas import Formulas
from bayeslab.families.regression.nonlinear import NonLinear
from bayeslab.language.formula import Formula
from bayeslab.language.spec import Folding
from bayeslab.language.terms import Factor, Term

__all__ = ["folding_of"]

# Functions of formulas whose values in a row depend on all rows, by what they take from these.
_LEARNING = {
    "center": "the mean",
    "scale": "the mean and the standard deviation",
    "standardize": "the mean and the standard deviation",
    "poly": "the moments",
    "bs": "the knots",
    "s": "the knots",
    "gp": "the range",
}


def folding_of(formulas: Formulas, response: str, numbers: Set[str], beside: Set[str]) -> Folding | Reason:
    """The columns of which distinct values, and those of which means and covariances suffice.

    The likelihood of a linear model with normal errors depends on the response and on columns that enter linearly
    through sums of products only. Of any other column each distinct value counts.

    Parameters
    ----------
    formulas
    response
        "normal" for a linear model with normal errors; otherwise the likelihood, for messages.
    numbers
        The columns of numbers.
    beside
        Columns that the model uses besides those of formulas.
    """
    for formula in formulas.all.values():
        for factor in _factors(formula):
            word = factor.called or ""
            if word in _LEARNING:
                return Reason(f"{factor.text} takes {_LEARNING[word]} from all rows", code="unsupported")
            if factor.measured:
                return Reason(f"{factor.text} has a true value for each row", code="unsupported")
    used = formulas.predictor_columns() | formulas.mean.response_columns() | beside
    linear = response == "normal" and not isinstance(formulas.mean, NonLinear) and formulas.mean.column
    summed = _linear(formulas.mean, numbers) if linear else set[str]()
    summed -= {name for formula in formulas.further.values() for name in formula.predictor_columns()}
    summed -= beside
    return Folding(
        frozenset(used - summed), frozenset(summed), advice=_advice(sorted((used - summed) & numbers), response)
    )


def _factors(formula: Formula) -> Iterator[Factor]:
    for term in _terms(formula):
        yield from term


def _terms(formula: Formula) -> Iterator[Term]:
    yield from formula.common.terms
    for group in formula.groups:
        yield from group.effects.terms


def _linear(formula: Formula, numbers: Set[str]) -> set[str]:
    """The response, and the columns of numbers of which each term is a multiple or does not depend on them."""
    out = {formula.response, *formula.predictor_columns()} & numbers
    out -= formula.factors()
    for factor in _factors(formula):
        if factor.column is None and not (factor.called == "offset" and factor.text == f"offset({_only(factor)})"):
            out -= factor.names
    for term in _terms(formula):
        several = {name for factor in term for name in factor.names} & out
        if len(several) > 1:
            out -= several
    return out


def _only(factor: Factor) -> str:
    """The column of a factor that has one."""
    return next(iter(factor.names)) if len(factor.names) == 1 else ""


def _advice(measured: list[str], response: str) -> str:
    if response == "normal" and measured:
        return (
            f"write functions and products of {listed(measured)} as columns of data.derive, such as"
            f" {measured[0]}_2: {measured[0]} ** 2, which the formula takes as they are"
        )
    return f"likelihood {response} needs them all; round the numbers in a column of the table"
