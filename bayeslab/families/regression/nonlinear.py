"""Non-linear formulas: the predicted quantity as an expression of columns, and of parameters with linear formulas."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass
from unicodedata import normalize

import numpy as np

from bayeslab.distributions import DISTRIBUTIONS, closed_moments, maths
from bayeslab.errors import BayeslabError, ModelError, hint, listed
from bayeslab.language.algebra import Term
from bayeslab.language.evaluator import Evaluator
from bayeslab.language.expressions import Expression, offset_of, parse
from bayeslab.language.formula import Formula, parse_formula, sides
from bayeslab.language.functions import ELEMENTWISE, FUNCTIONS, check_call
from bayeslab.language.numeric_priors import has_numbers, read_prior

__all__ = ["NonLinear", "non_linear", "prior_sd"]

_DRAW, _ROW = "_draw", "_row"
# outer() makes an axis of its own; the value of each row is one number.
_FUNCTIONS = {name: ELEMENTWISE[name] for name in ELEMENTWISE if name != "outer"}
_PATH = ("model", "formula")


@dataclass(frozen=True, slots=True, kw_only=True)
class NonLinear(Formula):
    """A formula ``response ~ expression``.

    Attributes
    ----------
    expression : Expression
        The linear predictor as an expression of ``columns`` and ``parameters``.
    parameters : tuple of str
        The parameters, each with a formula, in the order of their formulas.
    """

    expression: Expression
    parameters: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """Columns that the expression uses; all are numbers."""
        return sorted(self.expression.names - set(self.parameters))

    def predictor_columns(self) -> set[str]:
        return set(self.columns)

    def quantities(self) -> set[str]:
        return set(self.columns)

    def written(self, parts: Mapping[str, str]) -> str:
        """The expression with expressions in place of parameters."""

        class Replaced(ast.NodeTransformer):
            def visit_Name(self, node: ast.Name) -> ast.expr:
                return parse(parts[node.id]).tree if node.id in parts else node

        return ast.unparse(Replaced().visit(deepcopy(self.expression.tree)))

    def at(self, parameters: Mapping[str, np.ndarray], columns: Mapping[str, np.ndarray], n: int) -> np.ndarray:
        """The linear predictor, shape (draws, n), of parameters (draws, n or 1) and columns (n,)."""
        shape = (len(next(iter(parameters.values()))), n)
        values = {name: np.broadcast_to(value, shape) for name, value in {**parameters, **columns}.items()}
        with np.errstate(all="ignore"):
            value = Evaluator(lambda name: Term(values[name], (_DRAW, _ROW)), {}).term(self.expression).value
        return np.array(np.broadcast_to(np.asarray(value, float), shape))


def non_linear(text: str, parameters: Collection[str]) -> NonLinear | None:
    """A non-linear formula; None if its right-hand side names none of the parameters.

    Raises
    ------
    ModelError
        The left-hand side is no response, or the right-hand side is no expression with one number for each row.
    """
    left, right = sides(text)
    named = set(re.findall(r"[^\W\d]\w*", normalize("NFKC", right))) & set(parameters)
    if not named:
        return None
    start = len(text) - len(text.partition("~")[2].lstrip())
    try:
        expression = parse(right)
        _check(expression.tree)
    except BayeslabError as error:
        if "|" in right:
            raise ModelError(
                f"the formula of '{left}' is not linear in {listed(sorted(named))}, and a non-linear formula has no"
                f" group terms: they stand in the formulas of its parameters, {min(named)}: ~ 1 + (1 | group)",
                path=_PATH,
                code="syntax",
            ) from None
        raise ModelError(error.message, path=_PATH, offset=start + error.offset, code=error.code) from None
    used = tuple(name for name in parameters if name in expression.names)
    if not used:
        return None
    for name in used:
        if name in FUNCTIONS or name in DISTRIBUTIONS:
            raise ModelError(
                f"the parameter '{name}' has the name of a function or distribution; rename it",
                path=(*_PATH, name),
                code="reserved-name",
            )
    of = parse_formula(f"{left} ~ 0")
    return NonLinear(
        text, of.response, of.column, of.trials, of.common, of.groups, expression=expression, parameters=used
    )


def prior_sd(text: str) -> float | None:
    """The standard deviation of a prior whose parameters are numbers; None if it is not known or not finite."""
    name, given = read_prior(text)
    if name not in DISTRIBUTIONS or not has_numbers(given):
        return None
    closed, functions = closed_moments(str(name)), maths(str(name))
    if closed is None or functions is None:
        return None
    try:
        with np.errstate(all="ignore"):
            sd = float(np.sqrt(closed(*functions.canonical(**given))[1]))
    except (TypeError, ValueError, ArithmeticError):  # no variance, or a parameter that is refused with its place later
        return None
    return sd if 0 < sd < np.inf else None


def _check(tree: ast.expr) -> None:
    """Check that an expression has one number for each row, computed from this row only."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)):
                if name not in _FUNCTIONS:
                    what = "does not work row by row" if name in FUNCTIONS else "is not a function"
                    raise ModelError(
                        f"'{name}(...)' cannot stand in a non-linear formula: it {what}{hint(name, _FUNCTIONS)}",
                        offset=offset_of(node),
                        code="unknown-function",
                    )
                check_call(node)
            case ast.Constant(value=str() as label):
                raise ModelError(
                    f"the label '{label}' cannot stand in a non-linear formula: columns are numbers there; let a"
                    " parameter depend on a factor, with its formula ~ factor",
                    offset=offset_of(node),
                    code="unsupported",
                )
            case ast.Subscript() | ast.List() | ast.Tuple() | ast.BinOp(op=ast.MatMult()) | ast.Constant(value=None):
                raise ModelError(
                    f"'{ast.unparse(node):.40}' cannot stand in a non-linear formula, which has one number for each"
                    " row: let a parameter depend on a group, with its formula ~ 1 + (1 | group)",
                    offset=offset_of(node),
                    code="unsupported",
                )
