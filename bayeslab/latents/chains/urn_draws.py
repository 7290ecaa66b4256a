r"""A hidden chain that draws balls from urns without replacement.

State k is an urn with known numbers b_kc of balls of colour c. At every row the chain moves to an urn and draws a ball
from the remaining ones, so that emission probabilities depend on the previous draws from that urn:

    p(y_t = c | z_t = k, z_1..z_{t-1}, y_1..y_{t-1}) = (b_kc - n_kc) / (b_k - n_k)

with n_kc balls of colour c drawn from urn k before. The states and colours alone are not Markov, but the pair of the
state and the share n of balls drawn from every urn is. Since colours are observed, the path determines the share: there
are as many shares as ways to divide the observed balls among the urns, and each row has one draw for each share and
urn. Forward, backward and Viterbi recursions run over these [1]_.

Draws from an urn are exchangeable, so that a ball of unobserved colour does not change the probabilities of the others:
it only uses up a draw. A draw from an empty urn is impossible.

References
----------
.. [1] Alpaydin (2010). Introduction to Machine Learning, 2nd ed., chapter 15, exercise 8 (the model; balls that are not
   put back make emissions inhomogeneous).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bayeslab.errors import DataError, EvidenceError, ModelError
from bayeslab.latents.chains.forward_backward import HiddenChain, read_rows

__all__ = ["KERNEL", "SmoothedDraws", "UrnDraws", "best", "read_balls", "sample", "smooth"]

# For `bayeslab.evidence.log_evidence`: (parameters, offsets, begins, targets, weights).
KERNEL = "bayeslab.latents.chains.urn_kernels:log_evidence_and_gradient"

# Largest total number of shares; each needs memory for a few numbers for each urn.
MOST = 2_000_000


@dataclass(frozen=True, eq=False)
class UrnDraws:
    """Possible draws from urns, given the sequences of colours.

    Attributes
    ----------
    offsets : ndarray (n_sequences + 1,)
    begins : ndarray (n_rows + 1,)
        Row t has the shares ``begins[t]`` to ``begins[t + 1]``.
    targets : ndarray of int (n_shares, n_urns)
        The share of the next row after a draw from each urn; -1 where the draw is impossible or the last.
    weights : ndarray (n_shares, n_urns)
        Log probability of the row's colour, 0 if it was not seen.
    """

    offsets: np.ndarray
    begins: np.ndarray
    targets: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, balls: Any, colours: Any, offsets: Any = None, *, most: int = MOST) -> Self:
        """Shares of the balls drawn.

        Parameters
        ----------
        balls : array of int, shape (n_urns, n_colours)
            What the urns hold at the beginning of every sequence.
        colours : array of int, shape (n_rows,)
            0 to n_colours - 1, or -1 where the colour was not seen.
        offsets : array of shape (n_sequences + 1,), optional
            Where sequences begin, and the number of rows; without it, one sequence.
        most : int
            More shares than that are refused.

        Raises
        ------
        ModelError
            Numbers of balls are invalid, or an urn is empty.
        DataError
            Colours are invalid, or there are too many shares.
        """
        balls = read_balls(balls)
        colours = np.asarray(colours)
        if colours.ndim != 1 or (len(colours) and not -1 <= colours.min() <= colours.max() < balls.shape[1]):
            raise DataError(
                f"colours are 0 to {balls.shape[1] - 1}, or -1 where none was seen, one a row", code="out-of-range"
            )
        offsets = np.array([0, len(colours)]) if offsets is None else np.asarray(offsets, np.int64)
        sizes, targets, weights = [], [], []
        total = 0
        for first, end in itertools.pairwise(offsets.tolist()):
            # Balls of unobserved colour matter only if an urn could become empty.
            counted = bool(np.any(colours[first:end] < 0)) and end - first > balls.sum(axis=1).min()
            shares = np.zeros((1, len(balls), balls.shape[1] + 1), np.int32)
            for t in range(first, end):
                after, to, weight = _drawn(balls, shares, int(colours[t]), counted)
                sizes.append(len(shares))
                weights.append(weight)
                begin_next = total + len(shares)
                targets.append(np.where(to >= 0, to + begin_next, -1) if t < end - 1 else np.full(to.shape, -1))
                total, shares = begin_next, after
                if total > most:
                    raise DataError(
                        f"the balls drawn can be divided among {len(balls)} urns in more than {most:,} ways (at row"
                        f" {t + 1}): too many to sum over; take shorter sequences, fewer urns or fewer colours",
                        code="too-costly",
                    )
        empty = np.empty((0, len(balls)))
        return cls(
            offsets.astype(np.int64),
            np.append(0, np.cumsum(np.array(sizes, np.int64))),
            np.ascontiguousarray(np.concatenate([empty, *targets]), np.int64),
            np.ascontiguousarray(np.concatenate([empty, *weights]), float),
        )

    @property
    def n_urns(self) -> int:
        return self.weights.shape[1]

    @property
    def n_rows(self) -> int:
        return int(self.offsets[-1])

    def prefix(self, n_rows: int) -> Self:
        """The same on the first rows."""
        offsets = np.unique(np.minimum(self.offsets, n_rows))
        last = self.begins[n_rows]
        return type(self)(offsets, self.begins[: n_rows + 1], self.targets[:last].copy(), self.weights[:last].copy())

    def arrays(self, chain: HiddenChain, log_emission: Any) -> tuple[np.ndarray, ...]:
        """What kernels take, checked."""
        if chain.varying or chain.edges is not None or chain.log_start.ndim > 1:
            raise DataError("urns need one start and one dense transition matrix", code="unsupported")
        rows, offsets = read_rows(chain, log_emission, self.offsets)
        return chain.log_start, chain.log_transition, rows, offsets, self.begins, self.targets, self.weights


def read_balls(values: Any) -> np.ndarray:
    """Numbers of balls (n_urns, n_colours), checked."""
    try:
        balls = np.asarray(values, dtype=float)
    except (ValueError, TypeError):
        raise ModelError(
            "balls are whole numbers, a row for each urn, as many colours in each", code="not-whole"
        ) from None
    if balls.ndim != 2 or np.any(balls < 0) or np.any(balls != np.floor(balls)) or np.any(balls > 2**31 - 1):
        raise ModelError("balls are whole numbers, a row for each urn, as many colours in each", code="not-whole")
    empty = np.flatnonzero(balls.sum(axis=1) == 0)
    if len(empty):
        raise ModelError(f"urn {empty[0] + 1} has no balls", code="no-values")
    return balls.astype(np.int64)


def _drawn(
    balls: np.ndarray, shares: np.ndarray, colour: int, counted: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares (n, n_urns, n_colours + 1) after a draw, which of them a draw from each urn leads to, log weights.

    The last position counts balls of unobserved colour.
    """
    n, n_urns = len(shares), len(balls)
    given = shares[:, :, :-1].sum(axis=2)
    left = balls.sum(axis=1) - given - shares[:, :, -1]
    if colour < 0:
        possible = left > 0
        weights = np.where(possible, 0.0, -np.inf)
        if not counted:
            return shares, np.where(possible, np.arange(n)[:, None], -1), weights
    else:
        there = balls[:, colour] - shares[:, :, colour]
        possible = (there > 0) & (left > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            weights = np.where(possible, np.log(there) - np.log(balls.sum(axis=1) - given), -np.inf)
    at, urn = np.nonzero(possible)
    after = shares[at]
    after[np.arange(len(at)), urn, colour] += 1
    distinct, which = np.unique(after.reshape(len(at), n_urns * after.shape[2]), axis=0, return_inverse=True)
    targets = np.full((n, n_urns), -1, np.int64)
    targets[at, urn] = which.ravel()
    return distinct.reshape(-1, n_urns, shares.shape[2]), targets, weights


@dataclass(frozen=True, eq=False)
class SmoothedDraws:
    """Smoothed urns: given all colours of the sequence.

    Parameters
    ----------
    log_evidence : ndarray of shape (n_sequences,)
        -inf where a sequence is impossible.
    log_predictive : ndarray of shape (n_rows,)
        log p(y_t | y_1..y_{t-1}).
    predicted, filtered, posterior : ndarray of shape (n_rows, n_urns)
        P(z_t | y_1..y_{t-1}), P(z_t | y_1..y_t) and P(z_t | y); NaN where a sequence is impossible.
    start_counts, transition_counts : ndarray
        Expected numbers of starts and transitions; impossible sequences are not counted.
    impossible : ndarray of shape (n_sequences,)
        The first row that no path explains, or -1.
    ahead : ndarray of shape (n_shares, n_urns)
        log p(rows up to the share's, urn, share).
    """

    log_evidence: np.ndarray
    log_predictive: np.ndarray
    predicted: np.ndarray
    filtered: np.ndarray
    posterior: np.ndarray
    start_counts: np.ndarray
    transition_counts: np.ndarray
    impossible: np.ndarray
    ahead: np.ndarray

    def possible(self) -> Self:
        """Return the result; raise EvidenceError if a sequence is impossible."""
        bad = np.flatnonzero(self.impossible >= 0)
        if len(bad):
            raise EvidenceError(
                f"row {self.impossible[bad[0]]} (sequence {bad[0]}) has probability zero given the rows before it:"
                " check start, transitions and balls",
                code="probability-zero",
            )
        return self


def smooth(draws: UrnDraws, chain: HiddenChain, log_emission: Any = None) -> SmoothedDraws:
    """Forward and backward over urns and shares.

    Parameters
    ----------
    draws : UrnDraws
    chain : HiddenChain
    log_emission : array of shape (n_rows, n_urns), optional
        log p of other observations of a row, given the urn.

    Returns
    -------
    SmoothedDraws
        Counts and ``posterior`` are the gradient of ``log_evidence.sum()`` with respect to log_start,
        log_transition and log_emission.
    """
    from bayeslab.latents.chains import urn_kernels as kernels

    n, k = draws.n_rows, draws.n_urns
    log_emission = np.zeros((n, k)) if log_emission is None else log_emission
    n_sequences = len(draws.offsets) - 1
    out = SmoothedDraws(
        np.empty(n_sequences), np.empty(n), np.empty((n, k)), np.empty((n, k)), np.empty((n, k)), np.zeros(k),
        np.zeros((k, k)), np.empty(n_sequences, np.int64), np.empty(draws.weights.shape),
    )  # fmt: skip
    counts = (out.log_evidence, out.posterior, out.start_counts, out.transition_counts)
    rest = (out.predicted, out.filtered, out.log_predictive, out.impossible, out.ahead)
    inputs: tuple[Any, ...] = (*draws.arrays(chain, log_emission), *counts, *rest)
    kernels.smooth_sequences(*inputs)
    return out


def best(draws: UrnDraws, chain: HiddenChain, log_emission: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """The most likely urns (n_rows,) of each sequence, and their log probability (n_sequences,) with the data."""
    from bayeslab.latents.chains import urn_kernels as kernels

    log_emission = np.zeros((draws.n_rows, draws.n_urns)) if log_emission is None else log_emission
    states, height = np.empty(draws.n_rows, np.int64), np.empty(len(draws.offsets) - 1)
    inputs: tuple[Any, ...] = (*draws.arrays(chain, log_emission), states, height)
    kernels.best_path(*inputs)
    return states, height


def sample(
    draws: UrnDraws, chain: HiddenChain, n: int, rng: np.random.Generator, log_emission: Any = None
) -> np.ndarray:
    """Independent draws (n, n_rows) of all urns given the colours."""
    from bayeslab.latents.chains import urn_kernels as kernels

    smoothed = smooth(draws, chain, log_emission).possible()
    states = np.empty((n, draws.n_rows), np.int64)
    arguments = (chain.log_transition, draws.offsets, draws.begins, draws.targets, smoothed.ahead)
    for each in states:
        inputs: tuple[Any, ...] = (*arguments, rng.random(len(each)), each)
        kernels.sample_path(*inputs)
    return states
