"""Machine code of the kernels: compiled once on a computer when first needed, kept in files, and loaded without numba.

Only kernels of latent variables (``evidence``, ``called``) need numba's functions for memory, and so its import.

A file holds the kernels of a group: of an operation, or of a distribution with a pattern of arguments. Its name
contains a hash of the sources, the processor and the versions of the compilers, so that a file is never used with other
versions. Its first bytes are a checksum, so that a damaged file is replaced. Files are written atomically: a killed
process leaves no incomplete file.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from bayeslab.code_cache import kernel_folders, private_folder
from bayeslab.posterior.machine.catalogue import evidence_files, evidence_function, source_files

__all__ = ["address", "load", "symbol"]

_HERE = Path(__file__).parent
_DIGEST = 32
# Groups of kernels of latent variables.
_OF_LATENTS = ("evidence ", "called ")
# Engines own the memory of their code; it is never freed, since programs hold addresses in it.
_engines: dict[str, Any] = {}


def address(group: str, kernel: str) -> int:
    """Address of a kernel, which is loaded if necessary.

    Parameters
    ----------
    group
        ``driver``, ``operation NAME``, ``density NAME sum PATTERN``, ``density NAME each PATTERN``,
        ``evidence NAME KINDS`` or ``called NAME GRADIENT HEAD KINDS``; see
        :mod:`bayeslab.posterior.machine.kernels.densities` and :mod:`bayeslab.posterior.machine.kernels.evidence`.
    kernel
        Name of the kernel in the group.

    Raises
    ------
    KeyError
        The group has no such kernel.
    """
    load([group])
    found = int(_engines[group].get_function_address(symbol(group, kernel)))
    if not found:
        raise KeyError(kernel)
    return found


def symbol(group: str, kernel: str) -> str:
    """Unique name of a kernel in object code."""
    return f"bayeslab_{hashlib.sha256(group.encode()).hexdigest()[:16]}_{kernel}"


def load(groups: Iterable[str]) -> None:
    """Load groups, and compile those that are not in files."""
    missing = [group for group in dict.fromkeys(groups) if group not in _engines]
    for group in missing:
        if group.startswith(_OF_LATENTS):
            evidence_function(group.split(" ")[1])
    if missing:
        _engines.update(dict.fromkeys(missing, _engine([_stored(group) or _compiled(group) for group in missing])))


@cache
def _start() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple()


def _engine(codes: Sequence[bytes]) -> Any:
    machine = _start().create_target_machine(codemodel="jitdefault", jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    for code in codes:
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


@cache
def _common() -> bytes:
    """Hash of the common dependencies of all groups."""
    _start()
    digest = hashlib.sha256()
    package = _HERE.parents[1]
    files = [*sorted((_HERE / "kernels").glob("*.py")), package / "distributions" / "toolbox" / "special.py"]
    for file in [*files, package / "constants.py"]:
        digest.update(file.name.encode() + file.read_bytes())
    processor = [llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), llvm.get_default_triple()]
    for text in [*processor, version("llvmlite"), version("numba")]:
        digest.update(text.encode() + b"\0")
    return digest.digest()


@cache
def _folder() -> Path:
    return private_folder(*kernel_folders())


def _file(group: str) -> Path:
    digest = hashlib.sha256(_common() + group.encode())
    if group.startswith("density "):
        for file in source_files(group.split(" ")[1]):
            digest.update(Path(file).read_bytes())
    if group.startswith(_OF_LATENTS):
        for file in evidence_files(group.split(" ")[1]):
            digest.update(Path(file).read_bytes())
    return _folder() / f"{_prefix(group)}{digest.hexdigest()[:32]}.o"


def _prefix(group: str) -> str:
    return "machine-" + "".join(c if c.isalnum() else "-" for c in group.replace("!", "d")) + "-"


def _stored(group: str) -> bytes | None:
    """A group's object code from its file; None if there is none, or a damaged one."""
    try:
        content = _file(group).read_bytes()
    except OSError:
        return None
    code = content[_DIGEST:]
    return code if hashlib.sha256(code).digest() == content[:_DIGEST] else None


def _compiled(group: str) -> bytes:
    from bayeslab.posterior.machine.kernels.build import object_code

    code = object_code(group, lambda kernel: symbol(group, kernel))
    file = _file(group)
    with suppress(OSError):  # A folder that is full or read-only: the next process compiles again.
        handle, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(hashlib.sha256(code).digest() + code)
            os.replace(name, file)
            for older in file.parent.glob(f"{_prefix(group)}{'?' * 32}.o"):
                if older != file:
                    older.unlink(missing_ok=True)
        except OSError:
            os.unlink(name)
            raise
    return code
