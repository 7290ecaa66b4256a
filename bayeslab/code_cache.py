"""Private folders for compiled code that is kept between processes.

Numba and PyTensor keep machine code in pickles, and whoever can write a pickle can run any code where it is loaded. So
a folder of compiled code is used only if it belongs to the user (or to root) and nobody else may write to it; its
permissions are set so that only the user can read it. A folder that cannot be used is replaced by the next one that
Numba knows, and in the end by a temporary folder, with a warning. An entry that cannot be read, such as one that a full
disk cut short, is removed and compiled again; an entry that cannot be written is not kept. Of several processes that
need the same function one compiles it, and the others wait and read it.

Both libraries choose their folders while they are imported, and ``import bayeslab`` imports neither, so :func:`install`
acts when they are imported.
"""

from __future__ import annotations

import atexit
import configparser
import hashlib
import os
import shutil
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

__all__ = ["install", "kernel_folders", "private_folder", "refused"]

# Seconds after which an incomplete file counts as abandoned.
_SETTLING = 60.0


def install() -> None:
    """Set up the folders of Numba and PyTensor: now if the library is imported already, otherwise when it is."""
    waiting = []
    for name, settle in _SETTLED_AFTER.items():
        if name in sys.modules:
            settle(sys.modules[name])
        else:
            waiting.append(name)
    if waiting:
        sys.meta_path.insert(0, _Finder(waiting))


# --------------------------------------------------------------------------------------- folders


def refused(folder: Path) -> str | None:
    """Why a folder cannot keep compiled code; None if it can. The folder is created and made private."""
    if folder.parts[:1] and folder.parts[0].startswith("~"):
        # It would be a folder called ~ in the working folder, and whoever laid that out could run code.
        return "the home folder is not known"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        target, link = folder.stat(), folder.lstat()
    except OSError as error:
        return f"it cannot be created ({error.strerror})"
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return "it cannot be written to"
    if not hasattr(os, "getuid"):
        return None
    if not {target.st_uid, link.st_uid} <= {os.getuid(), 0}:
        return "it belongs to another user"
    if target.st_mode & stat.S_IWOTH or (target.st_mode & stat.S_IWGRP and not alone(target.st_gid)):
        return "others may write to it"
    # Python's bytecode is in the same folder and is readable by all.
    if target.st_mode & 0o077 and folder.name != "__pycache__" and target.st_uid == os.getuid():
        with suppress(OSError):
            folder.chmod(0o700)
    return None


def alone(group: int) -> bool:
    """Whether a group is the user's private group: it has the user's name and no members."""
    try:
        import grp
        import pwd

        group_entry, name = grp.getgrgid(group), pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        return False
    return group_entry.gr_name == name and set(group_entry.gr_mem) <= {name}


def private_folder(folder: Path, *others: Path) -> Path:
    """The first of the folders that can keep compiled code; if there is none a temporary folder, with a warning."""
    reasons = []
    for candidate in (folder, *others):
        why = refused(candidate)
        if why is None:
            return candidate
        reasons.append(why)
    # The last folder is the one that a user can put right: the others may belong to the installation.
    return temporary((folder, *others)[-1], reasons[-1])


def kernel_folders() -> list[Path]:
    """Folders for the machine code of kernels, the preferred one first: as Numba, that of ``NUMBA_CACHE_DIR`` if it is
    set, else one beside the sources, then one in the user's cache. A package that the administrator installed cannot be
    written to.
    """
    package = Path(__file__).parent
    # Each installation has a folder, since one would remove the files of another version.
    name = f"bayeslab-{hashlib.sha256(str(package).encode()).hexdigest()[:16]}"
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        return [Path(named) / name]
    return [package / "posterior" / "machine" / "__pycache__", _user_cache() / name]


def _user_cache() -> Path:
    home = Path(os.path.expanduser("~"))
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if sys.platform == "darwin":
        return home / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")


@cache
def temporary(folder: Path, why: str) -> Path:
    user = os.getuid() if hasattr(os, "getuid") else "user"
    out = Path(tempfile.gettempdir()) / f"bayeslab-{user}"
    if _working_folder_for_want_of_another(out.parent) or refused(out) is not None:
        out = Path(tempfile.mkdtemp(prefix="bayeslab-"))
        atexit.register(shutil.rmtree, out, ignore_errors=True)
    warnings.warn(f"compiled code is not kept in {folder}: {why}; it is kept in {out}", stacklevel=2)
    return out


