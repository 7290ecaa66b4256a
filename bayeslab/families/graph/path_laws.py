"""What a hidden path is: how its cells follow each other, and everything that is computed on it.

A law holds the structure alone (where sequences begin, which row is whose parent). Its probabilities come as one flat
vector of logarithms, and what the data say as log p(data of a cell | state), an array (cells, states). Each law binds
the recursions of :mod:`bayeslab.latents.chains`, and has the log probability of a path cell by cell, from which the
same sum can be made by variable elimination where cells meet other discrete nodes.

References
----------
.. [1] Zucchini, MacDonald, Langrock (2016). Hidden Markov Models for Time Series, 2nd ed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.errors import OptionError

__all__ = ["HiddenPath", "PathLaw", "Smoothed"]


@dataclass(frozen=True, eq=False)
class Smoothed:
    """What all data say of the states.

    Attributes
    ----------
    log_evidence : float
        log p(data), -inf where they are impossible.
    posterior : ndarray (cells, states)
    impossible : int
        A cell that no state explains, or -1.
    """

    log_evidence: float
    posterior: np.ndarray
    impossible: int


class PathLaw(ABC):
    """The law of a path of hidden states over cells 0, 1, ...; all but ``evidence`` and ``density`` is on numbers.

    Attributes
    ----------
    n_cells, n_states : int
    """

    n_cells: int
    n_states: int
    #: Whether :meth:`density` exists, so that the sum can also be made by variable elimination.
    eliminable: bool = True

    @abstractmethod
    def evidence(self, logs: Any, log_emission: Any) -> Any:
        """log p(data), a PyTensor scalar, from the flat log probabilities and log p(data | state) (cells, states)."""

    def normal_evidence(self, logs: Any, mean: Any, deviation: Any, rows: np.ndarray) -> Any | None:
        """The same of normal columns (cells, columns), NaN where missing, their moments (states, columns) by state.

        None where no kernel computes the densities itself.
        """
        return None

    @abstractmethod
    def density(self, logs: Any, states: Any) -> Any:
        """Log probability (cells,) of each cell's state given those before it, as a PyTensor expression."""

    @abstractmethod
    def smooth(self, logs: np.ndarray, log_emission: np.ndarray) -> Smoothed: ...

    @abstractmethod
    def best(self, logs: np.ndarray, log_emission: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The n most likely paths (n, cells), -1 where there is none, and log probabilities (n, sequences)."""

    @abstractmethod
    def sample(self, logs: np.ndarray, log_emission: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """States (cells,) drawn given all data."""

    @abstractmethod
    def simulate(self, logs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """States (cells,) drawn without data."""

    @property
    @abstractmethod
    def sequence(self) -> np.ndarray:
        """The number of the sequence, or tree, of each cell."""

    def filtered(self, logs: np.ndarray, log_emission: np.ndarray, kind: str) -> np.ndarray:
        """P(state | data up to its cell), or by ``predict`` before it, (cells, states)."""
        raise OptionError(
            f"method {kind} is for Markov chains: use smooth, posterior or viterbi", code="not-applicable"
        )


@dataclass(frozen=True, eq=False)
class HiddenPath:
    """A node whose values are a path.

    Attributes
    ----------
    law : PathLaw
        Over the node's cells in C order.
    logs : TensorVariable
        Its flat log probabilities.
    dims : tuple of str
        Of the node; the path runs along the last.
    state : str or None
        The dimension of the states, if it has a name.
    where : tuple of str
        The path of the node's errors.
    sequence : str or None
        The column that tells sequences apart.
    """

    law: PathLaw
    logs: Any
    dims: tuple[str, ...]
    state: str | None
    where: tuple[str, ...]
    sequence: str | None = None
