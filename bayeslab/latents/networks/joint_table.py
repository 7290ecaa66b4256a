"""Exact inference in small networks by their joint table, in plain NumPy.

A joint table of a few thousand entries answers every query without compiled code. It is computed as a sum of
logarithms, so products do not underflow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import OptionError
from bayeslab.latents.networks.factors import FactorGraph, impossible, read_evidence, variables_of
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.latents.networks.network_answers import BatchMarginals, Explanation, Marginals

__all__ = ["LARGEST", "JointTable", "is_small"]

# Maximum number of entries, and of axes (NumPy allows 64).
LARGEST, _AXES = 16_384, 32
# Maximum number of rows of evidence, and of entries times rows: a tenth of a second.
_ROWS, _ENTRIES = 1_000, 4_000_000


def is_small(model: DiscreteNetwork | FactorGraph, rows: int = 1) -> bool:
    """Whether the joint table, once for each row of evidence, is small enough: the sizes alone decide."""
    size = math.prod(len(s) for s in model.states.values())
    return len(model.states) <= _AXES and size <= LARGEST and rows <= _ROWS and size * rows <= _ENTRIES


@dataclass(frozen=True, eq=False)
class JointTable:
    """The joint distribution of a small network or factor graph.

    Parameters
    ----------
    model : DiscreteNetwork or FactorGraph
        A model for which :func:`is_small` holds.
    """

    model: DiscreteNetwork | FactorGraph

    @property
    def states(self) -> Mapping[str, tuple[str, ...]]:
        return self.model.states

    @cached_property
    def _log_joint(self) -> NDArray[np.float64]:
        """The log of the joint table, one axis for each variable."""
        factors = self.model if isinstance(self.model, FactorGraph) else FactorGraph.of(self.model)
        out = np.zeros([len(s) for s in self.states.values()])
        place = {v: i for i, v in enumerate(self.states)}
        for scope, table in zip(factors.scopes, factors.tables, strict=True):
            with np.errstate(divide="ignore"):
                out = out + self._aligned(np.log(table), [place[v] for v in scope])
        return out

    def _aligned(self, table: NDArray[np.float64], axes: Sequence[int]) -> NDArray[np.float64]:
        """A table over some axes, with axes of length one added so that it broadcasts over all."""
        order = np.argsort(axes)
        shape = np.ones(len(self.states), dtype=int)
        shape[np.array(axes, dtype=int)] = table.shape
        return np.transpose(table, order).reshape(shape)

    def _given(self, given: Mapping[str, Any] | None) -> NDArray[np.float64]:
        """The log joint table with the evidence multiplied in; entries that contradict it are -inf."""
        evidence = read_evidence(self.states, given)
        out, place = self._log_joint, {v: i for i, v in enumerate(self.states)}
        for v, likelihood in (
            *((v, np.eye(len(self.states[v]))[code]) for v, code in evidence.hard.items()),
            *evidence.likelihood.items(),
        ):
            with np.errstate(divide="ignore"):
                out = out + self._aligned(np.log(likelihood), [place[v]])
        return out

    def _posterior(self, given: Mapping[str, Any] | None) -> tuple[NDArray[np.float64], float]:
        """The joint table given the evidence, which sums to one, and the log evidence."""
        logs = self._given(given)
        top = float(logs.max())
        if top == -np.inf:
            raise impossible(given or {}, lambda part: float(self._given(part).max()) > -np.inf)
        weights = np.exp(logs - top)
        total = float(weights.sum())
        return weights / total, top + float(np.log(total))

    def query(self, given: Mapping[str, Any] | None = None, targets: Iterable[str] | None = None) -> Marginals:
        """Posterior marginals; see :meth:`bayeslab.latents.networks.junction_tree.JunctionTree.query`."""
        names = variables_of(self.states, targets)
        table, log_evidence = self._posterior(given)
        place = {v: i for i, v in enumerate(self.states)}
        axes = range(table.ndim)
        return Marginals(log_evidence, {v: table.sum(axis=tuple(a for a in axes if a != place[v])) for v in names})

    def query_many(self, codes: NDArray[np.int64], targets: Iterable[str] | None = None) -> BatchMarginals:
        """Posterior marginals for each row of evidence, in codes of states, -1 where nothing is observed; see
        :meth:`bayeslab.latents.networks.junction_tree.JunctionTree.query_many`.
        """
        names, place = variables_of(self.states, targets), {v: i for i, v in enumerate(self.states)}
        log_evidence = np.full(len(codes), -np.inf)
        marginals = {v: np.full((len(codes), len(self.states[v])), np.nan) for v in names}
        for n, row in enumerate(codes):
            # An observed variable keeps its axis, of length one.
            logs = self._log_joint[tuple(slice(None) if c < 0 else slice(c, c + 1) for c in row)]
            top = float(logs.max())
            if top == -np.inf:
                continue
            weights = np.exp(logs - top)
            total = float(weights.sum())
            log_evidence[n] = top + float(np.log(total))
            for v in names:
                given = weights.sum(axis=tuple(a for a in range(logs.ndim) if a != place[v])) / total
                marginals[v][n] = given if row[place[v]] < 0 else np.arange(len(self.states[v])) == row[place[v]]
        return BatchMarginals(log_evidence, marginals)

    def joint(self, targets: Sequence[str], given: Mapping[str, Any] | None = None) -> NDArray[np.float64]:
        """Joint posterior of several variables, one axis for each target."""
        names = variables_of(self.states, targets)
        table, _ = self._posterior(given)
        place = {v: i for i, v in enumerate(self.states)}
        kept = [place[v] for v in names]
        summed = table.sum(axis=tuple(a for a in range(table.ndim) if a not in kept))
        return np.transpose(summed, np.argsort(np.argsort(kept)))

    def most_probable(self, given: Mapping[str, Any] | None = None, k: int = 1) -> list[Explanation]:
        """The ``k`` most probable assignments of all variables, best first; fewer when no more are possible."""
        if k < 1:
            raise OptionError(f"k is {k}; it must be at least 1", code="out-of-range")
        _, log_evidence = self._posterior(given)
        return self._best(self._given(given), tuple(self.states), log_evidence, k)

    def marginal_map(self, targets: Sequence[str], given: Mapping[str, Any] | None = None) -> Explanation:
        """The most probable joint state of some variables, the others summed out."""
        names = variables_of(self.states, targets)
        with np.errstate(divide="ignore"):
            return self._best(np.log(self.joint(names, given)), names, 0.0, 1)[0]

    def _best(self, logs: NDArray[np.float64], names: Sequence[str], log_evidence: float, k: int) -> list[Explanation]:
        order = np.argsort(-logs, axis=None, kind="stable")[:k]
        best = [(np.unravel_index(i, logs.shape), float(logs.flat[i])) for i in order]
        return [
            Explanation({v: self.states[v][c] for v, c in zip(names, at, strict=True)}, value - log_evidence)
            for at, value in best
            if value > -np.inf
        ]
