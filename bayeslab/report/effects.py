"""The section on effects: curves, comparisons, and sliders for a prediction that the page computes."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import BayeslabError
from bayeslab.report import charts
from bayeslab.report.contract import Reported, record
from bayeslab.report.markup import EMPTY, Markup, element, joined, paragraph, table
from bayeslab.report.what_if import Slider, WhatIf, what_if
from bayeslab.results.effects.predictors import expectation_of
from bayeslab.results.effects.quantities import comparisons
from bayeslab.results.fitted import Fitted
from bayeslab.results.render import Row, Table, headings, lines_of
from bayeslab.results.responses import alone
from bayeslab.results.thinned import thinned

__all__ = ["explorer", "panel", "section"]

type Array = NDArray[np.float64]

# Maximum numbers of posterior draws, of curves, of rows with comparisons, of comparisons, and of levels in a plot.
_DRAWS, _CURVES, _ROWS, _COMPARISONS, _LEVELS = 400, 9, 5_000, 60, 30
_TAIL = 0.055
# At most so many numbers are a list to choose from, not a slider.
_FEW = 3


def section(fit: Reported) -> Markup:
    """The content of the section; empty for models without an expected outcome as a function of columns."""
    few, n_draws = thinned(record(fit), _DRAWS)
    outcomes = few.bound_model.outcomes()
    if len(outcomes) > 1 and few.bound_model.of_outcome(outcomes[0]) is not None:
        return joined([_of_outcome(few, name, n_draws) for name in outcomes])
    try:
        expectation = expectation_of(few)
    except BayeslabError:
        return EMPTY
    parts: list[Markup] = []
    try:
        found = what_if(few)
        titled = fit.model.data.title
        parts += [_curves(found, n_draws, titled), element("h3", "What if"), panel(found, titled)]
    except BayeslabError as error:
        parts.append(paragraph(f"There are no curves and no sliders: {error.message}.", class_="mute"))
    if len(expectation.rows) <= _ROWS:
        parts.append(_comparisons(few))
    return joined(parts)


def _of_outcome(few: Fitted, name: str, n_draws: int) -> Markup:
    """Curves and comparisons of one of several outcomes."""
    titled = few.model.data.title
    parts: list[Markup] = [element("h3", titled(name))]
    try:
        one = alone(few, name)
        parts.append(_curves(what_if(one), n_draws, titled))
        if len(expectation_of(one).rows) <= _ROWS:
            parts.append(_comparisons(one))
    except BayeslabError as error:
        parts.append(paragraph(f"There are no curves: {error.message}.", class_="mute"))
    return joined(parts)


def explorer(fit: Reported) -> Markup:
    """The sliders alone.

    Raises
    ------
    OptionError, DataError
        As for :func:`bayeslab.report.what_if.what_if`.
    """
    return panel(what_if(thinned(record(fit), _DRAWS)[0]), fit.model.data.title)


def _curves(found: WhatIf, n_draws: int, titled: Callable[[str], str]) -> Markup:
    """The expected outcome over each predictor."""
    pictures = []
    for k, slider in enumerate(found.sliders[:_CURVES]):
        at = np.repeat(found.start()[None], len(slider.values), axis=0)
        at[:, k] = np.arange(len(slider.values))
        values = found.values(at)
        low, high = np.quantile(values, [_TAIL, 1 - _TAIL], axis=0)
        title = titled(slider.name)
        says = f"Expected outcome over {title}, with its 89 % interval"
        if slider.numeric and len(slider.values) > _FEW:
            made = charts.curve(np.asarray(slider.values, float), values.mean(axis=0), low, high, title, says)
        else:
            rows = [
                charts.Interval(_text(slider, j), float(values[:, j].mean()), [(float(low[j]), float(high[j]))])
                for j in range(min(len(slider.values), _LEVELS))
            ]
            made = charts.intervals(rows, says)
        pictures.append(element("figure", made, element("figcaption", f"over {title}")))
    about = (
        f"The {found.quantity} over each predictor with its 89 % credible interval, from {n_draws:,} posterior draws."
        f" Other predictors are at {_typical(found)}."
    )
    return joined([paragraph(about), element("div", *pictures, class_="charts")])


def _typical(found: WhatIf) -> str:
    values = [f"{slider.name} = {_text(slider, slider.start)}" for slider in found.sliders]
    return ", ".join([*values, *(f"{name} = {value}" for name, value in found.rest.items())])


def _text(slider: Slider, position: int) -> str:
    return _words(slider)[position]


def _words(slider: Slider) -> list[str]:
    """The values as text; numbers with seven digits, or as many as tell them apart."""
    if not all(isinstance(value, float) for value in slider.values):
        return [str(value) for value in slider.values]
    words = [f"{value:.7g}" for value in slider.values]
    for digits in range(8, 18):
        if len(set(words)) == len(set(slider.values)):
            break
        words = [f"{value:.{digits}g}" for value in slider.values]
    return words


def panel(found: WhatIf, titled: Callable[[str], str] = str) -> Markup:
    """Sliders and lists for the predictors, with the expected outcome; the page's script computes it.

    ``titled``: the titles of columns.
    """
    controls = []
    for k, slider in enumerate(found.sliders):
        if slider.numeric and len(slider.values) > _FEW:
            shown = element("output", _text(slider, slider.start))
            control = element(
                "input", type="range", min=0, max=len(slider.values) - 1, step=1, value=slider.start, data_slider=k
            )
        else:
            shown = EMPTY
            options = [
                element("option", _text(slider, j), value=j, selected=j == slider.start)
                for j in range(len(slider.values))
            ]
            control = element("select", *options, data_slider=k)
        controls.append(element("label", element("span", titled(slider.name)), control, shown))
    values = found.values(found.start()[None])[:, 0]
    low, high = np.quantile(values, [_TAIL, 1 - _TAIL])
    answer = element(
        "output", f"{values.mean():.4g} (89 % interval {low:.4g} to {high:.4g})", class_="answer", aria_live="polite"
    )
    content = {
        "inverse": found.inverse,
        "values": [_words(slider) for slider in found.sliders],
        "base": _numbers(found.base),
        "factor": _numbers(found.factor),
        "parts": [
            {
                "of": list(part.of),
                "left": [_numbers(c) for c in part.left.T],
                "right": [_numbers(r) for r in part.right],
            }
            for part in found.parts
        ],
        "tail": _TAIL,
    }
    fixed = ", ".join(f"{name} = {value}" for name, value in found.rest.items())
    return joined(
        [
            element(
                "div",
                *controls,
                paragraph(f"{found.quantity[:1].upper()}{found.quantity[1:]}: ", answer),
                class_="whatif",
                data_model=json.dumps(content, separators=(",", ":")),
            ),
            paragraph(f"Fixed: {fixed}.", class_="mute") if fixed else EMPTY,
            paragraph("Without JavaScript the sliders have no effect.", class_="mute noscript"),
        ]
    )


def _numbers(values: Array) -> list[float]:
    """Numbers with eleven digits, so that sums are accurate to nine."""
    return [float(f"{v:.11g}") for v in values]


def _comparisons(fit: Fitted) -> Markup:
    """Average comparisons of the expected outcome by predictor."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of what is left out, which the page says
            effects = comparisons(fit, None)
    except BayeslabError as error:
        return paragraph(f"There are no comparisons: {error.message}.", class_="mute")
    frame = effects.table
    notes = [
        paragraph(f"There is no comparison of {name}: {why}.", class_="mute") for name, why in effects.left_out.items()
    ]
    words = [str(name) for name in frame if frame[name].dtype.kind not in "fiu"]
    numbers = Table.of(frame[[name for name in frame if str(name) not in words]].reset_index(drop=True))
    labels = [" ".join(map(str, cells)) for cells in frame[words].head(_COMPARISONS).to_numpy().tolist()]
    rows = [
        (label, *(cell.text for cell in line.cells))
        for label, line in zip(labels, lines_of(numbers, None), strict=False)
        if isinstance(line, Row)
    ]
    caption = "Comparisons of the expected outcome, averaged over the rows"
    made = table(["comparison", *headings(numbers)], rows, caption=caption)
    return joined([element("h3", "Comparisons"), made, *notes])
