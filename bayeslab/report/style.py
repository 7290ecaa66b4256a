"""The style sheet and the script of a report."""

from __future__ import annotations

__all__ = ["SCRIPT", "STYLE"]

STYLE = """
:root {color-scheme: light dark; --paper: #fff; --ink: #1d2433; --soft: #566071; --line: #c9d0db; --shade: #f3f5f8;
  --accent: #0072b2; --other: #b34a00; --c2: #007a5a; --c3: #9c4a86; --pass: #2e7d32; --warn: #9a5b00; --fail: #c62828}
@media screen and (prefers-color-scheme: dark) {:root {--paper: #14181f; --ink: #e6e9ee; --soft: #a5afbd;
  --line: #3d4757; --shade: #1d232d; --accent: #56b4e9; --other: #f0954a; --c2: #3fc79a; --c3: #d99ac5; --pass: #2e7d32;
  --warn: #9a5b00; --fail: #c62828}}
* {box-sizing: border-box}
body {margin: 0 auto; max-width: 78em; padding: 1em; font: 15px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); overflow-wrap: break-word}
h1 {font-size: 1.5em; margin: 0 0 .2em} h2 {font-size: 1.2em; margin: 2em 0 .5em; padding-bottom: .2em;
  border-bottom: 1px solid var(--line)} h3 {font-size: 1em; margin: 1.2em 0 .3em}
p {margin: .5em 0; max-width: 50em} article + article {margin-top: 4em; border-top: 3px solid var(--line)}
a {color: var(--accent)} nav ul {padding: 0; margin: .6em 0; list-style: none; display: flex; flex-wrap: wrap;
  gap: .2em 1em}
.mute {color: var(--soft)} .small {font-size: .88em} .lead {font-size: 1.07em}
.badge {display: inline-block; padding: 0 .6em; border-radius: 3px; color: #fff; font-size: .85em; font-weight: 600;
  vertical-align: middle} .badge.pass {background: var(--pass)} .badge.warn {background: var(--warn)}
.badge.fail {background: var(--fail)} b.warn, b.fail {color: var(--other)}
.tag {font-size: .8em; border: 1px solid var(--line); border-radius: 3px; padding: 0 .3em; color: var(--soft)}
.scroll, .graph, pre {overflow-x: auto; max-width: 100%}
table {border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5em 0}
caption {text-align: left; color: var(--soft); padding: .2em 0;
  min-width: min(20em, 85vw); max-width: calc(100vw - 2.2em)} th, td {padding: .2em .9em .2em 0; text-align: right;
  vertical-align: top; white-space: nowrap} thead th {border-bottom: 1px solid var(--line)} th {font-weight: 600}
th:first-child, .words th, .words td {text-align: left} tbody th {font-weight: 400}
.words td {white-space: normal; min-width: 5em; max-width: 28em}
.words th {white-space: normal; min-width: 6em; max-width: 16em}
.prior {display: inline-block; white-space: normal; max-width: 22em}
.quantities {font-size: .93em} .quantities :is(th, td) {padding-right: .7em}
.quantities tbody th {white-space: normal; min-width: 7em; max-width: 24em}
tbody tr:hover {background: var(--shade)} th button {all: unset; cursor: pointer; font-weight: 600}
th button:hover {text-decoration: underline} :focus-visible {outline: 2px solid var(--accent); outline-offset: 2px}
details {margin: .8em 0} summary {cursor: pointer; color: var(--accent)}
pre {background: var(--shade); padding: .8em; border-radius: 4px; font-size: .87em; line-height: 1.4}
button.copy {font: inherit; color: var(--accent); background: none; border: 1px solid var(--line);
  border-radius: 3px; padding: .1em .6em; margin-top: .4em; cursor: pointer}
code {font-family: ui-monospace, monospace; font-size: .95em} input {font: inherit; padding: .2em .5em; max-width: 100%;
  color: inherit; background: var(--paper); border: 1px solid var(--line); border-radius: 3px}
figure {margin: 1em 0; max-width: 100%} figcaption {color: var(--soft); font-size: .9em}
.picture {display: block; width: 100%; max-width: 52em; height: auto; background: #fff; padding: 6px;
  border-radius: 4px}
.graph svg {max-width: max(100%, 600px) !important; height: auto; border-radius: 4px}
.charts {display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 290px), 1fr)); gap: .6em 1.4em;
  align-items: start} .charts figure {margin: 0}
.chart {display: block; width: 100%; max-width: 440px; height: auto; font-family: inherit; fill: var(--ink)}
.chart .name {font-size: 13px; font-weight: 600} .chart .s {font-size: 11px; fill: var(--soft)}
.chart .axis, .chart .zero {stroke: var(--line); fill: none} .chart .zero {stroke-dasharray: 3 3}
.chart .area {fill: var(--accent); fill-opacity: .28; stroke: var(--accent); stroke-width: 1}
.chart .i0 {stroke: var(--accent); stroke-width: 6} .chart .i1 {stroke: var(--accent); stroke-width: 3}
.chart .i2 {stroke: var(--accent); stroke-width: 1.2} .chart .dot {fill: var(--paper); stroke: var(--ink)}
.chart .other {stroke: var(--other)} .chart .line {fill: none; stroke-width: 1; stroke: var(--accent)}
.chart .c1 {stroke: var(--other)} .chart .c2 {stroke: var(--c2)} .chart .c3 {stroke: var(--c3)}
.chart .replicated {fill: none; stroke: var(--soft); stroke-opacity: .35}
.chart .prior {fill: none; stroke: var(--other); stroke-width: 1.6; stroke-dasharray: 5 3}
.chart .band {fill: var(--accent); fill-opacity: .16}
.chart .dots {fill: none; stroke: var(--accent); stroke-opacity: .6; stroke-width: 4.4; stroke-linecap: round}
.chart .dots.marked {stroke: var(--other); stroke-opacity: 1}
.chart .real {fill: none; stroke: var(--accent); stroke-width: 2.4}
.sketch {vertical-align: middle} .sketch .bar {fill: var(--accent); fill-opacity: .7}
.whatif, .costs, .edges {border: 1px solid var(--line); border-radius: 4px; padding: .6em 1em; max-width: 44em;
  margin: .5em 0}
:is(.whatif, .costs, .edges) label {display: grid; grid-template-columns: 9em 1fr 6em; gap: .2em 1em;
  align-items: center; padding: .15em 0}
:is(.whatif, .costs, .edges) input, .whatif select, .choices select {width: 100%; font: inherit; color: inherit;
  background: var(--paper)}
.answer {font-weight: 600}
.edges .real {stroke-width: 1.4} .edges .head {fill: var(--accent)} .edges .off {display: none}
.forest .controls {display: flex; flex-wrap: wrap; gap: .6em 1.4em; align-items: start} .forest label {display: grid}
.forest select {font: inherit; color: inherit; background: var(--paper); max-width: min(24em, 85vw); min-width: 9em}
.net {display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 230px), 1fr)); gap: .6em}
.net > :is(.answer, .value, .changed) {grid-column: 1 / -1}
.value select {font: inherit; color: inherit; background: var(--paper); max-width: 100%}
.net ol:empty {display: none}
 .net .head {margin: 0 0 .2em; font-weight: 600}
.variable {border: 1px solid var(--line); border-radius: 4px; padding: .4em .6em}
.net button {display: grid; grid-template-columns: minmax(0, 1fr) 5em max-content; gap: .5em;
  width: 100%; font: inherit; color: inherit; background: none;
  border: 0; padding: .12em .2em; text-align: left; cursor: pointer}
.net button[aria-pressed=true] {background: var(--shade); font-weight: 600; outline: 1px solid var(--accent)}
.net .p {text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums}
.net .bar {background: var(--shade); height: .8em;
  align-self: center} .net .bar span {display: block; height: 100%; background: var(--accent)}
@media print {:root {color-scheme: light} * {print-color-adjust: exact; -webkit-print-color-adjust: exact}
  body {max-width: none; padding: 0; font-size: 10pt}
  nav, .search, button.copy, .forest, .value, .net label, .downloads, details:not([open]) {display: none}
  h2, h3, caption, thead, p:has(+ .charts) {break-after: avoid} tbody tr:first-child {break-before: avoid}
  figure, .chart, tr, .variable, .whatif, .costs, .edges {break-inside: avoid}
  .scroll, .graph, pre {overflow: visible} pre {white-space: pre-wrap} table {font-size: 8.5pt}
  p {orphans: 3; widows: 3} a {color: inherit; text-decoration: none}}
@media (max-width: 30em) {:is(.whatif, .costs, .edges) label {grid-template-columns: 8em 1fr 3.5em}
  th, td {padding-right: .5em} .words th {min-width: 5em} .words td {min-width: 4em}
  .graph svg {max-width: none !important}
  body {padding: .7em; font-size: 14px} h1 {font-size: 1.3em}
  .scroll > .picture {min-width: 520px}
  .quantities th:first-child {position: sticky; left: 0; background: var(--paper);
    max-width: 45vw; white-space: normal}
  .words, .words :is(caption, tbody, tr, th, td) {display: block; max-width: none}
  .words thead {position: absolute; clip-path: inset(50%); height: 1px; width: 1px; overflow: hidden}
  .words tr {border-top: 1px solid var(--line); padding: .3em 0}
  .words td {position: relative; padding-left: 8.5em; min-height: 1.6em}
  .words td::before {content: attr(data-label); position: absolute; left: 0; width: 8em; color: var(--soft)}
  .words td:not([data-label]) {padding-left: 1em}}
"""

