"""The summary against ArviZ's, and what people see: digits, shortening, escaping."""

from __future__ import annotations

import io
import math
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from rich.console import Console

from bayeslab.labelled import of_dataset
from bayeslab.results import render
from bayeslab.results.checks import judge_mcmc, point_verdict
from bayeslab.results.render import Table, fit_html, print_summary, print_verdict, summary
from bayeslab.results.verdict import Finding, Verdict
from tests.refusals import refused


@pytest.fixture
def rng():
    return np.random.default_rng(31)


@pytest.fixture
def posterior(rng):
    draws = ("chain", "draw")
    return xr.Dataset(
        {
            "a": ((*draws, "county"), rng.gamma(1, 1, size=(4, 301, 30))),
            "mu": (draws, 1.46 + 0.05 * rng.normal(size=(4, 301))),
            "k": (draws, rng.integers(0, 5, size=(4, 301))),
            "L": (
                (*draws, "e", "e2"),
                np.stack([np.ones((4, 301, 2)), rng.normal(size=(4, 301, 2))], axis=3),
            ),
        },
        coords={
            "county": ["AITKIN", "bold", *(f"C{i}" for i in range(28))],
            "e": ["x", "y"],
            "e2": ["x", "y"],
        },
    )


def printed(frame, width=100, **options):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    print_summary(console, Table.of(frame), **options)
    return console.file.getvalue()


def frame_of(sizes):
    index = [f"{name}[{i}]" if n else name for name, n in sizes.items() for i in range(n or 1)]
    return pd.DataFrame({"mean": 1.0, "sd": 0.5, "r_hat": 1.0, "mcse_mean": 0.01}, index=index)


def table_of(sizes):
    return Table.of(frame_of(sizes))


@pytest.mark.parametrize("unit", [2.0**-900, 2.0**900])
def test_sd_of_numbers_whose_squares_are_no_floats(rng, unit):
    draws = rng.normal(3, 1, size=(4, 100))
    given = summary(xr.Dataset({"x": (("chain", "draw"), draws * unit)})).loc["x", "sd"]
    assert given == pytest.approx(draws.std(ddof=1) * unit, rel=1e-12, abs=0)


# The table


@pytest.mark.parametrize("ci_kind", ["eti", "hdi"])
def test_summary_equals_arviz(posterior, ci_kind):
    arviz_stats = pytest.importorskip("arviz_stats")
    varying = posterior[["a", "mu", "k"]]
    ours = summary(varying, ci_kind=ci_kind, ci_prob=0.8)
    data = xr.DataTree.from_dict({"posterior": varying})
    theirs = arviz_stats.summary(data, ci_kind=ci_kind, ci_prob=0.8, round_to="none")
    assert list(ours.columns) == list(theirs.columns)
    assert list(ours.index) == list(theirs.index)
    columns = [column for column in ours.columns if column != "ess_tail"]
    np.testing.assert_allclose(ours[columns], theirs[columns], rtol=1e-10, atol=1e-12)
    tail = data["posterior"].to_dataset().azstats.ess(method="tail", prob=(0.05, 0.95))
    np.testing.assert_allclose(ours.loc["mu", "ess_tail"], tail["mu"], rtol=1e-10)
    np.testing.assert_allclose(ours["ess_tail"][:30], tail["a"], rtol=1e-10)


def test_intervals_hold_their_probability(rng):
    data = xr.Dataset({"x": (("chain", "draw"), rng.exponential(size=(4, 25_000)))})
    tails = summary(data, ci_prob=0.5).loc["x"]
    assert tails["eti50_lb"] == pytest.approx(-math.log(0.75), abs=0.02)
    assert tails["eti50_ub"] == pytest.approx(-math.log(0.25), abs=0.03)
    shortest = summary(data, ci_prob=0.5, ci_kind="hdi").loc["x"]
    assert shortest["hdi50_lb"] == pytest.approx(0, abs=0.01)
    assert shortest["hdi50_ub"] == pytest.approx(math.log(2), abs=0.02)
    assert "eti57_lb" in summary(data, ci_prob=0.57)
    assert "eti99.9_ub" in summary(data, ci_prob=0.999)


def test_monte_carlo_errors_are_those_of_independent_draws(rng):
    data = xr.Dataset({"x": (("chain", "draw"), 3 * rng.normal(size=(4, 5000)))})
    row = summary(data).loc["x"]
    assert row["mcse_mean"] == pytest.approx(3 / math.sqrt(20_000), rel=0.1)
    assert row["mcse_sd"] == pytest.approx(3 / math.sqrt(2 * 20_000), rel=0.1)


