"""The slow obvious twin: every joint state written out; and random models to try it on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bayeslab.latents.networks.factors import FactorGraph
from bayeslab.latents.networks.network import DiscreteNetwork


def joint(model, given=None):
    """The product of all tables and the evidence, an axis a variable in the order of `states`."""
    factors = FactorGraph.of(model) if isinstance(model, DiscreteNetwork) else model
    names = list(factors.states)
    out = np.ones([len(s) for s in factors.states.values()])
    pieces = list(zip(factors.scopes, factors.tables, strict=True))
    for variable, value in (given or {}).items():
        weights = value if isinstance(value, dict) else {value: 1.0}
        pieces.append(((variable,), np.array([weights.get(s, 0.0) for s in factors.states[variable]])))
    for scope, table in pieces:
        order = np.argsort([names.index(v) for v in scope])
        shape = [len(factors.states[v]) if v in scope else 1 for v in names]
        out = out * np.transpose(table, order).reshape(shape)
    return out


def marginals(product, names):
    total = product.sum()
    return {v: product.sum(axis=tuple(k for k in range(product.ndim) if k != i)) / total for i, v in enumerate(names)}


def max_marginals(product, names):
    return {v: product.max(axis=tuple(k for k in range(product.ndim) if k != i)) for i, v in enumerate(names)}


def partitions(n: int) -> Iterator[np.ndarray]:
    """All partitions of n rows, as numbers of clusters in the order in which these come up."""

    def grow(labels: list[int], size: int) -> Iterator[np.ndarray]:
        if len(labels) == n:
            yield np.array(labels)
            return
        for k in range(size + 1):
            yield from grow([*labels, k], max(size, k + 1))

    yield from grow([], 0)


def names_of_states(rng, n, most=3):
    """Names out of alphabetical order, one to `most` states each."""
    return {f"v{k}": tuple("qbzad"[: rng.integers(1, most + 1)]) for k in rng.permutation(n)}


def _table(rng, shape):
    """Rows that sum to one: smooth, with zeros, or deterministic."""
    table = rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])
    kind = rng.integers(4)
    if kind == 0:
        table *= rng.random(shape) < 0.6
        table[..., 0] += table.sum(axis=-1) == 0
    if kind == 1:
        table = np.eye(shape[-1])[rng.integers(shape[-1], size=shape[:-1])]
    return table / table.sum(axis=-1, keepdims=True)


def _tables(rng, states, parents):
    return {v: _table(rng, (*(len(states[p]) for p in parents[v]), len(states[v]))) for v in states}


def random_polytree(rng, n, tree=False):
    """A random forest as skeleton; with `tree`, each variable has at most one parent."""
    states = names_of_states(rng, n)
    names = list(states)
    parents = {v: [] for v in names}
    for k in range(1, n):
        if rng.random() < 0.15:
            continue  # a new part
        other = names[rng.integers(k)]
        child, parent = (names[k], other) if tree or rng.random() < 0.5 else (other, names[k])
        parents[child].append(parent)
    parents = {v: tuple(rng.permutation(p).tolist()) for v, p in parents.items()}
    return DiscreteNetwork(states, parents, _tables(rng, states, parents))


def random_network(rng, n, most_parents=3):
    """A random directed graph, usually with loops."""
    states = names_of_states(rng, n)
    names = list(states)
    parents = {
        v: tuple(rng.choice(names[:k], size=rng.integers(0, min(k, most_parents) + 1), replace=False).tolist())
        for k, v in enumerate(names)
    }
    order = rng.permutation(n)
    shuffled = {names[k]: states[names[k]] for k in order}
    return DiscreteNetwork(shuffled, parents, _tables(rng, states, parents))


def random_tree_factors(rng, n):
    """Factors of one to four variables without loops; scales far from one; perhaps a constant."""
    states = names_of_states(rng, n)
    names = list(states)
    scopes, used = [()] if rng.random() < 0.3 else [], 1
    while used < n:
        new = names[used : used + rng.integers(1, 4)]
        used += len(new)
        old = [names[rng.integers(used - len(new))]] if rng.random() < 0.85 else []
        scopes.append(tuple(rng.permutation([*new, *old]).tolist()))
    scopes += [(v,) for v in names if rng.random() < 0.3]
    tables = []
    for scope in scopes:
        shape = [len(states[v]) for v in scope]
        tables.append(rng.gamma(1.0, size=shape) * (rng.random(shape) < 0.85) * np.exp(rng.normal(0, 5)))
    tables = [t if scope else np.asarray(t) + 0.1 for scope, t in zip(scopes, tables, strict=True)]
    return FactorGraph(states, tuple(scopes), tuple(tables))


def random_evidence(rng, states):
    """Hard and virtual evidence, possible or not."""
    given = {}
    for variable, own in states.items():
        kind = rng.random()
        if kind < 0.2:
            given[variable] = own[rng.integers(len(own))]
        elif kind < 0.35:
            weights = rng.gamma(1.0, size=len(own)) * (rng.random(len(own)) < 0.8)
            given[variable] = {s: float(w) for s, w in zip(own, weights, strict=True) if w > 0} or {own[0]: 2.0}
    return given
