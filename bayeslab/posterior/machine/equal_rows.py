"""Rows of data that have equal parameters: one density of their sums, instead of one density for each row.

The parameters of two rows are equal if they are computed in the same way from equal predictors and from the same group.
For normal, Bernoulli, binomial, Poisson and negative binomial rows, the likelihood of such a set depends on the data
through sums only (Bernardo and Smith 2000, section 4.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayeslab.posterior.machine.arrays import Recorder, Var
from bayeslab.posterior.machine.numpy_densities import log_choose
from bayeslab.posterior.machine.operations import ELEMENTWISE

__all__ = ["at_rows", "grouped", "written_out"]

# Fewer rows than this are left as they are, and so are rows in sets of fewer than two on average.
_LEAST = 16


def grouped(builder: Recorder, name: str, args: list[Var]) -> tuple[str, list[Var]]:
    """A density of rows as a density of sets of rows with equal parameters.

    The sum over sets differs from the sum over rows by a constant, which is added to the builder's offset.

    Parameters
    ----------
    name
        The distribution, its form or its core.
    args
        The data and the parameters.

    Returns
    -------
    tuple of str and list of Var
        The density to add; the given one if nothing is gained, or the distribution has no such sums.
    """
    data = _DATA.get(name)
    if data is None or builder.repeating or any(arg.summed for arg in args):
        return name, args
    shape = np.broadcast_shapes(*(arg.shape for arg in args))
    if len(shape) != 1 or shape[0] < _LEAST or not all(arg.constant for arg in args[:data]):
        return name, args
    given = [np.broadcast_to(arg.value.astype(np.float64), shape) for arg in args[:data]]
    if not all(_whole(name, values) for values in given):
        return name, args
    parameters = [arg.broadcast_to(shape) for arg in args[data:]]
    columns = [column for var in parameters for column in _columns(var) or [None]]
    if any(column is None for column in columns):
        return name, args
    sets = _sets([column for column in columns if column is not None], shape[0])
    if sets is None:
        return name, args
    made = [at_rows(builder, var, sets.first) for var in parameters]
    return _of_sums(builder, name, given, made, sets)


# Distributions with sums, and how many of their first arguments are data.
_DATA = {
    "normal": 1,
    "bernoulli": 1,
    "bernoulli.logit": 1,
    "binomial": 2,
    "binomial.logit_core": 2,
    "poisson.core": 1,
    "poisson.log_core": 1,
    "negative_binomial.core": 1,
    "negative_binomial.log_core": 1,
}


def _whole(name: str, values: np.ndarray) -> bool:
    """Whether the values are in the distribution's support."""
    if name == "normal":
        return bool(np.isfinite(values).all())
    largest = 1.0 if name.startswith("bernoulli") else np.inf
    return bool(((values >= 0) & (values <= largest) & (values % 1 == 0)).all())


def _columns(var: Var) -> list[np.ndarray | None]:
    """Arrays that determine the value in each row, None among them where the rows cannot be compared."""
    if not any(var.strides):
        return [np.zeros(1)]
    if var.constant:
        return [var.value]
    made = written_out(var).made
    if made is None:
        return [None]
    if made.op == "gather":
        return [made.options["index"]]
    if made.op == "matmul" and made.inputs[0].constant:
        return [*made.inputs[0].value.T]
    if made.op in ELEMENTWISE:
        return [column for each in made.inputs for column in _columns(each)]
    return [None]


@dataclass(frozen=True, eq=False)
class _Sets:
    """The set of each row, the first row of each set, and the number of its rows."""

    of_row: np.ndarray
    first: np.ndarray
    count: np.ndarray

    def sums(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self.of_row, values, len(self.first))


def _sets(columns: Sequence[np.ndarray], n: int) -> _Sets | None:
    """The sets of rows that are equal in all columns; None if they hold fewer than two rows on average."""
    codes = np.zeros(n, dtype=np.int64)
    count = 1
    for column in columns:
        if column.size == 1:
            continue
        values, code = np.unique(column, return_inverse=True)
        codes = codes * len(values) + code.reshape(-1)
        distinct, codes = np.unique(codes, return_inverse=True)
        count = len(distinct)
        if 2 * count > n:
            return None
    first = np.full(count, n)
    np.minimum.at(first, codes, np.arange(n))
    return _Sets(codes, first, np.bincount(codes, minlength=count).astype(np.float64))


def at_rows(builder: Recorder, var: Var, rows: np.ndarray) -> Var:
    """The same array at some rows, computed for these rows alone where that is possible.

    Parameters
    ----------
    var
        An array of one axis.
    rows
        Positions; one that repeats a single number gives that number.
    """
    if not any(var.strides):
        return var[0]
    if var.constant:
        return builder.constant(var.value[rows])
    made = written_out(var).made
    if made is not None and made.op == "gather" and var.ndim == made.options["index"].ndim:
        return made.inputs[0][made.options["index"][rows]]
    if made is not None and made.op == "matmul" and made.inputs[0].constant:
        design, coefficients = made.inputs
        return builder.matmul(design.value[rows], coefficients[:, 0])
    if made is not None and made.op in ELEMENTWISE:
        return builder.elementwise(made.op, *(at_rows(builder, each, rows) for each in made.inputs))
    return var[rows]


def written_out(var: Var) -> Var:
    """A slice of a computed array as what is computed from slices."""
    made = var.buffer.made
    if var.made is not None or var.ndim != 1 or made is None or made.output is None or var.size == made.output.size:
        return var
    whole = made.output
    if whole.ndim == 2 and whole.shape[1] == 1 and made.op == "matmul":
        whole = whole[:, 0]
        whole.made = made
    if whole.ndim != 1 or whole.strides != (1,):
        return var
    return at_rows(var.builder, whole, var.offset - whole.offset + var.strides[0] * np.arange(var.size))


def _of_sums(
    builder: Recorder, name: str, data: Sequence[np.ndarray], parameters: list[Var], sets: _Sets
) -> tuple[str, list[Var]]:
    n = builder.constant(sets.count)
    total = sets.sums(data[0])
    if name == "normal":
        mean = total / sets.count
        # In two steps, since the mean of large numbers is rounded.
        mean = mean + sets.sums(data[0] - mean[sets.of_row]) / sets.count
        squares = sets.sums((data[0] - mean[sets.of_row]) ** 2)
        return "normal.sums", [builder.constant(mean), n, builder.constant(squares), *parameters]
    k = builder.constant(total)
    match name:
        case "bernoulli.logit":
            return "binomial.logit_core", [k, n, *parameters]
        case "binomial.logit_core":
            return name, [k, builder.constant(sets.sums(data[1])), *parameters]
        case "bernoulli":
            builder.offset -= float(np.sum(log_choose(sets.count, total)))
            return "binomial", [k, n, *parameters]
        case "binomial":
            trials = sets.sums(data[1])
            builder.offset += float(np.sum(log_choose(data[1], data[0])) - np.sum(log_choose(trials, total)))
            return name, [k, builder.constant(trials), *parameters]
    rate, *others = parameters
    if name.startswith("poisson"):
        builder.offset -= float(total @ np.log(sets.count))
    rate = rate + np.log(sets.count) if name.endswith(".log_core") else rate * n
    return name, [k, rate, *(other * n for other in others)]
