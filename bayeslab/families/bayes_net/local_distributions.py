"""Local distributions of discrete variables: the table given the parents, as a function of the parameters.

Each kind lists its unknown numbers (:attr:`Local.unknown`, and rows of tables with a Dirichlet prior) and computes the
table P(variable | parents), shape (states of parent 1, ..., states of the variable), with either NumPy or PyTensor.

References
----------
.. [1] Pearl (1988). Probabilistic Reasoning in Intelligent Systems, section 4.3.2 (noisy-OR).
.. [2] Diez (1993). Parameter adjustment in Bayes networks: the generalized noisy OR-gate. UAI 9, 99-105 (noisy-MAX).
.. [3] Gelman, Jakulin, Pittau, Su (2008). A weakly informative default prior distribution for logistic and other
   regression models. Annals of Applied Statistics 2, 1360-1383.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Protocol

import numpy as np

from bayeslab.distributions import DISTRIBUTIONS
from bayeslab.errors import ModelError, hint, listed
from bayeslab.language.algebra import Term
from bayeslab.language.evaluator import Evaluator
from bayeslab.language.expressions import Expression, parse
from bayeslab.language.functions import FUNCTIONS
from bayeslab.language.nodes import call_name
from bayeslab.memory import require_memory

__all__ = ["Local", "Place", "Rows", "constant", "identifier", "local"]

# Names of states that mean "absent", for noisy-OR and noisy-MAX; compared without case.
_ABSENT = frozenset(("no", "false", "absent", "off", "none", "0", "n", "f", "negative", "healthy", "normal"))
_LINK_PRIOR = "Beta(1, 1)"
_WEIGHT_PRIOR = "Normal(0, 2.5)"  # [3]: on the logit scale changes of 5 are large

type Value = Callable[[str], Any]
type States = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Rows:
    """Rows of a table with a Dirichlet prior.

    Attributes
    ----------
    name : str
        The posterior's name of these rows.
    index : ndarray of int
        Which rows of the table, shape (n_rows,).
    concentration : ndarray
        Shape (n_rows, n_states).
    whole : bool
        Whether these are all the rows of the table.
    """

    name: str
    index: np.ndarray
    concentration: np.ndarray
    whole: bool


class Local(Protocol):
    """A local distribution.

    Attributes
    ----------
    unknown : mapping of str to str
        The prior of each unknown number, as an expression of the family ``graph``.
    rows : Rows or None
        Unknown rows.
    known : ndarray or None
        The table, if nothing in it is unknown.
    """

    @property
    def unknown(self) -> Mapping[str, str]: ...
    @property
    def rows(self) -> Rows | None: ...
    @property
    def known(self) -> np.ndarray | None: ...
    def table(self, value: Value, xp: Any) -> Any:
        """The table, computed from the value of each unknown; ``xp`` is NumPy or ``pytensor.tensor``."""
        ...


def local(
    variable: str,
    declared: Any,
    states: States,
    names: frozenset[str],
    pseudocount: Any,
    constants: Mapping[str, float] | None = None,
) -> Local:
    """Read the local distribution that a file declares.

    Parameters
    ----------
    declared
        The spec of the variable.
    names
        Names of parameters that expressions may use.
    pseudocount
        ``pseudocount(n_rows, n_states)``: the prior of rows that are unknown.
    constants
        Values of the parameters that are known.
    """
    place = Place(variable, states[variable], tuple(declared.parents), states, names, constants=constants or {})
    _require_memory(place, declared)
    if declared.noisy_or is not None:
        return _noisy_or(place, declared)
    if declared.noisy_max is not None:
        return _noisy_max(place, declared)
    if declared.logit is not None:
        return _softmax(place, declared.logit, declared.absent)
    if declared.function is not None:
        return Table(place, _function(place, declared.function, declared.absent), None, {})
    return _table(place, declared, pseudocount)


def _require_memory(place: Place, declared: Any) -> None:
    """Refuse a table that does not fit in memory before any of it is built: every form needs one row per combination.

    A row takes its probabilities, with their prior, counts and posterior; where a form is worked out row by row, the
    parents' states and an indicator of every cause or weight as well.
    """
    row = 4 * 8 * len(place.variable_states)
    if declared.noisy_or is not None or declared.noisy_max is not None or declared.logit is not None:
        row += 4 * len(place.parents) + 8 * (1 + sum(n - 1 for n in place.sizes))
    elif isinstance(declared.function, str):
        row += 4 * len(place.parents) + 8
    place.require_memory(row, _fewer_parents(declared))


def _fewer_parents(declared: Any) -> str:
    """The advice for too many parents: an OR of ORs, or a maximum of maxima, is the same distribution."""
    if declared.noisy_or is not None:
        between = "noisy_or, and it has these as parents with strength 1"
    elif declared.noisy_max is not None:
        between = "noisy_max, and it has these as parents whose states have themselves as their effects"
    elif isinstance(declared.function, str) and declared.function.casefold() in ("or", "and", "xor"):
        between = f"'{declared.function.casefold()}', and it has these as parents by the same function"
    else:
        return "give it fewer parents"
    return (
        f"give it fewer parents; it is the same distribution if variables between take some of them each by {between}"
    )


def identifier(name: str) -> str:
    """Convert a name to an identifier that expressions can hold."""
    word = re.sub(r"\W", "_", name)
    return word if word[:1].isalpha() or word[:1] == "_" else f"_{word}"


@dataclass(frozen=True)
class Place:
    """A variable and its parents, with the reader of what a file declares for them."""

    variable: str
    variable_states: tuple[str, ...]
    parents: tuple[str, ...]
    states: States
    names: frozenset[str]
    path: tuple[str, ...] = ("model", "variables")
    constants: Mapping[str, float] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(self.states[p]) for p in self.parents)

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.sizes, len(self.variable_states))

    def require_memory(self, row: int, remedy: str = "give it fewer parents") -> None:
        """Refuse a table whose rows, of this many bytes each, do not fit in memory."""
        require_memory(
            row * math.prod(self.sizes),
            f"the table of '{self.variable}' with its {len(self.parents)} parents",
            remedy,
            kind=ModelError,
            path=(*self.path, self.variable, "parents"),
        )

    def rows(self) -> list[tuple[str, ...]]:
        """Every combination of the parents' states, the last parent fastest."""
        return list(product(*(self.states[p] for p in self.parents)))

    def error(self, message: str, *path: Any, code: str) -> ModelError:
        return ModelError(message, path=(*self.path, self.variable, *path), code=code)

    def configurations(self) -> np.ndarray:
        """State numbers of the parents in every row, shape (rows, parents)."""
        rows = math.prod(self.sizes)
        out, repeats = np.empty((len(self.parents), rows), dtype=np.int32), rows
        for k, n in enumerate(self.sizes):
            repeats //= n
            out[k] = np.resize(np.repeat(np.arange(n, dtype=np.int32), repeats), rows)
        return out.T

    def by_row(self, given: Any, *path: Any) -> list[tuple[Any, tuple[Any, ...]]]:
        """Read a value for every row, with its path in the file: nested lists in order, or mappings from states.

        Lists and mappings may be nested in each other; the key ``default`` gives the value of all remaining rows.
        """
        self.require_memory(2 * (56 + 8 * len(self.parents)))  # a tuple for each row, twice
        entries: dict[tuple[str, ...], Any] = {}
        defaults: dict[tuple[str, ...], Any] = {}
        self._collect(given, (), path, entries, defaults)
        out = []
        for row in self.rows():
            covering = [row[:k] for k in range(len(row), -1, -1) if row[:k] in defaults]
            if row not in entries and not covering:
                raise self.error(
                    f"the row '{', '.join(row)}' ({', '.join(self.parents)}) of '{self.variable}' is missing;"
                    f" a row 'default' stands for all that are not there",
                    *path,
                    code="incomplete",
                )
            out.append(entries[row] if row in entries else defaults[covering[0]])
        return out

    def _collect(
        self, given: Any, before: tuple[str, ...], path: tuple[Any, ...],
        entries: dict[Any, Any], defaults: dict[Any, Any],
    ) -> None:  # fmt: skip
        """Collect the rows of a value below the parents' states in ``before``."""
        if len(before) == len(self.parents):
            if before in entries:
                raise self.error(f"the row '{', '.join(before)}' is there twice", *path, code="duplicate")
            entries[before] = (given, path)
            return
        parent = self.parents[len(before)]
        states = self.states[parent]
        if isinstance(given, Mapping):
            for words, value in given.items():
                if words == "default" and "default" not in states:
                    defaults[before] = (value, (*path, words))
                else:
                    row = (*before, *self._row(str(words), len(before), path))
                    self._collect(value, row, (*path, words), entries, defaults)
        elif isinstance(given, Sequence) and not isinstance(given, str) and len(given) == len(states):
            for i, (state, value) in enumerate(zip(states, given, strict=True)):
                self._collect(value, (*before, state), (*path, i), entries, defaults)
        elif before:
            raise self.error(
                f"'{', '.join(before)}' names {len(before)} of the {len(self.parents)} parents of '{self.variable}'"
                f" ({', '.join(self.parents)}); inside it there is an entry for each of the {len(states)} states of"
                f" '{parent}'",
                *path,
                code="wrong-length",
            )
        else:
            raise self.error(
                f"the rows of '{self.variable}' are {len(states)} entries for the states of '{parent}'"
                f" ({', '.join(states)}), as a list or by name, such as '{', '.join(self.rows()[0])}: ...'",
                *path,
                code="wrong-length",
            )

    def _row(self, words: str, at: int, path: tuple[Any, ...]) -> tuple[str, ...]:
        """Read the states in a key: one, or several separated by commas."""
        match = self._match(words, at)
        if match:
            return match
        parts = tuple(part.strip() for part in words.split(","))
        if at + len(parts) > len(self.parents):
            raise self.error(
                f"'{words}' names more states than '{self.variable}' has parents", *path, words, code="wrong-length"
            )
        parent, state = next((p, s) for p, s in zip(self.parents[at:], parts, strict=False) if s not in self.states[p])
        raise self.error(
            f"'{state}' is not a state of '{parent}'{hint(state, self.states[parent])}",
            *path,
            words,
            code="unknown-state",
        )

    def _match(self, words: str, at: int) -> tuple[str, ...]:
        """Read the states of successive parents from a text; names of states may themselves contain commas."""
        states = self.states[self.parents[at]] if at < len(self.parents) else ()
        if words in states:
            return (words,)
        for state in states:
            rest = words.removeprefix(state).lstrip()
            if words.startswith(state) and rest.startswith(","):
                match = self._match(rest[1:].strip(), at + 1)
                if match:
                    return (state, *match)
        return ()

    def absent(self, variable: str, declared: Mapping[str, str], *, needed: bool) -> int:
        """Position of the state that means "absent"."""
        for word in declared:
            if word not in (*self.parents, self.variable):
                raise self.error(
                    f"'{word}' is neither '{self.variable}' nor one of its parents"
                    f"{hint(word, (*self.parents, self.variable))}",
                    "absent",
                    word,
                    code="unknown-variable",
                )
        states = self.states[variable]
        if variable in declared:
            if declared[variable] not in states:
                raise self.error(
                    f"'{declared[variable]}' is not a state of '{variable}'{hint(declared[variable], states)}",
                    "absent",
                    variable,
                    code="unknown-state",
                )
            return states.index(declared[variable])
        candidates = [i for i, state in enumerate(states) if state.casefold() in _ABSENT]
        if len(candidates) == 1:
            return candidates[0]
        if needed:
            raise self.error(
                f"which state of '{variable}' ({', '.join(states)}) means that it is not there?"
                f" Say so: absent: {{{variable}: {states[-1]}}}",
                code="incomplete",
            )
        return len(states) - 1

    def number(self, given: Any, path: tuple[Any, ...], low: float = 0.0, high: float = 1.0) -> float:
        fits = isinstance(given, int | float) and not isinstance(given, bool) and low <= given <= high
        if not fits or not np.isfinite(given):
            below, above = np.isfinite(low), np.isfinite(high)
            bounds = f"between {low:g} and {high:g}" if below and above else f"≥ {low:g}" if below else "that is finite"
            raise self.error(f"{given!r} is not a number {bounds}", *path, code="out-of-range")
        return float(given)


