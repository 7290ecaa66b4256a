"""Cells of observed nodes: missing ones, and checks of the others."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from bayeslab.errors import DataError, listed
from bayeslab.families.graph.domains import levels_refused
from bayeslab.families.graph.gaps import below, is_vector
from bayeslab.families.graph.levels import takes_levels
from bayeslab.families.graph.scope import Scope
from bayeslab.language.functions import MOST_COUNTED
from bayeslab.language.nodes import (
    Node,
    call_name,
)

__all__ = ["observations", "probable", "written_apart"]


def observations(scope: Scope, node: Node) -> Any:
    """The cells of an observed node along its dimensions; a masked array if some are missing.

    Raises
    ------
    DataError
        A cell is outside the node's support.
    """
    term = scope.data.term(node.name, missing=True)
    value = term.value
    if set(term.dims) != set(node.dims):
        raise DataError(
            f"'{node.name}' has the dimensions ({', '.join(map(str, term.dims))}) in the data and"
            f" ({', '.join(node.dims)}) in the model",
            path=(*node.path, "[key]"),
            code="bad-dimensions",
        )
    if value is None:
        if not takes_levels(node.expression.tree):
            raise levels_refused(node)
        value = np.asarray(term.codes)
        gone = value < 0
    else:
        value = np.asarray(value)
        gone = np.isnan(value) if value.dtype.kind == "f" else np.zeros(value.shape, bool)
    value = value.transpose([term.dims.index(dim) for dim in node.dims])
    gone = gone.transpose([term.dims.index(dim) for dim in node.dims])
    if np.any(np.isinf(value)):
        row = int(np.nonzero(np.isinf(np.atleast_1d(value)))[0][0])
        raise DataError(f"column '{node.name}', row {row + 1} is infinite", path=node.path, code="not-finite")
    if np.any(gone):
        row = int(np.nonzero(np.atleast_1d(gone))[0][0])
        if node.discrete and (node.recursive or is_vector(node)):
            raise DataError(
                f"column '{node.name}', row {row + 1} is missing and {node.distribution} is discrete; missing cells"
                f" are not summed out where cells can depend on each other: drop these rows",
                path=node.path,
                code="missing",
            )
        if node.name in scope.imputed and not scope.own_sums:
            raise DataError(
                f"column '{node.name}', row {row + 1} is missing and {node.distribution} is discrete; missing cells"
                f" are not summed out where nodes without data or with missing cells of their own depend on them:"
                f" drop these rows",
                path=node.path,
                code="missing",
            )
        if node.atoms and scope.purpose == "fit":
            _refuse_gaps_of_atoms(scope, node, row)
        if not node.discrete:
            # The placeholder of a missing cell, whose density is left out, must be in the support.
            left_out = node.atoms or any(name in scope.nodes and scope.nodes[name].hidden_path for name in scope.summed)
            stands = value[~gone][0] if left_out and not np.all(gone) else 0.0
            return np.ma.masked_array(np.where(gone, stands, value), mask=gone)
    if node.discrete:
        broken = (value != np.floor(value)) & ~gone
        if value.dtype.kind == "f" and np.any(broken):
            row = int(np.nonzero(np.atleast_1d(broken))[0][0])
            raise DataError(
                f"column '{node.name}', row {row + 1}: {np.atleast_1d(value).ravel()[row]} is not a whole number;"
                f" {node.distribution} is discrete",
                path=node.path,
                code="not-whole",
            )
        far = ~gone & (np.abs(np.where(gone, 0, value).astype(float)) > MOST_COUNTED)
        if np.any(far):
            row = int(np.nonzero(np.atleast_1d(far))[0][0])
            raise DataError(
                f"column '{node.name}', row {row + 1}: {np.atleast_1d(value).ravel()[row]} is beyond"
                f" {MOST_COUNTED:,}, up to which floats hold every whole number; count in larger units",
                path=node.path,
                code="too-large",
            )
        counts = np.where(gone, 0, value).astype(np.int64)
        return np.ma.masked_array(counts, mask=gone) if np.any(gone) else counts
    return value.astype(np.float64)


def _refuse_gaps_of_atoms(scope: Scope, node: Node, row: int) -> None:
    """Leave out missing cells of a node with atoms (a factor of 1), if nothing depends on them."""
    where, others = f"column '{node.name}', row {row + 1} is missing", below(scope.nodes, node.name)
    if others:
        raise DataError(
            f"{where}, {listed(others)} can depend on it, and {probable(node)}, which the density of the cell"
            f" leaves out: drop these rows, or {written_apart(node)}",
            path=node.path,
            code="missing",
        )
    if node.recursive or is_vector(node):
        raise DataError(
            f"{where}, its cells can depend on each other, and {probable(node)}: drop these rows",
            path=node.path,
            code="missing",
        )


def probable(node: Node) -> str:
    """The atoms of a node, as a clause."""
    return f"{node.distribution} gives {listed(sorted(node.atoms))} a probability above zero"


def written_apart(node: Node) -> str:
    """Advice on writing a node with atoms as parts that can be sampled or summed out."""
    words = {call_name(part) for part in ast.walk(node.expression.tree) if isinstance(part, ast.expr)}
    if "Censored" in words:
        return f"give what is censored a node of its own, and '{node.name}' as clip(..., lower, upper) of it"
    return f"give whether it is 0 a Bernoulli node, its size a node, and '{node.name}' as their product"
