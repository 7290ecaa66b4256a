"""Parsing of formulas ``response ~ predictors``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from bayeslab.errors import ModelError
from bayeslab.language.expressions import parse as parse_expression
from bayeslab.language.spec import node_name, plain_name
from bayeslab.language.terms import MAX_LENGTH, AreaTerm, GroupTerm, MemberTerm, Terms
from bayeslab.language.terms import bad_formula as _bad

__all__ = ["Formula", "parse_formula", "sides"]


@dataclass(frozen=True, slots=True)
class Formula:
    """A parsed formula, before evaluation.

    Attributes
    ----------
    text : str
    response : str
        A column or an expression; for ``p(successes, trials)`` the successes.
    column : bool
        Whether the response is a column.
    trials : str or None
        A column or a number, as text.
    common : Terms
        The right-hand side without group terms.
    groups : tuple of GroupTerm
    areas : tuple of AreaTerm
    members : tuple of MemberTerm
        Effects of groups of which a row has several.
    """

    text: str
    response: str
    column: bool
    trials: str | None
    common: Terms
    groups: tuple[GroupTerm, ...]
    areas: tuple[AreaTerm, ...] = ()
    members: tuple[MemberTerm, ...] = ()

    @property
    def outcome(self) -> str:
        """The name of the response's node."""
        return node_name(self.response)

    def response_columns(self) -> set[str]:
        """Columns the left-hand side reads."""
        names = {self.response} if self.column else set(_expression(self.response).names)
        return names | ({self.trials} if self.trials and not self.trials.isdigit() else set())

    def predictor_columns(self) -> set[str]:
        """Columns the right-hand side reads."""
        names = self.common.names
        for group in self.groups:
            names |= {*group.effects.names, *group.factors}
        names |= {name for term in self.members for name in term.weights}
        return names | self.factors()

    def factors(self) -> set[str]:
        """Columns whose levels have effects: of groups and of areas."""
        names = {name for group in self.groups for name in group.factors} | {term.factor for term in self.areas}
        return names | {name for term in self.members for name in term.factors}

    def quantities(self) -> set[str]:
        """Columns that the right-hand side uses as numbers, not only as factors."""
        return self.with_slopes() | {name for term in self.members for name in term.weights}

    def with_slopes(self) -> set[str]:
        """Columns that have slopes if they are numbers."""
        terms = [*self.common.terms, *(term for group in self.groups for term in group.effects.terms)]
        return {name for term in terms for factor in term for name in factor.numbers}


@lru_cache(maxsize=64)
def parse_formula(text: str) -> Formula:
    """Parse and check a formula.

    Raises
    ------
    ModelError
        The formula is not valid; the error has the path ``model.formula``.
    """
    left, right = sides(text)
    common, groups, areas, members = _CONSTANT.get(right) or _terms(right)
    _refuse_twice(groups)
    _refuse_areas_twice(areas, groups)
    often = Counter(term.factors for term in members)
    for term in members:
        if often[term.factors] > 1:
            raise _bad(f"two terms are {term.title}: leave out one", code="duplicate")
    _refuse_alike(common)
    response, trials = _proportion(left)
    name = _column_name(response)
    if name is None and not _expression(response).names:
        raise _bad(f"the response '{response}' has no column in it: write 'y ~ {right}'", code="syntax")
    return Formula(text, response if name is None else name, name is not None, trials, common, groups, areas, members)


def sides(text: str) -> tuple[str, str]:
    """The response and the right-hand side of a formula, as text.

    Raises
    ------
    ModelError
        The text is too long, has no or several ``~``, or one side is empty.
    """
    if len(text) > MAX_LENGTH:
        raise _bad(f"the formula is longer than {MAX_LENGTH} characters", code="too-deep")
    places = [at for at, quoted in _quoted(text) if text[at] == "~" and not quoted]
    if len(places) != 1:
        raise _bad(f"a formula is 'response ~ predictors', with one ~; given: {text!r}", code="syntax")
    left, right = text[: places[0]].strip(), text[places[0] + 1 :].strip()
    if not left:
        raise _bad("the formula has no response: write 'y ~ x'", code="syntax")
    if not right:
        raise _bad("the formula has no right-hand side; 'y ~ 1' has an intercept only", code="syntax")
    return left, right


