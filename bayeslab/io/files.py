"""What is checked of every file before it is read or replaced."""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path

from bayeslab.errors import BayeslabError, DataError

__all__ = ["memory_size", "ordinary_size", "shown"]

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def shown(path: str | os.PathLike[str]) -> str:
    """A path for an error message, its middle left out where it is very long."""
    text = os.fspath(path)
    return text if len(text) <= 300 else f"{text[:140]}…{text[-140:]}"


def ordinary_size(path: Path, error: type[BayeslabError] = DataError) -> int:
    """The bytes of an ordinary file; pipes and devices have no end, and reading one would have none either.

    Raises
    ------
    BayeslabError
        Of the kind given: not there, not an ordinary file, or out of reach.
    """
    try:
        found = path.stat()
    except (OSError, ValueError) as reason:  # ValueError: a zero byte in the path
        if isinstance(reason, FileNotFoundError | NotADirectoryError):
            raise error("no such file", where=shown(path)) from None
        if isinstance(reason, OSError) and reason.errno == errno.ENAMETOOLONG:
            raise error(
                f"no such file: a name or path of {len(str(path)):,} letters is too long", where=shown(path)
            ) from None
        raise error(f"cannot be read: {getattr(reason, 'strerror', None) or reason}", where=shown(path)) from None
    kind = _KINDS.get(stat.S_IFMT(found.st_mode))
    if kind is not None:
        raise error(f"is {kind}, not a file", where=shown(path))
    return found.st_size


def memory_size() -> int:
    """Bytes of memory that this machine has."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return min(sys.maxsize, 16 << 30)
