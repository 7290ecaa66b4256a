"""Markov chains over structures, one file each: :mod:`structure` (DAGs), :mod:`order`, :mod:`partition`.

A chain file offers

``PRIOR``
    ``dags`` if draws come from the posterior of the score table itself, ``orders`` if a DAG weighs once for each order
    of the variables that it agrees with.
``COLD``
    How many steps the cold copy takes for each step of a hot one when the chain is tempered.
``init(table, rng) -> state``
    A start, far from others with other random numbers.
``run(table, state, n_steps, thin) -> (state, draws, info)``
    So many more steps; after each ``thin`` of them, counted from the start of the chain, a draw. ``draws`` has shape
    (n_draws, n) and type int32: the number of the parent set of each variable in the table
    (:meth:`bayeslab.structure.score_table.ScoreTable.graph` makes a graph of it). Options are keywords.
``log_weight(table, state) -> float``
    Log of what the chain's equilibrium is proportional to.

A state is a mapping of words to small arrays and never changed: it can be written to a file as it is, and holds the
state of the random numbers, so that a run from a state read back gives what the uninterrupted run would have given, to
the last bit. One chain runs on one thread and does not hold Python's lock.

:mod:`_tempering` makes of each of them a set of chains at several temperatures under the same contract.
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
    """What happened in a run.

    Attributes
    ----------
    scores : ndarray, shape (n_draws,)
        Scores of the drawn DAGs.
    proposed, accepted : mapping of str to int
        Numbers of steps by kind; ``accepted`` counts those that changed the structure.
    completions : ndarray of int, shape (n_kept, n_missing), optional
        What the missing cells held at the draws, or some of them, if the chain draws them: numbers of states.
    """

    scores: NDArray[np.float64]
    proposed: Mapping[str, int]
    accepted: Mapping[str, int]
    completions: NDArray[np.integer] | None = None

    @property
    def acceptance(self) -> Mapping[str, float]:
        """Share of the proposed steps that changed the structure, by kind; of those that were proposed at all."""
        return {kind: self.accepted[kind] / many for kind, many in self.proposed.items() if many}


def load(name: str) -> ModuleType:
    """A chain by its word.

    Raises
    ------
    OptionError
        No such chain.
    """
    package = "structure/chains"
    if name not in registry.names(package):
        raise OptionError(f"unknown chain '{name}'{hint(name, registry.names(package))}", code="unknown-word")

    return import_module(f"bayeslab.structure.chains.{name}")
