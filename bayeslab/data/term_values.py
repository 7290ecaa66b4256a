"""Checked terms on data: the matrix formulae makes of them.

formulae codes factors (with or without an intercept), multiplies interactions out and remembers what ``center``,
``scale``, ``poly`` and ``bs`` learnt. The calls themselves are evaluated here, in floats and from one table of
functions: formulae is given an empty environment, in which no other name means anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import pandas as pd
from formulae import expr, terms
from formulae.categorical import CategoricalBox, Sum, Treatment
from formulae.environment import Environment
from formulae.matrices import DesignMatrices
from formulae.transforms import Offset

from bayeslab.data.cells import LARGEST_EXACT
from bayeslab.data.sines import DEFAULT_MARGIN, DEFAULT_SINES, Sines
from bayeslab.data.smooths import DEFAULT_SIZE, Smooth
from bayeslab.data.transforms import TRANSFORMS
from bayeslab.digits import check_digits
from bayeslab.errors import DataError, hint, listed
from bayeslab.language.spec import plain_name
from bayeslab.language.term_reader import FUNCTIONS, bound_arguments, constant, shown
from bayeslab.language.terms import Factor, SmoothTerm, Terms
from bayeslab.language.terms import bad_formula as _bad

__all__ = ["each_one", "level_codes", "matrix", "measurements", "smooth_of", "smooth_waves", "widths"]

_BINARY = {
    "PLUS": np.add, "MINUS": np.subtract, "STAR": np.multiply, "SLASH": np.divide, "STAR_STAR": np.power,
    "EQUAL_EQUAL": np.equal, "BANG_EQUAL": np.not_equal, "LESS": np.less, "LESS_EQUAL": np.less_equal,
    "GREATER": np.greater, "GREATER_EQUAL": np.greater_equal,
}  # fmt: skip
_ARITHMETIC = ("PLUS", "MINUS", "STAR", "SLASH", "STAR_STAR")
_ENCODINGS = {"Sum": Sum, "Treatment": Treatment, "S": Sum, "T": Treatment}


def matrix(wanted: Terms, frame: pd.DataFrame) -> Any:
    """formulae's matrix of the terms, which knows how to code new rows."""
    if not wanted.terms and not wanted.intercept:
        return _NoTerms(len(frame))
    parts = [terms.Term(*map(_component, term)) for term in wanted.terms]
    names = [part.name for part in parts]
    for name in names:
        if names.count(name) > 1:
            raise _bad(
                f"two terms are called '{name}': a column and an interaction; rename the column under data.rename",
                code="name-clash",
            )
    if wanted.intercept and "Intercept" in names:
        # formulae keeps terms by name, and would lose the intercept.
        raise _bad(
            "a column called 'Intercept' is beside the intercept of the model: rename it under data.rename, or leave"
            " the model's out, 0 + Intercept",
            code="name-clash",
        )
    model = terms.Model(*([terms.Intercept()] if wanted.intercept else []), *parts)
    return DesignMatrices(model, frame, Environment([{}])).common


class _NoTerms:
    """The matrix of no terms at all, of which formulae makes none."""

    def __init__(self, rows: int) -> None:
        self.terms: dict[str, Any] = {}
        self.slices: dict[str, slice] = {}
        self.design_matrix = np.empty((rows, 0))

    def evaluate_new_data(self, frame: pd.DataFrame) -> _NoTerms:
        return _NoTerms(len(frame))


def widths(wanted: Terms, frame: pd.DataFrame) -> list[int]:
    """At most how many columns each term makes, worked out before any of them is made."""
    each = {factor: _width(factor, frame) for term in wanted.terms for factor in term}
    return [prod(each[factor] for factor in term) for term in wanted.terms]


