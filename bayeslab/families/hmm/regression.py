"""Regression emissions in a model file: inputs, known parameters, and the design matrix on the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.rows import read_columns
from bayeslab.data.sequences import Sequences, sequences_of, spread
from bayeslab.distributions.emissions import Regression
from bayeslab.errors import DataError, ModelError, unknown_parameter
from bayeslab.families.hmm.given_parameters import check_together, numbers_of_shape
from bayeslab.families.hmm.spec import HMM
from bayeslab.posterior.observed.regression import RegressionPart, Standardised

__all__ = ["expert_of", "inputs_of", "known_regression"]

_OUTCOMES = ("gaussian", "bernoulli", "poisson")


def inputs_of(spec: HMM) -> tuple[str, ...]:
    """Names of the inputs of the outcome."""
    return (*spec.inputs, *(f"{spec.columns[0]}_{lag}_before" for lag in range(1, spec.window + 1)))


def known_regression(spec: HMM, n_states: int, given: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Known regression coefficients of the states, as numbers.

    Raises
    ------
    ModelError
        A name or shape is wrong, or an intercept is given without slopes.
    """
    n = len(spec.inputs) + spec.window
    shapes: dict[str, tuple[int, ...]] = {"intercept": (n_states,), "slope": (n_states, n)}
    if spec.emission == "gaussian":
        shapes["sd"] = (n_states,)
    out = {}
    for name, value in given.items():
        path = ("model", "parameters", name)
        if name not in shapes:
            raise unknown_parameter(name, shapes)
        out[name] = numbers_of_shape(
            value, shapes[name], path, "lines of states have the default priors", positive=name == "sd"
        )
    check_together(out.keys() - {"sd"}, ("intercept", "slope"), "intercept and slope")
    return out


def expert_of(
    spec: HMM, data: Data, sequences: Sequences, n_states: int, given: Mapping[str, Any]
) -> tuple[RegressionPart, np.ndarray]:
    """Build the part, and the rows (n_times, outcome, ones, inputs).

    Raises
    ------
    ModelError, DataError
        The emission has no regression form; inputs are missing; or an input is constant.
    """
    if not isinstance(spec.emission, str) or spec.emission not in _OUTCOMES or len(spec.columns) != 1:
        raise ModelError(
            f"with inputs or a window there is one column, {', '.join(_OUTCOMES)}",
            path=("model", "emission"),
            code="unsupported",
        )
    known = known_regression(spec, n_states, given)
    rows = _design(spec, data, sequences)
    base = rows if data.origin is None else _design(spec, data.origin, _sequences(spec, data.origin))
    usable = base[~np.isnan(base).any(axis=1)]
    normal = spec.emission == "gaussian"
    at = (*range(1, rows.shape[1]), 0)
    centre, scale, sd = np.zeros(len(at)), np.ones(len(at)), 1.0
    # If all parameters are given nothing is estimated, and any series will do.
    if len(known) < (3 if normal else 2):
        _check_estimable(spec, usable, n_states)
        columns = usable[:, list(at)]
        scaled = slice(1, None if normal else -1)
        centre[scaled], scale[scaled] = columns[:, scaled].mean(axis=0), columns[:, scaled].std(axis=0)
        sd = columns[:, -1].std()
    kind = cast(Literal["gaussian", "bernoulli", "poisson"], spec.emission)
    inner = Regression(len(at) - 1, kind, 0.01 if normal else 0.1, 1.0)
    emission = Standardised(inner, centre, scale)
    part = RegressionPart(
        word=spec.emission, columns=(spec.columns[0],), inputs=inputs_of(spec), at=at, n_states=n_states,
        emission=emission, known=known, centre=centre[1:-1], scale=scale[1:-1], middle=centre[-1],
        outcome_unit=scale[-1],
    )  # fmt: skip
    ready = rows.copy()
    # A row without its inputs carries no information.
    ready[np.isnan(rows[:, 1:]).any(axis=1), 0] = np.nan
    ready[:, 1:] = np.where(np.isnan(rows[:, 1:]), 0.0, rows[:, 1:])
    part.emission.check(ready[:, list(at)])
    return replace(part, spread=np.array([sd])), ready


def _check_estimable(spec: HMM, usable: np.ndarray, n_states: int) -> None:
    """Check that there are enough rows for a regression in each state, and that no input is constant."""
    if len(usable) < n_states * usable.shape[1]:
        raise DataError(
            f"{len(usable)} rows with inputs and outcome cannot support {n_states} regressions on"
            f" {usable.shape[1] - 2} inputs",
            code="too-few",
        )
    for j, name in enumerate(inputs_of(spec), 2):
        if np.ptp(usable[:, j]) == 0:
            raise DataError(f"input '{name}' is constant; leave it out", code="constant")
    if spec.emission == "gaussian" and np.ptp(usable[:, 0]) == 0:
        raise DataError(f"column '{spec.columns[0]}' is constant ({usable[0, 0]:g}): leave it out", code="constant")


def _sequences(spec: HMM, data: Data) -> Sequences:
    return sequences_of(data, spec.sequence, spec.time)


def _design(spec: HMM, data: Data, sequences: Sequences) -> np.ndarray:
    """Outcome, ones, inputs and past values, (n_times, 2 + n_inputs)."""
    outcome = spread(sequences, read_columns(data, spec.columns))
    given = read_columns(data, spec.inputs)
    for j, name in enumerate(spec.inputs):
        if not data.has(name):
            raise DataError(f"the data have no column '{name}', an input", code="unknown-column")
        lost = np.flatnonzero(np.isnan(given[:, j]))
        if len(lost):
            raise DataError(
                f"input '{name}', row {int(lost[0]) + 1}: the cell is missing; only outcomes may be", code="missing"
            )
    inputs = spread(sequences, given)
    age = np.arange(sequences.n_times) - np.repeat(sequences.offsets[:-1], np.diff(sequences.offsets))
    past = []
    for lag in range(1, spec.window + 1):
        lagged = np.full(sequences.n_times, np.nan)
        lagged[lag:] = outcome[:-lag, 0]
        lagged[age < lag] = np.nan
        past.append(lagged)
    return np.column_stack([outcome, np.ones(sequences.n_times), inputs, *past])
