"""Compiled loops of imputation: counts of the families of a DAG, and Gibbs draws of rows given all others."""

from __future__ import annotations

import math

from bayeslab.compiled import inner, kernel

__all__ = ["count", "redraw"]


@inner
def _place(codes, r, f, starts, parents, strides):  # type: ignore[no-untyped-def]
    """Row of the table of family f that data row r belongs to."""
    at = 0
    for j in range(starts[f], starts[f + 1]):
        at += codes[r, parents[j]] * strides[j]
    return at


@kernel
def count(codes, cards, starts, parents, strides, offsets, rows_from, counts, totals):  # type: ignore[no-untyped-def]
    """Counts of all families, and of the configurations of their parents."""
    for r in range(codes.shape[0]):
        for f in range(codes.shape[1]):
            at = _place(codes, r, f, starts, parents, strides)
            counts[offsets[f] + at * cards[f] + codes[r, f]] += 1.0
            totals[rows_from[f] + at] += 1.0


@kernel
def redraw(  # type: ignore[no-untyped-def]
    codes, cards, starts, parents, strides, offsets, rows_from, counts, totals, alphas, child_starts, children, rows,
    block_starts, cells, beta, room, uniforms,
):  # fmt: skip
    """Draw blocks of missing cells, each of one row, given everything else; returns how many cells changed.

    The weight of a completion is the product, over the families that contain a cell of the block, of
    (alpha + n) / (cards alpha + N), counts without the row, to the power of beta.
    """
    touched = [0 for _ in range(codes.shape[1])]
    changed = 0
    for b in range(len(rows)):
        r, begin, end = rows[b], block_starts[b], block_starts[b + 1]
        many, n_touched = 1, 0
        for c in range(begin, end):
            v = cells[c]
            many *= cards[v]
            for j in range(child_starts[v], child_starts[v + 1]):
                f, known = children[j], False
                for k in range(n_touched):
                    known = known or touched[k] == f
                if not known:
                    touched[n_touched] = f
                    n_touched += 1
        for k in range(n_touched):
            f = touched[k]
            at = _place(codes, r, f, starts, parents, strides)
            counts[offsets[f] + at * cards[f] + codes[r, f]] -= 1.0
            totals[rows_from[f] + at] -= 1.0
        before, stride = 0, 1
        for c in range(begin, end):
            before += stride * codes[r, cells[c]]
            stride *= cards[cells[c]]
        top = -math.inf
        for x in range(many):
            rest = x
            for c in range(begin, end):
                v = cells[c]
                codes[r, v] = rest % cards[v]
                rest //= cards[v]
            weight = 0.0
            for k in range(n_touched):
                f = touched[k]
                at = _place(codes, r, f, starts, parents, strides)
                pseudo_count = alphas[f] + counts[offsets[f] + at * cards[f] + codes[r, f]]
                weight += math.log(pseudo_count / (alphas[f] * cards[f] + totals[rows_from[f] + at]))
            room[x] = beta * weight
            top = max(top, room[x])
        total = 0.0
        for x in range(many):
            room[x] = math.exp(room[x] - top)
            total += room[x]
        share, drawn = uniforms[b] * total, many - 1
        for x in range(many):
            share -= room[x]
            if share < 0.0:
                drawn = x
                break
        rest, old = drawn, before
        for c in range(begin, end):
            v = cells[c]
            codes[r, v] = rest % cards[v]
            changed += rest % cards[v] != old % cards[v]
            rest //= cards[v]
            old //= cards[v]
        for k in range(n_touched):
            f = touched[k]
            at = _place(codes, r, f, starts, parents, strides)
            counts[offsets[f] + at * cards[f] + codes[r, f]] += 1.0
            totals[rows_from[f] + at] += 1.0
    return changed