def _distribution(text: str) -> str | None:
    """The name of the distribution that a text calls; None if it calls none."""
    word = call_name(parse(text).tree)
    return word if word in DISTRIBUTIONS else None


def check_names(expression: Expression, known: frozenset[str]) -> None:
    """Check that every name in an expression is a parameter and every call a function."""
    odd = sorted(expression.names - known)
    if odd:
        raise ModelError(f"'{odd[0]}' is not one of the parameters{hint(odd[0], known)}", code="unknown-parameter")
    odd = sorted(expression.calls - FUNCTIONS.keys())
    if odd:
        near = hint(odd[0], FUNCTIONS.keys() | DISTRIBUTIONS.keys())
        raise ModelError(
            f"'{odd[0]}' is neither a function nor a distribution{near if 'did you mean' in near else ''}"
            if odd[0] not in DISTRIBUTIONS
            else f"'{odd[0]}' is a distribution inside an expression: give it a name in 'parameters'",
            code="misplaced" if odd[0] in DISTRIBUTIONS else "unknown-function",
        )


def constant(expression: Expression, known: Mapping[str, float]) -> float | None:
    """The value of an expression of numbers and known parameters; None if it has other names."""
    if not expression.names <= known.keys():
        return None
    value = Evaluator(lambda name: Term(np.asarray(known[name])), {}).term(expression).value
    if np.ndim(value) != 0:
        raise ModelError(f"'{expression.text}' is not one number", code="not-a-number")
    return float(np.asarray(value))


