"""The language of formulas: a right-hand side to checked terms.

formulae's scanner and parser [1]_ read the text; everything after that is here. The parse tree is walked
against a whitelist of node kinds, callees and their arguments, and the algebra of terms (``+ - : * / **``) [2]_
is applied, with a limit on their number, before anything is evaluated. Names are looked up only in the table of
functions and the columns of the data; no part of a formula is run as Python.

References
----------
.. [1] Capretto et al. formulae: formulas for mixed-effects models in Python. https://bambinos.github.io/formulae
.. [2] Wilkinson, Rogers (1973). Symbolic description of factorial models for analysis of variance. Applied
   Statistics 22(3).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from math import isfinite
from typing import Any

import numpy as np
from formulae.expr import Assign, Binary, Call, Grouping, Literal, QuotedName, Unary, Variable
from formulae.parser import ParseError, Parser
from formulae.scanner import ScanError, Scanner
from formulae.token import Token

from bayeslab.errors import hint
from bayeslab.language.spec import plain_name
from bayeslab.language.terms import (
    AREA_KINDS,
    MAX_LENGTH,
    AreaTerm,
    Factor,
    GroupTerm,
    MemberTerm,
    SmoothTerm,
    Term,
    Terms,
)
from bayeslab.language.terms import bad_formula as _bad

__all__ = ["FUNCTIONS", "bound_arguments", "constant", "parse_terms", "shown"]

# Elementwise functions of numbers.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10, "exp": np.exp, "expm1": np.expm1,
    "sqrt": np.sqrt, "abs": np.abs, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "minimum": np.minimum,
    "maximum": np.maximum,
}  # fmt: skip
_TWO_VALUES = {"minimum", "maximum"}
# For every callee its arguments in order, with the allowed kinds. The first argument is required, and all others that
# are values, tables, columns of areas and errors.
_ARGUMENTS: dict[str, dict[str, str]] = {
    **{name: {"x": "value"} | ({"y": "value"} if name in _TWO_VALUES else {}) for name in FUNCTIONS},
    **{name: {"x": "value"} for name in ("I", "center", "scale", "standardize", "offset")},
    "C": {"data": "column", "contrast": "contrast", "levels": "levels"},
    "S": {"data": "column", "omit": "level"},
    "T": {"data": "column", "ref": "level"},
    "poly": {"x": "value", "degree": "degree", "raw": "truth"},
    "bs": {
        "x": "value", "df": "count", "knots": "knots", "degree": "spline", "intercept": "truth",
        "lower_bound": "number", "upper_bound": "number",
    },
    "s": {"x": "value", "k": "basis", "by": "column"},
    "gp": {"x": "value", "k": "basis", "c": "number", "by": "column"},
    "mo": {"x": "column"},
    "me": {"x": "column", "sd": "error"},
    **{name: {"W": "table", "gr": "column"} for name in AREA_KINDS},
}  # fmt: skip
_CONTRASTS = {"Sum": "omit", "Treatment": "reference"}
_OPERATORS = {"PLUS", "MINUS", "STAR", "SLASH", "STAR_STAR"}
_COMPARISONS = {"EQUAL_EQUAL", "BANG_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"}
_MAX_NESTED, _MAX_DEPTH, _MAX_TERMS, _MAX_ORDER = 40, 150, 500, 8
# SciPy's FITPACK supports splines up to degree 5, and crashes the process for some higher degrees.
_MAX_SPLINE_DEGREE, _MAX_DEGREE, _MAX_DF = 5, 25, 1_000
_MOST_MARGIN = 50
_LEAST_BASIS = 3  # a constant, a straight line, and a function that bends


def parse_terms(text: str) -> tuple[Terms, tuple[GroupTerm, ...], tuple[AreaTerm, ...], tuple[MemberTerm, ...]]:
    """Parse a right-hand side into its common terms, its group terms, and its effects of areas and of several groups.

    Raises
    ------
    ModelError
        The right-hand side is not valid; the error has the path ``model.formula``.
    """
    if len(text) > MAX_LENGTH:
        raise _bad(f"the formula is longer than {MAX_LENGTH} characters", code="too-deep")
    common, groups = _split(_tokens(text))
    whole = _terms(common)
    areas = tuple(term[0].areas for term in whole.terms if term[0].areas is not None)
    rest = tuple(term for term in whole.terms if term[0].areas is None)
    plain = tuple(group for group in groups if isinstance(group, GroupTerm))
    several = tuple(group for group in groups if isinstance(group, MemberTerm))
    return replace(whole, terms=rest), plain, areas, several


# --------------------------------------------------------------------------------------------------- tokens


# Escape sequences: characters after a backslash that stand for themselves, a line end or a tab.
_ESCAPES = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r"}


class _Scanner(Scanner):
    """formulae's scanner, with strings that end at the same quote, as in Python, and numbers with exponents."""

    code: str
    start: int
    current: int

    def scan_token(self) -> None:
        if self.peek() == "_":
            self.advance()
            self.identifier()
        else:
            super().scan_token()

    def char(self) -> None:
        mark, value = self.code[self.start], []
        while (letter := self._next(mark)) != mark:
            if letter == "\\":
                escaped = self._next(mark)
                if escaped not in _ESCAPES:
                    raise _bad(
                        f"'\\{escaped}' has no meaning in a text of a formula: a backslash is written \\\\, a quote"
                        f" \\{mark}",
                        code="syntax",
                    )
                letter = _ESCAPES[escaped]
            value.append(letter)
        self.add_token("STRING", "".join(value))

    def _next(self, mark: str) -> str:
        if self.current >= len(self.code):
            begun = self.code[self.start : self.start + 20]
            raise _bad(f"the text that begins with {begun} has no closing quote {mark}", code="syntax")
        self.current += 1
        return self.code[self.current - 1]

    def backquote(self) -> None:
        end = self.code.find("`", self.current)
        if end <= self.current:
            raise _bad(
                "a column's name stands between two backticks, `blood pressure`; one of them is missing", code="syntax"
            )
        self.current = end + 1
        self.add_token("BQNAME")

    def number(self) -> None:
        match = re.compile(r"\d+(?:\.\d*)?(?:[eE][+-]?\d+)?", re.ASCII).match(self.code, self.start)
        if match is None:
            raise _bad(f"{self.code[self.start]!r} has no meaning in a formula", code="syntax")
        self.current = match.end()
        value = float(match.group())
        if not isfinite(value):
            raise _bad(f"the number {match.group()[:20]} is beyond the largest float", code="too-large")
        self.add_token("NUMBER", int(value) if match.group().isdigit() and value < 2**53 else value)

    def floatnum(self) -> None:
        raise _bad("a number begins with a digit: write 0.5, not .5", code="syntax")


