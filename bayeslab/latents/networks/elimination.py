"""Elimination orders for summing discrete variables out of a product of tables, with their cost.

The variable with the smallest resulting table is eliminated first (min-weight [1]_); ties keep the given order. The
order depends on the structure only and is computed once; numba kernels compute the sums.

References
----------
.. [1] Koller, Friedman (2009). Probabilistic Graphical Models, section 9.4.3.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayeslab.errors import ModelError

__all__ = ["MOST_ENTRIES", "MOST_WORK", "Elimination", "Factor", "planned"]

#: Maximum size of one table, and maximum number of additions in one evaluation.
MOST_ENTRIES, MOST_WORK = 4_000_000, 400_000_000
# The weight of a variable with more neighbours is not updated, because such a variable is eliminated late anyway.
_HUB = 50


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """A table over some variables, stored in a flat vector.

    Attributes
    ----------
    scope : tuple of int
        The variables, without repetition.
    offset : int
        Position of the entry at the first value of each variable.
    strides : tuple of int
        Stride of each variable.
    """

    scope: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Elimination:
    """An elimination plan, as arrays for the kernels.

    Attributes
    ----------
    arrays : tuple of ndarray
        See ``_elimination_kernels``.
    roots : ndarray of int (parts,)
        The steps whose sums add up to the total: one for each connected component.
    part : ndarray of int (variables,)
        The component of each variable, an index into ``roots``.
    """

    arrays: tuple[np.ndarray, ...]
    roots: np.ndarray
    part: np.ndarray


def planned(sizes: Sequence[int], factors: Sequence[Factor], length: int) -> Elimination:
    """An elimination order and its plan.

    Parameters
    ----------
    sizes
        Number of values of each variable.
    factors
        The factors; every variable is in at least one of them.
    length
        Length of the flat vector.

    Raises
    ------
    ModelError
        A table or the number of additions would be too large; the message has the size.
    """
    bound: list[list[Factor]] = [[] for _ in sizes]
    near: list[set[int]] = [set() for _ in sizes]
    for factor in factors:
        for cell in factor.scope:
            bound[cell].append(factor)
            near[cell].update(factor.scope)
    logs = [math.log(size) for size in sizes]

    def weight(cell: int) -> float:
        return sum(logs[other] for other in near[cell])

    part = _components(len(sizes), factors)
    queue = [(weight(cell), cell) for cell in range(len(sizes))]
    heapq.heapify(queue)
    done, used = np.zeros(len(sizes), bool), set[int]()
    inputs, laid = list[Factor](), list[tuple[int, ...]]()
    step_inputs, step_vars, var_cells, out = [0], [0], list[int](), list[int]()
    roots: dict[int, int] = {}
    free, work = length, 0.0
    while queue:
        cost, cell = heapq.heappop(queue)
        if done[cell]:
            continue
        now = weight(cell)
        if now > cost + 1e-12:
            heapq.heappush(queue, (now, cell))
            continue
        joined = [factor for factor in bound[cell] if id(factor) not in used]
        work += math.exp(min(now, 700.0)) * len(joined)
        _check_cost(now, len(near[cell]), work)
        others = tuple(sorted(near[cell] - {cell}))
        inputs += joined
        laid += [(*others, cell)] * len(joined)
        used.update(id(factor) for factor in joined)
        step_inputs.append(len(inputs))
        var_cells += (*others, cell)
        step_vars.append(len(var_cells))
        done[cell] = True
        if not others:
            out.append(-1)
            roots[int(part[cell])] = len(out) - 1
            continue
        shape = [sizes[other] for other in others]
        made = Factor(others, free, tuple(math.prod(shape[j + 1 :]) for j in range(len(shape))))
        out.append(free)
        free += math.prod(shape)
        for other in others:
            bound[other].append(made)
            near[other].update(others)
            near[other].discard(cell)
            if len(near[other]) <= _HUB:
                heapq.heappush(queue, (weight(other), other))
    most = max((len(v) for v in laid), default=1)
    table = np.zeros((len(inputs), most), np.int64)
    for row, (variables, factor) in enumerate(zip(laid, inputs, strict=True)):
        for cell, stride in zip(factor.scope, factor.strides, strict=True):
            table[row, variables.index(cell)] = stride
    arrays = (
        np.array(step_inputs, np.int64),
        np.array(step_vars, np.int64),
        np.array([sizes[cell] for cell in var_cells], np.int64),
        np.array(var_cells, np.int64),
        np.array(out, np.int64),
        np.array([factor.offset for factor in inputs], np.int64),
        table,
        np.array([factor.offset for factor in factors if not factor.scope], np.int64),
    )
    return Elimination(arrays, np.array([roots[p] for p in sorted(roots)], np.int64), part)


def _components(number: int, factors: Sequence[Factor]) -> np.ndarray:
    """Connected components of the variables, joined by common tables."""
    above = list(range(number))

    def top(cell: int) -> int:
        while above[cell] != cell:
            above[cell] = above[above[cell]]
            cell = above[cell]
        return cell

    for factor in factors:
        for cell in factor.scope[1:]:
            first, second = top(factor.scope[0]), top(cell)
            above[max(first, second)] = min(first, second)
    return np.unique([top(cell) for cell in range(number)], return_inverse=True)[1].reshape(number)


def _check_cost(log_size: float, meeting: int, work: float) -> None:
    if log_size > math.log(MOST_ENTRIES):
        raise ModelError(
            f"summing out takes a table of {_count(log_size)} numbers, because {meeting} discrete values meet;"
            f" at most {MOST_ENTRIES:,} are made",
            code="too-costly",
        )
    if work > MOST_WORK:
        raise ModelError(
            f"summing out takes {work:,.0f} additions or more at each evaluation of the density, because many discrete"
            f" values meet; at most {MOST_WORK:,} are made",
            code="too-costly",
        )


def _count(log: float) -> str:
    return f"{math.exp(log):,.0f}" if log < 34 else f"10^{log / math.log(10):.0f}"
