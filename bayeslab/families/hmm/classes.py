"""Sequences of several classes: reading them, starting points, state names and predictions of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.errors import DataError, ModelError, hint
from bayeslab.families.hmm.sequences import Sequences
from bayeslab.latents.chains.chain import Chain
from bayeslab.latents.chains.classes import ClassChain
from bayeslab.latents.chains.forward_backward import Smoothed, smooth
from bayeslab.latents.labels.k_means import k_means
from bayeslab.posterior.relabelling import agreeing, evenly

if TYPE_CHECKING:
    from bayeslab.families.hmm.spec import HMM

__all__ = ["class_chain", "conditional", "masses", "relabelling", "similar_rows", "states_of", "with_class"]

# Approximate number of rows of each class used for starting points and for relabelling.
_SOME, _TELLING = 5_000, 60


def states_of(spec: HMM, classes: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Names of all states, and the class of each.

    Raises
    ------
    ModelError
        ``states`` names other classes.
    """
    names = [str(name) for name in classes]
    path = ("model", "states")
    if isinstance(spec.states, Mapping):
        for name in spec.states:
            if str(name) not in names:
                raise ModelError(f"'{name}' is no class{hint(str(name), names)}", path=path, code="unknown-level")
        for name in names:
            if name not in spec.states:
                raise ModelError(f"states does not say how many the class '{name}' has", path=path, code="incomplete")
        each = [[str(k + 1) for k in range(spec.states[name])] for name in names]
    elif isinstance(spec.states, int):
        each = [[str(k + 1) for k in range(spec.states)]] * len(names)
    else:
        each = [[str(s) for s in spec.states or ()]] * len(names)
    labels = np.array([f"{name}.{s}" for name, states in zip(names, each, strict=True) for s in states])
    return labels, np.repeat(np.arange(len(names)), [len(states) for states in each])


def class_chain(spec: HMM, data: Data, sequences: Sequences, chain_of: Any) -> ClassChain:
    """Build the chain of classes for the data.

    Parameters
    ----------
    chain_of : callable
        The chain of a spec without classes.

    Raises
    ------
    ModelError, DataError
        There is only one class; a class changes within a sequence; or given numbers have the wrong shape.
    """
    name: Any = spec.classes
    if name not in data.labels:
        raise DataError(
            f"the data have no column '{name}', which holds the classes, and `dims` does not list them",
            code="unknown-column",
        )
    classes = np.asarray(data.labels[name])
    if len(classes) < 2:
        raise DataError(
            f"column '{name}' has one class ('{classes[0]}'): there is nothing to tell apart", code="constant"
        )
    states, of_state = states_of(spec, classes.tolist())
    sizes = np.bincount(of_state)
    chains = [chain_of(spec.model_copy(update={"classes": None, "states": int(n)})) for n in sizes]
    if not all(isinstance(chain, Chain) for chain in chains):
        raise ModelError("classes go with plain chains of order 1", path=("model", "classes"), code="unsupported")
    inside = of_state[:, None] == of_state

    def union(blocks: list[np.ndarray]) -> np.ndarray:
        out = np.zeros(inside.shape)
        out[inside] = np.concatenate([np.ravel(block) for block in blocks])
        return out

    known = all(chain.transition is not None for chain in chains)
    base = Chain(
        len(states),
        union([chain.mask for chain in chains]) > 0,
        1,
        "free",
        union([chain.transition for chain in chains]) if known else None,
        union([chain.prior for chain in chains]),
        np.concatenate([chain.initial_prior for chain in chains]),
    )
    first = None
    if not any(isinstance(chain.initial, str) for chain in chains):
        begun = np.concatenate([chain.initial for chain in chains])
        first = np.where(np.arange(len(classes))[:, None] == of_state, begun, 0.0)
    chain = ClassChain(
        base,
        classes,
        states,
        of_state,
        _known(data, name, classes, sequences),
        first,
        _shares(spec, classes),
        spec.training == "discriminative",
    )
    if chain.discriminative and chain.learned and data.origin is None and data.has(name) and not chain.labelled:
        raise DataError(
            f"column '{name}' is empty; discriminative training needs sequences whose class is known", code="no-values"
        )
    return chain