@dataclass(frozen=True, slots=True)
class _List:
    """A list ``[a, b]`` of ordered levels."""

    items: tuple[Any, ...]


class _Parser(Parser):
    """formulae's parser, with lists, and with Python's powers in arguments: ``-x ** 2`` is ``-(x ** 2)``."""

    _calls = 0  # depth of nested calls

    def finishcall(self, expr: Any) -> Any:
        self._calls += 1
        call = super().finishcall(expr)
        self._calls -= 1
        return call

    def multiple_interaction(self) -> Any:
        return self.unary() if self._calls else super().multiple_interaction()

    def unary(self) -> Any:
        if not self._calls or self.check("PLUS") or self.check("MINUS"):
            return super().unary()
        base = self.call()
        if not self.match(["STAR_STAR"]):
            return base
        operator = self.previous()
        return Binary(base, operator, self.unary())

    def primary(self) -> Any:
        if self.check("LEFT_BRACE"):
            self._calls += 1
            braces = super().primary()
            self._calls -= 1
            return braces
        if not self.match("LEFT_BRACKET"):
            return super().primary()
        items: list[Any] = []
        while not self.check("RIGHT_BRACKET"):
            items.append(self.expression())
            if not self.match("COMMA"):
                break
        self.consume("RIGHT_BRACKET", "a list ends with ]")
        return _List(tuple(items))


def _tokens(text: str) -> list[Token]:
    try:
        tokens = _Scanner(text).scan(add_intercept=False)[:-1]
    except ScanError as error:
        raise _bad(
            f"{str(error).removeprefix('Unexpected character: ')!r} has no meaning in a formula", code="syntax"
        ) from None
    depth = 0
    for token in tokens:
        if "__" in token.lexeme and token.kind == "IDENTIFIER":
            raise _bad(
                f"'{token.lexeme}' has no meaning in a formula; a column of this name stands in backticks",
                code="syntax",
            )
        if "." in token.lexeme and token.kind == "IDENTIFIER":
            raise _bad(
                f"'.' has no meaning in a formula; a column called so stands in backticks: `{token.lexeme}`",
                code="syntax",
            )
        depth += (token.kind in _OPEN) - (token.kind in _CLOSE)
        if depth > _MAX_NESTED:
            raise _bad(f"brackets are nested deeper than {_MAX_NESTED} levels", code="too-deep")
    if len(tokens) == 0:
        raise _bad("the formula has no right-hand side; 'y ~ 1' has an intercept only", code="syntax")
    return tokens


