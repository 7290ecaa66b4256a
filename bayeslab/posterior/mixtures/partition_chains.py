"""Chains over partitions of rows that record numbers of every draw and store some of the partitions.

Partitions of many rows are large: a chain stores evenly spaced ones, and for each draw the one that stands for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.errors import Stopped
from bayeslab.latents.sampler import Arrays, Chains, prefixed, stacked, thawed, with_draw
from bayeslab.posterior.answer import GibbsDraws

__all__ = ["PartitionChains", "PartitionDraws", "PartitionSteps", "probable_numbers"]

# Largest number of label cells stored in a chain, and smallest number of draws.
_CELLS, _LEAST = 5_000_000, 10


class PartitionSteps(ABC):
    """The steps of a chain whose state has the ``labels`` of all rows, the concentration ``alpha`` and ``rng``."""

    #: Names of the label-invariant numbers recorded of every draw.
    recorded: tuple[str, ...]

    @abstractmethod
    def first(self, rng: np.random.Generator) -> Arrays:
        """The first state of a chain; the chain's number is known from its generator."""

    @abstractmethod
    def joined(self, labels: np.ndarray, alpha: float, rng: np.random.Generator) -> Arrays:
        """A first state in which the rows after the labelled ones have been assigned to clusters."""

    @abstractmethod
    def advance(
        self, state: Arrays, keep: np.ndarray, search: np.ndarray
    ) -> tuple[Arrays, np.ndarray, Iterable[Arrays]]:
        """The state after some draws.

        Parameters
        ----------
        keep : ndarray (n_draws,) of bool
            The draws whose partitions are stored.
        search : ndarray (n_draws,) of bool
            The draws that may move to more probable partitions without regard to the posterior.

        Returns
        -------
        mapping of str to ndarray
            The state.
        ndarray (n_draws, len(recorded))
            The recorded numbers.
        iterable of mapping of str to ndarray
            The stored partitions: ``labels`` numbered by first appearance, ``concentration``, and parameters of the
            clusters.
        """


