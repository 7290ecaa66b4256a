"""The page of an influence diagram: rules and utilities of published and of hand-computed decisions."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import bayeslab as bl
from bayeslab.decisions.influence import InfluenceDiagram
from bayeslab.report import decisions, markup
from bayeslab.report.page import explorer_of
from tests.cli.calls import call
from tests.report.browser import dom, needs_browser, scripted
from tests.report.test_accessibility import audited
from tests.report.test_report import Page, check_safe

OIL = Path("models/oil.yaml")
# P(ill) = 0.2; P(+ | ill) = 0.9, P(+ | well) = 0.3. A treatment costs 10, an untreated illness 40.
P_POSITIVE = 0.2 * 0.9 + 0.8 * 0.3


def clinic() -> InfluenceDiagram:
    """Treat, knowing a symptom; a variable that is never in its third state; names of markup."""
    return InfluenceDiagram(
        states={
            "<ill>": ("no", "<b>yes</b>"),
            "symptom": ("-", "+"),
            "age": ("young", "old", "never"),
            "treat": ("no", "yes"),
        },
        parents={"symptom": ("<ill>",), "treat": ("symptom",), "loss": ("<ill>", "treat")},
        tables={
            "<ill>": np.array([0.8, 0.2]),
            "symptom": np.array([[0.7, 0.3], [0.1, 0.9]]),
            "age": np.array([0.5, 0.5, 0]),
        },
        utilities={"loss": np.array([[0, -10], [-40, -10]])},
        decisions=("treat",),
    )


def tables(html: str) -> dict[str, list[list[str]]]:
    """The cells of each row of each table, by caption."""
    found = {}
    for caption, body in re.findall(r"<caption>(.*?)</caption>.*?<tbody>(.*?)</tbody>", html, re.DOTALL):
        rows = re.findall(r"<tr>(.*?)</tr>", body)
        found[caption] = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]
    return found


def test_the_oil_wildcatter(capsys, tmp_path):
    """Raiffa (1968): the test is worth its price, and drilling depends on its result."""
    path = tmp_path / "page.html"
    assert call(capsys, "explore", OIL, "-o", path)[0] == 0
    html = path.read_text(encoding="utf-8")
    page = Page(html)
    check_safe(page)
    assert html == bl.explore(OIL).html == bl.explore(bl.load(OIL)).html
    assert "Expected utility of the best decisions: 22.5" in page.text
    assert page.tags.count("button") == 3 and page.values("data-finding") == ["-1", "0", "1", "2"]
    found = tables(html)
    assert next(rows for name, rows in found.items() if name.startswith("Options of test,")) == [
        ["yes", "22.5"],
        ["no", "20"],
    ]
    assert found["Best rule of test"] == [["yes"]]
    rule = {tuple(row[:-1]): row[-1] for row in found["Best rule of drill"]}
    assert {state: rule["yes", state] for state in ("open", "closed", "diffuse")} == {
        "open": "yes", "closed": "yes", "diffuse": "no",
    }  # fmt: skip
    assert len(rule) == 3
    assert found["Value of knowing more first"] == [["oil", "test", "32.5"], ["oil", "drill", "32.5"]]
    # What is known needs no test: its price is lost.
    for state, best in {"dry": 0, "wet": 50, "soaking": 200}.items():
        assert f"Expected utility of the best decisions given oil = {state}: {best}" in page.text
        options = next(rows for name, rows in found.items() if name.startswith(f"Options of test given oil = {state},"))
        assert options == [["yes", f"{best - 10}"], ["no", f"{best}"]]


def test_findings_before_the_first_decision():
    html = explorer_of(clinic())
    page = Page(html)
    check_safe(page)
    # Untreated, the loss is 40 P(ill | symptom), which is 8 / 3 without the symptom and above 10 with it.
    untreated = {"+": -40 * 0.2 * 0.9 / P_POSITIVE, "-": -40 * 0.2 * 0.1 / (1 - P_POSITIVE)}
    best = P_POSITIVE * -10 + (1 - P_POSITIVE) * untreated["-"]
    assert f"Expected utility of the best decisions: {best:.6g}" in page.text
    found = tables(html)
    assert found["Best rule of treat"] == [["-", "no"], ["+", "yes"]]
    for state, utility in untreated.items():
        assert f"given symptom = {state}: {max(utility, -10):.6g}" in page.text
        options = next(
            rows for name, rows in found.items() if name.startswith(f"Options of treat given symptom = {state},")
        )
        assert options == [["no", f"{utility:.6g}"], ["yes", "-10"]]
    # The state of probability 0 has a button but no answer.
    assert page.tags.count("button") == 7 and page.values("data-finding") == ["-1", "0", "1", "2", "3", "4", "5"]
    # Illness itself known before: treat the ill, for 2 on average.
    value = found["Value of knowing more first"][0]
    assert value == ["&lt;ill&gt;", "treat", f"{-2 - best:.6g}"]


@pytest.mark.parametrize(
    ("limit", "says"), [("_FINDINGS", "no buttons for 7 states"), ("_BYTES", "too long for a page")]
)
def test_large_diagrams_have_no_buttons(monkeypatch, limit, says):
    monkeypatch.setattr(markup if limit == "_BYTES" else decisions, limit, 3)
    page = Page(explorer_of(clinic()))
    assert says in page.text and "button" not in page.tags and page.values("data-finding") == ["-1"]


def test_without_chance_before_the_decision_there_are_no_buttons():
    diagram = InfluenceDiagram(
        states={"bet": ("no", "yes"), "win": ("no", "yes")},
        parents={"win": ("bet",), "money": ("win",)},
        tables={"win": np.array([[1, 0], [0.4, 0.6]])},
        utilities={"money": np.array([0, 5])},
        decisions=("bet",),
    )
    page = Page(explorer_of(diagram))
    assert "button" not in page.tags and "Expected utility of the best decisions: 3" in page.text


@needs_browser
@pytest.mark.slow(why="processes")
def test_clicks_show_the_answers(tmp_path):
    press = "document.querySelector(\"[data-variable='{}'][data-state='{}']\").click();".format
    seen = "document.body.dataset.seen = [...document.querySelectorAll('[data-finding]')].filter((e) => !e.hidden).map((e) => e.dataset.finding);"
    for number, (clicks, shown) in enumerate(
        [([], -1), ([(1, 1)], 3), ([(1, 1), (0, 1)], 1), ([(0, 1)] * 2, -1), ([(2, 2)], -1)]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        made = dom(scripted(explorer_of(clinic()), "".join(press(*at) for at in clicks) + seen), folder)
        assert re.search(r'data-seen="([^"]*)"', made)[1] == str(shown)
        if clicks == [(1, 1)]:
            ill = 0.2 * 0.9 / P_POSITIVE
            p = re.search(r'<button[^>]*data-variable="0" data-state="1"[^>]*>', made)[0]
            assert float(re.search(r'data-p="([^"]*)"', p)[1]) == pytest.approx(ill, abs=1e-4)


@needs_browser
@pytest.mark.slow(why="processes")
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_is_accessible(tmp_path, dark):
    found = audited(explorer_of(clinic()), tmp_path, "--window-size=500,2000", dark=dark)
    assert found["texts"] > 5 and found["faults"] == []
