"""Searches for one good structure, one file each. The word that users write is the file's name.

Searches by score offer ``search(source, *, constraints, prior, ...) -> Found``:

``source``
    A score with its data (:class:`bayeslab.structure.scores.LocalScore`), asked only for the families that the search
    looks at, or a :class:`bayeslab.structure.score_table.ScoreTable`, which holds its prior and its constraints.
``constraints``
    What is known beforehand (:class:`bayeslab.structure.constraints.Constraints`); every graph on the way keeps it.
``prior``
    A prior over structures (:mod:`bayeslab.structure.priors`), added to the score.
``rng``
    Only of searches that draw random numbers.

The result does not depend on the order of the columns, on hash seeds or on threads: what is equally good, up to
rounding, is taken in the order of names.

Searches by tests of independence (:mod:`pc`, :mod:`fci`, :mod:`mmpc`) say themselves what they take and return.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

import networkx as nx

from bayeslab import registry
from bayeslab.errors import OptionError, hint
from bayeslab.structure.cpdag import class_distance, hamming_distance

__all__ = ["Found", "comparison_table", "load"]


@dataclass(frozen=True, eq=False)
class Found:
    """A structure and how it was found.

    Attributes
    ----------
    graph : networkx.DiGraph
        Acyclic; its nodes are all variables, in the order of the data's columns.
    score : float
        Log score plus log prior, the sum over all variables.
    trace : tuple of float
        Scores on the way, the first that of the start.
    n_scored : int
        Number of families whose score was computed.
    """

    graph: nx.DiGraph
    score: float
    trace: tuple[float, ...]
    n_scored: int

    def __repr__(self) -> str:
        return f"Found({len(self.graph.edges)} edges, score {self.score:,.3f}, {self.n_scored:,} families scored)"


def load(name: str) -> ModuleType:
    """A search by its word.

    Raises
    ------
    OptionError
        No such search.
    """
    known = registry.names("structure/searches")
    if name not in known:
        raise OptionError(f"unknown search '{name}'{hint(name, known)}", code="unknown-word")

    return import_module(f"bayeslab.structure.searches.{name}")


def comparison_table(
    results: Mapping[str, Found], reference: nx.DiGraph | None = None
) -> list[dict[str, str | float | int]]:
    """Results side by side, best score first: a list of rows that dataframes are made from.

    Parameters
    ----------
    results
        By a name of your own; scores are comparable if they are of the same score and data.
    reference
        A graph that the others are held against, such as the true one: adds their structural Hamming distances,
        ``shd`` of the graphs and ``shd_cpdag`` of their equivalence classes.
    """
    rows: list[dict[str, str | float | int]] = []
    for name, result in sorted(results.items(), key=lambda item: (-item[1].score, item[0])):
        row: dict[str, str | float | int] = {"search": name, "score": result.score, "edges": len(result.graph.edges)}
        if reference is not None:
            row["shd"] = hamming_distance(result.graph, reference)
            row["shd_cpdag"] = class_distance(result.graph, reference)
        rows.append({**row, "families scored": result.n_scored})
    return rows
