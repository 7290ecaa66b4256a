"""The columns of a design matrix as expressions of the model language.

The package formulae computes the matrix from the terms of a formula and the parameters that their transforms learned
from the data. Here each column is written as an expression of the table's columns: levels of factors as comparisons,
interactions as products, polynomials by their recurrence, splines by their pieces. Learned parameters become numbers in
the expressions, or means, which keep their values from the fit when new rows are coded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from formulae.expr import Binary, Call, Grouping, Literal, QuotedName, Unary, Variable

from bayeslab.data.bound import Data
from bayeslab.data.sines import Sines
from bayeslab.data.smooths import Smooth
from bayeslab.data.term_values import smooth_of
from bayeslab.errors import ModelError
from bayeslab.language.expansion import listed_numbers, number
from bayeslab.language.spec import node_name, plain_name
from bayeslab.language.term_reader import FUNCTIONS, bound_arguments, constant, shown

__all__ = ["DesignColumns"]

_SIGNS = {
    "PLUS": "+", "MINUS": "-", "STAR": "*", "SLASH": "/", "STAR_STAR": "**", "EQUAL_EQUAL": "==", "BANG_EQUAL": "!=",
    "LESS": "<", "LESS_EQUAL": "<=", "GREATER": ">", "GREATER_EQUAL": ">=",
}  # fmt: skip

# Most knots of a smooth in the language: longer lists are beyond the limit on expressions.
_MOST_WRITTEN = 200


def _unsupported(what: str) -> ModelError:
    return ModelError(
        f"{what} cannot be written as an expression of columns; make it a column of the table",
        path=("model", "formula"),
        code="unsupported",
    )


@dataclass
class DesignColumns:
    """Writer of the columns of terms, and of the computed columns they need.

    Attributes
    ----------
    data : Data
        The data of the regression.
    taken : set of str
        Names that computed columns must avoid.
    derive : dict of str to str
        Expression of each computed column so far.
    about : dict of str to str
        Description of each computed column.
    """

    data: Data
    taken: set[str]
    derive: dict[str, str] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)
    _names: dict[str, list[str]] = field(default_factory=dict)

    def of(self, common: Any) -> list[str]:
        """The columns of formulae's matrix, without the intercept and offsets."""
        out: list[str] = []
        for term in common.terms.values():
            if term.kind in ("intercept", "offset") or _process(term):
                continue
            columns = self._columns(term)
            # A monotonic effect, or a predictor measured with error, is no column, and has its place among them.
            out += ["0"] * len(columns) if any(map(_latent, term.components)) else columns
        return out

    def _columns(self, term: Any) -> list[str]:
        """The columns of a term, without a latent column that multiplies them."""
        parts = [["1"] if _latent(each) else self._component(each) for each in term.components]
        return [_product(texts) for texts in product(*parts)]

    def rests(self, common: Any) -> dict[str, str]:
        """What monotonic effects and predictors measured with error are multiplied by, by the columns of the matrix."""
        out: dict[str, str] = {}
        for term in common.terms.values():
            if any(map(_latent, getattr(term, "components", ()))):
                out |= dict(zip(map(str, term.labels), self._columns(term), strict=True))
        return out

    def places(self, common: Any) -> dict[str, str]:
        """The place of each row's level in the order of each monotonic effect, from 0, by the text of the effect."""
        out: dict[str, str] = {}
        for term in common.terms.values():
            for component in filter(_monotonic, getattr(term, "components", ())):
                (name,) = component.call.factor.names
                words = self.data.term(name, missing=True).codes is not None
                low = component.call.memory["levels"][0]
                out[component.call.factor.text] = f"index({name})[{name}]" if words else f"{name} - {low}"
        return out

    def errors(self, common: Any) -> dict[str, str]:
        """The standard deviation of the error of each predictor that is measured with one, by its text."""
        calls = [
            component.call
            for term in common.terms.values()
            for component in filter(_latent, getattr(term, "components", ()))
            if component.call.factor.measured
        ]
        trees = {call.factor.text: bound_arguments(call.factor.expression)["sd"] for call in calls}
        return {text: self._number(tree, {}) for text, tree in trees.items()}

    def offsets(self, common: Any) -> str:
        """The sum of the offsets."""
        trees = [
            bound_arguments(term.components[0].call.factor.expression)["x"]
            for term in common.terms.values()
            if term.kind == "offset"
        ]
        memory = [term.components[0].call.memory for term in common.terms.values() if term.kind == "offset"]
        return " + ".join(self._number(tree, known) for tree, known in zip(trees, memory, strict=True))

    def _component(self, component: Any) -> list[str]:
        call = getattr(component, "call", None)
        if component.kind == "categoric":
            return self._factor(component, call)
        if call is None:
            return [plain_name(component.name)]
        tree, memory = call.factor.expression, call.memory
        if tree.callee.name.lexeme in ("poly", "bs"):
            return self._basis(tree, memory)
        if call.factor.smooth is not None:
            return self._straight(call)
        return [self._number(tree, memory)]

    # -- smooths

    def _straight(self, call: Any) -> list[str]:
        """The straight part of a smooth: one column, or one for each level."""
        x = self._number(bound_arguments(call.factor.expression)["x"], call.memory)
        line, by = f"({x} - mean({_bare(x)}))", call.factor.smooth.by
        if by is None:
            return [line]
        return [f"({by} == {str(level)!r}) * {line}" for level in self.data.labels[by]]

    def waves(self, call: Any, label: str, row: str) -> dict[str, str]:
        """Nodes of the functions of a curve at rows; of a smooth also its knots and the weights of each function."""
        basis: Smooth | Sines = call.memory[call.factor.text]
        x = self._number(bound_arguments(call.factor.expression)["x"], call.memory)
        if isinstance(basis, Sines):
            low, root = number(basis.middle - basis.reach), number(np.sqrt(basis.reach))
            return {
                f"level_{label}[{label}_wave]": listed_numbers(basis.means),
                f"waves_{label}[{row}, {label}_wave]": (
                    f"sin(frequency_{label} * ({x} - {low})) / {root} - level_{label}"
                ),
            }
        knots, weights, means, ends = basis.knots, basis.weights, basis.means, basis.ends
        assert knots is not None
        assert weights is not None
        assert means is not None
        if len(knots) > _MOST_WRITTEN:
            raise ModelError(
                f"{call.factor.text} has {len(knots):,} knots, one at each value, and at most {_MOST_WRITTEN} are"
                " written out as numbers: round the predictor in a column of the table",
                path=("model", "formula"),
                code="unsupported",
            )
        place, inside, knot = f"place_{label}", f"inside_{label}", f"{label}_knot"
        low, high = (number(value) for value in (knots[0], knots[-1]))
        out = {
            f"{place}[{row}]": f"({x} - mean({_bare(x)})) / {number(basis.unit)}",
            f"{inside}[{row}]": f"minimum(maximum({place}, {low}), {high})",
            f"knots_{label}[{knot}]": listed_numbers(knots),
        }
        texts = []
        for k in range(len(means)):
            out[f"weights_{label}_{k + 1}[{knot}]"] = listed_numbers(weights[:, k])
            bent = f"dot(abs({inside} - knots_{label}) ** 3, weights_{label}_{k + 1}, {knot})"
            texts.append(f"{bent} + {number(ends[k])} * abs({place} - {inside}) - {number(means[k])}")
        return out | {f"waves_{label}[{row}, {label}_wave]": f"stack([{', '.join(texts)}], {label}_wave)"}

    # -- factors

    def _factor(self, component: Any, call: Any) -> list[str]:
        """For each contrast column, a sum over levels."""
        matrix = np.asarray(component.contrast_matrix.matrix, float)
        if call is None:
            name = plain_name(component.name)
            levels: list[Any] = [str(label) for label in self.data.labels[name]]
        else:
            tree = bound_arguments(call.factor.expression)["data"]
            name, levels = _name(tree), call.memory["levels"]
        words = self.data.term(name, missing=True).codes is not None
        equal = [f"{name} == {str(level)!r}" if words else f"{name} == {level!r}" for level in levels]
        return [_levels(equal, column) for column in matrix.T]

    # -- numbers

    def _number(self, tree: Any, memory: Mapping[str, Any]) -> str:
        match tree:
            case Grouping():
                return f"({self._number(tree.expression, memory)})"
            case Literal():
                return repr(tree.value)
            case Variable() | QuotedName():
                return _name(tree)
            case Unary():
                sign = "-" if tree.operator.kind == "MINUS" else ""
                return f"({sign}{self._number(tree.right, memory)})"
            case Binary():
                return (
                    f"({self._side(tree.left, memory)} {_SIGNS[tree.operator.kind]} {self._side(tree.right, memory)})"
                )
            case Call():
                return self._called(tree, memory)
        raise _unsupported(shown(tree))

    def _side(self, tree: Any, memory: Mapping[str, Any]) -> str:
        return repr(tree.value) if isinstance(tree, Literal) else self._number(tree, memory)

    def _called(self, tree: Any, memory: Mapping[str, Any]) -> str:
        called, given = tree.callee.name.lexeme, bound_arguments(tree)
        values = [self._number(given[key], memory) for key in ("x", "y") if key in given]
        if called == "I":
            return f"({values[0]})"
        if called in FUNCTIONS:
            return f"{called}({', '.join(_bare(value) for value in values)})"
        if called == "center":
            return f"({values[0]} - mean({_bare(values[0])}))"
        if called in ("scale", "standardize"):
            centred = f"({values[0]} - mean({_bare(values[0])}))"
            return f"{centred} / sqrt(mean({centred} ** 2))"
        columns = self._basis(tree, memory)
        if len(columns) == 1:
            return columns[0]
        raise _unsupported(shown(tree))

    # -- polynomials and splines

    def _basis(self, tree: Any, memory: Mapping[str, Any]) -> list[str]:
        """The columns of ``poly`` or ``bs``, as computed columns of the data."""
        key = shown(tree)
        if key not in self._names:
            given = bound_arguments(tree)
            options = {word: constant(value) for word, value in given.items() if word != "x"}
            x, learnt = self._number(given["x"], memory), memory[key]
            if tree.callee.name.lexeme == "poly":
                self._names[key] = self._polynomial(key, x, learnt, options)
            else:
                self._names[key] = self._spline(key, x, learnt)
        return self._names[key]

    def _polynomial(self, key: str, x: str, learnt: Any, options: Mapping[str, Any]) -> list[str]:
        degree = int(options.get("degree", 1))
        if options.get("raw"):
            return [x if k == 1 else f"{x} ** {k}" for k in range(1, degree + 1)]
        z = f"(({x} - {learnt.center.middle[0]!r}) / {learnt.unit!r})"
        if learnt.center.middle[1]:
            z = f"(({x} - {learnt.center.middle[0]!r} - {learnt.center.middle[1]!r}) / {learnt.unit!r})"
        names = [repr(float(1.0 / np.sqrt(learnt.rows)))]
        for k in range(degree):
            least = 1e-14 * float(np.abs(learnt.steps[:, k]).max())  # smaller numbers are rounded zeros
            below = [
                f"{float(learnt.steps[j, k])!r} * {names[j]}" for j in range(k + 1) if abs(learnt.steps[j, k]) > least
            ]
            rest = "".join(f" - {text}" for text in below)
            text = f"({z} * {names[k]}{rest}) / {float(learnt.steps[k + 1, k])!r}"
            names.append(self._add(f"{_stem(x)}_poly_{k + 1}", text))
        self.about[names[1]] = f"{key}: polynomials that are orthogonal over the rows of the table."
        return names[1:]

    def _spline(self, key: str, x: str, learnt: Any) -> list[str]:
        """B-splines as sums over the intervals between knots, each with its polynomial."""
        from scipy.interpolate import BSpline, PPoly

        knots, degree, origin, first = learnt.knots, learnt.degree, learnt.origin, learnt.first
        names = []
        for k in range(first, len(knots) - degree - 1):
            weights = np.zeros(len(knots) - degree - 1)
            weights[k] = 1.0
            pieces = PPoly.from_spline(BSpline(knots, weights, degree))
            texts = []
            inner = [i for i in range(len(pieces.x) - 1) if pieces.x[i] < pieces.x[i + 1]]
            for i in inner:
                coefficients = pieces.c[:, i]
                if not np.any(coefficients):
                    continue
                low, high = pieces.x[i] + origin, pieces.x[i + 1] + origin
                within = [f"({x} >= {float(low)!r})"] if i != inner[0] else []
                within += [f"({x} < {float(high)!r})"] if i != inner[-1] else []
                value = _horner(f"({x} - {float(low)!r})", coefficients)
                texts.append(" * ".join([*within, f"({value})"]))
            names.append(self._add(f"{_stem(x)}_spline_{k - first + 1}", " + ".join(texts) or f"0 * {x}"))
        self.about[names[0]] = f"{key}: B-splines, a polynomial for each stretch between two knots."
        return names

    def _add(self, wanted: str, text: str) -> str:
        name, count = wanted, 2
        while name in self.taken or name in self.derive:
            name, count = f"{wanted}_{count}", count + 1
        self.derive[name] = text
        return name


