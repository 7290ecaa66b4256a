"""Compiled recursions over the steps of hidden Markov chains.

A chain's transitions come in one of two forms, told apart by type when a kernel is compiled: an array
(n_steps, n_states, n_states), or a tuple (values (n_steps, n_edges), row starts, targets) that holds
only the possible transitions. ``n_steps`` is 1 where all steps share one matrix; otherwise entry t
leads from row t - 1 to row t.

Probabilities are filtered on the linear scale, normalised at every row. This is exact as long as no possible state
underflows and later becomes relevant. A lost state does no harm if all of its successors are also reached from other
states; otherwise the sequence is recomputed with logarithms.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload

from bayeslab.compiled import inner, kernel
from bayeslab.constants import HALF_LOG_2PI
from bayeslab.latents.chains.log_kernels import log_add

__all__ = [
    "best_path",
    "best_paths",
    "diagonal_gaussian_rows",
    "draw_sequences",
    "filter_sequences",
    "gaussian_log_evidence_and_gradient",
    "log_evidence_and_gradient",
    "log_evidence_and_gradient_sparse",
    "path_log_probability",
    "sample_path",
    "simulate",
    "smooth_sequences",
    "symbol_counts",
    "weighted_sums",
]

# A state whose weight, predicted or filtered, is below this is lost: it then has less than _LOST / _SUSPECT = 1e-60.
_LOST = 1e-80
# In a row as unlikely as this, given its likeliest state, weights that matter may be too small.
_SUSPECT = 1e-20
# A loss is harmless where what the state leads to has more than this, times the transition, from others.
_DWARFS = 1e-40
# Finite logarithms of transitions below minus this may be zero on the linear scale, those above it infinite.
_WIDE = 230.0
# Up to so many states rows of a matrix are read across.
_FEW = 12
_CHUNK = 256

_FAST = {"reassoc", "contract", "nsz"}


# ------------------------------------------------------------------------- transitions, dense and sparse


def edges(transition: Any, i: Any) -> tuple[int, int]:
    """The range of the edges that leave state i."""
    raise NotImplementedError


@overload(edges)
def _edges(transition: Any, i: Any) -> Any:
    def dense(transition: Any, i: Any) -> Any:
        return 0, transition.shape[1]

    def sparse(transition: Any, i: Any) -> Any:
        return transition[1][i], transition[1][i + 1]

    return dense if isinstance(transition, types.Array) else sparse


def target(transition: Any, e: Any) -> int:
    """Where edge e leads."""
    raise NotImplementedError


@overload(target)
def _target(transition: Any, e: Any) -> Any:
    def dense(transition: Any, e: Any) -> Any:
        return e

    def sparse(transition: Any, e: Any) -> Any:
        return transition[2][e]

    return dense if isinstance(transition, types.Array) else sparse


def value(transition: Any, step: Any, i: Any, e: Any) -> float:
    """The number on edge e of state i."""
    raise NotImplementedError


@overload(value)
def _value(transition: Any, step: Any, i: Any, e: Any) -> Any:
    def dense(transition: Any, step: Any, i: Any, e: Any) -> Any:
        return transition[step, i, e]

    def sparse(transition: Any, step: Any, i: Any, e: Any) -> Any:
        return transition[0][step, e]

    return dense if isinstance(transition, types.Array) else sparse


def between(transition: Any, step: Any, i: Any, j: Any, absent: float) -> float:
    """The number from state i to state j, ``absent`` where no edge leads there."""
    raise NotImplementedError


@overload(between, inline="always")
def _between(transition: Any, step: Any, i: Any, j: Any, absent: Any) -> Any:
    def dense(transition: Any, step: Any, i: Any, j: Any, absent: Any) -> Any:
        return transition[step, i, j]

    def sparse(transition: Any, step: Any, i: Any, j: Any, absent: Any) -> Any:
        for e in range(transition[1][i], transition[1][i + 1]):
            if transition[2][e] == j:
                return transition[0][step, e]
        return absent

    return dense if isinstance(transition, types.Array) else sparse


def add_count(transition: Any, counts: np.ndarray, step: Any, i: Any, e: Any, amount: float) -> None:
    """Add to the count of edge e of state i."""
    raise NotImplementedError


@overload(add_count)
def _add_count(transition: Any, counts: Any, step: Any, i: Any, e: Any, amount: Any) -> Any:
    def dense(transition: Any, counts: Any, step: Any, i: Any, e: Any, amount: Any) -> Any:
        counts[step, i, e] += amount

    def sparse(transition: Any, counts: Any, step: Any, i: Any, e: Any, amount: Any) -> Any:
        counts[step, e] += amount

    return dense if isinstance(transition, types.Array) else sparse


def values_of(transition: Any) -> np.ndarray:
    """All numbers of a transition, one row a step."""
    raise NotImplementedError


@overload(values_of)
def _values_of(transition: Any) -> Any:
    def dense(transition: Any) -> Any:
        return transition

    def sparse(transition: Any) -> Any:
        return transition[0]

    return dense if isinstance(transition, types.Array) else sparse


# ------------------------------------------------------------------------------------------ one step


def predict(transition: Any, step: Any, table: Any, row: Any, after: Any) -> int:
    """after_j = sum_i b_i a_ij with b the row of a table. Returns the number of products."""
    raise NotImplementedError


@overload(predict, inline="always")
def _predict(transition: Any, step: Any, table: Any, row: Any, after: Any) -> Any:
    def dense(transition: Any, step: Any, table: Any, row: Any, after: Any) -> Any:
        n = len(after)
        if n <= _FEW:
            # Sums stay in registers; in the other order each would wait for memory n times.
            for j in range(n):
                total = 0.0
                for i in range(n):
                    total += table[row, i] * transition[step, i, j]
                after[j] = total
        else:
            after[:] = 0.0
            for i in range(n):
                weight = table[row, i]
                for j in range(n):
                    after[j] += weight * transition[step, i, j]
        return n * n

    def sparse(transition: Any, step: Any, table: Any, row: Any, after: Any) -> Any:
        values, starts, targets = transition
        work = 0
        after[:] = 0.0
        for i in range(len(after)):
            work += starts[i + 1] - starts[i]
            for e in range(starts[i], starts[i + 1]):
                after[targets[e]] += table[row, i] * values[step, e]
        return work

    return dense if isinstance(transition, types.Array) else sparse


def withdraw(transition: Any, step: Any, table: Any, row: Any, ratio: Any, counts: Any, out: Any) -> None:
    """out_i = sum_j a_ij ratio_j, and counts_ij += b_i a_ij ratio_j with b the row of a table."""
    raise NotImplementedError


@overload(withdraw, inline="always")
def _withdraw(transition: Any, step: Any, table: Any, row: Any, ratio: Any, counts: Any, out: Any) -> Any:
    def dense(transition: Any, step: Any, table: Any, row: Any, ratio: Any, counts: Any, out: Any) -> Any:
        n = len(out)
        for i in range(n):
            total, weight = 0.0, table[row, i]
            for j in range(n):
                flow = transition[step, i, j] * ratio[j]
                total += flow
                counts[step, i, j] += weight * flow
            out[i] = total

    def sparse(transition: Any, step: Any, table: Any, row: Any, ratio: Any, counts: Any, out: Any) -> Any:
        values, starts, targets = transition
        for i in range(len(out)):
            total, weight = 0.0, table[row, i]
            for e in range(starts[i], starts[i + 1]):
                flow = values[step, e] * ratio[targets[e]]
                total += flow
                counts[step, e] += weight * flow
            out[i] = total

    return dense if isinstance(transition, types.Array) else sparse


def ascend(log_transition: Any, step: Any, scores: Any, row: Any, log_emission: Any) -> None:
    """The scores of a row, max_i b_i + log a_ij with b the row before, plus the row's log emissions."""
    raise NotImplementedError


