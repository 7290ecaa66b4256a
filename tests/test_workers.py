"""Independent tasks in this process, in others, and on a Dask cluster give the same answers."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.errors import BayeslabError
from bayeslab.workers import check_jobs, each
from tests.clusters import dask_cluster
from tests.refusals import refused

DATA = Path(__file__).parents[1] / "models" / "data"


def times(factor: int, task: int) -> tuple[int, int]:
    return task, factor * task


def slow_times(factor: int, task: int) -> tuple[int, int, int]:
    time.sleep(0.05)
    return task, factor * task, os.getpid()


def stubborn(folder: str, task: int) -> int:
    """The first to try task 3 dies."""
    mark = Path(folder) / "tried"
    if task == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def refuse(_: None, task: int) -> int:
    raise BayeslabError(f"no {task}", code="model.conflict")


def test_one_process_takes_tasks_one_by_one_in_order():
    taken = []

    def tasks():
        for k in range(4):
            taken.append(k)
            yield k

    results = each(times, 3, tasks())
    assert next(results) == (0, 0) and taken == [0]
    assert list(results) == [(1, 3), (2, 6), (3, 9)]


@pytest.mark.parametrize("jobs", [0, -1, 1025, True, 2.0, "two"])
def test_a_number_of_processes_that_is_none_is_refused(jobs):
    with refused("option.out-of-range"):
        check_jobs(jobs)


@pytest.mark.slow(why="processes")
def test_processes_give_what_one_gives():
    assert sorted(each(times, 3, range(20), jobs=2)) == list(each(times, 3, range(20)))
    with pytest.raises(BayeslabError, match="no 0"):
        list(each(refuse, None, range(1), jobs=2))


@pytest.mark.slow(why="processes")
def test_a_killed_process_is_said(tmp_path):
    with refused("run.failed", "fewer jobs"):
        list(each(stubborn, str(tmp_path), range(6), jobs=2))


# Closing a client leaves sockets to the garbage collector.
of_dask = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    pytest.importorskip("distributed")
    with dask_cluster(tmp_path_factory.mktemp("dask"), 3) as made:
        yield made


def stumps() -> dict[str, bl.Model]:
    learner = bl.Learner(learner="decision_tree", target="low", task="classification")
    return {"tree": bl.Model(model=learner), "line": bl.Model(model=bl.Learner(learner="logistic", target="low"))}


def births() -> pd.DataFrame:
    return pd.read_csv(DATA / "birth_weight.csv")[["low", "age", "smoker"]]


SLOPE = bl.Model(
    name="slope",
    data={"rows": "obs"},
    model=bl.Graph(nodes={"b": "Normal(0, 1)", "y[obs]": "Normal(b * x, 1)"}),
)


@of_dask
@pytest.mark.slow(why="processes")
def test_cross_validation_bootstrap_and_calibration_do_not_depend_on_where_they_run(cluster):
    table, rows = births(), pd.read_csv(DATA / "asia.csv")
    points = pd.DataFrame({"x": [0.0, 1.0, 2.0], "y": [0.0, 0.0, 0.0]})

    def answers(**where):
        crossed = bl.cross_validate(stumps(), table, folds=4, seed=3, progress=False, **where).scores
        curve = bl.learning_curve(stumps(), table, sizes=[30, 90], repeats=2, seed=3, progress=False, **where).scores
        values = bl.validation_curve(
            stumps()["tree"], "max_nodes", [3, 7], table, folds=3, progress=False, **where
        ).scores
        edges = bl.learn(rows, "tabu").bootstrap(10, **where).directed
        ranks = bl.calibrate(SLOPE, 12, points, seed=4, runs=None, progress=False, **where).ranks
        return crossed, curve, values, edges, ranks

    here = answers()
    for there in (answers(jobs=2), answers(scheduler=cluster[0])):
        for one, other in zip(here, there, strict=True):
            if isinstance(one, pd.DataFrame):
                pd.testing.assert_frame_equal(one, other)
            else:
                np.testing.assert_array_equal(one, other)


@of_dask
@pytest.mark.slow(why="processes")
def test_a_cluster_repeats_what_a_killed_worker_lost(cluster, tmp_path):
    address, workers = cluster
    results, killed = [], None
    for result in each(slow_times, 3, range(120), scheduler=address):
        results.append(result)
        if len(results) == 10:
            killed = results[-1][2]
            os.kill(killed, signal.SIGKILL)
    assert killed in [worker.pid for worker in workers]
    assert sorted((task, product) for task, product, _ in results) == [times(3, k) for k in range(120)]
    # A task that kills its worker once is repeated by another.
    assert sorted(each(stubborn, str(tmp_path), range(6), scheduler=address)) == list(range(6))


def test_a_scheduler_that_is_not_there_is_named():
    pytest.importorskip("distributed")
    with refused("run.no-connection", "'tcp://somewhere'"):
        list(each(times, 3, range(2), scheduler="tcp://somewhere"))
