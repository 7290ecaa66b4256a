"""The distribution of a column as a word: ``Gamma``, or ``Pareto(m=1)`` with known parameters."""

from __future__ import annotations

import ast

import numpy as np

from bayeslab.distributions import DISTRIBUTIONS
from bayeslab.errors import ModelError, hint
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import bound_arguments, call_name

__all__ = ["column_distribution", "is_distribution"]


def is_distribution(text: str) -> bool:
    """Whether a word is a distribution of the model language, that is, begins with a capital."""
    return text[:1].isupper()


def column_distribution(text: str) -> tuple[str, dict[str, float]]:
    """The name of the distribution, and the known parameters.

    Raises
    ------
    ModelError
        The distribution or a parameter is unknown, or an argument is not a number.
    """
    expression = parse(text)
    tree = expression.tree
    name = tree.id if isinstance(tree, ast.Name) else call_name(tree)
    if name is None or name not in DISTRIBUTIONS:
        raise ModelError(
            f"unknown distribution '{name or text}'{hint(name or text, DISTRIBUTIONS)}", code="not-a-distribution"
        )
    if not isinstance(tree, ast.Call):
        return name, {}
    known = {}
    for word, value in bound_arguments(tree, name).items():
        known[word] = _number(value, f"{name}'s {word}")
    return name, known


def _number(tree: ast.expr, what: str) -> float:
    try:
        value = float(ast.literal_eval(tree))
    except (ValueError, TypeError, SyntaxError):
        raise ModelError(
            f"{what} is a number here, known for every state, not '{ast.unparse(tree)}'; leave out what is learned",
            code="not-a-number",
        ) from None
    if np.isnan(value):
        raise ModelError(f"{what} is a number, not nan", code="not-a-number")
    return value
