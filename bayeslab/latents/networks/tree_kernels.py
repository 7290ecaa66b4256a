"""Compiled loops of the junction tree: elimination order, cliques, calibration.

Kernels work on flat arrays. A set of variables is a bit set, a row of 64-bit words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayeslab.compiled import inner, kernel

__all__ = ["build_cliques", "elimination_order"]

_M1 = np.uint64(0x5555555555555555)
_M2 = np.uint64(0x3333333333333333)
_M4 = np.uint64(0x0F0F0F0F0F0F0F0F)
_H = np.uint64(0x0101010101010101)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@inner(inline="always")
def _count(x: Any) -> Any:
    x = x - ((x >> _ONE) & _M1)
    x = (x & _M2) + ((x >> np.uint64(2)) & _M2)
    x = (x + (x >> np.uint64(4))) & _M4
    return np.int64((x * _H) >> np.uint64(56))


@inner
def _members(row: np.ndarray, out: np.ndarray) -> int:
    n = 0
    for w in range(row.size):
        x = row[w]
        while x != _ZERO:
            low = x & (~x + _ONE)
            out[n] = 64 * w + _count(low - _ONE)
            n += 1
            x ^= low
    return n


@inner
def _score(
    v: int, adjacent: np.ndarray, log_cards: np.ndarray, heuristic: int, members: np.ndarray
) -> tuple[float, float]:
    """The cost of eliminating ``v`` next: 0 number of fill-in edges, 1 log size of the clique, 2 weight of edges."""
    n = _members(adjacent[v], members)
    weight = log_cards[v]
    for a in range(n):
        weight += log_cards[members[a]]
    if heuristic == 1:
        return weight, weight
    missing = 0.0
    for a in range(n):
        u = members[a]
        if heuristic == 0:
            common = 0
            for w in range(adjacent.shape[1]):
                common += _count(adjacent[u, w] & adjacent[v, w])
            missing += n - 1 - common
        else:
            for b in range(a):
                t = members[b]
                if not (adjacent[u, t >> 6] >> np.uint64(t & 63)) & _ONE:
                    missing += np.exp(log_cards[u] + log_cards[t])
    return missing, weight


@kernel
def elimination_order(
    adjacent: np.ndarray, log_cards: np.ndarray, heuristic: int, seed: int, bound: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Greedy elimination; ties are broken by the smaller clique, then by the lower index (at random if seed > 0).

    Returns the order, its cliques (bit sets) and the sum of their sizes, which is infinite if it exceeds ``bound``, at
    which the search stops.
    """
    n, n_words = adjacent.shape
    adjacent = adjacent.copy()
    order = np.empty(n, np.int64)
    cliques = np.zeros((n, n_words), np.uint64)
    alive = np.ones(n, np.bool_)
    cost = np.empty(n)
    weight = np.empty(n)
    tie = np.zeros(n)
    members = np.empty(n + 1, np.int64)
    inner = np.empty(n + 1, np.int64)
    stale = np.zeros(n_words, np.uint64)
    state = np.uint64(seed)
    for v in range(n):
        cost[v], weight[v] = _score(v, adjacent, log_cards, heuristic, inner)
        if seed > 0:
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            tie[v] = np.float64(state >> np.uint64(33))
    total = 0.0
    for step in range(n):
        best = -1
        for v in range(n):
            if not alive[v]:
                continue
            if best < 0 or cost[v] < cost[best]:
                best = v
            elif cost[v] == cost[best]:
                if seed > 0:
                    if tie[v] < tie[best]:
                        best = v
                elif weight[v] < weight[best]:
                    best = v
        v = best
        order[step] = v
        alive[v] = False
        total += np.exp(weight[v])
        if total > bound:
            return order, cliques, np.inf
        k = _members(adjacent[v], members)
        cliques[step] = adjacent[v]
        cliques[step, v >> 6] |= _ONE << np.uint64(v & 63)
        stale[:] = adjacent[v]
        filled = cost[v] > 0.0 or heuristic == 1
        for a in range(k):
            u = members[a]
            changed = False
            for w in range(n_words):
                new = adjacent[u, w] | cliques[step, w]
                if w == v >> 6:
                    new &= ~(_ONE << np.uint64(v & 63))
                if w == u >> 6:
                    new &= ~(_ONE << np.uint64(u & 63))
                changed = changed or new & ~adjacent[u, w] != _ZERO
                adjacent[u, w] = new
            if changed and heuristic != 1:
                for w in range(n_words):
                    stale[w] |= adjacent[u, w]
        if not filled:
            stale[:] = cliques[step]
        k = _members(stale, members)
        for a in range(k):
            u = members[a]
            if alive[u]:
                cost[u], weight[u] = _score(u, adjacent, log_cards, heuristic, inner)
    return order, cliques, total


