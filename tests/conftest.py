"""Holds for all tests."""

from __future__ import annotations

import os
import sys

import pytest

from tests.marks import complaint, reasons

# Tests of the command line start processes: each would compile bayeslab's sources anew where bytecode is not kept.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every mark `slow` says why."""
    allowed = reasons(config.getini("markers"))
    wrong = [(item, complaint(mark, allowed)) for item in items for mark in item.iter_markers("slow")]
    lines = [f"{item.nodeid}: {text}" for item, text in wrong if text]
    if lines:
        raise pytest.UsageError("\n".join(lines))
