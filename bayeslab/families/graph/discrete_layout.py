"""Discrete nodes without data, and the tables of densities over the values of the cells that occur in them.

Each density has tables over *slots*: cells that never occur together share one, so that a table is the density
evaluated once for each joint value of the slots, all of whose cells have that value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.errors import ModelError
from bayeslab.families.graph.path_laws import HiddenPath
from bayeslab.latents.networks.elimination import Factor

__all__ = ["Latent", "Table", "tables_of"]

#: Largest size of the table of one density.
_MOST_NUMBERS = 10_000_000
# Elements have separate tables if there are at most this many, and their total size is at most this share of one table.
_MOST_TABLES, _WORTH_IT = 64, 0.25


@dataclass(frozen=True, eq=False)
class Latent:
    """A discrete node without data.

    Attributes
    ----------
    symbol : TensorVariable or Var
        Placeholder of its values in a graph or a program.
    first, states : int
        Its lowest value, and the number of values.
    path : HiddenPath or None
        The law of its cells, if they are a path of hidden states.
    """

    name: str
    symbol: Any
    shape: tuple[int, ...]
    first: int
    states: int
    path: HiddenPath | None = None

    @property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    @property
    def known_path(self) -> HiddenPath:
        """The law of its cells, which are a path of hidden states."""
        assert self.path is not None
        return self.path


@dataclass(frozen=True, eq=False)
class Table:
    """A density at all values of some slots, for some of its elements.

    Attributes
    ----------
    values : list of ndarray (values, ...)
        Values of the nodes that occur in the density, in all joint values of the slots.
    elements : list of int
    """

    values: list[np.ndarray]
    elements: list[int]


def tables_of(
    name: str,
    scopes: Sequence[np.ndarray],
    used: Sequence[Latent],
    cells: Sequence[np.ndarray],
    number: int,
    begin: int,
) -> tuple[list[Table], list[Factor], int]:
    """The tables of a density, (values, elements) each one behind another in a flat vector, and its elements' factors.

    Parameters
    ----------
    scopes
        The cells that each element depends on, ascending.
    used
        The nodes that occur in the density.
    cells
        The numbers of their cells.
    number
        Number of cells of all nodes.
    begin
        Where the tables begin in the flat vector.

    Returns
    -------
    tables : list of Table
    factors : list of Factor
        One for each element.
    length : int
        Size of the tables.

    Raises
    ------
    ModelError
        The tables are too large.
    """
    colours = _coloured(scopes, number)
    slots: list[Latent] = []  # one for each colour of each latent, slowest first
    slot_of: dict[int, int] = {}
    for latent, its_cells in zip(used, cells, strict=True):
        numbers = its_cells.ravel()
        for colour in np.unique(colours[numbers]):
            if colour >= 0:
                slot_of |= dict.fromkeys(numbers[colours[numbers] == colour].tolist(), len(slots))
                slots.append(latent)
    if not slots:
        values = [np.full((1, *latent.shape), latent.first) for latent in used]
        factors = [Factor((), begin + n, ()) for n in range(len(scopes))]
        return [Table(values, list(range(len(scopes))))], factors, len(scopes)
    groups = _groups([tuple(sorted({slot_of[c] for c in scope.tolist()})) for scope in scopes], slots)
    total = sum(_numbers(group, slots, len(scopes)) for group in groups)
    if total > _MOST_NUMBERS:
        most = max(groups, key=lambda group: _numbers(group, slots, 1))
        raise ModelError(
            f"summing out takes {_numbers(most, slots, 1):,} values of '{name}' for each of its {len(scopes):,}"
            f" elements, because {len(most)} discrete values meet in one; at most {_MOST_NUMBERS:,} numbers are kept",
            code="too-costly",
        )
    factor_of: dict[int, Factor] = {}
    tables, start = list[Table](), begin
    for group, elements in groups.items():
        states = [slots[slot].states for slot in group]
        tables.append(Table(_values(used, cells, slot_of, group, states), elements))
        for place, n in enumerate(elements):
            strides = tuple(
                len(elements) * math.prod(states[group.index(slot_of[c]) + 1 :]) for c in scopes[n].tolist()
            )
            factor_of[n] = Factor(tuple(scopes[n].tolist()), begin + place, strides)
        begin += math.prod(states) * len(elements)
    return tables, [factor_of[n] for n in range(len(scopes))], begin - start


def _groups(needs: Sequence[tuple[int, ...]], slots: Sequence[Latent]) -> dict[tuple[int, ...], list[int]]:
    """Group the elements of a density by the slots of their tables.

    One table over all slots is a single expression; separate tables for elements with different slots are smaller.
    """
    split: dict[tuple[int, ...], list[int]] = {}
    for n, need in enumerate(needs):
        split.setdefault(need, []).append(n)
    whole = {tuple(range(len(slots))): list(range(len(needs)))}
    apart = sum(_numbers(group, slots, len(needs)) for group in split)
    together = sum(_numbers(group, slots, len(needs)) for group in whole)
    return split if len(split) <= _MOST_TABLES and apart < _WORTH_IT * together else whole


def _numbers(group: tuple[int, ...], slots: Sequence[Latent], elements: int) -> int:
    return elements * math.prod(slots[slot].states for slot in group)


def _values(
    used: Sequence[Latent],
    cells: Sequence[np.ndarray],
    slot_of: Mapping[int, int],
    group: tuple[int, ...],
    states: Sequence[int],
) -> list[np.ndarray]:
    """Values of each node in all joint values of some slots, the others at their first: (values, ...)."""
    number = math.prod(states)
    digits = np.stack(np.unravel_index(np.arange(number), states), axis=1) if states else np.zeros((1, 1), np.int64)
    place_of = {slot: place for place, slot in enumerate(group)}
    out = []
    for latent, its_cells in zip(used, cells, strict=True):
        places = np.array([place_of.get(slot_of.get(int(c), -1), -1) for c in its_cells.ravel()], np.int64)
        chosen = np.where(places >= 0, digits[:, np.maximum(places, 0)], 0)
        out.append((latent.first + chosen).reshape(number, *latent.shape))
    return out


def _coloured(scopes: Sequence[np.ndarray], number: int) -> np.ndarray:
    """A graph colouring: cells that occur together have different colours; -1 for unused cells."""
    colours = np.full(number, -1)
    meeting: dict[int, set[int]] = {}
    for scope in scopes:
        if len(scope) == 1:
            meeting.setdefault(int(scope[0]), set())
        for cell in scope.tolist() if len(scope) > 1 else ():
            meeting.setdefault(cell, set()).update(scope.tolist())
    for cell in sorted(meeting):
        taken = {colours[other] for other in meeting[cell] if other != cell}
        colour = 0
        while colour in taken:
            colour += 1
        colours[cell] = colour
    return colours
