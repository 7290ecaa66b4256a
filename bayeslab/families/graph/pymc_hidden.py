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
from bayeslab.language.nodes import Node

__all__ = ["ChainCode", "HiddenNode", "Table", "check_chain", "groups", "sum_of_chains", "sum_of_labels"]

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
        met = _met(each, printer)
        linked = [group for group in out if any(met & _met(other, printer) for other in group)]
        out = [group for group in out if group not in linked]
        out.append([*(other for group in linked for other in group), each])
    return out


def _met(each: HiddenNode, printer: Printer) -> set[str]:
    """The node and all discrete nodes in densities with it."""
    axes = [axis for table in each.tables for axis in printer.axes_of(table.code)]
    return {each.node.name, *(printer.axes[axis].node for axis in axes)}


def _placed(table: Table, cells: Sequence[str], axes: Sequence[str], printer: Printer) -> ast.expr:
    """The table by cell of the node and by state: rows of a cell are added up."""
    code, own = table.code, printer.axes_of(table.code)
    places = [printer.axes[axis] for axis in own]
    if any(each.dims != places[0].dims or _text(each.cells) != _text(places[0].cells) for each in places):
        raise not_exported(f"'{table.name}', a density of several cells of discrete nodes,")
    index, rows = places[0].cells, places[0].dims
    if table.rows and (index is not None or [d for d in code.dims if d not in own][-1] != cells[0]):
        raise not_exported(f"'{table.name}', whose first rows have no density, with states of other cells,")
    whole = [printer.axis_of(each.node) for each in places]
    extra = [str(dim) for dim in code.dims if dim not in own and dim not in rows]
    tree = printer.aligned(code, (*rows, *extra, *own))
    if extra:
        summed = tuple(range(len(rows), len(rows) + len(extra)))
        tree = filled("A.sum(axis=P)", A=tree, P=repr(summed if len(summed) > 1 else summed[0]))
    if index is not None:
        shape = ast.Tuple([*map(printer.length, cells), *map(printer.length, whole)])
        tree = filled("pt.zeros(S)[I].inc(A)", S=shape, I=index, A=tree)
        rows = tuple(cells)
    if index is None and not extra:  # it may be the same in all cells
        rows, tree = tuple(str(dim) for dim in code.dims if dim not in own), code.tree
        whole = [printer.axis_of(printer.axes[str(dim)].node) for dim in code.dims if dim in own]
    tree = printer.aligned(Code(tree, (*rows, *whole), True), (*cells, *axes))
    if table.rows:
        tree = filled("pt.concatenate([pt.zeros((K, *A.shape[1:])), A])", A=tree, K=str(table.rows))
    return tree


def _text(tree: ast.expr | None) -> str:
    return "" if tree is None else ast.unparse(tree)


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
    names = " and ".join(f"'{each.node.name}'" for each in group)
    met = [[printer.axes[axis] for axis in printer.axes_of(table.code)] for table in tables]
    alike = all(set(each.node.dims) == set(cells) for each in group)
    once = all(len({axis.node for axis in one}) == len(one) for one in met)
    inside = {axis.node for one in met for axis in one} <= {each.node.name for each in group}
    states = math.prod(each.latent.states for each in group)
    if not (alike and once and inside) or states > _MOST_STATES or any(table.rows for table in tables):
        raise not_exported(f"{names}, summed out together,", *group[0].node.path)
    joint = _total(_placed(table, cells, axes, printer) for table in tables)
    along = "-1" if len(axes) == 1 else repr(tuple(range(-len(axes), 0)))
    return filled(f"pt.logsumexp(A, axis={along}).sum()" if cells else f"pt.logsumexp(A, axis={along})", A=joint)


@dataclass(frozen=True)
class ChainCode:
    """Code of the probabilities of a hidden path.

    Attributes
    ----------
    initial, moves : Code
        Probabilities of first states (outer dimensions, state), and of transitions (dimensions, state, next state).
    starts : ast.expr
        Whether a path starts, by time.
    durations : Code or None
        Probabilities of the durations of segments (state, length).
    """

    initial: Code
    moves: Code
    starts: ast.expr
    durations: Code | None = None


def check_chain(node: Node) -> None:
    """Refuse a tree of states, for which the script has no recursion.

    Raises
    ------
    ModelError
    """
    if node.distribution not in ("MarkovChain", "SemiMarkovChain"):
        raise not_exported(f"the distribution {node.distribution}", *node.path)