def _width(factor: Factor, frame: pd.DataFrame) -> int:
    if factor.column is not None:
        column = frame[factor.column]
        return len(column.cat.categories) if column.dtype == "category" else 1
    called = factor.expression.callee.name.lexeme
    if called in ("C", "S", "T"):
        return len(_levels(_factor_column(factor.expression, frame)))
    if called in ("poly", "bs"):
        count = bound_arguments(factor.expression).get("degree" if called == "poly" else "df")
        return int(constant(count)) if count is not None else 1
    if factor.smooth is not None:
        count = bound_arguments(factor.expression).get("k")
        levels = len(_by_levels(factor, frame)) if factor.smooth.by else 1
        usual = DEFAULT_SINES if factor.called == "gp" else DEFAULT_SIZE
        return levels * (int(constant(count)) if count is not None else usual)
    return 1


def _component(factor: Factor) -> Any:
    return terms.Variable(factor.column) if factor.column is not None else terms.Call(_Computed(factor))


@dataclass(eq=False)
class _Computed:
    """A call, as formulae evaluates one; ``memory`` holds what its transforms learnt, by their texts."""

    factor: Factor
    memory: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.factor.text

    def __hash__(self) -> int:
        return hash(self.factor)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Computed) and self.factor == other.factor

    def eval(self, frame: pd.DataFrame, _environment: Any = None) -> Any:
        """The value for each row: numbers, a factor or an offset."""
        tree = self.factor.expression
        called = tree.callee.name.lexeme
        if called in ("C", "S", "T"):
            return _factor(tree, frame, self.memory)
        if called == "gp":
            _smooth(self.factor, frame, self.memory)
            return np.zeros((len(frame), 1))  # no part of the matrix
        if called == "s":
            return _straight(self.factor, frame, self.memory)
        if called == "me":
            _, x, _ = measurements(self, frame)
            return np.ones(len(x)) if _EACH_ONE.get() else x
        if called == "mo":
            codes = level_codes(self, frame)
            return np.ones(len(codes)) if _EACH_ONE.get() else codes.astype(float)
        if called == "offset":
            return Offset(pd.Series(_number(bound_arguments(tree)["x"], frame, self.memory)))
        return _number(tree, frame, self.memory)


# Whether monotonic effects, and predictors measured with error, are ones, which leaves what they are multiplied by.
_EACH_ONE: ContextVar[bool] = ContextVar("each_one", default=False)
_MOST_LEVELS = 100


@contextmanager
def each_one() -> Iterator[None]:
    """Context in which every monotonic effect and every predictor measured with error is 1 in every row."""
    token = _EACH_ONE.set(True)
    try:
        yield
    finally:
        _EACH_ONE.reset(token)


def level_codes(call: _Computed, frame: pd.DataFrame) -> np.ndarray:
    """The place of each row's level in the order of a monotonic effect, from 0, (n,)."""
    text = call.factor.text
    column, name = _factor_column(call.factor.expression, frame), next(iter(call.factor.names))
    if "levels" not in call.memory:
        call.memory["levels"] = _in_order(text, name, column)
    levels = call.memory["levels"]
    if column.dtype == "category":
        return np.asarray(column.cat.codes, np.int64)
    values = np.asarray(column, float)
    beyond = ~np.isin(values, levels)
    if np.any(beyond):
        row = int(np.flatnonzero(beyond)[0])
        raise DataError(
            f"{text}: {values[row]:g} in row {frame.index[row] + 1} is not among the levels of the fit, {levels[0]} to"
            f" {levels[-1]} in whole numbers",
            path=("model", "formula"),
            code="unknown-level",
        )
    return values.astype(np.int64) - levels[0]


def measurements(call: _Computed, frame: pd.DataFrame) -> tuple[str, np.ndarray, np.ndarray]:
    """A measured predictor: its column, its values, and the standard deviations of their errors, each (n,)."""
    given, text = bound_arguments(call.factor.expression), call.factor.text
    x, value = _quantity(text, given["x"], frame), constant(given["sd"])
    error = np.full(len(frame), float(value)) if value is not None else _quantity(text, given["sd"], frame)
    if np.any(error < 0):
        row = int(np.flatnonzero(error < 0)[0])
        raise DataError(
            f"{text}: '{_name(given['sd'])}' is the standard deviation of an error, and is {error[row]:g} in row"
            f" {frame.index[row] + 1}",
            path=("model", "formula"),
            code="out-of-range",
        )
    return _name(given["x"]), x, error


