"""State nodes and functions that may be integrated out of the observed nodes that they enter."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from bayeslab.data.bound import Data
from bayeslab.families.graph.gaps import nodes_with_gaps
from bayeslab.families.graph.scope import Purpose
from bayeslab.families.graph.states import series_of
from bayeslab.language.nodes import Node

__all__ = ["integrals_of"]


def integrals_of(nodes: Mapping[str, Node], data: Data, purpose: Purpose) -> list[frozenset[str]]:
    """Sets of nodes that may be integrated out together, best first; the graph decides whether they can be."""
    columns = data.names()
    discrete = any(node.kind == "random" and node.discrete and node.name not in columns for node in nodes.values())
    if purpose != "fit" or discrete or series_of(data) is not data or nodes_with_gaps(nodes, data):
        return []
    states = frozenset(node.name for node in nodes.values() if node.states and node.name not in columns)
    alike: dict[str, list[str]] = {}
    for node in nodes.values():
        if node.process and (rows := _only_rows(node.name, nodes, columns)) is not None:
            alike.setdefault(rows, []).append(node.name)
    functions = frozenset(name for names in alike.values() for name in names)
    out = [states | functions, states, functions, *map(frozenset, alike.values())]
    out += [frozenset([name]) for names in alike.values() if len(names) > 1 for name in names]
    return [names for names in dict.fromkeys(out) if names]


def _only_rows(name: str, nodes: Mapping[str, Node], columns: Collection[str]) -> str | None:
    """The only node whose density depends on a node, if it is normal and observed; otherwise None."""
    meets, children = {name}, set[str]()
    todo = [name]
    while todo:
        above = todo.pop()
        for node in nodes.values():
            if above not in node.parents or node.name in meets:
                continue
            meets.add(node.name)
            if node.kind == "deterministic":
                todo.append(node.name)
            else:
                children.add(node.name)
    if len(children) != 1:
        return None
    (rows,) = children
    return rows if nodes[rows].distribution == "Normal" and rows in columns else None
