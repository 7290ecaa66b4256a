"""Relabelling of several chains and of their states, consistent across draws.

States of a chain that the model does not tell apart are exchangeable, and so are whole chains of equal size with a
common output. A move relabels a posterior draw: new chain c is old chain ``sources[c]``, and its state k is that
chain's old state ``orders[c][k]``. Moves are chosen by Stephens' criterion [1]_, so that the smoothed probabilities of
all chains agree best across draws; given their average, this is one assignment problem for each pair of chains and one
among chains, solved exactly. Finally, states and chains are numbered by a rule, so that two runs agree:

- states in ascending order of their parameter in the first column: their effect, or their mean over the others' states;
- chains of a factorial model by descending range of those numbers, the most influential chain first;
- chains behind a switch by the ascending average of those numbers.

References
----------
.. [1] Stephens (2000). Dealing with label switching in mixture models. JRSS B 62, 795-809.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.latents.assignment import best_assignments
from bayeslab.posterior.draws import evenly
from bayeslab.posterior.relabelling import probabilities_at

if TYPE_CHECKING:
    from bayeslab.latents.chains.product import ProductChain

__all__ = ["Freedom", "Moves", "freedom_of", "moved", "numbered", "relabelled"]

# Relabelling uses at most this many times, and this many of them; fewer if the product space is large.
_PREFIX, _TELLING, _WORK = 1_000, 60, 4_000_000
_ROUNDS = 50


@dataclass(frozen=True)
class Freedom:
    """The exchangeable states and chains.

    Attributes
    ----------
    states : tuple of bool
        Whether the states of each chain are exchangeable.
    groups : tuple of tuple of int
        Groups of exchangeable chains; every chain is in one group.
    """

    states: tuple[bool, ...]
    groups: tuple[tuple[int, ...], ...]

    @property
    def any(self) -> bool:
        return any(self.states) or len(self.groups) < len(self.states)


@dataclass(frozen=True, eq=False)
class Moves:
    """One relabelling for each draw.

    Attributes
    ----------
    sources : ndarray (n_draws, n_chains)
    orders : list of ndarray (n_draws, size)
    """

    sources: np.ndarray
    orders: list[np.ndarray]

    @classmethod
    def none(cls, n_draws: int, sizes: tuple[int, ...]) -> Moves:
        """The identity for every draw."""
        return cls(np.tile(np.arange(len(sizes)), (n_draws, 1)), [np.tile(np.arange(k), (n_draws, 1)) for k in sizes])

    def one(self, draw: int) -> tuple[np.ndarray, list[np.ndarray]]:
        return self.sources[draw], [order[draw] for order in self.orders]


def freedom_of(hidden: Any) -> Freedom:
    """The states and chains that the model does not tell apart."""
    chain: ProductChain = hidden.chain
    n_chains, switching = len(chain.names), chain.coupling == "switching"
    states = [_even(chain, c) and all(p.symmetric for p in _parts(hidden, c)) for c in range(n_chains)]
    states = [free and chain.sizes[c] > 1 for c, free in enumerate(states)]
    if switching:
        states[0] = False
    plain = [c for c in range(n_chains) if _interchangeable(hidden, c)]
    groups, left = [], list(range(n_chains))
    while left:
        first = left[0]
        same = [c for c in left if c in plain and chain.sizes[c] == chain.sizes[first]] if first in plain else [first]
        groups.append(tuple(same))
        left = [c for c in left if c not in same]
    return Freedom(tuple(states), tuple(groups))


def _even(chain: ProductChain, c: int) -> bool:
    """Whether the chain's own distribution is the same for all its states."""
    name = chain.names[c]
    first = chain.known.get(f"initial_{name}")
    others = any(f"transition_{n}" in chain.known for n in (chain.names if chain.coupling == "coupled" else ()))
    return f"transition_{name}" not in chain.known and not others and (first is None or np.ptp(first) == 0)


def _parts(hidden: Any, c: int) -> list[Any]:
    """The emission parts of a chain's states, alone or shared with other chains."""
    return [part for part in hidden.parts if part.index in (None, c)]


def _interchangeable(hidden: Any, c: int) -> bool:
    """Whether the chain is exchangeable with others of its size."""
    chain: ProductChain = hidden.chain
    if chain.coupling == "coupled" or not _even(chain, c):
        return False
    if chain.coupling == "factorial":
        return chain.sizes[c] > 1 and all(part.symmetric for part in hidden.parts)
    return c > 0 and _even(chain, 0) and not any(part.known or part.priors for part in _parts(hidden, c))


