"""Tables of pandas, polars and pyarrow: columns and category orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.data.cells import as_words, number_in
from bayeslab.errors import DataError, listed

__all__ = ["categories_as_words", "category_order", "check_indexes", "frame_columns", "frame_series", "is_frame"]


def check_indexes(series: Mapping[str, Any], what: str) -> None:
    """Refuse pandas series of equal length with different indexes: by position their rows would not match."""
    first: dict[int, tuple[str, Any]] = {}
    for name, value in series.items():
        index: Any = getattr(value, "index", None)
        if not hasattr(index, "equals"):
            continue
        other, known = first.setdefault(len(value), (name, index))
        if not index.equals(known):
            raise DataError(
                f"{what}: the series '{other}' and '{name}' have different indexes: put them into one dataframe, which"
                " aligns their rows, or give arrays, whose rows go together as they come",
                code="bad-dimensions",
            )


def is_frame(value: Any) -> bool:
    """Whether a value is a table of pandas, polars or pyarrow."""
    return hasattr(value, "columns") and hasattr(value, "shape") and not isinstance(value, np.ndarray)


def frame_series(frame: Any) -> dict[str, Any]:
    """Columns of a pandas, polars or pyarrow table as narwhals series.

    Raises
    ------
    DataError
        The value is not such a table, or two columns have the same name.
    """
    import narwhals as nw

    try:
        native = nw.from_native(frame, eager_only=True)
        names = [str(name) for name in native.columns]
    except nw.exceptions.DuplicateError:
        doubled = [name for name, count in Counter(map(str, frame.columns)).items() if count > 1]
        raise DataError(f"the column '{listed(doubled)[1:-1]}' occurs twice", code="duplicate") from None
    except TypeError:
        raise DataError(
            f"{type(frame).__name__} is not a table bayeslab can read (pandas, polars, pyarrow)", code="wrong-type"
        ) from None
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        raise DataError(f"the column '{doubled[0]}' occurs twice", code="duplicate")
    return dict(zip(names, native.iter_columns(), strict=True))


def frame_columns(frame: Any) -> dict[str, Any]:
    """Columns of a pandas, polars or pyarrow table."""
    columns = {}
    for name, series in frame_series(frame).items():
        native = series.to_native()
        if type(getattr(native, "type", None)).__name__ == "DictionaryType":  # categories of pyarrow
            native = native.to_pandas()
        if category_order(native) is not None:
            columns[name] = native
        else:
            columns[name] = series.to_list() if _nullable(series) else series.to_numpy()
    return columns


def category_order(values: Any) -> tuple[str, ...] | None:
    """The ordered categories of a categorical column, if they have an order (ordered words, or numbers), else None."""
    kind = getattr(values, "dtype", None)
    if (numbers := _numeric_categories(kind)) is not None:
        return tuple(as_words(numbers).tolist())
    named = type(kind).__name__ == "CategoricalDtype" and _read_as_numbers(kind.categories)  # type: ignore[union-attr]
    if getattr(kind, "ordered", False) is not True and type(kind).__name__ != "Enum" and not named:
        return None
    words = list(kind.categories)  # type: ignore[union-attr]
    return tuple(words) if all(isinstance(word, str) for word in words) else None


def _read_as_numbers(categories: Any) -> bool:
    """Whether categories are words that read as numbers; as categories they are levels anyway."""
    words = [] if categories is None else list(categories)
    return bool(words) and all(isinstance(word, str) and number_in(word) is not None for word in words)


def _numeric_categories(kind: Any) -> np.ndarray | None:
    """The categories of a categorical pandas type if they are numbers, else None."""
    if type(kind).__name__ != "CategoricalDtype" or kind.categories is None or not len(kind.categories):
        return None
    categories = np.asarray(kind.categories.infer_objects())
    return categories if categories.dtype.kind in "iuf" else None


def categories_as_words(values: Any) -> Any:
    """A categorical column of numbers as words, because its cells are levels, not quantities."""
    numbers = _numeric_categories(getattr(values, "dtype", None))
    if numbers is None:
        return values
    codes = np.asarray(getattr(values, "cat", values).codes)
    words = np.array([*as_words(numbers).tolist(), None], dtype=object)
    return words[codes]  # the code of a missing cell is -1


def _nullable(series: Any) -> bool:
    """Whether cells are read one by one: they are not numbers, or some are empty, or NumPy has no such numbers."""
    kind = series.dtype
    return not kind.is_numeric() or kind.is_decimal() or "128" in str(kind) or series.null_count() > 0
