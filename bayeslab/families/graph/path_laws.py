"""The protocol of hidden-path laws: the dependence between cells, and the computations on it.

A law holds only the structure (starts of sequences, parents of rows). Its probabilities are one flat vector of
logarithms, and the data enter as log p(data of a cell | state), an array (cells, states). Given both, the states have a
law of :mod:`bayeslab.latents.chains`. A path also has a log probability cell by cell, for variable elimination if cells
occur together with other discrete nodes.

References
----------
.. [1] Zucchini, MacDonald, Langrock (2016). Hidden Markov Models for Time Series, 2nd ed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.errors import EvidenceError
from bayeslab.language.backends import PYTENSOR, Backend
from bayeslab.latents.latent import Law

__all__ = ["HiddenPath", "PathLaw"]


class PathLaw(ABC):
    """The law of a path of hidden states over cells 0, 1, ...; its expressions are those of a backend.

    Attributes
    ----------
    n_cells, n_states : int
    """

    n_cells: int
    n_states: int
    #: Whether :meth:`density` exists, so that variable elimination is possible too.
    eliminable: bool = True

    @abstractmethod
    def recursion(self, backend: Backend, logs: Any, log_emission: Any) -> tuple[str, Any, tuple[np.ndarray, ...]]:
        """The kernel of log p(data), with its flat parameters and arrays, in variables of a backend.

        ``logs`` are the flat log probabilities, ``log_emission`` is log p(data | state) (cells, states).
        """

    def evidence(self, logs: Any, log_emission: Any) -> Any:
        """log p(data), a PyTensor scalar, from the flat log probabilities and log p(data | state) (cells, states)."""
        from bayeslab.evidence import log_evidence

        kernel, flat, arrays = self.recursion(PYTENSOR, logs, log_emission)
        return log_evidence(kernel, flat, *arrays)

    def normal_evidence(self, logs: Any, mean: Any, deviation: Any, rows: np.ndarray) -> Any | None:
        """log p(data) of normal columns (cells, columns), NaN where missing, with moments (states, columns) by state.

        None if no kernel computes the densities itself.
        """
        return None

    @abstractmethod
    def density(self, backend: Backend, logs: Any, states: Any) -> Any:
        """Log probability (cells,) of each cell's state given those before it, in variables of a backend."""

    @abstractmethod
    def law(self, logs: np.ndarray, log_emission: np.ndarray) -> Law:
        """The states of the cells given all data."""

    def smoothed(self, name: str, logs: np.ndarray, log_emission: np.ndarray) -> np.ndarray:
        """P(state | data), (cells, states).

        Raises
        ------
        EvidenceError
            The data are impossible; the message has the name of the node.
        """
        law = self.law(logs, log_emission)
        expected = law.expected()
        if not np.isfinite(expected.log_evidence).all():
            raise EvidenceError(
                f"'{name}': cell {int(law.impossible().max()) + 1} has probability zero in every state that can be"
                " there: check P, initial and the densities for zeros",
                code="probability-zero",
            )
        return expected.posterior

    @abstractmethod
    def simulate(self, logs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """States (cells,) drawn without data."""

    @property
    @abstractmethod
    def sequence(self) -> np.ndarray:
        """Index of the sequence, or tree, of each cell."""


@dataclass(frozen=True, eq=False)
class HiddenPath:
    """A node whose values are a path.

    Attributes
    ----------
    law : PathLaw
        The law over the node's cells in C order.
    logs : TensorVariable
        Its flat log probabilities.
    dims : tuple of str
        Dimensions of the node; the path runs along the last one.
    state : str or None
        The dimension of the states, if it has a name.
    where : tuple of str
        The path for the node's errors.
    sequence : str or None
        The column that identifies sequences.
    """

    law: PathLaw
    logs: Any
    dims: tuple[str, ...]
    state: str | None
    where: tuple[str, ...]
    sequence: str | None = None
