"""Effects of a report: what the page computes from sliders is what Python predicts from the same draws."""

from __future__ import annotations

import json
import re
from html import escape

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.errors import DataError
from bayeslab.report.effects import panel, section
from bayeslab.report.page import html_of
from bayeslab.report.what_if import INVERSE, what_if
from bayeslab.results.effects.quantities import predictions
from bayeslab.results.thinned import thinned
from tests.report.browser import attribute, dom, needs_browser

EVIL = '"><script>alert(1)</script>'


def table(n=60):
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "z": rng.uniform(1, 3, size=n),
            "g": np.array(["a", "b", EVIL])[rng.integers(3, size=n)],
            "h": np.array(["u", "v", "w", "q"])[rng.integers(4, size=n)],
        }
    )
    rows["y"] = 1 + rows.x * (rows.g == "a") + np.log(rows.z) + rng.normal(size=n)
    rows["hit"] = (rng.uniform(size=n) < 1 / (1 + np.exp(-rows.x))).astype(int)
    return rows


def fitted(formula, **options):
    method = options.pop("method", None)
    model = bl.Model(name="line", model=bl.Regression(formula=formula, **options), seed=1)
    return (
        bl.fit(model, table(), runs=None, progress=False, method=method)
        if method
        else bl.fit(model, table(), runs=None, progress=False)
    )


@pytest.fixture(scope="module")
def fit():
    return fitted("y ~ x * g + poly(z, 2) + x:log(z)")


def compare(fit, rows=6):
    few, _ = thinned(fit, 400)
    found = what_if(few)
    rng = np.random.default_rng(3)
    at = np.stack([rng.integers(0, len(s.values), rows) for s in found.sliders], axis=1)
    made = found.values(at)
    for k, row in enumerate(at):
        where = {s.name: s.values[j] for s, j in zip(found.sliders, row, strict=True)}
        truth = predictions(few, at=where).table
        ours = [made[:, k].mean(), *np.quantile(made[:, k], [0.055, 0.945])]
        assert ours == pytest.approx(truth[["mean", "eti89_lb", "eti89_ub"]].to_numpy()[0], rel=1e-9, abs=1e-9)
    return found


def test_sums_of_functions_are_predictions(fit):
    found = compare(fit)
    assert found.inverse == "identity" and {len(part.of) for part in found.parts} == {1, 2}
    ranks = {part.of: part.left.shape[1] for part in found.parts}
    names = [s.name for s in found.sliders]
    # A line, two levels beside the first, a parabola and the logarithm; x with g has a slope for each other level, x with z one.
    x, g, z = (names.index(name) for name in "xgz")
    assert ranks == {(x,): 1, (g,): 2, (z,): 3, (min(x, g), max(x, g)): 2, (min(x, z), max(x, z)): 1}


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize(("link", "inverse"), [("logit", "logistic"), ("probit", "normal")])
def test_inverse_links(link, inverse):
    assert (
        compare(fitted("hit ~ x + g + (1 | h)", likelihood="Bernoulli", link=link, method="laplace")).inverse == inverse
    )


def test_three_predictors_that_interact_have_no_sliders():
    with pytest.raises(DataError, match="three or more of its predictors interact"):
        what_if(thinned(fitted("y ~ x * g * z"), 50)[0])


def test_the_section_of_a_report(fit):
    html = html_of({"line": fit})
    assert "<h2>Effects</h2>" in html and "Comparisons of the expected outcome" in html and 'type="range"' in html
    assert EVIL not in html and html.count("<script") == 1
    content = json.loads(attribute(html, "data-model"))
    assert content["inverse"] == "identity" and len(content["base"]) == 400
    assert 'class="whatif"' not in html_of(
        {"p": bl.fit("models/eight_schools.yaml", runs=None, progress=False, method="map")}
    )


@needs_browser
@pytest.mark.slow(why="processes")
@pytest.mark.parametrize("inverse", list(INVERSE))
def test_the_page_computes_what_python_predicts(fit, tmp_path, inverse):
    """Sliders are moved by their first values, which the script reads when it starts."""
    few, _ = thinned(fit, 400)
    found = what_if(few)
    html = html_of({"line": fit})
    content = json.loads(attribute(html, "data-model")) | {"inverse": inverse}
    html = re.sub(r'data-model="[^"]*"', lambda _: f'data-model="{escape(json.dumps(content))}"', html)
    at = found.start()
    for k, slider in enumerate(found.sliders):
        if slider.numeric:
            at[k] = len(slider.values) - 3
            html = re.sub(rf'value="\d+" data-slider="{k}"', f'value="{at[k]}" data-slider="{k}"', html)
    shown = dom(html, tmp_path)
    linear = found.linear(at[None])[:, 0]
    values = INVERSE[inverse](linear)
    truth = [values.mean(), *np.quantile(values, [0.055, 0.945])]
    assert json.loads(attribute(shown, "data-numbers")) == pytest.approx(truth, rel=1e-6)
    if inverse == "identity":
        where = {s.name: s.values[j] for s, j in zip(found.sliders, at, strict=True)}
        frame = predictions(few, at=where).table[["mean", "eti89_lb", "eti89_ub"]]
        assert json.loads(attribute(shown, "data-numbers")) == pytest.approx(frame.to_numpy()[0], rel=1e-6)


def test_values_far_from_zero_differ_on_the_page():
    """Such as milliseconds since 1970: seven digits do not tell them apart."""
    data = table().assign(t=lambda rows: 1.7e12 + 60 * np.arange(len(rows)))
    model = bl.Model(name="late", model=bl.Regression(formula="y ~ t + x"), seed=1)
    late = bl.fit(model, data, runs=None, progress=False)
    found = compare(late)
    content = json.loads(attribute(str(panel(found)), "data-model"))
    for slider, words in zip(found.sliders, content["values"], strict=True):
        assert [float(word) for word in words] == pytest.approx(slider.values, rel=1e-7, abs=1e-6)
        assert len(set(words)) == len(words) == len(set(slider.values))


def test_a_predictor_that_cannot_change_by_one_leaves_the_comparisons_of_others():
    """Unit changes lead beyond the sines of a Gaussian process over a short range."""
    model = bl.Model(name="short", model=bl.Regression(formula="y ~ gp(t, k=5) + x"), seed=1)
    data = table().assign(t=lambda rows: rows.z / 10)
    short = bl.fit(model, data, runs=None, progress=False, draws=50, chains=2)
    page = str(section(short))
    assert "There is no comparison of t: gp(t, k=5): " in page
    assert "beyond the domain of its sines" in page
    assert ">x +1<" in page