@kernel
def build_cliques(order: np.ndarray, cliques: np.ndarray) -> tuple[np.ndarray, ...]:
    """The maximal cliques of an elimination, children before parents.

    Returns the position of each variable in the order; the pointers and the variables of each clique (by position:
    first those eliminated in it, then the separator to the parent); the number of variables of each separator; the
    parent of each clique (-1 at a root); and the clique in which each variable is eliminated.
    """
    n = order.size
    position = np.empty(n, np.int64)
    for i in range(n):
        position[order[i]] = i
    sizes = np.empty(n, np.int64)
    above = np.full(n, -1)
    members = np.empty(n + 1, np.int64)
    n_all = 0
    for i in range(n):
        sizes[i] = _members(cliques[i], members)
        n_all += sizes[i]
        for a in range(sizes[i]):
            p = position[members[a]]
            if p > i and (above[i] < 0 or p < above[i]):
                above[i] = p
    # A clique that equals a child without the variable eliminated in the child is merged into it.
    head = np.arange(n)
    tail = np.arange(n)
    absorbed = np.zeros(n, np.bool_)
    for i in range(n):
        p = above[i]
        if p >= 0 and not absorbed[p] and sizes[p] == sizes[i] - 1:
            absorbed[p] = True
            head[p] = head[i]
            tail[head[i]] = p
    is_tail = np.full(n, -1)
    for i in range(n):
        if not absorbed[i]:
            is_tail[tail[i]] = i
    number = np.full(n, -1)
    n_cliques = 0
    for t in range(n):
        if is_tail[t] >= 0:
            number[is_tail[t]] = n_cliques
            n_cliques += 1
    pointer = np.zeros(n_cliques + 1, np.int64)
    variables = np.empty(n_all, np.int64)
    n_separator = np.zeros(n_cliques, np.int64)
    parent = np.full(n_cliques, -1)
    home = np.empty(n, np.int64)
    for t in range(n):
        i = is_tail[t]
        if i < 0:
            continue
        c = number[i]
        k = _members(cliques[i], members)
        at = np.sort(position[members[:k]])
        pointer[c + 1] = pointer[c] + k
        for a in range(k):
            variables[pointer[c] + a] = order[at[a]]
        n_separator[c] = sizes[t] - 1
        if above[t] >= 0:
            parent[c] = number[head[above[t]]]
        for a in range(k - n_separator[c]):
            home[order[at[a]]] = c
    return position, pointer, variables[: pointer[n_cliques]], n_separator, parent, home


class Tree(NamedTuple):
    """A tree of cliques as flat arrays; the items of i lie between ``pointer[i]`` and ``pointer[i + 1]``."""

    cards: np.ndarray  # states of each variable
    starts: np.ndarray  # start of each variable's states in flat vectors over all states
    clique_pointer: np.ndarray
    clique_variables: np.ndarray
    n_separator: np.ndarray
    parent: np.ndarray
    child_pointer: np.ndarray
    children: np.ndarray
    factor_pointer: np.ndarray
    factor_variables: np.ndarray
    table_start: np.ndarray
    assigned_pointer: np.ndarray
    assigned: np.ndarray  # factors of each clique
    belief_start: np.ndarray
    message_start: np.ndarray
    smallest: np.ndarray  # the smallest clique that contains each variable
    home: np.ndarray  # the clique in which each variable is eliminated


