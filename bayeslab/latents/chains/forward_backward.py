r"""Hidden Markov chains: evidence, filtering, smoothing and expected counts by forward-backward.

A chain of hidden states z and rows y, one sequence or several of any lengths:

    p(z, y) = p(z_1) p(y_1 | z_1) prod_t p(z_t | z_{t-1}) p(y_t | z_t)

The rows enter as one number for each row and state, log p(y_t | z_t); a missing row has zeros. The forward pass
computes P(z_t | y_1..y_t), normalised at every row, and the product of the normalisers is the evidence [1]_. In the
backward pass each row's smoothed probabilities follow from those of the next:

    P(z_t = i | y) = P(z_t = i | y_1..y_t) sum_j a_ij P(z_{t+1} = j | y) / P(z_{t+1} = j | y_1..y_t)

The terms of the sum, times the filtered probability, are the expected transitions. By Fisher's
identity expected counts are the gradient of the log evidence with respect to log start, log
transition and log emission, which is what EM and gradient-based samplers both need.

Time is O(T N N̄) with N̄ possible next states for each state (`Edges`), memory O(T N).

References
----------
.. [1] Rabiner (1989). A tutorial on hidden Markov models and selected applications in speech
   recognition. Proceedings of the IEEE 77, 257-286.
.. [2] Kitagawa (1987). Non-Gaussian state-space modeling of nonstationary time series. JASA 82, 1032-1063
   (the backward recursion on smoothed probabilities).
.. [3] Baum, Petrie, Soules, Weiss (1970). A maximization technique occurring in the statistical
   analysis of probabilistic functions of Markov chains. Annals of Mathematical Statistics 41, 164-171.
"""

from __future__ import annotations

import itertools
import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bayeslab.errors import DataError, EvidenceError, ModelError

__all__ = [
    "GAUSSIAN_KERNEL",
    "KERNEL",
    "SPARSE_KERNEL",
    "Edges",
    "Filtered",
    "HiddenChain",
    "Smoothed",
    "diagonal_gaussian_rows",
    "filter_states",
    "pairwise",
    "predict_states",
    "predicted_states",
    "read_rows",
    "room",
    "simulate_states",
    "smooth",
    "symbol_counts",
    "weighted_moments",
]

# For `bayeslab.evidence.log_evidence`: (parameters, offsets, sizes) and (..., sizes, starts, targets).
KERNEL = "bayeslab.latents.chains.markov_kernels:log_evidence_and_gradient"
SPARSE_KERNEL = "bayeslab.latents.chains.markov_kernels:log_evidence_and_gradient_sparse"
GAUSSIAN_KERNEL = "bayeslab.latents.chains.markov_kernels:gaussian_log_evidence_and_gradient"

# With less work than this (products) there is one block; otherwise sequences are divided into this many blocks for any
# number of processors, so that sums are taken in the same order everywhere.
_WORTH_A_BLOCK = 200_000
_BLOCKS = 16