@dataclass(frozen=True)
class Scalars:
    """The numbers of one local distribution: known, expressions of parameters, or unknown with a prior."""

    place: Place
    known: dict[str, float] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, given: Any, prior: str, path: tuple[Any, ...], low: float, high: float) -> None:
        """Add a number declared as a number, a distribution, an expression or nothing."""
        name = identifier(name)
        if name in self.known or name in self.written or name in self.unknown:
            raise self.place.error(
                f"results would call two of its numbers '{name}'; rename a parent", *path, code="name-clash"
            )
        if given is None:
            self.unknown[name] = prior
        elif not isinstance(given, str):
            self.known[name] = self.place.number(given, path, low, high)
        else:
            with _located(self.place, path):
                if _distribution(given):
                    self.unknown[name] = given
                    return
                expression = parse(given)
                check_names(expression, self.place.names)
                value = constant(expression, self.place.constants)
            if value is None:
                self.written[name] = given
            else:
                self.known[name] = self.place.number(value, path, low, high)

    def value(self, name: str, value: Value) -> Any:
        name = identifier(name)
        return self.known[name] if name in self.known else value(self.written.get(name, name))


class _located:
    """Context that gives errors of expressions the place of the expression in the file."""

    def __init__(self, place: Place, path: tuple[Any, ...]) -> None:
        self.place, self.path = place, path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, ModelError) and not error.path:
            raise ModelError(
                error.message,
                path=("model", "variables", self.place.variable, *self.path),
                offset=error.offset,
                code=error.code,
            ) from None


