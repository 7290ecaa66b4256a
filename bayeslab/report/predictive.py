"""The section with posterior predictive checks: replications beside the data, and statistics with p-values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import BayeslabError
from bayeslab.report import charts, left_out
from bayeslab.report.contract import Reported, record
from bayeslab.report.markup import EMPTY, Markup, element, joined, paragraph, table
from bayeslab.results.ppc import STATISTICS, replications, two_sided
from bayeslab.results.thinned import thinned

__all__ = ["section"]

type Array = NDArray[np.float64]

# Maximum number of posterior draws to replicate, of outcomes, and of cells in all replications together.
_DRAWS, _OUTCOMES, _CELLS = 1_000, 6, 20_000_000
_STATISTICS = ("mean", "sd", "min", "max")
# p-values to be marked.
_SMALL = 0.05


class Checked(NamedTuple):
    """The content of the section, and whether it contains a check."""

    content: Markup
    checked: bool


def section(fit: Reported) -> Checked:
    """Replications beside the data; a sentence with the reason if there are none."""
    if fit.model.model.is_learner:
        return Checked(EMPTY, False)
    rows = sum(int(np.size(column.values)) for column in fit.data.dataset.columns.values()) or 1
    few, n_draws = thinned(record(fit), int(np.clip(_CELLS // rows, 100, _DRAWS)))
    try:
        both = replications(few, "posterior")
    except BayeslabError as error:
        return Checked(paragraph(f"There is no predictive check: {error.message}.", class_="mute"), False)
    pictures, lines = [], []
    for name, (observed, drawn) in list(both.items())[:_OUTCOMES]:
        pictures.append(_picture(fit, name, fit.model.data.title(name), observed, drawn))
        column = fit.data.dataset.columns.get(name)
        if column is None or not column.text:
            lines += [_line(name, word, observed, drawn) for word in _STATISTICS]
    thin = "" if n_draws >= fit.posterior.sizes["chain"] * fit.posterior.sizes["draw"] else ", evenly spaced"
    at = f"{n_draws:,} posterior draws{thin}" if n_draws > 1 else "the point estimate"
    about = f"Data that the fit would produce, at {at}, beside the observed data."
    parts: list[object] = [paragraph(about), element("div", *pictures, class_="charts")]
    if lines:
        heads = ["outcome", "statistic", "data", "replications", "89 % interval", "p-value"]
        rule = (
            "A p-value near 0: replications are hardly ever as extreme as the data, so the model misses this feature."
        )
        parts += [table(heads, lines, caption="Statistics of data and replications"), paragraph(rule, class_="mute")]
    if len(both) > _OUTCOMES:
        parts.append(paragraph(f"{len(both) - _OUTCOMES} more outcomes are not shown.", class_="mute"))
    parts.append(left_out.section(few, both))
    return Checked(joined(parts), True)


def _line(name: str, word: str, observed: Array, drawn: Array) -> tuple[Any, ...]:
    real, made = float(STATISTICS[word](observed)), np.asarray(STATISTICS[word](drawn), float)
    made = made[np.isfinite(made)]
    if not made.size:
        return (name, word, f"{real:.4g}", "–", "–", "–")
    low, high = np.quantile(made, [0.055, 0.945])
    p = two_sided(real, made)
    shown = "below 0.001" if p < 0.001 else f"{p:.3f}"
    marked: object = element("b", shown, class_="warn") if p < _SMALL else shown
    return (name, word, f"{real:.4g}", f"{made.mean():.4g}", f"{low:.4g} to {high:.4g}", marked)


def _picture(fit: Reported, name: str, title: str, observed: Array, drawn: Array) -> Markup:
    finite = drawn[np.isfinite(drawn)]
    whole = bool(np.all(observed == np.floor(observed)) and np.all(finite[:5000] == np.floor(finite[:5000])))
    if whole and finite.size:
        values = np.unique(np.concatenate([np.unique(observed), np.unique(finite)]))
        if len(values) <= 60 and values[-1] - values[0] <= 60:
            return _bars(fit, name, title, observed, drawn, np.arange(values[0], values[-1] + 1))
    says = f"Densities of {title}: the data (thick) over {min(charts.REPLICATIONS, len(drawn))} replications (thin)"
    return element("figure", charts.check_curves(observed, drawn, title, says), element("figcaption", says))


def _bars(fit: Reported, name: str, title: str, observed: Array, drawn: Array, values: Array) -> Markup:
    labels = fit.data.labels.get(name)
    named = labels is not None and len(labels) > values.max() and values.min() >= 0
    words = [str(labels[int(v)]) if named and labels is not None else f"{v:.0f}" for v in values]
    shares = np.array([(drawn == v).mean(axis=1) for v in values])
    low, high = np.quantile(shares, [0.055, 0.945], axis=1)
    real = np.array([(observed == v).mean() for v in values])
    says = f"Relative frequencies of {title}: the data (bars), and replications (dots with 89 % intervals)"
    chart = charts.check_bars(words, real, low, high, shares.mean(axis=1), title, says)
    return element("figure", chart, element("figcaption", says))
