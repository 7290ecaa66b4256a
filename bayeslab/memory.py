"""The size of the memory, and the refusal of work that needs more, before anything is allocated."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bayeslab.errors import BayeslabError, OptionError

__all__ = ["check_draws", "count", "require_memory", "total_memory"]

# Limits of a container: cgroups of version 2 and 1.
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def total_memory() -> int:
    """Bytes of memory this machine has, or the container may use."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 16 << 30
    for file in LIMITS:
        try:
            total = min(total, int(file.read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return total


def require_memory(
    needed: int, what: str, remedy: str, *, kind: type[BayeslabError] = OptionError, path: tuple[Any, ...] = ()
) -> None:
    """Refuse work that needs more memory than there is.

    Parameters
    ----------
    needed
        A lower bound of the bytes needed.
    what, remedy
        What needs the memory, and what to do, for the message.
    kind, path
        Class of the error, and its path in the model.

    Raises
    ------
    BayeslabError
        Of the class ``kind``, if ``needed`` exceeds the memory.
    """
    if needed > total_memory():
        has = _shown(total_memory())
        raise kind(
            f"{what} would take {_shown(needed)} of memory; this machine has {has}: {remedy}",
            path=path,
            code="too-costly",
        )


def check_draws(draws: int, tune: int, chains: int, size: int, path: tuple[str, ...] = ()) -> None:
    """Refuse draws that do not fit into memory, given the ``size`` of one draw in numbers.

    Raises
    ------
    OptionError
        The draws do not fit; the message says how many would.
    """
    # Draws are held twice: by chain, and in the result for all chains.
    each = 2 * 8 * chains * max(size, 1)
    of_chains = f" of each of {chains} chains" if chains > 1 else ""
    require_memory(
        each * (draws + tune),
        f"{count(draws + tune)} draws{of_chains}, {count(size)} numbers a draw,",
        f"ask for {total_memory() // each:,} at most",
        path=(*path, "tune" if tune > draws else "draws") if path else (),
    )


def count(number: int) -> str:
    """A number as text for a message, however large."""
    return f"{number:,}" if number < 10**15 else f"10^{len(str(number)) - 1}"


def _shown(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB" if size < 10**18 else f"10^{len(str(size)) - 10} GiB"
