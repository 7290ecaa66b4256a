"""A network to click on: its buttons show the probabilities that Python computes."""

from __future__ import annotations

import base64
import itertools
import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.errors import OptionError
from bayeslab.language import model_file
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.networks import network
from bayeslab.report import explorer, markup, single_findings
from bayeslab.report.explorer import network_panel
from bayeslab.report.page import explorer_of
from tests.cli.calls import call
from tests.refusals import refused
from tests.report.browser import attribute, dom, needs_browser, scripted
from tests.report.test_report import Page, check_safe

ASIA, OIL = Path("models/asia.yaml"), Path("models/oil.yaml")


def shown(html: str) -> dict[tuple[int, int], float]:
    found = {}
    for button in re.findall(r"<button[^>]*>", html):
        values = dict(re.findall(r'data-(\w+)="([^"]*)"', button))
        found[int(values["variable"]), int(values["state"])] = float(values.get("p", "nan"))
    return found


def pressed(html: str, net, given, set_=()) -> str:
    """The page with some buttons pressed, which the script reads when it starts."""
    names = list(net.states)
    for name, state in given.items():
        at = f'data-variable="{names.index(name)}" data-state="{net.states[name].index(state)}" aria-pressed='
        assert f'{at}"false"' in html
        html = html.replace(f'{at}"false"', f'{at}"true"')
    for name in set_:
        html = html.replace(f'data-do="{names.index(name)}"', f'data-do="{names.index(name)}" checked')
    return html


def test_the_page_is_safe_and_has_every_state(capsys, tmp_path):
    path = tmp_path / "page.html"
    assert call(capsys, "explore", ASIA, "-o", path)[0] == 0
    page = Page(path.read_text(encoding="utf-8"))
    check_safe(page)
    net = network(ASIA)
    assert page.tags.count("button") == sum(map(len, net.states.values()))
    first = next(iter(net.states))
    assert f"{next(iter(net.query()[first].values())):.4f}" in page.text


@pytest.fixture(scope="module")
def two():
    names = np.array(["no", "yes"])
    rows = names[np.random.default_rng(1).integers(2, size=(40, 2))]
    states = {"states": ["no", "yes"]}
    model = bl.Model(name="two", model=bl.BayesNet(variables={"a": states, "b": states | {"parents": ["a"]}}), seed=1)
    return bl.fit(model, pd.DataFrame(rows, columns=["a", "b"]), runs=None, progress=False)


def test_pages_in_a_notebook_run_in_a_closed_frame(two):
    assert "data-net=" in two.explore().html
    shown = Page(two.explore()._repr_html_())
    assert shown.tags[-1] == "iframe" and shown.values("sandbox") == ["allow-scripts"]


def test_a_notebook_without_trust_shows_a_picture_instead(two, tmp_path):
    html = two.explore()._repr_html_()
    # JupyterLab removes frames, and style sheets with all inside.
    sanitised = re.sub(r"<(iframe|style)\b.*?</\1>", "", html, flags=re.DOTALL)
    assert "data-net" not in sanitised and "trusted notebook" in sanitised
    assert two._repr_html_() in sanitised
    # A network and an influence diagram are drawn.
    for model in (ASIA, OIL):
        sanitised = re.sub(r"<(iframe|style)\b.*?</\1>", "", bl.explore(model)._repr_html_(), flags=re.DOTALL)
        assert "data:image/svg+xml" in sanitised


def test_a_model_file_is_read_once(monkeypatch):
    paths = []
    read = model_file.read
    monkeypatch.setattr(model_file, "read", lambda path: paths.append(path) or read(path))
    assert "data-net" in bl.explore(ASIA).html and "Best decisions" in bl.explore(OIL).html
    assert paths == [ASIA, OIL]


def test_a_report_has_single_findings_within_a_quarter_of_the_limits(two, monkeypatch):
    monkeypatch.setattr(explorer, "_CELLS", 1)
    html = two.report().html
    check_safe(Page(html))
    assert "data-singles=" in html and "data-net=" not in html
    net = network(two)
    assert "data-singles=" in two.explore().html
    monkeypatch.setattr(single_findings, "_WORK", 2 * 4 * net.tree.forecast.total_entries)
    assert "data-singles=" in two.explore().html and "too large for a page" in two.report().html


def test_networks_and_run_folders_are_explored_from_python(tmp_path):
    net = network(ASIA)
    page = bl.explore(ASIA)
    assert page.alive and page.html == bl.explore(net).html == bl.explore(bl.load(ASIA)).html
    fit = bl.fit("models/trees.yaml", runs=tmp_path, progress=False)
    assert bl.explore(fit.folder).html == bl.explore(fit).html == fit.explore().html
    with refused("model.wrong-type", "a path, a model, a fit or plain data, not int"):
        bl.explore(3)


