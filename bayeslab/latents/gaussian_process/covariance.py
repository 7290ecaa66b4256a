"""Covariance functions written as expressions, such as ``Matern52(x) + Periodic(x, 365) * Linear(t)``.

``Kernel.parse(text, ...)`` reads an expression (through the checked tree of :mod:`bayeslab.language.expressions`;
nothing is evaluated) into a frozen tree of :class:`Node`, and compiles the tree to a small program that one compiled
machine runs for values and for gradients (:mod:`bayeslab.latents.gaussian_process.covariance_kernels`). Sums and
products of covariance functions are covariance functions; differences need not be, and are refused.

=====================  ===================================  ==================================================
word                   hyperparameters, in this order       k(x, z), without scale²
=====================  ===================================  ==================================================
``ExpQuad``            lengthscale, scale                   exp(-r² / 2)
``Matern12``           lengthscale, scale                   exp(-r)
``Matern32``           lengthscale, scale                   (1 + √3 r) exp(-√3 r)
``Matern52``           lengthscale, scale                   (1 + √5 r + 5 r² / 3) exp(-√5 r)
``RationalQuadratic``  lengthscale, alpha, scale            (1 + r² / (2 alpha))^-alpha
``Periodic``           period, lengthscale, scale           exp(-2 sin²(π (x - z) / period) / lengthscale²)
``Cosine``             period, scale                        cos(2 π (x - z) / period)
``Linear``             scale, center                        (x - center) · (z - center)
``Polynomial``         degree, offset, scale                (x · z + offset)^degree
``Brownian``           scale                                min(x, z), of x ≥ 0
``White``              scale                                1 if both are the same row, otherwise 0
``Constant``           scale                                1
``Coregion``           rank, weight, specific               (W W' + diag(specific)) of the rows' levels
``ChangePoint``        location, steepness                  (1 - s(x)) k1 (1 - s(z)) + s(x) k2 s(z), s logistic
=====================  ===================================  ==================================================

r is the distance after each column is divided by its lengthscale. A call names its columns first, then its
hyperparameters by position or by keyword: a number fixes one; a name is a hyperparameter that may be used in several
places; what is left out is a hyperparameter with a derived name (``Matern52_lengthscale``). Several columns have a
lengthscale each (automatic relevance determination: ``ExpQuad_lengthscale_x1``) unless one number or name is given for
all, or a list with one for each. ``ChangePoint(k1, k2, x)`` takes two expressions first.

Every product has one ``scale``, the standard deviation of that term: a written one, a factor in front (``2 * ...`` and
``v * ...`` are variances, ``s ** 2 * ...`` has the standard deviation s), or else a hyperparameter of the first
function in it (``Matern52_scale``). Other scales that are left out are 1. ``center`` left out is 0.

References
----------
.. [1] Rasmussen, Williams (2006). Gaussian Processes for Machine Learning. MIT Press. Chapter 4.
.. [2] Bonilla, Chai, Williams (2008). Multi-task Gaussian process prediction. NIPS 20. (Coregion)
.. [3] Lloyd, Duvenaud, Grosse, Tenenbaum, Ghahramani (2014). Automatic construction and natural-language description
   of nonparametric regression models. AAAI. (change points)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from bayeslab.errors import ModelError, hint
from bayeslab.language.expressions import parse

__all__ = ["WORDS", "Argument", "Kernel", "Node", "Parameter"]

type Role = Literal[
    "lengthscale", "scale", "variance", "alpha", "period", "center", "offset", "location", "steepness", "weight",
    "specific",
]  # fmt: skip
# Hyperparameters on the real line; all others are positive.
_REAL = frozenset(("center", "location", "weight"))
# Hyperparameters that may be fixed at zero.
_NOT_NEGATIVE = frozenset(("scale", "variance", "offset", "specific"))


@dataclass(frozen=True, slots=True)
class _Word:
    """A covariance function and the arguments of its call."""

    positional: tuple[str, ...]
    columns: tuple[int, int]
    stationary: bool = False
    each: str = ""


WORDS: dict[str, _Word] = {
    "ExpQuad": _Word(("lengthscale", "scale"), (1, 1000), True, "lengthscale"),
    "Matern12": _Word(("lengthscale", "scale"), (1, 1000), True, "lengthscale"),
    "Matern32": _Word(("lengthscale", "scale"), (1, 1000), True, "lengthscale"),
    "Matern52": _Word(("lengthscale", "scale"), (1, 1000), True, "lengthscale"),
    "RationalQuadratic": _Word(("lengthscale", "alpha", "scale"), (1, 1000), True, "lengthscale"),
    "Periodic": _Word(("period", "lengthscale", "scale"), (1, 1), True),
    "Cosine": _Word(("period", "scale"), (1, 1), True),
    "Linear": _Word(("scale", "center"), (1, 1000), each="center"),
    "Polynomial": _Word(("degree", "offset", "scale"), (1, 1000)),
    "Brownian": _Word(("scale",), (1, 1)),
    "White": _Word(("scale",), (0, 0), True),
    "Constant": _Word(("scale",), (0, 0), True),
    "Coregion": _Word(("rank", "weight", "specific"), (1, 1)),
    "ChangePoint": _Word(("location", "steepness"), (1, 1)),
}
# What others call them.
_ALSO = {
    "RBF": "ExpQuad",
    "SE": "ExpQuad",
    "SquaredExponential": "ExpQuad",
    "Gaussian": "ExpQuad",
    "Exponential": "Matern12",
    "RatQuad": "RationalQuadratic",
    "WhiteNoise": "White",
    "Quadratic": "Polynomial",
    "Coregionalization": "Coregion",
}
_MAX_DEGREE, _MAX_RANK = 10, 20


@dataclass(frozen=True, slots=True)
class Argument:
    """A hyperparameter in its place: a fixed ``value``, or the ``name`` of a parameter."""

    name: str = ""
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A hyperparameter that is not fixed.

    Attributes
    ----------
    name : str
    role : str
        lengthscale, scale (a standard deviation), variance, alpha, period, center, offset, location, steepness,
        weight or specific.
    word : str
        The covariance function in which it first occurs; "" for a leading factor.
    columns : tuple of str
        The input columns that it concerns.
    """

    name: str
    role: Role
    word: str
    columns: tuple[str, ...]

    @property
    def support(self) -> Literal["positive", "real"]:
        """Support of its values."""
        return "real" if self.role in _REAL else "positive"


