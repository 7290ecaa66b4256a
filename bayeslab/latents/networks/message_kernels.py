"""Compiled belief propagation, on the flat arrays of `belief_propagation.FlatFactors`.

Messages are logarithms with maximum 0, in one array with the offsets ``flat.message_offset``: ``up`` from factors to
variables, ``down`` from variables to factors. On the linear scale, probabilities of possible states would underflow at
a hub with a thousand neighbours or in a long chain.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bayeslab.compiled import inner, kernel

__all__ = ["beliefs", "decode", "residual", "score", "sequential", "traversal"]


@kernel(error_model="numpy")
def traversal(flat: Any, observed: np.ndarray) -> tuple[np.ndarray, bool]:
    """The variables in breadth-first order, and whether the factor graph without the observed variables has no loop."""
    n_variables, n_factors = len(flat.n_states), len(flat.table_offset) - 1
    order, n_visited = np.empty(n_variables, np.int64), 0
    visited, reached = np.zeros(n_variables, np.bool_), np.zeros(n_factors, np.bool_)
    nodes, edges, components, head = 0, 0, 0, 0
    for root in range(n_variables):
        if visited[root]:
            continue
        visited[root], order[n_visited], n_visited = True, root, n_visited + 1
        components += not observed[root]
        while head < n_visited:
            variable = order[head]
            head += 1
            if observed[variable]:
                continue
            nodes += 1
            for at in range(flat.variable_edges[variable], flat.variable_edges[variable + 1]):
                edges += 1
                factor = flat.edge_factor[flat.edges_of[at]]
                if reached[factor]:
                    continue
                reached[factor] = True
                nodes += 1
                for edge in range(flat.factor_edges[factor], flat.factor_edges[factor + 1]):
                    other = flat.edge_variable[edge]
                    if not visited[other] and not observed[other]:
                        visited[other], order[n_visited], n_visited = True, other, n_visited + 1
    return order, edges == nodes - components


@inner(error_model="numpy")
def _reduce(work: np.ndarray, start: int, step: int, message: np.ndarray, shift: int, n: int, maximise: bool) -> float:
    """log sum_j exp(work_j + message_j) over n entries, or their maximum."""
    peak = -np.inf
    for j in range(n):
        peak = max(peak, work[start + j * step] + message[shift + j])
    if maximise or peak == -np.inf:
        return peak
    total = 0.0
    for j in range(n):
        total += math.exp(work[start + j * step] + message[shift + j] - peak)
    return peak + math.log(total)


@inner(error_model="numpy")
def _factor_message(flat: Any, edge: int, maximise: bool, down: np.ndarray, work: np.ndarray) -> None:
    """Write the message along an edge to the start of ``work``: the last axes are summed out, then the first.

    Each sum shrinks the table, so a message costs little more than one visit of each entry.
    """
    factor = flat.edge_factor[edge]
    first, last = flat.factor_edges[factor], flat.factor_edges[factor + 1]
    begin = flat.table_offset[factor]
    size = flat.table_offset[factor + 1] - begin
    for i in range(size):
        work[i] = flat.log_tables[begin + i]
    for other in range(last - 1, edge, -1):
        n, shift = flat.n_states[flat.edge_variable[other]], flat.message_offset[other]
        size //= n
        for row in range(size):
            work[row] = _reduce(work, row * n, 1, down, shift, n, maximise)
    for other in range(first, edge):
        n, shift = flat.n_states[flat.edge_variable[other]], flat.message_offset[other]
        size //= n
        for column in range(size):
            work[column] = _reduce(work, column, size, down, shift, n, maximise)


@inner(error_model="numpy")
def _peak_to_zero(values: np.ndarray, start: int, n: int) -> bool:
    """Shift entries to maximum 0; False if every entry is -inf."""
    peak = -np.inf
    for j in range(start, start + n):
        peak = max(peak, values[j])
    if peak == -np.inf:
        return False
    for j in range(start, start + n):
        values[j] -= peak
    return True


@inner(error_model="numpy")
def _send(flat: Any, variable: int, local: np.ndarray, up: np.ndarray, down: np.ndarray) -> bool:
    """Send all messages from a variable to its factors: products of the other factors' messages, without division."""
    n, offset = flat.n_states[variable], flat.variable_offset[variable]
    first, last = flat.variable_edges[variable], flat.variable_edges[variable + 1]
    for j in range(n):
        running = local[offset + j]
        for at in range(first, last):
            shift = flat.message_offset[flat.edges_of[at]] + j
            down[shift] = running
            running += up[shift]
        running = 0.0
        for at in range(last - 1, first - 1, -1):
            shift = flat.message_offset[flat.edges_of[at]] + j
            down[shift] += running
            running += up[shift]
    possible = True
    for at in range(first, last):
        possible &= _peak_to_zero(down, flat.message_offset[flat.edges_of[at]], n)
    return possible


