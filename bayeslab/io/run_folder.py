"""Run folders: everything a run needs to be reopened, resumed and trusted, anywhere.

::

    runs/radon/
      model.yaml     the model as used
      data.npz       the data as used
      run.json       format, status, digests, seed, options, versions, timings, verdict
      chains/        each finished chain, as soon as it is finished
      result.zarr    the DataTree of the result

Everything is written under a temporary name and renamed, so that a killed run leaves whole files.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.dataset import Column, Dataset
from bayeslab.errors import RunError, hint
from bayeslab.io.modelfile import dump, load, write_text
from bayeslab.spec import Model

if TYPE_CHECKING:
    import xarray as xr

    from bayeslab.io.segments import SegmentStore

__all__ = ["FORMAT", "RunFolder", "read_npz", "write_npz"]

FORMAT = 1


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
        """A new folder ``runs/name``, or ``runs/name-2`` and so on; never one that is there."""
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
            raise RunError(f"the run folder cannot be made: {error.strerror}", where=str(base)) from None
        raise RunError("too many runs of this name; give another with name=", where=str(base))

    @classmethod
    def existing(cls, path: str | os.PathLike[str]) -> RunFolder:
        """A folder that is there.

        Raises
        ------
        RunError
            No run there; the message names the runs that are near.
        """
        folder = Path(path)
        if (folder / "run.json").is_file():
            return cls(folder)
        near = [p.parent.name for p in folder.parent.glob("*/run.json")] if folder.parent.is_dir() else []
        raise RunError(f"no run here (no run.json){hint(folder.name, near) if near else ''}", where=str(path))

    # -- the description of the run

    def write_info(self, info: Mapping[str, Any]) -> None:
        """Write ``run.json``."""
        write_text(self.path / "run.json", json.dumps(dict(info), indent=1, ensure_ascii=False) + "\n")

    def info(self) -> dict[str, Any]:
        """Read ``run.json``."""
        where = str(self.path / "run.json")
        try:
            info = json.loads((self.path / "run.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"damaged: {error}", where=where) from None
        if not isinstance(info, dict) or info.get("format") != FORMAT:
            given = info.get("format") if isinstance(info, dict) else None
            raise RunError(f"run format {given!r}; this bayeslab reads format {FORMAT}", where=where)
        return info

    # -- model and data

    def write_inputs(self, model: Model, dataset: Dataset) -> None:
        """Write the model file and the data."""
        write_text(self.path / "model.yaml", dump(model))
        arrays: dict[str, np.ndarray] = {}
        meta: dict[str, Any] = {"rows": dataset.rows, "columns": {}, "levels": sorted(dataset.levels)}
        for i, (name, column) in enumerate(dataset.columns.items()):
            meta["columns"][name] = {"at": i, "dims": column.dims, "missing": column.missing is not None}
            arrays[f"c{i}"] = column.values
            if column.missing is not None:
                arrays[f"m{i}"] = column.missing
        for i, name in enumerate(meta["levels"]):
            arrays[f"l{i}"] = dataset.levels[name]
        arrays["meta"] = np.array(json.dumps(meta))
        write_npz(self.path / "data.npz", arrays)

    def model(self) -> Model:
        return load(self.path / "model.yaml")

    def dataset(self) -> Dataset:
        stored = read_npz(self.path / "data.npz")
        meta = json.loads(str(stored["meta"]))
        columns = {}
        for name, entry in meta["columns"].items():
            dims = tuple(entry["dims"]) if entry["dims"] is not None else None
            missing = stored[f"m{entry['at']}"] if entry["missing"] else None
            columns[name] = Column(stored[f"c{entry['at']}"], dims, missing)
        levels = {name: stored[f"l{i}"] for i, name in enumerate(meta["levels"])}
        return Dataset(columns, meta["rows"], levels)

    # -- chains

    def finished(self) -> list[int]:
        """Numbers of the chains that are whole."""
        return sorted(int(p.stem.removeprefix("chain-")) for p in (self.path / "chains").glob("chain-*.npz"))

    def read(self, chain: int) -> dict[str, np.ndarray]:
        return read_npz(self.path / "chains" / f"chain-{chain}.npz")

    def write(self, chain: int, arrays: Mapping[str, np.ndarray]) -> None:
        write_npz(self.path / "chains" / f"chain-{chain}.npz", arrays)

    def segments(self) -> SegmentStore:
        """The part of the folder that jobs of segments use."""
        from bayeslab.io.segments import SegmentStore

        return SegmentStore(self.path)

    # -- the result

    def write_result(self, tree: xr.DataTree) -> None:
        """Write the DataTree; an earlier result is replaced only by a whole one."""
        import warnings

        final, new, old = (self.path / name for name in ("result.zarr", ".result.new", ".result.old"))
        for leftover in (new, old):
            shutil.rmtree(leftover, ignore_errors=True)
        try:
            with warnings.catch_warnings():
                # Zarr 3 has no final specification of text arrays yet; it reads what it writes.
                warnings.simplefilter("ignore")
                _with_order(tree).to_zarr(new, consolidated=False, mode="w")
            if final.exists():
                os.replace(final, old)
            os.replace(new, final)
        except OSError as error:
            raise RunError(f"the result cannot be written: {error.strerror or error}", where=str(final)) from None
        finally:
            shutil.rmtree(new, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)

    def result(self) -> xr.DataTree:
        """Read the DataTree into memory.

        Raises
        ------
        RunError
            The run has not finished, or the store is damaged.
        """
        import warnings

        import xarray as xr

        path = self.path / "result.zarr"
        if not path.is_dir():
            raise RunError("the run has no result yet: complete it with `bayeslab fit --resume`", where=str(self.path))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = xr.open_datatree(path, engine="zarr", consolidated=False)
                loaded = tree.load()
                tree.close()
        except (OSError, ValueError, KeyError) as error:
            raise RunError(f"the stored result is damaged: {error}", where=str(path)) from None
        return xr.DataTree.from_dict({name: _restored(loaded[name].to_dataset()) for name in loaded.children})


def _with_order(tree: xr.DataTree) -> xr.DataTree:
    """The tree with the order of each group's variables noted: a store lists them in its own."""
    import xarray as xr

    groups = {name: tree[name].to_dataset() for name in tree.children}
    return xr.DataTree.from_dict(
        {n: g.assign_attrs(variables=[str(v) for v in g.data_vars]) for n, g in groups.items()}
    )


def _restored(group: xr.Dataset) -> xr.Dataset:
    """A group as it was written: variables in order, labels as ordinary text."""
    group = group[list(group.attrs.pop("variables", group.data_vars))]
    text = {name: c.astype(str) for name, c in group.coords.items() if c.dtype.kind in "TO"}
    return group.assign_coords(text) if text else group


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    temporary = path.with_name(f".{path.name}.partial")
    try:
        with temporary.open("wb") as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise RunError(f"cannot be written: {error.strerror}", where=str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)


def read_npz(path: Path) -> dict[str, np.ndarray]:
    try:
        # A damaged file that NumPy opened itself would stay open.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            return dict(stored)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise RunError(f"missing or damaged: {error}", where=str(path)) from None
