"""Expressions of the model language as Python code on NumPy arrays and PyTensor variables.

The language names dimensions; the code has axes by position. Where the dimensions of two values differ, their axes are
put in the same order, and axes of length one are added. Values that depend on data only are NumPy arrays; values that
depend on a random node are PyTensor variables.
"""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from bayeslab.errors import ModelError
from bayeslab.families.graph.pymc_values import Axis, Code, filled, not_exported
from bayeslab.language.functions import FUNCTIONS
from bayeslab.language.indexing import labels_are_numbers
from bayeslab.language.products import COLUMNS, contracted, is_matrix_product

__all__ = ["Printer"]

# For each function of the language: the code on NumPy arrays and on PyTensor variables, of arguments A, B and C.
_ELEMENTWISE = {
    "sigmoid": ("special.expit(A)", "pt.sigmoid(A)"),
    "invlogit": ("special.expit(A)", "pt.sigmoid(A)"),
    "logit": ("special.logit(A)", "pt.log(A) - pt.log1p(-A)"),
    "softplus": ("np.logaddexp(0, A)", "pt.softplus(A)"),
    "erf": ("special.erf(A)", "pt.erf(A)"),
    "erfc": ("special.erfc(A)", "pt.erfc(A)"),
    "gammaln": ("special.gammaln(A)", "pt.gammaln(A)"),
    "digamma": ("special.digamma(A)", "pt.psi(A)"),
    "Phi": ("special.ndtr(A)", "0.5 * pt.erfc(-A / np.sqrt(2))"),
    "invprobit": ("special.ndtr(A)", "0.5 * pt.erfc(-A / np.sqrt(2))"),
    "probit": ("special.ndtri(A)", "-np.sqrt(2) * pt.erfcinv(2 * A)"),
    "abs": ("np.abs(A)", "pt.abs(A)"),
    "outer": ("A * B", "A * B"),
    "where": ("np.where(A, B, C)", "pt.where(A, B, C)"),
    "clip": ("np.clip(A, B, C)", "pt.clip(A, B, C)"),
} | {
    name: (f"np.{name}(A)", f"pt.{name}(A)")
    for name in (
        "sqrt", "exp", "log", "log1p", "expm1", "log2", "log10", "sin", "cos", "tan", "arcsin", "arccos", "arctan",
        "sinh", "cosh", "tanh", "floor", "ceil", "round", "sign",
    )
} | {name: (f"np.{name}(A, B)", f"pt.{name}(A, B)") for name in ("minimum", "maximum", "arctan2")}  # fmt: skip
_COMPARE = {
    ast.Eq: ("A == B", "pt.eq(A, B)"), ast.NotEq: ("A != B", "pt.neq(A, B)"), ast.Lt: ("A < B", "pt.lt(A, B)"),
    ast.LtE: ("A <= B", "pt.le(A, B)"), ast.Gt: ("A > B", "pt.gt(A, B)"), ast.GtE: ("A >= B", "pt.ge(A, B)"),
}  # fmt: skip
_REDUCE = ("sum", "mean", "prod", "min", "max")
_OF_CELLS = ("inv", "det", "logdet", "cholesky", "transpose", "diag", "diagonal", "trace", "rename", "isnan")