def _terms(text: str) -> tuple[Terms, tuple[GroupTerm, ...], tuple[AreaTerm, ...], tuple[MemberTerm, ...]]:
    from bayeslab.language.term_reader import parse_terms  # imports formulae, and with it pandas

    return parse_terms(text)


# Right-hand sides that need no reading.
_CONSTANT = {"0": (Terms("0", (), False), (), (), ()), "1": (Terms("1", (), True), (), (), ())}


def _refuse_twice(groups: Sequence[GroupTerm]) -> None:
    """Refuse two terms with the same grouping factor: its effects belong in one term, which sets their correlation."""
    often = Counter(frozenset(group.factors) for group in groups)
    for group in groups:
        if often[frozenset(group.factors)] > 1:
            factor = ":".join(group.factors)
            raise _bad(
                f"two terms have effects of '{factor}': write them as one, (1 + x || {factor}) for independent effects"
                f" or (1 + x | {factor}) for correlated ones",
                code="duplicate",
            )


def _refuse_areas_twice(areas: Sequence[AreaTerm], groups: Sequence[GroupTerm]) -> None:
    """Refuse two terms of the same areas, which the data cannot tell apart."""
    often = Counter(term.factor for term in areas)
    for term in areas:
        if often[term.factor] > 1:
            raise _bad(
                f"two terms have effects of the areas '{term.factor}': leave out one; bym2({term.table},"
                f" {term.factor}) has a part that neighbours share and one that they do not",
                code="duplicate",
            )
        if term.kind == "bym2" and any(g.factors == (term.factor,) and g.effects.intercept for g in groups):
            raise _bad(
                f"{term.title} has independent effects of each '{term.factor}' already: leave out those of"
                f" (... | {term.factor})",
                code="duplicate",
            )


def _refuse_alike(common: Terms) -> None:
    """Refuse two curves with the same parameters."""
    names = [factor.smooth.name for factor in common.smooths if factor.smooth is not None]
    for factor in common.smooths:
        if factor.smooth is not None and names.count(factor.smooth.name) > 1:
            raise _bad(
                f"two curves are called '{factor.smooth.title}', like their parameters: leave out one, or rename a"
                " column under data.rename",
                code="duplicate",
            )


def _quoted(text: str) -> Iterator[tuple[int, bool]]:
    """Yield each position with whether it is within quotes or backticks."""
    mark, escaped = "", False
    for at, character in enumerate(text):
        yield at, bool(mark)
        if escaped:
            escaped = False
        elif mark and mark != "`" and character == "\\":
            escaped = True
        elif mark:
            mark = "" if character == mark else mark
        elif character in "`'\"":
            mark = character


def _expression(text: str) -> Any:
    try:
        return parse_expression(text)
    except ModelError as error:
        raise ModelError(
            f"left-hand side '{text}': {error.message}", path=("model", "formula"), code=error.code
        ) from None


def _column_name(text: str) -> str | None:
    """The name of the column if the text is a single column, else None."""
    if text.isidentifier():
        return plain_name(text)
    inner = text[1:-1]
    return plain_name(inner) if len(text) > 2 and text[0] == text[-1] == "`" and "`" not in inner else None


def _proportion(left: str) -> tuple[str, str | None]:
    """Successes and trials of ``p(successes, trials)``; else the response and None."""
    name = r"(`[^`]+`|[^\W\d]\w*)"
    match = re.fullmatch(rf"(?:p|prop|proportion)\(\s*{name}\s*,\s*({name}|\d+)\s*\)", left)
    if not match:
        return left, None
    return match[1], match[2] if match[2].isdigit() else plain_name(match[2].strip("`"))
