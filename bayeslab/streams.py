"""Streams of random numbers: one seed, and for each use of it a stream of its own.

Results that are combined must not come from the same random numbers. A posterior draw and the noise of the prediction
made from it would otherwise be the same number, and the prediction's spread wrong by their covariance. So the engine
that draws a posterior takes the stream of the bare seed, chains the streams with their numbers as keys, and everything
else names its purpose here. Keys of purposes lie above 2^32, where no chain has its number: the streams are
independent [1]_.

References
----------
.. [1] Salmon, Moraes, Dror, Shaw (2011). Parallel random numbers: as easy as 1, 2, 3. SC '11. As NumPy's
   ``SeedSequence`` does it, after O'Neill (2015).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["derived", "place_among_spawned", "stream"]


def stream(seed: int | Sequence[int] | None, purpose: str) -> np.random.Generator:
    """Random numbers for one purpose.

    Parameters
    ----------
    seed
        Of the run or the call. None: different numbers every time.
    purpose
        Such as ``"predict"``: equal ones get equal numbers, different ones independent numbers.
    """
    return np.random.default_rng(_sequence(seed, purpose))


def derived(seed: int | Sequence[int] | None, purpose: str, bits: int = 64) -> int:
    """A seed for one purpose, for what takes a number and not a generator.

    Parameters
    ----------
    seed, purpose
        As for :func:`stream`.
    bits
        32 for scikit-learn, whose seeds are not larger.
    """
    words = _sequence(seed, purpose).generate_state(1, np.uint64 if bits == 64 else np.uint32)
    return int(words[0])


def _sequence(seed: int | Sequence[int] | None, purpose: str) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=((1 << 32) + zlib.crc32(purpose.encode()),))


def place_among_spawned(rng: np.random.Generator) -> int:
    """The number, from 0, of a generator among those spawned with it: which chain or which search it is for."""
    seed: Any = rng.bit_generator.seed_seq
    return int(seed.spawn_key[-1]) if seed.spawn_key else 0
