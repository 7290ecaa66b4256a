"""Several chains side by side: their names, their states, and what is given of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from bayeslab.exact.product_chain import ProductSpace

__all__ = ["Factors"]


@dataclass(frozen=True, eq=False)
class Factors:
    """Several chains.

    Attributes
    ----------
    names : tuple of str
        Of the chains.
    levels : tuple of ndarray
        Names of the states of each.
    coupling : {"factorial", "coupled", "switching"}
    known : mapping of str to ndarray
        Initial and transition probabilities that are given, by posterior name.
    pseudocount, stickiness : float
        Of the Dirichlet priors.
    """

    names: tuple[str, ...]
    levels: tuple[np.ndarray, ...]
    coupling: Literal["factorial", "coupled", "switching"]
    known: Mapping[str, np.ndarray]
    pseudocount: float
    stickiness: float

    @cached_property
    def space(self) -> ProductSpace:
        return ProductSpace(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(own) for own in self.levels)

    @property
    def n_states(self) -> int:
        return self.space.n_states

    @property
    def every(self) -> tuple[str, ...]:
        """Names of all initial and transition probabilities."""
        return tuple(f"{word}_{name}" for name in self.names for word in ("initial", "transition"))
