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

__all__ = ["log_marginal", "run_chain"]


@numba.njit(cache=True, error_model="numpy")
def _full_normal(s: np.ndarray, h: np.ndarray) -> float:
    d = int(h[0])
    kappa, nu = h[1] + s[0], h[2] + s[0]
    matrix, centre = np.empty((d, d)), np.empty(d)
    for i in range(d):
        centre[i] = h[1] * h[3 + i] + s[1 + i]
    at = 0
    half = 0.0
    for i in range(d):
        for j in range(i + 1):
            value = h[3 + d + at] + s[1 + d + at] - centre[i] * centre[j] / kappa
            for c in range(j):
                value -= matrix[i, c] * matrix[j, c]
            if i == j:
                matrix[i, i] = math.sqrt(value)
                half += math.log(matrix[i, i])
            else:
                matrix[i, j] = value / matrix[j, j]
            at += 1
    out = -0.5 * d * math.log(kappa / h[1]) - nu * half - h[3 + d + at]
    for i in range(d):
        out += math.lgamma(0.5 * (nu - i))
    # Σ has det Ψ^(ν/2) / 2^(ν d/2) in its normaliser; with (2π)^(-n d/2) only π^(-n d/2) stays.
    return out - 0.5 * d * s[0] * math.log(math.pi)


@numba.njit(cache=True, error_model="numpy")
def log_marginal(s: np.ndarray, blocks: np.ndarray, hyper: np.ndarray) -> float:
    """Log evidence of a cluster with summed statistics ``s``."""
    total = 0.0
    for block in range(len(blocks)):
        code, a, b = blocks[block]
        if code == 0:
            total += _full_normal(s[a:], hyper[b:])
        elif code == 1:
            kappa, nu = hyper[b], hyper[b + 1]
            psi = hyper[b + 3] - kappa * hyper[b + 2] ** 2
            after = kappa + s[a]
            centre = kappa * hyper[b + 2] + s[a + 1]
            scale = hyper[b + 3] + s[a + 2] - centre * centre / after
            more = nu + s[a]
            total += 0.5 * math.log(kappa / after) + math.lgamma(0.5 * more) - math.lgamma(0.5 * nu)
            total += 0.5 * nu * math.log(psi) - 0.5 * more * math.log(scale) - 0.5 * s[a] * math.log(math.pi)
        elif code == 2:
            levels = int(hyper[b])
            before, after = 0.0, 0.0
            for level in range(levels):
                prior = hyper[b + 1 + level]
                before += prior
                after += prior + s[a + level]
                total += math.lgamma(prior + s[a + level]) - math.lgamma(prior)
            total += math.lgamma(before) - math.lgamma(after)
        elif code == 3:
            won, lost = hyper[b] + s[a], hyper[b + 1] + s[a + 1]
            total += math.lgamma(won) + math.lgamma(lost) - math.lgamma(won + lost)
            total -= math.lgamma(hyper[b]) + math.lgamma(hyper[b + 1]) - math.lgamma(hyper[b] + hyper[b + 1])
        elif code == 4:
            won, base = hyper[b] + s[a], hyper[b + 1] + s[a + 1]
            total += math.lgamma(won) - won * math.log(base)
            total -= math.lgamma(hyper[b]) - hyper[b] * math.log(hyper[b + 1])
        else:
            d, kappa = int(hyper[b]), hyper[b + 1]
            after = kappa + s[a]
            total += 0.5 * d * math.log(kappa / after)
            # Quadratic terms in x alone do not depend on the partition.
            for i in range(d):
                one = kappa * hyper[b + 2 + i] + s[a + 1 + i]
                for j in range(d):
                    two = kappa * hyper[b + 2 + j] + s[a + 1 + j]
                    prior = kappa * hyper[b + 2 + i] * hyper[b + 2 + j]
                    total += 0.5 * hyper[b + 2 + d + i * d + j] * (one * two / after - prior)
    return total


@numba.njit(cache=True, error_model="numpy")
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


