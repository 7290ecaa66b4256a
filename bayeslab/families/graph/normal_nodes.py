"""Normal nodes with their means and spreads, and the unknown nodes that a node or an expression depends on."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayeslab.data.node_values import Environment, NotExact
from bayeslab.families.graph.linear_forms import ONE
from bayeslab.language.nodes import Node, bound_arguments

__all__ = ["NormalNode", "ancestors", "deterministic_ancestors", "names_under", "normal_node"]


@dataclass(frozen=True, eq=False)
class NormalNode:
    """A normal node: its mean and standard deviation, or covariance of its last dimension."""

    node: Node
    mean: ast.expr
    sd: ast.expr | None
    root: np.ndarray | None = None  # rows @ root has independent columns (of a multivariate normal)


def normal_node(node: Node, environment: Environment) -> NormalNode:
    assert isinstance(node.expression.tree, ast.Call)
    word = str(node.distribution)
    given = bound_arguments(node.expression.tree, word)
    mean = given.get("mu", ast.Constant(0))
    if word != "MvNormal":
        if "sigma" in given and "tau" in given:
            raise NotExact(f"'{node.name}' has both sigma and tau")
        sd = given.get("sigma", ONE)
        if "tau" in given:
            sd = ast.BinOp(given["tau"], ast.Pow(), ast.Constant(-0.5))
        return NormalNode(node, mean, sd)
    (kind,) = given.keys() & {"cov", "tau", "chol"} or {""}
    if not kind or not node.dims:
        raise NotExact(f"'{node.name}' is multivariate without a covariance")
    names = {part.id for part in ast.walk(given[kind]) if isinstance(part, ast.Name)}
    if any(name in environment.nodes and name not in environment.columns for name in names):
        unknown = {n for n in names if n in environment.nodes and environment.nodes[n].kind == "random"}
        if unknown or any(ancestors(n, environment.nodes, environment.columns) for n in names):
            raise NotExact(f"the covariance of '{node.name}' is not known")
    matrix = np.asarray(environment.eval(given[kind]).value, float)
    size = environment.shape(node.dims)[-1]
    if matrix.shape != (size, size):
        raise NotExact(f"the covariance of '{node.name}' is not one {size} × {size} matrix")
    if kind == "tau":
        root = np.linalg.cholesky(matrix)
    else:
        chol = np.tril(matrix) if kind == "chol" else np.linalg.cholesky(matrix)
        root = np.linalg.inv(chol).T
    return NormalNode(node, mean, None, root)


def ancestors(name: str, nodes: Mapping[str, Node], columns: set[str]) -> set[str]:
    """Unobserved random nodes that a node depends on, through deterministic ones."""
    out: set[str] = set()
    node = nodes.get(name)
    if node is None or name in columns:
        return out
    for parent in node.parents:
        below = nodes.get(parent)
        if below is None or parent in columns:
            continue
        out |= {parent} if below.kind == "random" else ancestors(parent, nodes, columns)
    return out


def deterministic_ancestors(node: Node, nodes: Mapping[str, Node], columns: set[str]) -> set[str]:
    """Deterministic nodes that a node depends on."""
    out: set[str] = set()
    for parent in node.parents & nodes.keys():
        if parent not in columns and nodes[parent].kind == "deterministic":
            out |= {parent} | deterministic_ancestors(nodes[parent], nodes, columns)
    return out


def names_under(tree: ast.expr, nodes: Mapping[str, Node], columns: set[str]) -> set[str]:
    """Unobserved random nodes in an expression."""
    out: set[str] = set()
    for name in {part.id for part in ast.walk(tree) if isinstance(part, ast.Name)}:
        if name in nodes and name not in columns:
            out |= {name} if nodes[name].kind == "random" else ancestors(name, nodes, columns)
    return out
