"""Binding a dataset to a model: the factors, their levels and the order of the levels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from bayeslab.data.bound import Data, Memory
from bayeslab.data.cells import Cells
from bayeslab.data.dataset import Column, Dataset, check_lengths, label_array, slip_of
from bayeslab.errors import DataError, ModelError, errors_at, hint, listed
from bayeslab.language.expressions import parse
from bayeslab.language.indexing import labels_are_numbers
from bayeslab.language.spec import PREDICTED, RESERVED, TRUTHS, Model, plain_name

__all__ = ["bind", "describe"]


def bind(model: Model, dataset: Dataset, factors: Iterable[str], memory: Memory | None = None) -> Data:
    """Bind a dataset to a model.

    Parameters
    ----------
    factors
        Dimensions the model indexes by a column of the same name.
    memory
        Memory of an earlier fit, whose levels and values of reductions are used.

    Raises
    ------
    DataError
        Lengths or levels do not match.
    """
    memory = memory or Memory()
    alike: dict[str, list[str]] = {}
    if not model.model.any_names:
        alike, dataset = dataset.alike(), dataset.plain()
        _refuse_bare_truths(model, dataset)
    dataset = _in_order(dataset, memory)
    columns = dataset.columns
    check_lengths(columns, "data")
    single = [name for name, column in columns.items() if column.dims == ()]
    if single and len(single) == len(columns) and not dataset.levels and not model.model.is_language:
        raise DataError(
            f"all data are single values, such as '{single[0]}': give lists, one value for each row",
            code="not-a-column",
        )
    labels: dict[str, np.ndarray] = {}
    lengths = {d: n for c in columns.values() if c.dims for d, n in zip(c.dims, c.values.shape, strict=True)}
    lengths |= {d: len(names) for d, names in dataset.levels.items()}
    for dim, length in lengths.items():
        if dim in RESERVED:
            raise DataError(
                f"the dimension '{dim}' is reserved by the results format; choose another name", code="reserved-name"
            )
        if PREDICTED.fullmatch(dim):
            raise DataError(
                f"rows are called '{dim}', and so is a column of the table of predictions: choose another name"
                " (data.rows, or data.rename)",
                code="reserved-name",
            )
        labels[dim] = dataset.levels.get(dim, np.arange(length))
    for dim, entry in model.dims.items():
        if isinstance(entry, str):
            continue
        declared = np.arange(entry) if isinstance(entry, int) else label_array(entry)
        if isinstance(entry, int) and len(memory.levels.get(dim, ())) == entry:
            declared = label_array(memory.levels[dim])  # which an outcome of the fit may have named
        if dim in lengths and lengths[dim] != len(declared):
            raise DataError(
                f"dimension '{dim}' has {len(declared)} levels in the model, {lengths[dim]} in the data",
                code="wrong-length",
            )
        if dim in dataset.levels and isinstance(entry, list):
            given, want = [str(x) for x in dataset.levels[dim].tolist()], [str(x) for x in entry]
            for row, (word, level) in enumerate(zip(given, want, strict=True)):
                if word != level:
                    raise DataError(
                        f"column '{dim}', row {row + 1}: '{word}' where the model has the level '{level}'",
                        code="unknown-level",
                    )
        labels[dim] = declared
    # A column with the name of a dimension is an index into it, by the dimension's labels.
    named = {name for name in labels.keys() & columns.keys() if columns[name].dims != (name,)}
    wanted = set(factors) | named | {name for name, column in columns.items() if column.text}
    factor_columns = {name for name in wanted & columns.keys() if columns[name].dims is not None}
    for name, level_names in model.model.levels().items():
        if name in columns and name not in labels:
            labels[name] = np.array(level_names)
    empty = {}
    for name in sorted(factor_columns):
        if name in labels:
            continue
        if name not in factors and name not in memory.levels and columns[name].text and columns[name].absent().all():
            # Text without a cell is refused where a model uses it.
            labels[name], empty[name] = (
                np.array([], dtype=str),
                f"column '{name}' is used, and all its cells are empty: leave it out",
            )
            continue
        labels[name] = _levels(name, columns[name], memory)
    for dim, levels in memory.levels.items():
        labels.setdefault(dim, label_array(levels))
    for dim, entry in model.dims.items():
        if isinstance(entry, str):
            if entry not in labels:
                raise ModelError(
                    f"twin of '{entry}', which is not a dimension{hint(entry, labels)}",
                    path=("dims", dim),
                    code="unknown-dimension",
                )
            labels[dim] = labels[entry]
    derive = {}
    for name, text in model.data.derive.items():
        with errors_at(("data", "derive", name)):
            derive[name] = parse(text)
    try:
        TopologicalSorter({name: e.names & derive.keys() for name, e in derive.items()}).prepare()
    except CycleError as error:
        circle = error.args[1][::-1]
        path = ("data", "derive", circle[0])
        raise ModelError(f"computed columns form a cycle: {' -> '.join(circle)}", path=path, code="cycle") from None
    out = Data(dataset, labels, derive, factor_columns, memory.frozen)
    in_order = {*model.dims, *model.model.levels(), *memory.levels}
    out.alphabetical = frozenset(n for n in factor_columns - in_order if columns[n].text and columns[n].order is None)
    known = {*model.declared(), *memory.levels, *map(plain_name, Cells.of(model.data).text)}
    out.slips = empty | {
        name: slip
        for name, column in columns.items()
        if column.text and plain_name(name) not in known and (slip := slip_of(name, column)) is not None
    }
    out.alike = {
        plain: f"the columns {listed(names)} are all called '{plain}' in expressions: give one another name under"
        " data.rename"
        for plain, names in alike.items()
    }
    if not model.model.any_names:
        free = columns.keys() - set(factors) - known
        out.digits = frozenset(name for name in free if columns[name].order is None and _all_numbers(columns[name]))
    _name_categories(out, model)
    out.of_rows = model.model.of_rows
    return out


def _refuse_bare_truths(model: Model, dataset: Dataset) -> None:
    """Refuse ``True`` in an expression if a column has this name: it would be read as the truth value."""
    called = [word for word in TRUTHS if plain_name(word) in dataset.columns]
    if not called:
        return
    bare = re.compile(rf"(?<![\w=`'\"])(?<!=\s)({'|'.join(called)})(?![\w`'\"])")
    for text in _texts([model.model.model_dump(), model.data.derive]):
        if text not in called and (match := bare.search(text)) is not None:
            raise ModelError(
                f"'{match[0]}' is a constant in expressions and a column of the table: write the column in backticks,"
                " or rename it under data.rename",
                code="reserved-name",
            )


def _texts(content: Any) -> Iterator[str]:
    """All text in a model, keys and values."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, Mapping):
        for key, value in content.items():
            yield from _texts(key)
            yield from _texts(value)
    elif isinstance(content, list | tuple):
        for value in content:
            yield from _texts(value)


