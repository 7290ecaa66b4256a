"""The expression language: parse to a checked tree, evaluate on NumPy or PyTensor.

Expressions look like Python and are never run as Python: the text goes through :mod:`ast`, every
node is checked against a whitelist, and an :class:`Evaluator` walks the tree. Its values are
:class:`Term` s, arrays whose axes have *names*; two terms broadcast by the names of their
dimensions, never by position. As long as only data are involved the arithmetic is NumPy's; as
soon as a random quantity enters it becomes a PyTensor graph.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from bayeslab.errors import DataError, ModelError, hint, listed
from bayeslab.language.products import COLUMNS, contracted, is_matrix_product
from bayeslab.language.spec import unquoted

__all__ = [
    "FUNCTIONS",
    "MOST_COUNTED",
    "Evaluator",
    "Expression",
    "Term",
    "as_float",
    "is_whole_number",
    "labels_are_numbers",
    "parse",
]

MAX_LENGTH = 5_000
# Python's words that mean nothing in expressions and cannot be names.
_NOT_NAMES = frozenset(keyword.kwlist) - {"and", "or", "not", "None", "True", "False"}
MAX_DEPTH = 60
_WHOLE_NUMBER = re.compile(r"-?\d+")

_BINARY = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "mod",
}
_COMPARE = {
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
}
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
        Bare names in it, functions not counted.
    calls : frozenset of str
        Names of what it calls.
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
        With the column of the problem in ``offset``.
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
                message = f"'{word.group()}' is a reserved word of expressions; call the node or column something else"
                raise ModelError(message, offset=word.start(), code="reserved-name") from None
        raise ModelError(f"cannot be read as an expression: {error.msg}", offset=at, code="syntax") from None
    except (ValueError, MemoryError, RecursionError):
        raise ModelError("cannot be read as an expression: nested too deeply or not text", code="too-deep") from None
    names: set[str] = set()
    calls: set[str] = set()
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        raise _alone(tree)
    _check(tree, 0, names, calls)
    return Expression(text, tree, frozenset(names), frozenset(calls))


def _offset(node: ast.AST) -> int:
    return node.col_offset if getattr(node, "lineno", 2) == 1 else 0  # type: ignore[attr-defined]


def _check(node: ast.expr, depth: int, names: set[str], calls: set[str]) -> None:
    def bad(message: str, *, code: str) -> ModelError:
        return ModelError(message, offset=_offset(node), code=code)

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
            if type(op) not in _BINARY and not isinstance(op, ast.MatMult):
                raise bad("this operator is not part of the language; there are + - * / // % ** @", code="syntax")
            children = (node.left, node.right)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not()):
            children = (node.operand,)
        case ast.BoolOp():
            children = node.values
        case ast.Compare():
            if len(node.ops) > 1:
                raise bad("a chained comparison; write (a < b) and (b < c)", code="syntax")
            if type(node.ops[0]) not in _COMPARE:
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
            raise bad(f"{word} is not part of the expression language", code="syntax")
    labels = isinstance(node, ast.Subscript | ast.Compare)
    for child in children:
        if isinstance(child, ast.Constant) and isinstance(child.value, str) and not labels:
            raise _alone(child)
        _check(child, depth + 1, names, calls)


def _alone(label: ast.Constant) -> ModelError:
    message = f"the label '{label.value!s}' stands alone; compare a factor with it or index by it"
    return ModelError(message, offset=_offset(label), code="misplaced")


# --------------------------------------------------------------------------------------- terms


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """An array with named axes, as an expression sees it.

    Attributes
    ----------
    value
        A NumPy array or number (data), or a PyTensor variable (random). Text columns have None.
    dims
        Name of each axis; None for an axis without a name (a literal list).
    codes, factor
        For a factor: positions in the levels of the dimension ``factor``.
    undefined
        Rows at the start of a dimension that a ``lag`` leaves without a value.
    column
        Name of the data column this is, unchanged; such terms become ``pm.Data``.
    given
        Whether these are the cells of a column, which as an index are labels, and nothing computed from them.
    """

    value: Any
    dims: tuple[str | None, ...] = ()
    codes: Any = None
    factor: str | None = None
    undefined: Mapping[str, int] = field(default_factory=dict)
    column: str | None = None
    given: bool = False

    @property
    def random(self) -> bool:
        """Whether the value is a PyTensor variable."""
        return self.value is not None and not isinstance(self.value, np.ndarray | np.generic | int | float)


def _merge(terms: Iterable[Term]) -> dict[str, int]:
    out: dict[str, int] = {}
    for term in terms:
        for dim, rows in term.undefined.items():
            out[dim] = max(out.get(dim, 0), rows)
    return out


def is_whole_number(word: str) -> bool:
    """Whether a label is a whole number."""
    return _WHOLE_NUMBER.fullmatch(word) is not None


def labels_are_numbers(labels: np.ndarray) -> bool:
    """Whether some labels are whole numbers, and not all of them their own positions, 0 to n - 1."""
    if labels.dtype.kind in "iu":
        return not np.array_equal(labels, np.arange(len(labels)))
    words = list(map(str, labels.tolist()))
    return any(map(is_whole_number, words)) and words != list(map(str, range(len(words))))


# ----------------------------------------------------------------------------------- functions

# name: (fewest, most) positional arguments and the keywords allowed.
_ELEMENTWISE = dict.fromkeys(
    [
        "abs",
        "sqrt",
        "exp",
        "log",
        "log1p",
        "expm1",
        "log2",
        "log10",
        "sigmoid",
        "invlogit",
        "logit",
        "softplus",
        "sin",
        "cos",
        "tan",
        "arcsin",
        "arccos",
        "arctan",
        "sinh",
        "cosh",
        "tanh",
        "erf",
        "erfc",
        "gammaln",
        "digamma",
        "Phi",
        "invprobit",
        "probit",
        "floor",
        "ceil",
        "round",
        "sign",
    ],
    (1, 1),
) | {
    "minimum": (2, 2),
    "maximum": (2, 2),
    "clip": (3, 3),
    "where": (3, 3),
    "outer": (2, 2),
    "arctan2": (2, 2),
}
_REDUCTIONS = dict.fromkeys(["sum", "mean", "prod", "min", "max", "sd", "var"], (1, 2))
_ALONG = dict.fromkeys(["softmax", "logsumexp", "cumsum", "cumprod"], (1, 2))
_OTHER = {
    "dot": (2, 3),
    "inv": (1, 1),
    "det": (1, 1),
    "logdet": (1, 1),
    "cholesky": (1, 1),
    "solve": (2, 2),
    "solve_lower": (2, 2),
    "transpose": (1, 1),
    "trace": (1, 1),
    "diag": (2, 2),
    "diagonal": (1, 1),
    "eye": (2, 2),
    "rename": (2, 3),
    "index": (1, 1),
    "size": (1, 1),
    "concat": (2, 2),
    "stack": (2, 2),
    "lag": (2, 2),
    "previous": (2, 2),
    "isnan": (1, 1),
}
FUNCTIONS: dict[str, tuple[int, int]] = _ELEMENTWISE | _REDUCTIONS | _ALONG | _OTHER
_KEYWORDS = {"lag": {"start"}, "previous": {"start"}}
# Arguments (by position) that are names of dimensions, not values.
DIM_ARGUMENTS: dict[str, tuple[int, ...]] = (
    dict.fromkeys((*_REDUCTIONS, *_ALONG), (1,))
    | {"dot": (2,), "diag": (1,), "eye": (0, 1), "rename": (1, 2), "index": (0,), "size": (0,)}
    | {"concat": (1,), "stack": (1,)}
)


def check_call(node: ast.Call) -> None:
    """Number of arguments and keywords of a function call, before anything is evaluated."""
    name = node.func.id  # type: ignore[attr-defined]
    low, high = FUNCTIONS[name]
    if not low <= len(node.args) <= high:
        want = str(low) if low == high else f"{low} or {high}"
        raise ModelError(
            f"{name}() takes {want} arguments, {len(node.args)} given", offset=_offset(node), code="wrong-arguments"
        )
    for named in node.keywords:
        if named.arg not in _KEYWORDS.get(name, set()):
            raise ModelError(f"{name}() has no argument '{named.arg}'", offset=_offset(node), code="wrong-arguments")
    if name in ("lag", "previous"):
        steps = node.args[1]
        if not (isinstance(steps, ast.Constant) and isinstance(steps.value, int) and steps.value >= 1):
            raise ModelError(
                f"{name}(): the number of steps is a whole number ≥ 1", offset=_offset(node), code="wrong-arguments"
            )


@cache
def _numpy_functions() -> dict[str, Callable[..., Any]]:
    from scipy import special

    return {
        "sigmoid": special.expit,
        "invlogit": special.expit,
        "logit": special.logit,
        "softplus": lambda x: np.logaddexp(0.0, x),
        "erf": special.erf,
        "erfc": special.erfc,
        "gammaln": special.gammaln,
        "digamma": special.digamma,
        "Phi": special.ndtr,
        "invprobit": special.ndtr,
        "probit": special.ndtri,
        "outer": np.multiply,
        "inv": np.linalg.inv,
        "det": np.linalg.det,
        "logdet": lambda a: np.linalg.slogdet(a)[1],
        "cholesky": np.linalg.cholesky,
        "solve": lambda a, b: np.linalg.solve(a, b),
        "logsumexp": special.logsumexp,
        "softmax": special.softmax,
        "clip": lambda x, low, high: np.clip(x, low, high),
        "divide": lambda a, b: np.divide(a, b),
        "power": lambda a, b: np.power(np.asarray(a, dtype=float), b),
    }


@cache
def _pytensor_functions() -> dict[str, Callable[..., Any]]:
    import pytensor.tensor as pt

    def cholesky(a: Any) -> Any:
        return pt.linalg.cholesky(a, lower=True)

    return {
        "invlogit": pt.sigmoid,
        "logit": lambda p: pt.log(p) - pt.log1p(-p),
        "Phi": lambda x: 0.5 * pt.erfc(-x / np.sqrt(2.0)),
        "invprobit": lambda x: 0.5 * pt.erfc(-x / np.sqrt(2.0)),
        "probit": lambda p: -np.sqrt(2.0) * pt.erfcinv(2.0 * p),
        "outer": pt.mul,
        "add": pt.add,
        "subtract": pt.sub,
        "multiply": pt.mul,
        "divide": pt.true_div,
        "power": pt.pow,
        "floor_divide": pt.int_div,
        "mod": pt.mod,
        "equal": pt.eq,
        "not_equal": pt.neq,
        "less": pt.lt,
        "less_equal": pt.le,
        "greater": pt.gt,
        "greater_equal": pt.ge,
        "negative": pt.neg,
        "logical_and": lambda a, b: pt.and_(pt.neq(a, 0), pt.neq(b, 0)),
        "logical_or": lambda a, b: pt.or_(pt.neq(a, 0), pt.neq(b, 0)),
        "logical_not": lambda a: pt.eq(a, 0),
        "where": lambda c, a, b: pt.switch(c, a, b),
        "digamma": pt.psi,
        "inv": pt.linalg.inv,
        "det": pt.linalg.det,
        "logdet": lambda a: pt.linalg.slogdet(a)[1],
        "cholesky": cholesky,
        "solve": lambda a, b: pt.linalg.solve(a, b, b_ndim=1 if b.ndim == 1 else 2),
    }


# What would leave the range of 64-bit integers without a word: their arithmetic is that of floats.
_ARITHMETIC = frozenset(
    ("add", "subtract", "multiply", "power", "floor_divide", "mod", "negative", "abs", "outer", "sign")
)
_SUMS = frozenset(("sum", "mean", "prod", "sd", "var"))
#: Floats hold every whole number up to here.
MOST_COUNTED = 2**53


def _whole(value: Any) -> bool:
    """Whether a number, array or variable is of whole numbers."""
    dtype = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
    return np.dtype(dtype).kind in "iub"


def as_float(value: Any) -> Any:
    """A number, array or variable of whole numbers as one of floats; others as they are.

    Raises
    ------
    DataError
        A number beyond 2^53 lies between two floats: the digits that a difference is made of would be lost.
    """
    if not hasattr(value, "astype"):
        value = np.asarray(value)
    if not _whole(value):
        return value
    out = value.astype("float64")
    if isinstance(value, np.ndarray | np.generic) and np.size(value) and np.max(np.abs(out)) >= MOST_COUNTED:
        lost = [n for n in np.ravel(value).tolist() if int(float(n)) != n]
        if lost:
            raise DataError(
                f"{lost[0]} lies between two floats, in which whole numbers are computed with (they hold all up to"
                f" {MOST_COUNTED:,}): subtract from the column before it is read, or use it as a label",
                code="too-many-digits",
            )
    return out


def _function(name: str, symbolic: bool) -> Callable[..., Any]:
    if symbolic:
        import pytensor.tensor as pt

        table = _pytensor_functions()
        return table[name] if name in table else getattr(pt, name)
    table = _numpy_functions()
    return table[name] if name in table else getattr(np, name)


# ----------------------------------------------------------------------------------- evaluator


class Evaluator:
    """Evaluates expressions in an environment of terms.

    Parameters
    ----------
    lookup
        ``lookup(name) -> Term``; raises for an unknown name.
    labels
        Levels of each dimension; their number is the dimension's length.
    frozen
        Values of data-only reductions, by text; those found are used, new ones are added.
    symbol
        ``symbol(term) -> variable``: a data column as a PyTensor variable.
    special
        Functions by name that replace the built-in ones (``previous`` in a recursion).
    past
        Like ``lookup``, for names inside ``lag``.
    rows
        Dimension of the main table's rows. What has a value in each row is not frozen.
    cells
        ``cells(name) -> Term``: a column of data with its missing cells, for ``isnan``.
    """

    def __init__(
        self,
        lookup: Callable[[str], Term],
        labels: Mapping[str, np.ndarray],
        frozen: dict[str, Any] | None = None,
        symbol: Callable[[Term], Any] | None = None,
        special: Mapping[str, Callable[[ast.Call], Term]] | None = None,
        past: Callable[[str], Term] | None = None,
        rows: str | None = None,
        cells: Callable[[str], Term] | None = None,
    ) -> None:
        self.lookup, self.labels = lookup, labels
        self.cells = cells
        # Columns whose missing cells are not looked at, because where(isnan(x), ...) takes something else there.
        self._filled: frozenset[str] = frozenset()
        self.past, self.rows = past or lookup, rows
        self.frozen = {} if frozen is None else frozen
        self._symbol = symbol
        self.special = special or {}

    # -- entry points

    def term(self, expression: Expression) -> Term:
        """The value of an expression."""
        return self.eval(expression.tree)

    def eval(self, node: ast.expr) -> Term:
        """The value of a node of an expression's tree."""
        try:
            return self._eval(node)
        except ModelError as error:
            if error.offset or error.path:
                raise
            raise ModelError(error.message, offset=_offset(node), code=error.code) from None

    def length(self, dim: str | None) -> int | None:
        return len(self.labels[dim]) if dim is not None and dim in self.labels else None

    def symbolic(self, term: Term) -> Any:
        """The value as a PyTensor variable."""
        import pytensor.tensor as pt

        if term.random:
            return term.value
        if term.value is None:
            raise ModelError(
                f"'{term.column}' holds levels, not numbers: index with it or compare it with a label",
                code="not-numbers",
            )
        if term.column is not None and self._symbol is not None and not term.undefined:
            return self._symbol(term)
        return pt.as_tensor_variable(np.asarray(term.value))

    # -- the tree

    def _eval(self, node: ast.expr) -> Term:
        match node:
            case ast.Constant(value=str() as text):
                raise ModelError(
                    f"the label '{text}' stands alone; compare a factor with it or index by it", code="misplaced"
                )
            case ast.Constant(value=None):
                raise ModelError("None is not a value here", code="misplaced")
            case ast.Constant(value=int() | float() as number):
                return Term(int(number) if isinstance(number, bool) else number)
            case ast.Name(id=name):
                return self._without_gaps(name) if name in self._filled else self.lookup(name)
            case ast.BinOp(op=ast.MatMult()):
                return self._matmul(self.eval(node.left), self.eval(node.right))
            case ast.BinOp():
                return self.apply(_BINARY[type(node.op)], self.eval(node.left), self.eval(node.right))
            case ast.UnaryOp(op=ast.USub()):
                return self.apply("negative", self.eval(node.operand))
            case ast.UnaryOp(op=ast.Not()):
                return self.apply("logical_not", self.eval(node.operand))
            case ast.UnaryOp():
                return self.eval(node.operand)
            case ast.BoolOp():
                name = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
                out = self.eval(node.values[0])
                for value in node.values[1:]:
                    out = self.apply(name, out, self.eval(value))
                return out
            case ast.Compare():
                return self._compare(node)
            case ast.List() | ast.Tuple():
                return self._vector([self.eval(item) for item in node.elts])
            case ast.Subscript():
                return self._index(node)
            case ast.Call(func=ast.Name(id=name)):
                return self._call(name, node)
        raise ModelError(f"'{ast.unparse(node)}' is not part of the expression language", code="syntax")

    def _call(self, name: str, node: ast.Call) -> Term:
        if name in self.special:
            return self.special[name](node)
        if name not in FUNCTIONS:
            raise ModelError(
                f"'{name}(...)' cannot stand inside an expression: it is not a function"
                f"{hint(name, FUNCTIONS)} (a distribution needs a node of its own)",
                code="unknown-function",
            )
        check_call(node)
        if name == "where":
            return self._where(node)
        if name in _ELEMENTWISE:
            return self.apply(name, *(self.eval(argument) for argument in node.args))
        if name in _REDUCTIONS:
            return self._reduce(name, node)
        if name in _ALONG:
            return self._along(name, node)
        return getattr(self, f"_fn_{name}")(node)

    # -- elementwise

    def apply(self, name: str, *terms: Term) -> Term:
        """An elementwise function of terms, broadcast by name; arithmetic is that of floats."""
        values, dims, symbolic = self.align(terms)
        if name in _ARITHMETIC and all(map(_whole, values)):
            values = [as_float(value) for value in values]
        with np.errstate(all="ignore"):
            value = _function(name, symbolic)(*values)
        if getattr(value, "dtype", None) == "bool":
            value = value.astype("int64")  # comparisons give 0 and 1, which add up
        return Term(value, dims, undefined=_merge(terms))

    # -- missing cells

    def _where(self, node: ast.Call) -> Term:
        """``where``; in the branch for cells that are not missing, the column of ``isnan`` may have missing ones."""
        parts = []
        for place, argument in enumerate(node.args):
            with self.branch(node, place):
                parts.append(self.eval(argument))
        return self.apply("where", *parts)

    @contextmanager
    def branch(self, node: ast.Call, place: int) -> Iterator[None]:
        """While one argument of a call is evaluated: of ``where(isnan(x), ...)`` the branch in which x is known."""
        now = self._filled
        if isinstance(node.func, ast.Name) and node.func.id == "where" and node.args:
            condition, whole = node.args[0], 2
            if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
                condition, whole = condition.operand, 1
            named = isinstance(condition, ast.Call) and isinstance(condition.func, ast.Name)
            if place == whole and named and condition.func.id == "isnan":  # type: ignore[attr-defined]
                self._filled = now | {self._column_of(condition)}  # type: ignore[arg-type]
        try:
            yield
        finally:
            self._filled = now

    def _column_of(self, call: ast.Call) -> str:
        check_call(call)
        (argument,) = call.args
        if not isinstance(argument, ast.Name) or self.cells is None:
            raise ModelError(
                f"isnan() is of a column of the data, by its name, not of '{ast.unparse(argument)}'",
                code="wrong-arguments",
            )
        return argument.id

    def _given(self, name: str) -> tuple[Term, np.ndarray]:
        """A column of data, and which of its cells are missing."""
        assert self.cells is not None
        term = self.cells(name)
        gone = term.codes < 0 if term.codes is not None else np.isnan(np.asarray(term.value, dtype=float))
        return term, np.asarray(gone)

    def _without_gaps(self, name: str) -> Term:
        term, gone = self._given(name)
        value, codes = term.value, term.codes
        if value is not None and np.any(gone):
            value = np.where(gone, np.mean(value, where=~gone) if not np.all(gone) else 0.0, value)
        if codes is not None:
            codes = np.where(gone, 0, codes)
        return replace(term, value=value, codes=codes, column=None)

    def _fn_isnan(self, node: ast.Call) -> Term:
        term, gone = self._given(self._column_of(node))
        return Term(gone.astype(np.int64), term.dims)

    def align(
        self, terms: Sequence[Term], onto: tuple[str | None, ...] | None = None
    ) -> tuple[list[Any], tuple[str | None, ...], bool]:
        """Values transposed and expanded to common dims.

        ``onto`` gives the dims to align to (a term with others is an error); by default the union
        in order of appearance.
        """
        symbolic = any(term.random for term in terms)
        terms = self._named(terms, onto)
        dims: list[str | None] = list(onto) if onto is not None else []
        if onto is None:
            for term in sorted(terms, key=lambda t: -len(t.dims)):
                dims += [dim for dim in term.dims if dim not in dims]
            if dims.count(None) or any(None in term.dims for term in terms):
                dims = [None] * max(len(term.dims) for term in terms)
        values = []
        for term in terms:
            value = self.symbolic(term) if symbolic else term.value
            if value is None:
                raise ModelError(
                    f"'{term.column}' holds levels, not numbers: index with it or compare it with a label",
                    code="not-numbers",
                )
            values.append(_expand(value, term.dims, tuple(dims)))
        return values, tuple(dims), symbolic

    def _named(self, terms: Sequence[Term], onto: tuple[str | None, ...] | None) -> list[Term]:
        """Axes without a name take the name of the one dimension of their length there is."""
        known = {dim for term in terms for dim in term.dims if dim} if onto is None else {d for d in onto if d}
        if not known or all(None not in term.dims for term in terms):
            return list(terms)
        out = []
        for term in terms:
            if None in term.dims:
                shape = np.shape(term.value) if not term.random else term.value.type.shape
                fitting = [d for d in (onto or sorted(known)) if d and self.length(d) == shape[0]]
                if len(term.dims) != 1 or len(fitting) != 1:
                    raise ModelError(
                        f"a list of {shape[0]} values does not say which dimension it runs along:"
                        f" {listed(known)} {'fit' if fitting else 'have other lengths'}; give it a node with dims",
                        code="bad-dimensions",
                    )
                term = replace(term, dims=(fitting[0],))
            out.append(term)
        return out

    def _vector(self, items: list[Term]) -> Term:
        if any(None in item.dims for item in items):
            return self._rows(items)
        if any(item.dims for item in items):
            return self._stack(items, None)
        if any(item.random for item in items):
            import pytensor.tensor as pt

            return Term(pt.stack([self.symbolic(item) for item in items]), (None,))
        return Term(np.array([item.value for item in items]), (None,))

    def _rows(self, items: list[Term]) -> Term:
        """A list of lists: its rows, in their order, before what is in each; what entries have by name comes first."""
        depth = items[0].dims.count(None)
        inner = {(np.shape(t.value) if not t.random else t.value.type.shape)[len(t.dims) - depth :] for t in items}
        if any(item.dims.count(None) != depth for item in items) or len(inner) > 1:
            raise ModelError("the rows of a list of lists have different lengths", code="wrong-shape")
        names = list(dict.fromkeys(dim for item in items for dim in item.dims if dim is not None))
        symbolic, values = any(item.random for item in items), []
        for item in items:
            own = [dim for dim in names if dim in item.dims]
            value = self.symbolic(item) if symbolic else np.asarray(item.value)
            order = [*(item.dims.index(dim) for dim in own), *range(len(own), len(item.dims))]
            value = value.transpose(order) if order != sorted(order) else value
            values.append(value[(*(slice(None) if dim in own else None for dim in names), ...)])
        dims = (*names, *(None,) * (depth + 1))
        if symbolic:
            import pytensor.tensor as pt

            values = list(pt.broadcast_arrays(*values)) if names else values
            return Term(pt.stack(values, axis=len(names)), dims, undefined=_merge(items))
        return Term(np.stack(np.broadcast_arrays(*values), axis=len(names)), dims, undefined=_merge(items))

    def _compare(self, node: ast.Compare) -> Term:
        name, sides = _COMPARE[type(node.ops[0])], (node.left, node.comparators[0])
        for this, other in (sides, sides[::-1]):
            if isinstance(other, ast.Constant) and isinstance(other.value, str):
                factor = self.eval(this)
                if factor.factor is None:
                    raise ModelError(
                        f"'{ast.unparse(this)}' is not a factor; it cannot equal the label '{other.value}'",
                        code="not-states",
                    )
                if name not in ("equal", "not_equal"):
                    raise ModelError("labels can only be compared with == and !=", code="misplaced")
                code = self.position(factor.factor, other.value)
                return self.apply(name, Term(factor.codes, factor.dims), Term(code))
        left, right = self.eval(sides[0]), self.eval(sides[1])
        if left.value is None and right.value is None and name in ("equal", "not_equal"):
            first, second = (self.labels[str(side.factor)] for side in (left, right))
            if not np.array_equal(first, second):
                raise ModelError(
                    f"'{left.factor}' and '{right.factor}' have different levels; they cannot be compared",
                    code="bad-dimensions",
                )
            left, right = Term(left.codes, left.dims), Term(right.codes, right.dims)
        return self.apply(name, left, right)

    def position(self, dim: str, label: object) -> int:
        """Position of a label in a dimension."""
        words = [str(word) for word in self.labels[dim]]
        if str(label) not in words:
            raise ModelError(f"dimension '{dim}' has no level '{label}'{hint(label, words)}", code="unknown-level")
        return words.index(str(label))

    # -- indexing

    def _index(self, node: ast.Subscript) -> Term:
        base = self.eval(node.value)
        items = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        free: list[str | None] = list(base.dims)
        picked: list[tuple[str | None, Term]] = []
        for place, item in enumerate(items):
            if isinstance(item, ast.Constant) and isinstance(item.value, str):
                owners = [d for d in free if d and item.value in [str(x) for x in self.labels[d]]]
                if len(owners) > 1 and len(items) == len(base.dims) and base.dims[place] in owners:
                    owners = [str(base.dims[place])]  # twins: one index a dimension, in their order
                if len(owners) > 1:
                    raise ModelError(
                        f"the label '{item.value}' is in each of {listed(owners)}; index every dimension of"
                        f" '{ast.unparse(node.value)}', in their order",
                        code="bad-dimensions",
                    )
                if len(owners) != 1:
                    words = [x for d in free if d for x in self.labels[d]]
                    raise ModelError(
                        f"'{ast.unparse(node.value)}' has no level '{item.value}'{hint(item.value, words)}",
                        code="unknown-level",
                    )
                dim: str | None = owners[0]
                index = Term(self.position(owners[0], item.value))
            else:
                index = self.eval(item)
                if index.factor in free and index.dims == (index.factor,):
                    free.remove(index.factor)  # the dimension itself: all of it
                    continue
                dim = self._consumed(node, base, free, index, place, len(items))
                if index.factor is not None:
                    index = Term(index.codes, index.dims, undefined=index.undefined)
                elif dim is not None and dim in self.labels and labels_are_numbers(self.labels[dim]):
                    index = self._by_label(index, dim, ast.unparse(item))
                index = self._checked_index(index, dim, ast.unparse(item), base, place)
            free.remove(dim)
            picked.append((dim, index))
        return self._take(base, picked)

    def _consumed(
        self, node: ast.Subscript, base: Term, free: list[str | None], index: Term, place: int, count: int
    ) -> str | None:
        what = ast.unparse(node.value)
        if not base.dims:
            raise ModelError(f"'{what}' is a single number and cannot be indexed", code="bad-dimensions")
        if index.factor is not None:
            same = [d for d in free if d == index.factor]
            twins = [d for d in free if d and np.array_equal(self.labels[d], self.labels[index.factor])]
            if index.value is not None and count == len(base.dims) and not (same and len(twins) == 1):
                return base.dims[place]  # states of a path, which are numbers too
            if same or len(twins) == 1:
                return (same or twins)[0]
            if index.value is not None and len(free) == 1:
                return free[0]  # states by their numbers
            raise ModelError(
                f"'{what}' has the dimensions ({', '.join(map(str, base.dims))}), not '{index.factor}'",
                code="bad-dimensions",
            )
        if count == len(base.dims):
            return base.dims[place]
        if len(free) == 1:
            return free[0]
        raise ModelError(
            f"'{what}' has {len(base.dims)} dimensions; index each of them, or by a factor or label",
            code="bad-dimensions",
        )

    def _checked_index(self, index: Term, dim: str | None, text: str, base: Term, place: int) -> Term:
        if index.random:
            return replace(index, value=index.value.astype("int64"))
        values = np.asarray(index.value)
        if values.dtype.kind == "f" and np.all(values == np.floor(values)):
            values = values.astype(np.int64)
        if values.dtype.kind not in "iu":
            raise ModelError(f"'{text}' is used as an index but is not whole numbers or a factor", code="not-whole")
        length = self.length(dim)
        if length is None:
            length = np.shape(base.value)[base.dims.index(dim)] if not base.random else None
        if length is not None and values.size and (values.min() < 0 or values.max() >= length):
            worst = values.min() if values.min() < 0 else values.max()
            raise ModelError(
                f"index {worst} in '{text}' is outside 0..{length - 1} (positions count from 0)", code="out-of-range"
            )
        return replace(index, value=values)

    def _by_label(self, index: Term, dim: str, text: str) -> Term:
        """An index into a dimension whose labels are whole numbers, as positions: cells of a column are labels.

        Other whole numbers are positions, unless they could all be labels as well.
        """
        if index.random:
            if index.given:
                raise ModelError(
                    f"'{text}' is a node with data, and the levels of '{dim}' are whole numbers, which its values are"
                    f" not bound to: give '{dim}' a length, or names, in dims",
                    code="not-numbers",
                )
            return index
        values = np.asarray(index.value)
        if np.any(values != np.floor(values)):
            return index  # refused below
        words = list(map(str, self.labels[dim].tolist()))
        place = {word: at for at, word in enumerate(words)}
        places = np.array([place.get(f"{value:.0f}", -1) for value in values.ravel().tolist()], np.int64)
        places = places.reshape(values.shape)
        if index.given:
            if np.any(places < 0):
                value = values[places < 0].flat[0]
                raise ModelError(
                    f"'{text}' is {value:.0f}, which is no level of '{dim}'{hint(int(value), words)}",
                    code="unknown-level",
                )
            return replace(index, value=places, column=None)
        if np.all(places >= 0) and np.any(places != values):
            value = f"{values.flat[0]:.0f}"
            raise ModelError(
                f"'{text}' is {value}, which can be a position in '{dim}' and one of its levels, which are whole"
                f' numbers: index by a column of levels, or by a level in quotes, as in ["{value}"]',
                code="conflict",
            )
        return index

    def _take(self, base: Term, picked: list[tuple[str | None, Term]]) -> Term:
        if not picked:
            return base
        axes = [base.dims.index(dim) for dim, _ in picked]
        kept = [axis for axis in range(len(base.dims)) if axis not in axes]
        indices, dims, symbolic = self.align([term for _, term in picked])
        kept_dims = tuple(base.dims[axis] for axis in kept)
        clash = [d for d in kept_dims if d in dims and d is not None]
        if clash:
            raise ModelError(
                f"the result would have the dimension '{clash[0]}' twice; rename one", code="bad-dimensions"
            )

        def pick(array: Any, make: Callable[[Any], Any]) -> Any:
            return make(array).transpose(*axes, *kept)[tuple(indices)] if array is not None else None

        value = base.value
        if base.random or symbolic:
            value = pick(self.symbolic(base), lambda a: a)
            codes = None
        else:
            value, codes = pick(value, np.asarray), pick(base.codes, np.asarray)
        undefined = _merge([base, *(term for _, term in picked)])
        return Term(
            value,
            (*dims, *kept_dims),
            codes=codes,
            factor=base.factor if codes is not None else None,
            undefined=undefined,
        )

    # -- reductions and functions along one dimension

    def _dims_of(self, node: ast.Call, at: int, term: Term) -> str | None:
        """The dimension named by an argument, or None when it is not given."""
        if len(node.args) <= at:
            return None
        name = self._dim_name(node.args[at])
        if name not in term.dims:
            have = ", ".join(str(d) for d in term.dims) or "none"
            raise ModelError(
                f"'{ast.unparse(node.args[0])}' has no dimension '{name}' (it has {have})", code="unknown-dimension"
            )
        return name

    def _dim_name(self, node: ast.expr) -> str:
        if not isinstance(node, ast.Name) or node.id not in self.labels:
            raise ModelError(
                f"'{ast.unparse(node)}' is not a dimension{hint(ast.unparse(node), self.labels)}",
                code="unknown-dimension",
            )
        return node.id

    def _reduce(self, name: str, node: ast.Call) -> Term:
        key = ast.unparse(node)
        term = self.eval(node.args[0])
        dim = self._dims_of(node, 1, term)
        if term.value is None:
            raise ModelError(f"'{ast.unparse(node.args[0])}' is text; {name}() needs numbers", code="not-numbers")
        reduced = term.dims if dim is None else (dim,)
        kept = tuple(d for d in term.dims if d not in reduced)
        freezes = not term.random and self.rows not in kept
        if freezes and key in self.frozen:
            return Term(_thawed(self.frozen[key]), kept)
        value = term.value
        for d, rows in term.undefined.items():
            if d in reduced and d in term.dims:
                value = value[(slice(None),) * term.dims.index(d) + (slice(rows, None),)]
        axis = tuple(i for i, d in enumerate(term.dims) if d in reduced)
        if name in _SUMS:
            value = as_float(value)
        if term.random:
            out = _pytensor_reduction(name, value, axis)
        else:
            out = _numpy_reduction(name, np.asarray(value), axis)
            if not np.all(np.isfinite(out)):
                raise DataError(
                    f"{key} is not a finite number: the column has missing or infinite cells", code="not-finite"
                )
            if freezes:
                self.frozen[key] = out.tolist() if isinstance(out, np.ndarray) else float(out)
        return Term(out, kept, undefined={d: k for d, k in term.undefined.items() if d not in reduced})

    def _along(self, name: str, node: ast.Call) -> Term:
        term = self.eval(node.args[0])
        if term.value is None:
            raise ModelError(f"'{ast.unparse(node.args[0])}' is text; {name}() needs numbers", code="not-numbers")
        if not term.dims:
            raise ModelError(
                f"{name}() needs a vector; '{ast.unparse(node.args[0])}' is a single number", code="bad-dimensions"
            )
        axis = term.dims.index(self._dims_of(node, 1, term)) if len(node.args) > 1 else len(term.dims) - 1
        if term.random:
            import pytensor.tensor as pt

            function: Callable[..., Any] = getattr(pt.special, name, None) or getattr(pt, name)
        else:
            function = _function(name, False)
        dims = term.dims if name != "logsumexp" else (*term.dims[:axis], *term.dims[axis + 1 :])
        return Term(function(as_float(term.value), axis=axis), dims, undefined=term.undefined)

    # -- linear algebra by names

    def _matmul(self, left: Term, right: Term) -> Term:
        if None in left.dims or None in right.dims:
            left, right = self._name_by_partner(left, right), self._name_by_partner(right, left)
        if is_matrix_product(left.dims, right.dims, self.labels):
            first, second = left.dims
            product = self._contract(left, replace(right, dims=(second, COLUMNS)), second)
            return replace(product, dims=(first, second))
        return self._contract(left, right, contracted(left.dims, right.dims))

    def _name_by_partner(self, term: Term, partner: Term) -> Term:
        if term.dims != (None,):
            return term
        size = np.shape(term.value)[0] if not term.random else term.value.type.shape[0]
        fitting = [d for d in partner.dims if d and self.length(d) == size]
        return replace(term, dims=(fitting[0],)) if len(fitting) == 1 else term

    def _fn_dot(self, node: ast.Call) -> Term:
        left, right = self.eval(node.args[0]), self.eval(node.args[1])
        left, right = self._name_by_partner(left, right), self._name_by_partner(right, left)
        if len(node.args) == 3:
            return self._contract(left, right, self._dims_of(node, 2, left))
        shared = [dim for dim in left.dims if dim in right.dims]
        if len(shared) != 1:
            raise ModelError(
                f"dot() contracts the one dimension both have; here they share {listed(shared) if shared else 'none'}"
                + ("; name it: dot(a, b, dim)" if shared else ""),
                code="bad-dimensions",
            )
        return self._contract(left, right, shared[0])

    def _contract(self, left: Term, right: Term, dim: str | None) -> Term:
        for side in (left, right):
            if side.value is None:
                raise ModelError(f"'{side.column}' is text; a product needs numbers", code="not-numbers")
        symbolic = left.random or right.random
        a, b = (as_float(self.symbolic(t) if symbolic else t.value) for t in (left, right))
        undefined = {d: k for d, k in _merge([left, right]).items() if d != dim}
        rest_a = tuple(d for d in left.dims if d != dim)
        rest_b = tuple(d for d in right.dims if d != dim)
        i, j = left.dims.index(dim), right.dims.index(dim)
        if not set(rest_a) & set(rest_b):
            if symbolic:
                import pytensor.tensor as pt

                first, second = _move(a, i, -1), _move(b, j, 0)
                value = first @ second if a.ndim <= 2 and b.ndim <= 2 else pt.tensordot(first, second, axes=1)
            else:
                value = np.tensordot(a, b, axes=(i, j))
            return Term(value, rest_a + rest_b, undefined=undefined)
        product = self.apply("multiply", replace(left, column=None) if not symbolic else left, right)
        axis = product.dims.index(dim)
        return Term(product.value.sum(axis=axis), tuple(d for d in product.dims if d != dim), undefined=undefined)

    def _square(self, node: ast.expr, name: str) -> Term:
        term = self.eval(node)
        if term.value is None:
            raise ModelError(f"'{ast.unparse(node)}' is text; {name}() needs numbers", code="not-numbers")
        if len(term.dims) != 2:
            raise ModelError(
                f"{name}() needs a matrix; '{ast.unparse(node)}' has {len(term.dims)} dimensions", code="bad-dimensions"
            )
        a, b = (self.length(d) for d in term.dims)
        if a is not None and b is not None and a != b:
            raise ModelError(
                f"{name}() needs a square matrix; '{ast.unparse(node)}' is {a} × {b}", code="bad-dimensions"
            )
        return term

    def _linalg(self, name: str, node: ast.Call) -> Term:
        term = self._square(node.args[0], name)
        try:
            value = _function(name, term.random)(term.value)
        except np.linalg.LinAlgError as error:
            raise ModelError(f"{name}({ast.unparse(node.args[0])}): {error}", code="not-a-covariance") from None
        dims: tuple[str | None, ...] = {"inv": term.dims[::-1], "cholesky": term.dims}.get(name, ())
        return Term(value, dims)

    def _fn_inv(self, node: ast.Call) -> Term:
        return self._linalg("inv", node)

    def _fn_det(self, node: ast.Call) -> Term:
        return self._linalg("det", node)

    def _fn_logdet(self, node: ast.Call) -> Term:
        return self._linalg("logdet", node)

    def _fn_cholesky(self, node: ast.Call) -> Term:
        return self._linalg("cholesky", node)

    def _solve(self, node: ast.Call, triangular: bool) -> Term:
        matrix, right = self._square(node.args[0], "solve"), self.eval(node.args[1])
        if matrix.dims[0] not in right.dims:
            raise ModelError(
                f"solve(A, b): b needs the first dimension of A, '{matrix.dims[0]}'", code="bad-dimensions"
            )
        rest = tuple(d for d in right.dims if d != matrix.dims[0])
        symbolic = matrix.random or right.random
        a, b = (self.symbolic(t) if symbolic else np.asarray(t.value) for t in (matrix, right))
        b = _move(b, right.dims.index(matrix.dims[0]), 0)
        if triangular and symbolic:
            import pytensor.tensor as pt

            value = pt.linalg.solve_triangular(a, b, lower=True, b_ndim=1 if not rest else 2)
        elif triangular:
            from scipy.linalg import solve_triangular

            value = solve_triangular(a, b, lower=True)
        else:
            value = _function("solve", symbolic)(a, b)
        return Term(value, (matrix.dims[1], *rest))

    def _fn_solve(self, node: ast.Call) -> Term:
        return self._solve(node, triangular=False)

    def _fn_solve_lower(self, node: ast.Call) -> Term:
        return self._solve(node, triangular=True)

    def _fn_transpose(self, node: ast.Call) -> Term:
        term = self.eval(node.args[0])
        value = term.value.T if term.dims else term.value
        return Term(value, term.dims[::-1], undefined=term.undefined)

    def _fn_trace(self, node: ast.Call) -> Term:
        term = self._fn_diagonal(node)
        return Term(as_float(term.value).sum(), ())

    def _fn_diagonal(self, node: ast.Call) -> Term:
        term = self._square(node.args[0], "diagonal")
        if term.random:
            import pytensor.tensor as pt

            return Term(pt.diagonal(term.value), term.dims[:1])
        return Term(np.diagonal(term.value).copy(), term.dims[:1])

    def _fn_diag(self, node: ast.Call) -> Term:
        term, dim = self.eval(node.args[0]), self._dim_name(node.args[1])
        if len(term.dims) != 1:
            raise ModelError("diag(v, dim2) needs a vector with a dimension", code="bad-dimensions")
        if not term.random:
            return Term(np.diag(np.asarray(term.value)), (*term.dims, dim))
        import pytensor.tensor as pt

        return Term(pt.diag(term.value), (*term.dims, dim))

    def _fn_eye(self, node: ast.Call) -> Term:
        first, second = (self._dim_name(argument) for argument in node.args)
        return Term(np.eye(len(self.labels[first]), len(self.labels[second])), (first, second))

    # -- dimensions

    def _fn_rename(self, node: ast.Call) -> Term:
        term = self.eval(node.args[0])
        new = self._dim_name(node.args[-1])
        if len(node.args) == 3:
            old: str | None = self._dims_of(node, 1, term)
        elif len(term.dims) == 1:
            old = term.dims[0]
        else:
            raise ModelError("rename(x, old, new): say which of its dimensions to rename", code="wrong-arguments")
        if self.length(old) not in (None, self.length(new)):
            raise ModelError(
                f"rename(): '{old}' has length {self.length(old)}, '{new}' has {self.length(new)}", code="wrong-length"
            )
        dims = tuple(new if d == old else d for d in term.dims)
        if len(set(dims)) < len(dims):
            raise ModelError(f"rename(): the dimension '{new}' is there already", code="name-clash")
        undefined = {new if d == old else d: k for d, k in term.undefined.items()}
        if term.value is None:
            return Term(None, dims, term.codes, term.factor, undefined, term.column)
        value = self.symbolic(term) if term.random else np.asarray(term.value)
        return Term(value, dims, undefined=undefined)

    def _fn_index(self, node: ast.Call) -> Term:
        dim = self._dim_name(node.args[0])
        return Term(np.arange(len(self.labels[dim])), (dim,))

    def _fn_size(self, node: ast.Call) -> Term:
        return Term(len(self.labels[self._dim_name(node.args[0])]))

    def _parts(self, node: ast.Call) -> list[Term]:
        if not isinstance(node.args[0], ast.List | ast.Tuple):
            raise ModelError(f"{ast.unparse(node.func)}([a, b, ...], dim) needs a list first", code="wrong-arguments")
        return [self.eval(item) for item in node.args[0].elts]

    def _fn_stack(self, node: ast.Call) -> Term:
        return self._stack(self._parts(node), self._dim_name(node.args[1]))

    def _stack(self, parts: list[Term], dim: str | None) -> Term:
        if dim is not None and len(parts) != self.length(dim):
            raise ModelError(
                f"stack(): {len(parts)} parts for the dimension '{dim}' of length {self.length(dim)}",
                code="wrong-length",
            )
        values, dims, symbolic = self.align(parts)
        if symbolic:
            import pytensor.tensor as pt

            values = list(pt.broadcast_arrays(*values)) if dims else values
            return Term(pt.stack(values, axis=-1), (*dims, dim), undefined=_merge(parts))
        return Term(np.stack(np.broadcast_arrays(*values), axis=-1), (*dims, dim), undefined=_merge(parts))

    def _fn_concat(self, node: ast.Call) -> Term:
        dim, parts = self._dim_name(node.args[1]), self._parts(node)
        symbolic = any(part.random for part in parts)
        values = []
        for part in parts:
            if len(part.dims) > 1:
                raise ModelError("concat([...], dim) joins single numbers and vectors", code="bad-dimensions")
            value = self.symbolic(part) if symbolic else np.asarray(part.value)
            values.append(value if part.dims else value[None])
        if symbolic:
            import pytensor.tensor as pt

            joined: Any = pt.concatenate(values)
            size = joined.type.shape[0]
        else:
            joined = np.concatenate(values)
            size = len(joined)
        if size is not None and size != self.length(dim):
            raise ModelError(
                f"concat(): {size} values for the dimension '{dim}' of length {self.length(dim)}", code="wrong-length"
            )
        return Term(joined, (dim,))

    # -- time

    def _fn_lag(self, node: ast.Call) -> Term:
        start = next((self.eval(k.value) for k in node.keywords if k.arg == "start"), None)
        now, self.lookup = self.lookup, self.past
        try:
            term = self.eval(node.args[0])
        finally:
            self.lookup = now
        return self.lagged(term, node.args[1].value, start)  # type: ignore[attr-defined]

    def lagged(self, term: Term, steps: int, start: Term | None) -> Term:
        """A term shifted ``steps`` rows along its last dimension."""
        if not term.dims:
            raise ModelError("lag() needs a vector along a dimension; this is a single number", code="bad-dimensions")
        if term.value is None:
            raise ModelError(f"lag(): '{term.column}' is text", code="not-numbers")
        dim = str(term.dims[-1])
        if (self.length(dim) or steps + 1) <= steps:
            raise ModelError(
                f"lag of {steps} steps along '{dim}', which has only {self.length(dim)} rows", code="out-of-range"
            )
        symbolic = term.random or (start is not None and start.random)
        value = self.symbolic(term) if symbolic else np.asarray(term.value)
        head, undefined = value[..., :steps], dict(term.undefined)
        if start is None:
            # The first rows hold any finite value: they are never used.
            undefined[dim] = undefined.get(dim, 0) + steps
        else:
            (first,), _, _ = self.align([start], onto=term.dims[:-1])
            first = self.symbolic(Term(first, start.dims)) if symbolic else np.asarray(first)
            head = (first[..., None] if first.ndim else first) + (_zeros_like(head))
        if symbolic:
            import pytensor.tensor as pt

            joined: Any = pt.concatenate([head, value[..., :-steps]], axis=-1)
        else:
            joined = np.concatenate([head, value[..., :-steps]], axis=-1)
        return Term(joined, term.dims, undefined=undefined)

    def _fn_previous(self, node: ast.Call) -> Term:
        raise ModelError("previous(h, k, start=s) stands only in the definition of h itself", code="misplaced")


