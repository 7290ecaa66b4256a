"""Tables of decoded states: the most likely paths, and probabilities of the states at each time.

Probabilities are averaged over posterior draws. Paths cannot be averaged: the most likely path is computed at the
posterior mean of the parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.errors import DataError, OptionError, hint
from bayeslab.posterior.averaging import averaging

__all__ = ["METHODS", "Decoded", "Table", "check_method", "condition", "description", "of_sequence"]

type Table = dict[str, np.ndarray]

METHODS = ("viterbi", "posterior", "smooth", "filter", "predict")


def check_method(method: str, best: int = 1) -> None:
    """Refuse an unknown method, and several paths of a method that has none.

    Raises
    ------
    OptionError
    """
    if method not in METHODS:
        raise OptionError(f"unknown method '{method}'{hint(method, METHODS)}", code="unknown-word")
    if best < 1:
        raise OptionError(f"best is {best}; at least 1 path", code="out-of-range")
    if best > 1 and method != "viterbi":
        raise OptionError("best is a number of paths and needs method viterbi", code="conflict")


def condition(method: str) -> str:
    """The rows on which a method's probabilities are conditioned: ``smooth``, ``filter`` or ``predict``."""
    return method if method in ("filter", "predict") else "smooth"


def of_sequence(names: np.ndarray, sequence: str | None) -> np.ndarray:
    """The positions whose sequence is the requested one; all for None.

    Raises
    ------
    DataError
        There is no such sequence.
    """
    if sequence is None:
        return np.arange(len(names))
    words = names.astype(str)
    kept = np.flatnonzero(words == sequence)
    if not len(kept):
        known = list(dict.fromkeys(words.tolist()))
        raise DataError(f"there is no sequence '{sequence}'{hint(sequence, known)}", code="unknown-level")
    return kept


@dataclass(frozen=True, eq=False)
class Decoded:
    """States of the cells of one path.

    Attributes
    ----------
    index : mapping of str to ndarray (n_cells,)
        Labels of the cells.
    kept : ndarray of int
        The requested cells, in the order of the table.
    sequence : ndarray (n_cells,)
        Index of the sequence of each cell.
    chances : ndarray (n_cells, n_states)
        Probabilities of the states.
    named : callable
        Maps states to columns with their names.
    columns : callable
        Maps probabilities (n, n_states) to columns with those of each state.
    """

    index: Mapping[str, np.ndarray]
    kept: np.ndarray
    sequence: np.ndarray
    chances: np.ndarray
    named: Callable[[np.ndarray], Table]
    columns: Callable[[np.ndarray], Table]

    def paths(self, paths: np.ndarray, heights: np.ndarray) -> list[Table]:
        """The most likely paths (n, n_cells) as tables, best first; a sequence may have fewer possible ones.

        Parameters
        ----------
        heights : ndarray (n, n_sequences)
            Log probability of each path with the data.
        """
        out = []
        for k, states in enumerate(paths):
            there = self.kept[states[self.kept] >= 0]
            table = self._at(there, states[there]) | {"probability": self.chances[there, states[there]]}
            if len(paths) > 1:
                number = np.full(len(there), k + 1)
                table |= {"path": number, "log_probability": heights[k][self.sequence[there]]}
            out.append(table)
        return out

    def states(self, method: str) -> Table:
        """The most probable state of each cell; the probabilities of all states too, unless only states are wanted."""
        chances = self.chances[self.kept]
        table = self._at(self.kept, chances.argmax(axis=1)) | {"probability": chances.max(axis=1)}
        return table if method == "posterior" else table | self.columns(chances)

    def _at(self, cells: np.ndarray, states: np.ndarray) -> Table:
        return {name: values[cells] for name, values in self.index.items()} | self.named(states)


def description(method: str, n: int, most: int, at: str, heights: list[np.ndarray]) -> dict[str, Any]:
    """Attributes of a decoded table.

    Parameters
    ----------
    n : int
        Number of posterior draws.
    most : int
        Largest number of draws that are averaged.
    at : str
        Description of the parameters of the most likely paths.
    heights : list of ndarray (n_paths, n_sequences)
        Log probabilities of the most likely paths of each path node; empty for other methods than ``viterbi``.
    """
    how = averaging(n, most) if n > 1 else f"at {at}"
    out: dict[str, Any] = {"method": method, "draws": min(n, most)}
    if method != "viterbi":
        return out | {"about": f"{method}: probabilities {how}"}
    each = [height.tolist() for height in heights]
    total = sum(float(height[0].sum()) for height in heights)
    about = (
        f"viterbi: the most likely path{'s' if len(heights[0]) > 1 else ''} at {at}, log probability with the data"
        f" {total:.6g}; probability: of the state at its time, given all rows"
    )
    out["log_probability"] = each[0] if len(each) == 1 else each
    return out | {"about": f"{about}, {how}" if n > 1 else about}
