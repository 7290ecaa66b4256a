"""An HTML page that shows topics: a map, words and documents; one file without external resources.

All text from the data is inserted as text, never as HTML; a content security policy prevents the page from loading
anything. Without scripts the page shows a table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import escape
from typing import Any

__all__ = ["page"]


def page(content: Mapping[str, Any]) -> str:
    """The whole page.

    Parameters
    ----------
    content
        The content of the page, as plain values.
    """
    # Within a script element, only "</" and "<!--" could end it.
    data = json.dumps(content, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    rows = "".join(
        f"<tr><td>{topic['topic']}</td><td>{100 * topic['share']:.1f} %</td><td>"
        f"{escape(' '.join(word[0] for word in topic['words'][:12]))}</td></tr>"
        for topic in content["topics"]
    )
    fallback = f"<table><tr><th>topic</th><th>share</th><th>words</th></tr>{rows}</table>"
    parts = {"title": escape(content["name"]), "style": _STYLE, "fallback": fallback, "script": _SCRIPT, "data": data}
    return re.sub("@(title|style|fallback|script|data)@", lambda match: parts[match[1]], _PAGE)


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>@title@: topics</title><style>@style@</style></head><body>
<header><h1 id="name">@title@</h1><span id="badge"></span><p id="about"></p><p id="size" class="mute"></p></header>
<noscript>@fallback@</noscript>
<main id="main" hidden>
<section id="left">
<svg id="map" viewBox="0 0 400 330" role="group" aria-label="Map of the topics"></svg>
<p class="mute small">Areas: shares of all words. Near topics have like words (Jensen–Shannon distances).</p>
<ol id="list"></ol>
</section>
<section id="right">
<h2 id="title"></h2><p id="facts" class="mute"></p>
<div class="row"><label for="slide">relevance</label>
<input id="slide" type="range" min="0" max="1" step="0.05" value="1"><output id="value">1.00</output>
<span class="mute small">1: most probable words; towards 0: words special to the topic</span></div>
<div id="words"></div>
<p class="mute small"><span class="key own"></span> probability in the topic, with two posterior sd
<span class="key all"></span> share among all words</p>
<h3>Documents with most of it</h3><div id="documents"></div>
</section>
</main>
<details><summary>verdict</summary><ul id="findings"></ul></details>
<script type="application/json" id="data">@data@</script>
<script>@script@</script></body></html>
"""

_STYLE = """
:root {color-scheme: light dark; --line: rgba(128,128,128,.35); --own: #0072B2; --all: #D55E00}
body {font: 14px/1.45 system-ui, sans-serif; margin: 1.2em auto; max-width: 78em; padding: 0 1em}
h1 {font-size: 1.4em; display: inline-block; margin: 0 .6em 0 0} h2 {font-size: 1.2em; margin: 0}
h3 {font-size: 1em; margin: 1.2em 0 .3em} p {margin: .25em 0}
.mute {opacity: .75} .small {font-size: .86em}
#badge {padding: 0 .6em; border-radius: 3px; color: #fff; font-size: .85em; font-weight: 600}
#badge.pass {background: #2e7d32} #badge.warn {background: #9a5b00} #badge.fail {background: #c62828}
main {display: grid; grid-template-columns: minmax(18em, 26em) 1fr; gap: 2em; margin-top: 1em}
main[hidden] {display: none}
@media (max-width: 50em) {main {grid-template-columns: 1fr}}
#map {width: 100%; border: 1px solid var(--line); border-radius: 4px}
#map circle {fill: var(--own); fill-opacity: .3; stroke: var(--own); cursor: pointer}
#map g.on circle {fill: var(--all); fill-opacity: .5; stroke: var(--all)}
#map g:focus {outline: none} #map g:focus-visible circle {stroke-width: 3}
#map text {font-size: 12px; text-anchor: middle; dominant-baseline: central; fill: currentColor; pointer-events: none}
#list {padding: 0; margin: .8em 0; list-style: none}
#list button {all: unset; display: block; width: 100%; cursor: pointer; padding: .2em .4em; border-radius: 3px;
  box-sizing: border-box}
#list button:hover {background: rgba(128,128,128,.15)} #list button.on {background: rgba(213,94,0,.18)}
#list button:focus-visible {outline: 2px solid var(--own)}
#list .share {display: inline-block; width: 4em; text-align: right; margin-right: .6em}
#list .share {font-variant-numeric: tabular-nums}
.row {display: flex; gap: .6em; align-items: center; margin: .6em 0; flex-wrap: wrap}
.word {display: grid; grid-template-columns: 10em 1fr 5em; gap: .6em; align-items: center; height: 1.35em}
.word .name {text-align: right; overflow: hidden; text-overflow: ellipsis; white-space: nowrap}
.bar {position: relative; height: .95em} .bar i {position: absolute; display: block}
.bar .p {height: 100%; background: var(--own); opacity: .55} .bar .s {height: 1px; top: 50%; background: currentColor}
.bar .a {height: 35%; bottom: 0; background: var(--all); opacity: .8}
.word .n {font-variant-numeric: tabular-nums; font-size: .86em}
.key {display: inline-block; width: 1.2em; height: .7em; margin: 0 .2em 0 .6em}
.key.own {background: var(--own); opacity: .55} .key.all {background: var(--all)}
.document {display: grid; grid-template-columns: 4em 1fr; gap: .6em; padding: .35em 0}
.document {border-top: 1px solid var(--line)}
.document b {font-variant-numeric: tabular-nums} details {margin-top: 1.5em}
table {border-collapse: collapse} td, th {text-align: left; padding: .1em .8em .1em 0; vertical-align: top}
"""

