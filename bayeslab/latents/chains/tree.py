"""Hidden Markov trees: rows that name their parents, with transitions from parent to child.

The computations are in :mod:`bayeslab.latents.chains.hidden_tree`. Internally, rows are ordered tree by tree, with
parents before children.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.errors import ModelError, OptionError
from bayeslab.language.writer import Writer
from bayeslab.latents.chains import hidden_tree
from bayeslab.latents.chains.chain import Chain, dense_logs
from bayeslab.latents.chains.forward_backward import HiddenChain
from bayeslab.latents.chains.hidden_tree import Forest, SmoothedTree
from bayeslab.latents.chains.state_chain import ChainOver
from bayeslab.latents.latent import Expected, Law

__all__ = ["Reordered", "TreeChain", "TreeLaw"]


@dataclass(frozen=True, eq=False)
class TreeChain(ChainOver):
    """Initial probabilities of roots and transitions to children; everything else is delegated to ``base``.

    Attributes
    ----------
    base : Chain
    parents : ndarray (n_times,)
        Times of the parents, -1 for roots.
    """

    base: Chain
    parents: np.ndarray

    how = "Baum-Welch on trees: the hidden states are summed out upward and downward"

    @cached_property
    def forest(self) -> Forest:
        return Forest(self.parents)

    def prefix(self, n_times: int) -> TreeChain:
        return replace(self, parents=self.parents[:n_times])

    def of_sequences(self, which: np.ndarray, times: np.ndarray) -> TreeChain:
        """The same on some of the trees."""
        place = np.full(len(self.parents) + 1, -1)
        place[times] = np.arange(len(times))
        return replace(self, parents=place[self.parents[times]])

    def hidden(self, values: Mapping[str, np.ndarray]) -> HiddenChain:
        raise ModelError("a tree is not a chain: `law` answers for it", code="not-applicable")

    def root_and_child(self, values: Mapping[str, np.ndarray]) -> HiddenChain:
        """Start and transition, dense."""
        parameters = self.base.complete(values)
        return HiddenChain.of(parameters["initial"], parameters["transition"])

    def law(self, values: Mapping[str, np.ndarray], log_density: np.ndarray, offsets: np.ndarray) -> TreeLaw:
        return TreeLaw(self.forest, self.root_and_child(values), log_density)

    def simulate(self, values: Mapping[str, np.ndarray], uniform: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        return hidden_tree.simulate(self.forest, self.root_and_child(values), uniform)

    def evidence(self, writer: Writer, values: Mapping[str, Any], log_density: Any, offsets: np.ndarray) -> Any:
        flat = [*dense_logs(writer, self.base, values), log_density]
        forest = self.forest
        sizes = np.array([self.base.n_states, forest.n_trees])
        return writer.evidence(hidden_tree.KERNEL, flat, forest.parents, forest.trees, sizes)


@dataclass(frozen=True, eq=False)
class TreeLaw(Law):
    """Trees at given parameters; see :class:`bayeslab.latents.latent.Law`."""

    forest: Forest
    chain: HiddenChain
    log_density: np.ndarray

    @cached_property
    def _smoothed(self) -> SmoothedTree:
        return hidden_tree.smooth(self.forest, self.chain, self.log_density)

    def expected(self) -> Expected:
        smoothed = self._smoothed
        counts = {"initial": smoothed.start_counts, "transition": smoothed.transition_counts}
        return Expected(smoothed.log_evidence, smoothed.posterior, counts)

    condition = "together with those that descend from it"

    def impossible(self) -> np.ndarray:
        return self._smoothed.impossible

    def filter(self, kind: str) -> np.ndarray:
        raise OptionError(
            f"method {kind} goes along a sequence, and rows of a tree have no order: use smooth, posterior or viterbi",
            code="not-applicable",
        )

    def log_likelihoods(self, by_sequence: bool) -> np.ndarray:
        """Log likelihood of each tree; for a single tree, of each row given all others.

        p(y_t | others) = 1 / sum_k P(z_t = k | all) / p(y_t | k).
        """
        smoothed = self._smoothed.possible()
        if by_sequence:
            return smoothed.log_evidence
        with np.errstate(divide="ignore"):
            share = np.log(smoothed.posterior)
        each = np.where(share > -np.inf, share - np.where(share > -np.inf, self.log_density, 0.0), -np.inf)
        return -np.asarray(np.logaddexp.reduce(each, axis=1))

    def mode(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        if n > 1:
            raise OptionError("of a tree the one most likely path is found: leave `best` out", code="not-applicable")
        self._smoothed.possible()
        states, heights = hidden_tree.best(self.forest, self.chain, self.log_density)
        return states[None], heights[None]

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(hidden_tree.sample(self.forest, self.chain, self.log_density, 1, rng)[0])


@dataclass(frozen=True, eq=False)
class Reordered(Law):
    """The law of rows in another order: row i is row ``place[i]`` of the inner law.

    Attributes
    ----------
    inner : Law
    place : ndarray (n_rows,)
    """

    inner: Law
    place: np.ndarray

    @property
    def condition(self) -> str:  # type: ignore[override]
        return self.inner.condition

    def expected(self) -> Expected:
        expected = self.inner.expected()
        return replace(expected, posterior=expected.posterior[self.place])

    def impossible(self) -> np.ndarray:
        inner = self.inner.impossible()
        return np.where(inner < 0, -1, np.argsort(self.place)[inner])

    def filter(self, kind: str) -> np.ndarray:
        return self.inner.filter(kind)[self.place]

    def log_likelihoods(self, by_sequence: bool) -> np.ndarray:
        inner = self.inner.log_likelihoods(by_sequence)
        return inner if by_sequence else inner[self.place]

    def mode(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        paths, heights = self.inner.mode(n)
        return paths[:, self.place], heights

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        return self.inner.sample(rng)[self.place]