def _quantity(text: str, tree: Any, frame: pd.DataFrame) -> np.ndarray:
    """A column of finite numbers."""
    name = _name(tree)
    if frame[name].dtype == "category":
        raise DataError(
            f"{text}: '{name}' holds names (text, or categories), and is to hold numbers",
            path=("model", "formula"),
            code="not-numbers",
        )
    values = np.asarray(frame[name], float)
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise DataError(
            f"{text}: '{name}' is {values[row]:g} in row {frame.index[row] + 1}",
            path=("model", "formula"),
            code="not-finite",
        )
    return values


def _in_order(text: str, name: str, column: Any) -> list[Any]:
    """The levels of a monotonic effect: those of a factor, or all whole numbers from the least to the largest."""
    if column.dtype == "category":
        levels = column.cat.categories.tolist()
    else:
        values = np.asarray(column, float)
        if np.any(values != np.floor(values)):
            worst = values[values != np.floor(values)][0]
            raise DataError(
                f"{text}: '{name}' is to have levels in order, text or whole numbers, and one is {worst:g}: a curve"
                f" over numbers is s({name})",
                path=("model", "formula"),
                code="not-states",
            )
        if len(values) and np.abs(values).max() >= LARGEST_EXACT:
            raise DataError(
                f"{text}: '{name}' holds numbers of 2⁵³ and more, which are rounded, so that different ones would be"
                " equal: subtract one of them from all in the table",
                path=("model", "formula"),
                code="too-many-digits",
            )
        low, high = int(values.min()), int(values.max())
        levels = list(range(low, min(high, low + _MOST_LEVELS) + 1))
    if len(levels) > _MOST_LEVELS:
        raise DataError(
            f"{text}: '{name}' has more than {_MOST_LEVELS} levels: a curve over numbers is s({name})",
            path=("model", "formula"),
            code="too-large",
        )
    if len(levels) < 3:
        raise DataError(
            f"{text}: '{name}' has {len(levels)} level{'s' * (len(levels) != 1)}, and a monotonic effect distributes a"
            f" difference over the steps between three or more: write {name}",
            path=("model", "formula"),
            code="too-few",
        )
    return levels


def _number(tree: Any, frame: pd.DataFrame, memory: dict[str, Any]) -> Any:
    """The value of a checked expression, in floats, with what its transforms learnt."""
    match tree:
        case expr.Grouping():
            return _number(tree.expression, frame, memory)
        case expr.Literal():
            return float(tree.value)
        case expr.Variable() | expr.QuotedName():
            return _column(tree, frame)
        case expr.Unary():
            value = _number(tree.right, frame, memory)
            return -value if tree.operator.kind == "MINUS" else value
        case expr.Binary():
            return _binary(tree, frame, memory)
        case expr.Call():
            return _called(tree, frame, memory)
        case _:
            raise _bad(f"{type(tree).__name__} has no meaning in a formula", code="syntax")


def _binary(tree: Any, frame: pd.DataFrame, memory: dict[str, Any]) -> Any:
    kind = tree.operator.kind
    sides = [tree.left, tree.right]
    for text, other in (sides, sides[::-1]):
        if isinstance(text, expr.Literal) and isinstance(text.value, str):
            equal = _is_level(text.value, other, frame)
            return 1.0 - equal if kind == "BANG_EQUAL" else equal
    for number in sides if kind not in _ARITHMETIC else ():
        if isinstance(number, expr.Literal) and abs(float(number.value)) >= LARGEST_EXACT:
            raise _bad(
                f"{shown(tree)}: numbers of 2⁵³ and more are rounded, so that different ones would be equal",
                code="too-many-digits",
            )
    return np.asarray(_BINARY[kind](*(_number(side, frame, memory) for side in sides)), dtype=float)


