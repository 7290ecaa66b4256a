"""Classes of sequences in a model file and its data: their chain, and the names of their states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.sequences import Sequences
from bayeslab.errors import DataError, ModelError, hint
from bayeslab.families.hmm.spec import HMM
from bayeslab.families.hmm.words import MOST_OF_ONE_CHAIN
from bayeslab.latents.chains.chain import Chain
from bayeslab.latents.chains.classes import ClassChain

__all__ = ["class_chain", "states_of"]


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
                raise ModelError(f"'{name}' is not a class{hint(str(name), names)}", path=path, code="unknown-level")
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
    if len(states) > MOST_OF_ONE_CHAIN:
        raise ModelError(
            f"{len(states):,} states of all classes together; at most {MOST_OF_ONE_CHAIN:,}: take fewer states or"
            " classes",
            path=("model", "states"),
            code="too-costly",
        )
    chains = [chain_of(spec.model_copy(update={"classes": None, "states": int(n)})) for n in sizes]
    if not all(isinstance(chain, Chain) for chain in chains):
        raise ModelError("classes need plain chains of order 1", path=("model", "classes"), code="unsupported")
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