# --------------------------------------------------------------------------------- tables


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


def _table(place: Place, declared: Any, pseudocount: Any) -> Table:
    n_rows, n_states = int(np.prod(place.sizes, dtype=int)), len(place.variable_states)
    name = f"p_{place.variable}".replace("/", "_")
    if declared.table is None:
        return Table(
            place,
            np.zeros((n_rows, n_states)),
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
        with _located(place, path):
            if _distribution(given):
                return _Prior(_concentration(place, given, n))
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
    with _located(place, path):
        expression = parse(given)
        check_names(expression, place.names)
        value = constant(expression, place.constants)
    return given if value is None else place.number(value, path)


def _concentration(place: Place, text: str, n: int) -> np.ndarray:
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
            f"'{text}' is no prior of {n} probabilities: write Dirichlet([a, ...]) with {n} positive numbers"
            + (" or Beta(a, b)" if n == 2 else ""),
            code="bad-prior",
        )
    return numbers


# --------------------------------------------------------------------------------- noisy-OR, noisy-MAX


@dataclass(frozen=True, eq=False)
class NoisyMax:
    """Noisy-OR or noisy-MAX: present causes act independently, and the variable takes the strongest effect.

    P(X ≤ x | u) is the product over the causes of P(effect of cause ≤ x), with the states ordered
    from "absent" upwards.
    """

    place: Place
    order: np.ndarray  # states from "absent" upwards
    effects: tuple[tuple[np.ndarray, Any], ...]  # (rows in which the cause is present, its effect)
    scalars: Scalars
    rows: Rows | None

    @property
    def unknown(self) -> Mapping[str, str]:
        return self.scalars.unknown

    @property
    def known(self) -> np.ndarray | None:
        if self.unknown or self.scalars.written or self.rows is not None:
            return None
        table: np.ndarray = self.table(lambda name: self.scalars.known[name], np)
        return table

    def table(self, value: Value, xp: Any) -> Any:
        total: Any = 1.0
        for there, effect in self.effects:
            below = self._below(effect, value, xp)
            total = total * (there[:, None] * below[None, :] + (1.0 - there[:, None]))
        first = total[:, :1]
        table = xp.concatenate([first, total[:, 1:] - total[:, :-1]], axis=1)
        back = np.argsort(self.order)
        return xp.reshape(table[:, back], self.place.shape)

    def _below(self, effect: Any, value: Value, xp: Any) -> Any:
        """P(effect ≤ x) for each state x in increasing order."""
        if isinstance(effect, str):
            strength = self.scalars.value(effect, value)
            return xp.stack([1.0 - strength, 1.0 + 0.0 * strength])
        if isinstance(effect, int):
            assert self.rows is not None
            return xp.cumsum(value(self.rows.name)[effect])
        return np.cumsum(effect)


