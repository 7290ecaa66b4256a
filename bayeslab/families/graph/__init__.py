"""Family ``graph``: any directed model, node by node, in PyMC's own words.

A node is ``name[dims]: expression``. Nodes are built in topological order; each parameter of a
distribution is evaluated to a :class:`~bayeslab.language.expressions.Term` and laid out by the *names* of
its dimensions: first the node's own, then those that belong to one value of the parameter (the
two axes of a covariance matrix). Recursions along a dimension (``previous``) become one
``scan``; a random node that depends on its own past has a vectorised density and a ``scan`` to
draw from.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import networkx as nx
import numpy as np
from pydantic import BeforeValidator, Field

from bayeslab.data.bound import Data
from bayeslab.digits import far, remedy
from bayeslab.distributions import DISTRIBUTIONS, Distribution, pymc_class
from bayeslab.errors import BayeslabError, DataError, ModelError, hint, listed
from bayeslab.exact.answer import Plan
from bayeslab.families import ATOM, DENSITY, PROBABILITY, UNREAD
from bayeslab.families.graph import marginalized as with_extras
from bayeslab.families.graph.conjugacy import closed_form
from bayeslab.families.graph.discrete_only import DiscretePiece, all_discrete
from bayeslab.families.graph.domains import OF_TRIALS, Domains, levels_refused
from bayeslab.families.graph.hidden_paths import hidden_path
from bayeslab.families.graph.levels import categories, takes_levels
from bayeslab.families.graph.processes import check_inputs, check_process, unserved_lengthscales
from bayeslab.families.graph.recursion import broadcast, deterministic_recursion, random_recursion, rows_together
from bayeslab.families.graph.spelling import check_spelling
from bayeslab.families.graph.states import cells_of, check_state_node, check_states, series_of
from bayeslab.language.algebra import Term
from bayeslab.language.evaluator import Evaluator
from bayeslab.language.expressions import parse
from bayeslab.language.functions import MOST_COUNTED, as_float
from bayeslab.language.nodes import (
    Node,
    bound_arguments,
    byproducts,
    call_name,
    check_nodes,
    nodes_of,
    sorted_nodes,
    together,
    units,
)
from bayeslab.language.spec import Family, Model
from bayeslab.memory import require_memory

if TYPE_CHECKING:
    import pymc

    from bayeslab.families.graph.discrete_tables import Latent
    from bayeslab.families.graph.path_laws import HiddenPath
    from bayeslab.families.graph.path_sums import Sums
    from bayeslab.families.graph.state_sums import StateNode, StateSum

__all__ = [
    "Graph",
    "Spec",
    "bound",
    "check",
    "elimination",
    "evidence",
    "exact",
    "factors",
    "graph",
    "integrated",
    "judged",
    "network",
    "outcomes",
    "remarks",
    "size",
    "summed_out",
]

# Distributions that are no prior by themselves: their density has no finite integral.
_IMPROPER = frozenset(("Flat", "HalfFlat"))

type Purpose = Literal["fit", "predict", "simulate"]


def _as_expression(value: Any) -> Any:
    """A YAML list is the vector its text is: ``[a, 1 - a]`` needs no quotes."""
    return f"[{', '.join(str(_as_expression(item)) for item in value)}]" if isinstance(value, list) else value


class Graph(Family):
    """A directed model written node by node."""

    of_rows: ClassVar[bool] = False
    family: Literal["graph"] = "graph"
    nodes: dict[str, Annotated[str | int | float, BeforeValidator(_as_expression)]] = Field(
        min_length=1,
        max_length=2_000,
        description="`name: expression` or `name[dim, ...]: expression`. Outermost call a distribution: random"
        " (observed, if a data column has its name); else deterministic.",
    )

    def categories(self, data: Data) -> Mapping[str, str | None]:
        """Random nodes whose values are levels, each with the dimension that its probabilities lie along."""
        return categories(nodes_of(self.nodes), data)


Spec = Graph


def _spec(model: Model) -> Graph:
    assert isinstance(model.model, Graph)
    return model.model


def check(model: Model, columns: set[str] | None) -> None:
    """Everything that can be found wrong without building the graph."""
    nodes = nodes_of(_spec(model).nodes)
    check_nodes(nodes, _dimensions(model), columns, model.data.derive)
    for node in nodes.values():
        if node.process:
            check_process(node, nodes)
        if node.states:
            check_states(node)
    known = (columns or set()) | nodes.keys()
    for name in model.data.dims if columns else ():
        # Data to predict from may lack what is predicted.
        if name not in known:
            message = f"'{name}' is neither in the data nor a node{hint(name, known)}"
            raise ModelError(message, path=("data", "dims", name), code="unknown-name")


def _dimensions(model: Model) -> set[str]:
    source = model.data
    return {source.rows, *source.tables, *model.dims, *(d for dims in source.dims.values() for d in dims)}


def factors(model: Model) -> set[str]:
    """Dimensions the model uses; a column of the same name is an index into it."""
    return {dim for node in nodes_of(_spec(model).nodes).values() for dim in node.dims} | set(model.dims)


def outcomes(model: Model, columns: set[str]) -> tuple[str, ...]:
    """What the model predicts: observed nodes that no other random node depends on.

    Without data, random nodes that no other random node depends on.
    """
    nodes = nodes_of(_spec(model).nodes)
    parents = {n.name: (n.parents - n.lagged - {n.name}) & set(nodes) for n in nodes.values()}
    random = [node.name for node in nodes.values() if node.kind == "random"]
    above, waiting = set[str](), [p for name in random for p in parents[name]]
    while waiting:
        name = waiting.pop()
        if name not in above:
            above.add(name)
            waiting += parents[name]
    last = [name for name in random if name not in above]
    seen = [name for name in last if name in columns]
    return tuple(seen or last)


def evidence(model: Model, data: Data) -> tuple[str, ...]:
    """Nodes through which data enter the density: observed nodes, and potentials.

    Raises
    ------
    ModelError
        No node is observed, or a node without data has nearly the name of a column that the model does not use.
    DataError
        Every cell of the observed nodes is missing.
    """
    nodes, columns = nodes_of(_spec(model).nodes), data.names()
    named = [node.name for node in nodes.values() if node.kind == "random" and node.name in columns]
    potentials = [node.name for node in nodes.values() if node.kind == "potential"]
    if columns:
        check_spelling(nodes, model, data)
    observed = [name for name in named if data.present(name)]
    if observed or potentials or not columns:
        return (*observed, *potentials)
    if named:
        raise DataError(
            f"every cell of {listed(named)} is missing: the data say nothing about the model", code="nothing-observed"
        )
    last = nodes[outcomes(model, set())[-1]] if outcomes(model, set()) else None
    near = hint(last.name, columns) if last else ""
    raise ModelError(
        f"no node is observed, so the data say nothing about the model: an observed node is random and has the name"
        f" of a column{f', and {last.name!r} is none' if last else ''}{near} (to draw from the prior use simulate)",
        path=(*last.path, "[key]") if last else ("model", "nodes"),
        code="nothing-observed",
    )


def size(model: Model, data: Data) -> int:
    """Numbers in the nodes without data: what one draw holds.

    Raises
    ------
    ModelError
        They do not fit into memory once, with what computing the density takes.
    """
    lengths = {dim: len(levels) for dim, levels in data.labels.items()}
    nodes = [node for node in nodes_of(_spec(model).nodes).values() if not data.has(node.name)]
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


def events(model: Model, data: Data) -> dict[str, np.ndarray]:
    """What the likelihood of each value of an outcome is: see :mod:`bayeslab.families`."""
    out = {}
    for node in nodes_of(_spec(model).nodes).values():
        if node.kind != "random" or not data.has(node.name):
            continue
        values = np.asarray(data.term(node.name, missing=True).value, dtype=float)
        out[node.name] = np.full(values.shape, PROBABILITY if node.discrete else DENSITY)
        for atom in node.atoms:
            try:
                place = np.asarray(Evaluator(data.term, data.labels).eval(parse(atom).tree).value, dtype=float)
                out[node.name][values == np.broadcast_to(place, values.shape)] = ATOM
            except (BayeslabError, TypeError, ValueError):
                out[node.name][:] = UNREAD
    return out


def summed_out(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Discrete random nodes without data, in topological order."""
    nodes = nodes_of(_spec(model).nodes)
    return tuple(n.name for n in sorted_nodes(nodes, columns) if n.discrete and n.name not in columns)


def imputed(model: Model, data: Data) -> tuple[str, ...]:
    """Missing cells that are summed out: those of discrete nodes with data on which other nodes depend."""
    return tuple(f"{name}_unobserved" for name in _with_gaps(nodes_of(_spec(model).nodes), data))


