"""Markov chains over structures, one file each: :mod:`structure` (DAGs), :mod:`order`, :mod:`partition`.

A chain module has

``PRIOR``
    ``dags`` if draws come from the posterior of the score table itself, ``orders`` if a DAG counts once for each order
    of the variables consistent with it.
``COLD``
    Number of steps of the cold copy for each step of a hot copy in parallel tempering.
``init(table, rng) -> state``
    An initial state; different random numbers give overdispersed starts.
``run(table, state, n_steps, thin) -> (state, draws, info)``
    Run ``n_steps`` more steps, with a draw after every ``thin`` steps, counted from the start of the chain. ``draws``
    has shape (n_draws, n) and type int32: the number of the parent set of each variable in the table
    (:meth:`bayeslab.structure.score_table.ScoreTable.graph` makes a graph of it). Options are keywords.
``log_weight(table, state) -> float``
    Log of the unnormalised stationary density of the chain.

A state is an immutable mapping of names to small arrays that can be written to a file. It includes the state of the
random number generator, so that a run resumed from a stored state is identical to the uninterrupted run, bit for bit. A
chain runs on one thread and releases Python's global interpreter lock.

:mod:`_tempering` turns each of them into a set of chains at several temperatures with the same interface.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab import registry
from bayeslab.errors import OptionError, hint

__all__ = ["Info", "State", "load"]

type State = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Info:
    """Information about a run.

    Attributes
    ----------
    scores : ndarray, shape (n_draws,)
        Scores of the drawn DAGs.
    proposed, accepted : mapping of str to int
        Numbers of steps by kind; ``accepted`` counts those that changed the structure.
    completions : ndarray of int, shape (n_kept, n_missing), optional
        State numbers of the missing cells at all or some of the draws, if the chain samples them.
    """

    scores: NDArray[np.float64]
    proposed: Mapping[str, int]
    accepted: Mapping[str, int]
    completions: NDArray[np.integer] | None = None

    @property
    def acceptance(self) -> Mapping[str, float]:
        """Share of the proposed steps that changed the structure, by kind; only kinds that were proposed."""
        return {kind: self.accepted[kind] / many for kind, many in self.proposed.items() if many}


def load(name: str) -> ModuleType:
    """Return a chain module by name.

    Raises
    ------
    OptionError
        There is no such chain.
    """
    package = "structure/chains"
    if name not in registry.names(package):
        raise OptionError(f"unknown chain '{name}'{hint(name, registry.names(package))}", code="unknown-word")

    return import_module(f"bayeslab.structure.chains.{name}")