@overload(ascend, inline="always")
def _ascend(log_transition: Any, step: Any, scores: Any, row: Any, log_emission: Any) -> Any:
    def dense(log_transition: Any, step: Any, scores: Any, row: Any, log_emission: Any) -> Any:
        n = scores.shape[1]
        if n <= _FEW:
            for j in range(n):
                best = -np.inf
                for i in range(n):
                    best = max(best, scores[row - 1, i] + log_transition[step, i, j])
                scores[row, j] = best + log_emission[row, j]
        else:
            scores[row] = -np.inf
            for i in range(n):
                before = scores[row - 1, i]
                for j in range(n):
                    scores[row, j] = max(scores[row, j], before + log_transition[step, i, j])
            for j in range(n):
                scores[row, j] += log_emission[row, j]

    def sparse(log_transition: Any, step: Any, scores: Any, row: Any, log_emission: Any) -> Any:
        values, starts, targets = log_transition
        scores[row] = -np.inf
        for i in range(scores.shape[1]):
            for e in range(starts[i], starts[i + 1]):
                j = targets[e]
                scores[row, j] = max(scores[row, j], scores[row - 1, i] + values[step, e])
        for j in range(scores.shape[1]):
            scores[row, j] += log_emission[row, j]

    return dense if isinstance(log_transition, types.Array) else sparse


@inner(error_model="numpy")
def _predict_logs(transition: Any, step: int, before: np.ndarray, after: np.ndarray) -> None:
    """`predict` on logarithms."""
    after[:] = -np.inf
    for i in range(len(before)):
        first, last = edges(transition, i)
        if before[i] > -np.inf:
            for e in range(first, last):
                j = target(transition, e)
                after[j] = log_add(after[j], before[i] + value(transition, step, i, e))


@inner(error_model="numpy")
def _withdraw_logs(
    transition: Any, step: int, before: np.ndarray, ratio: np.ndarray, counts: np.ndarray, out: np.ndarray
) -> None:
    """`withdraw` on logarithms; counts stay on the linear scale."""
    for i in range(len(before)):
        first, last = edges(transition, i)
        out[i] = -np.inf
        for e in range(first, last):
            flow = value(transition, step, i, e) + ratio[target(transition, e)]
            out[i] = log_add(out[i], flow)
            add_count(transition, counts, step, i, e, math.exp(before[i] + flow))


# ----------------------------------------------------------------------------- forward and backward


