"""Scores of structures, one file each: how well the data support the parents of a variable.

A score is decomposable: the score of a DAG is the sum over its variables of a local score of the variable and its
parents. A score module has ``score(data, *, options)``, which reads the table and returns a :class:`LocalScore`:

``names``
    The variables, in the order of the table's columns.
``score``
    The name of the file.
``local(child, parents)``
    The local score, by numbers of variables: a natural logarithm, larger is better; -inf for an impossible family.
    The order of the parents does not matter.
``many(child, sets)``
    The same for several parent sets given as bits, in one call, for greedy searches.
``all_sets(children, limits, allowed)``
    The same for all sets of allowed parents of several variables at once, much faster.

Scores of discrete data: :mod:`bdeu`, :mod:`bds`, :mod:`k2` (Bayesian: log marginal likelihoods), :mod:`bic`,
:mod:`aic`, :mod:`mdl`, :mod:`log_likelihood`, :mod:`noisy_or_bic`; of numbers: :mod:`bge` (Bayesian),
:mod:`gaussian_bic`; of both: :mod:`mixed_bic`. Priors over structures are not part of a score
(:mod:`bayeslab.structure.priors`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from inspect import Parameter
from numbers import Integral, Real
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bayeslab import registry
from bayeslab.errors import OptionError, hint

__all__ = ["LocalScore", "Work", "check_number", "load"]


@dataclass(frozen=True)
class Work:
    """Execution of long work: number of threads, and a callback for finished parts."""

    threads: int = 1
    tick: Callable[[], None] | None = None


class LocalScore(Protocol):
    """Interface of a score for searches, tables and samplers."""

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""

    @property
    def score(self) -> str:
        """Name of the score."""

    def local(self, child: int, parents: tuple[int, ...]) -> float:
        """Local score of a variable given its parents."""

    def many(self, child: int, sets: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Local scores of some parent sets, given as bits of shape (n_sets, n_words)."""

    def all_sets(
        self, children: NDArray[np.int64], limits: NDArray[np.int64], allowed: NDArray[np.bool_], work: Work = ...
    ) -> list[tuple[NDArray[np.uint64], NDArray[np.float64]]]:
        """Local scores of all parent sets.

        Parameters
        ----------
        children : ndarray of int, shape (n_children,)
        limits : ndarray of int, shape (n_children,)
            Largest number of parents of each child.
        allowed : ndarray of bool, shape (n_children, n)
            Whether each variable may be a parent of each child.

        Returns
        -------
        list of (sets, scores)
            For each child the sets as bits, shape (n_sets, n_words), small sets first, and their scores.
        """

    def seconds(self, n_sets: int) -> float:
        """Return the estimated time in seconds for this many sets."""


def load(name: str, data: Any, **options: Any) -> LocalScore:
    """Return a score by name, for a table.

    Raises
    ------
    OptionError
        There is no such score or option.
    """
    package = "structure/scores"
    if name not in registry.names(package):
        raise OptionError(f"unknown score '{name}'{hint(name, registry.names(package))}", code="unknown-word")

    maker = import_module(f"bayeslab.structure.scores.{name}").score
    parameters = inspect.signature(maker).parameters
    known = [p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY]
    for option, value in options.items():
        if option not in known:
            raise OptionError(
                f"the score '{name}' has no option '{option}'{hint(option, known)}", code="unknown-option"
            )
        check_number(parameters[option], value)
    made: LocalScore = maker(data, **options)
    return made


def check_number(parameter: Parameter, value: Any) -> None:
    """Raise an OptionError if an option takes a number and the value is not a number."""
    words = {word.strip() for word in str(parameter.annotation).split("|")}
    if not words & {"int", "float"} or words - {"int", "float", "None"} or (value is None and "None" in words):
        return
    if isinstance(value, bool) or not isinstance(value, Real if "float" in words else Integral):
        what = "number" if "float" in words else "whole number"
        raise OptionError(f"{parameter.name} is a {what}; given {value!r}", code="wrong-type")
