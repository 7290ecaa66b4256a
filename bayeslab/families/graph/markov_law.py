"""Markov chains of first and second order, one or several, along the last dimension of a node.

A second-order chain is a first-order chain of pairs of consecutive states, except for its first cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.families.graph.path_laws import PathLaw
from bayeslab.language.backends import Backend
from bayeslab.latents.chains import state_chain
from bayeslab.latents.chains.forward_backward import (
    GAUSSIAN_KERNEL,
    KERNEL,
    SPARSE_KERNEL,
    Edges,
    HiddenChain,
    simulate_states,
)
from bayeslab.latents.chains.state_chain import ChainStates
from bayeslab.latents.latent import Law

__all__ = ["MarkovLaw"]


@dataclass(frozen=True, eq=False)
class MarkovLaw(PathLaw, ChainStates):
    """The law of concatenated Markov chains.

    The flat log probabilities are those of the first states (n_starts, states) and of transitions (n_steps, ...): for
    order 1 (states, states); for order 2 first those to the second state (states, states), then (states, states,
    states).

    Attributes
    ----------
    offsets : ndarray (n_sequences + 1,)
        Start of each chain, and the number of cells.
    n_starts, n_steps : int
        1, or one for each chain; 1, or one for each cell.
    order : {1, 2}
    """

    n_states: int
    offsets: np.ndarray
    n_starts: int
    n_steps: int
    order: int = 1

    @property
    def n_cells(self) -> int:  # type: ignore[override]
        return int(self.offsets[-1])

    @property
    def sequence(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @cached_property
    def last(self) -> np.ndarray:
        """The last state of each state of the computed chain."""
        states = np.arange(self.n_states)
        return states if self.order == 1 else np.concatenate([states, np.tile(states, self.n_states)])

    @cached_property
    def edges(self) -> Edges | None:
        """Transitions from a first state, or a pair, to the pairs that can follow."""
        if self.order == 1:
            return None
        k = self.n_states
        pairs = k + np.arange(k * k)
        return Edges(np.arange(k + k * k + 1) * k, np.append(pairs, np.tile(pairs, k)))

    # -- as expressions

    def recursion(self, backend: Backend, logs: Any, log_emission: Any) -> tuple[str, Any, tuple[np.ndarray, ...]]:
        sizes = np.array([len(self.last), self.n_starts, self.n_steps])
        if self.edges is None:
            flat = backend.concatenate([logs, log_emission.reshape((-1,))])
            return KERNEL, flat, (self.offsets, sizes)
        k, first = self.n_states, self.n_starts * self.n_states
        nowhere = backend.constant(np.full((self.n_starts, k * k), -np.inf))
        start = backend.concatenate([logs[:first].reshape((self.n_starts, k)), nowhere], axis=1)
        flat = backend.concatenate([start.reshape((-1,)), logs[first:], log_emission[:, self.last].reshape((-1,))])
        return SPARSE_KERNEL, flat, (self.offsets, sizes, self.edges.starts, self.edges.targets)

    def normal_evidence(self, logs: Any, mean: Any, deviation: Any, rows: np.ndarray) -> Any | None:
        import pytensor.tensor as pt

        from bayeslab.evidence import log_evidence

        if self.order == 2:
            return None
        flat = pt.concatenate([logs, mean.ravel(), deviation.ravel()])
        sizes = np.array([self.n_states, self.n_starts, self.n_steps])
        return log_evidence(GAUSSIAN_KERNEL, flat, self.offsets, sizes, rows)

    def density(self, backend: Backend, logs: Any, states: Any) -> Any:
        where = backend.function("where")
        k, first = self.n_states, self.n_starts * self.n_states
        cells = np.arange(self.n_cells)
        age = cells - self.offsets[:-1][self.sequence]
        step = cells if self.n_steps > 1 else np.zeros_like(cells)
        start = logs[:first].reshape((self.n_starts, k))
        begun = start[self.sequence if self.n_starts > 1 else np.zeros_like(cells), states]
        before = states[np.maximum(cells - np.minimum(age, 1), 0)]
        rest = logs[first:].reshape((self.n_steps, -1))
        second = rest[:, : k * k].reshape((self.n_steps, k, k))[step, before, states]
        out = where(age == 0, begun, second)
        if self.order == 2:
            earlier = states[cells - np.minimum(age, 2)]
            third = rest[:, k * k :].reshape((self.n_steps, k, k, k))[step, earlier, before, states]
            out = where(age < 2, out, third)
        return out

    # -- on numbers

    def _chain(self, logs: np.ndarray) -> HiddenChain:
        k, first = self.n_states, self.n_starts * self.n_states
        start = logs[:first].reshape(self.n_starts, k)
        rest = logs[first:].reshape((self.n_steps, k, k) if self.order == 1 else (self.n_steps, -1))
        if self.order == 2:
            start = np.concatenate([start, np.full((self.n_starts, k * k), -np.inf)], axis=1)
        return HiddenChain(
            start[0] if self.n_starts == 1 else start, rest[0] if self.n_steps == 1 else rest, self.edges
        )

    def fold(self, posterior: np.ndarray) -> np.ndarray:
        if self.order == 1:
            return posterior
        k = self.n_states
        return np.asarray(posterior[:, :k] + posterior[:, k:].reshape(-1, k, k).sum(axis=1))

    def law(self, logs: np.ndarray, log_emission: np.ndarray) -> Law:
        return state_chain.MarkovLaw(self, self._chain(logs), log_emission[:, self.last], self.offsets)

    def simulate(self, logs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(self.last[simulate_states(self._chain(logs), self.offsets, rng)])