@numba.njit(cache=True, error_model="numpy")
def _gibbs_sweep(
    rng: np.random.Generator,
    labels: np.ndarray,
    sizes: np.ndarray,
    sums: np.ndarray,
    values: np.ndarray,
    n_clusters: int,
    items: np.ndarray,
    blocks: np.ndarray,
    hyper: np.ndarray,
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
            values[k] = log_marginal(sums[k], blocks, hyper)
        for c in range(n_clusters):
            joined[c] = log_marginal(sums[c] + items[n], blocks, hyper)
            logs[c] = math.log(sizes[c] + gamma) + joined[c] - values[c]
        joined[n_clusters] = log_marginal(items[n], blocks, hyper)
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


@numba.njit(cache=True, error_model="numpy")
def _split_merge(
    rng: np.random.Generator,
    labels: np.ndarray,
    sizes: np.ndarray,
    sums: np.ndarray,
    values: np.ndarray,
    n_clusters: int,
    items: np.ndarray,
    blocks: np.ndarray,
    hyper: np.ndarray,
    gamma: float,
    log_v: np.ndarray,
) -> tuple[int, bool]:
    """One sequentially allocated merge-split proposal: the number of clusters, and whether it was accepted."""
    n_items, width = items.shape
    i = rng.integers(0, n_items)
    j = rng.integers(0, n_items - 1)
    j += j >= i
    first, second = labels[i], labels[j]
    split = first == second
    members = np.empty(sizes[first] + (0 if split else sizes[second]), np.int64)
    count = 0
    for n in range(n_items):
        if n != i and n != j and (labels[n] == first or labels[n] == second):
            members[count] = n
            count += 1
    rng.shuffle(members[:count])
    pair, pair_sizes, pair_values = np.empty((2, width)), np.ones(2), np.empty(2)
    pair[0], pair[1] = items[i], items[j]
    pair_values[0] = log_marginal(pair[0], blocks, hyper)
    pair_values[1] = log_marginal(pair[1], blocks, hyper)
    side = np.empty(count, np.int64)
    logs, joined = np.empty(2), np.empty(2)
    log_proposal = 0.0
    for m in range(count):
        n = members[m]
        for c in range(2):
            joined[c] = log_marginal(pair[c] + items[n], blocks, hyper)
            logs[c] = math.log(pair_sizes[c] + gamma) + joined[c] - pair_values[c]
        if split:
            chosen, log_p = _pick(rng, logs, 2)
        else:
            # The way back of a merge: what would have led to the clusters as they are.
            chosen = 0 if labels[n] == first else 1
            top = max(logs[0], logs[1])
            log_p = logs[chosen] - top - math.log(math.exp(logs[0] - top) + math.exp(logs[1] - top))
        log_proposal += log_p
        side[m] = chosen
        pair[chosen] += items[n]
        pair_sizes[chosen] += 1.0
        pair_values[chosen] = joined[chosen]
    whole = pair[0] + pair[1]
    whole_value = log_marginal(whole, blocks, hyper)
    n_whole = pair_sizes[0] + pair_sizes[1]
    # Log of the split state's density over the merged one's.
    ratio = pair_values[0] + pair_values[1] - whole_value
    ratio += math.lgamma(gamma + pair_sizes[0]) + math.lgamma(gamma + pair_sizes[1])
    ratio -= math.lgamma(gamma + n_whole) + math.lgamma(gamma)
    if split:
        ratio += log_v[n_clusters + 1] - log_v[n_clusters] - log_proposal
        if not math.log(rng.random()) < ratio:
            return n_clusters, False
        for m in range(count):
            if side[m] == 1:
                labels[members[m]] = n_clusters
        labels[j] = n_clusters
        for c in range(2):
            k = first if c == 0 else n_clusters
            sizes[k], sums[k], values[k] = int(pair_sizes[c]), pair[c], pair_values[c]
        return n_clusters + 1, True
    ratio += log_v[n_clusters] - log_v[n_clusters - 1] - log_proposal
    if not math.log(rng.random()) < -ratio:
        return n_clusters, False
    last = n_clusters - 1
    for n in range(n_items):
        if labels[n] == second:
            labels[n] = first
    sizes[first], sums[first], values[first] = int(n_whole), whole, whole_value
    if second != last:
        sizes[second], sums[second], values[second] = sizes[last], sums[last], values[last]
        for n in range(n_items):
            if labels[n] == last:
                labels[n] = second
    return n_clusters - 1, True


@numba.njit(cache=True, error_model="numpy")
def run_chain(
    start: np.ndarray,
    items: np.ndarray,
    blocks: np.ndarray,
    hyper: np.ndarray,
    gamma: float,
    log_v: np.ndarray,
    n_tune: int,
    n_draws: int,
    n_proposals: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Draws of partitions.

    Parameters
    ----------
    log_v : ndarray (N + 2,)
        Log of Miller and Harrison's V_n(t), by number of clusters t.
    n_proposals : int
        Merge-split proposals after each Gibbs sweep.

    Returns
    -------
    labels : ndarray (n_draws, N)
    n_clusters : ndarray (n_draws,)
    log_densities : ndarray (n_draws,)
        Of the partitions, up to a constant.
    accepted : float
        Share of merge-split proposals.
    """
    n_items, width = items.shape
    labels = start.copy()
    sizes, sums, values = np.zeros(n_items + 1, np.int64), np.zeros((n_items + 1, width)), np.zeros(n_items + 1)
    draws, counts = np.empty((n_draws, n_items), np.int64), np.empty(n_draws, np.int64)
    densities = np.empty(n_draws)
    n_clusters, accepted = labels.max() + 1, 0
    for sweep in range(n_tune + n_draws):
        # Sums afresh each time: taking out and putting in would let rounding pile up.
        sizes[:] = 0
        sums[:] = 0.0
        for n in range(n_items):
            sizes[labels[n]] += 1
            sums[labels[n]] += items[n]
        for k in range(n_clusters):
            values[k] = log_marginal(sums[k], blocks, hyper)
        n_clusters = _gibbs_sweep(rng, labels, sizes, sums, values, n_clusters, items, blocks, hyper, gamma, log_v)
        for _ in range(n_proposals if n_items > 1 else 0):
            n_clusters, good = _split_merge(
                rng, labels, sizes, sums, values, n_clusters, items, blocks, hyper, gamma, log_v
            )
            accepted += good
        if sweep >= n_tune:
            draws[sweep - n_tune] = labels
            counts[sweep - n_tune] = n_clusters
            value = log_v[n_clusters]
            for k in range(n_clusters):
                value += values[k] + math.lgamma(gamma + sizes[k]) - math.lgamma(gamma)
            densities[sweep - n_tune] = value
    return draws, counts, densities, accepted / max(1, n_proposals * (n_tune + n_draws))
