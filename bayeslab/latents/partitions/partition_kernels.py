"""Compiled sweeps of the sampler over the number of components.

An item is a vector of sufficient statistics, a cluster their sum, and `_log_marginal` the log evidence of
a cluster from that sum, up to what does not depend on the partition. The statistics are those of blocks of columns:

====  ==========================  ====================================  ===================================
code  block                       statistics                            hyperparameters
====  ==========================  ====================================  ===================================
0     normal, full covariance     n, Σ x (d), lower triangle of Σ x x'  d, κ, ν, m (d), triangle of Ψ + κ m m',
                                                                        log normaliser
1     normal, one column          n, Σ x, Σ x²                          κ, ν, m, ψ + κ m²
2     categorical, one column     counts (L)                            L, concentrations (L)
3     beta                        successes, failures                   a, b
4     gamma                       Σ won, Σ base                         a, b
5     normal, known precision Q   n, Σ x (d)                            d, κ, m (d), Q (d · d)
====  ==========================  ====================================  ===================================

``blocks`` has one row (code, where its statistics start, where its hyperparameters start) a block.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from bayeslab.constants import LOG_PI

__all__ = ["draw_partition", "log_marginal", "prepared"]


# What a cluster's evidence is made of: blocks, hyperparameters, the terms that depend on counts only (`_tables`), and
# room to work in.
type Law = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@numba.njit(cache=True, error_model="numpy", nogil=True)
def _tables(blocks: np.ndarray, hyper: np.ndarray, n_items: int) -> np.ndarray:
    """Terms of normal blocks by the number of rows, (blocks, N + 1): gamma functions are dear."""
    out = np.zeros((len(blocks), n_items + 1))
    for block in range(len(blocks)):
        code, _, b = blocks[block]
        for n in range(n_items + 1):
            if code == 0:
                d = int(hyper[b])
                value = -0.5 * d * math.log1p(n / hyper[b + 1]) - hyper[b + 3 + d + d * (d + 1) // 2]
                for i in range(d):
                    value += math.lgamma(0.5 * (hyper[b + 2] + n - i))
                # Σ has det Ψ^(ν/2) / 2^(ν d/2) in its normaliser; with (2π)^(-n d/2) only π^(-n d/2) stays.
                out[block, n] = value - 0.5 * d * n * LOG_PI
            elif code == 1:
                kappa, nu = hyper[b], hyper[b + 1]
                psi = hyper[b + 3] - kappa * hyper[b + 2] ** 2
                value = -0.5 * math.log1p(n / kappa) + math.lgamma(0.5 * (nu + n)) - math.lgamma(0.5 * nu)
                out[block, n] = value + 0.5 * nu * math.log(psi) - 0.5 * n * LOG_PI
    return out


@numba.njit(cache=True, error_model="numpy", nogil=True)
def _full_normal(
    s: np.ndarray,
    item: np.ndarray,
    sign: float,
    a: int,
    b: int,
    h: np.ndarray,
    work: np.ndarray,
) -> float:
    """Minus half of ν log det Ψ after the rows."""
    d = int(h[b])
    kappa = h[b + 1] + s[a] + sign * item[a]
    log_det, product = 0.0, 1.0
    at, row = 0, 0
    for i in range(d):
        # The centre in the last row of the work space, a triangle's rows before it.
        work[d * d + i] = h[b + 1] * h[b + 3 + i] + s[a + 1 + i] + sign * item[a + 1 + i]
        for j in range(i + 1):
            value = h[b + 3 + d + at] + s[a + 1 + d + at] + sign * item[a + 1 + d + at]
            value -= work[d * d + i] * work[d * d + j] / kappa
            for c in range(j):
                value -= work[row + c] * work[j * d + c]
            if i == j:
                work[row + i] = math.sqrt(value)
                product *= value
                if not 1e-100 < product < 1e100:
                    log_det += math.log(product)
                    product = 1.0
            else:
                work[row + j] = value / work[j * d + j]
            at += 1
        row += d
    return -0.5 * (h[b + 2] + s[a] + sign * item[a]) * (log_det + math.log(product))


@numba.njit(cache=True, error_model="numpy", nogil=True)
def log_marginal(s: np.ndarray, item: np.ndarray, sign: float, law: Law) -> float:
    """Log evidence of a cluster whose summed statistics are ``s`` + ``sign`` · ``item``."""
    blocks, hyper, tables, work = law
    total = 0.0
    for block in range(len(blocks)):
        code, a, b = blocks[block]
        if code == 0:
            total += tables[block, int(s[a] + sign * item[a] + 0.5)]
            total += _full_normal(s, item, sign, a, b, hyper, work)
        elif code == 1:
            n = s[a] + sign * item[a]
            centre = hyper[b] * hyper[b + 2] + s[a + 1] + sign * item[a + 1]
            scale = hyper[b + 3] + s[a + 2] + sign * item[a + 2] - centre * centre / (hyper[b] + n)
            total += tables[block, int(n + 0.5)] - 0.5 * (hyper[b + 1] + n) * math.log(scale)
        elif code == 2:
            levels = int(hyper[b])
            before, after = 0.0, 0.0
            for level in range(levels):
                prior = hyper[b + 1 + level]
                count = s[a + level] + sign * item[a + level]
                before += prior
                after += prior + count
                total += math.lgamma(prior + count) - math.lgamma(prior)
            total += math.lgamma(before) - math.lgamma(after)
        elif code == 3:
            won, lost = hyper[b] + s[a] + sign * item[a], hyper[b + 1] + s[a + 1] + sign * item[a + 1]
            total += math.lgamma(won) + math.lgamma(lost) - math.lgamma(won + lost)
            total -= math.lgamma(hyper[b]) + math.lgamma(hyper[b + 1]) - math.lgamma(hyper[b] + hyper[b + 1])
        elif code == 4:
            won, base = hyper[b] + s[a] + sign * item[a], hyper[b + 1] + s[a + 1] + sign * item[a + 1]
            total += math.lgamma(won) - won * math.log(base)
            total -= math.lgamma(hyper[b]) - hyper[b] * math.log(hyper[b + 1])
        else:
            d, kappa = int(hyper[b]), hyper[b + 1]
            after = kappa + s[a] + sign * item[a]
            total += 0.5 * d * math.log(kappa / after)
            # Quadratic terms in x alone do not depend on the partition.
            for i in range(d):
                one = kappa * hyper[b + 2 + i] + s[a + 1 + i] + sign * item[a + 1 + i]
                for j in range(d):
                    two = kappa * hyper[b + 2 + j] + s[a + 1 + j] + sign * item[a + 1 + j]
                    prior = kappa * hyper[b + 2 + i] * hyper[b + 2 + j]
                    total += 0.5 * hyper[b + 2 + d + i * d + j] * (one * two / after - prior)
    return total


@numba.njit(cache=True, error_model="numpy", nogil=True)
def _pick(rng: np.random.Generator, logs: np.ndarray, count: int) -> tuple[int, float]:
    """One of the first ``count`` with probability ∝ exp(logs), and the log of its probability."""
    top = logs[0]
    for k in range(1, count):
        top = max(top, logs[k])
    total = 0.0
    for k in range(count):
        total += math.exp(logs[k] - top)
    point = rng.random() * total
    chosen = count - 1
    for k in range(count):
        point -= math.exp(logs[k] - top)
        if point < 0.0:
            chosen = k
            break
    return chosen, logs[chosen] - top - math.log(total)


@numba.njit(cache=True, error_model="numpy", nogil=True)
def _gibbs_sweep(
    rng: np.random.Generator,
    labels: np.ndarray,
    sizes: np.ndarray,
    sums: np.ndarray,
    values: np.ndarray,
    n_clusters: int,
    items: np.ndarray,
    alone: np.ndarray,
    law: Law,
    gamma: float,
    log_v: np.ndarray,
) -> int:
    """Reassign each item in turn given all others; the number of clusters."""
    n_items = len(items)
    logs, joined = np.empty(n_items + 1), np.empty(n_items + 1)
    for n in range(n_items):
        k = labels[n]
        sizes[k] -= 1
        sums[k] -= items[n]
        if sizes[k] == 0:
            n_clusters -= 1
            last = n_clusters
            if k != last:
                sizes[k] = sizes[last]
                sums[k] = sums[last]
                values[k] = values[last]
                for m in range(n_items):
                    if labels[m] == last:
                        labels[m] = k
        else:
            values[k] = log_marginal(sums[k], sums[k], 0.0, law)
        for c in range(n_clusters):
            joined[c] = log_marginal(sums[c], items[n], 1.0, law)
            logs[c] = math.log(sizes[c] + gamma) + joined[c] - values[c]
        joined[n_clusters] = alone[n]
        logs[n_clusters] = log_v[n_clusters + 1] - log_v[n_clusters] + math.log(gamma) + joined[n_clusters]
        chosen, _ = _pick(rng, logs, n_clusters + 1)
        if chosen == n_clusters:
            sizes[chosen] = 0
            sums[chosen] = 0.0
            n_clusters += 1
        labels[n] = chosen
        sizes[chosen] += 1
        sums[chosen] += items[n]
        values[chosen] = joined[chosen]
    return n_clusters


@numba.njit(cache=True, error_model="numpy", nogil=True)
def _allocated(
    rng: np.random.Generator,
    members: np.ndarray,
    count: int,
    wanted: np.ndarray,
    side: np.ndarray,
    pair: np.ndarray,
    pair_sizes: np.ndarray,
    pair_values: np.ndarray,
    items: np.ndarray,
    law: Law,
    gamma: float,
) -> float:
    """Put members one after the other into one of two clusters that hold an item each; the log probability.

    ``wanted`` forces sides (0, 1); -1 draws them.
    """
    logs, joined = np.empty(2), np.empty(2)
    log_proposal = 0.0
    for m in range(count):
        n = members[m]
        for c in range(2):
            joined[c] = log_marginal(pair[c], items[n], 1.0, law)
            logs[c] = math.log(pair_sizes[c] + gamma) + joined[c] - pair_values[c]
        chosen = wanted[m]
        if chosen < 0:
            chosen, log_p = _pick(rng, logs, 2)
        else:
            top = max(logs[0], logs[1])
            log_p = logs[chosen] - top - math.log(math.exp(logs[0] - top) + math.exp(logs[1] - top))
        log_proposal += log_p
        side[m] = chosen
        pair[chosen] += items[n]
        pair_sizes[chosen] += 1.0
        pair_values[chosen] = joined[chosen]
    return log_proposal


@numba.njit(cache=True, error_model="numpy", nogil=True)
def _member(rng: np.random.Generator, labels: np.ndarray, cluster: int, size: int) -> int:
    """One item of a cluster, all alike."""
    place = rng.integers(0, size)
    for n in range(len(labels)):
        if labels[n] == cluster:
            if place == 0:
                return n
            place -= 1
    return -1


@numba.njit(cache=True, error_model="numpy", nogil=True)
def _split_merge(
    rng: np.random.Generator,
    labels: np.ndarray,
    sizes: np.ndarray,
    sums: np.ndarray,
    values: np.ndarray,
    n_clusters: int,
    items: np.ndarray,
    law: Law,
    gamma: float,
    log_v: np.ndarray,
) -> tuple[int, bool]:
    """One merge-split proposal: the number of clusters, and whether it was accepted.

    A split picks one of t clusters and two of its n items, which begin a cluster each; a merge picks two clusters in
    one of t (t - 1) orders and an item of each, where a split would have begun.
    """
    n_items, width = items.shape
    split = rng.random() < 0.5
    if split:
        first = rng.integers(0, n_clusters)
        second = first
        if sizes[first] < 2:
            return n_clusters, False
        i = _member(rng, labels, int(first), sizes[first])
        j = i
        while j == i:
            j = _member(rng, labels, int(first), sizes[first])
    else:
        if n_clusters < 2:
            return n_clusters, False
        first = rng.integers(0, n_clusters)
        second = rng.integers(0, n_clusters - 1)
        second += second >= first
        i = _member(rng, labels, int(first), sizes[first])
        j = _member(rng, labels, int(second), sizes[second])
    fewer = n_clusters if split else n_clusters - 1
    n_whole = sizes[first] + (0 if split else sizes[second])
    whole = sums[first].copy()
    if not split:
        whole += sums[second]
    whole_value = values[first] if split else log_marginal(whole, whole, 0.0, law)
    # Log of the split state's density over the merged one's, and of the ways of proposing them; less what depends on
    # the two parts.
    ratio = log_v[fewer + 1] - log_v[fewer] - whole_value - math.lgamma(gamma + n_whole) - math.lgamma(gamma)
    ratio += math.log(n_whole * (n_whole - 1.0)) - math.log(fewer + 1.0)
    coin = math.log(rng.random())
    if not split:
        ratio += values[first] + values[second]
        ratio += math.lgamma(gamma + sizes[first]) + math.lgamma(gamma + sizes[second])
        ratio -= math.log(float(sizes[first]) * float(sizes[second]))
        # Proposing the way back has probability one at most: most merges are hopeless whatever it is.
        if not coin < -ratio:
            return n_clusters, False
    members = np.empty(n_whole, np.int64)
    count = 0
    for n in range(n_items):
        if n != i and n != j and (labels[n] == first or labels[n] == second):
            members[count] = n
            count += 1
    rng.shuffle(members[:count])
    wanted = np.full(count, -1)
    if not split:
        # The way back of a merge: what would have led to the clusters as they are.
        for m in range(count):
            wanted[m] = 0 if labels[members[m]] == first else 1
    pair, pair_sizes, pair_values = np.empty((2, width)), np.ones(2), np.empty(2)
    pair[0], pair[1] = items[i], items[j]
    pair_values[0] = log_marginal(pair[0], pair[0], 0.0, law)
    pair_values[1] = log_marginal(pair[1], pair[1], 0.0, law)
    side = np.empty(count, np.int64)
    log_proposal = _allocated(rng, members, count, wanted, side, pair, pair_sizes, pair_values, items, law, gamma)
    ratio -= log_proposal
    if split:
        ratio += pair_values[0] + pair_values[1]
        ratio += math.lgamma(gamma + pair_sizes[0]) + math.lgamma(gamma + pair_sizes[1])
        ratio -= math.log(pair_sizes[0] * pair_sizes[1])
        if not coin < ratio:
            return n_clusters, False
        for m in range(count):
            if side[m] == 1:
                labels[members[m]] = n_clusters
        labels[j] = n_clusters
        for c in range(2):
            k = first if c == 0 else n_clusters
            sizes[k], sums[k], values[k] = int(pair_sizes[c]), pair[c], pair_values[c]
        return n_clusters + 1, True
    if not coin < -ratio:
        return n_clusters, False
    last = n_clusters - 1
    for n in range(n_items):
        if labels[n] == second:
            labels[n] = first
    sizes[first], sums[first], values[first] = n_whole, whole, whole_value
    if second != last:
        sizes[second], sums[second], values[second] = sizes[last], sums[last], values[last]
        for n in range(n_items):
            if labels[n] == last:
                labels[n] = second
    return n_clusters - 1, True


@numba.njit(cache=True, error_model="numpy", nogil=True)
def prepared(items: np.ndarray, blocks: np.ndarray, hyper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Terms by the number of rows, see :func:`_tables`, and the log evidence of each item alone, (N,)."""
    n_items, width = items.shape
    tables, alone = _tables(blocks, hyper, n_items), np.empty(n_items)
    law = (blocks, hyper, tables, np.empty(width * (width + 1)))
    for n in range(n_items):
        alone[n] = log_marginal(items[n], items[n], 0.0, law)
    return tables, alone


