"""Priors beside the posterior: their texts by quantity, and their densities under those of the posterior."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.report import charts
from bayeslab.report.page import html_of
from bayeslab.report.priors import Priors, priors_of

GRID = np.linspace(0.1, 3, 7)


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("Normal(1, 2)", stats.norm(1, 2)),
        ("HalfNormal(1 / 2)", stats.halfnorm(0, 0.5)),
        ("Exponential(2)", stats.expon(0, 0.5)),
        ("StudentT(3, 0, 2)", stats.t(3, 0, 2)),
        ("Gamma(alpha=2, beta=3)", stats.gamma(2, 0, 1 / 3)),
    ],
)
def test_densities_of_priors(text, truth):
    known = Priors({"a": text}).density("a[x]")
    assert known(GRID) == pytest.approx(truth.pdf(GRID))


@pytest.mark.parametrize(
    "text", ["Normal(mu, 1)", "Flat()", "Dirichlet([1, 1])", "2 * a", "horseshoe of scale tau", ""]
)
def test_priors_without_a_density(text):
    assert Priors({"a": text}).density("a") is None


def test_priors_of_a_regression_belong_to_its_rows():
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"x": rng.normal(size=12), "y": rng.normal(size=12)})
    model = bl.Model(
        name="line", model=bl.Regression(formula="y ~ x", priors={"x": "Normal(0, 3)", "sigma": "Exponential(1)"})
    )
    fit = bl.fit(model, table, runs=None, seed=1, progress=False)
    known = priors_of(fit)
    assert known.text("b[x]") == "Normal(0, 3)" and known.text("sigma") == "Exponential(1)"
    assert known.text("b[z]") == "" and known.text("Intercept") == ""
    html = html_of({"line": fit})
    cells = re.search(r'<th scope="row">b\[x\]</th>(.*?)</tr>', html)[1]
    assert "Normal(0, 3)" in cells and "dashed its prior Normal(0, 3)" in html


def test_priors_of_a_graph_are_those_of_its_nodes():
    model = bl.Model(
        name="level",
        data={"rows": "day"},
        model=bl.Graph(nodes={"mu": "Normal(0, 1)", "sigma": "HalfNormal(2)", "y[day]": "Normal(mu, sigma)"}),
    )
    fit = bl.fit(model, pd.DataFrame({"y": [0.3, 1.9, 1.1]}), runs=None, seed=1, progress=False, method="map")
    assert dict(priors_of(fit).texts) == {"mu": "Normal(0, 1)", "sigma": "HalfNormal(2)"}


def test_prior_and_posterior_have_one_scale():
    """Draws from the prior: the smoothed density lies on the prior's line."""
    truth = stats.norm(2, 3)
    draws = truth.ppf((np.arange(20_000) + 0.5) / 20_000)
    made = charts.density(draws, [(0.0, 1.0)] * 3, "a", "says", truth.pdf)
    shape, line = (
        np.array([[float(v) for v in point.split()[:2]] for point in path.removesuffix("Z").split("L")])
        for path in re.findall(r'd="M([^"]+)"', made)
    )
    inner = shape[10:-10]
    assert np.interp(inner[:, 0], *line.T) == pytest.approx(inner[:, 1], abs=1.2)


def test_a_prior_above_the_posterior_is_cut_off():
    draws = np.linspace(0, 1, 500)
    made = charts.density(draws, [(0.0, 1.0)] * 3, "a", "says", lambda x: np.where(x > 0.5, np.inf, 1.0))
    assert "nan" not in made and "inf" not in made and 'class="prior"' in made
