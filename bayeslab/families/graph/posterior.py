"""Posterior of a graph given its data: the interface for engines and results."""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.digits import far, remedy
from bayeslab.errors import BayeslabError, DataError, ModelError, hint, listed
from bayeslab.families.graph import marginalized as with_extras
from bayeslab.families.graph.builder import Builder
from bayeslab.families.graph.conjugacy import closed_form
from bayeslab.families.graph.decoding import decoded as states
from bayeslab.families.graph.discrete_only import DiscretePiece, all_discrete
from bayeslab.families.graph.domains import Domains
from bayeslab.families.graph.gaps import nodes_with_gaps
from bayeslab.families.graph.integrals import integrals_of
from bayeslab.families.graph.lowered_draws import Integral
from bayeslab.families.graph.lowered_generative import generative
from bayeslab.families.graph.lowering import at_natural_scale, lowered
from bayeslab.families.graph.path_labels import relabelled as renamed
from bayeslab.families.graph.paths_at_draws import Hidden, HiddenInGraph, HiddenInProgram
from bayeslab.families.graph.processes import check_inputs, unserved_lengthscales
from bayeslab.families.graph.scope import lengths_of, twins_of
from bayeslab.families.graph.spec import Graph
from bayeslab.families.graph.spelling import check_spelling
from bayeslab.families.graph.states import check_state_node
from bayeslab.families.graph.walk import node_errors
from bayeslab.language.evaluator import Evaluator
from bayeslab.language.expressions import parse
from bayeslab.language.functions import word_of_order
from bayeslab.language.nodes import Node, bound_arguments, byproducts, nodes_of, sorted_nodes
from bayeslab.memory import require_memory
from bayeslab.posterior.answer import Plan
from bayeslab.posterior.averaging import AVERAGED
from bayeslab.posterior.contract import DataFinding, Draws, Posterior, Purpose
from bayeslab.posterior.event_kinds import ATOM, DENSITY, PROBABILITY, UNREAD
from bayeslab.posterior.machine.arrays import NotLowered

if TYPE_CHECKING:
    import networkx as nx
    import pymc

    from bayeslab.families.graph.joint_sums import GraphSum, JointSum
    from bayeslab.families.graph.path_sums import Sums
    from bayeslab.posterior.generative import Generative
    from bayeslab.posterior.machine.model import MachineModel

__all__ = ["GraphPosterior"]

# Improper priors: their density has no finite integral.
_IMPROPER = frozenset(("Flat", "HalfFlat"))


