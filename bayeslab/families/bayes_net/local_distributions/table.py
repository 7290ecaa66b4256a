"""Tables of a variable given its parents, with rows and entries that may be unknown."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.errors import ModelError, listed
from bayeslab.families.bayes_net.local_distributions.contract import Rows, Value
from bayeslab.families.bayes_net.local_distributions.place import Place
from bayeslab.families.bayes_net.local_distributions.scalars import check_names, constant, distribution_word, located
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import call_name

__all__ = ["Table", "concentration_of", "table_of"]


@dataclass(frozen=True, eq=False)
class Table:
    """A table: known rows, rows with a Dirichlet prior, and rows of expressions."""

    place: Place
    fixed: np.ndarray  # (rows, states); unknown rows hold zeros
    rows: Rows | None
    written: dict[int, tuple[str, ...]]  # row -> an expression for each state

    @property
    def unknown(self) -> Mapping[str, str]:
        return {}

    @property
    def known(self) -> np.ndarray | None:
        return None if self.rows is not None or self.written else self.fixed.reshape(self.place.shape)

    def table(self, value: Value, xp: Any) -> Any:
        if self.rows is not None and self.rows.whole:
            return xp.reshape(value(self.rows.name), self.place.shape)
        parts = [self.fixed[i] for i in range(len(self.fixed))]
        if self.rows is not None:
            drawn = value(self.rows.name)
            for k, i in enumerate(self.rows.index):
                parts[i] = drawn[k]
        for i, texts in self.written.items():
            parts[i] = _row_of(texts, value, xp)
        return xp.reshape(xp.stack(parts), self.place.shape)


def _row_of(texts: tuple[str, ...], value: Value, xp: Any) -> Any:
    if len(texts) == 1:
        first = value(texts[0])
        return xp.stack([first, 1 - first])
    return xp.stack([value(text) for text in texts])


def table_of(place: Place, declared: Any, pseudocount: Any) -> Table:
    """Read a table; without one all its rows are unknown.

    Raises
    ------
    ModelError
    """
    n_rows, n_states = int(np.prod(place.sizes, dtype=int)), len(place.variable_states)
    name = f"p_{place.variable}".replace("/", "_")
    if declared.table is None:
        return Table(
            place,
            np.broadcast_to(0.0, (n_rows, n_states)),
            Rows(name, np.arange(n_rows), pseudocount(n_rows, n_states), True),
            {},
        )
    fixed, drawn, written = np.zeros((n_rows, n_states)), dict[int, np.ndarray](), dict[int, tuple[str, ...]]()
    for i, (row, (given, path)) in enumerate(zip(place.rows(), place.by_row(declared.table, "table"), strict=True)):
        read = _read_row(place, row, given, path, n_states)
        if isinstance(read, tuple):
            written[i] = read
        elif isinstance(read, _Prior):
            drawn[i] = read.concentration
        else:
            fixed[i] = read
    rows = None
    if drawn:
        rows = Rows(name, np.array(list(drawn)), np.stack(list(drawn.values())), len(drawn) == n_rows)
    return Table(place, fixed, rows, written)


@dataclass(frozen=True)
class _Prior:
    concentration: np.ndarray


def _read_row(
    place: Place, row: tuple[str, ...], given: Any, path: tuple[Any, ...], n: int
) -> np.ndarray | _Prior | tuple[str, ...]:
    shown = f" given {', '.join(f'{p}={s}' for p, s in zip(place.parents, row, strict=True))}" if row else ""
    if isinstance(given, str):
        with located(place, path):
            if distribution_word(given):
                return _Prior(concentration_of(place, given, n))
        if n != 2:
            raise place.error(
                f"'{place.variable}' has {n} states: a row is a list of {n} entries", *path, code="wrong-length"
            )
        entry = _read_entry(place, given, path)
        return (entry,) if isinstance(entry, str) else np.array([entry, 1 - entry])
    if isinstance(given, Mapping):
        if set(given) != set(place.variable_states):
            raise place.error(
                f"the row{shown} of '{place.variable}' has entries for {listed(given)}, its states are"
                f" {', '.join(place.variable_states)}",
                *path,
                code="unknown-state",
            )
        given = [given[state] for state in place.variable_states]
    if isinstance(given, int | float) and n == 2:
        p = place.number(given, path)
        return np.array([p, 1 - p])
    if not isinstance(given, Sequence) or len(given) != n:
        raise place.error(
            f"a row of '{place.variable}'{shown} has {n} probabilities"
            f" (one for each of {', '.join(place.variable_states)})"
            + (", or one: that of the first state" if n == 2 else "")
            + f", not {given!r}",
            *path,
            code="wrong-length",
        )
    if any(isinstance(entry, str) for entry in given):
        entries = [_read_entry(place, entry, (*path, i)) for i, entry in enumerate(given)]
        if any(isinstance(entry, str) for entry in entries):
            return tuple(str(entry) for entry in entries)
        given = entries
    out = np.array([place.number(entry, path) for entry in given])
    if abs(out.sum() - 1) > 1e-3:
        raise place.error(
            f"the row{shown} of '{place.variable}' sums to {out.sum():g}, not to 1", *path, code="not-probabilities"
        )
    return out / out.sum() if abs(out.sum() - 1) > 4e-16 else out


def _read_entry(place: Place, given: Any, path: tuple[Any, ...]) -> float | str:
    """Read a number, or an expression of unknown parameters."""
    if not isinstance(given, str):
        return place.number(given, path)
    with located(place, path):
        expression = parse(given)
        check_names(expression, place.names)
        value = constant(expression, place.constants)
    return given if value is None else place.number(value, path)


def concentration_of(place: Place, text: str, n: int) -> np.ndarray:
    """Concentrations of a prior written as Dirichlet([a, b, c]), Dirichlet(a) or Beta(a, b), with numbers."""
    tree = parse(text).tree
    assert isinstance(tree, ast.Call)
    word = call_name(tree)
    try:
        values = [ast.literal_eval(argument) for argument in (*tree.args, *(k.value for k in tree.keywords))]
        numbers = np.asarray(values[0] if word == "Dirichlet" and len(values) == 1 else values, dtype=float)
    except (ValueError, IndexError, TypeError):
        raise ModelError(
            f"the prior '{text}' of a row has numbers inside; a prior with unknown parameters belongs in"
            f" 'parameters', and its name in the row",
            code="bad-prior",
        ) from None
    numbers = np.full(n, float(numbers)) if numbers.ndim == 0 else numbers
    if word not in ("Dirichlet", "Beta") or numbers.shape != (n,) or not np.all(numbers > 0):
        raise ModelError(
            f"'{text}' is not a prior of {n} probabilities: write Dirichlet([a, ...]) with {n} positive numbers"
            + (" or Beta(a, b)" if n == 2 else ""),
            code="bad-prior",
        )
    return numbers