@inner(error_model="numpy")
def _update(
    flat: Any,
    variable: int,
    maximise: bool,
    damping: float,
    local: np.ndarray,
    up: np.ndarray,
    down: np.ndarray,
    work: np.ndarray,
) -> float:
    """Update the messages to a variable, then from it; return the largest change, or -1 if no state is possible."""
    n, change = flat.n_states[variable], 0.0
    for at in range(flat.variable_edges[variable], flat.variable_edges[variable + 1]):
        edge = flat.edges_of[at]
        shift = flat.message_offset[edge]
        _factor_message(flat, edge, maximise, down, work)
        if not _peak_to_zero(work, 0, n):
            return -1.0
        for j in range(n):
            new, old = work[j], up[shift + j]
            if damping > 0.0:
                new = (1.0 - damping) * new + damping * old
            if new != old:
                change = max(change, abs(math.exp(new) - math.exp(old)))
            up[shift + j] = new
    return change if _send(flat, variable, local, up, down) else -1.0


@kernel(error_model="numpy")
def sequential(
    flat: Any,
    order: np.ndarray,
    maximise: bool,
    damping: float,
    tolerance: float,
    max_sweeps: int,
    local: np.ndarray,
    up: np.ndarray,
    down: np.ndarray,
) -> tuple[int, float]:
    """Sweeps towards the roots and back. Without loops, one undamped sweep is exact."""
    work = np.empty(flat.largest_table)
    change = 0.0
    for sweep in range(1, max_sweeps + 1):
        change = 0.0
        for i in range(2 * len(order)):
            variable = order[len(order) - 1 - i] if i < len(order) else order[i - len(order)]
            moved = _update(flat, variable, maximise, damping, local, up, down, work)
            if moved < 0.0:
                return sweep, -1.0
            change = max(change, moved)
        if change < tolerance:
            return sweep, change
    return max_sweeps, change


