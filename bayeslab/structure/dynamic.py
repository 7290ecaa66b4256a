"""Dynamic Bayes nets: a template for one time step, repeated over the slices.

In a dynamic Bayes net the variables of slice t depend on each other and on those of earlier slices, by
the same tables at every t. An initial network gives the distribution of the first slices. Unrolled over
a number of slices it is an ordinary network with variables ``X[0]``, ``X[1]``, …; filtering, smoothing
and prediction are then queries [1]_.

References
----------
.. [1] Dean, Kanazawa (1989). A model for reasoning about persistence and causation. Computational
   Intelligence 5, 142-150.
.. [2] Murphy (2002). Dynamic Bayesian Networks. PhD thesis, Berkeley, section 2.2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayeslab.arrays import count
from bayeslab.errors import ModelError, OptionError, hint
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.memory import require_memory

__all__ = ["Template", "unroll"]

# Bytes per variable of an unrolled network, whose table is shared: names, states and parents in mappings.
_BYTES = 1_000

_NUMBERED = re.compile(r"(.+)\[(\d+)\]")
_LAGGED = re.compile(r"(.+)\[t(?:\s*-\s*(\d+))?\]")


@dataclass(frozen=True, eq=False)
class Template:
    """A dynamic Bayes net: its initial network and its transition tables.

    Parameters
    ----------
    initial : DiscreteNetwork
        Slice 0; a variable ``X`` is ``X[0]``. If parents lie k slices back: the first k slices, with
        variables ``X[0]`` … ``X[k-1]``. It needs only the variables that later slices depend on.
    states : mapping of str to tuple of str
        The states of each variable of the later slices.
    parents : mapping of str to sequence
        Parents in the order of the table's axes: ``"X"`` or ``"X[t]"`` for the same slice, ``"X[t-1]"``
        or ``("X", -1)`` for the slice before, and so on; roots may be omitted.
    tables : mapping of str to ndarray
        P(variable | parents), the same for all slices.
    name : str

    Raises
    ------
    ModelError
        An unknown parent, a cycle, a table of the wrong shape, or a variable whose past is not in the
        initial network.
    """

    initial: DiscreteNetwork
    states: Mapping[str, tuple[str, ...]]
    parents: Mapping[str, Sequence[str | tuple[str, int]]]
    tables: Mapping[str, np.ndarray]
    name: str = "dynamic"

    def __post_init__(self) -> None:
        object.__setattr__(self, "states", {str(v): tuple(map(str, s)) for v, s in self.states.items()})
        for name in (self.parents.keys() | self.tables.keys()) - self.states.keys():
            raise ModelError(
                f"'{name}' has parents or a table but no states{hint(name, self.states)}", code="unknown-variable"
            )
        for name in self.states.keys() - self.tables.keys():
            raise ModelError(f"variable '{name}' has no table", code="incomplete")
        for variable, (slice_, levels) in ((v, (_place(v), s)) for v, s in self.initial.states.items()):
            if self.states.get(slice_[0], levels) != levels:
                raise ModelError(
                    f"the states of '{slice_[0]}' are {self.states[slice_[0]]}, but {levels} at '{variable}'",
                    code="contradiction",
                )
        unroll(self, self.n_initial + 1)

    @property
    def n_initial(self) -> int:
        """Number of slices in the initial network."""
        return 1 + max((_place(v)[1] for v in self.initial.states), default=0)


def _place(name: str) -> tuple[str, int]:
    """``X[1]`` → (X, 1); ``X`` is in slice 0."""
    match = _NUMBERED.fullmatch(name)
    return (match[1], int(match[2])) if match else (name, 0)


def _reference(parent: str | tuple[str, int]) -> tuple[str, int]:
    """``X[t-1]`` → (X, -1)."""
    if isinstance(parent, str):
        match = _LAGGED.fullmatch(parent)
        parent = (match[1], -int(match[2] or 0)) if match else (parent, 0)
    if (
        not isinstance(parent, tuple)
        or len(parent) != 2
        or not isinstance(parent[0], str)
        or not isinstance(parent[1], int)
    ):
        raise ModelError(
            f'a parent is "X", "X[t-1]" or ("X", -1), not {parent!r:.60}',
            code="wrong-type",
        )
    name, step = parent
    if step > 0:
        raise ModelError(
            f"a parent lies in the same slice or in an earlier one, not {step} after: '{name}'", code="misplaced"
        )
    return name, step


def unroll(template: Template, n_slices: int) -> DiscreteNetwork:
    """Return the network unrolled over slices 0 … ``n_slices`` − 1.

    Parameters
    ----------
    n_slices
        Total number of slices, including the initial ones.

    Returns
    -------
    DiscreteNetwork
        Variables ``X[0]``, ``X[1]``, …, slice by slice.
    """
    begun, n_slices = template.n_initial, count(n_slices, "n_slices")
    require_memory(
        n_slices * len(template.states) * _BYTES, f"a network of {n_slices:,} slices", "unroll fewer of them"
    )
    if n_slices < begun:
        raise OptionError(
            f"the initial network alone has slices up to {begun - 1}; {n_slices} slices cannot hold it",
            code="out-of-range",
        )
    named = {v: "{}[{}]".format(*_place(v)) for v in template.initial.states}
    states = {named[v]: levels for v, levels in template.initial.states.items()}
    parents = {named[v]: tuple(named[p] for p in above) for v, above in template.initial.parents.items()}
    tables = {named[v]: table for v, table in template.initial.tables.items()}
    known = set(states)
    for t in range(begun, n_slices):
        known |= {f"{v}[{t}]" for v in template.states}
        for variable, levels in template.states.items():
            here = f"{variable}[{t}]"
            states[here], tables[here] = levels, template.tables[variable]
            listed = template.parents.get(variable, ())
            above = map(_reference, (listed,) if isinstance(listed, str) else listed)
            parents[here] = tuple(_known(template, variable, name, t + step, known) for name, step in above)
    return DiscreteNetwork(states, parents, tables, template.name)


def _known(template: Template, variable: str, parent: str, t: int, known: set[str]) -> str:
    name = f"{parent}[{t}]"
    if name in known:
        return name
    if parent not in template.states:
        raise ModelError(
            f"'{parent}', a parent of '{variable}', is not a variable{hint(parent, template.states)}",
            code="unknown-variable",
        )
    raise ModelError(
        f"'{variable}' depends on '{parent}' of slice {t}, which the initial network does not have: it has"
        f" {', '.join(sorted(template.initial.states))}",
        code="unknown-variable",
    )
