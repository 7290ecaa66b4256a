"""Which parameters of a distribution can be learned from data, and their domains."""

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
    """The parameters that columns of a distribution can have, given all known ones.

    Raises
    ------
    ModelError
        See :func:`allowed`; or a parameter must be known, since the likelihood has no derivative in it.
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
    """The parameters that columns of a distribution can have, given some known ones.

    Raises
    ------
    ModelError
        The distribution has no log density in this package or is not univariate; it does not have a given parameter; or
        a number is outside the parameter's domain.
    """
    if name not in DISTRIBUTIONS:
        raise ModelError(f"unknown distribution '{name}'{hint(name, DISTRIBUTIONS)}", code="not-a-distribution")
    entry = DISTRIBUTIONS[name]
    if entry.support or not entry.proper or maths(name) is None or not density_parameters(name):
        raise ModelError(
            f"{name} is not a distribution of a column: one of single numbers is meant, such as Gamma, Beta, Weibull or"
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
    """Refuse a known number outside the parameter's domain."""
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
    """Parameters that are integers."""
    domain, names = DISTRIBUTIONS[name].domain, density_parameters(name)
    rising = {word: float(i) for i, word in enumerate(domain.increasing)}
    point = [rising.get(word, 0.5 if domain.parameters.get(word) is not None else 0.0) for word in names]
    with np.errstate(all="ignore"):
        slopes = functions(name).slopes(np.float64(0.5), *map(np.float64, point))[1:]
    return frozenset(word for word, slope in zip(names, slopes, strict=True) if slope is None)


@cache
def never_learned(name: str) -> frozenset[str]:
    """Parameters without a derivative of the likelihood: ends of the support, points inside it, and integers."""
    domain = DISTRIBUTIONS[name].domain
    ends = {end for end in (domain.values.low, domain.values.high) if isinstance(end, str)}
    return frozenset(ends | set(domain.increasing) | _whole(name))


@cache
def never_learned_defaults(name: str) -> dict[str, float]:
    """Default values of those parameters that are never learned and need not be given."""
    given = {word: one.default for word, one in signature(functions(name).canonical).parameters.items()}
    return {word: given[word] for word in never_learned(name) if isinstance(given[word], float | int)}


def interval(name: str, word: str) -> tuple[float, float]:
    """The ends of a parameter's domain."""
    support = DISTRIBUTIONS[name].domain.parameters.get(word)
    if support is None:
        return -np.inf, np.inf
    assert not isinstance(support.low, str)
    assert not isinstance(support.high, str)
    return float(support.low), float(support.high)


def somewhere(name: str, word: str) -> float:
    """A value inside a parameter's domain."""
    low, high = interval(name, word)
    return 0.0 if np.isinf(low) else low + 1.0 if np.isinf(high) else 0.5 * (low + high)
