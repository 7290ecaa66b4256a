"""Lowering of a graph: its nodes as a program of the density machine, for fitting.

Parameters have the names, shapes, order and unconstrained coordinates that they have in the PyMC graph, so that a point
means the same in both.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.distributions import DISTRIBUTIONS, maths
from bayeslab.distributions.toolbox.correlations import log_constant
from bayeslab.families.graph.discrete_layout import Latent
from bayeslab.families.graph.function_layout import FunctionNode
from bayeslab.families.graph.gaps import below
from bayeslab.families.graph.hidden_paths import hidden_path
from bayeslab.families.graph.integrals import integrals_of
from bayeslab.families.graph.lowered_functions import integrated_function, sampled_function, sampled_states
from bayeslab.families.graph.lowered_integrals import integrate
from bayeslab.families.graph.lowered_recursions import computed_rows, sampled_rows
from bayeslab.families.graph.lowered_rows import HiddenRows
from bayeslab.families.graph.lowered_sums import states_of, sum_out
from bayeslab.families.graph.processes import Process
from bayeslab.families.graph.scope import Purpose
from bayeslab.families.graph.spec import spec_of
from bayeslab.families.graph.state_components import StateNode, component_of
from bayeslab.families.graph.states import cells_of, check_state_node, series_of
from bayeslab.families.graph.walk import Walk
from bayeslab.language.algebra import Term
from bayeslab.language.backends import Backend
from bayeslab.language.nodes import Node, bound_arguments, byproducts, nodes_of
from bayeslab.language.spec import Model
from bayeslab.posterior.machine.arrays import Instruction, NotLinear, NotLowered, Var
from bayeslab.posterior.machine.backend import Machine
from bayeslab.posterior.machine.declarations import Declarations
from bayeslab.posterior.machine.functions import cumprod, stationary
from bayeslab.posterior.machine.laws import (
    CholeskyFactor,
    Law,
    Mixed,
    Scalar,
)
from bayeslab.posterior.machine.model import MachineModel, SummedPart
from bayeslab.posterior.machine.program import Builder, Program
from bayeslab.posterior.machine.transforms import SIMPLEX, Ordered, Transform
from bayeslab.posterior.machine.vector_laws import law_of
from bayeslab.posterior.machine.wrapped import Censored, Truncated

__all__ = ["DRAWS", "Lowering", "NaturalScale", "at_natural_scale", "lowered"]

#: Draws of the prior at which probabilities are checked.
DRAWS = 3


def lowered(model: Model, data: Data, *, weights: Mapping[str, np.ndarray] | None = None) -> MachineModel:
    """A model on its data as a program.

    Parameters
    ----------
    weights
        Weights of the log likelihoods of observed nodes, by name.

    Raises
    ------
    NotLowered
        The machine does not know a part of the model.
    """
    # As in the PyMC graph: the first set of states and functions that can be integrated out, otherwise none.
    for integrals in integrals_of(nodes_of(spec_of(model).nodes), data, "fit"):
        try:
            return _lowered(model, data, weights or {}, integrals)
        except NotLinear:
            continue
    return _lowered(model, data, weights or {}, frozenset())


def at_natural_scale(model: Model, data: Data) -> MachineModel:
    """A model whose hidden nodes are discrete, as a program at whose points parameters have their values.

    Raises
    ------
    NotLowered
        The machine does not know a part of the model.
    """
    lowering = NaturalScale(model, data, {}, frozenset())
    lowering.walk()
    return lowering.finish()


def _lowered(model: Model, data: Data, weights: Mapping[str, np.ndarray], integrals: frozenset[str]) -> MachineModel:
    lowering = Lowering(model, data, weights, integrals)
    lowering.walk()
    return lowering.finish()


class Lowering(Declarations, Walk):
    """Lowers the nodes of one model.

    Parameters
    ----------
    integrals
        States and functions that are integrated out.
    """

    def __init__(
        self,
        model: Model,
        data: Data,
        weights: Mapping[str, np.ndarray],
        integrals: frozenset[str],
        purpose: Purpose = "fit",
        targets: Collection[str] = (),
    ) -> None:
        super().__init__(model, data, purpose, targets)
        self.weights = weights
        self.parameters, self.computed_nodes, self.dims = [], [], {}
        self.used: set[str] = set()
        self.observed_cells: dict[str, np.ndarray] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.densities: list[tuple[str, Var]] = []
        # Of nodes with data that depend on discrete nodes the number of elements, and the positions of those observed.
        self.places: dict[str, tuple[int, np.ndarray]] = {}
        # Standard normals that functions are made of, by node.
        self.behind: dict[str, str] = {}
        if self.summed and not self.own_sums:
            raise NotLowered(min(self.summed), "a discrete node that is summed out, on which sampled nodes depend")
        # Nodes that are integrated out, slopes of trends, and the observed nodes that they enter.
        self.integrals = integrals
        self.states: list[StateNode] = []
        self.functions: list[FunctionNode] = []
        self.slopes: list[Var] = []
        self.hidden_rows: list[HiddenRows] = []
        # Parts of the sum over discrete nodes, and deterministic nodes that depend on these.
        self.sums: Sequence[SummedPart] = ()
        self.derived: dict[str, Var] = {}

    # -------------------------------------------------------------------------------- the model

    def start(self, coords: Mapping[str, list[Any]]) -> Backend:
        self.builder, self.coords = Builder(), dict(coords)
        return Machine(self.builder)

    def coordinate(self, dim: str, labels: list[Any]) -> None:
        self.coords[dim] = labels

    def given(self, name: str, value: Any, dims: tuple[Any, ...]) -> Any:
        array = self.constants[name] = np.asarray(value)
        self.dims[name] = dims
        return self.builder.constant(array)

    def finish(self) -> MachineModel:
        """The program of the nodes."""
        if self.latents:
            self._sum_out()
        if self.functions and not self.parameters:
            raise NotLinear(self.functions[0].name, "a function without parameters")
        if self.integrals:
            self.sums = integrate(self.builder, self.states, self.functions, self.slopes, self.hidden_rows)
        for parameter in self.parameters:
            self.builder.output(parameter.name, parameter.value)
        for name in self.computed_nodes:
            self.builder.output(name, self.terms[name].value)
        return MachineModel(
            self.builder.finish(),
            self.builder,
            tuple(self.parameters),
            tuple(self.computed_nodes),
            self._intermediate(),
            self.dims,
            self.coords,
            self.observed_cells,
            self.constants,
            tuple(self.sums),
            {latent.name: latent.symbol for latent in self.latents.values()},
            self.derived,
        )

    def _intermediate(self) -> frozenset[str]:
        """Deterministic nodes from which others are computed, and internal parameters that other nodes show."""
        computed = set(self.computed_nodes)
        hidden = {parameter.name for parameter in self.parameters if parameter.name.startswith("_")}
        used, shows, shown = set(self.used), set[str](), set[str]()
        for node in self.nodes.values():
            used |= node.parents & computed
            parents = node.parents | {self.behind.get(node.name, "")}
            if node.name in computed and not node.name.startswith("_") and parents & hidden:
                shows.add(node.name)
                shown |= parents & hidden
        return frozenset((used & computed) - shows) | shown

    @contextmanager
    def errors(self, node: Node) -> Iterator[None]:
        with super().errors(node):
            try:
                yield
            except NotLowered as error:
                if error.node == node.name:
                    raise
                # The kind of error is kept, since another follows from what is not linear.
                raise error.at(node.name) from None

    # ------------------------------------------------------------------------------------ nodes

    def computed(self, node: Node, value: Any, dims: tuple[str, ...]) -> None:
        if node.parents & self.summed:
            self.summed.add(node.name)
            self.dims[node.name] = dims
            self.derived[node.name] = self.builder.as_var(value)
            return
        self._named(node.name, value, dims)

    def _named(self, name: str, value: Any, dims: tuple[str, ...]) -> Term:
        """A deterministic node."""
        self.computed_nodes.append(name)
        if dims:
            self.dims[name] = dims
        term = self.terms[name] = Term(value, dims)
        return term

    def potential(self, node: Node, value: Any) -> None:
        if self.integrals and self._is_summed(value):
            raise NotLinear(node.name, "a potential of hidden values")
        if self._is_summed(value):
            self.densities.append((node.name, value.reshape(-1).sum(0)))
            return
        self.builder.add(value)

    @staticmethod
    def _is_summed(value: Any) -> bool:
        return isinstance(value, Var) and value.summed

    def _sum_out(self) -> None:
        """Sum the discrete nodes out of the densities that depend on them."""
        first = self.nodes[next(iter(self.latents)).removesuffix("_unobserved")]
        with self.errors(first):
            self.sums = sum_out(self.builder, list(self.latents.values()), self.densities, self.places)

    def _states_of(self, node: Node) -> None:
        """Linear-Gaussian states: stand-ins for their values, which are integrated out."""
        check_state_node(node, self.nodes, self.data)
        component, cells = component_of(self, node), cells_of(node, self.data)
        normals, dim = f"_{node.name}_z", f"{node.name}_normals"
        self.coordinate(dim, list(range(int(cells.normals(component.d, component.q)[-1]))))
        self.dims[normals] = (dim,)
        for name in self._names_of(node):
            symbol = self.builder.hidden(self.lengths(node.dims))
            self.summed.add(name)
            self.dims[name], self.terms[name] = node.dims, Term(symbol, node.dims)
            if name == node.name:
                self.states.append(StateNode(name, normals, symbol, node.dims, component, cells))
            else:
                self.slopes.append(symbol)

    def _enters_rows(self, node: Node, law: Law, dims: tuple[str, ...], observed: Any) -> bool:
        """Whether a node depends on values that are integrated out; if so, it is stored for the integral."""
        if not any(var.summed for var in law.inputs):
            return False
        gaps = observed is not None and np.ma.is_masked(observed) and below(self.nodes, node.name)
        normal = isinstance(law, Scalar) and law.word == "Normal"
        if observed is None or node.recursive or gaps or not normal:
            raise NotLinear(node.name, "hidden values that do not enter normal rows with data linearly")
        if node.name in self.weights:
            raise NotLowered(node.name, "weights of rows that depend on hidden values")
        mean, sigma = law.inputs
        values = np.ma.filled(np.ma.asarray(observed, dtype=float), np.nan)
        self.hidden_rows.append(HiddenRows(node.name, mean.broadcast_to(values.shape), sigma, values))
        cells, gone = np.asarray(np.ma.getdata(observed)), np.ma.getmaskarray(observed)
        if gone.any():
            self.observed_cells[f"{node.name}_observed"] = cells[~gone]
        else:
            self.observed_cells[node.name] = cells
        self.dims[node.name] = dims
        self.terms[node.name] = self.observed_term(node, self.builder.constant(cells), dims)
        return True

    def _discrete(self, node: Node) -> None:
        """A discrete node without data: unknown numbers, and their log probabilities."""
        tree = node.expression.tree
        assert isinstance(tree, ast.Call)
        shape = self.lengths(node.dims)
        symbol = self.builder.unknown(shape)
        term = Term(symbol, node.dims)
        law, undefined = self._with_own_past(node, lambda: self.distribution(tree, node.dims), term)
        if undefined or law.support:
            raise NotLowered(node.name, "a discrete node that is summed out, of vectors or without first rows")
        self.latents[node.name] = Latent(node.name, symbol, shape, *states_of(node.name, law))
        self.densities.append((node.name, law.log_density(symbol)))
        self.terms[node.name], self.dims[node.name] = term, node.dims

    def _path(self, node: Node) -> None:
        """A path of hidden states: unknown numbers, and their law."""
        path, shape = hidden_path(self, node), self.lengths(node.dims)
        symbol = self.builder.unknown(shape)
        self.latents[node.name] = Latent(node.name, symbol, shape, 0, path.law.n_states, path)
        named = path.state is not None
        self.terms[node.name] = Term(symbol, node.dims, codes=symbol if named else None, factor=path.state)
        self.dims[node.name] = node.dims

    def positive(self, value: Any) -> bool:
        return any(
            item.op == "softmax" and item.output is not None and item.output.buffer is value.buffer
            for item in self.builder.instructions
            if isinstance(item, Instruction)
        )

    def log_or_nothing(self, value: Any) -> Any:
        # An infinite derivative of what has the weight zero is none: see the kernels.
        return self.builder.elementwise("log", value)

    def stationary(self, probabilities: Any) -> Any:
        return stationary(probabilities)

    def drawn(self, value: Any) -> np.ndarray | None:
        if value.summed:
            raise NotLowered("path", "probabilities that depend on discrete nodes")
        builder = self.builder
        machine = MachineModel(Program(builder), builder, tuple(self.parameters))
        try:
            points = machine.prior_points(np.random.default_rng(0), DRAWS)
        except NotImplementedError:
            return None
        (values,) = machine.values_at([value], points)
        return values

    def _below_sums(self, node: Node, law: Law, dims: tuple[str, ...], observed: Any) -> bool:
        """Whether an observed node depends on discrete nodes that are summed out; its density is then stored."""
        gone = np.ma.getmaskarray(observed)
        cells: Any = np.asarray(np.ma.getdata(observed))
        values = self.builder.constant(cells)
        if node.name in self.imputed and np.any(gone):
            values = self._missing_cells(node, law, dims, observed)
        elif not self.latents:
            return False
        # The record is not run, if it depends on no discrete node.
        value = law.log_density(self.builder.constant(cells)).broadcast_to(law.shape[: len(law.shape) - law.support])
        if not value.summed and values.constant:
            return False
        if node.name in self.weights:
            raise NotLowered(node.name, "weights of rows that depend on discrete nodes that are summed out")
        self.dims[node.name] = dims
        if np.any(gone):
            self.observed_cells[f"{node.name}_observed"] = cells[~gone]
            if not node.discrete and (below(self.nodes, node.name) or law.support):
                raise NotLowered(node.name, "missing cells of a node that depends on discrete nodes")
            if value.summed:
                self.places[node.name] = value.size, np.flatnonzero(~gone)
                self.densities.append((node.name, value.reshape(-1)[np.flatnonzero(~gone)]))
            else:
                law.add(self.builder.constant(cells), where=~gone)
        else:
            self.observed_cells[node.name] = cells
            self.places[node.name] = value.size, np.arange(value.size)
            self.densities.append((node.name, value))
        self.terms[node.name] = self.observed_term(node, values, dims)
        return True

    def _missing_cells(self, node: Node, law: Law, dims: tuple[str, ...], observed: Any) -> Var:
        """The cells of a node, of which the missing ones are unknown numbers that are summed out."""
        gone, name = np.ma.getmaskarray(observed), f"{node.name}_unobserved"
        number = int(gone.sum())
        symbol = self.builder.unknown((number,))
        place = np.arange(gone.size)
        place[gone.ravel()] = gone.size + np.arange(number)
        cells = np.ma.getdata(observed).ravel().astype(np.int64)
        whole = self.builder.concatenate([cells, symbol])[place].reshape(gone.shape)
        self.latents[name] = Latent(name, symbol, (number,), *states_of(node.name, law))
        self.densities.append((name, law.log_density(whole).reshape(-1)[np.flatnonzero(gone)]))
        if len(dims) == 1:
            missing = f"{node.name}_missing"
            self.coordinate(missing, self.labels[dims[0]][gone].tolist())
            self.dims[name] = (missing,)
        return whole

    def register(self, node: Node, drawn: Any, dims: tuple[str, ...], observed: Any) -> None:
        law: Law = drawn
        if self.integrals and self._enters_rows(node, law, dims, observed):
            return
        if observed is not None and self._below_sums(node, law, dims, observed):
            return
        if observed is None:
            self.terms[node.name] = Term(self.free(node.name, law, dims, law.transform()), dims)
            return
        weight = self.weights.get(node.name)
        if weight is not None and law.support:
            raise NotLowered(node.name, "weights of vectors")
        if not np.ma.is_masked(observed):
            cells = self.observed_cells[node.name] = np.asarray(np.ma.getdata(observed))
            self.dims[node.name] = dims
            values = self.builder.constant(cells)
            law.add(values, weight=weight)
            self.terms[node.name] = self.observed_term(node, values, dims)
            return
        gone = np.ma.getmaskarray(observed)
        self.observed_cells[f"{node.name}_observed"] = np.asarray(np.ma.getdata(observed)[~gone])
        self.dims[node.name] = dims
        if node.discrete or node.atoms:
            # Nothing depends on the missing cells, which are a factor of 1.
            law.add(self.builder.constant(np.ma.getdata(observed)), where=~gone, weight=weight)
            return
        if weight is not None:
            raise NotLowered(node.name, "weights of rows of which some are missing")
        self.terms[node.name] = self._imputed(node, law, dims, observed)
        known = np.asarray(np.ma.getdata(observed)[~gone], dtype=float)
        law.rows(~gone).add(self.builder.constant(known))

    def _imputed(self, node: Node, law: Law, dims: tuple[str, ...], observed: Any) -> Term:
        """An observed node of which some cells are missing: these are a parameter."""
        gone = np.ma.getmaskarray(observed)
        missing = law.rows(gone)
        of_missing = (f"{node.name}_missing",) if len(dims) == 1 else ()
        if of_missing:
            self.coordinate(of_missing[0], self.labels[dims[0]][gone].tolist())
        filled = self.free(f"{node.name}_unobserved", missing, of_missing, missing.transform())
        known = np.asarray(np.ma.getdata(observed)[~gone], dtype=float)
        place = np.empty(gone.shape, dtype=np.int64)
        place[~gone], place[gone] = np.arange(known.size), known.size + np.arange(int(gone.sum()))
        whole = self.builder.concatenate([known, filled])[place]
        return self.observed_term(node, whole, dims)

    def ordered(self, node: Node, word: str, tree: ast.Call, observed: Any) -> None:
        if observed is not None or not node.dims:
            raise NotLowered(node.name, f"{word} with data or without a dimension")
        inner = bound_arguments(tree, word)["dist"]
        law = self.distribution(inner, node.dims)
        positive = word == "PositiveOrdered"
        if not isinstance(law, Scalar):
            raise NotLowered(node.name, "an ordered vector with a prior that is not of single numbers")
        if positive:
            law = _above_zero(law)
        elif law.transform() is not None:
            raise NotLowered(node.name, f"an ordered vector with the prior {law.word}")
        self.terms[node.name] = Term(self.in_order(node, law, positive), node.dims)

    def in_order(self, node: Node, law: Scalar, positive: bool) -> Var:
        """The value of an ordered vector."""
        start = self.builder.constant(_order_statistics(law))
        return self.free(node.name, law, node.dims, Ordered(positive), start)

    def correlations(self, node: Node, word: str, tree: ast.Call) -> None:
        if len(node.dims) != 2 or len(set(self.lengths(node.dims))) != 1:
            raise NotLowered(node.name, "a matrix that is not square")
        size, given = self.lengths(node.dims)[0], bound_arguments(tree, word)
        if "eta" not in given or ("n" in given and self.literal(given["n"], "n") != size):
            raise NotLowered(node.name, "its parameters")
        eta = self.evaluator.eval(given["eta"])
        if eta.random or np.ndim(eta.value):
            raise NotLowered(node.name, "an eta that is not a number")
        if word == "LKJCorr":
            self._correlation_matrix(node, float(eta.value), size)
            return
        inner = given["sd_dist"]
        law = self.distribution(inner, node.dims[:1])
        name, tril = node.name, np.tril_indices(size)
        packed_law = CholeskyFactor(
            self.builder, (len(tril[0]),), float(eta.value), size, law, log_constant(float(eta.value), size)
        )
        packed = self.free(f"{name}_packed", packed_law, (), packed_law.transform())
        place = np.full((size, size), len(tril[0]))
        place[tril] = np.arange(len(tril[0]))
        chol = self.builder.concatenate([packed, np.zeros(1)])[place]
        covariance = chol @ chol.T
        stds = self.builder.elementwise("sqrt", (chol**2).sum(1))
        # The correlations are computed from them.
        self.used |= {name, f"{name}_stds"}
        self._named(f"{name}_stds", stds, node.dims[:1])
        self._named(name, chol, node.dims)
        self._named(f"{name}_corr", covariance / stds[None, :] / stds[:, None], node.dims)

    def _correlation_matrix(self, node: Node, eta: float, size: int) -> None:
        """A correlation matrix made of independent partial correlations, as in the PyMC graph."""
        rows, columns = np.tril_indices(size, -1)
        alpha = self.builder.constant(eta + (size - 2 - columns) / 2.0)
        law = Scalar(self.builder, (len(rows),), "Beta", (alpha, alpha))
        unit = self.free(f"{node.name}_partial", law, (), law.transform())
        place = np.full((size, size), len(rows))
        place[rows, columns] = np.arange(len(rows))
        partial = self.builder.concatenate([2.0 * unit - 1.0, np.zeros(1)])[place]
        rest = cumprod(1.0 - partial**2, 1)[:, :-1]
        unexplained = self.builder.concatenate([np.ones((size, 1)), rest], 1)
        factor = (partial + np.eye(size)) * self.builder.elementwise("sqrt", unexplained)
        self._named(node.name, factor @ factor.T, node.dims)

    def latent(self, node: Node, observed: Any) -> None:
        if not (node.hidden_path or node.process or node.states):
            self._discrete(node)
            return
        if node.hidden_path and node.name in self.summed and observed is None:
            self._path(node)
            return
        if node.states and node.name in self.integrals and observed is None:
            self._states_of(node)
            return
        if node.process and node.name in self.integrals and observed is None:
            function = integrated_function(self, node)
            basis, distinct = function.basis, len(function.inputs.distinct[0])
            dim = f"{node.name}_{'inputs' if basis is None else 'functions'}"
            self.coordinate(dim, list(range(distinct if basis is None else basis.n_functions)))
            self.dims |= {function.normals: (*node.dims[:-1], dim), node.name: node.dims}
            self.summed.add(node.name)
            self.functions.append(function)
            self.terms[node.name] = Term(function.symbol, node.dims)
            return
        if (node.process or node.states) and observed is None:
            if node.states and series_of(self.data) is self.data:
                check_state_node(node, self.nodes, self.data)
            values = sampled_states(self, node) if node.states else (sampled_function(self, node),)
            for name, value in zip(self._names_of(node), values, strict=True):
                self.behind[name] = f"_{node.name}_z"
                self._named(name, value, node.dims)
            return
        raise NotLowered(node.name, f"{node.distribution}: hidden states with data")

    def _names_of(self, node: Node) -> tuple[str, ...]:
        """The names of a node's values, and of the slopes of a trend."""
        return (node.name, *(name for name, maker in byproducts(self.nodes).items() if maker == node.name))

    def normals(self, node: Node, along: str, outer: tuple[str, ...], count: int, suffix: str = "z") -> Var:
        name, dim = f"_{node.name}_{suffix}", f"{node.name}_{along}"
        self.coordinate(dim, list(range(count)))
        shape = (*self.lengths(outer), count)
        law = Scalar(self.builder, shape, "Normal", (self.builder.constant(0.0), self.builder.constant(1.0)))
        return self.free(name, law, (*outer, dim), None)

    def at_new_inputs(self, node: Node, process: Process, theta: Var, z: Var, x: np.ndarray, new: np.ndarray) -> Var:
        raise NotLowered(node.name, "the density of a function at inputs that the fit has not")

    def recursion(self, node: Node) -> Term:
        return computed_rows(self, [node])[node.name]

    def random_recursion(self, node: Node) -> Term:
        return sampled_rows(self, node)

    def row_by_row(self, group: list[Node]) -> None:
        if any(node.parents & self.summed for node in group):
            raise NotLowered(group[0].name, "rows that depend on discrete nodes that are summed out")
        for node in group:
            self.lengths(node.dims)
        for name, term in computed_rows(self, group).items():
            self.computed(self.nodes[name], term.value, self.nodes[name].dims)
            self.terms[name] = term

    # ---------------------------------------------------------------------------- distributions

    def variable(self, word: str, parameters: dict[str, Any], dims: tuple[str, ...]) -> Law:
        shape, builder = self.lengths(dims), self.builder
        variables: dict[str, Any] = {
            n: v if isinstance(v, bool | int | str | Law) else builder.as_var(v) for n, v in parameters.items()
        }
        return law_of(builder, word, variables, shape)

    def make(self, word: str, parameters: Mapping[str, Any], shape: tuple[int, ...]) -> Law:
        return Scalar.of(self.builder, word, parameters, shape)

    def _dist_Truncated(self, tree: ast.Call, dims: tuple[str, ...]) -> Law:
        return Truncated.of(*self._base_and_ends(tree, "Truncated", dims))

    def _dist_Censored(self, tree: ast.Call, dims: tuple[str, ...]) -> Law:
        return Censored.of(*self._base_and_ends(tree, "Censored", dims))

    def _base_and_ends(self, tree: ast.Call, word: str, dims: tuple[str, ...]) -> tuple[Law, Var, Var]:
        base = self.distribution(bound_arguments(tree, word)["dist"], dims)
        bounds = {"lower": -np.inf, "upper": np.inf} | self._bounds(tree, word, dims)
        return base, self.builder.as_var(bounds["lower"]), self.builder.as_var(bounds["upper"])

    def mixture(self, weights: Any, components: Any, dims: tuple[str, ...]) -> Law:
        parts = tuple(components) if isinstance(components, list) else (components,)
        return Mixed(self.builder, self.lengths(dims), self.builder.as_var(weights), parts)