_OPEN, _CLOSE = {"LEFT_PAREN", "LEFT_BRACKET", "LEFT_BRACE"}, {"RIGHT_PAREN", "RIGHT_BRACKET", "RIGHT_BRACE"}
_GROUP_FORM = (
    "a group term is written in brackets, '(1 + x | group)', the group being a column or 'a/b', 'a:b'; effects of"
    " several formulas are correlated where they share an id, '(1 | id | group)'"
)


def _split(tokens: list[Token]) -> tuple[list[Token], list[GroupTerm | MemberTerm]]:
    """The tokens of the common terms, and the group terms."""
    common: list[Token] = []
    groups: list[GroupTerm | MemberTerm] = []
    at = 0
    while at < len(tokens):
        end = _closing(tokens, at) if tokens[at].kind == "LEFT_PAREN" else None
        inside = tokens[at + 1 : end] if end is not None else []
        bars = [k for k, depth in _depths(inside) if inside[k].kind == "PIPE" and depth == 0]
        if end is None or not bars:
            if tokens[at].kind == "PIPE":
                raise _bad(_GROUP_FORM, code="syntax")
            common.append(tokens[at])
            at += 1
            continue
        before = common[-1].kind if common else None
        after = tokens[end + 1].kind if end + 1 < len(tokens) else None
        if before not in (None, "PLUS") or after not in (None, "PLUS", "MINUS") or len(groups) >= _MAX_TERMS:
            raise _bad("a group term stands by itself between + signs: y ~ x + (1 | group)", code="misplaced")
        groups += _group_terms(inside, bars)
        if before == "PLUS":
            common.pop()
        at = end + 1
        if not common and after == "PLUS":
            at += 1
    return common or [Token("NUMBER", "1", 1)], groups


def _depths(tokens: list[Token]) -> Iterator[tuple[int, int]]:
    depth = 0
    for k, token in enumerate(tokens):
        depth -= token.kind in _CLOSE
        yield k, depth
        depth += token.kind in _OPEN


def _closing(tokens: list[Token], start: int) -> int | None:
    depth = 0
    for k in range(start, len(tokens)):
        depth += (tokens[k].kind in _OPEN) - (tokens[k].kind in _CLOSE)
        if depth == 0:
            return k
    return None


def _group_terms(inside: list[Token], bars: list[int]) -> list[GroupTerm | MemberTerm]:
    independent = len(bars) == 2 and bars[1] == bars[0] + 1
    between = inside[bars[0] + 1 : bars[1]] if len(bars) == 2 and not independent else []
    if len(bars) > 2 or [token.kind for token in between] not in ([], ["IDENTIFIER"]):
        raise _bad(_GROUP_FORM, code="syntax")
    shared = "".join(token.lexeme for token in between)
    effects = _terms(inside[: bars[0]] or [Token("NUMBER", "1", 1)])
    if any(factor.text.startswith("offset(") for term in effects.terms for factor in term):
        raise _bad(
            "an offset has no coefficient that could vary by group; write it outside of the brackets", code="misplaced"
        )
    if any(factor.smooth for term in effects.terms for factor in term):
        raise _bad(
            "a curve has no effects that vary by group: a curve for each level of a factor is s(x, by=g), outside of"
            " the brackets",
            code="misplaced",
        )
    if any(factor.monotonic for term in effects.terms for factor in term):
        raise _bad(
            "a monotonic effect does not vary by group here: mo(x) stands outside of the brackets", code="misplaced"
        )
    if any(factor.measured for term in effects.terms for factor in term):
        raise _bad(
            "the slope of a predictor measured with error does not vary by group here: me(x, sd) stands outside of the"
            " brackets",
            code="misplaced",
        )
    if any(factor.areas for term in effects.terms for factor in term):
        raise _bad("effects of areas are a separate term, outside of the brackets: + icar(W, g)", code="misplaced")
    factor = inside[bars[-1] + 1 :]
    if len(factor) > 1 and factor[0].lexeme == "mm" and factor[1].kind == "LEFT_PAREN":
        if shared:
            raise _bad(
                f"effects of mm(...) are not correlated with others: leave out the id '{shared}'", code="conflict"
            )
        return [_members(factor, effects)]
    factor, student = _grouping(factor)
    if shared and student:
        raise _bad(
            f"effects with the id '{shared}' are normal, and those of gr(..., dist='student') are Student t: leave out"
            " one",
            code="conflict",
        )
    names = [plain_name(token.lexeme.strip("`")) for token in factor[::2]]
    joints = {token.kind for token in factor[1::2]}
    whole = len(factor) % 2 == 1 and all(token.kind in ("IDENTIFIER", "BQNAME") for token in factor[::2])
    if not whole or not (joints <= {"COLON"} or joints <= {"SLASH"}):
        given = "".join(token.lexeme for token in factor)
        raise _bad(f"'{given}' is not a grouping factor: a column, or 'a/b' (b within a), or 'a:b'", code="syntax")
    if shared and "SLASH" in joints:
        raise _bad(
            f"effects that share the id '{shared}' belong to one grouping factor, not to '{'/'.join(names)}': write a"
            " term for each",
            code="unsupported",
        )
    nested = [tuple(names[: k + 1]) for k in range(len(names))] if "SLASH" in joints else [tuple(names)]
    return [GroupTerm(effects, levels, not independent, shared, student) for levels in nested]


