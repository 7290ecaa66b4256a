"""Several hidden chains as one on the product of their states.

A product state is a combination of one state of each chain, with the last chain's varying fastest. Algorithms for one
chain then apply to factorial hidden Markov models (independent chains, one common output [1]_), coupled ones (each
chain's next state depends on all chains [2]_) and switching ones (one chain selects which of the others is observed).
The computation is exact; its cost is the square of the product of all sizes.

References
----------
.. [1] Ghahramani, Jordan (1997). Factorial hidden Markov models. Machine Learning 29, 245-273.
.. [2] Brand, Oliver, Pentland (1997). Coupled hidden Markov models for complex action recognition. CVPR.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.errors import ModelError

__all__ = ["ProductSpace"]


@dataclass(frozen=True)
class ProductSpace:
    """The product of the states of several chains.

    Parameters
    ----------
    sizes : tuple of int
        The number of states of each chain.
    """

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1:
            raise ModelError(
                f"a product of chains needs chains with at least one state each, not {self.sizes}", code="incomplete"
            )

    @property
    def n_states(self) -> int:
        return int(np.prod(self.sizes))

    @property
    def states(self) -> np.ndarray:
        """The state of each chain in each state of the product, shape (n_states, n_chains)."""
        return np.stack(np.unravel_index(np.arange(self.n_states), self.sizes), -1)

    def join(self, parts: Sequence[Any]) -> np.ndarray:
        """Numbers (..., size) of each chain, such as log starts or log emissions, added up: (..., n_states)."""
        return np.sum([self.spread(part, chain) for chain, part in enumerate(self._each(parts))], axis=0)

    def spread(self, part: Any, chain: int) -> np.ndarray:
        """Numbers (..., size) of one chain, looked up for the product: (..., n_states)."""
        part = np.asarray(part, float)
        if part.shape[-1:] != self.sizes[chain : chain + 1]:
            raise ModelError(f"chain {chain} has {self.sizes[chain]} states; given {part.shape}", code="wrong-shape")
        return part[..., self.states[:, chain]]

    def join_transitions(self, log_transitions: Sequence[Any]) -> np.ndarray:
        """The log transition of chains that go their own ways, from (..., size, size) each."""
        states, out = self.states, np.zeros((self.n_states, self.n_states))
        for chain, part in enumerate(self._each(log_transitions)):
            part = np.asarray(part, float)
            if part.shape[-2:] != (self.sizes[chain],) * 2:
                raise ModelError(
                    f"chain {chain} has {self.sizes[chain]} states; its transition is {part.shape}", code="wrong-shape"
                )
            out = out + part[..., states[:, chain, None], states[:, chain]]
        return out

    def join_coupled(self, log_transitions: Sequence[Any]) -> np.ndarray:
        """The log transition where the next state of each chain depends on the states of all: (*sizes, size) each."""
        states, out = self.states, np.zeros((self.n_states, self.n_states))
        for chain, part in enumerate(self._each(log_transitions)):
            part = np.asarray(part, float)
            if part.shape != (*self.sizes, self.sizes[chain]):
                raise ModelError(
                    f"the transition of chain {chain} is {(*self.sizes, self.sizes[chain])}, not {part.shape}",
                    code="wrong-shape",
                )
            out += part.reshape(self.n_states, -1)[:, states[:, chain]]
        return out

    def switched(self, log_emissions: Sequence[Any]) -> np.ndarray:
        """Log emissions (n_rows, n_states) where the first chain says which of the others is seen.

        Parameters
        ----------
        log_emissions : sequence of arrays (n_rows, size)
            log p(row | state) of chains 1, 2, ...; the first chain has as many states as there are others.
        """
        if len(log_emissions) != len(self.sizes) - 1 or self.sizes[0] != len(log_emissions):
            raise ModelError(
                f"a switch among {len(log_emissions)} chains has as many states; the sizes are {self.sizes}",
                code="wrong-length",
            )
        parts = [self.spread(part, chain) for chain, part in enumerate(log_emissions, 1)]
        return np.stack(parts)[self.states[:, 0], :, np.arange(self.n_states)].T

    def marginal(self, posterior: np.ndarray, chain: int) -> np.ndarray:
        """Probabilities or counts (..., n_states) of the product as those of one chain."""
        lead = posterior.shape[:-1]
        others = tuple(len(lead) + c for c in range(len(self.sizes)) if c != chain)
        return posterior.reshape(*lead, *self.sizes).sum(axis=others)

    def fold(self, transition_counts: np.ndarray, chain: int) -> np.ndarray:
        """Expected transitions (..., n_states, n_states) of the product as those of one chain (..., size, size)."""
        after = self.marginal(transition_counts, chain)
        return np.swapaxes(self.marginal(np.swapaxes(after, -1, -2), chain), -1, -2)

    def fold_coupled(self, transition_counts: np.ndarray, chain: int) -> np.ndarray:
        """Expected transitions (n_states, n_states) as those of one chain from the states of all: (*sizes, size)."""
        return self.marginal(transition_counts, chain).reshape(*self.sizes, self.sizes[chain])

    def _each(self, parts: Sequence[Any]) -> Sequence[Any]:
        if len(parts) != len(self.sizes):
            raise ModelError(f"{len(self.sizes)} chains; given {len(parts)}", code="wrong-length")
        return parts