def _shares(spec: HMM, classes: np.ndarray) -> np.ndarray | None:
    """P(class), if it is known; otherwise None."""
    given, path = spec.class_probability, ("model", "class_probability")
    if given is None or given == "free":
        return None
    if given == "uniform":
        return np.full(len(classes), 1 / len(classes))
    numbers = np.asarray(given, float)
    if len(numbers) != len(classes):
        raise ModelError(f"{len(numbers)} probabilities for {len(classes)} classes", path=path, code="wrong-length")
    if np.any(numbers < 0) or abs(numbers.sum() - 1) > 1e-8:
        raise ModelError(
            f"the probabilities sum to {numbers.sum():g}, not to 1, or one is negative",
            path=path,
            code="not-probabilities",
        )
    return numbers


def _known(data: Data, name: str, classes: np.ndarray, sequences: Sequences) -> np.ndarray:
    """The class of each sequence, from those of its rows that give one."""
    out = np.full(sequences.n_sequences, -1)
    if not data.has(name):
        return out
    codes, of = np.asarray(data.term(name, missing=True).codes), sequences.sequence[sequences.at]
    labelled = np.flatnonzero(codes >= 0)
    which, first = np.unique(of[labelled], return_index=True)
    out[which] = codes[labelled][first]
    wrong = labelled[codes[labelled] != out[of[labelled]]]
    if len(wrong):
        row, s = int(wrong[0]), int(of[wrong[0]])
        raise DataError(
            f"column '{name}', row {row + 1}: '{classes[codes[row]]}' in sequence '{sequences.names[s]}', which began"
            f" as '{classes[out[s]]}'; a sequence is of one class",
            code="contradiction",
        )
    return out


# --------------------------------------------------------------------------------- starting points, names, predictions


def similar_rows(hidden: Any, rng: np.random.Generator, jitter: bool) -> tuple[np.ndarray, np.ndarray]:
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
        membership = (
            _stretches(hidden, at, len(block)) if _onward(chain.mask, block) else _similar(hidden, at, len(block), rng)
        )
        noise = rng.dirichlet(np.ones(len(block)), len(at)) if jitter else 1 / len(block)
        # Every row has a small weight for every state, so that no state is empty.
        out = np.full((len(at), chain.n_states), 1e-6)
        out[:, block] += 0.75 * membership + 0.25 * noise
        rows.append(hidden.rows[at])
        weights.append(out)
    return np.concatenate(rows), np.concatenate(weights)


def _onward(mask: np.ndarray, block: np.ndarray) -> bool:
    """Whether a class never returns to an earlier state."""
    return len(block) > 1 and not np.tril(mask[np.ix_(block, block)], -1).any()


def _stretches(hidden: Any, at: np.ndarray, n: int) -> np.ndarray:
    """Cut each sequence into segments of equal length, one for each state, (n_rows, n_states)."""
    sequences = hidden.sequences
    begin, length = sequences.offsets[sequences.sequence[at]], np.diff(sequences.offsets)[sequences.sequence[at]]
    return np.eye(n)[n * (at - begin) // length]


def _similar(hidden: Any, at: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Groups of similar rows, (n_rows, n); rows without an observed cell belong to all groups."""
    out, rows = np.full((len(at), n), 1 / n), hidden.rows[at]
    observed = ~np.isnan(rows).all(axis=1)
    if observed.sum() >= n:
        features = [part.emission.features(rows[observed][:, list(part.at)]) for part in hidden.parts]
        out[observed] = np.eye(n)[k_means(np.concatenate(features, axis=1), n, rng).labels]
    return out


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