# --------------------------------------------------------------------------------- moving


def moved(hidden: Any, values: Mapping[str, np.ndarray], moves: Moves) -> dict[str, np.ndarray]:
    """Relabelled draws; the first axis of all arrays is the draw."""
    whole = np.concatenate([moves.sources, *moves.orders], axis=1)
    kinds, kind = np.unique(whole, axis=0, return_inverse=True)
    out = {name: np.array(value) for name, value in values.items()}
    for number in range(len(kinds)):
        at = np.flatnonzero(kind.ravel() == number)
        source, orders = moves.one(int(at[0]))
        for name in hidden.learned:
            out[name][at] = _renamed(hidden, {n: v[at] for n, v in values.items()}, name, source, orders)
    return out


def _renamed(
    hidden: Any, values: Mapping[str, np.ndarray], name: str, source: np.ndarray, orders: list[np.ndarray]
) -> np.ndarray:
    chain: ProductChain = hidden.chain
    value = values[_before(hidden, name, source)]
    for axis, dim in enumerate(hidden.dims[name], 1):
        if dim == "state":
            value = np.take(value, _joint(chain, source, orders), axis=axis)
        for c, chain_name in enumerate(chain.names):
            if dim in (chain_name, f"next_{chain_name}"):
                value = np.take(value, orders[c], axis=axis)
    return value


def _before(hidden: Any, name: str, source: np.ndarray) -> str:
    """The name of a chain's parameter in the chain that it comes from."""
    chain: ProductChain = hidden.chain
    for owner in (chain, *hidden.parts):
        owned = owner.owned(name)
        if owned is not None:
            base, c = owned
            return f"{base}_{chain.names[source[c]]}"
    return name


def _joint(chain: ProductChain, source: np.ndarray, orders: list[np.ndarray]) -> np.ndarray:
    """The old state of the product space for each new one."""
    new = chain.space.states
    old = np.empty_like(new)
    for c, order in enumerate(orders):
        old[:, source[c]] = order[new[:, c]]
    return np.ravel_multi_index(tuple(old.T), chain.sizes)


# --------------------------------------------------------------------------------- the rule


