"""Priors whose parameters are numbers, such as ``Gamma(2, 1)``."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np

from bayeslab.distributions import DISTRIBUTIONS
from bayeslab.errors import ModelError, errors_at
from bayeslab.language.algebra import Term
from bayeslab.language.evaluator import Evaluator
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import bound_arguments, call_name

__all__ = ["has_numbers", "numbers", "read_prior"]


def read_prior(text: str, path: tuple[str | int, ...] = ()) -> tuple[str | None, dict[str, Any] | None]:
    """The distribution of a prior, and its numbers by parameter; see :func:`has_numbers`.

    Parameters
    ----------
    text : str
        The prior, such as ``Gamma(2, 1)``, ``Normal(0, 1 / 2)`` or ``Dirichlet([2, 1])``.
    path : tuple of str or int
        Place of the prior in the model file.

    Returns
    -------
    str or None
        Name of what is called, a distribution or not; None if nothing is called.
    dict or None
        Numbers, or lists of numbers, by parameter, and the text of anything else; None if it is no distribution.

    Raises
    ------
    ModelError
        The text cannot be parsed, or the distribution has no such parameter.
    """
    with errors_at(path):
        tree = parse(text).tree
        word = call_name(tree)
        if word is None or word not in DISTRIBUTIONS or not isinstance(tree, ast.Call):
            return word, None
        arguments = bound_arguments(tree, word)
    return word, {name: _value(value) for name, value in arguments.items()}


def has_numbers(given: Mapping[str, Any] | None, *, lists: bool = False) -> TypeGuard[Mapping[str, Any]]:
    """Whether all parameters of a prior are numbers, or with ``lists`` numbers and lists of numbers."""
    return given is not None and not any(
        isinstance(value, str) or (np.ndim(value) and not lists) for value in given.values()
    )


def numbers(text: str, words: Mapping[str, tuple[str, ...]], where: str) -> tuple[str, tuple[Any, ...]]:
    """The distribution and the numbers of a prior that has one of a few forms.

    Parameters
    ----------
    words : mapping of str to tuple of str
        The parameters of each allowed distribution, in the order of the result.
    where : str
        Key of the prior in the model file.

    Raises
    ------
    ModelError
        The prior is another distribution, or its parameters are not numbers.
    """
    path = ("model", "priors", where)
    word, given = read_prior(text, path)
    if word in words and has_numbers(given, lists=True) and given.keys() >= set(words[str(word)]):
        return str(word), tuple(given[key] for key in words[str(word)])
    allowed = " or ".join(f"{w}({', '.join(keys)})" for w, keys in words.items())
    raise ModelError(f"the prior of '{where}' is {allowed} with numbers, not {text}", path=path, code="bad-prior")


def _value(tree: ast.expr) -> Any:
    """The value of a number, a list of numbers or arithmetic with numbers; the text of anything else."""
    try:
        value = ast.literal_eval(tree)
        np.asarray(value, float)
    except (ValueError, TypeError, SyntaxError):
        text = ast.unparse(tree)
    else:
        return repr(value) if isinstance(value, bool | str) else value
    try:
        value = Evaluator(_no_name, {}).term(parse(text)).value
    except ModelError:
        return text
    return text if value is None or np.ndim(value) else float(np.asarray(value))


def _no_name(name: str) -> Term:
    raise ModelError(f"'{name}' is not a number", code="not-a-number")
