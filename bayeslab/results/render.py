"""The summary table, and the display of a fit in a terminal and in a notebook.

The HTML is static (no scripts, no widgets), inherits its text colour from the page so that it is
readable in light and dark themes, and escapes all text that comes from a model or its data.
"""

from __future__ import annotations

import math
import re
import unicodedata
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from bayeslab.arrays import number
from bayeslab.digits import power_of_two
from bayeslab.errors import OptionError, RunError, hint, printable
from bayeslab.labelled import Group, Variable, of_dataset
from bayeslab.progress import duration
from bayeslab.results import checks, convergence
from bayeslab.results.convergence import Array
from bayeslab.results.tails import heavy
from bayeslab.results.verdict import LEFT, Status, Verdict, badge, findings_table, page

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from rich.console import Console

__all__ = [
    "Table",
    "chosen",
    "exact_summary",
    "fit_html",
    "headings",
    "image",
    "lines_of",
    "pick_rows",
    "plain_table",
    "print_summary",
    "print_verdict",
    "report_html",
    "shortest",
    "summary",
    "summary_table",
    "topics_html",
]

_ESS_WARN, _ESS_FAIL = 4 * checks.ESS_WARN, 4 * checks.ESS_FAIL  # for four chains
_HTML_ROWS = 1000
# Columns that are missing for a quantity without a variance.
_OF_MEANS = ("mean", "sd", "mcse_mean", "mcse_sd")


@dataclass(frozen=True, eq=False)
class Table:
    """A summary: a row for each quantity, without pandas.

    Attributes
    ----------
    index : list of str
        Labels of the rows, such as ``a[AITKIN]``.
    columns : dict of str to ndarray (rows,)
    """

    index: list[str]
    columns: dict[str, Array]

    @classmethod
    def of(cls, frame: pd.DataFrame) -> Table:
        """The table of a data frame."""
        return cls([str(label) for label in frame.index], {str(name): frame[name].to_numpy() for name in frame})

    def row(self, i: int) -> dict[str, float]:
        """The values of a row by column."""
        return {name: float(values[i]) for name, values in self.columns.items()}

    def first(self, n: int) -> Table:
        """The first rows."""
        return Table(self.index[:n], {name: values[:n] for name, values in self.columns.items()})

    def frame(self) -> pd.DataFrame:
        """The table as a data frame."""
        import pandas as pd

        return pd.DataFrame(self.columns, index=self.index)


def exact_summary(group: Group, var_names: Sequence[str] | None = None, ci_prob: float = 0.89) -> Table:
    """Mean, sd and equal-tailed interval from the group ``exact_posterior``.

    Parameters
    ----------
    group
        Values along the dimension ``statistic``: ``mean``, ``sd`` and the quantiles of the interval
        (``q5.5``, ``q94.5``).

    Returns
    -------
    Table
        Columns ``mean``, ``sd`` and the ends of the interval. An infinite mean or sd is NaN, and then there is a
        column ``median``.
    """
    number(ci_prob, "ci_prob", 0, 1, above=True, below=True)
    interval = f"eti{round(100 * ci_prob, 6):g}"
    wanted = {
        "mean": "mean",
        "sd": "sd",
        f"{interval}_lb": f"q{100 * (1 - ci_prob) / 2:g}",
        f"{interval}_ub": f"q{100 * (1 + ci_prob) / 2:g}",
    }
    statistics = group["statistic"].values.tolist()
    # The statistics in the place of the draws of one chain.
    drawn = replace(group, data_vars={n: _of_statistics(v) for n, v in group.data_vars.items()})
    variables = convergence.blocks(chosen(drawn, var_names))
    index = [block.label(i) for block in variables for i in range(block.size)]
    flat = [block.values.reshape(len(statistics), -1) for block in variables]
    every = np.concatenate(flat, axis=1) if flat else np.zeros((len(statistics), 0))
    columns = {column: every[statistics.index(statistic)] for column, statistic in wanted.items()}
    for name in ("mean", "sd"):
        columns[name] = np.where(np.isfinite(columns[name]), columns[name], np.nan)
    if any(np.isnan(columns[name]).any() for name in ("mean", "sd")):
        # A quantity without mean or sd has a median.
        columns = _inserted(columns, 2, "median", every[statistics.index("q50")])
    return Table(index, columns)


def _of_statistics(variable: Variable) -> Variable:
    values = variable.transpose("statistic", ...)
    return Variable(("chain", "draw", *values.dims[1:]), values.values[None])


