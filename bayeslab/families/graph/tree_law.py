"""Markov trees: the state of each cell depends on the state of its parent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.families.graph.path_laws import PathLaw
from bayeslab.language.backends import Backend
from bayeslab.latents.chains import hidden_tree, tree
from bayeslab.latents.chains.forward_backward import HiddenChain
from bayeslab.latents.chains.hidden_tree import Forest
from bayeslab.latents.chains.tree import Reordered
from bayeslab.latents.latent import Law

__all__ = ["TreeLaw"]


@dataclass(frozen=True, eq=False)
class TreeLaw(PathLaw):
    """Law of the states of a forest of cells.

    Its flat parameters are log probabilities: of the root's state, shape (states,), then of the transitions from parent
    to child, shape (states, states).

    Attributes
    ----------
    parents : ndarray (n_cells,)
        Index of each cell's parent, -1 for roots. Cells may come in any order; there are no cycles.
    """

    n_states: int
    parents: np.ndarray

    @property
    def n_cells(self) -> int:  # type: ignore[override]
        return len(self.parents)

    @cached_property
    def _parents_first(self) -> np.ndarray:
        """Indices of the cells, tree by tree, parents before children."""
        return hidden_tree.parents_first(self.parents)

    @cached_property
    def _position(self) -> np.ndarray:
        """Position of each cell in that order."""
        out = np.empty(self.n_cells, np.int64)
        out[self._parents_first] = np.arange(self.n_cells)
        return out

    @cached_property
    def _forest(self) -> Forest:
        given = self.parents[self._parents_first]
        return Forest(np.where(given >= 0, self._position[given], -1))

    @property
    def sequence(self) -> np.ndarray:
        return np.asarray(self._forest.trees[self._position])

    def recursion(self, backend: Backend, logs: Any, log_emission: Any) -> tuple[str, Any, tuple[np.ndarray, ...]]:
        flat = backend.concatenate([logs, log_emission[self._parents_first].reshape((-1,))])
        sizes = np.array([self.n_states, self._forest.n_trees])
        return hidden_tree.KERNEL, flat, (self._forest.parents, self._forest.trees, sizes)

    def density(self, backend: Backend, logs: Any, states: Any) -> Any:
        k, root = self.n_states, self.parents < 0
        above = states[np.where(root, np.arange(self.n_cells), self.parents)]
        return backend.function("where")(root, logs[:k][states], logs[k:].reshape((k, k))[above, states])

    def _chain(self, logs: np.ndarray) -> HiddenChain:
        k = self.n_states
        return HiddenChain(logs[:k], logs[k:].reshape(k, k))

    def law(self, logs: np.ndarray, log_emission: np.ndarray) -> Law:
        return Reordered(
            tree.TreeLaw(self._forest, self._chain(logs), log_emission[self._parents_first]), self._position
        )

    def simulate(self, logs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        states = hidden_tree.simulate(self._forest, self._chain(logs), rng.random(self.n_cells))
        return np.asarray(states[self._position])