@dataclass(frozen=True, eq=False)
class Edges:
    """The possible transitions of a sparse chain, sorted by the state they leave.

    Parameters
    ----------
    starts : ndarray of shape (n_states + 1,)
        The edges of state i are numbers ``starts[i]`` to ``starts[i + 1]``.
    targets : ndarray of shape (n_edges,)
        Target state of each edge.
    """

    starts: np.ndarray
    targets: np.ndarray

    def __post_init__(self) -> None:
        starts, targets = (np.ascontiguousarray(a, np.int64) for a in (self.starts, self.targets))
        n_states = len(starts) - 1
        if n_states < 1 or starts[0] != 0 or np.any(np.diff(starts) < 0) or starts[-1] != len(targets):
            raise ModelError(
                "the starts of edges rise from 0 to the number of edges, one a state and one more", code="not-in-order"
            )
        if len(targets) and not 0 <= targets.min() <= targets.max() < n_states:
            raise ModelError(f"an edge leads to a state outside 0 to {n_states - 1}", code="out-of-range")
        pairs = np.repeat(np.arange(n_states), np.diff(starts)) * n_states + targets
        if np.any(np.diff(pairs) <= 0):
            raise ModelError("the targets of each state rise: each once, in order", code="not-in-order")
        object.__setattr__(self, "starts", starts)
        object.__setattr__(self, "targets", targets)

    @classmethod
    def of(cls, mask: Any) -> Self:
        """The edges that a matrix (n_states, n_states) of booleans allows."""
        mask = np.asarray(mask, bool)
        if mask.ndim != 2 or mask.shape[0] != mask.shape[1]:
            raise ModelError(f"a pattern of transitions is a square matrix, not {mask.shape}", code="wrong-shape")
        return cls(np.append(0, mask.sum(1).cumsum()), np.nonzero(mask)[1])

    @property
    def n_states(self) -> int:
        return len(self.starts) - 1

    @property
    def sources(self) -> np.ndarray:
        """The state each edge leaves."""
        return np.repeat(np.arange(self.n_states), np.diff(self.starts))

    def take(self, matrix: np.ndarray) -> np.ndarray:
        """The entries (..., n_edges) of matrices (..., n_states, n_states) on the edges."""
        return np.asarray(matrix)[..., self.sources, self.targets]

    def dense(self, values: np.ndarray, absent: float = 0.0) -> np.ndarray:
        """Matrices (..., n_states, n_states) with ``values`` (..., n_edges) on the edges."""
        values = np.asarray(values)
        out = np.full((*values.shape[:-1], self.n_states, self.n_states), absent, dtype=values.dtype)
        out[..., self.sources, self.targets] = values
        return out


@dataclass(frozen=True, eq=False)
class HiddenChain:
    """The law of the hidden states, in logarithms (-inf where impossible).

    Parameters
    ----------
    log_start : array of shape (n_states,) or (n_sequences, n_states)
        Log probability of the first state, one for all sequences or one each.
    log_transition : array
        (n_states, n_states), from row to column; (n_rows, n_states, n_states) where it changes with time:
        entry t leads from row t - 1 to row t, and those at the first row of a sequence are not
        used. With ``edges`` (n_edges,) or (n_rows, n_edges).
    edges : Edges, optional
        The possible transitions; without it all are.

    Notes
    -----
    Rows need not sum to one: evidence and counts are those of the product as given.

    Raises
    ------
    ModelError
        Shapes are wrong, or values are NaN or +inf.
    """

    log_start: np.ndarray
    log_transition: np.ndarray
    edges: Edges | None = None

    def __post_init__(self) -> None:
        start, transition = (_array(a) for a in (self.log_start, self.log_transition))
        if start.ndim not in (1, 2) or start.shape[-1] < 1:
            raise ModelError(
                f"log_start is (n_states,) or (n_sequences, n_states), at least one state, not {start.shape}",
                code="wrong-shape",
            )
        n_states = start.shape[-1]
        shape = (n_states, n_states) if self.edges is None else (len(self.edges.targets),)
        if self.edges is not None and self.edges.n_states != n_states:
            raise ModelError(f"log_start has {n_states} states, the edges {self.edges.n_states}", code="wrong-length")
        if transition.shape[-len(shape) :] != shape or transition.ndim not in (len(shape), len(shape) + 1):
            want = " × ".join(map(str, shape))
            raise ModelError(
                f"log_transition of {n_states} states is {want}, once or a row, not {transition.shape}",
                code="wrong-shape",
            )
        for name, values in (("log_start", start), ("log_transition", transition)):
            if np.any(np.isnan(values)) or np.any(values == np.inf):
                raise ModelError(f"{name} has entries that are NaN or +inf", code="not-finite")
        object.__setattr__(self, "log_start", start)
        object.__setattr__(self, "log_transition", transition)

    @classmethod
    def of(cls, start: Any, transition: Any, edges: Edges | None = None) -> Self:
        """From probabilities."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return cls(np.log(np.asarray(start, float)), np.log(np.asarray(transition, float)), edges)

    @property
    def n_states(self) -> int:
        return self.log_start.shape[-1]

    @property
    def varying(self) -> bool:
        """Whether transitions change with time."""
        return self.log_transition.ndim == (3 if self.edges is None else 2)

    @property
    def starts(self) -> np.ndarray:
        """log_start with its axis of sequences: (1 or n_sequences, n_states)."""
        return np.atleast_2d(self.log_start)

    def form(self, values: np.ndarray) -> Any:
        """Arguments of the kernels: values in the shape of log_transition with an axis of steps, and the edges."""
        stacked = values if self.varying else values[None]
        return stacked if self.edges is None else (stacked, self.edges.starts, self.edges.targets)

    def matrix(self, row: int | None = None) -> np.ndarray:
        """Transition probabilities as a matrix, those into ``row`` where they change with time."""
        values = np.exp(self.log_transition[row] if self.varying else self.log_transition)
        return values if self.edges is None else self.edges.dense(values)

    def flat(self, log_emission: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``(parameters, sizes)`` as `KERNEL` and `SPARSE_KERNEL` take them."""
        parameters = np.concatenate([np.ravel(a) for a in (self.log_start, self.log_transition, log_emission)])
        n_steps = len(self.log_transition) if self.varying else 1
        return parameters, np.array([self.n_states, len(self.starts), n_steps])