def _inserted(columns: Mapping[str, Array], at: int, name: str, values: Array) -> dict[str, Array]:
    """The columns with another at a position."""
    pairs = list(columns.items())
    return dict([*pairs[:at], (name, values), *pairs[at:]])


def summary(
    posterior: xr.Dataset | xr.DataTree | Group,
    var_names: str | Sequence[str] | None = None,
    ci_prob: float = 0.89,
    ci_kind: Literal["eti", "hdi"] = "eti",
) -> pd.DataFrame:
    """The table of :func:`summary_table` as a data frame; the posterior can be a dataset or a tree of xarray."""
    if not isinstance(posterior, Group):
        node: Any = posterior
        if "posterior" in getattr(posterior, "children", ()):
            node = node["posterior"]
        posterior = of_dataset(node.to_dataset() if hasattr(node, "to_dataset") else node)
    return summary_table(posterior, var_names, ci_prob, ci_kind).frame()


def summary_table(
    posterior: Group,
    var_names: str | Sequence[str] | None = None,
    ci_prob: float = 0.89,
    ci_kind: Literal["eti", "hdi"] = "eti",
) -> Table:
    """Means, intervals and diagnostics, one row per quantity, with ArviZ's column names.

    The numbers equal those of ``arviz.summary`` (which takes minutes where this takes seconds), except
    that ``ess_tail`` is for the 5 % and 95 % quantiles, that a single chain has an ``r_hat`` (of its
    halves), and that constant quantities have no diagnostics. For a quantity whose tails are too heavy for a mean
    (:func:`bayeslab.results.tails.heavy`), mean, sd and their errors are NaN, and there is a column ``median``.

    Parameters
    ----------
    posterior
        A group with dimensions ``chain`` and ``draw``.
    var_names
        Variables to include; None: all except those whose names begin with ``_``.
    ci_prob, ci_kind
        Probability of the interval; ``eti`` (equal tails) or ``hdi`` (shortest).

    Returns
    -------
    Table
        With labels such as ``a[AITKIN]``. For a single draw (MAP), only the column ``value``.
    """
    number(ci_prob, "ci_prob", 0, 1, above=True, below=True)
    if ci_kind not in ("eti", "hdi"):
        raise OptionError(f"unknown ci_kind {ci_kind!r}; known: 'eti', 'hdi'", code="unknown-word")
    variables = convergence.blocks(chosen(posterior, var_names))
    index = [block.label(i) for block in variables for i in range(block.size)]
    interval = f"{ci_kind}{round(100 * ci_prob, 6):g}"
    names = ["mean", "sd", f"{interval}_lb", f"{interval}_ub"]
    if not variables:
        return Table([], dict.fromkeys(names, np.zeros(0)))
    n_chains, n_draws = variables[0].values.shape[:2]
    if n_chains * n_draws == 0:
        raise RunError("the posterior holds no draws yet", code="no-result")
    if n_chains * n_draws == 1:
        return Table(index, {"value": np.concatenate([block.values.reshape(-1) for block in variables])})

    described = convergence.in_batches(variables, lambda draws: _described(draws, ci_prob, ci_kind))
    names += ["ess_bulk", "ess_tail", "r_hat", "mcse_mean", "mcse_sd"]
    columns = {name: described[:, i].copy() for i, name in enumerate(names)}
    heavy = ~np.isnan(described[:, -1])
    if heavy.any():
        medians = convergence.in_batches(variables, lambda draws: np.median(draws.reshape(len(draws), -1), axis=1))
        columns = _inserted(columns, 2, "median", medians)
        for name in _OF_MEANS:
            columns[name][heavy] = np.nan
    return Table(index, columns)