def _called(tree: Any, frame: pd.DataFrame, memory: dict[str, Any]) -> Any:
    called, given = tree.callee.name.lexeme, bound_arguments(tree)
    values = [_number(given[key], frame, memory) for key in ("x", "y") if key in given]
    if called == "I":
        return values[0]
    if called in FUNCTIONS:
        return FUNCTIONS[called](*values)
    options = {key: constant(argument) for key, argument in given.items() if key != "x"}
    key = shown(tree)
    if key not in memory:
        _possible(called, values[0], options)
        check_digits(shown(given["x"]), values[0])
        memory[key] = TRANSFORMS[called]()
    return memory[key](values[0], **options)


def _smooth(factor: Factor, frame: pd.DataFrame, memory: dict[str, Any]) -> tuple[np.ndarray, Any]:
    """The predictor of a curve, and its basis, which the first rows set."""
    given = bound_arguments(factor.expression)
    predictor = given["x"]
    if isinstance(predictor, expr.Variable | expr.QuotedName) and frame[_name(predictor)].dtype == "category":
        name = _name(predictor)
        raise DataError(
            f"{factor.text}: '{name}' holds names, and this is a curve over numbers; effects of levels are {name}"
            f" itself, or (1 | {name})",
            path=("model", "formula"),
            code="not-numbers",
        )
    x = np.asarray(_number(predictor, frame, memory), float)
    if factor.text not in memory:
        check_digits(shown(predictor), x)
        size = int(constant(given["k"])) if "k" in given else None
        if factor.called == "gp":
            margin = float(constant(given["c"])) if "c" in given else DEFAULT_MARGIN
            memory[factor.text] = Sines.of(x, size or DEFAULT_SINES, margin, factor.text)
        else:
            memory[factor.text] = made = Smooth()
            made.learn(x, size or DEFAULT_SIZE, factor.text)
    return x, memory[factor.text]


def _by_levels(factor: Factor, frame: pd.DataFrame) -> Any:
    """The levels for each of which there is a curve."""
    assert factor.smooth is not None
    name = factor.smooth.by
    if frame[name].dtype != "category":
        raise DataError(
            f"{factor.text}: by is a factor, with a curve for each level, and '{name}' holds numbers: list its levels"
            f" under dims if they are names",
            path=("model", "formula"),
            code="not-states",
        )
    return frame[name].cat.categories


def _straight(factor: Factor, frame: pd.DataFrame, memory: dict[str, Any]) -> np.ndarray:
    """The straight part of a smooth: one column, or one for each level."""
    x, basis = _smooth(factor, frame, memory)
    line = basis.line(x)
    if factor.smooth is None or factor.smooth.by is None:
        return line[:, None]
    codes = np.asarray(frame[factor.smooth.by].cat.codes)
    return line[:, None] * (codes[:, None] == np.arange(len(_by_levels(factor, frame))))


def smooth_of(term: Any) -> SmoothTerm | None:
    """What a term of formulae's matrix says, if it is a curve."""
    call = getattr(term.components[0], "call", None) if term.kind not in ("intercept", "offset") else None
    return call.factor.smooth if call is not None else None


def smooth_waves(call: _Computed, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray | None]:
    """The functions of a curve at rows, (n, functions), those that bend; and the level of each row that has a curve."""
    factor = call.factor
    x, basis = _smooth(factor, frame, call.memory)
    if factor.smooth is None or factor.smooth.by is None:
        return basis.waves(x), None
    _by_levels(factor, frame)
    return basis.waves(x), np.asarray(frame[factor.smooth.by].cat.codes, np.int64)


def _possible(called: str, x: np.ndarray, options: dict[str, Any]) -> None:
    """That a transform can learn from these values."""
    distinct = len(np.unique(x))
    if called == "poly" and distinct <= (degree := options.get("degree", 1)):
        raise DataError(
            f"poly() of degree {degree} needs more than {degree} different values; there are {distinct}", code="too-few"
        )
    if called in ("bs", "scale", "standardize") and distinct < 2:
        raise DataError(
            f"{called}() of a column that is constant ({x.flat[0]:g})" if x.size else f"{called}() of no rows",
            code="constant",
        )
    low, high = options.get("lower_bound"), options.get("upper_bound")
    if called == "bs" and ((low is not None and x.min() < low) or (high is not None and x.max() > high)):
        raise DataError(
            f"bs(): the values, {x.min():g} to {x.max():g}, go beyond lower_bound or upper_bound", code="out-of-range"
        )