_DISTS = ("gaussian", "student")


def _grouping(tokens: list[Token]) -> tuple[list[Token], bool]:
    """The grouping factor, and whether its effects are Student t: of ``g`` or ``gr(g, dist='student')``."""
    kinds = [token.kind for token in tokens]
    if kinds[:2] != ["IDENTIFIER", "LEFT_PAREN"] or tokens[0].lexeme != "gr" or kinds[-1] != "RIGHT_PAREN":
        return tokens, False
    inside = tokens[2:-1]
    at = next((k for k, token in enumerate(inside) if token.kind == "COMMA"), len(inside))
    given = inside[at + 1 :]
    if not given:
        return inside[:at], False
    name = given[0].lexeme
    if [token.kind for token in given] != ["IDENTIFIER", "EQUAL", "STRING"] or name != "dist":
        word = hint(name, ["dist"]) if given[0].kind == "IDENTIFIER" else ""
        raise _bad(
            f"gr() has a grouping factor and its argument dist, gr(g, dist='student'); given:"
            f" '{''.join(token.lexeme for token in tokens)}'{word}",
            code="wrong-arguments",
        )
    dist = given[2].literal
    if dist not in _DISTS:
        raise _bad(f"the dist of gr() is no '{dist}'{hint(dist, _DISTS)}", code="unknown-word")
    return inside[:at], dist == "student"


_MEMBERS = (
    "groups of which a row has several are written (1 | mm(g1, g2)), or (1 | mm(g1, g2, weights=[w1, w2])) with a"
    " column of weights for each"
)


def _members(tokens: list[Token], effects: Terms) -> MemberTerm:
    """The term of effects of several groups, from the tokens of ``mm(...)``."""
    if effects.terms or not effects.intercept:
        raise _bad(
            f"(... | mm(...)) has a level for each group, and no slopes: (1 | mm(...)); given: {effects.text}",
            code="unsupported",
        )
    parser = _Parser([*tokens, Token("EOF", "")])
    try:
        call = parser.parse()
    except (ParseError, RecursionError):
        raise _bad(_MEMBERS, code="syntax") from None
    if not parser.at_end() or not isinstance(call, Call):
        raise _bad(_MEMBERS, code="syntax")
    factors, weights = list[str](), list[str]()
    for argument in call.args:
        if isinstance(argument, Assign) and argument.name.name.lexeme == "weights" and not weights:
            if not isinstance(argument.value, _List):
                raise _bad(_MEMBERS, code="wrong-arguments")
            columns, out = argument.value.items, weights
        else:
            columns, out = (argument,), factors
        if not all(isinstance(column, Variable | QuotedName) for column in columns):
            raise _bad(_MEMBERS, code="wrong-arguments")
        out += map(_name, columns)
    if len(factors) < 2 or len(set(factors)) < len(factors) or len(weights) not in (0, len(factors)):
        raise _bad(_MEMBERS, code="wrong-arguments")
    return MemberTerm(tuple(factors), tuple(weights))


# ---------------------------------------------------------------------------------------- algebra of terms


_NOTHING = "''"


def _terms(tokens: list[Token]) -> Terms:
    parser = _Parser([*tokens, Token("EOF", "")])
    try:
        tree = parser.parse()
    except ParseError as error:
        reason = str(error).removeprefix("Don't know how to parse ")
        raise _bad(
            f"the formula cannot be read: {'it ends too early' if reason == _NOTHING else reason}", code="syntax"
        ) from None
    except RecursionError:
        raise _bad("the formula cannot be read: it is nested too deeply", code="too-deep") from None
    if not parser.at_end():
        raise _bad(
            f"the formula cannot be read at '{parser.peek().lexeme}'; a column whose name has spaces or signs stands in"
            " backticks",
            code="syntax",
        )
    try:
        total = _sum(tree)
    except RecursionError:
        raise _bad("the formula cannot be read: it is nested too deeply", code="too-deep") from None
    return Terms(" ".join(token.lexeme for token in tokens), total.terms, total.intercept is not False)


@dataclass(frozen=True, slots=True)
class _Sum:
    """Terms, and whether an intercept was added (True), removed (False) or not mentioned (None)."""

    terms: tuple[Term, ...] = ()
    intercept: bool | None = None


