"""Holds for all tests."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.marks import complaint, reasons

# Tests of the command line start processes: each would compile bayeslab's sources anew where bytecode is not kept.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Two test processes share the cores. With several threads each, linear algebra of small matrices would mostly wait: a
# quasi-Newton search took 60 times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Files that compile what many others use. A process waits while another one compiles the kernel that it needs.
_FIRST = (
    "test_dirichlet_process.py",
    "test_forward_backward.py",
    "test_auxiliary_process.py",
    "test_structural.py",
)
# Files of more than a minute: one that starts last keeps one process busy while the other has nothing left.
_LONG = (
    "test_outputs.py",
    "test_hmm_combinations.py",
    "test_notebooks.py",
    "test_golden.py",
    "test_expand.py",
    "test_calibrate.py",
    "test_process_nodes.py",
    "test_labels.py",
    "test_paths.py",
    "test_models.py",
    "test_hmm_choice.py",
    "test_completed_rows.py",
    "test_approximate.py",
    "test_functions.py",
    "test_calibration.py",
    "test_latent_calibration.py",
    "test_starts.py",
    "test_states.py",
    "test_clusters.py",
    "test_front_door.py",
    "test_protocol.py",
)
_TURNS = {name: turn for turn, name in enumerate(_FIRST + _LONG)}


@pytest.hookimpl(trylast=True)  # of what is left after a choice by `-m` and `-k`
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every mark `slow` says why. Where tests run in several processes, long files come before short ones."""
    allowed = reasons(config.getini("markers"))
    wrong = [(item, complaint(mark, allowed)) for item in items for mark in item.iter_markers("slow")]
    lines = [f"{item.nodeid}: {text}" for item, text in wrong if text]
    if lines:
        raise pytest.UsageError("\n".join(lines))
    if hasattr(config, "workerinput"):
        sizes = Counter(item.path for item in items)
        turns = {path: (_TURNS.get(path.name, len(_TURNS)), -size, str(path)) for path, size in sizes.items()}
        items.sort(key=lambda item: turns[item.path])


@pytest.fixture
def double_precision() -> Iterator[None]:
    """PyTensor takes a Python number such as 5.0 for single precision; then log(5.0) has 7 digits."""
    from pytensor.scalar.basic import autocast_float_as  # heavy: only where it is asked for

    with autocast_float_as("float64"):
        yield
