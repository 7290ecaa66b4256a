"""The expression language: text to a checked tree.

Expressions look like Python and are never run as Python: the text goes through :mod:`ast`, and every node is checked
against a whitelist. :class:`~bayeslab.language.evaluator.Evaluator` walks the tree.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass

from bayeslab.errors import ModelError
from bayeslab.language.spec import unquoted

__all__ = ["BINARY", "COMPARE", "Expression", "offset_of", "parse"]

MAX_LENGTH = 5_000
# Python keywords, which have no meaning in expressions and cannot be names.
_NOT_NAMES = frozenset(keyword.kwlist) - {"and", "or", "not", "None", "True", "False"}
MAX_DEPTH = 60

BINARY = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "mod",
}
COMPARE = {
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
}
_ODD_NAMES = "a column with spaces, points or quotes in its name stands in backticks, or has another under data.rename"
_OUTSIDE = {
    ast.Attribute: "attribute access (a.b)",
    ast.Lambda: "lambda",
    ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.IfExp: "'a if b else c' (write where(b, a, c))",
    ast.Dict: "a dictionary",
    ast.Set: "a set",
    ast.NamedExpr: "assignment",
    ast.JoinedStr: "a formatted string",
    ast.Starred: "*",
    ast.Slice: "a slice (index by a name, a label or a position)",
    ast.Await: "await",
    ast.Yield: "yield",
}


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed, checked expression.

    Attributes
    ----------
    text : str
    tree : ast.expr
        Holds only whitelisted nodes.
    names : frozenset of str
        Names in the expression, without functions.
    calls : frozenset of str
        Names of the called functions and distributions.
    """

    text: str
    tree: ast.expr
    names: frozenset[str]
    calls: frozenset[str]


def parse(text: str) -> Expression:
    """Parse and check one expression; nothing is evaluated.

    Raises
    ------
    ModelError
        The expression is not valid; ``offset`` has the column of the problem.
    """
    if len(text) > MAX_LENGTH:
        raise ModelError(f"an expression of {len(text):,} characters; at most {MAX_LENGTH:,}", code="too-deep")
    if not text.strip():
        raise ModelError("an empty expression; write a distribution, a number or a formula", code="syntax")
    lead = len(text) - len(text.lstrip())
    try:
        tree = ast.parse(unquoted(text).strip(), mode="eval").body
    except SyntaxError as error:
        at = max((error.offset or 1) - 1, 0) + lead
        for word in re.finditer(r"'[^']*'|\"[^\"]*\"|[^\W\d]\w*", text):
            if word.group() in _NOT_NAMES:
                advice = "call the node something else, a column under data.rename"
                message = f"'{word.group()}' is a reserved word of expressions; {advice}"
                raise ModelError(message, offset=word.start(), code="reserved-name") from None
        odd = any(text in error.msg for text in ("invalid", "unterminated"))
        advice = f"; {_ODD_NAMES}" if odd else ""
        raise ModelError(f"cannot be read as an expression: {error.msg}{advice}", offset=at, code="syntax") from None
    except (ValueError, MemoryError, RecursionError):
        raise ModelError("cannot be read as an expression: nested too deeply or not text", code="too-deep") from None
    names: set[str] = set()
    calls: set[str] = set()
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        raise _alone(tree)
    _check(tree, 0, names, calls)
    return Expression(text, tree, frozenset(names), frozenset(calls))


def offset_of(node: ast.AST) -> int:
    """Column of a node in its expression; 0 beyond the first line."""
    return node.col_offset if getattr(node, "lineno", 2) == 1 else 0  # type: ignore[attr-defined]


def _check(node: ast.expr, depth: int, names: set[str], calls: set[str]) -> None:
    def bad(message: str, *, code: str) -> ModelError:
        return ModelError(message, offset=offset_of(node), code=code)

    if depth > MAX_DEPTH:
        raise bad(f"an expression nested deeper than {MAX_DEPTH} levels; split it into several nodes", code="too-deep")
    children: Iterable[ast.expr]
    match node:
        case ast.Constant(value=bool() | None | str()):
            return
        case ast.Constant(value=int() | float() as number):
            if isinstance(number, int) and abs(number) > 2**63 - 1:
                raise bad("an integer beyond 64 bits; write it as a float", code="too-large")
            if abs(number) == float("inf"):
                raise bad("a number beyond the largest, 1.8e308", code="too-large")
            return
        case ast.Name(id=name):
            if name.startswith("__"):
                raise bad(f"names starting with '__' are not allowed: '{name}'", code="reserved-name")
            names.add(name)
            return
        case ast.BinOp(op=op):
            if isinstance(op, ast.BitXor):
                raise bad("'^' is not an operator here; write ** for a power", code="syntax")
            if type(op) not in BINARY and not isinstance(op, ast.MatMult):
                raise bad("this operator is not part of the language; there are + - * / // % ** @", code="syntax")
            children = (node.left, node.right)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not()):
            children = (node.operand,)
        case ast.BoolOp():
            children = node.values
        case ast.Compare():
            if len(node.ops) > 1:
                raise bad("a chained comparison; write (a < b) and (b < c)", code="syntax")
            if type(node.ops[0]) not in COMPARE:
                raise bad("this comparison is not part of the language; there are == != < <= > >=", code="syntax")
            children = (node.left, node.comparators[0])
            texts = [isinstance(side, ast.Constant) and isinstance(side.value, str) for side in children]
            if all(texts) or (any(texts) and not isinstance(node.ops[0], ast.Eq | ast.NotEq)):
                raise bad("labels can only be compared with == and !=, and with factors", code="syntax")
        case ast.Call():
            if not isinstance(node.func, ast.Name):
                raise bad("only functions and distributions can be called, by their names", code="syntax")
            if node.func.id.startswith("__"):
                raise bad(f"names starting with '__' are not allowed: '{node.func.id}'", code="reserved-name")
            if any(named.arg is None for named in node.keywords):
                raise bad("** is not part of the language", code="syntax")
            calls.add(node.func.id)
            children = (*node.args, *(named.value for named in node.keywords))
        case ast.Subscript():
            items = node.slice.elts if isinstance(node.slice, ast.Tuple) else (node.slice,)
            children = (node.value, *items)
        case ast.List() | ast.Tuple():
            if not node.elts:
                raise bad("an empty list", code="syntax")
            children = node.elts
        case _:
            word = _OUTSIDE.get(type(node), f"'{ast.unparse(node)[:30]}'")
            advice = f"; {_ODD_NAMES}" if isinstance(node, ast.Attribute) else ""
            raise bad(f"{word} is not part of the expression language{advice}", code="syntax")
    labels = isinstance(node, ast.Subscript | ast.Compare)
    for child in children:
        if isinstance(child, ast.Constant) and isinstance(child.value, str) and not labels:
            raise _alone(child)
        _check(child, depth + 1, names, calls)


def _alone(label: ast.Constant) -> ModelError:
    message = f"the label '{label.value!s}' stands alone; compare a factor with it or index by it"
    return ModelError(message, offset=offset_of(label), code="misplaced")
