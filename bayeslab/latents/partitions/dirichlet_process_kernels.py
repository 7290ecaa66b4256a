"""Compiled sweeps over partitions of rows, the parameters of their clusters integrated out.

A cluster is a vector of posterior statistics of its parameters, which give the predictive density of a further row, or
of one of its rows given the others, directly: a row that stays in its cluster needs no removal and insertion.
``blocks`` has a row (code, first column, columns or levels, position in a cluster, position of its hyperparameters) for
each:

====  ==========================  =====================================  ====================  =======================
code  block                       a cluster's numbers                    hyperparameters       columns
====  ==========================  =====================================  ====================  =======================
0     normal, full covariance     log det Ψ, mean (d), Cholesky factor   κ, ν                  x, whitened by the prior
                                  of Ψ (triangle, reciprocal diagonal)
1     normal, one column          n, log ψ, mean, ψ                      κ, ν                  x likewise; may be NaN
2     categorical, one column     log of sum, sum, counts (L), logs (L)  concentrations (L)    level; -1 if missing
3     beta                        log evidence, successes, failures      a, b                  successes, failures
4     gamma                       log evidence, Σ won, Σ base            a, b                  won, base
5     normal, known covariance    Σ of squares, mean (d)                 κ                     x, whitened by it
====  ==========================  =====================================  ====================  =======================

Priors of normal blocks have mean 0 and scale 1 in these coordinates, so that Ψ is never less than one. What does not
depend on the partition is left out of densities.
"""

from __future__ import annotations

import math

import numpy as np
from numba.np.random.random_methods import random_interval

from bayeslab.compiled import inner, kernel
from bayeslab.constants import LOG_2PI, LOG_PI

__all__ = [
    "leave_one_out",
    "log_alone",
    "openings",
    "partition_evidence",
    "predict_rows",
    "run_segment",
    "seat",
    "tables_of",
]

# Blocks, hyperparameters, and terms by number of rows (`tables_of`); whether a row's density is at most that of the
# first block, so that hopeless clusters can be passed over.
type Law = tuple[np.ndarray, np.ndarray, np.ndarray, bool]
# Numbers, sizes, names by position and positions by name; names are what labels hold.
type Clusters = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]

# All clusters that a sweep passes over for a row weigh at most one part in so many (in logs) of its own or a new one.
PASSED = 5.0
# Up to here four terms of artanh have all digits that count.
_NEAR = 0.03
# Determinants less a row, relative to what they were, that may be rounding.
_ROUNDED = 1e-6
# Of the proposals to split or merge, so many are splits: most merges are seen to be hopeless at once.
_SPLITS = 0.2


@kernel(error_model="numpy")
def tables_of(blocks: np.ndarray, hyper: np.ndarray, n_rows: int) -> np.ndarray:
    """Parts of the log evidence of normal blocks by the number of rows, (blocks, N + 2): gamma functions are dear."""
    out = np.zeros((len(blocks), n_rows + 2))
    for b in range(len(blocks)):
        code, _, d, _, h = blocks[b]
        if code == 1:
            d = 1
        for n in range(n_rows + 2):
            if code == 0 or code == 1:
                value = 0.5 * d * (math.log(hyper[h]) - math.log(hyper[h] + n)) - 0.5 * n * d * LOG_PI
                for i in range(d):
                    value += math.lgamma(0.5 * (hyper[h + 1] + n - i)) - math.lgamma(0.5 * (hyper[h + 1] - i))
                out[b, n] = value
            elif code == 5:
                out[b, n] = 0.5 * d * (math.log(hyper[h]) - math.log(hyper[h] + n) - n * LOG_2PI)
    return out


# --------------------------------------------------------------------------------- one cluster


@inner(error_model="numpy")
def _square(s: np.ndarray, at: int, x: np.ndarray, column: int, d: int) -> float:
    """(x - m)' Ψ^-1 (x - m)."""
    if d == 2:
        first = (x[column] - s[at + 1]) * s[at + 3]
        second = (x[column + 1] - s[at + 2] - s[at + 4] * first) * s[at + 5]
        return first * first + second * second
    if d == 1:
        first = (x[column] - s[at + 1]) * s[at + 2]
        return first * first
    work = np.empty(d)
    place, total = at + 1 + d, 0.0
    for i in range(d):
        value = x[column + i] - s[at + 1 + i]
        for j in range(i):
            value -= s[place + j] * work[j]
        value *= s[place + i]
        work[i] = value
        total += value * value
        place += i + 1
    return total


@inner(error_model="numpy")
def _log_square(s: np.ndarray, at: int, x: np.ndarray, column: int, d: int) -> float:
    """The log of the same of a row so far off that its square is too large for a double."""
    near, unit = s.copy(), 1e-160
    near[at + 1 : at + 1 + d] *= unit
    return math.log(_square(near, at, x * unit, column, d)) - 2.0 * math.log(unit)