def pick_rows(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The rows of a summary with these labels; a node's name stands for all of its rows.

    Parameters
    ----------
    names
        Labels such as ``b`` or ``b[size]``, compared after Unicode normalisation.

    Raises
    ------
    OptionError
        There is no such row; the message suggests the most similar name.
    """
    labels = [_composed(str(label)) for label in frame.index]
    chosen: list[int] = []
    for name in map(_composed, names):
        rows = [i for i, label in enumerate(labels) if label == name or label.startswith(f"{name}[")]
        if not rows:
            raise OptionError(f"the summary has no row '{name}'{hint(name, labels)}", code="unknown-variable")
        chosen += rows
    return frame.iloc[chosen]


def _composed(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def chosen(posterior: Group, var_names: str | Sequence[str] | None) -> Group:
    """The group of the named variables; None: all except those whose names begin with ``_``.

    Raises
    ------
    OptionError
        There is no such variable; the message suggests the most similar name.
    """
    if var_names is None:
        return posterior.only([name for name in posterior.data_vars if not name.startswith("_")])
    wanted = [var_names] if isinstance(var_names, str) else list(var_names)
    for name in wanted:
        if name not in posterior.data_vars:
            raise OptionError(
                f"no variable '{name}' in the posterior{hint(name, posterior.data_vars)}", code="unknown-variable"
            )
    return posterior.only(wanted)


def _described(draws: Array, ci_prob: float, ci_kind: str) -> Array:
    """The columns of a summary, and the shapes k of tails that are too heavy for a mean."""
    flat = draws.reshape(len(draws), -1)
    mean, sd = flat.mean(axis=1), _sd(flat)
    ordered = np.sort(flat, axis=1)
    low, high = _equal_tails(ordered, ci_prob) if ci_kind == "eti" else shortest(ordered, ci_prob)
    out = np.full((10, len(draws)), np.nan)
    out[:4] = mean, sd, low, high
    constant = convergence.is_constant(draws) & np.isfinite(flat).all(axis=1)
    out[0, constant], out[1, constant] = flat[constant, 0], 0
    broken = ~np.isfinite(flat).all(axis=1)
    out[:, broken] = np.nan
    varying = ~constant & ~broken
    if varying.any() and draws.shape[2] >= checks.MIN_DRAWS:
        out[4:9, varying] = _diagnosed(draws[varying])
        out[9, varying] = heavy(draws[varying])
    return out.T


def _sd(flat: Array) -> Array:
    """The sd of each row, computed on scaled values: squares of numbers beyond 1e±154 overflow or underflow."""
    away = flat - flat[:, :1]
    unit = power_of_two(np.abs(away).max(axis=1))
    return np.asarray((away / unit[:, None]).std(axis=1, ddof=1) * unit)


def _diagnosed(draws: Array) -> tuple[Array, ...]:
    """ess_bulk, ess_tail, r_hat, mcse_mean, mcse_sd; the errors as in Vehtari et al. (2021), appendix A."""
    r_hat, bulk, tail = convergence.r_hat_and_ess(draws)
    # Centred at one draw, because means far from zero are rounded.
    draws = draws - draws[:, :1, :1]
    # Scaled, because the error of an sd needs fourth powers.
    unit = power_of_two(np.abs(draws).max(axis=(1, 2)))
    draws = draws / unit[:, None, None]
    flat = draws.reshape(len(draws), -1)
    mcse_mean = flat.std(axis=1, ddof=1) / np.sqrt(convergence.ess(convergence.split(draws)))
    squares = (draws - flat.mean(axis=1)[:, None, None]) ** 2
    variance = squares.mean(axis=(1, 2))
    of_variance = squares.var(axis=(1, 2)) / convergence.ess(convergence.split(squares))
    return bulk, tail, r_hat, mcse_mean * unit, np.sqrt(of_variance / variance / 4) * unit


def _equal_tails(ordered: Array, prob: float) -> tuple[Array, Array]:
    return convergence.quantile(ordered, (1 - prob) / 2), convergence.quantile(ordered, 1 - (1 - prob) / 2)


def shortest(ordered: Array, prob: float) -> tuple[Array, Array]:
    """The ends of the shortest interval with a share of the draws, of sorted draws in rows."""
    inside = min(math.floor(prob * ordered.shape[1]), ordered.shape[1] - 1)
    start = np.argmin(ordered[:, inside:] - ordered[:, : ordered.shape[1] - inside], axis=1)
    row = np.arange(len(ordered))
    return ordered[row, start], ordered[row, start + inside]


# Rows and cells, the same for terminal and notebook


class _Cell(NamedTuple):
    text: str
    status: Status = "pass"


class Row(NamedTuple):
    label: str
    cells: list[_Cell]


class More(NamedTuple):
    """The number of rows of a variable that are left out."""

    name: str
    n_rows: int


def headings(table: Table) -> list[str]:
    """The headings of a summary's columns as they are shown: ``5.5%`` for ``eti89_lb``."""
    out = []
    for column in _shown(table):
        match = re.fullmatch(r"(eti|hdi)([\d.]+)_([lu])b", column)
        if match and match[1] == "eti":
            outside = (100 - float(match[2])) / 2
            out.append(f"{outside if match[3] == 'l' else 100 - outside:g}%")
        elif match:
            out.append(f"hdi{match[2]} {'low' if match[3] == 'l' else 'high'}")
        else:
            out.append(column)
    return out


def _shown(table: Table) -> list[str]:
    """The columns to show. Monte Carlo errors are not shown; they set the number of digits of the others."""
    return [column for column in table.columns if not column.startswith("mcse_")]


def lines_of(table: Table, max_rows: int | None) -> Iterator[Row | More]:
    """The rows to show, scalars first; long vectors share the remaining rows."""
    groups: dict[str, list[int]] = {}
    for i, label in enumerate(table.index):
        groups.setdefault(label.partition("[")[0], []).append(i)
    scalars = [name for name, rows in groups.items() if len(rows) == 1]
    vectors = [name for name in groups if name not in set(scalars)]
    room = shares_of([len(groups[name]) for name in vectors], None if max_rows is None else max_rows - len(scalars))
    for name, share in [*((name, 1) for name in scalars), *zip(vectors, room, strict=True)]:
        yield from (_row(table, i) for i in groups[name][:share])
        if share < len(groups[name]):
            yield More(name, len(groups[name]) - share)


# So few rows are shown rather than counted: a line "2 more rows" saves no space.
_FEW = 3


def shares_of(sizes: list[int], room: int | None) -> list[int]:
    """The number of rows for each vector: all rows of short vectors, equal numbers of the others, at least two."""
    if room is None:
        return sizes
    shares = dict.fromkeys(range(len(sizes)), 0)
    for left, i in zip(range(len(sizes), 0, -1), sorted(shares, key=sizes.__getitem__), strict=True):
        share = min(sizes[i], max(2, room // left))
        shares[i] = share if sizes[i] - share > _FEW else sizes[i]
        room -= shares[i]
    return list(shares.values())


def _row(table: Table, i: int) -> Row:
    values = table.row(i)
    spread = values.get("sd", math.nan)
    meanless = math.isnan(spread) and math.isfinite(values.get("median", math.nan))
    if meanless:
        low, high = (next(v for name, v in values.items() if name.endswith(end)) for end in ("_lb", "_ub"))
        spread = (high - low) / 4
    decimals = decimals_of(values.get("mcse_mean", math.nan), spread)
    constant = values.get("sd") == 0
    cells = [
        _Cell("–")
        if meanless and name in _OF_MEANS and math.isnan(values[name])
        else _cell(name, values[name], decimals, constant)
        for name in _shown(table)
    ]
    return Row(table.index[i], cells)


def _cell(column: str, value: float, decimals: int | None, constant: bool) -> _Cell:
    if column == "r_hat":
        if constant or not math.isfinite(value):
            return _Cell("constant") if constant else _Cell("–" if math.isnan(value) else "inf", "fail")
        status: Status = "pass" if value <= checks.R_HAT_WARN else "warn" if value <= checks.R_HAT_FAIL else "fail"
        return _Cell(f"{value:.3f}" if value < checks.APART else f"{value:.2f}", status)
    if column == "in_rope":
        return _Cell("–" if math.isnan(value) else f"{value:.3f}")
    # Quantities learned from all rows have no values by fold.
    if math.isnan(value) and (column.startswith("ess_") or column in ("median", "sd over folds")):
        return _Cell("–")
    if column.startswith("ess_"):
        status = "pass" if value >= _ESS_WARN else "warn" if value >= _ESS_WARN / 4 else "fail"
        return _Cell(f"{value:.0f}", status)
    return _Cell(number_shown(value, decimals))


def decimals_of(mcse: float, sd: float) -> int | None:
    """Decimal places to show: down to the digit of two Monte Carlo errors, or without them two digits of the sd."""
    if mcse > 0 and math.isfinite(mcse):
        return -math.floor(math.log10(2 * mcse))
    return 1 - math.floor(math.log10(sd)) if sd > 0 and math.isfinite(sd) else None


def number_shown(value: float, decimals: int | None) -> str:
    if not math.isfinite(value):
        return str(value)
    if decimals is None:
        if value == round(value) and abs(value) < 1e7:
            return f"{value:.0f}"
        decimals = max(0, 3 - math.floor(math.log10(abs(value))))
    if decimals > 6 or abs(value) >= 1e7:
        digits = math.floor(math.log10(abs(value))) + decimals if value else 0
        return f"{value:z.{min(max(digits, 0), 6)}e}"
    return f"{value:z.{max(decimals, 0)}f}"


# Terminal

_STYLES: dict[Status, str] = {"pass": "", "warn": "yellow", "fail": "bold red"}
_MARKS: dict[Status, str] = {"pass": "green", "warn": "yellow", "fail": "bold red"}


def print_summary(console: Console, summary: Table, max_rows: int | None = 25) -> None:
    """Print a summary as a table; ``max_rows=None`` prints every row of long vectors."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    for heading in headings(summary):
        table.add_column(heading, justify="right", no_wrap=True)
    left_out = []
    for line in lines_of(summary, max_rows):
        if isinstance(line, More):
            table.add_row(Text("…", style="dim"))
            left_out.append(f"{line.n_rows:,} more rows of {printable(line.name)}")
        else:
            cells = [Text(cell.text, style=_STYLES[cell.status]) for cell in line.cells]
            table.add_row(Text(printable(line.label)), *cells)
    console.print(table)
    if left_out:
        console.print(Text(f"… {', '.join(left_out)}; --all shows them", style="dim"))


def print_verdict(console: Console, verdict: Verdict) -> None:
    """Print a verdict, coloured if the terminal has colours; the text is ``str(verdict)``."""
    from rich.text import Text

    for line in str(verdict).splitlines():
        text = Text(line)
        for status, style in _MARKS.items():
            if line.startswith(status.upper()):
                text.stylize(style, 0, 4)
        console.print(text, soft_wrap=True)


# Notebook

# Styles are inline: an untrusted notebook, such as one from another computer, removes style sheets and inline SVG.
# Mid-tones are readable on white and on black; everything else inherits the page's colours.
_CELL_COLOURS: dict[Status, str] = {"warn": "#c27400", "fail": "#e04848"}
_MUTED = "opacity:0.7;margin:0.15em 0"


def fit_html(
    *,
    name: str,
    about: str = "",
    method: str = "",
    verdict: Verdict | None = None,
    summary: Table | None = None,
    timings: Mapping[str, float] | None = None,
    folder: str | PathLike[str] | None = None,
    svg: str | None = None,
    topics: Sequence[Mapping[str, Any]] = (),
) -> str:
    """A fit as static HTML for a notebook.

    Parameters
    ----------
    name, about
        Name and description of the model.
    method
        One line: the engine and why it was chosen.
    summary
        As :func:`summary_table` returns it.
    timings
        Seconds of each stage.
    folder
        The run folder.
    svg
        A drawing of the model. It is shown as an image, in which no script runs.
    topics
        Rows of :func:`topics_html`.
    """
    parts = [_title(name, verdict)]
    parts += [f"<p>{escape(about)}</p>"] if about else []
    parts += [_muted(escape(method))] if method else []
    parts += [findings_table(verdict)] if verdict else []
    parts += [_topics(topics)] if topics else []
    parts += [_summary(summary)] if summary is not None else []
    parts += [f"<details><summary>model graph</summary>{image(svg, 'model graph')}</details>"] if svg else []
    foot = [f"{escape(stage)} {duration(seconds)}" for stage, seconds in (timings or {}).items()]
    foot += [f"<code>{escape(str(folder))}</code>"] if folder is not None else []
    parts += [_muted(" · ".join(foot))] if foot else []
    return page("\n".join(parts))


def topics_html(rows: Sequence[Mapping[str, Any]], title: str) -> str:
    """Topics as static HTML, in which more probable words are larger.

    Parameters
    ----------
    rows
        For each topic ``topic``, ``share``, ``chains`` (in which it was found, or nothing) and ``words``, each a tuple
        (word, probability, sd).
    title
        The heading.
    """
    return page(f"<p>{escape(title)}</p>{_topics(rows)}")


def _topics(rows: Sequence[Mapping[str, Any]]) -> str:
    several = any(row["chains"] for row in rows)
    head = "".join(f"<th>{h}</th>" for h in ("topic", "share", *(["found by"] if several else []), "words"))
    body = []
    for row in rows:
        most = max(probability for _, probability, _ in row["words"])
        words = " ".join(_sized(word, p, sd, math.sqrt(p / most)) for word, p, sd in row["words"])
        cells = [f"{row['topic']}", f"{100 * row['share']:.1f} %", *([escape(row["chains"])] if several else [])]
        shown = "".join(f"<td>{cell}</td>" for cell in cells)
        body.append(f'<tr>{shown}<td style="{LEFT}">{words}</td></tr>')
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _sized(word: str, probability: float, sd: float, size: float) -> str:
    return (
        f'<span style="font-size:{0.8 + 0.5 * size:.2f}em" title="{probability:.3g} ± {sd:.2g}">{escape(word)}</span>'
    )


def report_html(name: str, about: str, verdict: Verdict | None, frame: pd.DataFrame) -> str:
    """A table of numbers with a heading and a verdict, as static HTML; columns without numbers are left out."""
    shown = plain_table(frame)
    head = "".join(f"<th>{escape(str(column))}</th>" for column in ("", *shown.columns))
    rows = [
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in (label, *cells)) + "</tr>"
        for label, *cells in shown.itertuples()
    ]
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    parts = [_title(name, verdict)]
    parts += [_muted(escape(about))] if about else []
    parts += [table, *([findings_table(verdict)] if verdict else [])]
    return page("\n".join(parts))


def plain_table(frame: pd.DataFrame) -> pd.DataFrame:
    """A table as text for reading: four significant digits, no empty columns."""
    shown = frame.dropna(axis="columns", how="all")
    return shown.map(lambda x: f"{x:.2f}" if isinstance(x, float) and 100 <= abs(x) < 1e6 else _four(x))


def _four(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return "" if math.isnan(value) else f"{value:.4g}"
    return str(value)


def _title(name: str, verdict: Verdict | None) -> str:
    status = f" {badge(verdict.status)}" if verdict else ""
    return f'<div style="margin:0.3em 0"><strong style="font-size:1.25em">{escape(name)}</strong>{status}</div>'


def _muted(html: str) -> str:
    return f'<p style="{_MUTED}">{html}</p>'


def _summary(table: Table) -> str:
    lines = list(lines_of(table, 15))
    out = _table(table, lines)
    if any(isinstance(line, More) for line in lines):
        size = len(table.index)
        n = min(size, _HTML_ROWS)
        words = f"all {n:,} rows" if n == size else f"the first {n:,} of {size:,} rows"
        whole = _table(table, list(lines_of(table.first(n), None)))
        out += f"<details><summary>{words}</summary>{whole}</details>"
    return out


def _table(table: Table, lines: Sequence[Row | More]) -> str:
    columns = headings(table)
    rows = []
    for line in lines:
        if isinstance(line, More):
            words = f"… {line.n_rows:,} more rows of {escape(line.name)}"
            rows.append(f'<tr><td colspan="{len(columns) + 1}" style="opacity:0.7;text-align:left">{words}</td></tr>')
        else:
            cells = "".join(
                f"<td>{escape(cell.text)}</td>"
                if cell.status == "pass"
                else f'<td style="color:{_CELL_COLOURS[cell.status]};font-weight:bold">{escape(cell.text)}</td>'
                for cell in line.cells
            )
            rows.append(f'<tr><td style="text-align:left">{escape(line.label)}</td>{cells}</tr>')
    head = "".join(f"<th>{escape(heading)}</th>" for heading in ("", *columns))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def image(svg: str, alt: str) -> str:
    """An SVG as an HTML image: no script runs in it, and untrusted notebooks show it too."""
    if "xmlns=" not in svg.partition(">")[0]:
        svg = svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    style = "display:block;max-width:100%;padding:8px;border-radius:4px;background-color:#ffffff"
    source = f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"
    return f'<img alt="{escape(alt)}" src="{source}" style="{style}">'


def prior_table(tree: xr.DataTree) -> pd.DataFrame:
    """Mean, sd (NaN where the tails are too heavy for them) and quantiles of every quantity drawn from the prior."""
    import pandas as pd

    rows = {}
    for group in ("prior", "prior_predictive"):
        for name, values in tree[group].to_dataset().data_vars.items():
            if str(name).startswith("_"):
                # Internal variables of the graph, on transformed scales.
                continue
            flat = values.to_numpy().astype(float).reshape(values.sizes["chain"] * values.sizes["draw"], -1)
            if flat.shape[1] > 1:
                flat = flat.reshape(-1, 1)
                name = f"{name}[...]"
            low, mid, high = np.quantile(flat[:, 0], [0.055, 0.5, 0.945])
            has_mean = np.isnan(heavy(flat[:, 0][None, None])[0])
            mean, sd = (flat.mean(), flat.std()) if has_mean else (math.nan, math.nan)
            rows[str(name)] = {"mean": mean, "sd": sd, "5.5%": low, "50%": mid, "94.5%": high}
    return pd.DataFrame.from_dict(rows, orient="index")
