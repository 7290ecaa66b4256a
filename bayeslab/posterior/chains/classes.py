"""Hidden chains of several classes of sequences: starting points, numbering of states, and predictions of classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bayeslab.errors import DataError
from bayeslab.latents.chains.classes import ClassChain
from bayeslab.latents.chains.forward_backward import Smoothed, smooth
from bayeslab.posterior.draws import evenly
from bayeslab.posterior.relabelling import agreeing
from bayeslab.posterior.similar_rows import membership, similar_rows

__all__ = ["conditional", "masses", "relabelling", "starting_weights", "with_class"]

# Approximate number of rows of each class used for starting points and for relabelling.
_SOME, _TELLING = 5_000, 60


def starting_weights(hidden: Any, rng: np.random.Generator, jitter: bool) -> tuple[np.ndarray, np.ndarray]:
    """Starting point of searches: rows of labelled sequences, and their weights for each state.

    Raises
    ------
    DataError
        A class has no sequence.
    """
    chain: ClassChain = hidden.chain
    rows, weights = [], []
    for c, name in enumerate(chain.classes):
        at = _rows_of(hidden, c, _SOME)
        if not len(at):
            raise DataError(
                f"no sequence is known to be of class '{name}'; each class needs one to learn from",
                code="no-values",
            )
        block = np.flatnonzero(chain.of_state == c)
        if _onward(chain.mask, block):
            groups = _stretches(hidden, at, len(block))
        else:
            groups = similar_rows(hidden.parts, hidden.rows[at], len(block), rng)
        noise = rng.dirichlet(np.ones(len(block)), len(at)) if jitter else 1 / len(block)
        # Every row has a small weight for every state, so that no state is empty.
        out = np.full((len(at), chain.n_states), 1e-6)
        out[:, block] += 0.75 * membership(groups, len(block)) + 0.25 * noise
        rows.append(hidden.rows[at])
        weights.append(out)
    return np.concatenate(rows), np.concatenate(weights)


def _onward(mask: np.ndarray, block: np.ndarray) -> bool:
    """Whether a class never returns to an earlier state."""
    return len(block) > 1 and not np.tril(mask[np.ix_(block, block)], -1).any()


def _stretches(hidden: Any, at: np.ndarray, n: int) -> np.ndarray:
    """Cut each sequence into segments of equal length, one for each state: the state of each row, (n_rows,)."""
    sequences = hidden.sequences
    begin, length = sequences.offsets[sequences.sequence[at]], np.diff(sequences.offsets)[sequences.sequence[at]]
    return np.asarray(n * (at - begin) // length)


def _rows_of(hidden: Any, code: int, most: int) -> np.ndarray:
    """The times of sequences of a known class, limited to about ``most`` of them."""
    chain: Any = hidden.chain
    sequences = hidden.sequences
    mine = np.flatnonzero(chain.known == code)
    lengths = np.diff(sequences.offsets)[mine]
    kept = mine[: int(np.searchsorted(np.cumsum(lengths), most)) + 1]
    return np.concatenate([np.arange(sequences.offsets[s], sequences.offsets[s + 1]) for s in kept] or [np.arange(0)])


def relabelling(hidden: Any, each: Any) -> np.ndarray:
    """Permutations of the states, class by class, so that smoothed probabilities agree between draws.

    Parameters
    ----------
    each : callable
        Returns the values at each draw for a model on some of the sequences.

    Returns
    -------
    ndarray (n_draws, n_states)
    """

    moves = []
    for c, block in enumerate(hidden.chain.blocks):
        which = np.unique(hidden.sequences.sequence[_rows_of(hidden, c, 1_000)])
        some = hidden.of_sequences(which) if len(which) else hidden
        laws = (some.law(values) for values in each(some))
        moves.append(agreeing(laws, evenly(some.sequences.n_times, _TELLING), block))
    return np.concatenate(moves, axis=1)


def masses(hidden: Any, each: Any) -> np.ndarray:
    """P(class | rows) of each sequence, (n_sequences, n_classes), averaged over draws; known classes are ignored."""
    chain: Any = hidden.chain
    free = replace(hidden, chain=chain.freed())
    offsets = free.sequences.offsets
    total, n = np.zeros((free.sequences.n_sequences, chain.n_classes)), 0
    for values in each(free):
        begun = _smoothed(free, values, offsets).possible().posterior[offsets[:-1]]
        total += begun @ np.eye(chain.n_classes)[chain.of_state]
        n += 1
    return total / n


def with_class(hidden: Any, table: Mapping[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """A decoded table with a column for the class of each state in front."""
    chain: Any = hidden.chain
    of = dict(zip(chain.states.tolist(), chain.classes[chain.of_state], strict=True))
    out: dict[str, np.ndarray] = {}
    for key, values in table.items():
        if key == "state":
            out[name] = np.array([of[state] for state in values.tolist()])
        out[key] = values
    return out


def conditional(hidden: Any, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """log P(class | rows) of each sequence whose class is known."""
    chain: Any = hidden.chain
    if not chain.labelled:
        raise DataError(
            "no sequence has a known class: there is no likelihood of classes given sequences", code="no-values"
        )
    known = hidden.of_sequences(np.flatnonzero(chain.known >= 0))
    chain_of_known: Any = known.chain
    free = replace(known, chain=chain_of_known.freed())
    offsets = known.sequences.offsets
    both = _smoothed(known, values, offsets).possible().log_evidence
    return np.asarray(both - _smoothed(free, values, offsets).log_evidence)


def _smoothed(hidden: Any, values: Mapping[str, np.ndarray], offsets: np.ndarray) -> Smoothed:
    chain, log_emission = hidden.computed(values)
    return smooth(chain, log_emission, offsets)
