"""The nodes of a graph on their natural scale, as a program of the density machine: for draws, and for densities."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.errors import DataError
from bayeslab.families.graph.gaps import below
from bayeslab.families.graph.hidden_paths import hidden_path
from bayeslab.families.graph.lowered_recursions import RowsInTurn
from bayeslab.families.graph.lowering import DRAWS, NaturalScale
from bayeslab.families.graph.path_laws import HiddenPath
from bayeslab.families.graph.processes import JITTER, Process
from bayeslab.families.graph.scope import Purpose
from bayeslab.language.algebra import Term
from bayeslab.language.nodes import Node
from bayeslab.language.spec import Model
from bayeslab.latents.gaussian_process.gaussian_process import at_new_inputs
from bayeslab.posterior.machine.arrays import NotLowered, Var
from bayeslab.posterior.machine.generative import MachineGenerative, ObservedNode, RandomNode
from bayeslab.posterior.machine.laws import Law, Scalar
from bayeslab.posterior.machine.transforms import Transform

__all__ = ["generative"]


def generative(model: Model, data: Data, purpose: Purpose, targets: Collection[str]) -> MachineGenerative:
    """The nodes of a model on its data.

    Parameters
    ----------
    purpose, targets
        As for a graph: see :meth:`bayeslab.families.graph.posterior.GraphPosterior.graph`.

    Raises
    ------
    NotLowered
        The machine does not know a part of the model.
    """
    walk = _Generative(model, data, {}, frozenset(), purpose, targets)
    walk.walk()
    values = {name: walk.builder.as_var(walk.terms[name].value) for name in walk.computed_nodes}
    return MachineGenerative(
        walk.builder, tuple(walk.random_nodes), values, tuple(walk.observed_nodes), walk.dims, walk.coords
    )


@dataclass(frozen=True, eq=False)
class _Path(Law):
    """A path of hidden states.

    Attributes
    ----------
    path : HiddenPath
    """

    path: HiddenPath

    def log_density(self, x: Var) -> Var:
        raise NotLowered("path", "the density of a path that is known")

    @property
    def inputs(self) -> tuple[Var, ...]:
        return (self.path.logs,)

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        return self.path.law.simulate(np.ascontiguousarray(inputs[0]), rng).reshape(self.shape)


@dataclass(frozen=True, eq=False)
class _AtNewInputs(Law):
    """Values of functions at new inputs, given those at other inputs.

    Attributes
    ----------
    process : Process
    theta : Var
        Hyperparameters.
    z : Var (functions, inputs)
        Standard normals that the values at the other inputs are made of.
    x, new : ndarray
        Inputs.
    """

    process: Process
    theta: Var
    z: Var
    x: np.ndarray
    new: np.ndarray

    def log_density(self, x: Var) -> Var:
        raise NotLowered("GaussianProcess", "the density of a function at new inputs")

    @property
    def inputs(self) -> tuple[Var, ...]:
        return (self.theta, self.z)

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        theta, z = inputs
        weights, spread = at_new_inputs(self.process.kernel, theta, self.x, self.new, nugget=JITTER)
        return z @ weights.T + rng.standard_normal((len(z), len(self.new))) @ spread.T


class _Generative(NaturalScale):
    """Lowers nodes that are drawn one after another, without densities of those that hold no data."""

    random_nodes: list[RandomNode]
    observed_nodes: list[ObservedNode]

    def walk(self) -> None:
        """Evaluate every node."""
        self.random_nodes, self.observed_nodes = [], []
        super().walk()

    def potential(self, node: Node, value: Any) -> None:
        """Potentials are not drawn."""

    def free(
        self, name: str, law: Law, dims: tuple[str, ...], transform: Transform | None, start: Var | None = None
    ) -> Var:
        value = self.parameter_of(law.shape, transform)[1]
        self._add(RandomNode(name, law, value), dims)
        return value

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
        assert isinstance(law, RowsInTurn)
        if not isinstance(law.law, Scalar):
            raise NotLowered(name, "rows that depend on those before, and are not single numbers")
        self._add(RandomNode(name, law.law, value, in_turn=True), dims)

    def _add(self, node: RandomNode, dims: tuple[str, ...]) -> None:
        self.random_nodes.append(node)
        if dims:
            self.dims[node.name] = dims

    def in_order(self, node: Node, law: Scalar, positive: bool) -> Var:
        if not (law.exchangeable or all(parameter.constant for parameter in law.parameters)):
            # The probability of the order depends on other nodes, whose prior it changes.
            raise NotLowered(node.name, "draws of an ordered vector whose elements have different distributions")
        value = self.parameter_of(law.shape, None)[1]
        self._add(RandomNode(node.name, law, value, in_order=True), node.dims)
        return value

    def register(self, node: Node, drawn: Any, dims: tuple[str, ...], observed: Any) -> None:
        law: Law = drawn
        if observed is None:
            discrete, shape = node.discrete, law.shape
            value = self.builder.unknown(shape) if discrete else self.parameter_of(shape, law.transform())[1]
            self._add(RandomNode(node.name, law, value), dims)
            self.terms[node.name] = Term(value, dims)
            return
        cells, gone = np.asarray(np.ma.getdata(observed)), np.ma.getmaskarray(observed)
        self.dims[node.name] = dims
        if not gone.any():
            values = self.builder.constant(cells)
            self.observed_nodes.append(ObservedNode(node.name, law, values))
            self.terms[node.name] = self.observed_term(node, values, dims)
            return
        self.observed_nodes.append(ObservedNode(node.name, law.rows(~gone), self.builder.constant(cells[~gone])))
        if not (node.discrete or node.atoms):
            self.terms[node.name] = self._imputed(node, law, dims, observed)
        elif below(self.nodes, node.name):
            raise NotLowered(node.name, "missing cells on which other nodes depend")
        else:
            self.terms[node.name] = self.observed_term(node, self.builder.constant(cells), dims)

    def latent(self, node: Node, observed: Any) -> None:
        if not node.hidden_path or observed is not None:
            super().latent(node, observed)
            return
        path, shape = hidden_path(self, node), self.lengths(node.dims)
        value = self.builder.unknown(shape)
        self._add(RandomNode(node.name, _Path(self.builder, shape, path), value), node.dims)
        codes = None if path.state is None else value
        self.terms[node.name] = Term(value, node.dims, codes=codes, factor=path.state)

    def drawn(self, value: Any) -> np.ndarray | None:
        nodes = MachineGenerative(self.builder, tuple(self.random_nodes), {"": value}, (), self.dims, self.coords)
        try:
            return nodes.draw([""], {}, 0, DRAWS)[""]
        except DataError:
            return None

    def at_new_inputs(self, node: Node, process: Process, theta: Var, z: Var, x: np.ndarray, new: np.ndarray) -> Var:
        value = self.parameter_of((z.shape[0], len(new)), None)[1]
        law = _AtNewInputs(self.builder, value.shape, process, theta, z, x, new)
        self._add(RandomNode(f"_{node.name}_new", law, value), ())
        return value

    def row_by_row(self, group: list[Node]) -> None:
        if any(node.kind == "random" for node in group):
            raise NotLowered(group[0].name, "rows that are drawn one after another, of several nodes")
        super().row_by_row(group)