def _process(term: Any) -> bool:
    """Whether a term is a Gaussian process, which has no column."""
    smooth = smooth_of(term)
    return smooth is not None and smooth.kind == "gp"


def _monotonic(component: Any) -> bool:
    """Whether a component of a term is a monotonic effect."""
    call = getattr(component, "call", None)
    return call is not None and call.factor.monotonic


def _latent(component: Any) -> bool:
    """Whether a component of a term is a monotonic effect or a predictor measured with error."""
    call = getattr(component, "call", None)
    return call is not None and call.factor.latent


def _product(texts: tuple[str, ...]) -> str:
    parts = [text for text in texts if text != "1"]
    if not parts:
        return "1"
    return parts[0] if len(parts) == 1 else " * ".join(text if _closed(text) else f"({text})" for text in parts)


def _closed(text: str) -> bool:
    """Whether the expression needs no brackets as a factor."""
    return text.isidentifier() or _bare(text) != text or (text.endswith(")") and text.split("(")[0].isidentifier())


def _bare(text: str) -> str:
    """Remove brackets around the whole expression."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and at < len(text) - 1:
            return text
    return text[1:-1]


def _levels(equal: list[str], weights: np.ndarray) -> str:
    if np.all(weights == 1):
        return "1"
    parts = [(weight, text) for weight, text in zip(weights.tolist(), equal, strict=True) if weight]
    if len(parts) == 1 and parts[0][0] == 1:
        return parts[0][1]
    out = ""
    for weight, text in parts:
        size = f"({text})" if abs(weight) == 1 else f"{abs(weight)!r} * ({text})"
        out += (" - " if weight < 0 else " + " if out else "") + size if out or weight < 0 else size
    return out.strip()


def _horner(x: str, coefficients: np.ndarray) -> str:
    """A polynomial, the highest power first."""
    first, *rest = [float(c) for c in np.trim_zeros(coefficients, "f")]
    out = repr(first)
    for c in rest:
        out = f"({out}) * {x} + {c!r}" if " " in out else f"{out} * {x} + {c!r}"
    return out


def _name(tree: Any) -> str:
    return plain_name(tree.expression.lexeme[1:-1]) if isinstance(tree, QuotedName) else str(tree.name.lexeme)


def _stem(x: str) -> str:
    return node_name(_bare(x)).rstrip("_")