class NaturalScale(Lowering):
    """Lowers nodes whose values, not their unconstrained coordinates, are the program's point.

    So a probability can be zero, which has no unconstrained coordinates.
    """

    @cached_property
    def shares(self) -> list[tuple[int, int]]:
        """First and last places of the parameters that are shares, and so positive in the posterior."""
        return []

    def parameter_of(self, shape: tuple[int, ...], transform: Transform | None) -> tuple[Var, Var]:
        value = self.builder.parameter(int(np.prod(shape))).reshape(shape)
        if transform is SIMPLEX:
            self.shares.append((value.offset, value.offset + value.size))
        return value, value

    def positive(self, value: Any) -> bool:
        inside = value.buffer is self.builder.point
        return (inside and any(a <= value.offset < b for a, b in self.shares)) or super().positive(value)

    def sampled(
        self,
        name: str,
        law: Law,
        dims: tuple[str, ...],
        transform: Transform | None,
        coordinates: Var,
        value: Var,
        start: Var,
    ) -> None:
        super().sampled(name, law, dims, None, coordinates, value, start)
        if isinstance(transform, Ordered):
            self.parameters[-1] = replace(self.parameters[-1], in_order=True)
            with self.builder.of_part("prior"):
                self.builder.add(self.builder.elementwise("where", value[..., 1:] >= value[..., :-1], 0.0, -np.inf))


