"""Streams of random numbers: from one seed, an independent stream for each purpose.

Results that are combined must not come from the same random numbers. Otherwise a posterior draw and the noise of its
prediction would be the same number, and the predictive variance would be wrong by their covariance. So the engine
uses the stream of the seed itself, each chain the stream keyed by its number, and every other use names its purpose
here. Keys of purposes lie above 2^32, beyond all chain numbers, so the streams are independent [1]_.

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

from bayeslab.errors import OptionError

__all__ = ["derived", "place_among_spawned", "stream"]


def stream(seed: int | Sequence[int] | None, purpose: str) -> np.random.Generator:
    """Random numbers for one purpose.

    Parameters
    ----------
    seed
        The seed of the run or the call. None: different numbers every time.
    purpose
        A name such as ``"predict"``. Equal purposes get equal streams, different purposes independent ones.

    Raises
    ------
    OptionError
        The seed is no whole number, or negative.
    """
    return np.random.default_rng(_sequence(seed, purpose))


def derived(seed: int | Sequence[int] | None, purpose: str, bits: int = 64) -> int:
    """A seed for one purpose, for functions that take a number instead of a generator.

    Parameters
    ----------
    seed, purpose
        As for :func:`stream`.
    bits
        Size of the seed: 32 for scikit-learn.
    """
    words = _sequence(seed, purpose).generate_state(1, np.uint64 if bits == 64 else np.uint32)
    return int(words[0])


def _sequence(seed: int | Sequence[int] | None, purpose: str) -> np.random.SeedSequence:
    words = seed if isinstance(seed, Sequence) and not isinstance(seed, str | bytes) else (seed,)
    for word in words if seed is not None else ():
        if isinstance(word, bool) or not isinstance(word, int | np.integer) or word < 0:
            raise OptionError(f"seed is a whole number ≥ 0, not {word!r:.60}", code="out-of-range")
    return np.random.SeedSequence(seed, spawn_key=((1 << 32) + zlib.crc32(purpose.encode()),))


def place_among_spawned(rng: np.random.Generator) -> int:
    """The index, from 0, of a generator among those spawned with it: the number of its chain or search."""
    seed: Any = rng.bit_generator.seed_seq
    return int(seed.spawn_key[-1]) if seed.spawn_key else 0