def _noisy_or(place: Place, declared: Any) -> NoisyMax:
    absent = {v: place.absent(v, declared.absent, needed=True) for v in (*place.parents, place.variable)}
    for v in (*place.parents, place.variable):
        if len(place.states[v]) != 2:
            raise place.error(
                f"noisy_or is for variables of two states; '{v}' has {len(place.states[v])}: noisy_max",
                code="not-applicable",
            )
    scalars, effects = Scalars(place), list[tuple[np.ndarray, Any]]()
    configurations = place.configurations()
    for given in declared.noisy_or:
        if given != "leak" and given not in place.parents:
            raise place.error(
                f"'{given}' is not a parent of '{place.variable}'{hint(given, place.parents)}",
                "noisy_or",
                given,
                code="unknown-variable",
            )
    for k, parent in enumerate(place.parents):
        name = f"strength_{place.variable}_{parent}"
        scalars.add(name, declared.noisy_or.get(parent), _LINK_PRIOR, ("noisy_or", parent), 0.0, 1.0)
        effects.append(((configurations[:, k] != absent[parent]).astype(float), name))
    if "leak" in declared.noisy_or:
        name = f"leak_{place.variable}"
        scalars.add(name, declared.noisy_or["leak"], _LINK_PRIOR, ("noisy_or", "leak"), 0.0, 1.0)
        effects.append((np.ones(len(configurations)), name))
    if not effects:
        effects.append((np.ones(len(configurations)), np.array([1.0, 0.0])))
    order = np.array([absent[place.variable], 1 - absent[place.variable]])
    return NoisyMax(place, order, tuple(effects), scalars, None)


def _noisy_max(place: Place, declared: Any) -> NoisyMax:
    absent = {v: place.absent(v, declared.absent, needed=True) for v in (*place.parents, place.variable)}
    last = len(place.variable_states) - 1
    if absent[place.variable] not in (0, last):
        raise place.error(
            f"the state of '{place.variable}' that means 'not there' comes first or last", code="not-allowed"
        )
    order = np.arange(last + 1) if absent[place.variable] == 0 else np.arange(last, -1, -1)
    configurations = place.configurations()
    effects: list[tuple[np.ndarray, Any]] = []
    drawn: list[np.ndarray] = []
    causes = [
        (parent, k, s, state)
        for k, parent in enumerate(place.parents)
        for s, state in enumerate(place.states[parent])
        if s != absent[parent]
    ]
    for given in declared.noisy_max:
        if given != "leak" and given not in place.parents:
            raise place.error(
                f"'{given}' is not a parent of '{place.variable}'{hint(given, place.parents)}",
                "noisy_max",
                given,
                code="unknown-variable",
            )
    for parent, k, s, state in causes:
        written = declared.noisy_max.get(parent)
        outcomes = set(place.variable_states)
        one_effect = isinstance(written, Mapping) and set(written) == outcomes != set(place.states[parent])
        if isinstance(written, Mapping) and not one_effect:
            for word in written:
                if word not in place.states[parent] or place.states[parent].index(word) == absent[parent]:
                    raise place.error(
                        f"'{word}' is not a state of '{parent}' that can cause anything"
                        f"{hint(word, place.states[parent])}",
                        "noisy_max",
                        parent,
                        word,
                        code="unknown-state",
                    )
            written = written.get(state)
        effects.append(
            ((configurations[:, k] == s).astype(float), _effect(place, written, order, drawn, (parent, state)))
        )
    if "leak" in declared.noisy_max:
        everywhere = np.ones(len(configurations))
        effects.append((everywhere, _effect(place, declared.noisy_max["leak"], order, drawn, ("leak",))))
    if not effects:
        effects.append((np.ones(len(configurations)), np.eye(last + 1)[0]))
    rows = None
    if drawn:
        name = f"effect_{place.variable}".replace("/", "_")
        rows = Rows(name, np.arange(len(drawn)), np.stack(drawn), False)
    return NoisyMax(place, order, tuple(effects), Scalars(place), rows)