def _one(factor: Factor) -> _Sum:
    return _Sum(((factor,),))


def _sum(tree: Any) -> _Sum:
    """Apply the algebra of Wilkinson and Rogers [2]_."""
    signed: list[Binary] = []  # a long sum is nested to the left; it is unrolled without recursion
    while isinstance(tree, Binary) and tree.operator.kind in ("PLUS", "MINUS"):
        signed.append(tree)
        tree = tree.left
    if signed:
        return _added(_sum(tree), signed[::-1])
    match tree:
        case Grouping():
            return _sum(tree.expression)
        case Literal(value=bool() | str() | None):
            raise _bad(f"{shown(tree)} is not a term;  there are columns, calls, 0 and 1", code="syntax")
        case Literal():
            if tree.value not in (0, 1):
                raise _bad(
                    f"{shown(tree)} is not a term;  of numbers there are 1, the intercept, and 0, none", code="syntax"
                )
            return _Sum(intercept=tree.value == 1)
        case Unary():
            inner = _sum(tree.right)
            if inner.terms or inner.intercept is None:
                raise _bad("a sign stands only before 0 and 1; arithmetic is written I(-x)", code="syntax")
            return inner if tree.operator.kind == "PLUS" else _Sum(intercept=not inner.intercept)
        case Variable() | QuotedName():
            return _one(_column(tree))
        case Call():
            return _one(_call(tree))
        case Binary():
            return _binary(tree)
        case _:
            what = "a list" if isinstance(tree, _List) else "an assignment"
            raise _bad(f"{what} has no meaning in a formula outside of a call", code="syntax")


def _added(first: _Sum, rest: list[Binary]) -> _Sum:
    kept, intercept = {frozenset(term): term for term in first.terms}, first.intercept
    for tree in rest:
        right, adds = _sum(tree.right), tree.operator.kind == "PLUS"
        for term in right.terms:
            if adds:
                kept.setdefault(frozenset(term), term)
            elif kept.pop(frozenset(term), None) is None:
                raise _bad(_nothing_to_remove(term), code="misplaced")
        if right.intercept is not None:
            intercept = right.intercept is adds
        _allowed(len(kept))
    return _Sum(tuple(kept.values()), intercept)


def _nothing_to_remove(term: Term) -> str:
    name = ":".join(factor.text for factor in term)
    if name.startswith("offset("):
        return f"'- {name}' would remove a term; a known part is subtracted by the offset of its negative, offset(-x)"
    return f"'- {name}' removes a term that the formula does not have so far; arithmetic is written I(x - z)"


def _binary(tree: Binary) -> _Sum:
    kind = tree.operator.kind
    if kind == "STAR_STAR":
        return _power(_sum(tree.left), tree)
    if kind not in ("COLON", "STAR", "SLASH"):
        raise _bad(
            f"'{tree.operator.lexeme}' has no meaning between terms; arithmetic is written I(x > 0)", code="syntax"
        )
    left, right = _sum(tree.left), _sum(tree.right)
    for side in (left, right):
        if side.intercept is not None:
            raise _bad(
                f"0 and 1 have no meaning beside '{tree.operator.lexeme}'; they stand between + and - signs",
                code="syntax",
            )
    # The terms of a product are counted first, as they could be too many to list.
    _allowed(len(left.terms) * len(right.terms))
    if kind == "SLASH":
        whole = tuple(factor for term in left.terms for factor in term)
        return _Sum(_distinct([*left.terms, *(_product(whole, term) for term in right.terms)]))
    products = [_product(a, b) for a in left.terms for b in right.terms]
    return _Sum(_distinct(products if kind == "COLON" else [*left.terms, *right.terms, *products]))


def _power(base: _Sum, tree: Binary) -> _Sum:
    order = tree.right.value if isinstance(tree.right, Literal) else None
    if not isinstance(order, int) or isinstance(order, bool) or order < 1:
        raise _bad("the exponent of ** is a whole number: (x + z) ** 2", code="syntax")
    if base.intercept is not None:
        raise _bad("0 and 1 have no meaning beside '**'; they stand between + and - signs", code="syntax")
    if len(base.terms) == 1:
        raise _bad(
            "** of one predictor leaves it as it is, as in R; the power is I(x ** 2), a polynomial poly(x, 2)",
            code="syntax",
        )
    terms = list(base.terms)
    for size in range(2, min(order, len(base.terms)) + 1):
        for several in combinations(base.terms, size):
            terms.append(_product(*several))
            _allowed(len(terms))
    return _Sum(_distinct(terms))


