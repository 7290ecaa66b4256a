"""Data section of a plain PyMC script: tables read by pandas, dimensions, columns.

When the script is written, each column that pandas reads is compared, cell by cell, with the data of the fit. A
difference is an error.
"""

from __future__ import annotations

import ast
import json
import keyword
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.cells import MISSING_WORDS
from bayeslab.data.dataset import Column
from bayeslab.errors import BayeslabError, DataError
from bayeslab.families.graph.pymc_code import Printer
from bayeslab.families.graph.pymc_helpers import HELPERS
from bayeslab.families.graph.pymc_values import Code, filled, not_exported
from bayeslab.language.spec import Model, plain_name

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Names", "ScriptData", "literal"]

_RESERVED = frozenset(
    [
        "np",
        "pd",
        "pm",
        "pt",
        "az",
        "special",
        "Path",
        "json",
        "FOLDER",
        "coords",
        "model",
        "idata",
        "pmx",
        "scan",
        *HELPERS,
        "len",
        "range",
        "print",
    ]
)


class Names:
    """Names of variables in the script: the model's names, with ``_`` appended to reserved ones."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The variable of a node or a column."""
        if name not in self._of:
            wanted = f"{name}_" if keyword.iskeyword(name) or name in _RESERVED else name
            while wanted in self._of.values():
                wanted += "_"
            self._of[name] = wanted
        return self._of[name]


def literal(values: Any) -> ast.expr:
    """Labels or numbers as a Python literal."""
    return ast.parse(repr(np.asarray(values).tolist()), mode="eval").body


