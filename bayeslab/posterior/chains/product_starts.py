"""Starting points of searches with several hidden chains: groups of similar rows assigned to their states."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from bayeslab.latents.chains.product import ProductChain
from bayeslab.latents.chains.product_chain import ProductSpace
from bayeslab.posterior.chains.product_labels import numbered
from bayeslab.posterior.observed.additive import Additive
from bayeslab.posterior.observed.part import StatePart
from bayeslab.posterior.similar_rows import membership, similar_rows

__all__ = ["starting_values"]

# Largest number of rows used to find starting points.
_SOME = 20_000
# Number of assignments of row groups to chains that are tried.
_TRIES = 20


def starting_values(hidden: Any, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
    """A start value of a search; random, or without ``rng`` deterministic."""
    chain: ProductChain = hidden.chain
    out = _emitting(hidden, np.random.default_rng(0) if rng is None else rng)
    if rng is None:
        return numbered(hidden, out | chain.start_values())
    return out | {name: 0.5 * value + 0.5 * chain.start_values()[name] for name, value in chain.draw(rng).items()}


def _emitting(hidden: Any, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Emission parameters of groups of similar rows."""
    chain, rows = hidden.chain, hidden.rows[:_SOME]
    if isinstance(part := hidden.parts[0], Additive):
        parameters = part.from_emission(part.emission.begin(rows, rng))
        return {name: parameters[name] for name in part.learned}
    emitted: dict[str, np.ndarray] = hidden.emitting(rows, _grouped(hidden, chain, rows, rng))
    return emitted


def _grouped(hidden: Any, chain: ProductChain, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Weights (n_rows, n_states) of the product states from groups of similar rows."""
    space = chain.space
    log_weight = np.zeros((len(rows), space.n_states))
    if chain.coupling == "coupled":
        for c in range(len(chain.names)):
            parts = [part for part in hidden.parts if part.index == c]
            if parts:
                log_weight += space.spread(np.log(_soft(_groups(parts, rows, chain.sizes[c], rng), rng)), c)
    elif chain.coupling == "switching":
        sizes = chain.sizes[1:]
        groups = _groups(hidden.parts[: _count(hidden)], rows, sum(sizes), rng)
        soft = _soft(groups[:, _shared_out(groups, sizes, rng)], rng)
        ends = np.cumsum((0, *sizes))
        log_weight = space.switched([np.log(soft[:, a:b]) for a, b in itertools.pairwise(ends)])
    else:
        groups = _groups(hidden.parts, rows, space.n_states, rng)
        log_weight = np.log(_soft(groups[:, _arranged(groups, space, rng)], rng))
    weights = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _count(hidden: Any) -> int:
    """The number of parts of the first chain that emits."""
    return sum(part.index == hidden.parts[0].index for part in hidden.parts)


def _groups(parts: Sequence[StatePart], rows: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    return membership(similar_rows(parts, rows, n, rng), n)


def _soft(groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    n = groups.shape[1]
    return 0.75 * groups + 0.25 * (0.5 / n + 0.5 * rng.dirichlet(np.ones(n), len(groups)))


def _followed(groups: np.ndarray) -> np.ndarray:
    """Counts of transitions between groups."""
    return groups[:-1].T @ groups[1:]


def _shared_out(groups: np.ndarray, sizes: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """Assign groups to the chains behind a switch so that few transitions lead from one chain's groups to
    another's.
    """
    moves, chain = _followed(groups), np.repeat(np.arange(len(sizes)), sizes)
    within = chain[:, None] == chain
    tried = [rng.permutation(len(chain)) for _ in range(_TRIES)]
    return max(tried, key=lambda order: float(moves[np.ix_(order, order)][within].sum()))


def _arranged(groups: np.ndarray, space: ProductSpace, rng: np.random.Generator) -> np.ndarray:
    """Assign groups to product states so that independent chains explain the transitions between them."""
    moves = _followed(groups) + 1e-3
    tried = [rng.permutation(space.n_states) for _ in range(_TRIES)]
    return max(tried, key=lambda order: _apart(moves[np.ix_(order, order)], space))


def _apart(moves: np.ndarray, space: ProductSpace) -> float:
    """Log likelihood of the transitions under independent chains."""
    total = 0.0
    for c in range(len(space.sizes)):
        counts = space.fold(moves, c)
        total += float(np.sum(counts * np.log(counts / counts.sum(axis=1, keepdims=True))))
    return total
