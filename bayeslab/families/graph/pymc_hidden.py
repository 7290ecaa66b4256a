"""Discrete nodes summed out in a plain PyMC script: log densities by state, and one potential for each sum.

A discrete node becomes an axis along its states, and a density that depends on it a table with that axis. Labels are
summed out by logsumexp, and Markov chains by a forward recursion.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bayeslab.families.graph.discrete_layout import Latent
from bayeslab.families.graph.markov_law import MarkovLaw
from bayeslab.families.graph.pymc_code import Printer
from bayeslab.families.graph.pymc_values import Code, filled, not_exported
from bayeslab.language.nodes import Node, bound_arguments

__all__ = ["HiddenNode", "Table", "chain_arguments", "groups", "sum_of_chain", "sum_of_labels"]

# Largest number of joint states of labels that depend on each other.
_MOST_STATES = 4096


@dataclass
class HiddenNode:
    """A discrete node that is summed out.

    Attributes
    ----------
    node : Node
    latent : Latent
    axis : str
        Its axis along states.
    tables : list of Table
        Log densities that depend on it, its log probabilities among them unless it is a chain.
    """

    node: Node
    latent: Latent
    axis: str
    tables: list[Table] = field(default_factory=list)


@dataclass(frozen=True)
class Table:
    """A log density by state.

    Attributes
    ----------
    name : str
        Its variable in the script.
    code : Code
        Its axes are dimensions, then axes along states.
    rows : int
        Number of first rows without a density.
    """

    name: str
    code: Code
    rows: int = 0


def groups(hidden: Mapping[str, HiddenNode], printer: Printer) -> list[list[HiddenNode]]:
    """Nodes that are summed out together, as some density depends on all of them."""
    out: list[list[HiddenNode]] = []
    for each in hidden.values():
        met = {printer.axes[axis].node for table in each.tables for axis in printer.axes_of(table.code)} | {
            each.node.name
        }
        joined = [each]
        for group in [g for g in out if met & {h.node.name for h in g} or any(_meets(h, each, printer) for h in g)]:
            out.remove(group)
            joined = group + joined
        out.append(joined)
    return out


def _meets(one: HiddenNode, other: HiddenNode, printer: Printer) -> bool:
    return any(other.node.name == printer.axes[a].node for t in one.tables for a in printer.axes_of(t.code))


def _placed(table: Table, cells: Sequence[str], axes: Sequence[str], printer: Printer) -> ast.expr:
    """The table by cell of the node and by state: rows of a cell are added up."""
    code, own = table.code, printer.axes_of(table.code)
    dims = tuple(str(dim) for dim in code.dims if dim not in own)
    index = printer.axes[own[0]].cells
    rows = printer.axes[own[0]].dims
    extra = [dim for dim in dims if dim not in rows]
    if extra:
        order = (*rows, *extra, *own)
        places = tuple(range(len(rows), len(rows) + len(extra)))
        summed = filled("A.sum(axis=P)", A=printer.aligned(code, order), P=repr(places))
        code = replace(code, tree=summed, dims=(*rows, *own))
    if index is None:
        tree = printer.aligned(code, (*cells, *axes))
        if table.rows:
            tree = filled("pt.concatenate([pt.zeros((K, *A.shape[1:])), A])", A=tree, K=str(table.rows))
        return tree
    shape = ast.Tuple([*map(printer.length, cells), *map(printer.length, own)])
    return filled("pt.zeros(S)[I].inc(A)", S=shape, I=index, A=printer.aligned(code, (*rows, *own)))


def _total(parts: Iterable[ast.expr]) -> ast.expr:
    first, *rest = parts
    for part in rest:
        first = ast.BinOp(first, ast.Add(), part)
    return first


def sum_of_labels(group: Sequence[HiddenNode], printer: Printer) -> ast.expr:
    """The log of the sum over labels, added up over cells.

    Raises
    ------
    ModelError
        Labels of different cells depend on each other.
    """
    cells, axes = group[0].node.dims, [each.axis for each in group]
    tables = list({table.name: table for each in group for table in each.tables}.values())
    if len(group) > 1:
        apart = [each for each in group if each.node.dims != cells]
        other = any(axis not in axes for table in tables for axis in printer.axes_of(table.code))
        states = math.prod(each.latent.states for each in group)
        if apart or other or states > _MOST_STATES:
            names = " and ".join(f"'{each.node.name}'" for each in group)
            raise not_exported(f"{names}, summed out together,", *group[0].node.path)
    for table in tables:
        if len(printer.axes_of(table.code)) > len(group) or table.rows:
            raise not_exported(
                f"'{group[0].node.name}', several cells of which a density depends on,", *group[0].node.path
            )
    joint = _total(_placed(table, cells, axes, printer) for table in tables)
    along = "-1" if len(axes) == 1 else repr(tuple(range(-len(axes), 0)))
    return filled(f"pt.logsumexp(A, axis={along}).sum()" if cells else f"pt.logsumexp(A, axis={along})", A=joint)


def chain_arguments(node: Node) -> Mapping[str, ast.expr]:
    """The arguments of a Markov chain.

    Raises
    ------
    ModelError
        It is a tree, has segments, or is of the second order.
    """
    tree = node.expression.tree
    assert isinstance(tree, ast.Call)
    given = bound_arguments(tree, str(node.distribution))
    if node.distribution != "MarkovChain":
        raise not_exported(f"the distribution {node.distribution}", *node.path)
    return given


def sum_of_chain(each: HiddenNode, printer: Printer, initial: Code, moves: Code, starts: ast.expr) -> ast.expr:
    """The log of the sum over the paths of Markov chains.

    Parameters
    ----------
    initial, moves
        Probabilities of first states (outer dimensions, state), and of transitions (dimensions, state, next state).
    starts
        Code of whether a chain starts, by time.

    Raises
    ------
    ModelError
        A density depends on the states in a way that the script's recursions do not know.
    """
    node, law = each.node, each.latent.known_path.law
    assert isinstance(law, MarkovLaw)
    if law.order != 1:
        raise not_exported(f"'{node.name}', a chain of the second order,", *node.path)
    *outer, time = node.dims
    lags = max(printer.axes[axis].lag for table in each.tables for axis in printer.axes_of(table.code))
    for table in each.tables:
        own = [printer.axes[axis] for axis in printer.axes_of(table.code)]
        if len(own) > 1 and not (lags and all(axis.node == node.name for axis in own)):
            raise not_exported(f"'{node.name}', several cells of which a density depends on,", *node.path)
    if lags:
        return _with_lags(each, printer, initial, moves, lags, len(law.offsets) > 2)
    order = (time, *outer)
    tables = []
    for table in each.tables:
        (axis,) = printer.axes_of(table.code)
        tables.append(_placed(table, order, [axis], printer))
    batch = [str(dim) for dim in moves.dims[:-2]]
    onto = (*([time] if time in batch else []), *(outer if set(batch) & set(outer) else []), *moves.dims[-2:])
    P = printer.aligned(moves, onto) if batch else moves.tree
    if time in batch and not set(batch) & set(outer) and outer:
        P = filled(f"A[:, {', '.join(['None'] * len(outer))}]", A=P)
    matrices = _tensor(replace(moves, tree=P))
    return filled("chain_log_evidence(L, I, P, S)", L=_total(tables), I=_tensor(initial), P=matrices, S=starts)


def _tensor(code: Code) -> ast.expr:
    return code.tree if code.random else filled("pt.as_tensor(A)", A=code.tree)


def _with_lags(each: HiddenNode, printer: Printer, initial: Code, moves: Code, lags: int, several: bool) -> ast.expr:
    node = each.node
    if several or len(node.dims) > 1 or len(moves.dims) > 2:
        raise not_exported(f"'{node.name}', a chain on whose past the data depend,", *node.path)
    (time,) = node.dims
    by_lag = {printer.axes[a].lag: a for table in each.tables for a in printer.axes_of(table.code)}
    axes = []
    for lag in range(lags + 1):
        axes.append(by_lag.get(lag, f"no state, {lag} before"))
    parts = []
    for table in each.tables:
        if table.rows < max(printer.axes[a].lag for a in printer.axes_of(table.code)):
            raise not_exported(f"'{table.name}', which has a density before the past it depends on,", *node.path)
        if table.rows < lags:
            raise not_exported(f"'{node.name}', on which several nodes with different pasts depend,", *node.path)
        tree = printer.aligned(table.code, (time, *axes))
        parts.append(
            tree
            if table.rows == lags
            else filled("pt.concatenate([pt.zeros((K, *A.shape[1:])), A])", A=tree, K=str(table.rows - lags))
        )
    return filled("chain_with_lags_log_evidence(L, I, P)", L=_total(parts), I=_tensor(initial), P=_tensor(moves))