def _in_order(dataset: Dataset, memory: Memory) -> Dataset:
    """Group tables with rows in the order of the fit, if they have the same rows."""
    for dim, names in dataset.levels.items():
        known = list(map(str, memory.levels.get(dim, ())))
        place = {str(name): row for row, name in enumerate(names.tolist())}
        if known != list(place) and sorted(known) == sorted(place):
            dataset = dataset.take(np.array([place[word] for word in known]), dim)
    return dataset


def _name_categories(data: Data, model: Model) -> None:
    """Give categorical outcomes the labels of the dimension along which their probabilities lie.

    A dimension with a length but no labels takes the levels of its outcomes.

    Raises
    ------
    DataError
        The levels of outcomes do not fit the length of the dimension.
    """
    columns = data.dataset.columns
    given = {name: dim for name, dim in model.model.categories(data).items() if name in columns}
    category_dims = {name: dim if dim is not None and dim in data.labels else name for name, dim in given.items()}
    coded = set[str]()
    for name, dim in category_dims.items():
        if dim == name and name not in model.dims:
            continue
        foreign = columns[name].text and not _levels_of(name, data) <= set(map(str, data.labels[dim].tolist()))
        if foreign and dim != name and _nameless(dim, data, model):
            _give_names(
                dim, [other for other in category_dims if category_dims[other] == dim and columns[other].text], data
            )
        if columns[name].text or labels_are_numbers(data.labels[dim]):
            data.labels[name] = data.labels[dim]
            data.factors |= {name}
            data.dimension_of[name] = dim
            coded |= set() if columns[name].text else {name}
    data.coded = frozenset(coded)
    data.alphabetical -= data.dimension_of.keys()
    data.forget()