def _effect(place: Place, given: Any, order: np.ndarray, drawn: list[np.ndarray], path: tuple[Any, ...]) -> Any:
    n = len(place.variable_states)
    if given is None or isinstance(given, str):
        with _located(place, ("noisy_max", *path)):
            if given is not None and not _distribution(given):
                raise ModelError(
                    f"an effect is a list of {n} probabilities or Dirichlet([...]), not '{given}'", code="wrong-type"
                )
            drawn.append((np.ones(n) if given is None else _concentration(place, given, n))[order])
        return len(drawn) - 1
    if isinstance(given, Mapping):
        for word in given:
            if word not in place.variable_states:
                raise place.error(
                    f"'{word}' is not a state of '{place.variable}'{hint(word, place.variable_states)}",
                    "noisy_max",
                    *path,
                    code="unknown-state",
                )
        given = [given.get(state, 0.0) for state in place.variable_states]
    if not isinstance(given, Sequence) or len(given) != n:
        raise place.error(
            f"an effect has {n} probabilities, one for each of {', '.join(place.variable_states)}",
            "noisy_max",
            *path,
            code="wrong-length",
        )
    out = np.array([place.number(entry, ("noisy_max", *path)) for entry in given])
    if abs(out.sum() - 1) > 1e-3:
        raise place.error(f"the effect sums to {out.sum():g}, not to 1", "noisy_max", *path, code="not-probabilities")
    return (out / out.sum())[order]


# --------------------------------------------------------------------------------- logit


@dataclass(frozen=True, eq=False)
class Softmax:
    """Multinomial logit: log odds against the reference state, linear in indicators of the parents' states.

    For two states P(X = x) = 1 / (1 + exp(-(w0 + sum_i w_i))).
    """

    place: Place
    reference: int
    design: np.ndarray  # (rows, weights)
    weights: tuple[tuple[str, ...], ...]  # for each state but the reference: a name for each weight
    scalars: Scalars

    @property
    def unknown(self) -> Mapping[str, str]:
        return self.scalars.unknown

    @property
    def rows(self) -> Rows | None:
        return None

    @property
    def known(self) -> np.ndarray | None:
        if self.unknown or self.scalars.written:
            return None
        table: np.ndarray = self.table(lambda name: self.scalars.known[name], np)
        return table

    def table(self, value: Value, xp: Any) -> Any:
        zero = np.zeros(len(self.design))
        columns, rest = [], iter(self.weights)
        for state in range(len(self.place.variable_states)):
            if state == self.reference:
                columns.append(zero)
            else:
                columns.append(
                    sum(
                        (self.design[:, j] * self.scalars.value(name, value) for j, name in enumerate(next(rest))),
                        start=zero,
                    )
                )
        score = xp.stack(columns, axis=1)
        score = xp.exp(score - xp.max(score, axis=1, keepdims=True))
        return xp.reshape(score / xp.sum(score, axis=1, keepdims=True), self.place.shape)