def test_constants_have_no_diagnostics(posterior):
    frame = summary(posterior, "L")
    assert list(frame.index) == ["L[x, x]", "L[x, y]", "L[y, x]", "L[y, y]"]
    row = frame.loc["L[x, x]"]
    assert tuple(row[:4]) == (1, 0, 1, 1)
    assert row[4:].isna().all()
    assert frame.loc["L[x, y]"].notna().all()
    lines = {line.split("  ")[0]: line for line in printed(frame).splitlines()}
    assert "constant" in lines["L[x, x]"]
    assert "constant" not in lines["L[x, y]"]


def test_draws_that_are_not_finite_leave_a_gap_and_no_warning(rng):
    x = rng.normal(size=(4, 100, 3))
    x[0, 0, 1], x[..., 2] = math.inf, math.nan
    frame = summary(xr.Dataset({"x": (("chain", "draw", "g"), x)}))
    assert frame.loc["x[0]"].notna().all()
    assert frame.loc[["x[1]", "x[2]"]].isna().all(axis=None)
    assert "nan" in printed(frame)


def test_of_a_single_draw_only_the_value(posterior):
    point = posterior.isel(chain=[0], draw=[0])
    frame = summary(point)
    assert list(frame.columns) == ["value"]
    assert frame.loc["a[bold]", "value"] == point["a"].values[0, 0, 1]
    assert "a[bold]" in printed(frame, max_rows=None)


def test_few_draws_have_no_diagnostics(posterior):
    frame = summary(posterior.isel(draw=slice(3)), "mu")
    assert frame[["mean", "sd"]].notna().all(axis=None)
    assert frame[["ess_bulk", "r_hat", "mcse_mean"]].isna().all(axis=None)
    with refused("run.no-result"):
        summary(posterior.isel(draw=slice(0)))


def test_trees_and_their_nodes_are_the_same(posterior):
    tree = xr.DataTree.from_dict({"posterior": posterior})
    pd.testing.assert_frame_equal(summary(tree, ["mu", "k"]), summary(posterior, ["mu", "k"]))
    pd.testing.assert_frame_equal(summary(tree["posterior"], ["mu"]), summary(posterior, "mu"))


def test_wrong_options_are_named(posterior):
    with refused("option.unknown-variable", "'mu_'.*'mu'"):
        summary(posterior, ["a", "mu_"])
    with refused("option.out-of-range", "ci_prob"):
        summary(posterior, ci_prob=89)
    with refused("option.unknown-word", "ci_kind"):
        summary(posterior, ci_kind="qi")


# Digits


@pytest.mark.parametrize(
    ("value", "mcse", "sd", "shown"),
    [
        (1.459911, 0.00078, 0.0489, "1.460"),
        (1.459911, 0.02, 0.9, "1.46"),
        (-0.0004, 0.02, 0.9, "0.00"),
        (123456.7, 48.0, 3000.0, "123457"),
        (3.2105e-9, 4e-11, 3e-9, "3.21e-09"),
        (2.5e9, 1e6, 1e8, "2.500e+09"),
        (2.34567, math.nan, 0.31, "2.35"),
        (126312.4, math.nan, math.nan, "126312"),
        (0.73141, math.nan, math.nan, "0.7314"),
        (0.0, math.nan, 0.0, "0"),
        (math.nan, math.nan, math.nan, "nan"),
        (-math.inf, math.nan, math.nan, "-inf"),
        (0.0, 1e-9, 1e-7, "0e+00"),
    ],
)
def test_digits_stop_where_the_error_begins(value, mcse, sd, shown):
    assert render.number_shown(value, render.decimals_of(mcse, sd)) == shown


# The terminal


def test_scalars_come_first_and_long_vectors_are_cut(posterior):
    text = printed(summary(posterior), max_rows=12)
    lines = text.splitlines()
    assert lines[0].split() == ["mean", "sd", "5.5%", "94.5%", "ess_bulk", "ess_tail", "r_hat"]
    assert [line.split()[0] for line in lines[1:4]] == ["mu", "k", "a[AITKIN]"]
    assert lines[1].split()[1].startswith("1.4")
    assert "a[bold]" in text, "labels are not markup"
    assert "a[C27]" not in text
    assert "… 24 more rows of a; --all shows them" in lines[-1]
    assert sum("[" in line for line in lines) == 6 + 4
    whole = printed(summary(posterior), max_rows=None)
    assert "a[C27]" in whole
    assert "--all" not in whole


