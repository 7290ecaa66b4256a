"""A graph model as a plain PyMC script, which can be read, changed and run without bayeslab."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bayeslab.distributions import DISTRIBUTIONS, MODIFIERS, pymc_class
from bayeslab.errors import ModelError
from bayeslab.families.graph.posterior import GraphPosterior
from bayeslab.families.graph.processes import basis_of, inputs_of, process_of
from bayeslab.families.graph.pymc_code import Printer
from bayeslab.families.graph.pymc_data import Names, ScriptData, literal
from bayeslab.families.graph.pymc_functions import function_text
from bayeslab.families.graph.pymc_values import Code, filled, not_exported
from bayeslab.language.nodes import Node, bound_arguments, call_name, nodes_of, units

__all__ = ["script"]

_WIDTH = 110
# Distributions that need more than a call with their parameters.
_SPECIAL = frozenset(
    ("LKJCorr", "CAR", "ICAR", "Interpolated", "AR", "GARCH11", "RandomWalk", "MvGaussianRandomWalk",
     "MvStudentTRandomWalk", "StickBreakingWeights", "OrderedMultinomial", "MatrixNormal", "Wishart")
)  # fmt: skip


def script(posterior: GraphPosterior, folder: Path, out: Path, comments: Mapping[str, str] | None = None) -> str:
    """The text of the script.

    Parameters
    ----------
    posterior
        A model of the family ``graph`` and the data bound to it.
    folder
        The folder that paths of the data section are relative to.
    out
        The folder of the script; its paths to the data are relative to it.
    comments
        Comments on nodes, by the nodes' keys.

    Raises
    ------
    ModelError, DataError
        A part of the model, named in the message, cannot be exported.
    """
    return _Script(posterior, folder, out, comments or {}).text()


class _Script:
    def __init__(self, posterior: GraphPosterior, folder: Path, out: Path, comments: Mapping[str, str]) -> None:
        model, data = posterior.model, posterior.data
        self.posterior, self.model, self.bound, self.comments = posterior, model, data, comments
        self.nodes = nodes_of(posterior.spec.nodes)
        self.names = Names()
        for name in self.nodes:
            self.names.of(name)
        self.data = ScriptData(model, data, folder, out, set(self.nodes), self.names)
        self.columns = data.names()
        self.values: dict[str, Code] = {}
        self.printer = Printer(self.lookup, data.labels, self.past, self.data.length)
        self.lines: list[str] = []
        self.before: list[str] = []
        self.late: dict[str, int] = {}
        self.summed = list(posterior.summed_out())
        self.tied = set(self.summed)
        # Initial values of chains; pymc_extras does not accept them in the model.
        self.starts: dict[str, Any] = {}
        self._built: Any = None

    # -- names

    def lookup(self, name: str) -> Code:
        if name in self.values:
            return self.values[name]
        if name in self.nodes:
            raise not_exported(f"'{name}', a recursion,", *self.nodes[name].path)
        return self.data.column(name)

    def past(self, name: str) -> Code:
        """The value inside ``lag``: the data of an observed node."""
        if name in self.nodes and name in self.columns:
            return self.data.column(name)
        return self.lookup(name)

    # -- script

    def text(self) -> str:
        for dim in {dim: None for node in self.nodes.values() for dim in node.dims}:
            self.data.dimension(dim)
        for name in self.summed:
            self._check_shared(self.nodes[name])
        for unit in units(self.nodes, {name for name in self.nodes if name in self.columns}):
            if len(unit) > 1:
                raise not_exported(f"'{unit[0].name}', a recursion with another node,", *unit[0].path)
            node = unit[0]
            try:
                self._node(node)
            except ModelError as error:
                if error.path:
                    raise
                raise ModelError(error.message, path=node.path, offset=error.offset, code=error.code) from None
        # A column of levels that is only compared with labels needs no codes.
        others = "\n".join([*self.data.columns, *self.before, *self.lines])
        columns = [line for line in self.data.columns if len(re.findall(rf"\b{line.split(' = ')[0]}\b", others)) > 1]
        body = "\n".join(
            [
                *self.data.files,
                "",
                "# Dimensions and their labels.",
                *self._coords(),
                *(["", "# Columns, and values computed from data only."] if columns + self.before else []),
                *columns,
                *self.before,
                "",
                "with pm.Model(coords=coords) as model:",
                *self.lines,
                *(["", "# Discrete nodes without data are summed out."] if self.summed else []),
                *([f"model = pmx.marginalize(model, {self.summed!r})"] if self.summed else []),
                "",
                'if __name__ == "__main__":',
                "    with model:",
                f"        idata = pm.sample({self._sampling()})",
                "    print(az.summary(idata))",
                "",
            ]
        )
        return f"{self._head(body)}\n\n# Data.\n{body}"

    def _head(self, body: str) -> str:
        about = " ".join(self.model.about.split()).replace("\\", "\\\\").replace('"""', "'''")
        lines = [
            f'"""{self.model.name}: the model in plain PyMC.' if about else f'"""{self.model.name} in plain PyMC."""'
        ]
        if about:
            lines += ["", about, '"""']
        imports = ["", *(["import json"] if "json." in body else [])]
        imports += ["from pathlib import Path", ""] if "FOLDER" in body else []
        imports += ["import arviz as az"]
        imports += ["import numpy as np"] if "np." in body else []
        imports += ["import pandas as pd"] if "pd." in body else []
        imports += ["import pymc as pm"]
        imports += ["import pymc_extras as pmx"] if "pmx." in body else []
        imports += ["import pytensor.tensor as pt"] if "pt." in body else []
        imports += ["from scipy import special"] if "special." in body.replace("pt.special.", "") else []
        folder = ["", "FOLDER = Path(__file__).parent"] if "FOLDER" in body else []
        return "\n".join([*lines, *imports, *folder])

    def _coords(self) -> list[str]:
        out = ["coords = {", *(f"    {dim!r}: {labels}," for dim, labels in self.data.coords.items()), "}"]
        for late, rows in self.late.items():
            dim = late.rpartition("_from_")[0]
            out.append(f"coords[{late!r}] = coords[{dim!r}][{rows}:]")
        return out if self.data.coords else ["coords = {}"]

    def _sampling(self) -> str:
        given = {"random_seed": self.model.seed, "target_accept": self.model.inference.get("target_accept")}
        given |= {word: self.model.inference.get(word) for word in ("draws", "tune", "chains")}
        given["initvals"] = self.starts or None
        return ", ".join(f"{word}={value!r}" for word, value in given.items() if value is not None)

    def _check_shared(self, node: Node) -> None:
        """Refuse a discrete node with a cell that several rows share: pymc_extras sums out one cell per row."""
        tied, todo = {node.name}, True
        while todo:
            below = [n for n in self.nodes.values() if n.parents & tied and n.name not in tied]
            tied |= {n.name for n in below if n.kind == "deterministic"}
            todo = any(n.kind == "deterministic" for n in below)
            for other in below:
                if other.kind == "random" and not set(node.dims) <= set(other.dims):
                    raise not_exported(
                        f"'{node.name}', summed out, with cells shared by several cells of '{other.name}',", *node.path
                    )

    # -- nodes

    def _node(self, node: Node) -> None:
        if node.recursive and node.name not in self.columns:
            raise not_exported(f"'{node.name}', a recursion,", *node.path)
        if node.kind == "potential":
            assert isinstance(node.expression.tree, ast.Call)
            (value,) = bound_arguments(node.expression.tree, "Potential").values()
            self._statement(
                node, None, filled("pm.Potential(N, A)", N=repr(node.name), A=self.printer.print(value).tree)
            )
        elif node.kind == "deterministic":
            self._deterministic(node)
        elif node.process:
            self._function(node)
        else:
            self._random(node)

    def _statement(self, node: Node, variable: str | None, tree: ast.expr, *, inside: bool = True) -> None:
        """Add a statement, its node's comment above it."""
        indent = "    " if inside else ""
        lines = self.lines if inside else self.before
        comment = self.comments.get(node.key)
        lines += [f"{indent}# {line}" for line in comment.splitlines()] if comment else []
        head = f"{indent}{variable} = " if variable else indent
        lines += _statement_lines(head, tree, indent)

    def _deterministic(self, node: Node) -> None:
        code = self.printer.print(node.expression.tree)
        if code.factor is not None and code.labels is not None:
            self.values[node.name] = code
            return
        if None in code.dims:
            # The unnamed axes of a list are the remaining dimensions of its node.
            lacking = iter([d for d in node.dims if d not in code.dims])
            code = replace(code, dims=tuple(next(lacking) if d is None else d for d in code.dims))
        variable = self.names.of(node.name)
        tree = self.printer.aligned(code, node.dims)
        whole = tuple(code.dims) == node.dims or not node.dims
        undefined = dict(code.undefined)
        if not code.random:
            tree = tree if whole and node.dims else self._broadcast(tree, node.dims, "np") if node.dims else tree
            if node.dims and isinstance(tree, ast.List):
                tree = filled("np.array(A)", A=tree)
            self._statement(node, variable, tree, inside=False)
        elif node.parents & self.tied:
            # It depends on a discrete node that is summed out, so it has no value in a draw.
            self.tied.add(node.name)
            self._statement(node, variable, tree if whole else self._broadcast(tree, node.dims, "pt"))
        else:
            tree = tree if whole else self._broadcast(tree, node.dims, "pt")
            call = filled("pm.Deterministic(N, A)", N=repr(node.name), A=tree)
            self._statement(node, variable, self._with(call, dims=_names(node.dims)))
        self.values[node.name] = Code(ast.Name(variable), node.dims, code.random, undefined=undefined)

    def _broadcast(self, tree: ast.expr, dims: Sequence[str], module: str) -> ast.expr:
        lengths = ast.Tuple([self.data.length(dim) for dim in dims])
        return filled(f"{module}.broadcast_to(A, S)", A=tree, S=lengths)

    def _random(self, node: Node) -> None:
        tree = node.expression.tree
        assert isinstance(tree, ast.Call)
        word, variable, dims = str(node.distribution), self.names.of(node.name), node.dims
        observed = None
        if node.name in self.columns:
            observed = self.data.observed(node.name, dims, discrete=node.discrete)
        if word == "LKJCholeskyCov":
            self._cholesky(node, tree)
            return
        self._undefined: dict[str, int] = {}
        if node.recursive:
            self.values[node.name] = self.data.column(node.name)
        extra: dict[str, ast.expr | None] = {}
        if word in ("Ordered", "PositiveOrdered"):
            (inner,) = bound_arguments(tree, word).values()
            assert isinstance(inner, ast.Call)
            call = self.distribution(inner, dims, node.name)
            extra["transform"] = filled("pm.distributions.transforms.ordered")
            if word == "PositiveOrdered":
                call = filled("pm.Truncated(N, D, lower=0)", N=repr(node.name), D=self.distribution(inner, dims, None))
                extra["transform"] = filled("pm.distributions.transforms.Ordered(positive=True)")
                extra["default_transform"] = ast.Constant(None)
            start = self._start(node.name)
            if self.summed:
                self.starts[node.name] = start.tolist()
            else:
                extra["initval"] = literal(start)
        else:
            call = self.distribution(tree, dims, node.name)
        if word == "LogitNormal":
            extra["default_transform"] = filled("pm.distributions.transforms.logodds")
        rows = self._undefined.get(dims[-1], 0) if dims else 0
        if rows:
            self._conditioned(node, tree, rows, observed)
            return
        extra = {"dims": _names(dims), "observed": observed.tree if observed else None, **extra}
        self._statement(node, variable, self._with(call, **extra))
        self.values[node.name] = Code(ast.Name(variable), dims, True)
        if observed is not None:
            self._bind_to_data(node, variable)

    def _function(self, node: Node) -> None:
        """Add a Gaussian process: its standard normals and its values at the inputs."""
        process = process_of(node, self.nodes, self.bound)
        inputs = inputs_of(process, node, self.nodes, self.bound)
        basis = basis_of(process, inputs, node, self.nodes) if process.approximate else None
        columns = [ast.unparse(self.lookup(name).tree) for name in process.kernel.columns]
        outer = [ast.unparse(self.data.length(dim)) for dim in node.dims[:-1]]
        variable = self.names.of(node.name)
        made = function_text(variable, process, basis, columns, outer, lambda name: ast.unparse(self.lookup(name).tree))
        self.before += made.before
        comment = self.comments.get(node.key)
        self.lines += [f"    # {line}" for line in comment.splitlines()] if comment else []
        self.lines += [f"    {line}" for line in made.lines]
        call = filled("pm.Deterministic(N, A)", N=repr(node.name), A=ast.parse(made.value, mode="eval").body)
        self.lines += _statement_lines(f"    {variable} = ", self._with(call, dims=_names(node.dims)), "    ")
        self.values[node.name] = Code(ast.Name(variable), node.dims, True)

    def _bind_to_data(self, node: Node, variable: str) -> None:
        """Let other nodes use the data of an observed node, unless it has missing cells, which are parameters."""
        term = self.bound.term(node.name, missing=True)
        below = any(node.name in other.parents for other in self.nodes.values())
        if not below:
            return
        absent = term.codes < 0 if term.codes is not None else np.isnan(np.asarray(term.value, dtype=float))
        if not np.any(absent):
            self.values[node.name] = self.data.column(node.name)

    def _conditioned(self, node: Node, tree: ast.Call, rows: int, observed: Code | None) -> None:
        """Add a node whose first rows are conditioned on: they have no density."""
        if observed is None or len(node.dims) > 1:
            raise not_exported(f"'{node.name}', whose first rows have no distribution,", *node.path)
        late = f"{node.dims[0]}_from_{rows}"
        self.late[late] = rows
        self._late = (node.dims[0], rows)
        try:
            call = self.distribution(tree, node.dims, node.name)
        finally:
            del self._late
        later_rows = filled("A[K:]", A=self.data.column(node.name).tree, K=str(rows))
        self._statement(node, self.names.of(node.name), self._with(call, dims=_names((late,)), observed=later_rows))
        self.values[node.name] = self.data.column(node.name)

    def _cholesky(self, node: Node, tree: ast.Call) -> None:
        """Add the Cholesky factor of a covariance, with its correlations and standard deviations."""
        from bayeslab.families.graph.lkj import correction

        given = bound_arguments(tree, "LKJCholeskyCov")
        inner, size = given["sd_dist"], self.data.length(node.dims[0])
        assert isinstance(inner, ast.Call)
        deviations = self._with(self.distribution(inner, node.dims[:1], None), shape=size)
        eta = self.printer.print(given["eta"]).tree
        try:
            lacking = correction(float(ast.literal_eval(given["eta"])), len(self.bound.labels[node.dims[0]]))
        except ValueError:
            raise not_exported(f"'{node.name}', whose eta is not a number,", *node.path) from None
        variable = self.names.of(node.name)
        corr, stds = self.names.of(f"{node.name}_corr"), self.names.of(f"{node.name}_stds")
        call = filled(
            "pm.LKJCholeskyCov(N, eta=E, n=K, sd_dist=S, store_in_trace=False)",
            N=repr(f"{node.name}_packed"), E=eta, K=size, S=deviations,
        )  # fmt: skip
        self._statement(node, f"{variable}, {corr}, {stds}", call)
        self.lines.append(
            "    # PyMC 6.3 adds the log normalising constant of the correlations; it must be subtracted."
        )
        self.lines.append(f"    pm.Potential({f'{node.name}_constant'!r}, pm.math.constant({lacking!r}))")
        for name, made, dims in (
            (node.name, variable, node.dims),
            (f"{node.name}_corr", corr, node.dims),
            (f"{node.name}_stds", stds, node.dims[:1]),
        ):
            self.lines.append(
                f"    {made} = pm.Deterministic({name!r}, {made}, dims={tuple(dims) if len(dims) > 1 else dims[0]!r})"
            )
            self.values[name] = Code(ast.Name(made), dims, True)

    def _start(self, name: str) -> np.ndarray:
        """Initial value of a node, such as an increasing vector."""
        if self._built is None:
            self._built = self.posterior.graph()
        value = self._built.rvs_to_initial_values[self._built[name]]
        return np.array([float(f"{x:.4g}") for x in np.ravel(np.asarray(value))]).reshape(np.shape(value))

    @staticmethod
    def _with(call: ast.expr, **extra: ast.expr | None) -> ast.expr:
        assert isinstance(call, ast.Call)
        more = [ast.keyword(name, value) for name, value in extra.items() if value is not None]
        return ast.Call(call.func, call.args, [*call.keywords, *more])

    # -- distributions

    def distribution(self, tree: ast.expr, dims: tuple[str, ...], name: str | None) -> ast.expr:
        """The call of a distribution: of a node, or, if ``name`` is None, of a component of another distribution."""
        assert isinstance(tree, ast.Call)
        word = str(call_name(tree))
        if word in ("Truncated", "Censored"):
            return self._bounded(word, tree, dims, name)
        if word == "Mixture":
            return self._mixture(tree, dims, name)
        if word == "StickBreaking":
            return self._stick_breaking(tree, dims, name)
        entry = DISTRIBUTIONS[word]
        plain = word not in MODIFIERS and word not in _SPECIAL and not entry.distributions and not entry.lengths
        if not plain or not _is_pymc_class(word):
            raise not_exported(f"the distribution {word}")
        batch = dims[: len(dims) - entry.support]
        core_dims = dims[len(dims) - entry.support :]
        keywords = []
        for key, value in bound_arguments(tree, word).items():
            if key in entry.fixed or key == "n_zerosum_axes":
                raise not_exported(f"the argument {key} of {word}")
            parameter = self.parameter(value, batch, core_dims, entry.core.get(key, 0), apart=key in entry.apart)
            keywords.append(ast.keyword(key, parameter))
        if word in ("OrderedLogistic", "OrderedProbit"):
            keywords.append(ast.keyword("compute_p", ast.Constant(False)))
        return _distribution_call(word, name, [], keywords)

    def parameter(
        self, tree: ast.expr, batch: tuple[str, ...], core_dims: tuple[str, ...], core: int, *, apart: bool
    ) -> ast.expr:
        """A parameter: batch dimensions first, then the dimensions of one value of the parameter."""
        code = self._late_rows(self.printer.print(tree))
        if core == 0:
            (code,) = self.printer.named([code], batch) if batch else [code]
            return self.printer.aligned(code, batch)
        rest = tuple(d for d in code.dims if d not in batch or d is None)
        if len(rest) < core:
            if core == 1 and core_dims and not rest and not code.dims and not apart:
                return filled(
                    "np.full(K, A)" if not code.random else "A * np.ones(K)",
                    K=self.data.length(core_dims[-1]),
                    A=code.tree,
                )
            raise not_exported(f"'{ast.unparse(tree)}', one value for a vector of parameters,")
        if None in code.dims:
            return code.tree
        head = tuple(d for d in batch if d in code.dims)
        return self.printer.aligned(code, (*(batch if head else ()), *rest))

    def _late_rows(self, code: Code) -> Code:
        for dim, rows in code.undefined.items():
            self._undefined[dim] = max(self._undefined.get(dim, 0), rows)
        late = self.__dict__.get("_late")
        if late is None or late[0] not in code.dims:
            return code
        index = ", ".join(f"{late[1]}:" if d == late[0] else ":" for d in code.dims)
        return replace(code, tree=filled(f"A[{index}]", A=code.tree), undefined={})

    def _bounded(self, word: str, tree: ast.Call, dims: tuple[str, ...], name: str | None) -> ast.expr:
        given = bound_arguments(tree, word)
        keywords = []
        for side in ("lower", "upper"):
            value = given.get(side, ast.Constant(None))
            none = isinstance(value, ast.Constant) and value.value is None
            bound = ast.Constant(None) if none else self.parameter(value, dims, (), 0, apart=False)
            keywords.append(ast.keyword(side, bound))
        return _distribution_call(word, name, [self.distribution(given["dist"], dims, None)], keywords)

    def _stick_breaking(self, tree: ast.Call, dims: tuple[str, ...], name: str | None) -> ast.expr:
        """PyMC's stick-breaking weights: K is the number of breaks, one less than of weights; there is no discount."""
        given = bound_arguments(tree, "StickBreaking")
        if "discount" in given:
            raise not_exported("StickBreaking with a discount")
        breaks = filled("L - 1", L=self.data.length(dims[-1]))
        alpha = self.parameter(given["alpha"], dims[:-1], dims[-1:], 0, apart=False)
        return _distribution_call(
            "StickBreakingWeights", name, [], [ast.keyword("alpha", alpha), ast.keyword("K", breaks)]
        )

    def _mixture(self, tree: ast.Call, dims: tuple[str, ...], name: str | None) -> ast.expr:
        given = bound_arguments(tree, "Mixture")
        weights, parts = self.printer.print(given["w"]), given["comp_dists"]
        several = isinstance(parts, ast.List | ast.Tuple)
        first = parts.elts[0] if isinstance(parts, ast.List | ast.Tuple) else parts
        word = str(call_name(first))
        support = DISTRIBUTIONS[word].support if word in DISTRIBUTIONS else 0
        batch = dims[: len(dims) - support]
        component_dims = [d for d in weights.dims if d not in batch or d is None]
        if len(component_dims) != 1 or support:
            raise not_exported("a Mixture of multivariate components, or with weights along no single dimension,")
        head = tuple(d for d in batch if d in weights.dims)
        w = (
            weights.tree
            if None in weights.dims
            else self.printer.aligned(weights, (*(batch if head else ()), component_dims[0]))
        )
        if several:
            assert isinstance(parts, ast.List | ast.Tuple)
            components: ast.expr = ast.List([self.distribution(part, dims, None) for part in parts.elts])
        else:
            component = component_dims[0]
            if component is None:
                raise not_exported("a Mixture whose weights have no named dimension")
            components = self.distribution(parts, (*batch, component), None)
            assert isinstance(components, ast.Call)
            shape = ast.Tuple([self.data.length(d) for d in (*batch, component)])
            components = self._with(components, shape=shape)
        return _distribution_call("Mixture", name, [], [ast.keyword("w", w), ast.keyword("comp_dists", components)])