def _array(values: Any) -> np.ndarray:
    """A writable array, because a read-only one would trigger another compilation of the kernels."""
    return np.require(values, float, ["C", "W"])


def room(*shape: int) -> np.ndarray:
    """An array like np.empty's, in large pages where it is not small.

    NumPy requests large pages from 4 MiB on. Below, the first use of memory costs more than the recursions; requested
    but unused memory costs nothing.
    """
    size = math.prod(shape)
    return np.empty(size if size < 2**16 else max(size, 2**20))[:size].reshape(shape)


def read_rows(chain: HiddenChain, log_emission: Any, offsets: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Log emissions (n_rows, n_states) and offsets (n_sequences + 1,) checked, as kernels want them.

    Parameters
    ----------
    chain : HiddenChain
    log_emission : array of shape (n_rows, n_states)
        log p(row | state); all sequences one below the other.
    offsets : array of shape (n_sequences + 1,), optional
        Sequence s has the rows ``offsets[s]`` to ``offsets[s + 1]``; without it, one sequence.

    Raises
    ------
    DataError
        Shapes are wrong; values are NaN or +inf; or offsets do not increase from 0 to n_rows.
    """
    log_emission = _array(log_emission)
    if log_emission.ndim != 2 or log_emission.shape[1] != chain.n_states:
        raise DataError(
            f"log emissions are n_rows × {chain.n_states} states, not {log_emission.shape}", code="wrong-shape"
        )
    n_rows = len(log_emission)
    offsets = np.array([0, n_rows]) if offsets is None else np.ascontiguousarray(offsets)
    if not np.issubdtype(offsets.dtype, np.integer) or offsets.ndim != 1 or len(offsets) < 2:
        raise DataError(
            "offsets are whole numbers, the first row of each sequence and the number of rows", code="not-whole"
        )
    offsets = offsets.astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != n_rows or np.any(np.diff(offsets) < 0):
        raise DataError(
            f"offsets rise from 0 to the number of rows, {n_rows}; given {offsets[0]} to {offsets[-1]}",
            code="not-in-order",
        )
    # One pass without allocation: a sum of squares would overflow, and maxima miss NaN.
    if n_rows and not np.max(log_emission) < np.inf:
        row, state = np.argwhere(~(log_emission < np.inf))[0]
        raise DataError(
            f"log emission of row {row}, state {state} is {log_emission[row, state]}; a number or -inf is meant",
            code="not-finite",
        )
    if chain.varying and len(chain.log_transition) != n_rows:
        raise DataError(
            f"transitions for {len(chain.log_transition)} rows, emissions for {n_rows}", code="wrong-length"
        )
    if len(chain.starts) > 1 and len(chain.starts) != len(offsets) - 1:
        raise DataError(
            f"log_start for {len(chain.starts)} sequences, offsets for {len(offsets) - 1}", code="wrong-length"
        )
    return log_emission, offsets


@dataclass(frozen=True, eq=False)
class Filtered:
    """Filtered states: given each row's past and present.

    Parameters
    ----------
    log_filtered : ndarray of shape (n_rows, n_states)
        log P(z_t | y_1..y_t).
    log_predictive : ndarray of shape (n_rows,)
        log p(y_t | y_1..y_{t-1}).
    log_evidence : ndarray of shape (n_sequences,)
    """

    log_filtered: np.ndarray
    log_predictive: np.ndarray
    log_evidence: np.ndarray


@dataclass(frozen=True, eq=False)
class Smoothed:
    """Smoothed states: given all rows of the sequence.

    Parameters
    ----------
    log_evidence : ndarray of shape (n_sequences,)
        log p(y) of each sequence, -inf where it is impossible.
    log_predictive : ndarray of shape (n_rows,)
        log p(y_t | y_1..y_{t-1}).
    filtered, posterior : ndarray of shape (n_rows, n_states)
        P(z_t | y_1..y_t) and P(z_t | y); NaN where a sequence is impossible.
    start_counts : ndarray, as log_start
        Expected number of starts in each state.
    transition_counts : ndarray, as log_transition
        Expected number of each transition; impossible sequences are not counted.
    impossible : ndarray of shape (n_sequences,)
        The first row that no state can explain, or -1.
    n_products : int
        Multiplications in the forward recursion.
    """

    log_evidence: np.ndarray
    log_predictive: np.ndarray
    filtered: np.ndarray
    posterior: np.ndarray
    start_counts: np.ndarray
    transition_counts: np.ndarray
    impossible: np.ndarray
    n_products: int

    def possible(self) -> Self:
        """Return the result; raise EvidenceError naming the row if a sequence is impossible."""
        _refuse_impossible(self.impossible)
        return self


def _refuse_impossible(impossible: np.ndarray) -> None:
    bad = np.flatnonzero(impossible >= 0)
    if len(bad):
        more = f", and {len(bad) - 1} more sequences" if len(bad) > 1 else ""
        raise EvidenceError(
            f"row {impossible[bad[0]]} (sequence {bad[0]}) has probability zero given the rows before it{more}: "
            "check start, transitions and emissions for zeros",
            code="probability-zero",
        )


def smooth(chain: HiddenChain, log_emission: Any, offsets: Any = None) -> Smoothed:
    """Forward-backward over all sequences.

    Parameters
    ----------
    chain : HiddenChain
    log_emission : array of shape (n_rows, n_states)
        log p(row | state), zeros for a missing row, -inf where impossible.
    offsets : array of shape (n_sequences + 1,), optional
        Where sequences begin, and the number of rows; without it, one sequence.

    Returns
    -------
    Smoothed
        The expected counts are the gradient of ``log_evidence.sum()`` with respect to log_start,
        log_transition and (``posterior``) log_emission.

    Examples
    --------
    Two days with an umbrella; it rains on 70 % of days before, and weather stays as it is on 70 %.

    >>> chain = HiddenChain.of([0.7 * 0.7 + 0.3 * 0.3, 0.42], [[0.7, 0.3], [0.3, 0.7]])
    >>> smooth(chain, np.log([[0.9, 0.2], [0.9, 0.2]])).posterior[:, 0].round(4)
    array([0.9127, 0.8908])
    """
    from bayeslab.latents.chains.markov_kernels import smooth_sequences

    log_emission, offsets = read_rows(chain, log_emission, offsets)
    n_rows, n_states = log_emission.shape
    n_sequences = len(offsets) - 1
    filtered, posterior = room(2, n_rows, n_states)
    log_predictive, log_evidence = np.empty(n_rows), np.empty(n_sequences)
    impossible = np.empty(n_sequences, np.int64)
    transition, log_transition = chain.form(np.exp(chain.log_transition)), chain.form(chain.log_transition)
    shape = chain.log_transition.shape if chain.varying else (1, *chain.log_transition.shape)
    blocks = blocks_of(offsets, chain.log_transition.size if not chain.varying else n_states**2)
    # Counts that vary in time have separate rows, so that blocks may share the array.
    shared = np.zeros(shape) if chain.varying else None

    def run(block: tuple[int, int]) -> tuple[np.ndarray, int]:
        counts = np.zeros(shape) if shared is None else shared
        outputs = (filtered, posterior, log_predictive, log_evidence, impossible, counts)
        n = smooth_sequences(chain.starts, transition, log_transition, log_emission, offsets, block, *outputs)
        return counts, n

    done = _each(run, blocks)
    total = shared if shared is not None else np.sum([counts for counts, _ in done], axis=0)[0]
    return Smoothed(
        log_evidence,
        log_predictive,
        filtered,
        posterior,
        _start_counts(chain, posterior, offsets, impossible),
        total,
        impossible,
        sum(n for _, n in done),
    )


def blocks_of(offsets: np.ndarray, products: int) -> list[tuple[int, int]]:
    """Ranges of sequences with about equally many rows; few, so that each is worth a call."""
    n_sequences, n_rows = len(offsets) - 1, int(offsets[-1])
    n = min(n_sequences, _BLOCKS, 1 + n_rows * products // _WORTH_A_BLOCK)
    cuts = np.searchsorted(offsets, np.linspace(0, n_rows, n + 1)[1:-1])
    ends = np.unique(np.concatenate([[0], cuts, [n_sequences]]))
    return [(int(a), int(b)) for a, b in itertools.pairwise(ends)]


def _each(run: Any, blocks: list[tuple[int, int]]) -> list[Any]:
    """Results in the order of blocks, computed by threads where there are several."""
    workers = min(len(blocks), os.cpu_count() or 1)
    if workers < 2:
        return [run(block) for block in blocks]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(run, blocks))


def _start_counts(chain: HiddenChain, posterior: np.ndarray, offsets: np.ndarray, impossible: np.ndarray) -> np.ndarray:
    out = np.zeros((len(offsets) - 1, chain.n_states))
    counted = (impossible < 0) & (np.diff(offsets) > 0)
    out[counted] = posterior[offsets[:-1][counted]]
    return out if len(chain.starts) > 1 else out.sum(0).reshape(chain.log_start.shape)


def filter_states(chain: HiddenChain, log_emission: Any, offsets: Any = None) -> Filtered:
    """The forward pass alone: filtered probabilities and one-step-ahead predictive densities.

    Raises
    ------
    EvidenceError
        A sequence is impossible; the row is named.
    """
    from bayeslab.latents.chains.markov_kernels import filter_sequences

    log_emission, offsets = read_rows(chain, log_emission, offsets)
    n_sequences = len(offsets) - 1
    filtered, log_predictive = room(*log_emission.shape), np.empty(len(log_emission))
    in_logs, impossible = np.empty(n_sequences, np.bool_), np.empty(n_sequences, np.int64)
    transition, log_transition = chain.form(np.exp(chain.log_transition)), chain.form(chain.log_transition)
    inputs = (chain.starts, transition, log_transition, log_emission, offsets)
    filter_sequences(*inputs, filtered, log_predictive, in_logs, impossible)
    _refuse_impossible(impossible)
    linear = np.repeat(~in_logs, np.diff(offsets))[:, None]
    with np.errstate(divide="ignore"):
        np.log(filtered, out=filtered, where=linear)
    # The sum from 0 gives empty sequences their 0.
    sums = np.add.reduceat(np.append(log_predictive, 0.0), offsets[:-1])
    return Filtered(filtered, log_predictive, np.where(np.diff(offsets) > 0, sums, 0.0))


def pairwise(chain: HiddenChain, log_emission: Any, offsets: Any = None) -> np.ndarray:
    """P(z_{t-1}, z_t | y) at row t, shape (n_rows, n_states, n_states) or with edges (n_rows, n_edges).

    Zero at the first row of a sequence. The result needs much memory; `smooth` computes its sums without it.
    """
    log_emission, offsets = read_rows(chain, log_emission, offsets)
    if not chain.varying:
        each = np.broadcast_to(chain.log_transition, (len(log_emission), *chain.log_transition.shape))
        chain = HiddenChain(chain.log_start, each, chain.edges)
    return smooth(chain, log_emission, offsets).possible().transition_counts


def predicted_states(chain: HiddenChain, filtered: np.ndarray, offsets: Any = None) -> np.ndarray:
    """P(z_t | y_1..y_{t-1}) of every row, from the filtered probabilities of the rows before."""
    filtered, offsets = read_rows(chain, filtered, offsets)
    out = np.empty_like(filtered)
    each = np.exp(chain.log_transition)
    each = each if chain.edges is None else chain.edges.dense(each)
    out[1:] = np.einsum("ti,tij->tj", filtered[:-1], each[1:]) if chain.varying else filtered[:-1] @ each
    begun = np.diff(offsets) > 0
    out[offsets[:-1][begun]] = np.exp(np.broadcast_to(chain.starts, (len(begun), chain.n_states))[begun])
    return out


def predict_states(chain: HiddenChain, last: np.ndarray, n_steps: int) -> np.ndarray:
    """P(z_{T+1}), ..., P(z_{T+n_steps}) given all rows, shape (n_steps, n_states); ``last`` is P(z_T | y).

    Raises
    ------
    ModelError
        Transitions vary in time, so that those after the last row are unknown.
    """
    if chain.varying:
        raise ModelError(
            "transitions change with time; predict with a chain of the transitions to come", code="not-applicable"
        )
    matrix, out = chain.matrix(), np.empty((n_steps, chain.n_states))
    for h in range(n_steps):
        last = out[h] = last @ matrix
    return out


def simulate_states(chain: HiddenChain, offsets: Any, rng: np.random.Generator) -> np.ndarray:
    """States (n_rows,) of sequences with these offsets; -1 after a state that leads nowhere."""
    from bayeslab.latents.chains.markov_kernels import simulate

    n_rows = int(np.asarray(offsets)[-1])
    _, offsets = read_rows(chain, np.zeros((n_rows, chain.n_states)), offsets)
    states = np.empty(n_rows, np.int64)
    simulate(chain.starts, chain.form(np.exp(chain.log_transition)), offsets, rng.random(n_rows), states)
    return states


def diagonal_gaussian_rows(values: Any, mean: Any, standard_deviation: Any) -> np.ndarray:
    """log p(row | state), (n_rows, n_states), of independent normal columns; NaN cells contribute nothing.

    Parameters
    ----------
    values : array of shape (n_rows, n_columns)
    mean, standard_deviation : array of shape (n_states, n_columns)
    """
    from bayeslab.latents.chains import markov_kernels as kernels

    values, mean, deviation = (np.ascontiguousarray(a, float) for a in (values, mean, standard_deviation))
    out = room(len(values), len(mean))
    kernels.diagonal_gaussian_rows(values, mean, deviation, out)
    return out


def weighted_moments(posterior: np.ndarray, values: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weight, mean and variance (n_states, n_columns) of the rows by their state probabilities, without NaN cells.

    The M-step of independent normal columns. A state without weight has NaN mean and variance.
    """
    from bayeslab.latents.chains import markov_kernels as kernels

    values = np.ascontiguousarray(values, float)
    posterior = np.ascontiguousarray(posterior)
    shape = (values.shape[1], posterior.shape[1])

    def sums(centre: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        out = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        kernels.weighted_sums(posterior, values, centre, *out)
        return out

    # Squares are summed around the means to avoid cancellation; the error of the first means is corrected.
    with np.errstate(divide="ignore", invalid="ignore"):
        weight, first, _ = sums(np.zeros(shape))
        mean = first / weight
        weight, first, second = sums(mean)
        shift = first / weight
        variance = np.maximum(second / weight - shift**2, 0)
    return weight.T.copy(), (mean + shift).T.copy(), variance.T.copy()


def symbol_counts(posterior: np.ndarray, symbols: Any, n_symbols: int) -> np.ndarray:
    """Expected counts (n_states, n_symbols) of symbols 0 to n_symbols - 1; negative ones are missing."""
    from bayeslab.latents.chains import markov_kernels as kernels

    symbols = np.ascontiguousarray(symbols, np.int64)
    if len(symbols) != len(posterior) or np.any(symbols >= n_symbols):
        raise DataError(f"symbols are one a row, less than {n_symbols}", code="out-of-range")
    counts = np.zeros((n_symbols, posterior.shape[1]))
    kernels.symbol_counts(np.ascontiguousarray(posterior), symbols, counts)
    return counts.T.copy()
