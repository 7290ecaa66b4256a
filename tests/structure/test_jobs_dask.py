"""The job on a real Dask cluster of two workers, one of which is killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from bayeslab.run_folder.segments import SegmentStore
from bayeslab.structure.jobs import MemorySegments, Sampler, Task, Work, Workers, run
from tests.refusals import refused
from tests.structure._dags import drawn, random_scores, table_of

pytest.importorskip("distributed")
# Closing a client leaves sockets to the garbage collector; nothing of ours.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

TABLE = table_of(7, random_scores(3, 1.0), max_parents=3)
SAMPLER = Sampler("structure", (1.0, 0.6, 0.3), 200)
WORK = Work(draws=60, tune=10, thin=15_000, chains=4, segment=5, seed=5)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A scheduler and two workers, each a process of its own: (address, workers)."""
    folder = tmp_path_factory.mktemp("dask")
    file = folder / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": (folder / "log.txt").open("wb"), "cwd": folder}
    common = ["--scheduler-file", str(file), "--no-dashboard"]

    def begin(*words: str) -> subprocess.Popen[bytes]:
        environment = os.environ | {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "30s"}
        return subprocess.Popen([sys.executable, "-m", "dask", *words, *common], env=environment, **quiet)

    processes = [begin("scheduler", "--port", "0", "--host", "127.0.0.1")]
    try:
        processes += [begin("worker", "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1") for _ in range(2)]
        deadline = time.monotonic() + 60
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        yield json.loads(file.read_text())["address"], processes[1:]
    finally:
        for process in processes[::-1]:
            process.kill()
            process.wait()
        quiet["stderr"].close()


@pytest.mark.slow(why="processes")
def test_a_worker_killed_in_the_middle_costs_nothing(cluster, tmp_path):
    from distributed import Client

    address, workers = cluster
    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        expected = drawn(run(TABLE, SAMPLER, WORK, MemorySegments(), Workers()))
        seen, killed = [], []

        def report(chains, whole):
            seen.append(sum(chain.done for chain in chains))
            if seen[-1] >= 100 and not killed:
                workers[0].send_signal(signal.SIGKILL)
                killed.append(seen[-1])

        found = run(TABLE, SAMPLER, WORK, SegmentStore(tmp_path), Workers(scheduler=address), report)
        assert workers[0].wait() == -signal.SIGKILL and workers[1].poll() is None
        assert 100 <= killed[0] < 280 == seen[-1] and len(client.ncores()) == 1
    np.testing.assert_array_equal(drawn(found), expected)
    # What was kept on the way is whole as well.
    again = run(TABLE, SAMPLER, WORK, SegmentStore(tmp_path), Workers())
    np.testing.assert_array_equal(drawn(again), expected)


@pytest.mark.slow(why="processes")
def test_a_table_lost_with_its_workers_is_sent_again(cluster):
    tasks = [Task(number, SAMPLER, WORK.seed_of(number), 5, 10) for number in range(2)]
    with Workers(scheduler=cluster[0]).ready(TABLE, SAMPLER) as compute_round:
        expected = {piece.chain: piece.draws for piece in compute_round(tasks)}
        compute_round.client.cancel(compute_round.copies, force=True)
        assert list(compute_round(tasks)) == []
        for piece in compute_round(tasks):
            np.testing.assert_array_equal(piece.draws, expected.pop(piece.chain))
        assert not expected


@pytest.mark.slow(why="processes")
def test_a_scheduler_that_is_not_there_is_named():
    with refused("run.no-connection"):
        run(TABLE, SAMPLER, WORK, MemorySegments(), Workers(scheduler="tcp://127.0.0.1:9"))
    with refused("run.no-connection", "'tcp://somewhere'"):
        run(TABLE, SAMPLER, WORK, MemorySegments(), Workers(scheduler="tcp://somewhere"))
