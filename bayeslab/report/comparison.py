"""The section that compares runs, with their predictive densities if their data are the same."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from bayeslab.errors import BayeslabError
from bayeslab.report import charts
from bayeslab.report.contract import Reported, record
from bayeslab.report.judgement import badge
from bayeslab.report.judgement import section as findings
from bayeslab.report.markup import EMPTY, Markup, element, joined, paragraph, table
from bayeslab.report.words import seconds, size_of
from bayeslab.results.compare import Comparison, compare
from bayeslab.results.render import plain_table

__all__ = ["section"]


def section(fits: Mapping[str, Reported], anchors: Mapping[str, str]) -> Markup:
    """The content of the section.

    Parameters
    ----------
    fits
        The readable runs by name.
    anchors
        Identifier of each run's section on the page.
    """
    rows = []
    for name, fit in fits.items():
        size = size_of(fit)
        status = fit.verdict.status
        rows.append(
            (
                element("a", name, href=f"#{anchors[name]}"),
                f"{fit.model.name} ({fit.model.model.family})",
                fit.method,
                badge(status.upper(), status),
                size.rows or "none",
                size.draws,
                seconds(sum(fit.timings.values())),
            )
        )
    heads = ["run", "model", "method", "verdict", "data", "posterior", "time"]
    parts = [table(heads, rows, caption="The runs", class_="words")]
    return joined([*parts, _predictive(fits)]) if len(fits) > 1 else joined(parts)


def _predictive(fits: Mapping[str, Reported]) -> Markup:
    learners = [name for name, fit in fits.items() if fit.model.model.is_learner]
    if learners:
        text = "Learners are compared by cross-validation: bayeslab compare with the model files."
        return paragraph(text, class_="mute")
    try:
        found = compare({name: record(fit) for name, fit in fits.items()}, refit=False, progress=False)
    except BayeslabError as error:
        return paragraph(f"Their predictions are not compared: {error.message}.", class_="mute")
    frame = plain_table(found.table)
    rows = [(str(name), *cells) for name, *cells in frame.itertuples()]
    made = table(["run", *map(str, frame.columns)], rows, caption="Comparison, the best model first")
    about = (
        "elpd is the expected log predictive density of a new observation, summed over the data: larger is better. A"
        " difference matters if it is several times its standard error (se_diff)."
    )
    return joined([_chart(found), paragraph(about), made, findings(found.verdict)])


def _chart(found: Comparison) -> Markup:
    frame: pd.DataFrame = found.table
    if "elpd" not in frame or not np.isfinite(frame["elpd"]).all():
        return EMPTY
    rows = [(str(name), float(row["elpd"]), float(row["se"])) for name, row in frame.iterrows()]
    says = "Expected log predictive density of each model with one standard error; the table has the numbers"
    return element(
        "figure", charts.points(rows, says), element("figcaption", "elpd of each model ± one standard error")
    )