@inner
def _tiny_edges(log_transition: Any, n_states: int) -> np.ndarray:
    """States that a possible transition enters which may be zero on the linear scale."""
    out = np.zeros(n_states, np.bool_)
    for step in range(values_of(log_transition).shape[0]):
        for i in range(n_states):
            first, last = edges(log_transition, i)
            for e in range(first, last):
                if -np.inf < value(log_transition, step, i, e) < -_WIDE:
                    out[target(log_transition, e)] = True
    return out


@inner
def _huge(logs: np.ndarray) -> bool:
    for number in logs.flat:  # noqa: SIM110 (numba)
        if number > _WIDE:
            return True
    return False


@intrinsic
def _as_float(typing: Any, bits: Any) -> Any:
    """The number with these 64 bits."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), build


_bits: Any = _as_float


@inner(fastmath={"contract"}, error_model="numpy")
def _exp(x: float) -> float:
    """exp of a number that is not positive, to the last digit but one; unlike the library's, several at once.

    2^k e^r with |r| ≤ log(2) / 2, log 2 in two parts (Cody and Waite, 1980), and Taylor's series for e^r.
    """
    y = max(x, -708.0)
    # Adding 1.5 · 2^52 rounds to a whole number.
    k = (y * 1.4426950408889634 + 6755399441055744.0) - 6755399441055744.0
    r = (y - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10
    p = 1.6059043836821613e-10
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 1.984126984126984e-04
    p = p * r + 1.388888888888889e-03
    p = p * r + 8.333333333333333e-03
    p = p * r + 4.1666666666666664e-02
    p = p * r + 1.6666666666666666e-01
    p = p * r + 0.5
    out: float = (p * r * r + r + 1.0) * _bits((np.int64(k) + 1023) << 52)
    small = 0.0 if x < -708.0 else x
    return out if x >= -708.0 else small


@inner(error_model="numpy")
def _weigh(log_emission: np.ndarray, weights: np.ndarray, peaks: np.ndarray) -> None:
    """weights = likelihoods in the unit of each row's highest, whose log goes to ``peaks``."""
    n_rows, n_states = log_emission.shape
    for t in range(n_rows):
        peak = -np.inf
        for j in range(n_states):
            peak = max(peak, log_emission[t, j])
        peaks[t] = peak
        # Nothing less nothing is not a number.
        unit = peak if peak > -np.inf else 0.0
        for j in range(n_states):
            weights[t, j] = log_emission[t, j] - unit
    flat = weights.reshape(n_rows * n_states)
    for i in range(len(flat)):
        flat[i] = _exp(flat[i])


@inner(error_model="numpy")
def _weigh_reachable(possible: np.ndarray, log_emission: np.ndarray, weights: np.ndarray) -> float:
    """The weights of one row in the unit of the likeliest state that can be; the log of that unit."""
    peak = -np.inf
    for j in range(len(possible)):
        if possible[j]:
            peak = max(peak, log_emission[j])
    unit = peak if peak > -np.inf else 0.0
    for j in range(len(possible)):
        # Where the state itself is impossible its likelihood may be any number, so that it is cut.
        weights[j] = _exp(min(log_emission[j] - unit, 0.0))
    return peak


@inner
def _misses(transition: Any, step: int, lost: np.ndarray, predicted: np.ndarray) -> bool:
    """Whether a lost state leads to one that others do not lead to."""
    for i in range(len(lost)):
        if lost[i]:
            first, last = edges(transition, i)
            for e in range(first, last):
                if predicted[target(transition, e)] < _DWARFS * value(transition, step, i, e):
                    return True
    return False


@inner(fastmath=_FAST, error_model="numpy")
def _forward(
    log_start: np.ndarray,
    transition: Any,
    tiny: np.ndarray,
    log_emission: np.ndarray,
    begin: int,
    filtered: np.ndarray,
    weights: np.ndarray,
    log_predictive: np.ndarray,
) -> tuple[bool, int]:
    """Filter the rows of one sequence, which begins at row ``begin`` of all.

    ``weights`` gets p(row | state) / p(row | rows before), in the unit of the likeliest state. False
    where a possible state may have been lost to underflow; and the number of products.
    """
    n_rows, n_states = log_emission.shape
    varying = values_of(transition).shape[0] > 1
    predicted, losses, work = np.exp(log_start), False, 0
    lost, possible = np.zeros(n_states, np.bool_), np.zeros(n_states, np.bool_)
    _weigh(log_emission, weights, log_predictive)
    for t in range(n_rows):
        if t > 0:
            step = begin + t if varying else 0
            work += predict(transition, step, filtered, t - 1, predicted)
            if losses and _misses(transition, step, lost, predicted):
                return False, work
        total, least = 0.0, np.inf
        for j in range(n_states):
            filtered[t, j] = predicted[j] * weights[t, j]
            least = min(least, filtered[t, j])
            total += filtered[t, j]
        losses = False
        # As weights are 1 at most and the total is above _SUSPECT, a small prediction shows in the product.
        if not total >= _SUSPECT or least < _LOST / _SUSPECT * total:
            for j in range(n_states):
                possible[j] = predicted[j] > 0.0 or (tiny[j] if t > 0 else log_start[j] > -np.inf)
            if not total >= _SUSPECT:
                log_predictive[t], total = _weigh_reachable(possible, log_emission[t], weights[t]), 0.0
                for j in range(n_states):
                    filtered[t, j] = predicted[j] * weights[t, j]
                    total += filtered[t, j]
                if not total >= _SUSPECT:
                    return False, work
            for j in range(n_states):
                lost[j] = False
                if predicted[j] < _LOST or filtered[t, j] < _LOST * total:
                    filtered[t, j] = 0.0
                    lost[j] = possible[j] and log_emission[t, j] > -np.inf
                    losses |= lost[j]
        scale = 1.0 / total
        for j in range(n_states):
            weights[t, j] *= scale
            filtered[t, j] *= scale
        log_predictive[t] += math.log(total)
    return True, work


