"""The contract of local distributions: unknown numbers, unknown rows, and the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

__all__ = ["Local", "Rows", "Value"]

type Value = Callable[[str], Any]


@dataclass(frozen=True)
class Rows:
    """Rows of a table with a Dirichlet prior.

    Attributes
    ----------
    name : str
        The posterior's name of these rows.
    index : ndarray of int
        Which rows of the table, shape (n_rows,).
    concentration : ndarray
        Shape (n_rows, n_states).
    whole : bool
        Whether these are all the rows of the table.
    """

    name: str
    index: np.ndarray
    concentration: np.ndarray
    whole: bool


class Local(Protocol):
    """A local distribution.

    Attributes
    ----------
    unknown : mapping of str to str
        The prior of each unknown number, as an expression of the family ``graph``.
    rows : Rows or None
        Unknown rows.
    known : ndarray or None
        The table, if nothing in it is unknown.
    """

    @property
    def unknown(self) -> Mapping[str, str]: ...
    @property
    def rows(self) -> Rows | None: ...
    @property
    def known(self) -> np.ndarray | None: ...
    def table(self, value: Value, xp: Any) -> Any:
        """The table, computed from the value of each unknown; ``xp`` is NumPy or ``pytensor.tensor``."""
        ...
