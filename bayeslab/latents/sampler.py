"""What a Markov chain is to the engine that runs it: a first state, a step, and states that a file can hold.

A sampler gives the first state and the next one, and has no state itself: all that a step needs is in its arguments,
the arrays and the generator. So a chain that was stopped continues bit for bit as if it had not been. Storing,
resuming, progress and cancellation are written once, in :mod:`bayeslab.engines.toolbox.stepped`.

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

__all__ = ["Arrays", "Chains", "Sampler", "frozen", "recorded", "run", "stacked", "thawed"]

type Arrays = Mapping[str, np.ndarray]


class Sampler(ABC):
    """A Markov chain on plain arrays."""

    @abstractmethod
    def init(self, rng: np.random.Generator, tune: int) -> Arrays:
        """The first state.

        Parameters
        ----------
        tune : int
            Steps before the first draw that is kept.

        Returns
        -------
        mapping of str to ndarray
            With an entry ``searched``, which is no part of the state, where a search for it counts as so many steps.
        """

    @abstractmethod
    def step(self, rng: np.random.Generator, state: Arrays) -> tuple[Arrays, Arrays]:
        """The next state, and what is kept of this draw.

        The arrays of ``state`` are not written to. What is kept has the same names and dtypes in every step; shapes may
        grow and shrink, and are filled with zeros to the largest.
        """


@dataclass(frozen=True, slots=True)
class Chains[Answer]:
    """Chains whose state, with all that is kept, is arrays: they run side by side, stop anywhere and continue exactly.

    Attributes
    ----------
    begin : callable
        The first state from a generator, the number of draws and the number of tuning draws. It has the entries
        ``done``, the number of sweeps made, and ``tune``.
    advance : callable
        The state so many sweeps later. It may run in a thread.
    finish : callable
        The answer from the chains' states, by the number of the chain; as many draws of each as the shortest has.
    """

    begin: Callable[[np.random.Generator, int, int], Arrays]
    advance: Callable[[Arrays, int], Arrays]
    finish: Callable[[Mapping[int, Arrays]], Answer]


def recorded[Answer](sampler: Sampler, finish: Callable[[Mapping[int, Arrays], int], Answer]) -> Chains[Answer]:
    """Chains of a sampler that keep what every step gives.

    Parameters
    ----------
    finish : callable
        The answer from draws by name, (n_draws, ...), of each chain by its number, and from the number of draws.
    """

    def begin(rng: np.random.Generator, draws: int, tune: int) -> Arrays:
        state = dict(sampler.init(rng, tune))
        searched = state.pop("searched", np.array(0))
        counts = {"done": searched, "tune": np.array(tune), "draws": np.array(draws), "rng": frozen(rng)}
        return {f"state_{name}": value for name, value in state.items()} | counts

    def advance(chain: Arrays, sweeps: int) -> Arrays:
        rng, draws, tune = thawed(chain["rng"]), int(chain["draws"]), int(chain["tune"])
        done = int(chain["done"])
        state: Arrays = _named(chain, "state_")
        kept = {name: value.copy() for name, value in _named(chain, "kept_").items()}
        for draw in range(done - tune, done - tune + sweeps):
            state, info = sampler.step(rng, state)
            if draw >= 0:
                for name, value in info.items():
                    kept[name] = _with(kept.get(name), np.asarray(value), draw, draws)
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
        return finish({k: _named(chain, "kept_") for k, chain in chains.items()}, n_draws)

    return Chains(begin, advance, ended)


def run(sampler: Sampler, rng: np.random.Generator, draws: int, tune: int) -> Arrays:
    """Draws of one chain by name, (draws, ...)."""
    chains = recorded(sampler, lambda kept, n_draws: kept[0])
    first = chains.begin(rng, draws, tune)
    return chains.finish({0: chains.advance(first, draws + tune - int(first["done"]))})


def stacked(kept: Mapping[int, Arrays], name: str, n_draws: int) -> np.ndarray:
    """One quantity of all chains, (chains, n_draws, ...), filled with zeros to the largest shape."""
    arrays = [chain[name][:n_draws] for chain in kept.values()]
    shape = tuple(np.max([array.shape for array in arrays], axis=0))
    return np.stack([_wide(array, shape) for array in arrays])


def _named(chain: Arrays, prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): value for name, value in chain.items() if name.startswith(prefix)}


def _with(values: np.ndarray | None, value: np.ndarray, draw: int, draws: int) -> np.ndarray:
    """An array of all draws with one more of them."""
    if values is None:
        values = np.zeros((draws, *value.shape), value.dtype)
    values = _wide(values, (draws, *np.maximum(values.shape[1:], value.shape)))
    place: Any = (draw, *(slice(n) for n in value.shape))
    values[place] = value
    return values


def _wide(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The same with zeros up to a shape that is nowhere smaller."""
    if values.shape == tuple(shape):
        return values
    return np.pad(values, [(0, n - m) for m, n in zip(values.shape, shape, strict=True)])


def frozen(rng: np.random.Generator) -> np.ndarray:
    """The state of a generator as an array that a file can hold."""
    return np.array(json.dumps(rng.bit_generator.state))


def thawed(state: np.ndarray) -> np.random.Generator:
    """The generator at that state."""
    bits = np.random.PCG64()
    bits.state = json.loads(str(state))
    return np.random.Generator(bits)
