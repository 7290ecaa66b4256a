"""Expected outcomes, comparisons and slopes, with their posterior draws."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from bayeslab.errors import BayeslabError, OptionError, hint, listed
from bayeslab.posterior.expectation import Expectation, Scale
from bayeslab.results.effects.averages import Groups, averaged, groups_of
from bayeslab.results.effects.estimates import Effects, check_columns, check_interval, check_rope, draws_array
from bayeslab.results.effects.predictors import Predictor, expectation_of, predictor, quantity_of
from bayeslab.results.effects.rows import Rows, chosen_rows
from bayeslab.results.fitted import Fitted, posterior_values

__all__ = ["ComparisonKind", "SlopeKind", "comparisons", "predictions", "slopes"]

type ComparisonKind = Literal["difference", "ratio", "odds ratio"]
type SlopeKind = Literal["slope", "elasticity", "semi-elasticity"]

_COMPARISONS: tuple[str, ...] = get_args(ComparisonKind.__value__)
_SLOPES: tuple[str, ...] = get_args(SlopeKind.__value__)
_SCALES: tuple[str, ...] = get_args(Scale.__value__)
_OF_FACTORS = ("reference", "pairwise", "sequential")
_OF_NUMBERS = ("sd", "2sd", "iqr", "minmax")
# Step of a numerical derivative as a share of the predictor's range: the cube root of the rounding error, at which the
# rounding and truncation errors of a central difference balance.
_STEP = float(np.cbrt(np.finfo(float).eps))


@dataclass(frozen=True, eq=False)
class _Request:
    """The checked arguments that all quantities share."""

    fit: Fitted
    expectation: Expectation
    rows: Rows
    groups: Groups
    scale: Scale
    ci_prob: float
    rope: tuple[float, float] | None

    @classmethod
    def of(
        cls, fit: Fitted, newdata: Any, at: Any, by: Any, weights: Any, scale: Any, ci_prob: Any, rope: Any
    ) -> _Request:
        if scale not in _SCALES:
            raise OptionError(
                f"scale is {listed(_SCALES)}, not {scale!r}{hint(str(scale), _SCALES)}", code="unknown-word"
            )
        expectation = expectation_of(fit)
        rows = chosen_rows(fit, newdata, at, weights)
        groups = groups_of(rows, by)
        check_columns(list(groups.columns))
        return cls(fit, expectation, rows, groups, scale, check_interval(ci_prob), check_rope(rope))

    def where(self) -> str:
        """A description of the averages, for titles."""
        if self.groups.average is None:
            return f"at {self.rows.about}" if self.rows.about.startswith("a ") else f"at each of {self.rows.about}"
        by = f" by {', '.join(self.groups.columns)}" if self.groups.columns else ""
        weighted = "" if self.rows.weights is None else ", weighted"
        return f"averaged over {self.rows.about}{weighted}{by}"

    def heads(self) -> dict[str, np.ndarray]:
        """The columns that identify the group or row of each estimate."""
        if self.groups.average is not None:
            return dict(self.groups.columns)
        # Predictors identify single rows; columns that vary identify rows of a grid.
        names = self.rows.varied
        if names is None:
            columns = self.rows.dataset.columns
            names = tuple(n for n in self.expectation.predictors if n in columns and n not in self.rows.typical)
        return {name: self.rows.values(name) for name in names}

    def effects(
        self,
        title: str,
        null: float | None,
        parts: Sequence[tuple[Mapping[str, str], np.ndarray]],
        *,
        ratios: bool = False,
    ) -> Effects:
        """The estimates of several quantities, concatenated.

        Parameters
        ----------
        parts
            For each quantity its naming columns, and its draws of shape (draws, groups, levels).
        """
        heads, levels = self.heads(), self.expectation.levels
        width = parts[0][1].shape[2]
        columns: dict[str, list[Any]] = {}
        for named, _ in parts:
            n = self.groups.n * width
            labels: dict[str, list[Any]] = {name: [text] * n for name, text in named.items()}
            labels |= {name: np.repeat(values, width).tolist() for name, values in heads.items() if name not in named}
            if levels:
                labels[self.expectation.outcome] = list(levels) * self.groups.n
            for name, cells in labels.items():
                columns.setdefault(name, []).extend(cells)
        values = np.concatenate([part.reshape(len(part), -1) for _, part in parts], axis=1)
        sizes = self.fit.posterior.sizes
        shaped = values.reshape(sizes["chain"], sizes["draw"], -1)
        return Effects(
            title,
            draws_array(shaped, self.fit.posterior, columns),
            null,
            self.ci_prob,
            self.rope,
            self.rows.like,
            ratios,
        )


def predictions(
    fit: Fitted,
    newdata: Any = None,
    *,
    at: Any = None,
    by: Any = None,
    scale: Scale = "response",
    weights: Any = None,
    ci_prob: float = 0.89,
) -> Effects:
    """See :meth:`bayeslab.results.fit.Fit.predictions`."""
    request = _Request.of(fit, newdata, at, by, weights, scale, ci_prob, None)
    values = averaged(
        [request.rows.at({})], request.groups, posterior_values(fit), scale, request.rows, combine=lambda each: each[0]
    )
    return request.effects(f"{quantity_of(fit, request.expectation, scale)}, {request.where()}", None, [({}, values)])


# ------------------------------------------------------------------------------------------------ comparisons


@dataclass(frozen=True, eq=False)
class _Contrast:
    """Two values of a predictor, one for each row or one for all."""

    label: tuple[str, str] | str
    low: Any
    high: Any

    def named(self, sign: str) -> str:
        return self.label if isinstance(self.label, str) else f"{self.label[1]} {sign} {self.label[0]}"


def comparisons(
    fit: Fitted,
    of: Any = None,
    *,
    newdata: Any = None,
    at: Any = None,
    by: Any = None,
    kind: ComparisonKind = "difference",
    scale: Scale = "response",
    weights: Any = None,
    ci_prob: float = 0.89,
    rope: Any = None,
) -> Effects:
    """See :meth:`bayeslab.results.fit.Fit.comparisons`."""
    if kind not in _COMPARISONS:
        raise OptionError(
            f"kind is {listed(_COMPARISONS)}, not {kind!r}{hint(str(kind), _COMPARISONS)}", code="unknown-word"
        )
    request = _Request.of(fit, newdata, at, by, weights, scale, ci_prob, rope)
    expectation, rows = request.expectation, request.rows
    if kind == "odds ratio" and not expectation.bounded(scale):
        raise OptionError(
            f"an odds ratio compares probabilities, not the {expectation.quantity(scale)}: use kind='ratio'",
            code="not-applicable",
        )
    combine = _COMBINE[kind]
    sign, draws = "-" if kind == "difference" else "/", posterior_values(fit)

    def compared(name: str, wanted: Any) -> _Parts:
        one = predictor(fit, expectation, name, rows.weights if rows.whole else None)
        out: _Parts = []
        for contrast in _contrasts(one, wanted, rows):
            pair = [rows.at({name: contrast.low}), rows.at({name: contrast.high})]
            values = averaged(pair, request.groups, draws, scale, rows, combine=combine)
            out.append(({"term": name, "contrast": contrast.named(sign)}, values))
        return out

    each = {name: partial(compared, name, wanted) for name, wanted in _chosen(expectation, of).items()}
    parts, left_out = _possible(each, everything=of is None)
    title = f"{kind} of the {quantity_of(fit, expectation, scale)}, {request.where()}"
    difference = kind == "difference"
    made = request.effects(title, 0.0 if difference else 1.0, parts, ratios=not difference)
    return replace(made, left_out=left_out)


type _Parts = list[tuple[Mapping[str, str], np.ndarray]]


def _possible(each: Mapping[str, Callable[[], _Parts]], *, everything: bool) -> tuple[_Parts, dict[str, str]]:
    """The estimates of several predictors; if all are asked for, those that can be computed, and why others cannot.

    Raises
    ------
    BayeslabError
        The error of a predictor asked for by name, or of the first if there is none that can be computed.
    """
    parts: _Parts = []
    errors: dict[str, BayeslabError] = {}
    for name, made in each.items():
        try:
            parts += made()
        except BayeslabError as error:
            if not everything:
                raise
            errors[name] = error
    if not parts:
        raise next(iter(errors.values()))
    left_out = {name: error.message for name, error in errors.items()}
    for name, message in left_out.items():
        warnings.warn(f"'{name}' is left out: {message}", UserWarning, stacklevel=4)
    return parts, left_out


def _odds_ratio(each: list[np.ndarray]) -> np.ndarray:
    low, high = each
    return np.asarray((high / (1 - high)) / (low / (1 - low)))


_COMBINE: dict[str, Callable[[list[np.ndarray]], np.ndarray]] = {
    "difference": lambda each: each[1] - each[0],
    "ratio": lambda each: each[1] / each[0],
    "odds ratio": _odds_ratio,
}


def _chosen(expectation: Expectation, of: Any) -> dict[str, Any]:
    """The requested predictors, each with its kind of comparison (None: the default)."""
    if of is None:
        out: dict[str, Any] = {name: None for name in expectation.predictors if name not in expectation.grouping}
        if not out:
            raise OptionError(
                f"'{expectation.outcome}' has no predictors except grouping factors: name the one to compare",
                code="incomplete",
            )
        return out
    if isinstance(of, str):
        return {of: None}
    if isinstance(of, Mapping):
        out = {str(name): wanted for name, wanted in of.items()}
    elif isinstance(of, Iterable):
        out = {str(name): None for name in of}
    else:
        raise OptionError(f"predictors are given by name, not as {of!r}", code="wrong-type")
    if not out:
        raise OptionError("of takes names of predictors; leave it out for all of them", code="incomplete")
    return out


def _contrasts(one: Predictor, wanted: Any, rows: Rows) -> list[_Contrast]:
    """The pairs of values to compare."""
    if isinstance(wanted, Sequence | np.ndarray) and not isinstance(wanted, str):
        if len(wanted) != 2:
            raise OptionError(f"'{one.name}' needs two values to compare, not {len(wanted)}", code="wrong-length")
        return [_pair(one, *wanted)]
    if one.levels is not None:
        return _level_contrasts(one, wanted)
    if wanted is None and one.binary:
        return [_pair(one, 0.0, 1.0)]
    if isinstance(wanted, str):
        return [_range(one, wanted)]
    if wanted is not None and (isinstance(wanted, bool) or not isinstance(wanted, int | float | np.number)):
        raise OptionError(f"'{one.name}' changes by a number, not by {wanted!r}", code="wrong-type")
    gap = one.checked(1.0 if wanted is None else wanted)
    if gap == 0:
        raise OptionError(f"'{one.name}' changes by a number other than 0", code="out-of-range")
    now = np.asarray(rows.values(one.name), float)
    return [_Contrast(f"{gap:+g}", now, now + gap)]


def _pair(one: Predictor, low: Any, high: Any) -> _Contrast:
    low, high = one.checked(low), one.checked(high)
    return _Contrast((_text(low), _text(high)), low, high)


def _level_contrasts(one: Predictor, wanted: Any) -> list[_Contrast]:
    assert one.levels is not None
    levels = one.levels.tolist()
    if len(levels) < 2:
        raise OptionError(f"'{one.name}' has one level only: there is nothing to compare", code="not-applicable")
    match wanted or "reference":
        case "reference":
            pairs = [(levels[0], level) for level in levels[1:]]
        case "sequential":
            pairs = list(itertools.pairwise(levels))
        case "pairwise":
            pairs = [(a, b) for k, a in enumerate(levels) for b in levels[k + 1 :]]
        case _:
            raise OptionError(
                f"'{one.name}' is a factor: compare {listed(_OF_FACTORS)}, or two levels; not {wanted!r}"
                f"{hint(str(wanted), _OF_FACTORS)}",
                code="unknown-word",
            )
    return [_pair(one, low, high) for low, high in pairs]


def _range(one: Predictor, word: str) -> _Contrast:
    """A contrast across a range of the predictor in the sample."""
    values = one.values
    match word:
        case "sd" | "2sd":
            middle, half = np.mean(values), np.std(values, ddof=1) * (0.5 if word == "sd" else 1.0)
            return _Contrast(f"{word} around the mean", middle - half, middle + half)
        case "iqr":
            low, high = np.quantile(values, [0.25, 0.75])
            return _Contrast(("q1", "q3"), low, high)
        case "minmax":
            return _Contrast(("min", "max"), values.min(), values.max())
    raise OptionError(
        f"'{one.name}' holds numbers: compare {listed(_OF_NUMBERS)}, two values, or give the change; not '{word}'"
        f"{hint(word, _OF_NUMBERS)}",
        code="unknown-word",
    )


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


# ----------------------------------------------------------------------------------------------------- slopes


def slopes(
    fit: Fitted,
    of: Any = None,
    *,
    newdata: Any = None,
    at: Any = None,
    by: Any = None,
    kind: SlopeKind = "slope",
    scale: Scale = "response",
    weights: Any = None,
    ci_prob: float = 0.89,
    rope: Any = None,
) -> Effects:
    """See :meth:`bayeslab.results.fit.Fit.slopes`."""
    if kind not in _SLOPES:
        raise OptionError(f"kind is {listed(_SLOPES)}, not {kind!r}{hint(str(kind), _SLOPES)}", code="unknown-word")
    request = _Request.of(fit, newdata, at, by, weights, scale, ci_prob, rope)
    expectation, rows = request.expectation, request.rows
    chosen = {name: predictor(fit, expectation, name) for name in _chosen(expectation, of)}
    if of is None:
        chosen = {name: one for name, one in chosen.items() if one.levels is None and not one.binary}
        if not chosen:
            raise OptionError(
                "no predictor has a slope, because all are factors or 0 and 1: fit.comparisons compares their values",
                code="not-applicable",
            )
    draws = posterior_values(fit)

    def slope(name: str, one: Predictor) -> _Parts:
        if one.levels is not None:
            raise OptionError(
                f"'{name}' is a factor, which has no slope: fit.comparisons('{name}') compares its levels",
                code="not-applicable",
            )
        now = np.asarray(rows.values(name), float)
        span = float(np.ptp(one.values)) or max(abs(float(one.values[0])), 1.0)
        low, high = now - _STEP * span, now + _STEP * span
        # The step after rounding.
        gap, places = high - low, [rows.at({name: low}), rows.at({name: high})]
        if kind != "slope":
            places.append(rows.at({}))
        values = averaged(
            places, request.groups, draws, scale, rows, unit=_slope(kind, gap, now), combine=lambda each: each[0]
        )
        return [({"term": name}, values)]

    each = {name: partial(slope, name, one) for name, one in chosen.items()}
    parts, left_out = _possible(each, everything=of is None)
    title = f"{kind} of the {quantity_of(fit, expectation, scale)}, {request.where()}"
    return replace(request.effects(title, 0.0, parts, ratios=kind != "slope"), left_out=left_out)


def _slope(kind: str, gap: np.ndarray, x: np.ndarray) -> Callable[[list[np.ndarray]], np.ndarray]:
    """A function that gives the slope at each row from the expected outcomes below, above and at its value."""

    def of(each: list[np.ndarray]) -> np.ndarray:
        shape = (1, -1) + (1,) * (each[0].ndim - 2)
        slope = (each[1] - each[0]) / gap.reshape(shape)
        if kind == "slope":
            return slope
        return slope / each[2] * (x.reshape(shape) if kind == "elasticity" else 1.0)

    return of
