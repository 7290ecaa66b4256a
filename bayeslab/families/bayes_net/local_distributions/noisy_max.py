"""Noisy-OR and noisy-MAX: each parent causes an effect on its own, and the variable has the highest.

References
----------
.. [1] Pearl (1988). Probabilistic Reasoning in Intelligent Systems, section 4.3.2 (noisy-OR).
.. [2] Diez (1993). Parameter adjustment in Bayes networks: the generalized noisy OR-gate. UAI 9, 99-105 (noisy-MAX).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.errors import ModelError, hint
from bayeslab.families.bayes_net.local_distributions.contract import Rows, Value
from bayeslab.families.bayes_net.local_distributions.place import Place
from bayeslab.families.bayes_net.local_distributions.scalars import Scalars, distribution_word, located
from bayeslab.families.bayes_net.local_distributions.table import concentration_of

__all__ = ["NoisyMax", "noisy_max", "noisy_or"]

_LINK_PRIOR = "Beta(1, 1)"


@dataclass(frozen=True, eq=False)
class Cause:
    """Where a cause is present: in states of a parent, or everywhere, as a leak is."""

    place: Place
    parent: int | None = None
    present: tuple[int, ...] = ()

    def by_state(self) -> np.ndarray:
        """1 for the states of the parent in which the cause is present, else 0."""
        assert self.parent is not None
        return np.isin(np.arange(self.place.sizes[self.parent]), self.present).astype(float)

    def by_row(self) -> np.ndarray:
        """1 for the rows of the table in which the cause is present, else 0: of many parents these are many."""
        if self.parent is None:
            return np.ones(math.prod(self.place.sizes))
        sizes = self.place.sizes
        along = [-1 if k == self.parent else 1 for k in range(len(sizes))]
        return np.broadcast_to(self.by_state().reshape(along), sizes).reshape(-1)


@dataclass(frozen=True, eq=False)
class NoisyMax:
    """Noisy-OR or noisy-MAX: present causes act independently, and the variable takes the strongest effect.

    P(X ≤ x | u) is the product over the causes of P(effect of cause ≤ x), with the states ordered
    from "absent" upwards.
    """

    place: Place
    order: np.ndarray  # states from "absent" upwards
    effects: tuple[tuple[Cause, Any], ...]  # in the order of the parents, the leak last
    scalars: Scalars
    rows: Rows | None

    @property
    def unknown(self) -> Mapping[str, str]:
        return self.scalars.unknown

    @cached_property
    def known(self) -> np.ndarray | None:
        if self.unknown or self.scalars.written or self.rows is not None:
            return None
        table: np.ndarray = self.table(lambda name: self.scalars.known[name], np)
        return table

    def table(self, value: Value, xp: Any) -> Any:
        n, sizes, total = len(self.order), self.place.sizes, np.ones((1, len(self.order)))
        factors: list[Any] = [np.ones((size, n)) for size in sizes]
        for cause, effect in self.effects:
            below = self._below(effect, value, xp)[None, :]
            if cause.parent is None:
                total = total * below
            else:
                there = cause.by_state()[:, None]
                factors[cause.parent] = factors[cause.parent] * (there * below + (1.0 - there))
        # Parent by parent: the last of many parents alone takes as long as all others together.
        for k, factor in enumerate(factors):
            total = xp.reshape(total[:, None, :] * factor[None, :, :], (math.prod(sizes[: k + 1]), n))
        table = xp.concatenate([total[:, :1], total[:, 1:] - total[:, :-1]], axis=1)
        return xp.reshape(table[:, np.argsort(self.order)], self.place.shape)

    def _below(self, effect: Any, value: Value, xp: Any) -> Any:
        """P(effect ≤ x) for each state x in increasing order."""
        if isinstance(effect, str):
            strength = self.scalars.value(effect, value)
            return xp.stack([1.0 - strength, 1.0 + 0.0 * strength])
        if isinstance(effect, int):
            assert self.rows is not None
            return xp.cumsum(value(self.rows.name)[effect])
        return np.cumsum(effect)


def noisy_or(place: Place, declared: Any) -> NoisyMax:
    """Read the probability with which each parent alone brings the variable about.

    Raises
    ------
    ModelError
    """
    absent = {v: place.absent(v, declared.absent, needed=True) for v in (*place.parents, place.variable)}
    for v in (*place.parents, place.variable):
        if len(place.states[v]) != 2:
            raise place.error(
                f"noisy_or is for variables of two states; '{v}' has {len(place.states[v])}: noisy_max",
                code="not-applicable",
            )
    scalars, effects = Scalars(place), list[tuple[Cause, Any]]()
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
        effects.append((Cause(place, k, (1 - absent[parent],)), name))
    if "leak" in declared.noisy_or:
        name = f"leak_{place.variable}"
        scalars.add(name, declared.noisy_or["leak"], _LINK_PRIOR, ("noisy_or", "leak"), 0.0, 1.0)
        effects.append((Cause(place), name))
    if not effects:
        effects.append((Cause(place), np.array([1.0, 0.0])))
    order = np.array([absent[place.variable], 1 - absent[place.variable]])
    return NoisyMax(place, order, tuple(effects), scalars, None)


def noisy_max(place: Place, declared: Any) -> NoisyMax:
    """Read the probabilities of the states that each state of a parent alone brings about.

    Raises
    ------
    ModelError
    """
    absent = {v: place.absent(v, declared.absent, needed=True) for v in (*place.parents, place.variable)}
    last = len(place.variable_states) - 1
    if absent[place.variable] not in (0, last):
        raise place.error(
            f"the state of '{place.variable}' that means 'not there' comes first or last", code="not-allowed"
        )
    order = np.arange(last + 1) if absent[place.variable] == 0 else np.arange(last, -1, -1)
    effects: list[tuple[Cause, Any]] = []
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
        effects.append((Cause(place, k, (s,)), _effect(place, written, order, drawn, (parent, state))))
    if "leak" in declared.noisy_max:
        effects.append((Cause(place), _effect(place, declared.noisy_max["leak"], order, drawn, ("leak",))))
    if not effects:
        effects.append((Cause(place), np.eye(last + 1)[0]))
    rows = None
    if drawn:
        name = f"effect_{place.variable}".replace("/", "_")
        rows = Rows(name, np.arange(len(drawn)), np.stack(drawn), False)
    return NoisyMax(place, order, tuple(effects), Scalars(place), rows)


def _effect(place: Place, given: Any, order: np.ndarray, drawn: list[np.ndarray], path: tuple[Any, ...]) -> Any:
    n = len(place.variable_states)
    if given is None or isinstance(given, str):
        with located(place, ("noisy_max", *path)):
            if given is not None and not distribution_word(given):
                raise ModelError(
                    f"an effect is a list of {n} probabilities or Dirichlet([...]), not '{given}'", code="wrong-type"
                )
            drawn.append((np.ones(n) if given is None else concentration_of(place, given, n))[order])
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