class ScriptData:
    """Lines of the script that read the data; a column or a dimension is added when it is first used.

    Parameters
    ----------
    model, data
        The model and the data bound to it.
    folder
        The folder that paths of the data section are relative to.
    out
        The folder in which the script will lie.
    nodes
        Names of the model's nodes.
    """

    def __init__(self, model: Model, data: Data, folder: Path, out: Path, nodes: set[str], names: Names) -> None:
        self.model, self.data, self.folder, self.out, self.nodes, self.names = model, data, folder, out, nodes, names
        self.files: list[str] = []
        self.coords: dict[str, str] = {}
        self.columns: list[str] = []
        self._frames: dict[str, tuple[str, pd.DataFrame]] = {}
        self._arrays: dict[str, Any] | None = None
        self._known: dict[str, Code] = {}
        self.printer = Printer(self.column, data.labels, self.column, self.length)

    # -- dimensions

    def length(self, dim: str) -> ast.expr:
        """The length of a dimension."""
        self.dimension(dim)
        return filled("len(coords[A])", A=ast.Constant(dim)) if dim in self.coords else ast.Constant(self._size(dim))

    def _size(self, dim: str) -> int:
        return len(self.data.labels[dim])

    def dimension(self, dim: str) -> None:
        """Add a dimension to the script."""
        if dim not in self.coords and dim not in self.nodes:
            self.coords[dim] = self._labels(dim)

    def _labels(self, dim: str) -> str:
        entry, labels = self.model.dims.get(dim), self.data.labels[dim]
        if isinstance(entry, str):
            return self._labels(entry)
        if isinstance(entry, int):
            return f"range({entry})"
        if isinstance(entry, list):
            return ast.unparse(literal(labels))
        source = self.model.data
        for table_dim, path in {source.rows: source.table, **source.tables}.items():
            if path is None or table_dim != dim:
                continue
            name, frame = self._frame(dim, path)
            if dim in frame.columns and _same(frame[dim], labels):
                return f'{name}["{dim}"].to_list()'
            if np.array_equal(labels, np.arange(len(frame))):
                return f"range(len({name}))"
        column = self.data.dataset.columns.get(dim)
        if column is not None and column.dims is not None and len(column.dims) == 1:
            name, frame = self._frame(column.dims[0], self._path(column.dims[0], dim))
            values = frame[dim].dropna()
            for template, levels in (
                ('np.unique({name}["{dim}"]).tolist()', np.unique(values)),
                ('{name}["{dim}"].dropna().unique().tolist()', values.unique()),
            ):
                if _same(levels, labels):
                    return template.format(name=name, dim=dim)
        if np.array_equal(labels, np.arange(len(labels))):
            return f"range({len(labels)})"
        return ast.unparse(literal(labels))

    # -- columns

    def column(self, name: str) -> Code:
        """A column of the data, or a dimension as an index, as code of the script."""
        if name not in self._known:
            self._known[name] = self._column(name)
        return self._known[name]

    def observed(self, name: str, dims: tuple[str, ...], *, discrete: bool) -> Code:
        """The data of a node, with axes in the order of ``dims``."""
        term = self.data.term(name, missing=True)
        if name in self.data.derive and name not in self.data.dataset.columns:
            return self.column(name)
        tree = self._codes(name) if term.value is None else self._cells(name, self.data.dataset.columns[name])
        if discrete and term.value is not None and np.asarray(term.value).dtype.kind == "f":
            if np.isnan(np.asarray(term.value)).any():
                raise not_exported(f"'{name}', a discrete node with missing cells,", "model", "nodes", name)
            tree = filled("A.astype(int)", A=tree)
        if tuple(term.dims) != dims:
            tree = filled("A.transpose(ORDER)", A=tree, ORDER=repr(tuple(term.dims.index(d) for d in dims)))
        return Code(tree, dims, given=True)

    def _column(self, name: str) -> Code:
        if name in self.data.dataset.columns:
            term, column = self.data.term(name, missing=True), self.data.dataset.columns[name]
            for dim in column.dims or ():
                self.dimension(dim)
            if not column.dims:
                return Code(self._define(name, self._cells(name, column)), ())
            if term.codes is not None:
                codes = self._codes(name)
                labels = self._cells(name, column)
                return Code(self._define(name, codes), column.dims, factor=term.factor, labels=labels, given=True)
            return Code(self._define(name, self._cells(name, column)), column.dims, given=True)
        if name in self.data.derive:
            term = self.data.term(name, missing=True)
            if term.codes is not None:
                raise not_exported(f"'{name}', a computed column of levels,", "data", "derive", name)
            code = self.printer.print(self.data.derive[name].tree)
            return Code(self._define(name, code.tree), code.dims, given=True)
        if name in self.data.labels:
            self.dimension(name)
            return Code(filled("np.arange(A)", A=self.length(name)), (name,), factor=name)
        raise DataError(f"the data have no column '{name}'", code="unknown-column")

    def _define(self, name: str, tree: ast.expr) -> ast.expr:
        variable = self.names.of(name if name not in self.nodes else f"{name}_data")
        self.columns.append(f"{variable} = {ast.unparse(tree)}")
        return ast.Name(variable)

    def _cells(self, name: str, column: Column) -> ast.expr:
        """Code of a column's cells as they are in its file."""
        if self._in_arrays(name):
            values = np.asarray((self._arrays or {})[name])
            if not np.array_equal(values.astype(float), column.values.astype(float), equal_nan=True):
                raise not_exported(f"the array '{name}', which NumPy reads differently,", "data", "arrays")
            return filled("np.array(arrays[A])", A=ast.Constant(name))
        dim = (column.dims or ("",))[0]
        table, frame = self._frame(dim, self._path(dim, name))
        if not _reads_alike(frame, name, column):
            raise not_exported(f"the column '{name}', which pandas reads differently,", "data", "table")
        if column.text:
            return filled("T[A]", T=table, A=ast.Constant(name))
        return filled("T[A].to_numpy()", T=table, A=ast.Constant(name))

    def _codes(self, name: str) -> ast.expr:
        """Code of a column's positions among the levels of its dimension."""
        import pandas as pd

        term, column = self.data.term(name, missing=True), self.data.dataset.columns[name]
        if self._in_arrays(name):
            raise not_exported(f"the array '{name}' of levels", "data", "arrays")
        dim = str(term.factor)
        labels, cells = self.data.labels[dim], self._cells(name, column)
        self.dimension(dim)
        levels = filled("coords[A]", A=ast.Constant(dim)) if dim in self.coords else literal(labels)
        _, frame = self._frame((column.dims or ("",))[0], self._path((column.dims or ("",))[0], name))
        for template, given in (("T", frame[name]), ("T.astype(str)", frame[name].astype(str))):
            codes = pd.Categorical(given, categories=labels.tolist()).codes
            if np.array_equal(codes, term.codes) and np.all(codes >= 0):
                inner = filled("A", A=cells) if column.text else filled("A", A=_series(cells))
                return filled(
                    f"pd.Categorical({template}, categories=LEVELS).codes.astype(int)", T=inner, LEVELS=levels
                )
        raise not_exported(f"the column '{name}' of levels, which pandas reads differently,", "data", "table")

    # -- files

    def _path(self, dim: str, column: str) -> str:
        source = self.model.data
        path = source.tables.get(dim) or (source.table if dim == source.rows else None)
        if path is None:
            raise DataError(
                f"a script reads its data from files, and no file has '{column}': name a table in the data section",
                path=("data",),
                code="no-data",
            )
        return path

    def _in_arrays(self, name: str) -> bool:
        source = self.model.data
        if source.arrays is None:
            return False
        if self._arrays is None:
            self._arrays = json.loads((self.folder / source.arrays).read_text(encoding="utf-8"))
            self.files.append(f"arrays = json.loads({self._path_code(source.arrays)}.read_text())")
        return name in self._arrays

    def _path_code(self, path: str) -> str:
        """Code of a file's path, relative to the script."""
        whole = self.folder / path
        relative = Path(os.path.relpath(whole, self.out)).as_posix()
        return f"(FOLDER / {relative!r})"

    def _frame(self, dim: str, path: str) -> tuple[str, pd.DataFrame]:
        """The script's variable of a table, and the table as pandas reads it."""
        if dim not in self._frames:
            variable = self.names.of(f"{dim}_table")
            call, frame = self._read(dim, path)
            renamed = self._renamed(frame)
            frame = frame.rename(columns=renamed)
            ending = f".rename(columns={renamed!r})" if renamed else ""
            self.files.append(f"{variable} = {call}{ending}")
            self._frames[dim] = variable, frame
        return self._frames[dim]

    def _renamed(self, frame: pd.DataFrame) -> dict[str, str]:
        old = {given: new for new, given in self.model.data.rename.items()}
        out = {str(name): old.get(str(name), plain_name(str(name))) for name in frame.columns}
        return {name: new for name, new in out.items() if name != new and new in self.data.names()}

    def _read(self, dim: str, path: str) -> tuple[str, pd.DataFrame]:
        """The pandas call whose columns equal the model's data, and its result."""
        import pandas as pd

        place, whole = self._path_code(path)[1:-1], self.folder / path
        if whole.suffix == ".parquet":
            return f"pd.read_parquet({place})", pd.read_parquet(whole)
        if whole.suffix == ".json":
            return f"pd.read_json({place})", pd.read_json(whole)
        names = [name for name, column in self.data.dataset.columns.items() if column.dims == (dim,)]
        used = [name for name in names if name in self.data.used or name in self.nodes]
        words = sorted(MISSING_WORDS | {str(word) for word in self.model.data.missing})
        best = None
        for separator in (",", "\t", ";"):
            for more in ({}, {"keep_default_na": False, "na_values": words}):
                options: dict[str, Any] = {**({"sep": separator} if separator != "," else {}), **more}
                if self.model.data.text:
                    options["dtype"] = dict.fromkeys(self.model.data.text, "str")
                try:
                    frame = pd.read_csv(whole, **options)
                except (ValueError, OSError):
                    continue
                given = "".join(f", {key}={value!r}" for key, value in options.items())
                candidate = f"pd.read_csv({place}{given})", frame
                renamed = frame.rename(columns=self._renamed(frame))
                if all(_reads_alike(renamed, name, self.data.dataset.columns[name]) for name in used):
                    return candidate
                best = best or candidate
        if best is None:
            raise not_exported(f"the table '{path}', which pandas cannot read,", "data", "table")
        return best  # a column that differs is refused where it is used


def _series(cells: ast.expr) -> ast.expr:
    """Code of the pandas series from which ``cells`` takes its array."""
    assert isinstance(cells, ast.Call)
    assert isinstance(cells.func, ast.Attribute)
    return cells.func.value


def _same(cells: Any, labels: np.ndarray) -> bool:
    values = np.asarray(cells)
    return values.shape == labels.shape and values.tolist() == labels.tolist()


def _reads_alike(frame: Mapping[str, Any], name: str, column: Column) -> bool:
    """Whether pandas reads the same cells of a column."""
    if name not in frame:
        return False
    series = frame[name]
    gone = series.isna().to_numpy()
    if gone.shape != column.values.shape or not np.array_equal(gone, column.absent()):
        return False
    if column.text:
        return series[~gone].to_list() == column.values[~gone].tolist()
    try:
        return np.array_equal(series.to_numpy(float), column.values.astype(float), equal_nan=True)
    except (ValueError, TypeError, BayeslabError):
        return False