# Sorting by a click on a heading, and a search for rows. Without scripts the table is not sorted.
SCRIPT = """
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], rows = [...body.rows];
  const key = (row, k) => {
    const cell = row.cells[k].textContent, number = parseFloat(cell);
    return Number.isNaN(number) || k === 0 ? cell : number;
  };
  const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b
    : typeof a === "number" ? -1 : typeof b === "number" ? 1 : a.localeCompare(b, undefined, {numeric: true});
  [...table.tHead.rows[0].cells].forEach((head, k) => {
    const button = document.createElement("button");
    button.type = "button"; button.textContent = head.textContent;
    button.title = "sort by this column"; head.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      body.append(...[...body.rows].sort((a, b) => (up ? 1 : -1) * compare(key(a, k), key(b, k))));
    });
  });
  const label = document.createElement("label"), input = document.createElement("input");
  input.type = "search"; label.className = "search"; label.append("Search rows ", input);
  table.parentElement.before(label);
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const row of rows) row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
  });
}
// The inverse links, as in Python.
const erfc = (x) => { // for x >= 0; a series, then a continued fraction
  if (x < 2.5) {
    let term = x, sum = x;
    for (let n = 1; n < 200; n++) {term *= -x * x / n; sum += term / (2 * n + 1)}
    return 1 - 2 / Math.sqrt(Math.PI) * sum;
  }
  let tail = x;
  for (let n = 120; n > 0; n--) tail = x + n / 2 / tail;
  return Math.exp(-x * x) / Math.sqrt(Math.PI) / tail;
};
const inverses = {
  identity: (x) => x, exp: Math.exp, square: (x) => x * x, inverse: (x) => 1 / x,
  logistic: (x) => x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x)),
  normal: (x) => x > 0 ? 1 - erfc(x / Math.SQRT2) / 2 : erfc(-x / Math.SQRT2) / 2,
  cloglog: (x) => -Math.expm1(-Math.exp(x)),
};
const quantile = (sorted, p) => {
  const at = p * (sorted.length - 1), low = Math.floor(at), high = Math.min(low + 1, sorted.length - 1);
  return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
};
const short = (x) => String(Number(x.toPrecision(4)));
// Expected outcomes at the positions of sliders: sums of functions of one or two predictors, at each posterior draw.
for (const panel of document.querySelectorAll(".whatif")) {
  const model = JSON.parse(panel.dataset.model), controls = [...panel.querySelectorAll("[data-slider]")];
  const answer = panel.querySelector(".answer");
  const update = () => {
    const at = controls.map((control) => Number(control.value)), draws = model.base.slice();
    for (const {of, left, right} of model.parts) {
      const cell = of.length === 1 ? at[of[0]] : at[of[0]] * model.values[of[1]].length + at[of[1]];
      left.forEach((column, k) => column.forEach((number, d) => {draws[d] += number * right[k][cell]}));
    }
    const values = draws.map((number, d) => model.factor[d] * inverses[model.inverse](number));
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    values.sort((a, b) => a - b);
    const low = quantile(values, model.tail), high = quantile(values, 1 - model.tail);
    controls.forEach((control, k) => {
      const word = model.values[k][at[k]], shown = control.parentElement.querySelector("output");
      if (shown) {shown.textContent = word; control.setAttribute("aria-valuetext", word)}
    });
    answer.textContent = `${short(mean)} (89 % interval ${short(low)} to ${short(high)})`;
    answer.dataset.numbers = JSON.stringify([mean, low, high]);
  };
  for (const control of controls) control.addEventListener("input", update);
  update();
}
// Errors of a learner of two classes at the threshold of the costs.
for (const panel of document.querySelectorAll(".costs")) {
  const {p, y} = JSON.parse(panel.dataset.costs), slider = panel.querySelector("input");
  const answer = panel.querySelector(".answer"), output = panel.querySelector("output");
  const update = () => {
    const cost = 2 ** Number(slider.value), limit = 1 / (1 + cost);
    const missed = p.filter((one, k) => y[k] && !(one > limit)).length;
    const wrong = p.filter((one, k) => !y[k] && one > limit).length, mean = (cost * missed + wrong) / p.length;
    output.textContent = short(cost); slider.setAttribute("aria-valuetext", short(cost));
    answer.textContent = `r = ${short(cost)}, threshold ${short(limit)}: ${missed} missed, ${wrong} false;`
      + ` cost ${short(mean)} a row`;
    answer.dataset.numbers = JSON.stringify([limit, missed, wrong, mean]);
  };
  slider.addEventListener("input", update);
  update();
}
// Edges of sampled structures above a threshold.
for (const panel of document.querySelectorAll(".edges")) {
  const edges = [...panel.querySelectorAll("[data-p]")], slider = panel.querySelector("input");
  const update = () => {
    const least = Number(slider.value);
    for (const edge of edges) edge.classList.toggle("off", Number(edge.dataset.p) < least);
    const shown = edges.map((edge) => Number(edge.dataset.p)).filter((p) => p >= least);
    const wrong = shown.reduce((sum, p) => sum + 1 - p, 0);
    panel.querySelector("output").textContent = least.toFixed(2);
    const answer = panel.querySelector(".answer");
    answer.textContent = `${shown.length} edges have a probability of ${least} or more; ${wrong.toFixed(2)} of them are`
      + " expected to be false.";
    answer.dataset.numbers = JSON.stringify([shown.length, wrong]);
  };
  slider.addEventListener("input", update);
  update();
}
// Buttons that stay pressed until the next click on them, or on another one that excludes them.
const pressable = (buttons, excludes, update) => {
  for (const button of buttons) {
    button.addEventListener("click", () => {
      const pressed = button.getAttribute("aria-pressed") === "true";
      for (const other of buttons) if (excludes(button, other)) other.setAttribute("aria-pressed", "false");
      button.setAttribute("aria-pressed", String(!pressed));
      update();
    });
  }
};
const showProbability = (button, p) => {
  button.querySelector(".p").textContent = p.toFixed(4);
  button.querySelector(".bar span").style.width = `${100 * p}%`;
  button.dataset.p = p;
};
// A discrete network: probabilities given evidence and interventions, by variable elimination.
for (const panel of document.querySelectorAll(".net[data-net]")) {
  const net = JSON.parse(panel.dataset.net), buttons = [...panel.querySelectorAll("[data-variable]")];
  const checks = [...panel.querySelectorAll("[data-do]")], answer = panel.querySelector(".answer");
  const count = (of) => of.reduce((cells, v) => cells * net.sizes[v], 1);
  const steps = (of, inside) => of.map((v) => { // step of each variable in the cells of a factor
    const k = inside.indexOf(v);
    return k < 0 ? 0 : count(inside.slice(k + 1));
  });
  const product = (factors) => {
    const of = [...new Set(factors.flatMap((factor) => factor.of))], values = new Array(count(of)).fill(1);
    for (const factor of factors) {
      const step = steps(of, factor.of), at = of.map(() => 0);
      let cell = 0;
      for (let k = 0; k < values.length; k++) {
        values[k] *= factor.values[cell];
        for (let i = of.length - 1; i >= 0; i--) { // the next cell: the last variable runs fastest
          cell += step[i];
          if (++at[i] < net.sizes[of[i]]) break;
          cell -= step[i] * at[i]; at[i] = 0;
        }
      }
    }
    return {of, values};
  };
  const without = ({of, values}, v) => {
    const rest = of.filter((other) => other !== v), inner = count(of.slice(of.indexOf(v) + 1)), size = net.sizes[v];
    const sums = new Array(count(rest)).fill(0);
    values.forEach((value, k) => {sums[Math.floor(k / (inner * size)) * inner + k % inner] += value});
    return {of: rest, values: sums};
  };
  const marginal = (factors, kept) => {
    const left = new Set(net.sizes.keys());
    left.delete(kept);
    while (left.size) {
      let best = -1, least = Infinity;
      for (const v of left) {
        const cells = count([...new Set(factors.filter(({of}) => of.includes(v)).flatMap(({of}) => of))]);
        if (cells < least) {least = cells; best = v}
      }
      const joint = product(factors.filter(({of}) => of.includes(best)));
      factors = [...factors.filter(({of}) => !of.includes(best)), without(joint, best)];
      left.delete(best);
    }
    return product([{of: [kept], values: new Array(net.sizes[kept]).fill(1)}, ...factors]).values;
  };
  const query = panel.querySelector("[data-query]"), entropy = panel.querySelector(".entropy");
  const evidence = (v, state) => ({of: [v], values: Array.from({length: net.sizes[v]}, (_, j) => Number(j === state))});
  // Mutual information of every unobserved variable and the one asked about: sums over its states.
  const value = (factors, chosen, posterior, total) => {
    const list = panel.querySelector(".value ol"), asked = query.value === "" ? -1 : Number(query.value);
    list.replaceChildren();
    entropy.textContent = "";
    if (asked < 0) return;
    if (chosen.has(asked)) {entropy.textContent = `${net.names[asked]} is observed or set.`; return}
    const prior = posterior[asked].map((p) => p / total);
    const now = prior.reduce((sum, p) => sum - (p > 0 ? p * Math.log2(p) : 0), 0);
    const others = [...net.sizes.keys()].filter((v) => v !== asked && !chosen.has(v)), bits = others.map(() => 0);
    prior.forEach((p, state) => {
      if (!(p > 0)) return;
      const given = [...factors, evidence(asked, state)];
      others.forEach((v, k) => {
        marginal(given, v).forEach((joint, j) => {
          if (joint > 0) bits[k] += joint / total * Math.log2(joint / p / posterior[v][j]);
        });
      });
    });
    const order = others.map((v, k) => [Math.max(0, bits[k]), v]).sort((a, b) => b[0] - a[0] || a[1] - b[1]);
    list.append(...order.map(([gain, v]) => {
      const item = document.createElement("li");
      item.textContent = `${net.names[v]}: ${gain.toFixed(4)} bits`;
      item.dataset.of = v; item.dataset.bits = gain;
      return item;
    }));
    entropy.textContent = `The entropy of ${net.names[asked]} is now ${now.toFixed(4)} bits.`;
    entropy.dataset.bits = now;
  };
  const update = () => {
    const chosen = new Map(buttons.filter((button) => button.getAttribute("aria-pressed") === "true")
      .map((button) => [Number(button.dataset.variable), Number(button.dataset.state)]));
    const set = new Set(checks.filter((check) => check.checked).map((check) => Number(check.dataset.do)));
    const factors = net.factors.map((factor, v) => set.has(v) && chosen.has(v)
      ? {of: [v], values: new Array(net.sizes[v]).fill(1)} : factor);
    for (const [v, state] of chosen) factors.push(evidence(v, state));
    const posterior = net.sizes.map((_, v) => marginal(factors, v));
    const total = posterior[0].reduce((sum, p) => sum + p, 0);
    if (!(total > 0)) {
      answer.textContent = "These findings are impossible together.";
      entropy.textContent = ""; panel.querySelector(".value ol").replaceChildren();
      return;
    }
    for (const button of buttons) {
      showProbability(button, posterior[button.dataset.variable][button.dataset.state] / total);
    }
    const words = [...chosen].map(([v]) => `${net.names[v]} ${set.has(v) ? "set" : "observed"}`);
    const shown = total < 0.001 ? total.toExponential(3) : short(total);
    answer.textContent = words.length ? `${words.join(", ")}; probability of what is observed: ${shown}`
      : "Nothing is observed.";
    value(factors, chosen, posterior, total);
  };
  pressable(buttons, (one, other) => one.dataset.variable === other.dataset.variable, update);
  for (const check of checks) check.addEventListener("change", update);
  query.addEventListener("change", update);
  update();
}
// A larger network: probabilities given one finding, in units of 1/10000, from a table that Python has computed.
for (const panel of document.querySelectorAll(".net[data-singles]")) {
  const {sizes, impossible, table} = JSON.parse(panel.dataset.singles), bytes = atob(table), most = 10;
  const buttons = [...panel.querySelectorAll("[data-variable]")], prior = buttons.map(
    (button) => Number(button.querySelector(".p").textContent));
  const answer = panel.querySelector(".answer"), list = panel.querySelector(".changed");
  const number = (k) => bytes.charCodeAt(2 * k) + 256 * bytes.charCodeAt(2 * k + 1);
  const name = (k) => buttons[k].parentElement.getAttribute("aria-label");
  const word = (k) => `${name(k)} = ${buttons[k].querySelector(".state").textContent}`;
  const begins = []; // of each row; 65535 stands for all states of a variable that is as without findings
  let at = 0;
  for (let row = 0; row < buttons.length; row++) {
    begins.push(at);
    for (const size of sizes) at += number(at) === 65535 ? 1 : size;
  }
  const given = (row) => {
    const posterior = prior.slice();
    let k = 0, from = begins[row];
    for (const size of sizes) {
      if (number(from) === 65535) from += 1;
      else for (let j = 0; j < size; j++) posterior[k + j] = number(from++) / 10000;
      k += size;
    }
    return posterior;
  };
  const update = () => {
    const row = buttons.findIndex((button) => button.getAttribute("aria-pressed") === "true");
    const possible = !impossible.includes(row), posterior = row >= 0 && possible ? given(row) : prior;
    buttons.forEach((button, k) => showProbability(button, posterior[k]));
    for (const part of document.querySelectorAll("[data-finding]")) { // of an influence diagram
      part.hidden = Number(part.dataset.finding) !== (possible ? row : -1);
    }
    answer.textContent = row < 0 ? "Nothing is observed."
      : !possible ? `${word(row)} has probability 0.`
      : `${word(row)} is observed; its probability was ${prior[row] ? prior[row].toFixed(4) : "below 0.0001"}.`;
    const changed = new Map(); // the state of each other variable that changes most
    posterior.forEach((p, k) => {
      const v = buttons[k].dataset.variable, change = Math.abs(p - prior[k]);
      if (change > 0 && v !== buttons[row].dataset.variable && !(changed.get(v)?.change >= change)) {
        changed.set(v, {change, k});
      }
    });
    const order = [...changed.values()].sort((a, b) => b.change - a.change || a.k - b.k);
    list.replaceChildren(...order.slice(0, most).map(({k}) => {
      const item = document.createElement("li");
      item.textContent = `${word(k)}: from ${prior[k].toFixed(4)} to ${posterior[k].toFixed(4)}`;
      return item;
    }));
    if (order.length) {
      answer.textContent += ` Of the other ${sizes.length - 1} variables ${order.length} change`
        + (order.length > most ? ", most of all these:" : ":");
    }
  };
  pressable(buttons, () => true, update);
  update();
}
// Forest plots of rows of choice.
const drawing = (name, attributes, ...inside) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
};
for (const panel of document.querySelectorAll(".forest")) {
  const vectors = JSON.parse(panel.dataset.forest), most = 60, width = 440, step = 17;
  const [vector, search, order, list] = ["vector", "search", "order", "rows"]
    .map((name) => panel.querySelector(`[data-pick=${name}]`));
  const draw = () => {
    const {name, rows, left} = vectors[vector.value], chosen = new Set([...list.selectedOptions].map((o) => o.value));
    const wanted = [...list.options].filter((option) => !chosen.size || chosen.has(option.value))
      .map((option) => rows[option.value]);
    if (order.value === "mean") wanted.sort((a, b) => b[1] - a[1]);
    if (order.value === "width") wanted.sort((a, b) => b[5] - b[4] - a[5] + a[4]);
    const shown = wanted.slice(0, most), numbers = shown.flatMap((row) => row.slice(1));
    let low = Math.min(...numbers), high = Math.max(...numbers);
    if (!(high > low)) {low -= Math.abs(low) || 1; high += Math.abs(high) || 1}
    const gap = (high - low) * 0.03, start = 170, x = (v) => start + (width - start - 10) * (v - low + gap)
      / (high - low + 2 * gap), base = step * shown.length + 8;
    const svg = drawing("svg", {viewBox: `0 0 ${width} ${base + 22}`, class: "chart", role: "img"});
    const says = `Means and intervals of ${name}: ${shown.map((row) => `${row[0]} ${short(row[1])}`).join(", ")}`;
    svg.append(drawing("title", {}, says));
    if (low < 0 && high > 0) svg.append(drawing("line", {x1: x(0), x2: x(0), y1: 2, y2: base, class: "zero"}));
    shown.forEach(([label, middle, ...ends], k) => {
      const y = step * k + 11, text = label.length > 24 ? `${label.slice(0, 23)}…` : label;
      svg.append(drawing("text", {x: start - 6, y: y + 4, "text-anchor": "end", class: "s"},
        text, drawing("title", {}, label)));
      for (let i = ends.length / 2 - 1; i >= 0; i--) {
        svg.append(drawing("line", {x1: x(ends[2 * i]), x2: x(ends[2 * i + 1]), y1: y, y2: y, class: `i${i}`}));
      }
      svg.append(drawing("circle", {cx: x(middle), cy: y, r: 2.6, class: "dot", "data-row": label,
        "data-mean": middle}));
    });
    if (shown.length) {
      svg.append(drawing("line", {x1: start, x2: width - 10, y1: base, y2: base, class: "axis"}));
      const rough = (high - low) / 4, unit = 10 ** Math.floor(Math.log10(rough));
      const tick = unit * [1, 2, 2.5, 5, 10].find((factor) => factor * unit >= rough * 0.999);
      for (let v = Math.ceil(low / tick); v * tick <= high; v++) {
        svg.append(drawing("line", {x1: x(v * tick), x2: x(v * tick), y1: base, y2: base + 4, class: "axis"}),
          drawing("text", {x: x(v * tick), y: base + 16, "text-anchor": "middle", class: "s"}, short(v * tick)));
      }
    }
    panel.querySelector(".drawn").replaceChildren(svg);
    const some = shown.length < wanted.length ? `, of which the first ${shown.length} are drawn` : "";
    panel.querySelector(".answer").textContent = `${wanted.length} of ${rows.length} rows of ${name}${some}`
      + (left ? `; ${left} more are in the table only` : "");
  };
  const fill = () => {
    const text = search.value.toLowerCase(), old = new Set([...list.selectedOptions].map((o) => o.value));
    list.replaceChildren(...vectors[vector.value].rows.flatMap((row, k) => row[0].toLowerCase().includes(text)
      ? [new Option(row[0], k, false, old.has(String(k)))] : []));
    draw();
  };
  vector.addEventListener("change", () => {list.replaceChildren(); search.value = ""; fill()});
  search.addEventListener("input", fill);
  order.addEventListener("change", draw); list.addEventListener("change", draw);
  panel.hidden = false;
  fill();
}
// Copying of the text beside a button; without the clipboard, it is selected for the reader to copy.
for (const button of document.querySelectorAll("button.copy")) {
  const source = button.parentElement.querySelector("pre");
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = "Selected: copy it with the keyboard";
    }
  });
}
for (const note of document.querySelectorAll(".noscript")) note.hidden = true;
// On paper everything is unfolded except tables of many pages, and headings repeat on each page as text.
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details:not([open], .long)")) {
    part.open = true; part.dataset.folded = "";
  }
  for (const button of document.querySelectorAll("th button")) {
    const head = button.parentElement;
    head.replaceChildren(button.textContent); head.button = button;
  }
});
addEventListener("afterprint", () => {
  for (const head of document.querySelectorAll("th")) if (head.button) head.replaceChildren(head.button);
  for (const part of document.querySelectorAll("details[data-folded]")) {part.open = false; delete part.dataset.folded}
});
"""
