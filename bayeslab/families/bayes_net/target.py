"""Draws of the target of a net given the rest of its row.

A row observed says which parameters are likely, too: p(x | y, data) is the average of p(x | y, θ)
over p(θ | y, data), whose draws are those of p(θ | data) resampled by what each says of y. Rows the
parameters have been learned from have done so already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.errors import DataError
from bayeslab.exact import strong_junction_tree
from bayeslab.exact.junction_tree import JunctionTree
from bayeslab.exact.mixed_network import MixedNetwork, log_density
from bayeslab.families.bayes_net.net import Net, parameter_values

__all__ = ["target_draws"]


@dataclass(frozen=True, eq=False)
class _States:
    """A discrete target given the rest, at one draw of the parameters: probabilities (rows, states)."""

    log_evidence: np.ndarray
    chances: np.ndarray

    @staticmethod
    def drawn(given: Sequence[_States], at: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        below = np.stack([np.cumsum(g.chances, axis=1)[:, :-1] for g in given])
        u = rng.random(at.shape)
        out: np.ndarray = sum((u > below[at, rows, k] for k in range(below.shape[-1])), np.zeros(at.shape, np.int64))
        return out


@dataclass(frozen=True, eq=False)
class _Mixtures:
    """A continuous target: a mixture of normals for each row, (rows, parts); parts may have no weight."""

    log_evidence: np.ndarray
    weights: np.ndarray
    means: np.ndarray
    sds: np.ndarray

    @staticmethod
    def drawn(given: Sequence[_Mixtures], at: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        u, z, out = rng.random(at.shape), rng.standard_normal(at.shape), np.empty(at.shape)
        for i, one in enumerate(given):
            here = at == i
            own = np.broadcast_to(rows, at.shape)[here]
            part = (u[here][:, None] > np.cumsum(one.weights, axis=1)[own, :-1]).sum(axis=1)
            out[here] = one.means[own, part] + one.sds[own, part] * z[here]
        return out


type _Given = _States | _Mixtures


def target_draws(
    net: Net,
    target: str,
    codes: np.ndarray,
    values: np.ndarray,
    draws: Mapping[str, np.ndarray],
    n_draws: int,
    rng: np.random.Generator,
    *,
    new: bool,
) -> np.ndarray:
    """Draws of the target for every row, (draws, rows); codes of states, or numbers.

    Parameters
    ----------
    new
        The parameters were not learned from these rows.
    """
    codes, values = codes.copy(), values.copy()
    if target in net.states:
        codes[:, list(net.states).index(target)] = -1
    else:
        values[:, list(net.linears).index(target)] = np.nan
    both = np.column_stack([codes, values])
    distinct, inverse = np.unique(both, axis=0, return_inverse=True, equal_nan=True)
    rows, numbers = distinct[:, : codes.shape[1]].astype(np.int64), distinct[:, codes.shape[1] :]
    given = list(_given(net, target, rows, numbers, draws, n_draws))
    back = inverse.ravel()
    at = np.arange(n_draws)[:, None].repeat(len(codes), axis=1)
    if new:
        at = _resampled(np.stack([g.log_evidence for g in given]))[:, back]
    return type(given[0]).drawn(given, at, back, rng)  # type: ignore[arg-type]


def _resampled(log_evidence: np.ndarray) -> np.ndarray:
    """For each row which parameter draw stands at each place, shape (draws, rows).

    Equal steps through the weights, in the order of the draws: where the rows say nothing every draw
    keeps its place, so that rows stay as dependent as the parameters make them.
    """
    best = log_evidence.max(axis=0)
    if not np.all(np.isfinite(best)):
        raise DataError("a row of the new data has probability zero under the model", code="probability-zero")
    upto = np.cumsum(np.exp(log_evidence - best), axis=0)
    n = len(log_evidence)
    steps = (np.arange(n) + 0.5) / n
    found = [np.searchsorted(column, steps * column[-1]) for column in upto.T]
    return np.minimum(np.stack(found, axis=1), n - 1)


def _given(
    net: Net, target: str, codes: np.ndarray, values: np.ndarray, draws: Mapping[str, np.ndarray], n_draws: int
) -> Iterator[_Given]:
    if not net.linears:
        tree = None
        for i in range(n_draws):
            value = parameter_values(net, draws, i)
            if tree is None:
                tree = JunctionTree.of(net.network(value))
            else:
                tables = net.tables(value, np)
                tree = tree.with_tables([tables[v] for v in net.states])
            found = tree.query_many(codes, [target])
            yield _States(found.log_evidence, found.marginals[target])
        return
    given = _of_mixed(net, target, codes, values)
    for i in range(n_draws):
        one = net.plain(parameter_values(net, draws, i))
        assert isinstance(one, MixedNetwork)
        yield given(one)


def _of_mixed(net: Net, target: str, codes: np.ndarray, values: np.ndarray) -> Callable[[MixedNetwork], _Given]:
    """How the target is found from the other variables of a net with continuous ones."""
    unseen = int((codes < 0).sum() + np.isnan(values).sum())
    points = any(one.known is not None and np.any(one.known.sd == 0) for one in net.linears.values())
    if unseen > len(codes) or points:
        return lambda one: _queried(net, one, target, codes, values)
    if target in net.states:
        return lambda one: _by_states(one, target, codes, values)
    return lambda one: _by_parabola(one, target, codes, values)


def _by_states(one: MixedNetwork, target: str, codes: np.ndarray, values: np.ndarray) -> _States:
    """Complete rows: the joint density with each state put in."""
    place = list(one.states).index(target)
    scores = []
    for s in range(len(one.states[target])):
        codes = codes.copy()
        codes[:, place] = s
        scores.append(log_density(one, codes, values))
    stacked = np.stack(scores, axis=1)
    log_evidence = np.logaddexp.reduce(stacked, axis=1)
    return _States(log_evidence, np.exp(stacked - log_evidence[:, None]))


def _by_parabola(one: MixedNetwork, target: str, codes: np.ndarray, values: np.ndarray) -> _Mixtures:
    """Complete rows: the joint log density is a parabola in the target, known from three of its points."""
    place = list(one.continuous).index(target)

    def at(x: np.ndarray) -> np.ndarray:
        put = values.copy()
        put[:, place] = x
        return log_density(one, codes, put)

    middle, step = np.zeros(len(values)), np.ones(len(values))
    for _ in range(2):  # again around the top, where rounding does no harm
        low, top, high = at(middle - step), at(middle), at(middle + step)
        curvature, slope = (low - 2 * top + high) / step**2, (high - low) / (2 * step)
        middle, step = middle - slope / curvature, np.sqrt(-1 / curvature)
    log_evidence = at(middle) + np.log(step) + 0.5 * np.log(2 * np.pi)
    return _Mixtures(log_evidence, np.ones((len(values), 1)), middle[:, None], step[:, None])


def _queried(net: Net, one: MixedNetwork, target: str, codes: np.ndarray, values: np.ndarray) -> _Given:
    """Rows with other cells missing: one query each."""

    answers = []
    for code, value in zip(codes, values, strict=True):
        seen: dict[str, Any] = {v: s[c] for (v, s), c in zip(net.states.items(), code, strict=True) if c >= 0}
        seen |= {v: float(x) for v, x in zip(net.linears, value, strict=True) if not np.isnan(x)}
        answers.append(strong_junction_tree.query(one, seen, [target]))
    log_evidence = np.array([a.log_evidence for a in answers])
    if target in net.states:
        return _States(log_evidence, np.stack([a.discrete[target] for a in answers]))
    found = [a.continuous[target] for a in answers]
    weights, means, sds = np.zeros((3, len(found), max(len(m.weights) for m in found)))
    for r, m in enumerate(found):
        k = len(m.weights)
        weights[r, :k], means[r, :k], sds[r, :k] = m.weights, m.means, m.sds
        means[r, k:], sds[r, k:] = m.means[-1], m.sds[-1]
    return _Mixtures(log_evidence, weights, means, sds)
