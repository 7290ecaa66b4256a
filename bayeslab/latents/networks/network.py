"""A discrete Bayes net as plain data: ordered states, ordered parents, and a table for each variable.

The joint distribution is the product of the tables, ``p(x) = prod_v p(x_v | x_parents(v))``. Readers and writers of
network files, inference and learning share this class, which is independent of file formats, model files and PyMC.

References
----------
.. [1] Pearl (1988). Probabilistic Reasoning in Intelligent Systems. Morgan Kaufmann.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.errors import ModelError, hint

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["DiscreteNetwork"]

# Rows whose sum is this close to 1, as after rounding in files, are normalised; others are errors.
_ROUNDED = 1e-3


@dataclass(frozen=True, eq=False)
class DiscreteNetwork:
    """A discrete Bayes net.

    Parameters
    ----------
    states : mapping of str to tuple of str
        The states of each variable, in order. The order of the mapping is the order of the variables.
    parents : mapping of str to tuple of str
        The parents of each variable, in the order of its table's axes; roots may be left out.
    tables : mapping of str to ndarray
        P(variable | parents), shape (states of parent 1, ..., states of the variable); sums to one over the last axis.
    name : str
    notes : mapping
        Further contents of a network file (positions, comments, units), for writers of formats that have them.

    Raises
    ------
    ModelError
        An unknown parent, a directed cycle, repeated states, a table of the wrong shape, a negative probability, or a
        row that does not sum to one.
    """

    states: Mapping[str, tuple[str, ...]]
    parents: Mapping[str, tuple[str, ...]]
    tables: Mapping[str, np.ndarray]
    name: str = "network"
    notes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        states = {str(v): tuple(map(str, s)) for v, s in self.states.items()}
        listed: dict[str, Any] = {v: self.parents.get(v, ()) for v in states}
        # One name alone is one parent, not a parent for each letter.
        parents = {v: (above,) if isinstance(above, str) else tuple(above) for v, above in listed.items()}
        for name in (self.parents.keys() | self.tables.keys()) - states.keys():
            raise ModelError(
                f"'{name}' has parents or a table but no states{hint(name, states)}", code="unknown-variable"
            )
        for variable, labels in states.items():
            if not labels or len(set(labels)) < len(labels):
                raise ModelError(f"variable '{variable}' needs at least one state, each state once", code="duplicate")
        for variable, above in parents.items():
            for parent in above:
                if parent not in states:
                    raise ModelError(
                        f"'{parent}', a parent of '{variable}', is not a variable{hint(parent, states)}",
                        code="unknown-variable",
                    )
            if len(set(above)) < len(above):
                raise ModelError(f"variable '{variable}' has a parent twice", code="duplicate")
        tables = {v: _table(v, self.tables, states, parents) for v in states}
        object.__setattr__(self, "states", states)
        object.__setattr__(self, "parents", parents)
        object.__setattr__(self, "tables", tables)
        try:
            TopologicalSorter(parents).prepare()
        except CycleError as error:
            raise ModelError(f"the network has a cycle: {' -> '.join(error.args[1])}", code="cycle") from None

    @property
    def graph(self) -> nx.DiGraph:
        """The structure, with the attribute ``states`` of each node."""
        import networkx as nx

        out = nx.DiGraph(name=self.name)
        out.add_nodes_from((v, {"states": s}) for v, s in self.states.items())
        out.add_edges_from((parent, v) for v, above in self.parents.items() for parent in above)
        return out

    @property
    def n_parameters(self) -> int:
        """Number of free parameters: for each row of a table, one fewer than its entries."""
        return sum(table.size // table.shape[-1] * (table.shape[-1] - 1) for table in self.tables.values())


def _table(
    variable: str,
    tables: Mapping[str, np.ndarray],
    states: Mapping[str, tuple[str, ...]],
    parents: Mapping[str, tuple[str, ...]],
) -> np.ndarray:
    if variable not in tables:
        raise ModelError(f"variable '{variable}' has no table", code="incomplete")
    shape = (*(len(states[p]) for p in parents[variable]), len(states[variable]))
    table = np.array(tables[variable], dtype=float)
    if table.shape != shape:
        given, want = (" × ".join(map(str, s)) or "a number" for s in (table.shape, shape))
        raise ModelError(
            f"the table of '{variable}' is {given}; its parents and states need {want}", code="wrong-shape"
        )
    if not np.all(np.isfinite(table)) or np.any(table < 0):
        raise ModelError(f"the table of '{variable}' has an entry that is not a probability", code="not-probabilities")
    total = table.sum(axis=-1, keepdims=True)
    if np.any(np.abs(total - 1) > _ROUNDED):
        row = np.unravel_index(int(np.argmax(np.abs(total - 1))), total.shape)[:-1]
        given = ", ".join(f"{p}={states[p][i]}" for p, i in zip(parents[variable], row, strict=True))
        where = f" given {given}" if given else ""
        raise ModelError(
            f"the table of '{variable}' sums to {float(total[(*row, 0)]):g}{where}, not to 1", code="not-probabilities"
        )
    # A row that is normalised already stays bit-identical.
    return table / np.where(np.abs(total - 1) > shape[-1] * np.finfo(float).eps, total, 1.0)
