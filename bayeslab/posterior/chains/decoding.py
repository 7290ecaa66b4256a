"""Decoding of hidden states: most likely paths, and state probabilities at each time.

Probabilities are averaged over posterior draws. Paths cannot be averaged: the most likely path is computed at the
posterior mean of the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.latents.chains.product import ProductChain
from bayeslab.posterior.averaging import AVERAGED
from bayeslab.posterior.chains.hidden import Hidden
from bayeslab.posterior.decoding import Decoded, check_method, condition, description, of_sequence
from bayeslab.posterior.draws import each_draw

__all__ = ["averaged", "chances_of", "decoded", "posterior_mean"]


def posterior_mean(hidden: Hidden, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Means of the unknown parameters: probabilities still sum to one, and angles have their mean direction."""
    next(each_draw(draws, hidden.learned))  # raises if a parameter has no draws
    out = {name: np.asarray(draws[name]).mean(axis=0) for name in hidden.learned}
    for name in (n for part in hidden.parts for n in part.angles):
        angles = np.asarray(draws[name])
        out[name] = np.arctan2(np.sin(angles).mean(axis=0), np.cos(angles).mean(axis=0))
    if "occupied" not in draws:
        return out
    # Average emission parameters over the draws in which a state is in use; in others they come from the prior.
    weight = draws["occupied"] / np.maximum(draws["occupied"].sum(axis=0), 1)
    for name in (n for part in hidden.parts for n in part.learned if hidden.dims[n][0] == "state"):
        mean = np.einsum("sk,sk...->k...", weight, np.asarray(draws[name]))
        used = (weight.sum(axis=0) > 0).reshape(-1, *[1] * (mean.ndim - 1))
        out[name] = np.where(used, mean, out[name])
    return out


def averaged(hidden: Hidden, draws: Mapping[str, np.ndarray], kind: str, most: int = AVERAGED) -> np.ndarray:
    """P(state at each time), (n_times, n_states), averaged over draws.

    Parameters
    ----------
    kind : {"smooth", "filter", "predict"}
        Condition on all rows of the sequence, on those up to the time, or on those before it.
    """
    total, n = np.zeros((hidden.sequences.n_times, hidden.n_states)), 0
    for values in each_draw(draws, hidden.learned, most):
        law = hidden.law(values)
        if kind == "smooth":
            expected = law.expected()
            if np.any(expected.log_evidence == -np.inf):
                hidden.check_possible(values)
            total += expected.posterior
        else:
            filtered = law.filter(kind)
            # Before its first row, a sequence of a known class has that class with probability below 1.
            total += filtered / filtered.sum(axis=1, keepdims=True)
        n += 1
    return total / n


def decoded(
    hidden: Hidden,
    draws: Mapping[str, np.ndarray],
    method: str,
    best: int,
    *,
    times: Mapping[str, np.ndarray],
    sequence: str | None = None,
    called: str | None = None,
    most: int = AVERAGED,
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """A table with a row for every time, and remarks on it.

    Parameters
    ----------
    method : str
        One of :data:`bayeslab.posterior.decoding.METHODS`.
    best : int
        Number of most likely paths (viterbi).
    times : mapping of str to ndarray
        The label of every time, by the name of the column of times.
    sequence : str, optional
        Only this sequence.
    called : str, optional
        The name of the column of sequences.
    most : int
        Largest number of draws, evenly spaced, over which probabilities are averaged.

    Raises
    ------
    OptionError, DataError, ModelError
    """
    check_method(method, best)
    sequences = hidden.sequences
    names = sequences.names[sequences.sequence]
    # Rows of trees in the order of the table; times in gaps have no row.
    every = sequences.at if len(sequences.at) == sequences.n_times else np.arange(sequences.n_times)
    cells = Decoded(
        ({} if called is None else {called: names}) | dict(times),
        every[of_sequence(names[every], sequence)],
        sequences.sequence,
        averaged(hidden, draws, condition(method), most),
        lambda states: _named(hidden, states),
        lambda chances: chances_of(hidden, chances),
    )
    n = len(draws[hidden.learned[0]]) if hidden.learned else 1
    at = "the posterior mean" if n > 1 else "the fit" if hidden.learned else "the given parameters"
    if method != "viterbi":
        return cells.states(method), description(method, n, most, at, [])
    paths, heights = hidden.law(posterior_mean(hidden, draws)).mode(best)
    tables = cells.paths(paths, heights)
    out = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    return out, description(method, n, most, at, [heights])


def _named(hidden: Hidden, states: np.ndarray) -> dict[str, np.ndarray]:
    """Names of states; for several chains, by chain."""
    chain = hidden.chain
    return chain.named(states) if isinstance(chain, ProductChain) else {"state": hidden.states[states]}


def chances_of(hidden: Hidden, chances: np.ndarray) -> dict[str, np.ndarray]:
    """Probabilities (n_times, n_states) as columns; for several chains, of the states of each chain."""
    if isinstance(hidden.chain, ProductChain):
        return hidden.chain.chances(chances)
    return {f"P(state={s})": chances[:, k] for k, s in enumerate(hidden.states)}
