"""A Dask cluster on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["dask_cluster"]


@contextmanager
def dask_cluster(folder: Path, workers: int = 2) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and its workers, each a process of its own: its address, and the workers."""
    file = folder / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": (folder / "log.txt").open("wb"), "cwd": folder}
    common = ["--scheduler-file", str(file), "--no-dashboard"]
    environment = os.environ | {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "30s"}
    # Workers import the package under test.
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")))
    )

    def begin(*words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-m", "dask", *words, *common], env=environment, **quiet)

    processes = [begin("scheduler", "--port", "0", "--host", "127.0.0.1")]
    try:
        processes += [begin("worker", "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1") for _ in range(workers)]
        deadline = time.monotonic() + 60
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        yield json.loads(file.read_text())["address"], processes[1:]
    finally:
        for process in processes[::-1]:
            process.kill()
            process.wait()
        quiet["stderr"].close()
