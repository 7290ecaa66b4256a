"""Run folders: everything a run needs to be reopened, resumed and trusted, anywhere.

::

    runs/radon/
      model.yaml     the model as used
      data.npz       the data as used
      run.json       format, status, digests, seed, options, versions, timings, verdict
      chains/        each finished chain, as soon as it is finished
      result.zarr    the DataTree of the result
      lock           while a process works here, which

Everything is written under a temporary name and renamed, so that a killed run leaves only complete files. Digests (of
the columns and of each group of the result in ``run.json``, of a chain in its file) are checked on reading, because a
store with a lost chunk would otherwise read as missing numbers. A chain's file also has a digest of its origin (its
number, the seed, method, options, model and data), so that a chain of another run is not accepted.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
import re
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bayeslab.data.dataset import Column, Dataset
from bayeslab.errors import BayeslabError, RunError, hint
from bayeslab.files import digest_of, memory_size, ordinary_size, read_npz, shown, write_npz, write_text
from bayeslab.labelled import Group
from bayeslab.language.model_file import dump, load
from bayeslab.language.spec import Model
from bayeslab.language.wording import expected
from bayeslab.run_folder import lock
from bayeslab.run_folder.segments import SegmentStore
from bayeslab.run_folder.zarr_writer import write_store

if TYPE_CHECKING:
    import xarray as xr


__all__ = ["FORMAT", "RunFolder"]

FORMAT = 1
# Maximum size of ``run.json`` in bytes; it holds the levels of every factor.
_MOST_INFO = 1 << 28


class _Finding(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    status: Literal["pass", "warn", "fail"]
    check: str
    where: str
    value: float | None
    message: str
    advice: str = ""


class _Verdict(BaseModel):
    model_config = ConfigDict(strict=True)
    status: Literal["pass", "warn", "fail"]
    findings: list[_Finding]


class _Memory(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    levels: dict[str, list[int | float | str]] = {}
    frozen: dict[str, Any] = {}


class _Info(BaseModel):
    """The required content of ``run.json``."""

    model_config = ConfigDict(strict=True)
    status: Literal["running", "complete", "interrupted", "failed"]
    name: str
    method: str
    reason: str
    options: dict[str, Any]
    seed: Annotated[int, Field(ge=0)]
    model_digest: str
    data_digests: dict[str, str]
    memory: _Memory
    versions: dict[str, str]
    timings: dict[str, float]
    verdict: _Verdict | None
    digests: Literal["sha256"] | None = None  # of chains; None in older runs
    origins: Literal["sha256"] | None = None  # of the origins of chains; None in older runs
    result_digests: dict[str, str] | None = None
    error: str = ""


# Codecs of arrays in stores, those of older runs among them.
_CODECS = ("bytes", "gzip", "vlen-utf8", "zstd")
# Seconds within which a job in the background begins its work.
_BEGINNING = 30.0


class RunFolder:
    """One run's folder.

    Attributes
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, runs: str | os.PathLike[str], name: str) -> RunFolder:
        """Create a new folder ``runs/name``, or ``runs/name-2`` and so on if it exists."""
        base = Path(runs)
        word = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "run"
        try:
            base.mkdir(parents=True, exist_ok=True)
            for number in range(1, 100_000):
                path = base / (word if number == 1 else f"{word}-{number}")
                try:
                    path.mkdir()
                except FileExistsError:
                    continue
                (path / "chains").mkdir()
                return cls(path)
        except OSError as error:
            raise RunError(
                f"the run folder cannot be made: {error.strerror}", where=shown(base), code="cannot-write"
            ) from None
        raise RunError("too many runs of this name; give another with name=", where=str(base), code="too-large")

    @classmethod
    def existing(cls, path: str | os.PathLike[str]) -> RunFolder:
        """An existing run folder.

        Raises
        ------
        RunError
            There is no run at the path; the message suggests similar ones.
        """
        folder = Path(path)
        if os.path.isfile(folder / "run.json"):
            return cls(folder)
        runs = folder.parent.glob("*/run.json") if os.path.isdir(folder.parent) else ()
        near = [run.parent.name for run in runs if os.path.isfile(run)]
        advice = hint(folder.name[:100], near) if near else ""
        raise RunError(f"no run here (no run.json){advice}", where=shown(path), code="no-such-file")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """A context in which no other process works in this folder (:func:`bayeslab.run_folder.lock.locked`).

        Raises
        ------
        RunError
            Another process works here, the folder cannot be written to, or its chains are links to elsewhere.
        """
        for place in (self.path / "chains", *(self.path / "chains").glob("chain-*")):
            if place.is_symlink() and place.suffix != ".npz":
                # Files would be written, and unfinished ones removed, outside of the run folder. A file is replaced.
                raise RunError(
                    "is a link; a run is worked on only where all of its chains are: put there what it refers to",
                    where=shown(place),
                    code="damaged",
                )
        with lock.locked(self.path):
            yield

    def status(self, info: Mapping[str, Any]) -> str:
        """The status of the run: that in ``run.json``, but ``killed`` if the process that should work here has ended.

        Parameters
        ----------
        info
            The content of ``run.json``.
        """
        status = str(info["status"])
        if status != "running" or lock.held(self.path):
            return status
        # A job in the background takes seconds to begin, and opens its log before.
        with suppress(OSError):
            if time.time() - (self.path / "log.txt").stat().st_mtime < _BEGINNING:
                return "starting"
        return "killed"

    # -- the description of the run

    def write_info(self, info: Mapping[str, Any]) -> None:
        """Write ``run.json``."""
        path = self.path / "run.json"
        try:
            write_text(path, json.dumps(dict(info), indent=1, ensure_ascii=False) + "\n")
        except OSError as error:
            raise RunError(f"cannot be written: {error.strerror}", where=str(path), code="cannot-write") from None

    def info(self) -> dict[str, Any]:
        """Read ``run.json``.

        Raises
        ------
        RunError
            The file is missing, damaged, or of another format.
        """
        path = self.path / "run.json"
        where = shown(path)
        if ordinary_size(path, RunError) > _MOST_INFO:
            raise RunError(f"damaged: more than {_MOST_INFO >> 20} MiB", where=where, code="damaged")
        try:
            info = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise RunError(f"damaged: {error}", where=where, code="damaged") from None
        if not isinstance(info, dict) or info.get("format") != FORMAT:
            given = info.get("format") if isinstance(info, dict) else None
            raise RunError(
                f"run format {given!r:.40}; this bayeslab reads format {FORMAT}", where=where, code="unknown-format"
            )
        try:
            _Info.model_validate(info)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            at = ".".join(str(part) for part in first["loc"])
            problem = "the key is missing" if first["type"] == "missing" else f"it is {expected([first])}"
            raise RunError(f"damaged: {at}: {problem}", where=where, code="damaged") from None
        return info

    # -- model and data

    def write_inputs(self, model: Model, dataset: Dataset) -> None:
        """Write the model file and the data."""
        write_text(self.path / "model.yaml", dump(model))
        arrays: dict[str, np.ndarray] = {}
        meta: dict[str, Any] = {"rows": dataset.rows, "columns": {}, "levels": sorted(dataset.levels)}
        for i, (name, column) in enumerate(dataset.columns.items()):
            meta["columns"][name] = {"at": i, "dims": column.dims, "missing": column.missing is not None}
            if column.truth:
                meta["columns"][name]["truth"] = True
            arrays[f"c{i}"] = column.values
            if column.missing is not None:
                arrays[f"m{i}"] = column.missing
        for i, name in enumerate(meta["levels"]):
            arrays[f"l{i}"] = dataset.levels[name]
        if dataset.counts is not None:
            arrays["counts"] = dataset.counts
        arrays["meta"] = np.array(json.dumps(meta))
        write_npz(self.path / "data.npz", arrays)

    def model(self) -> Model:
        return load(self.path / "model.yaml")

    def dataset(self) -> Dataset:
        """Read the data."""
        path = self.path / "data.npz"
        stored = read_npz(path)
        try:
            meta = json.loads(str(stored["meta"]))
            columns = {}
            for name, entry in meta["columns"].items():
                dims = tuple(entry["dims"]) if entry["dims"] is not None else None
                missing = stored[f"m{entry['at']}"] if entry["missing"] else None
                truth = bool(entry.get("truth", False))
                columns[name] = Column(stored[f"c{entry['at']}"], dims, missing, truth=truth)
            levels = {name: stored[f"l{i}"] for i, name in enumerate(meta["levels"])}
            return Dataset(columns, str(meta["rows"]), levels, counts=stored.get("counts"))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise RunError(
                f"missing or damaged: {type(error).__name__} {error}", where=shown(path), code="damaged"
            ) from None

    # -- chains

    def finished(self) -> list[int]:
        """Numbers of the complete chains."""
        numbers = (p.stem.removeprefix("chain-") for p in (self.path / "chains").glob("chain-*.npz"))
        return sorted(int(number) for number in numbers if number.isdecimal())

    def _chain(self, chain: int) -> Path:
        return self.path / "chains" / f"chain-{chain}.npz"

    def read(self, chain: int) -> dict[str, np.ndarray]:
        """Read a chain."""
        path = self._chain(chain)
        arrays = read_npz(path)
        arrays.pop(_ORIGIN, None)
        # Chains of older runs have none.
        if _DIGEST in arrays and str(arrays.pop(_DIGEST)) != digest_of(arrays):
            raise RunError(
                "damaged: the draws are not those that were written (their digest differs)",
                where=shown(path),
                code="damaged",
            )
        return arrays

    def write(self, chain: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Write a chain, completely or not at all, with the digest of its origin."""
        self._chain(chain).parent.mkdir(exist_ok=True)
        digest = digest_of(arrays)
        origin = _origin(self.info(), chain, digest)
        write_npz(self._chain(chain), {**arrays, _DIGEST: np.array(digest), _ORIGIN: np.array(origin)})

    def drop_unusable(self, info: Mapping[str, Any]) -> dict[int, str]:
        """Remove damaged chains and chains of other runs, which are then drawn again, and incomplete files.

        Parameters
        ----------
        info
            The run's current description.

        Returns
        -------
        dict of int to str
            The reason for each removed chain, by its number.
        """
        unusable = {}
        for half in (self.path / "chains").glob(".chain-*"):
            _remove(half)
        for chain in self.finished():
            try:
                if (why := self._unusable(info, chain)) is None:
                    continue
            except RunError:
                why = "is damaged"
            unusable[chain] = why
            _remove(self._chain(chain))
        return unusable

    def _unusable(self, info: Mapping[str, Any], chain: int) -> str | None:
        """Why a readable chain is not used, or None.

        Raises
        ------
        RunError
            The chain cannot be read, or its draws do not match their digest.
        """
        self.read(chain)
        marks = read_npz(self._chain(chain))
        needed = [mark for mark, key in ((_DIGEST, "digests"), (_ORIGIN, "origins")) if info.get(key)]
        if any(mark not in marks for mark in needed):
            return "is damaged"
        if _ORIGIN in needed and str(marks[_ORIGIN]) != _origin(info, chain, str(marks.get(_DIGEST))):
            return "was drawn as another chain, or with another seed, model, data or options than run.json has"
        return None

    def segments(self) -> SegmentStore:
        """The part of the folder that jobs of segments use."""

        return SegmentStore(self.path, self._inputs)

    def _inputs(self) -> str:
        """A digest of the model and the data."""
        info = self.info()
        content = [info["model_digest"], info["data_digests"]]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    # -- the result

    def write_result(self, groups: Mapping[str, Group]) -> dict[str, str]:
        """Write the groups of a result; an earlier result is replaced only once the new one is complete.

        Returns
        -------
        dict of str to str
            The digest of each group, for ``run.json``.
        """

        final = self.path / "result.zarr"
        for leftover in self.path.glob(".result.*"):
            _remove(leftover)
        try:
            with tempfile.TemporaryDirectory(dir=self.path, prefix=".result.", ignore_cleanup_errors=True) as folder:
                new, old = Path(folder, "new"), Path(folder, "old")
                write_store(new, groups)
                digests = _group_digests(new)
                if final.exists() or final.is_symlink():
                    os.replace(final, old)
                os.replace(new, final)
        except OSError as error:
            raise RunError(
                f"the result cannot be written: {error.strerror or error}", where=str(final), code="cannot-write"
            ) from None
        return digests

    def result(self, digests: Mapping[str, str] | None = None) -> xr.DataTree:
        """Read the DataTree into memory.

        Parameters
        ----------
        digests
            The digests in ``run.json``; None for older runs without digests.

        Raises
        ------
        RunError
            The run has not finished, or the store is damaged.
        """

        import xarray as xr

        path = self.path / "result.zarr"
        if not path.exists():
            raise RunError(
                "the run has no result yet: complete it with `bayeslab fit --resume`",
                where=shown(self.path),
                code="no-result",
            )
        with _damaged_store(path):
            if digests is not None:
                _compare(digests, _group_digests(path))
            _check_size(path)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = xr.open_datatree(path, engine="zarr", consolidated=False)
                loaded = tree.load()
                tree.close()
            if "posterior" not in loaded.children:
                raise RunError("its group 'posterior' is lost", code="damaged")
            return xr.DataTree.from_dict({name: _restored(loaded[name].to_dataset()) for name in loaded.children})


@contextmanager
def _damaged_store(path: Path) -> Iterator[None]:
    """A context that turns errors of reading a store into one line with advice."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - a damaged store can raise anything, MemoryError too
        why = error.message if isinstance(error, BayeslabError) else str(error) or type(error).__name__
        raise RunError(
            f"the stored result is damaged: {why:.300}; make it again with `bayeslab fit --resume`",
            where=shown(path),
            code="damaged",
        ) from None


def _group_digests(store: Path) -> dict[str, str]:
    """A digest of the files of each group, and under ``/`` of the files outside groups."""
    groups = sorted(p.name for p in store.iterdir() if p.is_dir() and not p.name.startswith("."))
    loose = [p for p in store.iterdir() if not p.is_dir() and not p.name.startswith(".")]
    files = {name: [f for f in (store / name).rglob("*") if not f.name.startswith(".")] for name in groups}
    # Threads help, because reading and hashing blocks of bytes release the interpreter lock.
    with ThreadPoolExecutor(max_workers=4) as pool:
        return {name: _files_digest(store, one, pool) for name, one in {"/": loose, **files}.items()}


def _files_digest(store: Path, files: list[Path], pool: ThreadPoolExecutor) -> str:
    ordinary = sorted((f for f in files if f.is_file()), key=lambda f: f.relative_to(store).as_posix())
    whole = hashlib.sha256()
    for file, digest in zip(ordinary, pool.map(_file_digest, ordinary), strict=True):
        whole.update(f"{file.relative_to(store).as_posix()}\0{digest}\n".encode())
    return whole.hexdigest()


def _file_digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _compare(stored: Mapping[str, str], present: Mapping[str, str]) -> None:
    for name, digest in stored.items():
        if name not in present:
            raise RunError(f"the group '{name}' is not there", code="damaged")
        if present[name] != digest:
            what = "the store" if name == "/" else f"the group '{name}'"
            raise RunError(f"{what} is not what the run wrote (its digest differs)", code="damaged")
    for name in present.keys() - stored.keys():
        raise RunError(f"the run did not write the group '{name}'", code="damaged")


def _check_size(store: Path) -> None:
    """Refuse arrays that would take more than the memory; such a store can be small, as chunks may be missing, or a
    chunk may be compressed a thousandfold.
    """
    if any(store.rglob(".zarray")):
        raise RunError("an array is of Zarr format 2, in which no run is written", code="damaged")
    total = 0
    for file in store.rglob("zarr.json"):
        place = file.relative_to(store)
        if ordinary_size(file, RunError) > _MOST_INFO:
            raise RunError(f"{place} has more than {_MOST_INFO >> 20} MiB", code="damaged")
        content = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or "shape" not in content:
            continue
        lengths = [content["shape"], _chunk_shape(content)]
        for shape in lengths:
            if not isinstance(shape, list) or not all(isinstance(n, int) and n >= 0 for n in shape):
                raise RunError(f"{place} has the shape {shape!r:.60}", code="damaged")
        size = _item_size(content) * max(math.prod(shape) for shape in lengths)
        total += size
        if total <= memory_size():
            _check_chunks(file.parent, _codecs(content, place), size)
    if total > memory_size():
        raise RunError(f"its arrays would take {total / 2**30:.3g} GiB, more than this machine has", code="damaged")


def _chunk_shape(content: Mapping[str, Any]) -> Any:
    try:
        return content["chunk_grid"]["configuration"]["chunk_shape"]
    except (KeyError, TypeError):
        return None


def _codecs(content: Mapping[str, Any], place: Path) -> list[str]:
    """The names of an array's codecs, all of them of the few that runs are written with."""
    names = list[str]()
    for codec in content.get("codecs") or ():
        name = codec.get("name") if isinstance(codec, dict) else codec
        if not isinstance(name, str) or name not in _CODECS:
            raise RunError(f"{place} has the codec {name!r:.40}, with which no run is written", code="damaged")
        names.append(name)
    return names


def _check_chunks(place: Path, codecs: list[str], size: int) -> None:
    """Refuse a compressed chunk that holds more than its array, without keeping what it holds."""
    for codec in {"gzip", "zstd"} & set(codecs):
        for chunk in (f for f in (place / "c").rglob("*") if f.is_file()):
            # Text of any length has no known size; then a chunk of an ordinary ratio is accepted.
            most = max(size, 1000 * chunk.stat().st_size if "vlen-utf8" in codecs else 0)
            held = _gzip_size(chunk, most) if codec == "gzip" else _zstd_size(chunk)
            if held > most:
                raise RunError(f"{place.name}: a chunk holds more than its array", code="damaged")


def _gzip_size(file: Path, most: int) -> int:
    """Bytes that a file holds, counted up to ``most``."""
    held = 0
    with gzip.open(file) as stream:
        while held <= most and (piece := stream.read(1 << 20)):
            held += len(piece)
    return held


def _zstd_size(file: Path) -> int:
    """Bytes that a file holds by its header, which must state them (RFC 8878, section 3.1.1.1)."""
    with file.open("rb") as stream:
        head = stream.read(18)
    if head[:4] != b"\x28\xb5\x2f\xfd" or len(head) < 6:
        raise RunError(f"{file.name} is not compressed with zstd", code="damaged")
    flag, single = head[4] >> 6, head[4] >> 5 & 1
    if not flag and not single:
        raise RunError(f"{file.name} does not state its size", code="damaged")
    at = 5 + (not single) + (0, 1, 2, 4)[head[4] & 3]
    length = int.from_bytes(head[at : at + (1, 2, 4, 8)[flag]], "little")
    return length + 256 if flag == 1 else length


def _item_size(content: Mapping[str, Any]) -> int:
    """Bytes of one element of an array; for text of variable length, those of a pointer."""
    kind = content.get("data_type")
    if isinstance(kind, dict):
        configuration = kind.get("configuration")
        length = configuration.get("length_bytes") if isinstance(configuration, dict) else None
        return length if isinstance(length, int) and length > 0 else 8
    try:
        return np.dtype(kind).itemsize if isinstance(kind, str) else 8
    except TypeError:
        return 8


def _remove(path: Path) -> None:
    """Remove a file, link or folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _restored(group: xr.Dataset) -> xr.Dataset:
    """A group as it was written: variables in their order, labels as ordinary text."""
    group = group[list(group.attrs.pop("variables", group.data_vars))]
    text = {name: c.astype(str) for name, c in group.coords.items() if c.dtype.kind in "TO"}
    return group.assign_coords(text) if text else group


_DIGEST, _ORIGIN = "sha256", "origin"


def _origin(info: Mapping[str, Any], chain: int, draws: str) -> str:
    """A digest of the origin of a chain and of its draws, whose digest is ``draws``."""
    names = ("seed", "method", "options", "model_digest", "data_digests")
    content = [chain, draws, {name: info[name] for name in names}]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