def _product(*terms: Term) -> Term:
    out = tuple(dict.fromkeys(factor for term in terms for factor in term))
    if len(out) > _MAX_ORDER:
        raise _bad(
            f"an interaction of more than {_MAX_ORDER} predictors; an order can be set: (a + b + c) ** 2",
            code="too-deep",
        )
    if len(out) > 1 and any(factor.text.startswith("offset(") for factor in out):
        raise _bad("an offset has no coefficient and no interactions; add it: x + offset(z)", code="misplaced")
    if sum(factor.latent for factor in out) > 1 and any(factor.measured for factor in out):
        raise _bad(
            "a predictor measured with error has no interaction with another one, or with a monotonic effect; one of"
            " them may be the column itself",
            code="misplaced",
        )
    if sum(factor.monotonic for factor in out) > 1:
        raise _bad(
            "an interaction of two monotonic effects is not there; one of them may be a factor, C(x)", code="misplaced"
        )
    if len(out) > 1 and any(factor.areas for factor in out):
        raise _bad("effects of areas have no interactions: add them to the others, + icar(W, g)", code="misplaced")
    if len(out) > 1 and any(factor.smooth for factor in out):
        raise _bad(
            "a curve has no interactions; a curve for each level of a factor is s(x, by=g), added to the others",
            code="misplaced",
        )
    return out


def _distinct(terms: Iterable[Term]) -> tuple[Term, ...]:
    """The distinct terms; x:z equals z:x."""
    kept: dict[frozenset[Factor], Term] = {}
    for term in terms:
        kept.setdefault(frozenset(term), term)
    _allowed(len(kept))
    return tuple(kept.values())


def _allowed(count: int) -> None:
    if count > _MAX_TERMS:
        raise _bad(
            f"the formula has more than {_MAX_TERMS} terms once its interactions are written out; an order can be set,"
            " (a + b + c) ** 2, or the interactions that matter named: a:b",
            code="too-deep",
        )


# -------------------------------------------------------------------------------------- factors and values


def _name(tree: Variable | QuotedName) -> str:
    if isinstance(tree, QuotedName):
        return plain_name(tree.expression.lexeme[1:-1])
    if tree.level is not None:
        raise _bad(
            f"'{tree.name.lexeme}[...]' has no meaning in a formula; a level is I({tree.name.lexeme} == 'level')",
            code="syntax",
        )
    return plain_name(tree.name.lexeme)


def _column(tree: Variable | QuotedName) -> Factor:
    name = _name(tree)
    return Factor(shown(tree), tree, name, frozenset((name,)))


def _call(tree: Call) -> Factor:
    names: set[str] = set()
    _check_call(tree, names, 0)
    if not names:
        raise _bad(f"'{shown(tree)}' has no column in it", code="misplaced")
    return Factor(shown(tree), tree, None, frozenset(names), _smooth(tree), _areas(tree))


def _areas(tree: Call) -> AreaTerm | None:
    """What a checked call says about areas."""
    called = str(tree.callee.name.lexeme)
    if called not in AREA_KINDS:
        return None
    given = bound_arguments(tree)
    return AreaTerm(called, _name(given["W"]), _name(given["gr"]))


def _smooth(tree: Call) -> SmoothTerm | None:
    """What a checked call says about a curve."""
    called = str(tree.callee.name.lexeme)
    if called not in ("s", "gp"):
        return None
    given = bound_arguments(tree)
    return SmoothTerm(called, shown(given["x"]), _name(given["by"]) if "by" in given else None)


def bound_arguments(tree: Call) -> dict[str, Any]:
    """The arguments of a checked call by name."""
    called = tree.callee.name.lexeme
    wanted = {_CONTRASTS[called]: "level"} if called in _CONTRASTS else _ARGUMENTS[called]
    out: dict[str, Any] = {}
    for place, argument in enumerate(tree.args):
        named = isinstance(argument, Assign)
        key = argument.name.name.lexeme if named else next(iter([*wanted][place : place + 1]), None)
        if not named and any(isinstance(earlier, Assign) for earlier in tree.args[:place]):
            raise _bad(f"{called}(): arguments without a name come first", code="wrong-arguments")
        if key is None:
            raise _bad(
                f"{called}() takes at most {len(wanted)} argument{'s' * (len(wanted) > 1)}", code="wrong-arguments"
            )
        if key not in wanted or (named and argument.name.level is not None):
            raise _bad(f"{called}() has no argument '{key}'{hint(key, wanted)}", code="unknown-option")
        if key in out:
            raise _bad(f"{called}(): '{key}' is given twice", code="wrong-arguments")
        out[key] = argument.value if named else argument
    return out