@inner(fastmath=_FAST, error_model="numpy")
def _backward(transition: Any, begin: int, filtered: np.ndarray, posterior: np.ndarray, counts: np.ndarray) -> None:
    """Smooth the rows of one sequence; ``posterior`` holds the weights of `_forward` at first."""
    n_rows, n_states = filtered.shape
    varying = values_of(transition).shape[0] > 1
    future, ratio = np.ones(n_states), np.empty(n_states)
    for t in range(n_rows - 1, -1, -1):
        for j in range(n_states):
            # Without the condition an unreachable state that fits well would grow to infinity.
            ratio[j] = posterior[t, j] * future[j] if filtered[t, j] > 0.0 else 0.0
            posterior[t, j] = filtered[t, j] * future[j]
        if t > 0:
            withdraw(transition, begin + t if varying else 0, filtered, t - 1, ratio, counts, future)


@inner(error_model="numpy")
def _forward_logs(
    log_start: np.ndarray,
    log_transition: Any,
    log_emission: np.ndarray,
    begin: int,
    end: int,
    log_filtered: np.ndarray,
    log_predictive: np.ndarray,
) -> int:
    """`_forward` on logarithms; the first impossible row, or -1."""
    n_states = log_emission.shape[1]
    varying = values_of(log_transition).shape[0] > 1
    predicted = log_start.copy()
    for t in range(begin, end):
        if t > begin:
            _predict_logs(log_transition, t if varying else 0, log_filtered[t - 1], predicted)
        total = -np.inf
        for j in range(n_states):
            log_filtered[t, j] = predicted[j] + log_emission[t, j]
            total = log_add(total, log_filtered[t, j])
        log_predictive[t] = total
        if total == -np.inf:
            return t
        for j in range(n_states):
            log_filtered[t, j] -= total
    return -1


@inner(error_model="numpy")
def _backward_logs(
    log_transition: Any,
    log_emission: np.ndarray,
    begin: int,
    end: int,
    log_filtered: np.ndarray,
    log_predictive: np.ndarray,
    posterior: np.ndarray,
    counts: np.ndarray,
) -> None:
    n_states = log_filtered.shape[1]
    varying = values_of(log_transition).shape[0] > 1
    future, ratio = np.zeros(n_states), np.empty(n_states)
    for t in range(end - 1, begin - 1, -1):
        for j in range(n_states):
            possible = log_filtered[t, j] > -np.inf
            ratio[j] = log_emission[t, j] - log_predictive[t] + future[j] if possible else -np.inf
            posterior[t, j] = math.exp(log_filtered[t, j] + future[j]) if possible else 0.0
        if t > begin:
            _withdraw_logs(log_transition, t if varying else 0, log_filtered[t - 1], ratio, counts, future)


@inner
def _filter(
    s: int,
    log_start: np.ndarray,
    transition: Any,
    log_transition: Any,
    log_emission: np.ndarray,
    offsets: np.ndarray,
    tiny: np.ndarray,
    huge: bool,
    filtered: np.ndarray,
    weights: np.ndarray,
    log_predictive: np.ndarray,
) -> tuple[bool, int, int]:
    """Filter sequence s: whether ``filtered`` then holds logarithms, the first impossible row or -1, products."""
    begin, end = offsets[s], offsets[s + 1]
    start = log_start[s if log_start.shape[0] > 1 else 0]
    fine, work = False, 0
    if not (huge or _huge(start)):
        fine, work = _forward(
            start,
            transition,
            tiny,
            log_emission[begin:end],
            begin,
            filtered[begin:end],
            weights[begin:end],
            log_predictive[begin:end],
        )
    if fine:
        return False, -1, work
    row = _forward_logs(start, log_transition, log_emission, begin, end, filtered, log_predictive)
    return True, row, work


@kernel
def filter_sequences(
    log_start: np.ndarray,
    transition: Any,
    log_transition: Any,
    log_emission: np.ndarray,
    offsets: np.ndarray,
    filtered: np.ndarray,
    log_predictive: np.ndarray,
    in_logs: np.ndarray,
    impossible: np.ndarray,
) -> None:
    """Forward over all sequences; ``filtered`` holds logarithms where ``in_logs`` says so."""
    huge, tiny = _huge(values_of(log_transition)), _tiny_edges(log_transition, log_emission.shape[1])
    weights = np.empty(log_emission.shape)
    for s in range(len(offsets) - 1):
        in_logs[s], impossible[s], _ = _filter(
            s,
            log_start,
            transition,
            log_transition,
            log_emission,
            offsets,
            tiny,
            huge,
            filtered,
            weights,
            log_predictive,
        )


