"""Searches for a single good structure, one file each; the name of a search is the name of its file.

Searches by score offer ``search(source, *, constraints, prior, ...) -> Found``:

``source``
    A score of a data set (:class:`bayeslab.structure.scores.LocalScore`), computed only for the families that the
    search visits, or a :class:`bayeslab.structure.score_table.ScoreTable`, which includes its prior and its
    constraints.
``constraints``
    Prior constraints (:class:`bayeslab.structure.constraints.Constraints`), which every visited graph satisfies.
``prior``
    A prior over structures (:mod:`bayeslab.structure.priors`), added to the score.
``rng``
    Random generator, only for searches that use random numbers.

The result does not depend on the order of the columns, on hash seeds or on threads: ties, up to rounding, are broken by
the order of names.

Searches by tests of independence (:mod:`pc`, :mod:`fci`, :mod:`mmpc`) have their own arguments and results.
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
    """A structure found by a search, and the course of the search.

    Attributes
    ----------
    graph : networkx.DiGraph
        A DAG; its nodes are all variables, in the order of the columns of the data.
    score : float
        Log score plus log prior, summed over all variables.
    trace : tuple of float
        Scores during the search, starting with the initial graph.
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
    """Return a search module by name.

    Raises
    ------
    OptionError
        There is no such search.
    """
    known = registry.names("structure/searches")
    if name not in known:
        raise OptionError(f"unknown search '{name}'{hint(name, known)}", code="unknown-word")

    return import_module(f"bayeslab.structure.searches.{name}")


def comparison_table(
    results: Mapping[str, Found], reference: nx.DiGraph | None = None
) -> list[dict[str, str | float | int]]:
    """Return results side by side, best score first, as a list of rows for a dataframe.

    Parameters
    ----------
    results
        Results by any names; scores are comparable if score and data are the same.
    reference
        A graph to compare with, such as the true one: adds the structural Hamming distances,
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
