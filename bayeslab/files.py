"""Files: checked before they are read, and written completely or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bayeslab.errors import BayeslabError, DataError, RunError

__all__ = [
    "digest_of",
    "is_there",
    "memory_size",
    "ordinary_size",
    "read_npz",
    "replacing",
    "shown",
    "write_npz",
    "write_picture",
    "write_text",
]

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


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file beside a path, which takes the path's place when the block ends, and is removed if the block raises.

    So a path holds the old content or the complete new one, also after a kill or on a full disk. The new file's name
    ends as the path does, since many writers choose a format by it.
    """
    temporary = path.with_name(f".{path.stem[:100]}.{secrets.token_hex(8)}{path.suffix}")
    try:
        # Never through an existing file or link; unlike those of `tempfile`, the permissions follow the user's mask.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield temporary
        with temporary.open("rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if error.errno is not None:
            error.filename = os.fspath(path)  # of a full disk there is none, and that of the new file means nothing
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a file completely or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_picture(figure: Any, path: Path, *, dpi: int = 150) -> None:
    """Write a figure of Matplotlib, completely or not at all, in the format of the path's suffix.

    Raises
    ------
    RunError
        The file cannot be written.
    """
    try:
        with replacing(path) as temporary:
            figure.savefig(temporary, dpi=dpi)
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunError(f"cannot be written: {reason}", where=shown(path), code="cannot-write") from None


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays, completely or not at all."""
    try:
        with replacing(path) as temporary, temporary.open("wb") as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]
    except OSError as error:
        raise RunError(f"cannot be written: {error.strerror}", where=shown(path), code="cannot-write") from None


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


def digest_of(arrays: Mapping[str, np.ndarray]) -> str:
    """The SHA-256 of arrays and their names."""
    whole = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        whole.update(f"{name}\0{array.dtype.str}{array.shape}".encode())
        whole.update(np.ascontiguousarray(array).tobytes())
    return whole.hexdigest()