def _expand(value: Any, dims: tuple[str | None, ...], onto: tuple[str | None, ...]) -> Any:
    """A value with axes ``dims`` as one with axes ``onto`` (missing ones of length one)."""
    if dims == onto or not dims:
        return value
    if None in dims:
        return value
    missing = [d for d in dims if d not in onto]
    if missing:
        have = ", ".join(str(d) for d in onto) or "no dimensions"
        raise ModelError(
            f"a value along '{missing[0]}' where the result has {have}: add '{missing[0]}' to the node's dims,"
            f" index it, or sum over it",
            code="bad-dimensions",
        )
    order = [dims.index(d) for d in onto if d in dims]
    array = np.asarray(value) if isinstance(value, np.ndarray | np.generic) else value
    array = array.transpose(*order) if order != sorted(order) else array
    return array[tuple(slice(None) if d in dims else None for d in onto)]


def _zeros_like(array: Any) -> Any:
    if isinstance(array, np.ndarray):
        return np.zeros(array.shape)
    import pytensor.tensor as pt

    return pt.zeros_like(array, dtype="float64")


def _move(array: Any, source: int, to: int) -> Any:
    if isinstance(array, np.ndarray):
        return np.moveaxis(array, source, to)
    import pytensor.tensor as pt

    return array if array.ndim == 1 or source % array.ndim == to % array.ndim else pt.moveaxis(array, source, to)


def _thawed(value: Any) -> Any:
    return np.asarray(value, dtype=float) if isinstance(value, list) else float(value)


def _numpy_reduction(name: str, value: np.ndarray, axis: tuple[int, ...]) -> Any:
    if not axis:
        return value
    if name in ("sd", "var"):
        if min(value.shape[i] for i in axis) < 2:
            raise DataError(f"{name}() needs at least two values", code="too-few")
        return value.std(axis=axis, ddof=1) if name == "sd" else value.var(axis=axis, ddof=1)
    if not value.size:
        raise DataError(f"{name}() of no values", code="no-values")
    return getattr(value, name)(axis=axis)


def _pytensor_reduction(name: str, value: Any, axis: tuple[int, ...]) -> Any:
    import pytensor.tensor as pt

    if name in ("sd", "var"):
        variance = pt.var(value, axis=axis, ddof=1)
        return pt.sqrt(variance) if name == "sd" else variance
    return getattr(pt, name)(value, axis=axis)