class Printer:
    """Writes expressions as code.

    Parameters
    ----------
    lookup
        ``lookup(name) -> Code``: the value of a name.
    labels
        Levels of each dimension.
    past
        As ``lookup``, for names inside ``lag``.
    length
        ``length(dim) -> ast.expr``: code for the length of a dimension.
    """

    def __init__(
        self,
        lookup: Callable[[str], Code],
        labels: Mapping[str, np.ndarray],
        past: Callable[[str], Code],
        length: Callable[[str], ast.expr],
    ) -> None:
        self.lookup, self.past = lookup, past
        #: Axes along the states of discrete nodes that are summed out, by the names they have among dimensions.
        self.axes: dict[str, Axis] = {}
        #: Axes along states that every value along states has, of length one where it is the same along them.
        self.padded: tuple[str, ...] = ()
        self._states: dict[str, np.ndarray] = {}
        self._nodes: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.labels = ChainMap(self._states, labels)  # type: ignore[arg-type]
        self._length = length

    # -- discrete nodes that are summed out

    def length(self, dim: str) -> ast.expr:
        """The length of a dimension, or the number of states."""
        return ast.Constant(len(self._states[dim])) if dim in self._states else self._length(dim)

    def add_states(self, node: str, dims: tuple[str, ...], states: int) -> str:
        """Make a discrete node an axis of all its values; the name of the axis."""
        name = f"states of {node}"
        self._nodes[node] = name, dims
        return self._axis(name, Axis(node, dims), states)

    def axis_of(self, node: str) -> str:
        """The axis of the states of a node at the same cell."""
        return self._nodes[node][0]

    def _axis(self, name: str, axis: Axis, states: int) -> str:
        self.axes[name], self._states[name] = axis, np.arange(states)
        return name

    def _place(self, dim: str | None) -> tuple[int, str, int]:
        """Axes along states come last, from the latest state to the earliest."""
        axis = self.axes.get(str(dim))
        return (0, "", 0) if axis is None else (1, axis.node, axis.lag)

    def axes_of(self, code: Code) -> list[str]:
        """The axes of a value that run along states."""
        return [dim for dim in code.dims if dim in self.axes and dim is not None]

    def _of_cells(self, name: str, node: ast.Subscript) -> Code:
        """The states of other cells than the one at the same place, as in ``z[patient]``."""
        whole, dims = self._nodes[name]
        picked = self._indexed_in(Code(ast.Name("cells"), dims), node)
        if picked.dims == dims and isinstance(picked.tree, ast.Name):
            return self.lookup(name)
        if picked.random or picked.undefined or not isinstance(picked.tree, ast.Subscript):
            raise not_exported(f"'{ast.unparse(node)}', cells of a discrete node that is summed out,")
        if not isinstance(picked.tree.value, ast.Name) or None in picked.dims:
            raise not_exported(f"'{ast.unparse(node)}', cells of a discrete node that is summed out,")
        text = f"{whole} at {ast.unparse(picked.tree.slice)}"
        axis = Axis(name, tuple(map(str, picked.dims)), picked.tree.slice)
        return replace(self.lookup(name), dims=(self._axis(text, axis, len(self._states[whole])),))

    def _lagged(self, code: Code, steps: int) -> tuple[str, Code]:
        """The dimension of time of a value that depends on states, and the value with its axes some cells back."""
        names = {}
        for name in self.axes_of(code):
            axis = self.axes[name]
            if axis.cells is not None or len(axis.dims) != 1:
                raise not_exported("lag() of states of several dimensions, or of other cells,")
            whole = self._nodes[axis.node][0]
            back = replace(axis, lag=axis.lag + steps)
            names[name] = self._axis(f"{whole}, {back.lag} before", back, len(self._states[whole]))
        (time,) = {self.axes[name].dims[0] for name in names}
        return time, replace(code, dims=tuple(names.get(str(d), d) for d in code.dims))

    def _check_states(self, what: str, codes: Sequence[Code], along: Sequence[str | None]) -> None:
        """Refuse a computation that meets several cells of a discrete node that is summed out."""
        axes = [name for code in codes for name in self.axes_of(code)]
        if not axes:
            return
        cells = {dim for name in axes for dim in (name, *self.axes[name].dims)}
        if not along or cells & set(along):
            raise not_exported(f"{what} over cells of '{self.axes[axes[0]].node}', which is summed out,")

    # -- dimensions

    def aligned(self, code: Code, onto: Sequence[str | None]) -> ast.expr:
        """The value with its axes in the order of ``onto``; axes of length one fill gaps that NumPy would not."""
        dims = code.dims
        if not dims or tuple(dims) == tuple(onto) or None in dims:
            return code.tree
        lacking = [d for d in dims if d not in onto]
        if lacking:
            raise ModelError(
                f"a value has the dimension '{lacking[0]}', which its node does not have", code="bad-dimensions"
            )
        order = [dims.index(d) for d in onto if d in dims]
        tree = code.tree
        if order != sorted(order):
            tree = filled("A.transpose(ORDER)", A=tree, ORDER=repr(tuple(order)))
        index = [":" if d in dims else "None" for d in onto]
        while index and index[0] == "None":
            index.pop(0)
        return tree if "None" not in index else filled(f"A[{', '.join(index)}]", A=tree)

    def named(self, codes: Sequence[Code], onto: Sequence[str | None] | None = None) -> list[Code]:
        """Name the axis of each list after the only dimension that has its length."""
        known = {d for code in codes for d in code.dims if d} if onto is None else {d for d in onto if d}
        out = []
        for code in codes:
            if None in code.dims and known:
                candidates = [d for d in (onto or sorted(known)) if d and d not in self.axes]
                fitting = [d for d in candidates if len(self.labels[d]) == code.size]
                if len(code.dims) != 1 or len(fitting) != 1:
                    raise ModelError(
                        "the dimension of a list is unclear: no single dimension has its length", code="bad-dimensions"
                    )
                code = replace(code, dims=(fitting[0],), tree=_array(code.tree))
            out.append(code)
        return out

    def _aligned_together(self, codes: Sequence[Code]) -> tuple[list[ast.expr], tuple[str | None, ...], bool]:
        codes = self.named(codes)
        dims: list[str | None] = []
        for code in sorted(codes, key=lambda c: -len(c.dims)):
            dims += [d for d in code.dims if d not in dims]
        if any(dim in self.axes for dim in dims):
            dims += [axis for axis in self.padded if axis not in dims]
        dims.sort(key=self._place)
        return [self.aligned(code, dims) for code in codes], tuple(dims), any(code.random for code in codes)

    def _apply(self, templates: tuple[str, str], *codes: Code) -> Code:
        for code in codes:
            if code.factor is not None and code.labels is not None:
                raise ModelError(f"'{code.text}' is a factor; arithmetic needs numbers", code="not-numbers")
        trees, dims, random = self._aligned_together(codes)
        parts = dict(zip("ABC", map(_array, trees), strict=False))
        return Code(filled(templates[random], **parts), dims, random, undefined=_merged(codes), size=_size(codes))

    # -- expressions

    def print(self, node: ast.expr) -> Code:
        """The code of an expression."""
        match node:
            case ast.Constant(value=bool() as truth):
                return Code(ast.Constant(int(truth)))
            case ast.Constant(value=int() | float()):
                return Code(node)
            case ast.Name(id=name):
                return self.lookup(name)
            case ast.BinOp(op=ast.MatMult()):
                return self._matmul(self.print(node.left), self.print(node.right))
            case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=2 | 3)):
                base = self.print(node.left)
                return self._apply(("A ** B", "A ** B"), base, self.print(node.right))
            case ast.BinOp(op=ast.Pow()):
                templates = "np.float_power(A, B)", "pt.pow(A, B)"
                return self._apply(templates, self.print(node.left), self.print(node.right))
            case ast.BinOp():
                sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//",
                        ast.Mod: "%"}[type(node.op)]  # fmt: skip
                template = f"A {sign} B"
                return self._apply((template, template), self.print(node.left), self.print(node.right))
            case ast.UnaryOp(op=ast.USub()):
                return self._apply(("-A", "-A"), self.print(node.operand))
            case ast.UnaryOp(op=ast.Not()):
                return self._apply(("1 * (A == 0)", "pt.cast(pt.eq(A, 0), 'int64')"), self.print(node.operand))
            case ast.UnaryOp():
                return self.print(node.operand)
            case ast.BoolOp():
                word = "and" if isinstance(node.op, ast.And) else "or"
                templates = (
                    f"1 * np.logical_{word}(A, B)",
                    f"pt.cast(pt.{word}_(pt.neq(A, 0), pt.neq(B, 0)), 'int64')",
                )
                out = self.print(node.values[0])
                for value in node.values[1:]:
                    out = self._apply(templates, out, self.print(value))
                return out
            case ast.Compare():
                return self._compare(node)
            case ast.List() | ast.Tuple():
                return self._list(node)
            case ast.Subscript():
                return self._indexed(node)
            case ast.Call(func=ast.Name(id=name)):
                return self._call(name, node)
        raise not_exported(f"'{ast.unparse(node)}'")

    def _compare(self, node: ast.Compare) -> Code:
        sides = (node.left, node.comparators[0])
        numpy, pytensor = _COMPARE[type(node.ops[0])]
        templates = f"1 * ({numpy})", f"pt.cast({pytensor}, 'int64')"
        for this, other in (sides, sides[::-1]):
            if isinstance(other, ast.Constant) and isinstance(other.value, str):
                code = self.print(this)
                if code.factor is None:
                    raise ModelError(f"'{ast.unparse(this)}' is not a factor", code="not-states")
                if code.labels is not None and self.labels[code.factor].dtype.kind == "U":
                    return Code(filled(f"1 * ({numpy})", A=code.labels, B=other), code.dims)
                place = ast.Constant(self._position(code.factor, other.value))
                return self._apply(templates, replace(code, factor=None, labels=None), Code(place))
        left, right = (self.print(side) for side in sides)
        if left.labels is not None and right.labels is not None:
            left, right = replace(left, labels=None), replace(right, labels=None)
        return self._apply(templates, left, right)

    def _position(self, dim: str, label: str) -> int:
        return [str(word) for word in self.labels[dim]].index(label)

    def _list(self, node: ast.List | ast.Tuple) -> Code:
        items = [self.print(item) for item in node.elts]
        if any(item.dims for item in items):
            nested = items[0].dims
            if set(nested) == {None} and all(item.dims == nested for item in items):
                rows: ast.expr = ast.List([item.tree for item in items])
                random = any(item.random for item in items)
                return Code(filled("pt.stack(A)", A=rows) if random else rows, (None, *nested), random, size=len(items))
            return self._stacked(items, None)
        trees: list[ast.expr] = [item.tree for item in items]
        if any(item.random for item in items):
            return Code(filled("pt.stack(A)", A=ast.List(trees)), (None,), True, size=len(items))
        return Code(ast.List(trees), (None,), size=len(items))

    # -- indices

    def _indexed(self, node: ast.Subscript) -> Code:
        if isinstance(node.value, ast.Name) and node.value.id in self._nodes:
            return self._of_cells(node.value.id, node)
        return self._indexed_in(self.print(node.value), node)

    def _indexed_in(self, base: Code, node: ast.Subscript) -> Code:
        self._check_states(f"'{ast.unparse(node)}'", [base], ())
        items = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        free, picked = list(base.dims), list[tuple[str | None, Code]]()
        for place, item in enumerate(items):
            if isinstance(item, ast.Constant) and isinstance(item.value, str):
                owners = [d for d in free if d and item.value in [str(x) for x in self.labels[d]]]
                if len(owners) > 1 and len(items) == len(base.dims) and base.dims[place] in owners:
                    owners = [str(base.dims[place])]
                dim: str | None = owners[0]
                index = Code(ast.Constant(self._position(owners[0], item.value)))
            else:
                index = self.print(item)
                if index.factor in free and index.dims == (index.factor,):
                    free.remove(index.factor)
                    continue
                dim = self._indexed_dim(index, base, free, place, len(items))
                named = index.factor is None and dim is not None and labels_are_numbers(self.labels[dim])
                states = self.axes_of(index) or (index.random and not index.given)  # their numbers are positions
                if named and not states and not isinstance(item, ast.Constant):
                    raise not_exported(f"'{ast.unparse(node)}', an index by numeric labels,")
                if index.factor is None and not isinstance(index.tree, ast.Constant):
                    template = "pt.cast(A, 'int64')" if index.random else "np.asarray(A, dtype=int)"
                    index = replace(index, tree=filled(template, A=index.tree))
            free.remove(dim)
            picked.append((dim, replace(index, factor=None, labels=None)))
        return self._take(base, picked)

    def _indexed_dim(self, index: Code, base: Code, free: list[str | None], place: int, count: int) -> str | None:
        if index.factor is not None:
            if index.factor in free:
                return index.factor
            twins = [d for d in free if d and np.array_equal(self.labels[d], self.labels[index.factor])]
            return twins[0]
        return base.dims[place] if count == len(base.dims) else free[0]

    def _take(self, base: Code, picked: list[tuple[str | None, Code]]) -> Code:
        if not picked:
            return base
        axes = [base.dims.index(dim) for dim, _ in picked]
        kept = [axis for axis in range(len(base.dims)) if axis not in axes]
        trees, dims, _ = self._aligned_together([code for _, code in picked])
        tree = _array(base.tree) if isinstance(base.tree, ast.List) else base.tree
        order = [*axes, *kept]
        random = base.random or any(code.random for _, code in picked)
        if random and not base.random:
            tree = filled("pt.as_tensor(A)", A=tree)
        if order != sorted(order):
            tree = filled("A.transpose(ORDER)", A=tree, ORDER=repr(tuple(order)))
        index = trees[0] if len(trees) == 1 else ast.Tuple(trees)
        undefined = _merged([base, *(code for _, code in picked)])
        kept_dims = tuple(base.dims[axis] for axis in kept)
        return Code(ast.Subscript(tree, index), (*dims, *kept_dims), random, undefined=undefined)

    # -- functions

    def _call(self, name: str, node: ast.Call) -> Code:
        assert name in FUNCTIONS, name
        if name in _ELEMENTWISE:
            return self._apply(_ELEMENTWISE[name], *(self.print(argument) for argument in node.args))
        if name in (*_REDUCE, "sd", "var"):
            return self._reduced(name, node)
        if name in ("softmax", "logsumexp", "cumsum", "cumprod"):
            return self._along_dim(name, node)
        printer = getattr(self, f"_fn_{name}", None)
        if printer is None:
            raise not_exported(f"{name}()")
        if name in _OF_CELLS:
            self._check_states(f"{name}()", [self.print(node.args[0])], ())
        out = printer(node)
        assert isinstance(out, Code)
        return out

    def _reduced(self, name: str, node: ast.Call) -> Code:
        code = self._defined(self.print(node.args[0]))
        dim = node.args[1].id if len(node.args) > 1 and isinstance(node.args[1], ast.Name) else None
        self._check_states(f"{name}()", [code], [dim] if dim else [])
        if not code.dims:
            return code
        kept = tuple(d for d in code.dims if dim is not None and d != dim)
        axis = f", axis={code.dims.index(dim)}" if dim is not None and len(code.dims) > 1 else ""
        module = "pt" if code.random else "np"
        if name in ("sd", "var"):
            template = f"{module}.var(A{axis}, ddof=1)"
            template = f"{module}.sqrt({template})" if name == "sd" else template
        else:
            template = f"{module}.{name}(A{axis})"
        return Code(filled(template, A=code.tree), kept, code.random)

    def _along_dim(self, name: str, node: ast.Call) -> Code:
        code = self.print(node.args[0])
        named = node.args[1].id if len(node.args) > 1 and isinstance(node.args[1], ast.Name) else None
        axis = code.dims.index(named) if named is not None else len(code.dims) - 1
        self._check_states(f"{name}()", [code], code.dims[axis : axis + 1])
        place = f"axis={axis}"
        if code.random:
            template = f"pt.special.{name}(A, {place})" if name == "softmax" else f"pt.{name}(A, {place})"
        else:
            template = f"{'special' if name in ('softmax', 'logsumexp') else 'np'}.{name}(A, {place})"
        dims = (*code.dims[:axis], *code.dims[axis + 1 :]) if name == "logsumexp" else code.dims
        return Code(filled(template, A=code.tree), dims, code.random, undefined=code.undefined)

    def _matmul(self, left: Code, right: Code) -> Code:
        left, right = self._named_like(left, right), self._named_like(right, left)
        if is_matrix_product(left.dims, right.dims, self.labels):
            first, second = left.dims
            product = self._product(left, replace(right, dims=(second, COLUMNS)), second)
            return replace(product, dims=(first, second))
        return self._product(left, right, contracted(left.dims, right.dims))

    def _product(self, left: Code, right: Code, dim: str | None) -> Code:
        left, right = self._named_like(left, right), self._named_like(right, left)
        if dim is None:
            dim = next(d for d in left.dims if d in right.dims)
        self._check_states("a product", [left, right], [dim])
        rest = tuple(d for d in left.dims if d != dim), tuple(d for d in right.dims if d != dim)
        random = left.random or right.random
        undefined = {d: k for d, k in _merged([left, right]).items() if d != dim}
        if set(rest[0]) & set(rest[1]) or len(left.dims) > 2 or len(right.dims) > 2:
            both = self._apply(("A * B", "A * B"), left, right)
            module, axis = "pt" if random else "np", both.dims.index(dim)
            kept = tuple(d for d in both.dims if d != dim)
            return Code(filled(f"{module}.sum(A, axis={axis})", A=both.tree), kept, random, undefined=undefined)
        a = left.tree if left.dims[-1] == dim else filled("A.T", A=left.tree)
        b = right.tree if right.dims[0] == dim else filled("A.T", A=right.tree)
        template = "pt.dot(A, B)" if random else "A @ B"
        return Code(filled(template, A=a, B=b), (*rest[0], *rest[1]), random, undefined=undefined)

    def _named_like(self, code: Code, partner: Code) -> Code:
        if code.dims != (None,):
            return code
        fitting = [d for d in partner.dims if d and len(self.labels[d]) == code.size]
        return replace(code, dims=(fitting[0],), tree=_array(code.tree)) if len(fitting) == 1 else code

    def _fn_dot(self, node: ast.Call) -> Code:
        dim = node.args[2].id if len(node.args) == 3 and isinstance(node.args[2], ast.Name) else None
        return self._product(self.print(node.args[0]), self.print(node.args[1]), dim)

    def _linalg(self, name: str, node: ast.Call) -> Code:
        code = self.print(node.args[0])
        module = "pt.linalg" if code.random else "np.linalg"
        template = f"{module}.slogdet(A)[1]" if name == "logdet" else f"{module}.{name}(A)"
        dims = {"inv": code.dims[::-1], "cholesky": code.dims}.get(name, ())
        return Code(filled(template, A=code.tree), dims, code.random)

    def _fn_inv(self, node: ast.Call) -> Code:
        return self._linalg("inv", node)

    def _fn_det(self, node: ast.Call) -> Code:
        return self._linalg("det", node)

    def _fn_logdet(self, node: ast.Call) -> Code:
        return self._linalg("logdet", node)

    def _fn_cholesky(self, node: ast.Call) -> Code:
        return self._linalg("cholesky", node)

    def _fn_transpose(self, node: ast.Call) -> Code:
        code = self.print(node.args[0])
        return replace(code, tree=filled("A.T", A=code.tree), dims=code.dims[::-1])

    def _fn_diag(self, node: ast.Call) -> Code:
        code = self.print(node.args[0])
        module = "pt" if code.random else "np"
        return replace(code, tree=filled(f"{module}.diag(A)", A=code.tree), dims=(*code.dims, _dim(node.args[1])))

    def _fn_diagonal(self, node: ast.Call) -> Code:
        code = self.print(node.args[0])
        module = "pt" if code.random else "np"
        return replace(code, tree=filled(f"{module}.diagonal(A)", A=code.tree), dims=code.dims[:1])

    def _fn_trace(self, node: ast.Call) -> Code:
        code = self._fn_diagonal(node)
        return replace(code, tree=filled("A.sum()", A=code.tree), dims=())

    def _fn_eye(self, node: ast.Call) -> Code:
        first, second = _dim(node.args[0]), _dim(node.args[1])
        return Code(filled("np.eye(A, B)", A=self.length(first), B=self.length(second)), (first, second))

    def _fn_rename(self, node: ast.Call) -> Code:
        code, new = self.print(node.args[0]), _dim(node.args[-1])
        old = _dim(node.args[1]) if len(node.args) == 3 else code.dims[0]
        undefined = {new if d == old else d: k for d, k in code.undefined.items()}
        return replace(code, dims=tuple(new if d == old else d for d in code.dims), undefined=undefined)

    def _fn_index(self, node: ast.Call) -> Code:
        dim = _dim(node.args[0])
        return Code(filled("np.arange(A)", A=self.length(dim)), (dim,))

    def _fn_size(self, node: ast.Call) -> Code:
        return Code(self.length(_dim(node.args[0])))

    def _fn_stack(self, node: ast.Call) -> Code:
        assert isinstance(node.args[0], ast.List | ast.Tuple)
        return self._stacked([self.print(item) for item in node.args[0].elts], _dim(node.args[1]))

    def _stacked(self, items: list[Code], dim: str | None) -> Code:
        trees, dims, random = self._aligned_together(items)
        module, size = ("pt" if random else "np"), len(items)
        if all(item.dims == dims for item in items):
            tree = filled(f"{module}.stack(A, axis=-1)" if dims else f"{module}.stack(A)", A=ast.List(trees))
        else:
            tree = filled(f"{module}.stack({module}.broadcast_arrays(*A), axis=-1)", A=ast.List(trees))
        return Code(tree, (*dims, dim), random, undefined=_merged(items), size=size)

    def _fn_concat(self, node: ast.Call) -> Code:
        assert isinstance(node.args[0], ast.List | ast.Tuple)
        items = [self.print(item) for item in node.args[0].elts]
        random = any(item.random for item in items)
        module = "pt" if random else "np"
        trees = [item.tree if item.dims else filled(f"{module}.atleast_1d(A)", A=item.tree) for item in items]
        return Code(filled(f"{module}.concatenate(A)", A=ast.List(trees)), (_dim(node.args[1]),), random)

    def _fn_isnan(self, node: ast.Call) -> Code:
        code = self.print(node.args[0])
        return Code(filled("1 * np.isnan(A)", A=code.tree), code.dims)

    # -- time

    def _fn_lag(self, node: ast.Call) -> Code:
        start = next((self.print(named.value) for named in node.keywords if named.arg == "start"), None)
        now, self.lookup = self.lookup, self.past
        try:
            code = self.print(node.args[0])
        finally:
            self.lookup = now
        assert isinstance(node.args[1], ast.Constant)
        assert isinstance(node.args[1].value, int | float)
        steps, random, undefined = int(node.args[1].value), code.random, dict(code.undefined)
        if self.axes_of(code):
            return self._lag_of_states(code, steps, start)
        dim = str(code.dims[-1])
        if len(code.dims) > 1:
            raise not_exported("lag() of a value with several dimensions")
        if start is None:
            undefined[dim] = undefined.get(dim, 0) + steps
            head: ast.expr = filled("A[:K]", A=code.tree, K=str(steps))
        else:
            random |= start.random
            head = filled("[A] * K", A=start.tree, K=str(steps))
        template = "pt.concatenate([HEAD, A[:LAST]])" if random else "np.concatenate([HEAD, A[:LAST]])"
        return Code(filled(template, HEAD=head, A=code.tree, LAST=str(-steps)), code.dims, random, undefined=undefined)

    def _lag_of_states(self, code: Code, steps: int, start: Code | None) -> Code:
        time, back = self._lagged(code, steps)
        if start is not None:
            raise not_exported("lag() with a start of a value that depends on a node that is summed out")
        undefined = {time: steps + code.undefined.get(time, 0)}
        if time not in code.dims:
            return replace(back, undefined=undefined)
        first = (time, *(d for d in back.dims if d != time))
        template = "pt.concatenate([A[:K], A[:LAST]])" if code.random else "np.concatenate([A[:K], A[:LAST]])"
        tree = filled(template, A=self.aligned(back, first), K=str(steps), LAST=str(-steps))
        return replace(back, tree=tree, dims=first, undefined=undefined)

    def _defined(self, code: Code) -> Code:
        """The value without the rows that a ``lag`` leaves undefined."""
        if not code.undefined:
            return code
        index = ", ".join(f"{code.undefined[str(d)]}:" if d in code.undefined else ":" for d in code.dims)
        return replace(code, tree=filled(f"A[{index}]", A=code.tree), undefined={})


def _dim(node: ast.expr) -> str:
    assert isinstance(node, ast.Name)
    return node.id


def _array(tree: ast.expr) -> ast.expr:
    return filled("np.array(A)", A=tree) if isinstance(tree, ast.List) else tree


def _merged(codes: Sequence[Code]) -> dict[str, int]:
    out: dict[str, int] = {}
    for code in codes:
        for dim, rows in code.undefined.items():
            out[dim] = max(out.get(dim, 0), rows)
    return out


def _size(codes: Sequence[Code]) -> int | None:
    sizes = [code.size for code in codes if code.size is not None and None in code.dims]
    return sizes[0] if sizes else None
