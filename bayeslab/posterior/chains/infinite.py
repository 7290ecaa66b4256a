"""Hidden Markov models with an unbounded number of states, by Gibbs sampling in the weak limit.

Convergence is assessed on label-invariant quantities: the number of states in use, the entropy of their shares, the log
likelihood and the concentrations. The states of all draws are then relabelled to agree best with one partition of the
times: the partition with the smallest expected variation of information.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.latents.chains.hidden_gibbs import draw_path
from bayeslab.latents.chains.infinite_hidden import Limit, LimitState, draw_limit, prior_state
from bayeslab.latents.labels.clusters import MOST_PAIRED, coclustering_of_many, point_partition, relabel_to_pivot
from bayeslab.latents.sampler import Arrays, Sampler, recorded, stacked
from bayeslab.posterior.answer import GibbsDraws, GibbsPlan, Note
from bayeslab.posterior.chains.gibbs import refusal
from bayeslab.posterior.chains.hidden import Hidden
from bayeslab.posterior.draws import evenly
from bayeslab.posterior.latent_gibbs import drawn_parts
from bayeslab.posterior.similar_rows import similar_rows

__all__ = ["infinite", "priors"]

type Values = dict[str, np.ndarray]

# Largest numbers of times and of draws on which partitions are compared.
_TIMES, _DRAWS = 1_000, 300
# Bounds of the number of groups of similar rows at the start: too many merge sooner than too few split.
_GROUPS = 8, 20
# Number of sweeps for each draw: splits and merges of states are slow.
_SWEEPS = 5
# Transition probabilities below this are set to zero: no data have a less probable step.
_NEVER = 1e-90
# Share of `most` in use from which the truncation may matter.
_NEAR = 0.8


def priors(limit: Limit, hidden: Hidden) -> dict[str, str]:
    """The prior of each unknown."""
    out = {
        name: f"Gamma({prior[0]:g}, {prior[1]:g})"
        for name, prior in (("alpha", limit.alpha), ("gamma", limit.gamma), ("kappa", limit.kappa))
        if isinstance(prior, tuple)
    }
    sticky = f" + {limit.kappa:g} for staying" if isinstance(limit.kappa, float) and limit.kappa else ""
    sticky = " + kappa for staying" if isinstance(limit.kappa, tuple) else sticky
    out |= {"beta": f"Dirichlet(gamma / {limit.most})", "initial": "Dirichlet(alpha beta)"}
    out |= {"transition": f"Dirichlet(alpha beta{sticky}) in every row"}
    return out | {name: part.default_prior(name) for part in hidden.parts for name in part.learned}


def infinite(limit: Limit, hidden: Hidden, rows: str) -> GibbsPlan | str:
    """Plan of Gibbs sampling of paths, states and concentrations, or the reason why it does not apply."""
    if (why := refusal(hidden)) is not None:
        return why
    free = [name for name in ("alpha", "gamma", "kappa") if isinstance(getattr(limit, name), tuple)]

    def finish(kept: Mapping[int, Arrays], n_draws: int) -> GibbsDraws:
        checked = ("n_occupied", "entropy", "log_likelihood", *free)
        draws = {name: stacked(kept, name, n_draws) for name in checked}
        parameters = {name: stacked(kept, f"value_{name}", n_draws) for name in hidden.learned}
        sizes, paths = stacked(kept, "sizes", n_draws), stacked(kept, "path", n_draws)
        groups, notes = _named(hidden, limit, draws["n_occupied"], parameters, sizes, paths, rows)
        return GibbsDraws(draws, {"log_likelihood": draws["log_likelihood"]}, groups, notes)

    n = hidden.sequences.n_times
    how = f"the path of {n:,} times, and up to {limit.most} states with their parameters, in turns"
    dims: dict[str, tuple[str, ...]] = dict.fromkeys(("n_occupied", "entropy", "log_likelihood", *free), ())
    return GibbsPlan(how, recorded(_LimitSampler(hidden, limit), finish), dims, hidden.labels)


# --------------------------------------------------------------------------------- a chain


@dataclass(frozen=True, eq=False)
class _LimitSampler(Sampler):
    """Gibbs steps of the weak limit: the state is that of the process and the parameters.

    Each draw stores label-invariant quantities, the parameters (``value_...``), the number of times in each state
    (``sizes``), and the states at some times (``path``).
    """

    hidden: Hidden
    limit: Limit

    @cached_property
    def at(self) -> np.ndarray:
        return evenly(self.hidden.sequences.n_times, _TIMES)

    def init(self, rng: np.random.Generator, tune: int) -> Arrays:
        state, values = _start(self.hidden, self.limit, rng)
        return self._packed(state, values)

    def _packed(self, state: LimitState, values: Values) -> Arrays:
        process = {f"process_{f.name}": np.asarray(getattr(state, f.name)) for f in fields(LimitState)}
        return process | {f"value_{name}": np.asarray(v) for name, v in values.items()}

    def step(self, rng: np.random.Generator, state: Arrays) -> tuple[Arrays, Arrays]:
        hidden, limit = self.hidden, self.limit
        process = LimitState(**{f.name: _number(state[f"process_{f.name}"]) for f in fields(LimitState)})
        values: Values = {n.removeprefix("value_"): v for n, v in state.items() if n.startswith("value_")}
        for _ in range(_SWEEPS):
            law: Any = hidden.law(values)
            path = draw_path(law.chain, law.log_density, rng, law.offsets)
            before, process = process, draw_limit(limit, process, path.starts, path.moves, rng)
            held, values = values, _of(process) | drawn_parts(hidden.parts, hidden.rows, path.states, values, rng)
        sizes = np.bincount(path.states, minlength=limit.most)
        shares = sizes[sizes > 0] / sizes.sum()
        kept: dict[str, Any] = {
            "sizes": sizes,
            "path": path.states[self.at].astype(np.int16),
            "n_occupied": len(shares),
            "entropy": -np.sum(shares * np.log(shares)),
            "log_likelihood": path.log_evidence,
        }
        kept |= {name: float(getattr(before, name)) for name in ("alpha", "gamma", "kappa")}
        kept |= {f"value_{name}": held[name] for name in hidden.learned}
        return self._packed(process, values), {name: np.asarray(value) for name, value in kept.items()}


def _number(value: np.ndarray) -> Any:
    return float(value) if value.ndim == 0 else value


def _of(state: LimitState) -> Values:
    # Negligible probabilities become zero, so that no sequence needs filtering in logarithms.
    rows = {"initial": state.initial, "transition": state.transition}
    return {name: np.where(p < _NEVER, 0.0, p) for name, p in rows.items()}


def _start(hidden: Hidden, limit: Limit, rng: np.random.Generator) -> tuple[LimitState, Values]:
    """Start from groups of similar rows, with a different number in every chain."""
    rows, most = hidden.rows, limit.most
    groups = int(rng.integers(min(_GROUPS[0], most), min(_GROUPS[1], most) + 1))
    states = rng.integers(groups, size=len(rows))
    similar = similar_rows(hidden.parts, rows, groups, rng)
    states = np.where(similar < 0, states, similar)
    offsets, n = hidden.sequences.offsets, len(rows)
    first = np.zeros(n, bool)
    first[offsets[:-1][np.diff(offsets) > 0]] = True
    later = np.flatnonzero(~first)
    starts = np.bincount(states[first], minlength=most).astype(float)
    pairs = states[later - 1] * most + states[later]
    moves = np.bincount(pairs, minlength=most * most).reshape(most, most).astype(float)
    begun = prior_state(limit, rng)
    # A flat β makes no state too rare to be proposed.
    state = draw_limit(limit, replace(begun, beta=np.full(most, 1 / most)), starts, moves, rng)
    emission_parameters = hidden.emitting(rows, np.eye(most)[states])  # for missing cells of joint normal rows
    return state, _of(state) | drawn_parts(hidden.parts, hidden.rows, states, emission_parameters, rng)


# --------------------------------------------------------------------------------- names for states


def _named(
    hidden: Hidden,
    limit: Limit,
    n_occupied: np.ndarray,
    parameters: Mapping[str, np.ndarray],
    sizes: np.ndarray,
    paths: np.ndarray,
    rows: str,
) -> tuple[dict[str, Any], tuple[Note, ...]]:
    """Groups of results, and remarks on the states for the verdict; arrays are (chains, draws, ...)."""
    chains, draws = n_occupied.shape
    paths = paths.reshape(-1, paths.shape[-1]).astype(np.int64)
    some = paths[evenly(len(paths), _DRAWS)]
    partition = point_partition(some, max_clusters=limit.most).labels
    moves = relabel_to_pivot(paths, limit.most, partition)
    sizes = np.take_along_axis(sizes.reshape(-1, sizes.shape[-1]), moves, axis=1)
    flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in parameters.items()}
    values = hidden.permuted(flat, moves, lead=1)
    count = int(partition.max()) + 1
    order = np.arange(limit.most)
    order[:count] = _rising(hidden, values, sizes > 0, count)
    partition, sizes = np.argsort(order)[partition], sizes[:, order]
    values = hidden.permuted(values, np.broadcast_to(order, moves.shape), lead=1)
    groups: dict[str, Any] = {
        "states": {
            name: (("chain", "draw", *hidden.dims[name]), v.reshape(chains, draws, *v.shape[1:]))
            for name, v in values.items()
        }
        | {"occupied": (("chain", "draw", "state"), (sizes > 0).reshape(chains, draws, -1))},
        "occupied": _occupied(hidden, values, sizes, count),
    }
    n = hidden.sequences.n_times
    if n <= min(_TIMES, MOST_PAIRED):
        at = hidden.sequences.at
        groups["clusters"] = {
            "partition": ((rows,), partition[at] + 1),
            "together": ((rows, f"{rows}_2"), coclustering_of_many(paths[:, at], least=_DRAWS)),
        }
    return groups, _notes(n_occupied.ravel(), sizes, count, limit)


def _rising(hidden: Hidden, values: Mapping[str, np.ndarray], used: np.ndarray, count: int) -> np.ndarray:
    """The states of the partition ordered by their first parameter, as states of other models are."""
    part = hidden.parts[0]
    if not part.learned:
        return np.arange(count)
    name = next(n for n in part.names if n in part.learned)
    parameter = values[name].reshape(len(used), used.shape[1], -1)[:, :count, 0]
    return np.argsort(
        np.sum(parameter * used[:, :count], axis=0) / np.maximum(used[:, :count].sum(axis=0), 1), kind="stable"
    )


def _occupied(hidden: Hidden, values: Mapping[str, np.ndarray], sizes: np.ndarray, count: int) -> dict[str, Any]:
    """States of the partition: how often each is in use, for how many times, and its parameters when in use."""
    used = sizes[:, :count] > 0
    out: dict[str, Any] = {
        "probability": (("occupied_state",), used.mean(axis=0)),
        "times": (("occupied_state",), sizes[:, :count].mean(axis=0)),
    }
    weight = used / np.maximum(used.sum(axis=0), 1)
    for part in hidden.parts:
        for name in part.learned:
            dims = hidden.dims[name]
            if dims[0] != "state":
                continue
            parameter = values[name][:, :count]
            mean = np.einsum("sk,sk...->k...", weight, parameter)
            spread = np.einsum("sk,sk...->k...", weight, (parameter - mean) ** 2)
            out[name] = (("occupied_state", *dims[1:]), mean)
            out[f"{name}_sd"] = (("occupied_state", *dims[1:]), np.sqrt(spread))
    return out


def _notes(number: np.ndarray, sizes: np.ndarray, count: int, limit: Limit) -> tuple[Note, ...]:
    shares = np.bincount(number) / len(number)
    ends = ", ".join(f"{k}: {p:.2f}" for k, p in enumerate(shares) if p >= 0.005)
    held = ", ".join(f"{x:.1f}" for x in sizes[:, :count].mean(axis=0))
    notes = [
        Note("pass", "states", f"posterior of the number of states in use {ends}"),
        Note("pass", "partition", f"the partition with the least expected loss has {count} states, of {held} times"),
    ]
    highest = int(np.quantile(number, 0.95, method="higher"))
    if highest > _NEAR * limit.most:
        text = f"{highest} states are in use (95 % of draws have no more), near the {limit.most} that there can be"
        notes.append(Note("warn", "truncation", text, f"raise `most`, to {2 * limit.most} or more"))
    return tuple(notes)