def _with_gaps(nodes: Mapping[str, Node], data: Data) -> list[str]:
    """Discrete nodes with missing cells on which other nodes depend."""
    needed, columns = {parent for node in nodes.values() for parent in node.parents}, data.names()
    out = []
    for node in nodes.values():
        if node.kind == "random" and node.discrete and node.name in columns & needed and not node.recursive:
            term = data.term(node.name, missing=True)
            cells = term.value if term.codes is None else np.where(term.codes < 0, np.nan, 0.0)
            if cells is not None and np.isnan(np.asarray(cells, dtype=float)).any():
                out.append(node.name)
    return out


def derived(model: Model, columns: set[str]) -> tuple[str, ...]:
    """What is computed from nodes that are summed out and comes back with them: deterministic nodes, and states."""
    nodes, out = nodes_of(_spec(model).nodes), list[str]()
    found = set(summed_out(model, columns))
    if not found:  # else states are sampled
        states = [node.name for node in sorted_nodes(nodes, columns) if node.states and node.name not in columns]
        out += [*states, *(name for name, maker in byproducts(nodes).items() if maker in states)]
        found |= set(out)
    for node in sorted_nodes(nodes, columns):
        if node.kind == "deterministic" and node.parents & found:
            found.add(node.name)
            out.append(node.name)
    return tuple(out)


def exact(model: Model, data: Data) -> Plan | str:
    """Conjugate pairs, what is Gaussian given at most two scales, and what is discrete; else the reason why not."""
    nodes, columns = nodes_of(_spec(model).nodes), data.names()
    if all_discrete(nodes, columns) and not imputed(model, data):
        piece = DiscretePiece(summed_out(model, columns), lambda: _discrete_sums(model, data))
        return closed_form(nodes, data, piece)
    return closed_form(nodes, data)


def remarks(model: Model, data: Data) -> list[tuple[str, str, float | None, str, str]]:
    """Observed columns that are so far from zero that few digits of what varies in them are left."""
    out: list[tuple[str, str, float | None, str, str]] = []
    for name in evidence(model, data):
        column = data.dataset.columns.get(name)
        if column is None or column.values.dtype.kind != "f":
            continue
        values = column.values[np.isfinite(column.values)]
        if values.size and (said := far(name, values.ravel())):
            out.append(("digits", name, None, said, remedy(values.ravel())))
    return out


def judged(
    model: Model, data: Data, draws: Mapping[str, np.ndarray]
) -> tuple[tuple[str, str, float | None, str, str], ...]:
    """Lengthscales of functions that the sines which stand for them do not serve."""
    return tuple(unserved_lengthscales(nodes_of(_spec(model).nodes), data, draws))


def network(model: Model, data: Data) -> nx.DiGraph:
    """The model's nodes and edges with attributes ``kind``, ``text`` and ``dims``."""
    nodes = nodes_of(_spec(model).nodes)
    columns = data.names()
    out = nx.DiGraph(dims={dim: len(levels) for dim, levels in data.labels.items()})
    for node in nodes.values():
        kind = node.kind
        if kind == "random":
            kind = "observed" if node.name in columns else "discrete" if node.discrete else "random"
        out.add_node(node.name, kind=kind, text=node.distribution or node.expression.text, dims=node.dims)
    for node in nodes.values():
        for parent in sorted(node.parents & (nodes.keys() | columns)):
            if parent not in nodes:
                given = data.dataset.columns.get(parent)
                dims = given.dims if given is not None else data.term(parent, missing=True).dims
                out.add_node(parent, kind="data", text=model.data.derive.get(parent, "data"), dims=dims or ())
            # A variance looks back at the series it is of; drawn, that would be a circle.
            if parent not in node.lagged or parent not in nodes:
                out.add_edge(parent, node.name)
    return out


def graph(model: Model, data: Data, *, purpose: Purpose = "fit", targets: Collection[str] = ()) -> pymc.Model:
    """The model as a PyMC graph.

    Parameters
    ----------
    model, data
        The model and the data bound to it.
    purpose
        ``fit``: observed nodes hold their data and discrete latents are summed out. ``predict``:
        the ``targets`` are random, given everything else. ``simulate``: every random node is random.

    Raises
    ------
    ModelError, DataError
        With the path of the node, and what PyMC said where it was PyMC that refused.
    """
    if data.origin is not None:
        # The data of the fit were checked when they were bound; of new rows what they are drawn from is left.
        nodes = nodes_of(_spec(model).nodes)
        domains = Domains(nodes, data)
        for node in nodes.values():
            with _node_errors(node):
                domains.check_parameters(node)
    builder, built = _built(model, data, purpose, targets)
    latent = list(summed_out(model, builder.observed)) if purpose == "fit" else []
    if not latent:
        return built
    if builder.elimination is None:
        return with_extras.marginalized(built, latent, builder.nodes)
    for name in latent:
        # They come back after sampling, with their dims.
        built.named_vars_to_dims[name] = builder.nodes[name].dims
    return built


def _built(model: Model, data: Data, purpose: Purpose, targets: Collection[str]) -> tuple[_Builder, pymc.Model]:
    """The graph and its builder; states are summed out where that is exact, and sampled where it is not."""
    from bayeslab.families.graph.linear_rows import NotLinear

    with warnings.catch_warnings():
        # Only compiled C code would use the BLAS that is missed here; ours is numba's.
        warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS")
        builder = _Builder(model, data, purpose, targets)
        if builder.states_to_sum:
            try:
                return builder, builder.build()
            except NotLinear:
                builder = _Builder(model, data, purpose, targets, sample_states=True)
        return builder, builder.build()


def bound(model: Model, data: Data) -> Data:
    """The data, after what numbers and data alone say has been checked: domains of parameters, supports of values.

    Raises
    ------
    ModelError, DataError
        With the path of the node.
    """
    nodes = nodes_of(_spec(model).nodes)
    _check_proper(nodes, data.names())
    domains = Domains(nodes, data)
    for node in nodes.values():
        with _node_errors(node):
            _lengths(node.dims, data.labels)
            domains.check(node)
            if node.process:
                check_inputs(node, nodes, data)
            if node.states:
                check_state_node(node, nodes, data)
    return data


def _lengths(dims: Iterable[str], labels: Mapping[str, Sized]) -> tuple[int, ...]:
    """The lengths of dimensions; one that nothing gives a length is refused."""
    for dim in dims:
        if dim not in labels:
            raise ModelError(
                f"the dimension '{dim}' has no length: no column or table brings it; declare it in dims"
                f" (a list of labels or a length); known: {listed(labels)}",
                code="unknown-dimension",
            )
    return tuple(len(labels[dim]) for dim in dims)


def _check_proper(nodes: Mapping[str, Node], columns: Collection[str]) -> None:
    """A node with an improper prior has a posterior only through data, or potentials, that depend on it."""
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


def elimination(model: Model, data: Data) -> tuple[pymc.Model, Sums | StateSum] | None:
    """The graph to fit and how its discrete nodes, or its states, are summed out; None where none are by us."""
    states = any(node.states for node in nodes_of(_spec(model).nodes).values())
    if not summed_out(model, data.names()) and not imputed(model, data) and not states:
        return None
    builder, built = _built(model, data, "fit", ())
    return None if builder.elimination is None else (built, builder.elimination)


def integrated(model: Model, data: Data) -> dict[str, str]:
    """Nodes of linear-Gaussian states that are summed out, and the standard normals that each is made of."""
    if not any(node.states for node in nodes_of(_spec(model).nodes).values()):
        return {}
    builder, _ = _built(model, data, "fit", ())
    return {node.name: node.normals for node in builder.states}


def relabelled(model: Model, data: Data, draws: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], str] | None:
    """Draws in which the exchangeable states of hidden paths have names that agree."""
    from bayeslab.families.graph.path_labels import relabelled as renamed

    found = _with_paths(model, data)
    return None if found is None else renamed(*found, twins_of(model), draws)


