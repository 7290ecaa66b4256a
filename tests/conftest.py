"""Holds for all tests."""

from __future__ import annotations

import os
import sys
from collections import Counter

import pytest

from tests.marks import complaint, reasons

# Tests of the command line start processes: each would compile bayeslab's sources anew where bytecode is not kept.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Files that compile what many others use. Two processes that need a kernel at the same time would both compile it.
_FIRST = (
    "test_dirichlet_process.py",
    "test_forward_backward.py",
    "test_auxiliary_process.py",
    "test_structural.py",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every mark `slow` says why. Where tests run in several processes, long files come before short ones."""
    allowed = reasons(config.getini("markers"))
    wrong = [(item, complaint(mark, allowed)) for item in items for mark in item.iter_markers("slow")]
    lines = [f"{item.nodeid}: {text}" for item, text in wrong if text]
    if lines:
        raise pytest.UsageError("\n".join(lines))
    if hasattr(config, "workerinput"):
        sizes = Counter(item.path for item in items)
        turns = {path: (_turn(path.name), -size, str(path)) for path, size in sizes.items()}
        items.sort(key=lambda item: turns[item.path])


def _turn(name: str) -> int:
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)
