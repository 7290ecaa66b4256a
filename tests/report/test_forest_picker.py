"""Forest plots of rows of choice: what the page's script draws."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from bayeslab.report.charts import Interval
from bayeslab.report.forest_picker import finite, picker
from bayeslab.report.markup import joined
from bayeslab.report.page import document
from tests.report.browser import attribute, dom, needs_browser
from tests.report.test_report import EVIL, Page, check_safe

RNG = np.random.default_rng(5)


def rows(labels):
    means = RNG.normal(size=len(labels))
    return [
        Interval(label, m, [(m - w, m + w) for w in (0.1, 0.1 * k + 0.2, 10)])
        for k, (label, m) in enumerate(zip(labels, means, strict=True))
    ]


VECTORS = {"a": rows([f"county {k}" for k in range(80)]), f"b{EVIL}": rows(["x", f"{EVIL}"])}


def page():
    return document("picker", joined([picker(VECTORS)]))


def drawn(html: str) -> dict[str, float]:
    circles = re.findall(r"<circle[^>]*>", html)
    return {attribute(circle, "data-row"): float(attribute(circle, "data-mean")) for circle in circles}


def test_the_panel_is_safe_and_its_numbers_are_those_of_the_rows():
    made = Page(page())
    check_safe(made)
    content = json.loads(attribute(page(), "data-forest"))
    assert [part["name"] for part in content] == list(VECTORS)
    for part, given in zip(content, VECTORS.values(), strict=True):
        numbers = [[row.middle, *np.ravel(row.ends)] for row in given]
        np.testing.assert_allclose([row[1:] for row in part["rows"]], numbers, rtol=1e-5)
    # Every control is inside its label.
    assert made.tags.count("label") == made.tags.count("select") + made.tags.count("input") == 4
    assert picker({}) == ""


def test_rows_without_numbers_are_left_out():
    good = Interval("a", 0.0, [(-1.0, 1.0)])
    assert finite([good, Interval("b", np.nan, [(0, 1)]), Interval("c", 0.0, [(-np.inf, 1)])]) == [good]


@needs_browser
@pytest.mark.slow(why="processes")
def test_the_script_draws_the_rows_that_are_chosen(tmp_path):
    """Controls are set in the page, where the script reads them when it starts."""

    def shown(html, name):
        folder = tmp_path / name
        folder.mkdir()
        return dom(html, folder)

    first = {row.label: row.middle for row in VECTORS["a"]}
    made = shown(page(), "all")
    assert drawn(made) == pytest.approx(dict(list(first.items())[:60]), rel=1e-5)
    assert "80 of 80 rows of a, of which the first 60 are drawn" in made
    some = page()
    for k in (3, 70):
        some = some.replace(f'<option value="{k}">county {k}<', f'<option value="{k}" selected>county {k}<')
    made = shown(some, "some")
    assert drawn(made) == pytest.approx({f"county {k}": first[f"county {k}"] for k in (3, 70)}, rel=1e-5)
    by_mean = page().replace('value="mean"', 'value="mean" selected')
    assert list(drawn(shown(by_mean, "mean"))) == sorted(first, key=lambda k: -first[k])[:60]
    by_width = page().replace('value="width"', 'value="width" selected')
    assert list(drawn(shown(by_width, "width"))) == list(first)[:19:-1]
    searched = page().replace('placeholder="any text"', 'placeholder="any text" value="COUNTY 7"')
    assert list(drawn(shown(searched, "search"))) == ["county 7", *(f"county {k}" for k in range(70, 80))]
    second = page().replace('<option value="1">', '<option value="1" selected>', 1)
    assert list(drawn(shown(second, "second"))) == ["x", EVIL]