def decoded(
    model: Model, data: Data, draws: Mapping[str, np.ndarray], method: str, best: int, sequence: str | None
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The states of hidden paths cell by cell: see :func:`bayeslab.results.decode.decode`."""
    from bayeslab.families.graph.decoding import decoded as states

    found = _with_paths(model, data)
    if found is None:
        raise ModelError("the model has no hidden path to decode, such as z[t]: MarkovChain(P)", code="other-family")
    return states(*found, data, draws, method, best, sequence)


def paths(model: Model, data: Data) -> tuple[str, ...]:
    """Hidden paths among the discrete nodes without data: at given parameters they are decoded."""
    nodes = nodes_of(_spec(model).nodes)
    return tuple(name for name in summed_out(model, data.names()) if nodes[name].hidden_path)


def _with_paths(model: Model, data: Data) -> tuple[pymc.Model, Sums] | None:
    """The graph to fit and its sums; None where no hidden path is summed out."""
    return _discrete_sums(model, data) if paths(model, data) else None


def _discrete_sums(model: Model, data: Data) -> tuple[pymc.Model, Sums] | None:
    """The graph to fit and the sums over its discrete nodes; None where none are by us."""
    from bayeslab.families.graph.path_sums import Sums

    found = elimination(model, data)
    return (found[0], found[1]) if found is not None and isinstance(found[1], Sums) else None


def twins_of(model: Model) -> dict[str, str]:
    """Dimensions that are twins, and of which."""
    return {dim: entry for dim, entry in model.dims.items() if isinstance(entry, str)}


class _Builder:
    """Builds one PyMC model; lives for one call of :func:`graph`."""

    def __init__(
        self, model: Model, data: Data, purpose: Purpose, targets: Collection[str], *, sample_states: bool = False
    ) -> None:
        import pymc as pm

        self.pm, self.data, self.purpose = pm, data, purpose
        self.nodes = nodes_of(_spec(model).nodes)
        self.labels = dict(data.labels)
        columns = data.names()
        check_nodes(self.nodes, self.labels, columns, model.data.derive)
        self.columns = columns
        random = {node.name for node in self.nodes.values() if node.kind == "random"}
        for node in self.nodes.values():
            if node.name in columns and node.kind != "random":
                raise ModelError(
                    f"'{node.name}' is a column of the data and a {node.kind} node; rename the node"
                    f" (computed columns belong in data.derive)",
                    path=(*node.path, "[key]"),
                    code="name-clash",
                )
        free: set[str] = set()
        if purpose == "predict":
            free = set(targets)
        elif purpose == "simulate":
            free = random
        self.observed = (random & columns) - free
        # Nodes whose data may be looked back at (with lag) before they are built.
        self.seen = random & columns if purpose != "simulate" else set()
        self.terms: dict[str, Term] = {}
        # Discrete nodes to be summed out, and what is computed from them: it has no value in a draw.
        self.summed = {n for n in random - columns if self.nodes[n].discrete} if purpose == "fit" else set()
        # Discrete nodes with data whose missing cells are summed out as well.
        self.imputed = set(_with_gaps(self.nodes, data)) & self.observed if purpose == "fit" else set()
        self.summed |= self.imputed
        self.latents: dict[str, Latent] = {}
        self.densities: list[Any] = []
        self.elimination: Sums | StateSum | None = None
        # Linear-Gaussian states that are summed out, with the one normal node with data that they enter.
        among = [node for node in self.nodes.values() if node.states and node.name not in columns]
        alone = purpose == "fit" and not self.summed and series_of(data) is data
        self.states_to_sum = bool(among) and alone and not sample_states
        self.states: list[StateNode] = []
        self.slopes: set[Any] = set()
        self.state_rows: list[Any] = []
        self.own_sums = bool(self.summed) and not self._open_below()
        # A text outcome is a node and, by its levels, a dimension; PyMC allows only one of the two.
        self.twins = twins_of(model)
        coords = {dim: levels.tolist() for dim, levels in self.labels.items() if dim not in self.nodes}
        self.model = pm.Model(coords=coords, check_bounds=True)
        self.symbols: dict[str, Any] = {}
        self.evaluator = Evaluator(
            self.lookup,
            self.labels,
            data.frozen,
            self.symbol,
            past=self.past,
            rows=data.dataset.rows,
            cells=data.cells,
        )

    def _open_below(self) -> bool:
        """Whether the density of something that is sampled depends on a discrete node without data."""
        if any(self.nodes[name].hidden_path for name in self.summed):
            return False  # what is sampled and depends on a path is refused where it is built
        tied = set(self.summed)
        for node in sorted_nodes(self.nodes, self.seen):
            if not node.parents & tied or node.name in self.summed:
                continue
            if node.kind == "deterministic":
                tied.add(node.name)
            elif node.kind == "random" and not (
                node.name in self.columns and (node.discrete or node.atoms or self._complete(node.name))
            ):
                return True
        return False

    # -- names

    def lookup(self, name: str) -> Term:
        if name in self.terms:
            return self.terms[name]
        if name in self.nodes and name not in self.seen:
            raise ModelError(
                f"'{name}' and a node it depends on look back at each other, and '{name}' has no data here",
                code="no-data",
            )
        return self.data_of(name) if name in self.nodes else self.data.term(name)

    def past(self, name: str) -> Term:
        """What ``lag`` looks back at: of an observed node its data, whether it is built yet or not."""
        return self.data_of(name) if name in self.seen and self._complete(name) else self.lookup(name)

    def _complete(self, name: str) -> bool:
        """Whether a column has no missing cells, so that nothing of it is imputed."""
        term = self.data.term(name, missing=True)
        return term.value is None or not np.any(np.isnan(np.asarray(term.value, dtype=float)))

    def data_of(self, name: str, *, missing: bool = False) -> Term:
        """The data of a node, its axes in the order of the node's dims."""
        term, dims = self.data.term(name, missing=missing), self.nodes[name].dims
        if term.value is None or term.dims == dims or set(term.dims) != set(dims):
            return term
        return replace(term, value=term.value.transpose([term.dims.index(d) for d in dims]), dims=dims, column=None)

    def symbol(self, term: Term) -> Any:
        """A data column as ``pm.Data``, registered when it is first used."""
        import pytensor.tensor as pt

        name = str(term.column)
        if name in self.nodes or name in self.labels or None in term.dims or not term.dims:
            return pt.as_tensor_variable(np.asarray(term.value))
        if name not in self.symbols:
            self.symbols[name] = self._given(name, term.value, term.dims)
        return self.symbols[name]

    def _given(self, name: str, value: Any, dims: tuple[Any, ...]) -> Any:
        """Data in the graph; whole numbers that PyMC's 32 bits do not hold are floats there."""
        array = np.asarray(value)
        narrow = np.iinfo(np.int32)
        if array.dtype.kind in "iu" and array.size and (array.min() < narrow.min or array.max() > narrow.max):
            try:
                array = as_float(array)
            except DataError as error:
                raise DataError(f"column '{name}': {error.message}", code=error.code) from None
        return self.pm.Data(name, array, dims=dims, model=self.model)

    def lengths(self, dims: tuple[str, ...]) -> tuple[int, ...]:
        return _lengths(dims, self.labels)

    # -- building

    def build(self) -> pymc.Model:
        with self.model:
            groups = together(self.nodes) if self.purpose == "simulate" else []
            complete = {name for name in self.seen if self._complete(name)}
            for unit in units(self.nodes, complete, groups):
                node = unit[0]
                with _node_errors(node):
                    if len(unit) > 1:
                        self._row_by_row(unit)
                        continue
                    self.lengths(node.dims)
                    if node.kind == "random":
                        self._random(node)
                    elif node.kind == "potential":
                        self._potential(node)
                    else:
                        self._deterministic(node)
            if self.own_sums:
                self._sum_out()
            if self.states_to_sum:
                self._sum_states()
        return self.model

    def _sum_out(self) -> None:
        from bayeslab.families.graph.path_sums import summed_out as sums

        first = self.nodes[next(iter(self.latents)).removesuffix("_unobserved")]
        with _node_errors(first):
            found = sums(list(self.latents.values()), self.densities, self.model)
        # By its name it is known as the likelihood of rows that have hidden parts.
        self.pm.Potential(f"{next(iter(found.observed), first.name)}_rows", found.log_sum)
        self.elimination = found

    def _sum_states(self) -> None:
        """The states integrated out of the node that they enter."""
        from pytensor.graph.traversal import ancestors

        from bayeslab.families.graph.linear_rows import NotLinear
        from bayeslab.families.graph.state_sums import summed_states

        model, symbols = self.model, {node.symbol for node in self.states} | self.slopes
        others = [*model.basic_RVs, *model.potentials, *model.deterministics]
        if len(self.state_rows) != 1 or not symbols.isdisjoint(ancestors(others)):
            raise NotLinear
        (rows,) = self.state_rows
        if not self.slopes.isdisjoint(ancestors([rows.mean, rows.sigma])):
            raise NotLinear
        found = summed_states(self.states, rows, set(model.basic_RVs))
        self.pm.Potential(f"{rows.name}_rows", found.log_sum)
        self.elimination = found

    @staticmethod
    def _density(name: str, value: Any, dims: tuple[str, ...], *, observed: bool) -> Any:
        from bayeslab.families.graph.discrete_nodes import Density

        return Density(name, value, dims, observed)

    def _meets_latents(self, variable: Any) -> bool:
        from pytensor.graph.traversal import ancestors

        symbols = {latent.symbol for latent in self.latents.values()}
        return bool(symbols) and not symbols.isdisjoint(ancestors([variable]))

    def _row_by_row(self, group: list[Node]) -> None:
        """Nodes that look back at each other: drawn, or, where all are deterministic, computed."""
        for node in group:
            self.lengths(node.dims)
        tied = any(node.parents & self.summed for node in group)
        for name, value in rows_together(self, group).items():
            if tied:
                self.summed.add(name)
            else:
                self.pm.Deterministic(name, value, dims=self.nodes[name].dims)
            self.terms[name] = Term(value, self.nodes[name].dims)

    def _potential(self, node: Node) -> None:
        if self.purpose == "simulate":
            raise ModelError(
                "a Potential is a density without a way to draw from it, so that the prior cannot be simulated; write"
                " it as distributions, or leave it out of the model that is simulated",
                path=node.path,
                code="unsupported",
            )
        assert isinstance(node.expression.tree, ast.Call)
        (value,) = bound_arguments(node.expression.tree, "Potential").values()
        term = self._defined(self.evaluator.eval(value))
        symbolic = self.evaluator.symbolic(term)
        if self._meets_latents(symbolic):
            self.densities.append(self._density(node.name, symbolic, (), observed=False))
            return
        self.pm.Potential(node.name, symbolic)

    def _defined(self, term: Term) -> Term:
        """The rows of a term that a ``lag`` leaves defined."""
        value = term.value
        for dim, rows in term.undefined.items():
            value = value[(slice(None),) * term.dims.index(dim) + (slice(rows, None),)]
        return replace(term, value=value, undefined={}, column=None) if term.undefined else term

    def _deterministic(self, node: Node) -> None:
        if node.recursive:
            term = deterministic_recursion(self, node)
        else:
            term = self.evaluator.term(node.expression)
        if term.value is None:
            # A factor under another name.
            self.terms[node.name] = replace(term, column=None)
            return
        named = set(term.dims) - {None}
        if None in term.dims and len(term.dims) == len(node.dims) and named <= set(node.dims):
            # A list of vectors, or of lists: its own axes are the dimensions of the node that they lack, in order.
            lacking = iter(dim for dim in node.dims if dim not in named)
            term = replace(term, dims=tuple(dim or next(lacking) for dim in term.dims))
            self._fits(replace(node, dims=tuple(str(dim) for dim in term.dims)), term)
        (value,), _, symbolic = self.evaluator.align([term], onto=node.dims)
        shape = self.lengths(node.dims)
        if not symbolic:
            value = np.array(np.broadcast_to(value, shape))
            if value.dtype.kind == "f" and not np.all(np.isfinite(value)) and not term.undefined:
                raise DataError(
                    f"'{node.name}' is not a finite number for these data", path=node.path, code="not-finite"
                )
            self.terms[node.name] = Term(
                value if node.dims else value[()], node.dims, undefined=term.undefined, column=node.name
            )
            if node.dims and not term.undefined:
                self.symbols[node.name] = self._given(node.name, value, node.dims)
                self.terms[node.name] = Term(value, node.dims, column=node.name)
            return
        value = broadcast(value, shape) if node.dims else value
        if node.parents & self.summed:
            self.summed.add(node.name)
        else:
            self.pm.Deterministic(node.name, value, dims=node.dims or None)
        self.terms[node.name] = Term(value, node.dims, undefined=term.undefined)

    def _fits(self, node: Node, term: Term) -> None:
        shape = np.shape(term.value) if not term.random else term.value.type.shape
        wanted = self.lengths(node.dims)
        if tuple(shape) != wanted:
            raise ModelError(
                f"{' × '.join(map(str, shape))} values for {node.key} of size {' × '.join(map(str, wanted))}",
                code="wrong-shape",
            )

    # -- random nodes

    def _random(self, node: Node) -> None:
        observed = self._observations(node) if node.name in self.observed else None
        if observed is None and node.atoms and self.purpose == "fit":
            raise ModelError(
                f"'{node.name}' has no data, and {_probable(node)}, which its density leaves out:"
                f" {_written_apart(node)}",
                path=node.path,
                code="discrete",
            )
        if node.hidden_path:
            self._hidden_path(node, observed)
            return
        if node.process:
            self._process(node, observed)
            return
        if node.states:
            self._states_of(node, observed)
            return
        if self.own_sums and node.name in self.summed and observed is None:
            self._latent(node)
            return
        if observed is None and node.recursive and self._needs_past(node):
            self.terms[node.name] = random_recursion(self, node)
            return
        word = str(node.distribution)
        tree = node.expression.tree
        assert isinstance(tree, ast.Call)
        if word in ("LKJCholeskyCov", "LKJCorr"):
            self._correlations(node, word, tree)
            return
        if word in ("Ordered", "PositiveOrdered"):
            self._ordered(node, word, tree, observed)
            return
        drawn, undefined = self._with_own_past(node, lambda: self.distribution(tree, node.dims))
        rows = undefined.get(node.dims[-1], 0) if node.dims else 0
        if set(undefined) - set(node.dims[-1:]):
            raise ModelError(
                f"lag() along {listed(undefined)}, which is not the last dimension of '{node.key}'",
                code="bad-dimensions",
            )
        if rows and observed is None and node.name not in self.columns:
            raise ModelError(
                f"the first {rows} rows of '{node.name}' have no distribution, because lag() looks back past them:"
                f" give lag(..., start=...)",
                code="bad-start",
            )
        if not rows:
            self._register(node, drawn, node.dims, observed)
            return
        self._conditioned(node, tree, observed, rows)

    def _latent(self, node: Node) -> None:
        """A discrete node without data: a symbol for its values, and their log probabilities."""
        import pytensor.tensor as pt

        from bayeslab.families.graph.discrete_nodes import states_of
        from bayeslab.families.graph.discrete_tables import Latent

        tree = node.expression.tree
        assert isinstance(tree, ast.Call)
        shape = self.lengths(node.dims)
        symbol = pt.tensor(node.name, dtype="int64", shape=shape)
        own = Term(symbol, node.dims)
        drawn, undefined = self._with_own_past(node, lambda: self.distribution(tree, node.dims), own)
        if undefined:
            raise ModelError(
                f"'{node.name}' has no data, so lag() and previous() in it need start=...", code="bad-start"
            )
        if drawn.owner.op.ndim_supp:
            raise ModelError(
                f"'{node.name}' draws vectors of counts and has no data; it cannot be summed out",
                code="discrete",
            )
        states = states_of(node.name, drawn, list(self.latents.values()), self.model)
        self.latents[node.name] = Latent(node.name, symbol, shape, *states)
        self.densities.append(
            self._density(node.name, self.pm.logp(drawn, symbol, warn_rvs=False), node.dims, observed=False)
        )
        self.terms[node.name] = own

    def _hidden_path(self, node: Node, observed: Any) -> None:
        """A path of hidden states: a symbol for them where they are summed out, else a random variable."""
        import pytensor.tensor as pt

        from bayeslab.families.graph.discrete_tables import Latent

        path, shape = hidden_path(self, node), self.lengths(node.dims)
        if observed is not None and np.ma.is_masked(observed):
            row = int(np.nonzero(np.atleast_1d(np.ma.getmaskarray(observed)))[0][0])
            raise DataError(
                f"column '{node.name}', row {row + 1} is missing; a path is seen as a whole or not at all: give it"
                f" another name, and a node with the column's name whose probabilities are 1 at the state",
                path=node.path,
                code="missing",
            )
        if node.name not in self.summed:
            from bayeslab.families.graph.path_draws import path_variable

            self._register(node, path_variable(path.law, path.logs, shape), node.dims, observed)
            self.terms[node.name] = self._states(path, self.terms[node.name].value, node.dims)
            return
        symbol = pt.tensor(node.name, dtype="int64", shape=shape)
        self.latents[node.name] = Latent(node.name, symbol, shape, 0, path.law.n_states, path)
        self.terms[node.name] = self._states(path, symbol, node.dims)

    def _process(self, node: Node, observed: Any) -> None:
        """A function: standard normals, and its values made of them."""
        from bayeslab.families.graph.process_values import process_values

        if observed is not None:
            raise ModelError(
                f"'{node.name}' is a column of the data and a function without noise; give the function another name, f"
                f", and what is observed a node around it: {node.name}[{', '.join(node.dims)}]: Normal(f, sigma)",
                path=node.path,
                code="misplaced",
            )
        value = self.pm.Deterministic(node.name, process_values(self, node), dims=node.dims)
        self.terms[node.name] = Term(value, node.dims)

    def _states_of(self, node: Node, observed: Any) -> None:
        """Linear-Gaussian states: a symbol where they are summed out, else values made of standard normals."""
        from bayeslab.families.graph.state_values import component_of, normals_of, state_values

        if observed is not None or node.name in self.columns:
            raise ModelError(
                f"'{node.name}' is a column of the data and a series of states; give the states another name, and what"
                f" is observed a node around them: {node.name}[{', '.join(node.dims)}]: Normal(level, sigma)",
                path=node.path,
                code="misplaced",
            )
        if series_of(self.data) is self.data:
            check_state_node(node, self.nodes, self.data)
        names = (node.name, *(name for name, maker in byproducts(self.nodes).items() if maker == node.name))
        if not self.states_to_sum:
            for name, value in zip(names, state_values(self, node), strict=True):
                self.terms[name] = Term(self.pm.Deterministic(name, value, dims=node.dims), node.dims)
            return
        import pytensor.tensor as pt

        from bayeslab.families.graph.state_sums import StateNode

        component, cells = component_of(self, node), cells_of(node, self.data)
        normals, dim = normals_of(self, node, int(cells.normals(component.d, component.q)[-1]))
        # They come back after sampling, with their dims.
        self.model.named_vars_to_dims |= {normals: (dim,)}
        for name in names:
            symbol = pt.tensor(name, dtype="float64", shape=self.lengths(node.dims))
            self.model.named_vars_to_dims |= {name: node.dims}
            self.summed.add(name)
            self.terms[name] = Term(symbol, node.dims)
            if name == node.name:
                self.states.append(StateNode(name, normals, symbol, node.dims, component, cells))
            else:
                self.slopes.add(symbol)

    def _enter_states(self, node: Node, drawn: Any, dims: tuple[str, ...], observed: Any) -> bool:
        """Whether a node with data depends on states that are summed out; then it is kept for that."""
        from pytensor.graph.traversal import ancestors

        from bayeslab.families.graph.linear_rows import NotLinear
        from bayeslab.families.graph.state_sums import Rows

        if {state.symbol for state in self.states}.isdisjoint(ancestors([drawn])):
            return False
        gaps = observed is not None and np.ma.is_masked(observed) and self._below(node.name)
        if observed is None or node.recursive or gaps or type(drawn.owner.op).__name__ != "NormalRV":
            raise NotLinear
        mean, sigma = drawn.owner.op.dist_params(drawn.owner)
        rows = np.ma.filled(np.ma.asarray(observed, dtype=float), np.nan)
        self.state_rows.append(Rows(node.name, dims, mean, sigma, rows))
        self.terms[node.name] = self._seen_as(node, np.ma.getdata(observed), dims)
        return True

    @staticmethod
    def _states(path: HiddenPath, value: Any, dims: tuple[str, ...]) -> Term:
        """A path as expressions see it: numbers from 0, and levels where the states have names."""
        return Term(value, dims, codes=None if path.state is None else value, factor=path.state)

    def _with_own_past(
        self, node: Node, build: Callable[[], Any], own: Term | None = None
    ) -> tuple[Any, dict[str, int]]:
        """Build with the node's own name standing for its data (or ``own``), and note undefined rows."""
        self._undefined: dict[str, int] = {}
        if node.recursive and own is None:
            own = self.data_of(node.name, missing=True)
            if own.value is None:
                raise DataError(
                    f"'{node.name}' looks back at itself and holds levels: give whole numbers from 0, and the dimension"
                    " of its probabilities a length or names",
                    path=node.path,
                    code="not-numbers",
                )
            gone = np.isnan(np.asarray(own.value, dtype=float))
            if np.any(gone):
                raise DataError(
                    f"'{node.name}' looks back at itself and has {int(gone.sum())} missing cells; a series with gaps"
                    f" needs a latent node: h[...]: ... previous(h, 1, start=...), and '{node.name}' around h",
                    code="missing",
                )
            own = replace(own, column=None)
        if node.recursive and own is not None:
            past = own
            self.evaluator.special = {"previous": lambda call: self._lag_of(past, call)}
            self.terms[node.name] = past
        try:
            return build(), dict(self._undefined)
        finally:
            self.evaluator.special = {}
            self.terms.pop(node.name, None)

    def _lag_of(self, own: Term, call: ast.Call) -> Term:
        (start,) = (self.evaluator.eval(k.value) for k in call.keywords if k.arg == "start")
        return self.evaluator.lagged(own, call.args[1].value, start)  # type: ignore[attr-defined]

    def _needs_past(self, node: Node) -> bool:
        """Whether the node must be generated step by step: it has no data to look back at."""
        return self.purpose == "simulate" or node.name not in self.columns

    def _observations(self, node: Node) -> Any:
        term = self.data.term(node.name, missing=True)
        value = term.value
        if set(term.dims) != set(node.dims):
            raise DataError(
                f"'{node.name}' has the dimensions ({', '.join(map(str, term.dims))}) in the data and"
                f" ({', '.join(node.dims)}) in the model",
                path=(*node.path, "[key]"),
                code="bad-dimensions",
            )
        if value is None:
            if not takes_levels(node.expression.tree):
                raise levels_refused(node)
            value = np.asarray(term.codes)
            gone = value < 0
        else:
            value = np.asarray(value)
            gone = np.isnan(value) if value.dtype.kind == "f" else np.zeros(value.shape, bool)
        value = value.transpose([term.dims.index(dim) for dim in node.dims])
        gone = gone.transpose([term.dims.index(dim) for dim in node.dims])
        if np.any(np.isinf(value)):
            row = int(np.nonzero(np.isinf(np.atleast_1d(value)))[0][0])
            raise DataError(f"column '{node.name}', row {row + 1} is infinite", path=node.path, code="not-finite")
        if np.any(gone):
            row = int(np.nonzero(np.atleast_1d(gone))[0][0])
            if node.discrete and (node.recursive or self._vector(node)):
                raise DataError(
                    f"column '{node.name}', row {row + 1} is missing and {node.distribution} is discrete; missing cells"
                    f" are not summed out where cells can depend on each other: drop these rows",
                    path=node.path,
                    code="missing",
                )
            if node.name in self.imputed and not self.own_sums:
                raise DataError(
                    f"column '{node.name}', row {row + 1} is missing and {node.distribution} is discrete; missing cells"
                    f" are not summed out where nodes without data or with missing cells of their own depend on them:"
                    f" drop these rows",
                    path=node.path,
                    code="missing",
                )
            if node.atoms and self.purpose == "fit":
                self._no_part_unknown(node, row)
            if not node.discrete:
                # Where a missing cell is left out of the density, what stands for it has to be a possible value.
                left_out = node.atoms or any(
                    name in self.nodes and self.nodes[name].hidden_path for name in self.summed
                )
                stands = value[~gone][0] if left_out and not np.all(gone) else 0.0
                return np.ma.masked_array(np.where(gone, stands, value), mask=gone)
        if node.discrete:
            broken = (value != np.floor(value)) & ~gone
            if value.dtype.kind == "f" and np.any(broken):
                row = int(np.nonzero(np.atleast_1d(broken))[0][0])
                raise DataError(
                    f"column '{node.name}', row {row + 1}: {np.atleast_1d(value).ravel()[row]} is not a whole number;"
                    f" {node.distribution} is discrete",
                    path=node.path,
                    code="not-whole",
                )
            far = ~gone & (np.abs(np.where(gone, 0, value).astype(float)) > MOST_COUNTED)
            if np.any(far):
                row = int(np.nonzero(np.atleast_1d(far))[0][0])
                raise DataError(
                    f"column '{node.name}', row {row + 1}: {np.atleast_1d(value).ravel()[row]} is beyond"
                    f" {MOST_COUNTED:,}, up to which floats hold every whole number; count in larger units",
                    path=node.path,
                    code="too-large",
                )
            counts = np.where(gone, 0, value).astype(np.int64)
            return np.ma.masked_array(counts, mask=gone) if np.any(gone) else counts
        return value.astype(np.float64)

    def _no_part_unknown(self, node: Node, row: int) -> None:
        """Missing cells of a node with atoms are left out, a factor of 1, where nothing depends on them."""
        where, below = f"column '{node.name}', row {row + 1} is missing", self._below(node.name)
        if below:
            raise DataError(
                f"{where}, {listed(below)} can depend on it, and {_probable(node)}, which the density of the cell"
                f" leaves out: drop these rows, or {_written_apart(node)}",
                path=node.path,
                code="missing",
            )
        if node.recursive or self._vector(node):
            raise DataError(
                f"{where}, its cells can depend on each other, and {_probable(node)}: drop these rows",
                path=node.path,
                code="missing",
            )

    def _below(self, name: str) -> list[str]:
        return [other.name for other in self.nodes.values() if name in other.parents]

    def _register(self, node: Node, drawn: Any, dims: tuple[str, ...], observed: Any, **extra: Any) -> None:
        import pytensor.tensor as pt

        if self.states and self._enter_states(node, drawn, dims, observed):
            return
        whole = None
        if node.name in self.imputed and np.ma.is_masked(observed):
            whole = self._missing_cells(node, drawn, dims, observed)
        if observed is None and self.purpose == "fit" and self._meets_latents(drawn):
            raise ModelError(
                f"'{node.name}' has no data and depends on a hidden path, which is summed out where what depends on it"
                f" is observed; write it as a computed node of what does not, such as mu[z] + sd * noise",
                path=node.path,
                code="discrete",
            )
        if observed is not None and self._meets_latents(drawn):
            from bayeslab.families.graph.discrete_nodes import observed_density

            if np.ma.is_masked(observed) and not node.discrete and (self._below(node.name) or self._vector(node)):
                row = int(np.nonzero(np.atleast_1d(np.ma.getmaskarray(observed)))[0][0])
                raise DataError(
                    f"column '{node.name}', row {row + 1} is missing, and"
                    f" {listed(self._below(node.name)) or 'cells of its vector'} can depend on it, which depends on a"
                    f" hidden path: drop these rows",
                    path=node.path,
                    code="missing",
                )
            value = self.pm.logp(drawn, np.ma.getdata(observed), warn_rvs=False)
            if np.ma.is_masked(observed):
                # Nothing depends on the gaps: a factor of 1.
                value = pt.switch(np.ma.getmaskarray(observed), 0.0, value)
            self.densities.append(observed_density(node.name, drawn, value, observed, dims))
            self.terms[node.name] = self._seen_as(node, np.asarray(observed) if whole is None else whole, dims)
            return
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*will be automatically imputed.*")
            warnings.filterwarnings("ignore", category=self.pm.exceptions.ImputationWarning)
            summed = (node.discrete or node.atoms) and self.purpose == "fit"
            if summed and observed is not None and np.ma.is_masked(observed):
                self._register_present(node, drawn, dims, observed)
                if whole is not None:
                    self.terms[node.name] = self._seen_as(node, whole, dims)
                return
            if self.purpose != "fit":
                # A transform is for sampling a density; here the node is only drawn from.
                warnings.filterwarnings("ignore", message="No safe default transform found")
            # PyMC makes whole numbers those of 32 bits, and floats those of the variable's type.
            seen = None if observed is None else observed.astype(np.float64)
            rv = self.model.register_rv(drawn, node.name, observed=seen, dims=dims or None, **extra)
        if np.ma.is_masked(observed) and len(dims) == 1:
            # The imputed cells are a parameter of their own; its dimension says which rows they are.
            missing = f"{node.name}_missing"
            self.model.add_coord(missing, self.labels[dims[0]][np.ma.getmaskarray(observed)].tolist())
            self.model.named_vars_to_dims[f"{node.name}_unobserved"] = (missing,)
        self.terms[node.name] = Term(rv, dims) if observed is None else self._seen_as(node, rv, dims)

    def _seen_as(self, node: Node, value: Any, dims: tuple[str, ...]) -> Term:
        """A node with data as expressions see it: a factor where its cells are levels."""
        term = self.data.term(node.name, missing=True)
        if term.value is None:
            return Term(None, dims, codes=value, factor=term.factor, column=node.name)
        return Term(value, dims, given=node.name not in self.summed)

    def _missing_cells(self, node: Node, drawn: Any, dims: tuple[str, ...], observed: Any) -> Any:
        """The node with a symbol for its missing cells, which are summed out as a discrete node of their own is."""
        import pytensor.tensor as pt

        from bayeslab.families.graph.discrete_nodes import states_of
        from bayeslab.families.graph.discrete_tables import Latent

        gone, name = np.ma.getmaskarray(observed), f"{node.name}_unobserved"
        try:
            states = states_of(node.name, drawn, list(self.latents.values()), self.model)
        except ModelError:
            row = int(np.nonzero(gone)[0][0])
            raise DataError(
                f"column '{node.name}', row {row + 1} is missing, {listed(self._below(node.name))} can depend on it,"
                f" and {node.distribution} has no known largest value to sum up to: drop these rows, or write"
                f" Truncated({node.distribution}(...), upper=...)",
                path=node.path,
                code="missing",
            ) from None
        symbol = pt.tensor(name, dtype="int64", shape=(int(gone.sum()),))
        # Where each cell is taken from: the data, or behind them the symbol.
        place = np.arange(gone.size)
        place[gone.ravel()] = gone.size + np.arange(int(gone.sum()))
        given = pt.constant(np.ma.getdata(observed).ravel().astype(np.int64))
        whole = pt.concatenate([given, symbol])[pt.constant(place)].reshape(gone.shape)
        self.latents[name] = Latent(name, symbol, (int(gone.sum()),), *states)
        value = self.pm.logp(drawn, whole, warn_rvs=False).ravel()[pt.constant(np.flatnonzero(gone))]
        self.densities.append(self._density(name, value, (), observed=False))
        if len(dims) == 1:
            missing = f"{node.name}_missing"
            self.model.add_coord(missing, self.labels[dims[0]][gone].tolist())
            self.model.named_vars_to_dims[name] = (missing,)
        return whole

    def _register_present(self, node: Node, drawn: Any, dims: tuple[str, ...], observed: Any) -> None:
        """Only the cells that are there: summed out, a missing one on which no node depends is a factor of 1."""
        from bayeslab.families.graph.present import present

        drawn.name = node.name
        values = observed.compressed().astype(np.float64)
        self.model.register_rv(present(drawn, observed), f"{node.name}_observed", observed=values)
        self.model.named_vars_to_dims[node.name] = dims

    def _vector(self, node: Node) -> bool:
        """Whether one value of the node is a vector."""
        assert isinstance(node.expression.tree, ast.Call)
        return DISTRIBUTIONS[str(node.distribution)].support > 0 if node.distribution in DISTRIBUTIONS else False

    def _conditioned(self, node: Node, tree: ast.Call, observed: Any, rows: int) -> None:
        """A node whose first rows are given: they have no density and are not predicted."""
        dim = node.dims[-1]
        late = f"{dim}_from_{rows}"
        self.labels[late] = self.labels[dim][rows:]
        self.model.add_coord(late, self.labels[late].tolist())
        dims = (*node.dims[:-1], late)
        self._late = (dim, late, rows)
        try:
            drawn, _ = self._with_own_past(node, lambda: self.distribution(tree, dims))
        finally:
            del self._late
        self._register(node, drawn, dims, observed[..., rows:] if observed is not None else None)
        given = self.data_of(node.name, missing=True).value
        if given is not None and not np.any(np.isnan(given[..., :rows])):
            import pytensor.tensor as pt

            late_rows = self.terms[node.name].value
            whole = pt.concatenate([given[..., :rows].astype(late_rows.dtype), late_rows], axis=-1)
            self.terms[node.name] = Term(whole, node.dims)

    def _ordered(self, node: Node, word: str, tree: ast.Call, observed: Any) -> None:
        if observed is not None:
            raise ModelError(f"{word}(...) is for parameters; '{node.name}' is observed", code="misplaced")
        if not node.dims:
            raise ModelError(f"{word}(...) needs a dimension: {node.name}[k]", code="bad-dimensions")
        inner = bound_arguments(tree, word)["dist"]
        assert isinstance(inner, ast.Call)
        drawn = self.distribution(inner, node.dims)
        shape = self.lengths(node.dims)
        if word == "PositiveOrdered":
            from bayeslab.families.graph.tails import truncated

            drawn = truncated(self.pm.Truncated.dist(drawn, lower=0, shape=shape))
        if self.purpose == "simulate":
            if not self._exchangeable(inner, node.dims[-1]):
                raise ModelError(
                    f"prior draws of {word}(...) need the same parameters for every element along '{node.dims[-1]}'",
                    code="unsupported",
                )
            unsorted = self.model.register_rv(drawn, f"_{node.name}_unordered", dims=node.dims)
            value = self.pm.Deterministic(node.name, unsorted.sort(axis=-1), dims=node.dims)
            self.terms[node.name] = Term(value, node.dims)
            return
        transforms = self.pm.distributions.transforms
        extra: dict[str, Any] = {"transform": transforms.ordered}
        if word == "PositiveOrdered":
            extra = {"transform": transforms.Ordered(positive=True), "default_transform": None}
        self._register(node, drawn, node.dims, None, initval=_spread(drawn, shape), **extra)

    def _exchangeable(self, tree: ast.Call, dim: str) -> bool:
        values = [*tree.args, *(k.value for k in tree.keywords)]
        return all(dim not in self.evaluator.eval(v).dims and None not in self.evaluator.eval(v).dims for v in values)

    def _correlations(self, node: Node, word: str, tree: ast.Call) -> None:
        pm = self.pm
        if len(node.dims) != 2 or len(set(self.lengths(node.dims))) != 1:
            raise ModelError(
                f"{word} is a square matrix: {node.name}[dim, dim2], with dim2 a twin of dim", code="bad-dimensions"
            )
        size = self.lengths(node.dims)[0]
        given = bound_arguments(tree, word)
        if "n" in given and self._literal(given["n"], "n") != size:
            raise ModelError(
                f"{word}(n={ast.unparse(given['n'])}) on a dimension of length {size}", code="wrong-length"
            )
        if "eta" not in given:
            raise ModelError(f"{word}() needs 'eta'", code="wrong-arguments")
        eta = self.evaluator.symbolic(self.evaluator.eval(given["eta"]))
        if word == "LKJCorr":
            factor = self._correlation_factor(node.name, eta, size)
            self.terms[node.name] = Term(pm.Deterministic(node.name, factor @ factor.T, dims=node.dims), node.dims)
            return
        if "sd_dist" not in given:
            raise ModelError(
                "LKJCholeskyCov() needs 'sd_dist', a positive distribution such as Exponential(1)",
                code="wrong-arguments",
            )
        inner = given["sd_dist"]
        assert isinstance(inner, ast.Call)
        deviations = self.distribution(inner, node.dims[:1])
        for suffix in ("corr", "stds"):
            if f"{node.name}_{suffix}" in self.nodes:
                raise ModelError(
                    f"'{node.name}_{suffix}' is made by '{node.name}' itself; rename the other node", code="name-clash"
                )
        if self.purpose == "simulate":
            factor = self._correlation_factor(node.name, eta, size)
            stds = self.model.register_rv(deviations, f"{node.name}_stds", dims=node.dims[:1])
            chol, corr = factor * stds[:, None], factor @ factor.T
        else:
            from bayeslab.families.graph.lkj import cholesky_covariance

            chol, corr, stds = cholesky_covariance(f"{node.name}_packed", eta, size, deviations)
            stds = pm.Deterministic(f"{node.name}_stds", stds, dims=node.dims[:1])
        self.terms[node.name] = Term(pm.Deterministic(node.name, chol, dims=node.dims), node.dims)
        self.terms[f"{node.name}_stds"] = Term(stds, node.dims[:1])
        corr = pm.Deterministic(f"{node.name}_corr", corr, dims=node.dims)
        self.terms[f"{node.name}_corr"] = Term(corr, node.dims)

    def _correlation_factor(self, name: str, eta: Any, size: int) -> Any:
        """Cholesky factor of a matrix with an LKJ distribution, from independent partial correlations.

        The partial correlation of two variables given those before both is a Beta on (-1, 1):
        Lewandowski, Kurowicka and Joe (2009), J. Multivariate Analysis 100, section 2.4 (a C-vine).

        PyMC 6.3 is not used for this. Its ``LKJCorr`` is the factor, not the matrix, and its density
        lacks the Jacobian between them; its draws, also those of ``LKJCholeskyCov``, take the Beta of
        the onion method one step too wide from the third variable on, so that correlations come out
        too small. The density of its ``LKJCholeskyCov`` is right but for a constant, see
        :mod:`bayeslab.families.graph.lkj`.
        """
        import pytensor.tensor as pt

        rows, columns = np.tril_indices(size, -1)
        alpha = eta + (size - 2 - columns) / 2.0
        drawn = self.pm.Beta.dist(alpha, alpha, shape=len(rows))
        unit = self.model.register_rv(drawn, f"{name}_partial")
        partial = pt.zeros((size, size))[rows, columns].set(2.0 * unit - 1.0)
        # What the variables before leave unexplained.
        rest = pt.concatenate([pt.ones((size, 1)), pt.cumprod(1.0 - partial**2, axis=1)[:, :-1]], axis=1)
        return (partial + pt.eye(size)) * pt.sqrt(rest)

    # -- distributions

    def distribution(self, tree: ast.expr, dims: tuple[str, ...]) -> Any:
        """A distribution's call as an unnamed random variable with the given dims."""
        assert isinstance(tree, ast.Call)
        word = str(call_name(tree))
        build = getattr(self, f"_dist_{word}", None)
        if build is not None:
            return build(tree, dims)
        return self._plain(word, DISTRIBUTIONS[word], tree, dims)

    def _plain(self, word: str, entry: Distribution, tree: ast.Call, dims: tuple[str, ...]) -> Any:
        given = bound_arguments(tree, word)
        support = entry.support
        if word == "ZeroSumNormal" and "n_zerosum_axes" in given:
            support = int(self._literal(given["n_zerosum_axes"], "n_zerosum_axes"))
        if len(dims) < support:
            raise ModelError(
                f"{word} draws a {'vector' if support == 1 else 'matrix'}: its node needs {support} dimension"
                f"{'s' if support > 1 else ''}, as in name[{', '.join(f'dim{i + 1}' for i in range(support))}]",
                code="bad-dimensions",
            )
        batch = dims[: len(dims) - support]
        own = dims[len(dims) - support :]
        parameters: dict[str, Any] = {}
        for name, value in given.items():
            if name in entry.distributions:
                parameters[name] = self._inner(word, name, value, dims, given)
            elif name in entry.lengths or name in ("n_zerosum_axes", "constant"):
                parameters[name] = self._literal(value, name)
            elif name in entry.fixed:
                parameters[name] = self._fixed(value, entry.core.get(name, 0), name)
            else:
                parameters[name] = self.parameter(
                    self.evaluator.eval(value), batch, own, entry.core.get(name, 0), name, name in entry.apart
                )
            if entry.core.get(name) == 2 and parameters[name].dtype != "float64":
                parameters[name] = parameters[name].astype("float64")  # a matrix of counts, such as who is next to whom
        for name in entry.lengths:
            # K breaks of a stick leave K + 1 pieces.
            length = self.lengths(own)[-1] - int(word == "StickBreakingWeights")
            if parameters.setdefault(name, length) != length:
                raise ModelError(
                    f"{word}({name}={parameters[name]}) where the node's dimension needs {name}={length}",
                    code="wrong-length",
                )
        if "init_dist" in entry.distributions and "init_dist" not in given:
            raise ModelError(
                f"{word}() needs init_dist, the distribution of the first value, such as Normal(0, 1)",
                code="wrong-arguments",
            )
        if word in ("Categorical", "OrderedLogistic", "OrderedProbit"):
            return self._categories(word, parameters, self.lengths(dims))
        if word == "HyperGeometric":
            parameters = {name: value.astype("int64") for name, value in parameters.items()}
        if word in OF_TRIALS and self.purpose != "fit" and "n" in parameters:
            parameters["n"] = parameters["n"].astype("int64")  # a column of whole numbers may be one of floats
        maker = pymc_class(word)
        if word == "OrderedMultinomial":
            parameters["compute_p"] = False
        return maker.dist(**parameters, shape=self.lengths(dims))

    def _categories(self, word: str, parameters: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
        """Categories by log probabilities, which do not underflow, wherever these can be had."""
        from bayeslab.families.graph.tails import LogCategorical, ordered, softmax_input

        if word != "Categorical":
            if not {"eta", "cutpoints"} <= parameters.keys():
                raise ModelError(f"{word}() needs 'eta' and 'cutpoints'", code="wrong-arguments")
            return LogCategorical.dist(ordered(word, **parameters), shape=shape)
        logits = parameters.get("logit_p")
        if logits is None and "p" in parameters:
            logits = softmax_input(parameters["p"])
        if logits is None or parameters.keys() >= {"p", "logit_p"}:
            return self.pm.Categorical.dist(**parameters, shape=shape)
        return LogCategorical.dist(logits, shape=shape)

    def _inner(
        self, word: str, name: str, value: ast.expr, dims: tuple[str, ...], given: Mapping[str, ast.expr]
    ) -> Any:
        """A distribution that is a parameter: the start or the steps of a time series."""
        batch = dims[: len(dims) - DISTRIBUTIONS[word].support]
        assert isinstance(value, ast.Call)
        if word.startswith("Mv"):
            return self.distribution(value, (*batch, dims[-1]))
        if word == "AR":
            rho = self.evaluator.eval(given["rho"])
            rho = replace(rho, dims=tuple(d for d in rho.dims if d not in batch or d is None))
            order = self.length_of(rho) - int(
                "constant" in given and bool(self._literal(given["constant"], "constant"))
            )
            inner = str(call_name(value))
            parameters = {
                n: self.parameter(self.evaluator.eval(v), batch, (), 0, n)
                for n, v in bound_arguments(value, inner).items()
            }
            expanded = {n: p[..., None] if getattr(p, "ndim", 0) else p for n, p in parameters.items()}
            return pymc_class(inner).dist(**expanded, shape=(*self.lengths(batch), order))
        if word == "RandomWalk" and name == "innovation_dist":
            return self.distribution(value, batch)
        return self.distribution(value, batch)

    def length_of(self, term: Term) -> int:
        """Length of a term's last axis."""
        if not term.dims:
            return 1
        known = self.evaluator.length(term.dims[-1])
        return (
            known
            if known is not None
            else int(np.shape(term.value)[-1] if not term.random else term.value.type.shape[-1])
        )

    def _fixed(self, value: ast.expr, core: int, name: str) -> np.ndarray:
        """A parameter that must be an array of numbers when the distribution is made."""
        term = self.evaluator.eval(value)
        if term.random or term.value is None or len(term.dims) != core:
            raise ModelError(
                f"'{name}' must be {'a matrix' if core == 2 else 'a list'} of numbers, known before sampling",
                code="not-a-number",
            )
        return np.asarray(term.value)

    def _literal(self, value: ast.expr, name: str) -> Any:
        term = self.evaluator.eval(value)
        if term.random or np.ndim(term.value):
            raise ModelError(f"'{name}' must be a plain number, known before sampling", code="not-a-number")
        return bool(term.value) if name == "constant" else int(term.value)

    def parameter(
        self,
        term: Term,
        batch: tuple[str, ...],
        own: tuple[str, ...],
        core: int,
        name: str,
        apart: bool = False,
    ) -> Any:
        """A parameter laid out as batch dims, then its core dims.

        ``apart`` says that its core dimension has nothing to do with the node's.
        """
        self._note(term)
        term = self._late_rows(term)
        if core == 0:
            (value,), _, _ = self.evaluator.align([term], onto=batch)
            if term.dims and all(d is None for d in term.dims) and not batch:
                raise ModelError(
                    f"the parameter '{name}' is a list, but the node is a single number; give it dims",
                    code="bad-dimensions",
                )
            return self.evaluator.symbolic(Term(value, batch)) if not term.column else self._aligned_symbol(term, batch)
        rest = tuple(d for d in term.dims if d not in batch or d is None)
        if len(rest) < core:
            if core == 1 and (own or apart) and not rest:
                # One number for every element of the vector, as in Dirichlet(1).
                import pytensor.tensor as pt

                base = self.parameter(term, batch, own, 0, name)
                size = 1 if apart else self.lengths(own)[-1]
                return pt.shape_padright(base) * np.ones(size) if term.dims else base * np.ones(size)
            raise ModelError(
                f"the parameter '{name}' needs {core} dimension{'s' if core > 1 else ''} of its own besides the"
                f" node's ({', '.join(batch) or 'none'}); it has ({', '.join(str(d) for d in term.dims)})",
                code="bad-dimensions",
            )
        if len(rest) > core and all(dim is None for dim in rest):
            raise ModelError(
                f"the parameter '{name}' is lists in a list, which do not say along which dimensions they run: give"
                f" them a node, such as {name}[row, column]: [[1, 2], [3, 4]], and use its name",
                code="bad-dimensions",
            )
        if len(rest) > core:
            extra = [str(d) for d in rest if d not in own]
            raise ModelError(
                f"the parameter '{name}' runs along {listed(extra or rest)}, which the node does not have:"
                f" add the dimension to the node, index it, or sum over it",
                code="bad-dimensions",
            )
        if (
            core == 1
            and own
            and not apart
            and rest[0] is not None
            and rest[0] != own[-1]
            and self.evaluator.length(rest[0]) != len(self.labels[own[-1]])
        ):
            raise ModelError(
                f"the parameter '{name}' runs along '{rest[0]}' ({self.evaluator.length(rest[0])}), the node along"
                f" '{own[-1]}' ({len(self.labels[own[-1]])})",
                code="bad-dimensions",
            )
        if None in term.dims:
            return self.evaluator.symbolic(term)
        value = self.evaluator.symbolic(term)
        head = tuple(d for d in batch if d in term.dims)
        order = [term.dims.index(d) for d in (*head, *rest)]
        value = value.transpose(*order) if order != sorted(order) else value
        index = tuple(slice(None) if d in head else None for d in batch)
        return value[index] if head and len(head) < len(batch) else value

    def _aligned_symbol(self, term: Term, batch: tuple[str, ...]) -> Any:
        symbol = self.evaluator.symbolic(term)
        (value,), _, _ = self.evaluator.align([Term(symbol, term.dims)], onto=batch)
        return value

    def _note(self, term: Term) -> None:
        for dim, rows in term.undefined.items():
            undefined = self.__dict__.setdefault("_undefined", {})
            undefined[dim] = max(undefined.get(dim, 0), rows)

    def _late_rows(self, term: Term) -> Term:
        """Cut a term to the rows that have a density (see ``_conditioned``)."""
        if not hasattr(self, "_late") or self._late[0] not in term.dims:
            return term
        dim, late, rows = self._late
        value = self.evaluator.symbolic(term) if term.random else np.asarray(term.value)
        value = value[(slice(None),) * term.dims.index(dim) + (slice(rows, None),)]
        return Term(value, tuple(late if d == dim else d for d in term.dims))

    def _bounds(self, tree: ast.Call, word: str, dims: tuple[str, ...]) -> dict[str, Any]:
        given = bound_arguments(tree, word)
        return {
            name: self.parameter(self.evaluator.eval(given[name]), dims, (), 0, name)
            for name in ("lower", "upper")
            if name in given and not (isinstance(given[name], ast.Constant) and given[name].value is None)  # type: ignore[attr-defined]
        }

    def _dist_Truncated(self, tree: ast.Call, dims: tuple[str, ...]) -> Any:
        base = self.distribution(bound_arguments(tree, "Truncated")["dist"], dims)
        from bayeslab.families.graph.tails import truncated

        made = self.pm.Truncated.dist(base, **self._bounds(tree, "Truncated", dims), shape=self.lengths(dims))
        return truncated(made)

    def _dist_Censored(self, tree: ast.Call, dims: tuple[str, ...]) -> Any:
        from bayeslab.families.graph.tails import censored

        base = self.distribution(bound_arguments(tree, "Censored")["dist"], dims)
        bounds = {"lower": None, "upper": None} | self._bounds(tree, "Censored", dims)
        return censored(self.pm.Censored.dist(base, **bounds, shape=self.lengths(dims)))

    def _dist_Mixture(self, tree: ast.Call, dims: tuple[str, ...]) -> Any:
        given = bound_arguments(tree, "Mixture")
        weights, parts = self.evaluator.eval(given["w"]), given["comp_dists"]
        listed_parts = isinstance(parts, ast.List | ast.Tuple)
        support = _support(parts.elts[0] if isinstance(parts, ast.List | ast.Tuple) else parts)
        batch = dims[: len(dims) - support]
        own = [d for d in weights.dims if d not in batch or d is None]
        if len(own) != 1:
            raise ModelError(
                f"the weights of a Mixture need one dimension of their own, the components; they have"
                f" ({', '.join(str(d) for d in weights.dims)})",
                code="bad-dimensions",
            )
        component = own[0]
        w = self.parameter(weights, batch, (), 1, "w")
        if listed_parts:
            assert isinstance(parts, ast.List | ast.Tuple)
            if self.length_of(replace(weights, dims=(component,))) != len(parts.elts):
                raise ModelError(
                    f"a Mixture of {len(parts.elts)} distributions with {self.length_of(weights)} weights",
                    code="wrong-length",
                )
            comps: Any = [self.distribution(part, dims) for part in parts.elts]
        else:
            if component is None:
                raise ModelError(
                    "Mixture(w, D(...)) finds its components by name: give the weights a node with a dimension"
                    " that the parameters of D share, or list the components: Mixture(w, [D(...), D(...)])",
                    code="bad-dimensions",
                )
            comps = self.distribution(parts, (*batch, component, *dims[len(dims) - support :]))
        return self.pm.Mixture.dist(w=w, comp_dists=comps, shape=self.lengths(dims))


def _probable(node: Node) -> str:
    """What a node with atoms gives a probability, as a clause."""
    return f"{node.distribution} gives {listed(sorted(node.atoms))} a probability above zero"


def _written_apart(node: Node) -> str:
    """How a node with atoms is written of parts that can be sampled or summed out."""
    words = {call_name(part) for part in ast.walk(node.expression.tree) if isinstance(part, ast.expr)}
    if "Censored" in words:
        return f"give what is censored a node of its own, and '{node.name}' as clip(..., lower, upper) of it"
    return f"give whether it is 0 a Bernoulli node, its size a node, and '{node.name}' as their product"


def _support(tree: ast.expr) -> int:
    """Support dimensions of a component's distribution."""
    word = call_name(tree)
    if word in ("Truncated", "Censored"):
        assert isinstance(tree, ast.Call)
        return _support(bound_arguments(tree, word)["dist"])
    return DISTRIBUTIONS[str(word)].support


def _spread(drawn: Any, shape: tuple[int, ...]) -> np.ndarray:
    """An increasing starting point for an ordered vector: typical order statistics of its prior."""
    import pytensor
    from pymc.pytensorf import compile as compile_pymc

    try:
        draw = compile_pymc([], drawn, mode=pytensor.compile.mode.Mode("py", "fast_compile"), random_seed=0)
        several = np.median(np.sort([draw() for _ in range(101)], axis=-1), axis=0)
    except (NotImplementedError, ValueError):
        # A prior that cannot be drawn from (Flat): equally spaced.
        several = np.broadcast_to(np.arange(1.0, shape[-1] + 1.0), shape).copy()
    gaps = np.diff(several, axis=-1)
    if np.any(gaps <= 0):
        several = several + np.arange(shape[-1]) * 1e-3
    return several


@contextmanager
def _node_errors(node: Node) -> Iterator[None]:
    """Errors while building a node point at it, also those that PyMC raises."""
    try:
        yield
    except BayeslabError as error:
        if error.path or isinstance(error, DataError):
            raise
        raise type(error)(error.message, path=node.path, offset=error.offset, code=error.code) from error.__cause__
    except (ValueError, TypeError, NotImplementedError, IndexError, AssertionError, KeyError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = lines[0] if lines else type(error).__name__
        raise ModelError(f"PyMC cannot build '{node.name}': {said}", path=node.path, code="failed") from error
