"""The range of a prior, as far as the numbers in its text tell it."""

from __future__ import annotations

import ast
import math

from bayeslab.distributions import DISTRIBUTIONS
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import bound_arguments, call_name

__all__ = ["range_of"]


def range_of(text: str) -> tuple[float, float]:
    """The least and the largest number a prior draws; NaN for an end that is not known.

    Examples
    --------
    >>> range_of("Uniform(-1, upper)")
    (-1.0, nan)
    >>> range_of("Truncated(Normal(0, 1), lower=0)")
    (0.0, inf)
    """
    return _range(parse(text).tree)


def _range(tree: ast.expr) -> tuple[float, float]:
    word = call_name(tree)
    if not isinstance(tree, ast.Call) or word is None:
        return math.nan, math.nan
    if word in ("Truncated", "Censored"):
        given = bound_arguments(tree, word)
        low, high = _number(given.get("lower"), -math.inf), _number(given.get("upper"), math.inf)
        if word == "Censored":
            return low, high
        least, most = _range(given["dist"])
        return max(low, least), min(high, most)
    if word not in DISTRIBUTIONS:
        return math.nan, math.nan
    given, ends = bound_arguments(tree, word), DISTRIBUTIONS[word].domain.values
    low, high = (
        _number(given.get(end), without) if isinstance(end, str) else end
        for end, without in ((ends.low, -math.inf), (ends.high, math.inf))
    )
    return low, high


def _number(tree: ast.expr | None, without: float) -> float:
    """A constant; ``without`` one, the default, and NaN for an expression."""
    if tree is None:
        return without
    try:
        value = ast.literal_eval(tree)
    except ValueError:
        return math.nan
    return without if value is None else float(value)
