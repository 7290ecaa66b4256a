"""Linear algebra of densities runs in one thread."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import scipy.linalg  # noqa: F401
from threadpoolctl import threadpool_info, threadpool_limits

import bayeslab as bl
from bayeslab import running
from bayeslab.blas import one_blas_thread

MODEL = bl.Model(model={"family": "graph", "nodes": {"m": "Normal(0, 1)", "y[obs_id]": "Normal(m, 1)"}})


def threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_inside_one_thread_and_afterwards_as_before():
    with threadpool_limits(2, "blas"):
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == {2}


def test_engines_of_densities_run_in_one_thread(monkeypatch):
    seen, before = [], running.engine("map")
    wrapped = replace(before, run=lambda job: (seen.append(threads()), before.run(job))[1])
    monkeypatch.setattr(running, "engine", lambda word: wrapped)
    with threadpool_limits(2, "blas"):
        bl.fit(MODEL, data={"y": np.arange(5.0)}, method="map", seed=1)
        assert threads() == {2}
    assert seen == [{1}]


LATE = """
import sys
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits
from bayeslab.blas import one_blas_thread

def threads():
    return sorted(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")

threadpool_limits(2, "blas")
assert "scipy.linalg" not in sys.modules
with one_blas_thread():
    assert threads() == [1]
assert threads() == [2], threads()
with one_blas_thread():
    import scipy.linalg
    assert threads() == [1, 1], threads()
assert threads() == [2, 2], threads()
with one_blas_thread():
    assert threads() == [1, 1], threads()
assert threads() == [2, 2], threads()
"""


def test_a_library_that_is_loaded_inside_has_one_thread_there_and_more_afterwards():
    subprocess.run([sys.executable, "-c", LATE], check=True)