def numbered(hidden: Any, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Values of one draw with states and chains numbered by the rule."""
    one = {name: np.asarray(value)[None] for name, value in values.items()}
    return {name: value[0] for name, value in moved(hidden, one, _rule(hidden, values, 1)).items()}


def _rule(hidden: Any, values: Mapping[str, np.ndarray], n_draws: int) -> Moves:
    chain: ProductChain = hidden.chain
    freedom = freedom_of(hidden)
    keys = [_sort_key(hidden, values, c) for c in range(len(chain.names))]
    orders = [np.argsort(k, kind="stable") if free else np.arange(len(k))
              for k, free in zip(keys, freedom.states, strict=True)]  # fmt: skip
    source = np.arange(len(chain.names))
    for group in freedom.groups:
        merit = [keys[c].mean() if chain.coupling == "switching" else -np.ptp(keys[c]) for c in group]
        source[list(group)] = np.array(group)[np.argsort(merit, kind="stable")]
    return _repeated(chain, source, [orders[c] for c in source], n_draws)


def _repeated(chain: ProductChain, source: np.ndarray, orders: list[np.ndarray], n_draws: int) -> Moves:
    if chain.coupling == "switching":  # the switch names chains
        orders = [source[1:] - 1, *orders[1:]]
    return Moves(np.tile(source, (n_draws, 1)), [np.tile(order, (n_draws, 1)) for order in orders])


def _sort_key(hidden: Any, values: Mapping[str, np.ndarray], c: int) -> np.ndarray:
    """Sort key for each state of a chain: its first parameter of the first column."""
    chain: ProductChain = hidden.chain
    for part in hidden.parts:
        for name in part.names:
            dims = hidden.dims.get(name, ())
            if dims[:1] == (chain.names[c],):
                return np.asarray(values[name]).reshape(chain.sizes[c], -1)[:, 0]
            if dims[:1] == ("state",):
                first = np.asarray(values[name]).reshape(chain.space.n_states, -1)[:, 0]
                return chain.space.marginal(first, c) * chain.sizes[c] / chain.space.n_states
    return np.arange(chain.sizes[c], dtype=float)


# --------------------------------------------------------------------------------- agreement across draws


def relabelled(hidden: Any, draws: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], str] | None:
    """Relabel chains and states consistently across draws, numbered by the rule; with a description."""
    chain: ProductChain = hidden.chain
    freedom = freedom_of(hidden)
    if not freedom.any or not all(name in draws for name in hidden.learned):
        return None
    parameters = {name: np.asarray(draws[name]) for name in hidden.learned}
    n_draws = len(next(iter(parameters.values())))
    first = hidden.prefix(max(_TELLING, min(_PREFIX, _WORK // chain.space.n_states**2)))
    laws = (first.law({n: v[i] for n, v in parameters.items()}) for i in range(n_draws))
    joint = probabilities_at(laws, evenly(first.sequences.n_times, _TELLING))
    marginals = [chain.space.marginal(joint, c) for c in range(len(chain.names))]
    out = moved(hidden, parameters, _agreed(chain, freedom, marginals))
    middle = {name: value.mean(axis=0) for name, value in out.items()}
    out = moved(hidden, out, _rule(hidden, middle, n_draws))
    return out | hidden.internal(out, draws), f"the chains {', '.join(chain.names)}"


def _agreed(chain: ProductChain, freedom: Freedom, marginals: list[np.ndarray]) -> Moves:
    """The best of several descents: from the labels as they are, and from the labels of single draws."""
    n_draws = len(marginals[0])
    starts = [[p.mean(axis=0) for p in marginals]]
    starts += [[p[i] for p in marginals] for i in sorted({0, n_draws // 2, n_draws - 1})]
    ends = [_descent(chain, freedom, marginals, start) for start in starts]
    return min(ends, key=lambda end: end[0])[1]


def _descent(
    chain: ProductChain, freedom: Freedom, marginals: list[np.ndarray], middle: list[np.ndarray]
) -> tuple[float, Moves]:
    """Alternate between relabelling draws to the average and updating it until the divergence stops falling."""
    divergence, best = np.inf, Moves.none(len(marginals[0]), chain.sizes)
    for _ in range(_ROUNDS):
        moves = _nearest(chain, freedom, marginals, [np.log(np.maximum(p, 1e-300)) for p in middle])
        after = _rearranged(marginals, moves)
        middle = [p.mean(axis=0) for p in after]
        now = -sum(float(np.sum(p * np.log(np.maximum(m, 1e-300)))) for p, m in zip(after, middle, strict=True))
        if not now < divergence - 1e-12 * abs(divergence if np.isfinite(divergence) else now):
            break
        divergence, best = now, moves
    return divergence, best


def _rearranged(marginals: list[np.ndarray], moves: Moves) -> list[np.ndarray]:
    out = []
    for c, order in enumerate(moves.orders):
        came = np.empty_like(marginals[c])
        for s in np.unique(moves.sources[:, c]):
            at = moves.sources[:, c] == s
            came[at] = marginals[s][at]
        out.append(np.take_along_axis(came, order[:, None, :], axis=2))
    return out


def _nearest(chain: ProductChain, freedom: Freedom, marginals: list[np.ndarray], log_middle: list[np.ndarray]) -> Moves:
    """The move of each draw with the smallest divergence from the average."""
    n_draws = len(marginals[0])
    moves = Moves.none(n_draws, chain.sizes)
    for group in freedom.groups:
        fits = {(c, s): _fit(chain, freedom, marginals, log_middle, c, s) for c in group for s in group}
        costs = np.stack([np.stack([fits[c, s][0] for s in group], axis=1) for c in group], axis=1)
        sources = np.array(group)[best_assignments(costs)]
        for place, c in enumerate(group):
            moves.sources[:, c] = sources[:, place]
            for s in group:
                came = sources[:, place] == s
                moves.orders[c][came] = fits[c, s][1][came]
    if chain.coupling == "switching":
        moves.orders[0][:] = moves.sources[:, 1:] - 1
    return moves


def _fit(
    chain: ProductChain,
    freedom: Freedom,
    marginals: list[np.ndarray],
    log_middle: list[np.ndarray],
    c: int,
    s: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Divergence of chain s of each draw from the average of chain c, and the best order of its states."""
    cost = -np.einsum("tk,dtl->dkl", log_middle[c], marginals[s])
    size = chain.sizes[c]
    if freedom.states[c]:
        orders = best_assignments(cost)
    else:
        orders = np.tile(np.arange(size), (len(cost), 1))
    total = np.take_along_axis(cost, orders[:, :, None], axis=2)[..., 0].sum(axis=1)
    if chain.coupling == "switching" and c > 0:
        total = total - marginals[0][:, :, s - 1] @ log_middle[0][:, c - 1]
    return total, orders
