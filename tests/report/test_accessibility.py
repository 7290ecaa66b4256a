"""Accessibility of a report in a browser: contrast, names of controls and pictures, headings."""

from __future__ import annotations

import json
import re
from html import escape, unescape
from pathlib import Path

import numpy as np
import pytest

import bayeslab as bl
from bayeslab.networks import network
from bayeslab.report.page import explorer_of, html_of
from tests.report.browser import dom, needs_browser, scripted
from tests.report.test_explorer import chain

# The rules of WCAG 2.2 that a script can check: 1.1.1 (texts of pictures), 1.3.1 (labels, headings), 1.4.3 (contrast of
# 4.5 to 1, of large text 3 to 1), 3.1.1 (language), 4.1.2 (names of controls), 4.1.1 (each id once).
AUDIT = """
const faults = [];
const name = (e) => e.getAttribute("aria-label") || (e.labels && [...e.labels].map((l) => l.textContent).join(" "))
  || e.textContent;
const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const rgba = (text) => {const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n};
const over = (top, below) => [0, 1, 2].map((k) => top[3] * top[k] + (1 - top[3]) * below[k]);
const ground = (e) => {
  const layers = [];
  for (; e; e = e.parentElement) layers.push(rgba(getComputedStyle(e).backgroundColor));
  return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
};
let texts = 0;
for (const part of document.querySelectorAll("details")) part.open = true;
const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const e = walker.currentNode.parentElement, style = getComputedStyle(e);
  if (!walker.currentNode.textContent.trim() || style.display === "none" || e.closest("title, option, .picture, .graph")
    || !e.getClientRects().length) continue;
  const svg = e.namespaceURI.endsWith("svg"), size = parseFloat(style.fontSize);
  const back = ground(svg ? e.ownerSVGElement || e : e), front = over(rgba(svg ? style.fill : style.color), back);
  const [a, b] = [luminance(front), luminance(back)].sort((p, q) => q - p), ratio = (a + 0.05) / (b + 0.05);
  texts += 1;
  if (ratio < (size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5)) {
    faults.push(`contrast ${ratio.toFixed(2)}: ${walker.currentNode.textContent.trim().slice(0, 30)}`);
  }
}
for (const e of document.querySelectorAll("input, select, button, textarea")) {
  if (!name(e).trim()) faults.push(`no name: ${e.outerHTML.slice(0, 80)}`);
}
for (const e of document.querySelectorAll("img")) if (!e.alt) faults.push("img without alt");
for (const e of document.querySelectorAll("svg[role=img]")) {
  if (!e.querySelector(":scope > title")?.textContent) faults.push("svg without title");
}
for (const e of document.querySelectorAll("table")) {
  if (!e.caption || !e.querySelector("th")) faults.push(`table: ${e.textContent.slice(0, 40)}`);
}
for (const e of document.querySelectorAll("th")) {
  if (!e.textContent.trim()) faults.push(`empty heading in: ${e.closest("table").textContent.slice(0, 40)}`);
}
let last = 0;
for (const e of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
  const level = Number(e.tagName[1]);
  if (level > last + 1) faults.push(`h${level} after h${last}: ${e.textContent}`);
  if (!e.textContent.trim()) faults.push(`empty h${level}`);
  last = level;
}
if (document.querySelectorAll("h1").length !== 1) faults.push("not one h1");
if (document.querySelectorAll("main").length !== 1) faults.push("not one main");
if (!document.documentElement.lang || !document.title) faults.push("no language or title");
const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
if (new Set(ids).size < ids.length) faults.push("an id twice");
for (const e of document.querySelectorAll(".scroll, pre, .graph")) {
  if (e.scrollWidth > e.clientWidth + 1 && e.tabIndex < 0) faults.push(`scrolls without focus: ${e.className}`);
}
if (document.documentElement.scrollWidth > innerWidth + 1) faults.push("the page is wider than the window");
document.body.dataset.audit = JSON.stringify({faults, texts});
"""


def audited(page: str, folder: Path, *words: str, dark: bool = False) -> dict:
    """The faults of a page, which a second script at its end finds."""
    if dark:
        light = "@media screen and (prefers-color-scheme: dark)"
        assert light in page
        page = page.replace(light, "@media screen")
    shown = dom(scripted(page, AUDIT), folder, *words)
    return json.loads(unescape(re.search(r'data-audit="([^"]*)"', shown)[1]))