@dataclass(frozen=True, eq=False)
class PartitionDraws:
    """Draws of several chains.

    Attributes
    ----------
    recorded : mapping of str to ndarray (chains, draws)
    stored : mapping of str to ndarray (chains, stored, ...)
    of_draw : ndarray (draws,)
        The stored partition for each draw.
    rng : numpy.random.Generator
        The first chain's generator after its last draw, for quantities drawn given the partitions.
    """

    recorded: Mapping[str, np.ndarray]
    stored: Mapping[str, np.ndarray]
    of_draw: np.ndarray
    rng: np.random.Generator

    @property
    def n_clusters(self) -> np.ndarray:
        """Number of clusters of each draw, (chains, draws) of int."""
        return self.recorded["n_clusters"].astype(np.int64)

    @property
    def shares(self) -> np.ndarray:
        """Share of the draws with 0, 1, 2, ... clusters."""
        counts = np.bincount(self.n_clusters.ravel())
        return np.asarray(counts / counts.sum())

    def groups(self, rows: str, dims: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
        """The groups ``partitions`` and ``number`` of the results.

        Parameters
        ----------
        rows : str
            Dimension of the rows.
        dims : mapping of str to tuple of str
            Dimensions of the clusters' parameters.
        """
        along: dict[str, tuple[str, ...]] = {"labels": (rows,), "concentration": ()} | dict(dims)
        labels, chains = self.stored["labels"], len(self.stored["labels"])
        stored = dict(self.stored) | {"labels": labels.astype(np.int16) if labels.max(initial=0) < 1 << 15 else labels}
        partitions = {name: (("chain", "kept", *along[name]), value) for name, value in stored.items()}
        shares = self.shares
        return {
            "partitions": partitions | {"of_draw": (("chain", "draw"), np.tile(self.of_draw, (chains, 1)))},
            "number": {
                "n_clusters": (("number",), np.arange(1, len(shares))),
                "probability": (("number",), shares[1:]),
            },
        }


def probable_numbers(shares: np.ndarray, most: int = 12) -> str:
    """The probable numbers 0, 1, 2, ... with their probabilities, as text."""
    shown = [(k, p) for k, p in enumerate(shares) if p >= 0.005]
    return ", ".join(f"{k}: {p:.2f}" for k, p in shown[:most]) + (", ..." if len(shown) > most else "")


@dataclass(frozen=True, eq=False)
class PartitionChains:
    """Chains of some steps, as arrays: see :class:`bayeslab.latents.sampler.Chains`."""

    steps: PartitionSteps
    n_rows: int

    def begin(self, rng: np.random.Generator, draws: int, tune: int) -> Arrays:
        return self.at(self.steps.first(rng), draws, tune)

    def joined(self, labels: np.ndarray, alphas: np.ndarray, seed: int, draws: int, tune: int) -> dict[int, Arrays]:
        """Chains that start at partitions of the first rows (chains, n), with the other rows assigned."""
        sources = np.random.default_rng(seed).spawn(len(labels))
        return {
            k: self.at(self.steps.joined(labels[k].astype(np.int64), float(alphas[k]), rng), draws, tune)
            for k, rng in enumerate(sources)
        }

    def at(self, state: Arrays, draws: int, tune: int) -> Arrays:
        """A chain that starts at this state."""
        counts = {"done": 0, "tune": tune, "room": min(draws, max(_LEAST, _CELLS // self.n_rows))}
        numbers = np.zeros((draws, len(self.steps.recorded)))
        return _packed(state) | {"recorded": numbers} | {name: np.array(value) for name, value in counts.items()}

    def advance(self, chain: Arrays, sweeps: int) -> Arrays:
        done, tune, room = (int(chain[name]) for name in ("done", "tune", "room"))
        numbers = chain["recorded"].copy()
        draw = np.arange(done - tune, done - tune + sweeps)
        place = np.maximum(draw, 0) * room // len(numbers)
        # Store the last of the draws that share a place, so that a chain can continue from its last draw.
        keep = (draw >= 0) & ((draw + 1) * room // len(numbers) > place)
        # The first half of the warm-up is a search.
        state, values, partitions = self.steps.advance(_unpacked(chain), keep, draw < tune // 2 - tune)
        numbers[draw[draw >= 0]] = values[draw >= 0]
        stored = {name: value.copy() for name, value in prefixed(chain, "stored_").items()}
        for at, partition in zip(place[keep], partitions, strict=True):
            for name, value in partition.items():
                stored[name] = with_draw(stored.get(name), np.asarray(value), int(at), room)
        return (
            _packed(state)
            | {f"stored_{name}": value for name, value in stored.items()}
            | {"recorded": numbers, "done": np.array(done + sweeps), "tune": chain["tune"], "room": chain["room"]}
        )

    def drawn(self, chains: Mapping[int, Arrays]) -> PartitionDraws:
        """The draws of all chains.

        Raises
        ------
        Stopped
            A chain has not stored a partition yet.
        """
        n_draws = min((int(chain["done"] - chain["tune"]) for chain in chains.values()), default=0)
        n_stored, room, total = 0, 0, 0
        if n_draws > 0:
            first = next(iter(chains.values()))
            room, total = int(first["room"]), len(first["recorded"])
            n_stored = n_draws * room // total
        if not n_stored:
            raise Stopped(
                "stopped before every chain had stored a draw; go on with `bayeslab fit --resume RUN`", code="stopped"
            )
        numbers = np.stack([chain["recorded"][:n_draws] for chain in chains.values()])
        each = {k: prefixed(chain, "stored_") for k, chain in chains.items()}
        return PartitionDraws(
            {name: numbers[..., k] for k, name in enumerate(self.steps.recorded)},
            {name: stacked(each, name, n_stored) for name in next(iter(each.values()))},
            np.minimum(np.arange(n_draws) * room // total, n_stored - 1),
            thawed(next(iter(chains.values()))["rng"]),
        )

    def plan(self, finish: Callable[[PartitionDraws], GibbsDraws]) -> Chains[GibbsDraws]:
        """The chains, with an answer from their draws."""
        return Chains(self.begin, self.advance, lambda chains: finish(self.drawn(chains)))


def _packed(state: Arrays) -> dict[str, np.ndarray]:
    """The entries of a chain that are its state."""
    return {name if name == "rng" else f"state_{name}": value for name, value in state.items()}


def _unpacked(chain: Arrays) -> dict[str, np.ndarray]:
    return prefixed(chain, "state_") | {"rng": chain["rng"]}
