"""Which parameters of a distribution can be learned from numbers, and what they can be."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from inspect import signature
from typing import Any

import numpy as np

from bayeslab.distributions.toolbox.table import DISTRIBUTIONS, density_parameters, functions, maths
from bayeslab.errors import ModelError, hint

__all__ = ["allowed", "interval", "never_learned", "never_learned_defaults", "somewhere", "usable"]


def usable(name: str, known: Mapping[str, Any]) -> tuple[str, ...]:
    """The parameters of a distribution that columns can have, given all that are known.

    Raises
    ------
    ModelError
        See :func:`allowed`; a parameter that has to be known, since the likelihood has no slope along it.
    """
    names = allowed(name, known)
    for word in names:
        if word not in known and word in never_learned(name) and word not in never_learned_defaults(name):
            raise ModelError(
                f"{name} needs its '{word}' as a number, {name}({word}=...): it is a whole number or an end of the"
                " values, and the likelihood has no slope along it",
                code="incomplete",
            )
    return names


def allowed(name: str, known: Mapping[str, Any]) -> tuple[str, ...]:
    """The parameters of a distribution that columns can have, given some that are known.

    Raises
    ------
    ModelError
        A distribution whose log density is not known here, or that is none of single numbers; a parameter that it does
        not have, or a number that this cannot be.
    """
    if name not in DISTRIBUTIONS:
        raise ModelError(f"unknown distribution '{name}'{hint(name, DISTRIBUTIONS)}", code="not-a-distribution")
    entry = DISTRIBUTIONS[name]
    if entry.support or not entry.proper or maths(name) is None or not density_parameters(name):
        raise ModelError(
            f"{name} is no distribution of a column: one of single numbers is meant, such as Gamma, Beta, Weibull or"
            " NegativeBinomial",
            code="not-a-distribution",
        )
    names = density_parameters(name)
    for word in known:
        if word not in names:
            raise ModelError(
                f"{name} has no parameter '{word}' here{hint(word, names)}; its parameters are {', '.join(names)}",
                code="unknown-parameter",
            )
        _check_known(name, word, np.asarray(known[word], float))
    return names


def _check_known(name: str, word: str, value: np.ndarray) -> None:
    """Refuse a known number that the parameter cannot have."""
    support = DISTRIBUTIONS[name].domain.parameters.get(word)
    if support is not None:
        outside = support.outside(value, *interval(name, word))
        if outside.any():
            raise ModelError(
                f"{name}'s {word} is {support.words(*interval(name, word))}, not {value[outside].ravel()[0]:g}",
                code="out-of-range",
            )
    if word in _whole(name) and (value != np.floor(value)).any():
        broken = value[value != np.floor(value)].ravel()[0]
        raise ModelError(f"{name}'s {word} is a whole number, not {broken:g}", code="out-of-range")


@cache
def _whole(name: str) -> frozenset[str]:
    """Parameters that are whole numbers."""
    domain, names = DISTRIBUTIONS[name].domain, density_parameters(name)
    rising = {word: float(i) for i, word in enumerate(domain.increasing)}
    point = [rising.get(word, 0.5 if domain.parameters.get(word) is not None else 0.0) for word in names]
    with np.errstate(all="ignore"):
        slopes = functions(name).slopes(np.float64(0.5), *map(np.float64, point))[1:]
    return frozenset(word for word, slope in zip(names, slopes, strict=True) if slope is None)


@cache
def never_learned(name: str) -> frozenset[str]:
    """Ends of the values and what lies between them, and whole numbers: the likelihood has no slope along these."""
    domain = DISTRIBUTIONS[name].domain
    ends = {end for end in (domain.values.low, domain.values.high) if isinstance(end, str)}
    return frozenset(ends | set(domain.increasing) | _whole(name))


@cache
def never_learned_defaults(name: str) -> dict[str, float]:
    """Of what is never learned, where it need not be given."""
    given = {word: one.default for word, one in signature(functions(name).canonical).parameters.items()}
    return {word: given[word] for word in never_learned(name) if isinstance(given[word], float | int)}


def interval(name: str, word: str) -> tuple[float, float]:
    """The ends of what a parameter can be."""
    support = DISTRIBUTIONS[name].domain.parameters.get(word)
    if support is None:
        return -np.inf, np.inf
    assert not isinstance(support.low, str)
    assert not isinstance(support.high, str)
    return float(support.low), float(support.high)


def somewhere(name: str, word: str) -> float:
    """A value that a parameter can have."""
    low, high = interval(name, word)
    return 0.0 if np.isinf(low) else low + 1.0 if np.isinf(high) else 0.5 * (low + high)