@dataclass(frozen=True, slots=True)
class Node:
    """Part of an expression.

    Attributes
    ----------
    word : str
        A covariance function of the table above, ``+`` or ``*`` (of ``children``), or ``factor``.
    text : str
        Text of the node.
    columns : tuple of str
    arguments : mapping of str to tuple of Argument
        By role; one for each column of a lengthscale or center.
    option : int
        ``degree``, ``rank``, or the power of a factor.
    children : tuple of Node
    """

    word: str
    text: str
    columns: tuple[str, ...] = ()
    arguments: Mapping[str, tuple[Argument, ...]] = field(default_factory=dict)
    option: int = 0
    children: tuple[Node, ...] = ()

    def leaves(self) -> Iterator[Node]:
        """The nodes that are not sums or products, in order; change points precede the functions they join."""
        if self.word not in "+*":
            yield self
        for child in self.children:
            yield from child.leaves()


@dataclass(frozen=True, eq=False)
class Kernel:
    """A covariance function of named columns; make one with :meth:`parse`.

    Values of hyperparameters are a vector ``theta`` in the order of ``parameters``, on their natural scales; inputs
    are arrays (n, columns) in the order of ``columns``, with codes of levels for categorical columns.

    Attributes
    ----------
    text : str
    root : Node
    parameters : tuple of Parameter
    columns : tuple of str
    levels : mapping of str to tuple of str
        Names of the levels of the columns that ``Coregion`` reads.
    """

    text: str
    root: Node
    parameters: tuple[Parameter, ...]
    columns: tuple[str, ...]
    levels: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def parse(
        cls,
        text: str,
        columns: Collection[str] | None = None,
        hyperparameters: Collection[str] = (),
        levels: Mapping[str, Sequence[str]] | None = None,
    ) -> Kernel:
        """Read an expression.

        Parameters
        ----------
        text
            The expression.
        columns
            Names of the available columns; None: unknown, so that every name that is not a hyperparameter is a column.
        hyperparameters
            Names that are hyperparameters (those with a prior of their own).
        levels
            Names of the levels of categorical columns, which are in the names of ``Coregion``'s hyperparameters.
            Without them as many as its lists of numbers have, or two, which serves to check an expression.

        Raises
        ------
        ModelError
            The expression is invalid; ``offset`` is the position of the error.
        """
        return replace(cls.read(parse(text).tree, columns, hyperparameters, levels), text=text)

    @classmethod
    def read(
        cls,
        tree: ast.expr,
        columns: Collection[str] | None = None,
        hyperparameters: Collection[str] = (),
        levels: Mapping[str, Sequence[str]] | None = None,
    ) -> Kernel:
        """Read a checked syntax tree: :meth:`parse` without the text."""
        root = _Reader(columns, frozenset(hyperparameters), dict(levels or {})).read(tree)
        used = dict.fromkeys(c for leaf in root.leaves() for c in leaf.columns)
        return cls(ast.unparse(tree), root, _parameters(root), tuple(used), dict(levels or {}))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the hyperparameters."""
        return tuple(p.name for p in self.parameters)

    @property
    def categorical(self) -> frozenset[str]:
        """Categorical columns."""
        return frozenset(c for leaf in self.root.leaves() if leaf.word == "Coregion" for c in leaf.columns)

    @property
    def stationary(self) -> bool:
        """Whether the function is stationary: it depends on x - z only."""
        return all(WORDS[leaf.word].stationary for leaf in self.root.leaves() if leaf.word != "factor")

    def components(self) -> dict[str, Kernel]:
        """The terms of the sum, by their text, as functions of the same hyperparameters and columns."""
        terms = self.root.children if self.root.word == "+" else (self.root,)
        out: dict[str, Kernel] = {}
        for term in terms:
            name, n = term.text, 1
            while name in out:
                n += 1
                name = f"{term.text} ({n})"
            out[name] = replace(self, text=term.text, root=term)
        return out

    def free_of_noise(self) -> Kernel | None:
        """The kernel without pure ``White`` terms; None if there are no others."""
        if self.root.word != "+":
            return None if self.root.word == "White" else self
        kept = tuple(term for term in self.root.children if not _white(term))
        if len(kept) == len(self.root.children):
            return self
        if not kept:
            return None
        root = kept[0] if len(kept) == 1 else replace(self.root, children=kept)
        return replace(self, root=root)

    # -- values and gradients

    @cached_property
    def program(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """``ops, columns, at, fixed``: the first arguments of everything in ``_covariance_kernels``."""
        return _Compiler(self).program()

    def matrix(self, theta: np.ndarray, x: np.ndarray, z: np.ndarray | None = None) -> np.ndarray:
        """K(x, x), or K(x, z) of other points (where white noise is not shared): shape (n, n) or (n, m)."""
        from bayeslab.latents.gaussian_process import covariance_kernels as kernels

        if z is None:
            return np.asarray(kernels.matrix(*self.program, _vector(theta), _by_column(x)))
        return np.asarray(kernels.cross(*self.program, _vector(theta), _by_column(x), _by_column(z)))

    def diagonal(self, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The variances, the diagonal of K(x, x), (n,)."""
        from bayeslab.latents.gaussian_process import covariance_kernels as kernels

        return np.asarray(kernels.diagonal(*self.program, _vector(theta), _by_column(x)))

    def gradient(self, theta: np.ndarray, x: np.ndarray, w: np.ndarray, z: np.ndarray | None = None) -> np.ndarray:
        """sum_ij W_ij dK_ij/dθ, (parameters,); W is symmetric where ``z`` is None (its lower triangle is read)."""
        from bayeslab.latents.gaussian_process import covariance_kernels as kernels

        w = np.ascontiguousarray(w, float)
        if z is None:
            return np.asarray(kernels.gradient(*self.program, _vector(theta), _by_column(x), w))
        return np.asarray(kernels.cross_gradient(*self.program, _vector(theta), _by_column(x), _by_column(z), w))

    def diagonal_gradient(self, theta: np.ndarray, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        """sum_i w_i dK_ii/dθ, (parameters,)."""
        from bayeslab.latents.gaussian_process import covariance_kernels as kernels

        w = np.ascontiguousarray(w, float)
        return np.asarray(kernels.diagonal_gradient(*self.program, _vector(theta), _by_column(x), w))


def _vector(theta: Any) -> np.ndarray:
    return np.ascontiguousarray(theta, float)


def _by_column(x: Any) -> np.ndarray:
    return np.ascontiguousarray(np.asarray(x, float).T)


def _white(node: Node) -> bool:
    """Whether a node is white noise, perhaps scaled by a constant."""
    if node.word == "*":
        return any(_white(c) for c in node.children)
    return node.word == "White"


def _parameters(root: Node) -> tuple[Parameter, ...]:
    out: dict[str, Parameter] = {}
    for leaf in root.leaves():
        for role, arguments in leaf.arguments.items():
            each = len(arguments) == len(leaf.columns)
            for k, argument in enumerate(arguments):
                if not argument.name:
                    continue
                columns = leaf.columns[k : k + 1] if each else leaf.columns
                word = "" if leaf.word == "factor" else leaf.word
                known = out.get(argument.name)
                if known is None:
                    out[argument.name] = Parameter(argument.name, role, word, columns)  # type: ignore[arg-type]
                elif (known.role in _REAL) != (role in _REAL):
                    raise ModelError(
                        f"'{argument.name}' is a {known.role} of {known.word or 'a factor'} and a {role} of"
                        f" {leaf.word}: one of them may be negative, the other not; use two names",
                        code="name-clash",
                    )
                else:
                    out[argument.name] = replace(known, columns=tuple(dict.fromkeys((*known.columns, *columns))))
    return tuple(out.values())


# ---------------------------------------------------------------------------------------- reading


class _Reader:
    """Converts the checked syntax tree to nodes."""

    def __init__(
        self, columns: Collection[str] | None, hyperparameters: frozenset[str], levels: Mapping[str, Sequence[str]]
    ):
        self.columns, self.hyperparameters, self.levels = columns, hyperparameters, levels
        self.occurrences: dict[str, int] = {}
        self.count: dict[str, int] = {}

    def read(self, tree: ast.expr) -> Node:
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                self.count[call.func.id] = self.count.get(call.func.id, 0) + 1
        return self._expression(tree, free=True)

    def _expression(self, node: ast.expr, free: bool) -> Node:
        """Read a covariance function; ``free``: if no scale is written, it becomes a hyperparameter."""
        match node:
            case ast.BinOp(op=ast.Add()):
                terms = tuple(self._expression(term, free) for term in _flattened(node, ast.Add))
                return Node("+", ast.unparse(node), children=terms)
            case ast.BinOp(op=ast.Mult()):
                return self._product(node, _flattened(node, ast.Mult), free)
            case ast.BinOp(op=ast.Pow(), left=left, right=ast.Constant(value=int() as power)) if _calls(left):
                if not 1 <= power <= 4:
                    raise _bad(
                        node, f"a power of a covariance function is 1, 2, 3 or 4, not {power}", code="out-of-range"
                    )
                return self._product(node, [left] * power, free)
            case ast.BinOp(op=ast.Sub()) | ast.UnaryOp(op=ast.USub()):
                raise _bad(
                    node,
                    "a difference of covariance functions need not be one (its matrices can have negative eigenvalues);"
                    " only sums and products are",
                    code="syntax",
                )
            case ast.Call():
                return self._call(node, free)
            case ast.Name() | ast.Constant():
                shown = ast.unparse(node)
                raise _bad(
                    node,
                    f"'{shown}' alone is not a covariance function; a constant one is Constant({shown})",
                    code="syntax",
                )
            case _:
                raise _bad(
                    node,
                    "covariance functions are added, multiplied, and raised to whole powers, nothing else",
                    code="syntax",
                )

    def _product(self, node: ast.expr, factors: Sequence[ast.expr], free: bool) -> Node:
        functions = [f for f in factors if _calls(f)]
        if not functions:
            raise _bad(
                node,
                "a product of covariance functions has at least one in it, such as 2 * Matern52(x)",
                code="incomplete",
            )
        free = free and len(functions) == len(factors) and not any(self._scaled(f) for f in functions)
        children = []
        for factor in factors:
            if _calls(factor):
                children.append(self._expression(factor, free))
                free = False
            else:
                children.append(self._factor(factor))
        return Node("*", ast.unparse(node), children=tuple(children))

    def _scaled(self, node: ast.expr) -> bool:
        """Whether a scale is written in it."""
        for part in ast.walk(node):
            if (
                isinstance(part, ast.BinOp)
                and isinstance(part.op, ast.Mult)
                and not (_calls(part.left) and _calls(part.right))
            ):
                return True
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Name):
                names = WORDS[part.func.id].positional if part.func.id in WORDS else ()
                written = [a for a in part.args if not _calls(a) and self._column(a) is None]
                if part.func.id == "Coregion" or any(keyword.arg == "scale" for keyword in part.keywords):
                    return True
                if "scale" in names and names.index("scale") < len(written):
                    return True
        return False

    def _factor(self, node: ast.expr) -> Node:
        text = ast.unparse(node)
        match node:
            case ast.BinOp(op=ast.Pow(), left=base, right=ast.Constant(value=2)):
                return Node("factor", text, arguments={"scale": (self._argument(base, "scale"),)}, option=2)
            case _:
                return Node("factor", text, arguments={"variance": (self._argument(node, "variance"),)}, option=1)

    def _call(self, node: ast.Call, free: bool) -> Node:
        word = node.func.id  # type: ignore[attr-defined]
        if word not in WORDS:
            also = f"; it is called '{_ALSO[word]}' here" if word in _ALSO else hint(word, WORDS)
            raise _bad(node, f"unknown covariance function '{word}'{also}", code="unknown-function")
        self.occurrences[word] = self.occurrences.get(word, 0) + 1
        prefix = word if self.occurrences[word] == 1 else f"{word}_{self.occurrences[word]}"
        arguments = list(node.args)
        children: tuple[Node, ...] = ()
        if word == "ChangePoint":
            if len(arguments) < 3 or not (_calls(arguments[0]) and _calls(arguments[1])):
                raise _bad(
                    node,
                    "ChangePoint takes two covariance functions and a column: ChangePoint(k1, k2, x)",
                    code="wrong-arguments",
                )
            children = tuple(self._expression(a, free) for a in arguments[:2])
            arguments = arguments[2:]
        columns, rest = self._columns(node, word, arguments)
        given = self._given(node, word, rest)
        option = self._option(node, word, given)
        values = self._arguments(node, word, prefix, columns, given, free, option)
        return Node(word, ast.unparse(node), columns, values, option, children)

    def _columns(self, node: ast.Call, word: str, arguments: list[ast.expr]) -> tuple[tuple[str, ...], list[ast.expr]]:
        fewest, most = WORDS[word].columns
        out: list[str] = []
        while arguments and len(out) < most and (name := self._column(arguments[0])) is not None:
            out.append(name)
            arguments = arguments[1:]
        if arguments and len(out) < most:
            self._either(arguments[0], word)
        if len(out) < fewest:
            given = arguments[0] if arguments else None
            if isinstance(given, ast.Name) and given.id in self.hyperparameters:
                raise _bad(
                    given,
                    f"{word} needs a column first, and '{given.id}' is a hyperparameter here, because it has a prior"
                    f" of its own: write {word}(column, {given.id}), or give the prior another name",
                    code="wrong-arguments",
                )
            if isinstance(given, ast.Name) and self.columns is not None:
                raise _bad(
                    given,
                    f"{word}: the data have no column '{given.id}'{hint(given.id, self.columns)}",
                    code="unknown-column",
                )
            raise _bad(node, f"{word} needs a column first: {word}(x)", code="wrong-arguments")
        if len(set(out)) < len(out):
            raise _bad(node, f"{word}: each column once", code="duplicate")
        return tuple(out), arguments

    def _either(self, node: ast.expr, word: str) -> None:
        """Refuse a name among the columns of a function that may be a column or a hyperparameter."""
        if not isinstance(node, ast.Name) or node.id not in self.hyperparameters or not WORDS[word].positional:
            return
        if self.columns is not None and node.id in self.columns:
            raise _bad(
                node,
                f"{word}: '{node.id}' is a column of the data, and has a prior as a hyperparameter has: give the"
                f" hyperparameter another name, or write which one it is, {WORDS[word].positional[0]}={node.id}",
                code="name-clash",
            )

    def _column(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if self.columns is not None and node.value not in self.columns:
                raise _bad(
                    node,
                    f"the data have no column '{node.value}'{hint(node.value, self.columns)}",
                    code="unknown-column",
                )
            return node.value
        if not isinstance(node, ast.Name) or node.id in self.hyperparameters:
            return None
        return node.id if self.columns is None or node.id in self.columns else None

    def _given(self, node: ast.Call, word: str, rest: list[ast.expr]) -> dict[str, ast.expr]:
        """Hyperparameters by role, as they are written."""
        names = WORDS[word].positional
        if len(rest) > len(names):
            shown = ", ".join(names)
            raise _bad(rest[len(names)], f"{word} takes columns, then {shown}; '{ast.unparse(rest[len(names)])}' is one"
                       " too many", code="wrong-arguments")  # fmt: skip
        out = dict(zip(names, rest, strict=False))
        for keyword in node.keywords:
            if keyword.arg not in names:
                raise _bad(
                    keyword.value, f"{word} has no '{keyword.arg}'{hint(keyword.arg, names)}", code="unknown-option"
                )
            if keyword.arg in out:
                raise _bad(keyword.value, f"{word}: '{keyword.arg}' is given twice", code="duplicate")
            out[str(keyword.arg)] = keyword.value
        return out

    def _option(self, node: ast.Call, word: str, given: dict[str, ast.expr]) -> int:
        """The integer option of a function: a degree or a rank."""
        if word == "Polynomial":
            match given.pop("degree", None):
                case ast.Constant(value=int() as degree) if 1 <= degree <= _MAX_DEGREE and degree is not True:
                    return degree
                case _:
                    raise _bad(node, f"Polynomial needs its degree, a whole number from 1 to {_MAX_DEGREE}:"
                               " Polynomial(x, 2)", code="wrong-arguments")  # fmt: skip
        if word == "Coregion":
            match given.pop("rank", ast.Constant(1)):
                case ast.Constant(value=int() as rank) if 1 <= rank <= _MAX_RANK and rank is not True:
                    return rank
                case _:
                    raise _bad(
                        node, f"the rank of Coregion is a whole number from 1 to {_MAX_RANK}", code="out-of-range"
                    )
        return 2 if word == "Constant" else 0

    def _arguments(
        self,
        node: ast.Call,
        word: str,
        prefix: str,
        columns: tuple[str, ...],
        given: dict[str, ast.expr],
        free: bool,
        option: int,
    ) -> dict[str, tuple[Argument, ...]]:
        if word == "Coregion":
            return self._coregion(prefix, columns[0], given, option)
        out: dict[str, tuple[Argument, ...]] = {}
        for role in WORDS[word].positional:
            if role == "degree":
                continue
            if role in given:
                out[role] = self._written(given[role], word, role, columns)
            elif role == "center":
                out[role] = (Argument(value=0.0),) * len(columns)
            elif role == "scale" and not free:
                out[role] = (Argument(value=1.0),)
            elif role == WORDS[word].each and len(columns) > 1:
                out[role] = tuple(Argument(f"{prefix}_{role}_{column}") for column in columns)
            else:
                out[role] = (Argument(f"{prefix}_{role}"),)
        return out

    def _coregion(
        self, prefix: str, column: str, given: dict[str, ast.expr], rank: int
    ) -> dict[str, tuple[Argument, ...]]:
        known = self.levels.get(column)
        if known is None:
            # Without data what is written in lists says how many levels there are; two, where nothing does.
            lists = {role: len(w.elts) for role, w in given.items() if isinstance(w, ast.List | ast.Tuple)}
            n = lists["weight"] // rank if "weight" in lists else lists.get("specific", 2)
            known = [str(i) for i in range(max(n, 1))]
        each = _identifiers(known)
        names = {
            "weight": [f"{level}_{k}" if rank > 1 else level for level in each for k in range(rank)],
            "specific": each,
        }
        out = {}
        for role, ends in names.items():
            if role not in given:
                out[role] = tuple(Argument(f"{prefix}_{role}_{end}") for end in ends)
                continue
            written = given[role]
            items = written.elts if isinstance(written, ast.List | ast.Tuple) else [written] * len(ends)
            if len(items) != len(ends):
                raise _bad(
                    written,
                    f"Coregion({column}): {len(ends)} numbers or names for '{role}', not {len(items)}",
                    code="wrong-length",
                )
            out[role] = tuple(self._argument(item, role) for item in items)
        return out

    def _written(self, node: ast.expr, word: str, role: str, columns: tuple[str, ...]) -> tuple[Argument, ...]:
        if isinstance(node, ast.List | ast.Tuple):
            if role != WORDS[word].each or len(node.elts) != len(columns):
                raise _bad(node, f"{word}: a list is for {WORDS[word].each or 'columns'}, one for each of"
                           f" {len(columns)} columns", code="wrong-length")  # fmt: skip
            return tuple(self._argument(item, role) for item in node.elts)
        n = len(columns) if role == WORDS[word].each else 1
        return (self._argument(node, role),) * n

    def _argument(self, node: ast.expr, role: str) -> Argument:
        match node:
            case ast.Name(id=name):
                if self.columns is not None and name in self.columns and name not in self.hyperparameters:
                    raise _bad(
                        node, f"'{name}' is a column; columns come first, before the hyperparameters", code="misplaced"
                    )
                if self.columns is not None and name not in self.hyperparameters:
                    known = (*self.columns, *self.hyperparameters)
                    raise _bad(node, f"'{name}' is not a column and has no prior{hint(name, known)};"
                               f" give it one, priors: {{{name}: ...}}", code="unknown-name")  # fmt: skip
                return Argument(name)
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                value = float(number)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                value = -float(number)
            case _:
                raise _bad(node, f"a {role} is a number or a name, not '{ast.unparse(node)}'", code="wrong-type")
        if role not in _REAL and (value < 0 or (value == 0 and role not in _NOT_NEGATIVE)):
            raise _bad(node, f"a {role} is {'not negative' if role in _NOT_NEGATIVE else 'positive'}, not {value:g}:"
                       " with it this would be no covariance function", code="out-of-range")  # fmt: skip
        return Argument(value=value)


def _bad(node: ast.AST, message: str, *, code: str) -> ModelError:
    offset = node.col_offset if getattr(node, "lineno", 2) == 1 else 0  # type: ignore[attr-defined]
    return ModelError(message, offset=offset, code=code)


def _flattened(node: ast.expr, kind: type[ast.operator]) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, kind):
        return [*_flattened(node.left, kind), *_flattened(node.right, kind)]
    return [node]


