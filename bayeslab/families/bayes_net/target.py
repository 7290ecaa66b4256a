"""Draws of the target of a net given the rest of its row.

A new row also carries information about the parameters: p(x | y, data) is the average of p(x | y, θ) over
p(θ | y, data), whose draws are those of p(θ | data) resampled by importance weights p(y | θ). Rows from which the
parameters were learned need no such weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.constants import HALF_LOG_2PI
from bayeslab.errors import DataError
from bayeslab.families.bayes_net.net import Net, parameter_values
from bayeslab.latents.networks import strong_junction_tree
from bayeslab.latents.networks.junction_tree import JunctionTree
from bayeslab.latents.networks.mixed_network import MixedNetwork, log_density
from bayeslab.latents.networks.network import DiscreteNetwork

__all__ = ["open_draws", "target_draws"]

# Rows with several missing cells are drawn at this many evenly spaced draws of the parameters.
_AT = 400


@dataclass(frozen=True, eq=False)
class _States:
    """A discrete target given the rest of the row, at one draw: probabilities (rows, states)."""

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
    """A continuous target at one draw: a normal mixture for each row, (rows, parts); parts may have zero weight."""

    log_evidence: np.ndarray
    weights: np.ndarray
    means: np.ndarray
    sds: np.ndarray

    @staticmethod
    def drawn(given: Sequence[_Mixtures], at: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        u, z, out = rng.random(at.shape), rng.standard_normal(at.shape), np.empty(at.shape)
        for i, one in enumerate(given):
            here = at == i
            row = np.broadcast_to(rows, at.shape)[here]
            part = (u[here][:, None] > np.cumsum(one.weights, axis=1)[row, :-1]).sum(axis=1)
            out[here] = one.means[row, part] + one.sds[row, part] * z[here]
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
    """Draws of the target for every row, (draws, rows): codes of states, or numbers.

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