@pytest.mark.slow(why="compiles")
def test_a_model_without_columns_has_no_page():
    fit = bl.fit("models/coal_regimes.yaml", runs=None, progress=False, method="em")
    with pytest.raises(OptionError, match="no expected outcome"):
        fit.explore()


def test_sliders_alone():
    fit = bl.fit("models/trees.yaml", runs=None, progress=False)
    page = Page(fit.explore().html)
    check_safe(page)
    assert page.values("data-slider") == ["0", "1"] and "article" not in page.tags


def chain(variables: int, states: int = 3) -> bl.Network:
    """A chain of variables, with a side branch; the first state of the last variable is impossible."""
    rng = np.random.default_rng(5)
    words = {f"v{k}": tuple(f"s{j}" for j in range(states)) for k in range(variables)} | {"<side>": ("no", "yes & no")}
    names = list(words)
    parents = {name: (before,) for before, name in itertools.pairwise(names[:-1])} | {"<side>": ("v3",)}
    tables = {
        name: rng.dirichlet(np.ones(len(words[name])), [len(words[p]) for p in parents.get(name, ())]) for name in names
    }
    last = tables[names[-2]]
    last[:, 0] = 0
    last /= last.sum(axis=1, keepdims=True)
    return network(DiscreteNetwork(words, parents, tables, "chain"))


def single(html: str) -> tuple[dict, list[int]]:
    """What a page with single findings holds, and the numbers of its table, decoded apart from the page's script."""
    content = json.loads(attribute(html, "data-singles"))
    return content, list(np.frombuffer(base64.b64decode(content["table"]), "<u2"))


def test_larger_networks_have_single_findings(capsys, tmp_path):
    net = chain(70)
    net.write(tmp_path / "chain.bif")
    path = tmp_path / "page.html"
    assert call(capsys, "explore", tmp_path / "chain.bif", "-o", path)[0] == 0
    page = Page(path.read_text(encoding="utf-8"))
    check_safe(page)
    assert "single findings only" in page.text and "bayeslab query" in page.text
    assert page.tags.count("button") == 212 and not page.values("data-do")


def test_the_table_of_single_findings_is_that_of_queries():
    net = chain(61)
    html = explorer_of(net)
    content, numbers = single(html)
    prior = [round(1e4 * p) for of in net.query().marginals.values() for p in of.values()]
    row, at = 0, 0
    for name, states in net.states.items():
        for state in states:
            impossible = row in content["impossible"]
            assert impossible == (net.query()[name][state] == 0)
            truth = None if impossible else net.query({name: state})
            k = 0
            for other, words in net.states.items():
                same = numbers[at] == 65535
                found = prior[k : k + len(words)] if same else numbers[at : at + len(words)]
                at, k = at + (1 if same else len(words)), k + len(words)
                if truth is not None:
                    assert np.asarray(found) / 1e4 == pytest.approx(list(truth[other].values()), abs=5.1e-5)
            row += 1
    assert at == len(numbers) and content["impossible"]


@pytest.mark.parametrize(
    ("module", "limit"), [(single_findings, "_WORK"), (single_findings, "_FINDINGS"), (markup, "_BYTES")]
)
def test_the_largest_networks_have_no_buttons(monkeypatch, module, limit):
    monkeypatch.setattr(explorer, "_CELLS", 4)
    assert "data-singles" in network_panel(network(ASIA))
    monkeypatch.setattr(module, limit, 4)
    with pytest.raises(OptionError, match="too large for a page, even with single findings"):
        network_panel(network(ASIA))


@needs_browser
@pytest.mark.slow(why="processes")
def test_single_findings_give_the_probabilities_of_python(tmp_path):
    net = chain(70)
    html = explorer_of(net)
    names = list(net.states)
    for number, given in enumerate([{}, {"v40": "s1"}, {"<side>": "yes & no"}, {names[-2]: "s0"}]):
        impossible = number == 3
        truth = net.query({} if impossible else given)
        folder = tmp_path / str(number)
        folder.mkdir()
        made = dom(pressed(html, net, given), folder)
        numbers = shown(made)
        for v, (name, states) in enumerate(net.states.items()):
            for j, state in enumerate(states):
                assert numbers[v, j] == pytest.approx(truth[name][state], abs=1e-4)
        answer = unescape(re.search(r'class="answer"[^>]*>([^<]*)<', made)[1])
        listed = re.findall(r"<li>(.*?)</li>", made)
        if not given:
            assert answer == "Nothing is observed." and not listed
            continue
        [(name, state)] = given.items()
        assert f"{name} = {state}" in answer
        if impossible:
            assert "has probability 0" in answer and not listed
            continue
        assert f"its probability was {net.query()[name][state]:.4f}" in answer
        changes = {v: max(abs(p - net.query()[v][s]) for s, p in truth[v].items()) for v in names if v != name}
        first = unescape(listed[0]).partition(" = ")[0]
        assert 3 < len(listed) <= 10 and changes[first] == pytest.approx(max(changes.values()), abs=1e-4)