def _levels_of(name: str, data: Data) -> set[str]:
    column = data.dataset.columns[name]
    return set(column.values[~column.absent()].tolist())


def _nameless(dim: str, data: Data, model: Model) -> bool:
    """Whether a dimension has a length but no labels."""
    entry = model.dims.get(dim)
    while isinstance(entry, str):
        dim, entry = entry, model.dims.get(entry)
    of_data = dim in data.dataset.levels or dim in data.dataset.columns
    return not isinstance(entry, list) and not of_data and data.labels[dim].dtype.kind != "U"


def _give_names(dim: str, names: Sequence[str], data: Data) -> None:
    old = data.labels[dim]
    levels = max((data.labels[name].tolist() for name in names), key=len)
    words = set[str]().union(*(_levels_of(name, data) for name in names))
    if not words <= set(levels):
        levels = sorted(words)
    if len(levels) != len(old):
        shown = ", ".join(map(str, levels[:8])) + ", ..." * (len(levels) < len(old) or len(levels) > 8)
        raise DataError(
            f"column '{names[0]}' has {len(levels)} levels, {listed(levels)}, and '{dim}', along which their"
            f" probabilities lie, has {len(old)}: name them in dims, {dim}: [{shown}]",
            code="wrong-length",
        )
    named = np.array(levels)
    for other, labels in data.labels.items():
        if labels is old:  # the dimension and its twins
            data.labels[other] = named


def _present(column: Column) -> np.ndarray:
    """The values that are there; of a single value, an array of one."""
    return np.atleast_1d(column.values)[~np.atleast_1d(column.absent())]


def _all_numbers(column: Column) -> bool:
    """Whether a column is text whose words are all numbers, and not codes such as 01."""
    if not column.text:
        return False
    words = np.unique(_present(column)).tolist()
    return bool(words) and all(word.isdigit() and (word == "0" or word[0] != "0") for word in words)


def _levels(name: str, column: Column, memory: Memory) -> np.ndarray:
    if name in memory.levels:
        return label_array(memory.levels[name])
    present = _present(column)
    if column.text and column.order is not None:
        there = set(present.ravel().tolist())
        return np.array([word for word in map(str.strip, column.order) if word in there])
    if not column.text:
        if present.dtype.kind == "f" and np.any(present != np.floor(present)):
            odd = present[present != np.floor(present)][0]
            raise DataError(
                f"column '{name}' defines groups or classes, and holds numbers that are not whole ({odd:g}): if these"
                f" are names, list it in the data section, text: [{name}]; if it is measured, use a model (a learner, a"
                " likelihood, a task) for numbers",
                code="not-states",
            )
        present = present.astype(np.int64)
    if not present.size:
        raise DataError(f"column '{name}' is used as a dimension but has no values", code="no-values")
    return np.unique(present)


def describe(data: Data) -> str:
    """One line about the data: rows and columns of each table, and arrays."""
    groups: dict[str | None, list[str]] = {}
    for name, column in data.dataset.columns.items():
        groups.setdefault(column.dims[0] if column.dims and len(column.dims) == 1 else None, []).append(name)
    parts = []
    for dim, names in sorted(groups.items(), key=lambda item: (item[0] != data.dataset.rows, item[0] is None)):
        if dim is None:
            parts.append(f"arrays {listed(names)}")
        else:
            of = "" if dim == data.dataset.rows else f" of '{dim}'"
            n_rows = f"{len(data.labels[dim]):,} rows"
            if dim == data.dataset.rows and data.dataset.counts is not None:
                n_rows = f"{data.n_rows:,} rows, folded to {len(data.dataset.counts):,}"
            parts.append(f"{n_rows}{of}, columns {listed(names)}")
    if data.dataset.left_out:
        parts.append(f"left out, of no use to a model: {listed(data.dataset.left_out)}")
    return "; ".join(parts)