def _softmax(place: Place, given: Mapping[str, Any], absent: Mapping[str, str]) -> Softmax:
    reference = place.absent(place.variable, absent, needed=False)
    targets = [state for s, state in enumerate(place.variable_states) if s != reference]
    binary = len(place.variable_states) == 2
    configurations = place.configurations()
    columns, labels = [np.ones(len(configurations))], [("intercept", "")]
    for k, parent in enumerate(place.parents):
        out = place.absent(parent, absent, needed=False)
        for s, state in enumerate(place.states[parent]):
            if s != out:
                columns.append((configurations[:, k] == s).astype(float))
                labels.append((parent, state))
    scalars, weights = Scalars(place), []
    if not binary:
        for state in given:
            if state not in targets:
                raise place.error(
                    f"'{state}' is not a state of '{place.variable}' other than the reference"
                    f" '{place.variable_states[reference]}'{hint(state, targets)}",
                    "logit",
                    state,
                    code="unknown-state",
                )
    for state in targets:
        entry = given if binary else (given.get(state) or {})
        path = ("logit",) if binary else ("logit", state)
        if not isinstance(entry, Mapping):
            raise place.error(
                f"write the weights of the state: {{intercept: ..., parent: ...}}, not {entry!r}",
                *path,
                code="wrong-type",
            )
        weights.append(
            tuple(
                _weight(place, scalars, entry, label, "" if binary else f"_{state}", path, absent) for label in labels
            )
        )
        for word in entry:
            if word != "intercept" and word not in place.parents:
                raise place.error(
                    f"'{word}' is not a parent of '{place.variable}'{hint(word, place.parents)}",
                    *path,
                    word,
                    code="unknown-variable",
                )
    return Softmax(place, reference, np.stack(columns, axis=1), tuple(weights), scalars)


def _weight(
    place: Place, scalars: Scalars, entry: Mapping[str, Any], label: tuple[str, str], suffix: str,
    path: tuple[Any, ...], absent: Mapping[str, str],
) -> str:  # fmt: skip
    parent, state = label
    written = entry.get(parent)
    several = state and len(place.states[parent]) > 2
    if isinstance(written, Mapping):
        for word in written:
            if word not in place.states[parent]:
                raise place.error(
                    f"'{word}' is not a state of '{parent}'{hint(word, place.states[parent])}",
                    *path,
                    parent,
                    code="unknown-state",
                )
            if word == place.states[parent][place.absent(parent, absent, needed=False)]:
                raise place.error(
                    f"'{word}' is the reference of '{parent}', which has no weight; `absent` chooses another",
                    *path,
                    parent,
                    word,
                    code="not-allowed",
                )
        written = written.get(state)
    elif several and written is not None and not isinstance(written, str):
        raise place.error(
            f"'{parent}' has {len(place.states[parent])} states: write a weight for each but one, {{{state}: ...}}",
            *path,
            parent,
            code="incomplete",
        )
    kind = "intercept" if parent == "intercept" and not state else "weight"
    name = f"{kind}_{place.variable}{suffix}" + (f"_{parent}" + (f"_{state}" if several else "") if state else "")
    scalars.add(name, written, _WEIGHT_PRIOR, (*path, parent), -np.inf, np.inf)
    return identifier(name)


# --------------------------------------------------------------------------------- functions

# Whether each parent is present in each row, shape (rows, parents).
_WORDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "or": lambda there: there.any(axis=1),
    "and": lambda there: there.all(axis=1),
    "xor": lambda there: there.sum(axis=1) % 2 == 1,
    "nor": lambda there: ~there.any(axis=1),
    "nand": lambda there: ~there.all(axis=1),
}


def _function(place: Place, given: Any, absent: Mapping[str, str]) -> np.ndarray:
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

    with _located(place, ("function",)):
        result = Evaluator(lookup, labels | {"row": np.arange(len(codes))}).term(parse(text))
        if result.value is None and result.column is not None:  # the states of a parent
            words = labels[result.column][result.codes]
            return [_state(place, word, ("function",)) for word in words.tolist()]
        values = np.broadcast_to(np.asarray(result.value), len(codes))
    names = {_number(state): s for s, state in enumerate(place.variable_states)}
    if None not in names:
        lacking = [v for v in values.tolist() if float(v) not in names]
        if lacking:
            raise place.error(
                f"'{text}' gives {lacking[0]:g}, which is no state of '{place.variable}'"
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