class GraphPosterior(Posterior):
    """Posterior of a graph given its data."""

    def may_be_relabelled(self) -> bool:
        """Whether hidden paths may have exchangeable states."""
        return bool(self.latent)

    @property
    def spec(self) -> Graph:
        assert isinstance(self.model.model, Graph)
        return self.model.model

    def observed(self) -> tuple[str, ...]:
        """Nodes through which data enter the density: observed nodes, and potentials.

        Raises
        ------
        ModelError
            No node is observed, or the name of an unobserved node nearly equals that of an unused column.
        DataError
            Every cell of the observed nodes is missing.
        """
        nodes, columns = nodes_of(self.spec.nodes), self.data.names()
        named = [node.name for node in nodes.values() if node.kind == "random" and node.name in columns]
        potentials = [node.name for node in nodes.values() if node.kind == "potential"]
        if columns:
            check_spelling(nodes, self.model, self.data)
        observed = [name for name in named if self.data.present(name)]
        if observed or potentials or not columns:
            return (*observed, *potentials)
        if named:
            raise DataError(
                f"every cell of {listed(named)} is missing: the data carry no information about the model",
                code="nothing-observed",
            )
        last = nodes[self.model.outcomes(set())[-1]] if self.model.outcomes(set()) else None
        near = hint(last.name, columns) if last else ""
        raise ModelError(
            "no node is observed, so the data carry no information about the model: an observed node is random and has"
            f" the name of a column{f', and {last.name!r} is none' if last else ''}{near} (to draw from the prior use"
            " simulate)",
            path=(*last.path, "[key]") if last else ("model", "nodes"),
            code="nothing-observed",
        )

    def draw_size(self) -> int:
        """Number of values in the unobserved nodes, the size of one draw.

        Raises
        ------
        ModelError
            One draw does not fit into memory together with the computation of the density.
        """
        lengths = {dim: len(levels) for dim, levels in self.data.labels.items()}
        nodes = [node for node in nodes_of(self.spec.nodes).values() if not self.data.has(node.name)]
        sizes = {node: math.prod(lengths.get(dim, 1) for dim in node.dims) for node in nodes}
        largest = max(nodes, key=lambda node: sizes[node], default=None)
        if largest is not None:
            # Values, their gradient, and an intermediate result of each.
            require_memory(
                4 * 8 * sizes[largest],
                f"'{largest.key}', of {sizes[largest]:,} numbers,",
                "give it fewer dimensions, or shorter ones",
                kind=ModelError,
                path=largest.path,
            )
        return sum(sizes.values())

    def event_kinds(self) -> dict[str, np.ndarray]:
        """Kind of likelihood of each value of an outcome: see :mod:`bayeslab.families`."""
        out = {}
        for node in nodes_of(self.spec.nodes).values():
            if node.kind != "random" or not self.data.has(node.name):
                continue
            values = np.asarray(self.data.term(node.name, missing=True).value, dtype=float)
            out[node.name] = np.full(values.shape, PROBABILITY if node.discrete else DENSITY)
            for atom in node.atoms:
                try:
                    place = np.asarray(
                        Evaluator(self.data.term, self.data.labels).eval(parse(atom).tree).value, dtype=float
                    )
                    out[node.name][values == np.broadcast_to(place, values.shape)] = ATOM
                except (BayeslabError, TypeError, ValueError):
                    out[node.name][:] = UNREAD
        return out

    def summed_out(self) -> tuple[str, ...]:
        """Unobserved discrete random nodes, in topological order."""
        nodes = nodes_of(self.spec.nodes)
        columns = self.data.names()
        return tuple(n.name for n in sorted_nodes(nodes, columns) if n.discrete and n.name not in columns)

    def imputed(self) -> tuple[str, ...]:
        """Missing cells that are summed out: those of observed discrete nodes on which other nodes depend."""
        return tuple(f"{name}_unobserved" for name in nodes_with_gaps(nodes_of(self.spec.nodes), self.data))

    def derived_nodes(self) -> tuple[str, ...]:
        """Nodes recovered together with summed-out nodes: deterministic functions of them, states, functions."""
        nodes, out = nodes_of(self.spec.nodes), list[str]()
        # A node whose missing cells are summed out is treated as unobserved.
        columns = self.data.names() - set(nodes_with_gaps(nodes, self.data))
        hidden = [node for node in sorted_nodes(nodes, columns) if node.name not in columns]
        derived = {node.name for node in hidden if node.discrete}
        if not derived:  # otherwise states and functions are sampled
            states = [node.name for node in hidden if node.states or node.process]
            out += [*states, *(name for name, maker in byproducts(nodes).items() if maker in states)]
            derived |= set(out)
        for node in sorted_nodes(nodes, columns):
            if node.kind == "deterministic" and node.parents & derived:
                derived.add(node.name)
                out.append(node.name)
        return tuple(out)

    @cached_property
    def exact_plan(self) -> Plan | str:
        """Plan for conjugate, conditionally Gaussian (at most two scales) or discrete models; otherwise the reason."""
        nodes = nodes_of(self.spec.nodes)
        if all_discrete(nodes, self.data) and not self.imputed():
            piece = DiscretePiece(self.summed_out(), self._discrete_sums)
            return closed_form(nodes, self.data, piece)
        return closed_form(nodes, self.data)

    def data_findings(self) -> list[DataFinding]:
        """Observed columns so far from zero relative to their spread that precision is lost."""
        out: list[DataFinding] = []
        for name in self.observed():
            column = self.data.dataset.columns.get(name)
            if column is None or column.values.dtype.kind != "f":
                continue
            values = column.values[np.isfinite(column.values)]
            if values.size and (message := far(name, values.ravel())):
                out.append(("digits", name, None, message, remedy(values.ravel())))
        return out

    def posterior_findings(self, draws: Draws) -> tuple[DataFinding, ...]:
        """Lengthscales of functions outside the range that their sines can approximate."""
        return tuple(unserved_lengthscales(nodes_of(self.spec.nodes), self.data, draws))

    def network(self) -> nx.DiGraph:
        """The model's nodes and edges with attributes ``kind``, ``text`` and ``dims``."""
        import networkx as nx

        nodes = nodes_of(self.spec.nodes)
        columns = self.data.names()
        out = nx.DiGraph(dims={dim: len(levels) for dim, levels in self.data.labels.items()})
        for node in nodes.values():
            kind = node.kind
            if kind == "random":
                kind = "observed" if node.name in columns else "discrete" if node.discrete else "random"
            out.add_node(node.name, kind=kind, text=node.distribution or node.expression.text, dims=node.dims)
        for node in nodes.values():
            for parent in sorted(node.parents & (nodes.keys() | columns)):
                if parent not in nodes:
                    given = self.data.dataset.columns.get(parent)
                    dims = given.dims if given is not None else self.data.term(parent, missing=True).dims
                    out.add_node(parent, kind="data", text=self.model.data.derive.get(parent, "data"), dims=dims or ())
                # A variance depends on the past of its own series, which would be a cycle in the drawing.
                if parent not in node.lagged or parent not in nodes:
                    out.add_edge(parent, node.name)
        return out

    def graph(self, *, purpose: Purpose = "fit", targets: Collection[str] = ()) -> pymc.Model:
        """The model as a PyMC graph.

        Parameters
        ----------
        purpose
            ``fit``: observed nodes hold their data and discrete latents are summed out. ``predict``:
            the ``targets`` are random, given everything else. ``simulate``: every random node is random.

        Raises
        ------
        ModelError, DataError
            The graph cannot be built; the error has the path of the node, and PyMC's message if PyMC refused.
        """
        self._check_new_rows()
        builder, built = self._built(purpose, targets)
        latent = list(self.summed_out()) if purpose == "fit" else []
        if not latent:
            return built
        if builder.elimination is None:
            return with_extras.marginalized(built, latent, builder.nodes)
        for name in latent:
            # They are recovered after sampling, with their dims.
            built.named_vars_to_dims[name] = builder.nodes[name].dims
        return built

    def _check_new_rows(self) -> None:
        """Check the parameters of draws of new rows; the data of the fit were checked at binding."""
        if self.data.origin is None:
            return
        nodes = nodes_of(self.spec.nodes)
        domains = Domains(nodes, self.data)
        for node in nodes.values():
            with node_errors(node):
                domains.check_parameters(node)

    def generative(self, purpose: Purpose, targets: Collection[str] = ()) -> Generative:
        self._check_new_rows()
        try:
            return generative(self.model, self.data, purpose, targets)
        except (NotLowered, BayeslabError):
            # What the machine does not know is drawn by PyMC; of other errors the graph has the same, or none.
            return super().generative(purpose, targets)

    def _built(self, purpose: Purpose, targets: Collection[str]) -> tuple[Builder, pymc.Model]:
        """The graph and its builder; states and functions are summed out if that is exact, otherwise sampled."""
        from bayeslab.families.graph.linear_rows import NotLinear

        with warnings.catch_warnings():
            # Silence PyTensor's warning about BLAS, which only compiled C code would use; here numba is used.
            warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS")
            for integrals in integrals_of(nodes_of(self.spec.nodes), self.data, purpose):
                try:
                    builder = Builder(self.model, self.data, purpose, targets, integrals)
                    return builder, builder.build()
                except NotLinear:
                    continue
            builder = Builder(self.model, self.data, purpose, targets)
            return builder, builder.build()

    def in_order(self) -> str | None:
        rows = self.data.dataset.rows
        for node in nodes_of(self.spec.nodes).values():
            if node.dims[-1:] == (rows,) and (node.hidden_path or node.states):
                return f"the {'path' if node.hidden_path else 'states'} '{node.name}'"
            if rows in node.dims and (word := word_of_order(node.expression.tree, rows)):
                return f"{word} in the node '{node.name}'"
        return None

    def beginnings(self, *, named: bool, known: bool) -> list[tuple[str, str | None]]:
        """Paths and recursions of the rows; states follow those of the fit."""
        rows, out = self.data.dataset.rows, super().beginnings(named=named, known=known)
        for node in nodes_of(self.spec.nodes).values():
            if node.dims[-1:] != (rows,) or node.states:
                continue
            if node.hidden_path:
                tree = node.expression.tree
                if not known and isinstance(tree, ast.Call):
                    column = bound_arguments(tree, str(node.distribution)).get("sequence")
                    out.append((f"the path '{node.name}'", column.id if isinstance(column, ast.Name) else None))
            elif known and node.kind == "random" and node.name not in self.outcomes():
                continue  # its draws are those of the fit
            elif word := word_of_order(node.expression.tree, rows):
                out.append((f"{word} in the node '{node.name}'", None))
        return out

    def data_columns(self) -> Collection[str]:
        """All columns: a node with the name of a column is observed."""
        return self.data.dataset.columns.keys()

    def machine_model(self, weights: Mapping[str, np.ndarray] | None = None) -> MachineModel:
        return lowered(self.model, self.data, weights=weights)

    def bound_data(self) -> Data:
        """The data, after checks that need only numbers and data: domains of parameters, supports of values.

        Raises
        ------
        ModelError, DataError
            With the path of the node.
        """
        nodes = nodes_of(self.spec.nodes)
        _check_proper(nodes, self.data.names())
        domains = Domains(nodes, self.data)
        for node in nodes.values():
            with node_errors(node):
                lengths_of(node.dims, self.data.labels)
                domains.check(node)
                if node.process:
                    check_inputs(node, nodes, self.data)
                if node.states:
                    check_state_node(node, nodes, self.data)
        return self.data

    def elimination(self) -> tuple[pymc.Model, Sums | GraphSum | JointSum] | None:
        """The graph for fitting and its sums over discrete nodes, states or functions; None without own sums."""
        integrals = integrals_of(nodes_of(self.spec.nodes), self.data, "fit")
        if not self.summed_out() and not self.imputed() and not integrals:
            return None
        builder, built = self._sums
        return None if builder.elimination is None else (built, builder.elimination)

    @cached_property
    def _sums(self) -> tuple[Builder, pymc.Model]:
        """The graph for fitting, used unchanged to evaluate sums, and its builder."""
        return self._built("fit", ())

    def integrated(self) -> dict[str, str]:
        """Summed-out states and functions, with the standard normals behind each."""
        if not integrals_of(nodes_of(self.spec.nodes), self.data, "fit"):
            return {}
        machine = self._hiding
        if machine is not None:
            parts = [part.given.normals for part in machine.sums if isinstance(part, Integral)]
            return {name: normals for part in parts for name, normals in part.items()}
        builder, _ = self._sums
        return {node.name: node.normals for node in builder.integrated}

    def summing(self) -> MachineModel | None:
        machine = self._hiding
        return machine if machine is not None and machine.sums else None

    @cached_property
    def _hiding(self) -> MachineModel | None:
        """The program of a model with nodes that are summed out, or that may be integrated out; None: there is none."""
        integrals = integrals_of(nodes_of(self.spec.nodes), self.data, "fit")
        if not (integrals or self.summed_out() or self.imputed()):
            return None
        try:
            return self.machine_model()
        except (NotLowered, BayeslabError):
            return None

    def relabelled(self, draws: Draws) -> tuple[dict[str, np.ndarray], str] | None:
        """Relabel exchangeable states of hidden paths consistently across draws."""
        if not self.hidden_paths():
            return None
        hidden = self._hidden()
        return None if hidden is None else renamed(hidden, twins_of(self.model), draws)

    def _hidden(self) -> Hidden | None:
        """The model at draws of its parameters: a program if the machine knows it, otherwise a graph of PyMC."""
        try:
            return HiddenInProgram(at_natural_scale(self.model, self.data))
        except NotLowered:
            model_and_sums = self._with_paths()
            return None if model_and_sums is None else HiddenInGraph(*model_and_sums)

    def decoded(
        self, draws: Draws, method: str, best: int, sequence: str | None, most: int = AVERAGED
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Decode hidden paths: see :func:`bayeslab.results.decode.decode`."""
        hidden = self._hidden() if self.hidden_paths() else None
        if hidden is None:
            raise ModelError(
                "the model has no hidden path to decode, such as z[t]: MarkovChain(P)", code="other-family"
            )
        if not hidden.paths:
            raise ModelError(
                f"'{self.hidden_paths()[0]}' is summed out together with other discrete nodes, so that its states are"
                " those drawn with the parameters: see its draws in the posterior",
                code="not-applicable",
            )
        return states(hidden, self.data, draws, method, best, sequence, most)

    def functions(self) -> tuple[str, ...]:
        """Nodes ``GaussianProcess``."""
        return tuple(name for name, node in nodes_of(self.spec.nodes).items() if node.process)

    def hidden_paths(self) -> tuple[str, ...]:
        """Hidden paths among the unobserved discrete nodes, which can be decoded given the parameters."""
        nodes = nodes_of(self.spec.nodes)
        return tuple(name for name in self.summed_out() if nodes[name].hidden_path)

    def _with_paths(self) -> tuple[pymc.Model, Sums] | None:
        """The graph for fitting and its sums; None if no hidden path is summed out."""
        return self._discrete_sums() if self.hidden_paths() else None

    def _discrete_sums(self) -> tuple[pymc.Model, Sums] | None:
        """The graph for fitting and the sums over its discrete nodes; None without own sums."""
        from bayeslab.families.graph.path_sums import Sums

        elimination = self.elimination()
        return (
            (elimination[0], elimination[1]) if elimination is not None and isinstance(elimination[1], Sums) else None
        )


def _check_proper(nodes: Mapping[str, Node], columns: Collection[str]) -> None:
    """Refuse a node with an improper prior on which no data or potentials depend."""
    made = byproducts(nodes)
    todo = [name for name, node in nodes.items() if name in columns or node.kind == "potential"]
    used = set(todo)
    while todo:
        above = {made.get(parent, parent) for parent in nodes[todo.pop()].parents} & nodes.keys() - used
        used |= above
        todo += above
    for name, node in nodes.items():
        if node.distribution in _IMPROPER and name not in used:
            raise ModelError(
                f"'{name}' has no proper prior and no data depend on it: give it a prior, or leave it out",
                path=node.path,
                code="improper",
            )
