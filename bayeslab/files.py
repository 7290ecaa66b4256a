"""Files: checked before they are read, and written completely or not at all."""

from __future__ import annotations

import errno
import os
import stat
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bayeslab.errors import BayeslabError, DataError, RunError

__all__ = ["is_there", "memory_size", "ordinary_size", "read_npz", "shown", "write_npz", "write_text"]

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def shown(path: str | os.PathLike[str]) -> str:
    """A path for an error message; the middle of a very long path is left out."""
    text = os.fspath(path)
    return text if len(text) <= 300 else f"{text[:140]}…{text[-140:]}"


def is_there(path: Path) -> bool:
    """Whether a path exists; False for a path that is invalid."""
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that is too long, a zero byte
        return False


def ordinary_size(path: Path, error: type[BayeslabError] = DataError) -> int:
    """The size of an ordinary file in bytes; pipes and devices, which may never end, are refused.

    Raises
    ------
    BayeslabError
        Of the class ``error``: the path does not exist, is not an ordinary file, or cannot be read.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as reason:  # ValueError: a zero byte in the path
        if isinstance(reason, FileNotFoundError | NotADirectoryError):
            raise error("no such file", where=shown(path), code="no-such-file") from None
        if isinstance(reason, OSError) and reason.errno == errno.ENAMETOOLONG:
            raise error(
                f"no such file: a name or path of {len(str(path)):,} letters is too long",
                where=shown(path),
                code="no-such-file",
            ) from None
        raise error(
            f"cannot be read: {getattr(reason, 'strerror', None) or reason}", where=shown(path), code="unreadable"
        ) from None
    kind = _KINDS.get(stat.S_IFMT(status.st_mode))
    if kind is not None:
        raise error(f"is {kind}, not a file", where=shown(path), code="not-a-file")
    return status.st_size


def memory_size() -> int:
    """Bytes of memory that this machine has."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return min(sys.maxsize, 16 << 30)


def write_text(path: Path, text: str) -> None:
    """Write a file completely or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays, completely or not at all."""
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        raise RunError(f"cannot be written: {error.strerror}", where=shown(path), code="cannot-write") from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays that :func:`write_npz` wrote.

    Raises
    ------
    RunError
        The file is missing or damaged.
    """
    size = ordinary_size(path, RunError)
    try:
        # NumPy would leave a damaged file open if it opened it itself.
        with path.open("rb") as stream:
            with zipfile.ZipFile(stream) as archive:
                # Arrays are stored uncompressed, so one declared larger than its file is damaged and could fill memory.
                if sum(entry.file_size for entry in archive.infolist()) > size:
                    raise RunError("missing or damaged: it holds less than it says", where=shown(path), code="damaged")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as stored:
                return dict(stored)
    except RunError:
        raise
    except Exception as error:  # noqa: BLE001 - a damaged archive can raise anything, MemoryError too
        raise RunError(
            f"missing or damaged: {error or type(error).__name__}", where=shown(path), code="damaged"
        ) from None
