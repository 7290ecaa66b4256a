"""The job on a real Dask cluster of two workers, one of which is killed in the middle."""

from __future__ import annotations

import signal

import numpy as np
import pytest

from bayeslab.run_folder.segments import SegmentStore
from bayeslab.structure.jobs import MemorySegments, Sampler, Shared, Task, Work, Workers, compute, run
from bayeslab.workers import OnCluster
from bayeslab.workers import cluster as clients
from tests.clusters import dask_cluster
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
    with dask_cluster(tmp_path_factory.mktemp("dask")) as made:
        yield made


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
    tasks = [Task(number, SAMPLER, WORK.seed_of(number), 5, 10) for number in range(9)]  # lost together
    with clients(cluster[0]) as client:
        on_cluster = OnCluster(client, Shared.of(TABLE), threads=True)
        expected = {piece.chain: piece.draws for piece in on_cluster.each(compute, tasks)}
        client.cancel(on_cluster.copies, force=True)
        for piece in on_cluster.each(compute, tasks):
            np.testing.assert_array_equal(piece.draws, expected.pop(piece.chain))
        assert not expected


@pytest.mark.slow(why="processes")
def test_a_scheduler_that_is_not_there_is_named():
    with refused("run.no-connection"):
        run(TABLE, SAMPLER, WORK, MemorySegments(), Workers(scheduler="tcp://127.0.0.1:9"))
    with refused("run.no-connection", "'tcp://somewhere'"):
        run(TABLE, SAMPLER, WORK, MemorySegments(), Workers(scheduler="tcp://somewhere"))