@inner(error_model="numpy")
def _rank_one(s: np.ndarray, at: int, d: int, v: np.ndarray, sign: float) -> None:
    """The Cholesky factor of Ψ ± v v', and its log determinant."""
    if d == 2:
        # Written out: most moves of rows are in the plane.
        first, cross, second = s[at + 3], s[at + 4], s[at + 5]
        square = max(1.0 / (first * first) + sign * v[0] * v[0], 1.0)
        new = math.sqrt(square)
        cosine, sine = new * first, v[0] * first
        cross = (cross + sign * sine * v[1]) / cosine
        rest = cosine * v[1] - sine * cross
        other = max(1.0 / (second * second) + sign * rest * rest, 1.0)
        s[at], s[at + 3], s[at + 4], s[at + 5] = math.log(square * other), 1.0 / new, cross, 1.0 / math.sqrt(other)
        return
    log_det, start = 0.0, at + 1 + d
    for k in range(d):
        old = 1.0 / s[start + k * (k + 1) // 2 + k]
        # Ψ is at least one, and so are its pivots: less is rounding.
        square = max(old * old + sign * v[k] * v[k], 1.0)
        new = math.sqrt(square)
        cosine, sine = new / old, v[k] / old
        s[start + k * (k + 1) // 2 + k] = 1.0 / new
        log_det += math.log(square)
        for i in range(k + 1, d):
            place = start + i * (i + 1) // 2 + k
            s[place] = (s[place] + sign * sine * v[i]) / cosine
            v[i] = cosine * v[i] - sine * s[place]
    s[at] = log_det


@inner(error_model="numpy")
def _beta_evidence(won: float, lost: float) -> float:
    return math.lgamma(won) + math.lgamma(lost) - math.lgamma(won + lost)


@inner(error_model="numpy")
def _gamma_evidence(won: float, base: float) -> float:
    return math.lgamma(won) - won * math.log(base)


@inner(error_model="numpy")
def _clear(s: np.ndarray, law: Law) -> None:
    """A cluster without rows."""
    blocks, hyper, _, _ = law
    for b in range(len(blocks)):
        code, _, d, at, h = blocks[b]
        if code == 0:
            for i in range(1 + d + d * (d + 1) // 2):
                s[at + i] = 0.0
            for i in range(d):
                s[at + 1 + d + i * (i + 1) // 2 + i] = 1.0
        elif code == 1:
            s[at], s[at + 1], s[at + 2], s[at + 3] = 0.0, 0.0, 0.0, 1.0
        elif code == 2:
            s[at + 1] = 0.0
            for level in range(d):
                s[at + 2 + level] = hyper[h + level]
                s[at + 2 + d + level] = math.log(hyper[h + level])
                s[at + 1] += hyper[h + level]
            s[at] = math.log(s[at + 1])
        elif code == 3:
            s[at + 1], s[at + 2] = hyper[h], hyper[h + 1]
            s[at] = _beta_evidence(hyper[h], hyper[h + 1])
        elif code == 4:
            s[at + 1], s[at + 2] = hyper[h], hyper[h + 1]
            s[at] = _gamma_evidence(hyper[h], hyper[h + 1])
        else:
            for i in range(d + 1):
                s[at + i] = 0.0


@inner(error_model="numpy")
def _gain(s: np.ndarray, n: int, x: np.ndarray, law: Law, floor: float) -> float:
    """Log predictive density of one more row in a cluster of n; minus infinity if it is surely below ``floor``."""
    blocks, hyper, tables, pruned = law
    total = 0.0
    for b in range(len(blocks)):
        code, column, d, at, h = blocks[b]
        if code == 0:
            kappa, nu = hyper[h] + n, hyper[h + 1] + n + 1.0
            z = _square(s, at, x, column, d) * kappa / (kappa + 1.0)
            top = total + tables[b, n + 1] - tables[b, n] - 0.5 * s[at]
            # log(1 + z) is at least 2 z / (2 + z), which needs no logarithm.
            if pruned and top - nu * (1.0 - 2.0 / (2.0 + z)) < floor:
                return -np.inf
            log_z = math.log1p(z) if z < np.inf else _log_square(s, at, x, column, d) + math.log(kappa / (kappa + 1.0))
            total = top - 0.5 * nu * log_z
        elif code == 1:
            if not math.isnan(x[column]):
                n_observed = int(s[at] + 0.5)
                kappa, apart = hyper[h] + n_observed, x[column] - s[at + 2]
                z = apart * apart / s[at + 3] * kappa / (kappa + 1.0)
                total += tables[b, n_observed + 1] - tables[b, n_observed] - 0.5 * s[at + 1]
                if not z < np.inf:
                    log_z = 2.0 * math.log(abs(apart)) - s[at + 1] + math.log(kappa / (kappa + 1.0))
                else:
                    log_z = math.log1p(z)
                total -= 0.5 * (hyper[h + 1] + n_observed + 1.0) * log_z
        elif code == 2:
            level = int(x[column])
            if level >= 0:
                total += s[at + 2 + d + level] - s[at]
        elif code == 3:
            if x[column] + x[column + 1] > 0:
                total += _beta_evidence(s[at + 1] + x[column], s[at + 2] + x[column + 1]) - s[at]
        elif code == 4:
            if x[column] + x[column + 1] > 0:
                total += _gamma_evidence(s[at + 1] + x[column], s[at + 2] + x[column + 1]) - s[at]
        else:
            kappa, square = hyper[h] + n, 0.0
            for i in range(d):
                square += (x[column + i] - s[at + 1 + i]) ** 2
            total += tables[b, n + 1] - tables[b, n] - 0.5 * square * kappa / (kappa + 1.0)
    return total


@inner(error_model="numpy")
def _given_others(s: np.ndarray, n: int, x: np.ndarray, law: Law) -> float:
    """Log predictive density of one of a cluster's n rows, given its others."""
    blocks, hyper, tables, _ = law
    total = 0.0
    for b in range(len(blocks)):
        code, column, d, at, h = blocks[b]
        if code == 0:
            kappa, nu = hyper[h] + n, hyper[h + 1] + n - 1.0
            left = 1.0 - _square(s, at, x, column, d) * kappa / (kappa - 1.0)
            if left < _ROUNDED:
                # Determinants are at least one: less is rounding.
                left = max(left, math.exp(-s[at]))
            total += tables[b, n] - tables[b, n - 1] - 0.5 * s[at] + 0.5 * nu * math.log(left)
        elif code == 1:
            if not math.isnan(x[column]):
                n_observed = int(s[at] + 0.5)
                kappa, apart = hyper[h] + n_observed, x[column] - s[at + 2]
                left = max(1.0 - apart * apart / s[at + 3] * kappa / (kappa - 1.0), 1.0 / s[at + 3])
                total += tables[b, n_observed] - tables[b, n_observed - 1] - 0.5 * s[at + 1]
                total += 0.5 * (hyper[h + 1] + n_observed - 1.0) * math.log(left)
        elif code == 2:
            level = int(x[column])
            if level >= 0:
                total += math.log((s[at + 2 + level] - 1.0) / (s[at + 1] - 1.0))
        elif code == 3:
            total += s[at] - _beta_evidence(s[at + 1] - x[column], s[at + 2] - x[column + 1])
        elif code == 4:
            total += s[at] - _gamma_evidence(s[at + 1] - x[column], s[at + 2] - x[column + 1])
        else:
            kappa, square = hyper[h] + n, 0.0
            for i in range(d):
                square += (x[column + i] - s[at + 1 + i]) ** 2
            total += tables[b, n] - tables[b, n - 1] - 0.5 * square * kappa / (kappa - 1.0)
    return total


@inner(error_model="numpy")
def _change(s: np.ndarray, n: int, x: np.ndarray, sign: int, law: Law, work: np.ndarray) -> None:
    """Put a row into a cluster of n (``sign`` 1), or take one of its n out (-1)."""
    blocks, hyper, _, _ = law
    for b in range(len(blocks)):
        code, column, d, at, h = blocks[b]
        if code == 0:
            kappa = hyper[h] + n
            root = math.sqrt(kappa / (kappa + sign))
            for i in range(d):
                apart = x[column + i] - s[at + 1 + i]
                s[at + 1 + i] += sign * apart / (kappa + sign)
                work[i] = root * apart
            _rank_one(s, at, d, work, float(sign))
        elif code == 1:
            if not math.isnan(x[column]):
                kappa, apart = hyper[h] + s[at], x[column] - s[at + 2]
                s[at] += sign
                s[at + 2] += sign * apart / (kappa + sign)
                s[at + 3] = max(s[at + 3] + sign * apart * apart * kappa / (kappa + sign), 1.0)
                s[at + 1] = math.log(s[at + 3])
        elif code == 2:
            level = int(x[column])
            if level >= 0:
                s[at + 1] += sign
                s[at] = math.log(s[at + 1])
                s[at + 2 + level] += sign
                s[at + 2 + d + level] = math.log(s[at + 2 + level])
        elif code == 3:
            s[at + 1] += sign * x[column]
            s[at + 2] += sign * x[column + 1]
            s[at] = _beta_evidence(s[at + 1], s[at + 2])
        elif code == 4:
            s[at + 1] += sign * x[column]
            s[at + 2] += sign * x[column + 1]
            s[at] = _gamma_evidence(s[at + 1], s[at + 2])
        else:
            kappa = hyper[h] + n
            for i in range(d):
                apart = x[column + i] - s[at + 1 + i]
                s[at] += sign * apart * apart * kappa / (kappa + sign)
                s[at + 1 + i] += sign * apart / (kappa + sign)


@inner(error_model="numpy")
def _evidence(s: np.ndarray, n: int, law: Law) -> float:
    """Log evidence of a cluster's rows."""
    blocks, hyper, tables, _ = law
    total = 0.0
    for b in range(len(blocks)):
        code, _, d, at, h = blocks[b]
        if code == 0:
            total += tables[b, n] - 0.5 * (hyper[h + 1] + n) * s[at]
        elif code == 1:
            n_observed = int(s[at] + 0.5)
            total += tables[b, n_observed] - 0.5 * (hyper[h + 1] + n_observed) * s[at + 1]
        elif code == 2:
            before = 0.0
            for level in range(d):
                before += hyper[h + level]
                total += math.lgamma(s[at + 2 + level]) - math.lgamma(hyper[h + level])
            total += math.lgamma(before) - math.lgamma(s[at + 1])
        elif code == 3:
            total += s[at] - _beta_evidence(hyper[h], hyper[h + 1])
        elif code == 4:
            total += s[at] - _gamma_evidence(hyper[h], hyper[h + 1])
        else:
            total += tables[b, n] - 0.5 * s[at]
    return total


@inner(error_model="numpy")
def _factorise(s: np.ndarray, at: int, d: int) -> None:
    """The Cholesky factor of a matrix in place (a triangle), and its log determinant."""
    log_det, start = 0.0, at + 1 + d
    for i in range(d):
        row = start + i * (i + 1) // 2
        for j in range(i + 1):
            other = start + j * (j + 1) // 2
            value = s[row + j]
            for c in range(j):
                value -= s[row + c] * s[other + c]
            if i == j:
                value = max(value, 1.0)
                log_det += math.log(value)
                s[row + i] = 1.0 / math.sqrt(value)
            else:
                s[row + j] = value * s[other + j]
    s[at] = log_det


@inner(error_model="numpy")
def _element(s: np.ndarray, start: int, i: int, j: int) -> float:
    """Of Ψ, from its factor; j at most i."""
    row, other = start + i * (i + 1) // 2, start + j * (j + 1) // 2
    total = 0.0
    for c in range(j):
        total += s[row + c] * s[other + c]
    if i == j:
        return total + 1.0 / (s[row + i] * s[row + i])
    return total + s[row + j] / s[other + j]


@inner(error_model="numpy")
def _merge(s: np.ndarray, n: int, t: np.ndarray, m: int, out: np.ndarray, law: Law) -> None:
    """The cluster of two clusters' rows."""
    blocks, hyper, _, _ = law
    for b in range(len(blocks)):
        code, _, d, at, h = blocks[b]
        if code == 0:
            one, two, prior = hyper[h] + n, hyper[h] + m, hyper[h]
            for i in range(d):
                out[at + 1 + i] = (one * s[at + 1 + i] + two * t[at + 1 + i]) / (one + two - prior)
            start = at + 1 + d
            for i in range(d):
                for j in range(i + 1):
                    a, c = out[at + 1 + i], out[at + 1 + j]
                    value = _element(s, start, i, j) + _element(t, start, i, j) - (1.0 if i == j else 0.0)
                    value += one * (s[at + 1 + i] - a) * (s[at + 1 + j] - c)
                    value += two * (t[at + 1 + i] - a) * (t[at + 1 + j] - c) - prior * a * c
                    out[start + i * (i + 1) // 2 + j] = value
            _factorise(out, at, d)
        elif code == 1:
            one, two, prior = hyper[h] + s[at], hyper[h] + t[at], hyper[h]
            mean = (one * s[at + 2] + two * t[at + 2]) / (one + two - prior)
            value = s[at + 3] + t[at + 3] - 1.0 + one * (s[at + 2] - mean) ** 2 + two * (t[at + 2] - mean) ** 2
            out[at], out[at + 2], out[at + 3] = s[at] + t[at], mean, max(value - prior * mean * mean, 1.0)
            out[at + 1] = math.log(out[at + 3])
        elif code == 2:
            out[at + 1] = s[at + 1] + t[at + 1]
            for level in range(d):
                out[at + 1] -= hyper[h + level]
                out[at + 2 + level] = s[at + 2 + level] + t[at + 2 + level] - hyper[h + level]
                out[at + 2 + d + level] = math.log(out[at + 2 + level])
            out[at] = math.log(out[at + 1])
        elif code == 3 or code == 4:
            out[at + 1] = s[at + 1] + t[at + 1] - hyper[h]
            out[at + 2] = s[at + 2] + t[at + 2] - hyper[h + 1]
            if code == 3:
                out[at] = _beta_evidence(out[at + 1], out[at + 2])
            else:
                out[at] = _gamma_evidence(out[at + 1], out[at + 2])
        else:
            one, two, prior = hyper[h] + n, hyper[h] + m, hyper[h]
            out[at] = s[at] + t[at]
            for i in range(d):
                mean = (one * s[at + 1 + i] + two * t[at + 1 + i]) / (one + two - prior)
                out[at] += one * (s[at + 1 + i] - mean) ** 2 + two * (t[at + 1 + i] - mean) ** 2 - prior * mean * mean
                out[at + 1 + i] = mean


# --------------------------------------------------------------------------------- all clusters


@inner(error_model="numpy")
def _copy(source: np.ndarray, target: np.ndarray) -> None:
    """Assign a vector: as a slice each assignment would take half a second to compile."""
    for i in range(len(source)):
        target[i] = source[i]


@inner(error_model="numpy")
def _named(labels: np.ndarray) -> int:
    """Number clusters in the order in which they first appear, in place; how many there are."""
    known = np.full(labels.max() + 1, -1)
    count = 0
    for n in range(len(labels)):
        if known[labels[n]] < 0:
            known[labels[n]] = count
            count += 1
        labels[n] = known[labels[n]]
    return count


@inner(error_model="numpy")
def _width(blocks: np.ndarray) -> int:
    """How many numbers a cluster has."""
    most = 0
    for b in range(len(blocks)):
        code, _, d, at, _ = blocks[b]
        if code == 0:
            size = 1 + d + d * (d + 1) // 2
        elif code == 1:
            size = 4
        elif code == 2:
            size = 2 + 2 * d
        elif code == 5:
            size = 1 + d
        else:
            size = 3
        most = max(most, at + size)
    return most


@inner(error_model="numpy")
def _begun(count: int, law: Law) -> Clusters:
    """Clusters without rows, and room for some more."""
    room = 2 * count + 16
    state = np.empty((room, _width(law[0])))
    for c in range(room):
        _clear(state[c], law)
    return state, np.zeros(room, np.int64), np.arange(room), np.arange(room)


@inner(error_model="numpy")
def _grown(clusters: Clusters, law: Law) -> Clusters:
    """The same with twice the room."""
    state, sizes, names, places = clusters
    room = len(sizes)
    wide, more = np.empty((2 * room, state.shape[1])), np.zeros(2 * room, np.int64)
    name, place = np.arange(2 * room), np.arange(2 * room)
    for c in range(room):
        _copy(state[c], wide[c])
        more[c], name[c], place[c] = sizes[c], names[c], places[c]
    for c in range(room, 2 * room):
        _clear(wide[c], law)
    return wide, more, name, place


@inner(error_model="numpy")
def _gathered(rows: np.ndarray, labels: np.ndarray, count: int, law: Law) -> Clusters:
    """Clusters of labelled rows, summed afresh: taking out and putting in would let rounding pile up."""
    clusters = _begun(count, law)
    state, sizes, _, _ = clusters
    blocks, hyper, _, _ = law
    for n in range(len(rows)):
        sizes[labels[n]] += 1
    for b in range(len(blocks)):
        code, column, d, at, h = blocks[b]
        if code == 0:
            start = at + 1 + d
            for n in range(len(rows)):
                s = state[labels[n]]
                for i in range(d):
                    s[at + 1 + i] += rows[n, column + i]
            for c in range(count):
                for i in range(d):
                    state[c, at + 1 + i] /= sizes[c]
            for n in range(len(rows)):
                s = state[labels[n]]
                place = start
                for i in range(d):
                    apart = rows[n, column + i] - s[at + 1 + i]
                    for j in range(i + 1):
                        s[place + j] += apart * (rows[n, column + j] - s[at + 1 + j])
                    place += i + 1
            for c in range(count):
                s, shrink = state[c], sizes[c] / (hyper[h] + sizes[c])
                for i in range(d):
                    for j in range(i + 1):
                        s[start + i * (i + 1) // 2 + j] += hyper[h] * shrink * s[at + 1 + i] * s[at + 1 + j]
                for i in range(d):
                    s[at + 1 + i] *= shrink
                _factorise(s, at, d)
        elif code == 2:
            for n in range(len(rows)):
                level = int(rows[n, column])
                if level >= 0:
                    state[labels[n], at + 2 + level] += 1.0
            for c in range(count):
                s = state[c]
                s[at + 1] = 0.0
                for level in range(d):
                    s[at + 1] += s[at + 2 + level]
                    s[at + 2 + d + level] = math.log(s[at + 2 + level])
                s[at] = math.log(s[at + 1])
        elif code == 3 or code == 4:
            for n in range(len(rows)):
                state[labels[n], at + 1] += rows[n, column]
                state[labels[n], at + 2] += rows[n, column + 1]
            for c in range(count):
                s = state[c]
                if code == 3:
                    s[at] = _beta_evidence(s[at + 1], s[at + 2])
                else:
                    s[at] = _gamma_evidence(s[at + 1], s[at + 2])
        elif code == 1:
            for n in range(len(rows)):
                if not math.isnan(rows[n, column]):
                    s = state[labels[n]]
                    kappa, apart = hyper[h] + s[at], rows[n, column] - s[at + 2]
                    s[at] += 1.0
                    s[at + 2] += apart / (kappa + 1.0)
                    s[at + 3] += apart * apart * kappa / (kappa + 1.0)
            for c in range(count):
                state[c, at + 1] = math.log(state[c, at + 3])
        else:
            held = np.zeros(count)
            for n in range(len(rows)):
                c = labels[n]
                s, kappa = state[c], hyper[h] + held[c]
                for i in range(d):
                    apart = rows[n, column + i] - s[at + 1 + i]
                    s[at] += apart * apart * kappa / (kappa + 1.0)
                    s[at + 1 + i] += apart / (kappa + 1.0)
                held[c] += 1.0
    return clusters


@inner(error_model="numpy")
def _removed(clusters: Clusters, c: int, count: int, law: Law) -> None:
    """Let go of the cluster at a position, which has no rows: the last one takes its place."""
    state, sizes, names, places = clusters
    last = count - 1
    if c != last:
        _copy(state[last], state[c])
        sizes[c] = sizes[last]
        names[c], names[last] = names[last], names[c]
        places[names[c]], places[names[last]] = c, last
    _clear(state[last], law)
    sizes[last] = 0


@kernel(error_model="numpy")
def log_alone(rows: np.ndarray, law: Law) -> np.ndarray:
    """Log density of each row in a cluster of its own, (N,)."""
    state, _, _, _ = _begun(0, law)
    out = np.empty(len(rows))
    for n in range(len(rows)):
        out[n] = _gain(state[0], 0, rows[n], law, -np.inf)
    return out


@inner(error_model="numpy")
def _pick(rng: np.random.Generator, logs: np.ndarray, count: int) -> int:
    """One of the first ``count`` with probability ∝ exp(logs), which are lost."""
    top = logs[0]
    for k in range(1, count):
        top = max(top, logs[k])
    total = 0.0
    for k in range(count):
        logs[k] = math.exp(logs[k] - top)
        total += logs[k]
    point = rng.random() * total
    for k in range(count):
        point -= logs[k]
        if point < 0.0:
            return k
    return count - 1


@inner(error_model="numpy")
def _fallen(logs: np.ndarray, many: int, point: float, left: float) -> tuple[int, float]:
    """On which of ``many`` choices a uniform number falls, and the log of what weights are relative to.

    Others follow that weigh at most ``left`` together, relative to the best; -1 if it depends on how much. ``logs``
    become weights.
    """
    top, total, before = logs[0], 0.0, 0.0
    for k in range(1, many):
        top = max(top, logs[k])
    for k in range(many):
        logs[k] = math.exp(logs[k] - top)
        total += logs[k]
    low, high = point * total, point * (total + left)
    for k in range(many):
        after = before + logs[k]
        if after > high:
            return (k if before <= low else -1), top
        before = after
    return -1, top


@inner(error_model="numpy")
def _fallen_of_all(
    x: np.ndarray,
    current: int,
    clusters: Clusters,
    count: int,
    log_size: np.ndarray,
    law: Law,
    point: float,
    top: float,
    many: int,
    bound: np.ndarray,
    floor: float,
    choices: np.ndarray,
    weights: np.ndarray,
) -> int:
    """The cluster, where those that were passed over come last: their ``bound`` is not above ``floor``."""
    state, sizes, _, _ = clusters
    for c in range(count):
        if c != current and not bound[c] > floor:
            choices[many] = c
            weights[many] = math.exp(log_size[sizes[c]] + _gain(state[c], sizes[c], x, law, -np.inf) - top)
            many += 1
    point *= weights[:many].sum()
    for k in range(many):
        point -= weights[k]
        if point < 0.0:
            return int(choices[k])
    return int(choices[0])


@inner(error_model="numpy")
def _transferred(
    labels: np.ndarray,
    n: int,
    x: np.ndarray,
    current: int,
    chosen: int,
    clusters: Clusters,
    count: int,
    law: Law,
    work: np.ndarray,
) -> tuple[int, int]:
    """Put a row into another cluster, which may be new, and take it out of its own; where it is, and the clusters.

    There is room for one more.
    """
    state, sizes, names, places = clusters
    count += chosen == count
    _change(state[chosen], sizes[chosen], x, 1, law, work)
    sizes[chosen] += 1
    labels[n] = names[chosen]
    if sizes[current] == 1:
        sizes[current] = 0
        _removed(clusters, current, count, law)
        return int(places[labels[n]]), count - 1
    _change(state[current], sizes[current], x, -1, law, work)
    sizes[current] -= 1
    return chosen, count


@inner(error_model="numpy")
def _sweep(
    rng: np.random.Generator,
    rows: np.ndarray,
    labels: np.ndarray,
    alone: np.ndarray,
    log_size: np.ndarray,
    opening: np.ndarray,
    law: Law,
    clusters: Clusters,
    count: int,
) -> tuple[Clusters, int, int]:
    """Reassign each row in turn given all others; clusters, their number, and how many rows moved.

    A uniform number picks a cluster by where it falls among the sums of weights. Clusters far less probable than the
    row's own come last and are bounded only: where the pick depends on their weights, which is rare, these are summed.
    """
    state, sizes, _, places = clusters
    room, work, moved = len(sizes), np.empty(rows.shape[1]), 0
    logs, choices, bound = np.empty(room + 2), np.empty(room + 2, np.int64), np.empty(room)
    slack = PASSED + math.log(count + 1.0)
    left = math.exp(-slack)
    for n in range(len(rows)):
        x, current = rows[n], places[labels[n]]
        choices[0], many = current, 1
        if sizes[current] == 1:
            # Its cluster would be gone without it, and one of its own is new.
            logs[0] = opening[count - 1] + alone[n]
        else:
            logs[0] = log_size[sizes[current] - 1] + _given_others(state[current], sizes[current], x, law)
            logs[1], choices[1], many = opening[count] + alone[n], count, 2
        floor = max(logs[0], logs[many - 1]) - slack
        for c in range(count):
            if c != current:
                size = log_size[sizes[c]]
                bound[c] = size + _gain(state[c], sizes[c], x, law, floor - size)
                if bound[c] > floor:
                    logs[many], choices[many] = bound[c], c
                    many += 1
        point = rng.random()
        pick, top = _fallen(logs, many, point, count * left)
        chosen = choices[pick]
        if pick < 0:
            chosen = _fallen_of_all(
                x, current, clusters, count, log_size, law, point, top, many, bound, floor, choices, logs
            )
        if chosen == current:
            continue
        moved += 1
        if chosen == count and count + 3 > room:
            clusters = _grown(clusters, law)
            state, sizes, _, places = clusters
            room = len(sizes)
            logs, choices, bound = np.empty(room + 2), np.empty(room + 2, np.int64), np.empty(room)
        _, count = _transferred(labels, n, x, current, chosen, clusters, count, law, work)
    return clusters, count, moved


# --------------------------------------------------------------------------------- rows of one or two columns


@inner(error_model="numpy")
def _note(quick: np.ndarray, c: int, clusters: Clusters, log_size: np.ndarray, law: Law) -> None:
    """What densities take of a row of one or two columns in the cluster at a position, or given its others there."""
    state, sizes, _, _ = clusters
    blocks, hyper, tables, _ = law
    d, at, h, n = blocks[0, 2], blocks[0, 3], blocks[0, 4], sizes[c]
    kappa, nu = hyper[h] + n, hyper[h + 1] + n
    quick[0, c] = state[c, at + 1]
    if d == 2:
        quick[1, c], quick[2, c] = state[c, at + 2], state[c, at + 3]
        quick[3, c], quick[4, c] = state[c, at + 4], state[c, at + 5]
    else:
        quick[1, c], quick[2, c], quick[3, c], quick[4, c] = 0.0, state[c, at + 2], 0.0, 0.0
    quick[5, c], quick[6, c] = kappa / (kappa + 1.0), nu + 1.0
    quick[7, c] = log_size[n] + tables[0, n + 1] - tables[0, n] - 0.5 * state[c, at]
    quick[8, c], quick[9, c] = (kappa + 1.0) / (kappa - 1.0), 0.5 * (nu - 1.0)
    quick[10, c] = log_size[n - 1] + tables[0, n] - tables[0, n - 1] - 0.5 * state[c, at]


@inner(error_model="numpy")
def _noted(clusters: Clusters, count: int, log_size: np.ndarray, law: Law) -> np.ndarray:
    """That of all clusters side by side, (11, room), and room for the lanes of `_look`."""
    quick = np.zeros((11, len(clusters[1]) + 16))
    for c in range(count):
        _note(quick, c, clusters, log_size, law)
    return quick


@inner(error_model="numpy")
def _look(quick: np.ndarray, count: int, x: float, y: float, tangent: np.ndarray, bound: np.ndarray) -> None:
    """Log densities of a row in all clusters times their sizes: exact of clusters near to it, bounds of others."""
    # Whole lanes: what would be left over one by one takes longer than places that hold no cluster.
    for c in range(max(16, (count + 7) // 8 * 8)):
        first = (x - quick[0, c]) * quick[2, c]
        second = (y - quick[1, c] - quick[3, c] * first) * quick[4, c]
        z = (first * first + second * second) * quick[5, c]
        t = z / (2.0 + z)
        # log(1 + z) = 2 artanh t, a series of positive terms.
        u = t * t
        tangent[c] = t
        bound[c] = quick[7, c] - quick[6, c] * t * (1.0 + u * (1 / 3 + u * (1 / 5 + u / 7)))


@inner(error_model="numpy")
def _rest(s: np.ndarray, x: np.ndarray, law: Law) -> float:
    """Log probability of the categories of a row; what comes after the first block."""
    blocks = law[0]
    total = 0.0
    for b in range(1, len(blocks)):
        level = int(x[blocks[b, 1]])
        if level >= 0:
            at = blocks[b, 3]
            total += s[at + 2 + blocks[b, 2] + level] - s[at]
    return total


@inner(error_model="numpy")
def _sweep_plane(
    rng: np.random.Generator,
    rows: np.ndarray,
    labels: np.ndarray,
    alone: np.ndarray,
    log_size: np.ndarray,
    opening: np.ndarray,
    law: Law,
    clusters: Clusters,
    count: int,
) -> tuple[Clusters, int, int]:
    """`_sweep` of rows of one or two normal columns, and categories; the same up to rounding."""
    state, sizes, _, places = clusters
    column, wide, more = law[0][0, 1], law[0][0, 2] == 2, len(law[0]) > 1
    at = law[0][0, 3]
    room, work, moved = len(sizes), np.empty(rows.shape[1]), 0
    logs, choices = np.empty(room + 2), np.empty(room + 2, np.int64)
    quick, tangent, bound = _noted(clusters, count, log_size, law), np.empty(room + 16), np.empty(room + 16)
    slack = PASSED + math.log(count + 1.0)
    left = math.exp(-slack)
    for n in range(len(rows)):
        current = places[labels[n]]
        _look(quick, count, rows[n, column], rows[n, column + 1] if wide else 0.0, tangent, bound)
        choices[0], many = current, 1
        if sizes[current] == 1:
            logs[0] = opening[count - 1] + alone[n]
            floor = logs[0] - slack
        else:
            if more:
                logs[0] = log_size[sizes[current] - 1] + _given_others(state[current], sizes[current], rows[n], law)
            else:
                share = 1.0 - 2.0 * tangent[current] / (1.0 - tangent[current]) * quick[8, current]
                if share < _ROUNDED:
                    share = max(share, math.exp(-state[current, at]))
                logs[0] = quick[10, current] + quick[9, current] * math.log(share)
            logs[1], choices[1], many = opening[count] + alone[n], count, 2
            floor = max(logs[0], logs[1]) - slack
        bound[current] = -np.inf
        for c in range(count):
            if bound[c] > floor:
                choices[many] = c
                if tangent[c] > _NEAR:
                    logs[many] = log_size[sizes[c]] + _gain(state[c], sizes[c], rows[n], law, -np.inf)
                elif more:
                    logs[many] = bound[c] + _rest(state[c], rows[n], law)
                else:
                    logs[many] = bound[c]
                many += 1
        point = rng.random()
        pick, top = _fallen(logs, many, point, count * left)
        chosen = choices[pick]
        if pick < 0:
            chosen = _fallen_of_all(
                rows[n], current, clusters, count, log_size, law, point, top, many, bound, floor, choices, logs
            )
        if chosen == current:
            continue
        moved += 1
        if chosen == count and count + 3 > room:
            clusters = _grown(clusters, law)
            state, sizes, _, places = clusters
            room = len(sizes)
            logs, choices = np.empty(room + 2), np.empty(room + 2, np.int64)
            quick, tangent, bound = _noted(clusters, count, log_size, law), np.empty(room + 16), np.empty(room + 16)
        chosen, count = _transferred(labels, n, rows[n], current, chosen, clusters, count, law, work)
        _note(quick, chosen, clusters, log_size, law)
        if current < count:
            _note(quick, current, clusters, log_size, law)
    return clusters, count, moved


# --------------------------------------------------------------------------------- splits and merges


@inner(error_model="numpy")
def _shuffle(rng: np.random.Generator, members: np.ndarray) -> None:
    """``rng.shuffle`` of numbers; that of Numba takes seconds to compile, since it turns axes, too."""
    for i in range(len(members) - 1, 0, -1):
        j = np.int64(random_interval(rng.bit_generator, i))
        members[i], members[j] = members[j], members[i]


@inner(error_model="numpy")
def _member(rng: np.random.Generator, labels: np.ndarray, name: int, size: int) -> int:
    """One row of a cluster, all alike."""
    place = rng.integers(0, size)
    for n in range(len(labels)):
        if labels[n] == name:
            if place == 0:
                return n
            place -= 1
    return -1


@inner(error_model="numpy")
def _allocated(
    rng: np.random.Generator,
    rows: np.ndarray,
    members: np.ndarray,
    side: np.ndarray,
    pair: np.ndarray,
    pair_sizes: np.ndarray,
    log_size: np.ndarray,
    law: Law,
    work: np.ndarray,
) -> float:
    """Put members one after the other into one of two clusters, each given those before; the log probability of that.

    A ``side`` of -1 is drawn, others are as given.
    """
    log_p = 0.0
    for m in range(len(members)):
        x = rows[members[m]]
        # Log odds of the second; both may be improbable, but not impossible.
        odds = log_size[pair_sizes[1]] + _gain(pair[1], pair_sizes[1], x, law, -np.inf)
        odds -= log_size[pair_sizes[0]] + _gain(pair[0], pair_sizes[0], x, law, -np.inf)
        if side[m] < 0:
            side[m] = 1 if rng.random() * (1.0 + math.exp(-abs(odds))) < (1.0 if odds > 0 else math.exp(odds)) else 0
        chosen = side[m]
        log_p -= math.log1p(math.exp(-abs(odds)))
        if (chosen == 1) != (odds > 0):
            log_p -= abs(odds)
        _change(pair[chosen], pair_sizes[chosen], x, 1, law, work)
        pair_sizes[chosen] += 1
    return log_p


@inner(error_model="numpy")
def _united(
    labels: np.ndarray, clusters: Clusters, first: int, second: int, whole: np.ndarray, count: int, law: Law
) -> None:
    """Give the rows of the second cluster to the first."""
    state, sizes, names, _ = clusters
    one, two = names[first], names[second]
    for n in range(len(labels)):
        if labels[n] == two:
            labels[n] = one
    _copy(whole, state[first])
    sizes[first] += sizes[second]
    sizes[second] = 0
    _removed(clusters, second, count, law)


@inner(error_model="numpy")
def _split_merge(
    rng: np.random.Generator,
    rows: np.ndarray,
    labels: np.ndarray,
    log_size: np.ndarray,
    opening: np.ndarray,
    discount: float,
    law: Law,
    clusters: Clusters,
    count: int,
    search: bool,
) -> tuple[Clusters, int, bool]:
    """One proposal to split a cluster or to merge two; clusters, their number, and whether it was accepted.

    A split picks one of t clusters and two of its n rows; a merge one of t (t - 1) pairs of clusters and a row of each.
    The two rows are the seeds of two clusters; the other rows are put into one of these one after the other, in random
    order: a sequential allocation. It is the proposal of a split; for a merge its probability is that of the way back.
    A ``search`` leaves out how probable proposals are: what is more probable is accepted, which is no Markov chain of
    the posterior, but leads there from far away.
    """
    state, sizes, names, _ = clusters
    split = rng.random() < (0.5 if search else _SPLITS)
    first = rng.integers(0, count)
    second = first
    if split:
        if sizes[first] < 2:
            return clusters, count, False
    else:
        if count < 2:
            return clusters, count, False
        second = rng.integers(0, count - 1)
        second += second >= first
    fewer = count if split else count - 1
    whole = np.empty(state.shape[1])
    if split:
        n_whole = sizes[first]
        _copy(state[first], whole)
    else:
        n_whole = sizes[first] + sizes[second]
        _merge(state[first], sizes[first], state[second], sizes[second], whole, law)
    # Log density of the two over that of the one, and of the ways of proposing them.
    ratio = opening[fewer] - math.lgamma(n_whole - discount) - math.lgamma(1.0 - discount)
    ratio -= _evidence(whole, n_whole, law)
    if not search:
        ratio += math.log(float(n_whole)) + math.log(n_whole - 1.0) - math.log(fewer + 1.0)
        ratio += math.log((1.0 - _SPLITS) / _SPLITS)
    coin = math.log(rng.random())
    if not split:
        ratio += _evidence(state[first], sizes[first], law) + _evidence(state[second], sizes[second], law)
        ratio += math.lgamma(sizes[first] - discount) + math.lgamma(sizes[second] - discount)
        if not search:
            ratio -= math.log(float(sizes[first])) + math.log(float(sizes[second]))
        # Proposing the way back has probability one at most: most merges are hopeless whatever it is.
        if not coin < -ratio:
            return clusters, count, False
        if search:
            _united(labels, clusters, int(first), int(second), whole, count, law)
            return clusters, count - 1, True
    i = _member(rng, labels, names[first], sizes[first])
    j = i
    while j == i:
        j = _member(rng, labels, names[second], sizes[second])
    members, side = np.empty(n_whole - 2, np.int64), np.full(n_whole - 2, -1)
    one, two, many = names[first], names[second], 0
    for n in range(len(labels)):
        if (labels[n] == one or labels[n] == two) and n != i and n != j:
            members[many] = n
            many += 1
    _shuffle(rng, members)
    pair, pair_sizes, work = np.empty((2, len(whole))), np.ones(2, np.int64), np.empty(rows.shape[1])
    _clear(pair[0], law)
    _clear(pair[1], law)
    _change(pair[0], 0, rows[i], 1, law, work)
    _change(pair[1], 0, rows[j], 1, law, work)
    if not split:
        for m in range(many):
            side[m] = 0 if labels[members[m]] == one else 1
    log_proposal = _allocated(rng, rows, members, side, pair, pair_sizes, log_size, law, work)
    if not search:
        ratio -= log_proposal
    if split:
        ratio += _evidence(pair[0], pair_sizes[0], law) + _evidence(pair[1], pair_sizes[1], law)
        ratio += math.lgamma(pair_sizes[0] - discount) + math.lgamma(pair_sizes[1] - discount)
        if not search:
            ratio -= math.log(float(pair_sizes[0])) + math.log(float(pair_sizes[1]))
        if not coin < ratio:
            return clusters, count, False
        if count + 3 > len(sizes):
            clusters = _grown(clusters, law)
            state, sizes, names, _ = clusters
        for m in range(many):
            if side[m] == 1:
                labels[members[m]] = names[count]
        labels[j] = names[count]
        _copy(pair[0], state[first])
        _copy(pair[1], state[count])
        sizes[first], sizes[count] = pair_sizes[0], pair_sizes[1]
        return clusters, count + 1, True
    if not coin < -ratio:
        return clusters, count, False
    _united(labels, clusters, int(first), int(second), whole, count, law)
    return clusters, count - 1, True


# --------------------------------------------------------------------------------- chains


@inner(error_model="numpy")
def _log_partition(sizes: np.ndarray, count: int, opening: np.ndarray, alpha: float, discount: float) -> float:
    """Log probability of a partition into clusters of these sizes."""
    total, n = 0.0, 0
    for c in range(count):
        total += opening[c] + math.lgamma(sizes[c] - discount) - math.lgamma(1.0 - discount)
        n += sizes[c]
    return total if alpha == 0.0 else total + math.lgamma(alpha) - math.lgamma(alpha + n)


@kernel(error_model="numpy")
def openings(alpha: float, discount: float, n_rows: int) -> np.ndarray:
    """Log weights of a new cluster of a process by the number of clusters, (n_rows + 2,)."""
    out = np.empty(n_rows + 2)
    for c in range(n_rows + 2):
        out[c] = math.log(alpha + discount * c)
    return out


@inner(error_model="numpy")
def _concentration(
    rng: np.random.Generator, alpha: float, discount: float, count: int, n: int, shape: float, rate: float
) -> float:
    """α given the number of clusters, by auxiliary variables: a beta, and for a discount Bernoullis."""
    log_beta = math.log(rng.beta(alpha + 1.0, n - 1.0)) if n > 1 else 0.0
    opened = 0
    for c in range(1, count):
        opened += rng.random() * (alpha + discount * c) < alpha
    return max(rng.gamma(shape + opened, 1.0) / (rate - log_beta), 1e-12)


@kernel(error_model="numpy")
def run_segment(
    rng: np.random.Generator,
    rows: np.ndarray,
    alone: np.ndarray,
    law: Law,
    labels: np.ndarray,
    alpha: float,
    prior: tuple[float, float],
    opening: np.ndarray,
    discount: float,
    n_draws: int,
    moves: tuple[int, int],
    keep: np.ndarray,
    search: np.ndarray,
) -> tuple[float, np.ndarray, np.ndarray]:
    """Go on with a chain.

    Parameters
    ----------
    labels : ndarray (N,) of int
        Where the chain is; changed.
    alpha : float
        The concentration of a process; 0 for other priors of partitions.
    prior : (float, float)
        Shape and rate of α's; a shape of zero keeps α as it is.
    opening : ndarray (N + 2,)
        Log weights of a new cluster by the number of clusters, for the α given.
    moves : (int, int)
        Of each draw: Gibbs sweeps, and split-merge proposals after each.
    keep : ndarray (n_draws,) of bool
        Which partitions to keep.
    search : ndarray (n_draws,) of bool
        In which draws proposals to split and merge are searches: see `_split_merge`.

    Returns
    -------
    alpha : float
    records : ndarray (n_draws, 7)
        Number of clusters, entropy of their shares, largest share, log joint density, α, share of rows that moved in
        the last sweep, share of split-merge proposals that were accepted.
    kept : ndarray (kept, N) of int32
        Clusters in the order in which they first appear.
    """
    n_sweeps, n_proposals = moves
    n_rows, planar = len(rows), law[3] and law[0][0, 2] <= 2
    records, kept, number = np.empty((n_draws, 7)), np.empty((keep.sum(), n_rows), np.int32), 0
    log_size = np.zeros(n_rows + 1)
    for n in range(1, n_rows + 1):
        log_size[n] = math.log(n - discount)
    for draw in range(n_draws):
        accepted, moved = 0, 0
        for _ in range(max(n_sweeps, 1)):
            count = _named(labels)
            clusters = _gathered(rows, labels, count, law)
            if n_sweeps:
                given = (rng, rows, labels, alone, log_size, opening, law, clusters, count)
                clusters, count, moved = _sweep_plane(*given) if planar else _sweep(*given)
            for _proposal in range(n_proposals * (2 if search[draw] else 1) if n_rows > 1 else 0):
                clusters, count, good = _split_merge(
                    rng, rows, labels, log_size, opening, discount, law, clusters, count, search[draw]
                )
                accepted += good
            if prior[0] > 0.0:
                alpha = _concentration(rng, alpha, discount, count, n_rows, prior[0], prior[1])
                opening = openings(alpha, discount, n_rows)
        state, sizes, _, _ = clusters
        joint, entropy, largest = _log_partition(sizes, count, opening, alpha, discount), 0.0, 0.0
        for c in range(count):
            share = sizes[c] / n_rows
            joint += _evidence(state[c], sizes[c], law)
            entropy -= share * math.log(share)
            largest = max(largest, share)
        if prior[0] > 0.0:
            joint += (prior[0] - 1.0) * math.log(alpha) - prior[1] * alpha
        records[draw, 0], records[draw, 1], records[draw, 2], records[draw, 3], records[draw, 4] = (
            count,
            entropy,
            largest,
            joint,
            alpha,
        )
        records[draw, 5] = moved / n_rows
        records[draw, 6] = accepted / max(1, n_proposals * max(n_sweeps, 1))
        _named(labels)
        if keep[draw]:
            _copy(labels, kept[number])
            number += 1
    return alpha, records, kept


@kernel(error_model="numpy")
def partition_evidence(rows: np.ndarray, labels: np.ndarray, law: Law) -> float:
    """Log density of rows given their partition."""
    labels = labels.copy()
    count = _named(labels)
    state, sizes, _, _ = _gathered(rows, labels, count, law)
    total = 0.0
    for c in range(count):
        total += _evidence(state[c], sizes[c], law)
    return total


@kernel(error_model="numpy")
def seat(
    rng: np.random.Generator,
    rows: np.ndarray,
    labels: np.ndarray,
    alone: np.ndarray,
    opening: np.ndarray,
    discount: float,
    law: Law,
) -> np.ndarray:
    """Labels of all rows: those of the first are known, the others are drawn one after the other given those before."""
    n_rows, before = len(rows), len(labels)
    out = np.empty(n_rows, np.int64)
    out[:before] = labels
    count = _named(out[:before]) if before else 0
    clusters = _gathered(rows[:before], out[:before], count, law)
    state, sizes, _, _ = clusters
    logs, work = np.empty(len(sizes) + 1), np.empty(rows.shape[1])
    for n in range(before, n_rows):
        for c in range(count):
            logs[c] = math.log(sizes[c] - discount) + _gain(state[c], sizes[c], rows[n], law, -np.inf)
        logs[count] = opening[count] + alone[n]
        chosen = _pick(rng, logs, count + 1)
        if chosen == count:
            if count + 3 > len(sizes):
                clusters = _grown(clusters, law)
                state, sizes, _, _ = clusters
                logs = np.empty(len(sizes) + 1)
            count += 1
        _change(state[chosen], sizes[chosen], rows[n], 1, law, work)
        sizes[chosen] += 1
        out[n] = chosen
    return out


@kernel(error_model="numpy")
def predict_rows(
    rows: np.ndarray,
    labels: np.ndarray,
    new: np.ndarray,
    alone: np.ndarray,
    alpha: float,
    discount: float,
    law: Law,
) -> tuple[np.ndarray, np.ndarray]:
    """Of new rows, each on its own, given one partition of the rows.

    Returns
    -------
    log_density : ndarray (M,)
    probability : ndarray (M, clusters + 1)
        Of joining each cluster, in the order in which they first appear; last of a new one.
    """
    labels = labels.astype(np.int64)
    count = _named(labels)
    state, sizes, _, _ = _gathered(rows, labels, count, law)
    density, probability = np.empty(len(new)), np.empty((len(new), count + 1))
    for m in range(len(new)):
        logs = probability[m]
        for c in range(count):
            logs[c] = math.log(sizes[c] - discount) + _gain(state[c], sizes[c], new[m], law, -np.inf)
        logs[count] = math.log(alpha + discount * count) + alone[m]
        top = logs.max()
        if top == -np.inf:
            # Too far off for a double; nothing is as wide as the prior.
            logs[:count], logs[count], density[m] = 0.0, 1.0, -np.inf
            continue
        total = 0.0
        for c in range(count + 1):
            logs[c] = math.exp(logs[c] - top)
            total += logs[c]
        for c in range(count + 1):
            logs[c] /= total
        density[m] = top + math.log(total) - math.log(len(rows) + alpha)
    return density, probability


@kernel(error_model="numpy")
def leave_one_out(
    rows: np.ndarray, labels: np.ndarray, alone: np.ndarray, alpha: float, discount: float, law: Law
) -> np.ndarray:
    """Log density of each row given all others and their partition, (N,)."""
    labels = labels.astype(np.int64)
    count = _named(labels)
    state, sizes, _, _ = _gathered(rows, labels, count, law)
    out, logs = np.empty(len(rows)), np.empty(count + 1)
    for n in range(len(rows)):
        current, others = labels[n], count
        for c in range(count):
            if c != current:
                logs[c] = math.log(sizes[c] - discount) + _gain(state[c], sizes[c], rows[n], law, -np.inf)
            elif sizes[c] == 1:
                logs[c] = -np.inf
                others -= 1
            else:
                logs[c] = math.log(sizes[c] - 1.0 - discount) + _given_others(state[c], sizes[c], rows[n], law)
        logs[count] = (math.log(alpha + discount * others) if others else math.log(alpha)) + alone[n]
        top = logs.max()
        total = 0.0
        for c in range(count + 1):
            total += math.exp(logs[c] - top)
        out[n] = top + math.log(total) - math.log(len(rows) - 1.0 + alpha)
    return out
