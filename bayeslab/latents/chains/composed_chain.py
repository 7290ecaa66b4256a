"""Chains composed of chains: in series, in parallel, and words in the order of a grammar.

A piece is entered, moves among its states, each of which emits one row, and is left:

    p(rows, path) = enter(z_1) p(y_1 | z_1) prod_t move(z_{t-1}, z_t) p(y_t | z_t) leave(z_T)

Pieces are combined to larger pieces, whose probabilities are those of the hierarchy:

- `parallel`: one of several, by entry probabilities (the ways to pronounce a word): p = sum_i w_i p_i(rows);
- `series`: one after the other (phones of a word): p = the sum over the end rows of each;
- `with_language_model`: words with bigram transitions: p = the sum over sentences and boundaries.

The result is a flat first-order chain with sparse transitions [1]_, so that forward-backward and Viterbi's algorithm
handle phones, words and sentences at once: sums over boundaries are sums over paths.

References
----------
.. [1] Bahl, Jelinek, Mercer (1983). A maximum likelihood approach to continuous speech recognition. IEEE PAMI 5,
   179-190.
.. [2] Jurafsky, Martin (2009). Speech and Language Processing, 2nd edition, sections 9.2 and 9.6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from bayeslab.errors import DataError, ModelError, hint
from bayeslab.latents.chains.decoding import viterbi
from bayeslab.latents.chains.forward_backward import Edges, HiddenChain, Smoothed, smooth

__all__ = ["Piece", "parallel", "phone", "series", "with_language_model"]

_SUMS = 1e-8


@dataclass(frozen=True, eq=False)
class Piece:
    """A chain that is entered and left.

    Parameters
    ----------
    enter : array of shape (n_states,)
        P(first state | entered).
    move : array of shape (n_states, n_states)
    leave : array of shape (n_states,)
        P(left after this row | state); with the rows of ``move`` it sums to one.
    emits : sequence of str
        Name of the distribution that each state emits; states with the same name share it.
    names : sequence of str, optional
        Names of the states; default ``emits``.
    skip : float
        P(left without a row | entered); with ``enter`` it sums to one.

    Raises
    ------
    ModelError
        Shapes are wrong, or numbers are not probabilities.

    Examples
    --------
    A word of two phones, the second in one of two ways, seen for three rows:

    >>> word = series([phone("t", stay=0.5), parallel([phone("ey", stay=0.5), phone("aa", stay=0.5)], [0.75, 0.25])])
    >>> rows = np.log([[0.9, 0.1, 0.1], [0.2, 0.6, 0.1], [0.1, 0.8, 0.2]])
    >>> word.log_evidence(rows, ["t", "ey", "aa"]).round(4)
    array([-2.888])
    """

    enter: np.ndarray
    move: np.ndarray
    leave: np.ndarray
    emits: tuple[str, ...]
    names: tuple[str, ...] = ()
    skip: float = 0.0

    def __post_init__(self) -> None:
        enter, move, leave = (np.array(a, dtype=float) for a in (self.enter, self.move, self.leave))
        n = len(self.emits)
        names = tuple(self.names) or tuple(self.emits)
        if enter.shape != (n,) or move.shape != (n, n) or leave.shape != (n,) or len(names) != n or n == 0:
            raise ModelError(
                f"a piece of {n} states has enter and leave of {n} numbers and {n} × {n} moves, not {enter.shape},"
                f" {leave.shape} and {move.shape}",
                code="wrong-shape",
            )
        if min(enter.min(), move.min(), leave.min(), self.skip) < 0:
            raise ModelError("probabilities of a piece are not negative", code="not-probabilities")
        if abs(enter.sum() + self.skip - 1) > _SUMS:
            raise ModelError(f"enter sums to {enter.sum() + self.skip:g}, not to 1", code="not-probabilities")
        wrong = np.flatnonzero(np.abs(move.sum(axis=1) + leave - 1) > _SUMS)
        if len(wrong):
            i = int(wrong[0])
            raise ModelError(
                f"moves from and leaving '{names[i]}' sum to {move[i].sum() + leave[i]:g}, not to 1",
                code="not-probabilities",
            )
        for name, value in (("enter", enter), ("move", move), ("leave", leave)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "emits", tuple(self.emits))
        object.__setattr__(self, "names", names)

    @property
    def n_states(self) -> int:
        return len(self.emits)

    @property
    def mask(self) -> np.ndarray:
        """The pattern of possible moves, (n_states, n_states): a ``topology``."""
        return self.move > 0

    @property
    def chain(self) -> HiddenChain:
        """The law of the states; leaving is not in it, see :meth:`rows`."""
        edges = Edges.of(self.mask)
        return HiddenChain.of(self.enter, edges.take(self.move), edges)

    def called(self, prefix: str) -> Self:
        """The same piece, with a prefix of the states' names."""
        return replace(self, names=tuple(f"{prefix}.{name}" for name in self.names))

    def rows(self, log_emission: Any, emitted: Sequence[str], offsets: Any = None, *, ends: bool = True) -> np.ndarray:
        """Log emissions (n_rows, n_states) of the states, with log leave added at the last row of every sequence.

        Parameters
        ----------
        log_emission : array of shape (n_rows, n_emitted)
            log p(row | distribution) of each distribution.
        emitted : sequence of str
            Names of the distributions.
        offsets : array of shape (n_sequences + 1,), optional
            Where sequences begin, and the number of rows.
        ends : bool
            Whether the piece is left after the last row; otherwise it may continue.
        """
        given = np.asarray(log_emission, dtype=float)
        if given.ndim != 2 or given.shape[1] != len(emitted):
            raise DataError(
                f"log emissions are n_rows × {len(emitted)} distributions, not {given.shape}", code="wrong-shape"
            )
        place = {name: j for j, name in enumerate(emitted)}
        for name in self.emits:
            if name not in place:
                raise DataError(f"no log emission is given for '{name}'{hint(name, place)}", code="incomplete")
        out = given[:, [place[name] for name in self.emits]]
        last = np.array([len(out)] if offsets is None else np.asarray(offsets)[1:])
        if ends:
            if np.any(np.diff(last, prepend=0 if offsets is None else np.asarray(offsets)[0]) < 1):
                raise DataError("a sequence without rows cannot be left after its last", code="no-rows")
            with np.errstate(divide="ignore"):
                out[last - 1] += np.log(self.leave)
        return out

    def smooth(self, log_emission: Any, emitted: Sequence[str], offsets: Any = None, *, ends: bool = True) -> Smoothed:
        """Forward-backward: evidence, posteriors of the states and expected moves."""
        return smooth(self.chain, self.rows(log_emission, emitted, offsets, ends=ends), offsets)

    def log_evidence(
        self, log_emission: Any, emitted: Sequence[str], offsets: Any = None, *, ends: bool = True
    ) -> np.ndarray:
        """log p of each sequence; parameters as in :meth:`rows`."""
        return self.smooth(log_emission, emitted, offsets, ends=ends).log_evidence

    def path(self, log_emission: Any, emitted: Sequence[str], offsets: Any = None, *, ends: bool = True) -> list[str]:
        """The names of the most likely states, row by row."""
        most_likely = viterbi(self.chain, self.rows(log_emission, emitted, offsets, ends=ends), offsets).possible()
        return [self.names[state] for state in most_likely.states]


