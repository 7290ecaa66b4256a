"""Properties of the computer on which this process runs."""

from __future__ import annotations

import os

__all__ = ["available_cores"]


def available_cores() -> int:
    """Number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