def _above_zero(law: Scalar) -> Scalar:
    """The law truncated to positive numbers, whose mass above zero is one if its support is."""
    builder = law.builder
    if law.word == "Normal":
        zero, infinity = builder.constant(0.0), builder.constant(np.inf)
        return Scalar(builder, law.shape, "TruncatedNormal", (*law.parameters, zero, infinity))
    if DISTRIBUTIONS[law.word].domain.values.low != 0.0:
        raise NotLowered("PositiveOrdered", f"of {law.word}")
    return law


def _order_statistics(law: Scalar) -> np.ndarray:
    """An increasing starting point: typical order statistics of the prior."""
    functions = maths(law.word)
    if functions is None or not all(parameter.constant for parameter in law.parameters):
        raise NotLowered(law.word, "an ordered vector whose prior has parameters")
    rng, parameters = np.random.default_rng(0), [parameter.value for parameter in law.parameters]
    if law.word in ("Flat", "HalfFlat"):
        several = np.broadcast_to(np.arange(1.0, law.shape[-1] + 1.0), law.shape).copy()
    else:
        draws = functions.draw(rng, (101, *law.shape), *parameters)
        several = np.median(np.sort(draws, axis=-1), axis=0)
    if np.any(np.diff(several, axis=-1) <= 0):
        several = several + np.arange(law.shape[-1]) * 1e-3
    return several