@inner(error_model="numpy")
def _raise_to(heap: np.ndarray, place: np.ndarray, priority: np.ndarray, variable: int, value: float) -> None:
    """Raise the priority of a variable in a binary heap, if the new priority is higher."""
    if value <= priority[variable]:
        return
    priority[variable] = value
    at = place[variable]
    while at > 0 and priority[heap[(at - 1) // 2]] < value:
        above = (at - 1) // 2
        heap[at] = heap[above]
        place[heap[at]] = at
        at = above
    heap[at], place[variable] = variable, at


@inner(error_model="numpy")
def _sink_root(heap: np.ndarray, place: np.ndarray, priority: np.ndarray, value: float) -> None:
    """Lower the priority of the root of the heap."""
    variable, at, n = heap[0], 0, len(heap)
    priority[variable] = value
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and priority[heap[child + 1]] > priority[heap[child]]:
            child += 1
        if priority[heap[child]] <= value:
            break
        heap[at] = heap[child]
        place[heap[at]] = at
        at = child
    heap[at], place[variable] = variable, at


@kernel(error_model="numpy")
def residual(
    flat: Any,
    order: np.ndarray,
    maximise: bool,
    damping: float,
    tolerance: float,
    max_sweeps: int,
    local: np.ndarray,
    up: np.ndarray,
    down: np.ndarray,
) -> tuple[int, float]:
    """Residual belief propagation: the variable with the largest change of incoming messages is updated next.

    The change of a variable's incoming messages bounds, up to a factor, the change of its outgoing ones, so no message
    is computed only to determine its priority. A sweep is as many updates as there are variables.
    """
    n_variables = len(order)
    work = np.empty(flat.largest_table)
    heap, place = order.copy(), np.empty(n_variables, np.int64)
    priority = np.full(n_variables, np.inf)
    left_over = damping / (1.0 - damping)
    for i in range(n_variables):
        place[heap[i]] = i
    updates = 0
    while updates < n_variables * max_sweeps:
        variable = heap[0]
        if priority[variable] < tolerance:
            break
        updates += 1
        moved = _update(flat, variable, maximise, damping, local, up, down, work)
        if moved < 0.0:
            return 1 + updates // n_variables, -1.0
        _sink_root(heap, place, priority, left_over * moved)
        for at in range(flat.variable_edges[variable], flat.variable_edges[variable + 1]):
            factor = flat.edge_factor[flat.edges_of[at]]
            for edge in range(flat.factor_edges[factor], flat.factor_edges[factor + 1]):
                if flat.edge_variable[edge] != variable:
                    _raise_to(heap, place, priority, flat.edge_variable[edge], moved)
    return -(-updates // max(n_variables, 1)), 0.0 if n_variables == 0 else priority[heap[0]]


@inner(error_model="numpy")
def _factor_belief(flat: Any, factor: int, down: np.ndarray, out: np.ndarray) -> None:
    """Write the log table plus its incoming messages to the entries of the factor."""
    begin, end = flat.table_offset[factor], flat.table_offset[factor + 1]
    for i in range(begin, end):
        out[i] = flat.log_tables[i]
    for edge in range(flat.factor_edges[factor], flat.factor_edges[factor + 1]):
        n, shift, stride = flat.n_states[flat.edge_variable[edge]], flat.message_offset[edge], flat.edge_stride[edge]
        for i in range(begin, end):
            out[i] += down[shift + (i - begin) // stride % n]


@kernel(error_model="numpy")
def beliefs(
    flat: Any, maximise: bool, local: np.ndarray, up: np.ndarray, down: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Logs of the beliefs of variables and of factors, each with total (or maximum) 1, and the Bethe log Z.

    log Z = sum_v log Z_v + sum_f log Z_f - sum_(f,v) log Z_fv, where Z_v, Z_f and Z_fv are sums over the products of
    messages at a variable, at a factor and along an edge; the scale of messages cancels. At a fixed point this is minus
    the Bethe free energy; without loops it is exact.
    """
    n_variables, n_factors = len(flat.n_states), len(flat.table_offset) - 1
    of_variables, of_factors = local.copy(), np.empty(len(flat.log_tables))
    nothing, log_z = np.zeros(flat.largest_table), 0.0
    for v in range(n_variables):
        offset, n = flat.variable_offset[v], flat.n_states[v]
        for at in range(flat.variable_edges[v], flat.variable_edges[v + 1]):
            edge = flat.edges_of[at]
            shift = flat.message_offset[edge]
            for j in range(n):
                of_variables[offset + j] += up[shift + j]
            between = _reduce(up, shift, 1, down, shift, n, maximise)
            if between == -np.inf:
                return of_variables, of_factors, -np.inf
            log_z -= between
        total = _reduce(of_variables, offset, 1, nothing, 0, n, maximise)
        if total == -np.inf:
            return of_variables, of_factors, -np.inf
        log_z += total
        for j in range(n):
            of_variables[offset + j] -= total
    for f in range(n_factors):
        _factor_belief(flat, f, down, of_factors)
        begin, end = flat.table_offset[f], flat.table_offset[f + 1]
        total = _reduce(of_factors, begin, 1, nothing, 0, end - begin, maximise)
        if total == -np.inf:
            return of_variables, of_factors, -np.inf
        log_z += total
        for i in range(begin, end):
            of_factors[i] -= total
    return of_variables, of_factors, log_z


@kernel(error_model="numpy")
def decode(flat: Any, order: np.ndarray, local: np.ndarray, down: np.ndarray) -> np.ndarray:
    """Choose states from the roots, each the best given those chosen before, so that ties are broken consistently."""
    down = down.copy()
    work = np.empty(flat.largest_table)
    chosen = np.zeros(len(order), np.int64)
    for v in order:
        offset, n, best = flat.variable_offset[v], flat.n_states[v], -np.inf
        score = local[offset : offset + n].copy()
        for at in range(flat.variable_edges[v], flat.variable_edges[v + 1]):
            _factor_message(flat, flat.edges_of[at], True, down, work)
            score += work[:n]
        for j in range(n):
            if score[j] > best:
                best, chosen[v] = score[j], j
        for at in range(flat.variable_edges[v], flat.variable_edges[v + 1]):
            shift = flat.message_offset[flat.edges_of[at]]
            for j in range(n):
                down[shift + j] = 0.0 if j == chosen[v] else -np.inf
    return chosen


@kernel(error_model="numpy")
def score(flat: Any, local: np.ndarray, chosen: np.ndarray) -> float:
    """The log of the product of all tables and likelihoods at one assignment."""
    total = 0.0
    for v in range(len(chosen)):
        total += local[flat.variable_offset[v] + chosen[v]]
    for f in range(len(flat.table_offset) - 1):
        entry = flat.table_offset[f]
        for edge in range(flat.factor_edges[f], flat.factor_edges[f + 1]):
            entry += flat.edge_stride[edge] * chosen[flat.edge_variable[edge]]
        total += flat.log_tables[entry]
    return total
