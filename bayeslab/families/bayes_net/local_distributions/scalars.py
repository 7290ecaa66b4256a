"""Numbers of local distributions: given, computed from parameters, or unknown with a prior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayeslab.distributions import DISTRIBUTIONS
from bayeslab.errors import ModelError, hint
from bayeslab.families.bayes_net.local_distributions.contract import Value
from bayeslab.families.bayes_net.local_distributions.place import Place, identifier
from bayeslab.language.algebra import Term
from bayeslab.language.evaluator import Evaluator
from bayeslab.language.expressions import Expression, parse
from bayeslab.language.functions import FUNCTIONS
from bayeslab.language.nodes import call_name

__all__ = ["Scalars", "check_names", "constant", "distribution_word", "located"]


def distribution_word(text: str) -> str | None:
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
            with located(self.place, path):
                if distribution_word(given):
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


class located:
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