@kernel
def smooth_sequences(
    log_start: np.ndarray,
    transition: Any,
    log_transition: Any,
    log_emission: np.ndarray,
    offsets: np.ndarray,
    sequences: tuple[Any, int],
    filtered: np.ndarray,
    posterior: np.ndarray,
    log_predictive: np.ndarray,
    log_evidence: np.ndarray,
    impossible: np.ndarray,
    counts: np.ndarray,
) -> int:
    """Forward and backward over a range of sequences; every array after ``sequences`` is filled.

    ``impossible`` gets the first row of a sequence that cannot be, or -1; nothing is counted there.
    Returns the number of products in the forward recursion.
    """
    huge, work = _huge(values_of(log_transition)), 0
    tiny = _tiny_edges(log_transition, log_emission.shape[1])
    for s in range(sequences[0], sequences[1]):
        begin, end = offsets[s], offsets[s + 1]
        in_logs, row, products = _filter(
            s,
            log_start,
            transition,
            log_transition,
            log_emission,
            offsets,
            tiny,
            huge,
            filtered,
            posterior,
            log_predictive,
        )
        work += products
        impossible[s] = row
        if row >= 0:
            filtered[begin:row] = np.exp(filtered[begin:row])
            filtered[row:end] = np.nan
            log_predictive[row + 1 : end] = np.nan
            posterior[begin:end] = np.nan
            log_evidence[s] = -np.inf
            continue
        log_evidence[s] = log_predictive[begin:end].sum()
        if in_logs:
            _backward_logs(log_transition, log_emission, begin, end, filtered, log_predictive, posterior, counts)
            filtered[begin:end] = np.exp(filtered[begin:end])
        else:
            _backward(transition, begin, filtered[begin:end], posterior[begin:end], counts)
    return work


# ---------------------------------------------------------------------------- evidence and gradient


@inner
def _evidence(
    log_start: np.ndarray,
    transition: Any,
    log_transition: Any,
    log_emission: np.ndarray,
    offsets: np.ndarray,
    gradient: np.ndarray,
    counts: np.ndarray,
) -> float:
    """Total log evidence; ``gradient`` gets the expected counts. All zero where a sequence is impossible."""
    n_rows, n_states = log_emission.shape
    n_sequences, n_starts = len(offsets) - 1, log_start.shape[0]
    posterior = gradient[gradient.size - n_rows * n_states :].reshape(n_rows, n_states)
    log_evidence, impossible = np.empty(n_sequences), np.empty(n_sequences, np.int64)
    smooth_sequences(
        log_start,
        transition,
        log_transition,
        log_emission,
        offsets,
        (np.int64(0), n_sequences),  # a literal 0 would be a type of its own, and the kernel compiled once more
        np.empty((n_rows, n_states)),
        posterior,
        np.empty(n_rows),
        log_evidence,
        impossible,
        counts,
    )
    for s in range(n_sequences):
        if impossible[s] >= 0:
            gradient[:] = 0.0
            return -np.inf
        if offsets[s] < offsets[s + 1]:
            at = s * n_states if n_starts > 1 else 0
            gradient[at : at + n_states] += posterior[offsets[s]]
    return log_evidence.sum()


@kernel
def log_evidence_and_gradient(
    parameters: np.ndarray, offsets: np.ndarray, sizes: np.ndarray
) -> tuple[float, np.ndarray]:
    """Log evidence of all sequences and its gradient; transitions are matrices.

    ``parameters`` are log start (n_starts × n_states), log transition (n_steps × n_states × n_states)
    and log emission (n_rows × n_states), one after the other and each as a free variable; ``sizes``
    is (n_states, n_starts, n_steps), with n_starts 1 or the number of sequences, n_steps 1 or n_rows.
    """
    n_states, n_starts, n_steps, n_rows = sizes[0], sizes[1], sizes[2], offsets[-1]
    first = n_starts * n_states
    second = first + n_steps * n_states**2
    gradient = np.zeros(parameters.size)
    log_transition = parameters[first:second].reshape(n_steps, n_states, n_states)
    evidence = _evidence(
        parameters[:first].reshape(n_starts, n_states),
        np.exp(log_transition),
        log_transition,
        parameters[second:].reshape(n_rows, n_states),
        offsets,
        gradient,
        gradient[first:second].reshape(n_steps, n_states, n_states),
    )
    return evidence, gradient


