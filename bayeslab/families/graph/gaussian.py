"""Graph models that are Gaussian given at most two scale parameters: recognition and exact solution.

Every random node has a role. *Scale parameters* determine standard deviations; *coefficients* are normal (or flat)
nodes. A model qualifies if the means are linear in the coefficients, with data as factors, and the standard deviations
are functions of at most two scale parameters, times data. This is checked on the expressions, not by trying numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.node_values import NotExact
from bayeslab.errors import ModelError
from bayeslab.exact.gaussian import GaussianModel, Posterior, Scale, integrate
from bayeslab.families.graph.gaussian_builder import GaussianBuilder
from bayeslab.families.graph.linear_forms import ONE
from bayeslab.families.graph.normal_nodes import ancestors
from bayeslab.language.nodes import Node

__all__ = ["GaussianPiece", "gaussian_piece"]


@dataclass(frozen=True, eq=False)
class GaussianPiece:
    """A recognised component of a model; :meth:`solve` computes the integral.

    Attributes
    ----------
    model : GaussianModel
    places : mapping of str to slice
        Positions of each node's outputs.
    """

    builder: GaussianBuilder
    model: GaussianModel
    places: Mapping[str, slice]

    @property
    def how(self) -> str:
        """One-line description of the method and its parameters."""
        scales = [node.name for node in self.builder.scales]
        normal = [node.name for node in self.builder.normal]
        words = f"{_few(normal)} Gaussian" if normal else "the data Gaussian"
        if not scales:
            return words
        return f"{words} given {' and '.join(scales)}, integrated by quadrature"

    def solve(self, method: Callable[[GaussianModel], Posterior] = integrate) -> GaussianAnswer:
        posterior = method(self.model)
        grid = [a.ravel() for a in np.meshgrid(*posterior.axes, indexing="ij")]
        values = [s.value(u) for s, u in zip(self.model.scales, grid, strict=True)]
        # A coefficient multiplied by a scale parameter was solved for as their product.
        means, variances, origin = posterior.means.copy(), posterior.variances.copy(), posterior.origin.copy()
        for name, carrier in self._carriers().items():
            by = self.builder.evaluate(carrier, self.builder.nodes[name].dims, values).reshape(len(means), -1)
            place = self.places[name]
            means[:, place] = (means[:, place] + origin[place]) / by
            variances[:, place] /= by**2
            origin[place] = 0.0
        return GaussianAnswer(self, replace(posterior, means=means, variances=variances, origin=origin), values)

    def _carriers(self) -> dict[str, ast.expr]:
        normal = {node.name for node in self.builder.normal}
        return {name: tree for name, tree in self.builder.reader.carriers.items() if tree is not ONE and name in normal}


def _few(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


@dataclass(frozen=True, eq=False)
class GaussianAnswer:
    """The posterior of one component, by node."""

    piece: GaussianPiece
    posterior: Posterior
    values: Sequence[np.ndarray]

    @property
    def log_evidence(self) -> float:
        if any(node.distribution == "Flat" for node in self.piece.builder.normal):
            return float("nan")
        return self.posterior.log_evidence + self.piece.builder.log_jacobian

    @cached_property
    def functions(self) -> dict[str, tuple[Node, np.ndarray, int]]:
        """Monotone deterministic functions of a single scale: values on the grid."""
        builder, out = self.piece.builder, {}
        index = {node.name: i for i, (node, _) in enumerate(builder.parameters) if not node.dims}
        for node in builder.nodes.values():
            above = ancestors(node.name, builder.nodes, builder.columns) if node.kind == "deterministic" else set()
            if node.dims or len(above) != 1 or not above <= index.keys() or node.recursive:
                continue
            d = index[next(iter(above))]
            try:
                along = self._function(node, d, self.piece.model.scales[d].value(self.posterior.axes[d]))
                everywhere = builder.evaluate(node.expression.tree, (), self.values)
            except (NotExact, ModelError):
                continue
            steps = np.sign(np.diff(along))
            if np.all(np.isfinite(along)) and (np.all(steps > 0) or np.all(steps < 0)):
                out[node.name] = (node, everywhere, d)
        return out

    def _function(self, node: Node, d: int, value: np.ndarray) -> np.ndarray:
        values = [np.full(len(value), np.median(v)) for v in self.values]
        values[d] = value
        return self.piece.builder.evaluate(node.expression.tree, (), values)

    def mean(self) -> dict[str, np.ndarray]:
        return self._named(self.posterior.mean(), self.posterior.scale_moments()[0]) | self._of_functions(0)

    def sd(self) -> dict[str, np.ndarray]:
        return self._named(np.sqrt(self.posterior.variance()), self.posterior.scale_moments()[1]) | self._of_functions(
            1
        )

    def _of_functions(self, moment: int) -> dict[str, np.ndarray]:
        """Means (0) or standard deviations (1) of functions of one scale."""
        return {n: self.posterior.moments(f.reshape(-1, 1))[moment][0] for n, (_, f, _) in self.functions.items()}

    def quantile(self, probability: float) -> dict[str, np.ndarray]:
        scales = [self.posterior.scale_quantile(d, probability) for d in range(len(self.values_of))]
        out = self._named(self.posterior.quantile(probability), np.array(scales))
        for name, (node, _, d) in self.functions.items():
            ends = self._function(node, d, self.piece.model.scales[d].value(self.posterior.axes[d])[[0, -1]])
            share = probability if ends[1] > ends[0] else 1 - probability
            out[name] = self._function(node, d, np.array([self.posterior.scale_quantile(d, share)]))[0]
        return out

    @property
    def values_of(self) -> Sequence[Scale]:
        return self.piece.model.scales

    def draws(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Draws of the random nodes of the component."""
        builder = self.piece.builder
        outputs, scales = self.posterior.draws(rng, n)
        normal = {node.name for node in builder.normal}
        out = {
            name: outputs[:, place].reshape(n, *builder.plain.shape(builder.nodes[name].dims))
            for name, place in self.piece.places.items()
            if name in normal
        }
        for name, carrier in self.piece._carriers().items():
            out[name] = out[name] / builder.evaluate(carrier, builder.nodes[name].dims, scales)
        terms = builder.scale_terms(scales) if scales else {}
        return out | {name: np.asarray(term.value) for name, term in terms.items()}

    def _named(self, outputs: np.ndarray, scales: np.ndarray) -> dict[str, np.ndarray]:
        builder, out, at = self.piece.builder, {}, 0
        for name, place in self.piece.places.items():
            out[name] = outputs[place].reshape(builder.plain.shape(builder.nodes[name].dims))
        for node in builder.scales:
            size = builder.size(node)
            out[node.name] = np.asarray(scales[at : at + size]).reshape(builder.plain.shape(node.dims))
            at += size
        return out


def gaussian_piece(names: set[str], nodes: Mapping[str, Node], data: Data, order: Sequence[Node]) -> GaussianPiece:
    """Read a connected component of a model as a Gaussian model.

    Parameters
    ----------
    order
        All nodes, parents before children.

    Raises
    ------
    NotExact
        The component is not of this form; the message has the node and the reason.
    """
    builder = GaussianBuilder(names, nodes, data, order)
    return GaussianPiece(builder, *builder.build())