def _identifiers(levels: Sequence[str]) -> list[str]:
    """Names of levels as parts of a name; their numbers if two names would be equal."""
    out = [re.sub(r"\W+", "_", level).strip("_") for level in levels]
    return out if all(out) and len(set(out)) == len(out) else [str(i) for i in range(len(levels))]


def _calls(node: ast.expr) -> bool:
    """Whether an expression contains a covariance function, so that it is not a plain factor."""
    return any(isinstance(part, ast.Call) for part in ast.walk(node))


# -------------------------------------------------------------------------------------- compiling


class _Compiler:
    """Compiles nodes to the program of the stack machine."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.index = {name: i for i, name in enumerate(kernel.names)}
        self.ops: list[list[int]] = []
        self.columns: list[int] = []
        self.slots: list[Argument] = []

    def program(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        self._emit(self.kernel.root)
        at = np.array([self.index[s.name] if s.name else -1 for s in self.slots], np.int64)
        fixed = np.array([0.0 if s.value is None else s.value for s in self.slots])
        return np.array(self.ops, np.int64), np.array(self.columns or [0], np.int64), at, fixed

    def _emit(self, node: Node) -> int:
        """The index of the instruction with the node's value."""
        from bayeslab.latents.gaussian_process import covariance_kernels as k

        if node.word in ("+", "*"):
            code = k.SUM if node.word == "+" else k.PRODUCT
            whole = self._emit(node.children[0])
            for child in node.children[1:]:
                whole = self._op(code, (), (), 0, whole, self._emit(child))
            return whole
        if node.word == "ChangePoint":
            left, right = (self._emit(child) for child in node.children)
            slots = (*node.arguments["location"], *node.arguments["steepness"])
            return self._op(k.CHANGE, slots, node.columns, 0, left, right)
        codes = {
            "factor": k.CONSTANT,
            "Constant": k.CONSTANT,
            "White": k.WHITE,
            "ExpQuad": k.EXPQUAD,
            "Matern12": k.MATERN12,
            "Matern32": k.MATERN32,
            "Matern52": k.MATERN52,
            "RationalQuadratic": k.RATIONAL,
            "Periodic": k.PERIODIC,
            "Cosine": k.COSINE,
            "Linear": k.LINEAR,
            "Polynomial": k.POLYNOMIAL,
            "Brownian": k.BROWNIAN,
            "Coregion": k.COREGION,
        }
        # The machine wants the scale first and what there is one of for each column last.
        order = ("scale", "variance", "alpha", "period", "offset", "center", "lengthscale", "weight", "specific")
        slots = tuple(a for role in order for a in node.arguments.get(role, ()))
        if node.word == "Coregion":
            slots = (Argument(value=1.0), *slots)
        return self._op(codes[node.word], slots, node.columns, node.option, 0, 0)

    def _op(
        self, code: int, slots: Sequence[Argument], columns: Sequence[str], option: int, left: int, right: int
    ) -> int:
        where = [self.kernel.columns.index(c) for c in columns]
        self.ops.append([code, len(self.slots), len(slots), len(self.columns), len(where), option, left, right])
        self.slots.extend(slots)
        self.columns.extend(where)
        return len(self.ops) - 1