@needs_browser
@pytest.mark.slow(why="processes")
def test_a_second_click_takes_a_single_finding_back(tmp_path):
    net = chain(70)
    press = "document.querySelector(\"[data-variable='{}'][data-state='1']\").click();".format
    for number, (clicks, given) in enumerate([((2, 5), {"v5": "s1"}), ((2, 2), {})]):
        folder = tmp_path / str(number)
        folder.mkdir()
        numbers = shown(dom(scripted(explorer_of(net), "".join(map(press, clicks))), folder))
        truth = net.query(given)
        for v, (name, states) in enumerate(net.states.items()):
            assert [numbers[v, j] for j in range(len(states))] == pytest.approx(list(truth[name].values()), abs=1e-4)


@needs_browser
@pytest.mark.slow(why="processes")
def test_clicks_give_the_probabilities_of_python(tmp_path):
    net = network(ASIA)
    html = explorer_of(net)
    names = list(net.states)
    leaf = next(n for n in reversed(names) if not list(net.graph.successors(n)))
    cause = next(n for n in names if list(net.graph.predecessors(n)) and list(net.graph.successors(n)))
    given = {leaf: net.states[leaf][0]}
    action = {cause: net.states[cause][-1]}
    cases = [
        (html, net.query()),
        (pressed(html, net, given), net.query(given)),
        (pressed(html, net, given | action, [cause]), net.do(action).query(given)),
    ]
    for number, (page, truth) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        numbers = shown(dom(page, folder))
        for name, states in net.states.items():
            if name in action and number == 2:
                continue
            for j, state in enumerate(states):
                assert numbers[names.index(name), j] == pytest.approx(truth[name][state], abs=1e-9)


def brute_force(net, target, given, action):
    """Entropy of the target and its mutual information with each other variable, in bits, from the whole joint table.

    The joint probability is the product of the tables, without those of variables that are set.
    """
    names = list(net.states)
    joint = np.zeros([len(net.states[name]) for name in names])
    plain = net.plain
    for cell in itertools.product(*(range(n) for n in joint.shape)):
        at = dict(zip(names, cell, strict=True))
        fixed = {**given, **action}
        if any(net.states[name][at[name]] != state for name, state in fixed.items()):
            continue
        terms = [plain.tables[n][(*(at[p] for p in plain.parents[n]), at[n])] for n in names if n not in action]
        joint[cell] = np.prod(terms)
    joint /= joint.sum()

    def entropy(*kept):
        p = joint.sum(axis=tuple(k for k, name in enumerate(names) if name not in kept)).ravel()
        return -np.sum(p[p > 0] * np.log2(p[p > 0]))

    rest = [name for name in names if name != target and name not in given and name not in action]
    return entropy(target), {name: entropy(target) + entropy(name) - entropy(target, name) for name in rest}


@needs_browser
@pytest.mark.slow(why="processes")
def test_the_value_of_information_is_that_of_the_joint_table(tmp_path):
    net = network(ASIA)
    names = list(net.states)
    leaves = [n for n in names if not list(net.graph.successors(n))]
    target = next(n for n in names if list(net.graph.predecessors(n)) and list(net.graph.successors(n)))
    cause = next(n for n in net.graph.predecessors(target))
    given, action = {leaves[-1]: net.states[leaves[-1]][0]}, {cause: net.states[cause][0]}
    for number, (findings, actions) in enumerate([({}, {}), (given, {}), (given, action)]):
        html = pressed(explorer_of(net), net, findings | actions, list(actions))
        at = f'<option value="{names.index(target)}">{target}<'
        assert html.count(at) == 1
        folder = tmp_path / str(number)
        folder.mkdir()
        made = dom(html.replace(at, at.replace(">", " selected>", 1)), folder)
        now, truth = brute_force(net, target, findings, actions)
        shown = {names[int(v)]: float(bits) for v, bits in re.findall(r'<li data-of="(\d+)" data-bits="([^"]+)"', made)}
        assert shown == pytest.approx(truth, abs=1e-9)
        assert list(shown.values()) == sorted(shown.values(), reverse=True)
        assert float(re.search(r'class="entropy"[^>]*data-bits="([^"]+)"', made)[1]) == pytest.approx(now, abs=1e-9)
        acted = net.do(actions) if actions else net
        ours = {one.variable: one.bits for one in acted.information_value(target, findings)}
        assert {name: ours[name] for name in truth} == pytest.approx(truth, abs=1e-9)
