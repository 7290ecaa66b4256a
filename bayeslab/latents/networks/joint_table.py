"""Exact inference in small networks by their joint table, in plain NumPy.

A joint table of a few thousand entries answers every query without compiled code. It is computed as a sum of
logarithms, so products do not underflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import OptionError
from bayeslab.latents.networks.factors import FactorGraph, impossible, read_evidence, variables_of
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.latents.networks.network_answers import Explanation, Marginals

__all__ = ["LARGEST", "JointTable", "is_small"]

# Maximum number of entries, and of axes (NumPy allows 64).
LARGEST, _AXES = 16_384, 32


def is_small(model: DiscreteNetwork | FactorGraph) -> bool:
    """Whether the joint table is small enough, which depends only on the variables' numbers of states."""
    return len(model.states) <= _AXES and bool(np.prod([float(len(s)) for s in model.states.values()]) <= LARGEST)


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
