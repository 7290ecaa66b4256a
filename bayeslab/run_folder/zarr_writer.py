"""Groups of arrays written as a Zarr store, format 3, as xarray reads it.

zarr and xarray, which take half a second to import, read stores; a fit only writes one. Each array is one chunk.
Whole numbers and truth values are compressed with gzip, since draws of states are long and repetitive; random numbers
are not, since their digits are noise.

References
----------
Zarr core specification, version 3: https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.labelled import Group, Variable

__all__ = ["write_store"]

# Arrays of fewer bytes are not compressed.
_SMALL = 1 << 12
_UNITS = {"D": "days", "h": "hours", "m": "minutes", "s": "seconds", "ms": "milliseconds", "us": "microseconds"}


def write_store(folder: Path, groups: Mapping[str, Group]) -> None:
    """Write groups to a new folder.

    Raises
    ------
    OSError
        The folder exists, or cannot be written.
    TypeError
        An array has values that a store cannot hold, such as arbitrary objects.
    """
    folder.mkdir()
    _write_json(folder, {"attributes": {}})
    for name, group in groups.items():
        place = folder / name
        place.mkdir()
        # A store lists its arrays in another order.
        _write_json(place, {"attributes": _plain(group.attrs | {"variables": list(group.data_vars)})})
        for variable_name, variable in (group.coords | group.data_vars).items():
            _write_array(place / variable_name, variable, _labels_of(group, variable_name))


def _labels_of(group: Group, name: str) -> list[str]:
    """The labels along a variable's dimensions that have other names than the dimensions."""
    if name not in group.data_vars:
        return []
    dims = set(group.data_vars[name].dims)
    return [n for n, labels in group.coords.items() if labels.dims != (n,) and set(labels.dims) <= dims]


def _write_array(place: Path, variable: Variable, labels: list[str]) -> None:
    values, kind, attrs = _stored(variable)
    attrs |= {"coordinates": " ".join(labels)} if labels else {}
    compressed = values.dtype.kind in "biu" and values.nbytes >= _SMALL
    codecs: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    codecs += [{"name": "gzip", "configuration": {"level": 1}}] if compressed else []
    place.mkdir()
    _write_json(
        place,
        {
            "shape": list(values.shape),
            "data_type": kind,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [max(n, 1) for n in values.shape]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": {"b": False, "U": ""}.get(values.dtype.kind, 0),
            "codecs": codecs,
            "attributes": _plain(variable.attrs | attrs),
            "dimension_names": list(variable.dims),
            "storage_transformers": [],
        },
        kind="array",
    )
    if not values.size:
        return
    *folders, file = ["c", *["0"] * values.ndim]
    chunk = place.joinpath(*folders)
    chunk.mkdir(parents=True, exist_ok=True)
    content = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).data.cast("B")
    (chunk / file).write_bytes(gzip.compress(content, 1, mtime=0) if compressed else content)


def _stored(variable: Variable) -> tuple[NDArray[Any], Any, dict[str, Any]]:
    """The array as numbers or text, the name of its type, and attributes with its encoding."""
    values = variable.values
    if values.dtype.kind in "OT":
        if not all(isinstance(value, str) for value in values.flat):
            raise TypeError(f"an array of {type(next(iter(values.flat))).__name__} cannot be stored")
        values = values.astype(str)
    if values.dtype.kind in "Mm":
        return _times(values)
    if values.dtype.kind == "U":
        values = values.astype(f"U{max(values.dtype.itemsize // 4, 1)}")
        return values, {"name": "fixed_length_utf32", "configuration": {"length_bytes": values.dtype.itemsize}}, {}
    if values.dtype.kind not in "biuf":
        raise TypeError(f"an array of type {values.dtype} cannot be stored")
    return values, values.dtype.name, {}


def _times(values: NDArray[Any]) -> tuple[NDArray[Any], str, dict[str, Any]]:
    """Dates, or durations, as whole numbers with their unit, by the conventions for climate data (CF)."""
    unit = np.datetime_data(values.dtype)[0]
    if unit not in _UNITS:
        unit = "ns"
    numbers = values.astype(f"{values.dtype.kind}8[{unit}]").view(np.int64)
    word = _UNITS.get(unit, "nanoseconds")
    if values.dtype.kind == "m":
        return numbers, "int64", {"units": word, "dtype": f"timedelta64[{unit}]"}
    return numbers, "int64", {"units": f"{word} since 1970-01-01", "calendar": "proleptic_gregorian"}


def _plain(value: Any) -> Any:
    """Attributes as plain numbers, words, lists and mappings."""
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value


def _write_json(place: Path, content: dict[str, Any], kind: str = "group") -> None:
    text = json.dumps(content | {"zarr_format": 3, "node_type": kind}, indent=2)
    (place / "zarr.json").write_text(text, encoding="utf-8")
