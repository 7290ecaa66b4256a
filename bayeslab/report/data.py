"""The section with the data: a row for each column with a small histogram, and remarks."""

from __future__ import annotations

import numpy as np

from bayeslab.data.binding import describe
from bayeslab.data.dataset import Column
from bayeslab.plots.svg import shorten
from bayeslab.report import charts
from bayeslab.report.contract import Reported
from bayeslab.report.markup import EMPTY, Markup, element, joined, paragraph, table

__all__ = ["section"]

_COLUMNS, _BINS, _LEVELS = 60, 24, 12


def section(fit: Reported) -> Markup:
    """The content of the section; empty without data."""
    data = fit.data
    columns = data.dataset.columns
    if not columns:
        return EMPTY
    outcomes = set(fit.bound_model.outcomes())
    rows = []
    for name, column in list(columns.items())[:_COLUMNS]:
        counts = data.dataset.counts if column.dims == (data.dataset.rows,) else None
        gone = int(np.sum(column.absent() if counts is None else counts[column.absent()]))
        along = " × ".join(column.dims) if column.dims else "no names"
        role = element("span", "outcome", class_="tag") if name in outcomes else EMPTY
        title = fit.model.data.title(name)
        more = joined([element("br"), element("span", title, class_="mute small")]) if title != name else EMPTY
        cells = (joined([name, " ", role, more]), along, f"{gone:,}" if gone else "none", *_described(column, counts))
        rows.append(cells)
    parts = [paragraph(f"{describe(data)}.")]
    heads = ["column", "along", "missing", "values", "sketch"]
    parts.append(table(heads, rows, caption="Columns of the data", class_="words"))
    if len(columns) > _COLUMNS:
        parts.append(paragraph(f"{len(columns) - _COLUMNS:,} more columns are not shown.", class_="mute"))
    notes = [*data.dataset.notes, *(f"{name}: {reason}" for name, reason in data.dataset.left_out.items())]
    remarks = [*data.remarks(), *fit.bound_model.data_findings()]
    notes += [f"{message}{'; ' if advice else ''}{advice}" for *_, message, advice in remarks]
    if notes:
        parts += [element("h3", "Noticed"), element("ul", *(element("li", note) for note in notes))]
    return joined(parts)


def _described(column: Column, times: np.ndarray | None) -> tuple[str, Markup]:
    """The range or the levels of a column, and its small histogram; of folded rows the mean, which they keep."""
    present = ~column.absent()
    there, times = np.asarray(column.values)[present].ravel(), None if times is None else times[present]
    if not there.size:
        return "empty", EMPTY
    if column.text:
        levels, at = np.unique(there, return_inverse=True)
        counts = np.bincount(at, times)
        most = np.argsort(-counts, kind="stable")
        n = "1 level" if len(levels) == 1 else f"{len(levels):,} levels"
        common = (
            "" if counts.max() <= 1 else f"; most frequent {shorten(str(levels[most[0]]), 60)} ({counts.max():,.0f})"
        )
        words = f"{n}{common}"
        return words, charts.sketch(
            counts[most[:_LEVELS]].astype(float), f"Counts of the most frequent levels: {words}"
        )
    numbers = there.astype(float)
    if times is not None:
        mean = np.average(numbers, weights=times)
        return f"mean {mean:.4g}, sd {np.sqrt(np.average((numbers - mean) ** 2, weights=times)):.4g}", EMPTY
    low, high = numbers.min(), numbers.max()
    words = f"{low:.4g} to {high:.4g}, mean {numbers.mean():.4g}, sd {numbers.std():.4g}"
    distinct = np.unique(numbers)
    if len(distinct) == 1:
        return f"always {low:.4g}", EMPTY
    # Bars of values side by side are a histogram only where the values are equally far apart.
    steps = np.diff(distinct)
    if len(distinct) <= _LEVELS and np.allclose(steps, steps[0]):
        counts = np.array([np.sum(numbers == v) for v in distinct])
    else:
        counts = np.histogram(numbers, _BINS)[0]
    return words, charts.sketch(counts.astype(float), f"Histogram: {words}")