@pytest.fixture(scope="module")
def pages():
    trees = bl.fit("models/trees.yaml", runs=None, progress=False)
    galaxies = bl.fit("models/galaxies.yaml", runs=None, progress=False, draws=200)
    return {
        "regression": html_of({"trees": trees}),
        "clusters": html_of({"galaxies": galaxies}),
        "network": explorer_of(network(Path("models/asia.yaml"))),
        "single findings": explorer_of(chain(70)),
        "sliders": explorer_of(trees),
    }


@needs_browser
@pytest.mark.slow(why="processes")
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("which", ["regression", "clusters", "network", "single findings", "sliders"])
def test_reports_are_accessible(pages, which, dark, tmp_path):
    found = audited(pages[which], tmp_path, "--window-size=500,2000", dark=dark)
    assert found["texts"] > 5 and found["faults"] == []


@needs_browser
@pytest.mark.slow(why="processes")
def test_the_check_finds_faults(pages, tmp_path):
    bad = '<h5 style="color: #bbb; background: #fff">pale</h5><input><img src="data:image/png;base64,"><table><tr><td>1</td></tr></table>'
    found = audited(pages["network"].replace("</main>", f"{bad}</main>"), tmp_path)
    kinds = [fault.partition(":")[0] for fault in found["faults"]]
    assert kinds == ["contrast 1.92", "no name", "img without alt", "table", "h5 after h1"]


# Whether tables of words fit into a narrow window, which the page tells the one around it when it has a size.
NARROW = """
const measured = setInterval(() => {
  if (!innerWidth) return;
  clearInterval(measured);
  for (const part of document.querySelectorAll("details")) part.open = true;
  const tables = [...document.querySelectorAll(".words")].map((e) => e.parentElement);
  const wide = tables.filter((e) => e.scrollWidth > e.clientWidth + 1).length;
  const shown = {width: innerWidth, tables: tables.length, wide, page: document.documentElement.scrollWidth};
  parent.postMessage(JSON.stringify(shown), "*");
}, 20);
"""


@needs_browser
@pytest.mark.slow(why="processes")
def test_tables_of_words_fit_a_phone(pages, tmp_path):
    page = escape(scripted(pages["regression"], NARROW))
    script = "<script>onmessage = (event) => {document.body.dataset.shown = event.data}</script>"
    frame = f'<body><iframe width="320" height="600" srcdoc="{page}"></iframe></body>'
    made = dom(f"<!doctype html>{script}{frame}", tmp_path, "--virtual-time-budget=3000")
    shown = json.loads(unescape(re.search(r'data-shown="([^"]*)"', made)[1]))
    assert shown["tables"] > 3 and shown["width"] == 320
    assert shown["wide"] == 0 and shown["page"] <= 320


PRINTED = """
const state = () => ({buttons: document.querySelectorAll("th button").length,
  headings: [...document.querySelectorAll("th")].map((e) => e.textContent).join(),
  folded: document.querySelectorAll("details:not([open])").length,
  long: document.querySelectorAll("details.long:not([open])").length});
const states = [state()];
for (const kind of ["beforeprint", "afterprint"]) {dispatchEvent(new Event(kind)); states.push(state())}
document.body.dataset.states = JSON.stringify(states);
"""


@needs_browser
@pytest.mark.slow(why="processes")
def test_paper_has_everything_unfolded_but_long_tables(tmp_path):
    nodes = {"mu[g]": "Normal(0, 1)", "y[obs_id]": "Normal(mu[g], 1)"}
    data = {"g": [f"g{k:02d}" for k in range(40)] * 2, "y": np.linspace(-1, 1, 80)}
    many = bl.fit(bl.Model(name="many", model=bl.Graph(nodes=nodes)), data, runs=None, progress=False, seed=1)
    made = dom(scripted(html_of({"many": many}), PRINTED), tmp_path)
    before, paper, after = json.loads(unescape(re.search(r'data-states="([^"]*)"', made)[1]))
    # Headings that are buttons are not repeated on the next sheet.
    assert before["buttons"] > 5 and paper["buttons"] == 0 and paper["headings"] == before["headings"]
    assert before["folded"] > 1 and paper["folded"] == paper["long"] == 1
    assert after == before