def _check_call(tree: Call, names: set[str], depth: int) -> None:
    callee = tree.callee
    if not isinstance(callee, Variable) or callee.level is not None:
        raise _bad("only functions can be called, by their names", code="syntax")
    called = callee.name.lexeme
    if called not in _ARGUMENTS:
        known = {*_ARGUMENTS, *_CONTRASTS}
        if called in _CONTRASTS:
            raise _bad(f"{called}() stands in C() only: C(g, {called})", code="misplaced")
        raise _bad(f"unknown function '{called}'{hint(called, known)}", code="unknown-function")
    if called == "offset" and depth:
        raise _bad("offset() is a term of its own, not an argument", code="misplaced")
    if depth and called in ("C", "S", "T"):
        raise _bad(
            f"{called}() makes a factor, which is not a number to compute with; C(x) stands by itself", code="misplaced"
        )
    if depth and called in ("bs", "poly"):
        raise _bad(f"{called}() makes several columns and stands by itself: {called}(log(x), ...)", code="misplaced")
    if depth and called in AREA_KINDS:
        raise _bad(f"{called}() is a separate term, not an argument", code="misplaced")
    if depth and called == "me":
        raise _bad(
            "me() is a separate term, not an argument: me(z, sd), with z computed in data.derive and sd its error",
            code="misplaced",
        )
    if depth and called in ("s", "gp", "mo"):
        inner = f"{called}(log(x))" if called != "mo" else "mo(x), whose steps have any size"
        raise _bad(f"{called}() is a separate term, not an argument: {inner}", code="misplaced")
    given, wanted = bound_arguments(tree), _ARGUMENTS[called]
    needed = [
        key for k, (key, kind) in enumerate(wanted.items()) if k == 0 or kind in ("value", "error") or "W" in wanted
    ]
    for key in needed:
        if key not in given:
            raise _bad(f"{called}() needs the argument '{key}'", code="wrong-arguments")
    for key, argument in given.items():
        _check_argument(called, key, wanted[key], argument, names, depth)
    if called == "bs":
        _check_spline(given)
    if called == "gp" and "c" in given and not 0.5 < constant(given["c"]) <= _MOST_MARGIN:
        raise _bad(
            f"gp(): c is the half width of the domain of the sines, in ranges of x, above 0.5 and at most"
            f" {_MOST_MARGIN}; given: {constant(given['c'])}",
            code="wrong-arguments",
        )


def _check_argument(called: str, key: str, kind: str, argument: Any, names: set[str], depth: int) -> None:
    if kind == "value":
        _check_value(argument, names, depth + 1)
        return
    if kind == "error":
        if isinstance(argument, Variable | QuotedName):
            names.add(_name(argument))
            return
        value = constant(argument)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise _bad(
                f"{called}(): sd is the standard deviation of the error, a column or a positive number; given:"
                f" {shown(argument)}",
                code="wrong-arguments",
            )
        return
    if kind == "table":
        if not isinstance(argument, Variable | QuotedName):
            raise _bad(
                f"{called}() takes the name of a table of neighbours, under data.tables, and the column of areas:"
                f" {called}(border, area)",
                code="wrong-arguments",
            )
        return
    if kind == "column":
        if not isinstance(argument, Variable | QuotedName):
            raise _bad(
                f"{called}() takes a column; compute one in data.derive, and name it here", code="wrong-arguments"
            )
        names.add(_name(argument))
        return
    if kind == "contrast":
        _check_contrast(argument)
        return
    if kind == "levels":
        if not isinstance(argument, _List) or not argument.items:
            raise _bad(
                f"{called}(): levels is a list of levels in their order: levels=['low', 'high']", code="wrong-arguments"
            )
        for item in argument.items:
            _check_argument(called, "each of levels", "level", item, names, depth)
        return
    value = constant(argument)
    given = shown(argument) if value is not None else "an expression"
    whole = isinstance(value, int) and not isinstance(value, bool)
    match kind:
        case "degree":
            fits, want = whole and 1 <= value <= _MAX_DEGREE, f"a whole number from 1 to {_MAX_DEGREE}"
        case "spline":
            fits, want = whole and 0 <= value <= _MAX_SPLINE_DEGREE, f"a whole number from 0 to {_MAX_SPLINE_DEGREE}"
        case "count":
            fits, want = whole and 1 <= value <= _MAX_DF, f"a whole number, at most {_MAX_DF:,}"
        case "basis":
            fits, want = (
                whole and _LEAST_BASIS <= value <= _MAX_DF,
                f"a whole number from {_LEAST_BASIS} to {_MAX_DF:,}",
            )
        case "truth":
            fits, want = isinstance(value, bool), "True or False"
        case "number":
            fits, want = isinstance(value, int | float) and not isinstance(value, bool), "a number"
        case "level":
            fits, want = (
                isinstance(value, int | float | str) and not isinstance(value, bool),
                "a level: a number or a text",
            )
        case _:
            raise _bad(
                f"{called}(): '{key}' cannot be given in a formula; df sets the number of knots", code="wrong-arguments"
            )
    if not fits:
        raise _bad(f"{called}(): {key} is {want}, not {given}", code="wrong-arguments")


