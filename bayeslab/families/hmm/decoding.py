"""Decoding of hidden states: most likely paths, and state probabilities at each time.

Probabilities are averaged over posterior draws. Paths cannot be averaged: the most likely path is computed at the
posterior mean of the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.errors import DataError, OptionError, hint
from bayeslab.families.hmm.hidden import Hidden, draws_of
from bayeslab.latents.chains.product import ProductChain
from bayeslab.posterior.averaging import AVERAGED, averaging

__all__ = ["METHODS", "averaged", "chances_of", "decoded", "posterior_mean"]

METHODS = ("viterbi", "posterior", "smooth", "filter", "predict")


def posterior_mean(hidden: Hidden, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Means of the unknown parameters: probabilities still sum to one, and angles have their mean direction."""
    next(draws_of(hidden, draws), None)
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
    for _, values in draws_of(hidden, draws, most):
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
        One of `METHODS`.
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
    OptionError, DataError
    """
    if method not in METHODS:
        raise OptionError(f"unknown method '{method}'{hint(method, METHODS)}", code="unknown-word")
    if best < 1:
        raise OptionError(f"best is {best}; at least 1 path", code="out-of-range")
    if best > 1 and method != "viterbi":
        raise OptionError("best counts paths: it goes with method viterbi", code="conflict")
    kept = _times_of(hidden, sequence)
    index = {} if called is None else {called: hidden.sequences.names[hidden.sequences.sequence][kept]}
    index |= {name: values[kept] for name, values in times.items()}
    kind = "smooth" if method in ("viterbi", "posterior") else method
    chances = averaged(hidden, draws, kind, most)
    n = _number(hidden, draws)
    at = "the posterior mean" if n > 1 else "the given parameters" if not hidden.learned else "the fit"
    how = averaging(n, most) if n > 1 else f"at {at}"
    if method == "viterbi":
        table, about = _paths(hidden, posterior_mean(hidden, draws), best, chances, kept, index, at)
        about["about"] += f", {how}" if n > 1 else ""
        return table, about | {"draws": min(n, most)}
    states = chances.argmax(axis=1)
    out = index | _named(hidden, states[kept]) | {"probability": chances.max(axis=1)[kept]}
    if method != "posterior":
        out |= chances_of(hidden, chances[kept])
    return out, {"method": method, "about": f"{method}: probabilities {how}", "draws": min(n, most)}


def _named(hidden: Hidden, states: np.ndarray) -> dict[str, np.ndarray]:
    """Names of states; for several chains, by chain."""
    chain = hidden.chain
    return chain.named(states) if isinstance(chain, ProductChain) else {"state": hidden.states[states]}


def chances_of(hidden: Hidden, chances: np.ndarray) -> dict[str, np.ndarray]:
    """Probabilities (n_times, n_states) as columns; for several chains, of the states of each chain."""
    if isinstance(hidden.chain, ProductChain):
        return hidden.chain.chances(chances)
    return {f"P(state={s})": chances[:, k] for k, s in enumerate(hidden.states)}


def _number(hidden: Hidden, draws: Mapping[str, np.ndarray]) -> int:
    """Number of draws; 1 if nothing is learned."""
    return len(draws[hidden.learned[0]]) if hidden.learned else 1


def _times_of(hidden: Hidden, sequence: str | None) -> np.ndarray:
    sequences = hidden.sequences
    # Rows of trees in the order of the table; times in gaps have no row.
    every = sequences.at if len(sequences.at) == sequences.n_times else np.arange(sequences.n_times)
    if sequence is None:
        return every
    names = sequences.names.astype(str).tolist()
    if sequence not in names:
        raise DataError(f"there is no sequence '{sequence}'{hint(sequence, names)}", code="unknown-level")
    return every[sequences.sequence[every] == names.index(sequence)]


def _paths(
    hidden: Hidden,
    values: Mapping[str, np.ndarray],
    best: int,
    chances: np.ndarray,
    kept: np.ndarray,
    index: dict[str, np.ndarray],
    at: str,
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    paths, heights = hidden.law(values).mode(best)
    parts: list[dict[str, np.ndarray]] = []
    of = hidden.sequences.sequence
    for k in range(best):
        # A sequence may have fewer possible paths.
        there = kept[paths[k][kept] >= 0]
        picked = np.isin(kept, there)
        states = paths[k][there]
        table = {name: value[picked] for name, value in index.items()}
        table |= _named(hidden, states) | {"probability": chances[there, states]}
        if best > 1:
            table |= {"path": np.full(len(there), k + 1), "log_probability": heights[k][of[there]]}
        parts.append(table)
    out = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return out, {
        "method": "viterbi",
        "log_probability": heights.tolist(),
        "about": f"viterbi: the most likely path{'s' if best > 1 else ''} at {at}, log probability with the data"
        f" {heights[0].sum():.6g}; probability: of the state at its time, given all rows",
    }