def _working_folder_for_want_of_another(folder: Path) -> bool:
    """Whether ``tempfile`` chose the working folder because no other can be written to. A stranger may have filled it:
    a folder of compiled code that lies there is not loaded.
    """
    if os.name != "posix":
        return False
    named = [os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")]
    known = [os.path.abspath(name) for name in (*filter(None, named), "/tmp", "/var/tmp", "/usr/tmp")]
    return str(folder) not in known


# --------------------------------------------------------------------------------------- imports


class _Finder:
    """An import hook that finds the awaited modules as Python does, and sets up their folders once they are loaded."""

    def __init__(self, waiting: Sequence[str]) -> None:
        self._waiting = set(waiting)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "pytensor":
            _prepare_pytensor()
        if name not in self._waiting:
            return None
        self._waiting.remove(name)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, _SETTLED_AFTER[name])  # type: ignore[assignment]
        return spec


class _Loader:
    def __init__(self, inner: Any, settle: Callable[[Any], None]) -> None:
        self._inner, self._settle = inner, settle

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._inner.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        self._settle(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


# -------------------------------------------------------------------------------------- PyTensor


def _prepare_pytensor() -> None:
    """Choose PyTensor's folder before it is imported: it needs a writable one and reads its flags once."""
    folder = pytensor_folder()
    kept = private_folder(folder)
    _drop_torn(kept)
    if kept != folder:
        # Worker processes inherit the setting and do not warn again.
        flags = os.environ.get("PYTENSOR_FLAGS", "")
        os.environ["PYTENSOR_FLAGS"] = ",".join([*filter(None, [flags]), f"base_compiledir={kept}"])
        home = Path(os.path.expanduser("~"))
        if home == Path("~"):
            # A user without a name and without HOME, as in a container: PyTensor is not imported without a home folder.
            os.environ["HOME"] = str(kept)
        elif not (home.is_dir() and os.access(home, os.W_OK)):
            # PyTensor imports Matplotlib, which would repeat that the home folder cannot be written to.
            os.environ.setdefault("MPLCONFIGDIR", str(kept / "matplotlib"))


def _drop_torn(base: Path) -> None:
    """Remove incompletely written modules compiled from C: loading one can crash the process."""
    for file in (*base.glob("compiledir_*/*/*.so"), *base.glob("compiledir_*/lazylinker_ext/__init__.py")):
        with suppress(OSError):
            # Another process may still be writing the newer files.
            if time.time() - file.stat().st_mtime > _SETTLING and not _whole(file):
                shutil.rmtree(file.parent)


def _whole(file: Path) -> bool:
    """Whether a file is complete: an ELF library ends with its section table, a text with a line end."""
    if file.suffix == ".py":
        return file.read_bytes()[-1:] in (b"", b"\n")
    with file.open("rb") as stream:
        head = stream.read(64)
    if head[:4] != b"\x7fELF":
        return len(head) == 64  # of another system
    if len(head) < 64 or head[4] != 2:
        return len(head) == 64  # of 32 bits
    order: Literal["little", "big"] = "big" if head[5] == 2 else "little"
    at, size, number = (int.from_bytes(head[i:j], order) for i, j in ((40, 48), (58, 60), (60, 62)))
    return file.stat().st_size >= at + size * number


def pytensor_folder() -> Path:
    """The folder that PyTensor will use: from its flags, from its configuration file, else in the home folder."""
    flags = [flag.partition("=") for flag in os.environ.get("PYTENSOR_FLAGS", "").split(",")]
    named = [value for name, _, value in flags if name.strip() == "base_compiledir"]
    if not named:
        files = os.environ.get("PYTENSORRC", "~/.pytensorrc").split(os.pathsep)
        parser = configparser.RawConfigParser()
        with suppress(configparser.Error, OSError, UnicodeDecodeError):
            parser.read([os.path.expanduser(file) for file in files])
        named = [parser.get("global", "base_compiledir", fallback="")]
    if named[-1]:
        return Path(os.path.expanduser(named[-1].strip()))
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"]) / "PyTensor"
    return Path(os.environ.get("HOME") or os.path.expanduser("~")) / ".pytensor"


def _settle_pytensor(module: Any) -> None:
    """Set the folders of PyTensor's Numba functions and of their source code."""
    from pytensor.configdefaults import config

    module.NUMBA_CACHE_PATH = private_folder(Path(module.NUMBA_CACHE_PATH))
    if not config.generated_src_dir:
        # Otherwise the source of every function would stay among the temporary files.
        config.generated_src_dir = str(module.NUMBA_CACHE_PATH / "source")


# ----------------------------------------------------------------------------------------- Numba


def _settle_numba(caching: Any) -> None:
    """Make Numba use private cache folders, and compile unusable entries again."""
    locator, entries = caching._CacheLocator, caching.Cache
    ensure, load, save = locator.ensure_cache_path, entries.load_overload, entries.save_overload

    def ensure_cache_path(self: Any) -> None:
        why = refused(Path(self.get_cache_path()))
        if why is not None:
            # Then Numba tries its next kind of folder.
            raise PermissionError(why)
        ensure(self)

    def kept(self: Any, signature: Any, context: Any) -> Any:
        try:
            return load(self, signature, context)
        except Exception:  # noqa: BLE001 - a damaged pickle can raise anything
            _drop(self)
            return None

    def load_overload(self: Any, signature: Any, context: Any) -> Any:
        found = kept(self, signature, context)
        if found is None and _begin(self) == "after another":
            found = kept(self, signature, context)
            if found is not None:
                _end(self)
        return found

    def save_overload(self: Any, signature: Any, data: Any) -> None:
        try:
            save(self, signature, data)
        except OSError as error:
            not_kept(str(self.cache_path), error.strerror or str(error))
        finally:
            _end(self)

    class TemporaryLocator(caching.UserWideCacheLocator):
        """The last resort: a temporary folder."""

        def get_cache_path(self) -> str:
            default = Path(super().get_cache_path())
            return str(private_folder(default.parent) / default.name)

    locator.ensure_cache_path = ensure_cache_path
    entries.load_overload, entries.save_overload = load_overload, save_overload
    caching.CacheImpl._locator_classes.append(TemporaryLocator)


def _settle_dispatcher(dispatcher: Any) -> None:
    """Let a function that cannot be compiled keep no other process waiting."""
    compiled = dispatcher.Dispatcher.compile

    def compile(self: Any, signature: Any) -> Any:
        try:
            return compiled(self, signature)
        finally:
            _end(self._cache)

    dispatcher.Dispatcher.compile = compile


# ----------------------------------------------------------------------------- one process at a time


#: Lock files of the functions that this process compiles, by the path of the lock.
_compiling: dict[str, Any] = {}
# Seconds after which a function is compiled here, too, though another process still holds its lock.
_PATIENCE = 120.0


def _lock_of(entry: Any) -> str:
    return f"{entry.cache_path}/{entry._impl.filename_base}.lock"


def _begin(entry: Any) -> Literal["at once", "after another"]:
    """Take the lock of a function that is to be compiled, after a process that compiles it now.

    The locks are those of POSIX, which end with their process; where there are none, several processes compile it.
    """
    path = _lock_of(entry)
    try:
        import fcntl

        if path in _compiling or not entry._enabled:
            return "at once"
        file = open(path, "w")  # noqa: SIM115 - it is closed when the function is compiled
    except (ImportError, OSError):
        return "at once"
    waited, end = False, time.monotonic() + _PATIENCE
    try:
        while True:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                if time.monotonic() > end:
                    break
                waited = True
                time.sleep(0.05)
            else:
                _compiling[path] = file
                return "after another" if waited else "at once"
    except OSError:  # a file system without locks
        pass
    except BaseException:
        file.close()
        raise
    file.close()
    return "after another" if waited else "at once"


def _end(entry: Any) -> None:
    """Give the lock of a function back."""
    if _compiling and hasattr(entry, "_impl") and (file := _compiling.pop(path := _lock_of(entry), None)) is not None:
        with suppress(OSError):
            os.unlink(path)
        file.close()


def _drop(entry: Any) -> None:
    """Remove a function's index and the files it names; the function is compiled again."""
    folder, base = Path(entry.cache_path), entry._impl.filename_base
    with suppress(OSError):
        for file in (folder / f"{base}.nbi", *_numbered(folder, base)):
            file.unlink(missing_ok=True)


def _numbered(folder: Path, base: str) -> list[Path]:
    """The files with the machine code of a function, one per signature."""
    return [
        Path(file) for file in os.scandir(folder) if file.name.startswith(f"{base}.") and file.name.endswith(".nbc")
    ]


@cache
def not_kept(folder: str, why: str) -> None:
    warnings.warn(f"compiled code is not kept in {folder}: {why}; the next process compiles it again", stacklevel=2)


_SETTLED_AFTER: dict[str, Callable[[Any], None]] = {
    "numba.core.caching": _settle_numba,
    "numba.core.dispatcher": _settle_dispatcher,
    "pytensor.link.numba.cache": _settle_pytensor,
}