@pytest.mark.parametrize(
    ("sizes", "room", "shares"),
    [
        ([85, 4], 20, [16, 4]),
        ([85, 90], 20, [10, 10]),
        ([3, 50, 3], 20, [3, 14, 3]),
        ([50] * 30, 10, [2] * 30),
        ([50], -5, [2]),
        ([11], 10, [11]),
        ([7], None, [7]),
        ([], 5, []),
    ],
)
def test_vectors_share_the_room(sizes, room, shares):
    assert render.shares_of(sizes, room) == shares


def test_every_row_is_shown_or_counted():
    for max_rows in (1, 5, 20, 200):
        lines = list(render.lines_of(table_of({"a": 85, "b": 0, "c": 4, "d": 1, "e": 40}), max_rows))
        rows = [line for line in lines if isinstance(line, render.Row)]
        left = sum(line.n_rows for line in lines if isinstance(line, render.More))
        assert len(rows) + left == 85 + 1 + 4 + 1 + 40
        assert [row.label for row in rows[:2]] == ["b", "d[0]"]


def test_bad_diagnostics_are_marked(rng):
    x = rng.normal(size=(4, 500, 2))
    x[0, :, 1] += 5
    rows = list(render.lines_of(Table.of(summary(xr.Dataset({"x": (("chain", "draw", "g"), x)}))), None))
    assert [cell.status for cell in rows[0].cells] == ["pass"] * 7
    assert [cell.status for cell in rows[1].cells][4:] == ["fail", "fail", "fail"]


def test_the_verdict_prints_as_its_text():
    verdict = point_verdict(False, 3.0, "ABNORMAL [red]stop[/red]", restarts_agree=False)
    console = Console(file=io.StringIO(), width=40, color_system=None)
    print_verdict(console, verdict)
    assert console.file.getvalue() == f"{verdict}\n"


# The notebook


class Parsed(HTMLParser):
    """Tags, attributes and text; closing tags must match."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], ""
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("br", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text += data


EVIL = "<img src=x onerror=alert(1)></td></div><script>alert(2)</script>"


def test_nothing_from_a_model_becomes_markup():
    verdict = Verdict((Finding("fail", EVIL, EVIL, 1.0, EVIL, EVIL),))
    frame = pd.DataFrame({"mean": [1.0] * 40, "sd": 1.0, EVIL: 2.0}, index=[f"{EVIL}[{EVIL}]"] * 40)
    svg = f'<svg onload="alert(3)"><script>alert(4)</script><text>{EVIL}</text></svg>'
    html = fit_html(
        name=EVIL,
        about=EVIL,
        method=EVIL,
        verdict=verdict,
        summary=Table.of(frame),
        timings={EVIL: 1.0},
        folder=EVIL,
        svg=svg,
    )
    page = Parsed(html)
    assert "script" not in page.tags
    assert "svg" not in page.tags
    assert page.tags.count("img") == 1
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert page.text.count(EVIL) > 10
    Parsed(verdict._repr_html_())


def test_a_fit_shows_all_its_parts(posterior):
    verdict = judge_mcmc({"posterior": of_dataset(posterior)})
    html = fit_html(
        name="radon",
        about="Radon in homes.",
        method="nuts: no closed form applies",
        verdict=verdict,
        summary=Table.of(summary(posterior)),
        timings={"compile": 12.34, "sample": 3.21, "total": 75.2},
        folder="runs/radon",
        svg='<svg viewBox="0 0 1 1"></svg>',
    )
    page = Parsed(html)
    for words in (
        "radon",
        "Radon in homes.",
        "no closed form",
        "a[AITKIN]",
        "a[C27]",
        "all 36 rows",
        "runs/radon",
    ):
        assert words in page.text
    for finding in verdict.findings:
        assert finding.message in page.text
    assert "compile 12 s · sample 3.2 s · total 1 min 15 s" in page.text
    assert "more rows of a" in page.text
    assert dict(page.attributes)["src"].startswith("data:image/svg+xml;base64,")


def test_a_fit_with_little_to_say():
    page = Parsed(fit_html(name="m", verdict=point_verdict(True, 1e-5), summary=table_of({"b": 0})))
    assert "a point, not a posterior" in page.text
    assert "details" not in page.tags
    assert Parsed(fit_html(name="m")).text.strip() == "m"


def test_nothing_depends_on_a_style_sheet():
    """A notebook that is not trusted drops style sheets, classes' rules and inline SVG."""
    verdict = Verdict((Finding("fail", "r_hat", "mu", 1.2, "R-hat 1.2", "draw more"),))
    page = Parsed(fit_html(name="m", verdict=verdict, summary=table_of({"b": 0}), svg="<svg></svg>"))
    assert not {"style", "svg", "script"} & set(page.tags)
    assert "class" not in dict(page.attributes)
    assert any("background-color:#c62828" in str(value) for name, value in page.attributes if name == "style")


