"""Densities as tables over the values of the discrete cells that occur in them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace, vectorize_graph
from pytensor.graph.traversal import ancestors

from bayeslab.errors import ModelError
from bayeslab.latents.networks.elimination import Factor

if TYPE_CHECKING:
    from bayeslab.families.graph.path_laws import HiddenPath

__all__ = ["MOST_NUMBERS", "Latent", "density_table"]

#: Largest size of the table of one density.
MOST_NUMBERS = 10_000_000
# Elements have separate tables if there are at most this many, and their total size is at most this share of one table.
_MOST_TABLES, _WORTH_IT = 64, 0.25


@dataclass(frozen=True, eq=False)
class Latent:
    """A discrete node without data.

    Attributes
    ----------
    symbol : TensorVariable
        Placeholder of its values.
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


def density_table(
    name: str,
    value: Any,
    scopes: list[np.ndarray],
    latents: Sequence[Latent],
    cells: Mapping[Any, np.ndarray],
    sizes: np.ndarray,
    length: int,
) -> tuple[Any, tuple[list[Factor], int]]:
    """Flat vector of a density at every value of its cells, and the start of each element's table."""
    used = [latent for latent in latents if latent.symbol in set(ancestors([value]))]
    colours = _coloured(scopes, len(sizes))
    slots: list[Latent] = []  # one for each colour of each latent, slowest first
    slot_of: dict[int, int] = {}
    for latent in used:
        numbers = cells[latent.symbol].ravel()
        for colour in np.unique(colours[numbers]):
            if colour >= 0:
                slot_of |= dict.fromkeys(numbers[colours[numbers] == colour].tolist(), len(slots))
                slots.append(latent)
    if not slots:
        factors = [Factor((), length + n, ()) for n in range(len(scopes))]
        return value.ravel() if value.ndim else value[None], (factors, len(scopes))
    groups = _groups([tuple(sorted({slot_of[c] for c in scope.tolist()})) for scope in scopes], slots)
    total = sum(_numbers(group, slots, len(scopes)) for group in groups)
    if total > MOST_NUMBERS:
        most = max(groups, key=lambda group: _numbers(group, slots, 1))
        raise ModelError(
            f"summing out takes {_numbers(most, slots, 1):,} values of '{name}' for each of its {len(scopes):,}"
            f" elements, because {len(most)} discrete values meet in one; at most {MOST_NUMBERS:,} numbers are kept",
            code="too-costly",
        )
    factor_of: dict[int, Factor] = {}
    tables, begin = [], length
    for group, elements in groups.items():
        states = [slots[slot].states for slot in group]
        tables.append(_batched(value, used, cells, slot_of, group, states)[:, elements].ravel())
        for place, n in enumerate(elements):
            strides = tuple(
                len(elements) * math.prod(states[group.index(slot_of[c]) + 1 :]) for c in scopes[n].tolist()
            )
            factor_of[n] = Factor(tuple(scopes[n].tolist()), begin + place, strides)
        begin += math.prod(states) * len(elements)
    table = pt.concatenate(tables) if len(tables) > 1 else tables[0]
    return table, ([factor_of[n] for n in range(len(scopes))], begin - length)


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


def _batched(
    value: Any,
    used: Sequence[Latent],
    cells: Mapping[Any, np.ndarray],
    slot_of: Mapping[int, int],
    group: tuple[int, ...],
    states: Sequence[int],
) -> Any:
    """A density at all values of some slots, the others at their first: (values, elements)."""
    number = math.prod(states)
    digits = np.stack(np.unravel_index(np.arange(number), states), axis=1) if states else np.zeros((1, 1), np.int64)
    place_of = {slot: place for place, slot in enumerate(group)}
    changes = {}
    for latent in used:
        numbers = cells[latent.symbol].ravel()
        places = np.array([place_of.get(slot_of.get(int(c), -1), -1) for c in numbers], np.int64)
        chosen = np.where(places >= 0, digits[:, np.maximum(places, 0)], 0)
        changes[latent.symbol] = pt.constant((latent.first + chosen).reshape(number, *latent.shape))
    # A parameter whose prior depends on another would be copied: placeholders are replaced afterwards.
    drawn = [v for v in ancestors([value]) if v.owner is not None and hasattr(v.owner.op, "dist_params")]
    held = {v: v.type() for v in drawn}
    batched = vectorize_graph(graph_replace([value], held, strict=False)[0], changes)
    batched = graph_replace([batched], {symbol: v for v, symbol in held.items()}, strict=False)[0]
    return batched.reshape((number, -1))


def _coloured(scopes: list[np.ndarray], number: int) -> np.ndarray:
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


# ------------------------------------------------------------------------- what is not possible
