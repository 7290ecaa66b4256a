"""Missing cells of observed nodes, and the nodes that depend on them."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.distributions import DISTRIBUTIONS
from bayeslab.language.nodes import Node

__all__ = ["below", "is_vector", "leaves_gaps_out", "nodes_with_gaps"]


def nodes_with_gaps(nodes: Mapping[str, Node], data: Data) -> list[str]:
    """Discrete nodes with missing cells on which other nodes depend."""
    needed, columns = {parent for node in nodes.values() for parent in node.parents}, data.names()
    out = []
    for node in nodes.values():
        if node.kind == "random" and node.discrete and node.name in columns & needed and not node.recursive:
            term = data.term(node.name, missing=True)
            cells = term.value if term.codes is None else np.where(term.codes < 0, np.nan, 0.0)
            if cells is not None and np.isnan(np.asarray(cells, dtype=float)).any():
                out.append(node.name)
    return out


def below(nodes: Mapping[str, Node], name: str) -> list[str]:
    """Nodes that depend on a node."""
    return [other.name for other in nodes.values() if name in other.parents]


def is_vector(node: Node) -> bool:
    """Whether one value of the node is a vector."""
    assert isinstance(node.expression.tree, ast.Call)
    return DISTRIBUTIONS[str(node.distribution)].support > 0 if node.distribution in DISTRIBUTIONS else False


def leaves_gaps_out(nodes: Mapping[str, Node], node: Node) -> bool:
    """Whether missing cells of a node are factors of 1 in the density because nothing depends on them."""
    return not node.recursive and not is_vector(node) and not below(nodes, node.name)
