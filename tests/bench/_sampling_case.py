"""Forward sampling of a million rows of alarm, ours and pyAgrum's, in one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ALARM = Path(__file__).parents[3] / "shared" / "data" / "networks" / "alarm.bif"
ROWS = 1_000_000


def forward_sampling(path: Path = ALARM, rows: int = ROWS) -> tuple[float, float]:
    """Seconds of ours (best of three, compiled before) and of pyAgrum, which keeps its rows too."""
    import pyagrum

    from bayeslab.formats.network_files import read_network
    from bayeslab.latents.networks.sampling import forward_sample

    network = read_network(path)
    forward_sample(network, 10, np.random.default_rng(0))
    ours = min(_seconds(lambda: forward_sample(network, rows, np.random.default_rng(1))) for _ in range(3))
    peer = pyagrum.loadBN(str(path))  # the generator does not keep it alive
    generator = pyagrum.BNDatabaseGenerator(peer)
    return ours, _seconds(lambda: generator.drawSamples(rows))


def forward_sampling_pgmpy(path: Path = ALARM, rows: int = ROWS) -> float:
    """Seconds of pgmpy's forward sampling."""
    from pgmpy.readwrite import BIFReader
    from pgmpy.sampling import BayesianModelSampling

    sampler = BayesianModelSampling(BIFReader(str(path)).get_model())
    return _seconds(lambda: sampler.forward_sample(size=rows, show_progress=False))


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    ours, theirs = forward_sampling()
    print(f"forward sampling, {ROWS:,} rows of alarm: {ours:.2f} s, pyAgrum {theirs:.2f} s, ratio {theirs / ours:.1f}")
    pgmpy = forward_sampling_pgmpy()
    print(f"pgmpy {pgmpy:.2f} s, ratio {pgmpy / ours:.1f}")
