"""Chains whose state is arrays, run in parallel threads: stored regularly, stopped by Ctrl-C, and resumed exactly."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from bayeslab.computer import available_cores
from bayeslab.job import Job
from bayeslab.latents.sampler import Arrays, Chains
from bayeslab.progress import ChainState

__all__ = ["stepped"]

# Seconds between checks whether a chain should stop, and between saves of a chain.
LOOK, _KEEP = 0.25, 20.0


def stepped(job: Job, sampler: Chains[Any], *, cores: int | None) -> tuple[dict[int, Arrays], bool]:
    """The states of all chains, and whether all of them are finished.

    A chain stored in the run folder is resumed. A chain depends only on the run's seed and its number.
    """
    options: Any = job.options
    total = options.draws + options.tune
    seeds = np.random.default_rng(job.seed).spawn(options.chains)
    # On Ctrl-C the draws so far are the result.
    chains: dict[int, Arrays] = {k: job.store.read(k) for k in job.store.finished() if k < options.chains}
    shown = [_Shown(total, options.tune) for _ in range(options.chains)]
    for k, state in chains.items():
        shown[k].done = int(state["done"])
        shown[k].resumed = shown[k].finished = shown[k].done >= total
    stop = threading.Event()

    def one(k: int) -> None:
        state = chains.get(k)
        if state is None:
            state = sampler.begin(seeds[k], options.draws, options.tune)
        many, kept = 1, time.monotonic()
        while int(state["done"]) < total and not stop.is_set():
            begun = time.monotonic()
            state = sampler.advance(state, min(many, total - int(state["done"])))
            chains[k], shown[k].done = state, int(state["done"])
            now = time.monotonic()
            many = max(1, min(2 * many, int(many * LOOK / max(now - begun, 1e-9))))
            if now - kept > _KEEP:
                job.store.write(k, state)
                kept = now
        job.store.write(k, state)
        shown[k].finished = shown[k].done >= total

    job.progress.begin(list(shown))
    workers = max(1, min(options.chains, cores or available_cores()))
    pool = ThreadPoolExecutor(workers)
    try:
        futures = [pool.submit(one, k) for k in range(options.chains) if not shown[k].finished]
        _watched(job, futures)
    except KeyboardInterrupt:
        stop.set()
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        job.progress.close()
    return dict(sorted(chains.items())), all(state.finished for state in shown)


def _watched(job: Job, futures: list[Future[None]]) -> None:
    """Wait for all chains, show their progress, and raise the first error of a chain."""
    left = set(futures)
    while left:
        done, left = wait(left, timeout=0.1)
        for future in done:
            future.result()
        job.progress.refresh()


class _Shown(ChainState):
    """A chain without step sizes."""

    @property
    def cells(self) -> dict[str, str]:
        return {}

    @property
    def troubles(self) -> dict[str, int]:
        return {}
