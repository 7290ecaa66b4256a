"""Plots of effects: expected outcomes, comparisons and slopes against predictors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayeslab.errors import OptionError, hint, listed
from bayeslab.plots.effects import Panel, Series, curves
from bayeslab.posterior.expectation import Expectation, Scale
from bayeslab.results.effects.estimates import Effects
from bayeslab.results.effects.predictors import Predictor, expectation_of, predictor, quantity_of
from bayeslab.results.effects.quantities import comparisons, predictions, slopes
from bayeslab.results.effects.rows import sample
from bayeslab.results.fitted import Fitted

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["What", "plot_effects"]

type What = Literal["predictions", "comparisons", "slopes"]

_WHAT = ("predictions", "comparisons", "slopes")
# Number of points of a curve, and maximum number of panels.
_POINTS, _MOST_PANELS = 60, 12


def plot_effects(
    fit: Fitted,
    of: str | Sequence[str] | None = None,
    *,
    by: str | Sequence[str] | None = None,
    what: What = "predictions",
    kind: str | None = None,
    at: Mapping[str, Any] | None = None,
    scale: Scale = "response",
    ci_prob: float = 0.89,
    data: bool = True,
) -> Any:
    """See :meth:`bayeslab.results.fit.Fit.plot_effects`."""
    if what not in _WHAT:
        raise OptionError(f"what is {listed(_WHAT)}, not {what!r}{hint(str(what), _WHAT)}", code="unknown-word")
    if what == "predictions" and kind is not None:
        raise OptionError("kind is for comparisons and slopes, not for predictions", code="conflict")
    expectation = expectation_of(fit)
    names = _names(expectation, of)
    groups = [] if by is None else [by] if isinstance(by, str) else list(by)
    rest = dict(at or {})
    options: dict[str, Any] = {"scale": scale, "ci_prob": ci_prob} | ({} if kind is None else {"kind": kind})
    if what == "comparisons" and not groups:
        return comparisons(fit, names, at=rest or None, **options).plot()
    panels: list[Panel] = []
    legend, null = "", None
    for name in names:
        axes = groups if what == "comparisons" else [name, *groups]
        if len(set(axes)) < len(axes) or set(axes) & rest.keys() or (what == "comparisons" and name in axes):
            raise OptionError(f"'{name}' occurs twice in of, by and at", code="duplicate")
        values = {n: _points(predictor(fit, expectation, n), first=k == 0) for k, n in enumerate(axes)}
        here = values | rest
        match what:
            case "predictions":
                effects = predictions(fit, at=here, **options)
            case "comparisons":
                effects = comparisons(fit, name, at=here, **options)
            case _:
                effects = slopes(fit, name, at=here, **options)
        cells = _observed(fit, expectation, axes) if data and what == "predictions" and scale == "response" else None
        one = predictor(fit, expectation, axes[0])
        titled, named = fit.model.data.title, one.levels is not None or one.binary
        made, legend = _panels(effects, axes, expectation, cells, titled, named=named)
        panels += made
        null = effects.null
    if len(panels) > _MOST_PANELS:
        raise OptionError(
            f"{len(panels)} panels are too many for one figure: choose predictors (of), or give fewer columns (by)",
            code="too-large",
        )
    quantity = quantity_of(fit, expectation, scale)
    label = quantity if what == "predictions" else f"{kind or _USUAL[what]} of the {quantity}"
    if what == "comparisons":
        label = f"{label}: {', '.join(map(fit.model.data.title, names))}"
    return curves(panels, label, legend, null)


_USUAL = {"comparisons": "difference", "slopes": "slope"}


def _names(expectation: Expectation, of: str | Sequence[str] | None) -> list[str]:
    if of is None:
        return [name for name in expectation.predictors if name not in expectation.grouping]
    names = [of] if isinstance(of, str) else [str(name) for name in of]
    if not names:
        raise OptionError("of takes names of predictors; leave it out for all of them", code="incomplete")
    return names


def _points(one: Predictor, *, first: bool) -> list[Any]:
    """The values of a predictor in a plot: many along the horizontal axis, few for series and panels."""
    if one.levels is not None or one.binary:
        return one.summary("levels")
    if first:
        return [float(x) for x in np.linspace(one.values.min(), one.values.max(), _POINTS)]
    return one.representative()


def _observed(fit: Fitted, expectation: Expectation, axes: list[str]) -> tuple[list[np.ndarray], np.ndarray] | None:
    """The rows of the sample: their values along the axes, and their outcomes."""
    outcomes = expectation.observed
    if outcomes is None:
        return None
    rows = sample(fit)
    assert rows.positions is not None
    kept = np.isin(expectation.rows, rows.positions)
    return [rows.values(name) for name in axes], outcomes[kept]


def _panels(
    effects: Effects,
    axes: list[str],
    expectation: Expectation,
    cells: tuple[list[np.ndarray], np.ndarray] | None,
    titled: Callable[[str], str],
    *,
    named: bool,
) -> tuple[list[Panel], str]:
    """Panels for the combinations of facets; the first column that varies gives the series, others give the facets.

    ``titled``: the titles of columns. ``named``: whether the values along the horizontal axis are names, or 0 and 1.
    """
    import pandas as pd

    frame = pd.DataFrame(effects.table)
    candidates = [expectation.outcome] if expectation.levels else []
    candidates += [name for name in ("contrast",) if name in frame and frame[name].nunique() > 1] + axes[1:]
    series_name, facets = (candidates[0], candidates[1:]) if candidates else ("", [])
    lower, upper = [name for name in frame if str(name).startswith("eti")] or ["mean", "mean"]
    center = frame["mean"].where(frame["mean"].notna(), frame["median"]) if "median" in frame else frame["mean"]
    frame = frame.assign(_center=center)
    out = []
    order = {name: k for k, name in enumerate(axes)}
    for key, part in _split(frame, facets):
        title = ", ".join(f"{titled(name)} = {_text(value)}" for name, value in zip(facets, key, strict=True))
        pieces = _split(part, [series_name] if series_name else [])
        series = [
            Series(
                _text(label[0]) if label else "",
                _as_names(piece[axes[0]].to_numpy()) if named else piece[axes[0]].to_numpy(),
                *(piece[column].to_numpy() for column in ("_center", lower, upper)),
            )
            for label, piece in pieces
        ]
        data = None
        if cells is not None:
            values, outcomes = cells
            inside = np.ones(len(outcomes), bool)
            for name, value in zip(facets, key, strict=True):
                if name in order and (fixed := _same(values[order[name]], part[name].unique(), value)) is not None:
                    inside &= fixed
            group = np.full(len(outcomes), -1)
            if series_name in order:
                known = frame[series_name].unique()
                for number, (label, _) in enumerate(pieces):
                    if (these := _same(values[order[series_name]], known, label[0])) is not None:
                        group[these] = number
            x = _as_names(values[0]) if named else values[0]
            data = x[inside], outcomes[inside], group[inside]
        out.append(Panel(titled(axes[0]), title, series, data))
    return out, titled(series_name) if series_name else ""


def _same(cells: np.ndarray, known: np.ndarray, value: Any) -> np.ndarray | None:
    """Mask of the rows with a value; None for a number, of which only some values are plotted."""
    if not set(map(_text, np.unique(cells).tolist())) <= set(map(_text, known.tolist())) | {_text(value)} and (
        cells.dtype.kind in "fiu"
    ):
        return None
    return np.array([_text(cell) == _text(value) for cell in cells.tolist()])


def _as_names(values: np.ndarray) -> np.ndarray:
    return np.array([_text(value) for value in values.tolist()])


def _split(frame: pd.DataFrame, names: list[str]) -> list[tuple[tuple[Any, ...], pd.DataFrame]]:
    """The parts of a table with equal values in some columns, in order of appearance."""
    if not names:
        return [((), frame)]
    return [
        (key if isinstance(key, tuple) else (key,), part)
        for key, part in frame.groupby(names, sort=False, dropna=False)
    ]


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
