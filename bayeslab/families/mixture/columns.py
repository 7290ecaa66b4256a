"""Columns of a mixture: rows, known labels, names of components, and inputs of a gate."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.rows import read_columns
from bayeslab.data.trials import check_trials
from bayeslab.errors import DataError, ModelError, hint
from bayeslab.families.mixture.spec import Mixture
from bayeslab.language.spec import Model

__all__ = ["check_drawn", "column_names", "gate_inputs", "names_and_labels", "read_rows"]


def column_names(spec: Mixture) -> tuple[str, ...]:
    """Names of the columns of the rows: modelled columns, numbers of trials, labels that may be wrong."""
    more = (spec.trials,) if isinstance(spec.trials, str) else ()
    noisy = (spec.labels,) if spec.labels and spec.label_noise else ()
    return (*spec.columns, *more, *noisy)


def read_rows(spec: Mixture, data: Data, columns: tuple[str, ...]) -> np.ndarray:
    """The rows, (N, D), NaN where a cell is missing; no rows if the data have none of the columns.

    Raises
    ------
    DataError
        A column holds text where numbers are expected, or the reverse.
    """
    if not any(data.has(name) for name in (*columns, *spec.gating)):
        return np.empty((0, len(columns)))
    categorical = {*spec.words("categorical"), *([spec.labels] if spec.labels else [])}
    unchecked = (spec.trials,) if isinstance(spec.trials, str) else ()  # checked with the trials
    out = read_columns(data, columns, categorical, text=lambda name: _text_found(spec, data, name), unchecked=unchecked)
    _check_given(spec, data, columns, out)
    return out


def _text_found(spec: Mixture, data: Data, name: str) -> str:
    if data.origin is None:
        return f"column '{name}' is text, and its components are {spec.word(name)}; give it 'categorical' in component"
    words, codes = data.labels.get(name, ()), data.term(name, missing=True).codes
    for row, code in enumerate(np.asarray(codes) if codes is not None else ()):
        if code >= 0 and not _number(words[code]):
            message = f"column '{name}', row {row + 1}: '{words[code]}' is not a number, as the column holds in the fit"
            return f"{message}; leave the cell empty if not known"
    return f"column '{name}' is text; it holds numbers in the fit"


def _number(text: Any) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def names_and_labels(
    spec: Mixture, model: Model, data: Data, number: int | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Names of the components, and the components allowed for each row.

    Raises
    ------
    ModelError, DataError
        There are too few names, or a label is not the name of a component.
    """
    n = number or (max(spec.components) if isinstance(spec.components, list) else spec.components)
    n = spec.most if isinstance(n, str) else int(n)
    levels = data.labels.get(spec.labels, np.array([])) if spec.labels else np.array([])
    declared = model.dims.get("component")
    names = np.arange(1, n + 1)
    if isinstance(declared, list):
        if len(declared) < n or (number is None and len(declared) > n):
            raise ModelError(
                f"the dimension 'component' has {len(declared)} names for {n} components",
                path=("dims", "component"),
                code="wrong-length",
            )
        names = np.array([str(x) for x in declared[:n]])
    elif len(levels):
        if len(levels) > n:
            raise ModelError(
                f"column '{spec.labels}' has {len(levels)} labels for {n} components; use at least {len(levels)}",
                path=("model", "components"),
                code="wrong-length",
            )
        names = np.array([*(str(x) for x in levels), *(str(i) for i in range(len(levels) + 1, n + 1))])
    if not spec.labels or spec.label_noise or not data.has(spec.labels):
        return names, None
    codes = np.asarray(data.term(spec.labels, missing=True).codes)
    words = [str(x) for x in levels]
    unknown = [w for w in words if w not in names]
    if unknown:
        raise DataError(
            f"column '{spec.labels}': '{unknown[0]}' is not the name of a component{hint(unknown[0], names)}",
            code="unknown-level",
        )
    place = np.array([[str(x) for x in names].index(w) for w in words], dtype=int)
    allowed = np.ones((len(codes), len(names)), bool)
    labelled = codes >= 0
    allowed[labelled] = np.eye(len(names), dtype=bool)[place[codes[labelled]]]
    return names, allowed


def gate_inputs(
    spec: Mixture, data: Data, scales: tuple[np.ndarray, np.ndarray] | None
) -> tuple[np.ndarray | None, tuple[np.ndarray, np.ndarray] | None]:
    """The gate's inputs with a column of ones, standardised as in the fit, and the scaling.

    Raises
    ------
    DataError
        A column holds words or infinite numbers, or is constant.
    """
    if not spec.gating:
        return None, None
    columns = []
    for name in spec.gating:
        value = data.term(name, role="a predictor of the weights").value
        if value is None:
            raise DataError(
                f"column '{name}' holds words, and a predictor of the weights is a number: make numbers of it, one"
                " column of 0 and 1 for a level",
                code="not-numbers",
            )
        columns.append(np.asarray(value, float))
    x = np.column_stack(columns)
    if np.isinf(x).any():
        row, column = np.argwhere(np.isinf(x))[0]
        raise DataError(
            f"column '{spec.gating[column]}', row {row + 1}: {x[row, column]:g}; a predictor of the weights is a finite"
            " number",
            code="not-finite",
        )
    if scales is None:
        sd = x.std(axis=0)
        for name, spread in zip(spec.gating, sd, strict=True):
            if not spread > 0:
                raise DataError(
                    f"column '{name}' is constant: it cannot tell components apart; leave it out of gating",
                    code="constant",
                )
        scales = x.mean(axis=0), sd
    return np.column_stack([np.ones(len(x)), (x - scales[0]) / scales[1]]), scales


# --------------------------------------------------------------------------------- trials of binomial columns


def _check_given(spec: Mixture, data: Data, columns: tuple[str, ...], rows: np.ndarray) -> None:
    """Check the numbers of trials: integers, in every row of a fit, and in new rows where successes are given."""
    if isinstance(spec.trials, str):
        _check_trials(spec, data, columns, rows, (data.origin is None) | ~_open(spec, columns, rows))


def check_drawn(spec: Mixture, data: Data, columns: tuple[str, ...], rows: np.ndarray) -> None:
    """Numbers of trials where successes are drawn: in missing cells, or everywhere if none is missing."""
    if isinstance(spec.trials, str) and spec.words("binomial"):
        open_ = _open(spec, columns, rows)
        _check_trials(spec, data, columns, rows, open_ if open_.any() else ~open_)


def _open(spec: Mixture, columns: tuple[str, ...], rows: np.ndarray) -> np.ndarray:
    return np.isnan(rows[:, [columns.index(name) for name in spec.words("binomial")]]).any(axis=1)


def _check_trials(spec: Mixture, data: Data, columns: tuple[str, ...], rows: np.ndarray, needed: np.ndarray) -> None:
    name = str(spec.trials)
    if needed.any() and not data.has(name):
        raise DataError(
            f"the data have no column '{name}', the number of trials{hint(name, data.names())}", code="unknown-column"
        )
    check_trials(name, rows[:, columns.index(name)], needed=needed)