@kernel
def log_evidence_and_gradient_sparse(
    parameters: np.ndarray, offsets: np.ndarray, sizes: np.ndarray, starts: np.ndarray, targets: np.ndarray
) -> tuple[float, np.ndarray]:
    """`log_evidence_and_gradient` with log transitions n_steps × n_edges.

    State i has the edges ``starts[i]`` to ``starts[i + 1]``, and edge e leads to ``targets[e]``.
    """
    n_states, n_starts, n_steps, n_rows = sizes[0], sizes[1], sizes[2], offsets[-1]
    first = n_starts * n_states
    second = first + n_steps * len(targets)
    gradient = np.zeros(parameters.size)
    log_transition = parameters[first:second].reshape(n_steps, len(targets))
    evidence = _evidence(
        parameters[:first].reshape(n_starts, n_states),
        (np.exp(log_transition), starts, targets),
        (log_transition, starts, targets),
        parameters[second:].reshape(n_rows, n_states),
        offsets,
        gradient,
        gradient[first:second].reshape(n_steps, len(targets)),
    )
    return evidence, gradient


# ------------------------------------------------------------------------------------------- paths


@kernel(error_model="numpy")
def best_path(
    log_start: np.ndarray,
    log_transition: Any,
    log_emission: np.ndarray,
    offsets: np.ndarray,
    scores: np.ndarray,
    states: np.ndarray,
    log_probability: np.ndarray,
) -> None:
    """Viterbi's path of every sequence; -1 where a sequence is impossible. Ties go to the lower state.

    ``scores`` (n_rows, n_states) gets the log probability of the best path to each state. The
    predecessors are found again on the way back: one state a row, instead of all on the way forth.
    """
    for s in range(len(offsets) - 1):
        begin, end = offsets[s], offsets[s + 1]
        if begin == end:
            log_probability[s] = 0.0
            continue
        start = log_start[s if log_start.shape[0] > 1 else 0]
        _best_scores(start, log_transition, log_emission[begin:end], begin, scores[begin:end])
        log_probability[s] = _trace_back(log_transition, begin, scores[begin:end], states[begin:end])


@inner(error_model="numpy")
def _best_scores(
    log_start: np.ndarray, log_transition: Any, log_emission: np.ndarray, begin: int, scores: np.ndarray
) -> None:
    """Viterbi's scores of one sequence, which begins at row ``begin`` of all."""
    n_rows, _ = scores.shape
    varying = values_of(log_transition).shape[0] > 1
    scores[0] = log_start + log_emission[0]
    for t in range(1, n_rows):
        ascend(log_transition, begin + t if varying else 0, scores, t, log_emission)


@inner(error_model="numpy")
def _trace_back(log_transition: Any, begin: int, scores: np.ndarray, states: np.ndarray) -> float:
    """The path that reaches the best of the last scores, and that score."""
    n_rows, n_states = scores.shape
    varying = values_of(log_transition).shape[0] > 1
    state = int(np.argmax(scores[n_rows - 1]))
    score: float = scores[n_rows - 1, state]
    if score == -np.inf:
        states[:] = -1
        return score
    states[n_rows - 1] = state
    for t in range(n_rows - 1, 0, -1):
        best, step, came = -np.inf, begin + t if varying else 0, 0
        for i in range(n_states):
            candidate = scores[t - 1, i] + between(log_transition, step, i, state, -np.inf)
            # Chosen without a branch, which would be guessed wrong half the time.
            came = i if candidate > best else came
            best = candidate if candidate > best else best
        state = came
        states[t - 1] = state
    return score


