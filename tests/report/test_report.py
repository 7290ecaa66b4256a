"""Reports: one HTML page about any run."""

from __future__ import annotations

import json
import re
import shutil
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

import bayeslab as bl
from bayeslab.errors import OptionError
from bayeslab.fitting import prepare
from bayeslab.language.model_file import dump
from bayeslab.report import charts, style
from bayeslab.report.markup import Markup, element, joined, table, text
from bayeslab.report.page import html_of
from bayeslab.report.words import headline
from bayeslab.results.fit import Fit
from bayeslab.results.verdict import Finding, Verdict
from tests.cli.calls import call, refused
from tests.report.browser import attribute, dom, needs_browser, scripted

MODELS = Path("models")
EVIL = "<script>alert(1)</script>"
# Files inside the page, which a browser saves and never opens.
FILES = ("data:text/csv;base64,", "data:application/x-tex;base64,", "data:application/x-netcdf;base64,")
_VOID = {"br", "img", "input", "meta"}


class Page(HTMLParser):
    """The elements of a page; every element must be closed where it was opened."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html, self.open, self.tags, self.attributes = html, [], [], []
        self.texts: dict[str, list[str]] = {}
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(t) for tag, t in self.texts.items() if tag not in ("style", "script"))

    @property
    def headings(self) -> list[str]:
        return self.texts.get("h2", [])

    def values(self, name: str) -> list[str]:
        return [value for _, key, value in self.attributes if key == name]


def check_safe(page: Page) -> None:
    """One script, which the policy names by its digest; nothing is loaded; no handlers in attributes."""
    assert page.tags.count("script") == 1 and "".join(page.texts["script"]) == style.SCRIPT
    digest = b64encode(sha256(style.SCRIPT.encode()).digest()).decode()
    policy = dict(part.strip().partition(" ")[::2] for part in page.values("content")[0].split(";"))
    assert policy["default-src"] == "'none'" and policy["script-src"] == f"'sha256-{digest}'"
    assert policy["img-src"] == "data:" and "connect-src" not in policy and "font-src" not in policy
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert not set(page.tags) & {"link", "iframe", "object", "embed", "base", "form", "foreignobject"}
    links = page.values("href")
    files = [value for value in links if value.startswith(FILES)]
    assert all(value.startswith("#") for value in links if value not in files)
    assert len(files) == len(page.values("download"))
    assert all(value.startswith("data:image/") for value in page.values("src"))
    assert "@import" not in page.html and "url(http" not in page.html and "url(//" not in page.html
    ids = page.values("id")
    assert len(ids) == len(set(ids)) and {value[1:] for value in links if value not in files} <= set(ids)
    assert len(page.html.encode()) < 3e6


@pytest.fixture(scope="module")
def fit():
    """y = mu + noise of sd 1, mu ~ Normal(0, 1): the posterior is normal with mean sum(y) / (n + 1)."""
    model = bl.Model(
        name="level",
        about="One level.",
        data={"rows": "day"},
        model=bl.Graph(nodes={"mu": "Normal(0, 1)", "y[day]": "Normal(mu, 1)"}),
        seed=1,
    )
    table = pd.DataFrame({"y": [0.3, 1.9, 1.1, 0.2, np.nan, 2.4], "kind": list("abbaab")})
    return bl.fit(model, table.dropna(), runs=None, progress=False)


# -------------------------------------------------------------------------------- elements


def test_text_and_attributes_are_escaped_and_markup_is_not():
    made = element(
        "p", EVIL, element("b", "1 < 2"), title='" onclick="x', class_="a", hidden=True, lang=None, width=1.5
    )
    assert made == (
        '<p title="&quot; onclick=&quot;x" class="a" hidden width="1.5">&lt;script&gt;alert(1)&lt;/script&gt;'
        "<b>1 &lt; 2</b></p>"
    )
    assert text("a\x1b[2J\u202e\ud800") == "a\\x1b[2J\\u202e?" and text(Markup("<b>")) == "<b>"
    assert joined(["<", Markup("<br>")], ",") == "&lt;,<br>"
    assert element("img", alt="'") == '<img alt="&#x27;">'
    rows = Page(table([EVIL], [(EVIL,)], caption=EVIL)).text
    assert rows.count(EVIL) == 3


# -------------------------------------------------------------------------------- one run


def test_the_page_of_a_fit(fit):
    page = Page(html_of({"level": fit}))
    check_safe(page)
    assert page.headings == ["Verdict", "Posterior", "Fit to the data", "Model", "Data", "Reproduce"]
    assert page.texts["h1"][0].strip() == "level" and "PASS" in page.texts["span"]
    assert "One level." in page.text and "fitted to 5 rows (day) by the method exact" in page.text
    assert page.html.startswith("<!doctype html>") and page.values("lang") == ["en"]
    assert (
        "width=device-width" in page.html and "prefers-color-scheme: dark" in page.html and "@media print" in page.html
    )
    # Each chart has an accessible name, each picture a text that stands for it.
    assert page.tags.count("svg") <= page.tags.count("title") - 1
    assert all(
        dict(zip(("a", "b"), pair, strict=True))["b"] for pair in [(k, v) for _, k, v in page.attributes if k == "alt"]
    )
    assert html_of({"level": fit}) == page.html


def test_intervals_are_those_of_the_posterior(fit):
    """The conjugate posterior: precision n + 1, mean sum(y) / (n + 1)."""
    y = np.array([0.3, 1.9, 1.1, 0.2, 2.4])
    truth = stats.norm(y.sum() / (len(y) + 1), 1 / np.sqrt(len(y) + 1))
    cells = re.search(r'<th scope="row">mu</th>(.*?)</tr>', html_of({"level": fit}))[1]
    shown = [float(x) for x in re.findall(r"-?\d+\.\d+", cells)]
    ends = [end for p in (0.5, 0.89, 0.95) for end in truth.interval(p)]
    assert shown[:8] == pytest.approx([truth.mean(), truth.std(), *ends], abs=0.006)
    # Of a symmetric density, the shortest interval has equal tails; that of 4,000 draws has an error of several per cent.
    assert shown[8:] == pytest.approx(truth.interval(0.89), abs=0.1)


def test_the_first_results_of_regressions_are_slopes():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.normal(size=30), "g": np.arange(30) % 3, "y": rng.normal(size=30)})
    data["z"] = data["y"] + rng.normal(size=30)
    formulas = {"y": {"formula": "y ~ x"}, "z": {"formula": "z ~ x + y"}}
    for spec, first in (
        ({"family": "regression", "formula": "y ~ x + (1 | g)"}, "b[x]"),
        ({"family": "regressions", "responses": formulas}, "y_b[x]"),
    ):
        fit = bl.fit(bl.Model(model=spec), data, progress=False, runs=None, seed=1)
        assert f"Results: {first} is " in headline(fit, fit.summary())


def test_intervals_of_draws_are_their_quantiles(fit):
    draws = np.random.default_rng(1).gamma(2.0, size=(4, 250))
    html = html_of({"a": with_posterior(fit, {"g": (("chain", "draw"), draws)})})
    cells = re.search(r'<th scope="row">g</th>(.*?)</tr>', html)[1]
    shown = [float(x) for x in re.findall(r"-?\d+\.\d+", cells)][2:10]
    assert shown[:6] == pytest.approx(np.quantile(draws, [0.25, 0.75, 0.055, 0.945, 0.025, 0.975]), abs=0.01)
    # Of all intervals between two draws with 89 % of the draws, the shortest.
    ordered, inside = np.sort(draws.ravel()), int(0.89 * draws.size)
    low, high = min(zip(ordered, ordered[inside:], strict=False), key=lambda ends: ends[1] - ends[0])
    assert "89 % HDI" in html and shown[6:] == pytest.approx([low, high], abs=0.01)


def test_the_model_has_its_equations(fit):
    assert "mu ~ Normal(0, 1)\ny[day] ~ Normal(mu, 1)<" in html_of({"level": fit})
    model = bl.Model(name="line", model=bl.Regression(formula="y ~ x", priors={"b": "Normal(0, 1)"}), seed=1)
    line = bl.fit(model, pd.DataFrame({"y": [1.0, 2.0, 4.0], "x": [1.0, 2.0, 3.0]}), runs=None, progress=False)
    code = re.search(r"Equations</h3><pre[^>]*><code>(.*?)</code>", html_of({"line": line}), re.DOTALL)[1]
    equations = dict(re.split(" [~=] ", one) for one in code.splitlines())
    assert equations["b[predictor]"] == "Normal(0, 1)" and "Intercept_centred - " in equations["Intercept"]
    assert "Intercept = " in code and "b[predictor] ~ " in code


def test_densities_and_forests_have_a_grid_each(fit):
    rng = np.random.default_rng(1)
    draws = {"g": (("chain", "draw"), rng.normal(size=(4, 50)))}
    draws["theta"] = (("chain", "draw", "item"), rng.normal(size=(4, 50, 3)))
    grids = html_of({"a": with_posterior(fit, draws, item=list("xyz"))}).split('class="charts"')
    assert any("Density of g" in part for part in grids)
    assert not any("Density of g" in part and "Means and intervals of theta" in part for part in grids)


@needs_browser
@pytest.mark.slow(why="processes")
@pytest.mark.parametrize("allowed", [True, False])
def test_the_model_file_is_copied(fit, tmp_path, allowed):
    page = html_of({"level": fit})
    assert '<button type="button" class="copy" aria-live="polite" hidden>' in page
    reader = """
    const body = document.body.dataset, write = async (text) => {if (ALLOWED) body.copied = text; else throw new Error()};
    Object.defineProperty(navigator, "clipboard", {value: {writeText: write}});
    for (const part of document.querySelectorAll("details")) part.open = true;
    const button = document.querySelector("button.copy");
    button.click();
    setTimeout(() => {body.selected = getSelection().toString(); body.says = button.textContent});
    """
    shown = dom(scripted(page, reader.replace("ALLOWED", json.dumps(allowed))), tmp_path)
    assert attribute(shown, "data-copied" if allowed else "data-selected").strip() == dump(fit.model).strip()
    assert attribute(shown, "data-says") == ("Copied" if allowed else "Selected: copy it with the keyboard")


def with_posterior(fit, variables, **coords):
    """A fit with other draws."""
    shape = next(iter(variables.values()))[1].shape
    coords |= {"chain": np.arange(shape[0]), "draw": np.arange(shape[1])}
    tree = xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(variables, coords=coords),
            "observed_data": fit.data_tree["observed_data"].to_dataset(),
        }
    )
    verdict = Verdict((Finding("warn", "R-hat", "g", 1.02, "1 of 1 quantity > 1.01", "run longer"),))
    return Fit(fit.bound_model, tree, verdict, {**fit.info, "method": "nuts"}, None)


def test_chains_have_traces_and_advice(fit):
    draws = np.random.default_rng(1).normal(size=(4, 1000))
    page = Page(html_of({"a": with_posterior(fit, {"mu": (("chain", "draw"), draws)})}))
    check_safe(page)
    assert "Sampler" in page.headings and "details" in page.tags
    assert f"Traces show {charts.TRACE_POINTS} of the 1,000 draws of each chain" in page.text
    assert any("Trace of mu: R-hat 1.00" in words for words in page.texts["title"])
    for words in ("R-hat", "Compares the variance", "1 of 1 quantity", "run longer", "usable with care"):
        assert words in page.text


def test_ranks_of_equal_chains_are_level():
    """Two chains that alternate in rank: every bin has the same count, so every line is the level line."""
    values = np.arange(400.0)
    svg = charts.ranks(np.stack([values[::2], values[1::2]]), "a", "ranks")
    level = re.search(r'y1="([\d.]+)"[^>]*class="zero"', svg)[1]
    for path in re.findall(r'd="M([^"]+)"', svg):
        heights = [float(point.split()[1]) for point in path.split("L")]
        assert heights == pytest.approx([float(level)] * len(heights), abs=0.06)
    tied = charts.ranks(np.ones((2, 100)), "a", "ranks")
    first, second = re.findall(r'd="M([^"]+)"', tied)
    assert first == second


@needs_browser
@pytest.mark.slow(why="processes")
def test_a_wide_graph_keeps_a_readable_size_in_a_narrow_window(tmp_path):
    nodes = {f"a_long_name_{k}": "Normal(0, 1)" for k in range(12)}
    nodes["y[day]"] = f"Normal({' + '.join(nodes)}, 1)"
    model = bl.Model(name="wide", data={"rows": "day"}, model=bl.Graph(nodes=nodes), seed=1)
    page = html_of({"wide": bl.fit(model, pd.DataFrame({"y": [0.3, 1.9]}), runs=None, progress=False)})
    reader = 'document.body.dataset.wide = document.querySelector(".graph svg").getBoundingClientRect().width'
    shown = dom(scripted(page, reader), tmp_path, "--window-size=500,800")
    assert float(attribute(shown, "data-wide")) >= 600


def test_a_sketch_has_the_scale_of_the_numbers(fit):
    """Few values far apart are not bars side by side."""
    data = pd.DataFrame({"y": [0.0, 1.0, 2.0, 30.0]})
    page = html_of({"a": bl.fit(fit.model, data, runs=None, progress=False)})
    sketch = re.search(r"<title>Histogram: 0 to 30[^<]*</title>(.*?)</svg>", page)[1]
    at = [float(x) for x in re.findall(r'<rect x="([\d.]+)"', sketch)]
    assert max(at[:-1]) < 15 and at[-1] > 110


def test_divergences_are_marked_in_pairs_and_energies_have_their_fraction(fit):
    rng = np.random.default_rng(1)
    draws = {name: (("chain", "draw"), rng.normal(size=(2, 100))) for name in ("mu", "tau", "nu")}
    nuts = with_posterior(fit, draws)
    assert "Pairs and divergences" not in html_of({"a": nuts}) and "Energy" not in html_of({"a": nuts})
    diverging = np.zeros((2, 100), bool)
    diverging[[0, 1, 1], [3, 5, 99]] = True
    # Of 100 alternating energies, 99 changes are of 2 and all deviations of 1; a line has changes of 1.
    energy = np.stack([np.tile([-1.0, 1.0], 50), np.arange(100.0)])
    statistics = {"diverging": (("chain", "draw"), diverging), "energy": (("chain", "draw"), energy)}
    nuts.data_tree["sample_stats"] = xr.DataTree(xr.Dataset(statistics))
    page = Page(html_of({"a": nuts}))
    check_safe(page)
    assert sum(words.startswith("Draws of ") for words in page.texts["title"]) == 3
    marked = [d for tag, key, d in page.attributes if key == "d" and f'd="{d}" class="dots marked"' in page.html]
    assert [d.count("M") for d in marked] == [3, 3, 3] and "Divergent transitions (3) are marked" in page.text
    assert f"is 3.96, {0.99 / np.var(np.arange(100)):.2f} by chain" in page.text
    assert "Densities of the energies less their mean, and of their changes" in page.texts["title"]


@pytest.mark.slow(why="large")
def test_heavy_draws_give_a_small_page(fit):
    """2,000 quantities of 4 × 500 draws, whose names are long."""
    rng = np.random.default_rng(1)
    names = [f"{k:04d} {'x' * 60}" for k in range(3000)]
    draws = rng.normal(size=(4, 200, len(names))).astype(np.float32)
    page = Page(html_of({"big": with_posterior(fit, {"theta": (("chain", "draw", "item"), draws)}, item=names)}))
    check_safe(page)
    assert "Left out for size: 1,000 rows of theta." in page.text and "the first 40 of 3,000" in page.text


@pytest.mark.parametrize("values", [[0.0] * 8, [1e300, -1e300], [1e-300, 2e-300], [5.0], [0, 1, 1, 0], [1e8, 1e8 + 1]])
def test_charts_of_odd_numbers(values):
    draws = np.asarray(values, float)
    for made in (
        charts.density(draws, [(draws.min(), draws.max())] * 3, "a", "says"),
        charts.intervals([charts.Interval("a", float(draws[0]), [(float(draws.min()), float(draws.max()))])], "says"),
        charts.trace(draws[None], "a", "says"),
        charts.check_curves(draws, draws[None], "a", "says"),
        charts.sketch(np.abs(draws), "says"),
    ):
        Page(made)
        assert "nan" not in made and "inf" not in made


def test_a_smoothed_density_has_area_one():
    """The curve of many normal draws, read off the drawing, is the normal density."""
    draws = stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
    made = charts.check_curves(draws, draws[None], "a", "says")
    path = re.findall(r'd="M([^"]+)"', made)[-1]
    x, y = np.array([[float(v) for v in point.split()] for point in path.split("L")]).T
    height = (150 - y) / (150 - y).max()
    at = np.linspace(draws.min(), draws.max(), 5)[2]
    assert x[height.argmax()] == pytest.approx(x[0] + (x[-1] - x[0]) * (at - draws.min()) / np.ptp(draws), abs=4)
    scaled = height / (height.sum() * (x[1] - x[0]))
    low, high = draws.min() - 0.08 * np.ptp(draws), draws.max() + 0.08 * np.ptp(draws)
    grid = low + (high - low) * (x - 8) / 324
    density = stats.norm.pdf(grid) * (high - low) / 324
    assert scaled == pytest.approx(density, abs=0.03 * density.max())


# -------------------------------------------------------------------------------- hostile names


def hostile_model():
    states = [f"{EVIL}1", '" onmouseover="x']
    return bl.Model(
        name="evil",
        about=f"{EVIL}</title></style></script>",
        model=bl.BayesNet(
            variables={
                f"{EVIL}a": {"states": states},
                "</script><b>": {"states": states, "parents": [f"{EVIL}a"]},
            }
        ),
        seed=1,
    )


def test_a_hostile_run_stays_text(tmp_path, capsys):
    rng = np.random.default_rng(1)
    states = np.array([f"{EVIL}1", '" onmouseover="x'])
    rows = pd.DataFrame(
        {f"{EVIL}a": states[rng.integers(2, size=40)], "</script><b>": states[rng.integers(2, size=40)]}
    )
    made = bl.fit(hostile_model(), rows, runs=tmp_path, name="run", progress=False)
    info = json.loads((made.folder / "run.json").read_text())
    info["name"] = EVIL
    info["versions"][EVIL] = EVIL
    info["timings"][EVIL] = 1.0
    info["verdict"]["findings"].append(
        {"status": "warn", "check": EVIL, "where": EVIL, "value": None, "message": EVIL, "advice": EVIL}
    )
    (made.folder / "run.json").write_text(json.dumps(info))
    assert call(capsys, "report", made.folder)[0] == 0
    page = Page((made.folder / "report.html").read_text(encoding="utf-8"))
    check_safe(page)
    assert page.text.count(EVIL) > 15 and "b" not in page.tags
    shutil.rmtree(made.folder / "result.zarr")
    assert call(capsys, "report", made.folder, "--force")[0] == 1
    page = Page((made.folder / "report.html").read_text(encoding="utf-8"))
    check_safe(page)
    assert page.text.count(EVIL) > 5


# -------------------------------------------------------------------------------- runs without a result


def level_file(folder: Path, **changes: str) -> Path:
    (folder / "t.csv").write_text("day,y\n1,0.3\n2,1.9\n3,1.1\n")
    model = {
        "bayeslab": 1,
        "name": "level",
        "data": {"table": "t.csv", "rows": "day"},
        "model": {"family": "graph", "nodes": {"mu": "Normal(0, 1)", "y[day]": "Normal(mu, 1)"}},
        "seed": 1,
    }
    (folder / "level.yaml").write_text(json.dumps(model | changes))
    return folder / "level.yaml"


def test_a_run_that_has_not_ended_gives_a_page_that_says_so(tmp_path, capsys):
    run = prepare(level_file(tmp_path), runs=tmp_path / "runs")
    status, out, err = call(capsys, "report", run)
    assert status == 1 and not out and err.startswith("error: ") and err.count("\n") == 1
    page = Page((run / "report.html").read_text())
    check_safe(page)
    assert "UNFINISHED" in page.texts["span"] and "--resume" in page.text and "Normal(mu, 1)" in page.text
    assert "chains are finished" in page.text


def test_a_failed_run_gives_its_error(tmp_path, capsys):
    run = prepare(level_file(tmp_path), runs=tmp_path / "runs")
    info = json.loads((run / "run.json").read_text()) | {"status": "failed", "error": "the disk is full"}
    (run / "run.json").write_text(json.dumps(info))
    assert call(capsys, "report", run, "-o", tmp_path / "page.html")[0] == 1
    page = Page((tmp_path / "page.html").read_text())
    assert "FAILED" in page.texts["span"] and "the disk is full" in page.text and "correct the cause" in page.text


@pytest.mark.parametrize("damage", ["result", "info", "data"])
def test_a_damaged_run_gives_a_page_that_says_so(tmp_path, capsys, damage):
    run = bl.fit(level_file(tmp_path), runs=tmp_path / "runs", progress=False).folder
    if damage == "result":
        shutil.rmtree(run / "result.zarr")
    else:
        (run / {"info": "run.json", "data": "data.npz"}[damage]).write_text("{")
    shown = call(capsys, "show", run)
    status, out, err = call(capsys, "report", run)
    assert (status, out, err) == shown and status == 1
    page = Page((run / "report.html").read_text())
    check_safe(page)
    assert "DAMAGED" in page.texts["span"] and "no result" in page.text


def test_without_a_run_there_is_no_page(tmp_path, capsys):
    refused(capsys, "run.no-such-file", "nothing", "report", tmp_path / "nothing", "-o", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


# -------------------------------------------------------------------------------- files


def test_a_page_never_replaces_a_file_unasked(fit, tmp_path):
    page = tmp_path / "page.html"
    made = fit.report(page)
    assert page.read_text(encoding="utf-8") == made.html and "bytes" in repr(made)
    with pytest.raises(OptionError) as caught:
        fit.report(page)
    assert caught.value.code == "option.file-exists"
    page.write_text("mine")
    assert fit.report(page, force=True).html == page.read_text(encoding="utf-8")
    for path, code in ((tmp_path / "no" / "page.html", "option.no-such-file"), (tmp_path, "option.not-a-file")):
        with pytest.raises(OptionError) as caught:
            made.save(path, force=True)
        assert caught.value.code == code


def test_a_report_in_a_notebook_runs_no_script(fit):
    shown = Page(fit.report()._repr_html_())
    assert shown.tags[-1] == "iframe" and shown.values("sandbox") == [""]


def test_the_command_writes_into_the_run_folder(tmp_path, capsys):
    run = bl.fit(level_file(tmp_path), runs=tmp_path / "runs", progress=False).folder
    status, out, _ = call(capsys, "report", run, "--json")
    answer = json.loads(out)
    assert status == 0 and answer["verdicts"] == {"level": "pass"} and answer["file"] == str(run / "report.html")
    assert answer["bytes"] == (run / "report.html").stat().st_size
    refused(capsys, "option.file-exists", "report.html.*--force", "report", run)
    # The report does not make the run another one.
    assert call(capsys, "show", run)[0] == 0


# -------------------------------------------------------------------------------- several runs


@pytest.mark.slow(why="compiles")
def test_several_runs_are_compared(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = bl.fit(level_file(tmp_path), runs="runs", progress=False).folder
    wide = {"family": "graph", "nodes": {"mu": "Normal(0, 9)", "y[day]": "Normal(mu, 1)"}}
    second = bl.fit(level_file(tmp_path, name="wide", model=wide), runs="runs", progress=False).folder
    unfinished = prepare(level_file(tmp_path), runs="runs", name="later")
    status, _, err = call(capsys, "report", first, second, unfinished)
    assert status == 1 and "later" in err
    page = Page(Path("report.html").read_text())
    check_safe(page)
    assert page.headings[0] == "Comparison" and page.tags.count("article") == 3
    assert "elpd_diff" in page.text and "UNFINISHED" in page.texts["span"] and "has no result" in page.text
    # The evidence of n normal values with a normal mean is a multivariate normal density.
    y = [0.3, 1.9, 1.1]
    for sd in (1, 9):
        truth = stats.multivariate_normal(np.zeros(3), np.eye(3) + sd**2).logpdf(y)
        assert f"{truth:.4g}" in page.text


def test_runs_of_different_data_are_side_by_side(fit):
    other = bl.fit(fit.model, pd.DataFrame({"y": [1.0, 2.0]}), runs=None, progress=False)
    page = Page(html_of({"one": fit, "two": other}))
    check_safe(page)
    assert "are not compared" in page.text and page.headings.count("Posterior") == 2


# -------------------------------------------------------------------------------- families

FAMILIES = [
    ("trees", {}, ["Posterior", "Fit to the data"], []),
    ("geyser_clusters", {"method": "em"}, ["Clusters"], ["The components over the data"]),
    ("coal_regimes", {"method": "em"}, ["Hidden states"], ["The most probable path"]),
    ("timber_net", {}, ["Network"], ["Probabilities without evidence"]),
    ("sachs", {"draws": 200, "tune": 100}, ["Edges", "Sampler"], ["The most probable edges", "from row to column"]),
    ("galaxies", {"draws": 100, "tune": 50}, ["Clusters", "Sampler"], ["Clusters of the point estimate"]),
    ("notes", {"draws": 300, "tune": 200}, ["Topics"], ["The largest topics", "Topics: shares"]),
    ("co2", {"method": "map"}, ["Function"], ["The function with its 89 % credible interval"]),
    ("eight_schools", {}, ["Posterior", "Fit to the data"], []),
    ("play_tennis_rule", {}, ["Scores", "Predictions of the learner"], ["Confusion matrix of held-out rows"]),
    ("misconception", {}, ["Network"], ["Probabilities without evidence"]),
]


@pytest.mark.slow(why="statistical")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("name", "options", "headings", "words"), FAMILIES, ids=[case[0] for case in FAMILIES])
def test_every_family_has_its_sections(name, options, headings, words):
    page = Page(bl.fit(MODELS / f"{name}.yaml", runs=None, progress=False, seed=1, **options).report().html)
    check_safe(page)
    assert {"Verdict", "Model", "Reproduce", *headings} <= set(page.headings)
    for text_ in words:
        assert text_ in page.text
    assert "There is no picture" not in page.text and "There is no table" not in page.text


def test_clusters_are_listed_with_their_rows(tmp_path):
    rows = pd.DataFrame({"who": list("abcdef"), "x": [0.0, 9.0, 0.1, 9.1, 0.2, 9.2]})
    model = bl.Model(data={"rows": "who"}, model={"family": "mixture", "columns": ["x"], "components": 2}, seed=1)
    page = Page(bl.fit(model, rows, "em", runs=None, progress=False).report().html)
    assert "Rows of each cluster" in page.text
    assert {"a, c, e", "b, d, f"} <= set(re.findall(r"[a-f], [a-f], [a-f]", page.text))