_SCRIPT = """
"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);
const make = (tag, words, kind) => {
  const out = document.createElement(tag);
  if (words !== undefined) out.textContent = words;
  if (kind) out.className = kind;
  return out;
};
const percent = x => (100 * x).toFixed(1) + " %";
const count = n => n.toLocaleString("en");
at("badge").textContent = data.verdict.toUpperCase(); at("badge").className = data.verdict;
at("about").textContent = data.about;
at("size").textContent = `${data.title}; ${count(data.n_tokens)} words of text · ${data.reason}`;
for (const line of data.findings) at("findings").append(make("li", line));
at("main").hidden = false;

const space = "http://www.w3.org/2000/svg", places = [], buttons = [];
const range = key => {
  const all = data.topics.map(t => t[key]), low = Math.min(...all), high = Math.max(...all);
  return v => high > low ? (v - low) / (high - low) : 0.5;
};
const x = range("x"), y = range("y");
for (const topic of [...data.topics].sort((a, b) => b.share - a.share)) {
  const group = document.createElementNS(space, "g"), circle = document.createElementNS(space, "circle");
  const label = document.createElementNS(space, "text");
  const place = [55 + 290 * x(topic.x), 50 + 230 * (1 - y(topic.y))];
  circle.setAttribute("cx", place[0]); circle.setAttribute("cy", place[1]);
  circle.setAttribute("r", Math.max(7, 90 * Math.sqrt(topic.share / Math.max(4, data.topics.length / 2))));
  label.setAttribute("x", place[0]); label.setAttribute("y", place[1]); label.textContent = topic.topic;
  group.setAttribute("tabindex", "0"); group.setAttribute("role", "button");
  group.setAttribute("aria-label", `topic ${topic.topic}`);
  group.append(circle, label);
  group.addEventListener("click", () => choose(topic.topic));
  group.addEventListener("keydown", e => { if (e.key === "Enter" || e.key === " ") choose(topic.topic); });
  at("map").append(group); places[topic.topic] = group;
}
for (const topic of data.topics) {
  const item = make("li"), button = make("button");
  button.append(make("span", percent(topic.share), "share"), `${topic.topic}: ` +
    topic.words.slice(0, 5).map(w => w[0]).join(" "));
  button.addEventListener("click", () => choose(topic.topic));
  item.append(button); at("list").append(item); buttons[topic.topic] = button;
}
let chosen = 1;
const drawn = () => {
  const topic = data.topics[chosen - 1], weight = Number(at("slide").value);
  const score = w => weight * Math.log(w[1]) + (1 - weight) * (Math.log(w[1]) - Math.log(Math.max(w[3], 1e-12)));
  const words = [...topic.words].sort((a, b) => score(b) - score(a)).slice(0, data.shown);
  const most = Math.max(...words.map(w => Math.max(w[1] + 2 * w[2], w[3])));
  at("value").textContent = weight.toFixed(2);
  at("words").replaceChildren(...words.map(w => {
    const row = make("div", undefined, "word"), bar = make("div", undefined, "bar");
    const part = (kind, from, to) => {
      const i = make("i", undefined, kind);
      i.style.left = 100 * from / most + "%"; i.style.width = 100 * (to - from) / most + "%";
      bar.append(i);
    };
    part("p", 0, w[1]); part("a", 0, w[3]); part("s", Math.max(0, w[1] - 2 * w[2]), w[1] + 2 * w[2]);
    row.append(make("span", w[0], "name"), bar, make("span", w[1].toPrecision(3), "n"));
    return row;
  }));
};
const choose = k => {
  chosen = k;
  const topic = data.topics[k - 1];
  places.forEach((g, i) => g.classList.toggle("on", i === k));
  buttons.forEach((b, i) => b.classList.toggle("on", i === k));
  at("title").textContent = `Topic ${k}`;
  at("facts").textContent = `${percent(topic.share)} of all words` +
    (topic.low === null ? "" : ` (89 % interval ${percent(topic.low)} to ${percent(topic.high)})`) +
    (topic.chains ? `, found by ${topic.chains} chains` : "") +
    (topic.coherence === null ? "" : `, coherence ${topic.coherence.toFixed(2)} (NPMI)`);
  at("documents").replaceChildren(...topic.documents.map(d => {
    const row = make("div", undefined, "document"), text = make("div");
    text.append(make("b", d[0]), make("div", d[2], "small mute"));
    row.append(make("b", percent(d[1])), text);
    return row;
  }));
  drawn();
};
at("slide").addEventListener("input", drawn);
choose(1);
})();
"""