@kernel(error_model="numpy")
def best_paths(
    log_start: np.ndarray,
    log_transition: Any,
    log_emission: np.ndarray,
    offsets: np.ndarray,
    states: np.ndarray,
    log_probability: np.ndarray,
) -> None:
    """The n best paths of every sequence: ``states`` (n_paths, n_rows), ``log_probability`` (n_paths, n_sequences).

    Each state keeps its n best histories (list Viterbi); where there are fewer paths, -1 and -inf.
    """
    n_paths, n_rows = states.shape
    n_states = log_emission.shape[1]
    varying = values_of(log_transition).shape[0] > 1
    came = np.empty((n_rows, n_states, n_paths), np.int32)
    before, after = np.empty((n_states, n_paths)), np.empty((n_states, n_paths))
    for s in range(len(offsets) - 1):
        begin, end = offsets[s], offsets[s + 1]
        if begin == end:
            log_probability[:, s] = -np.inf
            log_probability[0, s] = 0.0
            continue
        before[:] = -np.inf
        before[:, 0] = log_start[s if log_start.shape[0] > 1 else 0] + log_emission[begin]
        for t in range(begin + 1, end):
            after[:] = -np.inf
            for i in range(n_states):
                first, last = edges(log_transition, i)
                for e in range(first, last):
                    j = target(log_transition, e)
                    move = value(log_transition, t if varying else 0, i, e) + log_emission[t, j]
                    for rank in range(n_paths):
                        score = before[i, rank] + move
                        if not score > after[j, n_paths - 1]:
                            break
                        _insert(after[j], came[t, j], score, i * n_paths + rank)
            before, after = after, before
        best, last_states = np.full(n_paths, -np.inf), np.empty(n_paths, np.int32)
        for i in range(n_states):
            for rank in range(n_paths):
                if not before[i, rank] > best[n_paths - 1]:
                    break
                _insert(best, last_states, before[i, rank], i * n_paths + rank)
        for path in range(n_paths):
            log_probability[path, s] = best[path]
            states[path, begin:end] = -1
            if best[path] > -np.inf:
                place = last_states[path]
                for t in range(end - 1, begin - 1, -1):
                    states[path, t] = place // n_paths
                    if t > begin:
                        place = came[t, place // n_paths, place % n_paths]


@inner
def _insert(scores: np.ndarray, places: np.ndarray, score: float, place: int) -> None:
    """Into a falling list, after its equals; the last falls out."""
    at = len(scores) - 1
    while at > 0 and scores[at - 1] < score:
        scores[at], places[at] = scores[at - 1], places[at - 1]
        at -= 1
    scores[at], places[at] = score, place


@kernel(error_model="numpy")
def sample_path(
    log_transition: Any, log_filtered: np.ndarray, offsets: np.ndarray, uniforms: np.ndarray, states: np.ndarray
) -> None:
    """One path of every sequence from its posterior, backwards, one uniform number a row."""
    n_states = log_filtered.shape[1]
    varying = values_of(log_transition).shape[0] > 1
    weights = np.empty(n_states)
    for s in range(len(offsets) - 1):
        for t in range(offsets[s + 1] - 1, offsets[s] - 1, -1):
            peak = -np.inf
            for i in range(n_states):
                weights[i] = log_filtered[t, i]
                if t < offsets[s + 1] - 1:
                    weights[i] += between(log_transition, t + 1 if varying else 0, i, states[t + 1], -np.inf)
                peak = max(peak, weights[i])
            total = 0.0
            for i in range(n_states):
                total += math.exp(weights[i] - peak)
            left, state = uniforms[t] * total, -1
            for i in range(n_states):
                if weights[i] > -np.inf and left >= 0.0:
                    left -= math.exp(weights[i] - peak)
                    state = i
            states[t] = state


@kernel(error_model="numpy")
def draw_sequences(
    log_start: np.ndarray,
    transition: Any,
    log_transition: Any,
    log_emission: np.ndarray,
    offsets: np.ndarray,
    uniforms: np.ndarray,
    filtered: np.ndarray,
    log_predictive: np.ndarray,
    states: np.ndarray,
    starts: np.ndarray,
    moves: np.ndarray,
) -> int:
    """Filter all sequences and draw a path of each backwards, one uniform number a row; every array after is filled.

    ``starts`` (n_states,) and ``moves`` (n_states, n_states) count the path. Returns the first impossible row, or -1.
    """
    n_states = log_emission.shape[1]
    huge, tiny = _huge(values_of(log_transition)), _tiny_edges(log_transition, n_states)
    varying = values_of(log_transition).shape[0] > 1
    room, weights = np.empty(log_emission.shape), np.empty(n_states)
    starts[:] = 0.0
    moves[:] = 0.0
    for s in range(len(offsets) - 1):
        begin, end = offsets[s], offsets[s + 1]
        in_logs, row, _ = _filter(
            s,
            log_start,
            transition,
            log_transition,
            log_emission,
            offsets,
            tiny,
            huge,
            filtered,
            room,
            log_predictive,
        )
        if row >= 0:
            return row
        for t in range(end - 1, begin - 1, -1):
            step = t + 1 if varying else 0
            total = 0.0
            if in_logs:
                peak = -np.inf
                for i in range(n_states):
                    weights[i] = filtered[t, i]
                    if t < end - 1:
                        weights[i] += between(log_transition, step, i, states[t + 1], -np.inf)
                    peak = max(peak, weights[i])
                for i in range(n_states):
                    weights[i] = math.exp(weights[i] - peak)
                    total += weights[i]
            else:
                for i in range(n_states):
                    weights[i] = filtered[t, i]
                    if t < end - 1:
                        weights[i] *= between(transition, step, i, states[t + 1], 0.0)
                    total += weights[i]
            left, state = uniforms[t] * total, -1
            for i in range(n_states):
                if weights[i] > 0.0:
                    state = i
                    left -= weights[i]
                    if left < 0.0:
                        break
            states[t] = state
            if t < end - 1:
                moves[state, states[t + 1]] += 1.0
        if end > begin:
            starts[states[begin]] += 1.0
    return -1


@kernel
def simulate(
    log_start: np.ndarray, transition: Any, offsets: np.ndarray, uniforms: np.ndarray, states: np.ndarray
) -> None:
    """States of every sequence from start and transition probabilities, one uniform number a row."""
    n_states = log_start.shape[1]
    varying = values_of(transition).shape[0] > 1
    weights = np.empty(n_states)
    for s in range(len(offsets) - 1):
        for t in range(offsets[s], offsets[s + 1]):
            if t == offsets[s]:
                weights[:] = np.exp(log_start[s if log_start.shape[0] > 1 else 0])
            else:
                weights[:] = 0.0
                first, last = edges(transition, states[t - 1])
                for e in range(first, last):
                    weights[target(transition, e)] = value(transition, t if varying else 0, states[t - 1], e)
            left, states[t] = uniforms[t] * weights.sum(), -1
            for j in range(n_states):
                if weights[j] > 0.0 and left >= 0.0:
                    left -= weights[j]
                    states[t] = j


@kernel(error_model="numpy")
def path_log_probability(
    log_start: np.ndarray,
    log_transition: Any,
    log_emission: np.ndarray,
    offsets: np.ndarray,
    states: np.ndarray,
    log_probability: np.ndarray,
) -> None:
    """log p(path, data) of a path through every sequence."""
    varying = values_of(log_transition).shape[0] > 1
    for s in range(len(offsets) - 1):
        log_probability[s] = 0.0
        for t in range(offsets[s], offsets[s + 1]):
            if t == offsets[s]:
                move = log_start[s if log_start.shape[0] > 1 else 0, states[t]]
            else:
                move = between(log_transition, t if varying else 0, states[t - 1], states[t], -np.inf)
            log_probability[s] += move + log_emission[t, states[t]]


# --------------------------------------------------------------------------------------- emissions


@kernel(fastmath=_FAST, error_model="numpy")
def diagonal_gaussian_rows(
    values: np.ndarray, mean: np.ndarray, standard_deviation: np.ndarray, out: np.ndarray
) -> None:
    """log p(row | state) of independent normal columns; a missing (NaN) cell says nothing."""
    (n_rows, n_columns), n_states = values.shape, len(mean)
    constant = -np.log(standard_deviation) - HALF_LOG_2PI
    precision = 1.0 / standard_deviation
    for t in range(n_rows):
        for k in range(n_states):
            total = 0.0
            for d in range(n_columns):
                if not math.isnan(values[t, d]):
                    z = (values[t, d] - mean[k, d]) * precision[k, d]
                    total += constant[k, d] - 0.5 * z * z
            out[t, k] = total


@kernel(fastmath=_FAST, error_model="numpy")
def weighted_sums(
    posterior: np.ndarray,
    values: np.ndarray,
    centre: np.ndarray,
    weight: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
) -> None:
    """Sums over rows of posterior × (1, x - centre, (x - centre)²), by column and state, without missing cells."""
    (n_rows, n_columns), n_states = values.shape, posterior.shape[1]
    # Some rows at a time with columns contiguous: sums over neighbours in memory are taken several at once.
    shares, cells, known = np.empty((n_states, _CHUNK)), np.empty((n_columns, _CHUNK)), np.empty((n_columns, _CHUNK))
    for begin in range(0, n_rows, _CHUNK):
        n = min(_CHUNK, n_rows - begin)
        for t in range(n):
            for k in range(n_states):
                shares[k, t] = posterior[begin + t, k]
            for d in range(n_columns):
                missing = math.isnan(values[begin + t, d])
                cells[d, t] = 0.0 if missing else values[begin + t, d]
                known[d, t] = 0.0 if missing else 1.0
        for d in range(n_columns):
            for k in range(n_states):
                total, sum_first, sum_second, middle = 0.0, 0.0, 0.0, centre[d, k]
                for t in range(n):
                    share, x = shares[k, t] * known[d, t], cells[d, t] - middle
                    total += share
                    sum_first += share * x
                    sum_second += share * x * x
                weight[d, k] += total
                first[d, k] += sum_first
                second[d, k] += sum_second


@kernel
def gaussian_log_evidence_and_gradient(
    parameters: np.ndarray, offsets: np.ndarray, sizes: np.ndarray, values: np.ndarray
) -> tuple[float, np.ndarray]:
    """`log_evidence_and_gradient` for independent normal columns (n_rows, n_columns), NaN where a cell is missing.

    In place of log emissions ``parameters`` end in the means and then the standard deviations, n_states × n_columns.
    """
    n_states, n_starts, n_steps = sizes[0], sizes[1], sizes[2]
    n_rows, n_columns = values.shape
    chain, n_each = n_starts * n_states + n_steps * n_states**2, n_states * n_columns
    mean = parameters[chain : chain + n_each].reshape(n_states, n_columns)
    deviation = parameters[chain + n_each :].reshape(n_states, n_columns)
    rows = np.empty(chain + n_rows * n_states)
    rows[:chain] = parameters[:chain]
    diagonal_gaussian_rows(values, mean, deviation, rows[chain:].reshape(n_rows, n_states))
    evidence, by_row = log_evidence_and_gradient(rows, offsets, sizes)
    gradient = np.empty(parameters.size)
    gradient[:chain] = by_row[:chain]
    sums = np.zeros((3, n_columns, n_states))
    weight, first, second = sums[0], sums[1], sums[2]
    posterior = by_row[chain:].reshape(n_rows, n_states)
    weighted_sums(posterior, values, np.ascontiguousarray(mean.T), weight, first, second)
    for k in range(n_states):
        for d in range(n_columns):
            at, sd = chain + k * n_columns + d, deviation[k, d]
            gradient[at] = first[d, k] / sd**2
            gradient[at + n_each] = (second[d, k] / sd**2 - weight[d, k]) / sd
    return evidence, gradient


@kernel
def symbol_counts(posterior: np.ndarray, symbols: np.ndarray, counts: np.ndarray) -> None:
    """counts[symbol, state] += posterior, without missing (negative) symbols."""
    for t in range(len(symbols)):
        if symbols[t] >= 0:
            for k in range(posterior.shape[1]):
                counts[symbols[t], k] += posterior[t, k]
