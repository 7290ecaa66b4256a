"""Hidden Markov trees: rows that name their parents, with states that pass from parent to child.

Everything is asked of :mod:`bayeslab.exact.hidden_tree`. Inside, rows are kept tree by tree, parents before children.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.data.dataset import Data
from bayeslab.errors import DataError, ModelError, OptionError, hint
from bayeslab.exact import hidden_tree
from bayeslab.exact.forward_backward import HiddenChain
from bayeslab.exact.hidden_tree import Forest, SmoothedTree
from bayeslab.families.hmm.chain import Chain, dense_logs
from bayeslab.families.hmm.law import Expected
from bayeslab.families.hmm.sequences import Sequences
from bayeslab.families.hmm.state_chain import ChainOver

__all__ = ["TreeChain", "TreeLaw", "branching", "forest_of"]


@dataclass(frozen=True, eq=False)
class TreeChain(ChainOver):
    """Initial probabilities of roots and transitions to children; all else is as of ``base``.

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
        own = self.base.complete(values)
        return HiddenChain.of(own["initial"], own["transition"])

    def law(self, values: Mapping[str, np.ndarray], log_emission: np.ndarray, offsets: np.ndarray) -> TreeLaw:
        return TreeLaw(self.forest, self.root_and_child(values), log_emission)

    def simulated(self, values: Mapping[str, np.ndarray], uniform: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        return hidden_tree.simulate(self.forest, self.root_and_child(values), uniform)

    def evidence(self, values: Mapping[str, Any], log_emission: Any, offsets: np.ndarray) -> Any:
        import pytensor.tensor as pt

        from bayeslab.evidence import log_evidence

        flat = pt.concatenate([*dense_logs(self.base, values), log_emission.ravel()])
        forest = self.forest
        sizes = np.array([self.base.n_states, forest.n_trees])
        return log_evidence(hidden_tree.KERNEL, flat, forest.parents, forest.trees, sizes)


@dataclass(frozen=True, eq=False)
class TreeLaw:
    """Trees at given parameters; see :class:`bayeslab.families.hmm.law.Law`."""

    forest: Forest
    chain: HiddenChain
    log_emission: np.ndarray

    @cached_property
    def _smoothed(self) -> SmoothedTree:
        return hidden_tree.smooth(self.forest, self.chain, self.log_emission)

    def expected(self) -> Expected:
        found = self._smoothed
        counts = {"initial": found.start_counts, "transition": found.transition_counts}
        return Expected(found.log_evidence, found.posterior, counts)

    given = "together with those that descend from it"

    def impossible(self) -> np.ndarray:
        return self._smoothed.impossible

    def filtered(self, kind: str) -> np.ndarray:
        raise OptionError(
            f"method {kind} goes along a sequence, and rows of a tree have no order: use smooth, posterior or viterbi",
            code="not-applicable",
        )

    def terms(self, several: bool) -> np.ndarray:
        """Log likelihood of each tree; of a single one, of each row given all the others.

        p(y_t | others) = 1 / sum_k P(z_t = k | all) / p(y_t | k).
        """
        found = self._smoothed.possible()
        if several:
            return found.log_evidence
        with np.errstate(divide="ignore"):
            share = np.log(found.posterior)
        each = np.where(share > -np.inf, share - np.where(share > -np.inf, self.log_emission, 0.0), -np.inf)
        return -np.asarray(np.logaddexp.reduce(each, axis=1))

    def best(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        if n > 1:
            raise OptionError("of a tree the one most likely path is found: leave `best` out", code="not-applicable")
        self._smoothed.possible()
        states, heights = hidden_tree.best(self.forest, self.chain, self.log_emission)
        return states[None], heights[None]

    def sampled(self, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(hidden_tree.sample(self.forest, self.chain, self.log_emission, 1, rng)[0])


def branching(base: Any, parents: np.ndarray) -> TreeChain:
    """A chain along the branches of trees.

    Raises
    ------
    ModelError
        A chain of another kind.
    """
    if not isinstance(base, Chain) or base.order != 1:
        raise ModelError(
            "trees go with plain transitions of order 1 from parent to child",
            path=("model", "parent"),
            code="unsupported",
        )
    return TreeChain(base, parents)


def forest_of(data: Data, column: str) -> tuple[Sequences, np.ndarray]:
    """The rows of a table tree by tree, and the time of each one's parent.

    Parameters
    ----------
    column : str
        Holds the label of the parent's row, and nothing for roots.

    Returns
    -------
    Sequences
        One for each tree, called by its root.
    parents : ndarray (n_times,)

    Raises
    ------
    DataError
        A parent that is not there, or descends from its child; with the row.
    """
    rows = data.dataset.rows
    labels = np.asarray(data.labels.get(rows, ()))
    if not len(labels):
        raise DataError("the data have no rows", code="no-rows")
    given = _numbers(data, column, labels, rows)
    try:
        order = hidden_tree.parents_first(given)
    except DataError as error:
        raise DataError(f"column '{column}', {error.message}", code=error.code) from None
    at = np.empty(len(order), np.int64)
    at[order] = np.arange(len(order))
    parents = np.where(given[order] >= 0, at[given[order]], -1)
    roots = np.flatnonzero(parents < 0)
    return Sequences(np.append(roots, len(order)), labels[order[roots]], labels[order], at), parents


def _numbers(data: Data, column: str, labels: np.ndarray, rows: str) -> np.ndarray:
    """The number of each row's parent, -1 where the cell is empty."""
    if column not in data.dataset.columns:
        raise DataError(f"the data have no column '{column}', which names the parents", code="unknown-column")
    own = data.column(column)
    names = [_word(v) for v in labels.tolist()]
    # Names of rows are checked to be there once where the data are read.
    place = {name: row for row, name in enumerate(names)}
    out = np.full(len(labels), -1, np.int64)
    for row, (value, gone) in enumerate(zip(own.values.tolist(), own.absent().tolist(), strict=True)):
        if gone:
            continue
        name = _word(value)
        if name not in place:
            near = hint(name, names[:1000])
            raise DataError(
                f"column '{column}', row {row + 1}: parent '{name}' is no row's '{rows}'{near}", code="unknown-level"
            )
        out[row] = place[name]
    return out


def _word(value: Any) -> str:
    """A label as it is written: 3 and 3.0 are the same."""
    return f"{value:.15g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
