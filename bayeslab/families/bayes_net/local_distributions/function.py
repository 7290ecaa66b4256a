"""Functions of the parents: logical ones by name, a state for every row, or an expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bayeslab.errors import ModelError, hint
from bayeslab.families.bayes_net.local_distributions.place import Place, identifier
from bayeslab.families.bayes_net.local_distributions.scalars import located
from bayeslab.language.algebra import Term
from bayeslab.language.evaluator import Defined
from bayeslab.language.expressions import parse

__all__ = ["function_table"]

# Whether each parent is present in each row, shape (rows, parents).
_WORDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "or": lambda there: there.any(axis=1),
    "and": lambda there: there.all(axis=1),
    "xor": lambda there: there.sum(axis=1) % 2 == 1,
    "nor": lambda there: ~there.any(axis=1),
    "nand": lambda there: ~there.all(axis=1),
}


def function_table(place: Place, given: Any, absent: Mapping[str, str]) -> np.ndarray:
    """Table of zeros and ones, from a name (or, and, xor, nor, nand), a state for every row, or an expression."""
    if isinstance(given, str) and given.casefold() in _WORDS:
        codes: Any = _by_word(place, given.casefold(), absent)
    elif isinstance(given, str) and given not in place.variable_states:
        codes = _by_expression(place, given, absent)
    else:
        if not place.parents:
            raise place.error("a function needs parents", "function", code="incomplete")
        codes = [_state(place, state, path) for state, path in place.by_row(given, "function")]
    return np.eye(len(place.variable_states))[codes]


def _state(place: Place, given: Any, path: tuple[Any, ...]) -> int:
    word = ("true" if given else "false") if isinstance(given, bool) else str(given)
    if word not in place.variable_states:
        raise place.error(
            f"'{word}' is not a state of '{place.variable}'{hint(word, place.variable_states)}",
            *path,
            code="unknown-state",
        )
    return place.variable_states.index(word)


def _by_word(place: Place, word: str, absent: Mapping[str, str]) -> np.ndarray:
    if len(place.variable_states) != 2 or any(n != 2 for n in place.sizes):
        raise place.error(f"'{word}' is a function of variables with two states", "function", code="not-applicable")
    out = [place.absent(p, absent, needed=True) for p in place.parents]
    absent_state = place.absent(place.variable, absent, needed=True)
    there = place.configurations() != np.array(out, dtype=np.int32)
    return np.where(_WORDS[word](there), 1 - absent_state, absent_state)


def _by_expression(place: Place, text: str, absent: Mapping[str, str]) -> list[int]:
    """Evaluate an expression for each row: two-state variables are truth values, numeric states are numbers."""
    codes = place.configurations()
    columns = {identifier(p): (p, codes[:, k]) for k, p in enumerate(place.parents)}
    labels = {identifier(p): np.array(place.states[p]) for p in place.parents}

    def lookup(name: str) -> Term:
        if name not in columns:
            raise ModelError(
                f"'{name}' is not a parent of '{place.variable}'{hint(name, place.parents)}", code="unknown-variable"
            )
        parent, column = columns[name]
        return Term(_numbers(place.states[parent], column), ("row",), column, name, column=name)

    with located(place, ("function",)):
        result = Defined(lookup, labels | {"row": np.arange(len(codes))}).term(parse(text))
        if result.value is None and result.column is not None:  # the states of a parent
            words = labels[result.column][result.codes]
            return [_state(place, word, ("function",)) for word in words.tolist()]
        values = np.broadcast_to(np.asarray(result.value), len(codes))
    if np.isnan(values).any():
        row = codes[int(np.argmax(np.isnan(values)))]
        states = ", ".join(f"{p} = {place.states[p][code]}" for p, code in zip(place.parents, row, strict=True))
        raise place.error(
            f"'{text}' has no value for {states}: a division by zero, or a function outside its domain",
            "function",
            code="not-finite",
        )
    names = {_number(state): s for s, state in enumerate(place.variable_states)}
    if None not in names:
        lacking = [v for v in values.tolist() if float(v) not in names]
        if lacking:
            raise place.error(
                f"'{text}' gives {lacking[0]:g}, which is not a state of '{place.variable}'"
                f"{hint(lacking[0], place.variable_states)}",
                "function",
                code="unknown-state",
            )
        return [names[float(v)] for v in values.tolist()]
    if len(place.variable_states) != 2 or not set(np.unique(values).tolist()) <= {0, 1}:
        raise place.error(
            "an expression gives a truth value for a variable of two states, or a number that is the name of a state",
            "function",
            code="not-applicable",
        )
    absent_state = place.absent(place.variable, absent, needed=True)
    return [1 - absent_state if v else absent_state for v in values.tolist()]


def _number(state: str) -> float | None:
    try:
        return float(state)
    except ValueError:
        return None


def _numbers(states: tuple[str, ...], codes: np.ndarray) -> np.ndarray | None:
    values = [_number(state) for state in states]
    return None if None in values else np.array(values, dtype=float)[codes]
