"""Expressions as data, functions of scale parameters, or linear functions of coefficients: read from their trees."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from bayeslab.data.node_values import NotExact
from bayeslab.language.functions import DIM_ARGUMENTS
from bayeslab.language.nodes import Node, call_name

__all__ = ["ONE", "SMOOTH", "Form", "LinearReader", "factors_of", "product_of"]

# Functions of scale parameters that are smooth.
SMOOTH = frozenset(("sqrt", "exp", "log", "log1p", "expm1"))
_SUMS = frozenset(("sum", "mean", "cumsum", "rename", "transpose", "concat", "stack"))
ONE = ast.Constant(1)


@dataclass(frozen=True, slots=True)
class Form:
    """Kind of an expression: data, a function of scale parameters, or linear in coefficients."""

    kind: str
    tree: ast.expr
    names: frozenset[str] = frozenset()  # coefficients in it
    homogeneous: bool = False  # no constant term


@dataclass(eq=False)
class LinearReader:
    """Reads expressions, and records which function of the scales multiplies which coefficient."""

    nodes: Mapping[str, Node]
    columns: set[str]
    scales: frozenset[str]
    coefficients: frozenset[str]
    carriers: dict[str, ast.expr] = field(default_factory=dict)
    trees: dict[str, ast.expr] = field(default_factory=dict)
    forms: dict[str, Form] = field(default_factory=dict)

    def use(self, tree: ast.expr) -> Form:
        """The form of an expression that the model needs; this fixes the coefficients in it."""
        form = self.read(tree)
        self._settle(form)
        return form

    def _settle(self, form: Form) -> None:
        for name in form.names:
            self._carry(name, ONE)

    def _carry(self, name: str, by: ast.expr) -> None:
        known = self.carriers.setdefault(name, by)
        if ast.dump(known) != ast.dump(by):
            raise NotExact(
                f"'{name}' is multiplied by '{ast.unparse(by)}' in one place and by '{ast.unparse(known)}' in another"
            )

    def _named(self, name: str) -> Form:
        node, tree = self.nodes.get(name), ast.Name(name, ast.Load())
        if node is None or name in self.columns:
            return Form("data", tree)
        if name in self.scales and node.kind == "random":
            return Form("scale", tree)
        if name in self.coefficients:
            return Form("linear", tree, frozenset((name,)), True)
        if node.kind != "deterministic" or node.recursive:
            raise NotExact(f"'{name}' is neither normal nor a scale")
        if name not in self.forms:
            self.forms[name] = self.read(node.expression.tree)
            self.trees[name] = self.forms[name].tree
        return replace(self.forms[name], tree=tree)

    def read(self, tree: ast.expr) -> Form:
        """The form of an expression."""
        match tree:
            case ast.Constant():
                return Form("data", tree)
            case ast.Name(id=name):
                return self._named(name)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                inner = self.read(tree.operand)
                return replace(inner, tree=ast.UnaryOp(tree.op, inner.tree))
            case ast.BinOp():
                return self._binary(tree, self.read(tree.left), self.read(tree.right))
            case ast.List() | ast.Tuple():
                return self._together(tree, [self.read(item) for item in tree.elts])
            case ast.Subscript():
                return self._indexed(tree)
            case ast.Call():
                return self._call(tree)
            case ast.UnaryOp() | ast.BoolOp() | ast.Compare():
                return self._data_only(tree)
        raise NotExact(f"'{ast.unparse(tree)}' is not linear")

    def _data_only(self, tree: ast.expr) -> Form:
        for part in ast.iter_child_nodes(tree):
            if isinstance(part, ast.expr) and self.read(part).kind != "data":
                raise NotExact(f"'{ast.unparse(tree)}' depends on parameters and is not linear in them")
        return Form("data", tree)

    def _together(self, tree: ast.expr, parts: Sequence[Form]) -> Form:
        """Sums or concatenations of parts."""
        kinds = {part.kind for part in parts}
        names = frozenset().union(*(part.names for part in parts))
        if kinds == {"data"}:
            return Form("data", tree)
        if "linear" not in kinds:
            return Form("scale", tree)
        if "scale" in kinds:
            raise NotExact(f"'{ast.unparse(tree)}' adds a parameter that is not Gaussian")
        rebuilt = _with_children(tree, [part.tree for part in parts])
        return Form("linear", rebuilt, names, all(part.homogeneous for part in parts))

    def _binary(self, tree: ast.BinOp, left: Form, right: Form) -> Form:
        kinds = (left.kind, right.kind)
        if isinstance(tree.op, ast.Add | ast.Sub):
            return self._together(tree, [left, right])
        if "linear" not in kinds:
            smooth = isinstance(tree.op, ast.Mult | ast.Div | ast.Pow)
            if "scale" in kinds and not smooth:
                raise NotExact(f"'{ast.unparse(tree)}' is not a smooth function of the scale parameters")
            return Form("scale" if "scale" in kinds else "data", tree)
        product = isinstance(tree.op, ast.Mult | ast.MatMult)
        if kinds.count("linear") == 2 or not (product or (isinstance(tree.op, ast.Div) and left.kind == "linear")):
            raise NotExact(f"'{ast.unparse(tree)}' is not linear in {_listed(left.names | right.names)}")
        inner, other = (left, right) if left.kind == "linear" else (right, left)
        if other.kind == "data":
            return replace(inner, tree=ast.BinOp(left.tree, tree.op, right.tree))
        if isinstance(tree.op, ast.MatMult) or not inner.homogeneous:
            raise NotExact(f"'{ast.unparse(tree)}': a scale parameter multiplies more than normal nodes about zero")
        by = other.tree if product else ast.BinOp(ONE, ast.Div(), other.tree)
        for name in inner.names:
            self._carry(name, by)
        # From here on the product is the coefficient.
        return replace(inner, names=frozenset())

    def _indexed(self, tree: ast.Subscript) -> Form:
        index = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
        for item in index:
            if self.read(item).kind != "data":
                raise NotExact(f"the index in '{ast.unparse(tree)}' is a parameter")
        base = self.read(tree.value)
        return replace(base, tree=ast.Subscript(base.tree, tree.slice, tree.ctx))

    def _call(self, tree: ast.Call) -> Form:
        word = str(call_name(tree))
        if word in ("lag", "previous"):
            used = {part.id for part in ast.walk(tree) if isinstance(part, ast.Name)}
            if word == "lag" and all(self.read(ast.Name(n, ast.Load())).kind == "data" for n in used):
                return Form("data", tree)
            raise NotExact(f"'{ast.unparse(tree)}' has a lag of a node without data")
        skipped = DIM_ARGUMENTS.get(word, ())
        if word == "rename" and len(tree.args) == 2:
            skipped = (1,)
        parts = {i: self.read(a) for i, a in enumerate(tree.args) if i not in skipped}
        kinds = {part.kind for part in parts.values()}
        if kinds <= {"data"}:
            return Form("data", tree)
        if word == "where" and parts[0].kind == "data":
            rest = self._together(ast.Tuple([tree.args[1], tree.args[2]], ast.Load()), [parts[1], parts[2]])
            return replace(rest, tree=_with_arguments(tree, parts))
        if "linear" not in kinds:
            if word not in SMOOTH:
                raise NotExact(f"'{ast.unparse(tree)}' is not a function of the scale parameters that is known here")
            return Form("scale", tree)
        if word in _SUMS:
            (only,) = parts.values()
            return replace(only, tree=_with_arguments(tree, parts))
        if word in ("dot", "outer") and sorted(p.kind for p in parts.values()) == ["data", "linear"]:
            inner = next(p for p in parts.values() if p.kind == "linear")
            return replace(inner, tree=_with_arguments(tree, parts))
        names = frozenset().union(*(p.names for p in parts.values()))
        raise NotExact(f"'{ast.unparse(tree)}' is not linear in {_listed(names)}")


def _listed(names: frozenset[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names)) or "what is in it"


def _with_children(tree: ast.expr, parts: list[ast.expr]) -> ast.expr:
    if isinstance(tree, ast.BinOp):
        return ast.BinOp(parts[0], tree.op, parts[1])
    return ast.List(parts, ast.Load()) if isinstance(tree, ast.List) else ast.Tuple(parts, ast.Load())


def _with_arguments(tree: ast.Call, parts: Mapping[int, Form]) -> ast.Call:
    arguments = [parts[i].tree if i in parts else a for i, a in enumerate(tree.args)]
    return ast.Call(tree.func, arguments, tree.keywords)


def factors_of(tree: ast.expr, up: bool = True) -> list[tuple[ast.expr, bool]]:
    """A product's factors, and whether each is in the numerator."""
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult | ast.Div):
        below = isinstance(tree.op, ast.Div)
        return factors_of(tree.left, up) + factors_of(tree.right, up != below)
    return [(tree, up)]


def product_of(factors: Sequence[tuple[ast.expr, bool]]) -> ast.expr:
    out: ast.expr | None = None
    for tree, up in factors:
        if out is None:
            out = tree if up else ast.BinOp(ONE, ast.Div(), tree)
        else:
            out = ast.BinOp(out, ast.Mult() if up else ast.Div(), tree)
    return out or ONE
