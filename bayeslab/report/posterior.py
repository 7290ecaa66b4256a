"""The section with the posterior: a table with three intervals, densities of scalars, forest plots of vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayeslab.labelled import of_dataset
from bayeslab.plots.svg import shorten
from bayeslab.report import charts
from bayeslab.report.contract import Reported
from bayeslab.report.forest_picker import finite, picker
from bayeslab.report.markup import EMPTY, Markup, details, element, joined, paragraph, table
from bayeslab.report.priors import Priors
from bayeslab.results import convergence
from bayeslab.results.render import More, Table, headings, lines_of, shortest
from bayeslab.results.rope import Region, Regions, regions_of

__all__ = ["PROBABILITIES", "Quantities", "quantities_of", "section"]

type Array = NDArray[np.float64]

PROBABILITIES = (0.5, 0.89, 0.95)
# Maximum numbers of rows in the table, of forest plots, of rows in each, and of densities.
_ROWS, _FORESTS, _FOREST_ROWS, _DENSITIES = 2_000, 8, 40, 12
# Maximum length of a prior in the table; the section on the model has all of it.
_TEXT = 40
# Number of rows of the table that are not folded, and of regions of practical equivalence that are listed.
_VISIBLE, _REGIONS = 30, 12


@dataclass(frozen=True)
class Quantities:
    """The summary of a fit and the draws behind it.

    Attributes
    ----------
    frame : DataFrame
        The summary, with the ends of all intervals if it has any.
    blocks : list of Block
        The draws by variable, without internal ones.
    regions : mapping of str to tuple of float
        Regions of practical equivalence by row.
    """

    frame: pd.DataFrame
    blocks: list[convergence.Block]
    regions: Mapping[str, Region] = field(default_factory=dict)

    def draws(self, label: str) -> Array | None:
        """The draws of a row of the summary, shape (chain, draw); None if the row has no draws."""
        if label not in self._places:
            return None
        block, place = self._places[label]
        return np.asarray(block.values.reshape(*block.values.shape[:2], -1)[:, :, place], dtype=float)

    @cached_property
    def _places(self) -> dict[str, tuple[convergence.Block, int]]:
        return {block.label(i): (block, i) for block in self.blocks for i in range(block.size)}


def quantities_of(fit: Reported, rope: Regions | None = None) -> Quantities:
    """The summary of a fit with intervals of 50, 89 and 95 %, and the shares in regions of practical equivalence."""
    shown = [name for name in fit.posterior.data_vars if not str(name).startswith("_")]
    blocks = convergence.blocks(of_dataset(fit.posterior.to_dataset()[shown]))
    frame = fit.summary(rope=rope)
    regions = {} if rope is None else regions_of(rope, [str(label) for label in frame.index])
    if "eti89_lb" not in frame:
        return Quantities(frame, blocks, regions)
    labels = [block.label(i) for block in blocks for i in range(block.size)]
    if fit.has_group("exact_posterior") or labels != list(frame.index):
        for prob in (0.5, 0.95):
            other = fit.summary(ci_prob=prob)
            for end in ("lb", "ub"):
                frame[f"eti{100 * prob:g}_{end}"] = other[f"eti{100 * prob:g}_{end}"]
        # An exact posterior has quantiles; the shortest interval is that of its draws.
        other = fit.summary(ci_kind="hdi")
        if "hdi89_lb" in other and list(other.index) == list(frame.index):
            frame[["hdi89_lb", "hdi89_ub"]] = other[["hdi89_lb", "hdi89_ub"]]
        return Quantities(frame, blocks, regions)

    def ends(draws: Array) -> Array:
        ordered = np.sort(draws.reshape(len(draws), -1), axis=1)
        out = [convergence.quantile(ordered, p) for p in (0.25, 0.75, 0.025, 0.975)]
        out += shortest(ordered, 0.89)
        return np.where(np.isfinite(ordered).all(axis=1), out, np.nan).T

    more = convergence.in_batches(blocks, ends)
    columns = ("eti50_lb", "eti50_ub", "eti95_lb", "eti95_ub", "hdi89_lb", "hdi89_ub")
    for k, column in enumerate(columns):
        frame[column] = more[:, k]
    return Quantities(frame, blocks, regions)


def section(quantities: Quantities, priors: Priors, n_runs: int = 1) -> Markup:
    """The content of the section; empty if there is nothing to show.

    Parameters
    ----------
    priors
        The priors of the fit, which are drawn under the posterior densities.
    n_runs
        Number of runs on the page, which share the rows of their tables.
    """
    if not len(quantities.frame):
        return EMPTY
    densities, some_prior = _densities(quantities, priors)
    forests = _forests(quantities)
    parts = [_table(quantities.frame, priors, max(100, _ROWS // n_runs))]
    if quantities.regions:
        listed = [f"{label} from {low:g} to {high:g}" for label, (low, high) in quantities.regions.items()]
        shown = ", ".join(listed[:_REGIONS])
        more = f" and {len(listed) - _REGIONS:,} more" if len(listed) > _REGIONS else ""
        if len(listed) > 1 and len(set(quantities.regions.values())) == 1:
            low, high = next(iter(quantities.regions.values()))
            shown, more = f"from {low:g} to {high:g} for {len(listed):,} quantities", ""
        about = f"Regions of practical equivalence (ROPE): {shown}{more}. in_rope is the posterior probability of each."
        parts.append(paragraph(about, class_="mute"))
    # Forests are several times as tall as densities: in one grid they would leave holes.
    parts += [element("div", *pictures, class_="charts") for pictures in (densities, forests) if pictures]
    if densities or forests:
        bars = "Bars are equal-tailed credible intervals of 50, 89 and 95 %, dots are means; the table has the numbers."
        if "hdi89_lb" in quantities.frame:
            bars += " The highest-density interval (HDI) is the shortest with its probability."
        if some_prior:
            bars += " Dashed lines are prior densities, on the scale of the posterior density."
        parts.append(paragraph(bars, class_="mute"))
    # Rows of vectors on pages of several runs are in their tables.
    vectors = {name: finite(rows) for name, rows in _vectors(quantities).items()} if n_runs == 1 else {}
    parts.append(picker({name: rows for name, rows in vectors.items() if rows}))
    return joined(parts)


def _table(frame: pd.DataFrame, priors: Priors, most: int) -> Markup:
    n = len(frame)
    shown = Table.of(frame)
    lines = list(lines_of(shown, None if n <= most else most))
    head = headings(shown)
    columns = _columns(head)
    names = [word for word, _ in columns]
    with_priors = any(priors.text(str(label)) for label in frame.index)
    names += ["prior"] if with_priors else []
    rows, left_out = [], []
    for line in lines:
        if isinstance(line, More):
            left_out.append(f"{line.n_rows:,} rows of {line.name}")
            continue
        cells = []
        for _, places in columns:
            words = " to ".join(line.cells[k].text for k in places)
            status = line.cells[places[0]].status
            cells.append(words if status == "pass" else element("b", words, class_=status))
        if with_priors:
            text = priors.text(line.label)
            cells.append(element("span", shorten(text, _TEXT), title=text, class_="prior mute") if text else "–")
        rows.append((line.label, *cells))
    caption = f"{n:,} quantities" if n != 1 else "One quantity"
    made = table(["quantity", *names], rows, caption=caption, class_="sortable quantities")
    note = [paragraph(f"Left out for size: {', '.join(left_out)}.", class_="mute")] if left_out else []
    if len(rows) <= _VISIBLE:
        return joined([made, *note])
    few = table(
        ["quantity", *names],
        rows[: _VISIBLE // 2],
        caption=f"The first {_VISIBLE // 2} of {n:,} quantities",
        class_="quantities",
    )
    heading = f"all {len(rows):,} rows" if not left_out else f"{len(rows):,} rows"
    return joined([few, details(heading, made, class_="long"), *note])


def _columns(head: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
    """Headings of the table, each with its columns of the summary; both ends of an interval share a cell."""
    pairs = [("50 %", "25%", "75%"), ("89 %", "5.5%", "94.5%"), ("95 %", "2.5%", "97.5%")]
    intervals = [
        (f"{word} interval", (head.index(a), head.index(b))) for word, a, b in pairs if a in head and b in head
    ]
    if "hdi89 low" in head:
        intervals.append(("89 % HDI", (head.index("hdi89 low"), head.index("hdi89 high"))))
    used = {k for _, places in intervals for k in places}
    single = [(word, (k,)) for k, word in enumerate(head) if k not in used]
    first = [pair for pair in single if pair[0] in ("mean", "sd", "median")]
    return [*first, *intervals, *(pair for pair in single if pair not in first)]


def _ends(row: pd.Series) -> list[tuple[float, float]]:
    return [(float(row[f"eti{100 * p:g}_lb"]), float(row[f"eti{100 * p:g}_ub"])) for p in PROBABILITIES]


def _middle(row: pd.Series) -> float:
    mean = float(row["mean"])
    return float(row["median"]) if np.isnan(mean) and "median" in row else mean


def _densities(quantities: Quantities, priors: Priors) -> tuple[list[Markup], bool]:
    """Densities of scalars, then of elements of vectors that have priors by label; and whether any prior is drawn."""
    frame = quantities.frame
    if "eti95_lb" not in frame:
        return [], False
    labels = [str(label) for label in frame.index if "[" not in str(label)]
    labels += [str(label) for label in frame.index if "[" in str(label) and str(label) in priors.texts]
    out: list[Markup] = []
    some_prior = False
    for label in labels[: 3 * _DENSITIES]:
        draws, row = quantities.draws(label), frame.loc[label]
        if draws is None or len(out) == _DENSITIES or draws.size < 20:
            continue
        flat = draws.ravel()
        if not np.isfinite(flat).all() or np.ptp(flat) <= 1e-12 * abs(flat).max():
            continue
        low, high = _ends(row)[1]
        says = f"Density of {label}: mean {_middle(row):.4g}, 89 % interval {low:.4g} to {high:.4g}"
        prior = priors.density(label)
        if prior is not None:
            says += f"; dashed its prior {priors.text(label)}"
            some_prior = True
        out.append(charts.density(flat, _ends(row), label, says, prior))
    return out, some_prior


def _vectors(quantities: Quantities) -> dict[str, list[charts.Interval]]:
    """The rows of each vector of the posterior."""
    frame = quantities.frame
    if "eti95_lb" not in frame:
        return {}
    middle = frame["mean"].to_numpy(float)
    if "median" in frame:
        middle = np.where(np.isnan(middle), frame["median"].to_numpy(float), middle)
    ends = np.stack(
        [frame[f"eti{100 * p:g}_{side}"].to_numpy(float) for p in PROBABILITIES for side in ("lb", "ub")], 1
    )
    vectors: dict[str, list[charts.Interval]] = {}
    for k, label in enumerate(map(str, frame.index)):
        name, bracket, inside = label.partition("[")
        if bracket:
            low = ends[k].tolist()
            row = charts.Interval(inside[:-1], float(middle[k]), list(zip(low[::2], low[1::2], strict=True)))
            vectors.setdefault(name, []).append(row)
    return vectors


def _forests(quantities: Quantities) -> list[Markup]:
    """A forest plot for each vector of the posterior."""
    vectors, out = _vectors(quantities), []
    for name, every in list(vectors.items())[:_FORESTS]:
        rows = every[:_FOREST_ROWS]
        if not any(np.isfinite(row.middle) for row in rows):
            continue
        some = f", the first {len(rows)} of {len(every):,}" if len(rows) < len(every) else ""
        says = f"Means and intervals of {name}{some}; the table has the numbers"
        caption = element("figcaption", f"{name}{some}")
        out.append(element("figure", caption, charts.intervals(rows, says)))
    left = len(vectors) - _FORESTS
    if left > 0:
        out.append(paragraph(f"{left} more vectors are in the table only.", class_="mute"))
    return out