def sum_of_chains(group: Sequence[HiddenNode], printer: Printer, codes: Sequence[ChainCode]) -> ast.expr:
    """The log of the sum over the paths of hidden chains; of several, together.

    Raises
    ------
    ModelError
        A density depends on the states in a way that the script's recursions do not know.
    """
    node, own = group[0].node, {each.node.name for each in group}
    tables = list({table.name: table for each in group for table in each.tables}.values())
    axes = {axis: printer.axes[axis] for table in tables for axis in printer.axes_of(table.code)}
    lags = max(axis.lag for axis in axes.values())
    for each in group:
        law = each.latent.known_path.law
        if isinstance(law, MarkovLaw) and law.order != 1:
            raise not_exported(f"'{each.node.name}', a chain of the second order,", *each.node.path)
    names = " and ".join(f"'{name}'" for name in own)
    if not {axis.node for axis in axes.values()} <= own:
        raise not_exported(f"{names}, summed out with other nodes,", *node.path)
    if len(axes) > len(group) and not (lags and len(group) == 1):
        raise not_exported(f"{names}, on several cells of which a density depends,", *node.path)
    if len(group) > 1:
        return _several(group, printer, codes, tables, names)
    (each,), (code,) = group, codes
    if lags:
        return _with_lags(each, printer, code, lags, tables)
    *outer, time = node.dims
    total = _total(_placed(table, (time, *outer), [each.axis], printer) for table in tables)
    if code.durations is not None:
        if outer:
            raise not_exported(f"'{node.name}', segments of several dimensions,", *node.path)
        return filled(
            "segments_log_evidence(L, I, P, D, S)", L=total, I=_tensor(code.initial), P=_tensor(code.moves),
            D=_tensor(code.durations), S=code.starts,
        )  # fmt: skip
    moves = code.moves
    batch = [str(dim) for dim in moves.dims[:-2]]
    onto = (*([time] if time in batch else []), *(outer if set(batch) & set(outer) else []), *moves.dims[-2:])
    P = printer.aligned(moves, onto) if batch else moves.tree
    if time in batch and not set(batch) & set(outer) and outer:
        P = filled(f"A[:, {', '.join(['None'] * len(outer))}]", A=P)
    matrices = _tensor(replace(moves, tree=P))
    return filled("chain_log_evidence(L, I, P, S)", L=total, I=_tensor(code.initial), P=matrices, S=code.starts)


def _several(
    group: Sequence[HiddenNode], printer: Printer, codes: Sequence[ChainCode], tables: Sequence[Table], names: str
) -> ast.expr:
    node = group[0].node
    axes = [each.axis for each in group]
    plain = all(each.node.dims == node.dims and len(each.node.dims) == 1 for each in group)
    plain &= all(len(code.moves.dims) == 2 and code.durations is None for code in codes)
    plain &= all(table.rows == 0 and set(printer.axes_of(table.code)) <= set(axes) for table in tables)
    if not plain or len({ast.unparse(code.starts) for code in codes}) > 1:
        raise not_exported(f"{names}, summed out together,", *node.path)
    total = _total(_placed(table, node.dims, axes, printer) for table in tables)
    return filled(
        "several_chains_log_evidence(L, I, P, S)",
        L=total,
        I=ast.List([_tensor(code.initial) for code in codes]),
        P=ast.List([_tensor(code.moves) for code in codes]),
        S=codes[0].starts,
    )


def _tensor(code: Code) -> ast.expr:
    return code.tree if code.random else filled("pt.as_tensor(A)", A=code.tree)


def _with_lags(each: HiddenNode, printer: Printer, code: ChainCode, lags: int, tables: Sequence[Table]) -> ast.expr:
    node, law = each.node, each.latent.known_path.law
    several = isinstance(law, MarkovLaw) and len(law.offsets) > 2
    if several or len(node.dims) > 1 or len(code.moves.dims) > 2 or code.durations is not None:
        raise not_exported(f"'{node.name}', a chain on whose past the data depend,", *node.path)
    by_lag = {printer.axes[axis].lag: axis for table in tables for axis in printer.axes_of(table.code)}
    axes = [by_lag.get(lag, f"no state, {lag} before") for lag in range(lags + 1)]
    parts = []
    for table in tables:
        if table.rows < lags:
            raise not_exported(f"'{table.name}', a density of rows before the past that others depend on,", *node.path)
        tree = printer.aligned(table.code, (*node.dims, *axes))
        if table.rows > lags:
            rows = str(table.rows - lags)
            tree = filled("pt.concatenate([pt.zeros((K, *A.shape[1:])), A])", A=tree, K=rows)
        parts.append(tree)
    return filled(
        "chain_with_lags_log_evidence(L, I, P)", L=_total(parts), I=_tensor(code.initial), P=_tensor(code.moves)
    )
