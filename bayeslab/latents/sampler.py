"""The contract of a Markov chain with its engine: a first state, a step, and states that can be stored.

A sampler computes the first state and the next one, and is itself stateless: everything that a step needs is in its
arguments, the arrays and the random generator. A chain that was stopped therefore continues bit for bit as if it had
not been. Storing, resuming, progress and cancellation are implemented once, in :mod:`bayeslab.engines.toolbox.stepped`.

References
----------
The two methods are those of BlackJAX's samplers: Cabezas, Corenflos, Lao, Louf (2024). BlackJAX: composable Bayesian
inference in JAX. arXiv:2402.10797.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.errors import Stopped

__all__ = ["Arrays", "Chains", "Sampler", "frozen", "prefixed", "recorded", "run", "stacked", "thawed", "with_draw"]

type Arrays = Mapping[str, np.ndarray]


class Sampler(ABC):
    """A Markov chain whose state is a mapping of plain arrays."""

    @abstractmethod
    def init(self, rng: np.random.Generator, tune: int) -> Arrays:
        """Compute the first state.

        Parameters
        ----------
        tune : int
            Number of warm-up steps before the first stored draw.

        Returns
        -------
        mapping of str to ndarray
            The first state. An optional entry ``searched``, which is not part of the state, is the number of steps that
            the search for it counts as.
        """

    @abstractmethod
    def step(self, rng: np.random.Generator, state: Arrays) -> tuple[Arrays, Arrays]:
        """Compute the next state, and the arrays to store for this draw.

        The arrays of ``state`` are not modified. Stored arrays have the same names and dtypes in every step; their
        shapes may differ, and are padded with zeros to the largest.
        """


@dataclass(frozen=True, slots=True)
class Chains[Answer]:
    """Chains whose state and stored draws are arrays: they run in parallel, stop at any time and resume exactly.

    Attributes
    ----------
    begin : callable
        Returns the first state, given a generator, the number of draws and the number of warm-up draws. Its entries
        include ``done``, the number of sweeps made, and ``tune``.
    advance : callable
        Returns the state after the given number of further sweeps. It may run in a thread.
    finish : callable
        Returns the answer from the chains' states, by chain number. Each chain contributes as many draws as the
        shortest one has.
    """

    begin: Callable[[np.random.Generator, int, int], Arrays]
    advance: Callable[[Arrays, int], Arrays]
    finish: Callable[[Mapping[int, Arrays]], Answer]


def recorded[Answer](sampler: Sampler, finish: Callable[[Mapping[int, Arrays], int], Answer]) -> Chains[Answer]:
    """Chains of a sampler that store the arrays of every step.

    Parameters
    ----------
    finish : callable
        Returns the answer, given the draws of each chain (by chain number, then by name, (n_draws, ...)) and the
        number of draws.
    """

    def begin(rng: np.random.Generator, draws: int, tune: int) -> Arrays:
        state = dict(sampler.init(rng, tune))
        searched = state.pop("searched", np.array(0))
        counts = {"done": searched, "tune": np.array(tune), "draws": np.array(draws), "rng": frozen(rng)}
        return {f"state_{name}": value for name, value in state.items()} | counts

    def advance(chain: Arrays, sweeps: int) -> Arrays:
        rng, draws, tune = thawed(chain["rng"]), int(chain["draws"]), int(chain["tune"])
        done = int(chain["done"])
        state: Arrays = prefixed(chain, "state_")
        kept = {name: value.copy() for name, value in prefixed(chain, "kept_").items()}
        for draw in range(done - tune, done - tune + sweeps):
            state, info = sampler.step(rng, state)
            if draw >= 0:
                for name, value in info.items():
                    kept[name] = with_draw(kept.get(name), np.asarray(value), draw, draws)
        counts = {"done": np.array(done + sweeps), "tune": chain["tune"], "draws": chain["draws"], "rng": frozen(rng)}
        return (
            {f"state_{name}": value for name, value in state.items()}
            | {f"kept_{name}": value for name, value in kept.items()}
            | counts
        )

    def ended(chains: Mapping[int, Arrays]) -> Answer:
        n_draws = min((int(chain["done"] - chain["tune"]) for chain in chains.values()), default=0)
        if n_draws < 1:
            raise Stopped(
                "stopped before every chain had a draw after tuning; go on with `bayeslab fit --resume RUN`",
                code="stopped",
            )
        return finish({k: prefixed(chain, "kept_") for k, chain in chains.items()}, n_draws)

    return Chains(begin, advance, ended)


def run(sampler: Sampler, rng: np.random.Generator, draws: int, tune: int) -> Arrays:
    """Run one chain; its draws by name, (draws, ...)."""
    chains = recorded(sampler, lambda kept, n_draws: kept[0])
    first = chains.begin(rng, draws, tune)
    return chains.finish({0: chains.advance(first, draws + tune - int(first["done"]))})


def stacked(kept: Mapping[int, Arrays], name: str, n_draws: int) -> np.ndarray:
    """One quantity of all chains, (chains, n_draws, ...), padded with zeros to the largest shape."""
    arrays = [chain[name][:n_draws] for chain in kept.values()]
    shape = tuple(np.max([array.shape for array in arrays], axis=0))
    return np.stack([_wide(array, shape) for array in arrays])


def prefixed(chain: Arrays, prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with a prefix, named without it."""
    return {name.removeprefix(prefix): value for name, value in chain.items() if name.startswith(prefix)}


def with_draw(values: np.ndarray | None, value: np.ndarray, draw: int, draws: int) -> np.ndarray:
    """Store one more draw in the array of all draws, in place, with more room if it needs more."""
    if values is None:
        values = np.zeros((draws, *value.shape), value.dtype)
    values = _wide(values, (draws, *np.maximum(values.shape[1:], value.shape)))
    place: Any = (draw, *(slice(n) for n in value.shape))
    values[place] = value
    return values


def _wide(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Pad an array with zeros to a shape that is at least as large on every axis."""
    if values.shape == tuple(shape):
        return values
    return np.pad(values, [(0, n - m) for m, n in zip(values.shape, shape, strict=True)])


def frozen(rng: np.random.Generator) -> np.ndarray:
    """The state of a generator, as an array that can be stored."""
    return np.array(json.dumps(rng.bit_generator.state))


def thawed(state: np.ndarray) -> np.random.Generator:
    """The generator at a stored state."""
    bits = np.random.PCG64()
    bits.state = json.loads(str(state))
    return np.random.Generator(bits)
