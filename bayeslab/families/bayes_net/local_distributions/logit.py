"""Multinomial logit: log odds that are linear in indicators of the parents' states.

References
----------
.. [1] Gelman, Jakulin, Pittau, Su (2008). A weakly informative default prior distribution for logistic and other
   regression models. Annals of Applied Statistics 2, 1360-1383.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.errors import hint
from bayeslab.families.bayes_net.local_distributions.contract import Rows, Value
from bayeslab.families.bayes_net.local_distributions.place import Place, identifier
from bayeslab.families.bayes_net.local_distributions.scalars import Scalars

__all__ = ["Softmax", "logit_of"]

_WEIGHT_PRIOR = "Normal(0, 2.5)"  # [1]_: on the logit scale changes of 5 are large


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

    @cached_property
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


def logit_of(place: Place, given: Mapping[str, Any], absent: Mapping[str, str]) -> Softmax:
    """Read the weights of the parents' states.

    Raises
    ------
    ModelError
    """
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