def phone(name: str, *, stay: float, n_states: int = 1) -> Piece:
    """Consecutive states that each stay with probability ``stay`` and emit their own distribution.

    A single state emits ``name``; several ``name.1``, ``name.2``, ...
    """
    if not 0 <= stay < 1 or n_states < 1:
        raise ModelError(
            f"a phone has at least one state and stays with probability below 1, not {n_states}, {stay:g}",
            code="out-of-range",
        )
    names = [name] if n_states == 1 else [f"{name}.{k + 1}" for k in range(n_states)]
    move = stay * np.eye(n_states) + (1 - stay) * np.eye(n_states, k=1)
    return Piece(np.eye(n_states)[0], move, (1 - stay) * np.eye(n_states)[-1], tuple(names))


def parallel(pieces: Sequence[Piece], entry: Any) -> Piece:
    """One of several pieces, chosen by entry probabilities.

    Parameters
    ----------
    entry : array of shape (n_pieces,), or (n_pieces + 1,)
        An additional last number is the probability that all are skipped.
    """
    weights = _weights(entry, len(pieces))
    enter = [w * piece.enter for w, piece in zip(weights, pieces, strict=False)]
    skipped = sum(w * piece.skip for w, piece in zip(weights, pieces, strict=False))
    return Piece(
        np.concatenate(enter),
        _blocks(pieces),
        np.concatenate([piece.leave for piece in pieces]),
        tuple(name for piece in pieces for name in piece.emits),
        tuple(name for piece in pieces for name in piece.names),
        float(skipped + weights[len(pieces) :].sum()),
    )