def _distribution_call(word: str, name: str | None, arguments: list[ast.expr], keywords: list[ast.keyword]) -> ast.Call:
    """``pm.Normal("x", ...)``, or ``pm.Normal.dist(...)`` without a name."""
    func = filled(f"pm.{word}" if name is not None else f"pm.{word}.dist")
    return ast.Call(func, [*([ast.Constant(name)] if name is not None else []), *arguments], keywords)


def _float(tree: ast.expr) -> ast.expr:
    """A whole number as a float literal, because PyTensor computes with small integers in 32 bits."""
    inner = tree.operand if isinstance(tree, ast.UnaryOp) else tree
    if isinstance(inner, ast.Constant) and isinstance(inner.value, int):
        return ast.parse(f"{ast.unparse(tree)}.0", mode="eval").body
    return tree


def _is_pymc_class(word: str) -> bool:
    import pymc as pm

    made = vars(pm).get(word)
    return made is not None and pymc_class(word) is made


def _names(dims: Sequence[str]) -> ast.expr | None:
    if not dims:
        return None
    return ast.Constant(dims[0]) if len(dims) == 1 else ast.Tuple([ast.Constant(dim) for dim in dims])


def _statement_lines(head: str, tree: ast.expr, indent: str) -> list[str]:
    """The lines of a statement: one, or, if it is too long, one for each argument."""
    line = head + ast.unparse(tree)
    if len(line) <= _WIDTH or not isinstance(tree, ast.Call):
        return [line]
    parts = [ast.unparse(argument) for argument in tree.args]
    parts += [f"{named.arg}={ast.unparse(named.value)}" for named in tree.keywords]
    return [f"{head}{ast.unparse(tree.func)}(", *(f"{indent}    {part}," for part in parts), f"{indent})"]
