"""Chains of hidden states from their specification: one chain or several, durations, inputs, trees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bayeslab.errors import DataError, ModelError
from bayeslab.families.hmm.given_parameters import check_together, numbers_of_shape, probabilities_of_shape
from bayeslab.families.hmm.spec import HMM, chain_parameters
from bayeslab.families.hmm.words import Durations
from bayeslab.latents.chains import markov_chain
from bayeslab.latents.chains.chain import SECOND_ORDER, Chain
from bayeslab.latents.chains.driven import LOG_ODDS, DrivenChain
from bayeslab.latents.chains.durations import DurationChain
from bayeslab.latents.chains.product import ProductChain
from bayeslab.latents.chains.state_chain import StateChain

__all__ = ["chain_of", "driven", "labels_of", "product_of", "semi_markov"]


def labels_of(spec: HMM) -> np.ndarray:
    """Names of the states."""
    if spec.chains is not None:
        return product_of(spec).states
    n = spec.most if spec.states == "infinite" else spec.states
    return np.arange(1, n + 1) if isinstance(n, int) else np.array(n)


def chain_of(spec: HMM) -> StateChain:
    """Build the chain of a specification.

    Raises
    ------
    ModelError
        A topology or probabilities have the wrong shape or contradict each other.
    """
    if spec.chains is not None:
        return product_of(spec)
    k = len(labels_of(spec))
    mask = _mask(spec, k)
    if spec.durations is not None and spec.initial == "stationary":
        raise ModelError(
            "the stationary distribution of segments is not that of times: durations need initial: free, uniform or"
            " probabilities",
            path=("model", "initial"),
            code="conflict",
        )
    if spec.order == 2 and spec.transition is not None:
        raise ModelError(
            "transition is a table of one state and the next; of a chain of order 2 give second_transition and"
            " transition in `parameters`",
            path=("model", "transition"),
            code="misplaced",
        )
    if spec.order == 2 and (not mask.all() or spec.initial == "stationary"):
        raise ModelError(
            "a chain of order 2 is ergodic, with a free or given initial state",
            path=("model", "order"),
            code="unsupported",
        )
    order = spec.order if k > 1 else 1  # a chain of one state has no second order
    transition = None
    if spec.transition is not None:
        transition = probabilities_of_shape(spec.transition, (k, k), ("model", "transition"))
        _refuse_excluded(spec, transition, mask)
        mask = mask & (transition > 0)
    initial: Any = spec.initial
    if initial is None:
        initial = (np.arange(k) == 0).astype(float) if spec.topology == "left_right" else "free"
    elif not isinstance(initial, str):
        initial = probabilities_of_shape(initial, (k,), ("model", "initial"))
    elif initial == "uniform":
        initial = np.full(k, 1.0 / k)
    elif initial == "stationary" and transition is not None:
        initial = markov_chain.stationary(transition)
    if k == 1:
        # A chain of one state has nothing to learn.
        initial, transition = np.ones(1), np.ones((1, 1))
    # A number for all cells takes no memory until an engine works with them.
    prior = np.broadcast_to(float(spec.pseudocount), (k, k))
    if spec.stickiness:
        prior = prior + spec.stickiness * np.eye(k)
    known, first = _known_parameters(spec, k), np.full(k, float(spec.pseudocount))
    chain = Chain(k, mask, order, initial, transition, prior, first, known if spec.durations is None else {})
    return chain if spec.durations is None else semi_markov(chain, spec.durations, spec.pseudocount, known)


def _known_parameters(spec: HMM, k: int) -> dict[str, np.ndarray]:
    """Parameters of durations, or of transitions of second order or on inputs, that are given as numbers."""
    names = chain_parameters(spec)
    given = {name: spec.parameters[name] for name in names if name in spec.parameters}
    if k == 1 and given and spec.durations is None:
        raise ModelError(
            "one state has no transitions to give",
            path=("model", "parameters", next(iter(given))),
            code="not-applicable",
        )
    out: dict[str, np.ndarray] = {}
    for name, value in given.items():
        path = ("model", "parameters", name)
        if names == SECOND_ORDER:
            out[name] = probabilities_of_shape(value, (k,) * (2 if name == "second_transition" else 3), path)
        elif name == "duration":
            longest = spec.durations.longest if isinstance(spec.durations, Durations) else spec.durations
            assert longest is not None
            out[name] = probabilities_of_shape(value, (k, longest), path)
        elif names != LOG_ODDS:
            out[name] = numbers_of_shape(value, (k,), path, "the prior is fixed", positive=True)
        else:
            shape = (k, k) if name == "log_odds" else (k, k, len(spec.transitions_on))
            out[name] = numbers_of_shape(value, shape, path, "the priors of log odds are fixed", scalar=False)
            if np.any(out[name][np.arange(k), np.arange(k)] != 0):
                raise ModelError(
                    "log odds are against staying: 0 from a state to itself", path=path, code="out-of-range"
                )
    if names != SECOND_ORDER:
        check_together(given, names, "log odds and slopes" if names == LOG_ODDS else "parameters of durations")
    return out


def _refuse_excluded(spec: HMM, transition: np.ndarray, mask: np.ndarray) -> None:
    """Refuse given transition probabilities above zero where the topology excludes the transition."""
    if not (outside := (transition > 0) & ~mask).any():
        return
    i, j = (int(at) for at in np.argwhere(outside)[0])
    kind = spec.topology if isinstance(spec.topology, str) else "the given pattern"
    raise ModelError(
        f"transition[{i + 1}][{j + 1}] is {transition[i, j]:g}, and topology: {kind} has no way from state {i + 1} to"
        f" {j + 1}; make it 0, or leave `topology` out: the zeros of `transition` say as much",
        path=("model", "transition"),
        code="contradiction",
    )


def _mask(spec: HMM, k: int) -> np.ndarray:
    match spec.topology:
        case "ergodic":
            return markov_chain.ergodic(k)
        case "left_right":
            return markov_chain.left_right(k, spec.reach)
        case "banded":
            return markov_chain.banded(k, spec.reach)
    path = ("model", "topology")
    try:
        mask = np.asarray(spec.topology, dtype=float) != 0
    except ValueError:
        raise ModelError("a pattern is a list of rows of zeros and ones", path=path, code="wrong-type") from None
    if mask.shape != (k, k):
        raise ModelError(
            f"a pattern for {k} states has {k} rows of {k}, not {mask.shape}", path=path, code="wrong-shape"
        )
    if not mask.any(axis=1).all():
        raise ModelError(
            f"row {int(np.argmin(mask.any(axis=1))) + 1} of the pattern leads nowhere", path=path, code="contradiction"
        )
    return mask


# --------------------------------------------------------------------------------- durations, inputs, trees


def semi_markov(
    base: Chain, durations: int | Durations, pseudocount: float, given: Mapping[str, np.ndarray] | None = None
) -> DurationChain:
    """A semi-Markov chain: states have duration distributions, whose parameters may be given.

    Raises
    ------
    ModelError
        A chain of another kind.
    """
    options = durations if isinstance(durations, Durations) else Durations(longest=durations)
    path = ("model", "durations")
    if base.order != 1:
        raise ModelError("durations need a chain of order 1", path=path, code="unsupported")
    if np.ptp(base.prior) > 0:
        raise ModelError("durations say how long states last; leave `stickiness` out", path=path, code="conflict")
    stays = np.eye(base.n_states, dtype=bool)
    elsewhere = base.mask & ~stays
    # A state without successors is followed by another segment of the same state.
    mask = np.where(elsewhere.any(axis=1, keepdims=True), elsewhere, base.mask)
    if base.transition is not None and np.any(base.transition[base.mask & ~mask] > 0):
        state = int(np.flatnonzero((base.mask & ~mask).any(axis=1))[0])
        raise ModelError(
            f"with durations a segment is followed by one of another state: transition[{state + 1}][{state + 1}] is"
            f" {base.transition[state, state]:g}, but must be 0",
            path=("model", "transition"),
            code="contradiction",
        )
    return DurationChain(replace(base, mask=mask), options.longest, options.law, float(pseudocount), given or {})


def driven(base: StateChain, names: tuple[str, ...], inputs: np.ndarray, of_fit: np.ndarray) -> DrivenChain:
    """A chain whose transitions depend on inputs (n_times, n_inputs).

    Raises
    ------
    ModelError, DataError
        The chain has a topology or known transitions; an input is missing or constant.
    """
    if (
        not isinstance(base, Chain)
        or base.order != 1
        or not base.mask.all()
        or base.transition is not None
        or str(base.initial) == "stationary"
    ):
        raise ModelError(
            "transitions on inputs are learned, ergodic, of order 1, with a free or given initial state",
            path=("model", "transitions_on"),
            code="unsupported",
        )
    for j, name in enumerate(names):
        if np.isnan(inputs[:, j]).any():
            t = int(np.flatnonzero(np.isnan(inputs[:, j]))[0])
            raise DataError(
                f"input '{name}' is missing at time number {t + 1}: transitions need it at every time", code="missing"
            )
        if np.ptp(of_fit[~np.isnan(of_fit[:, j]), j]) == 0:
            raise DataError(f"input '{name}' is constant; leave it out", code="constant")
    return DrivenChain(base, names, inputs, np.nanmean(of_fit, axis=0), np.nanstd(of_fit, axis=0), base.given)


# --------------------------------------------------------------------------------- several chains


def product_of(spec: HMM) -> ProductChain:
    """The product chain of a specification with several chains.

    Raises
    ------
    ModelError
        Probabilities have the wrong shape or do not sum to one.
    """
    assert spec.chains is not None
    names = tuple(spec.chains)
    levels = [
        np.arange(1, states + 1) if isinstance(states, int) else np.array(states) for states in spec.chains.values()
    ]
    if spec.coupling == "switching":
        levels[0] = np.array(names[1:])
    chain = ProductChain(
        names, tuple(levels), spec.coupling, {}, float(spec.pseudocount), float(spec.stickiness or 0.0)
    )
    known: dict[str, np.ndarray] = {}
    for name in chain.every:
        word, c = chain.owner(name)
        if chain.sizes[c] == 1:  # a chain of one state has nothing to learn
            known[name] = np.ones(chain.shape(name))
        elif word == "initial" and spec.initial == "uniform":
            known[name] = np.full(chain.sizes[c], 1.0 / chain.sizes[c])
        if name in spec.parameters:
            known[name] = probabilities_of_shape(
                spec.parameters[name], chain.shape(name), ("model", "parameters", name)
            )
    return replace(chain, known=known)