def series(pieces: Sequence[Piece]) -> Piece:
    """Pieces one after the other: leaving one enters the next."""
    if not pieces:
        raise ModelError("a series needs at least one piece", code="too-few")
    out = pieces[0]
    for piece in pieces[1:]:
        move = _blocks([out, piece])
        move[: out.n_states, out.n_states :] = np.outer(out.leave, piece.enter)
        out = Piece(
            np.concatenate([out.enter, out.skip * piece.enter]),
            move,
            np.concatenate([out.leave * piece.skip, piece.leave]),
            out.emits + piece.emits,
            out.names + piece.names,
            out.skip * piece.skip,
        )
    return out


def with_language_model(words: Mapping[str, Piece], first: Any, follow: Any, stop: Any) -> Piece:
    """Sentences: words whose order is a Markov chain.

    Parameters
    ----------
    words : mapping of str to Piece
        None may be skipped.
    first : array of shape (n_words,)
        P(first word).
    follow : array of shape (n_words, n_words)
        P(next word | word).
    stop : array of shape (n_words,)
        P(the sentence ends | word); with the rows of ``follow`` it sums to one.

    Returns
    -------
    Piece
        The piece of sentences; its states are named by word and state.
    """
    pieces, n = list(words.values()), len(words)
    first, follow, stop = (np.asarray(a, dtype=float) for a in (first, follow, stop))
    if first.shape != (n,) or follow.shape != (n, n) or stop.shape != (n,):
        raise ModelError(
            f"{n} words have {n} first probabilities, {n} × {n} to follow and {n} to stop, not {first.shape},"
            f" {follow.shape} and {stop.shape}",
            code="wrong-shape",
        )
    for name, piece in words.items():
        if piece.skip > 0:
            raise ModelError(f"the word '{name}' can be skipped; a word has at least one row", code="not-allowed")
    for i, name in enumerate(words):
        if abs(follow[i].sum() + stop[i] - 1) > _SUMS:
            raise ModelError(
                f"what follows '{name}' and stopping sum to {follow[i].sum() + stop[i]:g}, not to 1",
                code="not-probabilities",
            )
    if n == 0 or abs(first.sum() - 1) > _SUMS:
        raise ModelError(f"the probabilities of first words sum to {first.sum():g}, not to 1", code="not-probabilities")
    of = np.repeat(np.arange(n), [piece.n_states for piece in pieces])
    enter = np.concatenate([piece.enter for piece in pieces])
    leave = np.concatenate([piece.leave for piece in pieces])
    named = [piece.called(name) for name, piece in words.items()]
    return Piece(
        first[of] * enter,
        _blocks(pieces) + leave[:, None] * follow[np.ix_(of, of)] * enter,
        leave * stop[of],
        tuple(name for piece in pieces for name in piece.emits),
        tuple(name for piece in named for name in piece.names),
    )


def _weights(entry: Any, n: int) -> np.ndarray:
    weights = np.asarray(entry, dtype=float)
    if n == 0 or weights.shape not in ((n,), (n + 1,)):
        raise ModelError(
            f"{n} pieces have {n} entry probabilities, or one more for none of them, not {weights.shape}",
            code="wrong-length",
        )
    if weights.min() < 0 or abs(weights.sum() - 1) > _SUMS:
        raise ModelError(
            f"entry probabilities sum to {weights.sum():g}, not to 1, or one is negative", code="not-probabilities"
        )
    return weights


def _blocks(pieces: Sequence[Piece]) -> np.ndarray:
    n = sum(piece.n_states for piece in pieces)
    out, at = np.zeros((n, n)), 0
    for piece in pieces:
        out[at : at + piece.n_states, at : at + piece.n_states] = piece.move
        at += piece.n_states
    return out
