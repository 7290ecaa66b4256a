"""A graph model as a plain PyMC script, which can be read, changed and run without bayeslab."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bayeslab.distributions import DISTRIBUTIONS, MODIFIERS
from bayeslab.errors import ModelError
from bayeslab.families.graph.gaps import nodes_with_gaps
from bayeslab.families.graph.posterior import GraphPosterior
from bayeslab.families.graph.processes import basis_of, inputs_of, process_of
from bayeslab.families.graph.pymc_code import Printer
from bayeslab.families.graph.pymc_data import Names, ScriptData, literal
from bayeslab.families.graph.pymc_distributions import DistributionPrinter
from bayeslab.families.graph.pymc_functions import function_text
from bayeslab.families.graph.pymc_helpers import helpers_in
from bayeslab.families.graph.pymc_hidden import (
    ChainCode,
    HiddenNode,
    Table,
    check_chain,
    groups,
    sum_of_chains,
    sum_of_labels,
)
from bayeslab.families.graph.pymc_integrals import Linear, NotSplit, split
from bayeslab.families.graph.pymc_layout import statement_lines
from bayeslab.families.graph.pymc_states import StatesText, states_text
from bayeslab.families.graph.pymc_values import Code, filled, not_exported, with_keywords
from bayeslab.language.nodes import Node, bound_arguments, call_name, nodes_of, units

__all__ = ["script"]


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
        self.distributions = DistributionPrinter(self.printer, self.data.length)
        self.lines: list[str] = []
        self.before: list[str] = []
        self.late: dict[str, int] = {}
        # Without data there is nothing to sum out for.
        observed = any(node.kind == "potential" or node.name in self.columns for node in self.nodes.values())
        self.summed = list(posterior.summed_out()) if observed else []
        #: Nodes whose values follow from those that are summed out or integrated out.
        self.tied = set(self.summed)
        #: Discrete nodes that the script sums out by its own lines, and observed ones with missing cells among them.
        self.hidden: dict[str, HiddenNode] = {}
        self.gaps = set(nodes_with_gaps(self.nodes, data))
        #: States and functions that are integrated out, and the text of each.
        self.integrated = frozenset(posterior.integrated())
        self.systems: dict[str, StatesText] = {}
        self.covariances: dict[str, tuple[str, str]] = {}
        # Initial values of chains; pymc_extras does not accept them in the model.
        self.starts: dict[str, Any] = {}
        self._built: Any = None

    # -- names

    def lookup(self, name: str) -> Code:
        if name in self.values:
            return self.values[name]
        if name in self.nodes:
            if name not in self.columns or np.any(self._absent(self.nodes[name])):
                raise not_exported(f"'{name}', a recursion,", *self.nodes[name].path)
            return self.data.column(name)  # a later node, on whose past it depends
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
        if self.gaps or any(self.nodes[name].hidden_path or self._by_hand(self.nodes[name]) for name in self.summed):
            self._hide()
        self._check_integrals()
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
        self._sum_out()
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
                *(["", "# Discrete nodes without data are summed out."] if self.summed and not self.hidden else []),
                *([f"model = pmx.marginalize(model, {self.summed!r})"] if self.summed and not self.hidden else []),
                "",
                'if __name__ == "__main__":',
                "    with model:",
                f"        idata = pm.sample({self._sampling()})",
                "    print(az.summary(idata))",
                "",
            ]
        )
        helpers = helpers_in(body)
        head = self._head(f"{body}\n{helpers}")
        return f"{head}\n\n{helpers and f'\n{helpers}\n\n\n'}# Data.\n{body}"

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
        imports += ["from pytensor import scan"] if "scan(" in body else []
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

    def _by_hand(self, node: Node) -> bool:
        """Whether pymc_extras cannot sum a discrete node out.

        It sums out one cell per row, and no row may have a missing cell, for which PyMC makes a node of its own.
        """
        tied, todo = {node.name}, True
        while todo:
            below = [n for n in self.nodes.values() if n.parents & tied and n.name not in tied]
            tied |= {n.name for n in below if n.kind == "deterministic"}
            todo = any(n.kind == "deterministic" for n in below)
            drawn = [n for n in below if n.kind == "random"]
            if any(not set(node.dims) <= set(n.dims) for n in drawn):
                return True
            if any(n.name in self.columns and np.any(self._absent(n)) for n in drawn):
                return True
        return False

    # -- discrete nodes that the script sums out by its own lines

    def _hide(self) -> None:
        """Make every discrete node that is summed out an axis along its states."""
        from bayeslab.families.graph.path_sums import Sums  # imports PyTensor

        found = self.posterior.elimination()
        if found is None or not isinstance(found[1], Sums):
            raise not_exported(f"'{self.summed[0]}', summed out,", *self.nodes[self.summed[0]].path)
        for latent in found[1].latents:
            name = latent.name.removesuffix("_unobserved")
            node, first = self.nodes[name], latent.first
            axis = self.printer.add_states(name, node.dims, latent.states)
            self.hidden[name] = HiddenNode(node, latent, axis)
            self.tied.add(name)
            variable = self.names.of(name)
            self.before.append(f"# States of {name}, which is summed out.")
            self.before.append(f"{variable} = np.arange({f'{first}, ' if first else ''}{first + latent.states})")
            factor = latent.path.state if latent.path is not None else None
            self.values[name] = Code(ast.Name(variable), (axis,), factor=factor)

    def _label(self, node: Node, tree: ast.Call) -> None:
        """Add the log probabilities of a discrete node's states; of a Markov chain, nothing yet."""
        hidden = self.hidden[node.name]
        if node.hidden_path:
            check_chain(node)
            return
        variable = self.names.of(f"log_p_{node.name}")
        given = bound_arguments(tree, str(node.distribution)) if node.distribution == "Categorical" else {}
        if "p" in given:
            code = self.printer.print(given["p"])
            rest = [d for d in code.dims if d not in node.dims and d not in self.printer.axes]
            if len(rest) != 1:
                raise not_exported(f"'{node.name}', whose states have no single dimension,", *node.path)
            named = replace(code, dims=tuple(hidden.axis if d == rest[0] else d for d in code.dims))
            table = replace(named, tree=filled("pt.log(A)", A=code.tree), factor=None, labels=None, undefined={})
        else:
            met = self._dims_in(tree)
            axes = [*(axis for axis in self.printer.axes if axis in met), hidden.axis]
            batch = tuple(dim for dim in node.dims if dim in met)
            value = self.printer.aligned(self.values[node.name], (*batch, *axes))
            table = Code(self._log_density(tree, batch, axes, value), (*batch, *axes), True)
        if node.name in self.gaps:
            cells = self.data.column(node.name)
            dims = (*cells.dims, hidden.axis)
            template = "pt.where(np.isnan(Y) | (Y == Z), A, -np.inf)"
            y, log_p = (self.printer.aligned(each, dims) for each in (cells, table))
            table = Code(filled(template, Y=y, Z=self.values[node.name].tree, A=log_p), dims, True)
        self._statement(node, variable, table.tree)
        hidden.tables.append(Table(variable, replace(table, tree=ast.Name(variable))))

    def _dims_in(self, tree: ast.expr) -> set[str | None]:
        """The dimensions, and axes along states, of the parameters of a distribution."""
        if isinstance(tree, ast.Call) and (word := call_name(tree)) in {*DISTRIBUTIONS, *MODIFIERS}:
            return set().union(*map(self._dims_in, bound_arguments(tree, str(word)).values()))
        if isinstance(tree, ast.List | ast.Tuple) and any(call_name(item) in DISTRIBUTIONS for item in tree.elts):
            return set().union(*map(self._dims_in, tree.elts))
        if isinstance(tree, ast.Constant) and not isinstance(tree.value, int | float):
            return set()
        return set(self.printer.print(tree).dims)

    def _log_density(self, tree: ast.Call, dims: tuple[str, ...], axes: list[str], value: ast.expr) -> ast.expr:
        """The log density of a value by row and by state."""
        support = self._support(tree)
        batch, core = dims[: len(dims) - support], dims[len(dims) - support :]
        given = bound_arguments(tree, "Bernoulli") if call_name(tree) == "Bernoulli" else {}
        if "p" in given and axes:
            p = self.distributions.parameter(given["p"], (*batch, *axes), (), 0, apart=False)
            return filled("log_bernoulli(P, Y)", P=p, Y=value)
        return filled("pm.logp(D, Y)", D=self.distributions.write(tree, (*batch, *axes, *core), None), Y=value)

    @staticmethod
    def _support(tree: ast.Call) -> int:
        word = str(call_name(tree))
        return DISTRIBUTIONS[word].support if word in DISTRIBUTIONS else 0

    def _emission(self, node: Node, tree: ast.Call) -> None:
        """Add the log density of a node with data, by state of the discrete nodes that it depends on."""
        if node.name not in self.columns or node.recursive:
            raise not_exported(f"'{node.name}', which depends on a node that is summed out,", *node.path)
        dims, support = node.dims, self._support(tree)
        met = self._dims_in(tree)
        axes = [axis for axis in self.printer.axes if axis in met]
        self.printer.padded = tuple(axes) if len(axes) > 1 else ()
        observed = self.data.observed(node.name, dims, discrete=False)
        self.distributions.undefined = {}
        self._log_density(tree, dims, axes, observed.tree)
        rows = self.distributions.undefined.get(dims[-1], 0)
        value: ast.expr = observed.tree
        if rows:
            if support:
                raise not_exported(f"'{node.name}', whose first rows have no distribution,", *node.path)
            value = filled(f"A[{', '.join([':'] * (len(dims) - 1) + [f'{rows}:'])}]", A=value)
        term = self.bound.term(node.name, missing=True)
        absent = self._absent(node)
        variable = self.names.of(f"log_p_{node.name}")
        batch, core = dims[: len(dims) - support], dims[len(dims) - support :]
        cells = self.printer.aligned(Code(value, dims), (*batch, *axes, *core))
        if np.any(absent) and support:
            raise not_exported(f"'{node.name}', vectors with missing cells,", *node.path)
        if np.any(absent):
            known = self.names.of(f"{node.name}_known")
            test = "A >= 0" if term.codes is not None else "~np.isnan(A)"
            self.before.append(f"{known} = {ast.unparse(filled(test, A=cells))}")
            filler = np.ravel(term.codes if term.codes is not None else term.value)[~np.ravel(absent)][0].item()
            cells = filled("np.where(K, A, F)", K=known, A=cells, F=repr(int(filler) if node.discrete else filler))
        if node.discrete and (term.codes is None) and np.asarray(term.value).dtype.kind == "f":
            cells = filled("A.astype(int)", A=cells)
        try:
            with self.distributions.later_rows(dims[-1], rows):
                log_p = self._log_density(tree, dims, axes, cells)
        finally:
            self.printer.padded = ()
        if np.any(absent):
            log_p = filled("pt.where(K, A, 0.0)", K=known, A=log_p)
        self._statement(node, variable, log_p)
        self._enter(Table(variable, Code(ast.Name(variable), (*batch, *axes), True), rows))
        self._bind_to_data(node)

    def _enter(self, table: Table) -> None:
        """Add a log density to the discrete nodes that it depends on."""
        for name in {self.printer.axes[axis].node: None for axis in self.printer.axes_of(table.code)}:
            self.hidden[name].tables.append(table)

    def _sum_out(self) -> None:
        """Add a potential for each group of discrete nodes that are summed out together."""
        for group in groups(self.hidden, self.printer):
            if all(one.node.hidden_path for one in group):
                total = sum_of_chains(group, self.printer, [self._chain(one) for one in group])
            elif any(one.node.hidden_path for one in group):
                names = " and ".join(f"'{one.node.name}'" for one in group)
                raise not_exported(f"{names}, summed out together,", *group[0].node.path)
            else:
                total = sum_of_labels(group, self.printer)
            names = " and ".join(one.node.name for one in group)
            self.lines.append("")
            self.lines.append(f"    # The data's log probability, with {names} summed out.")
            name = "_".join([*(one.node.name for one in group), "summed_out"])
            self.lines += statement_lines("    ", filled("pm.Potential(N, A)", N=repr(name), A=total), "    ")

    def _chain(self, each: HiddenNode) -> ChainCode:
        node = each.node
        tree = node.expression.tree
        assert isinstance(tree, ast.Call)
        given = bound_arguments(tree, str(node.distribution))
        moves = self._moves(node, given["P"])
        if not isinstance(moves.tree, ast.Name):
            moves = replace(moves, tree=self._named_matrices(node, moves))
        first, n = given.get("initial"), each.latent.states
        word = first.id if isinstance(first, ast.Name) else None
        if first is None or word == "uniform":
            initial = Code(filled("np.full(K, 1 / K)", K=str(n)), (None,))
        elif word == "stationary":
            initial = Code(filled("stationary(P)", P=moves.tree), moves.dims[:-1], True)
        else:
            initial = self.printer.print(first)
            rest = [d for d in initial.dims if d not in node.dims]
            if None in initial.dims and not initial.random:
                initial = replace(initial, tree=filled("np.array(A)", A=initial.tree))
            elif None not in initial.dims:
                outer = [d for d in node.dims if d in initial.dims]
                onto = (*(node.dims[:-1] if outer else ()), *rest)
                initial = replace(initial, tree=self.printer.aligned(initial, onto), dims=onto)
        starts = filled("np.arange(A) == 0", A=self.data.length(node.dims[-1]))
        if "sequence" in given:
            column = self.printer.print(given["sequence"]).tree
            starts = filled("np.append(True, S[1:] != S[:-1])", S=column)
        durations = self._moves(node, given["durations"]) if "durations" in given else None
        return ChainCode(initial, moves, starts, durations)

    def _named_matrices(self, node: Node, moves: Code) -> ast.expr:
        """Give transition probabilities a variable in the script."""
        variable, tree = self.names.of(f"P_{node.name}"), moves.tree
        self.lines.append("")
        self.lines.append(f"    # Probabilities of the states of {node.name} given the state before.")
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Attribute) and tree.func.attr == "transpose":
            self.lines += statement_lines(f"    {variable} = ", tree.func.value, "    ")
            tree = ast.Call(ast.Attribute(ast.Name(variable), "transpose"), tree.args, [])
        self.lines += statement_lines(f"    {variable} = ", tree, "    ")
        return ast.Name(variable)

    def _moves(self, node: Node, tree: ast.expr) -> Code:
        """Probabilities with two axes of states, or of states and lengths, after dimensions of the node."""
        if isinstance(tree, ast.List | ast.Tuple) and all(isinstance(row, ast.List | ast.Tuple) for row in tree.elts):
            rows = [[self.printer.print(entry) for entry in row.elts] for row in tree.elts]  # type: ignore[attr-defined]
            entries = [entry for row in rows for entry in row]
            batch = tuple(dim for dim in node.dims if any(dim in entry.dims for entry in entries))
            matrix = ast.List([ast.List([self._entry(entry, batch) for entry in row]) for row in rows])
            if not any(entry.random for entry in entries) and not batch:
                return Code(filled("np.array(A)", A=matrix), (None, None))
            whole = filled("pt.stacklists(A)", A=matrix)
            if batch:
                order = (*range(2, 2 + len(batch)), 0, 1)
                whole = filled("A.transpose(ORDER)", A=whole, ORDER=repr(order))
            return Code(whole, (*batch, None, None), True)
        code = self.printer.print(tree)
        if None in code.dims:
            return replace(code, tree=filled("np.array(A)", A=code.tree)) if not code.random else code
        batch = tuple(dim for dim in node.dims if dim in code.dims)
        rest = [dim for dim in code.dims if dim not in batch]
        plain = tree.value if isinstance(tree, ast.Subscript) else tree
        if not isinstance(plain, ast.Name):  # the second of the dimensions is declared a twin of the first
            rest.sort(key=lambda dim: isinstance(self.model.dims.get(str(dim)), str))
        onto = (*batch, *rest)
        return replace(code, tree=self.printer.aligned(code, onto), dims=onto)

    def _entry(self, entry: Code, batch: tuple[str, ...]) -> ast.expr:
        """An entry of a matrix for each cell."""
        tree = self.printer.aligned(entry, batch)
        return tree if tuple(entry.dims) == batch else self._broadcast(tree, batch, "pt")

    # -- states and functions that are integrated out

    def _check_integrals(self) -> None:
        """Sample functions that are not written as terms of a sum; refuse such states."""
        tied = set(self.integrated)
        for node in (each for unit in units(self.nodes, self.columns & self.nodes.keys()) for each in unit):
            if not node.parents & tied:
                continue
            if node.kind == "deterministic":
                tied.add(node.name)
                continue
            try:
                self._linear(node, tied, lambda name, tree: ast.Name(name))
            except NotSplit:
                if any(self.nodes[name].states for name in self.integrated):
                    what = f"'{node.name}', whose mean is no sum of terms with states,"
                    raise not_exported(what, *node.path) from None
                self.integrated = frozenset()
                return

    def _linear(self, node: Node, tied: set[str], named: Callable[[str, ast.expr], ast.expr]) -> Linear:
        """The mean of an observed normal node as a linear function of what is integrated out."""
        tree = node.expression.tree
        assert isinstance(tree, ast.Call)
        form = split(bound_arguments(tree, "Normal")["mu"], self.nodes, self.integrated, tied, named)
        functions = [name for name in form.parts if self.nodes[name].process]
        plain = len(node.dims) == 1 and all(len(self.nodes[name].dims) == 1 for name in form.parts)
        if not plain or not form.parts or (functions and np.any(self._absent(node))):
            raise NotSplit
        return form

    def _rest(self, name: str, tree: ast.expr) -> ast.expr:
        """Name the part of a computed node that does not depend on what is integrated out."""
        node, label = self.nodes[name], f"{name}_rest"
        if label not in self.values:
            code = self.printer.print(tree)
            variable = self.names.of(label)
            self.lines += statement_lines(f"    {variable} = ", self.printer.aligned(code, node.dims), "    ")
            self.values[label] = Code(ast.Name(variable), node.dims, code.random)
        return ast.Name(label)

    def _states(self, node: Node) -> None:
        """Add a system of linear-Gaussian states."""
        if node.name not in self.integrated:
            raise not_exported(f"'{node.name}', states that are sampled,", *node.path)
        self.tied.add(node.name)
        comment = self.comments.get(node.key)
        self.lines += [f"    # {line}" for line in comment.splitlines()] if comment else []
        made = states_text(node, self.names, lambda tree: self.printer.print(tree).tree)
        self.before += made.before
        self.lines += [f"    {line}" for line in made.lines]
        self.systems[node.name] = made

    def _integral(self, node: Node) -> None:
        """Add an observed normal node with states or functions integrated out of its mean."""
        tree = node.expression.tree
        assert isinstance(tree, ast.Call)
        form = self._linear(node, self.tied, self._rest)
        sd = bound_arguments(tree, "Normal")["sigma"]
        (offset, sigma) = (
            self.printer.aligned(self.printer.print(part), node.dims) for part in (form.offset or ast.Constant(0), sd)
        )
        observed = self.data.observed(node.name, node.dims, discrete=False).tree
        if all(name in self.systems for name in form.parts):
            self._filtered(node, form, offset, sigma, observed)
        else:
            self._jointly_normal(node, form, offset, sigma, observed)
        self._bind_to_data(node)

    def _filtered(self, node: Node, form: Linear, offset: ast.expr, sigma: ast.expr, observed: ast.expr) -> None:
        blocks = []
        for name, part in form.parts.items():
            factor = None if part.factor is None else self.printer.print(part.factor)
            if part.index is not None or self.nodes[name].dims != node.dims or (factor is not None and factor.dims):
                raise not_exported(f"'{node.name}', with states of other rows or factors that vary,", *node.path)
            blocks.append((self.systems[name], None if factor is None else factor.tree))
        first = next(self.nodes[name] for name in form.parts)
        starts = filled("np.arange(A) == 0", A=self.data.length(node.dims[0]))
        column = bound_arguments(first.expression.tree, str(first.distribution)).get("sequence")  # type: ignore[arg-type]
        if column is not None:
            starts = filled("np.append(True, S[1:] != S[:-1])", S=self.printer.print(column).tree)
        system = StatesText.together(blocks)
        call = filled("kalman_log_evidence(Y, offset=M, sd=D, starts=S)", Y=observed, M=offset, D=sigma, S=starts)
        call = with_keywords(call, **{key: ast.parse(text, mode="eval").body for key, text in system.items()})
        self._potential(node, call, [*form.parts])

    def _jointly_normal(self, node: Node, form: Linear, offset: ast.expr, sigma: ast.expr, observed: ast.expr) -> None:
        rows = ast.unparse(self.data.length(node.dims[0]))
        parts = []
        for name, part in form.parts.items():
            covariance, points = self.covariances[name]
            if part.index is not None:
                index = ast.unparse(self.printer.print(part.index).tree)
                points = f"{points}[{index}]" if points else index
            parts.append((covariance, points, part.factor))
        (covariance, points, factor), *others = parts
        if not others and factor is None and points and not self._all_apart(form):
            place = self.names.of(f"{node.name}_point")
            used = self.names.of(f"{node.name}_points")
            self.before.append(f"{used}, {place} = np.unique({points}, return_inverse=True)")
            call = filled(
                "process_log_evidence(Y - M, S, P, C)",
                Y=observed, M=offset, S=sigma, P=place, C=f"{covariance}[{used}][:, {used}]",
            )  # fmt: skip
            self._potential(node, call, [*form.parts])
            return
        terms = []
        for covariance, points, factor in parts:
            text = covariance if not points else f"{covariance}[{points}][:, {points}]"
            if factor is not None:
                code = self.printer.print(factor)
                by = ast.unparse(code.tree)
                text = f"({by})[:, None] * ({by}) * {text}" if code.dims else f"({by}) ** 2 * {text}"
            terms.append(text)
        noise = f"pt.diag(pt.broadcast_to(({ast.unparse(sigma)}) ** 2, ({rows},)))"
        call = filled(
            "pm.MvNormal(N, mu=M, cov=C)", N=repr(node.name), M=filled("pt.broadcast_to(A, (K,))", A=offset, K=rows),
            C=f"{' + '.join(terms)} + {noise}",
        )  # fmt: skip
        variable = self.names.of(node.name)
        self.lines.append(f"    # The rows together, with {' and '.join(form.parts)} integrated out.")
        self._statement(node, variable, with_keywords(call, dims=_names(node.dims), observed=observed))

    def _all_apart(self, form: Linear) -> bool:
        """Whether every row has inputs of its own."""
        ((name, part),) = form.parts.items()
        node = self.nodes[name]
        if part.index is not None:
            return False
        distinct, _ = inputs_of(process_of(node, self.nodes, self.bound), node, self.nodes, self.bound).distinct
        return len(distinct) == len(self.bound.labels[node.dims[0]])

    def _potential(self, node: Node, call: ast.expr, out: Sequence[str]) -> None:
        self.lines.append(f"    # The log density of the rows, with {' and '.join(out)} integrated out.")
        name = ast.Constant(f"{node.name}_rows")
        self._statement(node, None, ast.Call(filled("pm.Potential"), [name, call], []))

    # -- nodes

    def _node(self, node: Node) -> None:
        if node.recursive and node.name not in self.columns:
            self._recursion(node)
            return
        if node.kind == "potential":
            assert isinstance(node.expression.tree, ast.Call)
            (value,) = bound_arguments(node.expression.tree, "Potential").values()
            if node.parents & self.tied:
                raise not_exported(f"'{node.name}', which depends on a node that is summed out,", *node.path)
            self._statement(
                node, None, filled("pm.Potential(N, A)", N=repr(node.name), A=self.printer.print(value).tree)
            )
        elif node.kind == "deterministic":
            self._deterministic(node)
        elif node.process:
            self._function(node)
        elif node.states:
            self._states(node)
        elif self.integrated and node.parents & self.tied:
            self._integral(node)
        else:
            self._random(node)

    def _recursion(self, node: Node) -> None:
        """Add a computed node whose value depends on that of the row before, by a scan.

        Raises
        ------
        ModelError
            It is random, has several dimensions, or looks further back.
        """
        plain = node.kind == "deterministic" and len(node.dims) == 1 and not node.parents & self.tied
        calls = [part for part in ast.walk(node.expression.tree) if isinstance(part, ast.Call)]
        before = [part for part in calls if call_name(part) == "previous"]
        starts = [part.keywords[0].value for part in before if [word.arg for word in part.keywords] == ["start"]]
        plain &= len(starts) == len(before) and len({ast.unparse(start) for start in starts}) == 1
        plain &= all([ast.unparse(part) for part in call.args] == [node.name, "1"] for call in before)
        if not plain or any(call_name(part) == "lag" for part in calls):
            raise not_exported(f"'{node.name}', a recursion,", *node.path)
        start, variable, (time,) = self.printer.print(starts[0]), self.names.of(node.name), node.dims
        last = self.names.of(f"last_{node.name}")
        by_row: dict[str, Code] = {}
        others: dict[str, Code] = {}

        def lookup(name: str) -> Code:
            if name == last:
                return Code(ast.Name(last), (), True)
            code = whole(name)
            if time in code.dims:
                by_row[name] = code
                now = ast.Name(self.names.of(f"{name}_now"))
                return replace(code, tree=now, dims=code.dims[1:], random=True, labels=None)
            if code.random:
                others[name] = code
            return code

        whole, self.printer.lookup = self.printer.lookup, lookup
        try:
            step = self.printer.print(_Replaced(before, last).visit(deepcopy(node.expression.tree)))
        finally:
            self.printer.lookup = whole
        if step.dims or start.dims or any(code.dims[0] != time for code in by_row.values()):
            raise not_exported(f"'{node.name}', a recursion,", *node.path)
        passed = [self.names.of(f"{name}_now") for name in by_row]
        free = [ast.unparse(code.tree) for code in others.values()]
        function = self.names.of(f"next_{node.name}")
        comment = self.comments.get(node.key)
        self.lines += ["", *(f"    # {line}" for line in (comment or "").splitlines())]
        self.lines.append(f"    def {function}({', '.join([*passed, last, *free])}):")
        self.lines += [*statement_lines("        return ", step.tree, "        "), ""]
        rows = [filled("pt.as_tensor(A)", A=code.tree) for code in by_row.values()]
        sizes = {"n_steps": None if rows else self.data.length(time)}
        call = filled(
            "scan(F, sequences=S, outputs_info=[A], non_sequences=O, return_updates=False)",
            F=function,
            S=ast.List(rows),
            A=filled("pt.as_tensor(A).astype('float64')", A=start.tree),
            O=ast.List([code.tree for code in others.values()]),
        )
        value = filled("pm.Deterministic(N, A)", N=repr(node.name), A=with_keywords(call, **sizes))
        self.lines += statement_lines(f"    {variable} = ", with_keywords(value, dims=_names(node.dims)), "    ")
        self.values[node.name] = Code(ast.Name(variable), node.dims, True)

    def _statement(self, node: Node, variable: str | None, tree: ast.expr, *, inside: bool = True) -> None:
        """Add a statement, its node's comment above it."""
        indent = "    " if inside else ""
        lines = self.lines if inside else self.before
        comment = self.comments.get(node.key)
        lines += [f"{indent}# {line}" for line in comment.splitlines()] if comment else []
        head = f"{indent}{variable} = " if variable else indent
        lines += statement_lines(head, tree, indent)

    def _deterministic(self, node: Node) -> None:
        if self.integrated and node.parents & self.tied:
            self.tied.add(node.name)  # it has no value in a draw
            return
        code = self.printer.print(node.expression.tree)
        if code.factor is not None and code.labels is not None:
            self.values[node.name] = code
            return
        if None in code.dims:
            # The unnamed axes of a list are the remaining dimensions of its node.
            lacking = iter([d for d in node.dims if d not in code.dims])
            code = replace(code, dims=tuple(next(lacking) if d is None else d for d in code.dims))
        variable = self.names.of(node.name)
        if self.hidden and node.parents & self.tied:
            # It has a value in every state, and none in a draw.
            self.tied.add(node.name)
            array = filled("np.array(A)", A=code.tree) if isinstance(code.tree, ast.List) else code.tree
            self._statement(node, variable, array, inside=code.random)
            self.values[node.name] = replace(code, tree=ast.Name(variable), factor=None, labels=None)
            return
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
            self._statement(node, variable, with_keywords(call, dims=_names(node.dims)))
        self.values[node.name] = Code(ast.Name(variable), node.dims, code.random, undefined=undefined)

    def _broadcast(self, tree: ast.expr, dims: Sequence[str], module: str) -> ast.expr:
        lengths = ast.Tuple([self.data.length(dim) for dim in dims])
        return filled(f"{module}.broadcast_to(A, S)", A=tree, S=lengths)

    def _random(self, node: Node) -> None:
        tree = node.expression.tree
        assert isinstance(tree, ast.Call)
        word, variable, dims = str(node.distribution), self.names.of(node.name), node.dims
        self.distributions.undefined = {}
        if node.name in self.hidden:
            self._label(node, tree)
            return
        if self.hidden and node.parents & self.tied:
            self._emission(node, tree)
            return
        observed = None
        if node.name in self.columns:
            observed = self.data.observed(node.name, dims, discrete=node.discrete)
        if word == "LKJCholeskyCov":
            self._cholesky(node, tree)
            return
        if node.recursive:
            self.values[node.name] = self.data.column(node.name)
        extra: dict[str, ast.expr | None] = {}
        if word in ("Ordered", "PositiveOrdered"):
            (inner,) = bound_arguments(tree, word).values()
            assert isinstance(inner, ast.Call)
            call = self.distributions.write(inner, dims, node.name)
            extra["transform"] = filled("pm.distributions.transforms.ordered")
            if word == "PositiveOrdered":
                call = filled(
                    "pm.Truncated(N, D, lower=0)", N=repr(node.name), D=self.distributions.write(inner, dims, None)
                )
                extra["transform"] = filled("pm.distributions.transforms.Ordered(positive=True)")
                extra["default_transform"] = ast.Constant(None)
            start = self._start(node.name)
            if self.summed and not self.hidden:
                self.starts[node.name] = start.tolist()
            else:
                extra["initval"] = literal(start)
        else:
            call = self.distributions.write(tree, dims, node.name)
        if word == "LogitNormal":
            extra["default_transform"] = filled("pm.distributions.transforms.logodds")
        rows = self.distributions.undefined.get(dims[-1], 0) if dims else 0
        if rows:
            self._conditioned(node, tree, rows, observed)
            return
        extra = {"dims": _names(dims), "observed": observed.tree if observed else None, **extra}
        self._statement(node, variable, with_keywords(call, **extra))
        self.values[node.name] = Code(ast.Name(variable), dims, True)
        if observed is not None:
            self._bind_to_data(node)

    def _function(self, node: Node) -> None:
        """Add a Gaussian process: its standard normals and its values at the inputs."""
        process = process_of(node, self.nodes, self.bound)
        inputs = inputs_of(process, node, self.nodes, self.bound)
        basis = basis_of(process, inputs, node, self.nodes) if process.approximate else None
        columns = [ast.unparse(self.lookup(name).tree) for name in process.kernel.columns]
        outer = [ast.unparse(self.data.length(dim)) for dim in node.dims[:-1]]
        variable = self.names.of(node.name)
        integrated = node.name in self.integrated
        parameter = lambda name: ast.unparse(self.lookup(name).tree)  # noqa: E731
        made = function_text(variable, process, basis, columns, outer, parameter, integrated=integrated)
        self.before += made.before
        comment = self.comments.get(node.key)
        self.lines += [f"    # {line}" for line in comment.splitlines()] if comment else []
        self.lines += [f"    {line}" for line in made.lines]
        if integrated:
            self.covariances[node.name] = made.value, made.points
            self.tied.add(node.name)
            return
        call = filled("pm.Deterministic(N, A)", N=repr(node.name), A=ast.parse(made.value, mode="eval").body)
        self.lines += statement_lines(f"    {variable} = ", with_keywords(call, dims=_names(node.dims)), "    ")
        self.values[node.name] = Code(ast.Name(variable), node.dims, True)

    def _bind_to_data(self, node: Node) -> None:
        """Let other nodes use the data of an observed node, unless it has missing cells, which are parameters."""
        below = any(node.name in other.parents for other in self.nodes.values())
        if below and not np.any(self._absent(node)):
            self.values[node.name] = self.data.column(node.name)

    def _absent(self, node: Node) -> np.ndarray:
        """Which cells of an observed node are missing."""
        term = self.bound.term(node.name, missing=True)
        return term.codes < 0 if term.codes is not None else np.isnan(np.asarray(term.value, dtype=float))

    def _conditioned(self, node: Node, tree: ast.Call, rows: int, observed: Code | None) -> None:
        """Add a node whose first rows are conditioned on: they have no density."""
        if observed is None or len(node.dims) > 1:
            raise not_exported(f"'{node.name}', whose first rows have no distribution,", *node.path)
        late = f"{node.dims[0]}_from_{rows}"
        self.late[late] = rows
        with self.distributions.later_rows(node.dims[0], rows):
            call = self.distributions.write(tree, node.dims, node.name)
        later_rows = filled("A[K:]", A=self.data.column(node.name).tree, K=str(rows))
        self._statement(node, self.names.of(node.name), with_keywords(call, dims=_names((late,)), observed=later_rows))
        self.values[node.name] = self.data.column(node.name)

    def _cholesky(self, node: Node, tree: ast.Call) -> None:
        """Add the Cholesky factor of a covariance, with its correlations and standard deviations."""
        from bayeslab.families.graph.lkj import correction

        given = bound_arguments(tree, "LKJCholeskyCov")
        inner, size = given["sd_dist"], self.data.length(node.dims[0])
        assert isinstance(inner, ast.Call)
        deviations = with_keywords(self.distributions.write(inner, node.dims[:1], None), shape=size)
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


class _Replaced(ast.NodeTransformer):
    """A tree with a name in place of some calls."""

    def __init__(self, calls: Sequence[ast.Call], name: str) -> None:
        self.texts, self.name = {ast.unparse(call) for call in calls}, name

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if ast.unparse(node) in self.texts:
            return ast.Name(self.name)
        self.generic_visit(node)
        return node


def _names(dims: Sequence[str]) -> ast.expr | None:
    if not dims:
        return None
    return ast.Constant(dims[0]) if len(dims) == 1 else ast.Tuple([ast.Constant(dim) for dim in dims])
