"""A forest plot of rows of choice, which the page's script draws."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from bayeslab.report.charts import Interval
from bayeslab.report.markup import EMPTY, Markup, element

__all__ = ["finite", "picker"]

# Maximum number of rows of all vectors together.
_ROWS = 3_000


def picker(vectors: Mapping[str, Sequence[Interval]]) -> Markup:
    """Lists to choose a vector and its rows from, and an empty plot; hidden without JavaScript.

    Parameters
    ----------
    vectors
        The rows of each vector. Of very long ones the first are offered.
    """
    if not vectors:
        return EMPTY
    most = max(1, _ROWS // len(vectors))
    content = [
        {
            "name": name,
            "rows": [
                [row.label, *(float(f"{v:.6g}") for v in (row.middle, *(end for pair in row.ends for end in pair)))]
                for row in rows[:most]
            ],
            "left": max(0, len(rows) - most),
        }
        for name, rows in vectors.items()
    ]
    options = [element("option", name, value=k) for k, name in enumerate(vectors)]
    first = next(iter(vectors.values()))[:most]
    orders = [("table", "as in the table"), ("mean", "by mean"), ("width", "by width of the interval")]
    controls = [
        element("label", "Vector ", element("select", *options, data_pick="vector")),
        element(
            "label",
            "Rows that contain ",
            element("input", type="search", data_pick="search", placeholder="any text"),
        ),
        element(
            "label",
            "Order ",
            element("select", *(element("option", text, value=word) for word, text in orders), data_pick="order"),
        ),
        element(
            "label",
            "Rows (none chosen: all) ",
            element(
                "select",
                *(element("option", row.label, value=k) for k, row in enumerate(first)),
                multiple=True,
                size=6,
                data_pick="rows",
            ),
        ),
    ]
    return element(
        "div",
        element("h3", "Rows of choice"),
        element("div", *controls, class_="controls"),
        element("p", class_="answer", aria_live="polite"),
        element("div", class_="drawn"),
        class_="forest",
        hidden=True,
        data_forest=json.dumps(content, separators=(",", ":"), allow_nan=False),
    )


def finite(rows: Sequence[Interval]) -> list[Interval]:
    """The rows whose numbers are all finite."""
    return [row for row in rows if all(abs(v) < float("inf") for pair in ((row.middle,), *row.ends) for v in pair)]
