"""Observable Markov chains: simulation, counts, estimates, stationary distributions, and patterns of zeros.

The likelihood of observed sequences is a product of multinomials, of the first states and of each row of the transition
matrix: the maximum is at the observed shares, and Dirichlet priors are conjugate. A second-order chain, whose next
state depends on the last two, is a first-order chain of pairs.

References
----------
.. [1] Billingsley (1961). Statistical methods in Markov chains. Annals of Mathematical Statistics 32, 12-40.
.. [2] Grassmann, Taksar, Heyman (1985). Regenerative analysis and steady state distributions for
   Markov chains. Operations Research 33, 1107-1116.
.. [3] Norris (1997). Markov Chains, chapter 1. Cambridge University Press.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import gcd
from typing import Any, Self

import numpy as np

from bayeslab import special
from bayeslab.errors import DataError, ModelError
from bayeslab.exact.conjugate import DirichletMultinomial
from bayeslab.latents.chains.forward_backward import Edges, HiddenChain, simulate_states, smooth

__all__ = [
    "Classes",
    "MarkovChain",
    "MarkovCounts",
    "SecondOrderChain",
    "banded",
    "classes",
    "count",
    "ergodic",
    "left_right",
    "stationary",
]

_SUMS = 1e-8


# ------------------------------------------------------------------------------------------- patterns


def ergodic(n_states: int) -> np.ndarray:
    """All transitions allowed."""
    return np.ones((n_states, n_states), bool)


def left_right(n_states: int, reach: int = 1) -> np.ndarray:
    """From each state to itself and the next ``reach``: a_ij = 0 for j < i and j > i + reach."""
    if reach < 0:
        raise ModelError(
            f"a left-to-right chain reaches {reach} states ahead; it must be 0 or more", code="out-of-range"
        )
    ahead = np.arange(n_states) - np.arange(n_states)[:, None]
    return (ahead >= 0) & (ahead <= reach)


def banded(n_states: int, width: int = 1) -> np.ndarray:
    """From each state to those at most ``width`` away."""
    if width < 0:
        raise ModelError(f"the width of a band is {width}; it must be 0 or more", code="out-of-range")
    return np.abs(np.arange(n_states) - np.arange(n_states)[:, None]) <= width


# --------------------------------------------------------------------------------------------- counts


@dataclass(frozen=True, eq=False)
class MarkovCounts:
    """Counts in sequences of states.

    Parameters
    ----------
    starts : ndarray of shape (n_states,)
    transitions : ndarray of shape (n_states, n_states)
        For a second-order chain, only the first transition of each sequence.
    triples : ndarray of shape (n_states, n_states, n_states), or None
        For a second-order chain: how often i, j is followed by k.
    """

    starts: np.ndarray
    transitions: np.ndarray
    triples: np.ndarray | None = None


def count(states: Any, n_states: int, offsets: Any = None, order: int = 1) -> MarkovCounts:
    """Starts and transitions in sequences of states 0 to n_states - 1.

    Parameters
    ----------
    states : array of int, shape (n_rows,)
        All sequences one after the other; a negative state is missing, and no transition from or to
        it counts.
    n_states : int
    offsets : array of shape (n_sequences + 1,), optional
        Where sequences begin, and the number of rows; without it, one sequence.
    order : {1, 2}
    """
    states, offsets = _sequences(states, n_states, offsets)
    if order not in (1, 2):
        raise ModelError(f"a Markov chain of order {order} is not offered; 1 or 2", code="unsupported")
    # How many rows a row has before it in its sequence.
    age = np.arange(len(states)) - np.repeat(offsets[:-1], np.diff(offsets))

    def tally(length: int, at: np.ndarray) -> np.ndarray:
        runs = np.stack([states[at - back] for back in range(length - 1, -1, -1)])
        runs = runs[:, (runs >= 0).all(0)]
        flat = np.ravel_multi_index(tuple(runs), (n_states,) * length)
        return np.bincount(flat, minlength=n_states**length).reshape((n_states,) * length)

    starts = tally(1, np.flatnonzero(age == 0))
    if order == 1:
        return MarkovCounts(starts, tally(2, np.flatnonzero(age >= 1)))
    return MarkovCounts(starts, tally(2, np.flatnonzero(age == 1)), tally(3, np.flatnonzero(age >= 2)))


def _sequences(states: Any, n_states: int, offsets: Any) -> tuple[np.ndarray, np.ndarray]:
    states = np.asarray(states)
    if states.ndim != 1 or (len(states) and not np.issubdtype(states.dtype, np.integer)):
        raise DataError(
            f"sequences of states are one vector of whole numbers, not {states.dtype} {states.shape}",
            code="wrong-shape",
        )
    if len(states) and states.max() >= n_states:
        raise DataError(
            f"state {states.max()} at row {int(states.argmax())}; states are 0 to {n_states - 1}", code="out-of-range"
        )
    offsets = np.array([0, len(states)]) if offsets is None else np.asarray(offsets)
    if offsets.ndim != 1 or len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(states):
        raise DataError(f"offsets rise from 0 to the number of rows, {len(states)}", code="not-in-order")
    if np.any(np.diff(offsets) < 0):
        raise DataError("offsets rise; these fall", code="not-in-order")
    return states.astype(np.int64), offsets.astype(np.int64)


def _shares(counts: np.ndarray) -> np.ndarray:
    """Rows divided by their sums; a row without counts is uniform."""
    counts = np.asarray(counts, float)
    total = counts.sum(-1, keepdims=True)
    return np.divide(counts, total, out=np.full(counts.shape, 1 / counts.shape[-1]), where=total > 0)


def _probabilities(name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    values = np.asarray(values, float)
    if values.shape != shape:
        raise ModelError(f"{name} is {' × '.join(map(str, shape))}, not {values.shape}", code="wrong-shape")
    if not np.all(values >= 0) or np.any(np.abs(values.sum(-1) - 1) > _SUMS):
        raise ModelError(
            f"{name} has rows that are not probabilities: non-negative, with sum 1", code="not-probabilities"
        )
    return values


def _total_log(counts: np.ndarray, probabilities: np.ndarray) -> float:
    return float(special.xlogy(counts, probabilities).sum())


# --------------------------------------------------------------------------------------------- chains


@dataclass(frozen=True, eq=False)
class MarkovChain:
    """A chain of first order.

    Parameters
    ----------
    start : array of shape (n_states,)
    transition : array of shape (n_states, n_states)
        From row to column.

    Examples
    --------
    >>> chain = MarkovChain([0.5, 0.5], [[0.9, 0.1], [0.4, 0.6]])
    >>> chain.stationary()
    array([0.8, 0.2])
    """

    start: np.ndarray
    transition: np.ndarray

    def __post_init__(self) -> None:
        n = np.size(self.start)
        object.__setattr__(self, "start", _probabilities("start", self.start, (n,)))
        object.__setattr__(self, "transition", _probabilities("transition", self.transition, (n, n)))

    @classmethod
    def maximum_likelihood(cls, counts: MarkovCounts) -> Self:
        """The observed shares; a row without counts is uniform."""
        return cls(_shares(counts.starts), _shares(counts.transitions))

    @staticmethod
    def posterior(counts: MarkovCounts, prior: float = 1.0) -> tuple[DirichletMultinomial, DirichletMultinomial]:
        """Start and transition, Dirichlet, after Dirichlet priors with all parameters ``prior``."""
        each = (counts.starts, counts.transitions)
        start, transition = (DirichletMultinomial.of(np.full(c.shape, prior)).update(c) for c in each)
        return start, transition

    @property
    def n_states(self) -> int:
        return len(self.start)

    def simulate(self, lengths: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """States of sequences of these lengths one after the other, and their offsets."""
        offsets = np.append(0, np.cumsum(np.atleast_1d(lengths)))
        return simulate_states(HiddenChain.of(self.start, self.transition), offsets, rng), offsets

    def log_probability(self, states: Any, offsets: Any = None) -> np.ndarray:
        """Log probability of each sequence, summed over missing states."""

        states, offsets = _sequences(states, self.n_states, offsets)
        if np.all(states >= 0):
            with np.errstate(divide="ignore"):
                start, move = np.log(self.start), np.log(self.transition)
            steps = np.append(0.0, move[states[:-1], states[1:]]) if len(states) else np.zeros(0)
            first = offsets[:-1][np.diff(offsets) > 0]
            steps[first] = start[states[first]]
            sums = np.add.reduceat(np.append(steps, 0.0), offsets[:-1])
            return np.where(np.diff(offsets) > 0, sums, 0.0)
        allowed = np.where(states[:, None] >= 0, np.arange(self.n_states) == states[:, None], 1.0)
        with np.errstate(divide="ignore"):
            return smooth(HiddenChain.of(self.start, self.transition), np.log(allowed), offsets).log_evidence

    def stationary(self) -> np.ndarray:
        """The stationary distribution; see `stationary`."""
        return stationary(self.transition)


@dataclass(frozen=True, eq=False)
class SecondOrderChain:
    """A chain whose next state depends on the last two.

    Parameters
    ----------
    start : array of shape (n_states,)
    second : array of shape (n_states, n_states)
        Of the second state, given the first.
    transition : array of shape (n_states, n_states, n_states)
        Of the next state (last axis), given the one before the last (first axis) and the last.
    """

    start: np.ndarray
    second: np.ndarray
    transition: np.ndarray

    def __post_init__(self) -> None:
        n = np.size(self.start)
        object.__setattr__(self, "start", _probabilities("start", self.start, (n,)))
        object.__setattr__(self, "second", _probabilities("second", self.second, (n, n)))
        object.__setattr__(self, "transition", _probabilities("transition", self.transition, (n, n, n)))

    @classmethod
    def maximum_likelihood(cls, counts: MarkovCounts) -> Self:
        """The observed shares from second-order counts; a row without counts is uniform."""
        if counts.triples is None:
            raise ModelError("these counts are of order 1; count with order=2", code="not-applicable")
        return cls(_shares(counts.starts), _shares(counts.transitions), _shares(counts.triples))

    @staticmethod
    def posterior(
        counts: MarkovCounts, prior: float = 1.0
    ) -> tuple[DirichletMultinomial, DirichletMultinomial, DirichletMultinomial]:
        """Start, second state and transition, Dirichlet, after Dirichlet priors with all parameters ``prior``."""
        if counts.triples is None:
            raise ModelError("these counts are of order 1; count with order=2", code="not-applicable")
        each = (counts.starts, counts.transitions, counts.triples)
        start, second, transition = (DirichletMultinomial.of(np.full(c.shape, prior)).update(c) for c in each)
        return start, second, transition

    @property
    def n_states(self) -> int:
        return len(self.start)

    def hidden(self) -> HiddenChain:
        """The same as a chain of first order: states are the first state alone, and then all pairs.

        State i is the first; state n + i n + j is j after i. The last one of state s is ``last_states[s]``.
        """
        n = self.n_states
        pairs = n + np.arange(n * n)
        edges = Edges(np.arange(n + n * n + 1) * n, np.append(pairs, np.tile(pairs, n)))
        start = np.append(self.start, np.zeros(n * n))
        values = np.concatenate([self.second.ravel(), self.transition.ravel()])
        return HiddenChain.of(start, values, edges)

    @property
    def last_states(self) -> np.ndarray:
        """The last state of each state of `hidden`, by which emissions of hidden models are looked up."""
        return np.concatenate([np.arange(self.n_states), np.tile(np.arange(self.n_states), self.n_states)])

    def fold(self, transition_counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Counts on the edges of `hidden` as counts of second states and of triples."""
        n = self.n_states
        return transition_counts[: n * n].reshape(n, n), transition_counts[n * n :].reshape(n, n, n)

    def simulate(self, lengths: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """States of sequences of these lengths one after the other, and their offsets."""
        offsets = np.append(0, np.cumsum(np.atleast_1d(lengths)))
        return self.last_states[simulate_states(self.hidden(), offsets, rng)], offsets

    def log_probability(self, states: Any, offsets: Any = None) -> np.ndarray:
        """Log probability of each sequence."""
        states, offsets = _sequences(states, self.n_states, offsets)
        if np.any(states < 0):
            raise DataError(
                "a missing state in a chain of second order: smooth its hidden() chain instead", code="missing"
            )
        out = []
        for begin, end in pairwise(offsets):
            counts = count(states[begin:end], self.n_states, order=2)
            assert counts.triples is not None
            total = _total_log(counts.starts, self.start) + _total_log(counts.transitions, self.second)
            out.append(total + _total_log(counts.triples, self.transition))
        return np.array(out)


# ------------------------------------------------------------------------------------ stationary distributions


@dataclass(frozen=True, eq=False)
class Classes:
    """Communicating classes of states.

    Parameters
    ----------
    members : tuple of tuple of int
        The communicating classes, by their lowest state.
    closed : tuple of bool
        Whether a class is closed; states of the other classes are transient.
    periods : tuple of int
        Greatest common divisor of the lengths of all cycles through a state of the class; 0 if there is none.
    """

    members: tuple[tuple[int, ...], ...]
    closed: tuple[bool, ...]
    periods: tuple[int, ...]


def classes(transition: Any) -> Classes:
    """The communicating classes of a transition matrix."""
    leads = np.asarray(transition) > 0
    return _classes_of(leads.tobytes(), len(leads))


@lru_cache(maxsize=256)
def _classes_of(pattern: bytes, n: int) -> Classes:
    """Cached by the pattern of zeros, on which alone classes depend."""
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    leads = np.frombuffer(pattern, dtype=bool).reshape(n, n)
    n_classes, label = connected_components(leads, connection="strong")
    members = sorted(tuple(map(int, np.flatnonzero(label == c))) for c in range(n_classes))
    closed, periods = [], []
    for states in members:
        inside = np.array(states)
        block = leads[np.ix_(inside, inside)]
        closed.append(not leads[inside].sum() > block.sum())
        _, before = breadth_first_order(block, 0)
        level = np.zeros(len(states), int)
        for state in breadth_first_order(block, 0, return_predecessors=False)[1:]:
            level[state] = level[before[state]] + 1
        # The length of a cycle is the sum of level(i) + 1 - level(j) over its steps i to j.
        i, j = np.nonzero(block)
        periods.append(gcd(*map(int, np.abs(level[i] + 1 - level[j]))) if len(i) else 0)
    return Classes(tuple(members), tuple(closed), tuple(periods))


def stationary(transition: Any) -> np.ndarray:
    """The distribution π with π A = π.

    Transient states have probability 0. For a periodic chain it is the share of time in each state; the chain itself
    does not converge.

    Raises
    ------
    ModelError
        Several classes of states are closed, so that π depends on the start.
    """
    n = np.shape(transition)[0]
    transition = _probabilities("transition", transition, (n, n))
    partition = classes(transition)
    final = [states for states, closed in zip(partition.members, partition.closed, strict=True) if closed]
    if len(final) > 1:
        sets = ", ".join("{" + ", ".join(map(str, states)) + "}" for states in final[:4])
        raise ModelError(
            f"{len(final)} sets of states are never left ({sets}): where the chain settles depends on its start",
            code="not-identified",
        )
    out = np.zeros(n)
    out[list(final[0])] = _state_reduction(transition[np.ix_(final[0], final[0])])
    return out


def _state_reduction(transition: np.ndarray) -> np.ndarray:
    """π of an irreducible chain by elimination of states without subtractions [2]_."""
    rows, n = transition.copy(), len(transition)
    for k in range(n - 1, 0, -1):
        rows[:k, k] /= rows[k, :k].sum()
        rows[:k, :k] += np.outer(rows[:k, k], rows[k, :k])
    out = np.ones(n)
    for k in range(1, n):
        out[k] = out[:k] @ rows[:k, k]
    return out / out.sum()