def _name(tree: Any) -> str:
    return plain_name(tree.expression.lexeme[1:-1] if isinstance(tree, expr.QuotedName) else tree.name.lexeme)


def _column(tree: Any, frame: pd.DataFrame) -> np.ndarray:
    name = _name(tree)
    column = frame[name]
    if column.dtype == "category":
        raise DataError(
            f"a function of numbers is applied to a column of text: '{name}'; a level is I({name} == 'a')",
            code="not-numbers",
        )
    return np.asarray(column, dtype=float)


def _is_level(level: str, tree: Any, frame: pd.DataFrame) -> np.ndarray:
    name = _name(tree)
    column = frame[name]
    if column.dtype != "category":
        raise DataError(f"'{name}' is a column of numbers and compared with the text '{level}'", code="not-states")
    if level not in column.cat.categories:
        raise DataError(
            f"'{level}' is not a level of '{name}'{hint(level, column.cat.categories)}", code="unknown-level"
        )
    return np.asarray(column == level, dtype=float)


def _factor_column(tree: Any, frame: pd.DataFrame) -> Any:
    given = bound_arguments(tree)
    name = _name(given["data"] if "data" in given else given["x"])
    return frame[name] if frame[name].dtype == "category" else frame[f"\0{name}"]


def _levels(column: Any) -> list[Any]:
    return column.cat.categories.tolist() if column.dtype == "category" else sorted(set(_whole(column).tolist()))


def _whole(column: Any) -> np.ndarray:
    values = np.asarray(column)
    return values.astype(np.int64) if np.all(values == np.floor(values)) and np.all(abs(values) < 2**53) else values


class _Factor(CategoricalBox):
    """A factor with its levels, all of which need not occur in these rows."""

    levels: list[Any] | None = None

    def __init__(self, values: np.ndarray, encoding: Any, levels: list[Any]) -> None:
        super().__init__(values, encoding, None)
        self.levels = levels


def _factor(tree: Any, frame: pd.DataFrame, memory: dict[str, Any]) -> CategoricalBox:
    called, given, column = tree.callee.name.lexeme, bound_arguments(tree), _factor_column(tree, frame)
    name = _name(given["data"])
    if "levels" not in memory:
        memory["levels"] = _ordered(name, _levels(column), given)
    levels = memory["levels"]
    kind, level = None, given.get("omit", given.get("ref"))
    if "contrast" in given:
        contrast = given["contrast"]
        kind = (contrast.callee if isinstance(contrast, expr.Call) else contrast).name.lexeme
        level = next(iter(bound_arguments(contrast).values()), None) if isinstance(contrast, expr.Call) else None
    elif called in ("S", "T"):
        kind = called
    base = _one_of(name, constant(level), levels) if level is not None else None
    values = np.asarray(column) if column.dtype == "category" else _whole(column)
    return _Factor(values, _ENCODINGS[kind](base) if kind else None, levels)


def _ordered(name: str, levels: list[Any], given: dict[str, Any]) -> list[Any]:
    """The levels in the order that ``levels=[...]`` asks for."""
    if "levels" not in given:
        return levels
    wanted = [_one_of(name, level, levels) for level in constant(given["levels"])]
    if lacking := [level for level in levels if level not in wanted]:
        raise DataError(
            f"C({name}, levels=[...]) leaves out {listed(lacking)}; levels are all of them, in their order",
            code="incomplete",
        )
    if len(set(wanted)) < len(wanted):
        raise DataError(f"C({name}, levels=[...]) names a level twice", code="duplicate")
    return wanted


def _one_of(name: str, level: Any, levels: list[Any]) -> Any:
    """A level as it was written, as the column has it."""
    if level in levels:
        return level
    if not isinstance(level, str) and str(level) in levels:
        return str(level)
    raise DataError(f"{level!r} is not a level of '{name}'{hint(level, levels)}", code="unknown-level")
