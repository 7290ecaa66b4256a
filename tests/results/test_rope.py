"""Regions of practical equivalence in summaries and reports."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.report.page import html_of
from tests.cli.calls import call
from tests.refusals import refused

Y = np.array([0.3, 1.9, 1.1, 0.2, 2.4])


@pytest.fixture(scope="module")
def fit(tmp_path_factory):
    """mu ~ Normal(0, 1) and y ~ Normal(mu, 1): the posterior of mu is Normal(sum(y) / 6, 1 / sqrt(6))."""
    nodes = {"mu": "Normal(0, 1)", "w[k]": "Normal(0, 1)", "y[day]": "Normal(mu, 1)"}
    model = bl.Model(name="level", data={"rows": "day"}, dims={"k": ["a", "b"]}, model=bl.Graph(nodes=nodes), seed=1)
    return bl.fit(model, {"y": Y}, runs=tmp_path_factory.mktemp("runs"), progress=False, draws=4000)


def test_the_share_is_the_posterior_probability(fit):
    law = stats.norm(Y.sum() / 6, 1 / np.sqrt(6))
    for low, high in [(0.5, 1.0), (-1.0, 0.0), (0.9, np.inf)]:
        truth = law.cdf(high) - law.cdf(low)
        n = fit.posterior["mu"].size
        share = fit.summary(rope={"mu": (low, high)}).loc["mu", "in_rope"]
        assert share == pytest.approx(truth, abs=4 * np.sqrt(truth * (1 - truth) / n))


def test_regions_of_all_of_nodes_and_of_rows(fit):
    table = fit.summary(rope=(-1, 1))
    draws = fit.posterior["w"].to_numpy()
    expected = [np.mean(np.abs(draws[..., k]) <= 1) for k in range(2)]
    assert table.loc[["w[a]", "w[b]"], "in_rope"].tolist() == pytest.approx(expected)
    assert list(table).index("in_rope") == list(table).index("eti89_ub") + 1
    table = fit.summary("w", rope={"w": (-1, 1), "w[b]": (5, 6)})
    assert table["in_rope"].tolist() == pytest.approx([expected[0], 0])
    assert np.isnan(fit.summary(rope={"w": (-1, 1)}).loc["mu", "in_rope"])
    assert "in_rope" not in fit.summary()


def test_what_is_no_region(fit):
    with refused("option.unknown-variable", "'mue'.*'mu'"):
        fit.summary(rope={"mue": (0, 1)})
    with refused("option.out-of-range", "above the upper end"):
        fit.summary(rope=(1, 0))
    with refused("option.wrong-type", "two numbers"):
        fit.summary(rope=3)


def test_reports_have_them(fit, capsys, tmp_path):
    file = tmp_path / "page.html"
    words = ["--rope", "w[a]=-1,1", "--rope", "mu=0.5,1"]
    assert call(capsys, "report", fit.folder, *words, "-o", file)[0] == 0
    page = file.read_text()
    share = fit.summary(rope={"w[a]": (-1, 1)}).loc["w[a]", "in_rope"]
    assert f"<td>{share:.3f}</td>" in page and "(ROPE): mu from 0.5 to 1, w[a] from -1 to 1." in page
    assert "in_rope" not in html_of({"level": fit})
    code, _, error = call(capsys, "report", fit.folder, "--rope", "mu=1", "-o", tmp_path / "b.html")
    assert code == 2 and "NAME=LOW,HIGH" in error
