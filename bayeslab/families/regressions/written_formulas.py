"""Formulas of regressions of several responses: what in them refers to other responses.

``(1 | p | g)`` has effects that are correlated with those of other formulas with the id ``p``, and ``mi(x)`` is a
predictor that is a response with missing cells. Without these, each formula is one of the family regression.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from bayeslab.families.regression.spec import Regression
from bayeslab.language.spec import plain_name

__all__ = ["formula_texts", "imputed", "plain", "with_ids"]

_ID = re.compile(r"\|\s*[^\W\d]\w*\s*\|")
_IMPUTED = re.compile(r"(?<![\w.])mi\(\s*([^\W\d]\w*|`[^`]+`)\s*\)")
# The distribution that stands for the regression of an imputed predictor.
_ELSEWHERE = "Normal(0, 1)"


def formula_texts(regression: Regression) -> list[str]:
    """The formulas of a regression as they are written."""
    return [regression.formula] if isinstance(regression.formula, str) else list(regression.formula.values())


def _changed(regression: Regression, pattern: re.Pattern[str], by: str) -> str | dict[str, str]:
    given = regression.formula
    if isinstance(given, str):
        return pattern.sub(by, given)
    return {parameter: pattern.sub(by, text) for parameter, text in given.items()}


def imputed(regression: Regression) -> set[str]:
    """Predictors that are written ``mi(x)`` in a formula."""
    return {plain_name(name.strip("`")) for text in formula_texts(regression) for name in _IMPUTED.findall(text)}


def with_ids(regression: Regression) -> Regression:
    """The regression with ``x`` in place of ``mi(x)``, whose cells have a distribution elsewhere."""
    names = imputed(regression)
    if not names:
        return regression
    missing: Mapping[str, str] = {**dict.fromkeys(sorted(names), _ELSEWHERE), **regression.missing}
    return regression.model_copy(update={"formula": _changed(regression, _IMPUTED, r"\1"), "missing": dict(missing)})


def plain(regression: Regression) -> Regression:
    """The regression without ids too: effects that share one are independent here, ``(1 || g)``."""
    out = with_ids(regression)
    return out.model_copy(update={"formula": _changed(out, _ID, "||")})
