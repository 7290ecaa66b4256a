"""Hidden Markov chains by enumeration of all paths, the slow and obvious way."""

from __future__ import annotations

from itertools import product

import numpy as np

from bayeslab.latents.chains.forward_backward import Edges, HiddenChain


def enumerate_paths(chain, log_emission, offsets, s):
    """All paths of sequence s and log p(path, data) of each."""
    begin, end = offsets[s], offsets[s + 1]
    start = chain.starts[s if len(chain.starts) > 1 else 0]
    paths = np.array(list(product(range(chain.n_states), repeat=end - begin)), int)
    paths = paths.reshape(chain.n_states ** (end - begin), end - begin)
    scores = np.zeros(len(paths))
    for number, path in enumerate(paths):
        for t, state in enumerate(path):
            row = begin + t
            step = chain.log_transition[row] if chain.varying else chain.log_transition
            if chain.edges is not None:
                step = chain.edges.dense(step, -np.inf)
            scores[number] += start[state] if t == 0 else step[path[t - 1], state]
            scores[number] += log_emission[row, state]
    return paths, scores


def truth(chain, log_emission, offsets):
    """Evidence, posteriors, pairs, start and transition counts (dense), by summing over paths.

    Rows of impossible sequences are NaN, and count nothing.
    """
    n_rows, n_states = log_emission.shape
    out = {
        "log_evidence": np.empty(len(offsets) - 1),
        "posterior": np.full((n_rows, n_states), np.nan),
        "pairs": np.zeros((n_rows, n_states, n_states)),
        "starts": np.zeros((len(offsets) - 1, n_states)),
    }
    for s in range(len(offsets) - 1):
        paths, scores = enumerate_paths(chain, log_emission, offsets, s)
        peak = scores.max()
        if peak == -np.inf:
            out["log_evidence"][s] = -np.inf
            continue
        weights = np.exp(scores - peak)
        out["log_evidence"][s] = peak + np.log(weights.sum())
        weights /= weights.sum()
        for t in range(offsets[s + 1] - offsets[s]):
            row = offsets[s] + t
            out["posterior"][row] = np.bincount(paths[:, t], weights, n_states)
            if t:
                np.add.at(out["pairs"][row], (paths[:, t - 1], paths[:, t]), weights)
            else:
                out["starts"][s] = out["posterior"][row]
    return out


def random_rows(rng, n, alpha, zeros):
    """Rows that sum to one, some entries zero."""
    out = rng.dirichlet(np.full(alpha, 0.7), n) * (rng.random((n, alpha)) > zeros)
    empty = out.sum(1) == 0
    out[empty, rng.integers(alpha, size=empty.sum())] = 1
    return out / out.sum(1, keepdims=True)


def random_case(rng):
    """A chain of up to 3 states, ragged sequences of up to 6 rows: missing rows, zeros, huge and tiny likelihoods."""
    n_states, n_sequences = rng.integers(1, 4), rng.integers(1, 4)
    lengths = rng.integers(0, 7, n_sequences)
    lengths[0] = max(lengths[0], 1)
    offsets = np.append(0, lengths.cumsum())
    n_rows, zeros = offsets[-1], rng.choice([0, 0.3, 0.6])
    varying, sparse, several = rng.random(3) < [0.3, 0.5, 0.3]
    with np.errstate(divide="ignore"):
        log_start = np.log(random_rows(rng, n_sequences if several else 1, n_states, zeros))
        log_transition = np.log(random_rows(rng, (n_rows if varying else 1) * n_states, n_states, zeros))
        log_emission = rng.normal(-2, rng.choice([0.5, 3, 50, 2000]), (n_rows, n_states))
        log_emission[rng.random((n_rows, n_states)) < zeros / 3] = -np.inf
    if rng.random() < 0.3:
        # Possible, and beyond the smallest number.
        log_start[rng.random(log_start.shape) < 0.4] -= rng.choice([100, 300, 2000])
        log_transition[rng.random(log_transition.shape) < 0.4] -= rng.choice([100, 300, 2000])
    log_emission[rng.random(n_rows) < 0.2] = 0
    log_emission += rng.choice([0, -1e5, 1e3])
    log_transition = log_transition.reshape(-1, n_states, n_states)
    edges = None
    if sparse:
        edges = Edges.of((log_transition > -np.inf).any(0))
        log_transition = edges.take(log_transition)
    chain = HiddenChain(log_start if several else log_start[0], log_transition if varying else log_transition[0], edges)
    return chain, log_emission, offsets


def umbrella(seen, prior=0.7):
    """Russell and Norvig's world of rain and umbrellas, and its log emissions: day 0 has no observation: a row of zeros."""
    carry = np.log([[0.9, 0.2], [0.1, 0.8]])
    rows = np.vstack([np.zeros(2), carry[["un".index(c) for c in seen]]])
    return HiddenChain.of([prior, 1 - prior], [[0.7, 0.3], [0.3, 0.7]]), rows


def log_sum_over_paths(start, transition, emission):
    """log p of one sequence; ``emission`` are probabilities, shape (rows, states)."""
    total = 0.0
    for path in product(range(len(start)), repeat=len(emission)):
        p = 1.0
        for t, z in enumerate(path):
            p *= (start[z] if t == 0 else transition[path[t - 1]][z]) * emission[t, z]
        total += p
    return np.log(total)