@inner
def _grouped(keys: np.ndarray, n_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the items of each group, in order."""
    pointer = np.zeros(n_groups + 1, np.int64)
    for i in range(keys.size):
        if keys[i] >= 0:
            pointer[keys[i] + 1] += 1
    for g in range(n_groups):
        pointer[g + 1] += pointer[g]
    at = pointer[:-1].copy()
    items = np.empty(pointer[n_groups], np.int64)
    for i in range(keys.size):
        if keys[i] >= 0:
            items[at[keys[i]]] = i
            at[keys[i]] += 1
    return pointer, items


@kernel
def assemble(
    cards: np.ndarray,
    factor_pointer: np.ndarray,
    factor_variables: np.ndarray,
    table_start: np.ndarray,
    order: np.ndarray,
    cliques: np.ndarray,
) -> Tree:
    """The tree for calibration, from an elimination order."""
    n = cards.size
    position, pointer, variables, n_separator, parent, home = build_cliques(order, cliques)
    n_cliques = parent.size
    child_pointer, children = _grouped(parent, n_cliques)
    n_factors = factor_pointer.size - 1
    where = np.full(n_factors, -1)
    for f in range(n_factors):
        first = n
        for a in range(factor_pointer[f], factor_pointer[f + 1]):
            first = min(first, position[factor_variables[a]])
        if first < n:
            where[f] = home[order[first]]
    assigned_pointer, assigned = _grouped(where, n_cliques)
    starts = np.zeros(n + 1, np.int64)
    for v in range(n):
        starts[v + 1] = starts[v] + cards[v]
    belief_start = np.zeros(n_cliques + 1, np.int64)
    message_start = np.zeros(n_cliques + 1, np.int64)
    smallest = np.full(n, -1)
    for c in range(n_cliques):
        size, message = 1, 1
        for a in range(pointer[c], pointer[c + 1]):
            size *= cards[variables[a]]
            if a >= pointer[c + 1] - n_separator[c]:
                message *= cards[variables[a]]
        belief_start[c + 1] = belief_start[c] + size
        message_start[c + 1] = message_start[c] + message
    for c in range(n_cliques):
        size = belief_start[c + 1] - belief_start[c]
        for a in range(pointer[c], pointer[c + 1]):
            s = smallest[variables[a]]
            if s < 0 or size < belief_start[s + 1] - belief_start[s]:
                smallest[variables[a]] = c
    return Tree(
        cards,
        starts,
        pointer,
        variables,
        n_separator,
        parent,
        child_pointer,
        children,
        factor_pointer,
        factor_variables,
        table_start,
        assigned_pointer,
        assigned,
        belief_start,
        message_start,
        smallest,
        home,
    )


# Loops over a clique's table and a smaller one. Indices are unsigned, so numba omits the test for negative ones, and
# the inner loops are vectorised.


@inner
def _multiply(
    whole: np.ndarray,
    b: Any,
    n_runs: int,
    size: np.ndarray,
    stride: np.ndarray,
    digit: np.ndarray,
    part: np.ndarray,
    m: Any,
    first: bool,
) -> None:
    if n_runs == 0:
        whole[b] = part[m] if first else whole[b] * part[m]
        return
    n0, s0 = size[0], stride[0]
    n1, s1 = (size[1], stride[1]) if n_runs > 1 else (_ONE, _ZERO)
    outer = _ONE
    for r in range(2, n_runs):
        outer *= size[r]
    for _ in range(outer):
        at = m
        for _j in range(n1):
            if s0 == _ZERO:
                x = part[at]
                if first:
                    for i in range(n0):
                        whole[b + i] = x
                else:
                    for i in range(n0):
                        whole[b + i] *= x
            elif s0 == _ONE:
                if first:
                    for i in range(n0):
                        whole[b + i] = part[at + i]
                else:
                    for i in range(n0):
                        whole[b + i] *= part[at + i]
            elif first:
                for i in range(n0):
                    whole[b + i] = part[at + i * s0]
            else:
                for i in range(n0):
                    whole[b + i] *= part[at + i * s0]
            b += n0
            at += s1
        for r in range(2, n_runs):
            digit[r] += _ONE
            m += stride[r]
            if digit[r] < size[r]:
                break
            m -= stride[r] * size[r]
            digit[r] = _ZERO


@inner(fastmath={"reassoc", "contract", "nsz"})
def _sum_into(
    whole: np.ndarray,
    b: Any,
    n_runs: int,
    size: np.ndarray,
    stride: np.ndarray,
    digit: np.ndarray,
    part: np.ndarray,
    m: Any,
    scale: float,
) -> None:
    if n_runs == 0:
        part[m] += scale * whole[b]
        return
    n0, s0 = size[0], stride[0]
    n1, s1 = (size[1], stride[1]) if n_runs > 1 else (_ONE, _ZERO)
    outer = _ONE
    for r in range(2, n_runs):
        outer *= size[r]
    for _ in range(outer):
        at = m
        for _j in range(n1):
            if s0 == _ZERO:
                total = 0.0
                for i in range(n0):
                    total += whole[b + i]
                part[at] += scale * total
            elif s0 == _ONE:
                for i in range(n0):
                    part[at + i] += scale * whole[b + i]
            else:
                for i in range(n0):
                    part[at + i * s0] += scale * whole[b + i]
            b += n0
            at += s1
        for r in range(2, n_runs):
            digit[r] += _ONE
            m += stride[r]
            if digit[r] < size[r]:
                break
            m -= stride[r] * size[r]
            digit[r] = _ZERO


@inner
def _axes(tree: Tree, c: int, sizes: np.ndarray, axes: np.ndarray) -> tuple[int, int]:
    """The unobserved variables of a clique, innermost first, and the size of its table."""
    n, total = 0, 1
    for a in range(tree.clique_pointer[c + 1] - 1, tree.clique_pointer[c] - 1, -1):
        v = tree.clique_variables[a]
        if sizes[v] > 1:
            axes[n] = v
            n += 1
            total *= sizes[v]
    return n, total


@inner
def _runs(
    axes: np.ndarray, n_axes: int, sizes: np.ndarray, stride_of: np.ndarray, size: np.ndarray, stride: np.ndarray
) -> int:
    """Merge neighbouring axes that are contiguous in a smaller table, or absent from it, into one loop."""
    n = 0
    for a in range(n_axes):
        v = axes[a]
        k, s = np.uint64(sizes[v]), np.uint64(stride_of[v])
        if n > 0 and s == stride[n - 1] * size[n - 1]:
            size[n - 1] *= k
        else:
            size[n], stride[n] = k, s
            n += 1
    return n


@inner
def _factor_strides(
    tree: Tree, f: int, codes: np.ndarray, sizes: np.ndarray, stride_of: np.ndarray, clear: bool
) -> int:
    """Strides of a factor's table, and the start of its slice under the evidence."""
    at, step = tree.table_start[f], 1
    for a in range(tree.factor_pointer[f + 1] - 1, tree.factor_pointer[f] - 1, -1):
        v = tree.factor_variables[a]
        stride_of[v] = 0 if clear else step
        if codes[v] >= 0:
            at += codes[v] * step
        step *= tree.cards[v]
    return at


@inner
def _message_strides(tree: Tree, c: int, sizes: np.ndarray, stride_of: np.ndarray, clear: bool) -> int:
    """Strides of the message of clique ``c``, and its size."""
    step = 1
    for a in range(tree.clique_pointer[c + 1] - 1, tree.clique_pointer[c + 1] - tree.n_separator[c] - 1, -1):
        v = tree.clique_variables[a]
        stride_of[v] = 0 if clear else step
        step *= sizes[v]
    return step


@inner
def _rescale(values: np.ndarray, start: int, n: int) -> float:
    top = 0.0
    for i in range(start, start + n):
        top = max(top, values[i])
    if top > 0.0:
        for i in range(start, start + n):
            values[i] /= top
    return top


@kernel
def collect(
    tree: Tree,
    tables: np.ndarray,
    codes: np.ndarray,
    likelihood: np.ndarray,
    has_likelihood: np.ndarray,
    maximise: bool,
    beliefs: np.ndarray,
    messages: np.ndarray,
    scratch: tuple[np.ndarray, ...],
) -> float:
    """Inward pass: products of factors and messages, from the leaves to the roots.

    Messages are scaled to maximum 1. Returns the log of the scale; -inf if a message is zero. Observed variables
    (``codes`` >= 0) are axes of length one.
    """
    sizes, stride_of, axes, size, stride, digit, scales = scratch
    log_scale = 0.0
    for c in range(tree.parent.size):
        n_axes, n_entries = _axes(tree, c, sizes, axes)
        start = tree.belief_start[c]
        b = np.uint64(start)
        n_done = 0
        for a in range(tree.assigned_pointer[c], tree.assigned_pointer[c + 1]):
            f = tree.assigned[a]
            m = _factor_strides(tree, f, codes, sizes, stride_of, False)
            n_runs = _runs(axes, n_axes, sizes, stride_of, size, stride)
            _factor_strides(tree, f, codes, sizes, stride_of, True)
            _multiply(beliefs, b, n_runs, size, stride, digit, tables, np.uint64(m), n_done == 0)
            n_done += 1
            if n_done % 8 == 0:
                top = _rescale(beliefs, start, n_entries)
                log_scale += np.log(top) if top > 0.0 else -np.inf
        for a in range(tree.child_pointer[c], tree.child_pointer[c + 1]):
            child = tree.children[a]
            _message_strides(tree, child, sizes, stride_of, False)
            n_runs = _runs(axes, n_axes, sizes, stride_of, size, stride)
            _message_strides(tree, child, sizes, stride_of, True)
            at = np.uint64(tree.message_start[child])
            _multiply(beliefs, b, n_runs, size, stride, digit, messages, at, n_done == 0)
            n_done += 1
            if n_done % 8 == 0:
                top = _rescale(beliefs, start, n_entries)
                log_scale += np.log(top) if top > 0.0 else -np.inf
        if n_done == 0:
            for i in range(start, start + n_entries):
                beliefs[i] = 1.0
        for a in range(tree.clique_pointer[c], tree.clique_pointer[c + 1]):
            v = tree.clique_variables[a]
            if has_likelihood[v] and tree.home[v] == c:
                at = np.uint64(tree.starts[v] + max(codes[v], 0))
                stride_of[v] = 1
                n_runs = _runs(axes, n_axes, sizes, stride_of, size, stride)
                stride_of[v] = 0
                _multiply(beliefs, b, n_runs, size, stride, digit, likelihood, at, False)
        to = tree.message_start[c]
        k = _message_strides(tree, c, sizes, stride_of, True)
        if maximise:
            for s in range(k):
                messages[to + s] = 0.0
            for r in range(n_entries // k):
                for s in range(k):
                    messages[to + s] = max(messages[to + s], beliefs[start + r * k + s])
        else:
            _fold(beliefs, b, np.uint64(n_entries // k), np.uint64(k), messages, np.uint64(to))
        top = _rescale(messages, to, k)
        if top == 0.0:
            return -np.inf
        scales[c] = top
        log_scale += np.log(top)
    return log_scale


@inner(fastmath={"reassoc", "contract", "nsz"})
def _fold(beliefs: np.ndarray, b: Any, n_rows: Any, k: Any, messages: np.ndarray, to: Any) -> None:
    """Sum over the variables eliminated in a clique, the outer axes."""
    if k == _ONE:
        total = 0.0
        for r in range(n_rows):
            total += beliefs[b + r]
        messages[to] = total
        return
    for s in range(k):
        messages[to + s] = beliefs[b + s]
    for _ in range(_ONE, n_rows):
        b += k
        for s in range(k):
            messages[to + s] += beliefs[b + s]


@kernel
def distribute(tree: Tree, beliefs: np.ndarray, messages: np.ndarray, scratch: tuple[np.ndarray, ...]) -> None:
    """Outward pass: posterior tables of the cliques, from the roots to the leaves; messages become ratios."""
    sizes, stride_of, axes, size, stride, digit, scales = scratch
    longest = 0
    for c in range(tree.parent.size):
        longest = max(longest, tree.message_start[c + 1] - tree.message_start[c])
    above = np.empty(longest)
    for c in range(tree.parent.size - 1, -1, -1):
        _, n_entries = _axes(tree, c, sizes, axes)
        start = tree.belief_start[c]
        p = tree.parent[c]
        if p < 0:
            total = 0.0
            for i in range(start, start + n_entries):
                total += beliefs[i]
            for i in range(start, start + n_entries):
                beliefs[i] /= total
            continue
        k = _message_strides(tree, c, sizes, stride_of, False)
        n_above, _ = _axes(tree, p, sizes, axes)
        n_runs = _runs(axes, n_above, sizes, stride_of, size, stride)
        _message_strides(tree, c, sizes, stride_of, True)
        for s in range(k):
            above[s] = 0.0
        _sum_into(beliefs, np.uint64(tree.belief_start[p]), n_runs, size, stride, digit, above, _ZERO, 1.0)
        at = tree.message_start[c]
        for s in range(k):
            # Zero over zero is zero: impossible states stay impossible.
            messages[at + s] = above[s] / (messages[at + s] * scales[c]) if messages[at + s] > 0.0 else 0.0
        _spread(beliefs, np.uint64(start), np.uint64(n_entries // k), np.uint64(k), messages, np.uint64(at))


@inner
def _spread(beliefs: np.ndarray, b: Any, n_rows: Any, k: Any, messages: np.ndarray, at: Any) -> None:
    for _ in range(n_rows):
        for s in range(k):
            beliefs[b + s] *= messages[at + s]
        b += k


@inner
def _add_marginals(
    tree: Tree,
    codes: np.ndarray,
    wanted: np.ndarray,
    beliefs: np.ndarray,
    scratch: tuple[np.ndarray, ...],
    out: np.ndarray,
) -> None:
    sizes, stride_of, axes, size, stride, digit, _ = scratch
    for v in range(tree.cards.size):
        if not wanted[v]:
            continue
        at = tree.starts[v]
        if codes[v] >= 0:
            out[at + codes[v]] = 1.0
            continue
        c = tree.smallest[v]
        n_axes, _ = _axes(tree, c, sizes, axes)
        stride_of[v] = 1
        n_runs = _runs(axes, n_axes, sizes, stride_of, size, stride)
        stride_of[v] = 0
        b = np.uint64(tree.belief_start[c])
        _sum_into(beliefs, b, n_runs, size, stride, digit, out, np.uint64(at), 1.0)
        total = 0.0
        for i in range(at, at + tree.cards[v]):
            total += out[i]
        for i in range(at, at + tree.cards[v]):
            out[i] /= total


@inner
def _add_counts(
    tree: Tree, codes: np.ndarray, weight: float, beliefs: np.ndarray, scratch: tuple[np.ndarray, ...], out: np.ndarray
) -> None:
    sizes, stride_of, axes, size, stride, digit, _ = scratch
    for c in range(tree.parent.size):
        n_axes, _ = _axes(tree, c, sizes, axes)
        b = np.uint64(tree.belief_start[c])
        for a in range(tree.assigned_pointer[c], tree.assigned_pointer[c + 1]):
            f = tree.assigned[a]
            m = _factor_strides(tree, f, codes, sizes, stride_of, False)
            n_runs = _runs(axes, n_axes, sizes, stride_of, size, stride)
            _factor_strides(tree, f, codes, sizes, stride_of, True)
            _sum_into(beliefs, b, n_runs, size, stride, digit, out, np.uint64(m), weight)


@kernel
def make_scratch(tree: Tree) -> tuple[np.ndarray, ...]:
    n = tree.cards.size
    return (
        np.empty(n, np.int64),
        np.zeros(n, np.int64),
        np.empty(n + 1, np.int64),
        np.empty(n + 1, np.uint64),
        np.empty(n + 1, np.uint64),
        np.zeros(n + 1, np.uint64),
        np.empty(tree.parent.size),
    )


@inner
def _set_sizes(tree: Tree, codes: np.ndarray, sizes: np.ndarray) -> None:
    for v in range(codes.size):
        sizes[v] = tree.cards[v] if codes[v] < 0 else 1


@kernel
def calibrate_rows(
    tree: Tree,
    tables: np.ndarray,
    rows: np.ndarray,
    weights: np.ndarray,
    likelihood: np.ndarray,
    has_likelihood: np.ndarray,
    wanted: np.ndarray,
    with_marginals: bool,
    with_counts: bool,
    log_evidence: np.ndarray,
    marginals: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Calibrate every row of evidence on the same tree, with loops restricted to the allowed states."""
    beliefs = np.empty(tree.belief_start[-1])
    messages = np.empty(tree.message_start[-1])
    scratch = make_scratch(tree)
    for i in range(rows.shape[0]):
        codes = rows[i]
        _set_sizes(tree, codes, scratch[0])
        log_evidence[i] = collect(tree, tables, codes, likelihood, has_likelihood, False, beliefs, messages, scratch)
        if log_evidence[i] == -np.inf:
            continue
        if not with_marginals and not with_counts:
            continue
        distribute(tree, beliefs, messages, scratch)
        if with_marginals:
            _add_marginals(tree, codes, wanted, beliefs, scratch, marginals[i])
        if with_counts:
            _add_counts(tree, codes, weights[i], beliefs, scratch, counts)


class Problem(NamedTuple):
    """A product of tables as flat arrays."""

    cards: np.ndarray
    starts: np.ndarray
    factor_pointer: np.ndarray
    factor_variables: np.ndarray
    table_start: np.ndarray
    has_zero: np.ndarray  # whether a factor's table has a zero
    touch_pointer: np.ndarray
    touching: np.ndarray  # factors of each variable


@inner
def _box(problem: Problem, f: int, allowed: np.ndarray, lists: np.ndarray, n_states: np.ndarray) -> int:
    """The remaining states of each variable of a factor, and their number of combinations."""
    entries = 1
    for a in range(problem.factor_pointer[f], problem.factor_pointer[f + 1]):
        v = problem.factor_variables[a]
        d = a - problem.factor_pointer[f]
        n_states[d] = 0
        for s in range(problem.cards[v]):
            if allowed[problem.starts[v] + s]:
                lists[d, n_states[d]] = s
                n_states[d] += 1
        entries *= n_states[d]
    return entries


@kernel
def propagate(problem: Problem, tables: np.ndarray, allowed: np.ndarray, dirty: np.ndarray) -> bool:
    """Eliminate states that no positive entry of some factor supports, until nothing changes.

    ``dirty`` marks the variables whose states were eliminated before. Returns False if a variable loses all states.
    """
    n_factors = problem.factor_pointer.size - 1
    longest, widest = 1, 1
    for f in range(n_factors):
        longest = max(longest, problem.factor_pointer[f + 1] - problem.factor_pointer[f])
    for v in range(problem.cards.size):
        widest = max(widest, problem.cards[v])
    lists = np.empty((longest, widest), np.int64)
    n_states = np.empty(longest, np.int64)
    digit = np.empty(longest, np.int64)
    stride = np.empty(longest, np.int64)
    supported = np.empty((longest, widest), np.bool_)
    waiting = np.zeros(n_factors, np.bool_)
    queue = np.empty(n_factors, np.int64)
    head, length = 0, 0
    for v in range(problem.cards.size):
        if dirty[v]:
            for a in range(problem.touch_pointer[v], problem.touch_pointer[v + 1]):
                f = problem.touching[a]
                if problem.has_zero[f] and not waiting[f]:
                    waiting[f] = True
                    queue[(head + length) % n_factors] = f
                    length += 1
    while length > 0:
        f = queue[head]
        head = (head + 1) % n_factors
        length -= 1
        waiting[f] = False
        first = problem.factor_pointer[f]
        d = problem.factor_pointer[f + 1] - first
        entries = _box(problem, f, allowed, lists, n_states)
        at, step, missing = problem.table_start[f], 1, 0
        for a in range(d - 1, -1, -1):
            stride[a] = step
            step *= problem.cards[problem.factor_variables[first + a]]
            digit[a] = 0
            missing += n_states[a]
            supported[a, :] = False
            if n_states[a] > 0:
                at += stride[a] * lists[a, 0]
        for _ in range(entries):
            if tables[at] > 0.0:
                for a in range(d):
                    if not supported[a, digit[a]]:
                        supported[a, digit[a]] = True
                        missing -= 1
                if missing == 0:
                    break
            for a in range(d - 1, -1, -1):
                digit[a] += 1
                if digit[a] < n_states[a]:
                    at += stride[a] * (lists[a, digit[a]] - lists[a, digit[a] - 1])
                    break
                at += stride[a] * (lists[a, 0] - lists[a, n_states[a] - 1])
                digit[a] = 0
        if missing == 0:
            continue
        for a in range(d):
            v = problem.factor_variables[first + a]
            kept = 0
            for s in range(n_states[a]):
                if supported[a, s]:
                    kept += 1
                else:
                    allowed[problem.starts[v] + lists[a, s]] = False
            if kept == 0:
                return False
            if kept < n_states[a]:
                for b in range(problem.touch_pointer[v], problem.touch_pointer[v + 1]):
                    g = problem.touching[b]
                    if problem.has_zero[g] and not waiting[g] and g != f:
                        waiting[g] = True
                        queue[(head + length) % n_factors] = g
                        length += 1
    return True


@kernel
def best_order(
    adjacent: np.ndarray, log_cards: np.ndarray, small: float, n_restarts: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """The best of min-fill, weighted min-fill, min-weight and, if all are costly, some orders with random ties."""
    order, cliques, total = elimination_order(adjacent, log_cards, 0, 0, np.inf)
    if total <= small:
        return order, cliques, total
    for attempt in range(n_restarts + 2):
        # Random ties are worth their time if calibration takes longer than the search, unless no order is feasible.
        if attempt > 1 and (total <= 50.0 * small or total > 1e12):
            break
        heuristic = 2 if attempt == 0 else 1 if attempt == 1 else 0 if attempt % 2 == 0 else 2
        other, other_cliques, cost = elimination_order(adjacent, log_cards, heuristic, max(attempt - 1, 0), total)
        if cost < total:
            order, cliques, total = other, other_cliques, cost
    return order, cliques, total


@kernel
def condition(
    problem: Problem, tables: np.ndarray, allowed: np.ndarray, needed: np.ndarray, small: float, n_restarts: int
) -> tuple[Tree, np.ndarray, np.ndarray, np.ndarray, np.ndarray, float, float]:
    """The problem reduced to the remaining states, with a separate tree.

    Variables with a single state are removed, and so are variables that are not needed: in a Bayes net, those whose
    table (the factor with the same index) sums to one, because no descendant is observed or a target.

    Returns the tree; its tables; for each of their entries its index in the given tables; the remaining variables and
    states; the log of the product of factors without variables; and the sum of the clique sizes.
    """
    n_all = problem.cards.size
    n_factors = problem.factor_pointer.size - 1
    number = np.full(n_all, -1)
    left = np.zeros(n_all, np.int64)
    n, n_states_left, widest = 0, 0, 1
    for v in range(n_all):
        for s in range(problem.starts[v], problem.starts[v + 1]):
            left[v] += allowed[s]
        widest = max(widest, left[v])
        if left[v] > 1 and needed[v]:
            number[v] = n
            n += 1
            n_states_left += left[v]
    variables = np.empty(n, np.int64)
    cards = np.empty(n, np.int64)
    states = np.empty(n_states_left, np.int64)
    at = 0
    for v in range(n_all):
        if number[v] >= 0:
            variables[number[v]] = v
            cards[number[v]] = left[v]
            for s in range(problem.cards[v]):
                if allowed[problem.starts[v] + s]:
                    states[at] = s
                    at += 1
    adjacent = np.zeros((n, (n + 63) // 64), np.uint64)
    pointer = np.zeros(n_factors + 1, np.int64)
    table_start = np.zeros(n_factors + 1, np.int64)
    longest = 1
    for f in range(n_factors):
        k, entries = 0, 1
        longest = max(longest, problem.factor_pointer[f + 1] - problem.factor_pointer[f])
        for a in range(problem.factor_pointer[f], problem.factor_pointer[f + 1]):
            u = number[problem.factor_variables[a]]
            if u < 0 or (f < n_all and not needed[f]):
                continue
            k += 1
            entries *= cards[u]
            for b in range(problem.factor_pointer[f], a):
                w = number[problem.factor_variables[b]]
                if w >= 0:
                    adjacent[u, w >> 6] |= _ONE << np.uint64(w & 63)
                    adjacent[w, u >> 6] |= _ONE << np.uint64(u & 63)
        pointer[f + 1] = pointer[f] + k
        table_start[f + 1] = table_start[f] + entries
    order, cliques, total = best_order(adjacent, np.log(cards.astype(np.float64)), small, n_restarts)
    position = np.empty(n, np.int64)
    for i in range(n):
        position[order[i]] = i
    factor_variables = np.empty(pointer[n_factors], np.int64)
    sliced = np.empty(table_start[n_factors])
    source = np.empty(table_start[n_factors], np.int64)
    lists = np.empty((longest, widest), np.int64)
    n_states = np.empty(longest, np.int64)
    stride = np.empty(longest, np.int64)
    digit = np.empty(longest, np.int64)
    axis = np.empty(longest, np.int64)
    log_constant = 0.0
    for f in range(n_factors):
        if f < n_all and not needed[f]:
            sliced[table_start[f]] = 1.0
            source[table_start[f]] = problem.table_start[f]
            continue
        first = problem.factor_pointer[f]
        d = problem.factor_pointer[f + 1] - first
        at, step, k = problem.table_start[f], 1, 0
        for a in range(d - 1, -1, -1):
            v = problem.factor_variables[first + a]
            stride[a] = step
            step *= problem.cards[v]
            n_states[a] = 0
            for s in range(problem.cards[v]):
                if allowed[problem.starts[v] + s]:
                    lists[a, n_states[a]] = s
                    n_states[a] += 1
            at += stride[a] * lists[a, 0]
            digit[a] = 0
            if number[v] >= 0:
                b = k
                while b > 0 and position[number[problem.factor_variables[first + axis[b - 1]]]] > position[number[v]]:
                    axis[b] = axis[b - 1]
                    b -= 1
                axis[b] = a
                k += 1
        for b in range(k):
            factor_variables[pointer[f] + b] = number[problem.factor_variables[first + axis[b]]]
        if k == 0:
            log_constant += np.log(tables[at]) if tables[at] > 0.0 else -np.inf
        for e in range(table_start[f], table_start[f + 1]):
            sliced[e] = tables[at]
            source[e] = at
            for b in range(k - 1, -1, -1):
                a = axis[b]
                digit[a] += 1
                if digit[a] < n_states[a]:
                    at += stride[a] * (lists[a, digit[a]] - lists[a, digit[a] - 1])
                    break
                at += stride[a] * (lists[a, 0] - lists[a, n_states[a] - 1])
                digit[a] = 0
    tree = assemble(cards, pointer, factor_variables, table_start, order, cliques)
    return tree, sliced, source, variables, states, log_constant, total


@kernel
def restrict(
    problem: Problem,
    tables: np.ndarray,
    codes: np.ndarray,
    likelihood: np.ndarray,
    has_likelihood: np.ndarray,
    base_allowed: np.ndarray,
    allowed: np.ndarray,
) -> bool:
    """Write the states that the evidence and the zeros of the tables allow to ``allowed``; False if there are none."""
    n = problem.cards.size
    dirty = np.zeros(n, np.bool_)
    allowed[:] = base_allowed
    for v in range(n):
        left = False
        for s in range(problem.cards[v]):
            at = problem.starts[v] + s
            out = (codes[v] >= 0 and codes[v] != s) or (has_likelihood[v] and likelihood[at] == 0.0)
            if out and allowed[at]:
                allowed[at] = False
                dirty[v] = True
            left = left or allowed[at]
        if not left:
            return False
    return propagate(problem, tables, allowed, dirty)


@kernel
def restrict_likelihood(
    problem: Problem,
    tree: Tree,
    variables: np.ndarray,
    states: np.ndarray,
    likelihood: np.ndarray,
    has_likelihood: np.ndarray,
    allowed: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, float]:
    """The likelihood vectors of the remaining states, and the log likelihood of variables with a single state."""
    own_likelihood = np.ones(states.size)
    own_has = has_likelihood[variables]
    log_fixed = 0.0
    for v in range(problem.cards.size):
        if has_likelihood[v]:
            n_left, only = 0, -1
            for at in range(problem.starts[v], problem.starts[v + 1]):
                if allowed[at]:
                    n_left += 1
                    only = at
            if n_left == 1:
                log_fixed += np.log(likelihood[only])
    for k in range(variables.size):
        for s in range(tree.starts[k], tree.starts[k + 1]):
            if own_has[k]:
                own_likelihood[s] = likelihood[problem.starts[variables[k]] + states[s]]
    return own_likelihood, own_has, log_fixed


@kernel
def condition_rows(
    problem: Problem,
    tables: np.ndarray,
    rows: np.ndarray,
    weights: np.ndarray,
    likelihood: np.ndarray,
    has_likelihood: np.ndarray,
    base_allowed: np.ndarray,
    needed: np.ndarray,
    limit: float,
    small: float,
    n_restarts: int,
    wanted: np.ndarray,
    with_marginals: bool,
    with_counts: bool,
    log_evidence: np.ndarray,
    marginals: np.ndarray,
    counts: np.ndarray,
) -> float:
    """Calibrate every row of evidence on a separate tree. Returns a sum of clique sizes above ``limit``, or 0."""
    n = problem.cards.size
    allowed = np.empty(base_allowed.size, np.bool_)
    for i in range(rows.shape[0]):
        log_evidence[i] = -np.inf
        if not restrict(problem, tables, rows[i], likelihood, has_likelihood, base_allowed, allowed):
            continue
        tree, sliced, source, variables, states, log_constant, total = condition(
            problem, tables, allowed, needed, small, n_restarts
        )
        if log_constant == -np.inf:
            continue
        if total > limit:
            return total
        own_likelihood, own_has, log_fixed = restrict_likelihood(
            problem, tree, variables, states, likelihood, has_likelihood, allowed
        )
        log_constant += log_fixed
        codes = np.full(variables.size, -1)
        beliefs = np.empty(tree.belief_start[-1])
        messages = np.empty(tree.message_start[-1])
        scratch = make_scratch(tree)
        _set_sizes(tree, codes, scratch[0])
        log_sum = collect(tree, sliced, codes, own_likelihood, own_has, False, beliefs, messages, scratch)
        log_evidence[i] = log_sum + log_constant
        if log_sum == -np.inf or not (with_marginals or with_counts):
            continue
        distribute(tree, beliefs, messages, scratch)
        if with_marginals:
            own_wanted = wanted[variables]
            totals = np.zeros(states.size)
            _add_marginals(tree, codes, own_wanted, beliefs, scratch, totals)
            for v in range(n):
                for at in range(problem.starts[v], problem.starts[v + 1]):
                    marginals[i, at] = 1.0 if allowed[at] else 0.0
            for k in range(variables.size):
                for s in range(tree.starts[k], tree.starts[k + 1]):
                    marginals[i, problem.starts[variables[k]] + states[s]] = totals[s]
        if with_counts:
            totals = np.zeros(sliced.size)
            for f in range(tree.factor_pointer.size - 1):
                if tree.factor_pointer[f + 1] == tree.factor_pointer[f] and (f >= n or needed[f]):
                    totals[tree.table_start[f]] = weights[i]
            _add_counts(tree, codes, weights[i], beliefs, scratch, totals)
            for e in range(sliced.size):
                counts[source[e]] += totals[e]
    return 0.0


@inner
def _separator_index(tree: Tree, c: int, assignment: np.ndarray) -> int:
    at, step = 0, 1
    for a in range(tree.clique_pointer[c + 1] - 1, tree.clique_pointer[c + 1] - tree.n_separator[c] - 1, -1):
        v = tree.clique_variables[a]
        at += assignment[v] * step
        step *= tree.cards[v]
    return at


@inner
def _settle(tree: Tree, c: int, r: int, assignment: np.ndarray) -> None:
    """Set the variables eliminated in a clique from the index of their combination."""
    for a in range(tree.clique_pointer[c + 1] - tree.n_separator[c] - 1, tree.clique_pointer[c] - 1, -1):
        v = tree.clique_variables[a]
        assignment[v] = r % tree.cards[v]
        r //= tree.cards[v]


@kernel
def explain(
    tree: Tree, tables: np.ndarray, likelihood: np.ndarray, has_likelihood: np.ndarray, assignment: np.ndarray
) -> float:
    """A most probable assignment, the first of equal ones; returns the log of its product."""
    n = tree.cards.size
    codes = np.full(n, -1)
    beliefs = np.empty(tree.belief_start[-1])
    messages = np.empty(tree.message_start[-1])
    scratch = make_scratch(tree)
    _set_sizes(tree, codes, scratch[0])
    log_max = collect(tree, tables, codes, likelihood, has_likelihood, True, beliefs, messages, scratch)
    if log_max == -np.inf:
        return log_max
    for c in range(tree.parent.size - 1, -1, -1):
        k = tree.message_start[c + 1] - tree.message_start[c]
        start = tree.belief_start[c] + _separator_index(tree, c, assignment)
        best = 0
        for r in range((tree.belief_start[c + 1] - tree.belief_start[c]) // k):
            if beliefs[start + r * k] > beliefs[start + best * k]:
                best = r
        _settle(tree, c, best, assignment)
    return log_max


@kernel
def draw(tree: Tree, beliefs: np.ndarray, uniforms: np.ndarray, assignments: np.ndarray) -> None:
    """Independent draws from the ``beliefs`` of :func:`collect`, with one uniform number for each row and clique."""
    n_cliques = tree.parent.size
    for c in range(n_cliques):
        k = tree.message_start[c + 1] - tree.message_start[c]
        for i in range(tree.belief_start[c] + k, tree.belief_start[c + 1]):
            beliefs[i] += beliefs[i - k]
    for row in range(uniforms.shape[0]):
        for c in range(n_cliques - 1, -1, -1):
            k = tree.message_start[c + 1] - tree.message_start[c]
            start = tree.belief_start[c] + _separator_index(tree, c, assignments[row])
            high = (tree.belief_start[c + 1] - tree.belief_start[c]) // k - 1
            level = uniforms[row, c] * beliefs[start + high * k]
            low = 0
            while low < high:
                middle = (low + high) // 2
                if beliefs[start + middle * k] > level:
                    high = middle
                else:
                    low = middle + 1
            _settle(tree, c, low, assignments[row])


@kernel
def collected(
    tree: Tree, tables: np.ndarray, likelihood: np.ndarray, has_likelihood: np.ndarray
) -> tuple[float, np.ndarray]:
    """The clique tables after the inward pass, and the log of the total."""
    codes = np.full(tree.cards.size, -1)
    beliefs = np.empty(tree.belief_start[-1])
    messages = np.empty(tree.message_start[-1])
    scratch = make_scratch(tree)
    _set_sizes(tree, codes, scratch[0])
    return collect(tree, tables, codes, likelihood, has_likelihood, False, beliefs, messages, scratch), beliefs


@kernel
def log_evidence_and_gradient(
    tables: np.ndarray,
    rows: np.ndarray,
    weights: np.ndarray,
    cards: np.ndarray,
    starts: np.ndarray,
    clique_pointer: np.ndarray,
    clique_variables: np.ndarray,
    n_separator: np.ndarray,
    parent: np.ndarray,
    child_pointer: np.ndarray,
    children: np.ndarray,
    factor_pointer: np.ndarray,
    factor_variables: np.ndarray,
    table_start: np.ndarray,
    assigned_pointer: np.ndarray,
    assigned: np.ndarray,
    belief_start: np.ndarray,
    message_start: np.ndarray,
    smallest: np.ndarray,
    home: np.ndarray,
) -> tuple[float, np.ndarray]:
    """Weighted log evidence of all rows and its gradient with respect to every entry of the tables.

    The kernel of an :class:`bayeslab.evidence.EvidenceOp`; the tree is passed as its arrays.
    """
    tree = Tree(
        cards, starts, clique_pointer, clique_variables, n_separator, parent, child_pointer, children, factor_pointer,
        factor_variables, table_start, assigned_pointer, assigned, belief_start, message_start, smallest, home,
    )  # fmt: skip
    log_evidence = np.empty(rows.shape[0])
    counts = np.zeros(tables.size)
    marginals = np.zeros((rows.shape[0], 0))
    likelihood = np.ones(starts[-1])
    nothing = np.zeros(cards.size, np.bool_)
    calibrate_rows(
        tree, tables, rows, weights, likelihood, nothing, nothing, False, True, log_evidence, marginals, counts
    )
    total = 0.0
    for i in range(rows.shape[0]):
        total += weights[i] * log_evidence[i]
    for i in range(tables.size):
        counts[i] = counts[i] / tables[i] if tables[i] > 0.0 else 0.0
    return total, counts
