"""One process at a time works in a run folder."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bayeslab.errors import RunError

__all__ = ["alive", "held", "locked", "this_process"]


def this_process() -> dict[str, Any]:
    """A description of this process, from which another process can tell whether it is still running."""
    return {"pid": os.getpid(), "host": platform.node(), "began": _began(os.getpid())}


def _began(pid: int) -> int | None:
    """Start time of a process in ticks since boot; None if it cannot be read, or the process has ended.

    An ended process keeps its number until its parent asks for its exit status, which in a container can take long.
    """
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if state in ("Z", "X") else int(fields[18])
    except (OSError, ValueError, IndexError):
        return None


def alive(process: Mapping[str, Any]) -> bool:
    """Whether a process is running; assumed for a process on another machine, which cannot be checked."""
    if process.get("host") != platform.node():
        return True
    pid = process.get("pid")
    if not isinstance(pid, int) or not 0 < pid < 2**31:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    # Another process may have the same number by now.
    return process.get("began") == _began(pid)


def held(folder: Path) -> bool:
    """Whether a process works in the folder, by the name in its lock; nothing is locked meanwhile."""
    try:
        # Not through a link, and not waiting for the writer of a pipe.
        handle = os.open(folder / "lock", os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return False
    try:
        owner = _owner(handle)
    finally:
        os.close(handle)
    return bool(owner) and alive(owner)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """A context that holds the folder's file ``lock``, which names the process that works there.

    The operating system releases the lock when its process ends in any way, so the lock of a killed process is taken
    over. On a file system without such locks, and for a process on another machine, the name in the file decides.

    Raises
    ------
    RunError
        Another process holds it, or the folder cannot be written to.
    """
    path = folder / "lock"
    try:
        handle = _taken(path)
    except OSError as error:
        raise RunError(f"cannot be written: {error.strerror}", where=str(path), code="cannot-write") from None
    try:
        yield
    finally:
        # The file is removed while locked: a process that opened it meanwhile sees that it is no longer the folder's.
        with suppress(OSError):
            os.ftruncate(handle, 0)
            path.unlink()
        os.close(handle)


def _taken(path: Path) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
        try:
            free = flock(handle)
            owner = _owner(handle)
            if free is False or (owner and not _over(owner, guarded=free is True)):
                raise RunError(_refusal(owner, path), where=str(path.parent), code="in-use")
            if _still(handle, path):
                os.ftruncate(handle, 0)
                os.lseek(handle, 0, os.SEEK_SET)
                os.write(handle, json.dumps(this_process()).encode())
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def flock(handle: int) -> bool | None:
    """Try to take the lock: True if it is now held, False if another process has it, None if locks are unsupported."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def _owner(handle: int) -> dict[str, Any]:
    try:
        os.lseek(handle, 0, os.SEEK_SET)
        content = json.loads(os.read(handle, 10_000))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _over(owner: Mapping[str, Any], *, guarded: bool) -> bool:
    """Whether the process that a lock names has ended."""
    here = owner.get("host") in (platform.node(), None)
    # On this machine, a lock that could be taken had no owner any more.
    return here and (guarded or not alive(owner))


def _still(handle: int, path: Path) -> bool:
    """Whether the path still refers to the open file."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _refusal(owner: Mapping[str, Any], path: Path) -> str:
    who = f"process {owner['pid']}" if isinstance(owner.get("pid"), int) else "another process"
    if owner.get("host") in (platform.node(), None):
        # Jobs that sample structures report their progress there.
        watch = ", or see `bayeslab watch`" if (path.parent / "progress.json").exists() else ""
        return f"the run is going on ({who}); wait for it{watch}"
    who = f"{who} on {owner['host']!s:.60}"
    return f"the run is going on ({who}); if that process has ended, remove the file {path.name} from the run folder"