@numba.njit(cache=True, error_model="numpy", nogil=True)
def draw_partition(
    start: np.ndarray,
    items: np.ndarray,
    blocks: np.ndarray,
    hyper: np.ndarray,
    tables: np.ndarray,
    alone: np.ndarray,
    gamma: float,
    log_v: np.ndarray,
    n_proposals: int,
    n_sweeps: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, int, float, float]:
    """The next partition.

    Parameters
    ----------
    start : ndarray (N,)
        Labels 0, 1, …, each of which some row has.
    tables, alone
        Of :func:`prepared`.
    log_v : ndarray (N + 2,)
        Log of Miller and Harrison's V_n(t), by number of clusters t.
    n_proposals : int
        Merge-split proposals after each Gibbs sweep.
    n_sweeps : int
        Gibbs sweeps a draw.

    Returns
    -------
    labels : ndarray (N,)
    n_clusters : int
    log_density : float
        Of the partition, up to a constant.
    accepted : float
        Share of merge-split proposals.
    """
    n_items, width = items.shape
    labels = start.copy()
    sizes, sums, values = np.zeros(n_items + 1, np.int64), np.zeros((n_items + 1, width)), np.zeros(n_items + 1)
    law = (blocks, hyper, tables, np.empty(width * (width + 1)))
    n_clusters, accepted = labels.max() + 1, 0
    for _ in range(n_sweeps):
        # Sums afresh each time: taking out and putting in would let rounding pile up.
        sizes[:] = 0
        sums[:] = 0.0
        for n in range(n_items):
            sizes[labels[n]] += 1
            sums[labels[n]] += items[n]
        for k in range(n_clusters):
            values[k] = log_marginal(sums[k], sums[k], 0.0, law)
        n_clusters = _gibbs_sweep(rng, labels, sizes, sums, values, n_clusters, items, alone, law, gamma, log_v)
        for _ in range(n_proposals if n_items > 1 else 0):
            n_clusters, good = _split_merge(rng, labels, sizes, sums, values, n_clusters, items, law, gamma, log_v)
            accepted += good
    density = log_v[n_clusters]
    for k in range(n_clusters):
        density += values[k] + math.lgamma(gamma + sizes[k]) - math.lgamma(gamma)
    return labels, n_clusters, density, accepted / max(1, n_proposals * n_sweeps)