def _check_contrast(argument: Any) -> None:
    called = argument.callee if isinstance(argument, Call) else argument
    named = isinstance(called, Variable) and called.level is None
    if not named or called.name.lexeme not in _CONTRASTS:
        raise _bad("C(): the contrast is Treatment, Treatment(level), Sum or Sum(level)", code="wrong-arguments")
    if isinstance(argument, Call):
        for key, level in bound_arguments(argument).items():
            _check_argument(called.name.lexeme, key, "level", level, set(), 0)


def _check_spline(given: dict[str, Any]) -> None:
    if "df" not in given:
        raise _bad("bs() needs df, the number of its columns: bs(x, df=5)", code="wrong-arguments")
    degree = constant(given["degree"]) if "degree" in given else 3
    fewest = degree + bool("intercept" in given and constant(given["intercept"]))
    if constant(given["df"]) < max(fewest, 1):
        raise _bad(
            f"bs() of degree {degree} has at least {max(fewest, 1)} columns: df={max(fewest, 1)}",
            code="wrong-arguments",
        )
    low, high = (constant(given[key]) if key in given else None for key in ("lower_bound", "upper_bound"))
    if low is not None and high is not None and not low < high:
        raise _bad("bs(): lower_bound lies below upper_bound", code="wrong-arguments")


def constant(tree: Any) -> Any:
    """The literal number, text or truth value; None for anything else."""
    if isinstance(tree, Literal):
        return tree.value
    if isinstance(tree, _List):
        return [constant(item) for item in tree.items]
    if isinstance(tree, Unary) and isinstance(tree.right, Literal) and type(tree.right.value) in (int, float):
        return -tree.right.value if tree.operator.kind == "MINUS" else tree.right.value
    return None


def _check_value(tree: Any, names: set[str], depth: int) -> None:
    """Check that an argument is arithmetic on columns."""
    if depth > _MAX_DEPTH:
        raise _bad(
            f"an expression nested deeper than {_MAX_DEPTH} levels; compute a column in data.derive", code="too-deep"
        )
    match tree:
        case Grouping():
            _check_value(tree.expression, names, depth + 1)
        case Literal():
            if isinstance(tree.value, bool) or not isinstance(tree.value, int | float):
                raise _bad(
                    f"{shown(tree)} is not a number; a text can only be compared with a column: I(g == 'a')",
                    code="syntax",
                )
        case Variable() | QuotedName():
            names.add(_name(tree))
        case Unary():
            _check_value(tree.right, names, depth + 1)
        case Call():
            _check_call(tree, names, depth)
        case Binary():
            kind = tree.operator.kind
            if kind not in _OPERATORS | _COMPARISONS:
                raise _bad(
                    f"'{tree.operator.lexeme}' has no meaning in an argument; there are + - * / ** == != < <= > >=",
                    code="syntax",
                )
            sides = [tree.left, tree.right]
            texts = [side for side in sides if isinstance(side, Literal) and isinstance(side.value, str)]
            if texts:
                other = sides[1 - sides.index(texts[0])]
                if kind not in ("EQUAL_EQUAL", "BANG_EQUAL") or not isinstance(other, Variable | QuotedName):
                    raise _bad(
                        f"{shown(texts[0])}: a text can only be compared with a column, by == or !=", code="syntax"
                    )
                names.add(_name(other))
                return
            if kind in _COMPARISONS and isinstance(tree.left, Binary) and tree.left.operator.kind in _COMPARISONS:
                raise _bad(f"'{shown(tree)}': comparisons are not chained; write (a < x) * (x < b)", code="syntax")
            for side in sides:
                _check_value(side, names, depth + 1)
        case _:
            raise _bad(
                f"{'a list' if isinstance(tree, _List) else 'an assignment'} has no meaning inside an expression",
                code="syntax",
            )


def shown(tree: Any) -> str:
    """A tree as text, with its brackets."""
    match tree:
        case Grouping():
            return f"({shown(tree.expression)})"
        case Literal():
            return str(tree.lexeme) if tree.lexeme is not None else str(tree.value)
        case QuotedName() | Variable():
            return _name(tree)
        case Unary():
            return f"{tree.operator.lexeme}{shown(tree.right)}"
        case Binary():
            return f"{shown(tree.left)} {tree.operator.lexeme} {shown(tree.right)}"
        case Assign():
            return f"{shown(tree.name)}={shown(tree.value)}"
        case Call():
            return f"{shown(tree.callee)}({', '.join(map(shown, tree.args))})"
        case _List():
            return f"[{', '.join(map(shown, tree.items))}]"
        case _:
            return "?"