def open_draws(
    net: Net,
    codes: np.ndarray,
    values: np.ndarray,
    draws: Mapping[str, np.ndarray],
    n_draws: int,
    rng: np.random.Generator,
    *,
    new: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the missing cells of rows, those of a row jointly, given the rest of the row.

    Parameters
    ----------
    codes, values : ndarray (rows, variables)
        -1 and NaN where a cell is missing; other cells are kept.
    new
        The parameters were not learned from these rows.

    Returns
    -------
    codes, values : ndarray (draws, rows, variables)

    Raises
    ------
    DataError
        A row has probability zero.
    """
    drawn = np.repeat(codes[None], n_draws, axis=0)
    numbers = np.repeat(values[None], n_draws, axis=0)
    lacking = np.concatenate([codes < 0, np.isnan(values)], axis=1)
    single = lacking.sum(axis=1) == 1
    for k, name in enumerate((*net.states, *net.linears)):
        if len(rows := np.flatnonzero(single & lacking[:, k])):
            column = target_draws(net, name, codes[rows], values[rows], draws, n_draws, rng, new=new)
            if k < len(net.states):
                drawn[:, rows, k] = column
            else:
                numbers[:, rows, k - len(net.states)] = column
    chosen = np.unique(np.linspace(0, n_draws - 1, min(n_draws, _AT)).astype(int))
    several = np.flatnonzero(lacking.sum(axis=1) > 1)
    if len(several):
        nets = [net.plain(parameter_values(net, draws, int(i))) for i in chosen]
        for rows in _alike(codes[several], values[several]):
            rows = several[rows]
            together = _Together.of(nets, codes[rows[0]], values[rows[0]])
            for row in rows:
                at = _resampled(together.log_evidence[:, None] if new else np.zeros((len(nets), 1)), n_draws)[:, 0]
                for i in np.unique(at):
                    places = np.flatnonzero(at == i)
                    drawn[places, row], numbers[places, row] = together.drawn(int(i), len(places), rng)
    return drawn, numbers


def _alike(codes: np.ndarray, values: np.ndarray) -> list[np.ndarray]:
    """Positions of each group of identical rows."""
    both = np.column_stack([codes, values])
    _, inverse = np.unique(both, axis=0, return_inverse=True, equal_nan=True)
    return [np.flatnonzero(inverse.ravel() == k) for k in range(int(inverse.max()) + 1)]


@dataclass(frozen=True, eq=False)
class _Together:
    """The missing cells of one row, at each of several draws of the parameters."""

    codes: np.ndarray
    values: np.ndarray
    nets: Sequence[Any]
    given: Mapping[str, Any]
    joints: Sequence[Any]
    log_evidence: np.ndarray

    @classmethod
    def of(cls, nets: Sequence[DiscreteNetwork | MixedNetwork], codes: np.ndarray, values: np.ndarray) -> _Together:
        one = nets[0]
        given: dict[str, Any] = {v: s[c] for (v, s), c in zip(one.states.items(), codes, strict=True) if c >= 0}
        if not isinstance(one, MixedNetwork):
            tree = JunctionTree.of(one)
            trees = [tree, *(tree.with_tables([other.tables[v] for v in one.states]) for other in nets[1:])]
            wanted = [next(iter(one.states))]
            evidence = [float(tree.query_many(codes[None], wanted).log_evidence[0]) for tree in trees]
            return cls(codes, values, nets, given, trees, np.array(evidence))
        given |= {v: float(x) for v, x in zip(one.continuous, values, strict=True) if not np.isnan(x)}
        names = [v for v in (*one.states, *one.continuous) if v not in given]
        joint = [strong_junction_tree.query_joint(other, names, given) for other in nets]  # type: ignore[arg-type]
        return cls(codes, values, nets, given, joint, np.array([j.log_evidence for j in joint]))

    def drawn(self, at: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw complete rows."""
        codes, values = np.repeat(self.codes[None], n, axis=0), np.repeat(self.values[None], n, axis=0)
        joint = self.joints[at]
        if isinstance(joint, JunctionTree):
            return joint.sample(n, rng, self.given), values
        states, numbers = joint.draws(rng, n)
        one = self.nets[at]
        codes[:, [list(one.states).index(v) for v in joint.discrete]] = states
        values[:, [list(one.continuous).index(v) for v in joint.continuous]] = numbers
        return codes, values


def _resampled(log_evidence: np.ndarray, n_places: int | None = None) -> np.ndarray:
    """Resample parameter draws for each row: the draw at each place, shape (places, rows).

    Systematic resampling in the order of the draws: with equal weights every draw keeps its place, so that rows remain
    dependent through the parameters.
    """
    best = log_evidence.max(axis=0)
    if not np.all(np.isfinite(best)):
        raise DataError("a row of the new data has probability zero under the model", code="probability-zero")
    upto = np.cumsum(np.exp(log_evidence - best), axis=0)
    n = n_places or len(log_evidence)
    steps = (np.arange(n) + 0.5) / n
    positions = [np.searchsorted(column, steps * column[-1]) for column in upto.T]
    return np.minimum(np.stack(positions, axis=1), len(log_evidence) - 1)


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
            answer = tree.query_many(codes, [target])
            yield _States(answer.log_evidence, answer.marginals[target])
        return
    given = _of_mixed(net, target, codes, values)
    for i in range(n_draws):
        one = net.plain(parameter_values(net, draws, i))
        assert isinstance(one, MixedNetwork)
        yield given(one)


def _of_mixed(net: Net, target: str, codes: np.ndarray, values: np.ndarray) -> Callable[[MixedNetwork], _Given]:
    """The method that computes the target's distribution in a net with continuous variables."""
    unseen = int((codes < 0).sum() + np.isnan(values).sum())
    points = any(one.known is not None and np.any(one.known.sd == 0) for one in net.linears.values())
    if unseen > len(codes) or points:
        return lambda one: _queried(net, one, target, codes, values)
    if target in net.states:
        return lambda one: _by_states(one, target, codes, values)
    return lambda one: _by_parabola(one, target, codes, values)


def _by_states(one: MixedNetwork, target: str, codes: np.ndarray, values: np.ndarray) -> _States:
    """For complete rows: evaluate the joint density at each state of the target."""
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
    """For complete rows: the joint log density is a parabola in the target, determined by three points."""
    place = list(one.continuous).index(target)

    def at(x: np.ndarray) -> np.ndarray:
        put = values.copy()
        put[:, place] = x
        return log_density(one, codes, put)

    middle, step = np.zeros(len(values)), np.ones(len(values))
    for _ in range(2):  # again around the maximum, where rounding errors are small
        low, top, high = at(middle - step), at(middle), at(middle + step)
        curvature, slope = (low - 2 * top + high) / step**2, (high - low) / (2 * step)
        middle, step = middle - slope / curvature, np.sqrt(-1 / curvature)
    log_evidence = at(middle) + np.log(step) + HALF_LOG_2PI
    return _Mixtures(log_evidence, np.ones((len(values), 1)), middle[:, None], step[:, None])


def _queried(net: Net, one: MixedNetwork, target: str, codes: np.ndarray, values: np.ndarray) -> _Given:
    """For rows with other missing cells: one query each."""

    answers = []
    for code, value in zip(codes, values, strict=True):
        evidence: dict[str, Any] = {v: s[c] for (v, s), c in zip(net.states.items(), code, strict=True) if c >= 0}
        evidence |= {v: float(x) for v, x in zip(net.linears, value, strict=True) if not np.isnan(x)}
        answers.append(strong_junction_tree.query(one, evidence, [target]))
    log_evidence = np.array([a.log_evidence for a in answers])
    if target in net.states:
        return _States(log_evidence, np.stack([a.discrete[target] for a in answers]))
    mixtures = [a.continuous[target] for a in answers]
    weights, means, sds = np.zeros((3, len(mixtures), max(len(m.weights) for m in mixtures)))
    for r, m in enumerate(mixtures):
        k = len(m.weights)
        weights[r, :k], means[r, :k], sds[r, :k] = m.weights, m.means, m.sds
        means[r, k:], sds[r, k:] = m.means[-1], m.sds[-1]
    return _Mixtures(log_evidence, weights, means, sds)