def test_a_few_rows_are_shown_not_counted():
    def hidden(rows: int) -> list[str]:
        frame = pd.DataFrame({"mean": 1.0}, index=[f"a[{i}]" for i in range(rows)])
        return re.findall(r"… [\d,]+ more rows", fit_html(name="m", summary=Table.of(frame)))

    assert hidden(15) == hidden(18) == [] and hidden(19) == ["… 4 more rows"]


def test_a_verdict_shows_in_a_notebook():
    verdict = point_verdict(True, 1e-5, restarts_agree=False)
    page = Parsed(verdict._repr_html_())
    assert "PASS" in page.text
    assert "WARN" in page.text
    assert all(finding.advice in page.text for finding in verdict.findings)


def test_quantities_too_heavy_for_a_mean_have_a_median(capsys):
    """In the table, in the notebook and as JSON: no mean and no sd, but the median and the interval."""
    from bayeslab.cli.toolbox.shared import print_json

    rng = np.random.default_rng(3)
    draws = {"c": 5 + rng.standard_cauchy((4, 1000)), "x": rng.normal(size=(4, 1000))}
    frame = summary(xr.Dataset({n: (("chain", "draw"), v) for n, v in draws.items()}))
    assert frame.columns[:5].tolist() == ["mean", "sd", "median", "eti89_lb", "eti89_ub"]
    assert frame.loc["c", ["mean", "sd", "mcse_mean", "mcse_sd"]].isna().all()
    assert frame.loc["c", "median"] == np.median(draws["c"]) and frame.loc["c", "r_hat"] < 1.01
    assert frame.loc["x"].notna().all()
    assert "median" not in summary(xr.Dataset({"x": (("chain", "draw"), draws["x"])}))
    console = Console(width=120)
    with console.capture() as printed:
        print_summary(console, Table.of(frame))
    first = next(line for line in printed.get().splitlines() if line.startswith("c")).split()
    assert first[:3] == ["c", "–", "–"] and first[3].startswith(("4.9", "5.0"))
    assert "<td>–</td><td>–</td>" in fit_html(name="m", summary=Table.of(frame))
    print_json(frame.to_dict("index"))
    assert '"mean": null' in capsys.readouterr().out


@pytest.mark.parametrize("offset", [1e9, -1e12])
def test_summaries_do_not_depend_on_where_zero_is(offset):
    """Draws far from zero, and the same draws with the offset taken off again, which rounds nothing."""
    rng = np.random.default_rng(4)
    far = offset + np.stack([rng.normal(size=(4, 500)), rng.exponential(size=(4, 500))], axis=-1)
    near = far - offset
    one, other = (
        summary(xr.Dataset({"a": (("chain", "draw", "k"), draws)}), ci_kind=kind)
        for draws, kind in ((far, "eti"), (near, "eti"))
    )
    for name in ("sd", "ess_bulk", "ess_tail", "mcse_mean", "mcse_sd"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-6, err_msg=name)
    # Rounding says which of the two draws beside the median is nearer to it.
    np.testing.assert_allclose(one["r_hat"], other["r_hat"], atol=1 / 2000)
    for name in other.columns[[0, 2, 3]]:
        # No better than the last bits of a double of that size.
        apart = one[name] - offset - other[name]
        np.testing.assert_allclose(apart, 0, atol=8 * np.spacing(abs(offset)), err_msg=name)


def test_the_error_of_an_sd_of_two_values():
    """Half of the draws are -1 and half 1: no square is off the variance, whatever the digits of their fourth powers."""
    rng = np.random.default_rng(0)
    draws = 0.1 + 0.3 * rng.permuted(np.tile([-1.0, 1.0], (4, 100)), axis=1)
    frame = summary(xr.Dataset({"a": (("chain", "draw"), draws)}))
    assert frame["mcse_sd"].iloc[0] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("unit", [2.0**-500, 2.0**500])
def test_errors_of_summaries_have_the_unit_of_the_draws(unit):
    """Fourth powers of draws of size 1e150 are beyond floats, and those of draws of size 1e-150 are zero."""
    draws = np.random.default_rng(5).normal(size=(4, 200))
    before, after = (summary(xr.Dataset({"a": (("chain", "draw"), own)})) for own in (draws, unit * draws))
    for name in ("mean", "sd", "mcse_mean", "mcse_sd"):
        assert after[name].iloc[0] / unit == pytest.approx(before[name].iloc[0], rel=1e-12)
