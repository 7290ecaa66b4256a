"""Scope of names while a graph is built: the meaning of each name in the expressions of nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sized
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.errors import DataError, ModelError, listed
from bayeslab.families.graph.discrete_layout import Latent
from bayeslab.families.graph.gaps import leaves_gaps_out, nodes_with_gaps
from bayeslab.families.graph.spec import spec_of
from bayeslab.language.algebra import Term
from bayeslab.language.backends import PYTENSOR, Backend
from bayeslab.language.evaluator import Evaluator
from bayeslab.language.functions import as_float
from bayeslab.language.nodes import check_nodes, nodes_of, sorted_nodes
from bayeslab.language.spec import Model

__all__ = ["Purpose", "Scope", "lengths_of", "twins_of"]

type Purpose = Literal["fit", "predict", "simulate"]


def twins_of(model: Model) -> dict[str, str]:
    """Twin dimensions, each with the dimension it is a twin of."""
    return {dim: entry for dim, entry in model.dims.items() if isinstance(entry, str)}


def lengths_of(dims: Iterable[str], labels: Mapping[str, Sized]) -> tuple[int, ...]:
    """The lengths of dimensions; a dimension without a length is refused."""
    for dim in dims:
        if dim not in labels:
            raise ModelError(
                f"the dimension '{dim}' has no length: no column or table defines it; declare it in dims"
                f" (a list of labels or a length); known: {listed(labels)}",
                code="unknown-dimension",
            )
    return tuple(len(labels[dim]) for dim in dims)


class Scope:
    """Nodes, columns and dimensions by their names, for one model: a PyMC graph, unless a subclass says otherwise.

    Parameters
    ----------
    model, data
        The model and the data bound to it.
    purpose
        Purpose of the graph; see :func:`bayeslab.families.graph.graph`.
    targets
        Observed nodes that are random nevertheless, for ``predict``.
    """

    def __init__(self, model: Model, data: Data, purpose: Purpose, targets: Collection[str]) -> None:
        self.data, self.purpose = data, purpose
        self.nodes = nodes_of(spec_of(model).nodes)
        self.labels = dict(data.labels)
        self.columns = data.names()
        check_nodes(self.nodes, self.labels, self.columns, model.data.derive)
        random = {node.name for node in self.nodes.values() if node.kind == "random"}
        for node in self.nodes.values():
            if node.name in self.columns and node.kind != "random":
                raise ModelError(
                    f"'{node.name}' is a column of the data and a {node.kind} node; rename the node"
                    f" (computed columns belong in data.derive)",
                    path=(*node.path, "[key]"),
                    code="name-clash",
                )
        free = {"fit": set[str](), "predict": set(targets), "simulate": random}[purpose]
        self.observed = (random & self.columns) - free
        # Nodes whose data lag may use before they are built.
        self.data_nodes = random & self.columns if purpose != "simulate" else set()
        self.terms: dict[str, Term] = {}
        # Discrete nodes to be summed out, and functions of them, which have no value in a draw.
        self.summed = {n for n in random - self.columns if self.nodes[n].discrete} if purpose == "fit" else set()
        # Observed discrete nodes whose missing cells are summed out as well.
        self.imputed = set(nodes_with_gaps(self.nodes, data)) & self.observed if purpose == "fit" else set()
        self.summed |= self.imputed
        self.latents: dict[str, Latent] = {}
        # Otherwise pymc-extras sums them out.
        self.own_sums = bool(self.summed) and not self._open_below()
        # A text outcome is both a node and a dimension (its levels); PyMC allows only one of the two.
        self.twins = twins_of(model)
        coords = {dim: levels.tolist() for dim, levels in self.labels.items() if dim not in self.nodes}
        self.symbols: dict[str, Any] = {}
        self.evaluator = Evaluator(
            self.lookup,
            self.labels,
            data.frozen,
            self.symbol,
            past=self.past,
            rows=data.dataset.rows,
            cells=data.cells,
            backend=self.start(coords),
        )

    def start(self, coords: Mapping[str, list[Any]]) -> Backend:
        """Start an empty model, and return the backend of its expressions."""
        import pymc as pm

        self.pm: Any = pm
        self.model = pm.Model(coords=coords, check_bounds=True)
        return PYTENSOR

    def coordinate(self, dim: str, labels: list[Any]) -> None:
        """Add a dimension to the model."""
        self.model.add_coord(dim, labels)

    def _open_below(self) -> bool:
        """Whether the density of a sampled node depends on an unobserved discrete node."""
        if any(self.nodes[name].hidden_path for name in self.summed):
            return False  # sampled nodes that depend on a path are refused when they are built
        tied = set(self.summed)
        for node in sorted_nodes(self.nodes, self.data_nodes):
            if not node.parents & tied or node.name in self.summed:
                continue
            if node.kind == "deterministic":
                tied.add(node.name)
            elif node.kind == "random" and node.name not in self.columns:
                return True
            elif node.kind == "random" and not (node.discrete or node.atoms or self.complete(node.name)):
                imputed = not leaves_gaps_out(self.nodes, node)
                if imputed:
                    return True
        return False

    def lookup(self, name: str) -> Term:
        if name in self.terms:
            return self.terms[name]
        if name in self.nodes and name not in self.data_nodes:
            raise ModelError(
                f"'{name}' and another node depend on each other's past, and '{name}' has no data here",
                code="no-data",
            )
        return self.data_of(name) if name in self.nodes else self.data.term(name)

    def past(self, name: str) -> Term:
        """The variable that ``lag`` uses: for an observed node its data, even before it is built."""
        return self.data_of(name) if name in self.data_nodes and self.complete(name) else self.lookup(name)

    def complete(self, name: str) -> bool:
        """Whether a column has no missing cells to impute."""
        return self.data.complete(name)

    def data_of(self, name: str, *, missing: bool = False) -> Term:
        """The data of a node, its axes in the order of the node's dims."""
        term, dims = self.data.term(name, missing=missing), self.nodes[name].dims
        if term.value is None or term.dims == dims or set(term.dims) != set(dims):
            return term
        return replace(term, value=term.value.transpose([term.dims.index(d) for d in dims]), dims=dims, column=None)

    def symbol(self, term: Term) -> Any:
        """A data column as a variable, registered in the model on first use."""
        name = str(term.column)
        if name in self.nodes or name in self.labels or None in term.dims or not term.dims:
            return self.evaluator.backend.constant(np.asarray(term.value))
        if name not in self.symbols:
            self.symbols[name] = self.given(name, term.value, term.dims)
        return self.symbols[name]

    def given(self, name: str, value: Any, dims: tuple[Any, ...]) -> Any:
        """Data in the graph; integers beyond PyMC's 32 bits become floats."""
        array = np.asarray(value)
        narrow = np.iinfo(np.int32)
        if array.dtype.kind in "iu" and array.size and (array.min() < narrow.min or array.max() > narrow.max):
            try:
                array = as_float(array)
            except DataError as error:
                raise DataError(f"column '{name}': {error.message}", code=error.code) from None
        return self.pm.Data(name, array, dims=dims, model=self.model)

    def lengths(self, dims: tuple[str, ...]) -> tuple[int, ...]:
        return lengths_of(dims, self.labels)

    def positive(self, value: Any) -> bool:
        """Whether a variable is a vector of positive probabilities by construction."""
        from bayeslab.families.graph.graph_values import positive

        return positive(value)

    def log_or_nothing(self, value: Any) -> Any:
        """The logarithm; -inf with derivative 0 at zero."""
        from bayeslab.families.graph.graph_values import log_or_nothing

        return log_or_nothing(value)

    def stationary(self, probabilities: Any) -> Any:
        """The stationary distribution of transition probabilities (..., states, states) between recurrent states."""
        from bayeslab.families.graph.graph_values import stationary

        return stationary(probabilities)

    def drawn(self, value: Any) -> np.ndarray | None:
        """A few values of a variable, with parameters drawn from their priors; None if they cannot be drawn."""
        from bayeslab.families.graph.graph_values import drawn

        return drawn(value, self.latents.values())
