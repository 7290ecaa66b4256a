"""Thresholds of choice: edges of sampled structures, and costs of errors of a learner."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.report.page import html_of
from tests.report.browser import attribute, dom, needs_browser, scripted
from tests.report.test_report import EVIL, Page, check_safe


@pytest.fixture(scope="module")
def structures():
    rng = np.random.default_rng(2)
    a = rng.integers(2, size=60)
    columns = {"a": a, EVIL: np.where(rng.random(60) < 0.8, a, 1 - a), "c": rng.integers(2, size=60)}
    spec = {"family": "bayes_net", "structure": {"score": "bdeu"}}
    spec["variables"] = {name: {"states": ["0", "1"]} for name in columns}
    model = bl.Model(name="three", model=spec, seed=1)
    return bl.fit(model, pd.DataFrame(columns).astype(str), runs=None, progress=False)


@pytest.fixture(scope="module")
def learner():
    rng = np.random.default_rng(3)
    x = rng.normal(size=80)
    sick = np.where(x + rng.normal(size=80) > 0.5, "sick", "well")
    spec = {"family": "learner", "target": "state", "learner": "naive_bayes"}
    return bl.fit(
        bl.Model(name="who", model=spec, seed=1), pd.DataFrame({"x": x, "state": sick}), runs=None, progress=False
    )


def costs(learner, ratio):
    """Threshold, misses, false alarms and cost a row, from the table of held-out rows."""
    table = learner.learner.left_out()
    positive = learner.learner.confusion().index[1]
    predicted = table[f"P(state={positive})"] > 1 / (1 + ratio)
    missed = int(((table["state"] == positive) & ~predicted).sum())
    false = int(((table["state"] != positive) & predicted).sum())
    return [1 / (1 + ratio), missed, false, (ratio * missed + false) / len(table)]


def expected_edges(structures, least):
    p = structures.structures.edges()["probability"]
    return [int((p >= least).sum()), float((1 - p[p >= least]).sum())]


def test_edges_are_on_the_page_with_their_probabilities(structures):
    page = Page(html_of({"s": structures}))
    check_safe(page)
    table = structures.structures.edges(least=0.01)
    assert [float(p) for p in page.values("data-p")] == pytest.approx(table["probability"].tolist())
    n, false = expected_edges(structures, 0.5)
    assert f"{n} edges have a probability of 0.5 or more; {false:.2f} of them are expected to be false." in page.text
    assert page.html.count('class="edge"') == n and page.html.count('class="edge off"') == len(table) - n


def test_errors_of_a_learner_have_costs_and_calibration(learner):
    page = Page(html_of({"l": learner}))
    check_safe(page)
    _, missed, false, mean = costs(learner, 1)
    assert f"threshold 0.5: {missed} missed, {false} false; cost {mean:.4g} a row" in page.text
    assert "Observed frequencies of the class over its predicted probabilities" in page.text
    counts = learner.learner.confusion().to_numpy()
    assert [counts[1, 0], counts[0, 1]] == [missed, false]


def test_learners_of_three_classes_have_no_slider_of_costs():
    data = pd.DataFrame({"x": np.arange(30.0), "state": list("abc") * 10})
    spec = {"family": "learner", "target": "state", "learner": "naive_bayes"}
    fit = bl.fit(bl.Model(name="three", model=spec, seed=1), data, runs=None, progress=False)
    assert 'class="costs"' not in html_of({"l": fit})


@needs_browser
@pytest.mark.slow(why="processes")
@pytest.mark.parametrize("which", ["edges", "costs"])
def test_sliders_give_the_numbers_of_python(structures, learner, which, tmp_path):
    fit, values = {"edges": (structures, (0.3, 0.9)), "costs": (learner, (-3, 4.5))}[which]
    reader = f"""
    const slider = document.querySelector(".{which} input"), numbers = [];
    for (const value of {list(values)}) {{
      slider.value = value; slider.dispatchEvent(new Event("input"));
      numbers.push(JSON.parse(document.querySelector(".{which} .answer").dataset.numbers));
    }}
    document.body.dataset.numbers = JSON.stringify(numbers);
    """
    shown = dom(scripted(html_of({"a": fit}), reader), tmp_path)
    answers = json.loads(attribute(re.search(r"<body[^>]*>", shown)[0], "data-numbers"))
    if which == "costs":
        truth = [costs(learner, 2.0**value) for value in values]
    else:
        truth = [expected_edges(structures, value) for value in values]
        assert shown.count('class="edge"') == truth[-1][0]
    for ours, theirs in zip(answers, truth, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-9)
